"""What whoever watches a solve is told: every state it asks for, and every better plan once."""

from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.result import Progress
from solvers.model.split import Family, Split
from solvers.problem.background import Background
from solvers.problem.solving import Problem, Reporter
from tests.support.graphs import chain


def test_a_plan_is_told_once_whichever_thread_found_it() -> None:
    told: list[Progress] = []
    problem = Problem(chain((3.0, 4.0, 2.0)), Deployment(2), Objective.THROUGHPUT, Family.CHAIN, None, 0.0)
    reporter = Reporter(problem, told.append)
    all_on_one = Split((frozenset({1, 2, 3}), frozenset()), ())
    halves = Split((frozenset({1}), frozenset({2, 3})), ())
    reporter.report("nothing yet")
    for split in (all_on_one, halves, all_on_one):  # the last is worse, and of no interest
        finding = Background(lambda split=split: reporter.found(split), "finder")  # type: ignore[misc]
        finding.wait()
        reporter.report("after it")
        reporter.report("and again")
    assert [progress.split for progress in told] == [None, all_on_one, None, halves, None, None, None]
    assert [progress.incumbent_ms for progress in told] == [None, 9.0, 9.0, 7.0, 7.0, 7.0, 7.0]
