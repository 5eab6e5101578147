"""The facts of an explanation as sentences, for the terminal and the page; nothing is said that they do not hold."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import networkx as nx

from solvers.analysis.explanation import DeviceFacts, Explanation, Limit
from solvers.analysis.load_parts import LoadParts
from solvers.model.costs import CutTensor, Objective
from solvers.model.graph import DnnGraph, quoted
from solvers.model.split import Family
from solvers.quantities import binary_size, binary_sizes, counted, listed, milliseconds, percent, proven_distance

MOST_TENSORS = 3
MOST_STEPS = 8
SAME = 1e-6
"""Times that differ by less, relatively, are the same for a reader."""

NOUNS = {
    Objective.THROUGHPUT: "time per micro-batch",
    Objective.GPIPE: "time per micro-batch",
    Objective.LATENCY: "latency of one micro-batch",
}


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A heading of a few words and the sentences below it; node names in them are as in the file."""

    title: str
    sentences: tuple[str, ...]


def explanation_text(explanation: Explanation, graph: DnnGraph) -> tuple[Paragraph, ...]:
    """Return the paragraphs that explain a plan of `graph`, what limits it first."""
    paragraphs = [Paragraph("What this plan breaks", tuple(v.message for v in explanation.violations))]
    if explanation.value_ms is None:
        why = "Its subgraphs wait for each other in a circle, or the graph is one of training: it has no latency."
        paragraphs.append(Paragraph("What limits it", (why,)))
    elif explanation.value_ms == 0:
        why = "No node of this graph takes any time, and no transfer of the plan does: there is nothing to speed up."
        paragraphs.append(Paragraph("What limits it", (why,)))
    elif explanation.path is not None:
        paragraphs += [
            Paragraph("What limits the latency", _critical_path(explanation, graph)),
            Paragraph("What is proven", _proof(explanation)),
        ]
    else:
        paragraphs += [
            Paragraph("What limits throughput", _limits(explanation, graph)),
            Paragraph("How close it is to the ideal (balanced) load", _balance(explanation, graph)),
            Paragraph("Idle time (bubble)", _waiting(explanation)),
            Paragraph("What is proven", _proof(explanation)),
        ]
    return tuple(paragraph for paragraph in paragraphs if paragraph.sentences)


def plain_text(paragraphs: tuple[Paragraph, ...]) -> str:
    """Return paragraphs as lines for a terminal."""
    return "\n".join(f"{p.title}\n" + "".join(f"  {sentence}\n" for sentence in p.sentences) for p in paragraphs)


def _limits(explanation: Explanation, graph: DnnGraph) -> tuple[str, ...]:
    sentences: list[str] = []
    name = {device.device: device.name for device in explanation.devices}
    if len(explanation.limits) > 1 and explanation.value_ms is not None:
        passes = " + ".join(milliseconds(limit.value_ms) for limit in explanation.limits)
        sentences.append(
            f"The time per micro-batch is {milliseconds(explanation.value_ms)}: the slowest forward pass and the "
            f"slowest backward pass, {passes}."
        )
    for limit in explanation.limits:
        if limit.value_ms == 0:
            continue
        slowest = limit.bottlenecks[0]
        sentences += [_pace(explanation, limit, name), _parts(explanation, slowest, name)]
    d = explanation.limits[0].bottlenecks[0].device
    if (cut := explanation.cut_tensors.get(d)) and explanation.least_transfer_ms is not None:
        sentences.append(_dearest(graph, cut, d, name, is_of_one=len(explanation.limits) == 1))
    return tuple(sentences)


def _pace(explanation: Explanation, limit: Limit, name: dict[int, str]) -> str:
    where = "" if len(explanation.limits) == 1 else f" of the {limit.what}"
    names = [name[parts.device] for parts in limit.bottlenecks]
    lead = f"{names[0]} is the bottleneck{where} with {milliseconds(limit.value_ms)} per micro-batch"
    if len(names) == 1:
        return f"{lead}."
    others = listed(names[1:])
    # A plan of two passes may be faster in the other one alone.
    what = "plan" if len(explanation.limits) == 1 else limit.what
    load = "both loads" if len(names) == 2 else f"all {len(names)} loads"
    return f"{lead}, and {others} within 0.1 % of it: a faster {what} has to reduce {load}."


def _kind(explanation: Explanation) -> str:
    """What the plan competes with."""
    is_plan = explanation.objective is Objective.LATENCY or explanation.proof.family is Family.FREE
    return "plan" if is_plan else f"{explanation.proof.family.named} split"


