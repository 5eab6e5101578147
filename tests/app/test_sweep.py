"""The page Sweep: runs beside the page, figures, and the way from a point to the explorer."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from explorer.jobs.pool import JobState, Question, WorkerPool
from explorer.jobs.sweep_run import SweepRun
from explorer.picture.palette import contrast
from explorer.state.query import Link, from_query, to_query
from explorer.state.records import LoadedGraph, Subject
from explorer.sweep.address import axis_name, axis_named, link_to_point, prices_from, prices_query, subject_of_link
from explorer.sweep.cell_scale import CellScale, steps
from explorer.sweep.choice import axis_of, quantities
from explorer.sweep.figures import Picture, sweep_figure
from explorer.sweep.page import held_text, legend, why_nothing, why_stopped
from explorer.sweep.prices import lacking_text
from explorer.sweep.what_to_buy import front_caption, pareto_figure
from solvers.hardware.prices import PriceBasis, Prices
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult, SolveStatus
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep.axes import Axis, Quantity, Varied
from solvers.sweep.front import front_of
from solvers.sweep.measures import Measure
from solvers.sweep.run import run_sweep
from solvers.sweep.spec import Index, SweepSpec
from solvers.sweep.table import sweep_rows
from tests.support.graphs import chain
from tests.support.opened_app import unescaped
from tests.support.sweeps import threads
from tests.support.waiting import eventually


def two_axes() -> SweepSpec:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2, 4)), Axis(Quantity.MEMORY, (1.0, 2.0, 4.0)))
    return SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), axes)


def one_axis() -> SweepSpec:
    return SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), (Axis(Quantity.ACCELERATORS, tuple(range(9))),))


def solved(spec: SweepSpec) -> dict[Index, SolveResult]:
    return {answer.index: answer.result for answer in run_sweep(spec, threads)}


def picture(spec: SweepSpec, measure: Measure = Measure.THROUGHPUT) -> Picture:
    return Picture(spec, solved(spec), measure, Prices(2.0), "light")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("measure", list(Measure))
def test_the_heat_map_shows_every_point_and_what_is_infeasible(theme: str, measure: Measure) -> None:
    shown = replace(picture(two_axes(), measure), theme=theme)  # type: ignore[arg-type]
    figure = sweep_figure(shown)
    heat_maps = [trace for trace in figure.data if trace.type == "heatmap"]
    under, values = heat_maps
    for (i, j), result in shown.answers.items():
        assert under.z[j][i] == (result.value_ms is None)
        assert values.z[j][i] == shown.value((i, j))
    assert sum(map(sum, under.z)) == 3
    (hatch,) = (trace for trace in figure.data if trace.name == "infeasible")
    assert sum(x is None for x in hatch.x) == 3
    assert hatch.fillpattern.shape
    (targets,) = (trace for trace in figure.data if trace.type == "scatter" and trace.customdata is not None)
    assert list(targets.customdata) == list(range(9))
    assert sorted(zip(targets.x, targets.y, strict=True)) == sorted(shown.spec.points())


def test_numbers_in_cells_can_be_read() -> None:
    figure = sweep_figure(picture(two_axes()))
    (numbers,) = (trace for trace in figure.data if trace.type == "scatter" and trace.mode == "text")
    values = next(trace for trace in figure.data if trace.type == "heatmap" and trace.colorbar.title.text)
    known = [value for row in values.z for value in row if value is not None]
    stops = [colour for _, colour in values.colorscale]
    for x, y, colour in zip(numbers.x, numbers.y, numbers.textfont.color, strict=True):
        i, j = round(x), round(y)
        place = (values.z[j][i] - min(known)) / (max(known) - min(known)) * (len(stops) - 1)
        assert contrast(stops[round(place)], colour) > 3.9


def test_the_curve_marks_the_knee_and_what_is_infeasible() -> None:
    figure = sweep_figure(picture(one_axis()))
    curve, linear, knee, nothing = figure.data
    assert (list(linear.x), list(linear.y)) == ([1, 8], [250.0, 2000.0])
    assert list(curve.x) == list(range(1, 9))
    assert list(curve.y)[3:] == pytest.approx([1000.0] * 5)
    assert list(knee.x) == [4]
    assert list(nothing.x) == [0]


def test_pictures_of_nothing_yet() -> None:
    for spec in (one_axis(), two_axes()):
        empty = Picture(spec, {}, Measure.THROUGHPUT, Prices(), "dark")
        assert sweep_figure(empty).data
        assert pareto_figure(empty).data


def test_the_pareto_front_leads_through_its_diamonds() -> None:
    beaten, front = pareto_figure(picture(one_axis())).data
    assert list(front.x) == [2.0, 4.0, 8.0]
    assert set(front.marker.symbol) == {"diamond"}
    assert list(beaten.x) == [6.0, 10.0, 12.0, 14.0, 16.0]
    assert sorted([*front.customdata, *beaten.customdata]) == list(range(1, 9))


def test_the_link_of_a_point_asks_explore_the_question_of_the_point() -> None:
    for query in ({"sample": "teaching_chain"}, {"sample": "gnmt_layer_inference", "cpus": "2", "bandwidth": "4"}):
        subject, _ = subject_of_link(from_query(query)[0])
        axes = (
            axis_of(Varied(Quantity.ACCELERATORS), "2,3", subject),
            axis_of(Varied(Quantity.BANDWIDTH), "2:8:x2", subject),
        )
        spec = SweepSpec(subject.loaded.graph, subject.question.deployment, axes)
        for index in spec.points():
            link = link_to_point(spec, subject, index)
            read, problems = from_query(to_query(link))
            assert problems == ()
            (again, said), asked = subject_of_link(read), spec.asked(index)
            assert said == ()
            assert again.question.deployment == asked.deployment
            assert again.graph.digest == asked.graph.digest


def test_the_question_of_an_address_is_that_of_explore() -> None:
    graph, own = read_sample("teaching_chain")
    subject, _ = subject_of_link(Link(sample="teaching_chain", values={"accelerators": 5, "memory": 8.0}))
    assert subject.question.deployment == replace(own, num_accelerators=5, memory_bytes=8 * 2**30)
    assert subject.graph.digest == graph.digest
    other, said = subject_of_link(Link(sample="no_such_sample"))
    assert other.loaded.graph.nodes
    assert said[0].startswith("There is no sample no_such_sample")


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-1", "1:2:0", "nan", "1e400", "3:1", "1,1", "1.5"])
def test_values_that_cannot_be_read_are_named(text: str) -> None:
    loaded = LoadedGraph(chain([1.0]), Deployment(1), "x")
    subject = Subject(loaded, loaded.graph, Question(loaded.graph.digest, loaded.deployment), Link())
    with pytest.raises(PlacementError):
        axis_of(Varied(Quantity.ACCELERATORS), text, subject)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool() as pool:
        yield pool


def bert_run(pool: WorkerPool, is_open: Callable[[str], bool] = lambda _: True) -> SweepRun:
    graph, deployment = read_sample("bert_base_operator_inference")
    axes = (Axis(Quantity.ACCELERATORS, tuple(range(1, 7))), Axis(Quantity.BANDWIDTH_FACTOR, (0.5, 1, 2, 4)))
    return SweepRun(SweepSpec(graph, deployment, axes), "session", is_open, pool)


def test_cancel_keeps_what_is_done_and_resume_goes_on(pool: WorkerPool) -> None:
    run = bert_run(pool)
    run.start()
    eventually(lambda: len(run.state().answers) >= 3)
    run.cancel()
    state = run.state()
    assert not state.is_running
    assert 3 <= len(state.answers) < 24
    eventually(lambda: not list(pool._slots) and not pool._slots.waiting)  # nothing goes on
    run.start()
    eventually(lambda: not run.state().is_running)
    after = run.state()
    assert after.answers.keys() == set(run.spec.points())
    assert all(after.answers[index] is result for index, result in state.answers.items())
    assert not after.error
    asked = run.spec.asked((3, 2))
    assert after.answers[(3, 2)].value_ms == pytest.approx(solve(asked.graph, asked.deployment).value_ms, rel=1e-6)


def test_a_sweep_ends_with_its_session(pool: WorkerPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.jobs.sweep_run.GRACE_SECONDS", 0.0)
    open_sessions = {"session"}
    run = bert_run(pool, open_sessions.__contains__)
    run.start()
    eventually(lambda: bool(run.state().answers))
    open_sessions.clear()
    eventually(lambda: not run.state().is_running)
    assert len(run.state().answers) < 24


def test_a_sweep_that_two_tabs_show_goes_on_until_neither_does(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("explorer.jobs.sweep_run.GRACE_SECONDS", 0.0)
    open_sessions = {"session", "doubled"}
    run = bert_run(pool, open_sessions.__contains__)
    run.shown_in("doubled")
    run.start()
    eventually(lambda: bool(run.state().answers))
    run.leave("doubled")  # another sweep begins there
    assert run.state().is_running
    run.shown_in("doubled")
    open_sessions.remove("session")
    num_answers = len(run.state().answers)
    eventually(lambda: len(run.state().answers) > num_answers)  # more than a look at whether it is over
    assert run.state().is_running
    run.leave("doubled")
    assert not run.state().is_running
    assert len(run.state().answers) < 24


def test_a_cluster_that_is_not_there_is_one_sentence(pool: WorkerPool) -> None:
    run = replace(bert_run(pool), dask_address="nonsense://x")
    run.start()
    eventually(lambda: not run.state().is_running)
    assert run.state().error.startswith("There is no Dask scheduler at")
    assert run.state().details == ""


def test_a_sweep_holds_up_nobody_and_says_what_it_waits_for() -> None:
    """One slot: a sweep that was asked for later waits in words; a solve of a third comes before its second point."""
    with WorkerPool(max_asked=1, max_live=1, spare=0) as pool:
        first, second = bert_run(pool), replace(bert_run(pool), session="another")
        first.start()
        eventually(lambda: first.state().answers)
        second.start()
        graph, deployment = read_sample("teaching_chain")
        solved = pool.start("a third", Question(graph.digest, deployment), graph).wait(120.0)
        assert solved.state is JobState.DONE
        assert len(first.state().answers) < 24
        eventually(lambda: "in the queue" in second.state().message or second.state().answers)
        eventually(lambda: second.state().answers)
        assert first.state().is_running
        for run in (first, second):
            run.cancel()
            assert not run.state().error


def test_a_killed_solver_process_costs_a_sweep_nothing(pool: WorkerPool) -> None:
    run = bert_run(pool)
    run.start()
    eventually(lambda: run.state().answers)
    for worker, work in pool._processes.all():
        if work is not None:
            os.kill(worker.pid, signal.SIGKILL)
    eventually(lambda: not run.state().is_running)
    state = run.state()
    assert (len(state.answers), state.num_failed, state.error) == (24, 0, "")
    assert all(answer.status is SolveStatus.OPTIMAL for answer in state.answers.values())


def test_points_that_take_too_much_memory_say_so_and_the_rest_goes_on() -> None:
    with WorkerPool(memory_bytes=2.0**20, spare=0) as pool:  # less than any process takes
        run = replace(bert_run(pool), spec=replace(two_axes(), axes=two_axes().axes[:1]))
        run.start()
        eventually(lambda: not run.state().is_running)
        state = run.state()
    assert (len(state.answers), state.num_failed, state.error) == (3, 0, "")
    for answer in state.answers.values():
        assert (answer.status, answer.method) == (SolveStatus.UNKNOWN, "auto (stopped)")
        assert answer.message.startswith("The solver was stopped at 1 MiB of memory")


def test_the_page_says_how_many_points_ended_early_and_why() -> None:
    answers = solved(two_axes())
    assert why_stopped(answers) == ""
    for count, lead in ((1, "1 point ended early, its best plan and bound are kept. Too much."), (2, "2 points ended")):
        for index in sorted(answers)[-count:]:
            answers[index] = replace(answers[index], method="auto (stopped)", message="Too much.")
        assert why_stopped(answers).startswith(lead)


def test_an_address_with_devices_sweeps_on_these_devices() -> None:
    values = {"devices": "H100-SXM:link=nvlink4", "accelerators": 3, "cpus": 0, "efficiency": 0.4}
    link = Link(sample="gnmt_layer_inference", values=values)
    subject, _ = subject_of_link(link)
    assert subject.question.deployment.memory_bytes == 80e9
    assert subject.question.deployment.num_accelerators == 3
    assert subject.graph.times is not None
    assert subject.graph.times.accelerator == "H100-SXM"
    assert subject.graph.bandwidth_bytes_per_ms == pytest.approx(450e6)
    slower = subject_of_link(link.with_values(efficiency=0.2))[0].graph
    assert sum(node.accelerator_ms for node in slower.nodes) > 1.05 * sum(n.accelerator_ms for n in subject.graph.nodes)
    mixed = Link(sample="gnmt_layer_inference", values={"devices": "2xA100-80+4xT4", "accelerators": 9, "memory": 1.0})
    cluster, _ = subject_of_link(mixed)
    assert [one.name for one in cluster.question.deployment.classes] == ["A100-80", "T4"]
    assert cluster.question.deployment.num_accelerators == 6
    timeless = Link(sample="teaching_chain", values={"devices": "H100-SXM"})  # whose times nobody knows
    wrong, said = subject_of_link(timeless)
    assert said[0].startswith("The devices of this address were not applied.")
    assert wrong.graph.digest == wrong.loaded.graph.digest


def test_names_of_devices_are_text_in_figures_never_markup() -> None:
    name = '<a href="http://x">T4</a>'
    devices = Deployment.of_classes((DeviceClass(name, 1), DeviceClass("b", 1)))
    spec = SweepSpec(
        chain([1.0, 2.0]), devices, (Axis(Quantity.COUNT, (1, 2), name), Axis(Quantity.COUNT, (1, 2), "b"))
    )
    shown = picture(spec)
    for figure in (sweep_figure(shown), sweep_figure(Picture(spec, {}, Measure.TIME, Prices(), "dark"))):
        assert "<a" not in figure.to_json()
        assert "\\u003ca" not in figure.to_json()
    assert "&lt;a" in shown.hover((0, 0))


def lines_of(shown: Picture) -> list[Any]:
    return [trace for trace in sweep_figure(shown).data if trace.type == "scatter" and "passes" in (trace.name or "")]


def test_between_counts_values_pass_levels_along_the_borders_of_cells_once_all_are_solved() -> None:
    assert not picture(two_axes()).has_steps  # nine numbers say as much
    five = Axis(Quantity.ACCELERATORS, (1, 2, 3, 4, 5)), Axis(Quantity.MEMORY, (1.0, 2.0, 3.0, 4.0, 5.0))
    shown = picture(replace(two_axes(), axes=five))
    assert shown.has_steps
    assert not shown.has_iso_lines
    assert not any(trace.type == "contour" for trace in sweep_figure(shown).data)
    rim, line = lines_of(shown)
    assert line.x == rim.x
    for x, y in zip(line.x, line.y, strict=True):
        assert x is None or (x % 1 == 0.5 and y % 1 == 0.5)
    partly = replace(shown, answers={index: shown.answers[index] for index in list(shown.answers)[:-1]})
    assert not partly.has_steps
    assert not lines_of(partly)
    assert not picture(one_axis()).spec.axes[0].is_logarithmic


def test_contour_lines_have_their_values_and_are_for_continuous_axes_alone() -> None:
    memory = Axis(Quantity.MEMORY, tuple(1.0 + 0.25 * i for i in range(17)))
    shown = picture(replace(two_axes(), axes=(memory, Axis(Quantity.BANDWIDTH_FACTOR, (0.5, 1.0, 2.0)))))
    contours = [trace for trace in sweep_figure(shown).data if trace.type == "contour"]
    assert shown.has_iso_lines == bool(contours)
    assert shown.has_iso_lines == (len({shown.value(index) for index in shown.answers} - {None}) > 1)
    assert all(trace.contours.showlabels for trace in contours[1::2])
    assert not lines_of(shown)


@pytest.mark.parametrize("is_less_better", [False, True])
@pytest.mark.parametrize("most", [4.0, 4000.0])
def test_the_better_a_value_the_darker_its_cell(is_less_better: bool, most: float) -> None:
    scale = CellScale(1.0, most, is_less_better)
    assert scale.is_logarithmic == (most > 100)
    values = [1.0 + (most - 1) * i / 20 for i in range(21)]
    light = [contrast(scale.fill(value), "#000000") for value in values]
    assert light == sorted(light, reverse=not is_less_better)
    assert all(1.0 < level < most for level in scale.levels)


@given(st.lists(st.lists(st.integers(0, 9) | st.none(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_steps_part_exactly_the_neighbours_on_either_side_of_a_level(rows: list[list[float | None]]) -> None:
    found = set(steps(rows, 4.5))
    for j, row in enumerate(rows):
        for i in range(2):
            first, second = row[i], row[i + 1]
            parts = first is not None and second is not None and (first < 4.5) != (second < 4.5)
            assert ((i + 0.5, j - 0.5, i + 0.5, j + 0.5) in found) == parts


def test_a_point_of_no_devices_is_no_point() -> None:
    devices = Deployment.of_classes((DeviceClass("A100", 1), DeviceClass("T4", 1)))
    counts = Axis(Quantity.COUNT, (0, 1, 2), "A100"), Axis(Quantity.COUNT, (0, 1, 2), "T4")
    shown = picture(SweepSpec(chain([1.0, 2.0]), devices, counts))
    assert not shown.is_infeasible((0, 0))
    assert shown.hover((0, 0)).endswith("no device")
    assert not any(trace.name == "infeasible" for trace in sweep_figure(shown).data)


def test_a_sweep_without_any_plan_says_why_and_one_with_a_plan_does_not() -> None:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2, 3)), Axis(Quantity.MEMORY, (0.25, 0.5)))
    spec = SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), axes)
    answers = solved(spec)
    sentence = why_nothing(spec, answers)
    assert sentence.startswith("No point of this sweep has a plan, which is proven. With 3 accelerators, <1 B: ")
    assert "either" not in sentence
    assert why_nothing(two_axes(), solved(two_axes())) == ""
    hover = Picture(spec, answers, Measure.THROUGHPUT, Prices(), "light").hover((2, 1))
    assert "<b>infeasible</b><br>Node 1 needs 1 B, an accelerator has &lt;1 B; give" in hover


def test_there_is_no_knee_before_every_point_is_solved() -> None:
    shown = picture(one_axis())
    partly = replace(shown, answers={index: shown.answers[index] for index in list(shown.answers)[:-1]})
    assert any(trace.text == ("knee",) for trace in sweep_figure(shown).data)
    assert not any(trace.text == ("knee",) for trace in sweep_figure(partly).data)


@pytest.mark.parametrize("measure", Measure)
def test_the_knee_is_explained_where_one_is_drawn(measure: Measure) -> None:
    shown = replace(picture(one_axis()), measure=measure)
    is_drawn = any(trace.text == ("knee",) for trace in sweep_figure(shown).data)
    assert is_drawn == (measure is not Measure.PER_COST)
    assert ("The knee is" in legend(shown)) == is_drawn


def test_free_cpus_are_named_beside_the_front() -> None:
    spec, free, paid = one_axis(), Prices(), Prices(cpu=0.1)
    with_cpu, answers = replace(spec, deployment=replace(spec.deployment, num_cpus=1)), solved(spec)
    assert "CPUs cost nothing" in front_caption(with_cpu, front_of(with_cpu, answers, free), free)
    assert "CPUs cost nothing" not in front_caption(with_cpu, front_of(with_cpu, answers, paid), paid)
    assert "CPUs cost nothing" not in front_caption(spec, front_of(spec, answers, free), free)


def unproven(shown: Picture, *places: Index) -> Picture:
    answers = dict(shown.answers)
    for index in places:
        answers[index] = replace(answers[index], status=SolveStatus.FEASIBLE)
    return replace(shown, answers=answers)


def test_what_is_not_proven_is_marked_in_cells_on_curves_and_on_the_front() -> None:
    proven = picture(two_axes())
    cells = sweep_figure(unproven(proven, (2, 2)))
    (numbers,) = (trace for trace in cells.data if trace.type == "scatter" and trace.mode == "text")
    marked = [
        (round(x), round(y)) for x, y, text in zip(numbers.x, numbers.y, numbers.text, strict=True) if "*" in text
    ]
    assert marked == [(2, 2)]
    assert "*" not in legend(proven)
    assert "Values with * are not proven optimal" in legend(unproven(proven, (2, 2)))
    curve = unproven(picture(one_axis()), (4,), (7,))
    line = sweep_figure(curve).data[0]
    assert [x for x, symbol in zip(line.x, line.marker.symbol, strict=True) if symbol == "circle-open"] == [4, 7]
    assert "Open points are not proven optimal" in legend(curve)
    beaten, front = pareto_figure(curve).data
    assert list(front.marker.symbol) == ["diamond", "diamond", "diamond-open"]
    assert [x for x, symbol in zip(beaten.x, beaten.marker.symbol, strict=True) if "open" in symbol] == [14.0]


def test_cells_without_room_for_numbers_are_marked_where_they_are_not_proven() -> None:
    axes = (Axis(Quantity.ACCELERATORS, tuple(range(1, 21))), Axis(Quantity.BANDWIDTH_FACTOR, (1.0, 2.0)))
    spec = SweepSpec(chain([1.0]), Deployment(1), axes)
    answer = solve(spec.graph, Deployment(1))
    shown = Picture(spec, dict.fromkeys(spec.points(), answer), Measure.THROUGHPUT, Prices(), "light")
    assert not any(trace.mode == "text" for trace in sweep_figure(shown).data if trace.type == "scatter")
    (marks,) = (t for t in sweep_figure(unproven(shown, (3, 1))).data if t.type == "scatter" and t.mode == "text")
    assert (list(marks.x), list(marks.y), list(marks.text)) == ([3], [1], ["*"])


def test_numbers_are_written_in_full() -> None:
    figure = sweep_figure(replace(picture(two_axes(), Measure.PER_COST), prices=Prices(0.001)))
    (numbers,) = (trace for trace in figure.data if trace.type == "scatter" and trace.mode == "text")
    assert "900,000,000" in numbers.text
    for drawn in (sweep_figure(picture(one_axis())), pareto_figure(picture(one_axis()))):
        assert drawn.layout.yaxis.exponentformat == "none"
    assert pareto_figure(picture(one_axis())).layout.xaxis.exponentformat == "none"


def test_the_latency_of_one_sample_is_not_drawn_beside_throughput() -> None:
    axes = (Axis(Quantity.ACCELERATORS, (1, 2)), Axis(Quantity.OBJECTIVE, ("throughput", "latency")))
    shown = picture(SweepSpec(chain([1.0] * 4, 0.0), Deployment(1), axes))
    assert shown.value((0, 0)) is not None
    assert shown.value((0, 1)) is None
    assert "micro-batches/s" not in shown.hover((0, 1))
    assert "one micro-batch alone" in legend(shown)
    assert replace(shown, measure=Measure.TIME).value((0, 1)) is not None
    assert sum(len(trace.x or ()) for trace in pareto_figure(shown).data) == 2


def test_prices_that_lack_are_asked_for_and_none_at_all_is_said() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    spec = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("T4", "2xA100-80+4xT4", "3xH100-SXM")),))
    some = Prices(of=(("t4", 0.5), ("L4", 2.0))).among(spec.device_types)
    assert lacking_text(some, spec) == "No price set for A100-80, H100-SXM: costs are shown once each device has one."
    assert lacking_text(Prices(), spec) == lacking_text(Prices(2.0), spec) == ""
    shown = Picture(spec, {}, Measure.PER_COST, Prices(), "light")
    assert "each counts as 1" in legend(shown)


def buying_page() -> None:
    import streamlit as st

    from explorer.sweep.what_to_buy import show_what_to_buy

    show_what_to_buy(st.session_state["picture"], lambda _figure, _key, words: st.text(words))


def bought(shown: Picture, prices: Prices, **wishes: float) -> AppTest:
    app = AppTest.from_function(buying_page)
    app.session_state["picture"] = replace(shown, prices=prices.among(shown.spec.device_types))
    for name, value in wishes.items():
        app.session_state[name] = value
    return app.run()


def test_what_to_buy_asks_for_prices_and_leaves_out_what_has_none() -> None:
    spec = mixed_spec()
    mixed = Picture(spec, solved(spec), Measure.THROUGHPUT, Prices(), "light")
    lacking = bought(mixed, Prices(of=(("T4", 0.5),)), sweep_budget=9.0)
    assert [info.value for info in lacking.info] == [
        "No price set for A100\\: costs are shown once each device has one\\."
    ]
    assert not lacking.text
    assert not lacking.markdown[1:]
    without = bought(mixed, Prices(), sweep_budget=9.0)
    assert "each counts as 1" in without.caption[0].value
    assert without.text[0].value == "Throughput of every point against its cost"
    priced = bought(mixed, Prices(of=(("T4", 0.5), ("A100", 2.0))), sweep_budget=3.0)
    assert not any("each counts as 1" in caption.value for caption in priced.caption)
    assert "1 × T4" in priced.markdown[1].value
    links = SweepSpec(chain([1.0] * 4), Deployment(2), (Axis(Quantity.BANDWIDTH_FACTOR, (1.0, 2.0, 4.0)),))
    fixed = bought(replace(mixed, spec=links, answers=solved(links)), Prices(3.0), sweep_at_least=1.0, sweep_budget=1.0)
    assert [box.label for box in fixed.number_input] == ["At least (micro-batches/s)"]
    assert unescaped(fixed.markdown[1].value).startswith("Least demanding with at least 1 micro")
    assert fixed.caption[0].value == "Links and memory have no price, so every point costs 6 per hour\\."
    assert not fixed.text


def prices_page() -> None:
    import streamlit as st

    from explorer.sweep.prices import LABEL, POPOVER, pick_prices
    from tests.app.test_sweep import mixed_spec

    st.session_state[POPOVER], st.session_state[LABEL] = True, "Set prices"  # it is open
    pick_prices(mixed_spec())


def priced_page() -> None:
    import streamlit as st

    from explorer.sweep.prices import LABEL, POPOVER, pick_prices

    st.session_state[POPOVER], st.session_state[LABEL] = True, "Set prices"  # it is open
    pick_prices(st.session_state["spec"])


def mixed_spec() -> SweepSpec:
    classes = (DeviceClass("A100", 1), DeviceClass("T4", 1))
    return SweepSpec(chain([1.0, 2.0]), Deployment.of_classes(classes), (Axis(Quantity.COUNT, (1, 2), "T4"),))


def test_an_emptied_price_is_none_and_a_price_of_0_is_one() -> None:
    app = AppTest.from_function(prices_page).run()
    a100, t4, cpu = app.number_input
    assert (a100.value, t4.value, cpu.value) == (None, None, 0.0)
    app = a100.set_value(0.0).run()
    assert app.session_state["prices"].of == (("A100", 0.0),)
    assert lacking_text(app.session_state["prices"], mixed_spec()).startswith("No price set for T4:")
    app = app.number_input[1].set_value(0.5).run()
    app = app.number_input[0].set_value(None).run()
    assert app.session_state["prices"].of == (("T4", 0.5),)
    assert [box.value for box in app.number_input] == [None, 0.5, 0.0]


def test_memory_and_links_have_a_price_where_they_vary_and_a_currency_is_letters() -> None:
    spec = SweepSpec(chain([1.0]), Deployment(2), (Axis(Quantity.MEMORY, (4.0 * 2**30, 8.0 * 2**30)),))
    app = AppTest.from_function(priced_page)
    app.session_state["spec"] = spec
    app = app.run()
    assert [box.label for box in app.number_input] == ["Accelerator", "CPU", "A GiB of memory"]
    app = app.number_input[2].set_value(0.5).run()
    app = app.text_input[0].set_value("EUR").run()
    known = app.session_state["prices"]
    assert (known.memory, known.currency) == (0.5, "EUR")
    assert known.cost(spec.devices_at((1,))) == 2 + 0.5 * 2 * 8
    app = app.text_input[0].set_value("12").run()
    assert not app.exception
    assert app.session_state["prices"].currency == "EUR"
    assert "up to five letters" in app.warning[0].value


def test_a_price_does_not_overwrite_what_is_typed_into_another_box() -> None:
    app = AppTest.from_function(prices_page).run()
    app = app.number_input[0].set_value(4.0).run()
    # With this a browser would put the server's value in the place of what is being typed.
    assert not any(box.proto.set_value for box in app.number_input)


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=8), st.floats(0, 1e6)), max_size=4, unique_by=lambda p: p[0]),
    st.floats(0, 1e6),
    st.sampled_from(PriceBasis),
    st.sampled_from(["", "EUR", "€", "kr"]),
)
def test_prices_come_back_from_an_address(
    of: list[tuple[str, float]], cpu: float, basis: PriceBasis, currency: str
) -> None:
    prices = Prices(cpu=cpu, of=tuple(of), basis=basis, memory=cpu / 2, link=cpu / 3, currency=currency)
    again, problems = prices_from(prices_query(prices))
    assert problems == ()
    assert again.basis is basis
    assert again.currency == currency
    assert [again.cpu, again.memory, again.link] == pytest.approx([cpu, cpu / 2, cpu / 3])
    assert [name for name, _ in again.of] == [name for name, _ in of]
    assert [price for _, price in again.of] == pytest.approx([price for _, price in of])


@pytest.mark.parametrize(
    "query",
    [
        {"prices": "T4"},
        {"prices": "T4=-1,L4=1e99"},
        {"cpu_price": "x"},
        {"pay": "never"},
        {"prices": "=3"},
        {"memory_price": "-1"},
        {"link_price": "nan"},
        {"currency": "<b>"},
    ],
)
def test_prices_that_cannot_be_used_are_named(query: dict[str, str]) -> None:
    found, problems = prices_from(query)
    assert found == Prices()
    assert problems
    assert all(next(iter(query)) in problem for problem in problems)


def test_what_may_vary_follows_the_devices() -> None:
    alike, _ = subject_of_link(Link(sample="gnmt_layer_inference"))
    assert Varied(Quantity.ACCELERATORS) in quantities(alike)
    mixed, _ = subject_of_link(Link(sample="gnmt_layer_inference", values={"devices": "2xA100-80+4xT4"}))
    assert quantities(mixed)[:2] == [Varied(Quantity.COUNT, "A100-80"), Varied(Quantity.COUNT, "T4")]
    assert Varied(Quantity.ACCELERATORS) not in quantities(mixed)
    for subject in (alike, mixed):
        for varied in quantities(subject):
            assert axis_named(axis_name(varied)) == varied


def test_a_large_heat_map_is_drawn_lightly() -> None:
    """As SVG thousands of points take a browser seconds; rims and ticks of a hundred values would cover them."""
    axes = (Axis(Quantity.ACCELERATORS, tuple(range(1, 61))), Axis(Quantity.BANDWIDTH_FACTOR, tuple(range(1, 61))))
    spec = SweepSpec(chain([1.0]), Deployment(1), axes)
    answer = solve(spec.graph, Deployment(1))
    shown = Picture(spec, dict.fromkeys(spec.points(), answer), Measure.THROUGHPUT, Prices(), "light")
    figure = sweep_figure(shown)
    (targets,) = (trace for trace in figure.data if trace.customdata is not None)
    assert targets.type == "scattergl"
    assert len(targets.x) == 3600
    assert not any(trace.xgap for trace in figure.data if trace.type == "heatmap")
    assert len(figure.layout.xaxis.tickvals) <= 20
    assert [trace.type for trace in sweep_figure(picture(two_axes())).data if trace.customdata is not None] == [
        "scatter"
    ]


def test_devices_are_bars_with_names_since_nothing_lies_between_two() -> None:
    graph, deployment = read_sample("gpt2_xl_layer_inference")
    spec = SweepSpec(graph, deployment, (Axis(Quantity.DEVICES, ("T4", "2xA100-80+1xT4")),))
    figure = sweep_figure(picture(spec))
    bars, targets = figure.data
    assert (bars.type, targets.mode) == ("bar", "markers")
    assert list(bars.x) == list(targets.x) == ["T4", "2xA100-80<br>+ 1xT4"]
    assert list(bars.y) == list(targets.y)
    assert list(targets.customdata) == [0, 1]
    assert "8 accelerators where a list gives no number" in held_text(spec)


def test_a_device_that_is_in_no_catalogue_is_named_before_the_sweep_starts() -> None:
    subject, _ = subject_of_link(Link(sample="gpt2_xl_layer_inference"))
    for text in ("A100-80; H9000", "2xA100-80+4xH9000"):
        with pytest.raises(PlacementError, match="H9000"):
            axis_of(Varied(Quantity.DEVICES), text, subject)
    assert len(axis_of(Varied(Quantity.DEVICES), "A100-80; 2xbig:speed=2; 1xH200+1xL4", subject).values) == 3


def test_what_is_held_names_devices_memory_and_links() -> None:
    values = {"devices": "2xA100-80:link=nvlink3+4xT4"}
    subject, _ = subject_of_link(Link(sample="gpt2_xl_layer_inference", values=values))
    graph, deployment = subject.graph, subject.question.deployment
    counts = held_text(SweepSpec(graph, deployment, (Axis(Quantity.COUNT, (1, 2), "A100-80"),)))
    assert "4 × T4" in counts
    assert "× A100-80" not in counts
    assert "links of 300 GB/s (A100-80) and 12.6 GB/s (T4)" in counts
    links = held_text(SweepSpec(graph, deployment, (Axis(Quantity.BANDWIDTH, (1e6, 2e6), "T4"),)))
    assert "2 × A100-80, 4 × T4" in links
    assert "links of 300 GB/s (A100-80), for" in links  # T4's vary
    assert "74.51 GiB (A100-80) and 14.9 GiB (T4)" in links
    both = held_text(SweepSpec(graph, deployment, sweep_axes_of("T4")))
    assert "74.51 GiB (A100-80), links of 300 GB/s (A100-80), for" in both
    latency = SweepSpec(graph, deployment, (Axis(Quantity.CPUS, (0, 1)),), Objective.LATENCY)
    assert "splits" not in held_text(latency)
    assert {row["splits"] for row in sweep_rows(latency, {}, Prices())} == {None}
    alike, _ = subject_of_link(Link(sample="gpt2_xl_layer_inference", values={"devices": "3xH100-SXM"}))
    cpus = held_text(SweepSpec(alike.graph, alike.question.deployment, (Axis(Quantity.CPUS, (0, 1)),)))
    assert "3 × H100-SXM" in cpus
    assert "74.51 GiB each" in cpus


def sweep_axes_of(name: str) -> tuple[Axis, Axis]:
    """Return axes of memory and links of one class."""
    return Axis(Quantity.MEMORY, (2**30, 2**33), name), Axis(Quantity.BANDWIDTH, (1e6, 2e6), name)
