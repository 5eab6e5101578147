"""What tests in both folders share: the paper's workloads, settings of hypothesis, and Ctrl-C."""

import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Machines of the continuous integration are slow at times; a slow example is no failure.
settings.register_profile("placement", deadline=None, print_blob=True)
# For a long search: pytest --hypothesis-profile=thorough
settings.register_profile("thorough", settings.get_profile("placement"), max_examples=2000)
settings.load_profile("placement")

# A script that starts tests with `&` has them and all programs they start ignore Ctrl-C, which some of them send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def paper_workloads() -> Path:
    """Folder of the paper's released workloads, beside the repository in `shared/`; skips where it is absent."""
    folder = Path(__file__).resolve().parents[1].parent / "shared" / "paper_workloads"
    if not (folder / "known_results.json").is_file():
        pytest.skip(f"the paper's workloads are not at {folder}; put them there to run this test")
    return folder
