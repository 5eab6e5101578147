"""The event loop that the server runs on."""

import sys
from types import SimpleNamespace

import pytest
from uvicorn.config import Config


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop on Windows")
def test_uvicorn_takes_uvloop_by_itself() -> None:
    import uvloop

    loop = Config(app=SimpleNamespace()).get_loop_factory()()  # type: ignore[arg-type,misc]
    try:
        assert isinstance(loop, uvloop.Loop)
    finally:
        loop.close()
