"""What the server does to solvers that do not end, take too much, or stand in the way, with real processes."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from explorer.jobs import pool as jobs
from explorer.jobs import process_memory, slots, watchdog
from explorer.jobs.pool import JobState, WorkerPool
from explorer.jobs.process_memory import memory_of_machine, memory_of_trees
from solvers.model.result import SolveStatus
from tests.support.solver_processes import FUNCTIONS, GRAPH, LIMIT_S, SPLIT, ask, is_gone, pids
from tests.support.waiting import eventually

MIB = 2**20


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits and slices of a fraction of a second, so that no test waits for those of real life."""
    monkeypatch.setattr(watchdog, "OVERTIME_S", 0.2)
    monkeypatch.setattr(jobs, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(slots, "SLICE_S", 0.3)
    monkeypatch.setattr(slots, "LIVE_SLICE_S", 0.3)
    monkeypatch.setattr(slots, "LONG_SLICE_S", 0.6)


@pytest.fixture
def pool(hasty: None) -> Iterator[WorkerPool]:
    with WorkerPool(FUNCTIONS, max_asked=1, max_live=1, spare=0) as pool:
        yield pool


@pytest.mark.parametrize("is_stopped", [False, True], ids=["hangs", "stopped from outside"])
def test_a_solver_that_does_not_end_is_ended_after_its_limit(pool: WorkerPool, is_stopped: bool) -> None:
    job = ask(pool, "hang", time_limit_s=1.0)
    processes = pids(job)
    if is_stopped:
        os.kill(processes[0], signal.SIGSTOP)
    snapshot = job.wait(LIMIT_S)
    result = snapshot.result
    assert snapshot.state is JobState.STOPPED
    assert result is not None
    assert (result.status, result.split, result.lower_bound_ms) == (SolveStatus.FEASIBLE, SPLIT, 2.5)
    assert result.message.endswith("s after its limit; this is the best plan so far.")
    for process in processes:
        eventually(lambda process=process: is_gone(process))
    assert ask(pool, "echo").wait(LIMIT_S).state is JobState.DONE


def test_no_solve_takes_longer_than_the_server_allows(hasty: None) -> None:
    with WorkerPool(FUNCTIONS, longest_s=0.5, spare=0) as pool:
        assert ask(pool, "hang", time_limit_s=1000.0).wait(LIMIT_S).state is JobState.STOPPED


def test_a_solver_that_takes_too_much_memory_is_ended_with_its_best_plan(hasty: None) -> None:
    with WorkerPool(FUNCTIONS, memory_bytes=400 * MIB, spare=0) as pool:
        assert ask(pool, "grow 10").snapshot().state is JobState.RUNNING
        snapshot = ask(pool, "grow 500").wait(LIMIT_S)
        assert snapshot.state is JobState.STOPPED
        assert snapshot.result is not None
        assert snapshot.result.split == SPLIT
        assert snapshot.result.message == (
            "The solver was stopped at 400 MiB of memory, the most that one may take on this server. Another method, a "
            "pipeline split or a smaller graph (folded layers) takes less; this is the best plan so far."
        )


def test_after_a_quiet_time_a_fresh_process_waits(hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "QUIET_SECONDS", 0.3)
    with WorkerPool(FUNCTIONS, spare=1) as pool:
        assert ask(pool, "echo").wait(LIMIT_S).state is JobState.DONE
        worked = [worker for worker, _ in pool._processes.all() if worker.has_worked]
        assert len(worked) == 1
        eventually(lambda: is_gone(worked[0].pid))
        (fresh,) = eventually(lambda: [worker for worker in pool._processes.idle() if worker.is_ready])
        assert not fresh.has_worked
        assert ask(pool, "echo", gap=0.1).wait(LIMIT_S).state is JobState.DONE


def test_memory_counts_what_a_process_has_started() -> None:
    mine = memory_of_trees({os.getpid(), 2**22 + 1})
    assert mine[2**22 + 1] == 0
    assert MIB < mine[os.getpid()] < memory_of_machine()


def test_the_system_and_a_look_at_all_processes_tell_of_the_same_children() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"], start_new_session=True) as shell:
        try:
            begun = eventually(lambda: started if len(started := process_memory._children(shell.pid)) == 2 else None)
            assert sorted(begun) == sorted(process_memory._all_children()[shell.pid])
            assert memory_of_trees({shell.pid})[shell.pid] > memory_of_trees({begun[0]})[begun[0]] > 0
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_long_solves_of_many_sessions_take_turns_and_lose_nothing(pool: WorkerPool) -> None:
    """One slot and one place beside it for three endless solves: each is paused, and goes on from what it had."""
    solves = [
        ask(pool, "search", session, gap=gap, time_limit_s=1000.0)
        for session, gap in (("a", 0.1), ("b", 0.2), ("c", 0.3))
    ]
    again = repr(((2, 1), 2.5, True))

    def has_gone_on(job: jobs.Job) -> bool:
        progress = job.snapshot().progress
        return progress is not None and progress.phase == again

    for job in solves:
        eventually(lambda job=job: has_gone_on(job))
        assert job.snapshot().best_split == SPLIT
        assert job.snapshot().lower_bound_ms == 2.5
    for job in solves:
        snapshot = job.cancel()
        assert snapshot.state is JobState.CANCELLED
        assert snapshot.result is not None
        assert snapshot.result.split == SPLIT


def test_a_live_plan_does_not_wait_for_long_ones(pool: WorkerPool) -> None:
    long = [ask(pool, "search", f"user {i}", gap=i / 10) for i in range(4)]
    live = pool.start(
        "me",
        jobs.Question(long[0].question.graph_digest, long[0].question.deployment, method="echo"),
        GRAPH,
        is_live=True,
    )
    assert live.wait(LIMIT_S).state is JobState.DONE
    assert not any(job.snapshot().state.is_over for job in long)


def test_a_live_solve_that_nobody_waits_for_ends_by_itself_or_is_ended(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "LEFT_ALONE_S", 1000.0)
    asked = ask(pool, "hang").question
    pool.release("me")
    left = pool.start("me", asked, GRAPH, is_live=True)
    processes = pids(left)
    assert left.cancel().state is JobState.CANCELLED
    assert not any(map(is_gone, processes))
    back = pool.start("you", asked, GRAPH, is_live=True)  # somebody asks the same: it goes on for them
    assert pids(back) == processes
    back.cancel()
    monkeypatch.setattr(jobs, "LEFT_ALONE_S", 0.0)
    for process in processes:
        eventually(lambda process=process: is_gone(process))
