"""The tab that stacks the schedules of a plan on one axis of time."""

import pytest

from explorer.explore import page
from tests.support.opened_app import opened


@pytest.mark.parametrize("sample", ["teaching_chain", "unet_operator_training"])
def test_every_schedule_of_a_plan_is_stacked_or_says_why_not(sample: str) -> None:
    app = opened(sample)
    app.session_state["below"] = page.SCHEDULES_TAB
    app.run()
    assert not app.exception
    assert any("ends first" in caption.value for caption in app.caption)
