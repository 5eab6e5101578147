"""What people install: a wheel built from the project works where there is no checkout, and holds all of its data.

That nothing is left to compile after `placement warm-up` is tried here, too: it takes minutes to compile all once.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.picture import BUSY_MS, Picture
from tests.support.root import ROOT
from tests.support.serving import free_port, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXERCISE = """
import sys
from dataclasses import replace
from solvers.model.costs import Objective
from solvers.model.deployment import (
    Communication, Deployment, DeviceClass, InFlight, Replication, TrainingMemory
)
from solvers.kernel_files import kernels
from solvers.model.split import Family
from solvers.problem.pins import Pins
from solvers.samples import read_sample
from solvers.solve import solve

training, _ = read_sample("gpt2_xl_layer_training")
graph, own = read_sample("bert_base_operator_inference")
wide, _ = read_sample("inception_v3_operator_inference")
four, types = Deployment(4, 1), Deployment.of_classes((DeviceClass("a", 2, 1.0), DeviceClass("b", 2, 0.5)), 1)
memory = replace(four, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 8))
for asked, on, options in (
    (graph, own, {}),
    (graph, types, {}),
    (graph, four, {"method": "ip", "family": Family.CONVEX}),
    (graph, types, {"family": Family.FREE}),
    (graph, four, {"family": Family.FREE, "pins": Pins(((graph.nodes[0].id, 1),))}),
    (graph, replace(four, communication=Communication.FULL_DUPLEX), {}),
    (graph, replace(types, communication=Communication.OVERLAPPED), {}),
    (graph, replace(four, communication=Communication.OVERLAPPED), {"family": Family.FREE}),
    (graph, replace(four, communication=Communication.FULL_DUPLEX), {"family": Family.CONVEX}),
    (wide, replace(four, communication=Communication.OVERLAPPED), {"method": "dp"}),
    (graph, replace(four, replication=Replication(2, 1e6)), {}),
    (graph, four, {"pins": Pins(((graph.nodes[0].id, 1),))}),
    (graph, replace(four, accelerators_per_server=2, server_link_speed=4.0), {}),
    (graph, four, {"objective": Objective.LATENCY}),
    (graph, replace(four, max_subgraphs=2), {"objective": Objective.LATENCY}),
    (graph, types, {"objective": Objective.LATENCY}),
    (graph, four, {"objective": Objective.LATENCY, "method": "greedy_latency"}),
    (graph, four, {"method": "local_search"}),
    (graph, four, {"method": "linearised"}),
    (graph, four, {"method": "pipedream"}),
    (training, four, {"objective": Objective.GPIPE}),
    (training, memory, {}),
    (training, four, {"family": Family.FREE}),
):
    solve(asked, on, time_limit_s=1.0, **options)
