"""Sets of devices that are kept up to date say the same of every move as a look at all paths."""

from collections.abc import Iterator

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from solvers.free.min_cuts import merged
from solvers.free.plans.device_sets import device_sets, enter, is_convex, leave, may_join, may_leave, with_what_follows
from solvers.free.plans.flat_problem import FlatProblem, ForwardOrder, flat_problem
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.problem.contraction import Contraction, IntArray, contract
from tests.support.examples import examples
from tests.support.graphs import random_dag, random_training_graph

DEVICES = 3


def is_convex_by_paths(graph: DnnGraph, inside: set[int]) -> bool:
    """Whether no forward path leaves these nodes and comes back."""
    behind: set[int] = set()
    for v in graph.topological_order:
        if graph.node_by_id[v].is_backward:
            continue
        readers = set(graph.inputs[v])
        if v not in inside and readers & (inside | behind):
            behind.add(v)
        if v in inside and readers & behind:
            return False
    return True


def nodes_on(contraction: Contraction, device: IntArray, d: int) -> set[int]:
    return {v for b in np.flatnonzero(device == d) for v in contraction.members[b]}


def cases(seed: int) -> Iterator[tuple[DnnGraph, Contraction, FlatProblem, IntArray]]:
    """Yield a graph by nodes, and with some of them in one block, each with a plan of convex sets."""
    graph = random_training_graph(seed, 8, 0.3) if seed % 2 else random_dag(seed, 9, 0.3)
    fine = contract(graph, Family.CONVEX, Deployment(DEVICES))
    rng = np.random.default_rng(seed)
    groups = [int(b) if rng.random() < 0.6 else int(rng.integers(fine.num_blocks)) for b in range(fine.num_blocks)]
    coarse, _ = merged(fine, [groups[group] for group in groups], Communication.SUM)
    for contraction in (fine, coarse):
        n = contraction.num_blocks
        problem = flat_problem(contraction, Deployment(DEVICES), ForwardOrder.of(graph), np.zeros(n, np.bool_))
        device = np.full(n, DEVICES, np.int32)
        for b in rng.permutation(n):  # whatever may be somewhere, as far as paths allow it
            for d in rng.permutation(DEVICES):
                device[b] = d
                if is_convex_by_paths(graph, nodes_on(contraction, device, d)):
                    break
                device[b] = DEVICES
        yield graph, contraction, problem, device


@given(st.integers(0, 100_000))
@examples(150)
def test_a_block_may_leave_and_join_as_paths_allow(seed: int) -> None:
    for graph, contraction, problem, device in cases(seed):
        sets = device_sets(problem, device)
        rng = np.random.default_rng(seed)
        for b in rng.permutation(contraction.num_blocks).tolist():
            s = int(device[b])
            if s < DEVICES:
                rest = nodes_on(contraction, device, s) - set(contraction.members[b])
                assert may_leave(problem, sets, b, s) == is_convex_by_paths(graph, rest)
                if not is_convex_by_paths(graph, rest):
                    continue
                device[b] = DEVICES
                leave(problem, sets, b, s)
            for d in rng.permutation(DEVICES).tolist():
                both = nodes_on(contraction, device, d) | set(contraction.members[b])
                assert may_join(problem, sets, device, b, d) == is_convex_by_paths(graph, both)
                if is_convex_by_paths(graph, both):
                    device[b] = d
                    enter(problem, sets, b, d)
                    assert is_convex(problem, device, d)
                    break


@given(st.integers(0, 100_000))
@examples(100)
def test_a_device_is_convex_as_paths_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for graph, contraction, problem, _ in cases(seed):
        device = rng.integers(0, DEVICES, contraction.num_blocks).astype(np.int32)
        for d in range(DEVICES):
            assert is_convex(problem, device, d) == is_convex_by_paths(graph, nodes_on(contraction, device, d))


@given(st.integers(0, 100_000))
@examples(100)
def test_what_goes_with_a_block_leaves_a_convex_set(seed: int) -> None:
    """Of nodes, each in a block of its own, all go that follow the block there, or all that it follows."""
    graph, contraction, problem, device = next(cases(2 * seed))  # graphs of inference: each node is a block
    assert all(len(ids) == 1 for ids in contraction.members)
    order = nx.DiGraph((edge.source, edge.target) for edge in graph.edges)
    order.add_nodes_from(graph.node_by_id)
    sets = device_sets(problem, device)
    together = np.zeros(contraction.num_blocks, np.int32)
    for b in np.flatnonzero(device < DEVICES).tolist():
        s = int(device[b])
        for t in {0, 1, 2} - {s}:
            count = with_what_follows(problem, sets, device, b, s, t, together)
            chosen = {contraction.members[c][0] for c in together[:count].tolist()}
            (v,) = contraction.members[b]
            after, before = nx.descendants(order, v), nx.ancestors(order, v)
            there = nodes_on(contraction, device, s)
            assert chosen == {v} | there & (after if after & nodes_on(contraction, device, t) else before)
            assert is_convex_by_paths(graph, nodes_on(contraction, device, s) - chosen)
            few = with_what_follows(problem, sets, device, b, s, t, together[: count - 1])
            assert few == 0  # not a part of them
            problem.is_fixed[b] = True
            assert with_what_follows(problem, sets, device, b, s, t, together) == 0
            problem.is_fixed[b] = False
