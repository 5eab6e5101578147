"""Diagrams with as few nodes as can be: the same sets with the same loads, and no two nodes with the same futures."""

import itertools

import numpy as np
import pytest

from solvers.free.diagram import Arcs, reduced

Futures = dict[tuple[int, ...], float]


def random_diagram(seed: int) -> Arcs:
    """Draw few lengths, so that many futures are the same, some of them after a length that all share."""
    rng = np.random.default_rng(seed)
    widths = [1, *rng.integers(1, 9, 5).tolist(), 1]
    first = np.concatenate([[0], np.cumsum(widths)]).astype(np.int32)
    layers = zip(widths, itertools.pairwise(first[1:]), strict=False)
    target = np.vstack([rng.integers(begin, end, (width, 2)) for width, (begin, end) in layers]).astype(np.int32)
    length = rng.integers(0, 3, target.shape) / 4
    length[rng.random(len(length)) < 0.2, 1] = np.inf
    return Arcs(np.arange(len(widths) - 1, dtype=np.int32), first, target, length)


def futures(arcs: Arcs, layer: int, node: int) -> Futures:
    """Return the length of every path of finite length from a node to the end, by its decisions."""
    if layer == len(arcs.order):
        return {(): 0.0}
    return {
        (x, *rest): float(arcs.length[node, x]) + length
        for x in (0, 1)
        if arcs.length[node, x] < np.inf
        for rest, length in futures(arcs, layer + 1, int(arcs.target[node, x])).items()
    }


def kinds_of_futures(arcs: Arcs, layer: int, reached: set[int]) -> set[frozenset[tuple[tuple[int, ...], float]]]:
    """Return what can follow at the nodes of a layer, each without the least length that does."""
    kinds = set()
    for node in reached:
        lengths = futures(arcs, layer, node)
        least = min(lengths.values())
        kinds.add(frozenset((path, length - least) for path, length in lengths.items()))
    return kinds


@pytest.mark.parametrize("seed", range(60))
def test_paths_are_as_long_as_before_and_no_two_nodes_are_the_same(seed: int) -> None:
    arcs = random_diagram(seed)
    fewer = reduced(arcs)
    assert futures(fewer, 0, 0) == futures(arcs, 0, 0)
    reached = {0}
    for layer in range(len(arcs.order) + 1):
        kinds = kinds_of_futures(arcs, layer, reached)
        assert fewer.first[layer + 1] - fewer.first[layer] == len(kinds)
        new_nodes = set(range(fewer.first[layer], fewer.first[layer + 1]))
        assert kinds_of_futures(fewer, layer, new_nodes) == kinds
        if layer < len(arcs.order):
            reached = {int(arcs.target[a, x]) for a in reached for x in (0, 1) if arcs.length[a, x] < np.inf}
    assert fewer.target.min() >= 1
    assert all(fewer.length.min(axis=1) == [fewer.length[0].min()] + [0.0] * (len(fewer.length) - 1))


def test_rounding_makes_no_difference_and_loads_are_understated() -> None:
    """0.1 + 0.2 is not 0.3, and the smaller of the two is taken."""
    order, first = np.arange(2, dtype=np.int32), np.array([0, 1, 3, 4], np.int32)
    target = np.array([[1, 2], [3, 3], [3, 3]], np.int32)
    fewer = reduced(Arcs(order, first, target, np.array([[0.0, 0.0], [0.0, 0.1 + 0.2], [0.0, 0.3]])))
    assert fewer.first.tolist() == [0, 1, 2, 3]
    assert fewer.length[1, 1] == 0.3
    apart = reduced(Arcs(order, first, target, np.array([[0.0, 0.0], [0.0, 0.3 + 1e-9], [0.0, 0.3]])))
    assert apart.first.tolist() == [0, 1, 3, 4]
