"""How the page on the screen is passed on: a link, and a project file."""

from dataclasses import replace
from urllib.parse import urlencode

import streamlit as st

from explorer import session
from explorer.address import query_of
from explorer.exports.subject import file_stem
from explorer.inputs import Choice
from explorer.kept import HOURS_KEPT
from explorer.project import project_text
from explorer.reload import page_link
from explorer.shown import incumbent_plan, last_plan
from explorer.wording import plain


def show_share(choice: Choice) -> None:
    """Show the link to the page and the button that saves it as a project file, and say what each holds."""
    link = page_link(choice)
    st.markdown("##### Link and project file")
    plan = incumbent_plan(choice) or last_plan(choice)  # edits are written beside the plan they were made from
    left, right = st.columns([3, 1])
    with left:
        st.code(link_to(choice), language=None, wrap_lines=True)
        st.caption(plain(_what_the_link_holds(choice)))
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
    """Return the address that gives this page: to anyone for a sample, on this server only for an upload."""
    link = page_link(choice)
    if link.graph is not None:
        link = replace(link, keep=session.keep_id())
    base = (st.context.url or "").partition("?")[0]
    query = urlencode(query_of(link))
    return f"{base}?{query}" if query else base


def _what_the_link_holds(choice: Choice) -> str:
    link = page_link(choice)
    too_long = link.edits is not None and "edits" not in query_of(link)
    sentences = []
    if link.graph is not None:
        sentences.append(
            f"The graph is a file of yours, so the link works on this server only, for {HOURS_KEPT:g} hours after the "
            "last visit. To pass it on, or to keep it, save a project file."
        )
    else:
        sentences.append("The link opens this graph with these inputs; plans that solve quickly are solved again.")
    if too_long:
        sentences.append("The edits are too long for a link; a project file holds them.")
    return " ".join(sentences)
