"""The schedule of the timeline, and what some schedules ask for besides micro-batches."""

import streamlit as st

from explorer.form.widget import widget
from solvers.parameters.asked import Asking
from solvers.parameters.schedule import (
    INFERENCE_HELP,
    MICRO_BATCHES,
    NUM_CHUNKS,
    SCHEDULE,
    TRAINING_HELP,
    WEIGHT_GRADIENTS,
    schedules,
)


def edit_schedule(asking: Asking, digest: str) -> None:
    """Draw the schedule, and what it asks for."""
    asked = asking.asked
    kinds = schedules(asked)
    first = kinds.index(SCHEDULE.usual(asked))
    left, right = st.columns([3, 2])
    told = TRAINING_HELP if asked.graph.is_training else INFERENCE_HELP
    widget(SCHEDULE, asking, f"schedule_{len(kinds)}_{first}", left, persists=False, help=told)
    widget(MICRO_BATCHES, asking, f"micro_batches_{digest}", right)
    widget(NUM_CHUNKS, asking, "chunks")
    widget(WEIGHT_GRADIENTS, asking, "weight_gradients", step=5.0)
