"""Lesson 10: eight graphs to place by hand, against the solver; for one, or for two in one room."""

import csv
import io
from dataclasses import dataclass, replace

import streamlit as st

from explorer.lessons.board import Judged, is_decided, judged, placement_on, show_board, take_over
from explorer.lessons.desk import Desk
from explorer.lessons.example_graphs import branches, chain_graph, loaded, small_graph
from explorer.lessons.graphs import set_text
from explorer.lessons.records import Closing, Draw, Exercise, Lesson, Step
from explorer.state import lessons as state
from explorer.state.records import LoadedGraph
from explorer.words.wording import plain, proof
from solvers.model.costs import split_costs
from solvers.model.deployment import Deployment
from solvers.model.result import SolveResult
from solvers.quantities import milliseconds

HINT_COSTS = 10
"""Points that a hint takes away."""
MOST_HINTS = 2
PIPELINE = {"memory": "none", "cpus": "0"}
FREE = {**PIPELINE, "splits": "free"}


@dataclass(frozen=True, slots=True)
class Round:
    """A graph to place: how many accelerators there are, in the words of an address, and what is difficult about it."""

    title: str
    own: LoadedGraph
    setting: dict[str, str]
    text: str


def _round(title: str, own: LoadedGraph, setting: dict[str, str], text: str) -> Round:
    k = own.deployment.num_accelerators
    return Round(title, own, {**setting, "accelerators": str(k)}, text)


