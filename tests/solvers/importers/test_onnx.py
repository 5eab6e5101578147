"""Imports of ONNX files: figures worked out by hand, laws, what is refused, and what is never opened."""

import math
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.importers.imported import Imported
from solvers.importers.limits import MAX_ONNX_OPERATORS
from solvers.importers.sources import import_file, import_source
from solvers.importers.workload import Level, Mode, NumberFormat, Tied, Workload
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import SourceError
from solvers.model.result import SolveStatus
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.importing import usual_devices
from tests.support.root import ROOT

onnx = pytest.importorskip("onnx", reason="these tests need the package onnx, which is an optional extra")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tests.support.onnx_models import (  # noqa: E402
    KINDS,
    branches,
    floats,
    loop,
    model,
    op,
    parts,
    perceptrons,
    quantised,
    recurrent,
    reshaped,
    scan,
    tensor,
    tied,
    whole,
    with_function,
)


def imported(made: Any, **asked: Any) -> Imported:
    """Import a model for a workload with these choices."""
    return import_file(BytesIO(made.SerializeToString()), Workload(**asked), usual_devices(), "a test", "made")


def by_operators(made: Any, **asked: Any) -> Imported:
    return imported(made, level=Level.OPERATORS, **asked)


# Figures worked out by hand.


def test_a_product_with_a_bias_costs_what_its_shapes_say() -> None:
    """Four layers of 300 x 300 and a batch of 5: a product, its bias and a Relu in each."""
    totals = by_operators(perceptrons(), batch=5).totals
    assert totals.parameters == 4 * (300 * 300 + 300)
    assert totals.forward_flops == 4 * 2 * 5 * 300 * 300
    assert totals.weight_bytes == 4 * totals.parameters
    activations = 5 * 300
    assert totals.traffic_bytes == 4 * (4 * (2 + 2 + 2) * activations + 4 * (300 * 300 + 300))


CASES: list[tuple[str, str, dict[str, Any], list[tuple[int, ...]], float]] = [
    ("Gemm", "", {"transA": 1, "transB": 1}, [(6, 4), (5, 6)], 2 * 4 * 5 * 6),
    ("MatMul", "", {}, [(2, 1, 3, 4), (7, 4, 5)], 2 * 2 * 7 * 3 * 5 * 4),
    ("Conv", "", {"group": 2, "strides": [2, 2]}, [(1, 4, 9, 9), (6, 2, 3, 3)], 2 * 6 * 4 * 4 * 2 * 9),
    ("ConvTranspose", "", {"strides": [2, 2]}, [(1, 4, 5, 5), (4, 3, 2, 2)], 2 * 4 * 25 * 3 * 4),
    ("Einsum", "", {"equation": "bhid,bhjd->bhij"}, [(2, 3, 4, 5), (2, 3, 6, 5)], 2 * 2 * 3 * 4 * 6 * 5),
    ("Einsum", "", {"equation": "...ij,jk->...ik"}, [(2, 3, 4), (4, 5)], 2 * 2 * 3 * 4 * 5),
    ("Einsum", "", {"equation": "ij,jk,kl->il"}, [(2, 3), (3, 4), (4, 5)], 2 * (2 * 3 * 4 + 2 * 4 * 5)),
    ("LSTM", "", {"hidden_size": 6}, [(7, 3, 5), (1, 24, 5), (1, 24, 6)], 2 * 7 * 3 * 24 * (5 + 6)),
    ("GRU", "", {"hidden_size": 6}, [(7, 3, 5), (1, 18, 5), (1, 18, 6)], 2 * 7 * 3 * 18 * (5 + 6)),
    ("RNN", "", {"hidden_size": 6}, [(7, 3, 5), (1, 6, 5), (1, 6, 6)], 2 * 7 * 3 * 6 * (5 + 6)),
    ("Attention", "", {}, [(2, 4, 10, 8), (2, 4, 12, 8), (2, 4, 12, 6)], 2 * 2 * 4 * 10 * 12 * (8 + 6)),
    (
        "Attention",
        "",
        {"q_num_heads": 4, "kv_num_heads": 2},
        [(2, 10, 32), (2, 12, 16), (2, 12, 12)],
        2 * 2 * 10 * 12 * 4 * (8 + 6),
    ),
    ("FusedMatMul", "com.microsoft", {"transB": 1}, [(2, 3, 4), (2, 5, 4)], 2 * 2 * 3 * 5 * 4),
    (
        "Attention",
        "com.microsoft",
        {"num_heads": 2},
        [(2, 10, 16), (16, 48), (48,)],
        2 * 2 * 10 * 16 * 48 + 2 * 2 * 10 * 10 * (16 + 16),
    ),
    (
        "MultiHeadAttention",
        "com.microsoft",
        {"num_heads": 2},
        [(2, 10, 16), (2, 12, 16), (2, 12, 8)],
        2 * 2 * 10 * 12 * (16 + 8),
    ),
    (
        "GroupQueryAttention",
        "com.microsoft",
        {"num_heads": 4, "kv_num_heads": 2},
        [(1, 3, 32), (1, 3, 16), (1, 3, 16), (1, 2, 7, 8), (1, 2, 7, 8), (1,), ()],
        2 * 3 * (3 + 7) * (32 + 32),
    ),
    ("Gelu", "com.microsoft", {}, [(2, 3)], 0),
    ("SkipLayerNormalization", "com.microsoft", {}, [(2, 3, 4), (2, 3, 4), (4,)], 0),
    ("Softmax", "", {}, [(2, 3)], 0),
]


