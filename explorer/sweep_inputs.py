"""What the page Sweep asks for: which quantities vary over which values, for which question, run where."""

from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from explorer import session
from explorer.devices import equipped_by
from explorer.inputs import BYTES_PER_MS, DEFAULT_SAMPLE, FAMILIES, GIB, METHODS
from explorer.jobs import Question
from explorer.link import NO_LIMIT, Link, from_query, to_query
from explorer.session import LoadedGraph, Subject
from explorer.wording import plain
from solvers.costs import Objective
from solvers.deployment import Communication
from solvers.errors import PlacementError
from solvers.samples import read_sample, sample_info, sample_names
from solvers.split import Family
from solvers.sweep_axes import Axis, Quantity, Value
from solvers.sweep_plan import Index, SweepSpec
from solvers.sweep_ranges import RangeError, read_ranges

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
}
VALUES_HELP = "A list such as 1,2,4, a range such as 2:16, one with a step such as 2:16:2, or by a factor: 1:64:x2."
DEVICES_HELP = "Accelerators of the catalogue, with ; between: names such as H100-SXM, or mixes such as 2xA100-80+4xT4."
NOTHING = "nothing else"
PARTS = {
    "over": "sweep_quantity_1",
    "values": "sweep_values_1",
    "and": "sweep_quantity_2",
    "and_values": "sweep_values_2",
}
"""Parts of the address of the page, and the widgets that hold them."""
KNOWN_PARTS = {"sample", "accelerators", "cpus", "memory", "bandwidth", "bandwidth_factor", "objective", "splits"}
KNOWN_PARTS |= {"transfers", "keep", "devices", "host", "efficiency", "memory_efficiency", "measured_on", "roofline"}
"""Parts of an address of Explore from which the page can ask by itself."""


@dataclass(frozen=True, slots=True)
class SweepChoice:
    """What is asked for: the axes (None where their text cannot be read), and how and where to solve."""

    subject: Subject
    axes: tuple[Axis, ...] | None
    family: Family
    method: str
    time_limit_s: float
    dask_address: str
    asks_to_start: bool

    def spec(self) -> SweepSpec:
        """Return the sweep; PlacementError where it makes no sense."""
        assert self.axes is not None
        question, graph = self.subject.question, self.subject.graph
        asked = self.subject.link.bandwidth_factor
        if asked is not None and any(axis.quantity is Quantity.BANDWIDTH_FACTOR for axis in self.axes):
            graph = graph.with_bandwidth_factor(1 / asked)  # factors are on the file's own speed
        return SweepSpec(
            graph,
            question.deployment,
            self.axes,
            question.objective,
            self.family,
            self.method,
            self.time_limit_s,
        )


