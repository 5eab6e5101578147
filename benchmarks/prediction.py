"""What plans are predicted to take, beside what they take when two processes of this machine run them.

    python -m benchmarks.prediction [--quick] [--models gpt2,llama] [--output RESULTS.json] [--append]
    python -m benchmarks.prediction_table RESULTS.json > docs/explanation/prediction.md

Needs torch and transformers beside this package's own dependencies, and two idle cores. A model is exported, imported,
measured by `placement profile`'s own code (one thread, a neighbour at work), solved for two devices, and exported to
torch.distributed.pipelining, which runs the plan with one process and one core a stage.
"""

import argparse
import io
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import transformers

from benchmarks.machine import machine
from benchmarks.prediction_models import MODELS, subject
from benchmarks.prediction_run import RANKS, Action, Job, Passes, run
from solvers.exporters.frameworks import Framework, exported
from solvers.exporters.plan import planned
from solvers.hardware.catalogue import catalogue
from solvers.importers.measured import timings_of
from solvers.importers.torch_export.archive import read_program
from solvers.importers.torch_export.importer import import_archive
from solvers.importers.torch_export.measured import with_measured_times
from solvers.importers.workload import Devices, Level, Mode, NumberFormat, Tied, Workload
from solvers.model.costs import Objective, objective_value, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, TimesOrigin
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from solvers.torch_models.link import LinkTimes, measure_link
from solvers.torch_models.profile import Profile, profile_program

DEPLOYMENT = Deployment(RANKS)
KINDS = {False: (ScheduleKind.INFERENCE,), True: (ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B)}
NUM_PLANS = 5
UNDISTURBED, ENOUGH = 0.97, 4
"""An action had its processor to itself if its thread ran for more than this share; the intervals that are enough."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How large the models are, and how often things are measured."""

    width: int = 384
    micro_batches: int = 6
    repeats: int = 4
    warm_up: int = 2
    repetitions: int = 9


QUICK = Effort(width=64, micro_batches=4, repeats=2, warm_up=1, repetitions=3)


@dataclass(slots=True)
class Result:
    """A plan of a model under a schedule; times in ms, stages from the first to the last.

    `planned_period_ms` was predicted when the plan was made; whatever is called predicted, by operators measured in
    turns with its runs. `forward_ms` and `backward_ms` are those of the stages' compute, for one micro-batch;
    `makespans_ms` has a number for each repeat, `processor_shares` the part of its actions in which their threads ran.
    A pass through the whole model takes `alone_ms` of a processor, and `beside_ms` while the other process passes too.
    """

    model: str
    schedule: str
    plan: str
    cut_after: str
    micro_batches: int
    predicted_period_ms: float
    predicted_makespan_ms: float
    predicted_forward_ms: list[float]
    predicted_backward_ms: list[float]
    predicted_transfer_ms: list[float]
    planned_period_ms: float = 0.0
    period_ms: float = 0.0
    period_range_ms: float = 0.0
    intervals: int = 0
    disturbed: int = 0
    processor_period_ms: float = 0.0
    makespans_ms: list[float] = field(default_factory=list)
    processor_shares: list[float] = field(default_factory=list)
    forward_ms: list[float] = field(default_factory=list)
    backward_ms: list[float] = field(default_factory=list)
    output_difference: float = 0.0
    gradient_difference: float | None = None
    alone_ms: float = 0.0
    beside_ms: float = 0.0

    @property
    def makespan_ms(self) -> float:
        """The makespan of the repeat that other programs disturbed least."""
        return max(zip(self.processor_shares, self.makespans_ms, strict=True))[1]


@dataclass(frozen=True, slots=True)
class Measured:
    """The graph of a model's operators with measured times, transfers over the measured link, and its program."""

    graph: DnnGraph
    program: bytes

    def anew(self, passes: Passes) -> DnnGraph:
        """Return the graph with the times of operators in these passes."""
        timings = timings_of(passes.calls, passes.empty, is_alone=True)
        archive = read_program(io.BytesIO(self.program))
        origin = self.graph.times or TimesOrigin()
        return with_measured_times(self.graph, archive, timings, into="accelerator", origin=origin)


