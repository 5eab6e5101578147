r"""Minimise the GPipe time, or max-load in the variants of the model, over chain splits: proven optimal.

The recurrence is that of `solvers.variant_kernel`; this module chooses the limits it runs with.

Max-load. As in `solvers.throughput_dp` a run with threshold T finds the best chain of max-load <= T, or proves that
there is none.

GPipe. With F = max FW_i and B = max BW_i a *sweep* finds the best chain of F + B <= T, or proves that there is none, by
runs with falling limits f on FW_i. A run finds the least B(f) of any such chain with F <= f. No chain has B below the
bound b known on it, so the first f is T - b; a chain better than T, or than the best plan found meanwhile, then has
B >= B(f), hence F <= T - B(f), which is the next f. Every plan found has F above the f that follows, so the sweep goes
down the corners of the curve B(f) and ends at the bound on F. Stages with FW_i + BW_i > T never occur.

Either way T starts at a lower bound and grows in small steps until there is a plan: all that lie below the optimum are
cheap. The first plan comes from the same search on one topological line of the blocks.

A training schedule's memory depends on the number of stages after a stage. Then the graph is turned around: blocks are
numbered backwards and edges reversed, and a chain is found from its last stage to its first. Loads have no direction.
"""

import threading
import time
from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds import work_bound
from solvers.contraction import Contraction, FloatArray, compressed_rows
from solvers.costs import Objective
from solvers.deployment import Communication, Deployment
from solvers.graph import DnnGraph
from solvers.ideal_table import (
    FINISHED,
    FULL,
    RELATIVE_SLACK,
    STOPPED,
    IdealTable,
    bytes_per_row,
    grown_table,
    new_table,
    words_for,
)
from solvers.memory import is_scheduled, sync_bandwidth, training_bytes, weight_bytes
from solvers.passes import PassTensor, pass_ms, pass_tensors
from solvers.split import Split
from solvers.variant_kernel import (
    BACKWARD,
    FORWARD,
    FULL_DUPLEX,
    MIXED,
    OVERLAPPED,
    READS_FORWARD,
    SUM,
    WRITES,
    VariantProblem,
    expand_variant,
)

FIRST_STEP, LARGEST_QUICK_STEP = 0.002, 0.01
"""Relative step of the first threshold above the lower bound, and the largest step after a quick sweep."""

QUICK_SECONDS = 0.05
"""A sweep that takes longer doubles the step, so that few long ones fail."""

MAX_TABLE_BYTES = 400 * 2**20
"""Largest table of ideals; while it grows, half as much again is in use."""

FIRST_ROWS = 1024
"""Ideals a new table has room for; it doubles when it is full."""

LINE_THRESHOLDS = (1.25, 2.0, 5.0, 25.0)
"""The first plan is sought within these multiples of the lower bound before any plan will do: short stages are few."""

SAME_VALUE = 1e-8
"""A plan that is better by a smaller share is not looked for."""

RUNS_ON_THE_LINE = 8
"""The first plan is improved by at most so many runs on its line."""

_NUMBER_OF = {Communication.SUM: SUM, Communication.OVERLAPPED: OVERLAPPED, Communication.FULL_DUPLEX: FULL_DUPLEX}


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """The blocks of one stage and the accelerators that run them; `replicas` is 0 for a CPU."""

    blocks: tuple[int, ...]
    replicas: int


