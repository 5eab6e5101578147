"""Why a plan is slower than all its work divided evenly over all devices: sentences of an explanation.

Each names one thing that keeps it from there: whole nodes, memory, transfers, what the kind of split demands.
"""

import math
from collections.abc import Iterable

import networkx as nx

from solvers.analysis.explanation import DeviceFacts, Explanation
from solvers.model.costs import Objective
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.quantities import binary_size, binary_sizes, counted, factor, listed, milliseconds, percent

SAME = 1e-6
"""Times that differ by less, relatively, are the same for a reader."""


def ideal_load_sentences(explanation: Explanation, graph: DnnGraph) -> tuple[str, ...]:
    """Compare the plan with all work divided evenly and name what keeps it from there; none where it says nothing."""
    balance, value_ms = explanation.balance, explanation.value_ms
    needs_too_many = any(violation.rule == "device count" for violation in explanation.violations)
    if value_ms is None or not math.isfinite(balance.balance_ms) or needs_too_many:
        return ()
    # Plans that break a rule may be faster than any valid one; then the comparison says nothing.
    if value_ms < max(balance.balance_ms, balance.block_ms) * (1 - SAME):
        return ()
    if explanation.num_accelerators + explanation.num_cpus == 1:
        return (
            f"There is one device: it does all the work, {milliseconds(value_ms)} per micro-batch, and moves nothing.",
        )
    if value_ms <= balance.balance_ms * (1 + SAME):
        return (
            f"It is reached: all work divided as evenly as it can be over {_all_devices(explanation)} takes "
            f"{milliseconds(balance.balance_ms)} per micro-batch, and so does the plan. No {kind_of(explanation)} is "
            "faster.",
        )
    ratio = value_ms / balance.balance_ms if balance.balance_ms > 0 else None
    distance = "" if ratio is None else f", {percent(ratio - 1)} more" if ratio < 2 else f", {factor(ratio)} as much"
    sentences = [
        f"All work divided evenly over {_all_devices(explanation)}, without transfers, would take "
        f"{milliseconds(balance.balance_ms)} per micro-batch; the plan takes {milliseconds(value_ms)}{distance}."
    ]
    sentences.append(_distance(explanation, value_ms - balance.balance_ms))
    sentences += [
        *_whole_nodes(explanation, graph, value_ms),
        *memory_sentences(explanation),
        *_idle_transfers(explanation, graph),
    ]
    return tuple(filter(None, sentences))


def memory_sentences(explanation: Explanation) -> list[str]:
    """Say where memory is a reason for the plan, or how much of it is left; none where no device has a limit."""
    accelerators = [device for device in explanation.devices if device.capacity_bytes is not None]
    if not accelerators:
        return []
    if forced := _forced_bytes(explanation):
        total_bytes = explanation.total_memory_bytes
        total, in_all, there_is = binary_sizes([total_bytes, total_bytes - forced, forced])
        if not explanation.num_cpus:
            return [f"No plan fits: all nodes take {total} and the accelerators together hold {in_all}."]
        on_cpus = [device for device in explanation.devices if device.is_cpu and device.num_nodes]
        there = listed([device.name for device in on_cpus]) if on_cpus else "CPUs"
        return [
            f"Memory forces work onto CPUs: all nodes take {total} and the accelerators together hold {in_all}, so "
            f"{there_is} or more must be on {there}."
        ]
    capacity = min(device.capacity_bytes or 0.0 for device in accelerators)
    if not explanation.counts_in_flight and explanation.total_memory_bytes <= capacity:
        taken, held = binary_sizes([explanation.total_memory_bytes, capacity])
        return [f"Memory is not limiting: all nodes together take {taken}, and one accelerator has {held}."]

    def share(device: DeviceFacts) -> float:
        if not device.capacity_bytes:
            return math.inf if device.memory_bytes > 0 else 0.0
        return device.memory_bytes / device.capacity_bytes

    fullest = max(accelerators, key=share)
    capacity = fullest.capacity_bytes or 0.0
    if capacity <= 0:
        is_kept = fullest.memory_bytes <= 0
        return ["Accelerators have no memory: they hold nothing but nodes without bytes."] if is_kept else []
    if fullest.memory_bytes <= 0:
        return ["Memory: no accelerator holds any."]
    held, size = binary_sizes([fullest.memory_bytes, capacity])
    return [
        f"Memory: {fullest.name} is the fullest with {held} of {size} ({percent(fullest.memory_bytes / capacity)})."
    ]


def kind_of(explanation: Explanation) -> str:
    """What the plan competes with."""
    is_plan = explanation.objective is Objective.LATENCY or explanation.proof.family is Family.FREE
    return "plan" if is_plan else f"{explanation.proof.family.named} split"


def _all_devices(explanation: Explanation) -> str:
    kinds = (("accelerator", explanation.num_accelerators), ("CPU", explanation.num_cpus))
    return listed([counted(count, noun) for noun, count in kinds if count])


def _distance(explanation: Explanation, distance_ms: float) -> str:
    """Say how the distance to perfect balance divides into uneven work and transfers; the two add up to it."""
    compute_ms, transfers_ms = explanation.compute_over_balance_ms, explanation.paid_transfers_ms
    if transfers_ms <= distance_ms * SAME:
        alone = "" if _forced_bytes(explanation) else " alone"
        return f"The difference of {milliseconds(distance_ms)} is uneven compute{alone}."
    if abs(compute_ms) <= distance_ms * SAME:
        return f"The difference of {milliseconds(distance_ms)} is transfers alone."
    if compute_ms > 0:
        return (
            f"Of the difference of {milliseconds(distance_ms)}, {milliseconds(compute_ms)} "
            f"({percent(compute_ms / distance_ms)}) is uneven compute and {milliseconds(transfers_ms)} "
            f"({percent(transfers_ms / distance_ms)}) transfers."
        )
    return (
        f"The difference of {milliseconds(distance_ms)} is {milliseconds(transfers_ms)} of transfers, less "
        f"{milliseconds(-compute_ms)} because the slowest device computes for less than the ideal load."
    )


