"""The report: one HTML file, complete, safe, and true to the plan; the browser opens it from the disk."""

import base64
import hashlib
import json
import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.explore.downloads import data_downloads, figure_downloads, report_download, tool_downloads
from explorer.exports.commands import reproduction_commands
from explorer.exports.report import report_html
from explorer.figures.figure import FigureOptions
from explorer.figures.subject import Subject
from explorer.jobs.record import Question
from explorer.picture.dag_view import dag_info
from explorer.picture.gantt_view import gantt_info
from explorer.plan.timeline import schedule_of
from explorer.state.choice import ScheduleOptions
from solvers.cli.main import main
from solvers.formats.graph_json import parse_graph, parse_split
from solvers.model.costs import Objective, split_costs
from solvers.model.deployment import Communication, Deployment, InFlight, Replication, TrainingMemory
from solvers.model.result import SolveStatus
from solvers.model.split import Split
from solvers.schedule.simulate import ScheduleKind
from tests.support.examples import examples
from tests.support.graphs import chain
from tests.support.subjects import HOSTILE, named, sample_subject, subject_of, without_schedule

BERT = "bert_base_operator_inference"


class Page(HTMLParser):
    """Tags with their attributes, and the text of each script by its id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.styles: list[str] = []
        self.words: list[str] = []
        self._within: tuple[str, str] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._within = (tag, dict(attrs).get("id") or "main")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._within = None

    def handle_data(self, data: str) -> None:
        if self._within is None:
            self.words.append(data)
        elif self._within[0] == "script":
            self.scripts[self._within[1]] = self.scripts.get(self._within[1], "") + data
        else:
            self.styles.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_holds_the_numbers_tables_and_files_of_the_plan() -> None:
    subject = sample_subject(BERT)
    page = Page(report_html(subject, "seen by the team", "21 November 2026"))
    value = f"{subject.result.value_ms:.4g} ms"
    assert f"Time per micro-batch {value}" in page.text
    assert f"Proven lower bound {value}" in page.text
    assert "Proof optimal (proven)" in page.text
    assert "seen by the team" in page.text
    assert "on 21 November 2026" in page.text
    graph, deployment = parse_graph(page.scripts["graph-data"])
    assert deployment == subject.deployment
    assert [node.id for node in graph.nodes] == [node.id for node in subject.graph.nodes]
    assert parse_split(page.scripts["split-data"]).on(deployment) == subject.split
    rows = len([tag for tag, _ in page.tags if tag == "tr"])
    assert rows == 3 + len(subject.dag.devices) + len(subject.costs.cut_tensors) + len(subject.graph.nodes)


def test_no_line_of_its_sentences_ends_between_a_number_and_its_unit() -> None:
    said = "".join(Page(report_html(sample_subject(BERT))).words).partition("What limits throughput")[2]
    sentences = said.partition("Devices")[0]
    assert "\u00a0ms" in sentences
    assert re.findall(r"\d (?:ms|%|[KMG]iB)\b", sentences) == []


def test_nothing_is_guessed_that_only_the_app_can_look_up() -> None:
    said = " ".join(Page(report_html(sample_subject(BERT))).words)
    assert "no pipeline split for these devices has a smaller" in said
    assert "might be faster" not in said


def policy_of(page: Page) -> str:
    (policy,) = [a["content"] or "" for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    return policy


def test_the_policy_allows_exactly_what_is_inside() -> None:
    page = Page(report_html(named("a", HOSTILE)))
    policy = policy_of(page)
    for source in (page.scripts["main"], *page.styles):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert len(page.styles) == 1
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    # The policy would forbid them: nothing may need them.
    assert not any("style" in attributes for _, attributes in page.tags)
    assert not any("src" in attributes or "href" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize("name", [HOSTILE, "</script><script>alert(1)</script>", "<!--", "]]>", '" onload="x', "&lt;"])
def test_names_are_text(name: str) -> None:
    page = Page(report_html(named(name, name, "c", layer=name, graph_name=name), notes=name))
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 4
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    assert name in "".join(page.words)
    assert [node.name for node in parse_graph(page.scripts["graph-data"])[0].nodes] == [name, name, "c"]


@pytest.mark.parametrize("name", [HOSTILE, "</script><script>alert(1)</script>", "<!--", "]]>", '" onload="x', "&lt;"])
def test_names_of_device_types_are_text(name: str) -> None:
    page = Page(report_html(named("a", "b", device_type=name)))
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 4
    assert not any(tag == "img" for tag, _ in page.tags)
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)
    assert f"{name} 1" in "".join(page.words)


@given(st.text(max_size=40), st.text(max_size=40))
@examples(20, deadline=None)
def test_no_name_adds_an_element(name: str, notes: str) -> None:
    usual = [tag for tag, _ in Page(report_html(named("a", "b"), "notes")).tags]
    try:
        subject = named(name, "b", graph_name="named")
    except ValueError:
        return
    drawn = Page(report_html(subject, f"x{notes}"))
    # Its figure has as many texts and boxes whatever they say, apart from a shortened or empty name.
    assert [tag for tag, _ in drawn.tags if tag not in ("text", "rect")] == [
        tag for tag in usual if tag not in ("text", "rect")
    ]


def chain_subject(deployment: Deployment, kind: ScheduleKind | None = ScheduleKind.INFERENCE) -> Subject:
    split = Split((frozenset({1, 2}), frozenset({3, 4})))
    return subject_of(chain([1.0, 2.0, 3.0, 4.0], 0.25), deployment, split, kind)


@pytest.mark.parametrize(
    "subject",
    [
        chain_subject(Deployment(2, 0, 2.0**30)),
        chain_subject(Deployment(2, 0, None, Communication.OVERLAPPED), None),
        chain_subject(Deployment(2, 1, 2.0**30, replication=Replication(2, 12.5e6)), None),
    ],
    ids=["plain", "overlapped", "replicated"],
)
def test_the_commands_run_on_the_files_and_give_the_same_numbers(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Page(report_html(subject))
    (tmp_path / "graph.json").write_text(page.scripts["graph-data"], encoding="utf-8")
    (tmp_path / "my split.json").write_text(page.scripts["split-data"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    commands = dict(reproduction_commands(subject, "graph.json", "my split.json"))

    def run(what: str, *more: str) -> Any:
        words = shlex.split(commands[what])
        assert words[0] == "placement"
        assert main([*words[1:], *more]) == 0
        return json.loads(capsys.readouterr().out)

    assert run("Check the plan and its value")["max_load_ms"] == pytest.approx(subject.costs.max_load_ms)
    assert run("Solve the same question again")["value_ms"] <= subject.costs.max_load_ms * (1 + 1e-9)
    assert run("Compare it with every other method", "--json", "--time-limit", "2")
    assert ("Run the schedule of the timeline" in commands) == (subject.schedule is not None)
    if subject.schedule is not None:
        assert run("Run the schedule of the timeline")["makespan_ms"] == pytest.approx(subject.schedule.makespan_ms)


def test_a_schedule_of_a_split_cut_anew_is_repeated_from_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = sample_subject("gpt2_xl_layer_training", 10)
    shown = schedule_of(
        planned.graph, planned.deployment, planned.split, ScheduleKind.INTERLEAVED, 10, ScheduleOptions(chunks=3)
    )
    assert shown.schedule is not None
    subject = replace(
        planned,
        split=shown.split.on(planned.deployment),
        costs=split_costs(planned.graph, planned.deployment, shown.split),
        dag=dag_info(planned.graph, planned.deployment, shown.split),
        gantt=gantt_info(shown.schedule, planned.deployment),
        schedule=shown.schedule,
        note=shown.note,
        planned=planned.split,
    )
    page = Page(report_html(subject))
    assert shown.note in page.text
    assert parse_split(page.scripts["split-data"]).on(planned.deployment) == planned.split
    (tmp_path / "g.json").write_text(page.scripts["graph-data"], encoding="utf-8")
    (tmp_path / "s.json").write_text(page.scripts["split-data"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    command = dict(reproduction_commands(subject, "g.json", "s.json"))["Run the schedule of the timeline"]
    assert main(shlex.split(command)[1:]) == 0
    assert json.loads(capsys.readouterr().out)["makespan_ms"] == pytest.approx(shown.schedule.makespan_ms)


def unusual_plans() -> dict[str, Subject]:
    graph = chain([1.0, 2.0, 3.0, 4.0], 0.25)
    two = Split((frozenset({1, 2}), frozenset({3, 4})))
    plain = chain_subject(Deployment(2, 0, 2.0**30))
    unknown = replace(
        plain.result, status=SolveStatus.UNKNOWN, method="hand edit", value_ms=None, lower_bound_ms=None,
        message="Accelerator 1 is short by 1 GiB.",
    )  # fmt: skip
    replicated = subject_of(graph, Deployment(2), replace(two, replicas=(2, 1)), None)
    deployment = Deployment(2, 1, max_subgraphs=2)
    pieces = Split.from_subgraphs(((frozenset({1}), frozenset({3})), (frozenset({2}), frozenset({4}))), (frozenset(),))
    latency = subject_of(graph, deployment, pieces, None)
    return {
        "a hand edit that breaks a rule": replace(plain, result=unknown),
        "replicas": replace(replicated, question=Question(graph.digest, Deployment(3, replication=Replication(2)))),
        "latency": replace(
            latency,
            question=Question(graph.digest, deployment, Objective.LATENCY),
            result=replace(latency.result, objective=Objective.LATENCY),
        ),
        "one node": subject_of(chain([1.0]), Deployment(1), Split((frozenset({1}),))),
        "no time passes": subject_of(chain([0.0, 0.0], 0.0), Deployment(2), Split((frozenset({1}), frozenset({2})))),
    }


@pytest.mark.parametrize("name", unusual_plans())
def test_unusual_plans_have_every_export(name: str) -> None:
    subject = unusual_plans()[name]
    for download in (
        *figure_downloads(subject, FigureOptions()),
        *data_downloads(subject),
        *tool_downloads(subject),
        report_download(subject, ""),
    ):
        assert download.refusal or download.content(), download.label
    page = Page(report_html(subject))
    assert len(page.tags) > 100
    assert "nan" not in page.text.split()
    if name == "a hand edit that breaks a rule":
        assert "Accelerator 1 is short by 1 GiB." in page.text
        assert "proven)" not in page.text


def test_a_plan_without_a_schedule_has_a_report_too() -> None:
    page = Page(report_html(without_schedule(named("a", "b"))))
    assert "simulate" not in page.text
    assert "There is no timeline" in page.text


def test_memory_in_flight_is_said_with_the_schedule_that_it_is_of() -> None:
    subject = sample_subject("gpt2_xl_layer_training")
    memory = TrainingMemory(InFlight.ONE_F_ONE_B, 12)
    question = replace(subject.question, deployment=replace(subject.question.deployment, training_memory=memory))
    page = Page(report_html(replace(subject, question=question)))
    assert "Memory counts what 1F1B keeps in flight of 12 micro-batches." in page.text


def test_a_plan_of_a_graph_that_is_too_large_is_not_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.words.wording.MOST_EXPLAINED", 2)
    page = Page(report_html(named("a", "b", "c")))
    assert "Plans are explained for graphs of up to 2 nodes; this one has 3." in page.text
    assert "What limits throughput" not in page.text


@pytest.mark.browser
def test_opens_from_the_disk_with_names_as_text(chromium_page: Any, tmp_path: Path) -> None:
    page, asked = chromium_page, []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail("a name ran as a script"))
    file = tmp_path / "report.html"
    file.write_text(
        report_html(named(HOSTILE, "</script><b>b</b>", "c", graph_name=HOSTILE), HOSTILE), encoding="utf-8"
    )
    page.goto(file.as_uri())
    picture = page.locator(".placed-pipeline")
    picture.wait_for()
    assert picture.evaluate("root => root.__placement.nodes") == 3
    assert page.locator("h1").inner_text() == HOSTILE
    page.get_by_text("3 nodes", exact=True).last.click()
    assert page.locator("details td.name").first.inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save the split").click()
    assert parse_split(Path(waiting.value.path()).read_text(encoding="utf-8")).accelerators[0] == {1}
    page.emulate_media(media="print")
    assert page.locator("figure.static svg").is_visible()
    assert not picture.is_visible()


@pytest.mark.browser
def test_shows_the_whole_graph_and_stands_without_scripts(chromium: Any, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(report_html(sample_subject(BERT)), encoding="utf-8")
    for has_scripts in (True, False):
        context = chromium.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=has_scripts)
        page = context.new_page()
        errors: list[str] = []
        page.on(
            "console", lambda message, errors=errors: errors.append(message.text) if message.type == "error" else None
        )
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto(file.as_uri())
        if has_scripts:
            page.locator(".placed-pipeline").wait_for()
            assert page.locator(".placed-pipeline").evaluate("root => root.__placement.nodes") == 323
            assert page.locator(".placed-pipeline").evaluate("root => root.__placement.bars") > 0
        assert page.locator("figure.static svg").is_visible() is not has_scripts
        assert re.search(r"323 nodes", page.locator("p.about").inner_text())
        assert errors == []
        context.close()
