"""What nodes that are left out of a part of a graph still tell of its tasks: their time, memory and tensors.

A bound cuts only the nodes W that it keeps into tasks (`solvers.latency.bound`). Where the others are is not known, but
a few things are, wherever they are:

- A node between two of W, after one and before the other by paths of the graph, is in their task if they are in one:
  it may be in no earlier task than the first and in no later one than the second. So its time and memory count there.
- A node x whose nearest kept nodes are u alone before it and v alone after it is on a path through u and v. If these
  are in different tasks, x counts in neither (no other kept node stands on the other side of it), and the path takes
  the time of x besides, on the device that is fastest.
- A tensor whose readers are in several tasks costs each of them a transfer, wherever its writer is: the task of the
  writer sends it, those of the others receive it.
- Through a node v that is left out, tensors that it reads go on to its readers. Tensor i of those it reads and o of
  those it writes, of c_i and c_o ms, may be replaced by what is left of them without v and by one of m_io ms with the
  ends of both but v, if m_io adds up to at most c_i over o and at most c_o over i: a task with v, but not all of these
  ends, lacks one of i or one of o and paid for it; one with such an end but without v paid for i or for o.
  Here each tensor that v reads gets a share of c_o in proportion to its own time.

The last is done for one node after the other, until all ends are in W.
"""

from collections.abc import Mapping, Sequence

from solvers.latency.arrays import IntArray
from solvers.latency.parts import GraphOrder, flat
from solvers.model.graph import DnnGraph

SMALLEST_SHARE = 0.02
"""Of what is left of tensors, and of joint ones, those shorter than this share of the mean tensor are dropped."""

MAX_JOINTS = 9
"""At a node with more pairs of tensors, read and written, none are joined: their number could double at each node."""


