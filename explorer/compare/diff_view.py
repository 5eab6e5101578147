"""What differs between two kept plans: why one is better, the change of every device, and the nodes that moved."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.picture.palette import device_colours
from explorer.state.records import KeptPlan, Plan
from explorer.words.wording import plain
from solvers.analysis.plan_diff import DeviceChange, Placed, PlanDiff, plan_diff
from solvers.analysis.plan_diff_text import diff_text
from solvers.exporters.csv_tables import no_formula
from solvers.model.costs import Objective, split_costs
from solvers.quantities import binary_size, binary_unit, counted, milliseconds, signed

SAME_MS = 1e-9


def show_difference(reference: KeptPlan, other: KeptPlan, first: str, second: str) -> None:
    """Show what the other plan does differently from the reference; of different graphs only that they differ.

    `first` and `second` are the letters of the two.
    """
    st.markdown(f"##### {second} against {first}")
    if reference.plan.graph.node_by_id.keys() != other.plan.graph.node_by_id.keys() or (
        reference.plan.loaded.graph.digest != other.plan.loaded.graph.digest
    ):
        st.caption("They are plans of different graphs: values and loads can be compared, nodes and devices cannot.")
        return
    objective = reference.plan.question.objective
    diff = plan_diff(_placed(reference.plan), _placed(other.plan), objective)
    sentences = diff_text(
        diff,
        first,
        second,
        first_limit=_slowest(reference.plan, objective),
        second_limit=_slowest(other.plan, objective),
    )
    st.markdown(" ".join(map(plain, sentences)))
    st.html(device_changes_html(diff, reference.plan, other.plan, first, second))
    if diff.moved:
        with st.expander(f"{counted(len(diff.moved), 'node').capitalize()} on another device"):
            st.dataframe(
                moved_rows(diff, reference.plan, other.plan), hide_index=True, alt="Nodes that are on another device"
            )


def _placed(plan: Plan) -> Placed:
    return Placed(plan.graph, plan.deployment, plan.split)


def _slowest(plan: Plan, objective: Objective) -> str:
    if objective is not Objective.THROUGHPUT:
        return ""
    return plan.deployment.device_name(split_costs(plan.graph, plan.deployment, plan.split).bottleneck)


def moved_rows(diff: PlanDiff, first: Plan, second: Plan) -> list[dict[str, object]]:
    """Return a row per moved node: its name, number, and its device in either plan.

    Streamlit's table offers itself as a CSV file, and writes text there as it is.
    """
    node = first.graph.node_by_id
    return [
        {
            "Name": no_formula(node[move.node].name or f"node {move.node}"),
            "Node": move.node,
            "From": no_formula(first.deployment.device_name(move.first)),
            "To": no_formula(second.deployment.device_name(move.second)),
            "Accelerator (ms)": node[move.node].accelerator_ms,
        }
        for move in diff.moved
    ]


def device_changes_html(diff: PlanDiff, first: Plan, second: Plan, first_letter: str, second_letter: str) -> str:
    """Return the table of changes per device as HTML: the matched devices, their loads, and what makes the change."""
    labels = [[colour.label for colour in device_colours(plan.deployment)] for plan in (first, second)]
    unit = binary_unit(change.memory_change_bytes for change in diff.devices)
    rows = [_device_row(change, first, second, *labels, memory_unit=unit) for change in diff.devices]
    header = [
        Cell(f"In {first_letter}"),
        Cell(f"In {second_letter}"),
        Cell("Nodes", "number"),
        Cell("Load", "number"),
        Cell("Change", "number"),
        Cell("Compute", "number"),
        Cell("Receive", "number"),
        Cell("Send", "number"),
        Cell("Memory", "number"),
    ]
    return html_table(f"Change of every device from {first_letter} to {second_letter}", header, rows)


def _device_row(
    change: DeviceChange,
    first: Plan,
    second: Plan,
    first_labels: Sequence[str],
    second_labels: Sequence[str],
    *,
    memory_unit: str,
) -> list[Cell]:
    """Return the row of a device; the labels, those of the pictures, name it where there is no room for more."""
    names = [
        Cell("–") if d is None else Cell(plan.deployment.device_name(d), short=labels[d])
        for d, plan, labels in ((change.first, first, first_labels), (change.second, second, second_labels))
    ]
    times = change.change
    arrived, left = change.num_arrived, change.num_left
    moved = " ".join(filter(None, (f"+{arrived}" if arrived else "", f"−{left}" if left else "")))
    return [
        *names,
        Cell(moved or "the same", "number" if moved else "number quiet"),
        Cell(f"{milliseconds(change.first_parts.load_ms)} → {milliseconds(change.second_parts.load_ms)}", "number"),
        _signed(times.load_ms, strong=True),
        _signed(times.compute_ms),
        _signed(times.receive_ms),
        _signed(times.send_ms),
        _signed_size(change.memory_change_bytes, memory_unit),
    ]


def _signed(ms: float, *, strong: bool = False) -> Cell:
    if abs(ms) <= SAME_MS:
        return Cell("0", "number quiet")
    return Cell(signed(ms, milliseconds), "number strong" if strong else "number")


def _signed_size(size_bytes: float, unit: str) -> Cell:
    if size_bytes == 0:
        return Cell("0", "number quiet")
    return Cell(signed(size_bytes, partial(binary_size, unit=unit)), "number")
