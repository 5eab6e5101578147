"""Sequences of tensors and optional values in ONNX files, and operators whose shapes nobody can derive."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.importers.imported import Imported
from solvers.importers.sources import import_file
from solvers.importers.workload import Level, Mode, Workload
from solvers.model.errors import SourceError
from solvers.model.result import SolveStatus
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.importing import usual_devices

onnx = pytest.importorskip("onnx", reason="these tests need the package onnx, which is an optional extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.support.onnx_models import I64, F, floats, model, op, tensor, whole  # noqa: E402


def imported(made: Any, level: Level = Level.OPERATORS, **asked: Any) -> Imported:
    return import_file(BytesIO(made.SerializeToString()), Workload(level=level, **asked), usual_devices(), "a test")


def said(found: Imported) -> str:
    return " ".join(found.assumptions)


def scalar(name: str, value: int) -> Any:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def is_all_known(found: Imported) -> bool:
    return not any(
        words in said(found) for words in ("cannot be derived", "unknown types", "not known", "data decides")
    )


def bytes_of_last(made: Any, **asked: Any) -> float:
    """Return the bytes that the last operator of a model reads and writes."""
    found = imported(made, **asked)
    assert is_all_known(found), found.assumptions
    return found.graph.nodes[-1].traffic_bytes or 0.0


def elements_by_running(made: Any, **inputs: Any) -> int:
    """Return the elements of a model's output, by onnx's own evaluator."""
    (result,) = ReferenceEvaluator(made).run(None, inputs)
    return int(np.asarray(result).size)


def joined(**attributes: Any) -> Any:
    """Return two products that go through a sequence into one tensor, as torch's exporter writes a stack or cat."""
    nodes = [
        op("MatMul", "x w", "a", name="a"),
        op("MatMul", "x v", "b", name="b"),
        op("SequenceConstruct", "a b", "s", name="s"),
        op("ConcatFromSequence", "s", "c", name="c", **attributes),
        op("MatMul", "c u", "y", name="y"),
    ]
    width = 5 if attributes.get("new_axis") else 10
    return model(nodes, [tensor("x", ["batch", 4])], [floats("w", 4, 5), floats("v", 4, 5), floats("u", width, 3)])


@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
@pytest.mark.parametrize(("attributes", "rows", "width"), [({"axis": -1}, 6, 10), ({"axis": 0, "new_axis": 1}, 12, 5)])
def test_tensors_are_followed_through_a_sequence(attributes: dict[str, int], rows: int, width: int, mode: Mode) -> None:
    found = imported(joined(**attributes), batch=6, mode=mode)
    assert found.totals.forward_flops == 2 * 2 * 6 * 4 * 5 + 2 * rows * width * 3
    assert found.totals.parameters == 2 * 4 * 5 + width * 3
    assert is_all_known(found), found.assumptions
    traffic = {node.name: node.traffic_bytes for node in found.graph.nodes}
    assert traffic["s"] == traffic["c"] == 4 * 2 * 2 * 6 * 5, "both tensors are read and written"
    best = solve(found.graph, found.deployment, method="dp", time_limit_s=60)
    assert best.status is SolveStatus.OPTIMAL


