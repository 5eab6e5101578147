"""The command `placement sweep`: many solves over one or two axes, on local processes or a Dask cluster."""

import argparse
import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from solvers.cli.commands import SOLVING, add_command, add_graph
from solvers.cli.hardware import (
    add_hardware_options,
    check_combination,
    check_host,
    equipment_of,
    sentences_of,
    with_hardware,
)
from solvers.cli.input import graph_at
from solvers.cli.options import (
    add_model_options,
    add_parameter,
    bandwidth,
    positive,
    quoted,
    reader,
    table_bytes_of,
    values_of,
    zero_or_more,
)
from solvers.cli.output import (
    STREAM,
    first_interrupt,
    output_path,
    print_json,
    print_text,
    say,
    tell,
    write_bytes,
    write_text,
)
from solvers.hardware.catalogue import catalogue, read_catalogue
from solvers.hardware.device_list import parse_devices
from solvers.hardware.prices import PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.errors import DeploymentError, PlacementError
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family
from solvers.parameters.asked import as_asked, begin, demanded, parameter_named
from solvers.parameters.hardware import ACCELERATORS, BANDWIDTH, CPUS, MEMORY
from solvers.parameters.parameter import AxisTraits, Parameter
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, GAP, METHOD, OBJECTIVE, SOLVER_MEMORY, TIME_LIMIT
from solvers.processes.dask_cluster import dask_executor
from solvers.processes.worker_processes import WorkerProcesses
from solvers.quantities import count, seconds
from solvers.sweep.axes import (
    OUR_DEVICES,
    Axis,
    DeviceSource,
    Quantity,
    Value,
    Varied,
    asked_at,
    class_named,
    on_devices,
)
from solvers.sweep.front import NO_PRICES, cost_of_all, front_of, front_text, same_cost_text, wish_text
from solvers.sweep.journal import SweepFile
from solvers.sweep.measures import Measure
from solvers.sweep.ranges import RangeError, read_ranges
from solvers.sweep.run import PointResult, run_sweep, solve_point
from solvers.sweep.spec import LINKS, MEMORIES, Index, SweepSpec
from solvers.sweep.table import csv_of, parquet_of, sweep_rows, sweep_text

PROGRESS_SECONDS = 1.0
"""Progress is told at most this often."""

JOURNAL = ".points.jsonl"
"""Behind the name of the output: the file that keeps the answers of an unfinished sweep."""

INTERRUPTED = 4

CLASS_OPTIONS = {Quantity.COUNT: "count", Quantity.MEMORY: "memory_of", Quantity.BANDWIDTH: "bandwidth_of"}
"""The options that name one kind of several, and what they vary of it."""


