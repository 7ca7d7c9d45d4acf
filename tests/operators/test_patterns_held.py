"""Promises about payloads where rows are held: align, cleanse, finalize, mend and sort, by hand."""

from __future__ import annotations

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.punctuations import Closings
from slackwater.runtime import Execution
from slackwater.validity import StreamProperties

S = sw.stream({"a": int}, name="s")
ONE = sw.punctuation(a=1)


def _through(query: sw.Query, *elements: Element) -> list[Element]:
    return list(query.run({S: list(elements)}, batch=1))


# align


def test_a_promise_follows_the_last_row_that_it_speaks_of() -> None:
    out = _through(
        S.align(5),
        sw.insert(3, 9, a=1),
        sw.insert(4, 9, a=2),
        ONE,
        sw.punctuation(a=3),
        sw.insert(8, 9, a=4),  # the limit is 3
        sw.insert(9, 10, a=4),  # the limit is 4
    )
    assert out == [
        sw.punctuation(a=3),
        sw.insert(3, 9, a=1),
        ONE,
        sw.insert(4, 9, a=2),
    ]


@pytest.mark.parametrize("query", [S.align("inf"), S.cleanse(), S.sort("a")])
def test_values_that_wait_for_rows_are_looked_up_together(query: sw.Query) -> None:
    """Not one after the other, whenever something is said."""
    execution = Execution(query.node)
    assert isinstance(S.node, Source)
    execution.push(S.node, [sw.insert(1, None, a=value) for value in range(50)])
    # the first stays open, which holds all others
    execution.push(S.node, [sw.punctuation(a=value) for value in range(1, 50, 2)])
    for value in range(2, 50, 2):
        execution.push(S.node, [sw.punctuation(a=value)])
    [(state, *_)] = execution.snapshot().operators
    assert [len(promise) for promise in state.pending.told if isinstance(promise, Closings)] == [49]
    said = execution.push(S.node, [sw.cti(sw.INF)])
    assert sum(batch.rows for batch in said) == 50


def test_only_rows_in_its_time_hold_a_promise_back() -> None:
    early = sw.punctuation(5, a=1)
    assert _through(S.align("inf"), sw.insert(7, 9, a=1), early) == [early]
    assert _through(S.align("inf"), sw.insert(4, 9, a=1), early) == []
    assert _through(S.align("inf"), sw.insert(4, 9, a=1), early, sw.cti(5)) == [
        sw.insert(4, 9, a=1),
        early,
        sw.cti(5),
    ]


def test_changes_outside_of_a_promise_may_add_up_to_one_inside() -> None:
    """30 -> 50 -> 10 -> 25: no sync of these lies in [20, 30), and that of 30 -> 25 does."""
    done = sw.punctuation(30, 20, a=1)
    changes = [sw.adjust(0, 30, 50, a=1), done, sw.adjust(0, 50, 10, a=1), sw.adjust(0, 10, 25, a=1)]
    elements = [sw.insert(0, 30, a=1), sw.cti(5), *changes]
    sw.validate(elements)
    out = S.align("inf").run({S: [*elements, sw.cti(60)]}, batch=1)
    assert list(out) == [sw.insert(0, 30, a=1), sw.cti(5), sw.adjust(0, 30, 25, a=1), sw.cti(60)]
    # where nothing is lengthened it cannot happen
    short = sw.stream({"a": int}, properties=sw.StreamProperties(never_lengthens=True))
    assert list(short.align("inf").run({short: [done]})) == [done]


# cleanse


def test_a_row_without_end_leaves_when_its_payload_is_closed() -> None:
    out = _through(S.cleanse(), sw.insert(1, None, a=1), sw.insert(5, 10, a=2), sw.cti(3), ONE)
    assert out == [sw.cti(1), sw.insert(1, None, a=1), ONE, sw.cti(3)]


def test_order_is_kept_whatever_a_promise_settles() -> None:
    """2 is settled, but 1 starts before it; 3 is settled, but something may come that starts before."""
    rows = [sw.insert(1, None, a=1), sw.insert(2, None, a=2), sw.insert(9, None, a=3)]
    out = _through(S.cleanse(), *rows, sw.cti(5), sw.punctuation(a=sw.one_of(2, 3)), ONE, sw.cti(9))
    assert out == [sw.cti(1), rows[0], rows[1], sw.punctuation(a=2), ONE, sw.cti(5), rows[2], *out[-2:]]
    assert set(out[-2:]) == {sw.punctuation(a=3), sw.cti(9)}


