"""All methods on one graph, run beside the page one after the other, with the gains that the paper reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.jobs.batch import Ask, Batch
from explorer.jobs.pool import JobState, Question, Snapshot
from explorer.jobs.server_pool import solver_pool
from explorer.server.limits import longest_limit_s
from explorer.state import session
from explorer.state.entries import by_entry
from explorer.state.kept_plans import MAX_KEPT, is_same, keep, letter
from explorer.state.records import Plan
from explorer.words.wording import PROVEN, method_title, plain
from solvers.analysis import comparison
from solvers.analysis.comparison import Outcome, best_value_ms, gain, outcome_of
from solvers.analysis.shortfall import shortfall
from solvers.baselines.table import BASELINES
from solvers.model.costs import Objective
from solvers.model.result import SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.pins import NO_PINS
from solvers.quantities import UNKNOWN, factor, milliseconds, number, proven_distance
from solvers.reproduction.text import PAPER_MEAN_AND_MAX

NAME = "all methods"
POLL_SECONDS = 0.5
LIMIT_S = 10
BUTTON_WIDTH = 150
"""Pixels, for every text of the button."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked of all methods: the plan whose graph and devices they are run on, and the batch."""

    plan: Plan
    questions: tuple[comparison.Contender, ...]
    batch: Batch


def show_methods(plan: Plan) -> None:
    """Show the table of all methods on the graph and devices of a plan, or the button that runs them."""
    run: Run | None = session.batch(NAME)
    if run is not None and _subject(run.plan) != _subject(plan):
        run.batch.cancel()
        run = None
        session.remember_batch(NAME, None)
    if run is not None and not run.batch.is_over:
        st.fragment(run_every=POLL_SECONDS)(_poll)()
        return
    _show_head(plan, run)
    if run is not None:
        _show_table(run)


def _subject(plan: Plan) -> tuple[object, ...]:
    return plan.graph.digest, plan.question.deployment, plan.question.objective


def _show_head(plan: Plan, run: Run | None) -> None:
    """Show the limit, the button and a line of text, which stand where they are while methods run and after."""
    is_running = run is not None and not run.batch.is_over
    with st.container(horizontal=True, vertical_alignment="bottom"):
        limit_s = st.number_input(
            "Limit of each (s)",
            1,
            longest_limit_s(),
            min(LIMIT_S, longest_limit_s()),
            key="methods_limit",
            persist_state="session",
            width=140,
            disabled=is_running,
        )
        if run is not None and is_running:
            if st.button("Cancel", key="cancel_methods", on_click=run.batch.cancel, width=BUTTON_WIDTH):
                st.rerun()
            st.progress(len(run.batch.answers()) / len(run.questions))
        else:
            label = "Run all methods" if run is None else "Run them again"
            asked = (plan, float(limit_s))
            st.button(label, key="run_methods", on_click=_start, args=asked, width=BUTTON_WIDTH)
    st.caption(plain(_state_text(plan, run)))


def _state_text(plan: Plan, run: Run | None) -> str:
    if run is None:
        return f"{len(_questions(plan))} methods, the exact ones first, each from the best plan before it."
    done = f"{len(run.batch.answers())} of {len(run.questions)} done"
    if run.batch.is_over:
        return f"{done}. Cancelled: methods that are missing did not run." if run.batch.is_cancelled else f"{done}."
    snapshots = run.batch.snapshots()
    running = [question for question in run.questions if _key(question) in snapshots][-1]
    return f"{done} · {_name(running)}"


def _questions(plan: Plan) -> tuple[comparison.Contender, ...]:
    """Return what applies: baselines know only the paper's model, and some families exclude some of its variants."""
    deployment = plan.question.deployment
    is_variant = deployment.training_memory is not None or deployment.replication is not None
    families = (Family.CHAIN,) if is_variant else tuple(Family)
    return comparison.questions(plan.question.objective, families, with_expert=False)


def _start(plan: Plan, limit_s: float) -> None:
    questions = _questions(plan)
    asked = replace(plan.question, graph_digest=plan.graph.digest, time_limit_s=limit_s, gap=0.0, pins=NO_PINS)
    asks = [
        Ask(_key(question), replace(asked, method=question.method, family=question.family), plan.graph)
        for question in questions
    ]
    batch = Batch(solver_pool(), session.session_id(), asks, start_of=_best_before, at_once=1)
    batch.advance()
    session.remember_batch(NAME, Run(plan, questions, batch))


