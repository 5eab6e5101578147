"""Laws of the cache bounded by bytes: never over its bound, nothing kept that is not used, nothing made twice."""

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.layout.folding import groups_bytes, single_nodes
from explorer.layout.layered import layered_layout
from explorer.layout.lines import layout_bytes
from explorer.layout.names import short_names
from explorer.layout.rows import Structure
from explorer.picture.dag_view import dag_bytes, dag_info
from explorer.server import byte_cache, sizes
from explorer.server.byte_cache import OVERHEAD_BYTES, ByteCache
from sample_graphs.synthetic import layered
from solvers.model.graph import DnnGraph, Node
from solvers.samples import read_sample
from solvers.schedule.simulate import ScheduleKind, simulate
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import random_tensors


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Model:
    """The same cache, as slow and obvious as can be: a list from the least to the most recently used."""

    def __init__(self, max_bytes: int, max_bytes_of_small: int, seconds_kept: float) -> None:
        self.max_bytes, self.max_bytes_of_small, self.seconds_kept = max_bytes, max_bytes_of_small, seconds_kept
        self.known: list[tuple[int, int, float]] = []

    def get(self, key: int, size: int, now_s: float) -> bool:
        """Return whether the key was there."""
        self.known = [one for one in self.known if now_s - one[2] < self.seconds_kept]
        there = [one for one in self.known if one[0] == key]
        self.known = [one for one in self.known if one[0] != key]
        if there:
            self.known.append((key, there[0][1], now_s))
            return True
        if size + OVERHEAD_BYTES <= (self.max_bytes_of_small if is_small(size) else self.max_bytes):
            self.known.append((key, size, now_s))
            while self.taken_by_small > self.max_bytes_of_small:
                self.known.remove(next(one for one in self.known if is_small(one[1])))
            while self.taken > self.max_bytes:
                self.known.pop(0)
        return False

    @property
    def taken(self) -> int:
        return sum(size + OVERHEAD_BYTES for _, size, _ in self.known)

    @property
    def taken_by_small(self) -> int:
        return sum(size + OVERHEAD_BYTES for _, size, _ in self.known if is_small(size))


def is_small(size: int) -> bool:
    return size + OVERHEAD_BYTES <= byte_cache.SMALL_BYTES


ASKED = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 12_000), st.integers(0, 50)), max_size=60)


@pytest.fixture(scope="module")
def small_values() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_cache, "SMALL_BYTES", 3_000)
        yield


@given(ASKED, st.sampled_from([2_000, 8_000, 50_000]))
def test_it_holds_what_was_used_last_within_its_bytes_and_its_time(
    small_values: None, asked: list[tuple[int, int, int]], room_of_small: int
) -> None:
    clock = Clock()
    cache, model = ByteCache(20_000, room_of_small, 60.0, clock), Model(20_000, room_of_small, 60.0)
    for key, size, seconds in asked:
        clock.now_s += seconds
        made: list[int] = []
        cache.get(key, lambda key=key, made=made: made.append(key) or key, lambda _, size=size: size)  # type: ignore[misc]
        assert bool(made) != model.get(key, size, clock.now_s)
        assert cache.size_bytes == model.taken <= 20_000
        assert cache.size_bytes_of_small == model.taken_by_small <= room_of_small
        assert len(cache) == len(model.known)
    before = cache.size_bytes
    clock.now_s += 60.0
    assert cache.expire() == before
    assert (len(cache), cache.size_bytes, cache.size_bytes_of_small) == (0, 0, 0)


def test_an_error_is_not_remembered() -> None:
    cache = ByteCache()
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 // 0, lambda _: 1)
    assert cache.get("a", lambda: 2, lambda _: 1) == 2


def test_what_many_ask_for_at_once_is_made_once() -> None:
    for max_bytes in (10_000, 0):  # also when it is too large to be remembered
        cache = ByteCache(max_bytes)
        made: list[int] = []
        results: list[Any] = []
        may_end, has_begun = threading.Event(), threading.Event()

        def make(made: list[int] = made, may_end: Any = may_end, has_begun: Any = has_begun) -> object:
            made.append(1)
            has_begun.set()
            may_end.wait()
            return object()

        def ask(cache: ByteCache = cache, make: Any = make, results: list[Any] = results) -> None:
            results.append(cache.get("a", make, lambda _: 1))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        threads[0].start()
        has_begun.wait()
        for thread in threads[1:]:
            thread.start()
        # Another key does not wait.
        assert cache.get("b", lambda: "b", lambda _: 1) == "b"
        may_end.set()
        for thread in threads:
            thread.join()
        if max_bytes:
            assert len(made) == 1
            assert len({id(result) for result in results}) == 1
        assert len(results) == 8


