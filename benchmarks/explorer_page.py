"""What the explorer's page says, read as a visitor does: one answer, whether it is final, and which question it is for.

`answer_of` is the one place that knows how the page tells a final value from one in progress and from a stale one.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import parse_qsl

from benchmarks.streamlit_client import StreamlitClient
from explorer.form.graph import DEFAULT_SAMPLE
from explorer.state.query import from_query
from explorer.words.wording import VALUE_LABELS
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.model.split import Family
from solvers.parameters.hardware import BYTES_PER_MS, GIB
from solvers.samples import read_sample

State = Literal["final", "so-far", "stale", "press", "refused", "none"]
"""Of what is shown: the answer; the best plan of a solve that runs; a plan for earlier inputs, and the page says that a
new one is coming, or that Solve must be pressed; a sentence instead of a plan; nothing yet."""

HOOK = re.compile(r'data-(state|value-ms|bound-ms|question)="([^"]*)"')
ABOUT_INPUTS = ("was not read", "were not applied", "was not applied")
USED_PARTS = {"sample", "graph", "accelerators", "cpus", "memory", "bandwidth", "bandwidth_factor", "splits", "limit"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What stands in the headline, numbers as shown and, where the page tells them, in ms exactly."""

    state: State
    value: str = ""
    bound: str = ""
    proof: str = ""
    how: str = ""
    question: str = ""
    exact_value_ms: float | None = None
    exact_bound_ms: float | None = None
    says: str = ""
    came_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come by itself."""
        return self.state in ("final", "refused", "press")


@dataclass(frozen=True, slots=True)
class Seen:
    """The parts of a page that tell of its answer, top to bottom; from a client or from a real browser."""

    metrics: tuple[tuple[str, str, str], ...]
    alerts: tuple[str, ...]
    html: tuple[str, ...]
    came_s: float = 0.0


def answer_of(seen: Seen) -> Answer:
    """Return the answer on a page."""
    value = next((m for m in seen.metrics if m[0] in VALUE_LABELS.values()), ("", "", ""))
    bound = next((m for m in seen.metrics if m[0] == "Proven lower bound"), ("", "", ""))
    shown = Answer("final", value[1], bound[1], bound[2], value[2], came_s=seen.came_s)
    stale = next((text for text in seen.alerts if "is stale" in text), "")
    refusal = next((t for t in seen.alerts if t != stale and not any(words in t for words in ABOUT_INPUTS)), "")
    is_running = "(running)" in value[2] or any('"solve-strip"' in h and "<b>Solving</b>" in h for h in seen.html)
    hooks = next((dict(found) for text in seen.html if (found := HOOK.findall(text)) and "data-state" in text), None)
    if hooks is not None:
        shown = replace(
            shown,
            state={"so-far": "so-far", "stale": "stale"}.get(hooks["state"], "final"),  # type: ignore[arg-type]
            exact_value_ms=_number(hooks.get("value-ms")),
            exact_bound_ms=_number(hooks.get("bound-ms")),
            question=hooks.get("question", ""),
        )
    elif stale:
        shown = replace(shown, state="stale")
    elif is_running:
        shown = replace(shown, state="so-far" if value[1] else "none")
    if shown.state == "stale" and not is_running:
        if "Press Solve" in stale:
            return replace(shown, state="press", says=stale)
        if refusal:
            return replace(shown, state="refused", says=refusal)
    if not value[1] and not is_running:
        if "no plan yet" in refusal:
            return replace(shown, state="press", says=refusal)
        return replace(shown, state="refused" if refusal else "none", says=refusal)
    return shown


def seen_by(page: StreamlitClient) -> Seen:
    """Return what a client has of the page."""
    metrics, came_s = [], 0.0
    for node in page.tree.nodes("metric"):
        metric = node.message.metric
        metrics.append((metric.label, metric.body, metric.delta))
        if metric.label in VALUE_LABELS.values() and not came_s:
            came_s = node.came_s
    return Seen(tuple(metrics), tuple(page.texts("alert")), tuple(page.texts("html")), came_s)


async def settled(
    page: StreamlitClient, is_asked: Callable[[dict[str, str]], bool], patience_s: float, after_runs: int
) -> tuple[Answer, str]:
    """Return the answer to what was asked: what the page shows when it has heard of it, and nothing more will come.

    With it comes the address it stood under: whoever waits is woken later, when the page may be a run further.

    The page puts its inputs into its address in each run, so that tells which inputs a finished run was for. A run that
    was under way when the inputs changed ends without being taken for theirs. TimeoutError when no answer comes.
    """

    def look() -> tuple[Answer, str] | None:
        if page.runs_finished <= after_runs or not page.is_still or not is_asked(parts_of(page.query)):
            return None
        answer = answer_of(seen_by(page))
        return (answer, page.query) if answer.is_over else None

    found: tuple[Answer, str] = await page.wait(look, patience_s)
    return found


def parts_of(query: str) -> dict[str, str]:
    """Return the parts of an address."""
    return dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the page's address has it: `parts` that matter, `upload` the name of a generated graph or empty."""

    parts: tuple[tuple[str, str], ...]
    upload: str = ""

    @property
    def family(self) -> Family:
        """Return the family of splits that is asked for."""
        return Family(dict(self.parts).get("splits", Family.CHAIN))


