"""Sweeps: the laws of their values, the same answers on every executor, and lost workers."""

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, check_split
from solvers.processes.worker_processes import WorkerStoppedError
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity, Varied
from solvers.sweep.journal import SweepFile
from solvers.sweep.run import BY_NEIGHBOUR, MAX_TRIES, PointResult, PointTask, resumed, run_sweep, solve_point
from solvers.sweep.spec import Index, SweepSpec
from tests.support.graphs import chain, random_dag, with_backward
from tests.support.sweeps import answers, comparable, threads

HARDER_FIRST = (Quantity.ACCELERATORS, Quantity.MEMORY, Quantity.BANDWIDTH_FACTOR, Quantity.CPUS)


def small_spec(seed: int = 1, **options: object) -> SweepSpec:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2, 3, 4, 5)), Axis(Quantity.BANDWIDTH_FACTOR, (0.25, 0.5, 1, 2)))
    graph = random_dag(seed, num_nodes=9)
    return SweepSpec(graph, Deployment(2, memory_bytes=1e9), options.pop("axes", axes), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", [Objective.THROUGHPUT, Objective.GPIPE, Objective.LATENCY])
def test_every_point_is_what_solve_answers(objective: Objective) -> None:
    sizes = {Objective.THROUGHPUT: 8, Objective.GPIPE: 6, Objective.LATENCY: 6}
    graph = random_dag(3, sizes[objective])
    graph = with_backward(graph) if objective is Objective.GPIPE else graph
    total = sum(node.memory_bytes for node in graph.nodes)
    axes = (Axis(Quantity.ACCELERATORS, (1, 2, 3)), Axis(Quantity.MEMORY, (total / 4, total / 2, total)))
    spec = SweepSpec(graph, Deployment(2, num_cpus=0), axes, objective)
    found = answers(spec)
    assert set(found) == set(spec.points())
    for index, result in found.items():
        asked = spec.asked(index)
        alone = solve(asked.graph, asked.deployment, objective=objective)
        assert result.status is alone.status
        assert result.value_ms == (alone.value_ms and pytest.approx(alone.value_ms, rel=1e-6))
        if result.split is not None:
            value = objective_value(asked.graph, asked.deployment, result.split, objective)
            assert value == result.value_ms
            assert not check_split(asked.graph, asked.deployment, result.split, result.family)


@pytest.mark.parametrize("quantity", HARDER_FIRST)
@pytest.mark.parametrize("seed", range(4))
def test_more_of_anything_never_hurts(quantity: Quantity, seed: int) -> None:
    graph = random_dag(seed, 8)
    total = sum(node.memory_bytes for node in graph.nodes)
    values = {
        Quantity.MEMORY: tuple(total * share for share in (0.2, 0.3, 0.5, 0.7, 1)),
        Quantity.BANDWIDTH_FACTOR: (0.1, 0.5, 1, 2, 7),
    }.get(quantity, (1, 2, 3, 4, 6))
    found = answers(SweepSpec(graph, Deployment(3, 1, memory_bytes=total / 2), (Axis(quantity, values),)))
    series = [found[(i,)].value_ms for i in range(5)]
    known = [value for value in series if value is not None]
    assert known == sorted(known, reverse=True)
    assert series[len(series) - len(known) :] == known, "no plan with more where there is one with less"


def test_fewer_micro_batches_in_flight_never_hurt() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_training")
    memory = TrainingMemory(InFlight.GPIPE, 1)
    spec = SweepSpec(
        graph,
        replace(deployment, training_memory=memory),
        (Axis(Quantity.MICRO_BATCHES, (1, 2, 4, 8, 64, 256)),),
    )
    found = answers(spec)
    values = [found[(i,)].value_ms for i in range(6)]
    known = [value for value in values if value is not None]
    assert len(known) >= 2
    assert known == sorted(known)
    assert values[: len(known)] == known


def test_what_is_harder_than_the_infeasible_is_not_solved() -> None:
    graph = chain([1.0] * 4)  # four nodes of one byte
    asked: list[PointTask] = []

    def solve_one(task: PointTask) -> SolveResult:
        asked.append(task)
        return solve_point(task)

    axis = Axis(Quantity.MEMORY, (0.1, 0.2, 0.3, 0.4, 2.0))
    found = answers(SweepSpec(graph, Deployment(4), (axis,)), solve_one=solve_one)
    assert [found[(i,)].status for i in range(5)] == [SolveStatus.INFEASIBLE] * 4 + [SolveStatus.OPTIMAL]
    assert sum(result.method == BY_NEIGHBOUR for result in found.values()) == 1
    assert len(asked) == 4


def test_every_point_follows_its_neighbours_and_adjacent_ones_are_neighbours() -> None:
    for shape in ((1,), (2,), (3,), (9,), (2, 2), (5, 3), (1, 4), (12, 12)):
        axes = tuple(
            Axis(quantity, tuple(range(1, n + 1)))
            for quantity, n in zip((Quantity.ACCELERATORS, Quantity.BANDWIDTH_FACTOR), shape, strict=False)
        )
        spec = SweepSpec(chain([1.0, 2.0]), Deployment(1), axes)
        points = list(spec.points())
        assert len(set(points)) == len(points) == spec.num_points
        place = {index: i for i, index in enumerate(points)}
        for index in points:
            harder, easier = spec.neighbours(index)
            assert all(place[other] < place[index] for other in (*harder, *easier))
            assert all(other < index for other in harder)
            assert all(other > index for other in easier)
            for axis in range(len(shape)):
                beyond = tuple(i + (a == axis) for a, i in enumerate(index))
                if beyond in place:
                    assert beyond in easier or index in spec.neighbours(beyond)[0]


def test_a_plan_of_a_neighbour_with_its_bound_needs_no_search() -> None:
    """Without transfers bandwidth changes nothing: of five points only the ends are searched."""
    spec = SweepSpec(
        chain([1.0, 2.0, 3.0, 4.0, 5.0], 0.0), Deployment(3), (Axis(Quantity.BANDWIDTH_FACTOR, (1, 2, 3, 4, 5)),)
    )
    assert [answers(spec)[(i,)].method for i in (1, 2, 3)] == ["warm start"] * 3


@pytest.mark.parametrize("method", ["auto", "local_search"])
def test_answers_do_not_depend_on_executor_or_order(method: str) -> None:
    spec = small_spec(method=method)
    alone = comparable(answers(spec, at_once=1))
    assert comparable(answers(spec, at_once=50)) == alone

    class LastFirst(Executor):
        """Runs what it was handed in the opposite order, when it has five calls or is asked for an answer."""

        def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            future: Future[SolveResult] = Future()
            threading.Timer(0.02 / (1 + len(str(args))), lambda: future.set_result(fn(*args, **kwargs))).start()
            return future

    found = {a.index: a.result for a in run_sweep(spec, LastFirst, at_once=7)}
    assert comparable(found) == alone


class BreaksAtThree(Executor):
    """A pool that breaks, with all that it was handed, when it comes to a point with three accelerators."""

    def __init__(self, ends_all: bool, refusal: type[RuntimeError]) -> None:
        """With `ends_all` it ends all futures, else only that one; `refusal` is what it says to further calls."""
        self._ends_all, self._refusal = ends_all, refusal
        self._pool, self._handed, self._is_broken = ThreadPoolExecutor(1), list[Future[SolveResult]](), False

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        if self._is_broken:
            raise self._refusal("no further calls")
        future: Future[SolveResult] = Future()
        self._handed.append(future)
        self._pool.submit(self._run, future, fn, *args)
        return future

    def _run(self, future: Future[SolveResult], fn: Callable[[PointTask], SolveResult], task: PointTask) -> None:
        self._is_broken |= dict(task.changes)[Varied(Quantity.ACCELERATORS)] == 3
        if not self._is_broken:
            future.set_result(fn(task))
            self._handed.remove(future)
        elif not future.done():
            for lost in list(self._handed) if self._ends_all else [future]:
                lost.set_exception(BrokenExecutor("a process has ended"))
            self._pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("ends_all", [True, False])
@pytest.mark.parametrize("refusal", [BrokenExecutor, RuntimeError])
def test_a_point_that_breaks_every_executor_costs_no_other_point(ends_all: bool, refusal: type[RuntimeError]) -> None:
    spec = small_spec()
    made: list[BreaksAtThree] = []

    def make() -> Executor:
        made.append(BreaksAtThree(ends_all, refusal))
        return made[-1]

    found = list(run_sweep(spec, make))
    assert len(found) == spec.num_points
    assert {a.index for a in found if a.is_failed} == {(2, b) for b in range(4)}
    assert len(made) > 4 * MAX_TRIES
    rest = answers(spec)
    for answer in found:
        if not answer.is_failed:
            assert answer.result.value_ms == pytest.approx(rest[answer.index].value_ms, rel=1e-6)


def test_an_executor_that_breaks_ends_its_futures_itself() -> None:
    """As ProcessPoolExecutor does, in a thread that fails on a future that somebody else has ended."""
    handed: list[Future[SolveResult]] = []
    made: list[Executor] = []

    class BreaksAtOnce(Executor):
        def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
            handed.append(Future())
            if len(handed) == 3:
                handed[0].set_exception(BrokenExecutor("a process has ended"))
            return handed[-1]

    def make() -> Executor:
        made.append(threads() if made else BreaksAtOnce())
        return made[-1]

    found = list(run_sweep(small_spec(), make))
    assert len(made) == 2
    assert len(handed) >= 3
    for future in handed[1:]:
        future.set_exception(BrokenExecutor("a process has ended"))
    assert not any(answer.is_failed for answer in found)


def test_an_executor_that_takes_no_call_ends_the_sweep() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        list(run_sweep(small_spec(), lambda: executor))


def test_a_point_that_always_fails_does_not_end_the_sweep() -> None:
    tries: list[PointTask] = []

    def fails_at_three(task: PointTask) -> SolveResult:
        if dict(task.changes)[Varied(Quantity.ACCELERATORS)] == 3:
            tries.append(task)
            raise MemoryError("no room")
        return solve_point(task)

    spec = small_spec(axes=(Axis(Quantity.ACCELERATORS, (1, 2, 3, 4, 5)),))
    found = {a.index: a for a in run_sweep(spec, threads, solve_one=fails_at_three)}
    assert len(tries) == MAX_TRIES
    assert found[(2,)].is_failed
    assert found[(2,)].result.status is SolveStatus.UNKNOWN
    assert "MemoryError: no room" in found[(2,)].result.message
    rest = answers(spec)
    for index in rest.keys() - {(2,)}:
        assert found[index].result.value_ms == pytest.approx(rest[index].value_ms, rel=1e-6)


def test_bad_input_of_a_point_ends_the_sweep() -> None:
    def refuses(_: PointTask) -> SolveResult:
        raise PlacementError("no such program")

    with pytest.raises(PlacementError, match="no such program"):
        list(run_sweep(small_spec(), threads, solve_one=refuses))


def test_cancel_keeps_what_is_done_and_resume_gives_the_same(tmp_path: Path) -> None:
    spec = small_spec()
    path = tmp_path / "points.jsonl"
    with SweepFile(path, spec) as file:
        for answer in run_sweep(spec, threads, at_once=1, is_cancelled=lambda: len(file.known) >= 7):
            file.add(answer)
        assert len(file.known) == 7
    with path.open("ab") as torn:
        torn.write(b'{"index": [0, ')  # the machine went down while it wrote
    with SweepFile(path, spec) as file:
        assert len(file.known) == 7
        first = dict(file.known)
        for answer in run_sweep(spec, threads, known=first):
            assert answer.index not in first
            file.add(answer)
    with SweepFile(path, spec) as file:
        assert comparable(file.known) == comparable(answers(spec))


def test_points_that_failed_are_tried_again_by_resume(tmp_path: Path) -> None:
    spec = small_spec()
    result = next(iter(run_sweep(spec, threads, at_once=1))).result
    with SweepFile(tmp_path / "f", spec) as file:
        file.add(PointResult((0, 0), result, is_failed=True))
        file.add(PointResult((4, 3), result))
    with SweepFile(tmp_path / "f", spec) as file:
        assert set(file.known) == {(4, 3)}


def test_files_of_other_sweeps_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    with SweepFile(path, small_spec()):
        pass
    before = path.read_bytes()
    with pytest.raises(PlacementError, match="belongs to another sweep"):
        SweepFile(path, small_spec(seed=2))
    with pytest.raises(PlacementError, match="belongs to another sweep"):
        SweepFile(path, small_spec(gap=0.1))
    assert path.read_bytes() == before
    for text in ("[1, 2]\n", "{}\n", "not JSON\n", '{"format": 1}\n'):
        path.write_text(text)
        with pytest.raises(PlacementError, match="not a file of a sweep"):
            SweepFile(path, small_spec())
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": ()}, "one axis or two"),
        ({"axes": (Axis(Quantity.CPUS, (1,)),) * 2}, "two different"),
        ({"axes": (Axis(Quantity.BANDWIDTH, (1e6,)),)}, "no consistent bytes"),
        ({"axes": (Axis(Quantity.MICRO_BATCHES, (1, 2)),)}, "training schedule"),
        ({"axes": (Axis(Quantity.OBJECTIVE, ("throughput", "gpipe")),)}, "no backward nodes"),
        ({"axes": (Axis(Quantity.ACCELERATORS, (1, 5000)),)}, "5000 accelerators"),
        ({"method": "dp", "family": Family.FREE}, "Method dp finds pipeline splits"),
        (
            {"axes": (Axis(Quantity.ACCELERATORS, tuple(range(1000))), Axis(Quantity.CPUS, tuple(range(11))))},
            "up to 10,000",
        ),
    ],
)
def test_sweeps_that_make_no_sense_are_refused_before_anything_is_solved(
    change: dict[str, object], message: str
) -> None:
    with pytest.raises(PlacementError, match=message):
        small_spec(**change)


