"""Tests of what the server keeps for a reload: for its browser alone, for a time, within limits, small once it left."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.edits.history import begin
from explorer.jobs.pool import WorkerPool
from explorer.jobs.record import Question
from explorer.jobs.server_pool import solver_pool
from explorer.jobs.sweep_run import SweepRun
from explorer.server.packed_graph import packed_graph, unpacked_graph
from explorer.state.frozen import frozen, thawed
from explorer.state.keeper import FREEZE_AFTER_S, Keeper
from explorer.state.query import Link
from explorer.state.records import LoadedGraph, Plan, Run, Subject
from explorer.state.records import Sweep as SessionSweep
from solvers.model.graph import TimesKind, TimesOrigin
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.spec import SweepSpec
from tests.support.examples import examples
from tests.support.graphs import chain, small_graphs
from tests.support.shared_graphs import ME, OTHER
from tests.support.waiting import eventually


class Server:
    """A clock that is set by hand, and the sessions that are there."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.open = {"here"}

    def clock(self) -> float:
        return self.now_s

    def keeper(self, **limits: Any) -> Keeper:
        return Keeper(lambda session: session in self.open, clock=self.clock, **limits)

    def leave(self, keeper: Keeper, *sessions: str) -> None:
        """Let a session leave, and the time pass until its record is small."""
        self.open -= set(sessions)
        keeper.tidy()
        self.now_s += FREEZE_AFTER_S
        keeper.tidy()


def test_values_come_back_to_their_browser_only() -> None:
    keeper = Server().keeper()
    mine, another = keeper.put(ME, None, "here", {"plan": 1}), keeper.put(ME, None, "here", {"plan": 3})
    assert mine != another
    assert keeper.put(ME, mine, "here", {"plan": 2}) == mine
    found = keeper.get(ME, mine)
    assert found is not None
    assert (found.values, found.session) == ({"plan": 2}, "here")
    assert keeper.get(OTHER, mine) is None
    found.values["plan"] = 4
    again = keeper.get(ME, mine)
    assert again is not None
    assert again.values == {"plan": 2}


def test_the_record_of_a_session_that_left_is_small_and_comes_back_the_same() -> None:
    server = Server()
    keeper = server.keeper()
    number = keeper.put(ME, None, "here", {"text": "a" * 1_000_000})
    assert keeper.tidy() == 0
    server.now_s += 10 * FREEZE_AFTER_S
    assert keeper.tidy() == 0, "its session is still there"
    server.leave(keeper, "here")
    assert 0 < keeper.size_bytes < 10_000
    found = keeper.get(ME, number)
    assert found is not None
    assert (found.values, found.session) == ({"text": "a" * 1_000_000}, "here")


def test_who_comes_back_within_a_minute_finds_the_very_same_objects() -> None:
    server = Server()
    keeper = server.keeper()
    value = object()
    number = keeper.put(ME, None, "here", {"plan": value})
    server.open.clear()
    keeper.tidy()
    server.now_s += FREEZE_AFTER_S / 2
    keeper.tidy()
    server.open.add("here")
    keeper.tidy()
    server.open.clear()
    server.now_s += FREEZE_AFTER_S / 2
    keeper.tidy()  # it left anew
    found = keeper.get(ME, number)
    assert found is not None
    assert found.values["plan"] is value


def test_what_nobody_looks_at_goes_after_a_day() -> None:
    server = Server()
    keeper = server.keeper(hours_kept=24)
    server.open = {"a", "b", "c"}
    used, forgotten, present = (keeper.put(ME, None, session, {}) for session in "abc")
    server.leave(keeper, "a", "b")
    server.now_s = 23 * 3600.0
    assert keeper.get(ME, used) is not None
    server.now_s = 25 * 3600.0
    assert keeper.get(ME, forgotten) is None
    assert keeper.get(ME, used) is not None
    assert keeper.get(ME, present) is not None, "its session is still there"


def test_one_browser_has_so_many_records_and_takes_no_others_room() -> None:
    keeper = Server().keeper(max_records_of_visitor=3)
    theirs = keeper.put(OTHER, None, "here", {})
    numbers = [keeper.put(ME, None, "here", {}) for _ in range(5)]
    assert [keeper.get(ME, number) is not None for number in numbers] == [False, False, True, True, True]
    assert keeper.get(OTHER, theirs) is not None


