"""Imports of torch.export archives: known answers, laws of folding and training, and what is refused."""

import json
import zipfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.archive_mutations import hostile_archive
from solvers.importers import limits
from solvers.importers.layers import blocks, depths
from solvers.importers.workload import Level, Mode, NumberFormat, Tied
from solvers.model.errors import PlacementError, SourceError
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.schedule.simulate import ScheduleKind, simulate
from solvers.solve import solve
from tests.support.archives import (
    BOOL,
    HALF,
    LONG,
    Draft,
    archive,
    import_bytes,
    import_document,
    two_blocks,
    zipped,
)
from tests.support.examples import examples
from tests.support.importing import import_fields
from tests.support.small_models import SMALL

OPERATORS = Level.OPERATORS


def names(graph: DnnGraph) -> list[str]:
    return [node.name for node in graph.nodes]


def total(graph: DnnGraph, what: str) -> float:
    return sum(getattr(node, what) or 0.0 for node in graph.nodes)


# Layouts and known answers.


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_both_layouts_of_an_archive_are_one_graph(is_old: bool, compression: int) -> None:
    content = archive(two_blocks().document(), is_old=is_old, compression=compression)
    found = import_bytes(content)
    assert found.graph == two_blocks().imported().graph
    assert found.totals.parameters == 50 * 8 + 4 * 8 * 32
    assert found.totals.forward_flops == 2 * 12 * (4 * 8 * 32 + 8 * 50)
    assert names(found.graph) == ["embed", "h.0", "h.1", "head"]


@pytest.mark.parametrize(
    ("target", "shapes", "output", "flops", "others"),
    [
        ("mm", {"self": (3, 4), "mat2": (4, 5)}, (3, 5), 120, {}),
        ("addmm", {"self": (5,), "mat1": (3, 4), "mat2": (4, 5)}, (3, 5), 120, {}),
        ("baddbmm", {"self": (2, 3, 5), "batch1": (2, 3, 4), "batch2": (2, 4, 5)}, (2, 3, 5), 240, {}),
        ("addbmm", {"self": (3, 5), "batch1": (2, 3, 4), "batch2": (2, 4, 5)}, (3, 5), 240, {}),
        ("matmul", {"self": (7, 2, 3, 4), "other": (4, 5)}, (7, 2, 3, 5), 1680, {}),
        ("mv", {"self": (3, 4), "vec": (4,)}, (3,), 24, {}),
        ("dot", {"self": (4,), "tensor": (4,)}, (), 8, {}),
        ("linear", {"input": (2, 3, 4), "weight": (5, 4), "bias": (5,)}, (2, 3, 5), 240, {}),
        # 2 images, 8 channels in 4 groups of 2 to 12, filters of 3 x 3, 5 x 5 places.
        ("conv2d", {"input": (2, 8, 7, 7), "weight": (12, 2, 3, 3)}, (2, 12, 5, 5), 2 * 2 * 25 * 12 * 2 * 9, {}),
        ("conv1d", {"input": (8, 9), "weight": (12, 8, 3)}, (12, 7), 2 * 7 * 12 * 8 * 3, {}),
        # Transposed: every place of the input meets every weight.
        ("conv_transpose2d", {"input": (2, 8, 4, 4), "weight": (8, 3, 2, 2)}, (2, 3, 8, 8), 2 * 2 * 16 * 96, {}),
        (
            "convolution", {"input": (2, 8, 4, 4), "weight": (8, 3, 2, 2)}, (2, 3, 8, 8), 2 * 2 * 16 * 96,
            {"transposed": True},
        ),
        # 4 heads of queries that share 2 of keys; 5 x 6 pairs, 8 numbers of a key and 3 of a value.
        (
            "scaled_dot_product_attention", {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 3)},
            (2, 4, 5, 3), 2 * 2 * 4 * 30 * 11, {},
        ),
        ("einsum", {"tensors": [(2, 3, 4), (2, 4, 5)]}, (2, 3, 5), 240, {"equation": "bij,bjk->bik"}),
        # From left to right: first ij,jk over i, j, k, then ik,kl over i, k, l.
        ("einsum", {"tensors": [(2, 3), (3, 4), (4, 5)]}, (2, 5), 2 * 24 + 2 * 40, {"equation": "ij, jk, kl -> il"}),
        ("bilinear", {"input1": (6, 2), "input2": (6, 3), "weight": (5, 2, 3)}, (6, 5), 2 * 6 * 5 * 3 * 3, {}),
        (
            "lstm", {"input": (7, 2, 4), "hx": [(1, 2, 3), (1, 2, 3)], "params": [(12, 4), (12, 3), (12,), (12,)]},
            (7, 2, 3), 2 * 14 * (48 + 36), {},
        ),
        ("gru_cell", {"input": (2, 4), "hx": (2, 3), "w_ih": (9, 4), "w_hh": (9, 3)}, (2, 3), 2 * 2 * 63, {}),
        ("softmax", {"self": (3, 4)}, (3, 4), 0, {"dim": 1}),
    ],
)  # fmt: skip
def test_flops_are_those_of_a_count_by_hand(
    target: str, shapes: dict[str, Any], output: tuple[int, ...], flops: float, others: dict[str, Any]
) -> None:
    net, arguments = Draft(), dict(others)
    for name, shape in shapes.items():
        several = shape if isinstance(shape, list) else [shape]
        made = [net.user(f"{name}_{i}", *sizes) for i, sizes in enumerate(several)]
        arguments[name] = made if isinstance(shape, list) else made[0]
    net.call(target, "y", output, **arguments)
    found = net.imported(level=OPERATORS)
    assert found.totals.forward_flops == flops
    assert not any("Not known" in sentence for sentence in found.assumptions)


