"""How long each node takes on another device: from its flops and bytes, or by scaling the time that was measured.

A roofline (Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52(4), 2009) bounds a kernel by arithmetic and by memory:

    roofline_ms = max(flops / (peak_flops · e_compute), bytes / (memory_bandwidth · e_memory))

`flops` counts a multiply-add as two; `bytes` are those read and written in device memory: `traffic_bytes` where a
node knows them, else weights + inputs + output, each once (`moved_bytes`). The precision decides the peak; bytes are
those of the graph. Launch times, caches and overlap are left out.

A measured time always wins over a computed one. Where it was measured on another device than is asked for, it is scaled
by the ratio of the two rooflines of its node, or by the ratio of the peaks where flops or bytes are not known: what
made a kernel slower than its roofline there is taken to do so here.

    time on B = time on A · roofline_B / roofline_A        else        time on A · peak_A / peak_B
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from solvers.hardware.devices import Catalogue, CatalogueError, Precision, Processor, short_name
from solvers.model.graph import DnnGraph, TimesKind, TimesOrigin
from solvers.quantities import as_given, counted, listed, number, percent


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The shares of the arithmetic peak and of the memory bandwidth that are reached, each above 0 and up to 1.

    The defaults are assumptions: tuned kernels reach about half of the peak on the matrix products of transformers
    (40 to 57 % of it in whole training runs on A100: Narayanan et al., SC 2021; Chowdhery et al., "PaLM", 2022) and
    about three quarters of the bandwidth or more in streaming kernels. Each is the same for all devices, so that it
    changes the balance of the two, but little of how devices compare.
    """

    compute: float = 0.5
    memory: float = 0.75

    def __post_init__(self) -> None:
        for what, share in (("peak", self.compute), ("memory bandwidth", self.memory)):
            if not 0 < share <= 1:
                raise CatalogueError(
                    f"An efficiency of {as_given(share)} of the {what}: give a share above 0 and up to 1."
                )


USUAL = Efficiency()


@dataclass(frozen=True, slots=True)
class Setup:
    """A device as it is used: in which precision, and with which efficiency."""

    processor: Processor
    precision: Precision
    efficiency: Efficiency = USUAL

    def __post_init__(self) -> None:
        self.processor.peak_flops_per_ms(self.precision)  # there is one, or it is said that there is none

    @property
    def flops_per_ms(self) -> float:
        """The arithmetic that is reached."""
        return self.processor.peak_flops_per_ms(self.precision) * self.efficiency.compute

    @property
    def bytes_per_ms(self) -> float:
        """The memory traffic that is reached."""
        return self.processor.bandwidth_bytes_per_ms * self.efficiency.memory

    def roofline_ms(self, flops: float, moved_bytes: float) -> float:
        """Return the time in ms of a kernel with these flops and bytes of memory traffic.

        >>> from solvers.hardware.catalogue import catalogue
        >>> t4 = Setup(catalogue().accelerator("T4"), Precision.FP16)
        >>> t4.roofline_ms(32.5e9, 0), t4.roofline_ms(32.5e9, 480e6)
        (1.0, 2.0)
        """
        return max(flops / self.flops_per_ms, moved_bytes / self.bytes_per_ms)

    def is_memory_bound(self, flops: float, moved_bytes: float) -> bool:
        """Whether memory and not arithmetic limits such a kernel."""
        return moved_bytes / self.bytes_per_ms > flops / self.flops_per_ms


class Basis(StrEnum):
    """What a node's time on a device rests on."""

    KNOWN = "known"
    ROOFLINE = "roofline"
    SCALED = "scaled"
    SCALED_BY_PEAK = "scaled by peak"


