"""The least change that makes a split valid again: few nodes are moved, and then the largest load is kept small.

With x[b, d] = 1 if block b is on device d and n[b, d] the number of nodes of b that are elsewhere than on d now,

    minimise sum n[b, d] x[b, d]   subject to   every block on one device, pinned blocks on theirs,
                                                no block where it cannot run, the blocks on an accelerator fit,
                                                the family's own rule.

Blocks keep together what must be together (`solvers.contraction`), so a broken colocation class is mended by all
members going to one device. Convex splits have the rows of `solvers.throughput_ip`.

For chains let a[b, j] = 1 if block b is in one of the first j stages: a[b, j] <= a[b, j+1], and a[u, j] >= a[v, j] for
an edge u -> v. With the order of the devices given, x[b, d] = a[b, j+1] - a[b, j] for the j-th device d, which is
nearly a minimum cut and quickly solved. On small graphs the order is sought too: y[d, j] = 1 if device d is stage j,

    x[b, d] + y[d, j] - 1 <= a[b, j+1] - a[b, j].

On large ones orders are tried, first that of the nodes' places in the graph, then its neighbours, as long as time
allows. What is proven is then the fewest moves with the devices in that order, unless the program without the family's
rule needs as many.

A last program allows that many moves and minimises the largest load. Devices keep their names throughout, so there is
no symmetry to break.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pulp

from solvers.accelerator_kinds import with_identical_accelerators
from solvers.bounds import why_infeasible
from solvers.contraction import Contraction, contract
from solvers.costs import split_costs
from solvers.deployment import Deployment
from solvers.graph import DnnGraph
from solvers.load_rows import Columns, Expression, add_max_load_objective
from solvers.memory import is_scheduled
from solvers.milp import MilpRefusedError, Solution, run_highs
from solvers.pins import NO_PINS, Pins
from solvers.split import Family, Split, check_split
from solvers.throughput_ip import ThroughputModel, add_convexity, add_memory

MAX_ROWS_WITH_ORDER = 1_500
"""Up to here the order of a chain's devices is sought by the program itself."""

MAX_ROWS = 150_000
"""A larger program takes too long to be built while somebody waits."""

FIRST_SHARE = 0.7
"""Share of the time for the number of moves; the rest is for the largest load."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A valid split with few nodes moved, or why there is none; `message` says it in words.

    `is_least` says that no change of fewer nodes is enough, which is then proven. `split` is None where nothing was
    found; then `is_impossible` says whether it is proven that there is none.
    """

    split: Split | None
    moved: tuple[int, ...]
    is_least: bool
    is_impossible: bool
    message: str


def repair(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    *,
    family: Family = Family.FREE,
    pins: Pins = NO_PINS,
    time_limit_s: float = 5.0,
) -> Repair:
    """Return the valid split of a family that honours the pins and differs from a complete one in the fewest nodes.

    Among such splits one with a small largest load is taken, as far as the time allows. Raises PinError for pins that
    do not belong to the graph or its devices.

    >>> from solvers.graph import Node
    >>> g = DnnGraph((Node(1, 1.0, 1.0, memory_bytes=2.0), Node(2, 1.0, 1.0, memory_bytes=2.0)), ())
    >>> repair(g, Deployment(2, memory_bytes=3.0), Split((frozenset({1, 2}), frozenset())), pins=Pins(((1, 0),))).moved
    (2,)
    """
    graph, deployment = with_identical_accelerators(graph, deployment)
    pins.require_known(graph, deployment)
    split = split.on(deployment)
    if not check_split(graph, deployment, split, family) and not pins.broken_by(graph, split):
        return Repair(split, (), True, False, "There is nothing to repair: the plan breaks no rule.")
    if split.replicas or split.subgraphs:
        return _none("Plans with replicas or several subgraphs per accelerator cannot be repaired; solve anew.")
    if deployment.classes:
        return _none("A repair does not tell device classes apart; re-solve the rest instead.")
    if is_scheduled(graph, deployment):
        return _none("A repair cannot count the memory of micro-batches in flight; re-solve the rest instead.")
    contraction = contract(
        graph, family, deployment, join_idle=False, together=pins.groups, fixed=frozenset(pins.device_of)
    )
    reason = pins.why_impossible(graph, deployment, contraction) or why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return _none(f"No repair exists. {reason}", is_impossible=True)
    task = _Task(graph, deployment, contraction, family, pins.blocks(contraction), split.device_of())
    if task.num_rows > MAX_ROWS:
        return _none("The graph is too large for a repair; re-solve the rest instead.")
    return _solved(task, split, time_limit_s)


