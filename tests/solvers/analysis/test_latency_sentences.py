"""What Explain says of the latency of one micro-batch holds against the definition, computed here on sets of nodes."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import pytest

from solvers.analysis.explanation import explain
from solvers.analysis.explanation_text import explanation_text
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.solve import solve
from tests.support.by_definition import devices_of
from tests.support.graphs import random_dag, random_split
from tests.support.random_problems import random_problem
from tests.support.reference import tensors
from tests.support.sentence_check import MS, SHARE, sizes_agree
from tests.support.written import Comparison

LITTLE = 1e-4
"""Share of the latency by which work is made longer, to see whether anything waits for it."""
STEP = rf"(.+?) from ({MS}) to ({MS}) \((\d+) nodes?\)"


@dataclass(frozen=True)
class Work:
    """A subgraph of an accelerator, or a node on a CPU."""

    device: int
    nodes: frozenset[int]
    compute_ms: float
    transfer_ms: float


class Sample:
    """One micro-batch on its way through a plan."""

    def __init__(self, graph: DnnGraph, deployment: Deployment, split: Split) -> None:
        """List what is worked and what waits for what."""
        self.devices, k = devices_of(deployment), deployment.num_accelerators
        placed = split.on(deployment)
        lists = [(d, members) for d in range(k) for members in placed.subgraphs_of(d) if members]
        lists += [(k + c, frozenset({v})) for c, members in enumerate(placed.cpus) for v in members]
        moved = tensors(graph)
        self.works = []
        for d, nodes in lists:
            device = self.devices[d]
            cut = [ms for u, readers, ms in moved if {u, *readers} & nodes and {u, *readers} - nodes]
            self.works.append(
                Work(
                    d,
                    nodes,
                    sum(device.node_ms(graph.node_by_id[v]) for v in nodes),
                    0.0 if device.is_cpu else sum(cut) / device.link_speed,
                )
            )
        edges = {(e.source, e.target) for e in graph.edges}
        self.waits_for: list[list[int]] = []
        for i, work in enumerate(self.works):
            before = [
                j
                for j, other in enumerate(self.works)
                if i != j and any((u, v) in edges for u in other.nodes for v in work.nodes)
            ]
            turns = [j for j in range(i) if self.works[j].device == work.device < k]
            self.waits_for.append([*before, *turns[-1:]])

    def latency_ms(self, longer: int = -1, by_ms: float = 0.0) -> float:
        """Return when all is done, with one piece of work made longer."""
        return max(self.ends_ms(longer, by_ms))

    def ends_ms(self, longer: int = -1, by_ms: float = 0.0) -> list[float]:
        @cache
        def end(i: int) -> float:
            own = self.works[i].compute_ms + self.works[i].transfer_ms + (by_ms if i == longer else 0.0)
            return max((end(j) for j in self.waits_for[i]), default=0.0) + own

        return [end(i) for i in range(len(self.works))]

    def critical_paths(self) -> Iterator[tuple[int, ...]]:
        """Yield every row of works, each waiting for the one before it, that takes as long as all."""
        ends = self.ends_ms()

        def back(i: int) -> Iterator[tuple[int, ...]]:
            begin = ends[i] - self.works[i].compute_ms - self.works[i].transfer_ms
            if begin <= 1e-9:
                yield (i,)
            for j in self.waits_for[i]:
                if abs(ends[j] - begin) <= 1e-9:
                    yield from ((*row, i) for row in back(j))

        for i, end in enumerate(ends):
            if end >= max(ends) - 1e-9:
                yield from back(i)


class LatencyCheck:
    """The sentences on one plan; of each it is known here what it claims."""

    def __init__(self, graph: DnnGraph, deployment: Deployment, split: Split, compare: Comparison) -> None:
        """Compute what the sentences speak of."""
        self.graph, self.compare = graph, compare
        self.sample = Sample(graph, deployment, split)
        placed = split.on(deployment)
        self.number = {placed.device_name(d, deployment): d for d in range(len(self.sample.devices))}
        self.latency_ms = self.sample.latency_ms()
        self.paths = list(self.sample.critical_paths())

    def require(self, agrees: bool, told: object) -> None:
        self.compare.require(self.sentence, agrees, told)

    def run(self, told: list[str]) -> None:
        """Check every sentence on the path; those on memory are checked elsewhere."""
        for self.sentence in told:
            self.require(sizes_agree(self.sentence), "sizes that are compared have one unit")
            for pattern, check in self.patterns:
                if found := re.fullmatch(pattern, self.sentence):
                    check(self, found)
                    break
            else:
                self.require("memory" in self.sentence.lower(), "nothing checks this sentence")

    def parts(self, found: re.Match[str]) -> None:
        self.compare.milliseconds(self.sentence, found[1], self.latency_ms)
        works = self.sample.works
        for row in self.paths:
            compute, transfer = (sum(getattr(works[i], what) for i in row) for what in ("compute_ms", "transfer_ms"))
            one = Comparison()
            one.milliseconds("", found[2], compute)
            one.percent("", found[3], compute / self.latency_ms)
            one.milliseconds("", found[4], transfer)
            one.percent("", found[5], transfer / self.latency_ms)
            if not one.disagreements:
                return
        self.require(False, "no critical path has these times")

    def sequence(self, found: re.Match[str]) -> None:
        steps = re.findall(STEP, re.sub(r"(^|, )(then |and )", r"\1", found[1]))
        steps = [(name.removeprefix(", ").removeprefix("then ").removeprefix("and "), *rest) for name, *rest in steps]
        self.require(steps[0][1] == "0 ms", "it begins late")
        self.compare.milliseconds(self.sentence, steps[-1][2], self.latency_ms)
        if " more, " not in self.sentence:
            self.require(all(a[2] == b[1] for a, b in itertools.pairwise(steps)), "there is a gap")
            rows = {tuple(self.names_of(row)) for row in self.paths}
            names = tuple((name, int(count)) for name, _, _, count in steps)
            self.require(names in rows, f"{names} are none of {rows}")

    def names_of(self, row: tuple[int, ...]) -> list[tuple[str, int]]:
        """Return devices and numbers of nodes of a row of works; one CPU's nodes one after the other are one step."""
        names = {d: name for name, d in self.number.items()}
        steps: list[tuple[str, int]] = []
        last = -1
        for i in row:
            work = self.sample.works[i]
            if work.compute_ms + work.transfer_ms == 0:
                continue
            if work.device == last and self.sample.devices[last].is_cpu:
                steps[-1] = (steps[-1][0], steps[-1][1] + len(work.nodes))
            else:
                steps.append((names[work.device], len(work.nodes)))
            last = work.device
        return steps

    def longest(self, found: re.Match[str]) -> None:
        d = self.number[found[1]]
        times = [self.sample.devices[d].node_ms(node) for node in self.graph.nodes if node.label == found[3]]
        self.compare.milliseconds(self.sentence, found[4], times[0])
        self.require(any(self.sample.works[i].device == d for row in self.paths for i in row), "it is on no path")

    def late(self, found: re.Match[str]) -> None:
        """Made longer, some work of each of these makes the whole longer."""
        for d in self.numbers(found[1]):
            self.require(self.matters(d), f"device {d} may be slower")

    def spare(self, found: re.Match[str]) -> None:
        for d in self.numbers(re.sub(rf" \({MS}\)", "", found[1])):
            self.require(not self.matters(d), f"device {d} may not be slower")

    def unused(self, found: re.Match[str]) -> None:
        told = set(self.numbers(found[1]))
        used = {work.device for work in self.sample.works}
        self.require(told == set(range(len(self.sample.devices))) - used, "others have none")

    def matters(self, device: int) -> bool:
        """Whether anything later waits for some work of a device."""
        by_ms = LITTLE * self.latency_ms
        own = [i for i, work in enumerate(self.sample.works) if work.device == device]
        return any(self.sample.latency_ms(i, by_ms) > self.latency_ms + by_ms / 2 for i in own)

    def numbers(self, text: str) -> list[int]:
        return [self.number[name] for name in re.split(r", (?:and )?| and ", text)]

    patterns: tuple[tuple[str, Callable[["LatencyCheck", re.Match[str]], None]], ...] = (
        (
            rf"One micro-batch takes ({MS}): on its critical path it is computed for ({MS}) \(({SHARE})\) and "
            rf"transferred for ({MS}) \(({SHARE})\)\.",
            parts,
        ),
        (r"The path has no gap: (.*)\.", sequence),
        (rf"(.*) has the longest part, ({MS}); its longest node is (.*) with ({MS})\.", longest),
        (
            r"(.*) (?:is on a path that takes|are on paths that take) as long: to be faster, each of these must be "
            r"shortened too\.",
            late,
        ),
        (r"(.*) (?:is|are) off the critical path and could be slower\.", spare),
        (r"(.*) (?:has|have) no nodes\.", unused),
    )


