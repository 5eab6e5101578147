"""Parts of the app that lessons show: load bars, timelines on one axis, and sentences on what was found."""

from collections.abc import Callable, Sequence

import streamlit as st

from explorer.elements.load_bars import load_bars
from explorer.lessons.desk import Desk, Setting
from explorer.lessons.graphs import graph_scene
from explorer.lessons.scene import show_scene
from explorer.picture.component import PictureOptions, placed_pipeline
from explorer.picture.dag_view import remembered_dag_info
from explorer.picture.gantt_view import gantt_info
from explorer.words.wording import plain, proof
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Split
from solvers.quantities import milliseconds
from solvers.schedule.simulate import Schedule

FIGURES_SHARE = 0.88
"""Of the height of a presented step, what its figures may take beside the heading."""


def show_loads(
    desk: Desk,
    graph: DnnGraph,
    deployment: Deployment,
    split: Split,
    bound_ms: float | None = None,
    least_scale_ms: float = 0.0,
) -> None:
    """Draw the load of every device as a bar, by the evaluator; the scale ends at `least_scale_ms` or later."""
    st.html(load_bars(split_costs(graph, deployment, split), deployment, bound_ms, desk.theme, least_scale_ms))


def show_graph(desk: Desk, graph: DnnGraph, deployment: Deployment, split: Split | None, name: str = "graph") -> None:
    """Draw a small graph in the colours of its devices."""
    show_scene(graph_scene(graph, deployment, split), f"{desk.key}_{name}")


def show_graph_before(graph: DnnGraph, deployment: Deployment) -> Callable[[Desk], None]:
    """Return what draws a graph until the step's figure is there, which has it too."""

    def draw(desk: Desk) -> None:
        if not desk.is_revealed:
            show_graph(desk, graph, deployment, None)

    return draw


def show_timelines(
    desk: Desk,
    deployment: Deployment,
    runs: Sequence[tuple[str, Schedule]],
    name: str = "times",
    *,
    lanes_only: bool = False,
) -> None:
    """Draw schedules below each other on one axis of time, each under its title; bounds are left to lesson 8.

    With `lanes_only` each is its lanes alone, so that several are seen at once.
    """
    end_ms = max(schedule.makespan_ms for _, schedule in runs)
    for i, (title, schedule) in enumerate(runs):
        placed_pipeline(
            None,
            gantt_info(schedule, deployment, title=title, has_bounds=False),
            key=f"{desk.key}_{name}_{i}",
            options=PictureOptions(
                compact=True,
                time_max_ms=end_ms,
                large=desk.is_presented,
                lanes_only=lanes_only,
                window_share=FIGURES_SHARE / len(runs),
            ),
        )


def show_picture(
    desk: Desk, graph: DnnGraph, deployment: Deployment, split: Split, schedule: Schedule | None, name: str = "picture"
) -> None:
    """Draw the linked picture of the app: the placed graph above its timeline, with replay."""
    placed_pipeline(
        remembered_dag_info(graph, deployment, split),
        None if schedule is None else gantt_info(schedule, deployment, has_bounds=False),
        key=f"{desk.key}_{name}",
        options=PictureOptions(compact=True, large=desk.is_presented),
    )


def show_check(desk: Desk, setting: Setting, value_ms: float | None) -> None:
    """Say whether the production solver finds the same value as a lesson; nothing while it is at work."""
    result = desk.answer(setting)
    if result is None:
        return
    if result.value_ms is None or value_ms is None:
        agrees = result.value_ms is value_ms
        found = "no plan" if result.value_ms is None else milliseconds(result.value_ms)
    else:
        agrees = abs(result.value_ms - value_ms) <= 1e-6 * max(1.0, value_ms)
        found = f"{milliseconds(result.value_ms)}, {proof(result)}"
    if agrees:
        st.success(f"The solver of this app finds the same: {plain(found)}.", icon=":material/verified:")
    else:
        st.error(f"The solver of this app finds {plain(found)}; this is a fault of the program.")
