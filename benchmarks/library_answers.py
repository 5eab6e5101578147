"""The library's own answers to questions that a page was asked, to hold the page's against.

`python -m benchmarks.library_answers < QUESTIONS.json > ANSWERS.json` solves in a process of low priority. Answers are
kept in `build/` by question and by the sources of the solvers, each as soon as it is found: a trial that is broken off
goes on where it was, and the next one finds them.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.explorer_page import Answer, Asked, library_question, shown_ms
from sample_graphs.synthetic import layered
from solvers.model.costs import objective_value
from solvers.model.deployment import Deployment
from solvers.model.errors import PlacementError
from solvers.model.graph import DnnGraph
from solvers.model.result import SolveStatus
from solvers.model.split import Family
from solvers.solve import solve

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "build" / "library_answers.jsonl"
TOLERANCE = 1e-6
TELL_EVERY = 50
PATIENCE_S, SEARCH_S = 60.0, 3.0
"""For how long a chain is sought, which has to be proven, and other splits: a value and a bound are enough of these."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the library says: value and bound in ms, and the value of the plan computed afresh."""

    status: str
    value_ms: float | None
    bound_ms: float | None


def generated(name: str) -> tuple[DnnGraph, Deployment]:
    """Return a generated graph by its name, such as "20x2x49-7": layers, branches, operators and seed."""
    sizes, _, seed = name.partition("-")
    layers, branches, operators = map(int, sizes.split("x"))
    return layered(layers, branches, operators, seed=int(seed))


def library_answers(questions: Iterable[Asked]) -> dict[Asked, Known]:
    """Return the library's answer to each question, found by a process of low priority."""
    wanted = list(dict.fromkeys(questions))
    document = [asdict(asked) for asked in wanted]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.library_answers"],
        input=json.dumps(document).encode(),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    return {asked: Known(**known) for asked, known in zip(wanted, json.loads(done.stdout), strict=True)}


def fault_of(asked: Asked, shown: Answer, known: Known) -> str:
    """Say what is wrong with an answer that the page showed as final; empty where nothing is.

    Proven optima agree to 1e-6, or to the digits that are shown. An answer of a time-limited search is no better than
    what the library has proven to be the least, and its bound is no higher than the best plan the library knows.
    """
    if (
        "Press Solve" in shown.says
    ):  # no answer was asked for: the last DP on this graph took too long to follow by itself
        return ""
    if shown.state == "refused":
        return "" if known.status != SolveStatus.OPTIMAL else f"no plan shown ({shown.says[:80]}), though there is one"
    if known.value_ms is None:
        return f"{shown.value} shown, though {known.status.lower()}"
    value, value_slack = _number(shown.exact_value_ms, shown.value)
    bound, bound_slack = _number(shown.exact_bound_ms, shown.bound)
    is_proven = "optimal (proven)" in shown.proof
    if is_proven and known.status == SolveStatus.OPTIMAL and abs(value - known.value_ms) > value_slack:
        return f"{value:.7g} ms shown as proven optimal, {known.value_ms:.7g} is right"
    if known.bound_ms is not None and value < known.bound_ms - value_slack:
        return f"{value:.7g} ms shown, below the proven bound of {known.bound_ms:.7g}"
    if bound is not None and bound > known.value_ms + bound_slack:
        return f"a bound of {bound:.7g} ms shown, above the value {known.value_ms:.7g} of a plan"
    if asked.family is Family.CHAIN and not is_proven and known.status == SolveStatus.OPTIMAL:
        far = value - known.value_ms > value_slack
        return f"{value:.7g} ms shown as final ({shown.proof}), {known.value_ms:.7g} is right" if far else ""
    return ""


def _number(exact_ms: float | None, text: str) -> tuple[float, float]:
    if exact_ms is not None:
        return exact_ms, TOLERANCE * exact_ms
    value, half_a_digit = shown_ms(text)
    return value, half_a_digit + TOLERANCE * value


def _answer(asked: Asked) -> Known:
    question = library_question(asked, generated)
    limit_s = PATIENCE_S if question.family is Family.CHAIN else SEARCH_S
    try:
        result = solve(
            question.graph,
            question.deployment,
            objective=question.objective,
            family=question.family,
            time_limit_s=limit_s,
        )
    except PlacementError as error:
        return Known(f"refused: {error}", None, None)
    if result.split is not None:
        value_ms = objective_value(question.graph, question.deployment, result.split, question.objective)
        assert value_ms is not None
        assert result.value_ms is not None
        assert abs(value_ms - result.value_ms) <= TOLERANCE * value_ms
    return Known(str(result.status), result.value_ms, result.lower_bound_ms)


def _key(asked: Asked, sources: str) -> str:
    return hashlib.sha256(f"{sources} {asked!r}".encode()).hexdigest()[:24]


def _kept() -> dict[str, dict[str, object]]:
    """Return the answers found before by key; a line that was cut off when a trial was broken off is left out."""
    kept = {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            key, known = json.loads(line)
            kept[key] = known
    return kept


def main() -> None:
    """Answer the questions on stdin."""
    os.nice(15)
    questions = [
        Asked(tuple((name, text) for name, text in one["parts"]), one["upload"]) for one in json.load(sys.stdin)
    ]
    sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "solvers").rglob("*.py"))))
    keys = {asked: _key(asked, sources.hexdigest()) for asked in questions}
    kept = _kept()
    missing = [asked for asked in dict.fromkeys(questions) if keys[asked] not in kept]
    KEPT.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor() as pool, KEPT.open("a") as keep:
        answers = {pool.submit(_answer, asked): keys[asked] for asked in missing}
        for count, done in enumerate(as_completed(answers), start=1):
            kept[answers[done]] = asdict(done.result())
            keep.write(json.dumps([answers[done], kept[answers[done]]]) + "\n")
            keep.flush()
            if count % TELL_EVERY == 0:
                print(f"{count} of {len(missing)} questions answered", file=sys.stderr, flush=True)
    json.dump([kept[keys[asked]] for asked in questions], sys.stdout)


if __name__ == "__main__":
    main()
