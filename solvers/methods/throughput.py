"""How throughput and the GPipe time are solved: which engine runs when, and what it starts from."""

from collections.abc import Callable
from dataclasses import replace

from solvers.chain.ending import Ending
from solvers.chain.run import START_SECONDS, START_SHARE, is_plain, run_dp
from solvers.methods.beside_dp import BesideDp
from solvers.methods.better_chains import improve, improve_without_cpus, watch_for
from solvers.milp.run import run_model
from solvers.model.costs import Objective
from solvers.model.result import PROOF_TOLERANCE, SolveResult
from solvers.model.split import Family, Split
from solvers.problem.accelerator_kinds import blocks_on_the_best_of_all_classes
from solvers.problem.bounds import why_infeasible
from solvers.problem.contraction import Contraction
from solvers.problem.solving import NOTHING_IN_TIME, Problem, Reporter, contracted, no_split_fits
from solvers.quantities import binary_size, count

QUICK_START_SECONDS = 3.0
"""The first of these where annealing goes on from any plan."""

IMPROVEMENT_SHARE = 0.2
"""An integer program waits this share of the time left for a better chain to start from."""

CHAIN_SHARE = 0.08
"""Share of the time left for a better chain, from which a search for other splits starts."""

IMPROVING = "improving plan and bound"
"""The phase of that."""

BEFORE_SHARE = 0.25
"""Share of the time left after which an integer program begins beside what looks for plans and bounds."""

MOST_ROWS_BESIDE = 25_000
"""An integer program with more rows begins only where those two have nothing left to do.

What it takes of the processor their bounds lack (benchmarks/README.md, profiles that others measured).
"""

FEW_ROWS = 300
"""An integer program with no more rows begins at once: mostly it ends before those two do.

Eight random nodes on four devices take about 0.1 s so, and 0.3 to 0.5 s after waiting (benchmarks/README.md, small
problems).
"""

RELAXED_SHARE, MOST_RELAXED_SECONDS = 0.5, 60.0
"""Share of the time left, if not so many seconds, for the program of non-contiguous splits where contiguous ones are
asked for. It has two thirds of the rows, HiGHS gets through it far sooner, and where its optimum is hardly lower it
leaves hardly anything to prove (benchmarks/README.md, contiguous splits bounded by non-contiguous ones)."""
MOST_ROWS_AT_ONCE, LEAST_GAP_RELAXED = 5_000, 0.01
"""With no more rows, or where no more is left to prove, the program of contiguous splits has all the time: it may end
as soon, and then proves the optimum, which is often some tenths of a percent above the other."""

REDUCTION_SECONDS = 1.0
"""Longest time to look for blocks that may be merged before an integer program."""

SECONDS_PER_ROW = 1.5e-4
"""About what PuLP takes to build a row and hand it to HiGHS."""
BUILD_SHARE = 0.5
"""An integer program is not begun if building it would take more than this share of the time left."""
COARSE_SCALE = 4.0
"""A plan better than the scale of its program by more than this factor calls for a program with a new scale.

Beyond PROOF_TOLERANCE / BOUND_SLACK = 5 what HiGHS's bounds are lowered by is more than counts as proven.
"""


def _improve_start(chain: Contraction, problem: Problem, reporter: Reporter) -> Split | None:
    """Improve the chain that a DP has left unproven, for a share of the time; return one on the accelerators alone."""
    left = reporter.seconds_left
    seconds = (START_SECONDS if left is None else CHAIN_SHARE * left) / 2
    watch = watch_for(seconds, problem, reporter, IMPROVING)
    on_accelerators = improve_without_cpus(problem, reporter, watch, seconds)
    improve(chain, problem, reporter, watch_for(seconds, problem, reporter, IMPROVING))
    return on_accelerators


