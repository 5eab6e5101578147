"""The pages' addresses serve Streamlit's page with the script that loads it again, and no other address does."""

import re
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette

from explorer.server.front_page import COMPARE, LEARN, SWEEP, front_page
from explorer.server.scripts import Scripts
from tests.support.asking import asked


def test_every_page_is_that_of_streamlit_with_one_script_more() -> None:
    scripts = Scripts()
    app = Starlette(routes=[scripts.route(), *front_page(scripts)])
    plain = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    for path in ("", COMPARE, SWEEP, LEARN):
        status, headers, page = asked(app, f"/{path}")
        assert status == 200
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["cache-control"] == "no-cache"
        found = re.search(r'<script src="([^"]*)" defer></script></head>', page)
        assert found is not None
        assert page.replace(found[0], "</head>") == plain
        status, _, script = asked(app, found[1])
        assert status == 200
        assert "location.reload()" in script
    assert asked(app, "/manifest.json")[0] == 404  # Streamlit's own routes have it


def test_the_scripts_need_a_route_first() -> None:
    with pytest.raises(RuntimeError, match=r"call route\(\) first"):
        front_page(Scripts())
