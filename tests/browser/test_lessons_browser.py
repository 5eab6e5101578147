"""The lessons in a real browser: from beginning to end, right and wrong predictions, by mouse and by keys alone."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from explorer.lessons.catalogue import COURSE
from explorer.lessons.lattice import ideal_id
from explorer.lessons.records import AskNumber, Lesson
from tests.support.accessibility import faults
from tests.support.app_page import SOLVE_MS, download
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

FIGURES = ".lesson-figure"


@pytest.fixture(autouse=True)
def patient(chromium_page: Any) -> None:
    """Wait as long for a page that opens beside busy solvers as for a solve."""
    chromium_page.set_default_timeout(SOLVE_MS)


def open_list(page: Any, app: str) -> None:
    """Come from Explore: a deep address first asks for the server's health beneath itself, which the browser logs."""
    page.goto(app)
    page.get_by_role("link", name="Learn").click()
    page.get_by_text("Each lesson answers one question").wait_for()


def begin(page: Any, app: str, lesson: Lesson) -> None:
    open_list(page, app)
    page.locator(f".st-key-begin_{lesson.name} button").click()
    page.get_by_role("heading", name=re.compile(re.escape(lesson.title))).wait_for()
    page.wait_for_url(re.compile(f"lesson={lesson.name}&step=1"))


def at_step(page: Any, lesson: Lesson, number: int) -> None:
    page.wait_for_url(re.compile(f"lesson={lesson.name}&step={number}(&|$)"))
    title = lesson.steps[number - 1].title if number <= len(lesson.steps) else "The sentence to take along"
    page.get_by_role("heading", name=re.compile(re.escape(title))).wait_for()


def go_on_to(page: Any, lesson: Lesson, number: int) -> None:
    """Go from the first step of a lesson to another one."""
    for at in range(2, number + 1):
        page.locator("body").press("n")
        at_step(page, lesson, at)


def settled(page: Any) -> None:
    """Wait until no solver is at work on the step and the page is drawn."""
    page.get_by_text("The solver is at work on this").wait_for(state="detached")
    page.locator("[data-testid='stApp'][data-test-script-state='notRunning']").wait_for()
    assert page.locator("[data-testid='stException']").count() == 0


def predict(page: Any, lesson: Lesson, number: int, rightly: bool) -> None:
    """Answer the question of a step, rightly where its answer is a plain one."""
    question = lesson.steps[number - 1].ask
    assert question is not None
    if isinstance(question, AskNumber):
        value = question.answer if rightly and not callable(question.answer) else 987654.0
        page.get_by_role("spinbutton", name=re.compile("^Your prediction")).fill(f"{value:g}")
    else:
        right = question.answer if isinstance(question.answer, int) else 0
        at = right if rightly else (right + 1) % len(question.options)
        page.get_by_test_id("stRadio").locator("label").filter(has_text=question.options[at]).last.click()
    page.get_by_role("button", name="Reveal", exact=True).click()
    is_known = not callable(question.answer)
    said = "and that is right" if rightly and is_known else "; it is "
    page.get_by_text(re.compile(f"You said .*{said}")).wait_for()


