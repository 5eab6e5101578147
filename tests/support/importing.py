"""Imports for tests: the usual devices, and a Python that has torch and transformers."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from solvers.hardware.catalogue import catalogue
from solvers.importers.hugging_face.config import import_config
from solvers.importers.imported import Imported
from solvers.importers.workload import Devices, Workload
from tests.support.root import ROOT


@cache
def usual_devices() -> Devices:
    known = catalogue()
    return Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"))


def import_fields(config: Mapping[str, Any], **asked: Any) -> Imported:
    """Import a config for a workload with these choices."""
    return import_config(config, Workload(**asked), usual_devices(), "a test")


@cache
def python_with_transformers() -> str:
    """Return a Python that has torch and transformers; skips the test where there is none."""
    named = os.environ.get("IMPORT_TORCH_PYTHON")
    if named:
        return named
    if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
        return sys.executable
    pytest.skip(
        "torch and transformers 5 are not installed here; to run this test name a Python that has them in "
        "IMPORT_TORCH_PYTHON"
    )


def ask_transformers(questions: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Return what transformers and torch's flop counter say; see tests/support/transformers_figures.py."""
    script = ROOT / "tests" / "support" / "transformers_figures.py"
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), str(script)],
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[dict[str, float]] = json.loads(done.stdout)
    return answers
