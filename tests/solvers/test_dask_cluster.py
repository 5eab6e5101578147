"""The same sweep on a real Dask scheduler with two worker processes."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from solvers.dask_cluster import ClusterError, dask_executor
from solvers.result import SolveResult
from solvers.sweep import run_sweep
from solvers.sweep_plan import Index, SweepSpec
from tests.solvers.test_cli import Run, placement
from tests.solvers.test_sweep import answers, bert, comparable, dies_once

__all__ = ["bert", "placement"]

pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 -- Dask's own programs
        [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "info", **variables},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def line_with(process: subprocess.Popen[str], pattern: str) -> str:
    """Wait for a line on the standard error of a process; go on reading it, so that it never waits for us."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(pattern, line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return found.group(1)
    raise AssertionError(f"{process.args} ended without a line like {pattern}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler with two worker processes of one thread each."""
    folder = tmp_path_factory.mktemp("dask")
    marker = {"SWEEP_TEST_MARKER": str(folder / "died")}
    processes = [start(folder, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")]
    try:
        address = line_with(processes[0], r"Scheduler at: +(tcp://\S+)")
        for _ in range(2):
            processes.append(start(folder, "worker", address, "--nthreads", "1", "--no-dashboard", **marker))
        for worker in processes[1:]:
            line_with(worker, r"Registered to: +(tcp://\S+)")
        yield address
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture(scope="module")
def here(bert: SweepSpec) -> dict[Index, SolveResult]:
    return comparable(answers(bert))


def test_a_cluster_gives_what_this_process_gives(cluster: str, bert: SweepSpec, here: dict[Index, SolveResult]) -> None:
    with dask_executor(cluster) as (make_executor, num_threads):
        assert num_threads == 2
        found = {answer.index: answer.result for answer in run_sweep(bert, make_executor)}
    assert comparable(found) == here


def test_a_worker_killed_in_the_middle_costs_only_its_own_point(
    cluster: str, bert: SweepSpec, here: dict[Index, SolveResult]
) -> None:
    with dask_executor(cluster) as (make_executor, _):
        found = list(run_sweep(bert, make_executor, solve_one=dies_once))
    assert comparable({answer.index: answer.result for answer in found}) == here
    assert len(found) == bert.num_points


def test_on_the_command_line(cluster: str, placement: Run, tmp_path: Path) -> None:
    from solvers.samples import sample_text

    graph = tmp_path / "graph.json"
    graph.write_bytes(sample_text("teaching_chain"))
    sweep = ("sweep", graph, "--accelerators", "1:4", "--json")
    there, local = placement(*sweep, "--dask", cluster), placement(*sweep, "--workers", 1)
    assert there.code == local.code == 0
    rows = [[{**row, "seconds": 0} for row in answer.json["points"]] for answer in (there, local)]
    assert rows[0] == rows[1]


def test_no_scheduler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.dask_cluster.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match="no Dask scheduler"), dask_executor("tcp://127.0.0.1:1"):
        pass
