"""Lesson 3: ideals, what stages are made of, and when there are too many of them."""

from dataclasses import replace
from functools import cache

import streamlit as st

from explorer.elements.html_table import Cell, html_table
from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import branches, loaded, small_graph
from explorer.lessons.graphs import graph_marks, graph_scene, set_text
from explorer.lessons.lattice import MOST_DRAWN, ideal_id, lattice_scene
from explorer.lessons.records import AskChoice, AskNumber, Closing, Exercise, Lesson, Step
from explorer.lessons.scene import Scene, show_scene
from explorer.state import lessons as state
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.quantities import count
from solvers.samples import read_sample
from solvers.teaching.ideals import ideals_of
from solvers.teaching.ideals import num_ideals as num_ideals_of_graph
from solvers.teaching.small import Ideal, SmallProblem

GRAPH = small_graph(
    "Two branches", (2, 3, 2, 4, 3), ((1, 2), (1, 3), (2, 4), (3, 5), (4, 5)), (0.5, 0.5, 1.0, 0.5, 0.0)
)
PROBLEM = SmallProblem(GRAPH, Deployment(2))
IDEALS = ideals_of(PROBLEM)
DIAMOND = SmallProblem(small_graph("Diamond", (1, 1, 1, 1), ((1, 2), (1, 3), (2, 4), (3, 4))), Deployment(2))
TWO_CHAINS = SmallProblem(small_graph("Two chains", (1,) * 6, ((1, 2), (2, 3), (4, 5), (5, 6))), Deployment(2))
FIGURE, BOARD = "ideals_figure", "ideals"
MOST_BRANCHES, MOST_LENGTH = 8, 3
MOST_COUNTED = 5_000


def num_ideals(width: int, length: int) -> int:
    """Return how many ideals branches side by side have: each may be taken up to any length, once node 1 is.

    >>> num_ideals(2, 1) == len(ideals_of(SmallProblem(branches(2), Deployment(1))))
    True
    """
    return int((length + 1) ** width + 2)


def _graph(desk: Desk) -> None:
    if desk.is_revealed:
        return  # the ideals are drawn beside it
    marks, width, height = graph_marks(GRAPH, PROBLEM.deployment, transfers=False)
    show_scene(Scene(width, height, tuple(marks), "A graph of five nodes with two branches"), f"{desk.key}_graph")


def _lattice(desk: Desk) -> None:
    show_scene(lattice_scene(PROBLEM, IDEALS), f"{desk.key}_lattice")


def chosen() -> tuple[Ideal, Ideal]:
    """Return the two ideals that were picked last, the smaller one first."""
    known = state.board(BOARD)
    pair = known if isinstance(known, tuple) and len(known) == 2 and set(known) <= set(IDEALS) else None
    return pair or (frozenset({1}), frozenset({1, 2, 3}))


def _take_pick() -> None:
    ids, _ = state.picked(FIGURE)
    by_id = {ideal_id(ideal): ideal for ideal in IDEALS}
    if ids and ids[-1] in by_id:
        new, (first, second) = by_id[ids[-1]], chosen()
        other = second if second != new else first
        pair = (other, new) if other <= new else (new, other)
        state.remember_board(BOARD, pair)


def stage_scene(small: Ideal, large: Ideal) -> Scene:
    """Return graph and ideals with two ideals marked, and the nodes between them coloured."""
    scene = lattice_scene(
        PROBLEM,
        IDEALS,
        dict.fromkeys(large - small, 0) if small <= large else {},
        {ideal_id(small): "winner", ideal_id(large): "path"},
    )
    picks = tuple(ideal_id(ideal) for ideal in IDEALS)
    alt = f"Two ideals, {set_text(small)} and {set_text(large)}, and the nodes between them"
    return replace(scene, alt=alt, picks=picks, links={})


def _stage(_: Desk) -> None:
    small, large = chosen()
    st.caption("Press ideals in the diagram: the last two count. Their difference is coloured in the graph.")
    show_scene(stage_scene(small, large), FIGURE, _take_pick)
    if small <= large:
        st.markdown(f"{set_text(large)} minus {set_text(small)} is the stage **{set_text(large - small)}**.")
    else:
        st.markdown(
            f"{set_text(small)} does not lie within {set_text(large)}, so they are no beginning and end of one stage. "
            "Press another ideal."
        )


