"""Edit histories: what moves, what is refused and why, undo and redo, documents that come back equal."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.edits import document as edit_document
from explorer.edits import history as edit_history
from explorer.edits.document import EditDocumentError, from_document, ids_from_text, ids_text, to_document
from explorer.edits.history import (
    MAX_STEPS,
    History,
    Outcome,
    Place,
    begin,
    device_at,
    keep_together,
    move,
    num_named,
    pin,
    place,
    redo,
    resolve_places,
    take_over,
    undo,
    unpin,
)
from solvers.model.deployment import Deployment, DeviceClass
from solvers.model.graph import DnnGraph, Edge, Node
from solvers.model.split import Split
from solvers.problem.pins import Pins
from tests.support.examples import examples
from tests.support.graphs import chain, random_split, small_graphs

GRAPH = chain((1.0, 2.0, 3.0, 4.0))
DEPLOYMENT = Deployment(2, 1)
SPLIT = Split((frozenset({1, 2}), frozenset({3, 4})), (frozenset(),))
A1, A2, CPU = Place(False, 0), Place(False, 1), Place(True, 0)


def start(graph: DnnGraph = GRAPH) -> History:
    return begin(graph, DEPLOYMENT, SPLIT)


def with_class(*ids: int) -> DnnGraph:
    nodes = tuple(replace(node, colocation_class=5) if node.id in ids else node for node in GRAPH.nodes)
    return DnnGraph(nodes, GRAPH.edges)


def test_a_move_puts_nodes_on_a_device_and_says_so() -> None:
    history, outcome = move(start(), GRAPH, DEPLOYMENT, [2], 1)
    assert history.places == {1: A1, 2: A2, 3: A2, 4: A2}
    assert outcome == Outcome(True, "Node 2 moved to Accelerator 2.")
    history, outcome = move(history, GRAPH, DEPLOYMENT, [1, 2, 3], 2)
    assert history.places == {1: CPU, 2: CPU, 3: CPU, 4: A2}
    assert outcome.message == "3 nodes moved to CPU 1."


def test_a_class_moves_together_and_the_sentence_says_so() -> None:
    graph = with_class(1, 4)
    split = Split((frozenset({1, 2, 4}), frozenset({3})), (frozenset(),))
    history, outcome = move(begin(graph, DEPLOYMENT, split), graph, DEPLOYMENT, [4], 2)
    assert history.places == {1: CPU, 2: A1, 3: A2, 4: CPU}
    assert outcome.message == "Node 4 moved to CPU 1, with 1 node that must share a device with it."


def test_moving_a_node_to_where_its_class_is_mends_the_class() -> None:
    graph = with_class(1, 4)
    history, outcome = move(begin(graph, DEPLOYMENT, SPLIT), graph, DEPLOYMENT, [1], 1)
    assert history.places == {1: A2, 2: A1, 3: A2, 4: A2}
    assert outcome.applied


@pytest.mark.parametrize(
    ("nodes", "device", "message"),
    [
        ([], 1, "Nothing is selected; select nodes, a layer or a stage first."),
        ([9], 1, "The graph has no node 9."),
        ([1], 3, "There is no device 4; there are 3."),
        ([1], 0, "Node 1 is on Accelerator 1 already."),
        ([1, 2], 0, "2 nodes are on Accelerator 1 already."),
    ],
)
def test_a_move_that_cannot_be_made_says_why(nodes: list[int], device: int, message: str) -> None:
    history, outcome = move(start(), GRAPH, DEPLOYMENT, nodes, device)
    assert history == start()
    assert outcome == Outcome(False, message)


def test_a_node_that_runs_on_cpus_only_stays_there() -> None:
    graph = DnnGraph((Node(1, 1.0, 1.0, runs_on_accelerator=False, name="lookup"), Node(2, 1.0, 1.0)), (Edge(1, 2),))
    before = begin(graph, DEPLOYMENT, Split((frozenset(), frozenset()), (frozenset({1, 2}),)))
    history, outcome = move(before, graph, DEPLOYMENT, [1, 2], 0)
    assert history == before
    assert outcome == Outcome(False, "Node 1 (lookup) cannot run on an accelerator. Nothing was moved; choose a CPU.")
    tied, _ = keep_together(before, graph, DEPLOYMENT, [1, 2])
    _, outcome = move(tied, graph, DEPLOYMENT, [2], 0)
    assert outcome.message == (
        "Node 1 (lookup), which must share a device with the selection, cannot run on an accelerator. "
        "Nothing was moved; choose a CPU."
    )


def test_pins_hold_where_nodes_are_and_move_with_them() -> None:
    history, outcome = pin(start(), GRAPH, DEPLOYMENT, [3, 4])
    assert outcome.message == "2 nodes pinned to Accelerator 2."
    assert resolve_places(history, DEPLOYMENT).pins == Pins(((3, 1), (4, 1)))
    history, outcome = move(history, GRAPH, DEPLOYMENT, [3], 0)
    assert outcome.message == "Node 3 moved to Accelerator 1; 1 pin moved along."
    assert resolve_places(history, DEPLOYMENT).pins == Pins(((3, 0), (4, 1)))
    _, outcome = pin(history, GRAPH, DEPLOYMENT, [4])
    assert outcome == Outcome(False, "Node 4 is pinned already.")
    history, outcome = unpin(history, GRAPH, [4])
    assert (history.pinned, outcome.message) == (frozenset({3}), "Node 4 unpinned.")
    _, outcome = unpin(history, GRAPH, [1])
    assert outcome == Outcome(False, "Node 1 is neither pinned nor kept together.")
    history, outcome = unpin(history, GRAPH, [])
    assert (history.pinned, outcome.applied) == (frozenset(), True)
    assert unpin(history, GRAPH, [])[1] == Outcome(False, "Nothing is pinned.")


def test_nodes_kept_together_go_where_most_of_their_time_is_and_move_as_one() -> None:
    history, outcome = keep_together(start(), GRAPH, DEPLOYMENT, [2, 3])
    assert outcome.message == "2 nodes kept together on Accelerator 2, 1 node moved there."
    assert history.places == {1: A1, 2: A2, 3: A2, 4: A2}
    assert resolve_places(history, DEPLOYMENT).pins == Pins((), ((2, 3),))
    history, outcome = move(history, GRAPH, DEPLOYMENT, [3], 2)
    assert history.places == {1: A1, 2: CPU, 3: CPU, 4: A2}
    assert keep_together(history, GRAPH, DEPLOYMENT, [3, 2])[1] == Outcome(False, "2 nodes are kept together already.")
    assert not keep_together(history, GRAPH, DEPLOYMENT, [3])[1].applied
    history, outcome = unpin(history, GRAPH, [2])
    assert (history.together, outcome.message) == ((), "1 group no longer kept together.")


def test_pinned_nodes_draw_a_group_to_their_device_or_forbid_it() -> None:
    history, _ = pin(start(), GRAPH, DEPLOYMENT, [1])
    history, outcome = keep_together(history, GRAPH, DEPLOYMENT, [1, 4])
    assert history.places[4] == A1
    assert outcome.applied
    history, _ = pin(history, GRAPH, DEPLOYMENT, [3])
    _, outcome = keep_together(history, GRAPH, DEPLOYMENT, [3, 4])
    assert outcome == Outcome(
        False, "Some of these nodes are pinned to Accelerator 1 and Accelerator 2; unpin those on one of them first."
    )


def test_undo_and_redo_go_back_and_forth_until_a_new_edit() -> None:
    first, _ = move(start(), GRAPH, DEPLOYMENT, [2], 1)
    second, _ = pin(first, GRAPH, DEPLOYMENT, [2])
    back, outcome = undo(second)
    assert (back.places, back.pinned, outcome.message) == (
        first.places,
        frozenset(),
        "Undone: node 2 pinned to Accelerator 2.",
    )
    again, outcome = redo(back)
    assert (again, outcome.message) == (second, "Redone: node 2 pinned to Accelerator 2.")
    other, _ = move(back, GRAPH, DEPLOYMENT, [3], 0)
    assert redo(other)[1] == Outcome(False, "There is nothing to redo.")
    assert undo(undo(other)[0])[0].places == start().places
    assert undo(start())[1] == Outcome(False, "There is nothing to undo.")


def test_an_answer_becomes_a_step_that_can_be_taken_back() -> None:
    answer = Split((frozenset({1}), frozenset({2, 3})), (frozenset({4}),))
    history = take_over(start(), DEPLOYMENT, answer, "Solved anew")
    assert resolve_places(history, DEPLOYMENT).split == answer
    assert undo(history)[0].places == start().places


def test_edits_outlive_a_change_of_hardware() -> None:
    history, _ = pin(move(start(), GRAPH, DEPLOYMENT, [1], 2)[0], GRAPH, DEPLOYMENT, [1, 3])
    larger = resolve_places(history, Deployment(5, 2))
    assert larger.split.device_of() == {1: 5, 2: 0, 3: 1, 4: 1}
    assert larger.pins == Pins(((1, 5), (3, 1)))
    assert larger.note == ""
    smaller = resolve_places(history, Deployment(1, 1), {3: A1, 4: CPU})
    assert smaller.split.device_of() == {1: 1, 2: 0, 3: 0, 4: 1}
    assert smaller.pins == Pins(((1, 1),))
    assert smaller.note == (
        "2 nodes stood on a device that is no longer there and went elsewhere; 1 pin on it is off. "
        "With the device back they return."
    )
    assert resolve_places(history, Deployment(2, 0)).split.device_of()[1] == 1
    assert resolve_places(history, DEPLOYMENT).homeless == frozenset()


def test_a_node_whose_device_is_gone_is_pinned_to_where_it_went() -> None:
    history, _ = move(start(), GRAPH, DEPLOYMENT, [1], 2)
    history, _ = pin(history, GRAPH, DEPLOYMENT, [1])
    smaller = Deployment(2, 0)
    assert not resolve_places(history, smaller).pins
    history, outcome = pin(history, GRAPH, smaller, [1], {1: A1})
    assert outcome == Outcome(True, "Node 1 pinned to Accelerator 1.")
    assert resolve_places(history, smaller).pins == resolve_places(history, DEPLOYMENT).pins == Pins(((1, 0),))
    history, _ = undo(history)
    history, outcome = keep_together(history, GRAPH, smaller, [1, 2], {1: A1})
    assert outcome == Outcome(True, "2 nodes kept together on Accelerator 1.")
    assert history.places == {1: A1, 2: A1, 3: A2, 4: A2}


def test_devices_of_a_type_are_called_by_it() -> None:
    deployment = Deployment.of_classes((DeviceClass("A100", 1), DeviceClass("T4", 1)), 1)
    history, outcome = move(start(), GRAPH, deployment, [2], 1)
    assert outcome.message == "Node 2 moved to T4 1."
    assert move(history, GRAPH, deployment, [2], 1)[1].message == "Node 2 is on T4 1 already."
    history, outcome = pin(history, GRAPH, deployment, [2])
    assert outcome.message == "Node 2 pinned to T4 1."
    assert keep_together(history, GRAPH, deployment, [2, 3])[1].message == "2 nodes kept together on T4 1."
    history, _ = pin(history, GRAPH, deployment, [1])
    assert "pinned to A100 1 and T4 1" in keep_together(history, GRAPH, deployment, [1, 2])[1].message


def test_devices_have_names_of_their_kind() -> None:
    assert [place(DEPLOYMENT, d).name for d in range(3)] == ["Accelerator 1", "Accelerator 2", "CPU 1"]
    assert [device_at(DEPLOYMENT, place(DEPLOYMENT, d)) for d in range(3)] == [0, 1, 2]
    assert device_at(DEPLOYMENT, Place(True, 1)) is None


# Any sequence of edits


@st.composite
def edited(draw: st.DrawFn) -> tuple[DnnGraph, Deployment, History]:
    """Draw a graph and a history of random edits."""
    graph, deployment = draw(small_graphs())
    history = begin(graph, deployment, random_split(graph, deployment, draw(st.integers(0, 99))))
    nodes = st.lists(st.sampled_from(sorted(graph.node_by_id)), max_size=4)
    for kind in draw(st.lists(st.sampled_from(["move", "pin", "unpin", "together", "undo", "redo"]), max_size=8)):
        if kind == "move":
            history, _ = move(history, graph, deployment, draw(nodes), draw(st.integers(0, deployment.num_devices)))
        elif kind == "together":
            history, _ = keep_together(history, graph, deployment, draw(nodes))
        elif kind in ("undo", "redo"):
            history, _ = (undo if kind == "undo" else redo)(history)
        elif kind == "pin":
            history, _ = pin(history, graph, deployment, draw(nodes))
        else:
            history, _ = unpin(history, graph, draw(nodes))
    return graph, deployment, history


@given(edited())
@examples(150, deadline=None)
def test_a_history_always_honours_its_own_pins_and_groups(drawn: tuple[DnnGraph, Deployment, History]) -> None:
    graph, deployment, history = drawn
    resolved = resolve_places(history, deployment)
    assert set(resolved.split.device_of()) == set(graph.node_by_id)
    assert not resolved.pins.broken_by(graph, resolved.split)


@given(edited())
@examples(150, deadline=None)
def test_a_document_gives_the_history_back(drawn: tuple[DnnGraph, Deployment, History]) -> None:
    graph, _, history = drawn
    assert from_document(json.loads(json.dumps(to_document(history))), graph) == history


@given(edited(), st.integers(1, 12))
@examples(100, deadline=None)
def test_steps_hold_so_many_nodes_and_the_oldest_join_the_base(
    drawn: tuple[DnnGraph, Deployment, History], most: int
) -> None:
    graph, deployment, history = drawn
    with pytest.MonkeyPatch.context() as patch:
        for module in (edit_history, edit_document):
            patch.setattr(module, "MAX_NAMED", most)
        for v in sorted(graph.node_by_id):
            places, pinned = history.places, history.pinned
            history, outcome = pin(history, graph, deployment, [v])
            assert history.places == places
            assert history.pinned == pinned | {v}
            if outcome.applied:
                assert num_named(history.steps) <= most or len(history.steps) == 1
                # What the app holds it can also write and read.
                assert from_document(json.loads(json.dumps(to_document(history))), graph) == history
        for _ in history.steps:
            history, _ = undo(history)
        assert history.places == history.base


@given(edited())
@examples(50, deadline=None)
def test_undoing_everything_gives_the_base(drawn: tuple[DnnGraph, Deployment, History]) -> None:
    _, _, history = drawn
    while history.can_undo:
        history, _ = undo(history)
    assert history.places == history.base
    assert not history.pinned


# Documents from elsewhere


@given(st.sets(st.integers(-50, 50)))
def test_runs_of_ids_come_back(ids: set[int]) -> None:
    assert ids_from_text(ids_text(ids), range(-50, 51)) == ids


def changed(**fields: Any) -> dict[str, Any]:
    history, _ = pin(move(start(), GRAPH, DEPLOYMENT, [2], 1)[0], GRAPH, DEPLOYMENT, [2])
    return to_document(history) | fields


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (None, "The edits are not a JSON object."),
        ([], "The edits are not a JSON object."),
        (changed(version=2), "not of version 1"),
        (changed(version="9" * 1000), r"^.{1,80}$"),
        (changed(graph="other"), "belong to another graph"),
        (changed(base={"accelerator 1": "1..3"}), "place 3 of 4 nodes"),
        (changed(base={"accelerator 1": "1..5"}), "'1..5', which the graph does not have"),
        (changed(base={"accelerator 1": "1..9999999999999"}), "which the graph does not have"),
        (changed(base={"accelerator 1": "1..4", "cpu 1": "2"}), "node 2 on two devices"),
        (changed(base={"gpu 1": "1..4"}), "the device 'gpu 1'"),
        (changed(base={"accelerator 0": "1..4"}), "the device 'accelerator 0'"),
        (changed(base={"accelerator 1": 7}), "no text"),
        (changed(base={"accelerator 1": "1..3,2..4"}), "'2..4' twice"),
        (changed(steps=[{"what": "x", "together": ["1..2", "2..3"]}], at=1), "in two groups"),
        (changed(steps=[{"what": "x", "together": [""]}], at=1), "without nodes"),
        (changed(steps=[{"what": 1}], at=1), "no text 'what'"),
        (changed(steps="all"), "list of at most"),
        (changed(at=3), "how many of their steps"),
        (changed(at=True), "how many of their steps"),
    ],
)
def test_what_is_no_history_of_the_graph_is_refused_in_a_sentence(document: Any, message: str) -> None:
    with pytest.raises(EditDocumentError, match=message):
        from_document(document, GRAPH)


WHOLE = {"what": "x", "moved": {"accelerator 1": "1..4"}, "pinned": "1..4", "together": ["1..4"]}


def test_what_a_document_says_again_is_held_once() -> None:
    history = from_document(changed(steps=[WHOLE] * MAX_STEPS, at=MAX_STEPS), GRAPH)
    assert len(history.steps) == MAX_STEPS
    for part in ("moved", "pinned", "together"):
        assert len({id(getattr(step, part)) for step in history.steps}) == 1
    assert num_named(history.steps) == 3 * len(GRAPH.nodes)


def test_a_document_names_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"what": "y", "moved": {"accelerator 2": "1..3"}, "pinned": "1..3", "together": ["1..3"]}
    document = changed(base={"accelerator 1": "1..4"}, steps=[WHOLE, other], at=2)
    monkeypatch.setattr(edit_document, "MAX_NAMED", 21)
    assert len(from_document(document, GRAPH).steps) == 2
    monkeypatch.setattr(edit_document, "MAX_NAMED", 16)
    with pytest.raises(EditDocumentError, match="more nodes in all than are read"):
        from_document(document, GRAPH)


def test_words_of_a_document_are_cut_and_made_printable() -> None:
    document = changed()
    document["steps"][0]["what"] = "a\nb" + "x" * 1000
    step = from_document(document, GRAPH).steps[0]
    assert step.what.startswith("a bx")
    assert len(step.what) <= 300
