"""Questions for solver processes, and functions that stand in for solvers in them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.jobs.pool import Job, JobState, Question, Snapshot, WorkerPool
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import OnProgress, Progress, SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import NO_PINS, Pins
from tests.support.waiting import eventually

LIMIT_S = 180.0
FUNCTIONS = ("tests.support.solver_processes:pretend_to_solve",)
DEPLOYMENT = Deployment(
    2,
    0,
    10.0,
    communication=Communication.FULL_DUPLEX,
    training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 8, 4.0),
    replication=Replication(2, 1e6),
)
GRAPH = DnnGraph((Node(1, 2.0, 9.0, transfer_ms=0.5), Node(2, 3.0, 9.0, layer="4", name="häd")), (Edge(1, 2),))


SPLIT = Split((frozenset({1}), frozenset({2})), replicas=(2, 1))


def pretend_to_solve(
    graph: DnnGraph,
    deployment: Deployment,
    *,
    objective: Objective,
    method: str,
    family: Family,
    time_limit_s: float | None,
    gap: float,
    start: Split | None,
    pins: Pins = NO_PINS,
    lower_bound_ms: float | None = None,
    on_progress: OnProgress,
) -> SolveResult:
    behaviour, _, argument = method.partition(" ")
    on_progress(Progress(0.0, None, 1.0, f"pid {os.getpid()}"))
    if behaviour == "echo":
        message = repr((graph.digest, deployment, objective, family, time_limit_s, gap, pins))
        return SolveResult(SolveStatus.OPTIMAL, method, objective, family, SPLIT, 3.0, 3.0, 0.1, message)
    if behaviour == "count":  # one more line in a file
        with Path(argument).open("a") as file:
            file.write("asked\n")
    elif behaviour == "unknown":
        return SolveResult(SolveStatus.UNKNOWN, method, objective, family, None, None, None, 0.1)
    elif behaviour == "fail":
        raise KeyError("a surprise\nin two lines")
    elif behaviour == "refuse":
        raise GraphError("This graph cannot be solved; take another.")
    elif behaviour == "exit":
        os._exit(7)
    elif behaviour == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif behaviour == "print":
        print("to the protocol?", flush=True)
        os.write(1, b'{"kind": "result"}\n' * 10_000)
        subprocess.run(["/bin/sh", "-c", "echo also from a child; read line; echo $line"], check=True)
    elif behaviour == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP INT; sleep 1000 & wait"])
        on_progress(Progress(1.0, 3.75, 2.0, f"pids {os.getpid()} {child.pid}", SPLIT))
        on_progress(Progress(1.0, None, 2.5, f"pids {os.getpid()} {child.pid}"))
        time.sleep(1000)
    elif behaviour == "grow":
        on_progress(Progress(1.0, 3.75, 2.5, "growing", SPLIT))
        eaten = [os.urandom(2**20) for _ in range(int(argument))]  # MiB
        time.sleep(1000 + len(eaten))
    elif behaviour == "search":  # for ever, from what is known
        message = repr((start and start.replicas, lower_bound_ms, time_limit_s is not None and time_limit_s < 1000.0))
        on_progress(Progress(1.0, 3.75, 2.5, message, SPLIT))
        time.sleep(1000)
    elif behaviour == "flood":
        for i in range(2000):
            on_progress(Progress(i / 100, 100.0 - i / 1000, i / 1000, "flood"))
        on_progress(Progress(20.0, 3.0, 2.0, "the last word"))
        time.sleep(1000)
    return SolveResult(SolveStatus.OPTIMAL, method, objective, family, SPLIT, 3.0, 3.0, 0.1)


def question(method: str, **options: Any) -> Question:
    return Question(GRAPH.digest, DEPLOYMENT, method=method, **options)


def ask(pool: WorkerPool, method: str, session: str = "me", **options: Any) -> Job:
    return pool.start(session, question(method, **options), GRAPH)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has asked about yet (a zombie) has."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True
    ps = ["/bin/ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(ps, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return state == "" or state.startswith("Z")


def pids(job: Job) -> list[int]:
    """The processes of a job that hangs, once it has told them along with its plan."""

    def told() -> Snapshot | None:
        snapshot = job.snapshot()
        has_plan = snapshot.best_split is not None and snapshot.lower_bound_ms == 2.5
        return snapshot if has_plan or snapshot.state.is_over else None

    snapshot = eventually(told)
    assert snapshot.state is JobState.RUNNING, snapshot
    assert snapshot.progress is not None
    return [int(word) for word in snapshot.progress.phase.split()[1:]]


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(FUNCTIONS, max_asked=2, spare=0) as pool:
        yield pool
