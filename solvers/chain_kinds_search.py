"""Minimise max-load over chain splits on accelerators of several kinds: proven optimal.

Thresholds are chosen as in `solvers.throughput_dp`; what differs for several kinds is said in
`solvers.chain_kinds_kernel`. There the work w_b of a block may be any number >= 0. It is min_g y_g t_gb here, with
prices y_g of device time that make all work as large as possible beside the time of all accelerators
(`bounds.block_work`): then the accelerators have room for it within T only if the work, cut into arbitrary parts,
fits. No kind does more than y_g of it in a ms. A block that only CPUs run counts as no work.
"""

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from solvers.accelerator_kinds import accelerator_kinds
from solvers.bounds import block_work
from solvers.chain_kernel import COMPLETE, FULL, MOST_STEPS, NUM_CHAINS, RELATIVE_SLACK
from solvers.chain_kinds_kernel import KindsLimits, KindsProblem, grow_kinds
from solvers.chain_search import FIRST_ROWS, NO_LIMIT, ThresholdSearch, cpu_knapsack
from solvers.contraction import Contraction, FloatArray, IntArray
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.throughput_dp import MAX_TABLE_BYTES, ChainSearch

MAX_STATES = 100_000
"""Mixes of devices of which there are more leave no room for ideals."""


def is_loaded() -> bool:
    """Whether the kernel is compiled in this process, so that a search begins at once."""
    return bool(getattr(grow_kinds, "signatures", True))  # without compilation it is a plain function