def sweep_sidebar() -> SweepChoice:
    """Draw the sidebar and return what is chosen."""
    subject = subject_of_page()
    with st.sidebar:
        st.markdown("#### Graph")
        st.markdown(plain(subject.loaded.origin))
        st.caption("Graph, devices and objective are those of Explore, but for what varies here.")
        st.markdown("#### Sweep over")
        axes = _axes(subject)
        st.markdown("#### Plans")
        question = subject.question
        family = question.family
        if question.objective is not Objective.LATENCY:
            families = list(FAMILIES)
            family = st.selectbox(
                "Splits allowed",
                families,
                index=families.index(question.family),
                format_func=FAMILIES.__getitem__,
                key="sweep_family",
                persist_state="session",
            )
        methods = list(METHODS)
        left, right = st.columns([3, 2])
        method = left.selectbox(
            "Solver",
            methods,
            index=methods.index(question.method) if question.method in methods else 0,
            format_func=METHODS.__getitem__,
            key="sweep_method",
            persist_state="session",
        )
        limit = right.number_input(
            "Limit (s)", 1, 3600, 60, key="sweep_limit", persist_state="session", help="Time limit of each point."
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


def _axes(subject: Subject) -> tuple[Axis, ...] | None:
    """Draw the boxes of both axes; None where their text makes no axis, which is then said."""
    quantities = _quantities(subject)
    first = _pick("Vary", quantities, 1, quantities[0])
    texts = [(first, _values(subject, first, 1))]
    rest = [quantity for quantity in quantities if quantity is not first]
    second = _pick("and", [NOTHING, *rest], 2, NOTHING)
    if isinstance(second, Quantity):
        texts.append((second, _values(subject, second, 2)))
    axes = []
    for quantity, text in texts:
        try:
            axes.append(axis_of(quantity, text, subject))
        except PlacementError as error:
            st.error(plain(f"{NAMES[quantity]}: {error}"))
            return None
    return tuple(axes)


def _pick(label: str, options: list[Any], number: int, default: Quantity | str) -> Any:
    key = f"sweep_quantity_{number}"
    if st.session_state.get(key, default) not in options:
        st.session_state[key] = default
    return st.selectbox(
        label,
        options,
        format_func=lambda quantity: NAMES.get(quantity, NOTHING),
        key=key,
        persist_state="session",
    )


def _values(subject: Subject, quantity: Quantity, number: int) -> str:
    if quantity is Quantity.OBJECTIVE:
        return ",".join(_objectives(subject))
    key = f"sweep_values_{number}_{quantity.name}"
    asked = st.session_state.pop(f"sweep_values_{number}", None)  # of the address
    if asked is not None:
        st.session_state[key] = asked
    return st.text_input(
        f"Values of {NAMES[quantity]}",
        USUAL_VALUES[quantity],
        key=key,
        persist_state="session",
        help=DEVICES_HELP if quantity is Quantity.DEVICES else VALUES_HELP,
    )


def _quantities(subject: Subject) -> list[Quantity]:
    """Return what may vary on this graph; links in GB/s where the file's bytes tell their speed."""
    links = Quantity.BANDWIDTH if subject.graph.bandwidth_bytes_per_ms is not None else Quantity.BANDWIDTH_FACTOR
    found = [Quantity.ACCELERATORS, links, Quantity.MEMORY, Quantity.DEVICES, Quantity.CPUS, Quantity.OBJECTIVE]
    if subject.question.deployment.classes:  # each has counts, memory and links of its own, which Explore sets
        found = [Quantity.CPUS, Quantity.OBJECTIVE]
    if subject.question.deployment.training_memory is not None:
        found.append(Quantity.MICRO_BATCHES)
    return found


def _objectives(subject: Subject) -> list[str]:
    second = Objective.GPIPE if subject.graph.is_training else Objective.LATENCY
    return [Objective.THROUGHPUT, second]


def axis_of(quantity: Quantity, text: str, subject: Subject) -> Axis:
    """Return the axis of a text in the units of the page; PlacementError where it is none."""
    if quantity is Quantity.OBJECTIVE:
        return Axis(quantity, tuple(_objectives(subject)))
    if quantity is Quantity.DEVICES:
        return Axis(quantity, tuple(part.strip() for part in text.split(";")))
    factor = {Quantity.MEMORY: GIB, Quantity.BANDWIDTH: BYTES_PER_MS}.get(quantity, 1.0)
    values: tuple[Value, ...] = tuple(value * factor for value in read_ranges(text, _number))
    return Axis(quantity, values)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise RangeError(f'"{text[:40]}" is no number; write values such as 2:16 or 1,2,4.') from None
    if not 0 <= number < float("inf"):
        raise RangeError(f'"{text[:40]}" is out of range; give numbers of 0 or more.')
    return number


def subject_of_page() -> Subject:
    """Return what Explore shows, or without it what the address names, or the usual sample."""
    query = dict(st.query_params)
    known = session.subject()
    is_entered = session.has_just_come_back() or "sweep_is_read" not in st.session_state
    st.session_state["sweep_is_read"] = True
    if is_entered:
        _take_over({name: query[name] for name in PARTS if name in query})
    if known is not None:
        return known
    link, _ = from_query({name: text for name, text in query.items() if name not in PARTS})
    subject = subject_of_link(link)
    session.remember_subject(subject)
    unknown = sorted(set(to_query(link)) - KNOWN_PARTS)
    if unknown:
        st.warning(f"Of this address a sweep does not know: {plain(', '.join(unknown))}. Open it on Explore first.")
    return subject


def _take_over(asked: dict[str, str]) -> None:
    """Have the widgets show what an address asks for; what it says in vain is left at its default."""
    for name in ("over", "and"):
        if name in asked and asked[name] in {str(quantity) for quantity in Quantity}:
            st.session_state[PARTS[name]] = Quantity(asked[name])
    for name in ("values", "and_values"):
        if name in asked:
            st.session_state[PARTS[name]] = asked[name][:200]


def subject_of_link(link: Link) -> Subject:
    """Return the question that an address of Explore asks, of a sample; parts that a sweep does not know are left."""
    name = link.sample if link.sample in sample_names() else DEFAULT_SAMPLE
    graph, own = read_sample(name)
    loaded = LoadedGraph(graph, own, sample_info(name).title)
    try:
        on = equipped_by(loaded, link)
        graph, changed = on.graph, on.deployment
    except PlacementError as error:
        st.warning(plain(f"The devices of this address were not applied. {error}"))
        changed = own
    if link.accelerators is not None and not changed.classes:
        changed = replace(changed, num_accelerators=link.accelerators)
    if link.cpus is not None:
        changed = replace(changed, num_cpus=link.cpus)
    if link.memory is not None and not changed.classes:
        changed = replace(changed, memory_bytes=None if link.memory == NO_LIMIT else link.memory * GIB)
    changed = replace(changed, communication=link.transfers or Communication.SUM)
    if link.bandwidth and graph.bandwidth_bytes_per_ms is not None:
        graph = graph.with_bandwidth(link.bandwidth * BYTES_PER_MS)
    elif link.bandwidth_factor:
        graph = graph.with_bandwidth_factor(link.bandwidth_factor)
    question = Question(
        graph.digest,
        changed,
        link.objective or Objective.THROUGHPUT,
        "auto",
        link.splits or Family.CHAIN,
    )
    return Subject(loaded, graph, question, replace(link, sample=name, edits=None, keep=None))


def query_of_sweep(choice: SweepChoice) -> dict[str, str]:
    """Return what the address of the page says of its axes."""
    query: dict[str, str] = {}
    for number, (over, values) in enumerate((("over", "values"), ("and", "and_values")), start=1):
        quantity = st.session_state.get(f"sweep_quantity_{number}")
        if isinstance(quantity, Quantity):
            query[over] = quantity.value
            text = st.session_state.get(f"sweep_values_{number}_{quantity.name}")
            if text:
                query[values] = text
    return query


def link_to_point(spec: SweepSpec, subject: Subject, index: Index) -> Link:
    """Return the address of Explore with the hardware of a point."""
    asked = spec.asked(index)
    deployment = asked.deployment
    memory = deployment.memory_bytes
    link = replace(
        subject.link,
        accelerators=deployment.num_accelerators,
        cpus=deployment.num_cpus,
        memory=NO_LIMIT if memory is None else memory / GIB,
        objective=asked.objective,
        splits=None if asked.objective is Objective.LATENCY else spec.family,
        edits=None,
        keep=None,
        solver=None,
    )
    if deployment.classes:
        link = replace(link, accelerators=None, memory=None)
    for axis, value in zip(spec.axes, spec.values(index), strict=True):
        if axis.quantity is Quantity.BANDWIDTH:
            link = replace(link, bandwidth=float(value) / BYTES_PER_MS)
        elif axis.quantity is Quantity.BANDWIDTH_FACTOR:
            link = replace(link, bandwidth_factor=float(value))
        elif axis.quantity is Quantity.DEVICES:
            link = replace(link, devices=str(value))
        elif axis.quantity is Quantity.MICRO_BATCHES:
            link = replace(link, micro_batches=int(value))
    return link
