"""Figures of a sweep: a curve with its knee, a heat map with contour lines; and what all figures of it are drawn with.

What is clicked on is always a marker of a scatter, for only those can be selected: on the heat map they are invisible
and lie over its cells. The number of a point among `spec.points()` in ascending order is its custom data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill
from typing import Any

import plotly.graph_objects as go

from explorer.picture.palette import ACCELERATOR_COLOURS, DARK_TEXT, LIGHT_TEXT, THEMES, ThemeName, text_on
from explorer.sweep.cell_scale import CellScale, steps
from explorer.words.wording import proof
from solvers.hardware.prices import Prices
from solvers.model.micro_batch import throughput_text
from solvers.model.result import SolveResult, SolveStatus
from solvers.quantities import as_given, milliseconds, number
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.front import MARK
from solvers.sweep.measures import Measure, is_unproven, measured_at, measured_in_passes, unit_of
from solvers.sweep.plateau import Plateau, knee_of, plateau_of
from solvers.sweep.spec import Index, SweepSpec

HEIGHT = 440
MOST_WITH_NUMBERS = 16
"""Values on an axis up to which there is room for numbers in the cells."""
MOST_DIGITS = 5
FEWEST_BESIDE_NUMBERS = 25
"""Cells from which on lines between them add to what the numbers in them say."""
MOST_AS_SVG = 2000
MOST_TICKS = 20
MOST_WITH_RIMS = 40
"""Values on an axis up to which cells have a rim; beyond, rims would be wider than cells."""
GREY = {"light": "#D5D9E0", "dark": "#4A5160"}
NOT_YET = {"light": "#F2F4F7", "dark": "#1B212B"}


IN_FULL = {"exponentformat": "none", "separatethousands": True}
"""How numbers are written at an axis: as 200,000, not as 200k or 2e5."""
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
        return None if result is None else measured_at(self.measure, self.spec, index, result, self.prices)

    @property
    def label(self) -> str:
        """What an axis of the measure is labelled with."""
        return self.measure.label(self.prices, unit_of(self.spec))

    def text(self, index: Index, digits: int) -> str:
        """The measure of a point in so many digits, with a mark where it is not proven optimal; empty without one."""
        value = self.value(index)
        return "" if value is None else number(value, digits) + MARK * self.is_unproven(index)

    def is_unproven(self, index: Index) -> bool:
        """Whether a point has a plan of which nobody knows that it is the best."""
        result = self.answers.get(index)
        return result is not None and is_unproven(result)

    def symbols(self, symbol: str, points: Sequence[Index]) -> list[str]:
        """The marker of each of some points: filled, and open where a better plan may exist."""
        return [f"{symbol}-open" if self.is_unproven(index) else symbol for index in points]

    def is_infeasible(self, index: Index) -> bool:
        """Whether it is proven that a point has no plan; one of no devices at all is no point."""
        result = self.answers.get(index)
        return result is not None and result.status is SolveStatus.INFEASIBLE and not self.spec.has_no_device(index)

    @property
    def has_iso_lines(self) -> bool:
        """Whether smooth lines of equal value say something: both axes are continuous, and no cell has its number."""
        is_continuous = all(not axis.quantity.is_whole for axis in self.spec.axes)
        return is_continuous and not self.has_numbers and self.has_steps

    @property
    def has_steps(self) -> bool:
        """Whether lines between cells say something: every point is solved, values differ and lie in an order."""
        if any(axis.quantity in NAMED or len(axis.values) < 3 for axis in self.spec.axes):
            return False
        if self.has_numbers and self.spec.num_points < FEWEST_BESIDE_NUMBERS:
            return False
        values = [value for index in self.answers if (value := self.value(index)) is not None]
        # Before all is solved lines would move with every point.
        return len(self.answers) == self.spec.num_points and len(values) > 1 and min(values) < max(values)

    @property
    def has_numbers(self) -> bool:
        """Whether there are cells with room for their values; otherwise contour lines carry them."""
        axes = self.spec.axes
        return len(axes) > 1 and all(len(axis.values) <= MOST_WITH_NUMBERS for axis in axes)

    @property
    def knee(self) -> int | None:
        """Where on its axis a curve has the knee of throughput; None where it shows none, as per cost."""
        bend = knee_of(self.spec, self.answers)
        has_knee = bend is not None and self.value((bend,)) is not None and self.measure is not Measure.PER_COST
        return bend if has_knee else None

    @property
    def plateau(self) -> Plateau | None:
        """Where throughput over a count stands still before it rises again; None where nothing shows it."""
        shows = self.measure in (Measure.THROUGHPUT, Measure.TIME)
        return plateau_of(self.spec, self.answers) if shows else None

    def hover(self, index: Index) -> str:
        """What is said of a point."""
        place = "<br>".join(escape(axis.text(i)) for axis, i in zip(self.spec.axes, index, strict=True))
        result = self.answers.get(index)
        if self.spec.has_no_device(index):
            return f"{place}<br>no device"
        if result is None:
            return f"{place}<br>not solved yet"
        if result.value_ms is None:
            said = f"<br>{escape(fill(result.message, 60))}".replace("\n", "<br>") if result.message else ""
            return f"{place}<br><b>{'infeasible' if self.is_infeasible(index) else 'no plan found'}</b>{said}"
        rate = measured_in_passes(Measure.THROUGHPUT, self.spec, index, result, self.prices)
        pace = "" if rate is None else f"<br>{escape(throughput_text(rate, self.spec.graph.micro_batch))}"
        return f"{place}<br><b>{milliseconds(result.value_ms)}</b>{pace}<br>{proof(result)}"


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
    colour = series_colour(theme)
    figure = empty_figure(theme)
    has_order = axis.quantity not in NAMED
    opacity = 1 if has_order else 0  # at the end of a bar there is nothing to mark, only to be clicked on
    if not has_order:  # a line would say that something lies between two names
        figure.add_bar(
            x=[_tick(axis, index[0]) for index in drawn],
            y=[picture.value(index) for index in drawn],
            width=0.5,
            marker={"color": colour},
            text=[picture.text(index, 4) for index in drawn],
            textposition="outside",
            textfont={"color": ink(theme), "size": 13},
            cliponaxis=False,
            hoverinfo="skip",
            showlegend=False,
        )
    figure.add_scatter(
        x=[_place(axis, index[0]) if has_order else _tick(axis, index[0]) for index in drawn],
        y=[picture.value(index) for index in drawn],
        customdata=[numbers[index] for index in drawn],
        mode="lines+markers" if has_order else "markers",
        line={"color": colour, "width": 2},
        marker={"size": 9, "color": colour, "opacity": opacity, "symbol": picture.symbols("circle", drawn)},
        selected={"marker": {"opacity": opacity}},
        unselected={"marker": {"opacity": opacity}},
        hovertext=[picture.hover(index) for index in drawn],
        hoverinfo="text",
        showlegend=False,
    )
    _scale_linearly(figure, picture, drawn)
    bend = picture.knee
    if bend is not None:
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
    _mark_plateau(figure, picture)
    _mark_infeasible(figure, picture, points)
    figure.update_xaxes(**_axis_options(axis))
    figure.update_yaxes(title_text=picture.label, rangemode="tozero", **IN_FULL)
    return figure


def _mark_plateau(figure: go.Figure, picture: Picture) -> None:
    """Draw a wide line along the counts between which nothing is gained, with their name in its middle."""
    plateau, axis = picture.plateau, picture.spec.axes[0]
    if plateau is None:
        return
    numbers = [i for i in range(plateau.first, plateau.last + 1) if picture.value((i,)) is not None]
    first, last = (as_given(float(_place(axis, i))) for i in (numbers[0], numbers[-1]))
    figure.add_scatter(
        x=[_place(axis, i) for i in numbers],
        y=[picture.value((i,)) for i in numbers],
        mode="lines+text",
        line={"color": THEMES[picture.theme].transfer, "width": 7},
        opacity=0.6,
        text=[f"plateau {first}–{last}" if i == len(numbers) // 2 else "" for i in range(len(numbers))],
        textposition="bottom center",
        textfont={"color": ink(picture.theme), "size": 14},
        hoverinfo="skip",
        showlegend=False,
    )


def _scale_linearly(figure: go.Figure, picture: Picture, drawn: Sequence[Index]) -> None:
    """Draw what the first point would yield on more accelerators if nothing were lost."""
    axis = picture.spec.axes[0]
    is_count = axis.quantity is Quantity.ACCELERATORS
    first = next((index for index in drawn if is_count and _place(axis, index[0]) > 0), None)
    if first is None or first == drawn[-1] or picture.measure is not Measure.THROUGHPUT:
        return
    rate = (picture.value(first) or 0.0) / float(_place(axis, first[0]))
    places = [_place(axis, first[0]), _place(axis, drawn[-1][0])]
    figure.add_scatter(
        x=places,
        y=[rate * place for place in places],
        mode="lines",
        line={"color": ink(picture.theme), "width": 1.2, "dash": "dot"},
        opacity=0.7,
        name=f"{axis.text(first[0])}, scaled linearly",
        hoverinfo="skip",
        showlegend=True,
    )


def _mark_infeasible(figure: go.Figure, picture: Picture, points: Sequence[Index]) -> None:
    """Cross out the values of the axis at which nothing fits."""
    axis = picture.spec.axes[0]
    nothing = [index for index in points if picture.is_infeasible(index)]
    if nothing:
        figure.add_scatter(
            x=[_tick(axis, index[0]) if axis.quantity in NAMED else _place(axis, index[0]) for index in nothing],
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
    """Cells of equal size whatever their values, so that each can be hit; contour lines or steps between them."""
    spec, theme = picture.spec, picture.theme
    across, up = spec.axes
    columns, rows = range(len(across.values)), range(len(up.values))
    values = [[picture.value((i, j)) for i in columns] for j in rows]
    known = [value for row in values for value in row if value is not None]
    figure = empty_figure(theme)
    rim = 1 if max(len(columns), len(rows)) <= MOST_WITH_RIMS else 0
    figure.add_heatmap(  # beneath all: what is not solved yet, and where nothing fits
        z=[[1 if picture.is_infeasible((i, j)) else 0 for i in columns] for j in rows],
        colorscale=[[0, NOT_YET[theme]], [1, GREY[theme]]],
        zmin=0,
        zmax=1,
        showscale=False,
        hoverinfo="skip",
        xgap=rim,
        ygap=rim,
    )
    scale = CellScale(min(known), max(known), picture.measure is Measure.TIME) if known else None
    if scale is not None:
        ticks = scale.ticks if scale.is_logarithmic else ()
        bar: dict[str, Any] = {"tickvals": [scale.z(tick) for tick in ticks], "ticktext": [number(t, 3) for t in ticks]}
        figure.add_heatmap(
            z=[[None if value is None else scale.z(value) for value in row] for row in values],
            colorscale=scale.colours,
            colorbar={
                # On two lines: on one it is longer than the bar, and cut off.
                "title": {"text": f"{picture.label}<br>darker is better", "side": "right", "font": {"size": 12}},
                "thickness": 14,
                **(bar if ticks else IN_FULL),
            },
            hoverinfo="skip",
            xgap=rim,
            ygap=rim,
        )
        if picture.has_iso_lines:
            _draw_contours(figure, values, scale)
        elif picture.has_steps:
            _draw_steps(figure, picture, values, scale)
    if scale is not None:
        _write_numbers(figure, picture, scale)
    _hatch(figure, picture)
    points = sorted(spec.points())
    add_points(
        figure,
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
            title_text=escape(axis.varied.label),
            tickvals=_ticks(axis),
            ticktext=[_tick(axis, i) for i in _ticks(axis)],
            showgrid=False,
            zeroline=False,
            range=[-0.5, len(axis.values) - 0.5],
        )
    return figure


def _draw_contours(figure: go.Figure, values: Sequence[Sequence[float | None]], scale: CellScale) -> None:
    """Draw a line of equal value with its number for each level, from cell to cell."""
    for level in scale.levels:
        for colour, width in ((LIGHT_TEXT, 3.2), (DARK_TEXT, 1.4)):  # with a light rim, to be seen on every fill
            figure.add_contour(
                z=values,
                contours={
                    "type": "constraint",
                    "operation": "=",
                    "value": level,
                    "showlabels": colour == DARK_TEXT,
                    "labelfont": {"color": DARK_TEXT, "size": 12, "shadow": f"0 0 4px {LIGHT_TEXT}", "weight": 600},
                },
                line={"color": colour, "width": width, "smoothing": 0.6},
                showlegend=False,
                hoverinfo="skip",
            )


def _draw_steps(
    figure: go.Figure, picture: Picture, values: Sequence[Sequence[float | None]], scale: CellScale
) -> None:
    """Draw where values pass a level along the borders of cells: between two counts there is nothing to be smooth."""
    borders = {line for level in scale.levels for line in steps(values, level)}
    xs: list[float | None] = []
    ys: list[float | None] = []
    for x0, y0, x1, y1 in sorted(borders):
        xs += [x0, x1, None]
        ys += [y0, y1, None]
    for colour, width in ((LIGHT_TEXT, 3.6), (DARK_TEXT, 1.6)):
        figure.add_scatter(
            x=xs,
            y=ys,
            mode="lines",
            line={"color": colour, "width": width},
            hoverinfo="skip",
            showlegend=colour == ink(picture.theme),
            name="passes " + ", ".join(number(level, 3) for level in scale.levels),
        )


def _write_numbers(figure: go.Figure, picture: Picture, scale: CellScale) -> None:
    """Write values into their cells, in the colour that reads best on each; without room only what is not proven."""
    has_numbers = picture.has_numbers
    cells = [
        (index, value)
        for index in picture.spec.points()
        if (value := picture.value(index)) is not None and (has_numbers or picture.is_unproven(index))
    ]
    if not cells:
        return
    digits = digits_to_tell_apart(scale.least, scale.most)
    add_points(
        figure,
        x=[index[0] for index, _ in cells],
        y=[index[1] for index, _ in cells],
        textposition="middle center",
        text=[picture.text(index, digits) if has_numbers else MARK for index, _ in cells],
        mode="text",
        textfont={"size": 12, "color": [text_on(scale.fill(value)) for _, value in cells]},
        hoverinfo="skip",
        showlegend=False,
    )


def digits_to_tell_apart(least: float, most: float) -> int:
    """Return in how many digits values are written that lie between two, so that cells differ as their colours do.

    >>> digits_to_tell_apart(2.0, 9.0), digits_to_tell_apart(10.95, 11.08), digits_to_tell_apart(5.0, 5.0)
    (3, 4, 3)
    """
    share = (most - least) / most if most > least else 1.0
    return min(MOST_DIGITS, max(3, 2 - math.floor(math.log10(share))))


def _hatch(figure: go.Figure, picture: Picture) -> None:
    """Hatch each cell in which nothing fits: grey alone could be a value."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for i, j in picture.spec.points():
        if picture.is_infeasible((i, j)):
            xs += [i - 0.5, i + 0.5, i + 0.5, i - 0.5, i - 0.5, None]
            ys += [j - 0.5, j - 0.5, j + 0.5, j + 0.5, j - 0.5, None]
    if xs:
        figure.add_scatter(
            x=xs,
            y=ys,
            mode="lines",
            line={"width": 0},
            fill="toself",
            fillcolor=GREY[picture.theme],
            fillpattern={
                "shape": "/",
                "size": 9,
                "solidity": 0.12,
                "fgcolor": ink(picture.theme),
                "bgcolor": GREY[picture.theme],
            },
            hoverinfo="skip",
            name="infeasible",
            showlegend=True,
        )


