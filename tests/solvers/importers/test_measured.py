"""Measured times in imported graphs: a node takes the sum of its operators, and files keep what was measured."""

from dataclasses import replace

import pytest

from solvers.formats.graph_json import graph_text, parse_graph
from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import Precision
from solvers.hardware.roofline import Setup, times_on, with_times
from solvers.importers.folding import folded_by_layers
from solvers.importers.measured import Call, Spread, Taken, Timing, timings_of
from solvers.importers.torch_export.measured import with_measured_times
from solvers.importers.workload import Level, Mode
from solvers.model.errors import SourceError
from solvers.model.graph import DnnGraph, TimesKind, TimesOrigin
from tests.support.archives import Draft, two_blocks

ORIGIN = TimesOrigin(precision="fp32", measured_on="a CPU, 2 threads")
NAMES = ["embedding", "up_0", "relu_0", "down_0", "add_0", "up_1", "relu_1", "down_1", "add_1", "logits"]
TIMINGS = {
    name: [Timing(Spread(2.0**i, 0.5), None if "relu" in name else Spread(3 * 2.0**i, 1.0))]
    for i, name in enumerate(NAMES)
}


def measured(level: Level, mode: Mode, into: str = "accelerator", nodes: int = 200) -> DnnGraph:
    graph = two_blocks().imported(level=level, mode=mode, **({"nodes": nodes} if level is Level.AUTO else {})).graph
    return with_measured_times(graph, two_blocks().document(), TIMINGS, into=into, origin=ORIGIN)


@pytest.mark.parametrize(("level", "nodes"), [(Level.OPERATORS, 200), (Level.LAYERS, 200), (Level.AUTO, 6)])
@pytest.mark.parametrize("mode", [Mode.PREFILL, Mode.TRAINING])
def test_times_of_all_nodes_are_those_of_all_operators(level: Level, nodes: int, mode: Mode) -> None:
    graph = measured(level, mode, nodes=2 * nodes if mode is Mode.TRAINING else nodes)
    forward = [node for node in graph.nodes if not node.is_backward]
    backward = [node for node in graph.nodes if node.is_backward]
    assert sum(node.accelerator_ms for node in forward) == 2.0**10 - 1
    assert sum(node.spread_ms or 0.0 for node in forward) == 5.0
    # A relu was not measured backwards: it takes as long as forwards, by the rule.
    relus = 2.0**2 + 2.0**6
    expected = 3 * (2.0**10 - 1 - relus) + relus if backward else 0.0
    assert sum(node.accelerator_ms for node in backward) == pytest.approx(expected)  # adding up gradients is computed
    assert graph.times == TimesOrigin("", "fp32", "Xeon-8480", TimesKind.MEASURED, "a CPU, 2 threads")


def test_a_layer_takes_what_its_operators_take() -> None:
    graph = measured(Level.LAYERS, Mode.PREFILL)
    assert {node.name: node.accelerator_ms for node in graph.nodes} == {
        "embed": 1.0, "h.0": 2.0 + 4 + 8 + 16, "h.1": 32.0 + 64 + 128 + 256, "head": 512.0,
    }  # fmt: skip
    folded = folded_by_layers(measured(Level.OPERATORS, Mode.PREFILL))
    assert [(n.name, n.accelerator_ms, n.spread_ms) for n in folded.nodes] == [
        (n.name, n.accelerator_ms, n.spread_ms) for n in graph.nodes
    ]


def test_times_go_where_they_are_asked_to() -> None:
    computed = two_blocks().imported(level=Level.OPERATORS).graph
    on_cpus, on_class = measured(Level.OPERATORS, Mode.PREFILL, "cpu"), measured(Level.OPERATORS, Mode.PREFILL, "big")
    for graph in (on_cpus, on_class):
        assert [n.accelerator_ms for n in graph.nodes] == [n.accelerator_ms for n in computed.nodes]
    assert sum(node.cpu_ms for node in on_cpus.nodes) == 2.0**10 - 1
    assert on_cpus.times == replace(computed.times or ORIGIN, host="")
    assert sum(node.time_on("big") or 0.0 for node in on_class.nodes) == 2.0**10 - 1
    assert on_class.times == computed.times


