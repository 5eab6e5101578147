"""Laws of the fair queue: nothing is lost, and nobody has a second turn before everybody who waits had a first."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from explorer.jobs.fair_queue import MAX_REMEMBERED, FairQueue


@dataclass(frozen=True)
class Piece:
    """Work with a name, for sessions."""

    name: int
    sessions: frozenset[str]


def pieces(*sessions: str) -> list[Piece]:
    return [Piece(i, frozenset({session})) for i, session in enumerate(sessions)]


def queue_of(waiting: list[Piece]) -> FairQueue[Piece]:
    queue: FairQueue[Piece] = FairQueue()
    for piece in waiting:
        queue.add(piece)
    return queue


WAITING = st.lists(st.sets(st.sampled_from("abcd"), min_size=1, max_size=2), max_size=12).map(
    lambda owners: [Piece(i, frozenset(owner)) for i, owner in enumerate(owners)]
)
RUNNING = st.lists(st.sampled_from("abcd"), max_size=6).map(
    lambda owners: [Piece(100 + i, frozenset({owner})) for i, owner in enumerate(owners)]
)


@given(WAITING, RUNNING)
def test_what_is_taken_one_by_one_comes_in_the_order_that_was_told(waiting: list[Piece], running: list[Piece]) -> None:
    queue = queue_of(waiting)
    order = queue.order(running)
    assert sorted(piece.name for piece in order) == [piece.name for piece in waiting]
    taken: list[Piece] = []
    while (piece := queue.take([*running, *taken])) is not None:
        taken.append(piece)
    assert taken == order
    assert len(queue) == 0


@given(st.lists(st.sampled_from("abcd"), max_size=12), RUNNING)
def test_nobody_begins_a_second_before_all_who_wait_have_begun_one(owners: list[str], running: list[Piece]) -> None:
    queue, taken = queue_of(pieces(*owners)), list(running)
    while len(queue):
        waiting = {session for piece in queue for session in piece.sessions}
        counts = Counter(session for piece in taken for session in piece.sessions)
        piece = queue.take(taken)
        assert piece is not None
        (owner,) = piece.sessions
        assert counts[owner] == min(counts[session] for session in waiting)
        taken.append(piece)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_who_asks_for_much_has_its_own_work_done_in_order(owners: list[str]) -> None:
    order = queue_of(pieces(*owners)).order([])
    for session in "abc":
        mine = [piece.name for piece in order if session in piece.sessions]
        assert mine == sorted(mine)


def test_one_slot_goes_round() -> None:
    """Each piece is over when the next begins: turns alternate although one session asked for all of its own first."""
    queue, served = queue_of(pieces("sweep", "sweep", "sweep", "you", "you")), []
    while (piece := queue.take([])) is not None:
        served.append(*piece.sessions)
    assert served == ["sweep", "you", "sweep", "you", "sweep"]


def test_a_long_life_is_remembered_in_a_bounded_way() -> None:
    queue: FairQueue[Piece] = FairQueue()
    for i in range(MAX_REMEMBERED + 10):
        queue.add(Piece(i, frozenset({f"session {i}"})))
        assert queue.take([]) is not None
    assert len(queue._served) == MAX_REMEMBERED
