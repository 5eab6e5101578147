"""The command line solves on devices of the catalogue and lists them."""

import json
from pathlib import Path

import pytest

from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.samples import sample_text
from tests.support.command_line import GIB, Run, assert_refused
from tests.support.graphs import chain


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    path = tmp_path / "llama.json"
    path.write_bytes(sample_text("llama3_8b_layer_inference"))
    return path


def test_a_graph_is_solved_on_a_device_of_the_catalogue(placement: Run, llama: Path) -> None:
    on_t4 = placement("solve", llama, "--accelerators", 8)
    on_h100 = placement("solve", llama, "--accelerators", 8, "--device", "h100-sxm", "--link", "nvlink4")
    assert (on_t4.code, on_h100.code) == (0, 0)
    assert on_h100.json["devices"][0]["capacity_bytes"] == 80e9
    # Faster by no less than the bandwidths and no more than the peaks and what links add.
    assert 3350 / 320 < on_t4.json["value_ms"] / on_h100.json["value_ms"] < 1.1 * 989.4 / 65
    assert on_h100.err.splitlines() == [
        "placement: Times on H100-SXM (fp16): roofline at 50 % of peak FLOP/s and 75 % of memory bandwidth.",
        "placement: Transfers over NVLink 4 (H100, H200) at 450 GB/s, its raw speed.",
    ]
    assert "placement: Times" not in on_t4.err
    assert on_h100.json["hardware"] == [line.removeprefix("placement: ") for line in on_h100.err.splitlines()]
    assert "hardware" not in on_t4.json


