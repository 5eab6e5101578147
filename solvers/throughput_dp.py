"""Minimise max-load over chain splits: dynamic programming over ideals, proven optimal.

The recurrence and how it is kept small are described in `solvers.chain_kernel`; this module chooses the thresholds.
A run with threshold T either finds the best chain of max-load <= T, which is then the optimum, or proves that there is
none. A run costs little below the optimum and ever more above it, so T starts at a lower bound and grows in small
steps, in larger ones only once runs take long, and never past the value of a plan already known. The first plan comes
from the same recurrence on one topological line (n + 1 ideals), as in the linearised DP of Tarnawski et al. (NeurIPS
2020, section 5).

Time O(pairs of ideals one stage apart within T), memory O(ideals within T x (k+1)(l+1)).
"""

import threading
import time
from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds import work_bound
from solvers.chain_kernel import ChainProblem, expand
from solvers.contraction import Contraction, compressed_rows
from solvers.deployment import Deployment
from solvers.ideal_table import (
    FINISHED,
    FULL,
    STOPPED,
    IdealTable,
    bytes_per_row,
    grown_table,
    new_table,
    words_for,
)

FIRST_STEP, LARGEST_QUICK_STEP = 0.002, 0.01
"""Relative step of the first threshold above the lower bound, and the largest step after a quick run."""

QUICK_SECONDS = 0.05
"""A run that takes longer doubles the step, so that few long runs fail."""

MAX_TABLE_BYTES = 400 * 2**20
"""Largest table of ideals; while it grows, half as much again is in use."""

FIRST_ROWS = 1024
"""Ideals a new table has room for; it doubles when it is full."""

LINE_THRESHOLDS = (1.25, 2.0, 5.0, 25.0)
"""The first plan is sought within these multiples of the lower bound before any plan will do: short stages are few."""


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """The best chain found and what is proven: `lower_bound_ms` holds for every chain split.

    `device_of_block` is None when no chain was found; then `lower_bound_ms` is infinite if that is proven.
    `num_ideals` counts the ideals of the last run.
    """

    device_of_block: dict[int, int] | None
    value_ms: float
    lower_bound_ms: float
    num_ideals: int