class VariantSearch:
    """One optimisation that can be watched and stopped; `run` does the work, the rest reads its state."""

    def __init__(
        self,
        graph: DnnGraph,
        contraction: Contraction,
        deployment: Deployment,
        objective: Objective,
        max_bytes: int = MAX_TABLE_BYTES,
    ) -> None:
        """Prepare the search; nothing is computed yet. For GPipe the contraction must keep passes apart."""
        n = contraction.num_blocks
        self._contraction, self._original = contraction, deployment
        # More devices than blocks can use are of no use, and every one of them costs states.
        replicas = 1 if deployment.replication is None else deployment.replication.max_replicas
        deployment = replace(
            deployment,
            num_accelerators=min(n * replicas, deployment.num_accelerators),
            num_cpus=min(n, deployment.num_cpus),
        )
        if not is_scheduled(graph, deployment):
            deployment = replace(deployment, training_memory=None)
        assert replicas == 1 or deployment.training_memory is None, "replicas are no stages"
        self._backwards = deployment.training_memory is not None
        costs = _stage_costs(graph, contraction, deployment, objective)
        self._problem = _variant_problem(costs, contraction, deployment, contraction.edges, self._backwards)
        line = tuple((b, b + 1) for b in range(n - 1))
        self._line_problem = _variant_problem(costs, contraction, deployment, line, self._backwards)
        self._num_states = (deployment.num_accelerators + 1) * (deployment.num_cpus + 1)
        self._max_rows = max(1, max_bytes // bytes_per_row(n, self._num_states))
        self._table: IdealTable | None = None
        self._stopped = threading.Event()
        self.phase = "lower bound"
        self._pass_bounds = _pass_bounds(contraction, deployment, costs) if objective is Objective.GPIPE else (0.0, 0.0)
        self.lower_bound_ms = max(work_bound(contraction, deployment), sum(self._pass_bounds))
        self.value_ms = np.inf
        self.stages: tuple[PlannedStage, ...] | None = None

    def stop(self) -> None:
        """Make a running search return within milliseconds with what it has; safe from any thread."""
        self._stopped.set()
        if self._table is not None:
            self._table.stop[0] = 1

    def split_of(self, stages: tuple[PlannedStage, ...]) -> Split:
        """Return a plan as a split, its accelerators and its CPUs numbered along the chain."""
        members: dict[bool, list[frozenset[int]]] = {True: [], False: []}
        replicas: list[int] = []
        for stage in stages:
            ids = frozenset(v for b in stage.blocks for v in self._contraction.members[b])
            members[stage.replicas == 0].append(ids)
            if stage.replicas:
                replicas.append(stage.replicas)
        return Split(tuple(members[False]), tuple(members[True]), tuple(replicas)).on(self._original)

    def run(self) -> None:
        """Search until the optimum is proven, the ideals are too many, or `stop` is called."""
        self.phase = "linearised DP"
        ceiling = _threshold_that_allows_all(self._problem)
        if np.isinf(self.lower_bound_ms):
            return
        for threshold in (*(factor * self.lower_bound_ms for factor in LINE_THRESHOLDS), ceiling):
            if self.stages is None and 0 < threshold <= ceiling:
                self._sweep(self._line_problem, threshold, RUNS_ON_THE_LINE)
        step = FIRST_STEP
        threshold = max(self.lower_bound_ms, ceiling * 1e-6)
        while self.value_ms > self.lower_bound_ms:
            threshold = min(threshold * (1 + step), self.value_ms, ceiling)
            self.phase = f"DP over ideals, value up to {threshold:.4g} ms"
            began = time.monotonic()
            proven = self._sweep(self._problem, threshold)
            is_quick = time.monotonic() - began < QUICK_SECONDS
            if proven is None:
                break
            self.lower_bound_ms = max(self.lower_bound_ms, proven)
            if self.value_ms <= threshold * (1 + SAME_VALUE):
                break
            if threshold == ceiling:
                self.lower_bound_ms = np.inf
                break
            step = min(1.5 * step, LARGEST_QUICK_STEP) if is_quick else 2 * step

    def _sweep(self, problem: VariantProblem, target: float, most_runs: int | None = None) -> float | None:
        """Look for the best chain of value <= `target`, and return what is then proven of chains of the problem.

        The best plan is taken over if it is better than the one known. None when the sweep did not end.
        """
        if problem.accelerator_ms.shape[1] == 1:
            outcome, table = self._expand(problem, np.array([target]))
            if outcome != FINISHED:
                return None
            value = self._keep_best(problem, table)
            return target if value is None else min(target, value[0])
        least_forward, least_backward = self._pass_bounds
        runs = 0
        while most_runs is None or runs < most_runs:
            slack = RELATIVE_SLACK * target
            most_forward = target - least_backward + slack
            if most_forward < least_forward or target <= 0:
                return target
            limits = np.array([most_forward, target - least_forward + slack, target])
            outcome, table = self._expand(problem, limits)
            if outcome != FINISHED:
                return None
            value = self._keep_best(problem, table)
            if value is None:
                return target
            # What is looked for from here on is better than this plan, and keeps its backward time.
            together = value[0] + value[1]
            target = min(target, together * (1 - SAME_VALUE))
            least_backward = max(least_backward, value[1])
            runs += 1
        return None

    def _expand(self, problem: VariantProblem, limits: FloatArray) -> tuple[int, IdealTable]:
        """Run the kernel, with a larger table whenever it asks for one."""
        table = new_table(problem.sync_ms.size, self._num_states, min(FIRST_ROWS, self._max_rows))
        while True:
            self._table = table
            if self._stopped.is_set():
                return STOPPED, table
            outcome = expand_variant(problem, table, limits, self._max_rows)
            if outcome != FULL:
                return outcome, table
            table = grown_table(table, min(2 * table.size.size, self._max_rows))

    def _keep_best(self, problem: VariantProblem, table: IdealTable) -> tuple[float, ...] | None:
        """Take over the table's best complete chain if it is better than the one known; return its maxima by pass."""
        full = int(table.first_of_size[problem.sync_ms.size])
        if full < 0:
            return None
        state = int(np.argmin(table.value[full]))
        stages = _trace(problem, table, full, state)
        maxima = tuple(_stage_loads(problem, stages).max(axis=0).tolist())
        if sum(maxima) < self.value_ms:
            self.value_ms = sum(maxima)
            if self._backwards:
                last = problem.sync_ms.size - 1
                stages = [replace(s, blocks=tuple(last - b for b in s.blocks)) for s in reversed(stages)]
            self.stages = tuple(stages)
        return maxima


@dataclass(frozen=True)
class _StageCosts:
    """What blocks cost in each measure, and the tensors between them; see `VariantProblem`."""

    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    tensors: list[tuple[PassTensor, float]]
    memory_bytes: FloatArray
    memory_factor: FloatArray
    sync_ms: FloatArray


def _stage_costs(
    graph: DnnGraph, contraction: Contraction, deployment: Deployment, objective: Objective
) -> _StageCosts:
    num_bytes = np.zeros((contraction.num_blocks, 3))
    factor = np.zeros((deployment.num_devices + 1, 3))
    factor[:, 0] = 1.0
    schedule = deployment.training_memory
    if schedule is None:
        num_bytes[:, 0] = contraction.memory_bytes
    else:
        for b, members in enumerate(contraction.members):
            held = training_bytes(graph, schedule, members)
            num_bytes[b] = held.constant, held.weights, held.activations
        for stages_after in range(len(factor)):
            factor[stages_after, 1] = schedule.weight_versions(stages_after) - 1
            factor[stages_after, 2] = schedule.in_flight(stages_after)
    memory = (num_bytes, factor, _sync_ms(graph, contraction, deployment))
    if objective is Objective.GPIPE:
        on_accelerator, on_cpu = (pass_ms(graph, contraction, on_accelerator=kind) for kind in (True, False))
        return _StageCosts(
            np.column_stack([on_accelerator, contraction.accelerator_ms]),
            np.column_stack([on_cpu, contraction.cpu_ms]),
            list(pass_tensors(graph, contraction).items()),
            *memory,
        )
    tensors: list[tuple[PassTensor, float]] = []
    for hyperedge in contraction.hyperedges:
        # Where writers are merged, only the sum of a device's transfers counts, and any end may stand for the writer.
        writer = hyperedge.blocks[0] if hyperedge.writer is None else hyperedge.writer
        readers = tuple(b for b in hyperedge.blocks if b != writer)
        tensors.append((PassTensor(writer, False, readers, ()), hyperedge.weight_ms))
    return _StageCosts(contraction.accelerator_ms[:, None], contraction.cpu_ms[:, None], tensors, *memory)


def _sync_ms(graph: DnnGraph, contraction: Contraction, deployment: Deployment) -> FloatArray:
    """Return twice the time in ms that the weights of each block take to move; zeros where nothing is replicated."""
    if deployment.replication is None or deployment.replication.max_replicas == 1:
        return np.zeros(contraction.num_blocks)
    weights = weight_bytes(graph)
    of_block = np.array([sum(weights[v] for v in members) for members in contraction.members])
    return 2 * of_block / sync_bandwidth(graph, deployment) if of_block.any() else of_block


def _pass_bounds(contraction: Contraction, deployment: Deployment, costs: _StageCosts) -> tuple[float, float]:
    """Return lower bounds on the forward and on the backward time of every split."""
    forward, backward = (
        work_bound(
            replace(contraction, accelerator_ms=costs.accelerator_ms[:, p], cpu_ms=costs.cpu_ms[:, p]), deployment
        )
        for p in (FORWARD, BACKWARD)
    )
    return forward, backward


def _variant_problem(
    costs: _StageCosts,
    contraction: Contraction,
    deployment: Deployment,
    edges: tuple[tuple[int, int], ...],
    backwards: bool,
) -> VariantProblem:
    """Flatten a contraction, with `edges` in place of its own, for the kernel; `backwards` turns it around."""
    n = contraction.num_blocks
    number = np.arange(n)[::-1] if backwards else np.arange(n)
    if backwards:
        edges = tuple((b, a) for a, b in edges)
    successors: list[list[int]] = [[] for _ in range(n)]
    num_predecessors = np.zeros(n, np.int32)
    for a, b in edges:
        successors[number[a]].append(int(number[b]))
        num_predecessors[number[b]] += 1
    tensors_of: list[list[int]] = [[] for _ in range(n)]
    roles_of: list[list[int]] = [[] for _ in range(n)]
    for e, (tensor, _) in enumerate(costs.tensors):
        for b in tensor.blocks:
            tensors_of[number[b]].append(e)
            roles_of[number[b]].append(
                WRITES if b == tensor.writer else READS_FORWARD if b in tensor.forward_readers else 0
            )
    descendants = np.zeros((n, words_for(n)), np.uint64)
    for b in range(n - 1, -1, -1):  # blocks are numbered in topological order
        descendants[b, b >> 6] |= np.uint64(1 << (b & 63))
        for successor in successors[b]:
            descendants[b] |= descendants[successor]
    successor_ptr, successor_idx = compressed_rows(successors)
    tensor_ptr, tensor_idx = compressed_rows(tensors_of)
    speed_ratio = np.zeros(costs.cpu_ms.shape[1])
    for q in range(speed_ratio.size):
        runs = np.isfinite(costs.accelerator_ms[:, q]) & (costs.accelerator_ms[:, q] > 0)
        with np.errstate(divide="ignore"):
            speed_ratio[q] = (costs.accelerator_ms[runs, q] / costs.cpu_ms[runs, q]).max(initial=0.0)
    memory = deployment.memory_bytes
    return VariantProblem(
        accelerator_ms=np.ascontiguousarray(costs.accelerator_ms[number]),
        cpu_ms=np.ascontiguousarray(costs.cpu_ms[number]),
        speed_ratio=speed_ratio,
        memory_bytes=np.ascontiguousarray(costs.memory_bytes[number]),
        memory_factor=costs.memory_factor,
        memory_limit=np.inf if memory is None else memory,
        sync_ms=costs.sync_ms[number],
        successor_ptr=successor_ptr,
        successor_idx=successor_idx,
        num_predecessors=num_predecessors,
        tensor_ptr=tensor_ptr,
        tensor_idx=tensor_idx,
        role=np.array([role for roles in roles_of for role in roles], np.int32),
        tensor_weight=np.array([weight for _, weight in costs.tensors]),
        tensor_size=np.array([len(tensor.blocks) for tensor, _ in costs.tensors], np.int32),
        tensor_pass=np.array([_pass_of(tensor) for tensor, _ in costs.tensors], np.int32),
        tensor_writer=np.array([number[tensor.writer] for tensor, _ in costs.tensors], np.int32),
        descendants=descendants,
        keys=np.random.default_rng(0).integers(0, 2**64, (n, 2), np.uint64, endpoint=False),
        num_accelerators=deployment.num_accelerators,
        num_cpus=deployment.num_cpus,
        max_replicas=1 if deployment.replication is None else deployment.replication.max_replicas,
        communication=_NUMBER_OF[deployment.communication],
    )


def _pass_of(tensor: PassTensor) -> int:
    """Tell in which pass a tensor is paid for."""
    if tensor.is_backward:
        return BACKWARD
    return MIXED if tensor.backward_readers else FORWARD


def _threshold_that_allows_all(problem: VariantProblem) -> float:
    """Return a value in ms that no split needs to exceed."""
    finite = problem.accelerator_ms[np.isfinite(problem.accelerator_ms[:, -1]), -1]
    on_one_accelerator = float(finite.sum() + problem.tensor_weight.sum())
    # For GPipe the maxima of the passes may be on two devices.
    both = 1.0 if problem.accelerator_ms.shape[1] == 1 else 2.0
    return both * max(on_one_accelerator, float(problem.cpu_ms[:, -1].sum()), 1e-9)


def _trace(problem: VariantProblem, table: IdealTable, row: int, state: int) -> list[PlannedStage]:
    """Follow the origins of a complete chain and return its stages, those of the smallest ideals first."""
    stages: list[PlannedStage] = []
    while row != 0:
        previous, replicas = divmod(int(table.origin[row, state]), problem.max_replicas + 1)
        bits = (table.blocks[row] & ~table.blocks[previous]).view(np.uint8)
        blocks = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        stages.append(PlannedStage(tuple(blocks.tolist()), replicas))
        row, state = previous, state - (replicas * (problem.num_cpus + 1) if replicas else 1)
    return stages[::-1]


def _stage_loads(problem: VariantProblem, stages: list[PlannedStage]) -> FloatArray:
    """Return the time of each stage per sample and pass in ms, shape (stages, passes)."""
    passes = 1 if problem.accelerator_ms.shape[1] == 1 else 2
    stage_of = np.zeros(problem.sync_ms.size, np.int32)
    for i, stage in enumerate(stages):
        stage_of[list(stage.blocks)] = i
    received, sent = np.zeros((len(stages), passes)), np.zeros((len(stages), passes))
    ends: list[list[tuple[int, int]]] = [[] for _ in problem.tensor_weight]
    for b in range(problem.sync_ms.size):
        for i in range(problem.tensor_ptr[b], problem.tensor_ptr[b + 1]):
            ends[problem.tensor_idx[i]].append((int(stage_of[b]), int(problem.role[i])))
    for e, weight in enumerate(problem.tensor_weight):
        home = int(stage_of[problem.tensor_writer[e]])
        readers: dict[int, bool] = {}
        for i, role in ends[e]:
            if i != home:
                readers[i] = readers.get(i, False) or bool(role & READS_FORWARD)
        if readers:
            sent[home, problem.tensor_pass[e] & 1] += weight
        for i, reads_forward in readers.items():
            in_pass = int(problem.tensor_pass[e])
            received[i, int(not reads_forward) if in_pass == MIXED else in_pass] += weight
    loads = np.zeros((len(stages), passes))
    for i, stage in enumerate(stages):
        blocks = list(stage.blocks)
        if not stage.replicas:
            loads[i] = problem.cpu_ms[blocks, :passes].sum(axis=0)
            continue
        compute = problem.accelerator_ms[blocks, :passes].sum(axis=0)
        if problem.communication == SUM:
            loads[i] = compute + received[i] + sent[i]
        elif problem.communication == OVERLAPPED:
            loads[i] = np.maximum(compute, received[i] + sent[i])
        else:
            loads[i] = compute + np.maximum(received[i], sent[i])
        # Replicas exchange gradients in the backward pass.
        loads[i, -1] += (stage.replicas - 1) * float(problem.sync_ms[blocks].sum())
        loads[i] /= stage.replicas
    return loads
