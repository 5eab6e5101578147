"""What a wanted throughput needs: fewest accelerators, least memory, slowest links, found in the background.

Whoever polls the page drives the searches of `solvers.sweep.need`: each has one question at a time with a solver, which
is ended once it is decided whether a plan is fast enough.
"""

from dataclasses import dataclass, field, replace

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.explore.applying import link_with, link_with_kind
from explorer.jobs.pool import Job, JobState, Question
from explorer.jobs.server_pool import solver_pool
from explorer.plan.solve_control import feels_live
from explorer.state import session, widgets
from explorer.state.address import want
from explorer.state.choice import Choice
from explorer.state.query import Link
from explorer.state.records import Plan
from explorer.words.wording import plain, plain_label, unbroken
from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective
from solvers.model.errors import PlacementError
from solvers.model.micro_batch import sample_unit
from solvers.model.result import SolveCancelled, SolveResult
from solvers.quantities import milliseconds, seconds
from solvers.sweep.axes import PARAMETERS, Quantity, Varied
from solvers.sweep.need import Need, Search, Try, is_decided, quantities_needed, search
from solvers.sweep.need_text import least_text, name, proof_text, refuted_text, stated, wanted_ms, wish_text

POLL_SECONDS = 0.5
NAME = "what is needed"
BOX = "wanted throughput"
LIMIT_S = 10.0
"""Seconds for each solve: about ten are needed for a quantity."""
AT_ONCE = 2
"""Searches with a question at work; a pool takes four or more."""
MOST_WANTED = 1e12


@dataclass(eq=False)
class Quest:
    """The search for one quantity: the value being tried and its job, or what came out."""

    varied: Varied
    steps: Search
    step: Try | None = None
    job: Job | None = None
    need: Need | None = None
    trouble: str = ""


@dataclass(eq=False)
class Inquiry:
    """What is wanted of the plans of a question, and the searches for the hardware that this needs."""

    question: Question
    limit_ms: float
    quests: list[Quest] = field(default_factory=list)
    is_cancelled: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return all(quest.need is not None or quest.trouble for quest in self.quests)


def show_needs(plan: Plan, choice: Choice) -> None:
    """Show the box that takes a wanted throughput, or time for latency, and what it needs once that was asked."""
    question = plan.question
    if question.pins or question.method in BASELINES or question != choice.question:
        return
    is_rate = question.objective is not Objective.LATENCY
    unit = f"{sample_unit(plan.graph.micro_batch)}/s" if is_rate else "ms"
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.number_input(
            f"At least ({unit})" if is_rate else f"At most ({unit})",
            0.0,
            MOST_WANTED,
            None,
            format="%.6g",
            key=BOX,
            persist_state="session",
            placeholder="wanted",
            width=200,
        )
        wanted = widgets.value(BOX)
        st.button(
            "Find the least hardware",
            key=f"ask {NAME}",
            disabled=not wanted,
            on_click=_ask,
            args=(plan, choice, is_rate),
        )
    inquiry: Inquiry | None = session.batch(NAME)
    if inquiry is not None and (inquiry.question != question or inquiry.limit_ms != _limit_ms(plan, is_rate)):
        _cancel(inquiry)
        session.remember_batch(NAME, None)
        inquiry = None
    if inquiry is None:
        st.caption(
            unbroken(
                "The fewest accelerators, the least memory and the slowest links, each with all else as it is: solved "
                f"again and again, for {seconds(_time_limit_s(question))} at most each."
            )
        )
    elif inquiry.is_over:
        _show(inquiry, plan, choice, is_rate)
    else:
        st.fragment(run_every=POLL_SECONDS)(_poll)(plan, choice, is_rate)


def _time_limit_s(question: Question) -> float:
    return LIMIT_S if question.time_limit_s is None else min(LIMIT_S, question.time_limit_s)


def _limit_ms(plan: Plan, is_rate: bool) -> float | None:
    """Return the longest time that is wanted; None for none."""
    wanted = widgets.value(BOX)
    if not wanted:
        return None
    return wanted_ms(wanted, plan.graph.micro_batch) if is_rate else float(wanted)


def _ask(plan: Plan, choice: Choice, is_rate: bool) -> None:
    limit_ms = _limit_ms(plan, is_rate)
    if limit_ms is None:
        return
    inquiry = Inquiry(plan.question, limit_ms)
    has_speeds = plan.graph.bandwidth_bytes_per_ms is not None
    for varied in quantities_needed(plan.question.deployment, has_speeds=has_speeds):
        inquiry.quests.append(Quest(varied, search(choice.asked, varied, limit_ms, plan.result)))
    session.remember_batch(NAME, inquiry)
    _advance(inquiry)


def _poll(plan: Plan, choice: Choice, is_rate: bool) -> None:
    inquiry: Inquiry | None = session.batch(NAME)
    if inquiry is None:
        return
    _advance(inquiry)
    if inquiry.is_over:
        st.rerun()
    _show(inquiry, plan, choice, is_rate)
    if st.button("Cancel", key=f"cancel {NAME}", on_click=_cancel, args=(inquiry,)):
        st.rerun()


