"""The facts of an explanation as sentences, for the terminal and the page; nothing is said that they do not hold."""

from collections.abc import Callable
from dataclasses import dataclass

from solvers.analysis.explanation import DeviceFacts, Explanation, Limit
from solvers.analysis.ideal_load_text import SAME, ideal_load_sentences, kind_of, memory_sentences
from solvers.analysis.load_parts import LoadParts
from solvers.model.costs import CutTensor, Objective
from solvers.model.graph import DnnGraph, quoted
from solvers.model.split import Family
from solvers.quantities import binary_sizes, counted, listed, milliseconds, percent, proven_distance

MOST_TENSORS = 3
MOST_STEPS = 8

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


def explanation_text(
    explanation: Explanation, graph: DnnGraph, *, is_split_type_priced: bool = False
) -> tuple[Paragraph, ...]:
    """Return the paragraphs that explain a plan of `graph`, what limits it first.

    Where the split type `is_split_type_priced` beside them, they do not say that another might be faster.
    """
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
            Paragraph("What is proven", _proof(explanation, is_split_type_priced)),
        ]
    else:
        paragraphs += [
            Paragraph("What limits throughput", _limits(explanation, graph)),
            Paragraph("How close it is to the ideal (balanced) load", ideal_load_sentences(explanation, graph)),
            Paragraph("Idle time (bubble)", _waiting(explanation)),
            Paragraph("What is proven", _proof(explanation, is_split_type_priced)),
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
    def told(tensor: CutTensor, size: str) -> str:
        way = (
            f"to {listed([name[d] for d in tensor.to_devices], 2)}"
            if tensor.from_device == device
            else f"from {name[tensor.from_device]}"
        )
        label, time = graph.node_by_id[tensor.source].label, milliseconds(tensor.ms_on(device))
        which = f"tensor {quoted(tensor.tensor)}" if tensor.tensor else "the output"
        size = "" if tensor.size_bytes is None else f", {size}"
        return f"{which} of {label} {way} ({time}{size})"

    shown = cut[:MOST_TENSORS]
    tensors = list(map(told, shown, binary_sizes([tensor.size_bytes for tensor in shown])))
    # Of two passes the sentence before may be about another device.
    mover = name[device]
    if len(cut) == 1:
        return f"The one tensor {'it' if is_of_one else mover} moves is {tensors[0]}."
    is_all = len(cut) <= MOST_TENSORS
    lead = f"{'It' if is_of_one else mover} moves {counted(len(cut), 'tensor')}" + (
        ": " if is_all else "; the largest: "
    )
    return f"{lead}{listed(tensors)}."


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
                f" It is proven that no {kind_of(explanation)} has a smaller largest load."
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


def _proof(explanation: Explanation, is_split_type_priced: bool) -> tuple[str, ...]:
    proof, value_ms, gap = explanation.proof, explanation.value_ms, explanation.gap
    kind = kind_of(explanation)
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
    return (*sentences, *_wider(explanation, value_ms, is_split_type_priced))


def _demanded(family: Family) -> str:
    return "That the split is a pipeline" if family is Family.CHAIN else f"That the split is {family.named}"


def _wider(explanation: Explanation, value_ms: float, is_split_type_priced: bool) -> list[str]:
    """Say what contiguity costs, as far as it is known."""
    proof = explanation.proof
    no_plan_beats = max(explanation.balance.balance_ms, explanation.balance.block_ms)
    if explanation.objective is Objective.LATENCY or proof.family is Family.FREE:
        return []
    if proof.other_family is None:
        if is_split_type_priced:
            return []
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
    return (*sentences, *memory_sentences(explanation))


def _time_on(explanation: Explanation, device: int) -> Callable[..., float]:
    return lambda node: explanation.deployment.node_ms(node, device)


def _sequence(steps: list[str]) -> str:
    if len(steps) > MOST_STEPS:
        head, tail = steps[: MOST_STEPS - 2], steps[-1]
        return f"{', '.join(head)}, {len(steps) - len(head) - 1} more, and {tail}"
    return ", then ".join(steps)
