"""Which jobs are kept, and which sessions are gone."""

from dataclasses import dataclass

from explorer.jobs.sessions import Sessions


@dataclass
class Held:
    """A job, as far as sessions know it."""

    id: str
    session: str
    is_over: bool = False


def test_jobs_are_found_by_id_and_by_session_in_their_order() -> None:
    sessions = Sessions[Held](most=10)
    first, second, third = Held("1", "a"), Held("2", "b"), Held("3", "a")
    for job in (first, second, third):
        sessions.add(job)
    assert (sessions.get("2"), sessions.get("4")) == (second, None)
    assert sessions.jobs_of("a") == (first, third)
    assert sessions.names() == {"a", "b"}
    assert sessions.forget("a") == (first, third)
    assert (sessions.get("1"), sessions.jobs_of("a"), sessions.names()) == (None, (), {"b"})


def test_of_too_many_the_oldest_that_are_over_are_forgotten() -> None:
    sessions = Sessions[Held](most=2)
    jobs = [Held(str(i), "a", is_over=i % 2 == 1) for i in range(6)]
    for job in jobs:
        sessions.add(job)
    assert sessions.jobs_of("a") == tuple(job for job in jobs if not job.is_over)
    for job in jobs:
        job.is_over = True
    sessions.add(last := Held("last", "a"))
    assert sessions.jobs_of("a") == (jobs[4], last)


def test_a_session_is_gone_after_the_grace_in_which_it_never_came_back() -> None:
    now_s = 0.0
    sessions = Sessions[Held](most=2, clock=lambda: now_s)
    assert sessions.gone({"a", "b"}, 5.0) == []
    now_s = 3.0
    assert sessions.gone({"a"}, 5.0) == []  # b has come back
    now_s = 5.0
    assert sessions.gone({"a", "b"}, 5.0) == ["a"]
    now_s = 9.0
    assert sessions.gone({"b"}, 5.0) == []
    now_s = 10.0
    assert sessions.gone({"b"}, 5.0) == ["b"]
    assert sessions.gone({"c"}, 0.0) == ["c"]