def add_sweep(commands: Any) -> None:
    """Add the command `sweep` to the commands of the parser."""
    parser = add_command(
        commands,
        "sweep",
        "solve over a range of hardware, along one axis or two",
        "sweep gpt2.json --accelerators 1:8 --bandwidth 6,12,24 --output points.csv",
        SOLVING,
        description="An option with several values is an axis: a list such as 1,2,4,8, a range such as 2:16, one with "
        "a step such as 2:16:2, or one with a factor such as 1:64:x2; several --devices are one, too. One or two "
        "options may be axes.",
    )
    add_graph(parser)
    group = parser.add_argument_group("hardware and question", "what is not given here comes from the graph's file")
    for parameter in (ACCELERATORS, CPUS, MEMORY):
        add_parameter(group, parameter, read=several_of(parameter), metavar=f"{parameter.metavar},...")
    add_parameter(group, BANDWIDTH, read=several_bandwidths, metavar="GB/S,...")
    add_parameter(group, OBJECTIVE, read=several_of(OBJECTIVE))
    group.add_argument(
        "--count",
        type=of_class(reader(ACCELERATORS)),
        action="append",
        default=[],
        metavar="NAME=N,...",
        help="Number of accelerators of one device type, such as T4=0:8; once for each type that varies",
    )
    group.add_argument(
        "--memory-of",
        type=of_class(positive, 2.0**30),
        action="append",
        default=[],
        metavar="NAME=GIB,...",
        help="Memory in GiB of one device type, such as T4=16,24,32",
    )
    group.add_argument(
        "--bandwidth-of",
        type=of_class(lambda text: positive(text, "GB/s such as 16"), 1e6),
        action="append",
        default=[],
        metavar="NAME=GB/S,...",
        help="Bandwidth in GB/s of the links of one device type, such as T4=8:64:x2",
    )
    add_parameter(group, FAMILY, default=Family.CHAIN)
    add_parameter(group, METHOD, default="auto")
    hardware = parser.add_argument_group("real devices", "of the catalogue that `placement devices` lists")
    add_hardware_options(hardware, reader, "append")
    add_model_options(parser, several_of)
    group = parser.add_argument_group("run")
    add_parameter(group, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S, help_text="Seconds for each point")
    add_parameter(group, GAP, default=0.0, help_text="Share of its optimum at which a point may end")
    add_parameter(group, SOLVER_MEMORY)
    group.add_argument(
        "--workers", type=workers, metavar="N", help="Number of processes (default: one per core of this machine)"
    )
    group.add_argument(
        "--dask", metavar="ADDRESS", help="Run on a Dask cluster: tcp:// or tls://HOST:PORT of its scheduler"
    )
    group = parser.add_argument_group("answer")
    group.add_argument(
        "-o",
        "--output",
        "--out",  # its name before other commands had an output
        type=output_path,
        metavar="FILE",
        help="File for a table of all points: .csv, .parquet or .json",
    )
    group.add_argument(
        "--resume", action="store_true", help=f"Go on with an interrupted sweep, from FILE{JOURNAL} beside the output"
    )
    group.add_argument(
        "--price",
        type=prices_of,
        action="append",
        default=[],
        metavar="P|NAME=P,...",
        help="Price of an accelerator per hour by name, for every device type: A100-80=3.2,T4=0.5; a bare number is "
        "for all that have none of their own (without any price each counts as 1)",
    )
    group.add_argument("--cpu-price", type=price, default=0.0, metavar="P", help="Price of a CPU (default: 0)")
    group.add_argument(
        "--memory-price",
        type=price,
        default=0.0,
        metavar="P",
        help="Price of a GiB of an accelerator's memory, for a sweep over memory (default: 0)",
    )
    group.add_argument(
        "--link-price",
        type=price,
        default=0.0,
        metavar="P",
        help="Price of a GB/s of an accelerator's link, for a sweep over links; over multiples of their speed, of a "
        "link as it is (default: 0)",
    )
    group.add_argument(
        "--currency", default="", metavar="EUR", help="Currency of all prices: a sign, or up to five letters"
    )
    group.add_argument("--to-buy", action="store_true", help="Prices are those of buying the devices, not of an hour")
    group.add_argument(
        "--at-least",
        type=positive,
        metavar="R",
        help="Say what is cheapest with a throughput of at least R, in the unit of the table: what micro-batches hold, "
        "such as sequences, per second where the graph says so, else micro-batches per second",
    )
    group.add_argument("--budget", type=positive, metavar="B", help="Say what is fastest for at most B")
    group.add_argument(
        "--measure",
        type=Measure,
        choices=list(Measure),
        default=Measure.THROUGHPUT,
        help="Figure of a table over two axes (default: throughput)",
    )
    group.add_argument("--json", action="store_true", help="Print the points as JSON instead of a table")
    parser.set_defaults(run=_sweep)


def _sweep(options: argparse.Namespace) -> int:
    spec = _spec(options)
    prices = _prices(options, spec)
    say(*options.hardware)
    is_streamed = options.output == STREAM
    write = None if options.output is None else _writer(options.output)
    journal = None if options.output is None or is_streamed else options.output.with_name(options.output.name + JOURNAL)
    if is_streamed and options.json:
        raise PlacementError("--json and --output - both write the points to stdout; give one of them.")
    if options.resume and journal is None:
        raise PlacementError("--resume needs --output FILE: the answers to go on from are kept beside it.")
    if journal is not None and journal.exists() and not options.resume:
        raise PlacementError(
            f'"{journal}" holds answers of an interrupted sweep; add --resume to go on with them, or delete it.'
        )
    if journal is not None and options.resume and not journal.exists():
        tell(f'There is no "{journal}" to go on from; all points are solved.')
    with contextlib.ExitStack() as stack:
        make_executor, num_workers = _executor(options, stack)
        known: dict[Index, SolveResult] = {}
        file = None
        if journal is not None:
            file = stack.enter_context(SweepFile(journal, spec))
            known = dict(file.known)
        if known:
            tell(f"{len(known)} of {spec.num_points} points are known.")
        is_interrupted = stack.enter_context(first_interrupt())
        answers, num_failed = dict(known), 0
        progress = _Progress(spec, len(known))
        for answer in run_sweep(
            spec,
            make_executor,
            known=known,
            at_once=2 * num_workers,
            is_cancelled=is_interrupted,
            solve_one=partial(solve_point, table_bytes=table_bytes_of(options)),
        ):
            answers[answer.index] = answer.result
            num_failed += answer.is_failed
            if file is not None:
                file.add(answer)
            progress(answer)
    is_complete = len(answers) == spec.num_points and not num_failed
    rows = sweep_rows(spec, answers, prices)
    if options.json:
        print_json({"sweep": spec.digest, "complete": is_complete, "points": rows})
    elif not is_streamed:
        print_text(sweep_text(spec, answers, prices, options.measure) + "\n")
    _print_what_to_buy(options, spec, answers, prices)
    if write is not None:
        write(rows)
    if is_complete and journal is not None:
        journal.unlink(missing_ok=True)
    if is_complete:
        return 0 if any(result.value_ms is not None for result in answers.values()) else _without_any(answers)
    missing = spec.num_points - len(answers)
    what = f"{missing} of {spec.num_points} points are not solved" if missing else f"{num_failed} points failed"
    again = "; the same command with --resume goes on" if journal is not None else ""
    say(f"{what}{again}.")
    return INTERRUPTED


