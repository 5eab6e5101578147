"""Minimise max-load over chain splits: dynamic programming over ideals, proven optimal.

The recurrence and how it is kept small are described in `solvers.chain.label_kernel`; this module chooses the
thresholds. A search with threshold T finds a chain of max-load <= T or proves that there is none. One that counts loads
up to the lower bound L as L finds the best such chain; one that counts loads up to T as T finds some chain, but with
far fewer labels where loads differ by little. The first kind is run when T is within EXACT_WINDOW of L.

The first plan comes from the same search on one topological line (n + 1 ideals), the linearised DP of Tarnawski et al.
(NeurIPS 2020, section 5). T starts near a lower bound and grows in steps that double, never past the value of a plan
already known nor past the middle between the two. A search costs little far below the optimum; near it, each costs
about as much as the last one, so few are wanted there. Once searches are no longer quick, the plan is therefore
improved first (`solvers.chain.improvement`), most often to the optimum, and the next T is just below it: to find no
chain there is the proof; not so where plan and bound are NEAR, for the middle between them soon is within the window
of exact searches. As it may take far longer where the plan is not yet good, such a search from above is paused
after a number of steps in proportion to those of the last one from below. A search that is paused goes on where it
was when its threshold is due again. Before a search takes very many steps, what borders between stages cost is computed
(`solvers.chain.border_bound`): a better bound, and searches that end labels with it. Steps are counted, not timed, so
that the same question takes the same course on every machine, until somebody offers a plan or a bound found elsewhere.

Time O(ideals within T x width x labels), see there.
"""

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.chain.border_bound import MAX_BLOCKS, MAX_STATES, BorderBound
from solvers.chain.ending import Ending
from solvers.chain.improvement import ChainImprovement, chain_by_block
from solvers.chain.label_kernel import FINISHED, FULL, PAUSED, STOPPED
from solvers.chain.label_records import LabelProblem
from solvers.chain.label_search import (
    FlatContraction,
    ThresholdSearch,
    device_mixes,
    flat_edges,
    flat_problem,
    is_loaded,
)
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Node
from solvers.model.result import LOADING, PROOF_TOLERANCE
from solvers.model.split import Family, Split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import Contraction, IntArray, contract
from solvers.quantities import milliseconds

FIRST_STEP = 0.002
"""Relative step of the first threshold above the lower bound."""

EXACT_WINDOW = 0.004
"""Relative distance of threshold and lower bound up to which a search finds the best chain, not just some chain."""

SAME_VALUE = 4e-9
"""A chain that is better by a smaller share is not looked for; above RELATIVE_SLACK, far below PROOF_TOLERANCE."""

LINE_GAP = 0.002
"""The best chain along one line is not sought more closely than this."""

SLOW_FACTOR = 600
"""When a search takes more than this many steps per block, the plan is improved before it goes on."""
FUTILE_SWEEPS, MAX_SWEEPS = 8, 40
"""Sweeps in a row without a better plan, and sweeps in all, after which a plan is not improved further."""
NEAR, NEAR_FUTILE_SWEEPS = 0.045, 4
"""Where a plan is known that is as close to its bound as this, a few searches from below end it in less time than one
from above; then fewer sweeps without a better plan are worth their time, too."""
FIRST_ABOVE, ABOVE_FACTOR = 4_000_000, 2
"""A search just below the best plan may take so many steps, or this many times those of the last one from below."""
BORDERS_AFTER = 30_000
"""When a search takes more than this many steps per block, it is ended until what borders cost is known
(`solvers.chain.border_bound`): that takes about twice as long."""
WIDER = 3.0
"""When it has found a plan that may not be the best, the next one looks for the best in a window wider by this."""

LINE_IS_CLOSE = 0.02
"""The best chain along one line is not sought where a plan is known that is as close to its bound as this."""

KIND_FACTOR = 4.0
"""A block pinned to an accelerator takes this many times on a CPU what no split needs to exceed."""

MAX_TABLE_BYTES = 400 * 2**20
"""Most that bit sets of descendants, ideals and labels take; while they grow, half as much again is in use."""


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """The best chain found and what is proven: `lower_bound_ms` holds for every chain split.

    `device_of_block` is None when no chain was found; then `lower_bound_ms` is infinite if that is proven.
    `num_ideals` counts the ideals of the last search.
    """

    device_of_block: dict[int, int] | None
    value_ms: float
    lower_bound_ms: float
    num_ideals: int