@st.composite
def splits(draw: st.DrawFn) -> tuple[Any, tuple[int, ...]]:
    """Draw a tensor that is split, of whose parts one is taken, or all are joined again."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[axis]
    kind = draw(st.sampled_from(["ones", "each", "sizes"]))
    attributes: dict[str, int] = {"axis": axis}
    weights, read = [], "x"
    if kind == "ones":
        attributes["keepdims"] = draw(st.integers(0, 1))
        length = size
    elif kind == "each":
        each = draw(st.integers(1, size))
        weights, read, length = [scalar("parts", each)], "x parts", -(-size // each)
    else:
        cut = draw(st.integers(0, size))
        weights, read, length = [whole("parts", cut, size - cut)], "x parts", 2
    nodes = [op("SplitToSequence", read, "s", **attributes)]
    if draw(st.booleans()):
        nodes.append(op("SequenceAt", "s place", "part"))
        weights.append(scalar("place", draw(st.integers(-length, length - 1))))
    elif kind == "ones" and not attributes["keepdims"]:
        nodes.append(op("ConcatFromSequence", "s", "part", axis=axis, new_axis=1))
    else:
        nodes.append(op("ConcatFromSequence", "s", "part", axis=axis))
    nodes.append(op("Relu", "part", "y"))
    return model(nodes, [tensor("x", shape)], weights), shape


@given(splits())
@examples(60)
def test_parts_have_the_sizes_that_running_gives_them(case: tuple[Any, tuple[int, ...]]) -> None:
    made, shape = case
    elements = elements_by_running(made, x=np.zeros(shape, np.float32))
    assert bytes_of_last(made) == 4 * 2 * elements


def test_tensors_are_put_into_a_sequence_and_taken_out_of_it() -> None:
    nodes = [
        op("SequenceEmpty", "", "s0"),
        op("SequenceInsert", "s0 x", "s1"),
        op("SequenceInsert", "s1 z zero", "s2"),
        op("SequenceLength", "s2", "length"),
        op("SequenceErase", "s2 zero", "s3"),
        op("SequenceAt", "s3 zero", "out"),
        op("Unsqueeze", "length axes", "sizes"),
        op("Expand", "out sizes", "wide"),
        op("Relu", "wide", "y"),
    ]
    made = model(nodes, [tensor("x", [7, 2]), tensor("z", [3, 2])], [scalar("zero", 0), whole("axes", 0)])
    elements = elements_by_running(made, x=np.zeros((7, 2), np.float32), z=np.zeros((3, 2), np.float32))
    assert elements == 14
    assert bytes_of_last(made) == 4 * 2 * elements


def test_a_loop_that_appends_makes_as_many_tensors_as_it_has_trips() -> None:
    body = helper.make_graph(
        [op("Identity", "go", "on"), op("MatMul", "x w", "p"), op("SequenceInsert", "s p", "longer")],
        "body",
        [
            tensor("i", [], I64),
            tensor("go", [], TensorProto.BOOL),
            helper.make_tensor_sequence_value_info("s", F, None),
        ],
        [tensor("on", [], TensorProto.BOOL), helper.make_tensor_sequence_value_info("longer", F, None)],
    )
    nodes = [
        op("SequenceEmpty", "", "empty"),
        op("Loop", "trips go_on empty", "all", body=body, name="loop"),
        op("ConcatFromSequence", "all", "c", axis=0),
        op("Relu", "c", "y"),
    ]
    weights = [floats("w", 8, 8), scalar("trips", 5), numpy_helper.from_array(np.array(True), "go_on")]
    made = model(nodes, [tensor("x", [2, 8])], weights)
    elements = elements_by_running(made, x=np.zeros((2, 8), np.float32))
    assert elements == 5 * 2 * 8
    assert bytes_of_last(made) == 4 * 2 * elements
    assert imported(made).totals.forward_flops == 5 * 2 * 2 * 8 * 8


def test_a_graph_over_a_sequence_runs_once_for_each_tensor() -> None:
    body = helper.make_graph([op("MatMul", "e w", "p")], "body", [tensor("e", None)], [tensor("p", None)])
    nodes = [
        op("SplitToSequence", "x each", "s", axis=0),
        op("SequenceMap", "s", "mapped", body=body, name="map"),
        op("ConcatFromSequence", "mapped", "c", axis=0),
        op("Relu", "c", "y"),
    ]
    made = model(nodes, [tensor("x", [6, 8])], [floats("w", 8, 3), scalar("each", 2)])
    assert bytes_of_last(made) == 4 * 2 * 6 * 3
    assert imported(made).totals.forward_flops == 2 * 6 * 8 * 3


def test_an_optional_value_is_there_or_is_not() -> None:
    kind = helper.make_tensor_type_proto(F, [2, 3])
    nodes = [
        op("Optional", "x", "o"),
        op("OptionalHasElement", "o", "is_there"),
        op("If", "is_there", "y", then_branch=_graph(op("OptionalGetElement", "o", "t")), else_branch=_graph(_ones())),
        op("Relu", "y", "z"),
    ]
    there = model(nodes, [tensor("x", [2, 3])])
    assert bytes_of_last(there) == 4 * 2 * 6
    nodes[0] = op("Optional", "", "o", type=kind)
    absent = model(nodes, [tensor("x", [2, 3])], outputs=[onnx.ValueInfoProto(name="z"), onnx.ValueInfoProto(name="q")])
    absent.graph.node.append(op("Relu", "x", "q"))
    assert len(imported(absent).graph.nodes) == 1, "what is computed of the other branch's constant is constant"


def _ones() -> Any:
    return op("Constant", "", "t", value=floats("ones", 9))


def _graph(node: Any) -> Any:
    return helper.make_graph([node], "branch", [], [tensor("t", None)])


def test_weights_in_a_sequence_belong_to_what_takes_them_out() -> None:
    nodes = [
        op("SequenceConstruct", "v w", "s"),
        op("SequenceAt", "s one", "taken"),
        op("MatMul", "x taken", "y"),
    ]
    made = model(nodes, [tensor("x", [2, 8])], [floats("v", 100, 100), floats("w", 8, 3), scalar("one", 1)])
    found = imported(made)
    assert len(found.graph.nodes) == 1
    assert found.totals.parameters == 24
    assert is_all_known(found)


def test_the_length_of_an_input_is_asked_for() -> None:
    inputs = [helper.make_tensor_sequence_value_info("s", F, [2, 3])]
    made = model([op("ConcatFromSequence", "s", "c", axis=0), op("Relu", "c", "y")], inputs)
    with pytest.raises(SourceError, match=r"give --dim s\.length=SIZE"):
        imported(made)
    assert bytes_of_last(made, dims=(("s.length", 4),)) == 4 * 2 * 4 * 6


def test_parts_whose_sizes_data_decides_are_taken_to_be_equal() -> None:
    nodes = [
        op("SplitToSequence", "x parts", "s", axis=0),
        op("SequenceAt", "s place", "part"),
        op("MatMul", "part w", "y"),
    ]
    inputs = [tensor("x", [12, 4]), tensor("parts", [3], I64), tensor("place", [], I64)]
    found = imported(model(nodes, inputs, [floats("w", 4, 5)]))
    assert found.totals.forward_flops == 2 * 4 * 4 * 5
    assert "data decides" in said(found)
    assert "SplitToSequence (1)" in said(found)


# Operators whose shapes nobody can derive.


def test_a_size_that_was_guessed_does_not_contradict_the_file() -> None:
    """NonZero finds as many places as --dim says, which is not what the sum after it wants."""
    nodes = [
        op("NonZero", "x", "places"),
        op("Cast", "places", "floats", to=F),
        op("Add", "floats z", "sums"),
        op("MatMul", "sums w", "y"),
    ]
    made = model(nodes, [tensor("x", [4, 4]), tensor("z", [2, 5])], [floats("w", 5, 6)])
    found = imported(made, dims=(("*", 3),))
    assert "cannot be derived from the file" in said(found)
    assert "Add (1)" in said(found)
    assert all(node.traffic_bytes for node in found.graph.nodes)
    assert imported(made, dims=(("places.1", 5),)).totals.forward_flops == 2 * 2 * 5 * 6
    with pytest.raises(SourceError, match=r"cannot be: .*Incompatible"):
        imported(made, dims=(("places.1", 3),))


def test_a_shape_that_the_file_declares_is_taken_where_nobody_can_derive_it() -> None:
    nodes = [op("MatMul", "x w", "y"), op("MatMul", "y v", "z")]
    made = model(nodes, [tensor("x", [2, 3])], [floats("w", 4, 4), floats("v", 4, 5)])
    made.graph.value_info.append(tensor("y", [2, 4]))
    assert imported(made).totals.forward_flops == 2 * 2 * 4 * 3 + 2 * 2 * 4 * 5


@pytest.mark.parametrize(
    "node",
    [op("ConcatFromSequence", "u", "y", axis=0), op("SequenceAt", "u x0", "y"), op("Frob", "u", "y", domain="acme")],
)
def test_what_is_read_of_an_unknown_operator_makes_no_file_refused(node: Any) -> None:
    nodes = [op("Frobnicate", "x", "u", domain="acme"), node, op("Relu", "y", "z")]
    made = model(nodes, [tensor("x", [2, 3]), tensor("x0", [], I64)])
    found = imported(made)
    assert "cannot be derived from the file" in said(found)
    assert [node.traffic_bytes for node in found.graph.nodes][-1] == 4 * 12
    assert all(node.traffic_bytes for node in found.graph.nodes)


def test_flops_that_shapes_do_not_tell_are_said_to_be_unknown() -> None:
    nodes = [op("Frobnicate", "x", "u", domain="acme"), op("MatMul", "u w", "y")]
    found = imported(model(nodes, [tensor("x", [])], [floats("w", 3, 3)]))
    assert found.totals.forward_flops == 0
    assert "flops of 1 operator are not known" in said(found)
    assert "MatMul (1)" in said(found)


def test_what_is_no_tensor_is_as_large_as_what_it_is_made_of() -> None:
    nodes = [op("Softmax", "x", "p"), op("ZipMap", "p", "m", domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2])]
    made = model(nodes, [tensor("x", [5, 3])])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    found = imported(made)
    assert [node.traffic_bytes for node in found.graph.nodes] == [4 * 2 * 15, 4 * 2 * 15]


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ([op("SplitToSequence", "x", "s"), op("ConcatFromSequence", "s", "y", axis=0)], [2**17, 1]),
        (
            [op("SplitToSequence", "x", "s")] + [op("ConcatFromSequence", "s", f"y{i}", axis=0) for i in range(70)],
            [2**16, 1],
        ),
    ],
)
def test_absurd_sequences_are_refused(nodes: Sequence[Any], shape: list[int]) -> None:
    with pytest.raises(SourceError, match=r"sequence.*tensors"):
        imported(model(nodes, [tensor("x", shape)]))
