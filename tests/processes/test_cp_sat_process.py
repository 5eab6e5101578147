"""The process that runs CP-SAT: it answers, it ends when told, when its parent ends, and it says why it failed."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solvers.latency import bound as latency_bound
from solvers.latency import solve as latency_module
from solvers.latency.cp_sat_process import FAILED, CpSatProcess
from solvers.latency.program import LatencyProgram
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.result import SolveStatus
from solvers.model.split import check_split
from solvers.solve import solve
from tests.support.graphs import chain, random_dag, scaled
from tests.support.root import ROOT

GRAPH = random_dag(2, num_nodes=40, edge_probability=0.1)
DEPLOYMENT = Deployment(4, 1, sum(node.memory_bytes for node in GRAPH.nodes) / 6)
HARD = LatencyProgram.below(GRAPH, DEPLOYMENT, None, None, 0.0, 0.0).document(1)


def all_answers(child: CpSatProcess) -> list[dict[str, object]]:
    answers: list[dict[str, object]] = []
    while not any("status" in answer for answer in answers):
        answers += child.answers(wait_s=1.0)
    return answers


def test_plans_and_bounds_arrive_and_the_last_answer_is_a_status() -> None:
    graph, deployment = chain((2, 3)), Deployment(1, 1, 1.0)
    program = LatencyProgram.below(graph, deployment, None, None, 0.0, 0.0)
    with CpSatProcess("cp_sat", program.document(1)) as child:
        answers = all_answers(child)
    assert answers[-1]["status"] == "OPTIMAL"
    assert 1 - 1e-6 <= program.bound_ms(answers[-1]) / (3 + 1 + 8) <= 1  # the second node is the dearer one on a CPU
    plans = [program.split(answer) for answer in answers if "slot" in answer]
    assert plans
    assert not check_split(graph, deployment, plans[-1])


def test_a_target_below_the_optimum_is_a_proven_bound() -> None:
    graph, deployment = chain((2, 3)), Deployment(1, 1)
    best = solve(graph, deployment, objective=Objective.LATENCY)
    program = LatencyProgram.below(graph, deployment, best.split, best.value_ms, 0.0, 0.0)
    with CpSatProcess("cp_sat", program.document(1)) as child:
        answer = all_answers(child)[-1]
    assert answer["status"] == "INFEASIBLE"
    assert 5 * (1 - 1e-6) < program.bound_ms(answer) < 5


def test_stopping_ends_the_child_at_once() -> None:
    child = CpSatProcess("cp_sat", HARD)
    child.answers(wait_s=0.1)
    child.stop()
    assert not child._child.is_running
    child.stop()  # again: nothing happens


def test_a_child_that_fails_says_why() -> None:
    with CpSatProcess("cp_sat", {"num_accelerators": 1}) as child:
        answers = all_answers(child)
    assert answers == [{"status": FAILED, "error": "KeyError: 'cpu'"}]


def test_a_failing_child_is_told_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency_module, "PROOF_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(latency_module, "SEARCH_SECONDS", 0.1)
    monkeypatch.setattr(latency_bound, "IDEAL_LIMITS", (200,))
    monkeypatch.setattr(LatencyProgram, "document", lambda *_: {})
    result = solve(GRAPH, DEPLOYMENT, objective=Objective.LATENCY)
    assert result.status is SolveStatus.FEASIBLE
    assert result.message.startswith("CP-SAT ended without an answer: KeyError")


def test_the_child_ends_with_its_parent(tmp_path: Path) -> None:
    code = (
        "import os, sys, json; from solvers.latency.cp_sat_process import CpSatProcess;"
        "child = CpSatProcess('cp_sat', json.loads(sys.stdin.read()));"
        "child.answers(wait_s=60); print(child._child.pid, flush=True); os._exit(1)"
    )
    parent = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code],
        input=json.dumps(HARD),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    pid = int(parent.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} is still there")


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e12])
def test_integers_stay_in_range_whatever_the_unit_of_time(scale: float) -> None:
    program = LatencyProgram.below(scaled(GRAPH, scale), DEPLOYMENT, None, None, 0.0, 0.0)
    document = program.document(1)
    transfers = [tensor["transfer"][0] for tensor in document["tensors"]]
    numbers = [*document["accelerator"][0], *document["cpu"], *transfers, *document["size"]]
    assert all(0 <= number < 2**41 for number in numbers)
    assert program.bound_ms({"bound": document["most"]}) == pytest.approx(program.target_ms, rel=1e-9)
