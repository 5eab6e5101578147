"""Better chains where the ideals are too many to go through all: the chain DP on parts of the order left open.

A plan is a chain of stages. Some topological order of the blocks goes through its stages one after the other; adding
that order as a path leaves n + 1 ideals, the plan's among them (the linearised DP of Tarnawski et al., NeurIPS 2020,
section 5). If the path leaves out a few *free* blocks, which keep only their own edges, there are more ideals, and the
search of `solvers.chain_search` goes through all of them: any number of free blocks may change stages at once, and all
cuts move with them. Each sweep draws an order and a connected set of free blocks at random, and asks for a chain better
than the best known; sets grow while sweeps are quick.

Nothing is proven here: bounds come from elsewhere. Time per sweep as in `solvers.chain_kernel`, for the ideals left.
"""

import heapq
import random
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np

from solvers.chain_kernel import FINISHED
from solvers.chain_search import ThresholdSearch, chain_problem
from solvers.contraction import Contraction, renumbered
from solvers.deployment import Deployment
from solvers.throughput_dp import as_devices, chain_value_ms

FIRST_FREE = 8
"""Free blocks of the first sweep."""
QUICK_SECONDS, SLOW_SECONDS = 0.1, 0.5
"""After a quicker sweep there are more free blocks, after a slower one fewer."""
PATIENCE = 60
"""Sweeps in a row without a better plan after which to end."""
MIN_GAIN = 1e-6
"""A plan must be better by this share."""
MAX_SWEEP_BYTES = 2**26
"""Tables of one sweep; it is given up when they become larger."""


class ChainImprovement:
    """A search for better chains than a given one, watched and stopped like `solvers.throughput_dp.ChainSearch`."""

    def __init__(
        self, contraction: Contraction, deployment: Deployment, device_of_block: dict[int, int], seed: int = 0
    ) -> None:
        """Start from a valid plan of the chain family."""
        n = contraction.num_blocks
        self._contraction, self._first_cpu = contraction, deployment.num_accelerators
        self._deployment = replace(
            deployment,
            num_accelerators=min(n, deployment.num_accelerators),
            num_cpus=min(n, deployment.num_cpus),
        )
        self._behind: list[list[int]] = [[] for _ in range(n)]
        self._num_ahead = [0] * n
        for a, b in contraction.edges:
            self._behind[a].append(b)
            self._num_ahead[b] += 1
        self._nets_of: list[list[int]] = [[] for _ in range(n)]
        for e, hyperedge in enumerate(contraction.hyperedges):
            for b in hyperedge.blocks:
                self._nets_of[b].append(e)
        self._random = random.Random(seed)  # noqa: S311 -- a search needs repetition, not secrecy
        self._stop = np.zeros(1, np.uint8)
        self.phase = "improving the plan"
        self.lower_bound_ms = 0.0
        self.device_of_block = device_of_block
        self.value_ms = chain_value_ms(contraction, device_of_block, self._first_cpu)
        self._num_free = FIRST_FREE

    def stop(self) -> None:
        """Make a running search return with what it has; safe from any thread."""
        self._stop[0] = 1

    def run(self) -> None:
        """Sweep until PATIENCE sweeps in a row have found nothing, or `stop` is called."""
        futile = 0
        while futile < PATIENCE and not self._stop[0]:
            futile = 0 if self.sweep() else futile + 1

    def sweep(self) -> bool:
        """Search among the chains of one random order with some blocks free; say whether a better one was found."""
        began = time.thread_time()
        free = self._free_blocks(min(self._num_free, self._contraction.num_blocks))
        order = self._order()
        chain = renumbered(self._contraction, order)
        fixed = [i for i, b in enumerate(order) if b not in free]
        edges = tuple(sorted({*chain.edges, *pairwise(fixed)}))
        problem = chain_problem(chain, self._deployment, edges)
        threshold = self.value_ms * (1 - MIN_GAIN)
        weights = np.array([h.weight_ms for h in chain.hyperedges], np.float64)
        search = ThresholdSearch(problem, weights, threshold, threshold, self._stop)
        is_complete = search.run(MAX_SWEEP_BYTES) == FINISHED
        seconds = time.thread_time() - began
        if not is_complete or seconds > SLOW_SECONDS:
            self._num_free = max(1, self._num_free * 2 // 3)
        elif seconds < QUICK_SECONDS:
            self._num_free += 1
        stages = search.stages()
        if stages is None:
            return False
        found = as_devices([(on_cpu, [order[i] for i in blocks]) for on_cpu, blocks in stages], self._first_cpu)
        value_ms = chain_value_ms(self._contraction, found, self._first_cpu)
        if value_ms >= self.value_ms:
            return False
        self.device_of_block, self.value_ms = found, value_ms
        return True

    def _free_blocks(self, count: int) -> set[int]:
        """Draw a block, and those nearest to it by common tensors until there are `count`."""
        first = self._random.randrange(self._contraction.num_blocks)
        free, waiting = {first}, [first]
        while waiting and len(free) < count:
            nets = self._nets_of[waiting.pop(self._random.randrange(len(waiting)))]
            for e in nets:
                ends = self._contraction.hyperedges[e].blocks
                for b in self._random.sample(ends, min(len(ends), 4)):
                    if b not in free and len(free) < count:
                        free.add(b)
                        waiting.append(b)
        return free

    def _order(self) -> list[int]:
        """Draw a topological order of the blocks that goes through the plan's stages one after the other.

        Half of the orders go on with the block made ready last, which keeps branches together.
        """
        stage = self._stage_numbers()
        depth_first = self._random.random() < 0.5
        missing = list(self._num_ahead)
        made_ready = 0.0
        ready = [(stage[b], self._random.random(), b) for b, count in enumerate(missing) if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            a = heapq.heappop(ready)[2]
            order.append(a)
            behind = list(self._behind[a])
            self._random.shuffle(behind)
            for b in behind:
                missing[b] -= 1
                if missing[b] == 0:
                    made_ready -= 1.0
                    heapq.heappush(ready, (stage[b], made_ready if depth_first else self._random.random(), b))
        return order

    def _stage_numbers(self) -> list[int]:
        """Return the place in the pipeline of each block's device."""
        devices = set(self.device_of_block.values())
        behind: dict[int, set[int]] = {d: set() for d in devices}
        missing = dict.fromkeys(devices, 0)
        for a, b in self._contraction.edges:
            s, t = self.device_of_block[a], self.device_of_block[b]
            if s != t and t not in behind[s]:
                behind[s].add(t)
                missing[t] += 1
        place: dict[int, int] = {}
        ready = sorted(d for d, count in missing.items() if count == 0)
        while ready:
            s = ready.pop(self._random.randrange(len(ready)))
            place[s] = len(place)
            for t in behind[s]:
                missing[t] -= 1
                if missing[t] == 0:
                    ready.append(t)
        return [place[self.device_of_block[b]] for b in range(self._contraction.num_blocks)]