@dataclass(frozen=True)
class _Task:
    graph: DnnGraph
    deployment: Deployment
    contraction: Contraction
    family: Family
    fixed: dict[int, int]
    device_of: dict[int, int]

    @property
    def num_rows(self) -> int:
        """About how many rows the last program has."""
        n, devices = self.contraction.num_blocks, self.deployment.num_devices
        ends = sum(len(h.blocks) for h in self.contraction.hyperedges)
        rows = n + 2 * ends * self.deployment.num_accelerators
        if self.family is Family.CHAIN:
            rows += devices * (n + len(self.contraction.edges))
        if self.family is Family.CONVEX:
            rows += 3 * devices * len(self.graph.edges)
        return rows

    @property
    def seeks_order(self) -> bool:
        """Whether the program of a chain seeks the order of the devices itself."""
        devices = self.deployment.num_devices
        return self.contraction.num_blocks * devices**2 <= MAX_ROWS_WITH_ORDER

    def moves(self, b: int, d: int) -> int:
        """How many nodes of a block are elsewhere than on device d."""
        return sum(self.device_of[v] != d for v in self.contraction.members[b])

    def num_moved(self, split: Split) -> int:
        """How many nodes a split has elsewhere."""
        return sum(d != self.device_of[v] for v, d in split.device_of().items())


Order = tuple[int, ...]
"""The devices of a chain in the order of its stages."""


@dataclass
class _Found:
    """The best repair so far; `bound` is proven for every repair, or for those with the devices in `order`."""

    split: Split | None = None
    count: int = 0
    order: Order | None = None
    is_least: bool = False
    is_least_in_order: bool = False
    is_impossible: bool = False


def _solved(task: _Task, split: Split, time_limit_s: float) -> Repair:
    ends_s = time.monotonic() + time_limit_s
    search_ends_s = time.monotonic() + FIRST_SHARE * time_limit_s
    try:
        found = _fewest_moves(task, search_ends_s)
        if found.is_impossible:
            return _none(_why_impossible(task), is_impossible=True)
        if found.split is None:
            return _none(f"No repair was found in {time_limit_s:.0f} s; re-solving the rest searches longer.")
        best = _with_less_load(task, found.split, found, ends_s)
    except MilpRefusedError:
        return _none("The repair was not computed: the graph's numbers lie too far apart for HiGHS.")
    if check_split(task.graph, task.deployment, best, task.family):  # rounding; never seen
        return _none("The repair that was found does not hold in exact numbers; re-solve the rest instead.")
    new_device = best.device_of()
    moved = tuple(sorted(v for v, d in new_device.items() if d != task.device_of[v]))
    return Repair(best, moved, found.is_least, False, _what_moved(task, new_device, moved, found))


def _fewest_moves(task: _Task, ends_s: float) -> _Found:
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


def _improve(task: _Task, found: _Found, order: Order | None, ends_s: float, family: Family) -> None:
    """Look for fewer moves than those found, with the devices in an order if there is one."""
    program = _Program(task, order, family)
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


def _orders(task: _Task) -> Iterator[Order]:
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


