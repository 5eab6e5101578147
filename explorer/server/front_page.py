"""The page that every visit begins with: Streamlit's own, with one script more that loads it again where it has ended.

An error in Streamlit's scripts that reaches nobody takes the whole page away, and what is left is white for good. Here
a reload loses nothing (`explorer.plan.reload`), so it is done for the reader.
"""

from importlib.resources import files
from pathlib import Path

import streamlit as st
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from explorer.server.scripts import Scripts

COMPARE, SWEEP, LEARN = "compare", "sweep", "learn"
"""Where the pages beside Explore are; that is at the root."""


def front_page(scripts: Scripts) -> list[Route]:
    """Return the routes of the pages, which stand before Streamlit's own; the scripts' route must have been made.

    Raises:
        RuntimeError: Streamlit's page has no head to put the script into.

    """
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    script = (files("explorer") / "server" / "load_again.js").read_text(encoding="utf-8")
    head, end, rest = page.partition("</head>")
    if not end:
        raise RuntimeError("Streamlit's index.html has no </head>")
    content = f'{head}<script src="{scripts.path_of(script)}" defer></script>{end}{rest}'

    async def answer(_: Request) -> Response:
        return HTMLResponse(content, headers={"Cache-Control": "no-cache"})

    return [Route(f"/{path}", answer, methods=["GET", "HEAD"]) for path in ("", COMPARE, SWEEP, LEARN)]
