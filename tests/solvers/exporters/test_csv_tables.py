"""CSV tables, read again by the standard library: complete, exact, and no formula for a spreadsheet."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.exporters.csv_tables import FORMULA_STARTS, csv_tables, csv_text
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.result import SolveResult, SolveStatus
from solvers.model.split import Family, Split
from solvers.schedule.simulate import ScheduleKind, simulate
from tests.support.graphs import mixed_placements, random_chain_split, random_dag, random_tensors


def tables_of(graph: DnnGraph, deployment: Deployment, split: Split) -> dict[str, list[dict[str, str]]]:
    """Return the tables of a split, read again, a dictionary a row."""
    split = split.on(deployment)
    costs = split_costs(graph, deployment, split)
    result = SolveResult(SolveStatus.FEASIBLE, "dp", Objective.THROUGHPUT, Family.CHAIN, split, 3.5, 3.0, 0.25)
    schedule = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 3)
    files = csv_tables(graph, deployment, split, costs, result, schedule)
    return {name: list(csv.DictReader(io.StringIO(text, newline=""))) for name, text in files.items()}


@pytest.mark.parametrize("seed", range(5))
def test_tables_agree_with_costs_and_schedule(seed: int) -> None:
    graph, deployment = random_dag(seed), Deployment(3, 1, 1e9)
    graph = random_tensors(graph, seed) if seed % 2 else graph
    split = random_chain_split(graph, deployment, seed).on(deployment)
    tables = tables_of(graph, deployment, split)
    costs = split_costs(graph, deployment, split)
    schedule = simulate(graph, deployment, split, ScheduleKind.INFERENCE, 3)
    assert [float(row["load (ms)"]) for row in tables["devices.csv"]] == [d.load_ms for d in costs.devices]
    assert {int(row["node"]): int(row["device"]) for row in tables["nodes.csv"]} == split.device_of()
    compute_ms: dict[int, float] = {}
    for row in tables["nodes.csv"]:
        compute_ms[int(row["device"])] = compute_ms.get(int(row["device"]), 0.0) + float(row["time (ms)"])
    for device in costs.devices:
        assert compute_ms.get(device.device, 0.0) == pytest.approx(device.compute_ms)
    rows = tables["cut_tensors.csv"]
    assert [(int(row["node"]), row["tensor"]) for row in rows] == [t.key for t in costs.cut_tensors]
    device = split.device_of()
    for row in rows:
        u = int(row["node"])
        readers = {e.target for e in graph.edges if (e.source, e.tensor) == (u, row["tensor"])}
        assert set(map(int, row["read by nodes"].split())) == {v for v in readers if device[v] != device[u]}
    assert [(float(r["start (ms)"]), float(r["end (ms)"])) for r in tables["slots.csv"]] == [
        (slot.start_ms, slot.end_ms) for slot in schedule.slots
    ]
    summary = {row["quantity"]: row["value"] for row in tables["summary.csv"]}
    assert (summary["value (ms)"], summary["proven lower bound (ms)"], summary["status"]) == ("3.5", "3.0", "FEASIBLE")
    assert float(summary["gap"]) == pytest.approx(0.5 / 3.5)


@given(mixed_placements())
def test_times_of_cut_tensors_add_up_to_transfers_of_devices(case: tuple[DnnGraph, Deployment, Split]) -> None:
    graph, deployment, split = case
    split = split.on(deployment)
    costs = split_costs(graph, deployment, split)
    result = SolveResult(
        SolveStatus.FEASIBLE, "ip", Objective.THROUGHPUT, Family.FREE, split, costs.max_load_ms, 0.0, 0.25
    )
    files = csv_tables(graph, deployment, split, costs, result)
    send_ms, receive_ms = ({deployment.device_name(d.device): 0.0 for d in costs.devices} for _ in range(2))
    for row in csv.DictReader(io.StringIO(files["cut_tensors.csv"], newline="")):
        send_ms[row["from"]] += float(row["send (ms)"])
        for name, ms in zip(row["to"].split("; "), row["receive (ms)"].split("; "), strict=True):
            receive_ms[name] += float(ms)
    assert list(send_ms.values()) == [device.send_ms for device in costs.devices]
    assert list(receive_ms.values()) == [device.receive_ms for device in costs.devices]


@given(st.lists(st.lists(st.text(), min_size=2, max_size=4), min_size=1, max_size=5))
def test_any_text_comes_back_and_none_is_a_formula(rows: list[list[str]]) -> None:
    text = csv_text(rows)
    again = list(csv.reader(io.StringIO(text, newline="")))
    assert len(again) == len(rows)
    for row, read in zip(rows, again, strict=True):
        for cell, written in zip(row, read, strict=True):
            assert not written.startswith(FORMULA_STARTS)
            assert written.removeprefix("'") == cell.encode("utf-8", "replace").decode().removeprefix("'")
    assert text.endswith("\r\n")


@pytest.mark.parametrize("name", ['=HYPERLINK("http://x")', "+1", "-1+1", "@SUM(A1)", "\t=1", "＝1"])
def test_a_formula_for_a_name_is_text(name: str) -> None:
    graph = DnnGraph(
        (Node(1, 2.0, 9.0, transfer_ms=0.5, name=name, layer=name), Node(2, 3.0, 9.0)), (Edge(1, 2),), name
    )
    tables = tables_of(graph, Deployment(2), Split((frozenset({1}), frozenset({2}))))
    assert tables["nodes.csv"][0]["name"] == tables["nodes.csv"][0]["layer"] == f"'{name}"
    assert tables["cut_tensors.csv"][0]["name"] == f"'{name}"


def test_what_is_not_known_is_empty() -> None:
    graph = DnnGraph((Node(1, 2.0, 9.0),), ())
    tables: dict[str, Any] = tables_of(graph, Deployment(1), Split((frozenset({1}),)))
    assert tables["devices.csv"][0]["capacity (bytes)"] == ""
    assert tables["nodes.csv"][0]["output (bytes)"] == ""
    assert tables["cut_tensors.csv"] == []
