"""Proven lower bounds on single-sample latency: the cheapest way to cut a part of the graph into tasks, along a path.

A plan's tasks are the subgraphs on its accelerators and its CPU nodes. Tasks do not wait for each other in a circle, so
in the order in which they can run, the nodes of the first i tasks are an ideal (closed under predecessors), and a task
is a difference of two ideals. Let P be any path of the graph. Tasks that hold nodes of P run one after the other, so

    latency >= sum of the durations of the tasks that meet P
            >= min over chains of ideals {} = I_0 < I_1 < ... < I_r = all nodes of  sum_i  cost(I_i minus I_{i-1})

where a set S of at most M bytes costs its load on an accelerator if it meets P, else nothing, a single node v may cost
q_v instead if it is on P, else nothing, and at most k q sets are on accelerators (q subgraphs on each of k). Shortest
paths over ideals find the minimum: what memory forces onto CPUs, or apart, is in it, for nodes off P as well.

The same holds for the average over several paths, where a set costs its duration times the share of paths it meets: the
cheapest way to cut may make any one path short, but hardly all of them. The paths are chosen like the moves of a game
(fictitious play; Robinson, Annals of Mathematics 54, 1951): the longest path of the cheapest cut found last is added to
them, and every average on the way gives a bound.

Where the ideals are too many, nodes are left out. Tasks restricted to a set W of nodes are differences of ideals of
the order restricted to W, and cost no more, counting the tensors between nodes of W only. So every W gives a bound, and
larger ones better bounds: W grows by memory, time and transfers as long as its ideals stay few enough. Graphs whose
parallel branches rejoin have few. For q = 1 an accelerator holds all of a colocation class or nothing, so nodes left
out count where a node of their class counts.

For q > 1 an accelerator's memory holds for its subgraphs together. Of that the bound keeps that all of them take at
most k M bytes, with a multiplier: for every mu >= 0, min (cost + mu bytes on accelerators) - mu k M is a bound.

Time O(pairs of ideals whose difference fits in memory x (k q + degree)), for each path and W; several paths are tried,
the longest by time, memory and transfers. Sums are in floating point; bounds are lowered by what rounding can do.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from solvers.deployment import Deployment
from solvers.graph import DnnGraph

Times = dict[int, tuple[float, float]]
"""Each node's time on an accelerator and on a CPU, infinite where it cannot run."""

IDEAL_LIMITS = (200, 2_000, 10_000, 40_000)
"""Ideals of the parts of the graph that are tried one after the other."""

MAX_GRAPH = 5_000
"""Larger graphs get the critical path alone: choosing a part takes time quadratic in their nodes."""

MAX_TRIALS = 300
"""So many nodes are tried one by one for a place in the part, after the most important ones."""

MAX_COLUMNS = 64
"""With more subgraphs than this their number is not limited in the bound."""

STEPS_PER_ROUND = 2_000_000
"""Pairs of ideals between two yields, about 0.2 s."""

NUM_AVERAGES = 40
"""Averages over paths that are tried in each part; path i of them counts i times, for the early ones guess."""

SADDLE = 1e-9
"""Paths are not added where the longest one is no longer than the bound, relatively."""

NUM_PRICES = 10
"""Multipliers tried for memory, for q > 1."""

IntArray = npt.NDArray[np.int64]
WordArray = npt.NDArray[np.uint64]

EPSILON = float(np.finfo(float).eps)


def latency_bound(graph: DnnGraph, deployment: Deployment, most_ideals: int = IDEAL_LIMITS[-1]) -> float:
    """Return a proven lower bound in ms on the latency of every plan of an inference graph, infinite if none exists.

    >>> from solvers.graph import Edge, Node
    >>> nodes = (Node(1, 2.0, 9.0, 1.0, transfer_ms=0.5), Node(2, 3.0, 9.0, 1.0))
    >>> round(latency_bound(DnnGraph(nodes, (Edge(1, 2),)), Deployment(2, 1, memory_bytes=1.0)), 6)
    6.0
    """
    return max(latency_bounds(graph, deployment, most_ideals))


