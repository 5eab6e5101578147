"""What a run that was ended leaves."""

import pytest

from explorer.jobs.record import Question, RunRecord
from solvers.model.deployment import Deployment
from solvers.model.split import Family, Split
from tests.support.graphs import chain


@pytest.mark.parametrize(("method", "family"), [("local_search", Family.FREE), ("auto", Family.CHAIN)])
def test_a_baseline_that_was_ended_leaves_a_plan_of_its_own_family(method: str, family: Family) -> None:
    """It knows nothing of split types; other methods answer with the one that was asked for."""
    graph, deployment = chain([1.0, 1.0, 1.0]), Deployment(2)
    there_and_back = Split((frozenset({1, 3}), frozenset({2})))
    record = RunRecord(number=1, question=Question(graph.digest, deployment, method=method), graph=graph)
    record.best_split = there_and_back
    left = record.result_so_far("cancelled", "Cancelled")
    assert left.split == there_and_back
    assert left.family is family
