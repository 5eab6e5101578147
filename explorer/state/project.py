"""A project file: graph, inputs, plan and edits of a page in one JSON object, to keep and to pass on.

    {"format": "dnn-placement-explorer project", "version": 1,
     "graph": {"origin": title, "sample"?: name, "file": the graph as in solvers.formats.graph_json},
     "inputs": the query of the page's address, see explorer.state.query,
     "plan"?: {"split": as in solvers.formats.graph_json, "claims": {"method", "status", "value_ms", "lower_bound_ms"}},
     "edits"?: see explorer.edits.document}

A file proves nothing. The split is judged by the evaluator when the file is opened; its value is computed afresh, its
bound is the one from total work, and "optimal" is said only where that bound meets the value. What the file claims is
shown as a claim.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from explorer.jobs.record import Question
from explorer.state.entries import by_entry
from explorer.state.project_file import FORMAT, VERSION, checked_object, project_fields
from explorer.state.query import Link, from_query, to_query
from explorer.state.records import LoadedGraph, Plan
from solvers.formats.graph_json import OnProgress, graph_document, graph_from_document, parse_split, split_document
from solvers.model.costs import Objective, objective_value
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, SolveResult, SolveStatus, relative_gap
from solvers.model.split import Split, check_split, complete_split
from solvers.problem.bounds import work_bound
from solvers.problem.contraction import contract
from solvers.quantities import milliseconds


@dataclass(frozen=True, slots=True)
class Claims:
    """What a file says of its plan, unproven."""

    method: str
    status: str
    value_ms: float | None
    lower_bound_ms: float | None


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file holds; `problems` are phrases on inputs that could not be used."""

    loaded: LoadedGraph
    link: Link
    problems: tuple[str, ...]
    split: Split | None
    claims: Claims | None


def project_text(loaded: LoadedGraph, link: Link, plan: Plan | None, question: Question) -> str:
    """Return a project file. `link` is the state of the page; claims are written when the plan answers the question."""
    inputs = to_query(replace(link, graph=None, sample=None, edits=None, shared=None, keep=None))
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "graph": {
            "origin": loaded.origin,
            **({} if link.graph is not None else {"sample": link.sample or ""}),
            "file": {"name": loaded.graph.name, **graph_document(loaded.graph, loaded.deployment)},
        },
        "inputs": inputs,
    }
    if plan is not None and (split := plan.result.split) is not None:
        result = plan.result
        claims = {
            "method": result.method,
            "status": result.status,
            "value_ms": result.value_ms,
            "lower_bound_ms": result.lower_bound_ms,
        }
        document["plan"] = {
            "split": split_document(split),
            **({"claims": claims} if plan.question == question else {}),
        }
    if link.edits is not None:
        document["edits"] = link.edits
    return json.dumps(document, indent=1, allow_nan=False)


def project_of(loaded: LoadedGraph, link: Link, plan: Plan | None, question: Question) -> Project:
    """Return what `project_text` writes, as `parse_project` would read it."""
    split, claims = None, None
    if plan is not None and (split := plan.result.split) is not None and plan.question == question:
        result = plan.result
        claims = Claims(result.method, str(result.status), result.value_ms, result.lower_bound_ms)
    graph = None if link.graph is None else loaded.graph.digest[:12]
    return Project(loaded, replace(link, graph=graph, keep=None, shared=None), (), split, claims)


def parse_project(text: bytes, on_progress: OnProgress | None = None) -> Project:
    """Return what a project file holds; ProjectError or GraphError, in one sentence, when it cannot be read.

    `on_progress` follows the reading of the graph, as in `solvers.formats.graph_json.parse_graph`.
    """
    fields, file = project_fields(text)
    return project_from(fields, *graph_from_document(file, on_progress=on_progress))


