"""The same sweep on a real Dask scheduler with two worker processes; and schedulers that never answer."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from solvers.model.result import SolveResult
from solvers.processes.dask_cluster import ClusterError, dask_executor
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec
from tests.support.certificate import make_certificate
from tests.support.command_line import Run
from tests.support.root import ROOT
from tests.support.sweeps import answers, comparable, dies_once
from tests.support.waiting import eventually

pytest.importorskip("distributed")


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


class Cluster(str):
    """The address of a scheduler, which knows its process."""

    pid: int


@contextlib.contextmanager
def running(folder: Path, protocol: str, num_workers: int, variables: dict[str, str]) -> Iterator[Cluster]:
    """Run a scheduler with worker processes of one thread each."""
    scheduler = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--protocol", protocol)
    processes = [start(folder, *scheduler, **variables)]
    try:
        address = Cluster(line_with(processes[0], rf"Scheduler at: +({protocol}://\S+)"))
        address.pid = processes[0].pid
        for _ in range(num_workers):
            processes.append(start(folder, "worker", address, "--nthreads", "1", "--no-dashboard", **variables))
        for worker in processes[1:]:
            line_with(worker, rf"Registered to: +({protocol}://\S+)")
        yield address
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("dask")
    with running(folder, "tcp", 2, {"SWEEP_TEST_MARKER": str(folder / "died")}) as address:
        yield address


@pytest.fixture(scope="module")
def here(bert: SweepSpec) -> dict[Index, SolveResult]:
    return comparable(answers(bert))


def test_a_cluster_gives_what_this_process_gives(
    cluster: Cluster, bert: SweepSpec, here: dict[Index, SolveResult]
) -> None:
    with dask_executor(cluster) as (make_executor, num_threads):
        assert num_threads == 2
        found = {answer.index: answer.result for answer in run_sweep(bert, make_executor)}
    assert comparable(found) == here


def test_a_worker_killed_in_the_middle_costs_only_its_own_point(
    cluster: Cluster, bert: SweepSpec, here: dict[Index, SolveResult]
) -> None:
    with dask_executor(cluster) as (make_executor, _):
        found = list(run_sweep(bert, make_executor, solve_one=dies_once))
    assert comparable({answer.index: answer.result for answer in found}) == here
    assert len(found) == bert.num_points


def test_on_the_command_line(cluster: Cluster, placement: Run, tmp_path: Path) -> None:
    from solvers.samples import sample_text

    graph = tmp_path / "graph.json"
    graph.write_bytes(sample_text("teaching_chain"))
    sweep = ("sweep", graph, "--accelerators", "1:4", "--json")
    there, local = placement(*sweep, "--dask", cluster), placement(*sweep, "--workers", 1)
    assert there.code == local.code == 0
    rows = [[{**row, "seconds": 0} for row in answer.json["points"]] for answer in (there, local)]
    assert rows[0] == rows[1]


NOBODY = "no Dask scheduler|Nothing at .* answered as a Dask scheduler"
"""On a busy machine the time is over before Dask has tried often enough to say that it was refused."""


def test_no_scheduler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 1)
    with pytest.raises(ClusterError, match=NOBODY), dask_executor("tcp://127.0.0.1:1"):
        pass


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a port that takes connections and never speaks."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"


def test_a_peer_that_never_speaks_is_given_up(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 1)
    before = set(threading.enumerate())
    with pytest.raises(ClusterError, match="answered as a Dask scheduler within 1 second;"), dask_executor(silent):
        pass
    eventually(lambda: {one for one in threading.enumerate() if one.name == "IO loop"} <= before)


def test_a_scheduler_that_stops_after_its_greeting_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 1)
    with dask_executor(cluster) as (make_executor, _), make_executor():
        pass  # it works
    os.kill(cluster.pid, signal.SIGSTOP)
    try:
        with pytest.raises(ClusterError, match="within 1 second;"), dask_executor(cluster):
            pass
    finally:
        os.kill(cluster.pid, signal.SIGCONT)


def test_leaving_a_scheduler_that_has_stopped_ends(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(dask_executor(cluster))
        os.kill(cluster.pid, signal.SIGSTOP)
        stack.callback(os.kill, cluster.pid, signal.SIGCONT)
        stack.pop_all().close()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_scheduler_lost_in_the_middle_ends_the_sweep_with_a_sentence(
    how: signal.Signals,
    bert: SweepSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 2)
    found = []

    def sweep(address: Cluster) -> None:
        with dask_executor(address) as (make_executor, _):
            for answer in run_sweep(bert, make_executor):
                found.append(answer)
                if len(found) == 2:
                    os.kill(address.pid, how)

    with running(tmp_path, "tcp", 1, {}) as address, pytest.raises(ClusterError, match="was lost in the middle"):
        sweep(address)
    assert 2 <= len(found) < bert.num_points
    assert "Traceback" not in capfd.readouterr().err
    eventually(lambda: not [one for one in threading.enumerate() if one.name == "dask-watch"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Dask's settings of a throw-away certificate, which is its own authority."""
    cert, key = make_certificate(tmp_path_factory.mktemp("tls"))
    tls = {"CA_FILE": cert}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"{who}__CERT": cert, f"{who}__KEY": key}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name, path in tls.items()}


@pytest.fixture(scope="module")
def tls_cluster(tmp_path_factory: pytest.TempPathFactory, certificates: dict[str, str]) -> "Iterator[Cluster]":
    with running(tmp_path_factory.mktemp("dask_tls"), "tls", 1, certificates) as address:
        yield address


def test_a_sweep_by_tls_with_certificates_of_the_environment(
    tls_cluster: Cluster, certificates: dict[str, str], tmp_path: Path
) -> None:
    from solvers.samples import sample_text

    graph = tmp_path / "graph.json"
    graph.write_bytes(sample_text("teaching_chain"))
    command = [sys.executable, "-m", "solvers.cli", "sweep", str(graph), "--accelerators", "1:3", "--json"]
    command += ["--dask", tls_cluster]

    def run(**variables: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **variables}
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)  # noqa: S603

    there = run(**certificates)
    assert there.returncode == 0, there.stderr
    assert len(json.loads(there.stdout)["points"]) == 3
    without = run()
    assert without.returncode == 2
    assert "No Dask scheduler could be reached at 'tls://127.0.0.1:" in without.stderr
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in without.stderr
    assert "Traceback" not in without.stderr
