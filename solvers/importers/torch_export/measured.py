"""Put measured times of a program's operators into a graph that was imported from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from solvers.importers.layers import blocks, depths
from solvers.importers.measured import NOTHING, Timing, with_times
from solvers.importers.torch_export.program import parse_program
from solvers.importers.torch_export.translate import translate
from solvers.importers.workload import Tied
from solvers.model.graph import DnnGraph, TimesOrigin


def with_measured_times(
    graph: DnnGraph,
    document: Mapping[str, Any],
    timings: Mapping[str, Sequence[Timing]],
    *,
    into: str,
    origin: TimesOrigin,
) -> DnnGraph:
    """Return the graph with measured times, on its accelerators, its CPUs or a class of accelerators.

    `document` is the JSON of the program's archive, `timings` has the calls of each operator by its name in it, in
    the order they ran. A view is no operator, and what it takes counts with the operator whose output it is one of.
    `origin` says what was measured; its host is the graph's own. SourceError where the graph was not imported from this
    program.
    """
    program = parse_program(document, {})
    found = translate(program, "", 2.0, Tied.SHARE)
    left = {name: list(calls) for name, calls in timings.items()}
    times: list[Timing] = []
    for op in found.network.ops:
        calls = left.get(op.name.rpartition(" ")[2], [])
        times.append(calls.pop(0) if calls and not op.is_view else Timing(NOTHING))
    for name, v in found.views:
        if left.get(name):
            times[v] = times[v] + left[name].pop(0)
    return with_times(
        graph,
        found.network.ops,
        (blocks(found.modules), *depths(found.modules)),
        times,
        into=into,
        origin=origin,
        remedy="make it again with `placement import MODEL.pt2`, or with `graph_of` for the same arguments",
    )
