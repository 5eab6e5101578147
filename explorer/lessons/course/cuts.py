"""Lesson 2: what a cut costs, and why the slowest device is all that counts."""

from collections.abc import Iterator
from itertools import combinations

import streamlit as st

from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import chain_graph, loaded
from explorer.lessons.graphs import (
    BOX_H,
    BOX_W,
    GAP_X,
    MARGIN,
    chain_device_of,
    colours,
    fold_of,
    graph_marks,
    graph_scene,
    node_tip,
)
from explorer.lessons.parts import show_check, show_graph, show_loads
from explorer.lessons.records import AskChoice, AskNumber, Closing, Exercise, Lesson, Step
from explorer.lessons.scene import Change, Drag, Frame, Mark, Narrow, Scene, show_scene
from explorer.picture.palette import THEMES, ThemeName
from explorer.state import lessons as state
from solvers.analysis.load_parts import load_parts
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.quantities import milliseconds, number

TIMES = (4, 3, 2, 5, 1, 3)
TRANSFERS = (2.0, 1.0, 2.0, 3.0, 0.5, 0.0)
GRAPH = chain_graph("Six layers, tensors of different sizes", TIMES, TRANSFERS)
DEPLOYMENT = Deployment(3)
ORDER = GRAPH.topological_order
FIRST = (2, 4)
FIGURE = "cuts_figure"
BOARD = "cuts"


def split_at(cuts: tuple[int, ...], graph: DnnGraph = GRAPH) -> Split:
    """Return the chain divided after these places."""
    return Split.from_device_of(chain_device_of(graph.topological_order, cuts), DEPLOYMENT)


def loads_at(cuts: tuple[int, ...], graph: DnnGraph = GRAPH) -> list[float]:
    """Return the loads in ms when the chain is cut there."""
    return [device.load_ms for device in split_costs(graph, DEPLOYMENT, split_at(cuts, graph)).devices]


ALL_CUTS = tuple(combinations(range(1, len(ORDER)), 2))
LARGEST_MS = max(max(loads_at(cuts)) for cuts in ALL_CUTS)
"""The load that fills the whole width of the bars, so that bars of different cuts compare."""
PARTS = ("receive", "compute", "send")
BARS_X, BARS_W, BAR_H, BAR_STEP = 110.0, 500.0, 18.0, 26.0
NARROW_W = 240.0
"""The whole width of the bars on a phone, where the chain is folded."""
BEST = min(ALL_CUTS, key=lambda cuts: max(loads_at(cuts)))
EQUAL_GRAPH = chain_graph("Six layers that can be cut equally", (4, 3, 1, 5, 2, 6), (2.0, 0.5, 3.0, 3.0, 0.5, 0.0))
EQUAL = min(ALL_CUTS, key=lambda cuts: max(loads_at(cuts, EQUAL_GRAPH)) - min(loads_at(cuts, EQUAL_GRAPH)))
"""The cuts that give all three devices of that chain the same load."""
FASTER = min(ALL_CUTS, key=lambda cuts: max(loads_at(cuts, EQUAL_GRAPH)))


def _example(desk: Desk) -> None:
    show_graph(desk, GRAPH, DEPLOYMENT, split_at(FIRST))


def _example_loads(desk: Desk) -> None:
    show_loads(desk, GRAPH, DEPLOYMENT, split_at(FIRST))


def _cuts() -> tuple[int, ...]:
    known = state.board(BOARD)
    return known if isinstance(known, tuple) and known in ALL_CUTS else FIRST


def moved(cuts: tuple[int, ...], picked: list[int]) -> tuple[int, ...]:
    """Return cuts after one was dragged from the first to the last place picked; a click moves the nearest one there.

    >>> moved((2, 4), [4, 5]), moved((2, 4), [1]), moved((2, 4), [4])
    ((2, 5), (1, 4), (2, 4))
    """
    if not picked or picked[-1] in cuts:
        return cuts
    origin = picked[0] if picked[0] in cuts else min(cuts, key=lambda cut: abs(cut - picked[-1]))
    return tuple(sorted(picked[-1] if cut == origin else cut for cut in cuts))


