"""Cut a pipeline anew so that it loops over its devices, several chunks on each: for interleaved 1F1B and ZB-V.

Given a chain split on p devices and v chunks per device, its blocks (`solvers.problem.contraction`: nodes that must
stay together, forward and backward twins among them) are put in a line, device by device and in each in topological
order. The line is cut into p v chunks; chunk c runs on the device at place c mod p of the pipeline, or, for a V, along
the devices and back: c and 2p - 1 - c on the same. A chunk takes its compute and every tensor it shares with another
chunk; a device the sum of its chunks, or a little less where two of its chunks share a tensor. CPUs of the split that
nothing needs are left out where the run is faster without them.

We seek the least largest device, then the least largest chunk, within the memory of the accelerators. Up to `MAX_CUTS`
ways to cut the line all are tried, so that the result is optimal for this line and this sum. Beyond, a DP over the line
finds the least largest chunk,

    f(c, b) = min_{a < b} max( f(c - 1, a), load_c(a, b) )   with blocks a .. b-1 in chunk c,

in O(p v n^2) steps, from which single cuts move as long as the devices gain. Lines of more than `MAX_BLOCKS` blocks are
made of joined neighbours first. Memory comes before all of this: cuts that exceed it least are preferred, so that the
limit holds wherever it is found to be possible, and the split says so where it is not. The search starts from chunks of
any size, and from chunks that take at most 1/v of an accelerator's memory each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt

from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split, pipeline_order
from solvers.problem.accelerator_kinds import with_identical_accelerators
from solvers.problem.contraction import contract, renumbered
from solvers.quantities import binary_size
from solvers.schedule.checks import check_model, device_numbers, needs_pipeline
from solvers.schedule.records import LoopedSplit, ScheduleError, ScheduleKind
from solvers.schedule.simulate import simulate

MAX_CUTS = 100_000
MAX_BLOCKS = 1200
MAX_CHUNKS = 64
"""More chunks per device than any schedule gains from: every chunk pays for its transfers."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def looped_split(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    chunks: int,
    kind: ScheduleKind = ScheduleKind.INTERLEAVED,
    num_micro_batches: int | None = None,
    max_runs: int | None = None,
) -> LoopedSplit:
    """Return a complete chain split cut anew into chunks, `chunks` on each of its devices; ZB-V takes 2.

    Whether CPUs that nothing needs are left out is decided by a run of so many micro-batches where their number is
    given, else by the largest load: interleaved 1F1B, for one, needs a multiple of the devices. A run longer than
    `max_runs` (see `simulate`) is not made, and counts as one that is not allowed.

    Raises ScheduleError for a split that is no pipeline, that has fewer blocks than it would have chunks, or that no
    such cut can keep off devices which cannot run it, and for a number of chunks that makes no sense.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph(tuple(Node(v, 1.0, 9.0) for v in range(4)), tuple(Edge(v, v + 1) for v in range(3)))
    >>> looped = looped_split(g, Deployment(2), Split((frozenset({0, 1}), frozenset({2, 3}))), 2)
    >>> [sorted(chunk) for chunk in looped.chunks], looped.devices
    ([[0], [1], [2], [3]], (0, 1, 0, 1))
    """
    if not 2 <= chunks <= MAX_CHUNKS:
        raise ScheduleError(
            f"{chunks} chunks per device: give a number from 2 to {MAX_CHUNKS}, or choose {ScheduleKind.ONE_F_ONE_B}."
        )
    if kind is ScheduleKind.ZB_V and chunks != 2:
        raise ScheduleError(f"ZB-V runs 2 chunks per device, not {chunks}; give 2.")
    graph, deployment = with_identical_accelerators(graph, deployment)
    if deployment.classes:
        raise ScheduleError(
            f"Chunks are cut for identical accelerators, and here they are of several types; choose "
            f"{ScheduleKind.ONE_F_ONE_B}."
        )
    check_model(deployment, split, kind)
    device_of = device_numbers(graph, deployment, split)
    numbers = {d: device_of[next(iter(members))] for d, members in enumerate(split.devices) if members}
    entries = pipeline_order(graph, split)
    if entries is None:
        raise needs_pipeline(kind)
    order = [numbers[d] for d in entries]
    line = _line(graph, deployment, order, device_of, kind)
    orders = [order]
    accelerators = [d for d in order if not deployment.is_cpu(d)]
    if 0 < len(accelerators) < len(order) and np.isfinite(line.accelerator_ms).all():
        orders.insert(0, accelerators)
    candidates: list[LoopedSplit] = []
    refusals: list[ScheduleError] = []
    for devices_in_order in orders:
        try:
            candidates.append(_looped(graph, deployment, line, devices_in_order, chunks, kind))
        except ScheduleError as error:
            refusals.append(error)
    if not candidates:
        raise refusals[-1]

    def rank(looped: LoopedSplit) -> tuple[bool, float]:
        if num_micro_batches is None:
            return bool(looped.note), split_costs(graph, deployment, looped.split).max_load_ms
        try:
            run = simulate(graph, deployment, looped, kind, num_micro_batches, max_runs=max_runs)
            return bool(looped.note), run.makespan_ms
        except ScheduleError:  # no number of micro-batches for so many devices
            return bool(looped.note), math.inf

    return min(candidates, key=rank) if len(candidates) > 1 else candidates[0]


