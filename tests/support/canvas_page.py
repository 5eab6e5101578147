"""A small page with the linked picture, for the browser tests; `streamlit run` it to look at it.

The query says what to show: `graph=chain` (6 nodes), `layers` (200 nodes in layers), `training` or `tensors` (a chain
whose edges over three nodes carry a tensor `skip`, which node 2 reads besides the other of node 1); `nodes=<n>`;
`stages=<n>`, 0 for a graph that is not placed yet; `micro_batches=<n>`; `schedule=<kind>`; `alternate=1` for a split
whose devices take turns at the nodes; `activations=1` for nodes of 2 GiB, half of it activations; `pair=1` shows the
graph on two devices beside the same graph on `stages` devices, following each other; `slow_links=1` makes the links of
all accelerators but the first four times as slow.
"""

from dataclasses import replace

import streamlit as st

from explorer.picture.component import PictureOptions, placed_pipeline
from explorer.picture.dag_view import DagInfo, dag_info
from explorer.picture.gantt_view import GanttInfo, gantt_info
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.simulate import ScheduleKind, simulate

st.set_page_config(layout="wide")


def network(num_nodes: int, has_layers: bool, is_training: bool) -> DnnGraph:
    """Return a chain whose every fourth node is also read two nodes later, with a mirrored backward pass if asked."""
    pairs = {(v, v + 1) for v in range(1, num_nodes)} | {(v, v + 3) for v in range(1, num_nodes - 2, 4)}
    nodes = [
        Node(v, 1.0 + v % 3, 8.0, 2.0**20, 0.25, name=f"<b>op {v}</b>", layer=f"block {v // 8}" if has_layers else None,
             colocation_class=v if is_training else None)
        for v in range(1, num_nodes + 1)
    ]  # fmt: skip
    if is_training:
        last = 2 * num_nodes + 1
        nodes += [
            Node(last - v, 2.0, 16.0, 2.0**20, 0.25, is_backward=True, colocation_class=v)
            for v in range(num_nodes, 0, -1)
        ]
        pairs |= {(last - v, last - u) for u, v in pairs} | {(num_nodes, num_nodes + 1)}
    return DnnGraph(tuple(nodes), tuple(Edge(u, v, 1e6) for u, v in sorted(pairs)), "test network")


def with_skips(graph: DnnGraph) -> DnnGraph:
    """Return the graph with a tensor "skip" on each edge that leaves nodes out, and on one that leaves out none."""
    long = {edge.source for edge in graph.edges if edge.target != edge.source + 1}
    nodes = (replace(node, tensor_ms=(("skip", 0.5),) if node.id in long else ()) for node in graph.nodes)
    edges = (
        edge if edge.target == edge.source + 1 else replace(edge, size_bytes=2e6, tensor="skip") for edge in graph.edges
    )
    return DnnGraph(tuple(nodes), (*edges, Edge(1, 2, 2e6, "skip")), graph.name)


kind = st.query_params.get("graph", "chain")
size = int(st.query_params.get("nodes", 200 if kind == "layers" else 6))
graph = network(size, kind == "layers", kind == "training")
if kind == "tensors":
    graph = with_skips(graph)
if "activations" in st.query_params:
    nodes = (replace(node, memory_bytes=2.0**31, activation_bytes=2.0**30) for node in graph.nodes)
    graph = DnnGraph(tuple(nodes), graph.edges, graph.name)
most = max(4, int(st.query_params.get("stages", 2)))
deployment = Deployment(most, 1, 2.0**34)
if "slow_links" in st.query_params:
    deployment = Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", most - 1, link_speed=0.25)), 1)
if "long_type" in st.query_params:
    classes = DeviceClass("Maker-of-Accelerators-Model-80GB-Liquid-Co", most - 1), DeviceClass("T4", 1)
    deployment = Deployment.of_classes(classes, 1)
num_stages = st.sidebar.number_input("Stages", 0, most, int(st.query_params.get("stages", 2)))


def views(num_stages: int) -> tuple[DagInfo, GanttInfo | None]:
    """Return what is shown of the graph cut into equal stages."""
    if not num_stages:
        return dag_info(graph, deployment), None
    device_of = {v: min((v - 1) * num_stages // size, num_stages - 1) for v in range(1, size + 1)}
    if "alternate" in st.query_params:
        device_of = {v: (v - 1) % num_stages for v in device_of}
    device_of |= {2 * size + 1 - v: d for v, d in device_of.items() if graph.is_training}
    split = Split.from_device_of(device_of, deployment)
    usual = ScheduleKind.ONE_F_ONE_B if graph.is_training else ScheduleKind.INFERENCE
    order = ScheduleKind(st.query_params.get("schedule", usual))
    schedule = simulate(graph, deployment, split, order, int(st.query_params.get("micro_batches", 8)))
    return dag_info(graph, deployment, split), gantt_info(schedule, deployment)


picture, other = st.tabs(["Picture", "Other"])
with picture:
    if "pair" in st.query_params:
        pair = views(2), views(num_stages)
        longest = max(gantt.makespan_ms for _, gantt in pair if gantt is not None)
        options = PictureOptions(sync_group="pair", compact=True, time_max_ms=longest)
        for side, (column, shown) in enumerate(zip(st.columns(2), pair, strict=True)):
            with column:
                placed_pipeline(*shown, key=f"side {side}", options=options)
    else:
        selection = placed_pipeline(*views(num_stages), key="picture")
        st.text(f"selected: {dict(selection) if selection else None}")
with other:
    placed_pipeline(dag_info(graph, deployment), None, key="hidden")