@pytest.mark.parametrize("learned", [False, True])
def test_a_recurrence_passes_gradients_between_its_steps_and_layers(learned: bool) -> None:
    """Two layers of 7 steps of 2 rows, 3 numbers handed on of 5: gradients flow through all of their products but some.

    Of a first step the states before it need none, of the first layer what is read needs one only if it is learned.
    """
    net = Draft()
    x = net.user("x", 7, 2, 4)
    if learned:
        x = net.call("mul", "scaled", (7, 2, 4), self=x, other=net.parameter("scale", 4))
    shapes = {"w": (20, 4), "r": (20, 3), "p": (3, 5), "w2": (20, 3), "r2": (20, 3), "p2": (3, 5)}
    weights = [net.parameter(name, *shape) for name, shape in shapes.items()]
    start = [net.user("h", 2, 2, 3), net.user("c", 2, 2, 5)]
    net.call("lstm", "y", (7, 2, 3), input=x, hx=start, params=weights, bidirectional=False)
    found = net.imported(mode=Mode.TRAINING, level=OPERATORS)
    (back,) = (node for node in found.graph.nodes if node.name == "y backward")
    rows, all_matrices = 7 * 2, 2 * (20 * 3 + 3 * 5) + 20 * 4 + 20 * 3
    assert found.totals.forward_flops == 2 * rows * all_matrices
    unneeded = 2 * 2 * 2 * 20 * 3 + (0 if learned else 2 * rows * 20 * 4)
    assert back.flops == 2 * found.totals.forward_flops - unneeded