class ChainSearch:
    """One optimisation that can be watched and stopped; `run` does the work, the rest reads its state.

    `kinds` are those of the accelerators. `num_kept` counts what all searches for thresholds have kept so far: an ideal
    on so many devices each time.
    """

    def __init__(
        self,
        graph: DnnGraph,
        contraction: Contraction,
        deployment: Deployment,
        max_bytes: int = MAX_TABLE_BYTES,
        pinned: Mapping[int, int] | None = None,
    ) -> None:
        """Prepare the search; nothing is computed yet.

        `pinned` says of blocks no two of which may share a stage for which device they are.
        """
        # More devices than blocks are of no use, and every one of them costs states.
        n = contraction.num_blocks
        classes = tuple(replace(c, count=min(n, c.count)) for c in deployment.classes)
        useful = replace(
            deployment,
            num_accelerators=sum(c.count for c in classes) if classes else min(n, deployment.num_accelerators),
            num_cpus=min(n, deployment.num_cpus),
            classes=classes,
        )
        self.kinds = accelerator_kinds(graph, deployment)
        self._net_weight = np.array([h.weight_ms for h in contraction.hyperedges], np.float64)
        self._max_bytes = max_bytes
        self._ceiling = threshold_that_allows_all(contraction, useful)
        # Without accelerators there is still a kind of them, of which there are none: its times bound what CPUs can do.
        times = [kind.block_ms(contraction) for kind in self.kinds] or [contraction.accelerator_ms]
        self._pinned = pinned or {}
        if pinned:
            is_for_cpu = {b: deployment.is_cpu(d) for b, d in pinned.items()}
            contraction = with_kinds(contraction, is_for_cpu, KIND_FACTOR * self._ceiling)
        self.contraction = contraction
        time_ms = np.array([*times, contraction.cpu_ms])
        for b, d in self._pinned.items():
            for g, kind in enumerate(self.kinds):
                if d not in kind.devices:
                    time_ms[g, b] = np.inf
        self._devices = [kind.devices for kind in self.kinds] or [()]
        self._devices.append(tuple(range(deployment.num_accelerators, deployment.num_devices)))
        counts = [min(n, len(devices)) for devices in self._devices]
        link_factors = [1.0 / kind.link_speed for kind in self.kinds] or [1.0]
        memory_bytes = [np.inf if kind.memory_bytes is None else kind.memory_bytes for kind in self.kinds] or [np.inf]
        self._flat = FlatContraction.of(contraction, time_ms, counts[:-1])
        self._mixes = device_mixes(self._flat, counts, link_factors, memory_bytes)
        # As lists, in which single numbers are found faster.
        self._time_ms = time_ms.tolist()
        self._link_factor = [*link_factors, 0.0]
        self._kind_of = {d: g for g, devices in enumerate(self._devices) for d in devices}
        self._lock = threading.Lock()
        self._stop = np.zeros(1, np.uint8)  # to look at what was offered, too
        self._is_stopped = np.zeros(1, np.uint8)
        self._offered: tuple[float, Split, float] | None = None
        self._num_ideals = 0
        self.num_kept = 0
        self._gap = SAME_VALUE
        self._improved_ms = np.inf
        self._borders: BorderBound | None = None  # as far as it was prepared
        self._border_bound: BorderBound | None = None  # once it is
        self._is_bounded = False
        self.phase = LOADING
        self.ending = Ending.ANSWERED
        self.lower_bound_ms = work_bound(contraction, useful)
        self.value_ms = np.inf
        self.device_of_block: dict[int, int] | None = None

    def begin_with(self, value_ms: float | None, lower_bound_ms: float | None, gap: float = 0.0) -> None:
        """Before `run`: look only for chains better than a value known, from a bound proven elsewhere, up to a gap."""
        self.value_ms = np.inf if value_ms is None else value_ms
        self.lower_bound_ms = max(self.lower_bound_ms, lower_bound_ms or 0.0)
        # Ended here and not by whoever watches, so that the answer does not depend on when that looks.
        self._gap = max(gap, PROOF_TOLERANCE)

    def improve_on(self, split: Split) -> None:
        """Before `run`: take a split that has the value known as the first plan, if it is a chain of the blocks."""
        self.device_of_block = chain_by_block(self.contraction, split)

    def stop(self) -> None:
        """Make a running search return within milliseconds with what it has; safe from any thread."""
        with self._lock:
            self._is_stopped[0] = self._stop[0] = 1

    def offer(self, value_ms: float, split: Split, lower_bound_ms: float) -> None:
        """Tell a running search of a plan and a bound found elsewhere: it goes on from them; safe from any thread.

        What is no better than what it knows does not interrupt it: however often there are offers, it comes to its end.
        """
        with self._lock:
            if value_ms < self.value_ms or lower_bound_ms > self.lower_bound_ms:
                self._offered = value_ms, split, lower_bound_ms
                self._stop[0] = 1

    def _with_offer(self, lower_bound_ms: float) -> float:
        """Take in what was offered; return the better of its bound and this one."""
        with self._lock:
            offered, self._offered = self._offered, None
            self._stop[0] = self._is_stopped[0]
        if offered is not None:
            value_ms, split, bound_ms = offered
            self.lower_bound_ms = max(self.lower_bound_ms, bound_ms)
            plan = chain_by_block(self.contraction, split) if value_ms < self.value_ms else None
            if plan is not None:
                self.value_ms, self.device_of_block = value_ms, plan
        return max(lower_bound_ms, self.lower_bound_ms)

    def run(self) -> ChainAnswer:
        """Search until the optimum is proven, the tables become too large, or `stop` is called."""
        if not is_loaded():
            _load()
        if self.lower_bound_ms < math.inf:
            blocks = np.arange(self.contraction.num_blocks, dtype=np.int32)
            line, edges = np.stack([blocks[:-1], blocks[1:]], axis=1), flat_edges(self.contraction)
            if not np.array_equal(line, edges) and self.lower_bound_ms < self.value_ms * (1 - LINE_IS_CLOSE):
                for _ in self._searches(line, "linearised DP", LINE_GAP, LINE_GAP, from_above=False):
                    pass  # a bound on the chains along one line says nothing of the others
                self.ending = Ending.ANSWERED
            for lower_bound_ms in self._searches(edges, "DP over ideals", SAME_VALUE, self._gap, from_above=True):
                self.lower_bound_ms = lower_bound_ms
        if self.lower_bound_ms == math.inf:
            self.ending = Ending.NO_SPLIT
        return ChainAnswer(self.device_of_block, self.value_ms, self.lower_bound_ms, self._num_ideals)

    def _searches(self, edges: IntArray, phase: str, gap: float, enough: float, *, from_above: bool) -> Iterator[float]:
        """Search with one threshold after the other; yield each better lower bound on the chains along `edges`.

        A chain that is better by a smaller share than `gap` is not looked for. Unless the search was ended early the
        last bound is within `enough` of the value, or infinite without a chain. Thresholds come from below; those just
        below the best plan too where that is allowed and searches are no longer quick.
        """
        self.phase = phase
        problem = self.flattened(edges)
        if isinstance(problem, Ending):
            self.ending = problem
            return
        table_bytes = self._max_bytes - problem.descendants.words.nbytes
        ceiling = self._ceiling
        lower, step, window = self.lower_bound_ms, FIRST_STEP, EXACT_WINDOW
        quick = SLOW_FACTOR * self.contraction.num_blocks if from_above else None
        begun: dict[bool, ThresholdSearch] = {}  # those that are paused, from above and from below
        seen = too_many = interrupted = 0
        is_slow = False
        while (lower := self._with_offer(lower)) < self.value_ms * (1 - enough):
            most_above = max(FIRST_ABOVE, ABOVE_FACTOR * seen)
            is_above = from_above and quick is None and self.value_ms < np.inf
            can_bound = from_above and self._can_bound_borders
            if is_slow and can_bound:
                begun.clear()
                for better in self.bounded_by_borders(lower):
                    lower = better
                    yield lower
                is_slow = not self._is_bounded  # after an offer it goes on
                continue
            is_slow = False
            if is_above:
                self._improve(lower)
                if lower >= self.value_ms * (1 - enough):
                    return
            is_above = is_above and self.value_ms > lower * (1 + NEAR) and most_above > 2 * too_many
            if is_above:
                threshold = self.value_ms * (1 - gap)
                floor = max(lower, threshold * (1 - window))
            else:
                threshold = min((lower or ceiling * 1e-6) * (1 + step), self.value_ms * (1 - gap), ceiling)
                is_close = lower == 0 or threshold <= lower * (1 + EXACT_WINDOW)
                floor = lower if is_close else threshold
            search = begun.pop(is_above, None)
            if search is None or search.threshold != threshold:
                search = self.threshold_search(problem, threshold, floor, self._border_bound if from_above else None)
            max_steps = most_above if is_above else quick
            if can_bound and quick is None:
                # Offers begin searches anew: what those took counts, or it would come late where there are many.
                most = max(1, BORDERS_AFTER * self.contraction.num_blocks - interrupted)
                max_steps = most if max_steps is None else min(max_steps, most)
                is_slow = max_steps == most  # if it is paused, that is why
            self.phase = f"{phase}, max-load up to {milliseconds(threshold)}"
            kept = search.num_kept  # of one that was paused, before
            outcome = STOPPED if self._stop[0] else search.run(table_bytes, max_steps)
            self.num_kept += search.num_kept - kept
            if outcome == STOPPED and self._offered is not None:
                interrupted += search.num_steps
                is_slow = False
                continue  # with another threshold
            if is_slow and outcome in (PAUSED, FULL):
                continue
            is_slow = False
            if outcome == PAUSED or (outcome == FULL and is_above):
                too_many = most_above if is_above else 0
                quick = None
                if outcome == PAUSED:
                    begun[is_above] = search
                continue
            self._num_ideals = search.num_ideals
            if outcome != FINISHED:
                self.ending = search.ending or Ending.STOPPED
                return
            stages = search.stages()
            if stages is None:
                lower = np.inf if threshold == ceiling else threshold
            elif self._keep(stages) > search.floor * (1 + SAME_VALUE) or search.floor == lower:
                lower = self.value_ms * (1 - SAME_VALUE)
            elif is_above:
                window *= WIDER
            yield lower
            if not is_above:
                seen = search.num_steps
                step = 2 * step if stages is None else step
            if self.value_ms < np.inf and lower > 0:
                step = min(step, max(FIRST_STEP, math.sqrt(self.value_ms / lower) - 1))

    def bounded_by_borders(self, lower_bound_ms: float) -> Iterator[float]:
        """Yield better bounds in ms that know what borders cost; searches that begin after that know it, too."""
        self.phase = "bound with the transfers between stages"
        if self._borders is None:
            self._borders = self.border_bound()
        if self._borders.prepare(self._stop):
            self._border_bound = self._borders
            yield from self._borders.thresholds(lower_bound_ms, min(self.value_ms, self._ceiling), self._stop)
        self._is_bounded = not self._stop[0]  # else an offer came in between

    @property
    def _can_bound_borders(self) -> bool:
        states = self._mixes.used.shape[0]
        is_small = self.contraction.num_blocks <= MAX_BLOCKS and 1 < states <= MAX_STATES
        return is_small and not (self._is_bounded or self._is_stopped[0])

    def border_bound(self) -> BorderBound:
        """Return a bound for these blocks and devices that knows what borders cost; it is still to be prepared."""
        flat = self._flat
        return BorderBound(self.contraction, flat.work, flat.time_ms[-1], self._net_weight, self._mixes)

    def flattened(
        self, edges: IntArray, order: IntArray | None = None, max_bytes: int | None = None
    ) -> LabelProblem | Ending:
        """Return the blocks, renumbered in `order` if given, with these edges, for `threshold_search`.

        What ended it if that takes more than `max_bytes`, or what tables may take, or if the search was stopped.
        """
        flat, pinned = self._flat, list(self._pinned)
        if order is not None:
            number = np.empty_like(order)
            number[order] = np.arange(order.size, dtype=order.dtype)
            flat, pinned = flat.renumbered(order, number), [int(number[b]) for b in pinned]
        most = self._max_bytes if max_bytes is None else min(max_bytes, self._max_bytes)
        return flat_problem(flat, edges, pinned, most, self._is_stopped)

    def threshold_search(
        self, problem: LabelProblem, threshold: float, floor: float, border_bound: BorderBound | None = None
    ) -> ThresholdSearch:
        """Return a search for a chain of `flattened` blocks of max-load <= `threshold` ms; see the module.

        `border_bound` is for blocks in their own order only.
        """
        return ThresholdSearch(problem, self._mixes, self._net_weight, threshold, floor, self._stop, border_bound)

    def devices_of(self, stages: list[tuple[int, list[int]]]) -> dict[int, int]:
        """Return the device of each block: stages take the devices of their kinds as they come."""
        left = [iter(devices) for devices in self._devices]
        device_of_block: dict[int, int] = {}
        for g, blocks in stages:
            device_of_block.update(dict.fromkeys(blocks, next(left[g])))
        return device_of_block

    def value_of(self, device_of_block: dict[int, int]) -> float:
        """Return the max-load in ms of blocks on devices."""
        kind_of = self._kind_of
        loads = dict.fromkeys(device_of_block.values(), 0.0)
        for b, d in device_of_block.items():
            loads[d] += self._time_ms[kind_of[d]][b]
        for hyperedge in self.contraction.hyperedges:
            devices = {device_of_block[b] for b in hyperedge.blocks}
            if len(devices) > 1:
                for d in devices:
                    loads[d] += self._link_factor[kind_of[d]] * hyperedge.weight_ms
        return max(loads.values())

    def _improve(self, lower_bound_ms: float) -> None:
        """Make the plan known better as far as that is quick; nothing is done twice to the same plan."""
        if self.device_of_block is None or self.value_ms == self._improved_ms:
            return
        self.phase = "improving the plan"
        improvement = ChainImprovement(self, self.device_of_block)
        most_futile = NEAR_FUTILE_SWEEPS if self.value_ms <= lower_bound_ms * (1 + NEAR) else FUTILE_SWEEPS
        futile = sweeps = 0
        while futile < most_futile and sweeps < MAX_SWEEPS and lower_bound_ms < self.value_ms * (1 - self._gap):
            sweeps += 1
            futile = 0 if improvement.sweep() and not self._stop[0] else futile + 1
            self.value_ms, self.device_of_block = improvement.value_ms, improvement.device_of_block
        self._improved_ms = self.value_ms

    def _keep(self, stages: list[tuple[int, list[int]]]) -> float:
        """Take over a chain if it is better than the one known; return its max-load in ms."""
        device_of_block = self.devices_of(stages)
        value_ms = self.value_of(device_of_block)
        if value_ms < self.value_ms:
            self.value_ms, self.device_of_block = value_ms, device_of_block
        return value_ms


