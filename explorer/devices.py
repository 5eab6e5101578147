"""The devices behind a plan: as in the graph's file, or accelerators, links and a host CPU of the catalogue.

What is picked is one line of text per graph (`solvers.device_list`), so that an address and a project file hold all of
it. Widgets are drawn from that line, and what is changed in one is written into it before the page runs again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from explorer.address import bound
from explorer.devices_text import is_known, links_text, origin_of_times, origin_told, sources_text
from explorer.known_devices import known_devices
from explorer.link import Link
from explorer.session import LoadedGraph
from explorer.wording import plain
from solvers.device_list import Listed, devices_text, groups, is_relative, parse_devices
from solvers.equipment import Equipment, Equipped, Group, equip, precision_of
from solvers.errors import DeploymentError, PlacementError
from solvers.graph import TimesOrigin
from solvers.hardware import GB, GB_PER_S, TFLOP_PER_S, Accelerator, Precision
from solvers.roofline import USUAL, Efficiency

AS_IN_FILE = "As in the file"
MOST_KINDS = 6
MAX_COUNT = 64
USUAL_PERCENT = round(100 * USUAL.compute), round(100 * USUAL.memory)


def pick_devices(loaded: LoadedGraph) -> Equipped:
    """Draw the picker, folded away, and return graph and deployment on what is picked.

    Where that cannot be had the reason is shown, and the graph is as in its file.
    """
    digest = loaded.graph.digest
    key = devices_key(digest)
    bound("devices", key, "", _check_list)
    text: str = st.session_state.get(key, "")
    kinds = parse_devices(text) if text else ()
    with st.popover(_label(kinds), icon=":material/memory:", width="stretch", key=f"devices_popover_{digest}"):
        problem = st.container()
        measured_on, roofline_only = _pick_origin(loaded, bool(kinds))
        _pick_kinds(key, kinds, loaded)
        host = _pick_host(digest)
        efficiency = _pick_efficiency(digest, has_devices=bool(kinds) or host != "")
    try:
        equipped = _equipped(loaded, digest, text, host, efficiency, measured_on, roofline_only)
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


def _check_list(text: str) -> bool:
    """Whether a list can be picked: raises PlacementError, with the reason, for one that cannot."""
    _groups(text, None)
    return True


def _groups(text: str, times: TimesOrigin | None) -> tuple[Group, ...]:
    """Return the accelerators of a list; PlacementError for what the catalogue does not have."""
    kinds = parse_devices(text)
    if is_relative(kinds):
        raise DeploymentError("Explore takes devices of the catalogue, not such that are relative to the file's times.")
    return groups(kinds, known_devices(), times)


def equipped_by(loaded: LoadedGraph, link: Link) -> Equipped:
    """Return graph and deployment on the devices that an address names; PlacementError for what cannot be had."""
    asked = equipment_by(loaded, link)
    return _equipped(
        loaded,
        loaded.graph.digest,
        link.devices or "",
        link.host or "",
        asked.efficiency,
        asked.times,
        asked.roofline_only,
    )


def equipment_by(loaded: LoadedGraph, link: Link) -> Equipment:
    """Return what an address says of all devices, without the list of them; PlacementError for what cannot be had."""
    efficiency = Efficiency(
        USUAL.compute if link.efficiency is None else link.efficiency / 100,
        USUAL.memory if link.memory_efficiency is None else link.memory_efficiency / 100,
    )
    measured_on = None if not link.measured_on or is_known(loaded.graph.times) else origin_told(link.measured_on)
    host = known_devices().host(link.host) if link.host else None
    return Equipment((), host, efficiency, measured_on, bool(link.roofline))


@st.cache_resource(max_entries=32, show_spinner=False)
def _equipped(
    _loaded: LoadedGraph,
    digest: str,
    text: str,
    host: str,
    efficiency: Efficiency,
    measured_on: TimesOrigin | None,
    roofline_only: bool,
) -> Equipped:
    """Put a graph on devices; `digest` stands for the graph in the cache."""
    devices, times = known_devices(), measured_on or _loaded.graph.times
    asked = Equipment(
        _groups(text, times) if text else (),
        devices.host(host) if host else None,
        efficiency,
        measured_on,
        roofline_only,
    )
    return equip(_loaded.graph, _loaded.deployment, asked, devices)


def _label(kinds: Sequence[Listed]) -> str:
    if not kinds:
        return "Devices as in the file"
    return plain(" + ".join(kind.name if kind.count is None else f"{kind.count} × {kind.name}" for kind in kinds))


# Kinds of accelerators.


def _pick_kinds(key: str, kinds: tuple[Listed, ...], loaded: LoadedGraph) -> None:
    names = [accelerator.name for accelerator in known_devices().accelerators]
    _controlled(
        st.selectbox,
        "Accelerators" if len(kinds) < 2 else "Accelerators, first kind",
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
                f"Kind {i + 1}",
                kinds[i].name,
                partial(_set_name, key, i),
                f"{key}_name_{i}",
                options=names,
                format_func=_titled,
            )
        right.button(
            "",
            icon=":material/close:",
            help="Leave this kind out.",
            key=f"{key}_remove_{i}",
            type="tertiary",
            on_click=_remove,
            args=(key, i, loaded),
        )
        _pick_figures(key, i, kinds, loaded)
    if len(kinds) < MOST_KINDS:
        st.button(
            "Add another kind",
            icon=":material/add:",
            key=f"{key}_add",
            type="tertiary",
            on_click=_add,
            args=(key, loaded),
        )


def _titled(name: str) -> str:
    return name if name == AS_IN_FILE else known_devices().accelerator(name).title


def _pick_figures(key: str, i: int, kinds: tuple[Listed, ...], loaded: LoadedGraph) -> None:
    """Draw count, link and precision of a kind, and its figures folded away."""
    kind, group = kinds[i], groups((kinds[i],), known_devices(), _times_of(loaded))[0]
    accelerator, precision = group.accelerator, precision_of(group, _times_of(loaded))
    is_one_of_several = len(kinds) > 1

    widths = [2, 4, 3] if is_one_of_several else [4, 3]
    columns = st.columns(widths)
    if is_one_of_several:
        with columns[0]:
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
    with columns[-2]:
        _pick_link(key, i, kind, accelerator, loaded)
    with columns[-1]:
        _controlled(
            st.selectbox,
            "Precision",
            precision,
            partial(_set, key, i, "precision", ""),
            f"{key}_precision_{i}",
            options=list(accelerator.precisions),
            help="Of the matrix products: it decides the peak. Bytes are those of the graph.",
        )
    with st.expander("Figures", key=f"{key}_figures_{i}"):
        left, right = st.columns(2)
        own = known_devices().accelerator(kind.name)
        boxes = [
            ("Peak (TFLOP/s)", "peak", "TFLOP/s", accelerator.peak_flops_per_ms(precision) / TFLOP_PER_S, left),
            ("To memory (GB/s)", "bandwidth", "GB/s", accelerator.bandwidth_bytes_per_ms / GB_PER_S, right),
        ]
        if is_one_of_several:
            boxes.append(("Memory (GB)", "memory", "GB", accelerator.memory_bytes / GB, left))
        for label, setting, unit, value, column in boxes:
            with column:
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
        return f"{link.title}, {link.bandwidth_bytes_per_ms / GB_PER_S:.4g} GB/s"

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
    kinds = list(parse_devices(st.session_state[key]))
    kinds[i] = change(kinds[i])
    st.session_state[key] = devices_text(tuple(kinds))


def _set(key: str, i: int, setting: str, unit: str, value: float | str | None) -> None:
    """Write a setting of a kind with its unit; nothing, or "as in the file", takes it out."""
    text = None if value is None or value == AS_IN_FILE else f"{value:.10g}" if isinstance(value, float) else str(value)
    _change(key, i, lambda kind: kind.with_setting(setting, None if text is None else f"{text}{unit}"))


def _set_count(key: str, i: int, count: int | None) -> None:
    _change(key, i, lambda kind: replace(kind, count=int(count or 0)))


def _set_name(key: str, i: int, name: str) -> None:
    """Take another accelerator for a kind: with the figures of that one, and its count and link kept."""
    text = st.session_state.get(key, "")
    if name == AS_IN_FILE:
        st.session_state[key] = ""
        return
    kinds = list(parse_devices(text)) if text else [Listed(None, name)]
    kept = tuple((k, v) for k, v in kinds[i].settings if k == "link")
    kinds[i] = Listed(kinds[i].count, name, kept)
    st.session_state[key] = devices_text(tuple(kinds))


def _add(key: str, loaded: LoadedGraph) -> None:
    kinds = list(parse_devices(st.session_state[key]))
    if kinds[0].count is None:
        count = st.session_state.get(f"accelerators_{loaded.graph.digest}", loaded.deployment.num_accelerators)
        kinds[0] = replace(kinds[0], count=int(count or 1))
    names = {kind.name for kind in kinds}
    others = [accelerator.name for accelerator in known_devices().accelerators if accelerator.name not in names]
    half = [name for name in others if Precision.FP16 in known_devices().accelerator(name).precisions]
    name = "T4" if "T4" in half else half[0]
    own_link = next(iter(known_devices().accelerator(name).links), None)
    has_link = "link" in dict(kinds[0].settings)
    kinds.append(Listed(1, name).with_setting("link", own_link if has_link else None))
    st.session_state[key] = devices_text(tuple(kinds))


def _remove(key: str, i: int, loaded: LoadedGraph) -> None:
    """Leave a kind out; the last one has as many accelerators as it had among several."""
    kinds = list(parse_devices(st.session_state[key]))
    del kinds[i]
    if len(kinds) == 1:
        st.session_state[f"accelerators_{loaded.graph.digest}"] = kinds[0].count
        kinds[0] = replace(kinds[0], count=None).with_setting("memory", None)
    st.session_state[key] = devices_text(tuple(kinds))


# Host, efficiency, and what the file's times are for.


def _pick_host(digest: str) -> str:
    key = f"host_{digest}"
    names = ["", *(host.name for host in known_devices().hosts)]
    bound("host", key, "", names)
    return st.selectbox(
        "CPUs",
        names,
        format_func=lambda name: known_devices().host(name).title if name else AS_IN_FILE,
        key=key,
        persist_state="session",
    )


def _pick_efficiency(digest: str, *, has_devices: bool) -> Efficiency:
    if not has_devices:
        return USUAL
    shares = []
    labels = ("Of the peak (%)", "Of the bandwidth (%)")
    helps = (
        "How much of the arithmetic peak kernels reach. An assumption: tuned matrix products of transformers reach "
        "about half of it in whole training runs.",
        "How much of the bandwidth to its memory a device reaches. An assumption: streaming kernels reach about three "
        "quarters or more.",
    )
    for name, label, usual, explained, column in zip(
        ("efficiency", "memory_efficiency"), labels, USUAL_PERCENT, helps, st.columns(2), strict=True
    ):
        key = f"{name}_{digest}"
        bound(name, key, usual, range(1, 101))
        with column:
            share = st.number_input(label, 1, 100, usual, 5, key=key, persist_state="session", help=explained)
        shares.append(share / 100)
    return Efficiency(*shares)


def _told_origin(digest: str) -> TimesOrigin | None:
    text = st.session_state.get(f"measured_on_{digest}", "")
    return origin_told(text) if text else None


def _pick_origin(loaded: LoadedGraph, has_devices: bool) -> tuple[TimesOrigin | None, bool]:
    """Ask what the times of a file are for that does not say, and whether to compute them where they were measured."""
    digest = loaded.graph.digest
    if not has_devices or is_known(loaded.graph.times):
        return None, False
    key = f"measured_on_{digest}"
    names = [
        f"{accelerator.name}@{precision}"
        for accelerator in known_devices().accelerators
        for precision in accelerator.precisions
    ]
    bound("measured_on", key, "", names)
    st.selectbox(
        "The file's times were measured on",
        ["", *names],
        format_func=lambda name: name.replace("@", ", ") or "the file does not say",
        key=key,
        persist_state="session",
        help="They are scaled from there to the devices below.",
    )
    roofline_only = False
    if any(node.flops is not None for node in loaded.graph.nodes):
        bound("roofline", f"roofline_{digest}", False, (False, True))
        roofline_only = st.toggle(
            "Compute times where flops are known",
            key=f"roofline_{digest}",
            persist_state="session",
            help="By the roofline, leaving measured times aside.",
        )
    return _told_origin(digest), roofline_only


def _controlled(
    widget: Callable[..., Any], label: str, value: Any, take: Callable[[Any], None], key: str, **options: Any
) -> None:
    """Draw a widget that shows `value` whatever it showed before, and hands what the user makes of it to `take`."""
    st.session_state[key] = value

    def changed() -> None:
        take(st.session_state[key])

    widget(label, key=key, on_change=changed, **options)
