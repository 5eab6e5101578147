"""What the model assumes beyond counts and sizes: how transfers overlap, servers, replicas, what counts as memory."""

import streamlit as st

from explorer.form.widget import widget
from solvers.parameters.asked import Asking
from solvers.parameters.hardware import PER_SERVER, SERVER_LINK_SPEED
from solvers.parameters.question import COMMUNICATION, GAP, MAX_REPLICAS, SUBGRAPHS, SYNC_BANDWIDTH
from solvers.parameters.schedule import MEMORY_SCHEDULE, STATE_FACTOR


def edit_assumptions(asking: Asking, digest: str) -> None:
    """Draw what applies to the question so far, folded away."""
    with st.expander("Assumptions"):
        widget(SUBGRAPHS, asking, f"subgraphs_{digest}")
        widget(COMMUNICATION, asking, f"transfers_{digest}")
        widget(PER_SERVER, asking, f"per_server_{digest}", placeholder="no servers")
        widget(SERVER_LINK_SPEED, asking, f"server_links_{digest}")
        widget(MEMORY_SCHEDULE, asking, f"in_flight_{digest}")
        widget(STATE_FACTOR, asking, f"state_factor_{digest}", placeholder="from the sizes")
        widget(MAX_REPLICAS, asking, f"replicas_{digest}")
        widget(SYNC_BANDWIDTH, asking, f"sync_bandwidth_{digest}", placeholder="as the links")
        widget(GAP, asking, f"gap_{digest}", step=0.5)