def test_files_keep_what_was_measured_and_digests_of_others_stay() -> None:
    found = two_blocks().imported(level=Level.OPERATORS)
    graph = measured(Level.OPERATORS, Mode.PREFILL)
    again, _ = parse_graph(graph_text(graph, found.deployment))
    assert again == graph
    assert again.digest == graph.digest
    plain = graph.with_nodes(tuple(replace(node, spread_ms=None) for node in graph.nodes))
    assert plain.digest != graph.digest
    assert "fpgaLatencySpread" not in graph_text(plain, found.deployment)


def test_a_spread_belongs_to_the_time_that_was_measured() -> None:
    graph = replace(measured(Level.OPERATORS, Mode.PREFILL), times=TimesOrigin("T4", "fp32"))
    setup = Setup(catalogue().accelerator("A100-80"), Precision.FP32)
    scaled = with_times(graph, times_on(graph, setup, Setup(catalogue().accelerator("T4"), Precision.FP32)))
    changed = [
        node for node, old in zip(scaled.nodes, graph.nodes, strict=True) if node.accelerator_ms != old.accelerator_ms
    ]
    assert changed
    assert all(node.spread_ms is None for node in changed)


def test_a_graph_of_another_model_is_refused() -> None:
    net = Draft()
    net.call("neg", "y", (2,), "other", self=net.user("x", 2))
    graph = net.imported().graph
    with pytest.raises(SourceError, match="The graph's nodes are not those of this model"):
        with_measured_times(graph, two_blocks().document(), TIMINGS, into="accelerator", origin=ORIGIN)


def test_what_a_call_for_no_gradient_takes_is_no_part_of_a_backward_pass() -> None:
    calls = {
        "product": [Call([Taken(1.0, 1.0)] * 3, [Taken(5.0, 5.0), Taken(6.0, 6.0), Taken(8.0, 8.0)])],
        "sum": [Call([Taken(1.0, 1.0)] * 3, [Taken(0.2, 0.2)] * 3)],
        "mask": [Call([Taken(0.5, 0.5)] * 3)],
    }
    empty = [Taken(0.1, 0.1), Taken(0.5, 0.5), Taken(9.0, 9.0)]
    found = timings_of(calls, empty, is_alone=True)
    assert found["product"] == [Timing(Spread(1.0, 0.0), Spread(5.5, 1.5))]
    assert found["sum"] == [Timing(Spread(1.0, 0.0), Spread(0.0, 0.0))], "nothing takes less than no time"
    assert found["mask"] == [Timing(Spread(0.5, 0.0), None)]


def test_a_single_thread_that_waits_counts_with_its_processor_time() -> None:
    calls = {"a": [Call([Taken(10.0, 2.0), Taken(3.0, 2.9), Taken(4.0, 4.0)])]}
    assert timings_of(calls, [], is_alone=True)["a"][0].forward.median_ms == 3.0
    assert timings_of(calls, [], is_alone=False)["a"][0].forward.median_ms == 4.0


def test_what_a_view_takes_counts_with_the_operator_whose_output_it_is() -> None:
    net = Draft()
    weight = net.parameter("p_weight", 8, 8)
    x = net.user("x", 2, 8)
    y = net.call("linear", "product", (2, 8), "", input=x, weight=weight)
    y = net.call("view", "view", (4, 4), "", self=y, size=[4, 4])
    y = net.call("view", "again", (16,), "", self=y, size=[16])
    net.call("relu", "relu", (16,), "", self=y)
    timings = {
        "product": [Timing(Spread(4.0, 0.5), Spread(8.0, 1.0))],
        "view": [Timing(Spread(0.25, 0.125), Spread(0.5, 0.25))],
        "again": [Timing(Spread(0.125, 0.0), None)],
        "relu": [Timing(Spread(1.0, 0.0), Spread(2.0, 0.0))],
    }
    graph = net.imported(level=Level.OPERATORS, mode=Mode.TRAINING).graph
    found = with_measured_times(graph, net.document(), timings, into="accelerator", origin=ORIGIN)
    times = {node.name: (node.accelerator_ms, node.spread_ms) for node in found.nodes}
    assert times["product"] == (4.375, 0.625)
    assert times["product backward"] == (8.5, 1.25)
    assert (times["relu"], times["relu backward"]) == ((1.0, 0.0), (2.0, 0.0))
