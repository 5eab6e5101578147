"""Proven lower bounds on the max-load of any split, and why there may be no split at all."""

import math

import numpy as np

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.problem.contraction import BlockTimes, Contraction, FloatArray
from solvers.quantities import binary_sizes

PRICE_STEPS, PRICE_STEP = 300, 0.3
"""Steps that look for the best prices of device time, and the size of the first one."""

ROUNDING = 1e-11
"""Sums of up to some ten thousand times are off by less, relatively; bounds are lowered by it."""


def work_bound(contraction: Contraction, deployment: Deployment) -> float:
    """Return a lower bound in ms on the max-load of every split, transfers and memory ignored.

    The larger of (a) the dearest block on its better device, and (b) the least T for which the blocks, cut into
    arbitrary parts, fit into k T of accelerator and l T of CPU time. (b) is a fractional knapsack: CPUs take the
    blocks with the best ratio of accelerator to CPU time first, those that accelerators cannot run before all
    others. Infinite when some block runs on no device. Where accelerators are of several classes (b) is a linear
    program with a device type per class, and what counts is the value of a solution of its dual (`_priced_bound`).

    Holds however devices communicate, since no load is less than its compute. With replicas the dearest block may be
    shared by as many accelerators as a stage may have; in (b) a stage on r of them takes up at least its work, as
    r of the k times T.
    """
    return max(largest_block(contraction, deployment)[1], balance_bound(contraction, deployment))


def largest_block(contraction: Contraction | BlockTimes, deployment: Deployment) -> tuple[int, float]:
    """Return the number of the block that takes longest on its better device, and bound (a) of `work_bound` in ms."""
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    best_ms = np.full_like(contraction.accelerator_ms, np.inf)
    replicas = 1
    if k:
        replicas = 1 if deployment.replication is None else min(k, deployment.replication.max_replicas)
        best_ms = contraction.accelerator_ms / replicas  # with classes, that of the fastest
    if num_cpus:
        best_ms = np.minimum(best_ms, contraction.cpu_ms)
    b = int(np.argmax(best_ms))
    return b, float(best_ms[b]) * (1 if replicas == 1 and not num_cpus else 1 - ROUNDING)


def balance_bound(contraction: Contraction | BlockTimes, deployment: Deployment) -> float:
    """Return bound (b) of `work_bound` in ms: all work divided perfectly over all devices, transfers for nothing."""
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    if k and deployment.classes:
        rows = [(c.count, contraction.class_ms[i]) for i, c in enumerate(deployment.classes) if c.count]
        rows += [(num_cpus, contraction.cpu_ms)] if num_cpus else []
        return _priced_bound(np.array([row for _, row in rows]), np.array([count for count, _ in rows]))
    accelerator_ms = contraction.accelerator_ms if k else np.full_like(contraction.accelerator_ms, np.inf)
    if not num_cpus:
        return float(accelerator_ms.sum()) / k * (1 - ROUNDING) if k else np.inf
    cpu_ms = contraction.cpu_ms
    cpu_only = np.isinf(accelerator_ms)
    forced_ms = float(cpu_ms[cpu_only].sum())
    free_accelerator_ms, free_cpu_ms = accelerator_ms[~cpu_only], cpu_ms[~cpu_only]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(free_accelerator_ms > 0, free_accelerator_ms / free_cpu_ms, 0.0)
    order = np.argsort(-ratio, kind="stable")
    # Corner points of the trade-off: CPU time spent, accelerator time left over.
    spent = np.concatenate([[0.0], np.cumsum(free_cpu_ms[order])]) + forced_ms
    # Summed from the end: a difference of two large sums would be off by more than its small blocks.
    left = np.concatenate([np.cumsum(free_accelerator_ms[order][::-1])[::-1], [0.0]])
    return _least_time(spent, left, k, num_cpus) * (1 - ROUNDING)


def _priced_bound(time_ms: FloatArray, count: FloatArray) -> float:
    """Return a lower bound in ms on the least T for which the blocks, cut into parts, fit into count_g T of each type.

    `time_ms` is (types, n). For any prices y_g >= 0 of device time with sum_g count_g y_g = 1 a block costs at least
    min_g y_g t_gb, and all device time together T: so T >= sum_b min_g y_g t_gb, and the best prices give T itself (the
    dual of the linear program).
    """
    if not np.isfinite(time_ms).any(axis=0).all():
        return np.inf
    if not (np.where(np.isfinite(time_ms), time_ms, 0.0).sum(axis=1) > 0).all():
        return 0.0  # a type that does all it can do in no time
    price = device_prices(time_ms, count)
    return float((price[:, None] * time_ms).min(axis=0).sum()) * (1 - ROUNDING)


