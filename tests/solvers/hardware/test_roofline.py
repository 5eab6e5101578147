"""Times on other devices: computed where flops and bytes are known, scaled where they were measured."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.formats.graph_json import graph_document, parse_graph
from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import CatalogueError, Precision
from solvers.hardware.roofline import (
    Basis,
    Efficiency,
    Setup,
    host_origin_of,
    host_times_on,
    moved_bytes,
    origin_of,
    times_on,
    with_class_times,
    with_host_times,
    with_times,
)
from solvers.model.graph import DnnGraph, Edge, Node, TimesKind, TimesOrigin
from solvers.samples import read_sample, sample_names

DEVICES = catalogue()
T4 = Setup(DEVICES.accelerator("T4"), Precision.FP16)
A100 = Setup(DEVICES.accelerator("A100-80"), Precision.FP16)
H100 = Setup(DEVICES.accelerator("H100-SXM"), Precision.BF16)
XEON = Setup(DEVICES.host("Xeon-6148"), Precision.FP32)
MODELS = [name for name in sample_names() if not name.startswith("teaching")]

MATMUL = Node(1, 4.0, 50.0, flops=1e12, traffic_bytes=1e6, transfer_ms=1.0)
COPY = Node(2, 2.0, 5.0, flops=0.0, traffic_bytes=1e9, transfer_ms=1.0)
BLIND = Node(3, 3.0, 30.0, transfer_ms=1.0)
GRAPH = DnnGraph((MATMUL, COPY, BLIND), (Edge(1, 2), Edge(2, 3)))
PEAKS = 65 / 312
BANDWIDTHS = 320 / 2039


def test_the_roofline_is_the_larger_of_arithmetic_and_traffic() -> None:
    efficiency = Efficiency(0.25, 0.5)
    setup = Setup(DEVICES.accelerator("T4"), Precision.FP16, efficiency)
    assert setup.roofline_ms(65e9 * 0.25, 0) == pytest.approx(1.0)
    assert setup.roofline_ms(0, 320e6 * 0.5) == pytest.approx(1.0)
    assert setup.roofline_ms(3 * 65e9 * 0.25, 2 * 320e6 * 0.5) == pytest.approx(3.0)
    assert setup.is_memory_bound(1.0, 1e6)
    assert not setup.is_memory_bound(1e12, 1.0)


@given(st.floats(0, 1e15), st.floats(0, 1e12), st.floats(1.0, 100.0))
def test_a_roofline_scales_with_the_work_and_never_beats_either_limit(flops: float, moved: float, times: float) -> None:
    once = A100.roofline_ms(flops, moved)
    assert A100.roofline_ms(times * flops, times * moved) == pytest.approx(times * once)
    assert once >= flops / A100.processor.peak_flops_per_ms(Precision.FP16)
    assert once >= moved / A100.processor.bandwidth_bytes_per_ms
    assert once <= T4.roofline_ms(flops, moved)


@pytest.mark.parametrize("shares", [(0, 0.5), (0.5, 0), (1.01, 0.5), (0.5, float("nan"))])
def test_an_efficiency_is_a_share(shares: tuple[float, float]) -> None:
    with pytest.raises(CatalogueError, match="give a share above 0 and up to 1"):
        Efficiency(*shares)


def test_a_setup_needs_a_peak() -> None:
    with pytest.raises(CatalogueError, match="T4 has no published peak in bf16"):
        Setup(DEVICES.accelerator("T4"), Precision.BF16)


@pytest.mark.parametrize("name", MODELS)
def test_samples_take_on_their_own_devices_what_their_files_say(name: str) -> None:
    graph, _ = read_sample(name)
    assert graph.times is not None
    origin, host = origin_of(graph.times, DEVICES), host_origin_of(graph.times, DEVICES)
    assert (origin, host) == (T4, XEON)
    again, on_host = times_on(graph, T4, origin), host_times_on(graph, XEON, host)
    assert set(again.basis.values()) == {Basis.ROOFLINE}
    for node in graph.nodes:
        assert again.ms[node.id] == pytest.approx(node.accelerator_ms, rel=1e-5)
        assert on_host.ms[node.id] == pytest.approx(node.cpu_ms, rel=1e-5)


def test_what_a_faster_device_gains_lies_between_its_peak_and_its_bandwidth() -> None:
    graph, _ = read_sample("gpt2_xl_layer_training")
    on = times_on(graph, A100, T4)
    for node in graph.nodes:
        if node.accelerator_ms:
            ratio = on.ms[node.id] / node.accelerator_ms
            assert BANDWIDTHS * (1 - 1e-5) <= ratio <= PEAKS * (1 + 1e-5)


# Measured times.


def test_measured_times_are_scaled_by_the_rooflines_of_their_nodes_or_by_the_peaks() -> None:
    on = times_on(GRAPH, A100, T4)
    assert on.ms == pytest.approx({1: 4.0 * PEAKS, 2: 2.0 * BANDWIDTHS, 3: 3.0 * PEAKS})
    assert on.basis == {1: Basis.SCALED, 2: Basis.SCALED, 3: Basis.SCALED_BY_PEAK}
    assert on.factor == pytest.approx((BANDWIDTHS, PEAKS))
    assert on.sentence() == (
        "Times on A100-80 (fp16): the file's times on T4 (fp16) × 0.157 to 0.208, the ratio of rooflines and peaks."
    )


def test_measured_times_on_the_device_that_is_asked_for_stay_as_they_are() -> None:
    on = times_on(GRAPH, T4, T4)
    assert on.ms == {1: 4.0, 2: 2.0, 3: 3.0}
    assert on.factor is None
    assert on.sentence() == "Times on T4 (fp16): as the file has them."


def test_scaling_there_and_back_changes_nothing() -> None:
    there = times_on(GRAPH, H100, T4)
    back = times_on(with_times(GRAPH, there), T4, H100)
    assert back.ms == pytest.approx({node.id: node.accelerator_ms for node in GRAPH.nodes})


def test_a_time_measured_on_a_class_wins() -> None:
    nodes = (replace(MATMUL, class_ms=(("A100", 0.7),)), COPY, BLIND)
    on = times_on(GRAPH.with_nodes(nodes), A100, T4, class_name="A100")
    assert (on.ms[1], on.basis[1]) == (0.7, Basis.KNOWN)
    assert on.ms[2] == pytest.approx(2.0 * BANDWIDTHS)
    assert "known for 1 node; the file's times on T4 (fp16)" in on.sentence()


def test_roofline_times_on_request_leave_out_measured_ones() -> None:
    on = times_on(GRAPH, A100, T4, roofline_only=True)
    assert on.ms[1] == pytest.approx(1e12 / (312e9 * 0.5))
    assert on.ms[2] == pytest.approx(1e9 / (2039e6 * 0.75))
    assert on.ms[3] == pytest.approx(3.0 * PEAKS)
    assert on.basis == {1: Basis.ROOFLINE, 2: Basis.ROOFLINE, 3: Basis.SCALED_BY_PEAK}
    assert on.sentence() == (
        "Times on A100-80 (fp16): roofline at 50 % of peak FLOP/s and 75 % of memory bandwidth for 2 nodes; the file's "
        "times on T4 (fp16) × 0.208, the ratio of peaks, for 1 node."
    )


def test_computed_times_are_computed_anew_and_not_scaled() -> None:
    computed = replace(GRAPH, times=TimesOrigin("T4", "fp16", kind=TimesKind.ROOFLINE))
    on = times_on(computed, A100, T4)
    assert on.ms[1] == pytest.approx(1e12 / (312e9 * 0.5))
    assert on.basis[1] is Basis.ROOFLINE


def test_times_of_an_unknown_device_cannot_be_scaled() -> None:
    with pytest.raises(CatalogueError, match="does not say which device its times were measured on"):
        times_on(GRAPH, A100, None)
    with pytest.raises(CatalogueError, match="Some nodes have no flops or no bytes"):
        times_on(GRAPH, A100, None, roofline_only=True)
    known = DnnGraph((MATMUL, COPY), (Edge(1, 2),))
    assert times_on(known, A100, None, roofline_only=True).origin is None


def test_an_origin_that_is_in_no_catalogue_is_named() -> None:
    assert origin_of(None, DEVICES) is None
    assert origin_of(TimesOrigin(host="Xeon-6148"), DEVICES) is None
    assert host_origin_of(TimesOrigin("T4"), DEVICES) is None
    assert origin_of(TimesOrigin("T4"), DEVICES) == T4  # its usual precision
    with pytest.raises(CatalogueError, match='no accelerator "FPGA"'):
        origin_of(TimesOrigin("FPGA"), DEVICES)
    with pytest.raises(CatalogueError, match='"fp12" is no precision'):
        origin_of(TimesOrigin("T4", "fp12"), DEVICES)


# Bytes.


def test_bytes_are_weights_inputs_and_output_where_a_node_does_not_know_its_traffic() -> None:
    nodes = tuple(Node(v, 1.0, 1.0, transfer_ms=1.0, parameter_bytes=10.0 * v) for v in (1, 2, 3))
    graph = DnnGraph(nodes, (Edge(1, 2, 100.0), Edge(1, 3, 100.0), Edge(2, 3, 7.0)))
    assert moved_bytes(graph) == {1: 10 + 100, 2: 20 + 100 + 7, 3: 30 + 107}
    assert moved_bytes(graph.with_nodes((*nodes[:2], replace(nodes[2], traffic_bytes=5.0))))[3] == 5.0


def test_bytes_that_cannot_be_told_are_none() -> None:
    nodes = (Node(1, 1.0, 1.0, transfer_ms=1.0), Node(2, 1.0, 1.0, parameter_bytes=4.0))
    assert moved_bytes(DnnGraph(nodes, (Edge(1, 2, 8.0),))) == {1: None, 2: 12.0}
    assert moved_bytes(DnnGraph(nodes, (Edge(1, 2),))) == {1: None, 2: None}


def test_a_backward_node_reads_the_weights_of_its_class_and_writes_their_gradient() -> None:
    forward = Node(1, 1.0, 1.0, transfer_ms=1.0, colocation_class=1, parameter_bytes=10.0)
    backward = Node(2, 1.0, 1.0, is_backward=True, colocation_class=1, parameter_bytes=0.0)
    assert moved_bytes(DnnGraph((forward, backward), (Edge(1, 2, 3.0),)))[2] == 2 * 10 + 3


@pytest.mark.parametrize("name", MODELS)
def test_derived_bytes_are_near_those_of_the_generators(name: str) -> None:
    """Samples know their traffic. Where a node is an operator it is found again; fused layers have more within."""
    graph, _ = read_sample(name)
    known = sum(node.traffic_bytes or 0.0 for node in graph.nodes)
    derived = moved_bytes(graph.with_nodes(tuple(replace(node, traffic_bytes=None) for node in graph.nodes)))
    assert None not in derived.values()
    ratio = sum(traffic or 0.0 for traffic in derived.values()) / known
    assert 0.9 < ratio < 1.1 if "operator" in name else 0.1 < ratio < 1.0


# Graphs with other times.


def test_times_go_where_they_belong_and_nothing_else_changes() -> None:
    origin = TimesOrigin("T4", "fp16", "Xeon-6148")
    graph = replace(GRAPH, times=origin)
    on = times_on(graph, A100, T4)
    changed = with_class_times(with_times(graph, on), "A100", on)
    changed = with_host_times(changed, host_times_on(graph, Setup(DEVICES.host("EPYC-9654"), Precision.FP32), XEON))
    for before, after in zip(graph.nodes, changed.nodes, strict=True):
        assert after.time_on("A100") == after.accelerator_ms == on.ms[before.id]
        assert after.cpu_ms < before.cpu_ms
        assert replace(after, accelerator_ms=before.accelerator_ms, cpu_ms=before.cpu_ms, class_ms=()) == before
    assert (changed.edges, changed.times) == (graph.edges, origin)


def test_a_file_keeps_what_its_times_are_for() -> None:
    graph, deployment = read_sample("gnmt_layer_training")
    for times in (
        graph.times,
        TimesOrigin("A100-80", "bf16"),
        TimesOrigin(host="EPYC-7763", kind=TimesKind.SCALED),
        None,
    ):
        document = graph_document(replace(graph, times=times), deployment)
        read, _ = parse_graph(json.dumps(document))
        assert read.times == times
        assert [node.traffic_bytes for node in read.nodes] == [node.traffic_bytes for node in graph.nodes]