def _parts(explanation: Explanation, parts: LoadParts, name: dict[int, str]) -> str:
    device = name[parts.device]
    kinds = [("computes", parts.compute_ms), ("receives", parts.receive_ms), ("sends", parts.send_ms)]
    if parts.sync_ms > 0:
        kinds.append(("exchanges gradients with its replicas", parts.sync_ms))
    told = [f"{verb} for {milliseconds(ms)} ({percent(ms / parts.load_ms)})" for verb, ms in kinds if ms > 0]
    sentence = f"{device} {listed(told)}."
    if explanation.devices[parts.device].is_cpu:
        return f"{sentence} Transfers take a CPU no time."
    if len(told) == 1 and parts.compute_ms > 0 and not _hidden(parts):
        return f"{sentence} {_why_no_transfers(explanation, parts)}."
    return f"{sentence}{_hidden(parts)}"


def _why_no_transfers(explanation: Explanation, parts: LoadParts) -> str:
    """Say why an accelerator that sets the pace is not held up by transfers: what it moves may take no time."""
    if explanation.least_transfer_ms is None:
        return "Transfers take no time"
    if not explanation.cut_tensors.get(parts.device):
        return "It moves no tensors"
    return "Its transfers take no time" if len(explanation.limits) == 1 else "In this pass its transfers take no time"


def _hidden(parts: LoadParts) -> str:
    hidden = [
        f"{milliseconds(ms)} of {what}"
        for what, ms in (
            ("compute", parts.hidden_compute_ms),
            ("receiving", parts.hidden_receive_ms),
            ("sending", parts.hidden_send_ms),
        )
        if ms > 0
    ]
    if not hidden:
        return ""
    is_one = len(hidden) == 1
    return (
        f" {listed(hidden)} {'overlaps' if is_one else 'overlap'} with that and {'adds' if is_one else 'add'} nothing."
    )


def _dearest(graph: DnnGraph, cut: tuple[CutTensor, ...], device: int, name: dict[int, str], *, is_of_one: bool) -> str:
    def told(tensor: CutTensor) -> str:
        way = (
            f"to {listed([name[d] for d in tensor.to_devices], 2)}"
            if tensor.from_device == device
            else f"from {name[tensor.from_device]}"
        )
        size = "" if tensor.size_bytes is None else f", {binary_size(tensor.size_bytes)}"
        label, time = graph.node_by_id[tensor.source].label, milliseconds(tensor.ms_on(device))
        which = f"tensor {quoted(tensor.tensor)}" if tensor.tensor else "the output"
        return f"{which} of {label} {way} ({time}{size})"

    # Of two passes the sentence before may be about another device.
    mover = name[device]
    if len(cut) == 1:
        return f"The one tensor {'it' if is_of_one else mover} moves is {told(cut[0])}."
    dearest = listed([told(tensor) for tensor in cut[:MOST_TENSORS]])
    is_all = len(cut) <= MOST_TENSORS
    lead = f"{'It' if is_of_one else mover} moves {counted(len(cut), 'tensor')}" + (
        ": " if is_all else "; the largest: "
    )
    return f"{lead}{dearest}."


def _balance(explanation: Explanation, graph: DnnGraph) -> tuple[str, ...]:
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
            f"{milliseconds(balance.balance_ms)} per micro-batch, and so does the plan. No {_kind(explanation)} is "
            "faster.",
        )
    over = value_ms / balance.balance_ms - 1 if balance.balance_ms > 0 else None
    distance = "" if over is None else f", {percent(over)} more"
    sentences = [
        f"All work divided evenly over {_all_devices(explanation)}, without transfers, would take "
        f"{milliseconds(balance.balance_ms)} per micro-batch; the plan takes {milliseconds(value_ms)}{distance}."
    ]
    sentences.append(_distance(explanation, value_ms - balance.balance_ms))
    sentences += [
        *_whole_nodes(explanation, graph, value_ms),
        *_memory(explanation),
        *_idle_transfers(explanation, graph),
    ]
    return tuple(filter(None, sentences))


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
        kind = _kind(explanation)
        together = "in any pipeline " if explanation.proof.family is Family.CHAIN else ""
        block = f"the largest group that stays together {together}({len(nodes)} nodes with {first})"
    sentence = f"{block} takes {milliseconds(balance.block_ms)}"
    if balance.block_ms >= value_ms * (1 - SAME):
        return [f"Nodes cannot be divided: {sentence}, as long as the plan, so no {kind} can be faster."]
    if balance.block_ms > balance.balance_ms:
        return [f"Nodes cannot be divided: {sentence}, so no {kind} takes less."]
    share = balance.block_ms / balance.balance_ms
    return [f"Nodes cannot be divided: {sentence}, {percent(share)} of the ideal (balanced) load."]