@dataclass(frozen=True, slots=True)
class Retiming:
    """Times of all nodes on a device, in ms by id, and what each rests on.

    `factor` is the least and the largest by which measured times were multiplied; None where none was.
    """

    setup: Setup
    origin: Setup | None
    ms: Mapping[int, float]
    basis: Mapping[int, Basis]
    factor: tuple[float, float] | None

    @property
    def kind(self) -> TimesKind:
        """What the times are as a whole: scaled where any was."""
        kinds = set(self.basis.values())
        if kinds <= {Basis.KNOWN}:
            return TimesKind.MEASURED
        return TimesKind.ROOFLINE if kinds == {Basis.ROOFLINE} else TimesKind.SCALED

    def sentence(self) -> str:
        """Say in one sentence where the times are from, with the factors and the efficiencies."""
        num = {basis: list(self.basis.values()).count(basis) for basis in Basis}
        parts = []
        if num[Basis.KNOWN]:
            parts.append("as the file has them" if num[Basis.KNOWN] == len(self.ms) else _of(num[Basis.KNOWN], "known"))
        if num[Basis.ROOFLINE]:
            share = self.setup.efficiency
            told = (
                f"roofline at {percent(share.compute)} of peak FLOP/s and {percent(share.memory)} of memory bandwidth"
            )
            parts.append(told if num[Basis.ROOFLINE] == len(self.ms) else f"{told} for {num[Basis.ROOFLINE]} nodes")
        scaled = num[Basis.SCALED] + num[Basis.SCALED_BY_PEAK]
        if scaled and self.origin is not None and self.factor is not None:
            least, most = (number(factor, 3) for factor in self.factor)
            factor = least if least == most else f"{least} to {most}"
            by = [("rooflines", num[Basis.SCALED]), ("peaks", num[Basis.SCALED_BY_PEAK])]
            ratio = listed([what for what, count in by if count])
            told = f"the file's times on {described(self.origin)} × {factor}, the ratio of {ratio}"
            parts.append(told if scaled == len(self.ms) else f"{told}, for {counted(scaled, 'node')}")
        return f"Times on {described(self.setup)}: {'; '.join(parts)}."


def _of(count: int, what: str) -> str:
    return f"{what} for {counted(count, 'node')}"


def described(setup: Setup) -> str:
    """Name a device with its precision."""
    return f"{setup.processor.name} ({setup.precision})"


