"""Match by hand: what a late row changes, what is held back, what is forgotten, what stops it."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater import OperatorError, adjust, col, cti, insert, matched

s = sw.stream({"k": str, "v": int})
LETTERS = {symbol: col("k") == symbol.lower() for symbol in "ABC"}


def _row(at: int, k: str, v: int = 0) -> sw.Insert:
    return insert(at, at + 1, k=k, v=v)


def _match(pattern: str, **settings: object) -> sw.Query:
    where = {symbol: LETTERS[symbol] for symbol in "ABC" if symbol in pattern}
    return s.match(pattern, where=where, n=matched().count(), **settings)  # type: ignore[arg-type]


def test_a_late_row_changes_what_lies_around_it() -> None:
    running = _match("A B* C", within=50).open()
    told = [_row(t, k) for t, k in [(0, "a"), (2, "c"), (10, "a"), (12, "c"), (20, "a"), (22, "c")]]
    [out] = running.push(s, told)
    assert list(out) == [insert(2, 50, n=2), insert(12, 60, n=2), insert(22, 70, n=2)]
    [out] = running.push(s, [_row(11, "b")])
    assert sorted(map(repr, out)) == ["adjust(12, 60, 12, n=2)", "insert(12, 60, n=3)"]
    [out] = running.push(s, [_row(11, "x")])
    assert list(out) == [adjust(12, 60, 12, n=3)], "nothing may come between"
    [out] = running.push(s, [adjust(11, 12, 11, k="x", v=0)])
    assert list(out) == [insert(12, 60, n=3)]


def test_a_match_gets_another_end_with_its_rows() -> None:
    running = s.match("A C", where={"A": LETTERS["A"], "C": LETTERS["C"]}, n=matched().count()).open()
    [out] = running.push(s, [insert(0, 9, k="a", v=0), insert(2, 20, k="c", v=0), cti(3)])
    assert list(out) == [insert(2, 9, n=2), cti(3)]
    [out] = running.push(s, [adjust(0, 9, 15, k="a", v=0)])
    assert list(out) == [adjust(2, 9, 15, n=2)]


def test_what_may_go_on_holds_the_promise_back() -> None:
    complete, open_ended = _match("A B* C", within=10).open(), _match("A B+", within=10).open()
    for running, promised in [(complete, 5), (open_ended, 0)]:
        running.push(s, [_row(0, "a"), _row(1, "b"), cti(5)])
        assert running.output.settled_until == promised
        running.push(s, [cti(11)])
        assert running.output.settled_until == 11, "nothing lives with the first row any more"


def test_what_is_found_late_takes_the_place_of_what_follows() -> None:
    """A (0) may still find its C, and A (1) has found one: only one of the two can be."""
    query = s.match(
        "A B* C",
        where={"A": LETTERS["A"], "B": col("k") != "z", "C": (col("k") == "c") & (col("v") >= 0)},
        within=20,
        n=matched().count(),
    )
    assert query.meaning({s: [_row(0, "a"), _row(1, "c")]}).rows() == [], "B takes it"
    over = s.match(
        "A B* C",
        where={"A": col("v") > 0, "B": matched("A").last("v") == 1, "C": LETTERS["C"]},
        within=20,
        n=matched().count(),
    )
    running = over.open()
    running.push(s, [_row(0, "a", 1), _row(1, "a", 2), _row(2, "c", 0), cti(5)])
    assert running.output.as_history().rows() == [(2, 2, 21)]
    assert running.output.settled_until == 2, "the row at 0 takes all, and may find what ends it"
    assert over.meaning({s: [_row(0, "a", 1), _row(1, "a", 2), _row(2, "c", 0)]}).rows() == [(2, 2, 21)]


@pytest.mark.parametrize("after", list(sw.AfterMatch))
def test_what_is_final_is_forgotten(after: sw.AfterMatch) -> None:
    running = _match("A B* C", within=30, after=after).open()
    for start in range(0, 8000, 200):
        told = [_row(at, "abc"[at % 3]) for at in range(start, start + 200)]
        running.push(s, [*told, cti(start + 200)])
    [status] = [each for each in running.describe() if "Match" in str(each)]
    assert status.state.state_rows < 2500
    assert len(running.output.as_history()) == 8000 // 3


def test_a_sum_that_does_not_fit_stops_the_query() -> None:
    query = s.match("A A", t=matched("A").sum("v"))
    told = [insert(t, 9, k="a", v=2**62) for t in (0, 1)]
    for run in (query.run, query.meaning):
        with pytest.raises(OperatorError, match="does not fit 64 bits"):
            run({s: told})


def test_a_condition_without_a_value_stops_the_query() -> None:
    query = s.match("A", where={"A": col("k").cast(int) > 0}, n=matched().count())
    with pytest.raises(OperatorError, match=r"match where A: .* has no value"):
        query.run({s: [_row(0, "x")]})


def test_windows_that_end_close_what_lives_in_them() -> None:
    """A row's window does not grow, so that with cti(4) nothing can share [0, 4) any more."""
    running = s.match("A B*", within=4, n=matched().count()).open()
    running.push(s, [_row(0, "a"), _row(1, "b"), cti(4)])
    assert running.output.settled_until == 4


def test_what_begins_within_a_match_that_is_final_holds_nothing_back() -> None:
    """The B at 1 might begin a match of its own, but only if that from 0 on were another one."""
    running = s.match("A B*", n=matched().count()).open()
    running.push(s, [insert(0, 3, k="a", v=0), insert(1, 9, k="b", v=0), cti(4)])
    assert running.output.settled_until == 4