def _memory(explanation: Explanation) -> list[str]:
    accelerators = [device for device in explanation.devices if device.capacity_bytes is not None]
    if not accelerators:
        return []
    if forced := _forced_bytes(explanation):
        total, in_all = binary_sizes([explanation.total_memory_bytes, explanation.total_memory_bytes - forced])
        on_cpus = [device for device in explanation.devices if device.is_cpu and device.num_nodes]
        there = listed([device.name for device in on_cpus]) if on_cpus else "CPUs"
        return [
            f"Memory forces work onto CPUs: all nodes take {total} and the accelerators together hold {in_all}, so "
            f"{binary_size(forced)} or more must be on {there}."
        ]
    capacity = min(device.capacity_bytes or 0.0 for device in accelerators)
    if not explanation.counts_in_flight and explanation.total_memory_bytes <= capacity:
        return [
            f"Memory is not limiting: all nodes together take {binary_size(explanation.total_memory_bytes)}, and one "
            f"accelerator has {binary_size(capacity)}."
        ]

    def share(device: DeviceFacts) -> float:
        if not device.capacity_bytes:
            return math.inf if device.memory_bytes > 0 else 0.0
        return device.memory_bytes / device.capacity_bytes

    fullest = max(accelerators, key=share)
    capacity = fullest.capacity_bytes or 0.0
    if capacity <= 0:
        is_kept = fullest.memory_bytes <= 0
        return ["Accelerators have no memory: they hold nothing but nodes without bytes."] if is_kept else []
    return [
        f"Memory: {fullest.name} is the fullest with {binary_size(fullest.memory_bytes)} of {binary_size(capacity)} "
        f"({percent(fullest.memory_bytes / capacity)})."
    ]


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


def _waiting(explanation: Explanation) -> tuple[str, ...]:
    devices = explanation.devices
    if len(devices) < 2 or not explanation.value_ms:
        return ()
    unused = [device for device in devices if device.num_nodes == 0]
    idle = sorted((d for d in devices if d.num_nodes and d.idle_share > SAME), key=lambda d: -d.idle_share)
    pace = max(device.load_ms for device in devices)
    lead = "Idle in steady state" if len(explanation.limits) == 1 else "Idle"
    sentences = [f"{lead}: {_shares(idle)}"] if idle else []
    if unused:
        names = listed([device.name for device in unused])
        sentences.append(f"{names} {'has' if len(unused) == 1 else 'have'} no nodes.")
    if not sentences:
        return ("None: in steady state all devices are busy all the time.",)
    wasted = sum(device.idle_share for device in devices) / len(devices)
    sentences.append(f"All devices together are idle for {percent(wasted)} of the time.")
    if len(explanation.limits) == 1:
        slowest = [devices[parts.device].name for parts in explanation.limits[0].bottlenecks]
        sentences.append(
            "Evening out the other loads would not help: a micro-batch leaves the pipeline every "
            f"{milliseconds(pace)}, the load of {listed(slowest)}."
            + (
                f" It is proven that no {_kind(explanation)} has a smaller largest load."
                if explanation.is_optimal
                else ""
            )
        )
    return tuple(sentences)


def _shares(idle: list[DeviceFacts]) -> str:
    told = [f"{device.name} for {percent(device.idle_share)}" for device in idle]
    most = 4
    more = len(idle) - most
    if more <= 0:
        return f"{listed(told[:most])} of the time."
    least, longest = idle[most - 1].idle_share - SAME, idle[most].idle_share
    as_long = "as long" if idle[-1].idle_share >= least else "as long or less"
    rest = f"{more} more {'is' if more == 1 else 'are'} idle for {'less' if longest < least else as_long}"
    return f"{listed(told[:most])} of the time; {rest}."


def _proof(explanation: Explanation) -> tuple[str, ...]:
    proof, value_ms, gap = explanation.proof, explanation.value_ms, explanation.gap
    kind = _kind(explanation)
    if explanation.violations:
        return ("It is no valid plan, so its value is for comparison only.",)
    if value_ms is None or gap is None or proof.lower_bound_ms is None:
        return ("No lower bound is known, so nothing is proven about better plans.",)
    if explanation.is_optimal:
        sentences = [f"Optimal: no {kind} for these devices has a smaller {NOUNS[explanation.objective]}."]
    else:
        sentences = [
            f"No {kind} takes less than {milliseconds(proof.lower_bound_ms)}, so this one is "
            f"{proven_distance(value_ms, proof.lower_bound_ms)}."
        ]
    return (*sentences, *_wider(explanation, value_ms))


