"""What the model assumes beyond counts and sizes: how transfers overlap, replicas, what counts as memory."""

from dataclasses import dataclass, replace

import streamlit as st

from explorer.address import bound
from solvers.costs import Objective
from solvers.deployment import MAX_DEVICES, Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.graph import DnnGraph
from solvers.memory import why_static
from solvers.schedule import ScheduleKind
from solvers.split import Family

MAX_SUBGRAPHS = 16
USUAL_SERVER_LINK_SPEED = 8.0
"""What links within a server are at first, against those between servers: NVLink against a fast network, roughly."""
LARGEST_SERVER_LINK_SPEED = 1000.0
TRANSFERS = {
    Communication.SUM: "One after the other",
    Communication.OVERLAPPED: "Beside the compute",
    Communication.FULL_DUPLEX: "In and out at once",
}
IN_FLIGHT = {
    ScheduleKind.GPIPE: InFlight.GPIPE,
    ScheduleKind.ONE_F_ONE_B: InFlight.ONE_F_ONE_B,
    ScheduleKind.PIPEDREAM: InFlight.PIPEDREAM,
    ScheduleKind.INTERLEAVED: InFlight.ONE_F_ONE_B,
    ScheduleKind.ZB_H1: InFlight.ONE_F_ONE_B,
    ScheduleKind.ZB_V: InFlight.ONE_F_ONE_B,
}
"""The schedules of the timeline as far as memory goes; those that keep more than 1F1B are planned for like it."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The choices of the form; `on` makes them part of a deployment."""

    communication: Communication = Communication.SUM
    max_replicas: int = 1
    counts_in_flight: bool = False
    max_subgraphs: int = 1
    accelerators_per_server: int | None = None
    server_link_speed: float = 1.0

    def on(self, deployment: Deployment, schedule: ScheduleKind, num_micro_batches: int) -> Deployment:
        """Return the deployment under these assumptions, with memory for the schedule of the timeline if asked for."""
        memory = None
        if self.counts_in_flight and schedule in IN_FLIGHT:
            memory = TrainingMemory(IN_FLIGHT[schedule], num_micro_batches)
        replication = Replication(self.max_replicas) if self.max_replicas > 1 else None
        return replace(
            deployment,
            communication=self.communication,
            training_memory=memory,
            replication=replication,
            max_subgraphs=self.max_subgraphs,
            accelerators_per_server=self.accelerators_per_server,
            server_link_speed=self.server_link_speed,
        )


def edit_assumptions(
    graph: DnnGraph, deployment: Deployment, objective: Objective, family: Family, digest: str
) -> Assumptions:
    """Draw what applies to an objective and family of splits, folded away, and return what is chosen."""
    with st.expander("Assumptions"):
        if objective is Objective.LATENCY:
            bound("subgraphs", f"subgraphs_{digest}", 1, range(1, MAX_SUBGRAPHS + 1))
            max_subgraphs = st.number_input(
                "Subgraphs of an accelerator, up to",
                1,
                MAX_SUBGRAPHS,
                1,
                key=f"subgraphs_{digest}",
                persist_state="session",
                help="An accelerator runs so many sets of nodes one after the other, and may wait for others between "
                "them. With 1 it runs all its nodes in one go.",
            )
            return replace(_edit_servers(deployment, digest), max_subgraphs=int(max_subgraphs))
        bound("transfers", f"transfers_{digest}", Communication.SUM, TRANSFERS)
        communication = st.selectbox(
            "Transfers",
            list(TRANSFERS),
            format_func=TRANSFERS.__getitem__,
            key=f"transfers_{digest}",
            persist_state="session",
            help="Load of a device: compute + in + out; or the larger of compute and in + out, where transfers run "
            "beside the compute; or compute + the larger of in and out, where links are full duplex.",
        )
        servers = _edit_servers(deployment, digest)
        if family is not Family.CHAIN:
            return replace(servers, communication=communication)
        counts_in_flight = False
        if graph.is_training and why_static(graph, TrainingMemory(InFlight.ONE_F_ONE_B, 1)) is None:
            bound("in_flight", f"in_flight_{digest}", False, (False, True))
            counts_in_flight = st.toggle(
                "Memory of all micro-batches in flight",
                key=f"in_flight_{digest}",
                persist_state="session",
                help="Plan for the memory that the timeline's schedule takes: the activations of every micro-batch "
                "that a stage keeps. Interleaved 1F1B, ZB-H1 and ZB-V keep more than 1F1B, for which plans are made; "
                "a warning says where that is too little. Otherwise memory counts one micro-batch.",
            )
        # What replicas share is shown as one device, and numbers of devices would no longer tell their classes.
        several = deployment.num_accelerators > 1 and not deployment.classes and servers == Assumptions()
        if objective is not Objective.THROUGHPUT or counts_in_flight or not several:
            return replace(servers, communication=communication, counts_in_flight=counts_in_flight)
        replicas_key = f"replicas_{digest}"
        bound("replicas", replicas_key, 1, range(1, deployment.num_accelerators + 1))
        if st.session_state.get(replicas_key, 1) > deployment.num_accelerators:
            st.session_state[replicas_key] = deployment.num_accelerators  # the box would go back to 1 without a word
        max_replicas = st.number_input(
            "Replicas of a stage, up to",
            1,
            deployment.num_accelerators,
            1,
            key=replicas_key,
            persist_state="session",
            help="A stage on r accelerators takes turns at the samples: 1/r of its time each, and in training the "
            "all-reduce of its gradients besides. It takes up r of the accelerators.",
        )
    return Assumptions(communication, int(max_replicas), counts_in_flight)


def _edit_servers(deployment: Deployment, digest: str) -> Assumptions:
    """Ask how many accelerators share a server and how fast links are in it; no number means links are alike."""
    if deployment.num_accelerators < 2:
        return Assumptions()
    usual = deployment.accelerators_per_server
    per_server_key, speed_key = f"per_server_{digest}", f"server_links_{digest}"
    bound("per_server", per_server_key, usual, lambda value: value is None or 1 <= value <= MAX_DEVICES)
    # Its default is no value, or the box could not be emptied; so its first value is put there by hand.
    st.session_state.setdefault(per_server_key, usual)
    per_server = st.number_input(
        "Accelerators per server",
        1,
        MAX_DEVICES,
        None,
        key=per_server_key,
        persist_state="session",
        placeholder="no servers",
        help="The first so many accelerators are in one server, the next in another. Links within a server may be "
        "faster than those between servers and to CPUs. Plans are then the best found, with a bound that holds.",
    )
    if per_server is None:
        return Assumptions()
    speed = deployment.server_link_speed if usual is not None else USUAL_SERVER_LINK_SPEED
    bound("server_links", speed_key, speed, lambda value: 1 <= value <= LARGEST_SERVER_LINK_SPEED)
    server_link_speed = st.number_input(
        "Links within a server, times as fast",
        1.0,
        LARGEST_SERVER_LINK_SPEED,
        speed,
        format="%.4g",
        key=speed_key,
        persist_state="session",
    )
    return Assumptions(accelerators_per_server=int(per_server), server_link_speed=float(server_link_speed))
