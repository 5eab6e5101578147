"""What the page Sweep asks for: what varies over which values, for which question, run where."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from explorer import session
from explorer.inputs import FAMILIES, MAX_LIMIT_S, METHODS, USUAL_LIMIT_S
from explorer.link import Link, to_query
from explorer.session import Subject
from explorer.sweep_address import (
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
from explorer.sweep_choice import SweepChoice, axis_of, objectives, quantities
from explorer.sweep_prices import prices
from explorer.wording import device_counts, links_text, memory_text, plain, plain_label
from solvers.costs import Objective
from solvers.errors import PlacementError
from solvers.solve import require_solvable
from solvers.split import Family
from solvers.sweep_analysis import Measure
from solvers.sweep_axes import Axis, Quantity, Varied

NAMES = {
    Quantity.ACCELERATORS: "Accelerators",
    Quantity.MEMORY: "Memory (GiB)",
    Quantity.BANDWIDTH: "Bandwidth (GB/s)",
    Quantity.BANDWIDTH_FACTOR: "Bandwidth (× file)",
    Quantity.CPUS: "CPUs",
    Quantity.MICRO_BATCHES: "Micro-batches",
    Quantity.OBJECTIVE: "Objective",
    Quantity.DEVICES: "Devices",
}
USUAL_VALUES = {
    Quantity.ACCELERATORS: "1:12",
    Quantity.MEMORY: "1:64:x2",
    Quantity.BANDWIDTH: "1:64:x2",
    Quantity.BANDWIDTH_FACTOR: "0.25:8:x2",
    Quantity.CPUS: "0:4",
    Quantity.MICRO_BATCHES: "1:64:x2",
    Quantity.DEVICES: "A100-80; H100-SXM; H200; L40S",
    Quantity.COUNT: "0:8",
}
VALUES_HELP = "A list such as 1,2,4, a range such as 2:16, one with a step such as 2:16:2, or by a factor: 1:64:x2."
DEVICES_HELP = "Accelerators of the catalogue, with ; between: names such as H100-SXM, or mixes such as 2xA100-80+4xT4."
NOTHING = "nothing else"


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
        if st.session_state.get("sweep_method") not in methods:
            st.session_state["sweep_method"] = methods[0]
        method = left.selectbox(
            "Solver", methods, format_func=METHODS.__getitem__, key="sweep_method", persist_state="session"
        )
        limit = right.number_input(
            "Limit (s)",
            1,
            MAX_LIMIT_S,
            USUAL_LIMIT_S,
            key="sweep_limit",
            persist_state="session",
            help="Time limit of each point.",
        )
        dask = st.text_input(
            "Dask scheduler",
            key="sweep_dask",
            persist_state="session",
            placeholder="none: processes of this machine",
            help="Address such as tcp://127.0.0.1:8786. Its workers need this program too. Without one, every core of "
            "this machine is used.",
        )
        starts = st.button("Start the sweep", type="primary", width="stretch", key="start_sweep", disabled=axes is None)
    return SweepChoice(subject, axes, family, method, float(limit), dask.strip(), starts)


def _pick_family(subject: Subject) -> Family:
    question = subject.question
    if question.objective is Objective.LATENCY:
        return question.family
    families = list(FAMILIES)
    return st.selectbox(
        "Splits allowed",
        families,
        index=families.index(question.family),
        format_func=FAMILIES.__getitem__,
        key="sweep_family",
        persist_state="session",
    )


def _fitting_methods(subject: Subject, family: Family) -> list[str]:
    """Return the methods that take the question as it is; automatic takes every one."""
    question, fitting = subject.question, ["auto"]
    for method in METHODS:
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
        return varied.label if varied.of_class else NAMES[varied.quantity]
    return varied


def _pick(label: str, options: list[Any], number: int, default: Varied | str, taken: tuple[Varied, ...] = ()) -> Any:
    key = f"sweep_quantity_{number}"
    chosen = st.session_state.get(key, default)
    if isinstance(chosen, Varied) and chosen not in options:  # an address may write the name of a class otherwise
        same = [one for one in options if isinstance(one, Varied) and one.is_written_like(chosen)]
        st.session_state[key] = chosen = same[0] if len(same) == 1 else chosen
    if chosen not in options:
        if isinstance(chosen, Varied) and st.session_state.pop(f"sweep_asked_{number}", None) == chosen:
            st.warning(
                plain(
                    f"The address varies {chosen} twice; choose what else varies."
                    if chosen in taken
                    else f"The address asks to vary {chosen}, which this graph and its devices do not have."
                )
            )
        st.session_state[key] = default
    return st.selectbox(label, options, format_func=_name, key=key, persist_state="session")


def _values(subject: Subject, varied: Varied, number: int) -> str:
    if varied.quantity is Quantity.OBJECTIVE:
        return ",".join(objectives(subject))
    key = f"sweep_values_{number}_{varied}"
    asked = st.session_state.pop(f"sweep_values_{number}", None)  # of the address
    if asked is not None:
        st.session_state[key] = asked
    # Only the name of a class may be one of a file; a label of ours is read aloud as it stands.
    label = f"Values of {_name(varied)}"
    if varied.of_class:
        label = varied._replace(of_class=plain_label(varied.of_class)).label
    return st.text_input(
        label,
        USUAL_VALUES[varied.quantity],
        key=key,
        persist_state="session",
        help=DEVICES_HELP if varied.quantity is Quantity.DEVICES else VALUES_HELP,
    )


# The address of the page.


def _subject_of_page() -> Subject:
    """Return what Explore shows, or what a new address asks instead, and have the widgets show the rest of it."""
    query = dict(st.query_params)
    known = session.subject()
    is_new = "sweep_is_read" not in st.session_state
    st.session_state["sweep_is_read"] = True
    link, problems = link_of(query)
    problems += _take_over(query, link) if is_new or session.has_just_come_back() else ()
    # What is kept of this session may be older than the address, which somebody may have edited.
    keeps = not is_new or not query.keys() - {"keep"} or (known is not None and asks_same_question(link, _asked(known)))
    said: tuple[str, ...] = ()
    if known is None or not keeps:
        known, said = subject_of_link(link, session.uploaded_graph())
        session.remember_subject(known)
    said += (f"Could not be used: {'; '.join(problems)}.",) if problems and is_new else ()
    if said:
        st.warning(plain(" ".join(said)), icon=":material/link_off:")
    return known


def _asked(subject: Subject) -> Link:
    """Return the link of what Explore asks, with splits, solver and limit as they are for the sweep."""
    return replace(subject.link, **_plans(st.session_state.get("sweep_family"), subject))


def _plans(family: Any, subject: Subject) -> dict[str, Any]:
    """Return what an address says of plans, as far as it is not usual."""
    method, limit = st.session_state.get("sweep_method"), st.session_state.get("sweep_limit")
    is_latency = subject.question.objective is Objective.LATENCY
    return {
        "splits": None if is_latency or family in (None, Family.CHAIN) else family,
        "solver": None if method in (None, "auto") else method,
        "limit": None if limit in (None, USUAL_LIMIT_S) else int(limit),
    }


def _take_over(query: Mapping[str, str], link: Link) -> tuple[str, ...]:
    """Have the widgets show what an address asks for; return a phrase for each part that cannot be used."""
    problems: list[str] = []
    for number, (over, values) in enumerate((("over", "values"), ("and", "and_values")), start=1):
        varied = axis_named(query.get(over, ""))
        if varied is not None:
            st.session_state[f"sweep_quantity_{number}"] = st.session_state[f"sweep_asked_{number}"] = varied
            if values in query:
                st.session_state[f"sweep_values_{number}"] = query[values][:2000]
        elif over in query:
            problems.append(f"{over} {query[over][:40]} (no such quantity)")
    if not query.keys() & set(PARTS):
        return ()  # the bare page, or Streamlit's own link to it
    st.session_state["sweep_measure"] = measure_from(query)
    if query.get("show", Measure.THROUGHPUT) not in list(Measure):
        problems.append(f"show {query['show'][:40]} (give one of {', '.join(Measure)})")
    found, in_vain = prices_from(query)
    session.remember_prices(found)
    problems += in_vain
    for name in ("at_least", "budget"):
        st.session_state[f"sweep_{name}"] = number_from(query.get(name, ""))
        if name in query and st.session_state[f"sweep_{name}"] is None:
            problems.append(f"{name} {query[name][:40]} (give a number such as 12.5)")
    st.session_state["sweep_family"] = link.splits or Family.CHAIN
    st.session_state["sweep_limit"] = min(MAX_LIMIT_S, max(1, link.limit or USUAL_LIMIT_S))
    if link.limit is not None and not 1 <= link.limit <= MAX_LIMIT_S:
        problems.append(f"limit {link.limit} (give 1 to {MAX_LIMIT_S} seconds)")
    if link.solver in METHODS:
        st.session_state["sweep_method"] = link.solver
    elif link.solver is not None:
        problems.append(f"solver {link.solver} (no such solver)")
    return tuple(problems)


def query_of_sweep(choice: SweepChoice) -> dict[str, str]:
    """Return the address of the page: the question of Explore, what varies, how plans are sought, what is looked at."""
    query = to_query(replace(choice.subject.link, **_plans(choice.family, choice.subject), edits=None, keep=None))
    for number, (over, values) in enumerate((("over", "values"), ("and", "and_values")), start=1):
        varied = st.session_state.get(f"sweep_quantity_{number}")
        if isinstance(varied, Varied):
            query[over] = axis_name(varied)
            text = st.session_state.get(f"sweep_values_{number}_{varied}")
            if text:
                query[values] = text
    measure = st.session_state.get("sweep_measure") or Measure.THROUGHPUT
    if measure is not Measure.THROUGHPUT:
        query["show"] = measure
    query |= prices_query(prices())
    for name in ("at_least", "budget"):
        if (value := st.session_state.get(f"sweep_{name}")) is not None:
            query[name] = f"{value:.10g}"
    return query
