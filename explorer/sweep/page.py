"""Sweep: one quantity of the hardware or two over ranges of values, solved beside the page; a curve or a heat map."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from explorer.elements.headline import theme
from explorer.elements.side_bar import uncover_page
from explorer.jobs.cluster import scheduler
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.jobs.sweep_run import SweepRun, SweepState
from explorer.state import session, widgets
from explorer.state.records import Sweep
from explorer.sweep.address import link_to_point
from explorer.sweep.choice import SweepChoice
from explorer.sweep.example import show_example
from explorer.sweep.inputs import START_KEY, query_of_sweep, sweep_sidebar
from explorer.sweep.prices import lacking_text, pick_prices, prices_of
from explorer.words.wording import device_counts, links_text, memory_text, objective_text, on_one_line, plain, unbroken
from solvers.hardware.device_list import parse_devices
from solvers.model.costs import Objective
from solvers.model.errors import PlacementError
from solvers.model.result import SolveResult, SolveStatus
from solvers.quantities import count, counted, seconds
from solvers.sweep.axes import Quantity
from solvers.sweep.front import MARK, NO_PRICES, hardware_text
from solvers.sweep.measures import Measure
from solvers.sweep.plateau import knee_of, plateau_of, plateau_text
from solvers.sweep.run import BY_NEIGHBOUR, STOPPED
from solvers.sweep.spec import Index, SweepSpec
from solvers.sweep.table import csv_of, latency_note, parquet_of, sweep_rows

if TYPE_CHECKING:
    from explorer.sweep.figures import Picture

POLL_SECONDS = 1.0
POINTS_PER_SECOND = 1000
"""Points that are drawn anew in a second: large sweeps are looked at less often, or drawing would hold up solving."""
SWEEP_BUTTON_PX = 96
"""How wide the place of Cancel and Resume is, whichever is there."""
MOST_NUMBERS_ON_A_PHONE = 5
"""Cells in a row up to which their numbers fit on the screen of a phone; see the style of the app."""
BY_LINKS = {Quantity.BANDWIDTH, Quantity.BANDWIDTH_FACTOR, Quantity.DEVICES}
"""What brings links of its own."""
MEASURES = {
    Measure.THROUGHPUT: "Throughput",
    Measure.TIME: "Time per micro-batch",
    Measure.PER_DEVICE: "Per accelerator",
    Measure.PER_COST: "Per cost",
}


def show() -> None:
    """Draw the page."""
    st.markdown("### Sweep")
    choice = sweep_sidebar()
    if choice.asks_to_start:
        _start(choice)
        uncover_page()
        widgets.release(START_KEY)
    sweep = session.sweep()
    if sweep is None:
        st.info("Choose what varies at the side, and start. Points are drawn as they are solved, coarse to fine.")
        show_example()
        _write_address(choice)
        return
    sweep.run.shown_in(session.session_id())
    if not choice.asks_what(sweep):
        st.warning(
            "This sweep answers earlier inputs. Start it again for those at the side.", icon=":material/history:"
        )
    _measure_and_prices(sweep.run.spec)
    if sweep.run.state().is_running:
        every = max(POLL_SECONDS, sweep.run.spec.num_points / POINTS_PER_SECOND)
        st.fragment(run_every=every)(_poll)()
    else:
        with st.container():  # as a fragment is one: what the page had there before fades in its own place
            _show(sweep)
    _write_address(choice)


def _start(choice: SweepChoice) -> None:
    """Begin a sweep in the place of the one before, which ends."""
    try:
        spec = choice.spec()
    except PlacementError as error:
        st.error(plain(str(error)))
        return
    before = session.sweep()
    if before is not None:
        before.run.leave(session.session_id())
    address = scheduler() if choice.on_cluster else ""
    run = SweepRun(spec, session.session_id(), is_open, solver_pool(), address)
    session.remember_sweep(Sweep(run, choice.subject))
    run.start()


def _write_address(choice: SweepChoice) -> None:
    """Put the state of the page into the address, where that says anything else."""
    query = query_of_sweep(choice)
    keep = st.query_params.get("keep")
    if keep is not None:
        query["keep"] = keep
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)


def _measure_and_prices(spec: SweepSpec) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        st.segmented_control(
            "Show",
            list(MEASURES),
            default=Measure.THROUGHPUT,
            required=True,
            format_func=MEASURES.__getitem__,
            key="sweep_measure",
            persist_state="session",
        )
        pick_prices(spec)


def _poll() -> None:
    sweep = session.sweep()
    if sweep is None or not sweep.run.state().is_running:
        st.rerun()
    _show(sweep)


def _show(sweep: Sweep) -> None:
    """Draw the state of a sweep: how far it is, its picture, what follows from it, and downloads."""
    from explorer.sweep.figures import Picture, sweep_figure  # Plotly loads here, when it is needed

    state, spec = sweep.run.state(), sweep.run.spec
    _progress(sweep, state)
    measure = widgets.value("sweep_measure") or Measure.THROUGHPUT
    picture = Picture(spec, state.answers, measure, prices_of(spec), theme())
    st.markdown(_summary(sweep, state))
    st.caption(plain(held_text(spec)))
    if len(state.answers) == spec.num_points and (why := why_nothing(spec, state.answers)):
        st.warning(plain(why))
    elif stopped := why_stopped(state.answers):
        st.warning(plain(stopped))
    if measure is Measure.PER_COST and (lacking := lacking_text(picture.prices, spec)):
        st.info(plain(lacking))
    else:
        has_many = len(spec.axes[0].values) > MOST_NUMBERS_ON_A_PHONE
        numbers = "sweep_numbers_of_many" if has_many else "sweep_numbers"
        with st.container(key=numbers if picture.has_numbers else "sweep_lines"):
            _clickable(sweep_figure(picture), "sweep_picture", "The sweep: each point or cell is one set of hardware")
        st.caption(legend(picture))
    if state.is_running:
        return
    _downloads(sweep, state)
    has_plans = any(result.value_ms is not None for result in state.answers.values())
    if has_plans and any(axis.quantity is not Quantity.OBJECTIVE for axis in spec.axes):
        from explorer.sweep.what_to_buy import show_what_to_buy  # Plotly, too

        show_what_to_buy(picture, _clickable)


def held_text(spec: SweepSpec) -> str:
    """Say what is the same at every point.

    >>> from solvers.model.deployment import Deployment
    >>> from solvers.model.graph import DnnGraph, Node
    >>> from solvers.sweep.axes import Axis
    >>> graph = DnnGraph((Node(1, 2.0, 9.0),), ())
    >>> held_text(SweepSpec(graph, Deployment(2, 1), (Axis(Quantity.ACCELERATORS, (1, 2)),)))
    'Everywhere the same: 1 CPU, no memory limit, for throughput, pipeline splits.'
    """
    varied = {axis.quantity for axis in spec.axes if not axis.of_class or axis.quantity is Quantity.COUNT}
    deployment = spec.deployment
    times = None if Quantity.DEVICES in varied else spec.graph.times
    counts = device_counts(deployment, times)
    cpus = "" if Quantity.CPUS in varied else counts.rpartition(" and ")[2]
    has_devices = bool(varied & {Quantity.ACCELERATORS, Quantity.COUNT, Quantity.DEVICES})
    is_latency = spec.objective is Objective.LATENCY and Quantity.OBJECTIVE not in varied

    def of_class(quantity: Quantity) -> set[str]:
        return {axis.of_class for axis in spec.axes if axis.quantity is quantity}

    name = times.accelerator if times is not None and Quantity.ACCELERATORS in varied else ""
    parts = [
        f"accelerators {name}" if name else "" if has_devices else counts.rpartition(" and ")[0],
        _counts_held(spec),
        f"{deployment.num_accelerators} accelerators where a list gives no number" if _lacks_counts(spec) else "",
        cpus,
        "" if varied & {Quantity.MEMORY, Quantity.DEVICES} else memory_text(deployment, of_class(Quantity.MEMORY)),
        "" if varied & BY_LINKS else links_text(deployment, spec.graph, of_class(Quantity.BANDWIDTH)),
        "" if Quantity.OBJECTIVE in varied else f"for {objective_text(spec.objective)}",
        "" if is_latency else f"{spec.family.named} splits",
    ]
    return f"Everywhere the same: {', '.join(filter(None, parts))}."


def _lacks_counts(spec: SweepSpec) -> bool:
    """Whether a list of devices that varies does not say how many there are, and nothing else does."""
    if any(axis.quantity is Quantity.ACCELERATORS for axis in spec.axes):
        return False
    lists = [str(value) for axis in spec.axes if axis.quantity is Quantity.DEVICES for value in axis.values]
    return any(parse_devices(text)[0].count is None for text in lists)


def _counts_held(spec: SweepSpec) -> str:
    """Name the classes whose counts do not vary, where those of others do."""
    varied = {axis.of_class for axis in spec.axes if axis.quantity is Quantity.COUNT}
    fixed = [one for one in spec.deployment.classes if varied and one.name not in varied]
    return ", ".join(f"{one.count} × {one.name}" for one in fixed)


def _progress(sweep: Sweep, state: SweepState) -> None:
    """Draw how far a sweep is, and the button to cancel or resume it.

    Until a page is drawn to its end Streamlit keeps what it had before: the other button, after this one. In a box of
    one button's size (its height is in `explorer.app`) that is out of sight, and its going moves nothing. In a row of
    both the button moved when the other went, and a press that was let go after that was no click.
    """
    total, done = sweep.run.spec.num_points, len(state.answers)
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.is_running:
            waits = f" · {state.message}" if state.message else ""
            st.progress(done / total, f"{count(done)} of {count(total)} points · {seconds(int(state.seconds))}{waits}")
            with st.container(key="sweep_button", width=SWEEP_BUTTON_PX):
                st.button("Cancel", key="cancel_sweep", on_click=sweep.run.cancel, width="stretch")
        elif done < total or state.num_failed:
            missing = state.num_failed if done == total else total - done
            st.progress(done / total, f"{count(done)} of {count(total)} points · {count(missing)} to go")
            with st.container(key="sweep_button", width=SWEEP_BUTTON_PX):
                st.button("Resume", key="resume_sweep", on_click=sweep.run.start, type="primary", width="stretch")
    if state.error:
        st.error(plain(state.error))
        if state.details:
            with st.expander("Details"):
                st.code(state.details, language=None)


def _summary(sweep: Sweep, state: SweepState) -> str:
    """Say in a line what was swept and what came out."""
    spec = sweep.run.spec
    axes = " × ".join(f"{axis.varied} ({len(axis.values)})" for axis in spec.axes)
    parts = [f"**{plain(sweep.subject.loaded.origin)}**", plain(axes)]
    if not state.is_running and len(state.answers) == spec.num_points:
        parts.append(unbroken(f"{counted(spec.num_points, 'point')} in {seconds(state.seconds)}"))
    statuses = [result.status for index, result in state.answers.items() if not spec.has_no_device(index)]
    is_complete = len(state.answers) == spec.num_points
    if is_complete and all(status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE) for status in statuses):
        parts.append("all optimal (proven)" if SolveStatus.INFEASIBLE not in statuses else "all proven")
    elif statuses:
        parts.append(f"{sum(s is SolveStatus.OPTIMAL for s in statuses)} proven optimal")
    infeasible = sum(status is SolveStatus.INFEASIBLE for status in statuses)
    if infeasible:
        parts.append(f"{infeasible} infeasible")
    bend = knee_of(spec, state.answers)
    if bend is not None:
        parts.append(on_one_line(f"knee at {plain(spec.axes[0].text(bend))}"))
    elif (plateau := plateau_of(spec, state.answers)) is not None:
        first, last = (plain(spec.axes[0].text(i)) for i in (plateau.first, plateau.last))
        parts.append(f"plateau from {first} to {last}")
    return " · ".join(parts)


def why_nothing(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> str:
    """Say why a sweep has no plan at all, by the words of a point at which nothing stands in for it; else empty."""
    if any(result.value_ms is not None for result in answers.values()):
        return ""
    told = [index for index in sorted(answers, reverse=True) if answers[index].method != BY_NEIGHBOUR]
    message = answers[told[0]].message if told else ""
    is_proven = all(result.status is SolveStatus.INFEASIBLE for result in answers.values())
    lead = "No point of this sweep has a plan" + (", which is proven." if is_proven else "; allow more time.")
    return f"{lead} With {hardware_text(spec, told[0])}: {message}" if message else lead


def why_stopped(answers: Mapping[Index, SolveResult]) -> str:
    """Say how many points were ended at a limit, and why in the words of the first; else empty."""
    stopped = [answers[index] for index in sorted(answers) if answers[index].method.endswith(STOPPED)]
    if not stopped:
        return ""
    held = "its best plan and bound are" if len(stopped) == 1 else "their best plans and bounds are"
    return f"{counted(len(stopped), 'point')} ended early, {held} kept. {stopped[0].message}"


def legend(picture: "Picture") -> str:
    """Say how to read the picture: no more than what is in it."""
    spec, answers = picture.spec, picture.answers
    is_curve = len(spec.axes) == 1
    parts = [f"Click a {'point' if is_curve else 'cell'} to open it in the explorer."]
    if not is_curve:
        parts.append("The darker a cell, the better.")
        parts.append("Lines join equal values." if picture.has_iso_lines else "")
        parts.append("Lines part cells between which values pass a round number." if _has_borders(picture) else "")
        parts.append("Hatched cells have no plan, proven." if any(map(picture.is_infeasible, answers)) else "")
        parts.append("Pale cells are not solved." if len(answers) < spec.num_points else "")
    if picture.knee is not None:
        parts.append(
            "The knee is where throughput begins to rise ever more slowly (Kneedle, Satopaa et al. 2011, on the axis "
            "as drawn)."
        )
    if picture.plateau is not None:
        parts.append(plateau_text(spec, picture.plateau))
    if any(map(picture.is_unproven, answers)):
        marked = "Open points" if is_curve and spec.axes[0].quantity.is_monotone else f"Values with {MARK}"
        parts.append(f"{marked} are not proven optimal: a better plan may exist.")
    if picture.measure is not Measure.TIME:
        parts.append(latency_note(spec, answers))
    if picture.measure is Measure.PER_COST and picture.prices.count_alike:
        parts.append(f"{NO_PRICES} Set your prices above.")
    return " ".join(filter(None, parts))


def _has_borders(picture: "Picture") -> bool:
    return picture.has_steps and not picture.has_iso_lines


def _clickable(figure: Any, key: str, alt: str) -> None:
    st.plotly_chart(
        figure,
        key=key,
        on_select=lambda: _open(key),
        selection_mode="points",
        config={"displayModeBar": False},
        alt=alt,
    )
    if session.wants_explore():
        st.rerun()  # the whole page: navigation is above it
    if (why := session.take_why_not_opened()) is not None:
        st.warning(plain(why))


def _open(key: str) -> None:
    """Have the explorer show the hardware of the point that was clicked on."""
    sweep = session.sweep()
    points = widgets.value(key).selection.points
    if sweep is None or not points or "customdata" not in points[0]:
        return
    custom = points[0]["customdata"]
    number = custom[0] if isinstance(custom, list | tuple) else custom
    index = sorted(sweep.run.spec.points())[int(number)]
    try:
        link = link_to_point(sweep.run.spec, sweep.subject, index)
        session.go_to_explore(replace(link, keep=session.keep_number()))
    except PlacementError as error:
        session.remember_not_opened(str(error))


def _downloads(sweep: Sweep, state: SweepState) -> None:
    spec = sweep.run.spec
    known = prices_of(spec)
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: csv_of(sweep_rows(spec, state.answers, known)),
            "sweep.csv",
            "text/csv",
            on_click="ignore",
            key="sweep_csv",
        )
        st.download_button(
            "Parquet",
            lambda: parquet_of(sweep_rows(spec, state.answers, known)),
            "sweep.parquet",
            "application/vnd.apache.parquet",
            on_click="ignore",
            key="sweep_parquet",
        )
