"""What a lesson in JSON can show and ask for, by name: figures, and numbers that are computed.

Each entry checks its own fields and raises ValueError with what to give.
"""

from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from explorer.lessons.board import show_board
from explorer.lessons.desk import Desk, Setting
from explorer.lessons.dp_table import dp_scene
from explorer.lessons.lattice import lattice_scene
from explorer.lessons.parts import show_check, show_graph, show_loads, show_picture, show_timelines
from explorer.lessons.scene import show_scene
from explorer.words.wording import plain, proof
from solvers.model.costs import Objective
from solvers.quantities import milliseconds
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import Schedule
from solvers.teaching.dynamic_program import solved_table, split_of
from solvers.teaching.ideals import ideals_of
from solvers.teaching.small import SmallProblem

MAX_MICRO_BATCHES = 64
Fields = Mapping[str, Any]
NamedFigure = Callable[[Desk, Setting], None]
NamedValue = Callable[[Desk, Setting], float | None]


def _schedule_of(fields: Fields) -> Callable[[Desk, Setting], Schedule | None]:
    name, num = fields.get("schedule", ScheduleKind.INFERENCE.value), fields.get("micro_batches", 8)
    if name not in [kind.value for kind in ScheduleKind]:
        raise ValueError(f"'schedule' must be one of {', '.join(ScheduleKind)}.")
    if not isinstance(num, int) or isinstance(num, bool) or not 1 <= num <= MAX_MICRO_BATCHES:
        raise ValueError(f"'micro_batches' must be a whole number from 1 to {MAX_MICRO_BATCHES}.")
    return lambda desk, setting: desk.schedule(setting, ScheduleKind(name), num)


def _small(desk: Desk, setting: Setting) -> SmallProblem:
    subject = desk.subject(setting)
    return SmallProblem(subject.graph, subject.question.deployment)


def _graph(fields: Fields) -> NamedFigure:
    def draw(desk: Desk, setting: Setting) -> None:
        subject = desk.subject(setting)
        show_graph(desk, subject.graph, subject.question.deployment, None, fields["place"])

    return draw


def _plan(fields: Fields) -> NamedFigure:
    def draw(desk: Desk, setting: Setting) -> None:
        subject, result = desk.subject(setting), desk.answer(setting)
        if result is None:
            return
        if result.split is None or result.value_ms is None:
            st.info(plain(result.message or "No plan fits on these devices."))
            return
        title = fields.get("title")
        is_latency = subject.question.objective is Objective.LATENCY
        what = "from start to end of one micro-batch" if is_latency else "per micro-batch"
        found = plain(f"{milliseconds(result.value_ms)} {what}, {proof(result)}")
        st.markdown(f"**{plain(title)}**: {found}" if title else found)
        deployment = subject.question.deployment
        show_graph(desk, subject.graph, deployment, result.split, fields["place"])
        show_loads(desk, subject.graph, deployment, result.split, result.lower_bound_ms)

    return draw


def _plans(fields: Fields) -> NamedFigure:
    against = fields.get("against")
    if not isinstance(against, Mapping):
        raise ValueError("'against' must say what is different in the second plan, as 'setting' does.")

    def draw(desk: Desk, setting: Setting) -> None:
        titles = (fields.get("title", ""), fields.get("against_title", ""))
        # A presented step has its figures in a column of the page; two in that would be too small for a room.
        places = (st.container(), st.container()) if desk.is_presented else st.columns(2)
        sides = zip(places, (setting, against), titles, ("first", "second"), strict=True)
        for column, one, title, side in sides:
            with column:
                _plan({**fields, "title": title, "place": f"{fields['place']}_{side}"})(desk, one)

    return draw


def _timeline(fields: Fields) -> NamedFigure:
    schedule_of = _schedule_of(fields)

    def draw(desk: Desk, setting: Setting) -> None:
        schedule = schedule_of(desk, setting)
        if schedule is not None:
            runs = [(fields.get("title", ""), schedule)]
            show_timelines(desk, desk.subject(setting).question.deployment, runs, fields["place"])

    return draw


def _replay(fields: Fields) -> NamedFigure:
    schedule_of = _schedule_of(fields)

    def draw(desk: Desk, setting: Setting) -> None:
        schedule, result = schedule_of(desk, setting), desk.answer(setting)
        if schedule is not None and result is not None and result.split is not None:
            subject = desk.subject(setting)
            split = result.split.on(subject.question.deployment)
            show_picture(desk, subject.graph, subject.question.deployment, split, schedule, fields["place"])

    return draw


