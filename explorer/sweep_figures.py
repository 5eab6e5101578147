"""Figures of a sweep: a curve with its knee, a heat map with iso-lines, and throughput against cost.

What is clicked on is always a marker of a scatter, for only those can be selected: on the heat map they are invisible
and lie over its cells. The number of a point among `spec.points()` in ascending order is its custom data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from explorer.palette import ACCELERATOR_COLOURS, DARK_TEXT, LIGHT_TEXT, RAMP, THEMES, ThemeName, mix, text_on
from explorer.wording import milliseconds
from solvers.result import SolveResult, SolveStatus
from solvers.sweep_analysis import Measure, Prices, measured, pareto_front, throughput
from solvers.sweep_axes import Axis, Quantity
from solvers.sweep_plan import Index, SweepSpec
from solvers.sweep_table import knee_of

HEIGHT = 440
MOST_WITH_NUMBERS = 16
"""Values on an axis up to which there is room for numbers in the cells."""
GREY = {"light": "#D5D9E0", "dark": "#4A5160"}
NOT_YET = {"light": "#F2F4F7", "dark": "#1B212B"}


NAMED = (Quantity.OBJECTIVE, Quantity.DEVICES)
"""Quantities whose values have no order: nothing lies between two of them."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a figure shows: a sweep as far as it is solved, one measure of it, and at which prices."""

    spec: SweepSpec
    answers: Mapping[Index, SolveResult]
    measure: Measure
    prices: Prices
    theme: ThemeName

    def value(self, index: Index) -> float | None:
        """The measure of a point; None where there is none."""
        result = self.answers.get(index)
        if result is None:
            return None
        return measured(self.measure, self.spec.deployment_at(index), result, self.prices)

    def is_infeasible(self, index: Index) -> bool:
        """Whether it is proven that a point has no plan."""
        result = self.answers.get(index)
        return result is not None and result.status is SolveStatus.INFEASIBLE

    def hover(self, index: Index) -> str:
        """What is said of a point."""
        place = "<br>".join(
            axis.quantity.text(value) for axis, value in zip(self.spec.axes, self.spec.values(index), strict=True)
        )
        result = self.answers.get(index)
        if result is None:
            return f"{place}<br>not solved yet"
        if result.value_ms is None:
            return f"{place}<br>{'infeasible' if self.is_infeasible(index) else 'no plan found'}"
        gap = result.gap
        proof = "optimal, proven" if result.status is SolveStatus.OPTIMAL else "not proven"
        if result.status is not SolveStatus.OPTIMAL and gap is not None:
            proof = f"within {100 * gap:.3g} % of optimal"
        rate = throughput(result)
        pace = "" if rate is None else f"<br>{rate:,.4g} samples/s"
        return f"{place}<br><b>{milliseconds(result.value_ms)}</b>{pace}<br>{proof}"


def ink(theme: ThemeName) -> str:
    """The colour of text and lines."""
    return LIGHT_TEXT if theme == "dark" else DARK_TEXT


def sweep_figure(picture: Picture) -> go.Figure:
    """Return the curve of one axis, or the heat map of two."""
    return _curve(picture) if len(picture.spec.axes) == 1 else _heat_map(picture)


def _curve(picture: Picture) -> go.Figure:
    spec, theme = picture.spec, picture.theme
    axis = spec.axes[0]
    points = sorted(spec.points())
    numbers = {index: i for i, index in enumerate(points)}
    drawn = [index for index in points if picture.value(index) is not None]
    colour = ACCELERATOR_COLOURS[0] if theme == "light" else ACCELERATOR_COLOURS[3]
    figure = _figure(theme)
    figure.add_scatter(
        x=[_place(axis, index[0]) for index in drawn],
        y=[picture.value(index) for index in drawn],
        customdata=[numbers[index] for index in drawn],
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"size": 9, "color": colour},
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        hovertext=[picture.hover(index) for index in drawn],
        hoverinfo="text",
        showlegend=False,
    )
    bend = knee_of(spec, picture.answers)
    if bend is not None and picture.value((bend,)) is not None and picture.measure is not Measure.PER_COST:
        figure.add_scatter(
            x=[_place(axis, bend)],
            y=[picture.value((bend,))],
            mode="markers+text",
            marker={"size": 18, "symbol": "circle-open", "color": THEMES[theme].transfer, "line": {"width": 3}},
            text=["knee"],
            textposition="top center",
            textfont={"color": ink(theme), "size": 14},
            hoverinfo="skip",
            showlegend=False,
        )
    _mark_infeasible(figure, picture, points)
    figure.update_xaxes(**_axis_options(axis))
    figure.update_yaxes(title=picture.measure.label, rangemode="tozero")
    return figure


