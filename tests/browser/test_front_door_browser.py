"""The page works under the content security policy, and the form that asks for the password in a real browser."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from explorer.server.password import Password
from tests.support.app_page import SOLVE_MS, download, fill, tiny_graph, upload, wait_for_plan_so_far
from tests.support.picture import Picture
from tests.support.serving import Address, free_port, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

LISTEN = """
globalThis.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  globalThis.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile} ${event.sample}`));
"""
DRAWS_NOTHING = """
const Channel = window.MessageChannel, Socket = window.WebSocket;
const heldBack = [];
let holdsBack = false;
window.drawAgain = () => { holdsBack = false; heldBack.splice(0).forEach((draw) => draw()); };
window.MessageChannel = class {  // by which React has itself called when there is something to draw
  constructor() {
    const { port1, port2 } = new Channel();
    this.port2 = port2;
    this.port1 = { set onmessage(draw) {  // held back where it arrives: some are on their way already
      port1.onmessage = (event) => (holdsBack ? heldBack.push(() => draw(event)) : draw(event));
    } };
  }
};
window.WebSocket = class extends Socket {  // from what the server says first on
  constructor(...given) {
    super(...given);
    this.addEventListener("message", () => { holdsBack = true; }, { once: true });
  }
};
"""
PASSWORD = "correct horse battery"  # noqa: S105


def wait_until_drawn(page: Any) -> None:
    page.locator(".stApp[data-test-script-state=notRunning]").wait_for(timeout=SOLVE_MS)


def test_a_fragment_asks_in_vain_until_a_slow_browser_has_drawn_its_page(app: Address, chromium_page: Any) -> None:
    page, early = chromium_page, list[str]()
    page.goto(f"{app}/?sample=inception_v3_operator_inference&accelerators=7&splits=convex&bandwidth=2&limit=600")
    page.locator(".st-key-solve").get_by_role("button").click()
    wait_for_plan_so_far(page)
    page.wait_for_url(re.compile("keep="))  # by which the page finds its solve again
    page.add_init_script(DRAWS_NOTHING)  # a browser that is slower than any server

    def sent(content: Any) -> None:
        asked = BackMsg.FromString(content).rerun_script if isinstance(content, bytes) else BackMsg().rerun_script
        if asked.is_auto_rerun and not asked.page_script_hash:
            early.append(asked.fragment_id)

    page.on("websocket", lambda socket: socket.on("framesent", sent))
    page.goto(page.url)  # where the strip of the solve that goes on asks for its turn
    eventually(lambda: page.evaluate("true") and early)  # events of the page are heard while it is asked something
    page.evaluate("window.drawAgain()")
    page.locator(".placed-pipeline").first.wait_for(timeout=SOLVE_MS)
    assert page.evaluate("performance.getEntriesByType('navigation')[0].type") == "navigate"  # and not loaded again
    page.get_by_role("button", name="Cancel").click()


def test_a_page_that_is_gone_is_loaded_again_a_few_times_and_not_for_ever(app: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{app}/?sample=teaching_chain&accelerators=2")
    for _ in range(3):
        picture = page.locator(".placed-pipeline").first
        picture.wait_for(timeout=SOLVE_MS)
        page.evaluate("window.isOfBefore = true")
        # As React leaves it after an error that nothing catches.
        page.evaluate("document.getElementById('root').replaceChildren()")
        page.wait_for_function("() => !window.isOfBefore")
    page.locator(".placed-pipeline").first.wait_for(timeout=SOLVE_MS)
    expect(page).to_have_url(re.compile("sample=teaching_chain&accelerators=2"))
    page.evaluate("document.getElementById('root').replaceChildren()")
    page.wait_for_timeout(1000)
    assert page.evaluate("document.getElementById('root').childElementCount") == 0


def test_every_page_works_under_the_content_security_policy(app: Address, chromium_page: Any) -> None:
    page, asked = chromium_page, []
    page.set_default_timeout(SOLVE_MS)
    page.add_init_script(LISTEN)
    page.on("request", lambda request: asked.append(request.url))

    def assert_none(where: str) -> None:
        found = page.evaluate("globalThis.violations")
        assert found == [], (where, *found)

    # A free solve at work: the picture, and the strip with its chart.
    page.goto(f"{app}/?sample=inception_v3_operator_inference&splits=free&limit=59")
    page.locator(".st-key-solve").get_by_role("button").click()
    page.locator(".solve-strip").wait_for()
    page.get_by_test_id("stVegaLiteChart").locator("canvas, svg").first.wait_for()
    # Without a plan there is nothing that Cancel keeps, and no strip to hide.
    wait_for_plan_so_far(page)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Hide", exact=True).wait_for()
    assert_none("a running solve")
    page.emulate_media(color_scheme="dark")
    wait_until_drawn(page)
    assert_none("dark")
    page.emulate_media(color_scheme="light")

    # An upload, downloads, and the plan kept for the page Compare.
    page.goto(f"{app}/?sample=teaching_chain")
    Picture(page, None)
    page.get_by_text("Upload", exact=True).click()
    upload(page, "tiny.json", json.dumps(tiny_graph("first")).encode())
    page.get_by_text("tiny").first.wait_for()
    Picture(page, None).wait_for("p.nodes === 2")
    wait_until_drawn(page)
    page.get_by_role("button", name="Keep for comparison").click()
    page.get_by_role("link", name=re.compile(r"Compare \(1\)")).wait_for()
    page.get_by_role("tab", name="Share and export").click()
    for tab in page.get_by_role("tab").all():
        if tab.is_visible():
            tab.click()
            wait_until_drawn(page)
    page.get_by_role("tab", name="Share and export").click()
    name, content = download(page, "Report (HTML)")
    assert name.endswith(".html")
    assert content
    assert_none("upload and downloads")

    page.get_by_role("link", name=re.compile(r"Compare")).click()
    page.get_by_role("heading", name="Compare").wait_for()
    wait_until_drawn(page)
    assert_none("Compare")

    page.get_by_role("link", name="Sweep").click()
    page.get_by_text("Choose what varies at the side").wait_for()
    fill(page, "Values of Accelerators", "1:2")
    page.get_by_role("button", name="Start the sweep").click()
    page.locator(".js-plotly-plot .plotly, .stPlotlyChart svg").first.wait_for()
    page.get_by_text("2 points in").wait_for()
    wait_until_drawn(page)
    assert download(page, "CSV")[0] == "sweep.csv"
    assert_none("Sweep")
    assert [url for url in asked if not url.startswith((app, "blob:", "data:"))] == []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    file = tmp_path_factory.mktemp("password") / "password"
    file.write_text(PASSWORD)
    port = free_port()
    arguments = ["-m", "explorer.launch", "--headless", "--port", str(port), "--password-file", str(file)]
    with served(arguments, port) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_leads_to_the_page_that_was_asked_for(
    guarded: Address, chromium: Any, scheme: str, tmp_path: Path
) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 700}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(SOLVE_MS)
    page.add_init_script(LISTEN)
    page.goto(f"{guarded}/sweep?sample=teaching_chain&over=memory")
    box = page.get_by_label("Password of this server")
    expect(box).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ground, text = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
    luminance = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, text)]
    assert (luminance[0] > luminance[1]) == (scheme == "light")
    box.fill("something else")
    box.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("That is not the password of this server. Check it and try again.")
    expect(box).to_have_attribute("aria-invalid", "true")
    page.screenshot(path=tmp_path / "form.png")
    box.fill(PASSWORD)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("heading", name="Sweep", exact=True).wait_for()
    assert page.url.startswith(f"{guarded}/sweep?")
    assert "over=memory" in page.url
    assert page.evaluate("document.cookie").find("placement_") < 0
    assert page.evaluate("globalThis.violations") == []
    page.reload()
    page.get_by_role("heading", name="Sweep", exact=True).wait_for()
    context.close()


def test_the_address_with_a_token_opens_the_page_without_it(guarded: Address, chromium_page: Any) -> None:
    page = chromium_page
    page.goto(f"{guarded}/?token={Password(PASSWORD).token}&sample=teaching_chain")
    Picture(page, None)
    assert "token" not in page.url
    assert "sample=teaching_chain" in page.url
