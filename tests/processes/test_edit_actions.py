"""What edits do to a session: the plan shown, its proof, and what is said; without a browser."""

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from explorer.edits.document import from_document, to_document
from explorer.jobs.pool import Job, JobState, Question, Snapshot, WorkerPool
from explorer.picture.palette import contrast
from explorer.plan import edit_actions, edit_headline
from explorer.plan.current_plan import shown_plan
from explorer.plan.edit_actions import apply_edit, take_answer, take_edit
from explorer.plan.edited_plan import edit_view, edited_plan
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.edits import history_for, last_outcome, remember_history
from explorer.state.records import LoadedGraph, Plan, Run
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import pins_of
from tests.support.choices import choice_of
from tests.support.graphs import chain

GIB = 2.0**30
CHAIN = chain((1.0, 1.0, 1.0, 1.0), 0.25)
GRAPH = DnnGraph(tuple(replace(node, memory_bytes=GIB) for node in CHAIN.nodes), CHAIN.edges)
DEPLOYMENT = Deployment(2, 1, 3.0 * GIB)
LOADED = LoadedGraph(GRAPH, DEPLOYMENT, "tests")
QUESTION = Question(GRAPH.digest, DEPLOYMENT)
SPLIT = Split((frozenset({1, 2}), frozenset({3, 4})), (frozenset(),))


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(max_asked=1) as pool:
        yield pool


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A session without a browser, with the optimal chain as the solver's plan."""
    state: dict[str, Any] = {}
    monkeypatch.setattr(session.st, "session_state", state)
    result = SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, SPLIT, 2.25, 2.25, 0.1)
    session.remember_plan(Plan(QUESTION, LOADED, GRAPH, DEPLOYMENT, result, SPLIT))
    return state


def choice(**changes: Any) -> Choice:
    question = replace(QUESTION, **changes)
    return choice_of(question, LOADED)


def do(op: str, nodes: list[int] | None = None, device: int | None = None, asked: Choice | None = None) -> str:
    """Apply an edit to what is shown; return its message, after 'no: ' if it was not applied."""
    asked = asked or choice()
    plan = shown_plan(asked)
    assert plan is not None
    outcome = apply_edit(asked, plan, {"op": op, "nodes": nodes or [], "device": device})
    return outcome.message if outcome.applied else f"no: {outcome.message}"


def shown(asked: Choice | None = None) -> Plan:
    plan = shown_plan(asked or choice())
    assert plan is not None
    return plan


def test_a_move_is_shown_with_its_value_and_a_bound_of_its_own_family() -> None:
    assert do("move", [2], 1) == "Node 2 moved to Accelerator 2: max-load 2.25 ms → 3.25 ms."
    plan = shown()
    assert plan.split.device_of() == {1: 0, 2: 1, 3: 1, 4: 1}
    assert (plan.result.value_ms, plan.result.lower_bound_ms) == (3.25, 2.25)
    assert plan.result.status is SolveStatus.FEASIBLE
    assert plan.result.family is Family.CHAIN
    do("move", [2], 0)
    do("move", [3], 0)
    do("move", [2], 1)
    # Data goes back and forth: the bound for chains says nothing any more, that of total work does.
    assert shown().result.family is Family.FREE
    assert shown().result.lower_bound_ms is not None
    assert shown().result.lower_bound_ms < 2.25  # type: ignore[operator]


def test_an_edit_that_ends_in_the_optimum_is_optimal() -> None:
    do("move", [2], 1)
    do("move", [2], 0)
    assert shown().result.status is SolveStatus.OPTIMAL


def test_too_much_memory_is_told_with_device_and_amount_and_repaired() -> None:
    assert do("move", [1, 2], 1).endswith("max-load 2.25 ms → 4 ms. Accelerator 2 short by 1 GiB.")
    assert shown().result.status is SolveStatus.UNKNOWN
    assert shown().result.lower_bound_ms is None
    message = do("repair")
    assert message.startswith("Repaired: moved node ")
    assert "no change of fewer nodes is enough" in message
    assert shown().result.status is not SolveStatus.UNKNOWN
    assert do("undo").startswith("Undone: repaired")
    assert shown().result.status is SolveStatus.UNKNOWN
    assert do("redo").startswith("Redone: repaired")


