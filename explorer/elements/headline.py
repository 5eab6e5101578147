"""What is shown of a plan beside the linked picture: headline numbers, tables, downloads."""

import hashlib
from enum import StrEnum

import streamlit as st

from explorer.picture.palette import ThemeName
from explorer.state.records import Plan
from explorer.words.wording import VALUE_LABELS, how_found, on_one_line, plain, proof, unbroken
from solvers.analysis.load_parts import load_parts
from solvers.model.costs import Objective, SplitCosts, single_sample_latency
from solvers.model.micro_batch import MicroBatch, throughput_text
from solvers.quantities import UNKNOWN, factor, milliseconds, number, percent


class Standing(StrEnum):
    """What the numbers of a plan are: the answer to what is asked, the best so far, or an answer to earlier inputs."""

    FINAL = "final"
    SO_FAR = "so-far"
    STALE = "stale"


def standing_html(plan: Plan, standing: Standing) -> str:
    """Return what the headline says of a plan for programs that read the page: state, value, bound and question.

    It takes no room, and the numbers beside it are pale where it says so; the style of both is in `explorer.app`.
    """
    result, question = plan.result, hashlib.sha256(repr(plan.question).encode()).hexdigest()[:12]
    value, bound = (None if x is None else repr(float(x)) for x in (result.value_ms, result.lower_bound_ms))
    data = {"state": standing, "value-ms": value, "bound-ms": bound, "status": result.status, "question": question}
    attributes = " ".join(f'data-{name}="{text or ""}"' for name, text in data.items())
    return f'<span class="plan-standing" hidden {attributes}></span>'


def headline(plan: Plan, costs: SplitCosts, standing: Standing) -> None:
    """Show the numbers of a plan in one row: value, throughput, bound, bottleneck, speed-up.

    Of a plan for earlier inputs nothing is called optimal, and its numbers are pale. The value of the best plan so far
    has a sign that says that it may yet fall.
    """
    result = plan.result
    value = result.value_ms
    is_stale = standing is Standing.STALE
    at_most, at_least = ("≤ ", "≥ ") if standing is Standing.SO_FAR else ("", "")
    found = f"{'for earlier inputs · ' if is_stale else ''}{how_found(result)}"
    row = st.container(key="headline")
    row.html(standing_html(plan, standing))
    columns = row.columns([1.42, 1.5, 1.1, 1.15, 1.1])
    columns[0].metric(
        VALUE_LABELS[result.objective],
        f"{at_most}{milliseconds(value)}",
        unbroken(found),
        delta_color="off",
        delta_arrow="off",
        help=plain(_value_help(plan)),
    )
    # A split found for low latency has a throughput too: that of the same split run as a pipeline.
    pace_ms = costs.gpipe_ms if result.objective is Objective.GPIPE else costs.max_load_ms
    held = plan.graph.micro_batch
    columns[1].metric(
        "Micro-batches/s",
        f"{at_least}{number(1000 / pace_ms)}" if pace_ms else UNKNOWN,
        _beside_throughput(plan, 1000 / pace_ms if pace_ms else None),
        delta_color="off",
        delta_arrow="off",
        help=plain(_throughput_help(held, 1000 / pace_ms if pace_ms else None)),
    )
    columns[2].metric(
        "Proven lower bound",
        milliseconds(result.lower_bound_ms),
        "for earlier inputs" if is_stale else unbroken(proof(result)),
        delta_color="off",
        delta_arrow="off",
        help=plain(f"No {result.family.named} split is faster than this. Found by: {how_found(result)}."),
    )
    busiest = costs.devices[costs.bottleneck]
    transfers = load_parts(busiest).transfer_ms  # what hides behind compute, or behind the other way, costs nothing
    columns[3].metric(
        "Bottleneck",
        plain(plan.deployment.device_name(costs.bottleneck)),
        unbroken(f"{milliseconds(busiest.load_ms)}, {percent(transfers / busiest.load_ms)} transfers")
        if busiest.load_ms
        else None,
        delta_color="off",
        delta_arrow="off",
        help="The device with the largest load: compute plus transfers per micro-batch.",
    )
    alone_ms, alone = _one_accelerator(plan)
    supported = all(node.runs_on_accelerator for node in plan.graph.nodes)
    if value and supported:
        columns[4].metric(
            "Speed-up",
            factor(alone_ms / value),
            f"one {plain(alone)}{_too_large(plan, alone)}",
            delta_color="off",
            delta_arrow="off",
            help=f"All nodes on one {plain(alone)}, the fastest, would take {plain(milliseconds(alone_ms))} with "
            f"enough memory. With a CPU the speed-up may exceed the number of accelerators.",
        )


