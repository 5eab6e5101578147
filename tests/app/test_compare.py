"""The page Compare without a browser: kept plans, their differences, and all methods on one graph."""

import re
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from explorer.compare.diff_view import device_changes_html, moved_rows
from explorer.compare.method_table import table_rows
from explorer.elements.load_bars import STYLE, load_bars
from explorer.elements.load_chart import NamedLoads, compared_loads
from explorer.jobs.pool import Question
from explorer.picture.palette import contrast
from explorer.state.kept_plans import MAX_NAME, automatic_name, is_same
from explorer.state.records import KeptPlan, LoadedGraph, Plan
from solvers.analysis.comparison import compare
from solvers.analysis.plan_diff import Placed, plan_diff
from solvers.formats.result_json import result_document, result_from_document
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Communication, Deployment, DeviceClass
from solvers.model.graph import DnnGraph
from solvers.model.split import Family, Split
from solvers.quantities import milliseconds
from solvers.samples import read_sample
from solvers.solve import solve
from tests.support.graphs import chain, training_chain
from tests.support.opened_app import html, is_over, unescaped
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("solver_processes")


def plan_of(graph: DnnGraph, deployment: Deployment, split: Split | None = None, family: Family = Family.CHAIN) -> Plan:
    """Return the best plan of a graph, or the one with a given split."""
    result = solve(graph, deployment, family=family)
    if split is not None:
        value_ms = split_costs(graph, deployment, split).max_load_ms
        result = replace(result, split=split, value_ms=value_ms, method="by hand")
    assert result.split is not None
    question = Question(graph.digest, deployment, family=family, time_limit_s=5.0)
    return Plan(
        question, LoadedGraph(graph, deployment, graph.name or "A graph"), graph, deployment, result, result.split
    )


def page() -> None:
    from explorer.compare import page as compare

    compare.show()


def opened(*plans: Plan) -> AppTest:
    app = AppTest.from_function(page, default_timeout=PATIENCE_S)
    app.session_state["kept"] = tuple(KeptPlan(i + 1, f"plan {i + 1}", plan) for i, plan in enumerate(plans))
    app.run()
    assert not app.exception
    return app


def split(*devices: set[int]) -> Split:
    return Split(tuple(map(frozenset, devices)))


def markdown(app: AppTest) -> str:
    return unescaped(" ".join(element.value for element in app.markdown))


def row(table: str, heading: str) -> list[str]:
    """Return the cells of an HTML table's row, tags removed."""
    cells = table.split(f">{heading}</th>")[1].split("</tr>")[0].split("</td>")[:-1]
    return [cell.rsplit(">", 1)[1] for cell in cells]


def test_without_plans_it_says_how_to_keep_some() -> None:
    app = AppTest.from_function(page, default_timeout=PATIENCE_S).run()
    assert "Keep for comparison" in app.info[0].value


def test_without_plans_it_shows_an_example_that_the_solvers_answer_now() -> None:
    app = AppTest.from_function(page, default_timeout=PATIENCE_S).run()
    for job in app.session_state["batch compare example"].values():
        job.wait(60)
    app.run()
    assert not app.exception
    assert "##### An example" in [element.value for element in app.markdown]
    graph, deployment = read_sample("teaching_tied_embedding")
    cells = row(html(app), "Time per micro-batch")
    best = [solve(graph, deployment, family=family).value_ms for family in (Family.CHAIN, Family.FREE)]
    assert cells == [milliseconds(value_ms) for value_ms in best]
    assert "kept" not in app.session_state or not app.session_state["kept"]
    kept = opened(plan_of(chain((1, 2)), Deployment(2)))
    assert "##### An example" not in [element.value for element in kept.markdown]


def test_two_plans_their_numbers_and_the_node_that_moved() -> None:
    graph = chain((1, 2, 3, 4), transfer_ms=(0.5, 0.25, 0.125, 0))
    deployment = Deployment(2)
    app = opened(*(plan_of(graph, deployment, s) for s in (split({1, 2}, {3, 4}), split({1, 2, 3}, {4}))))
    assert row(html(app), "Time per micro-batch") == ["7.25 ms", "6.125 ms"]
    assert row(html(app), "Compared with A") == ["the same", "15.5 % less"]
    assert "B takes 6.125 ms, 1.125 ms (15.5 %) less than A." in markdown(app)
    assert "1 node is on another device." in markdown(app)
    (moved,) = app.dataframe
    assert list(moved.value["Node"]) == [3]
    assert list(moved.value["From"]) == ["Accelerator 2"]
    assert list(moved.value["To"]) == ["Accelerator 1"]
    assert row(html(app), "Accelerator 1")[:3] == ["Accelerator 1", "+1", "3.25 ms → 6.125 ms"]