def test_views_cost_nothing_and_copies_do() -> None:
    net = Draft()
    x = net.user("x", 4, 6)
    y = net.call("relu", "y", (4, 6), self=x)
    flat = net.call("view", "flat", (24,), self=y)
    same = net.call("reshape", "same", (24,), self=flat)
    turned = net.call("transpose", "turned", (6, 4), strides=(1, 6), self=y)
    copied = net.call("reshape", "copied", (24,), self=turned)
    part = net.call("slice", "part", (4,), self=copied)
    net.call("add", "out", (4,), self=part, other=same)
    graph = net.imported(level=OPERATORS, number_format=NumberFormat.FP32).graph
    assert names(graph) == ["input x", "y", "copied", "out"]
    assert [(edge.source, edge.target) for edge in graph.edges] == [(0, 1), (1, 2), (2, 3), (1, 3)]
    # `out` reads 4 numbers of the slice, 24 of y, and writes 4; the copy reads and writes 24.
    assert [node.traffic_bytes for node in graph.nodes] == [0.0, 4.0 * 48, 4.0 * 48, 4.0 * 32]


def test_numbers_count_in_bytes_of_their_formats() -> None:
    net = Draft()
    w, half = net.parameter("w", 10), net.user("h", 10, dtype=HALF)
    ids, mask = net.user("ids", 10, dtype=LONG), net.user("mask", 10, dtype=BOOL)
    net.call("mul", "a", (10,), self=w, other=half)
    net.call("where", "b", (10,), condition=mask, self=ids, other="a")
    found = net.imported(level=OPERATORS, number_format=NumberFormat.BF16)
    by_name = {node.name: node for node in found.graph.nodes}
    # The archive is in fp32, so that a half counts half an element; ids and masks keep their 8 bytes and one.
    assert by_name["a"].traffic_bytes == 2 * 10 + 2 * 5 + 2 * 10
    assert by_name["b"].traffic_bytes == 10 + 80 + 20 + 20
    assert any("most of its weights are float32" in sentence for sentence in found.assumptions)


def test_of_an_operator_with_several_outputs_a_reader_gets_the_one_it_reads() -> None:
    """The best two of six numbers are floats, their places are integers of 8 bytes."""
    net = Draft()
    net.parameter("w", 6)
    values = net.call("topk", "values", (4, 2), self=net.user("x", 4, 6), k=2)
    places = net.further_output("places", 4, 2, dtype=LONG)
    a = net.call("relu", "a", (4, 2), self=net.call("view", "same", (4, 2), self=values))
    b = net.call("neg", "b", (4, 2), dtype=LONG, self=places)
    net.call("add", "out", (4, 2), self=a, other=b)
    graph = net.imported(level=OPERATORS, number_format=NumberFormat.FP32).graph
    label = dict(enumerate(names(graph)))
    sent = {label[e.target]: (e.tensor, e.size_bytes) for e in graph.edges if label[e.source] == "values"}
    assert sent == {"a": ("output 1", 4 * 8), "b": ("output 2", 8 * 8)}
    alone = Draft()
    alone.parameter("w", 6)
    alone.call("topk", "values", (4, 2), self=alone.user("x", 4, 6), k=2)
    alone.further_output("places", 4, 2, dtype=LONG)
    alone.call("relu", "a", (4, 2), self="values")
    assert [e.tensor for e in alone.imported(level=OPERATORS).graph.edges] == ["", ""], "nobody reads the places"


def test_what_depends_on_no_input_is_computed_once_and_held_where_it_is_read() -> None:
    net = Draft()
    x, table = net.user("x", 2, 6), net.buffer("table", 6)
    places = net.call("arange", "places", (6,), end=6)
    angles = net.call("mul", "angles", (6,), self=places, other=table)
    y = net.call("add", "y", (2, 6), "a", self=x, other=angles)
    net.call("mul", "z", (2, 6), "b", self=y, other=angles)
    found = net.imported(level=OPERATORS, number_format=NumberFormat.FP32)
    assert names(found.graph) == ["input x", "a y", "b z"]
    assert [node.memory_bytes for node in found.graph.nodes] == [0.0, 24.0, 24.0]
    assert found.totals.weight_bytes == 0.0


def test_what_is_random_is_no_constant() -> None:
    net = Draft()
    noise = net.call("rand", "noise", (2, 6), size=[2, 6])
    net.call("add", "y", (2, 6), self=net.user("x", 2, 6), other=noise)
    assert names(net.imported(level=OPERATORS).graph) == ["noise", "input x", "y"]


