"""How to get a plan again without the app: the commands that ask the same question of the exported files."""

import shlex

from explorer.figures.subject import Subject
from solvers.model.costs import Objective
from solvers.parameters.asked import as_asked, options
from solvers.parameters.parameter import Scope
from solvers.parameters.question import OBJECTIVE
from solvers.parameters.schedule import MICRO_BATCHES, NUM_CHUNKS, SCHEDULE, WEIGHT_GRADIENTS
from solvers.schedule.records import LOOPED_KINDS, ZERO_BUBBLE_KINDS
from solvers.schedule.simulate import Schedule


def reproduction_commands(subject: Subject, graph_file: str, split_file: str) -> tuple[tuple[str, str], ...]:
    """Return (what it does, command) for the graph and the split of a subject under these file names.

    The graph's file holds devices, memory and bandwidth, so that only what it cannot hold is an option.
    """
    names = [shlex.quote(graph_file), shlex.quote(split_file)]
    commands = [
        ("Check the plan and its value", _joined("evaluate", *names, *_model(subject))),
        ("Solve the same question again", _joined("solve", names[0], *_model(subject, Scope.SEARCH))),
        (
            "Compare it with every other method",
            _joined("compare", names[0], "--expert", names[1], *_objective(subject), *_model(subject)),
        ),
    ]
    if subject.schedule is not None:
        commands.append(
            ("Run the schedule of the timeline", _joined("simulate", *names, *_schedule(subject, subject.schedule)))
        )
    return tuple(commands)


def _joined(*words: str) -> str:
    return " ".join(("placement", *words))


def _objective(subject: Subject) -> list[str]:
    objective = subject.question.objective
    return [] if objective is Objective.THROUGHPUT else [str(OBJECTIVE.flag), str(objective)]


def _model(subject: Subject, *more: Scope) -> list[str]:
    """Return the options of the model's variants, and of more."""
    question = subject.question
    known = as_asked(
        subject.graph,
        question.deployment,
        question.objective,
        question.family,
        question.method,
        question.time_limit_s,
        question.gap,
    )
    return options(known, {Scope.COUNTS, Scope.MODEL, *more})


def _schedule(subject: Subject, schedule: Schedule) -> list[str]:
    words = [str(SCHEDULE.flag), str(schedule.kind), str(MICRO_BATCHES.flag), str(schedule.num_micro_batches)]
    if schedule.kind in LOOPED_KINDS:
        words += [str(NUM_CHUNKS.flag), str(schedule.chunks_per_device)]
    if schedule.kind in ZERO_BUBBLE_KINDS:
        words += [str(WEIGHT_GRADIENTS.flag), f"{subject.weight_gradient_share:g}"]
    return words
