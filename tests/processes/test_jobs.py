"""Tests of background solves, with real processes that run the pretended solver of this file.

No test depends on how fast anything is: what must happen is waited for, with a generous limit.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.jobs.pool import HistoryPoint, JobState, WorkerPool
from explorer.jobs.process import LIVE_NICENESS, SolverProcess
from explorer.jobs.processes import SolverProcesses
from explorer.jobs.record import BEST_SO_FAR, MAX_HISTORY, PAGE_AWAY, Ending, RunRecord
from explorer.jobs.worker import Reporter, progress_document, progress_from_document
from solvers.formats.result_json import result_document, result_from_document
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.result import OnProgress, Progress, SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import Pins
from tests.support.root import ROOT
from tests.support.solver_processes import DEPLOYMENT, FUNCTIONS, GRAPH, LIMIT_S, SPLIT, ask, is_gone, pids, question
from tests.support.waiting import eventually

PINS = Pins(((2, 1),), ((1, 2),))


# The pretended solver: runs in the worker; the method says what it does.


# Helpers


@pytest.fixture(scope="module")
def lasting_pool() -> Iterator[WorkerPool]:
    """A pool for the tests that end no process, so that its workers are reused."""
    with WorkerPool(FUNCTIONS, max_asked=2, spare=0) as pool:
        yield pool


# Answers


def test_a_question_reaches_the_solver_whole_and_its_answer_comes_back(lasting_pool: WorkerPool) -> None:
    asked = question("echo", objective=Objective.GPIPE, family=Family.CONVEX, time_limit_s=1.5, gap=0.01, pins=PINS)
    job = lasting_pool.start("me", asked, GRAPH)
    snapshot = job.wait(LIMIT_S)
    assert (snapshot.state, snapshot.job_id, snapshot.question) == (JobState.DONE, job.id, asked)
    message = repr((GRAPH.digest, DEPLOYMENT, Objective.GPIPE, Family.CONVEX, 1.5, 0.01, PINS))
    assert snapshot.result == SolveResult(
        SolveStatus.OPTIMAL, "echo", Objective.GPIPE, Family.CONVEX, SPLIT, 3.0, 3.0, 0.1, message
    )
    assert snapshot.best_split == SPLIT
    assert snapshot.history == (HistoryPoint(0.0, None, 1.0), HistoryPoint(0.1, 3.0, 3.0))
    assert snapshot.gap == 0.0
    assert not snapshot.from_cache
    assert lasting_pool.job(job.id) is job


def test_workers_are_reused(lasting_pool: WorkerPool) -> None:
    phases = set()
    for gap in (0.1, 0.2, 0.3):
        progress = ask(lasting_pool, "echo", gap=gap).wait(LIMIT_S).progress
        assert progress is not None
        phases.add(progress.phase)
    assert len(phases) == 1


def test_an_answered_question_is_not_solved_again(lasting_pool: WorkerPool, tmp_path: Path) -> None:
    file = tmp_path / "count"
    first = ask(lasting_pool, f"count {file}").wait(LIMIT_S)
    again = ask(lasting_pool, f"count {file}", session="you").snapshot()
    assert again.state is JobState.DONE
    assert again.result == first.result
    assert again.history == first.history
    assert (first.from_cache, again.from_cache) == (False, True)
    assert file.read_text() == "asked\n"
    ask(lasting_pool, f"count {file}", gap=0.5).wait(LIMIT_S)
    assert file.read_text() == "asked\nasked\n"


def test_old_answers_are_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "count"
    with WorkerPool(FUNCTIONS, spare=0, max_answers=2, max_jobs=2) as pool:
        first = ask(pool, f"count {file}")
        first.wait(LIMIT_S)
        for gap in (0.1, 0.2, 0.0):
            job = ask(pool, f"count {file}", gap=gap)
            assert job.wait(LIMIT_S).state is JobState.DONE
        assert file.read_text() == "asked\n" * 4
        assert pool.job(job.id) is job
        assert pool.job(first.id) is None


def test_no_plan_and_no_proof_is_not_remembered(lasting_pool: WorkerPool) -> None:
    assert ask(lasting_pool, "unknown").wait(LIMIT_S).result is not None
    again = ask(lasting_pool, "unknown").wait(LIMIT_S)
    assert again.state is JobState.DONE
    assert not again.from_cache


def test_stray_output_does_not_disturb_the_protocol(lasting_pool: WorkerPool) -> None:
    snapshot = ask(lasting_pool, "print").wait(LIMIT_S)
    assert snapshot.state is JobState.DONE
    assert snapshot.result is not None
    assert snapshot.result.value_ms == 3.0


def test_the_question_must_be_about_the_graph(lasting_pool: WorkerPool) -> None:
    with pytest.raises(ValueError, match="The question is about graph other, not "):
        lasting_pool.start("me", replace(question("echo"), graph_digest="other"), GRAPH)


# Failures


def test_a_failure_has_a_sentence_and_keeps_its_traceback(lasting_pool: WorkerPool) -> None:
    snapshot = ask(lasting_pool, "fail").wait(LIMIT_S)
    assert snapshot.state is JobState.FAILED
    assert snapshot.result is None
    assert snapshot.error.startswith("The solver failed unexpectedly (KeyError: 'a surprise")
    assert snapshot.error.endswith(".")
    assert "\n" not in snapshot.error
    assert "Traceback" in snapshot.details
    assert "in pretend_to_solve" in snapshot.details
    # It is no answer: asked again, it is tried again, by a fresh process.
    again = ask(lasting_pool, "fail").wait(LIMIT_S)
    assert not again.from_cache
    assert snapshot.progress is not None
    assert again.progress is not None
    assert again.progress.phase != snapshot.progress.phase


def test_bad_input_is_told_in_its_own_words(lasting_pool: WorkerPool) -> None:
    snapshot = ask(lasting_pool, "refuse").wait(LIMIT_S)
    assert (snapshot.state, snapshot.error) == (JobState.FAILED, "This graph cannot be solved; take another.")


@pytest.mark.parametrize(
    ("method", "error", "details"),
    [
        ("exit", "The solver process ended unexpectedly (exit code 7); this is a fault of the program.", ""),
        ("crash", "The solver process crashed (SIGSEGV); this is a fault of the program.", "Segmentation fault"),
    ],
)
def test_a_dead_process_fails_its_job_and_the_next_job_runs(
    lasting_pool: WorkerPool, method: str, error: str, details: str
) -> None:
    snapshot = ask(lasting_pool, method).wait(LIMIT_S)
    assert (snapshot.state, snapshot.error) == (JobState.FAILED, error)
    assert details in snapshot.details
    assert ask(lasting_pool, "echo", gap=0.4).wait(LIMIT_S).state is JobState.DONE


def test_a_process_killed_from_outside_leaves_its_best_plan_and_says_so(pool: WorkerPool) -> None:
    job = ask(pool, "hang")
    worker, child = pids(job)
    os.kill(worker, signal.SIGKILL)
    snapshot = job.wait(LIMIT_S)
    result = snapshot.result
    assert snapshot.state is JobState.STOPPED
    assert result is not None
    assert (result.status, result.split, result.value_ms, result.lower_bound_ms) == (
        SolveStatus.FEASIBLE,
        SPLIT,
        3.5,
        2.5,
    )
    assert result.message == (
        "The solver process was killed from outside; most likely the machine ran out of memory; "
        "this is the best plan so far."
    )
    eventually(lambda: is_gone(child))


def test_a_process_that_cannot_start_fails_its_job_and_is_not_started_over_and_over() -> None:
    with WorkerPool(("tests.processes.test_jobs:no_such_function",), spare=2) as pool:
        snapshot = ask(pool, "echo").wait(LIMIT_S)
        assert snapshot.state is JobState.FAILED
        assert "exit code 1" in snapshot.error
        assert "LookupError: There is no function tests.processes.test_jobs:no_such_function." in snapshot.details
        eventually(lambda: not len(pool._processes))


# Progress


def test_floods_of_progress_are_thinned_but_the_last_word_arrives(pool: WorkerPool) -> None:
    job = ask(pool, "flood")
    snapshot = eventually(lambda: (s := job.snapshot()).progress and s.progress.phase == "the last word" and s)
    assert snapshot.state is JobState.RUNNING
    assert len(snapshot.history) < 1000
    assert (snapshot.incumbent_ms, snapshot.lower_bound_ms) == (3.0, 2.0)
    assert snapshot.gap == pytest.approx(1 / 3)


def test_the_reporter_passes_every_plan_on_at_once() -> None:
    sent: list[Progress] = []
    reporter = Reporter(sent.append)
    plans = [Progress(0.0, float(9 - i), None, "plan", SPLIT) for i in range(5)]
    for plan in plans:
        reporter(plan)
        reporter(replace(plan, split=None))
    assert [report for report in sent if report.split is not None] == plans
    eventually(lambda: sent[-1] == replace(plans[-1], split=None))
    reporter.close()
    num_sent = len(sent)
    reporter(plans[0])
    assert len(sent) == num_sent


def test_a_runs_record_keeps_the_best_and_stays_bounded() -> None:
    run = RunRecord(number=1, question=question("auto"), graph=GRAPH)
    other = Split((frozenset({1, 2}), frozenset()))
    run.note(Progress(1.0, 3.0, 2.0, "first phase", SPLIT))
    run.note(Progress(2.0, 5.0, 1.0, "second phase begins anew", other))
    assert (run.best_split, run.incumbent_ms, run.lower_bound_ms) == (SPLIT, 3.0, 2.0)
    run.note(Progress(3.0, None, None, "third phase knows nothing"))
    assert run.history == [HistoryPoint(1.0, 3.0, 2.0)]
    for i in range(2 * MAX_HISTORY):
        run.note(Progress(4.0 + i, 3.0, 2.0 + i / (2 * MAX_HISTORY), "bounds"))
        assert len(run.history) <= MAX_HISTORY
    assert run.history[0] == HistoryPoint(1.0, 3.0, 2.0)
    assert run.history[-1].seconds == 4.0 + 2 * MAX_HISTORY - 1


def test_reports_and_results_survive_the_wire() -> None:
    for split in (None, SPLIT, Split((frozenset(),), (frozenset({2**53 - 1}), frozenset()))):
        progress = Progress(1.25, 3.0, None, "phase", split)
        assert progress_from_document(json.loads(json.dumps(progress_document(progress)))) == progress
        result = SolveResult(
            SolveStatus.FEASIBLE, "any", Objective.LATENCY, Family.FREE, split, 1.0, None, 2.0, "so\nit is"
        )
        again = result_from_document(json.loads(json.dumps(result_document(result))))
        assert again == result
        assert isinstance(again.status, SolveStatus)
        assert isinstance(again.objective, Objective)
        assert isinstance(again.family, Family)


# Cancelling


def test_cancel_kills_the_whole_process_group_and_keeps_the_best_plan(pool: WorkerPool) -> None:
    job = ask(pool, "hang")
    processes = pids(job)
    assert not any(map(is_gone, processes))
    snapshot = job.cancel()
    assert snapshot.state is JobState.CANCELLED
    result = snapshot.result
    assert result is not None
    assert (result.status, result.method) == (SolveStatus.FEASIBLE, "hang (cancelled)")
    # The solver said 3.75 ms; the evaluator says what is true.
    assert (result.split, result.value_ms, result.lower_bound_ms) == (SPLIT, 3.5, 2.5)
    assert result.message.startswith("Cancelled after ")
    for process in processes:
        eventually(lambda process=process: is_gone(process))
    assert job.cancel() == snapshot
    # A cancelled answer is not remembered.
    again = ask(pool, "hang")
    assert not again.snapshot().state.is_over
    again.cancel()


def test_cancel_before_any_plan(pool: WorkerPool) -> None:
    job = ask(pool, "flood")
    eventually(lambda: job.snapshot().progress)
    snapshot = job.cancel()
    assert snapshot.state is JobState.CANCELLED
    assert snapshot.result is not None
    assert (snapshot.result.status, snapshot.result.split) == (SolveStatus.UNKNOWN, None)
    assert "no plan was found" in snapshot.result.message


def test_two_jobs_run_at_once_and_a_third_waits_its_turn(pool: WorkerPool) -> None:
    first, second = ask(pool, "hang", gap=0.1), ask(pool, "hang", gap=0.2)
    third, fourth = ask(pool, "echo", gap=0.9), ask(pool, "echo", gap=0.8)
    assert set(pids(first)).isdisjoint(pids(second))
    waiting = third.snapshot()
    assert (waiting.state, waiting.seconds) == (JobState.QUEUED, 0.0)
    assert waiting.message.startswith("All solvers are busy: next in the queue, about ")
    assert fourth.snapshot().message.startswith("All solvers are busy: number 2 in the queue, about ")
    cancelled = fourth.cancel()
    assert cancelled.state is JobState.CANCELLED
    assert cancelled.result is not None
    assert cancelled.result.message == "Cancelled before it began."
    first.cancel()
    assert third.wait(LIMIT_S).state is JobState.DONE
    assert second.snapshot().state is JobState.RUNNING


def test_one_run_serves_all_who_ask_and_ends_with_the_last(pool: WorkerPool) -> None:
    mine, yours = ask(pool, "hang", "me"), ask(pool, "hang", "you")
    processes = pids(mine)
    assert pids(yours) == processes
    left = mine.cancel()
    assert left.state is JobState.CANCELLED
    assert left.result is not None
    assert left.result.split == SPLIT
    assert yours.snapshot().state is JobState.RUNNING
    assert not any(map(is_gone, processes))
    assert yours.cancel().state is JobState.CANCELLED
    for process in processes:
        eventually(lambda process=process: is_gone(process))


def test_the_real_solver_answers() -> None:
    """Times 2 and 3 ms on two accelerators, 0.5 ms to send; or both on each, which take turns: half of 5 ms."""
    with WorkerPool(spare=0) as pool:
        for deployment, best in ((Deployment(2), 3.5), (DEPLOYMENT, 2.5)):
            snapshot = pool.start("me", replace(question("auto"), deployment=deployment), GRAPH).wait(LIMIT_S)
            assert snapshot.state is JobState.DONE, snapshot
            assert snapshot.result is not None
            assert (snapshot.result.status, snapshot.result.value_ms) == (SolveStatus.OPTIMAL, best)


# Calls


def double(number: int, on_progress: OnProgress) -> int:
    on_progress(Progress(0.0, None, 1.0, "doubling"))
    return 2 * number


def test_whoever_hears_of_an_outcome_may_ask_the_pool(lasting_pool: WorkerPool) -> None:
    """From any thread, while it is being told: a pool that told outcomes under its lock would wait for itself."""
    asked: list[bool] = []

    def ask_from_another_thread(_: Any) -> None:
        thread = threading.Thread(target=lasting_pool.job, args=("no such id",), daemon=True)
        thread.start()
        thread.join(LIMIT_S)
        asked.append(not thread.is_alive())

    call = lasting_pool.call("me", "tests.processes.test_jobs:double", 21)
    call.future.add_done_callback(ask_from_another_thread)
    assert call.future.result(LIMIT_S) == 42
    assert eventually(lambda: asked) == [True]
    waiting = lasting_pool.call("me", "tests.processes.test_jobs:double", 1)
    waiting.future.add_done_callback(ask_from_another_thread)
    lasting_pool.drop(waiting)
    assert waiting.future.cancelled() or waiting.future.result() == 2
    eventually(lambda: asked == [True, True])


# Sessions and ends


def test_the_reaper_ends_the_jobs_of_sessions_that_are_gone(pool: WorkerPool) -> None:
    alive = {"here", "gone"}
    pool.start_reaper(alive.__contains__, every_s=0.02, grace_s=0.05)
    here, gone = ask(pool, "hang", "here", gap=0.1), ask(pool, "hang", "gone", gap=0.2)
    processes = pids(gone)
    staying = pids(here)
    assert pool.jobs_of("gone") == (gone,)
    alive.remove("gone")
    ended = gone.wait(LIMIT_S)
    assert ended.state is JobState.STOPPED
    assert ended.result is not None
    assert (ended.result.split, ended.result.message) == (SPLIT, f"{PAGE_AWAY}; {BEST_SO_FAR}.")
    for process in processes:
        eventually(lambda process=process: is_gone(process))
    assert pool.job(gone.id) is None
    assert here.snapshot().state is JobState.RUNNING
    assert not any(map(is_gone, staying))
    pool.release("here")
    assert here.wait(LIMIT_S).state is JobState.STOPPED


def test_what_waits_or_is_shared_tells_too_that_its_page_was_away(pool: WorkerPool) -> None:
    ask(pool, "hang", "there", gap=0.2)
    shared, other = ask(pool, "hang", "gone", gap=0.1), ask(pool, "hang", "here", gap=0.1)
    waiting = ask(pool, "echo", "gone", gap=0.3)
    assert waiting.snapshot().state is JobState.QUEUED
    pool.release("gone")
    for job in (shared, waiting):
        result = job.snapshot().result
        assert result is not None
        assert result.message.startswith(PAGE_AWAY)
    assert other.snapshot().state is JobState.RUNNING


def test_a_cancel_counts_while_a_pause_ends_the_process(lasting_pool: WorkerPool) -> None:
    run = RunRecord(number=1, question=question("hang"), graph=GRAPH)
    for why, ending in (
        (Ending.PAUSED, Ending.PAUSED),
        (Ending.CANCELLED, Ending.CANCELLED),
        (Ending.PAUSED, Ending.CANCELLED),
        (Ending.STOPPED, Ending.CANCELLED),
    ):
        lasting_pool._kill(run, why)
        assert run.ending is ending


def test_a_job_passes_to_the_session_that_presents_its_id(pool: WorkerPool) -> None:
    """As after a reload: the same solve goes on, and belongs to the new session alone."""
    alive = {"before"}
    job = ask(pool, "hang", "before")
    processes = pids(job)
    assert pool.adopt("no such id", "after", alive.__contains__) is None
    alive.clear()
    assert pool.adopt(job.id, "after", alive.__contains__) is job
    pool.reap(lambda session: session == "after")
    assert job.snapshot().state is JobState.RUNNING
    assert not any(map(is_gone, processes))
    assert pool.jobs_of("after") == (job,)
    job.cancel()
    for process in processes:
        eventually(lambda process=process: is_gone(process))
    assert pool.adopt(job.id, "much later", alive.__contains__) is job
    assert job.snapshot().state is JobState.CANCELLED
    pool.release("much later")
    assert pool.adopt(job.id, "too late", alive.__contains__) is None


def test_an_id_presented_while_its_session_is_there_joins_the_run(pool: WorkerPool) -> None:
    job = ask(pool, "hang", "here")
    processes = pids(job)
    twin = pool.adopt(job.id, "there", lambda _: True)
    assert twin is not None
    assert twin.id != job.id
    assert pids(twin) == processes
    twin.cancel()
    assert job.snapshot().state is JobState.RUNNING
    assert not any(map(is_gone, processes))
    job.cancel()


def test_reap_waits_for_the_grace(lasting_pool: WorkerPool) -> None:
    job = ask(lasting_pool, "echo", "brief")
    lasting_pool.reap(lambda session: session != "brief", grace_s=1000.0)
    assert lasting_pool.job(job.id) is job
    lasting_pool.reap(lambda session: session != "brief")
    assert lasting_pool.job(job.id) is None


def test_a_spare_process_waits_warm_and_is_replaced() -> None:
    with WorkerPool(FUNCTIONS, spare=1) as pool:
        (spare,) = eventually(lambda: [worker for worker in pool._processes.idle() if worker.is_ready])
        job = ask(pool, "hang")
        assert pids(job)[0] == spare.pid
        (next_spare,) = eventually(lambda: [worker for worker in pool._processes.idle() if worker.is_ready])
        assert next_spare.pid != spare.pid
        job.cancel()
        eventually(lambda: [worker for worker, _ in pool._processes.all()] == [next_spare])
    assert is_gone(next_spare.pid)


def test_what_fills_in_aside_leaves_the_warm_process_to_the_next_change() -> None:
    with WorkerPool(FUNCTIONS, spare=1) as pool:
        (spare,) = eventually(lambda: [worker for worker in pool._processes.idle() if worker.is_ready])
        aside = [pool.start("me", question("hang", gap=gap), GRAPH, is_aside=True) for gap in (0.1, 0.2)]
        assert all(spare.pid != pids(job)[0] for job in aside)
        live = pool.start("me", question("hang", gap=0.3), GRAPH, is_live=True)
        assert pids(live)[0] == spare.pid
        for job in (*aside, live):
            job.cancel()


@pytest.mark.parametrize("asked_for", ["hang", "echo"])
def test_a_live_plan_has_a_higher_priority_than_what_is_or_was_asked_for(asked_for: str) -> None:
    with WorkerPool(FUNCTIONS, spare=1) as pool:
        asked = ask(pool, asked_for)
        asked_pid = pids(asked)[0] if asked_for == "hang" else None
        asked.wait(0.0 if asked_pid is not None else LIMIT_S)
        pool.start("me", question("hang", gap=0.1), GRAPH, is_live=True)
        eventually(lambda: all(work.worker and work.worker.is_ready for work in pool._slots if work.is_live))
        of_live = [work.worker.pid for work in pool._slots if work.is_live and work.worker is not None]
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert of_live
        assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in of_live} == {own + LIVE_NICENESS}
        if asked_pid is not None:
            assert os.getpriority(os.PRIO_PROCESS, asked_pid) > own + LIVE_NICENESS


def test_a_process_of_what_was_asked_for_is_used_for_that_again() -> None:
    with WorkerPool(FUNCTIONS, spare=1) as pool:
        eventually(lambda: [worker for worker in pool._processes.idle() if worker.is_ready])
        at_work = set()
        for gap in (0.1, 0.2, 0.3):
            progress = ask(pool, "echo", gap=gap).wait(LIMIT_S).progress
            assert progress is not None
            at_work.add(progress.phase)
            eventually(lambda: len([worker for worker in pool._processes.idle() if worker.is_ready]) >= 2)
        assert len(at_work) == 1


def test_rushes_of_live_plans_are_done_by_the_same_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start one takes a second of the processor, several where many are at work."""
    started: list[int] = []
    begin = SolverProcesses._start

    def counted(processes: SolverProcesses) -> SolverProcess:
        worker = begin(processes)
        started.append(worker.pid)
        return worker

    monkeypatch.setattr(SolverProcesses, "_start", counted)
    with WorkerPool(FUNCTIONS, max_live=2, spare=1) as pool:
        for rush in range(4):
            jobs = [pool.start("me", question("echo", gap=(3 * rush + i) / 100), GRAPH, is_live=True) for i in range(3)]
            for job in jobs:
                assert job.wait(LIMIT_S).state is JobState.DONE
            eventually(lambda: all(work is None for _, work in pool._processes.all()))
    assert len(started) <= 3 + 1  # the third works in a slot that nobody has asked for