def test_out_of_order_each_row_leaves_when_its_own_end_is_known() -> None:
    rows = [sw.insert(1, None, a=1), sw.insert(2, None, a=2), sw.insert(3, 7, a=3)]
    out = _through(S.cleanse(in_order=False), *rows, sw.punctuation(a=2), sw.cti(8), ONE)
    assert out == [rows[1], sw.punctuation(a=2), rows[2], sw.cti(1), rows[0], ONE, sw.cti(8)]


def test_a_promise_settles_what_ends_before_it_and_nothing_else() -> None:
    rows = [sw.insert(1, 19, a=1), sw.insert(1, 20, a=1)]
    until = sw.punctuation(20, a=1)
    out = _through(S.cleanse(in_order=False), *rows, until, sw.adjust(1, 20, 25, a=1), sw.cti(30))
    assert out == [rows[0], sw.insert(1, 25, a=1), until, sw.cti(30)]


def test_a_promise_that_begins_behind_the_cti_settles_when_the_cti_comes_there() -> None:
    row, from_ten = sw.insert(3, 50, a=1), sw.punctuation(60, 10, a=1)
    assert _through(S.cleanse(), row, from_ten, sw.cti(9), sw.cti(10)) == [
        from_ten,
        sw.cti(3),
        row,
        sw.cti(10),
    ]


def test_what_cleanse_claims_without_order() -> None:
    assert S.cleanse().properties.perfect
    loose = S.cleanse(in_order=False).properties
    assert loose.insert_only
    assert not loose.ordered


# finalize and mend


def test_finalize_passes_promises_and_forgets_what_they_settle() -> None:
    running = S.finalize(5).open(on_invalid=sw.LEDGER)
    running.push(S, [sw.insert(20, 21, a=0)])
    running.push(S, [sw.insert(3, 40, a=1), sw.insert(3, 40, a=2)])  # too late: given up
    assert running.describe()[0].state.state_rows == 2
    [out] = running.push(S, [ONE])
    assert list(out) == [ONE]
    assert running.describe()[0].state.state_rows == 1
    # what continues the other one is still known
    assert running.push(S, [sw.adjust(3, 40, 30, a=2)]) == []
    assert len(list(running.output.ledger)) == 3


def test_what_waits_for_its_event_holds_a_promise_back() -> None:
    parts = sw.stream({"a": int}, name="parts", disordered=True)
    running = parts.finalize("inf").open()

    def push(*elements: Element) -> list[Element]:
        return [element for batch in running.push(parts, list(elements)) for element in batch]

    assert push(sw.adjust(0, 10, 8, a=1)) == []
    until = sw.punctuation(9, a=1)
    assert push(sw.punctuation(9, a=2), until) == [sw.punctuation(9, a=2)]
    assert push(sw.adjust(0, 12, 10, a=1)) == []
    # it was promised that no insert comes: it waits in vain
    assert push(sw.cti(None))[-1] == sw.cti(None)
    assert [entry.reason for entry in running.output.ledger] == ["unlinked", "unlinked"]


# sort: paper 4 section 5.2

HOURS = sw.stream({"hour": int}, name="hours")
FROM_ZERO = sw.domain(hour=sw.between(0, None))


def _rows(*hours: int | None) -> list[Element]:
    return [sw.insert(0, None, hour=hour) for hour in hours]


def _sorted(query: sw.Query, *elements: Element) -> list[list[object]]:
    """The hours that come out after each element, and what is promised then."""
    running, out = query.open(), []
    for element in elements:
        said = [e for batch in running.push(HOURS, [element]) for e in batch]
        out.append([e.payload["hour"] if isinstance(e, sw.Insert) else e for e in said])
    return out


def test_the_papers_trace_of_sort() -> None:
    """[2, 4] releases nothing; [0, 3] then releases through hour 4, since 0 is the least value."""
    two_to_four = sw.punctuation(hour=sw.between(2, 4))
    zero_to_three = sw.punctuation(hour=sw.between(0, 3))
    query = HOURS.punctuate(FROM_ZERO).sort("hour")
    out = _sorted(query, *_rows(3, 5, 1, 4), two_to_four, zero_to_three)
    below, null = sw.punctuation(hour=sw.between(None, -1)), sw.punctuation(hour=None)
    assert out[:5] == [[below, null], [], [], [], []]
    assert out[5] == [1, 3, 4, two_to_four, zero_to_three]


def test_a_range_without_a_low_end_needs_no_domain_but_null_comes_first() -> None:
    upto, null = sw.punctuation(hour=sw.between(None, 4)), sw.punctuation(hour=None)
    out = _sorted(HOURS.sort("hour"), *_rows(3, 5, None), upto, null)
    assert out == [[], [], [], [], [None, 3, null, upto]]


