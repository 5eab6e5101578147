"""The page without a browser: what it asks, what it shows, and that it survives every sample and input."""

import pytest

from explorer.explore import page as explore
from solvers.model.deployment import InFlight, Replication, TrainingMemory
from solvers.parameters.parameter import MemoryOf
from solvers.samples import sample_names
from tests.support.messages import unpack
from tests.support.opened_app import address, metrics, number, opened, solved, visited

pytestmark = pytest.mark.usefixtures("solver_processes")


def test_solves_the_teaching_chain_at_once() -> None:
    app = opened("teaching_chain")
    assert metrics(app)["Time per micro-batch"] == "8 ms"
    assert metrics(app)["Micro-batches/s"] == "125"
    assert metrics(app)["Proven lower bound"] == "8 ms"


@pytest.mark.parametrize("sample", sample_names())
def test_every_sample_opens_with_a_proven_plan(sample: str) -> None:
    app = opened(sample)
    assert not app.error
    values = metrics(app)
    assert values["Time per micro-batch"] == values["Proven lower bound"]


def test_after_an_error_of_the_program_the_next_run_is_whole_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("teaching_chain")
    shown = metrics(app)

    def fail(_: object) -> None:
        raise ZeroDivisionError("of the program")

    with monkeypatch.context() as patch:
        patch.setattr(explore, "follow", fail)
        app.run()
    assert [error.message for error in app.exception] == ["of the program"]
    assert not app.run().exception
    assert metrics(app) == shown


def test_devices_follow_the_inputs_and_each_graph_keeps_its_own() -> None:
    app = opened("teaching_convex_beats_chain")
    assert metrics(app)["Time per micro-batch"] == "5 ms"
    box = next(box for box in app.number_input if box.label == "Accelerators")
    solved(box.set_value(1).run())
    assert metrics(app)["Time per micro-batch"] == "8 ms"
    solved(app.selectbox(key="sample").set_value("teaching_chain").run())
    assert metrics(app)["Time per micro-batch"] == "8 ms"
    assert next(box for box in app.number_input if box.label == "Accelerators").value == 3


def test_convex_family_waits_for_the_button_and_beats_the_chain() -> None:
    app = opened("teaching_convex_beats_chain")
    families = next(box for box in app.selectbox if box.label == "Split type")
    families.set_value("convex").run()
    assert metrics(app)["Time per micro-batch"] == "5 ms"
    assert any("stale" in warning.value for warning in app.warning)
    solved(app.button(key="solve now").click().run())  # beside the words; that of the side bar does the same
    assert metrics(app)["Time per micro-batch"] == "4 ms"
    assert not app.warning
    assert "solve now" not in [button.key for button in app.button]


def test_a_link_to_a_split_that_takes_a_solve_offers_it() -> None:
    app = visited(sample="teaching_convex_beats_chain", splits="convex")
    assert ["no plan yet" in info.value for info in app.info] == [True]
    solved(app.button(key="solve now").click().run())
    assert metrics(app)["Time per micro-batch"] == "4 ms"
    assert not app.info


def test_tied_embedding_gains_nearly_twofold_from_a_free_split() -> None:
    app = opened("teaching_tied_embedding")
    chain = float(metrics(app)["Time per micro-batch"].split()[0])
    next(box for box in app.selectbox if box.label == "Split type").set_value("free").run()
    solved(app.button(key="solve").click().run())
    assert chain / float(metrics(app)["Time per micro-batch"].split()[0]) > 1.9


def test_no_device_is_infeasible_in_words_and_the_plan_stays() -> None:
    app = opened("teaching_chain")
    solved(next(box for box in app.number_input if box.label == "Accelerators").set_value(0).run())
    assert ["no devices" in error.value for error in app.error] == [True]
    assert metrics(app)["Time per micro-batch"] == "8 ms"
    assert any("stale" in warning.value for warning in app.warning)
    assert not any("optimal" in metric.delta for metric in app.metric)


def test_gpipe_objective_and_schedule() -> None:
    app = opened("unet_operator_training")
    next(box for box in app.selectbox if box.label == "Minimise time for").set_value("gpipe").run()
    assert next(box for box in app.selectbox if box.label == "Schedule").value == "gpipe"


def test_unknown_sample_in_the_address_opens_the_default() -> None:
    app = opened("no_such_sample")
    assert app.selectbox(key="sample").value == "bert_base_operator_inference"


def test_edits_of_a_graph_outlast_a_look_at_another() -> None:
    app = opened("teaching_convex_beats_chain")
    solved(number(app, "Accelerators").set_value(1).run())
    solved(app.selectbox(key="sample").set_value("teaching_chain").run())
    solved(app.selectbox(key="sample").set_value("teaching_convex_beats_chain").run())
    assert number(app, "Accelerators").value == 1
    assert metrics(app)["Time per micro-batch"] == "8 ms"


def test_stale_plan_says_what_has_changed() -> None:
    app = opened("teaching_chain")
    next(box for box in app.selectbox if box.label == "Split type").set_value("free")
    number(app, "Memory (GiB)").set_value(40.0).run()
    (warning,) = app.warning
    assert "what is proven of it are for earlier inputs" in warning.value
    assert r"split type pipeline → non\-contiguous" in warning.value
    assert "memory" in warning.value
    assert "accelerators" not in warning.value


def test_a_schedule_that_overflows_memory_is_pointed_out() -> None:
    app = opened("llama3_8b_layer_training")
    assert ["run out of memory" in warning.value for warning in app.warning] == [True]


