"""The address of the page and the widgets of its sidebar, kept the same.

At the start of a run of the page `read` looks whether the address is another than the one written last: a first
visit, a link, Back or Forward. If so, each widget of that run takes its value from the address (`bound`). At the end
`write` puts what differs from the defaults into the address, in one step, and only when it has changed: nothing goes in
circles. Streamlit's own `bind="query-params"` is not used: it ties a parameter to one widget for good, while each graph
has widgets of its own here, and it drops a value that does not fit without a word.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from explorer.state import session
from explorer.state.query import Link, LinkError, from_query, to_query
from solvers.parameters.asked import TABLE
from solvers.parameters.parameter import Parameter, T
from solvers.quantities import count

MAX_PROBLEMS = 8
"""Parts of an address that are named if they cannot be used; hundreds would fill the page."""


def read() -> None:
    """Look at the address; call it before the first widget of the page."""
    address = session.address()
    address.values = {}
    address.asked = set()
    query = dict(st.query_params)
    is_first, has_come_back = address.query is None, session.has_just_come_back()
    address.is_back_again = is_first and bool(_sent_by_browser())
    # Who does something before the browser has heard of the address written last sends the one before it, and so does a
    # part of the page that looks at a solve: taking that for Back would take the newest inputs or edits back.
    if query == address.query or not (is_first or has_come_back or is_back_or_forward()):
        return
    # Streamlit leaves the query out of its links to pages: coming from another page changes nothing.
    is_link_to_page = query.keys() <= {"keep"} and has_come_back
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
    address.sent = _sent_by_browser()


def wanted() -> Link | None:
    """Return what the widgets of this run take over; None when they keep what they have."""
    return session.address().wanted


def drop(parameters: Iterable[Parameter[Any]]) -> None:
    """Have what the link that is taken over says of some parameters mean nothing, without a word."""
    session.address().asked.update(parameter.name for parameter in parameters)


def keep_only(parameters: Iterable[Parameter[Any]]) -> None:
    """Take over of the link only what it says of some parameters, and which graph it is about."""
    address, names = session.address(), {parameter.name for parameter in parameters}
    if (link := address.wanted) is not None:
        values = {name: value for name, value in link.values.items() if name in names}
        address.wanted = Link(link.sample, values=values)


def settled_values() -> dict[str, Any]:
    """Return the values of parameters that differed from their defaults when the page was drawn last."""
    return {name: value for name, value in session.address().settled.items() if name != "sample"}


def bound(name: str, key: str, default: Any, allowed: Container[Any], why_not: str) -> None:
    """Tie the widget `key`, which is drawn next, to the part `name` of the address.

    `default` is what the widget shows at first and what is left out of the address. A value that is not `allowed` is
    not used, and told of with `why_not`.
    """
    link = session.address().wanted
    given = None if link is None else getattr(link, name)
    reason = why_not if given is not None and given not in allowed else ""
    _tie(name, name, key, default, _Given(given is not None, given, given, reason), lambda value: value)


def bound_parameter(
    parameter: Parameter[T],
    key: str,
    usual: T,
    why_not: Callable[[T], str],
    shown: Callable[[T], Any] = lambda value: value,
    taken: Callable[[Any], T] = lambda value: value,
) -> None:
    """Tie the widget `key`, which is drawn next, to a parameter whose default is `usual`.

    `why_not` says why a value cannot be used, empty where it can. `shown` is what the widget shows of a value, `taken`
    the value again.
    """
    link = session.address().wanted
    is_given = link is not None and parameter.name in link.values
    value = link.values[parameter.name] if link is not None and is_given else usual
    reason = why_not(value) if is_given else ""
    given = _Given(is_given, shown(value), parameter.codec.write(value) if is_given else "", reason)
    _tie(parameter.name, parameter.address, key, shown(usual), given, taken)


class _Given(NamedTuple):
    """What an address gives a widget: whether anything, the value as the widget has it, as text, and what is wrong."""

    is_given: bool
    value: Any
    text: Any
    reason: str


def _tie(name: str, part: str, key: str, default: Any, given: _Given, taken: Callable[[Any], Any]) -> None:
    address = session.address()
    if address.wanted is not None:
        address.asked.add(name)
        if given.reason:
            address.problems.append(f"{part} {given.text} ({given.reason})")
        is_used = given.is_given and not given.reason
        # A page that was open when the server was started again has newer values than its address.
        if (is_used or key in st.session_state) and not is_set_by_browser(key):
            st.session_state[key] = given.value if is_used else default
    value = st.session_state[key] if key in st.session_state else default  # noqa: SIM401 -- no plain dict
    if value != default:
        address.values[name] = taken(value)


def is_back_or_forward() -> bool:
    """Whether this run was asked for by the browser's Back or Forward."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def is_set_by_browser(key: str) -> bool:
    """Whether the browser has a newer value for the widget `key`, drawn next, than the address that is taken over.

    So for all of a page that was open when its server was started anew, and for what was changed while a run took over
    the address: such a run is given up for the next one, and what was clicked at a page still loading would be lost.
    """
    address = session.address()
    if address.wanted is None and not address.is_back_again:
        return False
    return any(
        address.is_back_again or address.sent.get(name) != value for name, value in _sent_by_browser(f"-{key}").items()
    )


def _sent_by_browser(ending: str = "") -> dict[str, bytes]:
    """Return Streamlit's names and messages of the widgets whose values came with this run; of a page just loaded none.

    `ending` is that of the names that are asked for. There is no public way to ask; a test tells when this one goes.
    """
    context = get_script_run_ctx()
    if context is None:
        return {}
    states = context.session_state._state._new_widget_state
    messages = {name: states.get_serialized(name) for name in list(states.states) if name.endswith(ending)}
    return {name: message.SerializeToString() for name, message in messages.items() if message is not None}


def settle() -> None:
    """End taking over; call it when every widget that is tied to the address was drawn."""
    address = session.address()
    before, address.settled = address.settled, dict(address.values)
    address.settled_link = address.wanted
    if address.wanted is None:
        if before != address.values and not address.keeps_notes:  # the user went on
            address.problems, address.notes = [], []
        address.keeps_notes = False
        return
    link = address.wanted
    for parameter in TABLE:
        if parameter.name in link.values and parameter.name not in address.asked:
            value = parameter.codec.write(link.values[parameter.name])
            if value != "no":  # which asks for nothing
                address.problems.append(f"{parameter.address} {value} (it has no meaning for these inputs)")
    if link.sample is not None and link.graph is None and "sample" not in address.asked:
        address.problems.append(f"sample {link.sample} (it has no meaning for these inputs)")
    address.wanted = None
    if address.is_back_again:  # only now are the values known to which the address is written
        address.is_back_again, address.keeps_notes = False, True
        st.rerun()


def current(**others: Any) -> Link:
    """Return the state of the page as a link: what the widgets of this run have, and `others`."""
    values = {name: value for name, value in session.address().values.items() if name != "sample"}
    return Link(values=values, **others)


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
        rest = [f"and {count(more)} more"] if more > 0 else []
        sentences.append(f"Ignored from the link: {'; '.join([*known, *rest])}.")
    if sentences:
        from explorer.words.wording import plain

        st.warning(plain(" ".join(sentences)), icon=":material/link_off:")
