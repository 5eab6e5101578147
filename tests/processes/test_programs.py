"""The command line as a program of its own: exit codes, readers that go away, and Ctrl-C in the middle of the work."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.samples import sample_text
from tests.support.graphs import diamond, random_dag

COMMAND = [sys.executable, "-m", "solvers.cli"]


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    """A diamond with times 1, 2, 3, 4 on two accelerators that hold three of its nodes each, and a CPU."""
    path = tmp_path / "diamond.json"
    write_graph(path, diamond(), Deployment(2, 1, 3.0))
    return path


def test_as_a_program(graph_file: Path) -> None:
    solved = subprocess.run([*COMMAND, "solve", str(graph_file)], capture_output=True, text=True, check=False)  # noqa: S603
    assert (solved.returncode, solved.stderr) == (0, "")
    assert json.loads(solved.stdout)["value_ms"] == 8
    refused = subprocess.run([*COMMAND, "solve", "missing.json"], capture_output=True, text=True, check=False)  # noqa: S603
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "No such file" in refused.stderr


def test_a_reader_that_goes_away_loses_neither_file_nor_exit_code(graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.json"
    for options, code in ((("--output", str(output)), 0), (("--memory", "1e-9", "--cpus", "0"), 3)):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "wb") as nobody:
            process = subprocess.run(  # noqa: S603
                [*COMMAND, "solve", str(graph_file), *options], stdout=nobody, stderr=subprocess.PIPE, check=False
            )
        assert process.returncode == code
        assert b"Error" not in process.stderr
        assert b"ignored" not in process.stderr
    assert json.loads(output.read_text())["fpgas"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_of_a_running_program_prints_the_best_plan(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "large.json"
    write_graph(path, random_dag(1, num_nodes=60, edge_probability=0.1), Deployment(6))
    with subprocess.Popen(  # noqa: S603
        [*COMMAND, "solve", str(path), "--family", "free", "--progress", "--time-limit", "15"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "integer program" in line and "value -" not in line and "building" not in line:
                process.send_signal(number)
                break
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out)["status"] == "FEASIBLE"
    assert "Cancelled" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("loaded", ["solvers.model.errors", "numpy", "argparse"])
def test_ctrl_c_while_the_program_is_loaded_leaves_one_sentence(loaded: str, number: signal.Signals) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "solvers.cli", "solve", "-"]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.split("|")[-1].strip() == loaded:
                process.send_signal(number)
                break
        said = [line for line in process.stderr if not line.startswith("import time:")]
    assert process.returncode == 4
    assert said == ["placement: interrupted.\n"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_the_solvers_are_compiled_leaves_no_plan(
    graph_file: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(  # noqa: S603
        [*COMMAND, "solve", str(graph_file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "compiling" in line and " of " in line:
                process.send_signal(number)
                break
        out, err = process.communicate(timeout=60)
    assert process.returncode == 4, err
    assert json.loads(out)["value_ms"] is None
    assert "Cancelled" in err


@pytest.mark.parametrize(
    "arguments", [("solve", "GRAPH"), ("--help",), ("solve", "--help"), ("--version",), ("devices",)]
)
def test_a_full_device_is_said_in_one_sentence(graph_file: Path, arguments: tuple[str, ...]) -> None:
    command = [*COMMAND, *(str(graph_file) if word == "GRAPH" else word for word in arguments)]
    with open("/dev/full", "w", encoding="utf-8") as full:
        # With few variables set, as under a service, the help of solve is written in two pieces.
        for environment in (None, {"PATH": os.environ["PATH"]}):
            process = subprocess.run(  # noqa: S603
                command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
            )
            assert process.returncode == 2
            assert process.stderr == "placement: stdout cannot be written: No space left on device.\n"
        silent = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=False)  # noqa: S603
        assert silent.returncode == 0
        refused = subprocess.run([*COMMAND, "solve", "none.json"], stderr=full, check=False)  # noqa: S603
        assert refused.returncode == 2


def test_what_the_encoding_of_stdout_lacks_is_no_reason_to_end() -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii"}
    process = subprocess.run([*COMMAND, "solve", "--help"], capture_output=True, env=environment, check=False)  # noqa: S603
    assert (process.returncode, process.stderr) == (0, b"")
    assert process.stdout.isascii()


def test_a_full_device_does_not_lose_the_file(graph_file: Path, tmp_path: Path) -> None:
    output = tmp_path / "split.json"
    command = [*COMMAND, "solve", str(graph_file), "--output", str(output)]
    with open("/dev/full", "w", encoding="utf-8") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)  # noqa: S603
    assert process.returncode == 2
    assert json.loads(output.read_text())["fpgas"]


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(tmp_path: Path) -> None:
    graph, out = tmp_path / "bert.json", tmp_path / "sweep.json"
    graph.write_bytes(sample_text("bert_base_operator_inference"))
    command: list[Any] = [sys.executable, "-m", "solvers.cli", "sweep", graph, "--accelerators", "1:6"]
    command += ["--bandwidth", "1:4", "--workers", "1", "--out", out]
    journal = tmp_path / "sweep.json.points.jsonl"
    with subprocess.Popen(  # noqa: S603 -- our own program
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not journal.exists() or journal.read_bytes().count(b"\n") < 3:
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 4
    assert "--resume goes on" in err
    rows = json.loads(out.read_text())
    assert len(rows) == 24
    done = [row for row in rows if row["status"] == "OPTIMAL"]
    assert 2 <= len(done) < 24
    refused = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "add --resume" in refused.stderr
    resumed = subprocess.run(  # noqa: S603
        [*command, "--resume"], capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0
    assert f"{len(done)} of 24 points are known" in resumed.stderr
    assert not journal.exists()
    rows = json.loads(out.read_text())
    assert {row["status"] for row in rows} == {"OPTIMAL"}
    # The front is that of the points that are solved: the others may push one off it.
    of_their_own = [{name: value for name, value in row.items() if name != "is_on_pareto_front"} for row in rows]
    for row in done:
        del row["is_on_pareto_front"]
        assert row in of_their_own