def _print_what_to_buy(
    options: argparse.Namespace, spec: SweepSpec, answers: dict[Index, SolveResult], prices: Prices
) -> None:
    """Print the Pareto front where prices are given and costs differ, and what meets a wish.

    Beside JSON and CSV wishes are messages; the front is marked in their points.
    """
    is_data = options.json or options.output == STREAM
    front, cost = front_of(spec, answers, prices), cost_of_all(spec, prices)
    has_prices = not prices.has_none
    if front and has_prices and cost is None and not is_data:
        print_text("\n" + front_text(spec, front, prices) + "\n")
    wishes = wish_text(spec, answers, prices, at_least=options.at_least, budget=options.budget)
    said = [same_cost_text(spec, cost, prices)] if cost is not None and (has_prices or wishes) else []
    said += wishes
    if prices.count_alike and (has_prices or (wishes and (cost is None or options.budget is not None))):
        said.append(NO_PRICES)
    if is_data:
        say(*said)
    elif said:
        print_text("\n" + "\n".join(said) + "\n")


def _prices(options: argparse.Namespace, spec: SweepSpec) -> Prices:
    """Return the prices of the options; PlacementError for one of no device of the sweep, and for one that lacks."""
    named = [one for given in options.price for one in given]
    known = dict(named)
    for name in known:
        if sum(other == name for other, _ in named) > 1:
            raise PlacementError(f"The price of {name or 'all others'} is given twice; keep one.")
    basis = PriceBasis.TO_BUY if options.to_buy else PriceBasis.PER_HOUR
    usual = known.pop("", None)
    for what, value, quantities in (
        ("memory", options.memory_price, MEMORIES),
        ("links", options.link_price, LINKS),
    ):
        if value and not spec.varies(quantities):
            raise PlacementError(f"There is a price of {what}, which this sweep does not vary; leave it out.")
    of = tuple(known.items())
    prices = Prices(usual, options.cpu_price, of, basis, options.memory_price, options.link_price, options.currency)
    return prices.checked(spec.device_types)


def _without_any(answers: dict[Index, SolveResult]) -> int:
    """Return the exit code of a sweep in which no point has a plan."""
    return 3 if all(result.status is SolveStatus.INFEASIBLE for result in answers.values()) else 4