GB = 1e9
WITNESS = small_graph("Two chains", (2, 3, 1, 2), ((1, 2), (3, 4)))
INCEPTION = small_graph(
    "A module with branches",
    (2, 4, 3, 2, 5, 1, 3, 4, 2),
    ((1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 6), (6, 7), (5, 8), (7, 8), (8, 9)),
    (1.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 1.0, 0.0),
)
SKIPS = small_graph(
    "Skip connections",
    (3, 3, 4, 5, 4, 3, 3),
    ((1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (1, 7), (2, 6), (3, 5)),
    (1.5, 1.0, 0.5, 0.5, 0.5, 0.5, 0.0),
)
HEAVY = chain_graph("Seven layers and little memory", (1, 2, 1, 6, 2, 5, 3), 0.5, 5 * GB)
MIXED = chain_graph("With a CPU", (3, 5, 2, 4, 6, 2), (1, 2, 0.5, 1, 1, 0), cpu_ms=(6, 20, 9, 12, 30, 8))

ROUNDS = (
    _round(
        "1: a chain",
        loaded(chain_graph("A chain", (4, 3, 2, 5, 1, 3), 0.5), Deployment(3)),
        PIPELINE,
        "Six layers on three accelerators, as a pipeline: data must not flow back to an earlier stage.",
    ),
    _round(
        "2: tensors of different sizes",
        loaded(chain_graph("Uneven tensors", (4, 3, 2, 5, 1, 3), (2, 1, 2, 3, 0.5, 0)), Deployment(3)),
        PIPELINE,
        "A pipeline again. You know this chain from lesson 2.",
    ),
    _round(
        "3: two chains",
        loaded(WITNESS, Deployment(2)),
        FREE,
        "Any placement is allowed, also one in which data flows both ways. Transfers cost nothing.",
    ),
    _round(
        "4: branches",
        loaded(branches(3, 1), Deployment(2)),
        PIPELINE,
        "Three branches side by side, all nodes identical, as a pipeline on two accelerators.",
    ),
    _round(
        "5: skip connections",
        loaded(SKIPS, Deployment(3)),
        PIPELINE,
        "As in a U-Net, early layers are read again near the end: every cut pays for those that cross it.",
    ),
    _round(
        "6: little memory",
        loaded(HEAVY, Deployment(3, 0, 16 * GB)),
        {"cpus": "0", "memory": "14.9011611938"},
        "Every layer takes 5 GB and an accelerator holds 16 GB: three layers. A pipeline.",
    ),
    _round(
        "7: with a CPU",
        loaded(MIXED, Deployment(2, 1)),
        {"memory": "none", "cpus": "1"},
        "Two accelerators and a CPU, which is slow but pays nothing for transfers. A pipeline.",
    ),
    _round(
        "8: anything goes",
        loaded(INCEPTION, Deployment(3)),
        FREE,
        "Nine nodes on three accelerators, any placement allowed: 3⁹ = 19,683 of them.",
    ),
)


HOW_TO = (
    "Choose a device, then click nodes or drag across them; or go to a node with Tab and press the digit of a device. "
    "Score: 100 times the optimum, divided by your time per micro-batch. You submit once: the first plan counts, since "
    "afterwards the solver's answer is shown."
)
AFTERWARDS = "Go on trying if you like, now that you know the optimum; the points stay."


def score(optimum_ms: float, own_ms: float, hints: int) -> int:
    """Return the points of a plan: the optimum as a share of it, less what hints cost.

    >>> score(8.0, 10.0, 0), score(8.0, 8.0, 1), score(1.0, 50.0, 2)
    (80, 90, 0)
    """
    return max(0, round(100 * optimum_ms / own_ms) - HINT_COSTS * hints) if own_ms else 100


def board_name(number: int, player: int) -> str:
    """Return under which name the placement of a player is kept; rounds and players count from 1."""
    return f"beat_{number}_{player}"


def _draw(number: int) -> Draw:
    def draw(desk: Desk) -> None:
        _take_results(desk)
        one = ROUNDS[number - 1]
        desk.own = one.own
        with st.container(key="lesson_more"):
            st.markdown(AFTERWARDS if _is_over(number) else HOW_TO)
        if _is_over(number):
            _say_who_wins(desk, one, number)
        elif not _is_duel(desk, number):
            _player(desk, one, number, 1, "")
            _results(desk)
            return
        with st.container(key="duel"):  # one board above the other where a window is too narrow for two
            for player, column in enumerate(st.columns(2), start=1):
                with column:
                    _player(desk, one, number, player, f"Player {player}", board_name(number, 3 - player))
        if not _is_over(number):
            st.caption(
                "The first plan that each submits counts. The solver's answer and the points are shown when both have "
                "submitted; until then there are no hints, and those taken before count for both."
            )
        _results(desk)

    return draw


def _is_duel(desk: Desk, number: int) -> bool:
    """Ask whether two play; once somebody has submitted that stands, as the answer may be known to both."""
    first, second = (placement_on(board_name(number, player)) for player in (1, 2))
    was_duel = second.submitted is not None or bool(first.awaits)
    is_begun = first.submitted is not None or second.submitted is not None
    chosen = st.toggle(
        "Duel: two players, two boards",
        was_duel,
        key=f"{desk.key}_duel",
        help="For two in one room, on one screen. It cannot be changed once a plan was submitted.",
        disabled=is_begun,
    )
    return was_duel if is_begun else chosen


def _take_results(desk: Desk) -> None:
    """Take over the boards that came with the address."""
    rounds = {board_name(number, player): one for number, one in enumerate(ROUNDS, start=1) for player in (1, 2)}
    for result in state.take_shared():
        if (one := rounds.get(result.name)) is not None:
            desk.own = one.own
            take_over(result, desk.subject(one.setting), MOST_HINTS)


def _player(desk: Desk, one: Round, number: int, player: int, title: str, other: str = "") -> None:
    """Draw the board of a player; `other` names the one of the other player of a duel."""
    name = board_name(number, player)
    # What can be compared is on one scale; before a duel is over, it would move with every step of the other player.
    facing = judged(desk.subject(one.setting), placement_on(other)) if other and _is_over(number) else None
    outcome, standing = show_board(desk, one.setting, name, title, 0.0 if facing is None else facing.value_ms)
    placed = placement_on(name)
    has_submitted = placed.submitted is not None
    is_valid = outcome is not None and not outcome.violations
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Submit",
            key=f"{name}_submit",
            type="primary",
            disabled=not is_valid or has_submitted,
            on_click=_submit,
            args=(name, outcome, other),
            help="Once for each round: the first plan that you submit counts.",
        )
        if not other:
            st.button(
                f"Hint (−{HINT_COSTS} points)",
                key=f"{name}_hint",
                disabled=placed.hints >= MOST_HINTS or has_submitted,
                on_click=_hint,
                args=(name,),
            )
        st.button("Clear the board", key=f"{name}_clear", on_click=_clear, args=(name,), type="tertiary")
        st.markdown(standing, width="content")
    if placed.submitted_ms is not None and not is_decided(placed):
        st.info(
            f"Submitted: {plain(milliseconds(placed.submitted_ms))}. The solver's answer is shown when both players "
            "have submitted.",
            icon=":material/hourglass:",
        )
    result = desk.answer(one.setting) if placed.hints or is_decided(placed) else None
    if result is None or result.value_ms is None:
        return
    for hint in _hints(one, result)[: placed.hints]:
        st.info(plain(hint), icon=":material/lightbulb:")
    if placed.submitted_ms is not None and is_decided(placed):
        points = score(result.value_ms, placed.submitted_ms, placed.hints)
        own = f"**{points} points** for {plain(milliseconds(placed.submitted_ms))}, the plan that you submitted first."
        has_met = _meets(placed.submitted_ms, result.value_ms)
        # In a duel the solver's plan is the same for both, and said once.
        said = own if other else f"{own} {_last_word(result, 'You have found the optimum' if has_met else '')}"
        st.success(said, icon=":material/trophy:" if has_met else ":material/target:")
        if not has_met and not other:
            st.caption(AFTERWARDS)


def _meets(own_ms: float, optimum_ms: float) -> bool:
    return abs(own_ms - optimum_ms) <= 1e-6 * optimum_ms


def _last_word(result: SolveResult, found: str) -> str:
    """Return what the solver says; `found` says by whom the optimum was found, and is empty where nobody did."""
    said = f"{found}. Nobody can do better:" if found else "The solver has a better plan:"
    return f"{said} {plain(milliseconds(result.value_ms))}, {proof(result)}."


