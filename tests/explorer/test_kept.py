"""Tests of what the server keeps for a reload: by id, for a time, within limits."""

from explorer.kept import Keeper


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_values_come_back_by_their_id_only() -> None:
    keeper = Keeper()
    first, second = keeper.new_id(), keeper.new_id()
    assert first != second
    assert len(first) == 32
    keeper.put(first, {"plan": 1}, 10)
    keeper.put(first, {"plan": 2}, 10)
    assert keeper.get(first) == {"plan": 2}
    assert keeper.get(second) is None
    found = keeper.get(first)
    assert found is not None
    found["plan"] = 3
    assert keeper.get(first) == {"plan": 2}


def test_what_nobody_looks_at_goes_after_a_day() -> None:
    clock = Clock()
    keeper = Keeper(hours_kept=24, clock=clock)
    keeper.put("used", {}, 0)
    keeper.put("forgotten", {}, 0)
    clock.now_s = 23 * 3600.0
    assert keeper.get("used") == {}
    clock.now_s = 25 * 3600.0
    assert keeper.get("forgotten") is None
    assert keeper.get("used") == {}


def test_the_least_used_goes_when_room_is_short() -> None:
    keeper = Keeper(max_records=3, max_bytes=100)
    for name in "abc":
        keeper.put(name, {}, 30)
    keeper.get("a")
    keeper.put("d", {}, 30)
    assert [name for name in "abcd" if keeper.get(name) is not None] == ["a", "c", "d"]
    keeper.put("large", {}, 90)
    assert [name for name in "abcd" if keeper.get(name) is not None] == []
    keeper.put("too large", {}, 1000)
    assert keeper.get("large") is None
    assert keeper.get("too large") == {}