def test_who_reads_what_was_written_to_waits_for_the_writer() -> None:
    net = Draft()
    y = net.call("neg", "y", (4,), self=net.user("x", 4))
    view = net.call("view", "view", (2, 2), self=y)
    net.call("relu_", "written", (4,), self=y)
    net.call("add", "z", (2, 2), self=view, other=view)
    start = net.call("zeros", "start", (2, 2), size=[2, 2])
    net.call("copy_", "filled", (2, 2), self=start, src="z")
    net.call("neg", "out", (2, 2), self=start)
    graph = net.imported(level=OPERATORS).graph
    label = dict(enumerate(names(graph)))
    assert [(label[e.source], label[e.target]) for e in graph.edges] == [
        ("input x", "y"), ("y", "written"), ("written", "z"), ("z", "filled"), ("filled", "out"),
    ]  # fmt: skip


def test_operators_of_a_state_share_a_device() -> None:
    net = Draft()
    cache, x = net.buffer("cache", 2, 8, is_written=True), net.user("x", 2, 8)
    net.call("copy_", "store", (2, 8), self=cache, src=x)
    y = net.call("neg", "y", (2, 8), self=x)
    net.call("add", "z", (2, 8), self=y, other=cache)
    graph = net.imported(level=OPERATORS, number_format=NumberFormat.FP32).graph
    store, z = (names(graph).index(name) for name in ("store", "z"))
    assert graph.colocation_members == {store: (store, z)}
    assert total(graph, "memory_bytes") == 4 * 16
    assert store in graph.inputs[z]


@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_tied_weights_count_once_and_share_a_device_unless_copied(mode: Mode) -> None:
    shared = two_blocks().imported(mode=mode, level=OPERATORS)
    copied = two_blocks().imported(mode=mode, level=OPERATORS, tied=Tied.COPY)
    assert copied.totals.parameters == shared.totals.parameters + 50 * 8
    first, last = (names(shared.graph).index(name) for name in ("embed embedding", "head logits"))
    assert any({first, last} <= set(ids) for ids in shared.graph.colocation_members.values())
    assert not any({first, last} <= set(ids) for ids in copied.graph.colocation_members.values())
    assert any("(embed embedding)" in sentence for sentence in shared.assumptions)


def test_an_unknown_operator_costs_its_bytes_and_is_named() -> None:
    net = Draft()
    net.call("mylib.fused", "y", (2, 6), x=net.user("x", 2, 6), w=net.parameter("w", 100))
    found = net.imported(level=OPERATORS)
    assert found.totals.parameters == 100
    assert found.graph.nodes[1].traffic_bytes == 2 * (12 + 100 + 12)
    assert "Not known, so they cost the bytes they read and write: mylib.fused." in found.assumptions


def subgraph(flops_width: int) -> Draft:
    inner = Draft()
    inner.user("a", 4, 6)
    inner.call("linear", "r", (4, flops_width), input="a", weight=inner.user("v", flops_width, 6))
    return inner


@pytest.mark.parametrize(
    ("target", "turns"), [("cond", 1), ("while_loop", 1), ("scan", 3), ("wrap_with_set_grad_enabled", 1)]
)
def test_subgraphs_are_one_operator_or_written_out(target: str, turns: int) -> None:
    net = Draft()
    x, rows = net.user("x", 4, 6), net.user("rows", 3, 4, 6)
    arguments: dict[str, Any] = {"a": subgraph(5), "x": x, "w": net.parameter("w", 5, 6)}
    if target == "cond":
        arguments = {"a": subgraph(2)} | {"b": subgraph(5)} | {"x": x, "w": arguments["w"]}
    if target == "scan":
        arguments = {"f": subgraph(5), "init": [x], "xs": [rows], "more": [arguments["w"]]}
    net.call(f"higher_order.{target}", "y", (4, 5), **arguments)
    found = net.imported(level=OPERATORS)
    assert found.totals.forward_flops == turns * 2 * 4 * 6 * 5
    assert found.totals.parameters == 30
    is_inline = target.startswith("wrap")
    assert ("r" in names(found.graph)) == is_inline
    assert any("subgraphs" in sentence for sentence in found.assumptions) == (not is_inline)