def test_memory_has_the_unit_of_the_pictures_below() -> None:
    """Devices of 2 GiB hold some MiB: the pictures write both in GiB."""
    graph = chain((1, 2, 3))
    graph = graph.with_nodes(tuple(replace(node, memory_bytes=2.0**20) for node in graph.nodes))
    app = opened(*(plan_of(graph, Deployment(k, memory_bytes=2.0**31)) for k in (2, 3)))
    cells = row(html(app), "Most memory on a device")
    assert cells
    assert all("GiB" in cell for cell in cells)


def test_names_in_the_table_of_moved_nodes_are_no_formulas() -> None:
    graph = chain((1.0, 2.0, 3.0))
    graph = graph.with_nodes(tuple(replace(node, name=f'=HYPERLINK("http://evil/{node.id}")') for node in graph.nodes))
    classes = (DeviceClass("=1+1", 1), DeviceClass("@x", 1))
    deployment = Deployment.of_classes(classes, 0)
    first, second = (plan_of(graph, deployment, one) for one in (split({1, 2}, {3}), split({1}, {2, 3})))
    rows = moved_rows(plan_diff(placed(first), placed(second), Objective.THROUGHPUT), first, second)
    assert [row["Node"] for row in rows] == [2]
    assert [str(rows[0][name])[:2] for name in ("Name", "From", "To")] == ["'=", "'=", "'@"]


def test_changes_of_memory_are_in_one_unit() -> None:
    graph = chain((1.0, 2.0, 3.0))
    sizes = (2.0**29, 2.0**28, 3 * 2.0**30)
    nodes = tuple(replace(node, memory_bytes=size) for node, size in zip(graph.nodes, sizes, strict=True))
    graph = graph.with_nodes(nodes)
    first, second = (plan_of(graph, Deployment(3), s) for s in (split({1}, {2}, {3}), split({1, 2}, set(), {3})))
    text = device_changes_html(plan_diff(placed(first), placed(second), Objective.THROUGHPUT), first, second, "A", "B")
    assert "GiB" not in text
    assert "+256 MiB" in text.replace("\xa0", " ")
    second = plan_of(graph, Deployment(3), split({1, 3}, {2}, set()))
    text = device_changes_html(plan_diff(placed(first), placed(second), Objective.THROUGHPUT), first, second, "A", "B")
    assert "MiB" not in text, text


def placed(plan: Plan) -> Placed:
    return Placed(plan.graph, plan.deployment, plan.split)


def test_the_same_split_under_other_numbers_moves_nothing() -> None:
    graph = chain((1, 2, 3, 4))
    app = opened(*(plan_of(graph, Deployment(2), s) for s in (split({1, 2}, {3, 4}), split({3, 4}, {1, 2}))))
    assert "Every node is on the same device, up to the devices' numbers." in markdown(app)
    assert not app.dataframe


def test_the_reference_can_be_chosen_and_plans_renamed_and_dropped() -> None:
    graph = chain((1, 2, 3, 4))
    app = opened(*(plan_of(graph, Deployment(k)) for k in (2, 3, 4)))
    assert "B against A" in markdown(app)
    assert "C against A" in markdown(app)
    app.text_input(key="name_2").set_value("three of them").run()
    assert app.session_state["kept"][1].name == "three of them"
    app.text_input(key="name_3").set_value("three of them").run()  # taken
    assert app.session_state["kept"][2].name == "plan 3"
    app.segmented_control[0].set_value(2).run()
    assert "A against B" in markdown(app)
    app.button(key="drop_1").click().run()
    assert [one.number for one in app.session_state["kept"]] == [2, 3]
    assert not app.exception


def test_plans_of_different_graphs_are_compared_in_what_they_share() -> None:
    app = opened(plan_of(chain((1, 2)), Deployment(2)), plan_of(chain((1, 2, 3)), Deployment(2)))
    assert any("different graphs" in caption.value for caption in app.caption)
    assert not app.dataframe


