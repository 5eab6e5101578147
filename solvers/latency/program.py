"""The latency problem in integers, as CP-SAT takes it, and what its answers say about the problem itself.

Times become multiples of a small unit, all rounded down, so that no plan takes longer in integers than in truth, and
sizes likewise: lower bounds in integers are lower bounds. Plans are judged afresh in floating point by the evaluator.

A plan better than a known one is looked for: T <= floor(target / unit), where the target lies half the tolerance of
proofs below the known value. If there is none in integers, there is none in truth, and the target is a lower bound.
"""

import math
from dataclasses import dataclass
from typing import Any

import networkx as nx

from solvers.latency.bound import node_times
from solvers.model.costs import task_graph
from solvers.model.deployment import MEMORY_TOLERANCE, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE
from solvers.model.split import Split
from solvers.problem.accelerator_kinds import accelerator_kinds

UNITS = 10**10
"""The target in units of time. A plan's time in integers is too low by a unit for each task and transfer at most."""

SIZE_UNITS = 2**40
"""An accelerator's memory in units of size."""

SLACK = 1e-12
"""Rounding of the products and quotients of floats in this module, relative."""

Document = dict[str, Any]


@dataclass(frozen=True)
class LatencyProgram:
    """A graph in integers with a target, and the way back."""

    graph: DnnGraph
    deployment: Deployment
    target_ms: float
    lower_bound_ms: float
    known: Split | None

    @classmethod
    def below(
        cls,
        graph: DnnGraph,
        deployment: Deployment,
        known: Split | None,
        value_ms: float | None,
        bound_ms: float,
        gap: float,
    ) -> "LatencyProgram":
        """Return the program for plans that beat a known one by more than the gap; all plans where none is known."""
        if value_ms is None:
            target = serial_time(graph, deployment) * (1 + PROOF_TOLERANCE)
        else:
            target = value_ms * (1 - max(gap, PROOF_TOLERANCE / 2))
        return cls(graph, deployment, target, bound_ms, known)

    @property
    def units_per_ms(self) -> float:
        """The scale of times; finite for every target the model allows."""
        return float(UNITS / max(self.target_ms, 1e-280))

    def document(self, num_workers: int) -> Document:
        """Return what the child process reads; nodes are numbered in topological order."""
        graph, deployment = self.graph, self.deployment
        number = {v: i for i, v in enumerate(graph.topological_order)}
        kinds = accelerator_kinds(graph, deployment)
        times = [node_times(graph, deployment, kind) for kind in kinds]
        memory = max((kind.memory_bytes for kind in kinds if kind.memory_bytes is not None), default=0.0)
        # Nodes that fit on no accelerator have no accelerator time.
        sizes = [
            int(min(1.0, graph.node_by_id[v].memory_bytes / memory) * SIZE_UNITS)
            if memory > 0 and any(of_kind[v][0] < math.inf for of_kind in times)
            else 0
            for v in number
        ]
        capacity = [
            None
            if kind.memory_bytes is None
            else math.floor(SIZE_UNITS * (kind.memory_bytes / memory if memory else 1.0) * (1 + MEMORY_TOLERANCE)) + 1
            for kind in kinds
        ]
        return {
            "kinds": [list(kind.devices) for kind in kinds],
            "max_subgraphs": deployment.max_subgraphs,
            "accelerator": [[self._units(of_kind[v][0]) for v in number] for of_kind in times],
            "cpu": [self._units(times[0][v][1]) for v in number],
            "tensors": [
                {
                    "source": number[tensor.source],
                    "readers": [number[v] for v in tensor.readers],
                    "transfer": [self._units(tensor.transfer_ms / kind.link_speed) for kind in kinds],
                }
                for u in dict.fromkeys(edge.source for edge in graph.edges)
                for tensor in graph.tensors_of[u]
            ],
            "size": sizes,
            "capacity": capacity,
            "edges": [[number[u], number[v]] for u, v in dict.fromkeys((e.source, e.target) for e in graph.edges)],
            "classes": [[number[v] for v in ids] for ids in graph.colocation_members.values()],
            "least": max(0, min(UNITS, math.floor(self.lower_bound_ms * self.units_per_ms * (1 - SLACK)) - 1)),
            "most": UNITS,
            "hint": None if self.known is None else self._hint(self.known, number),
            "workers": num_workers,
        }

    def bound_ms(self, answer: Document) -> float:
        """Return the proven lower bound in ms that an answer of the child implies."""
        if answer.get("status") == "INFEASIBLE":
            return self.target_ms
        return min(self.target_ms, float(answer.get("bound", 0.0)) / self.units_per_ms * (1 - SLACK))

    def split(self, answer: Document) -> Split:
        """Return the plan in an answer of the child; CPU nodes share the first CPU."""
        ids = self.graph.topological_order
        members: dict[int, dict[int, set[int]]] = {}
        on_cpu: set[int] = set()
        for v, slot in zip(ids, answer["slot"], strict=True):
            if slot < 0:
                on_cpu.add(v)
            else:
                members.setdefault(answer["accelerator"][slot], {}).setdefault(slot, set()).add(v)
        subgraphs = tuple(
            tuple(frozenset(slots[s]) for s in sorted(slots))
            for slots in (members.get(d, {}) for d in range(self.deployment.num_accelerators))
        )
        idle = max(0, self.deployment.num_cpus - 1)
        cpus = (frozenset(on_cpu), *(frozenset[int]() for _ in range(idle))) if self.deployment.num_cpus else ()
        return Split.from_subgraphs(subgraphs, cpus)

    def _units(self, ms: float) -> int | None:
        """Return a time in units, rounded down; no more than a plan can take, and None where it is infinite."""
        if ms == math.inf:
            return None
        return min(UNITS + 1, math.floor(ms * self.units_per_ms * (1 - SLACK)))

    def _hint(self, split: Split, number: dict[int, int]) -> list[int]:
        """Return the slot of each node in a plan whose tasks do not wait for each other in a circle."""
        slot_of = [-1] * len(number)
        blocks = [task for task in nx.topological_sort(task_graph(self.graph, split)) if task[0] == "block"]
        for slot, (_, d, i) in enumerate(blocks):
            for v in split.subgraphs_of(d)[i]:
                slot_of[number[v]] = slot
        return slot_of


def serial_time(graph: DnnGraph, deployment: Deployment) -> float:
    """Return an upper bound in ms on the latency of every plan: all tasks and transfers one after the other."""
    slots = deployment.num_accelerators * deployment.max_subgraphs
    kinds = accelerator_kinds(graph, deployment)
    slowest_link = min((kind.link_speed for kind in kinds), default=1.0)
    return sum(
        max(node.cpu_ms, *(kind.node_ms(node) for kind in kinds))
        + node.output_ms / slowest_link * min(slots, 1 + len(graph.readers[node.id]))
        for node in graph.nodes
    )
