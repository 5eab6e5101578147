"""Sweep: one quantity of the hardware or two over ranges of values, solved beside the page; a curve or a heat map."""

from typing import Any

import streamlit as st

from explorer import session
from explorer.results import theme
from explorer.solver_pool import is_open
from explorer.sweep_inputs import SweepChoice, link_to_point, query_of_sweep, sweep_sidebar
from explorer.sweep_run import SweepRun, SweepState
from explorer.wording import plain
from solvers.errors import PlacementError
from solvers.result import SolveStatus
from solvers.sweep_analysis import MAX_PRICE, Measure, Prices
from solvers.sweep_axes import Quantity
from solvers.sweep_table import csv_of, knee_of, parquet_of, sweep_rows

POLL_SECONDS = 1.0
MEASURES = {
    Measure.THROUGHPUT: "Throughput",
    Measure.TIME: "Time per sample",
    Measure.PER_DEVICE: "Per accelerator",
    Measure.PER_COST: "Per cost",
}


def show() -> None:
    """Draw the page."""
    st.markdown("### Sweep")
    choice = sweep_sidebar()
    if choice.asks_to_start:
        _start(choice)
    _write_address(choice)
    sweep = session.sweep()
    if sweep is None:
        st.info("Choose what varies at the side, and start. Points are drawn as they are solved, coarse to fine.")
        return
    sweep.run.session = session.session_id()
    _measure_and_prices()
    if sweep.run.state().is_running:
        st.fragment(run_every=POLL_SECONDS)(_poll)()
    else:
        _show(sweep)


def _start(choice: SweepChoice) -> None:
    """Begin a sweep in the place of the one before, which ends."""
    try:
        spec = choice.spec()
    except PlacementError as error:
        st.error(plain(str(error)))
        return
    before = session.sweep()
    if before is not None:
        before.run.cancel()
    run = SweepRun(spec, session.session_id(), is_open, choice.dask_address)
    session.remember_sweep(session.Sweep(run, choice.subject))
    run.start()


def _write_address(choice: SweepChoice) -> None:
    """Put axes and question into the address, where they differ from what it says."""
    from explorer.address import query_of

    query = {**query_of(choice.subject.link), **query_of_sweep(choice)}
    keep = st.query_params.get("keep")
    if keep is not None:
        query["keep"] = keep
    if dict(st.query_params) != query:
        st.query_params.from_dict(query)


def _measure_and_prices() -> None:
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
        for label, key, usual in (
            ("Accelerator, per hour", "sweep_price", 1.0),
            ("CPU, per hour", "sweep_cpu_price", 0.0),
        ):
            st.number_input(
                label,
                0.0,
                MAX_PRICE,
                usual,
                step=0.1,
                format="%.4g",
                key=key,
                persist_state="session",
                width=170,
                help="In any currency; costs count every device of a point, used or idle.",
            )


def _prices() -> Prices:
    return Prices(
        float(st.session_state.get("sweep_price") or 0.0), float(st.session_state.get("sweep_cpu_price") or 0.0)
    )


def _poll() -> None:
    sweep = session.sweep()
    if sweep is None or not sweep.run.state().is_running:
        st.rerun()
    _show(sweep)


def _show(sweep: "session.Sweep") -> None:
    """Draw the state of a sweep: how far it is, its picture, what follows from it, and downloads."""
    from explorer.sweep_figures import Picture, pareto_figure, sweep_figure  # Plotly loads here, when it is needed

    state = sweep.run.state()
    _progress(sweep, state)
    picture = Picture(
        sweep.run.spec, state.answers, st.session_state.get("sweep_measure") or Measure.THROUGHPUT, _prices(), theme()
    )
    st.markdown(_summary(sweep, state))
    _clickable(sweep_figure(picture), "sweep_picture", "The sweep: each point or cell is one set of hardware")
    st.caption(_legend(sweep))
    if state.is_running:
        return
    _downloads(sweep, state)
    if any(axis.quantity is not Quantity.OBJECTIVE for axis in sweep.run.spec.axes):
        st.markdown("##### Throughput against cost")
        _clickable(pareto_figure(picture), "sweep_pareto", "Throughput of every point against its cost per hour")
        st.caption("Diamonds are the Pareto front: no other point costs as little and is as fast.")


