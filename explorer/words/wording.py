"""How the app words what it shows: devices, memory and links, what has changed, and what is proven."""

import re
from collections.abc import Container

from explorer.jobs.pool import Question
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, TrainingMemory
from solvers.model.graph import DnnGraph, TimesOrigin
from solvers.model.names import in_order, printable
from solvers.model.result import SolveResult, SolveStatus
from solvers.parameters.asked import as_asked, changes
from solvers.parameters.asked import differences as inputs_that_differ
from solvers.parameters.parameter import Asked, MemoryOf
from solvers.parameters.question import METHOD, OBJECTIVE, method_text
from solvers.parameters.schedule import MEMORY_SCHEDULE
from solvers.quantities import bandwidth, binary_size, count, proven_distance, seconds

MARKUP = frozenset(r"\`*_{}[]()<>#+-.!|~$:/@&=")
"""Characters that can begin Markdown, a link, an image, a formula, a colour or an emoji."""

VALUE_LABELS = {
    Objective.THROUGHPUT: "Time per micro-batch",
    Objective.GPIPE: "Time per micro-batch (GPipe)",
    Objective.LATENCY: "Latency of one micro-batch",
}
"""What the value of each objective is called."""

MOST_EXPLAINED = 20_000
"""Nodes of a graph whose plans are explained: that contracts the graph, which for larger ones takes seconds and 200 MB
in the server itself."""
UNEXPLAINED = "What limits this plan"
"""What stands above the words on a plan that say why it is not explained."""
PROVEN = "optimal (proven)"
"""What is said of a plan that no other of its split type beats."""

_BEFORE_UNIT = re.compile(
    r"(?<=[\d∞]) (?=(?:ms|s|%|×(?! [\dA-Z])|B|[KMG]iB|[kMG]B|[kMGTP]?FLOP|[\w-]+/s)(?!\w))"
    r"|(?<=\bAccelerator) (?=\d)|(?<=\bCPU) (?=\d)"
)
_OPERATOR = re.compile(r"(?<=\S) ([=+−×/≤≥]) (?=\S)")
_NUMBERED = re.compile(r"\b([A-Z][\w-]*\d[\w-]*|[Nn]ode) (?=\d+\b)")
_ADDRESS = re.compile(r"https?:(?=//)|www(?=\.)|@(?=[-\w])", re.IGNORECASE)


def unbroken(text: str) -> str:
    r"""Return a text in which no line ends between a number and its unit, or before the number of a device.

    For what is shown only: files, commands and terminals keep the plain space.

    >>> unbroken("load 19.21 ms, 25 % of 12 GB/s in 3 steps")
    'load 19.21\xa0ms, 25\xa0% of 12\xa0GB/s in 3 steps'
    >>> unbroken("the load of Accelerator 2 and CPU 1")
    'the load of Accelerator\xa02 and CPU\xa01'
    """
    return _BEFORE_UNIT.sub("\u00a0", text)


def unbroken_formulas(text: str) -> str:
    r"""Return a text in which no line ends before a unit, or beside an operator of a formula.

    >>> unbroken_formulas("4 ms: it is (p − 1) / m = 7 / 32")
    '4\xa0ms: it is (p\xa0−\xa01)\xa0/\xa0m\xa0=\xa07\xa0/\xa032'
    """
    return _OPERATOR.sub("\u00a0\\1\u00a0", unbroken(text))


def on_one_line(text: str) -> str:
    r"""Return a text that no line ends in.

    >>> on_one_line("knee at 12 accelerators")
    'knee\xa0at\xa012\xa0accelerators'
    """
    return text.replace(" ", "\u00a0")


def unlinked(text: str) -> str:
    r"""Return a text in which Markdown finds no address to make a link of: escapes do not keep it from that.

    >>> unlinked("see https://a.b, www.a.b or c@d.e at 12:00")
    'see https:\u2060//a.b, www\u2060.a.b or c@\u2060d.e at 12:00'
    """
    return _ADDRESS.sub("\\g<0>\u2060", text)


def plain(text: str) -> str:
    r"""Escape what Streamlit's Markdown would take for markup: words from files appear as text, never as more.

    What cannot be printed becomes a space: line breaks begin blocks, other marks turn the direction of what follows,
    and half of a surrogate pair cannot be sent at all.

    >>> plain("![i](http://x) :red[R]")
    '\\!\\[i\\]\\(http\\:\u2060\\/\\/x\\) \\:red\\[R\\]'
    >>> plain("a\n\n    b\u202e\ud800")
    'a      b  '
    >>> plain("12 GB/s")
    '12\xa0GB\\/s'

    No line ends within the name of a device or node either.

    >>> plain("from L40S 1 to CPU 1")
    'from L40S\xa01 to CPU\xa01'
    """
    whole = _NUMBERED.sub("\\1\u00a0", unbroken(in_order(printable(text))))
    return "".join(f"\\{c}" if c in MARKUP else c for c in unlinked(whole))