def project_from(fields: dict[str, Any], graph: DnnGraph, deployment: Deployment) -> Project:
    """Return the project of parts whose graph was read already; ProjectError for parts that cannot be used."""
    described = checked_object(fields.get("graph"), "project's 'graph'")
    origin = described.get("origin")
    loaded = LoadedGraph(graph, deployment, _cleaned(origin, 200) if isinstance(origin, str) else graph.name)
    inputs = checked_object(fields.get("inputs", {}), "project's 'inputs'")
    link, problems = from_query({name: value for name, value in inputs.items() if isinstance(value, str)})
    sample = described.get("sample")
    edits = fields.get("edits")
    link = replace(
        link,
        sample=sample if isinstance(sample, str) and sample else None,
        graph=None if isinstance(sample, str) else graph.digest[:12],
        edits=None if edits is None else checked_object(edits, "project's 'edits'"),
        shared=None,
        keep=None,
    )
    split, claims = None, None
    if (plan := fields.get("plan")) is not None:
        plan = checked_object(plan, "project's 'plan'")
        split = parse_split(json.dumps(checked_object(plan.get("split"), "project's split")))
        claims = _claims(plan.get("claims"))
    return Project(loaded, link, problems, split, claims)


def judged_plan(project: Project, graph: DnnGraph, question: Question) -> tuple[Plan | None, str]:
    """Return the project's plan as the evaluator judges it for a question, and a sentence on what that says.

    `graph` has the bandwidth of the question. No plan where the split breaks a rule, or where there is none.
    """
    if project.split is None:
        return None, ""
    deployment = question.deployment
    try:
        split = complete_split(graph, project.split).on(deployment)
        violations = check_split(graph, deployment, split, question.family)
        value_ms = None if violations else objective_value(graph, deployment, split, question.objective)
    except PlacementError as error:
        return None, f"The plan in the file was not taken over. {error}"
    if violations or value_ms is None:
        reason = violations[0].message if violations else f"It has no {question.objective}."
        return None, f"The plan in the file was not taken over: it violates a constraint of these inputs. {reason}"
    bound_ms = _bound_ms(graph, question)
    gap = relative_gap(value_ms, bound_ms)
    is_proven = gap is not None and gap <= PROOF_TOLERANCE
    claims = project.claims
    sentence = ""
    if not is_proven:
        sentence = "The plan is from a file; its value was recomputed. "
        if claims is not None:
            sentence += (
                f"The file claims {claims.status.lower() or 'nothing'} with the bound "
                f"{milliseconds(claims.lower_bound_ms)}, which was not checked. "
            )
        sentence += "Solve to have it proven or improved."
    result = SolveResult(
        status=SolveStatus.OPTIMAL if is_proven else SolveStatus.FEASIBLE,
        method=f"{claims.method if claims is not None else 'plan'} (from a file)",
        objective=question.objective,
        family=question.family,
        split=split,
        value_ms=value_ms,
        lower_bound_ms=None if bound_ms is None else min(bound_ms, value_ms),
        runtime_s=0.0,
        message=sentence,
    )
    shown, on = by_entry(split, deployment)
    return Plan(question, project.loaded, graph, on, result, shown), sentence


def _bound_ms(graph: DnnGraph, question: Question) -> float | None:
    """Return the bound from total work; None for latency with CPUs, where it does not hold."""
    deployment = question.deployment
    if question.objective is Objective.LATENCY and deployment.num_cpus:
        return None
    bound_ms = work_bound(contract(graph, question.family, deployment), deployment)
    return bound_ms if math.isfinite(bound_ms) else None


def _claims(document: Any) -> Claims | None:
    if not isinstance(document, dict):
        return None

    def text(name: str) -> str:
        value = document.get(name)
        return _cleaned(value, 40) if isinstance(value, str) else ""

    def number(name: str) -> float | None:
        value = document.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 <= value <= 1e300 else None

    return Claims(text("method") or "plan", text("status"), number("value_ms"), number("lower_bound_ms"))


def _cleaned(text: str, length: int) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:length]).strip()
