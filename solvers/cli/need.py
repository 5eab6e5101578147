"""The command `placement need`: the least hardware that is enough for a wanted throughput or time."""

import argparse
from collections.abc import Callable
from typing import Any

from solvers.cli.commands import SOLVING, add_command, add_graph
from solvers.cli.options import (
    add_device_options,
    add_model_options,
    add_parameter,
    positive,
    quoted,
    read_question,
    table_bytes_of,
)
from solvers.cli.output import EXIT_CODES, first_interrupt, print_json, print_text, tell
from solvers.cli.watching import watcher
from solvers.model.costs import Objective
from solvers.model.errors import PlacementError
from solvers.model.result import OnProgress, Progress, SolveCancelled, SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.parameters.parameter import Asked
from solvers.parameters.question import DEFAULT_TIME_LIMIT_S, FAMILY, METHOD, OBJECTIVE, SOLVER_MEMORY, TIME_LIMIT
from solvers.solve import solve
from solvers.sweep.axes import Quantity, Varied
from solvers.sweep.need import Need, is_decided, quantities_needed, search
from solvers.sweep.need_text import name, need_document, need_text, wanted_ms, wish_text

KINDS = {
    "accelerators": (Quantity.ACCELERATORS, Quantity.COUNT),
    "memory": (Quantity.MEMORY,),
    "links": (Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR),
}
"""What may be asked for, and what it is then of all accelerators or of each device type."""

Answer = Callable[[Asked, Split | None, float | None], SolveResult]


def add_need(commands: Any) -> None:
    """Add the command `need` to the commands of the parser."""
    parser = add_command(
        commands,
        "need",
        "find the least hardware that is enough for a wanted throughput or time",
        "need gpt2.json --within 40 --of accelerators",
        SOLVING,
        description="The fewest accelerators, the least memory and the slowest links, each with all else as given: "
        "found by solving again and again, and proven where every one of these solves is decided in its time.",
    )
    add_graph(parser)
    wanted = parser.add_argument_group("what is wanted", "one of the two").add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--at-least",
        type=positive,
        metavar="R",
        help="Throughput of at least R per second: of what micro-batches hold, such as sequences, where the graph says "
        "so, else of micro-batches",
    )
    wanted.add_argument("--within", type=positive, metavar="MS", help="Value of the objective of at most MS")
    parser.add_argument(
        "--of",
        type=_kinds,
        default=tuple(KINDS),
        metavar="WHAT,...",
        help=f"Which of {', '.join(KINDS)} to ask for (default: all)",
    )
    add_parameter(parser, OBJECTIVE, default=Objective.THROUGHPUT)
    add_parameter(parser, FAMILY, default=Family.CHAIN)
    add_parameter(parser, METHOD, default="auto")
    add_device_options(parser)
    add_model_options(parser)
    add_parameter(parser, TIME_LIMIT, default=DEFAULT_TIME_LIMIT_S, help_text="Seconds for each solve")
    add_parameter(parser, SOLVER_MEMORY)
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table")
    parser.set_defaults(run=_need)


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(part.strip() for part in text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{quoted(kind)} is none of {', '.join(KINDS)}")
    return kinds


def _need(options: argparse.Namespace) -> int:
    asked = read_question(options)
    held = asked.graph.micro_batch
    if options.at_least is not None and asked.objective is Objective.LATENCY:
        raise PlacementError("Latency is a time and no throughput; give --within MS instead of --at-least.")
    limit_ms = options.within if options.at_least is None else wanted_ms(options.at_least, held)
    of = {quantity for kind in options.of for quantity in KINDS[kind]}
    has_speeds = asked.graph.bandwidth_bytes_per_ms is not None
    varied = [one for one in quantities_needed(asked.deployment, has_speeds=has_speeds) if one.quantity in of]
    if not varied:
        raise PlacementError(
            "Without consistent bytes on the graph's edges nothing tells what links of a device type would do; give "
            f"its edges bytes, or ask for {' or '.join(kind for kind in KINDS if kind not in options.of)}."
        )
    with first_interrupt() as is_interrupted:
        answer = _answers(asked, limit_ms, table_bytes_of(options), watcher(is_interrupted))
        base = answer(asked, None, None)
        needs = [_searched(asked, one, limit_ms, base, answer, is_interrupted) for one in varied]
    if options.json:
        print_json({"within_ms": limit_ms, "needs": list(map(need_document, needs))})
    else:
        wish = wish_text(limit_ms, held, is_rate=options.at_least is not None)
        print_text(f"{wish}, with all else as given:\n\n{need_text(needs)}\n")
    return _exit_code(needs)


def _answers(asked: Asked, limit_ms: float, table_bytes: int | None, watch: OnProgress) -> Answer:
    """Return what solves a question until it is decided whether a plan is fast enough."""

    def until_decided(progress: Progress) -> None:
        watch(progress)
        if is_decided(progress.incumbent_ms, progress.lower_bound_ms, limit_ms):
            raise SolveCancelled

    def answer(question: Asked, start: Split | None, lower_bound_ms: float | None) -> SolveResult:
        return solve(
            question.graph,
            question.deployment,
            objective=asked.objective,
            method=asked.method,
            family=asked.family,
            time_limit_s=asked.time_limit_s,
            start=start,
            lower_bound_ms=lower_bound_ms,
            table_bytes=table_bytes,
            on_progress=until_decided,
        )

    return answer


def _searched(
    asked: Asked,
    varied: Varied,
    limit_ms: float,
    base: SolveResult,
    answer: Answer,
    is_interrupted: Callable[[], bool],
) -> Need:
    """Return what is needed of one quantity; once interrupted, what is known by then."""
    tell(f"{name(varied)} ...")
    steps = search(asked, varied, limit_ms, base)
    try:
        step = next(steps)
        while True:
            result = answer(step.asked, step.start, step.lower_bound_ms)
            step = steps.throw(SolveCancelled) if is_interrupted() else steps.send(result)
    except StopIteration as end:
        need: Need = end.value
        return need


def _exit_code(needs: list[Need]) -> int:
    if any(need.least is not None for need in needs):
        return EXIT_CODES[SolveStatus.OPTIMAL]
    is_all_proven = all(need.is_proven for need in needs)
    return EXIT_CODES[SolveStatus.INFEASIBLE if is_all_proven else SolveStatus.UNKNOWN]