NETWORKS = {
    "gpt2_xl_layer_inference": "GPT-2 XL, by layers",
    "bert_base_operator_inference": "BERT-base, by operators",
    "mixtral_8x7b_layer_inference": "Mixtral 8x7B, eight experts in each block",
    "inception_v3_operator_inference": "Inception-v3, modules of parallel branches",
}


@cache
def network(sample: str) -> DnnGraph:
    """Return a graph that comes with the app."""
    return read_sample(sample)[0]


@cache
def ideals_of_networks() -> tuple[int, ...]:
    """Return how many ideals each of the networks has."""
    return tuple(num_ideals_of_graph(network(sample)) for sample in NETWORKS)


def _networks(_: Desk) -> None:
    rows = [
        [Cell(title), *(Cell(count(value), "number") for value in (len(network(sample).nodes), number))]
        for (sample, title), number in zip(NETWORKS.items(), ideals_of_networks(), strict=True)
    ]
    header = [Cell("Network"), Cell("Nodes", "number"), Cell("Ideals", "number")]
    st.html(html_table("Ideals of real networks", header, rows, width_rem=36))


def _grow(desk: Desk) -> None:
    with st.container(horizontal=True):
        width = int(st.slider("Branches w", 1, MOST_BRANCHES, 3, key=f"{desk.key}_w"))
        length = int(st.slider("Nodes in each branch", 1, MOST_LENGTH, 1, key=f"{desk.key}_length"))
    number = num_ideals(width, length)
    with st.container(horizontal=True):
        st.metric("Nodes", 2 + width * length, width="content")
        st.metric("Ideals", count(number), width="content")
        st.metric("Pairs of ideals, at most", count(number * (number + 1) // 2), width="content")
    if number > MOST_COUNTED:
        st.info("These are too many to list here; the count follows from the formula.")
        return
    problem = SmallProblem(branches(width, length), Deployment(2))
    if number > MOST_DRAWN:
        st.caption("More than 200 ideals are drawn as one bar a size.")
    show_scene(lattice_scene(problem, ideals_of(problem)), f"{desk.key}_grow")


LESSON = Lesson(
    name="ideals",
    title="Ideals: what stages are made of",
    question="A network with branches has no single order. Which sets of nodes can be the stages of a pipeline?",
    minutes=12,
    assumes="Lesson 2: a pipeline is cut into stages.",
    setting={"accelerators": "2", "memory": "none"},
    own=loaded(GRAPH, PROBLEM.deployment),
    steps=(
        Step(
            "What can be done first",
            "In a chain, the first stage is a beginning of the chain. This network has branches: node 2 and node 3 "
            "both "
            "read node 1, and node 5 reads nodes 3 and 4. Data must never flow back to an earlier stage.\n\nSo the "
            "first "
            "stages together must hold, with every node, everything that node needs. Such a set is called an **ideal** "
            "(or down-set).",
            _graph,
            AskChoice(
                "Which of these sets is an ideal?",
                ("{1, 3, 5}", "{1, 2, 4}", "{2, 3}"),
                1,
                right="Node 4 needs 2, node 2 needs 1, and both are in the set.",
                wrong="Node 5 needs 4 as well, and nodes 2 and 3 need 1. In {1, 2, 4} nothing is missing.",
            ),
            "All ideals, ordered by inclusion: from one to the next above it, along a line, one node is added. Point "
            "at an "
            "ideal (or go to it with the Tab key) to see its nodes, and at a node to see the ideals that hold it. "
            "Such a "
            "drawing is called a *Hasse diagram*.",
            _lattice,
        ),
        Step(
            "A stage is the difference of two ideals",
            "A pipeline grows an ideal: nothing is placed, then the first stage, then the first two, and so on until "
            "all "
            "nodes are. Each stage is what lies between two ideals, one within the other.",
            _stage,
            AskChoice(
                "Can {1, 5} be a stage of a pipeline of this network?",
                ("Yes", "No: a path leaves it and comes back"),
                1,
                right="From 1 the data passes through 3 (or 2 and 4) before it comes to 5: it would leave the stage "
                "and "
                "come back.",
                wrong="If 1 and 5 were one stage, the stage of node 3 would have to be both after it and before it.",
            ),
            "A pipeline is therefore a path through the diagram from ∅ at the bottom to all nodes at the top. **To "
            "look "
            "for the best pipeline is to look for the best path.** A step of the path may jump over several lines.",
        ),
        Step(
            "How many are there?",
            "A chain of n nodes has only n + 1 ideals. Branches make more. Take a first node, then w nodes side by "
            "side, "
            "then a node that joins them.",
            None,
            AskNumber(
                "How many ideals are there with w = 4 nodes side by side?",
                float(num_ideals(4, 1)),
                "ideals",
                0.0,
                right="∅, then node 1 with any of the 2⁴ subsets of the four, then all: 1 + 16 + 1.",
                wrong="Once node 1 is in, each of the four may be in or not: 2⁴ = 16 ideals. With ∅ and the full set "
                "that "
                "makes 18.",
            ),
            "With w branches of length L there are (L + 1)ʷ + 2 ideals: each branch is taken up to some length. "
            "A stage lies between two of them, so there are even more pairs of ideals to look at. Move the sliders "
            "until it explodes.",
            _grow,
        ),
        Step(
            "Real networks",
            "Real networks are long and narrow: a transformer is nearly a chain. But some have parts side by side.",
            None,
            AskChoice(
                "Which of these networks has the most ideals?",
                tuple(NETWORKS.values()),
                lambda _: max(range(len(NETWORKS)), key=lambda i: ideals_of_networks()[i]),
                right="In each module several branches run side by side, and their ideals multiply.",
                wrong="Depth only adds ideals, width multiplies them: Inception's modules have branches of several "
                "nodes side by side. Mixtral's eight experts make 2⁸ ideals in a block, but blocks follow one another, "
                "so these add up.",
            ),
            lambda _: (
                "Counted on the app's own graphs, just now. The number of all subsets of the nodes of Inception has "
                f"{len(str(2 ** len(network('inception_v3_operator_inference').nodes)))} digits. Ideals keep the "
                "search finite; lesson 4 searches them."
            ),
            _networks,
        ),
    ),
    closing=Closing(
        "What is an ideal, and what have ideals to do with pipelines?",
        "An ideal is a set of nodes that holds everything its nodes need; a stage is the difference of two nested "
        "ideals, "
        "so a pipeline is a path of growing ideals from nothing to all nodes.",
    ),
    exercises=(
        Exercise(
            "List all ideals of the graph 1 → 2, 1 → 3, 2 → 4, 3 → 4.",
            "∅, {1}, {1, 2}, {1, 3}, {1, 2, 3} and all nodes.",
            lambda _: graph_scene(DIAMOND.graph, DIAMOND.deployment),
            lambda _: lattice_scene(DIAMOND, ideals_of(DIAMOND)),
        ),
        Exercise(
            "How many ideals has a chain of n nodes? And n nodes without any edge?", "n + 1, and 2 to the power n."
        ),
        Exercise(
            "Show that the union and the intersection of two ideals are ideals.",
            "If a node is in the union it is in one of the two, with all that it needs; if it is in the intersection "
            "it "
            "is in both, and so is all that it needs.",
        ),
        Exercise(
            "Two chains of 3 nodes each, side by side and not connected: how many ideals?",
            "4 · 4 = 16: each chain is taken up to some length, independently.",
            lambda _: graph_scene(TWO_CHAINS.graph, TWO_CHAINS.deployment),
            lambda _: lattice_scene(TWO_CHAINS, ideals_of(TWO_CHAINS)),
        ),
    ),
    notes="The diagram of step 1 is worth time: let students predict which ideals light up before you point at a node. "
    "The solvers merge colocated nodes first, which leaves fewer. Ideals of a partial order "
    "form a "
    "distributive lattice (Birkhoff); nothing here needs that.",
)
