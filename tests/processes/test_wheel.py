"""What people install: a wheel built from the project works where there is no checkout, and holds all of its data."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.picture import BUSY_MS, Picture
from tests.support.root import ROOT
from tests.support.serving import free_port, served

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGES = ("explorer", "solvers", "sample_graphs")
SETUPTOOLS = 77
"""The oldest that reads pyproject.toml, which says the same."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy: a folder `build` in the checkout would lend it the data of an earlier one."""
    if int(version("setuptools").partition(".")[0]) < SETUPTOOLS:
        pytest.fail(f"setuptools is older than {SETUPTOOLS}, so no wheel can be built; run `make install`")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(source))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install it, beside the libraries of this environment; the folder of its programs.

    The environment's own packages are named by their folder alone, so its links, as to a checkout, do not count.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text("\n".join(p for p in sys.path if Path(p).name == "site-packages"))
    pip("--python", str(folder / "bin" / "python"), "install", str(wheel))
    return folder / "bin"


def pip(*arguments: str) -> None:
    """Run pip, which asks no index for anything."""
    options = ("--quiet", "--disable-pip-version-check")
    done = subprocess.run(  # noqa: S603 -- the tests' own arguments
        [sys.executable, "-m", "pip", *options, *arguments, "--no-deps", "--no-index"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def run(command: Path, *arguments: str) -> str:
    """Run an installed program in an empty place; what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    folder = command.parents[1] / "elsewhere"
    folder.mkdir(exist_ok=True)
    done = subprocess.run(  # noqa: S603 -- the tests' own arguments
        [command, *arguments], capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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


def test_it_lists_the_samples_and_solves_one(programs: Path) -> None:
    names = {sample["name"] for sample in json.loads(run(programs / "placement", "samples"))}
    assert names == {path.stem for path in (ROOT / "sample_graphs").glob("*.json")} - {"index"}
    run(programs / "placement", "samples", "teaching_chain", "--output", "chain.json")
    answer = json.loads(run(programs / "placement", "solve", "chain.json"))
    assert answer["status"] == "OPTIMAL"
    assert "T4" in run(programs / "placement", "devices")


@pytest.mark.browser
def test_it_opens_a_page_with_a_plan(programs: Path, chromium_page: "Page", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    port = free_port()
    arguments = ["-m", "explorer.launch", "--headless", "--port", str(port)]
    with served(arguments, port, python=programs / "python", cwd=programs) as address:
        chromium_page.goto(address)
        chromium_page.get_by_test_id("stMetric").first.wait_for(timeout=3 * BUSY_MS)
        picture = Picture(chromium_page, None)
        picture.wait_for("p.bars > 0")
        chromium_page.goto("about:blank")  # a page that outlives its server complains in its console
