"""The script of the pictures: by its digest from this server, as text where there is none."""

import re

from starlette.applications import Starlette

from explorer.picture.component import component_source
from explorer.server.scripts import FOLDER, Scripts
from tests.support.asking import asked

SCRIPT = "export default () => 'über';\n"


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
