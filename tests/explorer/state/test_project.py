"""Project files: what is written is read again, nothing in them is believed, and no text breaks the reader."""

import json
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from explorer.jobs.record import Question
from explorer.state.project import judged_plan, parse_project, project_text
from explorer.state.project_file import ProjectError, is_project
from explorer.state.query import Link
from explorer.state.records import LoadedGraph, Plan
from solvers.formats.graph_json import graph_document, parse_graph
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, Replication
from solvers.model.errors import PlacementError
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.samples import read_sample, sample_names
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.graphs import small_graphs
from tests.support.project_files import DEPLOYMENT, GRAPH, QUESTION

LOADED = LoadedGraph(GRAPH, DEPLOYMENT, "<img src=x> **mine**")
LINK = Link(graph=GRAPH.digest[:12], values={"accelerators": 3, "memory": 16.0, "micro_batches": 9})


def plan_of(loaded: LoadedGraph, question: Question) -> Plan | None:
    result = solve(loaded.graph, question.deployment, objective=question.objective, family=question.family)
    if result.split is None:
        return None
    return Plan(question, loaded, loaded.graph, question.deployment, result, result.split)


@cache
def undamaged() -> str:
    return project_text(LOADED, LINK, plan_of(LOADED, QUESTION), QUESTION)


def text(**changes: Any) -> bytes:
    return json.dumps(json.loads(undamaged()) | changes).encode()


@given(small_graphs(max_nodes=5))
@examples(40, suppress_health_check=[HealthCheck.too_slow])
def test_a_project_gives_graph_inputs_and_plan_back(instance: Any) -> None:
    # As graphs come from files: these know no cost of an output that nobody reads.
    graph, deployment = parse_graph(json.dumps(graph_document(*instance)))
    loaded = LoadedGraph(graph, deployment, "random")
    question = Question(graph.digest, deployment)
    plan = plan_of(loaded, question)
    written = project_text(loaded, replace(LINK, graph=graph.digest[:12]), plan, question).encode()
    assert is_project(written)
    project = parse_project(written)
    assert project.loaded == loaded
    assert (project.link, project.problems) == (replace(LINK, graph=graph.digest[:12]), ())
    assert (project.split is None) == (plan is None)
    if plan is not None:
        again, sentence = judged_plan(project, graph, question)
        assert again is not None
        assert (again.split, again.result.value_ms) == (plan.split, plan.result.value_ms)
        assert again.result.lower_bound_ms is not None
        assert plan.result.value_ms is not None
        # What is called optimal without a solve really is; and where it is not said, the file's word is told.
        if again.result.status is SolveStatus.OPTIMAL:
            assert again.result.value_ms == pytest.approx(plan.result.value_ms, rel=1e-5)
        else:
            assert "claims optimal" in sentence


@pytest.mark.parametrize("sample", sample_names())
def test_every_sample_survives(sample: str) -> None:
    graph, deployment = read_sample(sample)
    loaded = LoadedGraph(graph, deployment, sample)
    project = parse_project(
        project_text(loaded, Link(sample=sample), None, Question(graph.digest, deployment)).encode()
    )
    assert project.loaded.graph.digest == graph.digest
    assert project.loaded.deployment == deployment
    assert (project.link.sample, project.link.graph) == (sample, None)


def test_a_stale_plan_takes_no_claims_along() -> None:
    plan = plan_of(LOADED, QUESTION)
    fewer = replace(QUESTION, deployment=replace(DEPLOYMENT, num_accelerators=2))
    project = parse_project(project_text(LOADED, LINK, plan, fewer).encode())
    assert project.claims is None
    again, sentence = judged_plan(project, GRAPH, fewer)
    assert again is None  # three devices' stages do not fit on two
    assert "violates a constraint" in sentence


