"""The workloads of the paper's release in a folder, whichever way the files are named.

The release (github.com/msr-fiddle/dnn-partitioning)      the same files, renamed
  throughput-inputs/LayerGraphs/bert24_training.json        throughput/bert24_layer_training.json
  throughput-inputs/OperatorGraphs/bert_l-3_inference.json  throughput/bert_l-3_operator_inference.json
  latency-inputs/...                                        latency/...
  human-experts/bert24_training_expert.json                 expert_splits/bert24_layer_training.json

Human experts split layer graphs only. A training graph without a split of its own has the one for inference: backward
nodes follow their colocation class.

Units: times are in ms, but in the layer graphs for throughput the cost of a transfer is in seconds, so that transfers
are 1000 times too cheap. It shows in the bandwidth that sizes and costs imply: 2,147 GB/s instead of 2.147 GB/s.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from solvers.model.costs import Objective
from solvers.model.errors import GraphError
from solvers.model.graph import DnnGraph

FOLDERS = (
    ("throughput-inputs/LayerGraphs", "layer", Objective.THROUGHPUT),
    ("throughput-inputs/OperatorGraphs", "operator", Objective.THROUGHPUT),
    ("latency-inputs/LayerGraphs", "layer", Objective.LATENCY),
    ("latency-inputs/OperatorGraphs", "operator", Objective.LATENCY),
    ("throughput", None, Objective.THROUGHPUT),
    ("latency", None, Objective.LATENCY),
)
"""Folder, granularity where the folder says it, and what its graphs are for."""

FASTEST_LINK_BYTES_PER_MS = 5e8
"""500 GB/s: no link between an accelerator and host memory is that fast."""

CORRECTION = 1e-3
"""Bandwidth of a graph in correct units, as a multiple of the published one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A graph file of the release, and the expert's split of it where there is one."""

    model: str
    granularity: str
    mode: str
    objective: Objective
    graph: Path
    expert: Path | None

    @property
    def name(self) -> str:
        """Such as bert24_layer_training."""
        return f"{self.model}_{self.granularity}_{self.mode}"


def find_workloads(folder: Path) -> tuple[Workload, ...]:
    """Return the workloads in a folder, those for throughput first; GraphError if there are none."""
    found: dict[tuple[Objective, str], Workload] = {}
    for place, granularity, objective in FOLDERS:
        for path in sorted((folder / place).glob("*.json")):
            workload = _workload(folder, path, granularity, objective)
            if workload is not None:
                found.setdefault((objective, workload.name), workload)
    if not found:
        raise GraphError(
            f'"{folder}" holds none of the paper\'s workloads; give the folder of its release, '
            "with throughput-inputs/LayerGraphs/*.json or throughput/*.json in it."
        )
    return tuple(sorted(found.values(), key=lambda workload: (workload.objective is Objective.LATENCY, workload.name)))


def _workload(folder: Path, path: Path, granularity: str | None, objective: Objective) -> Workload | None:
    """Read a file's name; None if it is not that of a workload."""
    named = "" if granularity else "_(?P<granularity>layer|operator)"
    match = re.fullmatch(rf"(?P<model>.+?){named}_(?P<mode>inference|training)", path.stem.lower())
    if match is None:
        return None
    granularity = granularity or match["granularity"]
    expert = _expert(folder, match["model"], match["mode"]) if granularity == "layer" else None
    return Workload(match["model"], granularity, match["mode"], objective, path, expert)


def _expert(folder: Path, model: str, mode: str) -> Path | None:
    modes = (mode,) if mode == "inference" else (mode, "inference")
    candidates = [
        path
        for m in modes
        for path in (
            folder / "human-experts" / f"{model}_{m}_expert.json",
            folder / "expert_splits" / f"{model}_layer_{m}.json",
        )
    ]
    return next((path for path in candidates if path.is_file()), None)


def implied_bandwidth(graph: DnnGraph) -> float | None:
    """Return the median of bytes / transfer time over the tensors in bytes/ms; None where no tensor has both."""
    ratios = [
        tensor.size_bytes / tensor.transfer_ms
        for tensor in graph.tensors
        if tensor.size_bytes is not None and tensor.size_bytes > 0 and tensor.transfer_ms > 0
    ]
    return median(ratios) if ratios else None


def corrected(graph: DnnGraph) -> DnnGraph | None:
    """Return the graph with its transfers in ms where the file has them in seconds; None where it has not."""
    bandwidth = implied_bandwidth(graph)
    if bandwidth is None or bandwidth <= FASTEST_LINK_BYTES_PER_MS:
        return None
    return graph.with_bandwidth_factor(CORRECTION)
