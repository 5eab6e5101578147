"""What a sweep looks like, shown before the first: one over accelerators for a bundled graph, solved as any other."""

import streamlit as st

from explorer.elements.headline import theme
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.jobs.sweep_run import SweepRun
from explorer.state import session
from explorer.words.wording import plain
from solvers.hardware.prices import Prices
from solvers.model.split import Family
from solvers.samples import read_sample, sample_info
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.measures import Measure
from solvers.sweep.plateau import plateau_of, plateau_text
from solvers.sweep.spec import SweepSpec

SAMPLE = "gpt2_xl_layer_inference"
ACCELERATORS = tuple(range(1, 13))
LIMIT_S = 10.0
NAME = "sweep example"
POLL_SECONDS = 0.5


def show_example() -> None:
    """Draw the example as far as it is solved."""
    run: SweepRun | None = session.batch(NAME)
    if run is None:
        run = SweepRun(example_spec(), session.session_id(), is_open, solver_pool())
        session.remember_batch(NAME, run)
        run.start()
    run.shown_in(session.session_id())
    st.markdown("##### An example")
    counts = f"{ACCELERATORS[0]} to {ACCELERATORS[-1]} accelerators"
    st.caption(f"{plain(sample_info(SAMPLE).title)} on {counts}, solved by this app. Your first sweep takes its place.")
    if run.state().is_running:
        st.fragment(run_every=POLL_SECONDS)(_poll)()
    else:
        _draw(run)


def example_spec() -> SweepSpec:
    """Return the sweep of the example."""
    graph, deployment = read_sample(SAMPLE)
    axes = (Axis(Quantity.ACCELERATORS, ACCELERATORS),)
    return SweepSpec(graph, deployment, axes, family=Family.CHAIN, time_limit_s=LIMIT_S)


def _poll() -> None:
    run: SweepRun | None = session.batch(NAME)
    if run is None or not run.state().is_running:
        st.rerun()
    _draw(run)


def _draw(run: SweepRun) -> None:
    from explorer.sweep.figures import Picture, sweep_figure  # Plotly loads here, when it is needed

    answers = run.state().answers
    picture = Picture(run.spec, answers, Measure.THROUGHPUT, Prices(), theme())
    st.plotly_chart(
        sweep_figure(picture),
        key="sweep_example",
        config={"displayModeBar": False},
        alt="Throughput of an example graph over the number of accelerators",
    )
    plateau = plateau_of(run.spec, answers) if len(answers) == run.spec.num_points else None
    if plateau is not None:
        st.caption(plain(plateau_text(run.spec, plateau)))
