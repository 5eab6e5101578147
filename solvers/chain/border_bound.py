r"""Lower bounds on chains that know what every border between two stages costs, by maximum flows.

Bounds from total work let transfers go for nothing, and on graphs with wide layers that is a third of a load. Here the
borders I_1 < I_2 < ... of a chain are ideals of which only a class and two numbers are kept.

*Classes.* Take gates g_1 < ... < g_m: blocks each of which depends on the one before. An ideal is of class t if it
holds g_t and not g_{t+1}. All ideals of class t hold what g_t depends on, and none holds what depends on g_{t+1}. The
gates are a path for which few blocks are in neither: a shortest path with (number of such blocks)^power as the length
of a step.

*What a stage pays surely.* Let a stage go from a border of class u to one of class t. With p the work and w_e what a
device pays for tensor e,

    load >= p(I_t) - p(I_u) + sent_{t - u}(I_t) + read_{t - u}(I_u),

    sent(I): w_e for each e that crosses I and has all ends outside every ideal of class u: its first end is in the
        stage,
    read(I): w_e for each e that crosses I and has an end outside I that every ideal of class t holds: it is read in
        the stage, and does not come from there.

No tensor counts twice. Steps t - u of `NEAREST` gates and more count as so many: with more, only more is surely paid.
So a stage within T that goes from x = p(I_u) - read(I_u) comes to an ideal with p + sent <= x + T, and what counts then
is p - read for the stage that comes next. With a slope s >= 0

    p - read  <=  s (x + T) + max { (1 - s) p - read - s sent : I of class t },

and the maximum on the right is a minimum cut: a block is on the source's side if the ideal holds it, arcs of no limit
lead to what it depends on, one of capacity w_e stands for e with a node for "some end is in I" and one for "all ends
are". It depends neither on T nor on the number of devices. A few slopes are kept for every class and both steps.

*From the end to the beginning.* What p - read must be for the devices left, by dynamic programming over classes and
mixes of devices: the least x from which a stage comes to what the next one needs. If not even x = 0 does, no chain has
a max-load of T. A CPU pays for no transfers; between two classes it does at most the work of a fractional knapsack: it
has to take what lies surely between the borders, and may take what may lie there.

*Several kinds of accelerators.* p is then the work of `solvers.chain.label_kernel`, of which kind g does at most rate_g
in a ms: its stages do T rate_g. What a tensor costs is the least rate_g x link factor_g x w_e of any kind.

Memory, pinned blocks and whether devices are apart are left out, so bounds hold with them. Where tensors are dearer
than all work they count as twice as much. Flows are sums of floats: thresholds are lowered by SLACK.

Time O(classes x steps^2 x slopes) flows in networks of the blocks that are not sure, some tens in all graphs tried.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from solvers.chain.border_flow import BACK, GAIN, LOSS, ORDER, READ, READER, SENT, border_values, cpu_work
from solvers.chain.label_records import DeviceMixes
from solvers.problem.contraction import Contraction, FloatArray, IntArray

NEAREST = 12
"""Steps between classes that are told apart."""
POWER = 8.0
"""Higher ones make for more gates."""
MOST_CLASSES = 96
MAX_BLOCKS = 3000
"""Which block depends on which is kept in a square of so many."""
MAX_STATES = 400
"""Mixes of devices; each is gone through with every threshold of a bisection."""
SLOPES = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.75, 3.0, 8.0])
SLACK = 1e-9
BISECTIONS = 12

START = END = NEAREST + 1
CPU = NEAREST + 2
"""In place of a step: the chain begins or ends here, or the stage is a CPU's."""


class Room(NamedTuple):
    """How much work may be left to do, at a border and in a stage under way; -inf: whatever is left is too much.

    `at_border[s, t, d]` is for the devices left over in state s, a border of class t, and a next stage that goes d
    classes on, before `read` is taken off. `under_way[s, t, i]` is for a stage that began i classes before t; what it
    can still do itself comes in addition.
    """

    at_border: FloatArray
    under_way: FloatArray


