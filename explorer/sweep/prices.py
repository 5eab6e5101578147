"""Prices on the page Sweep: a box for each type of accelerator, for CPUs, and for memory and links that are varied."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import streamlit as st

from explorer.state import session, widgets
from explorer.words.wording import plain, plain_label
from solvers.hardware.prices import MAX_PRICE, PriceBasis, Prices
from solvers.model.errors import PlacementError
from solvers.quantities import money
from solvers.sweep.axes import Quantity
from solvers.sweep.spec import LINKS, MEMORIES, SweepSpec

POPOVER, LABEL = "sweep_prices", "sweep_prices_label"
MOST_NAMED = 3
"""Prices that the button names; more would not fit on it."""


def prices() -> Prices:
    """Return the prices as they are set now, also of devices that are not swept over."""
    return session.prices() or Prices()


def prices_of(spec: SweepSpec) -> Prices:
    """Return the prices of what a sweep has as they are set now; of memory and links only where it varies them."""
    known = prices().among(spec.device_types)
    memory, link = known.memory if spec.varies(MEMORIES) else 0.0, known.link if spec.varies(LINKS) else 0.0
    return replace(known, memory=memory, link=link)


def pick_prices(spec: SweepSpec) -> None:
    """Draw the button with the prices of the devices of a sweep, and their boxes behind it while it is open.

    Boxes that the browser has not drawn yet would not hear of what was set before the last run of the page: they would
    come up empty, and have the prices forgotten.
    """
    known = prices_of(spec)
    is_factor = any(axis.quantity is Quantity.BANDWIDTH_FACTOR for axis in spec.axes)
    # A popover with another label is another one, and closed: while prices are typed it keeps the one it was opened by.
    if not widgets.value(POPOVER, False):
        widgets.show(LABEL, _label(known, spec))
    popover = st.popover(widgets.value(LABEL), icon=":material/payments:", key=POPOVER, on_change="rerun")
    if not popover.open:
        return
    with popover, st.container(key="price_picker"):
        st.segmented_control(
            "Prices",
            list(PriceBasis),
            default=PriceBasis.PER_HOUR,
            required=True,
            key=widgets.show("sweep_pay", known.basis),
            on_change=lambda: session.remember_prices(replace(prices(), basis=widgets.value("sweep_pay"))),
        )
        for name in spec.device_types:
            _box(_titled(name), f"sweep_price_{name}", dict(known.of).get(name), partial(_take_type, name))
        _box("CPU", "sweep_cpu_price", known.cpu, _take_cpu)
        if spec.varies(MEMORIES):
            _box("A GiB of memory", "sweep_memory_price", known.memory, _take_memory)
        if spec.varies(LINKS):
            of_link = "A link as it is" if is_factor else "A GB/s of a link"
            _box(of_link, "sweep_link_price", known.link, _take_link)
        st.text_input(
            "Currency",
            max_chars=5,
            key=widgets.show("sweep_currency", known.currency),
            on_change=_take_currency,
            placeholder="any",
        )
        of_all = " Memory and links count for each accelerator." if spec.varies(MEMORIES | LINKS) else ""
        st.caption(
            f"A point costs what all its devices cost, used or idle.{of_all} The address of the page keeps the prices."
        )


def _box(label: str, key: str, value: float | None, take: Callable[[float | None], None]) -> None:
    st.number_input(
        plain_label(label),
        0.0,
        MAX_PRICE,
        None,
        step=0.1,
        format="%.10g",
        key=widgets.show(key, value),
        on_change=lambda: take(widgets.value(key)),
        placeholder="no price",
    )


def _take_cpu(value: float | None) -> None:
    session.remember_prices(replace(prices(), cpu=value or 0.0))


def _take_memory(value: float | None) -> None:
    session.remember_prices(replace(prices(), memory=value or 0.0))


def _take_link(value: float | None) -> None:
    session.remember_prices(replace(prices(), link=value or 0.0))


def _take_type(name: str, value: float | None) -> None:
    """Take over the price of a type of accelerators."""
    known = prices()
    others = [(own, price) for own, price in known.of if own.casefold() != name.casefold()]
    session.remember_prices(replace(known, of=(*others, *([] if value is None else [(name, float(value))]))))


def _take_currency() -> None:
    text = str(widgets.value("sweep_currency") or "").strip()
    try:
        session.remember_prices(replace(prices(), currency=text))
    except PlacementError as error:
        st.warning(plain(str(error)))


def lacking_text(known: Prices, spec: SweepSpec) -> str:
    """Say which devices of a sweep have no price though others have one; else empty."""
    lacking = known.lacking(spec.device_types)
    return f"No price set for {', '.join(lacking)}: costs are shown once each device has one." if lacking else ""


def _titled(name: str) -> str:
    return name[:1].upper() + name[1:]


def _label(known: Prices, spec: SweepSpec) -> str:
    if known.has_none:
        return "Set prices"
    types = () if known.count_alike else spec.device_types
    parts = [f"{_titled(name)} {_amount(known.price_of(name))}" for name in types[:MOST_NAMED]]
    if len(types) > MOST_NAMED:
        parts.append("...")
    parts += [
        f"{title} {money(value)}"
        for title, value in (("CPU", known.cpu), ("GiB", known.memory), ("link", known.link))
        if value
    ]
    return plain(f"{', '.join(parts)} {known.unit}")


def _amount(price: float | None) -> str:
    return "?" if price is None else money(price)