def test_a_solve_goes_on_from_the_plan_on_the_screen() -> None:
    app = opened("teaching_tied_embedding")
    families = next(box for box in app.selectbox if box.label == "Split type")
    families.set_value("free").run()
    solved(app.button(key="solve").click().run())
    free = metrics(app)["Time per micro-batch"]
    solved(next(box for box in app.selectbox if box.label == "Split type").set_value("chain").run())
    assert metrics(app)["Time per micro-batch"] == "24 ms"
    solved(next(box for box in app.selectbox if box.label == "Split type").set_value("free").run())
    solved(app.button(key="solve").click().run())
    assert metrics(app)["Time per micro-batch"] == free


def test_numbers_out_of_reach_are_refused_by_their_boxes() -> None:
    app = opened("teaching_chain")
    assert number(app, "Link (GB/s)").max <= 1e6
    assert number(app, "Memory (GiB)").max <= 1e6
    solved(number(app, "Link (GB/s)").set_value(1e-6).run())
    assert not app.exception


@pytest.mark.parametrize(("transfers", "best"), [("overlapped", "7 ms"), ("full-duplex", "7.5 ms")])
def test_transfers_that_overlap_make_the_chain_faster(transfers: str, best: str) -> None:
    app = opened("teaching_chain")
    box = next(box for box in app.selectbox if box.label == "Transfers")
    solved(box.set_value(transfers).run())
    app.button(key="solve").click().run()
    values = metrics(solved(app))
    assert (values["Time per micro-batch"], values["Proven lower bound"]) == (best, best)


def test_replicas_share_the_samples() -> None:
    app = opened("teaching_convex_beats_chain")
    next(box for box in app.number_input if box.label == "Replicas of a stage, up to").set_value(2).run()
    # Both accelerators run the whole graph, each for every other sample: 8 ms / 2.
    assert metrics(solved(app))["Time per micro-batch"] == "4 ms"
    header, _ = unpack(app.get("bidi_component")[0].proto.bytes)
    assert [device["replicas"] for device in header["devices"] if device["numNodes"]] == [2]
    assert any("replica" in info.value for info in app.info)  # why there is no timeline


def test_replicas_follow_the_accelerators_down() -> None:
    app = opened("teaching_convex_beats_chain")
    for accelerators, replicas, expected in ((4, 4, 4), (3, None, 3), (4, None, 3)):
        number(app, "Accelerators").set_value(accelerators).run()
        if replicas is not None:
            number(app, "Replicas of a stage, up to").set_value(replicas).run()
        assert number(app, "Replicas of a stage, up to").value == expected


def test_memory_of_the_micro_batches_in_flight_changes_the_plan_or_says_why_there_is_none() -> None:
    app = opened("gpt2_xl_layer_training")
    before = float(metrics(app)["Time per micro-batch"].removesuffix(" ms"))
    next(box for box in app.selectbox if box.label.startswith("Memory counts")).set_value(MemoryOf.TIMELINE).run()
    solved(app)
    if any("No plan exists" in error.value for error in app.error):
        return
    assert float(metrics(app)["Time per micro-batch"].removesuffix(" ms")) >= before
    assert not any("run out of memory" in warning.value for warning in app.warning)


def test_planners_that_are_no_schedule_of_the_timeline_can_be_planned_for() -> None:
    """PipeDream-2BW with a state factor, replicas with an all-reduce of their own, and a gap: as commands can."""
    app = opened("gpt2_xl_layer_training")
    next(box for box in app.selectbox if box.label.startswith("Memory counts")).set_value(MemoryOf.PIPEDREAM_2BW).run()
    next(box for box in app.number_input if "optimizer state" in box.label).set_value(8.0).run()
    next(box for box in app.number_input if box.label == "Gap (%)").set_value(5.0).run()
    solved(app)
    asked = app.session_state["subject_of_explore"].question
    assert asked.deployment.training_memory == TrainingMemory(InFlight.PIPEDREAM_2BW, 12, 8.0)
    assert asked.gap == 0.05
    query = address(app)
    assert (query["in_flight"], query["state_factor"], query["gap"]) == ("pipedream-2bw", "8", "5")
    app = opened("teaching_convex_beats_chain")
    next(box for box in app.number_input if box.label.startswith("Replicas")).set_value(2).run()
    next(box for box in app.number_input if box.label.startswith("All-reduce")).set_value(25.0).run()
    asked = app.session_state["subject_of_explore"].question
    assert asked.deployment.replication == Replication(2, 25e6)


def test_a_baseline_gives_a_plan_and_a_bound() -> None:
    app = opened("teaching_chain")
    box = next(box for box in app.selectbox if box.label == "Solver")
    box.set_value("pipedream").run()
    app.button(key="solve").click().run()
    values = metrics(solved(app))
    assert values["Time per micro-batch"] == "8 ms"
    assert any(metric.delta.startswith("PipeDream") for metric in app.metric)


def test_latency_may_run_an_accelerator_in_several_subgraphs() -> None:
    app = opened("teaching_convex_beats_chain")
    next(box for box in app.selectbox if box.label == "Minimise time for").set_value("latency").run()
    next(box for box in app.number_input if box.label.startswith("Subgraphs")).set_value(2).run()
    app.button(key="solve").click().run()
    # Two paths side by side, 2 + 3 and 1 + 2 ms: the longer one is the latency, whatever the subgraphs.
    assert metrics(solved(app))["Latency of one micro-batch"] == "5 ms"
    assert app.session_state["plan"].question.deployment.max_subgraphs == 2
