"""Lesson 9: real devices: the roofline of a node, why mixed devices are split as they are, and what to buy."""

import math
from collections.abc import Mapping
from functools import cache

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.lessons.desk import Desk
from explorer.lessons.parts import show_loads
from explorer.lessons.records import AskChoice, AskNumber, Closing, Exercise, Lesson, Step
from explorer.lessons.scene import Mark, Scene, show_scene
from explorer.picture.palette import ACCELERATOR_COLOURS
from solvers.hardware.catalogue import catalogue
from solvers.hardware.devices import Precision
from solvers.hardware.prices import Prices
from solvers.hardware.roofline import Setup, moved_bytes
from solvers.quantities import milliseconds, money, number, percent
from solvers.samples import read_sample

SAMPLE = "gpt2_xl_layer_inference"
MIXED_OFFER = "2xA100-80+4xT4"
MIXED = {"sample": SAMPLE, "devices": MIXED_OFFER, "cpus": "0"}
DEVICES = ("A100-80", "T4")
NODES = ("1 norm 1", "1 attention")
"""Nodes of the first block that are shown: one that hardly computes, and one that computes much."""
PRICES = {"A100-80": 3.2, "T4": 0.5}
"""Assumed for the lesson, per hour; real prices change from week to week."""
IN_EUR = Prices(currency="EUR")
OFFERS = ("2xT4", "4xT4", "8xT4", "1xA100-80", "1xA100-80+2xT4", "2xA100-80", MIXED_OFFER)
TARGET = 30.0
"""Micro-batches per second that are wanted."""
HOUR_MS = 3_600_000.0


@cache
def setup(device: str) -> Setup:
    """Return a device as the lesson uses it: at 16 bits, with the usual efficiencies."""
    return Setup(catalogue().accelerator(device), Precision.FP16)


@cache
def work(node: str) -> tuple[float, float]:
    """Return the arithmetic operations of a node of GPT-2 XL and the bytes that it moves in device memory."""
    graph, _ = read_sample(SAMPLE)
    one = next(other for other in graph.nodes if other.name == node)
    return one.flops or 0.0, moved_bytes(graph)[one.id] or 0.0


def roofline_ms(node: str, device: str) -> float:
    """Return what a node takes on a device in ms, by its roofline."""
    return setup(device).roofline_ms(*work(node))


def faster(node: str) -> float:
    """Return how many times as fast as on a T4 a node is on an A100."""
    return roofline_ms(node, "T4") / roofline_ms(node, "A100-80")


WIDTH, HEIGHT, LEFT, TOP = 446.0, 250.0, 56.0, 18.0
LOWEST, HIGHEST = -1.0, 4.0
"""Powers of ten of operations per byte that are drawn."""
SLOWEST, FASTEST = 7.0, 11.6
"""Powers of ten of operations per ms that are drawn."""


def _at(intensity: float, speed: float) -> tuple[float, float]:
    across = (math.log10(intensity) - LOWEST) / (HIGHEST - LOWEST)
    up = (math.log10(speed) - SLOWEST) / (FASTEST - SLOWEST)
    return LEFT + across * (WIDTH - LEFT - 20), TOP + (1 - up) * (HEIGHT - TOP - 50)


