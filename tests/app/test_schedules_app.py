"""The tab that stacks the schedules of a plan on one axis of time."""

import pytest

from explorer.explore import page
from tests.support.messages import unpack
from tests.support.opened_app import metrics, opened, visited


@pytest.mark.parametrize("sample", ["teaching_chain", "unet_operator_training"])
def test_every_schedule_of_a_plan_is_stacked_or_says_why_not(sample: str) -> None:
    app = opened(sample)
    app.session_state["below"] = page.SCHEDULES_TAB
    app.run()
    assert not app.exception
    assert any("ends first" in caption.value for caption in app.caption)


def test_a_presentation_of_a_looped_schedule_tells_of_the_plan_that_it_runs() -> None:
    """Which takes longer than the solver's, and of which nothing is proven optimal."""
    app = visited(sample="gpt2_xl_layer_training", schedule="zb-v")
    values = metrics(app)
    header, _ = unpack(app.get("bidi_component")[0].proto.bytes)
    told = header["facts"]
    assert f"Time per micro-batch {values['Time per micro-batch']}" in told
    assert f"{values['Micro-batches/s']} micro-batches/s" in told
    assert "optimal (proven)" not in told
