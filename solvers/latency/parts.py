"""Parts of a graph that have few ideals, and what the kernels of the latency bound need to know of their order.

A part is a set W of nodes with the order of the whole graph: u comes before v if some path of the graph leads from u to
v, through nodes of W or not. An ideal of it is a subset closed under predecessors in W.
"""

from collections.abc import Generator, Sequence

import numpy as np

from solvers.latency.arrays import IntArray, WordArray
from solvers.model.graph import DnnGraph

MAX_PART = 1_000
"""Nodes of a part: enumerating ideals takes time proportional to their number times this."""

MAX_TRIALS = 300
"""So many nodes are tried one by one for a place in the part, after the most important ones."""


class GraphOrder:
    """The order of a graph's nodes, and parts of it with few ideals."""

    def __init__(self, graph: DnnGraph) -> None:
        self.graph = graph
        self.node_at = graph.topological_order
        self.place = {v: i for i, v in enumerate(self.node_at)}
        # Predecessors and successors as bits, by place in topological order.
        self.before = dict.fromkeys(self.node_at, 0)
        self.after = dict.fromkeys(self.node_at, 0)
        for v in self.node_at:
            for u in graph.inputs[v]:
                self.before[v] |= self.before[u] | 1 << self.place[u]
        for v in reversed(self.node_at):
            for u in graph.inputs[v]:
                self.after[u] |= self.after[v] | 1 << self.place[v]

    def above(self, kept: Sequence[int]) -> WordArray:
        """Return the predecessors of each kept node among them as words; `kept` in topological order."""
        num_words = -(-len(kept) // 64)
        places = np.array([self.place[v] for v in kept], np.int64)
        size = -(-len(self.place) // 8)
        rows = np.zeros((len(kept), num_words * 64), np.uint8)
        for i, v in enumerate(kept):
            octets = np.frombuffer(self.before[v].to_bytes(size, "little"), np.uint8)
            rows[i, : len(kept)] = octets[places >> 3] >> (places & 7).astype(np.uint8) & 1
        return np.packbits(rows, axis=1, bitorder="little").view(np.uint64)

    def part(
        self, path: Sequence[int], importance: dict[int, float], limit: int, bound: float
    ) -> Generator[float, None, list[int]]:
        """Return nodes in topological order whose ideals are at most `limit`: of the path first, then of the rest.

        Yields `bound` while at work.
        """
        on_path = set(path)
        ranked = sorted(self.place, key=lambda v: (v not in on_path, -importance[v]))
        fits, fails = 0, len(ranked) + 1
        while fails - fits > 1:
            middle = (fits + fails) // 2 if fits else min(len(path), fails - 1)
            if self._few(ranked[:middle], limit):
                fits = middle
            else:
                fails = middle
            yield bound
        kept = ranked[:fits]
        for v in ranked[fits + 1 : fits + 1 + MAX_TRIALS]:
            if self._few([*kept, v], limit):
                kept.append(v)
            yield bound
        return sorted(kept, key=self.place.__getitem__)

    def _few(self, nodes: Sequence[int], limit: int) -> bool:
        from solvers.latency.lattice import enumerate_ideals  # numba loads here

        if len(nodes) >= min(limit, MAX_PART):
            return False
        above = self.above(sorted(nodes, key=self.place.__getitem__))
        return bool(enumerate_ideals(above, np.empty((limit, above.shape[1]), np.uint64)) >= 0)


def ideals_and_lookup(above: WordArray, limit: int) -> tuple[WordArray, tuple[WordArray, WordArray, IntArray]]:
    """Return all ideals, smaller ones first, and the table that finds their numbers."""
    from solvers.latency.lattice import enumerate_ideals, fill_table

    ideals = np.empty((limit, above.shape[1]), np.uint64)
    ideals = ideals[: enumerate_ideals(above, ideals)]
    rng = np.random.default_rng(0)
    table = np.empty(1 << (2 * len(ideals)).bit_length(), np.int64)
    hashes = np.empty(len(ideals), np.uint64)
    while True:
        keys = rng.integers(0, 2**64, len(above), np.uint64)
        if fill_table(ideals, len(ideals), keys, hashes, table):
            return ideals, (keys, hashes, table)


def nearest_nodes(above: WordArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return offsets and rows of each node's nearest predecessors, then of its nearest successors."""
    sets = [int.from_bytes(words.tobytes(), "little") for words in above]
    before: list[list[int]] = []
    after: list[list[int]] = [[] for _ in sets]
    for v, bits in enumerate(sets):
        before.append([])
        while bits:
            u = bits.bit_length() - 1
            before[v].append(u)
            after[u].append(v)
            bits &= ~(sets[u] | 1 << u)
    return (*flat(before), *flat(after))


def flat(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Return where each list starts, and the end of the last, with all items in a row."""
    offsets = np.cumsum([0, *(len(items) for items in lists)])
    return offsets.astype(np.int64), np.array([i for items in lists for i in items], np.int64)
