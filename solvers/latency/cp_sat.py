"""Minimise single-sample latency by CP-SAT: a program of its own, which reads a problem and writes what it finds.

OR-Tools and HiGHS cannot live in one process, so `solvers.latency.cp_sat_process` runs this module as a child; of the
project it imports nothing but what makes it one. It gets one message, JSON with times and sizes as integers, and sends
JSON: `bound`, a proven lower bound; `slot` and `accelerator`, a plan: the slot of each node, or -1 for a CPU, and the
accelerator of each slot; last `status`.

Slots 0 .. kq - 1 are the subgraphs of all accelerators in an order in which they can run; for q = 1 slot s is
accelerator s. Slot s has level 2s + 1, and a CPU node an even level: that of the last slot it waits for, plus 1. Along
an edge levels never fall, and they rise where data enters or leaves a slot. Conversely, in a circle of waiting tasks
some level would rise and none could fall, so levels exclude circles, even those of tasks that take no time.

    a[v, i] = [level of v < i],  a[v, i] => a[v, i + 1];  a[v, i] => a[u, i] along an edge u -> v
    x[v, s] = a[v, 2s + 2] - a[v, 2s + 1]     v is in slot s           y[v] = 1 - sum_s x[v, s]     v is on a CPU
    used[s + 1] => used[s],  x[v, s] => used[s] => some x[v, s]
    in[u, s], out[u, s]       slot s receives the output of u, or sends it; of several tensors of u each
    E_s >= S_s + sum_v p_v x[v, s] + sum_u c_u (in[u, s] + out[u, s])
    in[u, s] => S_s >= F_u,   x[v, s] => F_v >= E_s,   F_v >= F_u + q_v y[v] along edges,   T >= F_v

For q = 1 the members of a colocation class are in the same slot, or all on CPUs, and each slot holds at most M. For
q > 1 on[s, i] puts a used slot s on accelerator i, at most q slots on each, which run one after the other in the order
of the slots; z[v, i] = [v is on accelerator i] is the same for the members of a class, and sum_v m_v z[v, i] <= M.
Accelerators of a kind are numbered in the order of their first slots.

Where accelerators are of several kinds, p_v, c_u and M depend on the kind g of the slot: kind[s, g] says which it is,

    sum_g kind[s, g] = used[s],   for q = 1: sum_s kind[s, g] <= k_g,   else: kind[s, g] = sum_{i of kind g} on[s, i].

A time counts in E_s with the least of the kinds, and with what a kind takes more times a product of two literals.

(Tarnawski et al., NeurIPS 2020, section 5, whose program times the same subgraphs with big-M rows.)
"""

import contextlib
import json
import os
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model

from solvers.processes.child import Owner

Document = dict[str, Any]

YIELDING_NICE = 5
"""Added to the niceness of the process: what finds plans and bounds beside it gets further on hard graphs."""


