"""The least change that makes a split valid again: few nodes are moved, and then the largest load is kept small.

`solvers.milp.repair_program` has the program. For a chain on a large graph it takes the devices in a given order:
orders are tried, first that of the nodes' places in the graph, then its neighbours, as long as time allows. What is
proven is then the fewest moves with the devices in that order, unless the program without the family's rule needs as
many.

A last program allows that many moves and minimises the largest load. Devices keep their names throughout, so there is
no symmetry to break.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from solvers.milp.highs import MilpRefusedError, run_highs
from solvers.milp.load_rows import Columns, add_max_load_objective
from solvers.milp.repair_program import Order, RepairProgram, RepairTask
from solvers.milp.repair_records import Repair, RepairQuestion
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.split import Family, Split, check_split
from solvers.problem.bounds import why_infeasible
from solvers.problem.contraction import contract
from solvers.problem.pins import NO_PINS, Pins
from solvers.quantities import count, counted, seconds

MAX_ROWS = 150_000
"""A larger program takes too long to be built while somebody waits."""

FIRST_SHARE = 0.7
"""Share of the time for the number of moves; the rest is for the largest load."""


def answer(question: RepairQuestion, on_progress: Any = None) -> Repair:
    """Return the repair that a question asks for; it reports nothing on its way."""
    return repair(
        question.graph,
        question.deployment,
        question.split,
        family=question.family,
        pins=question.pins,
        known=question.known,
        time_limit_s=question.time_limit_s,
    )


def repair(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    *,
    family: Family = Family.FREE,
    pins: Pins = NO_PINS,
    known: Split | None = None,
    time_limit_s: float = 5.0,
) -> Repair:
    """Return the valid split of a family that honours the pins and differs from a complete one in the fewest nodes.

    Among such splits one with a small largest load is taken, as far as the time allows. `known` is a split such as a
    solver's plan: it is the answer where nothing better is found in time, if it is valid here and honours the pins.
    Raises PinError for pins that do not belong to the graph or its devices.

    >>> from solvers.model.graph import Node
    >>> g = DnnGraph((Node(1, 1.0, 1.0, memory_bytes=2.0), Node(2, 1.0, 1.0, memory_bytes=2.0)), ())
    >>> repair(g, Deployment(2, memory_bytes=3.0), Split((frozenset({1, 2}), frozenset())), pins=Pins(((1, 0),))).moved
    (2,)
    """
    pins.require_known(graph, deployment)
    split = split.on(deployment)
    if not check_split(graph, deployment, split, family) and not pins.broken_by(graph, split):
        return Repair(split, (), True, False, "There is nothing to repair: the plan breaks no rule.")
    if split.replicas or split.subgraphs:
        return _none("Plans with replicas or several subgraphs per accelerator cannot be repaired; solve again.")
    if is_scheduled(graph, deployment):
        return _none("A repair cannot count the memory of micro-batches in flight; re-solve the rest instead.")
    contraction = contract(
        graph, family, deployment, join_idle=False, together=pins.groups, fixed=frozenset(pins.device_of)
    )
    reason = pins.why_impossible(graph, deployment, contraction) or why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return _none(f"No repair exists. {reason}", is_impossible=True)
    task = RepairTask(graph, deployment, contraction, family, pins.blocks(contraction), split.device_of())
    if task.num_rows > MAX_ROWS:
        return _none("The graph is too large for a repair; re-solve the rest instead.")
    if known is not None and (check_split(graph, deployment, known, family) or pins.broken_by(graph, known)):
        known = None
    return _solved(task, known, time_limit_s)


@dataclass
class _Found:
    """The best repair so far; `bound` is proven for every repair, or for those with the devices in `order`."""

    split: Split | None = None
    count: int = 0
    order: Order | None = None
    is_least: bool = False
    is_least_in_order: bool = False
    is_impossible: bool = False


def _solved(task: RepairTask, known: Split | None, time_limit_s: float) -> Repair:
    ends_s = time.monotonic() + time_limit_s
    search_ends_s = time.monotonic() + FIRST_SHARE * time_limit_s
    try:
        found = _fewest_moves(task, search_ends_s)
        if found.is_impossible:
            return _none(_why_impossible(task), is_impossible=True)
        if found.split is not None:
            best = _with_less_load(task, found.split, found, ends_s)
        elif known is not None:
            best = known
        else:
            return _none(f"No repair was found in {seconds(time_limit_s)}; re-solving the rest searches longer.")
    except MilpRefusedError:
        return _none("The repair was not computed: the graph's numbers lie too far apart for HiGHS.")
    if check_split(task.graph, task.deployment, best, task.family):  # rounding; never seen
        return _none("The repair that was found does not hold in exact numbers; re-solve the rest instead.")
    new_device = best.device_of()
    moved = tuple(sorted(v for v, d in new_device.items() if d != task.device_of[v]))
    return Repair(best, moved, found.is_least, False, _what_moved(task, new_device, moved, found))


def _fewest_moves(task: RepairTask, ends_s: float) -> _Found:
    if task.family is not Family.CHAIN or task.seeks_order:
        found = _Found()
        _improve(task, found, None, ends_s, task.family)
        return found
    # Without the family's rule: if that takes as many moves, no order takes fewer.
    relaxed = _Found()
    _improve(task, relaxed, None, ends_s, Family.FREE)
    if relaxed.is_impossible or (
        relaxed.split and not check_split(task.graph, task.deployment, relaxed.split, task.family)
    ):
        return relaxed
    found = _Found()
    for order in _orders(task):
        if time.monotonic() > ends_s:
            break
        _improve(task, found, order, ends_s, task.family)
        if relaxed.is_least and found.split is not None and found.count == relaxed.count:
            found.is_least = True
            break
    found.is_impossible = False  # another order may do
    return found


def _improve(task: RepairTask, found: _Found, order: Order | None, ends_s: float, family: Family) -> None:
    """Look for fewer moves than those found, with the devices in an order if there is one."""
    program = RepairProgram(task, order, family)
    program.problem += program.num_moves
    if found.split is not None:
        program.problem += program.num_moves <= found.count - 1, "fewer"
    outcome = run_highs(program.problem, time_limit_s=max(0.1, ends_s - time.monotonic()), gap=0.0)
    if outcome.solution is None:
        found.is_impossible = outcome.infeasible and found.split is None
        return
    found.split, found.order = program.read_split(outcome.solution), order
    found.count = task.num_moved(found.split)
    # What does not depend on variables is no part of the objective that HiGHS sees.
    fewest = None if outcome.bound is None else outcome.bound + program.num_moves.constant
    is_least = fewest is not None and fewest > found.count - 1 + 1e-6
    found.is_least, found.is_least_in_order = is_least and order is None, is_least


def _orders(task: RepairTask) -> Iterator[Order]:
    """Yield orders of the devices, the most promising first: idle devices take any place, neighbours are exchanged."""
    position = {v: i for i, v in enumerate(task.graph.topological_order)}
    places: dict[int, list[int]] = {}
    for v, d in task.device_of.items():
        if not task.graph.node_by_id[v].is_backward:
            places.setdefault(d, []).append(position[v])
    used = sorted(places, key=lambda d: sorted(places[d])[len(places[d]) // 2])
    idle = [d for d in range(task.deployment.num_devices) if d not in places]
    memory = dict.fromkeys(used, 0.0)
    for v, d in task.device_of.items():
        memory[d] = memory.get(d, 0.0) + task.graph.node_by_id[v].memory_bytes
    capacity = {d: task.deployment.capacity_bytes(d) for d in used}
    over = [d for d in used if capacity[d] is not None and memory[d] > (capacity[d] or 0.0)]
    at = used.index(over[0]) + 1 if over else len(used)
    tried: set[Order] = set()
    swaps = [(i, i + 1) for i in range(len(used) - 1)]
    others = [used] + [_exchanged(used, i, j) for i, j in swaps]
    for base in others:
        for place in dict.fromkeys([at, *range(len(used) + 1)]):
            order = (*base[:place], *idle, *base[place:])
            if order not in tried:
                tried.add(order)
                yield order
            if not idle:
                break


def _exchanged(order: list[int], i: int, j: int) -> list[int]:
    changed = list(order)
    changed[i], changed[j] = changed[j], changed[i]
    return changed


def _with_less_load(task: RepairTask, known: Split, found: _Found, ends_s: float) -> Split:
    """Return the best split of at most as many moves that is found in time, at least the known one."""
    before_ms = split_costs(task.graph, task.deployment, known).max_load_ms
    if ends_s <= time.monotonic() or before_ms <= 0:
        return known
    program = RepairProgram(task, found.order, task.family)
    model = program.model
    columns = Columns(
        program.problem,
        task.contraction,
        model.accelerator,
        model.cpu,
        task.deployment.communication,
        before_ms,
        model.column_kind,
    )
    add_max_load_objective(columns, 0.0)
    program.problem += program.num_moves <= found.count, "moves"
    outcome = run_highs(
        program.problem,
        time_limit_s=max(0.2, ends_s - time.monotonic()),
        gap=1e-4,
        start=program.start_values(known),
    )
    if outcome.solution is None:
        return known
    better = program.read_split(outcome.solution)
    is_valid = not check_split(task.graph, task.deployment, better, task.family)
    better_ms = split_costs(task.graph, task.deployment, better).max_load_ms
    return better if is_valid and task.num_moved(better) <= found.count and better_ms < before_ms else known


def _none(message: str, *, is_impossible: bool = False) -> Repair:
    return Repair(None, (), False, is_impossible, message)


def _why_impossible(task: RepairTask) -> str:
    pinned = " with the pins as they are" if task.fixed else ""
    wider = "" if task.family is Family.FREE else f", or allow more than {task.family.named} splits"
    unpin = "unpin some nodes, " if task.fixed else ""
    return f"No repair exists: no {task.family.named} split is valid{pinned}; {unpin}add memory or devices{wider}."


def _what_moved(task: RepairTask, new_device: dict[int, int], moved: Collection[int], found: _Found) -> str:
    """Say which nodes went where, most first, and whether fewer would have done."""
    name = task.deployment.device_name
    ways = Counter((task.device_of[v], new_device[v]) for v in moved)
    parts = []
    for (source, target), num in ways.most_common(3):
        what = counted(num, "node")
        if num == 1:
            v = next(v for v in moved if (task.device_of[v], new_device[v]) == (source, target))
            what = task.graph.node_by_id[v].label
        parts.append(f"{what} from {name(source)} to {name(target)}")
    more = sum(num for _, num in ways.most_common()[3:])
    parts += [f"{count(more)} more"] if more else []
    text = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    if found.is_least:
        proof = "no change of fewer nodes is enough"
    elif found.is_least_in_order:
        proof = "no change of fewer nodes is enough with the devices in this order"
    else:
        proof = "fewer might do: there was no time to prove it"
    return f"Repaired: moved {text}; {proof}."
