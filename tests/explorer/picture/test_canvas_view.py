"""The message to the canvas component, and the page it is on, without a browser."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from streamlit.testing.v1 import AppTest

from explorer.picture.component import MODULES, Look, component_source, look_from_state, pack
from explorer.picture.dag_view import dag_info
from solvers.model.deployment import Deployment
from tests.support.graphs import chain, mixed_placements, one_node_per_device
from tests.support.messages import unpack, views
from tests.support.root import ROOT

PAGE = ROOT / "tests" / "support" / "canvas_page.py"


@settings(deadline=None)
@given(mixed_placements())
def test_tensors_of_the_message_take_what_devices_pay(case: Any) -> None:
    info = dag_info(*case)
    header, _ = unpack(pack(info, None, "k"))
    send_ms, receive_ms = [0.0] * len(info.devices), [0.0] * len(info.devices)
    for tensor in header["graph"]["tensors"]:
        send_ms[tensor["from"]] += tensor["sendMs"]
        for d, ms in zip(tensor["to"], tensor["receiveMs"], strict=True):
            receive_ms[d] += ms
    assert send_ms == [device["sendMs"] for device in header["devices"]]
    assert receive_ms == [device["receiveMs"] for device in header["devices"]]


def test_message_carries_boxes_edges_and_bars():
    graph_view, gantt_view = views()
    header, arrays = unpack(pack(graph_view, gantt_view, "k"))
    assert header["graph"]["nodes"]["id"] == [1, 2]
    assert header["graph"]["levels"][0]["edges"]["cutMs"] == [0.5]
    assert [device["label"] for device in header["devices"]] == ["1", "2", "C1"]
    assert list(arrays["bar.start"]) == [bar.start_ms for bar in gantt_view.bars]
    assert list(arrays["bar.micro_batch"]) == [bar.micro_batch for bar in gantt_view.bars]
    assert len(arrays["operators.x"]) == 2
    assert all(entry[1] % 8 == 0 for entry in header["arrays"].values())


@settings(deadline=None)
@given(mixed_placements())
def test_edges_of_the_message_say_which_tensor_they_carry(case: Any) -> None:
    graph, deployment, split = case
    header, arrays = unpack(pack(dag_info(graph, deployment, split), None, "k"))
    outputs = header["graph"]["outputs"]
    if not graph.has_names:
        assert outputs is None
        assert "edge.output" not in arrays
        return
    ids = header["graph"]["nodes"]["id"]
    carried = [(ids[outputs["source"][o]], outputs["name"][o]) for o in arrays["edge.output"]]
    assert carried == [(edge.source, edge.tensor) for edge in graph.edges]
    assert [ids[v] for v in arrays["edge.target"]] == [edge.target for edge in graph.edges]
    for tensor in header["graph"]["tensors"]:
        assert (outputs["source"][tensor["output"]], outputs["name"][tensor["output"]]) == (
            tensor["source"],
            tensor["name"],
        )


def test_equal_views_send_equal_messages_and_others_differ():
    assert pack(*views(), "k") == pack(*views(), "k")
    first, _ = unpack(pack(*views(), "k"))
    second, _ = unpack(pack(*views((2.0, 4.0)), "k"))
    assert first["digest"] != second["digest"]


@pytest.mark.parametrize("missing", ["graph", "gantt", "both"])
def test_either_part_may_be_missing(missing):
    graph_view, gantt_view = views()
    header, _ = unpack(
        pack(None if missing != "gantt" else graph_view, None if missing != "graph" else gantt_view, "k")
    )
    assert (header["graph"] is None, header["gantt"] is None) == (missing != "gantt", missing != "graph")


def test_numbers_that_are_not_finite_do_not_reach_the_browser():
    graph_view, gantt_view = views()
    bad_bar = replace(gantt_view.bars[0], end_ms=float("inf"))
    with pytest.raises(ValueError, match="not finite"):
        pack(graph_view, replace(gantt_view, bars=(bad_bar,)), "k")
    with pytest.raises(ValueError, match="JSON compliant"):
        pack(graph_view, replace(gantt_view, makespan_ms=float("nan")), "k")


def test_numpy_scalars_do_not_turn_up_in_the_message():
    graph = chain((np.float64(2.0), np.float64(3.0)), transfer_ms=np.float64(0.5))
    deployment = Deployment(2)
    unpack(pack(dag_info(graph, deployment, one_node_per_device(graph)), None, "k"))


def test_joined_modules_have_one_export_and_no_import():
    js, css = component_source()
    lines = js.splitlines()
    assert sum(line.startswith("export ") for line in lines) == 1
    assert not any(line.startswith("import ") for line in lines)
    assert "innerHTML" not in js
    assert "eval(" not in js
    assert ".placed-pipeline" in css


def test_joined_modules_are_complete_and_do_not_share_a_name():
    folder = ROOT / "explorer" / "canvas"
    assert {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.js")} == set(MODULES)
    names: list[str] = []
    for path in folder.rglob("*.js"):
        for line in path.read_text(encoding="utf-8").splitlines():
            declared = re.match(r"(?:export )?(?:const|let|function|class) (\w+|\[[^]]+)", line)
            if declared:
                names += re.findall(r"\w+", declared[1])
    assert len(names) == len(set(names))


def test_page_with_the_picture_runs():
    app = AppTest.from_file(str(PAGE), default_timeout=20).run()
    assert not app.exception
    assert app.text[0].value == "selected: None"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"node": 3}, "{'node': 3}"),
        ({"node": 99}, "None"),
        ({"device": 1}, "{'device': 1}"),
        ({"device": 17}, "None"),
        ({"device": "x"}, "None"),
        ({"group": "a", "nodes": [1, 2]}, "{'group': 'a', 'nodes': [1, 2]}"),
        ({"nodes": []}, "None"),
        ({"nodes": [[1]]}, "None"),
        ({"node": {}}, "None"),
        ({"node": math.nan}, "None"),
        ({"node": 3, "graph": "another"}, "None"),
        ("nonsense", "None"),
    ],
)
def test_selection_is_returned_when_it_fits_what_is_shown(value, expected):
    app = AppTest.from_file(str(PAGE), default_timeout=20)
    app.session_state["picture"] = {"selection": value}
    app.run()
    assert not app.exception
    assert app.text[0].value == f"selected: {expected}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"level": "stages", "colour": "sentBytes", "arrangement": "lanes", "serial": 2}, True),
        ({"level": None, "colour": "device", "arrangement": "network"}, True),
        ({"level": "<b>"}, False),
        ({"level": "x" * 1000}, False),
        ({"colour": ["time"]}, False),
        ({"serial": math.nan}, False),
        ({"serial": math.inf}, False),
        ({"serial": True}, False),
        (7, False),
    ],
)
def test_what_is_looked_at_is_taken_from_the_browser_only_if_it_makes_sense(value, expected):
    assert isinstance(look_from_state({"look": value}), Look) is expected
