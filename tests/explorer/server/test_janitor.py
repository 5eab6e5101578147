"""What nobody uses goes by itself, without anyone asking for it again."""

import gc
import weakref
from types import SimpleNamespace
from typing import Any, cast

import pytest
from streamlit.runtime.memory_session_storage import MemorySessionStorage

from explorer.plan.reload import keeper, shares
from explorer.server import janitor
from explorer.server.byte_cache import SECONDS_KEPT, ByteCache
from explorer.server.janitor import Janitor, reap
from tests.support.shared_graphs import ME, PROJECT


class Session:
    """What Streamlit's storage holds of a session that can be told by a weak reference."""

    session = SimpleNamespace(id="a")


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_it_forgets_views_that_nobody_looks_at_and_shares_that_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    views = ByteCache(clock=clock)
    monkeypatch.setattr(janitor, "VIEWS", views)
    monkeypatch.setattr(shares(), "_clock", clock)
    views.get("a", lambda: bytes(100), len)
    share = shares().add(ME, PROJECT, SECONDS_KEPT)
    tidy = Janitor().tidy
    tidy()
    assert len(views) == 1
    assert [known.token for known in shares().of(ME)] == [share.token]
    clock.now_s = SECONDS_KEPT
    tidy()
    assert (len(views), views.size_bytes) == (0, 0)
    assert not shares()._shares


def test_it_freezes_what_sessions_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(keeper(), "_clock", clock)
    monkeypatch.setattr(keeper(), "_is_open", lambda session: session != "gone")
    number = keeper().put(ME, None, "gone", {"text": "a" * 100_000})
    before = keeper().size_bytes
    tidy = Janitor().tidy
    for now_s in (0.0, 30.0, 60.0):
        clock.now_s = now_s
        tidy()
    assert before < keeper().size_bytes < before + 10_000
    found = keeper().get(ME, number)
    assert found is not None
    assert found.values == {"text": "a" * 100_000}


def test_a_session_whose_time_is_over_is_dropped_without_another_one_leaving() -> None:
    storage = MemorySessionStorage(ttl_seconds=0)
    session = cast("Any", Session())
    held = weakref.ref(session)
    storage.save(session)
    del session
    assert storage.get("a") is None
    assert held() is not None, "Streamlit drops it by itself: `reap` is not needed any more"
    reap(storage)
    assert held() is None


def test_when_nobody_is_there_for_a_minute_all_views_go(monkeypatch: pytest.MonkeyPatch) -> None:
    views = ByteCache()
    views.get("a", lambda: bytes(100), len)
    monkeypatch.setattr(janitor, "VIEWS", views)
    tidy, rounds = Janitor().tidy, int(janitor.SECONDS_ALONE / janitor.EVERY_SECONDS)
    there = [1, *[0] * rounds, 1, *[0] * (rounds + 1)]
    monkeypatch.setattr(janitor, "_num_sessions", lambda: there.pop(0))
    while len(there) > 1:
        tidy()
        assert len(views) == 1
    tidy()
    assert len(views) == 0


class Page:
    """What a page's run leaves behind: objects that refer to each other."""

    def __init__(self) -> None:
        self.itself = self


def test_what_a_session_held_is_collected_when_it_has_gone_though_no_more_memory_is_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "_resident_bytes", lambda: 0)
    ours = Janitor()
    gc.disable()
    try:
        known = weakref.ref(Page())
        for sessions in ({"a"}, {"a", "b"}, {"a", "b"}):
            ours.note_sessions(frozenset(sessions))
            ours.tidy()
            assert known() is not None, "nobody has left"
        ours.note_sessions(frozenset({"b", "c"}))
        ours.tidy()
        assert known() is None
    finally:
        gc.enable()


def test_what_was_remembered_for_all_is_collected_when_nobody_has_been_there_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(janitor, "_resident_bytes", lambda: 0)
    monkeypatch.setattr(janitor, "_num_sessions", lambda: 0)
    page = Page()
    known = weakref.ref(page)
    kept = [page]
    monkeypatch.setattr(janitor, "FORGETTERS_WHEN_ALONE", [kept.clear])
    del page
    ours = Janitor()
    gc.disable()
    try:
        for _ in range(int(janitor.SECONDS_ALONE / janitor.EVERY_SECONDS)):
            ours.tidy()
        assert kept
        ours.tidy()
        assert known() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_what_a_session_held_is_collected_whenever_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter(range(0, 10**12, 10**9))
    monkeypatch.setattr(janitor, "_resident_bytes", lambda: next(sizes))
    ours = Janitor()
    page = Page()
    known = weakref.ref(page)
    for _ in range(5):
        ours.tidy()
    del page
    ours.tidy()
    assert known() is None
