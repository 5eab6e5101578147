"""How the inputs of the page come to ask for a change that would help."""

import math
from dataclasses import replace
from typing import Any

from explorer.form.devices import equipped_by
from explorer.plan.reload import page_link
from explorer.state.choice import Choice
from explorer.state.query import Link
from solvers.analysis.what_if import LINK_FACTOR, Change
from solvers.hardware.device_list import devices_text, parse_devices
from solvers.model.graph import DnnGraph
from solvers.parameters.asked import QUESTION, Values, asked, begin
from solvers.parameters.hardware import BANDWIDTH_FACTOR, DEVICE_LIST
from solvers.parameters.parameter import Asked, Parameter
from solvers.sweep.axes import Quantity, Varied, asked_at, listed_with

SAME = 1e-9
"""Relative difference of numbers that went through the units of an input."""


def link_that_asks(choice: Choice, change: Change) -> Link | None:
    """Return the page's link with the inputs that ask for a change; None for what no input says, as faster devices."""
    link = page_link(choice)
    before, after = choice.asked, _changed(choice.asked, change)
    if (of_type := _changed_of_one_type(before, after)) is not None:
        return link_with_kind(choice, *of_type)
    values = dict(link.values)
    for parameter in QUESTION:
        if (value := parameter.get(after)) != parameter.get(before):
            values[parameter.name] = value
    if change.graph.digest != before.graph.digest and not BANDWIDTH_FACTOR.why_not(before):
        values[BANDWIDTH_FACTOR.name] = LINK_FACTOR * values.get(BANDWIDTH_FACTOR.name, 1.0)
    return replace(link, values=values) if _asks_for(values, after) else None


def link_with(choice: Choice, parameter: Parameter[Any], value: Any, *, is_multiple: bool = False) -> Link | None:
    """Return the page's link with another value of an input, or with a multiple of the one it has.

    None where the input says nothing, cannot have the value, or has it already.
    """
    link = page_link(choice)
    if is_multiple:
        value *= link.values.get(parameter.name, 1.0)
    if parameter.why_not(choice.asked) or parameter.misfit(choice.asked, value):
        return None
    known = link.values.get(parameter.name, parameter.get(choice.asked))
    if known is not None and _is_same(float(known), float(value)):
        return None
    return replace(link, values={**link.values, parameter.name: value})


def link_with_kind(choice: Choice, varied: Varied, value: float) -> Link | None:
    """Return the page's link with another number, memory (bytes) or link (bytes/ms) of one device type of its list.

    None where no list names it once, where it has the value already, or where the list would ask for something else.
    """
    link = page_link(choice)
    text = link.values.get(DEVICE_LIST.name)
    kinds = parse_devices(text) if text else ()
    if [kind.name for kind in kinds].count(varied.of_class) != 1:
        return None
    changed = tuple(
        listed_with(kind, varied.quantity, value) if kind.name == varied.of_class else kind for kind in kinds
    )
    values = {**link.values, DEVICE_LIST.name: devices_text(changed)}
    if changed == kinds or not _asks_for_devices(values, choice, asked_at(choice.asked, varied, value)):
        return None
    return replace(link, values=values)


def _changed_of_one_type(before: Asked, after: Asked) -> tuple[Varied, float] | None:
    """Return the number, memory (bytes) or link (bytes/ms) of one device type that alone is another, and what it is."""
    both = zip(before.deployment.classes, after.deployment.classes, strict=False)
    changed = [(old, new) for old, new in both if old != new]
    if len(changed) != 1:
        return None
    ((old, new),) = changed
    bytes_per_ms = after.graph.bandwidth_bytes_per_ms
    if new == replace(old, count=new.count):
        return Varied(Quantity.COUNT, new.name), new.count
    if new == replace(old, memory_bytes=new.memory_bytes) and new.memory_bytes is not None:
        return Varied(Quantity.MEMORY, new.name), new.memory_bytes
    if new == replace(old, link_speed=new.link_speed) and bytes_per_ms is not None:
        return Varied(Quantity.BANDWIDTH, new.name), new.link_speed * bytes_per_ms
    return None


def _changed(known: Asked, change: Change) -> Asked:
    is_unrestricted = _ties(change.graph) != _ties(known.graph)
    return replace(
        known,
        graph=change.graph,
        deployment=change.deployment,
        family=change.family,
        method=change.method,
        expressible_in=None if is_unrestricted else known.expressible_in,
    )


def _asks_for(values: Values, wanted: Asked) -> bool:
    """Whether a question of these values is the one that is wanted, up to rounding."""
    start = begin(wanted.own_graph, wanted.own, wanted.file, wanted.longest_s)
    found = asked(values, replace(start, wish=wanted.wish, model=wanted.model)).asked
    return (
        found.deployment.num_devices == wanted.deployment.num_devices
        and _has_devices(found, wanted)
        and all(_is_same(parameter.get(found), parameter.get(wanted)) for parameter in QUESTION)
        and _ties(found.graph) == _ties(wanted.graph)
        and all(map(_is_same, _times(found.graph), _times(wanted.graph)))
    )


def _asks_for_devices(values: Values, choice: Choice, wanted: Asked) -> bool:
    """Whether a question of these values has the devices that are wanted, and the times, up to rounding."""
    equipped = equipped_by(choice.loaded, replace(wanted.wish, devices=values[DEVICE_LIST.name]))
    found = asked(values, begin(equipped.graph, equipped.deployment, wanted.file, wanted.longest_s)).asked
    return _has_devices(found, wanted)


def _has_devices(found: Asked, wanted: Asked) -> bool:
    """Whether a question has the device types of another, up to rounding; true where neither has any."""
    one, other = _devices(found), _devices(wanted)
    return len(one) == len(other) and all(all(map(_is_same, *both)) for both in zip(one, other, strict=True))


def _devices(known: Asked) -> list[tuple[object, ...]]:
    """Return what is known of each device type, the speed of its links as such: it is given relative to the graph's."""
    compute_ms = math.fsum(node.accelerator_ms for node in known.graph.nodes if math.isfinite(node.accelerator_ms))
    transfer_ms = math.fsum(tensor.transfer_ms for tensor in known.graph.tensors)
    return [
        (one.name, one.count, compute_ms / one.speed, one.memory_bytes, transfer_ms / one.link_speed)
        for one in known.deployment.classes
    ]


def _ties(graph: DnnGraph) -> tuple[object, ...]:
    return tuple(node.colocation_class for node in graph.nodes)


def _times(graph: DnnGraph) -> tuple[float, ...]:
    nodes, tensors = graph.nodes, graph.tensors
    return (
        math.fsum(node.accelerator_ms for node in nodes if math.isfinite(node.accelerator_ms)),
        math.fsum(node.cpu_ms for node in nodes if math.isfinite(node.cpu_ms)),
        math.fsum(tensor.transfer_ms for tensor in tensors),
    )


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME)
    return one == other