def cut_off(page: Any) -> list[str]:
    """Return the texts of figures that are not wholly in them, or not wholly in their boxes while they are lit."""
    found: list[str] = []
    for one in page.locator(FIGURES).all():
        found += one.evaluate(
            """root => {
            const svg = root.querySelector("svg");
            const goesOver = (text, around) => {
              const [box, room] = [text, around].map((e) => e.getBoundingClientRect());
              return box.left < room.left - 1 || box.right > room.right + 1;
            };
            const texts = [...svg.querySelectorAll(".mark:not(.hidden) text")].filter((text) => text.textContent);
            const boxes = texts.filter((text) => text.parentElement.classList.contains("box"));
            boxes.forEach((text) => text.parentElement.classList.add("lit"));
            const outside = texts.filter((text) => goesOver(text, svg));
            outside.push(...boxes.filter((text) => goesOver(text, text.parentElement.querySelector(".shape"))));
            boxes.forEach((text) => text.parentElement.classList.remove("lit"));
            return outside.map((text) => text.textContent);
            }"""
        )
    return found


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_a_lesson_from_beginning_to_end(app: str, chromium_page: Any, lesson: Lesson) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=("light", "dark")[COURSE.index(lesson) % 2])
    begin(page, app, lesson)
    for number, step in enumerate(lesson.steps, start=1):
        at_step(page, lesson, number)
        settled(page)
        if step.ask is not None:
            assert page.get_by_text("Predict.").count() == 1
            predict(page, lesson, number, rightly=number % 2 == 1)
            settled(page)
        if lesson.name == "dynamic_program":
            graphs = 0 if number == 8 else 1  # the last step has tables alone
            assert page.locator("[data-mark='n1']").count() == graphs, "the graph stands there once"
            if number == 8:
                page.get_by_text(
                    re.compile(r"On Inception v3.* keeps .* where the table has 142,728: one in \d+")
                ).wait_for()
        if (lesson.name, number) == ("integer_program", 1):
            figure(page).locator("[data-mark=r0]").hover()
            expect(figure(page).locator("[data-mark=n1]")).to_have_class(re.compile(r"\blit\b"))
            figure(page).locator("[data-mark=n5]").focus()
            expect(figure(page).locator("[data-mark=r4]")).to_have_class(re.compile(r"\blit\b"))
        assert page.get_by_text("was not read").count() == 0
        assert faults(page) == [], f"step {number}"
        eventually(lambda: cut_off(page) == [])
        page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, lesson.num_steps)
    page.get_by_role("textbox", name=re.compile("^In your own words")).fill("Because it is so.")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.get_by_text("You wrote: Because it is so.").wait_for()
    page.get_by_text("One way to say it").wait_for()
    if any(step.ask is not None for step in lesson.steps):
        page.get_by_text("Your predictions").wait_for()
    name, sheet = download(page, "Exercise sheet")
    assert name == f"{lesson.name}.html"
    assert b"<h2>Answers" in sheet
    page.get_by_role("button", name=re.compile("^All lessons")).click()
    standing = page.locator(f".st-key-lesson_{lesson.name}")
    expect(standing).to_contain_text("done")
    expect(standing.get_by_role("button", name="Look again")).to_be_visible()


def lesson_called(name: str) -> Lesson:
    return next(lesson for lesson in COURSE if lesson.name == name)


def figure(page: Any) -> Locator:
    found: Locator = page.locator(FIGURES).last
    return found


def frame(page: Any) -> int:
    return int(figure(page).evaluate("root => root.__figure.frame"))