def plain_label(text: str) -> str:
    r"""Escape what is markup within a line, no more: screen readers read the label of a box with its escapes.

    >>> plain_label("H100-SXM"), plain_label("*a* :red[b]")
    ('H100-SXM', '\\*a\\* \\:red\\[b\\]')
    """
    return "".join(f"\\{c}" if c in "\\`*_[]<>~$:|!&@/" else c for c in unlinked(in_order(printable(text))))


def device_counts(deployment: Deployment, times: TimesOrigin | None = None) -> str:
    """Say how many devices there are, and what they are where the times of the graph are known to be for something.

    >>> from solvers.model.deployment import DeviceClass
    >>> device_counts(Deployment(1, 2)), device_counts(Deployment.of_classes((DeviceClass("T4", 4),), 1))
    ('1 accelerator and 2 CPUs', '4 × T4 and 1 CPU')
    >>> device_counts(Deployment(3, 0), TimesOrigin("H100-SXM"))
    '3 × H100-SXM and 0 CPUs'
    """
    k, num_cpus = deployment.num_accelerators, deployment.num_cpus
    known = times is not None and times.accelerator
    accelerators = f"{k} × {known}" if known else f"{k} accelerator{'s' * (k != 1)}"
    if deployment.classes:
        accelerators = ", ".join(f"{device_class.count} × {device_class.name}" for device_class in deployment.classes)
    return f"{accelerators} and {num_cpus} CPU{'s' * (num_cpus != 1)}"


def memory_text(deployment: Deployment, but: Container[str] = ()) -> str:
    """Say what accelerators hold, those of some classes left out.

    >>> from solvers.model.deployment import DeviceClass
    >>> memory_text(Deployment(1, 2)), memory_text(Deployment(1, 2, 2.0**30))
    ('no memory limit', '1 GiB each')
    >>> memory_text(Deployment.of_classes((DeviceClass("A", 1, memory_bytes=2.0**30), DeviceClass("B", 1))))
    '1 GiB (A) and no memory limit (B)'
    """
    if deployment.classes:
        held = [(c.name, c.memory_bytes) for c in deployment.classes if c.name not in but]
        return " and ".join(f"{'no memory limit' if m is None else binary_size(m)} ({name})" for name, m in held)
    return "no memory limit" if deployment.memory_bytes is None else f"{binary_size(deployment.memory_bytes)} each"


def links_text(deployment: Deployment, graph: DnnGraph, but: Container[str] = ()) -> str:
    """Say how fast links are, those of some classes left out; nothing where the graph's bytes do not tell.

    >>> from solvers.model.deployment import DeviceClass
    >>> from solvers.model.graph import Edge, Node
    >>> graph = DnnGraph((Node(1, 1.0, 1.0, transfer_ms=2.0), Node(2, 1.0, 1.0)), (Edge(1, 2, 24e6),))
    >>> links_text(Deployment(2), graph)
    'links of 12 GB/s'
    >>> links_text(Deployment.of_classes((DeviceClass("A", 1, link_speed=25.0), DeviceClass("B", 1))), graph)
    'links of 300 GB/s (A) and 12 GB/s (B)'
    >>> links_text(Deployment.of_classes((DeviceClass("A", 1), DeviceClass("B", 1))), graph)
    'links of 12 GB/s each'
    """
    own = graph.bandwidth_bytes_per_ms
    if own is None:
        return ""
    if not deployment.classes:
        return f"links of {bandwidth(own)}"
    known = [(c.name, bandwidth(c.link_speed * own)) for c in deployment.classes if c.name not in but]
    if len(deployment.classes) == len(known) > 1 and len({speed for _, speed in known}) == 1:
        return f"links of {known[0][1]} each"
    speeds = [f"{speed} ({name})" for name, speed in known]
    return f"links of {' and '.join(speeds)}" if speeds else ""


