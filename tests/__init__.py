"""Tests: laws, known answers and brute force."""

import pytest

pytest.register_assert_rewrite("tests.support")
