"""Prices of devices on the page Sweep: a box for each type of accelerator and for CPUs, and what they are for."""

from dataclasses import replace

import streamlit as st

from explorer.state import session, widgets
from explorer.words.wording import plain, plain_label
from solvers.hardware.prices import MAX_PRICE, PriceBasis, Prices
from solvers.quantities import money
from solvers.sweep.spec import SweepSpec

MOST_NAMED = 3
"""Prices that the button names; more would not fit on it."""


def prices() -> Prices:
    """Return the prices as they are set now, also of devices that are not swept over."""
    return session.prices() or Prices()


def prices_of(spec: SweepSpec) -> Prices:
    """Return the prices of the devices of a sweep as they are set now."""
    return prices().among(spec.device_types)


def pick_prices(spec: SweepSpec) -> None:
    """Draw the button with the prices of the devices of a sweep, and their boxes behind it."""
    known = prices_of(spec)
    with st.popover(_label(known, spec), icon=":material/payments:"):
        st.segmented_control(
            "Prices",
            list(PriceBasis),
            default=PriceBasis.PER_HOUR,
            required=True,
            key=widgets.show("sweep_pay", known.basis),
            on_change=_take,
            args=("sweep_pay", ""),
        )
        for name in spec.device_types:
            _box(_titled(name), f"sweep_price_{name}", dict(known.of).get(name), name)
        _box("CPU", "sweep_cpu_price", known.cpu, None)
        st.caption("In any currency. A point costs what all its devices cost, used or idle.")


def _box(label: str, key: str, value: float | None, name: str | None) -> None:
    st.number_input(
        plain_label(label),
        0.0,
        MAX_PRICE,
        None,
        step=0.1,
        format="%.10g",
        key=widgets.show(key, value),
        on_change=_take,
        args=(key, name),
        placeholder="no price",
    )


def _take(key: str, name: str | None) -> None:
    """Take over what the user has set: a price of a type, of CPUs where there is no name, or what prices are for.

    An emptied box is no price.
    """
    known, value = prices(), widgets.value(key)
    if isinstance(value, PriceBasis):
        session.remember_prices(replace(known, basis=value))
    elif name is None:
        session.remember_prices(replace(known, cpu=float(value or 0.0)))
    else:
        others = [(own, price) for own, price in known.of if own.casefold() != name.casefold()]
        session.remember_prices(replace(known, of=(*others, *([] if value is None else [(name, float(value))]))))


def lacking_text(known: Prices, spec: SweepSpec) -> str:
    """Say which devices of a sweep have no price though others have one; else empty."""
    lacking = known.lacking(spec.device_types)
    return f"No price set for {', '.join(lacking)}: costs are shown once each device has one." if lacking else ""


def _titled(name: str) -> str:
    return name[:1].upper() + name[1:]


def _label(known: Prices, spec: SweepSpec) -> str:
    if known.count_alike and not known.cpu:
        return "Set prices"
    types = () if known.count_alike else spec.device_types
    parts = [f"{_titled(name)} {_amount(known.price_of(name))}" for name in types[:MOST_NAMED]]
    if len(types) > MOST_NAMED:
        parts.append("...")
    if known.cpu:
        parts.append(f"CPU {money(known.cpu)}")
    return plain(f"{', '.join(parts)} {known.basis}")


def _amount(price: float | None) -> str:
    return "?" if price is None else money(price)