def schedule_in_flight(memory: TrainingMemory) -> str:
    """Return what the schedule is called whose micro-batches in flight memory counts.

    >>> from solvers.model.deployment import InFlight
    >>> schedule_in_flight(TrainingMemory(InFlight.ONE_F_ONE_B, 12))
    '1F1B'
    """
    return MEMORY_SCHEDULE.written(MemoryOf(memory.schedule))


def differences(old: tuple[Question, DnnGraph], new: tuple[Question, DnnGraph]) -> list[str]:
    """Say what has changed between two questions about the same loaded graph, one phrase each; empty if nothing has."""
    changed = inputs_that_differ(_asked(*old), _asked(*new))
    before, after = (_classes(question.deployment) for question, _ in (old, new))
    if old[0].deployment.classes != new[0].deployment.classes:
        changed.append(f"device types {before} → {after}" if before != after else "device types")
    pins = [question.pins for question, _ in (old, new)]
    if pins[0] != pins[1]:
        counts = [str(len(one.devices)) for one in pins]
        changed.append(f"pins {' → '.join(counts)}" if counts[0] != counts[1] else "pins")
    return changed + _differences_of_graphs(old[1], new[1])


def inputs_unlike(one: tuple[Question, DnnGraph], other: tuple[Question, DnnGraph]) -> list[str]:
    """Return the inputs of one question that those of another differ from, each with its value."""
    return [f"{noun} {value}" for noun, _, value in changes(_asked(*other), _asked(*one))]


def _asked(question: Question, graph: DnnGraph) -> Asked:
    limits = question.time_limit_s, question.gap
    return as_asked(graph, question.deployment, question.objective, question.family, question.method, *limits)


def _classes(deployment: Deployment) -> str:
    return ", ".join(f"{c.count} × {c.name}" for c in deployment.classes) or "none"


def _differences_of_graphs(old: DnnGraph, new: DnnGraph) -> list[str]:
    """Say what of a graph has changed with what is asked of it; that it has, where none of its parts tells."""
    if old.digest == new.digest:
        return []
    parts = (
        ("node times", lambda node: (node.accelerator_ms, node.cpu_ms, node.class_ms)),
        ("link bandwidth", lambda node: (node.transfer_ms, node.tensor_ms)),
        ("what must share a device", lambda node: node.colocation_class),
    )
    changed = [what for what, part in parts if list(map(part, old.nodes)) != list(map(part, new.nodes))]
    return changed or ["the graph"]


def why_unexplained(graph: DnnGraph) -> str:
    """Say why plans of a graph are not explained; empty where they are."""
    if len(graph.nodes) <= MOST_EXPLAINED:
        return ""
    return (
        f"Plans are explained for graphs of up to {count(MOST_EXPLAINED)} nodes; this one has "
        f"{count(len(graph.nodes))}. Fold each layer of the network into one node for an explanation."
    )


def proof(result: SolveResult) -> str:
    """Say in a few words what is proven about a result's value."""
    if result.status is SolveStatus.OPTIMAL:
        return PROVEN
    if result.gap is None:
        return "no bound" if result.status is SolveStatus.UNKNOWN else "no bound yet"
    return proven_distance(result.value_ms, result.lower_bound_ms)


def how_found(result: SolveResult) -> str:
    """Say which method found a result, among which splits, and how long it took."""
    if result.runtime_s == 0 and result.method == "hand edit":
        return f"{result.method} · {result.family.named} split"
    return f"{methods_text(result.method)} · {result.family.named} splits · {seconds(result.runtime_s)}"


def method_title(method: str) -> str:
    """Return what a method is called where it stands alone, as in the form.

    >>> method_title("single")
    'One accelerator'
    """
    return METHOD.names[method]


def objective_text(objective: Objective) -> str:
    """Return what an objective is called inside a sentence.

    >>> objective_text(Objective.GPIPE)
    'GPipe'
    """
    return OBJECTIVE.written(objective)


def methods_text(method: str) -> str:
    """Return what one method, or several in a row, are called inside a sentence.

    >>> methods_text("dp, then ip"), methods_text("local_search")
    ('DP, then IP', 'local search')
    """
    return re.sub(r"\w+", lambda word: method_text(word[0]), method)


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the beginning, and the number at its end.

    >>> shortened("Graphcore-Bow-IPU-Classic 12", 18), shortened("2 × T4", 18), shortened("abc def", 5)
    ('Graphcore-Bow… 12', '2 × T4', 'abc…')
    """
    if len(text) <= most:
        return text
    number = re.search(r" \d+$", text)
    end = f"…{number[0] if number else ''}"
    return text[: most - len(end)].rstrip(" +,-") + end
