"""Contiguous splits are bounded by the integer program of non-contiguous ones, which proves nothing beyond that."""

import pytest
from hypothesis import given

from solvers.free.anytime import PlansAndBounds
from solvers.methods import throughput
from solvers.methods.throughput import _run_ip
from solvers.model.costs import Objective
from solvers.model.split import Family, check_split
from solvers.problem.solving import Problem, Reporter, contracted
from solvers.solve import solve
from tests.support.agreement import Instance, assert_optimal
from tests.support.examples import examples
from tests.support.graphs import small_graphs
from tests.support.reference import best_value


@given(small_graphs(min_nodes=4, max_nodes=6, max_accelerators=3))
@examples(60)
def test_it_proves_the_optimum_of_non_contiguous_splits_and_keeps_only_contiguous_ones(instance: Instance) -> None:
    graph, deployment = instance
    problem = Problem(graph, deployment, Objective.THROUGHPUT, Family.CONVEX, time_limit_s=60.0, gap=0.0)
    reporter = Reporter(problem, None)
    contraction = contracted(problem, Family.CONVEX)
    _run_ip(problem, contraction, reporter, "ip", relaxed_s=60.0)
    best_of_all = best_value(graph, deployment, Family.FREE, Objective.THROUGHPUT)
    best = best_value(graph, deployment, Family.CONVEX, Objective.THROUGHPUT)
    if best_of_all is not None:
        assert reporter.lower_bound_ms == pytest.approx(best_of_all, rel=1e-6, abs=1e-9)
    if reporter.split is not None:
        assert not check_split(graph, deployment, reporter.split, Family.CONVEX)
        assert best is not None
        assert reporter.value_ms is not None
        assert reporter.value_ms >= best * (1 - 1e-9)


@given(small_graphs(min_nodes=4, max_nodes=6, max_accelerators=3))
@examples(60)
def test_the_program_of_contiguous_splits_goes_on_from_it_to_the_optimum(instance: Instance) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throughput, "MOST_ROWS_AT_ONCE", 0)
        patch.setattr(throughput, "LEAST_GAP_RELAXED", 0.0)
        patch.setattr(PlansAndBounds, "_raise_bound", lambda _: None)  # it would mostly prove the optimum before
        result = solve(*instance, family=Family.CONVEX, method="ip")
    assert_optimal(result, instance, best_value(*instance, Family.CONVEX, Objective.THROUGHPUT))