def roofline_scene() -> Scene:
    """Return the rooflines of both devices with two nodes on them; both axes are logarithmic."""
    bottom = HEIGHT - 50
    marks = [
        Mark("x", "line", LEFT, bottom, x2=WIDTH - 20, y2=bottom, look="thick"),
        Mark("y", "line", LEFT, TOP, x2=LEFT, y2=bottom, look="thick"),
        Mark("xt", "text", LEFT, bottom + 26, WIDTH - LEFT - 20, 14, text="operations per byte moved"),
        Mark("yt", "text", 4, 0, 120, 14, text="operations per second", anchor="left", size=12),
    ]
    for power in range(int(LOWEST), int(HIGHEST) + 1):
        x, _ = _at(10.0**power, 10**SLOWEST)
        text = number(10.0**power)
        marks.append(Mark(f"x{power}", "text", x - 20, bottom + 6, 40, 14, text=text, look="quiet", size=11))
    for power, text in {8: "0.1 T", 9: "1 T", 10: "10 T", 11: "100 T"}.items():
        _, y = _at(1.0, 10.0**power)
        w = LEFT - 12
        marks.append(Mark(f"y{power}", "text", 4, y - 7, w, 14, text=text, anchor="right", look="quiet", size=11))
    for i, device in enumerate(DEVICES):
        one = setup(device)
        ridge = one.flops_per_ms / one.bytes_per_ms
        begin = max(10**LOWEST, 10**SLOWEST / one.bytes_per_ms)
        (x, y), (x2, y2) = _at(begin, begin * one.bytes_per_ms), _at(ridge, one.flops_per_ms)
        x3, _ = _at(10**HIGHEST, one.flops_per_ms)
        marks.append(Mark(f"m{i}", "line", x, y, x2=x2, y2=y2, look="thick"))
        marks.append(Mark(f"c{i}", "line", x2, y2, x2=x3, y2=y2, look="thick"))
        marks.append(Mark(f"n{i}", "text", x3 - 90, y2 - 18, 86, 14, text=device, anchor="right", look="strong"))
        for node in NODES:
            flops, moved = work(node)
            px, py = _at(flops / moved, flops / roofline_ms(node, device))
            tip = f"{node} on {device}: {milliseconds(roofline_ms(node, device))}"
            fill = ACCELERATOR_COLOURS[i]
            marks.append(Mark(f"p{i}{node}", "round", px - 6, py - 6, 12, 12, fill=fill, tip=tip))
    for node in NODES:
        flops, moved = work(node)
        x, _ = _at(flops / moved, 1e9)
        marks.append(Mark(f"l{node}", "text", x - 50, bottom - 20, 100, 14, text=node, look="quiet", size=12))
    tips = "; ".join(mark.tip for mark in marks if mark.tip)
    return Scene(WIDTH, HEIGHT, tuple(marks), f"Rooflines of A100 and T4. {tips}")


def _roofline(desk: Desk) -> None:
    show_scene(roofline_scene(), f"{desk.key}_roofline")
    columns = ("Operations per byte", *DEVICES, "Ratio")
    rows = []
    for node in NODES:
        times = [milliseconds(roofline_ms(node, device)) for device in DEVICES]
        texts = (number(work(node)[0] / work(node)[1]), *times, f"{number(faster(node))} ×")
        rows.append([Cell(node), *(Cell(text, "number") for text in texts)])
    header = [Cell("Node"), *(Cell(name, "number") for name in columns)]
    st.html(html_table("Two nodes on two devices", header, rows, width_rem=44))


def _share(desk: Desk) -> float | None:
    """Return the share of the nodes that the best plan puts on the two A100, in percent."""
    result = desk.answer(MIXED)
    if result is None or result.split is None:
        return None
    return 100 * sum(map(len, result.split.accelerators[:2])) / sum(map(len, result.split.devices))


def _mixed_wrong(_: Desk) -> str:
    ratio = round(faster(NODES[1]))
    return (
        f"An A100 is about {ratio} times as fast as a T4. Count a T4 as one part: two A100 make {2 * ratio}, four T4 "
        f"make 4, so the A100 take about {2 * ratio} of {2 * ratio + 4} parts, {percent(2 * ratio / (2 * ratio + 4))}."
    )


def _mixed(desk: Desk) -> None:
    subject, result = desk.subject(MIXED), desk.answer(MIXED)
    if result is None or result.split is None:
        return
    deployment = subject.question.deployment
    split = result.split.on(deployment)
    show_loads(desk, subject.graph, deployment, split, result.lower_bound_ms)
    held = [f"{deployment.device_name(d)}: {len(members)}" for d, members in enumerate(split.devices) if members]
    st.caption(f"Nodes held: {', '.join(held)}.")


