"""A reload of the page loses nothing: its address brings back inputs, and the server what it keeps for its browser.

Inputs fit into the address. What does not (an uploaded graph, a plan that took a solve to find, a solve that still
runs, edits) is kept by the server for the browser, which it knows by a cookie; the address holds a number that tells
the tabs of one browser apart. To another browser the number means nothing: whoever is to see an uploaded graph gets a
link that shares it.
"""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import streamlit as st

from explorer.edits.document import EditDocumentError, from_document, to_document
from explorer.form.graph import DEFAULT_SAMPLE
from explorer.jobs.server_pool import is_open, solver_pool
from explorer.plan.solve_control import feels_live
from explorer.server.janitor import FORGETTERS
from explorer.server.limits import limits
from explorer.server.visitor import current_visitor
from explorer.state import address, session, widgets
from explorer.state.address import query_of
from explorer.state.choice import Choice
from explorer.state.edits import history_for, remember_history
from explorer.state.keeper import Keeper
from explorer.state.lessons import has_learned
from explorer.state.look import look_for_address
from explorer.state.project import judged_plan
from explorer.state.query import Link
from explorer.state.records import LoadedGraph, Notice, Run, Subject
from explorer.state.shared import NOT_HERE, OVER, Shares
from explorer.state.shelf import Shelf

NOT_KEPT = (
    "What was solved at this address is not kept for this browser, or not any more. Solve again; a project file keeps "
    "everything."
)
LOST = (
    "The server was started again: plans that were solved here are lost, with the best plan and bound of a solve that "
    "was running. Solve again; a project file keeps everything."
)


@cache
def keeper() -> Keeper:
    """Return what this server keeps for all its sessions."""
    folder = limits().keep_in
    made = Keeper(is_open, shelf=None if folder is None else Shelf(folder))
    FORGETTERS.append(made.tidy)
    made.shelve_again_and_again()
    return made


@cache
def shares() -> Shares:
    """Return what is shared on this server."""
    made = Shares()
    FORGETTERS.append(made.tidy)
    return made


def begin_visit() -> None:
    """Take back what the address names, on whichever page; call it at the start of every run."""
    number = _number_in_address()
    visitor = current_visitor()
    if number is None or visitor is None or number in (session.keep_number(), session.taken_back()):
        return
    kept = keeper().get(visitor, number)
    if kept is None:
        return
    session.take_back(number, kept.values)
    # A second tab on the same address gets a number of its own, or the two would overwrite each other.
    session.remember_keep_number(None if is_open(kept.session) else number)
    run = session.run()
    if run is not None:
        session.remember_run(_adopted(run))


def end_visit() -> None:
    """Name in the address of a page without inputs what the server keeps."""
    number = keep(session.loaded_graph())
    if number is not None and _number_in_address() != number:
        st.query_params["keep"] = str(number)


def begin_page() -> None:
    """Take over what the address says and names; call it before the first widget of the page."""
    address.read()
    link = address.wanted()
    if link is None:
        return
    if link.shared is not None:
        _open_share(link.shared)
        return
    found = link.keep in (session.keep_number(), session.taken_back())
    uploaded = session.uploaded_graph()
    if link.graph is not None and (uploaded is None or not uploaded.graph.digest.startswith(link.graph)):
        # Its other parts are about that graph and mean nothing for another.
        address.want(Link())
        session.address().notes.append(NOT_HERE)
    elif link.keep is not None and not found:
        session.address().notes.append(LOST if session.address().is_back_again else NOT_KEPT)


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
        sample=None if is_upload else _sample_shown(),
        graph=choice.loaded.graph.digest[:12] if is_upload else None,
        edits=edits_document(choice),
        **look_for_address(),
    )


def _sample_shown() -> str | None:
    """Return the name of the sample shown, None for the usual one; its box is gone while a file is asked for."""
    known: str | None = session.address().values.get("sample") or widgets.value("sample")
    return None if known == DEFAULT_SAMPLE else known


def edits_document(choice: Choice) -> dict[str, Any] | None:
    """Return the edits in force as a document, None where there are none."""
    history = history_for(choice.loaded.graph.digest)
    if history is None or not history.is_edited:
        return None
    return to_document(replace(history, steps=history.steps[: history.at]))


def keep(loaded: LoadedGraph | None) -> int | None:
    """Keep this session, if it has anything that the address cannot hold, and return its number; None if it has not.

    Nothing is kept for a browser that takes no cookie.
    """
    visitor = current_visitor()
    if visitor is None:
        return None
    plan, run, uploaded = session.plan(), session.run(), session.uploaded_graph()
    history = None if loaded is None else history_for(loaded.graph.digest)
    has_more = (
        (loaded is not None and loaded is uploaded)
        or (history is not None and history.steps != ())
        or session.kept() != ()
        or session.sweep() is not None
        or has_learned()
        or (run is not None and not run.is_live)  # what starts by itself does so again
        or (plan is not None and not feels_live(plan.question))
    )
    number = session.keep_number()
    if number is None and not has_more:
        return None
    number = keeper().put(visitor, number, session.session_id(), session.values_to_keep())
    session.remember_keep_number(number)
    return number


def _open_share(token: str) -> None:
    """Take over what a link shares, as if it were a project file that was opened here."""
    project = shares().open(token)
    if project is None:
        address.want(Link())
        session.address().notes.append(OVER)
        return
    session.remember_upload(project.loaded)
    session.remember_project(project)
    address.want(project.link)


def _number_in_address() -> int | None:
    text = st.query_params.get("keep", "")
    return int(text) if re.fullmatch(r"\d{1,6}", text, flags=re.ASCII) else None


def _adopted(run: Run) -> Run:
    """Return a solve as one of this session; one that has ended meanwhile is taken note of like any other."""
    job = solver_pool().adopt(run.job.id, session.session_id(), is_open)
    return run if job is None else replace(run, job=job)
