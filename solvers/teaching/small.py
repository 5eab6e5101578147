"""The problem as the teaching methods see it: sets of nodes, and what a device takes for one of them.

An accelerator that holds the set S of nodes takes

    load(S) = sum_{v in S} p_v + sum_u c_u [ {u} + readers(u) is cut by S ]

and a CPU the sum of q_v (Tarnawski et al., NeurIPS 2020, section 3). Nothing is prepared, compiled or kept: each load
is computed from the definition. That is slow, and easy to follow.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from solvers.model.deployment import Communication, Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph

Ideal = frozenset[int]

MAX_NODES = 64
"""More nodes than can be followed by eye, and than these methods can take time for."""


class TeachingError(PlacementError):
    """A graph or devices that the teaching methods do not take; the text says which do."""


@dataclass(frozen=True)
class SmallProblem:
    """A graph on identical accelerators and CPUs; raises TeachingError for what needs more than the plain model.

    >>> from solvers.model.graph import Edge, Node
    >>> graph = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> problem = SmallProblem(graph, Deployment(2))
    >>> problem.load_ms({1}), problem.load_ms({1, 2}), problem.cpu_ms({1})
    (2.5, 5.0, 9.0)
    """

    graph: DnnGraph
    deployment: Deployment

    def __post_init__(self) -> None:
        graph, deployment = self.graph, self.deployment
        if len(graph.nodes) > MAX_NODES:
            raise TeachingError(
                f"The graph has {len(graph.nodes)} nodes; the steps of a method are shown for up to {MAX_NODES}."
            )
        if graph.is_training or graph.colocation_members:
            raise TeachingError(
                "The graph has backward nodes or colocation classes; the steps of a method are shown for inference "
                "graphs without classes."
            )
        is_plain = (
            not deployment.classes
            and not deployment.has_servers
            and deployment.training_memory is None
            and deployment.replication is None
            and deployment.communication is Communication.SUM
        )
        if not is_plain:
            raise TeachingError(
                "The steps of a method are shown for identical accelerators whose transfers add to compute, without "
                "servers, replicas and a training schedule's memory."
            )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Node ids in topological order."""
        return self.graph.topological_order

    @cached_property
    def place(self) -> dict[int, int]:
        """Place of each node in the topological order."""
        return {v: i for i, v in enumerate(self.order)}

    @property
    def nodes(self) -> Ideal:
        """All nodes: the largest ideal."""
        return frozenset(self.order)

    def load_ms(self, members: Collection[int]) -> float | None:
        """Return what an accelerator takes for these nodes in ms; None where it cannot hold them."""
        held = set(members)
        nodes = [self.graph.node_by_id[v] for v in self.order if v in held]
        if not all(node.runs_on_accelerator for node in nodes):
            return None
        if sum(node.memory_bytes for node in nodes) > self.deployment.memory_limit_bytes:
            return None
        return self.compute_ms(held) + sum(ms for _, ms in self.transfers(held))

    def compute_ms(self, members: Collection[int]) -> float:
        """Return what an accelerator computes for these nodes, in ms."""
        return sum((self.graph.node_by_id[v].accelerator_ms for v in self.order if v in members), 0.0)

    def transfers(self, members: Collection[int]) -> list[tuple[int, float]]:
        """Return the node and the time in ms of each tensor that passes between these nodes and others."""
        held = set(members)
        found = []
        for tensor in self.graph.tensors:
            ends = {tensor.source, *tensor.readers}
            if ends & held and ends - held:
                found.append((tensor.source, tensor.transfer_ms))
        return found

    def cpu_ms(self, members: Collection[int]) -> float:
        """Return what a CPU takes for these nodes, in ms."""
        return sum((self.graph.node_by_id[v].cpu_ms for v in self.order if v in members), 0.0)
