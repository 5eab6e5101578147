"""Every export as a user gets it from the running app, parsed again."""

import csv
import io
import json
import xml.etree.ElementTree as ET
import zipfile
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import expect

from solvers.formats.graph_json import parse_graph, parse_split
from solvers.model.costs import split_costs
from solvers.samples import read_sample
from tests.support.app_page import SOLVE_MS, download
from tests.support.picture import choose
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

SAMPLE = "gpt2_xl_layer_training"
STEM = "GPT-2_XL_training_by_layers"


def open_exports(page: Any, address: str) -> None:
    page.set_default_timeout(SOLVE_MS)
    page.goto(f"{address}/?sample={SAMPLE}")
    page.get_by_text("optimal (proven)").filter(visible=True).first.wait_for(timeout=SOLVE_MS)
    page.locator(".stApp[data-test-script-state=notRunning]").wait_for(timeout=SOLVE_MS)
    page.get_by_role("tab", name="Share and export").click()


def archive(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as files:
        return {name: files.read(name).decode() for name in files.namelist()}


def test_every_file_is_of_the_plan_on_the_page(app: str, chromium_page: Any) -> None:
    page = chromium_page
    open_exports(page, app)
    value = page.get_by_test_id("stMetricValue").first.inner_text()
    graph, deployment = read_sample(SAMPLE)

    name, content = download(page, "Split (JSON)")
    split = parse_split(content)
    assert name == f"{STEM}_split.json"
    costs = split_costs(graph, deployment, split)
    assert f"{costs.max_load_ms:,.4g} ms" == value

    name, content = download(page, "Figure (SVG)")
    assert name == f"{STEM}_graph_and_timeline.svg"
    words = " ".join(text.text or "" for text in ET.fromstring(content).iter("{http://www.w3.org/2000/svg}text"))  # noqa: S314
    assert f"Time per micro-batch  {value}" in words
    assert "optimal (proven)" in words

    name, content = download(page, "Figure (PNG)")
    assert Image.open(io.BytesIO(content)).size[0] > 3000

    _, content = download(page, "Graph (JSON)")
    assert len(parse_graph(content)[0].nodes) == len(graph.nodes)

    _, content = download(page, "Tables (CSV)")
    tables = {name: list(csv.DictReader(io.StringIO(text, newline=""))) for name, text in archive(content).items()}
    assert {int(row["node"]): int(row["device"]) for row in tables["nodes.csv"]} == split.device_of()
    assert len(tables["cut_tensors.csv"]) == len(costs.cut_tensors)
    assert tables["slots.csv"]

    _, content = download(page, "Trace (Perfetto)")
    events = json.loads(content)["traceEvents"]
    assert all(isinstance(event["pid"], int) for event in events)
    assert len([e for e in events if e["ph"] == "X"]) == len(tables["slots.csv"])

    _, content = download(page, "Model Explorer")
    placed = json.loads(archive(content)[f"{STEM}.json"])["graphs"][0]
    assert len(placed["nodes"]) == len(graph.nodes)

    assert download(page, "Placed graph (DOT)")[1].startswith(b"digraph")
    assert download(page, "Devices (DOT)")[1].startswith(b"digraph")

    name, content = download(page, "Report (HTML)")
    assert name == f"{STEM}_report.html"
    assert f"<dd>{value}</dd>".encode() in content
    expect(page.get_by_text("Traceback")).to_have_count(0)


def test_the_figure_is_drawn_as_chosen(app: str, chromium_page: Any) -> None:
    page = chromium_page
    open_exports(page, app)
    for label, option in (
        ("Shows", "Graph"),
        ("Graph drawn by", "Nodes"),
        ("Background", "Dark"),
        ("Colour by", "Memory"),
    ):
        choose(page, label, option)
    page.get_by_text("A4 landscape, on a dark ground: the graph by nodes, coloured by memory.").wait_for()
    name, content = download(page, "Figure (SVG)")
    assert name == f"{STEM}_graph.svg"
    text = content.decode()
    assert "a box is a node" in text
    assert "Fill: memory" in text
    assert '<rect width="1122.52"' in text
    assert 'fill="#0E1117"' in text
    assert "Lower bounds" not in text


def test_no_answer_of_a_figures_options_is_cut_off_on_a_projector(app: str, chromium_page: Any) -> None:
    page = chromium_page
    open_exports(page, app)
    page.set_viewport_size({"width": 1024, "height": 768})
    answers = page.get_by_test_id("stMain").get_by_test_id("stSelectbox").locator("input")
    expect(answers).to_have_count(4)
    eventually(lambda: answers.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)"))
