"""What is asked of the page Sweep, as data: which quantities may vary, their axes, and the sweep they make."""

from dataclasses import dataclass, replace
from typing import Any

from explorer.form.devices import equipment_by
from explorer.state.records import Subject, Sweep
from explorer.words.known_devices import known_devices
from solvers.hardware.catalogue import catalogue
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.split import Family
from solvers.parameters.asked import begin, wish_of
from solvers.parameters.hardware import BANDWIDTH_FACTOR, BYTES_PER_MS, USUAL_SERVER_LINK_SPEED
from solvers.parameters.question import EXPRESSIBLE_IN, why_no_cpus_in
from solvers.sweep.axes import OF_A_CLASS, OUR_DEVICES, Axis, DeviceSource, Quantity, Value, Varied, devices_named
from solvers.sweep.ranges import RangeError, read_ranges
from solvers.sweep.spec import SweepSpec

AT_ONE_VALUE: dict[Quantity, dict[str, Any]] = {
    Quantity.COUNT: {"count": 0},
    Quantity.MEMORY: {"memory_bytes": None},
    Quantity.BANDWIDTH: {"link_speed": 1.0},
}
"""What of a class varies, at some value: it is compared without that."""


@dataclass(frozen=True, slots=True)
class SweepChoice:
    """What is asked for: the axes (None where their text cannot be read), and how and where to solve."""

    subject: Subject
    axes: tuple[Axis, ...] | None
    family: Family
    method: str
    time_limit_s: float
    on_cluster: bool
    asks_to_start: bool

    def spec(self) -> SweepSpec:
        """Return the sweep; PlacementError where it makes no sense."""
        assert self.axes is not None
        question = self.subject.question
        graph, deployment, source = self._varied()
        return SweepSpec(
            graph,
            deployment,
            self.axes,
            question.objective,
            self.family,
            self.method,
            self.time_limit_s,
            source=source,
            expressible_in=self._framework,
        )

    @property
    def _framework(self) -> Any:  # as all values of an address
        return self.subject.link.values.get(EXPRESSIBLE_IN.name)

    def _varied(self) -> tuple[DnnGraph, Deployment, DeviceSource]:
        """Return graph and deployment from which the axes go, and what puts the graph on a list of devices."""
        assert self.axes is not None
        subject, framework = self.subject, self._framework
        graph, deployment = subject.graph, subject.question.deployment
        quantities = {axis.quantity for axis in self.axes}
        asked = subject.link.values.get(BANDWIDTH_FACTOR.name)
        if Quantity.DEVICES in quantities:
            # Times go from those of the file to each device, by one step as on Explore, whatever is picked there now.
            graph, deployment = subject.loaded.graph, replace(deployment, classes=(), memory_bytes=None)
            if framework is not None:
                graph = EXPRESSIBLE_IN.put(begin(graph, deployment), framework).graph
            return graph, deployment, _source(subject)
        if asked is not None and Quantity.BANDWIDTH_FACTOR in quantities:
            graph = graph.with_bandwidth_factor(1 / asked)  # factors are on the file's own speed
        return graph, deployment, OUR_DEVICES

    def asks_what(self, sweep: Sweep) -> bool:
        """Whether a sweep answers what is asked now; what varies counts by its values alone."""
        spec, before = sweep.run.spec, sweep.subject
        if self.axes != spec.axes:
            return False
        quantities = {axis.quantity for axis in self.axes}
        has_links = bool(quantities & {Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR, Quantity.DEVICES})
        asked, then = self.subject.question, before.question
        return (
            self.subject.loaded.graph.digest == before.loaded.graph.digest
            and (self._asks_beside_links(spec) if has_links else self.subject.graph.digest == before.graph.digest)
            and self._framework == spec.expressible_in
            and (Quantity.OBJECTIVE in quantities or asked.objective is then.objective)
            and _held(asked.deployment, self.subject.graph, self.axes)
            == _held(then.deployment, before.graph, self.axes)
            and (self.family, self.method, self.time_limit_s) == (spec.family, spec.method, spec.time_limit_s)
        )

    def _asks_beside_links(self, spec: SweepSpec) -> bool:
        """Whether all that a sweep of links or devices has of a graph, but how long its tensors move, is asked now."""
        graph, _, source = self._varied()
        if source != spec.source:
            return False
        return graph.digest == spec.graph.digest or _without_transfers(graph) == _without_transfers(spec.graph)


def _without_transfers(graph: DnnGraph) -> tuple[Node, ...]:
    return tuple(replace(node, transfer_ms=0.0, tensor_ms=()) for node in graph.nodes)


def _source(subject: Subject) -> DeviceSource:
    """Return what puts the subject's graph on a list of devices."""
    given = None if known_devices() is catalogue() else known_devices()
    return DeviceSource(equipment_by(subject.loaded, wish_of(subject.link.values)), given)


