"""Solver runs beside the app, each in a process of its own: start, look, cancel.

A run is known by its question. Whoever asks a question that is being solved joins its run, whoever asks one that
was answered gets the answer; each asker holds a `Job` of its own, which can be cancelled without disturbing the
others. Solver processes are started ahead of time and reused, so a solve begins at once. Cancelling kills the
process with all it has started (a solver in compiled code hears nothing else) and keeps the best plan it reported.

Nothing here calls Streamlit: jobs take and return plain values, and may be used from any thread.
"""

import atexit
import itertools
import logging
import os
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from explorer.job_record import HistoryPoint, JobState, Question, RunRecord, Snapshot
from explorer.solve_worker import (
    deployment_document,
    pins_document,
    progress_from_document,
)
from explorer.solver_process import SolverProcess
from solvers.graph import DnnGraph
from solvers.graph_json import graph_document, split_document
from solvers.result import SolveResult, SolveStatus
from solvers.result_json import result_from_document
from solvers.split import Split

__all__ = ["HistoryPoint", "Job", "JobState", "Question", "Snapshot", "WorkerPool"]

KILL_PATIENCE_S = 2.0
"""How long to wait for the last words of a killed process; it dies in milliseconds unless the machine is stuck."""


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

    def snapshot(self) -> Snapshot:
        """Return the job as it is now; never waits."""
        with self._pool._lock:
            return self._final or self._pool._snapshot(self, self._run.state, self._run.result)

    def wait(self, timeout_s: float | None = None) -> Snapshot:
        """Return the job when it is over, or as it is after `timeout_s` seconds."""
        with self._pool._lock:
            self._pool._lock.wait_for(lambda: self._final is not None or self._run.state.is_over, timeout_s)
            return self.snapshot()

    def cancel(self) -> Snapshot:
        """End this job now and return it; its result is the best plan so far. Does nothing when it is over.

        The solver process dies with all it has started, unless other jobs wait for the same answer.
        """
        self._pool._cancel(self)
        return self.snapshot()


