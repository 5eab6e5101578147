"""The loads of the devices of several plans as stacked bars on one axis; `load_bars` shows those of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.picture.palette import DARK_TEXT, LIGHT_TEXT, THEMES, ThemeName, device_colours
from explorer.words.wording import shortened
from solvers.analysis.load_parts import load_parts
from solvers.model.costs import SplitCosts
from solvers.model.deployment import Deployment
from solvers.quantities import milliseconds

MOST_OF_A_DEVICE, MOST_OF_A_PLAN = 18, 30
"""Characters of names that leave room for the bars, and for the value, on a phone."""
KEY = "gray"
"""Of compute in the key: that of `load_bars`, and of no device."""


@dataclass(frozen=True, slots=True)
class NamedLoads:
    """The loads of one plan under its name, for a figure of several."""

    name: str
    costs: SplitCosts
    deployment: Deployment


def compared_loads(plans: Sequence[NamedLoads], theme: ThemeName = "light") -> go.Figure:
    """Return the loads of several plans below each other on one axis of time, each with its max-load as a line.

    Compute has the colour the device has everywhere; transfers are hatched. What runs beside something longer is not
    part of a load, and not drawn.
    """
    heights = [len(plan.costs.devices) + 1 for plan in plans]
    figure = make_subplots(
        rows=len(plans),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=min(0.12, 1.4 / sum(heights)),
        subplot_titles=[
            f"{escape(shortened(plan.name, MOST_OF_A_PLAN))}: {milliseconds(plan.costs.max_load_ms)}" for plan in plans
        ],
    )
    for row, plan in enumerate(plans, start=1):
        names = _add_loads(figure, plan.costs, plan.deployment, theme, row=row)
        figure.update_yaxes(
            tickvals=names, ticktext=[escape(shortened(name, MOST_OF_A_DEVICE)) for name in names], row=row
        )
        figure.add_vline(x=plan.costs.max_load_ms, line={"width": 2, "color": _ink(theme)}, row=row, col=1)
    figure.update_layout(
        barmode="stack",
        height=80 + 26 * sum(heights),
        margin={"l": 0, "r": 10, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -40 / (26 * sum(heights)), "yanchor": "top", "traceorder": "normal"},
        bargap=0.3,
    )
    # Streamlit's own grey is read badly on white.
    font = {"color": _ink(theme)}
    figure.update_xaxes(ticksuffix=" ms", rangemode="tozero", tickfont=font)
    figure.update_yaxes(autorange="reversed", tickfont=font)
    figure.update_annotations(x=0, xanchor="left", font={"size": 13, **font})
    return figure


def _add_loads(figure: go.Figure, costs: SplitCosts, deployment: Deployment, theme: ThemeName, row: int) -> list[str]:
    """Add the bars of one plan to a row, and return the names of its devices."""
    names = [deployment.device_name(device.device) for device in costs.devices]
    colours = [colour.forward.fill for colour in device_colours(deployment)]
    transfer = THEMES[theme].transfer
    loads = [load_parts(device) for device in costs.devices]
    parts = [
        ("Receive", [load.receive_ms for load in loads], "\\"),
        ("Compute", [load.compute_ms for load in loads], ""),
        ("Send", [load.send_ms for load in loads], "/"),
    ]
    if any(load.sync_ms for load in loads):
        parts.append(("Gradients of replicas", [load.sync_ms for load in loads], "x"))
    for name, times, pattern in parts:
        if not pattern and row == 1:  # its bars have the colours of devices, its key has none of them
            key = {"name": name, "legendgroup": name, "marker": {"color": KEY}}
            figure.add_bar(y=names, x=[None] * len(names), orientation="h", **key, row=row, col=1)
        figure.add_bar(
            y=names,
            x=[time or None for time in times],  # a bar of length 0 would still draw its outline
            name=name,
            orientation="h",
            legendgroup=name,
            showlegend=row == 1 and bool(pattern),
            marker={
                "color": colours if not pattern else "rgba(128,128,128,0.15)",
                "pattern": {"shape": pattern, "fgcolor": transfer, "size": 6},
                "line": {"width": 1 if pattern else 0, "color": transfer},
            },
            customdata=list(map(milliseconds, times)),
            hovertemplate="%{y}: " + name.lower() + " %{customdata}<extra></extra>",
            row=row,
            col=1,
        )
    return names


def _ink(theme: ThemeName) -> str:
    return LIGHT_TEXT if theme == "dark" else DARK_TEXT
