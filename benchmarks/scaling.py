"""How far each method gets: time, memory and gap against the size of a graph that grows, 100 to 20,000 nodes.

`python -m benchmarks.scaling RESULTS.jsonl` runs what the file does not hold yet, each run in a fresh process so that
its peak memory is its own; interrupted, it goes on where it stopped. `--table` prints the results as markdown and
`--plot FILE.png` draws them (headless Chromium takes the picture).

The family is `sample_graphs.synthetic.layered` on 8 accelerators and a CPU, in two widths: 2 branches of 6 operators
(49 ideals per layer) and 6 branches (117,649 per layer), with as many layers as the size asks for.
"""

import argparse
import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.peak_memory import own_peak_mb
from sample_graphs.synthetic import layered
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.result import PROOF_TOLERANCE, SolveStatus
from solvers.model.split import Family
from solvers.solve import solve
from solvers.warm_up import compile_all

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
BRANCHES = (2, 6)
NUM_OPERATORS = 6


@dataclass(frozen=True)
class Runner:
    """A method on a family of splits; `most_nodes` keeps runs that cannot end in minutes out of the plot."""

    method: str
    family: Family
    time_limit_s: float = 20.0
    most_nodes: int = 20_000

    @property
    def label(self) -> str:
        """What the plot calls it."""
        return f"{self.method.replace('_', ' ')}, {self.family}, {self.time_limit_s:.0f} s"


RUNNERS = (
    Runner("auto", Family.CHAIN, time_limit_s=60.0),
    Runner("ip", Family.CHAIN, most_nodes=1000),
    Runner("auto", Family.FREE),
    Runner("linearised", Family.CHAIN),
    Runner("pipedream", Family.CHAIN),
    Runner("local_search", Family.FREE, most_nodes=5000),
)


@dataclass(frozen=True)
class Measurement:
    """One run: seconds of wall time, peak memory in MB, value and proven bound in ms (None where there is none)."""

    method: str
    family: str
    branches: int
    nodes: int
    status: str
    value_ms: float | None
    lower_bound_ms: float | None
    gap: float | None
    seconds: float
    peak_mb: float


