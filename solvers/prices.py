"""What devices cost: a price for each type of accelerator and for a CPU, per hour or to buy, in any currency."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from solvers.deployment import Deployment
from solvers.errors import PlacementError

MAX_PRICE = 1e9

ANY_ACCELERATOR = "accelerator"
"""The type of accelerators of which nobody says what they are."""


class PriceBasis(StrEnum):
    """What a price is for: an hour of use, or the device itself."""

    PER_HOUR = "per hour"
    TO_BUY = "to buy"


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """How many accelerators of each type there are, by the names that prices go by, and how many CPUs."""

    accelerators: tuple[tuple[str, int], ...]
    num_cpus: int = 0

    @classmethod
    def of(cls, deployment: Deployment, name: str = ANY_ACCELERATOR) -> "DeviceCounts":
        """Count the devices of a deployment by class; `name` is the type of accelerators that are all alike."""
        counts = tuple((one.name, one.count) for one in deployment.classes)
        return cls(counts or ((name, deployment.num_accelerators),), deployment.num_cpus)

    @property
    def num_accelerators(self) -> int:
        """Accelerators of all types together."""
        return sum(count for _, count in self.accelerators)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of one accelerator and of one CPU; `of` names types of accelerators with prices of their own.

    Raises PlacementError for what is no price.

    >>> prices = Prices(accelerator=1.0, of=(("A100-80", 4.0), ("T4", 0.5)))
    >>> prices.cost(DeviceCounts((("A100-80", 2), ("T4", 4), ("L4", 1))))
    11.0
    """

    accelerator: float = 1.0
    cpu: float = 0.0
    of: tuple[tuple[str, float], ...] = ()
    basis: PriceBasis = PriceBasis.PER_HOUR

    def __post_init__(self) -> None:
        for what, price in (("an accelerator", self.accelerator), ("a CPU", self.cpu), *self.of):
            if not 0 <= price <= MAX_PRICE:
                raise PlacementError(f"A price of {price:g} for {what}: give a number from 0 to {MAX_PRICE:g}.")

    def price_of(self, name: str) -> float:
        """Return the price of one accelerator of a type."""
        return dict(self.of).get(name, self.accelerator)

    def cost(self, counts: DeviceCounts) -> float:
        """Return what devices cost together, used or idle: for an hour, or to buy."""
        return sum(count * self.price_of(name) for name, count in counts.accelerators) + counts.num_cpus * self.cpu

    def checked(self, names: Iterable[str]) -> "Prices":
        """Return these prices; PlacementError where one is of a type that is not among the names."""
        known = tuple(names)
        for name, _ in self.of:
            if name not in known:
                raise PlacementError(f"There is a price of {name} and no such device; there are {', '.join(known)}.")
        return self