def _name(question: comparison.Contender) -> str:
    """Return what the page calls a method; the best of a split type, by whichever exact method, is called so.

    >>> _name(comparison.Contender("auto", Family.CHAIN)), _name(comparison.Contender("single", Family.FREE))
    ('Best pipeline', 'One accelerator')
    """
    return question.label.capitalize() if question.is_exact else method_title(question.method)


def _key(question: comparison.Contender) -> str:
    return f"{question.method} {question.family}"


def _best_before(ask: Ask, answers: Mapping[str, Snapshot]) -> Split | None:
    """Return the best plan so far for an exact method; the baselines take none."""
    if ask.question.method in BASELINES:
        return None
    return _best_split_of(answers)


def _poll() -> None:
    run: Run | None = session.batch(NAME)
    if run is None:
        return
    run.batch.advance()
    if run.batch.is_over:
        st.rerun()
    _show_head(run.plan, run)
    _show_table(run)


WRITTEN: dict[str, Callable[[float], str]] = {
    "Value (ms)": number,
    "Bound (ms)": number,
    "Best is": factor,
    "Largest (GiB)": number,
    "Time (s)": partial(number, digits=3),
}
"""How the columns of numbers are written."""


def outcomes(run: Run) -> list[tuple[comparison.Contender, Outcome]]:
    """Return what the methods answered so far, in their order; the bound of the exact ones holds for all."""
    answers = run.batch.answers()
    found: list[tuple[comparison.Contender, Outcome]] = []
    for question in run.questions:
        snapshot = answers.get(_key(question))
        if snapshot is None:
            continue
        if snapshot.result is None:
            is_failed = snapshot.state is JobState.FAILED
            message = snapshot.error if is_failed else "Cancelled before there was a plan."
            outcome = Outcome(question.method, question.family, None, None, None, 0.0, None, (), message)
        else:
            outcome = outcome_of(run.plan.graph, run.plan.question.deployment, question, snapshot.result)
        found.append((question, outcome))
    return comparison.with_proven_bound(found)


def table_rows(run: Run) -> list[dict[str, Any]]:
    """Return the rows of the table: times in ms and s, memory in GiB, the gain of the best plan as a factor."""
    answered = outcomes(run)
    best_ms = best_value_ms(answered)
    rows: list[dict[str, Any]] = []
    for question, outcome in answered:
        paper = PAPER_MEAN_AND_MAX.get(question.method) if run.plan.question.objective is Objective.THROUGHPUT else None
        memory = outcome.largest_memory_bytes
        why = outcome.violations[0] if outcome.violations else outcome.message if outcome.value_ms is None else ""
        rows.append(
            {
                "Method": _name(question),
                "Splits": outcome.family.named if outcome.value_ms is not None else "",
                "Value (ms)": outcome.value_ms,
                "Bound (ms)": None if outcome.violations else outcome.lower_bound_ms,
                "Proof": _proof(outcome),
                "Best is": gain(outcome, best_ms),
                "In the paper": "" if paper is None else f"{factor(paper[0])} ({factor(paper[1])})",
                "Largest (GiB)": None if memory is None else memory / 2**30,
                "Time (s)": outcome.runtime_s,
                "Note": f"violates a constraint: {why}" if outcome.violations else why,
            }
        )
    return rows


def _proof(outcome: Outcome) -> str:
    if outcome.violations or outcome.gap is None:
        return ""
    return (
        PROVEN if outcome.status is SolveStatus.OPTIMAL else proven_distance(outcome.value_ms, outcome.lower_bound_ms)
    )


def _show_chart(run: Run) -> None:
    """Draw the time of each method as a bar, the fastest first, with what is proven, or why it falls short."""
    answered = [(question, outcome) for question, outcome in outcomes(run) if outcome.value_ms is not None]
    most = max((outcome.value_ms or 0.0 for _, outcome in answered), default=0.0)
    rows = [
        [
            Cell(_name(question), "" if outcome.is_valid else "quiet"),
            Cell(bar=(outcome.value_ms or 0.0) / most if most else 0.0),
            Cell(milliseconds(outcome.value_ms), "number strong"),
            Cell(_proof(outcome) if question.is_exact else "; ".join(_why(run, question, outcome)), "quiet"),
        ]
        for question, outcome in sorted(answered, key=lambda answer: answer[1].value_ms or 0.0)
    ]
    if rows:
        header = [Cell("Method"), Cell("Value"), Cell("", "number"), Cell("What is proven, or why it takes longer")]
        st.html(html_table("Value of each method, the fastest first", header, rows))