def test_when_its_maker_fails_another_one_tries() -> None:
    cache = ByteCache()
    may_fail, has_begun = threading.Event(), threading.Event()
    errors: list[str] = []

    def fail() -> str:
        has_begun.set()
        may_fail.wait()
        raise RuntimeError("left")

    def first() -> None:
        try:
            cache.get("a", fail, lambda _: 1)
        except RuntimeError as error:
            errors.append(str(error))

    results: list[str] = []
    one = threading.Thread(target=first)
    two = threading.Thread(target=lambda: results.append(cache.get("a", lambda: "made", lambda _: 1)))
    one.start()
    has_begun.wait()
    two.start()
    may_fail.set()
    one.join()
    two.join()
    assert (errors, results) == (["left"], ["made"])


@examples(5, deadline=None)
@given(st.integers(0, 1000))
def test_threads_that_ask_in_any_order_leave_it_within_its_bytes(seed: int) -> None:
    cache = ByteCache(max_bytes=6_000)
    over: list[int] = []

    def work(start: int) -> None:
        for i in range(300):
            key = (start * 7 + i * 13) % 11
            assert cache.get(key, lambda key=key: key, lambda _, key=key: 100 * key) == key  # type: ignore[misc]
            if cache.size_bytes > 6_000:
                over.append(cache.size_bytes)

    threads = [threading.Thread(target=work, args=(seed + t,)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert over == []


def real_size(value: Any) -> int:
    """Return the bytes of a value and all it holds; what Python shares anyway (classes, small numbers) is left out."""
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | bool | None) or callable(one):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        if isinstance(one, dict):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting += list(one)
        elif not isinstance(one, str | bytes | int | float):
            waiting += [getattr(one, slot) for slot in getattr(type(one), "__slots__", ()) if hasattr(one, slot)]
            waiting += list(getattr(one, "__dict__", {}).values())
    return total


def graphs() -> list[DnnGraph]:
    names = ("bert_base_operator_inference", "unet_operator_training", "gpt2_xl_layer_training")
    plain = [read_sample(name)[0] for name in names] + [layered(10, 20, 10)[0]]
    return [*plain, random_tensors(plain[0], 0)]


def test_stated_sizes_are_about_the_real_ones() -> None:
    """Between the real size and three times that: a bound that is kept, and not by far."""
    for graph in graphs():
        deployment = read_sample("gpt2_xl_layer_training")[1]
        graph = DnnGraph(graph.nodes, graph.edges, graph.name, graph.times)
        graph.node_by_id, graph.readers, graph.inputs, graph.output_bytes, graph.topological_order, graph.tensor_of  # noqa: B018
        check(sizes.graph_bytes(graph), graph)
        groups = single_nodes(graph)
        check(groups_bytes(groups), groups)
        dag = dag_info(graph, deployment, None)
        check(dag_bytes(dag), dag)
        edges = tuple((edge.source, edge.target) for edge in dag.levels[0].edges)
        structure = Structure((False,) * len(dag.levels[0].boxes), (-1,) * len(dag.levels[0].boxes), edges)
        layout = layered_layout(structure)
        check(layout_bytes(layout), layout)
        labels = [box.label for box in dag.levels[0].boxes]
        check(sizes.names_bytes(labels), (tuple(labels), short_names(labels)))


def test_long_names_and_times_on_classes_count() -> None:
    times = tuple((f"class {i}", float(i)) for i in range(40))
    nodes = tuple(
        Node(i, 1.0, 1.0, name=f"node {i} {'x' * 900}", layer=f"layer {i} {'y' * 900}", class_ms=times)
        for i in range(50)
    )
    named = DnnGraph(nodes, ())
    plain = DnnGraph(tuple(Node(i, 1.0, 1.0, name=f"node {i}") for i in range(50)), ())
    assert sizes.graph_bytes(named) - sizes.graph_bytes(plain) >= real_size(named) - real_size(plain)
    check(sizes.graph_bytes(named), named)


def test_the_stated_size_of_a_schedule_is_about_the_real_one() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_training")
    result = solve(graph, deployment)
    assert result.split is not None
    schedule = simulate(graph, deployment, result.split, ScheduleKind.GPIPE, 64)
    check(sizes.schedule_bytes(schedule), schedule)


def check(stated: int, value: Any) -> None:
    real = real_size(value)
    assert real <= stated * 1.5, (stated, real, type(value))
    assert stated <= 3 * real, (stated, real, type(value))
