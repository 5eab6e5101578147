"""Learn: the list of lessons, and one step of a lesson at a time."""

from collections.abc import Sequence

import streamlit as st

from explorer.elements.headline import theme
from explorer.lessons.answers import show_waiting, solved
from explorer.lessons.board import submitted
from explorer.lessons.catalogue import COURSE, OWN, lesson_named
from explorer.lessons.desk import Desk, link_of_setting
from explorer.lessons.questions import ask, show_outcome
from explorer.lessons.reader import MAX_FILE_BYTES, LessonError, read_lesson
from explorer.lessons.records import Lesson, Step, said
from explorer.lessons.sheet import sheet_html
from explorer.state import lessons as state
from explorer.state import session
from explorer.words.wording import plain
from solvers.model.errors import PlacementError

WORDS_AND_FIGURES = (4, 7)
"""Shares of the width that words and figures have where they stand side by side."""
STYLE = """<style>
:is(.st-key-lesson_text, .st-key-lesson_more) :is(p, li) { font-size: 1.05rem; line-height: 1.55; }
:is(.st-key-lesson_text, .st-key-lesson_more) { max-width: 46rem; }
.st-key-lesson_nav { padding-top: 0.35rem; }
.st-key-lesson_nav button p { white-space: nowrap; }
.lesson-place { display: flex; flex-wrap: wrap; gap: 0.2rem; padding: 0.35rem 0; margin: 0; list-style: none; }
.lesson-place li { margin: 0; width: 1.15rem; height: 0.45rem; border-radius: 3px; overflow: hidden; text-indent: 2rem;
  white-space: nowrap; background: color-mix(in srgb, currentColor 22%, transparent); }
.lesson-place li.seen { background: color-mix(in srgb, currentColor 60%, transparent); }
.lesson-place li.here { background: #D55E00; }
[data-testid="stButtonGroup"] [role="radiogroup"] { flex-wrap: wrap; }
@media (max-width: 640px) { [data-testid="stButtonGroup"] [role="radio"] { padding-inline: 0.6rem; } }
/* Both boards, what they are worth and who has won are seen at once. */
.st-key-duel .stVerticalBlock { gap: 0.5rem; }
.st-key-duel [data-testid="stAlertContainer"] { padding: 0.4rem 0.8rem; }
</style>"""


PRESENTED = """<style>
/* As large as the pictures of `canvas/app/presentation.js` on the same screen. */
html { font-size: clamp(16px, min(1.29vw, 2.22vh), 41.6px) !important; }
.stAppHeader, [data-testid="stSidebar"] { display: none; }
.stMainBlockContainer { padding: 0.8rem 2.5rem 1rem; }
.st-key-lesson_text, .st-key-lesson_more, .st-key-lesson_reveal { max-width: 66rem; }
:is(.st-key-lesson_text, .st-key-lesson_more, .st-key-lesson_ask, .st-key-lesson_reveal) :is(p, li) {
  font-size: 1.15rem; line-height: 1.4; }
.stColumn :is(.st-key-lesson_text, .st-key-lesson_ask, .st-key-lesson_reveal) :is(p, li) {
  font-size: 1.02rem; line-height: 1.38; }
/* What is above a figure, and the line below it: read by `figure.js`. */
:root { --lesson-above: 9.5rem; }
/* As little between the parts as reads well: a picture below the edge of a projector's screen is not seen. */
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] { gap: 0.5rem; }
[data-testid="stAlertContainer"] { padding: 0.4rem 0.8rem; }
.st-key-lesson_nav button { min-height: 2rem; padding-block: 0; }
[data-testid="stHeading"] h3 { padding-block: 0; }
/* Where they do not stand beside each other: a question is answered while one looks at the figure above it. */
@media (max-width: 640px) {
  .stMainBlockContainer { padding: 0.8rem 1rem 1rem; }
  .st-key-lesson_beside .stHorizontalBlock:has(> .stColumn .st-key-lesson_text) { flex-direction: column; }
  .stColumn:has(.st-key-lesson_text, .st-key-lesson_drawn, .st-key-lesson_after) { display: contents; }
  .stColumn > .stVerticalBlock:has(.st-key-lesson_text, .st-key-lesson_drawn, .st-key-lesson_after) {
    display: contents; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-lesson_drawn) { order: 1; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-lesson_ask) { order: 2; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-lesson_reveal) { order: 3; }
  [data-testid="stLayoutWrapper"]:has(> .st-key-lesson_after) { order: 4; }
}
</style>"""


