"""Why a plan is as fast as it is: what sets its pace, how near it is to perfect balance, and who waits.

The value of a throughput plan is the load of its slowest device, compute + transfers that do not hide behind it; that
of a GPipe plan the slowest forward pass plus the slowest backward pass. Perfect balance B is all work divided over all
devices without loss (`solvers.problem.bounds.balance_bound`), which no plan can beat. So

    value - B  =  (compute of the slowest device - B)  +  its transfers

says how much of the distance is uneven work and how much is communication. Work is uneven because nodes are whole (the
largest block alone takes so long), because memory is full, because a family of splits allows only some cuts, or because
giving work away would cost more in transfers. The facts are here, in numbers; `solvers.analysis.explanation_text` makes
sentences of them and claims nothing that they do not hold. The latency of one sample is explained by its critical path
instead.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from solvers.analysis.latency_path import LatencyPath, latency_path
from solvers.analysis.load_parts import LoadParts, backward_parts, forward_parts, load_parts
from solvers.model.costs import CutTensor, Objective, SplitCosts, split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus, relative_gap
from solvers.model.split import Family, Split, Violation, check_split
from solvers.problem.accelerator_kinds import accelerator_kinds
from solvers.problem.bounds import balance_bound, largest_block
from solvers.problem.contraction import block_times

BOTTLENECK_TOLERANCE = 1e-3
"""A device whose load is within this share of the largest sets the pace too."""

What = Literal["both passes", "forward pass", "backward pass"]


@dataclass(frozen=True, slots=True)
class Limit:
    """The devices that set the pace of one pass, or of both together, the slowest first; times in ms per sample."""

    what: What
    value_ms: float
    bottlenecks: tuple[LoadParts, ...]


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device of the plan; `idle_share` is the part of the time per sample that it has nothing to do."""

    device: int
    name: str
    is_cpu: bool
    num_nodes: int
    load_ms: float
    idle_share: float
    memory_bytes: float
    capacity_bytes: float | None