# Open sizes.


def open_net(text: str = "Symbol('s0', positive=True, integer=True)", hint: int | None = 6) -> Draft:
    net = two_blocks((text, hint))
    net.ranges["s0"] = {"min_val": 2, "max_val": 64}
    return net


@pytest.mark.parametrize("text", ["s0", "Symbol('s0', positive=True, integer=True)"])
def test_an_open_size_has_its_hint_or_what_is_asked_for(text: str) -> None:
    usual, asked = open_net(text).imported(), open_net(text).imported(dims=(("s0", 12),))
    assert usual.totals.forward_flops == two_blocks().imported().totals.forward_flops
    assert asked.totals.forward_flops == 2 * usual.totals.forward_flops
    assert any("s0 = 12" in sentence for sentence in asked.assumptions)


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("4*s0 + 1", 41), ("Add(Mul(Integer(4), Symbol('s0')), Integer(1))", 41), ("s0//3", 3), ("s0**2 % 7", 2),
        ("FloorDiv(Symbol('s0'), Integer(3))", 3), ("Max(Integer(12), Symbol('s0'))", 12), ("-(1 - s0)", 9),
        ("Pow(Symbol('s0'), Integer(2))", 100), ("CeilDiv(Symbol('s0'), Integer(3))", 4), ("s0/2", 5),
    ],
)  # fmt: skip
def test_formulas_of_sizes(formula: str, value: int) -> None:
    net = Draft()
    x = net.user("x", ("s0", 6))
    net.call("neg", "y", ((formula, None),), self=x)
    found = net.imported(level=OPERATORS, dims=(("s0", 10),), number_format=NumberFormat.FP32)
    assert found.graph.nodes[1].traffic_bytes == 4 * (10 + value)


@pytest.mark.parametrize(
    ("net", "dims", "told"),
    [
        (open_net(hint=None), (), "leaves the size s0 open; give it as --dim s0=N."),
        (open_net(), (("s1", 4),), "--dim s1: the archive has no size of that name; its open sizes are s0."),
        (two_blocks(), (("s0", 4),), "all its sizes are fixed."),
        (open_net(), (("s0", 65),), "--dim s0=65 is out of range; give a whole number from 2 to 64."),
        (open_net("__import__('os').system('true')", None), (), "has a formula of sizes that is not known"),
        (open_net("9**9**9**9", None), (), "has a formula of sizes that is not known"),
        (open_net("(" * 900 + "1" + ")" * 900, None), (), "has a formula of sizes that is not known"),
        (open_net("s0" * 3000, None), (), "has a formula of sizes that is not known"),
    ],
)
def test_open_sizes_that_cannot_be_told(net: Draft, dims: tuple[tuple[str, int], ...], told: str) -> None:
    with pytest.raises(SourceError) as error:
        net.imported(dims=dims)
    assert told in str(error.value)


# Levels.


PATHS = st.sampled_from(["", "a", "a.0", "a.0.x", "a.1", "a.1.x.y", "b", "b.c.d", "0"])


