"""The side bar, in its order: graph, devices, plan, timeline -> Choice."""

from collections.abc import Callable
from typing import Literal

import streamlit as st

from explorer.form.assumptions import edit_assumptions
from explorer.form.counts import edit_counts
from explorer.form.devices import pick_devices
from explorer.form.graph import pick_graph
from explorer.form.importing import show_next
from explorer.form.schedule import edit_schedule
from explorer.form.widget import widget
from explorer.jobs.record import Question
from explorer.server.limits import longest_limit_s
from explorer.state import session, widgets
from explorer.state.address import settle
from explorer.state.choice import Choice
from solvers.parameters.asked import Asking, begin
from solvers.parameters.question import EXPRESSIBLE_IN, FAMILY, METHOD, OBJECTIVE, TIME_LIMIT, methods


def sidebar(feels_live: Callable[[Question], bool]) -> Choice:
    """Draw the sidebar and return what is chosen; a graph that cannot be read leaves the last one in place.

    `feels_live` tells whether the plan follows the inputs by itself; then the button to solve has less weight.
    """
    with st.sidebar:
        st.markdown("#### Graph")
        loaded = pick_graph()
        digest = loaded.graph.digest
        st.markdown("#### Hardware")
        picked = pick_devices(loaded)
        asking = Asking(begin(picked.graph, picked.deployment, loaded.deployment, longest_limit_s()))
        edit_counts(asking, loaded, picked)
        st.markdown("#### Plan")
        widget(OBJECTIVE, asking, f"objective_{digest}_2", persists=False)
        widget(FAMILY, asking, f"family_{digest}")
        edit_assumptions(asking, digest)
        widget(EXPRESSIBLE_IN, asking, f"expressible_in_{digest}")
        left, right = st.columns([3, 2])
        widget(METHOD, asking, f"method_{digest}_{'_'.join(methods(asking.asked))}", left, persists=False)
        widget(TIME_LIMIT, asking, "time_limit", right, persists=False, step=1.0)
        button = st.container()
        st.markdown("#### Timeline")
        edit_schedule(asking, digest)
        settle()
        show_next()
        choice = Choice(loaded, asking.asked)
        weight: Literal["primary", "secondary"] = "secondary" if feels_live(choice.question) else "primary"
        button.button(
            "Solve",
            type=weight,
            width="stretch",
            key=session.SOLVE_KEY,
            on_click=widgets.press,
            args=(session.SOLVE_KEY,),
            shortcut="Ctrl+Enter",
        )
    return Choice(loaded, asking.asked, widgets.is_pressed(session.SOLVE_KEY))
