"""What runs at a time, by a clock of the test's own: live plans are not held up, long work yields, nothing is lost."""

import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.jobs.record import Ending, Place, Work
from explorer.jobs.slots import LIVE_SLICE_S, LONG_SLICE_S, SLICE_S, Do, Slots, Step


@dataclass(eq=False, slots=True, kw_only=True)
class Piece(Work):
    """Work of one session; `pausable` as a solve is and some calls are not."""

    session: str = "me"
    pausable: bool = True

    @property
    def sessions(self) -> frozenset[str]:
        return frozenset({self.session})

    @property
    def can_pause(self) -> bool:
        return self.pausable


@dataclass
class Machine:
    """Slots, and what the pool does with their steps; time passes only by `passes`."""

    slots: Slots
    steps: list[Step] = field(default_factory=list)

    def tend(self) -> list[Step]:
        new: list[Step] = []
        while (step := self.slots.next_step()) is not None:
            new.append(step)
            if step.do is Do.BEGIN:
                step.work.began_s = time.monotonic()
            elif step.do is Do.PAUSE:
                step.work.ending = Ending.PAUSED
        self.steps += new
        return new

    def ask(self, session: str = "me", *, is_live: bool = False, pausable: bool = True, limit_s: float = 60.0) -> Piece:
        work = Piece(number=0, session=session, is_live=is_live, pausable=pausable, limit_s=limit_s)
        self.slots.add(work)
        self.tend()
        return work

    def passes(self, seconds: float) -> None:
        for work in self.slots:
            assert work.began_s is not None
            work.began_s -= seconds
        self.tend()

    def ends(self, work: Work) -> None:
        self.slots.remove(work)
        work.leave()
        self.tend()

    def paused(self, work: Work) -> None:
        """The process of a paused piece has ended: it waits again."""
        self.slots.remove(work)
        work.pause()
        self.slots.add(work)
        self.tend()


@pytest.fixture
def machine() -> Machine:
    return Machine(Slots(num_live=1, num_asked=2, num_long=2))


def places(*works: Work) -> list[Place]:
    return [work.place for work in works]


def test_live_plans_begin_at_once_however_much_was_asked_for(machine: Machine) -> None:
    long = [machine.ask(f"user {i}") for i in range(6)]
    assert places(*long) == [Place.ASKED] * 2 + [Place.WAITING] * 4
    live = machine.ask("you", is_live=True)
    assert live.place is Place.LIVE
    assert machine.ask("him", is_live=True).place is Place.WAITING
    machine.ends(live)
    assert machine.slots.waiting[0].place is Place.WAITING
    assert [work.place for work in machine.slots].count(Place.LIVE) == 1


def test_a_free_slot_serves_a_live_plan_too(machine: Machine) -> None:
    assert places(machine.ask(is_live=True), machine.ask(is_live=True)) == [Place.LIVE, Place.ASKED]


def test_a_live_plan_that_takes_long_is_live_no_more(machine: Machine) -> None:
    slow = machine.ask("me", is_live=True)
    others = [machine.ask("me"), machine.ask("me")]
    machine.passes(LIVE_SLICE_S)
    assert slow.place is Place.LIVE
    quick = machine.ask("you", is_live=True)
    assert places(slow, quick, *others) == [Place.LONG, Place.LIVE, Place.ASKED, Place.ASKED]


def test_long_work_yields_to_another_session_only(machine: Machine) -> None:
    first, second = machine.ask("me"), machine.ask("me")
    third = machine.ask("me")
    machine.passes(10 * SLICE_S)
    assert places(first, second, third) == [Place.ASKED, Place.ASKED, Place.WAITING]
    yours = machine.ask("you")
    assert yours.place is Place.ASKED
    assert sorted(place.name for place in places(first, second)) == ["ASKED", "LONG"]


def test_nothing_yields_before_its_slice_is_over(machine: Machine) -> None:
    machine.ask("me")
    machine.ask("me")
    yours = machine.ask("you")
    machine.passes(SLICE_S - 1)
    assert yours.place is Place.WAITING
    machine.passes(1.5)
    assert yours.place is Place.ASKED