@given(st.lists(PATHS, min_size=1, max_size=12))
@examples(200)
def test_layers_are_runs_of_neighbours_so_that_folding_never_meets_a_cycle(modules: list[str]) -> None:
    for layers in (blocks(modules), *depths(modules)):
        runs = [label for i, label in enumerate(layers) if i == 0 or layers[i - 1] != label]
        assert len(set(runs)) == len(runs)
    net = Draft()
    x = net.user("x", 4)
    made = [x]
    for i, module in enumerate(modules):
        made.append(net.call("add", f"y{i}", (4,), module, self=made[i], other=made[i // 2]))
    for mode in (Mode.PREFILL, Mode.TRAINING):
        folded, operators = (net.imported(*made[1:], mode=mode, level=level) for level in (Level.LAYERS, OPERATORS))
        assert folded.totals.traffic_bytes == pytest.approx(operators.totals.traffic_bytes)


@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_an_automatic_level_is_the_finest_with_so_few_nodes(mode: Mode) -> None:
    operators = two_blocks().imported(mode=mode, level=OPERATORS)
    sizes = []
    for most in range(len(operators.graph.nodes), 0, -1):
        if most < 4 * (1 + (mode is Mode.TRAINING)):  # fewer than layers
            with pytest.raises(SourceError, match="give --nodes"):
                two_blocks().imported(mode=mode, level=Level.AUTO, nodes=1)
            break
        found = two_blocks().imported(mode=mode, level=Level.AUTO, nodes=most)
        assert len(found.graph.nodes) <= most
        sizes.append(len(found.graph.nodes))
        for what in ("accelerator_ms", "cpu_ms", "memory_bytes", "flops", "parameter_bytes"):
            # Where gradients are added up depends on layers, so that only the forward pass has the same sums.
            of_levels = [sum(getattr(node, what) for node in graph.nodes if not node.is_backward)
                         for graph in (found.graph, operators.graph)]  # fmt: skip
            assert of_levels[0] == pytest.approx(of_levels[1]), what
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) >= 3


@pytest.mark.parametrize(("nodes", "level"), [(10_000, OPERATORS), (9, Level.LAYERS)])
def test_configs_know_the_automatic_level_too(nodes: int, level: Level) -> None:
    config = SMALL["llama"]
    assert import_fields(config, level=Level.AUTO, nodes=nodes).graph == import_fields(config, level=level).graph


# Training, and all that solves.


def test_the_backward_pass_takes_two_products_each_and_tokens_have_none() -> None:
    found = two_blocks().imported(mode=Mode.TRAINING, level=OPERATORS)
    assert found.totals.backward_flops == pytest.approx(2 * found.totals.forward_flops, rel=0.01)
    backward = [node.name for node in found.graph.nodes if node.is_backward]
    assert "head logits backward" in backward
    assert "input ids backward" not in backward


@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_methods_agree_on_an_imported_graph_and_its_schedule_keeps_its_promise(mode: Mode) -> None:
    found = two_blocks(256, width=64).imported(mode=mode, tied=Tied.COPY)
    results = [solve(found.graph, found.deployment, method=method, time_limit_s=30) for method in ("dp", "ip")]
    assert [result.status for result in results] == [SolveStatus.OPTIMAL] * 2
    first, second = results
    assert first.value_ms == pytest.approx(second.value_ms, rel=1e-4)
    assert first.split is not None
    kind = ScheduleKind.ONE_F_ONE_B if mode is Mode.TRAINING else ScheduleKind.INFERENCE
    schedule = simulate(found.graph, found.deployment, first.split, kind, 40)
    assert schedule.period_ms == pytest.approx(first.value_ms)


# What is refused.


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return document


def with_version(major: int) -> dict[str, Any]:
    return two_blocks().document() | {"schema_version": {"major": major, "minor": 1}}


def with_rank(rank: int) -> dict[str, Any]:
    net = Draft()
    net.call("neg", "y", (1,) * rank, self=net.user("x", *(1,) * rank))
    return net.document()


def nested(depth: int) -> dict[str, Any]:
    net = Draft()
    net.call("neg", "y", (1,), self=net.user("x", 1))
    for _ in range(depth):
        outer = Draft()
        outer.call("higher_order.cond", "y", (1,), a=net, x=outer.user("x", 1))
        net = outer
    return net.document()


def huge() -> dict[str, Any]:
    net = Draft()
    net.call("neg", "y", (2**30, 2**30), self=net.user("x", 2**30, 2**30))
    return net.document()


def misfit() -> dict[str, Any]:
    net = Draft()
    net.call("conv2d", "y", (2,), input=net.user("x", 2), weight=net.parameter("w", 2))
    net.call("mm", "z", (), mat2="y")
    return net.document()


def empty() -> dict[str, Any]:
    net = Draft()
    net.call("view", "y", (2,), self=net.user("x", 2))
    return net.document()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"PK\x03\x04", "damaged or incomplete, or no zip file"),
        (zipped({"a": b""}), "no program of torch.export in it"),
        (zipped({"m/data/aotinductor/model/x.so": b""}), "compiled by AOTInductor"),
        (zipped({"m/models/a.json": b"{}", "m/models/b.json": b"{}"}), "has 2 models, such as a and b"),
        (zipped({"models/a.json": b"[]"}), "is a list and no object"),
        (zipped({"models/a.json": b"[" * 200_000}), "is not readable JSON"),
        (zipped({"models/a.json": b"{"}), "is not valid JSON"),
        (zipped({"models/a.json": b"{}"}, zipfile.ZIP_LZMA), "packed in a way that PyTorch does not use"),
        (
            zipped({"models/a.json": bytes(limits.MAX_PROGRAM_BYTES + 1)}, zipfile.ZIP_DEFLATED),
            "is too long; up to 32 MiB are read",
        ),
        (
            zipped({f"{i:x<200}": b"" for i in range(18_000)} | {"models/a.json": b"{}"}),
            "list of members is too long; up to 4 MiB are read",
        ),
        (archive({}), "'schema_version' is missing"),
        (archive(with_version(6)), "those of PyTorch 2.5 to 2.14 are read"),
        (archive(without(two_blocks().document(), "graph_module", "graph", "nodes")), "'nodes' is missing"),
        (archive(with_rank(limits.MAX_RANK + 1)), "has 65 dimensions; up to 64 are imported"),
        (archive(nested(limits.MAX_SUBGRAPH_DEPTH + 1)), "graphs lie more than 20 deep in each other"),
        (archive(huge()), "has more than 1,125,899,906,842,624 elements"),
        (archive(misfit()), "has arguments that its flops cannot be derived from"),
        (archive(empty()), "no operator that works on an input"),
    ],
)  # fmt: skip
def test_a_bad_archive_is_refused_in_a_sentence(content: bytes, told: str) -> None:
    with pytest.raises(SourceError) as error:
        import_bytes(content)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_operators_are_refused() -> None:
    document = two_blocks().document()
    document["graph_module"]["graph"]["nodes"] = [{}] * (limits.MAX_OPERATORS + 1)
    with pytest.raises(SourceError, match="more than 50,000 operators"):
        import_document(document)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"mode": Mode.DECODE}, "An archive holds the one pass that was exported"),
        ({"batch": 2}, "--batch says nothing here"),
        ({"sequence": 2}, "--sequence says nothing here"),
        ({"nodes": 7}, "--nodes is how many nodes --level auto may make"),
        ({"dims": (("s0", 1), ("s0", 2))}, "--dim names a dimension twice"),
    ],
)
def test_choices_that_an_archive_has_not(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(SourceError) as error:
        two_blocks().imported(**asked)
    assert told in str(error.value)


@given(st.integers(0, 2**32))
@examples(300)
def test_any_damage_to_an_archive_is_imported_or_refused_in_a_sentence(number: int) -> None:
    _, content = hostile_archive(number, VALID)
    try:
        found = import_bytes(content, mode=list(Mode)[2 * (number % 2)])
    except PlacementError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert sentence.endswith(".")
        assert len(sentence) < 700
    else:
        assert found.graph.nodes
        json.dumps([node.name for node in found.graph.nodes]).encode()


VALID = [open_net().document(), nested(2), two_blocks().document()]
