"""Boxes that are tied: they hold nodes which must share a device without one feeding the other, as tied embeddings."""

from itertools import pairwise

from explorer.layout.levels import LevelView
from explorer.picture.dag_view import DagInfo

FEW_TIES = 24
"""More would cover a picture that nobody can ask for those of one box; as in `canvas/graph/graph_ties.js`."""


def tied_boxes(info: DagInfo, level: LevelView) -> tuple[tuple[int, int], ...]:
    """Return the pairs of boxes of a level to be joined, each once; none where there are too many."""
    box_of = {i: place for place, box in enumerate(level.boxes) for i in box.nodes}
    found: dict[tuple[int, int], None] = {}
    for members in info.ties:
        boxes = dict.fromkeys(box_of[i] for i in members if i in box_of)
        found.update(dict.fromkeys(pairwise(boxes)))
    return tuple(found) if len(found) <= FEW_TIES else ()
