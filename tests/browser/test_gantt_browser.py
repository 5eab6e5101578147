"""The timeline in a real browser: marks, memory, critical path, ranges of time, and the replay.

What the replay says of a moment is checked against the bars themselves, moment by moment.
"""

import re
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.picture import Picture
from tests.support.waiting import eventually

pytestmark = pytest.mark.browser

RECEIVE, COMPUTE, SEND = 0, 1, 2
TRAINING = "graph=training&nodes=8&stages=4&micro_batches=6"
BARS = "Array.from({length: p.bars}, (_, i) => p.barFacts(i))"


def moments(bars: list[dict[str, Any]]) -> list[float]:
    """Return times between all events, and the events themselves."""
    events = sorted({bar[end] for bar in bars for end in ("start", "end")})
    return events + [(a + b) / 2 for a, b in pairwise(events)]


def test_what_runs_at_a_moment_is_what_the_bars_say(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    bars = picture.get(BARS)
    times = moments(bars)
    states = picture.get(f"{times}.map(ms => p.momentAt(ms))")
    for ms, state in zip(times, states, strict=True):
        running = {i for i, bar in enumerate(bars) if bar["start"] <= ms < bar["end"]}
        assert {entry["bar"] for entry in state["running"]} == running
        for entry in state["running"]:
            bar = bars[entry["bar"]]
            assert entry["share"] == pytest.approx((ms - bar["start"]) / (bar["end"] - bar["start"]))
        assert state["numBusy"] == len({bars[i]["lane"] for i in running})
        spans = {m: [bar for bar in bars if bar["microBatch"] == m] for m in range(6)}
        finished = sum(max(bar["end"] for bar in own) <= ms for own in spans.values())
        begun = sum(min(bar["start"] for bar in own) <= ms for own in spans.values())
        assert (state["numFinished"], state["numInFlight"]) == (finished, begun - finished)


def test_tensors_travel_while_they_are_sent_and_received_and_wait_in_between(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    bars = picture.get(BARS)
    times = moments(bars)
    at = {(bar["stage"], bar["microBatch"], bar["kind"]): bar for bar in bars}
    seen = set()
    for ms, tensors in zip(times, picture.get(f"{times}.map(ms => p.tensorsAt(ms))"), strict=True):
        for tensor in tensors:
            sends = at[tensor["from"], tensor["microBatch"], SEND]
            receives = at[tensor["to"], tensor["microBatch"], RECEIVE]
            seen.add((tensor["from"], tensor["to"], tensor["microBatch"], tensor["phase"]))
            if tensor["phase"] == "send":
                assert sends["start"] <= ms < sends["end"]
                assert 0 <= tensor["position"] < 0.5
            elif tensor["phase"] == "wait":
                assert sends["end"] <= ms < receives["start"]
                assert tensor["position"] == 0.5
            else:
                assert receives["start"] <= ms < receives["end"]
                assert 0.5 <= tensor["position"] < 1
    # Every pair of stages sends and receives every micro-batch at some time.
    pairs = {(source, target) for source, target, _, _ in seen}
    assert all((*pair, m, phase) in seen for pair in pairs for m in range(6) for phase in ("send", "receive"))
    assert len(pairs) >= 6


def test_replay_plays_pauses_and_ends(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    assert picture.get("p.replay.timeMs") is None
    chromium_page.keyboard.press("k")
    picture.wait_for("p.replay.playing && p.replay.timeMs > 0.05 * p.replay.wholeMs")
    picture.wait_for("p.lit().length > 0")  # nothing is while a pipeline that fills only moves a tensor
    chromium_page.keyboard.press("k")
    stopped = picture.get("p.replay.timeMs")
    assert not picture.get("p.replay.playing")
    chromium_page.wait_for_timeout(200)
    assert picture.get("p.replay.timeMs") == stopped
    expect(picture.root.locator(".readout")).to_contain_text("done")
    chromium_page.keyboard.press("Escape")
    assert picture.get("[p.replay.timeMs, p.lit()]") == [None, None]


def test_space_plays_inside_the_picture_but_still_presses_buttons(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    critical = picture.root.get_by_role("button", name="Critical path")
    critical.focus()
    chromium_page.keyboard.press("Space")
    assert picture.get("[p.showsCritical, p.replay.playing]") == [True, False]
    picture.root.locator("canvas.gantt").focus()
    chromium_page.keyboard.press("Space")
    picture.wait_for("p.replay.playing")


def test_replay_steps_from_event_to_event_and_back(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    events = sorted({bar[end] for bar in picture.get(BARS) for end in ("start", "end")})
    picture.root.get_by_role("button", name="On to the next event").click()
    visited = [picture.get("p.replay.timeMs")]
    for _ in range(6):
        chromium_page.keyboard.press(".")
        visited.append(picture.get("p.replay.timeMs"))
    assert visited == pytest.approx(events[1:8])
    for _ in range(3):
        chromium_page.keyboard.press(",")
    assert picture.get("p.replay.timeMs") == pytest.approx(events[4])


def test_replay_lights_nodes_in_order_as_their_stage_gets_on(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=6&stages=2&micro_batches=1")
    slider = picture.root.get_by_label("Playhead")
    whole = picture.get("p.replay.wholeMs")
    # The first device runs nodes 1, 2, 3, which take 2, 3 and 1 ms.
    for ms, lit in ((1.0, [0]), (2.5, [0, 1]), (5.5, [0, 1, 2])):
        slider.evaluate(
            "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", ms / whole
        )
        assert picture.get("p.replay.timeMs") == pytest.approx(ms)
        assert picture.get("p.lit().sort()") == lit


def test_playhead_is_dragged_along_the_axis(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    picture.root.locator("canvas.gantt").scroll_into_view_if_needed()
    whole = picture.get("p.replay.wholeMs")
    box = picture.root.locator("canvas.gantt").bounding_box()
    y = box["y"] + box["height"] - 12
    view = picture.get("p.ganttView")
    chromium_page.mouse.move(picture.get(f"p.timeX({0.2 * whole})"), y)
    chromium_page.mouse.down()
    chromium_page.mouse.move(picture.get(f"p.timeX({0.6 * whole})"), y, steps=4)
    chromium_page.mouse.up()
    assert picture.get("p.replay.timeMs") == pytest.approx(0.6 * whole, rel=0.01)
    assert picture.get("p.ganttView") == view


def test_reduced_motion_jumps_from_event_to_event(chromium_page: Any, server: str) -> None:
    chromium_page.emulate_media(reduced_motion="reduce")
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    events = picture.get("p.eventsOfReplay()")
    chromium_page.keyboard.press("k")
    visited = set()
    for _ in range(12):
        chromium_page.wait_for_timeout(100)
        visited.add(picture.get("p.replay.timeMs"))
    assert len(visited) > 1
    assert visited <= set(events)


def test_range_of_time_tells_what_each_device_does_in_it(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    canvas = picture.root.locator("canvas.gantt")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    whole = picture.get("p.replay.wholeMs")
    chromium_page.keyboard.down("Shift")
    chromium_page.mouse.move(picture.get(f"p.timeX({0.3 * whole})"), box["y"] + 60)
    chromium_page.mouse.down()
    chromium_page.mouse.move(picture.get(f"p.timeX({0.7 * whole})"), box["y"] + 90, steps=3)
    chromium_page.mouse.up()
    chromium_page.keyboard.up("Shift")
    selection = picture.get("p.selection")
    start, end = selection["fromMs"], selection["toMs"]
    assert (selection["kind"], start, end) == (
        "range",
        pytest.approx(0.3 * whole, rel=0.02),
        pytest.approx(0.7 * whole, rel=0.02),
    )
    rows = picture.root.locator("table.range tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => parseFloat(cell.textContent)))"
    )
    bars = picture.get(BARS)
    for lane, (_, compute, transfers, idle, percent) in enumerate(rows):
        spent = {RECEIVE: 0.0, COMPUTE: 0.0, SEND: 0.0}
        for bar in bars:
            if bar["lane"] == lane:
                spent[bar["kind"]] += max(0.0, min(end, bar["end"]) - max(start, bar["start"]))
        assert compute == pytest.approx(spent[COMPUTE], abs=0.01)
        assert transfers == pytest.approx(spent[RECEIVE] + spent[SEND], abs=0.01)
        assert idle == pytest.approx(end - start - sum(spent.values()), abs=0.01)
        assert percent == pytest.approx(100 * idle / (end - start), abs=1)
    assert len(rows) == 4


def test_point_and_comma_follow_a_micro_batch_through_its_bars(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    bars = picture.get(BARS)
    own = sorted(
        (i for i, bar in enumerate(bars) if bar["microBatch"] == 0), key=lambda i: (bars[i]["start"], bars[i]["end"])
    )
    chromium_page.keyboard.press(".")
    followed = [picture.get("p.selection.bar")]
    for _ in range(5):
        chromium_page.keyboard.press(".")
        followed.append(picture.get("p.selection.bar"))
    assert followed == own[:6]
    chromium_page.keyboard.press(",")
    assert picture.get("p.selection.bar") == own[4]


def test_critical_path_dims_the_rest(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    assert picture.get("p.critical") > 0
    picture.root.locator("canvas.gantt").scroll_into_view_if_needed()
    chromium_page.mouse.move(2, 2)
    bars = picture.get(BARS)
    other = next(
        i for i, bar in enumerate(bars)
        if bar["kind"] == COMPUTE and not picture.get(f"p.isCritical({i})") and bar["end"] - bar["start"] > 1
    )  # fmt: skip

    def colour() -> str:
        x, y = picture.point(f"p.barPosition({other})")
        return picture.colour_at(x, y - 9)

    plain = colour()
    picture.root.get_by_role("button", name="Critical path").click()
    chromium_page.mouse.move(2, 2)
    picture.wait_for("p.showsCritical")
    chromium_page.wait_for_timeout(100)
    assert colour() != plain


def test_memory_over_time_counts_what_is_in_flight(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}&activations=1")
    assert picture.get("p.memory.showsBytes")
    expect(picture.root.locator(".memory-note")).to_be_hidden()
    bars = picture.get(BARS)
    for lane in range(4):
        own = [bar for bar in bars if bar["lane"] == lane]
        for ms in moments(own)[::7]:
            spans = [[bar for bar in own if bar["microBatch"] == m] for m in range(6)]
            in_flight = sum(min(b["start"] for b in s) <= ms < max(b["end"] for b in s) for s in spans)
            # Four nodes of 2 GiB on each device; the activations of two of them, 1 GiB each, come and go.
            assert picture.get(f"p.memoryAt({lane}, {ms})") == pytest.approx((4 * 2 - 2 + 2 * in_flight) * 2**30)
    # Three or more micro-batches in flight take 12 GiB and more; six would not fit into 16.
    summary = picture.root.locator("canvas.memory").get_attribute("aria-label")
    assert "Memory over time. Peaks: Accelerator 1 14 GiB, 4 in flight" in summary


def test_memory_that_the_file_does_not_tell_is_not_drawn(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    assert not picture.get("p.memory.showsBytes")
    expect(picture.root.locator(".memory-note")).to_contain_text("does not say how much")
    # What is drawn instead: at most as many micro-batches as there are stages from there to the end.
    whole = picture.get("p.replay.wholeMs")
    peaks = [max(picture.get(f"p.memoryAt({lane}, {k / 40 * whole})") for k in range(40)) for lane in range(4)]
    assert peaks == [4, 3, 2, 1]


def test_devices_over_their_memory_are_named(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}&activations=1&schedule=gpipe")
    label = picture.root.locator("canvas.memory").get_attribute("aria-label")
    assert label.count("over its memory") == 4
    expect(picture.root.locator("canvas.gantt")).to_have_attribute(
        "aria-label", re.compile("Over memory: Accelerator 1")
    )


def test_bounds_and_assumptions_stand_under_the_picture(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}")
    notes = picture.root.locator(".notes").inner_text()
    for part in ("6 micro-batches, makespan", "load bound", "critical-path bound", "one after the other"):
        assert part in notes
    box = picture.root.locator(".notes").bounding_box()
    assert box["height"] > 12


def test_pieces_of_a_device_are_told_apart(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=4&stages=2&alternate=1")
    expect(picture.root.locator(".timeline-head")).to_contain_text("a, b, … fragments")
    picture.root.locator("canvas.gantt").scroll_into_view_if_needed()
    bars = picture.get(BARS)
    last = max(range(len(bars)), key=lambda i: bars[i]["stage"] * (bars[i]["kind"] == COMPUTE))
    chromium_page.mouse.move(*picture.point(f"p.barPosition({last})"))
    picture.wait_for("p.focus.kind === 'bar'")
    expect(picture.root.locator(".tooltip")).to_contain_text("fragment b of its device")


def test_legend_names_only_what_is_there(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}&schedule=zb-h1")
    legend = picture.root.locator(".timeline-head .keys").inner_text()
    assert legend.split("\n") == ["F forward", "I input gradient", "W weight gradient", "receive", "send"]


def test_cursor_stands_at_the_same_time_in_bars_and_memory(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?{TRAINING}&activations=1")
    memory = picture.root.locator("canvas.memory")
    memory.scroll_into_view_if_needed()
    box = memory.bounding_box()
    whole = picture.get("p.replay.wholeMs")
    chromium_page.mouse.move(picture.get(f"p.timeX({whole / 2})"), box["y"] + 20)
    picture.wait_for("p.cursorMs !== null")
    assert picture.get("p.cursorMs") == pytest.approx(whole / 2, rel=0.01)


def test_pictures_of_a_group_share_the_playhead(chromium_page: Any, server: str) -> None:
    picture = Picture(chromium_page, f"{server}/?graph=chain&stages=3&pair=1")
    other = chromium_page.locator(".placed-pipeline").nth(1)
    picture.root.get_by_role("button", name="On to the next event").click()
    picture.root.get_by_role("button", name="On to the next event").click()
    ms = picture.get("p.replay.timeMs")
    assert ms > 0
    assert other.evaluate("root => root.__placement.replay.timeMs") == pytest.approx(ms)


@pytest.mark.parametrize("micro_batches", [8, 20, 30])
def test_lines_of_bounds_cross_no_number(chromium_page: Any, server: str, micro_batches: int) -> None:
    query = f"?graph=training&nodes=24&stages=4&micro_batches={micro_batches}"
    picture = Picture(chromium_page, f"{server}/{query}")
    lines = picture.get("p.boundLines()")
    assert len({x for x, _, _ in lines}) >= 2
    for lane, passes in enumerate(picture.get("p.labelsOfLanes()")):
        middle = picture.get(f"p.laneMiddle({lane})")
        for label in (label for of_pass in passes for label in of_pass["labels"]):
            assert not [x for x, top, end in lines if label["from"] < x < label["to"] and top < middle < end]


@pytest.mark.parametrize("micro_batches", [4, 12, 30, 90])
def test_all_bars_of_a_lane_are_labelled_or_every_nth(chromium_page: Any, server: str, micro_batches: int) -> None:
    query = f"?graph=training&nodes=24&stages=4&schedule=zb-h1&micro_batches={micro_batches}"
    picture = Picture(chromium_page, f"{server}/{query}")
    lanes = picture.get("p.labelsOfLanes()")
    assert len(lanes) == 4
    for lane in lanes:
        for of_pass in lane:
            assert {label["microBatch"] % of_pass["every"] for label in of_pass["labels"]} <= {0}
            if of_pass["every"] == 1:
                assert len(of_pass["labels"]) == of_pass["bars"]
        spans = sorted((label["from"], label["to"]) for of_pass in lane for label in of_pass["labels"])
        assert all(first[1] <= second[0] + 1 for first, second in pairwise(spans))
    if micro_batches <= 12:
        assert all(sum(len(of_pass["labels"]) for of_pass in lane) >= micro_batches / 5 for lane in lanes)


@pytest.mark.parametrize("micro_batches", [8, 20])
def test_on_a_phone_no_number_is_cut_off_at_an_end_of_the_plot(
    chromium_page: Any, server: str, micro_batches: int
) -> None:
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    query = f"?graph=training&nodes=24&stages=4&schedule=gpipe&micro_batches={micro_batches}"
    picture = Picture(chromium_page, f"{server}/{query}")
    left, right = picture.get("p.plot()")
    labels = [label for passes in picture.get("p.labelsOfLanes()") for of_pass in passes for label in of_pass["labels"]]
    assert labels
    assert [label for label in labels if label["from"] < left or right < label["to"]] == []


@pytest.mark.parametrize("micro_batches", [8, 18, 60])
def test_no_line_of_a_bound_is_without_a_name(chromium_page: Any, server: str, micro_batches: int) -> None:
    """Not even where three lie within 25 pixels, as at the end of a long run."""
    chromium_page.set_viewport_size({"width": 800, "height": 800})
    picture = Picture(chromium_page, f"{server}/?graph=training&nodes=24&stages=4&micro_batches={micro_batches}")
    for width in (390, 1024, 1280, 1920):
        before = picture.get("p.plot()")
        chromium_page.set_viewport_size({"width": width, "height": 800})
        eventually(partial(lambda before: picture.get("p.plot()") != before, before))
        texts = picture.get("p.boundNames()")
        assert len({x for x, _, _ in picture.get("p.boundLines()")}) == sum(len(text["names"]) for text in texts)
        assert all(text["from"] >= 0 for text in texts), "cut off at the edge of the picture"


WIDE_LETTERS = """
    const measure = CanvasRenderingContext2D.prototype.measureText;
    CanvasRenderingContext2D.prototype.measureText = function (text) {
        const found = measure.call(this, text);
        return Object.defineProperty(found, "width", { value: found.width * 1.2 });
    };
"""


@pytest.mark.parametrize("micro_batches", [12, 18, 24])
def test_in_wide_letters_the_end_gives_up_the_bound_that_it_is_at(
    chromium_page: Any, server: str, micro_batches: int
) -> None:
    chromium_page.add_init_script(WIDE_LETTERS)
    chromium_page.set_viewport_size({"width": 390, "height": 844})
    picture = Picture(chromium_page, f"{server}/?graph=chain&nodes=6&stages=2&micro_batches={micro_batches}")
    texts = picture.get("p.boundNames()")
    assert len({x for x, _, _ in picture.get("p.boundLines()")}) == sum(len(text["names"]) for text in texts)


def test_switches_stand_together_beside_the_legend_or_below_it(chromium_page: Any, server: str) -> None:
    for query in (TRAINING, f"{TRAINING}&schedule=zb-h1"):
        picture = Picture(chromium_page, f"{server}/?{query}")
        head = picture.root.locator(".timeline-head")
        for width in (1900, 1280, 1024, 700):
            chromium_page.set_viewport_size({"width": width, "height": 800})
            tops = head.locator(".switch:visible").evaluate_all("all => all.map(e => e.getBoundingClientRect().top)")
            ends = "e => e.getBoundingClientRect().right"
            assert len(set(tops)) == 1, (query, width, tops)
            assert head.locator(".switches").evaluate(ends) == pytest.approx(head.evaluate(ends), abs=1)
