"""Plans from prices: one device after the other is filled with the dearest contents of the blocks that are left.

Prices that prove a bound (`solvers.free.column_generation`) say what blocks are worth to a plan whose loads are all at
the threshold: in the best such plan nearly every device holds contents that are nearly the dearest. So a plan made of
dear contents is near a good one, and often of another kind than what annealing from a chain gets to (a Lagrangian
heuristic: Fisher 1981; as greedy as the first dive of branch and price). What no device has taken joins the device
whose load it raises least, in the order of the diagram, so that neighbours follow each other. Prices and the choice
among dear contents vary at random, as the threshold may: the first plan is seldom the best. Annealing does the rest.

Dear contents are sought anew, by pricing, or taken from those that the search for prices has met, which takes
milliseconds: these may hold a few blocks that other devices have taken.

Nothing is proven here, and memory and convexity are kept: a block that does not fit is left for the others.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from solvers.free.column_generation import DeviceContents
from solvers.free.merged_blocks import Prices
from solvers.free.plans.device_sets import device_sets, enter, is_convex, may_join
from solvers.free.plans.flat_problem import (
    FlatProblem,
    after_step,
    combined,
    count_ends,
    fill_parts,
    flat_problem,
    place,
)
from solvers.free.pricing import SMALL, Tables
from solvers.model.deployment import Deployment
from solvers.problem.contraction import Contraction, FloatArray, IntArray

NOISES = (0.0, 0.02, 0.1, 0.3)
"""Standard deviations of a price's change, as shares of it."""
EFFORTS: tuple[tuple[int, Tables], ...] = ((1, ()), (2, ()), (2, (SMALL,)))
"""Efforts and tables of pricing: the better it is, the more alike are the contents that it finds."""
DEAR_SHARE, DEAREST_SHARE = 0.97, 0.5
"""Contents of so large a share of the dearest ones' price may be taken instead, and how often the dearest are."""
KNOWN_SHARE = 0.75
"""How often a plan is made of contents that are known."""
MOST_KNOWN = 2000
"""So many of them, the latest, which come of the best prices."""
OVERLAPS = (0.0, 0.1, 0.5)
"""What contents lose for a block that another device has taken, as a share of its price."""
POWER = 8.0
"""Blocks that are left join the device on which sum_d (load_d / threshold)^POWER grows least."""


def filled(
    prices: Prices,
    threshold_ms: float,
    problem: FlatProblem,
    fixed: IntArray,
    rng: np.random.Generator,
    check: Callable[[], object],
) -> IntArray | None:
    """Return the device of each block in a plan of dear contents up to a threshold; None if some block fits nowhere.

    `fixed` has the device of blocks that must be there, and -1 for others. What `check`, called often, raises ends the
    work.
    """
    contents, parts = prices.contents, prices.parts
    price = prices.price * (1 + float(rng.choice(NOISES)) * rng.standard_normal(len(prices.price)))
    device = fixed.copy()
    has_kind = {d for devices in contents.devices for d in devices}
    # Where prices know of CPUs that the problem has not, as of one on accelerators alone, these take nothing.
    turns = [(kind, d) for kind, devices in enumerate(contents.devices) for d in devices if d < problem.num_devices]
    turns += [(-1, d) for d in range(problem.num_devices) if d not in has_kind]
    forbidden = 10.0 * max(float(np.abs(price).sum()), 1e-300)
    is_taken = np.zeros(len(price), np.bool_)
    is_taken[parts[fixed >= 0]] = True
    num_known = MOST_KNOWN if rng.random() < KNOWN_SHARE else 0
    known = [contents.known(kind, threshold_ms, num_known) for kind in range(len(contents.devices))]
    for turn in rng.permutation(len(turns)).tolist():
        kind, d = turns[turn]
        check()
        if kind >= 0 and len(known[kind]):
            lost = float(rng.choice(OVERLAPS)) * np.abs(price)
            worth = known[kind] @ np.where(is_taken, -lost, price).astype(np.float32)
            chosen = known[kind][_one_of_the_dearest(worth, rng)] > 0
        elif kind >= 0:
            chosen = _dear(prices, kind, np.where(is_taken, -forbidden, price), threshold_ms, rng, check)
        else:
            chosen = _for_a_cpu(problem, parts, np.where(is_taken, -forbidden, price), d, threshold_ms)
        chosen &= ~is_taken
        _put(problem, device, np.flatnonzero(chosen[parts] & (device < 0)).astype(np.int32), d)
        is_taken[parts[device >= 0]] = True
    order = np.argsort(np.argsort(contents.order)[parts], kind="stable").astype(np.int32)
    is_complete = _join_least_loaded(problem, device, order, threshold_ms)
    return device if is_complete else None


