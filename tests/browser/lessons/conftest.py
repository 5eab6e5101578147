"""Patience for the tests of lessons."""

from typing import Any

import pytest

from tests.support.app_page import SOLVE_MS


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)
