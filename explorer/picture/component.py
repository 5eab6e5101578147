"""The linked picture in the page: sends what `dag_info` and `gantt_info` decided to the canvas component.

The JavaScript and CSS in `explorer/canvas` are ES modules as they stand; they are joined here, in the order of their
imports, into the one module a component may have, and given to Streamlit as text: the module itself, or, where our own
server runs, a few lines that import it from there (`explorer.server.scripts`), for the text goes with every message.
Why not `asset_dir`: served files need a manifest that Streamlit finds only through an import package named like the
distribution, or through Streamlit's internals, and only in an installed copy. This works from a checkout, a wheel and
AppTest alike, and is never stale in a browser's cache; the browser compiles the code once.
"""

import hashlib
import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from explorer.edits.view import EditView
from explorer.layout.levels import LevelView
from explorer.picture.dag_view import DagInfo
from explorer.picture.gantt_message import gantt_message
from explorer.picture.gantt_view import GanttInfo
from explorer.picture.palette import THEMES, DeviceColour, Fill, device_colours, sequential_ramp
from explorer.picture.speaker_notes import SpeakerNote, speaker_notes
from explorer.server.scripts import scripts
from solvers.model.deployment import Deployment

MODULES = (
    "kit/contract", "kit/format", "kit/quantities", "kit/theme", "data/payload", "kit/touch", "kit/surface",
    "data/links", "data/store", "kit/names", "kit/areas", "kit/dom", "graph/level_buttons", "data/search",
    "graph/arrangement", "graph/colour_modes", "graph/graph_view", "graph/graph_edges", "graph/graph_costs",
    "graph/graph_ties", "graph/graph_boxes", "graph/graph_controls", "graph/minimap", "graph/speaker_notes",
    "graph/graph_canvas", "data/bar_index", "timeline/pixel_rows", "timeline/gantt_bars",
    "timeline/gantt_marks", "timeline/gantt_canvas", "timeline/memory_curves", "timeline/memory_strip", "panels/panel",
    "panels/legend", "panels/gantt_range", "replay/replay_state", "replay/replay", "replay/replay_graph",
    "timeline/timeline",
    "panels/virtual_table", "panels/tables", "panels/details", "app/keys", "data/stepping", "app/sync",
    "panels/edit_bar", "data/selection", "app/presentation", "app/probe", "app/main", "app/standalone",
)  # fmt: skip
"""Each module after the ones it imports."""

Selection = Mapping[str, Any]
"""What the user selected: {"node": id}, {"nodes": ids}, {"group": title, "nodes": ids}, {"tensor": id of the node that
makes it}, {"device": d}, {"device": d, "stage": s}, {"device": d, "stage": s, "micro_batch": m}, {"micro_batch": m}, or
{"from_ms": t, "to_ms": t}."""


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """How a picture is shown among others.

    `height` is in pixels for graph and timeline together; by default the graph takes a share of the window and the
    timeline what its lanes need. Pictures with the same `sync_group` follow each other's pointer, selection, level and
    view. `compact` leaves out the tables and lowers the graph. `time_max_ms` is where the time axis ends at the
    earliest, so that several timelines have one scale. `look` is what the picture is to show when it comes from an
    address. `title` and `facts` head it in a presentation.
    `large` draws it larger in its place, for a page that is presented, and `window_share` is how much of such a page's
    height it may take.
    `lanes_only` leaves out all of the timeline but its title and lanes.
    """

    height: int | None = None
    sync_group: str | None = None
    compact: bool = False
    time_max_ms: float | None = None
    look: "Look | None" = None
    title: str = ""
    facts: str = ""
    lanes_only: bool = False
    large: bool = False
    window_share: float = 1.0


@dataclass(frozen=True, slots=True)
class Look:
    """What the user looks at: a level, what the fill says, and in which order; None is the picture's own choice.

    `present` says that the picture is shown alone and large; `notes` are those of the speaker. `by_device` says that
    the lanes of the timeline stand in the order of the devices' numbers rather than in that of the pipeline.

    The picture takes over a look when its `serial` is another than that of the last one.
    """

    level: str | None = None
    colour: str | None = None
    arrangement: str | None = None
    serial: int = 0
    present: bool = False
    notes: tuple[SpeakerNote, ...] = ()
    by_device: bool = False


PLAIN = PictureOptions()


