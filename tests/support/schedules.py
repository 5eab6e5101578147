"""Plans to schedule, with every kind of schedule that can run them, and the slots of their schedules."""

from dataclasses import replace

import networkx as nx
from hypothesis import strategies as st

from solvers.model.costs import task_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import INFERENCE_KINDS, LOOPED_KINDS, TRAINING_KINDS, LoopedSplit
from solvers.schedule.simulate import Schedule, ScheduleKind, Slot
from tests.support.graphs import random_chain_split, random_split, random_training_graph, small_graphs

INFERENCE, GPIPE, ONE_F_ONE_B = ScheduleKind.INFERENCE, ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B
ROUND_KINDS = (INFERENCE, GPIPE, ONE_F_ONE_B, ScheduleKind.PIPEDREAM)
Case = tuple[DnnGraph, Deployment, Split, ScheduleKind]


@st.composite
def cases(draw: st.DrawFn, kind: ScheduleKind | None = None) -> Case:
    """Draw a graph, a chain or free split of it, and a schedule in rounds that it allows."""
    kind = kind or draw(st.sampled_from(ROUND_KINDS))
    graph, deployment = draw(small_graphs(memory_limit=False, backward=kind is not INFERENCE))
    if kind is not INFERENCE and not graph.is_training:
        kind = INFERENCE
    splitter = draw(st.sampled_from((random_split, random_chain_split)))
    return graph, deployment, splitter(graph, deployment, draw(st.integers(0, 999))), kind


def slots_of(schedule: Schedule, device: int) -> list[Slot]:
    return [slot for slot in schedule.slots if slot.device == device]


def spans(schedule: Schedule) -> dict[tuple[int, int], tuple[float, float]]:
    """Return when each (stage, micro-batch) starts and ends, transfers included."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for slot in schedule.slots:
        key = slot.stage, slot.micro_batch
        start, end = found.get(key, (slot.start_ms, slot.end_ms))
        found[key] = min(start, slot.start_ms), max(end, slot.end_ms)
    return found


halves = st.integers(0, 12).map(lambda twice: twice / 2)


AnyCase = tuple[DnnGraph, Deployment, Split | LoopedSplit, ScheduleKind, int]


@st.composite
def any_cases(draw: st.DrawFn) -> AnyCase:
    """Draw a graph with known bytes, a split of it, a schedule it allows, and a number of micro-batches."""
    kind = draw(st.sampled_from(ScheduleKind))
    seed, count = draw(st.integers(0, 9999)), draw(st.integers(1, 7))
    if kind in (*LOOPED_KINDS, ScheduleKind.ZB_H1):
        p = draw(st.integers(1, 3))
        chunks = draw(st.integers(2, 3)) if kind is ScheduleKind.INTERLEAVED else 2
        graph = known_bytes(random_training_graph(seed, p * chunks + draw(st.integers(0, 4)), 0.3))
        deployment = Deployment(p, draw(st.integers(0, 1)))
        split = random_chain_split(graph, deployment, seed)
        if kind is ScheduleKind.ZB_H1:
            return graph, deployment, split, kind, count
        used = sum(map(bool, split.devices))
        while used * chunks > p * chunks:  # one more device than chunks were counted for
            split = random_chain_split(graph, deployment, seed := seed + 1)
            used = sum(map(bool, split.devices))
        looped = looped_split(graph, deployment, split, chunks, kind)
        return graph, deployment, looped, kind, count * len(looped.order) if kind is ScheduleKind.INTERLEAVED else count
    graph, deployment = draw(small_graphs(memory_limit=False, backward=kind in TRAINING_KINDS, known_bytes=True))
    if (graph.is_training and kind not in TRAINING_KINDS) or (not graph.is_training and kind not in INFERENCE_KINDS):
        kind = ScheduleKind.UNPIPELINED
    split = draw(st.sampled_from((random_split, random_chain_split)))(graph, deployment, seed)
    if kind is ScheduleKind.SINGLE_STREAM and not nx.is_directed_acyclic_graph(task_graph(graph, split)):
        split = random_chain_split(graph, deployment, seed)
    return graph, deployment, split, kind, count


def known_bytes(graph: DnnGraph) -> DnnGraph:
    nodes = tuple(
        replace(n, memory_bytes=10.0, activation_bytes=float(n.id % 4), parameter_bytes=float(n.id % 3))
        for n in graph.nodes
    )
    return DnnGraph(nodes, graph.edges)
