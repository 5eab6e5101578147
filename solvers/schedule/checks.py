"""Whether a schedule can be run at all: on this graph, on these devices, and in this model of transfers."""

from collections.abc import Mapping

import networkx as nx

from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split, complete_split
from solvers.schedule.records import INFERENCE_KINDS, TRAINING_KINDS, ScheduleError, ScheduleKind

ONE_AT_A_TIME = (ScheduleKind.SINGLE_STREAM, ScheduleKind.UNPIPELINED)
"""With one micro-batch at a time nothing overlaps, whatever devices could do."""


def check_kind(graph: DnnGraph, kind: ScheduleKind) -> None:
    """Raise ScheduleError when a graph has not the passes that a schedule runs, or in an order that none can run."""
    if graph.is_training and kind not in TRAINING_KINDS:
        raise ScheduleError(
            f"The graph has backward nodes, which the schedule {kind} does not run; choose {_either(TRAINING_KINDS)}."
        )
    if not graph.is_training and kind not in INFERENCE_KINDS:
        raise ScheduleError(
            f"The graph has no backward nodes for the schedule {kind} to run; choose {_either(INFERENCE_KINDS)}."
        )
    for edge in graph.edges:
        u, v = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        if u.is_backward and not v.is_backward:
            raise ScheduleError(
                f"edge {edge.source} -> {edge.target}: the forward {v.label} reads the backward {u.label}, so the "
                "forward pass cannot run first; mark the reader as backward or remove the edge."
            )


def check_model(deployment: Deployment, split: Split, kind: ScheduleKind) -> None:
    """Raise ScheduleError for transfers beside compute, and for replicas."""
    if deployment.communication is not Communication.SUM and kind not in ONE_AT_A_TIME:
        raise ScheduleError(
            "Schedules run transfers before and after compute; set communication to sum to see one, though the time "
            "per micro-batch is then larger."
        )
    if split.replicas:
        raise ScheduleError("Schedules run each stage on one device; choose a split without replicas to see one.")


def device_numbers(graph: DnnGraph, deployment: Deployment, split: Split) -> dict[int, int]:
    """Return the device number in `deployment` of each node; ScheduleError where that has too few devices."""
    if complete_split(graph, split) != split:
        raise ScheduleError("The split does not place every node; complete it first.")
    device_of: dict[int, int] = {}
    for what, devices, first, available in (
        ("accelerators", split.accelerators, 0, deployment.num_accelerators),
        ("CPUs", split.cpus, deployment.num_accelerators, deployment.num_cpus),
    ):
        for i, members in enumerate(devices):
            if members and i >= available:
                raise ScheduleError(
                    f"The split uses {what} up to number {i + 1}, but there are {available}; "
                    "add devices or choose another split."
                )
            device_of.update(dict.fromkeys(members, first + i))
    return device_of


def order_of_both_passes(graph: DnnGraph, place_of: Mapping[int, int]) -> tuple[int, ...] | None:
    """Return the places so that forward data only passes on and backward data only back; None without such an order.

    A place is a device, or a chunk of one. Among those that may come next those with forward nodes come first, then
    the lower number, as in `split.pipeline_order`, which looks at fewer backward edges.
    """
    quotient: nx.DiGraph[int] = nx.DiGraph()
    quotient.add_nodes_from(place_of.values())
    for edge in graph.edges:
        source, target = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        u, v = place_of[edge.source], place_of[edge.target]
        if u != v and source.is_backward is target.is_backward:
            quotient.add_edge(*((v, u) if source.is_backward else (u, v)))
    if not nx.is_directed_acyclic_graph(quotient):
        return None
    has_forward = {place_of[node.id] for node in graph.nodes if not node.is_backward}
    return tuple(nx.lexicographical_topological_sort(quotient, key=lambda d: (d not in has_forward, d)))


def needs_pipeline(kind: ScheduleKind) -> ScheduleError:
    """Return the error for a split along which the passes do not go there and back."""
    return ScheduleError(
        f"A {kind} schedule needs a pipeline along which forward data only passes on and backward data only back, and "
        f"the devices of this split form none; choose {ScheduleKind.ONE_F_ONE_B} or {ScheduleKind.GPIPE}, or a "
        "pipeline split of a graph whose backward pass mirrors the forward one."
    )


def _either(kinds: tuple[ScheduleKind, ...]) -> str:
    return f"{', '.join(kinds[:-1])} or {kinds[-1]}"
