"""What the page Sweep asks for: what varies over which values, for which question, run where."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from explorer.jobs.cluster import scheduler
from explorer.server.limits import longest_limit_s
from explorer.state import session, widgets
from explorer.state.query import Link, to_query
from explorer.state.records import Subject
from explorer.sweep.address import (
    PARTS,
    asks_same_question,
    axis_name,
    axis_named,
    link_of,
    measure_from,
    number_from,
    prices_from,
    prices_query,
    subject_of_link,
)
from explorer.sweep.choice import SweepChoice, axis_of, objectives, quantities
from explorer.sweep.prices import prices
from explorer.words.wording import device_counts, links_text, memory_text, plain, plain_label
from solvers.model.costs import Objective
from solvers.model.errors import PlacementError
from solvers.model.split import Family
from solvers.parameters.question import FAMILY, METHOD, TIME_LIMIT, usual_limit_s
from solvers.quantities import as_given
from solvers.solve import require_solvable
from solvers.sweep.axes import Axis, Quantity, Varied
from solvers.sweep.measures import Measure

VALUES_HELP = "A list such as 1,2,4, a range such as 2:16, one with a step such as 2:16:2, or by a factor: 1:64:x2."
DEVICES_HELP = "Accelerators of the catalogue, with ; between: names such as H100-SXM, or mixes such as 2xA100-80+4xT4."
NOTHING = "nothing else"
NAMES_OF_METHODS = METHOD.names
THIS_MACHINE, DASK_CLUSTER = "This machine", "Dask cluster"
START_KEY = "start_sweep"


def sweep_sidebar() -> SweepChoice:
    """Draw the sidebar and return what is chosen."""
    subject = _subject_of_page()
    with st.sidebar:
        st.markdown("#### Graph")
        st.markdown(plain(subject.loaded.origin))
        deployment, graph = subject.question.deployment, subject.graph
        on = (device_counts(deployment, graph.times), memory_text(deployment), links_text(deployment, graph))
        st.caption(f"On {plain(', '.join(filter(None, on)))}: as on Explore, but for what varies here.")
        st.markdown("#### Sweep over")
        axes = _axes(subject)
        st.markdown("#### Plans")
        family = _pick_family(subject)
        methods = _fitting_methods(subject, family)
        left, right = st.columns([3, 2])
        if widgets.value("sweep_method") not in methods:
            widgets.show("sweep_method", methods[0])
        method = left.selectbox(
            "Solver", methods, format_func=NAMES_OF_METHODS.__getitem__, key="sweep_method", persist_state="session"
        )
        limit = right.number_input(
            "Limit (s)",
            1.0,
            float(longest_limit_s()),
            usual_limit_s(longest_limit_s()),
            key="sweep_limit",
            format="%.4g",
            persist_state="session",
            help="Time limit of each point.",
        )
        on_cluster = _pick_cluster()
        st.button(
            "Start the sweep",
            type="primary",
            width="stretch",
            key=START_KEY,
            on_click=widgets.press,
            args=(START_KEY,),
            disabled=axes is None,
        )
        starts = axes is not None and widgets.is_pressed(START_KEY)
    return SweepChoice(subject, axes, family, method, float(limit), on_cluster, starts)


def _pick_cluster() -> bool:
    """Draw the choice where to run, where whoever started the app offers one."""
    if not scheduler():
        return False
    places = [THIS_MACHINE, DASK_CLUSTER]
    # The answer of a page is compared and never used: it may be any text.
    return st.selectbox("Run on", places, key="sweep_run_on", persist_state="session") == DASK_CLUSTER


def _pick_family(subject: Subject) -> Family:
    question = subject.question
    if question.objective is Objective.LATENCY:
        return question.family
    families = list(Family)
    names = FAMILY.names
    chosen: Family = st.selectbox(
        "Split type",
        families,
        index=families.index(question.family),
        format_func=names.__getitem__,
        key="sweep_family",
        persist_state="session",
    )
    return chosen


def _fitting_methods(subject: Subject, family: Family) -> list[str]:
    """Return the methods that take the question as it is; automatic takes every one."""
    question, fitting = subject.question, ["auto"]
    for method in NAMES_OF_METHODS:
        try:
            require_solvable(subject.graph, question.deployment, question.objective, method, family)
        except PlacementError:
            continue
        fitting += [method] if method != "auto" else []
    return fitting


def _axes(subject: Subject) -> tuple[Axis, ...] | None:
    """Draw the boxes of both axes; None where their text makes no axis, which is then said."""
    choices = quantities(subject)
    first = _pick("Vary", choices, 1, choices[0])
    texts = [(first, _values(subject, first, 1))]
    rest = [varied for varied in choices if varied != first]
    second = _pick("and", [NOTHING, *rest], 2, NOTHING, (first,))
    if isinstance(second, Varied):
        texts.append((second, _values(subject, second, 2)))
    axes = []
    for varied, text in texts:
        try:
            axes.append(axis_of(varied, text, subject))
        except PlacementError as error:
            st.error(plain(f"{_name(varied)}: {error}"))
            return None
    return tuple(axes)


def _name(varied: Varied | str) -> str:
    if isinstance(varied, Varied):
        return varied.label if varied.of_class else varied.quantity.traits.short or varied.label
    return varied


def _pick(label: str, options: list[Any], number: int, default: Varied | str, taken: tuple[Varied, ...] = ()) -> Any:
    key = f"sweep_quantity_{number}"
    chosen = widgets.value(key, default)
    if isinstance(chosen, Varied) and chosen not in options:  # an address may write the name of a class otherwise
        same = [one for one in options if isinstance(one, Varied) and one.is_written_like(chosen)]
        chosen = same[0] if len(same) == 1 else chosen
        widgets.show(key, chosen)
    if chosen not in options:
        if isinstance(chosen, Varied) and widgets.take(f"sweep_asked_{number}") == chosen:
            st.warning(
                plain(
                    f"The address varies {chosen} twice; choose what else varies."
                    if chosen in taken
                    else f"The address asks to vary {chosen}, which this graph and its devices do not have."
                )
            )
        widgets.show(key, default)
    return st.selectbox(label, options, format_func=_name, key=key, persist_state="session")


def _values(subject: Subject, varied: Varied, number: int) -> str:
    if varied.quantity is Quantity.OBJECTIVE:
        return ",".join(objectives(subject))
    key = f"sweep_values_{number}_{varied}"
    asked = widgets.take(f"sweep_values_{number}")  # of the address
    if asked is not None:
        widgets.show(key, asked)
    # Only the name of a class may be one of a file; a label of ours is read aloud as it stands.
    label = f"Values of {_name(varied)}"
    if varied.of_class:
        label = varied._replace(of_class=plain_label(varied.of_class)).label
    return st.text_input(
        label,
        varied.quantity.traits.usual,
        key=key,
        persist_state="session",
        help=DEVICES_HELP if varied.quantity is Quantity.DEVICES else VALUES_HELP,
    )


# The address of the page.


def _subject_of_page() -> Subject:
    """Return what Explore shows, or what a new address asks instead, and have the widgets show the rest of it."""
    query = dict(st.query_params)
    known = session.subject()
    is_new = session.is_first_visit_to_sweep()
    link, problems = link_of(query)
    problems += _take_over(query, link) if is_new or session.has_just_come_back() else ()
    # What is kept of this session may be older than the address, which somebody may have edited.
    keeps = not is_new or not query.keys() - {"keep"} or (known is not None and asks_same_question(link, _asked(known)))
    said: tuple[str, ...] = ()
    if known is None or not keeps:
        known, said = subject_of_link(link, session.uploaded_graph())
        session.remember_subject(known)
    said += (f"Ignored from the link: {'; '.join(problems)}.",) if problems and is_new else ()
    if said:
        st.warning(plain(" ".join(said)), icon=":material/link_off:")
    return known


def _asked(subject: Subject) -> Link:
    """Return the link of what Explore asks, with splits, solver and limit as they are for the sweep."""
    return _with_plans(subject, widgets.value("sweep_family"))


def _with_plans(subject: Subject, family: Any) -> Link:
    return subject.link.without(FAMILY.name, METHOD.name, TIME_LIMIT.name).with_values(**_plans(family, subject))


def _plans(family: Any, subject: Subject) -> dict[str, Any]:
    """Return what an address says of plans, as far as it is not usual."""
    method, limit = widgets.value("sweep_method"), widgets.value("sweep_limit")
    is_latency = subject.question.objective is Objective.LATENCY
    asked = {
        FAMILY.name: None if is_latency or family is Family.CHAIN else family,
        METHOD.name: None if method == "auto" else method,
        TIME_LIMIT.name: None if limit == usual_limit_s(longest_limit_s()) else limit,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _take_over(query: Mapping[str, str], link: Link) -> tuple[str, ...]:
    """Have the widgets show what an address asks for; return a phrase for each part that cannot be used."""
    problems: list[str] = []
    for number, (over, values) in enumerate((("over", "values"), ("and", "and_values")), start=1):
        varied = axis_named(query.get(over, ""))
        if varied is not None:
            widgets.show(f"sweep_quantity_{number}", varied)
            widgets.show(f"sweep_asked_{number}", varied)
            if values in query:
                widgets.show(f"sweep_values_{number}", query[values][:2000])
        elif over in query:
            problems.append(f"{over} {query[over][:40]} (no such quantity)")
    if not query.keys() & set(PARTS):
        return ()  # the bare page, or Streamlit's own link to it
    widgets.show("sweep_measure", measure_from(query))
    if query.get("show", Measure.THROUGHPUT) not in list(Measure):
        problems.append(f"show {query['show'][:40]} (give one of {', '.join(Measure)})")
    found, in_vain = prices_from(query)
    session.remember_prices(found)
    problems += in_vain
    for name in ("at_least", "budget"):
        widgets.show(f"sweep_{name}", number_from(query.get(name, "")))
        if name in query and widgets.value(f"sweep_{name}") is None:
            problems.append(f"{name} {query[name][:40]} (give a number such as 12.5)")
    longest_s = longest_limit_s()
    limit, method = link.values.get(TIME_LIMIT.name), link.values.get(METHOD.name)
    widgets.show("sweep_family", link.values.get(FAMILY.name, Family.CHAIN))
    widgets.show("sweep_limit", min(float(longest_s), max(1.0, limit or usual_limit_s(longest_s))))
    if limit is not None and not 1 <= limit <= longest_s:
        problems.append(f"limit {as_given(limit)} (give 1 to {longest_s} seconds)")
    if method in NAMES_OF_METHODS:
        widgets.show("sweep_method", method)
    elif method is not None:
        problems.append(f"solver {method} (no such solver)")
    return tuple(problems)


def query_of_sweep(choice: SweepChoice) -> dict[str, str]:
    """Return the address of the page: the question of Explore, what varies, how plans are sought, what is looked at."""
    query = to_query(replace(_with_plans(choice.subject, choice.family), edits=None, keep=None))
    for number, (over, values) in enumerate((("over", "values"), ("and", "and_values")), start=1):
        varied = widgets.value(f"sweep_quantity_{number}")
        if isinstance(varied, Varied):
            query[over] = axis_name(varied)
            text = widgets.value(f"sweep_values_{number}_{varied}")
            if text:
                query[values] = text
    measure = widgets.value("sweep_measure") or Measure.THROUGHPUT
    if measure is not Measure.THROUGHPUT:
        query["show"] = measure
    query |= prices_query(prices())
    for name in ("at_least", "budget"):
        if (value := widgets.value(f"sweep_{name}")) is not None:
            query[name] = f"{value:.10g}"
    return query
