"""Read and write graphs and splits as JSON: the format of the paper's release, and our superset of it.

The release writes `maxSizePerFPGA` (bytes), `maxFPGAs`, `maxCPUs`, `nodes` {`id`, `supportedOnFpga`, `cpuLatency`
(ms), `fpgaLatency` (ms), `isBackwardNode`, `colorClass`?, `size`? (bytes), `name`?, `layerId`?} and `edges`
{`sourceId`, `destId`, `cost` (ms, equal on all edges out of one node), `size`? (bytes)}. "FPGA" means any
accelerator. Our superset adds `version`, `name` on top and `flops`, `parameterBytes`, `activationBytes`,
`trafficBytes`, `layer` on nodes; every other field keeps its place and meaning, so readers of the release's format read
ours. A node's layer is one text: a whole number is read from and written to the release's `layerId`, anything else
`layer`. Accelerators of several classes are `deviceClasses` {`name`, `count`, `speed`?, `memory`? (bytes),
`linkSpeed`?} on top, whose counts add up to `maxFPGAs`; then each class has a memory and there is no `maxSizePerFPGA`.
Servers with faster links inside are `acceleratorsPerServer` and `serverLinkSpeed`, their speed relative to the others.
A node's times on classes, in ms by name, are its `classLatency`. What the times are for is `times` {`accelerator`?,
`precision`?, `host`?, `kind`: "measured", "scaled", "roofline" or "summed", `measuredOn`?} on top, by names of
`solvers.hardware.catalogue`; `measuredOn` is a text for people, and `fpgaLatencySpread` of a node the interquartile
range of its measured `fpgaLatency`. Where a node produces several tensors, an edge names its own by `tensor`, any text;
edges without one carry one tensor, as in the release. Then `cost` is equal on all edges of one tensor. What one pass
handles is `samplesPerMicroBatch`, a number, on top, with `sampleUnit`?, a plural such as "sequences" or "images", and
`tokensPerSample`?: times stay those of a micro-batch, and throughputs are shown in samples too.

A file is refused in one sentence that names the place.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from solvers.formats.json_fields import (
    MAX_NAME,
    flag,
    integer,
    is_integer,
    list_of,
    number,
    optional_integer,
    optional_number,
    parse_object,
    read_text,
    short,
    short_enough,
    text_of,
    writable,
)
from solvers.model.deployment import MAX_DEVICES, Deployment, DeviceClass
from solvers.model.errors import DeploymentError, GraphError, SplitError
from solvers.model.graph import (
    MAX_BYTES,
    MAX_FLOPS,
    MAX_ID,
    MAX_TIME_MS,
    DnnGraph,
    Edge,
    Node,
    TimesKind,
    TimesOrigin,
    quoted,
)
from solvers.model.micro_batch import MAX_SAMPLES, MicroBatch
from solvers.model.split import Split
from solvers.quantities import count

FORMAT_VERSION = 1
OnProgress = Callable[[int, int, int], None]
"""Told of records made so far, of all nodes and of all edges of a file."""
RECORDS_PER_REPORT = 2_000
OnNote = Callable[[str], None]
"""Given a sentence on what was read."""
TIMES_NAMES = ("accelerator", "precision", "host")
MAX_CLASS_TIMES = 64
"""Classes of accelerators that a node may have times on."""
COST_TOLERANCE_MS = 1e-6
"""How far the costs on the edges out of one node may lie apart."""


def read_graph(path: Path | str, on_note: OnNote | None = None) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment of a file; GraphError names what is wrong and where."""
    return parse_graph(read_text(Path(path), GraphError), name=Path(path).stem, on_note=on_note)


def read_split(path: Path | str) -> Split:
    """Return the split of a file; it may list fewer nodes than its graph has. SplitError names what is wrong."""
    return parse_split(read_text(Path(path), SplitError))


