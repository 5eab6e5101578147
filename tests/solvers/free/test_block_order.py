"""Orders of blocks with few open nets across their positions."""

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from solvers.free.block_order import WINDOW, cost_of_order, narrow_orders
from tests.support.examples import examples


@st.composite
def nets_over(draw: st.DrawFn, num_blocks: int, most: int) -> list[tuple[int, ...]]:
    one = st.sets(st.integers(0, num_blocks - 1), min_size=2, max_size=4).map(lambda ends: tuple(sorted(ends)))
    return draw(st.lists(one, max_size=most))


def cost_by_definition(order: Sequence[int], ends: Sequence[Sequence[int]]) -> float:
    cost = 0.0
    for i in range(1, len(order) + 1):
        placed = set(order[:i])
        bearing = {b for e in ends if not placed.issuperset(e) for b in placed.intersection(e)}
        cost += 2.0 ** len(bearing)
    return cost


def goes_along(order: Sequence[int], before: Sequence[Sequence[int]]) -> bool:
    place = {b: i for i, b in enumerate(order)}
    return all(place[u] < place[b] for b, row in enumerate(before) for u in row)


@given(st.permutations(range(6)), nets_over(6, 9))
@examples(60)
def test_an_order_costs_two_to_the_blocks_that_bear_an_open_net(order: list[int], ends: list[tuple[int, ...]]) -> None:
    assert cost_of_order(order, ends) == cost_by_definition(order, ends)


@given(nets_over(6, 9), st.lists(st.sets(st.integers(0, 5)), min_size=6, max_size=6), st.booleans())
@examples(40)
def test_blocks_of_one_window_are_in_their_best_order(
    ends: list[tuple[int, ...]], rows: list[set[int]], is_bound: bool
) -> None:
    before = [sorted(u for u in row if u < b) for b, row in enumerate(rows)] if is_bound else []
    found = narrow_orders(range(6), ends, before)[0].tolist()
    allowed = [order for order in itertools.permutations(range(6)) if goes_along(order, before)]
    assert goes_along(found, before)
    assert cost_of_order(found, ends) == min(cost_by_definition(order, ends) for order in allowed)


@given(nets_over(4 * WINDOW, 90), st.booleans())
@examples(15, deadline=None)
def test_windows_in_their_best_order_never_cost_more(ends: list[tuple[int, ...]], is_bound: bool) -> None:
    n = 4 * WINDOW
    before = [[u for e in ends if b in e for u in e if u < b] for b in range(n)] if is_bound else []
    given_order = list(range(n))
    first, second = narrow_orders(given_order, ends, before)
    for order in (first, second):
        assert sorted(order.tolist()) == given_order
        assert goes_along(order.tolist(), before)
    assert cost_of_order(first, ends) <= cost_of_order(second, ends) <= cost_of_order(given_order, ends)


def test_a_grid_is_walked_along_its_short_side() -> None:
    """Three rows of twenty, numbered along the rows: walked so, 20 blocks bear an open net; in columns, 3."""
    rows, columns = 3, 20
    ends = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    ends += [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]
    order = narrow_orders(range(rows * columns), ends)[0]
    assert cost_of_order(order, ends) <= rows * columns * 2.0**rows
