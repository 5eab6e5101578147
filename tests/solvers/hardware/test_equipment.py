"""Graphs put on devices of the catalogue: one kind of accelerator, or several with a class each."""

from dataclasses import replace

import pytest

from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import CatalogueError, Precision
from solvers.hardware.equipment import Equipment, Equipped, Group, equip, group_names, precision_of
from solvers.hardware.roofline import Efficiency, moved_bytes
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph, Edge, Node, TimesKind, TimesOrigin
from solvers.model.split import Split
from solvers.samples import read_sample

DEVICES = catalogue()
T4, A100, H100, TPU = map(DEVICES.accelerator, ("T4", "A100-80", "H100-SXM", "TPU-v4"))
PCIE, NVLINK = DEVICES.link("pcie3-x16"), DEVICES.link("nvlink3")


def sample(*groups: Group, name: str = "llama3_8b_layer_inference", **others: object) -> Equipped:
    return equip(*read_sample(name), Equipment(groups, **others), DEVICES)  # type: ignore[arg-type]


def test_nothing_asked_changes_nothing() -> None:
    graph, deployment = read_sample("gnmt_layer_inference")
    assert equip(graph, deployment, Equipment(), DEVICES) == Equipped(graph, deployment)


def test_the_device_of_the_file_changes_nothing_but_digits() -> None:
    graph, deployment = read_sample("gnmt_layer_inference")
    on = sample(Group(T4, link=PCIE), name="gnmt_layer_inference")
    assert on.deployment == deployment
    assert on.graph.times == graph.times
    for before, after in zip(graph.nodes, on.graph.nodes, strict=True):
        assert after.accelerator_ms == pytest.approx(before.accelerator_ms, rel=1e-5)
        assert after.transfer_ms == pytest.approx(before.transfer_ms)


def test_one_kind_sets_times_memory_and_links() -> None:
    graph, deployment = read_sample("llama3_8b_layer_inference")
    on = sample(Group(A100, 8, NVLINK))
    assert on.deployment == replace(deployment, num_accelerators=8, memory_bytes=80e9)
    assert on.graph.bandwidth_bytes_per_ms == pytest.approx(300e6)
    moved = moved_bytes(graph)
    for before, after in zip(graph.nodes, on.graph.nodes, strict=True):
        arithmetic, memory = (before.flops or 0) / (312e9 * 0.5), (moved[before.id] or 0) / (2039e6 * 0.75)
        assert after.accelerator_ms == pytest.approx(max(arithmetic, memory))
        assert (after.cpu_ms, after.memory_bytes) == (before.cpu_ms, before.memory_bytes)
    assert on.graph.times == TimesOrigin("A100-80", "fp16", "Xeon-6148", TimesKind.ROOFLINE)
    assert on.sentences == (
        "Times on A100-80 (fp16): roofline at 50 % of peak FLOP/s and 75 % of memory bandwidth.",
        "Transfers over NVLink 3 (A100) at 300 GB/s, its raw speed.",
    )


def test_without_a_link_transfers_stay_as_they_are() -> None:
    graph, _ = read_sample("llama3_8b_layer_inference")
    on = sample(Group(H100))
    assert [node.transfer_ms for node in on.graph.nodes] == [node.transfer_ms for node in graph.nodes]


def test_the_speed_of_transfers_is_said_where_no_link_is_named() -> None:
    on = sample(Group(H100))
    assert on.sentences[1:] == (
        "Transfers of H100-SXM over links as in the file, 12.6 GB/s; "
        "name one of its own, such as nvlink4 or pcie5-x16, to change that.",
    )
    l40s = DEVICES.accelerator("L40S")
    links = dict(sample(Group(H100, 1, DEVICES.link("nvlink4")), Group(l40s, 1)).links)
    assert links["H100-SXM"].startswith("Transfers over NVLink 4 (H100, H200) at 450 GB/s")
    assert links["L40S"].startswith("Transfers of L40S over links as in the file, 12.6 GB/s; name one of its own, such")
    (without,) = (sentence for _, sentence in sample(Group(TPU)).links)
    assert without.endswith("12.6 GB/s; name one to change that.")
    times = TimesOrigin("T4")
    (_, unknown), *_ = equip(MEASURED, Deployment(1), Equipment((Group(T4),), times=times), DEVICES).links
    assert unknown.startswith("Transfers of T4 take as long as in the file, which has no consistent bytes")


def test_a_link_that_others_have_is_taken_with_a_remark() -> None:
    nvlink4, ethernet = DEVICES.link("nvlink4"), DEVICES.link("ethernet-100")
    on = sample(Group(T4, link=nvlink4))
    assert on.graph.bandwidth_bytes_per_ms == pytest.approx(450e6)
    assert on.remarks == ("The catalogue does not list nvlink4 for T4, only pcie3-x16.",)
    assert sample(Group(TPU, link=nvlink4)).remarks[0].endswith("does not list nvlink4 for TPU-v4, nor any other.")
    for group in (Group(T4, link=PCIE), Group(T4, link=ethernet), Group(T4)):
        assert sample(group).remarks == ()