@pytest.mark.parametrize(("op_type", "domain", "attributes", "shapes", "flops"), CASES)
def test_flops_are_those_that_shapes_give(
    op_type: str, domain: str, attributes: dict[str, Any], shapes: list[tuple[int, ...]], flops: float
) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    node = op(op_type, " ".join(names), "y", domain=domain, **attributes)
    integers = {"x5", "x6"}
    inputs = [
        tensor(name, shape, TensorProto.INT32 if name in integers else TensorProto.FLOAT)
        for name, shape in zip(names, shapes, strict=True)
    ]
    found = by_operators(model([node], inputs, opset=23))
    assert found.totals.forward_flops == flops
    assert not any("unknown types" in sentence or "cannot be derived" in sentence for sentence in found.assumptions)


def test_a_recurrence_reads_its_weights_at_every_step() -> None:
    totals = by_operators(recurrent()).totals
    assert totals.parameters == 2 * 24 * (5 + 6)
    read = 2 * 24 * 5 + 7 * 2 * 24 * 6
    outputs = 7 * 2 * 3 * 6 + 2 * (2 * 3 * 6)
    assert totals.traffic_bytes == 4 * (read + 7 * 3 * 5 + outputs)


def test_a_recurrence_passes_gradients_between_its_steps_where_its_input_needs_none() -> None:
    """Two directions of 7 steps of 3 rows: all weights learn, and of the states all but each direction's first."""
    graph = by_operators(recurrent(), mode=Mode.TRAINING).graph
    (back,) = (node for node in graph.nodes if node.is_backward)
    weights, states = 2 * 2 * 7 * 3 * 24 * (5 + 6), 2 * 2 * 6 * 3 * 24 * 6
    assert back.flops == pytest.approx(weights + states)


def test_a_recurrence_of_another_rank_has_no_flops_and_is_no_fault() -> None:
    node = op("DynamicQuantizeLSTM", "x w r", "y", domain="com.microsoft", hidden_size=6)
    made = model([node], [tensor("x", [7, 3])], [floats("w", 1, 5, 24), floats("r", 1, 6, 24)])
    assert by_operators(made).totals.forward_flops == 0


def test_a_recurrence_of_nothing_is_no_fault() -> None:
    nodes = [op("GRU", "", "y", hidden_size=6), op("Relu", "x", "z")]
    outputs = [onnx.ValueInfoProto(name="y"), onnx.ValueInfoProto(name="z")]
    found = by_operators(model(nodes, [tensor("x", [2])], outputs=outputs))
    assert "GRU (1)" in " ".join(found.assumptions)


def test_a_lookup_reads_what_it_gives() -> None:
    found = by_operators(tied(), batch=2)
    (lookup,) = (node for node in found.graph.nodes if "Gather" in node.name)
    assert lookup.traffic_bytes == 4 * (2 * 2 * 16 * 64) + 8 * 2 * 16


def test_sizes_computed_from_sizes_are_known_and_cost_nothing() -> None:
    found = by_operators(reshaped(), batch=3)
    assert [node.flops for node in found.graph.nodes] == [2 * 3 * 20 * 7]
    assert any("4 operators on constants and sizes" in sentence for sentence in found.assumptions)