def _mark_infeasible(figure: go.Figure, picture: Picture, points: Sequence[Index]) -> None:
    """Cross out the values of the axis at which nothing fits."""
    nothing = [index for index in points if picture.is_infeasible(index)]
    if nothing:
        figure.add_scatter(
            x=[_place(picture.spec.axes[0], index[0]) for index in nothing],
            y=[0.0] * len(nothing),
            mode="markers",
            marker={"symbol": "x", "size": 10, "color": THEMES[picture.theme].alarm},
            cliponaxis=False,
            hovertext=[picture.hover(index) for index in nothing],
            hoverinfo="text",
            name="infeasible",
            showlegend=True,
        )


def _heat_map(picture: Picture) -> go.Figure:
    """Cells of equal size whatever their values, so that each can be hit; iso-lines between their centres."""
    spec, theme = picture.spec, picture.theme
    across, up = spec.axes
    columns, rows = range(len(across.values)), range(len(up.values))
    values = [[picture.value((i, j)) for i in columns] for j in rows]
    known = [value for row in values for value in row if value is not None]
    figure = _figure(theme)
    figure.add_heatmap(  # beneath all: what is not solved yet, and where nothing fits
        z=[[1 if picture.is_infeasible((i, j)) else 0 for i in columns] for j in rows],
        colorscale=[[0, NOT_YET[theme]], [1, GREY[theme]]],
        zmin=0,
        zmax=1,
        showscale=False,
        hoverinfo="skip",
        xgap=1,
        ygap=1,
    )
    ramp = list(RAMP) if theme == "light" else list(reversed(RAMP))
    if known:
        figure.add_heatmap(
            z=values,
            colorscale=[[i / (len(ramp) - 1), colour] for i, colour in enumerate(ramp)],
            colorbar={"title": {"text": picture.measure.label, "side": "right"}, "thickness": 14},
            hoverinfo="skip",
            xgap=1,
            ygap=1,
        )
    has_order = all(axis.quantity not in NAMED for axis in spec.axes)
    if has_order and len(known) == len(columns) * len(rows) and min(known) < max(known):
        for colour, width in ((LIGHT_TEXT, 3.2), (DARK_TEXT, 1.4)):  # with a light rim, to be seen on every fill
            figure.add_contour(
                z=values,
                contours={"coloring": "none"},
                ncontours=9,
                line={"color": colour, "width": width, "smoothing": 0.6},
                showscale=False,
                showlegend=False,
                hoverinfo="skip",
            )
    if known:
        _write_numbers(figure, picture, ramp, min(known), max(known))
    _hatch(figure, picture)
    points = sorted(spec.points())
    figure.add_scatter(
        x=[index[0] for index in points],
        y=[index[1] for index in points],
        customdata=list(range(len(points))),
        mode="markers",
        marker={"symbol": "square", "size": 26, "color": ink(theme), "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        hovertext=[picture.hover(index) for index in points],
        hoverinfo="text",
        showlegend=False,
    )
    for update, axis in ((figure.update_xaxes, across), (figure.update_yaxes, up)):
        update(
            title=axis.quantity.label,
            tickvals=list(range(len(axis.values))),
            ticktext=[_tick(axis, i) for i in range(len(axis.values))],
            showgrid=False,
            zeroline=False,
            range=[-0.5, len(axis.values) - 0.5],
        )
    return figure


def _write_numbers(figure: go.Figure, picture: Picture, ramp: Sequence[str], least: float, most: float) -> None:
    """Write values into their cells, in the colour that reads best on each, where there is room."""
    if any(len(axis.values) > MOST_WITH_NUMBERS for axis in picture.spec.axes):
        return
    cells = [(index, value) for index in picture.spec.points() if (value := picture.value(index)) is not None]
    figure.add_scatter(
        x=[index[0] - 0.48 for index, _ in cells],  # in a corner: iso-lines lead from centre to centre
        y=[index[1] - 0.34 for index, _ in cells],
        textposition="middle right",
        text=[f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for _, value in cells],
        mode="text",
        textfont={"size": 12, "color": [text_on(_fill(ramp, value, least, most)) for _, value in cells]},
        hoverinfo="skip",
        showlegend=False,
    )


def _fill(ramp: Sequence[str], value: float, least: float, most: float) -> str:
    """Return the colour of a value on a ramp, as Plotly mixes it."""
    place = (value - least) / (most - least) * (len(ramp) - 1) if most > least else 0.0
    k = min(int(place), len(ramp) - 2)
    return mix(ramp[k], ramp[k + 1], place - k)


def _hatch(figure: go.Figure, picture: Picture) -> None:
    """Draw a diagonal through each cell in which nothing fits: grey alone could be a value."""
    lines: list[tuple[float | None, float | None]] = []
    for i, j in picture.spec.points():
        if picture.is_infeasible((i, j)):
            for shift in (-0.3, 0.0, 0.3):
                lines += [
                    (i - 0.45 + max(0, shift), j - 0.45 + max(0, -shift)),
                    (i + 0.45 + min(0, shift), j + 0.45 + min(0, -shift)),
                    (None, None),
                ]
    if lines:
        figure.add_scatter(
            x=[x for x, _ in lines],
            y=[y for _, y in lines],
            mode="lines",
            line={"color": ink(picture.theme), "width": 1},
            opacity=0.6,
            hoverinfo="skip",
            name="infeasible",
            showlegend=True,
        )


def pareto_figure(picture: Picture) -> go.Figure:
    """Return throughput against cost per hour of all points, and the front of those that none beats."""
    spec, theme = picture.spec, picture.theme
    points = sorted(spec.points())
    drawn = [
        (i, picture.prices.per_hour(spec.deployment_at(index)), rate)
        for i, index in enumerate(points)
        if index in picture.answers and (rate := throughput(picture.answers[index])) is not None
    ]
    costs, rates = [cost for _, cost, _ in drawn], [rate for _, _, rate in drawn]
    front = pareto_front(costs, rates)
    colour = ACCELERATOR_COLOURS[0] if theme == "light" else ACCELERATOR_COLOURS[3]
    figure = _figure(theme, height=340)
    figure.add_scatter(
        x=[costs[i] for i in front],
        y=[rates[i] for i in front],
        mode="lines",
        line={"color": THEMES[theme].transfer, "width": 2, "shape": "hv"},
        name="Pareto front",
        hoverinfo="skip",
    )
    on_front = set(front)
    figure.add_scatter(
        x=costs,
        y=rates,
        customdata=[i for i, _, _ in drawn],
        mode="markers",
        marker={
            "size": [11 if i in on_front else 7 for i in range(len(drawn))],
            "symbol": ["diamond" if i in on_front else "circle" for i in range(len(drawn))],
            "color": [THEMES[theme].transfer if i in on_front else colour for i in range(len(drawn))],
        },
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        hovertext=[picture.hover(points[i]) for i, _, _ in drawn],
        hoverinfo="text",
        showlegend=False,
    )
    figure.update_xaxes(title="Cost per hour", rangemode="tozero")
    figure.update_yaxes(title=Measure.THROUGHPUT.label, rangemode="tozero")
    return figure


def _figure(theme: ThemeName, height: int = HEIGHT) -> go.Figure:
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        clickmode="event+select",
        dragmode=False,
        font={"color": ink(theme), "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hoverlabel={"align": "left"},
        hoverdistance=-1,  # the nearest point, however far: the whole of a cell is one
    )
    return figure


def _axis_options(axis: Axis) -> dict[str, Any]:
    options: dict[str, Any] = {"title": axis.quantity.label}
    if axis.quantity in NAMED:
        return {**options, "type": "category"}
    if len(axis.values) <= 16:
        options["tickvals"] = [_place(axis, i) for i in range(len(axis.values))]
        options["ticktext"] = [_tick(axis, i) for i in range(len(axis.values))]
    if axis.is_logarithmic:
        low, high = (math.log10(float(_place(axis, i))) for i in (0, -1))
        margin = 0.04 * (high - low)
        options |= {"type": "log", "range": [low - margin, high + margin]}
    return options


def _place(axis: Axis, i: int) -> Any:
    return axis.quantity.shown(axis.values[i])


def _tick(axis: Axis, i: int) -> str:
    value = _place(axis, i)
    return str(value) if isinstance(value, str) else f"{value:.4g}"