def test_a_cluster_is_evaluated_with_the_times_of_each_kind(placement: Run, llama: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    assert placement("solve", llama, "--accelerators", 2, "--memory", 90, "--output", split).code == 0
    cluster = "1xA100-80:link=nvlink3+1xT4:link=pcie3-x16"
    on = placement("evaluate", llama, split, "--devices", cluster).json["devices"]
    relative = placement("evaluate", llama, split, "--devices", "1xbig:speed=4+1xsmall:speed=1,memory=16GB").json
    assert [device["name"] for device in on] == ["A100-80 1", "T4 1", "CPU 1"]
    assert [device["capacity_bytes"] for device in on] == [80e9, 16e9, None]
    assert [device["capacity_bytes"] for device in relative["devices"]] == [None, 16e9, None]
    times = [device["compute_ms"] for device in on[:2]]
    alone = [
        placement("evaluate", llama, split, "--device", name).json["devices"][d]["compute_ms"]
        for d, name in enumerate(("A100-80", "T4"))
    ]
    assert times == pytest.approx(alone)
    assert relative["devices"][0]["compute_ms"] * 4 == pytest.approx(
        placement("evaluate", llama, split).json["devices"][0]["compute_ms"]
    )


def test_devices_relative_to_the_files_times_say_so(placement: Run, llama: Path) -> None:
    answer = placement("solve", llama, "--cpus", 0, "--devices", "2xbig:memory=80GB+2xsmall:speed=0.25")
    said = "Devices relative to the file's times: big 1 times as fast, small 0.25 times; no memory limit for small."
    assert answer.err == f"placement: {said}\n"
    assert answer.json["hardware"] == [said]


def test_the_speed_of_links_is_said_unless_bandwidth_sets_it(placement: Run, llama: Path) -> None:
    def said(*options: str) -> str:
        return placement("solve", llama, "--cpus", 0, "--device", "H100-SXM", *options).err

    kept = "Transfers of H100-SXM over links as in the file, 12.6 GB/s; name one of its own"
    assert kept in said()
    assert "Transfers" not in said("--bandwidth", "25")
    assert kept in said("--bandwidth", "2x")
    assert said("--bandwidth", "2x").endswith("placement: --bandwidth multiplies the speeds of these links.\n")
    assert "stay those of the file, in fp16" in said("--precision", "fp8")
    assert "does not list nvlink3 for H100-SXM" in said("--link", "nvlink3")


def test_all_links_of_a_cluster_may_be_a_multiple_of_theirs(placement: Run, llama: Path, tmp_path: Path) -> None:
    split, cluster = tmp_path / "split.json", "1xA100-80:link=nvlink3+1xT4:link=pcie3-x16"
    assert placement("solve", llama, "--devices", cluster, "--output", split).code == 0
    once, twice = (
        [
            (device["in_ms"], device["out_ms"])
            for device in placement("evaluate", llama, split, "--devices", cluster, *factor).json["devices"]
        ]
        for factor in ((), ("--bandwidth", "2x"))
    )
    assert twice == [(pytest.approx(a / 2), pytest.approx(b / 2)) for a, b in once]
    assert any(a + b for a, b in once)


def test_options_beat_what_a_device_brings(placement: Run, llama: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.json"
    asked = ("--device", "A100-80", "--memory", 20, "--accelerators", 2, "--precision", "tf32")
    solved = placement("solve", llama, *asked, "--output", split)
    assert solved.json["devices"][0]["capacity_bytes"] == 20 * GIB
    again = placement("evaluate", llama, split, *asked)
    assert again.json["max_load_ms"] == pytest.approx(solved.json["value_ms"])
    assert "(tf32)" in again.err


def test_a_file_of_ones_own_devices(placement: Run, llama: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('{"accelerators": [{"name": "T4", "memoryGB": 99}]}', encoding="utf-8")
    solved = placement("solve", llama, "--device", "T4", "--catalogue", mine)
    assert solved.json["devices"][0]["capacity_bytes"] == 99e9
    assert "given by the user" in placement("devices", "T4", "--catalogue", mine).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "X9"], 'There is no accelerator "X9" in the catalogue; it has V100-16'),
        (["--device", "T4", "--precision", "bf16"], "T4 has no published peak in bf16"),
        (["--device", "T4", "--precision", "fp12"], '"fp12" is no precision'),
        (["--device", "T4", "--link", "rope"], 'There is no link "rope"'),
        (["--device", "T4", "--link", "nvlink3", "--bandwidth", "3"], "--link and --bandwidth both set"),
        (["--link", "nvlink3"], "--link says nothing without --device"),
        (["--host", "Xeon-6148", "--link", "nvlink3"], "--link says nothing without --device"),
        (["--host", "Xeon-6148", "--precision", "fp16"], "--precision says nothing without --device or --devices"),
        (["--devices", "2xfoo:speed=1", "--host", "Xeon-6148"], "leave --host out"),
        (["--devices", "2xT4", "--memory", "none"], "leave --memory out"),
        (["--devices", "2xT4+"], '"" is not a device type'),
        (["--devices", "2xT4", "--device", "T4"], "leave --device out"),
        (["--devices", "2xT4", "--accelerators", "3"], "leave --accelerators out"),
        (["--devices", "2xT4", "--memory", "3"], "leave --memory out"),
        (["--devices", "2xT4:link=pcie3-x16", "--bandwidth", "3"], "give one, or a multiple such as 2x"),
        (
            ["--devices", "2xH100"],
            'no accelerator "H100" in the catalogue; the nearest names are H100-SXM and H100-PCIe',
        ),
        (["--devices", "2xA100-80+4xT5"], 'no accelerator "T5" in the catalogue'),
        (["--devices", "2xH100+4xL40"], 'no accelerator "H100" in the catalogue'),
        (["--devices", "2xA100-80:speed=2"], "A100-80 has its times from the catalogue; leave its speed out"),
        (["--devices", "2xfoo:speed=1", "--roofline"], "--roofline says nothing without a device of the catalogue"),
        (["--devices", "2xT4", "--precision", "bf16"], "T4 has no published peak in bf16"),
        (["--efficiency", "0.4"], "--efficiency says nothing without --device, --devices or --host"),
        (["--roofline"], "--roofline says nothing without"),
        (["--device", "T4", "--efficiency", "1.5"], "give a share above 0 and up to 1"),
        (["--device", "T4", "--measured-on", "X9"], 'There is no accelerator "X9"'),
        (["--device", "T4", "--measured-on", "T4@bf16"], "T4 has no published peak in bf16"),
        (["--host", "T4"], 'There is no host CPU "T4"'),
        (["--device", "T4", "--catalogue", "/none.json"], "cannot be read: No such file"),
    ],
)
def test_what_a_device_cannot_be_is_said_in_one_sentence(
    placement: Run, llama: Path, options: list[str], message: str
) -> None:
    answer = placement("solve", llama, *options)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"peakTFLOPs": 65}, "'peakTFLOPs' must be an object"), ({"sources": ["x"]}, "'sources' must be an object")],
)
def test_what_a_known_device_is_given_in_another_form_is_refused(
    placement: Run, tmp_path: Path, fields: dict[str, object], message: str
) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"accelerators": [{"name": "T4", **fields}]}), encoding="utf-8")
    assert_refused(placement("devices", "--catalogue", mine), message)


def test_times_of_an_unknown_device_are_scaled_once_it_is_named(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    write_graph(path, chain((4, 2), transfer_ms=0.1), Deployment(2))
    refused = placement("solve", path, "--device", "A100-80")
    assert refused.code == 2
    assert "does not say which device its times were measured on" in refused.err
    solved = placement("solve", path, "--device", "A100-80", "--measured-on", "T4@fp16")
    assert solved.json["devices"][0]["compute_ms"] in (pytest.approx(4 * 65 / 312), pytest.approx(2 * 65 / 312))


def test_the_catalogue_is_listed_with_figures_and_sources(placement: Run) -> None:
    listed = placement("devices").out
    for text in ("H100-SXM", "Xeon-6148", "nvlink4", "989.4", "-", "flops/byte"):
        assert text in listed
    assert max(map(len, listed.splitlines())) <= 120
    one = placement("devices", "pcie4-x16")
    assert "24.8 GB/s" in one.out
    assert "https://forums.developer.nvidia.com" in one.out
    document = placement("devices", "--json").json
    assert {figure["verified"] for kind in document.values() for entry in kind for figure in entry["figures"]} <= {
        "yes",
        "second-hand",
        "from memory",
    }
    unknown = placement("devices", "X9")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'There is no device "X9"' in unknown.err
