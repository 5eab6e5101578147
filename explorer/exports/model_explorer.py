"""A placed graph for Model Explorer (google-ai-edge): the graph, and what is known of its nodes as node data.

The graph file is a collection `{"label", "graphs"}`; a file of node data maps the graph's id to `{"results": {node id:
{"value", "bgColor"}}}`, one file for each quantity, since the viewer shows one at a time. Layers become namespaces,
which it folds; cut tensors become an edge overlay with their times. Fields and their meaning are those of
`model_explorer/graph_builder.py` and `node_data_builder.py` of the package `ai-edge-model-explorer` 0.1.34.
"""

import json
from collections.abc import Mapping
from typing import Any

from explorer.figures.subject import Subject, graph_facts, result_facts
from explorer.picture.palette import THEMES, DeviceColour, device_colours, sequential_ramp, text_on
from solvers.model.graph import Tensor
from solvers.model.names import printable
from solvers.quantities import binary_size, milliseconds, moving_time

GRAPH_ID = "placed"


def model_explorer_files(subject: Subject) -> Mapping[str, str]:
    """Return the files by name: the graph, node data for device, time, memory and stage, and how to open them."""
    stem = subject.stem
    files = {f"{stem}.json": json.dumps(graph_collection(subject), indent=1, allow_nan=False)}
    data = node_data(subject)
    for name, document in data.items():
        files[f"{stem}_node_data_{name}.json"] = json.dumps({GRAPH_ID: document}, indent=1, allow_nan=False)
    files["README.txt"] = (
        "Open in Model Explorer (https://github.com/google-ai-edge/model-explorer):\n\n"
        f"    pip install ai-edge-model-explorer\n    model-explorer {stem}.json\n\n"
        'Then load the files of node data under "View", "Add node data", "Load JSON from computer".\n'
    )
    return files


