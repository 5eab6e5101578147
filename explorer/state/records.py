"""What the app remembers of a session, as plain records: graphs, plans, runs, and what was said of them."""

from dataclasses import dataclass

from explorer.jobs.pool import Job, Question
from explorer.jobs.sweep_run import SweepRun
from explorer.state.query import Link
from solvers.importers.imported import Totals
from solvers.importers.workload import SourceKind
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult
from solvers.model.split import Split


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model of another program's: a file that was uploaded, or a published config.

    `key` tells contents apart and `file_id` uploads; `origin` says where it is from, `title` what the model is called.
    """

    key: str
    kind: SourceKind
    content: bytes
    origin: str
    title: str
    file_id: str = ""


@dataclass(frozen=True, slots=True)
class ImportFacts:
    """How a graph was made of a model: the key of its source, and what was asked, as an address writes it.

    `totals` and `assumptions` are those of `solvers.importers.imported.Imported`.
    """

    key: str
    values: tuple[tuple[str, str], ...]
    totals: Totals
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoadedGraph:
    """A graph with the devices its file names, as it was read; `origin` says from where, for the title.

    `facts` are those of an import, None for a graph that was read as it is; `notes` are sentences on what was read
    otherwise than the file has it.
    """

    graph: DnnGraph
    deployment: Deployment
    origin: str
    facts: ImportFacts | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """An answer with a split, and the graph (at the bandwidth asked for) and devices it answers for.

    `loaded` is what the graph was before its bandwidth was edited: a plan is shown for no other.
    """

    question: Question
    loaded: LoadedGraph
    graph: DnnGraph
    deployment: Deployment
    result: SolveResult
    split: Split

    def answers_for(self, loaded: LoadedGraph) -> bool:
        """Whether this is a plan of a loaded graph, at whatever bandwidth and on whatever devices."""
        return self.loaded.graph.digest == loaded.graph.digest


@dataclass(frozen=True, slots=True)
class Subject:
    """What Explore asked last: a question on a graph (at the bandwidth asked for), and the address that asks it."""

    loaded: LoadedGraph
    graph: DnnGraph
    question: Question
    link: Link


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sweep that was started last, and what it is about."""

    run: SweepRun
    subject: Subject


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan kept for comparison; `number` stays its own however often it is renamed."""

    number: int
    name: str
    plan: Plan


@dataclass(frozen=True, slots=True)
class Run:
    """A solve that was started: `is_live` if a changed input started it, not a button."""

    job: Job
    loaded: LoadedGraph
    graph: DnnGraph
    is_live: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """How the last solve ended without a new plan: one sentence, and details to fold away."""

    question: Question
    message: str
    details: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What was known of the running solve when the page was drawn last, and when that began and ended (monotonic)."""

    question: Question
    best_split: Split | None
    lower_bound_ms: float | None
    began_s: float
    ended_s: float
