"""A figure of a lesson as data: marks, the frames that change them, and how it is shown in the page and on paper.

The browser steps through the frames by itself (`figure.js`), so stepping asks nothing of the server. Nothing but this
module knows of the component.
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Literal

import streamlit as st

WIDEST = 1.55
"""On paper letters are of whatever font there is: so many em of a box for each leave room for the widest."""
Change = dict[str, Any]
"""What a mark shows from a frame on: any of look, text, sub, fill, ink and tip, and x and w of a box."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A shape with up to two lines of text; lengths are in pixels of the figure's own scale.

    A line or an arrow goes from (x, y) to (x2, y2), bent towards (cx, cy) where these are given. `look` names classes
    of `figure.css`; `fill` and `ink` are colours that mean something, such as those of a device. `tip` says in words
    what the mark is, to whoever points at it or hears it read.
    """

    id: str
    shape: Literal["box", "round", "line", "arrow", "text"]
    x: float
    y: float
    w: float = 0.0
    h: float = 0.0
    x2: float = 0.0
    y2: float = 0.0
    cx: float | None = None
    cy: float | None = None
    text: str = ""
    sub: str = ""
    look: str = ""
    fill: str | None = None
    ink: str | None = None
    tip: str = ""
    anchor: Literal["left", "middle", "right"] = "middle"
    size: float | None = None
    r: float | None = None
    focusable: bool = False

    def changed(self, change: Change) -> "Mark":
        """Return this mark as it is after a change."""
        return replace(self, **change)


@dataclass(frozen=True, slots=True)
class Frame:
    """One step: the lines said above the figure, each a text or a text with its look, and what changes by mark."""

    say: tuple[str | tuple[str, str], ...] = ()
    set: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drag:
    """What goes with the pointer while a mark is dragged: a line, and what is said and shown at every other place."""

    line: str
    over: Mapping[str, Frame]


@dataclass(frozen=True, slots=True)
class Narrow:
    """How a figure is laid out where the page is too narrow for it; None is as in the wide one, except for the fold."""

    width: float
    height: float
    marks: tuple[Mark, ...]
    fold: tuple[float, float] | None = None
    links: Mapping[str, list[str]] | None = None
    drags: Mapping[str, Drag] | None = None


@dataclass(frozen=True)
class Scene:
    """A figure. `links` says which marks light up with another, `picks` which can be picked, `film` names the frames.

    `drags` says what is shown while one of the picks is dragged along, before the server is asked.

    `fold` is the place (x, y) at which a figure too wide for its page is folded: what begins right of x and above y
    goes below what is left of x. `narrow` is another layout for such a page, which may be folded, too. A figure that is
    drawn again with the same film stays at its frame. `pace` is the time of a frame in ms as it plays. `transfer` is
    the colour of what is hatched as receive or send.
    """

    width: float
    height: float
    marks: tuple[Mark, ...]
    alt: str
    frames: tuple[Frame, ...] = (Frame(),)
    links: Mapping[str, list[str]] = field(default_factory=dict)
    picks: tuple[str, ...] = ()
    drags: Mapping[str, Drag] = field(default_factory=dict)
    film: str = ""
    pace: float = 700.0
    fold: tuple[float, float] | None = None
    transfer: str = ""
    narrow: Narrow | None = None


def show_scene(scene: Scene, key: str, on_pick: Callable[[], None] | None = None) -> None:
    """Show a figure; `on_pick` is called before the page runs again, and finds the pick in the state of `key`."""
    text = json.dumps(asdict(scene), allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    _component()(key=key, data={"scene": json.loads(text), "digest": digest}, on_pick_change=on_pick or _nothing)


def static_svg(scene: Scene, frame: int = -1) -> str:
    """Return a figure as SVG for paper, as it is at a frame; dark ink on white."""
    shown: dict[str, Change] = {}
    frames = scene.frames if frame < 0 else scene.frames[: frame + 1]
    for one in frames:
        for mark, change in one.set.items():
            shown[mark] = {**shown.get(mark, {}), **change}
    body = "".join(_drawn(mark, shown.get(mark.id, {})) for mark in scene.marks)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scene.width:g} {scene.height:g}" '
        f'style="width:100%;max-width:{scene.width:g}px" role="img" aria-label="{escape(scene.alt)}" '
        f'font-family="sans-serif">{body}</svg>'
    )


def _drawn(mark: Mark, change: Change) -> str:
    at = {**asdict(mark), **change}
    look = str(at["look"] or "").split()
    if "hidden" in look:
        return ""
    edge = "none" if {"plain", "head-cell", "slice", "compute"} & set(look) else "#444"
    width = 3 if {"path", "now", "winner", "cut", "thick"} & set(look) else 1
    fill = escape(at["fill"] or ("none" if edge == "none" else "#fff"))
    x, y, w, h = at["x"], mark.y, at["w"], mark.h
    shape = ""
    if mark.shape in ("line", "arrow"):
        cx = (x + mark.x2) / 2 if mark.cx is None else mark.cx
        cy = (y + mark.y2) / 2 if mark.cy is None else mark.cy
        path = f"M{x:g} {y:g} Q{cx:g} {cy:g} {mark.x2:g} {mark.y2:g}"
        shape = f'<path d="{path}" fill="none" stroke="#444" stroke-width="{width}"/>'
        if mark.shape == "arrow":
            shape += _head(mark.x2, mark.y2, math.atan2(mark.y2 - cy, mark.x2 - cx))
    elif mark.shape == "box":
        r = 3.0 if mark.r is None else mark.r
        shape = (
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}" fill="{fill}" stroke="{edge}" '
            f'stroke-width="{width}"/>'
        )
    elif mark.shape == "round":
        shape = (
            f'<ellipse cx="{x + w / 2:g}" cy="{y + h / 2:g}" rx="{w / 2:g}" ry="{h / 2:g}" fill="{fill}" '
            f'stroke="{edge}" stroke-width="{width}"/>'
        )
    anchor = {"left": "start", "middle": "middle", "right": "end"}[mark.anchor]
    middle = {"left": x, "middle": x + w / 2, "right": x + w}[mark.anchor]
    ink = escape(at["ink"] or "#111")
    size = mark.size or 13.0
    if mark.shape == "box" and at["text"]:
        size = min(size, WIDEST * w / len(at["text"]))
    # Readable on the lines that it stands at.
    halo = ' paint-order="stroke" stroke="#fff" stroke-width="4"' if mark.shape == "text" else ""
    texts = [(at["text"], -7 if at["sub"] else 0, size), (at["sub"], 9, min(size, 11))]
    said = "".join(
        f'<text x="{middle:g}" y="{y + h / 2 + shift:g}" text-anchor="{anchor}" dominant-baseline="central" '
        f'font-size="{points:g}" fill="{ink}"{halo}>{escape(text)}</text>'
        for text, shift, points in texts
        if text
    )
    return shape + said


def _head(x: float, y: float, angle: float) -> str:
    corners = [(x, y), *((x - 8 * math.cos(angle + turn), y - 8 * math.sin(angle + turn)) for turn in (-0.45, 0.45))]
    return f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="#444"/>'


def _component() -> Any:
    folder = files("explorer") / "lessons"
    # A component has one module: those of the figure are joined, in the order of their imports.
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in ("figure_layout", "figure")]
    js = re.sub(r"^import .*;\n|^export (?!default)", "", "\n".join(parts), flags=re.MULTILINE)
    return _register(js, (folder / "figure.css").read_text(encoding="utf-8"))


@cache
def _register(js: str, css: str) -> Any:
    return st.components.v2.component("dnn_placement_explorer.lesson_figure", js=js, css=css)


def _nothing() -> None:
    """Serve as the callback that makes Streamlit keep a value."""
