"""The table of all inputs, and the one way from values to a question.

Values are kept by the names of their parameters; what is absent is at its default. Forms take values one by one, in an
order of their own; everything else takes them all at once, in that of the table, in which no default, limit or reason
depends on what comes after it. (That memory in flight may count the timeline's is settled when the schedule is.)
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.parameters import hardware, importing, question, schedule
from solvers.parameters.parameter import Asked, MemoryOf, Parameter, Scope, T, Wish, checked

DEVICES: tuple[Parameter[Any], ...] = (
    hardware.DEVICE_LIST,
    hardware.HOST,
    hardware.EFFICIENCY,
    hardware.MEMORY_EFFICIENCY,
    hardware.MEASURED_ON,
    hardware.ROOFLINE,
)
"""The real devices that are asked for: what puts a graph on them gives the question that the others begin with."""

QUESTION: tuple[Parameter[Any], ...] = (
    hardware.ACCELERATORS,
    hardware.CPUS,
    hardware.MEMORY,
    hardware.BANDWIDTH,
    hardware.BANDWIDTH_FACTOR,
    question.OBJECTIVE,
    question.FAMILY,
    question.SUBGRAPHS,
    question.COMMUNICATION,
    hardware.PER_SERVER,
    hardware.SERVER_LINK_SPEED,
    schedule.MEMORY_SCHEDULE,
    schedule.STATE_FACTOR,
    question.MAX_REPLICAS,
    question.SYNC_BANDWIDTH,
    question.EXPRESSIBLE_IN,
    question.METHOD,
    question.TIME_LIMIT,
    question.GAP,
    schedule.SCHEDULE,
    schedule.MICRO_BATCHES,
    schedule.NUM_CHUNKS,
    schedule.WEIGHT_GRADIENTS,
)
TABLE = (*importing.MODEL, *DEVICES, *QUESTION)
MACHINE: tuple[Parameter[Any], ...] = (question.SOLVER_MEMORY,)
"""What the machine that solves may spend: options of the command line that are no part of a question."""

Values = Mapping[str, Any]
"""What is asked, by the names of parameters, in their units; absent is the default."""


def wish_of(values: Values) -> Wish:
    """Return the real devices that are asked for."""
    return Wish(**{parameter.name: values[parameter.name] for parameter in DEVICES if parameter.name in values})


def parameter_named(name: str) -> Parameter[Any]:
    """Return the parameter of a name; KeyError where there is none."""
    return _BY_NAME[name]


_BY_NAME = {parameter.name: parameter for parameter in TABLE}
BY_ADDRESS = {parameter.address: parameter for parameter in TABLE}


def begin(
    graph: DnnGraph, deployment: Deployment, file: Deployment | None = None, longest_s: float | None = None
) -> Asked:
    """Return the question with everything at its default for a graph on its devices; `file` are those of its file."""
    return Asked(graph, deployment, file or deployment, graph, deployment, longest_s=longest_s)


@dataclass(slots=True)
class Asking:
    """A question while its values are taken, one parameter after the other; `in_vain` says why some were not.

    `values` are those taken that are not the default.
    """

    asked: Asked
    values: dict[str, Any] = field(default_factory=dict)
    in_vain: dict[str, str] = field(default_factory=dict)

    def take(self, parameter: Parameter[T], value: T) -> str:
        """Give the question a value; where it cannot have it, give it the default and return the reason."""
        if reason := parameter.why_not(self.asked):
            self.asked = parameter.idle(self.asked)
            return reason
        usual = parameter.usual(self.asked)
        asked, reason = checked(parameter, self.asked, value)
        if reason:
            asked, value = parameter.put(self.asked, usual), usual
        self.asked = asked
        if value != usual:
            self.values[parameter.name] = value
        return reason

    def leave(self, parameter: Parameter[T]) -> None:
        """Give the question the default of a parameter, where it says anything."""
        self.take(parameter, parameter.usual(self.asked))


def asked(values: Values, start: Asked) -> Asking:
    """Return the question of these values, begun on a graph and its devices (`begin`), as far as it can be asked.

    What cannot be is in `in_vain`, each with a phrase that says why, and is at its default instead.
    """
    asking = Asking(start)
    for parameter in QUESTION:
        if parameter.name in values:
            if reason := asking.take(parameter, values[parameter.name]):
                asking.in_vain[parameter.name] = reason
        else:
            asking.leave(parameter)
    return asking


def demanded(values: Values, start: Asked) -> Asked:
    """Return the question of these values, none left out; PlacementError where one cannot be had.

    Unlike `asked` it lets a value stand that says nothing here; whoever solves the question refuses what contradicts.
    """
    current = start
    for parameter in QUESTION:
        if parameter.name in values:
            current = parameter.taken(current, values[parameter.name])
    return current


def as_asked(
    graph: DnnGraph,
    deployment: Deployment,
    objective: Objective,
    family: Family = Family.CHAIN,
    method: str = "auto",
    time_limit_s: float | None = None,
    gap: float = 0.0,
) -> Asked:
    """Return the record of a question that is known by its parts, so that parameters can be read off it."""
    memory = deployment.training_memory
    known = replace(begin(graph, deployment), objective=objective, family=family, method=method)
    known = replace(known, time_limit_s=time_limit_s, gap=gap)
    if memory is None:
        return known
    return replace(
        known,
        memory_of=MemoryOf(memory.schedule),
        num_micro_batches=memory.num_micro_batches,
        state_factor=memory.state_factor,
    )


def options(known: Asked, scopes: Container[Scope]) -> list[str]:
    """Return the options of a command that has those of these scopes to ask a question of a file.

    What the file holds, and what is so without an option, is left out; what goes with another option goes with it.
    """
    words: list[str] = []
    seen: set[str] = set()
    said: set[str] = set()
    for parameter in QUESTION:
        seen.add(parameter.name)
        value = parameter.get(known)
        if parameter.flag is None or parameter.json is not None or parameter.scope not in scopes or value is None:
            continue
        is_said = parameter.needs in said if parameter.needs in seen else value != parameter.usual(known)
        if is_said:
            words += [parameter.flag, (parameter.flag_codec or parameter.codec).write(value)]
            said.add(parameter.name)
    return words


def changes(old: Asked, new: Asked) -> list[tuple[str, str, str]]:
    """Return the inputs that differ between two questions: noun, value before and value after, as they are written.

    The graphs they are on are left aside.
    """
    pairs = ((parameter, parameter.get(old), parameter.get(new)) for parameter in QUESTION if parameter.noun)
    return [(it.noun, it.written(before), it.written(after)) for it, before, after in pairs if before != after]


def differences(old: Asked, new: Asked) -> list[str]:
    """Say which inputs differ between two questions, one phrase each; the graphs they are on aside.

    Values that are written alike are only named.
    """
    return [f"{noun} {before} → {after}" if before != after else noun for noun, before, after in changes(old, new)]
