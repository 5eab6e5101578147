"""One entry to all solvers: `solve` picks the method, watches it, and has its answer judged by the evaluator.

method   objectives            families              proof
dp       throughput, gpipe     chain                 optimal (dynamic programming over ideals)
ip       throughput, gpipe     chain, convex, free   optimal, or the bound of HiGHS at the time limit
         latency               free                  optimal, or the better of CP-SAT's bound and one from ideals
auto     all                   all                   dp where it applies and fits in memory, else ip

The baselines of `solvers.baselines.table` are methods too. They prove nothing but the bound from total work; the
family of such a result is that of its split, whatever was asked. One that ignores memory may end with a rejected plan.

Overlapped and full-duplex transfers are solved for throughput and gpipe by dp and, in every family, by ip. A training
schedule's memory is defined for pipelines, so it asks for chain splits; where the graph does not tell it, sizes count
once and the result says so. Only dp replicates stages, and not together with a schedule's memory, which counts stages.

Classes of accelerators that are alike for the graph are solved as identical accelerators, by every method.

Servers with faster links inside are solved by `solvers.methods.servers`, from problems whose links are alike.

Latency has one family: every split for which it is defined is a candidate, whatever `family` says, and the result says
free. Its CPUs are as many as needed as soon as there is one; a result's split puts all CPU nodes on the first.
"""

from collections.abc import Callable
from dataclasses import replace

from solvers.baselines.table import BASELINES, as_run, family_of_answer
from solvers.compilation import compile_first
from solvers.latency.solve import solve_latency
from solvers.methods.servers import solve_on_servers
from solvers.methods.throughput import solve_by_dp, solve_by_dp_then_ip, solve_by_ip
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from solvers.model.memory import why_static
from solvers.model.result import OnProgress, SolveCancelled, SolveResult
from solvers.model.split import Family, Split, complete_split
from solvers.problem.accelerator_kinds import with_identical_accelerators
from solvers.problem.bounds import why_infeasible, work_bound
from solvers.problem.contraction import Contraction
from solvers.problem.pins import NO_PINS, Pins
from solvers.problem.solving import MethodError, Problem, Reporter, contracted
from solvers.problem.table_memory import usual_table_bytes

WITHOUT_KERNELS = ("single", "expert", "scotch")
"""Methods that need nothing compiled."""

KNOWN_BEFORE = "warm start"
"""The method of an answer that needed no search: the plan to start from meets the bound that was given."""


