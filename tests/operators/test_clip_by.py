"""ClipBy by hand: starts that come and go, rows that do, and what is forgotten when."""

from __future__ import annotations

import slackwater as sw
from slackwater.events import Element

S = sw.stream({"a": str}, name="s")
T = sw.stream({"b": str}, name="t")
CLIPPED = S.clip(T)


def _through(*script: tuple[sw.Query, Element], batch: int = 1) -> list[Element]:
    return list(CLIPPED.run(list(script), batch=batch))


def test_starts_come_and_go() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(5, 6, b="y")),
        (S, sw.adjust(0, 20, 9, a="a")),
        (T, sw.adjust(5, 6, 5, b="y")),
        (T, sw.adjust(7, 8, 7, b="x")),
    )
    assert out == [
        sw.insert(0, 20, a="a"),
        sw.adjust(0, 20, 7, a="a"),
        sw.adjust(0, 7, 5, a="a"),
        sw.adjust(0, 5, 7, a="a"),
        sw.adjust(0, 7, 9, a="a"),
    ]


def test_a_start_cuts_only_rows_that_started_before_it() -> None:
    out = _through(
        (T, sw.insert(5, 50, b="x")),
        (S, sw.insert(5, 9, a="same")),
        (S, sw.insert(4, 9, a="before")),
        (T, sw.adjust(5, 50, 30, b="x")),
        (S, sw.adjust(4, 9, 7, a="before")),
        (S, sw.adjust(4, 7, 4, a="before")),
    )
    assert out == [
        sw.insert(5, 9, a="same"),
        sw.insert(4, 5, a="before"),
        sw.adjust(4, 5, 4, a="before"),
    ]


def test_a_start_that_makes_way_for_another_moves_the_end_once() -> None:
    script = [
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(5, 6, b="y")),
        (T, sw.adjust(7, 8, 7, b="x")),
        (T, sw.insert(9, 10, b="z")),
        (T, sw.adjust(5, 6, 5, b="y")),
    ]
    assert _through(*script, batch=5) == [sw.insert(0, 20, a="a"), sw.adjust(0, 20, 9, a="a")]


def test_several_starts_at_one_time_are_one() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(7, 9, b="x")),
        (T, sw.adjust(7, 8, 7, b="x")),
    )
    assert out == [sw.insert(0, 20, a="a"), sw.adjust(0, 20, 7, a="a")]


def test_keys_that_are_null_match_nothing() -> None:
    s, t = sw.stream({"k": str}, name="s"), sw.stream({"k": str, "v": int}, name="t")
    out = s.clip(t, on="k").run(
        [
            (s, sw.insert(0, 9, k=None)),
            (s, sw.insert(0, 9, k="a")),
            (t, sw.insert(3, 4, k=None, v=1)),
            (t, sw.insert(4, 5, k="a", v=2)),
        ],
    )
    assert out.history().rows() == [("a", 0, 4), (None, 0, 9)]


def test_the_promise_is_what_both_have_promised() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (S, sw.cti(15)),
        (T, sw.cti(4)),
        (T, sw.insert(4, 5, b="x")),
        (T, sw.cti(30)),
    )
    assert out == [sw.insert(0, 20, a="a"), sw.cti(4), sw.adjust(0, 20, 4, a="a"), sw.cti(15)]


def test_a_row_that_was_cut_long_ago_may_still_be_adjusted() -> None:
    """The start at 5 is behind both promises, but without it the one at 80 would be the next."""
    running = CLIPPED.open()
    running.push(S, [sw.insert(0, 100, a="long")])
    running.push(T, [sw.insert(5, 6, b="x"), sw.insert(80, 81, b="y")])
    # so many that it is worth while to forget some
    running.push(S, [*(sw.insert(vs, vs + 1, a="short") for vs in range(6, 2000)), sw.cti(50)])
    running.push(T, [sw.cti(50)])
    [clip] = running.describe()
    assert clip.state.state_rows < 1996
    assert running.push(S, [sw.adjust(0, 100, 60, a="long")]) == []
    assert ("long", 0, 5) in running.output.history().rows()


def test_what_is_settled_is_forgotten() -> None:
    running = CLIPPED.open()
    for vs in range(2000):
        running.push(S, [sw.insert(vs, vs + 3, a=str(vs)), sw.cti(vs)])
        running.push(T, [sw.insert(vs + 1, vs + 2, b="x"), sw.cti(vs)])
    [clip] = running.describe()
    assert clip.state.state_rows < 1100
    assert clip.state.held_by == 0
    running.push(S, [sw.cti(None)])
    running.push(T, [sw.cti(None)])
    [clip] = running.describe()
    assert clip.state.state_rows == 0