def test_keys_alone_suffice(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("dynamic_program")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    page.locator("body").press("n")
    at_step(page, lesson, 3)
    settled(page)
    # The question: to the options with Tab, an option with an arrow key and Space, then Enter on the button.
    radio = page.get_by_role("radio").first
    radio.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.get_by_role("button", name="Reveal", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_text(re.compile("You said")).wait_for()
    settled(page)
    # The film: its slider takes arrow keys.
    slider = figure(page).get_by_role("slider", name="Step")
    slider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert frame(page) == 3
    page.keyboard.press("End")
    count = int(figure(page).evaluate("root => root.__figure.frames.length"))
    assert frame(page) == count - 1
    expect(figure(page).locator(".say")).to_contain_text("The colours are the plan")
    page.keyboard.press("Home")
    assert frame(page) == 0
    page.locator("body").press("b")
    at_step(page, lesson, 2)
    page.locator("body").press("o")
    page.get_by_text("Each lesson answers one question").wait_for()


def test_a_lesson_is_presented_larger_and_without_notes(app: str, chromium_page: Any) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    lesson = lesson_called("pipelining")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    predict(page, lesson, 2, rightly=True)
    settled(page)
    lanes, paragraph = page.locator("canvas.gantt").first, page.locator(".st-key-lesson_text p").first
    sizes = "e => [parseFloat(getComputedStyle(e).fontSize), e.clientHeight]"
    usual = [one.evaluate(sizes) for one in (lanes, paragraph)]
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    expect(page.get_by_text("Notes for the lecturer")).to_have_count(0)
    expect(page.get_by_role("link", name="Explore")).to_have_count(0)
    eventually(lambda: lanes.evaluate(sizes)[1] >= 1.4 * usual[0][1])
    assert paragraph.evaluate(sizes)[0] >= 1.4 * usual[1][0]
    assert page.get_by_test_id("stMain").evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    page.locator("body").press("n")
    at_step(page, lesson, 3)
    page.wait_for_url(re.compile("present=yes"))
    predict(page, lesson, 3, rightly=True)
    settled(page)
    expect(page.locator("canvas.gantt")).to_have_count(2)
    words = page.locator("canvas.gantt").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
    assert not any("No order ends before" in one for one in words), "what a bound is, lesson 8 tells"
    # Both runs, question and answer are on the screen of a projector at once.
    eventually(lambda: page.get_by_test_id("stMain").evaluate("e => e.scrollHeight <= e.clientHeight"))
    page.locator("body").press("p")
    page.get_by_text("Notes for the lecturer").wait_for()
    page.wait_for_url(re.compile("^(?!.*present)"))


BELOW_THE_SCREEN = 200
"""Pixels of a presented step that may lie below a projector's screen."""


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_question_figure_and_answer_of_a_presented_step_are_on_one_screen(
    app: str, chromium_page: Any, lesson: Lesson
) -> None:
    page = chromium_page
    sizes = ((1024, 768), (1920, 1080))
    below = "e => e.scrollHeight - e.clientHeight"
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    for number, step in enumerate(lesson.steps, start=1):
        at_step(page, lesson, number)
        settled(page)
        if step.ask is not None:
            predict(page, lesson, number, rightly=False)
            settled(page)
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            eventually(lambda: page.get_by_test_id("stMain").evaluate(below) <= BELOW_THE_SCREEN)
        page.locator("body").press("n")


def test_on_a_phone_the_diagram_goes_below_its_graph(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("ideals")
    begin(page, app, lesson)
    page.locator("body").press("n")
    at_step(page, lesson, 2)
    settled(page)
    node, ideal = (figure(page).locator(f"[data-mark='{name}']") for name in ("n1", ideal_id(frozenset({1, 2}))))

    def box_of(mark: Locator) -> Any:
        return eventually(mark.bounding_box)  # none while the figure is drawn again

    def is_beside() -> bool:
        of_node, of_ideal = box_of(node), box_of(ideal)
        return bool(of_ideal["x"] > of_node["x"] + of_node["width"])

    assert is_beside()
    page.set_viewport_size({"width": 390, "height": 844})
    eventually(lambda: not is_beside())
    box = box_of(ideal)
    assert box["x"] + box["width"] <= 390
    ideal.click()
    expect(page.get_by_text(re.compile("is the stage"))).to_contain_text("{1, 2}")
    page.set_viewport_size({"width": 1280, "height": 800})
    eventually(is_beside)


@pytest.mark.parametrize("lesson", COURSE, ids=lambda lesson: lesson.name)
def test_no_figure_of_a_lesson_is_scrolled_sideways_on_a_phone(app: str, chromium_page: Any, lesson: Lesson) -> None:
    page = chromium_page
    begin(page, app, lesson)
    page.set_viewport_size({"width": 390, "height": 844})
    fits = "all => all.every(e => e.scrollWidth <= e.clientWidth + 1)"
    for number, step in enumerate(lesson.steps, start=1):
        at_step(page, lesson, number)
        settled(page)
        if step.ask is not None:
            eventually(lambda: page.locator(".lesson-figure .scroll, .insight-place").evaluate_all(fits))
            predict(page, lesson, number, rightly=False)
            settled(page)
        eventually(lambda: page.locator(".lesson-figure .scroll, .insight-place").evaluate_all(fits))
        eventually(lambda: page.get_by_test_id("stMain").evaluate("e => e.scrollWidth <= e.clientWidth"))
        eventually(lambda: cut_off(page) == [])
        page.locator("body").press("n")


def test_a_cut_is_dragged_to_the_row_below_on_a_phone(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("cuts"))
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson_called("cuts"), 2)
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    first, last = (page.locator(f"[data-mark='cut{i}']") for i in (2, 5))
    eventually(lambda: middle_of(last)[1] > middle_of(first)[1] + 40)
    page.mouse.move(*middle_of(page.locator("[data-mark='cut4']")))
    page.mouse.down()
    page.mouse.move(*middle_of(last), steps=4)
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    eventually(lambda: abs(middle_of(page.locator("[data-mark='line4']"))[0] - middle_of(last)[0]) < 4)
    page.mouse.up()
    page.locator("[data-mark='line5']").wait_for(state="attached")
    page.locator("[data-mark='cut5']").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    page.locator("[data-mark='cut4']").focus()
    page.keyboard.press("ArrowLeft")
    page.locator("[data-mark='line3']").wait_for(state="attached")
    page.get_by_text("Loads 8, 5, 11 ms.").wait_for()


def test_a_board_that_is_folded_on_a_phone_is_filled(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    first, last = (page.locator(f"[data-mark='n{v}']") for v in (1, 6))
    eventually(lambda: last.bounding_box()["y"] > first.bounding_box()["y"] + 40)
    last.click()
    page.locator("[data-mark='n6'][aria-label$='Accelerator 1']").wait_for()


def test_the_film_plays_by_itself_asks_nothing_of_the_server_and_goes_back_as_it_came(
    app: str, chromium_page: Any
) -> None:
    page = chromium_page
    lesson = lesson_called("dynamic_program")
    begin(page, app, lesson)
    for number in (2, 3):
        page.get_by_role("button", name=re.compile("^Next")).first.click()
        at_step(page, lesson, number)
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("The solver of this app finds the same").wait_for()
    svg = "root.querySelector('svg').outerHTML.replaceAll(' style=\"\"', '')"
    shown = f"root => {svg}"
    first = figure(page).evaluate(shown)
    figure(page).evaluate("root => { root.__figure.pace = 1; }")
    figure(page).get_by_role("button", name="Play").click()
    last = int(figure(page).evaluate("root => root.__figure.frames.length")) - 1
    eventually(lambda: frame(page) == last)
    assert figure(page).evaluate(shown) != first
    # Every way through the frames shows the same at the same place.
    there = figure(page).evaluate(f"root => {{ root.__figure.go(12); return {svg}; }}")
    figure(page).evaluate("root => { root.__figure.go(0); }")
    assert figure(page).evaluate(shown) == first
    back = figure(page).evaluate(f"root => {{ const f = root.__figure; f.go(20); f.go(12); return {svg}; }}")
    assert back == there


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1024, 768), (1920, 1080)])
@pytest.mark.parametrize(("name", "step"), [("dynamic_program", 4), ("integer_program", 3)])
def test_a_film_that_plays_is_on_the_screen_wholly(
    app: str, chromium_page: Any, name: str, step: int, width: int, height: int
) -> None:
    page = chromium_page
    lesson = lesson_called(name)
    page.set_viewport_size({"width": width, "height": height})
    begin(page, app, lesson)
    go_on_to(page, lesson, step)
    if width == 1920:
        page.locator("body").press("p")
        page.wait_for_url(re.compile("present=yes"))
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("The solver of this app finds the same").wait_for()
    figure(page).get_by_role("button", name="Play").click()

    def is_seen() -> bool:
        return bool(
            figure(page).evaluate(
                """root => [".controls", ".say", "svg"].every(name => {
                const box = root.querySelector(name).getBoundingClientRect();
                return box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth; })"""
            )
        )

    eventually(is_seen)


