"""How long a run of the page waits for the plan of a graph that has just come."""

import pytest

from explorer.jobs.pool import Job
from explorer.plan import solve_control
from explorer.plan.solve_control import ASKED_WAIT_S, LIVE_WAIT_S, MOST_NODES_WAITED_FOR
from tests.support.graphs import dag
from tests.support.opened_app import opened

NUM_NODES = 6
"""Nodes of the example."""


@pytest.mark.usefixtures("solver_processes")
@pytest.mark.parametrize(("most", "waited_s"), [(NUM_NODES, LIVE_WAIT_S), (NUM_NODES - 1, ASKED_WAIT_S)])
def test_the_page_of_a_large_graph_does_not_wait_for_its_plan(
    most: int, waited_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(job: Job, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(solve_control, "MOST_NODES_WAITED_FOR", most)
    monkeypatch.setattr(solve_control, "_wait", wait)
    opened("teaching_chain")
    assert waits == [waited_s]


def test_the_limit_itself_is_still_waited_for() -> None:
    graph = dag((1.0,) * MOST_NODES_WAITED_FOR, ())
    assert solve_control.patience_s(graph, is_asked=False) == LIVE_WAIT_S
    assert solve_control.patience_s(graph, is_asked=True) == ASKED_WAIT_S