def _ideals(fields: Fields) -> NamedFigure:
    def draw(desk: Desk, setting: Setting) -> None:
        problem = _small(desk, setting)
        show_scene(lattice_scene(problem, ideals_of(problem)), f"{desk.key}_{fields['place']}")

    return draw


def _table(fields: Fields) -> NamedFigure:
    def draw(desk: Desk, setting: Setting) -> None:
        problem = _small(desk, setting)
        show_scene(dp_scene(problem, film=repr(sorted(setting.items()))), f"{desk.key}_{fields['place']}")
        cells = solved_table(problem)
        split = split_of(problem, cells)
        costs = None if split is None else desk.costs(setting, split)
        show_check(desk, setting, None if costs is None else costs.max_load_ms)

    return draw


def _board(fields: Fields) -> NamedFigure:
    def draw(desk: Desk, setting: Setting) -> None:
        _, said = show_board(desk, setting, f"{desk.key}_{fields['place']}")
        if said:  # what is wrong with a placement stands above already
            st.markdown(said)

    return draw


def _time(_: Fields) -> NamedValue:
    def value(desk: Desk, setting: Setting) -> float | None:
        result = desk.answer(setting)
        return None if result is None else result.value_ms

    return value


def _bound(_: Fields) -> NamedValue:
    def value(desk: Desk, setting: Setting) -> float | None:
        result = desk.answer(setting)
        return None if result is None else result.lower_bound_ms

    return value


def _work(_: Fields) -> NamedValue:
    return lambda desk, setting: sum(node.accelerator_ms for node in desk.subject(setting).graph.nodes)


def _largest(_: Fields) -> NamedValue:
    return lambda desk, setting: max(node.accelerator_ms for node in desk.subject(setting).graph.nodes)


def _longest(_: Fields) -> NamedValue:
    def value(desk: Desk, setting: Setting) -> float | None:
        graph = desk.subject(setting).graph
        ends: dict[int, float] = {}
        for v in graph.topological_order:
            ends[v] = max((ends[u] for u in graph.inputs[v]), default=0.0) + graph.node_by_id[v].accelerator_ms
        return max(ends.values())

    return value


def _share(_: Fields) -> NamedValue:
    def value(desk: Desk, setting: Setting) -> float | None:
        subject = desk.subject(setting)
        work = sum(node.accelerator_ms for node in subject.graph.nodes)
        return work / max(1, subject.question.deployment.num_accelerators)

    return value


def _num_ideals(_: Fields) -> NamedValue:
    return lambda desk, setting: float(len(ideals_of(_small(desk, setting))))


def _makespan(fields: Fields) -> NamedValue:
    schedule_of = _schedule_of(fields)

    def value(desk: Desk, setting: Setting) -> float | None:
        schedule = schedule_of(desk, setting)
        return None if schedule is None else schedule.makespan_ms

    return value


def _bubble(fields: Fields) -> NamedValue:
    schedule_of = _schedule_of(fields)

    def value(desk: Desk, setting: Setting) -> float | None:
        schedule = schedule_of(desk, setting)
        shares = [] if schedule is None else [share for share in schedule.bubble_fraction if share is not None]
        return 100 * sum(shares) / len(shares) if shares else None

    return value


FIGURES: dict[str, Callable[[Fields], NamedFigure]] = {
    "graph": _graph,
    "plan": _plan,
    "plans": _plans,
    "timeline": _timeline,
    "replay": _replay,
    "ideals": _ideals,
    "table": _table,
    "board": _board,
}
"""Figures: the graph, the best plan with its loads, two of them side by side, its timeline, graph and timeline linked,
the ideals, the table of the dynamic program as it fills, and a board on which the learner places the nodes."""

VALUES: dict[str, Callable[[Fields], NamedValue]] = {
    "time": _time,
    "bound": _bound,
    "work": _work,
    "share": _share,
    "largest": _largest,
    "longest": _longest,
    "ideals": _num_ideals,
    "makespan": _makespan,
    "bubble": _bubble,
}
"""Numbers: the optimum and its bound in ms, all work, work per accelerator, the largest node and the longest path in
ms, how many ideals, the makespan in ms and the mean bubble in percent of a schedule."""
