"""Lesson 7: training in a pipeline: backward passes, activations in flight, and the schedules that trade them."""

from dataclasses import replace
from functools import cache

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import loaded
from explorer.lessons.grid import grid_scene
from explorer.lessons.parts import show_timelines
from explorer.lessons.records import AskChoice, AskNumber, Closing, Exercise, Lesson, Step
from explorer.picture.gantt_view import KIND_TITLES
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.quantities import binary_size, milliseconds, number, percent
from solvers.schedule.looped_split import looped_split
from solvers.schedule.records import LOOPED_KINDS, Schedule, ScheduleKind
from solvers.schedule.simulate import simulate

DEVICES = 4
LAYERS = 8
FORWARD_MS, BACKWARD_MS = 1.0, 2.0
WEIGHT_BYTES, ACTIVATION_BYTES = 1.0 * 2**30, 0.5 * 2**30
INPUT_BYTES = 0.05 * 2**30
"""What a layer keeps when its activations are computed again: only what it reads."""
STAGE_FORWARD_MS = FORWARD_MS * LAYERS / DEVICES
KINDS = (ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B, ScheduleKind.INTERLEAVED, ScheduleKind.ZB_H1)
MEMORY_BYTES = 8.0 * 2**30
DEPLOYMENT = Deployment(DEVICES, 0, MEMORY_BYTES)


@cache
def network(recompute: bool = False) -> DnnGraph:
    """Return eight equal layers with their backward passes; with `recompute` each forward pass is run once more."""
    backward_ms = BACKWARD_MS + (FORWARD_MS if recompute else 0.0)
    kept = INPUT_BYTES if recompute else ACTIVATION_BYTES
    forward = [
        Node(
            v,
            FORWARD_MS,
            9.0,
            WEIGHT_BYTES + kept,
            colocation_class=v,
            name=f"layer {v}",
            parameter_bytes=WEIGHT_BYTES,
            activation_bytes=kept,
        )
        for v in range(1, LAYERS + 1)
    ]
    backward = [
        replace(
            node,
            id=node.id + LAYERS,
            accelerator_ms=backward_ms,
            memory_bytes=0.0,
            is_backward=True,
            name=f"backward {node.id}",
            parameter_bytes=0.0,
            activation_bytes=0.0,
        )
        for node in forward
    ]
    edges = [Edge(v, v + 1, 0.0) for v in range(1, LAYERS)]
    edges += [Edge(v + 1 + LAYERS, v + LAYERS, 0.0) for v in range(1, LAYERS)]
    edges += [Edge(v, v + LAYERS, 0.0) for v in range(1, LAYERS + 1)]
    return DnnGraph((*forward, *backward), tuple(edges), "Eight layers, training")


def split() -> Split:
    """Return two neighbouring layers and their backward passes on each device."""
    per = LAYERS // DEVICES
    stages = [range(1 + d * per, 1 + (d + 1) * per) for d in range(DEVICES)]
    return Split(tuple(frozenset(stage) | {v + LAYERS for v in stage} for stage in stages))


@cache
def schedule(kind: ScheduleKind, m: int, recompute: bool = False) -> Schedule:
    """Return the schedule of m micro-batches."""
    graph = network(recompute)
    placed = looped_split(graph, DEPLOYMENT, split(), 2, kind, m) if kind in LOOPED_KINDS else split()
    return simulate(graph, DEPLOYMENT, placed, kind, m)


def bubble(one: Schedule) -> float:
    """Return the mean share of the makespan that devices idle."""
    shares = [share for share in one.bubble_fraction if share is not None]
    return sum(shares) / len(shares)


def _timelines(
    desk: Desk, kinds: tuple[ScheduleKind, ...], m: int, recompute: bool = False, lanes_only: bool = False
) -> None:
    runs = [(KIND_TITLES[kind], schedule(kind, m, recompute)) for kind in kinds]
    show_timelines(desk, DEPLOYMENT, runs, lanes_only=lanes_only)


def _one_alone(desk: Desk) -> None:
    show_timelines(desk, DEPLOYMENT, [("Forward, then backward", schedule(ScheduleKind.GPIPE, 1))])


def peak_gib(kind: ScheduleKind, m: int, recompute: bool = False) -> float:
    """Return the peak memory of device 1 in GiB."""
    return schedule(kind, m, recompute).peak_memory_bytes[0] / 2**30


def _all_four(desk: Desk) -> None:
    header = [Cell("Schedule"), Cell("Bubble", "number"), Cell("Peak memory of device 1", "number")]
    rows = []
    for kind in KINDS:
        one = schedule(kind, 8)
        numbers = (percent(bubble(one)), binary_size(one.peak_memory_bytes[0]))
        rows.append([Cell(KIND_TITLES[kind]), *(Cell(text, "number") for text in numbers)])
    if not desk.is_presented:  # the same stands at the lanes, and a room is to see all four at once
        st.html(html_table("The four schedules with 8 micro-batches", header, rows, width_rem=36))
    _timelines(desk, KINDS, 8, lanes_only=True)


