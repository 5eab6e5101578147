"""Prices of devices on the page Sweep: a box for each type of accelerator and for CPUs, and what they are for."""

from dataclasses import replace
from typing import Any

import streamlit as st

from explorer import session
from explorer.wording import plain, plain_label
from solvers.prices import MAX_PRICE, PriceBasis, Prices
from solvers.sweep_plan import SweepSpec

MOST_NAMED = 3
"""Prices that the button names; more would not fit on it."""


def prices() -> Prices:
    """Return the prices as they are set now."""
    return session.prices() or Prices()


def pick_prices(spec: SweepSpec) -> None:
    """Draw the button with the prices of the devices of a sweep, and their boxes behind it."""
    known = prices()
    with st.popover(_label(known, spec), icon=":material/payments:"):
        st.segmented_control(
            "Prices",
            list(PriceBasis),
            default=PriceBasis.PER_HOUR,
            required=True,
            key=_shown("sweep_pay", known.basis),
            on_change=_take,
            args=("sweep_pay", ""),
        )
        for name in spec.device_types:
            _box(_titled(name), f"sweep_price_{name}", known.price_of(name), name)
        _box("CPU", "sweep_cpu_price", known.cpu, None)
        st.caption("In any currency. A point costs what all its devices cost, used or idle.")


def _box(label: str, key: str, value: float, name: str | None) -> None:
    st.number_input(
        plain_label(label),
        0.0,
        MAX_PRICE,
        step=0.1,
        format="%.10g",
        key=_shown(key, value),
        on_change=_take,
        args=(key, name),
    )


def _shown(key: str, value: Any) -> str:
    """Have a widget show a value, and return its key."""
    st.session_state[key] = value
    return key


def _take(key: str, name: str | None) -> None:
    """Take over what the user has set: a price of a type, of CPUs where there is no name, or what prices are for."""
    known, value = prices(), st.session_state[key]
    if isinstance(value, PriceBasis):
        session.remember_prices(replace(known, basis=value))
    elif name is None:
        session.remember_prices(replace(known, cpu=float(value or 0.0)))
    else:
        session.remember_prices(replace(known, of=tuple({**dict(known.of), name: float(value or 0.0)}.items())))


def are_set(spec: SweepSpec) -> bool:
    """Whether any price of the devices of a sweep was set."""
    known = prices()
    return known.cpu > 0 or any(name in dict(known.of) for name in spec.device_types)


def _titled(name: str) -> str:
    return name[:1].upper() + name[1:]


def _label(known: Prices, spec: SweepSpec) -> str:
    parts = [f"{_titled(name)} {known.price_of(name):.6g}" for name in spec.device_types[:MOST_NAMED]]
    if len(spec.device_types) > MOST_NAMED:
        parts.append("...")
    if known.cpu:
        parts.append(f"CPU {known.cpu:.6g}")
    return plain(f"{', '.join(parts)} {known.basis}")
