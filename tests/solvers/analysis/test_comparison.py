"""A comparison runs each method that applies once, gains are ratios of values, and an interrupt keeps what is done."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given

from solvers.analysis import comparison
from solvers.analysis.comparison import EXACT, Contender, Outcome, best_value_ms, compare, gain, questions
from solvers.baselines.scotch import scotch_program
from solvers.cli.tables import comparison_text
from solvers.formats.graph_json import write_graph
from solvers.formats.text_table import text_table
from solvers.model.costs import Objective
from solvers.model.deployment import Deployment, InFlight, TrainingMemory
from solvers.model.errors import SplitError
from solvers.model.graph import DnnGraph
from solvers.model.result import Progress, SolveCancelled, SolveStatus
from solvers.model.split import Family, Split
from solvers.problem.solving import MethodError
from tests.support.examples import examples
from tests.support.graphs import chain, convex_witness, diamond, random_dag, small_graphs, training_chain

Instance = tuple[DnnGraph, Deployment]


@given(small_graphs(max_nodes=4))
@examples(20)
def test_the_best_plan_is_at_least_as_good_as_every_valid_one_and_gains_are_ratios(instance: Instance) -> None:
    graph, deployment = instance
    assume(deployment.num_accelerators > 0)
    answers = list(compare(graph, deployment))
    assert [question for question, _ in answers] == list(
        questions(Objective.THROUGHPUT, tuple(Family), with_expert=False)
    )
    best = best_value_ms(answers)
    for question, outcome in answers:
        if outcome.status is None:
            assert question.method == "scotch"
            continue
        ratio = gain(outcome, best)
        if ratio is not None:
            assert best is not None
            assert outcome.value_ms is not None
            assert ratio * best == pytest.approx(outcome.value_ms)
            assert ratio >= 1 - 1e-9 or outcome.violations
        if question.is_exact and outcome.is_valid:
            assert outcome.status is SolveStatus.OPTIMAL
    exact = [outcome.value_ms for question, outcome in answers if question.is_exact]
    known = [value for value in exact if value is not None]
    assert known == sorted(known, reverse=True)  # freer families are no worse


def test_what_applies_to_which_objective() -> None:
    def labels(objective: Objective, *families: Family, with_expert: bool = True) -> list[str]:
        return [question.label for question in questions(objective, families, with_expert=with_expert)]

    assert labels(Objective.THROUGHPUT, Family.FREE, Family.CHAIN) == [
        "best pipeline",
        "best non-contiguous",
        "single",
        "expert",
        "local search",
        "pipedream",
        "scotch",
        "linearised",
    ]
    assert labels(Objective.GPIPE, Family.CONVEX, with_expert=False) == [
        "best contiguous",
        "single",
        "pipedream",
        "scotch",
        "linearised",
    ]
    assert labels(Objective.LATENCY, Family.CHAIN, with_expert=False) == [
        "best non-contiguous",
        "single",
        "scotch",
        "greedy latency",
        "max load latency",
    ]


def test_families_of_the_witness() -> None:
    values = {question.label: outcome.value_ms for question, outcome in compare(convex_witness(), Deployment(2))}
    assert (values["best pipeline"], values["best contiguous"], values["best non-contiguous"]) == (5.0, 4.0, 4.0)


def test_the_bound_of_free_splits_is_one_for_baselines() -> None:
    outcomes = {question.label: outcome for question, outcome in compare(chain((2, 2, 3)), Deployment(2))}
    assert outcomes["best non-contiguous"].value_ms == 5.0
    assert outcomes["linearised"].status is SolveStatus.OPTIMAL  # 5 ms too, and no split is better
    assert outcomes["linearised"].lower_bound_ms == pytest.approx(5.0, rel=2e-6)
    assert (outcomes["single"].status, outcomes["single"].gap) == (SolveStatus.FEASIBLE, pytest.approx(2 / 7, rel=1e-5))
    alone = dict(compare(chain((2, 2, 3)), Deployment(2), families=(Family.CHAIN,)))
    assert alone[Contender("linearised", Family.FREE)].status is SolveStatus.FEASIBLE


def test_the_expert_is_judged_and_never_a_start() -> None:
    bad = Split((frozenset({1, 3}), frozenset({2})))
    answers = dict(compare(chain((1, 1, 1)), Deployment(2), expert=bad, families=(Family.CHAIN,)))
    expert = answers[Contender("expert", Family.FREE)]
    assert (expert.value_ms, expert.family) == (4.0, Family.FREE)
    with pytest.raises(SplitError):
        list(compare(chain((1, 1)), Deployment(2), expert=Split((frozenset({9}),))))


def test_an_objective_that_does_not_fit_is_refused() -> None:
    with pytest.raises(MethodError, match="GPipe"):
        list(compare(chain((1, 1)), Deployment(2), objective=Objective.GPIPE))
    with pytest.raises(MethodError, match="Latency"):
        list(compare(training_chain((1,), (1,)), Deployment(2), objective=Objective.LATENCY))


def test_families_that_a_schedules_memory_does_not_know_are_left_out_by_name() -> None:
    nodes = tuple(
        replace(node, memory_bytes=3.0, parameter_bytes=1.0, activation_bytes=1.0)
        for node in training_chain((1, 2), (1, 2)).nodes
    )
    graph = DnnGraph(nodes, training_chain((1, 2), (1, 2)).edges)
    deployment = Deployment(2, 0, 100.0, training_memory=TrainingMemory(InFlight.ONE_F_ONE_B, 4))
    outcomes = {question.label: outcome for question, outcome in compare(graph, deployment)}
    assert outcomes["best pipeline"].value_ms == 4.0
    assert outcomes["best non-contiguous"].status is None
    assert "choose pipeline" in outcomes["best non-contiguous"].message


def test_a_plan_that_breaks_a_rule_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    graph = chain((2, 3))
    answers = list(compare(graph, Deployment(2, 0, 1.0), families=(Family.FREE,)))
    outcomes = {question.label: outcome for question, outcome in answers}
    single = outcomes["single"]
    assert (single.value_ms, single.is_valid, single.gap, single.largest_memory_bytes) == (5.0, False, None, 2.0)
    assert gain(single, best_value_ms(answers)) == pytest.approx(5 / 4)
    assert outcomes["scotch"].status is None
    text = comparison_text(answers, best_value_ms(answers))
    lines = text.splitlines()
    assert "violates a constraint" in next(line for line in lines if line.startswith("single [1]"))
    assert any(line.startswith("[1] single: Accelerator 1 is short by") for line in lines)
    assert any(line.startswith("[2] scotch: Method scotch needs the program") for line in lines)


def test_an_interrupt_keeps_what_is_done() -> None:
    asked: list[str] = []

    def interrupted() -> bool:
        return len(asked) > 2

    def watch(question: Contender):  # type: ignore[no-untyped-def]
        asked.append(question.label)

        def report(_: Progress) -> None:
            if interrupted():
                raise SolveCancelled

        return report

    answers = list(compare(random_dag(2), Deployment(3), on_progress=watch, is_interrupted=interrupted))
    assert (
        [question.label for question, _ in answers]
        == asked
        == ["best pipeline", "best contiguous", "best non-contiguous"]
    )
    assert answers[0][1].status is SolveStatus.OPTIMAL


def test_gain_needs_a_plan_and_a_time() -> None:
    nothing = Outcome("single", Family.FREE, SolveStatus.UNKNOWN, None, None, 0.0, None, (), "no")
    assert gain(nothing, 1.0) is None
    free = Outcome("single", Family.FREE, SolveStatus.OPTIMAL, 0.0, 0.0, 0.0, 0.0, (), "")
    assert gain(free, 0.0) is None
    assert best_value_ms([(Contender("single", Family.FREE), free)]) is None
    assert best_value_ms([(Contender(EXACT, Family.FREE), free)]) == 0.0


def test_tables_line_up() -> None:
    assert text_table(("a", "bb", "c"), (("long", "x", "1"), ("s", "y", "22")), left=2).splitlines() == [
        "a     bb   c",
        "long  x    1",
        "s     y   22",
    ]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    from solvers.cli.main import main

    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, split = tmp_path / "graph.json", tmp_path / "split.json"
    write_graph(graph, diamond(), Deployment(2, 1))
    split.write_text('{"fpgas": [{"nodes": [1, 2]}, {"nodes": [3, 4]}], "cpus": []}', encoding="utf-8")
    code, out, err = run(capsys, "compare", graph, "--expert", split, "--json")
    document = json.loads(out)
    assert code == 0
    assert document["complete"] is True
    methods = {(row["method"], row["family"]): row for row in document["methods"]}
    assert document["best_ms"] == min(row["value_ms"] for row in document["methods"] if row["method"] == EXACT)
    for row in methods.values():
        if row["value_ms"] is not None:
            assert row["gain"] == row["value_ms"] / document["best_ms"]
    assert {"single", "expert", "local_search", "pipedream", "linearised"} <= {
        row["method"] for row in methods.values()
    }
    assert "local search ..." in err

    code, out, _ = run(capsys, "compare", graph, "--family", "chain")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[:3]] == ["method", "best pipeline", "single"]
    if scotch_program() is None:
        assert "scotch_gpart, which is not installed" in out


def test_the_command_tells_what_is_infeasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = tmp_path / "graph.json"
    write_graph(graph, diamond(), Deployment(2, 0, 1.0))
    code, out, _ = run(capsys, "compare", graph)
    assert code == 3
    assert "INFEASIBLE" in out


def test_ctrl_c_shows_what_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = tmp_path / "graph.json"
    write_graph(graph, diamond(), Deployment(2, 1))
    real_solve = comparison.solve

    def interrupted(*arguments, **options):  # type: ignore[no-untyped-def]
        if options["method"] == "single":
            import signal

            signal.raise_signal(signal.SIGINT)
        return real_solve(*arguments, **options)

    monkeypatch.setattr(comparison, "solve", interrupted)
    code, out, err = run(capsys, "compare", graph, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["complete"] is False
    assert [row["method"] for row in document["methods"]] == [EXACT, EXACT, EXACT, "single"]
    assert "interrupted" in err