def _compare(desk: Desk) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = st.selectbox(
            "Schedule", KINDS, index=1, format_func=KIND_TITLES.__getitem__, key=f"{desk.key}_kind", width=300
        )
        m = int(st.select_slider("Micro-batches", (4, 8, 12, 16), 8, key=f"{desk.key}_m", width=260))
        again = st.toggle("Recompute activations", key=f"{desk.key}_again")
    one = schedule(kind, m, again)
    with st.container(horizontal=True):
        st.metric("Makespan", milliseconds(one.makespan_ms), width="content")
        st.metric("Bubble", percent(bubble(one)), width="content")
        st.metric("In flight on device 1", one.peak_in_flight[0], width="content")
        st.metric("Peak memory of device 1", binary_size(one.peak_memory_bytes[0]), width="content")
    _timelines(desk, (kind,), m, again)


def _recompute_cost(_: Desk) -> float:
    plain, again = schedule(ScheduleKind.ONE_F_ONE_B, 8), schedule(ScheduleKind.ONE_F_ONE_B, 8, True)
    return 100 * (again.makespan_ms / plain.makespan_ms - 1)


def _recompute_text(_: Desk) -> str:
    plain, again = schedule(ScheduleKind.ONE_F_ONE_B, 8), schedule(ScheduleKind.ONE_F_ONE_B, 8, True)
    return (
        f"Under 1F1B with 8 micro-batches device 1 needs {binary_size(plain.peak_memory_bytes[0])} at its peak; with "
        f"recomputation {binary_size(again.peak_memory_bytes[0])}. The run takes {milliseconds(again.makespan_ms)} "
        f"instead of {milliseconds(plain.makespan_ms)}. Not counted: while a layer is computed "
        "again, its activations are there once more. Whether that is a good trade depends on whether the memory is "
        "needed."
    )


def _recompute_timelines(desk: Desk) -> None:
    runs = [
        (title, schedule(ScheduleKind.ONE_F_ONE_B, 8, recompute))
        for title, recompute in (("1F1B, activations kept", False), ("1F1B, activations computed again", True))
    ]
    show_timelines(desk, DEPLOYMENT, runs)


def _by_hand() -> Schedule:
    return schedule(ScheduleKind.ONE_F_ONE_B, 5)