def test_devices_are_those_of_the_catalogue_and_compare_as_their_times_do() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    kinds = ("H100-SXM", "A100-80", "T4", "1xA100-80+2xT4")
    spec = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, kinds), Axis(Quantity.BANDWIDTH, (8e6, 32e6))))
    found = answers(spec)
    for index, result in found.items():
        asked = spec.asked(index)
        assert asked.graph.bandwidth_bytes_per_ms == pytest.approx(spec.values(index)[1])
        assert asked.deployment == spec.deployment_at(index)
        assert result.value_ms == pytest.approx(solve(asked.graph, asked.deployment).value_ms, rel=1e-6)
    assert found[(0, 1)].value_ms < found[(1, 1)].value_ms < found[(3, 1)].value_ms  # type: ignore[operator]
    with pytest.raises(PlacementError, match="B9000"):
        SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("B9000",)),))


@pytest.mark.parametrize("values", [(), (1, 1), (1.5, 2), ("a",), tuple(range(2000))])
def test_axes_that_make_no_sense_are_refused(values: tuple[float | str, ...]) -> None:
    with pytest.raises(PlacementError, match="sweep over accelerators"):
        Axis(Quantity.ACCELERATORS, values)


def test_digests_tell_sweeps_apart() -> None:
    assert small_spec().digest == small_spec().digest
    others = (small_spec(2), small_spec(gap=0.1), small_spec(method="dp"), small_spec(family=Family.FREE))
    assert len({small_spec().digest, *(spec.digest for spec in others)}) == 5


