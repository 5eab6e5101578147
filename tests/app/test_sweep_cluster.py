"""Only whoever starts the app says which Dask scheduler it may use: what a scheduler answers is unpickled."""

import json
import socket
from collections.abc import Iterator
from dataclasses import fields

import pytest
from streamlit.testing.v1 import AppTest

from explorer.jobs import cluster
from explorer.jobs.sweep_run import SweepRun
from explorer.state.project import parse_project
from explorer.state.query import Link, from_query, to_query
from explorer.sweep.address import PARTS
from explorer.sweep.choice import SweepChoice
from solvers.formats.graph_json import graph_document
from solvers.samples import read_sample
from tests.support.waiting import PATIENCE_S, eventually

pytestmark = pytest.mark.usefixtures("solver_processes")


class Stranger:
    """A listening socket that a visitor would like the server to connect to."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.address = f"tcp://127.0.0.1:{self.socket.getsockname()[1]}"

    def was_called(self) -> bool:
        try:
            self.socket.accept()[0].close()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    one = Stranger()
    yield one
    one.socket.close()


def sweep_page() -> None:
    from explorer.sweep.page import show

    show()


def opened(query: dict[str, str]) -> AppTest:
    app = AppTest.from_function(sweep_page, default_timeout=PATIENCE_S)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def ended(app: AppTest) -> SweepRun:
    run: SweepRun = app.session_state["sweep"].run
    eventually(lambda: not run.state().is_running)
    return run


def test_no_field_of_the_page_names_a_scheduler(stranger: Stranger) -> None:
    app = opened({"sample": "teaching_chain", "over": "accelerators", "values": "1"})
    assert app.text_input, "the page has fields"
    for i in range(len(app.text_input)):
        box = app.text_input[i]
        before = box.value
        box.set_value(stranger.address).run()
        if not app.button(key="start_sweep").disabled:
            app.button(key="start_sweep").click().run()
            ended(app)
        app.text_input[i].set_value(before).run()
        assert not stranger.was_called(), f"{box.label} had the server connect to an address of its choice"


def test_no_part_of_an_address_names_a_scheduler(stranger: Stranger) -> None:
    names = {"dask", "scheduler", "sweep_dask", "cluster", "run_on", *PARTS, *(field.name for field in fields(Link))}
    hostile = dict.fromkeys(names, stranger.address)
    app = opened({**hostile, "sample": "teaching_chain", "over": "accelerators", "values": "1"})
    app.button(key="start_sweep").click().run()
    assert not ended(app).dask_address
    assert not stranger.was_called()
    assert stranger.address not in to_query(from_query({"dask": stranger.address})[0]).values()


def test_no_project_names_a_scheduler(stranger: Stranger) -> None:
    graph, deployment = read_sample("teaching_chain")
    document = {
        "format": "dnn-placement-explorer project",
        "version": 1,
        "graph": {"origin": "mine", "file": graph_document(graph, deployment)},
        "inputs": {"dask": stranger.address, "scheduler": stranger.address, "run_on": stranger.address},
    }
    project = parse_project(json.dumps(document).encode())
    assert stranger.address not in to_query(project.link).values()
    assert not [name for name in SweepChoice.__dataclass_fields__ if "address" in name]


def test_without_a_cluster_of_the_operator_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cluster.VARIABLE, raising=False)
    assert cluster.scheduler() == ""
    app = opened({"sample": "teaching_chain"})
    assert "Run on" not in [box.label for box in app.selectbox]


def test_the_operators_cluster_is_offered_and_used_only_when_chosen(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cluster.VARIABLE, stranger.address)  # here the operator named it
    monkeypatch.setattr("solvers.processes.dask_cluster.CONNECT_SECONDS", 1)
    app = opened({"sample": "teaching_chain", "over": "accelerators", "values": "1"})
    (choice,) = [box for box in app.selectbox if box.label == "Run on"]
    assert list(choice.options) == ["This machine", "Dask cluster"]
    app.button(key="start_sweep").click().run()
    assert ended(app).state().error == ""
    assert not stranger.was_called()
    choice.select("Dask cluster").run()
    app.button(key="start_sweep").click().run()
    error = ended(app).state().error
    assert stranger.was_called()
    assert "answered as a Dask scheduler within 1 second" in error
