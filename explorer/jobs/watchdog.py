"""When a solver process is ended although it is at work, or idle, and what is said of one that has ended.

Rules alone: `WorkerPool` asks them and does what they say.
"""

from dataclasses import dataclass

from explorer.jobs.process import SolverProcess
from explorer.jobs.record import Work
from solvers.processes.child import Cause, End
from solvers.quantities import binary_size, seconds

OVERTIME_S = 5.0
"""What a solver may take beyond its limit to end by itself; then it is ended."""
START_LIMIT_S = 180.0
"""What a process may take to get ready, which compiles the kernels where that was never done."""
GROWN_BYTES = 400 * 2**20
"""An idle process that has grown beyond this is ended: a fresh one takes about half."""
QUIET_SECONDS = 60.0
"""When nothing was at work for so long, processes that have worked are ended: a fresh one waits in their place."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """The rules of a server on which one solver may take `most_bytes` of memory."""

    most_bytes: float

    def limit_passed(self, worker: SolverProcess, work: Work, memory_bytes: float) -> Cause | None:
        """Return which limit a process at work has gone past, at so much memory; None for none."""
        if memory_bytes > self.most_bytes:
            return Cause.MEMORY
        is_late = work.seconds > work.limit_s + OVERTIME_S or (not worker.is_ready and worker.age_s > START_LIMIT_S)
        return Cause.SILENCE if is_late else None

    def is_used_up(self, worker: SolverProcess, memory_bytes: float, quiet_s: float) -> bool:
        """Whether an idle process is better replaced, at so much memory, after so long without any work."""
        return memory_bytes > GROWN_BYTES or (quiet_s > QUIET_SECONDS and worker.has_worked)

    def sentence(self, worker: SolverProcess, end: End) -> str:
        """Say how a process ended that was at work."""
        if end.cause is Cause.MEMORY:
            return (
                f"The solver was stopped at {binary_size(self.most_bytes)} of memory, the most that one may take on "
                "this server. Another method, a pipeline split or a smaller graph (folded layers) takes less."
            )
        if end.cause is Cause.SILENCE and not worker.is_ready:
            return f"The solver did not start within {seconds(START_LIMIT_S)} and was stopped."
        if end.cause is Cause.SILENCE:
            return f"The solver did not end by itself and was stopped {seconds(OVERTIME_S)} after its limit."
        if end.signal_name == "SIGKILL":
            return "The solver process was killed from outside; most likely the machine ran out of memory."
        if end.signal_name:
            return f"The solver process crashed ({end.signal_name}); this is a fault of the program."
        return f"The solver process ended unexpectedly (exit code {end.code}); this is a fault of the program."