def _why(run: Run, question: comparison.Contender, outcome: Outcome) -> tuple[str, ...]:
    """Return why a method's plan is not as fast as the best; for a plan that is not valid, what it violates."""
    if outcome.violations:
        return ("violates a constraint",)
    split, best = _split(run, question), _best_split(run)
    if split is None or best is None or run.plan.question.objective is not Objective.THROUGHPUT:
        return ()
    return shortfall(run.plan.graph, run.plan.question.deployment, split, best) or ("as fast as the best",)


def _split(run: Run, question: comparison.Contender) -> Split | None:
    snapshot = run.batch.answers().get(_key(question))
    return None if snapshot is None or snapshot.result is None else snapshot.result.split


def _best_split(run: Run) -> Split | None:
    """Return the best valid plan that any method found."""
    return _best_split_of(run.batch.answers())


def _best_split_of(answers: Mapping[str, Snapshot]) -> Split | None:
    found = [snapshot.result for snapshot in answers.values() if snapshot.result and snapshot.result.split]
    best = min(found, key=lambda result: result.value_ms or 0.0, default=None)
    return None if best is None else best.split


def _show_table(run: Run) -> None:
    _show_chart(run)
    rows = table_rows(run)
    if not rows:
        return
    of_paper = "Mean (and maximum) over the paper's workloads; not this graph."
    from pandas import DataFrame  # it takes long to load, and no other page needs it to start

    # Columns of numbers sort as numbers; what they show is written as everywhere else.
    written = DataFrame(rows).style.format(WRITTEN, na_rep=UNKNOWN)
    state = st.dataframe(
        written,
        key=f"methods_{len(rows)}",
        hide_index=True,
        placeholder="",
        on_select="rerun",
        selection_mode="single-row",
        alt="All methods on this graph",
        column_config={
            "Best is": st.column_config.NumberColumn(help="How many times as fast the best plan is here."),
            "In the paper": st.column_config.TextColumn(width=125, help=of_paper),
            "Note": st.column_config.TextColumn(width="large"),
        },
    )
    if run.batch.is_over:
        _show_selected(run, list(state["selection"]["rows"]))
    expert, most = PAPER_MEAN_AND_MAX["expert"]
    st.caption(
        plain(
            "“Best is”: how many times as fast the best plan found here is. “In the paper”: how many times as fast the "
            "non-contiguous splits of Tarnawski et al. are, mean and maximum over their workloads, not for this graph; "
            f"over human experts {factor(expert)}, up to {factor(most)}."
        )
    )


def _show_selected(run: Run, rows: list[int]) -> None:
    """Offer to keep the plan of the selected row; the button is there before one is, so that nothing moves."""
    text, plan, name = _selected(run, rows)
    is_full = len(session.kept()) >= MAX_KEPT
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Keep for comparison",
            key="keep_method",
            disabled=is_full or plan is None,
            help="Four plans are kept already; drop one first." if is_full else None,
            on_click=_keep,
            args=(plan, name),
        )
        st.caption(plain(text), width="stretch")


def _selected(run: Run, rows: list[int]) -> tuple[str, Plan | None, str]:
    """Return what is said of the selected row, its plan if that can be kept, and the plan's name."""
    answered = outcomes(run)
    if not rows or rows[0] >= len(answered):
        return "Select a row to keep its plan.", None, ""
    question, _ = answered[rows[0]]
    result = run.batch.answers()[_key(question)].result
    if result is None or result.split is None:
        return f"{_name(question)} found no valid plan to keep.", None, ""
    split, deployment = by_entry(result.split, run.plan.question.deployment)
    asked: Question = next(ask.question for ask in run.batch.asks if ask.key == _key(question))
    plan = Plan(asked, run.plan.loaded, run.plan.graph, deployment, result, split)
    kept = session.kept()
    same = next((one for one in kept if is_same(one.plan, plan)), None)
    if same is not None:
        return f"{_name(question)} found the very split of {letter(kept, same)}, {same.name}.", None, ""
    return f"{_name(question)}: {milliseconds(result.value_ms)}.", plan, _name(question)


def _keep(plan: Plan, name: str) -> None:
    keep(plan, name)