def price(offer: str, t4: float = PRICES["T4"]) -> float:
    """Return what an offer costs an hour, with this price of a T4.

    >>> price("1xA100-80+2xT4")
    4.2
    """
    parts = [part.partition("x") for part in offer.split("+")]
    return sum(int(count) * (t4 if device == "T4" else PRICES[device]) for count, _, device in parts)


def offer_name(offer: str) -> str:
    """Write an offer for people.

    >>> offer_name("1xA100-80+2xT4")
    '1 × A100-80 + 2 × T4'
    """
    parts = [part.partition("x") for part in offer.split("+")]
    return " + ".join(f"{count} × {device}" for count, _, device in parts)


def _values(desk: Desk) -> dict[str, float] | None:
    found = {offer: desk.answer({"sample": SAMPLE, "devices": offer, "cpus": "0"}) for offer in OFFERS}
    values = {offer: result.value_ms for offer, result in found.items() if result is not None and result.value_ms}
    return values if len(values) == len(OFFERS) else None


def cheapest(values: Mapping[str, float], target: float, t4_price: float) -> str | None:
    """Return the cheapest offer that does so many micro-batches a second; None where none does."""
    enough = [offer for offer in OFFERS if 1000 / values[offer] >= target]
    return min(enough, key=lambda offer: price(offer, t4_price), default=None)


def _cheapest(desk: Desk) -> int | None:
    values = _values(desk)
    found = None if values is None else cheapest(values, TARGET, PRICES["T4"])
    return None if found is None else OFFERS.index(found)


def _offers(desk: Desk) -> None:
    values = _values(desk)
    if values is None:
        return
    with st.container(horizontal=True):
        target = float(st.slider("Micro-batches a second", 5, 60, int(TARGET), 5, key=f"{desk.key}_target"))
        t4 = float(st.slider(f"Price of a T4, {IN_EUR.unit}", 0.2, 1.5, PRICES["T4"], 0.1, key=f"{desk.key}_t4"))
    found = cheapest(values, target, t4)
    rows = []
    for offer in OFFERS:
        million = price(offer, t4) / HOUR_MS * values[offer] * 1e6
        texts = (milliseconds(values[offer]), number(1000 / values[offer]), money(price(offer, t4)), number(million))
        chosen = "cheapest that is fast enough" if offer == found else "too slow" * (1000 / values[offer] < target)
        rows.append([Cell(offer_name(offer)), *(Cell(text, "number") for text in texts), Cell(chosen)])
    names = ("Per micro-batch", "Micro-batches/s", IN_EUR.unit, f"{IN_EUR.currency} per million")
    header = [Cell("Devices"), *(Cell(name, "number") for name in names), Cell("")]
    st.html(html_table("Offers", header, rows, width_rem=58))


