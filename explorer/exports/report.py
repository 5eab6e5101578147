"""A plan as one HTML file that needs nothing else: the picture to explore, figure, tables, words, and how to repeat it.

It opens from a disk, offline. A content security policy forbids every access to the network and every script but the
ones written here, by their digests; all text is escaped. Without scripts, and on paper, the static figure stands in
for the picture.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from explorer.exports.commands import reproduction_commands
from explorer.figures.figure import figure_svg
from explorer.figures.subject import Subject, graph_facts, planned_document, result_facts
from explorer.figures.svg import escaped
from explorer.picture.component import pack, standalone_source
from explorer.picture.palette import device_colours
from explorer.words.wording import UNEXPLAINED, schedule_in_flight, unbroken, why_unexplained
from solvers.analysis.explanation import bound_of, explain
from solvers.analysis.explanation_text import Paragraph, explanation_text
from solvers.formats.graph_json import graph_document
from solvers.model.costs import Objective
from solvers.model.deployment import Communication
from solvers.model.micro_batch import throughput_text
from solvers.quantities import binary_size, binary_unit, count, counted, milliseconds, moving_time, percent

MAX_ROWS = 5000
"""Rows of a table of the report; the picture and the CSV files have all of them."""

Rows = Iterable[Sequence[str]]
"""Cells of HTML, escaped by whoever makes them."""


def report_html(subject: Subject, notes: str = "", written: str = "") -> str:
    """Return the report as the text of an HTML file; `notes` are the reader's own words, `written` a date."""
    stem = subject.stem
    script, style = _assets()
    style += _chip_style(subject)
    graph = graph_document(subject.graph, subject.question.deployment)
    split = planned_document(subject)
    message = base64.b64encode(pack(subject.dag, subject.gantt, "report")).decode()
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    sections = [
        _header(subject, notes),
        '<h2>Placed graph and timeline</h2><div class="live"><div class="placement-picture" id="picture"></div></div>'
        f'<figure class="static">{figure_svg(subject)}</figure>',
        _words(subject),
        _devices(subject),
        _cut_tensors(subject),
        _nodes(subject),
        _assumptions(subject),
        _reproduction(subject),
    ]
    made = f"Written by DNN Placement Explorer {_version()}{f' on {escaped(written)}' if written else ''}."
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escaped(subject.title)}: placement</title>",
            f"<style>{style}</style>\n</head>\n<body>\n<main>",
            *sections,
            f"</main>\n<footer>{made} This file holds all it shows and asks the network for nothing.</footer>",
            _data("graph", json.dumps(graph, allow_nan=False)),
            _data("split", json.dumps(split, allow_nan=False)),
            f'<script type="text/plain" id="picture-data">{message}</script>',
            f'<script type="module">{script}</script>',
            f"</body>\n</html>\n<!-- {escaped(stem)} -->\n",
        ]
    )


@cache
def _assets() -> tuple[str, str]:
    """Return the script and the style sheet of the report, the picture's included."""
    folder = files("explorer") / "exports"
    picture_script, picture_style = standalone_source()
    script = f"{picture_script}\n{(folder / 'report.js').read_text(encoding='utf-8')}"
    if "</script" in script.lower() or "<!--" in script:
        raise AssertionError("bug: the script would end before its end")
    return script, f"{(folder / 'report.css').read_text(encoding='utf-8')}\n{picture_style}"