def _spec(options: argparse.Namespace) -> SweepSpec:
    """Return the sweep that the options describe; options with one value are settings, with several axes.

    What is to be said of the figures becomes `options.hardware`.
    """
    graph, deployment = graph_at(options.graph)
    lists = tuple(options.devices or ())
    source = OUR_DEVICES
    options.hardware = ()
    if len(lists) > 1:
        if options.device or options.link or options.precision:
            raise PlacementError(
                "Several --devices vary; write link and precision into each, as in A100-80:link=nvlink3, and leave out "
                "--device, --link and --precision."
            )
        given = None if options.catalogue is None else read_catalogue(options.catalogue)
        for one in lists:
            check_combination(options, parse_devices(one))
            check_host(options, parse_devices(one), given or catalogue())
        if len(several_values_of(options, deployment).get("memory", (1, 2))) == 1:
            raise PlacementError("Several --devices have memory of their own; leave --memory out, or sweep it.")
        source = DeviceSource(equipment_of(options, given or catalogue()), given)
    else:
        options.devices = lists[0] if lists else None
        graph, deployment, options.hardware = with_hardware(options, graph, deployment)
    axes: list[Axis] = []
    values: dict[str, Any] = {}
    for name, given in several_values_of(options, deployment).items():
        parameter = parameter_named(name)
        if parameter.axis is None:
            values[name] = given
            continue
        if len(given) > 1:
            axes.append(Axis(Quantity(parameter.axis.name), tuple(_in_units(parameter.axis, one) for one in given)))
        if len(given) == 1 or parameter.needs:  # what another option goes with is asked at its first value, too
            values[name] = given[0]
    if len(lists) > 1:
        axes.append(Axis(Quantity.DEVICES, lists))
    classes = [
        (Varied(quantity, name if len(lists) > 1 else class_named(deployment, name)), values)
        for quantity, given in CLASS_OPTIONS.items()
        for name, values in getattr(options, given)
    ]
    for varied, _ in classes:
        if sum(other == varied for other, _ in classes) > 1:
            raise PlacementError(f"The {varied} is given twice; keep one.")
    axes += [Axis(varied.quantity, values, varied.of_class) for varied, values in classes if len(values) > 1]
    if not axes:
        raise PlacementError("Nothing varies; give one or two options several values, such as --accelerators 2:16.")
    if len(axes) > 2:
        raise PlacementError(
            f"{' and '.join(str(axis.varied) for axis in axes)} vary; a sweep has one axis or two, so fix the others."
        )
    if options.bandwidth is not None and options.bandwidth_of:
        raise PlacementError(
            "--bandwidth is for all interconnects and --bandwidth-of for one device type; give one of the two."
        )
    for varied, of_one in classes:
        if len(of_one) == 1:
            plain = as_asked(graph, deployment, Objective.THROUGHPUT)
            deployment = asked_at(plain, varied, of_one[0]).deployment
    asked = demanded(values, begin(graph, deployment))
    spec = SweepSpec(
        asked.graph,
        asked.deployment,
        tuple(axes),
        asked.objective,
        asked.family,
        asked.method,
        asked.time_limit_s,
        asked.gap,
        source,
        asked.expressible_in,
    )
    if len(lists) > 1:
        on = [on_devices(asked.graph, asked.deployment, text, source) for text in lists]
        said = [sentence for equipped in on for sentence in sentences_of(equipped, options)]
        options.hardware = tuple(dict.fromkeys(said))
    return spec


def several_values_of(options: argparse.Namespace, deployment: Deployment) -> dict[str, Any]:
    """Return the values of the options that are given, several of those that may vary."""
    if options.micro_batches is not None and options.memory_schedule is None:
        raise DeploymentError(
            "--micro-batches says nothing without --memory-schedule: only what is kept in memory depends on them."
        )
    return dict(values_of(options, deployment))


def _in_units(axis: AxisTraits, value: Any) -> Value:
    return str(value) if isinstance(value, str) else value * axis.factor if axis.factor != 1 else value


def _executor(options: argparse.Namespace, stack: contextlib.ExitStack) -> tuple[Callable[[], Executor], int]:
    """Return what makes the executor, and the number of its workers."""
    if options.dask is not None:
        if options.workers is not None:
            raise PlacementError("--workers are local processes and --dask names a cluster; give one of the two.")
        return stack.enter_context(dask_executor(options.dask))
    num_workers = options.workers or os.cpu_count() or 1
    return lambda: WorkerProcesses(num_workers), num_workers


def _writer(path: Path) -> Callable[[list[dict[str, Any]]], None]:
    """Return what writes the table in the format that the name of its file asks for; PlacementError for another."""
    kinds: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
        ".csv": lambda rows: csv_of(rows).encode(),
        ".parquet": parquet_of,
        ".json": json_of,
    }
    if path == STREAM:
        return lambda rows: write_text(path, csv_of(rows))
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise PlacementError(f'"{path}": the name of the output must end in {", ".join(kinds)}.')
    return lambda rows: write_bytes(path, kind(rows))


