"""Lines, areas and places of a drawing."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from explorer.figures.svg import number

Area = tuple[float, float, float, float]
"""Left, top, right, bottom."""
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Piece:
    """A straight piece of a line."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def length(self) -> float:
        """How long it is."""
        return hypot(self.x1 - self.x0, self.y1 - self.y0)


class Grid:
    """Finds the areas that overlap a place, among thousands."""

    def __init__(self, areas: Sequence[Area], cell: float) -> None:
        self.cell = max(8.0, cell)
        self.cells: dict[tuple[int, int], list[Area]] = {}
        for area in areas:
            for key in self._keys(area):
                self.cells.setdefault(key, []).append(area)

    def touches(self, place: Area) -> bool:
        """Whether an area lies over a place."""
        return any(overlap(place, other) for key in self._keys(place) for other in self.cells.get(key, ()))

    def _keys(self, area: Area) -> list[tuple[int, int]]:
        columns = range(int(area[0] // self.cell), int(area[2] // self.cell) + 1)
        rows = range(int(area[1] // self.cell), int(area[3] // self.cell) + 1)
        return [(column, row) for column in columns for row in rows]


def arrow_head(route: list[Point], size: float) -> str:
    """Return the path of a triangle at the end of a line."""
    (x, y), before = route[-1], route[-2]
    length = distance(before, (x, y)) or 1.0
    dx, dy = (x - before[0]) / length, (y - before[1]) / length
    first = x - dx * size - dy * size / 2, y - dy * size + dx * size / 2
    second = x - dx * size + dy * size / 2, y - dy * size - dx * size / 2
    return f"M{written((x, y))}L{written(first)}L{written(second)}Z"


def written(point: Point) -> str:
    """Write a point as paths do."""
    return f"{number(point[0])} {number(point[1])}"


def distance(a: Point, b: Point) -> float:
    """Return how far two points are apart."""
    return hypot(a[0] - b[0], a[1] - b[1])


def towards(start: Point, end: Point, far: float) -> Point:
    """Return the point so far from the start on the way to an end."""
    share = far / (distance(start, end) or 1.0)
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def overlap(a: Area, b: Area) -> bool:
    """Whether two areas have more than a border in common."""
    return a[0] < b[2] and a[2] > b[0] and a[1] < b[3] and a[3] > b[1]