def _digest(source: str) -> str:
    """Return what allows exactly this source under a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _data(identifier: str, document: str) -> str:
    r"""Return JSON inside the page; "<" is written \u003c there, so that no text of it can end the element."""
    safe = document.replace("<", "\\u003c")
    return f'<script type="application/json" id="{identifier}-data">{safe}</script>'


def _version() -> str:
    try:
        return version("dnn-placement-explorer")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "(development)"


def _header(subject: Subject, notes: str) -> str:
    facts = list(result_facts(subject))
    costs = subject.costs
    pace_ms = costs.gpipe_ms if subject.result.objective is Objective.GPIPE else costs.max_load_ms
    if pace_ms:
        facts.insert(1, ("Throughput when pipelined", throughput_text(1000 / pace_ms, subject.graph.micro_batch)))
    facts.append(("Slowest device", subject.deployment.device_name(costs.bottleneck)))
    cells = "".join(f"<div><dt>{escaped(name)}</dt><dd>{_large_and_small(value)}</dd></div>" for name, value in facts)
    parts = [
        f"<h1>{escaped(subject.title)}</h1>",
        f'<p class="about">{escaped(graph_facts(subject))}</p>',
        f'<dl class="headline">{cells}</dl>',
    ]
    parts += [f"<p>{escaped(text)}</p>" for text in (subject.note, subject.result.message) if text]
    if notes.strip():
        parts.append(f'<p class="notes">{escaped(notes.strip())}</p>')
    return "\n".join(parts)


def _large_and_small(value: str) -> str:
    """Return a value with what qualifies it, or says it in another unit, in smaller letters below.

    >>> _large_and_small("9.5 micro-batches/s = 19 images/s")
    '9.5 <span class="unit">micro-batches/s</span><small>= 19 images/s</small>'
    """
    first, separator, rest = value.replace(" = ", " · = ").partition(" · ")
    number, _, unit = first.rpartition(" ")
    large = f'{escaped(number)} <span class="unit">{escaped(unit)}</span>' if unit.endswith("/s") else escaped(first)
    return large + (f"<small>{escaped(rest)}</small>" if separator else "")


def _words(subject: Subject) -> str:
    """Return what limits the plan, in words; what might be found with another input is for the app to say."""
    paragraphs = "".join(
        f"<section><h3>{escaped(paragraph.title)}</h3>"
        f"{''.join(f'<p>{escaped(unbroken(sentence))}</p>' for sentence in paragraph.sentences)}</section>"
        for paragraph in _explained(subject)
        if paragraph.sentences
    )
    return f'<h2>Why it is as fast as it is</h2><div class="words">{paragraphs}</div>'


def _explained(subject: Subject) -> tuple[Paragraph, ...]:
    if sentence := why_unexplained(subject.graph):
        return (Paragraph(UNEXPLAINED, (sentence,)),)
    question = subject.question
    explanation = explain(
        subject.graph,
        question.deployment,
        subject.plan_split,
        objective=question.objective,
        family=subject.result.family,
        lower_bound_ms=bound_of(subject.result),
    )
    return explanation_text(explanation, subject.graph, is_split_type_priced=True)


def _devices(subject: Subject) -> str:
    schedule, deployment = subject.schedule, subject.deployment
    header = [
        "Device", ">Nodes", ">Compute", ">Receive", ">Send", ">Load", ">Memory", ">Peak in the schedule", ">Capacity",
        ">Bubble",
    ]  # fmt: skip
    peaks = () if schedule is None else schedule.peak_memory_bytes
    capacities = map(deployment.capacity_bytes, range(deployment.num_devices))
    unit = binary_unit([*(device.memory_bytes for device in subject.costs.devices), *peaks, *capacities])
    rows = []
    for device, members in zip(subject.costs.devices, subject.split.devices, strict=True):
        d = device.device
        capacity = deployment.capacity_bytes(d)
        times = (device.compute_ms, device.receive_ms, device.send_ms, device.load_ms)
        rows.append(
            [
                f"{_chip(subject, d)} {escaped(deployment.device_name(d))}"
                f"{f' × {device.replicas}' if device.replicas > 1 else ''}",
                count(len(members)),
                *map(milliseconds, times),
                binary_size(device.memory_bytes, unit),
                "–" if schedule is None else binary_size(schedule.peak_memory_bytes[d], unit),
                "no limit" if capacity is None else binary_size(capacity, unit),
                "–" if schedule is None else percent(schedule.bubble_fraction[d]),
            ]
        )
    return f"<h2>Devices</h2>{_table('Times per micro-batch', header, rows)}"


def _cut_tensors(subject: Subject) -> str:
    tensors, graph = subject.costs.cut_tensors, subject.graph
    if not tensors:
        return "<h2>Tensors moved between devices</h2><p>None.</p>"
    rows = [
        [
            escaped(graph.node_by_id[tensor.source].name or f"node {tensor.source}"),
            str(tensor.source),
            *([escaped(tensor.tensor)] if graph.has_names else []),
            _chip(subject, tensor.from_device),
            " ".join(_chip(subject, d) for d in tensor.to_devices),
            moving_time(tensor.send_ms, tensor.receive_ms),
            "unknown" if tensor.size_bytes is None else binary_size(tensor.size_bytes),
        ]
        for tensor in tensors[:MAX_ROWS]
    ]
    header = [
        "#Output of",
        ">Node",
        *(["#Tensor"] if graph.has_names else []),
        "From",
        "To",
        ">Time of one way",
        ">Size",
    ]
    caption = _count(len(tensors), "tensor") + ", most expensive first"
    return f"<h2>Tensors moved between devices</h2>{_table(caption, header, rows)}"


def _nodes(subject: Subject) -> str:
    graph, deployment = subject.graph, subject.deployment
    device_of = subject.split.device_of()
    stage_of = {v: s.notation for s in subject.schedule.stages for v in s.nodes} if subject.schedule else {}
    rows = []
    for v in graph.topological_order[:MAX_ROWS]:
        node, d = graph.node_by_id[v], device_of[v]
        size = graph.output_bytes[v]
        rows.append(
            [
                escaped(node.name or f"node {v}"),
                str(v),
                escaped(node.layer or ""),
                _chip(subject, d),
                stage_of.get(v, "–"),
                milliseconds(deployment.node_ms(node, d)),
                binary_size(node.memory_bytes),
                "unknown" if size is None else binary_size(size),
            ]
        )
    header = ["#Name", ">Node", "#Layer", "Device", "Stage", ">Time", ">Memory", ">Output"]
    table = _table(_count(len(graph.nodes), "node") + " in an order in which data flows", header, rows)
    return f"<details><summary>{_count(len(graph.nodes), 'node')}</summary>{table}</details>"


def _assumptions(subject: Subject) -> str:
    model = {
        Communication.SUM: "A device's load is its compute plus its transfers, one after the other.",
        Communication.OVERLAPPED: "Transfers run beside compute: a load is the larger of the two.",
        Communication.FULL_DUPLEX: "Receiving runs beside sending: a load is compute plus the larger of the two.",
    }
    sentences = [
        "All traffic passes through host memory: a tensor is sent once by its device and received once by each "
        "accelerator that reads it.",
        model[subject.question.deployment.communication],
    ]
    memory = subject.question.deployment.training_memory
    if memory is not None:
        batches = counted(memory.num_micro_batches, "micro-batch", "micro-batches")
        sentences.append(f"Memory counts what {schedule_in_flight(memory)} keeps in flight of {batches}.")
    else:
        sentences.append("Memory of the plan is what the nodes occupy, for one micro-batch at a time.")
    if subject.schedule is not None:
        sentences.append(
            f"The timeline runs {_count(subject.schedule.num_micro_batches, 'micro-batch', 'es')} "
            f"({subject.gantt.title if subject.gantt else subject.schedule.kind})."
        )
        sentences += [s for s in subject.schedule.assumptions if s not in sentences]
    items = "".join(f"<li>{escaped(sentence)}</li>" for sentence in sentences)
    return f"<h2>Assumptions</h2><ul>{items}</ul>"


def _reproduction(subject: Subject) -> str:
    graph_file, split_file = f"{subject.stem}.json", f"{subject.stem}_split.json"
    commands = "".join(
        f"<h3>{escaped(what)}</h3><pre><code>{escaped(command)}</code></pre>"
        for what, command in reproduction_commands(subject, graph_file, split_file)
    )
    pins = ""
    if subject.question.pins:
        pins = "<p>The plan honours nodes that were pinned by hand, which the command line knows nothing of.</p>"
    saves = "".join(
        f'<button type="button" class="save" hidden data-of="{what}-data" data-name="{escaped(name)}">'
        f"Save the {what}</button>"
        for what, name in (("graph", graph_file), ("split", split_file))
    )
    return (
        "<h2>How to repeat it</h2><p>This file holds the graph, with its devices and at the bandwidth of the plan, and "
        f'the split. Save them, then, with the package installed:</p><p class="saving">{saves}</p>{pins}{commands}'
    )


def _table(caption: str, header: Sequence[str], rows: Rows) -> str:
    """Return a table; a heading that begins with ">" is of numbers, one with "#" of names that may wrap."""
    looks = [{">": ' class="number"', "#": ' class="name"'}.get(name[0], "") for name in header]
    head = "".join(f'<th scope="col"{look}>{name.lstrip(">#")}</th>' for name, look in zip(header, looks, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{look}>{cell}</td>' for cell, look in zip(row, looks, strict=True))}</tr>\n" for row in rows
    )
    return (
        f'<div class="wide"><table><caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _chip_style(subject: Subject) -> str:
    """Return the colours of the devices; the policy allows no style on the elements themselves."""
    colours = device_colours(subject.deployment)
    return "".join(
        f".swatch.device-{d} {{ background: {colour.forward.fill}; color: {colour.forward.text}; }}\n"
        for d, colour in enumerate(colours)
    )


def _chip(subject: Subject, device: int) -> str:
    colour = device_colours(subject.deployment)[device]
    return f'<span class="swatch device-{device}">{colour.label}</span>'


def _count(number: int, noun: str, plural: str = "s") -> str:
    text = f"{count(number)} {noun}{plural * (number != 1)}"
    return text + (f", the first {count(MAX_ROWS)} of them" if number > MAX_ROWS else "")