class ChainSearch:
    """One optimisation that can be watched and stopped; `run` does the work, the rest reads its state."""

    def __init__(self, contraction: Contraction, deployment: Deployment, max_bytes: int = MAX_TABLE_BYTES) -> None:
        """Prepare the search; nothing is computed yet."""
        # More devices than blocks are of no use, and every one of them costs states.
        n = contraction.num_blocks
        self._original = deployment
        deployment = replace(
            deployment,
            num_accelerators=min(n, deployment.num_accelerators),
            num_cpus=min(n, deployment.num_cpus),
        )
        self._deployment = deployment
        self._problem = _chain_problem(contraction, deployment, contraction.edges)
        line = tuple((b, b + 1) for b in range(contraction.num_blocks - 1))
        self._line_problem = _chain_problem(contraction, deployment, line)
        self._num_states = (deployment.num_accelerators + 1) * (deployment.num_cpus + 1)
        self._max_rows = max(1, max_bytes // bytes_per_row(n, self._num_states))
        self._table: IdealTable | None = None
        self._stopped = threading.Event()
        self.phase = "lower bound"
        self.lower_bound_ms = work_bound(contraction, deployment)
        self.value_ms = np.inf
        self.device_of_block: dict[int, int] | None = None

    def stop(self) -> None:
        """Make a running search return within milliseconds with what it has; safe from any thread."""
        self._stopped.set()
        if self._table is not None:
            self._table.stop[0] = 1

    def run(self) -> ChainAnswer:
        """Search until the optimum is proven, the ideals are too many, or `stop` is called."""
        self.phase = "linearised DP"
        ceiling = _threshold_that_allows_all(self._problem)
        if np.isinf(self.lower_bound_ms):
            return ChainAnswer(None, np.inf, np.inf, 0)
        for threshold in (*(factor * self.lower_bound_ms for factor in LINE_THRESHOLDS), ceiling):
            if self.device_of_block is None and 0 < threshold <= ceiling:
                outcome, table = self._expand(self._line_problem, threshold)
                if outcome == FINISHED:
                    self._keep_best(table)
        step = FIRST_STEP
        threshold = max(self.lower_bound_ms, ceiling * 1e-6)
        while self.value_ms > self.lower_bound_ms:
            threshold = min(threshold * (1 + step), self.value_ms, ceiling)
            self.phase = f"DP over ideals, max-load up to {threshold:.4g} ms"
            began = time.monotonic()
            outcome, table = self._expand(self._problem, threshold)
            is_quick = time.monotonic() - began < QUICK_SECONDS
            if outcome != FINISHED:
                break
            if self._keep_best(table) or threshold == self.value_ms:
                self.lower_bound_ms = self.value_ms
            elif threshold == ceiling:
                self.lower_bound_ms = np.inf
                break
            else:
                self.lower_bound_ms = threshold
                step = min(1.5 * step, LARGEST_QUICK_STEP) if is_quick else 2 * step
        return ChainAnswer(self.device_of_block, self.value_ms, self.lower_bound_ms, int(table.counters[0]))

    def _expand(self, problem: ChainProblem, threshold: float) -> tuple[int, IdealTable]:
        """Run the kernel, with a larger table whenever it asks for one."""
        table = new_table(problem.accelerator_ms.size, self._num_states, min(FIRST_ROWS, self._max_rows))
        while True:
            self._table = table
            if self._stopped.is_set():
                return STOPPED, table
            outcome = expand(problem, table, threshold, self._max_rows)
            if outcome != FULL:
                return outcome, table
            table = grown_table(table, min(2 * table.size.size, self._max_rows))

    def _keep_best(self, table: IdealTable) -> bool:
        """Take over the table's best complete chain if it is better than the one known; say whether it has any."""
        n = self._problem.accelerator_ms.size
        full = int(table.first_of_size[n])
        if full < 0:
            return False
        state = int(np.argmin(table.value[full]))
        value = float(table.value[full, state])
        if value < self.value_ms:
            self.value_ms = value
            self.device_of_block = _trace(table, full, state, self._deployment, self._original.num_accelerators)
        return bool(np.isfinite(value))


def _chain_problem(
    contraction: Contraction, deployment: Deployment, edges: tuple[tuple[int, int], ...]
) -> ChainProblem:
    """Flatten a contraction, with `edges` in place of its own, for the kernel."""
    n = contraction.num_blocks
    successors: list[list[int]] = [[] for _ in range(n)]
    nets: list[list[int]] = [[] for _ in range(n)]
    num_predecessors = np.zeros(n, np.int32)
    for a, b in edges:
        successors[a].append(b)
        num_predecessors[b] += 1
    for e, hyperedge in enumerate(contraction.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
    descendants = np.zeros((n, words_for(n)), np.uint64)
    for b in range(n - 1, -1, -1):  # blocks are numbered in topological order
        descendants[b, b >> 6] |= np.uint64(1 << (b & 63))
        for successor in successors[b]:
            descendants[b] |= descendants[successor]
    successor_ptr, successor_idx = compressed_rows(successors)
    net_ptr, net_idx = compressed_rows(nets)
    runs = np.isfinite(contraction.accelerator_ms) & (contraction.accelerator_ms > 0)
    with np.errstate(divide="ignore"):
        ratios = contraction.accelerator_ms[runs] / contraction.cpu_ms[runs]
    memory = deployment.memory_bytes
    return ChainProblem(
        accelerator_ms=contraction.accelerator_ms,
        cpu_ms=contraction.cpu_ms,
        memory_bytes=contraction.memory_bytes,
        successor_ptr=successor_ptr,
        successor_idx=successor_idx,
        num_predecessors=num_predecessors,
        net_ptr=net_ptr,
        net_idx=net_idx,
        net_weight=np.array([h.weight_ms for h in contraction.hyperedges]),
        net_size=np.array([len(h.blocks) for h in contraction.hyperedges], np.int32),
        descendants=descendants,
        keys=np.random.default_rng(0).integers(0, 2**64, (n, 2), np.uint64, endpoint=False),
        num_accelerators=deployment.num_accelerators,
        num_cpus=deployment.num_cpus,
        memory_limit=np.inf if memory is None else memory,
        speed_ratio=float(ratios.max(initial=0.0)),
    )


def _threshold_that_allows_all(problem: ChainProblem) -> float:
    """Return a max-load in ms that no split exceeds."""
    finite = problem.accelerator_ms[np.isfinite(problem.accelerator_ms)]
    on_one_accelerator = float(finite.sum() + problem.net_weight.sum())
    return max(on_one_accelerator, float(problem.cpu_ms.sum()), 1e-9)


def _trace(table: IdealTable, row: int, state: int, deployment: Deployment, first_cpu: int) -> dict[int, int]:
    """Follow the origins of a complete chain and return the device of each block, first stages first.

    CPUs are numbered from `first_cpu`.
    """
    width = deployment.num_cpus + 1
    stages: list[tuple[bool, np.ndarray]] = []
    while row != 0:
        origin = int(table.origin[row, state])
        previous, on_cpu = origin >> 1, bool(origin & 1)
        stages.append((on_cpu, table.blocks[row] & ~table.blocks[previous]))
        row, state = previous, state - (1 if on_cpu else width)
    device_of_block: dict[int, int] = {}
    next_device = {False: 0, True: first_cpu}
    for on_cpu, blocks in reversed(stages):
        device = next_device[on_cpu]
        next_device[on_cpu] += 1
        for word, bits in enumerate(blocks.tolist()):
            while bits:
                low = bits & -bits
                device_of_block[(word << 6) + low.bit_length() - 1] = device
                bits ^= low
    return device_of_block
