"""The app as Streamlit's server serves it: the page, behind what every request passes first."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit import runtime

from explorer.server.closed import ClosedRoutes
from explorer.server.front_page import front_page
from explorer.server.headers import SecurityHeaders
from explorer.server.hosts import HostGuard, ServedHosts
from explorer.server.janitor import leave_out_what_is_loaded, start_janitor
from explorer.server.mends.errors import tell_errors
from explorer.server.mends.media import leave_to_janitor
from explorer.server.mends.messages import (
    close_messages,
    finish_callbacks,
    forget_undrawn_fragments,
    hold_early_polls,
    keep_answers,
    keep_last_words,
)
from explorer.server.mends.uploads import UploadGuard, UploadPlaces, keep_in_memory
from explorer.server.password import Password, PasswordGate
from explorer.server.scripts import scripts
from explorer.server.visitor import VisitorCookie

APP = Path(__file__).resolve().parents[1] / "app.py"


@dataclass(frozen=True, slots=True)
class Door:
    """Who is let in, what has to be there before, and what is done then."""

    hosts: ServedHosts
    is_loaded: threading.Event
    password: Password | None = None
    when_open: Callable[[], None] = lambda: None


def make_app(door: Door) -> st.App:
    """Return the app with its middleware, the outermost first, and keep what it holds small while it runs."""
    start_janitor()
    keep_in_memory()
    keep_answers()
    keep_last_words()
    finish_callbacks()
    hold_early_polls()
    forget_undrawn_fragments()
    tell_errors()
    places = UploadPlaces()
    asks = [Middleware(PasswordGate, password=door.password)] if door.password is not None else []

    @contextlib.asynccontextmanager
    async def open_door(_: st.App) -> AsyncIterator[None]:
        streamlit = runtime.get_instance()
        places.watch(streamlit.uploaded_file_mgr)
        leave_to_janitor(streamlit.media_file_mgr)
        close_messages(streamlit)
        await asyncio.to_thread(door.is_loaded.wait)
        leave_out_what_is_loaded()
        door.when_open()
        yield

    return st.App(
        APP,
        lifespan=open_door,
        routes=[scripts().route(), *front_page(scripts())],
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(HostGuard, hosts=door.hosts),
            Middleware(ClosedRoutes),
            *asks,
            Middleware(UploadGuard, places=places),
            Middleware(VisitorCookie),
        ],
    )