def test_quantised_weights_take_their_own_bytes() -> None:
    totals = by_operators(quantised()).totals
    assert (totals.parameters, totals.weight_bytes) == (32 * 16, 32 * 16)
    assert totals.forward_flops == 2 * 4 * 16 * 32
    with pytest.raises(SourceError, match="Quantised weights are not trained"):
        imported(quantised(), mode=Mode.TRAINING)


def test_weights_of_four_bits_count_as_many_as_they_are() -> None:
    packed = numpy_helper.from_array(np.ones((16, 2, 16), np.uint8), "w")
    node = op("MatMulNBits", "x w s", "y", domain="com.microsoft", K=64, N=16, bits=4, block_size=32)
    found = by_operators(model([node], [tensor("x", [3, 64])], [packed, floats("s", 32)]))
    assert found.totals.parameters == 16 * 64 + 32
    assert found.totals.weight_bytes == pytest.approx(16 * 64 / 2 + 4 * 32)
    assert found.totals.forward_flops == 2 * 3 * 64 * 16


def test_the_file_says_how_numbers_are_stored_unless_somebody_does() -> None:
    half = imported(perceptrons(), number_format=NumberFormat.FP16).totals
    assert imported(perceptrons()).totals.weight_bytes == 2 * half.weight_bytes


def test_of_two_branches_the_costlier_runs_and_both_are_held() -> None:
    totals = by_operators(branches()).totals
    assert totals.forward_flops == 2 * 2 * 8 * 8
    assert totals.parameters == 8 * 8 + 8


def test_a_branch_that_a_constant_decides_is_all_there_is() -> None:
    made = branches()
    made.graph.initializer.append(numpy_helper.from_array(np.array(False), "which"))
    found = by_operators(made)
    assert (found.totals.forward_flops, found.totals.parameters) == (0, 8)


@pytest.mark.parametrize(("made", "trips"), [(loop(5), 5), (loop(None), 1), (scan(), 10)])
def test_a_loop_is_one_operator_of_all_its_trips(made: Any, trips: int) -> None:
    found = by_operators(made)
    rows = 1 if trips == 10 else 2
    assert len(found.graph.nodes) == 1
    assert found.totals.forward_flops == trips * 2 * rows * 8 * 8
    assert found.totals.parameters == 64


def test_trips_that_data_decides_can_be_given() -> None:
    assert any("--dim loop.trips=SIZE" in sentence for sentence in imported(loop(None)).assumptions)
    assert by_operators(loop(None), dims=(("loop.trips", 9),)).totals.forward_flops == 9 * 2 * 2 * 64


def test_functions_of_the_file_are_written_out() -> None:
    found = by_operators(with_function(3, 2))
    assert found.totals.forward_flops == 2**3 * 2 * 2 * 3 * 3
    assert found.totals.parameters == 9


def test_of_an_operator_with_several_outputs_a_reader_gets_the_one_it_reads() -> None:
    """Five micro-batches of 24 numbers, split into 8 and 16: whoever reads the first is sent no more than that."""
    graph = by_operators(parts(), batch=5).graph
    v = {node.name: node.id for node in graph.nodes}
    read = {(edge.source, edge.target): (edge.tensor, edge.size_bytes) for edge in graph.edges}
    assert read[v["split"], v["c"]] == ("output 1", 4 * 5 * 8)
    assert read[v["split"], v["d"]] == read[v["split"], v["e"]] == ("output 2", 4 * 5 * 16)
    assert read[v["p"], v["split"]] == ("", 4 * 5 * 24)
    sent = dict(graph.node_by_id[v["split"]].tensor_ms)
    assert sent["output 2"] == pytest.approx(2 * sent["output 1"])
    here, there = set(v.values()) - {v["c"]}, {v["c"]}
    costs = split_costs(graph, Deployment(2), Split((frozenset(here), frozenset(there))))
    assert costs.devices[1].receive_ms == pytest.approx(sent["output 1"])
    both = split_costs(
        graph, Deployment(2), Split((frozenset({v["p"], v["split"]}), frozenset(here - {v["p"], v["split"]} | there)))
    )
    assert both.devices[1].receive_ms == pytest.approx(sent["output 1"] + sent["output 2"])