class _Progress:
    """Tells on stderr how far a sweep is: on a terminal in one line that changes, in a log now and then."""

    def __init__(self, spec: SweepSpec, num_known: int) -> None:
        self._spec, self._num_known, self._num_done = spec, num_known, num_known
        self._began = self._told = time.monotonic()

    def __call__(self, answer: PointResult) -> None:
        self._num_done += 1
        now = time.monotonic()
        is_last = self._num_done == self._spec.num_points
        if now - self._told < PROGRESS_SECONDS and not is_last:
            return
        self._told = now
        per_point = (now - self._began) / (self._num_done - self._num_known)
        left = f", about {seconds(per_point * (self._spec.num_points - self._num_done))} left" if not is_last else ""
        text = f"{count(self._num_done)} of {count(self._spec.num_points)} points in {seconds(now - self._began)}{left}"
        if sys.stderr.isatty():
            tell(f"\r{text}\x1b[K", end="\n" if is_last else "")
        else:
            tell(text)


def json_of(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a JSON list."""
    return json.dumps(rows, indent=1, allow_nan=False).encode() + b"\n"


def several_of(parameter: Parameter[Any]) -> Callable[[str], Any]:
    """Return a reader of the values of a parameter that may vary, or of its one value: numbers and ranges, or words."""
    read = reader(parameter)
    if parameter.axis is None:
        return read
    if parameter.codec.one_of:
        return lambda text: tuple(read(part.strip()) for part in text.split(","))
    read_all = several(read)
    is_optional = parameter.codec.is_optional
    return lambda text: (None,) if is_optional and text.strip() == "none" else read_all(text)


def several(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a reader of numbers and ranges, with commas between them; none is no number."""

    def read_number(text: str) -> Any:
        value = read(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"{quoted(text)} is no number, and several values have to be numbers")
        return value

    def read_all(text: str) -> tuple[Any, ...]:
        try:
            return read_ranges(text, read_number)
        except RangeError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_all


def several_bandwidths(text: str) -> tuple[tuple[float, ...], bool]:
    """Return values in GB/s, or multiples of the file's own bandwidth and True.

    Both ends of a range are of one kind; its step is neither.

    >>> several_bandwidths("1,2,4"), several_bandwidths("0.5x:2x:x2")
    (((1.0, 2.0, 4.0), False), ((0.5, 1.0, 2.0), True))
    """
    plain = re.sub(r"(?<=[\d.])[xX](?=\s*([,:]|$))", "", text)
    ends = [end for part in text.split(",") for end in part.split(":")[:2]]
    are_multiples = {end.strip()[-1:] in ("x", "X") for end in ends}
    if len(are_multiples) > 1:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} mixes GB/s and multiples of the file's own; give all values with an x, or none"
        )
    values = several(lambda part: bandwidth(part)[0])(plain)
    return values, are_multiples == {True}


def workers(text: str) -> int:
    """Read a number of processes."""
    value: int = reader(ACCELERATORS)(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range; give at least 1 worker")
    return value


def price(text: str) -> float:
    """Read a price."""
    return zero_or_more(text, "a price of 0 or more")


def prices_of(text: str) -> tuple[tuple[str, float], ...]:
    """Read one price for all accelerators, whose name is empty, or prices by name.

    >>> prices_of("2.5"), prices_of("A100-80=3.2, T4=0")
    ((('', 2.5),), (('A100-80', 3.2), ('T4', 0.0)))
    """
    parts = text.split(",")
    if len(parts) == 1 and "=" not in text:
        return (("", price(text)),)
    found = []
    for part in parts:
        name, _, value = part.rpartition("=")
        if not name.strip():
            raise argparse.ArgumentTypeError(
                f"{part.strip()[:40]!r} in {text[:80]!r} has no name; write NAME=P,NAME=P with decimal points, and one "
                "price for all others in a --price of its own"
            )
        found.append((name.strip(), price(value)))
    return tuple(found)


def of_class(read: Callable[[str], float], unit: float = 1) -> Callable[[str], tuple[str, tuple[float, ...]]]:
    """Return a reader of the name of a class and values for it, which `unit` turns into those of an axis.

    >>> of_class(reader(ACCELERATORS))("T4=0:4:2")
    ('T4', (0, 2, 4))
    """

    def read_all(text: str) -> tuple[str, tuple[float, ...]]:
        name, equals, values = text.rpartition("=")
        if not equals or not name.strip():
            raise argparse.ArgumentTypeError(f"{text[:40]!r} names no device type; write NAME=VALUES, such as T4=0:8")
        return name.strip(), tuple(value * unit for value in several(read)(values))

    return read_all
