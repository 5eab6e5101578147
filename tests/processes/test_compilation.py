"""Kernels are compiled before any clock starts, once for all processes; test_wheel.py has every kernel compiled."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from solvers import compilation
from solvers.compilation import COMPILING, is_compiled, one_at_a_time, write_record
from solvers.model.deployment import Deployment
from solvers.model.result import Progress, SolveCancelled, SolveStatus
from solvers.processes.root import ROOT
from solvers.solve import solve
from tests.support.graphs import chain

CALLED_FROM_PYTHON = """
import ast, json, sys
from pathlib import Path
from solvers.kernel_files import kernels
from solvers.warm_up import compile_all

compile_all()
is_compiled = {id(kernel): bool(kernel.signatures) for kernel in kernels()}
called = {}
for name, module in list(sys.modules.items()):
    if name.startswith("solvers.") and module.__file__:
        known = vars(module)
        for statement in ast.parse(Path(module.__file__).read_text()).body:
            if id(known.get(getattr(statement, "name", ""))) not in is_compiled:
                for part in ast.walk(statement):
                    if isinstance(part, ast.Name) and id(known.get(part.id)) in is_compiled:
                        called[f"{name}: {part.id}"] = is_compiled[id(known[part.id])]
print(json.dumps(called))
"""
"""Prints which kernels are named outside of kernels, and whether each has been compiled."""


def python(*arguments: str, root: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a root of packages, and variables set or, with an empty value, not."""
    others = {**os.environ, "PYTHONPATH": str(root), **environment}
    return subprocess.run(  # noqa: S603
        [sys.executable, *arguments],
        env={name: value for name, value in others.items() if value},
        capture_output=True,
        text=True,
        check=False,
    )


USED_BY_STEPS = """
import json, sys
from solvers.compilation import settle
from solvers.kernel_files import kernel_files, kernels
from solvers.warm_up import _steps

settle()
for step in _steps():
    if step.is_of_free_splits == (sys.argv[1] == "free splits"):
        step.run()
files = {file.source: file.needs for file in kernel_files()}
called = {kernel.py_func.__code__.co_filename for kernel in kernels() if kernel.signatures}
print(json.dumps(sorted({needed for source in called for needed in files[source] if needed in files})))
"""
"""Prints the files with kernels that steps of free splits, or all others, have compiled."""


SOURCES = {
    "example_limit.py": "LIMIT = {limit}\n",
    "example_given.py": "from typing import NamedTuple\nclass {name}(NamedTuple):\n    factor: int\n",
    "example_other.py": "OTHER = {other}\n",
    "example_kernel.py": """
from numba import njit
from solvers import example_given
from solvers.example_limit import LIMIT
from solvers.example_other import OTHER

TWICE = 2 * LIMIT

@njit(cache=True)
def twice(given):
    return given.factor * TWICE

def spoken():
    (given,) = (kind for name, kind in vars(example_given).items() if isinstance(kind, type))
    return twice(given(1)) + OTHER
""",
}
"""A kernel, and the files of what it is given, what it names, and what only a function of Python names."""

ASKED = """
from pathlib import Path
from solvers.compilation import forget_changed, is_compiled, write_record
print(is_compiled(), end=" ")
forget_changed()
from solvers.example_kernel import spoken, twice
from solvers.kernel_files import kernel_files
print(spoken(), twice.stats.cache_hits.total(), end=" ")
files = kernel_files()
write_record(files)
print(is_compiled(), [[Path(path).name for path in file.needs] for file in files])
"""
"""Prints whether all was compiled, what the kernel says, how often numba had it, and what it was made of."""


@pytest.fixture
def nothing_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have this process not know of anything compiled; what it has loaded stays."""
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compilation, "_is_known", [])
    assert not is_compiled()
    return tmp_path


def test_the_clock_of_a_solve_begins_after_compilation(nothing_compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that takes far longer than the limit stands for the compiler; the clock is looked at, not timed."""
    clock = [1000.0]
    monkeypatch.setattr("solvers.problem.solving.time.monotonic", lambda: clock[0])
    seen: list[Progress] = []

    def compiler(on_progress: object) -> str:
        clock[0] += 3600.0
        write_record(())
        return ""

    monkeypatch.setattr(compilation, "_compile_in_a_child", compiler)
    result = solve(chain((1, 2, 3)), Deployment(2), time_limit_s=5.0, on_progress=seen.append)
    assert result.status is SolveStatus.OPTIMAL
    assert result.runtime_s == 0.0
    assert {progress.seconds for progress in seen} == {0.0}
    assert is_compiled()