def solve(
    graph: DnnGraph,
    deployment: Deployment,
    *,
    objective: Objective = Objective.THROUGHPUT,
    method: str = "auto",
    family: Family = Family.CHAIN,
    time_limit_s: float | None = None,
    gap: float = 0.0,
    start: Split | None = None,
    lower_bound_ms: float | None = None,
    pins: Pins = NO_PINS,
    table_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> SolveResult:
    """Return the best split found with its proven bound, for one objective and family of splits.

    `start` is a split known already: the answer is no worse, if it is valid here; method expert judges it alone, other
    baselines take none. `lower_bound_ms` is a bound proven already, such as the optimum of an easier question: the
    solve ends once a plan meets it. `pins` are honoured by the answer, and its bound is on the splits that honour them;
    methods auto, dp and ip take pins, but not for latency or replicated stages. `table_bytes` is what the tables of the
    DP may take, by default `usual_table_bytes`; beyond it other methods go on, with method auto. Stops at the relative
    `gap` or after `time_limit_s` seconds, which count from when the solvers are compiled: the first solve after an
    installation has that done first (`solvers.compilation`). `on_progress` is called while the solve runs, from the
    calling thread;
    raising SolveCancelled in it ends the solve with the best answer so far. Raises MethodError for an unknown method,
    or one that does not fit the objective, family or graph, and PinError for pins that do not fit graph or deployment.
    For the objective latency the family is always free.

    >>> from solvers.model.graph import Node, Edge
    >>> g = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> solve(g, Deployment(2)).value_ms
    3.5
    """
    if not 0 <= gap < 1:
        raise MethodError(f"A gap of {gap} is not usable; give a share from 0 up to, not including, 1.")
    objective, family = Objective(objective), Family(family)  # callers may write "free" for Family.FREE
    graph, deployment = with_identical_accelerators(graph, deployment)
    deployment, note = _what_matters(graph, deployment)
    run = _choose(graph, deployment, objective, method, family)
    if method in BASELINES and method != "expert" and start is not None:
        raise MethodError(f"Method {method} makes its own plan and takes none to start from; leave it out.")
    if objective is Objective.LATENCY or method in BASELINES:
        family = Family.FREE
    if pins:
        _require_pinnable(deployment, objective, method)
        pins.require_known(graph, deployment)
    problem = Problem(
        graph, deployment, objective, family, time_limit_s, gap, start, pins, table_bytes or usual_table_bytes()
    )
    reporter = Reporter(problem, on_progress)
    if lower_bound_ms is not None:
        reporter.proved(lower_bound_ms)
    contraction = contracted(
        problem,
        family,
        join_idle=objective is not Objective.LATENCY,
        passes_apart=objective is Objective.GPIPE,
    )
    reason = pins.why_impossible(graph, deployment, contraction) or why_infeasible(graph, contraction, deployment)
    if reason is not None:
        return _with_note(reporter.result(method, infeasible=reason), note)
    if objective is not Objective.LATENCY or not deployment.num_cpus:
        # Not with the unlimited CPUs of latency. Without CPUs latency is at least max-load.
        reporter.proved(work_bound(contraction, deployment))
    try:
        if (
            start is not None
            and method not in BASELINES
            and reporter.found(complete_split(graph, start).on(deployment))
        ):
            reporter.report("warm start")  # whoever watches has a plan from the beginning
        if method not in BASELINES and reporter.within(gap):
            return _with_note(reporter.result(KNOWN_BEFORE), note)
        if method not in WITHOUT_KERNELS:
            with reporter.uncharged():
                note = f"{note} {compile_first(on_progress)}".strip()
        if deployment.has_servers:
            result = solve_on_servers(problem, reporter, method, solve)
        else:
            result = run(problem, contraction, reporter)
    except SolveCancelled:
        result = reporter.result(method, message="Cancelled; the best plan so far is kept.")
    if result.split is not None:
        result = replace(result, family=family_of_answer(graph, result.split, method, result.family))
    return _with_note(result, note)


def require_solvable(
    graph: DnnGraph, deployment: Deployment, objective: Objective, method: str, family: Family
) -> None:
    """Raise MethodError where `solve` would for this question."""
    _choose(graph, _what_matters(graph, deployment)[0], objective, method, family)


def _require_pinnable(deployment: Deployment, objective: Objective, method: str) -> None:
    """Raise MethodError where pins are not supported."""
    if objective is Objective.LATENCY:
        raise MethodError(
            "Pins are honoured for throughput and the GPipe time, not for the latency of one micro-batch; unpin all "
            "nodes, or choose throughput."
        )
    if deployment.replication is not None:
        raise MethodError("Pins name single devices, so stages cannot be replicated with them; allow one replica.")
    if method in BASELINES:
        raise MethodError(f"Method {method} makes its own plan and honours no pins; choose auto, dp or ip.")


Run = Callable[[Problem, Contraction, Reporter], SolveResult]


def _what_matters(graph: DnnGraph, deployment: Deployment) -> tuple[Deployment, str]:
    """Return the deployment without what has no effect on this graph, and a sentence on what the caller may miss."""
    if deployment.replication is not None and deployment.replication.max_replicas == 1:
        deployment = replace(deployment, replication=None)
    reason = None if deployment.training_memory is None else why_static(graph, deployment.training_memory)
    return (deployment, "") if reason is None else (replace(deployment, training_memory=None), reason)


def _with_note(result: SolveResult, note: str) -> SolveResult:
    return replace(result, message=f"{result.message} {note}".strip())


def _choose(graph: DnnGraph, deployment: Deployment, objective: Objective, method: str, family: Family) -> Run:
    """Return the function that runs a method, or raise MethodError."""
    if method not in METHODS:
        raise MethodError(f"There is no method '{method}'; choose one of {', '.join(METHODS)}.")
    if objective is Objective.GPIPE:
        _require_gpipe(graph)
    if objective is Objective.LATENCY:
        if graph.is_training:
            raise MethodError(
                "Latency is defined for inference graphs and this graph has backward nodes; choose throughput or gpipe."
            )
        if deployment.communication is not Communication.SUM:
            raise MethodError(
                "A micro-batch alone is received, computed and sent, one after the other; choose communication sum."
            )
        if deployment.replication is not None and method not in BASELINES:
            raise MethodError(
                "Replicas process micro-batches round-robin, and latency is that of one; allow one replica."
            )
        if method in ("auto", "ip"):
            return solve_latency
    if method in BASELINES:
        return METHODS[method]  # judged as what it is, whatever it knows of the devices
    if deployment.training_memory is not None and family is not Family.CHAIN:
        raise MethodError(
            f"A training schedule's memory is defined for pipelines, not for {family.named} splits; "
            "choose pipeline (chain), or leave the schedule out."
        )
    if deployment.replication is not None:
        if family is not Family.CHAIN or method == "ip":
            raise MethodError(
                "Only method dp replicates stages, in pipeline splits; choose these, or one replica only."
            )
        if deployment.training_memory is not None:
            raise MethodError("No method replicates stages under a schedule's memory; leave one of the two out.")
        return solve_by_dp
    if method == "auto":
        return solve_by_dp_then_ip if family is Family.CHAIN else solve_by_ip
    if method == "dp" and objective is Objective.LATENCY:
        raise MethodError(f"Method dp does not solve objective {objective}; choose ip or auto.")
    if method == "dp" and family is not Family.CHAIN:
        raise MethodError(f"Method dp finds pipeline splits, not {family.named} ones; choose ip or auto.")
    return METHODS[method]


def _require_gpipe(graph: DnnGraph) -> None:
    """Raise MethodError for a graph whose forward pass cannot end before its backward pass begins."""
    if not graph.is_training:
        raise MethodError("GPipe is a training schedule and this graph has no backward nodes; choose throughput.")
    for edge in graph.edges:
        u, v = graph.node_by_id[edge.source], graph.node_by_id[edge.target]
        if u.is_backward and not v.is_backward:
            raise MethodError(
                f"GPipe ends the forward pass before the backward pass begins, but forward {v.label} reads backward "
                f"{u.label}; remove this edge, or choose throughput."
            )


METHODS: dict[str, Run] = {
    "auto": solve_by_dp_then_ip,
    "dp": solve_by_dp,
    "ip": solve_by_ip,
    **{name: as_run(name) for name in BASELINES},
}
