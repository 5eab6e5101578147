"""The page Sweep: runs beside the page, figures, and the way from a point to the explorer."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from explorer.jobs import Question
from explorer.link import Link, from_query, to_query
from explorer.palette import contrast
from explorer.session import LoadedGraph, Subject
from explorer.sweep_figures import Picture, pareto_figure, sweep_figure
from explorer.sweep_inputs import axis_of, link_to_point, subject_of_link
from explorer.sweep_run import SweepRun
from solvers.deployment import Deployment
from solvers.errors import PlacementError
from solvers.result import SolveResult
from solvers.samples import read_sample
from solvers.solve import solve
from solvers.sweep import run_sweep
from solvers.sweep_analysis import Measure, Prices
from solvers.sweep_axes import Axis, Quantity
from solvers.sweep_plan import Index, SweepSpec
from tests.graphs import chain
from tests.solvers.test_sweep import threads


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
    assert sum(x is None for x in hatch.x) == 3 * 3
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
    curve, knee, nothing = figure.data
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
    front, points = pareto_figure(picture(one_axis())).data
    assert list(front.x) == [2.0, 4.0, 8.0]
    assert [x for x, symbol in zip(points.x, points.marker.symbol, strict=True) if symbol == "diamond"] == list(front.x)


def test_the_link_of_a_point_asks_explore_the_question_of_the_point() -> None:
    for query in ({"sample": "teaching_chain"}, {"sample": "gnmt_layer_inference", "cpus": "2", "bandwidth": "4"}):
        subject = subject_of_link(from_query(query)[0])
        axes = (
            axis_of(Quantity.ACCELERATORS, "2,3", subject),
            axis_of(Quantity.BANDWIDTH, "2:8:x2", subject),
        )
        spec = SweepSpec(subject.loaded.graph, subject.question.deployment, axes)
        for index in spec.points():
            link = link_to_point(spec, subject, index)
            read, problems = from_query(to_query(link))
            assert problems == ()
            again, asked = subject_of_link(read), spec.asked(index)
            assert again.question.deployment == asked.deployment
            assert again.graph.digest == asked.graph.digest


def test_the_question_of_an_address_is_that_of_explore() -> None:
    graph, own = read_sample("teaching_chain")
    subject = subject_of_link(Link(sample="teaching_chain", accelerators=5, memory=8.0))
    assert subject.question.deployment == replace(own, num_accelerators=5, memory_bytes=8 * 2**30)
    assert subject.graph.digest == graph.digest
    assert subject_of_link(Link(sample="no_such_sample")).loaded.graph.nodes


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-1", "1:2:0", "nan", "1e400", "3:1", "1,1", "1.5"])
def test_values_that_cannot_be_read_are_named(text: str) -> None:
    loaded = LoadedGraph(chain([1.0]), Deployment(1), "x")
    subject = Subject(loaded, loaded.graph, Question(loaded.graph.digest, loaded.deployment), Link())
    with pytest.raises(PlacementError):
        axis_of(Quantity.ACCELERATORS, text, subject)


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def bert_run(is_open: Callable[[str], bool] = lambda _: True) -> SweepRun:
    graph, deployment = read_sample("bert_base_operator_inference")
    axes = (Axis(Quantity.ACCELERATORS, tuple(range(1, 7))), Axis(Quantity.BANDWIDTH_FACTOR, (0.5, 1, 2, 4)))
    return SweepRun(SweepSpec(graph, deployment, axes), "session", is_open)


def test_cancel_keeps_what_is_done_and_resume_goes_on() -> None:
    run = bert_run()
    run.start()
    wait_for(lambda: len(run.state().answers) >= 3)
    run.cancel()
    state = run.state()
    assert not state.is_running
    assert 3 <= len(state.answers) < 24
    run.start()
    wait_for(lambda: not run.state().is_running)
    after = run.state()
    assert after.answers.keys() == set(run.spec.points())
    assert all(after.answers[index] is result for index, result in state.answers.items())
    assert not after.error
    asked = run.spec.asked((3, 2))
    assert after.answers[(3, 2)].value_ms == pytest.approx(solve(asked.graph, asked.deployment).value_ms, rel=1e-6)


def test_a_sweep_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.sweep_run.GRACE_SECONDS", 0.0)
    open_sessions = {"session"}
    run = bert_run(open_sessions.__contains__)
    run.start()
    wait_for(lambda: bool(run.state().answers))
    open_sessions.clear()
    wait_for(lambda: not run.state().is_running)
    assert len(run.state().answers) < 24


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    run = replace(bert_run(), dask_address="nonsense://x")
    run.start()
    wait_for(lambda: not run.state().is_running)
    assert run.state().error.startswith("There is no Dask scheduler at")
    assert run.state().details == ""


def test_an_address_with_devices_sweeps_on_these_devices() -> None:
    link = Link(sample="gnmt_layer_inference", devices="H100-SXM:link=nvlink4", accelerators=3, cpus=0, efficiency=40)
    subject = subject_of_link(link)
    assert subject.question.deployment.memory_bytes == 80e9
    assert subject.question.deployment.num_accelerators == 3
    assert subject.graph.times is not None
    assert subject.graph.times.accelerator == "H100-SXM"
    assert subject.graph.bandwidth_bytes_per_ms == pytest.approx(450e6)
    slower = subject_of_link(replace(link, efficiency=20)).graph
    assert sum(node.accelerator_ms for node in slower.nodes) > 1.05 * sum(n.accelerator_ms for n in subject.graph.nodes)
    cluster = subject_of_link(Link(sample="gnmt_layer_inference", devices="2xA100-80+4xT4", accelerators=9, memory=1.0))
    assert [one.name for one in cluster.question.deployment.classes] == ["A100-80", "T4"]
    assert cluster.question.deployment.num_accelerators == 6
    wrong = subject_of_link(Link(sample="teaching_chain", devices="H100-SXM"))  # nobody knows what its times are for
    assert wrong.graph.digest == wrong.loaded.graph.digest
