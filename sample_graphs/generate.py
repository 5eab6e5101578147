"""Write the sample graphs, their index and the tables in the README: `python -m sample_graphs.generate`."""

import json
from pathlib import Path

from sample_graphs.catalogue import MODELS, SAMPLES, Model, Sample
from solvers.formats.graph_json import write_graph

FOLDER = Path(__file__).parent
TABLES_START = "<!-- written by sample_graphs.generate from here -->\n"
TABLES_END = "<!-- to here -->\n"


def write_samples(folder: Path) -> None:
    """Write one JSON file per sample and `index.json` into an existing folder; the same bytes every time."""
    for sample in SAMPLES:
        graph, deployment = sample.build()
        write_graph(folder / f"{sample.name}.json", graph, deployment)
    entries = [{"name": s.name, "title": s.title, "description": s.description} for s in SAMPLES]
    lines = ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    (folder / "index.json").write_text(f'{{\n "samples": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


def readme_tables() -> str:
    """Return the README's tables of samples and of published totals, with the markers around them."""
    sizes = (
        "| Sample | Micro-batch | Nodes | Edges | Parameters | Forward flops | Memory | One accelerator | Devices |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|---|\n"
    )
    totals = (
        "| Model | Paper | Parameters | Published | Flops | Published or by formula | Per |\n"
        "|---|---|--:|---|--:|---|---|\n"
    )
    lines = [TABLES_START, sizes, *map(_size_line, SAMPLES), "\n", totals, *map(_total_line, MODELS), TABLES_END]
    return "".join(lines)


def write_readme(path: Path) -> None:
    """Replace the tables in the README."""
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(TABLES_START)
    path.write_text(before + readme_tables() + rest.split(TABLES_END)[1], encoding="utf-8")


def _total_line(model: Model) -> str:
    """Return a model's line: parameters in millions and flops in G, ours and published."""
    published = model.published
    parameters, flops = published.compare(model.build(False))
    reference = "–" if published.flops is None else f"{published.flops / 1e9:,.3f} G"
    return (
        f"| {model.title} | {model.paper} | {parameters / 1e6:,.2f} M "
        f"| {published.parameters / 1e6:,.2f} M ({published.parameters_source}) | {flops / 1e9:,.3f} G "
        f"| {reference} ({published.flops_source}) | {'token' if published.per > 1 else 'image or sequence'} |\n"
    )


def _size_line(sample: Sample) -> str:
    """Return a sample's line: counts, parameters in millions, flops in G and memory in GB, time on one device."""
    graph, deployment = sample.build()
    forward = [node for node in graph.nodes if not node.is_backward]
    if sample.model is None:
        micro_batch = parameters = flops = "–"
    else:
        micro_batch = sample.model.micro_batch_text
        parameters = f"{sum(node.parameter_bytes or 0.0 for node in forward) / 2e6:,.1f} M"
        flops = f"{sum(node.flops or 0.0 for node in forward) / 1e9:,.1f} G"
    memory_gb = sum(node.memory_bytes for node in graph.nodes) / 1e9
    one_ms = sum(node.accelerator_ms for node in graph.nodes)
    devices = f"{deployment.num_accelerators} accelerators"
    if deployment.memory_bytes is not None:
        devices += f" of {deployment.memory_bytes / 1e9:g} GB"
    if deployment.num_cpus:
        devices += f", {deployment.num_cpus} CPU"
    return (
        f"| `{sample.name}` | {micro_batch} | {len(graph.nodes)} | {len(graph.edges)} | {parameters} | {flops} "
        f"| {f'{memory_gb:,.2f} GB' if memory_gb else '–'} | {one_ms:,.1f} ms | {devices} |\n"
    )


if __name__ == "__main__":
    write_samples(FOLDER)
    write_readme(FOLDER / "README.md")
