"""What a solver process is told of a graph: all of it, in a text that is written once for all questions about it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given

from explorer.jobs.record import Question, RunRecord
from explorer.jobs.work_request import graph_message, request_of
from explorer.jobs.worker import MAX_REMEMBERED, _graph
from solvers.formats.graph_json import parse_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.samples import read_sample, sample_names
from tests.support.graphs import Drawn, chain, mixed, random_dag, random_tensors, with_class_times


def _as_read(graph: DnnGraph) -> DnnGraph:
    """Return a graph without the transfer times of tensors that no node reads: a file has no place for them."""
    read = {(edge.source, edge.tensor) for edge in graph.edges}
    nodes = (
        replace(
            node,
            transfer_ms=node.transfer_ms if (node.id, "") in read else 0.0,
            tensor_ms=tuple((name, ms) for name, ms in node.tensor_ms if (node.id, name) in read),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=tuple(nodes))


@given(drawn=mixed())
def test_a_graph_arrives_as_it_is(drawn: Drawn) -> None:
    graph = _as_read(drawn[0])
    assert parse_graph(graph_message(graph))[0] == graph


@pytest.mark.parametrize("seed", range(5))
def test_times_on_device_types_and_names_of_tensors_arrive(seed: int) -> None:
    for graph in map(_as_read, (with_class_times(random_dag(seed), seed), random_tensors(random_dag(seed), seed))):
        told, _ = parse_graph(graph_message(graph))
        assert (told, told.digest) == (graph, graph.digest)


@pytest.mark.parametrize("name", sample_names()[:6])
def test_a_sample_arrives_as_it_is(name: str) -> None:
    graph, _ = read_sample(name)
    assert parse_graph(graph_message(graph))[0].digest == graph.digest


def _told(graph: DnnGraph, deployment: Deployment) -> dict[str, object]:
    question = Question(graph.digest, deployment)
    document: dict[str, object] = json.loads(request_of(RunRecord(number=1, question=question, graph=graph))())
    return document


def test_the_text_of_a_graph_is_the_same_for_all_questions_about_it_and_read_once() -> None:
    graph = chain([1.0, 2.0, 3.0])
    first, second = _told(graph, Deployment(2)), _told(graph, Deployment(3, 1, memory_bytes=10.0))
    assert first["graph"] == second["graph"]
    assert first["deployment"] != second["deployment"]
    assert _graph(str(first["graph"])) is _graph(str(second["graph"]))


def test_a_process_does_not_keep_a_large_graph() -> None:
    graph = _as_read(chain([1.0, 2.0, 3.0]))
    text = graph_message(graph)
    large = text + " " * (MAX_REMEMBERED - len(text) + 1)
    assert _graph(large) == graph
    assert _graph(large) is not _graph(large)