def test_a_cti_and_promises_about_the_column_release_together() -> None:
    """What has a sync before the promise comes out; what is later waits for more."""
    rows = [sw.insert(1, 9, hour=2), sw.insert(8, 9, hour=1), sw.insert(3, 9, hour=7)]
    until_five = sw.punctuation(5, hour=sw.between(None, 4))
    out = _sorted(HOURS.sort("hour"), *rows, sw.punctuation(hour=None), until_five, sw.cti(9))
    assert out[3:] == [[sw.punctuation(hour=None)], [2, until_five], [1, 7, sw.cti(9)]]


def test_hours_that_are_closed_one_by_one_come_out_one_by_one() -> None:
    running = HOURS.punctuate(FROM_ZERO).sort("hour").open()
    running.push(HOURS, _rows(*reversed(range(5))))
    out = []
    for hour in (1, 0, 3, 2, 4):
        said = running.push(HOURS, [sw.punctuation(hour=hour)])
        out.append([e.payload["hour"] for batch in said for e in batch if isinstance(e, sw.Insert)])
    assert out == [[], [0, 1], [], [2, 3], [4]]
    assert running.describe()[-1].state.state_rows == 0


@pytest.mark.parametrize(
    ("dtype", "least", "next_"),
    [(pl.UInt8, 0, 1), (pl.Int8, -128, -127), (pl.Boolean, False, True), (pl.Float32, -math.inf, 0.0)],
)
def test_the_least_value_of_a_type_is_the_first(
    dtype: type[pl.DataType], least: object, next_: object
) -> None:
    hours = sw.stream({"hour": dtype}, name="hours")
    rows = [sw.insert(0, None, hour=value) for value in (next_, least)]
    out = hours.sort("hour").run(
        {hours: [*rows, sw.punctuation(hour=None), sw.punctuation(hour=least)]}, batch=1
    )
    assert [element for element in out if isinstance(element, sw.Insert)] == [rows[1]]


# what is true of all


@st.composite
def _elements(draw: st.DrawFn) -> list[Element]:
    """Rows of few payloads with promises among them that they do not break, closed at the end."""
    said: list[Element] = []
    open_, cti = {0, 1, 2}, 0
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["row", "row", "row", "close", "cti"]))
        if kind == "row" and open_:
            vs = draw(st.integers(cti, cti + 5))
            end = draw(st.one_of(st.none(), st.integers(vs + 1, vs + 9)))
            said.append(sw.insert(vs, end, a=draw(st.sampled_from(sorted(open_)))))
        elif kind == "close" and open_:
            value = draw(st.sampled_from(sorted(open_)))
            open_.discard(value)
            said.append(sw.punctuation(a=value))
        elif kind == "cti":
            cti = draw(st.integers(cti, cti + 8))
            said.append(sw.cti(cti))
    return [*said, sw.cti(None)]


QUERIES = {
    "align": S.align(3),
    "strong": S.align("inf"),
    "cleanse": S.cleanse(),
    "cleanse in any order": S.cleanse(in_order=False),
    "finalize": S.finalize("inf"),
    "sort": S.sort("a"),
    "punctuate": S.punctuate(sw.domain(a=sw.between(0, 2))),
}


@given(name=st.sampled_from(sorted(QUERIES)), elements=_elements(), batch=st.integers(1, 4))
def test_promises_are_kept_and_what_is_claimed_is_true(
    name: str, elements: list[Element], batch: int
) -> None:
    query = QUERIES[name]
    out = query.run({S: elements}, batch=batch)
    sw.validate(out.as_batch())
    assert out.as_history() == query.meaning({S: elements})
    claimed, observed = query.properties, StreamProperties.observed(out.as_batch())
    assert set(claimed.names()) <= set(observed.names())


@given(elements=_elements())
def test_without_time_every_closed_row_has_left_cleanse(elements: list[Element]) -> None:
    """Completeness, where nothing waits for others: what is closed is out, what is open is not."""
    running = S.cleanse(in_order=False).open()
    closed: set[object] = set()
    seen: list[sw.Insert] = []
    for element in elements[:-1]:
        if isinstance(element, sw.Punctuation) and element.is_cti:
            continue
        running.push(S, [element])
        if isinstance(element, sw.Insert):
            seen.append(element)
        else:
            closed |= {value for value in (0, 1, 2) if element == sw.punctuation(a=value)}
        out = [e for batch in running.output.batches for e in batch if isinstance(e, sw.Insert)]
        due = [e for e in seen if e.payload["a"] in closed]
        assert sorted(map(repr, out)) == sorted(map(repr, due))