def asked_of(query: str, uploads: dict[str, str]) -> Asked:
    """Return the question of an address; `uploads` names generated graphs by the beginning of their digest."""
    parts = {name: text for name, text in parts_of(query).items() if name not in ("keep", "level", "colour", "lanes")}
    if unknown := parts.keys() - USED_PARTS:
        raise ValueError(f"The address has parts that this program never sets: {sorted(unknown)}.")
    upload = uploads[parts.pop("graph")] if "graph" in parts else ""
    return Asked(tuple(sorted(parts.items())), upload)


@dataclass(frozen=True, slots=True)
class LibraryQuestion:
    """The same for the library."""

    graph: DnnGraph
    deployment: Deployment
    family: Family
    time_limit_s: float
    objective: Objective = field(default=Objective.THROUGHPUT)


def library_question(asked: Asked, upload: Callable[[str], tuple[DnnGraph, Deployment]]) -> LibraryQuestion:
    """Return what the library is to solve, made from the address alone: not by the code that the page runs."""
    link, problems = from_query(dict(asked.parts))
    assert not problems, problems
    graph, own = upload(asked.upload) if asked.upload else read_sample(link.sample or DEFAULT_SAMPLE)
    values = link.values
    if "bandwidth" in values:
        graph = graph.with_bandwidth(values["bandwidth"] * BYTES_PER_MS)
    if "bandwidth_factor" in values:
        graph = graph.with_bandwidth_factor(values["bandwidth_factor"])
    memory_bytes = own.memory_bytes
    if "memory" in values:
        memory_bytes = None if values["memory"] is None else values["memory"] * GIB
    deployment = replace(
        own,
        num_accelerators=values.get("accelerators", own.num_accelerators),
        num_cpus=values.get("cpus", own.num_cpus),
        memory_bytes=memory_bytes,
    )
    return LibraryQuestion(graph, deployment, values.get("family", Family.CHAIN), float(values.get("time_limit", 60)))


def shown_ms(text: str) -> tuple[float, float]:
    """Return a time as shown, in ms, and half a unit of its last digit.

    >>> shown_ms("7.026 ms"), shown_ms("17,571 ms"), shown_ms("5 ms")
    ((7.026, 0.0005), (17571.0, 0.5), (5.0, 0.0005))
    """
    digits = text.replace("\xa0", " ").removesuffix(" ms").replace(",", "")
    value = float(digits)
    if value >= 9999.5:
        return value, 0.5
    magnitude = f"{value:.3e}".partition("e")[2]
    return value, 0.5 * 10.0 ** (int(magnitude) - 3)


def sentences(seen: Iterable[str]) -> list[str]:
    """Return alerts with their numbers taken out, so that those of a kind are one."""
    return sorted({re.sub(r"\d[\d.,]*", "N", text.replace("\\", ""))[:160] for text in seen})


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
