"""Messages to the canvas component, read back, and the views they are made of."""

import json
import struct
from typing import Any

import numpy as np

from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from solvers.model.deployment import Deployment
from solvers.schedule.simulate import ScheduleKind, simulate
from tests.support.graphs import chain, one_node_per_device

DTYPES = {"f4": np.float32, "f8": np.float64, "i4": np.int32, "u1": np.uint8}


def views(times: tuple[float, ...] = (2.0, 3.0)) -> tuple[Any, Any]:
    graph = chain(times, transfer_ms=0.5)
    deployment = Deployment(len(times), 1)
    split = one_node_per_device(graph)
    schedule = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 5)
    return dag_info(graph, deployment, split), gantt_info(schedule, deployment)


def unpack(message: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a message as `canvas/data/payload.js` does; NaN and Infinity are refused as in a browser."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    (length,) = struct.unpack_from("<I", message)
    header = json.loads(message[4 : 4 + length], parse_constant=refuse)
    base = -(-(4 + length) // 8) * 8
    arrays = {
        name: np.frombuffer(message, DTYPES[dtype], count, base + offset)
        for name, (dtype, offset, count) in header["arrays"].items()
    }
    return header, arrays
