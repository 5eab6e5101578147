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
from dataclasses import replace
from pathlib import Path
from typing import Any

from solvers.catalogue import catalogue, read_catalogue
from solvers.cli_hardware import add_hardware_options, equipment_of, say, sentences_of, with_hardware
from solvers.cli_options import (
    DEFAULT_TIME_LIMIT_S,
    add_model_options,
    bandwidth,
    count,
    efficiency,
    fraction,
    micro_batches,
    names_of,
    one_of,
    positive,
    with_model,
    zero_or_more,
)
from solvers.cli_output import first_interrupt, print_json, print_text, write_bytes
from solvers.costs import Objective
from solvers.dask_cluster import dask_executor
from solvers.errors import DeploymentError, PlacementError
from solvers.graph_json import read_graph
from solvers.prices import PriceBasis, Prices
from solvers.result import SolveResult, SolveStatus
from solvers.solve import METHODS
from solvers.split import Family
from solvers.sweep import PointResult, run_sweep
from solvers.sweep_analysis import Measure
from solvers.sweep_axes import (
    OUR_DEVICES,
    Asked,
    Axis,
    DeviceSource,
    Quantity,
    Value,
    Varied,
    asked_at,
    class_named,
    on_devices,
)
from solvers.sweep_file import SweepFile
from solvers.sweep_front import NO_PRICES, cost_of_all, front_of, front_text, same_cost_text, wish_text
from solvers.sweep_plan import Index, SweepSpec
from solvers.sweep_ranges import RangeError, read_ranges
from solvers.sweep_table import csv_of, parquet_of, sweep_rows, sweep_text
from solvers.worker_processes import WorkerProcesses

PROGRESS_SECONDS = 1.0
"""Progress is told at most this often."""

JOURNAL = ".points.jsonl"
"""Behind the name of the output: the file that keeps the answers of an unfinished sweep."""

INTERRUPTED = 4

AXES = {
    "accelerators": Quantity.ACCELERATORS,
    "cpus": Quantity.CPUS,
    "memory": Quantity.MEMORY,
    "bandwidth": Quantity.BANDWIDTH,
    "micro_batches": Quantity.MICRO_BATCHES,
    "objective": Quantity.OBJECTIVE,
}
"""The options that may hold several values, and what they vary."""
CLASS_OPTIONS = {Quantity.COUNT: "count", Quantity.MEMORY: "memory_of", Quantity.BANDWIDTH: "bandwidth_of"}
"""The options that name one kind of several, and what they vary of it."""


def add_sweep(commands: Any) -> None:
    """Add the command `sweep` to the commands of the parser."""
    parser = commands.add_parser(
        "sweep",
        help="solve over a range of hardware, along one axis or two",
        description="An option with several values is an axis: a list such as 1,2,4,8, a range such as 2:16, one with "
        "a step such as 2:16:2, or one with a factor such as 1:64:x2; several --devices are one, too. One or two "
        "options may be axes.",
    )
    parser.add_argument("graph", type=Path, metavar="GRAPH.json")
    group = parser.add_argument_group("hardware and question", "what is not given here comes from the graph's file")
    group.add_argument("--accelerators", type=several(count), metavar="K,...")
    group.add_argument("--cpus", type=several(count), metavar="L,...")
    group.add_argument("--memory", type=several(positive), metavar="GIB,...", help="of each accelerator")
    group.add_argument(
        "--bandwidth",
        type=several_bandwidths,
        metavar="GB/S,...",
        help="of every link; or multiples of the file's own, such as 0.5x,1x,2x",
    )
    group.add_argument(
        "--objective",
        type=several_of(one_of(Objective)),
        metavar=names_of(Objective) + ",...",
        default=(Objective.THROUGHPUT,),
    )
    group.add_argument(
        "--count",
        type=of_class(count),
        action="append",
        default=[],
        metavar="NAME=N,...",
        help="accelerators of one kind of several, such as T4=0:8; once for each kind that varies",
    )
    group.add_argument(
        "--memory-of",
        type=of_class(positive, 2.0**30),
        action="append",
        default=[],
        metavar="NAME=GIB,...",
        help="memory of one kind of several, such as T4=16,24,32",
    )
    group.add_argument(
        "--bandwidth-of",
        type=of_class(lambda text: positive(text, "GB/s such as 16"), 1e6),
        action="append",
        default=[],
        metavar="NAME=GB/S,...",
        help="links of one kind of several, such as T4=8:64:x2",
    )
    group.add_argument("--family", type=one_of(Family), metavar=names_of(Family), default=Family.CHAIN)
    group.add_argument("--method", choices=list(METHODS), metavar="METHOD", default="auto")
    hardware = parser.add_argument_group("real devices", "of the catalogue that `placement devices` lists")
    add_hardware_options(hardware, efficiency, "append")
    add_model_options(parser, several(micro_batches))
    group = parser.add_argument_group("run")
    group.add_argument(
        "--time-limit", type=positive, default=DEFAULT_TIME_LIMIT_S, metavar="S", help="for each point (default: 60)"
    )
    group.add_argument("--gap", type=fraction, default=0.0, metavar="G", help="at which a point may end (default: 0)")
    group.add_argument(
        "--workers", type=workers, metavar="N", help="local processes (default: one per core of this machine)"
    )
    group.add_argument("--dask", metavar="ADDRESS", help="run on a Dask cluster: tcp://HOST:PORT of its scheduler")
    group = parser.add_argument_group("answer")
    group.add_argument(
        "--out", type=Path, metavar="FILE", help="table of all points: .csv, .parquet or .json by its name"
    )
    group.add_argument(
        "--resume", action="store_true", help=f"go on with an interrupted sweep, from FILE{JOURNAL} beside the output"
    )
    group.add_argument(
        "--price",
        type=prices_of,
        action="append",
        default=[],
        metavar="P|NAME=P,...",
        help="of an accelerator per hour by name, for every kind: A100-80=3.2,T4=0.5; a bare number is for all that "
        "have none of their own (without any price each counts as 1)",
    )
    group.add_argument("--cpu-price", type=price, default=0.0, metavar="P", help="of a CPU (default: 0)")
    group.add_argument("--to-buy", action="store_true", help="prices are those of buying the devices, not of an hour")
    group.add_argument(
        "--at-least", type=positive, metavar="R", help="say what is cheapest with at least R samples a second"
    )
    group.add_argument("--budget", type=positive, metavar="B", help="say what is fastest for at most B")
    group.add_argument(
        "--measure",
        type=one_of(Measure),
        metavar=names_of(Measure),
        default=Measure.THROUGHPUT,
        help="of a table over two axes (default: throughput)",
    )
    group.add_argument("--json", action="store_true", help="print the points as JSON instead of a table")
    parser.set_defaults(run=_sweep)