def main() -> None:
    """Take a problem from the owner, solve it, and send it plans and bounds."""
    with contextlib.suppress(AttributeError, OSError):  # not on Windows, and a sandbox may forbid it
        os.nice(YIELDING_NICE)
    owner = Owner()
    problem = json.loads(owner.receive())

    def write(document: Document) -> None:
        owner.send(json.dumps(document).encode())

    latency = LatencyProgram(problem)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = problem["workers"]
    solver.parameters.random_seed = 0
    # CP-SAT 9.15 cuts off optima in presolve: adding up the coefficients of a row in 32 bits, it takes rows that bind
    # for rows that always hold (github.com/google/or-tools/issues/5293). The limit of 0 turns off the rules with that
    # fault, should workers presolve parts of the program; the rest of presolve gains nothing here.
    solver.parameters.cp_model_presolve = False
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.best_bound_callback = lambda bound: write({"bound": bound})
    status = solver.solve(latency.model, _Watcher(latency, write))
    write({"status": solver.status_name(status), "bound": solver.best_objective_bound})


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Writes each better plan."""

    def __init__(self, latency: "LatencyProgram", write: Any) -> None:
        super().__init__()
        self._latency, self._write = latency, write

    def on_solution_callback(self) -> None:
        """Write the plan that was just found."""
        latency = self._latency
        slot = [next((s for s, x in enumerate(row) if self.boolean_value(x)), -1) for row in latency.in_slot]
        accelerator = [
            next((i for i, on in enumerate(row) if self.boolean_value(on)), -1) for row in latency.on_accelerator
        ]
        if not accelerator:
            left = [iter(devices) for devices in latency.problem["kinds"]]
            kinds = [next((g for g, x in enumerate(row) if self.boolean_value(x)), -1) for row in latency.kind]
            accelerator = [-1 if g < 0 else next(left[g]) for g in kinds]
        self._write({"slot": slot, "accelerator": accelerator})


class LatencyProgram:
    """The program of the module's formulation."""

    def __init__(self, problem: Document) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.num_nodes = len(problem["cpu"])
        self.devices: list[list[int]] = problem["kinds"]
        self.num_slots = sum(map(len, self.devices)) * problem["max_subgraphs"]
        self.on_accelerator: list[list[Any]] = []
        self._add_levels()
        self._add_slots()
        self._add_kinds()
        if problem["max_subgraphs"] == 1:
            for g, devices in enumerate(self.devices):
                if len(self.devices) > 1:
                    self.model.add(sum(row[g] for row in self.kind) <= len(devices))
            for s in range(self.num_slots):
                self._add_memory([row[s] for row in self.in_slot], self.kind[s])
            self._colocate(self.in_slot)
        else:
            self._add_accelerators()
        self._add_times()
        if problem["hint"] is not None:
            for row, slot in zip(self.in_slot, problem["hint"], strict=True):
                for s, x in enumerate(row):
                    self.model.add_hint(x, int(s == slot))

    def _add_levels(self) -> None:
        model, problem = self.model, self.problem
        last = 2 * self.num_slots + 1
        no, yes = model.new_constant(0), model.new_constant(1)
        below = [[no, *(model.new_bool_var(f"a_{v}_{i}") for i in range(1, last)), yes] for v in range(self.num_nodes)]
        for row in below:
            for i in range(1, last - 1):
                model.add_implication(row[i], row[i + 1])
        for u, v in problem["edges"]:
            for i in range(1, last):
                model.add_implication(below[v][i], below[u][i])
        self.in_slot: list[list[Any]] = []
        self.on_cpu: list[Any] = []
        for v, row in enumerate(below):
            in_slot = [model.new_bool_var(f"x_{v}_{s}") for s in range(self.num_slots)]
            on_cpu = model.new_bool_var(f"y_{v}")
            for s, x in enumerate(in_slot):
                model.add(x == row[2 * s + 2] - row[2 * s + 1])
                if all(times[v] is None for times in problem["accelerator"]):
                    model.add(x == 0)
            if problem["cpu"][v] is None:
                model.add(on_cpu == 0)
            model.add_exactly_one([*in_slot, on_cpu])
            self.in_slot.append(in_slot)
            self.on_cpu.append(on_cpu)

    def _add_slots(self) -> None:
        model = self.model
        self.used = [model.new_bool_var(f"used_{s}") for s in range(self.num_slots)]
        for s, used in enumerate(self.used):
            members = [row[s] for row in self.in_slot]
            model.add_bool_or([*members, ~used])
            for x in members:
                model.add_implication(x, used)
            if s:
                model.add_implication(used, self.used[s - 1])

    def _add_kinds(self) -> None:
        """Add the kind of each slot; where there is one it is that of the used slots."""
        if len(self.devices) == 1:
            self.kind = [[used] for used in self.used]
            return
        model = self.model
        self.kind = [
            [model.new_bool_var(f"kind_{s}_{g}") for g in range(len(self.devices))] for s in range(self.num_slots)
        ]
        for s, row in enumerate(self.kind):
            model.add(sum(row) == self.used[s])
            for g, x in enumerate(row):
                for v, times in enumerate(self.in_slot):
                    if self.problem["accelerator"][g][v] is None:
                        model.add_implication(x, ~times[s])

    def _add_memory(self, row: list[Any], kinds: list[Any]) -> None:
        """Limit what a row holds by the memory of the kind that is 1, of as many as `kinds` tells."""
        size, capacity = self.problem["size"], self.problem["capacity"]
        if any(bytes_ is not None for bytes_ in capacity):
            boundless = sum(size)
            limit = sum((boundless if c is None else c) * x for c, x in zip(capacity, kinds, strict=True))
            self.model.add(sum(m * x for m, x in zip(size, row, strict=True)) <= limit)

    def _on_kinds(self, s: int, ms: list[int | None], taken: Any) -> list[Any]:
        """Return the terms of slot s's time for what takes so long on each kind, where `taken` is 1."""
        known = [time for time in ms if time is not None]  # where there is none the kind is excluded
        least = min(known, default=0)
        terms = [least * taken]
        for g, time in enumerate(ms):
            if time is not None and time > least:
                on_kind = self.model.new_bool_var("")
                self.model.add_bool_or([~taken, ~self.kind[s][g], on_kind])
                terms.append((time - least) * on_kind)
        return terms

    def _colocate(self, rows: list[list[Any]]) -> None:
        for first, *others in self.problem["classes"]:
            for v in others:
                for x, y in zip(rows[first], rows[v], strict=True):
                    self.model.add(x == y)

    def _add_accelerators(self) -> None:
        model, k = self.model, sum(map(len, self.devices))
        on = [[model.new_bool_var(f"on_{s}_{i}") for i in range(k)] for s in range(self.num_slots)]
        for s, row in enumerate(on):
            model.add(sum(row) == self.used[s])
            for g, devices in enumerate(self.devices):
                if len(self.devices) > 1:
                    model.add(sum(row[i] for i in devices) == self.kind[s][g])
                for first, second in pairwise(devices):
                    # The second comes after the first.
                    model.add_bool_or([~row[second], *(on[t][first] for t in range(s))])
        for i in range(k):
            model.add(sum(row[i] for row in on) <= self.problem["max_subgraphs"])
        members = [[model.new_bool_var(f"z_{v}_{i}") for i in range(k)] for v in range(self.num_nodes)]
        for v, row in enumerate(members):
            model.add_exactly_one([*row, self.on_cpu[v]])
            for s in range(self.num_slots):
                for i in range(k):
                    model.add_bool_or([~self.in_slot[v][s], ~on[s][i], row[i]])
        for g, devices in enumerate(self.devices):
            here = [int(g == other) for other in range(len(self.devices))]
            for i in devices:
                self._add_memory([row[i] for row in members], here)
        self._colocate(members)
        self.on_accelerator = on

    def _add_times(self) -> None:
        model, problem = self.model, self.problem
        most = problem["most"]
        latency = model.new_int_var(problem["least"], most, "T")
        model.minimize(latency)
        finish = [model.new_int_var(0, most, f"F_{v}") for v in range(self.num_nodes)]
        start = [model.new_int_var(0, most, f"S_{s}") for s in range(self.num_slots)]
        end = [model.new_int_var(0, most, f"E_{s}") for s in range(self.num_slots)]
        for u, v in problem["edges"]:
            model.add(finish[v] >= finish[u] + (problem["cpu"][v] or 0) * self.on_cpu[v])
        for v, f in enumerate(finish):
            model.add(latency >= f)
            model.add(f >= (problem["cpu"][v] or 0) * self.on_cpu[v])
        for s in range(self.num_slots):
            load: list[Any] = []
            for v, row in enumerate(self.in_slot):
                load += self._on_kinds(s, [times[v] for times in problem["accelerator"]], row[s])
            for t, tensor in enumerate(problem["tensors"]):
                u = tensor["source"]
                receives, sends = model.new_bool_var(f"in_{t}_{s}"), model.new_bool_var(f"out_{t}_{s}")
                for v in tensor["readers"]:
                    here, there = self.in_slot[u][s], self.in_slot[v][s]
                    model.add_bool_or([~there, here, receives])
                    model.add_bool_or([~here, there, sends])
                model.add_implication(receives, ~self.in_slot[u][s])
                model.add_implication(sends, self.in_slot[u][s])
                model.add(start[s] >= finish[u]).only_enforce_if(receives)
                for moves in (receives, sends):
                    load += self._on_kinds(s, tensor["transfer"], moves)
            model.add(end[s] >= start[s] + sum(load))
            model.add(latency >= end[s])
            for v, row in enumerate(self.in_slot):
                model.add(finish[v] >= end[s]).only_enforce_if(row[s])
            for t in range(s):
                for here, there in (
                    zip(self.on_accelerator[s], self.on_accelerator[t], strict=True) if self.on_accelerator else ()
                ):
                    # Subgraphs of one accelerator run one after the other.
                    model.add(start[s] >= end[t]).only_enforce_if([here, there])


if __name__ == "__main__":
    main()
