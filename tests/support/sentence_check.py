"""What Explain says of a plan in words, sentence by sentence, held against the definition and against all plans.

Every sentence has to be known here: one that nothing checks is a disagreement too. Made for graphs of a few nodes.
"""

import math
import re
from collections.abc import Callable
from dataclasses import replace

from solvers.formats.graph_json import split_document
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import is_scheduled
from solvers.model.split import Family, Split, check_split
from tests.support.by_definition import Entry, Part, entries_of, pipelined_ms
from tests.support.reference import all_splits, best_value, tensors
from tests.support.written import BYTES, NUMBER, Comparison, read

MS = rf"<?{NUMBER} ms"
SHARE = r"[<>]?[\d.]+ %"
CLOSE = 1e-3
"""Loads within this share of the largest are named together."""
KINDS = {Family.CHAIN: "pipeline split", Family.CONVEX: "contiguous split", Family.FREE: "plan"}


def sizes_agree(sentence: str) -> bool:
    """Whether the sizes of a sentence are in one unit, but for those below a thousandth of the largest one's."""
    sizes = [(read(value), unit) for value, unit in re.findall(rf"({NUMBER}) (GiB|MiB|KiB|B)\b", sentence)]
    largest = max((BYTES[unit] for _, unit in sizes), default=0.0)
    return all(BYTES[unit] == largest or value * BYTES[unit] < 1e-3 * largest for value, unit in sizes)