def test_a_point_that_was_ended_at_a_limit_keeps_its_plan_and_is_not_tried_again() -> None:
    spec, tries = small_spec(axes=(Axis(Quantity.ACCELERATORS, (2,)),)), []

    def stopped(task: PointTask) -> SolveResult:
        tries.append(task)
        split = solve(spec.graph, spec.deployment_at((0,))).split
        raise WorkerStoppedError("It took too much.", split, 0.25)

    (result,) = answers(spec, solve_one=stopped).values()
    assert len(tries) == 1
    best = solve(spec.graph, spec.deployment_at((0,)))
    assert (result.status, result.method, result.message) == (
        SolveStatus.FEASIBLE,
        "auto (stopped)",
        "It took too much.",
    )
    assert (result.split, result.lower_bound_ms) == (best.split, 0.25)
    assert result.value_ms == pytest.approx(best.value_ms)


def test_a_point_that_goes_on_later_does_so_from_what_it_had() -> None:
    spec, tasks = small_spec(axes=(Axis(Quantity.ACCELERATORS, (2,)),), time_limit_s=9.0), []

    def kept(task: PointTask) -> SolveResult:
        tasks.append(task)
        return solve_point(task)

    (first,) = answers(spec, solve_one=kept).values()
    later = resumed(tasks[0], 4.0, first.split, first.lower_bound_ms)
    assert (later.time_limit_s, later.lower_bound_ms) == (4.0, first.lower_bound_ms)
    assert first.split in later.starts
    assert solve_point(later).value_ms == first.value_ms
    assert resumed(later, -1.0, None, 0.0).time_limit_s == 0.0
    assert resumed(later, 1.0, None, None).lower_bound_ms == first.lower_bound_ms


