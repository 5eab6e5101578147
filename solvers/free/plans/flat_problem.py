"""A problem as flat arrays for compiled searches, and how the loads of a plan change when a block moves.

Load is a cut of hyperedges, so moving block b from device s to device t changes the loads of s and t only: with
count[e, d] the number of ends of hyperedge e on device d, every other device sees e cut, and its writer elsewhere,
exactly when it did. A move therefore costs O(hyperedges of b), whether transfers add to the compute, overlap with it,
or run both ways at once. Each device has the times of its class, and its link speed; a CPU is a device whose link takes
no time and whose memory has no limit.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import Contraction, FloatArray, IntArray, compressed_rows

BitArray = npt.NDArray[np.uint64]

MODES = {Communication.SUM: 0, Communication.OVERLAPPED: 1, Communication.FULL_DUPLEX: 2}

MOST_FORWARD_NODES = 4000
"""The bit sets of convex splits grow with the square of the number of forward nodes; above this nothing is tried."""


class FlatProblem(NamedTuple):
    """A contraction as flat arrays; `neighbour_*` are rows of blocks that share a hyperedge with each block.

    `writer` is -1 where receiving and sending are not told apart. `node_*` are rows of the forward nodes of each block,
    `after` and `before` the bit sets of nodes, and `block_*` those of blocks, where splits must be convex; empty where
    they may be free.
    """

    time_ms: FloatArray  # (classes + 1, n): infinite where a block does not run; CPUs last
    class_of: IntArray  # (devices,): the row of its times
    link_factor: FloatArray  # (devices,): by what transfer times are multiplied; 0 for CPUs
    memory_limit: FloatArray  # (devices,)
    memory_bytes: FloatArray
    net_ptr: IntArray
    net_idx: IntArray
    net_weight: FloatArray
    net_size: IntArray
    net_writer: IntArray
    neighbour_ptr: IntArray
    neighbour_idx: IntArray
    num_devices: int
    mode: int
    node_ptr: IntArray
    node_idx: IntArray
    after: BitArray  # (forward nodes, words)
    before: BitArray
    block_nodes: BitArray  # (n, words)
    block_after: BitArray
    block_before: BitArray
    is_fixed: npt.NDArray[np.bool_]  # blocks that stay where they are


class ForwardOrder(NamedTuple):
    """The forward nodes of a graph by number, and per node the bit sets of what it reaches and what reaches it."""

    number: dict[int, int]
    after: BitArray
    before: BitArray

    @staticmethod
    def of(graph: DnnGraph) -> "ForwardOrder":
        """Return the forward order of a graph; a node reaches itself."""
        forward = [v for v in graph.topological_order if not graph.node_by_id[v].is_backward]
        number = {v: i for i, v in enumerate(forward)}
        after = np.zeros((len(forward), (len(forward) + 63) // 64), np.uint64)
        for i in range(len(forward)):
            after[i, i >> 6] = np.uint64(1 << (i & 63))
        before = after.copy()
        edges = [(number[u], number[v]) for u in forward for v in graph.readers[u] if v in number]
        for u, v in reversed(edges):
            after[u] |= after[v]
        for u, v in sorted(edges, key=lambda edge: edge[1]):
            before[v] |= before[u]
        return ForwardOrder(number, after, before)


def flat_problem(
    contraction: Contraction, deployment: Deployment, order: ForwardOrder | None, is_fixed: np.ndarray
) -> FlatProblem:
    """Return a contraction as flat arrays; splits must be convex in a forward `order` if one is given."""
    n = contraction.num_blocks
    nets: list[list[int]] = [[] for _ in range(n)]
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for e, hyperedge in enumerate(contraction.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
            neighbours[b].update(hyperedge.blocks)
    net_ptr, net_idx = compressed_rows(nets)
    neighbour_ptr, neighbour_idx = compressed_rows([sorted(others - {b}) for b, others in enumerate(neighbours)])
    if order is None:
        order = ForwardOrder({}, np.zeros((0, 0), np.uint64), np.zeros((0, 0), np.uint64))
    node_ptr, node_idx = compressed_rows(
        [[order.number[v] for v in ids if v in order.number] for ids in contraction.members]
    )
    block_nodes, block_after, block_before = _bits_of_blocks(node_ptr, node_idx, order.after, order.before)
    duplex = deployment.communication is Communication.FULL_DUPLEX
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    times = contraction.class_ms if deployment.classes else contraction.accelerator_ms[None, :]
    class_of = [i for i, c in enumerate(deployment.classes) for _ in range(c.count)] if deployment.classes else [0] * k
    return FlatProblem(
        time_ms=np.vstack([times, contraction.cpu_ms]),
        class_of=np.array([*class_of, *[len(times)] * num_cpus], np.int32),
        link_factor=np.array([*(1.0 / deployment.link_speed_of(d) for d in range(k)), *[0.0] * num_cpus]),
        memory_limit=np.array([*(deployment.memory_limit_of(d) for d in range(k)), *[np.inf] * num_cpus]),
        memory_bytes=contraction.memory_bytes,
        net_ptr=net_ptr,
        net_idx=net_idx,
        net_weight=np.array([h.weight_ms for h in contraction.hyperedges]),
        net_size=np.array([len(h.blocks) for h in contraction.hyperedges], np.int32),
        net_writer=np.array(
            [h.writer if duplex and h.writer is not None else -1 for h in contraction.hyperedges], np.int32
        ),
        neighbour_ptr=neighbour_ptr,
        neighbour_idx=neighbour_idx,
        num_devices=deployment.num_devices,
        mode=MODES[deployment.communication],
        node_ptr=node_ptr,
        node_idx=node_idx,
        after=order.after,
        before=order.before,
        block_nodes=block_nodes,
        block_after=block_after,
        block_before=block_before,
        is_fixed=is_fixed,
    )


@njit(cache=True, nogil=True)
def count_ends(problem, device):
    """Ends of each hyperedge on each device, shape (hyperedges, devices + 1): the last for blocks without one yet."""
    counts = np.zeros((problem.net_weight.size, problem.num_devices + 1), np.int32)
    for b in range(device.size):
        for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
            counts[problem.net_idx[i], device[b]] += 1
    return counts


@njit(cache=True, nogil=True)
def combined(mode, compute, received, sent, factor):
    """Load of a device in ms; unless receiving and sending are told apart, `received` is both.

    Both are at link speed 1 and multiplied by the device's `factor`.
    """
    if mode == 0:
        return compute + factor * received
    if mode == 1:
        return max(compute, factor * received)
    return compute + factor * max(received, sent)


@njit(cache=True, nogil=True)
def fill_parts(problem, device, counts, parts):
    """Fill parts[d] = compute, received, sent of each device in ms, the latter at link speed 1, computed afresh.

    Blocks without a device yet have a number beyond the last one's.
    """
    parts[:] = 0.0
    for b in range(device.size):
        d = device[b]
        if d < problem.num_devices:
            parts[d, 0] += problem.time_ms[problem.class_of[d], b]
    for e in range(problem.net_weight.size):
        writer = problem.net_writer[e]
        for d in range(problem.num_devices):
            if 0 < counts[e, d] < problem.net_size[e]:
                sends = writer >= 0 and device[writer] == d
                parts[d, 2 if sends else 1] += problem.net_weight[e]


@njit(cache=True, nogil=True)
def largest_load(problem, device):
    """Largest load of a plan in ms."""
    parts = np.zeros((problem.num_devices, 3))
    fill_parts(problem, device, count_ends(problem, device), parts)
    largest = 0.0
    for d in range(problem.num_devices):
        load = combined(problem.mode, parts[d, 0], parts[d, 1], parts[d, 2], problem.link_factor[d])
        largest = max(largest, load)
    return largest


@njit(cache=True, nogil=True)
def after_step(problem, device, counts, b, d, step, parts):
    """Compute, received and sent of device d, from `parts`, once block b has joined (step 1) or left it (-1)."""
    compute, received, sent = parts
    compute += step * problem.time_ms[problem.class_of[d], b]
    if problem.link_factor[d] == 0.0:
        return compute, 0.0, 0.0
    for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
        e = problem.net_idx[i]
        count, size, weight = counts[e, d], problem.net_size[e], problem.net_weight[e]
        writer = problem.net_writer[e]
        if writer < 0:
            if 0 < count < size:
                received -= weight
            if 0 < count + step < size:
                received += weight
            continue
        sent_before = writer >= 0 and device[writer] == d
        sends_after = step == 1 if writer == b else sent_before
        if 0 < count < size:
            if sent_before:
                sent -= weight
            else:
                received -= weight
        if 0 < count + step < size:
            if sends_after:
                sent += weight
            else:
                received += weight
    return compute, received, sent


@njit(cache=True, nogil=True)
def _bits_of_blocks(node_ptr, node_idx, after, before):
    """Bit sets per block: its nodes, what any of them reaches, and what reaches any of them."""
    n, words = node_ptr.size - 1, after.shape[1]
    nodes, afters = np.zeros((n, words), np.uint64), np.zeros((n, words), np.uint64)
    befores = np.zeros((n, words), np.uint64)
    for b in range(n):
        for i in range(node_ptr[b], node_ptr[b + 1]):
            v = node_idx[i]
            nodes[b, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
            for w in range(words):
                afters[b, w] |= after[v, w]
                befores[b, w] |= before[v, w]
    return nodes, afters, befores


@njit(cache=True, nogil=True)
def place(problem, device, counts, memory, b, d):
    """Move block b to device d in all books but the loads."""
    s = device[b]
    for i in range(problem.net_ptr[b], problem.net_ptr[b + 1]):
        counts[problem.net_idx[i], s] -= 1
        counts[problem.net_idx[i], d] += 1
    memory[s] -= problem.memory_bytes[b]
    memory[d] += problem.memory_bytes[b]
    device[b] = d