def _demanded(family: Family) -> str:
    return "That the split is a pipeline" if family is Family.CHAIN else f"That the split is {family.named}"


def _wider(explanation: Explanation, value_ms: float) -> list[str]:
    """Say what contiguity costs, as far as it is known."""
    proof = explanation.proof
    no_plan_beats = max(explanation.balance.balance_ms, explanation.balance.block_ms)
    if explanation.objective is Objective.LATENCY or proof.family is Family.FREE:
        return []
    if proof.other_family is None:
        if explanation.is_optimal and no_plan_beats < value_ms * (1 - SAME) and len(explanation.devices) > 1:
            return [f"A non-{proof.family.named} split might be faster; set Split type to non-contiguous to check."]
        return []
    other, found, bound = proof.other_family, proof.other_value_ms, proof.other_bound_ms
    if found is not None and found < value_ms * (1 - SAME):
        if not explanation.is_optimal:  # a better one of the family may close part of the distance, or all of it
            return [f"A {other.named} split takes {milliseconds(found)}."]
        return [
            f"{_demanded(proof.family)} costs {milliseconds(value_ms - found)}: a {other.named} split takes "
            f"{milliseconds(found)}."
        ]
    if bound is not None and bound >= value_ms * (1 - SAME):
        return [f"Contiguity costs nothing: no {other.named} split is faster either."]
    if bound is not None:
        return [f"No {other.named} split that is faster was found; none takes less than {milliseconds(bound)}."]
    return []


def _critical_path(explanation: Explanation, graph: DnnGraph) -> tuple[str, ...]:
    path = explanation.path
    assert path is not None
    name = {device.device: device.name for device in explanation.devices}
    latency = path.latency_ms
    sentences = [
        f"One micro-batch takes {milliseconds(latency)}: on its critical path it is computed for "
        f"{milliseconds(path.compute_ms)} ({percent(path.compute_ms / latency)}) and transferred for "
        f"{milliseconds(path.transfer_ms)} ({percent(path.transfer_ms / latency)})."
    ]
    steps = [
        f"{name[step.device]} from {milliseconds(step.start_ms)} to {milliseconds(step.end_ms)} "
        f"({counted(len(step.nodes), 'node')})"
        for step in path.steps
        if step.end_ms > step.start_ms
    ]
    sentences.append(f"The path has no gap: {_sequence(steps)}.")
    dearest = max(path.steps, key=lambda step: step.end_ms - step.start_ms)
    node = max((graph.node_by_id[v] for v in dearest.nodes), key=lambda n: _time_on(explanation, dearest.device)(n))
    longest_ms, node_ms = dearest.end_ms - dearest.start_ms, _time_on(explanation, dearest.device)(node)
    sentences.append(
        f"{name[dearest.device]} has the longest part, {milliseconds(longest_ms)}; its longest node is {node.label} "
        f"with {milliseconds(node_ms)}."
    )
    on_path = {step.device for step in path.steps}
    beside = [device for device in explanation.devices if device.num_nodes and device.device not in on_path]
    # A device off this path may be on another one that takes as long.
    late = [device for device in beside if path.slack_ms[device.device] <= latency * SAME]
    spare = [device for device in beside if device not in late]
    if late:
        names = listed([device.name for device in late])
        sentences.append(
            f"{names} {'is on a path that takes' if len(late) == 1 else 'are on paths that take'} as long: to be "
            "faster, each of these must be shortened too."
        )
    if spare:
        names = listed([f"{device.name} ({milliseconds(device.load_ms)})" for device in spare])
        sentences.append(f"{names} {'is' if len(spare) == 1 else 'are'} off the critical path and could be slower.")
    unused = [device.name for device in explanation.devices if not device.num_nodes]
    if unused:
        sentences.append(f"{listed(unused)} {'has' if len(unused) == 1 else 'have'} no nodes.")
    return (*sentences, *_memory(explanation))


def _time_on(explanation: Explanation, device: int) -> Callable[..., float]:
    return lambda node: explanation.deployment.node_ms(node, device)


def _sequence(steps: list[str]) -> str:
    if len(steps) > MOST_STEPS:
        head, tail = steps[: MOST_STEPS - 2], steps[-1]
        return f"{', '.join(head)}, {len(steps) - len(head) - 1} more, and {tail}"
    return ", then ".join(steps)
