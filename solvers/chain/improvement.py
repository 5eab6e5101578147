"""Better chains without going through all ideals: the chain DP on parts of the order left open.

A plan is a chain of stages. Some topological order of the blocks goes through its stages one after the other; adding
that order as a path leaves n + 1 ideals, the plan's among them (the linearised DP of Tarnawski et al., NeurIPS 2020,
section 5). If the path leaves out a few *free* blocks, which keep only their own edges, there are more ideals, and the
search of `solvers.chain.label_search` goes through all of them: any number of free blocks may change stages at once,
and all cuts move with them. Each sweep draws an order and a connected set of free blocks at random, and asks for a
chain better than the one at hand; sets grow while sweeps are quick, and shrink after one that is given up.

Sweeps end in a plan that they cannot better, often some per cent above the best. `run` begins again then, from the best
chain along a line drawn at random, and keeps the best of all.

Nothing is proven here: bounds come from elsewhere. Time per sweep as in `solvers.chain.label_kernel`, for the ideals
left.
"""

import heapq
import math
import random
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

import numpy as np

from solvers.chain.ending import Ending
from solvers.chain.label_kernel import FINISHED, PAUSED
from solvers.chain.label_search import ThresholdSearch, flat_edges
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.problem.contraction import Contraction, IntArray

FIRST_FREE = 8
"""Free blocks of the first sweep."""
QUICK_IDEALS, SLOW_IDEALS = 2_000, 20_000
"""After a sweep through fewer ideals off its path there are more free blocks, after one through more, fewer."""
SWEEP_STEPS = (250_000, 700_000)
"""A sweep is given up after so many steps, by turns from one beginning to the next: about 10 and 30 ms. With a CPU an
ideal may have so many labels that few ideals take seconds, in which many smaller sweeps get further."""
WINDOW = 0.01
"""A sweep finds the best chain of its order among those that are better by no more than this share."""
PATIENCE = 60
"""Sweeps in a row without a better plan after which to begin again from another one."""
LINES = 12
"""Beginnings in a row that have brought no better plan after which to end."""
LINE_STEPS = 4_000_000
"""A look along a line is given up after so many steps."""
STEPS_BETWEEN_LOOKS = 100_000
"""Steps of a sweep or a look along a line after which it is asked whether to go on: of a network of 6,000 nodes in a
hundred branches 0.1 s, where 4 ms are usual."""
LINE_SHARE = 1.3
"""A line whose best chain takes more than this many times what the best plan takes is no beginning."""
FIRST_LINES = 4
"""Lines that cut little, whose chains may be better to begin with than the plan that is given."""
NARROW_SHARE = 0.15
"""Of the orders drawn, that of such as cut little."""
DISTURBED = (0.7, 1.4)
"""Weights of tensors in these are multiplied by as much."""
MIN_GAIN = 1e-6
"""A plan must be better by this share."""
MAX_SWEEP_BYTES = 2**26
"""Tables of one sweep, and before them its bit sets; it is given up when they become larger."""


class ChainModel(Protocol):
    """What plans are improved for: `solvers.chain.max_load.ChainSearch`, or the like for several kinds of devices."""

    contraction: Contraction

    def flattened(self, edges: IntArray, order: IntArray | None = None, max_bytes: int | None = None) -> Any:
        """Return the blocks, renumbered in `order`, with these edges (number, 2), or why there is no room for them."""
        ...

    def threshold_search(self, problem: Any, threshold: float, floor: float) -> ThresholdSearch:
        """Return a search for a chain of such blocks."""
        ...

    def devices_of(self, stages: list[tuple[int, list[int]]]) -> dict[int, int]:
        """Return the device of each block."""
        ...

    def value_of(self, device_of_block: dict[int, int]) -> float:
        """Return the max-load in ms of blocks on devices."""
        ...

    def stop(self) -> None:
        """End a running search."""
        ...


def chain_by_block(contraction: Contraction, split: Split) -> dict[int, int] | None:
    """Return the device of each block under a split; None if it divides a block or its devices form no chain."""
    device_of = split.device_of()
    device_of_block: dict[int, int] = {}
    for b, members in enumerate(contraction.members):
        device_of_block[b] = device_of[members[0]]
        if any(device_of[v] != device_of_block[b] for v in members):
            return None
    before: dict[int, set[int]] = {d: set() for d in device_of_block.values()}
    for a, b in contraction.edges:
        if device_of_block[a] != device_of_block[b]:
            before[device_of_block[b]].add(device_of_block[a])
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return None
    return device_of_block


def with_whole_blocks(graph: DnnGraph, contraction: Contraction, split: Split) -> dict[int, int]:
    """Return the device of each node of a split where each block of a contraction follows its longest node."""
    device_of = split.device_of()
    longest = (max(members, key=lambda v: graph.node_by_id[v].accelerator_ms) for members in contraction.members)
    return contraction.device_of({b: device_of[v] for b, v in enumerate(longest)})


