"""What hardware costs, per hour or to buy, in any currency.

There is a price for each type of accelerator and for a CPU; and for memory and links, where a sweep varies them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.quantities import as_given

MAX_PRICE = 1e9

CURRENCY = re.compile(r"[^\W\d_]{1,5}|[$€£¥₩₹]")
"""What is taken for a currency: the letters of its code or name, or a sign."""

ANY_ACCELERATOR = "accelerator"
"""The type of accelerators of which nobody says what they are."""


class PriceBasis(StrEnum):
    """What a price is for: an hour of use, or the device itself."""

    PER_HOUR = "per hour"
    TO_BUY = "to buy"


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """How many accelerators of each type there are, by the names that prices go by, and how many CPUs.

    Where a sweep varies them, also what all accelerators together have of memory, in GiB, and of links, in GB/s or in
    multiples of the links as they are.
    """

    accelerators: tuple[tuple[str, int], ...]
    num_cpus: int = 0
    memory_gib: float = 0.0
    link_speed: float = 0.0

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

    `accelerator` is for all types that have none of their own; None where nobody gave one. Then those without a price
    have none, unless no type has any: so each accelerator counts as 1. `memory` is for a GiB, `link` for a GB/s of one
    accelerator's link or for the link as it is, see `DeviceCounts`. Raises PlacementError for what is no price, and for
    a `currency` that is neither letters nor a sign.

    >>> prices = Prices(accelerator=1.0, of=(("A100-80", 4.0), ("T4", 0.5)))
    >>> prices.cost(DeviceCounts((("A100-80", 2), ("T4", 4), ("L4", 1))))
    11.0
    """

    accelerator: float | None = None
    cpu: float = 0.0
    of: tuple[tuple[str, float], ...] = ()
    basis: PriceBasis = PriceBasis.PER_HOUR
    memory: float = 0.0
    link: float = 0.0
    currency: str = ""

    def __post_init__(self) -> None:
        of_all = (("an accelerator", self.accelerator), ("a CPU", self.cpu), ("memory", self.memory))
        for what, price in (*of_all, ("links", self.link), *self.of):
            if price is not None and not 0 <= price <= MAX_PRICE:
                raise PlacementError(
                    f"A price of {as_given(price)} for {what}: give a number from 0 to {as_given(MAX_PRICE)}."
                )

        if self.currency and not CURRENCY.fullmatch(self.currency):
            raise PlacementError(
                f"A currency of {self.currency[:20]!r}: give up to five letters such as EUR, or a sign."
            )

    @property
    def unit(self) -> str:
        """What costs are counted in.

        >>> Prices(currency="EUR").unit, Prices(basis=PriceBasis.TO_BUY).unit
        ('EUR per hour', 'to buy')
        """
        return f"{self.currency} {self.basis}".strip()

    @property
    def money(self) -> str:
        """What a unit of it is called: the currency, if it is known."""
        return self.currency or "unit of money"

    @property
    def count_alike(self) -> bool:
        """Whether no accelerator has a price, so that each counts as 1."""
        return self.accelerator is None and not self.of

    @property
    def has_none(self) -> bool:
        """Whether nothing has a price, so that costs are numbers of accelerators."""
        return self.count_alike and not (self.cpu or self.memory or self.link)

    def price_of(self, name: str) -> float | None:
        """Return the price of one accelerator of a type; None where only others have one."""
        return 1.0 if self.count_alike else dict(self.of).get(name, self.accelerator)

    def cost(self, counts: DeviceCounts) -> float | None:
        """Return what hardware costs together, used or idle: for an hour, or to buy; None where a type has no price.

        The sum is that of the prices as they are written, in decimals: three at 1.1 cost 3.3.
        """
        total = counts.num_cpus * Decimal(str(self.cpu))
        total += Decimal(str(counts.memory_gib)) * Decimal(str(self.memory))
        total += Decimal(str(counts.link_speed)) * Decimal(str(self.link))
        for name, count in counts.accelerators:
            price = self.price_of(name)
            if price is None:
                return None
            total += count * Decimal(str(price))
        return float(total)

    def among(self, names: Iterable[str]) -> "Prices":
        """Return these prices by the very names of types, whatever the case they are written in; others are left out.

        Several classes of one device are named like "A100-80" and "A100-80 pcie4-x16": the price of the first is that
        of all which have none of their own.

        >>> Prices(of=(("t4", 0.5), ("L4", 0.6))).among(("T4", "T4 pcie3-x16")).of
        (('T4', 0.5), ('T4 pcie3-x16', 0.5))
        """
        known = tuple(names)
        exact = dict(self.of)
        folded = {name.casefold(): price for name, price in self.of if name not in known}

        def own(name: str) -> float | None:
            return exact.get(name, folded.get(name.casefold()))

        found = []
        for name in known:
            device, price = name.partition(" ")[0], own(name)
            if price is None and device in known:
                price = own(device)
            if price is not None:
                found.append((name, price))
        return replace(self, of=tuple(found))

    def lacking(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the types among the names that have no price though others have one."""
        return tuple(name for name in names if self.price_of(name) is None)

    def checked(self, names: Iterable[str]) -> "Prices":
        """Return these prices by the names of types, see `among`.

        Raises PlacementError where a price is of a type that is not among them, and where a type has no price.
        """
        known = tuple(names)
        folded = {name.casefold() for name in known}
        for name, _ in self.of:
            if name.casefold() not in folded:
                raise PlacementError(f"There is a price of {name} and no such device; there are {', '.join(known)}.")
        prices = self.among(known)
        if lacking := prices.lacking(known):
            raise PlacementError(
                f"There is no price of {', '.join(lacking)}; give it too, or one price for all that have none of their "
                "own."
            )
        return prices
