"""Why a plan takes longer than the best one known: what its devices do with their time, in a few words.

All is read off the loads of the plan and of the best one, so that nothing is said that the two do not show.
"""

from solvers.model.costs import SplitCosts, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.quantities import counted, factor, percent

SAME = 1e-6
"""Relative difference of values that counts as none."""
MUCH = 0.1
"""A share of the bottleneck's load that is named, where the best plan's bottleneck has so much less."""
FULL = 0.95
"""A device that holds this share of its memory is called full."""


def shortfall(graph: DnnGraph, deployment: Deployment, split: Split, best: Split) -> tuple[str, ...]:
    """Return why a split's largest load is above that of the best one, the weightiest reason first; empty where not.

    Accelerators that are idle and that the best one uses, transfers, a CPU or a full memory at the bottleneck; where it
    is none of these, loads that are less even, or more work in all.
    """
    split, best = split.on(deployment), best.on(deployment)
    costs, known = split_costs(graph, deployment, split), split_costs(graph, deployment, best)
    if costs.max_load_ms <= known.max_load_ms * (1 + SAME):
        return ()
    reasons: list[str] = []
    idle = best.num_accelerators_used - split.num_accelerators_used
    if idle > 0:
        reasons.append(f"{counted(idle, 'accelerator')} fewer in use")
    bottleneck = costs.devices[costs.bottleneck]
    moved = _transfer_share(costs)
    if moved > _transfer_share(known) + MUCH:
        reasons.append(f"{percent(moved)} of the largest load is transfers")
    if split.is_cpu(bottleneck.device):
        reasons.append("a CPU is the bottleneck")
    else:
        limit = deployment.accelerator_memory_bytes(split.first_accelerator(bottleneck.device))
        if limit is not None and bottleneck.memory_bytes >= FULL * limit:
            reasons.append("the bottleneck's memory is full")
    if not reasons:
        uneven = _unevenness(costs)
        is_less_even = uneven > _unevenness(known) * (1 + MUCH)
        reasons.append(
            f"loads are uneven: the largest is {factor(uneven)} the mean"
            if is_less_even
            else "more work or transfers in all"
        )
    return tuple(reasons)


def _transfer_share(costs: SplitCosts) -> float:
    device = costs.devices[costs.bottleneck]
    return min(1.0, (device.receive_ms + device.send_ms) / device.load_ms) if device.load_ms else 0.0


def _unevenness(costs: SplitCosts) -> float:
    """Return the largest load over the mean of those that are not zero."""
    loads = [device.load_ms for device in costs.devices if device.load_ms > 0]
    return max(loads) * len(loads) / sum(loads) if loads else 1.0
