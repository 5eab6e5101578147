"""The load of every device as stacked bars: a table in HTML, there at once and in the page's own colours."""

from html import escape

from explorer.picture.palette import THEMES, ThemeName, device_colour
from solvers.analysis.load_parts import LoadParts, load_parts
from solvers.model.costs import SplitCosts
from solvers.model.deployment import Deployment
from solvers.quantities import milliseconds

PARTS = {"receive": "Receive", "compute": "Compute", "send": "Send", "sync": "Gradients of replicas"}
"""The parts of a load, in the order they have in a bar; each is a field of `LoadParts` with "_ms"."""
SAME_LINE = 1e-3
"""A bound nearer to max-load than this part of it is not drawn: the two lines would be one."""

STYLE = """<style>
.loads { border-collapse: collapse; width: 100%; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.loads caption { caption-side: bottom; text-align: left; font-size: 0.8rem; padding-top: 0.4rem; }
.loads caption span { margin-right: 1.1rem; white-space: nowrap; }
.loads thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.loads th, .loads td { padding: 0.16rem 0; border: 0; font-weight: 400; text-align: left; white-space: nowrap; }
.loads td.bar { width: 100%; padding: 0.16rem 0.7rem; }
.loads td.bar > div { position: relative; display: flex; height: 1.05rem;
  border-right: 2px solid currentColor; }
.loads td.bar > div > b { position: absolute; top: -0.16rem; bottom: -0.16rem; border-left: 2px dotted currentColor; }
.loads td.number { text-align: right; }
.loads i { display: block; box-sizing: border-box; height: 100%; }
.loads caption i { display: inline-block; width: 1.1rem; height: 0.7rem; margin-right: 0.35rem; }
.loads .compute { background: var(--fill, gray); }
.loads .receive { --angle: 45deg; }
.loads .send { --angle: -45deg; }
.loads .sync { --angle: 90deg; }
.loads .receive, .loads .send, .loads .sync { border: 1px solid var(--transfer);
  background: repeating-linear-gradient(var(--angle), var(--transfer) 0 1px, transparent 1px 5px); }
.loads caption i.bound { border-left: 2px dotted currentColor; width: 0; }
</style>"""


def load_bars(
    costs: SplitCosts,
    deployment: Deployment,
    lower_bound_ms: float | None,
    theme: ThemeName = "light",
    least_scale_ms: float = 0.0,
) -> str:
    """Return compute and transfer time per micro-batch of each device in ms as an HTML table, a bar a device.

    A bar is as long as the load; all are on one scale that ends at max-load, or at `least_scale_ms` where that is more,
    so that two tables can be compared. Compute has the colour the device has
    everywhere; transfers are hatched. What runs beside something longer is not part of a load, and not drawn. The
    proven lower bound is a dotted line through all bars.
    """
    scale_ms = max(costs.max_load_ms, least_scale_ms, 1e-300)
    bound_ms = lower_bound_ms
    if bound_ms is not None and not 0 < bound_ms < costs.max_load_ms * (1 - SAME_LINE):
        bound_ms = None
    loads = [load_parts(device) for device in costs.devices]
    line = "" if bound_ms is None else f'<b style="left: {100 * bound_ms / scale_ms:.2f}%"></b>'
    rows = "".join(
        f'<tr><th scope="row">{escape(deployment.device_name(load.device))}</th>'
        f'<td class="bar"><div style="--fill: {device_colour(load.device, deployment).forward.fill}">'
        f"{_segments(load, scale_ms)}{line}</div></td>"
        f'<td class="number">{escape(milliseconds(load.load_ms))}</td></tr>'
        for load in loads
    )
    keys = [f'<span><i class="{part}"></i>{word}</span>' for part, word in PARTS.items() if _is_there(part, loads)]
    if bound_ms is not None:
        keys.append(f'<span><i class="bound"></i>Proven bound {escape(milliseconds(bound_ms))}</span>')
    return (
        f'{STYLE}<table class="loads" style="--transfer: {THEMES[theme].transfer}"><caption>{"".join(keys)}</caption>'
        '<thead><tr><th scope="col">Device</th><th scope="col">Parts of the load</th><th scope="col">Load</th></tr>'
        f"</thead><tbody>{rows}</tbody></table>"
    )


def _segments(load: LoadParts, scale_ms: float) -> str:
    """Return the parts of one bar; each says in words what it is to whoever points at it or hears it read."""
    parts = []
    for part, word in PARTS.items():
        time_ms = _time_ms(load, part)
        if time_ms > 0:
            said = escape(f"{word} {milliseconds(time_ms)}")
            width = f"{100 * time_ms / scale_ms:.3f}%"
            parts.append(f'<i class="{part}" role="img" aria-label="{said}" title="{said}" style="width: {width}"></i>')
    return "".join(parts)


def _is_there(part: str, loads: list[LoadParts]) -> bool:
    return any(_time_ms(load, part) > 0 for load in loads)


def _time_ms(load: LoadParts, part: str) -> float:
    time_ms: float = getattr(load, f"{part}_ms")
    return time_ms
