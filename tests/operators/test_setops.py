"""Distinct, intersect, difference and what rows of a join are alone, at every output latency."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.testing import batchings, histories, streams

SCHEMA = {"p": str}
A, B = sw.stream(SCHEMA, name="a"), sw.stream(SCHEMA, name="b")


def _run(query: sw.Query, latency: sw.OutputLatency, *script: tuple[sw.Query, Element]) -> list[Element]:
    return list(query.latency(latency).run(list(script), batch=1))


def _insert(vs: int, ve: int | None, p: str = "x") -> Element:
    return sw.insert(vs, ve, p=p)


def _adjust(vs: int, ve: int | None, new_ve: int | None, p: str = "x") -> Element:
    return sw.adjust(vs, ve, new_ve, p=p)


CHAIN = [(A, e) for e in (_insert(0, 5), _insert(3, 9), _insert(9, 12), _insert(15, 16), sw.cti(20))]


def test_a_run_is_shown_when_nothing_can_join_on_to_it() -> None:
    """[0, 9) ends where another event begins: only [0, 12) is final, at 15."""
    assert _run(A.distinct(), sw.PERFECTNESS_PRESERVING, *CHAIN) == [
        _insert(0, 12),
        _insert(15, 16),
        sw.cti(20),
    ]


def test_a_run_is_shown_without_end_until_that_is_final() -> None:
    assert _run(A.distinct(), sw.ORDER_PRESERVING, *CHAIN) == [
        _insert(0, None),
        _adjust(0, None, 12),
        _insert(15, None),
        _adjust(15, None, 16),
        sw.cti(20),
    ]


def test_what_is_not_shown_may_not_be_promised_away() -> None:
    out = _run(
        A.distinct(),
        sw.PERFECTNESS_PRESERVING,
        (A, _insert(2, 30)),
        (A, _insert(5, 6, "y")),
        (A, sw.cti(10)),
        (A, sw.cti(31)),
    )
    assert out == [_insert(5, 6, "y"), sw.cti(2), _insert(2, 30), sw.cti(31)]


def test_what_was_shown_before_something_late_joined_on_stays_and_is_lengthened_for_a_promise() -> None:
    out = _run(
        A.distinct(),
        sw.PERFECTNESS_PRESERVING,
        (A, _insert(0, 5)),
        (A, _insert(8, 9, "y")),
        (A, _insert(4, 30)),
        (A, sw.cti(4)),
        (A, sw.cti(10)),
        (A, _adjust(4, 30, 12)),
        (A, sw.cti(13)),
    )
    assert out == [
        _insert(0, 5),
        sw.cti(4),
        _insert(8, 9, "y"),
        _adjust(0, 5, 10),
        sw.cti(10),
        _adjust(0, 10, 12),
        sw.cti(13),
    ]


def test_where_the_other_input_begins_a_row_of_a_difference_ends_at_once() -> None:
    """No insert can join on there. Where its own event ends, one can."""
    script = [(A, _insert(0, 5)), (A, _insert(0, 3, "y")), (B, _insert(3, 4)), (A, _insert(4, 9, "z"))]
    latency = sw.PERFECTNESS_PRESERVING
    assert _run(A.difference(B), latency, *script[:3]) == [_insert(0, 3)]
    assert _run(A.difference(B), latency, *script) == [_insert(0, 3), _insert(0, 3, "y")]


def test_copies_of_one_payload_come_in_the_order_of_their_starts() -> None:
    elements = [_insert(0, 20), _insert(5, 10), sw.cti(15), sw.cti(21)]
    script = [*((A, element) for element in elements), (B, sw.cti(21))]
    query = A.difference(B, all=True)
    assert _run(query, sw.PERFECTNESS_PRESERVING, *script) == [
        _insert(0, 20),
        _insert(5, 10),
        sw.cti(21),
    ]
    assert _run(query, sw.ORDER_PRESERVING, *script) == [
        _insert(0, None),
        _insert(5, None),
        _adjust(5, None, 10),
        _adjust(0, None, 20),
        sw.cti(21),
    ]


def test_a_copy_that_begins_with_another_does_not_wait_for_its_end() -> None:
    """The one that begins later does: rows come in the order of their starts."""
    out = _run(
        A.difference(B, all=True),
        sw.PERFECTNESS_PRESERVING,
        (B, sw.cti(None)),
        (A, _insert(0, None)),
        (A, _insert(0, 4)),
        (A, _insert(0, 2)),
        (A, _insert(1, 3)),
        (A, sw.cti(4)),
        (A, sw.cti(5)),
        (A, _adjust(0, None, 6)),
        (A, sw.cti(7)),
    )
    assert out == [
        *(_insert(0, 3), sw.cti(0)),
        _insert(0, 4),
        *(_insert(0, 6), _insert(1, 2), sw.cti(7)),
    ]


def test_a_copy_that_was_shown_goes_if_something_late_joins_on_to_it() -> None:
    out = _run(
        A.intersect(B, all=True),
        sw.PERFECTNESS_PRESERVING,
        (B, _insert(0, None)),
        (B, _insert(0, None)),
        (A, _insert(0, None)),
        (A, _insert(0, 2)),
        (A, _insert(5, 6, "y")),
        (A, _insert(2, 9)),
        (A, sw.cti(None)),
        (B, sw.cti(None)),
    )
    assert out == [_insert(0, 2), _adjust(0, 2, 0), _insert(0, None), _insert(0, 9), sw.cti(None)]


def test_a_copy_that_stays_is_not_said_again() -> None:
    """[5, 10) is the first copy, then the second: as a row it is the same."""
    script = [(A, _insert(5, 10)), (A, _insert(0, 20))]
    assert _run(A.difference(B, all=True), sw.EAGER, *script) == [_insert(5, 10), _insert(0, 20)]


@pytest.mark.parametrize("batch", [1, 3])
def test_what_a_row_is_alone_is_final_when_the_watermark_reaches_its_end(batch: int) -> None:
    script = [(A, _insert(0, 10)), (B, _insert(4, 6)), (B, _insert(10, 11, "y"))]
    out = A.join(B, on="p", how="anti").latency(sw.PERFECTNESS_PRESERVING).run(script, batch=batch)
    assert list(out) == [_insert(0, 4), _insert(6, 10)]


# Perfect in, perfect out; ordered in, ordered out

QUERIES: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "distinct": lambda a, b: a.union(b).distinct(),
    "intersect": lambda a, b: a.intersect(b),
    "intersect all": lambda a, b: a.intersect(b, all=True),
    "difference": lambda a, b: a.difference(b),
    "difference all": lambda a, b: a.difference(b, all=True),
    "anti join": lambda a, b: a.join(b, on="p", how="anti"),
}


def _merged_by_sync(data: st.DataObject, **manner: Any) -> list[tuple[sw.Query, Element]]:
    """Both streams as one script, in order of sync."""
    tellings = []
    for source in (A, B):
        history = data.draw(histories(source.schema))
        tellings += [(source, e) for e in data.draw(streams(history, **manner))]
    return sorted(tellings, key=lambda told: _sync(told[1]))


def _sync(element: Element) -> int:
    assert isinstance(element, sw.Insert | sw.Adjust | sw.Punctuation)
    return element.sync


def _in_batches(
    data: st.DataObject, script: list[tuple[sw.Query, Element]]
) -> Iterator[tuple[sw.Query, list[Element]]]:
    for source, told in groupby(script, key=lambda told: told[0]):
        for part in data.draw(batchings([element for _, element in told])):
            yield source, part


def _output(data: st.DataObject, name: str, latency: sw.OutputLatency, **manner: Any) -> list[sw.Batch]:
    running = QUERIES[name](A, B).latency(latency).open()
    out: list[sw.Batch] = []
    for source, part in _in_batches(data, _merged_by_sync(data, **manner)):
        out += running.push(source, part)
    return out


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_perfect_input_gives_perfect_output_for_each_payload(name: str, data: st.DataObject) -> None:
    """Of a join for each row, which the output does not name: there, that nothing is taken back."""
    rows = sw.Batch.concat(_output(data, name, sw.PERFECTNESS_PRESERVING, perfect=True))
    assert rows.is_insert.all()
    if name != "anti join":
        for p in set(rows.payload["p"]):
            starts = rows.vs[rows.payload["p"].eq_missing(p).to_numpy()]
            assert np.all(np.diff(starts) >= 0)


@pytest.mark.parametrize("name", QUERIES)
@given(data=st.data())
def test_ordered_input_gives_ordered_output(name: str, data: st.DataObject) -> None:
    """All payloads together; rows without a key pass a join at once, and are left out."""
    rows = sw.Batch.concat(_output(data, name, sw.ORDER_PRESERVING, ordered=True))
    if name == "anti join":
        rows = rows.where(rows.payload["p"].is_not_null().to_numpy())
    assert np.all(np.diff(rows.sync) >= 0)
