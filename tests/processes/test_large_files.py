"""Files that a process of its own reads: what it says, what it refuses, and that nothing it does harms the server."""

import json
import os
import signal
from typing import Any

import pytest
from hypothesis import given
from streamlit.testing.v1 import AppTest

from explorer.jobs.record import Question
from explorer.server.byte_cache import VIEWS
from explorer.server.limits import Limits, limits, set_limits
from explorer.server.packed_graph import CHUNK, packed_graph
from explorer.state import reading
from explorer.state.project import Project, parse_project, project_text
from explorer.state.query import Link
from explorer.state.reading import Reading, read
from explorer.state.records import LoadedGraph
from sample_graphs.synthetic import layered
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.samples import read_sample
from tests.support.examples import examples
from tests.support.graphs import small_graphs
from tests.support.opened_app import APP, solved
from tests.support.waiting import PATIENCE_S, eventually

GRAPH, DEPLOYMENT = read_sample("unet_operator_training")
TEXT = json.dumps(graph_document(GRAPH, DEPLOYMENT)).encode()


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have every file read by a process of its own, and nothing remembered of another test."""
    monkeypatch.setattr(reading, "LARGE_BYTES", -1)
    VIEWS.clear()
    before = limits()
    yield
    set_limits(before)
    VIEWS.clear()


def over(text: bytes, name: str = "mine.json") -> Reading:
    found = read(text, "1", name)
    assert found.wait(PATIENCE_S)
    return found


def test_a_process_reads_what_the_server_would_read() -> None:
    for sample in ("unet_operator_training", "gpt2_xl_layer_training", "teaching_convex_beats_chain"):
        text = json.dumps(graph_document(*read_sample(sample))).encode()
        found = over(text)
        assert found.error == ""
        assert found.outcome == LoadedGraph(*parse_graph(text, "mine"), "mine.json")
        assert isinstance(found.outcome, LoadedGraph)
        assert found.outcome.graph.digest == parse_graph(text, "mine")[0].digest
        assert found.share == 1.0


def test_what_was_read_otherwise_than_written_is_told_however_the_file_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = graph_document(*parse_graph(TEXT, "mine"))
    document["edges"].append(document["edges"][0])
    text = json.dumps(document).encode()
    told = []
    for most in (-1, len(text)):
        VIEWS.clear()
        monkeypatch.setattr(reading, "LARGE_BYTES", most)
        found = over(text).outcome
        assert isinstance(found, LoadedGraph)
        assert len(found.graph.edges) == len(document["edges"]) - 1
        told.append(found.notes)
    assert told[0] == told[1]
    assert told[0][0].startswith("1 repeated edge with the same numbers counts once")


def test_so_it_does_of_a_project() -> None:
    loaded = LoadedGraph(GRAPH, DEPLOYMENT, "mine")
    link = Link(graph=GRAPH.digest[:12], values={"accelerators": 3})
    text = project_text(loaded, link, None, Question(GRAPH.digest, DEPLOYMENT)).encode()
    found = over(text)
    assert isinstance(found.outcome, Project)
    assert found.outcome == parse_project(text)


@examples(4, deadline=None)
@given(small_graphs(max_nodes=6))
def test_and_of_any_graph(instance: Any) -> None:
    text = json.dumps(graph_document(*instance)).encode()
    assert over(text).outcome == LoadedGraph(*parse_graph(text, "mine"), "mine.json")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b"\xff" * 1000,
        b'{"nodes": 1}',
        b'{"format": "dnn-placement-explorer project"}',
        b'{"format": "dnn-placement-explorer project", "version": 1, "graph": {"file": {}}}',
        TEXT[: len(TEXT) // 2],
        TEXT.replace(b'"sourceId"', b'"sourceID"', 1),
    ],
    ids=range(9),
)
def test_a_file_that_is_none_is_refused_in_the_same_words(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = over(text)
    monkeypatch.setattr(reading, "LARGE_BYTES", 2**30)
    here = over(text)
    assert elsewhere.outcome is None
    assert elsewhere.error == here.error != ""


def test_a_graph_over_the_limit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, deployment = layered(10, 10, 10)
    loaded = LoadedGraph(graph, deployment, "mine")
    num_nodes, num_edges = len(graph.nodes), len(graph.edges)
    texts = (
        json.dumps(graph_document(graph, deployment)).encode(),
        project_text(loaded, Link(graph=graph.digest[:12]), None, Question(graph.digest, deployment)).encode(),
    )
    for max_nodes, max_edges, is_read in (
        (num_nodes, num_edges, True),
        (num_nodes - 1, num_edges, False),
        (num_nodes, num_edges - 1, False),
    ):
        set_limits(Limits(max_nodes=max_nodes, max_edges=max_edges))
        for large_bytes in (-1, 2**30):
            monkeypatch.setattr(reading, "LARGE_BYTES", large_bytes)
            VIEWS.clear()
            for text in texts:
                found = over(text)
                assert (found.outcome is not None) == is_read
                if not is_read:
                    for part in (f"{num_nodes:,} nodes", f"{num_edges:,} edges", f"{max_nodes:,}", "--largest-graph"):
                        assert part in found.error
                    assert found.num_made == 0


def test_a_process_that_needs_too_much_memory_is_ended_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MEMORY_BYTES", 100 * 2**20)
    text = b"[" + b",".join(b'{"a": [1.5, 2.5, 3.5]}' for _ in range(500_000)) + b"]"
    found = over(text)
    assert found.outcome is None
    assert "layer" in found.error


def paused(text: bytes) -> Reading:
    """Begin a reading whose process stands still."""
    found = read(text, "1", "mine.json")
    process = eventually(lambda: found._child)
    os.kill(process.pid, signal.SIGSTOP)
    return found


def is_gone(found: Reading) -> bool:
    return found._child is not None and not found._child.is_running


def test_cancelling_ends_the_process_and_says_so() -> None:
    found = paused(TEXT)
    assert not found.is_over
    found.cancel()
    assert found.wait(PATIENCE_S)
    assert (found.outcome, found.error.startswith("The reading was cancelled")) == (None, True)
    assert is_gone(found)
    found.cancel()
    assert over(TEXT).outcome is not None, "its turn is free again"


def test_a_process_that_is_killed_is_told() -> None:
    found = paused(TEXT)
    assert found._child is not None
    os.kill(found._child.pid, signal.SIGKILL)
    assert found.wait(PATIENCE_S)
    assert found.outcome is None
    assert "was ended" in found.error


def test_a_process_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SECONDS", 1)
    found = paused(TEXT)
    assert found.wait(PATIENCE_S)
    assert "took longer" in found.error
    assert is_gone(found)


def test_the_process_of_a_session_that_left_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "GRACE_SECONDS", 1.0)
    found = read(TEXT, "1", "mine.json", "gone", lambda _: False)
    os.kill(eventually(lambda: found._child).pid, signal.SIGSTOP)
    assert found.wait(PATIENCE_S)
    assert is_gone(found)


def test_no_more_files_than_so_many_are_read_at_once() -> None:
    first = [paused(TEXT + b" " * i) for i in range(reading.AT_ONCE)]
    third = read(TEXT + b"   ", "3", "third.json")
    eventually(lambda: third.is_waiting)
    assert "Waiting" in third.state
    fourth = read(TEXT + b"    ", "4", "fourth.json")
    eventually(lambda: fourth.is_waiting)
    fourth.cancel()
    assert fourth.wait(PATIENCE_S)
    assert "cancelled" in fourth.error
    first[0].cancel()
    assert third.wait(PATIENCE_S)
    assert third.outcome is not None
    first[1].cancel()


def test_a_file_that_was_read_is_read_no_second_time() -> None:
    first = over(TEXT)
    again = over(TEXT)
    assert again.outcome is first.outcome
    assert again._child is None
    assert over(TEXT, "other.json").outcome != first.outcome, "its title is another"


def test_a_strange_name_is_no_harm() -> None:
    for name in ("", "--help", "a\0b.json", "\ud800.json", "x" * 5_000):
        assert over(TEXT, name).outcome is not None


def test_a_graph_comes_in_by_small_parts() -> None:
    """So that whoever reads one of them holds no other thread up for long."""
    graph, _ = layered(20, 30, 20)
    parts = packed_graph(graph)
    assert len(parts) >= 1 + len(graph.nodes) / CHUNK + len(graph.edges) / CHUNK
    assert max(map(len, parts)) < 2**20


@pytest.mark.usefixtures("solver_processes")
@pytest.mark.parametrize(("name", "text"), [("mine.json", TEXT), ("broken.json", b'{"nodes": []}')])
def test_the_page_goes_on_while_a_file_is_read_and_says_what_came_of_it(name: str, text: bytes) -> None:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    solved(app.run())
    before = app.session_state["loaded_graph"]
    app.session_state["source"] = "Upload"
    app.run()
    app.file_uploader(key="upload").upload(name, text, "application/json")
    app.run()
    assert not app.exception
    eventually(lambda: app.session_state["reading"].is_over)
    app.run()
    assert not app.exception
    if text is TEXT:
        assert app.session_state["loaded_graph"].origin == name
    else:
        assert any(f"{name} was not read" in error.value.replace("\\", "") for error in app.error)
        assert app.session_state["loaded_graph"] is before
