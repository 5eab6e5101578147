"""Solver runs beside the app, each in a process of its own: start, look, cancel.

A run is known by its question. Whoever asks a question that is being solved joins its run, whoever asks one that
was answered gets the answer; each asker holds a `Job` of its own, which can be cancelled without disturbing the
others. Solver processes are started ahead of time and reused, so a solve begins at once. Cancelling kills the
process with all it has started (a solver in compiled code hears nothing else) and keeps the best plan it reported.

What runs at a time is decided by `explorer.jobs.slots`: live plans have slots of their own, all else is shared fairly
over the sessions. The points of sweeps are work like any other (`call`). A watchdog ends what goes on past its limit or
takes more memory than it may; the best plan until then is kept, and a sentence says why.

Nothing here calls Streamlit: jobs take and return plain values, and may be used from any thread.
"""

import atexit
import itertools
import logging
import math
import os
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from explorer.jobs.answers import Answers
from explorer.jobs.process import LONG_NICENESS, SolverProcess
from explorer.jobs.process_memory import memory_of_machine, memory_of_trees
from explorer.jobs.processes import SolverProcesses
from explorer.jobs.record import (
    CallRecord,
    Ending,
    HistoryPoint,
    JobState,
    Place,
    Question,
    Resumed,
    RunRecord,
    Snapshot,
    Work,
)
from explorer.jobs.sessions import Sessions
from explorer.jobs.slots import Do, Slots
from explorer.jobs.watchdog import Watchdog
from explorer.jobs.work_request import set_outcome
from explorer.jobs.worker import progress_from_document, unpacked
from solvers.compilation import COMPILING, is_compiled
from solvers.formats.result_json import result_from_document
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Split
from solvers.problem.table_memory import LIMIT_VARIABLE
from solvers.processes.child import Cause, End
from solvers.processes.worker_processes import WorkerLostError, WorkerStoppedError

__all__ = ["HistoryPoint", "Job", "JobState", "Question", "Snapshot", "WorkerPool"]

KILL_PATIENCE_S = 2.0
"""How long to wait for the last words of a killed process; it dies in milliseconds unless the machine is stuck."""
LEFT_ALONE_S = 1.5
"""What a live solve that nobody waits for any more may still take: ending it costs a process, which takes longer."""
WATCH_SECONDS = 0.5
"""How often the watchdog looks at times and memory."""
ANSWER_SECONDS = 600.0
"""An answer that nobody has asked for again in this time is forgotten."""
MEMORY_SHARE = 0.75
"""Of the machine's memory, what all solvers together may take unless the operator says otherwise."""
LEAST_MEMORY_BYTES = 2.0**30
FAULT = "An answer of the solver process could not be taken in; this is a fault of the program."


class Job:
    """One asker's hold on a run; made by `WorkerPool.start`."""

    def __init__(self, pool: "WorkerPool", run: RunRecord, session: str) -> None:
        self.id = uuid.uuid4().hex
        self.session = session
        self.question = run.question
        self.from_cache = run.state.is_over
        self._pool = pool
        self._run = run
        self._final: Snapshot | None = None  # set when this job left its run before the end

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self._final is not None or self._run.state.is_over

    def snapshot(self) -> Snapshot:
        """Return the job as it is now; never waits."""
        with self._pool._lock:
            return self._final or self._pool._snapshot(self, self._run.state, self._run.result)

    def wait(self, timeout_s: float | None = None) -> Snapshot:
        """Return the job when it is over, or as it is after `timeout_s` seconds."""
        with self._pool._lock:
            self._pool._lock.wait_for(lambda: self.is_over, timeout_s)
            return self.snapshot()

    def as_if_stopped(self, how: str, why: str) -> Snapshot:
        """Return the job as if it were stopped at this moment; as it is, when it is over."""
        with self._pool._lock:
            if self.is_over:
                return self.snapshot()
            return self._pool._snapshot(self, JobState.STOPPED, self._run.result_so_far(how, why))

    def cancel(self) -> Snapshot:
        """End this job now and return it; its result is the best plan so far. Does nothing when it is over.

        The solver process dies with all it has started, unless other jobs wait for the same answer. A live solve that
        has only begun is left to end by itself, for that is soon.
        """
        self._pool._cancel(self)
        return self.snapshot()


