"""The tab Explain without a browser: sentences about the plan shown, and what would help, solved in the background."""

import re
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from explorer.explore.explain import is_proven_for_pins
from explorer.explore.what_helps import pins_on
from explorer.jobs.batch import Ask, Batch
from explorer.jobs.pool import JobState, Question
from explorer.jobs.server_pool import solver_pool
from explorer.plan.edited_plan import METHOD
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge
from solvers.model.split import Family
from solvers.problem.pins import Pins
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.graphs import chain
from tests.support.opened_app import address, html, is_over, metrics, number, opened, solved, visited
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("solver_processes")


def answered(app: AppTest) -> AppTest:
    """Run the page until everything that was asked under 'What would help' is there."""
    eventually(lambda: without_exception(app).session_state["batch what would help"].batch.is_over)
    return app.run()


def without_exception(app: AppTest) -> AppTest:
    """Run the page and return it, unless the run raised something."""
    app.run()
    assert not app.exception
    return app


def asks_for(app: AppTest, accelerators: int) -> bool:
    """Whether what would help is asked about a plan on so many accelerators."""
    asked = app.session_state["batch what would help"]
    return bool(asked) and asked.question.deployment.num_accelerators == accelerators


def test_the_plan_shown_is_explained() -> None:
    text = html(opened("teaching_chain"))
    assert "Accelerator 2 is the bottleneck with 8 ms per micro-batch." in text
    assert "Optimal: no pipeline split for these devices has a smaller time per micro-batch." in text


def test_what_the_split_type_costs_is_not_guessed_where_it_is_said() -> None:
    app = opened("gnmt_layer_inference")
    eventually(lambda: "Split type" in html(without_exception(app)))
    text = html(app)
    assert "Optimal: no pipeline split" in text
    assert "might be faster" not in text


def test_nothing_is_solved_until_someone_asks_and_then_every_value_is_that_of_a_solve() -> None:
    app = opened("teaching_chain")
    assert "batch what would help" not in app.session_state
    answered(app.button(key="ask what would help").click().run())
    graph, deployment = read_sample("teaching_chain")
    one_more = solve(graph, replace(deployment, num_accelerators=deployment.num_accelerators + 1)).value_ms
    links = solve(graph.with_bandwidth_factor(2), deployment).value_ms
    assert one_more is not None
    assert links is not None
    text = html(app)
    for label, value in (("One more accelerator", one_more), ("Links twice as fast", links)):
        row = text.split(f">{label}</th>")[1].split("</tr>")[0]
        assert f"{value:.4g} ms" in row if value < 8 else "cannot help" in row
    free = solve(graph, deployment, family=Family.FREE).value_ms
    assert free is not None
    assert ("Contiguity costs nothing" in text) == (free == 8)


def test_questions_follow_the_inputs_once_asked() -> None:
    app = opened("teaching_chain")
    answered(app.button(key="ask what would help").click().run())
    box = next(box for box in app.number_input if box.label == "Accelerators")
    box.set_value(2).run()
    eventually(lambda: asks_for(without_exception(app), accelerators=2))
    answered(app)
    graph, deployment = read_sample("teaching_chain")
    value = solve(graph, replace(deployment, num_accelerators=3)).value_ms
    assert f"{value:.4g} ms" in html(app).split(">One more accelerator</th>")[1].split("</tr>")[0]


def offers(app: AppTest) -> list[str]:
    """The keys of the changes that can be applied."""
    return [button.key.removeprefix("apply ") for button in app.button if str(button.key).startswith("apply ")]


def gains(app: AppTest) -> str:
    """The table of what would help, or of what would make a plan possible, as HTML."""
    (table,) = [part for part in html(app).split("<table")[1:] if "One change" in part]
    return table.split("</table>")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "memory_gib"),
    [
        ("teaching_chain", None),  # its file has no bytes: links are a multiple
        ("teaching_tied_embedding", None),
        ("gnmt_layer_inference", 0.06),
        ("gnmt_layer_training", 0.5),
    ],
)
def test_each_change_that_helps_can_be_applied_and_brings_what_was_said(sample: str, memory_gib: float | None) -> None:
    answers: dict[str, Any] = {}  # of the first visitor; to ask again for each button takes minutes

    def asked() -> AppTest:
        app = visited(sample=sample, limit="2")
        if memory_gib is not None:
            solved(number(app, "Memory (GiB)").set_value(memory_gib).run())
        if not answers:
            key = next(str(button.key) for button in app.button if str(button.key).startswith("ask what would "))
            batch = key.replace("ask ", "batch ")
            app.button(key=key).click().run()
            eventually(lambda: without_exception(app).session_state[batch].batch.is_over)
            answers[batch] = app.session_state[batch]
        for batch, answer in answers.items():
            app.session_state[batch] = answer
        return app.run()

    app = asked()
    found = offers(app)
    helping = [row for row in gains(app).split("<tr") if re.search(r" m?s</td>", row)]
    assert found
    assert "speed" not in found  # no input makes devices faster
    assert len(found) == sum("10 % faster" not in row for row in helping)
    for key in found:
        app = asked()
        label = app.button(key=f"apply {key}").label.replace("\\", "")
        said = re.search(r"[\d.,]+ m?s(?=</td>)", gains(app).split(f">{label}</th>")[1].split("</tr>")[0])
        assert said is not None
        solved(app.button(key=f"apply {key}").click().run())
        if "stale" in " ".join(warning.value for warning in app.warning):
            solved(app.button(key="solve").click().run())
        assert metrics(app)["Time per micro-batch"] == said[0], label
        assert not any("Ignored from the link" in warning.value for warning in app.warning)


