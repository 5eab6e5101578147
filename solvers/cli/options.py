"""What the commands of the command line ask for: their parser, their options, and the question these describe."""

import argparse
import json
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from solvers.cli.commands import as_help
from solvers.cli.hardware import add_hardware_options, with_hardware
from solvers.cli.input import graph_at
from solvers.cli.output import BAD_INPUT, VIOLATED, print_text, say, tell
from solvers.model.deployment import Deployment
from solvers.model.errors import DeploymentError
from solvers.parameters.asked import QUESTION, Values, begin, demanded, parameter_named
from solvers.parameters.codecs import TextError
from solvers.parameters.hardware import BANDWIDTH, BANDWIDTH_FACTOR, GIB, PER_SERVER, SERVER_LINK_SPEED
from solvers.parameters.parameter import Asked, MemoryOf, Parameter, Scope
from solvers.parameters.question import EXPRESSIBLE_IN, SOLVER_MEMORY
from solvers.parameters.schedule import MEMORY_SCHEDULE

E = TypeVar("E", bound=StrEnum)

NOTHING: Any = object()
"""What an option that is given as none has, to be told from one that is not given."""


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence."""

    def print_help(self, file: Any = None) -> None:
        """Print the help; argparse would say nothing where what is longer than a buffer cannot be written."""
        if file is None:
            print_text(self.format_help())
        else:
            super().print_help(file)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with the code for bad input."""
        tell(f"{self.prog}: {message}; see {self.prog} --help.")
        sys.exit(BAD_INPUT)


def add_parameter(
    group: Any,
    parameter: Parameter[Any],
    *,
    read: Callable[[str], Any] | None = None,
    default: Any = None,
    help_text: str = "",
    metavar: str = "",
    required: bool = False,
) -> None:
    """Add the option of a parameter to a group of a parser, under its name; None where it is not given."""
    assert parameter.flag is not None
    codec = parameter.flag_codec or parameter.codec
    told = as_help(help_text or parameter.help, "" if default is None else codec.write(default))
    group.add_argument(
        parameter.flag,
        dest=parameter.name,
        type=read or reader(parameter),
        default=default,
        required=required,
        metavar=metavar or parameter.metavar or "{" + ",".join(map(codec.write, codec.one_of)) + "}",
        help=told.replace("%", "%%"),
    )


def reader(parameter: Parameter[Any]) -> Callable[[str], Any]:
    """Return a reader of a parameter's values."""
    codec = parameter.flag_codec or parameter.codec

    def read(text: str) -> Any:
        words = tuple(map(codec.write, codec.one_of)) or (
            parameter.limits if isinstance(parameter.limits, tuple) else ()
        )
        try:
            value = codec.read(text)
        except TextError:
            if words:
                raise argparse.ArgumentTypeError(_none_of(text, words)) from None
            raise argparse.ArgumentTypeError(f"{quoted(text)} is not usable; give {parameter.wanted}") from None
        if value is not None and parameter.limits is not None and value not in parameter.limits:
            if words:
                raise argparse.ArgumentTypeError(_none_of(text, words))
            raise argparse.ArgumentTypeError(f"{quoted(text)} is out of range; give {parameter.wanted}")
        return value

    return read


