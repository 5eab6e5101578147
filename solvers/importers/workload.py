"""What an imported model is to do, and on which devices: the choices that a model's file does not make."""

import math
from dataclasses import dataclass
from enum import StrEnum

from solvers.hardware.devices import Accelerator, CatalogueError, HostCpu, Link, Precision
from solvers.hardware.roofline import Setup
from solvers.importers.cost_model import CostModel
from solvers.importers.limits import MAX_BATCH, MAX_DIMENSIONS, MAX_NODES, MAX_TOKENS, MAX_TOKENS_IN_ALL
from solvers.model.deployment import MAX_DEVICES, Deployment
from solvers.model.errors import SourceError
from solvers.quantities import count

USUAL_TOKENS = 2048
"""Tokens of a sequence, or of its cache, where nobody says and the model has as many positions."""


ALL = "*"
"""What `Workload.dims` calls every dimension that is given no size else."""


class SourceKind(StrEnum):
    """What holds a model of another program's."""

    CONFIG = "config"
    ARCHIVE = "archive"
    ONNX = "onnx"
    PIPEDREAM = "pipedream"
    PIPER = "piper"


class Mode(StrEnum):
    """Read a prompt, generate one token with a cache of those before it, or train."""

    PREFILL = "prefill"
    DECODE = "decode"
    TRAINING = "training"


class Level(StrEnum):
    """What a node is; `AUTO` is the finest of operators, modules and layers that has as few nodes as asked for."""

    LAYERS = "layers"
    OPERATORS = "operators"
    AUTO = "auto"


USUAL_NODES = 200
"""Nodes of `Level.AUTO` where nobody says: most solvers prove optima of graphs of that size in seconds."""


class Tied(StrEnum):
    """Layers that use one matrix share a device, or the later ones hold a copy of their own."""

    SHARE = "share"
    COPY = "copy"


class NumberFormat(StrEnum):
    """How weights are stored. Other tensors have the same format, or 2 bytes an element where that has 1 or less."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT4 = "int4"

    @property
    def weight_bytes(self) -> float:
        """Bytes of a weight; scales of groups of weights are left out."""
        return {NumberFormat.FP32: 4.0, NumberFormat.FP8: 1.0, NumberFormat.INT4: 0.5}.get(self, 2.0)

    @property
    def element_bytes(self) -> float:
        """Bytes of an element of any other tensor."""
        return max(2.0, self.weight_bytes)


class TimeUnit(StrEnum):
    """What the times of a profile are in."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"

    @property
    def ms(self) -> float:
        """The unit in ms."""
        return {TimeUnit.SECONDS: 1e3, TimeUnit.MILLISECONDS: 1.0, TimeUnit.MICROSECONDS: 1e-3}[self]