def _cancel(inquiry: Inquiry) -> None:
    """End what runs; each search says what it knows by then."""
    for quest in inquiry.quests:
        if quest.job is not None and not feels_live(quest.job.question):
            quest.job.cancel()
        if quest.need is None and not quest.trouble:
            _go_on(quest, None)


def _advance(inquiry: Inquiry) -> None:
    """Take in what has ended, and begin what can begin now."""
    at_work = 0
    for quest in inquiry.quests:
        while quest.need is None and not quest.trouble and at_work < AT_ONCE:
            if quest.step is None:
                _begin(quest)
            elif quest.job is None:
                quest.job = _start(inquiry, quest.step)
            elif (result := _answer(quest.job, inquiry.limit_ms)) is not None:
                quest.job = None
                _go_on(quest, result)
            elif quest.job.snapshot().state is JobState.FAILED:
                quest.trouble = quest.job.snapshot().error
            else:
                at_work += 1
                break


def _start(inquiry: Inquiry, step: Try) -> Job:
    asked = step.asked
    question = replace(
        inquiry.question,
        graph_digest=asked.graph.digest,
        deployment=asked.deployment,
        time_limit_s=_time_limit_s(inquiry.question),
        gap=0.0,
    )
    start = solver_pool().start
    return start(session.session_id(), question, asked.graph, step.start, lower_bound_ms=step.lower_bound_ms)


def _answer(job: Job, limit_ms: float) -> SolveResult | None:
    """Return the answer of a job that has ended; one that is decided is ended first."""
    snapshot = job.snapshot()
    if not snapshot.state.is_over and is_decided(snapshot.incumbent_ms, snapshot.lower_bound_ms, limit_ms):
        snapshot = job.cancel()
    return snapshot.result if snapshot.state.is_over else None


def _begin(quest: Quest) -> None:
    try:
        quest.step = next(quest.steps)
    except StopIteration as end:
        quest.need = end.value
    except PlacementError as error:
        quest.trouble = str(error)


def _go_on(quest: Quest, result: SolveResult | None) -> None:
    """Give a search an answer; or end it without one, with what is known."""
    try:
        quest.step = quest.steps.throw(SolveCancelled) if result is None else quest.steps.send(result)
    except StopIteration as end:
        quest.need = end.value
    except (SolveCancelled, PlacementError) as error:  # the first where it had not begun
        quest.trouble = str(error) or "cancelled before it began"


def _show(inquiry: Inquiry, plan: Plan, choice: Choice, is_rate: bool) -> None:
    st.markdown(plain(f"{wish_text(inquiry.limit_ms, plan.graph.micro_batch, is_rate=is_rate)}:"))
    header = [Cell("One of these"), *(Cell(text, "number") for text in ("Is enough", "Is not enough", "Value"))]
    rows = [_cells(quest) for quest in inquiry.quests]
    st.html(html_table("What the wanted throughput needs", [*header, Cell("What is proven")], rows, 38))
    if inquiry.is_over:
        _offer(inquiry, choice)


def _cells(quest: Quest) -> list[Cell]:
    what, need = Cell(name(quest.varied)), quest.need
    if need is None:
        at = f"trying {quest.varied.text(stated(quest.varied, quest.step.value, up=True))}" if quest.step else "waiting"
        return [what, Cell(quest.trouble or at, "quiet", span=4)]
    if need.reason:
        return [what, Cell(need.reason, "quiet", span=4)]
    value_ms = None if need.result is None else need.result.value_ms
    return [
        what,
        Cell(least_text(need), "number strong"),
        Cell(refuted_text(need), "number"),
        Cell(milliseconds(value_ms), "number"),
        Cell(proof_text(need), "quiet"),
    ]


def _offer(inquiry: Inquiry, choice: Choice) -> None:
    """Draw a button for each amount that the inputs can be set to."""
    links = [(need, link) for quest in inquiry.quests if (need := quest.need) and (link := _link(choice, need))]
    if not links:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("Apply:", width="content")
        for need, link in links:
            st.button(
                plain_label(f"{name(need.varied)}: {least_text(need)}"),
                key=f"apply {NAME} {need.varied}",
                on_click=want,
                args=(link,),
                help="Sets the input at the side to this.",
            )


def _link(choice: Choice, need: Need) -> Link | None:
    """Return the page's link with just enough of a quantity; None where no input takes that, or it is there already."""
    varied = need.varied
    if need.least is None or need.is_any:
        return None
    enough = stated(varied, need.least, up=True)
    if varied.of_class:
        return link_with_kind(choice, varied, enough)
    value = varied.quantity.shown(enough)
    is_multiple = varied.quantity is Quantity.BANDWIDTH_FACTOR
    return link_with(choice, PARAMETERS[varied.quantity], value, is_multiple=is_multiple)
