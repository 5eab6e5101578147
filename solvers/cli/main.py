"""The engine from the command line: `placement solve`, `evaluate`, `explain`, `simulate`, `export` and others.

A contract with other programs: JSON on stdout, messages on stderr, and the exit code says how it went: 0 solved,
2 bad input or an output that cannot be written, 3 infeasible, 4 nothing found in time, 5 with --strict a split that
breaks a rule. The first Ctrl-C or SIGTERM ends a solve with the best plan so far, as the time limit would; the second
ends the program.
"""

import argparse
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from solvers.analysis.framework_price import FrameworkPrice, price_document, price_text
from solvers.baselines.table import BASELINES
from solvers.cli.commands import CHECKING, SOLVING, add_command, add_graph, add_split
from solvers.cli.explain import add_explain
from solvers.cli.export import add_export
from solvers.cli.hardware import add_devices
from solvers.cli.importing import add_import
from solvers.cli.input import require_one_stream, split_at
from solvers.cli.need import add_need
from solvers.cli.options import (
    Parser,
    add_device_options,
    add_model_options,
    add_parameter,
    add_strict,
    read_question,
    table_bytes_of,
)
from solvers.cli.output import (
    BAD_INPUT,
    EXIT_CODES,
    STREAM,
    VIOLATED,
    first_interrupt,
    output_path,
    print_json,
    print_text,
    say,
    tell,
    write_text,
)
from solvers.cli.profiling import add_profile
from solvers.cli.simulate import add_simulate
from solvers.cli.sweep import add_sweep
from solvers.cli.tables import add_compare, add_reproduce
from solvers.cli.warming import add_warm_up
from solvers.cli.watching import Compiling, progress_text
from solvers.formats.result_json import judged_split_document
from solvers.model.costs import Objective, single_sample_latency, split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import GraphError, PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveCancelled, SolveResult, SolveStatus, passes_per_second
from solvers.model.split import Family, Split, Violation, check_split, complete_split
from solvers.parameters.parameter import Asked
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, GAP, METHOD, OBJECTIVE, SOLVER_MEMORY, TIME_LIMIT
from solvers.problem.solving import MethodError
from solvers.samples import sample_text, samples
from solvers.solve import solve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        try:
            options = command_parser().parse_args(arguments)
        except SystemExit:
            print_text("")  # what argparse printed is written now, or it is said that it cannot be
            raise
        require_one_stream(options)
        return int(options.run(options))
    except PlacementError as error:
        say(str(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        say("interrupted.")
        return EXIT_CODES[SolveStatus.UNKNOWN]


def version_of_package() -> str:
    """Return the version that is installed; a checkout that is not has none."""
    try:
        return version("dnn-placement-explorer")
    except PackageNotFoundError:
        return "(not installed)"


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(prog="placement", description="Place a neural network over devices, provably well.")
    parser.add_argument("--version", action="version", version=f"placement {version_of_package()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    solving = add_command(
        commands,
        "solve",
        "find the best split of a graph",
        "solve gpt2.json --accelerators 4 --expressible-in megatron --output plan.json",
        SOLVING,
    )
    add_graph(solving)
    add_parameter(solving, OBJECTIVE, default=Objective.THROUGHPUT)
    baselines = "; ".join(f"{name}: {baseline.description}" for name, baseline in BASELINES.items())
    add_parameter(solving, METHOD, default="auto", help_text=f"{METHOD.help} {baselines}")
    add_parameter(solving, FAMILY, default=Family.CHAIN)
    add_device_options(solving)
    add_model_options(solving)
    add_parameter(solving, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S)
    add_parameter(solving, GAP, default=0.0)
    add_parameter(solving, SOLVER_MEMORY)
    solving.add_argument("--expert", type=Path, metavar="SPLIT.json", help="Split that method expert judges")
    solving.add_argument(
        "-o", "--output", type=output_path, metavar="SPLIT.json", help="Also write the split to a file"
    )
    solving.add_argument("--progress", action="store_true", help="Report value and bound on stderr while solving")
    solving.set_defaults(run=_solve)

    evaluating = add_command(
        commands,
        "evaluate",
        "compute what a split costs and which constraints it violates",
        "evaluate gpt2.json plan.json --accelerators 4",
        CHECKING,
    )
    add_graph(evaluating)
    add_split(evaluating)
    add_parameter(evaluating, FAMILY, default=Family.FREE, help_text="Also check that it is of this family")
    add_device_options(evaluating)
    add_model_options(evaluating)
    add_strict(evaluating)
    evaluating.set_defaults(run=_evaluate)

    add_simulate(commands)
    add_explain(commands)
    add_compare(commands)
    add_sweep(commands)
    add_need(commands)
    add_reproduce(commands)

    add_devices(commands)
    add_warm_up(commands)
    add_import(commands)
    add_export(commands)
    add_profile(commands)

    sampling = add_command(
        commands,
        "samples",
        "list the bundled example graphs, or write one to a file",
        "samples gpt2_xl_layer_inference --output gpt2.json",
    )
    sampling.add_argument("name", nargs="?", metavar="NAME", help="Name of an example; all are listed without")
    sampling.add_argument("-o", "--output", type=output_path, metavar="FILE", help="File to write the example to")
    sampling.set_defaults(run=_samples)
    return parser


def _solve(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    if options.expert is not None and asked.method != "expert":
        raise MethodError("--expert gives the split that --method expert judges; choose that method, or leave it out.")
    expert = None if options.expert is None else split_at(options.expert)

    with first_interrupt() as is_interrupted:
        compiling = Compiling()

        def watch(progress: Progress) -> None:
            if not compiling(progress) and options.progress:
                tell(progress_text(progress))
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
                table_bytes=table_bytes_of(options),
                on_progress=watch,
            )

        result = answer(asked, expert)
        price = None
        if asked.expressible_in is not None and asked.method not in BASELINES:
            # The plan that a framework can express is one of all plans, and so a good start.
            price = FrameworkPrice(asked.expressible_in, result, answer(options.unrestricted, result.split))
    if result.message:
        say(result.message)
    if price is not None:
        say(price_text(price))
    hardware = {"hardware": list(options.hardware)} if options.hardware else {}
    priced = {} if price is None else {"expressible_in": price_document(price)}
    # A plan that took long to find is not lost because one of the two cannot be written.
    try:
        if options.output != STREAM:
            print_json({**solve_document(result, graph, deployment), **priced, **hardware})
    finally:
        if options.output is not None and result.split is not None:
            split = json.dumps(_split_json(result, graph, deployment), indent=1, allow_nan=False)
            write_text(options.output, split + "\n")
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
    rate, held = passes_per_second(result), graph.micro_batch
    return {
        "status": str(result.status),
        "method": result.method,
        "objective": str(result.objective),
        "family": str(result.family),
        "value_ms": result.value_ms,
        "lower_bound_ms": result.lower_bound_ms,
        "gap": result.gap,
        "throughput_per_s": rate,
        "samples_per_s": None if held is None or rate is None else rate * held.samples,
        "sample_unit": None if held is None else held.unit,
        "runtime_s": round(result.runtime_s, 6),
        "message": result.message,
        "split": split,
        "devices": devices,
        "rejected": rejected,
    }


def _split_json(result: SolveResult, graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return a result's split in the format of the paper's release, with its loads."""
    assert result.split is not None
    return judged_split_document(result.split, split_costs(graph, deployment, result.split), result)


def _evaluate(options: argparse.Namespace) -> int:
    asked = read_question(options)
    graph, deployment = asked.graph, asked.deployment
    split = complete_split(graph, split_at(options.split))
    costs = split_costs(graph, deployment, split)
    violations = check_split(graph, deployment, split.on(deployment), asked.family)
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
    say(*(violation.message for violation in violations))
    return VIOLATED if violations and options.strict else 0


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
            raise GraphError("--output needs the name of an example; 'placement samples' lists them.")
        print_json([{"name": info.name, "title": info.title, "description": info.description} for info in samples()])
        return 0
    text = sample_text(options.name).decode("utf-8")
    write_text(options.output or STREAM, text)
    return 0
