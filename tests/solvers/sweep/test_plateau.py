"""Knees and plateaus of any curve: what is marked, and what is said of it, holds against the numbers of the curve."""

import math
import re

from hypothesis import given
from hypothesis import strategies as st

from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.plateau import FLAT, knee_of, plateau_of, plateau_text
from solvers.sweep.spec import Index, SweepSpec
from tests.support.examples import examples
from tests.support.written import read

ONE = DnnGraph((Node(1, 1.0, 1.0),), ())


def answered(values_ms: list[float]) -> tuple[SweepSpec, dict[Index, SolveResult]]:
    """Return a sweep over one to so many accelerators that were found to take these times."""
    spec = SweepSpec(ONE, Deployment(1), (Axis(Quantity.ACCELERATORS, tuple(range(1, len(values_ms) + 1))),))
    found = {
        (i,): SolveResult(SolveStatus.OPTIMAL, "dp", Objective.THROUGHPUT, Family.CHAIN, None, ms, ms, 0.0)
        for i, ms in enumerate(values_ms)
    }
    return spec, found


@examples(300)
@given(st.lists(st.sampled_from([1.0, 0.995, 0.9, 0.75, 0.5]), min_size=1, max_size=14))
def test_no_step_behind_a_knee_is_steep_and_one_behind_a_plateau_is(factors: list[float]) -> None:
    """Times fall by these factors from one count to the next, as more devices never hurt."""
    values_ms = [100.0 * math.prod(factors[: i + 1]) for i in range(len(factors))]
    rates = [1000.0 / ms for ms in values_ms]
    spec, found = answered(values_ms)
    mean = (rates[-1] - rates[0]) / max(1, len(rates) - 1)
    knee, plateau = knee_of(spec, found), plateau_of(spec, found)
    assert knee is None or plateau is None
    if knee is not None:
        assert all(rates[i + 1] - rates[i] <= mean * (1 + 1e-6) for i in range(knee, len(rates) - 1))
    if plateau is not None:
        assert 0 <= plateau.first < plateau.last < len(rates) - 1
        assert rates[plateau.first] >= rates[plateau.last] * (1 - FLAT)
        assert rates[plateau.last + 1] - rates[plateau.last] > mean
        text = plateau_text(spec, plateau)
        told = re.match(
            r"Plateau from (\d+) to (\d+): no knee, since (\d+) accelerators are ([\d.,]+) % faster\.", text
        )
        assert told is not None, text
        assert [int(told[i]) for i in (1, 2, 3)] == [plateau.first + 1, plateau.last + 1, plateau.last + 2]
        faster = 100 * (values_ms[plateau.last] / values_ms[plateau.last + 1] - 1)
        assert abs(read(told[4]) - faster) <= 0.006 * faster


@examples(200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0.01, 0.5, 1.0, 1.99]), min_size=1, max_size=3), min_size=1, max_size=2),
    st.integers(2, 7),
    st.integers(0, 1),
)
def test_what_is_said_of_equal_layers_holds_of_every_division_of_them(
    kinds: list[list[float]], num_equal: int, num_cpus: int
) -> None:
    """Layers of one kind repeat, with another one before them; every way to cut the chain is looked at."""
    layers = [*kinds[1:], *[kinds[0]] * num_equal]
    times = [(ms, f"layer {i}") for i, layer in enumerate(layers) for ms in layer]
    nodes = tuple(Node(v, ms, 3.0 * ms, layer=name) for v, (ms, name) in enumerate(times))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(len(nodes) - 1)))
    most = num_equal + 1
    axis = Axis(Quantity.ACCELERATORS, tuple(range(1, most + 1)))
    spec = SweepSpec(graph, Deployment(1, num_cpus), (axis,))
    found = {(k - 1,): solve(graph, Deployment(k, num_cpus)) for k in range(1, most + 1)}
    plateau = plateau_of(spec, found)
    if plateau is None or not plateau.reason:
        return
    told = re.fullmatch(
        r"The graph has (\d+) equal layers\. Where layers are kept whole, one of up to (\d+) accelerators has (\d+) "
        r"or more of them; of (\d+) none needs more than (\d+)\.",
        plateau.reason,
    )
    assert told is not None, plateau.reason
    equal, last, fewest, behind, after = map(int, told.groups())
    totals = [round(sum(layer), 9) for layer in layers]
    assert equal == max(totals.count(ms) for ms in totals)
    assert (last, behind) == (plateau.last + 1, plateau.last + 2)
    assert fewest_of(equal, last) == fewest > after == fewest_of(equal, behind)
    if num_cpus:  # with none of the layers on it
        value_ms = found[plateau.last,].value_ms
        assert value_ms is not None
        assert 3.0 * max(set(totals), key=totals.count) > value_ms


def fewest_of(layers: int, devices: int) -> int:
    """Return the most layers that a device has where they are dealt out one by one."""
    dealt = [0] * devices
    for i in range(layers):
        dealt[i % devices] += 1
    return max(dealt)


def test_a_sweep_may_begin_without_accelerators() -> None:
    graph = DnnGraph((Node(0, 4.975, 10.0, transfer_ms=0.01), Node(1, 4.975, 10.0)), (Edge(0, 1),))
    spec = SweepSpec(graph, Deployment(1, 2), (Axis(Quantity.ACCELERATORS, (0, 1, 2)),))
    found = {(i,): solve(graph, Deployment(i, 2)) for i in range(3)}
    plateau = plateau_of(spec, found)
    assert plateau is not None
    assert plateau.first == 0
    assert "equal layer" not in plateau_text(spec, plateau)
