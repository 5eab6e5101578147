"""One colour per device, the same in every view of the app, told apart without full colour vision.

The first seven are Okabe and Ito's, the others mostly Paul Tol's, in an order in which neighbours in a pipeline look
as different as can be to readers with and without red-green deficiency. No more than sixteen fills can be told apart,
so later devices repeat them under a hatch, and CPUs are greys under dots. Colour never stands alone: every mark also
carries the device's short label ("3", "C1"). A fill is the same in the light and the dark theme, because it carries
its own text colour with a contrast of at least 4.5; what lies around it (ink, lines, transfers) comes from `THEMES`.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from solvers.model.deployment import Deployment

MIN_CONTRAST = 4.5
"""WCAG's level AA for text."""

ACCELERATOR_COLOURS = (
    "#0072B2",  # blue
    "#E69F00",  # orange
    "#009E73",  # bluish green
    "#56B4E9",  # sky blue
    "#D55E00",  # vermilion
    "#CC79A7",  # reddish purple
    "#F0E442",  # yellow
    "#661100",  # maroon
    "#E8B4C8",  # pale rose
    "#332288",  # indigo
    "#117733",  # dark green
    "#88CCEE",  # pale sky
    "#DDCC77",  # sand
    "#34495E",  # slate
    "#999933",  # olive
    "#AA4499",  # purple
)
CPU_COLOURS = ("#9AA0A6", "#5F6670", "#C3C7CC", "#7C8590")
UNPLACED_COLOURS = {"light": "#D5D9E0", "dark": "#4A5160"}

RAMP = ("#FDE725", "#B5DE2B", "#6ECE58", "#35B779", "#1F9E89", "#26828E", "#31688E", "#3E4989", "#482878", "#440154")
"""Viridis (van der Walt and Smith, 2015; CC0), light to dark: even in lightness, also for colour-blind readers."""
RAMP_STEPS = 24

DARK_TEXT = "#10151C"
LIGHT_TEXT = "#FFFFFF"

WEIGHT_PALENESS = 0.6
"""Share of white in the fill of a gradient of weights."""

PATTERNS = ("none", "hatch", "cross", "bars")
"""Overlays for accelerators 1-16, 17-32, 33-48, 49-64; then they repeat and the label alone tells."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A colour and the text colour to write on it."""

    fill: str
    text: str


@dataclass(frozen=True, slots=True)
class DeviceColour:
    """How one device looks: its short label, its overlay, and its fill in six variants.

    Forward and backward work differ in lightness, and the gradient of the weights, where it runs on its own, is much
    paler than both; so do odd micro-batches from even ones, which keeps neighbouring bars apart.
    """

    label: str
    pattern: str
    forward: Fill
    forward_odd: Fill
    backward: Fill
    backward_odd: Fill
    weight: Fill
    weight_odd: Fill


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours around the devices.

    `transfer` is used for cut edges and for receive and send bars alike; `alarm` for what exceeds a limit, always with
    words or a shape beside it.
    """

    transfer: str
    alarm: str
    unplaced: Fill


def device_colour(device: int, deployment: Deployment) -> DeviceColour:
    """Return the look of a device; it depends on its number among its own kind only.

    >>> device_colour(0, Deployment(2, 1)).label, device_colour(2, Deployment(2, 1)).label
    ('1', 'C1')
    """
    if deployment.is_cpu(device):
        index = device - deployment.num_accelerators
        base = CPU_COLOURS[index % len(CPU_COLOURS)]
        return _variants(f"C{index + 1}", "dots", base)
    base = ACCELERATOR_COLOURS[device % len(ACCELERATOR_COLOURS)]
    pattern = PATTERNS[device // len(ACCELERATOR_COLOURS) % len(PATTERNS)]
    return _variants(f"{device + 1}", pattern, base)


def device_colours(deployment: Deployment) -> tuple[DeviceColour, ...]:
    """Return the looks of all devices, by device number."""
    return tuple(device_colour(d, deployment) for d in range(deployment.num_devices))


@cache
def sequential_ramp(theme: "ThemeName") -> tuple[Fill, ...]:
    """Return the fills from the least to the most of a quantity, away from the theme's background.

    Lightness changes in one direction only, so that the order can be read without colour vision and in print.
    """
    anchors = RAMP if theme == "light" else tuple(reversed(RAMP))
    steps = []
    for i in range(RAMP_STEPS):
        place = i / (RAMP_STEPS - 1) * (len(anchors) - 1)
        k = min(int(place), len(anchors) - 2)
        steps.append(_readable(mix(anchors[k], anchors[k + 1], place - k)))
    return tuple(steps)


def contrast(first: str, second: str) -> float:
    """Return the WCAG contrast ratio of two hex colours, 1 to 21.

    >>> round(contrast("#000000", "#FFFFFF"))
    21
    """
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mix(first: str, second: str, share: float) -> str:
    """Return `first` with `share` (0 to 1) of `second` mixed in, in sRGB.

    >>> mix("#000000", "#FFFFFF", 0.5)
    '#808080'
    """
    channels = (round(a + (b - a) * share) for a, b in zip(_channels(first), _channels(second), strict=True))
    return "#" + "".join(f"{c:02X}" for c in channels)


def text_on(fill: str) -> str:
    """Return the one of the two text colours that reads better on a fill."""
    return max((DARK_TEXT, LIGHT_TEXT), key=lambda text: contrast(fill, text))


@lru_cache(maxsize=1024)
def _variants(label: str, pattern: str, base: str) -> DeviceColour:
    # Backward is a step darker on a light fill and a step lighter on a fill too dark to darken visibly; both steps
    # keep the text colour readable, which mid-greys would not.
    dark_base = _luminance(base) < 0.06
    backward = mix(base, "#FFFFFF", 0.30) if dark_base else mix(base, "#000000", 0.26)

    def pair(colour: str) -> tuple[Fill, Fill]:
        return _readable(colour), _readable(mix(colour, "#FFFFFF", 0.22))

    forward, forward_odd = pair(base)
    backward_even, backward_odd = pair(backward)
    weight = tuple(_readable(mix(fill.fill, "#FFFFFF", WEIGHT_PALENESS)) for fill in (backward_even, backward_odd))
    return DeviceColour(label, pattern, forward, forward_odd, backward_even, backward_odd, *weight)


def _readable(colour: str) -> Fill:
    """Pair a fill with its text, moving the few mid-tones on which neither text reaches the contrast."""
    text = text_on(colour)
    away = "#FFFFFF" if text == DARK_TEXT else "#000000"
    while contrast(colour, text) < MIN_CONTRAST:
        colour = mix(colour, away, 0.06)
    return Fill(colour, text)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _luminance(colour: str) -> float:
    def linear(channel: int) -> float:
        c = channel / 255
        return c / 12.92 if c <= 0.04045 else float(((c + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


MICRO_BATCH_FILLS = tuple(
    _readable(colour) for colour in ("#4477AA", "#CCBB44", "#AA3377", "#66CCEE", "#228833", "#EE6677")
)
"""Paul Tol's bright scheme: micro-batches in replay take turns at it, and always carry their number."""

ThemeName = Literal["light", "dark"]

THEMES: dict[ThemeName, Theme] = {
    "light": Theme("#C2185B", "#A32A00", Fill(UNPLACED_COLOURS["light"], DARK_TEXT)),
    "dark": Theme("#FF6F9C", "#FFA07A", Fill(UNPLACED_COLOURS["dark"], LIGHT_TEXT)),
}
"""Streamlit's two base themes; a custom theme takes the one whose background is nearer in lightness."""