@pytest.mark.parametrize(
    ("key", "devices", "then"),
    [
        ("accelerator 1", "1xA100-80+1xT4", "1xA100-80+2xT4"),
        ("links 0", "2xA100-80:link=1GB/s+1xT4", "2xA100-80:link=2GB/s+1xT4"),
        ("memory 0", "2xA100-80:memory=0.048GiB+1xT4", "2xA100-80:memory=0.06GiB+1xT4"),
    ],
)
def test_what_helps_of_one_device_type_is_applied_to_the_list(key: str, devices: str, then: str) -> None:
    app = visited(sample="gnmt_layer_inference", devices=devices, limit="2")
    app.button(key="ask what would help").click().run()
    eventually(lambda: without_exception(app).session_state["batch what would help"].batch.is_over)
    app.run()
    assert key in offers(app), offers(app)
    assert not any(offered.startswith("speed") for offered in offers(app))  # no list makes devices faster
    label = app.button(key=f"apply {key}").label.replace("\\", "")
    said = re.search(
        r"[\d.,]+ m?s(?=</td>)", re.sub("</?span[^>]*>", "", gains(app)).split(f">{label}</th>")[1].split("</tr>")[0]
    )
    assert said is not None
    solved(app.button(key=f"apply {key}").click().run())
    assert metrics(app)["Time per micro-batch"] == said[0]
    assert address(app)["devices"] == then


def ask(key: str, graph: DnnGraph, **options: Any) -> Ask:
    _, deployment = read_sample("teaching_chain")
    return Ask(key, Question(graph.digest, replace(deployment, memory_bytes=None), **options), graph)


def test_a_batch_works_on_few_questions_at_a_time_and_keeps_what_is_done_when_cancelled() -> None:
    graphs = [chain([1.0] * n) for n in (3, 4, 5)]
    batch = Batch(solver_pool(), "a test", [ask(str(i), graph) for i, graph in enumerate(graphs)], at_once=1)
    batch.advance()
    assert list(batch.snapshots()) == ["0"]
    batch.advance()
    eventually(batch.answers)
    batch.cancel()
    batch.advance()
    answers = batch.answers()
    assert answers["0"].state is JobState.DONE
    assert "2" not in batch.snapshots()
    assert batch.is_over


def test_a_batch_hands_on_what_is_known() -> None:
    graph = chain([1.0] * 3)
    seen: list[tuple[str, tuple[str, ...]]] = []

    def start_of(ask: Ask, answers: Any) -> None:
        seen.append((ask.key, tuple(answers)))

    asks = [ask("first", graph), ask("second", DnnGraph(graph.nodes, (Edge(1, 3),)))]
    batch = Batch(solver_pool(), "a test", asks, start_of=start_of, at_once=1)
    eventually(lambda: is_over(batch))
    assert seen == [("first", ()), ("second", ("first",))]


def test_quick_questions_may_end_by_themselves_when_a_batch_is_left() -> None:
    graphs = [chain([1.0] * n) for n in (6, 7)]
    batch = Batch(solver_pool(), "a test", [ask(str(i), graph) for i, graph in enumerate(graphs)], at_once=1)
    batch.advance()
    batch.cancel(spare=lambda question: question.graph_digest == graphs[0].digest)
    eventually(lambda: is_over(batch))
    assert {key: snapshot.state for key, snapshot in batch.answers().items()} == {"0": JobState.DONE}


def test_pins_keep_their_devices_when_there_is_one_accelerator_more() -> None:
    pins = Pins(devices=((1, 0), (2, 2)), together=((3, 4),))
    assert pins_on(pins, Deployment(2, 1), Deployment(3, 1)).devices == ((1, 0), (2, 3))
    assert pins_on(pins, Deployment(2, 1), Deployment(2, 2)) == pins


def test_a_proof_with_pins_is_none_for_other_plans() -> None:
    graph, deployment = read_sample("teaching_chain")
    result = solve(graph, deployment)
    assert not is_proven_for_pins(result)
    assert not is_proven_for_pins(replace(result, method=METHOD))
    assert is_proven_for_pins(replace(result, method=f"{METHOD}, rest by dp"))


