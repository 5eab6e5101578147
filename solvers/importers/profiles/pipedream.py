"""Import a profile of PipeDream: `graph.txt`, as its profiler writes it.

A line is a layer, or an edge where it starts with a tab:

    node4 -- Embedding(32320, 1024) -- forward_compute_time=0.073, backward_compute_time=6.949, activation_size=6291456,
    parameter_size=132382720.000
    <tab>node4 -- node5

Times are in ms and sizes in bytes, per micro-batch; a layer that returns several tensors has the size of each:
`activation_size=[6291456.0; 131072.0]`. A partitioned file has ` -- stage_id=0` at the end of a layer.
(https://github.com/msr-fiddle/pipedream, graph/graph.py; Narayanan et al., "PipeDream", SOSP 2019, section 3.1.)

Inputs are left out, as PipeDream's optimizer does: their time is that of loading data. So are `__getitem__` layers that
nobody reads. (optimizer/optimizer_graph_hierarchical.py)
"""

import re

from solvers.importers.checked import short
from solvers.importers.imported import Imported
from solvers.importers.limits import MAX_PROFILE_BYTES, MAX_PROFILE_EDGES, MAX_PROFILE_NODES
from solvers.importers.profiles.measured import MeasuredLayer, Profile, imported_profile
from solvers.importers.workload import STATE_BYTES, Devices, TimeUnit, Workload
from solvers.model.errors import SourceError
from solvers.quantities import count, counted, number

PARAMETER_BYTES = 4.0
"""Of a weight: PipeDream trains in fp32."""
SIZES = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
NUMBER = re.compile(r"\d+(\.\d*)?(e[+-]?\d+)?", re.ASCII)
STAGE = re.compile(r"stage_id=\d+", re.ASCII)
SIGN = b"forward_compute_time="
"""What a profile has in its first line, and no other file that is imported."""


def import_pipedream(content: bytes, workload: Workload, devices: Devices, source: str, title: str = "") -> Imported:
    """Return the training graph of a graph.txt; SourceError names the line that cannot be read."""
    if len(content) > MAX_PROFILE_BYTES:
        raise SourceError(f"The profile is too long; up to {MAX_PROFILE_BYTES // 2**20} MiB are read.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise SourceError("The profile is not in UTF-8; give a graph.txt of PipeDream.") from None
    unit = workload.time_unit or TimeUnit.MILLISECONDS
    layers: dict[str, MeasuredLayer] = {}
    edges: dict[tuple[str, str], None] = {}
    num_stages = 0
    for line_number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        parts = [part.strip() for part in line.strip().split(" -- ")]
        if line.startswith("\t"):
            if len(parts) != 2 or not all(part in layers for part in parts):
                raise SourceError(
                    f"Line {line_number} is {short(line)}; give an edge between two layers listed above it."
                )
            edges[parts[0], parts[1]] = None
            continue
        if len(parts) < 3 or parts[0] in layers:
            what = "is listed twice" if parts[0] in layers else "is no layer"
            raise SourceError(f"Line {line_number} ({short(line)}) {what}; give name, description and sizes, once.")
        if len(parts) > 3 and not STAGE.fullmatch(parts[3]):
            raise SourceError(f"Line {line_number} ends in {short(parts[3])}; give a stage_id or leave it out.")
        num_stages += len(parts) > 3
        layers[parts[0]] = _layer(parts, line_number, unit)
        if len(layers) > MAX_PROFILE_NODES or len(edges) > MAX_PROFILE_EDGES:
            raise SourceError(
                f"The profile has too many lines; {count(MAX_PROFILE_NODES)} layers or {count(MAX_PROFILE_EDGES)} edges"
                " are read at most."
            )
    kept = _without_inputs(layers, edges)
    if not kept:
        raise SourceError("The profile has no layer besides inputs; give a graph.txt with layers.")
    place = {name: v for v, name in enumerate(_in_order(kept, edges))}
    profile = Profile(
        title or "PipeDream profile",
        [layers[name] for name in place],
        {(place[u], place[v]): layers[u].activation_bytes for u, v in edges if u in place and v in place},
    )
    said = [
        f"Times are taken to be in {unit}, sizes in bytes; both are of one micro-batch, of the size that was profiled.",
        f"Training takes {number(STATE_BYTES)} bytes per parameter of {number(PARAMETER_BYTES)} bytes (weight, "
        "gradient, Adam's moments), and a layer keeps its output for the backward pass.",
        "A layer that returns several tensors sends them together.",
    ]
    if num_left_out := len(layers) - len(kept):
        verb = "is" if num_left_out == 1 else "are"
        said.append(
            f"{counted(num_left_out, 'layer')} {verb} left out, as PipeDream's optimizer does: inputs, whose time is "
            "that of loading data, and items that nobody reads."
        )
    if num_stages:
        said.append("The file's own stages (stage_id) are not read.")
    return imported_profile(profile, workload, devices, source, said)


def _layer(parts: list[str], line_number: int, unit: TimeUnit) -> MeasuredLayer:
    values: dict[str, float] = {}
    for field in parts[2].split(", "):
        name, _, value = field.partition("=")
        items = value[1:-1].split("; ") if value.startswith("[") and value.endswith("]") else [value]
        if name not in SIZES or name in values or not all(NUMBER.fullmatch(item) for item in items):
            raise SourceError(f"Line {line_number} has {short(field)}; give each of {', '.join(SIZES)} once, from 0.")
        values[name] = sum(map(float, items))
    if len(values) < len(SIZES):
        missing = next(name for name in SIZES if name not in values)
        raise SourceError(f"Line {line_number} has no {missing}; give it.")
    forward, backward, activation, parameter = (values[name] for name in SIZES)
    name = f"{parts[0]} {parts[1]}"
    return MeasuredLayer(
        "".join(c if c.isprintable() else " " for c in name[:120]),
        forward * unit.ms,
        backward * unit.ms,
        parameter,
        parameter * STATE_BYTES / PARAMETER_BYTES,
        activation,
    )


def _without_inputs(layers: dict[str, MeasuredLayer], edges: dict[tuple[str, str], None]) -> set[str]:
    read, reads = {u for u, _ in edges}, {v for _, v in edges}

    def is_left_out(name: str) -> bool:
        described = layers[name].name.removeprefix(f"{name} ")
        return (name not in reads and described.startswith("Input")) or (
            name not in read and described.startswith("__getitem__")
        )

    return {name for name in layers if not is_left_out(name)}


def _in_order(kept: set[str], edges: dict[tuple[str, str], None]) -> list[str]:
    """Return the layers so that each comes after those it reads; SourceError where they read each other."""
    missing = dict.fromkeys(sorted(kept), 0)
    readers: dict[str, list[str]] = {name: [] for name in kept}
    for u, v in edges:
        if u in kept and v in kept:
            missing[v] += 1
            readers[u].append(v)
    order = [name for name, count in missing.items() if count == 0]
    for u in order:
        for v in readers[u]:
            missing[v] -= 1
            if missing[v] == 0:
                order.append(v)
    if len(order) < len(kept):
        name = next(name for name, count in missing.items() if count)
        raise SourceError(f"The layer {short(name)} reads its own output by a circle of edges; remove one of them.")
    return order