def _take_pick() -> None:
    ids, _ = state.picked(FIGURE)
    places = [int(one[3:]) for one in ids if one.startswith("cut") and one[3:].isdigit()]
    state.remember_board(BOARD, moved(_cuts(), [p for p in places if 1 <= p < len(ORDER)]))


def loads_text(cuts: tuple[int, ...]) -> str:
    """Return the loads when the chain is cut there, and which of them counts, in words."""
    loads = loads_at(cuts)
    return f"Loads {', '.join(map(number, loads))} ms. Time per micro-batch: the largest, {milliseconds(max(loads))}."


def bars_of(cuts: tuple[int, ...], whole: float = BARS_W) -> dict[str, Change]:
    """Return the parts of each load as places and widths of the bars' marks, and the loads as texts."""
    changes: dict[str, Change] = {}
    costs = split_costs(GRAPH, DEPLOYMENT, split_at(cuts))
    for load in map(load_parts, costs.devices):
        x = BARS_X
        for part in PARTS:
            w = whole * float(getattr(load, f"{part}_ms")) / LARGEST_MS
            changes[f"{part}{load.device}"] = {"x": x, "w": w}
            x += w
        look = "strong" if load.load_ms == costs.max_load_ms else ""
        changes[f"load{load.device}"] = {"text": f"{number(load.load_ms)} ms", "look": look}
    return changes


def _bar_marks(cuts: tuple[int, ...], top: float, whole: float) -> Iterator[Mark]:
    """Yield a row for each device: its name, its bar in parts, and its load."""
    shown = bars_of(cuts, whole)
    for d in range(DEPLOYMENT.num_devices):
        y = top + d * BAR_STEP
        yield Mark(f"name{d}", "text", MARGIN, y, 90, BAR_H, text=DEPLOYMENT.device_name(d), anchor="left")
        yield Mark(f"load{d}", "text", BARS_X + whole + 8, y, 50, BAR_H, anchor="left").changed(shown[f"load{d}"])
        for part in PARTS:
            fill = colours(d, DEPLOYMENT)["fill"] if part == "compute" else None
            bar = Mark(f"{part}{d}", "box", BARS_X, y, 0, BAR_H, look=part, fill=fill, r=0)
            yield bar.changed(shown[bar.id])


def _handle(i: int, cuts: tuple[int, ...]) -> Change:
    """Return what the place after a layer shows."""
    is_cut = i in cuts
    tip = f"Cut between layers {i} and {i + 1}: {'cut here' if is_cut else 'move a cut here'}"
    return {"text": "✂" if is_cut else "", "look": "cut" if is_cut else "soft", "tip": tip}


def shown_at(cuts: tuple[int, ...], origin: int, place: int, whole: float = BARS_W) -> Frame:
    """Return what the figure of some cuts shows while one of them is dragged to another place."""
    new = moved(cuts, [origin, place])
    device_of = chain_device_of(ORDER, new)
    shown: dict[str, Change] = bars_of(new, whole)
    for v in ORDER:
        shown[f"n{v}"] = {**colours(device_of[v], DEPLOYMENT), "tip": node_tip(GRAPH, v, device_of[v], DEPLOYMENT)}
    for i in (origin, place):
        shown[f"cut{i}"] = _handle(i, new)
    return Frame((loads_text(new),), shown)


