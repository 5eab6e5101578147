"""The imports point one way: explorer -> solvers, and within solvers only to what stands before."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOLVERS_MAY_USE = {"numpy", "numba", "networkx", "pulp", "highspy", "ortools", "pyarrow", "distributed", "solvers"}
SAMPLES_MAY_USE = {"networkx", "numpy", "solvers", "sample_graphs"}
STANDARD_LIBRARY = set(__import__("sys").stdlib_module_names)


def imported(path: Path) -> set[str]:
    """Return the full names of the modules a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: write imports in full"
            assert node.module is not None
            names.add(node.module)
    return names


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", modules("solvers"), ids=lambda path: path.name)
def test_solvers_use_neither_the_app_nor_anything_that_draws(path: Path) -> None:
    top = {name.partition(".")[0] for name in imported(path)} - STANDARD_LIBRARY
    assert top <= SOLVERS_MAY_USE


@pytest.mark.parametrize("path", modules("sample_graphs"), ids=lambda path: path.name)
def test_generators_use_the_library_only(path: Path) -> None:
    top = {name.partition(".")[0] for name in imported(path)} - STANDARD_LIBRARY
    assert top <= SAMPLES_MAY_USE


def test_solvers_have_no_circle_of_imports() -> None:
    of = {
        f"solvers.{path.relative_to(ROOT / 'solvers').with_suffix('').as_posix().replace('/', '.')}": {
            name for name in imported(path) if name.startswith("solvers")
        }
        for path in modules("solvers")
    }
    placed: set[str] = set()
    while waiting := set(of) - placed:
        ready = {name for name in waiting if of[name] & set(of) <= placed}
        assert ready, f"these import each other: {sorted(waiting)}"
        placed |= ready


def test_only_one_module_talks_to_highs() -> None:
    users = {path.name for path in modules("solvers") if "highspy" in imported(path)}
    assert users == {"milp.py"}


def test_only_one_program_uses_or_tools_and_nobody_imports_it() -> None:
    """OR-Tools and HiGHS cannot live in one process."""
    users = {path.stem for path in modules("solvers") if any(name.startswith("ortools") for name in imported(path))}
    assert users == {"latency_cp_sat"}
    (program,) = users
    for package in ("solvers", "explorer", "sample_graphs"):
        for path in modules(package):
            assert f"solvers.{program}" not in imported(path), path.name
    assert not any(name.startswith("solvers") for name in imported(ROOT / "solvers" / f"{program}.py"))


def test_jobs_do_not_know_streamlit() -> None:
    for name in (
        "jobs.py",
        "job_record.py",
        "solver_process.py",
        "sweep_run.py",
        "solve_worker.py",
        "dag_view.py",
        "gantt_view.py",
        "layout.py",
        "palette.py",
    ):
        assert not any(module.startswith("streamlit") for module in imported(ROOT / "explorer" / name)), name


def test_the_server_starts_without_the_solvers_of_the_worker() -> None:
    """Numba and PuLP take half a second to load; only the solver processes need them."""
    import subprocess
    import sys

    code = "import sys, explorer.pages.explore; print(sorted({'numba', 'pulp', 'highspy'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    assert output.stdout.strip() == "[]"