missed = sorted(k.py_func.__qualname__ for k in kernels() if k.stats.cache_misses)
assert not missed, missed
"""

PACKAGES = ("explorer", "solvers", "sample_graphs")
SETUPTOOLS = 77
"""The oldest that reads pyproject.toml, which says the same."""


@contextmanager
def once(folder: Path) -> Iterator[bool]:
    """Whether a folder is to be filled by this process of the tests; the others wait until it is."""
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not folder.exists()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder of all processes of this run of the tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@pytest.fixture(scope="module")
def wheel(shared: Path) -> Path:
    """Build the wheel from a copy: a folder `build` in the checkout would lend it the data of an earlier one."""
    folder = shared / "wheel"
    with once(folder) as is_first:
        if is_first:
            build_in(folder)
    (built,) = folder.glob("*.whl")
    return built


def build_in(folder: Path) -> None:
    if int(version("setuptools").partition(".")[0]) < SETUPTOOLS:
        pytest.fail(f"setuptools is older than {SETUPTOOLS}, so no wheel can be built; run `make install`")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(source))


@pytest.fixture(scope="module")
def programs(wheel: Path, shared: Path) -> Path:
    """Install it, beside the libraries of this environment; the folder of its programs.

    The environment's own packages are named by their folder alone, so its links, as to a checkout, do not count.
    """
    folder = shared / "installed"
    with once(folder) as is_first:
        if is_first:
            venv.create(folder, symlinks=True)
            (packages,) = (folder / "lib").glob("python*/site-packages")
            (packages / "libraries.pth").write_text("\n".join(p for p in sys.path if Path(p).name == "site-packages"))
            pip("--python", str(folder / "bin" / "python"), "install", str(wheel))
    return folder / "bin"


def pip(*arguments: str) -> None:
    """Run pip, which asks no index for anything; with a PYTHONPATH the checkout would count as installed."""
    options = ("--quiet", "--disable-pip-version-check")
    done = subprocess.run(  # noqa: S603 -- the tests' own arguments
        [sys.executable, "-m", "pip", *options, *arguments, "--no-deps", "--no-index"],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr


def cache(programs: Path) -> Path:
    """The folder of what the installed programs compile."""
    return programs.parent / "compiled"


def compilation(programs: Path) -> dict[str, str]:
    """Variables that have all compiled there, as little optimised as numba can keep: what is compiled is the same."""
    return {"NUMBA_CACHE_DIR": str(cache(programs)), "NUMBA_OPT": "1"}


def begun(command: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Begin an installed program in an empty place, with variables set."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = command.parents[1] / "elsewhere"
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(  # noqa: S603 -- the tests' own arguments
        [command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**others, **compilation(command.parent), **environment},
    )


def run(command: Path, *arguments: str) -> str:
    """Run an installed program; what it prints."""
    process = begun(command, *arguments)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def code_of(command: Path, *arguments: str, **environment: str) -> int:
    """Run an installed program, with variables set; its exit code."""
    process = begun(command, *arguments, **environment)
    process.communicate()
    return process.returncode


@pytest.fixture(scope="module")
def compiled(programs: Path) -> Path:
    """The programs after two of them were told to compile everything, side by side, where nothing was compiled."""
    with once(programs.parent / "told to compile") as is_first:
        both = [begun(programs / "placement", "warm-up") for _ in range(2 if is_first else 0)]
        for process in both:
            out, err = process.communicate()
            assert process.returncode == 0, err
            assert json.loads(out)["kernels"] > 50
            assert re.search(r"compiling, 1 of \d+", err)
        (programs.parent / "told to compile").touch()
    return programs


def test_the_wheel_holds_every_file_of_its_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.partition("/")[0] in PACKAGES}
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {Path(name).suffix for name in files} >= {".py", ".js", ".css", ".json", ".ttf"}
    assert held == files


def test_nothing_comes_from_the_checkout(programs: Path) -> None:
    code = "import explorer, json, solvers, sample_graphs, sys; print(json.dumps([sys.path, *{paths}]))"
    code = code.format(paths="[explorer.__file__, solvers.__file__, *sample_graphs.__path__]")
    path, *found = json.loads(run(programs / "python", "-c", code))
    assert not {str(ROOT), ""} & set(path[1:])
    assert all(Path(name).is_relative_to(programs.parent) for name in found)


@pytest.mark.slow
def test_nothing_is_left_to_compile_for_any_method(compiled: Path) -> None:
    run(compiled / "python", "-c", EXERCISE)


@pytest.mark.slow
def test_what_is_compiled_is_known_until_a_file_is_gone(compiled: Path, tmp_path: Path) -> None:
    ask = ("-c", "from solvers.compilation import is_compiled; raise SystemExit(is_compiled())")
    folder = cache(compiled)
    assert code_of(compiled / "python", *ask) == 1
    assert code_of(compiled / "python", *ask, NUMBA_CPU_NAME="generic") == 0
    assert code_of(compiled / "python", *ask, NUMBA_CACHE_DIR=str(tmp_path)) == 0
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    record = copy / next(folder.glob("*.json")).name
    record.write_text(record.read_text().replace(str(folder), str(copy)))
    assert code_of(compiled / "python", *ask, NUMBA_CACHE_DIR=str(copy)) == 1
    next(copy.glob("*/*.nbi")).unlink()
    assert code_of(compiled / "python", *ask, NUMBA_CACHE_DIR=str(copy)) == 0


@pytest.mark.slow
def test_it_lists_the_samples_and_solves_one(compiled: Path) -> None:
    names = {sample["name"] for sample in json.loads(run(compiled / "placement", "samples"))}
    assert names == {path.stem for path in (ROOT / "sample_graphs").glob("*.json")} - {"index"}
    run(compiled / "placement", "samples", "teaching_chain", "--output", "chain.json")
    answer = json.loads(run(compiled / "placement", "solve", "chain.json"))
    assert answer["status"] == "OPTIMAL"
    assert "T4" in run(compiled / "placement", "devices")


@pytest.mark.slow
@pytest.mark.browser
def test_it_opens_a_page_with_a_plan(compiled: Path, chromium_page: "Page", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name, value in compilation(compiled).items():
        monkeypatch.setenv(name, value)
    port = free_port()
    arguments = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(arguments, port, python=compiled / "python", cwd=compiled) as address:
        chromium_page.goto(address)
        chromium_page.get_by_test_id("stMetric").first.wait_for(timeout=3 * BUSY_MS)
        picture = Picture(chromium_page, None)
        picture.wait_for("p.bars > 0")
        chromium_page.goto("about:blank")  # a page that outlives its server complains in its console
