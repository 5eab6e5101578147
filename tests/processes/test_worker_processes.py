"""Worker processes as an executor: calls, losses, the end; and sweeps on them, which lose nothing."""

import os
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from solvers.model.result import SolveResult
from solvers.processes.worker_processes import WorkerLostError, WorkerProcesses
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec
from tests.support.sweeps import answers, comparable, dies_once


def test_lost_processes_fail_their_own_call_and_are_replaced() -> None:
    with WorkerProcesses(2) as executor:
        lost = executor.submit(os._exit, 3)
        others = [executor.submit(pow, 2, n) for n in range(8)]
        with pytest.raises(WorkerLostError, match="exit code 3"):
            lost.result()
        assert [future.result() for future in others] == [2**n for n in range(8)]
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()


def test_shutting_down_ends_the_processes_in_the_middle_of_a_call() -> None:
    executor = WorkerProcesses(1)
    at_work, waiting = executor.submit(time.sleep, 600), executor.submit(pow, 2, 2)
    while not at_work.running() or not executor.process_ids:
        time.sleep(0.01)
    (process,) = executor.process_ids
    executor.shutdown(wait=False)
    with pytest.raises(WorkerLostError):
        at_work.result()
    assert waiting.cancelled()
    assert executor.process_ids == ()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(pow, 2, 2)


@pytest.fixture(scope="module")
def bert_answers(bert: SweepSpec) -> dict[Index, SolveResult]:
    return comparable(answers(bert, at_once=1))


def test_one_process_gives_what_two_give(bert: SweepSpec, bert_answers: dict[Index, SolveResult]) -> None:
    for num in (1, 2):
        found = {a.index: a.result for a in run_sweep(bert, lambda num=num: WorkerProcesses(num))}  # type: ignore[misc]
        assert comparable(found) == bert_answers


@pytest.mark.parametrize("kind", ["own", "standard"])
def test_a_point_whose_worker_is_killed_is_solved_again(
    kind: str,
    bert: SweepSpec,
    bert_answers: dict[Index, SolveResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SWEEP_TEST_MARKER", str(tmp_path / "died"))

    def make() -> Executor:
        return WorkerProcesses(2) if kind == "own" else ProcessPoolExecutor(2, mp_context=get_context("spawn"))

    found = [*run_sweep(bert, make, solve_one=dies_once)]
    assert (tmp_path / "died").exists()
    assert comparable({a.index: a.result for a in found}) == bert_answers
    assert len(found) == bert.num_points
    assert not any(a.is_failed for a in found)
