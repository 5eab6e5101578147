"""Run plans as their exported scripts for torch.distributed.pipelining say, one process and one core a stage.

Every action of a stage is timed by the clock of the machine, which its processes share. Runs of the plans take turns
with each other and with passes that measure the model's operators, so that whatever else the machine does, and every
change of its speed, meets all of them.
"""

import copy
import functools
import gc
import io
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

from benchmarks.prediction_models import Subject, subject
from solvers.importers.measured import Call, Taken
from solvers.torch_models.operators import Program

RANKS = 2


@dataclass(frozen=True, slots=True)
class Job:
    """A model and the scripts of the plans to run on it, by their names; each runs `repeats` times after the first.

    `program` is the archive of the exported model, whose operators are measured in turns with the plans.
    """

    model: str
    width: int
    micro_batches: int
    is_training: bool
    scripts: Mapping[str, str]
    repeats: int
    program: bytes


@dataclass(frozen=True, slots=True)
class Action:
    """A stage's forward or backward pass for a micro-batch: from when to when, in ms, and the processor time in it.

    `process_ms` is the processor time of the whole process up to its end, with that of gloo's threads.
    """

    rank: int
    is_backward: bool
    micro_batch: int
    start_ms: float
    end_ms: float
    processor_ms: float
    process_ms: float


@dataclass(frozen=True, slots=True)
class Ran:
    """What a plan did: the actions of each repeat, and how far outputs and gradients are from the whole model's."""

    runs: tuple[tuple[Action, ...], ...]
    output_difference: float
    gradient_difference: float | None


@dataclass(frozen=True, slots=True)
class Passes:
    """What the operators of the whole model took in passes between the runs, and calls for a gradient of nothing.

    Both processes pass at once; `alone_ms` and `beside_ms` are processor times of a pass without and with the other.
    """

    calls: Mapping[str, Sequence[Call]]
    empty: Sequence[Taken]
    alone_ms: float
    beside_ms: float


