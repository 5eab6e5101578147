"""What a repair is asked and what it answers, for processes that do not load the solver."""

from dataclasses import dataclass

from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.problem.pins import Pins


@dataclass(frozen=True, slots=True)
class RepairQuestion:
    """What `solvers.milp.repair.repair` takes; seconds of wall time."""

    graph: DnnGraph
    deployment: Deployment
    split: Split
    family: Family
    pins: Pins
    known: Split | None
    time_limit_s: float


@dataclass(frozen=True, slots=True)
class Repair:
    """A valid split with few nodes moved, or why there is none; `message` says it in words.

    `is_least` says that no change of fewer nodes is enough, which is then proven. `split` is None where nothing was
    found; then `is_impossible` says whether it is proven that there is none.
    """

    split: Split | None
    moved: tuple[int, ...]
    is_least: bool
    is_impossible: bool
    message: str
