"""Small ONNX models for tests and trials, made with onnx.helper: one of each kind of thing that is imported."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Shape = Sequence[int | str | None]


def floats(name: str, *shape: int) -> onnx.TensorProto:
    """Return a weight of ones."""
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def whole(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def tensor(name: str, shape: Shape | None, elem_type: int = F) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, elem_type, shape)


def op(op_type: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Return an operator; names of inputs and outputs are divided by spaces, "_" is one that is left out."""
    named = [["" if name == "_" else name for name in names.split()] for names in (inputs, outputs)]
    return helper.make_node(op_type, *named, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] | None = None,
    *,
    opset: int = 18,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a model; its output is the first one of the last operator where none is named."""
    last = outputs or [onnx.ValueInfoProto(name=nodes[-1].output[0])]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(last), list(weights))
    opsets = [helper.make_opsetid(domain, version) for domain, version in (("", opset), ("com.microsoft", 1), ("f", 1))]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def perceptrons(layers: int = 4, width: int = 300, *, batch: int | str = "batch") -> onnx.ModelProto:
    """Return layers of a product, a bias and a Relu, named as torch names them."""
    nodes, weights, x = [], [], "x"
    for i in range(layers):
        scope = f"/model/layers.{i}/mlp"
        weights += [floats(f"w{i}", width, width), floats(f"b{i}", width)]
        nodes += [
            op("MatMul", f"{x} w{i}", f"p{i}", name=f"{scope}/MatMul"),
            op("Add", f"p{i} b{i}", f"s{i}", name=f"{scope}/Add"),
            op("Relu", f"s{i}", f"y{i}", name=f"{scope}/Relu"),
        ]
        x = f"y{i}"
    return model(nodes, [tensor("x", [batch, width])], weights)


def tied() -> onnx.ModelProto:
    """Return an embedding whose matrix, turned, is that of the output."""
    nodes = [
        op("Gather", "table ids", "x", name="/embed/Gather"),
        op("MatMul", "x w", "y", name="/layers.0/MatMul"),
        op("Relu", "y", "z", name="/layers.0/Relu"),
        op("Transpose", "table", "turned", name="/head/Transpose", perm=[1, 0]),
        op("MatMul", "z turned", "logits", name="/head/MatMul"),
    ]
    return model(nodes, [tensor("ids", ["batch", 16], I64)], [floats("table", 2000, 64), floats("w", 64, 64)])


def reshaped() -> onnx.ModelProto:
    """Return a flattening of which the sizes are computed from those of its input."""
    nodes = [
        op("Shape", "x", "shape"),
        op("Gather", "shape zero", "first", axis=0),
        op("Unsqueeze", "first zero_axis", "rows"),
        op("Concat", "rows minus", "target", axis=0),
        op("Reshape", "x target", "flat"),
        op("MatMul", "flat w", "y"),
    ]
    weights = [numpy_helper.from_array(np.array(0, np.int64), "zero"), whole("zero_axis", 0), whole("minus", -1)]
    return model(nodes, [tensor("x", ["batch", 4, 5])], [*weights, floats("w", 20, 7)])


def with_function(depth: int = 1, calls: int = 1) -> onnx.ModelProto:
    """Return a model of functions that call the next one several times, and the last of which multiplies."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = []
    for i in range(depth):
        body, x = [], "x"
        for j in range(calls):
            last = "y" if j == calls - 1 else f"t{j}"
            body.append(op("MatMul", f"{x} w", last) if i == depth - 1 else op(f"F{i + 1}", f"{x} w", last, domain="f"))
            x = last
        functions.append(helper.make_function("f", f"F{i}", ["x", "w"], ["y"], body, imports))
    node = op("F0", "x w", "y", domain="f")
    return model([node], [tensor("x", [2, 3])], [floats("w", 3, 3)], functions=functions)


def branches(width: int = 8) -> onnx.ModelProto:
    """Return an If on data: one branch multiplies, the other adds."""
    then = helper.make_graph([op("MatMul", "x w", "a")], "then", [], [tensor("a", [2, width])])
    other = helper.make_graph([op("Add", "x b", "c")], "else", [], [tensor("c", [2, width])], [floats("b", width)])
    nodes = [op("If", "which", "y", then_branch=then, else_branch=other, name="choice")]
    return model(nodes, [tensor("x", [2, width]), tensor("which", [], BOOL)], [floats("w", width, width)])


def loop(trips: int | None = 5, width: int = 8) -> onnx.ModelProto:
    """Return a Loop that multiplies a state by a matrix, and hands out each; None leaves the trips to data."""
    body = helper.make_graph(
        [op("Identity", "go", "on"), op("MatMul", "h w", "next"), op("Identity", "next", "seen")],
        "body",
        [tensor("i", [], I64), tensor("go", [], BOOL), tensor("h", [2, width])],
        [tensor("on", [], BOOL), tensor("next", [2, width]), tensor("seen", [2, width])],
    )
    inputs = [tensor("x", [2, width])] + ([tensor("trips", [], I64)] if trips is None else [])
    weights = [floats("w", width, width), numpy_helper.from_array(np.array(True), "go_on")]
    if trips is not None:
        weights.append(numpy_helper.from_array(np.array(trips, np.int64), "trips"))
    return model([op("Loop", "trips go_on x", "last all", body=body, name="loop")], inputs, weights)


