"""Lesson 1: why a model is split, and what a pipeline is."""

import streamlit as st

from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import chain_graph
from explorer.lessons.grid import grid_scene
from explorer.lessons.parts import show_graph, show_loads, show_timelines
from explorer.lessons.records import AskChoice, AskNumber, Closing, Exercise, Lesson, Step
from explorer.lessons.scene import Scene
from solvers.model.deployment import Deployment
from solvers.model.split import Split
from solvers.quantities import binary_size, milliseconds, percent
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import Schedule, simulate

SETTING = {"sample": "teaching_chain"}
MICRO_BATCHES = 6
STAGE_MS = 4.0
LAYER_BYTES = 5e9
"""What each layer of the sample needs."""


def even_pipeline(p: int, m: int, kind: ScheduleKind = ScheduleKind.INFERENCE) -> tuple[Deployment, Schedule]:
    """Return p equal stages of 4 ms without transfers, and their schedule of m micro-batches."""
    graph = chain_graph("equal stages", [STAGE_MS] * p)
    deployment = Deployment(p)
    return deployment, simulate(graph, deployment, Split(tuple(frozenset({v}) for v in range(1, p + 1))), kind, m)


def bubble(schedule: Schedule) -> float:
    """Return the mean share of the makespan that devices idle."""
    shares = [share for share in schedule.bubble_fraction if share is not None]
    return sum(shares) / len(shares)


def _model(desk: Desk) -> None:
    subject = desk.subject(SETTING)
    show_graph(desk, subject.graph, subject.question.deployment, None)


def _plan(desk: Desk) -> None:
    subject, result = desk.subject(SETTING), desk.answer(SETTING)
    if result is not None and result.split is not None:
        deployment = subject.question.deployment
        show_graph(desk, subject.graph, deployment, result.split, "plan")
        show_loads(desk, subject.graph, deployment, result.split)


def _runs(desk: Desk, *kinds: tuple[str, ScheduleKind]) -> None:
    found = [(title, desk.schedule(SETTING, kind, MICRO_BATCHES)) for title, kind in kinds]
    runs = [(title, schedule) for title, schedule in found if schedule is not None]
    if len(runs) == len(kinds):
        show_timelines(desk, desk.subject(SETTING).question.deployment, runs, lanes_only=True)


def _alone(desk: Desk) -> None:
    _runs(desk, ("Model parallel: one micro-batch at a time", ScheduleKind.UNPIPELINED))


def _both(desk: Desk) -> None:
    _runs(
        desk,
        ("Model parallel: one micro-batch at a time", ScheduleKind.UNPIPELINED),
        ("Pipeline: each device starts the next micro-batch at once", ScheduleKind.INFERENCE),
    )


def _period(desk: Desk) -> float | None:
    result = desk.answer(SETTING)
    return None if result is None else result.value_ms


def _speed(desk: Desk) -> str | None:
    slow, fast = (
        desk.schedule(SETTING, kind, MICRO_BATCHES) for kind in (ScheduleKind.UNPIPELINED, ScheduleKind.INFERENCE)
    )
    if slow is None or fast is None:
        return None
    return (
        f"The same work on the same devices takes {milliseconds(slow.makespan_ms)} one by one, and "
        f"{milliseconds(fast.makespan_ms)} as a pipeline. The bracket marks the **period**: the time from one finished "
        "micro-batch to the next once the pipeline is full, in its **steady state**. "
        "It is the load of the busiest device, the **bottleneck**. "
        "The first "
        "micro-batch gains nothing: its **latency** "
        "is as long as before."
    )


def _four(desk: Desk) -> None:
    deployment, schedule = even_pipeline(4, 4)
    show_timelines(desk, deployment, [("4 equal stages", schedule)], lanes_only=True)


def _explore(desk: Desk) -> None:
    with st.container(horizontal=True):
        p = int(st.slider("Stages p", 1, 8, 4, key=f"{desk.key}_p"))
        m = int(st.slider("Micro-batches m", 1, 32, 4, key=f"{desk.key}_m"))
    deployment, schedule = even_pipeline(p, m)
    with st.container(horizontal=True):
        st.metric("Makespan", milliseconds(schedule.makespan_ms), width="content")
        st.metric("Work of each device", milliseconds(m * STAGE_MS), width="content")
        st.metric("Bubble", percent(bubble(schedule)), width="content")
    show_timelines(
        desk,
        deployment,
        [(f"{p} equal stages of {milliseconds(STAGE_MS)}", schedule)],
        lanes_only=True,
    )


def _staircase(*, filled: bool) -> Scene:
    deployment, schedule = even_pipeline(3, 3)
    return grid_scene(schedule, deployment, STAGE_MS, filled=filled)