LESSON = Lesson(
    name="training",
    title="Training in a pipeline",
    question="Training needs a backward pass, and it needs what the forward pass computed. What does a schedule "
    "decide?",
    minutes=15,
    assumes="Lesson 1: pipeline, micro-batch, bubble.",
    setting={"accelerators": str(DEVICES), "cpus": "0", "memory": number(MEMORY_BYTES / 2**30), "schedule": "1f1b"},
    own=loaded(network(), DEPLOYMENT),
    steps=(
        Step(
            "Forward, then back",
            "Eight equal layers on four devices, two on each. In training every layer runs twice for a micro-batch: "
            "**forward**, and later **backward**, in the opposite order. A backward pass takes about twice as long, "
            "here 2 "
            "ms instead of 1 ms a layer. It needs the layer's weights and what the forward pass has computed, the "
            "**activations**; so it runs on the same device (*colocated*), which must keep them until then.",
            None,
            AskChoice(
                "For which layer must activations be kept longest?",
                ("The first layer", "The last layer", "All equally long"),
                0,
                right="It is the first to go forward and the last to go backward.",
                wrong="The last layer goes backward right after it went forward; the first one waits for all others.",
            ),
            "One micro-batch: down the devices and back. Hatched bars are backward passes.",
            _one_alone,
        ),
        Step(
            "GPipe: all forward, then all backward",
            "The simplest pipeline for training (GPipe, 2019): run all micro-batches forward, then all backward, then "
            f"update the weights. Take 8 micro-batches. The weights of a stage take "
            f"{binary_size(WEIGHT_BYTES * LAYERS / DEVICES)}, the activations of one micro-batch on it "
            f"{binary_size(ACTIVATION_BYTES * LAYERS / DEVICES)}; a device has {binary_size(MEMORY_BYTES)}.",
            None,
            AskNumber(
                "How much memory does device 1 need at the peak?",
                peak_gib(ScheduleKind.GPIPE, 8),
                "GiB",
                0.01,
                right="None has gone backward when the last one goes forward: the activations of all 8 are "
                "*in flight*, beside the weights.",
                wrong="No backward pass begins before the last forward pass: the activations of all 8 are *in flight* "
                "at that moment, beside the weights.",
            ),
            "The curves show the memory of each device over time, the line what a device has: it does not fit. It "
            "grows with every micro-batch: with twice as many micro-batches, twice the activations.",
            lambda desk: _timelines(desk, (ScheduleKind.GPIPE,), 8),
        ),
        Step(
            "1F1B: one forward, one backward",
            "The same work in another order (PipeDream-flush, 1F1B): as soon as the first micro-batch comes back, each "
            "device does one backward pass for each forward pass.",
            None,
            AskChoice(
                "Compared with GPipe, with equal stages, what changes?",
                (
                    "The bubble becomes smaller, memory stays",
                    "Memory becomes smaller, the bubble stays",
                    "Both become smaller",
                ),
                1,
                right="A backward pass frees activations before new ones come. The pipeline fills and empties as "
                "before.",
                wrong="The pipeline still has to fill and to empty, so the bubble stays. But activations are freed "
                "earlier.",
            ),
            lambda _: (
                f"Both take {milliseconds(schedule(ScheduleKind.GPIPE, 8).makespan_ms)}, with a bubble of "
                f"{percent(bubble(schedule(ScheduleKind.GPIPE, 8)))} = (p − 1) / (m + p − 1). In flight on device 1: "
                f"{schedule(ScheduleKind.GPIPE, 8).peak_in_flight[0]} against "
                f"{schedule(ScheduleKind.ONE_F_ONE_B, 8).peak_in_flight[0]}. Device i of p never keeps more than p − "
                f"i + 1, "
                "however many micro-batches there are."
            ),
            lambda desk: _timelines(desk, (ScheduleKind.GPIPE, ScheduleKind.ONE_F_ONE_B), 8),
        ),
        Step(
            "Two ways to a smaller bubble",
            "**Interleaved 1F1B** (Megatron-LM) gives each device two shorter stages instead of one: the pipeline "
            "fills in "
            "smaller steps. **Zero bubble** (ZB-H1) divides the backward pass: the gradient of the *inputs*, for "
            "which the "
            "stage before waits, is computed first; the gradient of the *weights*, for which nobody waits, fills the "
            "gaps.",
            None,
            AskNumber(
                "With two stages on each device, p = 4 and m = 8, the bubble of interleaved 1F1B is which share of "
                "the time?",
                100 * bubble(schedule(ScheduleKind.INTERLEAVED, 8)),
                "%",
                0.06,
                right="The pipeline fills in half the time: (p − 1) / 2 = 1.5 intervals instead of 3, beside 8 of "
                "work.",
                wrong="The pipeline fills in half the time: (p − 1) / 2 = 1.5 intervals beside 8 of work, 1.5 / 9.5.",
            ),
            "All four on the same stages and the same axis. Nothing is free: interleaving sends twice as many tensors "
            "(here transfers take no time), and keeps more in flight; zero bubble needs a runtime that can run the "
            "two halves apart.",
            _all_four,
        ),
        Step(
            "Recompute instead of keeping",
            "There is another way to save memory: forget the activations, keep only what a layer read, and run the "
            "forward "
            "pass **again** just before the backward pass. A layer's backward pass then takes 3 ms instead of 2.",
            None,
            AskNumber(
                "By how much does the whole run become longer, forward and backward together?",
                _recompute_cost,
                "%",
                0.05,
                right="Each layer takes 1 + 3 instead of 1 + 2 ms: a third more.",
                wrong="A layer took 1 + 2 ms and now takes 1 + 3 ms: a third more.",
            ),
            _recompute_text,
            _recompute_timelines,
        ),
        Step(
            "Try all of them",
            "Choose a schedule, a number of micro-batches, and whether activations are recomputed. Try to get below "
            "3 GiB on device 1 with a bubble under 10 %. What does it cost in makespan per micro-batch?",
            _compare,
        ),
    ),
    closing=Closing(
        "What does a training schedule decide, if the stages stay the same?",
        "How long devices idle and how many micro-batches' activations they keep: 1F1B keeps p instead of m at the "
        "same "
        "bubble as GPipe, interleaving and zero bubble make the bubble smaller, and recomputation trades a third more "
        "compute for memory.",
    ),
    exercises=(
        Exercise(
            "p = 4 equal stages, m = 16 micro-batches, 0.5 GiB of activations for each on a stage. How much do they "
            "take at "
            "the peak on device 1 under GPipe and under 1F1B?",
            "GPipe keeps 16: 8 GiB. 1F1B keeps 4: 2 GiB.",
        ),
        Exercise(
            "4 equal stages, 5 micro-batches; a forward pass takes one interval, a backward pass two. Draw the "
            "timeline of 1F1B: 0 for the forward pass of micro-batch 0, 0′ for its backward pass.",
            lambda _: f"It takes {number(_by_hand().makespan_ms / STAGE_FORWARD_MS)} intervals.",
            lambda _: grid_scene(_by_hand(), DEPLOYMENT, STAGE_FORWARD_MS, filled=False),
            lambda _: grid_scene(_by_hand(), DEPLOYMENT, STAGE_FORWARD_MS, filled=True),
        ),
        Exercise(
            "Which device keeps the least under 1F1B, and why?", "The last: it goes backward at once, so it keeps 1."
        ),
        Exercise(
            "With v stages on each device the bubble is (p − 1) / v intervals. Why does nobody take v\u00a0=\u00a0100?",
            "Every stage border is a transfer, so there are 100 times as many; and the model may not have 400 layers.",
        ),
    ),
    notes="The stages are equal and transfers cost nothing, so that the closed forms hold exactly; on real models (in "
    "Explore: GPT-2 XL, training) they do not, and the app simulates. Sources: Huang et al. 2019 (GPipe), Narayanan et "
    "al. 2019 and 2021 (PipeDream, 1F1B, interleaving), Qi et al. 2024 (zero bubble).",
)
