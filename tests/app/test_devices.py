"""The picker of devices: what it says of times, what it puts into the address, and what it makes of a graph."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from explorer import launch
from explorer.figures.subject import hardware
from explorer.form.devices import AS_IN_FILE, devices_key
from explorer.state.kept_plans import automatic_name
from explorer.state.records import Plan
from explorer.words.devices_text import is_known, origin_told
from explorer.words.known_devices import VARIABLE, known_devices
from solvers.formats.graph_json import write_graph
from solvers.hardware.catalogue import catalogue
from solvers.hardware.device_list import groups, parse_devices
from solvers.hardware.devices import CatalogueError
from solvers.hardware.equipment import Equipment, equip
from solvers.model.deployment import Deployment
from solvers.model.graph import TimesOrigin
from solvers.model.split import Split
from solvers.samples import read_sample
from tests.support.graphs import chain
from tests.support.opened_app import APP, metrics, opened, solved, unescaped
from tests.support.subjects import subject_of
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("solver_processes")

SAMPLE = "gnmt_layer_inference"
KEY = devices_key(read_sample(SAMPLE)[0].digest)


def with_query(**query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    app.query_params.update({"sample": SAMPLE, **query})
    return solved(app.run())


def value_ms(app: AppTest) -> float:
    return float(metrics(app)["Time per micro-batch"].split()[0])


def captions(app: AppTest) -> str:
    return unescaped(" ".join(caption.value for caption in app.caption))


def memory_gib(app: AppTest) -> float | None:
    return next((box.value for box in app.number_input if box.label == "Memory (GiB)"), None)


def test_devices_are_those_of_the_file_until_others_are_picked() -> None:
    app = opened(SAMPLE)
    assert app.selectbox(key=f"{KEY}_name_0").value == AS_IN_FILE
    assert "computed by the roofline for T4" in captions(app)
    assert "devices" not in app.query_params


def test_a_device_brings_times_and_memory_and_stands_in_the_address() -> None:
    app = opened(SAMPLE)
    before = value_ms(app)
    solved(app.selectbox(key=f"{KEY}_name_0").set_value("H100-SXM").run())
    assert memory_gib(app) == pytest.approx(80e9 / 2**30)
    assert 5 < before / value_ms(app) < 989.4 / 65
    assert "computed, not measured: the roofline, 50 % of peak FLOP/s" in captions(app)
    assert app.query_params["devices"] in ("H100-SXM", ["H100-SXM"])
    solved(app.selectbox(key=f"{KEY}_link_0").set_value("nvlink4").run())
    assert next(box.value for box in app.number_input if box.label == "Link (GB/s)") == pytest.approx(450)
    on_h100 = value_ms(app)
    again = with_query(devices="H100-SXM:link=nvlink4")
    assert value_ms(again) == on_h100
    solved(app.selectbox(key=f"{KEY}_name_0").set_value(AS_IN_FILE).run())
    assert value_ms(app) == before
    assert "devices" not in app.query_params


def test_the_page_says_which_links_are_kept_and_which_bytes() -> None:
    app = with_query(devices="H100-SXM:precision=fp8")
    said = captions(app)
    assert "Transfers of H100-SXM over links as in the file, 12.6 GB/s" in said
    assert "stay those of the file, in fp16" in said
    solved(next(box for box in app.number_input if box.label == "Link (GB/s)").set_value(25.0).run())
    assert "Transfers of H100" not in captions(app)
    mixed = captions(with_query(devices="1xH100-SXM:link=nvlink4+1xL40S+1xT4:link=nvlink4"))
    assert mixed.count("Transfers over NVLink 4 (H100, H200) at 450 GB/s") == 1
    assert "Transfers of L40S over links as in the file, 12.6 GB/s" in mixed
    assert "does not list nvlink4 for T4" in mixed


def test_figures_and_efficiency_can_be_changed() -> None:
    app = with_query(devices="A100-80", accelerators="1", cpus="0")
    before = value_ms(app)
    solved(app.number_input(key=f"{KEY}_peak_0").set_value(156.0).run())
    solved(app.number_input(key=f"{KEY}_bandwidth_0").set_value(2039.0 / 2).run())
    assert value_ms(app) == pytest.approx(2 * before, rel=1e-3)
    efficiency = next(box for box in app.number_input if box.label == "Achieved share of peak (%)")
    solved(efficiency.set_value(25).run())
    solved(
        next(box for box in app.number_input if box.label == "Achieved share of memory bandwidth (%)")
        .set_value(37)
        .run()
    )
    assert value_ms(app) == pytest.approx(4 * before, rel=0.02)
    again = with_query(
        devices="A100-80:peak=156TFLOP/s,bandwidth=1019.5GB/s",
        efficiency="25",
        memory_efficiency="37",
        accelerators="1",
        cpus="0",
    )
    assert value_ms(again) == value_ms(app)


def test_several_kinds_are_placed_together() -> None:
    app = with_query(devices="A100-80", accelerators="2", cpus="0")
    alone = value_ms(app)
    solved(app.button(key=f"{KEY}_add").click().run())
    assert app.number_input(key=f"{KEY}_count_0").value == 2
    assert app.selectbox(key=f"{KEY}_name_1").value == "T4"
    assert memory_gib(app) is None  # each kind has its own
    solved(app.number_input(key=f"{KEY}_count_1").set_value(4).run())
    assert value_ms(app) <= alone
    together = value_ms(app)
    assert value_ms(with_query(devices="2xA100-80+4xT4", cpus="0")) == together
    solved(app.button(key=f"{KEY}_remove_1").click().run())
    assert value_ms(app) == alone


def test_replicas_are_offered_for_accelerators_that_are_alike() -> None:
    for devices, offered in (("A100-80", True), ("2xA100-80+4xT4", False)):
        app = with_query(devices=devices, replicas="2")
        assert any(box.label == "Replicas of a stage, up to" for box in app.number_input) is offered
        assert not app.exception


def test_only_what_is_solved_for_several_kinds_is_offered() -> None:
    app = with_query(devices="2xA100-80+4xT4")
    offered = {box.label: box.options for box in app.selectbox if box.label in ("Minimise time for", "Solver")}
    assert len(offered["Minimise time for"]) == 2
    exact = ["Automatic", "Dynamic programming (DP)", "Integer programming (IP)"]
    baselines = ["One accelerator", "Local search", "PipeDream's planner", "Scotch", "DP on one order (DPL)"]
    assert offered["Solver"] == [*exact, *baselines]
    latency = with_query(sample="gnmt_layer_inference", devices="2xA100-80+4xT4", objective="latency")
    assert not latency.warning
    answered = solved(next(button for button in latency.button if button.label == "Solve").click().run())
    assert metrics(answered)["Latency of one micro-batch"] == metrics(answered)["Proven lower bound"]


def test_a_host_changes_what_cpus_take() -> None:
    slow, fast = (with_query(accelerators="0", host=name) for name in ("Xeon-6148", "EPYC-9654"))
    assert value_ms(slow) / value_ms(fast) == pytest.approx(460.8 / 128, rel=0.02)
    assert "Times of CPUs: Times are computed" in captions(fast).replace("\\", "")


@pytest.mark.parametrize(
    "query",
    [
        {"devices": "X9"},
        {"devices": "2xT4+"},
        {"devices": "1xT4:precision=bf16"},
        {"devices": "1xT4:speed=2"},
        {"host": "T4"},
        {"efficiency": "0", "devices": "T4"},
        {"efficiency": "40"},
        {"measured_on": "T4@fp16"},
    ],
)
def test_what_an_address_asks_in_vain_is_named(query: dict[str, str]) -> None:
    app = with_query(**query)
    assert not app.exception
    (warning,) = app.warning
    wanted = next(iter(query))
    assert warning.value.replace("\\", "").startswith(f"Ignored from the link: {wanted} ")
    assert metrics(app)["Time per micro-batch"]


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ("2xH100", "the nearest names are H100-SXM and H100-PCIe"),
        ("2xA100-80+4xT5", 'There is no accelerator "T5" in the catalogue'),
        ("2xbig+4xsmall:speed=0.5", "Explore takes devices of the catalogue, not such that are relative"),
    ],
)
def test_the_reason_is_told_why_devices_of_an_address_are_not_picked(devices: str, reason: str) -> None:
    (warning,) = with_query(devices=devices).warning
    assert reason in warning.value.replace("\\", "")


def test_times_of_an_unknown_device_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_graph(path, chain((4, 2, 3), transfer_ms=0.1), Deployment(2))
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    solved(app.run())
    app.segmented_control(key="source").set_value("Upload").run()
    app.file_uploader[0].upload("mine.json", path.read_bytes(), "application/json")
    solved(app.run())
    assert "does not say of which devices" in captions(app)
    before = value_ms(app)
    key = devices_key(app.session_state["loaded_graph"].graph.digest)
    solved(app.selectbox(key=f"{key}_name_0").set_value("A100-80").run())
    assert "does not say which device its times were measured on" in app.error[0].value.replace("\\", "")
    assert value_ms(app) == before
    asked = next(box for box in app.selectbox if box.label == "The file's times were measured on")
    solved(asked.set_value("T4@fp16").run())
    assert not app.error
    assert "file on T4 (fp16), scaled: A100-80 × 0.208" in captions(app)
    assert value_ms(app) == pytest.approx(7.1 * 0.208 if before > 7 else before * 0.208, rel=0.1)


def test_servers_that_a_file_has_are_asked_about_and_planned_for(tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    write_graph(
        path, chain((4, 2, 3, 5), transfer_ms=0.5), Deployment(4, accelerators_per_server=2, server_link_speed=6)
    )
    app = AppTest.from_file(APP, default_timeout=PATIENCE_S)
    solved(app.run())
    app.segmented_control(key="source").set_value("Upload").run()
    app.file_uploader[0].upload("servers.json", path.read_bytes(), "application/json")
    solved(app.run())
    boxes = {box.label: box for box in app.number_input}
    assert boxes["Accelerators per server"].value == 2
    assert boxes["Intra-server bandwidth (×)"].value == 6
    assert not app.exception
    solved(boxes["Accelerators"].set_value(3).run())
    boxes = {box.label: box for box in app.number_input}
    assert (boxes["Accelerators"].value, boxes["Accelerators per server"].value) == (3, 2)
    solved(boxes["Accelerators per server"].set_value(None).run())
    assert "Intra-server bandwidth (×)" not in {box.label for box in app.number_input}
    assert not app.exception


def test_an_origin_is_a_name_and_a_precision() -> None:
    assert origin_told("t4@fp32").precision == "fp32"
    assert origin_told("A100-80").precision == "bf16"
    with pytest.raises(CatalogueError, match="no published peak"):
        origin_told("T4@bf16")


def test_what_a_file_says_is_of_use_only_in_names_of_the_catalogue() -> None:
    assert is_known(TimesOrigin("t4", "fp16"))
    assert not any(map(is_known, (None, TimesOrigin(), TimesOrigin("FPGA"), TimesOrigin("T4", "int4"))))


def test_kept_plans_are_named_after_what_was_picked() -> None:

    for query, name in (
        ({"devices": "2xA100-80+4xT4", "cpus": "1"}, "2 × A100-80 + 4 × T4 + 1 CPU"),
        ({"devices": "H100-SXM", "accelerators": "3", "cpus": "0"}, "3 × H100-SXM"),
        ({"accelerators": "3", "cpus": "0"}, "3 accelerators"),
        ({"host": "EPYC-9654", "accelerators": "3", "cpus": "1"}, "3 × T4 + 1 CPU"),
    ):
        plan = with_query(**query).session_state["plan"]
        assert isinstance(plan, Plan)
        assert automatic_name(plan).endswith(f", {name}")


def test_a_project_holds_the_devices() -> None:
    from explorer.state.project import parse_project, project_text
    from explorer.state.query import Link
    from explorer.state.records import LoadedGraph
    from tests.support.project_files import QUESTION

    loaded = LoadedGraph(*read_sample(SAMPLE), "GNMT")
    link = Link(sample=SAMPLE, values={"devices": "2xA100-80+4xT4", "host": "EPYC-9654", "efficiency": 0.4})
    read = parse_project(project_text(loaded, link, None, QUESTION).encode())
    assert read.link.values == link.values
    assert json.loads(project_text(loaded, link, None, QUESTION))["inputs"]["devices"] == "2xA100-80+4xT4"


def test_a_second_kind_keeps_the_objective() -> None:
    app = with_query(devices="A100-80", objective="latency")
    solved(app.button(key=f"{KEY}_add").click().run())
    assert next(box.value for box in app.selectbox if box.label == "Minimise time for") == "latency"
    assert not app.exception


def test_devices_of_a_file_are_offered_beside_those_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.json"
    mine = {"name": "Mine-1", "memoryGB": 12, "memoryBandwidthGBs": 500, "peakTFLOPs": {"fp16": 65}}
    path.write_text(json.dumps({"accelerators": [mine]}), encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(path))
    known_devices.cache_clear()
    try:
        app = with_query(devices="Mine-1")
        assert "Mine-1" in app.selectbox(key=f"{KEY}_name_0").options
        assert memory_gib(app) == pytest.approx(12e9 / 2**30)
    finally:
        known_devices.cache_clear()


def test_a_file_of_devices_that_is_none_ends_the_start_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["placement-explorer", "--catalogue", str(tmp_path / "none.json")])
    with pytest.raises(SystemExit) as leaving:
        launch.main()
    assert leaving.value.code == 2
    assert 'none.json" cannot be read: No such file' in capsys.readouterr().err


def test_reports_tell_memory_and_links_of_each_kind() -> None:
    def told(devices: str) -> str:
        graph, deployment = read_sample(SAMPLE)
        kinds = groups(parse_devices(devices), catalogue(), graph.times)
        on = equip(graph, Deployment(2, 0, deployment.memory_bytes), Equipment(kinds), catalogue())
        everything = Split((frozenset(node.id for node in graph.nodes),))
        return hardware(subject_of(on.graph, on.deployment, everything, None))

    assert told("2xA100-80:link=nvlink3+4xT4:link=pcie3-x16") == (
        "2 × A100-80, 4 × T4 and 0 CPUs, 74.51 GiB (A100-80) and 14.9 GiB (T4), "
        "links of 300 GB/s (A100-80) and 12.6 GB/s (T4)"
    )
    assert told("H100-SXM:link=nvlink4") == (
        "2 accelerators and 0 CPUs, 74.51 GiB each, links of 450 GB/s, "
        "times computed by the roofline for H100-SXM (fp16)"
    )
