"""Lesson 4: the dynamic program, step by step, on a chain, on ideals, with a CPU and with memory; then labels."""

from dataclasses import dataclass
from functools import cache

import streamlit as st

from explorer.elements.html_table import Cell as HtmlCell
from explorer.elements.html_table import html_table
from explorer.lessons.desk import Desk
from explorer.lessons.dp_table import dp_scene
from explorer.lessons.example_graphs import branches, chain_graph, loaded, small_graph
from explorer.lessons.graphs import graph_scene
from explorer.lessons.kept import Kept, Network, kept_on, kept_text, show_kept_table
from explorer.lessons.label_film import label_scene
from explorer.lessons.parts import show_check, show_graph, show_graph_before
from explorer.lessons.records import AskChoice, AskNumber, Closing, Draw, Exercise, Lesson, Step
from explorer.lessons.scene import show_scene
from explorer.state.records import LoadedGraph
from solvers.model.deployment import Deployment
from solvers.model.graph import DnnGraph
from solvers.quantities import count, number
from solvers.teaching.dynamic_program import State, filled_cells, solved_table
from solvers.teaching.ideals import ideals_of
from solvers.teaching.labels import Fate, best_label, label_steps
from solvers.teaching.small import SmallProblem

GB = 1e9
CHAIN = chain_graph("Five layers", (4, 3, 2, 5, 1), (0.5, 2.0, 0.5, 1.5, 0.0), 5 * GB)
LATTICE = small_graph(
    "Two branches", (2, 3, 2, 4, 3), ((1, 2), (1, 3), (2, 4), (3, 5), (4, 5)), (0.5, 0.5, 1.0, 0.5, 0.0)
)
SLOW_CHAIN = chain_graph("Four layers, and a CPU", (4, 3, 2, 5), 0.5, 5 * GB, cpu_ms=(9, 12, 5, 15))
UNEVEN = chain_graph("Five layers, the last ones slow", (1, 1, 2, 5, 4), 0.5, 5 * GB)
WIDTHS = (2, 3, 4, 5)
"""Numbers of branches on which candidates and labels are counted."""


@cache
def problem_on(graph_name: str, accelerators: int, cpus: int = 0, memory: float | None = None) -> SmallProblem:
    """Return a problem of this lesson on these devices."""
    graph = {graph.name: graph for graph in (CHAIN, LATTICE, SLOW_CHAIN, UNEVEN)}[graph_name]
    return SmallProblem(graph, Deployment(accelerators, cpus, memory))


def value_of(problem: SmallProblem, nodes: frozenset[int], accelerators: int, cpus: int = 0) -> float | None:
    """Return the value of a cell."""
    return solved_table(problem)[State(nodes, accelerators, cpus)].value_ms


def setting_of(problem: SmallProblem) -> dict[str, str]:
    """Return the devices of a problem as an address of Explore says them."""
    memory = problem.deployment.memory_bytes
    return {
        "accelerators": str(problem.deployment.num_accelerators),
        "cpus": str(problem.deployment.num_cpus),
        "memory": "none" if memory is None else repr(memory / 2**30),
    }


def _film(desk: Desk, problem: SmallProblem) -> None:
    show_scene(dp_scene(problem, film=desk.key), f"{desk.key}_film")
    cells = solved_table(problem)
    last = State(problem.nodes, problem.deployment.num_accelerators, problem.deployment.num_cpus)
    desk.own = loaded(problem.graph, problem.deployment)
    show_check(desk, setting_of(problem), cells[last].value_ms)


def _graph(graph: DnnGraph, num_accelerators: int) -> Draw:
    return lambda desk: show_graph(desk, graph, Deployment(num_accelerators), None)