def show() -> None:
    """Draw the page."""
    problems = state.read_address()
    st.html(STYLE)
    if problems:
        st.warning(plain(f"Ignored from the link: {'; '.join(problems)}."), icon=":material/link_off:")
    own = _own_lesson()
    known = state.learning()
    lesson = None
    if not known.lesson:
        _show_list(own)
    elif (lesson := lesson_named(known.lesson, own)) is None:
        st.warning(
            plain(f"There is no lesson {known.lesson} here; one of your own has to be uploaded again.")
            if known.lesson == OWN
            else plain(f"There is no lesson {known.lesson}. These are the ones there are.")
        )
        _show_list(own)
    else:
        _show_step(lesson, min(max(1, known.step), lesson.num_steps))
    state.write_address(submitted() if lesson is not None and lesson.has_results else ())
    if session.wants_explore():
        st.rerun()


def _own_lesson() -> Lesson | None:
    text = state.learning().own
    return None if text is None else read_lesson(text, OWN)


def _show_list(own: Lesson | None) -> None:
    st.markdown("### Learn")
    st.markdown(
        "Each lesson answers one question, with the solvers of this app at work in it. Before a result is shown you "
        "say what you expect; that is how one learns most. Lessons build on those before them."
    )
    lessons = [*COURSE, *([] if own is None else [own])]
    for number, lesson in enumerate(lessons, start=1):
        done = state.progress_of(lesson.name)
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"lesson_{lesson.name}"):
            text = plain if lesson.name == OWN else str
            st.markdown(
                f"**{number}. {text(lesson.title)}** :gray[{lesson.minutes}\u00a0min · {_standing(lesson, done)}]  \n"
                f"{text(lesson.question)}",
                width="stretch",
            )
            is_begun = bool(done.seen) and len(done.seen) < lesson.num_steps
            st.button(
                "Go on" if is_begun else "Begin" if not done.seen else "Look again",
                key=f"begin_{lesson.name}",
                help=None,
                on_click=_begin,
                args=(lesson.name, max(done.seen) if is_begun else 1),
                icon=":material/play_arrow:",
            )
    _show_upload()


def _standing(lesson: Lesson, done: state.Progress) -> str:
    if not done.seen:
        return f"{lesson.num_steps}\u00a0steps"  # a line does not end between them
    judged = [p.is_right for p in done.predictions.values() if p.is_right is not None]
    right = f" · {sum(judged)} of {len(judged)} predictions right" if judged else ""
    seen = "done" if len(done.seen) >= lesson.num_steps else f"{len(done.seen)} of {lesson.num_steps} steps seen"
    return seen + right


def _begin(name: str, step: int) -> None:
    state.go_to(name, step)


def _show_upload() -> None:
    with st.expander("A lesson of your own"):
        st.markdown(
            "A lesson is a JSON file: texts, a graph, hardware, and steps with questions. It is read, never run. "
            "`docs/tutorials/a-class.md` describes the format; two lessons above are written in it."
        )
        upload = st.file_uploader(
            "Lesson as JSON", type="json", max_upload_size=MAX_FILE_BYTES // 2**20, key="lesson_upload"
        )
        if upload is None:
            return
        text = upload.getvalue()
        if text == state.learning().own:
            return
        try:
            read_lesson(text, OWN)
        except LessonError as error:
            st.error(plain(f"{upload.name} was not read. {error}"), icon=":material/error:")
            return
        state.remember_own(text)
        state.go_to(OWN)
        st.rerun()


def _show_step(lesson: Lesson, number: int) -> None:
    state.note_seen(lesson.name, number)
    prediction = state.progress_of(lesson.name).predictions.get(number)
    desk = Desk(
        solved,
        theme(),
        lesson.own,
        f"{lesson.name}_{number}",
        is_revealed=prediction is not None,
        is_presented=state.learning().is_presented,
    )
    if desk.is_presented:
        st.html(PRESENTED)
    is_closing = number == lesson.num_steps
    title = "The sentence to take along" if is_closing else lesson.steps[number - 1].title
    _navigation(lesson, number, title)
    try:
        if is_closing:
            _show_closing(lesson, number, desk)
        else:
            _show_parts(lesson, lesson.steps[number - 1], number, desk)
    except PlacementError as error:
        st.error(plain(str(error)), icon=":material/error:")
    if desk.is_waiting:
        show_waiting()
    if lesson.notes and not desk.is_presented:
        with st.expander("Notes for the lecturer"):
            st.markdown(lesson.notes)