def moved_bytes(graph: DnnGraph) -> dict[int, float | None]:
    """Return the bytes that each node reads and writes in device memory, by id; None where they cannot be told.

    A node's own `traffic_bytes`, or weights + inputs + output: its parameters' bytes, the output of each node it
    reads, and its own output, which is 0 where nobody reads it and its file says nothing. A backward node without
    weights of its own reads those of its colocation class and writes their gradient, which are as many bytes again.
    This is right for single operators. Fused layers move tensors within them too, and a recurrent layer reads its
    weights at every step: such nodes must say their traffic, or their bytes are too few.
    """
    weights: dict[int, float | None] = {}
    for node in graph.nodes:
        own = node.parameter_bytes
        if node.is_backward and not own and node.colocation_class is not None:
            partners = [graph.node_by_id[v].parameter_bytes for v in graph.colocation_members[node.colocation_class]]
            own = None if None in partners else 2 * sum(bytes_ or 0.0 for bytes_ in partners)
        weights[node.id] = own
    read: dict[int, list[float | None]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        read[edge.target].append(graph.tensor_of[edge.source, edge.tensor].size_bytes)
    moved: dict[int, float | None] = {}
    for node in graph.nodes:
        outputs = read[node.id]
        outputs.append(graph.output_bytes[node.id] if graph.readers[node.id] else 0.0)
        parts = [weights[node.id], *outputs]
        total = None if None in parts else sum(part or 0.0 for part in parts)
        moved[node.id] = total if node.traffic_bytes is None else node.traffic_bytes
    return moved


def times_on(
    graph: DnnGraph, setup: Setup, origin: Setup | None, *, class_name: str = "", roofline_only: bool = False
) -> Retiming:
    """Return the times of a graph's nodes on an accelerator.

    `origin` is what the graph's `accelerator_ms` are for. Times that were computed are computed anew; measured ones
    that the file has for the class `class_name` stay as they are; others are scaled. With `roofline_only` every node
    whose flops and bytes are known is computed. Raises CatalogueError where times must be scaled and `origin` is None.
    """
    own = {node.id: node.time_on(class_name) for node in graph.nodes} if class_name else {}
    return _times(graph, {node.id: node.accelerator_ms for node in graph.nodes}, own, setup, origin, roofline_only)


def host_times_on(graph: DnnGraph, setup: Setup, origin: Setup | None, *, roofline_only: bool = False) -> Retiming:
    """The same for `cpu_ms` and a host CPU."""
    return _times(graph, {node.id: node.cpu_ms for node in graph.nodes}, {}, setup, origin, roofline_only)


def _times(
    graph: DnnGraph,
    file_ms: Mapping[int, float],
    own: Mapping[int, float | None],
    setup: Setup,
    origin: Setup | None,
    roofline_only: bool,
) -> Retiming:
    is_computed = roofline_only or (graph.times is not None and graph.times.kind is TimesKind.ROOFLINE)
    moved = moved_bytes(graph)
    ms: dict[int, float] = {}
    basis: dict[int, Basis] = {}
    factors: list[float] = []
    for node in graph.nodes:
        v, flops, traffic = node.id, node.flops, moved[node.id]
        computed = None if flops is None or traffic is None else setup.roofline_ms(flops, traffic)
        if is_computed and computed is not None:
            ms[v], basis[v] = computed, Basis.ROOFLINE
            continue
        if (known := own.get(v)) is not None:
            ms[v], basis[v] = known, Basis.KNOWN
            continue
        if origin is None:
            raise CatalogueError(_why_not(graph, roofline_only))
        before = None if flops is None or traffic is None else origin.roofline_ms(flops, traffic)
        if computed and before:
            factor, basis[v] = computed / before, Basis.SCALED
        else:
            factor, basis[v] = origin.flops_per_ms / setup.flops_per_ms, Basis.SCALED_BY_PEAK
        ms[v] = file_ms[v] * factor
        factors.append(factor)
    if origin == setup and Basis.ROOFLINE not in basis.values():
        basis = dict.fromkeys(basis, Basis.KNOWN)
        factors = []
    return Retiming(setup, origin, ms, basis, (min(factors), max(factors)) if factors else None)


def _why_not(graph: DnnGraph, roofline_only: bool) -> str:
    if roofline_only:
        return (
            "Some nodes have no flops or no bytes, so there is no roofline for them, and the file does not say which "
            "device its times are for; name that device, so that they can be scaled."
        )
    instead = ", or ask for roofline times instead" if any(node.flops is not None for node in graph.nodes) else ""
    return (
        "The file does not say which device its times were measured on, so they cannot be scaled to another; name that "
        f"device{instead}."
    )


def origin_of(times: TimesOrigin | None, devices: Catalogue, efficiency: Efficiency = USUAL) -> Setup | None:
    """Return the accelerator that a graph's times are for; None where it does not say.

    Raises CatalogueError for a device or a precision that the catalogue does not have.
    """
    if times is None or not times.accelerator:
        return None
    accelerator = devices.accelerator(times.accelerator)
    precision = precision_named(times.precision) if times.precision else accelerator.usual_precision
    return Setup(accelerator, precision, efficiency)


def host_origin_of(times: TimesOrigin | None, devices: Catalogue, efficiency: Efficiency = USUAL) -> Setup | None:
    """The same for the host CPU."""
    if times is None or not times.host:
        return None
    host = devices.host(times.host)
    return Setup(host, host.usual_precision, efficiency)


def precision_named(name: str) -> Precision:
    """Return a precision by its name; CatalogueError for a name that is none.

    >>> precision_named("BF16")
    <Precision.BF16: 'bf16'>
    """
    try:
        return Precision(name.lower())
    except ValueError:
        raise CatalogueError(f"{short_name(name)} is no precision; give one of {', '.join(Precision)}.") from None


def with_times(graph: DnnGraph, retiming: Retiming) -> DnnGraph:
    """Return the graph with the times of a retiming as its `accelerator_ms`; its times on classes stay."""
    nodes = tuple(
        node  # with the spread of its measured time
        if retiming.ms[node.id] == node.accelerator_ms
        else replace(node, accelerator_ms=retiming.ms[node.id], spread_ms=None)
        for node in graph.nodes
    )
    return graph.with_nodes(nodes)


def with_host_times(graph: DnnGraph, retiming: Retiming) -> DnnGraph:
    """Return the graph with the times of a retiming as its `cpu_ms`."""
    return graph.with_nodes(tuple(replace(node, cpu_ms=retiming.ms[node.id]) for node in graph.nodes))


def with_class_times(graph: DnnGraph, name: str, retiming: Retiming) -> DnnGraph:
    """Return the graph with the times of a retiming as those on the class of accelerators `name`."""

    def times(v: int, class_ms: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        return tuple({**dict(class_ms), name: retiming.ms[v]}.items())

    nodes = tuple(replace(node, class_ms=times(node.id, node.class_ms)) for node in graph.nodes)
    return graph.with_nodes(nodes)
