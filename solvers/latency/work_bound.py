r"""A bound on latency from all work at once: paths, the time of accelerators and their memory demand it together.

Let a_gv and c_v be the times of node v on an accelerator of kind g and on a CPU, m_v its bytes, and let there be k_g
accelerators of kind g with M_g bytes. In a plan of latency T the nodes of any path take T at most, those on an
accelerator as well, and all that are on accelerators fit. So for weights of paths that sum to p, prices of time
l_g >= 0 with p + sum_g k_g l_g = 1, and a price of memory u >= 0,

    T >= sum_v min(w_v c_v, min_g ((w_v + l_g) a_gv + u m_v)) - u sum_g k_g M_g

where w_v is the weight of the paths through v. The best weights and prices are those of a linear program, which HiGHS
solves. Whatever it returns, the sum above is a bound: its tolerances do not matter.

This tells apart what the longest path and the total work cannot: of a hundred branches side by side CPUs, which run all
nodes that are ready at a time, could take all, and accelerators a part, but each branch has as much as it has.
"""

from collections.abc import Callable, Sequence

import numpy as np

from solvers.latency.cuts import EPSILON, Times
from solvers.milp.linear_program import LinearProgram
from solvers.model.graph import DnnGraph
from solvers.problem.accelerator_kinds import AcceleratorKind
from solvers.problem.contraction import FloatArray

MOST_EDGES = 60_000
"""Of a graph with more nodes and edges the linear program is not begun: of 36,000 it takes 1 to 6 s."""


def work_bound(
    graph: DnnGraph,
    kinds: Sequence[AcceleratorKind],
    by_kind: Sequence[Times],
    goes_on: Callable[[], bool] = lambda: True,
) -> float:
    """Return the bound in ms, 0 where it comes to none.

    `by_kind` has the times of each node in ms, on an accelerator of each kind and on a CPU, infinite where it cannot
    run; each node can run somewhere. `goes_on` is asked often and says whether to go on.
    """
    if len(graph.nodes) + len(graph.edges) > MOST_EDGES:
        return 0.0
    if not goes_on():
        return 0.0
    from solvers.milp.highs import row_prices  # HiGHS loads here, when it is needed

    program = _Program(graph, kinds, by_kind)
    prices = row_prices(program.linear_program(), goes_on)
    if prices is None:
        return 0.0
    return max(0.0, program.bound_ms(prices) * (1 - len(graph.nodes) * EPSILON))


