"""The catalogue of devices: what ships is complete and plausible, and files of users are read or refused in words."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from solvers.hardware.catalogue import NAME, UNKNOWN_SOURCE, catalogue, parse_catalogue, read_catalogue
from solvers.hardware.devices import CatalogueError, HostCpu, Link, Precision, Processor

SHIPPED = catalogue()
EVERYTHING: list[Processor | Link] = [*SHIPPED.accelerators, *SHIPPED.hosts, *SHIPPED.links]
PROCESSORS: list[Processor] = [*SHIPPED.accelerators, *SHIPPED.hosts]
DENSE = (Precision.BF16, Precision.FP16)


def by_name(entry: Processor | Link) -> str:
    return entry.name


def half_precision_peak(name: str) -> float:
    device = SHIPPED.accelerator(name)
    return device.peak_flops_per_ms(device.usual_precision)


@pytest.mark.parametrize("entry", EVERYTHING, ids=by_name)
def test_every_figure_has_a_source_that_says_how_it_was_read(entry: Processor | Link) -> None:
    assert entry.figures
    for figure in entry.figures:
        assert figure.value > 0
        assert figure.source.title
        assert figure.source.title != UNKNOWN_SOURCE
        assert figure.source.url.startswith("https://")
        assert figure.source.verified in ("yes", "second-hand", "from memory")
        assert figure.source.seen or figure.source.verified == "from memory"


def test_names_are_unique_and_fit_into_lists_and_addresses() -> None:
    names = [entry.name.lower() for entry in EVERYTHING]
    assert len(set(names)) == len(names)
    assert all(NAME.fullmatch(entry.name) for entry in EVERYTHING)


def test_the_devices_that_people_ask_for_are_there() -> None:
    for name in [
        "A100-40",
        "A100-80",
        "H100-SXM",
        "H100-PCIe",
        "H200",
        "B200",
        "MI300X",
        "L4",
        "L40S",
        "T4",
        "V100-16",
        "V100-32",
        "RTX-4090",
    ]:
        assert SHIPPED.accelerator(name.lower()).name == name
    for name in ["TPU-v4", "TPU-v5e", "TPU-v5p", "Gaudi-3", "A10G", "A100-80-PCIe"]:
        assert SHIPPED.accelerator(name).name == name
    for name in [
        "nvlink3",
        "nvlink4",
        "nvlink5",
        "pcie3-x16",
        "pcie4-x16",
        "pcie5-x16",
        "ethernet-10",
        "ethernet-100",
        "ethernet-400",
    ]:
        assert SHIPPED.link(name).name == name
    assert SHIPPED.link("InfiniBand-HDR").raw_bytes_per_ms * 2 == SHIPPED.link("infiniband-ndr").raw_bytes_per_ms
    assert {host.name.partition("-")[0] for host in SHIPPED.hosts} == {"Xeon", "EPYC"}


def test_links_of_accelerators_are_in_the_catalogue_the_fastest_first() -> None:
    for device in SHIPPED.accelerators:
        speeds = [SHIPPED.link(name).bandwidth_bytes_per_ms for name in device.links]
        assert speeds == sorted(speeds, reverse=True), device.name


@pytest.mark.parametrize("device", SHIPPED.accelerators, ids=by_name)
def test_figures_are_of_the_right_size_for_their_units(device: Processor) -> None:
    assert 8e9 <= device.memory_bytes <= 1e12
    assert 0.2e9 <= device.bandwidth_bytes_per_ms <= 20e9  # 0.2 to 20 TB/s
    for precision in device.precisions:
        assert 5e9 <= device.peak_flops_per_ms(precision) <= 10_000e9  # 5 TFLOP/s to 10 PFLOP/s
    assert 2015 <= device.year <= 2026


@pytest.mark.parametrize("host", SHIPPED.hosts, ids=by_name)
def test_hosts_are_slower_than_accelerators(host: HostCpu) -> None:
    assert host.precisions == (Precision.FP32,)
    slowest = min(device.bandwidth_bytes_per_ms for device in SHIPPED.accelerators)
    assert 0.05e9 <= host.bandwidth_bytes_per_ms <= 0.6e9
    assert host.bandwidth_bytes_per_ms < 2 * slowest
    assert host.peak_flops_per_ms(Precision.FP32) < min(half_precision_peak(d.name) for d in SHIPPED.accelerators)


def test_a_hosts_figures_are_those_of_its_cores_and_channels() -> None:
    derived = {
        "Xeon-6148": (20 * 64 * 1.6, 6 * 8 * 2.666),
        "Xeon-8380": (40 * 64 * 2.3, 8 * 8 * 3.2),
        "Xeon-8480": (56 * 64 * 2.0, 8 * 8 * 4.8),
        "EPYC-7763": (64 * 32 * 2.45, 8 * 8 * 3.2),
        "EPYC-9654": (96 * 32 * 2.4, 12 * 8 * 4.8),
    }
    assert {host.name for host in SHIPPED.hosts} == set(derived)
    for host in SHIPPED.hosts:
        gflops, gb_per_s = derived[host.name]
        assert host.peak_flops_per_ms(Precision.FP32) == pytest.approx(gflops * 1e6, rel=1e-3)
        assert host.bandwidth_bytes_per_ms == pytest.approx(gb_per_s * 1e6, rel=1e-3)


def test_generations_gain_what_the_field_knows_they_gained() -> None:
    assert half_precision_peak("A100-80") / half_precision_peak("V100-32") == pytest.approx(2.5, rel=0.01)
    assert half_precision_peak("H100-SXM") / half_precision_peak("A100-80") == pytest.approx(3.17, rel=0.01)
    assert half_precision_peak("B200") / half_precision_peak("H100-SXM") == pytest.approx(2.27, rel=0.01)
    assert half_precision_peak("L4") / half_precision_peak("T4") == pytest.approx(1.86, rel=0.01)
    assert half_precision_peak("TPU-v5p") / half_precision_peak("TPU-v4") == pytest.approx(1.67, rel=0.01)
    assert half_precision_peak("Gaudi-3") / half_precision_peak("Gaudi-2") == pytest.approx(4.2, rel=0.02)


def test_memory_bandwidth_grows_from_card_to_card() -> None:
    order = ["T4", "A10G", "L40S", "V100-32", "A100-40", "A100-80", "H100-SXM", "H200", "MI300X", "MI325X", "B200"]
    speeds = [SHIPPED.accelerator(name).bandwidth_bytes_per_ms for name in order]
    assert all(slower < faster for slower, faster in pairwise(speeds))
    # An L4 has even less than the T4 it follows.
    assert SHIPPED.accelerator("L4").bandwidth_bytes_per_ms < SHIPPED.accelerator("T4").bandwidth_bytes_per_ms


@pytest.mark.parametrize("device", SHIPPED.accelerators, ids=by_name)
def test_peaks_are_dense_and_double_as_the_width_halves(device: Processor) -> None:
    peak = dict(device.peaks)
    for precision in peak:
        # At their peaks, from 50 to 700 flops must be done for each byte read, or memory is the limit.
        if precision in DENSE:
            assert 50 <= device.ridge_flops_per_byte(precision) <= 700
    if set(DENSE) <= set(peak):
        assert peak[Precision.BF16] == peak[Precision.FP16]
    for wide, narrow in ((Precision.TF32, Precision.FP16), (Precision.FP16, Precision.FP8)):
        if wide in peak and narrow in peak:
            assert 1.9 <= peak[narrow] / peak[wide] <= 2.1  # 4 where one is sparse and the other is not


def test_links_carry_less_than_they_signal_and_each_generation_doubles() -> None:
    for link in SHIPPED.links:
        assert 0.7 * link.raw_bytes_per_ms <= link.bandwidth_bytes_per_ms <= link.raw_bytes_per_ms
    for older, newer in (("pcie3-x16", "pcie4-x16"), ("pcie4-x16", "pcie5-x16"), ("nvlink4", "nvlink5")):
        assert SHIPPED.link(newer).raw_bytes_per_ms == 2 * SHIPPED.link(older).raw_bytes_per_ms
    assert SHIPPED.link("pcie3-x16").raw_bytes_per_ms == pytest.approx(8e9 * 16 * 128 / 130 / 8 / 1e3, rel=1e-3)
    assert SHIPPED.link("ethernet-10").bandwidth_bytes_per_ms == pytest.approx(10e9 / 8 / 1e3 * 1460 / 1538, rel=1e-3)


def test_links_of_tpus_are_of_one_direction() -> None:
    """Google prints both directions together: 400, 1,200 and 800 GB/s for v5e, v5p and v6e."""
    for name, both_ways in (("ici-v5e", 400), ("ici-v5p", 1200), ("ici-v6e", 800)):
        assert SHIPPED.link(name).raw_bytes_per_ms == pytest.approx(both_ways / 2 * 1e6)


def test_a_link_to_one_neighbour_is_its_share_of_the_ports() -> None:
    """A mesh of eight has seven links each; a torus of two or three axes has four or six; Gaudi 3 has 24 ports."""
    shares = {"infinity-fabric": 7, "ici-v5e": 4, "ici-v5p": 6, "ici-v6e": 4, "gaudi3-roce": 24 / 3}
    assert {link.name for link in SHIPPED.links if link.to_one} == set(shares)
    for name, share in shares.items():
        link = SHIPPED.link(name)
        one = SHIPPED.link(link.to_one)
        assert one.raw_bytes_per_ms * share == pytest.approx(link.raw_bytes_per_ms)
        assert not one.to_one
        for device in SHIPPED.accelerators:
            assert (one.name in device.links) is (name in device.links)


def test_a_precision_that_a_device_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(CatalogueError, match="T4 has no published peak in bf16; it has one in fp32, fp16, int8"):
        SHIPPED.accelerator("T4").peak_flops_per_ms(Precision.BF16)
    assert SHIPPED.accelerator("T4").usual_precision is Precision.FP16
    assert SHIPPED.accelerator("TPU-v4").usual_precision is Precision.BF16


@pytest.mark.parametrize("look_up", [SHIPPED.accelerator, SHIPPED.host, SHIPPED.link])
def test_a_name_that_is_none_is_an_error_that_lists_the_names(look_up: Any) -> None:
    with pytest.raises(CatalogueError, match=r'There is no .* "X200<script>" in the catalogue; it has \w'):
        look_up("X200<script>")


# Files of users.

MINE = {
    "name": "Mine-1",
    "memoryGB": 12,
    "memoryBandwidthGBs": 500,
    "peakTFLOPs": {"fp32": 10, "fp16": 40},
}


def test_a_device_of_a_user_comes_last_and_says_that_it_is_theirs() -> None:
    read = parse_catalogue(json.dumps({"accelerators": [MINE]}))
    assert read.accelerators[:-1] == SHIPPED.accelerators
    mine = read.accelerators[-1]
    assert (mine.name, mine.title, mine.memory_bytes) == ("Mine-1", "Mine-1", 12e9)
    assert mine.peak_flops_per_ms(Precision.FP16) == 40e9
    assert {figure.source.title for figure in mine.figures} == {UNKNOWN_SOURCE}


def test_a_user_may_change_one_figure_of_a_device_and_keep_the_rest() -> None:
    text = {"accelerators": [{"name": "t4", "memoryBandwidthGBs": 300, "peakTFLOPs": {"fp16": 60}}]}
    read = parse_catalogue(json.dumps(text))
    before, after = SHIPPED.accelerator("T4"), read.accelerator("T4")
    assert (after.name, after.memory_bytes, after.title) == (before.name, before.memory_bytes, before.title)
    assert after.bandwidth_bytes_per_ms == 300e6
    assert dict(after.peaks) == {**dict(before.peaks), Precision.FP16: 60e9}
    sources = {figure.name: figure.source.title for figure in after.figures}
    assert sources["memoryBandwidthGBs"] == sources["fp16"] == UNKNOWN_SOURCE
    assert sources["memoryGB"] == before.figures[0].source.title


def test_sources_of_a_user_are_kept() -> None:
    source = {"title": "Our own measurement", "url": "https://example.org"}
    text = {"sources": {"lab": source}, "links": [{"name": "ours", "rawGBs": 3, "source": "lab"}]}
    link = parse_catalogue(json.dumps(text)).link("ours")
    assert link.figures[0].source.title == "Our own measurement"
    assert link.bandwidth_bytes_per_ms == 3e6


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "no JSON object"),
        ({"accelerator": []}, 'has a field "accelerator"; it may have accelerators, hosts, links'),
        ({"version": 2}, "of version 2; this program reads version 1"),
        ({"accelerators": {}}, "'accelerators' must be a list"),
        ({"accelerators": [1]}, r"accelerators\[0\] is no object"),
        ({"accelerators": [{}]}, r"accelerators\[0\]: the name is null; give a letter"),
        ({"accelerators": [{**MINE, "name": "2x"}]}, 'the name is "2x"'),
        ({"accelerators": [{**MINE, "name": "a+b"}]}, r'the name is "a\+b"'),
        ({"accelerators": [MINE, {**MINE, "name": "mine-1"}]}, 'the name "mine-1" is used twice'),
        ({"accelerators": [{"name": "Mine"}]}, "accelerators, Mine: 'memoryGB' is missing; give a number"),
        ({"accelerators": [{**MINE, "memoryGB": "80"}]}, "'memoryGB' is \"80\"; give a number"),
        ({"accelerators": [{**MINE, "memoryGB": True}]}, "'memoryGB' is true"),
        ({"accelerators": [{**MINE, "memoryGB": -1}]}, "'memoryGB' is -1"),
        ({"accelerators": [{**MINE, "memoryGB": 1e12}]}, r"'memoryGB' is 1000000000000.0; .* up to 1,000,000,000"),
        ({"accelerators": [{**MINE, "peakTFLOPs": {}}]}, "'peakTFLOPs' must be an object of dense peaks"),
        ({"accelerators": [{**MINE, "peakTFLOPs": {"fp12": 1}}]}, '"fp12" is no precision; give some of fp32'),
        ({"accelerators": [{**MINE, "peakTFLOPs": {"fp16": None}}]}, "'fp16' is missing"),
        ({"accelerators": [{**MINE, "links": "nvlink3"}]}, "'links' must be a list"),
        ({"accelerators": [{**MINE, "year": "2024"}]}, "'year' is \"2024\""),
        ({"accelerators": [{**MINE, "title": 5}]}, "'title' is 5"),
        ({"accelerators": [{**MINE, "source": "no such"}]}, 'no source "no such"; add it to'),
        ({"accelerators": [{**MINE, "sources": []}]}, "'sources' must be an object"),
        ({"accelerators": [{**MINE, "source": ["x"]}]}, "no source a list"),
        ({"sources": []}, "'sources' must be an object"),
        ({"sources": {"a": "b"}}, 'The source "a" must be an object'),
        ({"links": [{"name": "mine", "rawGBs": 1, "usableGBs": 2}]}, "'usableGBs' is 2, more than 'rawGBs'"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_sentence(document: Any, message: str) -> None:
    with pytest.raises(CatalogueError, match=message) as refusal:
        parse_catalogue(json.dumps(document))
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("text", ["", "{", b"\xff\xfe", "[" * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_a_file_that_is_no_json_is_refused_in_one_sentence(text: str | bytes) -> None:
    with pytest.raises(CatalogueError, match="JSON"):
        parse_catalogue(text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"none.json\" cannot be read: No such file"):
        read_catalogue(tmp_path / "none.json")
    (tmp_path / "mine.json").write_text(json.dumps({"accelerators": [MINE]}), encoding="utf-8")
    assert read_catalogue(tmp_path / "mine.json").accelerator("mine-1").memory_bytes == 12e9
