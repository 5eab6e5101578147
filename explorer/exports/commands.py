"""How to get a plan again without the app: the commands that ask the same question of the exported files."""

import shlex

from explorer.exports.subject import Subject
from explorer.job_record import Question
from solvers.costs import Objective
from solvers.deployment import Communication
from solvers.schedule import Schedule
from solvers.schedule_types import LOOPED_KINDS, ZERO_BUBBLE_KINDS


def reproduction_commands(subject: Subject, graph_file: str, split_file: str) -> tuple[tuple[str, str], ...]:
    """Return (what it does, command) for the graph and the split of a subject under these file names.

    The graph's file holds devices, memory and bandwidth, so that only what it cannot hold is an option.
    """
    question, names = subject.question, [shlex.quote(graph_file), shlex.quote(split_file)]
    commands = [
        ("Check the plan and its value", _joined("evaluate", *names, *_model(question))),
        ("Solve the same question again", _joined("solve", names[0], *_solving(question), *_model(question))),
        (
            "Compare it with every other method",
            _joined("compare", names[0], "--expert", names[1], *_objective(question.objective), *_model(question)),
        ),
    ]
    if subject.schedule is not None:
        commands.append(
            ("Run the schedule of the timeline", _joined("simulate", *names, *_schedule(subject, subject.schedule)))
        )
    return tuple(commands)


def _joined(*words: str) -> str:
    return " ".join(("placement", *words))


def _objective(objective: Objective) -> list[str]:
    return [] if objective is Objective.THROUGHPUT else ["--objective", str(objective)]


def _solving(question: Question) -> list[str]:
    options = [*_objective(question.objective), "--method", question.method, "--family", str(question.family)]
    if question.time_limit_s is not None:
        options += ["--time-limit", f"{question.time_limit_s:g}"]
    if question.gap > 0:
        options += ["--gap", f"{question.gap:g}"]
    if question.objective is Objective.LATENCY and question.deployment.max_subgraphs > 1:
        options += ["--subgraphs", str(question.deployment.max_subgraphs)]
    return options


def _model(question: Question) -> list[str]:
    """Return the options of the model's variants."""
    deployment, options = question.deployment, list[str]()
    if deployment.communication is not Communication.SUM:
        options += ["--communication", str(deployment.communication)]
    if deployment.replication is not None:
        options += ["--max-replicas", str(deployment.replication.max_replicas)]
        bandwidth = deployment.replication.bandwidth_bytes_per_ms
        if bandwidth is not None:
            options += ["--sync-bandwidth", f"{bandwidth / 1e6:.12g}"]
    memory = deployment.training_memory
    if memory is not None:
        options += ["--memory-schedule", str(memory.schedule), "--micro-batches", str(memory.num_micro_batches)]
        if memory.state_factor is not None:
            options += ["--state-factor", f"{memory.state_factor:.12g}"]
    return options


def _schedule(subject: Subject, schedule: Schedule) -> list[str]:
    options = ["--schedule", str(schedule.kind), "--micro-batches", str(schedule.num_micro_batches)]
    if schedule.kind in LOOPED_KINDS:
        options += ["--chunks", str(schedule.chunks_per_device)]
    if schedule.kind in ZERO_BUBBLE_KINDS:
        options += ["--weight-gradient-share", f"{subject.weight_gradient_share:g}"]
    return options
