"""Bit sets of descendants that end early say the same as paths do, and take no more memory than they may."""

import threading

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.chain import descendants as module
from solvers.chain.descendants import Descendants, depending_work, descendants_of, stop_of, word_of
from solvers.chain.ending import Ending
from solvers.chain.max_load import ChainSearch
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Family
from solvers.problem.contraction import compressed_rows, contract
from tests.support.examples import examples

MUCH = 2**30
GOES_ON = np.zeros(1, np.uint8)


def rows_or_ending(
    n: int, edges: set[tuple[int, int]], max_bytes: int = MUCH, stopped: np.ndarray = GOES_ON
) -> Descendants | Ending:
    successors: list[list[int]] = [[] for _ in range(n)]
    for a, b in sorted(edges):
        successors[a].append(b)
    return descendants_of(*compressed_rows(successors), max_bytes, stopped)


def rows_of(n: int, edges: set[tuple[int, int]]) -> Descendants:
    rows = rows_or_ending(n, edges)
    assert isinstance(rows, Descendants)
    return rows


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
    work = rng.random(n)
    depending = depending_work(rows, work, GOES_ON)
    for b in range(n):
        expected = nx.descendants(graph, b) | {b}
        assert members(rows, b, n) == expected
        assert depending[b] == pytest.approx(sum(work[a] for a in expected))
        assert not any(word_of(rows, b, w) for w in range(stop_of(rows, b), rows.num_words))


def test_a_long_narrow_network_takes_a_word_or_two_of_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WORDS", 1)
    n = 10_000
    edges = {(a, a + step) for a in range(n - 3) for step in (1, 3)} | {(n - 3, n - 2), (n - 2, n - 1)}
    rows = rows_of(n, edges)
    assert rows.words.size <= 2 * n
    assert members(rows, 0, n) == set(range(n))
    assert members(rows, n - 1, n) == {n - 1}


def branches(number: int, length: int) -> tuple[int, set[tuple[int, int]]]:
    """Return blocks in parallel branches, numbered across them, and their edges: of most words some bits are set."""
    n = number * length
    return n, {(a, a + number) for a in range(n - number)}


def test_no_more_memory_is_taken_than_there_may_be() -> None:
    n, edges = branches(64, 100)
    rows = rows_of(n, edges)
    assert rows.words.nbytes > 8 * n * n / 64 / 3
    at_most = rows_or_ending(n, edges, rows.words.nbytes)
    assert isinstance(at_most, Descendants)
    assert np.array_equal(at_most.words, rows.words)
    for less in (rows.words.nbytes - 1, 8, 1, 0):
        assert rows_or_ending(n, edges, less) is Ending.MEMORY


def test_where_its_bit_sets_have_no_room_a_search_keeps_the_plan_of_the_line() -> None:
    n, edges = branches(64, 100)
    graph = DnnGraph(tuple(Node(v, 1.0, 9.0) for v in range(n)), tuple(Edge(*edge) for edge in edges))
    contraction = contract(graph, Family.CHAIN, Deployment(3))
    search = ChainSearch(graph, contraction, Deployment(3), max_bytes=2_000_000)
    search.run()
    assert search.ending is Ending.MEMORY
    assert search.device_of_block is not None
    assert search.lower_bound_ms <= search.value_ms < search.lower_bound_ms * 1.01


def test_rows_under_way_are_ended_from_another_thread() -> None:
    n, edges = branches(64, 600)
    successors = [[a + 64] if a + 64 < n else [] for a in range(n)]
    num_words = (n + 63) // 64
    room = np.zeros(n * num_words // 2 + n, np.uint64)
    begin, end, tail = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.uint64)
    rows = Descendants(begin, end, tail, room, num_words, ~np.uint64(0))
    stopped, left = np.zeros(1, np.uint8), []
    pointers = compressed_rows(successors)
    module._fill(*pointers, rows, 0, 0, stopped)  # so that it is loaded
    filling = threading.Thread(target=lambda: left.append(module._fill(*pointers, rows, n - 1, 0, stopped)[0]))
    filling.start()
    while not end[n - 1]:
        pass
    stopped[0] = 1
    filling.join()
    assert 0 <= left[0] < n - 1
    assert rows_or_ending(n, edges, stopped=stopped) is Ending.STOPPED
    assert not depending_work(rows_of(640, branches(64, 10)[1]), np.ones(640), stopped).any()