def _progress(sweep: "session.Sweep", state: SweepState) -> None:
    total, done = sweep.run.spec.num_points, len(state.answers)
    with st.container(horizontal=True, vertical_alignment="center"):
        if state.is_running:
            st.progress(done / total, f"{done} of {total} points · {state.seconds:.0f} s")
            st.button("Cancel", key="cancel_sweep", on_click=sweep.run.cancel)
        elif done < total or state.num_failed:
            missing = state.num_failed if done == total else total - done
            st.progress(done / total, f"{done} of {total} points · {missing} to go")
            st.button("Resume", key="resume_sweep", on_click=sweep.run.start, type="primary")
    if state.error:
        st.error(plain(state.error))
        if state.details:
            with st.expander("Details"):
                st.code(state.details, language=None)


def _summary(sweep: "session.Sweep", state: SweepState) -> str:
    """Say in a line what was swept and what came out."""
    spec = sweep.run.spec
    axes = " × ".join(f"{axis.quantity} ({len(axis.values)})" for axis in spec.axes)
    parts = [f"**{plain(sweep.subject.loaded.origin)}**", plain(axes)]
    if not state.is_running and len(state.answers) == spec.num_points:
        parts.append(f"{spec.num_points} points in {state.seconds:.1f} s")
    statuses = [result.status for result in state.answers.values()]
    if statuses and all(status in (SolveStatus.OPTIMAL, SolveStatus.INFEASIBLE) for status in statuses):
        parts.append("all optimal, proven" if SolveStatus.INFEASIBLE not in statuses else "all proven")
    elif statuses:
        parts.append(f"{sum(s is SolveStatus.OPTIMAL for s in statuses)} proven optimal")
    infeasible = sum(status is SolveStatus.INFEASIBLE for status in statuses)
    if infeasible:
        parts.append(f"{infeasible} infeasible")
    bend = knee_of(spec, state.answers)
    if bend is not None:
        parts.append(f"knee at {plain(spec.axes[0].quantity.text(spec.axes[0].values[bend]))}")
    return " · ".join(parts)


def _legend(sweep: "session.Sweep") -> str:
    if len(sweep.run.spec.axes) == 1:
        return (
            "Click a point to open it in the explorer. The knee is where throughput begins to rise ever more slowly "
            "(Kneedle, Satopaa et al. 2011, on the axis as drawn)."
        )
    return (
        "Click a cell to open it in the explorer. Lines join equal values; grey hatched cells have no plan, proven; "
        "pale ones are not solved yet."
    )


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


def _open(key: str) -> None:
    """Have the explorer show the hardware of the point that was clicked on."""
    sweep = session.sweep()
    points = st.session_state[key].selection.points
    if sweep is None or not points or "customdata" not in points[0]:
        return
    custom = points[0]["customdata"]
    number = custom[0] if isinstance(custom, list | tuple) else custom
    index = sorted(sweep.run.spec.points())[int(number)]
    session.go_to_explore(link_to_point(sweep.run.spec, sweep.subject, index))


def _downloads(sweep: "session.Sweep", state: SweepState) -> None:
    prices, spec = _prices(), sweep.run.spec
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: csv_of(sweep_rows(spec, state.answers, prices)),
            "sweep.csv",
            "text/csv",
            on_click="ignore",
            key="sweep_csv",
        )
        st.download_button(
            "Parquet",
            lambda: parquet_of(sweep_rows(spec, state.answers, prices)),
            "sweep.parquet",
            "application/vnd.apache.parquet",
            on_click="ignore",
            key="sweep_parquet",
        )
