"""Tests of the chart of value and bound: which steps it has, and what part of them it shows."""

from explorer.elements.convergence import BOUND, INCUMBENT, convergence_chart, convergence_rows
from explorer.jobs.pool import HistoryPoint, JobState, Question, Snapshot
from solvers.model.deployment import Deployment

HISTORY = (
    HistoryPoint(0.1, None, 2.0),
    HistoryPoint(0.5, 40.0, 2.0),
    HistoryPoint(1.5, 5.0, 2.0),
    HistoryPoint(2.25, 5.0, 4.0),
)


def snapshot(state: JobState = JobState.RUNNING, seconds: float = 2.6) -> Snapshot:
    question = Question("graph", Deployment(2))
    return Snapshot("id", question, state, seconds, None, HISTORY, None, None, "", "", "", False)


def curve(of: Snapshot, what: str) -> list[tuple[float, float]]:
    return [(row["seconds"], row["ms"]) for row in convergence_rows(of) if row["what"] == what]


def test_each_curve_has_a_point_per_change_and_reaches_to_now() -> None:
    assert curve(snapshot(), INCUMBENT) == [(0.5, 40.0), (1.5, 5.0), (3.0, 5.0)]
    assert curve(snapshot(), BOUND) == [(0.1, 2.0), (2.25, 4.0), (3.0, 4.0)]
    # The same within a second, so that nothing is sent and drawn for nothing.
    assert convergence_rows(snapshot(seconds=2.9)) == convergence_rows(snapshot())
    assert curve(snapshot(JobState.DONE), BOUND)[-1] == (2.6, 4.0)


def test_a_poor_first_plan_does_not_press_the_rest_flat() -> None:
    low, high = convergence_chart(snapshot(), "light")["encoding"]["y"]["scale"]["domain"]
    assert low < 2.0
    assert 5.0 < high < 10.0


def test_nothing_known_is_an_empty_chart() -> None:
    empty = Snapshot(
        "id", Question("graph", Deployment(2)), JobState.QUEUED, 0.0, None, (), None, None, "", "", "", False
    )
    assert convergence_rows(empty) == []
    assert "domain" not in convergence_chart(empty, "dark")["encoding"]["y"]["scale"]
