"""The engine from the command line: `placement solve | evaluate | simulate | samples`.

A contract with other programs: JSON on stdout, messages on stderr, and the exit code says how it went: 0 solved,
2 bad input, 3 infeasible, 4 nothing found in time. The first Ctrl-C ends a solve with the best plan so far, as the time
limit would; the second ends the program.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from solvers.costs import Objective, SplitCosts, single_sample_latency, split_costs
from solvers.deployment import MAX_DEVICES, Deployment
from solvers.errors import GraphError, PlacementError
from solvers.graph import DnnGraph
from solvers.graph_json import read_graph, read_split, split_document
from solvers.result import Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.samples import sample_text, samples
from solvers.schedule import Schedule, ScheduleKind, simulate
from solvers.solve import METHODS, solve
from solvers.split import Family, Split, check_split, complete_split

EXIT_CODES = {
    SolveStatus.OPTIMAL: 0,
    SolveStatus.FEASIBLE: 0,
    SolveStatus.INFEASIBLE: 3,
    SolveStatus.UNKNOWN: 4,
}
BAD_INPUT = 2
DEFAULT_TIME_LIMIT_S = 60.0
MAX_MICRO_BATCHES = 10_000
"""Far beyond where a schedule becomes steady; each micro-batch takes memory for every stage."""

Choice = TypeVar("Choice", bound=StrEnum)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with the code for bad input."""
        print(f"{self.prog}: {message}; see {self.prog} --help.", file=sys.stderr)
        sys.exit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PlacementError as error:
        print(f"placement: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("placement: interrupted.", file=sys.stderr)
        return EXIT_CODES[SolveStatus.UNKNOWN]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="placement", description="Place a neural network over devices, provably well.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    solving = commands.add_parser("solve", help="find the best split of a graph")
    solving.add_argument("graph", type=Path, metavar="GRAPH.json")
    solving.add_argument(
        "--objective", type=_one_of(Objective), metavar=_names(Objective), default=Objective.THROUGHPUT
    )
    solving.add_argument("--method", choices=list(METHODS), default="auto")
    solving.add_argument(
        "--family",
        type=_one_of(Family),
        metavar=_names(Family),
        default=Family.CHAIN,
        help="which splits to choose from (default: chain); latency chooses from all",
    )
    _add_device_options(solving)
    solving.add_argument(
        "--time-limit",
        type=_positive,
        default=DEFAULT_TIME_LIMIT_S,
        metavar="S",
        help="seconds after which the best plan so far and its bound are the answer (default: %(default)g)",
    )
    solving.add_argument(
        "--gap",
        type=_fraction,
        default=0.0,
        metavar="G",
        help="stop once the plan is proven to be within this share of the optimum, such as 0.01 (default: prove it)",
    )
    solving.add_argument("--output", type=Path, metavar="SPLIT.json", help="also write the split to a file")
    solving.add_argument("--progress", action="store_true", help="report value and bound on stderr while solving")
    solving.set_defaults(run=_solve)

    evaluating = commands.add_parser("evaluate", help="compute what a split costs and which rules it breaks")
    evaluating.add_argument("graph", type=Path, metavar="GRAPH.json")
    evaluating.add_argument("split", type=Path, metavar="SPLIT.json")
    evaluating.add_argument(
        "--family",
        type=_one_of(Family),
        metavar=_names(Family),
        default=Family.FREE,
        help="also check that it is of this family",
    )
    _add_device_options(evaluating)
    evaluating.set_defaults(run=_evaluate)

    simulating = commands.add_parser("simulate", help="run a split over micro-batches")
    simulating.add_argument("graph", type=Path, metavar="GRAPH.json")
    simulating.add_argument("split", type=Path, metavar="SPLIT.json")
    simulating.add_argument("--schedule", type=_one_of(ScheduleKind), metavar=_names(ScheduleKind), required=True)
    simulating.add_argument("--micro-batches", type=_micro_batches, required=True, metavar="M")
    simulating.add_argument("--slots", action="store_true", help="print every slot too")
    _add_device_options(simulating)
    simulating.set_defaults(run=_simulate)

    sampling = commands.add_parser("samples", help="list the sample graphs, or write one to a file")
    sampling.add_argument("name", nargs="?", metavar="NAME")
    sampling.add_argument("--output", type=Path, metavar="F", help="file to write the sample to")
    sampling.set_defaults(run=_samples)
    return parser


def _add_device_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("devices", "what is not given here comes from the graph's file")
    group.add_argument("--accelerators", type=_count, metavar="K")
    group.add_argument("--cpus", type=_count, metavar="L")
    group.add_argument("--memory", type=_positive, metavar="GIB", help="memory of each accelerator in GiB (2^30 bytes)")
    group.add_argument(
        "--bandwidth",
        type=_bandwidth,
        metavar="GB/S",
        help="of every link, in 10^9 bytes a second; or a multiple of the file's own, such as 2x",
    )


def _read_problem(options: argparse.Namespace) -> tuple[DnnGraph, Deployment]:
    """Read the graph and apply the device options to it."""
    graph, deployment = read_graph(options.graph)
    changes: dict[str, Any] = {}
    if options.accelerators is not None:
        changes["num_accelerators"] = options.accelerators
    if options.cpus is not None:
        changes["num_cpus"] = options.cpus
    if options.memory is not None:
        changes["memory_bytes"] = options.memory * 2**30
    if options.bandwidth is not None:
        value, is_multiple = options.bandwidth
        graph = graph.with_bandwidth_factor(value) if is_multiple else graph.with_bandwidth(value * 1e6)
    return graph, replace(deployment, **changes)


def _solve(options: argparse.Namespace) -> int:
    graph, deployment = _read_problem(options)

    with _first_interrupt() as is_interrupted:

        def watch(progress: Progress) -> None:
            if options.progress:
                value = "-" if progress.incumbent_ms is None else f"{progress.incumbent_ms:.6g} ms"
                bound = "-" if progress.lower_bound_ms is None else f"{progress.lower_bound_ms:.6g} ms"
                print(f"{progress.seconds:7.2f} s  value {value}  bound {bound}  {progress.phase}", file=sys.stderr)
            if is_interrupted():
                raise SolveCancelled

        result = solve(
            graph,
            deployment,
            objective=options.objective,
            method=options.method,
            family=options.family,
            time_limit_s=options.time_limit,
            gap=options.gap,
            on_progress=watch,
        )
    if result.message:
        print(f"placement: {result.message}", file=sys.stderr)
    # Printed first: a plan that took long to find is not lost because the file cannot be written.
    _print_json(solve_document(result, graph, deployment))
    if options.output is not None and result.split is not None:
        _write(options.output, json.dumps(_split_json(result, graph, deployment), indent=1, allow_nan=False) + "\n")
    return EXIT_CODES[result.status]


@contextmanager
def _first_interrupt() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into an answer to `is_interrupted()`; the second interrupts as ever."""
    is_interrupted = False
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield lambda: False  # signals are not ours to handle here
        return

    def note(*_: Any) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: is_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def solve_document(result: SolveResult, graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return the JSON object that `placement solve` prints; numbers that do not exist are null."""
    split = None
    if result.split is not None:
        split = _split_json(result, graph, deployment)
    return {
        "status": str(result.status),
        "method": result.method,
        "objective": str(result.objective),
        "family": str(result.family),
        "value_ms": result.value_ms,
        "lower_bound_ms": result.lower_bound_ms,
        "gap": result.gap,
        "runtime_s": round(result.runtime_s, 6),
        "message": result.message,
        "split": split,
    }


def _split_json(result: SolveResult, graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return a result's split in the format of the paper's release, with its loads."""
    assert result.split is not None
    costs = split_costs(graph, deployment, result.split)
    totals: dict[str, float] = {"maxLoad": costs.max_load_ms}
    if result.objective is Objective.LATENCY and result.value_ms is not None:
        totals = {"totalLatency": result.value_ms}
    return split_document(result.split, tuple(device.load_ms for device in costs.devices), totals)


def _evaluate(options: argparse.Namespace) -> int:
    graph, deployment = _read_problem(options)
    split = complete_split(graph, read_split(options.split))
    costs = split_costs(graph, deployment, split)
    violations = check_split(graph, deployment, split, options.family)
    _print_json(
        {
            "max_load_ms": costs.max_load_ms,
            "gpipe_ms": costs.gpipe_ms if graph.is_training else None,
            "latency_ms": single_sample_latency(graph, deployment, split),
            "bottleneck": _shape(split, deployment).device_name(costs.bottleneck) if costs.devices else None,
            "devices": _device_documents(costs, _shape(split, deployment)),
            "cut_tensors": [
                {
                    "source": tensor.source,
                    "from_device": tensor.from_device,
                    "to_devices": list(tensor.to_devices),
                    "transfer_ms": tensor.transfer_ms,
                    "size_bytes": tensor.size_bytes,
                }
                for tensor in costs.cut_tensors
            ],
            "violations": [
                {"rule": violation.rule, "device": violation.device, "message": violation.message}
                for violation in violations
            ],
        }
    )
    for violation in violations:
        print(f"placement: {violation.message}", file=sys.stderr)
    return 0


def _shape(split: Split, deployment: Deployment) -> Deployment:
    """Return the deployment, or a larger one if the split lists more devices than there are."""
    return replace(
        deployment,
        num_accelerators=max(deployment.num_accelerators, len(split.accelerators)),
        num_cpus=max(deployment.num_cpus, len(split.cpus)),
    )


def _device_documents(costs: SplitCosts, deployment: Deployment) -> list[dict[str, Any]]:
    return [
        {
            "device": device.device,
            "name": deployment.device_name(device.device),
            "load_ms": device.load_ms,
            "compute_ms": device.compute_ms,
            "in_ms": device.receive_ms,
            "out_ms": device.send_ms,
            "forward_ms": device.forward.total_ms,
            "backward_ms": device.backward.total_ms,
            "memory_bytes": device.memory_bytes,
            "capacity_bytes": deployment.capacity_bytes(device.device),
        }
        for device in costs.devices
    ]


def _simulate(options: argparse.Namespace) -> int:
    graph, deployment = _read_problem(options)
    split = complete_split(graph, read_split(options.split))
    for violation in check_split(graph, deployment, split):
        print(f"placement: {violation.message}", file=sys.stderr)
    deployment = _shape(split, deployment)
    schedule = simulate(graph, deployment, split, options.schedule, options.micro_batches)
    _print_json(schedule_document(schedule, deployment, with_slots=options.slots))
    return 0


def schedule_document(schedule: Schedule, deployment: Deployment, *, with_slots: bool) -> dict[str, Any]:
    """Return the JSON object that `placement simulate` prints."""
    document: dict[str, Any] = {
        "schedule": str(schedule.kind),
        "micro_batches": schedule.num_micro_batches,
        "period_ms": schedule.period_ms,
        "makespan_ms": schedule.makespan_ms,
        "warm_up_ms": schedule.warm_up_ms,
        "devices": [
            {
                "device": d,
                "name": deployment.device_name(d),
                "bubble_share": schedule.bubble_fraction[d],
                "peak_in_flight": schedule.peak_in_flight[d],
                "peak_memory_bytes": max((point.memory_bytes for point in schedule.memory[d]), default=0.0),
                "capacity_bytes": deployment.capacity_bytes(d),
            }
            for d in range(deployment.num_devices)
        ],
    }
    if with_slots:
        document["slots"] = [
            {
                "device": slot.device,
                "stage": slot.stage,
                "pass": str(slot.direction),
                "micro_batch": slot.micro_batch,
                "kind": str(slot.kind),
                "start_ms": slot.start_ms,
                "end_ms": slot.end_ms,
            }
            for slot in schedule.slots
        ]
    return document


def _samples(options: argparse.Namespace) -> int:
    if options.name is None:
        if options.output is not None:
            raise GraphError("--output needs the name of a sample; 'placement samples' lists them.")
        _print_json([{"name": info.name, "title": info.title, "description": info.description} for info in samples()])
        return 0
    text = sample_text(options.name).decode("utf-8")
    if options.output is None:
        _print(text)
    else:
        _write(options.output, text)
    return 0


def _print_json(document: Any) -> None:
    _print(json.dumps(document, indent=1, allow_nan=False) + "\n")


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Go on: there may be a file to write, and the exit code
        # stands. Python would complain when it flushes stdout at the end, so that goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = error.strerror if isinstance(error, OSError) else None
        raise PlacementError(f"{json.dumps(str(path))} cannot be written: {reason or 'not a usable path'}.") from None


def _names(enum: type[StrEnum]) -> str:
    return "{" + ",".join(enum) + "}"


def _one_of(enum: type[Choice]) -> Callable[[str], Choice]:
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


def _positive(text: str, what: str = "a positive number") -> float:
    value = _number(text, what)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give {what}")
    return value


def _fraction(text: str) -> float:
    value = _number(text, "a share such as 0.01")
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{_quoted(text)} is out of range; give a share from 0 to less than 1")
    return value


def _count(text: str) -> int:
    return _whole_number(text, 0, MAX_DEVICES)


def _micro_batches(text: str) -> int:
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


def _bandwidth(text: str) -> tuple[float, bool]:
    """Return GB/s, or a multiple of the file's own bandwidth and True."""
    is_multiple = text.lower().endswith("x")
    return _positive(text[:-1] if is_multiple else text, "GB/s such as 16, or a multiple such as 2x"), is_multiple


if __name__ == "__main__":
    sys.exit(main())