def measured_graph(name: str, effort: Effort, link: LinkTimes, *, is_training: bool, neighbours: int) -> Measured:
    """Return the graph of a model, measured as `placement profile` does."""
    given = subject(name, effort.width, 1, is_training=is_training)
    known = catalogue()
    devices = Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"))
    workload = Workload(
        mode=Mode.TRAINING if is_training else Mode.PREFILL,
        level=Level.OPERATORS,
        number_format=NumberFormat.FP32,
        tied=Tied.COPY,
    )
    program = torch.export.export(given.model, given.example, strict=False)
    archive = io.BytesIO()
    torch.export.save(program, archive)
    archive.seek(0)
    found = import_archive(archive, workload, devices, "the benchmark", name)
    asked = Profile(warm_up=effort.warm_up, repetitions=effort.repetitions, neighbours=neighbours)
    graph, _ = profile_program(found.graph, lambda: program, asked)
    return Measured(graph.with_bandwidth(link.bandwidth_bytes_per_ms), archive.getvalue())


def plans_of(graph: DnnGraph, kind: ScheduleKind) -> dict[str, Split]:
    """Return the optimum of a schedule's objective and four other splits, all different and of two stages."""
    objective = Objective.GPIPE if kind is ScheduleKind.GPIPE else Objective.THROUGHPUT
    forward = [node for node in graph.nodes if not node.is_backward]
    best = solve(graph, DEPLOYMENT, objective=objective).split
    assert best is not None
    name = "optimum"
    if not all(best.on(DEPLOYMENT).accelerators):  # a model so small that no transfer is worth its time
        name = "best of two stages"
        cuts = (_prefix(graph, [node.id for node in forward[:count]]) for count in range(1, len(forward)))
        best = min(cuts, key=lambda split: objective_value(graph, DEPLOYMENT, split, objective) or math.inf)
    total = {v: node.accelerator_ms for v, node in graph.node_by_id.items()}
    for node in graph.nodes:
        if node.is_backward:
            assert node.colocation_class is not None  # the id of its forward node
            total[node.colocation_class] += node.accelerator_ms
    layers = list(dict.fromkeys(node.layer for node in forward if any(map(str.isdigit, node.layer))))
    middle = layers[(len(layers) + 1) // 2]
    equal_layers = next(i for i, node in enumerate(forward) if node.layer == middle)

    def after(share: float, weights: Sequence[float]) -> int:
        """Return how many nodes hold a share of all weight."""
        wanted, so_far = share * math.fsum(weights), 0.0
        for i, weight in enumerate(weights):
            so_far += weight
            if so_far >= wanted:
                return i + 1
        return len(weights)

    times = [total[node.id] for node in forward]
    parameters = [node.parameter_bytes or 0.0 for node in forward]
    candidates = {
        "equal layers": equal_layers,
        "equal parameters": after(1 / 2, parameters),
        "a third first": after(1 / 3, times),
        "two thirds first": after(2 / 3, times),
        "a quarter first": after(1 / 4, times),
        "three quarters first": after(3 / 4, times),
    }
    plans = {name: best}
    for name, count in candidates.items():
        split = _prefix(graph, [node.id for node in forward[:count]])
        if (
            len(plans) < NUM_PLANS
            and all(split.accelerators)
            and all(split.device_of() != other.device_of() for other in plans.values())
        ):
            plans[name] = split
    return plans


def _prefix(graph: DnnGraph, first: Sequence[int]) -> Split:
    """Return the split whose first device has these nodes and what has to be with them."""
    classes = {graph.node_by_id[v].colocation_class for v in first} - {None}
    own = frozenset(node.id for node in graph.nodes if node.id in first or node.colocation_class in classes)
    return Split((own, frozenset(graph.node_by_id) - own))


def predicted(graph: DnnGraph, kind: ScheduleKind, name: str, model: str, split: Split, micro_batches: int) -> Result:
    """Return what a plan is predicted to take: the period by the evaluator, the makespan by simulation."""
    objective = Objective.GPIPE if kind is ScheduleKind.GPIPE else Objective.THROUGHPUT
    period = objective_value(graph, DEPLOYMENT, split, objective)
    assert period is not None
    schedule = simulate(graph, DEPLOYMENT, split, kind, micro_batches)
    plan = planned(graph, DEPLOYMENT, split, kind, micro_batches)
    assert plan.stages is not None
    devices = [stage.device for stage in plan.stages]
    costs = split_costs(graph, DEPLOYMENT, split).devices
    cut = max(v for v in split.devices[devices[0]] if not graph.node_by_id[v].is_backward)
    return Result(
        model,
        str(kind),
        name,
        graph.node_by_id[cut].name,
        micro_batches,
        period,
        schedule.makespan_ms,
        [costs[d].forward.compute_ms for d in devices],
        [costs[d].backward.compute_ms for d in devices],
        [costs[d].receive_ms + costs[d].send_ms for d in devices],
    )


@dataclass(frozen=True, slots=True)
class Period:
    """A steady time per micro-batch: by the clock, its interquartile range, of how many intervals, and by processors.

    `processor_ms` is the processor time of the busiest process: what the period would be if nothing else ever ran here
    and that process never waited for the other one.
    """

    ms: float
    range_ms: float
    intervals: int
    disturbed: int
    processor_ms: float


def period_of(runs: Sequence[Sequence[Action]], kind: ScheduleKind) -> Period:
    """Return the steady period of runs: medians of times between ends of micro-batches on the last stage of a pass.

    The first micro-batch is left out, and with 1F1B the last, which no forward pass runs beside. In GPipe forward and
    backward passes have a period each, and count together. Intervals in which another program took a processor are left
    out as far as enough others are there.
    """
    ends = slice(0, -1) if kind is ScheduleKind.ONE_F_ONE_B else slice(1, None)
    passes = {ScheduleKind.INFERENCE: (False,), ScheduleKind.GPIPE: (False, True)}.get(kind, (True,))
    parts = [_part(runs, is_backward, ends) for is_backward in passes]
    return Period(
        sum(part.ms for part in parts),
        sum(part.range_ms for part in parts),
        sum(part.intervals for part in parts),
        sum(part.disturbed for part in parts),
        sum(part.processor_ms for part in parts),
    )


def _part(runs: Sequence[Sequence[Action]], is_backward: bool, ends: slice) -> Period:
    """Return the period of forward or of backward passes."""
    clean: list[float] = []
    every: list[float] = []
    processor: dict[int, list[float]] = {rank: [] for rank in range(RANKS)}
    for actions in runs:
        for rank in range(RANKS):
            done = [a for a in actions if (a.rank, a.is_backward) == (rank, is_backward)][ends]
            for before, after in pairwise(done):
                processor[rank].append(after.process_ms - before.process_ms)
                if rank != (0 if is_backward else RANKS - 1):
                    continue
                every.append(after.end_ms - before.end_ms)
                beside = [a for a in actions if a.end_ms > before.end_ms and a.start_ms < after.end_ms]
                if all(a.processor_ms > UNDISTURBED * (a.end_ms - a.start_ms) for a in beside):
                    clean.append(every[-1])
    used = clean if len(clean) >= ENOUGH else every
    low, median, high = statistics.quantiles(used, n=4, method="inclusive")
    busiest = max(statistics.median(own) for own in processor.values())
    return Period(median, high - low, len(used), len(every) - len(clean), busiest)


def makespan_of(actions: Sequence[Action]) -> float:
    """Return the time from the first action's start to the last one's end."""
    return max(a.end_ms for a in actions) - min(a.start_ms for a in actions)


def compare(name: str, effort: Effort, link: LinkTimes, *, is_training: bool, neighbours: int) -> list[Result]:
    """Return all plans of a model, predicted and measured, for inference or for the schedules of training."""
    measured = measured_graph(name, effort, link, is_training=is_training, neighbours=neighbours)
    graph = measured.graph
    splits: dict[str, tuple[ScheduleKind, str, Split]] = {}
    scripts: dict[str, str] = {}
    for kind in KINDS[is_training]:
        for plan, split in plans_of(graph, kind).items():
            key = f"{kind}: {plan}"
            splits[key] = kind, plan, split
            asked = planned(graph, DEPLOYMENT, split, kind, effort.micro_batches)
            scripts[key] = exported(asked, Framework.TORCH_PIPELINING).text
    job = Job(name, effort.width, effort.micro_batches, is_training, scripts, effort.repeats, measured.program)
    runs, passes = run(job)
    meanwhile = measured.anew(passes)
    print(f"a pass takes {passes.alone_ms:.1f} ms alone, {passes.beside_ms:.1f} ms beside another one", flush=True)
    results: dict[str, Result] = {}
    for key, ran in runs.items():
        kind, plan, split = splits[key]
        one = results[key] = predicted(meanwhile, kind, plan, name, split, effort.micro_batches)
        one.planned_period_ms = predicted(graph, kind, plan, name, split, effort.micro_batches).predicted_period_ms
        one.alone_ms, one.beside_ms = passes.alone_ms, passes.beside_ms
        period = period_of(ran.runs, kind)
        one.period_ms, one.period_range_ms, one.processor_period_ms = period.ms, period.range_ms, period.processor_ms
        one.intervals, one.disturbed = period.intervals, period.disturbed
        one.makespans_ms = [makespan_of(actions) for actions in ran.runs]
        one.processor_shares = [
            sum(a.processor_ms for a in actions) / sum(a.end_ms - a.start_ms for a in actions) for actions in ran.runs
        ]
        every = [action for actions in ran.runs for action in actions]
        for is_backward, into in ((False, one.forward_ms), (True, one.backward_ms)):
            for rank in range(RANKS):
                own = [a.processor_ms for a in every if (a.rank, a.is_backward) == (rank, is_backward)]
                into += [statistics.median(own)] if own else []
        one.output_difference, one.gradient_difference = ran.output_difference, ran.gradient_difference
    return list(results.values())


def main() -> None:
    """Write the results as JSON, and a line for each as it comes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small models and few repeats: to see that it works")
    parser.add_argument("--models", default=",".join(MODELS), help="default: %(default)s")
    parser.add_argument("--modes", default="inference,training", help="default: %(default)s")
    parser.add_argument("--neighbours", type=int, default=1, help="at work while operators are measured (default: 1)")
    parser.add_argument("--repeats", type=int, help="runs of each plan")
    parser.add_argument("--output", type=Path, default=Path("prediction.json"))
    parser.add_argument("--append", action="store_true", help="replace only these models' results in the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    effort = QUICK if options.quick else Effort()
    if options.repeats:
        effort = replace(effort, repeats=options.repeats)
    names, modes = options.models.split(","), options.modes.split(",")
    document: dict[str, Any] = {"results": []}
    if options.append and options.output.exists():
        document = json.loads(options.output.read_text(encoding="utf-8"))
    link = measure_link(effort.warm_up, effort.repetitions)
    document |= {
        "machine": f"{machine()}, torch {torch.__version__}, transformers {transformers.__version__}",
        "date": time.strftime("%Y-%m-%d"),
        "effort": asdict(effort),
        "neighbours": options.neighbours,
        "link": asdict(link),
    }
    for name in names:
        for mode in modes:
            start = time.monotonic()
            found = compare(name, effort, link, is_training=mode == "training", neighbours=options.neighbours)
            schedules = {one.schedule for one in found}
            document["results"] = [
                one for one in document["results"] if one["model"] != name or one["schedule"] not in schedules
            ] + [asdict(one) for one in found]
            options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            for one in found:
                print(_line(one), flush=True)
            print(f"{name}, {mode}: {time.monotonic() - start:.0f} s", flush=True)


def _line(one: Result) -> str:
    def percent(predicted_ms: float, ms: float) -> str:
        return f"{predicted_ms:.1f} for {ms:.1f} ({100 * (predicted_ms / ms - 1):+.1f} %)"

    return (
        f"{one.model} {one.schedule} {one.plan}: period {percent(one.predicted_period_ms, one.period_ms)}, of "
        f"processors {percent(one.predicted_period_ms, one.processor_period_ms)}, makespan "
        f"{percent(one.predicted_makespan_ms, one.makespan_ms)}, processor share {max(one.processor_shares):.2f}, "
        f"differences {one.output_difference:.0e} and {one.gradient_difference or 0:.0e}"
    )


if __name__ == "__main__":
    main()
