"""The inputs on what is sought: objective, split type, the model's variants, solver and its limits."""

from dataclasses import replace

from solvers.baselines.scotch import scotch_program
from solvers.baselines.table import BASELINES
from solvers.exporters.frameworks import FORMATS, Framework, expressible_graph, why_none_expressible
from solvers.exporters.plan import ExportError
from solvers.model.costs import Objective
from solvers.model.deployment import MAX_DEVICES, MAX_SUBGRAPHS, Communication, Deployment, Replication
from solvers.model.split import Family
from solvers.parameters.codecs import COUNT, NUMBER, PERCENT, WORD, Codec, one_of, optional
from solvers.parameters.hardware import BYTES_PER_MS, LARGEST_MEMORY_GIB, LINK_RANGE
from solvers.parameters.parameter import Asked, AxisTraits, MemoryOf, Parameter, Range, Scope, Unit
from solvers.quantities import as_given, percent

DEFAULT_TIME_LIMIT_S = 60.0
LONGEST_LIMIT_S = 1e9
EXACT = ("auto", "dp", "ip")
METHOD_NAMES = {
    "dp": "DP",
    "ip": "IP",
    "auto": "automatic",
    "single": "one accelerator",
    "pipedream": "PipeDream",
    "scotch": "Scotch",
    "linearised": "DPL",
    "greedy_latency": "greedy",
    "max_load_latency": "least max-load",
}
"""What methods are called inside a sentence; others by their own names."""
IS_LATENCY = "the latency of one micro-batch knows neither"


def method_text(method: str) -> str:
    """Return what a method is called inside a sentence."""
    return METHOD_NAMES.get(method, method.replace("_", " "))


OBJECTIVE = Parameter[Objective](
    name="objective",
    scope=Scope.SEARCH,
    address="objective",
    flag="--objective",
    codec=one_of(Objective),
    label="Minimise time for",
    noun="objective",
    help="What to minimise: time per micro-batch of a pipeline, that under GPipe, or the latency of one micro-batch.",
    get=lambda asked: asked.objective,
    put=lambda asked, value: replace(
        asked, objective=value, family=Family.CHAIN if value is Objective.LATENCY else asked.family
    ),
    usual=lambda _: Objective.THROUGHPUT,
    allowed=lambda asked: (
        Objective.THROUGHPUT,
        Objective.GPIPE if asked.graph.is_training else Objective.LATENCY,
    ),
    text=lambda value: "GPipe" if value is Objective.GPIPE else str(value),
    names={
        Objective.THROUGHPUT: "Throughput of the pipeline",
        Objective.GPIPE: "GPipe time per micro-batch",
        Objective.LATENCY: "Latency of one micro-batch",
    },
    axis=AxisTraits("objective", "Objective", "objective", is_monotone=False),
)


def _only_pipelines(asked: Asked) -> str:
    return "latency chooses from all splits" if asked.objective is Objective.LATENCY else ""


def _only_latency(asked: Asked) -> str:
    return "" if asked.objective is Objective.LATENCY else "only the latency of one micro-batch knows subgraphs"


