"""The script of the pictures as a file of this server, which a browser loads once.

A component's script is given to Streamlit as text, and goes to the browser with every message to the component that
says anything new: 320 kB beside the 250 kB of a picture, hashed, sent and decoded at each change of an input. So what
Streamlit is given is a few lines that import the script from here, by its digest. Where nobody serves it (tests that
run a page without a server) the text itself stays.
"""

import hashlib
from functools import cache

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

FOLDER = "/scripts"
LOADER = """\
const address = new URL("{path}", location.origin).href;
async function load() {{
  for (let pause_ms = 250; ; pause_ms *= 2) {{
    try {{
      // An address that failed once may be remembered as failed.
      return await import(pause_ms === 250 ? address : `${{address}}?after=${{pause_ms}}`);
    }} catch (error) {{
      if (pause_ms > 8000) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }}
  }}
}}
export default (await load()).default;
"""


class Scripts:
    """Scripts by digest; nothing is taken in before there is a route to them."""

    def __init__(self) -> None:
        self._by_digest: dict[str, bytes] | None = None

    def route(self) -> Route:
        """Return the route by which all scripts that are taken in from now on can be had."""
        self._by_digest = self._by_digest or {}
        return Route(f"{FOLDER}/{{digest:str}}.js", self._answer, methods=["GET", "HEAD"])

    def loaded_from_here(self, script: str) -> str:
        """Return a short module with the default export of `script`; `script` itself where nobody serves it."""
        return script if self._by_digest is None else LOADER.format(path=self.path_of(script))

    def path_of(self, script: str) -> str:
        """Take a script in, and return where it can be had once there is a route."""
        if self._by_digest is None:
            raise RuntimeError("there is no route to scripts yet: call route() first")
        content = script.encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        self._by_digest[digest] = content
        return f"{FOLDER}/{digest}.js"

    async def _answer(self, request: Request) -> Response:
        content = (self._by_digest or {}).get(request.path_params["digest"])
        if content is None:
            return PlainTextResponse("There is no such script.", 404)
        lasting = {"Cache-Control": "private, max-age=31536000, immutable"}  # another script has another address
        return Response(content, media_type="text/javascript", headers=lasting)


@cache
def scripts() -> Scripts:
    """Return the scripts of this server."""
    return Scripts()