def _sweep(options: argparse.Namespace) -> int:
    spec = _spec(options)
    prices = _prices(options, spec)
    say(options.hardware)
    write = None if options.out is None else _writer(options.out)
    journal = None if options.out is None else options.out.with_name(options.out.name + JOURNAL)
    if options.resume and journal is None:
        raise PlacementError("--resume needs --out FILE: the answers to go on from are kept beside it.")
    if journal is not None and journal.exists() and not options.resume:
        raise PlacementError(
            f'"{journal}" holds answers of an interrupted sweep; add --resume to go on with them, or delete it.'
        )
    if journal is not None and options.resume and not journal.exists():
        print(f'There is no "{journal}" to go on from; all points are solved.', file=sys.stderr)
    with contextlib.ExitStack() as stack:
        make_executor, num_workers = _executor(options, stack)
        known: dict[Index, SolveResult] = {}
        file = None
        if journal is not None:
            file = stack.enter_context(SweepFile(journal, spec))
            known = dict(file.known)
        if known:
            print(f"{len(known)} of {spec.num_points} points are known.", file=sys.stderr)
        is_interrupted = stack.enter_context(first_interrupt())
        answers, num_failed = dict(known), 0
        tell = _Progress(spec, len(known))
        for answer in run_sweep(spec, make_executor, known=known, at_once=2 * num_workers, is_cancelled=is_interrupted):
            answers[answer.index] = answer.result
            num_failed += answer.is_failed
            if file is not None:
                file.add(answer)
            tell(answer)
    is_complete = len(answers) == spec.num_points and not num_failed
    rows = sweep_rows(spec, answers, prices)
    if options.json:
        print_json({"sweep": spec.digest, "complete": is_complete, "points": rows})
    else:
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
    print(f"placement: {what}{again}.", file=sys.stderr)
    return INTERRUPTED


def _print_what_to_buy(
    options: argparse.Namespace, spec: SweepSpec, answers: dict[Index, SolveResult], prices: Prices
) -> None:
    """Print the Pareto front where prices are given and costs differ, and what meets a wish.

    Beside JSON wishes are messages; the front is marked in its points.
    """
    front, cost = front_of(spec, answers, prices), cost_of_all(spec, prices)
    has_prices = not prices.count_alike or prices.cpu > 0
    if front and has_prices and cost is None and not options.json:
        print_text("\n" + front_text(spec, front, prices) + "\n")
    wishes = wish_text(spec, answers, prices, at_least=options.at_least, budget=options.budget)
    said = [same_cost_text(spec, cost, prices)] if cost is not None and (has_prices or wishes) else []
    said += wishes
    if prices.count_alike and (has_prices or (wishes and (cost is None or options.budget is not None))):
        said.append(NO_PRICES)
    if options.json:
        for sentence in said:
            print(f"placement: {sentence}", file=sys.stderr)
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
    return Prices(usual, options.cpu_price, tuple(known.items()), basis).checked(spec.device_types)