FAMILY = Parameter[Family](
    name="family",
    scope=Scope.SEARCH,
    address="splits",
    flag="--family",
    codec=one_of(Family, {"pipeline": Family.CHAIN, "contiguous": Family.CONVEX, "non-contiguous": Family.FREE}),
    label="Split type",
    noun="split type",
    help="Split type: pipeline (chain), contiguous (convex) or non-contiguous (free); either name is taken. Each type "
    "contains the one before; the last two may be better, but take an integer program. Latency allows all of them.",
    get=lambda asked: asked.family,
    put=lambda asked, value: replace(asked, family=value),
    usual=lambda _: Family.CHAIN,
    allowed=lambda _: tuple(Family),
    why_not=_only_pipelines,
    text=lambda value: value.named,
    names={
        Family.CHAIN: "Pipeline: contiguous, in order",
        Family.CONVEX: "Contiguous: no path leaves and returns",
        Family.FREE: "Non-contiguous: any assignment",
    },
)
SUBGRAPHS = Parameter[int](
    name="subgraphs",
    scope=Scope.COUNTS,
    address="subgraphs",
    flag="--subgraphs",
    metavar="Q",
    codec=COUNT,
    label="Subgraphs of an accelerator, up to",
    noun="subgraphs",
    help="Sets of nodes that an accelerator runs one after the other, waiting for others between them, for the latency "
    "of one micro-batch. With 1 it runs all its nodes in one go.",
    get=lambda asked: asked.deployment.max_subgraphs,
    put=lambda asked, value: asked.on(max_subgraphs=value),
    usual=lambda _: 1,
    limits=Range(1, MAX_SUBGRAPHS),
    why_not=_only_latency,
)
_TRANSFERS = {
    Communication.SUM: "one after the other",
    Communication.OVERLAPPED: "overlapped with compute",
    Communication.FULL_DUPLEX: "full duplex",
}
COMMUNICATION = Parameter[Communication](
    name="communication",
    scope=Scope.MODEL,
    address="transfers",
    flag="--communication",
    codec=one_of(Communication),
    label="Transfers",
    noun="transfers",
    help="Load of a device: compute + receive + send; or the larger of compute and receive + send, where transfers "
    "overlap with compute; or compute + the larger of receive and send, where interconnects are full duplex.",
    get=lambda asked: asked.deployment.communication,
    put=lambda asked, value: asked.on(communication=value),
    usual=lambda _: Communication.SUM,
    allowed=lambda _: tuple(Communication),
    why_not=lambda asked: (
        "a micro-batch alone is received, computed and sent" if asked.objective is Objective.LATENCY else ""
    ),
    text=_TRANSFERS.__getitem__,
    names={value: text.capitalize() for value, text in _TRANSFERS.items()},
)


def _no_replicas(asked: Asked) -> str:
    """Say why stages are not replicated: what they share is one device, whose class or server nobody could tell."""
    if asked.objective is not Objective.THROUGHPUT or asked.family is not Family.CHAIN:
        return "replicas need throughput and pipeline splits"
    if asked.memory_of is not MemoryOf.ONE:
        return "replicas are not solved for with memory in flight"
    if asked.deployment.classes or asked.deployment.accelerators_per_server is not None:
        return "replicas need accelerators of one device type, without servers"
    return "" if asked.deployment.num_accelerators > 1 else "replicas need two accelerators or more"


def _max_replicas(deployment: Deployment) -> int:
    return 1 if deployment.replication is None else deployment.replication.max_replicas


def _sync(deployment: Deployment) -> float | None:
    bandwidth = None if deployment.replication is None else deployment.replication.bandwidth_bytes_per_ms
    return None if bandwidth is None else bandwidth / BYTES_PER_MS


def _replicated(asked: Asked, most: int, sync: float | None) -> Asked:
    replication = Replication(most, None if sync is None else sync * BYTES_PER_MS) if most > 1 else None
    return asked.on(replication=replication)


MAX_REPLICAS = Parameter[int](
    name="max_replicas",
    scope=Scope.MODEL,
    address="replicas",
    flag="--max-replicas",
    metavar="R",
    codec=COUNT,
    label="Replicas of a stage, up to",
    noun="replicas",
    help="Accelerators that a stage may run on. On r of them, replicas process micro-batches round-robin: 1/r of its "
    "time each, and in training the all-reduce of its gradients besides. It takes up r of the accelerators.",
    get=lambda asked: _max_replicas(asked.deployment),
    put=lambda asked, value: _replicated(asked, value, _sync(asked.deployment)),
    usual=lambda _: 1,
    text=lambda value: "none" if value == 1 else f"up to {value}",
    limits=Range(1, MAX_DEVICES),
    allowed=lambda asked: Range(1, max(1, asked.deployment.num_accelerators)),
    why_not=_no_replicas,
)
SYNC_BANDWIDTH = Parameter[float | None](
    name="sync_bandwidth",
    scope=Scope.MODEL,
    address="sync_bandwidth",
    flag="--sync-bandwidth",
    metavar="GB/S",
    codec=optional(NUMBER),
    unit=Unit.GB_PER_S,
    label="All-reduce (GB/s)",
    noun="all-reduce bandwidth",
    help="Bandwidth in GB/s at which replicas of a stage exchange gradients; none means that of the links.",
    get=lambda asked: _sync(asked.deployment),
    put=lambda asked, value: _replicated(asked, _max_replicas(asked.deployment), value),
    usual=lambda _: None,
    limits=LINK_RANGE,
    why_not=lambda asked: (
        _no_replicas(asked) or ("" if _max_replicas(asked.deployment) > 1 else "no stage is replicated")
    ),
    needs="max_replicas",
)


