"""The answer of a solve as a JSON object and back, for whoever passes it between processes or keeps it in a file."""

import json
from dataclasses import asdict
from typing import Any

from solvers.formats.graph_json import parse_split, split_document
from solvers.model.costs import Objective, SplitCosts
from solvers.model.result import RejectedPlan, SolveResult, SolveStatus
from solvers.model.split import Family, Split, Violation


def result_document(result: SolveResult) -> dict[str, Any]:
    """Return a result as a JSON object; times in ms and seconds as in the result."""
    return {
        "status": result.status,
        "method": result.method,
        "objective": result.objective,
        "family": result.family,
        "split": result.split and split_document(result.split),
        "value_ms": result.value_ms,
        "lower_bound_ms": result.lower_bound_ms,
        "runtime_s": result.runtime_s,
        "message": result.message,
        "rejected": result.rejected
        and {
            "split": split_document(result.rejected.split),
            "value_ms": result.rejected.value_ms,
            "violations": [asdict(violation) for violation in result.rejected.violations],
        },
        "num_kept": result.num_kept,
    }


def judged_split_document(split: Split, costs: SplitCosts, result: SolveResult) -> dict[str, Any]:
    """Return the split that a result is about in the format of the paper's release, with its costs in ms.

    Each device has its load. The total is `totalLatency` where the result is a latency, `maxLoad` elsewhere.
    """
    totals = {"maxLoad": costs.max_load_ms}
    if result.objective is Objective.LATENCY and result.value_ms is not None:
        totals = {"totalLatency": result.value_ms}
    return split_document(split, tuple(device.load_ms for device in costs.devices), totals)


def result_from_document(document: dict[str, Any]) -> SolveResult:
    """Return the result that `result_document` wrote; ValueError, KeyError or TypeError where it is none."""
    split, rejected = document["split"], document["rejected"]
    num_kept = document.get("num_kept")  # journals of earlier versions have none
    return SolveResult(
        status=SolveStatus(document["status"]),
        method=str(document["method"]),
        objective=Objective(document["objective"]),
        family=Family(document["family"]),
        split=None if split is None else parse_split(json.dumps(split)),
        value_ms=_number_or_none(document["value_ms"]),
        lower_bound_ms=_number_or_none(document["lower_bound_ms"]),
        runtime_s=float(document["runtime_s"]),
        message=str(document["message"]),
        rejected=None if rejected is None else _rejected_from_document(rejected),
        num_kept=None if num_kept is None else int(num_kept),
    )


def _rejected_from_document(document: dict[str, Any]) -> RejectedPlan:
    return RejectedPlan(
        parse_split(json.dumps(document["split"])),
        document["value_ms"],
        tuple(Violation(**violation) for violation in document["violations"]),
    )


def _number_or_none(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)
