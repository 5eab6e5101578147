"""The devices as a small graph, with the data that passes between them; as DOT, for the page and for download."""

from collections import defaultdict

import graphviz

from explorer.picture.palette import THEMES, ThemeName, device_colours
from solvers.model.costs import SplitCosts
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.names import printable
from solvers.model.split import Split
from solvers.quantities import binary_size, milliseconds, moving_time


def device_dot(costs: SplitCosts, deployment: Deployment, split: Split, theme: ThemeName = "light") -> graphviz.Digraph:
    """Return the used devices with their loads; an edge says what one micro-batch moves from one to the other.

    Every name goes through the quoting of the graphviz package, so that no text can become DOT.
    """
    colours = device_colours(deployment)
    transfer = THEMES[theme].transfer
    used = {d for d, members in enumerate(split.on(deployment).devices) if members}
    dot = graphviz.Digraph("devices", graph_attr={"rankdir": "LR", "bgcolor": "transparent", "nodesep": "0.3"})
    dot.attr("node", shape="box", style="filled,rounded", fontname="Helvetica", fontsize="11", penwidth="0")
    dot.attr("edge", fontname="Helvetica", fontsize="10", color=transfer, fontcolor=transfer)
    for device in costs.devices:
        if device.device in used:
            fill = colours[device.device].forward
            label = _label(deployment.device_name(device.device), milliseconds(device.load_ms))
            dot.node(f"device {device.device}", label=label, fillcolor=fill.fill, fontcolor=fill.text)
    send_ms: dict[tuple[int, int], float] = defaultdict(float)
    receive_ms: dict[tuple[int, int], float] = defaultdict(float)
    total_bytes: dict[tuple[int, int], float | None] = defaultdict(float)
    for tensor in costs.cut_tensors:
        for target in tensor.to_devices:
            pair = (tensor.from_device, target)
            send_ms[pair] += tensor.send_ms
            receive_ms[pair] += tensor.ms_on(target)
            known = total_bytes[pair]
            total_bytes[pair] = None if known is None or tensor.size_bytes is None else known + tensor.size_bytes
    for (source, target), size in total_bytes.items():
        time = moving_time(send_ms[source, target], [receive_ms[source, target]])
        label = _label(time, *([] if size is None else [binary_size(size)]))
        dot.edge(f"device {source}", f"device {target}", label=label)
    return dot


def placed_dot(graph: DnnGraph, deployment: Deployment, split: Split) -> str:
    """Return the whole graph as DOT text, every node in the colour of its device."""
    colours = device_colours(deployment)
    device_of = split.device_of()
    # Escaped, or a name in angle brackets would be taken for markup.
    name = graphviz.escape(printable(graph.name) or "graph")
    dot = graphviz.Digraph(name, node_attr={"shape": "box", "style": "filled", "fontname": "Helvetica"})
    for node in graph.nodes:
        fill = colours[device_of[node.id]].forward
        label = _label(node.name or str(node.id), deployment.device_name(device_of[node.id]))
        dot.node(f"node {node.id}", label=label, fillcolor=fill.fill, fontcolor=fill.text)
    for edge in graph.edges:
        is_cut = device_of[edge.source] != device_of[edge.target]
        attributes = {"color": THEMES["light"].transfer, "penwidth": "2"} if is_cut else {"color": "#808080"}
        if edge.tensor:
            size = [] if edge.size_bytes is None else [binary_size(edge.size_bytes)]
            time_ms = graph.tensor_of[edge.source, edge.tensor].transfer_ms
            attributes["label"] = _label(edge.tensor, *size, milliseconds(time_ms))
        dot.edge(f"node {edge.source}", f"node {edge.target}", **attributes)
    return str(dot.source)


def _label(*lines: str) -> str:
    r"""Return lines of plain text as a label: no markup, no escapes of theirs, lines parted by the two letters \n.

    A line break itself would be swallowed by some readers where the line before it ends in a backslash.
    """
    parts = [printable(part) for line in lines for part in line.splitlines() or [""]]
    label: str = graphviz.nohtml(r"\n".join(map(graphviz.escape, parts)))
    return label