def _navigation(lesson: Lesson, number: int, title: str) -> None:
    text = plain if lesson.name == OWN else str
    st.markdown(f"### {text(lesson.title)} :small[:gray[{text(title)}]]")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="lesson_nav"):
        st.button("All lessons", key="lesson_list", on_click=_begin, args=("", 1), type="tertiary", shortcut="O")
        st.button(
            "Back",
            key="lesson_back",
            on_click=_begin,
            args=(lesson.name, number - 1),
            disabled=number == 1,
            shortcut="B",
        )
        st.button(
            "Next",
            key="lesson_next",
            on_click=_begin,
            args=(lesson.name, number + 1),
            disabled=number == lesson.num_steps,
            type="primary",
            shortcut="N",
        )
        is_presented = state.learning().is_presented
        st.button(
            "End presentation" if is_presented else "Present",
            key="lesson_present",
            on_click=state.present,
            args=(not is_presented,),
            type="tertiary",
            shortcut="P",
            help="Larger, and without the lecturer's notes" if not is_presented else None,
        )
        seen = state.progress_of(lesson.name).seen
        look = {i: "here" if i == number else "seen" if i in seen else "" for i in range(1, lesson.num_steps + 1)}
        places = "".join(f'<li class="{name}">{i}</li>' for i, name in look.items())
        st.html(f'<ol class="lesson-place" aria-label="Step {number} of {lesson.num_steps}">{places}</ol>')


def _show_parts(lesson: Lesson, step: Step, number: int, desk: Desk) -> None:
    is_open = step.ask is None or desk.is_revealed
    has_figure = step.draw is not None or step.after is not None
    words = figures = st.container()
    if desk.is_presented and has_figure and not step.is_wide:
        # Beside each other, so that a room sees question, figure and answer at once.
        words, figures = st.container(key="lesson_beside").columns(WORDS_AND_FIGURES, gap="medium")
    with words.container(key="lesson_text"):
        st.markdown(said(step.text, desk) or "")
    if step.draw is not None:
        with figures.container(key="lesson_drawn"):
            step.draw(desk)
    if step.ask is not None:
        with words.container(key="lesson_ask"):
            if desk.is_revealed:
                show_outcome(lesson.name, number, step.ask, desk)
            else:
                ask(lesson.name, number, step.ask, desk)
    if is_open:
        if told := said(step.reveal, desk):
            with words.container(key="lesson_reveal"):
                st.markdown(told)
        if step.after is not None:
            with figures.container(key="lesson_after"):
                step.after(desk)


def _show_closing(lesson: Lesson, number: int, desk: Desk) -> None:
    text = plain if lesson.name == OWN else str
    with st.container(key="lesson_text"):
        st.markdown(f"**{text(lesson.closing.question)}**")
    if not desk.is_revealed:
        with st.form(f"{desk.key}_closing", border=False):
            sentence = st.text_area("In your own words, in one sentence", key=f"{desk.key}_sentence", max_chars=600)
            if st.form_submit_button("Compare", type="primary"):
                state.note_prediction(lesson.name, number, state.Prediction(sentence.strip() or None))
                st.rerun()
    else:
        prediction = state.progress_of(lesson.name).predictions[number]
        if prediction.said:
            st.markdown(f"You wrote: *{plain(prediction.said)}*")
        st.success(f"One way to say it: {text(lesson.closing.answer)}", icon=":material/check:")
    names = [one.name for one in COURSE]
    with st.container(horizontal=True):
        if lesson.setting or desk.own is not None:
            st.button("Open in Explore", key="lesson_explore", on_click=_open_in_explore, args=(lesson, desk))
        st.download_button(
            "Exercise sheet",
            lambda: sheet_html(lesson, Desk(desk.solver, "light", desk.own, "sheet", True, False)).encode(),
            f"{lesson.name}.html",
            "text/html",
            key="lesson_sheet",
            on_click="ignore",
            help="A page to print: exercises, and the answers on a page of their own.",
        )
        st.button("Begin this lesson again", key="lesson_again", on_click=_again, args=(lesson.name,), type="tertiary")
        if lesson.name in names[:-1]:
            after = COURSE[names.index(lesson.name) + 1]
            st.button(
                f"Next lesson: {after.title}", key="lesson_after", on_click=_begin, args=(after.name, 1), type="primary"
            )
    _predictions(lesson)


def _predictions(lesson: Lesson) -> None:
    """Say how the predictions went."""
    made = state.progress_of(lesson.name).predictions
    rows: Sequence[str] = [
        f"- {plain(lesson.steps[i - 1].title)} – you said {plain(p.said or 'nothing')}"
        f"{'' if p.is_right is None else ', which was right' if p.is_right else ', which was not right'}"
        for i, p in sorted(made.items())
        if i <= len(lesson.steps)
    ]
    if rows:
        st.markdown("**Your predictions**\n\n" + "\n".join(rows))


def _again(name: str) -> None:
    state.forget_progress(name)
    state.go_to(name)


def _open_in_explore(lesson: Lesson, desk: Desk) -> None:
    if desk.own is not None:
        session.remember_upload(desk.own)
    session.go_to_explore(link_of_setting(lesson.setting, desk.own))