@examples(50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ME, OTHER]), st.integers(0, 60_000)), max_size=30))
def test_frozen_records_never_take_more_than_their_bounds(sizes: list[tuple[str, int]]) -> None:
    server = Server()
    keeper = server.keeper(max_bytes=100_000, max_bytes_of_visitor=70_000, max_records=12)
    for i, (visitor, size) in enumerate(sizes):
        server.open.add(f"s{i}")
        noise = pickle.dumps([hash((i, j)) for j in range(size // 9)])
        keeper.put(visitor, None, f"s{i}", {"noise": noise})
        server.leave(keeper, f"s{i}")
        assert keeper.size_bytes <= 100_000


@given(small_graphs(max_nodes=6))
def test_a_graph_comes_back_from_its_columns(instance: Any) -> None:
    graph, _ = instance
    again = unpacked_graph(packed_graph(graph))
    assert again == graph
    assert again.digest == graph.digest
    assert again.topological_order == graph.topological_order


def test_a_measured_graph_comes_back_with_what_it_was_measured_on() -> None:
    origin = TimesOrigin("H100-SXM", "bf16", "EPYC", TimesKind.MEASURED, "NVIDIA H100 80GB HBM3")
    graph = replace(chain((1.0, 2.0)), times=origin)
    again = thawed(frozen(graph))
    assert again == graph
    assert again.digest == graph.digest == again.with_nodes(again.nodes).digest


def test_a_graph_of_several_chunks_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.server.packed_graph.CHUNK", 100)
    for sample in ("bert_base_operator_inference", "gpt2_xl_layer_training", "unet_operator_training"):
        graph, _ = read_sample(sample)
        again = unpacked_graph(packed_graph(graph))
        assert (again, again.digest) == (graph, graph.digest)
        assert unpacked_graph(packed_graph(replace(graph, name="other"))).digest == graph.digest


def test_what_a_session_holds_comes_back_equal_and_shared_parts_stay_shared() -> None:
    graph, deployment = read_sample("teaching_chain")
    loaded = LoadedGraph(graph, deployment, "mine")
    question = Question(graph.digest, deployment)
    result = solve(graph, deployment)
    assert result.split is not None
    plan = Plan(question, loaded, graph, deployment, result, result.split)
    history = begin(graph, deployment, result.split)
    values = {"uploaded_graph": loaded, "plan": plan, "edit_histories": {graph.digest: history}, "dp_seconds": {"a": 1}}
    again = thawed(frozen(values))
    assert again == values
    assert again["plan"].loaded is again["uploaded_graph"]
    assert again["plan"].graph is again["uploaded_graph"].graph


def test_a_solve_comes_back_as_it_ended_and_not_before() -> None:
    graph, deployment = read_sample("teaching_chain")
    loaded = LoadedGraph(graph, deployment, "mine")
    server = Server()
    keeper = server.keeper()
    with WorkerPool(("tests.explorer.state.test_kept:slow_solve",), spare=0) as pool:
        job = pool.start("here", Question(graph.digest, deployment), graph)
        number = keeper.put(ME, None, "here", {"run": Run(job, loaded, graph, is_live=False)})
        server.leave(keeper, "here")
        assert keeper.size_bytes == 0, "it is still at work"
        ended = job.cancel()
        server.leave(keeper)
        assert keeper.size_bytes > 0
        found = keeper.get(ME, number)
    assert found is not None
    run = found.values["run"]
    assert run.job.id == job.id
    assert run.job.snapshot() == run.job.cancel() == run.job.wait() == ended
    assert run.job.question == ended.question


def slow_solve(*_: Any, **__: Any) -> None:
    """Stand in for a solver that takes long."""
    eventually(lambda: False)


@pytest.mark.usefixtures("solver_processes")
def test_a_sweep_comes_back_by_its_answers_and_can_go_on() -> None:
    graph, deployment = read_sample("teaching_chain")
    spec = SweepSpec(graph, deployment, (Axis(Quantity.ACCELERATORS, (1, 2, 3)),))
    loaded = LoadedGraph(graph, deployment, "mine")
    subject = Subject(loaded, graph, Question(graph.digest, deployment), Link())
    run = SweepRun(spec, "here", lambda _: True, solver_pool())
    run.start()
    state = eventually(lambda: not (now := run.state()).is_running and now)
    again: SessionSweep = thawed(frozen(SessionSweep(run, subject)))
    known = again.run.state()
    assert (known.answers, known.seconds, known.is_running) == (state.answers, state.seconds, False)
    assert again.run.spec == spec
    assert again.subject == subject
    again.run.session = "there"
    again.run.start()  # nothing is left to do
    eventually(lambda: not again.run.state().is_running)
    assert again.run.state().answers == state.answers