def series_colour(theme: ThemeName) -> str:
    """The colour of points."""
    return ACCELERATOR_COLOURS[0] if theme == "light" else ACCELERATOR_COLOURS[3]


def add_points(figure: go.Figure, **trace: Any) -> None:
    """Add points or texts; thousands of them are drawn by WebGL, as SVG they would take seconds."""
    (figure.add_scattergl if len(trace["x"]) > MOST_AS_SVG else figure.add_scatter)(**trace)


def empty_figure(theme: ThemeName, height: int = HEIGHT) -> go.Figure:
    """Return a figure without anything in it, in the colours and sizes of the page."""
    figure = go.Figure()
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        clickmode="event+select",
        dragmode=False,
        font={"color": ink(theme), "size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        hoverlabel={
            "align": "left",
            "font": {"color": ink(theme), "size": 13},
            "bgcolor": NOT_YET[theme],
            "bordercolor": ink(theme),
        },
        hoverdistance=-1,  # the nearest point, however far: the whole of a cell is one
    )
    # Said of both axes again, or Streamlit's theme would grey them below a readable contrast.
    for update in (figure.update_xaxes, figure.update_yaxes):
        update(title_font={"color": ink(theme), "size": 13}, tickfont={"color": ink(theme), "size": 12})
    return figure