def _held(deployment: Deployment, graph: DnnGraph, axes: tuple[Axis, ...]) -> Deployment:
    """Return a deployment with all that varies at one value."""
    if any(axis.of_class and axis.quantity is Quantity.BANDWIDTH for axis in axes):
        deployment = _with_links_in_gb_per_s(deployment, graph)
    has_servers = deployment.accelerators_per_server is not None
    for axis in sorted(axes, key=lambda axis: list(Quantity).index(axis.quantity)):
        quantity = axis.quantity
        if quantity is Quantity.DEVICES:
            deployment = replace(deployment, classes=(), memory_bytes=None, num_accelerators=1)
        elif axis.of_class:
            usual: dict[str, Any] = AT_ONE_VALUE[quantity]
            classes = tuple(replace(c, **usual) if c.name == axis.of_class else c for c in deployment.classes)
            deployment = replace(deployment, classes=classes, num_accelerators=sum(c.count for c in classes))
        elif quantity is Quantity.ACCELERATORS and not deployment.classes:
            deployment = replace(deployment, num_accelerators=1)
        elif quantity is Quantity.CPUS:
            deployment = replace(deployment, num_cpus=0)
        elif quantity is Quantity.MEMORY:
            deployment = replace(deployment, memory_bytes=None)
        elif quantity is Quantity.PER_SERVER:
            speed = deployment.server_link_speed if has_servers else USUAL_SERVER_LINK_SPEED
            deployment = replace(deployment, accelerators_per_server=1, server_link_speed=speed)
        elif quantity is Quantity.SERVER_LINK_SPEED:
            deployment = replace(deployment, server_link_speed=1.0)
        elif quantity is Quantity.MICRO_BATCHES and deployment.training_memory is not None:
            memory = replace(deployment.training_memory, num_micro_batches=1)
            deployment = replace(deployment, training_memory=memory)
    return deployment


def _with_links_in_gb_per_s(deployment: Deployment, graph: DnnGraph) -> Deployment:
    """Return a deployment whose link speeds are not relative to the links of the graph, which may be another's."""
    own = (graph.bandwidth_bytes_per_ms or BYTES_PER_MS) / BYTES_PER_MS
    classes = tuple(replace(c, link_speed=float(f"{c.link_speed * own:.9g}")) for c in deployment.classes)
    return replace(deployment, classes=classes)


def quantities(subject: Subject) -> list[Varied]:
    """Return what may vary on this graph; links in GB/s where the file's bytes tell their speed."""
    links = Quantity.BANDWIDTH if subject.graph.bandwidth_bytes_per_ms is not None else Quantity.BANDWIDTH_FACTOR
    found = [Quantity.ACCELERATORS, links, Quantity.MEMORY, Quantity.DEVICES, Quantity.CPUS, Quantity.OBJECTIVE]
    counts: list[Varied] = []
    if classes := subject.question.deployment.classes:  # each has memory and links of its own
        own = [quantity for quantity in OF_A_CLASS if quantity is not Quantity.BANDWIDTH or links is quantity]
        counts = [Varied(quantity, one.name) for quantity in own for one in classes]
        found = [Quantity.DEVICES, Quantity.CPUS, Quantity.OBJECTIVE]
    framework = subject.link.values.get(EXPRESSIBLE_IN.name)
    if framework is not None and why_no_cpus_in(framework):
        found.remove(Quantity.CPUS)
    if len(objectives(subject)) == 1:
        found.remove(Quantity.OBJECTIVE)
    deployment = subject.question.deployment
    if deployment.training_memory is not None:
        found.append(Quantity.MICRO_BATCHES)
    if deployment.num_accelerators > 1 and deployment.replication is None:
        found.append(Quantity.PER_SERVER)
    if deployment.accelerators_per_server is not None:
        found.append(Quantity.SERVER_LINK_SPEED)
    return counts + [Varied(quantity) for quantity in found]


def objectives(subject: Subject) -> list[str]:
    """Return the objectives of the graph."""
    return [Objective.THROUGHPUT, Objective.GPIPE if subject.graph.is_training else Objective.LATENCY]


def axis_of(varied: Varied, text: str, subject: Subject) -> Axis:
    """Return the axis of a text in the units of the page; PlacementError where it is none."""
    quantity = varied.quantity
    if quantity is Quantity.OBJECTIVE:
        return Axis(quantity, tuple(objectives(subject)))
    if quantity is Quantity.DEVICES:
        axis = Axis(quantity, tuple(part.strip() for part in text.split(";") if part.strip()))
        for value in axis.values:
            devices_named(str(value), _source(subject), subject.loaded.graph)
        return axis
    values: tuple[Value, ...] = tuple(value * quantity.traits.factor for value in read_ranges(text, _number))
    return Axis(quantity, values, varied.of_class)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise RangeError(f'"{text[:40]}" is no number; write values such as 2:16 or 1,2,4.') from None
    if not 0 <= number < float("inf"):
        raise RangeError(f'"{text[:40]}" is out of range; give numbers of 0 or more.')
    return number