def cut_scene(cuts: tuple[int, ...], theme: ThemeName = "light") -> Scene:
    """Return the chain with a handle at every place where it can be cut, and the bars of the loads below.

    The figure has at hand what each other place would give, by the evaluator, and shows it while a cut is dragged.
    """
    marks, width, height = graph_marks(GRAPH, DEPLOYMENT, chain_device_of(ORDER, cuts), top=10)
    places = range(1, len(ORDER))
    for i in places:
        x = MARGIN + i * BOX_W + (i - 0.5) * GAP_X
        if i in cuts:
            # Below the time of the tensor that is cut, which is what the cut costs.
            marks.insert(0, Mark(f"line{i}", "line", x, 6, x2=x, y2=height + 4, look="cut"))
        marks.append(Mark(f"cut{i}", "round", x - 13, MARGIN + BOX_H + 24, 26, 26).changed(_handle(i, cuts)))
    top = height + 46
    end = top + DEPLOYMENT.num_devices * BAR_STEP
    free = [i for i in places if i not in cuts]

    def drags(whole: float) -> dict[str, Drag]:
        return {
            f"cut{cut}": Drag(f"line{cut}", {f"cut{i}": shown_at(cuts, cut, i, whole) for i in free}) for cut in cuts
        }

    chain_fold = fold_of(GRAPH)
    assert chain_fold is not None
    narrow = Narrow(
        width, end, (*marks, *_bar_marks(cuts, top, NARROW_W)), (chain_fold[0], top - 8), drags=drags(NARROW_W)
    )
    return Scene(
        width,
        end,
        (*marks, *_bar_marks(cuts, top, BARS_W)),
        "A chain of six layers with two cuts that can be moved, and the loads of three accelerators as bars",
        frames=(Frame((loads_text(cuts),)),),
        picks=tuple(f"cut{i}" for i in places),
        transfer=THEMES[theme].transfer,
        drags=drags(BARS_W),
        narrow=narrow,
    )


def _play(desk: Desk) -> None:
    st.caption(
        "Drag a pair of scissors to another place; or go to it with Tab and press ← or →; or press a place, and the "
        "nearest cut moves there. Full: compute; hatched: receive and send."
    )
    show_scene(cut_scene(_cuts(), desk.theme), FIGURE, _take_pick)


def _best(desk: Desk) -> float | None:
    result = desk.answer(LESSON.setting)
    return None if result is None else result.value_ms


def _best_plan(desk: Desk) -> None:
    show_graph(desk, GRAPH, DEPLOYMENT, split_at(BEST), "best")
    show_loads(desk, GRAPH, DEPLOYMENT, split_at(BEST))


def _shown_best(desk: Desk) -> None:
    _best_plan(desk)
    show_check(desk, LESSON.setting, max(loads_at(BEST)))


def _equal(desk: Desk) -> None:
    show_graph(desk, EQUAL_GRAPH, DEPLOYMENT, split_at(EQUAL, EQUAL_GRAPH), "equal")
    show_loads(desk, EQUAL_GRAPH, DEPLOYMENT, split_at(EQUAL, EQUAL_GRAPH))


def _faster(desk: Desk) -> None:
    show_graph(desk, EQUAL_GRAPH, DEPLOYMENT, split_at(FASTER, EQUAL_GRAPH), "faster")
    show_loads(desk, EQUAL_GRAPH, DEPLOYMENT, split_at(FASTER, EQUAL_GRAPH))
    desk.own = loaded(EQUAL_GRAPH, DEPLOYMENT)
    show_check(desk, LESSON.setting, max(loads_at(FASTER, EQUAL_GRAPH)))


def _equal_text(_: Desk) -> str:
    equal, fast = loads_at(EQUAL, EQUAL_GRAPH)[0], loads_at(FASTER, EQUAL_GRAPH)
    first, second = FASTER
    return (
        f"Cut after layers {first} and {second} instead. The loads are {', '.join(map(number, fast))} ms: uneven, so "
        f"two devices wait, and still {milliseconds(max(fast))} per micro-batch instead of {milliseconds(equal)}. The "
        "equal cuts go through large tensors, for which both sides pay."
    )