def test_gradients_of_several_outputs_come_back_one_by_one() -> None:
    graph = by_operators(parts(), batch=5, mode=Mode.TRAINING).graph
    v = {node.name: node.id for node in graph.nodes}
    sizes = {
        (source, target): edge.size_bytes
        for source in "cde"
        for target in ("split",)
        for edge in graph.edges
        if (edge.source, edge.target) == (v[f"{source} backward"], v[f"{target} backward"])
    }
    assert sizes == {("c", "split"): 4 * 5 * 8, ("d", "split"): 4 * 5 * 16, ("e", "split"): 4 * 5 * 16}
    back = graph.node_by_id[v["split backward"]]
    assert back.flops == 5 * 16, "the second tensor has two readers, whose gradients are added"
    # 8 read; of 16 both gradients read, the sum written and read; 24 written as the gradient of the input.
    assert back.traffic_bytes == 4 * 5 * (8 + 4 * 16 + 24)


def test_zeros_that_a_recurrence_starts_from_are_no_weights() -> None:
    weights = [floats("w", 1, 24, 5), floats("r", 1, 24, 6)]
    for start, count in ((np.zeros((1, 3, 6), np.float32), 0), (np.ones((1, 3, 6), np.float32), 18)):
        stored = numpy_helper.from_array(start, "start")
        made = model(
            [op("LSTM", "x w r _ _ start start", "y", hidden_size=6)], [tensor("x", [7, 3, 5])], [*weights, stored]
        )
        assert by_operators(made).totals.parameters == 24 * (5 + 6) + count


def test_what_the_file_notes_as_a_buffer_is_no_parameter_and_takes_memory() -> None:
    made = model([op("MatMul", "x w", "y"), op("Add", "y table", "z")], [tensor("x", [2, 3])],
                 [floats("w", 3, 4), floats("table", 2, 4)])  # fmt: skip
    before = by_operators(made).totals
    for name, kind in (("w", "PARAMETER"), ("table", "BUFFER")):
        info = made.graph.value_info.add(name=name)
        info.metadata_props.add(key="pkg.torch.export.graph_signature.InputSpec.kind", value=kind)
    found = by_operators(made).totals
    assert (before.parameters, found.parameters) == (20, 12)
    assert found.memory_bytes == before.memory_bytes
    assert found.traffic_bytes == before.traffic_bytes
    made.graph.initializer[0].CopyFrom(floats("w", 3, 1))
    assert by_operators(made, mode=Mode.TRAINING).totals.parameters == 3
    made.graph.input[0].CopyFrom(tensor("x", [2, 1]))
    made.graph.initializer[0].CopyFrom(floats("w", 1, 1))
    assert by_operators(made).totals.parameters == 1, "a parameter of one number is one, where it is said to be"


@pytest.mark.parametrize(
    ("values", "count"),
    [("['w']", 8), ("['m.w', 'val_0', 'val_1', 'val_2']", 8), ("['arange', 'le', 'val_0', 'val_1']", 0)],
)
def test_a_mask_that_the_exporter_computed_is_no_parameter(values: str, count: int) -> None:
    made = model([op("Add", "x mask", "y")], [tensor("x", [2, 4])], [floats("mask", 2, 4)])
    info = made.graph.value_info.add(name="mask")
    info.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=values)
    assert by_operators(made).totals.parameters == count


# Laws.


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_layers_have_the_sums_of_the_operators(kind: str, mode: Mode) -> None:
    if kind == "quantised" and mode is Mode.TRAINING:
        return
    layers, operators = imported(KINDS[kind](), mode=mode), by_operators(KINDS[kind](), mode=mode)
    assert layers.totals == operators.totals
    for what in ("accelerator_ms", "memory_bytes", "flops", "traffic_bytes"):
        by_layers = math.fsum(getattr(node, what) for node in layers.graph.nodes)
        assert by_layers == pytest.approx(math.fsum(getattr(node, what) for node in operators.graph.nodes)), what


