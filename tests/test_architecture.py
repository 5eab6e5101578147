"""The imports point one way: from the right to the left of a list of packages, explorer -> solvers; and no circle.

A module imports only modules of its own package and of those that `IMPORTS` names for it. The tables are exact: what is
not listed fails, and so does what is listed and not, or no longer, so. Imports within functions and under
TYPE_CHECKING count like all others: whoever reads one file has to know the other.
"""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.support.root import ROOT

IMPORTS = {
    "solvers.quantities": "",
    "solvers.model": "solvers.quantities",
    "solvers.hardware": "solvers.quantities solvers.model",
    "solvers.formats": "solvers.quantities solvers.model",
    "solvers.problem": "solvers.quantities solvers.model",
    "solvers.processes": "solvers.model",
    "solvers.kernel_files": "",
    "solvers.compilation": "solvers.model solvers.processes solvers.kernel_files",
    "solvers.chain": "solvers.quantities solvers.model solvers.problem",
    "solvers.milp": "solvers.quantities solvers.model solvers.problem",
    "solvers.schedule": "solvers.quantities solvers.model solvers.problem",
    "solvers.free": "solvers.model solvers.problem solvers.milp",
    "solvers.teaching": "solvers.quantities solvers.model solvers.milp",
    "solvers.latency": "solvers.model solvers.problem solvers.processes solvers.chain solvers.milp",
    "solvers.importers": "solvers.quantities solvers.model solvers.hardware",
    "solvers.torch_models": "solvers.model solvers.importers",
    "solvers.onnx_models": "solvers.quantities solvers.model solvers.importers",
    "solvers.exporters": "solvers.quantities solvers.model solvers.schedule",
    "solvers.baselines": "solvers.model solvers.problem solvers.chain solvers.latency",
    "solvers.parameters": (
        "solvers.quantities solvers.model solvers.hardware solvers.schedule solvers.importers solvers.exporters "
        "solvers.baselines"
    ),
    "solvers.methods": "solvers.quantities solvers.model solvers.problem solvers.chain solvers.milp solvers.free",
    "solvers.samples": "solvers.model solvers.formats",
    "solvers.solve": (
        "solvers.model solvers.problem solvers.compilation solvers.latency solvers.baselines solvers.methods"
    ),
    "solvers.warm_up": (
        "solvers.model solvers.problem solvers.processes solvers.kernel_files solvers.compilation solvers.chain "
        "solvers.free solvers.latency solvers.solve"
    ),
    "solvers.analysis": (
        "solvers.quantities solvers.model solvers.problem solvers.exporters solvers.baselines solvers.solve"
    ),
    "solvers.sweep": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.processes solvers.exporters "
        "solvers.baselines solvers.parameters solvers.solve solvers.analysis"
    ),
    "solvers.reproduction": "solvers.quantities solvers.model solvers.formats solvers.problem solvers.analysis",
    "solvers.cli": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.problem solvers.processes "
        "solvers.compilation solvers.schedule solvers.importers solvers.torch_models solvers.onnx_models "
        "solvers.exporters solvers.baselines solvers.parameters solvers.samples solvers.solve solvers.warm_up "
        "solvers.analysis solvers.sweep solvers.reproduction"
    ),
    "explorer.server": "solvers.model solvers.schedule",
    "explorer.layout": "solvers.quantities solvers.model solvers.schedule explorer.server",
    "explorer.jobs": (
        "solvers.quantities solvers.model solvers.formats solvers.problem solvers.processes solvers.compilation "
        "solvers.baselines solvers.sweep explorer.server"
    ),
    "explorer.words": "solvers.quantities solvers.model solvers.hardware solvers.parameters explorer.jobs",
    "explorer.edits": "solvers.quantities solvers.model solvers.problem",
    "explorer.picture": (
        "solvers.quantities solvers.model solvers.schedule explorer.server explorer.layout explorer.edits"
    ),
    "explorer.figures": (
        "solvers.quantities solvers.model solvers.formats solvers.schedule explorer.layout explorer.jobs "
        "explorer.words explorer.picture"
    ),
    "explorer.state": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.problem solvers.processes "
        "solvers.schedule solvers.importers solvers.parameters solvers.sweep explorer.server explorer.jobs "
        "explorer.words explorer.edits explorer.picture"
    ),
    "explorer.exports": (
        "solvers.quantities solvers.model solvers.formats solvers.schedule solvers.parameters solvers.analysis "
        "explorer.words explorer.picture explorer.figures"
    ),
    "explorer.elements": (
        "solvers.quantities solvers.model solvers.analysis explorer.jobs explorer.words explorer.picture explorer.state"
    ),
    "explorer.form": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.importers solvers.parameters "
        "solvers.samples explorer.server explorer.jobs explorer.words explorer.figures explorer.state "
        "explorer.elements"
    ),
    "explorer.plan": (
        "solvers.quantities solvers.model solvers.problem solvers.processes solvers.milp solvers.schedule "
        "solvers.baselines solvers.parameters explorer.server explorer.jobs explorer.words explorer.edits "
        "explorer.picture explorer.state explorer.elements explorer.form"
    ),
    "explorer.sweep": (
        "solvers.quantities solvers.model solvers.hardware solvers.parameters solvers.samples solvers.solve "
        "solvers.sweep explorer.server explorer.jobs explorer.words explorer.picture explorer.state "
        "explorer.elements explorer.form"
    ),
    "explorer.explore": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.problem solvers.schedule "
        "solvers.exporters "
        "solvers.baselines solvers.parameters solvers.analysis solvers.sweep explorer.server explorer.jobs "
        "explorer.words explorer.picture explorer.figures explorer.state explorer.exports explorer.elements "
        "explorer.form explorer.plan"
    ),
    "explorer.compare": (
        "solvers.quantities solvers.model solvers.problem solvers.schedule solvers.exporters solvers.baselines "
        "solvers.samples solvers.analysis solvers.reproduction explorer.server explorer.jobs explorer.words "
        "explorer.picture explorer.state explorer.elements explorer.plan"
    ),
    "explorer.lessons": (
        "solvers.quantities solvers.model solvers.hardware solvers.formats solvers.schedule solvers.samples "
        "solvers.analysis solvers.teaching explorer.server "
        "explorer.jobs explorer.words explorer.picture explorer.state explorer.elements explorer.sweep"
    ),
    "explorer.app": (
        "explorer.server explorer.state explorer.plan explorer.sweep explorer.explore explorer.compare explorer.lessons"
    ),
    "explorer.launch": "solvers.quantities solvers.model solvers.hardware explorer.server explorer.jobs explorer.words",
}
"""Packages, and modules at the root of a tree, from left to right: each with those to its left that it imports."""