def latency_bounds(
    graph: DnnGraph,
    deployment: Deployment,
    most_ideals: int = IDEAL_LIMITS[-1],
    known_ms: Callable[[], float | None] = lambda: None,
) -> Iterator[float]:
    """Yield proven lower bounds in ms, none below the one before, at least every 0.2 s; infinite if there is no plan.

    `known_ms` tells the latency of the best plan known by then: the search for bounds leaves out what takes longer, and
    ends when it is proven that no plan is better.
    """
    times = node_times(graph, deployment)
    bound = critical_path(graph, times) * (1 - len(graph.nodes) * EPSILON)
    yield bound
    if len(graph.nodes) > MAX_GRAPH or not deployment.num_accelerators or bound == np.inf:
        return
    order = _Order(graph)
    done: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()
    paths = list(_long_paths(graph, times))
    for limit in (limit for limit in IDEAL_LIMITS if limit <= most_ideals):
        best: _Part | None = None
        for path in paths:
            importance = _importance(graph, deployment, times, bound)
            kept = yield from order.part(path, importance, limit, bound)
            if not kept or (tuple(kept), path) in done:
                continue
            done.add((tuple(kept), path))
            part = _Part(order, deployment, times, kept, path, limit)
            upper = _or_infinite(known_ms())
            for better in part.bounds(upper):
                bound = max(bound, min(better, upper))
                yield bound
            if bound >= upper:
                return
            if best is None or part.bound_ms > best.bound_ms:
                best = part
        if best is not None:
            upper = _or_infinite(known_ms())
            for better in best.averages(upper):
                bound = max(bound, min(better, upper))
                yield bound
            if bound >= upper:
                return


def _or_infinite(value: float | None) -> float:
    return np.inf if value is None else value


def node_times(graph: DnnGraph, deployment: Deployment) -> Times:
    """Return each node's times in ms, infinite where it or its colocation class cannot run."""
    capacity = deployment.memory_limit_bytes

    def fits(ids: tuple[int, ...]) -> bool:
        nodes = [graph.node_by_id[v] for v in ids]
        return all(node.runs_on_accelerator for node in nodes) and sum(node.memory_bytes for node in nodes) <= capacity

    class_fits = {c: fits(ids) for c, ids in graph.colocation_members.items()}
    times: Times = {}
    for node in graph.nodes:
        c = node.colocation_class
        may_accelerate = deployment.num_accelerators > 0 and (fits((node.id,)) if c is None else class_fits[c])
        times[node.id] = (
            node.accelerator_ms if may_accelerate else np.inf,
            node.cpu_ms if deployment.num_cpus else np.inf,
        )
    return times


def critical_path(graph: DnnGraph, times: Times) -> float:
    """Return the length in ms of the longest path with every node on its faster device."""
    finish: dict[int, float] = {}
    for v in graph.topological_order:
        finish[v] = min(times[v]) + max((finish[u] for u in graph.inputs[v]), default=0.0)
    return max(finish.values())


def _long_paths(graph: DnnGraph, times: Times) -> Iterator[tuple[int, ...]]:
    """Yield different paths that are the longest by some weight; of equal ones, those of more nodes."""
    nodes = graph.node_by_id
    weights = (
        {v: min(times[v]) for v in nodes},
        {v: node.cpu_ms for v, node in nodes.items()},
        {v: node.memory_bytes for v, node in nodes.items()},
        {v: node.transfer_ms for v, node in nodes.items()},
        dict.fromkeys(nodes, 1.0),
    )
    seen: set[tuple[int, ...]] = set()
    for weight in weights:
        length: dict[int, tuple[float, int]] = {}
        step: dict[int, int] = {}
        for v in graph.topological_order:
            before = max(graph.inputs[v], key=length.__getitem__, default=None)
            ms, count = (0.0, 0) if before is None else length[before]
            length[v] = ms + weight[v], count + 1
            if before is not None:
                step[v] = before
        path = [max(length, key=length.__getitem__)]
        while path[-1] in step:
            path.append(step[path[-1]])
        if tuple(path) not in seen:
            seen.add(tuple(path))
            yield tuple(reversed(path))


def _importance(graph: DnnGraph, deployment: Deployment, times: Times, bound: float) -> dict[int, float]:
    """Return how much each node may matter: memory of all accelerators, time of the bound, transfers."""
    memory = deployment.memory_limit_bytes or 1.0
    scale = bound or 1.0
    return {
        v: node.memory_bytes / memory
        + 10 * min(times[v]) / scale
        + 10 * (node.transfer_ms if graph.readers[v] else 0.0) / scale
        for v, node in graph.node_by_id.items()
    }


class _Order:
    """The order of a graph's nodes, and parts of it with few ideals."""

    def __init__(self, graph: DnnGraph) -> None:
        self.graph = graph
        self.before: dict[int, int] = {}  # predecessors as bits, by place in topological order
        self.place = {v: i for i, v in enumerate(graph.topological_order)}
        for v in graph.topological_order:
            bits = 0
            for u in graph.inputs[v]:
                bits |= self.before[u] | 1 << self.place[u]
            self.before[v] = bits

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
        from solvers.latency_lattice import enumerate_ideals  # numba loads here

        if len(nodes) >= limit:
            return False
        above = self.above(sorted(nodes, key=self.place.__getitem__))
        return bool(enumerate_ideals(above, np.empty((limit, above.shape[1]), np.uint64)) >= 0)


