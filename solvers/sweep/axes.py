"""What a sweep varies: one quantity of the hardware or of the question, with its values in order.

Along a quantity that is monotone every plan that is valid at a harder value is valid at an easier one and takes no
longer there, so that the optimum can only fall: more accelerators of any class or CPUs (the added ones may idle), more
memory, faster links, fewer micro-batches in flight. (Where servers have faster links inside, one accelerator more of a
class may move those of the classes after it to other servers; bounds are of plans with fast links everywhere and hold,
and plans are evaluated anew.) That makes neighbours useful to each other, see
`solvers.sweep.run`.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

from solvers.hardware.catalogue import catalogue
from solvers.hardware.device_list import (
    Listed,
    device_classes,
    devices_text,
    groups,
    is_of_catalogue,
    parse_devices,
    with_relative,
)
from solvers.hardware.devices import Catalogue
from solvers.hardware.equipment import Equipment, Equipped, Group, equip
from solvers.model.costs import Objective
from solvers.model.deployment import LARGEST_FACTOR, LEAST_FACTOR, Deployment, DeviceClass
from solvers.model.errors import DeploymentError, PlacementError
from solvers.model.graph import DnnGraph
from solvers.parameters.asked import TABLE
from solvers.parameters.hardware import BYTES_PER_MS, GIB
from solvers.parameters.parameter import Asked, AxisTraits, Parameter
from solvers.quantities import as_given, binary_size

MAX_VALUES = 1000
"""More values on one axis than any picture shows."""

Value = float | str


class Quantity(StrEnum):
    """What may be varied: memory in bytes, bandwidth in bytes/ms, its factor on that of the graph.

    Devices are lists as `solvers.hardware.device_list` reads them, such as "A100-80" or "2xA100-80+4xT4". A count is
    that of one class of accelerators, which `Varied` names; memory and bandwidth may be those of one class too.
    """

    ACCELERATORS = "accelerators"
    CPUS = "cpus"
    MEMORY = "memory"
    BANDWIDTH = "bandwidth"
    BANDWIDTH_FACTOR = "bandwidth factor"
    MICRO_BATCHES = "micro-batches"
    OBJECTIVE = "objective"
    PER_SERVER = "accelerators per server"
    SERVER_LINK_SPEED = "server link speed"
    DEVICES = "devices"
    COUNT = "count"

    @property
    def traits(self) -> AxisTraits:
        """What the table of parameters says of it as an axis."""
        return TRAITS[self]

    @property
    def is_monotone(self) -> bool:
        """Whether the optimum never rises from a harder value to an easier one."""
        return self.traits.is_monotone

    @property
    def is_easier_when_less(self) -> bool:
        """Whether smaller values are the easier ones."""
        return self.traits.is_easier_when_less

    @property
    def is_of_devices(self) -> bool:
        """Whether it is the deployment that changes, not transfer times or the objective."""
        return self not in (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR, Quantity.OBJECTIVE)

    @property
    def is_whole(self) -> bool:
        """Whether values are whole numbers."""
        return self.traits.is_whole

    @property
    def label(self) -> str:
        """What an axis is labelled with, with the unit in which `shown` writes values."""
        return self.traits.label

    def shown(self, value: Value) -> Value:
        """Return a value in the unit of `label`: GiB for memory, GB/s for bandwidth, whole numbers as such."""
        if isinstance(value, str):
            return value
        return int(value) if self.is_whole else value / self.traits.factor

    def text(self, value: Value) -> str:
        """Write a value with its unit.

        >>> Quantity.MEMORY.text(2**30), Quantity.BANDWIDTH.text(16e6), Quantity.ACCELERATORS.text(4)
        ('1 GiB', '16 GB/s', '4 accelerators')
        """
        if isinstance(value, str):
            return value
        if self is Quantity.MEMORY:
            return binary_size(value)
        one, several = self.traits.units
        number = as_given(value if self.is_whole else value / self.traits.factor)
        return f"{number} {one if value == 1 else several}"


PARAMETERS: dict[Quantity, Parameter[Any]] = {
    Quantity(parameter.axis.name): parameter for parameter in TABLE if parameter.axis is not None
}
"""The parameter that a quantity is."""

TRAITS: dict[Quantity, AxisTraits] = {
    Quantity.COUNT: AxisTraits(
        "count",
        "Number of accelerators of a class",
        "count",
        ("of the class", "of the class"),
        usual="0:8",
        is_whole=True,
        is_linear=True,
    ),
    **{quantity: parameter.axis for quantity, parameter in PARAMETERS.items() if parameter.axis is not None},
}

OF_A_CLASS = {Quantity.COUNT: "number", Quantity.MEMORY: "memory", Quantity.BANDWIDTH: "bandwidth"}
"""Quantities that one class of accelerators has, and what they are then called."""


SETTINGS = {Quantity.MEMORY: ("memory", GIB, "GiB"), Quantity.BANDWIDTH: ("link", BYTES_PER_MS, "GB/s")}
"""What a list of devices calls the figures of one class that may vary, and their units."""


def listed_with(kind: Listed, quantity: Quantity, value: float) -> Listed:
    """Return a kind of a list of the catalogue's devices with a count, memory in bytes or links in bytes/ms changed.

    >>> str(listed_with(Listed(2, "T4"), Quantity.MEMORY, 2.0**33))
    '2xT4:memory=8GiB'
    """
    if quantity is Quantity.COUNT:
        return replace(kind, count=int(value))
    key, unit, name = SETTINGS[quantity]
    return kind.with_setting(key, f"{value / unit:.12g}{name}")


class Varied(NamedTuple):
    """What an axis varies: a quantity, and the class of accelerators whose it is where not all have it alike.

    >>> str(Varied(Quantity.COUNT, "T4")), Varied(Quantity.COUNT, "T4").text(4), Varied(Quantity.CPUS).label
    ('number of T4', '4 × T4', 'CPUs')
    >>> Varied(Quantity.MEMORY, "T4").label, Varied(Quantity.MEMORY, "T4").text(2**34)
    ('Memory of T4 (GiB)', 'T4 with 16 GiB')
    """

    quantity: Quantity
    of_class: str = ""

    def __str__(self) -> str:
        return f"{OF_A_CLASS[self.quantity]} of {self.of_class}" if self.of_class else str(self.quantity)

    @property
    def label(self) -> str:
        """What an axis is labelled with; see `Quantity.label`."""
        if not self.of_class:
            return self.quantity.label
        unit = {Quantity.MEMORY: " (GiB)", Quantity.BANDWIDTH: " (GB/s)"}.get(self.quantity, "")
        return f"{OF_A_CLASS[self.quantity].capitalize()} of {self.of_class}{unit}"

    def text(self, value: Value) -> str:
        """Write a value with its unit or class."""
        if not self.of_class:
            return self.quantity.text(value)
        if self.quantity is Quantity.COUNT:
            return f"{as_given(float(value))} × {self.of_class}"
        return f"{self.of_class} with {self.quantity.text(value)}"

    def is_written_like(self, other: "Varied") -> bool:
        """Whether it is the same but for capitals in the name of the class."""
        return self.quantity is other.quantity and self.of_class.casefold() == other.of_class.casefold()

    @property
    def is_of_devices(self) -> bool:
        """Whether it is the deployment that changes, not the graph's transfer times or the objective."""
        return bool(self.of_class) or self.quantity.is_of_devices