def placed_pipeline(
    graph_view: DagInfo | None,
    gantt_view: GanttInfo | None,
    *,
    key: str,
    options: PictureOptions = PLAIN,
    edits: EditView | None = None,
    on_edit: Callable[[], None] | None = None,
) -> Selection | None:
    """Show the placed graph above the timeline of its schedule; return what the user has selected, None for nothing.

    Either part may be None. A selection stays until the user clears it; one that does not fit what is shown now (the
    graph has changed) is not returned. With `edits` the plan can be edited by hand: `on_edit` is called before the page
    runs again, and finds what is asked for in the session state of `key`, under "edit".
    """
    result = _component()(
        key=key,
        data=pack(graph_view, gantt_view, key, options, edits),
        on_selection_change=_nothing,
        on_look_change=_nothing,
        on_edit_change=on_edit or _nothing,
    )
    return _valid_selection(result.get("selection"), graph_view, gantt_view)


def pack(
    graph_view: DagInfo | None,
    gantt_view: GanttInfo | None,
    key: str,
    options: PictureOptions = PLAIN,
    edits: EditView | None = None,
) -> bytes:
    """Return the message to the component: a JSON header and typed arrays, see `canvas/data/payload.js`.

    One block of bytes, because bars by the ten thousand are slow as JSON, and Streamlit passes bytes only alone.
    Numbers that are not finite raise ValueError here; in the browser they would leave a blank picture.
    """
    arrays = _Arrays()
    deployment = graph_view.deployment if graph_view else gantt_view.deployment if gantt_view else Deployment(0)
    header: dict[str, Any] = {
        "key": key,
        "height": options.height,
        "syncGroup": options.sync_group,
        "compact": options.compact,
        "timeMaxMs": options.time_max_ms,
        "look": None if options.look is None else asdict(options.look),
        "title": options.title,
        "facts": options.facts,
        "lanesOnly": options.lanes_only,
        "large": options.large,
        "windowShare": options.window_share,
        "themes": {
            name: {
                "transfer": theme.transfer,
                "alarm": theme.alarm,
                "unplaced": _fill(theme.unplaced),
                "ramp": [_fill(step) for step in sequential_ramp(name)],
            }
            for name, theme in THEMES.items()
        },
        "devices": _devices(deployment, graph_view),
        "graph": None if graph_view is None else _graph(graph_view, arrays),
        "gantt": None if gantt_view is None else gantt_message(gantt_view, graph_view, arrays.add),
        "edits": None if edits is None or graph_view is None else edits.header([node.id for node in graph_view.nodes]),
        "arrays": arrays.entries,
    }
    body = bytes(arrays.body)
    text = json.dumps(header, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode() + body).hexdigest()[:16]
    head = f'{{"digest":"{digest}",{text[1:]}'.encode()
    start = struct.pack("<I", len(head)) + head
    return start + b"\0" * (-len(start) % 8) + body


def look_from_state(state: Any) -> Look | None:
    """Return what the user looks at, as the component has told it; None if it has not, or not in a usable way.

    `state` is the value of the component's key in the session state.
    """
    value = state.get("look") if isinstance(state, Mapping) else None
    if not isinstance(value, Mapping):
        return None
    names = [value.get(name) for name in ("level", "colour", "arrangement")]
    serial = value.get("serial", 0)
    if not all(name is None or (isinstance(name, str) and re.fullmatch(r"[A-Za-z]{1,30}", name)) for name in names):
        return None
    if not isinstance(serial, int) or isinstance(serial, bool):
        return None
    notes = speaker_notes(value.get("notes", []))
    present, by_device = value.get("present", False), value.get("by_device", False)
    if notes is None or not isinstance(present, bool) or not isinstance(by_device, bool):
        return None
    level, colour, arrangement = names
    return Look(level, colour, arrangement, serial, present, notes, by_device)


@cache
def component_source() -> tuple[str, str]:
    """Return the JavaScript (one module) and the CSS of the component."""
    folder = files("explorer") / "canvas"
    parts: list[str] = []
    for name in MODULES:
        source = (folder / f"{name}.js").read_text(encoding="utf-8")
        source = re.sub(r"^import .*?;\n", "", source, flags=re.MULTILINE | re.DOTALL)
        parts.append(re.sub(r"^export (?!default)", "", source, flags=re.MULTILINE))
    return "\n".join(parts), (folder / "style.css").read_text(encoding="utf-8")