def nodes_between(
    order: GraphOrder, kept: Sequence[int], left_out: Sequence[int]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return which nodes that are left out stand before each kept node with none of those between, and which after it.

    `kept` is in topological order. Returns offsets and rows of `left_out` of those before each, then of those after.
    """
    bits = sum(1 << order.place[v] for v in kept)
    row_at = {order.place[v]: i for i, v in enumerate(kept)}
    before_kept: list[list[int]] = [[] for _ in kept]
    after_kept: list[list[int]] = [[] for _ in kept]
    for x, v in enumerate(left_out):
        earlier = order.before[v] & bits
        while earlier:
            place = earlier.bit_length() - 1
            after_kept[row_at[place]].append(x)
            earlier &= ~(order.before[order.node_at[place]] | 1 << place)
        later = order.after[v] & bits
        while later:
            first = later & -later
            place = first.bit_length() - 1
            before_kept[row_at[place]].append(x)
            later &= ~(order.after[order.node_at[place]] | first)
    return (*flat(before_kept), *flat(after_kept))


def chains_between(
    order: GraphOrder, left_out: Sequence[int], fastest_ms: Sequence[float], between: tuple[IntArray, ...]
) -> dict[tuple[int, int], float]:
    """Return how long a path takes from one kept node to the next at least, by their rows, where it is known.

    `between` is what `nodes_between` returned; `fastest_ms` tells the time of each node that is left out on the device
    that is best for it.
    """
    before_start, before, after_start, after = between
    # The one kept node before each and the one after it; -1 where there are several.
    sides: list[dict[int, int]] = [{}, {}]
    for side, (start, items) in zip(sides, ((after_start, after), (before_start, before)), strict=True):
        for i in range(len(start) - 1):
            for x in items[start[i] : start[i + 1]].tolist():
                side[x] = -1 if x in side else i
    number = {v: x for x, v in enumerate(left_out)}
    length: dict[int, float] = {}
    longest: dict[tuple[int, int], float] = {}
    for x, v in enumerate(left_out):  # in topological order
        ends = sides[0].get(x, -1), sides[1].get(x, -1)
        if min(ends) < 0:
            continue
        inputs = (number[u] for u in order.graph.inputs[v] if u in number)
        same = (y for y in inputs if (sides[0].get(y, -1), sides[1].get(y, -1)) == ends)
        length[x] = fastest_ms[x] + max((length[y] for y in same), default=0.0)
        longest[ends] = max(longest.get(ends, 0.0), length[x])
    return longest


def tensors_among(
    graph: DnnGraph, kept: Sequence[int], stands_at: Mapping[int, int]
) -> list[tuple[frozenset[int], float]]:
    """Return transfers of which each task pays those with ends in it and elsewhere: rows of `kept`, and times in ms.

    `stands_at` tells the row at which a node is an end; nodes that are not in it are left out.
    """
    mean_ms = sum(tensor.transfer_ms for tensor in graph.tensors) / max(1, len(graph.tensors))
    tensors = _Tensors(set(graph.node_by_id) - set(stands_at), SMALLEST_SHARE * mean_ms)

    def end(v: int) -> int:
        return kept[stands_at[v]] if v in stands_at else v

    for u in graph.topological_order:
        for tensor in graph.tensors_of[u]:
            tensors.add(end(u), frozenset(end(v) for v in (u, *tensor.readers)), tensor.transfer_ms)
    for v in graph.topological_order:
        if v not in stands_at:
            tensors.leave_out(v)
    row = {v: i for i, v in enumerate(kept)}
    joined: dict[frozenset[int], float] = {}
    for _, ends, ms in tensors.known():
        rows = frozenset(row[v] for v in ends)
        joined[rows] = joined.get(rows, 0.0) + ms
    return list(joined.items())


_Tensor = tuple[int | None, frozenset[int], float]
"""Writer (None once it is left out), ends, and time in ms."""


class _Tensors:
    """Tensors between nodes, of which some are left out one by one."""

    def __init__(self, left_out: set[int], smallest_ms: float) -> None:
        self._smallest_ms = smallest_ms
        self._tensors: list[_Tensor | None] = []
        self._ending_at: dict[int, dict[int, None]] = {v: {} for v in left_out}

    def known(self) -> list[_Tensor]:
        """Return all tensors there are."""
        return [tensor for tensor in self._tensors if tensor is not None]

    def add(self, writer: int | None, ends: frozenset[int], ms: float) -> None:
        """Add a tensor, if it costs any task anything."""
        if len(ends) < 2 or ms <= 0:
            return
        for v in ends:
            if v in self._ending_at:
                self._ending_at[v][len(self._tensors)] = None
        self._tensors.append((writer, ends, ms))

    def leave_out(self, v: int) -> None:
        """Let tensors end elsewhere than at v."""
        ending = [self._taken(number) for number in list(self._ending_at[v])]
        read = [tensor for tensor in ending if tensor[0] != v]
        written = [tensor for tensor in ending if tensor[0] == v]
        reading_ms = sum(ms for _, _, ms in read)
        left_ms = [ms for _, _, ms in read]
        joined: dict[tuple[int | None, frozenset[int]], float] = {}

        def join(writer: int | None, ends: frozenset[int], ms: float) -> None:
            joined[writer, ends - {v}] = joined.get((writer, ends - {v}), 0.0) + ms

        joins = len(read) * len(written) <= MAX_JOINTS
        for _, ends, ms in written:
            rest_ms = ms
            for i, (writer, others, own_ms) in enumerate(read if joins else ()):
                shared_ms = min(left_ms[i], ms * own_ms / reading_ms, rest_ms)
                left_ms[i] -= shared_ms
                rest_ms -= shared_ms
                join(writer, others | ends, shared_ms)
            join(None, ends, rest_ms)
        for (writer, ends, _), ms in zip(read, left_ms, strict=True):
            join(writer, ends, ms)
        for (writer, ends), ms in joined.items():
            if ms >= self._smallest_ms:
                self.add(writer, ends, ms)

    def _taken(self, number: int) -> _Tensor:
        tensor = self._tensors[number]
        assert tensor is not None
        self._tensors[number] = None
        for v in tensor[1]:
            if v in self._ending_at:
                del self._ending_at[v][number]
        return tensor
