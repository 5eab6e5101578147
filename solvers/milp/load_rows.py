"""Rows of the throughput programs that say what T is: the largest load, or the GPipe time, of blocks on devices.

Column x of device d says how much of each block is on it, 0 or 1 (`solvers.milp.throughput`). A device that cuts the
tensor of writer u, with readers r, receives it or sends it, never both:

    send >= x[u] - x[r]      receive >= x[r] - x[u]      for each reader r; both are at most 1

sum          T >= compute + transfers     one variable does for both: cut >= send, cut >= receive
overlapped   T >= compute,                T >= transfers
full duplex  T >= compute + receive,      T >= compute + send
a CPU        T >= compute

For GPipe T = T_forward + T_backward, with such rows for each pass. A tensor is sent in its writer's pass. It is
received in the forward pass if a forward reader is on the device, and else in the backward pass: there
receive >= x[r] - x[u] - sum of x[f] over its forward readers f.

On an accelerator of a class blocks take the class's times, and transfers are divided by its link speed.

Variables of transfers are continuous: where all x are 0 or 1 the least values that these rows allow are too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pulp

from solvers.model.deployment import Communication
from solvers.model.graph import DnnGraph
from solvers.problem.accelerator_kinds import AcceleratorKind
from solvers.problem.contraction import Contraction, FloatArray
from solvers.problem.passes import pass_ms, pass_tensors

Expression = Any
"""A PuLP variable, an affine expression of some, or a number."""


@dataclass(frozen=True)
class Columns:
    """A program with a column of blocks per accelerator and per CPU, and how these make up times, in `scale_ms`.

    `kinds` has the kind of accelerators of each column in `accelerator`.
    """

    problem: pulp.LpProblem
    contraction: Contraction
    accelerator: list[list[Expression]]
    cpu: list[list[Expression]]
    communication: Communication
    scale_ms: float
    kinds: Sequence[AcceleratorKind]


@dataclass
class _Terms:
    """What a device's time in a pass, or in both, is made of: summands in units of the scale.

    Unless devices are full-duplex `received` holds all transfers, for what is cut is either received or sent.
    """

    compute: list[Expression]
    received: list[Expression] = field(default_factory=list)
    sent: list[Expression] = field(default_factory=list)

    def rows(self, communication: Communication) -> list[list[Expression]]:
        """Return the sums none of which may exceed the time."""
        if communication is Communication.OVERLAPPED:
            return [self.compute, self.received]
        if communication is Communication.FULL_DUPLEX:
            return [self.compute + self.received, self.compute + self.sent]
        return [self.compute + self.received]


def _require_time(problem: pulp.LpProblem, total: Expression, rows: list[list[Expression]], name: str) -> None:
    for i, row in enumerate(rows):
        problem += total >= pulp.lpSum(row), name if len(rows) == 1 else f"{name}_{i}"


def add_max_load_objective(columns: Columns, lower_bound_ms: float) -> None:
    """Minimise T, at least the load of every device and the bound."""
    problem, contraction = columns.problem, columns.contraction
    communication, scale = columns.communication, columns.scale_ms
    total = problem.add_variable("T", lower_bound_ms / scale)
    problem += total
    for d, (x, kind) in enumerate(zip(columns.accelerator, columns.kinds, strict=True)):
        terms = _Terms(_compute(kind.block_ms(contraction), x, scale))
        for e, hyperedge in enumerate(contraction.hyperedges):
            weight, name = hyperedge.weight_ms / kind.link_speed / scale, f"{e}_{d}"
            writer = hyperedge.blocks[0] if hyperedge.writer is None else hyperedge.writer
            readers = tuple(b for b in hyperedge.blocks if b != writer)
            if communication is Communication.FULL_DUPLEX:
                received = problem.add_variable(f"receive_{name}", 0, 1)
                sent = problem.add_variable(f"send_{name}", 0, 1)
                _require_if_received(problem, received, x, writer, readers, name)
                _require_if_sent(problem, sent, x, writer, readers, name)
                terms.received.append(weight * received)
                terms.sent.append(weight * sent)
            else:
                cut = problem.add_variable(f"cut_{name}", 0, 1)
                _require_if_received(problem, cut, x, writer, readers, name)
                _require_if_sent(problem, cut, x, writer, readers, name)
                terms.received.append(weight * cut)
        _require_time(problem, total, terms.rows(communication), f"load_accelerator_{d}")
    for d, x in enumerate(columns.cpu):
        problem += total >= pulp.lpSum(_compute(contraction.cpu_ms, x, scale)), f"load_cpu_{d}"


def add_gpipe_objective(columns: Columns, graph: DnnGraph, lower_bound_ms: float, most_ms: float) -> None:
    """Minimise T_forward + T_backward, each at least every device's time in that pass, their sum at least the bound.

    No time of a block or tensor is written as more than `most_ms`.
    """
    problem, contraction = columns.problem, columns.contraction
    communication, scale = columns.communication, columns.scale_ms
    longest = [problem.add_variable(f"T_{name}", 0) for name in ("forward", "backward")]
    problem += longest[0] + longest[1]
    problem += longest[0] + longest[1] >= lower_bound_ms / scale, "lower_bound"
    on_accelerator = {
        kind: np.minimum(most_ms, pass_ms(graph, contraction, kind.node_ms)) for kind in set(columns.kinds)
    }
    on_cpu = np.minimum(most_ms, pass_ms(graph, contraction))

    def compute(x: list[Expression], times: FloatArray, is_backward: bool) -> list[Expression]:
        return _compute(times[:, int(is_backward)], x, scale)

    tensors = pass_tensors(graph, contraction)
    for d, (x, kind) in enumerate(zip(columns.accelerator, columns.kinds, strict=True)):
        passes = [_Terms(compute(x, on_accelerator[kind], is_backward)) for is_backward in (False, True)]
        for e, (tensor, weight_ms) in enumerate(tensors.items()):
            writer, is_backward = tensor.writer, tensor.is_backward
            forward, backward = tensor.forward_readers, tensor.backward_readers
            weight, name = min(weight_ms / kind.link_speed, most_ms) / scale, f"{e}_{d}"
            sent = problem.add_variable(f"send_{name}", 0, 1)
            _require_if_sent(problem, sent, x, writer, tuple({*forward, *backward}), name)
            if communication is Communication.FULL_DUPLEX:
                passes[is_backward].sent.append(weight * sent)
            else:
                passes[is_backward].received.append(weight * sent)
            for in_backward, readers in ((False, forward), (True, backward)):
                if not readers:
                    continue
                received = sent
                if communication is Communication.FULL_DUPLEX or in_backward != is_backward:
                    received = problem.add_variable(f"receive_{name}_{int(in_backward)}", 0, 1)
                    passes[in_backward].received.append(weight * received)
                earlier = forward if in_backward else ()
                _require_if_received(problem, received, x, writer, readers, f"{name}_{int(in_backward)}", earlier)
        for terms, total, direction in zip(passes, longest, ("forward", "backward"), strict=True):
            _require_time(problem, total, terms.rows(communication), f"{direction}_accelerator_{d}")
    for d, x in enumerate(columns.cpu):
        for is_backward, total, direction in zip((False, True), longest, ("forward", "backward"), strict=True):
            problem += total >= pulp.lpSum(compute(x, on_cpu, is_backward)), f"{direction}_cpu_{d}"


def _compute(time_ms: Any, x: list[Expression], scale: float) -> list[Expression]:
    """Terms of the compute time of a column; blocks that cannot be there have no variable."""
    return [float(time_ms[b]) / scale * x[b] for b in range(len(x)) if np.isfinite(time_ms[b]) and time_ms[b] > 0]


def _require_if_sent(
    problem: pulp.LpProblem,
    sent: pulp.LpVariable,
    x: list[Expression],
    writer: int,
    readers: tuple[int, ...],
    name: str,
) -> None:
    """Sent is 1 when the writer is in column x and some reader is not."""
    for r in readers:
        problem += sent >= x[writer] - x[r], f"out_{name}_{r}"


def _require_if_received(
    problem: pulp.LpProblem,
    received: pulp.LpVariable,
    x: list[Expression],
    writer: int,
    readers: tuple[int, ...],
    name: str,
    earlier: tuple[int, ...] = (),
) -> None:
    """Received is 1 when the writer is not in column x and some reader is, but none of the `earlier` readers."""
    for r in readers:
        problem += received >= x[r] - x[writer] - pulp.lpSum(x[f] for f in earlier), f"in_{name}_{r}"