def parse_graph(
    text: str | bytes, name: str = "", on_progress: OnProgress | None = None, on_note: OnNote | None = None
) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment in a JSON text; `name` is used where the text has none.

    `on_progress` is called with how many nodes and edges are made so far, and with how many of each there are: first
    before any is made, then every few thousand. What it raises ends the reading. `on_note` is given a sentence on
    what was read otherwise than it is written: edges that repeat another one in all they say count once.
    """
    return graph_from_document(parse_object(text, "graph", GraphError), name, on_progress, on_note)


def graph_from_document(
    document: dict[str, Any],
    name: str = "",
    on_progress: OnProgress | None = None,
    on_note: OnNote | None = None,
) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment of a JSON object, as `parse_graph` does of its text."""
    version = document.get("version", FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise GraphError(f"The file says version {short(version)}; this program reads version {FORMAT_VERSION}.")
    raw_nodes = list_of(document, "nodes")
    raw_edges = list_of(document, "edges")

    def counted(raws: list[Any], before: int) -> Iterator[tuple[int, Any]]:
        for i, raw in enumerate(raws):
            if on_progress is not None and i % RECORDS_PER_REPORT == 0:
                on_progress(before + i, len(raw_nodes), len(raw_edges))
            yield i, raw

    if on_progress is not None:
        on_progress(0, len(raw_nodes), len(raw_edges))
    transfer_ms = _transfer_times(raw_edges)
    nodes = tuple(_node(raw, i, transfer_ms) for i, raw in counted(raw_nodes, 0))
    edges = tuple(
        Edge(
            integer(raw, "sourceId", f"edges[{i}]"),
            integer(raw, "destId", f"edges[{i}]"),
            optional_number(raw, "size", f"edges[{i}]", MAX_BYTES),
            _tensor(raw, f"edges[{i}]") if "tensor" in raw else "",
        )
        for i, raw in counted(raw_edges, len(nodes))
    )
    if on_progress is not None:
        on_progress(len(nodes) + len(edges), len(nodes), len(edges))
    edges = _each_once(edges, on_note)
    graph = DnnGraph(
        nodes,
        edges,
        text_of(document, "name", "the file") or writable(name)[:MAX_NAME],
        _times_origin(document),
        _micro_batch(document),
    )
    memory_bytes = optional_number(document, "maxSizePerFPGA", "the file", sys.float_info.max)
    server_link_speed = optional_number(document, "serverLinkSpeed", "the file", sys.float_info.max)
    try:
        deployment = Deployment(
            integer(document, "maxFPGAs", "the file"),
            integer(document, "maxCPUs", "the file"),
            memory_bytes,
            classes=_device_classes(document),
            accelerators_per_server=optional_integer(document, "acceleratorsPerServer", "the file"),
            server_link_speed=1.0 if server_link_speed is None else server_link_speed,
        )
    except DeploymentError as error:
        raise GraphError(f"The file's devices are not usable: {error}") from None
    return graph, deployment


def _each_once(edges: tuple[Edge, ...], on_note: OnNote | None) -> tuple[Edge, ...]:
    """Return the edges without those that repeat another one in all they say."""
    if len(set(edges)) == len(edges):
        return edges
    first = {edge: i for i, edge in reversed(tuple(enumerate(edges)))}
    repeated = [i for i, edge in enumerate(edges) if first[edge] != i]
    if on_note is not None:
        edge = edges[repeated[0]]
        example = f"edges[{repeated[0]}] from {edge.source} to {edge.target}"
        on_note(
            f"1 repeated edge with the same numbers counts once: {example}."
            if len(repeated) == 1
            else f"{count(len(repeated))} repeated edges with the same numbers count once: {example}, and others."
        )
    return tuple(dict.fromkeys(edges))


def _times_origin(document: dict[str, Any]) -> TimesOrigin | None:
    """Return what the times are for; None where the file does not say."""
    raw = document.get("times")
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise GraphError(f"The file's 'times' is {short(raw)}; give an object that names an accelerator.")
    kind = raw.get("kind", TimesKind.MEASURED)
    if kind not in tuple(TimesKind):
        raise GraphError(f"times: 'kind' is {short(kind)}; give one of {', '.join(TimesKind)}.")
    accelerator, precision, host = ((text_of(raw, name, "times") or "")[:80] for name in TIMES_NAMES)
    measured_on = (text_of(raw, "measuredOn", "times") or "")[:200]
    return TimesOrigin(accelerator, precision, host, TimesKind(kind), measured_on)


def _micro_batch(document: dict[str, Any]) -> MicroBatch | None:
    """Return what a micro-batch holds; None where the file does not say."""
    samples = optional_number(document, "samplesPerMicroBatch", "the file", MAX_SAMPLES)
    unit, tokens = (text_of(document, "sampleUnit", "the file"), "tokensPerSample")
    tokens_per_sample = optional_number(document, tokens, "the file", MAX_SAMPLES)
    if samples is None:
        if unit is not None or tokens_per_sample is not None:
            raise GraphError("The file has a sampleUnit or tokensPerSample but no samplesPerMicroBatch; give that too.")
        return None
    return MicroBatch(samples, unit or "samples", tokens_per_sample)


def _micro_batch_document(micro_batch: MicroBatch) -> dict[str, Any]:
    tokens = {} if micro_batch.tokens_per_sample is None else {"tokensPerSample": micro_batch.tokens_per_sample}
    return {"samplesPerMicroBatch": micro_batch.samples, "sampleUnit": micro_batch.unit, **tokens}


def _times_document(times: TimesOrigin) -> dict[str, Any]:
    names = zip(TIMES_NAMES, (times.accelerator, times.precision, times.host), strict=True)
    known = {name: value for name, value in names if value}
    measured_on = {"measuredOn": times.measured_on} if times.measured_on else {}
    return {**known, "kind": str(times.kind), **measured_on}


def _device_classes(document: dict[str, Any]) -> tuple[DeviceClass, ...]:
    """Return the classes of accelerators; none where they are all alike."""
    if document.get("deviceClasses") is None:
        return ()
    classes: list[DeviceClass] = []
    for i, raw in enumerate(list_of(document, "deviceClasses")):
        place = f"deviceClasses[{i}]"
        if not isinstance(raw, dict):
            raise GraphError(f"{place} is not an object; give a class with 'name' and 'count'.")
        name = text_of(raw, "name", place)
        if name is None:
            raise GraphError(f"{place} has no 'name'; give it one.")
        factors = [optional_number(raw, key, place, sys.float_info.max) for key in ("speed", "linkSpeed")]
        classes.append(
            DeviceClass(
                name,
                integer(raw, "count", place),
                1.0 if factors[0] is None else factors[0],
                optional_number(raw, "memory", place, MAX_BYTES),
                1.0 if factors[1] is None else factors[1],
            )
        )
    return tuple(classes)


def _class_times(raw: dict[str, Any], place: str) -> tuple[tuple[str, float], ...]:
    """Return a node's times on classes of accelerators."""
    times = raw.get("classLatency")
    if times is None:
        return ()
    if not isinstance(times, dict):
        raise GraphError(f"{place}: 'classLatency' is {short(times)}; give an object of class names and times in ms.")
    if len(times) > MAX_CLASS_TIMES:
        raise GraphError(
            f"{place}: 'classLatency' has times on {count(len(times))} device types; give up to {MAX_CLASS_TIMES}."
        )
    return tuple(
        (short_enough(name, "classLatency", place), number(times, name, f"{place}, classLatency", MAX_TIME_MS))
        for name in times
    )


def parse_split(text: str | bytes) -> Split:
    """Return the split in a JSON text; loads in it are ignored, since the evaluator computes them afresh.

    The text may also be what `placement solve` prints, which has the split in its field `split`. An entry of `fpgas`
    may say in `replicas` how many accelerators run it; absent means one. It may list in `subgraphs` the ids that run
    one after the other for the latency of one micro-batch; absent means all at once.
    """
    document = parse_object(text, "split", SplitError)
    if "split" in document and "fpgas" not in document:
        if not isinstance(document["split"], dict):
            status = short(document.get("status"))
            raise SplitError(f"The file is a result without a split, its status {status}; give one that has a split.")
        document = document["split"]
    devices: list[tuple[frozenset[int], ...]] = []
    replicas: list[int] = []
    subgraphs: list[tuple[frozenset[int], ...]] = []
    for field in ("fpgas", "cpus"):
        raw_devices = document.get(field, [] if field == "cpus" else None)
        if not isinstance(raw_devices, list):
            raise SplitError(f"The split has no list '{field}'; give one entry with 'nodes' per device.")
        if len(raw_devices) > MAX_DEVICES:
            raise SplitError(f"The split lists {len(raw_devices)} '{field}'; up to {MAX_DEVICES} are read.")
        parsed: list[frozenset[int]] = []
        for i, raw in enumerate(raw_devices):
            ids = raw.get("nodes") if isinstance(raw, dict) else None
            if not isinstance(ids, list) or not all(is_integer(v) for v in ids):
                raise SplitError(f"{field}[{i}]: 'nodes' must be a list of node ids.")
            if len(set(ids)) < len(ids):
                raise SplitError(f"{field}[{i}]: a node is listed twice; keep one.")
            parsed.append(frozenset(int(v) for v in ids))
            count = raw.get("replicas", 1)
            most = MAX_DEVICES if field == "fpgas" else 1
            if not is_integer(count) or not 1 <= count <= most:
                allowed = f"a whole number from 1 to {most}" if most > 1 else "left out or 1; CPUs are not replicated"
                raise SplitError(f"{field}[{i}]: 'replicas' is {short(count)}; it must be {allowed}.")
            if field == "fpgas":
                replicas.append(int(count))
                subgraphs.append(_subgraphs(raw, parsed[-1], f"fpgas[{i}]"))
            elif "subgraphs" in raw:
                raise SplitError(f"{field}[{i}]: CPUs run node by node; leave 'subgraphs' out.")
        devices.append(tuple(parsed))
    return Split(devices[0], devices[1], tuple(replicas), tuple(subgraphs))


def _subgraphs(raw: dict[str, Any], members: frozenset[int], place: str) -> tuple[frozenset[int], ...]:
    """Return the subgraphs of an entry in the order they run."""
    lists = raw.get("subgraphs")
    if lists is None:
        return (members,)
    if not isinstance(lists, list) or not all(isinstance(ids, list) and all(map(is_integer, ids)) for ids in lists):
        raise SplitError(f"{place}: 'subgraphs' must be lists of node ids, in the order they run.")
    listed = [int(v) for ids in lists for v in ids]
    if sorted(listed) != sorted(members):
        raise SplitError(f"{place}: 'subgraphs' must list each id of 'nodes' once, and no other.")
    return tuple(frozenset(int(v) for v in ids) for ids in lists)


def graph_document(graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return the JSON object of a graph with its deployment; fields the graph does not use are left out."""
    document: dict[str, Any] = {}
    extended = any(
        value is not None
        for node in graph.nodes
        for value in (
            node.flops,
            node.parameter_bytes,
            node.activation_bytes,
            node.traffic_bytes,
            node.spread_ms,
            None if _is_layer_id(node) else node.layer,
        )
    )
    extended = extended or graph.micro_batch is not None or any(node.class_ms for node in graph.nodes)
    if extended or graph.has_names or graph.times or deployment.classes:
        document["version"] = FORMAT_VERSION
        document["name"] = graph.name
    if graph.times is not None:
        document["times"] = _times_document(graph.times)
    if graph.micro_batch is not None:
        document.update(_micro_batch_document(graph.micro_batch))
    if deployment.memory_bytes is not None:
        document["maxSizePerFPGA"] = deployment.memory_bytes
    document["maxFPGAs"] = deployment.num_accelerators
    document["maxCPUs"] = deployment.num_cpus
    if deployment.classes:
        document["deviceClasses"] = list(map(_class_document, deployment.classes))
    if deployment.accelerators_per_server is not None:
        document["acceleratorsPerServer"] = deployment.accelerators_per_server
        document["serverLinkSpeed"] = deployment.server_link_speed
    document["nodes"] = [_node_document(node) for node in graph.nodes]
    document["edges"] = [
        {
            "sourceId": edge.source,
            "destId": edge.target,
            "cost": graph.tensor_of[edge.source, edge.tensor].transfer_ms,
            **({} if edge.size_bytes is None else {"size": edge.size_bytes}),
            **({"tensor": edge.tensor} if edge.tensor else {}),
        }
        for edge in graph.edges
    ]
    return document


def write_graph(path: Path | str, graph: DnnGraph, deployment: Deployment) -> None:
    """Write the text of a graph and its deployment to a file."""
    Path(path).write_text(graph_text(graph, deployment), encoding="utf-8")


def graph_text(graph: DnnGraph, deployment: Deployment) -> str:
    """Return the text of a graph and its deployment, one node or edge a line, so that changes read well in a diff."""
    document = graph_document(graph, deployment)
    lines = []
    for key, value in document.items():
        if isinstance(value, list):
            items = ",\n  ".join(json.dumps(item) for item in value)
            lines.append(f' "{key}": [\n  {items}\n ]' if value else f' "{key}": []')
        else:
            lines.append(f' "{key}": {json.dumps(value)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def split_document(
    split: Split, loads_ms: tuple[float, ...] = (), totals: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return the JSON object of a split; `loads_ms` per device and `totals` such as maxLoad where they are known."""
    k = len(split.accelerators)
    entries = [
        {
            "load": loads_ms[d] if d < len(loads_ms) else -1,
            "nodes": sorted(members),
            **({"replicas": split.num_replicas(d)} if split.num_replicas(d) > 1 else {}),
            **({"subgraphs": list(map(sorted, split.subgraphs_of(d)))} if d < k and split.subgraphs else {}),
        }
        for d, members in enumerate(split.devices)
    ]
    return {**(totals or {}), "fpgas": entries[:k], "cpus": entries[k:]}


def _node(raw: Any, i: int, transfer_ms: dict[int, dict[str, float]]) -> Node:
    place = f"nodes[{i}]"
    if not isinstance(raw, dict):
        raise GraphError(f"{place} is not an object; give a node with named fields.")
    node_id = integer(raw, "id", place)
    place = f"nodes[{i}] (id {node_id})"
    tensor_ms = transfer_ms.get(node_id, {})
    layer = text_of(raw, "layer", place)
    if layer is None and raw.get("layerId") is not None:
        layer = str(integer(raw, "layerId", place))
    return Node(
        id=node_id,
        accelerator_ms=number(raw, "fpgaLatency", place, MAX_TIME_MS),
        cpu_ms=number(raw, "cpuLatency", place, MAX_TIME_MS),
        memory_bytes=optional_number(raw, "size", place, MAX_BYTES) or 0.0,
        transfer_ms=tensor_ms.get("", 0.0),
        runs_on_accelerator=flag(raw, "supportedOnFpga", place),
        is_backward=flag(raw, "isBackwardNode", place),
        colocation_class=None if raw.get("colorClass") is None else integer(raw, "colorClass", place),
        name=text_of(raw, "name", place) or "",
        layer=layer,
        flops=optional_number(raw, "flops", place, MAX_FLOPS),
        parameter_bytes=optional_number(raw, "parameterBytes", place, MAX_BYTES),
        activation_bytes=optional_number(raw, "activationBytes", place, MAX_BYTES),
        class_ms=_class_times(raw, place),
        traffic_bytes=optional_number(raw, "trafficBytes", place, MAX_BYTES),
        spread_ms=optional_number(raw, "fpgaLatencySpread", place, MAX_TIME_MS),
        tensor_ms=tuple((name, ms) for name, ms in tensor_ms.items() if name),
    )


def _class_document(device_class: DeviceClass) -> dict[str, Any]:
    optional = {
        "speed": (device_class.speed, 1.0),
        "memory": (device_class.memory_bytes, None),
        "linkSpeed": (device_class.link_speed, 1.0),
    }
    return {
        "name": device_class.name,
        "count": device_class.count,
        **{key: value for key, (value, usual) in optional.items() if value != usual},
    }


def _node_document(node: Node) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": node.id,
        "supportedOnFpga": node.runs_on_accelerator,
        "cpuLatency": node.cpu_ms,
        "fpgaLatency": node.accelerator_ms,
        "isBackwardNode": node.is_backward,
    }
    optional = {
        "colorClass": node.colocation_class,
        "size": node.memory_bytes,
        "name": node.name or None,
        "layerId": int(node.layer) if node.layer is not None and _is_layer_id(node) else None,
        "layer": None if _is_layer_id(node) else node.layer,
        "flops": node.flops,
        "parameterBytes": node.parameter_bytes,
        "activationBytes": node.activation_bytes,
        "trafficBytes": node.traffic_bytes,
        "fpgaLatencySpread": node.spread_ms,
        "classLatency": dict(node.class_ms) or None,
    }
    document.update({key: value for key, value in optional.items() if value is not None})
    return document


def _is_layer_id(node: Node) -> bool:
    """Whether the layer is a whole number as JSON would write it, so that nothing is lost as a `layerId`."""
    layer = node.layer or ""
    if not (layer.removeprefix("-").isdecimal() and len(layer) <= len(str(-MAX_ID))):
        return False
    return str(int(layer)) == layer and is_integer(int(layer))


def _transfer_times(raw_edges: list[Any]) -> dict[int, dict[str, float]]:
    """Return the time of each tensor per source node, by its name; GraphError where the edges of one disagree."""
    transfer_ms: dict[int, dict[str, float]] = {}
    first: dict[tuple[int, str], int] = {}
    for i, raw in enumerate(raw_edges):
        if not isinstance(raw, dict):
            raise GraphError(f"edges[{i}] is not an object; give an edge with named fields.")
        u = integer(raw, "sourceId", f"edges[{i}]")
        cost = number(raw, "cost", f"edges[{i}]", MAX_TIME_MS)
        tensor = _tensor(raw, f"edges[{i}]") if "tensor" in raw else ""
        own = transfer_ms.get(u)
        if own is None:
            own = transfer_ms[u] = {}
        if tensor not in own:
            first[u, tensor], own[tensor] = i, cost
        elif abs(cost - own[tensor]) > COST_TOLERANCE_MS:
            same = f"tensor {quoted(tensor)} of node {u}" if tensor else f"node {u}"
            raise GraphError(
                f"edges[{i}] out of {same} costs {cost} ms, but edges[{first[u, tensor]}] out of the same "
                f"{'tensor' if tensor else 'node'} costs {own[tensor]} ms; a tensor is sent once, so give both the "
                "same cost, or name different tensors in 'tensor'."
            )
    return transfer_ms


def _tensor(raw: dict[str, Any], place: str) -> str:
    """Return the name of an edge's tensor, empty where it has none."""
    name = text_of(raw, "tensor", place)
    if name == "":
        raise GraphError(f"{place}: 'tensor' is empty; give the tensor a name, or leave it out.")
    return name or ""
