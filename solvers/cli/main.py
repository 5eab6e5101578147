"""The engine from the command line: `placement solve`, `evaluate`, `explain`, `simulate`, `export` and others.

A contract with other programs: JSON on stdout, messages on stderr, and the exit code says how it went: 0 solved,
2 bad input, 3 infeasible, 4 nothing found in time. The first Ctrl-C ends a solve with the best plan so far, as the time
limit would; the second ends the program.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from solvers.analysis.framework_price import FrameworkPrice, price_document, price_text
from solvers.baselines.table import BASELINES
from solvers.cli.explain import add_explain
from solvers.cli.export import add_export
from solvers.cli.hardware import add_devices
from solvers.cli.importing import add_import
from solvers.cli.options import Parser, add_device_options, add_model_options, add_parameter, read_question
from solvers.cli.output import BAD_INPUT, EXIT_CODES, first_interrupt, print_json, print_text, write_text
from solvers.cli.profiling import add_profile
from solvers.cli.simulate import add_simulate
from solvers.cli.sweep import add_sweep
from solvers.cli.tables import add_compare, add_reproduce, progress_text
from solvers.formats.graph_json import read_split, split_document
from solvers.model.costs import Objective, single_sample_latency, split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError, PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import LOADING, Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Family, Split, Violation, check_split, complete_split
from solvers.parameters.parameter import Asked
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, GAP, METHOD, OBJECTIVE, TIME_LIMIT
from solvers.problem.solving import MethodError
from solvers.samples import sample_text, samples
from solvers.solve import solve

LOADING_IS_COMPILING_S = 2.0
"""A solver that takes longer to load is being compiled."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = command_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except PlacementError as error:
        print(f"placement: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("placement: interrupted.", file=sys.stderr)
        return EXIT_CODES[SolveStatus.UNKNOWN]


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(prog="placement", description="Place a neural network over devices, provably well.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    solving = commands.add_parser("solve", help="find the best split of a graph")
    solving.add_argument("graph", type=Path, metavar="GRAPH.json")
    add_parameter(solving, OBJECTIVE, default=Objective.THROUGHPUT)
    baselines = "; ".join(f"{name}: {baseline.description}" for name, baseline in BASELINES.items())
    add_parameter(solving, METHOD, default="auto", help_text=f"{METHOD.help} {baselines}")
    add_parameter(solving, FAMILY, default=Family.CHAIN)
    add_device_options(solving)
    add_model_options(solving)
    add_parameter(solving, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S)
    add_parameter(solving, GAP, default=0.0)
    solving.add_argument("--expert", type=Path, metavar="SPLIT.json", help="the split that method expert judges")
    solving.add_argument("--output", type=Path, metavar="SPLIT.json", help="also write the split to a file")
    solving.add_argument("--progress", action="store_true", help="report value and bound on stderr while solving")
    solving.set_defaults(run=_solve)

    evaluating = commands.add_parser("evaluate", help="compute what a split costs and which rules it breaks")
    evaluating.add_argument("graph", type=Path, metavar="GRAPH.json")
    evaluating.add_argument("split", type=Path, metavar="SPLIT.json")
    add_parameter(evaluating, FAMILY, default=Family.FREE, help_text="Also check that it is of this family")
    add_device_options(evaluating)
    add_model_options(evaluating)
    evaluating.set_defaults(run=_evaluate)

    add_simulate(commands)
    add_explain(commands)
    add_compare(commands)
    add_sweep(commands)
    add_reproduce(commands)

    add_devices(commands)
    add_import(commands)
    add_export(commands)
    add_profile(commands)

    sampling = commands.add_parser("samples", help="list the sample graphs, or write one to a file")
    sampling.add_argument("name", nargs="?", metavar="NAME")
    sampling.add_argument("--output", type=Path, metavar="F", help="file to write the sample to")
    sampling.set_defaults(run=_samples)
    return parser


def _solve(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    if options.expert is not None and asked.method != "expert":
        raise MethodError("--expert gives the split that --method expert judges; choose that method, or leave it out.")
    expert = None if options.expert is None else read_split(options.expert)

    is_told = not sys.stderr.isatty()

    with first_interrupt() as is_interrupted:

        def watch(progress: Progress) -> None:
            nonlocal is_told
            if progress.phase == LOADING and progress.seconds > LOADING_IS_COMPILING_S and not is_told:
                is_told = True
                print("placement: compiling the solver, once after installation ...", file=sys.stderr)
            if options.progress:
                print(progress_text(progress), file=sys.stderr)
            if is_interrupted():
                raise SolveCancelled

        def answer(question: Asked, start: Split | None) -> SolveResult:
            return solve(
                question.graph,
                question.deployment,
                objective=question.objective,
                method=question.method,
                family=question.family,
                time_limit_s=question.time_limit_s,
                gap=question.gap,
                start=start,
                on_progress=watch,
            )

        result = answer(asked, expert)
        price = None
        if asked.expressible_in is not None and asked.method not in BASELINES:
            # The plan that a framework can express is one of all plans, and so a good start.
            price = FrameworkPrice(asked.expressible_in, result, answer(options.unrestricted, result.split))
    if result.message:
        print(f"placement: {result.message}", file=sys.stderr)
    if price is not None:
        print(f"placement: {price_text(price)}", file=sys.stderr)
    # Printed first: a plan that took long to find is not lost because the file cannot be written.
    hardware = {"hardware": list(options.hardware)} if options.hardware else {}
    priced = {} if price is None else {"expressible_in": price_document(price)}
    print_json({**solve_document(result, graph, deployment), **priced, **hardware})
    if options.output is not None and result.split is not None:
        write_text(options.output, json.dumps(_split_json(result, graph, deployment), indent=1, allow_nan=False) + "\n")
    return EXIT_CODES[result.status]


def solve_document(result: SolveResult, graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return the JSON object that `placement solve` prints; numbers that do not exist are null."""
    split = devices = rejected = None
    if result.split is not None:
        split = _split_json(result, graph, deployment)
        devices = _device_documents(graph, deployment, result.split)
    if result.rejected is not None:
        rejected = {
            "value_ms": result.rejected.value_ms,
            "violations": violation_documents(result.rejected.violations),
        }
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
        "devices": devices,
        "rejected": rejected,
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
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    split = complete_split(graph, read_split(options.split))
    costs = split_costs(graph, deployment, split)
    violations = check_split(graph, deployment, split, asked.family)
    print_json(
        {
            "max_load_ms": costs.max_load_ms,
            "gpipe_ms": costs.gpipe_ms if graph.is_training else None,
            "latency_ms": single_sample_latency(graph, deployment, split),
            "bottleneck": split.on(deployment).device_name(costs.bottleneck, deployment) if costs.devices else None,
            "devices": _device_documents(graph, deployment, split),
            "cut_tensors": [
                {
                    "source": tensor.source,
                    "tensor": tensor.tensor,
                    "from_device": tensor.from_device,
                    "to_devices": list(tensor.to_devices),
                    "out_ms": tensor.send_ms,
                    "in_ms": list(tensor.receive_ms),
                    "size_bytes": tensor.size_bytes,
                }
                for tensor in costs.cut_tensors
            ],
            "violations": violation_documents(violations),
        }
    )
    for violation in violations:
        print(f"placement: {violation.message}", file=sys.stderr)
    return 0


def violation_documents(violations: Sequence[Violation]) -> list[dict[str, Any]]:
    """Return the JSON objects that describe what a split breaks."""
    return [
        {"rule": violation.rule, "device": violation.device, "message": violation.message} for violation in violations
    ]


def _device_documents(graph: DnnGraph, deployment: Deployment, split: Split) -> list[dict[str, Any]]:
    """Return the JSON objects that describe what each device does and holds."""
    placed = split.on(deployment)
    return [
        {
            "device": device.device,
            "name": placed.device_name(device.device, deployment),
            "replicas": device.replicas,
            "load_ms": device.load_ms,
            "compute_ms": device.compute_ms,
            "in_ms": device.receive_ms,
            "out_ms": device.send_ms,
            "sync_ms": device.sync_ms,
            "forward_ms": device.forward_ms,
            "backward_ms": device.backward_ms,
            "memory_bytes": device.memory_bytes,
            "capacity_bytes": None
            if placed.is_cpu(device.device)
            else deployment.accelerator_memory_bytes(placed.first_accelerator(device.device)),
        }
        for device in split_costs(graph, deployment, split).devices
    ]


def _samples(options: argparse.Namespace) -> int:
    if options.name is None:
        if options.output is not None:
            raise GraphError("--output needs the name of a sample; 'placement samples' lists them.")
        print_json([{"name": info.name, "title": info.title, "description": info.description} for info in samples()])
        return 0
    text = sample_text(options.name).decode("utf-8")
    if options.output is None:
        print_text(text)
    else:
        write_text(options.output, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
