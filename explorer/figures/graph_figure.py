"""The placed graph as a drawing: boxes, cut edges with their costs, in the geometry of `dag_view`.

What is drawn, and where labels stand, follows `canvas/graph/graph_canvas.js` at a fixed view of the whole level.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from itertools import pairwise
from math import sqrt

from explorer.figures.font import fitted, text_width
from explorer.figures.geometry import Area, Grid, Piece, Point, arrow_head, distance, overlap, towards, written
from explorer.figures.look import LogScale, Look
from explorer.figures.svg import Drawing
from explorer.layout.levels import BoxView, LevelView
from explorer.picture.dag_view import DagInfo
from explorer.picture.palette import DeviceColour, Fill, device_colours
from explorer.picture.ties import tied_boxes
from solvers.quantities import binary_size, milliseconds, moving_time

MAX_SCALE = 1.3
LEGIBLE_SCALE = 0.55
"""At this scale names on boxes are 7 pixels high, about 5 points."""
COST_SIZE = 8.5
TIE_ROOM, LEAST_BOW = 34.0, 12.0
"""Above the graph, where a line that joins tied boxes of the first row is bowed into; and how far it is at least."""
LINE_PITCH = 20.0
"""Height of a line of text on a tall box, in units of the layout."""
EDGES_PER_PATH = 200
"""Viewers stroke one path of thousands of lines slowly, and a file of thousands of paths is large."""


class ColourBy(StrEnum):
    """What the fill of a box says; its device is always told by its label too."""

    DEVICE = "device"
    TIME = "time"
    MEMORY = "memory"
    COMMUNICATION = "communication"


def level_scale(level: LevelView, width: float, height: float) -> float:
    """Return the magnification at which a level fills an area."""
    return min(MAX_SCALE, width / level.layout.width, height / level.layout.height)


def legible_level(info: DagInfo, width: float, height: float) -> str:
    """Return the finest level whose names can be read in an area, or the most legible one where none can."""
    scales = {level.name: level_scale(level, width, height) for level in info.levels}
    return next((name for name, s in scales.items() if s >= LEGIBLE_SCALE), max(scales, key=scales.__getitem__))


def box_values(level: LevelView, colour_by: ColourBy) -> list[float]:
    """Return the number of each box that its fill tells: ms, bytes, or ms of the tensors it sends to other devices."""
    if colour_by is ColourBy.TIME:
        return [box.time_ms for box in level.boxes]
    if colour_by is ColourBy.MEMORY:
        return [box.memory_bytes for box in level.boxes]
    return [box.sent_ms or 0.0 for box in level.boxes]


def draw_graph(drawing: Drawing, info: DagInfo, level: LevelView, colour_by: ColourBy, look: Look, area: Area) -> float:
    """Draw a level into an area, centred, and return where it ends below."""
    return _GraphFigure(drawing, info, level, colour_by, look, area).draw()


class _GraphFigure:
    def __init__(
        self, drawing: Drawing, info: DagInfo, level: LevelView, colour_by: ColourBy, look: Look, area: Area
    ) -> None:
        self.drawing, self.info, self.level, self.look, self.area = drawing, info, level, look, area
        self.colours: tuple[DeviceColour, ...] = device_colours(info.deployment)
        left, top, right, bottom = area
        self.ties = tied_boxes(info, level)
        if self.ties:
            top += TIE_ROOM
        self.scale = level_scale(level, right - left, bottom - top)
        self.left = left + (right - left - level.layout.width * self.scale) / 2
        self.top = top
        self.width, self.height = level.box_size[0] * self.scale, level.box_size[1] * self.scale
        self.num_lines = min(4, max(1, int(level.box_size[1] // LINE_PITCH)))
        """Lines of text on a box: its name, and where it is tall what it takes, keeps and sends."""
        self.size = min(13.0, 0.46 * self.height if self.num_lines == 1 else 0.58 * self.height / self.num_lines)
        self.max_time_ms = max((box.time_ms for box in level.boxes), default=0.0)
        self.max_cut_ms = max((edge.cut_ms or 0.0 for edge in level.edges), default=0.0)
        self.values = None if colour_by is ColourBy.DEVICE else box_values(level, colour_by)
        self.log_scale = LogScale(self.values or [])
        self.routes = [self._on_page(route) for route in level.layout.routes]
        self.areas = [self._box_area(x, y) for x, y in level.layout.centres]

    def draw(self) -> float:
        self._draw_uncut()
        self._draw_cut()
        self._draw_ties()
        self._draw_boxes()
        self._draw_costs()
        return self.top + self.level.layout.height * self.scale

    def _on_page(self, route: Sequence[float]) -> list[Point]:
        points = zip(route[::2], route[1::2], strict=True)
        return [(self.left + x * self.scale, self.top + y * self.scale) for x, y in points]

    def _box_area(self, x: float, y: float) -> Area:
        x, y = self.left + x * self.scale, self.top + y * self.scale
        return x - self.width / 2, y - self.height / 2, x + self.width / 2, y + self.height / 2

    # Edges

    def _draw_uncut(self) -> None:
        uncut = [i for i, edge in enumerate(self.level.edges) if edge.cut_ms is None]
        width = min(1.1, max(0.4, 0.9 * self.scale))
        for begin in range(0, len(uncut), EDGES_PER_PATH):
            routes = [self.routes[i] for i in uncut[begin : begin + EDGES_PER_PATH]]
            self.drawing.path("".join(map(self._trace, routes)), stroke=self.look.line, stroke_width=width)
            heads = "".join(arrow_head(route, min(4.5, 5.5 * self.scale)) for route in routes)
            self.drawing.path(heads, fill=self.look.line)

    def _draw_cut(self) -> None:
        cut = sorted(
            (i for i, edge in enumerate(self.level.edges) if edge.cut_ms is not None),
            key=lambda i: self.level.edges[i].cut_ms or 0.0,
        )
        if not cut:
            return
        zoom = min(1.1, max(0.4, self.scale))
        self.drawing.open(stroke_linejoin="round")
        for i in cut:
            share = (self.level.edges[i].cut_ms or 0.0) / self.max_cut_ms if self.max_cut_ms > 0 else 0.0
            # Wide enough to stand out, growing with the root of the cost so that small cuts do not vanish.
            width = (1.1 + 4.2 * sqrt(share)) * zoom
            head = min(max(4.5 * zoom, 2.2 * width), 0.6 * distance(*self.routes[i][-2:]) + 1)
            # The line ends inside its arrow head, or it would blunt the tip.
            end = towards(self.routes[i][-1], self.routes[i][-2], 0.7 * head)
            data = self._trace([*self.routes[i][:-1], end])
            self.drawing.path(data, stroke=self.look.background, stroke_width=width + 1.8)
            self.drawing.path(data, stroke=self.look.transfer, stroke_width=width)
            self.drawing.path(arrow_head(self.routes[i], head), fill=self.look.transfer)
        self.drawing.close()

    def _trace(self, route: list[Point]) -> str:
        """Return a line with round corners."""
        parts = [f"M{written(route[0])}"]
        for before, corner, after in zip(route, route[1:], route[2:], strict=False):
            radius = min(7 * self.scale, distance(before, corner) / 2, distance(corner, after) / 2)
            if radius < 0.5:
                parts.append(f"L{written(corner)}")
                continue
            begin, end = towards(corner, before, radius), towards(corner, after, radius)
            parts.append(f"L{written(begin)}Q{written(corner)} {written(end)}")
        parts.append(f"L{written(route[-1])}")
        return "".join(parts)

    def _draw_ties(self) -> None:
        """Join boxes with nodes that must share a device by a dashed line, bowed around what stands between."""
        middles = [((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in self.areas]
        for a, b in self.ties:
            (x0, y0), (x1, y1) = middles[a], middles[b]
            length = distance(middles[a], middles[b]) or 1.0
            half = (self.height if abs(x1 - x0) > abs(y1 - y0) else self.width) / 2
            bow = 2 * (half + min(TIE_ROOM, max(LEAST_BOW, 0.12 * length)))
            corner = (x0 + x1) / 2 + (y1 - y0) / length * bow, (y0 + y1) / 2 - (x1 - x0) / length * bow
            data = f"M{written(middles[a])}Q{written(corner)} {written(middles[b])}"
            self.drawing.path(data, stroke=self.look.muted, stroke_width=1.1, stroke_dasharray="5 4")

    # Boxes

    def _draw_boxes(self) -> None:
        border = "#000000" if self.look.background == "#FFFFFF" else "#FFFFFF"
        self.drawing.open(stroke=border, stroke_opacity=0.25, stroke_width=min(0.8, self.scale))
        for i, box in enumerate(self.level.boxes):
            self._draw_fill(i, box)
        self.drawing.close()
        for i, box in enumerate(self.level.boxes):
            self._write_on(i, box)

    def _fill_of(self, i: int, box: BoxView) -> Fill:
        """Return the one fill of a box that is not striped."""
        if self.values is not None:
            return self.log_scale.fill(self.values[i], self.look.ramp) or self.look.unplaced
        return self._device_fill(box.shares[0][0] if box.shares else None, box.is_backward)

    def _device_fill(self, device: int | None, is_backward: bool) -> Fill:
        if device is None:
            return self.look.unplaced
        return self.colours[device].backward if is_backward else self.colours[device].forward

    def _draw_fill(self, i: int, box: BoxView) -> None:
        left, top, _, bottom = self.areas[i]
        radius = min(4.5, self.height * 0.2)
        rounded: dict[str, object] = {"rx": radius}
        if self._is_striped(box):
            self.drawing.rect(left, top, self.width, self.height, self.look.surface, **rounded)
            at, high = left, self._stripe_height()
            for device, share in box.shares:
                self._draw_area(at, bottom - high, share * self.width, high, device, box.is_backward, {})
                at += share * self.width
            if box.seam is not None:
                self._draw_seams(box, left, bottom - high, high)
            return
        if self.values is not None:
            fill = self._fill_of(i, box)
            self.drawing.rect(left, top, self.width, self.height, fill.fill, **rounded)
            if box.is_backward:
                hatch = self.drawing.pattern("backward", fill.text)
                self.drawing.rect(left, top, self.width, self.height, hatch, **rounded, stroke="none")
            return
        own = box.shares[0][0] if box.shares else None
        self._draw_area(left, top, self.width, self.height, own, box.is_backward, rounded)

    def _draw_seams(self, box: BoxView, left: float, top: float, high: float) -> None:
        """Mark where data pass from device to device inside a box."""
        thick = min(3.0, max(1.2, 0.03 * self.width))
        at = left
        for _, share in box.shares[:-1]:
            at += share * self.width
            x = min(left + self.width - thick - 0.5, max(left + 0.5, at - thick / 2))
            self.drawing.rect(x, top - 0.7, thick, high + 1.4, self.look.transfer, stroke="none")

    def _is_striped(self, box: BoxView) -> bool:
        return self.values is None and len(box.shares) > 1

    def _stripe_height(self) -> float:
        """Return the height of the part of a box on several devices that shows them; the name stands above it."""
        return self.height * 0.44

    def _draw_area(
        self, x: float, y: float, width: float, height: float, device: int | None, is_backward: bool,
        more: dict[str, object],
    ) -> None:  # fmt: skip
        fill = self._device_fill(device, is_backward)
        self.drawing.rect(x, y, width, height, fill.fill, **more)
        overlays = ["backward"] if is_backward else []
        if device is not None and self.colours[device].pattern != "none":
            overlays.append(self.colours[device].pattern)
        for name in overlays:
            self.drawing.rect(x, y, width, height, self.drawing.pattern(name, fill.text), **more, stroke="none")

    def _write_on(self, i: int, box: BoxView) -> None:
        """Write the device's label at the left of a box, then its name, and its time as a bar along its foot."""
        left, top, _, bottom = self.areas[i]
        middle = (top + bottom) / 2
        fill, size = self._fill_of(i, box), self.size
        indent, room = 4 * self.scale, self.width - 8 * self.scale
        if self._is_striped(box):
            self._write_striped(i, box)
            return
        if box.shares:
            label = "+".join(self.colours[device].label for device, _ in box.shares[:3])
            badge = text_width(label, size, bold=True) + 0.9 * size
            # On a tall box the label stands beside the name, which is its first line.
            at = middle if self.num_lines == 1 else self._line(i, 0)
            if self.values is None:
                self.drawing.text(left + badge / 2, at, label, size, fill.text, bold=True, anchor="middle")
            else:
                own = self._device_fill(box.shares[0][0], box.is_backward)
                pad = 3 * self.scale
                high = min(self.height - 2 * pad, 1.5 * size)
                self.drawing.rect(left + pad, at - high / 2, badge - pad, high, own.fill, rx=2.0)
                self.drawing.text(left + (badge + pad) / 2, at, label, size, own.text, bold=True, anchor="middle")
            indent, room = badge + 0.25 * size, self.width - badge - 0.25 * size - 4 * self.scale
        if self.num_lines > 1:
            sent = "" if not box.sent_ms else f"sends {milliseconds(box.sent_ms)}"
            lines = [box.label, milliseconds(box.time_ms), binary_size(box.memory_bytes), sent][: self.num_lines]
            for k, line in enumerate(lines):
                words = fitted(line, room, size, bold=k == 0)
                self.drawing.text(left + indent, self._line(i, k), words, size, fill.text, bold=k == 0)
        else:
            # The name matters more than how many alike it stands for.
            count = f" ×{box.count}" if box.count > 1 else ""
            if count and text_width(box.label + count, size) > room:
                count = ""
            if not count:
                sizes = (size, 0.88 * size, 0.76 * size)
                size = next((s for s in sizes if text_width(box.label, s) <= room), sizes[-1])
            self.drawing.text(left + indent, middle, fitted(box.label, room, size) + count, size, fill.text)
        if self.values is None and self.max_time_ms > 0 and self.height >= 9:
            # Running time as an inset bar, relative to the longest box: the fill belongs to the device.
            length = (self.width - 8 * self.scale) * box.time_ms / self.max_time_ms
            if length >= 0.3:
                y, high = bottom - 4.2 * self.scale, 2.2 * self.scale
                self.drawing.rect(left + 4 * self.scale, y, length, high, fill.text, opacity=0.6)

    def _line(self, i: int, k: int) -> float:
        """Return the height of the middle of a line on a tall box."""
        return self.areas[i][1] + self.height * (0.05 + 0.86 * (k + 0.5) / self.num_lines)

    def _write_striped(self, i: int, box: BoxView) -> None:
        left, top, _, bottom = self.areas[i]
        high = self._stripe_height()
        size = min(self.size, 0.8 * (self.height - high))
        name = fitted(box.label, self.width - 8 * self.scale, size)
        self.drawing.text(left + 4 * self.scale, (top + bottom - high) / 2, name, size, self.look.ink)
        at, size = left, min(self.size, 0.78 * high)
        for device, share in box.shares:
            label, width = self.colours[device].label, share * self.width
            if text_width(label, size, bold=True) < width - 1:
                fill = self._device_fill(device, box.is_backward)
                self.drawing.text(at + width / 2, bottom - high / 2, label, size, fill.text, bold=True, anchor="middle")
            at += width

    # Costs

    def _draw_costs(self) -> None:
        """Write costs of cut edges and of seams, most expensive first, where they cover no name and no other cost."""
        names = self.areas if self.num_lines > 1 else [self._name_band(area) for area in self.areas]
        boxes, bands = Grid(self.areas, self.width + self.height), Grid(names, self.width + self.height)
        asked: list[tuple[float, str, Callable[[float], list[Point]], tuple[Grid, ...]]] = []
        for edge, route in zip(self.level.edges, self.routes, strict=True):
            if edge.cut_ms is not None and edge.shows_cost:
                text = moving_time(edge.send_ms or 0.0, [edge.receive_ms or 0.0])
                asked.append((edge.cut_ms, text, partial(self._cost_spots, route), (boxes, bands)))
        for area, box in zip(self.areas, self.level.boxes, strict=True):
            if (seam := box.seam) is not None and self._is_striped(box):
                text = moving_time(seam.send_ms, [seam.receive_ms])
                most_ms = max(seam.send_ms, seam.receive_ms)
                asked.append((most_ms, text, partial(self._seam_spots, area), (boxes,)))
        taken: list[Area] = []
        for _, text, spots, obstacles in sorted(asked, key=lambda one: -one[0]):
            half = text_width(text, COST_SIZE, bold=True) / 2 + 2
            place = self._cost_place(spots(half), half, taken, obstacles)
            if place is None:
                continue
            taken.append(place)
            middle = (place[0] + place[2]) / 2, (place[1] + place[3]) / 2
            size = place[2] - place[0], place[3] - place[1]
            self.drawing.rect(*place[:2], *size, self.look.background, rx=2.5, opacity=0.92)
            self.drawing.text(*middle, text, COST_SIZE, self.look.transfer, bold=True, anchor="middle")

    def _cost_place(
        self, spots: Sequence[Point], half: float, taken: Sequence[Area], obstacles: Sequence[Grid]
    ) -> Area | None:
        half_height = COST_SIZE * 0.62
        left, top, right, _ = self.area
        bottom = self.top + self.level.layout.height * self.scale
        for grid in obstacles:
            for x, y in spots:
                place = x - half, y - half_height, x + half, y + half_height
                inside = place[0] >= left and place[1] >= top and place[2] <= right and place[3] <= bottom
                if inside and not any(overlap(place, other) for other in taken) and not grid.touches(place):
                    return place
        return None

    def _cost_spots(self, route: list[Point], half: float) -> list[Point]:
        """Return where the cost of an edge may stand, the best first: on its longest piece, on others, beside them."""
        pieces = [Piece(*a, *b) for a, b in pairwise(route)]
        spots: list[Point] = []
        for piece in sorted(pieces, key=lambda piece: -piece.length):
            across, along = abs(piece.x1 - piece.x0), abs(piece.y1 - piece.y0)
            is_flat, is_steep = along < 0.1 * across, across < 0.5 * along
            is_short = (is_flat and piece.length < 2 * half + 30) or (is_steep and piece.length < 44)
            gap = self.height / 2 + COST_SIZE * 0.62 + 2
            beside = [(0, -10), (0, 10), (0, -gap), (0, gap)] if is_flat else [(half + 4, 0), (-half - 4, 0)]
            offsets = [*beside, (0, 0)] if is_short else [(0, 0), *beside]
            for share in (0.5, 0.3, 0.7) if piece.length > 60 else (0.5,):
                x, y = piece.x0 + share * (piece.x1 - piece.x0), piece.y0 + share * (piece.y1 - piece.y0)
                spots.extend((x + dx, y + dy) for dx, dy in offsets)
        return spots

    def _seam_spots(self, area: Area, half: float) -> list[Point]:
        """Return where the time of a seam may stand: below its box, above, or beside it."""
        left, top, right, bottom = area
        x, y, beyond = (left + right) / 2, (top + bottom) / 2, COST_SIZE * 0.62 + 1
        return [(x, bottom + beyond), (x, top - beyond), (right + half + 1, y), (left - half - 1, y)]

    def _name_band(self, area: Area) -> Area:
        """Return the part of a box that its name takes."""
        left, top, right, bottom = area
        middle, half = (top + bottom) / 2, 0.58 * self.size
        return left, max(top, middle - half), right, min(bottom, middle + half)