@pytest.mark.parametrize("made", list(KINDS))
@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_imported_graphs_are_solved_and_run_at_their_max_load(made: str, mode: Mode) -> None:
    if made == "quantised" and mode is Mode.TRAINING:
        return
    found = by_operators(KINDS[made](), mode=mode)
    by_dp = solve(found.graph, found.deployment, method="dp", time_limit_s=60)
    by_ip = solve(found.graph, found.deployment, method="ip", time_limit_s=60)
    assert by_dp.status is SolveStatus.OPTIMAL
    assert by_ip.value_ms == pytest.approx(by_dp.value_ms, rel=1e-4)
    assert by_dp.split is not None
    kind = ScheduleKind.ONE_F_ONE_B if mode is Mode.TRAINING else ScheduleKind.INFERENCE
    schedule = simulate(found.graph, found.deployment, by_dp.split, kind, 60)
    assert schedule.period_ms == pytest.approx(by_dp.value_ms)


def test_layers_are_the_modules_of_the_names() -> None:
    found = imported(perceptrons(6))
    assert [node.name for node in found.graph.nodes] == [f"model/layers.{i}" for i in range(6)]


@pytest.mark.parametrize(("most", "num_nodes"), [(100, 16), (16, 16), (15, 8), (8, 8), (7, 4), (3, 1)])
@pytest.mark.parametrize("is_noted", [False, True])
def test_automatic_is_the_finest_of_operators_and_modules_with_so_few_nodes(
    most: int, num_nodes: int, *, is_noted: bool
) -> None:
    """Whether modules are in the names, as torch's older exporter has them, or noted beside these."""
    nodes, x = [], "x"
    for i in range(4):
        for part in ("attention", "mlp"):
            for kind in ("Relu", "Tanh"):
                module = f"model.layers.{i}.{part}"
                name = f"n{len(nodes)}" if is_noted else f"/model/layers.{i}/{part}/{kind}"
                nodes.append(op(kind, x, f"y{len(nodes)}", name=name))
                if is_noted:
                    scopes = str(["", "model", f"model.layers.{i}", module, kind])
                    nodes[-1].metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
                x = nodes[-1].output[0]
    file = model(nodes, [tensor("x", [2, 3])])
    found = imported(file, level=Level.AUTO, nodes=most)
    assert len(found.graph.nodes) == num_nodes
    assert found.totals == by_operators(file).totals


def test_a_layer_that_is_left_and_entered_again_becomes_two() -> None:
    nodes = [op("Relu", "x", "a", name="/one/Relu"), op("Relu", "a", "b", name="/two/Relu")]
    nodes.append(op("Add", "a b", "c", name="/one/Add"))
    found = imported(model(nodes, [tensor("x", [2, 3])]))
    assert [node.name for node in found.graph.nodes] == ["one", "two", "one (2)"]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
@examples(100)
def test_layers_of_any_names_fold(parts: list[tuple[int, int, int]]) -> None:
    """A cycle of layers would be refused."""
    nodes, known = [], ["x"]
    for i, (layer, a, b) in enumerate(parts):
        name = f"/layers.{layer}/Add" if layer else ""
        nodes.append(op("Add", f"{known[a % len(known)]} {known[b % len(known)]}", f"y{i}", name=name))
        known.append(f"y{i}")
    outputs = [onnx.ValueInfoProto(name=name) for name in known[1:]]
    made = model(nodes, [tensor("x", [2])], outputs=outputs)
    assert imported(made).totals == by_operators(made).totals


def test_one_matrix_at_both_ends_ties_their_devices_unless_it_is_copied() -> None:
    shared = imported(tied())
    classes = {node.layer: node.colocation_class for node in shared.graph.nodes}
    assert classes["embed"] == classes["head"] is not None
    assert classes["layers.0"] is None
    copied = imported(tied(), tied=Tied.COPY)
    assert copied.totals.parameters - shared.totals.parameters == 2000 * 64


def test_small_weights_that_are_shared_tie_nothing() -> None:
    nodes = [op("Add", "x b", "y"), op("Add", "y b", "z")]
    found = by_operators(model(nodes, [tensor("x", [2, 8])], [floats("b", 8)]))
    assert found.totals.parameters == 8
    assert {node.colocation_class for node in found.graph.nodes} == {None}


def test_what_no_output_needs_is_left_out() -> None:
    nodes = [op("Relu", "x", "y"), op("MatMul", "x w", "unused")]
    outputs = [onnx.ValueInfoProto(name="y")]
    found = by_operators(model(nodes, [tensor("x", [2, 3])], [floats("w", 3, 3)], outputs))
    assert found.totals.parameters == 0