def test_a_cancelled_wait_ends_the_compiler_and_keeps_the_plan_known(nothing_compiled: Path) -> None:
    phases: list[str] = []

    def cancel(progress: Progress) -> None:
        phases.append(progress.phase)
        if progress.phase.startswith(COMPILING):
            raise SolveCancelled

    graph, deployment = chain((1, 2, 3)), Deployment(2)
    known = solve(graph, deployment, method="single").split
    result = solve(graph, deployment, start=known, on_progress=cancel)
    assert (result.status, result.value_ms) == (SolveStatus.FEASIBLE, 6.0)
    assert phases[-1].startswith(COMPILING)
    assert not is_compiled()


def test_what_cannot_be_compiled_ahead_is_solved_all_the_same_and_said(
    nothing_compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "PROGRAM", "solvers.no_such_program")
    result = solve(chain((1, 2, 3)), Deployment(2))
    assert result.status is SolveStatus.OPTIMAL
    assert "could not be compiled ahead" in result.message
    assert "no_such_program" in result.message


def test_methods_without_kernels_wait_for_none(nothing_compiled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiler(on_progress: object) -> str:
        raise AssertionError("nothing is needed")

    monkeypatch.setattr(compilation, "_compile_in_a_child", compiler)
    assert solve(chain((1, 2, 3)), Deployment(2), method="single").value_ms == 6.0
    assert solve(chain((1, 2, 3)), Deployment(2, 0, 0.5)).status is SolveStatus.INFEASIBLE


def test_one_process_compiles_at_a_time(nothing_compiled: Path) -> None:
    """Another process that wants to compile gets no further while this one does."""
    wait = (
        "from solvers.compilation import one_at_a_time; print('waits', flush=True)\nwith one_at_a_time(): print('in')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with one_at_a_time():
        other = subprocess.Popen([sys.executable, "-c", wait], env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603
        assert other.stdout is not None
        assert other.stdout.readline() == "waits\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.2)
    assert other.communicate()[0] == "in\n"


def test_without_any_folder_for_the_cache_there_is_one_for_the_run() -> None:
    """The package lies where nothing can be written, and so does the user's cache folder."""
    code = """
import os
from pathlib import Path
from solvers import compilation
compilation.ROOT = Path("/proc")
compilation.provide_cache()
import solvers.chain.label_kernel as kernel
assert kernel.grow._cache.cache_path.startswith(os.environ["NUMBA_CACHE_DIR"])
print(os.environ["NUMBA_CACHE_DIR"])
"""
    done = python("-c", code, NUMBA_CACHE_DIR="", XDG_CACHE_HOME="/proc")
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()  # it went with the process
    usual = python("-c", code.replace('Path("/proc")', "compilation.ROOT"), NUMBA_CACHE_DIR="", XDG_CACHE_HOME="/proc")
    assert "KeyError: 'NUMBA_CACHE_DIR'" in usual.stderr  # where there is one, nothing is changed


@pytest.mark.slow
def test_every_kernel_that_is_called_from_python_is_compiled_ahead() -> None:
    """Whether a solve meets it may depend on luck and on the time limit."""
    done = python("-c", CALLED_FROM_PYTHON)
    assert done.returncode == 0, done.stderr
    called: dict[str, bool] = json.loads(done.stdout)
    assert len(called) > 20
    assert [name for name, is_compiled in called.items() if not is_compiled] == []


def test_no_kernel_is_compiled_by_two_processes_at_a_time() -> None:
    used = [python("-c", USED_BY_STEPS, which) for which in ("free splits", "others")]
    assert [done.returncode for done in used] == [0, 0], used
    free, others = (set(json.loads(done.stdout)) for done in used)
    assert not free & others
    assert len(free) > 5
    assert len(others) > 5


def test_what_a_changed_file_was_compiled_into_is_compiled_anew(tmp_path: Path) -> None:
    """A constant of another file, and the class of an argument that has another name now: numba notices neither."""
    shutil.copytree(ROOT / "solvers", tmp_path / "solvers", ignore=shutil.ignore_patterns("__pycache__"))

    def answer(limit: int = 3, name: str = "Given", other: int = 0) -> str:
        for file, template in SOURCES.items():
            path, text = tmp_path / "solvers" / file, template.format(limit=limit, name=name, other=other)
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        done = python("-P", "-c", ASKED, root=tmp_path, NUMBA_CACHE_DIR="", PYTHONDONTWRITEBYTECODE="1")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    needs = "[['example_given.py', 'example_kernel.py', 'example_limit.py']]"
    assert answer() == f"False 6 0 True {needs}"
    assert answer() == f"True 6 1 True {needs}"
    assert answer(other=1) == f"True 7 1 True {needs}"
    assert answer(limit=4) == f"False 8 0 True {needs}"
    assert answer(limit=4, name="Renamed") == f"False 8 0 True {needs}"
    assert answer(limit=4, name="Renamed") == f"True 8 1 True {needs}"
