"""Measure the operators of an ONNX file with ONNX Runtime, and put the times into a graph that was imported from it.

The runtime's own profiler times every operator in place, in passes through the whole file, in microseconds. Graphs are
not optimised: fused operators would be none of the file's.
"""

import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from solvers.importers.layers import depths
from solvers.importers.measured import NOTHING, Spread, Timing, processor, with_times
from solvers.importers.onnx.importer import read_network
from solvers.importers.onnx.layers import printable
from solvers.importers.onnx.model_file import read_model
from solvers.importers.onnx.tensors import Value
from solvers.importers.workload import Devices, Workload
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, TimesKind, TimesOrigin
from solvers.quantities import listed

PREFIX = "operator "
"""How operators are called while they run, with their number: names of the file may be missing or the same."""


@dataclass(frozen=True, slots=True)
class RuntimeProfile:
    """What to measure, and how: `workload` has the sizes of open dimensions, `into` says where times go.

    `accelerator` is the device's name in the catalogue, empty where it has none.
    """

    workload: Workload
    threads: int = 1
    warm_up: int = 3
    repetitions: int = 20
    into: str = "accelerator"
    accelerator: str = ""


def profile_file(graph: DnnGraph, path: Path, devices: Devices, asked: RuntimeProfile) -> tuple[DnnGraph, str]:
    """Return the graph with times of an ONNX file's operators, measured here, and what they were measured on.

    SourceError where the graph trains, is of another file, or where ONNX Runtime cannot run the file.
    """
    if graph.is_training:
        raise SourceError("ONNX Runtime runs forward passes alone; give a graph of --mode prefill.")
    with path.open("rb") as file:
        found = read_network(read_model(file), asked.workload, devices)
    try:
        model = onnx.load(path)
    except Exception as error:
        raise _cannot_run(path, error) from error
    names = [_name(node) for node in model.graph.node]
    ops = found.network.ops
    wanted = {op.name for op in ops if not op.is_view}
    _refuse([name for name, times in Counter(names).items() if times > 1 and name in wanted])
    number = {name: i for i, name in enumerate(names)}
    for i, node in enumerate(model.graph.node):
        node.name = f"{PREFIX}{i}"
    spreads = _measured(model, found.inputs, path, asked)
    _refuse([name for name in wanted if number.get(name) not in spreads])
    times = [Timing(spreads[number[op.name]] if op.name in wanted else NOTHING) for op in ops]
    measured_on = (
        f"{processor(asked.threads)}, ONNX Runtime {onnxruntime.__version__}, median of {asked.repetitions} passes"
    )
    precision = str(found.workload.number_format)
    origin = TimesOrigin(asked.accelerator, precision, kind=TimesKind.MEASURED, measured_on=measured_on)
    measured = with_times(
        graph,
        ops,
        ([op.layer for op in ops], *depths(found.modules)),
        times,
        into=asked.into,
        origin=origin,
        remedy="make it again with `placement import MODEL.onnx`",
    )
    return measured, measured_on


def _name(node: onnx.NodeProto) -> str:
    """Return what an operator of the file is called in its graph; one with graphs inside has no name of its outputs."""
    has_graph = any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
    return printable(node.name or (not has_graph and next(iter(node.output), "")) or node.op_type)


def _refuse(vague: Sequence[str]) -> None:
    """Refuse a file some of whose operators the runtime does not time by themselves, such as those of functions."""
    if vague:
        raise SourceError(
            f"There are no times of {listed(sorted(vague), 4)} alone: give every operator a name of its own, and write "
            "functions out with `onnx.inliner.inline_local_functions`."
        )


def _measured(
    model: onnx.ModelProto, inputs: Mapping[str, Value], path: Path, asked: RuntimeProfile
) -> Mapping[int, Spread]:
    """Return median and interquartile range of every operator that runs, by its number in the file."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.inter_op_num_threads = asked.threads, 1
        options.log_severity_level = 4  # what goes wrong is said by the exception
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "passes")
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            given = _given(inputs)
            for _ in range(asked.warm_up + asked.repetitions):
                session.run(None, given)
            events = json.loads(Path(session.end_profiling()).read_text())
        except SourceError:
            raise
        except (
            Exception
        ) as error:  # the runtime has many ways to say that it cannot run a file, protobuf to be too large
            raise _cannot_run(path, error) from error
    taken = _taken(events)
    if any(len(times) < asked.warm_up + asked.repetitions for times in taken.values()):
        raise SourceError("ONNX Runtime kept no record of some passes; give fewer --repetitions.")
    return {i: _spread(times[asked.warm_up :]) for i, times in taken.items()}


def _taken(events: Sequence[Mapping[str, Any]]) -> Mapping[int, Sequence[float]]:
    """Return the times of the calls of each operator in ms, in the order of the passes."""
    taken: dict[int, list[float]] = {}
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") == "Node" and name.startswith(PREFIX) and name.endswith("_kernel_time"):
            number = int(name.removeprefix(PREFIX).removesuffix("_kernel_time"))
            taken.setdefault(number, []).append(float(event["dur"]) / 1e3)
    return taken


def _spread(times: Sequence[float]) -> Spread:
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Spread(median, high - low)


def _given(inputs: Mapping[str, Value]) -> dict[str, Any]:
    """Return random numbers for inputs in floating point, and zeros for tokens and masks."""
    source = np.random.default_rng(0)
    given: dict[str, Any] = {}
    for name, value in inputs.items():
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.elem_type)
        if value.shape is None or kind == np.dtype(object):
            raise SourceError(f"The input {printable(name)!r} of the file is no tensor of numbers with a known shape.")
        made = np.zeros(value.shape) if kind.kind in "iub" else source.standard_normal(value.shape)
        given[name] = made.astype(kind)
    return given


def _cannot_run(path: Path, error: Exception) -> SourceError:
    reason = str(error).partition("\n")[0].strip().rstrip(".")[:200]
    return SourceError(
        f"ONNX Runtime {onnxruntime.__version__} cannot run {str(path)[:80]!r}: {type(error).__name__}: {reason}."
    )
