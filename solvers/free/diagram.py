"""A layered decision diagram as flat arrays, and the same with as few nodes as can be.

What can still follow at a node are the paths from it to the end, with their lengths. Nodes of a layer from which the
same can follow are one (reduced ordered decision diagrams: Bryant 1986). More are the same once each node hands the
least length that surely follows on to the arcs that lead to it (pushing weights in minimal automata: Mohri 2000): then
only differences are left, and from each node but the first an arc of no length leads on.

The past often matters less than a diagram was built to remember: of the convex sets of NASNet-A in training a fifth of
the nodes is left, of those of DenseNet-121 in inference a seventeenth.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.problem.contraction import FloatArray, IntArray

GRAIN = 1e-12
"""Lengths that differ by less, as a share of the largest, are the same: far more than rounding, and nothing else."""


class Arcs(NamedTuple):
    """A diagram whose paths are the sets of blocks, as flat arrays.

    Layer i has nodes first[i] .. first[i+1]-1 and decides block order[i]. `target[a, x]` is the node after decision x
    (0 out, 1 in) at node a, `length[a, x]` what it adds to the load in ms; no path with an infinite one is a set. The
    root is node 0, the only node of the last layer is the end.
    """

    order: IntArray
    first: IntArray
    target: IntArray
    length: FloatArray

    @property
    def width(self) -> int:
        """Nodes of the largest layer."""
        return int(np.diff(self.first).max())


def reduced(arcs: Arcs) -> Arcs:
    """Return the diagram of the same sets and loads with the fewest nodes for its order.

    Where lengths differ by rounding alone the smaller one is taken, so that loads are understated if anything.

    >>> order, first = np.arange(2, dtype=np.int32), np.array([0, 1, 3, 4], np.int32)
    >>> target, length = np.array([[1, 2], [3, 3], [3, 3]], np.int32), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> fewer = reduced(Arcs(order, first, target, length))
    >>> fewer.first.tolist(), fewer.length.tolist()
    ([0, 1, 2, 3], [[2.0, 5.0], [0.0, 1.0]])
    """
    finite = arcs.length[np.isfinite(arcs.length)]
    grain = GRAIN * (float(np.abs(finite).max(initial=0.0)) or 1.0)
    return Arcs(arcs.order, *_joined(arcs.first, arcs.target, arcs.length, grain))


@njit(cache=True, nogil=True)
def _joined(first, target, length, grain):
    """Return first, target and length of the reduced diagram."""
    num_layers = first.size - 2
    num_nodes = target.shape[0] + 1
    widest = 1
    for i in range(num_layers + 1):
        widest = max(widest, first[i + 1] - first[i])
    capacity = 2
    while capacity < 2 * widest:
        capacity *= 2
    table = np.empty(capacity, np.int64)  # of nodes of a layer by what follows at them, with open addressing
    least = np.zeros(num_nodes)  # the least length that follows, handed on
    same = np.arange(num_nodes)  # the first node met that is the same
    to = np.zeros((num_nodes, 2), np.int64)
    grains = np.zeros((num_nodes, 2), np.int64)
    left = np.zeros((num_nodes, 2))
    for i in range(num_layers - 1, -1, -1):
        mask = 1
        while mask < 2 * (first[i + 1] - first[i]):
            mask *= 2
        table[:mask] = -1
        mask -= 1
        for a in range(first[i], first[i + 1]):
            for x in range(2):
                left[a, x] = length[a, x] + least[target[a, x]]
            least[a] = min(left[a, 0], left[a, 1])
            if i == 0 or least[a] == np.inf:
                least[a] = 0.0
            place = np.uint64(0)
            for x in range(2):
                left[a, x] -= least[a]
                is_way = left[a, x] < np.inf
                # Where an arc leads that is no way does not matter.
                to[a, x] = same[target[a, x if is_way else 1 - x]]
                grains[a, x] = np.int64(left[a, x] / grain + 0.5) if is_way else -1
                for part in (to[a, x], grains[a, x]):
                    place = (place ^ np.uint64(part)) * np.uint64(0x9E3779B97F4A7C15)
                    place ^= place >> np.uint64(29)
            s = np.int64(place & np.uint64(mask))
            while table[s] >= 0:
                b = table[s]
                if (
                    to[a, 0] == to[b, 0]
                    and to[a, 1] == to[b, 1]
                    and grains[a, 0] == grains[b, 0]
                    and grains[a, 1] == grains[b, 1]
                ):
                    break
                s = (s + 1) & mask
            b = table[s]
            if b < 0:
                table[s] = a
            else:
                same[a] = b
                for x in range(2):
                    left[b, x] = min(left[b, x], left[a, x])
    # What is left is numbered anew; what only arcs led to that are no way is not.
    number = np.full(num_nodes, -1)
    number[0] = 0
    new_first = np.zeros(num_layers + 2, np.int32)
    count = 0
    for i in range(num_layers + 1):
        new_first[i] = count
        for a in range(first[i], first[i + 1]):
            if number[a] < 0:
                continue
            number[a] = count
            count += 1
            if i < num_layers:
                number[to[a, 0]] = number[to[a, 1]] = 0
    new_first[num_layers + 1] = count
    new_target = np.empty((count - 1, 2), np.int32)
    new_length = np.empty((count - 1, 2))
    for a in range(num_nodes - 1):
        if number[a] >= 0:
            for x in range(2):
                new_target[number[a], x] = number[to[a, x]]
                new_length[number[a], x] = left[a, x]
    return new_first, new_target, new_length