def _beside_throughput(plan: Plan, passes_per_s: float | None) -> str | None:
    """Say how many samples a throughput is, and the latency of one micro-batch, which is not the time between two."""
    held, parts = plan.graph.micro_batch, []
    if held is not None and passes_per_s:
        parts.append(plain(f"= {held.rate_text(passes_per_s)}"))
    if plan.result.objective is not Objective.LATENCY:
        latency_ms = single_sample_latency(plan.graph, plan.deployment, plan.split)
        parts += [] if latency_ms is None else [on_one_line(plain(f"latency {milliseconds(latency_ms)}"))]
    return " · ".join(parts) or None


def _value_help(plan: Plan) -> str:
    """Say what the value is, what it is not, and how it was found."""
    found = f"Found by: {how_found(plan.result)}."
    if plan.result.objective is Objective.LATENCY:
        return f"From the start of one micro-batch to its end, alone on the devices. {found}"
    latency_ms = single_sample_latency(plan.graph, plan.deployment, plan.split)
    # In the timeline a CPU takes turns with its stages, so that one micro-batch may take longer there.
    on_cpu = ", if nodes on a CPU run as soon as their inputs exist" if any(plan.split.cpus) else ""
    takes = "" if latency_ms is None else f": the latency of one is {milliseconds(latency_ms)}{on_cpu}"
    return f"Between micro-batches that leave the pipeline in steady state. This is not latency{takes}. {found}"


def _throughput_help(held: MicroBatch | None, passes_per_s: float | None) -> str:
    """Say what throughput counts, and how many tokens it is where that is known."""
    said = "Throughput of the pipeline in steady state."
    if held is None:
        return f"{said} The graph does not say what a micro-batch holds (samplesPerMicroBatch)."
    tokens = held.tokens_text(passes_per_s) if passes_per_s else ""
    return f"{said} A micro-batch holds {held.text}{f': {tokens}' if tokens else ''}."


def headline_facts(plan: Plan, costs: SplitCosts) -> str:
    """Return value, throughput and what is proven in one line, for the head of a presentation.

    `plan` is the one that runs, whose costs these are: a looped schedule cuts that of the solver again.
    """
    result = plan.result
    pace_ms = costs.gpipe_ms if result.objective is Objective.GPIPE else costs.max_load_ms
    facts = [f"{VALUE_LABELS[result.objective]} {milliseconds(result.value_ms)}"]
    if pace_ms:
        facts.append(throughput_text(1000 / pace_ms, plan.graph.micro_batch))
    return " · ".join([*facts, proof(result)])


def theme() -> ThemeName:
    """Return which of the two themes the browser shows."""
    return "dark" if st.context.theme.type == "dark" else "light"


def _too_large(plan: Plan, alone: str) -> str:
    """Say that the device compared with cannot hold the model, where it cannot."""
    capacities = [one.memory_bytes for one in plan.deployment.classes if one.name == alone and one.count]
    capacity = capacities[0] if capacities else plan.deployment.memory_bytes
    total = sum(node.memory_bytes for node in plan.graph.nodes)
    return ", too small" if capacity is not None and total > capacity else ""


def _one_accelerator(plan: Plan) -> tuple[float, str]:
    """Return the time of all nodes on one accelerator in ms, and what that is called: the fastest where they differ."""
    if not plan.deployment.classes or not plan.deployment.num_accelerators:
        return sum(node.accelerator_ms for node in plan.graph.nodes), "accelerator"
    return min(
        (sum(device_class.node_ms(node) for node in plan.graph.nodes), device_class.name)
        for device_class in plan.deployment.classes
        if device_class.count
    )
