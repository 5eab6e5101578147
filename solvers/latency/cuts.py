"""The cheapest way to cut a part of a graph into tasks, for one path or for a mixture of several.

See `latency_bound` for what is cut and why the cost is a lower bound on latency. This module sets up the arrays of the
kernel, follows the cheapest cut back to its tasks, and takes it into the search for the mixture of paths for which
cutting costs most. For q > 1 it looks for the price of memory that gives the best bound.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solvers.latency.arrays import FULL, FloatArray, IntArray
from solvers.latency.left_out import chains_between, nodes_between, tensors_among
from solvers.latency.mixture import PathMixture, Paths
from solvers.latency.parts import GraphOrder, flat, ideals_and_lookup, nearest_nodes
from solvers.model.deployment import Deployment
from solvers.problem.accelerator_kinds import AcceleratorKind

Times = dict[int, tuple[float, float]]
"""Each node's time on an accelerator, of one kind or of the best, and on a CPU, infinite where it cannot run."""

MAX_COLUMNS = 64
"""With more columns than this the number of subgraphs, on accelerators of each kind, is not limited in the bound."""

STEPS_PER_ROUND = 1_000_000
"""Pairs of ideals between two yields, about 0.2 s."""

MOST_MIXTURES = 60
"""Mixtures of paths that are tried in each part."""

PATIENCE, SMALL_GAIN = 12, 1e-4
"""The search for mixtures ends after so many in a row that gain less than this, relatively."""

WORTHWHILE = 0.02
"""It ends, too, when mixtures could close no more than this share of what is open."""

SADDLE = 1e-9
"""Or when the bound is the most that mixtures can prove, relatively."""

MAX_EXCESSES = 3
"""After so many cuts with too many subgraphs their number is limited in all further ones."""

NUM_PRICES = 10
"""Multipliers tried for memory, for q > 1."""

EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True, slots=True)
class Cut:
    """Tasks of a part's nodes, in an order in which they can run.

    `task_of` tells the task of each row of the part; `place` is 0 for a CPU, 1 for the first kind of accelerators, and
    so on, and `duration_ms` how long it takes, as far as the part can tell. `held` is the memory of all tasks on
    accelerators, in shares of what one has.
    """

    task_of: IntArray
    place: tuple[int, ...]
    duration_ms: tuple[float, ...]
    held: float


