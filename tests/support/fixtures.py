"""The app's solver processes, and a headless Chromium for tests marked `browser`.

Without a Chromium they are skipped, saying so; with REQUIRE_BROWSER_TESTS=1, as in CI, they fail instead.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.picture import served_picture
from tests.support.serving import Address, free_port, open_servers, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
TESTED_WITH = ("chromium-headless-shell", *CHROMIUM_NAMES)
"""The best first: a page costs the first, which draws on no screen, 1.9 s of a processor, and Chromium 3.1. What is
measured or looked at is what people have."""

CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--font-render-hinting=none",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT_MS = 120_000
"""Patience with anything in a browser: a busy machine is no failure, and what is right comes at once elsewhere."""

OUTPUT_SHOWN = 20_000
"""How many characters of what a server wrote are shown where a test failed."""


@pytest.fixture(scope="module")
def solver_processes() -> Iterator[None]:
    """End the solver processes of the app with the tests of a module that used them."""
    from explorer.jobs.server_pool import solver_pool  # loads Streamlit, which most tests do without

    solver_pool()
    yield
    solver_pool().close()
    solver_pool.cache_clear()


@contextmanager
def _served_app() -> Iterator[Address]:
    port = free_port()
    with served(["-m", "explorer.launch", "--headless", "--port", str(port)], port) as address:
        yield address


@pytest.fixture(scope="module")
def app() -> Iterator[Address]:
    """Start the app by its own command for a module of tests; its address."""
    with _served_app() as address:
        yield address


@pytest.fixture(scope="session")
def common_app() -> Iterator[Address]:
    """Start the app for all tests that leave its server as it is; its address."""
    with _served_app() as address:
        yield address


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Serve `canvas_page.py`, a page with the picture alone; its address."""
    with served_picture() as address:
        yield address


@pytest.fixture(scope="session")
def chromium() -> "Iterator[Browser]":
    """Start one browser for all tests of a run."""
    path = next(filter(None, map(shutil.which, TESTED_WITH)), None)
    if path is None:
        reason = f"no browser found; install one of {', '.join(TESTED_WITH)} to run this test"
        if os.environ.get("REQUIRE_BROWSER_TESTS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(CHROMIUM_FLAGS), timeout=TIMEOUT_MS)
        yield browser
        browser.close()


@pytest.fixture
def chromium_page(chromium: "Browser") -> "Iterator[Page]":
    """Open a page of 1280 x 800 pixels; every wait in it is bounded, and an error in its console fails the test."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    for server in open_servers:  # pytest shows it where a test failed
        print(server, "wrote", server.output()[-OUTPUT_SHOWN:])
    assert errors == []
