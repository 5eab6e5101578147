"""The inputs on the schedule: its kind, micro-batches, chunks, and whose activations count as memory."""

from dataclasses import replace

from solvers.model.costs import Objective
from solvers.model.deployment import MAX_MICRO_BATCHES, InFlight, TrainingMemory
from solvers.model.memory import why_static
from solvers.model.split import Family
from solvers.parameters.codecs import COUNT, NUMBER, PERCENT, one_of, optional
from solvers.parameters.parameter import Asked, AxisTraits, MemoryOf, Parameter, Range, Scope, Unit
from solvers.schedule.looped_split import MAX_CHUNKS
from solvers.schedule.records import (
    INFERENCE_KINDS,
    TRAINING_KINDS,
    WEIGHT_GRADIENT_SHARE,
    ZERO_BUBBLE_KINDS,
    ScheduleKind,
)

CHUNKS = 2
MOST_USUAL_MICRO_BATCHES = 512
SCHEDULE_OF = {Objective.GPIPE: ScheduleKind.GPIPE, Objective.LATENCY: ScheduleKind.SINGLE_STREAM}
"""The schedule to show first where an objective is that of one."""
TRAINING_HELP = (
    "1F1B and GPipe update the weights once, after all micro-batches; PipeDream goes on without a pause and keeps old "
    "weights. Interleaved 1F1B and ZB-V run several model chunks on each device. ZB-H1 and ZB-V fill idle "
    "time with weight gradients. Unpipelined is one micro-batch on one device at a time, for comparison."
)
INFERENCE_HELP = (
    "Pipelined keeps all devices at work on different micro-batches. Single stream waits for each to be done, though "
    "branches run side by side; unpipelined runs one device at a time."
)


def schedules(asked: Asked) -> tuple[ScheduleKind, ...]:
    """Return the schedules that a graph can run."""
    return TRAINING_KINDS if asked.graph.is_training else INFERENCE_KINDS


SCHEDULE = Parameter[ScheduleKind](
    name="schedule",
    scope=Scope.SCHEDULE,
    address="schedule",
    flag="--schedule",
    codec=one_of(ScheduleKind),
    label="Schedule",
    noun="schedule",
    help=f"Order in which devices run micro-batches. Training: {TRAINING_HELP} Inference: {INFERENCE_HELP}",
    get=lambda asked: schedules(asked)[0] if asked.schedule is None else asked.schedule,
    put=lambda asked, value: asked.with_memory(schedule=value),
    usual=lambda asked: SCHEDULE_OF.get(asked.objective, schedules(asked)[0]),
    allowed=schedules,
    names={
        ScheduleKind.INFERENCE: "Pipelined",
        ScheduleKind.SINGLE_STREAM: "Single stream",
        ScheduleKind.ONE_F_ONE_B: "1F1B",
        ScheduleKind.GPIPE: "GPipe",
        ScheduleKind.PIPEDREAM: "PipeDream",
        ScheduleKind.INTERLEAVED: "Interleaved",
        ScheduleKind.ZB_H1: "ZB-H1",
        ScheduleKind.ZB_V: "ZB-V",
        ScheduleKind.UNPIPELINED: "Unpipelined",
    },
)


def _usual_micro_batches(asked: Asked) -> int:
    """A pipeline settles only after its fill; three rounds per device show some of its steady state."""
    return min(MOST_USUAL_MICRO_BATCHES, max(12, 3 * asked.file.num_accelerators))


MICRO_BATCHES = Parameter[int](
    name="micro_batches",
    scope=Scope.MODEL,
    address="micro_batches",
    flag="--micro-batches",
    metavar="M",
    codec=COUNT,
    label="Micro-batches",
    noun="micro-batches",
    help="Number of micro-batches: those that the schedule runs, and that memory in flight counts.",
    get=lambda asked: asked.num_micro_batches,
    put=lambda asked, value: asked.with_memory(num_micro_batches=value),
    usual=_usual_micro_batches,
    limits=Range(1, MAX_MICRO_BATCHES),
    needs="memory_schedule",
    axis=AxisTraits(
        "micro-batches",
        "Micro-batches in flight",
        "micro_batches",
        ("micro-batch", "micro-batches"),
        "Micro-batches",
        "1:64:x2",
        is_whole=True,
        is_easier_when_less=True,
    ),
)


def _memory_counts_once(asked: Asked) -> str:
    """Say why memory in flight does not count, if that is known before all is asked."""
    if asked.objective is Objective.LATENCY or asked.family is not Family.CHAIN:
        return "in-flight activation memory is defined for pipeline splits"
    if not asked.graph.is_training:
        return "memory in flight is that of training"
    return (why_static(asked.own_graph, TrainingMemory(InFlight.ONE_F_ONE_B, 1)) or "").rstrip(".")