def test_a_file_proves_nothing() -> None:
    document = json.loads(text())
    everything = [node["id"] for node in document["graph"]["file"]["nodes"]]
    document["graph"]["file"].pop("maxSizePerFPGA", None)
    document["plan"]["split"] = {"fpgas": [{"nodes": everything}], "cpus": []}
    document["plan"]["claims"] |= {"status": "OPTIMAL", "value_ms": 0.001, "lower_bound_ms": 0.001}
    project = parse_project(json.dumps(document).encode())
    free = replace(QUESTION, deployment=Deployment(3))
    plan, sentence = judged_plan(project, project.loaded.graph, free)
    assert plan is not None
    assert plan.result.status is SolveStatus.FEASIBLE
    assert plan.result.value_ms == sum(node.accelerator_ms for node in GRAPH.nodes)
    assert plan.result.lower_bound_ms is not None
    assert plan.result.lower_bound_ms < plan.result.value_ms
    assert "was not checked" in sentence
    # An invalid split is not taken over at all.
    document["plan"]["split"]["fpgas"][0]["nodes"] = everything[:-1]
    plan, sentence = judged_plan(parse_project(json.dumps(document).encode()), GRAPH, QUESTION)
    assert plan is None
    assert "not taken over" in sentence


def test_replicated_stages_come_back_as_entries() -> None:
    graph, _ = read_sample("teaching_convex_beats_chain")
    deployment = Deployment(2, replication=Replication(2))
    question = Question(graph.digest, deployment)
    loaded = LoadedGraph(graph, Deployment(2), "replicas")
    plan = plan_of(loaded, question)
    again, _ = judged_plan(parse_project(project_text(loaded, LINK, plan, question).encode()), graph, question)
    assert again is not None
    assert plan is not None
    assert again.result.value_ms == plan.result.value_ms == 4.0
    assert again.deployment.num_accelerators == 1


def test_latency_with_cpus_has_no_bound_from_work() -> None:
    graph, deployment = read_sample("unet_operator_inference")
    question = Question(graph.digest, deployment, objective=Objective.LATENCY, family=Family.FREE)
    loaded = LoadedGraph(graph, deployment, "latency")
    one = solve(graph, deployment, method="single").split
    assert one is not None
    project = parse_project(project_text(loaded, LINK, None, question).encode())
    plan, _ = judged_plan(replace(project, split=one), graph, question)
    assert plan is not None
    assert plan.result.lower_bound_ms is None


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (b'{"format": "dnn-placement-explorer project", "version": 1', "not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (text()[:-1] + b', "version": 1}', 'names the field "version" twice'),
        (text().replace(b'"maxFPGAs": ', b'"maxFPGAs": 9, "maxFPGAs": '), 'names the field "maxFPGAs" twice'),
        (b'{"format": "something else"}', "no project"),
        ({"version": 2}, "version 2"),
        ({"graph": None}, "'graph'"),
        ({"graph": {"file": {}}}, "nodes"),
        ({"inputs": [1]}, "'inputs'"),
        ({"plan": {"split": {"fpgas": 3}}}, "fpgas"),
        ({"edits": "x"}, "'edits'"),
    ],
)
def test_damage_is_told_in_one_sentence(damage: bytes | dict[str, Any], words: str) -> None:
    damaged = damage if isinstance(damage, bytes) else text(**damage)
    with pytest.raises(PlacementError, match=words) as raised:
        parse_project(damaged)
    assert "\n" not in str(raised.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES = st.sampled_from(["graph", "inputs", "plan", "edits", "version", "format"])


@given(PLACES, JSON)
@examples(150)
def test_no_value_anywhere_breaks_the_reader(place: str, value: Any) -> None:
    with suppress(PlacementError):
        project = parse_project(text(**{place: value}))
        judged_plan(project, project.loaded.graph, QUESTION)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(noise: bytes) -> None:
    is_project(noise)
    with pytest.raises(PlacementError):
        parse_project(noise)


def test_claims_are_cleaned() -> None:
    document = json.loads(text())
    document["plan"]["claims"] |= {"method": "a\nb" * 100, "status": 3, "value_ms": "x", "lower_bound_ms": True}
    claims = parse_project(json.dumps(document).encode()).claims
    assert claims is not None
    assert "\n" not in claims.method
    assert len(claims.method) <= 40
    assert (claims.status, claims.value_ms, claims.lower_bound_ms) == ("", None, None)


def test_project_errors_are_placement_errors() -> None:
    assert issubclass(ProjectError, PlacementError)