class WorkerPool:
    """Solver processes, the jobs they work on, and the answers they gave.

    At most `max_running` runs at a time (by default two per core, four at least: sharing a core beats waiting for
    an unknown time behind a long solve); further ones are QUEUED and begin in their order. `spare` idle processes
    are kept warm beyond those at work. The last `max_answers` answers are remembered. `functions` are the dotted
    names of the solve function and of functions to call once when a process starts.

    All processes end with `close`, with the interpreter, and, if that is killed, when their stdin ends.
    """

    def __init__(
        self,
        functions: tuple[str, ...] = ("solvers.solve:solve", "solvers.warm_up:warm_up"),
        *,
        max_running: int | None = None,
        spare: int = 1,
        max_answers: int = 64,
        max_jobs: int = 256,
    ) -> None:
        self.max_running = max_running or max(4, 2 * (os.cpu_count() or 1))
        self._functions = functions
        self._spare = spare
        self._max_answers = max_answers
        self._max_jobs = max_jobs
        self._lock = threading.Condition()  # guards all below and all runs; notified at each change
        self._workers: dict[SolverProcess, RunRecord | None] = {}
        self._queue: deque[RunRecord] = deque()
        self._open_runs: dict[Question, RunRecord] = {}
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._answers: OrderedDict[Question, RunRecord] = OrderedDict()
        self._absent_since_s: dict[str, float] = {}
        self._numbers = itertools.count(1)
        self._cannot_start = False
        self._closed = threading.Event()
        atexit.register(self.close)
        with self._lock:
            self._tend()

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, session: str, question: Question, graph: DnnGraph, start: Split | None = None) -> Job:
        """Return a job on a question for a session: answered already, joined to a running one, or begun.

        A run that begins does so from the plan `start`, if that is valid for the question.
        Raises ValueError when the question is about another graph, RuntimeError when the pool is closed.
        """
        if question.graph_digest != graph.digest:
            raise ValueError(f"The question is about graph {question.graph_digest}, not {graph.digest}.")
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("The pool of solver processes is closed.")
            run = self._answers.get(question) or self._open_runs.get(question)
            if run is None:
                run = RunRecord(next(self._numbers), question, graph, start)
                self._open_runs[question] = run
                self._queue.append(run)
            elif run.state.is_over:
                self._answers.move_to_end(question)
            job = Job(self, run, session)
            if not run.state.is_over:
                run.jobs.add(job)
            self._jobs[job.id] = job
            self._forget_old_jobs()
            self._tend()
            return job

    def job(self, job_id: str) -> Job | None:
        """Return a job by its id; None when it is unknown or was released."""
        with self._lock:
            return self._jobs.get(job_id)

    def adopt(self, job_id: str, session: str, is_alive: Callable[[str], bool]) -> Job | None:
        """Return a job by its id for a session that knows the id; None when it is unknown or was released.

        A job whose session is gone, as after a reload of the page, passes to the new one. While its session is still
        there, the new one gets a job of its own on the same run, so that neither can end the other's.
        """
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.session == session:
                return job
            if job._final is None and not job._run.state.is_over and is_alive(job.session):
                twin = Job(self, job._run, session)
                job._run.jobs.add(twin)
                self._jobs[twin.id] = twin
                return twin
            job.session = session
            return job

    def jobs_of(self, session: str) -> tuple[Job, ...]:
        """Return the jobs of a session, the oldest first."""
        with self._lock:
            return tuple(job for job in self._jobs.values() if job.session == session)

    def release(self, session: str) -> None:
        """End and forget all jobs of a session."""
        jobs = self.jobs_of(session)
        with self._lock:
            for job in jobs:
                del self._jobs[job.id]
        for job in jobs:
            self._cancel(job, patience_s=0.0)

    def reap(self, is_alive: Callable[[str], bool], grace_s: float = 0.0) -> None:
        """Release the sessions that are no longer alive, and were not in any call for `grace_s` seconds."""
        with self._lock:
            sessions = {job.session for job in self._jobs.values()}
        now_s = time.monotonic()
        absent = {session for session in sessions if not is_alive(session)}
        self._absent_since_s = {session: self._absent_since_s.get(session, now_s) for session in absent}
        for session, since_s in self._absent_since_s.items():
            if now_s - since_s >= grace_s:
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

    def close(self) -> None:
        """End all jobs and processes; the jobs keep their best plans."""
        with self._lock:
            self._closed.set()
            for run in self._queue:
                self._finish(run, JobState.CANCELLED, result=run.cancelled_result())
            self._queue.clear()
            for worker, at_work in self._workers.items():
                if at_work is not None:
                    at_work.is_ending = True
                worker.kill()
            self._lock.wait_for(lambda: not self._workers, KILL_PATIENCE_S)
            for at_work in self._workers.values():
                if at_work is not None:
                    self._finish(at_work, JobState.CANCELLED, result=at_work.cancelled_result())
        atexit.unregister(self.close)

    # All below is called with the lock held, unless it says otherwise.

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
            ahead = self._queue.index(run)
            behind = f", and {ahead} more {'question waits' if ahead == 1 else 'questions wait'} ahead" if ahead else ""
            return f"Waiting for a free solver: all {self.max_running} are busy{behind}."
        if run.state is JobState.RUNNING and run.worker is not None and not run.worker.is_ready:
            return "Starting the solver."
        return ""

    def _tend(self) -> None:
        """Begin what is queued and can run, and keep the right number of idle processes."""
        self._lock.notify_all()
        if self._closed.is_set():
            return
        while self._queue and sum(run is not None for run in self._workers.values()) < self.max_running:
            idle = self._idle_workers()
            worker = max(idle, key=lambda w: w.is_ready) if idle else self._new_worker()
            self._begin(self._queue.popleft(), worker)
        idle = self._idle_workers()
        # One more than the spare ones may stay, or each finished run would end a process and the next start one.
        for worker in idle[self._spare + 1 :]:
            worker.kill()
        # Processes that cannot start are tried again with the next question, not in a loop.
        if not self._cannot_start:
            for _ in range(self._spare - len(idle)):
                self._new_worker()

    def _idle_workers(self) -> list[SolverProcess]:
        return [worker for worker, run in self._workers.items() if run is None and not worker.is_ending]

    def _new_worker(self) -> SolverProcess:
        worker = SolverProcess(self._functions, self._take_message, self._take_end)
        self._workers[worker] = None
        return worker

    def _begin(self, run: RunRecord, worker: SolverProcess) -> None:
        self._workers[worker] = run
        run.worker = worker
        run.state = JobState.RUNNING
        run.began_s = time.monotonic()
        question = run.question
        worker.send(
            {
                "run": run.number,
                "graph": graph_document(run.graph, question.deployment),
                "deployment": deployment_document(question.deployment),
                "objective": question.objective,
                "method": question.method,
                "family": question.family,
                "time_limit_s": question.time_limit_s,
                "gap": question.gap,
                "start": run.start and split_document(run.start),
                "pins": pins_document(question.pins) if question.pins else None,
            }
        )

    def _take_message(self, worker: SolverProcess, message: dict[str, Any]) -> None:
        """Take in a line of a process; called from its listener, without the lock."""
        kind = message["kind"]
        progress = progress_from_document(message["progress"]) if kind == "progress" else None
        result = result_from_document(message["result"]) if kind == "result" else None
        with self._lock:
            if kind == "ready":
                worker.is_ready = True
                self._cannot_start = False
            run = self._workers.get(worker)
            if run is not None and message.get("run") == run.number:
                if progress is not None:
                    run.note(progress)
                elif result is not None:
                    self._workers[worker] = None
                    run.best_split = result.split or run.best_split
                    run.add_point(HistoryPoint(result.runtime_s, result.value_ms, result.lower_bound_ms))
                    self._finish(run, JobState.DONE, result=result)
                else:
                    self._workers[worker] = None
                    self._finish(run, JobState.FAILED, error=message["error"], details=message["traceback"])
                    if not message["reusable"]:
                        worker.kill()
            self._tend()

    def _take_end(self, worker: SolverProcess, why: str, stderr: str) -> None:
        """Take in that a process has ended; called from its listener, without the lock."""
        with self._lock:
            run = self._workers.pop(worker)
            if not worker.is_ready and not worker.is_ending:
                self._cannot_start = True
            if run is not None and run.is_ending:
                self._finish(run, JobState.CANCELLED, result=run.cancelled_result())
            elif run is not None:
                self._finish(run, JobState.FAILED, error=why, details=stderr)
            self._tend()

    def _finish(
        self, run: RunRecord, state: JobState, *, result: SolveResult | None = None, error: str = "", details: str = ""
    ) -> None:
        if run.state.is_over:
            return
        run.state, run.result, run.error, run.details = state, result, error, details
        run.ended_s = time.monotonic()
        run.worker = None
        run.jobs.clear()
        if self._open_runs.get(run.question) is run:
            del self._open_runs[run.question]
        # An answer without a plan or a proof is worth another try, on a quieter machine perhaps.
        if state is JobState.DONE and result is not None and result.status is not SolveStatus.UNKNOWN:
            self._answers[run.question] = run
            while len(self._answers) > self._max_answers:
                self._answers.popitem(last=False)
        self._lock.notify_all()

    def _cancel(self, job: Job, patience_s: float = KILL_PATIENCE_S) -> None:
        """End a job, and its run when it was the last one on it; called without the lock."""
        with self._lock:
            run = job._run
            if job._final is not None or run.state.is_over:
                return
            if run.jobs != {job}:
                run.jobs.discard(job)
                job._final = self._snapshot(job, JobState.CANCELLED, run.cancelled_result())
            elif run.state is JobState.QUEUED:
                self._queue.remove(run)
                self._finish(run, JobState.CANCELLED, result=run.cancelled_result())
            else:
                run.is_ending = True
                if run.worker is not None:
                    run.worker.kill()
                # Nobody may join it any more.
                if self._open_runs.get(run.question) is run:
                    del self._open_runs[run.question]
                # Its last words count: a better plan may be on its way.
                if not self._lock.wait_for(lambda: run.state.is_over, patience_s) and patience_s > 0:
                    self._finish(run, JobState.CANCELLED, result=run.cancelled_result())
            self._tend()

    def _forget_old_jobs(self) -> None:
        over = [job_id for job_id, job in self._jobs.items() if job._final is not None or job._run.state.is_over]
        for job_id in over[: max(0, len(self._jobs) - self._max_jobs)]:
            del self._jobs[job_id]
