"""Best plan and proven bound over the time of a solve, as steps: the picture of how a proof closes in.

A Vega chart is updated in place while it ticks; a Plotly chart would be drawn anew each time.
"""

import math
from typing import Any

from explorer.jobs.pool import Snapshot
from explorer.picture.palette import ACCELERATOR_COLOURS, THEMES, ThemeName

INCUMBENT, BOUND = "best plan", "lower bound"
WINDOW = 0.6
"""The chart shows values within this share of the best one; first plans may be many times worse."""


def convergence_rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the steps of both curves: seconds since the start, value in ms, and which of the two it is.

    While the solve runs the last step ends at the next full second, so that the chart does not change at every look.
    """
    now_s = snapshot.seconds if snapshot.state.is_over else float(math.ceil(snapshot.seconds))
    rows: list[dict[str, Any]] = []
    for what in (INCUMBENT, BOUND):
        last = None
        for point in snapshot.history:
            value_ms = point.incumbent_ms if what is INCUMBENT else point.lower_bound_ms
            if value_ms is not None and value_ms != last:
                rows.append({"seconds": point.seconds, "ms": value_ms, "what": what})
                last = value_ms
        if last is not None:
            end_s = max(now_s, rows[-1]["seconds"])
            rows.append({"seconds": end_s, "ms": last, "what": what})
    return rows


def convergence_chart(snapshot: Snapshot, theme: ThemeName) -> dict[str, Any]:
    """Return the Vega-Lite specification for the rows of a snapshot."""
    values = [row["ms"] for row in convergence_rows(snapshot)]
    best = snapshot.incumbent_ms
    scale: dict[str, Any] = {"zero": False}
    if values and best:
        low, high = max(min(values), best * (1 - WINDOW)), min(max(values), best * (1 + WINDOW))
        if low < high:
            margin = 0.06 * (high - low)
            scale = {"zero": False, "nice": False, "domain": [low - margin, high + margin]}
    colours = [ACCELERATOR_COLOURS[0] if theme == "light" else ACCELERATOR_COLOURS[3], THEMES[theme].transfer]
    axis = {"title": None, "labelFontSize": 11}
    return {
        "mark": {"type": "line", "interpolate": "step-after", "clip": True, "strokeWidth": 2},
        "background": "transparent",  # the strip is not as dark as the page
        "padding": {"left": 0, "right": 4, "top": 2, "bottom": 0},
        "encoding": {
            "x": {
                "field": "seconds",
                "type": "quantitative",
                "axis": {**axis, "tickCount": 6, "labelExpr": "datum.label + ' s'"},
            },
            "y": {
                "field": "ms",
                "type": "quantitative",
                "scale": scale,
                "axis": {**axis, "tickCount": 3, "format": ".4~g", "labelExpr": "datum.label + ' ms'"},
            },
            "color": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": [INCUMBENT, BOUND], "range": colours},
                "legend": {"orient": "right", "title": None, "symbolType": "stroke", "labelFontSize": 11},
            },
            "strokeDash": {
                "field": "what",
                "type": "nominal",
                "scale": {"domain": [INCUMBENT, BOUND], "range": [[1, 0], [4, 3]]},
            },
            "tooltip": [
                {"field": "what", "title": " "},
                {"field": "ms", "format": ".5~g", "title": "ms"},
                {"field": "seconds", "format": ".2f", "title": "s"},
            ],
        },
    }
