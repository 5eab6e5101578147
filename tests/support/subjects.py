"""Plans to export in tests."""

from dataclasses import replace
from functools import cache

from explorer.figures.subject import Subject
from explorer.jobs.record import Question
from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.samples import read_sample
from solvers.schedule.simulate import ScheduleKind, simulate
from solvers.solve import solve

HOSTILE = "<img src=x onerror=alert(1)>"


def subject_of(
    graph: DnnGraph, deployment: Deployment, split: Split, kind: ScheduleKind | None = ScheduleKind.INFERENCE,
    num_micro_batches: int = 4, result: SolveResult | None = None,
) -> Subject:  # fmt: skip
    """Return the subject of a plan; without a kind of schedule there is none in it."""
    split = split.on(deployment)
    costs = split_costs(graph, deployment, split)
    if result is None:
        value = costs.max_load_ms
        result = SolveResult(
            SolveStatus.FEASIBLE, "ip", Objective.THROUGHPUT, Family.FREE, split, value, value * 0.9, 1.5
        )
    schedule = None if kind is None else simulate(graph, deployment, split, kind, num_micro_batches)
    return Subject(
        title=graph.name or "a graph",
        question=Question(graph.digest, deployment),
        graph=graph,
        deployment=deployment,
        split=split,
        result=result,
        costs=costs,
        dag=dag_info(graph, deployment, split),
        gantt=None if schedule is None else gantt_info(schedule, deployment),
        schedule=schedule,
    )


def named(*names: str, layer: str | None = None, graph_name: str = "named", device_type: str = "") -> Subject:
    """Return a chain of nodes with these names, the first half on one accelerator and the rest on another.

    Where a device type is named the first of them is of it, and the other of another type.
    """
    nodes = tuple(Node(v, 1.0 + v, 9.0, 2.0**20, 0.25, name=name, layer=layer) for v, name in enumerate(names, start=1))
    edges = tuple(Edge(v, v + 1, 1e6) for v in range(1, len(nodes)))
    half = max(1, len(nodes) // 2)
    ids = [node.id for node in nodes]
    split = Split((frozenset(ids[:half]), frozenset(ids[half:])), (frozenset(),))
    deployment = Deployment(2, 1, 2.0**30)
    if device_type:
        types = (DeviceClass(device_type, 1, 1.0, 2.0**30), DeviceClass("other", 1, 1.0, 2.0**30))
        deployment = Deployment.of_classes(types, 1)
    return subject_of(DnnGraph(nodes, edges, graph_name), deployment, split)


@cache
def sample_subject(name: str, num_micro_batches: int = 8) -> Subject:
    """Return the best chain split of a sample."""
    graph, deployment = read_sample(name)
    result = solve(graph, deployment)
    assert result.split is not None
    kind = ScheduleKind.ONE_F_ONE_B if graph.is_training else ScheduleKind.INFERENCE
    return subject_of(graph, deployment, result.split, kind, num_micro_batches, result)


def without_schedule(subject: Subject) -> Subject:
    """Return the same plan without a timeline."""
    return replace(subject, schedule=None, gantt=None)
