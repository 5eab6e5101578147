"""What tests in both folders share: the paper's workloads, settings of hypothesis, and Ctrl-C."""

import atexit
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from solvers.compilation import compile_first, is_compiled
from tests.support.examples import USUAL
from tests.support.root import ROOT

pytest_plugins = (
    "tests.support.command_line",
    "tests.support.fixtures",
    "tests.support.solver_processes",
    "tests.support.sweeps",
)

# Servers that tests start keep what visitors have in a folder of their own, not in that of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="placement-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

# Machines of the continuous integration are slow at times; a slow example is no failure.
settings.register_profile("placement", max_examples=USUAL, deadline=None, print_blob=True)
# All numbers of examples scale with these: pytest --hypothesis-profile=quick, or =thorough for a long search.
settings.register_profile("quick", settings.get_profile("placement"), max_examples=USUAL // 10)
settings.register_profile("thorough", settings.get_profile("placement"), max_examples=USUAL * 10)
settings.load_profile("placement")

# A script that starts tests with `&` has them and all programs they start ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Compile kernels first, of which a source has changed: tests call some directly, and numba does not notice all."""
    if not hasattr(config, "workerinput") and not is_compiled():  # once, not in every process
        print("Compiling the solvers' kernels, which takes a minute or two ...", file=sys.stderr, flush=True)
        failure = compile_first(None)
        if failure:
            raise pytest.UsageError(failure)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where browser tests are demanded, as in continuous integration, one that waits in vain is run once more.

    So is one whose page Streamlit's own scripts ended ("Bad delta path index"), which `load_again.js` mends for a
    reader: a test that was at work on it waits in vain. The first failure is reported as RERUN. A wrong answer is not
    run again, and neither is anything elsewhere, so that races are found where someone works on them.
    """
    if os.environ.get("REQUIRE_BROWSER_TESTS") == "1":
        again = pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "Locator expected", "Bad delta path index"])
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(again)


@pytest.fixture(scope="session")
def paper_workloads() -> Path:
    """Folder of the paper's released workloads, beside the repository in `shared/`; skips where it is absent."""
    folder = ROOT.parent / "shared" / "paper_workloads"
    if not (folder / "known_results.json").is_file():
        pytest.skip(f"the paper's workloads are not at {folder}; put them there to run this test")
    return folder
