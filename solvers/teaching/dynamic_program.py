"""The dynamic program over ideals, cell by cell (Tarnawski et al., NeurIPS 2020, section 4).

Cell (I, j, c) is the least possible max-load of the nodes of ideal I on j accelerators and c CPUs. The last device
holds the stage I - I' for some ideal I' within I, and the others do as well as they can with I':

    D(I, j, c) = min over ideals I' within I of  max( D(I', j-1, c), load of I - I' on an accelerator ),
                                                 max( D(I', j, c-1), time of I - I' on a CPU )

with D({}, 0, 0) = 0. Cells with fewer devices are filled first, then those with smaller ideals. A stage may be empty:
its device idles. A chain of n nodes has n + 1 ideals, so this is also the textbook's program over prefixes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from solvers.model.split import Split
from solvers.teaching.ideals import ideals_of
from solvers.teaching.small import Ideal, SmallProblem, TeachingError

MAX_CANDIDATES = 300_000
"""Candidates of all cells together: about a second of work."""


class On(StrEnum):
    """What the last device is."""

    ACCELERATOR = "accelerator"
    CPU = "CPU"


@dataclass(frozen=True, slots=True)
class State:
    """The nodes that are placed, and the devices that they are placed on."""

    ideal: Ideal
    accelerators: int
    cpus: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to fill a cell: the cell before, and a stage on one device more.

    `stage_ms` is what that device takes, None where it cannot hold the stage; `value_ms` is the larger of it and the
    value of the cell before, None where either is.
    """

    before: State
    stage: Ideal
    on: On
    before_ms: float | None
    stage_ms: float | None
    value_ms: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that was just filled, and the candidates that were compared; `best` is the place of the winner.

    `value_ms` is None where the nodes cannot be placed on these devices; `best` is None there and in the first cell.
    """

    state: State
    value_ms: float | None
    candidates: tuple[Candidate, ...]
    best: int | None

    @property
    def winner(self) -> Candidate | None:
        """The candidate that gives the cell its value."""
        return None if self.best is None else self.candidates[self.best]


def filled_cells(problem: SmallProblem) -> Iterator[Cell]:
    """Yield every cell as it is filled; TeachingError where there would be more candidates than MAX_CANDIDATES."""
    ideals = ideals_of(problem)
    within = {ideal: [other for other in ideals if other <= ideal] for ideal in ideals}
    k, num_cpus = problem.deployment.num_accelerators, problem.deployment.num_cpus
    if 2 * (k + 1) * (num_cpus + 1) * sum(map(len, within.values())) > MAX_CANDIDATES:
        raise TeachingError("The table of this graph on these devices is too large; take fewer branches or devices.")
    loads = {
        stage: (problem.load_ms(stage), problem.cpu_ms(stage))
        for stage in {ideal - other for ideal in ideals for other in within[ideal]}
    }
    value: dict[State, float | None] = {}
    for j, c in sorted(((j, c) for j in range(k + 1) for c in range(num_cpus + 1)), key=lambda jc: (sum(jc), jc[1])):
        for ideal in ideals:
            candidates: list[Candidate] = []
            # The largest ideal before comes first, so that of equal candidates the one with the smallest stage wins.
            for before in reversed(within[ideal]):
                stage = ideal - before
                on_accelerator, on_cpu = loads[stage]
                if j:
                    candidates.append(_candidate(value, State(before, j - 1, c), stage, On.ACCELERATOR, on_accelerator))
                if c:
                    candidates.append(_candidate(value, State(before, j, c - 1), stage, On.CPU, on_cpu))
            state = State(ideal, j, c)
            usable = [(x.value_ms, i) for i, x in enumerate(candidates) if x.value_ms is not None]
            best = min(usable, default=None)
            value[state] = best[0] if best else (0.0 if not ideal and not j and not c else None)
            yield Cell(state, value[state], tuple(candidates), best[1] if best else None)


def _candidate(
    value: dict[State, float | None], before: State, stage: Ideal, on: On, stage_ms: float | None
) -> Candidate:
    before_ms = value[before]
    value_ms = None if before_ms is None or stage_ms is None else max(before_ms, stage_ms)
    return Candidate(before, stage, on, before_ms, stage_ms, value_ms)


def traced_back(problem: SmallProblem, cells: dict[State, Cell]) -> Iterator[Cell]:
    """Yield the cells of the best plan, the last one first; nothing where there is no plan."""
    state = State(problem.nodes, problem.deployment.num_accelerators, problem.deployment.num_cpus)
    if cells[state].value_ms is None:
        return
    while True:
        cell = cells[state]
        yield cell
        if cell.winner is None:
            return
        state = cell.winner.before


def split_of(problem: SmallProblem, cells: dict[State, Cell]) -> Split | None:
    """Return the plan that the filled cells lead back to, its stages in the order of the pipeline; None for none."""
    path = list(traced_back(problem, cells))
    if not path:
        return None
    accelerators: list[frozenset[int]] = []
    cpus: list[frozenset[int]] = []
    for cell in reversed(path):
        if cell.winner is not None:
            (accelerators if cell.winner.on is On.ACCELERATOR else cpus).append(cell.winner.stage)
    return Split(tuple(accelerators), tuple(cpus))


def solved_table(problem: SmallProblem) -> dict[State, Cell]:
    """Return all cells by their states.

    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.graph import DnnGraph, Edge, Node
    >>> graph = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0)), (Edge(1, 2),))
    >>> solved_table(SmallProblem(graph, Deployment(2)))[State(frozenset({1, 2}), 2, 0)].value_ms
    3.5
    """
    return {cell.state: cell for cell in filled_cells(problem)}
