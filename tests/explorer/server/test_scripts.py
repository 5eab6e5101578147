"""The script of the pictures: by its digest from this server, as text where there is none."""

import re
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers

from explorer.picture.component import component_source
from explorer.server.scripts import FOLDER, Scripts
from tests.support.awaiting import awaited

SCRIPT = "export default () => 'über';\n"


def asked(app: Starlette, path: str, method: str = "GET") -> tuple[int, Headers, str]:
    """Return status, headers and text of what is served at a path."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    awaited(app({**scope, "headers": [], "app": app}, receive, send))
    return sent[0]["status"], Headers(raw=sent[0]["headers"]), b"".join(m["body"] for m in sent[1:]).decode()


def test_without_a_server_a_script_is_given_as_it_is() -> None:
    assert Scripts().loaded_from_here(SCRIPT) == SCRIPT


def test_a_script_is_had_by_its_digest_and_no_other() -> None:
    scripts = Scripts()
    app = Starlette(routes=[scripts.route()])
    loader = scripts.loaded_from_here(SCRIPT)
    found = re.search(rf'"({FOLDER}/[0-9a-f]{{16}}\.js)"', loader)
    assert found is not None
    status, headers, text = asked(app, found[1])
    assert (status, text) == (200, SCRIPT)
    assert headers["content-type"].startswith("text/javascript")
    assert "immutable" in headers["cache-control"]
    assert asked(app, f"{FOLDER}/{'0' * 16}.js")[0] == 404
    assert asked(app, f"{FOLDER}/../app.py")[0] == 404
    assert asked(app, found[1], "POST")[0] == 405
    assert scripts.loaded_from_here(SCRIPT + " ") != loader


def test_what_goes_with_each_message_is_short() -> None:
    scripts = Scripts()
    scripts.route()
    script, _ = component_source()
    assert len(scripts.loaded_from_here(script)) < 1_000 < len(script)