_FRAMEWORK = optional(one_of(Framework))


def why_not_in(asked: Asked, framework: Framework) -> str:
    """Say why no plan of a question is one that a framework can express; empty where some are.

    CPUs are no reason: such a plan leaves them idle where the framework runs none.
    """
    form = FORMATS[framework]
    if form.is_pipeline and (asked.objective is Objective.LATENCY or asked.family is not Family.CHAIN):
        return f"{form.title} runs pipelines; choose split type pipeline (chain), for throughput."
    if _max_replicas(asked.deployment) > 1:
        return f"{form.title} replicates no single stage of a pipeline; allow one replica."
    if asked.deployment.max_subgraphs > 1:
        return f"{form.title} runs one part of the network on each device; allow one subgraph."
    return why_none_expressible(asked.graph, framework)


def why_no_cpus_in(framework: Framework) -> str:
    """Say why a number of CPUs means nothing to a framework; empty where it does."""
    form = FORMATS[framework]
    return "" if form.takes_cpus else f"{form.title} runs no part of a network on CPUs; leave them out."


def _expressed(asked: Asked, framework: Framework | None) -> Asked:
    if framework is None:
        return asked
    if reason := why_not_in(asked, framework):
        raise ExportError(reason)
    on = asked if FORMATS[framework].takes_cpus else asked.on(num_cpus=0)
    return replace(on, graph=expressible_graph(asked.graph, framework), expressible_in=framework)


def _frameworks(asked: Asked) -> tuple[Framework | None, ...]:
    return (None, *(framework for framework in Framework if not why_not_in(asked, framework)))


EXPRESSIBLE_IN = Parameter[Framework | None](
    name="expressible_in",
    scope=Scope.MODEL,
    address="expressible_in",
    flag="--expressible-in",
    codec=Codec(_FRAMEWORK.read, _FRAMEWORK.write, (None, *Framework), is_optional=True),
    label="Expressible in",
    noun="framework",
    help="Framework that has to be able to run the plan: only splits that it can express are allowed, so that the best "
    "of these is found and proven. Most frameworks place whole layers, in one pipeline without CPUs and replicas; none "
    "allows all splits.",
    get=lambda asked: asked.expressible_in,
    put=_expressed,
    usual=lambda _: None,
    allowed=_frameworks,
    why_not=lambda asked: "" if len(_frameworks(asked)) > 1 else "no framework can express a plan of this question",
    names={None: "Any: all splits", **{framework: form.title for framework, form in FORMATS.items()}},
)


def methods(asked: Asked) -> tuple[str, ...]:
    """Return the methods that fit; baselines make plans for the model as the paper has it, some for devices alike."""
    deployment = asked.deployment
    exact = ["auto"]
    if asked.objective is not Objective.LATENCY and asked.family is Family.CHAIN:
        exact.append("dp")
    if deployment.replication is None:
        exact.append("ip")
    is_plain = (
        deployment.communication is Communication.SUM
        and deployment.replication is None
        and deployment.max_subgraphs == 1
        and deployment.accelerators_per_server is None
        and asked.memory_of is MemoryOf.ONE
    )
    fitting = [
        name
        for name, baseline in BASELINES.items()
        if is_plain
        and not _needs_a_pipeline(asked)
        and name != "expert"  # a file, no solver
        and asked.objective in baseline.objectives
        and (name != "scotch" or scotch_program())
    ]
    return (*exact, *fitting)


def _needs_a_pipeline(asked: Asked) -> bool:
    return asked.expressible_in is not None and FORMATS[asked.expressible_in].is_pipeline


