"""Write the sample graphs, their index and the table in the README: `python -m sample_graphs.generate`."""

import json
from pathlib import Path

from sample_graphs.catalogue import SAMPLES, Sample
from solvers.graph_json import write_graph

FOLDER = Path(__file__).parent
TABLE_START = "<!-- table: written by sample_graphs.generate -->\n"
TABLE_END = "<!-- end of table -->\n"


def write_samples(folder: Path) -> None:
    """Write one JSON file per sample and `index.json` into an existing folder; the same bytes every time."""
    for sample in SAMPLES:
        graph, deployment = sample.build()
        write_graph(folder / f"{sample.name}.json", graph, deployment)
    entries = [{"name": s.name, "title": s.title, "description": s.description} for s in SAMPLES]
    lines = ",\n  ".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
    (folder / "index.json").write_text(f'{{\n "samples": [\n  {lines}\n ]\n}}\n', encoding="utf-8")


def readme_table() -> str:
    """Return the README's table of sizes and totals, one line per sample, between its two markers."""
    header = (
        "| Sample | Micro-batch | Nodes | Edges | Parameters | Forward flops | Memory | One accelerator | Devices |\n"
        "|---|---|--:|--:|--:|--:|--:|--:|---|\n"
    )
    return TABLE_START + header + "".join(map(_table_line, SAMPLES)) + TABLE_END


def write_readme(path: Path) -> None:
    """Replace the table in the README."""
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(TABLE_START)
    path.write_text(before + readme_table() + rest.split(TABLE_END)[1], encoding="utf-8")


def _table_line(sample: Sample) -> str:
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