def test_training_and_inference_have_no_timeline_in_common() -> None:
    app = opened(plan_of(training_chain((1, 2), (2, 4)), Deployment(2)), plan_of(chain((1, 2)), Deployment(2)))
    assert any("no schedule in common" in caption.value for caption in app.caption)


def test_one_schedule_and_one_number_of_micro_batches_for_all() -> None:
    graph = chain((1, 2, 3, 4))
    app = opened(*(plan_of(graph, Deployment(k)) for k in (2, 3)))
    assert len([box for box in app.selectbox if box.label == "Schedule of all"]) == 1
    app.number_input(key="compared_micro_batches").set_value(5).run()
    assert not app.exception


def page_or_another() -> None:
    import streamlit as st

    from explorer.compare import page as compare

    if not st.session_state.get("is elsewhere"):
        compare.show()


def test_what_was_chosen_is_there_again_after_a_look_at_another_page() -> None:
    app = AppTest.from_function(page_or_another, default_timeout=PATIENCE_S)
    plans = [plan_of(chain((1, 2, 3, 4)), Deployment(k)) for k in (2, 3)]
    app.session_state["kept"] = tuple(KeptPlan(i + 1, f"plan {i + 1}", plan) for i, plan in enumerate(plans))
    app.run()
    app.number_input(key="compared_micro_batches").set_value(5).run()
    app.number_input(key="methods_limit").set_value(7).run()
    app.segmented_control[0].set_value(2).run()
    for is_elsewhere in (True, False):
        app.session_state["is elsewhere"] = is_elsewhere
        app.run()
    assert not app.exception
    assert app.number_input(key="compared_micro_batches").value == 5
    assert app.number_input(key="methods_limit").value == 7
    assert app.segmented_control[0].value == 2


def test_all_methods_give_what_the_library_gives() -> None:
    graph, deployment = read_sample("teaching_chain")
    app = opened(plan_of(graph, deployment))
    app.button(key="run_methods").click().run()
    run = app.session_state["batch all methods"]
    eventually(lambda: is_over(run.batch))
    app.run()
    (table,) = app.dataframe
    named = {
        "single": "One accelerator",
        "local_search": "Local search",
        "pipedream": "PipeDream's planner",
        "scotch": "Scotch",
        "linearised": "DP on one order (DPL)",
    }
    expected = {
        named.get(question.method, f"Best {question.family.named}"): outcome
        for question, outcome in compare(graph, deployment, time_limit_s=10.0)
    }
    assert set(table.value["Method"]) == set(expected)
    for _, found in table.value.iterrows():
        assert found["Value (ms)"] == pytest.approx(expected[found["Method"]].value_ms)
    rows = {row["Method"]: row for row in table_rows(run)}
    assert "violates a constraint" in rows["One accelerator"]["Note"]
    assert rows["PipeDream's planner"]["In the paper"] == "1.1 × (1.21 ×)"
    assert rows["Best non-contiguous"]["Best is"] == pytest.approx(1.0)
    assert rows["Best non-contiguous"]["Proof"] == "optimal (proven)"


def test_cancelling_keeps_the_methods_that_are_done() -> None:
    graph, deployment = read_sample("teaching_chain")
    app = opened(plan_of(graph, replace(deployment, num_accelerators=2)))
    app.button(key="run_methods").click().run()
    run = app.session_state["batch all methods"]
    eventually(run.batch.answers)
    run.batch.cancel()
    app.run()
    assert len(app.dataframe[0].value) >= 1
    assert any("Cancelled" in caption.value for caption in app.caption)


def test_a_rejected_plan_survives_the_way_from_the_solver_process() -> None:
    graph = chain((1, 2, 3))
    result = solve(graph, Deployment(1, 0, memory_bytes=1.0), method="single")
    rejected = solve(graph, Deployment(3, 0, memory_bytes=2.0), method="single")
    assert rejected.rejected is not None
    assert result_from_document(result_document(rejected)) == rejected
    assert result_from_document(result_document(result)) == result


def test_names_tell_method_splits_and_hardware_and_differ() -> None:
    plan = plan_of(chain((1, 2)), Deployment(2, 1), family=Family.FREE)
    name = automatic_name(plan)
    assert name.endswith("non-contiguous, 2 accelerators + 1 CPU")
    assert automatic_name(plan, (KeptPlan(1, name, plan),)) == f"{name} (2)"
    assert is_same(plan, plan)
    assert not is_same(plan, plan_of(chain((1, 2)), Deployment(3, 1)))


