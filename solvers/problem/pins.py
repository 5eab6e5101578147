"""Decisions that a plan must honour: nodes pinned to devices, and nodes kept together.

With pins a solver looks for the best split among those that honour them, so every bound for all splits still holds.
Nodes that are kept together, and nodes pinned to one device, become one block (`solvers.problem.contraction`). What is
left:

* A device holds at most one of the pinned blocks, since these are pinned to different devices.
* Accelerators of a kind are identical but for their pins, and so are CPUs. A chain of stages is therefore sought
  without names for its devices: pinned blocks on stages of their kind, no two on one stage. Afterwards the stage with
  a pinned block gets its device, and the others those that are left (`labelled`). No order among devices is lost by
  that, since data flow alone orders stages. The one exception is a training schedule's memory, where the numbers of
  accelerators decide between stages that wait for nothing of each other: there a plan may be refused by the evaluator,
  and a bound still holds.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import Split, Violation
from solvers.problem.accelerator_kinds import AcceleratorKind
from solvers.problem.contraction import Contraction
from solvers.quantities import binary_sizes


class PinError(PlacementError):
    """Pins that do not belong to the graph or its devices, or that contradict each other."""


def united(groups: Iterable[Collection[int]]) -> list[list[int]]:
    """Return the groups with those that have a member in common made one, in the order of their first members."""
    root: dict[int, int] = {}

    def find(v: int) -> int:
        while root.setdefault(v, v) != v:
            root[v] = root[root[v]]
            v = root[v]
        return v

    for ids in groups:
        first: int | None = None
        for v in ids:
            first = find(v) if first is None else first
            root[find(v)] = find(first)
    members: dict[int, list[int]] = {}
    for v in list(root):
        members.setdefault(find(v), []).append(v)
    return list(members.values())


@dataclass(frozen=True, slots=True)
class Pins:
    """(node, device) for each pinned node, and groups of nodes that share a device wherever it is.

    Both are brought into one form, so that equal pins are equal: sorted, groups that have a node in common are one,
    groups of one node are left out. Raises PinError for a node with two devices. Without any pins false.

    >>> Pins(((2, 0), (1, 1)), ((5, 4), (4, 3)))
    Pins(devices=((1, 1), (2, 0)), together=((3, 4, 5),))
    """

    devices: tuple[tuple[int, int], ...] = ()
    together: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        device_of: dict[int, int] = {}
        for v, d in self.devices:
            if device_of.setdefault(v, d) != d:
                raise PinError(f"Node {v} is pinned to two devices; keep one.")
        object.__setattr__(self, "devices", tuple(sorted(device_of.items())))
        groups = (ids for ids in united(self.together) if len(ids) > 1)
        object.__setattr__(self, "together", tuple(sorted(tuple(sorted(ids)) for ids in groups)))

    def __bool__(self) -> bool:
        return bool(self.devices or self.together)

    @property
    def device_of(self) -> dict[int, int]:
        """The device of each pinned node."""
        return dict(self.devices)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Node sets that must share a device: those kept together, and those pinned to the same one."""
        on_device: dict[int, list[int]] = {}
        for v, d in self.devices:
            on_device.setdefault(d, []).append(v)
        return tuple(map(tuple, united([*self.together, *on_device.values()])))

    def require_known(self, graph: DnnGraph, deployment: Deployment) -> None:
        """Raise PinError for a node that the graph does not have or a device that the deployment does not have."""
        for v in (*(v for v, _ in self.devices), *(v for ids in self.together for v in ids)):
            if v not in graph.node_by_id:
                raise PinError(f"Node {v} is pinned, and the graph does not have it; remove the pin.")
        for v, d in self.devices:
            if not 0 <= d < deployment.num_devices:
                raise PinError(
                    f"{_sentence(graph.node_by_id[v].label)} is pinned to device {d + 1} of "
                    f"{deployment.num_devices}; unpin it or add devices."
                )

    def broken_by(self, graph: DnnGraph, split: Split) -> tuple[Violation, ...]:
        """Return each pin that a complete split does not honour, its devices numbered as in the split."""
        device_of = split.device_of()
        broken = [
            Violation(
                "pin",
                f"{_sentence(graph.node_by_id[v].label)} is pinned to {split_device_name(split, d)} "
                f"and is on {split.device_name(device_of[v])}.",
                device_of[v],
            )
            for v, d in self.devices
            if device_of[v] != d
        ]
        for ids in self.together:
            if len({device_of[v] for v in ids}) > 1:
                broken.append(Violation("together", f"{_nodes(graph, ids)} are kept together and are apart."))
        return tuple(broken)

    def blocks(self, contraction: Contraction) -> dict[int, int]:
        """Return the device of each block with a pinned node; the contraction must be made with these pins."""
        device_of = self.device_of
        found: dict[int, int] = {}
        for b, members in enumerate(contraction.members):
            devices = {device_of[v] for v in members if v in device_of}
            if devices:
                found[b] = min(devices)
        return found

    def why_impossible(self, graph: DnnGraph, deployment: Deployment, contraction: Contraction) -> str | None:
        """Return one sentence that proves that no split of the contraction's family honours the pins, or None.

        Looks at reasons that need no search. The contraction must be made with these pins.
        """
        device_of = self.device_of
        for b, members in enumerate(contraction.members):
            pinned = [v for v in members if v in device_of]
            if not pinned:
                continue
            d = device_of[pinned[0]]
            name = deployment.device_name(d)
            other = next((v for v in pinned if device_of[v] != d), None)
            if other is not None:
                return self._why_together(graph, deployment, members, pinned[0], other)
            if deployment.is_cpu(d):
                continue
            if np.isinf(contraction.accelerator_ms[b]):
                v = next(v for v in members if not graph.node_by_id[v].runs_on_accelerator)
                anchor = graph.node_by_id[pinned[0]].label
                cause = "" if v in device_of else f" through {anchor}, with which it must be"
                label = _sentence(graph.node_by_id[v].label)
                return f"{label} runs on CPUs only and is pinned to {name}{cause}; unpin it."
            needed = float(contraction.memory_bytes[b])
            capacity = deployment.capacity_bytes(d)
            if capacity is not None and needed > deployment.memory_limit_of(d):
                more = len(members) - len(pinned)
                ties = f" with {more} more that must be with them" if more else ""
                held, size, short = binary_sizes([needed, capacity, needed - capacity])
                return (
                    f"{name} cannot hold what is pinned to it: {_nodes(graph, pinned)}{ties} need {held}, its capacity "
                    f"is {size}, it is short by {short}; unpin some."
                )
        return None

    def _why_together(self, graph: DnnGraph, deployment: Deployment, members: Collection[int], u: int, v: int) -> str:
        device_of = self.device_of
        first, second = graph.node_by_id[u], graph.node_by_id[v]
        pinned = (
            f"{_sentence(first.label)} is pinned to {deployment.device_name(device_of[u])} and {second.label} to "
            f"{deployment.device_name(device_of[v])}"
        )
        tied = [*self.together, *graph.colocation_members.values()]
        is_tied = any(u in ids and v in ids for ids in map(set, united(tied)))
        if is_tied:
            return f"{pinned}, but they must share a device; unpin one of them."
        return (
            f"{pinned}, but no pipeline has them apart: data flows in a circle between what is with them; unpin one of "
            "them or allow non-contiguous splits."
        )

    def labelled(self, split: Split, deployment: Deployment, kinds: Sequence[AcceleratorKind] = ()) -> Split:
        """Return the split with its devices exchanged among their kind, so that pinned nodes are where they should be.

        Accelerators are all of one kind unless `kinds` tells several. Where no exchange does that, as many pins are
        honoured as come first.
        """
        device_of = self.device_of
        on_deployment = split.on(deployment)
        if not device_of or on_deployment.replicas or on_deployment.subgraphs:
            return split
        devices = on_deployment.devices
        number = {d: g for g, kind in enumerate(kinds) for d in kind.devices}

        def kind_of(d: int) -> int:
            return -1 if deployment.is_cpu(d) else number.get(d, 0)

        target: dict[int, int] = {}
        for d, members in enumerate(devices):
            wanted = min((device_of[v] for v in members if v in device_of), default=None)
            is_fit = wanted is not None and kind_of(wanted) == kind_of(d)
            if wanted is not None and is_fit and wanted not in target.values():
                target[d] = wanted
        for g in sorted({kind_of(d) for d in range(deployment.num_devices)}):
            kind = [d for d in range(deployment.num_devices) if kind_of(d) == g]
            taken = set(target.values())
            left = iter([d for d in kind if d not in taken])
            # Devices with nodes first: idle ones take what is left.
            waiting = sorted((d for d in kind if d not in target), key=lambda d: not devices[d])
            target.update(zip(waiting, left, strict=True))
        members_of = {target[d]: members for d, members in enumerate(devices)}
        k = deployment.num_accelerators
        ordered = tuple(members_of[d] for d in range(deployment.num_devices))
        return Split(ordered[:k], ordered[k:])


NO_PINS = Pins()


def pins_of(device_of: Mapping[int, int], together: Iterable[Collection[int]] = ()) -> Pins:
    """Return pins from a mapping of nodes to devices and groups of nodes."""
    return Pins(tuple(device_of.items()), tuple(tuple(ids) for ids in together))


def split_device_name(split: Split, device: int) -> str:
    """What a person calls a device of a split that may have fewer entries."""
    return split.device_name(device) if device < len(split.devices) else f"device {device + 1}"


def _nodes(graph: DnnGraph, ids: Collection[int]) -> str:
    """Name a few nodes as a sentence begins."""
    labels = [graph.node_by_id[v].label for v in list(ids)[:3]]
    if len(ids) > 3:
        labels = [*labels[:2], f"{len(ids) - 2} more"]
    text = labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"
    return _sentence(text)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
