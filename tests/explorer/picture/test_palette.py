"""Colours that everybody can tell apart, and text that everybody can read."""

from itertools import combinations, pairwise

import pytest

from explorer.picture.palette import (
    ACCELERATOR_COLOURS,
    MICRO_BATCH_FILLS,
    MIN_CONTRAST,
    THEMES,
    contrast,
    device_colour,
    device_colours,
    mix,
    sequential_ramp,
)
from solvers.model.deployment import Deployment

DEPLOYMENT = Deployment(70, 6)

# Machado, Oliveira and Fernandes 2009, full severity, on linear RGB.
DEFICIENCIES = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def linear(colour: str) -> tuple[float, ...]:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)


def lab(rgb: tuple[float, ...]) -> tuple[float, float, float]:
    r, g, b = rgb
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (max(c, 0.0) for c in xyz))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def seen_difference(first: str, second: str, deficiency: str) -> float:
    matrix = DEFICIENCIES[deficiency]
    seen = [
        lab(tuple(sum(m * c for m, c in zip(row, linear(colour), strict=True)) for row in matrix))
        for colour in (first, second)
    ]
    return float(sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5)


def test_text_is_readable_on_every_fill():
    for colour in device_colours(DEPLOYMENT):
        for fill in (
            colour.forward,
            colour.forward_odd,
            colour.backward,
            colour.backward_odd,
            colour.weight,
            colour.weight_odd,
        ):
            assert contrast(fill.fill, fill.text) >= MIN_CONTRAST
    for theme in THEMES.values():
        assert contrast(theme.unplaced.fill, theme.unplaced.text) >= MIN_CONTRAST


@pytest.mark.parametrize(("theme", "background"), [("light", "#FFFFFF"), ("dark", "#0E1117")])
def test_transfers_stand_out_from_the_page(theme, background):
    assert contrast(THEMES[theme].transfer, background) >= MIN_CONTRAST
    assert contrast(THEMES[theme].alarm, background) >= MIN_CONTRAST


def test_numbers_of_micro_batches_can_be_read():
    assert all(contrast(fill.fill, fill.text) >= MIN_CONTRAST for fill in MICRO_BATCH_FILLS)
    assert len({fill.fill for fill in MICRO_BATCH_FILLS}) == len(MICRO_BATCH_FILLS)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_pipeline_neighbours_look_different_to_everyone(deficiency):
    for first, second in pairwise(ACCELERATOR_COLOURS):
        assert seen_difference(first, second, deficiency) > 20, (first, second)


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_first_eight_colours_look_different_to_everyone(deficiency):
    for first, second in combinations(ACCELERATOR_COLOURS[:8], 2):
        assert seen_difference(first, second, deficiency) > 9, (first, second)


def test_no_two_devices_look_the_same():
    looks = [(c.pattern, c.forward.fill) for c in device_colours(Deployment(64, 4))]
    assert len(set(looks)) == len(looks)
    labels = [c.label for c in device_colours(DEPLOYMENT)]
    assert len(set(labels)) == len(labels)


def test_passes_and_neighbouring_micro_batches_differ():
    for colour in device_colours(DEPLOYMENT):
        fills = {
            f.fill
            for f in (
                colour.forward,
                colour.forward_odd,
                colour.backward,
                colour.backward_odd,
                colour.weight,
                colour.weight_odd,
            )
        }
        assert len(fills) == 6


def test_cpus_are_marked_apart_and_keep_their_look_when_accelerators_are_added():
    assert device_colour(2, Deployment(2, 1)) == device_colour(5, Deployment(5, 1))
    assert device_colour(2, Deployment(2, 1)).pattern == "dots"
    assert device_colour(2, Deployment(2, 1)).label == "C1"


def test_mix_ends():
    assert mix("#102030", "#FFFFFF", 0.0) == "#102030"
    assert mix("#102030", "#FFFFFF", 1.0) == "#FFFFFF"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_ramp_changes_in_lightness_one_way_and_carries_readable_text(theme):
    ramp = sequential_ramp(theme)
    against_black = [contrast(step.fill, "#000000") for step in ramp]
    assert against_black == sorted(against_black, reverse=theme == "light")
    assert len({step.fill for step in ramp}) == len(ramp)
    assert all(contrast(step.fill, step.text) >= MIN_CONTRAST for step in ramp)
