"""The page without a browser: what it asks, what it shows, and that it survives every sample and input."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer.solver_pool import solver_pool
from solvers.samples import sample_names

APP = str(Path(__file__).parents[2] / "explorer" / "app.py")


@pytest.fixture(scope="module", autouse=True)
def pool() -> Iterator[None]:
    """End the solver processes with the tests that used them."""
    solver_pool()
    yield
    solver_pool().close()
    solver_pool.cache_clear()


def opened(sample: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=60)
    app.query_params["sample"] = sample
    return solved(app.run())


def solved(app: AppTest) -> AppTest:
    """Run the page until no solve is under way."""
    for _ in range(100):
        assert not app.exception
        if "run" not in app.session_state or app.session_state["run"] is None:
            return app
        app.session_state["run"].job.wait(60)
        app.run()
    raise AssertionError("the solve never ended")


def metrics(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_solves_the_teaching_chain_at_once() -> None:
    app = opened("teaching_chain")
    assert metrics(app)["Time per sample"] == "8 ms"
    assert metrics(app)["Throughput"] == "125 /s"
    assert metrics(app)["Proven lower bound"] == "8 ms"


@pytest.mark.parametrize("sample", sample_names())
def test_every_sample_opens_with_a_proven_plan(sample: str) -> None:
    app = opened(sample)
    assert not app.error
    values = metrics(app)
    assert values["Time per sample"] == values["Proven lower bound"]


def test_devices_follow_the_inputs_and_each_graph_keeps_its_own() -> None:
    app = opened("teaching_convex_beats_chain")
    assert metrics(app)["Time per sample"] == "5 ms"
    box = next(box for box in app.number_input if box.label == "Accelerators")
    solved(box.set_value(1).run())
    assert metrics(app)["Time per sample"] == "8 ms"
    solved(app.selectbox(key="sample").set_value("teaching_chain").run())
    assert metrics(app)["Time per sample"] == "8 ms"
    assert next(box for box in app.number_input if box.label == "Accelerators").value == 3


def test_convex_family_waits_for_the_button_and_beats_the_chain() -> None:
    app = opened("teaching_convex_beats_chain")
    families = next(box for box in app.selectbox if box.label == "Splits allowed")
    families.set_value("convex").run()
    assert metrics(app)["Time per sample"] == "5 ms"
    assert any("stale" in warning.value for warning in app.warning)
    solved(app.button(key="solve").click().run())
    assert metrics(app)["Time per sample"] == "4 ms"
    assert not app.warning


def test_tied_embedding_gains_nearly_twofold_from_a_free_split() -> None:
    app = opened("teaching_tied_embedding")
    chain = float(metrics(app)["Time per sample"].split()[0])
    next(box for box in app.selectbox if box.label == "Splits allowed").set_value("free").run()
    solved(app.button(key="solve").click().run())
    assert chain / float(metrics(app)["Time per sample"].split()[0]) > 1.9


def test_no_device_is_infeasible_in_words_and_the_plan_stays() -> None:
    app = opened("teaching_chain")
    solved(next(box for box in app.number_input if box.label == "Accelerators").set_value(0).run())
    assert ["no devices" in error.value for error in app.error] == [True]
    assert metrics(app)["Time per sample"] == "8 ms"
    assert any("stale" in warning.value for warning in app.warning)


def test_gpipe_objective_and_schedule() -> None:
    app = opened("unet_operator_training")
    next(box for box in app.selectbox if box.label == "Minimise time for").set_value("gpipe").run()
    assert next(box for box in app.selectbox if box.label == "Schedule").value == "gpipe"


def test_unknown_sample_in_the_address_opens_the_default() -> None:
    app = opened("no_such_sample")
    assert app.selectbox(key="sample").value == "bert_base_operator_inference"