def _without_any(answers: dict[Index, SolveResult]) -> int:
    """Return the exit code of a sweep in which no point has a plan."""
    return 3 if all(result.status is SolveStatus.INFEASIBLE for result in answers.values()) else 4


def _spec(options: argparse.Namespace) -> SweepSpec:
    """Return the sweep that the options describe; options with one value are settings, with several axes.

    What is to be said of the figures becomes `options.hardware`.
    """
    graph, deployment = read_graph(options.graph)
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
        source = DeviceSource(equipment_of(options, given or catalogue()), given)
    else:
        options.devices = lists[0] if lists else None
        graph, deployment, options.hardware = with_hardware(options, graph, deployment)
    axes: list[Axis] = []
    single: dict[str, Value] = {}
    for name, quantity in AXES.items():
        values = getattr(options, name)
        if values is None:
            continue
        if name == "bandwidth":
            values, is_multiple = values
            quantity = Quantity.BANDWIDTH_FACTOR if is_multiple else quantity
            values = values if is_multiple else tuple(value * 1e6 for value in values)
        elif name == "memory":
            values = tuple(value * 2**30 for value in values)
        if len(values) > 1:
            axes.append(Axis(quantity, values))
        else:
            single[quantity] = values[0]
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
            "--bandwidth is that of all links and --bandwidth-of that of one kind; give one of the two."
        )
    for varied, values in classes:
        if len(values) == 1:
            deployment = asked_at(Asked(graph, deployment, Objective.THROUGHPUT), varied, values[0]).deployment
    if Quantity.ACCELERATORS in single:
        deployment = replace(deployment, num_accelerators=int(single[Quantity.ACCELERATORS]))
    if Quantity.CPUS in single:
        deployment = replace(deployment, num_cpus=int(single[Quantity.CPUS]))
    if Quantity.MEMORY in single:
        deployment = replace(deployment, memory_bytes=float(single[Quantity.MEMORY]))
    if Quantity.BANDWIDTH in single:
        graph = graph.with_bandwidth(float(single[Quantity.BANDWIDTH]))
    if Quantity.BANDWIDTH_FACTOR in single:
        graph = graph.with_bandwidth_factor(float(single[Quantity.BANDWIDTH_FACTOR]))
    if options.micro_batches is not None:
        if options.memory_schedule is None:
            raise DeploymentError(
                "--micro-batches says nothing without --memory-schedule: only what is kept in memory depends on them."
            )
        options.micro_batches = int(options.micro_batches[0])  # the axis, if they are one, sets the others
    graph, deployment = with_model(options, graph, deployment)
    spec = SweepSpec(
        graph,
        deployment,
        tuple(axes),
        Objective(str(single.get(Quantity.OBJECTIVE, Objective.THROUGHPUT))),
        options.family,
        options.method,
        options.time_limit,
        options.gap,
        source,
    )
    if len(lists) > 1:
        asked = Asked(graph, deployment, spec.objective, source)
        said = [sentence for text in lists for sentence in sentences_of(on_devices(asked, text), options)]
        options.hardware = tuple(dict.fromkeys(said))
    return spec


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
        left = f", about {per_point * (self._spec.num_points - self._num_done):.0f} s left" if not is_last else ""
        text = f"{self._num_done} of {self._spec.num_points} points in {now - self._began:.0f} s{left}"
        if sys.stderr.isatty():
            print(f"\r{text}\x1b[K", end="\n" if is_last else "", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)


def json_of(rows: list[dict[str, Any]]) -> bytes:
    """Return rows as a JSON list."""
    return json.dumps(rows, indent=1, allow_nan=False).encode() + b"\n"


def several_of(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a reader of values with commas between them."""

    def read_all(text: str) -> tuple[Any, ...]:
        return tuple(read(part.strip()) for part in text.split(","))

    return read_all


def several(read: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return a reader of numbers and ranges, with commas between them."""

    def read_all(text: str) -> tuple[Any, ...]:
        try:
            return read_ranges(text, read)
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
    value = count(text)
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

    >>> of_class(count)("T4=0:4:2")
    ('T4', (0, 2, 4))
    """

    def read_all(text: str) -> tuple[str, tuple[float, ...]]:
        name, equals, values = text.rpartition("=")
        if not equals or not name.strip():
            raise argparse.ArgumentTypeError(
                f"{text[:40]!r} names no kind of accelerators; write NAME=VALUES, such as T4=0:8"
            )
        return name.strip(), tuple(value * unit for value in several(read)(values))

    return read_all
