"""Labels and dominance: the same optimum as the dynamic program, from a small part of its table.

The table of `dynamic_program` has a cell for every ideal and every number of devices, and looks at every pair of nested
ideals. Most of that cannot matter. Here each ideal carries labels: (devices used, largest load so far), each with the
way it was reached. Ideals are taken smaller ones first; a label is extended by every stage that can follow, and the new
label is dropped where it cannot help:

worse than known   its largest load reaches that of a plan already known;
too much left      the work that is left, shared perfectly by the devices that are left, reaches it too;
dominated          another label of the same ideal has used no more devices of either type and has no larger load:
                   whatever follows, that one does as well.

The first known plan is the best one along a single topological order, found by the same search on n + 1 ideals.
The solver of this project (`solvers.chain.label_kernel`) works like this with finer labels, which are compared within a
stage too, and with a sequence of thresholds instead of one plan.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from solvers.teaching.dynamic_program import On
from solvers.teaching.ideals import ideals_of
from solvers.teaching.small import Ideal, SmallProblem


@dataclass(frozen=True, slots=True)
class Label:
    """One way to have placed an ideal: the devices used and the largest load in ms, with the stage placed last."""

    ideal: Ideal
    accelerators: int
    cpus: int
    value_ms: float
    before: "Label | None" = None
    stage: Ideal = frozenset()
    on: On = On.ACCELERATOR


class Fate(StrEnum):
    """What became of a label."""

    KEPT = "kept"
    WORSE = "worse than a known plan"
    HOPELESS = "too much work left"
    DOMINATED = "dominated"


@dataclass(frozen=True, slots=True)
class LabelStep:
    """A label that was just made, what became of it, which label dominates it, and the best value known by then."""

    label: Label
    fate: Fate
    by: Label | None
    known_ms: float | None


def label_steps(problem: SmallProblem, *, from_line: bool = True) -> Iterator[LabelStep]:
    """Yield every label that is made; the best KEPT one of all nodes is the optimum, or the line's plan is.

    With `from_line` the best plan along one line is known from the beginning; without, no plan is, and the best KEPT
    label of all nodes is the optimum.
    """
    known = best_on_line(problem) if from_line else None
    yield from _search(problem, ideals_of(problem), None if known is None else known.value_ms)


def best_on_line(problem: SmallProblem) -> Label | None:
    """Return the best plan that cuts the topological order into stages, as its last label; None where none fits."""
    prefixes = [frozenset(problem.order[:i]) for i in range(len(problem.order) + 1)]
    return best_label(problem, _search(problem, prefixes, None))


def best_label(problem: SmallProblem, steps: Iterator[LabelStep]) -> Label | None:
    """Return the best label of all nodes among steps; None where none is kept."""
    ends = [step.label for step in steps if step.fate is Fate.KEPT and step.label.ideal == problem.nodes]
    return min(ends, key=lambda label: label.value_ms, default=None)


def optimum(problem: SmallProblem) -> Label | None:
    """Return the label of the best chain; None where no chain fits.

    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.graph import DnnGraph, Edge, Node
    >>> graph = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> optimum(SmallProblem(graph, Deployment(2))).value_ms
    3.5
    """
    return best_label(problem, label_steps(problem)) or best_on_line(problem)


def _search(problem: SmallProblem, ideals: Sequence[Ideal], known_ms: float | None) -> Iterator[LabelStep]:
    labels: dict[Ideal, list[Label]] = {ideal: [] for ideal in ideals}
    labels[ideals[0]].append(Label(frozenset(), 0, 0, 0.0))
    for ideal in ideals:
        for after in (other for other in ideals if ideal < other):
            stage = after - ideal
            load_ms, cpu_ms = problem.load_ms(stage), problem.cpu_ms(stage)
            for label in tuple(labels[ideal]):
                for new in _extended(problem, label, after, load_ms, cpu_ms):
                    fate, by = _judged(problem, new, labels[after], known_ms)
                    if fate is Fate.KEPT:
                        labels[after] = [old for old in labels[after] if not _dominates(new, old)] + [new]
                        if after == problem.nodes:
                            known_ms = new.value_ms
                    yield LabelStep(new, fate, by, known_ms)


def _extended(
    problem: SmallProblem, label: Label, after: Ideal, load_ms: float | None, cpu_ms: float
) -> Iterator[Label]:
    """Yield the labels that one stage more makes of a label, on an accelerator and on a CPU."""
    stage = after - label.ideal
    j, c = label.accelerators, label.cpus
    if load_ms is not None and j < problem.deployment.num_accelerators:
        yield Label(after, j + 1, c, max(label.value_ms, load_ms), label, stage, On.ACCELERATOR)
    if c < problem.deployment.num_cpus:
        yield Label(after, j, c + 1, max(label.value_ms, cpu_ms), label, stage, On.CPU)


def _judged(
    problem: SmallProblem, label: Label, others: Sequence[Label], known_ms: float | None
) -> tuple[Fate, Label | None]:
    if known_ms is not None and label.value_ms >= known_ms:
        return Fate.WORSE, None
    left_ms = least_left_ms(problem, label)
    if left_ms is None or (known_ms is not None and left_ms >= known_ms):
        return Fate.HOPELESS, None
    by = next((other for other in others if _dominates(other, label)), None)
    return (Fate.KEPT, None) if by is None else (Fate.DOMINATED, by)


def least_left_ms(problem: SmallProblem, label: Label) -> float | None:
    """Return a lower bound in ms on the largest load of what is left; None where no device is left for it.

    Each node counts with its time on the better device, and all devices left share the sum perfectly.
    """
    left = [problem.graph.node_by_id[v] for v in problem.order if v not in label.ideal]
    accelerators = problem.deployment.num_accelerators - label.accelerators
    cpus = problem.deployment.num_cpus - label.cpus
    if not left:
        return 0.0
    if accelerators + cpus == 0 or (not cpus and not all(node.runs_on_accelerator for node in left)):
        return None
    work_ms = 0.0
    for node in left:
        times = [node.cpu_ms] if cpus else []
        times += [node.accelerator_ms] if accelerators and node.runs_on_accelerator else []
        work_ms += min(times)
    return work_ms / (accelerators + cpus)


def _dominates(one: Label, other: Label) -> bool:
    return one.accelerators <= other.accelerators and one.cpus <= other.cpus and one.value_ms <= other.value_ms