Change = tuple[Varied, Value]
"""What is varied, and the value it has at a point."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity and its values, in ascending order where they are numbers; a count names its class.

    Raises PlacementError for no values, too many, equal ones, or values that the quantity does not take.
    """

    quantity: Quantity
    values: tuple[Value, ...]
    of_class: str = ""

    def __post_init__(self) -> None:
        varied, values = self.varied, self.values
        if self.quantity is Quantity.COUNT and not self.of_class:
            raise PlacementError("A sweep over counts names a class of accelerators.")
        if self.of_class and self.quantity not in OF_A_CLASS:
            raise PlacementError(f"No class has {self.quantity} of its own; sweep over those of all.")
        if not values:
            raise PlacementError(f"The sweep over {varied} has no values; give at least one.")
        if len(values) > MAX_VALUES:
            raise PlacementError(f"The sweep over {varied} has {len(values)} values; give up to {MAX_VALUES}.")
        if self.quantity is Quantity.OBJECTIVE:
            checked: tuple[Value, ...] = tuple(Objective(str(value)) for value in values)
        elif self.quantity is Quantity.DEVICES:
            checked = tuple(devices_text(parse_devices(str(value))) for value in values)
        else:
            if any(isinstance(value, str) for value in values):
                raise PlacementError(f"The sweep over {varied} takes numbers.")
            if self.quantity.is_whole and any(value != int(value) for value in values):
                raise PlacementError(f"The sweep over {varied} takes whole numbers.")
            checked = tuple(sorted(int(value) if self.quantity.is_whole else float(value) for value in values))
        if len(set(checked)) < len(checked):
            raise PlacementError(f"The sweep over {varied} has a value twice; keep one.")
        object.__setattr__(self, "values", checked)

    @property
    def varied(self) -> Varied:
        """What is varied."""
        return Varied(self.quantity, self.of_class)

    def text(self, i: int) -> str:
        """Write the i-th value with its unit."""
        return self.varied.text(self.values[i])

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values are better drawn by their logarithms: they span a decade or grow by equal factors."""
        numbers = [float(value) for value in self.values if not isinstance(value, str)]
        if self.quantity.traits.is_linear or len(numbers) < 3:
            return False
        return numbers[0] > 0 and numbers[-1] / numbers[0] >= 8 and not _is_even(numbers)


def _is_even(numbers: Sequence[float]) -> bool:
    """Whether the numbers are equally far apart."""
    steps = [b - a for a, b in pairwise(numbers)]
    return max(steps) <= 1.01 * min(steps)


NOTHING_ASKED = Equipment()


@dataclass(frozen=True, slots=True)
class DeviceSource:
    """What puts a graph on a list of devices: efficiencies and the like, and a catalogue, None for the program's own.

    The groups of `equipment` are those of the list.
    """

    equipment: Equipment = NOTHING_ASKED
    given: Catalogue | None = None

    @property
    def catalogue(self) -> Catalogue:
        """The catalogue that has the devices."""
        return catalogue() if self.given is None else self.given


OUR_DEVICES = DeviceSource()


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Return changes in the order they are made: devices first, for they bring memory and links of their own.

    Servers come before the speed of links within them.
    """
    order = [Quantity.DEVICES, *Quantity]
    return sorted(changes, key=lambda change: order.index(change[0].quantity))


