"""The integer program for max-load, row by row, and its relaxation (after Tarnawski et al., NeurIPS 2020, section 5).

    minimise T
    x[v,d] in {0, 1}    node v is on device d
    y[t,d] >= 0         accelerator d pays for tensor t
    sum_d x[v,d] = 1                                                  every node is on one device
    y[t,d] >= x[u,d] - x[r,d],  y[t,d] >= x[r,d] - x[u,d]             for tensor t of node u and each of its readers r
    sum_v p_v x[v,d] + sum_t c_t y[t,d] <= T                          the load of accelerator d
    sum_v q_v x[v,d] <= T                                             the load of CPU d
    sum_v m_v x[v,d] <= M                                             the memory of accelerator d

and, for a pipeline whose stages stand in the order of the devices (contiguous splits),

    sum_{e <= d} x[u,e] >= sum_{e <= d} x[v,e]                        for each edge u -> v and device d:
                                                                      u is in no later stage than v.

The relaxation lets x take any value from 0 to 1. Its optimum is a lower bound, since every plan is one of its
solutions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pulp

from solvers.milp.highs import run_highs
from solvers.quantities import number
from solvers.teaching.small import SmallProblem, TeachingError

Choice = tuple[int, int]
"""A node and a device."""

ROUND = 1e-6
"""A value within this of a whole number counts as whole: what the solver of linear programs is exact to."""


@dataclass(frozen=True, slots=True)
class Row:
    """A constraint: the sum of coefficients times variables is at most, or equal to, the right-hand side.

    `family` says which constraint of the formulation it is; `about` are the nodes it is about, to be marked in the
    graph, and `device` the device, None where it is about all.
    """

    family: str
    coefficients: tuple[tuple[str, float], ...]
    right: float
    about: tuple[int, ...]
    device: int | None
    is_equal: bool = False

    @property
    def text(self) -> str:
        """The row as it is written: variables on the left, a number on the right; with a true minus."""
        parts: list[str] = []
        for name, factor in self.coefficients:
            sign = "−" if factor < 0 else "+" if parts else ""
            size = "" if abs(factor) == 1 else f"{number(abs(factor))} "
            parts.append(f"{sign}{' ' if sign and parts else ''}{size}{name}")
        return f"{' '.join(parts)} {'=' if self.is_equal else '≤'} {number(self.right)}"


@dataclass(frozen=True, slots=True)
class Relaxed:
    """An optimum of the relaxation: a lower bound in ms, and the share of each node on each device."""

    bound_ms: float
    shares: dict[Choice, float]

    @property
    def most_divided(self) -> Choice | None:
        """The node and device whose share is farthest from whole; None where all are whole."""
        far = {choice: min(share, 1 - share) for choice, share in self.shares.items()}
        choice = max(far, key=lambda choice: far[choice])
        return choice if far[choice] > ROUND else None

    @property
    def rounded(self) -> dict[int, int]:
        """The device of each node that has the largest share of it."""
        best: dict[int, int] = {}
        for (v, d), share in self.shares.items():
            if v not in best or share > self.shares[v, best[v]] + ROUND:
                best[v] = d
        return best


@dataclass(frozen=True)
class IntegerProgram:
    """The rows of a problem; `contiguous` asks for a pipeline in the order of the devices.

    TeachingError for a pipeline over accelerators and CPUs: only the order of identical devices is without loss.
    """

    problem: SmallProblem
    contiguous: bool

    def __post_init__(self) -> None:
        deployment = self.problem.deployment
        if self.contiguous and deployment.num_accelerators and deployment.num_cpus:
            raise TeachingError(
                "The rows of a pipeline fix the order of the devices, and a CPU may stand anywhere in it; leave "
                "out the CPUs or the accelerators."
            )

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """Every node with every device."""
        return tuple((v, d) for v in self.problem.order for d in range(self.problem.deployment.num_devices))

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """All constraints, in the order of the formulation."""
        problem, deployment, graph = self.problem, self.problem.deployment, self.problem.graph
        devices = range(deployment.num_devices)
        accelerators = range(deployment.num_accelerators)
        rows: list[Row] = []
        for v in problem.order:
            share = tuple((x(v, d), 1.0) for d in devices)
            rows.append(Row("one device", share, 1.0, (v,), None, is_equal=True))
        for i, tensor in enumerate(graph.tensors):
            u = tensor.source
            for d in accelerators:
                for r in tensor.readers:
                    for a, b in ((u, r), (r, u)):
                        parts = ((x(a, d), 1.0), (x(b, d), -1.0), (y(i, d), -1.0))
                        rows.append(Row("cut", parts, 0.0, (u, r), d))
        for d in devices:
            is_cpu = deployment.is_cpu(d)
            time = [(x(n.id, d), n.cpu_ms if is_cpu else n.accelerator_ms) for n in graph.nodes]
            paid = [] if is_cpu else [(y(i, d), tensor.transfer_ms) for i, tensor in enumerate(graph.tensors)]
            used = tuple((name, ms) for name, ms in (*time, *paid) if ms)
            rows.append(Row("load", (*used, ("T", -1.0)), 0.0, problem.order, d))
        if deployment.memory_bytes is not None:
            for d in accelerators:
                sizes = tuple((x(n.id, d), n.memory_bytes) for n in graph.nodes if n.memory_bytes)
                if sizes:
                    rows.append(Row("memory", sizes, deployment.memory_limit_bytes, problem.order, d))
        if self.contiguous:
            for edge in graph.edges:
                for d in devices[:-1]:
                    ends = ((edge.target, 1.0), (edge.source, -1.0))
                    share = tuple((x(v, e), sign) for v, sign in ends for e in range(d + 1))
                    rows.append(Row("order", share, 0.0, (edge.source, edge.target), d))
        return tuple(rows)

    def relaxed(self, fixed: Mapping[Choice, int]) -> Relaxed | None:
        """Return the optimum of the relaxation in which some x are fixed to 0 or 1; None where it has no solution."""
        model = pulp.LpProblem("relaxation", pulp.LpMinimize)
        variables = {"T": model.add_variable("T", 0)}
        for v, d in self.choices:
            runs = self.problem.graph.node_by_id[v].runs_on_accelerator or self.problem.deployment.is_cpu(d)
            low, high = (fixed[v, d], fixed[v, d]) if (v, d) in fixed else (0, 1)
            variables[x(v, d)] = model.add_variable(f"x_{v}_{d}".replace("-", "m"), low, high if runs else 0)
            if low > (high if runs else 0):
                return None
        for i in range(len(self.problem.graph.tensors)):
            for d in range(self.problem.deployment.num_accelerators):
                variables[y(i, d)] = model.add_variable(f"y_{i}_{d}", 0)
        model += variables["T"]
        scale = max(1.0, self.problem.deployment.memory_bytes or 1.0)
        for row in self.rows:
            unit = scale if row.family == "memory" else 1.0
            left = pulp.lpSum(factor / unit * variables[name] for name, factor in row.coefficients)
            model += (left == row.right) if row.is_equal else (left <= row.right / unit)
        outcome = run_highs(model, time_limit_s=None, gap=0.0)
        if outcome.infeasible or outcome.solution is None or outcome.bound is None:
            return None
        value = outcome.solution
        return Relaxed(outcome.bound, {choice: value(variables[x(*choice)]) for choice in self.choices})


def x(v: int, d: int) -> str:
    """Return the name of the variable that says whether node v is on device d, which people count from 1."""
    return f"x[{v},{d + 1}]"


def y(i: int, d: int) -> str:
    """Return the name of the variable that says whether device d pays for the i-th tensor."""
    return f"y[{i + 1},{d + 1}]"