def _with_less_load(task: _Task, known: Split, found: _Found, ends_s: float) -> Split:
    """Return the best split of at most as many moves that is found in time, at least the known one."""
    before_ms = split_costs(task.graph, task.deployment, known).max_load_ms
    if ends_s <= time.monotonic() or before_ms <= 0:
        return known
    program = _Program(task, found.order, task.family)
    model = program.model
    columns = Columns(
        program.problem, task.contraction, model.accelerator, model.cpu, task.deployment.communication, before_ms
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


class _Program:
    """The program without an objective, `num_moves`, and how to read it; for a chain in an order of devices or none."""

    def __init__(self, task: _Task, order: Order | None, family: Family) -> None:
        self._task, self._order = task, order
        self.problem = pulp.LpProblem("repair", pulp.LpMinimize)
        self.model = ThroughputModel(self.problem, 1.0, family, task.contraction, task.deployment)
        self._prefix: list[list[pulp.LpVariable]] = []
        columns = self._assigned() if order is None else self._in_order(order)
        self._columns = columns
        k = task.deployment.num_accelerators
        self.model.accelerator, self.model.cpu = columns[:k], columns[k:]
        add_memory(self.model)
        if family is Family.CONVEX:
            add_convexity(self.model, task.graph)
        if family is Family.CHAIN and order is None:
            self._seek_order()
        counts = [(task.moves(b, d), x[b]) for d, x in enumerate(columns) for b in range(task.contraction.num_blocks)]
        self.num_moves = pulp.lpSum(count * x for count, x in counts if count)

    def read_split(self, value: Solution) -> Split:
        """Return the split described by the values of the variables."""
        device_of_block: dict[int, int] = {}
        for b in range(self._task.contraction.num_blocks):
            if self._order is None and b in self._task.fixed:
                device_of_block[b] = self._task.fixed[b]  # HiGHS knows no variable that is in no row
            elif self._order is None:
                device_of_block[b] = next(
                    d for d, x in enumerate(self._columns) if isinstance(x[b], pulp.LpVariable) and value(x[b]) > 0.5
                )
            else:
                device_of_block[b] = self._order[sum(value(a) < 0.5 for a in self._prefix[b])]
        device_of = self._task.contraction.device_of(device_of_block)
        return Split.from_device_of(device_of, self._task.deployment)

    def start_values(self, split: Split) -> dict[pulp.LpVariable, float]:
        """Return the values of the assignment variables that describe a split."""
        device_of = split.device_of()
        device = [device_of[ids[0]] for ids in self._task.contraction.members]
        if self._order is not None:
            stage = {d: j for j, d in enumerate(self._order)}
            return {
                a: float(stage[device[b]] < j) for b, row in enumerate(self._prefix) for j, a in enumerate(row, start=1)
            }
        return {
            x: float(device[b] == d)
            for d, column in enumerate(self._columns)
            for b, x in enumerate(column)
            if isinstance(x, pulp.LpVariable)
        }

    def _assigned(self) -> list[list[Expression]]:
        """One variable per block and device."""
        task, problem = self._task, self.problem
        cpu_only = np.isinf(task.contraction.accelerator_ms)
        columns: list[list[Expression]] = []
        for d in range(task.deployment.num_devices):
            column: list[Expression] = []
            for b in range(task.contraction.num_blocks):
                home = task.fixed.get(b)
                if home == d:
                    column.append(problem.add_variable(f"x_{b}_{d}", 1, 1))
                elif home is not None or (cpu_only[b] and not task.deployment.is_cpu(d)):
                    column.append(0)
                else:
                    column.append(problem.add_variable(f"x_{b}_{d}", 0, 1, cat=pulp.LpBinary))
            columns.append(column)
        for b in range(task.contraction.num_blocks):
            if b not in task.fixed:
                problem += pulp.lpSum(x[b] for x in columns) == 1, f"somewhere_{b}"
        return columns

    def _in_order(self, order: Order) -> list[list[Expression]]:
        """One variable per block and border between stages."""
        task, problem = self._task, self.problem
        cpu_only = np.isinf(task.contraction.accelerator_ms)
        last = len(order)
        a: list[list[Expression]] = []
        for b in range(task.contraction.num_blocks):
            if b in task.fixed:
                stage = order.index(task.fixed[b])
                inner = [problem.add_variable(f"a_{b}_{j}", int(stage < j), int(stage < j)) for j in range(1, last)]
            else:
                inner = [problem.add_variable(f"a_{b}_{j}", 0, 1, cat=pulp.LpBinary) for j in range(1, last)]
            self._prefix.append(inner)
            a.append([0, *inner, 1])
            for j in range(1, last - 1):
                problem += a[b][j] <= a[b][j + 1], f"prefix_{b}_{j}"
        for u, v in task.contraction.edges:
            for j in range(1, last):
                problem += a[u][j] >= a[v][j], f"order_{u}_{v}_{j}"
        columns: list[list[Expression]] = [[] for _ in order]
        for j, d in enumerate(order):
            columns[d] = [row[j + 1] - row[j] for row in a]
            if not task.deployment.is_cpu(d):
                for b in np.flatnonzero(cpu_only).tolist():
                    problem += columns[d][b] == 0, f"cpu_only_{b}_{j}"
        return columns

    def _seek_order(self) -> None:
        """Every device is one stage of a row, and data flows forwards along it."""
        problem, contraction, columns = self.problem, self._task.contraction, self._columns
        count = len(columns)
        y = [[problem.add_variable(f"y_{d}_{j}", 0, 1, cat=pulp.LpBinary) for j in range(count)] for d in range(count)]
        for i in range(count):
            problem += pulp.lpSum(y[i]) == 1, f"one_stage_{i}"
            problem += pulp.lpSum(row[i] for row in y) == 1, f"one_device_{i}"
        a: list[list[Expression]] = []
        for b in range(contraction.num_blocks):
            a.append([0, *(problem.add_variable(f"a_{b}_{j}", 0, 1, cat=pulp.LpBinary) for j in range(1, count)), 1])
            for j in range(1, count - 1):
                problem += a[b][j] <= a[b][j + 1], f"prefix_{b}_{j}"
            for d, x in enumerate(columns):
                if isinstance(x[b], pulp.LpVariable):
                    for j in range(count):
                        problem += x[b] + y[d][j] - 1 <= a[b][j + 1] - a[b][j], f"stage_{b}_{d}_{j}"
        for u, v in contraction.edges:
            for j in range(1, count):
                problem += a[u][j] >= a[v][j], f"order_{u}_{v}_{j}"


def _none(message: str, *, is_impossible: bool = False) -> Repair:
    return Repair(None, (), False, is_impossible, message)


def _why_impossible(task: _Task) -> str:
    pinned = " with the pins as they are" if task.fixed else ""
    wider = "" if task.family is Family.FREE else f", or allow more than {task.family} splits"
    unpin = "unpin some nodes, " if task.fixed else ""
    return f"No repair exists: no {task.family} split is valid{pinned}; {unpin}add memory or devices{wider}."


def _what_moved(task: _Task, new_device: dict[int, int], moved: Collection[int], found: _Found) -> str:
    """Say which nodes went where, most first, and whether fewer would have done."""
    name = task.deployment.device_name
    ways = Counter((task.device_of[v], new_device[v]) for v in moved)
    parts = []
    for (source, target), count in ways.most_common(3):
        what = f"{count:,} nodes"
        if count == 1:
            v = next(v for v in moved if (task.device_of[v], new_device[v]) == (source, target))
            what = task.graph.node_by_id[v].label
        parts.append(f"{what} from {name(source)} to {name(target)}")
    more = sum(count for _, count in ways.most_common()[3:])
    parts += [f"{more:,} more"] if more else []
    text = " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
    if found.is_least:
        proof = "no change of fewer nodes is enough"
    elif found.is_least_in_order:
        proof = "no change of fewer nodes is enough with the devices in this order"
    else:
        proof = "fewer might do: there was no time to prove it"
    return f"Repaired: moved {text}; {proof}."
