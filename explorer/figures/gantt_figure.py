"""The timeline of a schedule as a drawing: lanes, phases, period, bounds, critical path, memory and assumptions."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10

from explorer.figures.font import fitted, text_width
from explorer.figures.look import Look
from explorer.figures.svg import Drawing, number
from explorer.picture.gantt_view import GanttInfo
from explorer.picture.palette import DeviceColour, Fill, device_colours
from solvers.quantities import as_given, binary_size, binary_sizes, binary_unit, count, listed, milliseconds, percent
from solvers.schedule.simulate import Pass, Schedule, Slot, SlotKind

LABEL_WIDTH = 112.0
END_WIDTH = 124.0
"""At the left the names of lanes, at the right their bubbles and peaks of memory."""
HEAD, AXIS, BOUND_ROW = 34.0, 20.0, 13.0
"""Heights above the lanes, of the axis below them, and of a row of names of bounds."""
MAX_LANE, MIN_LANE = 26.0, 10.0
MAX_MEMORY_ROW, MIN_MEMORY_ROW, MEMORY_SPACE = 18.0, 7.0, 2.0
MEMORY_GAP = 20.0
MIN_BAR = 0.25
"""Bars narrower than this are added up into columns, whose opacity is the share of time that is busy."""
SIZE = 9.0
BAR_TEXT = 8.5


def gantt_height(num_lanes: int) -> float:
    """Return the least height in which a timeline of so many lanes is comfortable."""
    memory = num_lanes * (_memory_row(num_lanes) + MEMORY_SPACE) + MEMORY_GAP + 9
    return HEAD + num_lanes * _lane_height(num_lanes) + AXIS + 2 * BOUND_ROW + memory + 24


def _lane_height(num_lanes: int) -> float:
    return max(MIN_LANE, min(MAX_LANE, 208 / max(1, num_lanes)))


def _memory_row(num_lanes: int) -> float:
    return max(MIN_MEMORY_ROW, min(MAX_MEMORY_ROW, 96 / max(1, num_lanes)))


def draw_gantt(
    drawing: Drawing, schedule: Schedule, info: GanttInfo, look: Look, area: tuple[float, float, float]
) -> float:
    """Draw the timeline from (left, top) to `right`, as high as it needs; return where it ends below."""
    return _GanttFigure(drawing, schedule, info, look, area).draw()


@dataclass(frozen=True, slots=True)
class _Lane:
    device: int
    name: str
    top: float


class _GanttFigure:
    def __init__(
        self, drawing: Drawing, schedule: Schedule, info: GanttInfo, look: Look, area: tuple[float, float, float]
    ) -> None:
        self.drawing, self.schedule, self.info, self.look = drawing, schedule, info, look
        self.left, self.top, self.right = area
        self.colours: tuple[DeviceColour, ...] = device_colours(info.deployment)
        num_lanes = max(1, len(info.lanes))
        self.lane_height, self.memory_row = _lane_height(num_lanes), _memory_row(num_lanes)
        self.low, self.high = self.left + LABEL_WIDTH, self.right - END_WIDTH
        self.lanes_top = self.top + HEAD
        self.lanes_bottom = self.lanes_top + self.lane_height * num_lanes
        self.lanes = [
            _Lane(lane.device, lane.name, self.lanes_top + i * self.lane_height) for i, lane in enumerate(info.lanes)
        ]
        self.span_ms = schedule.makespan_ms if schedule.makespan_ms > 0 else 1.0

    def draw(self) -> float:
        self._draw_phases()
        bottom = self._draw_axis(self.lanes_top, self.lanes_bottom, "time, ms")
        for lane in self.lanes:
            self._draw_lane(lane)
        self._draw_critical_path()
        self._draw_period()
        bottom = self._draw_bounds(bottom)
        bottom = self._draw_memory(bottom + MEMORY_GAP)
        return self._draw_key(bottom + 8)

    def _x(self, ms: float) -> float:
        return self.low + ms / self.span_ms * (self.high - self.low)

    # What lies behind and beside the lanes

    def _draw_phases(self) -> None:
        """Shade warm-up and cool-down and write what they are above them, where there is room for it."""
        drain = self.schedule.drain_start_ms
        phases = [("warm-up", 0.0, self.schedule.warm_up_ms)]
        if drain is not None:
            phases += [("steady", self.schedule.warm_up_ms, drain), ("cool-down", drain, self.schedule.makespan_ms)]
        y = self.top + 7
        for name, start, end in phases:
            x0, x1 = self._x(start), self._x(end)
            if x1 - x0 < 0.2:
                continue
            if name != "steady":
                self.drawing.rect(
                    x0, self.lanes_top - 4, x1 - x0, self.lanes_bottom - self.lanes_top + 4, self.look.shade
                )
            self.drawing.line(x0 + 0.6, y + 8, x1 - 0.6, y + 8, self.look.muted, stroke_width=0.8)
            for x in (x0 + 0.6, x1 - 0.6):
                self.drawing.line(x, y + 5.5, x, y + 10.5, self.look.muted, stroke_width=0.8)
            if text_width(name, SIZE) < x1 - x0 - 2:
                self.drawing.text((x0 + x1) / 2, y, name, SIZE, self.look.muted, anchor="middle")

    def _draw_axis(self, top: float, bottom: float, unit: str) -> float:
        step = nice_step(self.span_ms * 70 / (self.high - self.low))
        for k in range(floor(self.span_ms / step + 1e-9) + 1):
            x = self._x(k * step)
            self.drawing.line(x, top, x, bottom + 3, self.look.faint, stroke_width=0.8)
            self.drawing.text(x, bottom + 10, as_given(k * step), SIZE, self.look.muted, anchor="middle")
        self.drawing.line(self.low, bottom, self.high, bottom, self.look.line, stroke_width=0.8)
        self.drawing.text(self.high + 14, bottom + 10, unit, SIZE, self.look.muted)
        return bottom + AXIS

    def _draw_period(self) -> None:
        mark = self.info.period_mark
        if mark is None or self.schedule.period_ms is None:
            return
        x0, x1, y = self._x(mark.start_ms), self._x(mark.end_ms), self.top + 25
        text = f"period {milliseconds(self.schedule.period_ms)}"
        half = text_width(text, SIZE, bold=True) / 2
        path = f"M{number(x0)} {number(y + 4)}V{number(y)}H{number(x1)}V{number(y + 4)}"
        self.drawing.path(path, stroke=self.look.ink, stroke_width=1.2)
        foot = self.lanes[mark.lane].top + self.lane_height
        for x in (x0, x1):
            self.drawing.line(x, y + 4, x, foot, self.look.ink, stroke_width=0.7, stroke_dasharray="2 2", opacity=0.6)
        if x1 - x0 > 2 * half + 4:
            at = (x0 + x1) / 2
            self.drawing.rect(at - half - 3, y - 6, 2 * half + 6, 12, self.look.background)
        else:
            at = x1 + 5 + half
        self.drawing.text(at, y, text, SIZE, self.look.ink, bold=True, anchor="middle")

    def _draw_bounds(self, top: float) -> float:
        """Draw what no schedule of these micro-batches on these stages can end before, and the end of this one."""
        schedule = self.schedule
        bounds = [
            (schedule.critical_path_bound_ms, "one micro-batch"),
            (schedule.load_bound_ms, f"{count(schedule.num_micro_batches)} × largest load"),
        ]
        if schedule.lower_bound_ms > max(ms for ms, _ in bounds) * 1.001:
            bounds.append((schedule.lower_bound_ms, "proven bound"))
        rows: list[list[tuple[float, float]]] = []
        for ms, name in sorted(bounds):
            if not 0 < ms <= self.span_ms * 1.000001:
                continue
            x = self._x(ms)
            self.drawing.line(
                x, self.lanes_top - 4, x, top - AXIS + 4, self.look.ink, stroke_width=0.9, stroke_dasharray="5 3"
            )
            text = f"{name} {milliseconds(ms)}"
            width = text_width(text, SIZE)
            at = min(max(self.low, x - width / 2), self.right - width)
            row = next((r for r, used in enumerate(rows) if all(at > b + 8 or at + width < a - 8 for a, b in used)), -1)
            if row < 0:
                rows.append([])
                row = len(rows) - 1
            rows[row].append((at, at + width))
            y = top + row * BOUND_ROW + 5
            self.drawing.path(f"M{number(x)} {number(top - 5)}l-3 5h6Z", fill=self.look.ink)
            self.drawing.text(at, y + 2, text, SIZE, self.look.ink)
        if rows:
            self.drawing.text(self.left, top + 7, "Lower bounds", SIZE, self.look.muted)
        return top + len(rows) * BOUND_ROW

    # Lanes

    def _draw_lane(self, lane: _Lane) -> None:
        colour, look, height = self.colours[lane.device], self.look, self.lane_height
        middle = lane.top + height / 2
        if lane.top > self.lanes_top:
            self.drawing.line(self.low, lane.top, self.high, lane.top, look.faint, stroke_width=0.8)
        high = min(17.0, height - 3)
        self._draw_chip(lane, middle, high)
        size = min(10.0, high - 1)
        name = fitted(lane.name, LABEL_WIDTH - 34, size)
        self.drawing.text(self.left + 27, middle, name, size, look.ink)
        bubble = self.schedule.bubble_fraction[lane.device]
        if bubble is not None:
            self.drawing.text(self.high + 44, middle, percent(bubble), size, look.ink, anchor="end")
        peak = binary_size(self.schedule.peak_memory_bytes[lane.device], binary_unit(self.schedule.peak_memory_bytes))
        self.drawing.text(self.right, middle, peak, size, look.ink, anchor="end")
        if lane.top == self.lanes_top:
            y = self.lanes_top - 9
            self.drawing.text(self.high + 44, y, "bubble", SIZE, look.muted, anchor="end")
            self.drawing.text(self.right, y, "peak memory", SIZE, look.muted, anchor="end")
        slots = [slot for slot in self.schedule.slots if slot.device == lane.device]
        self._draw_bars(lane, slots, colour)

    def _draw_chip(self, lane: _Lane, middle: float, height: float) -> None:
        colour = self.colours[lane.device]
        fill, size = colour.forward, min(10.0, height - 1)
        about = {"rx": min(3.0, height / 4)}
        self.drawing.rect(self.left, middle - height / 2, 22, height, fill.fill, **about)
        if colour.pattern != "none":
            overlay = self.drawing.pattern(colour.pattern, fill.text)
            self.drawing.rect(self.left, middle - height / 2, 22, height, overlay, **about)
        self.drawing.text(self.left + 11, middle, colour.label, size, fill.text, bold=True, anchor="middle")

    def _draw_bars(self, lane: _Lane, slots: list[Slot], colour: DeviceColour) -> None:
        """Draw one path per fill: a rectangle for each of tens of thousands of bars would make a large file."""
        paths: dict[str, list[str]] = defaultdict(list)
        hatched: dict[str, list[str]] = defaultdict(list)
        columns: dict[tuple[int, str], float] = defaultdict(float)
        texts: list[tuple[Slot, Fill]] = []
        for slot in slots:
            x, width = self._x(slot.start_ms), self._x(slot.end_ms) - self._x(slot.start_ms)
            fill = slot_fill(slot, colour) if slot.kind is SlotKind.COMPUTE else Fill(self.look.transfer, "")
            if width < MIN_BAR:
                columns[int(x / MIN_BAR), fill.fill] += width
                continue
            y, height = self._extent(lane, slot)
            shape = f"M{number(x)} {number(y)}h{number(width - min(0.6, 0.12 * width))}v{number(height)}H{number(x)}z"
            paths[fill.fill].append(shape)
            if slot.kind is SlotKind.COMPUTE and width > 3:
                overlays = ["backward"] if slot.direction is not Pass.FORWARD else []
                for name in [*overlays, *([colour.pattern] if colour.pattern != "none" else [])]:
                    hatched[self.drawing.pattern(name, fill.text)].append(shape)
                texts.append((slot, fill))
        for (column, colour_of), busy in columns.items():
            opacity = ceil(min(1.0, busy / MIN_BAR) * 8) / 8
            y, height = lane.top + 0.1 * self.lane_height, 0.8 * self.lane_height
            shape = f"M{number(column * MIN_BAR)} {number(y)}h{MIN_BAR}v{number(height)}h-{MIN_BAR}z"
            paths[f'{colour_of}" fill-opacity="{opacity}'].append(shape)
        for fill_colour, shapes in paths.items():
            self.drawing.path("".join(shapes), fill=fill_colour)
        for pattern, shapes in hatched.items():
            self.drawing.path("".join(shapes), fill=pattern)
        self._write_micro_batches(lane, texts)

    def _extent(self, lane: _Lane, slot: Slot) -> tuple[float, float]:
        """Return top and height: compute fills the lane, receiving is above its middle and sending below."""
        if slot.kind is SlotKind.COMPUTE:
            return lane.top + 0.1 * self.lane_height, 0.8 * self.lane_height
        thin, middle = 0.27 * self.lane_height, lane.top + self.lane_height / 2
        return (middle - thin - 0.4, thin) if slot.kind is SlotKind.RECEIVE else (middle + 0.4, thin)

    def _write_micro_batches(self, lane: _Lane, texts: list[tuple[Slot, Fill]]) -> None:
        size = min(BAR_TEXT, 0.62 * self.lane_height)
        if size < 5.5:
            return
        names_pass = any(slot.direction is not Pass.FORWARD for slot in self.schedule.slots)
        for slot, fill in texts:
            x0, x1 = self._x(slot.start_ms), self._x(slot.end_ms)
            bare = str(slot.micro_batch)
            options = [f"{slot.direction.letter}{bare}", bare] if names_pass else [bare]
            text = next((t for t in options if text_width(t, size) + 2 < x1 - x0), None)
            if text is not None:
                self.drawing.text(
                    (x0 + x1) / 2, lane.top + self.lane_height / 2, text, size, fill.text, anchor="middle"
                )

    def _draw_critical_path(self) -> None:
        """Outline what makes the run as long as it is; receiving, computing and sending of one stage as one."""
        lane_of = {lane.device: lane for lane in self.lanes}
        blocks: dict[tuple[int, int], tuple[_Lane, float, float]] = {}
        for i in self.schedule.critical:
            slot = self.schedule.slots[i]
            x0, x1 = self._x(slot.start_ms), self._x(slot.end_ms)
            lane, start, end = blocks.get((slot.stage, slot.micro_batch), (lane_of[slot.device], x0, x1))
            blocks[slot.stage, slot.micro_batch] = lane, min(start, x0), max(end, x1)
        shapes = [
            f"M{number(x0 + 0.3)} {number(lane.top + 0.08 * self.lane_height)}H{number(x1 - 0.7)}"
            f"v{number(0.84 * self.lane_height)}H{number(x0 + 0.3)}z"
            for lane, x0, x1 in sorted(blocks.values(), key=lambda block: block[1])
            if x1 - x0 > 1.5
        ]
        if shapes:
            self.drawing.path("".join(shapes), stroke=self.look.ink, stroke_width=1.0)

    # Memory

    def _draw_memory(self, top: float) -> float:
        """Draw what each device holds over time, a row each on one scale, with the capacity of an accelerator."""
        look = self.look
        rows = [lane for lane in self.lanes if self.schedule.memory[lane.device]]
        peak = max((self.schedule.peak_memory_bytes[lane.device] for lane in rows), default=0.0)
        capacity = self.info.deployment.largest_memory_bytes
        # A capacity far above all that is held would flatten the rows: it is then said, not drawn.
        shows_capacity = capacity is not None and capacity <= 4 * peak
        most = 1.05 * max(peak, capacity if capacity is not None and shows_capacity else 0.0)
        words = "Memory held over time"
        if most <= 0:
            self.drawing.text(self.left, top, f"{words}: the file gives no sizes", SIZE, look.muted)
            return top + 6
        each = {self.info.deployment.capacity_bytes(lane.device) for lane in rows}
        own = sorted(size for size in each if size is not None)
        row, *sizes = binary_sizes([most, *(own if len(own) > 1 else [capacity])])
        limit = "no limit" if capacity is None else f"capacity of an accelerator {sizes[0]}"
        if len(own) > 1:
            limit = f"capacities of {listed(sizes)}"
        if capacity is not None:
            limit += ", dashed" if shows_capacity else ", far above what is held"
        about = f" · a row up to {row} · {limit}"
        self.drawing.runs(self.left, top, [(words, look.ink, True), (about, look.muted, False)], SIZE + 0.5)
        self.drawing.text(self.right, top, "of capacity", SIZE, look.muted, anchor="end")
        height, y = self.memory_row, top + 9
        for lane in rows:
            self._draw_memory_row(lane, y, height, most, capacity if shows_capacity else None)
            y += height + MEMORY_SPACE
        return y

    def _draw_memory_row(self, lane: _Lane, top: float, height: float, most: float, drawn: float | None) -> None:
        look, bottom = self.look, top + height
        colour = self.colours[lane.device].forward.fill

        def y_of(size_bytes: float) -> str:
            return number(bottom - size_bytes / most * height)

        self.drawing.rect(self.low, top, self.high - self.low, height, look.shade)
        points = self.schedule.memory[lane.device]
        data = [f"M{number(self.low)} {y_of(points[0].memory_bytes)}"]
        for before, point in pairwise(points):
            if abs(point.memory_bytes - before.memory_bytes) > 1e-6 * most:
                data.append(f"H{number(self._x(point.time_ms))}V{y_of(point.memory_bytes)}")
        line = "".join([*data, f"H{number(self.high)}"])
        self.drawing.path(f"{line}V{number(bottom)}H{number(self.low)}z", fill=colour, fill_opacity=0.45)
        self.drawing.path(line, stroke=colour, stroke_width=1.2, stroke_linejoin="round")
        capacity = self.info.deployment.capacity_bytes(lane.device)
        if capacity is not None and drawn is not None:
            self.drawing.path(
                f"M{number(self.low)} {y_of(capacity)}H{number(self.high)}",
                stroke=look.ink, stroke_width=0.9, stroke_dasharray="4 2.5",
            )  # fmt: skip
        self._draw_chip(lane, (top + bottom) / 2, min(13.0, height))
        if capacity:
            used = self.schedule.peak_memory_bytes[lane.device] / capacity
            size = min(10.0, height)
            words = "too much" if used > 1.000001 else "at most"
            text = f"{words} {percent(used)}"
            is_over = used > 1.000001
            fill = look.transfer if is_over else look.ink
            self.drawing.text(self.right, (top + bottom) / 2, text, size, fill, bold=is_over, anchor="end")

    # What the marks mean

    def _draw_key(self, top: float) -> float:
        """Say what the marks mean, for a reader who has nothing but this page."""
        look, x, middle = self.look, self.left, top + 7
        colour = self.colours[self.lanes[0].device] if self.lanes else None
        if colour is None:
            return top
        passes = {slot.direction for slot in self.schedule.slots}
        for direction in Pass:
            if direction not in passes:
                continue
            fill = pass_fill(direction, 0, colour)
            self.drawing.rect(x, middle - 5, 16, 10, fill.fill)
            if direction is not Pass.FORWARD:
                self.drawing.rect(x, middle - 5, 16, 10, self.drawing.pattern("backward", fill.text))
            words = f"{direction.value.replace('_', ' ').replace('-', ' ')}, number of the micro-batch"
            x = self.drawing.runs(x + 20, middle, [(words, look.muted, False)], SIZE) + 14
        kinds = {slot.kind for slot in self.schedule.slots}
        for kind, y in ((SlotKind.RECEIVE, middle - 3.4), (SlotKind.SEND, middle + 0.4)):
            if kind in kinds:
                self.drawing.rect(x, y, 16, 3, look.transfer)
                x = self.drawing.runs(x + 20, middle, [(kind.value, look.muted, False)], SIZE) + 14
        if self.schedule.critical:
            self.drawing.rect(x, middle - 5, 16, 10, "none", stroke=look.ink, stroke_width=1.0)
            words = "on the critical path of this run"
            self.drawing.runs(x + 20, middle, [(words, look.muted, False)], SIZE)
        return top + 16


def slot_fill(slot: Slot, colour: DeviceColour) -> Fill:
    """Return the fill of a bar of compute: odd micro-batches are lighter than even ones."""
    return pass_fill(slot.direction, slot.micro_batch, colour)


def pass_fill(direction: Pass, micro_batch: int, colour: DeviceColour) -> Fill:
    """Return the fill of a pass of a micro-batch; the gradient of the weights is paler than that of the input."""
    odd = micro_batch % 2 == 1
    if direction is Pass.FORWARD:
        return colour.forward_odd if odd else colour.forward
    if direction is Pass.WEIGHT_GRADIENT:
        return colour.weight_odd if odd else colour.weight
    return colour.backward_odd if odd else colour.backward


def nice_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least this.

    >>> nice_step(0.3), nice_step(7), nice_step(10)
    (0.5, 10.0, 10.0)
    """
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)
