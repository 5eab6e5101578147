"""How the page on the screen is passed on: a link, and a project file.

A sample with its inputs is an address that anybody may have. An uploaded graph is its owner's: it is in no address, and
is shared for a stated time by a deliberate act that can be taken back.
"""

from datetime import UTC, datetime
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from explorer.figures.subject import file_stem
from explorer.plan.current_plan import incumbent_plan, last_plan
from explorer.plan.reload import page_link, shares
from explorer.server.visitor import current_visitor
from explorer.state import session
from explorer.state.address import query_of
from explorer.state.choice import Choice
from explorer.state.project import Project, project_of, project_text
from explorer.state.records import Plan
from explorer.state.shared import Share, ShareError
from explorer.words.wording import plain
from solvers.quantities import count

HOUR_S = 3600.0
DURATIONS = {"1 hour": HOUR_S, "1 day": 24 * HOUR_S, "1 week": 7 * 24 * HOUR_S}


def show_share(choice: Choice) -> None:
    """Show the link to the page and the button that saves it as a project file, and say what each holds."""
    link = page_link(choice)
    st.markdown("##### Link and project file")
    plan = incumbent_plan(choice) or last_plan(choice)  # edits are written beside the plan they were made from
    left, right = st.columns([3, 1])
    with left:
        if link.graph is None:
            st.code(link_to(choice), language=None, wrap_lines=True)
            st.caption(plain(_what_the_link_holds(choice)))
        else:
            _show_sharing(choice, plan)
    with right:
        st.download_button(
            "Project file",
            lambda: project_text(choice.loaded, link, plan, choice.question),
            f"{file_stem(choice.loaded.graph.name or choice.loaded.origin)}_project.json",
            "application/json",
            on_click="ignore",
            width="stretch",
            key="project_file",
        )
        st.caption("Graph, inputs, plan and edits in one file; Upload opens it anywhere.")


def link_to(choice: Choice) -> str:
    """Return the address that gives this page to anyone; of an upload it gives the inputs alone."""
    return _address(query_of(page_link(choice)))


def _address(query: dict[str, str]) -> str:
    base = (st.context.url or "").partition("?")[0]
    return f"{base}?{urlencode(query)}" if query else base


def _what_the_link_holds(choice: Choice) -> str:
    link = page_link(choice)
    sentences = ["The link opens this graph with these inputs; plans that solve quickly are solved again."]
    if link.edits is not None and "edits" not in query_of(link):
        sentences.append("The edits are too long for a link; a project file holds them.")
    return " ".join(sentences)


def _show_sharing(choice: Choice, plan: Plan | None) -> None:
    """Share the uploaded graph on the page, or show the link that shares it; then what else this browser shares."""
    mine = shares().of(_owner())
    digest = choice.loaded.graph.digest
    shared = [share for share in mine if share.digest == digest]
    for share in shared:
        st.code(_address({"shared": share.token}), language=None, wrap_lines=True)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                f"Shared {_when(share.began_s)}, as the page was then, until {_when(share.until_s)}; "
                f"opened {_times(share.num_opened)}. Whoever has opened it keeps a copy, also after it is stopped.",
                width="stretch",
            )
            _stop_button(share, "Stop sharing")
    if not shared:
        st.caption(
            "The graph is a file of yours, so the address of this page opens it in this browser only. A shared link "
            "gives it, with inputs, plan and edits as they are now, to anyone who has the link, until its time is "
            "over, you stop it, or the server ends."
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            duration = st.segmented_control(
                "Share for",
                list(DURATIONS),
                default="1 day",
                required=True,
                key="share_for",
                persist_state="session",
                width="content",
            )
            project = project_of(choice.loaded, page_link(choice), plan, choice.question)
            st.button("Share this graph", key="share", on_click=_share, args=(project, DURATIONS[duration]))
    if (problem := session.share_problem()) is not None:
        st.error(plain(problem))
    for share in mine:
        if share.digest != digest:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.caption(f"Also shared: {plain(share.origin)}, until {_when(share.until_s)}.", width="stretch")
                _stop_button(share, f"Stop sharing {plain(share.origin[:40])}")


def _share(project: Project, seconds: float) -> None:
    session.remember_share_problem(None)
    try:
        shares().add(_owner(), project, seconds)
    except ShareError as error:
        session.remember_share_problem(str(error))


def _stop_button(share: Share, label: str) -> None:
    st.button(label, key=f"stop_{share.token}", on_click=_stop, args=(share.token,))


def _stop(token: str) -> None:
    session.remember_share_problem(None)
    shares().stop(_owner(), token)


def _owner() -> str:
    """Return who shares: this browser, or this session of one that takes no cookie."""
    return current_visitor() or session.session_id()


def _times(num: int) -> str:
    return {0: "by nobody so far", 1: "once"}.get(num, f"{count(num)} times")


def _when(seconds: float) -> str:
    """Write a moment as the clock of the browser shows it; UTC, and said so, where that is not known.

    >>> _when(0.0)
    '1 January, 00:00 UTC'
    """
    try:
        zone = ZoneInfo(st.context.timezone or "")
    except (ValueError, OSError, ZoneInfoNotFoundError):  # a folder of zones, or too long for a name of a file
        at = datetime.fromtimestamp(seconds, UTC)
        return f"{at.day} {at:%B, %H:%M} UTC"
    at = datetime.fromtimestamp(seconds, zone)
    return f"{at.day} {at:%B, %H:%M}"
