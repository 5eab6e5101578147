"""The integer program of a repair: the valid splits of a family, and how many nodes each has elsewhere than now.

With x[b, d] = 1 if block b is on device d and n[b, d] the number of nodes of b that are elsewhere than on d now,

    minimise sum n[b, d] x[b, d]   subject to   every block on one device, pinned blocks on theirs,
                                                no block where it cannot run, the blocks on an accelerator fit,
                                                the family's own rule.

Blocks keep together what must be together (`solvers.problem.contraction`), so a broken colocation class is mended by
all members going to one device. Convex splits have the rows of `solvers.milp.throughput`.

For chains let a[b, j] = 1 if block b is in one of the first j stages: a[b, j] <= a[b, j+1], and a[u, j] >= a[v, j] for
an edge u -> v. With the order of the devices given, x[b, d] = a[b, j+1] - a[b, j] for the j-th device d, which is
nearly a minimum cut and quickly solved. On small graphs the order is sought too: y[d, j] = 1 if device d is stage j,

    x[b, d] + y[d, j] - 1 <= a[b, j+1] - a[b, j].
"""

from dataclasses import dataclass

import numpy as np
import pulp

from solvers.milp.highs import Solution
from solvers.milp.load_rows import Expression
from solvers.milp.throughput import ThroughputModel, add_convexity, add_memory
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.contraction import Contraction

MAX_ROWS_WITH_ORDER = 1_500
"""Up to here the order of a chain's devices is sought by the program itself."""

Order = tuple[int, ...]
"""The devices of a chain in the order of its stages."""


@dataclass(frozen=True)
class RepairTask:
    """What is to be repaired: `device_of` is where nodes are now, `fixed` the devices of pinned blocks."""

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


class RepairProgram:
    """The program without an objective, `num_moves`, and how to read it; for a chain in an order of devices or none."""

    def __init__(self, task: RepairTask, order: Order | None, family: Family) -> None:
        self._task, self._order = task, order
        self.problem = pulp.LpProblem("repair", pulp.LpMinimize)
        kinds = accelerator_kinds(task.graph, task.deployment)
        self.model = ThroughputModel(self.problem, 1.0, family, task.contraction, task.deployment, kinds)
        self._prefix: list[list[pulp.LpVariable]] = []
        columns = self._assigned() if order is None else self._in_order(order)
        self._columns = columns
        k = task.deployment.num_accelerators
        self.model.accelerator, self.model.cpu = columns[:k], columns[k:]
        kind_of = {d: kind for kind in kinds for d in kind.devices}
        self.model.column_kind = [kind_of[d] for d in range(k)]
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