def solve_by_dp(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Dynamic programming over ideals alone."""
    ending = run_dp(contraction, problem, reporter, problem.time_limit_s, proves=True, always_plans=True)
    if ending is Ending.NO_SPLIT:
        return reporter.result("dp", infeasible=no_split_fits(problem))
    if reporter.within(problem.gap):
        return reporter.result("dp")
    further = "" if problem.deployment.replication else "; method auto goes on with others"
    message = f"The DP did not prove the optimum {_limit(ending, problem, 'in time')}{further}."
    return reporter.result("dp", message=message)


def _limit(ending: Ending, problem: Problem, in_time: str) -> str:
    """Say which limit ended the DP, and what moves it."""
    from solvers.chain.device_states import MAX_STATES
    from solvers.chain.label_search import most_ideals  # numba is loaded by now

    memory = f"{binary_size(problem.table_bytes)} of memory (solver memory, --solver-memory on the command line)"
    if ending is Ending.MEMORY:
        return f"in {memory}"
    if ending is Ending.IDEALS:
        return f"with {count(most_ideals(problem.table_bytes))} ideals, the most for {memory}"
    if ending is Ending.MIXES:
        return f"since devices of several types can be mixed in more than {count(MAX_STATES)} ways"
    return in_time


def solve_by_dp_then_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Dynamic programming; if it does not end, or ideals become too many, the integer program goes on."""
    helper = BesideDp(contraction, problem, reporter)
    beside = helper.beside if is_plain(problem) else None
    left = reporter.seconds_left
    # The DP leaves half of the time to what comes after it; where that is done beside it, it has all.
    has_all_time = beside is not None and not _is_buildable(problem, contraction, reporter, 0.5)
    seconds = None if left is None else left if has_all_time else left / 2
    ending = run_dp(contraction, problem, reporter, seconds, proves=True, meanwhile=beside, always_plans=True)
    if ending is Ending.NO_SPLIT:
        return reporter.result("dp", infeasible=no_split_fits(problem))
    if reporter.within(problem.gap) or reporter.seconds_left == 0:
        return reporter.result("dp")
    helper.after(watch_for(_seconds_after(problem, contraction, reporter), problem, reporter, IMPROVING))
    result = _run_ip(problem, contraction, reporter, "dp, then ip")
    if reporter.seconds_left and not reporter.within(problem.gap):
        # The program was not built, or ended without a proof; the others may get further.
        helper.after(watch_for(reporter.seconds_left, problem, reporter, IMPROVING))
        result = reporter.result("dp, then ip", message="" if reporter.within(problem.gap) else result.message)
    ended = f"The DP did not end {_limit(ending, problem, 'in its share of the time')}; other methods went on."
    return replace(result, message=f"{ended} {result.message}".strip())


def _seconds_after(problem: Problem, contraction: Contraction, reporter: Reporter) -> float:
    """Return how long plans and bounds may take after a DP: a share of the time if an integer program can be built."""
    left = reporter.seconds_left
    if left is None:
        return START_SECONDS
    return IMPROVEMENT_SHARE * left if _is_buildable(problem, contraction, reporter, 1 - IMPROVEMENT_SHARE) else left


def solve_by_ip(problem: Problem, contraction: Contraction, reporter: Reporter) -> SolveResult:
    """Start the integer program from the DP's chain, which is a split of every family, improved where it may be."""
    left = reporter.seconds_left
    seconds = START_SECONDS if left is None else min(START_SECONDS, START_SHARE * left)
    if problem.family is not Family.CHAIN and problem.objective is Objective.THROUGHPUT:
        seconds = min(seconds, QUICK_START_SECONDS)
    passes_apart = problem.objective is Objective.GPIPE
    chain = contracted(problem, Family.CHAIN, passes_apart=passes_apart)
    is_hopeless = problem.pins.why_impossible(problem.graph, problem.deployment, chain)
    is_best_chain = True
    if not is_hopeless and why_infeasible(problem.graph, chain, problem.deployment) is None:
        ending = run_dp(chain, problem, reporter, seconds, proves=False, always_plans=True)
        is_best_chain = ending is Ending.ANSWERED
    has_others = problem.family is not Family.CHAIN and problem.objective is Objective.THROUGHPUT
    if not has_others or reporter.split is None or reporter.seconds_left == 0:
        return _run_ip(problem, contraction, reporter, "ip")
    from solvers.free.anytime import PlansAndBounds  # numba loads here, when it is needed
    from solvers.milp.throughput import estimated_rows  # and PuLP

    with PlansAndBounds(contraction, problem, reporter) as meanwhile:
        meanwhile.search_plans(None if is_best_chain else _improve_start(chain, problem, reporter))
        if reporter.seconds_left == 0:
            meanwhile.take_over()
            return _run_ip(problem, contraction, reporter, "ip")
        # A program that could not be built afterwards, or would get nowhere, leaves all the time to them.
        num_rows = estimated_rows(problem.graph, contraction, problem.deployment, problem.family)
        is_beside = num_rows <= MOST_ROWS_BESIDE
        is_beside = is_beside and _is_buildable(problem, contraction, reporter, 1 - BEFORE_SHARE)
        meanwhile.wait(0.0 if num_rows <= FEW_ROWS else BEFORE_SHARE if is_beside else 1.0)
        if reporter.value_ms is not None and not reporter.within(problem.gap) and reporter.seconds_left != 0:
            contraction = _without_what_no_better_plan_divides(contraction, problem, reporter, reporter.value_ms)
        is_far = problem.family is Family.CONVEX and not reporter.within(LEAST_GAP_RELAXED)
        if is_far and num_rows > MOST_ROWS_AT_ONCE:
            left = reporter.seconds_left
            seconds = MOST_RELAXED_SECONDS if left is None else min(MOST_RELAXED_SECONDS, RELAXED_SHARE * left)
            _run_ip(problem, contraction, reporter, "ip", meanwhile.take_over, relaxed_s=seconds)
        result = _run_ip(problem, contraction, reporter, "ip", meanwhile.take_over)
        if reporter.within(problem.gap) or reporter.seconds_left == 0:
            return result
        # The program was not built, or ended without a proof; the others may get further.
        meanwhile.wait(1.0)
        return reporter.result("ip", message="" if reporter.within(problem.gap) else result.message)


def _without_what_no_better_plan_divides(
    contraction: Contraction, problem: Problem, reporter: Reporter, value_ms: float
) -> Contraction:
    """Return the contraction with blocks merged that the plan known, and every better one, keeps together."""
    from solvers.free.bounds import MAX_BLOCKS_FOR_CUTS, additive
    from solvers.free.min_cuts import colocated, merged

    deployment = problem.deployment
    if contraction.num_blocks > MAX_BLOCKS_FOR_CUTS:
        return contraction
    deadline = reporter.seconds + REDUCTION_SECONDS

    def check() -> None:
        if reporter.seconds > deadline:
            raise TimeoutError

    easier, identical = blocks_on_the_best_of_all_classes(contraction, deployment)
    relaxed = additive(easier, deployment.communication)
    try:
        reduced = colocated(relaxed, identical, value_ms * (1 + PROOF_TOLERANCE), check)
    except TimeoutError:
        return contraction
    return contraction if reduced is None else merged(contraction, reduced[1], deployment.communication)[0]


def _is_buildable(problem: Problem, contraction: Contraction, reporter: Reporter, share_of_time: float = 1.0) -> bool:
    """Whether the integer program can be built early enough if it has this share of the time left."""
    from solvers.milp.throughput import estimated_rows

    if reporter.seconds_left == 0:  # of a large graph even to count the rows takes a second
        return False
    seconds = SECONDS_PER_ROW * estimated_rows(problem.graph, contraction, problem.deployment, problem.family)
    return reporter.seconds_left is None or seconds <= BUILD_SHARE * share_of_time * reporter.seconds_left


def _run_ip(
    problem: Problem,
    contraction: Contraction,
    reporter: Reporter,
    method: str,
    take_over: Callable[[], object] | None = None,
    *,
    relaxed_s: float | None = None,
) -> SolveResult:
    """Run the integer program; `take_over`, called often, hands over what others, who go first, found meanwhile.

    With `relaxed_s` it is that of non-contiguous splits, for a bound, and for at most so many seconds.
    """
    from solvers.milp.throughput import throughput_model  # PuLP loads here, when it is needed

    if reporter.within(problem.gap):
        return reporter.result(method)
    if not _is_buildable(problem, contraction, reporter):
        message = "The integer program is too large to be built in the time that is left."
        missing = f"{NOTHING_IN_TIME} " if reporter.split is None else ""
        return reporter.result(method, message=missing + message)
    while True:
        reporter.report("building the integer program")
        bound = reporter.lower_bound_ms or 0.0
        model = throughput_model(
            problem.graph,
            problem.deployment,
            contraction,
            problem.family if relaxed_s is None else Family.FREE,
            problem.objective,
            scale_ms=reporter.value_ms or bound,
            lower_bound_ms=bound,
            value_ms=reporter.value_ms,
            device_of_block=problem.pins.blocks(contraction),
        )
        start = None if reporter.split is None else model.start_values(problem.graph, reporter.split)
        result = run_model(model, start, problem, reporter, method, take_over, relaxed_s)
        is_scaled = reporter.value_ms is None or reporter.value_ms * COARSE_SCALE >= model.scale_ms
        if is_scaled or relaxed_s is not None or reporter.within(problem.gap) or reporter.seconds_left == 0:
            return result
        # The optimum is far below the scale, where HiGHS's tolerances are no longer small: once more, scaled anew.
