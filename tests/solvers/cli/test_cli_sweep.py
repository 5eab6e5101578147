"""`placement sweep`: axes, files, interrupts, and one sentence for what cannot be."""

import csv
import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from solvers.formats.graph_json import write_graph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.samples import sample_text
from solvers.solve import solve
from tests.support.command_line import Run
from tests.support.graphs import chain


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.json"
    write_graph(path, chain([1.0, 2.0, 3.0, 4.0]), Deployment(2, memory_bytes=2.0**30))
    return path


def test_one_axis_as_table_json_and_files(placement: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep.csv"
    answer = placement("sweep", graph, "--accelerators", "1:4", "--workers", 1, "--out", out, "--price", 2)
    assert answer.code == 0
    assert "4 of 4 points" in answer.err
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    expected = [solve(chain([1.0, 2.0, 3.0, 4.0]), Deployment(k)).value_ms for k in range(1, 5)]
    assert [float(row["value_ms"]) for row in rows] == pytest.approx(expected)
    assert [float(row["price_per_hour"]) for row in rows] == [2, 4, 6, 8]
    assert not list(tmp_path.glob("*.jsonl"))
    out = tmp_path / "sweep.parquet"
    answer = placement(
        "sweep", graph, "--accelerators", "1,4", "--bandwidth", "1x,2x", "--workers", 1, "--out", out, "--json"
    )
    assert answer.json["complete"] is True
    assert pq.read_table(out).to_pylist() == answer.json["points"]  # type: ignore[no-untyped-call]


def test_counts_of_classes_with_their_prices_and_what_to_buy(placement: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "mix.csv"
    arguments = ["--devices", "2xbig+2xsmall:speed=0.5", "--count", "big=0:2", "--count", "small=0,2", "--workers", 1]
    prices = ["--price", "big=4,small=1", "--cpu-price", 0.5, "--cpus", 1, "--at-least", 140, "--budget", 2]
    answer = placement("sweep", graph, *arguments, *prices, "--out", out)
    assert answer.code == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [(row["count_of_big"], row["count_of_small"]) for row in rows] == [
        (str(big), str(small)) for big in range(3) for small in (0, 2)
    ]
    assert [float(row["price_per_hour"]) for row in rows] == [0.5, 2.5, 4.5, 6.5, 8.5, 10.5]
    assert [row["accelerators"] for row in rows] == ["0", "2", "1", "3", "2", "4"]
    by_cost = sorted((float(row["price_per_hour"]), -float(row["throughput_per_s"] or 0)) for row in rows)
    cheapest = next(cost for cost, rate in by_cost if -rate >= 140)
    assert "Pareto front" in answer.out
    said = f"Cheapest with at least 140 micro-batches/s: 2 × big ({-by_cost[4][1]:.4g} micro-batches/s"
    assert said in answer.out
    assert cheapest == 8.5
    assert "Fastest for at most 2 per hour: 0 × big, 0 × small" in answer.out
    bought = placement("sweep", graph, *arguments, "--to-buy", "--price", 1000, "--budget", 1500, "--json")
    assert "placement: Fastest for at most 1,500 to buy: 1 × big (" in bought.err
    assert [row["price_to_buy"] for row in bought.json["points"]] == [0, 2000, 1000, 3000, 2000, 4000]
    assert bought.json["points"][2]["throughput_per_s_per_1000_price"] == pytest.approx(100)


def test_a_wish_without_prices_says_that_each_accelerator_counts_as_1(placement: Run, graph: Path) -> None:
    arguments = ["--accelerators", "1:3", "--workers", 1]
    wished = placement("sweep", graph, *arguments, "--at-least", 110, "--budget", 2)
    assert "No accelerator has a price here: each counts as 1." in wished.out
    assert "Pareto" not in wished.out
    assert "counts as 1" not in placement("sweep", graph, *arguments).out
    priced = placement("sweep", graph, *arguments, "--at-least", 110, "--price", "0.0", "--cpu-price", "0.00")
    assert "counts as 1" not in priced.out
    assert "Every point costs the same, 0 per hour." in priced.out
    named = placement("sweep", graph, *arguments, "--budget", 3.3, "--price", "ACCELERATOR=1.1")
    assert "Fastest for at most 3.3 per hour: 3 accelerators" in named.out
    slow = placement("sweep", graph, "--bandwidth", "1x,2x", "--price", 3, "--at-least", 1, "--workers", 1)
    assert "Links and memory have no price, so every point costs 6 per hour." in slow.out
    assert "Least demanding with at least 1 micro-batches/s: 1 x bandwidth" in slow.out
    assert "Pareto" not in slow.out


def test_devices_on_the_command_line_take_what_solve_takes(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "gpt2.json"
    path.write_bytes(sample_text("gpt2_xl_layer_inference"))
    options = ["--efficiency", 0.3, "--cpus", 0]
    lists = ["--devices", "2xA100-80:link=nvlink3", "--devices", "1xA100-80+2xT4"]
    swept = placement("sweep", path, *lists, *options, "--workers", 1, "--json").json["points"]
    for row, text in zip(swept, lists[1::2], strict=True):
        alone = placement("solve", path, "--devices", text, *options).json
        assert row["value_ms"] == pytest.approx(alone["value_ms"], rel=1e-6)
    counted = placement("sweep", path, "--devices", lists[3], "--count", "T4=1:2", *options, "--workers", 1, "--json")
    assert counted.json["points"][1]["value_ms"] == pytest.approx(swept[1]["value_ms"], rel=1e-6)


def test_nothing_to_resume_is_told(placement: Run, graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "points.csv"
    answer = placement("sweep", graph, "--accelerators", "1,2", "--workers", 1, "--out", out, "--resume")
    assert answer.code == 0
    assert "to go on from; all points are solved" in answer.err


def test_memory_and_links_of_one_kind_on_the_command_line(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "gpt2.json"
    path.write_bytes(sample_text("gpt2_xl_layer_inference"))
    devices = ["--devices", "1xA100-80:link=nvlink3+2xT4:link=pcie3-x16", "--cpus", 0, "--workers", 1]
    axes = ["--memory-of", "T4=0.25,16", "--bandwidth-of", "T4=0.5,12"]
    rows = placement("sweep", path, *devices, *axes, "--json").json["points"]
    assert [(row["memory_gib_of_T4"], row["bandwidth_gb_per_s_of_T4"]) for row in rows] == [
        (0.25, 0.5), (0.25, 12), (16, 0.5), (16, 12)
    ]  # fmt: skip
    for row in rows:
        t4 = f"2xT4:memory={row['memory_gib_of_T4']}GiB,link={row['bandwidth_gb_per_s_of_T4']}GB/s"
        alone = placement("solve", path, "--devices", f"1xA100-80:link=nvlink3+{t4}", "--cpus", 0).json
        assert row["value_ms"] == pytest.approx(alone["value_ms"], rel=1e-6)
    single = ["--memory-of", "T4=0.25", "--bandwidth-of", "T4=0.5,12"]
    assert [row["value_ms"] for row in placement("sweep", path, *devices, *single, "--json").json["points"]] == [
        pytest.approx(row["value_ms"], rel=1e-6) for row in rows[:2]
    ]


def test_classes_are_found_whatever_their_capitals(placement: Run, graph: Path) -> None:
    devices = ("--devices", "2xBig:memory=4GiB+2xsmall:speed=0.5", "--workers", 1, "--json")
    answers = [
        placement("sweep", graph, *devices, "--count", f"{small}=0:2", "--memory-of", f"{big}=1,4").json["points"]
        for big, small in (("Big", "small"), ("bIG", "SMALL"))
    ]
    one, other = ([{**row, "seconds": 0} for row in answer] for answer in answers)
    assert one == other
    assert {"count_of_small", "memory_gib_of_Big"} <= answers[1][0].keys()


def test_what_is_said_of_devices_is_said_of_each_list(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "gnmt.json"
    path.write_bytes(placement("samples", "gnmt_layer_inference").out.encode())
    run = ("--cpus", 0, "--workers", 1)
    both = placement("sweep", path, "--devices", "2xH100-SXM", "--devices", "2xL40S:link=pcie4-x16", *run).err
    assert "Transfers of H100-SXM over links as in the file, 12.6 GB/s" in both
    assert "Transfers over PCIe 4.0 x16 at 24.8 GB/s" in both
    mixed = "1xA100-80+1xL40S"
    one = placement("sweep", path, "--devices", mixed, "--bandwidth-of", "L40S=10,20", *run).err
    assert "Transfers of A100-80 over links as in the file" in one
    assert "Transfers of L40S" not in one


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Nothing varies"),
        (["--accelerators", "3"], "Nothing varies"),
        (["--accelerators", "1,2", "--cpus", "0,1", "--memory", "1,2"], "fix the others"),
        (["--accelerators", "4:2"], "goes down"),
        (["--accelerators", "1:2:3:4"], "is no range"),
        (["--memory", "1:8:x1"], "does not grow"),
        (["--memory", "1:1e6"], "larger step"),
        (["--accelerators", "1,1"], "a value twice"),
        (["--accelerators", "1,x"], "whole number from 0 to 1,024"),
        (["--bandwidth", "1,2"], "multiple"),
        (["--bandwidth", "1x,2"], "mixes GB/s and multiples"),
        (["--bandwidth", "1,2X,4"], "mixes GB/s and multiples"),
        (["--bandwidth", "1:4x:x2"], "give all values with an x, or none"),
        (["--memory", "16,none"], '"none" is no number'),
        (["--memory", "none:16"], '"none" is no number'),
        (["--accelerators-per-server", "none,2", "--server-link-speed", "4"], '"none" is no number'),
        (["--micro-batches", "1,2"], "without --memory-schedule"),
        (["--objective", "throughput,gpipe"], "no backward nodes"),
        (["--accelerators", "1,2", "--resume"], "needs --output"),
        (["--accelerators", "1,2", "--out", "x.xls"], "must end in"),
        (["--accelerators", "1,2", "--workers", "0"], "at least 1"),
        (["--accelerators", "1,2", "--workers", "1", "--dask", "tcp://127.0.0.1:1"], "one of the two"),
        (["--accelerators", "1,2", "--dask", "nonsense://x"], "no Dask scheduler"),
        (["--count", "T4"], "names no device type"),
        (["--memory-of", "=16"], "names no device type"),
        (["--memory-of", "T4=16,32"], "accelerators are identical"),
        (["--devices", "2xa:speed=1+2xb", "--memory-of", "a=none"], '"none" is no number'),
        (["--devices", "2xa:speed=1+2xb", "--devices", "3xa:speed=1", "--host", "EPYC-9654"], "leave --host out"),
        (["--devices", "2xa:speed=1+2xb", "--bandwidth-of", "a=1x,2x"], "GB/s such as 16"),
        (["--devices", "2xa:speed=1+2xb", "--bandwidth-of", "a=1,2"], "no consistent bytes"),
        (["--devices", "2xa:speed=1+2xb", "--bandwidth-of", "a=1,2", "--bandwidth", "2x"], "give one"),
        (["--devices", "2xa:speed=1+2xb", "--count", "a=0:2", "--count", "a=3"], "number of a is given twice"),
        (["--accelerators", "1,2", "--price", "1", "--price", "2"], "given twice"),
        (["--count", "T4=0:2"], "accelerators are identical"),
        (["--devices", "2xa+2xb", "--count", "a=0:2"], 'no accelerator "a" in the catalogue'),
        (["--devices", "2xH100", "--devices", "2xT4"], "the nearest names are H100-SXM and H100-PCIe"),
        (["--devices", "2xa:speed=1+2xb", "--count", "c=0:2"], "its device types are a, b"),
        (["--devices", "2xa:speed=1+2xb", "--count", "a=0:2", "--price", "c=1"], "no such device; there are a, b"),
        (["--devices", "2xa:speed=1+2xb", "--count", "a=0:2", "--price", "a=1"], "There is no price of b;"),
        (["--accelerators", "1,2", "--price", "x"], "is no number"),
        (["--accelerators", "1,2", "--price", "accelerator=2,3"], "has no name; write NAME=P"),
        (["--accelerators", "1,2", "--price", "2,3"], "has no name; write NAME=P"),
        (["--accelerators", "1,2", "--price", "-1"], "give a price of 0 or more"),
        (["--devices", "A100-80", "--devices", "T4", "--link", "nvlink3"], "into each"),
        (["--devices", "A100-80", "--devices", "T4", "--memory", "8"], "leave --memory out, or sweep it"),
        (["--devices", "2xA100-80", "--devices", "4xT4", "--accelerators", "3"], "leave --accelerators out"),
        (["--devices", "A100-80:link=nvlink3", "--devices", "T4", "--bandwidth", "16"], "a multiple such as 2x"),
    ],
)
def test_bad_input_is_one_sentence(placement: Run, graph: Path, arguments: list[str], words: str) -> None:
    answer = placement("sweep", graph, *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""


def test_devices_of_the_catalogue_are_an_axis_or_a_setting(placement: Run, tmp_path: Path) -> None:
    graph = tmp_path / "gpt2.json"
    graph.write_bytes(sample_text("gpt2_xl_layer_inference"))
    answer = placement("sweep", graph, "--devices", "A100-80", "--devices", "T4", "--workers", 1, "--json")
    rows = answer.json["points"]
    assert [row["devices"] for row in rows] == ["A100-80", "T4"]
    assert rows[0]["value_ms"] < rows[1]["value_ms"]
    alone = placement("sweep", graph, "--devices", "T4", "--cpus", "0,1", "--workers", 1, "--json").json["points"]
    assert rows[1]["value_ms"] in [pytest.approx(row["value_ms"]) for row in alone]
    assert placement("sweep", graph, "--devices", "B9000", "--devices", "T4").code == 2


def test_exit_codes_tell_that_nothing_fits(placement: Run, graph: Path) -> None:
    answer = placement("sweep", graph, "--accelerators", "0,1", "--memory", "1e-10", "--workers", 1)
    assert answer.code == 3
    assert "INFEASIBLE" in answer.out


def test_servers_may_be_axes(placement: Run, tmp_path: Path) -> None:
    """Faster links within larger servers: the value of each point is that of `solve` with the same options."""
    path = tmp_path / "graph.json"
    write_graph(path, chain((2.0, 3.0, 2.0, 3.0), 2.0), Deployment(4))
    swept = placement(
        *("sweep", path, "--accelerators-per-server", "1,2,4", "--server-link-speed", "1,8", "--workers", 1, "--json")
    ).json
    assert len(swept["points"]) == 6
    for point in swept["points"]:
        servers = point["accelerators_per_server"], point["server_link_speed"]
        alone = placement(
            *("solve", path, "--accelerators-per-server", servers[0], "--server-link-speed", f"{servers[1]:g}")
        ).json
        assert point["value_ms"] == pytest.approx(alone["value_ms"])
    assert len({point["value_ms"] for point in swept["points"]}) > 1


def test_a_sweep_over_what_a_framework_does_not_have_is_refused(placement: Run, tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    nodes = tuple(Node(v, 1.0, 1.0, layer=f"block {v}") for v in range(4))
    edges = tuple(Edge(v, v + 1) for v in range(3))
    write_graph(path, DnnGraph(nodes, edges), Deployment(2, 3))
    asked = ("sweep", path, "--expressible-in", "megatron", "--workers", 1)
    answer = placement(*asked, "--cpus", "0,2", "--accelerators", 2)
    assert answer.code == 2
    assert "At 2 CPUs: Megatron-LM runs no part of a network on CPUs; leave them out." in answer.err
    answer = placement(*asked, "--objective", "throughput,latency")
    assert answer.code == 2
    assert "At latency: Megatron-LM runs pipelines" in answer.err
    answer = placement(*asked, "--accelerators", "1,2", "--json")
    assert [row["cpus"] for row in answer.json["points"]] == [0, 0]
    takes_cpus = ("sweep", path, "--expressible-in", "device-map", "--family", "free", "--workers", 1)
    answer = placement(*takes_cpus, "--cpus", "0,2", "--accelerators", 0, "--json")
    assert answer.code == 0
