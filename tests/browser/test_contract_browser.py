"""Python and the picture agree on every name of the message, of what is selected and of what is asked for.

The picture reads a message whose records know what was read of them. What it reads that Python does not write, and
what Python writes that it never reads, both fail. So do names of the other way: those that Python does not know.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from explorer.edits.history import Outcome
from explorer.edits.operations import OPERATIONS
from explorer.edits.view import EditView
from explorer.picture.component import Look, PictureOptions, pack, standalone_source
from explorer.picture.contract import EDIT_KEYS, FILE, SELECTION_KEYS, contract_source
from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from explorer.plan import edit_actions
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.schedule.simulate import ScheduleKind, simulate
from tests.support.root import ROOT

WATCH = """
// Reads of records of the message, by their place in it; what the picture itself adds to a record is its own affair.
globalThis.read = new Set();
globalThis.missing = new Set();
globalThis.sent = [];
const own = new WeakMap();
const known = new WeakMap();
function watched(value, place) {
  if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
  if (Array.isArray(value) && !value.some((one) => typeof one === "object")) return value;
  const entries = value.arrays;
  if (!known.has(value)) known.set(value, new Proxy(value, {
    get(record, key, self) {
      const found = Reflect.get(record, key, self);
      if (typeof key === "symbol") return found;
      if (Array.isArray(record)) return /^\\d+$/.test(key) ? watched(found, `${place}[]`) : found;
      if (own.get(record)?.has(key) || key === "toJSON") return found;
      // The entries of the header are replaced by the arrays they tell of.
      if (key === "arrays" && record.arrays !== entries) return watched(found, "array");
      const here = place ? `${place}.${key}` : key;
      (Object.hasOwn(record, key) ? globalThis.read : globalThis.missing).add(here);
      return watched(found, here);
    },
    set(record, key, value) {
      if (key === "arrays") return Reflect.set(record, key, value);
      if (!own.has(record)) own.set(record, new Set());
      own.get(record).add(key);
      globalThis.missing.delete(place ? `${place}.${key}` : key);
      record[key] = value;
      return true;
    },
  }));
  return known.get(value);
}
const parse = JSON.parse;
JSON.parse = (text, ...more) => {
  const value = parse(text, ...more);
  return value && Object.hasOwn(value, "digest") && Object.hasOwn(value, "themes") ? watched(value, "") : value;
};
"""

USE = """
async ({ levels, things, tabs, operations }) => {
  const { picture } = globalThis;
  const pause = () => new Promise((done) => setTimeout(done, 50));
  const event = { clientX: 300, clientY: 200 };
  for (const level of levels) {
    picture.setLevel(level);
    for (const colour of ["device", "time", "memory", "sent", "sentBytes"]) {
      picture.graph.setColour(colour);
      await pause();
    }
    for (const order of ["lanes", "flow"]) { picture.graph.setArrangement(order); await pause(); }
    for (const edge of [0, 1]) picture.hover({ kind: "edge", edge }, event);
    picture.actions().selectBox(0);
    for (const thing of things) { picture.hover(thing, event); picture.select(thing); await pause(); }
  }
  for (const tab of tabs) {
    Object.assign(picture.tables.kept, { isOpen: true, tab });
    picture.tables.show();
    await pause();
  }
  picture.find("device:1 time>0.1ms memory>1B transfer>0 output>0 layer:block id:1");
  if (things.length) {
    picture.timeline.memory.describe(0, 1);
    picture.timeline.replay.seek(3);
    await pause();
  }
  picture.select(things[0] ?? null);
  for (const op of operations) {
    picture.editBar.send(op);
    picture.editBar.pendingOp = null; // as an answer would
  }
}
"""


def network() -> DnnGraph:
    """Two blocks of three nodes with a mirrored backward pass."""
    forward = [
        Node(
            v,
            2.0,
            8.0,
            2.0**20,
            0.25,
            name=f"op {v}",
            layer=f"block {v // 4}",
            flops=1e6,
            activation_bytes=1e4,
            colocation_class=v,
        )
        for v in range(1, 7)
    ]
    backward = [Node(13 - v, 2.0, 8.0, 2.0**20, 0.25, is_backward=True, colocation_class=v) for v in range(6, 0, -1)]
    return DnnGraph((*forward, *backward), tuple(Edge(v, v + 1, 1e6) for v in range(1, 12)), "net")


def edited() -> bytes:
    """A plan of a training graph that is edited, looked at in a way that an address says."""
    graph, deployment = network(), Deployment(3, 1, 2.0**34)
    split = Split.from_device_of({v: (v - 1) // 3 if v < 7 else (12 - v) // 3 for v in graph.node_by_id}, deployment)
    schedule = simulate(graph, deployment, split, ScheduleKind.ZB_H1, 8)
    edits = EditView("", frozenset({1}), ((2, 3),), True, True, True, Outcome(True, "Done."), 1)
    look = Look("operators", "time", "flow", 1)
    options = PictureOptions(height=900, sync_group="pair", time_max_ms=500.0, look=look)
    return pack(dag_info(graph, deployment, split), gantt_info(schedule, deployment), "edited", options, edits)


def in_pieces() -> bytes:
    """A plan whose devices take turns at the nodes and hold too much."""
    nodes = tuple(Node(v, 2.0, 8.0, 2.0**20, 0.25, activation_bytes=1e6) for v in range(1, 7))
    graph = DnnGraph(nodes, tuple(Edge(v, v + 1, 1e6) for v in range(1, 6)), "chain")
    deployment = Deployment(2, 0, 2.0**20)
    split = Split.from_device_of({v: (v - 1) % 2 for v in graph.node_by_id}, deployment)
    schedule = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 8)
    return pack(dag_info(graph, deployment, split), gantt_info(schedule, deployment), "pieces")


def unplaced() -> bytes:
    """A graph without a plan, with the ends of its edges as a graph has them whose nodes are not drawn one by one."""
    ends = tuple(range(11)), tuple(range(1, 12))
    return pack(replace(dag_info(network(), Deployment(2)), ends=ends), None, "unplaced")


def written(value: Any, place: str = "") -> set[str]:
    """The places of all keys of a message."""
    if isinstance(value, Mapping):
        own = {f"{place}.{key}" if place else key for key in value}
        return own.union(*(written(part, f"{place}.{key}" if place else key) for key, part in value.items()))
    if isinstance(value, list):
        return set().union(*(written(part, f"{place}[]") for part in value))
    return set()


def header(packed: bytes) -> dict[str, Any]:
    length = int.from_bytes(packed[:4], "little")
    found: dict[str, Any] = json.loads(packed[4 : 4 + length])
    return found


def test_the_file_for_javascript_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == contract_source(), "run python -m explorer.picture.contract"


def test_names_for_javascript_are_used_and_edits_are_known() -> None:
    scripts = [p.read_text(encoding="utf-8") for p in (ROOT / "explorer" / "canvas").rglob("*.js") if p != FILE]
    for name in re.findall(r"export const (\w+)", contract_source()):
        assert any(re.search(rf"\b{name}\b", script.partition("\n\n")[2]) for script in scripts), name
    assert tuple(edit_actions.OPERATIONS) == OPERATIONS


@pytest.mark.browser
def test_the_picture_reads_what_python_writes_and_nothing_else(chromium_page: Any, tmp_path: Path) -> None:
    js, css = standalone_source()
    page = tmp_path / "page.html"
    page.write_text(
        f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Picture</title><style>{css}</style>
        <div class="placement-picture" id="here"></div><script type="module">{WATCH}
        {js}
        globalThis.picture = new PlacedPipeline(document.getElementById("here"));
        globalThis.show = (bytes, background) => {{
          document.getElementById("here").style.setProperty("--st-background-color", background);
          const tell = (name, value) => value && globalThis.sent.push([name, {{ ...value }}]);
          globalThis.picture.update({{ data: new Uint8Array(bytes), setStateValue: tell, setTriggerValue: tell }});
        }};
        </script></html>""",
        encoding="utf-8",
    )
    chromium_page.goto(page.as_uri())
    chromium_page.wait_for_function("Boolean(globalThis.show)")
    things = [
        {"kind": "node", "nodes": [0]},
        {"kind": "nodes", "nodes": [0, 1]},
        {"kind": "device", "device": 0, "lane": 0},
        {"kind": "stage", "stage": 0},
        {"kind": "tensor", "tensor": 0},
        {"kind": "bar", "bar": 3},
        {"kind": "microBatch", "microBatch": 1},
        {"kind": "range", "fromMs": 1.0, "toMs": 20.0},
    ]
    all_written: set[str] = set()
    for packed, background in ((edited(), "#ffffff"), (in_pieces(), "#000000"), (unplaced(), "#ffffff")):
        said = header(packed)
        all_written |= written(said)
        use = {
            "levels": [level["name"] for level in said["graph"]["levels"]],
            "things": things if said["gantt"] else [],
            "tabs": ["devices", "tensors", "nodes", "slots"],
            "operations": OPERATIONS if said["edits"] else [],
        }
        chromium_page.evaluate("([bytes, background]) => show(bytes, background)", [list(packed), background])
        chromium_page.evaluate(USE, use)
    names = same_theme(re.sub(r"^arrays\.", "array.", place) for place in all_written)
    read, missing = (same_theme(chromium_page.evaluate(f"[...globalThis.{what}]")) for what in ("read", "missing"))
    assert sorted(missing - names) == [], "read, and Python writes no such"
    assert sorted(names - read) == [], "written, and never read"
    check_what_is_sent(chromium_page.evaluate("globalThis.sent"))


def same_theme(places: Iterable[str]) -> set[str]:
    """A page has one of the two themes."""
    return {re.sub(r"^themes\.(light|dark)", "themes.any", place) for place in places}


def check_what_is_sent(sent: list[tuple[str, dict[str, Any]]]) -> None:
    """Python knows the names of all that the picture has told."""
    keys: dict[str, set[str]] = {}
    for name, value in sent:
        keys.setdefault(name, set()).update(value)
    assert keys["selection"] == set(SELECTION_KEYS)
    assert keys["edit"] == set(EDIT_KEYS) - {"device"}  # which a move has, and the legend sends
    assert keys["look"] == {field.name for field in fields(Look)}
    assert {value["op"] for name, value in sent if name == "edit"} == set(OPERATIONS)