def _hints(one: Round, result: SolveResult) -> list[str]:
    """Return the hints of a round, the lesser one first."""
    hints = [f"The optimum is {milliseconds(result.value_ms)}."]
    if result.split is not None:
        costs = split_costs(one.own.graph, one.own.deployment, result.split)
        members = result.split.on(one.own.deployment).devices[costs.bottleneck]
        hints.append(f"In one optimal plan the busiest device holds {set_text(members)}.")
    return hints


def _submit(name: str, outcome: Judged, other: str) -> None:
    """Keep what stands on a board as what counts; of two who see one screen, hints count for both."""
    placed = placement_on(name)
    if other:
        placed = replace(placed, hints=max(placed.hints, placement_on(other).hints))
    state.remember_board(name, placed.after_submitting(outcome.value_ms, other))


def _hint(name: str) -> None:
    placed = placement_on(name)
    state.remember_board(name, replace(placed, hints=placed.hints + 1))


def _clear(name: str) -> None:
    state.remember_board(name, replace(placement_on(name), device_of={}))


def _is_over(number: int) -> bool:
    """Whether both players of a duel have submitted."""
    return all(placement_on(board_name(number, player)).submitted is not None for player in (1, 2))


def _say_who_wins(desk: Desk, one: Round, number: int) -> None:
    """Say who has won a duel that is over, and what the solver says to it."""
    boards = [placement_on(board_name(number, player)) for player in (1, 2)]
    result = desk.answer(one.setting)
    if result is None or result.value_ms is None:
        return
    first, second = (score(result.value_ms, placed.submitted_ms or 0.0, placed.hints) for placed in boards)
    winner = "Nobody wins, it is a draw" if first == second else f"Player {1 if first > second else 2} wins"
    has_met = any(_meets(placed.submitted_ms or 0.0, result.value_ms) for placed in boards)
    said = _last_word(result, "The optimum is found" if has_met else "")
    st.success(f"**{winner}**: {first} to {second} points. {said}", icon=":material/trophy:")


def results() -> list[dict[str, str]]:
    """Return what was submitted first on all boards: round, player, time in ms, hints and the placement."""
    rows: list[dict[str, str]] = []
    for number, one in enumerate(ROUNDS, start=1):
        for player in (1, 2):
            placed = placement_on(board_name(number, player))
            if placed.submitted is not None and is_decided(placed):
                rows.append(
                    {
                        "round": one.title,
                        "player": str(player),
                        "first_submission_ms": f"{placed.submitted_ms:g}",
                        "hints": str(placed.hints),
                        "placement": " ".join(f"{v}:{d + 1}" for v, d in sorted(placed.submitted.items())),
                    }
                )
    return rows


def results_csv() -> bytes:
    """Return what was submitted as a table that a class can collect."""
    target = io.StringIO()
    writer = csv.DictWriter(target, ["round", "player", "first_submission_ms", "hints", "placement"])
    writer.writeheader()
    writer.writerows(results())
    return target.getvalue().encode()


def _results(desk: Desk) -> None:
    if results():
        st.download_button(
            "Results (CSV)",
            results_csv(),
            "beat_the_solver.csv",
            "text/csv",
            key=f"{desk.key}_results",
            on_click="ignore",
        )
        st.caption("The address of this page holds the results too: whoever opens it sees these boards.")


LESSON = Lesson(
    name="beat_the_solver",
    has_results=True,
    title="Beat the solver",
    question="How close do you come to the optimum by hand? Eight graphs, each harder than the last. The "
    "first plan that you submit in a round counts.",
    minutes=30,
    assumes="Lesson 2; lesson 6 for placements that are no pipelines.",
    setting=ROUNDS[0].setting,
    own=ROUNDS[0].own,
    steps=tuple(
        Step(
            one.title[3].upper() + one.title[4:],
            f"**Round {one.title}.** {one.text}",
            _draw(number),
            is_wide=True,
        )
        for number, one in enumerate(ROUNDS, start=1)
    ),
    closing=Closing(
        "You cannot improve your plan any more by moving one node. Is it optimal?",
        "Not necessarily: several nodes may have to move at once. Only a proof, such as a lower bound that the plan "
        "meets, says that no plan is better.",
    ),
    exercises=(
        Exercise(
            "Give a chain and a placement of it that no single moved node improves, although a better one exists.",
            "Times 3, 3, 2, 2, 2 on two devices, any placement allowed, transfers at no cost: {3, 3} and {2, 2, 2} "
            "(6 and 6) is optimal; from {3, 2, 2} and {3, 2} (7 and 5) no single move gives less than 7.",
        ),
    ),
    notes="Let pairs play the duel on one screen. Ask those who reach 100 points how they knew when to stop: they "
    "did not, "
    "the solver's bound did. The results can be downloaded as a table; it has the first plan that each submitted. A "
    "browser plays each round once for points, so the next pair needs a private window.",
)
