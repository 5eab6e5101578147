"""Local search (Tarnawski et al., NeurIPS 2020, section 6): from random plans, always the best single move.

Every class starts on a random accelerator. In each step all moves of one class to another accelerator are tried, and
the one that leaves the least max-load is made, until none gains `LEAST_GAIN_MS`; `RESTARTS` descents in all. Memory and
CPUs are ignored; nodes that run on CPUs only stay on the first CPU. Each accelerator has the times and the link of its
class.

A move of class b from s to t changes the loads of s and t only: with count[e, d] the ends of hyperedge e on device d,
every other device sees e cut exactly when it did, and whether the writer is elsewhere too. So one move is judged in
O(hyperedges of b + devices), a step in O(ends of hyperedges x k + classes x k^2).
"""

import math
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.contraction import Contraction, FloatArray, IntArray, compressed_rows, contract
from solvers.problem.solving import Problem, Reporter

RESTARTS = 10
LEAST_GAIN_MS = 1e-5
SEED = 0
REPORT_SECONDS = 0.1

MODES = {Communication.SUM: 0, Communication.OVERLAPPED: 1, Communication.FULL_DUPLEX: 2}


class Arrays(NamedTuple):
    """A contraction as flat arrays; `writer` is -1 where it makes no difference.

    `time_ms[d, b]` is the time of block b on accelerator d, `link_factor[d]` by what its transfers are multiplied.
    """

    time_ms: FloatArray
    link_factor: FloatArray
    net_ptr: IntArray
    net_idx: IntArray
    net_weight: FloatArray
    net_size: IntArray
    writer: IntArray
    movable: IntArray
    num_accelerators: int
    mode: int


def local_search_splits(problem: Problem, reporter: Reporter) -> Iterator[Split]:
    """Yield the plan at the end of each descent; the last one may be cut short by the time limit."""
    deployment = problem.deployment
    arrays, blocks, on_cpu_ms = prepared(problem.graph, deployment)
    for restart in range(RESTARTS):
        device = random_start(arrays, blocks, deployment, SEED + restart)
        reported = -math.inf
        while reporter.seconds_left != 0 and best_move(arrays, device, on_cpu_ms):
            if time.monotonic() - reported >= REPORT_SECONDS:
                reporter.report(f"descent {restart + 1} of {RESTARTS}")
                reported = time.monotonic()
        yield Split.from_device_of(blocks.device_of({b: int(d) for b, d in enumerate(device)}), deployment)
        if reporter.seconds_left == 0:
            return


def prepared(graph: DnnGraph, deployment: Deployment) -> tuple[Arrays, Contraction, float]:
    """Return what `best_move` takes, the classes as blocks, and the load in ms of the first CPU."""
    blocks = contract(graph, Family.FREE, deployment, join_idle=False)
    nets: list[list[int]] = [[] for _ in range(blocks.num_blocks)]
    for e, hyperedge in enumerate(blocks.hyperedges):
        for b in hyperedge.blocks:
            nets[b].append(e)
    net_ptr, net_idx = compressed_rows(nets)
    supported = np.isfinite(blocks.accelerator_ms)
    k = deployment.num_accelerators
    rows = [blocks.class_ms[i] for i, c in enumerate(deployment.classes) for _ in range(c.count)]
    times = np.array(rows or [blocks.accelerator_ms] * k).reshape(k, blocks.num_blocks)
    arrays = Arrays(
        time_ms=np.where(supported, times, 0.0),
        link_factor=np.array([1.0 / deployment.link_speed_of(d) for d in range(k)]),
        net_ptr=net_ptr,
        net_idx=net_idx,
        net_weight=np.array([h.weight_ms for h in blocks.hyperedges], np.float64),
        net_size=np.array([len(h.blocks) for h in blocks.hyperedges], np.int32),
        writer=np.array([-1 if h.writer is None else h.writer for h in blocks.hyperedges], np.int32),
        movable=np.flatnonzero(supported).astype(np.int32),
        num_accelerators=k,
        mode=MODES[deployment.communication],
    )
    return arrays, blocks, float(blocks.cpu_ms[~supported].sum()) if deployment.num_cpus else 0.0