def run(job: Job) -> tuple[dict[str, Ran], Passes]:
    """Return what each plan did, and what the model's operators took meanwhile."""
    with tempfile.TemporaryDirectory() as name:
        torch.multiprocessing.spawn(_be_stage, (job, name), nprocs=RANKS)
        ranks = [json.loads((Path(name) / f"rank{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)]
        checked = json.loads((Path(name) / "checked.json").read_text(encoding="utf-8"))
        passes = [json.loads((Path(name) / f"passes{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)]
    ran = {
        plan: Ran(
            tuple(
                tuple(Action(rank, *action) for rank, own in enumerate(ranks) for action in own[plan][repeat])
                for repeat in range(job.repeats)
            ),
            *checked[plan],
        )
        for plan in job.scripts
    }
    calls: dict[str, list[Call]] = {}
    for own in passes:
        for operator, taken in own["calls"].items():
            known = calls.setdefault(operator, [Call() for _ in taken])
            for call, (forward, backward) in zip(known, taken, strict=True):
                call.forward += [Taken(*times) for times in forward]
                call.backward += [Taken(*times) for times in backward]
    empty = [Taken(*times) for own in passes for times in own["empty"]]
    alone, beside = ([ms for own in passes for ms in own[key]] for key in ("alone", "beside"))
    return ran, Passes(calls, empty, statistics.median(alone), statistics.median(beside))


class Meter:
    """The whole model in this process, passed through between the runs of plans."""

    def __init__(self, job: Job) -> None:
        program = torch.export.load(io.BytesIO(job.program))
        self.program = Program(program, torch.device("cpu"), is_training=job.is_training)
        self.alone: list[float] = []
        self.beside: list[float] = []
        self._pass()
        self.program.calls.clear()
        self.program.empty.clear()

    def _pass(self) -> float:
        start = time.thread_time_ns()
        self.program.run()
        return (time.thread_time_ns() - start) / 1e6

    def measure(self, rank: int, alone: int) -> None:
        """Pass through the model beside the other process; then one of them alone, which does not count."""
        gc.collect()
        torch.distributed.barrier()
        self.beside.append(self._pass())
        torch.distributed.barrier()
        if rank == alone:
            calls, empty = self.program.calls, self.program.empty
            self.program.calls, self.program.empty = {}, []
            self.alone.append(self._pass())
            self.program.calls, self.program.empty = calls, empty
        torch.distributed.barrier()

    def document(self) -> dict[str, Any]:
        """Return all times as JSON."""

        def times(taken: Sequence[Taken]) -> list[tuple[float, float]]:
            return [(one.ms, one.processor_ms) for one in taken]

        return {
            "calls": {
                name: [(times(call.forward), times(call.backward)) for call in calls]
                for name, calls in self.program.calls.items()
            },
            "empty": times(self.program.empty),
            "alone": self.alone,
            "beside": self.beside,
        }


class Stage:
    """A plan's stage in this process, and the schedule that runs it."""

    def __init__(self, script: ModuleType, model: nn.Module, given: Subject, rank: int) -> None:
        self.given, self.rank = given, rank
        self.trains: bool = script.IS_TRAINING
        self.last = rank == RANKS - 1
        pipe = script.cut(copy.deepcopy(model), given.example)
        (place,) = script.STAGES_OF_RANK[rank]
        self.stage = pipe.build_stage(place, torch.device("cpu"))
        self.schedule = script.schedule_of([self.stage], _own_loss if self.trains else None)
        self.actions: list[Sequence[float]] = []
        for is_backward, name in enumerate(("forward_one_chunk", "backward_one_chunk")):
            setattr(self.stage, name, functools.partial(self._timed, getattr(self.stage, name), is_backward))

    def _timed(self, method: Any, is_backward: int, micro_batch: int, *args: Any, **kwargs: Any) -> Any:
        start, processor = time.perf_counter_ns(), time.thread_time_ns()
        result = method(micro_batch, *args, **kwargs)
        processor, end = time.thread_time_ns() - processor, time.perf_counter_ns()
        self.actions.append((is_backward, micro_batch, start / 1e6, end / 1e6, processor / 1e6,
                             time.process_time() * 1e3))  # fmt: skip
        return result

    def step(self) -> Any:
        """Run the batch once, together with the other processes, from gradients of none; return the last output."""
        for parameter in self.stage.submod.parameters():
            parameter.grad = None
        self.actions.clear()
        gc.collect()
        torch.distributed.barrier()
        inputs = self.given.args if self.rank == 0 else ()
        more = {"target": torch.zeros(self.given.args[0].shape[0])} if self.trains and self.last else {}
        with torch.set_grad_enabled(self.trains):
            return self.schedule.step(*inputs, **more)


def _own_loss(output: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    return output.sum()  # the loss of a micro-batch is in the model, as a tensor of one number


def _be_stage(rank: int, job: Job, name: str) -> None:
    """Be one of the processes; each writes its times down, the first one the differences too."""
    folder = Path(name)
    warnings.simplefilter("ignore")  # those of torch about itself, as it copies an exported graph
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    given = subject(job.model, job.width, job.micro_batches, is_training=job.is_training)
    stages = {plan: Stage(_module(text), given.model, given, rank) for plan, text in job.scripts.items()}
    expected = _expected(given, job) if rank == 0 else None
    differences = {}
    for plan, stage in stages.items():  # the first run warms up, and is checked
        output = stage.step()
        gradients = {key: p.grad for key, p in stage.stage.submod.named_parameters() if p.grad is not None}
        torch.save((output, gradients), folder / f"rank{rank}.pt")
        torch.distributed.barrier()
        if expected is not None:
            found = [torch.load(folder / f"rank{r}.pt") for r in range(RANKS)]
            differences[plan] = _differences(given.model, expected, found)
    if rank == 0:
        (folder / "checked.json").write_text(json.dumps(differences), encoding="utf-8")
    times: dict[str, list[Any]] = {plan: [] for plan in stages}
    meter = Meter(job)
    gc.collect()
    gc.freeze()  # what is there: the graphs of all plans, where a user's process has that of one to look through
    for _ in range(job.repeats):
        for i, (plan, stage) in enumerate(stages.items()):
            meter.measure(rank, i % RANKS)
            stage.step()
            times[plan].append(list(stage.actions))
    (folder / f"rank{rank}.json").write_text(json.dumps(times), encoding="utf-8")
    (folder / f"passes{rank}.json").write_text(json.dumps(meter.document()), encoding="utf-8")
    torch.distributed.destroy_process_group()


def _module(text: str) -> ModuleType:
    """Return an exported script as a module."""
    module = ModuleType("exported_plan")
    exec(compile(text, "exported_plan.py", "exec"), module.__dict__)  # noqa: S102 -- our own export
    return module


def _expected(given: Subject, job: Job) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return output and gradients of the whole model, micro-batch by micro-batch, for a norm may look at all rows."""
    whole = copy.deepcopy(given.model)
    outputs = []
    for i in range(job.micro_batches):
        rows = slice(i * given.micro_batch, (i + 1) * given.micro_batch)
        with torch.set_grad_enabled(job.is_training):
            output = whole(*(arg[rows] for arg in given.args))
        if job.is_training:
            (output.sum() / job.micro_batches).backward()
        outputs.append(output.detach())
    named = whole.named_parameters(remove_duplicate=False)
    return torch.cat(outputs), {name: p.grad for name, p in named if p.grad is not None}


def _differences(model: nn.Module, expected: Any, found: Sequence[Any]) -> tuple[float, float | None]:
    """Return the largest differences of output and gradients, as shares of the largest number of each tensor."""
    whole, theirs = expected
    output = found[-1][0]
    if not theirs:
        return _difference(output, whole), None
    owner = {name: id(p) for name, p in model.named_parameters(remove_duplicate=False)}
    name_of = {owner[name]: name for name in theirs}
    ours: dict[str, torch.Tensor] = {}
    for _, gradients in found:
        for name, gradient in gradients.items():  # a weight of several stages is copied to each
            first = name_of[owner[name]]
            ours[first] = ours[first] + gradient if first in ours else gradient
    if missing := {name_of[owner[name]] for name in theirs} - set(ours):
        raise AssertionError(f"no stage has a gradient of {sorted(missing)[:5]}")
    return _difference(output, whole), max(_difference(gradient, theirs[name]) for name, gradient in ours.items())


def _difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).detach().abs().max() / b.abs().max().clamp_min(1e-30))