def test_a_repair_is_made_by_a_solver_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_here(*_: Any, **__: Any) -> None:
        raise AssertionError("the server's own process has pages to serve")

    monkeypatch.setattr("solvers.milp.repair.repair", not_here)
    do("move", [3], 0)
    do("move", [4], 0)
    assert do("repair").startswith("Repaired: moved")


def test_a_repair_that_does_not_come_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    do("move", [3], 0)
    do("move", [4], 0)
    with monkeypatch.context() as patch:
        patch.setattr(edit_actions, "REPAIR_WAIT_S", -edit_actions.REPAIR_SECONDS)
        assert do("repair").startswith("no: No repair came in time.")
    assert do("repair").startswith("Repaired: moved")


class BusyPool:
    """A pool in which a call waits until it is dropped."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def call(self, *_: Any) -> Any:
        self.waiting.append(SimpleNamespace(future=Future()))
        return self.waiting[-1]

    def drop(self, call: Any) -> None:
        self.waiting.remove(call)

    def waits_for(self, call: Any) -> str:
        return "All solvers are busy: next in the queue." if call in self.waiting else ""


def test_a_repair_that_waits_in_vain_tells_what_it_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = BusyPool()
    monkeypatch.setattr(edit_actions, "solver_pool", lambda: pool)
    monkeypatch.setattr(edit_actions, "REPAIR_WAIT_S", -edit_actions.REPAIR_SECONDS)
    do("move", [3], 0)
    assert do("repair") == (
        "no: No repair came in time. All solvers are busy: next in the queue. Try again, or re-solve the rest."
    )
    assert pool.waiting == []


def test_repairs_keep_pins_or_say_that_they_cannot() -> None:
    do("move", [1, 2], 1)
    do("pin", [1, 2, 3])
    do("repair")
    assert [shown().split.device_of()[v] for v in (1, 2, 3)] == [1, 1, 1]
    do("undo")
    do("pin", [4])
    assert do("repair").startswith("no: No repair exists. Accelerator 2 cannot hold what is pinned to it")


def test_what_cannot_be_done_says_why() -> None:
    assert do("undo") == "no: There is nothing to undo."
    assert do("reset") == "no: There is nothing to reset."
    assert do("move", [1], 0) == "no: Node 1 is on Accelerator 1 already."
    assert do("move", [1], 7) == "no: There is no device 8; there are 3."
    assert do("repair") == "no: There is nothing to repair: the plan breaks no rule."
    assert do("resolve") == "no: Nothing is pinned or moved by hand. Pin what should stay, then re-solve the rest."
    assert do("fly") == "no: This edit is not known."
    assert edited_plan(choice()) is None


@pytest.mark.parametrize("op", [None, [], {}, 7])
def test_operations_from_outside_are_checked(op: Any) -> None:
    assert not apply_edit(choice(), shown(), {"op": op, "nodes": [1], "device": 1}).applied


@pytest.mark.parametrize("nodes", ["1", [1.5], [True], None, {"a": 1}])
def test_events_from_outside_are_checked(nodes: Any) -> None:
    outcome = apply_edit(choice(), shown(), {"op": "move", "nodes": nodes, "device": 1})
    assert not outcome.applied
    assert shown().split == SPLIT


def test_replicated_plans_are_not_edited() -> None:
    plan = shown()
    replicated = replace(plan, split=Split((frozenset({1, 2, 3, 4}),), (frozenset(),), (2,)))
    assert "replicated" in apply_edit(choice(), replicated, {"op": "pin", "nodes": [1]}).message


def test_a_solve_around_pins_is_a_step_with_its_proof(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit_actions, "solver_pool", lambda: pool)
    do("move", [1], 1)
    # Only what was moved by hand is pinned, since nothing else was.
    message = do("resolve")
    while (run := session.run()) is not None:
        snapshot = run.job.wait(60.0)
        session.remember_run(None)
        take_answer(run, snapshot, choice())
        outcome = last_outcome()
        assert outcome is not None
        message = outcome.message
    assert "Re-solved the rest around 1 pinned node" in message
    assert "optimal among pipeline splits with these pins, proven" in message
    plan = shown()
    assert plan.split.device_of()[1] == 1
    assert plan.result.status is SolveStatus.OPTIMAL
    assert plan.result.value_ms == 2.25
    # Other inputs: the plan stays, its proof does not.
    slower = choice(deployment=replace(DEPLOYMENT, memory_bytes=2.5 * GIB))
    assert shown(slower).split == plan.split
    assert shown(slower).result.method == "hand edit"
    do("move", [4], 1)
    assert shown().result.method == "hand edit"
    assert do("reset").startswith("All edits are dropped")
    assert shown().split == SPLIT


class RunningJob:
    """A job of the pool on a question with pins, which runs until it is cancelled."""

    def __init__(self, question: Question) -> None:
        self.question, self.is_cancelled = question, False

    def snapshot(self) -> Any:
        state = JobState.CANCELLED if self.is_cancelled else JobState.RUNNING
        return SimpleNamespace(question=self.question, state=state, best_split=None)

    def cancel(self) -> None:
        self.is_cancelled = True


@pytest.mark.parametrize(("op", "nodes", "device"), [("move", [1], 0), ("pin", [2], None), ("undo", None, None)])
def test_an_edit_ends_the_solve_whose_answer_would_take_it_back(
    op: str, nodes: list[int] | None, device: int | None
) -> None:
    do("move", [1], 1)
    do("pin", [1])
    job = RunningJob(replace(QUESTION, pins=pins_of({1: 1})))
    session.remember_run(Run(cast("Job", job), LOADED, GRAPH, is_live=False))
    assert do("move", [1], 9).startswith("no: There is no device")
    assert not job.snapshot().state.is_over
    assert "The solve of the rest was ended." in do(op, nodes, device)
    assert job.snapshot().state.is_over
    assert session.run() is None


def test_an_answer_to_other_pins_is_not_taken_over() -> None:
    do("pin", [1])
    question = replace(QUESTION, pins=pins_of({1: 0}))
    do("pin", [2])
    answer = Split((frozenset({1}), frozenset({2, 3, 4})), (frozenset(),))
    result = SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, answer, 3.25, 3.25, 0.1)
    snapshot = cast("Snapshot", SimpleNamespace(question=question, result=result, state=JobState.DONE, error=""))
    run = Run(cast("Job", RunningJob(question)), LOADED, GRAPH, is_live=False)
    take_answer(run, snapshot, choice())
    outcome = last_outcome()
    assert outcome is not None
    assert not outcome.applied
    assert "have changed since" in outcome.message
    assert shown().split.device_of()[2] == 0
    do("undo")
    take_answer(run, snapshot, choice())
    assert shown().split.on(DEPLOYMENT) == answer


def test_an_answer_to_earlier_hardware_says_so() -> None:
    do("pin", [1])
    question = replace(QUESTION, pins=pins_of({1: 0}))
    answer = Split((frozenset({1}), frozenset({2, 3, 4})), (frozenset(),))
    proven = SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, answer, 3.25, 3.25, 0.1)
    none = replace(proven, status=SolveStatus.INFEASIBLE, split=None, value_ms=None, lower_bound_ms=None, message="")
    run = Run(cast("Job", RunningJob(question)), LOADED, GRAPH, is_live=False)
    now = choice(deployment=replace(DEPLOYMENT, num_accelerators=3))
    for result in (none, proven):
        snapshot = cast("Snapshot", SimpleNamespace(question=question, result=result, state=JobState.DONE, error=""))
        take_answer(run, snapshot, now)
        outcome = last_outcome()
        assert outcome is not None
        assert outcome.message.endswith("That was for the inputs before these changes: accelerators 2 → 3.")
    # The plan is taken over all the same; what was proven of it does not hold any more.
    assert shown(now).split.device_of()[2] == 1
    assert shown(now).result.status is SolveStatus.FEASIBLE


def test_without_devices_nothing_is_edited_and_no_edit_is_lost() -> None:
    do("move", [2], 1)
    nothing = choice(deployment=Deployment(0, 0))
    for op in ("move", "pin", "unpin", "undo", "repair", "resolve", "reset"):
        assert "no devices" in do(op, [1], 0, nothing)
    assert "no devices" in edit_view(nothing, shown(nothing)).why_not
    assert shown().split.device_of()[2] == 1


def test_latency_is_not_solved_around_pins() -> None:
    asked = choice(objective=Objective.LATENCY)
    do("pin", [1])
    assert do("resolve", asked=asked).startswith("no: Pins are not supported for the latency of one micro-batch")


def test_edits_stay_when_hardware_changes_and_come_back_with_it() -> None:
    do("move", [4], 2)
    do("pin", [3])
    fewer = choice(deployment=Deployment(1, 1, 8.0 * GIB))
    assert shown(fewer).split.device_of() == {1: 0, 2: 0, 3: 0, 4: 1}
    view = edit_view(fewer, shown(fewer))
    assert view.pinned == frozenset()
    assert edit_view(choice(), shown()).pinned == {3}
    assert shown().split.device_of() == {1: 0, 2: 0, 3: 1, 4: 2}


def test_what_stood_on_a_device_that_is_gone_is_pinned_where_it_is_shown_and_nothing_else_is_re_solved_around() -> None:
    do("pin", [4])
    fewer = choice(deployment=Deployment(1, 1, 8.0 * GIB))
    message = do("resolve", asked=fewer)
    assert message == (
        "no: Nothing is pinned or moved by hand on the devices that are there. Pin what should stay, then re-solve "
        "the rest."
    )
    assert do("pin", [4], asked=fewer).startswith("Node 4 pinned to Accelerator 1")
    assert edit_view(fewer, shown(fewer)).pinned == {4}
    assert shown(fewer).split.device_of()[4] == 0


def test_names_of_nodes_are_text_in_the_headline(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "<img src=x onerror=alert(1)>"
    nodes = tuple(replace(node, name=name, colocation_class=1 if node.id < 3 else None) for node in GRAPH.nodes)
    graph = DnnGraph(nodes, GRAPH.edges)
    question = replace(QUESTION, graph_digest=graph.digest)
    loaded = LoadedGraph(graph, DEPLOYMENT, "named")
    asked = choice_of(question, loaded)
    broken = Split((frozenset({1}), frozenset({2, 3, 4})), (frozenset(),))
    result = SolveResult(
        SolveStatus.FEASIBLE, "local_search", Objective.THROUGHPUT, Family.CHAIN, broken, 3.0, 1.0, 0.1
    )
    session.remember_plan(Plan(question, loaded, graph, DEPLOYMENT, result, broken))
    assert do("pin", [3], asked=asked) == f"Node 3 ({name}) pinned to Accelerator 2."
    written: list[str] = []
    monkeypatch.setattr(edit_headline.st, "html", written.append)
    monkeypatch.setattr(edit_headline, "theme", lambda: "light")
    edit_headline.show_edit_headline(asked, shown(asked))
    (html,) = written
    assert "Hand edit, not valid" in html
    assert "Colocation class 1 is spread: node 1 (&lt;img src=x onerror=alert(1)&gt;) on Accelerator 1" in html
    assert "<img" not in html


@pytest.mark.parametrize(("fill", "ink"), edit_headline.COLOURS.values())
def test_the_headline_can_be_read(fill: str, ink: str) -> None:
    assert contrast(fill, ink) >= 4.5


def test_edits_of_another_graph_are_not_shown() -> None:
    do("move", [2], 1)
    other = chain((1.0, 1.0))
    loaded = LoadedGraph(other, DEPLOYMENT, "other")
    question = replace(QUESTION, graph_digest=other.digest)
    asked = choice_of(question, loaded)
    assert edited_plan(asked) is None


def test_an_event_is_taken_from_the_picture_for_the_plan_it_shows(state: dict[str, Any]) -> None:
    edit_view(choice(), shown())
    state["picture"] = {"edit": {"op": "move", "nodes": [2], "device": 1, "graph": "another graph"}}
    take_edit()
    refused = last_outcome()
    assert refused is not None
    assert not refused.applied
    assert "graph has changed" in refused.message
    state["picture"] = {"edit": {"op": "move", "nodes": [2], "device": 1, "graph": GRAPH.digest}}
    take_edit()
    outcome = last_outcome()
    assert outcome is not None
    assert outcome.applied
    view = edit_view(choice(), shown())
    assert (view.serial, view.is_edited, view.can_undo, view.can_redo) == (2, True, True, False)
    header = view.header([node.id for node in GRAPH.nodes])
    assert header["message"] == outcome.message


def test_a_picture_that_shows_stages_cut_further_is_not_edited() -> None:
    other = Split((frozenset({1, 3}), frozenset({2, 4})), (frozenset(),))
    assert "choose another schedule" in edit_view(choice(), shown(), other).why_not
    assert edit_view(choice(), shown(), SPLIT).why_not == ""


def test_edits_come_back_from_their_document() -> None:
    do("move", [2], 1)
    do("pin", [2])
    history = history_for(GRAPH.digest)
    assert history is not None
    before = shown().split
    do("reset")
    remember_history(from_document(to_document(history), GRAPH))
    assert shown().split == before
    assert edit_view(choice(), shown()).pinned == {2}