def graph_collection(subject: Subject) -> dict[str, Any]:
    """Return the graph as a collection of one graph; ids of nodes are those of the plan, as text."""
    graph, deployment = subject.graph, subject.deployment
    device_of = subject.split.device_of()
    colours = device_colours(deployment)
    stage_of = _stages(subject)
    views = subject.dag.nodes
    transfer = {(view.id, ""): milliseconds(view.transfer_ms) for view in views}
    transfer |= {(views[o.source].id, o.name): milliseconds(o.transfer_ms) for o in subject.dag.outputs}
    transfer |= {t.key: moving_time(t.send_ms, t.receive_ms) for t in subject.dag.tensors}
    place = {t: str(i) for tensors in graph.tensors_of.values() for i, t in enumerate(tensors)}
    inputs: dict[int, list[Tensor]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        inputs[edge.target].append(graph.tensor_of[edge.source, edge.tensor])
    nodes = []
    for v in graph.topological_order:
        node, d = graph.node_by_id[v], device_of[v]
        time_ms = deployment.node_ms(node, d)
        facts = {
            "device": deployment.device_name(d),
            "stage": stage_of.get(v),
            "pass": "backward" if node.is_backward else "forward",
            "time": milliseconds(time_ms),
            "memory": binary_size(node.memory_bytes),
            "node": str(v),
        }
        nodes.append(
            {
                "id": str(v),
                "label": printable(node.name) or str(v),
                "namespace": _namespace(node.layer, node.is_backward),
                "attrs": _pairs(facts),
                "incomingEdges": [
                    {"sourceNodeId": str(t.source), "sourceNodeOutputId": place[t], "targetNodeInputId": str(i)}
                    for i, t in enumerate(inputs[v])
                ],
                "outputsMetadata": [
                    {"id": place[t], "attrs": _pairs(_output_facts(t, transfer[v, t.name]))}
                    for t in graph.tensors_of[v]
                ]
                or [{"id": "0", "attrs": _pairs({"transfer time": transfer[v, ""]})}],
                "style": {"backgroundColor": _forward_or_backward(colours[d], node.is_backward)},
            }
        )
    about = dict(result_facts(subject)) | {"Graph": graph_facts(subject)}
    edges = [
        {
            "sourceNodeId": str(tensor.source),
            "targetNodeId": str(v),
            "label": moving_time(tensor.send_ms, [tensor.ms_on(device_of[v])]),
        }
        for tensor in subject.costs.cut_tensors
        for v in graph.tensor_of[tensor.key].readers
        if device_of[v] != tensor.from_device
    ]
    overlay = {
        "name": "Tensors moved between devices",
        "edgeColor": THEMES["light"].transfer,
        "edgeWidth": 3,
        "edges": edges,
    }
    cuts = {"type": "edge_overlays", "name": "Cut tensors", "overlays": [overlay]}
    return {
        "label": subject.title,
        "graphs": [
            {
                "id": GRAPH_ID,
                "nodes": nodes,
                "groupNodeAttributes": {"": about},
                "tasksData": {"edgeOverlaysDataListLeftPane": [cuts] if edges else []},
            }
        ],
    }


def _output_facts(tensor: Tensor, transfer_time: str) -> dict[str, str | None]:
    size = None if tensor.size_bytes is None else binary_size(tensor.size_bytes)
    return {"tensor": printable(tensor.name) or None, "transfer time": transfer_time, "size": size}


def node_data(subject: Subject) -> dict[str, dict[str, Any]]:
    """Return the node data by quantity: device, time, memory and, where there is a schedule, stage."""
    graph, deployment = subject.graph, subject.deployment
    device_of = subject.split.device_of()
    colours = device_colours(deployment)
    by_device = {
        str(v): {
            "value": deployment.device_name(d),
            "bgColor": _forward_or_backward(colours[d], graph.node_by_id[v].is_backward),
            "textColor": text_on(_forward_or_backward(colours[d], graph.node_by_id[v].is_backward)),
        }
        for v, d in device_of.items()
    }
    time_ms = {v: deployment.node_ms(graph.node_by_id[v], d) for v, d in device_of.items()}
    documents: dict[str, dict[str, Any]] = {
        "device": {"name": "Device", "results": by_device},
        "time": _by_number("Time on its device (ms)", time_ms),
        "memory": _by_number("Memory (bytes)", {v: graph.node_by_id[v].memory_bytes for v in device_of}),
    }
    stages = _stages(subject)
    if stages:
        results = {str(v): {"value": stage, **_colours(by_device[str(v)])} for v, stage in stages.items()}
        documents["stage"] = {"name": "Stage", "results": results}
    return documents


def _by_number(name: str, values: Mapping[int, float]) -> dict[str, Any]:
    ramp = sequential_ramp("light")
    gradient = [
        {"stop": i / (len(ramp) - 1), "bgColor": fill.fill, "textColor": fill.text} for i, fill in enumerate(ramp)
    ]
    results = {str(v): {"value": float(value)} for v, value in values.items()}
    return {"name": name, "results": results, "gradient": gradient}


def _stages(subject: Subject) -> dict[int, str]:
    if subject.schedule is None:
        return {}
    return {v: stage.notation for stage in subject.schedule.stages for v in stage.nodes}


def _colours(result: Mapping[str, Any]) -> dict[str, Any]:
    return {"bgColor": result["bgColor"], "textColor": result["textColor"]}


def _forward_or_backward(colour: DeviceColour, is_backward: bool) -> str:
    return (colour.backward if is_backward else colour.forward).fill


def _namespace(layer: str | None, is_backward: bool) -> str:
    """Return the path of groups a node is folded into; empty parts would break the path."""
    parts = [part for part in (layer or "").split("/") if part]
    if is_backward and parts:
        parts[-1] += " backward"
    return "/".join(parts)


def _pairs(facts: Mapping[str, str | None]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in facts.items() if value is not None]