def _memory_schedules(asked: Asked) -> tuple[MemoryOf, ...]:
    """Return whose activations can count: planners that keep versions of weights need to know what weights take."""

    def is_known(memory_of: MemoryOf) -> bool:
        if memory_of in (MemoryOf.ONE, MemoryOf.TIMELINE):
            return True
        return why_static(asked.own_graph, TrainingMemory(InFlight(memory_of), 1, asked.state_factor)) is None

    return tuple(filter(is_known, MemoryOf))


_IN_FLIGHT_UNDER = {
    MemoryOf.GPIPE: "GPipe",
    MemoryOf.ONE_F_ONE_B: "1F1B",
    MemoryOf.PIPEDREAM: "PipeDream",
    MemoryOf.PIPEDREAM_2BW: "PipeDream-2BW",
}
MEMORY_SCHEDULE = Parameter[MemoryOf](
    name="memory_schedule",
    scope=Scope.MODEL,
    address="in_flight",
    flag="--memory-schedule",
    codec=one_of(MemoryOf),
    flag_codec=one_of(InFlight),
    label="Memory counts activations of",
    noun="memory of",
    help="Schedule whose memory a plan is made for: the activations of all micro-batches that a stage keeps in flight, "
    "and all versions of the weights. Interleaved 1F1B, ZB-H1 and ZB-V keep more than 1F1B, for which plans are made; "
    "a warning says where that is too little. Otherwise memory counts one micro-batch.",
    get=lambda asked: asked.memory_of,
    put=lambda asked, value: asked.with_memory(memory_of=value),
    usual=lambda _: MemoryOf.ONE,
    allowed=_memory_schedules,
    why_not=_memory_counts_once,
    needs="micro_batches",
    text=({MemoryOf.ONE: "one micro-batch", MemoryOf.TIMELINE: "the schedule"} | _IN_FLIGHT_UNDER).__getitem__,
    names={
        MemoryOf.ONE: "One micro-batch",
        MemoryOf.TIMELINE: "All in flight on the timeline",
        **{value: f"All in flight under {name}" for value, name in _IN_FLIGHT_UNDER.items()},
    },
)
STATE_FACTOR = Parameter[float | None](
    name="state_factor",
    scope=Scope.MODEL,
    address="state_factor",
    flag="--state-factor",
    metavar="F",
    codec=optional(NUMBER),
    unit=Unit.TIMES,
    label="Weights and optimizer state (× weights)",
    noun="optimizer-state multiplier",
    help="Weights, gradients and optimizer state as a multiple of the weights, such as 8 for Adam in mixed precision; "
    "none takes them from the sizes of the nodes.",
    get=lambda asked: asked.state_factor,
    put=lambda asked, value: asked.with_memory(state_factor=value),
    usual=lambda _: None,
    limits=Range(1, 1e6),
    why_not=lambda asked: (
        _memory_counts_once(asked)
        or ("memory counts one micro-batch" if asked.memory_of is MemoryOf.ONE else "")
        or (why_static(asked.own_graph, TrainingMemory(InFlight.ONE_F_ONE_B, 1, 1.0)) or "").rstrip(".")
    ),
    needs="memory_schedule",
)
NUM_CHUNKS = Parameter[int](
    name="chunks",
    scope=Scope.SCHEDULE,
    address="chunks",
    flag="--chunks",
    metavar="V",
    codec=COUNT,
    label="Model chunks per device",
    noun="model chunks per device",
    help="Model chunks (virtual stages) on each device, for which the split is cut again. More chunks "
    "shorten the pipeline's warm-up and cool-down, and cost more transfers.",
    get=lambda asked: asked.chunks,
    put=lambda asked, value: replace(asked, chunks=value),
    usual=lambda _: CHUNKS,
    limits=Range(2, MAX_CHUNKS),
    why_not=lambda asked: "" if asked.schedule is ScheduleKind.INTERLEAVED else _only_for((ScheduleKind.INTERLEAVED,)),
)
WEIGHT_GRADIENTS = Parameter[float](
    name="weight_gradient_share",
    scope=Scope.SCHEDULE,
    address="weight_gradients",
    flag="--weight-gradient-share",
    metavar="S",
    codec=PERCENT,
    flag_codec=NUMBER,
    unit=Unit.PERCENT,
    label="Weight gradients (% of backward)",
    noun="weight gradients",
    help="Share of each backward pass that nobody waits for. Graphs do not tell it; in a matrix product the gradients "
    "of weights and inputs take the same time.",
    get=lambda asked: asked.weight_gradient_share,
    put=lambda asked, value: replace(asked, weight_gradient_share=value),
    usual=lambda _: WEIGHT_GRADIENT_SHARE,
    limits=Range(0, 1),
    why_not=lambda asked: "" if asked.schedule in ZERO_BUBBLE_KINDS else _only_for(ZERO_BUBBLE_KINDS),
)


def _only_for(kinds: tuple[ScheduleKind, ...]) -> str:
    return f"only for the schedules {' and '.join(kinds)}"