LESSON = Lesson(
    name="cuts",
    title="What a cut costs",
    question="Where should a chain of layers be cut? Why are equal shares of the work not the aim?",
    minutes=15,
    assumes="Lesson 1: the period of a pipeline is the load of its busiest device.",
    setting={"accelerators": "3", "memory": "none"},
    own=loaded(GRAPH, DEPLOYMENT),
    steps=(
        Step(
            "What a device does",
            "Six layers on three accelerators, cut after layers 2 and 4. A layer's time stands in its box, the time to "
            "move its output on the arrow behind it.\n\nThe **load** of a device is everything it does for one "
            "micro-batch: **receive** what it reads from others, **compute** its layers, **send** what others read. "
            "Sender and receiver both pay for a tensor.",
            _example,
            AskNumber(
                "What is the load of Accelerator 2, which holds layers 3 and 4?",
                loads_at(FIRST)[1],
                "ms",
                right="It receives the output of layer 2 (1 ms), computes 2 + 5 ms and sends the output of layer 4 "
                "(3 ms).",
                wrong="Add up: receive the output of layer 2 (1 ms), compute 2 + 5 ms, send the output of layer 4 "
                "(3 ms).",
            ),
            "The hatched parts of the bars are transfers. The longest bar is the time per micro-batch of the pipeline.",
            _example_loads,
        ),
        Step(
            "Find the best cuts",
            "Now cut yourself. Watch the bars: only the longest one counts.",
            _play,
            AskNumber(
                "What is the smallest time per micro-batch that two cuts can reach?",
                _best,
                "ms",
                right="No other pair of cuts is better; there are only ten to try.",
                wrong="Try each of the ten pairs of cuts; the best one is drawn, too.",
            ),
            "This is the optimum. The solver needs no trying: lesson 4 shows how it works.",
            _shown_best,
        ),
        Step(
            "Only the slowest device counts",
            "Look at the best plan again. Suppose somebody makes a layer 1 ms faster that is **not** on the busiest "
            "device.",
            _best_plan,
            AskChoice(
                "With the same cuts, by how much does the time per micro-batch fall?",
                ("By 1 ms", "By a third of a ms: the gain is shared", "Not at all"),
                2,
                right="The busiest device takes as long as before, and everybody waits for it.",
            ),
            "The time per micro-batch is the **largest** load, not the sum and not the average. This is why the "
            "problem "
            "is called *min-max*: minimise the maximum. A faster layer helps only if it lies on the busiest device, or "
            "if it lets the cuts move.",
        ),
        Step(
            "Equal bars are not the aim",
            lambda _: (
                "It sounds reasonable to make all bars equally long. Here is another chain, cut so that every device "
                f"takes exactly {milliseconds(loads_at(EQUAL, EQUAL_GRAPH)[0])} and nobody waits."
            ),
            _equal,
            AskChoice(
                "Can a plan in which devices wait be faster than this one?",
                ("No: here nobody waits", "Yes: equal bars can all be long"),
                1,
                right="A device that waits costs nothing by itself. A cut through a large tensor does.",
                wrong="A device that waits costs nothing by itself. A cut through a large tensor does.",
            ),
            _equal_text,
            _faster,
        ),
    ),
    closing=Closing(
        "What decides how fast a pipeline is, and what has to be weighed when it is cut?",
        "The largest load of any device, counting the transfers at its borders; a cut divides the compute but adds a "
        "transfer on both sides, so a slightly uneven cut through a small tensor can beat an even one through a large "
        "one.",
    ),
    exercises=(
        Exercise(
            "Times 4, 3, 2, 5, 1, 3 ms, transfers 2, 1, 2, 3, 0.5 ms. Compute the three loads for cuts after "
            "layers 1 and 3.",
            f"{', '.join(map(number, loads_at((1, 3))))} ms.",
            lambda _: graph_scene(GRAPH, DEPLOYMENT),
            lambda _: graph_scene(GRAPH, DEPLOYMENT, split_at((1, 3))),
        ),
        Exercise(
            "How many ways are there to cut a chain of n layers into 3 stages that are not empty? And into k?",
            "(n − 1)(n − 2) / 2, one for each pair of places; for k stages, n − 1 choose k − 1.",
        ),
        Exercise(
            "Transfers cost nothing. Prove that the best largest load is at least the sum of the times divided by k.",
            "The k loads add up to the sum of the times, so they cannot all be smaller than their average.",
        ),
    ),
    notes="Let the class vote on cuts before you move them. Step 4 is the point of the lesson: let somebody defend "
    "equal bars first. The model counts a transfer at both ends because all traffic passes through host memory.",
)
