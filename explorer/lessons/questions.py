"""A question of a step: the prediction is asked for before the result is shown, kept, and compared with it."""

from dataclasses import replace

import streamlit as st

from explorer.lessons.desk import Desk
from explorer.lessons.records import Ask, AskNumber, said
from explorer.state import lessons as state
from explorer.state.lessons import Prediction
from explorer.words.wording import plain
from solvers.quantities import number as written


def ask(lesson: str, step: int, question: Ask, desk: Desk) -> None:
    """Draw a question that is still open."""
    with st.form(f"{desk.key}_ask", border=True):
        st.markdown(f"**Predict.** {said(question.prompt, desk) or ''}")
        given: float | int | None
        if isinstance(question, AskNumber):
            unit = f" in {question.unit}" if question.unit else ""
            given = st.number_input(
                f"Your prediction{unit}", value=None, key=f"{desk.key}_number", format="%g", width=220, step=0.5
            )
        else:
            options = list(range(len(question.options)))
            given = st.radio(
                "Your prediction",
                options,
                index=None,
                format_func=question.options.__getitem__,
                key=f"{desk.key}_choice",
            )
        if st.form_submit_button("Reveal", type="primary"):
            state.note_prediction(lesson, step, _prediction(question, given))
            st.rerun()


def _prediction(question: Ask, given: float | int | None) -> Prediction:
    if given is None:
        return Prediction(None)
    if isinstance(question, AskNumber):
        return Prediction(f"{written(float(given))} {question.unit}".strip(), float(given))
    return Prediction(question.options[int(given)], float(given))


def _is_right(question: Ask, given: float, answer: float) -> bool:
    if isinstance(question, AskNumber):
        return abs(given - answer) <= question.tolerance * max(abs(answer), 1e-9) + 1e-9
    return given == answer


def _answer(question: Ask, desk: Desk) -> float | int | None:
    return question.answer(desk) if callable(question.answer) else question.answer


def show_outcome(lesson: str, step: int, question: Ask, desk: Desk) -> None:
    """Draw a question with what was predicted and what is so."""
    prediction = state.progress_of(lesson).predictions[step]
    answer = _answer(question, desk)
    if answer is None:
        return
    if prediction.value is not None and prediction.is_right is None:
        prediction = replace(prediction, is_right=_is_right(question, prediction.value, float(answer)))
        state.note_prediction(lesson, step, prediction)
    if isinstance(question, AskNumber):
        true = f"{written(float(answer))} {question.unit}".strip()
    else:
        true = question.options[int(answer)]
    prompt, right, wrong = (said(told, desk) or "" for told in (question.prompt, question.right, question.wrong))
    st.markdown(f"**Predict.** {prompt}")
    if prediction.said is None:
        st.info(f"The answer is **{plain(true)}**. {right}", icon=":material/visibility:")
    elif prediction.is_right:
        st.success(f"You said **{plain(prediction.said)}**, and that is right. {right}", icon=":material/check:")
    else:
        comment = wrong or right
        st.warning(
            f"You said **{plain(prediction.said)}**; it is **{plain(true)}**. {comment}",
            icon=":material/compare_arrows:",
        )
