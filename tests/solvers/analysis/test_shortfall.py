"""Why a split takes longer than the best one: each reason where it is the only one, and none for the best."""

from hypothesis import given
from hypothesis import strategies as st

from solvers.analysis.shortfall import shortfall
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from tests.support.examples import examples
from tests.support.graphs import random_dag, random_split


def four(transfer_ms: float = 0.0, memory_bytes: float = 1.0) -> DnnGraph:
    """Return a chain of four nodes of 2 ms, 20 ms on a CPU."""
    nodes = tuple(Node(v, 2.0, 20.0, memory_bytes=memory_bytes, transfer_ms=transfer_ms) for v in range(4))
    return DnnGraph(nodes, tuple(Edge(v, v + 1) for v in range(3)))


def on(*devices: set[int], cpu: set[int] | None = None) -> Split:
    return Split(tuple(frozenset(members) for members in devices), () if cpu is None else (frozenset(cpu),))


EVEN = on({0, 1}, {2, 3})


def test_idle_accelerators() -> None:
    assert shortfall(four(), Deployment(2), on({0, 1, 2, 3}, set()), EVEN) == ("1 accelerator fewer in use",)


def test_transfers_of_the_bottleneck() -> None:
    graph = four(transfer_ms=0.5)
    assert shortfall(graph, Deployment(2), on({0, 2}, {1, 3}), EVEN) == (
        "27.3 % of the largest load is transfers",
    )  # 1.5 of 5.5 ms


def test_a_cpu() -> None:
    assert shortfall(four(), Deployment(2, 1), on({0, 1}, {2}, cpu={3}), EVEN) == ("a CPU is the bottleneck",)


def test_full_memory() -> None:
    graph, deployment = four(memory_bytes=10.0), Deployment(2, memory_bytes=30.0)
    assert shortfall(graph, deployment, on({0, 1, 2}, {3}), EVEN) == ("the bottleneck's memory is full",)


def test_uneven_loads() -> None:
    assert shortfall(four(), Deployment(2), on({0, 1, 2}, {3}), EVEN) == (
        "loads are uneven: the largest is 1.5 × the mean",
    )


@given(seed=st.integers(0, 10**6))
@examples(60)
def test_a_reason_is_given_exactly_where_a_split_takes_longer(seed: int) -> None:
    graph, deployment = random_dag(seed, num_nodes=7), Deployment(2, 1)
    one, other = (random_split(graph, deployment, seed + i) for i in range(2))
    loads = [split_costs(graph, deployment, split.on(deployment)).max_load_ms for split in (one, other)]
    assert bool(shortfall(graph, deployment, one, other)) == (loads[0] > loads[1] * (1 + 1e-6))
