"""The command that opens the app works on a machine that has never seen Streamlit."""

from pathlib import Path

import pytest

from tests.explorer.serving import free_port, served
from tests.waiting import eventually


def test_first_start_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no settings of an earlier start
    monkeypatch.setenv("BROWSER", "true")  # a browser that does nothing
    port = free_port()
    with served(["-m", "explorer.launch", "--port", str(port)], port) as address:
        eventually(lambda: address.children)  # a solver is warming up
