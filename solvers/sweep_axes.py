"""What a sweep varies: one quantity of the hardware or of the question, with its values in order.

Along a quantity that is monotone every plan that is valid at a harder value is valid at an easier one and takes no
longer there, so that the optimum can only fall: more accelerators or CPUs (the added ones may idle), more memory,
faster links, fewer micro-batches in flight. That makes neighbours useful to each other, see `solvers.sweep`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from solvers.catalogue import catalogue
from solvers.costs import Objective
from solvers.deployment import Deployment
from solvers.device_list import device_classes, devices_text, groups, is_of_catalogue, parse_devices
from solvers.equipment import Equipment, equip
from solvers.errors import DeploymentError, PlacementError
from solvers.graph import DnnGraph
from solvers.quantities import binary_size

MAX_VALUES = 1000
"""More values on one axis than any picture shows."""

Value = float | str


class Quantity(StrEnum):
    """What may be varied: memory in bytes, bandwidth in bytes/ms, its factor on that of the graph.

    Devices are lists as `solvers.device_list` reads them, such as "A100-80" or "2xA100-80+4xT4".
    """

    ACCELERATORS = "accelerators"
    CPUS = "cpus"
    MEMORY = "memory"
    BANDWIDTH = "bandwidth"
    BANDWIDTH_FACTOR = "bandwidth factor"
    MICRO_BATCHES = "micro-batches"
    OBJECTIVE = "objective"
    DEVICES = "devices"

    @property
    def is_monotone(self) -> bool:
        """Whether the optimum never rises from a harder value to an easier one."""
        return self not in (Quantity.OBJECTIVE, Quantity.DEVICES)

    @property
    def is_easier_when_less(self) -> bool:
        """Whether smaller values are the easier ones."""
        return self is Quantity.MICRO_BATCHES

    @property
    def is_of_devices(self) -> bool:
        """Whether it is the deployment that changes, not transfer times or the objective."""
        return self not in (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR, Quantity.OBJECTIVE)

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers."""
        return self in (Quantity.ACCELERATORS, Quantity.CPUS, Quantity.MICRO_BATCHES)

    @property
    def label(self) -> str:
        """What an axis is labelled with, with the unit in which `shown` writes values."""
        return {
            Quantity.ACCELERATORS: "Accelerators",
            Quantity.CPUS: "CPUs",
            Quantity.MEMORY: "Memory per accelerator (GiB)",
            Quantity.BANDWIDTH: "Bandwidth of links (GB/s)",
            Quantity.BANDWIDTH_FACTOR: "Bandwidth (multiple of the file's)",
            Quantity.MICRO_BATCHES: "Micro-batches in flight",
            Quantity.OBJECTIVE: "Objective",
            Quantity.DEVICES: "Devices",
        }[self]

    def shown(self, value: Value) -> Value:
        """Return a value in the unit of `label`: GiB for memory, GB/s for bandwidth, whole numbers as such."""
        if isinstance(value, str):
            return value
        if self is Quantity.MEMORY:
            return value / 2**30
        if self is Quantity.BANDWIDTH:
            return value / 1e6
        return int(value) if self.is_whole else value

    def text(self, value: Value) -> str:
        """Write a value with its unit.

        >>> Quantity.MEMORY.text(2**30), Quantity.BANDWIDTH.text(16e6), Quantity.ACCELERATORS.text(4)
        ('1 GiB', '16 GB/s', '4 accelerators')
        """
        if isinstance(value, str):
            return value
        if self is Quantity.MEMORY:
            return binary_size(value)
        if self is Quantity.BANDWIDTH:
            return f"{value / 1e6:.4g} GB/s"
        if self is Quantity.BANDWIDTH_FACTOR:
            return f"{value:.4g} x bandwidth"
        noun = {Quantity.CPUS: "CPU", Quantity.ACCELERATORS: "accelerator"}.get(self, "micro-batch")
        plural = "es" if noun.endswith("ch") else "s"
        return f"{value:.0f} {noun}{'' if value == 1 else plural}"


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity and its values, in ascending order where they are numbers.

    Raises PlacementError for no values, too many, equal ones, or values that the quantity does not take.
    """

    quantity: Quantity
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        quantity, values = self.quantity, self.values
        if not values:
            raise PlacementError(f"The sweep over {quantity} has no values; give at least one.")
        if len(values) > MAX_VALUES:
            raise PlacementError(f"The sweep over {quantity} has {len(values)} values; give up to {MAX_VALUES}.")
        if quantity is Quantity.OBJECTIVE:
            checked: tuple[Value, ...] = tuple(Objective(str(value)) for value in values)
        elif quantity is Quantity.DEVICES:
            checked = tuple(devices_text(parse_devices(str(value))) for value in values)
        else:
            if any(isinstance(value, str) for value in values):
                raise PlacementError(f"The sweep over {quantity} takes numbers.")
            if quantity.is_whole and any(value != int(value) for value in values):
                raise PlacementError(f"The sweep over {quantity} takes whole numbers.")
            checked = tuple(sorted(int(value) if quantity.is_whole else float(value) for value in values))
        if len(set(checked)) < len(checked):
            raise PlacementError(f"The sweep over {quantity} has a value twice; keep one.")
        object.__setattr__(self, "values", checked)

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values are better drawn by their logarithms: they span a decade or grow by equal factors."""
        numbers = [float(value) for value in self.values if not isinstance(value, str)]
        if self.quantity in (Quantity.ACCELERATORS, Quantity.CPUS) or len(numbers) < 3:
            return False
        return numbers[0] > 0 and numbers[-1] / numbers[0] >= 8 and not _is_even(numbers)


