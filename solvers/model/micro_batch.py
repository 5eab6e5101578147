"""What one pass through a graph handles: a micro-batch of sequences, images or tokens, where that is known.

All times of a graph are per micro-batch, so 1000 / max-load is micro-batches per second. Who sizes hardware counts in
samples: `MicroBatch` converts. The paper's "sample" is what the pipeline takes in at once, a micro-batch here.
"""

from dataclasses import dataclass

from solvers.model.errors import GraphError
from solvers.quantities import UNKNOWN, as_given, number

MAX_SAMPLES = 1e12
MAX_UNIT = 40
"""Characters of a unit: it stands behind numbers."""

PASSES = "micro-batches"
"""What is counted where a graph does not say what its micro-batch holds."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What a micro-batch holds: `samples` of a `unit`, a plural for people, each of `tokens_per_sample` if known.

    Raises GraphError for numbers that are not positive, or beyond what any hardware handles.

    >>> MicroBatch(2, "sequences", 1024).rate_text(5.885)
    '11.77 sequences/s'
    """

    samples: float
    unit: str = "samples"
    tokens_per_sample: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("samplesPerMicroBatch", self.samples), ("tokensPerSample", self.tokens_per_sample)):
            if value is not None and not 0 < value <= MAX_SAMPLES:
                raise GraphError(f"{name} is {value}; give a number above 0 and up to {as_given(MAX_SAMPLES)}.")
        if not self.unit or len(self.unit) > MAX_UNIT or not self.unit.isprintable():
            raise GraphError(f"sampleUnit must be a printable name of up to {MAX_UNIT} characters, such as sequences.")
        object.__setattr__(self, "samples", float(self.samples))
        if self.tokens_per_sample is not None:
            object.__setattr__(self, "tokens_per_sample", float(self.tokens_per_sample))

    @property
    def text(self) -> str:
        """What it holds in words: "2 sequences of 1,024 tokens"."""
        tokens = "" if self.tokens_per_sample is None else f" of {as_given(self.tokens_per_sample)} tokens"
        return f"{as_given(self.samples)} {self.unit}{tokens}"

    def rate_text(self, passes_per_s: float) -> str:
        """Write how many samples a throughput in micro-batches per second is."""
        return f"{number(passes_per_s * self.samples)} {self.unit}/s"

    def tokens_text(self, passes_per_s: float) -> str:
        """Write how many tokens a throughput in micro-batches per second is; empty where that is not known."""
        if self.tokens_per_sample is None:
            return ""
        return f"{number(passes_per_s * self.samples * self.tokens_per_sample)} tokens/s"


def samples_per_pass(micro_batch: MicroBatch | None) -> float:
    """Return by what a throughput in micro-batches per second is multiplied to be shown in `sample_unit`."""
    return 1.0 if micro_batch is None else micro_batch.samples


def sample_unit(micro_batch: MicroBatch | None) -> str:
    """Return what a throughput is counted in where one number is to stand for it."""
    return PASSES if micro_batch is None else micro_batch.unit


def throughput_text(passes_per_s: float | None, micro_batch: MicroBatch | None) -> str:
    """Write a throughput in micro-batches per second, and in samples where it is known how many one holds.

    >>> throughput_text(5.885, None), throughput_text(5.885, MicroBatch(2, "sequences", 1024))
    ('5.885 micro-batches/s', '5.885 micro-batches/s = 11.77 sequences/s')
    """
    if passes_per_s is None:
        return UNKNOWN
    passes = f"{number(passes_per_s)} {PASSES}/s"
    return passes if micro_batch is None else f"{passes} = {micro_batch.rate_text(passes_per_s)}"
