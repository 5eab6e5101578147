"""The lessons in a browser: coming to a step, predicting, and what is looked at on each."""

import re
from typing import Any

from playwright.sync_api import Locator

from explorer.lessons.catalogue import COURSE
from explorer.lessons.records import AskNumber, Lesson
from tests.support.waiting import eventually

FIGURES = ".lesson-figure"


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


def smallest_letters(page: Any) -> float:
    """Return the size of the smallest letters in figures, in pixels of the screen."""
    sizes = page.locator(f"{FIGURES} svg").evaluate_all(
        """all => all.flatMap((svg) => {
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          const texts = [...svg.querySelectorAll(".mark:not(.hidden) text")].filter((text) => text.textContent);
          return texts.map((text) => parseFloat(getComputedStyle(text).fontSize) * scale);
        })"""
    )
    return min(map(float, sizes), default=100.0)


def lesson_called(name: str) -> Lesson:
    return next(lesson for lesson in COURSE if lesson.name == name)


def figure(page: Any) -> Locator:
    found: Locator = page.locator(FIGURES).last
    return found


def frame(page: Any) -> int:
    return int(figure(page).evaluate("root => root.__figure.frame"))


def box_of(mark: Locator) -> dict[str, float]:
    """The rectangle of a mark; a figure that is drawn anew has none for a moment, which is waited out."""
    return eventually(mark.bounding_box)


def middle_of(mark: Locator) -> tuple[float, float]:
    box = box_of(mark)
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def place(page: Any, digits: str, player: int = 1) -> None:
    """Put the nodes of the first round on these devices, by keys, on the board of a player."""
    board = page.locator(FIGURES).nth(player - 1)
    for node, digit in enumerate(digits, start=1):
        board.locator(f"[data-mark='n{node}']").focus()
        page.keyboard.press(digit)
        board.locator(f"[data-mark='n{node}'][aria-label$='Accelerator {digit}']").wait_for()