class BorderBound:
    """The classes of a contraction's ideals, what their best ideals are worth, and which thresholds that rules out."""

    def __init__(
        self, contraction: Contraction, work: FloatArray, cpu_ms: FloatArray, net_weight: FloatArray, mixes: DeviceMixes
    ) -> None:
        """Choose the gates; `prepare` does the work.

        `contraction` is of the chain family. `work` and `cpu_ms` are of its blocks and `net_weight` of its hyperedges,
        in ms, as the search of the states of `mixes` has them.
        """
        self._mixes = mixes
        self._work, self._cpu_ms = work, cpu_ms
        self._total = float(work.sum())
        # What sums of work may be off by, where one block has nearly all: times that say "never" are like that.
        num_sums = work.size + mixes.used.shape[0]
        self._rounding = 4 * num_sums * float(np.finfo(np.float64).eps) * self._total / float(SLOPES[1:].min())
        on = mixes.available[:-1] > 0
        self.transfer_work = float((mixes.rate * mixes.link_factor[:-1])[on].min(initial=np.inf)) if on.any() else 0.0
        # A tensor dearer than all work rules a border out as surely as any.
        weights = np.minimum(self.transfer_work * net_weight, 2 * self._total)
        self._nets = [(h.blocks, w) for h, w in zip(contraction.hyperedges, weights.tolist(), strict=True)]
        n = contraction.num_blocks
        self._before: list[list[int]] = [[] for _ in range(n)]
        for a, b in contraction.edges:
            self._before[b].append(a)
        depends = np.eye(n, dtype=bool)  # depends[a, b]: b depends on a, or is a
        for b in range(n):
            for a in self._before[b]:
                depends[:, b] |= depends[:, a]
        self._depends = depends
        self.gates = _gates(depends)
        self.num_classes = len(self.gates) + 1
        # Ideals hold block b for sure from class `held_from` on, and may hold it from class `open_from` on.
        self.held_from: IntArray = np.full(n, self.num_classes, np.int32)
        self.open_from: IntArray = np.zeros(n, np.int32)
        for t in range(len(self.gates), 0, -1):
            self.held_from[depends[:, self.gates[t - 1]]] = t
        for t, gate in enumerate(self.gates, 1):
            self.open_from[depends[gate]] = t
        self._values = np.zeros((self.num_classes, CPU + 1, CPU + 1, SLOPES.size))
        self._num_prepared = 0
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(work > 0, work / cpu_ms, 0.0)
        self._by_ratio = np.argsort(-ratio, kind="stable")

    def prepare(self, stop: np.ndarray) -> bool:
        """Compute what ideals are worth; return whether that is done. Setting `stop[0]` from another thread ends it.

        Where it was stopped it goes on when called again.
        """
        while self._num_prepared < self.num_classes and self._fill(self._num_prepared, stop):
            self._num_prepared += 1
        return self._num_prepared == self.num_classes

    def thresholds(self, low_ms: float, high_ms: float, stop: np.ndarray) -> Iterator[float]:
        """Bisect between two values in ms; yield thresholds that no chain's max-load is below, each larger."""
        for _ in range(BISECTIONS):
            middle = 0.5 * (low_ms + high_ms)
            is_reached = self._is_within_reach(middle, stop)
            if is_reached is None:
                return
            if is_reached:
                high_ms = middle
            else:
                low_ms = middle
                yield middle * (1 - SLACK)

    def room(self, threshold_ms: float) -> Room:
        """Return what may be left to do if no load exceeds the threshold."""
        needs = self._needs(threshold_ms, np.zeros(1, np.uint8))
        assert needs is not None
        need, entry, _ = needs
        # A stage under way may end its chain, or go on to any later class.
        least = entry.copy()
        for t in range(self.num_classes - 2, -1, -1):
            least[:, t, :NEAREST] = np.minimum(entry[:, t, :NEAREST], least[:, t + 1, 1 : NEAREST + 1])
            least[:, t, NEAREST:] = np.minimum(entry[:, t, NEAREST:], least[:, t + 1, NEAREST:])
        return Room(self._total - need, self._total - np.minimum(least, self._total))

    def _is_within_reach(self, threshold_ms: float, stop: np.ndarray) -> bool | None:
        """Return whether a chain within the threshold is not ruled out; None if that was stopped."""
        mixes = self._mixes
        needs = self._needs(threshold_ms, stop)
        if needs is None:
            return None
        _, entry, by_cpu = needs
        for g in np.flatnonzero(mixes.available[:-1]).tolist():
            done = threshold_ms * mixes.rate[g] + self._rounding
            if done >= self._total or entry[mixes.stride[g], :, START].min() <= done:
                return True
        if not mixes.available[-1]:
            return False
        by_cpu = by_cpu[0] + self._rounding
        return bool(by_cpu[-1] >= self._total or (entry[mixes.stride[-1], :, CPU] <= by_cpu[:-1]).any())

    def _needs(self, threshold_ms: float, stop: np.ndarray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Return what p - read has to be at a border, and p + sent at most where a stage arrives; see the module.

        Both are by state, class, and steps; the third is the work of CPUs. None if it was stopped.
        """
        mixes, classes = self._mixes, self.num_classes
        by_cpu = np.zeros((classes + 1, classes + 1))
        if mixes.available[-1]:
            limit = threshold_ms * (1 + SLACK)
            cpu_work(self._by_ratio, self._work, self._cpu_ms, self.held_from, self.open_from, limit, by_cpu)
        states = mixes.used.shape[0]
        need = np.full((states, classes, CPU + 1), np.inf)
        entry = np.full_like(need, np.inf)
        for s in range(states - 2, -1, -1):  # all but the last, in which no device is left
            if stop[0]:
                return None
            here = need[s]
            for g in np.flatnonzero(mixes.used[s] < mixes.available).tolist():
                arrive = entry[s + mixes.stride[g]]
                if g == mixes.rate.size:
                    here[:, CPU] = np.minimum(
                        (arrive[:, CPU] - by_cpu[1:, :-1]).min(axis=1), self._total - by_cpu[1:, -1]
                    )
                    continue
                done = threshold_ms * mixes.rate[g]
                for d in range(min(NEAREST, classes)):
                    np.minimum(here[: classes - d, d], arrive[d:, d] - done, out=here[: classes - d, d])
                if classes > NEAREST:
                    farther = np.minimum.accumulate(arrive[::-1, NEAREST])[::-1][NEAREST:] - done
                    np.minimum(here[: classes - NEAREST, NEAREST], farther, out=here[: classes - NEAREST, NEAREST])
                np.minimum(here[:, END], self._total - done, out=here[:, END])
            entry[s] = self._least_entries(here)
        return need, entry, by_cpu

    def _least_entries(self, need: FloatArray) -> FloatArray:
        """Return the least p + sent for an ideal of each class whose p - read suffices for some next stage."""
        wanted = need[:, None, :, None]
        least = ((wanted - self._values[..., 1:]) / SLOPES[1:]).max(axis=3)
        impossible = wanted[..., 0] > self._values[..., 0] + SLACK * self._total
        least[impossible] = np.inf
        result: FloatArray = least.min(axis=2)
        return result

    def _fill(self, t: int, stop: np.ndarray) -> bool:
        """Compute what ideals of class t are worth, for all steps and slopes; return whether that was not stopped."""
        is_held, is_open = self.held_from <= t, self.open_from <= t
        unsure = np.flatnonzero(is_open & ~is_held)
        node = np.where(is_held, 0, 1)  # of the source, or of the sink
        node[unsure] = np.arange(2, 2 + unsure.size)
        tail, head, role, amount, nearness = arcs = [], [], [], [], []  # type: ignore[var-annotated]
        num_nodes = 2 + unsure.size

        def arc(*what: float) -> None:
            for column, value in zip(arcs, what, strict=True):
                column.append(value)

        for b in unsure.tolist():
            arc(0, node[b], GAIN, self._work[b], 0)
            arc(node[b], 1, LOSS, self._work[b], 0)
            for a in self._before[b]:
                if node[a] > 1:
                    arc(node[b], node[a], ORDER, 0.0, 0)
        for ends, weight in self._nets:
            blocks = list(ends)
            nodes = node[blocks]
            first = blocks[0] if self._depends[blocks[0], blocks].all() else None
            if (nodes == 0).all() or (nodes == 1).all() or (first is not None and node[first] == 1):
                continue
            all_in_sent, all_in_read = num_nodes, num_nodes + 1
            some_in = num_nodes + 2 if first is None else node[first]  # an ideal with another end has the first, too
            num_nodes += 3 if first is None else 2
            steps = t - int(self.open_from[blocks].min()) + 1
            arc(some_in, all_in_sent, SENT, weight, steps if steps <= min(t, NEAREST) else START)
            arc(some_in, all_in_read, READ, weight, 0)
            for b in blocks:
                if node[b] != 1 and first is None:
                    arc(node[b], some_in, ORDER, 0.0, 0)
                if node[b] != 0 and b != first:
                    steps = max(0, int(self.held_from[b]) - t)
                    is_near = steps <= NEAREST and self.held_from[b] < self.num_classes
                    arc(all_in_sent, node[b], ORDER, 0.0, 0)
                    arc(all_in_read, node[b], READER, 0.0, steps if is_near else END)
        count = len(tail)
        both = np.array([*tail, *head], np.int32)
        order = np.argsort(both, kind="stable")
        place = np.empty(2 * count, np.int32)
        place[order] = np.arange(2 * count)
        twin = np.concatenate([place[count:], place[:count]])[order]
        ptr = np.zeros(num_nodes + 1, np.int32)
        ptr[1:] = np.cumsum(np.bincount(both, minlength=num_nodes))
        is_done: bool = border_values(
            ptr,
            np.array([*head, *tail], np.int32)[order],
            twin,
            np.array([*role, *[BACK] * count], np.int32)[order],
            np.array([*amount, *[0.0] * count])[order],
            np.array([*nearness, *[0] * count], np.int32)[order],
            float(self._work[is_held].sum()),
            float(self._work[unsure].sum()),
            SLOPES,
            (np.empty(2 * count), np.empty((6, num_nodes + CPU + 1), np.int32)),
            self._total,
            self._values[t],
            stop,
        )
        return is_done


def _gates(depends: np.ndarray) -> list[int]:
    """Return blocks each of which depends on the one before, such that few blocks depend on neither of two of them."""
    n = len(depends)
    num_before, num_after = depends.sum(axis=0), depends.sum(axis=1)
    length, previous = np.zeros(n + 1), np.full(n + 1, -1)
    least = n / MOST_CLASSES
    for b in range(n + 1):
        after = num_after[b] if b < n else 0
        length[b] = max(least, n - after) ** POWER
        candidates = np.flatnonzero(depends[:b, b]) if b < n else np.arange(n)
        if candidates.size:
            steps = length[candidates] + np.maximum(least, n - num_before[candidates] - after) ** POWER
            best = int(steps.argmin())
            if steps[best] < length[b]:
                length[b], previous[b] = steps[best], candidates[best]
    gates: list[int] = []
    b = int(previous[n])
    while b >= 0:
        gates.append(b)
        b = int(previous[b])
    return gates[::-1]
