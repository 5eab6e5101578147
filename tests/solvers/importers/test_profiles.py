"""Imports of profiles: times as they were measured, one tensor for each that is sent, and what is refused."""

import json
import math
import random
import re
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.hardware.catalogue import catalogue
from solvers.importers.imported import Imported
from solvers.importers.profiles.measured import MeasuredLayer, Profile, training_graph
from solvers.importers.sources import import_file
from solvers.importers.workload import Devices, Mode, TimeUnit, Workload
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError, SourceError
from solvers.model.graph import TimesKind
from solvers.model.result import SolveStatus
from solvers.model.split import Split
from solvers.schedule.records import ScheduleKind
from solvers.schedule.simulate import simulate
from solvers.solve import solve
from tests.support.examples import examples
from tests.support.importing import usual_devices
from tests.support.profiles import PIPEDREAM, piper

LINK = usual_devices().link.bandwidth_bytes_per_ms


def imported(text: str | bytes, devices: Devices | None = None, **asked: Any) -> Imported:
    content = text.encode() if isinstance(text, str) else text
    return import_file(BytesIO(content), Workload(**asked), devices or usual_devices(), "a test", "made")


def with_usual_link() -> Devices:
    known = catalogue()
    return Devices(known.accelerator("H100-SXM"), known.link("nvlink4"), known.host("Xeon-8480"), is_usual_link=True)


def test_a_profile_of_pipedream_keeps_its_times_and_leaves_inputs_out() -> None:
    found = imported(PIPEDREAM)
    times = {node.name: node.accelerator_ms for node in found.graph.nodes if node.accelerator_ms}
    assert times == {
        "node2 Embedding(10, 4)": 1.0,
        "node2 Embedding(10, 4) backward": 2.0,
        "node3 LSTM(4, 4)": 3.0,
        "node3 LSTM(4, 4) backward": 5.0,
        "node6 Add(inplace)": 0.5,
        "node6 Add(inplace) backward": 0.25,
        "node7 Linear(in_features=4, out_features=10, bias=True)": 2.0,
        "node7 Linear(in_features=4, out_features=10, bias=True) backward": 4.0,
    }
    assert not any("Input" in node.name or "getitem__(1)" in node.name for node in found.graph.nodes)
    assert (found.totals.forward_ms, found.totals.backward_ms) == (6.5, 11.25)
    assert found.graph.times is not None
    assert found.graph.times.kind is TimesKind.MEASURED
    assert found.totals.weight_bytes == 160 + 512 + 200
    assert found.totals.memory_bytes == 4 * (160 + 512 + 200) + 4000 + 4000 + 3000 + 3000 + 8000
    assert any(re.match(r"\d layers are left out, as PipeDream's", sentence) for sentence in found.assumptions)
    layer = "node1 -- A(x) -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=4"
    whole = imported(f"{layer}\n{layer.replace('node1', 'node2')}\n\tnode1 -- node2\n")
    assert not any("left out, as" in sentence for sentence in whole.assumptions)


def test_what_a_layer_sends_passes_the_link_that_is_asked_for() -> None:
    nodes = {node.name: node for node in imported(PIPEDREAM).graph.nodes}
    assert nodes["node3 LSTM(4, 4)"].transfer_ms == pytest.approx(4000 / LINK)
    gradients = dict(nodes["node6 Add(inplace) backward"].tensor_ms)
    assert gradients == {"gradient 1": pytest.approx(3000 / LINK), "gradient 2": pytest.approx(4000 / LINK)}


def test_an_input_of_piper_keeps_its_times_memory_and_bandwidth() -> None:
    found = imported(json.dumps(piper()), with_usual_link())
    assert found.totals.forward_ms == pytest.approx(13.5 / 3)
    assert found.totals.backward_ms == pytest.approx(13.5 * 2 / 3)
    assert found.totals.memory_bytes == 2 * (400 + 800) + 1000 + 2000 + 3000
    nodes = {node.name: node for node in found.graph.nodes}
    assert dict(nodes["0 layer0"].tensor_ms) == {"output 1": pytest.approx(1.0), "output 2": pytest.approx(2.0)}
    assert len(nodes) == 2 * 3  # a node for each pass of a layer, however many tensors it sends
    assert any("the file's own link at 25 GB/s" in sentence for sentence in found.assumptions)
    asked = imported(json.dumps(piper()))
    assert {node.name: node for node in asked.graph.nodes}["0 layer0"].output_ms == pytest.approx(75e6 / LINK)
    in_ms = imported(json.dumps(piper()), time_unit=TimeUnit.MILLISECONDS)
    assert in_ms.totals.forward_ms == pytest.approx(13.5e-3 / 3)


@pytest.mark.parametrize("text", [PIPEDREAM, json.dumps(piper())])
def test_profiles_are_solved_and_run_at_their_max_load(text: str) -> None:
    found = imported(text)
    by_dp = solve(found.graph, found.deployment, method="dp", time_limit_s=60)
    by_ip = solve(found.graph, found.deployment, method="ip", time_limit_s=60)
    assert by_dp.status is SolveStatus.OPTIMAL
    assert by_ip.value_ms == pytest.approx(by_dp.value_ms, rel=1e-4)
    assert by_dp.split is not None
    schedule = simulate(found.graph, found.deployment, by_dp.split, ScheduleKind.ONE_F_ONE_B, 60)
    assert schedule.period_ms == pytest.approx(by_dp.value_ms)