def test_a_graph_keeps_its_digest_on_its_way_to_a_worker() -> None:
    from solvers.sweep.run import PackedGraph, _unpacked

    graph: DnnGraph = random_dag(5)
    assert _unpacked(PackedGraph.of(graph)).digest == graph.digest


def test_a_large_sweep_looks_at_each_point_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at every point after every answer: 10,000 points would take hours."""
    axes = (Axis(Quantity.ACCELERATORS, tuple(range(30))), Axis(Quantity.BANDWIDTH_FACTOR, tuple(range(1, 31))))
    spec = SweepSpec(chain([1.0]), Deployment(1), axes)
    looks: list[Index] = []
    neighbours = SweepSpec.neighbours

    def counted(self: SweepSpec, index: Index) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
        looks.append(index)
        return neighbours(self, index)

    monkeypatch.setattr(SweepSpec, "neighbours", counted)
    answer = solve(spec.graph, Deployment(1))
    found = answers(spec, solve_one=lambda _: answer)
    assert found.keys() == set(spec.points())
    assert len(looks) <= 3 * spec.num_points


@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_over_links_ends_where_theory_has_it(seed: int) -> None:
    """Free transfers: all work over all devices, where it can be cut so; endless ones: what is joined stays so."""
    equal = chain([1.0] * 12, 1.0)
    axis = Axis(Quantity.BANDWIDTH_FACTOR, (1e-9, 1e-3, 1.0, 1e3, 1e9))
    found = answers(SweepSpec(equal, Deployment(4), (axis,)))
    assert found[(4,)].value_ms == pytest.approx(12 / 4)
    assert found[(0,)].value_ms == 12.0
    split = found[(0,)].split
    assert split is not None
    assert split.num_accelerators_used == 1

    graph = random_dag(seed, 9)
    found = answers(SweepSpec(graph, Deployment(3), (axis,), family=Family.FREE))
    total_ms = sum(node.accelerator_ms for node in graph.nodes)
    free = replace(graph, nodes=tuple(replace(node, transfer_ms=0.0) for node in graph.nodes))
    ended = solve(free, Deployment(3), family=Family.FREE).value_ms
    assert found[(4,)].value_ms == pytest.approx(ended, rel=1e-5)
    assert total_ms / 3 <= ended  # type: ignore[operator]
    works = works_apart(graph)
    least = min(
        max(sum(work for work, d in zip(works, places, strict=True) if d == device) for device in range(3))
        for places in product(range(3), repeat=len(works))
    )
    assert found[(0,)].value_ms == pytest.approx(least)


def works_apart(graph: DnnGraph) -> list[float]:
    """The work in ms of each part of a graph between which nothing is moved that takes time."""
    part = {node.id: node.id for node in graph.nodes}
    for _ in graph.nodes:
        for edge in graph.edges:
            if graph.node_by_id[edge.source].transfer_ms > 0:
                part[edge.source] = part[edge.target] = min(part[edge.source], part[edge.target])
    return [
        sum(node.accelerator_ms for node in graph.nodes if part[node.id] == one) for one in sorted(set(part.values()))
    ]
