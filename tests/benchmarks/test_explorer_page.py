"""Reading an answer off the page: final, in progress, stale or refused; and which question an address asks."""

import pytest

from benchmarks.explorer_page import Answer, Asked, Seen, answer_of, asked_of, library_question
from benchmarks.library_answers import Known, fault_of, generated
from solvers.model.split import Family
from solvers.samples import read_sample

STALE = "The plan shown is stale: it and what is proven of it are for earlier inputs. Since then: accelerators 2."
INFEASIBLE = "No plan exists. The graph needs more memory."


def seen(how: str = "DP · pipeline splits · 0.30 s", *alerts: str, html: str = "", value: str = "7.026 ms") -> Seen:
    metrics = (("Time per micro-batch", value, how), ("Proven lower bound", "7.026 ms", "optimal (proven)"))
    return Seen(metrics if value else (), alerts, (html,))


@pytest.mark.parametrize(
    ("page", "state"),
    [
        (seen(), "final"),
        (seen("DP (running) · pipeline splits · 0.06 s"), "so-far"),
        (seen(html='<div class="solve-strip"><div><b>Solving</b> · chain</div></div>'), "so-far"),
        (seen("DP · pipeline splits · 0.30 s", STALE), "stale"),
        (seen("DP · pipeline splits · 0.30 s", f"{STALE} Press Solve for a new one."), "press"),
        (seen("DP · pipeline splits · 0.30 s", INFEASIBLE, STALE), "refused"),
        (seen(value=""), "none"),
        (seen("", INFEASIBLE, value=""), "refused"),
        (seen("", "This graph has no plan yet. Press Solve.", value=""), "press"),
    ],
)
def test_the_state_of_an_answer(page: Seen, state: str) -> None:
    assert answer_of(page).state == state


def test_what_the_page_says_to_programs_comes_first() -> None:
    hook = '<div data-state="so-far" data-value-ms="7.53578" data-bound-ms="5.67" data-question="ab12"></div>'
    answer = answer_of(seen(html=hook))
    assert (answer.state, answer.exact_value_ms, answer.exact_bound_ms, answer.question) == (
        "so-far",
        7.53578,
        5.67,
        "ab12",
    )


def test_a_plan_in_progress_is_a_fault_only_when_it_is_shown_as_final() -> None:
    asked, known = Asked((("accelerators", "2"),)), Known("OPTIMAL", 7.02552, 7.02552)
    assert "7.02552 is right" in fault_of(asked, Answer("final", "7.536 ms", "5.673 ms", "within 25 %"), known)
    assert fault_of(asked, Answer("final", "7.026 ms", "7.026 ms", "optimal (proven)"), known) == ""
    assert fault_of(
        asked, Answer("final", "7.026 ms", "7.026 ms", "", exact_value_ms=7.0256, exact_bound_ms=7.0), known
    )


def test_a_search_that_ran_out_of_time_is_held_against_bounds_only() -> None:
    asked, known = Asked((("splits", "free"),)), Known("FEASIBLE", 10.0, 9.0)
    assert fault_of(asked, Answer("final", "10.5 ms", "8 ms", "within 24 %"), known) == ""
    assert "below the proven bound" in fault_of(asked, Answer("final", "8.9 ms", "8 ms", ""), known)
    assert "above the value" in fault_of(asked, Answer("final", "10.5 ms", "10.2 ms", ""), known)


def test_the_question_of_an_address_is_made_from_its_parts() -> None:
    asked = asked_of("sample=gnmt_layer_inference&accelerators=3&memory=8&bandwidth=6&splits=free&limit=10&keep=x", {})
    question = library_question(asked, generated)
    graph, own = read_sample("gnmt_layer_inference")
    assert question.graph.bandwidth_bytes_per_ms == pytest.approx(6e6)
    assert question.deployment.num_accelerators == 3
    assert question.deployment.memory_bytes == 8 * 2**30
    assert question.deployment.num_cpus == own.num_cpus
    assert (question.family, question.time_limit_s) == (Family.FREE, 10.0)
    assert len(question.graph.nodes) == len(graph.nodes)


def test_an_address_with_parts_that_no_visitor_sets_is_not_judged() -> None:
    with pytest.raises(ValueError, match="replicas"):
        asked_of("replicas=2", {})
