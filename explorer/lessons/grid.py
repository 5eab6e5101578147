"""A timeline as a grid of boxes, a row a device and a column an interval, to draw into by hand and to compare with."""

import math

from explorer.lessons.graphs import colours
from explorer.lessons.scene import Mark, Scene
from solvers.model.deployment import Deployment
from solvers.schedule.records import Pass, SlotKind
from solvers.schedule.simulate import Schedule

CELL = 34.0
LEFT, TOP = 128.0, 24.0


def grid_scene(schedule: Schedule, deployment: Deployment, interval_ms: float, *, filled: bool) -> Scene:
    """Return the grid of a schedule whose slots are whole intervals; empty, or with the micro-batches in their places.

    A box is one pass of a micro-batch, as wide as it takes; a backward pass is grey and has a stroke: 0′.
    Micro-batches are numbered from 0, as in the timelines of the app.
    """
    columns = math.ceil(schedule.makespan_ms / interval_ms - 1e-9)
    used = sorted({slot.device for slot in schedule.slots})
    row = {device: TOP + i * CELL for i, device in enumerate(used)}
    marks = [
        Mark(f"t{i}", "text", LEFT + i * CELL, 4, CELL, 14, text=str(i + 1), look="quiet", size=11)
        for i in range(columns)
    ]
    for device, y in row.items():
        name = deployment.device_name(device)
        marks.append(Mark(f"d{device}", "text", 4, y, LEFT - 12, CELL, text=name, anchor="right", size=12))
        marks += [Mark(f"c{device}_{i}", "box", LEFT + i * CELL, y, CELL, CELL, r=0) for i in range(columns)]
    slots = [slot for slot in schedule.slots if slot.kind is SlotKind.COMPUTE] if filled else []
    for i, slot in enumerate(slots):
        is_forward = slot.direction is Pass.FORWARD
        look = colours(slot.device, deployment) if is_forward else {"fill": "#ddd", "ink": None}
        x, width = (LEFT + t / interval_ms * CELL for t in (slot.start_ms, slot.end_ms - slot.start_ms))
        text = f"{slot.micro_batch}{'' if is_forward else '′'}"
        y, w = row[slot.device], width - LEFT
        marks.append(Mark(f"s{i}", "box", x, y, w, CELL, text=text, fill=look["fill"], ink=look["ink"], r=0))
    said = f"the timeline of {schedule.num_micro_batches} micro-batches" if filled else "an empty timeline"
    alt = f"{said.capitalize()} on {len(used)} devices, {columns} intervals"
    return Scene(LEFT + columns * CELL + 8, TOP + len(used) * CELL + 8, tuple(marks), alt)