@cache
def standalone_source() -> tuple[str, str]:
    """Return the JavaScript and the CSS that show a picture on a page without Streamlit.

    The JavaScript is a module for a script element of that type. It defines `placementPicture` for the page:
    `placementPicture.mountStandalone(element, bytes, "light" | "dark" | "auto")` shows what `pack` returned, and
    `placementPicture.bytesFromBase64(text)` reads it from a text. The CSS holds within elements of class
    `placement-picture` only, so the element to mount on needs that class.
    """
    js, css = component_source()
    js = re.sub(r"^export default ", "", js, flags=re.MULTILINE)
    return (
        f"{js}\nglobalThis.placementPicture = {{ mountStandalone, bytesFromBase64 }};\n",
        f".placement-picture {{\n{css}\n}}\n",
    )


def _component() -> Any:
    js, css = component_source()
    return _register(scripts().loaded_from_here(js), css)


@cache
def _register(js: str, css: str) -> Any:
    return st.components.v2.component("dnn_placement_explorer.placed_pipeline", js=js, css=css)


def _nothing() -> None:
    """Serve as the callback that makes Streamlit keep a value."""


def _valid_selection(value: Any, graph_view: DagInfo | None, gantt_view: GanttInfo | None) -> Selection | None:
    if not isinstance(value, Mapping):
        return None
    digest = graph_view.digest if graph_view is not None else None
    if value.get("graph", digest) != digest:
        return None
    selection = {name: part for name, part in value.items() if name != "graph"}
    if named := next((name for name in ("node", "tensor", "nodes") if name in selection), None):
        ids = {node.id for node in graph_view.nodes} if graph_view is not None else set()
        wanted = selection[named] if named == "nodes" else [selection[named]]
        is_known = isinstance(wanted, list) and wanted and all(isinstance(v, int) and v in ids for v in wanted)
        return selection if is_known else None
    if "device" in selection:
        view = graph_view or gantt_view
        device = selection["device"]
        is_known = view is not None and isinstance(device, int) and 0 <= device < view.deployment.num_devices
        return selection if is_known else None
    if "micro_batch" in selection:
        batch = selection["micro_batch"]
        is_known = gantt_view is not None and isinstance(batch, int) and 0 <= batch < gantt_view.num_micro_batches
        return selection if is_known else None
    ends = selection.get("from_ms"), selection.get("to_ms")
    return selection if all(isinstance(end, int | float) for end in ends) else None


class _Arrays:
    """Typed arrays one after the other, each at a multiple of 8 bytes."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[str, int, int]] = {}
        self.body = bytearray()

    def add(self, name: str, values: Any, dtype: str) -> None:
        """Append numbers as `dtype` (f4, f8, i4, u1); ValueError when one is not finite."""
        array: NDArray[Any] = np.asarray(values, dtype=f"<{dtype}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} has a value that is not finite; it cannot be drawn.")
        self.entries[name] = (dtype, len(self.body), int(array.size))
        self.body += array.tobytes()
        self.body += b"\0" * (-len(self.body) % 8)


def _fill(fill: Fill) -> dict[str, str]:
    return {"fill": fill.fill, "text": fill.text}


def _colour(colour: DeviceColour) -> dict[str, Any]:
    return {
        "pattern": colour.pattern,
        "forward": _fill(colour.forward),
        "forwardOdd": _fill(colour.forward_odd),
        "backward": _fill(colour.backward),
        "backwardOdd": _fill(colour.backward_odd),
        "weight": _fill(colour.weight),
        "weightOdd": _fill(colour.weight_odd),
    }


def _devices(deployment: Deployment, view: DagInfo | None) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = []
    for d, colour in enumerate(device_colours(deployment)):
        known = view.devices[d] if view is not None else None
        devices.append(
            {
                "device": d,
                "name": deployment.device_name(d),
                "label": colour.label,
                "type": _type_of(deployment, d),
                "colour": _colour(colour),
                "isCpu": deployment.is_cpu(d),
                "numNodes": known.num_nodes if known else 1,
                "loadMs": known.load_ms if known else None,
                "computeMs": known.compute_ms if known else None,
                "receiveMs": known.receive_ms if known else None,
                "sendMs": known.send_ms if known else None,
                "memoryBytes": known.memory_bytes if known else None,
                "capacityBytes": deployment.capacity_bytes(d),
                "replicas": known.replicas if known else 1,
                "isBottleneck": known.is_bottleneck if known else False,
            }
        )
    return devices


def _type_of(deployment: Deployment, device: int) -> str | None:
    """Return the name of a device's type where accelerators are of several; None elsewhere."""
    names = {device_class.name for device_class in deployment.classes if device_class.count}
    if len(names) < 2:
        return None
    device_class = None if deployment.is_cpu(device) else deployment.class_of(device)
    return "CPU" if device_class is None else device_class.name