# Dimensions and shapes.


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "open; give --dim width=SIZE --dim x.2=SIZE, or --dim"),
        ({"dims": (("width", 3),)}, "give --dim x.2=SIZE"),
        ({"dims": (("width", 3), ("x.2", 4), ("depth", 5))}, "no open dimension depth; those with a size to give are"),
        ({"dims": (("width", 0),)}, "--dim width is 0"),
        ({"mode": Mode.DECODE}, "no --mode decode"),
        ({"sequence": 5}, "--sequence says nothing here"),
    ],
)
def test_open_dimensions_are_asked_for_by_name(asked: dict[str, Any], told: str) -> None:
    made = model([op("Relu", "x", "y")], [tensor("x", ["batch", "width", None])])
    with pytest.raises(SourceError, match=told):
        imported(made, **asked)


def test_open_dimensions_take_the_sizes_given() -> None:
    made = model([op("Relu", "x", "y")], [tensor("x", ["batch", "width", None])])
    traffic = imported(made, batch=2, dims=(("width", 3), ("x.2", 4))).totals.traffic_bytes
    assert traffic == 4 * 2 * (2 * 3 * 4)
    assert imported(made, dims=(("*", 6),)).totals.traffic_bytes == 4 * 2 * 36
    with pytest.raises(SourceError, match="--batch says nothing here"):
        imported(perceptrons(batch=4), batch=2)


def test_a_size_that_only_data_tells_is_asked_for() -> None:
    nodes = [op("NonZero", "x", "places"), op("Cast", "places", "floats", to=1), op("Relu", "floats", "y")]
    made = model(nodes, [tensor("x", [4, 4])])
    with pytest.raises(SourceError, match=r"places, which NonZero computes, cannot be derived .* --dim places.1=SIZE"):
        imported(made)
    found = by_operators(made, dims=(("places.1", 5),))
    assert found.graph.nodes[-1].traffic_bytes == 2 * 4 * 2 * 5


def test_an_operator_that_nobody_knows_costs_its_bytes_and_is_named() -> None:
    nodes = [op("Frobnicate", "x", "y", domain="acme"), op("Relu", "y", "z")]
    found = by_operators(model(nodes, [tensor("x", [2, 3])]))
    assert found.graph.nodes[0].traffic_bytes == 4 * 12
    told = " ".join(found.assumptions)
    assert "1 operator of unknown types" in told
    assert "acme.Frobnicate (1)" in told
    assert "taken to be those of their first inputs" in told


def test_shapes_that_the_file_declares_are_taken_for_what_nobody_knows() -> None:
    made = model([op("Frobnicate", "x", "y", domain="acme"), op("Relu", "y", "z")], [tensor("x", [2, 3])])
    made.graph.value_info.append(tensor("y", ["batch", 100]))
    assert by_operators(made, batch=7).graph.nodes[1].traffic_bytes == 4 * 2 * 700


# What is refused, and what is never done.


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (model([op("Relu", "nowhere", "y")], []), "which nothing computes before it"),
        (model([op("MatMul", "x w", "y")], [tensor("x", [2, 3])], [floats("w", 4, 4)]), "cannot be: .*Incompatible"),
        (model([op("Relu", "x", "y")], [tensor("x", [2**40, 2**40])]), "shape of 2 dimensions that no tensor has"),
        (model([op("Identity", "w", "y")], [], [floats("w", 2)]), "All of the ONNX file is constant"),
        (with_function(40, 2), f"more than {MAX_ONNX_OPERATORS:,} operators"),
        (with_function(60, 1), "calls itself, or 50 others in turn"),
        (helper.make_model(helper.make_graph([], "none", [], [])), "has no operators"),
    ],
)
def test_a_model_that_cannot_be_is_refused_in_a_sentence(made: Any, told: str) -> None:
    with pytest.raises(SourceError, match=told) as caught:
        imported(made)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_function_that_calls_itself_is_refused() -> None:
    made = with_function(1)
    made.functions[0].node[0].CopyFrom(op("F0", "x w", "y", domain="f"))
    with pytest.raises(SourceError, match="calls itself"):
        imported(made)