def _whole_nodes(explanation: Explanation, graph: DnnGraph, value_ms: float) -> list[str]:
    balance = explanation.balance
    if balance.block_ms <= 0 or not math.isfinite(balance.block_ms):
        return []
    nodes = balance.block_nodes
    first = graph.node_by_id[nodes[0]].label
    if len(nodes) == 1:
        block, kind = f"the largest, {first},", "plan"
    else:
        kind = kind_of(explanation)
        together = "in any pipeline " if explanation.proof.family is Family.CHAIN else ""
        block = f"the largest group that stays together {together}({len(nodes)} nodes with {first})"
    sentence = f"{block} takes {milliseconds(balance.block_ms)}"
    if balance.block_ms >= value_ms * (1 - SAME):
        return [f"Nodes cannot be divided: {sentence}, as long as the plan, so no {kind} can be faster."]
    if balance.block_ms > balance.balance_ms:
        return [f"Nodes cannot be divided: {sentence}, so no {kind} takes less."]
    share = balance.block_ms / balance.balance_ms
    return [f"Nodes cannot be divided: {sentence}, {percent(share)} of the ideal (balanced) load."]


def _forced_bytes(explanation: Explanation) -> float:
    """Return how many bytes of nodes no accelerator has room for, so that CPUs must hold them.

    None where memory counts a multiple of the weights and no sizes, which may be more.
    """
    deployment = explanation.deployment
    memory = deployment.training_memory
    if explanation.counts_in_flight and memory is not None and memory.state_factor is not None:
        return 0.0
    held = [deployment.capacity_bytes(d) for d in range(deployment.num_accelerators)]
    if None in held:
        return 0.0
    return max(0.0, explanation.total_memory_bytes - sum(capacity or 0.0 for capacity in held))


def _idle_transfers(explanation: Explanation, graph: DnnGraph) -> list[str]:
    least = explanation.least_transfer_ms
    if least is None:
        return ["Transfers take no time in this graph." + _what_is_left(explanation, graph)]
    used = sum(device.num_nodes > 0 for device in explanation.devices)
    if explanation.num_cut_tensors == 0 and used == 1:
        cost = ""
        # Between two CPUs nothing is paid, nor for a tensor that moves in no time.
        is_paid = explanation.num_cpus < 2 and all(tensor.transfer_ms > 0 for tensor in graph.tensors)
        if is_paid and explanation.value_ms is not None and least > explanation.value_ms:
            cost = f"; moving even the smallest takes {milliseconds(least)}, longer than all that work"
        return [f"All nodes are on one device, so that no tensor is moved{cost}."]
    return _forced_transfers(explanation, graph)


def _what_is_left(explanation: Explanation, graph: DnnGraph) -> str:
    """Say what alone keeps the best plan from perfect balance where neither transfers nor memory do."""
    if not explanation.is_optimal or explanation.counts_in_flight:
        return ""
    if not all(node.runs_on_accelerator for node in graph.nodes):
        return ""
    if any(
        device.capacity_bytes is not None and device.capacity_bytes < explanation.total_memory_bytes
        for device in explanation.devices
    ):
        return ""
    left = ["that nodes cannot be divided"]
    if any(len(members) > 1 for members in graph.colocation_members.values()):
        left.append("that some must share a device")
    if explanation.proof.family is Family.CHAIN:
        left.append("that a pipeline's stages are in order")
    elif explanation.proof.family is Family.CONVEX:
        left.append("that the split is contiguous")
    keeps = "keeps" if len(left) == 1 else "keep"
    return f" Memory is not limiting. Only {listed(left)} {keeps} the plan from the ideal (balanced) load."


def _forced_transfers(explanation: Explanation, graph: DnnGraph) -> list[str]:
    """Say that memory forces transfers, where they are most of what the slowest device does.

    It does where no device holds some nodes that are connected: parts that are not may each be on a device of its own.
    """
    slowest = [limit.bottlenecks[0] for limit in explanation.limits if limit.bottlenecks]
    load_ms, transfer_ms = sum(parts.load_ms for parts in slowest), sum(parts.transfer_ms for parts in slowest)
    capacities = [device.capacity_bytes for device in explanation.devices]
    largest = max((capacity for capacity in capacities if capacity is not None), default=math.inf)
    if explanation.num_cpus or None in capacities or explanation.counts_in_flight:
        return []
    if max(sum(graph.node_by_id[v].memory_bytes for v in part) for part in _connected(graph)) <= largest:
        return []
    if transfer_ms < load_ms / 2:
        return []
    return [
        f"No device holds all nodes, which take {binary_size(explanation.total_memory_bytes)}: tensors must be moved "
        "however slow the links are, and most of the time goes to that."
    ]


def _connected(graph: DnnGraph) -> Iterable[set[int]]:
    """Return the parts of a graph between which no tensor passes."""
    links: nx.Graph[int] = nx.Graph((edge.source, edge.target) for edge in graph.edges)
    links.add_nodes_from(graph.node_by_id)
    parts: Iterable[set[int]] = nx.connected_components(links)
    return parts
