"""How numbers are written wherever the app shows them: always with a unit, four digits, ms for every time."""

from solvers.deployment import Deployment
from solvers.result import SolveResult, SolveStatus

METHOD_NAMES = {"dp": "DP", "ip": "IP", "auto": "automatic"}


def milliseconds(value: float | None) -> str:
    """Write a time.

    >>> milliseconds(2.82649), milliseconds(None)
    ('2.826 ms', '–')
    """
    return "–" if value is None else f"{value:,.4g} ms"


def device_counts(deployment: Deployment) -> str:
    """Say how many devices there are.

    >>> device_counts(Deployment(1, 2))
    '1 accelerator and 2 CPUs'
    """
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    return f"{k} accelerator{'s' * (k != 1)} and {num_cpus} CPU{'s' * (num_cpus != 1)}"


def share(fraction: float | None) -> str:
    """Write a share as a percentage, exact zero apart from small."""
    if fraction is None:
        return "–"
    if 0 < fraction < 5e-4:
        return "<0.05 %"
    return f"{100 * fraction:.3g} %"


def proof(result: SolveResult) -> str:
    """Say in a few words what is proven about a result's value."""
    if result.status is SolveStatus.OPTIMAL:
        return "optimal, proven"
    if result.gap is None:
        return "no bound yet"
    return f"within {share(result.gap)} of optimal"


def how_found(result: SolveResult) -> str:
    """Say which method found a result, among which splits, and how long it took."""
    method = result.method
    for short, name in METHOD_NAMES.items():
        method = method.replace(short, name)
    return f"{method} · {result.family} splits · {result.runtime_s:.2f} s"
