"""One server for all tests of lessons, and patience."""

from typing import Any

import pytest

from tests.support.app_page import SOLVE_MS
from tests.support.serving import Address


@pytest.fixture(scope="session")
def app(common_app: Address) -> Address:
    return common_app


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)
