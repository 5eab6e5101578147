"""Which accelerators of a deployment are alike for a graph, and the simpler problem where all of them are.

Two classes are one kind if a device of either takes the same time for every node, has the same link and the same
memory: exchanging two such devices changes no cost. Solvers tell kinds apart and not classes, so that a class divided
in two equal ones is the same problem.
"""

from dataclasses import dataclass, replace

import numpy as np

from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Node
from solvers.problem.contraction import Contraction, FloatArray


@dataclass(frozen=True, slots=True)
class AcceleratorKind:
    """Accelerators that are alike: their device numbers, and a class that stands for all of theirs.

    `device_class`, and `class_index`, its place among the classes, are None where the deployment has no classes.
    """

    devices: tuple[int, ...]
    device_class: DeviceClass | None
    class_index: int | None
    memory_bytes: float | None
    memory_limit_bytes: float
    link_speed: float

    def node_ms(self, node: Node) -> float:
        """Time of a node on one of these accelerators in ms."""
        return node.accelerator_ms if self.device_class is None else self.device_class.node_ms(node)

    def block_ms(self, contraction: Contraction) -> FloatArray:
        """Time of each block on one of these accelerators in ms, infinite for one that only CPUs run, shape (n,)."""
        return contraction.accelerator_ms if self.class_index is None else contraction.class_ms[self.class_index]


def accelerator_kinds(graph: DnnGraph, deployment: Deployment) -> tuple[AcceleratorKind, ...]:
    """Return the kinds of accelerators of a deployment, in the order of their first devices; none without any.

    Where stages may be replicated every class is a kind of its own: replicas are devices of one class.

    >>> two = Deployment.of_classes((DeviceClass("A", 2), DeviceClass("B", 1, speed=2.0), DeviceClass("C", 1)))
    >>> [kind.devices for kind in accelerator_kinds(DnnGraph((Node(1, 2.0, 9.0),), ()), two)]
    [(0, 1, 3), (2,)]
    """
    if not deployment.num_accelerators:
        return ()
    if not deployment.classes:
        everyone = tuple(range(deployment.num_accelerators))
        return (AcceleratorKind(everyone, None, None, deployment.memory_bytes, deployment.memory_limit_bytes, 1.0),)
    apart = deployment.replication is not None and deployment.replication.max_replicas > 1
    found: list[tuple[object, AcceleratorKind]] = []
    first = 0
    for index, device_class in enumerate(deployment.classes):
        devices = tuple(range(first, first + device_class.count))
        first += device_class.count
        if not devices:
            continue
        nature = (
            device_class.memory_bytes,
            device_class.link_speed,
            tuple(device_class.node_ms(node) for node in graph.nodes if node.runs_on_accelerator),
        )
        i = None if apart else next((i for i, (known, _) in enumerate(found) if known == nature), None)
        if i is not None:
            found[i] = (nature, replace(found[i][1], devices=found[i][1].devices + devices))
        else:
            limit = device_class.memory_limit_bytes
            kind = AcceleratorKind(
                devices, device_class, index, device_class.memory_bytes, limit, device_class.link_speed
            )
            found.append((nature, kind))
    return tuple(kind for _, kind in found)


def with_identical_accelerators(graph: DnnGraph, deployment: Deployment) -> tuple[DnnGraph, Deployment]:
    """Return the same problem without classes if all accelerators are alike, and else the problem as it is.

    The new graph has the times and transfers of the one kind, and device numbers mean what they meant: every split
    has the same loads, memory and latency in both problems, to the last bit.
    """
    kinds = accelerator_kinds(graph, deployment)
    if not deployment.classes or len(kinds) > 1:
        return graph, deployment
    plain = replace(deployment, classes=(), memory_bytes=kinds[0].memory_bytes if kinds else None)
    if not kinds:
        return graph, plain
    kind = kinds[0]
    nodes = tuple(replace(node, accelerator_ms=kind.node_ms(node), class_ms=()) for node in graph.nodes)
    return graph.with_nodes(nodes).with_bandwidth_factor(kind.link_speed), plain


def blocks_on_the_best_of_all_classes(
    contraction: Contraction, deployment: Deployment
) -> tuple[Contraction, Deployment]:
    """Return a problem with identical accelerators, each as good in every respect as the best of any class.

    No split is slower, holds less or is less valid there, so every lower bound on its optimum is one on that of the
    problem given. A contraction's `accelerator_ms` is the least of the classes' times already.
    """
    if not deployment.classes:
        return contraction, deployment
    link_speed = max((c.link_speed for c in deployment.classes if c.count), default=1.0)
    easier = replace(
        contraction,
        hyperedges=tuple(replace(h, weight_ms=h.weight_ms / link_speed) for h in contraction.hyperedges),
        class_ms=np.zeros((0, 0)),
    )
    return easier, replace(deployment, classes=(), memory_bytes=deployment.largest_memory_bytes)
