"""The shape of throughput over a count of devices: where it bends for good, and where it only stands still for a while.

Nodes are indivisible, so throughput over a count is a staircase: of n equal blocks some device of k has at least
ceil(n / k), which stays the same over several k and then falls. A knee says that more devices bring ever less. Where a
later step is again steeper than the mean of the whole curve that is false, and there is none: instead the stretch
before that step is a plateau, and its end is where more devices pay again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from solvers.model.graph import DnnGraph
from solvers.model.result import SolveResult
from solvers.quantities import as_given, counted, number, percent
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.measures import MS_PER_SECOND, knee, throughput
from solvers.sweep.spec import Index, SweepSpec

FLAT = 0.01
"""A stretch of a curve over which it changes by at most this share is flat."""
STEEPER = 1e-9
COUNTS = (Quantity.ACCELERATORS, Quantity.COUNT)
DIGITS_OF_TIMES = 6


@dataclass(frozen=True, slots=True)
class Plateau:
    """Values of an axis, by number from `first` to `last`, between which throughput stands still before it rises.

    `rise` is the share by which the value behind `last` is faster; `reason` a sentence, empty where none is known.
    """

    first: int
    last: int
    rise: float
    reason: str


def knee_of(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> int | None:
    """Return the index of the knee of throughput over the only axis of a sweep, on the axis as it is drawn.

    None until every point is solved: what looks like a knee among some points may be none among all; and where a later
    step is steeper again than the curve is on average.
    """
    curve = _curve(spec, answers)
    if curve is None:
        return None
    places, xs, ys = curve
    bend = knee(xs, ys)
    return None if bend is None or _steep_steps(xs, ys, bend) else places[bend]


def plateau_of(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> Plateau | None:
    """Return the longest stretch of a sweep over a count over which throughput stands still before it rises steeply.

    Of equally long ones the last. None where there is none or there is a knee, on other axes, and until every point is
    solved.
    """
    curve = _curve(spec, answers)
    if curve is None or spec.axes[0].quantity not in COUNTS or knee_of(spec, answers) is not None:
        return None
    places, xs, ys = curve
    best: tuple[int, int] | None = None
    for step in _steep_steps(xs, ys, 0):
        first = step
        while first > 0 and ys[first - 1] >= ys[step] * (1 - FLAT):
            first -= 1
        if first < step and (best is None or step - first >= best[1] - best[0]):
            best = first, step
    if best is None:
        return None
    first, last = best
    rise = ys[last + 1] / ys[last] - 1
    counts = [round(xs_at) for xs_at in (_count(spec.axes[0], places[i]) for i in (first, last, last + 1))]
    reason = ""
    if spec.axes[0].quantity is Quantity.ACCELERATORS:
        reason = _reason(spec.graph, *counts, within_ms=MS_PER_SECOND / ys[last] if spec.deployment.num_cpus else 0.0)
    return Plateau(places[first], places[last], rise, reason)


def plateau_text(spec: SweepSpec, plateau: Plateau) -> str:
    """Say in one or two sentences between which counts nothing is gained, what the next one brings, and why."""
    axis = spec.axes[0]
    behind = axis.text(plateau.last + 1)
    first, last = (as_given(_count(axis, i)) for i in (plateau.first, plateau.last))
    said = f"Plateau from {first} to {last}: no knee, since {behind} are {percent(plateau.rise)} faster."
    return f"{said} {plateau.reason}".rstrip()


def _count(axis: Axis, i: int) -> float:
    value = axis.values[i]
    assert not isinstance(value, str)
    return float(value)


def _curve(spec: SweepSpec, answers: Mapping[Index, SolveResult]) -> tuple[list[int], list[float], list[float]] | None:
    """Return which values have a plan, where they are drawn, and their throughput; None where there is no curve."""
    if len(spec.axes) != 1 or not spec.axes[0].quantity.is_monotone or len(answers) < spec.num_points:
        return None
    axis = spec.axes[0]
    found = [
        (i, rate)
        for i in range(len(axis.values))
        if (i,) in answers and (rate := throughput(answers[(i,)])) is not None
    ]
    if axis.quantity.is_easier_when_less or not found:
        return None
    xs = [_count(axis, i) for i, _ in found]
    return [i for i, _ in found], [math.log(x) for x in xs] if axis.is_logarithmic else xs, [rate for _, rate in found]


def _steep_steps(xs: list[float], ys: list[float], first: int) -> list[int]:
    """Return the points, from `first` on, behind which the curve rises more steeply than it does on average."""
    if len(xs) < 2 or ys[-1] <= ys[0]:
        return []
    mean = (max(ys) - min(ys)) / (xs[-1] - xs[0])
    return [i for i in range(first, len(xs) - 1) if ys[i + 1] - ys[i] > (mean + STEEPER) * (xs[i + 1] - xs[i])]


def _reason(graph: DnnGraph, first: int, last: int, behind: int, *, within_ms: float) -> str:
    """Say how equal layers divide over counts of devices, where that is why throughput stands still, then rises.

    It is not where a CPU can have such a layer `within_ms`, so that accelerators have fewer.
    """
    if not first:  # CPUs alone
        return ""
    layers: dict[str, float] = {}
    on_cpu: dict[str, float] = {}
    for node in graph.nodes:
        name = node.layer or f"node {node.id}"
        layers[name] = layers.get(name, 0.0) + node.accelerator_ms
        on_cpu[name] = on_cpu.get(name, 0.0) + node.cpu_ms
    alike: dict[str, list[str]] = {}
    for name, ms in layers.items():
        alike.setdefault(number(ms, DIGITS_OF_TIMES), []).append(name)
    equal = max(alike.values(), key=len)
    blocks = [layers[name] for name in equal]
    if min(on_cpu[name] for name in equal) <= within_ms:
        return ""
    num_blocks, is_most = len(blocks), sum(blocks) > sum(layers.values()) / 2
    most, fewest, after = (math.ceil(num_blocks / k) for k in (first, last, behind))
    if num_blocks < 2 or not is_most or most != fewest or after >= fewest:
        return ""
    return (
        f"The graph has {counted(num_blocks, 'equal layer')}. Where layers are kept whole, one of up to {last} "
        f"accelerators has {fewest} or more of them; of {behind} none needs more than {after}."
    )