def test_a_plan_for_another_memory_is_named_by_it() -> None:
    more, less = (plan_of(chain((1, 2)), Deployment(2, 1, size)) for size in (2.0**30, 2.0**29))
    kept = (KeptPlan(1, automatic_name(more), more),)
    assert automatic_name(less, kept) == f"{kept[0].name}, memory 512 MiB"
    also = (*kept, KeptPlan(2, automatic_name(less, kept), less))
    assert automatic_name(less, also) == f"{kept[0].name} (2)"


def test_a_name_too_long_says_so_and_methods_are_called_as_everywhere() -> None:
    long = Deployment.of_classes((DeviceClass("Maker-of-Accelerators-Model-80GB-Liquid", 3), DeviceClass("T4", 2)), 1)
    plan = plan_of(chain((1, 2)), long)
    name = automatic_name(plan)
    assert name.endswith("…")
    kept = (KeptPlan(1, name, plan),)
    assert len(automatic_name(plan, kept)) <= MAX_NAME
    assert automatic_name(plan, kept).endswith("… (2)")
    after = replace(plan, result=replace(plan.result, method="dp, then ip"))
    assert automatic_name(after).startswith("DP, then IP, 3 × ")


def test_bars_have_room_beside_long_names_and_their_texts_contrast() -> None:
    long = "Maker-of-Accelerators-Model-80GB-Liquid"
    deployment = Deployment.of_classes((DeviceClass(long, 2), DeviceClass(f"{long}-2", 1)))
    costs = split_costs(chain((3, 4)), deployment, split({1}, {2}))
    figure = compared_loads([NamedLoads(f"A: DP, 2 × {long}", costs, deployment)])
    axis = figure.layout.yaxis
    assert axis.ticktext == ("Maker-of-Accele… 1", "Maker-of-Accele… 2", "Maker-of-Accele… 1")
    assert axis.tickvals == figure.data[0].y == (f"{long} 1", f"{long} 2", f"{long}-2 1")  # as many bars as devices
    assert len(figure.layout.annotations[0].text) <= 30 + len(": 4.125 ms")
    for text in (axis.tickfont, figure.layout.xaxis.tickfont, figure.layout.annotations[0].font):
        assert contrast(text.color, "#FFFFFF") > 7


def test_compared_loads_have_the_hatches_and_the_keys_of_a_plan_s_own() -> None:
    costs = split_costs(chain((3, 4)), Deployment(2), split({1}, {2}))
    figure = compared_loads([NamedLoads(name, costs, Deployment(2)) for name in "AB"])
    keys = {bar.name: bar.marker for bar in figure.data if bar.showlegend in (None, True)}
    assert list(keys) == ["Receive", "Compute", "Send"]
    assert {bar.orientation for bar in figure.data} == {"h"}, "another one takes the axis of devices for one of numbers"
    assert keys["Compute"].color == "gray", "the colour of no device"
    # Stripes of a gradient at 45 degrees fall, those at -45 degrees rise.
    assert ".receive { --angle: 45deg; }" in STYLE
    assert (keys["Receive"].pattern.shape, keys["Send"].pattern.shape) == ("\\", "/")


def test_bars_end_at_the_load_whatever_overlaps() -> None:
    graph = chain((3, 4), transfer_ms=1.0)
    deployment = Deployment(2, communication=Communication.OVERLAPPED)
    costs = split_costs(graph, deployment, split({1}, {2}))
    figure = compared_loads([NamedLoads("<b>", costs, deployment), NamedLoads("two", costs, deployment)])
    totals = [sum(bar.x[d] or 0.0 for bar in figure.data if bar.yaxis in (None, "y")) for d in range(2)]
    assert totals == [device.load_ms for device in costs.devices]
    assert figure.layout.annotations[0].text.startswith("&lt;b&gt;: 4 ms")
    widths = re.findall(r"<tr>.*?</tr>", load_bars(costs, deployment, 3.5))[1:]
    percent = [sum(map(float, re.findall(r"width: ([\d.]+)%", row))) for row in widths]
    assert percent == pytest.approx([100 * device.load_ms / costs.max_load_ms for device in costs.devices], abs=0.01)
    assert all("left: 87.50%" in row for row in widths)
    assert "<b style" not in load_bars(costs, deployment, costs.max_load_ms)