LESSON = Lesson(
    name="pipelining",
    title="Why split, and what a pipeline is",
    question="A model does not fit on one device. How do several devices run it without waiting for each other?",
    minutes=15,
    assumes="Nothing but what a layer of a neural network is.",
    setting=SETTING,
    steps=(
        Step(
            "A model that does not fit",
            "A network of six layers. On each box stands how long the layer takes on an accelerator, on each arrow how "
            "long it takes to move the layer's output between an accelerator and host memory. Every layer needs 5 GB "
            "for its weights and activations, 30 GB in all. An accelerator here has 16 GB.",
            _model,
            AskNumber(
                "By memory alone, on how many accelerators must the model be divided at least?",
                2.0,
                "accelerators",
                0.0,
                right="Three layers of 5 GB fit into 16 GB, four do not: two accelerators are the least.",
            ),
            "We take three accelerators, and let the solver of this app divide the layers. Each colour is a device; "
            "the "
            "layers on one device are a **stage**. The bars show what each device does for one **micro-batch** (a "
            "small "
            "batch that passes through the model as one piece): compute, and the transfers at its borders.",
            _plan,
        ),
        Step(
            "One micro-batch after the other",
            f"Now {MICRO_BATCHES} micro-batches are to be run. The simplest way: send one through all stages, then the "
            "next. This is plain **model parallelism**.",
            None,
            AskChoice(
                "While it runs like this, how many of the three devices work at any moment?",
                ("One", "Two", "All three"),
                0,
                right="There is only one micro-batch, and it is on one device at a time. The others wait.",
            ),
            lambda _: (
                "Time runs to the right, a row is a device, a number is a micro-batch. As only one device works at a "
                "time, two thirds of the picture are empty. At the right stand the share of the time that each device "
                "idles and works, and the memory it needs: two layers of 5 GB, which are "
                f"{binary_size(2 * LAYER_BYTES)} (a GB is 10⁹ bytes, a GiB 2³⁰). What the bracket marks is the "
                "question of the next step."
            ),
            _alone,
        ),
        Step(
            "Start the next one at once",
            "As soon as the first device has handed over micro-batch 0, nothing keeps it from starting micro-batch 1. "
            "This is a **pipeline**. The loads of the three devices are 7.5, 8 and 4.5 ms.",
            None,
            AskNumber(
                "When the pipeline is full, how much time passes from one finished micro-batch to the next?",
                _period,
                "ms",
                right="The busiest device needs 8 ms for each, so nothing can come out faster; the others wait for it.",
                wrong="Every micro-batch must pass through the busiest device, which takes 8 ms for each. The sum of "
                "the loads is the latency of one micro-batch, not the time between two.",
            ),
            _speed,
            _both,
        ),
        Step(
            "The price: warm-up and cool-down",
            "A pipeline starts empty: in the **warm-up** the last device must wait until the first micro-batch "
            "arrives, and in the **cool-down** at the end the first device has nothing left to do. This idle time is "
            "called the **bubble**. Take 4 stages that are exactly equal, 4 ms each, and 4 micro-batches.",
            None,
            AskNumber(
                "Which share of the time does each device idle?",
                lambda _: 100 * bubble(even_pipeline(4, 4)[1]),
                "%",
                0.04,
                right="Each device works for 4 of the 7 intervals, so it idles for 3 of 7.",
                wrong="The whole run takes 7 intervals of 4 ms: 4 for the micro-batches and 3 until the last device "
                "starts. Each device works for 4 of them and idles for 3.",
            ),
            "Count in the picture: 4 + 3 intervals, and 3 empty ones in every row.",
            _four,
        ),
        Step(
            "Find the law",
            "Move the number of stages p and of micro-batches m, and watch the bubble and the **makespan**, which "
            "is how long the whole run takes. Find a formula for the "
            "bubble before you go on.",
            _explore,
            AskNumber(
                "With p = 8 stages and m = 25 micro-batches, which share of the time is bubble?",
                lambda _: 100 * bubble(even_pipeline(8, 25)[1]),
                "%",
                0.04,
                right="(p − 1) / (m + p − 1) = 7 / 32.",
                wrong="The run takes m + p − 1 intervals, of which each device idles p − 1: 7 / 32.",
            ),
            "For equal stages the bubble is **(p − 1) / (m + p − 1)** of the time. More micro-batches make it as "
            "small as "
            "you like, more stages make it larger. In the long run only the **period** counts: the load of the busiest "
            "device. Making that small is what the rest of this course is about.",
        ),
    ),
    closing=Closing(
        "Why does a pipeline of three devices finish more micro-batches per second than one micro-batch at a time, and "
        "what limits it?",
        "Because all devices work at the same time on different micro-batches; in the steady state a micro-batch comes "
        "out once per period, and the period is the load of the busiest device.",
    ),
    exercises=(
        Exercise(
            "Four equal stages, 12 micro-batches. How large is the bubble?",
            lambda _: f"3 / 15 = {percent(bubble(even_pipeline(4, 12)[1]))} of the time.",
        ),
        Exercise(
            "Eight equal stages. How many micro-batches are needed so that the bubble is at most 10 %?",
            "7 / (m + 7) ≤ 0.1 gives m ≥ 63.",
        ),
        Exercise(
            "Three stages take 7.5, 8 and 4.5 ms. What are the latency of one micro-batch and the period? What changes "
            "if the third stage takes 6 ms instead?",
            "Latency 20 ms, period 8 ms. With 6 ms the latency is 21.5 ms and the period is still 8 ms.",
        ),
        Exercise(
            "Draw the timeline of 3 equal stages and micro-batches 0, 1 and 2, and mark the bubble.",
            "Nine boxes in a staircase over 5 intervals; two empty intervals in each of the three rows: 2 / 5.",
            lambda _: _staircase(filled=False),
            lambda _: _staircase(filled=True),
        ),
    ),
    notes="Begin with the question of step 2 before you show anything; half of a class says *all three*. In step 5 let "
    "them call out values for p and m and write the bubbles on the board until someone sees the formula. A common "
    "mistake is to take the sum of the loads for the period: show in step 3 that it is the latency.",
)