class WorkerPool:
    """Solver processes, the jobs they work on, and the answers they gave.

    At most `max_asked` pieces of work that were asked for run at a time (by default one per core, two at least), beside
    `max_live` live ones (the same number) and as many that have yielded; further ones are QUEUED, see
    `explorer.jobs.slots`. None takes longer than `longest_s` seconds, or more than `memory_bytes`: by default an equal
    part of MEMORY_SHARE of the machine's. `spare` idle processes are kept warm for live plans. The last
    `max_answers` answers are remembered for ANSWER_SECONDS. `functions` are the dotted names of the solve function and
    of functions to call once when a process starts.

    All processes end with `close`, with the interpreter, and, if that is killed, when their stdin ends.
    """

    def __init__(
        self,
        functions: tuple[str, ...] = ("solvers.solve:solve", "solvers.warm_up:warm_up"),
        *,
        max_asked: int | None = None,
        max_live: int | None = None,
        longest_s: float = math.inf,
        memory_bytes: float | None = None,
        spare: int = 1,
        max_answers: int = 64,
        max_jobs: int = 256,
    ) -> None:
        self.max_asked = max_asked or max(2, os.cpu_count() or 1)
        self.longest_s = longest_s
        self._lock = threading.Condition()  # guards all below and all runs; notified when a job or a process ends
        self._slots = Slots(max_live or max(2, os.cpu_count() or 1), self.max_asked, self.max_asked)
        num_live, num_asked = self._slots.num_live, self._slots.num_asked
        self._processes = SolverProcesses(functions, spare, num_live, num_asked, self._take_message, self._take_end)
        num_at_once = self._slots.num_live + self._slots.num_asked + self._slots.num_long
        self.memory_bytes = memory_bytes or max(LEAST_MEMORY_BYTES, MEMORY_SHARE * memory_of_machine() / num_at_once)
        os.environ[LIMIT_VARIABLE] = str(int(self.memory_bytes))  # for the processes that are started below
        self._watchdog = Watchdog(self.memory_bytes)
        self._open_runs: dict[Question, RunRecord] = {}
        self._sessions: Sessions[Job] = Sessions(max_jobs)
        self._answers = Answers(max_answers, ANSWER_SECONDS)
        self._outcomes: list[Callable[[], object]] = []
        self._numbers = itertools.count(1)
        self._closed = threading.Event()
        atexit.register(self.close)
        with self._lock:
            self._tend()
        threading.Thread(target=self._keep_watching, name="solver watchdog", daemon=True).start()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        session: str,
        question: Question,
        graph: DnnGraph,
        start: Split | None = None,
        *,
        lower_bound_ms: float | None = None,
        is_live: bool = False,
        is_aside: bool = False,
    ) -> Job:
        """Return a job on a question for a session: answered already, joined to a running one, or begun.

        A run that begins does so from the plan `start`, if that is valid for the question, and from a bound that was
        proven for it before. `is_live` says that a change of the inputs asks, and that the answer is expected within a
        second or so, `is_aside` that it is one of a series for which nobody waits: the processes kept warm for live
        plans are not for those.
        Raises ValueError when the question is about another graph, RuntimeError when the pool is closed.
        """
        if question.graph_digest != graph.digest:
            raise ValueError(f"The question is about graph {question.graph_digest}, not {graph.digest}.")
        with self._lock:
            self._require_open()
            run = self._answers.get(question) or self._open_runs.get(question)
            if run is None:
                run = RunRecord(
                    number=next(self._numbers),
                    question=question,
                    graph=graph,
                    start=start,
                    lower_bound_ms=lower_bound_ms,
                    is_live=is_live,
                    is_aside=is_aside,
                    limit_s=self._limit_s(question.time_limit_s),
                )
                self._open_runs[question] = run
                self._slots.add(run)
            job = Job(self, run, session)
            if not run.state.is_over:
                run.jobs.add(job)
            self._sessions.add(job)
            self._tend()
            return job

    def call(
        self,
        session: str,
        function: str,
        argument: Any,
        limit_s: float | None = None,
        resumed: Resumed | None = None,
    ) -> CallRecord:
        """Have a solver process call `function`, a name as "module:function", on an argument that can be pickled.

        The function is called with `on_progress` as well. The record's future gets what it returns or raises, a
        WorkerLostError when its process ended, and a WorkerStoppedError, with the best plan so far, when the server
        ended it at a limit. Raises RuntimeError when the pool is closed.
        """
        with self._lock:
            self._require_open()
            record = CallRecord(
                number=next(self._numbers),
                session=session,
                function=function,
                argument=argument,
                future=Future(),
                limit_s=self._limit_s(limit_s),
                resumed=resumed,
            )
            self._slots.add(record)
            self._tend()
            return record

    def drop(self, record: CallRecord) -> None:
        """End a call whose answer nobody wants any more."""
        with self._lock:
            if record.place is Place.WAITING:
                self._over(record)
            elif record.worker is not None:
                record.ending = Ending.CANCELLED
                record.worker.kill()
            self._outcomes.append(record.future.cancel)
            self._tend()
        self._tell_outcomes()

    def waits_for(self, work: Work) -> str:
        """Say at which place of the queue a piece of work waits; empty when it does not wait."""
        with self._lock:
            return self._slots.message(work)

    def job(self, job_id: str) -> Job | None:
        """Return a job by its id; None when it is unknown or was released."""
        with self._lock:
            return self._sessions.get(job_id)

    def adopt(self, job_id: str, session: str, is_alive: Callable[[str], bool]) -> Job | None:
        """Return a job by its id for a session that knows the id; None when it is unknown or was released.

        A job whose session is gone, as after a reload of the page, passes to the new one. While its session is still
        there, the new one gets a job of its own on the same run, so that neither can end the other's.
        """
        with self._lock:
            job = self._sessions.get(job_id)
            if job is None or job.session == session:
                return job
            if not job.is_over and is_alive(job.session):
                twin = Job(self, job._run, session)
                job._run.jobs.add(twin)
                self._sessions.add(twin)
                return twin
            job.session = session
            return job

    def jobs_of(self, session: str) -> tuple[Job, ...]:
        """Return the jobs of a session, the oldest first."""
        with self._lock:
            return self._sessions.jobs_of(session)

    def others(self, session: str) -> set[str]:
        """Return the other sessions that have asked for anything; some may have left just now."""
        with self._lock:
            return self._sessions.names() - {session}

    def release(self, session: str) -> None:
        """End and forget all jobs of a session."""
        with self._lock:
            jobs = self._sessions.forget(session)
        for job in jobs:
            self._cancel(job, Ending.LEFT, patience_s=0.0)

    def reap(self, is_alive: Callable[[str], bool], grace_s: float = 0.0) -> None:
        """Release the sessions that are no longer alive, and were not in any call for `grace_s` seconds."""
        with self._lock:
            sessions = self._sessions.names()
        absent = {session for session in sessions if not is_alive(session)}
        with self._lock:
            gone = self._sessions.gone(absent, grace_s)
        for session in gone:
            self.release(session)

    def start_reaper(self, is_alive: Callable[[str], bool], every_s: float = 1.0, grace_s: float = 6.0) -> None:
        """Call `reap` every `every_s` seconds from a daemon thread until the pool is closed.

        The grace is what a page has to come back after a reload: on a busy machine a few seconds.
        """

        def keep_reaping() -> None:
            while not self._closed.wait(every_s):
                try:
                    self.reap(is_alive, grace_s)
                except Exception:  # asked again in a second; a dead reaper would leave solvers running for ever
                    logging.getLogger(__name__).exception("Could not tell which sessions are alive")

        threading.Thread(target=keep_reaping, name="job reaper", daemon=True).start()

    def forget_answers(self) -> None:
        """Forget all answers; jobs keep theirs."""
        with self._lock:
            self._answers.forget_all()

    def close(self) -> None:
        """End all jobs and processes; the jobs keep their best plans."""
        with self._lock:
            self._closed.set()
            for work in self._slots.waiting:
                self._end_as_cancelled(work)
            for worker, at_work in self._processes.all():
                if at_work is not None:
                    at_work.ending = Ending.CANCELLED
                worker.kill()
            self._lock.wait_for(lambda: not len(self._processes), KILL_PATIENCE_S)
            for _, at_work in self._processes.all():
                if at_work is not None:
                    self._end_as_cancelled(at_work)
        self._tell_outcomes()
        atexit.unregister(self.close)

    def _keep_watching(self) -> None:
        while not self._closed.wait(WATCH_SECONDS):
            try:
                self._watch()
            except Exception:  # looked at again at once; a dead watchdog would let solvers run for ever
                logging.getLogger(__name__).exception("Could not watch the solver processes")

    def _watch(self) -> None:
        """End what has gone past a limit, and begin what may now begin; called without the lock."""
        with self._lock:
            workers, quiet_s = self._processes.all(), self._processes.quiet_s()
        if not any(worker.has_worked for worker, _ in workers):  # others do not grow
            return
        # Asking the system takes milliseconds, in which nobody shall wait for the lock.
        memory = memory_of_trees({worker.pid for worker, _ in workers})
        with self._lock:
            if self._closed.is_set():
                return
            now_at = dict(self._processes.all())
            for worker, work in workers:
                if worker.is_ending or worker not in now_at or now_at[worker] is not work:
                    continue
                if work is None:
                    if self._watchdog.is_used_up(worker, memory[worker.pid], quiet_s):
                        worker.kill()
                elif (limit := self._watchdog.limit_passed(worker, work, memory[worker.pid])) is not None:
                    self._kill(work, Ending.STOPPED, limit)
                elif isinstance(work, RunRecord) and not work.jobs and work.stretch_s > LEFT_ALONE_S:
                    self._kill(work, Ending.CANCELLED)
            self._answers.forget_old()
            self._tend()

    def _tell_outcomes(self) -> None:
        """Give the futures of calls their outcomes; called without the lock, for who waits for one may ask the pool."""
        with self._lock:
            outcomes, self._outcomes = self._outcomes, []
        for tell in outcomes:
            tell()

    # All below is called with the lock held, unless it says otherwise.

    def _require_open(self) -> None:
        if self._closed.is_set():
            raise RuntimeError("The pool of solver processes is closed.")

    def _limit_s(self, asked_s: float | None) -> float:
        return self.longest_s if asked_s is None else min(asked_s, self.longest_s)

    def _snapshot(self, job: Job, state: JobState, result: SolveResult | None) -> Snapshot:
        run = job._run
        return Snapshot(
            job_id=job.id,
            question=job.question,
            state=state,
            seconds=run.seconds,
            progress=run.progress,
            history=tuple(run.history),
            best_split=run.best_split,
            result=result,
            error=run.error,
            details=run.details,
            message=self._waiting_for(run),
            from_cache=job.from_cache,
        )

    def _waiting_for(self, run: RunRecord) -> str:
        if run.state is JobState.QUEUED:
            return self._slots.message(run)
        if run.state is JobState.RUNNING and run.worker is not None and not run.worker.is_ready:
            # A process gets ready only once all is compiled, and its work begins then.
            return "Starting the solver." if is_compiled() else f"{COMPILING[0].upper()}{COMPILING[1:]}."
        return ""

    def _tend(self) -> None:
        """Begin what waits and can run, have long work yield, and keep the right number of idle processes."""
        if self._closed.is_set():
            return
        while (step := self._slots.next_step()) is not None:
            if step.do is Do.BEGIN:
                if isinstance(step.work, RunRecord):
                    step.work.state = JobState.RUNNING
                self._processes.begin(step.work)
            elif step.do is Do.YIELD and step.work.worker is not None:
                step.work.worker.yield_to(LONG_NICENESS)
            elif step.do is Do.PAUSE:
                self._kill(step.work, Ending.PAUSED)
        self._processes.keep_spare()

    def _kill(self, work: Work, why: Ending, cause: Cause = Cause.DROPPED) -> None:
        """End the process that is at work; what becomes of the work is told when it has ended."""
        if work.ending in (None, Ending.PAUSED):  # what nobody waits for any more does not go on later
            work.ending = why
        if work.worker is not None:
            work.worker.kill(cause)

    def _take_message(self, worker: SolverProcess, message: dict[str, Any]) -> None:
        """Take in what a process says; called from its listener, without the lock."""
        kind = message["kind"]
        progress = progress_from_document(message["progress"]) if kind == "progress" else None
        result = result_from_document(message["result"]) if kind == "result" else None
        value: tuple[bool, Any] | None = unpacked(message["value"]) if kind == "value" else None
        with self._lock:
            if kind == "ready":
                self._processes.note_ready(worker)
            work = self._processes.work_of(worker)
            if work is not None and message.get("run") == work.number:
                if progress is not None:
                    work.note(progress)
                else:
                    self._processes.note_done(worker, is_reusable=message.get("reusable", True))
                    if isinstance(work, CallRecord) and value is not None:
                        self._over(work)
                        self._outcomes.append(partial(set_outcome, work.future, value))
                    elif isinstance(work, RunRecord) and result is not None:
                        self._finish(work, JobState.DONE, result=work.answered(result))
                    elif isinstance(work, RunRecord):
                        self._finish(work, JobState.FAILED, error=message["error"], details=message["traceback"])
            self._tend()
        self._tell_outcomes()

    def _take_end(self, worker: SolverProcess, end: End, fault: str) -> None:
        """Take in that a process has ended; called from its listener, without the lock."""
        with self._lock:
            work = self._processes.note_end(worker)
            self._lock.notify_all()
            why = FAULT if fault else self._watchdog.sentence(worker, end)
            if work is None:
                pass
            elif work.ending is Ending.PAUSED:
                self._pause(work)
            elif work.ending in (Ending.CANCELLED, Ending.LEFT):
                self._end_as_cancelled(work)
            elif isinstance(work, CallRecord):
                self._over(work)
                stopped = WorkerStoppedError(why, work.best_split, work.lower_bound_ms)
                error = stopped if end.cause.is_limit else WorkerLostError(why)
                self._outcomes.append(partial(set_outcome, work.future, (False, error)))
            elif isinstance(work, RunRecord):
                self._end_as_stopped(work, end, why, fault or end.last_words)
            self._tend()
        self._tell_outcomes()

    def _pause(self, work: Work) -> None:
        """Have work wait for another turn, in which it goes on from its best plan and bound."""
        self._slots.remove(work)
        work.pause()
        if isinstance(work, RunRecord):
            work.state = JobState.QUEUED
            if not work.jobs:  # all have left it meanwhile
                self._end_as_cancelled(work)
                return
        self._slots.add(work)

    def _end_as_cancelled(self, work: Work) -> None:
        if isinstance(work, RunRecord):
            state, result = work.over(work.ending)
            self._finish(work, state, result=result)
        elif isinstance(work, CallRecord):
            self._over(work)
            self._outcomes.append(work.future.cancel)

    def _end_as_stopped(self, run: RunRecord, end: End, why: str, details: str) -> None:
        """End a run whose process is gone: with its best plan, or as failed where the process itself is to blame."""
        if run.best_split is None and not end.cause.is_limit:
            self._finish(run, JobState.FAILED, error=why, details=details)
        else:
            self._finish(run, JobState.STOPPED, result=run.result_so_far("stopped", why), details=details)

    def _over(self, work: Work) -> None:
        """Take note that work is over, in whatever way."""
        self._slots.remove(work)
        work.leave()

    def _finish(
        self, run: RunRecord, state: JobState, *, result: SolveResult | None = None, error: str = "", details: str = ""
    ) -> None:
        if run.state.is_over:
            return
        run.state, run.result, run.error, run.details = state, result, error, details
        self._over(run)
        run.jobs.clear()
        run.graph = run.start = None  # answers are kept, graphs are large
        if self._open_runs.get(run.question) is run:
            del self._open_runs[run.question]
        # An answer without a plan or a proof is worth another try, on a quieter machine perhaps.
        if state is JobState.DONE and result is not None and result.status is not SolveStatus.UNKNOWN:
            self._answers.put(run)
        self._lock.notify_all()

    def _cancel(self, job: Job, why: Ending = Ending.CANCELLED, patience_s: float = KILL_PATIENCE_S) -> None:
        """End a job, and its run when it was the last one on it; called without the lock."""
        with self._lock:
            run = job._run
            if job._final is not None or run.state.is_over:
                return
            if run.jobs != {job} or (run.place is Place.LIVE and run.stretch_s < LEFT_ALONE_S):
                run.jobs.discard(job)  # others wait for it, or it is over in a moment; if it is not, see `_watch`
                job._final = self._snapshot(job, *run.over(why))
                self._lock.notify_all()
            elif run.state is JobState.QUEUED:
                run.ending = why
                self._end_as_cancelled(run)
            else:
                self._kill(run, why)
                # Nobody may join it any more.
                if self._open_runs.get(run.question) is run:
                    del self._open_runs[run.question]
                # Its last words count: a better plan may be on its way.
                if not self._lock.wait_for(lambda: run.state.is_over, patience_s) and patience_s > 0:
                    self._end_as_cancelled(run)
            self._tend()