@given(st.integers(2, 6), st.randoms(use_true_random=False))
@examples(60)
def test_a_device_sends_and_receives_each_tensor_that_is_cut_once_each_way(count: int, rng: random.Random) -> None:
    """The loads of any split, worked out from the profile itself."""
    layers = [MeasuredLayer(f"l{v}", v + 1.0, 2.0 * v + 1, 8.0, 16.0, 4.0) for v in range(count)]
    pairs = [(u, v) for v in range(count) for u in range(v) if rng.random() < 0.6]
    sent = {pair: float(rng.choice((2, 2, 4))) for pair in pairs}
    graph = training_graph(Profile("any", layers, sent), bytes_per_ms=2.0, slower=1.0)
    side = [rng.randrange(2) for _ in layers]
    devices = tuple(
        frozenset(node.id for node in graph.nodes if side[node.colocation_class or 0] == d) for d in range(2)
    )
    costs = split_costs(graph, Deployment(2), Split(devices))
    forward = {(u, size) for (u, v), size in sent.items() if side[u] != side[v]}
    backward = [(u, v) for (u, v) in sent if side[u] != side[v]]
    moved = sum(size / 2 for _, size in forward) + sum(sent[pair] / 2 for pair in backward)
    for d, device in enumerate(costs.devices):
        compute = math.fsum(layer.forward_ms + layer.backward_ms for v, layer in enumerate(layers) if side[v] == d)
        assert device.load_ms == pytest.approx(compute + moved)


def line(**changed: str) -> str:
    sizes = {"forward_compute_time": "1", "backward_compute_time": "1", "activation_size": "1", "parameter_size": "1"}
    return "a -- b -- " + ", ".join(f"{name}={value}" for name, value in {**sizes, **changed}.items())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (line(forward_compute_time="nan"), "Line 1 has .* give each of forward_compute_time"),
        (line(parameter_size="-1"), "Line 1 has "),
        (line(activation_size="[1; x]"), "Line 1 has "),
        (line(activation_size="1e400"), "must be a number from 0 to"),
        (line(activation_size="[1e308; 1e308]"), "must be a number from 0 to"),
        (line() + "\n" + line(), r"Line 2 \(.*\) is listed twice"),
        (line() + "\n\ta -- c", "Line 2 is .* give an edge between two layers"),
        (line() + "\nforward", r"Line 2 \(.*\) is no layer"),
        (line() + " -- stage_id=x", "Line 1 ends in "),
        (line().replace("a -- b", "a -- Input"), "no layer besides inputs"),
        (line() + "\n\ta -- a", "reads its own output"),
        ("a -- b -- forward_compute_time=1", "Line 1 has no backward_compute_time"),
    ],
)
def test_a_profile_of_pipedream_that_cannot_be_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(PlacementError, match=told) as caught:
        imported(text)
    assert "\n" not in str(caught.value)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    document = piper()
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (changed(lambda d: d["nodes"][1].update(id=0)), r"nodes\[1\]: the id 0 is used twice"),
        (changed(lambda d: d["nodes"][1].update(id="x")), r"nodes\[1\]: 'id' is \"x\"; give a whole number"),
        (changed(lambda d: d["nodes"][1]["TMPCs"].pop("1")), r"nodes\[1\]: 'TMPCs' has no configuration"),
        (changed(lambda d: d["nodes"][1]["TMPCs"]["1"].pop()), r"nodes\[1\]: every configuration .* recomputes"),
        (changed(lambda d: d["nodes"][1]["TMPCs"]["1"][1].update(timePerSample=-1)), "'timePerSample' is -1"),
        (changed(lambda d: d["nodes"][1]["TMPCs"]["1"][1].pop("memoryUsageB")), "'memoryUsageB' is null"),
        (changed(lambda d: d["edges"][0].update(destId=7)), r"edges\[0\]: there is no node 7"),
        (changed(lambda d: d["edges"].append(d["edges"][0])), r"edges\[3\]: the edge 0 -> 10 is listed twice"),
        (changed(lambda d: d["edges"][0].update(sourceId=20, destId=0)), "cycle"),
        (changed(lambda d: d.update(bandwidth=0)), "'bandwidth' is 0"),
        (changed(lambda d: d.update(edges={})), "no 'edges' that can be read"),
    ],
)
def test_an_input_of_piper_that_cannot_be_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(PlacementError, match=told) as caught:
        imported(text)
    assert "\n" not in str(caught.value)


def test_profiles_decode_nothing() -> None:
    for text in (PIPEDREAM, json.dumps(piper())):
        with pytest.raises(SourceError, match="no --mode decode"):
            imported(text, mode=Mode.DECODE)


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4), st.booleans())
@examples(200)
def test_any_damage_is_imported_or_refused_in_a_sentence(seed: int, damage: bytes, is_piper: bool) -> None:
    content = json.dumps(piper()).encode() if is_piper else PIPEDREAM.encode()
    at = seed % len(content)
    try:
        found = imported(content[:at] + damage + content[at + len(damage) :])
    except PlacementError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
    else:
        assert found.graph.nodes
