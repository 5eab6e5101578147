"""What a solve answers, and what it says while it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from solvers.model.costs import Objective
from solvers.model.split import Family, Split, Violation


class SolveStatus(StrEnum):
    """What is proved: OPTIMAL no better plan exists, FEASIBLE a plan, INFEASIBLE no plan exists, UNKNOWN neither.

    A plan within the gap that was asked for but not within PROOF_TOLERANCE of its bound is FEASIBLE.
    """

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"


PROOF_TOLERANCE = 1e-6
"""Largest relative gap that counts as none: solvers work in floating point."""

MS_PER_SECOND = 1000

LOADING = "loading the solver (compiled at its first use)"
"""The phase in which numba's kernels are compiled, or read from its cache on disk; see `solvers.warm_up`."""


def relative_gap(value_ms: float | None, lower_bound_ms: float | None) -> float | None:
    """Return (value - lower bound) / value, at least 0; None where either is unknown.

    >>> relative_gap(10.0, 9.0)
    0.1
    """
    if value_ms is None or lower_bound_ms is None:
        return None
    return max(0.0, (value_ms - lower_bound_ms) / value_ms) if value_ms > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a running solve: best value and proven bound so far in ms, None while there is none.

    `split` is the best plan so far when this report brings a new one, else None.
    """

    seconds: float
    incumbent_ms: float | None
    lower_bound_ms: float | None
    phase: str
    split: Split | None = None

    @property
    def gap(self) -> float | None:
        """Relative gap between incumbent and bound."""
        return relative_gap(self.incumbent_ms, self.lower_bound_ms)


OnProgress = Callable[[Progress], None]
"""Called from the solving thread; raise SolveCancelled in it to end the solve."""


class SolveCancelled(Exception):  # noqa: N818 -- a request of the caller, not an error
    """Raised inside a progress callback to stop a solve; `solve` turns it into its best answer so far."""


def passes_per_second(result: "SolveResult") -> float | None:
    """Return the throughput of a plan in micro-batches per second; None without one, and for a latency."""
    is_pipeline = result.objective is not Objective.LATENCY
    return MS_PER_SECOND / result.value_ms if is_pipeline and result.value_ms else None


@dataclass(frozen=True, slots=True)
class RejectedPlan:
    """A plan that is no answer because of what it breaks: its value in ms is for comparison only."""

    split: Split
    value_ms: float
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class SolveResult:
    """An answer with its proof: value and proven lower bound in ms, None where there is none.

    `message` says why there is no plan, or what the reader must know about the answer; empty otherwise. `rejected` is
    the best plan of a baseline that found none without violations, such as one that ignores memory. `num_kept` counts
    what the DP's searches kept, an ideal on so many devices each time; None where it did not run.
    """

    status: SolveStatus
    method: str
    objective: Objective
    family: Family
    split: Split | None
    value_ms: float | None
    lower_bound_ms: float | None
    runtime_s: float
    message: str = ""
    rejected: RejectedPlan | None = None
    num_kept: int | None = None

    @property
    def gap(self) -> float | None:
        """Relative gap between value and bound."""
        return relative_gap(self.value_ms, self.lower_bound_ms)
