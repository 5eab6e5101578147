"""What the side bar asks for, as one record."""

from dataclasses import dataclass

from explorer.jobs.record import Question
from explorer.state.records import LoadedGraph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.parameters.parameter import Asked
from solvers.parameters.schedule import CHUNKS, SCHEDULE
from solvers.schedule.records import WEIGHT_GRADIENT_SHARE, ScheduleKind


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """`chunks` per device, for schedules with several; `weight_gradient_share` of a backward pass, from 0 to 1."""

    chunks: int = CHUNKS
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE


@dataclass(frozen=True, slots=True)
class Choice:
    """A question on a loaded graph, with the schedule to show a plan under, and whether a solve is asked for."""

    loaded: LoadedGraph
    asked: Asked
    asks_to_solve: bool = False

    @property
    def graph(self) -> DnnGraph:
        """The graph on the devices and at the bandwidth asked for."""
        return self.asked.graph

    @property
    def deployment(self) -> Deployment:
        """The devices asked for, under the assumptions asked for."""
        return self.asked.deployment

    @property
    def question(self) -> Question:
        """The question as solves are known by it."""
        return question_of(self.asked)

    @property
    def schedule(self) -> ScheduleKind:
        """The schedule to show."""
        return SCHEDULE.get(self.asked)

    @property
    def num_micro_batches(self) -> int:
        """How many micro-batches it runs."""
        return self.asked.num_micro_batches

    @property
    def schedule_options(self) -> ScheduleOptions:
        """What else the schedule needs."""
        return ScheduleOptions(self.asked.chunks, self.asked.weight_gradient_share)


def question_of(asked: Asked) -> Question:
    """Return the question as solves are known by it."""
    return Question(
        asked.graph.digest,
        asked.deployment,
        asked.objective,
        asked.method,
        asked.family,
        asked.time_limit_s,
        asked.gap,
    )
