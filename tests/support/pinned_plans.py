"""Pins drawn at random, and what plans that honour them must agree on."""

from typing import Any

import pytest
from hypothesis import strategies as st

from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split, check_split
from solvers.problem.pins import Pins, pins_of
from solvers.solve import solve
from tests.support.graphs import small_graphs
from tests.support.reference import all_splits

TOLERANCE = 1e-6


@st.composite
def pinned(draw: st.DrawFn, **options: Any) -> tuple[DnnGraph, Deployment, Pins]:
    """Draw a small graph, its devices, and a few pins, which may be impossible."""
    graph, deployment = draw(small_graphs(max_nodes=5, **options))
    ids = sorted(graph.node_by_id)
    devices = st.integers(0, deployment.num_devices - 1)
    device_of = draw(st.dictionaries(st.sampled_from(ids), devices, max_size=3))
    together = (
        draw(st.lists(st.lists(st.sampled_from(ids), min_size=2, max_size=3, unique=True), max_size=1))
        if (len(ids) > 1)
        else []
    )
    return graph, deployment, pins_of(device_of, together)


def best_pinned(
    graph: DnnGraph, deployment: Deployment, pins: Pins, family: Family, objective: Objective
) -> float | None:
    """Return the least value over all valid splits that honour the pins."""
    values = (
        objective_value(graph, deployment, split, objective)
        for split in all_splits(graph, deployment)
        if honours(pins, split) and not check_split(graph, deployment, split, family)
    )
    return min((value for value in values if value is not None), default=None)


def honours(pins: Pins, split: Split) -> bool:
    device_of = split.device_of()
    return all(device_of[v] == d for v, d in pins.devices) and all(
        len({device_of[v] for v in ids}) == 1 for ids in pins.together
    )


def check_agreement(
    graph: DnnGraph, deployment: Deployment, pins: Pins, family: Family, method: str, objective: Objective
) -> None:
    expected = best_pinned(graph, deployment, pins, family, objective)
    result = solve(graph, deployment, objective=objective, method=method, family=family, pins=pins)
    if expected is None:
        assert result.status is SolveStatus.INFEASIBLE, result
        assert result.message.endswith(".")
        return
    assert result.status is SolveStatus.OPTIMAL, result
    assert result.split is not None
    assert honours(pins, result.split)
    assert not check_split(graph, deployment, result.split, family)
    assert result.value_ms == pytest.approx(expected, rel=TOLERANCE, abs=1e-12)