def test_the_speed_of_all_ports_together_is_said_to_be_that() -> None:
    mi300x = DEVICES.accelerator("MI300X")
    together, one = (sample(Group(mi300x, link=DEVICES.link(f"infinity-fabric{end}"))) for end in ("", "-1"))
    assert (
        "448 GB/s, its raw speed, of all ports together; to one neighbour it is infinity-fabric-1."
        in (together.sentences[1])
    )
    assert one.sentences[1].endswith("to one neighbour at 64 GB/s, its raw speed.")


@pytest.mark.parametrize(
    ("name", "precision", "changes_bytes"),
    [("V100-32", "fp32", True), ("H100-SXM", "fp8", True), ("A100-80", "bf16", False), ("A100-80", "fp16", False)],
)
def test_a_precision_whose_bytes_are_not_the_files_is_remarked(name: str, precision: str, changes_bytes: bool) -> None:
    """The samples are in fp16, two bytes a number."""
    on = sample(Group(DEVICES.accelerator(name), precision=Precision(precision)))
    graph, _ = read_sample("llama3_8b_layer_inference")
    assert [node.memory_bytes for node in on.graph.nodes] == [node.memory_bytes for node in graph.nodes]
    said = (
        f"Only the peak of {name} is that of {precision}: bytes, and with them memory and transfers, "
        "stay those of the file, in fp16."
    )
    assert on.remarks == ((said,) if changes_bytes else ())
    assert (said in on.sentences) is changes_bytes


def test_several_kinds_are_classes_with_times_memory_and_links_of_their_own() -> None:
    on = sample(Group(A100, 2, NVLINK), Group(T4, 4, PCIE))
    deployment, graph = on.deployment, on.graph
    assert [(c.name, c.count, c.memory_bytes) for c in deployment.classes] == [("A100-80", 2, 80e9), ("T4", 4, 16e9)]
    assert (deployment.num_accelerators, deployment.memory_bytes) == (6, None)
    assert deployment.classes[1].link_speed == pytest.approx(12.6 / 300)
    assert (
        65 / 312 <= deployment.classes[1].speed <= 320 / 2039 or 320 / 2039 <= deployment.classes[1].speed <= 65 / 312
    )
    on_a100, on_t4 = sample(Group(A100, 6, NVLINK)).graph, sample(Group(T4, 6, PCIE)).graph
    for node, fast, slow in zip(graph.nodes, on_a100.nodes, on_t4.nodes, strict=True):
        assert node.accelerator_ms == node.time_on("A100-80") == fast.accelerator_ms
        assert node.time_on("T4") == slow.accelerator_ms
        assert node.transfer_ms == fast.transfer_ms
        assert node.transfer_ms / deployment.classes[1].link_speed == pytest.approx(slow.transfer_ms)


def test_times_of_classes_that_were_computed_are_computed_anew() -> None:
    """A file written for one efficiency is no measurement for another."""
    groups = (Group(A100, 1, NVLINK), Group(T4, 1, PCIE))
    once = sample(*groups)
    slower = Equipment(groups, efficiency=Efficiency(0.25, 0.375))
    again = equip(once.graph, once.deployment, slower, DEVICES).graph
    for before, after in zip(once.graph.nodes, again.nodes, strict=True):
        for name in ("A100-80", "T4"):
            assert after.time_on(name) == pytest.approx(2 * (before.time_on(name) or 0.0))


