"""Frameworks on the page: a plan for one is asked for, its address is kept, and exports say what fits."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from solvers.exporters.frameworks import FORMATS, Framework
from solvers.parameters.asked import QUESTION
from solvers.parameters.importing import MODEL
from tests.support.opened_app import address, metrics, opened, solved, visited

pytestmark = pytest.mark.usefixtures("solver_processes")

SAMPLE = "llama3_8b_layer_inference"


def exports_of(app: AppTest) -> str:
    """Open the tab of exports and return what it says."""
    app.session_state["below"] = "Share and export"
    app.run()
    assert not app.exception
    return " ".join(element.value for element in (*app.markdown, *app.caption))


def test_a_plan_for_a_framework_is_asked_for_and_kept_in_the_address() -> None:
    app = opened(SAMPLE)
    box = next(box for box in app.selectbox if box.label == "Expressible in")
    trains = {form.title for form in FORMATS.values() if form.trains_only}
    assert box.options[0] == "Any: all splits"
    assert set(box.options[1:]) == {form.title for form in FORMATS.values()} - trains
    free = metrics(app)["Time per micro-batch"]
    box.set_value(Framework.VLLM).run()
    solved(app)
    assert address(app)["expressible_in"] == "vllm"
    again = visited(sample=SAMPLE, expressible_in="vllm")
    assert metrics(again)["Time per micro-batch"] == metrics(app)["Time per micro-batch"] != free


def test_exports_are_offered_where_they_fit_and_the_others_have_a_reason() -> None:
    words = exports_of(visited(sample=SAMPLE, expressible_in="vllm"))
    assert "VLLM_PP_LAYER_PARTITION" in words
    assert "- **torchtitan**: torchtitan trains" in words
    cut = exports_of(opened(SAMPLE))
    assert "- **vLLM**: vLLM" in cut
    assert "solve with “Expressible in”\\: vLLM" in cut
    # Options of the command line are no fields of the form; llama.cpp has a --device of its own.
    ours = {parameter.flag for parameter in (*QUESTION, *MODEL)} - {"--device"}
    assert not ours & set(re.findall(r"--[a-z][a-z-]*", f"{words} {cut}".replace("\\", "")))


@pytest.mark.parametrize("framework", ["vllm", "none"])
def test_what_the_restriction_costs_is_among_what_would_help(framework: str) -> None:
    app = visited(sample=SAMPLE, expressible_in=framework)
    next(button for button in app.button if button.label == "What would help?").click().run()
    assert not app.exception
    changes = app.session_state["batch what would help"].changes
    assert [change.key for change in changes].count("unrestricted") == (framework != "none")


def test_a_framework_that_cannot_express_the_graph_is_named_in_vain() -> None:
    app = visited(sample="unet_operator_inference", expressible_in="megatron")
    assert not any(box.label == "Expressible in" for box in app.selectbox)
    assert any("expressible\\_in megatron" in warning.value for warning in app.warning)