def member_of(kind: type[E]) -> Callable[[str], E]:
    """Return a reader of one of an enumeration's values."""

    def read(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(_none_of(text, tuple(kind))) from None

    return read


def _none_of(text: str, words: tuple[Any, ...]) -> str:
    return f"{quoted(text)} is none of {', '.join(words)}"


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add the options on devices that `read_question` reads."""
    group = parser.add_argument_group("devices", "what is not given here comes from the graph's file")
    for parameter in options_of(Scope.COUNTS):
        add_parameter(group, parameter, read=bandwidth if parameter is BANDWIDTH else _or_nothing(reader(parameter)))
    hardware = parser.add_argument_group("real devices", "of the catalogue that `placement devices` lists")
    add_hardware_options(hardware, reader)


Reader = Callable[[Parameter[Any]], Callable[[str], Any]]


def add_model_options(parser: argparse.ArgumentParser, read: Reader = reader) -> None:
    """Add the options on the model's variants; `read` gives what reads a parameter's values."""
    group = parser.add_argument_group("model", "how devices communicate, share a stage, and what training keeps")
    for parameter in options_of(Scope.MODEL):
        add_parameter(group, parameter, read=_or_nothing(read(parameter)))


def _or_nothing(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader that tells none as NOTHING."""

    def read_or_nothing(text: str) -> Any:
        value = read(text)
        return NOTHING if value is None else value

    return read_or_nothing


def table_bytes_of(options: argparse.Namespace) -> int | None:
    """Return what tables may take as the options say it, in bytes; None for the usual share."""
    gib = getattr(options, SOLVER_MEMORY.name)
    return None if gib is None else int(gib * GIB)


def add_strict(parser: argparse.ArgumentParser) -> None:
    """Add the option that makes what a split breaks a matter of the exit code."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help=f"Exit with code {VIOLATED} if the split violates a constraint or a memory overflows (default: 0 and a "
        "message)",
    )


def options_of(scope: Scope) -> list[Parameter[Any]]:
    """Return the parameters of a scope that have an option."""
    return [parameter for parameter in QUESTION if parameter.scope is scope and parameter.flag is not None]


def read_question(options: argparse.Namespace) -> Asked:
    """Read the graph and return what the options ask of it; what they say of the figures becomes `options.hardware`.

    `options.unrestricted` is the same question where a framework need not be able to express the plan.
    """
    graph, deployment, options.hardware = with_hardware(options, *graph_at(options.graph))
    say(*options.hardware)
    values, start = values_of(options, deployment), begin(graph, deployment)
    others = {name: value for name, value in values.items() if name != EXPRESSIBLE_IN.name}
    options.unrestricted = demanded(others, start)
    return demanded(values, start)


def values_of(options: argparse.Namespace, deployment: Deployment) -> Values:
    """Return the values of the options that are given; DeploymentError where one lacks another.

    Of servers the deployment may have what an option lacks.
    """
    values: dict[str, Any] = {}
    servers = (PER_SERVER, SERVER_LINK_SPEED) if deployment.accelerators_per_server is not None else ()
    for parameter in QUESTION:
        value = getattr(options, parameter.name, None)
        if value is None:
            continue
        needed = parameter.needs
        if hasattr(options, needed) and getattr(options, needed) is None and parameter not in servers:
            option = parameter_named(needed).flag
            raise DeploymentError(f"{parameter.flag} says nothing without {option}; give both, or neither.")
        values[parameter.name] = None if value is NOTHING else value
    if BANDWIDTH.name in values:
        value, is_multiple = values.pop(BANDWIDTH.name)
        values[BANDWIDTH_FACTOR.name if is_multiple else BANDWIDTH.name] = value
    if MEMORY_SCHEDULE.name in values:
        values[MEMORY_SCHEDULE.name] = MemoryOf(values[MEMORY_SCHEDULE.name])
    return values


def quoted(text: str) -> str:
    """Return what somebody typed as a complaint has it."""
    return json.dumps(text if len(text) <= 40 else text[:37] + "...")


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no number; give {what}") from None


def positive(text: str, what: str = "a positive number") -> float:
    """Read a number above 0."""
    value = _number(text, what)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is out of range; give {what}")
    return value


def zero_or_more(text: str, what: str) -> float:
    """Read a number of 0 or more."""
    value = _number(text, what)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is out of range; give {what}")
    return value


def bandwidth(text: str) -> tuple[float, bool]:
    """Return GB/s, or a multiple of the file's own bandwidth and True."""
    is_multiple = text.lower().endswith("x")
    return positive(text[:-1] if is_multiple else text, "GB/s such as 16, or a multiple such as 2x"), is_multiple