def test_the_evaluator_gives_each_class_the_load_it_has_alone() -> None:
    ids = [node.id for node in read_sample("llama3_8b_layer_inference")[0].nodes]
    half = frozenset(ids[: len(ids) // 2]), frozenset(ids[len(ids) // 2 :])
    mixed = sample(Group(A100, 1, NVLINK), Group(T4, 1, PCIE))
    loads = [device.load_ms for device in split_costs(mixed.graph, mixed.deployment, Split(half, ())).devices[:2]]
    for d, group in enumerate((Group(A100, 2, NVLINK), Group(T4, 2, PCIE))):
        alone = sample(group)
        assert loads[d] == pytest.approx(split_costs(alone.graph, alone.deployment, Split(half, ())).devices[d].load_ms)


def test_a_group_without_a_link_keeps_the_files_beside_one_that_has_one() -> None:
    own = read_sample("llama3_8b_layer_inference")[0].bandwidth_bytes_per_ms
    assert own is not None
    first, second = sample(Group(A100, 1, NVLINK), Group(T4, 1)).deployment.classes
    assert (first.link_speed, second.link_speed) == (1.0, pytest.approx(own / 300e6))
    on = sample(Group(T4, 1), Group(A100, 1, NVLINK))
    assert on.graph.bandwidth_bytes_per_ms == pytest.approx(own)
    assert on.deployment.classes[1].link_speed == pytest.approx(300e6 / own)


def test_groups_of_one_accelerator_have_names_of_their_own() -> None:
    groups = (Group(A100, 1, NVLINK), Group(A100, 1, PCIE), Group(A100, 1, PCIE))
    assert group_names(groups) == ("A100-80", "A100-80 pcie3-x16", "A100-80 pcie3-x16 b")
    assert len(sample(*groups).deployment.classes) == 3


def test_precision_is_that_of_the_file_where_the_device_has_it() -> None:
    half = TimesOrigin("T4", "fp16")
    assert precision_of(Group(A100), half) is Precision.FP16
    assert precision_of(Group(A100), None) is Precision.BF16
    assert precision_of(Group(TPU), half) is Precision.BF16
    assert precision_of(Group(A100, precision=Precision.TF32), half) is Precision.TF32
    assert sample(Group(H100, precision=Precision.FP8)).graph.times == TimesOrigin(
        "H100-SXM", "fp8", "Xeon-6148", TimesKind.ROOFLINE
    )


def test_efficiency_of_one_half_doubles_what_arithmetic_limits() -> None:
    full, half = (sample(Group(A100), efficiency=Efficiency(compute, 1.0)).graph.nodes for compute in (1.0, 0.5))
    flops = [node.flops for node in full]
    dense = flops.index(max(flops, key=lambda value: value or 0))
    assert half[dense].accelerator_ms == pytest.approx(2 * full[dense].accelerator_ms)


def test_a_host_changes_times_of_cpus_only() -> None:
    graph, deployment = read_sample("gnmt_layer_inference")
    on = sample(name="gnmt_layer_inference", host=DEVICES.host("epyc-9654"))
    assert on.deployment == deployment
    for before, after in zip(graph.nodes, on.graph.nodes, strict=True):
        assert after.accelerator_ms == before.accelerator_ms
        if before.cpu_ms:
            assert 0.27 < after.cpu_ms / before.cpu_ms < 0.28  # 2.048 / 7.373 and 128 / 460.8 are nearly the same
    assert on.graph.times == TimesOrigin("T4", "fp16", "EPYC-9654", TimesKind.ROOFLINE)


MEASURED = DnnGraph((Node(1, 4.0, 9.0, transfer_ms=1.0), Node(2, 2.0, 9.0)), (Edge(1, 2),))


def test_measured_times_are_scaled_once_it_is_told_what_they_are_for() -> None:
    asked = Equipment((Group(A100, precision=Precision.FP16),))
    with pytest.raises(CatalogueError, match="does not say which device"):
        equip(MEASURED, Deployment(2), asked, DEVICES)
    on = equip(MEASURED, Deployment(2), replace(asked, times=TimesOrigin("T4", "fp16")), DEVICES)
    assert [node.accelerator_ms for node in on.graph.nodes] == pytest.approx([4 * 65 / 312, 2 * 65 / 312])
    assert on.graph.times == TimesOrigin("A100-80", "fp16", kind=TimesKind.SCALED)
    assert "× 0.208, the ratio of peaks" in on.sentences[0]


def test_what_is_told_of_the_times_beats_what_the_file_says() -> None:
    graph = replace(MEASURED, times=TimesOrigin("A100-80", "fp16", "Xeon-6148"))
    told = Equipment((Group(A100),), times=TimesOrigin("T4", "fp16"))
    assert equip(graph, Deployment(1), told, DEVICES).graph.nodes[0].accelerator_ms == pytest.approx(4 * 65 / 312)
    unchanged = equip(graph, Deployment(1), Equipment((Group(A100),)), DEVICES)
    assert unchanged.graph.nodes[0].accelerator_ms == 4.0


def test_a_link_needs_bytes_on_the_edges() -> None:
    asked = Equipment((Group(T4, link=PCIE),), times=TimesOrigin("T4"))
    with pytest.raises(PlacementError, match="no consistent bytes on its edges, so pcie3-x16 says nothing"):
        equip(MEASURED, Deployment(1), asked, DEVICES)


def test_what_a_device_of_a_cluster_lacks_is_named() -> None:
    with pytest.raises(CatalogueError, match="T4 has no published peak in bf16"):
        sample(Group(A100, 1, precision=Precision.BF16), Group(T4, 1, precision=Precision.BF16))
    with pytest.raises(CatalogueError, match="no count of T4"):
        sample(Group(A100, 1), Group(T4))
