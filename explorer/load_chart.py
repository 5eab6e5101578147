"""The loads of all devices as stacked bars, with the lines that matter: max-load and proven lower bound."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from explorer.palette import DARK_TEXT, LIGHT_TEXT, THEMES, ThemeName, device_colours
from solvers.costs import SplitCosts
from solvers.deployment import Deployment
from solvers.load_parts import load_parts


@dataclass(frozen=True, slots=True)
class NamedLoads:
    """The loads of one plan under its name, for a figure of several."""

    name: str
    costs: SplitCosts
    deployment: Deployment


def load_figure(
    costs: SplitCosts, deployment: Deployment, lower_bound_ms: float | None, theme: ThemeName = "light"
) -> go.Figure:
    """Return compute, receive and send time per sample of each device in ms, one bar a device that ends at its load.

    Compute has the colour the device has everywhere; transfers are hatched. What runs beside something longer is not
    part of a load, and not drawn.
    """
    figure = go.Figure()
    _add_loads(figure, costs, deployment, theme)
    ink = _ink(theme)
    figure.add_vline(
        x=costs.max_load_ms,
        line={"width": 2, "color": ink},
        annotation={"text": f"max-load {costs.max_load_ms:.4g} ms", "yanchor": "bottom"},
        annotation_position="top",
    )
    if lower_bound_ms is not None and lower_bound_ms < costs.max_load_ms * (1 - 1e-3):
        figure.add_vline(
            x=lower_bound_ms,
            line={"width": 2, "dash": "dot", "color": ink},
            annotation={"text": f"proven bound {lower_bound_ms:.4g} ms", "yanchor": "bottom"},
            annotation_position="top left",
        )
    figure.update_layout(
        barmode="stack",
        height=max(220, 90 + 30 * len(costs.devices)),
        margin={"l": 0, "r": 10, "t": 30, "b": 40},
        legend={"orientation": "h", "y": -0.18, "traceorder": "normal"},
        xaxis={"ticksuffix": " ms", "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
        bargap=0.35,
    )
    return figure


def compared_loads(plans: Sequence[NamedLoads], theme: ThemeName = "light") -> go.Figure:
    """Return the loads of several plans below each other on one axis of time, each with its max-load as a line."""
    heights = [len(plan.costs.devices) + 1 for plan in plans]
    figure = make_subplots(
        rows=len(plans),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=min(0.12, 1.4 / sum(heights)),
        subplot_titles=[f"{escape(plan.name)}: {plan.costs.max_load_ms:.4g} ms" for plan in plans],
    )
    for row, plan in enumerate(plans, start=1):
        _add_loads(figure, plan.costs, plan.deployment, theme, row=row)
        figure.add_vline(x=plan.costs.max_load_ms, line={"width": 2, "color": _ink(theme)}, row=row, col=1)
    figure.update_layout(
        barmode="stack",
        height=80 + 26 * sum(heights),
        margin={"l": 0, "r": 10, "t": 30, "b": 50},
        legend={"orientation": "h", "y": -40 / (26 * sum(heights)), "yanchor": "top", "traceorder": "normal"},
        bargap=0.3,
    )
    figure.update_xaxes(ticksuffix=" ms", rangemode="tozero")
    figure.update_yaxes(autorange="reversed")
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    return figure


def _add_loads(
    figure: go.Figure, costs: SplitCosts, deployment: Deployment, theme: ThemeName, row: int | None = None
) -> None:
    """Add the bars of one plan, to a row of a figure with several."""
    names = [deployment.device_name(device.device) for device in costs.devices]
    colours = [colour.forward.fill for colour in device_colours(deployment)]
    transfer = THEMES[theme].transfer
    loads = [load_parts(device) for device in costs.devices]
    parts = [
        ("Compute", [load.compute_ms for load in loads], ""),
        ("Receive", [load.receive_ms for load in loads], "/"),
        ("Send", [load.send_ms for load in loads], "\\"),
    ]
    if any(load.sync_ms for load in loads):
        parts.append(("Gradients of replicas", [load.sync_ms for load in loads], "x"))
    place = {} if row is None else {"row": row, "col": 1}
    for name, times, pattern in parts:
        figure.add_bar(
            y=names,
            x=[time or None for time in times],  # a bar of length 0 would still draw its outline
            name=name,
            orientation="h",
            showlegend=row in (None, 1),
            marker={
                "color": colours if not pattern else "rgba(128,128,128,0.15)",
                "pattern": {"shape": pattern, "fgcolor": transfer, "size": 6},
                "line": {"width": 1 if pattern else 0, "color": transfer},
            },
            hovertemplate="%{y}: " + name.lower() + " %{x:.4g} ms<extra></extra>",
            **place,
        )


def _ink(theme: ThemeName) -> str:
    return LIGHT_TEXT if theme == "dark" else DARK_TEXT
