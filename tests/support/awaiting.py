"""Coroutines run to their end from a plain test, whatever else the process runs."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def awaited(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine in a loop of its own, and return what it returns.

    In a thread of its own too: Playwright leaves its loop running in the thread of the tests, where `asyncio.run` is
    refused, and tests with and without a browser share a process.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, coroutine).result()  # noqa: TID251 -- the thread runs no loop yet