def random_start(arrays: Arrays, blocks: Contraction, deployment: Deployment, seed: int) -> IntArray:
    """Return a random accelerator for each block; the first CPU, if there is one, for a block that needs it."""
    k = deployment.num_accelerators
    device = np.full(blocks.num_blocks, k if deployment.num_cpus else 0, np.int32)
    device[arrays.movable] = np.random.default_rng(seed).integers(k, size=arrays.movable.size)
    return device


@njit(cache=True, nogil=True)
def _load(mode, compute, receive, send, factor):
    """One accelerator's load in ms under a way to communicate; transfers are at link speed 1, to be multiplied."""
    receive, send = factor * receive, factor * send
    if mode == 0:
        return compute + (receive + send)
    if mode == 1:
        return max(compute, receive + send)
    return compute + max(receive, send)


@njit(cache=True, nogil=True)
def best_move(arrays, device, least_ms):
    """Make the move that leaves the least max-load, in place; return whether one gains enough.

    `least_ms` is a load that no move changes.
    """
    n, k, num_nets = device.size, arrays.num_accelerators, arrays.net_weight.size
    counts = np.zeros((num_nets, k + 1), np.int32)
    compute, receive, send = np.zeros(k), np.zeros(k), np.zeros(k)
    for b in range(n):
        if device[b] < k:
            compute[device[b]] += arrays.time_ms[device[b], b]
        for i in range(arrays.net_ptr[b], arrays.net_ptr[b + 1]):
            counts[arrays.net_idx[i], device[b]] += 1
    for e in range(num_nets):
        writer_device = device[arrays.writer[e]] if arrays.writer[e] >= 0 else -1
        for d in range(k):
            if 0 < counts[e, d] < arrays.net_size[e]:
                if d == writer_device:
                    send[d] += arrays.net_weight[e]
                else:
                    receive[d] += arrays.net_weight[e]
    loads = np.empty(k)
    for d in range(k):
        loads[d] = _load(arrays.mode, compute[d], receive[d], send[d], arrays.link_factor[d])
    value = max(least_ms, loads.max())

    best, best_block, best_device = np.inf, -1, -1
    for j in range(arrays.movable.size):
        b = arrays.movable[j]
        s = device[b]
        left_receive, left_send = receive[s], send[s]
        for i in range(arrays.net_ptr[b], arrays.net_ptr[b + 1]):
            e = arrays.net_idx[i]
            weight, size, count = arrays.net_weight[e], arrays.net_size[e], counts[e, s]
            writer_was_here = arrays.writer[e] >= 0 and device[arrays.writer[e]] == s
            if count < size:
                if writer_was_here:
                    left_send -= weight
                else:
                    left_receive -= weight
            if count > 1:
                if writer_was_here and arrays.writer[e] != b:
                    left_send += weight
                else:
                    left_receive += weight
        left = _load(arrays.mode, compute[s] - arrays.time_ms[s, b], left_receive, left_send, arrays.link_factor[s])
        for t in range(k):
            if t == s:
                continue
            new_receive, new_send = receive[t], send[t]
            for i in range(arrays.net_ptr[b], arrays.net_ptr[b + 1]):
                e = arrays.net_idx[i]
                weight, size, count = arrays.net_weight[e], arrays.net_size[e], counts[e, t]
                writer_was_here = arrays.writer[e] >= 0 and device[arrays.writer[e]] == t
                if count > 0:
                    if writer_was_here:
                        new_send -= weight
                    else:
                        new_receive -= weight
                if count + 1 < size:
                    if writer_was_here or arrays.writer[e] == b:
                        new_send += weight
                    else:
                        new_receive += weight
            after = _load(arrays.mode, compute[t] + arrays.time_ms[t, b], new_receive, new_send, arrays.link_factor[t])
            after = max(after, left, least_ms)
            for d in range(k):
                if d != s and d != t:
                    after = max(after, loads[d])
            if after < best:
                best, best_block, best_device = after, b, t
    if best > value - LEAST_GAIN_MS:
        return False
    device[best_block] = best_device
    return True
