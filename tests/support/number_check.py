"""Every number that the page, its files and the command line write of one plan, held against its definition."""

import json
import re
from pathlib import Path
from typing import Any

from solvers.formats.graph_json import parse_graph
from solvers.model.costs import Objective
from solvers.model.deployment import Communication, Deployment
from solvers.model.graph import DnnGraph
from tests.support.by_definition import Entry, devices_of, entries_of, pipelined_ms
from tests.support.command_line import Run
from tests.support.shown_plan import Report, Shown
from tests.support.written import Comparison

VALUE_LABELS = {
    "throughput": "Time per micro-batch",
    "gpipe": "Time per micro-batch (GPipe)",
    "latency": "Latency of one micro-batch",
}
PROOF_TOLERANCE = 1e-6
PRICES = "Which constraints limit it"
GUESS = re.compile(r"A non-.* split might be faster; set Split type to non-contiguous to check\.")


class NumberCheck:
    """Compares all that is written of a plan; the split is what the page offers as a file, and all else follows."""

    def __init__(self, shown: Shown, graph: DnnGraph, deployment: Deployment, found: Comparison | None = None) -> None:
        """Read the question and the plan off the files; `graph` is as the question has it."""
        self.shown, self.graph, self.deployment = shown, graph, deployment
        self.compare = Comparison() if found is None else found
        self.split = shown.document("Split (JSON)")
        self.summary = {row["quantity"]: row["value"] for row in shown.tables["summary"]}
        self.objective = Objective(self.summary["objective"])
        self.entries = entries_of(graph, deployment, self.split)
        self.pace_ms = pipelined_ms(self.entries, self.objective)
        claims = shown.document("Project file")["plan"]["claims"]
        self.bound_ms: float | None = claims["lower_bound_ms"]
        self.claims = claims
        self.latency_ms: float | None = None
        self.value_ms: float = self.pace_ms

    def run(self, placement: Run, folder: Path) -> Comparison:
        """Compare everything."""
        answers = self._command_line(placement, folder)
        self.latency_ms = answers["evaluate"]["latency_ms"]
        if self.objective is Objective.LATENCY:
            assert self.latency_ms is not None
            self.value_ms = self.latency_ms
        self._headline()
        self._loads()
        self._picture()
        self._files()
        self._report(self.shown.report)
        self._answers(answers)
        if "simulate" in answers:
            self._schedule(answers["simulate"])
        return self.compare

    # The command line, by the commands of the report on the files that the page offers.

    def _command_line(self, placement: Run, folder: Path) -> dict[str, Any]:
        commands = self.shown.report.commands
        graph_file, split_file = commands["evaluate"][1:3]
        for name, label in ((graph_file, "Graph (JSON)"), (split_file, "Split (JSON)")):
            text = self.shown.files[label]
            assert isinstance(text, str)
            (folder / name).write_text(text, encoding="utf-8")

        def words(name: str) -> list[str]:
            return [str(folder / word) if word in (graph_file, split_file) else word for word in commands[name]]

        answers = {}
        for name in ("evaluate", "solve", "simulate"):
            if name in commands:
                answer = placement(*words(name))
                assert answer.code == 0, (commands[name], answer.err)
                answers[name] = answer.json
        model = words("evaluate")[1:]
        asked = ("--objective", self.objective, "--family", self.summary["splits"])
        answers["explain"] = placement("explain", *model, *asked, "--json").json
        answers["explain text"] = placement("explain", *model, *asked).out
        return answers

    # The page.

    def _headline(self) -> None:
        compare, shown = self.compare, self.shown.metrics
        value, _ = shown[VALUE_LABELS[self.objective]]
        compare.milliseconds("headline, value", value, self.value_ms)
        rate, beside = shown["Micro-batches/s"]
        compare.number("headline, throughput", rate, 1000 / self.pace_ms if self.pace_ms else None)
        self._beside(beside)
        bound, proof = shown["Proven lower bound"]
        compare.milliseconds("headline, bound", bound, self.bound_ms)
        self._proof("headline, proof", proof)
        slowest = max(self.entries, key=lambda entry: entry.load_ms)
        _, load = shown["Bottleneck"]
        if slowest.load_ms:
            text, share = load.split(", ")
            compare.milliseconds("headline, load of the bottleneck", text, slowest.load_ms)
            transfers = slowest.load_ms - slowest.both.compute_ms / slowest.replicas
            compare.percent("headline, its transfers", share.removesuffix(" transfers"), transfers / slowest.load_ms)
        if "Speed-up" in shown:
            text, beside = shown["Speed-up"]
            alone = [device for device in devices_of(self.deployment) if not device.is_cpu]
            times = [sum(device.node_ms(node) for node in self.graph.nodes) for device in alone]
            alone_ms = min(times) if times else sum(node.accelerator_ms for node in self.graph.nodes)
            compare.factor("headline, speed-up", text, alone_ms / self.value_ms)

    def _beside(self, beside: str) -> None:
        parts = beside.split(" · ") if beside else []
        held = self.graph.micro_batch
        if held is not None and self.pace_ms:
            rate, unit = parts.pop(0).removeprefix("= ").split(" ", 1)
            self.compare.number("headline, samples per second", rate, 1000 / self.pace_ms * held.samples)
            self.compare.same("headline, unit", unit, f"{held.unit}/s")
        if self.objective is not Objective.LATENCY:
            text = parts.pop(0).removeprefix("latency ") if parts else None
            self.compare.milliseconds("headline, latency", text, self.latency_ms)
        self.compare.same("headline, beside throughput", parts, [])

    def _proof(self, where: str, text: str) -> None:
        """The distance to the bound is rounded up to three digits, and a ratio from twice the bound on."""
        bound_ms, value_ms = self.bound_ms, self.value_ms
        if self.claims["status"] == "OPTIMAL":
            is_near = bound_ms is not None and value_ms - bound_ms <= PROOF_TOLERANCE * value_ms
            self.compare.require(where, text == "optimal (proven)" and is_near, f"{text}: {value_ms}, {bound_ms}")
            return
        if bound_ms is None or bound_ms <= 0:
            self.compare.require(where, text in ("no bound yet", "no useful bound"), f"{text}: {bound_ms}")
            return
        found = re.fullmatch(r"at most ([\d.,]+) (×|%)( above)? the optimum", text)
        if found is None:
            least = 5e-4 if text == "less than 0.05 % above the optimum" else PROOF_TOLERANCE
            self.compare.require(where, value_ms / bound_ms - 1 <= least * (1 + 1e-6), f"{text}: {value_ms / bound_ms}")
            return
        told = float(found[1].replace(",", ""))
        ratio = told if found[2] == "×" else 1 + told / 100
        excess, least = ratio - value_ms / bound_ms, -1e-9 * ratio
        most = (told if found[2] == "×" else told / 100) * 0.01
        self.compare.require(where, least <= excess <= most, f"{text}: {value_ms / bound_ms}")

    def _loads(self) -> None:
        if self.objective is Objective.LATENCY:
            return
        bars = self.shown.load_bars
        self.compare.same("load bars, devices", len(bars), len(self._listed))
        for (name, parts), entry in zip(bars.items(), self._listed, strict=True):
            self.compare.milliseconds(f"load bars, {name}", parts["Load"], entry.load_ms)

    @property
    def _listed(self) -> list[Entry]:
        """The devices that the page lists: where stages have replicas, those of accelerators that work, and CPUs."""
        if all(entry.replicas == 1 for entry in self.entries):
            return self.entries
        return [entry for entry in self.entries if entry.nodes or entry.name.startswith("CPU")]

    def _picture(self) -> None:
        header = self.shown.picture
        self.compare.same("picture, devices", len(header["devices"]), len(self._listed))
        for device, entry in zip(header["devices"], self._listed, strict=True):
            where = f"picture, {device['name']}"
            self.compare.same(f"{where}, load", device["loadMs"], entry.load_ms)
            self.compare.same(f"{where}, nodes", device["numNodes"], len(entry.nodes))
            self._bytes(where, device["memoryBytes"], entry)
            for name, part in (("computeMs", "compute_ms"), ("receiveMs", "receive_ms"), ("sendMs", "send_ms")):
                self.compare.same(f"{where}, {name}", device[name], getattr(entry.both, part))
        facts = header["facts"].split(" · ")
        self.compare.milliseconds(
            "presentation", facts[0].removeprefix(f"{VALUE_LABELS[self.objective]} "), self.value_ms
        )
        self._proof("presentation, proof", facts[-1])

    def _bytes(self, where: str, found: float, entry: Entry) -> None:
        if self.deployment.training_memory is None:
            self.compare.same(f"{where}, memory", found, entry.memory_bytes)

    # The files.

    def _files(self) -> None:
        compare = self.compare
        graph, deployment = parse_graph(self.shown.files["Graph (JSON)"], "graph")
        compare.same("graph, digest", graph.digest, self.graph.digest)
        compare.same("graph, classes", deployment.classes, self.deployment.classes)
        total = "totalLatency" if self.objective is Objective.LATENCY else "maxLoad"
        most = self.value_ms if self.objective is Objective.LATENCY else max(e.load_ms for e in self.entries)
        compare.same(f"split, {total}", self.split.get(total), most)
        for entry, listed in zip(self._listed, [*self.split["fpgas"], *self.split["cpus"]], strict=False):
            compare.same("split, load", listed["load"], entry.load_ms)
        compare.same("project, value", self.claims["value_ms"], self.value_ms)
        compare.same("project, split", _nodes(self.shown.document("Project file")["plan"]["split"]), _nodes(self.split))
        rate = None if self.objective is Objective.LATENCY or not self.value_ms else 1000 / self.value_ms
        for quantity, value in (
            ("value (ms)", self.value_ms),
            ("proven lower bound (ms)", self.bound_ms),
            ("throughput (micro-batches/s)", rate),
        ):
            text = self.summary[quantity]
            compare.same(f"summary.csv, {quantity}", float(text) if text else None, value)
        self._device_table()
        self._node_table()
        tensors = self.shown.tables["cut_tensors"]
        sent = sum(float(row["send (ms)"]) for row in tensors)
        received = sum(float(ms) for row in tensors for ms in row["receive (ms)"].split("; "))
        compare.same("cut_tensors.csv, send", sent, sum(entry.both.send_ms for entry in self.entries))
        compare.same("cut_tensors.csv, receive", received, sum(entry.both.receive_ms for entry in self.entries))
        dot = self.shown.files["Devices (DOT)"]
        assert isinstance(dot, str)
        for d, entry in enumerate(self._listed):
            found = re.search(rf'"device {d}" \[label="[^"]*?\\n([^"\\]*)', dot)
            if found is not None:
                compare.milliseconds("devices.dot, load", found[1], entry.load_ms)
        svg = self.shown.files["Figure (SVG)"]
        assert isinstance(svg, str)
        texts = re.findall(r"<(?:text|tspan)[^>]*>([^<]*)</", svg)
        for label, value in ((VALUE_LABELS[self.objective], self.value_ms), ("Proven lower bound", self.bound_ms)):
            compare.milliseconds(f"figure, {label}", texts[texts.index(f"{label} ") + 1], value)

    def _device_table(self) -> None:
        rows = self.shown.tables["devices"]
        self.compare.same("devices.csv, rows", len(rows), len(self._listed))
        slowest = max(entry.load_ms for entry in self.entries)
        for row, entry in zip(rows, self._listed, strict=True):
            where = f"devices.csv, {row['name']}"
            for column, value in (
                ("nodes", len(entry.nodes)), ("replicas", entry.replicas), ("compute (ms)", entry.both.compute_ms),
                ("receive (ms)", entry.both.receive_ms), ("send (ms)", entry.both.send_ms),
                ("load (ms)", entry.load_ms),
            ):  # fmt: skip
                self.compare.same(f"{where}, {column}", float(row[column]), float(value))
            self._bytes(where, float(row["memory (bytes)"]), entry)
            capacity = float(row["capacity (bytes)"]) if row["capacity (bytes)"] else None
            self.compare.same(f"{where}, capacity", capacity, entry.capacity_bytes)
            if row["slowest"] == "yes":
                self.compare.same(f"{where}, slowest", entry.load_ms, slowest)

    def _node_table(self) -> None:
        devices = {entry.nodes: entry for entry in self.entries}
        rows = self.shown.tables["nodes"]
        self.compare.same("nodes.csv, rows", len(rows), len(self.graph.nodes))
        for entry in devices.values():
            times = [float(row["time (ms)"]) for row in rows if int(row["node"]) in entry.nodes]
            self.compare.same(f"nodes.csv, time on {entry.name}", sum(times), entry.both.compute_ms)

    def _report(self, report: Report) -> None:
        compare, facts = self.compare, report.headline
        compare.milliseconds("report, value", facts[VALUE_LABELS[self.objective]], self.value_ms)
        compare.milliseconds("report, bound", facts["Proven lower bound"], self.bound_ms)
        self._proof("report, proof", facts["Proof"])
        rates = facts.get("Throughput when pipelined", "").split(" = ")
        if self.pace_ms:
            compare.number("report, throughput", rates[0].removesuffix(" micro-batches/s"), 1000 / self.pace_ms)
            if (held := self.graph.micro_batch) is not None:
                rate = rates[1].removesuffix(f" {held.unit}/s")
                compare.number("report, samples per second", rate, 1000 / self.pace_ms * held.samples)
        for row, entry in zip(report.table("Devices"), self._listed, strict=True):
            where = f"report, {row['Device']}"
            compare.milliseconds(f"{where}, load", row["Load"], entry.load_ms)
            compare.milliseconds(f"{where}, compute", row["Compute"], entry.both.compute_ms)
            compare.milliseconds(f"{where}, receive", row["Receive"], entry.both.receive_ms)
            compare.milliseconds(f"{where}, send", row["Send"], entry.both.send_ms)
            compare.size(f"{where}, capacity", row["Capacity"], entry.capacity_bytes)
            if self.deployment.training_memory is None:
                compare.size(f"{where}, memory", row["Memory"], entry.memory_bytes)
        compare.same("report, split", report.data("split"), self.split)
        compare.same("report, graph", report.data("graph"), self.shown.document("Graph (JSON)"))

    # What the command line answers on these files.

    def _answers(self, answers: dict[str, Any]) -> None:
        compare, judged, again = self.compare, answers["evaluate"], answers["solve"]
        value = "gpipe_ms" if self.objective is Objective.GPIPE else "max_load_ms"
        compare.same(f"evaluate, {value}", judged[value], self.pace_ms)
        compare.same("evaluate, violations", judged["violations"], [])
        for device, entry in zip(judged["devices"], self.entries, strict=False):
            compare.same("evaluate, load", device["load_ms"], entry.load_ms)
            compare.same("evaluate, forward", device["forward_ms"], entry.forward_ms)
            compare.same("evaluate, backward", device["backward_ms"], entry.backward_ms)
            compare.same("evaluate, capacity", device["capacity_bytes"], entry.capacity_bytes)
            self._bytes("evaluate", device["memory_bytes"], entry)
        self._solved_again(again)
        explained = answers["explain"]
        compare.same("explain, value", explained["value_ms"], self.value_ms)
        if self.objective is not Objective.LATENCY:
            for device, entry in zip(explained["devices"], self.entries, strict=False):
                compare.same("explain, load", device["load_ms"], entry.load_ms)
        text = re.sub(r"\n {2}", " ", answers["explain text"])
        on_page = {title: told for title, told in self.shown.paragraphs.items() if title != PRICES}
        # What another split type might bring is for the page to look up: the report does not guess.
        known = {
            title: [sentence for sentence in told if not GUESS.fullmatch(sentence)] for title, told in on_page.items()
        }
        compare.same("report and page, words", self.shown.report.words, known)
        for title, sentences in on_page.items():
            if title != "What is proven":  # the page knows a bound, the command line does not
                missing = [sentence for sentence in sentences if sentence not in text]
                compare.require("page and explain", not missing or self.claims["status"] == "OPTIMAL", missing)

    def _solved_again(self, again: dict[str, Any]) -> None:
        compare, value_ms = self.compare, again["value_ms"]
        rate = None if self.objective is Objective.LATENCY or not value_ms else 1000 / value_ms
        compare.same("solve, throughput", again["throughput_per_s"], rate)
        held = self.graph.micro_batch
        compare.same("solve, samples per second", again["samples_per_s"], rate and held and rate * held.samples)
        if self.objective is Objective.THROUGHPUT:
            compare.same("solve, maxLoad", again["split"]["maxLoad"], value_ms)
            compare.same("solve, loads", max(device["load_ms"] for device in again["devices"]), value_ms)
        if self.objective is Objective.LATENCY:
            compare.same("solve, totalLatency", again["split"]["totalLatency"], value_ms)
        if again["status"] == self.claims["status"] == "OPTIMAL":
            near = abs(value_ms - self.value_ms) <= 2 * PROOF_TOLERANCE * value_ms
            compare.require("solve and page", near, f"{value_ms} and {self.value_ms}, both optimal")
        for bound_ms, other_ms in ((self.bound_ms, value_ms), (again["lower_bound_ms"], self.value_ms)):
            holds = bound_ms is None or bound_ms <= other_ms * (1 + PROOF_TOLERANCE)
            compare.require("bounds of page and solve", holds, f"{bound_ms} above {other_ms}")

    def _schedule(self, ran: dict[str, Any]) -> None:
        compare, gantt = self.compare, self.shown.picture["gantt"]
        compare.same("timeline, makespan", gantt["makespanMs"], ran["makespan_ms"])
        compare.same("timeline, period", gantt["periodMs"], ran["period_ms"])
        compare.same("summary.csv, makespan", float(self.summary["makespan (ms)"]), ran["makespan_ms"])
        period = self.summary["period (ms)"]
        compare.same("summary.csv, period", float(period) if period else None, ran["period_ms"])
        other = self.shown.document("Trace (Perfetto)")["otherData"]
        compare.same("trace, makespan", other["makespan ms"], ran["makespan_ms"])
        lanes = {lane["name"]: lane for lane in gantt["lanes"]}
        rows = self.shown.report.table("Devices")
        num = ran["micro_batches"]
        # Else slots of a device run side by side.
        is_one_by_one = self.deployment.communication is Communication.SUM and self.objective is not Objective.LATENCY
        for row, device, on_paper in zip(self.shown.tables["devices"], ran["devices"], rows, strict=False):
            busy_ms = sum(
                float(slot["end (ms)"]) - float(slot["start (ms)"])
                for slot in self.shown.tables["slots"]
                if slot["device"] == row["device"]
            )
            where = f"schedule, {row['name']}"
            share = 1 - busy_ms / ran["makespan_ms"] if ran["makespan_ms"] else None
            told = row["bubble share"]
            if is_one_by_one and int(row["replicas"]) == 1 and share is not None and told:
                compare.same(f"{where}, bubble of slots", float(told), share)
                compare.same(f"{where}, busy", busy_ms, num * float(row["load (ms)"]))
            compare.same(f"{where}, bubble", device["bubble_share"], float(told) if told else None)
            compare.percent(f"{where}, bubble in the report", on_paper["Bubble"], device["bubble_share"])
            peak = float(row["peak memory in the schedule (bytes)"])
            compare.same(f"{where}, peak", device["peak_memory_bytes"], peak)
            if (lane := lanes.get(row["name"])) is not None:
                compare.same(f"{where}, bubble of the lane", lane["bubbleFraction"], device["bubble_share"])
                compare.same(f"{where}, peak of the lane", lane["peakMemoryBytes"], peak)


def _nodes(split: dict[str, Any]) -> list[list[int]]:
    return [entry["nodes"] for entry in [*split["fpgas"], *split["cpus"]] if entry["nodes"]]


def told(comparison: Comparison) -> str:
    """Return the disagreements as the message of a failure."""
    return json.dumps(comparison.disagreements, indent=1, ensure_ascii=False)