STATE_BYTES = 16.0
"""Training, per parameter: in 16 bits weight 2, gradient 2, fp32 copy of the weight 4 and Adam's moments 4 and 4;
in 32 bits weight 4, gradient 4, moments 4 and 4. (Rajbhandari et al., "ZeRO", SC 2020, section 3.1.)
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """How an imported model is used; `batch` is the number of sequences or images of one micro-batch.

    `sequence` and `context` are tokens of a sequence and of the cache that a decoded token finds; None is the usual
    number, or as many as the model has positions. `number_format` None is what the accelerator usually computes in.
    `dims` are sizes of dimensions that a file leaves open, by name, `nodes` how many nodes `Level.AUTO` may make,
    `time_unit` that of a profile's times, None the one of its format.
    """

    mode: Mode = Mode.PREFILL
    level: Level = Level.LAYERS
    batch: int = 1
    sequence: int | None = None
    context: int | None = None
    number_format: NumberFormat | None = None
    tied: Tied = Tied.SHARE
    dims: tuple[tuple[str, int], ...] = ()
    nodes: int = USUAL_NODES
    time_unit: TimeUnit | None = None

    def __post_init__(self) -> None:
        names = [name for name, _ in self.dims]
        if len(names) > MAX_DIMENSIONS or len(set(names)) < len(names):
            raise SourceError(f"--dim names a dimension twice, or more than {count(MAX_DIMENSIONS)}; give each once.")
        for name, size in self.dims:
            _check(f"--dim {name[:40]}", size, MAX_TOKENS)
        _check("--batch", self.batch, MAX_BATCH)
        _check("--nodes", self.nodes, MAX_NODES)
        if self.nodes != USUAL_NODES and self.level is not Level.AUTO:
            raise SourceError("--nodes is how many nodes --level auto may make; give that level, or leave it out.")
        for option, value in (("--sequence", self.sequence), ("--context", self.context)):
            if value is not None:
                _check(option, value, MAX_TOKENS)
        if self.batch * max(self.sequence or 1, self.context or 1) > MAX_TOKENS_IN_ALL:
            raise SourceError(f"A batch of more than {count(MAX_TOKENS_IN_ALL)} tokens is not imported; give fewer.")
        if self.context is not None and self.mode is not Mode.DECODE:
            raise SourceError("--context is the cache that --mode decode finds; give that mode, or leave it out.")
        if self.mode is Mode.TRAINING and self.number_format in (NumberFormat.FP8, NumberFormat.INT4):
            raise SourceError(
                f"Training in {self.number_format} has no one rule for what is stored in which format; give bf16, fp16 "
                "or fp32."
            )


def _check(option: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise SourceError(f"{option} is {value}; give a whole number from 1 to {count(most)}.")


SERVER = 8
"""Accelerators of a usual server."""
SPARE = 1.1
"""Memory to plan for where nobody says how many accelerators, as a multiple of what all nodes take: nodes are whole."""


@dataclass(frozen=True, slots=True)
class Devices:
    """Accelerators that are alike, their link, and host CPUs; a file's own link comes before a usual one.

    `num_accelerators` None is `SERVER`, or as many times that as memory calls for.
    """

    accelerator: Accelerator
    link: Link
    host: HostCpu
    num_accelerators: int | None = None
    num_cpus: int = 0
    is_usual_link: bool = False

    def deployment(self, memory_bytes: float) -> Deployment:
        """Return these devices for a graph whose nodes take so much memory together."""
        capacity = self.accelerator.memory_bytes
        servers = math.ceil(SPARE * memory_bytes / (SERVER * capacity)) if capacity else 1
        enough = min(SERVER * max(1, servers), MAX_DEVICES)
        return Deployment(enough if self.num_accelerators is None else self.num_accelerators, self.num_cpus, capacity)

    def number_format(self, asked: NumberFormat | None) -> NumberFormat:
        """Return how numbers are stored: as asked, or in bf16 where the accelerator computes in it, else fp16, fp32."""
        if asked is not None:
            return asked
        usual = (NumberFormat.BF16, NumberFormat.FP16, NumberFormat.FP32)
        known = [number_format for number_format in usual if self._computes_in(number_format)]
        if not known:
            raise CatalogueError(f"{self.accelerator.name} has no peak in bf16, fp16 or fp32; give --precision.")
        return known[0]

    def arithmetic(self, stored: NumberFormat) -> Precision:
        """Return the precision of products: that of the weights, or the usual one where it has no arithmetic for it."""
        if stored is NumberFormat.INT4 or (stored is NumberFormat.FP8 and not self._computes_in(stored)):
            return self.accelerator.usual_precision
        return Precision(stored.value)

    def _computes_in(self, stored: NumberFormat) -> bool:
        return any(precision == stored.value for precision in self.accelerator.precisions)

    def costs(self, stored: NumberFormat) -> CostModel:
        """Return what operators cost; CatalogueError where the accelerator has no peak in that precision."""
        return CostModel(
            Setup(self.accelerator, self.arithmetic(stored)),
            Setup(self.host, self.host.usual_precision),
            self.link.bandwidth_bytes_per_ms,
            stored.weight_bytes,
            stored.element_bytes,
            STATE_BYTES,
        )