def threshold_that_allows_all(contraction: Contraction, deployment: Deployment) -> float:
    """Return a max-load in ms that no split exceeds."""
    kinds = [(contraction.class_ms[i], c.link_speed) for i, c in enumerate(deployment.classes) if c.count]
    transfer_ms = sum(h.weight_ms for h in contraction.hyperedges)
    on_one_accelerator = max(
        float(ms[np.isfinite(ms)].sum() + transfer_ms / link_speed)
        for ms, link_speed in kinds or [(contraction.accelerator_ms, 1.0)]
    )
    on_one_cpu = float(contraction.cpu_ms.sum()) if deployment.num_cpus else 0.0
    return max(on_one_accelerator, on_one_cpu, 1e-9)


def with_kinds(contraction: Contraction, is_for_cpu: Mapping[int, bool], too_long_ms: float) -> Contraction:
    """Return the contraction with some blocks for CPUs only, and some so long on a CPU that they will not be there."""
    accelerator_ms, cpu_ms = contraction.accelerator_ms.copy(), contraction.cpu_ms.copy()
    for b, on_cpu in is_for_cpu.items():
        if on_cpu:
            accelerator_ms[b] = np.inf
        else:
            cpu_ms[b] = too_long_ms
    return replace(contraction, accelerator_ms=accelerator_ms, cpu_ms=cpu_ms)


def _load() -> None:
    """Have this process read the kernel from numba's cache, by a search of one node.

    No limit counts while it is read, and the first search that is asked for may take long.
    """
    graph, deployment = DnnGraph((Node(0, 1.0, 1.0),), ()), Deployment(1)
    search = ChainSearch(graph, contract(graph, Family.CHAIN, deployment), deployment)
    problem = search.flattened(flat_edges(search.contraction))
    assert not isinstance(problem, Ending)
    search.threshold_search(problem, threshold=1.0, floor=1.0).run(max_bytes=2**20)
