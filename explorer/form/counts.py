"""Counts, memory and links of the devices; every graph keeps edits of its own, starting from its file.

Memory and bandwidth start anew with every choice of devices, which brings its own.
"""

import streamlit as st

from explorer.form.widget import widget
from explorer.state import widgets
from explorer.state.records import LoadedGraph
from explorer.words.devices_text import links_text
from explorer.words.wording import plain
from solvers.hardware.equipment import Equipped
from solvers.model.graph import DnnGraph
from solvers.parameters.asked import Asking
from solvers.parameters.hardware import ACCELERATORS, BANDWIDTH, BANDWIDTH_FACTOR, BYTES_PER_MS, CPUS, MEMORY
from solvers.quantities import bandwidth

IMPLAUSIBLE_BANDWIDTH_GB_S = 500.0
"""No link to host memory is this fast; a file that implies more most likely gives its costs in seconds."""


def edit_counts(asking: Asking, loaded: LoadedGraph, picked: Equipped) -> None:
    """Draw counts, memory and links."""
    digest, graph = loaded.graph.digest, picked.graph
    left, right = st.columns(2)
    if picked.deployment.classes:
        widget(CPUS, asking, f"cpus_{digest}", left)
        return
    widget(ACCELERATORS, asking, f"accelerators_{digest}", left)
    widget(CPUS, asking, f"cpus_{digest}", right)
    left, right = st.columns(2)
    widget(MEMORY, asking, f"memory_{graph.digest}", left, step=1.0, placeholder="no limit")
    own = graph.bandwidth_bytes_per_ms
    if own is None:
        widget(BANDWIDTH_FACTOR, asking, f"factor_{graph.digest}", right, step=0.5)
    else:
        told = f"Between a device and host memory, in 10^9 bytes/s. The file implies {bandwidth(own)}."
        widget(BANDWIDTH, asking, _bandwidth_key(graph), right, step=1.0, help=told)
    if asking.asked.graph is graph and picked.links:
        st.caption(plain(" ".join(links_text(picked))))
    if own == loaded.graph.bandwidth_bytes_per_ms:  # of a link that was picked it is known
        _warn_of_implausible_bandwidth(graph)


def _bandwidth_key(graph: DnnGraph) -> str:
    return f"bandwidth_{graph.digest}"


def _warn_of_implausible_bandwidth(graph: DnnGraph) -> None:
    own = graph.bandwidth_bytes_per_ms
    if own is None or own / BYTES_PER_MS < IMPLAUSIBLE_BANDWIDTH_GB_S:
        return
    own_gb_s = own / BYTES_PER_MS
    key = _bandwidth_key(graph)

    def correct() -> None:
        widgets.show(key, own_gb_s / 1000)

    st.caption(
        f"The file's bytes and costs imply {bandwidth(own)}, more than any link to host memory: "
        "its costs are probably in seconds, not ms."
    )
    st.button(f"Use {bandwidth(own / 1000)}", on_click=correct, key=f"correct_{graph.digest}", type="tertiary")