class _Program:
    """Columns: the share of node v on accelerators of kind g, number v + n g; the end of each node in ms; the latency.

    Rows: the end of a node is after that of each input, or after 0 without inputs; the latency is after the end of each
    node that nobody reads; then one per kind for its time, one for memory, and the shares of each node.
    """

    def __init__(self, graph: DnnGraph, kinds: Sequence[AcceleratorKind], by_kind: Sequence[Times]) -> None:
        order = graph.topological_order
        number = {v: i for i, v in enumerate(order)}
        self.accelerator_ms = np.array([[times[v][0] for v in order] for times in by_kind])  # (kinds, n)
        self.cpu_ms = np.array([by_kind[0][v][1] for v in order])
        self.counts = np.array([len(kind.devices) for kind in kinds], float)
        self.memory_bytes = np.array([graph.node_by_id[v].memory_bytes for v in order])
        self.capacity_bytes = sum(len(kind.devices) * kind.memory_limit_bytes for kind in kinds)
        # Of each node those that it reads; -1 stands for the beginning.
        self.inputs = [[number[u] for u in graph.inputs[v]] or [-1] for v in order]
        self.last = [number[v] for v in order if not graph.readers[v]]

    @property
    def _has_memory(self) -> bool:
        """Whether memory in all may matter; where there is none at all, no node that takes some runs there anyway."""
        return 0 < self.capacity_bytes < np.inf and float(self.memory_bytes.sum()) > self.capacity_bytes

    def linear_program(self) -> LinearProgram:
        """Return the linear program."""
        kinds, n = self.accelerator_ms.shape
        on_cpu, on_kind = np.isfinite(self.cpu_ms), np.isfinite(self.accelerator_ms)
        cpu_ms, accelerator_ms = np.where(on_cpu, self.cpu_ms, 0.0), np.where(on_kind, self.accelerator_ms, 0.0)
        end, latency = kinds * n, kinds * n + n
        rows: list[tuple[list[int], list[float], float]] = []  # columns, coefficients, and what they are at least
        for v in range(n):
            shares = [v + n * g for g in range(kinds)]
            less = (cpu_ms[v] - accelerator_ms[:, v]).tolist()
            for u in self.inputs[v]:
                before, one = ([], []) if u < 0 else ([end + u], [-1.0])
                rows.append(([end + v, *before, *shares], [1.0, *one, *less], cpu_ms[v]))
        rows += [([latency, end + v], [1.0, -1.0], 0.0) for v in self.last]
        for g in range(kinds):
            rows.append(([*range(n * g, n * g + n), latency], [*(-accelerator_ms[g]).tolist(), self.counts[g]], 0.0))
        if self._has_memory:
            shares = (-np.tile(self.memory_bytes / self.capacity_bytes, kinds)).tolist()
            rows.append((list(range(kinds * n)), shares, -1.0))
        is_whole = ~on_cpu
        for v in range(n if kinds > 1 else 0):
            rows.append(([v + n * g for g in range(kinds)], [-1.0] * kinds, -1.0))
            if is_whole[v]:
                rows.append(([v + n * g for g in range(kinds)], [1.0] * kinds, 1.0))
        least = np.where(is_whole, 1.0, 0.0) if kinds == 1 else np.zeros(kinds * n)
        return LinearProgram(
            cost=np.eye(1, latency + 1, latency)[0],
            lower=np.concatenate([least, np.zeros(n + 1)]),
            upper=np.concatenate([on_kind.ravel().astype(float), np.full(n + 1, np.inf)]),
            begin=np.cumsum([0, *(len(columns) for columns, _, _ in rows)], dtype=np.int32),
            column=np.array([column for columns, _, _ in rows for column in columns], np.int32),
            coefficient=np.array([value for _, values, _ in rows for value in values]),
            least=np.array([at_least for _, _, at_least in rows]),
        )

    def bound_ms(self, price_of_row: FloatArray) -> float:
        """Return the bound for weights of paths and prices made of those of rows, whatever these are."""
        kinds = len(self.accelerator_ms)
        price = np.maximum(price_of_row, 0.0)
        counts = [len(inputs) for inputs in self.inputs]
        first = sum(counts) + len(self.last)
        time_price = price[first : first + kinds]
        of_time = float(self.counts @ time_price)
        if of_time > 1:
            time_price, of_time = time_price / of_time, 1.0
        has_memory = self._has_memory
        memory_price = float(price[first + kinds]) / self.capacity_bytes if has_memory else 0.0
        weight = self._weights(np.split(price[: sum(counts)], np.cumsum(counts)[:-1]), 1.0 - of_time)
        with np.errstate(invalid="ignore"):  # no weight times no time
            on_cpu = np.where(np.isfinite(self.cpu_ms), weight * self.cpu_ms, np.inf)
            taken = (weight + time_price[:, None]) * self.accelerator_ms + memory_price * self.memory_bytes
        on_kind = np.where(np.isfinite(self.accelerator_ms), taken, np.inf).min(axis=0)
        paid_for_memory = memory_price * self.capacity_bytes if has_memory else 0.0
        return float(np.minimum(on_cpu, on_kind).sum()) - paid_for_memory

    def _weights(self, of_inputs: list[FloatArray], total: float) -> FloatArray:
        """Return the weight of paths through each node: paths of this weight in all go on as the prices of edges say.

        A path may end anywhere, so that nothing is wrong with prices that do not add up.
        """
        n = len(of_inputs)
        begin = np.array(
            [float(of[0]) if inputs[0] < 0 else 0.0 for of, inputs in zip(of_inputs, self.inputs, strict=True)]
        )
        leaving = np.zeros(n)
        for of, inputs in zip(of_inputs, self.inputs, strict=True):
            if inputs[0] >= 0:
                np.add.at(leaving, inputs, of)
        weight = total * begin / begin.sum() if begin.sum() > 0 else np.zeros(n)
        for v, (of, inputs) in enumerate(zip(of_inputs, self.inputs, strict=True)):
            for u, price in zip(inputs, of.tolist(), strict=True):
                if u >= 0 and price > 0:
                    weight[v] += weight[u] * price / leaving[u]
        return weight
