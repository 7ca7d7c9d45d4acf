"""Promises about payloads on their way through operators that hold no rows, and through union."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import histories, streams

S = sw.stream({"k": int, "v": int}, name="s")
T = sw.stream({"k": int, "v": int}, name="t")


assert isinstance(S.node, Source)
assert isinstance(T.node, Source)
SOURCE, OTHER = S.node, T.node


def _promises(query: sw.Query, *elements: Element) -> list[Element]:
    """What a query promises of its output, one element at a time."""
    return _told(query.run({S: list(elements)}, batch=1))


def _told(out: Iterable[Element]) -> list[Element]:
    return [element for element in out if isinstance(element, sw.Punctuation)]


SEVEN = sw.punctuation(k=7)
HIGH = sw.punctuation(20, v=sw.between(3, 9))


def test_where_passes_promises_as_they_are() -> None:
    since = sw.punctuation(20, 10, k=7)
    assert _promises(S.where(sw.col("v") > 0), SEVEN, HIGH, since) == [SEVEN, HIGH, since]


def test_a_promise_moves_in_time_as_a_cti_does() -> None:
    early, late = sw.punctuation(20, k=7), sw.punctuation(20, v=sw.between(3, 9))
    assert _promises(S.shift(5), early, late) == [
        sw.punctuation(25, k=7),
        sw.punctuation(25, v=sw.between(3, 9)),
    ]
    # an adjust to 20 is still permitted, and changes the output at 15
    assert _promises(S.extend(-5), early) == [sw.punctuation(15, k=7)]
    # nothing more at any time is nothing more in any window
    assert _promises(S.window(sw.tumbling(10)), SEVEN) == [SEVEN]
    assert _promises(S.window(sw.tumbling(10)), sw.punctuation(15, k=7)) == [sw.punctuation(20, k=7)]


def test_a_promise_that_begins_at_a_time_survives_windows_only() -> None:
    """9 starts at 10 there, and 20 at 30: what starts between these comes from [10, 20)."""
    done = sw.punctuation(20, 10, k=7)
    assert _promises(S.window(sw.tumbling(10)), done) == [sw.punctuation(30, 11, k=7)]
    for query in (S.extend(3), S.shift(2), S.deletes(), S.point_at_end(), S.chop(5)):
        assert _promises(query, done) == []
    inserts = S.inserts()
    assert _promises(inserts, done) == [done]


@pytest.mark.parametrize("query", [S.deletes(), S.point_at_end(), S.chop(5)])
def test_what_looks_at_ends_keeps_promises_from_the_beginning_of_time(query: sw.Query) -> None:
    assert _promises(query, SEVEN, HIGH) == [SEVEN, HIGH]


def test_chop_forgets_what_it_set_aside_when_its_payload_is_closed() -> None:
    running = S.chop(5).open(on_invalid=sw.LEDGER)
    running.push(S, [sw.insert(0, None, k=7, v=1), sw.insert(0, None, k=8, v=1)])
    assert running.describe()[0].state.state_rows == 2
    running.push(S, [SEVEN])
    assert running.describe()[0].state.state_rows == 1


def test_select_renames_and_repeats() -> None:
    assert _promises(S.select(item="k", v="v"), SEVEN) == [sw.punctuation(item=7)]
    assert _promises(S.select(a="k", b="k"), SEVEN) == [sw.punctuation(a=7), sw.punctuation(b=7)]


def test_select_drops_what_speaks_of_columns_that_are_gone_or_computed() -> None:
    """projPs: the promise about v alone says nothing of k."""
    assert _promises(S.select("k"), HIGH) == []
    assert _promises(S.select("k", v=sw.col("v") + 1), HIGH, SEVEN) == [SEVEN]


def test_promises_that_leave_no_value_out_are_one_about_the_rest() -> None:
    low, high = (
        sw.punctuation(k=7, v=sw.between(None, 4)),
        sw.punctuation(30, k=7, v=sw.between(5, None)),
    )
    null = sw.punctuation(v=None)
    assert _promises(S.select("k"), low, high, null) == [sw.punctuation(30, k=7)]
    assert _promises(S.select("k"), null, low, high) == [sw.punctuation(30, k=7)]
    # the whole of v, at every k: nothing more at all before 30
    whole = [sw.punctuation(v=sw.between(None, 4)), sw.punctuation(30, v=sw.between(5, None)), null]
    assert _promises(S.select("k"), *whole) == [sw.cti(30)]
    # what two ranges have in common
    parts = [
        sw.punctuation(k=sw.between(1, 5), v=sw.between(None, 4)),
        sw.punctuation(k=sw.between(3, 9), v=sw.between(5, None)),
        null,
    ]
    assert _promises(S.select("k"), *parts) == [sw.punctuation(k=sw.between(3, 5))]


def test_members_of_a_domain_that_are_all_done_close_the_hour() -> None:
    """Sensors 1, 2 and 3 are all there are: when each is done with 17, so is the hour."""
    readings = sw.stream({"sensor": int, "hour": int}, name="readings")
    query = readings.punctuate(sw.domain(sensor=sw.one_of(1, 2, 3))).select("hour")
    done = [sw.punctuation(sensor=sensor, hour=17) for sensor in (1, 2, 3)]
    out = query.run({readings: [*done[:2], sw.punctuation(sensor=1, hour=18), done[2]]}, batch=1)
    assert _told(out) == [sw.punctuation(hour=17)]


def test_a_flag_has_two_values_and_null() -> None:
    flags = sw.stream({"k": int, "ok": bool}, name="flags")
    told = [sw.punctuation(k=1, ok=value) for value in (True, None, False)]
    assert _told(flags.select("k").run({flags: told}, batch=1)) == [sw.punctuation(k=1)]


def test_select_remembers_no_more_than_what_it_may_still_use() -> None:
    running = Execution(S.select("k").node)
    null = sw.punctuation(v=None)
    halves = [sw.punctuation(k=7, v=sw.between(None, 4)), sw.punctuation(k=7, v=sw.between(5, None))]
    running.push(SOURCE, [null, halves[0]])
    [(state, *_)] = running.snapshot().operators
    assert len(state) == 2
    running.push(SOURCE, [halves[1]])
    # null goes for every k, and may be needed again
    assert len(state) == 1


def test_what_is_told_piece_by_piece_is_remembered_as_one_piece() -> None:
    running = Execution(S.select("k").node)
    pieces = [sw.punctuation(k=7, v=sw.between(low, low + 1)) for low in range(0, 40, 2)]
    ends = [
        sw.punctuation(v=None),
        sw.punctuation(v=sw.between(None, -1)),
        sw.punctuation(v=sw.between(40, None)),
    ]
    # in any order: every second one first, then what lies between
    for piece in [*ends, *pieces[::2], *pieces[1:-1:2]]:
        assert _told(element for batch in running.push(SOURCE, [piece]) for element in batch) == []
    [(state, *_)] = running.snapshot().operators
    assert len(state) == len(ends) + 1
    [said] = running.push(SOURCE, [pieces[-1]])
    assert list(said) == [SEVEN]


def test_select_forgets_pieces_of_what_is_promised_as_a_whole() -> None:
    running = Execution(S.select("k").node)
    pieces = [sw.punctuation(k=k, v=sw.between(low, low + 1)) for k in (7, 8) for low in range(0, 9, 3)]
    running.push(SOURCE, [*pieces, sw.punctuation(30, k=9, v=sw.between(1, 2))])
    [(state, *_)] = running.snapshot().operators
    assert len(state) == 7
    # a time that is too short says nothing of what is for ever
    running.push(SOURCE, [SEVEN, sw.punctuation(30, k=8)])
    assert len(state) == 4
    running.push(SOURCE, [sw.punctuation(40, k=sw.between(8, 9))])
    assert len(state) == 3


def test_pieces_that_have_waited_are_completed_like_others() -> None:
    """More of them than wait, of more than one key; the ends come last."""
    running = Execution(S.select("k").node)
    pieces = [sw.punctuation(k=k, v=sw.between(low, low + 1)) for low in range(0, 80, 2) for k in (6, 7)]
    null = sw.punctuation(v=None)
    low, high = (sw.punctuation(k=7, v=sw.between(None, -1)), sw.punctuation(v=sw.between(80, None)))
    for piece in [null, *pieces, low]:
        assert _told(element for batch in running.push(SOURCE, [piece]) for element in batch) == []
    [said] = running.push(SOURCE, [high])
    assert list(said) == [SEVEN]


def _union(*script: tuple[sw.Query, Element]) -> list[Element]:
    return _told(S.union(T).run(list(script), batch=1))


def test_union_tells_what_all_have_promised() -> None:
    assert _union((S, SEVEN), (T, sw.punctuation(k=8)), (T, sw.punctuation(30, k=7))) == [
        sw.punctuation(30, k=7)
    ]
    ranges = (S, sw.punctuation(k=sw.between(1, 5))), (T, sw.punctuation(v=1, k=sw.between(4, 9)))
    assert _union(*ranges) == [sw.punctuation(v=1, k=sw.between(4, 5))]


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_union_keeps_the_end_of_a_range_open(dtype: type[pl.DataType]) -> None:
    """0.5 may still come on the one side."""
    one, other = (sw.stream({"x": dtype}, name=name) for name in ("one", "other"))
    told = [(one, sw.punctuation(x=sw.between(0.5, None, closed="right"))),
            (other, sw.punctuation(x=sw.between(0.5, None))),
            (one, sw.insert(0, 1, x=0.5))]  # fmt: skip
    sw.validate(one.union(other).run(told, batch=1).as_batch())


def test_a_cti_is_a_promise_that_is_combined_with_those_of_others() -> None:
    assert _union((T, sw.cti(10)), (S, SEVEN), (T, sw.cti(20)), (S, sw.cti(15)), (T, sw.cti(None))) == [
        sw.punctuation(10, k=7),
        sw.punctuation(20, k=7),
        sw.cti(15),
        SEVEN,
    ]


def test_union_forgets_what_all_have_promised() -> None:
    running = Execution(S.union(T).node)
    for key in range(9):
        running.push(SOURCE, [sw.punctuation(k=key)])
    [(state, *_)] = running.snapshot().operators
    assert [len(promises) > 0 for promises in state.promised] == [True, False]
    for key in range(9):
        running.push(OTHER, [sw.punctuation(k=key)])
    assert [len(promises) for promises in state.promised] == [0, 0]


def test_the_output_of_a_window_is_valid_after_its_promises() -> None:
    """The bound of a promise that begins at a time, tried: what is permitted does not break it."""
    for hop in (sw.tumbling(10), sw.hopping(20, 5), sw.sliding(7)):
        for vs in (0, 9, 10, 19, 20, 35):
            if 10 <= vs < 20:
                continue
            row = sw.insert(vs, vs + 1, k=7, v=0)
            out = S.window(hop).run({S: [sw.punctuation(20, 10, k=7), row]}, batch=1)
            sw.validate(out.as_batch(), pl.Schema(S.schema))


PATTERNS = st.one_of(
    st.just(sw.ANY),
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([sw.between(None, 0), sw.between(1, None), sw.between(0, 1), sw.one_of(0, 2)]),
)


@st.composite
def _punctuations(draw: st.DrawFn) -> sw.Punctuation:
    before = draw(st.one_of(st.none(), st.integers(0, 12)))
    since = draw(st.sampled_from([sw.BEGIN, sw.BEGIN, -1 if before is None else before - 3]))
    return sw.punctuation(before, since, k=draw(PATTERNS), v=draw(PATTERNS))


@st.composite
def _punctuated(draw: st.DrawFn) -> list[Element]:
    """A stream with promises at random places, which some of its elements break."""
    rows = draw(histories(pl.Schema({"k": pl.Int64(), "v": pl.Int64()})))
    elements = list(draw(streams(rows)))
    for _ in range(draw(st.integers(0, 5))):
        elements.insert(draw(st.integers(0, len(elements))), draw(_punctuations()))
    return elements


QUERIES = {
    "where": S.where(sw.col("v") > 0, promise=True),
    "select": S.select("k"),
    "select of two names": S.select("v", a="k", b="k"),
    "select of a sum": S.select("v", k=sw.col("k") + 1),
    "tumbling": S.window(sw.tumbling(4)),
    "hopping": S.window(sw.hopping(6, 2)),
    "extend": S.extend(-3),
    "rounded": S.alter_lifetime(start=sw.VS.floor(3), end=sw.VE.ceil(3)),
    "deletes": S.deletes(),
    "point at end": S.point_at_end(),
    "chop": S.clip(9).chop(3),
    "union": S.union(S.where(sw.col("k") > 0).shift(2)),
    "align": S.align(2),
    "strong": S.align("inf"),
    "cleanse": S.cleanse(),
    "cleanse in any order": S.cleanse(in_order=False),
    "finalize": S.finalize("inf"),
    "sort": S.sort("k", "v"),
    "several": S.select("k", v="v").align(3).sort("v").window(sw.sliding(3)).select("v"),
}


@given(name=st.sampled_from(sorted(QUERIES)), elements=_punctuated(), batch=st.integers(1, 5))
def test_no_promise_that_comes_out_is_broken_and_the_history_is_that_of_what_was_let_in(
    name: str, elements: list[Element], batch: int
) -> None:
    query = QUERIES[name]
    out = query.run({S: elements}, batch=batch, on_invalid=sw.LEDGER)
    sw.validate(out.as_batch())
    if any(element == sw.cti(None) for element in elements):
        assert out.as_history() == query.meaning({S: _let_in(elements)})


def _let_in(elements: list[Element]) -> list[Element]:
    """The elements without those that the edge sets aside."""
    edge, kept = S.open(on_invalid=sw.LEDGER), []
    for element in elements:
        before = len(list(edge.output.ledger))
        edge.push(S, [element])
        if len(list(edge.output.ledger)) == before:
            kept.append(element)
    return kept