class _Part:
    """A part W of the graph as the kernels see it, and the cheapest ways to cut it into tasks."""

    def __init__(
        self,
        order: _Order,
        deployment: Deployment,
        times: Times,
        kept: list[int],
        path: Sequence[int],
        limit: int,
    ) -> None:
        self.graph, self.deployment, self.times, self.kept = order.graph, deployment, times, kept
        self.above = order.above(kept)
        self.ideals, self.lookup = _ideals_and_lookup(self.above, limit)
        self.nearest = _nearest(self.above)
        self._find_costs_and_nets()
        self.row = {v: i for i, v in enumerate(kept)}
        self.paths = {tuple(self.row[v] for v in path if v in self.row): 1}
        self.price = 0.0
        self.bound_ms = -np.inf
        self.tasks: list[tuple[int, bool]] = []

    def bounds(self, upper_ms: float) -> Iterator[float]:
        """Yield bounds in ms from one path, minus infinity while at work; finds the best price of memory."""
        yield from self._cut(0.0, upper_ms)
        best = at_price = self.bound_ms
        if self.deployment.max_subgraphs == 1 or not self.deployment.memory_bytes or best >= upper_ms:
            return
        # The bound is a concave function of the price: climb in growing steps, then in shrinking ones.
        price, step, factor = 0.0, best / 8, 2.0
        for _ in range(NUM_PRICES):
            value = -np.inf
            for value in self._cut(price + step, upper_ms):
                yield value
            if value > at_price:
                price, at_price = price + step, value
            else:
                factor = 0.5
            step *= factor
        self.price = price

    def averages(self, upper_ms: float) -> Iterator[float]:
        """Yield bounds in ms from averages over more and more paths, minus infinity while at work."""
        yield from self._cut(self.price, upper_ms)
        for count in range(2, NUM_AVERAGES + 2):
            path, length_ms = self._longest_path()
            if self.bound_ms >= min(upper_ms, length_ms * (1 - SADDLE)):
                return
            self.paths[path] = self.paths.get(path, 0) + count
            yield from self._cut(self.price, upper_ms)

    def _cut(self, price: float, upper_ms: float) -> Iterator[float]:
        """Yield minus infinity while at work, then the bound at a price in ms for an accelerator's worth of memory."""
        from solvers.latency_lattice import FULL, cut_ideals

        deployment = self.deployment
        num_subgraphs = deployment.num_accelerators * deployment.max_subgraphs
        columns = num_subgraphs + 1 if num_subgraphs < min(MAX_COLUMNS, len(self.kept)) else 1
        least = np.full((len(self.ideals), columns), np.inf)
        least[0] = 0.0
        choice = np.zeros(least.shape, np.int64)
        order = (self.ideals, self.above, *self.nearest)
        costs = (self.accelerator_ms, self.cpu_ms, self.share, price, upper_ms * (1 + 1e-9))
        flow = self._flow()
        at = 1
        while at < len(self.ideals):
            at = cut_ideals(
                order, costs, flow, self.nets, self.lookup, least, choice, at, len(self.ideals), STEPS_PER_ROUND
            )
            yield -np.inf
        value = float(least[-1, -1])
        if value == np.inf:
            # No plan fits, or none is better than the known one.
            self.bound_ms = upper_ms
        else:
            available = deployment.num_accelerators * FULL
            terms = 2 * (len(self.kept) + self.nets[1].size)
            rounding = 4 * EPSILON * terms * (value + self.transfers_ms + price * available)
            self.bound_ms = max(self.bound_ms, value - price * available - rounding)
            self.tasks = list(_tasks(choice))
        yield self.bound_ms

    def _flow(self) -> tuple[IntArray, IntArray, IntArray, IntArray, int]:
        """Return how many of the paths pass each node, and from it to which others."""
        passing = np.zeros(len(self.kept), np.int64)
        steps: list[dict[int, int]] = [{} for _ in self.kept]
        for path, count in self.paths.items():
            passing[list(path)] += count
            for u, v in pairwise(path):
                steps[u][v] = steps[u].get(v, 0) + count
        start, to = _flat([list(targets) for targets in steps])
        _, amount = _flat([list(targets.values()) for targets in steps])
        return passing, start, to, amount, sum(self.paths.values())

    def _longest_path(self) -> tuple[tuple[int, ...], float]:
        """Return the path of the longest way through the tasks of the cut found last, and its length in ms."""
        task_of = [0] * len(self.kept)
        duration_ms = []
        pin_start, nets_of, weight, _ = self.nets
        before = 0
        for number, (ideal, on_accelerator) in enumerate(self.tasks):
            after = int.from_bytes(self.ideals[ideal].tobytes(), "little")
            members = [v for v in range(len(self.kept)) if (after & ~before) >> v & 1]
            before = after
            for v in members:
                task_of[v] = number
            if on_accelerator:
                pins = np.bincount(
                    np.concatenate([nets_of[pin_start[v] : pin_start[v + 1]] for v in members]), minlength=weight.size
                )
                is_cut = (pins > 0) & (pins < self.nets[3])
                duration_ms.append(float(self.accelerator_ms[members].sum() + weight[is_cut].sum()))
            else:
                duration_ms.append(float(self.cpu_ms[members[0]]))
        length: list[float] = []
        step: list[int] = []
        before_start, nearest = self.nearest[:2]
        for v, task in enumerate(task_of):
            best, via = 0.0, -1
            for u in nearest[before_start[v] : before_start[v + 1]]:
                ms = length[u] - (duration_ms[task] if task_of[u] == task else 0.0)
                if via < 0 or ms > best:
                    best, via = ms, int(u)
            length.append(best + duration_ms[task])
            step.append(via)
        path = [int(np.argmax(length))]
        while step[path[-1]] >= 0:
            path.append(step[path[-1]])
        return tuple(reversed(path)), max(length)

    def _find_costs_and_nets(self) -> None:
        """Find what nodes cost and which share a tensor, as arrays for the kernel."""
        graph, deployment = self.graph, self.deployment
        row = {v: i for i, v in enumerate(self.kept)}
        # For q = 1 a node that is left out stands where the first kept node of its class stands.
        stands_at = dict(row)
        together: list[tuple[list[int], float]] = []
        if deployment.max_subgraphs == 1:
            for ids in graph.colocation_members.values():
                kept = [row[v] for v in ids if v in row]
                if len(kept) > 1:
                    together.append((kept, -1.0))
                if kept:
                    stands_at.update({v: kept[0] for v in ids if v not in row})
        accelerator_ms, share = np.zeros(len(row)), np.zeros(len(row))
        for v, i in stands_at.items():
            accelerator_ms[i] += self.times[v][0]
            if (
                deployment.memory_bytes is not None
                and graph.node_by_id[v].memory_bytes > 0
                and self.times[v][0] < np.inf
            ):
                share[i] += graph.node_by_id[v].memory_bytes / deployment.memory_bytes
        tensors: list[tuple[list[int], float]] = []
        for u in stands_at:
            rows = {stands_at[v] for v in (u, *graph.readers[u]) if v in stands_at}
            if len(rows) > 1 and graph.node_by_id[u].transfer_ms > 0:
                tensors.append((sorted(rows), graph.node_by_id[u].transfer_ms))
        nets = tensors + together
        nets_of: list[list[int]] = [[] for _ in row]
        for e, (rows_of_net, _) in enumerate(nets):
            for i in rows_of_net:
                nets_of[i].append(e)
        self.accelerator_ms, self.share = accelerator_ms, share
        self.cpu_ms = np.array([self.times[v][1] for v in self.kept])
        weight = np.array([ms for _, ms in nets], np.float64)
        size = np.array([len(rows) for rows, _ in nets], np.int64)
        self.nets = (*_flat(nets_of), weight, size)
        self.transfers_ms = sum(ms for _, ms in tensors)


