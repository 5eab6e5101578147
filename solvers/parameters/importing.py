"""The inputs of an import: what a model of another program's is brought in to do, and what a node of its graph is.

They come before all others: what makes a graph of a model gives the question that these begin with.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from solvers.hardware.devices import Catalogue, CatalogueError
from solvers.importers.limits import MAX_BATCH, MAX_NODES, MAX_TOKENS
from solvers.importers.workload import (
    USUAL_NODES,
    USUAL_TOKENS,
    Devices,
    Level,
    Mode,
    NumberFormat,
    SourceKind,
    Tied,
    TimeUnit,
    Workload,
)
from solvers.parameters.codecs import COUNT, DIMENSIONS, NAME, Codec, one_of, optional
from solvers.parameters.parameter import Asked, ModelWish, Parameter, Range, Scope
from solvers.quantities import count

USUAL_HOST = "Xeon-8480"
"""CPUs that times are computed for unless somebody says."""
PROFILES = (SourceKind.PIPEDREAM, SourceKind.PIPER)
OPEN_SIZES = (SourceKind.ARCHIVE, SourceKind.ONNX)
KEEPS_ITS_SHAPES = {
    SourceKind.ARCHIVE: "an archive has the shapes it was exported with",
    SourceKind.ONNX: "an ONNX file has dimensions of its own",
}
IS_MEASURED = "a profile is of the training steps that were measured"


def _wished(name: str) -> Callable[[Asked, Any], Asked]:
    def put(asked: Asked, value: Any) -> Asked:
        return replace(asked, model=replace(asked.model, **{name: value}))

    return put


def _of_profile(asked: Asked) -> str:
    return IS_MEASURED if asked.model.kind in PROFILES else ""


def _shapes(asked: Asked) -> str:
    return KEEPS_ITS_SHAPES.get(asked.model.kind, "") or _of_profile(asked)


def _modes(asked: Asked) -> tuple[Mode, ...]:
    is_one_pass = asked.model.kind in KEEPS_ITS_SHAPES
    return (Mode.PREFILL, Mode.TRAINING) if is_one_pass else tuple(Mode)


def _precisions(asked: Asked) -> tuple[NumberFormat | None, ...]:
    is_training = asked.model.mode is Mode.TRAINING
    small = (NumberFormat.FP8, NumberFormat.INT4)
    return (None, *(stored for stored in NumberFormat if not (is_training and stored in small)))


MODE = Parameter[Mode](
    name="mode",
    scope=Scope.IMPORT,
    address="mode",
    flag="--mode",
    codec=one_of(Mode),
    label="Mode",
    noun="mode",
    help="What the model does: read a prompt (prefill, for encoders and files one forward pass), generate one token "
    "(decode), or train.",
    get=lambda asked: asked.model.mode,
    put=_wished("mode"),
    usual=lambda _: Mode.PREFILL,
    allowed=_modes,
    why_not=_of_profile,
    names={Mode.PREFILL: "Prefill", Mode.DECODE: "Decode", Mode.TRAINING: "Training"},
)
BATCH = Parameter[int](
    name="batch",
    scope=Scope.IMPORT,
    address="batch",
    flag="--batch",
    metavar="B",
    codec=COUNT,
    label="Batch",
    noun="batch",
    help="Number of sequences or images of one micro-batch; in an ONNX file the size of dimensions that are called "
    "batch.",
    get=lambda asked: asked.model.batch,
    put=_wished("batch"),
    usual=lambda _: 1,
    limits=Range(1, MAX_BATCH),
    why_not=lambda asked: "" if asked.model.kind is SourceKind.ONNX else _shapes(asked),
)
SEQUENCE = Parameter[int | None](
    name="sequence",
    scope=Scope.IMPORT,
    address="sequence",
    flag="--sequence",
    metavar="T",
    codec=optional(COUNT),
    label="Sequence (tokens)",
    noun="sequence",
    help=f"Tokens of a sequence; none takes {count(USUAL_TOKENS)}, or as many as the model has positions for.",
    get=lambda asked: asked.model.sequence,
    put=_wished("sequence"),
    usual=lambda _: None,
    limits=Range(1, MAX_TOKENS),
    why_not=_shapes,
)
CONTEXT = Parameter[int | None](
    name="context",
    scope=Scope.IMPORT,
    address="context",
    flag="--context",
    metavar="N",
    codec=optional(COUNT),
    label="Context (tokens)",
    noun="context",
    help=f"Tokens in the cache that a decoded token finds; none takes {count(USUAL_TOKENS)}, or as many as the "
    "model has positions for.",
    get=lambda asked: asked.model.context,
    put=_wished("context"),
    usual=lambda _: None,
    limits=Range(1, MAX_TOKENS),
    why_not=lambda asked: (
        _shapes(asked) or ("" if asked.model.mode is Mode.DECODE else "only decode finds tokens in a cache")
    ),
)
_NUMBER_FORMAT = optional(one_of(NumberFormat))
PRECISION = Parameter[NumberFormat | None](
    name="precision",
    scope=Scope.IMPORT,
    address="precision",
    flag="--precision",
    codec=Codec(_NUMBER_FORMAT.read, _NUMBER_FORMAT.write, (None, *NumberFormat), is_optional=True),
    label="Precision",
    noun="precision",
    help="Format that weights are stored in; none takes that of an ONNX file, else bf16 where the device computes in "
    "it.",
    get=lambda asked: asked.model.precision,
    put=_wished("precision"),
    usual=lambda _: None,
    allowed=_precisions,
    why_not=_of_profile,
    names={None: "Automatic"},
)
LEVEL = Parameter[Level](
    name="level",
    scope=Scope.IMPORT,
    address="granularity",
    flag="--level",
    codec=one_of(Level),
    label="Nodes are",
    noun="granularity",
    help="What a node of the graph is: a layer, an operator, or (auto) the finest of operators, modules and layers "
    "that makes few enough nodes.",
    get=lambda asked: asked.model.level,
    put=_wished("level"),
    usual=lambda _: Level.LAYERS,
    allowed=lambda _: tuple(Level),
    why_not=_of_profile,
    names={Level.LAYERS: "Layers", Level.OPERATORS: "Operators", Level.AUTO: "Automatic"},
)
NODES = Parameter[int](
    name="nodes",
    scope=Scope.IMPORT,
    address="most_nodes",
    flag="--nodes",
    metavar="N",
    codec=COUNT,
    label="Nodes, at most",
    noun="nodes at most",
    help="Number of nodes that the granularity auto may make.",
    get=lambda asked: asked.model.nodes,
    put=_wished("nodes"),
    usual=lambda _: USUAL_NODES,
    limits=Range(1, MAX_NODES),
    why_not=lambda asked: (
        _of_profile(asked) or ("" if asked.model.level is Level.AUTO else "only automatic granularity has a limit")
    ),
)
TIED = Parameter[Tied](
    name="tied",
    scope=Scope.IMPORT,
    address="tied",
    flag="--tied",
    codec=one_of(Tied),
    label="Tied weights",
    noun="tied weights",
    help="Layers that use one matrix, such as embedding and output, share a device, or each has a copy, as in "
    "pipelines.",
    get=lambda asked: asked.model.tied,
    put=_wished("tied"),
    usual=lambda _: Tied.SHARE,
    allowed=lambda _: tuple(Tied),
    why_not=_of_profile,
    names={Tied.SHARE: "One device", Tied.COPY: "A copy each"},
)
DIM = Parameter[tuple[tuple[str, int], ...]](
    name="dim",
    scope=Scope.IMPORT,
    address="dim",
    flag="--dim",
    metavar="NAME=SIZE",
    codec=DIMENSIONS,
    label="Open dimensions",
    noun="open dimensions",
    help="Sizes of dimensions that an ONNX file or an archive leaves open, such as batch=8; * stands for all that have "
    "none.",
    get=lambda asked: asked.model.dim,
    put=_wished("dim"),
    usual=lambda _: (),
    why_not=lambda asked: "" if asked.model.kind in OPEN_SIZES else "only ONNX files and archives leave sizes open",
)
TIME_UNIT = Parameter[TimeUnit | None](
    name="time_unit",
    scope=Scope.IMPORT,
    address="time_unit",
    flag="--time-unit",
    codec=Codec(optional(one_of(TimeUnit)).read, optional(one_of(TimeUnit)).write, (None, *TimeUnit), is_optional=True),
    label="Times are in",
    noun="time unit",
    help="Unit of a profile's times; none takes the one of its format.",
    get=lambda asked: asked.model.time_unit,
    put=_wished("time_unit"),
    usual=lambda _: None,
    allowed=lambda _: (None, *TimeUnit),
    why_not=lambda asked: "" if asked.model.kind in PROFILES else "only a profile has times",
    names={None: "Usual unit"},
)
DEVICE = Parameter[str](
    name="device",
    scope=Scope.IMPORT,
    address="device",
    flag="--device",
    metavar="NAME",
    codec=NAME,
    label="Accelerator",
    noun="accelerator",
    help="Accelerator of the catalogue that times are computed for; of a profile, whose memory there is.",
    get=lambda asked: asked.model.device,
    put=_wished("device"),
    usual=lambda _: ModelWish().device,
    allowed=lambda asked: tuple(asked.model.links),
)
LINK = Parameter[str | None](
    name="link",
    scope=Scope.IMPORT,
    address="link",
    flag="--link",
    metavar="NAME",
    codec=optional(NAME),
    label="Link",
    noun="link",
    help="Link of the catalogue between the accelerators; none takes the fastest that they have, or that of a profile.",
    get=lambda asked: asked.model.link,
    put=_wished("link"),
    usual=lambda _: None,
    allowed=lambda asked: (None, *asked.model.links.get(asked.model.device, ())),
    names={None: "The fastest"},
)

MODEL: tuple[Parameter[Any], ...] = (
    MODE,
    BATCH,
    SEQUENCE,
    CONTEXT,
    PRECISION,
    LEVEL,
    NODES,
    TIED,
    DIM,
    TIME_UNIT,
    DEVICE,
    LINK,
)


def model_wish(kind: SourceKind, known: Catalogue) -> ModelWish:
    """Return the wish that everything be as usual, for a source of this kind and the devices of a catalogue."""
    names = tuple(link.name for link in known.links)
    return ModelWish(
        kind,
        {
            accelerator.name: (
                *(own for own in accelerator.links if own in names),
                *(name for name in names if name not in accelerator.links),
            )
            for accelerator in known.accelerators
        },
    )


def workload_of(values: Mapping[str, Any]) -> Workload:
    """Return what these values, by the names of parameters, ask of a model; SourceError where they contradict."""
    wish = ModelWish(**{parameter.name: values[parameter.name] for parameter in MODEL if parameter.name in values})
    return Workload(
        wish.mode,
        wish.level,
        wish.batch,
        wish.sequence,
        wish.context,
        wish.precision,
        wish.tied,
        wish.dim,
        nodes=wish.nodes,
        time_unit=wish.time_unit,
    )


def devices_of(
    values: Mapping[str, Any],
    known: Catalogue,
    host: str = USUAL_HOST,
    num_accelerators: int | None = None,
    num_cpus: int = 0,
) -> Devices:
    """Return the devices that these values name; CatalogueError for what the catalogue does not have."""
    accelerator = known.accelerator(values.get(DEVICE.name, ModelWish().device))
    asked_link = values.get(LINK.name)
    link = asked_link or next(iter(accelerator.links), None)
    if link is None:
        raise CatalogueError(f"{accelerator.name} has no link in the catalogue; give --link, such as ethernet-100.")
    return Devices(
        accelerator,
        known.link(link),
        known.host(host),
        num_accelerators,
        num_cpus,
        is_usual_link=asked_link is None,
    )