class ChainImprovement:
    """A search for better chains than a given one, watched and stopped like `solvers.chain.max_load.ChainSearch`."""

    def __init__(self, model: ChainModel, device_of_block: dict[int, int], seed: int = 0) -> None:
        """Start from a valid plan of the chain family."""
        self._model = model
        contraction = self._contraction = model.contraction
        n = contraction.num_blocks
        self._behind: list[list[int]] = [[] for _ in range(n)]
        self._ahead: list[list[int]] = [[] for _ in range(n)]
        for a, b in contraction.edges:
            self._behind[a].append(b)
            self._ahead[b].append(a)
        self._nets_of: list[list[int]] = [[] for _ in range(n)]
        for e, hyperedge in enumerate(contraction.hyperedges):
            for b in hyperedge.blocks:
                self._nets_of[b].append(e)
        self._net_weight = [hyperedge.weight_ms for hyperedge in contraction.hyperedges]
        self._random = random.Random(seed)  # noqa: S311 -- a search needs repetition, not secrecy
        self._edges = flat_edges(contraction)
        self._is_stopped = False
        self.phase = "improving the plan"
        self.lower_bound_ms = 0.0
        self.device_of_block = self._plan = device_of_block
        self.value_ms = self._plan_ms = model.value_of(device_of_block)
        self._first = self._plan, self._plan_ms
        self._num_lines = 0
        self._num_free = FIRST_FREE
        self._goes_on: Callable[[], bool] = lambda: True

    def stop(self) -> None:
        """Make a running search return with what it has; safe from any thread."""
        self._is_stopped = True
        self._model.stop()

    def run(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Sweep from one plan after another until LINES of them in a row have brought nothing, or `stop` is called.

        `goes_on` is called before each sweep and each look along a line, and in long ones, and says whether to go on.
        """
        self._goes_on = goes_on
        for i in range(FIRST_LINES):
            if self._is_stopped or not goes_on():
                return
            self._begin_along(self._narrow_order([0] * self._contraction.num_blocks, backwards=i % 2 == 0))
        futile_lines = 0
        while futile_lines < LINES and not self._is_stopped:
            best_ms, futile = self.value_ms, 0
            while futile < PATIENCE and not self._is_stopped:
                if not goes_on():
                    return
                futile = 0 if self.sweep() else futile + 1
            futile_lines = 0 if self.value_ms < best_ms else futile_lines + 1
            if not self._is_stopped:
                self._begin_again()

    def _begin_again(self) -> None:
        """Go on from the plan of the beginning, or from the best chain along a line, by turns."""
        self._plan, self._plan_ms, self._num_free = *self._first, FIRST_FREE
        self._num_lines += 1
        if self._num_lines % 3 == 1:
            return
        anywhere = [0] * self._contraction.num_blocks
        order = self._order(anywhere, narrow_share=1.0 if self._num_lines % 3 == 2 else 0.0)
        self._look_along(order, self.value_ms * LINE_SHARE, self.value_ms, math.inf)

    def _begin_along(self, order: list[int]) -> None:
        """Go on from the best chain along a line, to about WINDOW, if it takes less than the plan at hand."""
        low_ms = 0.0
        while low_ms < self._plan_ms * (1 - WINDOW) and not self._is_stopped and self._goes_on():
            threshold_ms = 0.5 * (low_ms + self._plan_ms)
            if not self._look_along(order, threshold_ms, threshold_ms, self._plan_ms):
                low_ms = threshold_ms

    def _look_along(self, order: list[int], threshold_ms: float, floor_ms: float, below_ms: float) -> bool:
        """Go on from a chain along a line within a threshold, if there is one that takes less; say whether."""
        places = np.arange(len(order), dtype=np.int32)
        problem = self._model.flattened(
            np.stack([places[:-1], places[1:]], axis=1), np.array(order, np.int32), MAX_SWEEP_BYTES
        )
        if isinstance(problem, Ending):
            return False
        search = self._model.threshold_search(problem, threshold_ms, floor_ms)
        self._run(search, LINE_STEPS)
        return self._take(search, order, below_ms)

    def _run(self, search: ThresholdSearch, most_steps: int) -> int:
        """Search for so many steps, if it is not told to end before; return the outcome."""
        steps = 0
        while True:
            steps = min(steps + STEPS_BETWEEN_LOOKS, most_steps)
            outcome = search.run(MAX_SWEEP_BYTES, steps)
            if outcome != PAUSED or steps == most_steps or not self._goes_on():
                return outcome

    def sweep(self) -> bool:
        """Search among the chains of one random order with some blocks free; say whether a better one was found."""
        free = self._free_blocks(min(self._num_free, self._contraction.num_blocks))
        order = self._order(self._stage_numbers())
        rows = np.array(order, np.int32)
        number = np.empty_like(rows)
        number[rows] = np.arange(rows.size, dtype=np.int32)
        is_free = np.zeros(rows.size, bool)
        is_free[list(free)] = True
        path = np.flatnonzero(~is_free[rows]).astype(np.int32)
        # Edges between blocks of the path say nothing new.
        others = number[self._edges[is_free[self._edges].any(axis=1)]]
        edges = np.concatenate([np.stack([path[:-1], path[1:]], axis=1), others])
        problem = self._model.flattened(edges, rows, MAX_SWEEP_BYTES)
        if isinstance(problem, Ending):
            return False
        threshold = self._plan_ms * (1 - MIN_GAIN)
        search = self._model.threshold_search(problem, threshold, threshold * (1 - WINDOW))
        is_complete = self._run(search, SWEEP_STEPS[self._num_lines % len(SWEEP_STEPS)]) == FINISHED
        # Counted, not timed, so that the same sweeps are made on any machine.
        off_path = search.num_ideals - len(order)
        if not is_complete or off_path > SLOW_IDEALS:
            self._num_free = max(1, self._num_free * 2 // 3)
        elif off_path < QUICK_IDEALS:
            self._num_free += 1
        return self._take(search, order, self._plan_ms)

    def _take(self, search: ThresholdSearch, order: list[int], below_ms: float) -> bool:
        """Go on from the plan that a search has found, if that takes less; say whether."""
        stages = search.stages()
        if stages is None:
            return False
        found = self._model.devices_of([(kind, [order[i] for i in blocks]) for kind, blocks in stages])
        value_ms = self._model.value_of(found)
        if value_ms >= below_ms:
            return False
        self._plan, self._plan_ms = found, value_ms
        if value_ms < self.value_ms:
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

    def _order(self, stage: list[int], narrow_share: float = NARROW_SHARE) -> list[int]:
        """Draw a topological order of the blocks that goes through numbered stages one after the other.

        Some of the orders go on with the block made ready last, which keeps branches together, some with the one after
        which the least is cut.
        """
        kind = self._random.random()
        if kind < narrow_share:
            return self._narrow_order(stage, backwards=self._random.random() < 0.5)
        depth_first = kind < 0.5 * (1 + narrow_share)
        missing = list(map(len, self._ahead))
        made_ready = 0.0
        ready = [(stage[b], self._random.random(), b) for b, count in enumerate(missing) if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            a = heapq.heappop(ready)[2]
            order.append(a)
            behind = self._behind[a]
            if len(behind) > 1:
                behind = self._random.sample(behind, len(behind))
            for b in behind:
                missing[b] -= 1
                if missing[b] == 0:
                    made_ready -= 1.0
                    heapq.heappush(ready, (stage[b], made_ready if depth_first else self._random.random(), b))
        return order

    def _narrow_order(self, stage: list[int], *, backwards: bool) -> list[int]:
        """Draw a topological order through numbered stages, each next block that after which tensors cut weigh least.

        It is drawn from the beginning or from the end: what opens many tensors at one closes them at the other. Weights
        are disturbed at random, so that orders differ.
        """
        ahead, behind = (self._behind, self._ahead) if backwards else (self._ahead, self._behind)
        if backwards:
            stage = [-number for number in stage]
        nets = [hyperedge.blocks for hyperedge in self._contraction.hyperedges]
        weight = [w * self._random.uniform(*DISTURBED) for w in self._net_weight]
        num_ends = list(map(len, nets))
        gain = [0.0] * self._contraction.num_blocks  # what is cut more after a block
        for e, ends in enumerate(nets):
            for b in ends:
                gain[b] += weight[e] if num_ends[e] > 1 else 0.0
        missing = list(map(len, ahead))
        made_ready, is_placed = 0, [False] * len(gain)
        ready = [(stage[b], gain[b], 0, b) for b, count in enumerate(missing) if count == 0]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, known_gain, _, a = heapq.heappop(ready)
            if is_placed[a] or known_gain != gain[a]:
                continue  # it is there again with the gain it has by now
            is_placed[a] = True
            order.append(a)
            changed: set[int] = set()
            for e in self._nets_of[a]:
                num_ends[e] -= 1
                is_first = num_ends[e] == len(nets[e]) - 1
                if is_first or num_ends[e] == 1:
                    for b in nets[e]:
                        if not is_placed[b]:
                            gain[b] -= weight[e] * (is_first + (num_ends[e] == 1))
                            changed.add(b)
            made_ready -= 1
            for b in behind[a]:
                missing[b] -= 1
                changed.add(b)
            for b in changed:
                if missing[b] == 0:
                    heapq.heappush(ready, (stage[b], gain[b], made_ready, b))
        return order[::-1] if backwards else order

    def _stage_numbers(self) -> list[int]:
        """Return the place in the pipeline of each block's device in the plan at hand."""
        devices = set(self._plan.values())
        behind: dict[int, set[int]] = {d: set() for d in devices}
        missing = dict.fromkeys(devices, 0)
        for a, b in self._contraction.edges:
            s, t = self._plan[a], self._plan[b]
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
        return [place[self._plan[b]] for b in range(self._contraction.num_blocks)]
