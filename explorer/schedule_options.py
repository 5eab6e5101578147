"""What some schedules ask for besides micro-batches: chunks per device, and how the backward pass is divided."""

from dataclasses import dataclass

import streamlit as st

from explorer.address import bound
from solvers.schedule_types import WEIGHT_GRADIENT_SHARE, ZERO_BUBBLE_KINDS, ScheduleKind

MAX_CHUNKS = 8
CHUNKS = 2

NAMES = {
    ScheduleKind.INFERENCE: "Pipelined",
    ScheduleKind.SINGLE_STREAM: "Single stream",
    ScheduleKind.ONE_F_ONE_B: "1F1B",
    ScheduleKind.GPIPE: "GPipe",
    ScheduleKind.PIPEDREAM: "PipeDream",
    ScheduleKind.INTERLEAVED: "Interleaved",
    ScheduleKind.ZB_H1: "ZB-H1",
    ScheduleKind.ZB_V: "ZB-V",
    ScheduleKind.UNPIPELINED: "Unpipelined",
}
TRAINING_HELP = (
    "1F1B and GPipe update the weights once, after all micro-batches; PipeDream goes on without a pause and keeps old "
    "weights. Interleaved 1F1B and ZB-V run several chunks of the pipeline on each device. ZB-H1 and ZB-V fill idle "
    "time with weight gradients. Unpipelined is one micro-batch on one device at a time, for comparison."
)
INFERENCE_HELP = (
    "Pipelined keeps all devices at work on different samples. Single stream waits for each sample to be done, though "
    "branches run side by side; unpipelined runs one device at a time."
)


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """`chunks` per device, for schedules with several; `weight_gradient_share` of a backward pass, from 0 to 1."""

    chunks: int = CHUNKS
    weight_gradient_share: float = WEIGHT_GRADIENT_SHARE


USUAL_OPTIONS = ScheduleOptions()


def edit_schedule_options(kind: ScheduleKind) -> ScheduleOptions:
    """Draw what a schedule asks for, nothing for most, and return it."""
    chunks, share, usual = CHUNKS, WEIGHT_GRADIENT_SHARE, round(100 * WEIGHT_GRADIENT_SHARE)
    if kind is ScheduleKind.INTERLEAVED:
        bound("chunks", "chunks", CHUNKS, range(2, MAX_CHUNKS + 1))
        chunks = st.number_input(
            "Chunks per device",
            2,
            MAX_CHUNKS,
            CHUNKS,
            key="chunks",
            persist_state="session",
            help="More chunks fill and drain the pipeline faster, and pay for more transfers.",
        )
    if kind in ZERO_BUBBLE_KINDS:
        bound("weight_gradients", "weight_gradients", usual, range(101))
        percent = st.number_input(
            "Weight gradients (% of backward)",
            0,
            100,
            usual,
            5,
            key="weight_gradients",
            persist_state="session",
            help="The part of each backward pass that nobody waits for. Graphs do not tell it; in a matrix product the "
            "gradients of weights and inputs take the same time.",
        )
        share = percent / 100
    return ScheduleOptions(int(chunks), share)