def main() -> None:
    """Run, print or draw, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS.jsonl")
    parser.add_argument("--table", action="store_true", help="print what the file holds as markdown")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw what the file holds")
    parser.add_argument("--branches", type=int, choices=BRANCHES, help="only graphs of this width")
    parser.add_argument("--one", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(asdict(_measure(**options.one))))
        return
    if not options.table and options.plot is None:
        _run_missing(options.results, BRANCHES if options.branches is None else (options.branches,))
        return
    measurements = _read(options.results)
    if options.table:
        print("\n".join(table(measurements)))
    if options.plot is not None:
        _draw(measurements, options.plot)


def _run_missing(results: Path, widths: tuple[int, ...]) -> None:
    compile_all()
    known = {(m.method, m.family, m.branches, m.nodes) for m in _read(results)}
    for nodes, branches, runner in _plan(widths):
        graph, _ = _graph(branches, nodes)
        if (runner.method, str(runner.family), branches, len(graph.nodes)) in known:
            continue
        one = {
            "method": runner.method,
            "family": str(runner.family),
            "time_limit_s": runner.time_limit_s,
            "branches": branches,
            "nodes": nodes,
        }
        command = [sys.executable, "-m", "benchmarks.scaling", str(results), "--one", json.dumps(one)]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 -- our own module
        if finished.returncode:
            print(f"{one}: {finished.stderr.strip().splitlines()[-1]}", file=sys.stderr)
            sys.exit(1)
        with results.open("a", encoding="utf-8") as file:
            file.write(finished.stdout)
        print(finished.stdout.strip(), flush=True)


def _plan(widths: tuple[int, ...]) -> Iterator[tuple[int, int, Runner]]:
    for nodes in SIZES:
        for branches in widths:
            for runner in RUNNERS:
                if nodes <= runner.most_nodes:
                    yield nodes, branches, runner


def _graph(branches: int, nodes: int) -> tuple[DnnGraph, Deployment]:
    return layered(max(1, round(nodes / (branches * NUM_OPERATORS + 2))), branches, NUM_OPERATORS)


def _measure(method: str, family: str, time_limit_s: float, branches: int, nodes: int) -> Measurement:
    graph, deployment = _graph(branches, nodes)
    result = solve(graph, deployment, method=method, family=Family(family), time_limit_s=time_limit_s)
    return Measurement(
        method,
        family,
        branches,
        len(graph.nodes),
        str(result.status),
        result.value_ms,
        result.lower_bound_ms,
        result.gap,
        result.runtime_s,
        own_peak_mb(),
    )


def _read(results: Path) -> list[Measurement]:
    if not results.is_file():
        return []
    return [Measurement(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


def table(measurements: Iterable[Measurement]) -> Iterator[str]:
    """Yield the lines of a markdown table, and how large a graph was solved to proof."""
    measurements = list(measurements)
    yield machine()
    yield ""
    yield "| branches | nodes | method | status | value, ms | gap | seconds | peak MB |"
    yield "|---:|---:|---|---|---:|---:|---:|---:|"
    for m in sorted(measurements, key=lambda m: (m.branches, m.nodes, m.method, m.family)):
        value = "–" if m.value_ms is None else f"{m.value_ms:.4g}"
        gap = "–" if m.gap is None else "0" if m.gap <= PROOF_TOLERANCE else f"{100 * m.gap:.2g} %"
        yield (
            f"| {m.branches} | {m.nodes} | {m.method}, {m.family} | {m.status} | {value} | {gap} "
            f"| {m.seconds:.2f} | {m.peak_mb:.0f} |"
        )
    yield ""
    for branches in BRANCHES:
        for family in Family:
            proven = [
                m.nodes
                for m in measurements
                if m.branches == branches and m.family == family and m.status == SolveStatus.OPTIMAL
            ]
            if proven:
                yield f"Largest graph of {branches} branches solved to proof, {family}: {max(proven)} nodes."


def _draw(measurements: list[Measurement], path: Path) -> None:
    from playwright.sync_api import sync_playwright
    from plotly.subplots import make_subplots

    rows = (("seconds", "seconds"), ("peak_mb", "peak memory, MB"), ("gap", "gap"))
    figure = make_subplots(
        len(rows),
        len(BRANCHES),
        shared_xaxes=True,
        shared_yaxes=True,
        vertical_spacing=0.05,
        horizontal_spacing=0.04,
        subplot_titles=[f"{branches} branches per layer" for branches in BRANCHES],
    )
    colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#666666")
    marks = ("circle", "square", "diamond", "triangle-up", "x", "star")
    for column, branches in enumerate(BRANCHES, 1):
        for runner, colour, mark in zip(RUNNERS, colours, marks, strict=True):
            own = sorted(
                (
                    m
                    for m in measurements
                    if (m.method, m.family, m.branches) == (runner.method, runner.family, branches)
                ),
                key=lambda m: m.nodes,
            )
            for row, (field, _) in enumerate(rows, 1):
                values = [getattr(m, field) for m in own]
                figure.add_scatter(
                    x=[m.nodes for m in own],
                    # A logarithmic axis has no zero: what is proven stands at the bottom.
                    y=[None if v is None else max(v, 1e-6) if field == "gap" else v for v in values],
                    name=runner.label,
                    legendgroup=runner.label,
                    showlegend=row == 1 and column == 1,
                    mode="lines+markers",
                    line={"color": colour, "width": 1.5},
                    marker={"symbol": mark, "size": 8},
                    row=row,
                    col=column,
                )
    for row, (_, title) in enumerate(rows, 1):
        figure.update_yaxes(type="log", title=title if row else None, row=row, col=1)
        figure.update_yaxes(type="log", row=row, col=2)
    figure.update_yaxes(range=[math.log10(5e-7), 0.1], tickformat=".0e", row=3)
    figure.update_xaxes(type="log", dtick="D2")
    figure.update_xaxes(title="nodes", row=len(rows))
    figure.update_layout(
        template="plotly_white", width=1200, height=1000, font_size=13, margin={"t": 40}, legend={"orientation": "h"}
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("The plot needs Chromium (Debian package chromium).")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_content(figure.to_html(include_plotlyjs=True))
        page.locator(".plotly .main-svg").first.wait_for()
        page.screenshot(path=str(path))
        browser.close()


if __name__ == "__main__":
    main()
