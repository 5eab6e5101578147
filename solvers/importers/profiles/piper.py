"""Import an input of Piper: JSON with the times of layers under tensor parallelism of several degrees.

`nodes` {`id`, `name`, `TMPCs` {degree: [{`id`, `timePerSample`, `parameterSize`, `memoryUsageA`, `memoryUsageB`,
`syncTimeFw`, `syncTimeBw`}]}}, `edges` {`sourceId`, `destId`, `communicationCost`}, and `maxDevices`,
`maxMemoryPerDevice`, `bandwidth`. Sizes are in bytes, `bandwidth` in bytes per second, times in that of
`--time-unit`; they are of forward and backward pass of one micro-batch together. A device that runs a layer needs
`memoryUsageA` for each micro-batch in flight and `memoryUsageB` besides.
(https://github.com/msr-fiddle/piper; Tarnawski, Narayanan and Phanishayee, "Piper", NeurIPS 2021, section 3.)

Only tensor parallelism of degree 1 is read, and of its configurations the first that recomputes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from solvers.hardware.devices import GB_PER_S
from solvers.importers.checked import short
from solvers.importers.imported import Imported
from solvers.importers.limits import MAX_PROFILE_EDGES, MAX_PROFILE_NODES
from solvers.importers.profiles.measured import MeasuredLayer, Profile, imported_profile
from solvers.importers.workload import Devices, TimeUnit, Workload
from solvers.model.errors import SourceError
from solvers.model.graph import MAX_BYTES, MAX_TIME_MS
from solvers.quantities import count, number

FORWARD_SHARE = 1 / 3
"""Of a training step's time: a backward pass does two products for each of the forward pass."""


def is_piper(document: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an input of Piper."""
    nodes = document.get("nodes")
    return isinstance(nodes, list) and any(isinstance(node, dict) and "TMPCs" in node for node in nodes)


def import_piper(
    document: Mapping[str, Any], workload: Workload, devices: Devices, source: str, title: str = ""
) -> Imported:
    """Return the training graph of an input of Piper; SourceError names the place that cannot be read."""
    nodes, edges = _objects(document, "nodes", MAX_PROFILE_NODES), _objects(document, "edges", MAX_PROFILE_EDGES)
    unit = workload.time_unit or TimeUnit.SECONDS
    layers: list[MeasuredLayer] = []
    place: dict[int, int] = {}
    has_resharding = False
    for i, node in enumerate(nodes):
        node_id = _whole(node.get("id"), f"nodes[{i}]: 'id'")
        if node_id in place:
            raise SourceError(f"nodes[{i}]: the id {node_id} is used twice; ids must differ.")
        place[node_id] = i
        layer, reshards = _layer(node, i, unit)
        layers.append(layer)
        has_resharding = has_resharding or reshards
    sent: dict[tuple[int, int], float] = {}
    for i, edge in enumerate(edges):
        ends = [_whole(edge.get(name), f"edges[{i}]: '{name}'") for name in ("sourceId", "destId")]
        for end in ends:
            if end not in place:
                raise SourceError(f"edges[{i}]: there is no node {short(end)}; add it or remove the edge.")
        pair = (place[ends[0]], place[ends[1]])
        if pair in sent:
            raise SourceError(f"edges[{i}]: the edge {ends[0]} -> {ends[1]} is listed twice; keep one.")
        sent[pair] = _number(edge, "communicationCost", f"edges[{i}]", MAX_BYTES)
    bandwidth = _bandwidth(document)
    said = [
        f"Times are taken to be in {unit} (--time-unit gives another), sizes in bytes; both are of one micro-batch.",
        "Tensor parallelism is of degree 1, and of its configurations the first that recomputes nothing is taken.",
        "The file has one time for both passes of a layer; a third of it is taken to be the forward pass.",
        "Edges out of one layer that carry as many bytes are one tensor, which is sent once; others are tensors of "
        "their own.",
        "The file's own numbers of devices, memory and micro-batches are not read; --accelerators and --device are.",
    ]
    if has_resharding:
        said.append("Bytes of resharding between degrees of tensor parallelism (syncTimeFw, syncTimeBw) are left out.")
    return imported_profile(Profile(title or "Piper profile", layers, sent), workload, devices, source, said, bandwidth)


def _bandwidth(document: Mapping[str, Any]) -> float | None:
    if document.get("bandwidth") is None:
        return None
    bytes_per_s = _number(document, "bandwidth", "the file", 1e18)
    if bytes_per_s < 1:
        raise SourceError(f"the file: 'bandwidth' is {short(document['bandwidth'])}; give bytes per second, 1 or more.")
    return bytes_per_s * GB_PER_S / 1e9


def _objects(document: Mapping[str, Any], name: str, most: int) -> Sequence[Mapping[str, Any]]:
    items = document.get(name)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items) or len(items) > most:
        raise SourceError(f"The file has no '{name}' that can be read; give a list of up to {count(most)} objects.")
    return items


def _layer(node: Mapping[str, Any], i: int, unit: TimeUnit) -> tuple[MeasuredLayer, bool]:
    """Return a layer, and whether its configuration has bytes of resharding."""
    configurations = node.get("TMPCs")
    ones = configurations.get("1") if isinstance(configurations, dict) else None
    if not isinstance(ones, list) or not ones or not all(isinstance(one, dict) for one in ones):
        raise SourceError(
            f"nodes[{i}]: 'TMPCs' has no configuration for tensor parallelism of degree 1, the only one that is read; "
            "give one."
        )
    plain = [one for one in ones if "recomp" not in str(one.get("id", "")).lower()]
    if not plain:
        raise SourceError(f"nodes[{i}]: every configuration of degree 1 recomputes; give one that does not.")
    where = f"nodes[{i}]: degree 1"
    ms = _number(plain[0], "timePerSample", where, MAX_TIME_MS / unit.ms) * unit.ms
    kept, static = (_number(plain[0], name, where, MAX_BYTES) for name in ("memoryUsageA", "memoryUsageB"))
    name = node.get("name")
    label = name if isinstance(name, str) and name else "node"
    resharding = [plain[0].get(what) for what in ("syncTimeFw", "syncTimeBw")]
    return (
        MeasuredLayer(
            "".join(c if c.isprintable() else " " for c in f"{i} {label}"[:120]),
            ms * FORWARD_SHARE,
            ms - ms * FORWARD_SHARE,
            _number(plain[0], "parameterSize", where, MAX_BYTES),
            static,
            kept,
        ),
        any(isinstance(sizes, dict) and any(sizes.values()) for sizes in resharding),
    )


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SourceError(f"{where} is {short(value)}; give a whole number.")
    return value


def _number(fields: Mapping[str, Any], name: str, where: str, most: float) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise SourceError(f"{where}: '{name}' is {short(value)}; give a number from 0 to {number(most)}.")
    return float(value)
