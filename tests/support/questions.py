"""The question that an address, a project file or a command asks, as one plain record, for the corpus in tests/corpus.

Each goes the way it goes for a user, up to where a solver would begin: the form in the side bar, drawn by Streamlit's
AppTest, or the command line in this process.
"""

import contextlib
import io
import json
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

from streamlit.testing.v1 import AppTest

from explorer.state.project import parse_project
from explorer.state.records import LoadedGraph
from solvers.cli import main as cli
from solvers.formats.graph_json import parse_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.sweep.spec import SweepSpec
from tests.support.root import ROOT
from tests.support.waiting import PATIENCE_S

CORPUS = ROOT / "tests" / "corpus"
FILES = CORPUS / "files"


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CORPUS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def uploaded(name: str) -> LoadedGraph:
    return LoadedGraph(*parse_graph((FILES / name).read_bytes(), name.removesuffix(".json")), name)


# The pages.


def explore_question(case: dict[str, Any]) -> dict[str, Any]:
    """Return what Explore asks for the address of a case, or for its project file."""
    if "project" in case:
        project = parse_project(json.dumps(_project(case)).encode())
        app = AppTest.from_function(_explore, default_timeout=PATIENCE_S, kwargs={"project": project})
    else:
        app = _at_address(_explore, case)
    return _answer(app.run())


def sweep_question(case: dict[str, Any]) -> dict[str, Any]:
    """Return what Sweep asks for the address of a case."""
    return _answer(_at_address(_sweep, case).run())


def _project(case: dict[str, Any]) -> dict[str, Any]:
    graph = json.loads((FILES / case["file"]).read_text(encoding="utf-8"))
    return {
        "format": "dnn-placement-explorer project",
        "version": 1,
        "graph": {"origin": case["file"], "file": {"name": "corpus", **graph}},
        "inputs": case["project"],
    }


def _at_address(page: Any, case: dict[str, Any]) -> AppTest:
    query, file = dict(case["query"]), None
    if "file" in case:
        file = uploaded(case["file"])
        query["graph"] = file.graph.digest[:12]
    app = AppTest.from_function(page, default_timeout=PATIENCE_S, kwargs={"file": file})
    for name, value in query.items():
        app.query_params[name] = value
    return app


def _answer(app: AppTest) -> dict[str, Any]:
    assert not app.exception, app.exception
    answer: dict[str, Any] = app.session_state["answer"]
    return json.loads(json.dumps(answer))


def _explore(file: object = None, project: object = None) -> None:
    import streamlit as st

    from explorer.form.sidebar import sidebar
    from explorer.state import address, session
    from tests.support.questions import choice_record

    loaded = file if project is None else project.loaded
    if loaded is not None:
        session.remember_upload(loaded)
    address.read()
    if project is not None:
        address.want(project.link, project.problems)
    st.session_state["answer"] = choice_record(sidebar(lambda _: False), session.address().problems)


def _sweep(file: object = None) -> None:
    import streamlit as st

    from explorer.state import session
    from explorer.sweep.inputs import sweep_sidebar
    from tests.support.questions import sweep_choice_record

    if file is not None:
        session.remember_upload(file)
    st.session_state["answer"] = sweep_choice_record(sweep_sidebar())


def choice_record(choice: Any, problems: list[str]) -> dict[str, Any]:
    question = choice.question
    return {
        **_problem(choice.graph, question.deployment),
        "objective": question.objective,
        "family": question.family,
        "method": question.method,
        "time_limit_s": question.time_limit_s,
        "gap": question.gap,
        "schedule": choice.schedule,
        "micro_batches": choice.num_micro_batches,
        "chunks": choice.schedule_options.chunks,
        "weight_gradient_share": choice.schedule_options.weight_gradient_share,
        "in_vain": sorted(problem.split()[0] for problem in problems),
    }


def sweep_choice_record(choice: Any) -> dict[str, Any]:
    from solvers.model.errors import PlacementError

    question = choice.subject.question
    record = {
        "subject": {
            **_problem(choice.subject.graph, question.deployment),
            "objective": question.objective,
            "family": question.family,
            "method": question.method,
            "time_limit_s": question.time_limit_s,
        }
    }
    try:
        return record | {"sweep": None if choice.axes is None else spec_record(choice.spec())}
    except PlacementError:
        return record | {"sweep": "refused"}


def spec_record(spec: SweepSpec) -> dict[str, Any]:
    last = tuple(len(axis.values) - 1 for axis in spec.axes)
    asked = spec.asked(last)
    return {
        **_problem(spec.graph, spec.deployment),
        "axes": [[str(axis.varied), list(axis.values)] for axis in spec.axes],
        "last": {**_problem(asked.graph, asked.deployment), "objective": asked.objective},
        "objective": spec.objective,
        "family": spec.family,
        "method": spec.method,
        "time_limit_s": spec.time_limit_s,
        "gap": spec.gap,
    }


def _problem(graph: DnnGraph, deployment: Deployment) -> dict[str, Any]:
    """Return what identifies a graph, and a deployment without what is as it is by default."""
    usual = asdict(Deployment(0))
    changed = {name: value for name, value in asdict(deployment).items() if value != usual[name]}
    return {"graph": graph.digest[:16], "deployment": changed}


# The command line.


class Reached(BaseException):
    """A command has come to where its solver, evaluator or schedule would begin."""

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__()
        self.record = record


def command_question(words: list[str]) -> dict[str, Any]:
    """Return what a command asks; names ending in .json are files of the corpus."""
    named = [str(FILES / word) if word.endswith(".json") else word for word in words]
    stops = {
        "solvers.cli.main.solve": _solve,
        "solvers.cli.main.check_split": _check_split,
        "solvers.cli.explain.explain": _solve,
        "solvers.cli.tables.compare": _solve,
        "solvers.cli.simulate.simulate": _simulate,
        "solvers.cli.simulate.looped_split": _looped_split,
        "solvers.cli.sweep.run_sweep": _run_sweep,
    }
    with contextlib.ExitStack() as stack:
        for name, stop in stops.items():
            stack.enter_context(patch(name, stop))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        try:
            code = cli.main(named)
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        except Reached as reached:
            record: dict[str, Any] = json.loads(json.dumps(reached.record))
            return record
    assert code == 2, words
    return {"refused": True}


def _solve(graph: DnnGraph, deployment: Deployment, split: Any = None, **options: Any) -> Any:
    said = {name: value for name, value in options.items() if name in ("objective", "method", "family", "families")}
    numbers = {name: options[name] for name in ("time_limit_s", "gap") if name in options}
    raise Reached({**_problem(graph, deployment), **said, **numbers})


def _check_split(graph: DnnGraph, deployment: Deployment, split: Any, family: Any = None) -> Any:
    if family is None:  # of simulate, which goes on
        return ()
    raise Reached({**_problem(graph, deployment), "family": family})


class _Looped:
    note = ""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks


def _looped_split(graph: Any, deployment: Any, split: Any, chunks: int, *_: Any) -> Any:
    return _Looped(chunks)


def _simulate(
    graph: DnnGraph, deployment: Deployment, split: Any, kind: Any, num_micro_batches: int, **options: Any
) -> Any:
    looped = {"chunks": split.chunks} if isinstance(split, _Looped) else {}
    asked = {"schedule": kind, "micro_batches": num_micro_batches, **looped, **options}
    raise Reached({**_problem(graph, deployment), **asked})


def _run_sweep(spec: SweepSpec, *_: Any, **__: Any) -> Any:
    raise Reached(spec_record(spec))
