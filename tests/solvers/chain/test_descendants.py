"""Bit sets of descendants that end early say the same as paths do, and take little of long narrow networks."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain import descendants as module
from solvers.chain.descendants import Descendants, descendants_of, word_of
from solvers.problem.contraction import compressed_rows
from tests.support.examples import examples


def rows_of(n: int, edges: set[tuple[int, int]]) -> Descendants:
    successors: list[list[int]] = [[] for _ in range(n)]
    for a, b in sorted(edges):
        successors[a].append(b)
    return descendants_of(*compressed_rows(successors))


def members(rows: Descendants, b: int, n: int) -> set[int]:
    """Return the blocks in a row, after a look at the bits that are none."""
    words = [int(word_of(rows, b, w)) for w in range(rows.num_words)]
    row = sum(word << (64 * w) for w, word in enumerate(words))
    assert row >> n == 0
    return {a for a in range(n) if row >> a & 1}


@given(st.integers(1, 300), st.integers(0, 10_000), st.sampled_from([1, 2, 5, 40, 300]), st.floats(0.0, 1.0))
@examples(60)
def test_what_depends_on_a_block_is_what_paths_lead_to(n: int, seed: int, reach: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    edges = {
        (a, b)
        for a in range(n)
        for b in range(a + 1, min(n, a + 1 + reach))
        if rng.random() < share * 3 / min(reach, n)
    }
    rows = rows_of(n, edges)
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(n))
    for b in range(n):
        assert members(rows, b, n) == nx.descendants(graph, b) | {b}


def test_a_long_narrow_network_takes_a_word_or_two_of_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WORDS", 1)
    n = 10_000
    edges = {(a, a + step) for a in range(n - 3) for step in (1, 3)} | {(n - 3, n - 2), (n - 2, n - 1)}
    rows = rows_of(n, edges)
    assert rows.words.size <= 2 * n
    assert members(rows, 0, n) == set(range(n))
    assert members(rows, n - 1, n) == {n - 1}
