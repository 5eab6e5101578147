"""What stages cost in the variants of the model, as the arrays of `stage_kernel`, and the load of each stage.

Measures and the formulas of loads, memory and replicas are described there. A problem turned backwards has its blocks
numbered from the last to the first and its edges reversed, so that its chains are those of the graph from the end.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.chain.descendants import depending_work, descendants_of
from solvers.chain.device_states import device_states
from solvers.chain.ending import Ending
from solvers.chain.stage_kernel import (
    BACKWARD,
    FORWARD,
    FULL_DUPLEX,
    MIXED,
    OVERLAPPED,
    READS_FORWARD,
    RELATIVE_SLACK,
    SUM,
    WRITES,
)
from solvers.chain.stage_records import StageLimits, StageProblem
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import sync_bandwidth, training_bytes, weight_bytes
from solvers.problem.accelerator_kinds import AcceleratorKind, accelerator_kinds
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import Contraction, FloatArray, compressed_rows
from solvers.problem.passes import PassTensor, pass_ms, pass_tensors

_NUMBER_OF = {Communication.SUM: SUM, Communication.OVERLAPPED: OVERLAPPED, Communication.FULL_DUPLEX: FULL_DUPLEX}


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """The blocks of one stage and the accelerators that run them; `replicas` is 0 for a CPU.

    `kind` is the accelerators' kind, numbered as in `StageCosts`.
    """

    blocks: tuple[int, ...]
    replicas: int
    kind: int = 0


@dataclass(frozen=True)
class StageCosts:
    """What blocks cost in each measure, and the tensors between them; see `StageProblem`.

    `kinds` are those of the accelerators; `accelerator_ms` has a row for each.
    """

    kinds: tuple[AcceleratorKind, ...]
    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    tensors: list[tuple[PassTensor, float]]
    memory_bytes: FloatArray
    memory_factor: FloatArray
    sync_ms: FloatArray
    sync_factor: FloatArray


def stage_costs(graph: DnnGraph, contraction: Contraction, deployment: Deployment, objective: Objective) -> StageCosts:
    """Return what the blocks of a contraction cost for an objective; for GPipe it must keep passes apart."""
    kinds = accelerator_kinds(graph, deployment)
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
    sync_ms = _sync_ms(graph, contraction, deployment)
    first = [sync_bandwidth(graph, deployment, kind.devices[0]) if sync_ms.any() else 1.0 for kind in kinds]
    memory = (num_bytes, factor, sync_ms, np.array([first[0] / bandwidth for bandwidth in first]))
    if objective is Objective.GPIPE:
        apart = [pass_ms(graph, contraction, kind.node_ms) for kind in kinds]
        times = [np.column_stack([ms, kind.block_ms(contraction)]) for ms, kind in zip(apart, kinds, strict=True)]
        on_cpu = pass_ms(graph, contraction)
        return StageCosts(
            kinds,
            np.array(times).reshape(len(kinds), contraction.num_blocks, 3),
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
    return StageCosts(
        kinds,
        np.array([kind.block_ms(contraction) for kind in kinds]).reshape(len(kinds), contraction.num_blocks, 1),
        contraction.cpu_ms[:, None].copy(),
        tensors,
        *memory,
    )


def _sync_ms(graph: DnnGraph, contraction: Contraction, deployment: Deployment) -> FloatArray:
    """Return twice the time in ms that the weights of each block take to move; zeros where nothing is replicated."""
    if deployment.replication is None or deployment.replication.max_replicas == 1:
        return np.zeros(contraction.num_blocks)
    weights = weight_bytes(graph)
    of_block = np.array([sum(weights[v] for v in members) for members in contraction.members])
    return 2 * of_block / sync_bandwidth(graph, deployment) if of_block.any() else of_block


def pass_bounds(contraction: Contraction, deployment: Deployment, costs: StageCosts) -> tuple[float, float]:
    """Return lower bounds on the forward and on the backward time of every split."""
    kind_of_class = {deployment.class_of(d): g for g, kind in enumerate(costs.kinds) for d in kind.devices}

    def bound(p: int) -> float:
        class_ms = [
            costs.accelerator_ms[kind_of_class[c], :, p] if c.count else np.zeros(contraction.num_blocks)
            for c in deployment.classes
        ]
        fastest = costs.accelerator_ms[:, :, p].min(axis=0) if costs.kinds else contraction.accelerator_ms
        return work_bound(
            replace(contraction, accelerator_ms=fastest, cpu_ms=costs.cpu_ms[:, p], class_ms=np.array(class_ms)),
            deployment,
        )

    return bound(FORWARD), bound(BACKWARD)


def variant_problem(
    costs: StageCosts,
    contraction: Contraction,
    deployment: Deployment,
    edges: tuple[tuple[int, int], ...],
    backwards: bool,
    pinned: Collection[int],
    max_bytes: int,
    stopped: np.ndarray,
) -> StageProblem | Ending:
    """Flatten a contraction, with `edges` in place of its own, for the kernel; `backwards` turns it around.

    No two `pinned` blocks share a stage. What ended it if its bit sets would take more than `max_bytes`, or if
    `stopped[0]` was set from another thread.
    """
    n = contraction.num_blocks
    counts = useful_counts(contraction, deployment, costs.kinds)
    is_pinned = np.zeros(n, np.int32)
    is_pinned[list(pinned)] = 1
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
    successor_ptr, successor_idx = compressed_rows(successors)
    descendants = descendants_of(successor_ptr, successor_idx, max_bytes, stopped)
    if isinstance(descendants, Ending):
        return descendants
    tensor_ptr, tensor_idx = compressed_rows(tensors_of)
    work, rate = _work(costs)
    work = np.ascontiguousarray(work[number])
    accelerator_ms = np.ascontiguousarray(costs.accelerator_ms[:, number])
    cpu_ms, memory_bytes = np.ascontiguousarray(costs.cpu_ms[number]), np.ascontiguousarray(costs.memory_bytes[number])
    is_cpu_only = np.asarray(np.isinf(accelerator_ms[:, :, -1]).all(axis=0))
    last_work = work[:, -1].copy()
    pays_sync = np.ones(cpu_ms.shape[1])
    if pays_sync.size > 1:
        pays_sync[FORWARD] = 0.0
    count = np.array(counts, np.int32)
    stride, used = device_states(counts)
    left = count - used
    is_left = left[:, :-1] > 0
    link_factor = np.array([1.0 / kind.link_speed for kind in costs.kinds])
    limit_bytes = np.array([np.inf if kind.memory_bytes is None else kind.memory_bytes for kind in costs.kinds])
    memory_limit = limit_bytes * (1.0 + RELATIVE_SLACK)
    with np.errstate(invalid="ignore"):
        rest_memory = np.where(is_left, left[:, :-1] * memory_limit, 0.0).sum(axis=1)
    displaced = np.where(is_left[:, :, None], rate[:-1] * link_factor[:, None], np.inf)
    return StageProblem(
        accelerator_ms=accelerator_ms,
        cpu_ms=cpu_ms,
        work=work,
        rate=rate,
        memory_bytes=memory_bytes,
        memory_factor=costs.memory_factor,
        memory_limit=memory_limit,
        link_factor=link_factor,
        sync_factor=costs.sync_factor,
        is_pinned=is_pinned[number],
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
        used=used,
        stride=stride,
        available=count,
        in_use=used.sum(axis=1),
        num_left=left.sum(axis=1),
        least_transfer=displaced.min(axis=1, initial=np.inf),
        rest_memory=rest_memory,
        memory_slack=RELATIVE_SLACK * float(costs.memory_factor.max(axis=0) @ memory_bytes.sum(axis=0)),
        is_cpu_only=is_cpu_only,
        cpu_only_ms=np.where(is_cpu_only[:, None], cpu_ms, 0.0),
        last_work=last_work,
        depending_work=depending_work(descendants, last_work, stopped),
        pays_sync=pays_sync,
        max_replicas=most_replicas(deployment),
        communication=_NUMBER_OF[deployment.communication],
    )


def useful_counts(contraction: Contraction, deployment: Deployment, kinds: Sequence[AcceleratorKind]) -> list[int]:
    """Return how many accelerators of each kind, and last how many CPUs, any chain of the blocks can use."""
    n = contraction.num_blocks
    most = n * most_replicas(deployment)
    return [*(min(most, len(kind.devices)) for kind in kinds), min(n, deployment.num_cpus)]


def _work(costs: StageCosts) -> tuple[FloatArray, FloatArray]:
    """Return the work of each block and the rate of each kind in each measure, CPUs last; see the kernel.

    Work is the least of a block's times on the kinds, each in units of the kind's time for all blocks: where kinds
    differ by their speed alone these are equal. For one kind it is the block's time, and 0 for one that only CPUs run.
    """
    kinds, n, measures = costs.accelerator_ms.shape
    work, rate = np.zeros((n, measures)), np.ones((kinds + 1, measures))
    for q in range(measures):
        times = costs.accelerator_ms[:, :, q]
        runs = np.isfinite(times).all(axis=0)
        total = times[:, runs].sum(axis=1)
        price = np.where((total > 0) & (total[:1] > 0), total[:1] / np.where(total > 0, total, 1.0), 1.0)
        finite = np.isfinite(times).any(axis=0)
        if kinds:
            work[finite, q] = (price[:, None] * times[:, finite]).min(axis=0)
        for g, ms in enumerate((*times, costs.cpu_ms[:, q])):
            counts = np.isfinite(ms) & (work[:, q] > 0)
            with np.errstate(divide="ignore", over="ignore"):
                ratio = (work[counts, q] / ms[counts]).max(initial=0.0)
            rate[g, q] = ratio if g == kinds or kinds > 1 else 1.0
    return work, rate


def stage_limits(problem: StageProblem, limits: FloatArray) -> StageLimits:
    """Return what follows from limits in ms on all measures."""
    limit = limits * (1.0 + RELATIVE_SLACK)
    left = (problem.available - problem.used)[:, :, None]
    with np.errstate(invalid="ignore"):
        # A CPU that does some work in no time can do any amount of it.
        able = np.where(np.isinf(problem.rate), np.inf, problem.rate * limit)
        room = np.where(left > 0, left * able, 0.0).sum(axis=1)
    # A dearer tensor can never cross an accelerator's border; capped, it cannot swamp the sums either.
    dearest = 2.0 * problem.max_replicas * limit[-1] / problem.link_factor.min(initial=1.0)
    return StageLimits(limit=limit, weight=np.minimum(problem.tensor_weight, dearest), room=room)


def most_replicas(deployment: Deployment) -> int:
    """Return on how many accelerators a stage may run at most, at least 1."""
    allowed = 1 if deployment.replication is None else deployment.replication.max_replicas
    return max(1, min(allowed, deployment.num_accelerators))


def _pass_of(tensor: PassTensor) -> int:
    """Tell in which pass a tensor is paid for."""
    if tensor.is_backward:
        return BACKWARD
    return MIXED if tensor.backward_readers else FORWARD


def threshold_that_allows_all(costs: StageCosts) -> float:
    """Return a value in ms that no split needs to exceed."""
    on_one_accelerator = 0.0
    transfer_ms = sum(weight for _, weight in costs.tensors)
    for times, kind in zip(costs.accelerator_ms[:, :, -1], costs.kinds, strict=True):
        finite = times[np.isfinite(times)]
        on_one_accelerator = max(on_one_accelerator, float(finite.sum() + transfer_ms / kind.link_speed))
    # For GPipe the maxima of the passes may be on two devices.
    both = 1.0 if costs.cpu_ms.shape[1] == 1 else 2.0
    return both * max(on_one_accelerator, float(costs.cpu_ms[:, -1].sum()), 1e-9)


def stage_loads(problem: StageProblem, stages: list[PlannedStage]) -> FloatArray:
    """Return the time of each stage per micro-batch and pass in ms, shape (stages, passes)."""
    passes = 1 if problem.cpu_ms.shape[1] == 1 else 2
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
        compute = problem.accelerator_ms[stage.kind, blocks, :passes].sum(axis=0)
        incoming, outgoing = (problem.link_factor[stage.kind] * transfers[i] for transfers in (received, sent))
        if problem.communication == SUM:
            loads[i] = compute + incoming + outgoing
        elif problem.communication == OVERLAPPED:
            loads[i] = np.maximum(compute, incoming + outgoing)
        else:
            loads[i] = compute + np.maximum(incoming, outgoing)
        # Replicas exchange gradients in the backward pass.
        sync_ms = float(problem.sync_factor[stage.kind] * problem.sync_ms[blocks].sum())
        loads[i, -1] += (stage.replicas - 1) * sync_ms
        loads[i] /= stage.replicas
    return loads
