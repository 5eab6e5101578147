"""What a server keeps is there for the next one: for its browser alone, a solve as far as it was, within limits."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.jobs.pool import WorkerPool
from explorer.jobs.record import JobState, Question
from explorer.jobs.sweep_run import SweepRun
from explorer.server.private_folder import NotOursError, make_private
from explorer.state import shelf as shelf_module
from explorer.state.keeper import Keeper
from explorer.state.records import LoadedGraph, Run
from explorer.state.shelf import Shelf
from solvers.model.costs import Objective, objective_value
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress
from solvers.model.split import Split
from solvers.samples import read_sample
from solvers.sweep.axes import Axis, Quantity
from solvers.sweep.spec import SweepSpec
from tests.support.examples import examples
from tests.support.graphs import random_dag
from tests.support.shared_graphs import LOADED, ME, OTHER
from tests.support.waiting import eventually

GRAPH, DEPLOYMENT = read_sample("teaching_chain")
EMPTY = (frozenset[int](),) * (DEPLOYMENT.num_accelerators - 1)
START = Split((frozenset(node.id for node in GRAPH.nodes), *EMPTY), (frozenset(),) * DEPLOYMENT.num_cpus)
BOUND_MS = 1.0


class Clock:
    """The time of day, set by hand."""

    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        return self.now_s


def keeper_on(folder: Path) -> Keeper:
    """Return the keeper of a server that begins now."""
    return Keeper(lambda _: True, shelf=Shelf(folder))


def uploaded(number: int) -> LoadedGraph:
    return LoadedGraph(random_dag(number, num_nodes=40), DEPLOYMENT, f"{number}.json")


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_the_next_server_has_what_this_one_kept(tmp_path: Path) -> None:
    before = keeper_on(tmp_path)
    number = before.put(ME, None, "session", {"uploaded_graph": LOADED, "of": {"plan": LOADED.graph}})
    assert before.shelve() == 1
    assert before.shelve() == 0, "nothing has changed"
    after = keeper_on(tmp_path)
    found = after.get(ME, number)
    assert found is not None
    assert found.values == {"uploaded_graph": LOADED, "of": {"plan": LOADED.graph}}
    assert found.values["uploaded_graph"].graph is found.values["of"]["plan"]
    assert after.get(OTHER, number) is None
    assert all(after.put(ME, None, "new", {}) != number for _ in range(30)), "its number is taken"
    assert not any(ME.encode() in path.read_bytes() or ME in path.name for path in tmp_path.iterdir())


def test_what_changes_is_written_again(tmp_path: Path) -> None:
    keeper = keeper_on(tmp_path)
    number = keeper.put(ME, None, "session", {"dp_seconds": 1})
    keeper.shelve()
    keeper.put(ME, number, "session", {"dp_seconds": 2})
    assert keeper.shelve() == 1
    found = keeper_on(tmp_path).get(ME, number)
    assert found is not None
    assert found.values == {"dp_seconds": 2}


def found_something(graph: DnnGraph, *_: Any, on_progress: Any, **__: Any) -> None:
    """Stand in for a solver that has a plan and a bound, and takes long."""
    value_ms = objective_value(graph, DEPLOYMENT, START, Objective.THROUGHPUT)
    on_progress(Progress(seconds=0.1, phase="looking", incumbent_ms=value_ms, lower_bound_ms=BOUND_MS, split=START))
    eventually(lambda: False)


@pytest.mark.parametrize("is_live", [False, True])
def test_a_solve_at_work_is_there_with_its_best_plan_and_bound(tmp_path: Path, is_live: bool) -> None:
    """One that a changed input started begins again by itself."""
    with WorkerPool(("tests.explorer.state.test_shelf:found_something",), spare=0) as pool:
        job = pool.start("session", Question(GRAPH.digest, DEPLOYMENT), GRAPH)
        eventually(lambda: job.snapshot().best_split is not None)
        keeper = keeper_on(tmp_path)
        number = keeper.put(ME, None, "session", {"run": Run(job, LOADED, GRAPH, is_live)})
        assert keeper.shelve() == 1
        assert keeper.shelve() == (0 if is_live else 1), "it is still at work"
        found = keeper_on(tmp_path).get(ME, number)
        assert not job.is_over
        job.cancel()
        keeper.shelve()
        assert keeper.shelve() == 0
    assert found is not None
    if is_live:
        assert found.values == {"run": None}
        return
    snapshot = found.values["run"].job.snapshot()
    result = snapshot.result
    assert snapshot.state is JobState.STOPPED
    assert (result.split, result.value_ms) == (START, objective_value(GRAPH, DEPLOYMENT, START, Objective.THROUGHPUT))
    assert result.lower_bound_ms == BOUND_MS
    assert "started again" in result.message


@pytest.mark.usefixtures("solver_processes")
def test_a_sweep_at_work_is_there_with_its_answers(tmp_path: Path) -> None:
    with WorkerPool(("tests.explorer.state.test_shelf:found_something",), spare=0) as pool:
        spec = SweepSpec(GRAPH, DEPLOYMENT, (Axis(Quantity.ACCELERATORS, (1, 2, 3)),))
        run = SweepRun(spec, "session", lambda _: True, pool)
        run.start()
        eventually(lambda: run.state().is_running)
        keeper = keeper_on(tmp_path)
        number = keeper.put(ME, None, "session", {"sweep": run})
        keeper.shelve()
        run.cancel()
    found = keeper_on(tmp_path).get(ME, number)
    assert found is not None
    assert found.values["sweep"].spec == spec
    assert not found.values["sweep"].state().is_running


@given(st.data())
@examples(40)
def test_damaged_files_are_no_records(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("shelf")
    keeper = keeper_on(folder)
    number = keeper.put(ME, None, "session", {"uploaded_graph": LOADED})
    keeper.shelve()
    path = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    found = keeper_on(folder).get(ME, number)
    if found is not None and path.suffix == ".kept":
        assert found.values["uploaded_graph"].deployment == DEPLOYMENT


def test_another_program_reads_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = keeper_on(tmp_path)
    number = keeper.put(ME, None, "session", {"uploaded_graph": LOADED})
    keeper.shelve()
    monkeypatch.setattr(shelf_module, "program", lambda: "another")
    assert keeper_on(tmp_path).get(ME, number) is None
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_go_where_there_is_no_room(tmp_path: Path) -> None:
    clock = Clock()
    one = Shelf(tmp_path / "one", clock=clock)
    one.write(ME, 0, {"uploaded_graph": uploaded(0)})
    most = int(3.5 * one.size_bytes)
    shelf = Shelf(tmp_path / "most", max_bytes=2 * most, max_bytes_of_visitor=most, clock=clock)
    shelf.write(OTHER, 7, {"uploaded_graph": uploaded(7)})
    for number in range(8):
        clock.now_s += 1
        shelf.write(ME, number, {"uploaded_graph": uploaded(number)})
    assert shelf.numbers_of(ME) == {5, 6, 7}
    assert shelf.numbers_of(OTHER) == {7}, "nobody takes another's room"
    assert shelf.size_bytes == size_of(tmp_path / "most") <= 2 * most
    few = Shelf(tmp_path / "few", max_bytes=most, clock=clock)
    for number, visitor in enumerate("abcdefgh"):
        clock.now_s += 1
        few.write(visitor * 32, number, {"uploaded_graph": uploaded(number)})
    assert [number for number, visitor in enumerate("abcdefgh") if few.numbers_of(visitor * 32)] == [5, 6, 7]
    assert few.size_bytes == size_of(tmp_path / "few") <= most


def test_records_share_a_graph_and_go_after_a_day(tmp_path: Path) -> None:
    clock = Clock()
    shelf = Shelf(tmp_path, max_records_of_visitor=2, clock=clock)
    for number in (1, 2, 3):
        clock.now_s += 60
        shelf.write(ME, number, {"uploaded_graph": uploaded(0)})
    assert shelf.numbers_of(ME) == {2, 3}
    assert len(list(tmp_path.glob("*.graph"))) == 1
    clock.now_s += 24 * 3600 - 30
    shelf.tidy()
    assert shelf.numbers_of(ME) == {3}
    clock.now_s += 60
    shelf.tidy()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_others_is_not_believed(tmp_path: Path) -> None:
    make_private(tmp_path / "new" / "folder")
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o077 == 0
    (tmp_path / "new").chmod(0o777)
    with pytest.raises(NotOursError):
        make_private(tmp_path / "new")


def test_a_full_disk_is_told_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = keeper_on(tmp_path)
    number = keeper.put(ME, None, "session", {"uploaded_graph": LOADED})

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shelf_module, "_write", full)
        with pytest.raises(OSError, match="No space left"):
            keeper.shelve()
    assert keeper.shelve() == 1
    assert keeper_on(tmp_path).get(ME, number) is not None
