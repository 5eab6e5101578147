"""The devices behind a plan: as in the graph's file, or accelerators, links and a host CPU of the catalogue.

What is picked is one line of text per graph (`solvers.hardware.device_list`), so that an address and a project file
hold all of it. Widgets are drawn from that line, and what is changed in one is written into it before the page runs
again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from explorer.form.widget import widget
from explorer.server.byte_cache import remembered
from explorer.server.sizes import graph_bytes
from explorer.state import widgets
from explorer.state.address import bound_parameter
from explorer.state.records import LoadedGraph
from explorer.words.devices_text import is_known, links_text, origin_of_times, origin_told, sources_text
from explorer.words.known_devices import known_devices
from explorer.words.wording import plain, plain_label
from solvers.hardware.device_list import Listed, devices_text, groups, is_relative, parse_devices
from solvers.hardware.devices import GB, GB_PER_S, TFLOP_PER_S, Accelerator, Precision
from solvers.hardware.equipment import Equipment, Equipped, Group, equip, precision_of
from solvers.model.errors import DeploymentError, PlacementError
from solvers.model.graph import TimesOrigin
from solvers.parameters.asked import Asking, begin
from solvers.parameters.hardware import DEVICE_LIST, EFFICIENCY, HOST, MEASURED_ON, MEMORY_EFFICIENCY, ROOFLINE
from solvers.parameters.parameter import Wish
from solvers.quantities import bandwidth

AS_IN_FILE = "As in the file"
MOST_KINDS = 6
MAX_COUNT = 64


def pick_devices(loaded: LoadedGraph) -> Equipped:
    """Draw the picker, folded away, and return graph and deployment on what is picked.

    Where that cannot be had the reason is shown, and the graph is as in its file.
    """
    digest = loaded.graph.digest
    key = devices_key(digest)
    asking = Asking(begin(loaded.graph, loaded.deployment))
    bound_parameter(DEVICE_LIST, key, "", _why_not_list)
    text: str = widgets.value(key, "")
    kinds = parse_devices(text) if text else ()
    popover = st.popover(_label(kinds), icon=":material/memory:", width="stretch", key=f"devices_popover_{digest}")
    with popover, st.container(key="device_picker"):
        problem = st.container()
        if kinds:
            _pick_origin(asking, loaded)
        _pick_kinds(key, kinds, loaded)
        host = _pick_host(digest)
        if kinds or host:
            for share, column in zip((EFFICIENCY, MEMORY_EFFICIENCY), st.columns(2), strict=True):
                widget(share, asking, f"{share.name}_{digest}", column, step=5.0)
    try:
        equipped = equipped_by(loaded, replace(asking.asked.wish, devices=text, host=host))
    except PlacementError as error:
        for place in (problem, st):
            place.error(plain(f"These devices were not applied. {error}"))
        return Equipped(loaded.graph, loaded.deployment)
    links = links_text(equipped) if equipped.deployment.classes else []  # of one kind they stand below its link
    st.caption(plain(" ".join([origin_of_times(loaded.graph.times, equipped), *links, *equipped.remarks])))
    return equipped


def devices_key(digest: str) -> str:
    """Return where the session keeps the list of devices of a graph; empty or absent means those of its file."""
    return f"devices_{digest}"


def _why_not_list(text: str) -> str:
    """Say why a list cannot be picked; empty where it can."""
    try:
        _groups(text, None)
    except PlacementError as error:
        return str(error).rstrip(".")
    return ""


def _groups(text: str, times: TimesOrigin | None) -> tuple[Group, ...]:
    """Return the accelerators of a list; PlacementError for what the catalogue does not have."""
    kinds = parse_devices(text)
    if is_relative(kinds):
        raise DeploymentError("Explore takes devices of the catalogue, not such that are relative to the file's times.")
    return groups(kinds, known_devices(), times)


def equipped_by(loaded: LoadedGraph, wish: Wish) -> Equipped:
    """Return graph and deployment on the devices that are asked for; PlacementError for what cannot be had.

    What the picker would not ask says nothing: an origin of times without accelerators, shares without any device.
    """
    if not wish.devices or is_known(loaded.graph.times):
        wish = replace(wish, measured_on="", roofline=False)
    if not wish.devices and not wish.host:
        wish = Wish()

    def equipped() -> Equipped:
        asked = equipment_by(loaded, wish)
        found = _groups(wish.devices, asked.times or loaded.graph.times) if wish.devices else ()
        return equip(loaded.graph, loaded.deployment, replace(asked, groups=found), known_devices())

    key = (loaded.graph.digest, loaded.graph.name, loaded.deployment, wish)
    return remembered("equipped", key, equipped, lambda made: graph_bytes(made.graph))


def equipment_by(loaded: LoadedGraph, wish: Wish) -> Equipment:
    """Return what is asked of all devices, without the list of them; PlacementError for what cannot be had."""
    measured_on = None if not wish.measured_on or is_known(loaded.graph.times) else origin_told(wish.measured_on)
    host = known_devices().host(wish.host) if wish.host else None
    return Equipment((), host, wish.shares, measured_on, wish.roofline)


def _label(kinds: Sequence[Listed]) -> str:
    if not kinds:
        return "Devices as in the file"
    return plain_label(" + ".join(kind.name if kind.count is None else f"{kind.count} × {kind.name}" for kind in kinds))


# Kinds of accelerators.


def _pick_kinds(key: str, kinds: tuple[Listed, ...], loaded: LoadedGraph) -> None:
    names = [accelerator.name for accelerator in known_devices().accelerators]
    _controlled(
        st.selectbox,
        "Accelerators" if len(kinds) < 2 else "Accelerators, first device type",
        kinds[0].name if kinds else AS_IN_FILE,
        partial(_set_name, key, 0),
        f"{key}_name_0",
        options=[AS_IN_FILE, *names],
        format_func=_titled,
    )
    if not kinds:
        return
    _pick_figures(key, 0, kinds, loaded)
    for i in range(1, len(kinds)):
        left, right = st.columns([6, 1], vertical_alignment="bottom")
        with left:
            _controlled(
                st.selectbox,
                f"Device type {i + 1}",
                kinds[i].name,
                partial(_set_name, key, i),
                f"{key}_name_{i}",
                options=names,
                format_func=_titled,
            )
        right.button(
            "",
            icon=":material/close:",
            help="Remove this device type.",
            key=f"{key}_remove_{i}",
            type="tertiary",
            on_click=_remove,
            args=(key, i, loaded),
        )
        _pick_figures(key, i, kinds, loaded)
    if len(kinds) < MOST_KINDS:
        st.button(
            "Add a device type",
            icon=":material/add:",
            key=f"{key}_add",
            type="tertiary",
            on_click=_add,
            args=(key, loaded),
        )


def _titled(name: str) -> str:
    return name if name == AS_IN_FILE else known_devices().accelerator(name).title


def _pick_figures(key: str, i: int, kinds: tuple[Listed, ...], loaded: LoadedGraph) -> None:
    """Draw count, link and precision of a kind, and its specifications folded away."""
    kind, group = kinds[i], groups((kinds[i],), known_devices(), _times_of(loaded))[0]
    accelerator, precision = group.accelerator, precision_of(group, _times_of(loaded))
    is_one_of_several = len(kinds) > 1

    # One below the other: side by side they would make the popover so wide that it covers the graph.
    left, right = st.columns(2) if is_one_of_several else (None, st.container())
    if left is not None:
        with left:
            _controlled(
                st.number_input,
                "Count",
                kind.count,
                partial(_set_count, key, i),
                f"{key}_count_{i}",
                min_value=0,
                max_value=MAX_COUNT,
                step=1,
            )
    with right:
        _controlled(
            st.selectbox,
            "Precision",
            precision,
            partial(_set, key, i, "precision", ""),
            f"{key}_precision_{i}",
            options=list(accelerator.precisions),
            help="Of the matrix products: it decides the peak. Bytes are those of the graph.",
        )
    _pick_link(key, i, kind, accelerator, loaded)
    with st.expander("Specifications", key=f"{key}_figures_{i}"):
        own = known_devices().accelerator(kind.name)
        boxes = [
            ("Peak (TFLOP/s)", "peak", "TFLOP/s", accelerator.peak_flops_per_ms(precision) / TFLOP_PER_S),
            ("Memory bandwidth (GB/s)", "bandwidth", "GB/s", accelerator.bandwidth_bytes_per_ms / GB_PER_S),
        ]
        if is_one_of_several:
            boxes.append(("Memory (GB)", "memory", "GB", accelerator.memory_bytes / GB))
        for label, setting, unit, value in boxes:
            _controlled(
                st.number_input,
                label,
                float(f"{value:.10g}"),
                partial(_set, key, i, setting, unit),
                f"{key}_{setting}_{i}",
                min_value=1e-3,
                max_value=1e6,
                format="%.6g",
            )
        st.caption(plain(sources_text(own, precision)))


def _pick_link(key: str, i: int, kind: Listed, accelerator: Accelerator, loaded: LoadedGraph) -> None:
    own = [name for name in accelerator.links if any(link.name == name for link in known_devices().links)]
    others = [link.name for link in known_devices().links if link.name not in own]
    chosen = dict(kind.settings).get("link", AS_IN_FILE)
    given = [] if chosen in (AS_IN_FILE, *own, *others) else [chosen]
    has_bytes = loaded.graph.bandwidth_bytes_per_ms is not None

    def titled(name: str) -> str:
        if name == AS_IN_FILE or name in given:
            return name
        link = known_devices().link(name)
        return f"{link.title}, {bandwidth(link.bandwidth_bytes_per_ms)}"

    _controlled(
        st.selectbox,
        "Link",
        chosen,
        partial(_set, key, i, "link", ""),
        f"{key}_link_{i}",
        options=[AS_IN_FILE, *given, *own, *others],
        format_func=titled,
        disabled=not has_bytes,
        help="Per direction, between a device and host memory. Its own links come first."
        if has_bytes
        else "This file has no consistent bytes on its edges, so a link says nothing of its transfers.",
    )


def _times_of(loaded: LoadedGraph) -> TimesOrigin | None:
    told = _told_origin(loaded.graph.digest)
    return told or loaded.graph.times


def _change(key: str, i: int, change: Callable[[Listed], Listed]) -> None:
    kinds = list(parse_devices(widgets.value(key)))
    kinds[i] = change(kinds[i])
    widgets.show(key, devices_text(tuple(kinds)))


def _set(key: str, i: int, setting: str, unit: str, value: float | str | None) -> None:
    """Write a setting of a kind with its unit; nothing, or "as in the file", takes it out."""
    text = None if value is None or value == AS_IN_FILE else f"{value:.10g}" if isinstance(value, float) else str(value)
    _change(key, i, lambda kind: kind.with_setting(setting, None if text is None else f"{text}{unit}"))


def _set_count(key: str, i: int, count: int | None) -> None:
    _change(key, i, lambda kind: replace(kind, count=int(count or 0)))


def _set_name(key: str, i: int, name: str) -> None:
    """Take another accelerator for a kind: with the figures of that one, and its count and link kept."""
    text = widgets.value(key, "")
    if name == AS_IN_FILE:
        widgets.show(key, "")
        return
    kinds = list(parse_devices(text)) if text else [Listed(None, name)]
    kept = tuple((k, v) for k, v in kinds[i].settings if k == "link")
    kinds[i] = Listed(kinds[i].count, name, kept)
    widgets.show(key, devices_text(tuple(kinds)))


def _add(key: str, loaded: LoadedGraph) -> None:
    kinds = list(parse_devices(widgets.value(key)))
    if kinds[0].count is None:
        count = widgets.value(f"accelerators_{loaded.graph.digest}", loaded.deployment.num_accelerators)
        kinds[0] = replace(kinds[0], count=int(count or 1))
    names = {kind.name for kind in kinds}
    others = [accelerator.name for accelerator in known_devices().accelerators if accelerator.name not in names]
    half = [name for name in others if Precision.FP16 in known_devices().accelerator(name).precisions]
    name = "T4" if "T4" in half else half[0]
    own_link = next(iter(known_devices().accelerator(name).links), None)
    has_link = "link" in dict(kinds[0].settings)
    kinds.append(Listed(1, name).with_setting("link", own_link if has_link else None))
    widgets.show(key, devices_text(tuple(kinds)))


def _remove(key: str, i: int, loaded: LoadedGraph) -> None:
    """Leave a kind out; the last one has as many accelerators as it had among several."""
    kinds = list(parse_devices(widgets.value(key)))
    del kinds[i]
    if len(kinds) == 1:
        widgets.show(f"accelerators_{loaded.graph.digest}", kinds[0].count)
        kinds[0] = replace(kinds[0], count=None).with_setting("memory", None)
    widgets.show(key, devices_text(tuple(kinds)))


# Host, efficiency, and what the file's times are for.


def _pick_host(digest: str) -> str:
    key = f"host_{digest}"
    names = ["", *(host.name for host in known_devices().hosts)]
    bound_parameter(HOST, key, "", _why_not_of(names))
    return st.selectbox(
        "CPUs",
        names,
        format_func=lambda name: known_devices().host(name).title if name else AS_IN_FILE,
        key=key,
        persist_state="session",
    )


def _why_not_of(names: Sequence[str]) -> Callable[[str], str]:
    return lambda name: "" if name in names else "it does not fit here"


def _told_origin(digest: str) -> TimesOrigin | None:
    text = widgets.value(f"measured_on_{digest}", "")
    return origin_told(text) if text else None


def _pick_origin(asking: Asking, loaded: LoadedGraph) -> None:
    """Ask what the times of a file are for that does not say, and whether to compute them where they were measured."""
    if is_known(loaded.graph.times):
        return
    key = f"measured_on_{loaded.graph.digest}"
    names = [
        f"{accelerator.name}@{precision}"
        for accelerator in known_devices().accelerators
        for precision in accelerator.precisions
    ]
    bound_parameter(MEASURED_ON, key, "", _why_not_of(names))
    told = st.selectbox(
        MEASURED_ON.label,
        ["", *names],
        format_func=lambda name: name.replace("@", ", ") or "the file does not say",
        key=key,
        persist_state="session",
        help="They are scaled from there to the devices below.",
    )
    asking.take(MEASURED_ON, told)
    if any(node.flops is not None for node in loaded.graph.nodes):
        widget(ROOFLINE, asking, f"roofline_{loaded.graph.digest}")


def _controlled(
    widget: Callable[..., Any],
    label: str,
    value: Any,
    take: Callable[[Any], None],
    key: str,
    **options: Any,
) -> None:
    """Draw a widget that shows `value` whatever it showed before, and hands what the user makes of it to `take`."""
    if widgets.shows(key, value):
        options |= {"index": options["options"].index(value)} if widget is st.selectbox else {"value": value}
    widgets.show(key, value)

    def changed() -> None:
        take(widgets.value(key))

    widget(label, key=key, on_change=changed, **options)