def _is_even(numbers: Sequence[float]) -> bool:
    """Whether the numbers are equally far apart."""
    steps = [b - a for a, b in pairwise(numbers)]
    return max(steps) <= 1.01 * min(steps)


@dataclass(frozen=True, slots=True)
class Asked:
    """One point of a sweep as a question: graph, devices, objective."""

    graph: DnnGraph
    deployment: Deployment
    objective: Objective


def in_order(changes: Iterable[tuple[Quantity, Value]]) -> list[tuple[Quantity, Value]]:
    """Return changes in the order they are made: devices first, for they bring memory and links of their own."""
    return sorted(changes, key=lambda change: change[0] is not Quantity.DEVICES)


def asked_at(base: Asked, quantity: Quantity, value: Value) -> Asked:
    """Return a question with one quantity changed; GraphError or DeploymentError where that is not possible."""
    if quantity is Quantity.OBJECTIVE:
        return replace(base, objective=Objective(str(value)))
    if quantity is Quantity.DEVICES:
        return _on_devices(base, str(value))
    number = float(value)
    if quantity is Quantity.BANDWIDTH:
        return replace(base, graph=base.graph.with_bandwidth(number))
    if quantity is Quantity.BANDWIDTH_FACTOR:
        return replace(base, graph=base.graph.with_bandwidth_factor(number))
    return replace(base, deployment=_deployment_at(base.deployment, quantity, number))


def _on_devices(base: Asked, text: str) -> Asked:
    """Return a question on a list of devices: of the catalogue, or relative to the times of the graph."""
    kinds, devices = parse_devices(text), catalogue()
    if is_of_catalogue(kinds, devices):
        equipped = equip(base.graph, base.deployment, Equipment(groups(kinds, devices, base.graph.times)), devices)
        return replace(base, graph=equipped.graph, deployment=equipped.deployment)
    classes = device_classes(kinds)
    total = sum(device_class.count for device_class in classes)
    deployment = replace(base.deployment, num_accelerators=total, memory_bytes=None, classes=classes)
    return replace(base, deployment=deployment)


def _deployment_at(deployment: Deployment, quantity: Quantity, number: float) -> Deployment:
    changes: dict[str, Any]
    if quantity is Quantity.MICRO_BATCHES:
        memory = deployment.training_memory
        if memory is None:
            raise DeploymentError(
                "Micro-batches change what fits only under a training schedule's memory; choose one, such as "
                "--memory-schedule 1f1b, or sweep something else."
            )
        changes = {"training_memory": replace(memory, num_micro_batches=int(number))}
    elif quantity is Quantity.MEMORY:
        changes = {"memory_bytes": number}
    else:
        changes = {"num_accelerators" if quantity is Quantity.ACCELERATORS else "num_cpus": int(number)}
    return replace(deployment, **changes)
