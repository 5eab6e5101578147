"""The drawing of devices: nothing overlaps, lines end at boxes, the two directions keep apart."""

import random
from itertools import pairwise

import pytest

from explorer.layout.device_layout import device_layout

WIDTH, HEIGHT = 140.0, 92.0


def random_edges(n: int, seed: int) -> tuple[tuple[int, int], ...]:
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    pairs = {(i, i + 1) for i in range(n - 1)} | {(i + 1, i) for i in range(n - 1)}
    return tuple(sorted(pairs | {(u, v) for u in range(n) for v in range(n) if u != v and rng.random() < 0.15}))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 16, 30])
def test_boxes_do_not_overlap_and_lines_run_between_their_borders(n):
    edges = random_edges(n, seed=n)
    layout = device_layout(n, edges, WIDTH, HEIGHT)
    for i, (x1, y1) in enumerate(layout.centres):
        assert WIDTH / 2 <= x1 <= layout.width - WIDTH / 2
        assert HEIGHT / 2 <= y1 <= layout.height - HEIGHT / 2
        assert all(abs(x1 - x2) >= WIDTH or abs(y1 - y2) >= HEIGHT for x2, y2 in layout.centres[:i])
    for (u, v), route in zip(edges, layout.routes, strict=True):
        assert all(0 <= x <= layout.width for x in route[::2])
        assert all(0 <= y <= layout.height for y in route[1::2])
        for box, (x, y) in ((u, route[:2]), (v, route[-2:])):
            cx, cy = layout.centres[box]
            on_side = abs(abs(x - cx) - WIDTH / 2) < 0.2 and abs(y - cy) < HEIGHT / 2
            on_top = abs(abs(y - cy) - HEIGHT / 2) < 0.2 and abs(x - cx) < WIDTH / 2
            assert on_side or on_top


@pytest.mark.parametrize("n", [2, 4, 9])
def test_there_and_back_are_two_lines(n):
    edges = tuple((u, v) for u in range(n) for v in range(n) if u != v)
    routes = device_layout(n, edges, WIDTH, HEIGHT).routes
    assert len(set(routes)) == len(edges)
    ends = [(route[0], route[1]) for route in routes] + [(route[-2], route[-1]) for route in routes]
    assert len(set(ends)) == len(ends)


def test_lines_through_a_row_do_not_run_through_boxes():
    edges = ((0, 3), (3, 0), (0, 2))
    layout = device_layout(4, edges, WIDTH, HEIGHT)
    for (u, v), route in zip(edges, layout.routes, strict=True):
        points = list(zip(route[::2], route[1::2], strict=True))
        for box, (cx, cy) in enumerate(layout.centres):
            if box not in (u, v):
                assert not any(abs(x - cx) < WIDTH / 2 and abs(y - cy) < HEIGHT / 2 for x, y in points)
                for (x1, y1), (x2, y2) in pairwise(points):
                    spans_x = min(x1, x2) < cx + WIDTH / 2 and max(x1, x2) > cx - WIDTH / 2
                    spans_y = min(y1, y2) < cy + HEIGHT / 2 and max(y1, y2) > cy - HEIGHT / 2
                    assert not (spans_x and spans_y)


def test_no_device_at_all():
    assert device_layout(0, (), WIDTH, HEIGHT).centres == ()