LIBRARIES = {
    "distributed": "solvers.processes",
    "graphviz": "explorer.exports",
    "highspy": "solvers.milp",
    "networkx": (
        "solvers.model solvers.problem solvers.schedule solvers.latency solvers.exporters solvers.baselines "
        "solvers.analysis explorer.layout explorer.edits"
    ),
    "numba": "solvers.chain solvers.free solvers.latency solvers.baselines",
    "google": "solvers.importers",
    "numpy": (
        "solvers.importers solvers.onnx_models solvers.problem solvers.chain solvers.milp solvers.schedule "
        "solvers.free solvers.latency solvers.baselines explorer.layout explorer.picture"
    ),
    "onnx": "solvers.importers solvers.onnx_models",
    "onnxruntime": "solvers.onnx_models",
    "ortools": "solvers.latency",
    "pandas": "explorer.compare",
    "plotly": "explorer.elements explorer.sweep",
    "platformdirs": "explorer.launch",
    "psutil": "explorer.jobs",
    "pulp": "solvers.milp solvers.teaching",
    "pyarrow": "solvers.sweep",
    "resvg_py": "explorer.figures",
    "starlette": "explorer.server",
    "torch": "solvers.torch_models",
    "streamlit": (
        "explorer.server explorer.jobs explorer.picture explorer.state explorer.elements explorer.form "
        "explorer.plan explorer.sweep explorer.explore explorer.compare explorer.lessons explorer.app explorer.launch"
    ),
}
"""Other people's libraries, each with the packages that use it."""

