"""Session by hand: how sessions grow, meet, fall apart, and what is forgotten when."""

from __future__ import annotations

import slackwater as sw
from slackwater.events import Element

S = sw.stream({"a": str})
FIVE = S.window(sw.session(5))


def _through(query: sw.Query, source: sw.Query, *elements: Element, batch: int = 1) -> list[Element]:
    return list(query.run({source: list(elements)}, batch=batch))


def test_a_session_goes_on_while_starts_are_closer_than_the_gap() -> None:
    """Ends do not matter: b's adjust says nothing, however long its row."""
    out = _through(
        FIVE,
        S,
        sw.insert(0, 1, a="a"),
        sw.insert(3, 9, a="b"),
        sw.cti(6),
        sw.adjust(3, 9, 7, a="b"),
        sw.insert(8, 10, a="c"),
        sw.insert(12, 13, a="d"),
    )
    assert out == [
        sw.insert(0, 5, a="a"),
        sw.adjust(0, 5, 8, a="a"),
        sw.insert(3, 8, a="b"),
        sw.cti(6),
        sw.insert(8, 13, a="c"),
        sw.adjust(8, 13, 17, a="c"),
        sw.insert(12, 17, a="d"),
    ]


def test_a_late_row_joins_two_sessions_and_its_removal_parts_them() -> None:
    elements = [
        sw.insert(0, 1, a="a"),
        sw.insert(8, 9, a="c"),
        sw.insert(4, 5, a="b"),
        sw.adjust(4, 5, 4, a="b"),
    ]
    assert _through(FIVE, S, *elements) == [
        sw.insert(0, 5, a="a"),
        sw.insert(8, 13, a="c"),
        sw.adjust(0, 5, 13, a="a"),
        sw.insert(4, 13, a="b"),
        sw.adjust(0, 13, 5, a="a"),
        sw.adjust(4, 13, 4, a="b"),
    ]
    # in one batch nothing of that is seen
    assert _through(FIVE, S, *elements, batch=4) == [sw.insert(0, 5, a="a"), sw.insert(8, 13, a="c")]


def test_the_promise_holds_when_the_last_row_of_a_session_goes() -> None:
    """cti(10) permits the removal of the row at 10; what is left ends at 13, after the promise."""
    out = _through(
        FIVE,
        S,
        sw.insert(8, 9, a="a"),
        sw.insert(10, 11, a="b"),
        sw.cti(10),
        sw.adjust(10, 11, 10, a="b"),
    )
    assert out[-2:] == [sw.adjust(8, 15, 13, a="a"), sw.adjust(10, 15, 10, a="b")]


def test_copies_of_a_row_move_each_once() -> None:
    out = _through(
        FIVE,
        S,
        sw.insert(0, 1, a="a"),
        sw.insert(0, 2, a="a"),
        sw.insert(4, 5, a="b"),
        sw.adjust(0, 1, 0, a="a"),
        batch=2,
    )
    assert out == [
        sw.insert(0, 5, a="a"),
        sw.insert(0, 5, a="a"),
        sw.adjust(0, 5, 9, a="a"),
        sw.adjust(0, 5, 0, a="a"),
        sw.insert(4, 9, a="b"),
    ]


def test_sessions_are_per_key_and_null_is_one() -> None:
    s = sw.stream({"k": str, "a": int})
    query = s.group_by("k").window(sw.session(5))
    out = query.run(
        {
            s: [
                sw.insert(0, 1, k="x", a=1),
                sw.insert(2, 3, k=None, a=2),
                sw.insert(4, 5, k="x", a=3),
                sw.insert(6, 7, k=None, a=4),
            ]
        }
    )
    assert out.history().rows() == [("x", 1, 0, 9), (None, 2, 2, 11), ("x", 3, 4, 9), (None, 4, 6, 11)]


def test_sessions_that_can_no_longer_go_on_are_forgotten() -> None:
    running = FIVE.open()
    for start in range(0, 4000, 2):
        # a pause after every tenth row
        vs = start + 10 * (start // 20)
        running.push(S, [sw.insert(vs, vs + 1, a=str(start)), sw.cti(vs)])
    [session] = running.describe()
    assert session.rows_out > 2000
    assert session.state.state_rows < 1100
    running.push(S, [sw.cti(None)])
    [session] = running.describe()
    assert session.state.state_rows == 0


def test_far_apart_is_not_close() -> None:
    """Distances that do not fit 63 bits, and ends beyond the last chronon."""
    first, last = -(2**63) + 1, 2**63 - 3
    out = _through(FIVE, S, sw.insert(first, 0, a="a"), sw.insert(last, last + 1, a="b"))
    assert out == [sw.insert(first, first + 5, a="a"), sw.insert(last, sw.INF, a="b")]