def _solved_by(asked: Asked, method: str) -> Asked:
    if method in BASELINES and asked.expressible_in is not None and _needs_a_pipeline(asked):
        title = FORMATS[asked.expressible_in].title
        raise ExportError(f"{title} runs pipelines, and a plan of method {method} may be none; choose auto, dp or ip.")
    return replace(asked, method=method)


METHOD = Parameter[str](
    name="method",
    scope=Scope.SEARCH,
    address="solver",
    flag="--method",
    metavar="METHOD",
    codec=WORD,
    label="Solver",
    noun="solver",
    help="Automatic (auto) proves its plan optimal, or says how far it may be; dp and ip prove theirs, too. The others "
    "are the baselines of the paper: a plan, and a bound that holds for every plan.",
    get=lambda asked: asked.method,
    put=_solved_by,
    usual=lambda _: "auto",
    limits=(*EXACT, *BASELINES),
    allowed=methods,
    text=method_text,
    names={
        "auto": "Automatic",
        "dp": "Dynamic programming (DP)",
        "ip": "Integer programming (IP)",
        "single": "One accelerator",
        "local_search": "Local search",
        "pipedream": "PipeDream's planner",
        "scotch": "Scotch",
        "linearised": "DP on one order (DPL)",
        "greedy_latency": "Greedy",
        "max_load_latency": "Least max-load",
    },
)


def usual_limit_s(longest_s: float | None) -> float:
    """Return the time limit of a solve in seconds, unless the user gives another."""
    return DEFAULT_TIME_LIMIT_S if longest_s is None else min(DEFAULT_TIME_LIMIT_S, longest_s)


TIME_LIMIT = Parameter[float | None](
    name="time_limit",
    scope=Scope.SEARCH,
    address="limit",
    flag="--time-limit",
    metavar="S",
    codec=NUMBER,  # type: ignore[arg-type]  # None only within the library
    unit=Unit.SECONDS,
    label="Limit (s)",
    noun="time limit",
    help="Seconds after which the best plan so far and its bound are the answer.",
    get=lambda asked: asked.time_limit_s,
    put=lambda asked, value: replace(asked, time_limit_s=value),
    usual=lambda asked: usual_limit_s(asked.longest_s),
    limits=Range(0, LONGEST_LIMIT_S, (0,)),
    allowed=lambda asked: Range(0, LONGEST_LIMIT_S if asked.longest_s is None else asked.longest_s, (0,)),
    text=lambda value: "none" if value is None else f"{as_given(value)} s",
)
GAP = Parameter[float](
    name="gap",
    scope=Scope.SEARCH,
    address="gap",
    flag="--gap",
    metavar="G",
    codec=PERCENT,
    flag_codec=NUMBER,
    unit=Unit.PERCENT,
    label="Gap (%)",
    noun="gap",
    help="Relative gap at which a solve may stop: (value − lower bound) / value. 0 proves the optimum.",
    get=lambda asked: asked.gap,
    put=lambda asked, value: replace(asked, gap=value),
    usual=lambda _: 0.0,
    limits=Range(0, 1, (1,)),
    text=percent,
)
SOLVER_MEMORY = Parameter[float | None](
    name="solver_memory",
    scope=Scope.SEARCH,
    address="solver_memory",
    flag="--solver-memory",
    metavar="GIB",
    codec=optional(NUMBER),
    unit=Unit.GIB,
    label="Memory of the solver (GiB)",
    noun="memory of the solver",
    help="Memory in GiB (2^30 bytes) that the tables of dynamic programming may take, and half as much again while "
    "they grow; beyond it method auto goes on with others. The default is a fortieth of this machine's memory, at "
    "least 0.39 GiB; more of it also allows more ideals, 5 million with the default. On a server it is a quarter of "
    "what the operator lets one solver take.",
    get=lambda asked: asked.solver_memory,
    put=lambda asked, value: replace(asked, solver_memory=value),
    usual=lambda _: None,
    limits=Range(0, LARGEST_MEMORY_GIB, (0,)),
)
"""Not part of a question, and so of no address: what it may take belongs to the machine that it is solved on."""
