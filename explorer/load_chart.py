"""The loads of all devices as stacked bars, with the lines that matter: max-load and proven lower bound."""

import plotly.graph_objects as go

from explorer.palette import DARK_TEXT, LIGHT_TEXT, THEMES, ThemeName, device_colours
from solvers.costs import SplitCosts
from solvers.deployment import Deployment


def load_figure(
    costs: SplitCosts, deployment: Deployment, lower_bound_ms: float | None, theme: ThemeName = "light"
) -> go.Figure:
    """Return compute, receive and send time per sample of each device in ms, one bar a device.

    Compute has the colour the device has everywhere; transfers are hatched.
    """
    names = [deployment.device_name(device.device) for device in costs.devices]
    colours = [colour.forward.fill for colour in device_colours(deployment)]
    transfer = THEMES[theme].transfer
    parts = (
        ("Compute", [d.compute_ms for d in costs.devices], ""),
        ("Receive", [d.receive_ms for d in costs.devices], "/"),
        ("Send", [d.send_ms for d in costs.devices], "\\"),
    )
    ink = LIGHT_TEXT if theme == "dark" else DARK_TEXT
    figure = go.Figure()
    for name, times, pattern in parts:
        figure.add_bar(
            y=names,
            x=[time or None for time in times],  # a bar of length 0 would still draw its outline
            name=name,
            orientation="h",
            marker={
                "color": colours if not pattern else "rgba(128,128,128,0.15)",
                "pattern": {"shape": pattern, "fgcolor": transfer, "size": 6},
                "line": {"width": 1 if pattern else 0, "color": transfer},
            },
            hovertemplate="%{y}: " + name.lower() + " %{x:.4g} ms<extra></extra>",
        )
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
        height=max(220, 90 + 30 * len(names)),
        margin={"l": 0, "r": 10, "t": 30, "b": 40},
        legend={"orientation": "h", "y": -0.18, "traceorder": "normal"},
        xaxis={"ticksuffix": " ms", "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
        bargap=0.35,
    )
    return figure