def _graph(view: DagInfo, arrays: _Arrays) -> dict[str, Any]:
    nodes = view.nodes
    index = {node.id: i for i, node in enumerate(nodes)}
    for name, ends in zip(("edge.source", "edge.target"), view.ends, strict=True):
        if ends:
            arrays.add(name, ends, "i4")
    if view.outputs:
        arrays.add("edge.output", view.output_of_edge, "i4")
    number = {(output.source, output.name): i for i, output in enumerate(view.outputs)}
    return {
        "digest": view.digest,
        "summary": view.summary,
        "placed": view.is_placed,
        "training": any(node.is_backward for node in nodes),
        "opening": view.opening_level,
        "numCutTensors": view.num_cut_tensors,
        "tensors": [
            {
                "source": index[tensor.source],
                "output": number.get((index[tensor.source], tensor.tensor)),
                "name": tensor.tensor,
                "from": tensor.from_device,
                "to": tensor.to_devices,
                "sendMs": float(tensor.send_ms),
                "receiveMs": [float(ms) for ms in tensor.receive_ms],
                "bytes": None if tensor.size_bytes is None else float(tensor.size_bytes),
            }
            for tensor in view.tensors
        ],
        "outputs": {
            "source": [output.source for output in view.outputs],
            "name": [output.name for output in view.outputs],
            "transferMs": [output.transfer_ms for output in view.outputs],
            "bytes": [output.size_bytes for output in view.outputs],
        }
        if view.outputs
        else None,
        "nodes": {
            "id": [node.id for node in nodes],
            "name": [node.name for node in nodes],
            "layer": [node.layer for node in nodes],
            "device": [-1 if node.device is None else node.device for node in nodes],
            "backward": [int(node.is_backward) for node in nodes],
            "onAccelerator": [int(node.runs_on_accelerator) for node in nodes],
            "acceleratorMs": [node.accelerator_ms for node in nodes],
            "cpuMs": [node.cpu_ms for node in nodes],
            "memoryBytes": [node.memory_bytes for node in nodes],
            "outputBytes": [node.output_bytes for node in nodes],
            "transferMs": [node.transfer_ms for node in nodes],
            "cut": [int(node.is_cut) for node in nodes],
            "flops": [node.flops for node in nodes],
        },
        "ties": view.ties,
        "levels": [_level(level, arrays) for level in view.levels],
    }


def _level(level: LevelView, arrays: _Arrays) -> dict[str, Any]:
    boxes, edges, layout = level.boxes, level.edges, level.layout
    arrays.add(f"{level.name}.x", [x for x, _ in layout.centres], "f4")
    arrays.add(f"{level.name}.y", [y for _, y in layout.centres], "f4")
    arrays.add(f"{level.name}.route", [c for route in layout.routes for c in route], "f4")
    arrays.add(f"{level.name}.route_end", np.cumsum([len(route) for route in layout.routes], dtype=int), "i4")
    return {
        "name": level.name,
        "flow": layout.flow,
        "width": layout.width,
        "height": layout.height,
        "boxWidth": level.box_size[0],
        "boxHeight": level.box_size[1],
        "boxes": {
            "label": [box.label for box in boxes],
            "short": [box.short for box in boxes],
            "title": [box.title for box in boxes],
            "nodes": [box.nodes for box in boxes],
            "backward": [int(box.is_backward) for box in boxes],
            "shares": [[(d, round(share, 4)) for d, share in box.shares] for box in boxes],
            "count": [box.count for box in boxes],
            "timeMs": [box.time_ms for box in boxes],
            "memoryBytes": [box.memory_bytes for box in boxes],
            "sentMs": [box.sent_ms for box in boxes],
            "sentBytes": [box.sent_bytes for box in boxes],
            "seams": [
                [i, seam.send_ms, seam.receive_ms, seam.cut_bytes, seam.num_cut_tensors]
                for i, box in enumerate(boxes)
                if (seam := box.seam) is not None
            ],
        },
        "edges": {
            "source": [edge.source for edge in edges],
            "target": [edge.target for edge in edges],
            "sendMs": [edge.send_ms for edge in edges],
            "receiveMs": [edge.receive_ms for edge in edges],
            "cutMs": [edge.cut_ms for edge in edges],
            "cutBytes": [edge.cut_bytes for edge in edges],
            "tensors": [edge.num_cut_tensors for edge in edges],
            "showsCost": [int(edge.shows_cost) for edge in edges],
        },
    }
