"""What the side bar asks for, without a side bar."""

from dataclasses import replace

from explorer.jobs.record import Question
from explorer.state.choice import Choice
from explorer.state.records import LoadedGraph
from solvers.model.graph import DnnGraph
from solvers.parameters.asked import as_asked
from solvers.schedule.records import ScheduleKind


def choice_of(question: Question, loaded: LoadedGraph, graph: DnnGraph | None = None) -> Choice:
    """Return the choice that asks a question, with four micro-batches of inference to show."""
    asked = as_asked(
        graph or loaded.graph,
        question.deployment,
        question.objective,
        question.family,
        question.method,
        question.time_limit_s,
        question.gap,
    )
    return Choice(loaded, replace(asked, schedule=ScheduleKind.INFERENCE, num_micro_batches=4))
