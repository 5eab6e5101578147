"""The benchmark of predicted and measured times, run quickly where PyTorch is; no time is asserted.

IMPORT_TORCH_PYTHON names a Python that has torch and transformers; it needs this package's dependencies, too.
"""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction_table import table
from tests.support.importing import python_with_transformers
from tests.support.root import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.torch]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("prediction") / "results.json"
    _require_packages()
    arguments = ["--quick", "--models", "uneven", "--neighbours", "1", "--output", str(path)]
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), "-W", "ignore", "-m", "benchmarks.prediction", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@cache
def _require_packages() -> None:
    names = "highspy, networkx, numba, numpy, ortools, pulp"
    done = subprocess.run(  # noqa: S603
        [python_with_transformers(), "-c", f"import {names}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the Python of IMPORT_TORCH_PYTHON lacks a package: {done.stderr.strip().splitlines()[-1]}")


def test_every_plan_runs_and_gives_what_the_whole_model_gives(document: dict[str, Any]) -> None:
    results = document["results"]
    assert [one["schedule"] for one in results] == ["inference"] * 5 + ["gpipe"] * 5 + ["1f1b"] * 5
    for start in (0, 5, 10):
        assert len({one["plan"] for one in results[start : start + 5]}) == 5
    for one in results:
        assert one["output_difference"] < 1e-5
        if one["schedule"] == "inference":
            assert one["gradient_difference"] is None
        else:
            assert one["gradient_difference"] < 1e-4


def test_predictions_are_those_of_the_evaluator(document: dict[str, Any]) -> None:
    """Max-load, or the GPipe time, of the stages' compute and transfers.

    By the times that plans were made of, no other split is better than the first.
    """
    for one in document["results"]:
        stages = [one[f"predicted_{part}_ms"] for part in ("forward", "backward", "transfer")]
        loads = [sum(parts) for parts in zip(*stages, strict=True)]
        if one["schedule"] != "gpipe":
            assert one["predicted_period_ms"] == pytest.approx(max(loads))
        assert one["predicted_period_ms"] <= one["predicted_makespan_ms"] <= one["micro_batches"] * sum(loads) * 1.001
    for start in (0, 5, 10):
        best, *others = (one["planned_period_ms"] for one in document["results"][start : start + 5])
        assert all(best <= other * (1 + 1e-6) for other in others)


def test_the_table_has_a_row_for_each_plan(document: dict[str, Any]) -> None:
    lines = list(table(document))
    for one in document["results"]:
        (row,) = [line for line in lines if line.startswith(f"| uneven | {one['schedule']} | {one['plan']} |")]
        assert f"| {one['predicted_period_ms']:.1f} |" in row


def test_the_page_says_how_it_was_made() -> None:
    page = (ROOT / "docs" / "explanation" / "prediction.md").read_text(encoding="utf-8")
    assert "`python -m benchmarks.prediction`" in page
    assert Path(ROOT / "benchmarks" / "prediction.py").is_file()