def asked_at(base: Asked, varied: Varied, value: Value, source: DeviceSource = OUR_DEVICES) -> Asked:
    """Return a question with one quantity changed; GraphError or DeploymentError where that is not possible.

    `source` is where a list has its devices from.
    """
    quantity = varied.quantity
    if quantity is Quantity.OBJECTIVE:
        return replace(base, objective=Objective(str(value)))
    if quantity is Quantity.DEVICES:
        on = on_devices(base.graph, base.deployment, str(value), source)
        return replace(base, own_graph=on.graph, own=on.deployment, graph=on.graph, deployment=on.deployment)
    number = float(value)
    if varied.of_class:
        return replace(base, deployment=_class_at(base, varied, number))
    if quantity is Quantity.MICRO_BATCHES and base.deployment.training_memory is None:
        raise DeploymentError(
            "Micro-batches change what fits only under a training schedule's memory; choose one, such as "
            "--memory-schedule 1f1b, or sweep something else."
        )
    return PARAMETERS[quantity].put(base, int(number) if quantity.is_whole else number / quantity.traits.factor)


def _class_at(base: Asked, varied: Varied, number: float) -> Deployment:
    """Return the deployment of a question with a count, memory in bytes or links in bytes/ms changed of one class."""
    name = varied.of_class
    if varied.quantity is Quantity.COUNT:
        return with_class(base.deployment, name, count=int(number))
    if varied.quantity is Quantity.MEMORY:
        return with_class(base.deployment, name, memory_bytes=number)
    own = base.graph.bandwidth_bytes_per_ms
    if own is None:
        raise DeploymentError(
            f"This graph has no consistent bytes on its edges, so a speed of links says nothing of transfers of {name}."
        )
    speed = number / own
    for limit in (LEAST_FACTOR, LARGEST_FACTOR):
        if math.isclose(speed, limit, rel_tol=1e-12):
            speed = limit  # which `number` was made of, and rounding may have gone beyond
    return with_class(base.deployment, name, link_speed=speed)


def class_named(deployment: Deployment, name: str) -> str:
    """Return the name of a class as the deployment has it, whatever its capitals; DeploymentError if it has none such.

    A name that is written just so goes before others.
    """
    names = [device_class.name for device_class in deployment.classes]
    found = [own for own in names if own == name] or [own for own in names if own.lower() == name.lower()]
    if len(found) != 1:
        has = f"its device types are {', '.join(names)}" if names else "all its accelerators are identical"
        raise DeploymentError(f"No device type here is named {name}: {has}.")
    return found[0]


def with_class(deployment: Deployment, name: str, **changes: Any) -> Deployment:
    """Return a deployment with one of its classes changed; DeploymentError if it has no such class."""
    name = class_named(deployment, name)
    classes = tuple(replace(one, **changes) if one.name == name else one for one in deployment.classes)
    return replace(deployment, num_accelerators=sum(one.count for one in classes), classes=classes)


def devices_named(
    text: str, source: DeviceSource, graph: DnnGraph
) -> tuple[tuple[Group, ...], tuple[DeviceClass, ...]]:
    """Return the accelerators of a list as groups of the catalogue, or else as classes relative to a graph's times.

    Raises PlacementError, in one sentence, for what neither can be.
    """
    kinds, devices = parse_devices(text), source.catalogue
    if is_of_catalogue(kinds, devices):
        return groups(kinds, devices, source.equipment.times or graph.times), ()
    return (), device_classes(kinds)


def on_devices(graph: DnnGraph, deployment: Deployment, text: str, source: DeviceSource) -> Equipped:
    """Return graph and deployment on a list of devices: of the catalogue, or relative to the times of the graph."""
    found, classes = devices_named(text, source, graph)
    if not found:
        return with_relative(graph, deployment, classes)
    return equip(graph, deployment, replace(source.equipment, groups=found), source.catalogue)
