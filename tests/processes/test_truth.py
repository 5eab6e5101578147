"""What is called optimal, and every bound, held against all plans of small graphs, through any series of hand edits."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.jobs.pool import Question, WorkerPool
from explorer.plan import edit_actions
from explorer.plan.current_plan import shown_plan
from explorer.plan.edit_actions import apply_edit
from explorer.plan.edited_plan import edited_plan, proof_with_pins, resolved_for
from explorer.state import session
from explorer.state.choice import Choice
from explorer.state.edits import history_for
from explorer.state.records import LoadedGraph, Plan
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, check_split
from solvers.solve import solve
from tests.support.choices import choice_of
from tests.support.examples import examples
from tests.support.graphs import random_dag
from tests.support.reference import all_splits, best_value

OPTIMUM = cache(best_value)
FREE_BEATS_CHAIN = (14, 21, 44, 97, 107, 115, 135, 149)
"""Seeds of random graphs of five nodes on which a bound for chains says too much about free splits."""
edits = st.tuples(
    st.sampled_from(("move", "move", "move", "pin", "together", "undo", "redo", "repair", "resolve")),
    st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True),
    st.integers(0, 2),
)


@pytest.fixture(scope="module")
def pool() -> Any:
    with WorkerPool(max_asked=1) as pool:
        yield pool


@given(
    st.sampled_from(FREE_BEATS_CHAIN),
    st.sampled_from(Family),
    st.sampled_from((None, 0.6, 1.0)),
    st.lists(edits, min_size=1, max_size=5),
)
@examples(20, deadline=None)
def test_what_is_said_of_a_plan_holds_against_all_plans(
    pool: WorkerPool, seed: int, family: Family, share: float | None, events: list[tuple[str, list[int], int]]
) -> None:
    graph = random_dag(seed, 5)
    memory = None if share is None else share * sum(node.memory_bytes for node in graph.nodes)
    deployment = Deployment(2, 1, memory)
    with pytest.MonkeyPatch.context() as patch:
        state: dict[str, Any] = {}
        patch.setattr(session.st, "session_state", state)
        patch.setattr(edit_actions, "solver_pool", lambda: pool)
        patch.setattr(edit_actions, "RESOLVE_WAIT_S", 60.0)
        choice, plan = _opened(graph, deployment, family)
        _check(choice, plan)
        for op, nodes, device in events:
            shown = shown_plan(choice)
            assert shown is not None
            apply_edit(choice, shown, {"op": op, "nodes": nodes, "device": device})
            _check(choice, edited_plan(choice) or plan)


def _opened(graph: DnnGraph, deployment: Deployment, family: Family) -> tuple[Choice, Plan]:
    """Return a choice and the solver's plan for it, which is on the screen."""
    loaded = LoadedGraph(graph, deployment, "tests")
    question = Question(graph.digest, deployment, family=family, time_limit_s=20.0)
    result = solve(graph, deployment, family=family)
    assert result.split is not None
    plan = Plan(question, loaded, graph, deployment, result, result.split.on(deployment))
    session.remember_plan(plan)
    return choice_of(question, loaded), plan


def _check(choice: Choice, plan: Plan) -> None:
    graph, deployment, result = plan.graph, plan.deployment, plan.result
    value_ms = objective_value(graph, deployment, plan.split, Objective.THROUGHPUT)
    assert value_ms is not None
    assert result.value_ms == pytest.approx(value_ms)
    optimum_ms = OPTIMUM(graph, deployment, result.family, Objective.THROUGHPUT)
    assert optimum_ms is not None
    if check_split(graph, deployment, plan.split, result.family):
        assert (result.status, result.lower_bound_ms) == (SolveStatus.UNKNOWN, None)
        return
    assert result.lower_bound_ms is not None
    assert result.lower_bound_ms <= optimum_ms * (1 + 1e-6)
    if result.status is SolveStatus.OPTIMAL:
        assert value_ms == pytest.approx(optimum_ms)
    history = history_for(graph.digest)
    if (
        history is not None
        and history.proof is not None
        and proof_with_pins(history.proof.result).startswith("optimal")
    ):
        pins = resolved_for(choice, history).pins
        best_ms = min(
            objective_value(graph, deployment, split, Objective.THROUGHPUT) or 0.0
            for split in all_splits(graph, deployment)
            if not check_split(graph, deployment, split, choice.question.family) and not pins.broken_by(graph, split)
        )
        assert value_ms == pytest.approx(best_ms)
