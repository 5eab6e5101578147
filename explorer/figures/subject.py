"""What an export is about: one plan with all that is known of it, and the words that stand on every figure."""

import re
from dataclasses import dataclass
from typing import Any

from explorer.jobs.pool import Question
from explorer.picture.dag_view import DagInfo
from explorer.picture.gantt_view import GanttInfo
from explorer.words.devices_text import times_text
from explorer.words.wording import VALUE_LABELS, device_counts, how_found, links_text, memory_text, proof
from solvers.formats.result_json import judged_split_document
from solvers.model.costs import SplitCosts, split_costs
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult
from solvers.model.split import Split
from solvers.quantities import count, milliseconds
from solvers.schedule.records import WEIGHT_GRADIENT_SHARE, LoopedSplit
from solvers.schedule.simulate import Schedule

MAX_STEM = 60


@dataclass(frozen=True)
class Subject:
    """A plan as it is shown: `split` and `costs` are by device of `deployment`, which has replicas as one device.

    `title` is what the app calls the graph. `schedule` and `gantt` are None where no schedule can be shown. `note` says
    how the split differs from the plan's, where the schedule runs one cut anew; empty where it is the plan's.
    """

    title: str
    question: Question
    graph: DnnGraph
    deployment: Deployment
    split: Split
    result: SolveResult
    costs: SplitCosts
    dag: DagInfo
    gantt: GanttInfo | None = None
    schedule: Schedule | None = None
    note: str = ""
    planned: Split | None = None
    """The split that the result is about, where `split` is another."""
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE
    looped: LoopedSplit | None = None
    """The chunks of `split`, where the schedule runs several on each device."""
    result_of_chunks: SolveResult | None = None
    """What is known of `split`, where the result is about another."""

    @property
    def shown_result(self) -> SolveResult:
        """What is known of the split that is shown."""
        return self.result if self.result_of_chunks is None else self.result_of_chunks

    @property
    def plan_split(self) -> Split:
        """The split that the result is about."""
        return self.split if self.planned is None else self.planned

    @property
    def stem(self) -> str:
        """What the names of its files begin with."""
        return file_stem(self.graph.name or self.title)


def file_stem(name: str) -> str:
    """Return a file name of letters, digits, "-" and "_" that every system takes, without its ending.

    >>> file_stem("../BERT base: <training>.json"), file_stem("//")
    ('BERT_base_training', 'graph')
    """
    name = name.rsplit("/", 1)[-1].removesuffix(".json")
    return re.sub(r"[^0-9A-Za-z_-]+", "_", name)[:MAX_STEM].strip("_-") or "graph"


def graph_facts(subject: Subject) -> str:
    """Say in one line what the graph and the hardware are."""
    graph = subject.graph
    kind = "training" if graph.is_training else "inference"
    return f"{count(len(graph.nodes))} nodes, {count(len(graph.edges))} edges, {kind} · {hardware(subject)}"


def hardware(subject: Subject) -> str:
    """Say in one line which devices the plan is for, as they were asked for."""
    deployment = subject.question.deployment
    parts = [f"{device_counts(deployment)}, {memory_text(deployment)}"]
    if deployment.communication is not Communication.SUM:
        parts.append(f"{deployment.communication} transfers")
    if deployment.replication is not None:
        parts.append(f"up to {deployment.replication.max_replicas} replicas of a stage")
    if links := links_text(deployment, subject.graph):
        parts.append(links)
    times = subject.graph.times
    if times is not None and times.accelerator and not deployment.classes:
        parts.append(f"times {times_text(times)}")
    return ", ".join(parts)


def result_facts(subject: Subject) -> tuple[tuple[str, str], ...]:
    """Return what every picture of a plan has to say: value, bound, proof, method and time, as (name, text)."""
    result = subject.shown_result
    return (
        (VALUE_LABELS[result.objective], milliseconds(result.value_ms)),
        ("Proven lower bound", milliseconds(result.lower_bound_ms)),
        ("Proof", proof(result)),
        ("Found by", how_found(result)),
    )


def planned_document(subject: Subject) -> dict[str, Any]:
    """Return the split that the result is about in the format of the paper's release, with the loads of its devices."""
    costs = subject.costs
    if subject.planned is not None:
        costs = split_costs(subject.graph, subject.deployment, subject.planned)
    return judged_split_document(subject.plan_split, costs, subject.result)