ON_CHAIN = problem_on(CHAIN.name, 3)
ON_LATTICE = problem_on(LATTICE.name, 2)
WITH_CPU = problem_on(SLOW_CHAIN.name, 1, 1)
WITHOUT_LIMIT = problem_on(UNEVEN.name, 3)
WITH_MEMORY = problem_on(UNEVEN.name, 3, 0, 10 * GB)
FOR_LABELS = problem_on(LATTICE.name, 3)
BY_HAND = SmallProblem(chain_graph("Three layers", (2, 3, 1)), Deployment(2))


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the table and the labels look at on a graph."""

    ideals: int
    cells: int
    candidates: int
    made: int
    kept: int

    @property
    def made_share(self) -> float:
        """Labels made in percent of candidates compared."""
        return 100 * self.made / self.candidates

    @property
    def kept_share(self) -> float:
        """Labels kept in percent of candidates compared."""
        return 100 * self.kept / self.candidates


def counts(problem: SmallProblem) -> Counts:
    """Return what the table and the labels look at."""
    cells, steps = list(filled_cells(problem)), list(label_steps(problem))
    kept = sum(step.fate is Fate.KEPT for step in steps)
    return Counts(len(ideals_of(problem)), len(cells), sum(len(cell.candidates) for cell in cells), len(steps), kept)


@cache
def counts_of(width: int) -> Counts:
    """Return the counts for so many branches of two layers, on three accelerators."""
    return counts(SmallProblem(branches(width, 2), Deployment(3)))


def label_share() -> float:
    """Return labels made on the graph of the film as a share of candidates compared, in percent."""
    return counts(FOR_LABELS).made_share


def _labels(desk: Desk) -> None:
    show_scene(label_scene(FOR_LABELS, film=desk.key), f"{desk.key}_labels")
    desk.own = loaded(LATTICE, FOR_LABELS.deployment)
    best = best_label(FOR_LABELS, label_steps(FOR_LABELS, from_line=False))
    show_check(desk, setting_of(FOR_LABELS), None if best is None else best.value_ms)


def _counted(_: Desk) -> None:
    names = ("Cells", "Candidates", "Labels made", "Labels kept", "Kept, of candidates")
    rows = []
    for width in WIDTHS:
        one = counts_of(width)
        texts = [count(value) for value in (one.cells, one.candidates, one.made, one.kept)]
        texts.append(f"{number(one.kept_share)} %")
        rows.append([HtmlCell(f"{width} branches"), *(HtmlCell(text, "number") for text in texts)])
    header = [HtmlCell("Of two layers, on three accelerators"), *(HtmlCell(name, "number") for name in names)]
    st.html(html_table("What the table and the labels look at", header, rows, width_rem=58))


COUNTED = (
    Network("The network of step 4", 3, LATTICE),
    Network("5 branches of two layers", 3, branches(5, 2)),
    Network("6 branches of three layers", 3, branches(6, 3)),
    Network("BERT base, its operators", 3, sample="bert_base_operator_inference"),
    Network("Inception v3, its operators", 3, sample="inception_v3_operator_inference"),
)
"""Networks of growing width on which the cells that the production solver keeps are counted."""


def kept(desk: Desk) -> list[Kept] | None:
    """Count what the production solver keeps on each of these networks; None while it is at work."""
    found = [kept_on(desk, network) for network in COUNTED]
    known = [one for one in found if one is not None]
    return known if len(known) == len(COUNTED) else None


def _kept_text(desk: Desk) -> str | None:
    known = kept(desk)
    return None if known is None else kept_text(known)


def _kept_table(desk: Desk) -> None:
    known = kept(desk)
    if known is not None:
        show_kept_table(known)


def _own() -> LoadedGraph:
    return loaded(CHAIN, ON_CHAIN.deployment)


A, B = frozenset({1, 2}), frozenset({1, 2, 3})

LESSON = Lesson(
    name="dynamic_program",
    title="The dynamic program, step by step",
    question="How can the best pipeline be found for certain, without trying all of them?",
    minutes=20,
    assumes="Lessons 2 and 3: loads, and ideals.",
    setting={"accelerators": "3", "memory": "none"},
    own=_own(),
    steps=(
        Step(
            "One number per beginning",
            "Five layers on three accelerators. Instead of asking for the best plan at once, ask smaller questions:\n\n"
            "> **D(I, j)** is the smallest possible largest load when exactly the layers of I are placed, on j "
            "accelerators.\n\nI is a beginning of the chain. The answer to the whole problem is D(all layers, 3). With "
            "one accelerator there is nothing to decide: D(I, 1) is the load of I.",
            _graph(CHAIN, 3),
            AskNumber(
                "What is D({1, 2}, 1): layers 1 and 2 on one accelerator?",
                value_of(ON_CHAIN, A, 1) or 0.0,
                "ms",
                right="4 + 3 ms of compute, and 2 ms to send the output of layer 2 to layer 3.",
                wrong="4 + 3 ms of compute, and the output of layer 2 has to be sent to layer 3, which is elsewhere: "
                "2 ms.",
            ),
            "Everything else follows from smaller cases.",
        ),
        Step(
            "The last device decides",
            "Take D({1, 2, 3}, 2). The second accelerator holds some last layers of {1, 2, 3}, the first one what is "
            "before them. There are only four ways to say which: the second one holds {3}, {2, 3}, {1, 2, 3}, or "
            "nothing. For each, the largest load is the larger of two numbers:\n\n"
            "> D(what is before, 1) — already known — and the load of the second accelerator.\n\n"
            "The best of the four is D({1, 2, 3}, 2):\n\n"
            "> **D(I, j) = min over I′ within I of max( D(I′, j − 1), load of I − I′ )**",
            _graph(CHAIN, 3),
            AskNumber(
                "What is D({1, 2, 3}, 2)?",
                value_of(ON_CHAIN, B, 2) or 0.0,
                "ms",
                right="The first accelerator holds layer 1 (4 + 0.5 ms), the second one layers 2 and 3 "
                "(0.5 + 3 + 2 + 0.5 ms).",
                wrong="Compare: {1} and {2, 3} give max(4.5, 6); {1, 2} and {3} give max(9, 4.5); all on one gives "
                "9.5.",
            ),
            "Why is it enough to remember **one number** for what is before, and not the plan? Because whatever comes "
            "after sees only which layers are still to be placed and how many devices are left. If the layers before "
            "could be placed better, the whole plan would be no worse for it. This is the *principle of optimality* "
            "(Bellman), and the reason why the answer is certain.",
        ),
        Step(
            "The table fills",
            "Now the whole table: a column for each beginning of the chain, a row for each number of accelerators, "
            "acc. for short (on a narrow screen the other way round).",
            None,
            AskChoice(
                "In which order must the cells be filled?",
                (
                    "Any order",
                    "Rows with fewer devices first",
                    "From the full set of layers backwards",
                ),
                1,
                right="D(I, j) looks at cells with j − 1 devices, so those must be there.",
                wrong="D(I, j) looks at cells with j − 1 devices, so those must be there first.",
            ),
            "Press **Play**, or step with the buttons and the slider; the slider takes the arrow keys. The cell being "
            "filled has a thick border, the cells it looks at a dashed one, the winner a solid one, and an arrow from "
            "the winner stays. At the end the arrows are followed back, and that is the plan. Step back to see any "
            "cell again.",
            lambda desk: _film(desk, ON_CHAIN),
        ),
        Step(
            "The same on ideals",
            "A network with branches has no beginnings, but it has ideals, and nothing else changes: the table has an "
            "ideal where it had a beginning, and I′ runs over the ideals within I.",
            show_graph_before(LATTICE, Deployment(2)),
            AskNumber(
                "How many ideals does the table have for this network?",
                float(len(ideals_of(ON_LATTICE))),
                "ideals",
                0.0,
                right="You saw them in lesson 3.",
                wrong="They are ∅, {1}, {1, 2}, {1, 3}, {1–3}, {1, 2, 4}, {1–4} and all.",
            ),
            "",
            lambda desk: _film(desk, ON_LATTICE),
        ),
        Step(
            "With a CPU",
            "Let there be one accelerator and one CPU. A CPU is slower, but pays nothing for transfers in this model, "
            "since all tensors pass through its memory. A row now says how many of each are used, and the last "
            "device may "
            "be either:\n\n"
            "> D(I, j, c) = min over I′ of max( D(I′, j − 1, c), load of I − I′ ) **and** "
            "max( D(I′, j, c − 1), CPU time of I − I′ )",
            show_graph_before(SLOW_CHAIN, Deployment(1)),
            AskNumber(
                "On the accelerator alone the four layers take 14 ms. On the CPU they take 9, 12, 5 and 15 ms. What "
                "is the "
                "best largest load with both?",
                value_of(WITH_CPU, WITH_CPU.nodes, 1, 1) or 0.0,
                "ms",
                right="The CPU takes the first layer, the accelerator the rest and one transfer.",
                wrong="The CPU can take the first layer (9 ms); the accelerator then has 3 + 2 + 5 ms and a transfer.",
            ),
            "The table has a row for every mix of devices.",
            lambda desk: _film(desk, WITH_CPU),
        ),
        Step(
            "With too little memory",
            "Another chain of five layers, 5 GB each, on three accelerators. Each now holds 10 GB: two layers. A "
            "stage that "
            "does not fit is simply no candidate.",
            show_graph_before(UNEVEN, Deployment(3)),
            AskChoice(
                "What does the limit do to D({1, 2, 3}, 1)?",
                ("It stays as it is", "It grows", "There is no such plan, the cell stays empty"),
                2,
                right="Three layers of 5 GB do not fit on one accelerator of 10 GB.",
            ),
            lambda _: (
                f"Without the limit the best plan takes {number(value_of(WITHOUT_LIMIT, WITHOUT_LIMIT.nodes, 3))} "
                f"ms, with it "
                f"{number(value_of(WITH_MEMORY, WITH_MEMORY.nodes, 3))} ms. A dash is a cell without a plan."
            ),
            lambda desk: _film(desk, WITH_MEMORY),
        ),
        Step(
            "Most of the table never matters",
            lambda _: (
                f"The network of step 4, now on three accelerators: its table has {counts(FOR_LABELS).cells} cells and "
                f"compares {counts(FOR_LABELS).candidates} candidates. Most of them cannot lead to the best plan. "
                "**Labels** keep only what can: a label is one way to have come to an ideal, with the devices it has "
                "used and its largest load so far. A label is dropped if\n\n"
                "- a plan is known that is no worse;\n"
                "- the work that is left, shared perfectly by the devices left, takes as long as a known plan;\n"
                "- another label at the same ideal has used no more devices and has no larger load. It **dominates**: "
                "whatever comes next, it does as well.\n\n"
                "A first plan is cheap: put the nodes in any one order that respects the arrows, and cut that chain."
            ),
            show_graph_before(LATTICE, Deployment(3)),
            AskNumber(
                "With such a plan known from the beginning, how many labels are made, in percent of the candidates of "
                "the table?",
                lambda _: label_share(),
                "%",
                0.5,
                right="Anything near this is a good guess.",
                wrong="Most labels are dropped at once, so few are there to be extended.",
            ),
            "The film begins without a plan, so that you see each of the reasons. A number is a label that is kept, ✕ "
            "one that was dropped, an empty cell one that nobody asked for. The answer is as certain as that of the "
            "table, because a label is dropped only with a reason why nothing is lost.",
            _labels,
        ),
        Step(
            "What is kept of large networks",
            "The same is counted here, with a first plan, as branches are added. Making a label is a comparison; only "
            "those that are kept take memory and lead on, and their share falls as networks grow. The solver of this "
            "app works with labels like these, and compares them within a stage, too.",
            _counted,
            AskChoice(
                "Inception v3 has many branches. Of how many cells of its table does the solver keep one, on three "
                "accelerators?",
                ("Of two", "Of ten", "Of more than a hundred"),
                2,
                right="It was counted just now.",
                wrong="The more branches there are, the fewer of the ideals lie on a way to a good plan.",
            ),
            _kept_text,
            _kept_table,
        ),
    ),
    closing=Closing(
        "Why is the plan that the table leads back to the best pipeline, although far fewer plans were looked at than "
        "there are?",
        "Because the best way to place an ideal on j devices contains a best way to place a smaller ideal on j − 1: "
        "one "
        "number per ideal and number of devices is all that later decisions need, and each cell compares every "
        "possible "
        "last stage.",
    ),
    exercises=(
        Exercise(
            "Fill the table for the chain of times 2, 3, 1, whose transfers cost nothing, on two accelerators: a row "
            "for each number of accelerators, a column for each ideal.",
            "One accelerator: 0, 2, 5, 6. Two accelerators: 0, 2, 3, 4. The plan is {1} and {2, 3}.",
            lambda _: graph_scene(BY_HAND.graph, BY_HAND.deployment),
            lambda _: dp_scene(BY_HAND, film="by hand"),
        ),
        Exercise(
            "A network has N ideals and there are k accelerators. How many cells has the table, and how many "
            "candidates "
            "are compared at most?",
            "N (k + 1) cells, and at most N candidates for each: about k N² in all.",
        ),
        Exercise(
            "How does the recurrence change if a plan is judged by the sum of the loads instead of the largest one?",
            "max becomes +: D(I, j) = min over I′ within I of D(I′, j − 1) + load of I − I′.",
        ),
        Exercise(
            "Two labels at one ideal: (2 devices, 7 ms) and (3 devices, 6 ms). Does one dominate the other?",
            "No. The first has a device more left, the second a smaller load; either may lead to the best plan.",
        ),
    ),
    notes="Do the first two steps on the blackboard, by hand. In step 3 stop the film at a cell before it is filled "
    "and let "
    "the class fill it. The recurrence is that of Tarnawski et al. (NeurIPS 2020), section 4. For a 45-minute class "
    "leave "
    "out the CPU and the memory.",
)
