"""What is said of the hardware that a wanted time needs: a table for people, and a JSON object for programs.

Amounts are rounded to the safe side: what is stated as enough is, and what is stated as not enough is not.
"""

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from solvers.formats.text_table import text_table
from solvers.model.micro_batch import MicroBatch, sample_unit, samples_per_pass
from solvers.model.result import MS_PER_SECOND, passes_per_second
from solvers.quantities import UNKNOWN, above_bound, binary_factor, count, milliseconds, number
from solvers.sweep.axes import Quantity, Varied
from solvers.sweep.need import Need

DIGITS = 4
HEADER = ("One of these", "is enough", "is not enough", "time", "above bound", "what is proven")


def wanted_ms(at_least: float, micro_batch: MicroBatch | None) -> float:
    """Return the time of a micro-batch in ms for a throughput, in what micro-batches hold, else in micro-batches.

    >>> wanted_ms(20.0, None), wanted_ms(20.0, MicroBatch(2, "sequences"))
    (50.0, 100.0)
    """
    return MS_PER_SECOND * samples_per_pass(micro_batch) / at_least


def name(varied: Varied) -> str:
    """Name a quantity at the beginning of a line."""
    if varied.of_class:
        return {Quantity.COUNT: "Number", Quantity.MEMORY: "Memory", Quantity.BANDWIDTH: "Links"}[
            varied.quantity
        ] + f" of {varied.of_class}"
    return {Quantity.ACCELERATORS: "Accelerators", Quantity.MEMORY: "Memory per accelerator"}.get(
        varied.quantity, "Speed of every link"
    )


def stated(varied: Varied, value: float, *, up: bool) -> float:
    """Return an amount rounded to `DIGITS` in the unit it is shown in, up where it is enough and down where it is not.

    >>> stated(Varied(Quantity.MEMORY), 1.23456 * 2**30, up=True) / 2**30
    1.235
    """
    if varied.quantity.is_whole or not value:
        return value
    factor = binary_factor(value) if varied.quantity is Quantity.MEMORY else varied.quantity.traits.factor
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return float(context.create_decimal_from_float(value / factor)) * factor


def least_text(need: Need) -> str:
    """Say how much is enough."""
    if need.least is None:
        return UNKNOWN if need.reason or not need.is_proven else "none"
    if need.is_any:
        return "none needed" if need.varied.quantity is Quantity.MEMORY and not need.least else "any"
    return _amount(need.varied, need.least, up=True)


def refuted_text(need: Need) -> str:
    """Say how much is proven not to be enough."""
    if need.refuted is None:
        return UNKNOWN
    return "any" if need.least is None and need.is_proven else _amount(need.varied, need.refuted, up=False)


def proof_text(need: Need) -> str:
    """Say in a few words what is proven."""
    if need.reason:
        return need.reason
    if need.least is None:
        return "none is enough, proven" if need.is_proven else "no plan so fast was found"
    if need.is_any:
        return "any is enough"
    return "the least, proven" if need.is_proven else "less may be enough"


def need_text(needs: Sequence[Need]) -> str:
    """Return a table for a terminal."""
    rows = [
        (
            name(need.varied),
            least_text(need),
            refuted_text(need),
            milliseconds(None if need.result is None else need.result.value_ms),
            UNKNOWN if need.result is None else above_bound(need.result.value_ms, need.result.lower_bound_ms),
            proof_text(need),
        )
        for need in needs
    ]
    return text_table(HEADER, rows)


def wish_text(limit_ms: float, micro_batch: MicroBatch | None, *, is_rate: bool) -> str:
    """Say what is wanted.

    >>> wish_text(50.0, None, is_rate=True), wish_text(50.0, None, is_rate=False)
    ('At least 20 micro-batches/s, 50 ms per micro-batch', 'At most 50 ms per micro-batch')
    """
    time = f"{milliseconds(limit_ms)} per micro-batch"
    if not is_rate:
        return f"At most {time}"
    rate = MS_PER_SECOND / limit_ms * samples_per_pass(micro_batch)
    return f"At least {number(rate)} {sample_unit(micro_batch)}/s, {time}"


def need_document(need: Need) -> dict[str, Any]:
    """Return the JSON object of an answer: counts, memory in GiB, links in GB/s or multiples; null for what is not."""
    result, unit = need.result, _unit(need.varied)
    return {
        "quantity": str(need.varied),
        "unit": unit,
        "least": None if need.least is None else need.varied.quantity.shown(need.least),
        "not_enough": None if need.refuted is None else need.varied.quantity.shown(need.refuted),
        "proven": need.is_proven,
        "tries": need.num_tries,
        "value_ms": None if result is None else result.value_ms,
        "lower_bound_ms": None if result is None else result.lower_bound_ms,
        "throughput_per_s": None if result is None else passes_per_second(result),
        "method": None if result is None else result.method,
        "runtime_s": None if result is None else round(result.runtime_s, 6),
        "message": proof_text(need),
    }


def _unit(varied: Varied) -> str:
    return {Quantity.MEMORY: "GiB", Quantity.BANDWIDTH: "GB/s", Quantity.BANDWIDTH_FACTOR: "x"}.get(
        varied.quantity, "accelerators"
    )


def _amount(varied: Varied, value: float, *, up: bool) -> str:
    if varied.quantity.is_whole:
        return count(int(value))
    return varied.quantity.text(stated(varied, value, up=up))
