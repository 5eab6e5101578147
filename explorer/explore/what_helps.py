"""What would help first: the same question with one thing changed each, solved in the background, as bars."""

from dataclasses import dataclass, replace

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.explore.applying import link_that_asks
from explorer.jobs.batch import Ask, Batch
from explorer.jobs.pool import JobState, Question, Snapshot
from explorer.jobs.server_pool import solver_pool
from explorer.plan.solve_control import feels_live
from explorer.state import session
from explorer.state.address import want
from explorer.state.choice import Choice
from explorer.state.records import Plan
from explorer.words.wording import plain, plain_label, unbroken
from solvers.analysis.what_if import (
    Change,
    Gain,
    carried_over,
    changes,
    enough_memory,
    first_that_helps,
    gain,
    renumbered,
    verdict,
    without_restriction,
)
from solvers.baselines.table import BASELINES
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, SolveResult
from solvers.model.split import Split
from solvers.problem.pins import Pins
from solvers.quantities import binary_size, milliseconds, percent, seconds

POLL_SECONDS = 0.5
NAME = "what would help"
NAME_IF_IMPOSSIBLE = "what would make a plan possible"
BASE = "base"
"""Key of the question as it was asked: gains are over its answer, which a plan made by hand may not reach."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is asked about: a question, its graph, that as it was loaded, the page's inputs, and what plan is known."""

    question: Question
    graph: DnnGraph
    own: DnnGraph
    choice: Choice
    split: Split | None = None
    value_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The changes of one question and the batch that solves them."""

    question: Question
    changes: tuple[Change, ...]
    batch: Batch


@dataclass(frozen=True, slots=True)
class Row:
    """One change as it stands; `gained` is None until its answer is there, `state` says what is known else."""

    change: Change
    gained: Gain | None
    state: str


def show_what_helps(plan: Plan, choice: Choice) -> None:
    """Show the button that asks what would make a plan faster, or the answers as they arrive.

    Once asked, a question that follows the inputs by itself is asked again whenever the inputs change. What helps can
    be applied to the inputs, which are those of `choice`.
    """
    subject = Subject(plan.question, plan.graph, plan.loaded.graph, choice, plan.result.split, plan.result.value_ms)
    _show_inquiry(NAME, subject, "What would help?")


def show_what_makes_possible(choice: Choice) -> None:
    """The same for a question that has no plan."""
    subject = Subject(choice.question, choice.graph, choice.loaded.graph, choice)
    _show_inquiry(NAME_IF_IMPOSSIBLE, subject, "What would make a plan possible?")


def _show_inquiry(name: str, subject: Subject, label: str) -> None:
    inquiry: Inquiry | None = session.batch(name)
    if inquiry is not None and inquiry.question != subject.question:
        inquiry.batch.cancel(spare=feels_live)
        inquiry = _ask(subject) if feels_live(subject.question) else None
        session.remember_batch(name, inquiry)
    if inquiry is None:
        limit = subject.question.time_limit_s
        each = "" if limit is None else f", for {seconds(limit)} at most each"
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.button(label, key=f"ask {name}", on_click=_ask_and_remember, args=(name, subject))
            st.caption(unbroken(f"Solves the problem again with one change at a time{each}."), width="content")
    elif inquiry.batch.is_over:
        _show(inquiry, subject)
    else:
        st.fragment(run_every=POLL_SECONDS)(_poll)(name, subject)


def free_answer(plan: Plan) -> SolveResult | None:
    """Return what is known of free splits for the question of a plan, if that was asked here."""
    inquiry: Inquiry | None = session.batch(NAME)
    if inquiry is None or inquiry.question != plan.question:
        return None
    snapshot = inquiry.batch.answers().get("free")
    return None if snapshot is None else snapshot.result


def _poll(name: str, subject: Subject) -> None:
    inquiry: Inquiry | None = session.batch(name)
    if inquiry is None or inquiry.question != subject.question:
        return
    inquiry.batch.advance()
    if inquiry.batch.is_over:
        st.rerun()
    _show(inquiry, subject)
    if st.button("Cancel", key=f"cancel {name}", on_click=inquiry.batch.cancel):
        st.rerun()


def _ask_and_remember(name: str, subject: Subject) -> None:
    session.remember_batch(name, _ask(subject))


def _changes(subject: Subject) -> tuple[Change, ...]:
    question = subject.question
    asked = (question.deployment, question.objective, question.family, question.method)
    found = changes(subject.graph, *asked)
    free = without_restriction(subject.graph, subject.own, question.deployment, question.family, question.method)
    return found if free is None else (free, *found)


def _ask(subject: Subject) -> Inquiry:
    """Ask what the changes bring; answers that are known already are there at once."""
    question = subject.question
    found = _changes(subject)
    asks = [Ask(BASE, question, subject.graph)]
    for change in found:
        if not change.useless:
            changed = replace(
                question,
                graph_digest=change.graph.digest,
                deployment=change.deployment,
                family=change.family,
                method=change.method,
                pins=pins_on(question.pins, question.deployment, change.deployment),
            )
            asks.append(Ask(change.key, changed, change.graph))
    known = None if question.method in BASELINES else subject.split

    def start_of(ask: Ask, _answers: object) -> Split | None:
        return None if known is None else carried_over(known, question.deployment, ask.question.deployment)

    batch = Batch(solver_pool(), session.session_id(), asks, start_of=start_of)
    batch.advance()
    return Inquiry(question, found, batch)


def pins_on(pins: Pins, before: Deployment, after: Deployment) -> Pins:
    """Return the pins by the device numbers of a deployment with more devices."""
    return replace(pins, devices=tuple((v, renumbered(d, before, after)) for v, d in pins.devices))


def _show(inquiry: Inquiry, subject: Subject) -> None:
    base = inquiry.batch.snapshots().get(BASE)
    if base is None or base.result is None:
        _show_failure(base) if base is not None and base.state.is_over else st.caption("Solving the question as it is.")
        return
    rows = sorted_rows(inquiry, base.result)
    before_ms, shown_ms = base.result.value_ms, subject.value_ms
    st.markdown(_summary(inquiry, rows))
    if before_ms is None:
        header = [Cell("One change"), Cell("Value", "number"), Cell("What it does")]
        st.html(html_table("What would make a plan possible", header, [_possible_cells(row) for row in rows], 45))
        _offer(inquiry, rows, subject)
        return
    most = max((row.gained.saved_share or 0.0 for row in rows if row.gained is not None), default=0.0)
    header = [Cell("One change"), Cell("Less time"), Cell("", "number"), Cell("Value", "number"), Cell("Proof")]
    st.html(html_table("What would help, by gain", header, [_cells(row, most) for row in rows]))
    compared = f"Compared with {milliseconds(before_ms)}, the best plan found for these devices."
    if shown_ms is not None and shown_ms > before_ms * (1 + PROOF_TOLERANCE):
        compared += f" The plan shown takes {milliseconds(shown_ms)}."
    if inquiry.batch.is_cancelled:
        compared += " Cancelled: what is not there was not solved."
    st.caption(plain(compared))
    _offer(inquiry, rows, subject)


def _offer(inquiry: Inquiry, rows: list[Row], subject: Subject) -> None:
    """Draw a button for each change that helps and that the inputs can ask for, once all is known."""
    # Until then the rows are a fragment, whose buttons do not have the page run; or else the inputs have gone on.
    if not inquiry.batch.is_over or subject.question != subject.choice.question:
        return
    helping = [row.change for row in rows if row.gained is not None and row.gained.helps]
    links = [(change, link) for change in helping if (link := link_that_asks(subject.choice, change)) is not None]
    if not links:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("Apply:", width="content")
        for change, link in links:
            st.button(
                plain_label(change.label),
                key=f"apply {change.key}",
                on_click=want,
                args=(link,),
                help="Sets the inputs at the side to this.",
            )


def _show_failure(snapshot: Snapshot) -> None:
    st.caption(plain(snapshot.error or "Cancelled before there was a plan to compare with."))


def sorted_rows(inquiry: Inquiry, base: SolveResult) -> list[Row]:
    """Return all changes, the largest gain first, then what cannot help, then what is not known yet."""
    snapshots = inquiry.batch.snapshots()
    rows = [_row(change, snapshots.get(change.key), base, inquiry.batch.is_cancelled) for change in inquiry.changes]

    def rank(row: Row) -> tuple[int, float]:
        if row.gained is None:
            return 2, 0.0
        return (0, row.gained.value_ms or 0.0) if row.gained.helps else (1, 0.0)

    return sorted(rows, key=rank)


def _row(change: Change, snapshot: Snapshot | None, base: SolveResult, is_cancelled: bool) -> Row:
    if change.useless:
        return Row(change, Gain(base.value_ms, 0.0, 0.0), f"cannot help: {change.useless}")
    if snapshot is None:
        return Row(change, None, "not solved" if is_cancelled else "waiting")
    if snapshot.state is JobState.FAILED:
        return Row(change, None, snapshot.error)
    if snapshot.state is JobState.QUEUED:
        return Row(change, None, "waiting for a free solver")
    if snapshot.result is None:
        return Row(change, None, f"solving, {seconds(snapshot.seconds)}")
    gained = gain(base, snapshot.result)
    state = verdict(change, gained)
    if snapshot.state in (JobState.CANCELLED, JobState.STOPPED) and not gained.is_exact:
        state = f"{snapshot.state}; {state}"
    if change.key == "no limit" and gained.helps:
        enough = enough_memory(change.graph, change.deployment, snapshot.result)
        state += "" if enough is None else f"; {binary_size(enough)} is enough"
    return Row(change, gained, state)


def _possible_cells(row: Row) -> list[Cell]:
    is_plan = row.gained is not None and row.gained.helps
    value = "" if row.gained is None else milliseconds(row.gained.value_ms)
    return [
        Cell(row.change.label, "" if is_plan else "quiet"),
        Cell(value if is_plan else "", "number"),
        Cell(row.state, "quiet"),
    ]


def _cells(row: Row, most: float) -> list[Cell]:
    gained = row.gained
    if gained is None or not gained.helps:
        return [Cell(row.change.label, "quiet"), Cell(row.state, "quiet", span=4)]
    saved = gained.saved_share
    return [
        Cell(row.change.label),
        Cell(bar=saved / most) if saved and most else Cell(),
        Cell(percent(saved), "number strong"),
        Cell(milliseconds(gained.value_ms), "number"),
        Cell(row.state, "quiet"),
    ]


def _summary(inquiry: Inquiry, rows: list[Row]) -> str:
    """Say in one or two sentences what helps first, or that nothing does."""
    is_over = inquiry.batch.is_over
    known = [row for row in rows if row.gained is not None]
    helping = [row for row in known if row.gained is not None and row.gained.helps]
    if not helping:
        if not is_over or len(known) < len(rows):
            return "No gain found so far." if known else "Solving the first questions."
        proven = all(row.gained is not None and row.gained.cannot_help for row in known)
        return "Nothing of this helps" + (", which is proven." if proven else ", as far as was found.")
    first = helping[0]
    assert first.gained is not None
    if first.gained.is_possible_now:
        return f"{plain(first.change.label)} makes a plan possible."
    others = [row.gained for row in rows if row is not first]
    return plain(first_that_helps(first.change.label, first.gained, others, is_over=is_over))