class PartCuts:
    """The cheapest ways to cut a part of a graph into tasks; `bound_ms` is the best bound they gave so far."""

    def __init__(
        self,
        order: GraphOrder,
        deployment: Deployment,
        kinds: Sequence[AcceleratorKind],
        times: Sequence[Times],
        kept: list[int],
        limit: int,
    ) -> None:
        self.graph, self.deployment, self.kinds, self.times, self.kept = order.graph, deployment, kinds, times, kept
        self.above = order.above(kept)
        self.ideals, self.lookup = ideals_and_lookup(self.above, limit)
        self.nearest = nearest_nodes(self.above)
        self.row = {v: i for i, v in enumerate(kept)}
        self._find_costs_and_nets(order)
        self._most_subgraphs = [min(len(kind.devices) * deployment.max_subgraphs, len(kept)) for kind in kinds]
        self._may_limit = math.prod(most + 1 for most in self._most_subgraphs) <= MAX_COLUMNS
        self._excesses = 0
        self.paths: Paths = {}
        self.price = 0.0
        self.bound_ms = -np.inf
        self.value_ms = -np.inf
        """The bound of the paths and the price tried last, at most `bound_ms`."""
        self.cut: Cut | None = None
        """The cheapest cut for these; None if none is as cheap as the known plan."""
        self.best_paths: Mapping[tuple[int, ...], int] = {}
        """The mixture of the best bound, by the ids of nodes."""

    def along(self, path: Sequence[int], upper_ms: float) -> Iterator[float]:
        """Yield bounds in ms from one path, minus infinity while at work; finds the best price of memory."""
        self.paths = {tuple(self.row[v] for v in path if v in self.row): 1}
        yield from self._cut(0.0, upper_ms)
        best = at_price = self.bound_ms
        if self.deployment.max_subgraphs == 1 or not self.share.any() or best >= upper_ms or best <= 0.0:
            return  # where all is for nothing but for rounding, its sign would be that of the price
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

    def mixed(self, upper_ms: float, start: Mapping[tuple[int, ...], int]) -> Iterator[float]:
        """Yield bounds in ms from mixtures of paths, minus infinity while at work; with each bound `cut` is its cut.

        `start` is a mixture to start from, of one path at least, by the ids of nodes it passes and their order.
        """
        inside = {tuple(self.row[v] for v in path if v in self.row): n for path, n in start.items()}
        mixture = PathMixture(self.nearest, self.chain_ms, inside)
        best_ms, best_flow, last_gain = -np.inf, mixture.flow, 0
        for count in range(MOST_MIXTURES):
            self.paths = mixture.paths()
            yield from self._cut(self.price, upper_ms)
            if self.cut is None:
                return
            if self.value_ms > best_ms:
                if self.value_ms > best_ms + SMALL_GAIN * abs(best_ms):
                    last_gain = count
                best_ms, best_flow = self.value_ms, mixture.flow
                self.best_paths = {tuple(self.kept[i] for i in path): n for path, n in self.paths.items()}
            held_ms = self.price * (self.cut.held - self.deployment.num_accelerators * FULL)
            mixture.add_cut(self.cut.task_of, self.cut.duration_ms, held_ms)
            most_ms = mixture.step(best_flow)
            if most_ms is None or count > last_gain + PATIENCE:
                return
            open_ms = (upper_ms if upper_ms < np.inf else most_ms) - best_ms
            if min(most_ms, upper_ms) - best_ms <= max(SADDLE * best_ms, WORTHWHILE * open_ms):
                return

    def _cut(self, price: float, upper_ms: float) -> Iterator[float]:
        """Yield minus infinity while at work, then the bound at a price in ms for an accelerator's worth of memory.

        The number of subgraphs on accelerators is limited only where the cheapest cut without a limit has too many:
        the limit takes about twice the time.
        """
        limited = self._may_limit and self._excesses >= MAX_EXCESSES
        yield from self._cheapest(price, upper_ms, limited)
        if self._may_limit and not limited and self.cut is not None and self._has_too_many(self.cut):
            self._excesses += 1
            yield from self._cheapest(price, upper_ms, limited=True)
        self.bound_ms = max(self.bound_ms, self.value_ms)
        yield self.bound_ms

    def _has_too_many(self, cut: Cut) -> bool:
        return any(cut.place.count(g + 1) > most for g, most in enumerate(self._most_subgraphs))

    def _cheapest(self, price: float, upper_ms: float, limited: bool) -> Iterator[float]:
        """Set `cut` and `value_ms`; yields minus infinity while at work."""
        from solvers.latency.lattice import cut_ideals

        deployment, columns = self.deployment, 1
        stride, digits = np.ones(len(self.kinds), np.int64), np.ones(len(self.kinds), np.int64)
        if limited:
            for g, most in enumerate(self._most_subgraphs):
                stride[g], digits[g] = columns, most + 1
                columns *= most + 1
        least = np.full((len(self.ideals), columns), np.inf)
        least[0] = 0.0
        choice = np.zeros(least.shape, np.int64)
        order = (self.ideals, self.above, *self.nearest)
        link_speed = np.array([kind.link_speed for kind in self.kinds])
        longest_ms = upper_ms * (1 + 1e-9)
        costs = (self.accelerator_ms, self.cpu_ms, self.share, link_speed, stride, digits, price, longest_ms)
        flow = self._flow()
        at = 1
        while at < len(self.ideals):
            at = cut_ideals(
                order, costs, flow, self.nets, self.between, self.lookup,
                least, choice, at, len(least), STEPS_PER_ROUND,
            )  # fmt: skip
            yield -np.inf
        value = float(least[-1, -1])
        if value == np.inf:
            # No plan fits, or none is better than the known one.
            self.value_ms, self.cut = upper_ms, None
            return
        available = deployment.num_accelerators * FULL
        terms = 2 * (len(self.graph.nodes) + self.nets[1].size)
        rounding = 4 * EPSILON * terms * (value + self.transfers_ms + price * available)
        self.value_ms = value - price * available - rounding
        self.cut = self._cut_of(list(_tasks(choice, stride)))

    def _flow(self) -> tuple[IntArray, FloatArray, IntArray, IntArray, IntArray, FloatArray, int]:
        """Return what the paths are to the kernel: see `cut_ideals`."""
        passing, arriving_ms = np.zeros(len(self.kept), np.int64), np.zeros(len(self.kept))
        steps: list[dict[int, int]] = [{} for _ in self.kept]
        for path, count in self.paths.items():
            passing[list(path)] += count
            for u, v in pairwise(path):
                steps[u][v] = steps[u].get(v, 0) + count
                arriving_ms[v] += count * self.chain_ms.get((u, v), 0.0)
        start, to = flat([list(targets) for targets in steps])
        _, amount = flat([list(targets.values()) for targets in steps])
        chain_ms = [self.chain_ms.get((u, v), 0.0) for u, targets in enumerate(steps) for v in targets]
        return passing, arriving_ms, start, to, amount, np.array(chain_ms), sum(self.paths.values())

    def _cut_of(self, tasks: list[tuple[int, int]]) -> Cut:
        """Return a cut whose tasks complete these ideals, each with its place."""
        task_of = np.zeros(len(self.kept), np.int64)
        durations, held_in_all, before = [], 0.0, 0
        pin_start, nets_of, weight, size = self.nets
        before_start, before_out, after_start, after_out, out_ms, out_share = self.between
        for number, (ideal, place) in enumerate(tasks):
            after = int.from_bytes(self.ideals[ideal].tobytes(), "little")
            members = [v for v in range(len(self.kept)) if (after & ~before) >> v & 1]
            before = after
            task_of[members] = number
            if not place:
                durations.append(float(self.cpu_ms[members[0]]))
                continue
            pins = np.bincount(_items(pin_start, nets_of, members), minlength=weight.size)
            transfers_ms = float(weight[(pins > 0) & (pins < size)].sum()) / self.kinds[place - 1].link_speed
            between = np.intersect1d(_items(before_start, before_out, members), _items(after_start, after_out, members))
            nodes_ms = self.accelerator_ms[place - 1, members].sum() + out_ms[place - 1, between].sum()
            durations.append(float(nodes_ms) + transfers_ms)
            held_in_all += float(self.share[place - 1, members].sum() + out_share[place - 1, between].sum())
        return Cut(task_of, tuple(place for _, place in tasks), tuple(durations), held_in_all)

    def _find_costs_and_nets(self, order: GraphOrder) -> None:
        """Find what nodes cost and which share a tensor, as arrays for the kernel."""
        graph, deployment, kinds = self.graph, self.deployment, self.kinds
        row = self.row
        # For q = 1 a node that is left out stands where the first kept node of its class stands.
        stands_at = dict(row)
        together: list[tuple[frozenset[int], float]] = []
        if deployment.max_subgraphs == 1:
            for ids in graph.colocation_members.values():
                kept = [row[v] for v in ids if v in row]
                if len(kept) > 1:
                    together.append((frozenset(kept), -1.0))
                if kept:
                    stands_at.update({v: kept[0] for v in ids if v not in row})
        accelerator_ms, share = np.zeros((len(kinds), len(row))), np.zeros((len(kinds), len(row)))
        left_out = [v for v in order.node_at if v not in stands_at]
        out_ms, out_share = np.zeros((len(kinds), len(left_out))), np.zeros((len(kinds), len(left_out)))
        for g, (kind, times) in enumerate(zip(kinds, self.times, strict=True)):

            def share_of(v: int, capacity: float | None = kind.memory_bytes, times: Times = times) -> float:
                held = graph.node_by_id[v].memory_bytes
                return held / capacity if capacity is not None and held > 0 and times[v][0] < np.inf else 0.0

            for v, i in stands_at.items():
                accelerator_ms[g, i] += times[v][0]
                share[g, i] += share_of(v)
            for x, v in enumerate(left_out):
                out_ms[g, x], out_share[g, x] = times[v][0], share_of(v)
        before_start, before, after_start, after = nodes_between(order, self.kept, left_out)
        self.between = before_start, before, after_start, after, out_ms, out_share
        fastest_ms = [min(times[v][0] for times in self.times) for v in left_out]
        fastest_ms = [min(ms, self.times[0][v][1]) for ms, v in zip(fastest_ms, left_out, strict=True)]
        self.chain_ms = chains_between(order, left_out, fastest_ms, self.between[:4])
        tensors = tensors_among(graph, self.kept, stands_at)
        nets = tensors + together
        nets_of: list[list[int]] = [[] for _ in row]
        for e, (rows_of_net, _) in enumerate(nets):
            for i in rows_of_net:
                nets_of[i].append(e)
        self.accelerator_ms, self.share = accelerator_ms, share
        self.cpu_ms = np.array([self.times[0][v][1] for v in self.kept])
        weight = np.array([ms for _, ms in nets], np.float64)
        size = np.array([len(rows) for rows, _ in nets], np.int64)
        pin_start, pins_of = flat(nets_of)
        self.nets = pin_start, pins_of, weight, size
        self.transfers_ms = sum(ms for _, ms in tensors) / min(kind.link_speed for kind in kinds)


def _items(start: IntArray, items: IntArray, rows: Sequence[int]) -> IntArray:
    """Return the items of some rows."""
    return np.concatenate([items[start[i] : start[i + 1]] for i in rows])


def _tasks(choice: IntArray, stride: IntArray) -> Iterator[tuple[int, int]]:
    """Yield the tasks of the cheapest cut from first to last: the ideal each completes, and where it is.

    0 is a CPU, 1 the first kind of accelerators, and so on.
    """
    i, d = choice.shape[0] - 1, choice.shape[1] - 1
    tasks = []
    while i > 0:
        before, place = divmod(int(choice[i, d]), len(stride) + 1)
        tasks.append((i, place))
        i, d = before, d - int(stride[place - 1]) if place and choice.shape[1] > 1 else d
    yield from reversed(tasks)
