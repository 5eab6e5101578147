"""The cheapest way to cut a part of a graph into tasks, for one path or for the average over several.

See `latency_bound` for what is cut and why the cost is a lower bound on latency. This module sets up the arrays of the
kernel, follows the cheapest cut back to its tasks, finds the longest path through them, and adds it to the average. For
q > 1 it looks for the price of memory that gives the best bound.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from solvers.latency.parts import GraphOrder, IntArray, flat, ideals_and_lookup, nearest_nodes
from solvers.model.deployment import Deployment
from solvers.problem.accelerator_kinds import AcceleratorKind

Times = dict[int, tuple[float, float]]
"""Each node's time on an accelerator, of one kind or of the best, and on a CPU, infinite where it cannot run."""

MAX_COLUMNS = 64
"""With more columns than this the number of subgraphs, on accelerators of each kind, is not limited in the bound."""

STEPS_PER_ROUND = 2_000_000
"""Pairs of ideals between two yields, about 0.2 s."""

NUM_AVERAGES = 40
"""Averages over paths that are tried in each part; path i of them counts i times, for the early ones guess."""

PATIENCE, WORTHWHILE = 12, 0.02
"""Averages end after so many in a row that close less than this share of what the part leaves open."""

SADDLE = 1e-9
"""Paths are not added where the longest one is no longer than the bound, relatively."""

NUM_PRICES = 10
"""Multipliers tried for memory, for q > 1."""

EPSILON = float(np.finfo(float).eps)


class PartCuts:
    """The cheapest ways to cut a part of a graph into tasks; `bound_ms` is the best bound they gave so far."""

    def __init__(
        self,
        order: GraphOrder,
        deployment: Deployment,
        kinds: Sequence[AcceleratorKind],
        times: Sequence[Times],
        kept: list[int],
        path: Sequence[int],
        limit: int,
    ) -> None:
        self.graph, self.deployment, self.kinds, self.times, self.kept = order.graph, deployment, kinds, times, kept
        self.above = order.above(kept)
        self.ideals, self.lookup = ideals_and_lookup(self.above, limit)
        self.nearest = nearest_nodes(self.above)
        self._find_costs_and_nets()
        self.row = {v: i for i, v in enumerate(kept)}
        self.paths = {tuple(self.row[v] for v in path if v in self.row): 1}
        self.price = 0.0
        self.bound_ms = -np.inf
        self.tasks: list[tuple[int, int]] = []

    def bounds(self, upper_ms: float) -> Iterator[float]:
        """Yield bounds in ms from one path, minus infinity while at work; finds the best price of memory."""
        yield from self._cut(0.0, upper_ms)
        best = at_price = self.bound_ms
        if self.deployment.max_subgraphs == 1 or not self.share.any() or best >= upper_ms:
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
        least_length_ms, last_gain = np.inf, 1
        for count in range(2, NUM_AVERAGES + 2):
            path, length_ms = self._longest_path()
            least_length_ms = min(least_length_ms, length_ms)
            left_ms = min(upper_ms, least_length_ms) - self.bound_ms
            if left_ms <= SADDLE * least_length_ms or count > last_gain + PATIENCE:
                return
            self.paths[path] = self.paths.get(path, 0) + count
            bound_before_ms = self.bound_ms
            yield from self._cut(self.price, upper_ms)
            if self.bound_ms > bound_before_ms + WORTHWHILE * left_ms:
                last_gain = count

    def _cut(self, price: float, upper_ms: float) -> Iterator[float]:
        """Yield minus infinity while at work, then the bound at a price in ms for an accelerator's worth of memory."""
        from solvers.latency.lattice import FULL, cut_ideals

        deployment, columns = self.deployment, 1
        stride, digits = np.ones(len(self.kinds), np.int64), np.ones(len(self.kinds), np.int64)
        most = [len(kind.devices) * deployment.max_subgraphs for kind in self.kinds]
        for g, num_subgraphs in enumerate(most):
            stride[g], digits[g] = columns, min(num_subgraphs, len(self.kept)) + 1
            columns *= int(digits[g])
        if columns > MAX_COLUMNS or min(most) >= len(self.kept):
            columns = 1
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
            self.tasks = list(_tasks(choice, stride))
        yield self.bound_ms

    def _flow(self) -> tuple[IntArray, IntArray, IntArray, IntArray, int]:
        """Return how many of the paths pass each node, and from it to which others."""
        passing = np.zeros(len(self.kept), np.int64)
        steps: list[dict[int, int]] = [{} for _ in self.kept]
        for path, count in self.paths.items():
            passing[list(path)] += count
            for u, v in pairwise(path):
                steps[u][v] = steps[u].get(v, 0) + count
        start, to = flat([list(targets) for targets in steps])
        _, amount = flat([list(targets.values()) for targets in steps])
        return passing, start, to, amount, sum(self.paths.values())

    def _longest_path(self) -> tuple[tuple[int, ...], float]:
        """Return the path of the longest way through the tasks of the cut found last, and its length in ms."""
        task_of = [0] * len(self.kept)
        duration_ms = []
        pin_start, nets_of, weight, _ = self.nets
        before = 0
        for number, (ideal, place) in enumerate(self.tasks):
            after = int.from_bytes(self.ideals[ideal].tobytes(), "little")
            members = [v for v in range(len(self.kept)) if (after & ~before) >> v & 1]
            before = after
            for v in members:
                task_of[v] = number
            if place:
                pins = np.bincount(
                    np.concatenate([nets_of[pin_start[v] : pin_start[v + 1]] for v in members]), minlength=weight.size
                )
                is_cut = (pins > 0) & (pins < self.nets[3])
                transfers_ms = float(weight[is_cut].sum()) / self.kinds[place - 1].link_speed
                duration_ms.append(float(self.accelerator_ms[place - 1, members].sum()) + transfers_ms)
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
        graph, deployment, kinds = self.graph, self.deployment, self.kinds
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
        accelerator_ms, share = np.zeros((len(kinds), len(row))), np.zeros((len(kinds), len(row)))
        for g, (kind, times) in enumerate(zip(kinds, self.times, strict=True)):
            for v, i in stands_at.items():
                accelerator_ms[g, i] += times[v][0]
                held = graph.node_by_id[v].memory_bytes
                if kind.memory_bytes is not None and held > 0 and times[v][0] < np.inf:
                    share[g, i] += held / kind.memory_bytes
        tensors: list[tuple[list[int], float]] = []
        for u in stands_at:
            for tensor in graph.tensors_of[u]:
                rows = {stands_at[v] for v in (u, *tensor.readers) if v in stands_at}
                if len(rows) > 1 and tensor.transfer_ms > 0:
                    tensors.append((sorted(rows), tensor.transfer_ms))
        nets = tensors + together
        nets_of: list[list[int]] = [[] for _ in row]
        for e, (rows_of_net, _) in enumerate(nets):
            for i in rows_of_net:
                nets_of[i].append(e)
        self.accelerator_ms, self.share = accelerator_ms, share
        self.cpu_ms = np.array([self.times[0][v][1] for v in self.kept])
        weight = np.array([ms for _, ms in nets], np.float64)
        size = np.array([len(rows) for rows, _ in nets], np.int64)
        self.nets = (*flat(nets_of), weight, size)
        self.transfers_ms = sum(ms for _, ms in tensors) / min(kind.link_speed for kind in kinds)


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
