"""How many bytes what the server remembers takes: one place for the estimates, which a test holds against real sizes.

What is made of parts is added up beside its own type.

Figures are for CPython on 64 bits, measured with `tests/explorer/server/test_byte_cache.py: real_size`. A part that
several values share (the layout of a picture, the names of nodes) counts with each of them: the bound errs on the safe
side.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solvers.model.graph import DnnGraph
    from solvers.schedule.simulate import Schedule

NODE_BYTES = 700
"""A node of a graph: its record with its numbers and name, and its places in what is derived from a graph."""
EDGE_BYTES = 180
CLASS_TIME_BYTES = 150
"""A time of a node on one class of accelerators, with the name of the class."""
NAMED_TENSOR_BYTES = 500
"""A tensor with a name: its time, and its places in what is derived from a graph."""
NUMBER_BYTES = 32
"""A number and its place in a tuple."""
TUPLE_BYTES = 56
NAME_BYTES = 60
GROUP_BYTES = 200
NODE_VIEW_BYTES = 250
BOX_BYTES = 350
EDGE_VIEW_BYTES = 150
TENSOR_BYTES = 250
SLOT_BYTES = 250
MEMORY_POINT_BYTES = 120


def graph_bytes(graph: "DnnGraph") -> int:
    """Return the size of a graph with what is derived from it."""
    named = sum(len(node.name) + len(node.layer or "") + CLASS_TIME_BYTES * len(node.class_ms) for node in graph.nodes)
    tensors = sum(NAMED_TENSOR_BYTES + len(name) for node in graph.nodes for name, _ in node.tensor_ms)
    names = sum(len(edge.tensor) for edge in graph.edges)
    return NODE_BYTES * len(graph.nodes) + EDGE_BYTES * len(graph.edges) + named + tensors + names


def names_bytes(names: Sequence[str]) -> int:
    """Return the size of names that stand for others of about their length, with these."""
    return TUPLE_BYTES + sum(2 * (NAME_BYTES + 8 + len(name)) for name in names)


def schedule_bytes(schedule: "Schedule | None") -> int:
    """Return the size of a schedule."""
    if schedule is None:
        return 0
    size = SLOT_BYTES * len(schedule.slots) + MEMORY_POINT_BYTES * sum(map(len, schedule.memory))
    return size + sum(GROUP_BYTES + 8 * len(stage.nodes) for stage in schedule.stages)