def _axis_options(axis: Axis) -> dict[str, Any]:
    options: dict[str, Any] = {"title_text": escape(axis.varied.label)}
    if axis.quantity in NAMED:
        ticks = [_tick(axis, i) for i in range(len(axis.values))]
        return {**options, "type": "category", "categoryorder": "array", "categoryarray": ticks}
    options["tickvals"] = [_place(axis, i) for i in _ticks(axis)]
    options["ticktext"] = [_tick(axis, i) for i in _ticks(axis)]
    # Of all values, or the axis would jump while points arrive.
    low, high = (float(_place(axis, i)) for i in (0, -1))
    if axis.is_logarithmic:
        low, high = math.log10(low), math.log10(high)
        options["type"] = "log"
    margin = 0.04 * (high - low) or 1.0
    return {**options, "range": [low - margin, high + margin]}


def _place(axis: Axis, i: int) -> Any:
    return axis.quantity.shown(axis.values[i])


def _ticks(axis: Axis) -> list[int]:
    """Return which values are written at an axis: all, or where these are many every so many."""
    return list(range(0, len(axis.values), math.ceil(len(axis.values) / MOST_TICKS)))


def _tick(axis: Axis, i: int) -> str:
    value = _place(axis, i)
    if not isinstance(value, str):
        return as_given(value)
    return escape(value).replace("+", "<br>+ ")  # a kind of devices per line
