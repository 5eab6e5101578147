"""One search for a chain within a threshold: the tables of `solvers.chain.label_kernel`, made, enlarged and read."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from solvers.chain.bit_sets import words_for
from solvers.chain.border_bound import CPU, BorderBound
from solvers.chain.descendants import descendants_of, work_by_word
from solvers.chain.device_states import MAX_STATES, device_states
from solvers.chain.ending import Ending
from solvers.chain.label_kernel import (
    COMPLETE,
    COUNT,
    FULL,
    LAST_WORD,
    MOST_STEPS,
    NEED_CHAINS,
    NEED_IDEALS,
    NEED_LABELS,
    NEED_ROWS,
    NUM_CHAINS,
    NUM_COUNTERS,
    NUM_IDEALS,
    RELATIVE_SLACK,
    STEPS,
    assign_slots,
    grow,
    rehash,
)
from solvers.chain.label_records import Borders, Chains, DeviceMixes, Found, LabelProblem, Labels, Limits
from solvers.problem.bounds import block_work
from solvers.problem.contraction import Contraction, FloatArray, IntArray, compressed_rows
from solvers.problem.table_memory import usual_table_bytes

FIRST_ROWS = 256
"""Entries a new table has room for; it doubles when it is full."""

FIRST_SLOTS = 64
"""Slots that hyperedges have room for at first; it doubles when they are too few."""

MAX_IDEALS = 5_000_000
"""A search that comes to more would take minutes; other methods get further by then. Whoever allows tables of more than
the usual size wants to wait: they may have more ideals in proportion."""

NO_LIMIT = 2**62


def is_loaded() -> bool:
    """Whether the kernel is compiled in this process, so that a search begins at once."""
    return bool(getattr(grow, "signatures", True))  # without compilation it is a plain function


def most_ideals(max_bytes: int) -> int:
    """Return how many ideals a search may come to whose tables may take so many bytes."""
    return int(MAX_IDEALS * max(1.0, max_bytes / usual_table_bytes()))


class FlatContraction(NamedTuple):
    """What the kernel needs of a contraction, without its edges: times, bytes, and the blocks of each hyperedge."""

    time_ms: FloatArray  # (kinds + 1, n), CPUs last
    work: FloatArray
    memory_bytes: FloatArray
    pin_ptr: IntArray
    pin_idx: IntArray

    @classmethod
    def of(cls, contraction: Contraction, time_ms: FloatArray, counts: Sequence[int]) -> "FlatContraction":
        """Flatten a contraction whose blocks take these times, (kinds + 1, n), with so many accelerators of each kind.

        The work of a block is min_g y_g t_gb, with prices y_g of device time that make all work as large as possible
        beside the time of all accelerators (`bounds.block_work`): then the accelerators have room for it within T only
        if the work, cut into arbitrary parts, fits. No kind does more than y_g of it in a ms. For one kind it is the
        block's time. A block that only CPUs run counts as no work.
        """
        rows = [list(hyperedge.blocks) for hyperedge in contraction.hyperedges]
        on_accelerators = time_ms[:-1]
        if len(counts) == 1:
            work = np.where(np.isfinite(on_accelerators[0]), on_accelerators[0], 0.0)
        else:
            work = block_work(on_accelerators, np.array(counts))
        return cls(time_ms, work, contraction.memory_bytes, *compressed_rows(rows))

    def renumbered(self, order: IntArray, number: IntArray) -> "FlatContraction":
        """Return it with its blocks in `order`, in which each block has its `number`."""
        pin_idx = number[self.pin_idx]
        net = np.repeat(np.arange(self.pin_ptr.size - 1), np.diff(self.pin_ptr))
        pin_idx = pin_idx[np.lexsort((pin_idx, net))]  # the kernel wants the blocks of a hyperedge in topological order
        return FlatContraction(
            np.ascontiguousarray(self.time_ms[:, order]),
            self.work[order],
            self.memory_bytes[order],
            self.pin_ptr,
            pin_idx,
        )


def device_mixes(
    flat: FlatContraction, counts: Sequence[int], link_factors: Sequence[float], memory_bytes: Sequence[float]
) -> DeviceMixes:
    """Return all mixes of devices: for each kind of accelerators their links and memory; `counts` has the CPUs, too.

    There are none if a search would have no room for so many.
    """
    kinds = len(link_factors)
    available = np.array(counts, np.int32)
    stride, used = device_states(counts, MAX_STATES if kinds > 1 else None)
    # Each count in a field that has room for it, below a bit that stays 0.
    shift = np.cumsum([0, *(int(count).bit_length() + 1 for count in counts)])
    code = (used.astype(np.uint64) << shift[:-1].astype(np.uint64)).sum(axis=1, dtype=np.uint64)
    link_factor, capacity = np.array([*link_factors, 0.0]), np.array([*memory_bytes, np.inf])
    if kinds == 1:
        rate = np.ones(1)
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((flat.work > 0) & np.isfinite(flat.time_ms[:-1]), flat.work / flat.time_ms[:-1], 0.0)
        rate = ratio.max(axis=1, initial=0.0)
    left, cpus_left = (available - used)[:, :kinds], available[kinds] - used[:, kinds]
    displaced = np.where(left > 0, rate * link_factor[:kinds], np.inf).min(axis=1)
    widened = capacity[:kinds] * (1 + RELATIVE_SLACK)
    held = (left * np.where(np.isinf(widened), 0.0, widened)).sum(axis=1)
    is_boundless = ((left > 0) & np.isinf(widened)).any(axis=1) | (cpus_left > 0)
    return DeviceMixes(
        link_factor=link_factor,
        memory_limit=capacity,
        rate=rate,
        available=available,
        stride=stride,
        used=used,
        code=code,
        guards=np.uint64(sum(1 << (end - 1) for end in shift[1:].tolist()) & (2**64 - 1)),
        rest_memory=np.where(is_boundless, np.inf, held),
        transfer_work=np.where((cpus_left > 0) | np.isinf(displaced), 0.0, displaced),
    )


def flat_edges(contraction: Contraction) -> IntArray:
    """Return the edges of a contraction, (number, 2)."""
    return np.array(contraction.edges, np.int32).reshape(-1, 2)


def flat_problem(
    flat: FlatContraction, edges: IntArray, pinned: Collection[int], max_bytes: int, stopped: np.ndarray
) -> LabelProblem | Ending:
    """Return the kernel's problem for blocks in topological order and `edges`, (number, 2), between them.

    What ended it if its bit sets would take more than `max_bytes`, or if `stopped[0]` was set from another thread.
    """
    n, num_nets = flat.work.size, flat.pin_ptr.size - 1
    successor_ptr, successor_idx = _rows_by(edges[:, 0], edges[:, 1], n)
    predecessor_ptr, predecessor_idx = _rows_by(edges[:, 1], edges[:, 0], n)
    net = np.repeat(np.arange(num_nets, dtype=np.int32), np.diff(flat.pin_ptr))
    net_ptr, net_idx = _rows_by(flat.pin_idx, net, n)
    pin_ptr, pin_idx = flat.pin_ptr, flat.pin_idx
    pinned_blocks = np.zeros(n, np.int32)
    pinned_blocks[list(pinned)] = 1
    descendants = descendants_of(successor_ptr, successor_idx, max_bytes, stopped)
    if isinstance(descendants, Ending):
        return descendants
    slot = np.zeros(num_nets, np.int32)
    by_first_end = np.argsort(pin_idx[pin_ptr[:-1]], kind="stable").astype(np.int32)
    behind = np.empty((FIRST_SLOTS, words_for(n)), np.uint64)
    while assign_slots(by_first_end, descendants, pin_ptr, pin_idx, slot, behind, stopped) < 0:
        if stopped[0]:
            return Ending.STOPPED
        most_slots = (max_bytes - descendants.words.nbytes) // behind[0].nbytes
        if len(behind) >= most_slots:
            return Ending.MEMORY
        num_slots = min(2 * len(behind), most_slots)
        del behind  # nothing of it is used again
        behind = np.empty((num_slots, words_for(n)), np.uint64)
    is_cpu_only = np.isinf(flat.time_ms[:-1]).all(axis=0)
    return LabelProblem(
        time_ms=flat.time_ms,
        cpu_only_ms=np.where(is_cpu_only, flat.time_ms[-1], 0.0),
        memory_bytes=flat.memory_bytes,
        work=flat.work,
        is_cpu_only=np.asarray(is_cpu_only, np.int32),
        pinned=pinned_blocks,
        successor_ptr=successor_ptr,
        successor_idx=successor_idx,
        predecessor_ptr=predecessor_ptr,
        predecessor_idx=predecessor_idx,
        net_ptr=net_ptr,
        net_idx=net_idx,
        pin_ptr=pin_ptr,
        pin_idx=pin_idx,
        slot=slot,
        descendants=descendants,
        work_of_word=work_by_word(flat.work),
        keys=np.random.default_rng(0).integers(0, 2**64, (n, 2), np.uint64, endpoint=False),
    )


def _rows_by(row: IntArray, value: IntArray, num_rows: int) -> tuple[IntArray, IntArray]:
    """Return row pointers, and the values of each row in the order given."""
    ptr = np.zeros(num_rows + 1, np.int32)
    ptr[1:] = np.cumsum(np.bincount(row, minlength=num_rows))
    return ptr, value[np.argsort(row, kind="stable")]


class ThresholdSearch:
    """One search for a chain within a threshold; `run` does the work."""

    def __init__(
        self,
        problem: LabelProblem,
        mixes: DeviceMixes,
        net_weight: FloatArray,
        threshold: float,
        floor: float,
        stop: np.ndarray,
        border_bound: BorderBound | None = None,
    ) -> None:
        """Prepare the tables. Setting `stop[0]` from another thread ends the search.

        `border_bound` is of the same blocks in the same order and of the same mixes, and prepared.
        """
        words = problem.descendants.num_words
        slots = int(problem.slot.max(initial=0)) + 1
        states, kinds = mixes.used.shape
        self._problem, self._mixes, self._stop = problem, mixes, stop
        self.threshold, self.floor = threshold, floor
        self.ending: Ending | None = None
        self._limits = _limits(problem, mixes, net_weight, threshold, floor, border_bound)
        self._borders = Borders(
            blocks=np.zeros((2, FIRST_ROWS, words), np.uint64),
            ready=np.zeros((2, FIRST_ROWS, words), np.uint64),
            net_at=np.full((2, FIRST_ROWS, slots), -1, np.int32),
            key=np.zeros((2, FIRST_ROWS, 2), np.uint64),
            work=np.zeros((2, FIRST_ROWS)),
            cpu_only_ms=np.zeros((2, FIRST_ROWS)),
            num_cpu_only=np.zeros((2, FIRST_ROWS), np.int32),
            memory=np.zeros((2, FIRST_ROWS)),
            crossing=np.zeros((2, FIRST_ROWS)),
            gate=np.zeros((2, FIRST_ROWS), np.int32),
            number=np.zeros((2, FIRST_ROWS), np.int32),
            first=np.full((2, FIRST_ROWS, kinds), -1, np.int32),
            place=np.zeros((2, FIRST_ROWS), np.int32),
        )
        slot_words = (slots + 63) // 64
        self._labels = Labels(
            cost=np.zeros((2, FIRST_ROWS)),
            value=np.zeros((2, FIRST_ROWS)),
            memory=np.zeros((2, FIRST_ROWS)),
            state=np.zeros((2, FIRST_ROWS), np.int32),
            pinned=np.zeros((2, FIRST_ROWS), np.int32),
            passed=np.zeros((2, FIRST_ROWS), np.int32),
            origin=np.zeros((2, FIRST_ROWS), np.int32),
            unread=np.zeros((2, FIRST_ROWS, slot_words), np.uint64),
            read=np.zeros((2, FIRST_ROWS, slot_words), np.uint64),
            next=np.zeros((2, FIRST_ROWS), np.int32),
        )
        self._places = np.full((2, 2 * FIRST_ROWS), -1, np.int32)
        self._found = Found(np.full(FIRST_ROWS, -1, np.int32), np.full(FIRST_ROWS, -1, np.int32))
        self._chains = Chains(*(np.zeros(FIRST_ROWS, np.int32) for _ in Chains._fields))
        self._counters = np.zeros(NUM_COUNTERS, np.int64)
        self._best = np.zeros(states)
        self._best_origin = np.zeros(states, np.int32)
        self._alive = np.zeros(states, np.int32)
        self._masks = np.zeros((2, slot_words), np.uint64)
        self._dead = np.zeros(words, np.uint64)
        self._reads = np.zeros(self._limits.at_border.shape[2])

        rehash(self._places, self._borders.key, self._borders.place, 0, 1)
        self._counters[COUNT] = self._counters[NUM_IDEALS] = 1
        for v in np.flatnonzero(np.diff(problem.predecessor_ptr) == 0).tolist():
            self._borders.ready[0, 0, v >> 6] |= np.uint64(1 << (v & 63))
            self._counters[LAST_WORD : LAST_WORD + 2] = v >> 6
        self._borders.work[0, 0] = problem.work.sum()
        self._borders.cpu_only_ms[0, 0] = problem.cpu_only_ms.sum()
        self._borders.num_cpu_only[0, 0] = problem.is_cpu_only.sum()
        self._borders.memory[0, 0] = problem.memory_bytes.sum()

    def run(self, max_bytes: int, max_steps: int | None = None) -> int:
        """Search; return FINISHED, STOPPED, PAUSED after `max_steps` in all, or FULL.

        The last when more than `max_bytes` or `most_ideals` would be needed, and `ending` says which. After PAUSED it
        may be run again and goes on.
        """
        if not self._best.size:
            self.ending = Ending.MIXES
            return FULL
        self._counters[MOST_STEPS] = NO_LIMIT if max_steps is None else max_steps
        while True:
            outcome = grow(
                self._problem, self._mixes, self._limits, self._borders, self._labels, self._places, self._found,
                self._chains, self._counters, self._best, self._best_origin, self._alive, self._masks, self._dead,
                self._reads, self._stop,
            )  # fmt: skip
            if outcome != FULL or not self._make_room(max_bytes):
                return int(outcome)

    @property
    def num_steps(self) -> int:
        """Steps taken so far; see `label_kernel.LOOK_EVERY`."""
        return int(self._counters[STEPS])

    @property
    def num_ideals(self) -> int:
        """Ideals come to so far."""
        return int(self._counters[NUM_IDEALS])

    @property
    def num_kept(self) -> int:
        """Chains kept so far: an ideal on so many devices, which are the cells of a plain table."""
        return int(self._counters[NUM_CHAINS])

    def stages(self) -> list[tuple[int, list[int]]] | None:
        """Return the complete chain found: for each stage its kind, CPUs last, and its blocks; None without."""
        if not self._counters[COMPLETE]:
            return None
        chain = int(self._counters[NUM_CHAINS]) - 1
        used = self._mixes.used
        stages: list[tuple[int, list[int]]] = []
        ideal = self._ideal(chain)
        while self._chains.origin[chain] != -1:
            before = int(self._chains.origin[chain])
            gained = used[self._chains.state[chain]] - used[self._chains.state[before]]
            ideal_before = self._ideal(before)
            stages.append((int(np.argmax(gained)), sorted(ideal - ideal_before)))
            chain, ideal = before, ideal_before
        return stages[::-1]

    def _ideal(self, chain: int) -> set[int]:
        blocks: set[int] = set()
        ideal = int(self._chains.ideal[chain])
        while ideal:
            blocks.add(int(self._found.last_block[ideal]))
            ideal = int(self._found.parent[ideal])
        return blocks

    def _make_room(self, max_bytes: int) -> bool:
        """Enlarge the tables that are too small; say whether that is within `max_bytes` and `most_ideals`."""
        need = self._counters
        sizes = []
        for tables, axis, needed in (
            (self._borders, 1, need[NEED_ROWS]),
            (self._labels, 1, need[NEED_LABELS]),
            (self._found, 0, need[NEED_IDEALS]),
            (self._chains, 0, need[NEED_CHAINS]),
        ):
            size = tables[0].shape[axis]
            sizes.append(size if needed <= size else max(2 * size, int(needed)))
        total = sum(
            size * (array.nbytes // array.shape[axis])
            for tables, axis, size in zip(
                (self._borders, self._labels, self._found, self._chains), (1, 1, 0, 0), sizes, strict=True
            )
            for array in tables
        )
        # Few searches come to so many; the machine is asked for its memory only then.
        too_many = need[NEED_IDEALS] > MAX_IDEALS and need[NEED_IDEALS] > most_ideals(max_bytes)
        if total > max_bytes or too_many:
            self.ending = Ending.MEMORY if total > max_bytes else Ending.IDEALS
            return False
        rows = self._borders.number.shape[1]
        self._borders = Borders(*(_resized(array, 1, sizes[0]) for array in self._borders))
        self._labels = Labels(*(_resized(array, 1, sizes[1]) for array in self._labels))
        self._found = Found(*(_resized(array, 0, sizes[2]) for array in self._found))
        self._chains = Chains(*(_resized(array, 0, sizes[3]) for array in self._chains))
        if sizes[0] > rows:
            self._places = np.full((2, 1 << (2 * sizes[0] - 1).bit_length()), -1, np.int32)
            for side in (0, 1):
                rehash(self._places, self._borders.key, self._borders.place, side, int(need[COUNT + side]))
        return True


def _resized(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """Return the array with zeros behind it along an axis."""
    if array.shape[axis] == size:
        return array
    shape = list(array.shape)
    shape[axis] = size
    result = np.zeros(shape, array.dtype)
    result[tuple(slice(extent) for extent in array.shape)] = array
    return result


def _limits(
    problem: LabelProblem,
    mixes: DeviceMixes,
    net_weight: FloatArray,
    threshold: float,
    floor: float,
    border_bound: BorderBound | None,
) -> Limits:
    """Return what follows from a threshold."""
    n, states = problem.work.size, mixes.used.shape[0]
    limit = threshold * (1 + RELATIVE_SLACK)
    kinds = mixes.rate.size
    by_cpus, cpu_slope = _cpu_knapsack(problem, int(mixes.available[kinds]), limit)
    on_accelerators = (mixes.available[:kinds] - mixes.used[:, :kinds]) @ mixes.rate * limit
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        cpu_rate = float(np.where(problem.work > 0, problem.work / problem.time_ms[-1], 0.0).max(initial=0.0))
    gate, held_from = np.zeros(n, np.int32), np.zeros(n, np.int32)
    at_border = under_way = np.full((states, 1, 3), np.inf)
    transfer_work = 0.0
    if border_bound is not None:
        gate[border_bound.gates] = np.arange(1, border_bound.num_classes)
        held_from = border_bound.held_from
        at_border, under_way = border_bound.room(limit)
        transfer_work = border_bound.transfer_work
        if np.isinf(cpu_rate):  # a CPU that does some work in no time can do any amount of it
            under_way[:, :, CPU], cpu_rate = np.inf, 0.0
    return Limits(
        limit=limit,
        floor=float(floor),
        # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
        net_weight=np.minimum(net_weight, 2.0 * limit / mixes.link_factor[:kinds].min()),
        room=on_accelerators + by_cpus[mixes.used[:, kinds]],
        cpu_slope=cpu_slope,
        gate=gate,
        held_from=held_from,
        at_border=at_border,
        under_way=under_way,
        transfer_work=transfer_work,
        cpu_rate=cpu_rate,
        work_slack=RELATIVE_SLACK * float(problem.work.sum()),
        cpu_only_slack=RELATIVE_SLACK * float(problem.cpu_only_ms.sum()),
        memory_slack=RELATIVE_SLACK * float(problem.memory_bytes.sum()),
    )


def _cpu_knapsack(problem: LabelProblem, num_cpus: int, limit: float) -> tuple[FloatArray, FloatArray]:
    """Return, with c CPUs used, the work that the others can do within the limit, and what a further ms adds at most.

    A fractional knapsack: the blocks with the best ratios of work to CPU time first.
    """
    cpu_ms = problem.time_ms[-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(problem.work > 0, problem.work / cpu_ms, 0.0)
    best_first = np.argsort(-ratio, kind="stable")
    spent = np.concatenate([[0.0], np.cumsum(cpu_ms[best_first])])
    done = np.concatenate([[0.0], np.cumsum(problem.work[best_first])])
    room, slope = np.full(num_cpus + 1, done[-1]), np.zeros(num_cpus + 1)
    for c in range(num_cpus + 1):
        time_ms = (num_cpus - c) * limit
        i = int(np.searchsorted(spent, time_ms, side="right"))
        if i < spent.size:
            # Not from `done`, where a large sum before it may swallow a small block with a high ratio.
            slope[c] = ratio[best_first[i - 1]]
            in_part = time_ms - spent[i - 1]
            # Where no time is left an infinite slope must not make the product no number.
            room[c] = done[i - 1] + (slope[c] * in_part if in_part > 0 else 0.0)
    return room, slope
