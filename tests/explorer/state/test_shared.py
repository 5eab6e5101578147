"""Sharing an uploaded graph: for a time, by a token, taken back by its owner, within bounds."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.explore.share import _when
from explorer.jobs.record import Question
from explorer.state.project import parse_project, project_of, project_text
from explorer.state.query import Link
from explorer.state.records import LoadedGraph, Plan
from explorer.state.shared import ShareError, Shares
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import small_graphs
from tests.support.opened_app import address, visited
from tests.support.shared_graphs import GRAPH, LOADED, PROJECT

ME, OTHER = "m" * 32, "o" * 32


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(small_graphs(max_nodes=5))
@examples(30, deadline=None)
def test_a_share_holds_what_a_project_file_holds(instance: Any) -> None:
    graph, deployment = parse_graph(json.dumps(graph_document(*instance)))
    loaded, question = LoadedGraph(graph, deployment, "random"), Question(graph.digest, deployment)
    result = solve(graph, deployment)
    plan = None if result.split is None else Plan(question, loaded, graph, deployment, result, result.split)
    link = Link(graph=graph.digest[:12], edits={"steps": []}, keep=1234, values={"accelerators": 3})
    shares = Shares()
    share = shares.add(ME, project_of(loaded, link, plan, question), 60.0)
    opened = shares.open(share.token)
    assert opened == parse_project(project_text(loaded, link, plan, question).encode())


def test_a_share_ends_at_its_time() -> None:
    clock = Clock()
    shares = Shares(clock=clock)
    share = shares.add(ME, PROJECT, 60.0)
    clock.now_s = 59.0
    assert shares.open(share.token) == PROJECT
    assert [known.num_opened for known in shares.of(ME)] == [1]
    clock.now_s = 60.0
    assert shares.open(share.token) is None
    assert shares.of(ME) == ()


@pytest.mark.parametrize("zone", ["America", "a" * 5_000, "../etc/passwd", "\0", "\ud800", "tzdata.zi", ""])
def test_a_browser_may_call_its_zone_what_it_likes(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.explore.share.st", SimpleNamespace(context=SimpleNamespace(timezone=zone)))
    assert _when(0.0) == "1 January, 00:00 UTC"


def test_only_its_owner_takes_it_back() -> None:
    shares = Shares()
    share = shares.add(ME, PROJECT, 60.0)
    shares.stop(OTHER, share.token)
    assert shares.open(share.token) == PROJECT
    assert shares.of(OTHER) == ()
    shares.stop(ME, share.token)
    assert shares.open(share.token) is None
    assert shares.open("") is None


def test_tokens_cannot_be_guessed() -> None:
    shares = Shares()
    tokens = {shares.add(f"{i}", PROJECT, 60.0).token for i in range(50)}
    assert len(tokens) == 50
    assert {len(token) for token in tokens} == {32}


@examples(50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([ME, OTHER, "third"]), st.integers(1, 50)), max_size=40))
def test_bounds_hold_and_a_refusal_takes_nothing_away(asked: list[tuple[str, int]]) -> None:
    clock = Clock()
    size = len(Shares().add(ME, PROJECT, 1.0).data)
    shares = Shares(max_shares=6, max_shares_of_owner=3, max_bytes=5 * size, max_bytes_of_owner=3 * size, clock=clock)
    for owner, seconds in asked:
        clock.now_s += 1.0
        before = {name: shares.of(name) for name in (ME, OTHER, "third")}
        try:
            shares.add(owner, PROJECT, float(seconds))
        except ShareError:
            assert {name: shares.of(name) for name in before} == before
        of = [shares.of(name) for name in before]
        assert max(map(len, of)) <= 3
        assert sum(len(share.data) for mine in of for share in mine) <= 5 * size


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Shares:
    own = Shares()
    monkeypatch.setattr("explorer.plan.reload.shares", lambda: own)
    monkeypatch.setattr("explorer.explore.share.shares", lambda: own)
    return own


@pytest.mark.usefixtures("solver_processes")
def test_a_shared_link_opens_graph_and_inputs_and_says_when_it_is_over(shares: Shares) -> None:
    token = shares.add(ME, PROJECT, 60.0).token
    app = visited(shared=token)
    assert not app.warning
    assert app.session_state["loaded_graph"] == LOADED
    assert address(app)["graph"] == GRAPH.digest[:12]
    assert address(app)["accelerators"] == "2"
    assert "shared" not in app.query_params, "the address of a guest shares nothing"
    shares.stop(ME, token)
    app = visited(shared=token)
    assert ["does not share a graph any more" in warning.value for warning in app.warning] == [True]
    assert not app.exception
    assert app.selectbox(key="sample").value == "bert_base_operator_inference"


@pytest.mark.usefixtures("solver_processes")
def test_sharing_is_an_act_and_can_be_taken_back(shares: Shares) -> None:
    token = shares.add(OTHER, PROJECT, 60.0).token
    app = visited(shared=token)
    app.session_state["below"] = "Share and export"
    app.run()

    def stops() -> list[Any]:
        return [button for button in app.button if button.label == "Stop sharing"]

    assert [code.value for code in app.code if "shared=" in code.value] == []
    app.button(key="share").click().run()
    (link,) = [code.value for code in app.code if "shared=" in code.value]
    opened = shares.open(link.partition("shared=")[2])
    assert opened is not None
    assert opened.loaded == LOADED
    (stop,) = stops()
    stop.click().run()
    assert stops() == []
    assert shares.open(link.partition("shared=")[2]) is None
    assert shares.open(token) is not None, "another's share is another matter"


def test_a_full_server_says_so(shares: Shares, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "_max_shares_of_owner", 0)
    add: Callable[..., Any] = shares.add
    with pytest.raises(ShareError, match="stop sharing a graph first"):
        add(ME, PROJECT, 1.0)