LESSON = Lesson(
    name="hardware",
    title="Real hardware",
    question="How long does a node take on another device, how are mixed devices used best, and what should one buy?",
    minutes=12,
    assumes="Lesson 2: loads.",
    setting=MIXED,
    steps=(
        Step(
            "Two numbers of a device",
            "What can an accelerator do at most? Two numbers say most of it: how many **arithmetic operations** it "
            "does in a "
            "second, and how many **bytes** it moves between its memory and its cores in a second. A node has to do "
            "some "
            "operations and to move some bytes (its inputs, weights and outputs). It takes the longer of the two "
            "times:\n\n"
            "> time = max( operations / peak speed, bytes / memory bandwidth )\n\n"
            "A normalisation in a transformer reads a tensor and writes it again, and does only a few operations for "
            "each "
            "byte.",
            None,
            AskChoice(
                "What decides how long the normalisation takes?",
                ("The peak speed of the arithmetic", "The memory bandwidth"),
                1,
                right="It moves many bytes and computes little: it is *memory-bound*.",
                wrong="It computes so little that the bytes take longer: it is *memory-bound*.",
            ),
            "This is the **roofline** (Williams, Waterman and Patterson, 2009). The slope on the left is the memory, "
            "the flat "
            "roof on the right the arithmetic. Both axes grow by factors of ten; T is tera, 10¹². The dots are two "
            "nodes of the first block of GPT-2 XL, its first normalisation (1 norm 1) and its attention, "
            "on both "
            "devices. Peaks are those of the data sheets, of which half (arithmetic) and three quarters (memory) are "
            "counted.",
            _roofline,
        ),
        Step(
            "Not every node gains the same",
            "The A100 has "
            f"{number(setup('A100-80').flops_per_ms / setup('T4').flops_per_ms)} times the arithmetic of a T4, and "
            f"{number(setup('A100-80').bytes_per_ms / setup('T4').bytes_per_ms)} times the memory bandwidth.",
            None,
            AskNumber(
                "How many times as fast is the normalisation on the A100?",
                faster(NODES[0]),
                "times",
                0.03,
                right="It is memory-bound on both, so the ratio of the bandwidths counts.",
                wrong="It is memory-bound on both devices, so the ratio of the bandwidths counts, not that of the "
                "arithmetic.",
            ),
            "So there is no single number that says how much faster one device is: it depends on the node. That is "
            "why the "
            "solvers take a time **for each node on each type of device**.",
            _roofline,
        ),
        Step(
            "Two A100 and four T4",
            "GPT-2 XL has 195 nodes here, in 48 blocks. They are to run as a pipeline on two A100 and four T4.",
            None,
            AskNumber(
                "Which share of the nodes does the best plan put on the two A100 together?",
                _share,
                "%",
                0.15,
                right="About as many more as they are faster, so that all six devices take nearly as long.",
                wrong=_mixed_wrong,
            ),
            "The six **loads** are nearly equal, the shares of the nodes are not: what counts is time, not the "
            "number of "
            "nodes. A planner that gives each device a sixth would be limited by the T4s.",
            _mixed,
        ),
        Step(
            "What to buy",
            f"Suppose an A100 costs {money(PRICES['A100-80'])} {IN_EUR.unit} and a T4 {money(PRICES['T4'])} (assumed; "
            f"real prices change), and at least {number(TARGET)} micro-batches a second are wanted.",
            None,
            AskChoice(
                f"Which is the cheapest offer with at least {number(TARGET)} micro-batches a second?",
                tuple(offer_name(offer) for offer in OFFERS),
                _cheapest,
                right="Solved for each offer: the best plan on it, and its price.",
                wrong="Each offer has to be judged by the best plan on it: see the table.",
            ),
            "The fastest, the cheapest, and the cheapest that is fast enough are three different answers. Move target "
            "and price until another offer is the one to buy. The page "
            "**Sweep** "
            "solves such tables with hundreds of mixes, and says what to buy for a target or a budget.",
            _offers,
        ),
    ),
    closing=Closing(
        "Why is it not enough to know that one device is five times as fast as another?",
        "Because the ratio differs from node to node, memory-bound nodes gain by the ratio of the bandwidths and "
        "others by "
        "that of the arithmetic; a plan needs the time of each node on each device, and what to buy depends on the "
        "best "
        "plan for each offer.",
    ),
    exercises=(
        Exercise(
            "A device does 100 tera-operations and moves 1 TB in a second. From how many operations per byte on is a "
            "node "
            "limited by arithmetic?",
            "100 operations per byte. So it is for the two devices of the lesson: left of the bend the memory limits.",
            None,
            lambda _: roofline_scene(),
        ),
        Exercise(
            "Two devices take 2 ms and 6 ms for each of 40 equal layers. How many layers should each get, and what "
            "is the "
            "period, if transfers cost nothing?",
            "30 and 10: 60 ms each.",
        ),
        Exercise(
            "The faster device costs four times as much an hour. Which of the two does the work more cheaply?",
            "The slower one: it takes three times as long at a quarter of the price.",
        ),
    ),
    notes="The times are computed from the graph's operations and bytes with the catalogue's data sheets. Ask what the "
    f"roofline leaves out: launch times, caches, overlap. Efficiencies assumed: {percent(0.5)} and {percent(0.75)}.",
)