@pytest.mark.parametrize("seed", range(60))
def test_sentences_on_latency_hold(seed: int) -> None:
    """On the best plan of a random problem and on random ones, some with two subgraphs on each accelerator."""
    problem, found = random_problem(seed), Comparison()
    graph, deployment = problem.graph, problem.deployment
    if graph.is_training:
        graph = random_dag(seed, 7, 0.35)
    deployment = replace(deployment, max_subgraphs=1 + seed % 2)
    best = solve(graph, deployment, objective=Objective.LATENCY)
    splits = [] if best.split is None else [best.split]
    splits += [random_split(graph, replace(deployment, max_subgraphs=1), other) for other in range(4)]
    for split in splits:
        explanation = explain(graph, deployment, split, objective=Objective.LATENCY, family=Family.FREE)
        if explanation.path is None or explanation.violations:
            continue
        (told,) = (
            paragraph.sentences
            for paragraph in explanation_text(explanation, graph)
            if paragraph.title == "What limits the latency"
        )
        LatencyCheck(graph, deployment, split, found).run(list(told))
    assert found.disagreements == []


def test_what_is_said_of_latency_is_checked() -> None:
    """A device that is off the path but is said to be on one that takes as long is noticed, and the other way round."""
    graph = random_dag(3, 6, 0.4)
    split = random_split(graph, Deployment(3), 1)
    found = Comparison()
    check = LatencyCheck(graph, Deployment(3), split, found)
    names = {d: name for name, d in check.number.items()}
    for d in {work.device for work in check.sample.works}:
        wrong = (
            "is off the critical path and could be slower."
            if check.matters(d)
            else "is on a path that takes as long: to be faster, each of these must be shortened too."
        )
        before = len(found.disagreements)
        check.run([f"{names[d]} {wrong}"])
        assert len(found.disagreements) == before + 1
