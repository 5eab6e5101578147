"""What the commands of the command line ask for: their parser, their options, and the problem these describe."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from solvers.cli_hardware import add_hardware_options, say, with_hardware
from solvers.cli_output import BAD_INPUT
from solvers.deployment import (
    MAX_DEVICES,
    MAX_SUBGRAPHS,
    Communication,
    Deployment,
    InFlight,
    Replication,
    TrainingMemory,
)
from solvers.errors import DeploymentError
from solvers.graph import DnnGraph
from solvers.graph_json import read_graph

DEFAULT_TIME_LIMIT_S = 60.0
MAX_MICRO_BATCHES = 10_000
"""Far beyond where a schedule becomes steady; each micro-batch takes memory for every stage."""

Choice = TypeVar("Choice", bound=StrEnum)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with the code for bad input."""
        print(f"{self.prog}: {message}; see {self.prog} --help.", file=sys.stderr)
        sys.exit(BAD_INPUT)


def add_device_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_problem` reads."""
    group = parser.add_argument_group("devices", "what is not given here comes from the graph's file")
    group.add_argument("--accelerators", type=count, metavar="K")
    group.add_argument("--cpus", type=count, metavar="L")
    group.add_argument("--memory", type=positive, metavar="GIB", help="memory of each accelerator in GiB (2^30 bytes)")
    group.add_argument(
        "--subgraphs",
        type=subgraphs,
        metavar="Q",
        help="for latency: each accelerator runs up to Q subgraphs one after the other (default: 1)",
    )
    group.add_argument(
        "--bandwidth",
        type=bandwidth,
        metavar="GB/S",
        help="of every link, in 10^9 bytes a second; or a multiple of the file's own, such as 2x",
    )
    hardware = parser.add_argument_group("real devices", "of the catalogue that `placement devices` lists")
    add_hardware_options(hardware, efficiency)


def read_problem(options: argparse.Namespace) -> tuple[DnnGraph, Deployment]:
    """Read the graph and apply the device options to it; what they say of the figures becomes `options.hardware`."""
    graph, deployment, options.hardware = with_hardware(options, *read_graph(options.graph))
    say(options.hardware)
    changes: dict[str, Any] = {}
    if options.accelerators is not None:
        changes["num_accelerators"] = options.accelerators
    if options.cpus is not None:
        changes["num_cpus"] = options.cpus
    if options.memory is not None:
        changes["memory_bytes"] = options.memory * 2**30
    if options.subgraphs is not None:
        changes["max_subgraphs"] = options.subgraphs
    if options.bandwidth is not None:
        value, is_multiple = options.bandwidth
        graph = graph.with_bandwidth_factor(value) if is_multiple else graph.with_bandwidth(value * 1e6)
    return graph, replace(deployment, **changes)


def add_model_options(parser: argparse.ArgumentParser, read_micro_batches: Callable[[str], Any] | None = None) -> None:
    """Add the options that `with_model` reads; `read_micro_batches` reads other values than one number."""
    group = parser.add_argument_group("model", "how devices communicate, share a stage, and what training keeps")
    group.add_argument(
        "--communication",
        type=one_of(Communication),
        metavar=names_of(Communication),
        default=Communication.SUM,
        help="compute + transfers; the larger of both; or compute + the larger of receiving and sending",
    )
    group.add_argument(
        "--max-replicas", type=replicas, metavar="R", help="accelerators a stage may run on (default: 1)"
    )
    group.add_argument(
        "--sync-bandwidth",
        type=positive,
        metavar="GB/S",
        help="at which replicas exchange gradients (default: that of the links)",
    )
    group.add_argument(
        "--accelerators-per-server",
        type=replicas,
        metavar="N",
        help="the first N accelerators are in one server, the next N in another, and so on",
    )
    group.add_argument(
        "--server-link-speed",
        type=positive,
        metavar="X",
        help="links within a server are X times as fast as those between servers and to CPUs",
    )
    group.add_argument(
        "--memory-schedule",
        type=one_of(InFlight),
        metavar=names_of(InFlight),
        help="count the activations of all micro-batches in flight, and all versions of the weights",
    )
    group.add_argument(
        "--micro-batches", type=read_micro_batches or micro_batches, metavar="M", help="of that schedule"
    )
    group.add_argument(
        "--state-factor",
        type=positive,
        metavar="F",
        help="weights, gradients and optimiser state as a multiple of the weights (default: from the sizes)",
    )


def with_model(options: argparse.Namespace, graph: DnnGraph, deployment: Deployment) -> tuple[DnnGraph, Deployment]:
    """Return the graph and the deployment with the model options applied; DeploymentError where one lacks another."""
    for option, value, needed, base in (
        ("--sync-bandwidth", options.sync_bandwidth, "--max-replicas", options.max_replicas),
        ("--micro-batches", options.micro_batches, "--memory-schedule", options.memory_schedule),
        ("--state-factor", options.state_factor, "--memory-schedule", options.memory_schedule),
        ("--memory-schedule", options.memory_schedule, "--micro-batches", options.micro_batches),
        (
            "--accelerators-per-server",
            options.accelerators_per_server,
            "--server-link-speed",
            options.server_link_speed,
        ),
        (
            "--server-link-speed",
            options.server_link_speed,
            "--accelerators-per-server",
            options.accelerators_per_server,
        ),
    ):
        if value is not None and base is None:
            raise DeploymentError(f"{option} says nothing without {needed}; give both, or neither.")
    replication = memory = None
    if options.max_replicas is not None:
        speed = None if options.sync_bandwidth is None else options.sync_bandwidth * 1e6
        replication = Replication(options.max_replicas, speed)
    if options.memory_schedule is not None:
        memory = TrainingMemory(options.memory_schedule, options.micro_batches, options.state_factor)
    if options.accelerators_per_server is not None:
        deployment = replace(
            deployment,
            accelerators_per_server=options.accelerators_per_server,
            server_link_speed=options.server_link_speed,
        )
    return graph, replace(
        deployment, communication=options.communication, replication=replication, training_memory=memory
    )


def names_of(enum: type[StrEnum]) -> str:
    """Write an enum's values the way argparse shows choices."""
    return "{" + ",".join(enum) + "}"


def one_of(enum: type[Choice]) -> Callable[[str], Choice]:
    """Return a reader of one of the enum's values."""

    def read(text: str) -> Choice:
        try:
            return enum(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{_quoted(text)} is none of {', '.join(enum)}") from None

    return read


def _quoted(text: str) -> str:
    return json.dumps(text if len(text) <= 40 else text[:37] + "...")


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is no number; give {what}") from None


def positive(text: str, what: str = "a positive number") -> float:
    """Read a number above 0."""
    value = _number(text, what)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give {what}")
    return value


def zero_or_more(text: str, what: str) -> float:
    """Read a number of 0 or more."""
    value = _number(text, what)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give {what}")
    return value


def fraction(text: str) -> float:
    """Read a share from 0 to less than 1."""
    value = _number(text, "a share such as 0.01")
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give a share from 0 to less than 1")
    return value


def efficiency(text: str) -> float:
    """Read a share above 0 and up to 1."""
    value = _number(text, "a share such as 0.5")
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give a share above 0 and up to 1")
    return value


def count(text: str) -> int:
    """Read a number of devices."""
    return _whole_number(text, 0, MAX_DEVICES)


def replicas(text: str) -> int:
    """Read a number of accelerators per stage."""
    return _whole_number(text, 1, MAX_DEVICES)


def subgraphs(text: str) -> int:
    """Read a number of subgraphs per accelerator."""
    return _whole_number(text, 1, MAX_SUBGRAPHS)


def micro_batches(text: str) -> int:
    """Read a number of micro-batches."""
    return _whole_number(text, 1, MAX_MICRO_BATCHES)


def _whole_number(text: str, least: int, most: int) -> int:
    what = f"a whole number from {least} to {most}"
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is no whole number; give {what}") from None
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give {what}")
    return value


def bandwidth(text: str) -> tuple[float, bool]:
    """Return GB/s, or a multiple of the file's own bandwidth and True."""
    is_multiple = text.lower().endswith("x")
    return positive(text[:-1] if is_multiple else text, "GB/s such as 16, or a multiple such as 2x"), is_multiple