KNOWN: list[tuple[str, str]] = []
"""Imports from left to right that are still there: module and what it imports. To be fewer, never more."""

CIRCLES: list[frozenset[str]] = []
"""Circles of modules that are still there."""

CANVAS = {
    "kit": "",
    "data": "kit",
    "graph": "kit data",
    "replay": "kit data",
    "timeline": "kit data replay",
    "panels": "kit graph timeline",
    "app": "kit data graph timeline panels",
}
"""The same for the folders of scripts in explorer/canvas."""

TREES = ("solvers", "explorer")
SAMPLES_MAY_USE = {"networkx", "numpy", "solvers", "sample_graphs"}


@cache
def modules() -> dict[str, Path]:
    """Return the file of every module of both trees."""
    found: dict[str, Path] = {}
    for tree in TREES:
        for path in sorted((ROOT / tree).rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            found[name.removesuffix(".__init__")] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which many of these tests read."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the full names of the modules a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: write imports in full"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in modules() else node.module)
    return frozenset(names)


@cache
def imports() -> dict[str, set[str]]:
    """Return what each module of both trees imports of them."""
    return {name: set(imported(path) & modules().keys()) for name, path in modules().items()}


def unit(module: str) -> str:
    """Return the package of a module, or itself where it lies at the root of a tree."""
    return ".".join(module.split(".")[:2])


def units() -> set[str]:
    return {unit(name) for name in modules() if name not in TREES}


def test_every_package_is_listed_after_those_it_imports() -> None:
    assert set(IMPORTS) == units()
    listed: set[str] = set()
    for name, others in IMPORTS.items():
        assert set(others.split()) <= listed, f"{name} imports what stands to its right"
        listed.add(name)


def test_imports_are_those_that_are_listed() -> None:
    found: set[tuple[str, str]] = set()
    exceptions: set[tuple[str, str]] = set()
    for name, others in imports().items():
        for other in others:
            if other in TREES or unit(other) == unit(name):
                continue
            if unit(other) in IMPORTS[unit(name)].split():
                found.add((unit(name), unit(other)))
            else:
                exceptions.add((name, other))
    assert sorted(exceptions - set(KNOWN)) == [], "not allowed: a module imports from a package to its right"
    assert sorted(set(KNOWN) - exceptions) == [], "good news: these exceptions are no longer needed, so drop them"
    listed = {(name, other) for name, others in IMPORTS.items() for other in others.split()}
    assert sorted(listed - found) == [], "listed and not used: drop these"


def test_solvers_never_import_the_app() -> None:
    for name, others in imports().items():
        if name.startswith("solvers"):
            assert not any(other.startswith("explorer") for other in others), name


def test_there_is_no_circle_of_modules() -> None:
    reached = {name: set(others) for name, others in imports().items()}
    for middle in reached:
        for others in reached.values():
            if middle in others:
                others |= reached[middle]
    circles = {
        frozenset(other for other in others if name in reached[other])
        for name, others in reached.items()
        if name in others
    }
    assert sorted(map(sorted, circles)) == sorted(map(sorted, CIRCLES))


def test_libraries_are_used_where_that_is_listed() -> None:
    users: dict[str, set[str]] = {}
    for name, path in modules().items():
        for other in imported(path):
            top = other.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in {*TREES, "sample_graphs"}:
                users.setdefault(top, set()).add(unit(name))
    assert users == {name: set(packages.split()) for name, packages in LIBRARIES.items()}


@pytest.mark.parametrize("path", sorted((ROOT / "sample_graphs").rglob("*.py")), ids=lambda path: path.name)
def test_generators_use_the_library_only(path: Path) -> None:
    top = {name.partition(".")[0] for name in imported(path)} - set(sys.stdlib_module_names)
    assert top <= SAMPLES_MAY_USE


