"""Drawings: nothing overlaps, lines end at boxes, equal graphs look equal."""

import random
from itertools import pairwise

import pytest

from explorer.layout.layered import layered_layout
from explorer.layout.lines import Layout
from explorer.layout.rows import BOX_HEIGHT, BOX_WIDTH, Structure
from explorer.server.byte_cache import VIEWS


def chain(n: int) -> Structure:
    return Structure((False,) * n, (-1,) * n, tuple((i, i + 1) for i in range(n - 1)))


def random_structure(seed: int, n: int, training: bool = False) -> Structure:
    rng = random.Random(seed)  # noqa: S311 -- a test needs repetition, not secrecy
    edges = {(rng.randint(max(0, v - 4), v - 1), v) for v in range(1, n)}
    edges |= {(rng.randint(0, v - 1), v) for v in range(1, n) if rng.random() < 0.1}
    if not training:
        return Structure((False,) * n, (-1,) * n, tuple(sorted(edges)))
    # Box 2n - 1 - v is the backward twin of box v.
    mirrored = {(2 * n - 1 - v, 2 * n - 1 - u) for u, v in edges} | {(n - 1, n)}
    stored = {(v, 2 * n - 1 - v) for v in range(n)}
    twin = tuple(range(n)) + tuple(range(n - 1, -1, -1))
    return Structure((False,) * n + (True,) * n, twin, tuple(sorted(edges | mirrored | stored)))


def overlaps(layout: Layout) -> int:
    boxes = sorted(layout.centres)
    return sum(
        abs(x1 - x2) < BOX_WIDTH - 0.2 and abs(y1 - y2) < BOX_HEIGHT - 0.2
        for i, (x1, y1) in enumerate(boxes)
        for x2, y2 in boxes[i + 1 : i + 200]
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_boxes_do_not_overlap_and_everything_lies_inside(seed, training):
    structure = random_structure(seed, 20 + 40 * seed, training)
    layout = layered_layout(structure)
    assert overlaps(layout) == 0
    assert len(layout.routes) == len(structure.edges)
    for route in layout.routes:
        assert len(route) >= 4
        assert all(0 <= x <= layout.width for x in route[::2])
        assert all(0 <= y <= layout.height for y in route[1::2])


@pytest.mark.parametrize("seed", range(4))
def test_routes_run_from_border_to_border(seed):
    structure = random_structure(seed, 60, training=True)
    layout = layered_layout(structure)
    for (u, v), route in zip(structure.edges, layout.routes, strict=True):
        for end, (x, y) in ((u, route[:2]), (v, route[-2:])):
            cx, cy = layout.centres[end]
            on_side = abs(abs(x - cx) - BOX_WIDTH / 2) < 0.2 and abs(y - cy) < 0.2
            on_top = abs(abs(y - cy) - BOX_HEIGHT / 2) < 0.2 and abs(x - cx) < 0.2
            assert on_side or on_top


def test_short_graph_runs_to_the_right_and_long_one_wraps_into_a_wide_page():
    assert layered_layout(chain(4)).flow == "right"
    layout = layered_layout(chain(120))
    assert layout.flow == "down"
    assert len({x for x, _ in layout.centres}) > 3
    assert 1.5 < layout.width / layout.height < 3.5


def test_chain_stands_straight_in_each_column():
    layout = layered_layout(chain(40))
    for (x1, y1), (x2, y2) in pairwise(layout.centres):
        assert (x2 == x1 and y2 > y1) or (x2 > x1 and y2 < y1)


def test_twins_share_a_row():
    n = 50
    structure = random_structure(1, n, training=True)
    layout = layered_layout(structure)
    shared = sum(abs(layout.centres[v][1] - layout.centres[2 * n - 1 - v][1]) < 0.2 for v in range(n))
    assert shared == n


def test_line_that_skips_layers_goes_round_the_boxes_between():
    structure = Structure((False,) * 30, (-1,) * 30, (*((i, i + 1) for i in range(29)), (1, 4)))
    layout = layered_layout(structure)
    route = layout.routes[-1]
    assert len(route) > 4
    between = layout.centres[2][0]
    assert max(abs(x - between) for x in route[::2]) > BOX_WIDTH / 2


def test_lines_of_one_tensor_run_together():
    edges = (*((i, i + 1) for i in range(29)), (0, 3), (0, 5))
    layout = layered_layout(Structure((False,) * 30, (-1,) * 30, edges))
    lanes = {max(route[::2]) for route in layout.routes[-2:]}
    assert len(lanes) == 1


def test_edges_against_the_order_and_circular_twins_are_drawn():
    layout = layered_layout(Structure((False,) * 3, (-1,) * 3, ((0, 1), (1, 2), (2, 0))))
    assert len(layout.routes) == 3
    # Twins 0-3 and 1-2 would need 0 above 1 (forward) and below it (backward, running down).
    circular = Structure((False, False, True, True), (0, 1, 0, 1), ((0, 1), (2, 3), (1, 2)))
    assert overlaps(layered_layout(circular)) == 0


def test_free_boxes_make_no_endless_row():
    layout = layered_layout(Structure((False,) * 400, (-1,) * 400, ()))
    assert overlaps(layout) == 0
    assert layout.width < 6 * layout.height


def test_no_box_at_all():
    assert layered_layout(Structure((), (), ())).centres == ()


def test_same_structure_same_drawing():
    structure = random_structure(3, 80, training=True)
    first = layered_layout(structure)
    VIEWS.clear()
    assert layered_layout(structure) == first


def test_two_thousand_boxes_have_places_of_their_own():
    structure = random_structure(7, 1000, training=True)
    centres = layered_layout(structure).centres
    assert len(set(centres)) == len(centres) == len(structure.is_backward)
