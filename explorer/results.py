"""What is shown of a plan beside the linked picture: headline numbers, tables, downloads."""

import streamlit as st

from explorer.palette import ThemeName
from explorer.session import Plan
from explorer.wording import VALUE_LABELS, how_found, milliseconds, plain, proof, share
from solvers.costs import Objective, SplitCosts
from solvers.load_parts import load_parts


def headline(plan: Plan, costs: SplitCosts, *, is_stale: bool) -> None:
    """Show the numbers of a plan in one row: value, throughput, bound, bottleneck, speed-up.

    Of a plan for earlier inputs nothing is called optimal.
    """
    result = plan.result
    value = result.value_ms
    columns = st.container(key="headline").columns([1.3, 1.0, 1.15, 1.3, 1.15])
    columns[0].metric(
        VALUE_LABELS[result.objective],
        milliseconds(value),
        how_found(result),
        delta_color="off",
        delta_arrow="off",
        help=f"Below it method, splits allowed and time of the solve: {how_found(result)}.",
    )
    # A split found for low latency has a throughput too: that of the same split run as a pipeline.
    pace_ms = costs.gpipe_ms if result.objective is Objective.GPIPE else costs.max_load_ms
    columns[1].metric(
        "Throughput", f"{1000 / pace_ms:,.4g} /s" if pace_ms else "–", help="Samples per second when pipelined."
    )
    columns[2].metric(
        "Proven lower bound",
        milliseconds(result.lower_bound_ms),
        "for earlier inputs" if is_stale else proof(result),
        delta_color="off",
        delta_arrow="off",
        help=f"No {result.family} split is faster than this. Found by: {how_found(result)}.",
    )
    busiest = costs.devices[costs.bottleneck]
    transfers = load_parts(busiest).transfer_ms  # what hides behind compute, or behind the other way, costs nothing
    columns[3].metric(
        "Bottleneck",
        plain(plan.deployment.device_name(costs.bottleneck)),
        f"{milliseconds(busiest.load_ms)}, {share(transfers / busiest.load_ms)} transfers" if busiest.load_ms else None,
        delta_color="off",
        delta_arrow="off",
        help="The device with the largest load: compute plus transfers per sample.",
    )
    alone_ms, alone = _one_accelerator(plan)
    supported = all(node.runs_on_accelerator for node in plan.graph.nodes)
    if value and supported:
        columns[4].metric(
            "Speed-up",
            f"{alone_ms / value:.2f} ×",
            f"one {plain(alone)} {milliseconds(alone_ms)}",
            delta_color="off",
            delta_arrow="off",
            help="Against all nodes on one accelerator, the fastest, with enough memory. With a CPU it may exceed the "
            "accelerators.",
        )


def theme() -> ThemeName:
    """Return which of the two themes the browser shows."""
    return "dark" if st.context.theme.type == "dark" else "light"


def _one_accelerator(plan: Plan) -> tuple[float, str]:
    """Return the time of all nodes on one accelerator in ms, and what that is called: the fastest where they differ."""
    if not plan.deployment.classes or not plan.deployment.num_accelerators:
        return sum(node.accelerator_ms for node in plan.graph.nodes), "accelerator"
    return min(
        (sum(device_class.node_ms(node) for node in plan.graph.nodes), device_class.name)
        for device_class in plan.deployment.classes
        if device_class.count
    )