@dataclass(frozen=True, slots=True)
class Balance:
    """What no plan can beat: all work divided evenly, and the largest block of nodes that stay together.

    `balance_ms` is all work over all devices, without transfers and as if nodes could be cut; `block_ms` the time of
    the largest block on its better device (its share, with replicas), `block_nodes` its nodes, the largest first.
    """

    balance_ms: float
    block_ms: float
    block_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proven of the plans of its family: a lower bound in ms, and whether the plan meets it.

    `other_family`, `other_value_ms` and `other_bound_ms` are what is known of the splits of a wider family.
    """

    family: Family
    lower_bound_ms: float | None
    other_family: Family | None = None
    other_value_ms: float | None = None
    other_bound_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts about a plan; see the module. `value_ms` is None where the objective is not defined for the plan.

    `cut_tensors` are those that each device of `limits` sends or receives, most expensive first. `limits` is empty and
    `path` there for latency. `least_transfer_ms` is the cheapest transfer of the graph that takes any time, over the
    fastest link, None where none does. `num_accelerators` and `num_cpus` count what the devices are made of: a device
    with replicas is several.
    """

    objective: Objective
    communication: Communication
    value_ms: float | None
    limits: tuple[Limit, ...]
    cut_tensors: dict[int, tuple[CutTensor, ...]]
    num_cut_tensors: int
    devices: tuple[DeviceFacts, ...]
    balance: Balance
    path: LatencyPath | None
    proof: Proof
    total_memory_bytes: float
    counts_in_flight: bool
    least_transfer_ms: float | None
    violations: tuple[Violation, ...]
    num_accelerators: int
    num_cpus: int
    deployment: Deployment

    @property
    def gap(self) -> float | None:
        """Relative gap between the value and the proven bound."""
        return relative_gap(self.value_ms, self.proof.lower_bound_ms)

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no valid plan of the family is faster."""
        return not self.violations and self.gap is not None and self.gap <= PROOF_TOLERANCE

    @property
    def compute_over_balance_ms(self) -> float:
        """Compute of the slowest devices beyond perfect balance; negative where they make up for their transfers."""
        return sum(limit.bottlenecks[0].compute_ms for limit in self.limits) - self.balance.balance_ms

    @property
    def paid_transfers_ms(self) -> float:
        """Transfers of the slowest devices; with `compute_over_balance_ms` the whole distance to perfect balance."""
        return sum(limit.bottlenecks[0].transfer_ms for limit in self.limits)


def explain(
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    *,
    objective: Objective = Objective.THROUGHPUT,
    family: Family = Family.FREE,
    lower_bound_ms: float | None = None,
    wider: SolveResult | None = None,
) -> Explanation:
    """Return the facts about a complete split; times in ms per sample, sizes in bytes, shares from 0 to 1.

    `family` says which splits it competes with and `lower_bound_ms` what is proven of those; the bound from total work
    holds besides. `wider` is what a solve over a wider family of splits found on the same devices. Raises SplitError
    for a split that does not place every node.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> e = explain(g, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    >>> e.value_ms, e.limits[0].bottlenecks[0].device, round(e.balance.balance_ms, 6), e.paid_transfers_ms
    (3.5, 1, 2.5, 0.5)
    """
    violations = check_split(graph, deployment, split, family)
    placed = split.on(deployment)
    costs = split_costs(graph, deployment, split)
    path = latency_path(graph, deployment, split) if objective is Objective.LATENCY else None
    limits = () if objective is Objective.LATENCY else _limits(costs, objective)
    value_ms = path.latency_ms if path else sum(limit.value_ms for limit in limits) if limits else None
    balance = _balance(graph, deployment, family)
    bounds = [lower_bound_ms]
    if objective is not Objective.LATENCY:
        bounds += [max(balance.balance_ms, balance.block_ms)]
    if wider is not None:
        bounds += [wider.lower_bound_ms]
    known = [bound for bound in bounds if bound is not None and math.isfinite(bound)]
    proof = Proof(family, max(known) if known else None)
    if wider is not None:
        proof = replace(
            proof, other_family=wider.family, other_value_ms=wider.value_ms, other_bound_ms=wider.lower_bound_ms
        )
    pace_ms = costs.max_load_ms if value_ms is None else value_ms
    bottlenecks = {parts.device for limit in limits for parts in limit.bottlenecks}
    return Explanation(
        objective=objective,
        communication=deployment.communication,
        value_ms=value_ms,
        limits=limits,
        cut_tensors={d: _cut_at(costs, d) for d in sorted(bottlenecks) if not placed.is_cpu(d)},
        num_cut_tensors=len(costs.cut_tensors),
        devices=tuple(
            DeviceFacts(
                device=d.device,
                name=placed.device_name(d.device, deployment),
                is_cpu=placed.is_cpu(d.device),
                num_nodes=len(placed.devices[d.device]),
                load_ms=path.busy_ms[d.device] if path else d.load_ms,
                idle_share=_idle(path.busy_ms[d.device] if path else d.load_ms, pace_ms),
                memory_bytes=d.memory_bytes,
                capacity_bytes=None
                if placed.is_cpu(d.device)
                else deployment.accelerator_memory_bytes(placed.first_accelerator(d.device)),
            )
            for d in costs.devices
        ),
        balance=balance,
        path=path,
        proof=proof,
        total_memory_bytes=sum(node.memory_bytes for node in graph.nodes),
        counts_in_flight=is_scheduled(graph, deployment),
        least_transfer_ms=_least_transfer_ms(graph, deployment),
        violations=violations,
        num_accelerators=deployment.num_accelerators,
        num_cpus=deployment.num_cpus,
        deployment=deployment,
    )


def bound_of(result: SolveResult) -> float | None:
    """Return the lower bound in ms that a result proves for its family of splits.

    A plan that was proven optimal is its own bound: what is left between the two is rounding.
    """
    return result.value_ms if result.status is SolveStatus.OPTIMAL else result.lower_bound_ms


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """Return the facts as a JSON object: times in ms, sizes in bytes, what does not exist as null."""

    def parts(times: LoadParts) -> dict[str, Any]:
        return {"load_ms": times.load_ms, **asdict(times)}

    path = explanation.path
    return {
        "objective": str(explanation.objective),
        "value_ms": explanation.value_ms,
        "lower_bound_ms": explanation.proof.lower_bound_ms,
        "gap": explanation.gap,
        "family": str(explanation.proof.family),
        "optimal": explanation.is_optimal,
        "limits": [
            {"what": limit.what, "value_ms": limit.value_ms, "bottlenecks": list(map(parts, limit.bottlenecks))}
            for limit in explanation.limits
        ],
        "balance": {
            "balance_ms": _finite(explanation.balance.balance_ms),
            "largest_block_ms": _finite(explanation.balance.block_ms),
            "largest_block_nodes": list(explanation.balance.block_nodes),
            "compute_over_balance_ms": _finite(explanation.compute_over_balance_ms) if explanation.limits else None,
            "transfers_ms": explanation.paid_transfers_ms if explanation.limits else None,
        },
        "critical_path": None if path is None else [{**asdict(step), "end_ms": step.end_ms} for step in path.steps],
        "devices": [asdict(device) for device in explanation.devices],
        "cut_tensors": {str(d): [asdict(tensor) for tensor in cut] for d, cut in explanation.cut_tensors.items()},
        "num_cut_tensors": explanation.num_cut_tensors,
        "violations": [asdict(violation) for violation in explanation.violations],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _idle(load_ms: float, pace_ms: float) -> float:
    return max(0.0, 1.0 - load_ms / pace_ms) if pace_ms > 0 else 0.0


def _limits(costs: SplitCosts, objective: Objective) -> tuple[Limit, ...]:
    if not costs.devices:
        return ()
    if objective is Objective.GPIPE:
        return (
            _limit("forward pass", [forward_parts(device) for device in costs.devices]),
            _limit("backward pass", [backward_parts(device) for device in costs.devices]),
        )
    return (_limit("both passes", [load_parts(device) for device in costs.devices]),)


def _limit(what: What, parts: list[LoadParts]) -> Limit:
    value_ms = max(device.load_ms for device in parts)
    slowest = [device for device in parts if device.load_ms >= value_ms * (1 - BOTTLENECK_TOLERANCE)]
    return Limit(what, value_ms, tuple(sorted(slowest, key=lambda device: (-device.load_ms, device.device))))


def _least_transfer_ms(graph: DnnGraph, deployment: Deployment) -> float | None:
    moved = (tensor.transfer_ms for tensor in graph.tensors if tensor.transfer_ms > 0)
    least_ms = min(moved, default=None)
    if least_ms is None:
        return None
    fastest = max((one.link_speed for one in deployment.classes if one.count), default=1.0)
    return least_ms / (fastest * deployment.server_link_speed if deployment.has_servers else fastest)


def _cut_at(costs: SplitCosts, device: int) -> tuple[CutTensor, ...]:
    """Cut tensors that a device sends or receives, the dearest on its own link first."""
    own = [t for t in costs.cut_tensors if t.from_device == device or device in t.to_devices]
    return tuple(sorted(own, key=lambda t: (-t.ms_on(device), t.source)))


def _balance(graph: DnnGraph, deployment: Deployment, family: Family) -> Balance:
    blocks = block_times(graph, family, deployment)
    b, block_ms = largest_block(blocks, deployment)
    kinds = accelerator_kinds(graph, deployment)
    times = {
        v: min((kind.node_ms(graph.node_by_id[v]) for kind in kinds), default=graph.node_by_id[v].cpu_ms)
        for v in blocks.members[b]
    }
    return Balance(
        balance_ms=balance_bound(blocks, deployment),
        block_ms=block_ms,
        block_nodes=tuple(sorted(blocks.members[b], key=lambda v: (-times[v], v))),
    )
