"""The address of the page and the widgets of its sidebar, kept the same.

At the start of a run of the page `read` looks whether the address is another than the one written last: a first
visit, a link, Back or Forward. If so, each widget of that run takes its value from the address (`bound`). At the end
`write` puts what differs from the defaults into the address, in one step, and only when it has changed: nothing goes in
circles. Streamlit's own `bind="query-params"` is not used: it ties a parameter to one widget for good, while each graph
has widgets of its own here, and it drops a value that does not fit without a word.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from explorer import session
from explorer.link import CODECS, NO_LIMIT, Link, LinkError, from_query, to_query
from solvers.errors import PlacementError

MAX_PROBLEMS = 8
"""Parts of an address that are named if they cannot be used; hundreds would fill the page."""


def read() -> None:
    """Look at the address; call it before the first widget of the page."""
    address = session.address()
    address.values = {}
    address.asked = set()
    query = dict(st.query_params)
    # Who does something before the browser has heard of the address written last sends the one before it: that is no
    # Back, and taking it for one would take the newest inputs or edits back. With Back no widget changes.
    is_late = session.picture_has_spoken() or _has_changed(address.drawn)
    address.drawn = {}
    if query == address.query or (is_late and address.query is not None):
        return
    # Streamlit leaves the query out of its links to pages: coming from another page changes nothing.
    is_link_to_page = query.keys() <= {"keep"} and session.has_just_come_back()
    is_first = address.query is None
    address.query = query  # so that `write` puts the state there again
    if is_link_to_page and not is_first:
        return
    if is_link_to_page and (subject := session.subject()) is not None:
        want(subject.link, ())  # the other page was opened by an address of its own
        return
    link, problems = from_query(query)
    want(link, problems)


def want(link: Link, problems: tuple[str, ...] = ()) -> None:
    """Have the widgets of this or the next run take over what a link says, and the rest go to their defaults."""
    address = session.address()
    address.wanted, address.problems, address.notes = link, list(problems), []


def wanted() -> Link | None:
    """Return what the widgets of this run take over; None when they keep what they have."""
    return session.address().wanted


def bound(name: str, key: str, default: Any, allowed: Container[Any] | Callable[[Any], bool]) -> None:
    """Tie the widget `key`, which is drawn next, to the part `name` of the address.

    `default` is what the widget shows at first and what is left out of the address. A value that is not `allowed` is
    told of and not used; a callable may raise PlacementError to tell the reason.
    """
    address = session.address()
    if address.wanted is not None:
        address.asked.add(name)
        value = _for_widget(getattr(address.wanted, name))
        is_given = getattr(address.wanted, name) is not None
        if is_given and (reason := _misfit(value, allowed)):
            address.problems.append(f"{name} {'none' if value is None else value} ({reason})")
            is_given = False
        if is_given or key in st.session_state:
            st.session_state[key] = value if is_given else default
    value = st.session_state[key] if key in st.session_state else default  # noqa: SIM401 -- no plain dict
    address.drawn[key] = value
    if value != default:
        address.values[name] = NO_LIMIT if value is None else value


def _misfit(value: Any, allowed: Container[Any] | Callable[[Any], bool]) -> str:
    """Say why a value is not allowed; empty where it is."""
    try:
        fits = allowed(value) if callable(allowed) else value in allowed
    except PlacementError as error:
        return str(error).rstrip(".")
    return "" if fits else "it does not fit here"


def _has_changed(drawn: Mapping[str, Any]) -> bool:
    """Whether the user has changed a widget since these values were drawn, or pressed Solve."""
    changed = any(key in st.session_state and st.session_state[key] != value for key, value in drawn.items())
    return changed or bool(st.session_state.get(session.SOLVE_KEY))


def settle() -> None:
    """End taking over; call it when every widget that is tied to the address was drawn."""
    address = session.address()
    # What the widgets made of the values: they may have rounded them.
    address.drawn = {key: st.session_state[key] for key in address.drawn if key in st.session_state}
    before, address.settled = address.settled, dict(address.values)
    address.settled_link = address.wanted
    if address.wanted is None:
        if before != address.values:  # the user went on
            address.problems, address.notes = [], []
        return
    given = {name: value for name in sorted(SIDEBAR - address.asked) if (value := getattr(address.wanted, name))}
    if address.wanted.graph is not None:
        given.pop("sample", None)
    address.problems += [f"{name} {value} (it has no meaning for these inputs)" for name, value in given.items()]
    address.wanted = None


def current(**others: Any) -> Link:
    """Return the state of the page as a link: what the widgets of this run have, and `others`."""
    return Link(**{**session.address().values, **others})


def write(link: Link) -> None:
    """Put a link into the address bar, if it says anything new; edits that are too long for it are left out."""
    address = session.address()
    query = query_of(link)
    if query != address.query:
        address.query = query
        st.query_params.from_dict(query)


def query_of(link: Link) -> dict[str, str]:
    """Return the query for a link, without the edits when they are too long."""
    try:
        return to_query(link)
    except LinkError:
        return to_query(replace(link, edits=None))


def show_problems() -> None:
    """Say what the address asked for and did not get, until the next address."""
    address = session.address()
    sentences = list(address.notes)
    if address.problems:
        known, more = address.problems[:MAX_PROBLEMS], len(address.problems) - MAX_PROBLEMS
        rest = [f"and {more:,} more"] if more > 0 else []
        sentences.append(f"Could not be used: {'; '.join([*known, *rest])}.")
    if sentences:
        from explorer.wording import plain

        st.warning(plain(" ".join(sentences)), icon=":material/link_off:")


def _for_widget(value: Any) -> Any:
    return None if isinstance(value, float) and value == NO_LIMIT else value


SIDEBAR = frozenset(CODECS) - {"graph", "level", "colour", "lanes", "edits", "keep"}
"""What widgets of the sidebar take over."""