def _looped(
    graph: DnnGraph, deployment: Deployment, line: "_Line", order: Sequence[int], chunks: int, kind: ScheduleKind
) -> LoopedSplit:
    """Return the line cut into chunks for the devices in this order."""
    devices = tuple(order) * chunks if kind is not ScheduleKind.ZB_V else (*order, *reversed(order))
    cuts = _best_cuts(line, deployment, devices, chunks)
    members = [frozenset(v for b in range(a, e) for v in line.members[b]) for a, e in pairwise(cuts)]
    placed = Split.from_device_of({v: d for d, chunk in zip(devices, members, strict=True) for v in chunk}, deployment)
    return LoopedSplit(placed, tuple(members), devices, _memory_note(graph, deployment, placed))


@dataclass(frozen=True, slots=True)
class _Line:
    """Blocks in the order of the pipeline, or groups of neighbours; tensors as the sorted places of their ends."""

    members: list[list[int]]
    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    memory_bytes: FloatArray
    tensors: list[tuple[list[int], float]]


def _line(
    graph: DnnGraph, deployment: Deployment, order: Sequence[int], device_of: dict[int, int], kind: ScheduleKind
) -> _Line:
    """Return the blocks of a pipeline on the devices in this order, joined where there are too many."""
    # Idle blocks are not joined with their neighbours: the split may have the two on different devices.
    chain = contract(graph, Family.CHAIN, deployment, join_idle=False)
    place = {d: i for i, d in enumerate(order)}
    line = renumbered(chain, sorted(range(chain.num_blocks), key=lambda b: (place[device_of[chain.members[b][0]]], b)))
    if any(a > b for a, b in line.edges):  # the split parts what must stay together
        raise needs_pipeline(kind)
    count = min(line.num_blocks, MAX_BLOCKS)
    group = [b * count // line.num_blocks for b in range(line.num_blocks)]

    def summed(values: FloatArray) -> FloatArray:
        return np.bincount(group, weights=values, minlength=count).astype(float)

    members: list[list[int]] = [[] for _ in range(count)]
    for b, g in enumerate(group):
        members[g].extend(line.members[b])
    tensors = [(sorted({group[b] for b in tensor.blocks}), tensor.weight_ms) for tensor in line.hyperedges]
    return _Line(members, summed(line.accelerator_ms), summed(line.cpu_ms), summed(line.memory_bytes), tensors)


def _best_cuts(line: _Line, deployment: Deployment, devices: Sequence[int], chunks: int) -> list[int]:
    """Return where chunks begin and end, from 0 to the number of blocks."""
    n, num_chunks = len(line.members), len(devices)
    if n < num_chunks:
        raise ScheduleError(
            f"{num_chunks} chunks need as many parts that can be separated, and this pipeline has {n}; choose fewer "
            "chunks or devices."
        )
    on_cpu = [deployment.is_cpu(d) for d in devices]
    loads = {is_cpu: _chunk_loads(line, is_cpu) for is_cpu in set(on_cpu)}
    column = {d: i for i, d in enumerate(dict.fromkeys(devices))}
    limits = [np.inf if deployment.is_cpu(d) else deployment.memory_limit_bytes for d in column]
    problem = _Cutting(
        [loads[is_cpu] for is_cpu in on_cpu],
        np.array([column[d] for d in devices]),
        _running_sum(line.memory_bytes),
        np.array(limits),
    )
    cuts = problem.all_tried() if math.comb(n - 1, num_chunks - 1) <= MAX_CUTS else problem.searched(chunks)
    if cuts is None:
        raise ScheduleError(
            "No cut of this pipeline into chunks keeps the nodes that run on CPUs only on a CPU; choose another "
            "schedule, or a split without CPUs."
        )
    return cuts


def _running_sum(values: FloatArray) -> FloatArray:
    """Return the sums of the first 0, 1, ... n values."""
    return np.concatenate(([0.0], np.cumsum(values)))


def _chunk_loads(line: _Line, on_cpu: bool) -> FloatArray:
    """Return the load in ms of the chunk of blocks a .. b-1, shape (n + 1, n + 1); infinite where it cannot be.

    A tensor costs nothing where a chunk holds all of its ends, which start at a or later and end before b, or none,
    which lies between two of them.
    """
    n = len(line.members)
    times = line.cpu_ms if on_cpu else line.accelerator_ms
    work = _running_sum(np.where(np.isfinite(times), times, 0.0))
    barred = _running_sum(~np.isfinite(times))
    loads = work[None, :] - work[:, None]
    if not on_cpu:
        holds_all, holds_none = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
        for ends, weight_ms in line.tensors:
            holds_all[ends[0], ends[-1] + 1] += weight_ms
            for before, after in pairwise((-1, *ends, n)):
                holds_none[before + 1, after] += weight_ms
        holds_all = np.cumsum(np.cumsum(holds_all[::-1], axis=0)[::-1], axis=1)
        holds_none = np.cumsum(np.cumsum(holds_none[:, ::-1], axis=1)[:, ::-1], axis=0)
        total = sum(weight_ms for _, weight_ms in line.tensors)
        loads = loads + np.maximum(0.0, total - holds_all - holds_none)
    loads[barred[None, :] > barred[:, None]] = np.inf
    loads[np.tril_indices(n + 1)] = np.inf
    return loads


@dataclass(frozen=True)
class _Cutting:
    """Chunk loads by where a chunk begins and ends, the device column of each chunk, and memory to keep to.

    `size` is the running sum of the blocks' bytes, `limits` what each device holds.
    """

    tables: list[FloatArray]
    column: IntArray
    size: FloatArray
    limits: FloatArray

    def all_tried(self) -> list[int] | None:
        """Return the best of all cuts; None if each has a chunk that cannot be."""
        n, num_inner = len(self.size) - 1, len(self.tables) - 1
        inner = np.array(list(combinations(range(1, n), num_inner)), dtype=np.int64).reshape(-1, num_inner)
        ends = np.zeros((len(inner), 1), dtype=np.int64)
        return self._best(np.hstack([ends, inner, ends + n]))

    def searched(self, chunks: int) -> list[int] | None:
        """Return good cuts, from those with the least largest chunk; None if there are none."""
        bytes_of = self.size[None, :] - self.size[:, None]
        fitting = [
            np.where(bytes_of <= self.limits[d] / chunks, table, np.inf)
            for table, d in zip(self.tables, self.column, strict=True)
        ]
        starts = [_least_largest_chunk(tables) for tables in (fitting, self.tables)]
        found = [self._balanced(cuts) for cuts in starts if cuts is not None]
        return self._best(np.array(found)) if found else None

    def _best(self, rows: IntArray) -> list[int] | None:
        """Return the row of cuts that exceeds memory least, then has the least largest device, then chunk."""
        loads = np.stack([table[rows[:, c], rows[:, c + 1]] for c, table in enumerate(self.tables)], axis=1)
        held = self.size[rows[:, 1:]] - self.size[rows[:, :-1]]
        load_of, held_by = np.zeros((len(rows), len(self.limits))), np.zeros((len(rows), len(self.limits)))
        for c, d in enumerate(self.column):
            load_of[:, d] += loads[:, c]
            held_by[:, d] += held[:, c]
        excess = np.maximum(held_by - self.limits, 0.0).max(axis=1)
        excess[np.isinf(loads).any(axis=1)] = np.inf
        best = np.lexsort(((loads**2).sum(axis=1), loads.max(axis=1), load_of.max(axis=1), excess))[0]
        return None if np.isinf(excess[best]) else [int(cut) for cut in rows[best]]

    def _balanced(self, cuts: list[int]) -> list[int]:
        """Move one cut at a time to its best place, as long as that is better; ends, since every move is better."""
        is_moving = True
        while is_moving:
            is_moving = False
            for j in range(1, len(cuts) - 1):
                # The present place comes first, so that it wins among equal ones.
                places = [cuts[j], *range(cuts[j - 1] + 1, cuts[j]), *range(cuts[j] + 1, cuts[j + 1])]
                rows = np.tile(np.array(cuts), (len(places), 1))
                rows[:, j] = places
                better = self._best(rows)
                if better is not None and better != cuts:
                    cuts, is_moving = better, True
        return cuts


def _least_largest_chunk(tables: Sequence[FloatArray]) -> list[int] | None:
    """Return cuts whose largest chunk is as small as can be: the DP of the module's text."""
    n = len(tables[0]) - 1
    f = np.full(n + 1, np.inf)
    f[0] = 0.0
    choices: list[IntArray] = []
    for table in tables:
        reached = np.maximum(f[:, None], table)
        choices.append(reached.argmin(axis=0))
        f = reached.min(axis=0)
    if np.isinf(f[n]):
        return None
    cuts = [n]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return cuts[::-1]


def _memory_note(graph: DnnGraph, deployment: Deployment, split: Split) -> str:
    """Return a sentence on the device that holds most beyond its memory; empty if none does."""
    if deployment.memory_bytes is None:
        return ""
    held = [sum(graph.node_by_id[v].memory_bytes for v in members) for members in split.accelerators]
    largest = max(held, default=0.0)
    if largest <= deployment.memory_limit_bytes:
        return ""
    return (
        f"No cut into chunks was found that keeps to the memory: {deployment.device_name(held.index(largest))} is "
        f"short by {binary_size(largest - deployment.memory_bytes)}."
    )