def _tasks(choice: IntArray) -> Iterator[tuple[int, bool]]:
    """Yield the tasks of the cheapest cut from first to last: the ideal each completes, and if on an accelerator."""
    i, d = choice.shape[0] - 1, choice.shape[1] - 1
    tasks = []
    while i > 0:
        before, on_accelerator = divmod(int(choice[i, d]), 2)
        tasks.append((i, bool(on_accelerator)))
        i, d = before, d - on_accelerator if choice.shape[1] > 1 else d
    yield from reversed(tasks)


def _ideals_and_lookup(above: WordArray, limit: int) -> tuple[WordArray, tuple[WordArray, WordArray, IntArray]]:
    """Return all ideals, smaller ones first, and the table that finds their numbers."""
    from solvers.latency_lattice import enumerate_ideals, fill_table

    ideals = np.empty((limit, above.shape[1]), np.uint64)
    ideals = ideals[: enumerate_ideals(above, ideals)]
    rng = np.random.default_rng(0)
    table = np.empty(1 << (2 * len(ideals)).bit_length(), np.int64)
    hashes = np.empty(len(ideals), np.uint64)
    while True:
        keys = rng.integers(0, 2**64, len(above), np.uint64)
        if fill_table(ideals, len(ideals), keys, hashes, table):
            return ideals, (keys, hashes, table)


def _nearest(above: WordArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
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
    return (*_flat(before), *_flat(after))


def _flat(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    offsets = np.cumsum([0, *(len(items) for items in lists)])
    return offsets.astype(np.int64), np.array([i for items in lists for i in items], np.int64)