def test_where_there_is_no_plan_it_says_what_would_make_one_possible() -> None:
    app = opened("teaching_chain")
    next(box for box in app.number_input if box.label == "Memory (GiB)").set_value(5.0).run()
    eventually(lambda: without_exception(app).error)
    assert "No plan exists" in app.error[0].value
    app.button(key="ask what would make a plan possible").click().run()
    batch = app.session_state["batch what would make a plan possible"].batch
    eventually(lambda: is_over(batch))
    text = html(app.run())
    assert "a plan becomes possible" in text.split(">One more CPU</th>")[1].split("</tr>")[0]
    assert "cannot help, proven" in text.split(">Links twice as fast</th>")[1].split("</tr>")[0]


def least_hardware(app: AppTest, wanted: float) -> AppTest:
    """Ask what a wanted throughput needs, and run the page until all is known."""
    app.number_input(key="wanted throughput").set_value(wanted).run()
    app.button(key="ask what is needed").click().run()
    eventually(lambda: without_exception(app).session_state["batch what is needed"].is_over)
    return app.run()


def test_the_least_hardware_for_a_throughput_is_found_and_applied() -> None:
    app = opened("gnmt_layer_inference")
    before = app.session_state["plan"].result.value_ms
    wanted = 0.8 * 1000 / before * app.session_state["plan"].graph.micro_batch.samples
    app = least_hardware(app, wanted)
    text = html(app)
    assert text.count("the least, proven") == 3
    needs = {str(quest.varied): quest.need for quest in app.session_state["batch what is needed"].quests}
    fewest = needs["accelerators"].least
    assert 1 < fewest < number(app, "Accelerators").value
    app = solved(app.button(key="apply what is needed accelerators").click().run())
    assert number(app, "Accelerators").value == fewest
    value_ms = app.session_state["plan"].result.value_ms
    assert before < value_ms <= before / 0.8 * (1 + 1e-6)
    # One less is not enough, which the same page shows.
    number(app, "Accelerators").set_value(fewest - 1).run()
    assert solved(app).session_state["plan"].result.value_ms > before / 0.8


def test_of_a_list_of_devices_the_number_of_one_type_is_applied() -> None:
    app = visited(sample="gnmt_layer_inference", devices="2xA100-80+4xT4")
    plan = app.session_state["plan"]
    wanted = 0.5 * 1000 / plan.result.value_ms * plan.graph.micro_batch.samples
    app = least_hardware(app, wanted)
    needs = {str(quest.varied): quest.need for quest in app.session_state["batch what is needed"].quests}
    (name, count), *_ = [
        (name, count)
        for name, count in (("A100-80", 2), ("T4", 4))
        if (need := needs[f"number of {name}"]).least is not None and 0 < need.least < count
    ]
    fewest = needs[f"number of {name}"].least
    app = solved(app.button(key=f"apply what is needed number of {name}").click().run())
    assert f"{fewest:g}x{name}" in address(app)["devices"]
    assert app.session_state["plan"].result.value_ms <= 2 * plan.result.value_ms * (1 + 1e-6)
    assert fewest < count


def test_of_a_list_of_devices_memory_and_links_of_one_type_are_applied() -> None:
    """With the least that is enough of one type the wanted throughput is reached, as was proven."""
    devices = "2xA100-80:memory=20GiB,link=12GB/s+1xL4"
    app = visited(sample="gnmt_layer_inference", devices=devices)
    plan = app.session_state["plan"]
    wanted = 0.9 * 1000 / plan.result.value_ms * plan.graph.micro_batch.samples
    app = least_hardware(app, wanted)
    needs = {str(quest.varied): quest.need for quest in app.session_state["batch what is needed"].quests}
    offered = [button.key for button in app.button if (button.key or "").startswith("apply what is needed")]
    for what in ("memory", "bandwidth"):
        keys = [key for key in offered if key.startswith(f"apply what is needed {what} of")]
        assert keys, (what, offered)
        need = needs[keys[0].removeprefix("apply what is needed ")]
        changed = solved(app.button(key=keys[0]).click().run())
        assert changed.session_state["plan"].result.value_ms <= plan.result.value_ms / 0.9 * (1 + 1e-6)
        deployment, graph = changed.session_state["plan"].question.deployment, changed.session_state["plan"].graph
        (kind,) = (one for one in deployment.classes if one.name == need.varied.of_class)
        has = kind.memory_bytes if what == "memory" else kind.link_speed * graph.bandwidth_bytes_per_ms
        assert has == pytest.approx(need.least, rel=1e-3)
        assert has >= need.least * (1 - 1e-9)
        app = least_hardware(visited(sample="gnmt_layer_inference", devices=devices), wanted)


def test_a_throughput_that_nothing_reaches_is_said_to_be_so() -> None:
    app = least_hardware(opened("teaching_chain"), 1e6)
    assert "none is enough, proven" in html(app)
    assert not [button for button in app.button if (button.key or "").startswith("apply what is needed")]