def scan(width: int = 8) -> onnx.ModelProto:
    """Return a Scan over ten rows."""
    body = helper.make_graph(
        [op("MatMul", "row w", "out"), op("Add", "h out", "next")],
        "body",
        [tensor("h", [1, width]), tensor("row", [1, width])],
        [tensor("next", [1, width]), tensor("out", [1, width])],
    )
    nodes = [op("Scan", "start rows", "last outs", body=body, num_scan_inputs=1)]
    return model(nodes, [tensor("start", [1, width]), tensor("rows", [10, 1, width])], [floats("w", width, width)])


def convolutions() -> onnx.ModelProto:
    """Return a convolution by groups, a norm, one that is turned around, and a sum with an earlier tensor."""
    nodes = [
        op("Conv", "x k", "a", pads=[1, 1, 1, 1], group=2, name="/down/Conv"),
        op("BatchNormalization", "a scale shift mean var", "b", name="/down/BatchNormalization"),
        op("Relu", "b", "c", name="/down/Relu"),
        op("MaxPool", "c", "d", kernel_shape=[2, 2], strides=[2, 2], name="/mid/MaxPool"),
        op("ConvTranspose", "d t", "e", strides=[2, 2], name="/up/ConvTranspose"),
        op("Add", "e c", "y", name="/up/Add"),
    ]
    statistics = [floats(name, 8) for name in ("scale", "shift", "mean", "var")]
    return model(nodes, [tensor("x", [2, 4, 8, 8])], [floats("k", 8, 2, 3, 3), floats("t", 8, 8, 2, 2), *statistics])


def quantised() -> onnx.ModelProto:
    """Return a product of integers, as dynamic quantisation writes it."""
    w = numpy_helper.from_array(np.ones((32, 16), np.int8), "w")
    nodes = [
        op("DynamicQuantizeLinear", "x", "q scale zero"),
        op("MatMulInteger", "q w zero", "sums"),
        op("Cast", "sums", "floats", to=F),
        op("Mul", "floats scale", "y"),
    ]
    return model(nodes, [tensor("x", [4, 32])], [w])


def recurrent() -> onnx.ModelProto:
    nodes = [op("LSTM", "x w r", "y h c", hidden_size=6, direction="bidirectional")]
    return model(nodes, [tensor("x", [7, 3, 5])], [floats("w", 2, 24, 5), floats("r", 2, 24, 6)])


def parts(*, batch: int | str = "batch") -> onnx.ModelProto:
    """Return a product of 24 columns that is split into 8 and 16, of which the second is read twice."""
    nodes = [
        op("MatMul", "x w", "p", name="p"),
        op("Split", "p sizes", "a b", axis=1, name="split"),
        op("MatMul", "a wa", "c", name="c"),
        op("MatMul", "b wb", "d", name="d"),
        op("MatMul", "b wc", "e", name="e"),
        op("Sum", "c d e", "y", name="y"),
    ]
    weights = [floats("w", 12, 24), whole("sizes", 8, 16), floats("wa", 8, 4), floats("wb", 16, 4), floats("wc", 16, 4)]
    return model(nodes, [tensor("x", [batch, 12])], weights)


def sequences(width: int = 8) -> onnx.ModelProto:
    """Return a tensor of six rows that is split into three, each of which is multiplied, and joined again."""
    body = helper.make_graph(
        [
            op("Identity", "go", "on"),
            op("SequenceAt", "parts i", "part"),
            op("MatMul", "part w", "p"),
            op("SequenceInsert", "done p", "longer"),
        ],
        "body",
        [tensor("i", [], I64), tensor("go", [], BOOL), helper.make_tensor_sequence_value_info("done", F, None)],
        [tensor("on", [], BOOL), helper.make_tensor_sequence_value_info("longer", F, None)],
    )
    nodes = [
        op("SplitToSequence", "x two", "parts", axis=0, name="split"),
        op("SequenceEmpty", "", "empty"),
        op("SequenceLength", "parts", "trips"),
        op("Loop", "trips _ empty", "all", body=body, name="loop"),
        op("ConcatFromSequence", "all", "c", axis=0, name="join"),
        op("Optional", "c", "o"),
        op("OptionalGetElement", "o", "there"),
        op("MatMul", "there v", "y", name="product"),
    ]
    weights = [floats("w", width, width), floats("v", width, 5), numpy_helper.from_array(np.array(2, np.int64), "two")]
    return model(nodes, [tensor("x", [6, width])], weights)


KINDS = {
    "sequences": sequences,
    "parts": parts,
    "perceptrons": perceptrons,
    "tied": tied,
    "reshaped": reshaped,
    "function": lambda: with_function(3, 2),
    "branches": branches,
    "loop": loop,
    "scan": scan,
    "convolutions": convolutions,
    "quantised": quantised,
    "recurrent": recurrent,
}
"""Every kind of model by a name."""