def device_prices(time_ms: FloatArray, count: FloatArray) -> FloatArray:
    """Return prices y_g > 0 of device time, sum_g count_g y_g = 1, for which sum_b min_g y_g t_gb is about the largest.

    `time_ms` is (types, n): every type takes some time for some block, and every block can run on some type. Prices
    start in proportion to speed, which is best where no block prefers a type more than others do, and rise most where
    the blocks that are cheapest there ask for most time (multiplicative weights).
    """
    work = np.where(np.isfinite(time_ms), time_ms, 0.0)
    total = work.sum(axis=1)
    on_all = np.isfinite(time_ms).all(axis=0)
    total = np.where(on_all.any() and (time_ms[:, on_all].sum(axis=1) > 0), time_ms[:, on_all].sum(axis=1), total)
    price: FloatArray = 1.0 / total
    best, best_price = -1.0, price
    for step in range(PRICE_STEPS):
        price = price / (count * price).sum()
        cost = price[:, None] * time_ms
        cheapest = cost.argmin(axis=0)
        value = float(cost.min(axis=0).sum())
        if value > best:
            best, best_price = value, price
        asked = np.bincount(cheapest, work[cheapest, np.arange(work.shape[1])], len(count)) / count
        largest = asked.max()
        if largest == 0:
            break
        price = price * np.exp(PRICE_STEP / math.sqrt(1 + step) * (asked / largest))
    return best_price


def block_work(time_ms: FloatArray, count: np.ndarray) -> FloatArray:
    """Return the work of each block: its time on the kind where that is cheapest, times the price of the kind's time.

    `time_ms` is (kinds, n); a block that runs on no kind counts as no work.
    """
    runs = np.isfinite(time_ms).any(axis=0)
    works = (np.where(np.isfinite(time_ms), time_ms, 0.0) > 0).any(axis=1)
    work = np.zeros(time_ms.shape[1])
    if works.all() and runs.any():
        price = device_prices(time_ms[:, runs], count.astype(np.float64))
        work[runs] = (price[:, None] * time_ms[:, runs]).min(axis=0)
    return work  # a kind that does all it can do in no time does any amount of work


def _least_time(spent: FloatArray, left: FloatArray, k: int, num_cpus: int) -> float:
    """Return the least T with CPU time at most l T and accelerator time at most k T on a convex trade-off curve."""
    cpu_time = spent / num_cpus
    if not k:
        return float(cpu_time[-1])
    accelerator_time = left / k
    # The first corner where the CPUs are the busier side; T lies on the segment that leads to it.
    i = int(np.argmax(cpu_time >= accelerator_time)) if (cpu_time >= accelerator_time).any() else -1
    if i == -1:
        return float(accelerator_time[-1])
    if i == 0:
        return float(cpu_time[0])
    rise = (cpu_time[i] - cpu_time[i - 1]) + (accelerator_time[i - 1] - accelerator_time[i])
    share = (accelerator_time[i - 1] - cpu_time[i - 1]) / rise
    return float(cpu_time[i - 1] + share * (cpu_time[i] - cpu_time[i - 1]))


def why_infeasible(graph: DnnGraph, contraction: Contraction, deployment: Deployment) -> str | None:
    """Return one sentence that proves no split of the contraction's family exists, or None when none is seen.

    Looks at reasons that need no search: a block that no device can run or hold, and total memory.
    """
    k, num_cpus, memory = deployment.num_accelerators, deployment.num_cpus, deployment.largest_memory_bytes
    if k + num_cpus == 0:
        return "There are no devices; add an accelerator or a CPU."
    if num_cpus:
        return None  # a CPU runs every node and has no memory limit
    for b, members in enumerate(contraction.members):
        if np.isinf(contraction.accelerator_ms[b]):
            v = next(v for v in members if not graph.node_by_id[v].runs_on_accelerator)
            label = graph.node_by_id[v].label
            return f"{label[0].upper()}{label[1:]} runs on no device: it needs a CPU and there is none; add a CPU."
    if memory is None:
        return None
    fits = deployment.memory_limit_bytes
    largest = int(np.argmax(contraction.memory_bytes))
    if contraction.memory_bytes[largest] > fits:
        members = contraction.members[largest]
        what = (
            graph.node_by_id[members[0]].label
            if len(members) == 1
            else f"The {len(members)} nodes that must stay together with {graph.node_by_id[members[0]].label}"
        )
        verb = "needs" if len(members) == 1 else "need"
        has = "the largest accelerator has" if deployment.classes else "an accelerator has"
        needed, size = binary_sizes([float(contraction.memory_bytes[largest]), memory])
        return f"{what[0].upper()}{what[1:]} {verb} {needed}, {has} {size}; give accelerators more memory or add a CPU."
    total = float(contraction.memory_bytes.sum())
    if total > sum(deployment.memory_limit_of(d) for d in range(k)):
        kinds = [(c.count, c.memory_bytes or 0.0) for c in deployment.classes if c.count] or [(k, memory)]
        needed, *sizes = binary_sizes([total, *(size for _, size in kinds)])
        available = " + ".join(f"{count} × {size}" for (count, _), size in zip(kinds, sizes, strict=True))
        return f"The graph needs {needed}, {available} available; add accelerators, memory or a CPU."
    return None
