"""What there is to know of one input of a question, and the question as far as it is asked."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Generic, TypeVar

from solvers.exporters.frameworks import Framework
from solvers.hardware.roofline import USUAL, Efficiency
from solvers.importers.workload import USUAL_NODES, Level, Mode, NumberFormat, SourceKind, Tied, TimeUnit
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.parameters.codecs import Codec
from solvers.quantities import as_given
from solvers.schedule.records import WEIGHT_GRADIENT_SHARE, ScheduleKind

T = TypeVar("T")


class MemoryOf(StrEnum):
    """Whose activations memory counts: one micro-batch's, or those in flight under the timeline's schedule or another.

    The first two are "no" and "yes" in addresses, which knew only these once.
    """

    ONE = "no"
    TIMELINE = "yes"
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    PIPEDREAM = "pipedream"
    PIPEDREAM_2BW = "pipedream-2bw"


IN_FLIGHT = {
    ScheduleKind.GPIPE: InFlight.GPIPE,
    ScheduleKind.ONE_F_ONE_B: InFlight.ONE_F_ONE_B,
    ScheduleKind.PIPEDREAM: InFlight.PIPEDREAM,
    ScheduleKind.INTERLEAVED: InFlight.ONE_F_ONE_B,
    ScheduleKind.ZB_H1: InFlight.ONE_F_ONE_B,
    ScheduleKind.ZB_V: InFlight.ONE_F_ONE_B,
}
"""The schedules of the timeline as far as memory goes; those that keep more than 1F1B are planned for like it."""


@dataclass(frozen=True, slots=True)
class Wish:
    """The real devices that are asked for, as texts; `solvers.hardware.equipment` puts a graph on them."""

    devices: str = ""
    host: str = ""
    efficiency: float = USUAL.compute
    memory_efficiency: float = USUAL.memory
    measured_on: str = ""
    roofline: bool = False

    @property
    def shares(self) -> Efficiency:
        """The shares of peak and bandwidth that are reached."""
        return Efficiency(self.efficiency, self.memory_efficiency)


@dataclass(frozen=True, slots=True)
class ModelWish:
    """What is asked of a model of another program's; `solvers.importers` makes a graph of it.

    `kind` is what holds it, `links` the accelerators to choose from, each with the links to choose from, its own first.
    """

    kind: SourceKind = SourceKind.CONFIG
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mode: Mode = Mode.PREFILL
    level: Level = Level.LAYERS
    batch: int = 1
    sequence: int | None = None
    context: int | None = None
    precision: NumberFormat | None = None
    tied: Tied = Tied.SHARE
    dim: tuple[tuple[str, int], ...] = ()
    nodes: int = USUAL_NODES
    time_unit: TimeUnit | None = None
    device: str = "H100-SXM"
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as far as it is asked: a graph at the bandwidth and on the devices asked for, and how to place it.

    `own` and `own_graph` are the devices and the graph before counts, memory and links were changed, `file` the devices
    of the graph's file: defaults are theirs. `longest_s` is the longest time limit there may be, None for any.
    """

    own_graph: DnnGraph
    own: Deployment
    file: Deployment
    graph: DnnGraph
    deployment: Deployment
    objective: Objective = Objective.THROUGHPUT
    family: Family = Family.CHAIN
    method: str = "auto"
    time_limit_s: float | None = None
    gap: float = 0.0
    schedule: ScheduleKind | None = None
    num_micro_batches: int = 1
    chunks: int = 2
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE
    memory_of: MemoryOf = MemoryOf.ONE
    state_factor: float | None = None
    wish: Wish = Wish()
    longest_s: float | None = None
    expressible_in: Framework | None = None
    model: ModelWish = ModelWish()
    solver_memory: float | None = None

    def with_memory(self, **changes: Any) -> "Asked":
        """Return the question with changes of what the memory of training depends on."""
        changed = replace(self, **changes)
        schedule: InFlight | None = None
        if changed.memory_of is MemoryOf.TIMELINE:
            schedule = None if changed.schedule is None else IN_FLIGHT.get(changed.schedule)
        elif changed.memory_of is not MemoryOf.ONE:
            schedule = InFlight(changed.memory_of)
        memory = None
        if schedule is not None:
            memory = TrainingMemory(schedule, changed.num_micro_batches, changed.state_factor)
        return replace(changed, deployment=replace(changed.deployment, training_memory=memory))

    def on(self, **changes: Any) -> "Asked":
        """Return the question on a deployment with these fields changed."""
        return replace(self, deployment=replace(self.deployment, **changes))


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, both included unless `excludes` names them; whole ones for a count."""

    least: float
    most: float
    excludes: tuple[float, ...] = ()

    def __contains__(self, value: object) -> bool:
        """Whether a number is in the range."""
        return isinstance(value, int | float) and self.least <= value <= self.most and float(value) not in self.excludes

    def __str__(self) -> str:
        low = f"above {_limit(self.least)}" if self.least in self.excludes else f"from {_limit(self.least)}"
        high = f"less than {_limit(self.most)}" if self.most in self.excludes else f"up to {_limit(self.most)}"
        if self.least not in self.excludes and self.most not in self.excludes:
            high = _limit(self.most)
        return f"{low} to {high}" if self.least not in self.excludes else f"{low} and {high}"


def _limit(value: float) -> str:
    return as_given(value)


class Scope(StrEnum):
    """What an input belongs to, and so which commands have its option: the first two all, the last two one each."""

    COUNTS = "counts, memory and links"
    MODEL = "model"
    SEARCH = "search"
    REAL_DEVICES = "real devices"
    SCHEDULE = "schedule"
    IMPORT = "import"


class Unit(StrEnum):
    """In what a value is typed and shown."""

    NONE = ""
    GIB = "GiB"
    GB_PER_S = "GB/s"
    TIMES = "×"
    SECONDS = "s"
    PERCENT = "%"


@dataclass(frozen=True, slots=True)
class AxisTraits:
    """How a sweep varies a quantity: `name` in its addresses, `factor` from the unit typed to the one it counts in.

    `units` stand behind one and behind any other number, `short` is a label where there is little room, `usual` are
    the values that a page offers first. Where it `is_monotone` no plan gets worse towards the easier end, the larger
    one unless `is_easier_when_less`. An axis that
    `is_linear` is never drawn by logarithms.
    """

    name: str
    label: str
    column: str
    units: tuple[str, str] = ("", "")
    short: str = ""
    usual: str = ""
    is_whole: bool = False
    is_linear: bool = False
    is_monotone: bool = True
    is_easier_when_less: bool = False
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class Parameter(Generic[T]):
    """One input: everything about it that the command line, forms, addresses, files and sweeps have in common.

    `name` is what values are kept under, `address` the key in addresses and project files, `flag` the option, `json`
    the field of a graph's file. Values are in `unit`; shares are written as such on the command line, by `flag_codec`,
    and in percent elsewhere. `limits` hold whatever else is asked, `allowed` narrows them. Where `why_not` gives a
    reason the input says nothing and the question has what `idle` makes of it. `needs` names an input without which its
    flag says nothing. `noun` names it inside a sentence, `text` writes a value there.
    """

    name: str
    address: str
    codec: Codec[T]
    label: str
    help: str
    get: Callable[[Asked], T]
    put: Callable[[Asked, T], Asked]
    usual: Callable[[Asked], T]
    scope: Scope
    flag: str | None = None
    metavar: str = ""
    flag_codec: Codec[Any] | None = None
    json: str | None = None
    unit: Unit = Unit.NONE
    limits: Container[T] | None = None
    allowed: Callable[[Asked], Container[T]] | None = None
    why_not: Callable[[Asked], str] = lambda _: ""
    idle: Callable[[Asked], Asked] = lambda asked: asked
    needs: str = ""
    noun: str = ""
    text: Callable[[T], str] | None = None
    names: dict[Any, str] = field(default_factory=dict)
    axis: AxisTraits | None = None

    def __repr__(self) -> str:
        return self.name

    def written(self, value: T) -> str:
        """Write a value inside a sentence."""
        return self.text(value) if self.text is not None else self.codec.write(value)

    def misfit(self, asked: Asked, value: T) -> str:
        """Say why a value cannot be used for a question, without a full stop; empty where it can."""
        allowed = self.limits if self.allowed is None else self.allowed(asked)
        if allowed is None or value is None or value in allowed:
            return ""
        if isinstance(allowed, Range):
            return f"give {self._wanted(allowed)}"
        if isinstance(allowed, tuple) and allowed:
            return f"give one of {', '.join(map(self.codec.write, allowed))}"
        return "it does not fit here"

    @property
    def wanted(self) -> str:
        """What to give, as a number in its limits."""
        return self._wanted(self.limits) if isinstance(self.limits, Range) else "another value"

    def _wanted(self, allowed: Range) -> str:
        is_whole = isinstance(self.codec.read("1"), int)
        kind = "whole number" if is_whole else "share" if self.unit is Unit.PERCENT else "number"
        return f"a {kind} {allowed}"

    def taken(self, asked: Asked, value: T) -> Asked:
        """Return the question with a value; PlacementError where that cannot be."""
        return self.put(asked, value)


def checked(parameter: Parameter[T], asked: Asked, value: T) -> tuple[Asked, str]:
    """Return the question with a value, and a reason where it cannot have that: then the question stays."""
    if reason := parameter.misfit(asked, value):
        return asked, reason
    try:
        return parameter.taken(asked, value), ""
    except PlacementError as error:
        return asked, str(error).rstrip(".")
