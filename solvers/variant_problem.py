"""What stages cost in the variants of the model, as the arrays of `solvers.variant_kernel`, and the load of each stage.

Measures and the formulas of loads, memory and replicas are described there. A problem turned backwards has its blocks
numbered from the last to the first and its edges reversed, so that its chains are those of the graph from the end.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds import work_bound
from solvers.contraction import Contraction, FloatArray, compressed_rows
from solvers.costs import Objective
from solvers.deployment import Communication, Deployment
from solvers.graph import DnnGraph
from solvers.ideal_table import words_for
from solvers.memory import sync_bandwidth, training_bytes, weight_bytes
from solvers.passes import PassTensor, pass_ms, pass_tensors
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
)

_NUMBER_OF = {Communication.SUM: SUM, Communication.OVERLAPPED: OVERLAPPED, Communication.FULL_DUPLEX: FULL_DUPLEX}


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """The blocks of one stage and the accelerators that run them; `replicas` is 0 for a CPU."""

    blocks: tuple[int, ...]
    replicas: int


@dataclass(frozen=True)
class StageCosts:
    """What blocks cost in each measure, and the tensors between them; see `VariantProblem`."""

    accelerator_ms: FloatArray
    cpu_ms: FloatArray
    tensors: list[tuple[PassTensor, float]]
    memory_bytes: FloatArray
    memory_factor: FloatArray
    sync_ms: FloatArray


def stage_costs(graph: DnnGraph, contraction: Contraction, deployment: Deployment, objective: Objective) -> StageCosts:
    """Return what the blocks of a contraction cost for an objective; for GPipe it must keep passes apart."""
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
        return StageCosts(
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
    return StageCosts(contraction.accelerator_ms[:, None], contraction.cpu_ms[:, None], tensors, *memory)


def _sync_ms(graph: DnnGraph, contraction: Contraction, deployment: Deployment) -> FloatArray:
    """Return twice the time in ms that the weights of each block take to move; zeros where nothing is replicated."""
    if deployment.replication is None or deployment.replication.max_replicas == 1:
        return np.zeros(contraction.num_blocks)
    weights = weight_bytes(graph)
    of_block = np.array([sum(weights[v] for v in members) for members in contraction.members])
    return 2 * of_block / sync_bandwidth(graph, deployment) if of_block.any() else of_block


def pass_bounds(contraction: Contraction, deployment: Deployment, costs: StageCosts) -> tuple[float, float]:
    """Return lower bounds on the forward and on the backward time of every split."""
    forward, backward = (
        work_bound(
            replace(contraction, accelerator_ms=costs.accelerator_ms[:, p], cpu_ms=costs.cpu_ms[:, p]), deployment
        )
        for p in (FORWARD, BACKWARD)
    )
    return forward, backward


def variant_problem(
    costs: StageCosts,
    contraction: Contraction,
    deployment: Deployment,
    edges: tuple[tuple[int, int], ...],
    backwards: bool,
    pinned: Collection[int] = (),
) -> VariantProblem:
    """Flatten a contraction, with `edges` in place of its own, for the kernel; `backwards` turns it around.

    No two `pinned` blocks share a stage.
    """
    n = contraction.num_blocks
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
        with np.errstate(divide="ignore", over="ignore"):
            speed_ratio[q] = (costs.accelerator_ms[runs, q] / costs.cpu_ms[runs, q]).max(initial=0.0)
    memory = deployment.memory_bytes
    return VariantProblem(
        accelerator_ms=np.ascontiguousarray(costs.accelerator_ms[number]),
        cpu_ms=np.ascontiguousarray(costs.cpu_ms[number]),
        speed_ratio=speed_ratio,
        memory_bytes=np.ascontiguousarray(costs.memory_bytes[number]),
        memory_factor=costs.memory_factor,
        memory_limit=np.inf if memory is None else memory,
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
        num_accelerators=deployment.num_accelerators,
        num_cpus=deployment.num_cpus,
        max_replicas=most_replicas(deployment),
        communication=_NUMBER_OF[deployment.communication],
    )


def most_replicas(deployment: Deployment) -> int:
    """Return on how many accelerators a stage may run at most, at least 1."""
    allowed = 1 if deployment.replication is None else deployment.replication.max_replicas
    return max(1, min(allowed, deployment.num_accelerators))


def _pass_of(tensor: PassTensor) -> int:
    """Tell in which pass a tensor is paid for."""
    if tensor.is_backward:
        return BACKWARD
    return MIXED if tensor.backward_readers else FORWARD


def threshold_that_allows_all(problem: VariantProblem) -> float:
    """Return a value in ms that no split needs to exceed."""
    finite = problem.accelerator_ms[np.isfinite(problem.accelerator_ms[:, -1]), -1]
    on_one_accelerator = float(finite.sum() + problem.tensor_weight.sum())
    # For GPipe the maxima of the passes may be on two devices.
    both = 1.0 if problem.accelerator_ms.shape[1] == 1 else 2.0
    return both * max(on_one_accelerator, float(problem.cpu_ms[:, -1].sum()), 1e-9)


def stage_loads(problem: VariantProblem, stages: list[PlannedStage]) -> FloatArray:
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