def test_weights_in_other_files_are_never_looked_for(tmp_path: Path) -> None:
    """Neither are the values of tensors that sizes are computed from."""
    outside = tmp_path / "outside"
    outside.write_bytes(np.array([3, 20], np.int64).tobytes())
    made = perceptrons()
    target = whole("target", 2, 150)
    made.graph.initializer.append(target)
    made.graph.node.append(op("Reshape", "y3 target", "end"))
    made.graph.output[0].name = "end"
    for weight in made.graph.initializer:
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", str(outside)
    with pytest.raises(SourceError, match=r"--dim end\.0=SIZE"):
        imported(made)
    del made.graph.node[-1]
    made.graph.output[0].name = "y3"
    found = imported(made)
    assert found.totals.parameters == 4 * (300 * 300 + 300)
    assert any("values of 9 weights are in other files" in sentence for sentence in found.assumptions)


def test_large_weights_are_skipped_and_not_read(tmp_path: Path) -> None:
    """The values of 400 MB are a hole in the file, so reading them would show in the memory."""
    made = model([op("MatMul", "x w", "y")], [tensor("x", [2, 10_000])], [])
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[10_000, 10_000])
    size = 4 * 10_000 * 10_000

    def field(number: int, length: int) -> bytes:
        out, value = bytearray([number << 3 | 2]), length
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    head = weight.SerializeToString() + field(9, size)
    graph = made.graph.SerializeToString()
    tensor_head = field(5, len(head) + size)
    made.ClearField("graph")
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.write(made.SerializeToString())
        file.write(field(7, len(graph) + len(tensor_head) + len(head) + size) + graph + tensor_head + head)
        file.truncate(file.tell() + size)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_DATA, (2**29, 2**29))\n"
        "from solvers.importers.sources import import_source\n"
        "from solvers.importers.workload import Workload\n"
        "from tests.support.importing import usual_devices\n"
        f"found = import_source({str(path)!r}, Workload(), usual_devices())\n"
        "print(found.totals.parameters)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)  # noqa: S603
    assert done.stdout.strip() == str(10_000 * 10_000), done.stderr[-1000:]


@pytest.mark.slow
@pytest.mark.parametrize("places", [(7, 1, 5), (7, 13), (7, 1, 1), (7, 11, 2, 1, 2, 1), (7, 1, 5, 6)])
def test_a_file_of_millions_of_empty_messages_is_refused_before_they_are_made(places: tuple[int, ...]) -> None:
    """Field numbers on the way to the empty ones: attributes, values, inputs of an operator, dimensions, graphs."""
    content = bytes([places[-1] << 3 | 2, 0]) * 2_000_001
    for number in reversed(places[:-1]):
        length, value = bytearray(), len(content)
        while value >= 128:
            length.append(value & 127 | 128)
            value >>= 7
        content = bytes([number << 3 | 2, *length, value]) + content
    with pytest.raises(SourceError, match="more than 2,000,000 fields"):
        import_file(BytesIO(b"\x08\x08" + content), Workload(), usual_devices(), "a test")


def test_names_are_text_of_one_line() -> None:
    made = model([op("Relu", "x", "y", name="a\u202e\n.1/" + "b" * 10_000)], [tensor("x", [2])])
    (node,) = imported(made).graph.nodes
    assert node.name.isprintable()
    assert len(node.name) < 200


def test_an_onnx_file_without_the_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(perceptrons().SerializeToString())
    for name in [
        name for name in sys.modules if name == "onnx" or name.startswith(("onnx.", "solvers.importers.onnx."))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SourceError, match=r"pip install 'dnn-placement-explorer\[onnx\]'\.$"):
        import_source(str(path), Workload(), usual_devices())


@given(st.sampled_from(list(KINDS)), st.integers(0, 10_000), st.binary(min_size=1, max_size=4), st.booleans())
@examples(150)
def test_any_damage_is_imported_or_refused_in_a_sentence(kind: str, seed: int, damage: bytes, is_cut: bool) -> None:
    content = KINDS[kind]().SerializeToString()
    at = seed % len(content)
    content = content[:at] + damage + (b"" if is_cut else content[at + len(damage) :])
    try:
        found = import_file(BytesIO(content), Workload(dims=(("*", 3),)), usual_devices(), "a test")
    except ValueError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert sentence.isprintable()
    else:
        assert found.graph.nodes


def test_nothing_is_said_of_what_a_file_does_not_have() -> None:
    said = " ".join(imported(loop(5)).assumptions)
    assert "no operators" not in said