class SentenceCheck:
    """The sentences on one plan of a pipeline; each check reads what a pattern found."""

    def __init__(
        self, graph: DnnGraph, deployment: Deployment, split: Split, objective: Objective, family: Family,
        compare: Comparison,
    ) -> None:  # fmt: skip
        """Compute what the sentences speak of."""
        self.graph, self.deployment, self.split = graph, deployment, split
        self.objective, self.family, self.compare = objective, family, compare
        self.entries = entries_of(graph, deployment, split_document(split.on(deployment)))
        placed = split.on(deployment)
        self.by_name = {placed.device_name(d, deployment): entry for d, entry in enumerate(self.entries)}
        self.value_ms = pipelined_ms(self.entries, objective)
        self.total_bytes = sum(node.memory_bytes for node in graph.nodes)
        self.subject = ""
        self.part: Callable[[Entry], Part] = lambda entry: entry.both
        self.load: Callable[[Entry], float] = lambda entry: entry.load_ms
        self._best: dict[tuple[Family, bool], float | None] = {}

    def best(self, family: Family, *, with_memory: bool = True) -> float:
        """The optimum of a family by trying all plans; infinite without one."""
        deployment = self.deployment
        if not with_memory:
            classes = tuple(replace(one, memory_bytes=None) for one in deployment.classes)
            deployment = replace(deployment, memory_bytes=None, classes=classes)
        key = family, with_memory
        if key not in self._best:
            self._best[key] = best_value(self.graph, deployment, family, self.objective)
        found = self._best[key]
        return math.inf if found is None else found

    def run(self, sentences: list[str]) -> None:
        """Check every sentence."""
        for sentence in sentences:
            self.sentence = sentence
            self.require(sizes_agree(sentence), "sizes that are compared have one unit")
            found = [(m, check) for pattern, check in self._patterns if (m := re.fullmatch(pattern, sentence))]
            if not found:
                self.require(False, "nothing checks this sentence")
            for match, check in found:
                check(self, match)

    def require(self, agrees: bool, told: object) -> None:
        self.compare.require(self.sentence, bool(agrees), told)

    def close(self, found: float, expected: float) -> None:
        self.require(math.isclose(found, expected, rel_tol=1e-6, abs_tol=1e-9), f"{found} instead of {expected}")

    def ms(self, text: str, value: float) -> None:
        self.compare.milliseconds(self.sentence, text, value)

    # What limits throughput.

    def passes(self, found: re.Match[str]) -> None:
        self.ms(found[1], self.value_ms)
        self.ms(found[2], max(entry.forward_ms for entry in self.entries))
        self.ms(found[3], max(entry.backward_ms for entry in self.entries))

    def pace(self, found: re.Match[str]) -> None:
        """The bottleneck and those within a thousandth of it, of all or of one pass."""
        self.subject = found[1]
        if found[2] is not None:
            self.load = {
                "forward": lambda entry: entry.forward_ms,
                "backward": lambda entry: entry.backward_ms,
            }[found[2]]
            self.part = {"forward": lambda entry: entry.forward, "backward": lambda entry: entry.backward}[found[2]]
        loads = {name: self.load(entry) for name, entry in self.by_name.items()}
        most = max(loads.values())
        self.ms(found[3], most)
        self.close(loads[self.subject], most)
        near = {name for name, load in loads.items() if load >= most * (1 - CLOSE)} - {self.subject}
        told = _names(found[4]) if found[4] else set()
        self.require(told == near, f"{told} instead of {near}")
        if found[4] is None or not found[5]:
            return
        if found[2] is not None and "plan" in found[5]:
            limit = self.value_ms * (1 - CLOSE)
            others = (s for s in all_splits(self.graph, self.deployment) if self.is_valid(s))
            for other in others:
                entries = entries_of(self.graph, self.deployment, split_document(other))
                if pipelined_ms(entries, self.objective) < limit and max(map(self.load, entries)) >= most:
                    self.require(False, "a faster plan leaves this pass as it is")
                    return

    def is_valid(self, split: Split) -> bool:
        return not check_split(self.graph, self.deployment, split, self.family)

    def parts(self, found: re.Match[str]) -> None:
        """Compute, receive and send of the bottleneck, what of them is hidden, and whether it moves tensors."""
        name, text = found[1], found[2]
        entry = self.by_name[name]
        self.require(name == self.subject, f"not of {self.subject}")
        part, r = self.part(entry), entry.replicas
        told = dict(re.findall(rf"(computes|receives|sends|replicas) for ({MS})", text))
        hidden = {what: ms for ms, what in re.findall(rf"({MS}) of (compute|receiving|sending)", text)}
        for verb, noun, ms in (
            ("computes", "compute", part.compute_ms / r),
            ("receives", "receiving", part.receive_ms / r),
            ("sends", "sending", part.send_ms / r),
        ):
            if verb in told:
                self.ms(told[verb], ms)
                self.require(noun not in hidden, f"{noun} is told twice")
            elif noun in hidden:
                self.ms(hidden[noun], ms)
            else:
                self.require(ms == 0, f"{ms} ms of {noun} are left out")
        if "replicas" in told:
            self.ms(told["replicas"], entry.sync_ms)
        nodes = entry.nodes
        moved = [u for u, readers, _ in tensors(self.graph) if {u, *readers} & nodes and {u, *readers} - nodes]
        if "It moves no tensors" in text:
            self.require(not moved, f"it moves {moved}")
        if "Transfers take no time" in text:
            self.require(all(ms == 0 for _, _, ms in tensors(self.graph)), "some take time")

    def moved(self, found: re.Match[str]) -> None:
        """How many tensors a device moves, each with its time and its way."""
        name = self.subject if found[1].lower() == "it" else found[1]
        self.require(self.objective is not Objective.GPIPE or found[1] == name, "of which pass?")
        entry = self.by_name[name]
        cut = []
        for u, readers, ms in tensors(self.graph):
            if (u in entry.nodes and readers - entry.nodes) or (u not in entry.nodes and readers & entry.nodes):
                cut.append((u, ms))
        self.close(float(found[2] or 1), len(cut))
        speed = 1.0
        if self.deployment.classes:
            speed = next(c.link_speed for c in self.deployment.classes if name.rsplit(" ", 1)[0] == c.name)
        times = sorted((ms / speed for _, ms in cut), reverse=True)
        for text, ms in zip(re.findall(rf"\(({MS})", found[3]), times, strict=False):
            self.ms(text, ms)

    # How close it is to the ideal load.

    def reached(self, found: re.Match[str]) -> None:
        self.ms(found[1], self.value_ms)
        self.require(self.best(Family.FREE, with_memory=False) >= self.value_ms * (1 - 1e-6), "a plan is faster")

    def ideal(self, found: re.Match[str]) -> None:
        ideal_ms = float(found[1].replace(",", ""))
        self.require(ideal_ms <= self.best(Family.FREE, with_memory=False) * (1 + 1e-3), "a plan is faster")
        self.ideal_ms = ideal_ms
        self.ms(found[2], self.value_ms)
        if ideal_ms and found[3]:
            said = float(re.sub(r"[^\d.]", "", found[3]))
            times = said if "×" in found[3] else 1 + said / 100
            self.require(abs(times - self.value_ms / ideal_ms) <= 0.006 * times, self.value_ms / ideal_ms)

    def difference(self, found: re.Match[str]) -> None:
        """What it is made of adds up."""
        numbers = [float(x.replace(",", "")) for x in re.findall(rf"({NUMBER}) ms", found[0])]
        self.require(abs(numbers[0] - (self.value_ms - self.ideal_ms)) <= 2e-3 * self.value_ms, numbers)
        if len(numbers) == 3:
            sign = -1 if "less" in found[0] else 1
            self.require(abs(numbers[0] - numbers[1] - sign * numbers[2]) <= 2e-3 * max(numbers), numbers)

    def whole(self, found: re.Match[str]) -> None:
        block_ms = float(found[1].replace(",", ""))
        rest = found[2]
        is_for_all = "no plan" in rest
        best = self.best(Family.FREE if is_for_all else self.family)
        self.require(block_ms <= best * (1 + 1e-3), f"one takes {best}")
        if "can be faster" in rest:
            self.require(best >= self.value_ms * (1 - 1e-6), f"one takes {best}")

    def enough(self, found: re.Match[str]) -> None:
        self.compare.size(self.sentence, found[1], self.total_bytes)
        best, free = self.best(self.family), self.best(self.family, with_memory=False)
        self.require(best == free, f"{best} with the limit and {free} without")

    def forced(self, found: re.Match[str]) -> None:
        """So many bytes are on CPUs in every valid plan."""
        k = self.deployment.num_accelerators
        held = sum(entry.capacity_bytes or 0.0 for entry in self.entries[:k])
        self.compare.size(self.sentence, found[1], self.total_bytes)
        self.compare.size(self.sentence, found[2], held)
        self.compare.size(self.sentence, found[3], self.total_bytes - held)
        self.require(_names(found[4]) <= {n for n, e in self.by_name.items() if n.startswith("CPU")}, found[4])

    def fullest(self, found: re.Match[str]) -> None:
        entry = self.by_name[found[1]]
        if not is_scheduled(self.graph, self.deployment):
            self.compare.size(self.sentence, found[2], entry.memory_bytes)
            shares = [e.memory_bytes / e.capacity_bytes for e in self.entries if e.capacity_bytes]
            self.close(entry.memory_bytes / (entry.capacity_bytes or math.inf), max(shares))
        self.compare.size(self.sentence, found[3], entry.capacity_bytes)

    def no_transfers(self, found: re.Match[str]) -> None:
        """Transfers take no time; what alone keeps the plan from the ideal load does so alone."""
        self.require(all(ms == 0 for _, _, ms in tensors(self.graph)), "some take time")
        if found[1]:
            told = found[1]
            if "order" not in told and "contiguous" not in told:
                best = self.best(Family.FREE)
                self.require(best >= self.value_ms * (1 - 1e-6), f"a split of another type takes {best}")
            best = self.best(self.family, with_memory=False)
            self.require(best >= self.value_ms * (1 - 1e-6), f"with more memory one takes {best}")

    def on_one_device(self, found: re.Match[str]) -> None:
        self.require(sum(bool(entry.nodes) for entry in self.entries) == 1, "several have nodes")
        if found[1]:
            fastest = max((c.link_speed for c in self.deployment.classes if c.count), default=1.0)
            read = [ms / fastest for _, _, ms in tensors(self.graph)]
            self.ms(found[1], min(read, default=0.0))

    def must_move(self, _: re.Match[str]) -> None:
        for split in all_splits(self.graph, self.deployment):
            home = split.device_of()
            if self.is_valid(split) and all(home[e.source] == home[e.target] for e in self.graph.edges):
                self.require(False, f"no tensor is moved by {split}")
                return
        slowest = max(self.entries, key=lambda entry: entry.load_ms)
        self.require(slowest.load_ms > 0, "nothing takes time")

    # Idle time, and what is proven.

    def idle(self, found: re.Match[str]) -> None:
        shares = {name: 1 - entry.load_ms / self.value_ms for name, entry in self.by_name.items() if entry.nodes}
        shares = {name: share for name, share in shares.items() if share > 1e-6}
        told = re.findall(rf"(?:, | and |^)?([^,]+?) for ({SHARE})", found[1])
        for name, text in told:
            self.compare.percent(self.sentence, text, shares.pop(name))
        least = min((1 - self.by_name[name].load_ms / self.value_ms for name, _ in told), default=1.0)
        if found[2]:
            self.close(float(found[2]), len(shares))
            is_less = [share < least - 1e-6 for share in shares.values()]
            fits = {"less": all(is_less), "as long": not any(is_less), "as long or less": any(is_less)}
            self.require(fits[found[3]], f"{shares} beside {least}")
        else:
            self.require(not shares, f"{shares} left out")

    def unused(self, found: re.Match[str]) -> None:
        self.require(_names(found[1]) == {n for n, e in self.by_name.items() if not e.nodes}, found[1])

    def wasted(self, found: re.Match[str]) -> None:
        shares = [1 - entry.load_ms / self.value_ms for entry in self.entries]
        self.compare.percent(self.sentence, found[1], sum(shares) / len(shares))

    def evening_out(self, found: re.Match[str]) -> None:
        self.ms(found[1], self.value_ms)
        for name in _names(found[2]):
            self.require(self.by_name[name].load_ms >= self.value_ms * (1 - CLOSE), name)
        if found[3]:
            self.optimal(found)

    def all_busy(self, _: re.Match[str]) -> None:
        self.require(all(math.isclose(e.load_ms, self.value_ms, rel_tol=1e-5) for e in self.entries), "some are idle")

    def optimal(self, _: re.Match[str]) -> None:
        self.require(KINDS[self.family] in self.sentence, "of which split type?")
        best = self.best(self.family)
        self.require(best >= self.value_ms * (1 - 2e-6), f"one takes {best}")

    def bounded(self, found: re.Match[str]) -> None:
        bound, best = float(found[1].replace(",", "")), self.best(self.family)
        self.require(bound <= best * (1 + 1e-3), f"one takes {best}")
        factor = re.search(r"at most ([\d.,]+) × the", found[0])
        share = re.search(r"at most ([\d.,]+) % above", found[0])
        if factor or share:
            most = float(factor[1]) if factor else 1 + float(share[1]) / 100 if share else 0.0
            self.require(self.value_ms <= best * most * (1 + 1e-6), f"the optimum is {best}")

    def contiguity(self, found: re.Match[str]) -> None:
        free = self.best(Family.FREE)
        if found[0].startswith("Contiguity costs nothing"):
            self.require(free >= self.value_ms * (1 - 2e-6), f"one takes {free}")
        elif "might be faster" in found[0]:
            self.require(self.family is not Family.FREE, "it is one")
        elif found[1]:
            self.ms(found[1], self.value_ms - free)
            self.ms(found[2], free)

    def one_device(self, found: re.Match[str]) -> None:
        self.require(len(self.entries) == 1, "there are several")
        self.ms(found[1], self.value_ms)

    def nothing(self, _: re.Match[str]) -> None:
        """Sentences that claim nothing of numbers."""

    _NAME = r"(?:[A-Za-z]+ [\d–-]+|[A-Za-z]+ \d+ and \d+)"
    _NAMES = r"[A-Za-z]+ \d.*?"
    _patterns: tuple[tuple[str, Callable[..., None]], ...] = (
        (rf"The time per micro-batch is ({MS}): the slowest forward pass and the slowest backward pass, ({MS}) \+ ({MS})\.", passes),  # noqa: E501 -- a sentence as it stands
        (rf"({_NAMES}) is the bottleneck(?: of the (forward|backward) pass)? with ({MS}) per micro-batch(?:, and (.*) within 0\.1 % of it: (.*))?\.", pace),  # noqa: E501 -- a sentence as it stands
        (rf"({_NAMES}) ((?:computes|receives|sends|exchanges) .*)", parts),
        (rf"The one tensor (it|{_NAMES}) moves is ()(.*)\.", moved),
        (rf"(It|{_NAMES}) moves (\d+) tensors(?:: |; the largest: )(.*)\.", moved),
        (rf"There is one device: it does all the work, ({MS}) per micro-batch, and moves nothing\.", one_device),
        (rf"It is reached: all work divided as evenly as it can be over .* takes ({MS}) per micro-batch, and so does the plan\. No .* is faster\.", reached),  # noqa: E501 -- a sentence as it stands
        (rf"All work divided evenly over .*, without transfers, would take ({NUMBER}) ms per micro-batch; the plan takes ({MS})(?:, (.*) (?:more|as much))?\.", ideal),  # noqa: E501 -- a sentence as it stands
        (r"(?:The difference of|Of the difference of) .*", difference),
        (rf"Nodes cannot be divided: the largest.* takes ({NUMBER}) ms, (.*)\.", whole),
        (r"Memory is not limiting: all nodes together take (.*), and one accelerator has .*\.", enough),
        (r"Memory forces work onto CPUs: all nodes take (.*) and the accelerators together hold (.*), so (.*) or more must be on (.*)\.", forced),  # noqa: E501 -- a sentence as it stands
        (r"Memory: (.*) is the fullest with (.*) of (.*) \(.*\)\.", fullest),
        (r"Accelerators have no memory: .*", nothing),
        (r"Transfers take no time in this graph\.(?: Memory is not limiting\. Only (.*) keeps? the plan from the ideal \(balanced\) load\.)?", no_transfers),  # noqa: E501 -- a sentence as it stands
        (rf"All nodes are on one device, so that no tensor is moved(?:; moving even the smallest takes ({MS}), longer than all that work)?\.", on_one_device),  # noqa: E501 -- a sentence as it stands
        (r"No device holds all nodes, which take .*: tensors must be moved .*", must_move),
        (r"Idle(?: in steady state)?: (.*) of the time(?:; (\d+) more (?:is|are) idle for (.*))?\.", idle),
        (r"(.*) ha(?:s|ve) no nodes\.", unused),
        (rf"All devices together are idle for ({SHARE}) of the time\.", wasted),
        (rf"Evening out the other loads would not help: a micro-batch leaves the pipeline every ({MS}), the load of (.*?)\.( It is proven .*)?", evening_out),  # noqa: E501 -- a sentence as it stands
        (r"None: in steady state all devices are busy all the time\.", all_busy),
        (r"Optimal: no .* for these devices has a smaller time per micro-batch\.", optimal),
        (rf"No .* takes less than ({NUMBER}) ms, so this one is .*", bounded),
        (r"A non-.* split might be faster; set Split type to non-contiguous to check\.()", contiguity),
        (rf"That the split is .* costs ({MS}): a non-contiguous split takes ({MS})\.", contiguity),
        (r"Contiguity costs nothing: no non-contiguous split is faster either\.()", contiguity),
        (r"No lower bound is known, so nothing is proven about better plans\.", nothing),
        (r"No node of this graph takes any time, and no transfer of the plan does: there is nothing to speed up\.", nothing),  # noqa: E501 -- a sentence as it stands
    )  # fmt: skip


def _names(text: str) -> set[str]:
    return set(re.split(r", | and (?=[A-Za-z])", text))
