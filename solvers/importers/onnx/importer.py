"""Import an ONNX file: its graph as a network of operators, sizes by shape inference, weights by their sizes alone.

The file is data: nothing of it is run, no path in it is followed, and external weights are not looked for.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

import onnx

from solvers.importers.imported import Imported, imported
from solvers.importers.layers import depths
from solvers.importers.limits import MAX_OPSET
from solvers.importers.network import Network
from solvers.importers.onnx.interpreter import Interpreter, Scope
from solvers.importers.onnx.model_file import Dimensions, read_model, shown
from solvers.importers.onnx.networks import network_of
from solvers.importers.onnx.shapes import ShapeReader
from solvers.importers.onnx.tensors import T, Value, checked_text
from solvers.importers.workload import ALL, Devices, Mode, NumberFormat, Workload
from solvers.model.errors import SourceError
from solvers.quantities import count, counted, listed

STORED: dict[int, NumberFormat] = {
    T.FLOAT: NumberFormat.FP32,
    T.DOUBLE: NumberFormat.FP32,
    T.FLOAT16: NumberFormat.FP16,
    T.BFLOAT16: NumberFormat.BF16,
}


def import_onnx(file: BinaryIO, workload: Workload, devices: Devices, source: str, title: str = "") -> Imported:
    """Return the graph of an ONNX file; SourceError, in one sentence, where it cannot be imported.

    `workload.dims` has sizes for the dimensions that the file leaves open, by their names, or as tensor.axis where they
    have none; "*" is the size of all that are given none.
    """
    if workload.mode is Mode.DECODE:
        raise SourceError("An ONNX file is one pass as it was exported, so it has no --mode decode; leave it out.")
    if workload.sequence is not None:
        raise SourceError("--sequence says nothing here; give the file's own dimensions, such as --dim sequence=128.")
    found = read_network(read_model(file), workload, devices, title)
    return imported(found.network, found.workload, devices, source, found.said, depths(found.modules))


@dataclass(frozen=True, slots=True)
class FoundNetwork:
    """The network of an ONNX file, the modules of its operators, its inputs, and what is to be said.

    `workload` has the format of the numbers, where none was asked for.
    """

    network: Network
    modules: tuple[str, ...]
    inputs: Mapping[str, Value]
    workload: Workload
    said: tuple[str, ...]


def read_network(model: onnx.ModelProto, workload: Workload, devices: Devices, title: str = "") -> FoundNetwork:
    """Return the network of a model; SourceError, in one sentence, where there is none."""
    said: list[str] = []
    if workload.number_format is None:
        number_format = _stored(model.graph)
        said.append(f"Numbers are in {number_format}, as most weights of the file are; --precision gives another.")
        workload = replace(workload, number_format=number_format)
    dimensions = Dimensions(workload)
    shapes = _shape_reader(model, dimensions)
    interpreter = Interpreter(shapes, devices.number_format(workload.number_format).element_bytes)
    scope: Scope = {}
    interpreter.initializers(model.graph, scope, "")
    inputs: dict[str, Value] = {}
    for info in model.graph.input:
        if info.name not in scope:
            inputs[checked_text(info.name)] = scope[info.name] = shapes.input_of(info)
    dimensions.refuse_missing("The file leaves sizes of its inputs open")
    operators = interpreter.run(model.graph.node, scope, "")
    dimensions.refuse_unused()
    results = [scope[info.name].producer for info in model.graph.output if info.name in scope]
    network, modules = network_of(operators, results, workload, title or "ONNX model")
    if not network.ops:
        raise SourceError("All of the ONNX file is constant, so nothing is left to place; give one of a whole model.")
    if workload.mode is Mode.TRAINING and interpreter.is_quantized:
        raise SourceError("Quantised weights are not trained; export the model in floating point, or leave --mode out.")
    if dimensions.is_batch_used:
        network = replace(network, unit="samples")
    said += _assumed(interpreter, dimensions, network)
    return FoundNetwork(network, modules, inputs, workload, tuple(said))


def _stored(graph: onnx.GraphProto) -> NumberFormat:
    """Return the format of most weights in floating point; fp32 where there are none."""
    elements: Counter[int] = Counter()
    for tensor in graph.initializer:
        if tensor.data_type in STORED:
            size = 1
            for dim in tensor.dims:
                size *= max(dim, 0)
            elements[tensor.data_type] += size
    return STORED[elements.most_common(1)[0][0]] if elements else NumberFormat.FP32


def _shape_reader(model: onnx.ModelProto, dimensions: Dimensions) -> ShapeReader:
    opsets: dict[str, int] = {}
    for opset in model.opset_import:
        if not 0 < opset.version <= MAX_OPSET:
            raise SourceError(
                f"The ONNX file has opset version {opset.version}; give one from 1 to {count(MAX_OPSET)}."
            )
        opsets["" if opset.domain == "ai.onnx" else checked_text(opset.domain)] = opset.version
    declared = {info.name: info.type for info in (*model.graph.value_info, *model.graph.output, *model.graph.input)}
    return ShapeReader(opsets, dimensions, declared)


def _assumed(interpreter: Interpreter, dimensions: Dimensions, network: Network) -> list[str]:
    said = []
    shapes = interpreter.shapes
    sizes = [f"{shown(name)} = {count(size)}" for name, size in dimensions.used.items() if name != ALL]
    if sizes:
        said.append(f"Open dimensions of the file have these sizes: {listed(sizes, 20)}.")
    if dimensions.guessed:
        size = dimensions.given[ALL]
        said.append(
            f"{counted(len(dimensions.guessed), 'further open dimension')} of the file, or what only its data tells, "
            f"have size {count(size)}: {listed([shown(name) for name in dimensions.guessed])}."
        )
    if shapes.unknown:
        said.append(
            f"{counted(sum(shapes.unknown.values()), 'operator')} of unknown types cost the bytes they read "
            f"and write, and no flops: {_kinds(shapes.unknown)}."
        )
    if shapes.assumed:
        said.append(
            f"The shapes of what {counted(sum(shapes.assumed.values()), 'operator')} give cannot be derived from the "
            f"file; they are taken to be those of their first inputs, and what follows is counted by them: "
            f"{_kinds(shapes.assumed)}."
        )
    if shapes.guessed:
        said.append(
            "Where data decides on parts of sequences, or on places in them, equal parts or the largest tensor are "
            f"taken, by {counted(sum(shapes.guessed.values()), 'operator')}: {_kinds(shapes.guessed)}."
        )
    if interpreter.uncounted:
        said.append(
            f"The flops of {counted(sum(interpreter.uncounted.values()), 'operator')} are not known, since the shapes "
            f"of what they read do not fit; they cost their bytes alone: {_kinds(interpreter.uncounted)}."
        )
    if interpreter.open_loops:
        options = ", ".join(f"--dim {shown(name)}=SIZE" for name in list(interpreter.open_loops)[:4])
        said.append(
            f"Taken to run once: {counted(sum(interpreter.open_loops.values()), 'loop')} with a number of trips that "
            f"data decides; set it with {options}."
        )
    if interpreter.num_graphs:
        said.append(
            f"The graphs inside {counted(interpreter.num_graphs, 'If, Loop or Scan operator')} are one operator "
            "each, with all their weights: of two branches the costlier one runs, unless sizes decide."
        )
    if interpreter.num_impossible:
        said.append(
            f"Branches that cannot run with these sizes are left out, {count(interpreter.num_impossible)} in all."
        )
    if interpreter.num_folded:
        said.append(
            f"Computed once and at no cost: {counted(interpreter.num_folded, 'operator')} on constants and sizes."
        )
    if interpreter.num_views:
        said.append(f"Left out: {counted(interpreter.num_views, 'operator')} that only rename or reshape a tensor.")
    said.append(
        "Weights are the file's initialisers with more than one element, statistics of normalisations and tables that "
        "were stored among them unless the file notes what they are; constants written into the graph count from 65 "
        "elements."
    )
    if interpreter.num_external:
        said.append(
            f"The values of {counted(interpreter.num_external, 'weight')} are in other files, which are not read."
        )
    if interpreter.is_quantized:
        said.append(
            "Quantised weights and tensors take the bytes that they have in the file, and products of them run at the "
            "rate of other products."
        )
    return said


def _kinds(found: Mapping[str, int]) -> str:
    ordered = sorted(found.items(), key=lambda item: -item[1])
    return listed([f"{shown(name)} ({count(times)})" for name, times in ordered], 12)
