"""Clusters in one line: read, written, and turned into groups of the catalogue or classes relative to a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.hardware.catalogue import catalogue
from solvers.hardware.device_list import (
    Listed,
    device_classes,
    devices_text,
    groups,
    is_of_catalogue,
    parse_devices,
    relative_sentence,
)
from solvers.hardware.devices import CatalogueError, Precision
from solvers.hardware.equipment import Group
from solvers.model.deployment import DeviceClass
from solvers.model.errors import DeploymentError, PlacementError
from solvers.model.graph import TimesOrigin

DEVICES = catalogue()

KINDS = st.builds(
    Listed,
    st.integers(0, 1024),
    st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,10}", fullmatch=True),
    st.dictionaries(
        st.sampled_from(("speed", "link", "memory")), st.from_regex(r"[0-9]{1,3}(GB)?", fullmatch=True), max_size=3
    ).map(lambda settings: tuple(settings.items())),
)


@given(st.lists(KINDS, min_size=1, max_size=5).map(tuple))
def test_a_list_reads_as_it_was_written(kinds: tuple[Listed, ...]) -> None:
    assert parse_devices(devices_text(kinds)) == kinds


def test_a_single_kind_may_go_without_a_count() -> None:
    (kind,) = parse_devices("H100-SXM:link=nvlink4")
    assert (kind.count, str(kind)) == (None, "H100-SXM:link=nvlink4")
    assert str(kind.with_setting("memory", "40GB").with_setting("link", None)) == "H100-SXM:memory=40GB"
    assert groups((kind,), DEVICES)[0].count is None
    for text in ("A100-80+2xT4", "2xT4+A100-80"):
        with pytest.raises(DeploymentError, match="no count of A100-80; write COUNTxNAME, such as 2xA100-80"):
            parse_devices(text)
    with pytest.raises(DeploymentError, match="no count of foo"):
        device_classes(parse_devices("foo"))


def test_names_of_the_catalogue_bring_their_figures() -> None:
    kinds = parse_devices("2xA100-80:link=nvlink3 + 4xt4:precision=fp16")
    assert is_of_catalogue(kinds, DEVICES)
    assert groups(kinds, DEVICES) == (
        Group(DEVICES.accelerator("A100-80"), 2, DEVICES.link("nvlink3")),
        Group(DEVICES.accelerator("T4"), 4, None, Precision.FP16),
    )


def test_every_figure_may_be_changed() -> None:
    text = "1xT4:link=25GB/s,memory=15GiB,bandwidth=300GB/s,peak=60TFLOP/s"
    (group,) = groups(parse_devices(text), DEVICES, TimesOrigin("T4", "fp16"))
    assert group.link is not None
    assert group.link.bandwidth_bytes_per_ms == 25e6
    device, own = group.accelerator, DEVICES.accelerator("T4")
    assert (device.memory_bytes, device.bandwidth_bytes_per_ms) == (15 * 2**30, 300e6)
    assert dict(device.peaks) == {**dict(own.peaks), Precision.FP16: 60e9}
    (wide,) = groups(parse_devices("1xT4:precision=fp32,peak=8TFLOP/s"), DEVICES)
    assert wide.accelerator.peak_flops_per_ms(Precision.FP32) == 8e9


def test_a_list_with_a_speed_is_of_classes_relative_to_the_file() -> None:
    kinds = parse_devices("2xbig:memory=80GiB+4xsmall:speed=0.25,link=0.5")
    assert not is_of_catalogue(kinds, DEVICES)
    assert device_classes(kinds) == (
        DeviceClass("big", 2, 1.0, 80 * 2.0**30),
        DeviceClass("small", 4, 0.25, None, 0.5),
    )
    assert not is_of_catalogue(parse_devices("2xbig:speed=4"), DEVICES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2xH100", 'no accelerator "H100" in the catalogue; the nearest names are H100-SXM and H100-PCIe, or give'),
        ("2xH100+4xL40", 'no accelerator "H100"'),
        ("2xT5", 'no accelerator "T5" in the catalogue; it has V100-16, .* such as T5:speed=0.5'),
        ("2xA100-80+4xT5", 'no accelerator "T5"'),
        ("4xT5:memory=16GB+2xA100-80", 'no accelerator "T5"'),
        ("2xbig+4xsmall:link=0.5", 'no accelerator "big"'),
        ("h100sxm", "the nearest names? (is|are) H100-SXM"),
    ],
)
def test_without_a_speed_a_name_must_be_of_the_catalogue(text: str, message: str) -> None:
    with pytest.raises(CatalogueError, match=message) as refusal:
        is_of_catalogue(parse_devices(text), DEVICES)
    assert str(refusal.value).count(". ") == 0


@pytest.mark.parametrize("text", ["2xA100-80:speed=2", "2xbig:speed=1+4xt4:speed=0.5", "A100-80:speed=1,memory=40GB"])
def test_a_name_of_the_catalogue_has_no_speed(text: str) -> None:
    with pytest.raises(DeploymentError, match=r"^\S+ has its times from the catalogue; leave its speed out, or take"):
        is_of_catalogue(parse_devices(text), DEVICES)


def test_what_is_relative_is_said_with_its_limits() -> None:
    def said(text: str) -> str:
        return relative_sentence(device_classes(parse_devices(text)))

    assert said("2xa:speed=2+1xb+1xc:memory=3GB").endswith(
        "a 2 times as fast, b 1 times, c 1 times; no memory limit for a and b."
    )
    assert said("2xa:speed=2,memory=1GB") == "Devices relative to the file's times: a 2 times as fast."


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", '"" is not a device type; write COUNTxNAME, such as 2xA100-80'),
        ("100", '"100" is not a device type'),
        ("2xA100-80+", '"" is not a device type'),
        ("2x", '"2x" is not a device type'),
        ("2x<b>", "is not a device type"),
        ("2000xT4", "2000 devices T4: give a number from 0 to 1024"),
        ("2xT4:", 'T4: "" is no setting; write key=value'),
        ("2xT4:ram=3", '"ram=3" is no setting'),
        ("2xT4:memory", '"memory" is no setting'),
        ("2xT4:memory=1GB,memory=2GB", "T4: memory is given twice"),
        ("+".join(["1xT4"] * 17), "17 device types; give up to 16"),
        ("1x" + "a" * 3000, "3002 characters"),
    ],
)
def test_a_text_that_is_no_list_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(DeploymentError, match=message.replace("(", r"\(")) as refusal:
        parse_devices(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1xT4:memory=16", 'memory is "16"; give a number with its unit, GB or GiB'),
        ("1xT4:memory=0GB", "out of range"),
        ("1xT4:link=rope", 'There is no link "rope"'),
        ("1xT4:link=2", "give a link of the catalogue or a speed such as 25GB/s"),
        ("1xT4:precision=bf16", "T4 has no published peak in bf16"),
        ("1xT4:peak=3", "give a number with its unit, TFLOP/s"),
        ("1xT4:speed=2", "leave its speed out"),
        ("1xX9", 'no accelerator "X9"'),
    ],
)
def test_what_the_catalogue_cannot_give_is_said(text: str, message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        groups(parse_devices(text), DEVICES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1xfoo:peak=3TFLOP/s", "foo is relative to the file's times, so its peak says nothing; leave it out"),
        ("1xfoo:link=nvlink3", 'link is "nvlink3"; give a number, such as 0.5'),
        ("1xfoo:speed=0", "out of range"),
        ("1xfoo:speed=1e-9", "a speed of 1e-09; give a factor"),
    ],
)
def test_what_a_class_cannot_have_is_said(text: str, message: str) -> None:
    with pytest.raises(PlacementError, match=message):
        device_classes(parse_devices(text))


def test_catalogue_and_relative_classes_do_not_mix() -> None:
    with pytest.raises(DeploymentError, match="T4 is of the catalogue and foo is relative to the file's times"):
        is_of_catalogue(parse_devices("1xfoo:speed=3+2xT4"), DEVICES)