@pytest.mark.parametrize("name", ["ideals", "integer_program"])
def test_a_graph_stands_once_on_a_step_beside_what_is_said_of_it(app: str, chromium_page: Any, name: str) -> None:
    page = chromium_page
    page.set_viewport_size({"width": 1920, "height": 1080})
    lesson = lesson_called(name)
    begin(page, app, lesson)
    page.locator("body").press("p")
    page.wait_for_url(re.compile("present=yes"))
    predict(page, lesson, 1, rightly=False)
    settled(page)
    for v in range(1, 6):
        expect(page.locator(f"[data-mark='n{v}']")).to_have_count(1)
    # Nodes and what lights up with them are seen at once.
    eventually(lambda: figure(page).locator("svg").evaluate("e => e.getBoundingClientRect().height") <= 1080)


def test_back_and_forward_of_the_browser_and_a_reload_keep_the_step_and_the_prediction(
    app: str, chromium_page: Any
) -> None:
    page = chromium_page
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    predict(page, lesson, 1, rightly=True)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    settled(page)
    page.go_back()
    at_step(page, lesson, 1)
    page.get_by_text("and that is right").wait_for()
    page.go_forward()
    at_step(page, lesson, 2)
    page.wait_for_url(re.compile("keep="))
    other = page.context.new_page()
    other.set_default_timeout(SOLVE_MS)
    address = page.url.replace("step=2", "step=1")
    page.goto("about:blank")
    other.goto(address)
    other.get_by_text("and that is right").wait_for()