def test_close_ends_everything() -> None:
    pool = WorkerPool(FUNCTIONS, max_asked=1, spare=0)
    running, queued = ask(pool, "hang"), ask(pool, "echo")
    processes = pids(running)
    pool.close()
    assert running.snapshot().state is queued.snapshot().state is JobState.CANCELLED
    for process in processes:
        eventually(lambda process=process: is_gone(process))
    with pytest.raises(RuntimeError, match="closed"):
        ask(pool, "echo")
    pool.close()


OWNER = """
import sys, time
from tests.support.waiting import eventually
from tests.processes.test_jobs import WorkerPool; from tests.support.solver_processes import FUNCTIONS, ask, pids
pool = WorkerPool(FUNCTIONS, spare=0)
print(*pids(ask(pool, "hang")), flush=True)
if sys.argv[1] == "wait":
    time.sleep(1000)
"""


@pytest.mark.parametrize("end", ["wait", "exit"])
def test_no_process_outlives_its_owner(end: str) -> None:
    """Neither one that is killed in the middle of a solve, nor one that exits without closing its pool."""
    root = ROOT
    command = [sys.executable, "-c", OWNER, end]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as owner:  # noqa: S603
        assert owner.stdout is not None
        processes = [int(word) for word in owner.stdout.readline().split()]
        assert len(processes) == 2
        if end == "wait":
            assert not any(map(is_gone, processes))
            owner.kill()
    for process in processes:
        eventually(lambda process=process: is_gone(process))
