"""The command that opens the app works on a machine that has never seen Streamlit."""

import os
from pathlib import Path

import pytest

from tests.support.serving import free_port, served
from tests.support.waiting import eventually


def test_first_start_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # no settings of an earlier start
    monkeypatch.setenv("BROWSER", "true")  # a browser that does nothing
    port = free_port()
    with served(["-m", "explorer.launch", "--port", str(port)], port) as address:
        eventually(lambda: address.children)  # a solver is warming up


def test_a_browser_is_opened_at_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    (tmp_path / "xdg-open").symlink_to(browser)  # asked first, where there is one
    monkeypatch.setenv("BROWSER", str(browser))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    port = free_port()
    with served(["-m", "explorer.launch", "--port", str(port)], port) as address:
        eventually(opened.exists)
        assert opened.read_text() == address