def filled_by_work(contraction: Contraction, deployment: Deployment) -> IntArray | None:
    """Return a plan made with the work of blocks as their prices, and a fair share of it as the threshold."""
    n = contraction.num_blocks
    work = np.where(np.isfinite(contraction.accelerator_ms), contraction.accelerator_ms, contraction.cpu_ms)
    share_ms = float(work.sum()) / deployment.num_devices
    prices = Prices(DeviceContents(contraction, deployment), work, np.arange(n, dtype=np.int32), 0.0)
    problem = flat_problem(contraction, deployment, None, np.zeros(n, np.bool_))
    return filled(prices, share_ms, problem, np.full(n, -1, np.int32), np.random.default_rng(0), object)


def _dear(
    prices: Prices,
    kind: int,
    price: FloatArray,
    threshold_ms: float,
    rng: np.random.Generator,
    check: Callable[[], object],
) -> np.ndarray:
    """Return dear contents of an accelerator of a kind."""
    effort, tables = EFFORTS[rng.integers(len(EFFORTS))]
    found = prices.contents.dearest_of(kind, price, threshold_ms, effort, tables, check)
    return np.array(found.sets[_one_of_the_dearest(found.prices, rng)])


def _one_of_the_dearest(worth: FloatArray, rng: np.random.Generator) -> int:
    """Return the index of the dearest contents, or of others that are worth nearly as much."""
    dearest = int(worth.argmax())
    if rng.random() < DEAREST_SHARE:
        return dearest
    most = float(worth[dearest])
    return int(rng.choice(np.flatnonzero(worth >= most - (1 - DEAR_SHARE) * abs(most))))


def _for_a_cpu(problem: FlatProblem, parts: IntArray, price: FloatArray, cpu: int, threshold_ms: float) -> np.ndarray:
    """Return the blocks that bring a CPU most per time, as many as it can run within the threshold."""
    took = np.bincount(parts, problem.time_ms[problem.class_of[cpu]], len(price))
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(price > 0, price / took, -1.0)
    chosen = np.zeros(len(price), np.bool_)
    room = threshold_ms
    for b in np.argsort(-rate, kind="stable").tolist():
        if rate[b] > 0 and took[b] <= room:
            chosen[b] = True
            room -= took[b]
    return chosen


@njit(cache=True, nogil=True)
def _put(problem, device, blocks, d):
    """Put these blocks on device d, but those that do not run or fit there, or none if the set would not be convex."""
    room = problem.memory_limit[d]
    for b in range(device.size):
        if device[b] == d:
            room -= problem.memory_bytes[b]
    for b in blocks:
        if problem.memory_bytes[b] <= room and not np.isinf(problem.time_ms[problem.class_of[d], b]):
            device[b] = d
            room -= problem.memory_bytes[b]
    if problem.after.shape[1] > 0 and not is_convex(problem, device, d):
        for b in blocks:
            if device[b] == d:
                device[b] = -1


@njit(cache=True, nogil=True)
def _join_least_loaded(problem, device, order, scale):
    """Put each block without a device on that whose load grows least, in this order; say whether all found one."""
    num_devices = problem.num_devices
    for b in range(device.size):
        if device[b] < 0:
            device[b] = num_devices
    counts = count_ends(problem, device)
    parts = np.zeros((num_devices, 3))
    fill_parts(problem, device, counts, parts)
    memory = np.zeros(num_devices + 1)
    for b in range(device.size):
        memory[device[b]] += problem.memory_bytes[b]
    sets = device_sets(problem, device)
    for b in order:
        if device[b] < num_devices:
            continue
        best, least = -1, np.inf
        for d in range(num_devices):
            if np.isinf(problem.time_ms[problem.class_of[d], b]):
                continue
            if memory[d] + problem.memory_bytes[b] > problem.memory_limit[d]:
                continue
            own = parts[d, 0], parts[d, 1], parts[d, 2]
            then = after_step(problem, device, counts, b, d, 1, own)
            factor = problem.link_factor[d]
            old = combined(problem.mode, own[0], own[1], own[2], factor) / scale
            new = combined(problem.mode, then[0], then[1], then[2], factor) / scale
            growth = new**POWER - old**POWER
            if growth < least and may_join(problem, sets, device, b, d):
                best, least = d, growth
        if best < 0:
            return False
        own = parts[best, 0], parts[best, 1], parts[best, 2]
        then = after_step(problem, device, counts, b, best, 1, own)
        parts[best, 0], parts[best, 1], parts[best, 2] = then
        place(problem, device, counts, memory, b, best)
        enter(problem, sets, b, best)
    return True
