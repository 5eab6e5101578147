"""A reload of the page loses nothing: its address brings back inputs, and by an id what the server keeps for it.

Inputs fit into the address. What does not (an uploaded graph, a plan that took a solve to find, a solve that still
runs, edits) is kept by the server under an unguessable id, which is in the address too.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import streamlit as st

from explorer import address, session
from explorer.address import query_of
from explorer.edit_document import EditDocumentError, from_document, to_document
from explorer.edited import history_for, remember_history
from explorer.inputs import Choice
from explorer.kept import HOURS_KEPT, Keeper
from explorer.link import Link
from explorer.looked_at import look_for_address
from explorer.project import judged_plan
from explorer.running import feels_live
from explorer.session import LoadedGraph, Notice, Run, Subject
from explorer.solver_pool import is_open, solver_pool

BYTES_PER_ITEM = 400
"""What a node or an edge takes in a file and in memory, roughly."""
SESSION, UPLOAD_SIZE = "session", "size"


@cache
def keeper() -> Keeper:
    """Return what this server keeps for all its sessions."""
    return Keeper()


def begin_visit() -> None:
    """Take back what the address names, on whichever page; call it at the start of every run."""
    keep_id = st.query_params.get("keep")
    if keep_id is None or keep_id in (session.keep_id(), session.taken_back()):
        return
    values = keeper().get(keep_id)
    if values is None:
        return
    session.take_back(keep_id, values)
    # A second tab on the same address gets an id of its own, or the two would overwrite each other.
    session.remember_keep_id(None if is_open(values[SESSION]) else keep_id)
    run = session.run()
    if run is not None:
        session.remember_run(_adopted(run))


def end_visit() -> None:
    """Name in the address of a page without inputs what the server keeps."""
    keep_id = keep(session.loaded_graph())
    if keep_id is not None and st.query_params.get("keep") != keep_id:
        st.query_params["keep"] = keep_id


def begin_page() -> None:
    """Take over what the address says and names; call it before the first widget of the page."""
    address.read()
    link = address.wanted()
    if link is None:
        return
    found = link.keep in (session.keep_id(), session.taken_back())
    uploaded = session.uploaded_graph()
    if link.graph is not None and (uploaded is None or not uploaded.graph.digest.startswith(link.graph)):
        # Its other parts are about that graph and mean nothing for another.
        address.want(Link())
        session.address().notes.append(
            f"The uploaded graph of this address is not on this server: it keeps one for {HOURS_KEPT:g} hours after "
            "the last visit, until it is stopped. Open the file again; a project file keeps everything."
        )
    elif link.keep is not None and not found:
        session.address().notes.append(
            "What was solved at this address is not kept on this server any more. Solve again; a project file keeps "
            "everything."
        )


def take_edits(choice: Choice) -> None:
    """Apply the edits that a new address holds to the plan; what follows on them can still be redone."""
    link = session.address().settled_link
    if link is None:
        return
    digest = choice.loaded.graph.digest
    known = history_for(digest)
    if link.edits is None:
        if known is not None and known.is_edited and "edits" in query_of(page_link(choice)):
            remember_history(replace(known, at=0))  # Back to before the first edit
        return
    try:
        history = from_document(link.edits, choice.loaded.graph)
    except EditDocumentError as error:
        session.address().notes.append(f"The edits in the address were not applied. {error}")
        return
    is_known = known is not None and known.base == history.base
    if known is not None and is_known and known.steps[: history.at] == history.steps[: history.at]:
        history = replace(known, at=history.at)
    remember_history(history)


def take_plan(choice: Choice) -> None:
    """Take over the plan of a project file that was just opened, as the evaluator judges it for these inputs."""
    project = session.project()
    if project is None or session.address().settled_link is None:
        return
    session.remember_project(None)
    if project.loaded.graph.digest != choice.loaded.graph.digest:
        return
    plan, sentence = judged_plan(replace(project, loaded=choice.loaded), choice.graph, choice.question)
    if plan is not None:
        session.remember_plan(plan)
        session.remember_notice(Notice(choice.question, sentence) if sentence else None)
    elif sentence:
        session.address().notes.append(sentence)


def end_page(choice: Choice) -> None:
    """Write the state of the page into its address, and keep on the server what does not fit there."""
    link = page_link(choice)
    session.remember_subject(Subject(choice.loaded, choice.graph, choice.question, replace(link, edits=None)))
    address.write(replace(link, keep=keep(choice.loaded)))


def page_link(choice: Choice) -> Link:
    """Return the state of the page, without what only this server knows."""
    is_upload = choice.loaded is session.uploaded_graph()
    return address.current(
        sample=None if is_upload else session.address().values.get("sample"),
        graph=choice.loaded.graph.digest[:12] if is_upload else None,
        edits=edits_document(choice),
        **look_for_address(),
    )


def edits_document(choice: Choice) -> dict[str, Any] | None:
    """Return the edits in force as a document, None where there are none."""
    history = history_for(choice.loaded.graph.digest)
    if history is None or not history.is_edited:
        return None
    return to_document(replace(history, steps=history.steps[: history.at]))


def keep(loaded: LoadedGraph | None) -> str | None:
    """Keep this session, if it has anything that the address cannot hold, and return the id; None if it has not."""
    plan, run, uploaded = session.plan(), session.run(), session.uploaded_graph()
    history = None if loaded is None else history_for(loaded.graph.digest)
    has_more = (
        (loaded is not None and loaded is uploaded)
        or (history is not None and history.steps != ())
        or session.kept() != ()
        or session.sweep() is not None
        or (run is not None and not run.is_live)  # what starts by itself does so again
        or (plan is not None and not feels_live(plan.question))
    )
    keep_id = session.keep_id()
    if keep_id is None and not has_more:
        return None
    keep_id = keep_id or keeper().new_id()
    session.remember_keep_id(keep_id)
    size = 0 if uploaded is None else BYTES_PER_ITEM * (len(uploaded.graph.nodes) + len(uploaded.graph.edges))
    keeper().put(keep_id, {**session.values_to_keep(), SESSION: session.session_id()}, size)
    return keep_id


def _adopted(run: Run) -> Run:
    """Return a solve as one of this session; one that has ended meanwhile is taken note of like any other."""
    job = solver_pool().adopt(run.job.id, session.session_id(), is_open)
    return run if job is None else replace(run, job=job)
