"""What to buy: throughput of a sweep against cost, the points that none beats, and the one that meets a wish."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.picture.palette import THEMES, ThemeName
from explorer.state import widgets
from explorer.sweep.figures import IN_FULL, Picture, add_points, empty_figure, ink, series_colour
from explorer.sweep.prices import lacking_text
from explorer.words.wording import plain
from solvers.hardware.prices import MAX_PRICE, Prices
from solvers.quantities import as_given, money, number
from solvers.sweep.front import (
    BEST_NOTE,
    MARK,
    NO_PRICES,
    FrontPoint,
    best_per_cost,
    cost_label,
    cost_of_all,
    cost_text,
    front_of,
    hardware_text,
    per_money_text,
    same_cost_text,
    wish_text,
)
from solvers.sweep.measures import Measure, unit_of
from solvers.sweep.spec import SweepSpec

MOST_ROWS = 24
"""Rows of the table; the exports have all points."""


def show_what_to_buy(picture: Picture, draw: Callable[[go.Figure, str, str], None]) -> None:
    """Draw throughput against cost, the points that none beats as a table, and what meets a wish.

    Where a price lacks it is asked for, and where all points cost the same nothing but a throughput can be wished for.
    `draw` puts a figure on the page, given a key and what it shows in words.
    """
    spec, prices = picture.spec, picture.prices
    cost = cost_of_all(spec, prices)
    st.markdown("##### What to buy")
    if lacking := lacking_text(prices, spec):
        st.info(plain(lacking))
        return
    boxes = [
        (f"At least ({unit_of(spec)}/s)", "sweep_at_least"),
        (f"Budget ({'accelerators' if prices.has_none else prices.unit})", "sweep_budget"),
    ]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        for label, key in boxes if cost is None else boxes[:1]:
            st.number_input(
                label,
                0.0,
                MAX_PRICE,
                None,
                format="%.6g",
                key=key,
                persist_state="session",
                placeholder="any",
                width=200,
            )
    if cost is None and prices.count_alike:
        st.caption(f"{NO_PRICES} Set your prices above.")
    at_least, budget = widgets.value("sweep_at_least"), widgets.value("sweep_budget")
    budget = budget if cost is None else None
    for sentence in wish_text(spec, picture.answers, prices, at_least=at_least, budget=budget):
        st.markdown(plain(sentence))
    if cost is not None:
        st.caption(plain(same_cost_text(spec, cost, prices)))
        return
    front = front_of(spec, picture.answers, prices)
    draw(
        pareto_figure(picture, at_least=at_least, budget=budget),
        "sweep_pareto",
        "Throughput of every point against its cost",
    )
    is_any_unproven = any(map(picture.is_unproven, picture.answers))
    st.caption(plain(front_caption(spec, front, prices, is_any_unproven=is_any_unproven)))
    if front:
        st.html(_front_table(spec, front, prices))
        if len(front) > MOST_ROWS:
            st.caption(f"The first {MOST_ROWS} of {len(front)} points of the front; the exports mark all of them.")


def front_caption(
    spec: SweepSpec, front: tuple[FrontPoint, ...], prices: Prices, *, is_any_unproven: bool = False
) -> str:
    """Say how to read the front, and that CPUs are free where they are: without it plans of CPUs alone cost nothing."""
    has_free_cpus = not prices.cpu and any(spec.devices_at(point.index).num_cpus for point in front)
    free = " CPUs cost nothing here: set their price above." if has_free_cpus else ""
    unproven = f" Values with {MARK} and open marks are not proven optimal: a better plan may exist."
    return (
        "Diamonds are the Pareto front: no other point costs as little and is as fast."
        f"{unproven if is_any_unproven else ''}{free}"
    )


def _front_table(spec: SweepSpec, front: tuple[FrontPoint, ...], prices: Prices) -> str:
    best = best_per_cost(front)
    most = best.per_cost if best is not None and best.per_cost else 0.0
    unit = unit_of(spec)
    header = [
        Cell("Pareto front"),
        Cell(cost_label(prices), "number"),
        Cell(f"{unit[0].upper()}{unit[1:]}/s", "number"),
        Cell(""),
        Cell(per_money_text(prices, unit).capitalize(), "number"),
    ]
    rows = [
        [
            Cell(" · ".join(filter(None, (hardware_text(spec, point.index), BEST_NOTE * (point is best))))),
            Cell(money(point.cost), "number"),
            Cell(number(point.rate) + MARK * point.is_unproven, "number"),
            Cell(bar=point.per_cost / most) if point.per_cost and most else Cell(),
            Cell(number(point.per_cost), "number"),
        ]
        for point in front[:MOST_ROWS]
    ]
    return html_table("The points of the sweep that none beats by cost and throughput", header, rows)


def pareto_figure(picture: Picture, *, at_least: float | None = None, budget: float | None = None) -> go.Figure:
    """Return throughput against cost of all points, the front of those that none beats, and lines for wishes."""
    spec, theme, prices = picture.spec, picture.theme, picture.prices
    points = sorted(spec.points())
    numbers = {index: i for i, index in enumerate(points)}
    front = front_of(spec, picture.answers, prices)
    on_front = {point.index for point in front}
    throughputs = replace(picture, measure=Measure.THROUGHPUT)
    others = [
        (index, cost, rate)
        for index in points
        if index not in on_front
        if (rate := throughputs.value(index)) is not None and (cost := prices.cost(spec.devices_at(index))) is not None
    ]
    figure = empty_figure(theme, height=340)
    for label, shown, colour, symbol, size, line in (
        ("other points", others, series_colour(theme), "circle", 7, None),
        (
            "Pareto front",
            [(point.index, point.cost, point.rate) for point in front],
            THEMES[theme].transfer,
            "diamond",
            12,
            {"color": THEMES[theme].transfer, "width": 2, "shape": "hv"},
        ),
    ):
        add_points(
            figure,
            x=[cost for _, cost, _ in shown],
            y=[rate for _, _, rate in shown],
            customdata=[numbers[index] for index, _, _ in shown],
            mode="markers" if line is None else "lines+markers",
            line=line,
            marker={"size": size, "symbol": picture.symbols(symbol, [index for index, _, _ in shown]), "color": colour},
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
            hovertext=[
                f"{picture.hover(index)}<br>{'' if prices.has_none else 'cost '}{cost_text(cost, prices)}"
                for index, cost, _ in shown
            ],
            hoverinfo="text",
            name=label,
            showlegend=bool(shown),
        )
    figure.update_traces(cliponaxis=False, selector={"type": "scatter"})  # points at cost 0 are whole
    if at_least is not None:
        # The front rises to the right: what is low is written behind it, what is high before it.
        side = "left" if at_least > 0.5 * max((point.rate for point in front), default=0.0) else "right"
        figure.add_hline(at_least, **_wish(theme, f"at least {as_given(at_least)} {unit_of(spec)}/s", side))
    if budget is not None:
        figure.add_vline(budget, **_wish(theme, f"budget {as_given(budget)}"))
    figure.update_xaxes(title_text=cost_label(prices), rangemode="tozero", **IN_FULL)
    figure.update_yaxes(title_text=throughputs.label, rangemode="tozero", **IN_FULL)
    return figure


def _wish(theme: ThemeName, text: str, side: str = "left") -> dict[str, Any]:
    return {
        "line": {"color": ink(theme), "width": 1.5, "dash": "dash"},
        "annotation": {"text": text, "font": {"color": ink(theme), "size": 12}},
        "annotation_position": f"top {side}",
    }
