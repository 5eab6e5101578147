"""The headline numbers of several plans as one table: a column a plan, the best of each row in bold."""

from collections.abc import Callable, Sequence

from explorer.elements.html_table import Cell, html_table
from explorer.state.kept_plans import letter
from explorer.state.records import KeptPlan, Plan
from explorer.words.wording import VALUE_LABELS, device_counts, how_found, objective_text, proof
from solvers.analysis.load_parts import load_parts
from solvers.model.costs import Objective, SplitCosts, objective_value, split_costs
from solvers.model.deployment import Deployment
from solvers.quantities import UNKNOWN, binary_size, binary_unit, milliseconds, number, percent

SAME = 1e-9
WORDS = "number quiet words"


def headline_html(kept: Sequence[KeptPlan], reference: KeptPlan) -> str:
    """Return the table as HTML. Values are those of the reference's objective, also for plans found for another."""
    objective = reference.plan.question.objective
    costs = {one.number: split_costs(one.plan.graph, one.plan.deployment, one.plan.split) for one in kept}
    values = {one.number: _value(one.plan, objective) for one in kept}
    memory = [_most_memory(costs[one.number]) for one in kept]
    # That of the pictures below, whose devices have their limits beside what they hold.
    unit = binary_unit([*memory, *(limit for one in kept for limit in _limits(one.plan.deployment))])
    rows = [
        _row(VALUE_LABELS[objective], [milliseconds(values[one.number]) for one in kept], list(values.values())),
        [
            Cell(f"Compared with {letter(tuple(kept), reference)}"),
            *(_against(values[one.number], values[reference.number]) for one in kept),
        ],
        [Cell("Proven of it"), *(Cell(_proof(one.plan, objective), WORDS) for one in kept)],
        _numbers("Transfers of the slowest device", kept, costs, _slowest_transfers, milliseconds),
        _numbers("Cut tensors", kept, costs, lambda c: float(len(c.cut_tensors)), number),
        _row("Most memory on a device", [binary_size(size, unit) for size in memory], memory),
        [Cell("Devices"), *(Cell(device_counts(one.plan.question.deployment), WORDS) for one in kept)],
        [Cell("Found by"), *(Cell(how_found(one.plan.result), WORDS) for one in kept)],
    ]
    graphs = {one.plan.loaded.graph.digest for one in kept}
    if len(graphs) > 1:
        rows.insert(0, [Cell("Graph"), *(Cell(one.plan.loaded.origin, WORDS) for one in kept)])
    header = [Cell(""), *(Cell(f"{letter(tuple(kept), one)}: {one.name}", "number") for one in kept)]
    return html_table("Headline numbers of the kept plans", header, rows, width_rem=15 + 16 * len(kept))


def _value(plan: Plan, objective: Objective) -> float | None:
    if objective is Objective.GPIPE and not plan.graph.is_training:
        return None
    return objective_value(plan.graph, plan.deployment, plan.split, objective)


def _row(label: str, texts: Sequence[str], values: Sequence[float | None]) -> list[Cell]:
    """A row whose least value is in bold, unless all are the same."""
    known = [value for value in values if value is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    return [
        Cell(label),
        *(
            Cell(text, "number strong" if value is not None and value <= least * (1 + SAME) < most else "number")
            for text, value in zip(texts, values, strict=True)
        ),
    ]


def _numbers(
    label: str,
    kept: Sequence[KeptPlan],
    costs: dict[int, SplitCosts],
    of: Callable[[SplitCosts], float],
    text: Callable[[float], str],
) -> list[Cell]:
    values = [of(costs[one.number]) for one in kept]
    return _row(label, [text(value) for value in values], values)


def _against(value: float | None, reference: float | None) -> Cell:
    if value is None or not reference:
        return Cell(UNKNOWN, "number quiet")
    change = value / reference - 1
    if abs(change) <= SAME:
        return Cell("the same", "number quiet")
    return Cell(f"{percent(abs(change))} {'less' if change < 0 else 'more'}", "number")


def _proof(plan: Plan, objective: Objective) -> str:
    if plan.question.objective is not objective:
        return f"found for another objective, {objective_text(plan.question.objective)}"
    return proof(plan.result)


def _slowest_transfers(costs: SplitCosts) -> float:
    if not costs.devices:
        return 0.0
    return load_parts(costs.devices[costs.bottleneck]).transfer_ms  # the part of the load that is paid for them


def _most_memory(costs: SplitCosts) -> float:
    return max((device.memory_bytes for device in costs.devices), default=0.0)


def _limits(deployment: Deployment) -> list[float | None]:
    return [deployment.capacity_bytes(d) for d in range(deployment.num_devices)]