def test_where_there_is_no_more_room_the_longest_is_paused_and_goes_on_later(machine: Machine) -> None:
    works = [machine.ask(f"user {i}") for i in range(5)]
    machine.passes(SLICE_S)  # both yield, the next two begin
    assert places(*works) == [Place.LONG, Place.LONG, Place.ASKED, Place.ASKED, Place.WAITING]
    machine.passes(SLICE_S)  # they have had their slice, but those beside them have not worked for long enough yet
    assert works[4].place is Place.WAITING
    machine.passes(LONG_SLICE_S - 2 * SLICE_S)
    assert machine.steps[-1].do is Do.PAUSE
    victim = machine.steps[-1].work
    assert victim in works[:2]
    assert works[4].place is Place.WAITING  # until the process of the other has ended
    machine.paused(victim)
    assert works[4].place is Place.ASKED
    assert victim.place is Place.WAITING
    assert victim.worked_s >= LONG_SLICE_S
    for other in [work for work in works if work is not victim]:
        machine.ends(other)
    assert victim.place is Place.ASKED


def test_work_past_its_limit_is_not_paused(machine: Machine) -> None:
    """It would go on later with no time left."""
    works = [machine.ask(f"user {i}", limit_s=LONG_SLICE_S) for i in range(5)]
    machine.passes(SLICE_S)
    machine.passes(LONG_SLICE_S)
    assert not any(step.do is Do.PAUSE for step in machine.steps)
    machine.ends(works[0])
    assert works[4].place is Place.ASKED


def test_work_that_cannot_pause_goes_on(machine: Machine) -> None:
    works = [machine.ask(f"user {i}", pausable=False) for i in range(5)]
    machine.passes(SLICE_S)
    machine.passes(100 * LONG_SLICE_S)
    assert places(*works) == [Place.LONG, Place.LONG, Place.ASKED, Place.ASKED, Place.WAITING]


def test_the_place_in_the_queue_and_the_wait_are_said(machine: Machine) -> None:
    first, second, third = machine.ask("me"), machine.ask("you", limit_s=4.0), machine.ask("him")
    fourth = machine.ask("her")
    assert machine.slots.message(first) == machine.slots.message(second) == ""
    assert machine.slots.message(third) == "All solvers are busy: next in the queue, about 4 s."
    assert machine.slots.message(fourth) == "All solvers are busy: number 2 in the queue, about 10 s."


def test_where_the_places_beside_the_slots_are_taken_the_wait_is_until_one_may_be_paused(machine: Machine) -> None:
    for i in range(4):
        machine.ask(f"user {i}")
    machine.passes(SLICE_S)
    last = machine.ask("you")
    assert machine.slots.message(last) == "All solvers are busy: next in the queue, about 20 s."
    machine.passes(SLICE_S)
    assert machine.slots.message(last) == "All solvers are busy: next in the queue, about 10 s."


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from("abcd"), st.booleans(), st.booleans()),
        st.tuples(st.just("pass"), st.floats(0, 40)),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("paused")),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_no_place_is_overfull_and_nothing_waits_without_reason(actions: list[tuple[Any, ...]]) -> None:
    machine = Machine(Slots(num_live=2, num_asked=2, num_long=1))
    for what, *arguments in actions:
        running = list(machine.slots)
        if what == "ask":
            session, is_live, pausable = arguments
            machine.ask(session, is_live=is_live, pausable=pausable)
        elif what == "pass":
            machine.passes(arguments[0])
        elif what == "end" and running:
            machine.ends(running[arguments[0] % len(running)])
        elif what == "paused":
            for work in running:
                if work.ending is Ending.PAUSED:
                    machine.paused(work)
        counts = [[work.place for work in machine.slots].count(place) for place in Place]
        by_place = dict(zip(Place, counts, strict=True))
        assert by_place[Place.LIVE] <= 2
        assert by_place[Place.ASKED] <= 2
        assert by_place[Place.LONG] <= 1
        waiting = machine.slots.waiting
        assert not waiting or not all(not work.is_live for work in waiting) or by_place[Place.ASKED] == 2
        assert not any(work.is_live for work in waiting) or by_place[Place.LIVE] == 2
        for work in waiting:
            assert machine.slots.message(work)
