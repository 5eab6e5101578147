"""Minimise max-load over chain splits: dynamic programming over ideals, proven optimal.

The recurrence and how it is kept small are described in `solvers.chain_kernel`; this module chooses the thresholds.
A search with threshold T finds a chain of max-load <= T or proves that there is none. One that counts loads up to the
lower bound L as L finds the best such chain; one that counts loads up to T as T finds some chain, but with far fewer
labels where loads differ by little. The first kind is run when T is within EXACT_WINDOW of L.

T starts near a lower bound and grows in steps that double, never past the value of a plan already known nor past the
middle between the two. A search costs little below the optimum and ever more above it. The first plan comes from the
same search on one topological line (n + 1 ideals), the linearised DP of Tarnawski et al. (NeurIPS 2020, section 5).

Time O(ideals within T x width x labels), see there.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds import work_bound
from solvers.chain_kernel import FINISHED, STOPPED, ChainProblem
from solvers.chain_search import ThresholdSearch, chain_problem, is_loaded
from solvers.contraction import Contraction
from solvers.deployment import Deployment
from solvers.result import LOADING, PROOF_TOLERANCE

FIRST_STEP = 0.002
"""Relative step of the first threshold above the lower bound."""

EXACT_WINDOW = 0.004
"""Relative distance of threshold and lower bound up to which a search finds the best chain, not just some chain."""

SAME_VALUE = 4e-9
"""A chain that is better by a smaller share is not looked for; above RELATIVE_SLACK, far below PROOF_TOLERANCE."""

LINE_GAP = 0.002
"""The best chain along one line is not sought more closely than this."""

LINE_IS_CLOSE = 0.02
"""The best chain along one line is not sought where a plan is known that is as close to its bound as this."""

KIND_FACTOR = 4.0
"""A block pinned to an accelerator takes this many times on a CPU what no split needs to exceed."""

MAX_TABLE_BYTES = 400 * 2**20
"""Largest tables of ideals and labels; while they grow, half as much again is in use."""


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
    """One optimisation that can be watched and stopped; `run` does the work, the rest reads its state."""

    def __init__(
        self,
        contraction: Contraction,
        deployment: Deployment,
        max_bytes: int = MAX_TABLE_BYTES,
        pinned: Mapping[int, bool] | None = None,
    ) -> None:
        """Prepare the search; nothing is computed yet.

        `pinned` says of blocks no two of which may share a stage whether they are for a CPU, or for an accelerator.
        """
        # More devices than blocks are of no use, and every one of them costs states.
        n = contraction.num_blocks
        self._contraction = contraction
        self._first_cpu = deployment.num_accelerators
        self._deployment = replace(
            deployment,
            num_accelerators=min(n, deployment.num_accelerators),
            num_cpus=min(n, deployment.num_cpus),
        )
        self._net_weight = np.array([h.weight_ms for h in contraction.hyperedges], np.float64)
        self._max_bytes = max_bytes
        self._ceiling = threshold_that_allows_all(contraction)
        self._pinned = pinned or {}
        if pinned:
            self._contraction = contraction = with_kinds(contraction, pinned, KIND_FACTOR * self._ceiling)
        self._stop = np.zeros(1, np.uint8)
        self._num_ideals = 0
        self._gap = SAME_VALUE
        self.phase = LOADING
        self.lower_bound_ms = work_bound(contraction, self._deployment)
        self.value_ms = np.inf
        self.device_of_block: dict[int, int] | None = None

    def begin_with(self, value_ms: float | None, lower_bound_ms: float | None, gap: float = 0.0) -> None:
        """Before `run`: look only for chains better than a value known, from a bound proven elsewhere, up to a gap."""
        self.value_ms = np.inf if value_ms is None else value_ms
        self.lower_bound_ms = max(self.lower_bound_ms, lower_bound_ms or 0.0)
        # Ended here and not by whoever watches, so that the answer does not depend on when that looks.
        self._gap = max(gap, PROOF_TOLERANCE)

    def stop(self) -> None:
        """Make a running search return within milliseconds with what it has; safe from any thread."""
        self._stop[0] = 1

    def run(self) -> ChainAnswer:
        """Search until the optimum is proven, the tables become too large, or `stop` is called."""
        if self.lower_bound_ms < math.inf:
            contraction, deployment = self._contraction, self._deployment
            line = tuple((b, b + 1) for b in range(contraction.num_blocks - 1))
            if line != contraction.edges and self.lower_bound_ms < self.value_ms * (1 - LINE_IS_CLOSE):
                for _ in self._searches(
                    chain_problem(contraction, deployment, line, self._pinned), "linearised DP", LINE_GAP
                ):
                    pass  # a bound on the chains along one line says nothing of the others
            problem = chain_problem(contraction, deployment, contraction.edges, self._pinned)
            for lower_bound_ms in self._searches(problem, "DP over ideals", SAME_VALUE, self._gap):
                self.lower_bound_ms = lower_bound_ms
        return ChainAnswer(self.device_of_block, self.value_ms, self.lower_bound_ms, self._num_ideals)

    def _searches(self, problem: ChainProblem, phase: str, gap: float, enough: float | None = None) -> Iterator[float]:
        """Search with one threshold after the other; yield each better lower bound on the chains of `problem`.

        A chain that is better by a smaller share than `gap` is not looked for. Unless the search was ended early the
        last bound is within `enough`, by default `gap`, of the value, or infinite without a chain.
        """
        enough = gap if enough is None else enough
        ceiling = self._ceiling
        lower, step = self.lower_bound_ms, FIRST_STEP
        while lower < self.value_ms * (1 - enough):
            threshold = min(max(lower, ceiling * 1e-6) * (1 + step), self.value_ms * (1 - gap), ceiling)
            is_exact = lower == 0 or threshold <= lower * (1 + EXACT_WINDOW)
            self.phase = f"{phase}, max-load up to {threshold:.4g} ms" if is_loaded() else LOADING
            search = ThresholdSearch(problem, self._net_weight, threshold, lower if is_exact else threshold, self._stop)
            outcome = STOPPED if self._stop[0] else search.run(self._max_bytes)
            self._num_ideals = search.num_ideals
            if outcome != FINISHED:
                return
            stages = search.stages()
            if stages is not None:
                self._keep(stages)
                if is_exact:
                    lower = self.value_ms * (1 - SAME_VALUE)
            else:
                lower = np.inf if threshold == ceiling else threshold
                step *= 2
            yield lower
            if self.value_ms < np.inf and lower > 0:
                step = min(step, max(FIRST_STEP, math.sqrt(self.value_ms / lower) - 1))

    def _keep(self, stages: list[tuple[bool, list[int]]]) -> None:
        """Take over a chain if it is better than the one known."""
        device_of_block = as_devices(stages, self._first_cpu)
        value_ms = chain_value_ms(self._contraction, device_of_block, self._first_cpu)
        if value_ms < self.value_ms:
            self.value_ms, self.device_of_block = value_ms, device_of_block


def threshold_that_allows_all(contraction: Contraction) -> float:
    """Return a max-load in ms that no split exceeds."""
    finite = contraction.accelerator_ms[np.isfinite(contraction.accelerator_ms)]
    on_one_accelerator = float(finite.sum() + sum(h.weight_ms for h in contraction.hyperedges))
    return max(on_one_accelerator, float(contraction.cpu_ms.sum()), 1e-9)


def with_kinds(contraction: Contraction, is_for_cpu: Mapping[int, bool], too_long_ms: float) -> Contraction:
    """Return the contraction with some blocks for CPUs only, and some so long on a CPU that they will not be there."""
    accelerator_ms, cpu_ms = contraction.accelerator_ms.copy(), contraction.cpu_ms.copy()
    for b, on_cpu in is_for_cpu.items():
        if on_cpu:
            accelerator_ms[b] = np.inf
        else:
            cpu_ms[b] = too_long_ms
    return replace(contraction, accelerator_ms=accelerator_ms, cpu_ms=cpu_ms)


def as_devices(stages: list[tuple[bool, list[int]]], first_cpu: int) -> dict[int, int]:
    """Return the device of each block: stages take accelerators from 0 and CPUs from `first_cpu` as they come."""
    device_of_block: dict[int, int] = {}
    next_device = {False: 0, True: first_cpu}
    for on_cpu, blocks in stages:
        device_of_block.update(dict.fromkeys(blocks, next_device[on_cpu]))
        next_device[on_cpu] += 1
    return device_of_block


def chain_value_ms(contraction: Contraction, device_of_block: dict[int, int], first_cpu: int) -> float:
    """Return the max-load in ms of blocks on devices, of which those from `first_cpu` are CPUs."""
    loads = dict.fromkeys(device_of_block.values(), 0.0)
    for b, d in device_of_block.items():
        loads[d] += float(contraction.cpu_ms[b] if d >= first_cpu else contraction.accelerator_ms[b])
    for hyperedge in contraction.hyperedges:
        devices = {device_of_block[b] for b in hyperedge.blocks}
        if len(devices) > 1:
            for d in devices:
                if d < first_cpu:
                    loads[d] += hyperedge.weight_ms
    return max(loads.values())