class KindsChainSearch(ChainSearch):
    """A `ChainSearch` on accelerators of several kinds; `kinds` tells which there are."""

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
        self.kinds = accelerator_kinds(graph, deployment)
        self._apart = pinned or {}
        super().__init__(contraction, deployment, max_bytes, {b: deployment.is_cpu(d) for b, d in self._apart.items()})
        self._time_ms = np.array([*(kind.block_ms(contraction) for kind in self.kinds), self.contraction.cpu_ms])
        for b, d in self._apart.items():
            for g, kind in enumerate(self.kinds):
                if d not in kind.devices:
                    self._time_ms[g, b] = np.inf
        self._devices = [list(kind.devices) for kind in self.kinds]
        self._devices.append(list(range(deployment.num_accelerators, deployment.num_devices)))
        self._kind_of = {d: g for g, devices in enumerate(self._devices) for d in devices}
        self._link_factor = np.array([*(1.0 / kind.link_speed for kind in self.kinds), 0.0])

    def _is_loaded(self) -> bool:
        return is_loaded()

    @cached_property
    def _work(self) -> FloatArray:
        count = [min(self.contraction.num_blocks, len(devices)) for devices in self._devices[:-1]]
        return block_work(self._time_ms[:-1], np.array(count))

    def flattened(self, edges: IntArray, order: IntArray | None = None) -> KindsProblem:
        """Return the blocks with what is different for each kind; see `ChainSearch.flattened`."""
        chain = super().flattened(edges, order)
        time_ms, work = (self._time_ms, self._work) if order is None else (self._time_ms[:, order], self._work[order])
        n = self.contraction.num_blocks
        available = np.array([min(n, len(devices)) for devices in self._devices], np.int32)
        states = math.prod((available + 1).tolist())
        states = states if states <= MAX_STATES else 0
        stride = np.array([math.prod((available[g + 1 :] + 1).tolist()) for g in range(available.size)], object)
        used = (np.arange(states)[:, None] // stride % (available + 1)).astype(np.int32)
        # Each count in a field that has room for it, below a bit that stays 0.
        shift = np.cumsum([0, *(int(count).bit_length() + 1 for count in available)])
        fields = used.astype(np.uint64) << shift[:-1].astype(np.uint64)
        capacity = [np.inf if kind.memory_bytes is None else kind.memory_bytes for kind in self.kinds]
        return KindsProblem(
            chain=chain._replace(work=work, work_of_word=np.add.reduceat(work, np.arange(0, n, 64))),
            time_ms=time_ms,
            link_factor=self._link_factor,
            memory_limit=np.array([*capacity, np.inf]),
            available=available,
            used=used,
            stride=np.minimum(stride, MAX_STATES).astype(np.int32),
            code=fields.sum(axis=1, dtype=np.uint64),
            guards=np.array([sum(1 << (end - 1) for end in shift[1:].tolist()) & (2**64 - 1)], np.uint64),
        )

    def threshold_search(self, problem: KindsProblem, threshold: float, floor: float) -> "KindsThresholdSearch":
        """Return a search for a chain of max-load <= `threshold` ms."""
        return KindsThresholdSearch(problem, self._net_weight, threshold, floor, self._stop)

    def devices_of(self, stages: list[tuple[int, list[int]]]) -> dict[int, int]:
        """Return the device of each block: stages take the devices of their kinds as they come."""
        left = [iter(devices) for devices in self._devices]
        device_of_block: dict[int, int] = {}
        for g, blocks in stages:
            device_of_block.update(dict.fromkeys(blocks, next(left[g])))
        return device_of_block

    def value_of(self, device_of_block: dict[int, int]) -> float:
        """Return the max-load in ms of blocks on devices."""
        loads = dict.fromkeys(device_of_block.values(), 0.0)
        for b, d in device_of_block.items():
            loads[d] += float(self._time_ms[self._kind_of[d], b])
        for hyperedge in self.contraction.hyperedges:
            devices = {device_of_block[b] for b in hyperedge.blocks}
            if len(devices) > 1:
                for d in devices:
                    loads[d] += float(self._link_factor[self._kind_of[d]]) * hyperedge.weight_ms
        return max(loads.values())


class KindsThresholdSearch(ThresholdSearch):
    """One search for a chain within a threshold on devices of several kinds."""

    def __init__(
        self, problem: KindsProblem, net_weight: FloatArray, threshold: float, floor: float, stop: np.ndarray
    ) -> None:
        """Prepare the tables. Setting `stop[0]` from another thread ends the search."""
        super().__init__(problem.chain, net_weight, threshold, floor, stop)
        states, kinds = problem.used.shape
        self._kinds_problem = problem
        self._kinds_limits = _limits(problem, net_weight, threshold, floor)
        self._borders = self._borders._replace(first=np.full((2, FIRST_ROWS, kinds), -1, np.int32))
        self._best = np.zeros(states)
        self._best_origin = np.zeros(states, np.int32)
        self._alive = np.zeros(states, np.int32)

    def run(self, max_bytes: int, max_steps: int | None = None) -> int:
        """Search; see `ThresholdSearch.run`."""
        if not self._best.size:
            return FULL
        self._counters[MOST_STEPS] = NO_LIMIT if max_steps is None else max_steps
        while True:
            outcome = grow_kinds(
                self._kinds_problem, self._kinds_limits, self._borders, self._labels, self._places, self._found,
                self._chains, self._counters, self._best, self._best_origin, self._alive, self._masks, self._dead,
                self._stop,
            )  # fmt: skip
            if outcome != FULL or not self._make_room(max_bytes):
                return int(outcome)

    def stages(self) -> list[tuple[int, list[int]]] | None:
        """Return the complete chain found: for each stage its kind, CPUs last, and its blocks; None without."""
        if not self._counters[COMPLETE]:
            return None
        chain = int(self._counters[NUM_CHAINS]) - 1
        used = self._kinds_problem.used
        stages: list[tuple[int, list[int]]] = []
        ideal = self._ideal(chain)
        while self._chains.origin[chain] != -1:
            before = int(self._chains.origin[chain])
            gained = used[self._chains.state[chain]] - used[self._chains.state[before]]
            ideal_before = self._ideal(before)
            stages.append((int(np.argmax(gained)), sorted(ideal - ideal_before)))
            chain, ideal = before, ideal_before
        return stages[::-1]


def _limits(problem: KindsProblem, net_weight: FloatArray, threshold: float, floor: float) -> KindsLimits:
    """Return what follows from a threshold."""
    chain = problem.chain
    limit = threshold * (1 + RELATIVE_SLACK)
    kinds = problem.available.size - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((chain.work > 0) & np.isfinite(problem.time_ms), chain.work / problem.time_ms, 0.0)
    rate = ratio[:kinds].max(axis=1, initial=0.0)
    left = problem.available - problem.used
    by_cpus, cpu_slope = cpu_knapsack(chain, limit)
    slope = np.empty((left.shape[0], kinds + 1))
    slope[:, :kinds] = rate
    slope[:, kinds] = cpu_slope[problem.used[:, kinds]]
    displaced = np.where(left[:, :kinds] > 0, rate * problem.link_factor[:kinds], np.inf)
    capacity = problem.memory_limit[:kinds] * (1 + RELATIVE_SLACK)
    held = np.where(left[:, :kinds] > 0, left[:, :kinds] * np.where(np.isinf(capacity), 0.0, capacity), 0.0).sum(axis=1)
    is_boundless = ((left[:, :kinds] > 0) & np.isinf(capacity)).any(axis=1) | (left[:, kinds] > 0)
    least_displaced = displaced.min(axis=1, initial=np.inf)
    return KindsLimits(
        limit=limit,
        floor=float(floor),
        # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
        net_weight=np.minimum(net_weight, 2.0 * limit / problem.link_factor[:kinds].min(initial=1.0)),
        room=left[:, :kinds] @ rate * limit + by_cpus[problem.used[:, kinds]],
        slope=slope,
        transfer_work=np.where((left[:, kinds] > 0) | np.isinf(least_displaced), 0.0, least_displaced),
        rest_memory=np.where(is_boundless, np.inf, held),
        work_slack=RELATIVE_SLACK * float(chain.work.sum()),
        cpu_only_slack=RELATIVE_SLACK * float(chain.cpu_ms[chain.is_cpu_only == 1].sum()),
        memory_slack=RELATIVE_SLACK * float(chain.memory_bytes.sum()),
    )