def test_packages_say_what_they_are_for_and_nothing_else() -> None:
    """A name passed on by a package would load what it does not need, such as numba in the server."""
    for name, path in modules().items():
        if path.name == "__init__.py":
            tree = parsed(path)
            assert ast.get_docstring(tree), name
            assert len(tree.body) == 1, name


def test_only_one_module_talks_to_highs() -> None:
    assert {name for name, path in modules().items() if "highspy" in imported(path)} == {"solvers.milp.highs"}


def test_only_one_program_uses_or_tools_and_nobody_imports_it() -> None:
    """OR-Tools and HiGHS cannot live in one process."""
    users = {name for name, path in modules().items() if any(other.startswith("ortools") for other in imported(path))}
    assert users == {"solvers.latency.cp_sat"}
    (program,) = users
    assert not any(program in others for others in imports().values())
    assert imports()[program] == {"solvers.processes.child"}
    needed = imported(modules()["solvers.processes.child"])
    assert {name.partition(".")[0] for name in needed - {"solvers.processes.root"}} <= sys.stdlib_module_names


def test_what_is_computed_for_the_page_does_not_know_streamlit() -> None:
    for package in ("layout", "words", "edits", "figures"):
        assert f"explorer.{package}" not in LIBRARIES["streamlit"].split()
    for name, path in modules().items():
        is_plain = name.startswith("explorer.jobs.") and name != "explorer.jobs.server_pool"
        if is_plain or name in {"explorer.picture.dag_view", "explorer.picture.gantt_view", "explorer.picture.palette"}:
            assert not any(other.startswith("streamlit") for other in imported(path)), name


def test_only_the_state_and_the_widgets_of_the_form_know_the_session_state() -> None:
    """Whoever else writes there would have to know who else does, and what a reload keeps."""
    users: set[str] = set()
    for name, path in modules().items():
        for node in ast.walk(parsed(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if (isinstance(node, ast.Attribute) and node.attr == "session_state") or "session_state" in names:
                users.add(name)
    assert {name for name in users if unit(name) != "explorer.state"} <= {"explorer.form.widget"}


def test_the_server_starts_without_the_solvers_of_the_worker() -> None:
    """Numba and PuLP take half a second to load; only the solver processes need them."""
    code = "import sys, explorer.explore.page; print(sorted({'numba', 'pulp', 'highspy'} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)  # noqa: S603
    assert output.stdout.strip() == "[]"


def test_only_one_command_runs_models_of_others() -> None:
    """PyTorch runs and unpickles what it is given, ONNX Runtime runs it: nothing that answers requests comes near."""
    for running in ("solvers.torch_models", "solvers.onnx_models"):
        users = {name for name, others in imports().items() if any(unit(other) == running for other in others)}
        assert {name for name in users if unit(name) != running} == {"solvers.cli.profiling"}
    assert not any(other.startswith("solvers.cli") for name, others in imports().items() for other in others
                   if name.startswith("explorer"))  # fmt: skip


def test_scripts_of_the_canvas_import_one_way() -> None:
    folder = ROOT / "explorer" / "canvas"
    listed: set[str] = set()
    for name, others in CANVAS.items():
        assert set(others.split()) <= listed
        listed.add(name)
    found: dict[str, set[str]] = {path.name: set() for path in folder.iterdir() if path.is_dir()}
    for path in folder.rglob("*.js"):
        here = path.parent.relative_to(folder).as_posix()
        for target in re.findall(r'^(?:import|\}) .*?from "([^"]+)";', path.read_text(encoding="utf-8"), re.MULTILINE):
            other = (path.parent / target).resolve()
            assert other.is_file(), f"{path.name}: {target}"
            if other.parent != path.parent:
                found[here].add(other.parent.relative_to(folder).as_posix())
    assert found == {name: set(others.split()) for name, others in CANVAS.items()}


def test_no_test_file_imports_another() -> None:
    for path in sorted((ROOT / "tests").rglob("*.py")):
        own = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module != own:
                assert not re.search(r"(^|\.)test_\w+$", node.module), f"{own} imports {node.module}"
