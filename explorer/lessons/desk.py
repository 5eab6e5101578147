"""What a step of a lesson works with: graphs, hardware, and the answers of the solvers that the rest of the app uses.

A setting is written as in an address of Explore ({"sample": "teaching_chain", "accelerators": "2"}), so that lessons
know no words of their own for hardware, and each can be opened on Explore.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from explorer.picture.palette import ThemeName
from explorer.server.byte_cache import remembered
from explorer.server.sizes import graph_bytes, schedule_bytes
from explorer.state.query import Link, from_query
from explorer.state.records import LoadedGraph, Subject
from explorer.sweep.address import subject_of_link
from solvers.model.costs import SplitCosts, split_costs
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import Schedule, simulate

MAX_RUNS = 20_000
"""Runs of a stage on a micro-batch in a timeline of a lesson."""

Setting = Mapping[str, str]
Solver = Callable[[Subject], SolveResult | None]


class SettingError(PlacementError):
    """A setting that Explore does not understand; the text says which part."""


@dataclass
class Desk:
    """One step at work. `solver` answers a question, or returns None while it works on it; then `is_waiting`.

    `own` is the graph of a lesson that brings its own, `key` tells widgets of steps apart, and `is_revealed` says
    whether the step's prediction was made. `is_live` is false where nothing can be pressed: on paper.
    `is_presented` says that it is shown to a room, larger.
    """

    solver: Solver
    theme: ThemeName = "light"
    own: LoadedGraph | None = None
    key: str = "lesson"
    is_revealed: bool = False
    is_live: bool = True
    is_presented: bool = False
    is_waiting: bool = field(default=False)

    def subject(self, setting: Setting) -> Subject:
        """Return the graph on its devices, and the question that Explore asks of it; SettingError where it cannot."""
        return subject_of(setting, self.own)

    def answer(self, setting: Setting) -> SolveResult | None:
        """Return the answer of the production solver; None while it is at work."""
        result = self.solver(self.subject(setting))
        if result is None:
            self.is_waiting = True
        return result

    def costs(self, setting: Setting, split: Split | None = None) -> SplitCosts | None:
        """Return the costs of a split by the evaluator, of the best one by default; None while it is sought."""
        subject = self.subject(setting)
        if split is None:
            result = self.answer(setting)
            split = None if result is None else result.split
        return None if split is None else split_costs(subject.graph, subject.question.deployment, split)

    def schedule(
        self, setting: Setting, kind: ScheduleKind, num_micro_batches: int, split: Split | None = None
    ) -> Schedule | None:
        """Return the simulated schedule of a split, of the best one by default; None while it is sought."""
        subject = self.subject(setting)
        if split is None:
            result = self.answer(setting)
            split = None if result is None else result.split
        if split is None:
            return None
        deployment, graph, placed = subject.question.deployment, subject.graph, split
        return remembered(
            "schedule of a lesson",
            (graph.digest, deployment, placed, kind, num_micro_batches),
            lambda: simulate(graph, deployment, placed, kind, num_micro_batches, max_runs=MAX_RUNS),
            schedule_bytes,
        )


def link_of_setting(setting: Setting, own: LoadedGraph | None) -> Link:
    """Return the address of Explore that a setting stands for; SettingError for parts that it does not know."""
    link, problems = from_query(setting)
    if problems:
        raise SettingError(f"The setting {problems[0]} cannot be used.")
    return link if own is None or link.sample is not None else replace(link, graph=own.graph.digest[:12])


def subject_of(setting: Setting, own: LoadedGraph | None) -> Subject:
    """Return what Explore asks at the address that a setting stands for."""

    def make() -> Subject:
        subject, said = subject_of_link(link_of_setting(setting, own), own)
        if said:
            raise SettingError(said[0])
        return subject

    key = (tuple(sorted(setting.items())), None if own is None else own.graph.digest)
    return remembered("subject of a lesson", key, make, lambda subject: graph_bytes(subject.graph))