def middle_of(mark: Locator) -> tuple[float, float]:
    box = eventually(mark.bounding_box)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def shown_bars(page: Any) -> list[str]:
    """Return the widths of all parts of the bars, the loads beside them, and the colours of the chain."""
    shown: list[str] = figure(page).evaluate(
        "root => [...root.__figure.marks].filter(([id]) => /^(receive|compute|send|load|n[0-9])/.test(id)).map("
        "([id, m]) => [id, m.shape?.getAttribute('width'), m.texts.text.textContent, m.shape?.style.fill].join(' '))"
    )
    return sorted(shown)


def test_cuts_are_moved_by_dragging_by_clicking_and_by_keys(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    settled(page)
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    start, end = (middle_of(page.locator(f"[data-mark='cut{i}']")) for i in (4, 5))
    line = page.locator("[data-mark='line4']")
    stood, bars = middle_of(line)[0], shown_bars(page)
    half_way = (start[0] + end[0]) / 2 - 6
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(half_way, 20, steps=4)
    eventually(lambda: abs(middle_of(line)[0] - half_way) < 4)
    assert half_way > stood + 10, "the line goes with the pointer between two places"
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    page.mouse.move(*end, steps=4)
    # Before it is let go: the loads, the bars and the chain; and back again.
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    meanwhile = shown_bars(page)
    assert meanwhile != bars
    page.mouse.move(*start, steps=4)
    page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
    assert shown_bars(page) == bars
    expect(page.locator("[data-mark='cut4']")).to_have_text(re.compile("✂"))
    page.mouse.move(*end, steps=4)
    page.mouse.up()
    page.locator("[data-mark='line5']").wait_for(state="attached")
    page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    assert shown_bars(page) == meanwhile, "what was shown meanwhile is what the server says"
    page.locator("[data-mark='cut1']").click()
    page.get_by_text(re.compile(r"Loads 6, 13\.5, 3\.5 ms\.")).wait_for()
    page.locator("[data-mark='cut3']").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Loads 11, 8.5, 3.5 ms.").wait_for()
    page.locator("[data-mark='cut5']").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Loads 11, 10, 7 ms.").wait_for()
    page.locator("[data-mark='line4']").wait_for(state="attached")
    page.keyboard.press("ArrowRight")
    page.get_by_text("Loads 11, 8.5, 3.5 ms.").wait_for()
    assert page.evaluate("document.activeElement !== document.body")


def test_a_cut_follows_a_finger(app: str, chromium: Any) -> None:
    context = chromium.new_context(has_touch=True, viewport={"width": 1024, "height": 768})
    try:
        page = context.new_page()
        page.set_default_timeout(SOLVE_MS)
        begin(page, app, lesson_called("cuts"))
        page.get_by_role("button", name=re.compile("^Next")).first.click()
        at_step(page, lesson_called("cuts"), 2)
        settled(page)
        start, end = (middle_of(page.locator(f"[data-mark='cut{i}']")) for i in (4, 5))
        finger = context.new_cdp_session(page)

        def touch(kind: str, *places: tuple[float, float]) -> None:
            points = [{"x": x, "y": y} for x, y in places]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        touch("touchStart", start)
        touch("touchMove", ((start[0] + end[0]) / 2, start[1]))
        touch("touchMove", end)
        page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
        expect(page.locator("[data-mark='line4']")).to_have_count(1)
        touch("touchCancel")
        page.get_by_text("Loads 8, 11, 7 ms.").wait_for()
        touch("touchStart", start)
        touch("touchMove", end)
        touch("touchEnd")
        page.locator("[data-mark='line5']").wait_for(state="attached")
        page.get_by_text("Loads 8, 9.5, 3.5 ms.").wait_for()
    finally:
        context.close()


def test_a_board_is_filled_by_digits_judged_and_scored(app: str, chromium: Any, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("beat_the_solver")
    begin(page, app, lesson)
    settled(page)
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    for node, digit in zip(range(1, 7), "113322", strict=True):
        page.locator(f"[data-mark='n{node}']").focus()
        page.keyboard.press(digit)
        page.locator(f"[data-mark='n{node}'][aria-label$='Accelerator {digit}']").wait_for()
        if node == 3:
            page.get_by_text("3 of 6 nodes are still to be placed. The bars show what the others take.").wait_for()
            expect(page.get_by_text("Accelerator 3", exact=True).first).to_be_visible()
    page.get_by_text("Valid. Time per micro-batch").wait_for()
    page.locator("[data-mark='n1']").focus()
    page.keyboard.press("2")
    page.get_by_text(re.compile("Valid. Time")).wait_for(state="detached")
    expect(page.get_by_role("button", name="Submit", exact=True)).to_be_disabled()
    page.locator("[data-mark='n1']").focus()
    page.keyboard.press("1")
    page.get_by_text("Valid. Time per micro-batch").wait_for()
    page.get_by_role("button", name=re.compile("^Hint")).click()
    page.get_by_text("The optimum is 8 ms.").wait_for()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.get_by_text("90 points for 8 ms, the plan that you submitted first. You have found the optimum.").wait_for()
    _, table = download(page, "Results (CSV)")
    assert table.decode().splitlines()[1].startswith("1: a chain,1,8,1,")
    page.wait_for_url(re.compile("boards="))
    context = chromium.new_context()
    try:
        other = context.new_page()
        other.goto(page.url)
        other.get_by_text(
            "90 points for 8 ms, the plan that you submitted first. You have found the optimum."
        ).wait_for(timeout=SOLVE_MS)
    finally:
        context.close()


def place(page: Any, digits: str, player: int = 1) -> None:
    """Put the nodes of the first round on these devices, by keys, on the board of a player."""
    board = page.locator(FIGURES).nth(player - 1)
    for node, digit in enumerate(digits, start=1):
        board.locator(f"[data-mark='n{node}']").focus()
        page.keyboard.press(digit)
        board.locator(f"[data-mark='n{node}'][aria-label$='Accelerator {digit}']").wait_for()


def test_the_first_submission_counts_and_a_duel_shows_nothing_before_both(app: str, chromium_page: Any) -> None:
    page = chromium_page
    lesson = lesson_called("beat_the_solver")
    begin(page, app, lesson)
    settled(page)
    submit = page.get_by_role("button", name="Submit", exact=True)
    place(page, "111123")
    submit.click()
    page.get_by_text("55 points for 14.5 ms, the plan that you submitted first.").wait_for()
    page.wait_for_url(re.compile("boards="))
    address = page.url
    place(page, "113322")
    page.get_by_text("Time per micro-batch: 8 ms").wait_for()
    settled(page)
    expect(submit).to_be_disabled()
    page.get_by_text("55 points for 14.5 ms").wait_for()
    assert page.url == address
    _, table = download(page, "Results (CSV)")
    assert table.decode().splitlines()[0] == "round,player,first_submission_ms,hints,placement"
    assert table.decode().splitlines()[1].startswith("1: a chain,1,14.5,0,1:1 2:1 3:1 4:1 5:2 6:3")
    expect(page.get_by_role("switch", name=re.compile("^Duel"))).to_be_disabled()


def test_in_a_duel_on_a_phone_all_devices_can_be_chosen(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_test_id("stCheckbox").filter(has_text="Duel").locator("label").click()
    page.get_by_text("Player 2", exact=True).wait_for()
    settled(page)
    choices = page.get_by_test_id("stButtonGroup").get_by_role("radiogroup")
    expect(choices).to_have_count(2)
    eventually(lambda: choices.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)"))


def test_in_a_duel_the_optimum_waits_for_both(app: str, chromium_page: Any) -> None:
    page = chromium_page
    begin(page, app, lesson_called("beat_the_solver"))
    settled(page)
    page.get_by_test_id("stCheckbox").filter(has_text="Duel").locator("label").click()
    page.get_by_text("Player 2", exact=True).wait_for()
    settled(page)
    expect(page.get_by_role("button", name=re.compile("^Hint"))).to_have_count(0)
    place(page, "111123", 1)
    page.get_by_role("button", name="Submit", exact=True).first.click()
    page.get_by_text("Submitted: 14.5 ms. The solver's answer is shown when both").wait_for()
    settled(page)
    assert page.get_by_text("points for").count() == 0
    assert "boards=" not in page.url, "opened elsewhere, it would tell the answer"
    assert page.get_by_role("button", name="Results (CSV)").count() == 0
    place(page, "113322", 2)
    page.get_by_role("button", name="Submit", exact=True).last.click()
    page.get_by_text("Player 2 wins: 55 to 100 points.").wait_for()
    page.get_by_text("55 points for 14.5 ms").wait_for()
    page.wait_for_url(re.compile("boards="))


def test_a_lesson_of_ones_own_is_opened_and_a_bad_one_is_refused(app: str, chromium_page: Any) -> None:
    page = chromium_page
    open_list(page, app)
    page.get_by_text("A lesson of your own").click()
    own = {
        "format": "placement lesson",
        "version": 1,
        "title": "Mine *and* yours",
        "question": "Does it open?",
        "minutes": 1,
        "setting": {"sample": "teaching_chain"},
        "values": {"work": {"of": "work"}},
        "steps": [
            {
                "title": "Work",
                "text": "Add the times.",
                "figures": [{"show": "graph"}],
                "ask": {"prompt": "How much work is it?", "number": "work", "unit": "ms"},
                "reveal": "All together {work} ms.",
            }
        ],
        "closing": {"question": "So?", "answer": "So it is."},
    }
    bad = {**own, "title": "<b>"}
    for document, said in ((bad, "was not read"), (own, "Add the times.")):
        page.locator("input[type=file]").set_input_files(
            {"name": "lesson.json", "mimeType": "application/json", "buffer": json.dumps(document).encode()}
        )
        page.get_by_text(said).first.wait_for()
    page.get_by_role("heading", name=re.compile(re.escape("Mine *and* yours"))).wait_for()
    page.get_by_role("spinbutton", name=re.compile("^Your prediction")).fill("18")
    page.get_by_role("button", name="Reveal", exact=True).click()
    page.get_by_text("and that is right").wait_for()
    page.get_by_text("All together 18 ms.").wait_for()
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    page.get_by_role("button", name="Open in Explore").click()
    page.get_by_role("heading", name=re.compile("Teaching: a chain")).wait_for()


@pytest.mark.parametrize("width", [390, 1024])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_figures_have_names(
    app: str, chromium_page: Any, width: int, scheme: str
) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=scheme)
    begin(page, app, lesson_called("cuts"))
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    page.set_viewport_size({"width": width, "height": 768})
    at_step(page, lesson_called("cuts"), 2)
    settled(page)
    wider = "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth; }"
    assert page.evaluate(wider) <= 1
    for one in page.locator(FIGURES).all():
        assert one.locator("svg").get_attribute("aria-label")
        for mark in one.locator("[role=button]").all():
            assert mark.get_attribute("aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_transfers_are_hatched_alike_in_the_figure_and_in_the_load_bars(
    app: str, chromium_page: Any, scheme: str
) -> None:
    page = chromium_page
    page.emulate_media(color_scheme=scheme)
    lesson = lesson_called("cuts")
    begin(page, app, lesson)
    page.get_by_role("button", name=re.compile("^Next")).first.click()
    at_step(page, lesson, 2)
    predict(page, lesson, 2, rightly=False)
    settled(page)
    for part in ("receive", "send"):
        angle, edge = page.locator(f".loads td i.{part}").first.evaluate(
            "e => [getComputedStyle(e).getPropertyValue('--angle'), getComputedStyle(e).borderTopColor]"
        )
        turn, hatch, around = page.locator(FIGURES).first.evaluate(
            """(root, part) => [root.querySelector(`pattern#${part}`).getAttribute("patternTransform"),
            getComputedStyle(root.querySelector(`pattern#${part} path`)).stroke,
            getComputedStyle(root.querySelector(`.mark.${part} .shape`)).stroke]""",
            part,
        )
        assert hatch == around == edge
        # Stripes of a gradient lie across its angle; those of the pattern are upright before they are turned.
        across = int(angle.removesuffix("deg")) + 90
        assert (across - int(re.findall(r"-?\d+", turn)[0])) % 180 == 0
