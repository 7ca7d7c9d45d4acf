from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA, Marker

from slackwater.errors import InvalidElement, InvalidTime
from slackwater.events import Adjust, Batch, Element, Insert, Placed, adjust, insert
from slackwater.history import History
from slackwater.punctuations import cti
from slackwater.times import INF
from slackwater.validity import validate

NAN = math.nan


@pytest.mark.parametrize(
    ("element", "sync"),
    [
        (insert(3, 9), 3),
        (adjust(3, 9, 5), 5),  # shortened
        (adjust(3, 9, 3), 3),  # removed
        (adjust(3, 9, 12), 9),  # lengthened: nothing before its old end changes
        (adjust(3, None, 9), 9),
        (cti(7), 7),
    ],
)
def test_sync_is_the_first_instant_that_changes(element, sync):
    assert element.sync == sync


def test_elements_are_equal_by_identity_of_their_values():
    assert insert(0, 1, x=NAN) == insert(0, 1, x=float("nan"))
    assert insert(0, 1, x=-0.0) == insert(0, 1, x=0.0)
    assert insert(0, 1, x=[NAN, None]) == insert(0, 1, x=[NAN, None])
    assert insert(0, 1, a=1, b=2) == insert(0, 1, b=2, a=1)
    assert len({adjust(0, 2, 1, x=NAN), adjust(0, 2, 1, x=NAN)}) == 1


@pytest.mark.parametrize(
    "other",
    [
        insert(0, 10, x=2.0),
        insert(0, 11, x=1.0),
        insert(1, 10, x=1.0),
        insert(0, 10, x=None),
        insert(0, 10, x=NAN),
        insert(0, 10, y=1.0),
        insert(0, 10),
        adjust(0, 10, 10, x=1.0),
    ],
)
def test_elements_differ_in_kind_in_time_and_in_payload(other):
    assert insert(0, 10, x=1.0) != other


@pytest.mark.parametrize(("vs", "ve"), [(5, 5), (5, 4), (INF, INF), (0, -3)])
def test_an_event_must_end_after_it_starts(vs, ve):
    with pytest.raises(InvalidElement, match="an event must end after it starts") as caught:
        insert(vs, ve, k="a")
    assert "{'k': 'a'}" in caught.value.detail


@pytest.mark.parametrize(("vs", "ve", "new_ve"), [(5, 9, 4), (5, 5, 7), (5, 3, 6)])
def test_an_adjust_cannot_end_an_event_before_it_starts(vs, ve, new_ve):
    with pytest.raises(InvalidElement, match="cannot end before it starts") as caught:
        adjust(vs, ve, new_ve, k="a")
    assert f"vs={vs}, ve={ve}, new_ve={new_ve}" in caught.value.fact


def test_times_may_be_datetimes_but_not_floats():
    start = dt.datetime(1970, 1, 1, 0, 0, 1)
    assert insert(start, None) == Insert(1_000_000, INF)
    with pytest.raises(InvalidTime, match=r"1\.5 is not a time"):
        insert(1.5, 3)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("name", ["kind", "ve", "new_ve", "pattern"])
def test_a_payload_cannot_use_the_names_of_a_changelog(name):
    with pytest.raises(InvalidElement, match=f"cannot be named '{name}'") as caught:
        insert(0, 1, **{name: 1})
    assert "rename" in caught.value.hint


def test_a_payload_column_named_vs_is_refused_even_when_built_by_hand():
    with pytest.raises(InvalidElement, match="cannot be named 'vs'"):
        Batch.of([Insert(0, 1, {"vs": 1})])


@pytest.mark.parametrize("name", ["*", "^a.*$"])
def test_a_payload_cannot_use_what_polars_reads_as_a_pattern(name):
    with pytest.raises(InvalidElement, match="cannot be named") as caught:
        insert(0, 1, **{name: 1})
    assert "pattern" in caught.value.detail


def test_what_is_not_an_element_is_refused():
    with pytest.raises(InvalidElement, match="'a row' is not an element"):
        Batch.of(["a row"])  # type: ignore[list-item]  # that is the point


def test_a_batch_reads_every_element_as_a_move_of_one_end():
    batch = Batch.of([insert(2, 9, k="a"), adjust(2, 9, 5, k="a"), adjust(2, 5, 2, k="a")])
    assert batch.vs.tolist() == [2, 2, 2]
    assert batch.old_ve.tolist() == [2, 9, 5]
    assert batch.new_ve.tolist() == [9, 5, 2]
    assert batch.sync.tolist() == [2, 5, 2]
    assert batch.is_insert.tolist() == [True, False, False]
    assert batch.payload["k"].to_list() == ["a", "a", "a"]


def test_control_elements_keep_their_places():
    elements: list[Element] = [
        Marker("before all"),
        insert(0, 1, k="a"),
        cti(1),
        Marker("between"),
        insert(1, 2, k="b"),
        Marker("after all"),
    ]
    batch = Batch.of(elements)
    assert (batch.rows, len(batch)) == (2, 6)
    assert batch.controls == (
        Placed(0, Marker("before all")),
        Placed(1, cti(1)),
        Placed(1, Marker("between")),
        Placed(2, Marker("after all")),
    )
    assert list(batch) == elements
    only_b = batch.where(np.array([False, True]))
    assert list(only_b) == [elements[0], *elements[2:]]
    assert [list(part) for part in batch.split(4)] == [elements[:4], elements[4:]]
    assert list(batch.data()) == [elements[1], elements[4]]
    assert list(batch.followed_by([cti(9)])) == [elements[1], elements[4], cti(9)]
    assert list(Batch.concat([batch, only_b])) == [*elements, *only_b]


def test_a_stream_may_have_no_payload():
    elements: list[Element] = [insert(0, 2), cti(1), insert(1, 3), adjust(0, 2, 1)]
    batch = Batch.of(elements)
    assert list(batch) == elements
    assert [list(part) for part in batch.split(3)] == [elements[:3], elements[3:]]
    assert list(Batch.concat([batch, batch])) == elements * 2
    assert list(batch.where(np.array([True, False, True]))) == [elements[i] for i in (0, 1, 3)]


SENSOR = pl.Schema({"sensor": pl.String, "temp": pl.Float64})


def test_a_value_of_the_wrong_type_is_named():
    with pytest.raises(InvalidElement, match="column 'temp' cannot hold 'hot'") as caught:
        Batch.of([insert(0, 1, sensor="a", temp=1.0), insert(0, 1, sensor="b", temp="hot")], SENSOR)
    assert "Float64" in caught.value.detail
    assert "'sensor': 'b'" in caught.value.detail


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        # polars would make these columns of another type than was asked for
        (pl.Date(), dt.datetime(2024, 1, 1, 5)),
        (pl.Datetime("us"), dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    ],
)
def test_a_batch_has_the_types_of_its_schema(dtype, value):
    with pytest.raises(InvalidElement, match="column 'at' cannot hold datetime"):
        Batch.of([insert(0, 1, at=None), insert(0, 1, at=value)], pl.Schema({"at": dtype}))


def test_an_unknown_column_and_a_missing_one_are_named():
    with pytest.raises(InvalidElement, match="unknown column 'tmp'") as caught:
        Batch.of([insert(0, 1, sensor="a", temp=1.0, tmp=2.0)], SENSOR)
    assert "sensor, temp" in caught.value.detail
    with pytest.raises(InvalidElement, match="column 'temp' is missing"):
        Batch.of([insert(0, 1, sensor="a")], SENSOR)


def test_without_a_schema_all_payloads_must_be_alike():
    with pytest.raises(InvalidElement, match="unknown column 'b'"):
        Batch.of([insert(0, 1, a=1), insert(0, 1, b=1)])
    with pytest.raises(InvalidElement, match="one type per column"):
        Batch.of([insert(0, 1, a=1), insert(0, 1, a="one")])


def test_values_are_never_rounded():
    cents = pl.Schema({"amount": pl.Decimal(10, 2)})
    assert list(Batch.of([insert(0, 1, amount=Decimal("1.25"))], cents))
    with pytest.raises(InvalidElement, match="cannot hold Decimal") as caught:
        Batch.of([insert(0, 1, amount=Decimal("1.255"))], cents)
    assert "round" in caught.value.hint
    pair = pl.Schema({"p": pl.Struct({"a": pl.Int64})})
    with pytest.raises(InvalidElement, match="'p' cannot hold"):
        Batch.of([insert(0, 1, p={"a": 1, "b": 2})], pair)


@given(naive.any_streams())
def test_a_batch_holds_the_elements_it_was_made_of(elements):
    batch = Batch.of(elements, SCHEMA)
    assert list(batch) == elements
    assert len(batch) == len(elements)
    data = [e for e in elements if isinstance(e, Insert | Adjust)]
    assert batch.rows == len(data)
    assert batch.sync.tolist() == [e.sync for e in data]


@given(naive.any_streams(), st.integers(1, 10))
def test_splitting_and_concatenating_changes_nothing(elements, size):
    batch = Batch.of(elements, SCHEMA)
    parts = list(batch.split(size))
    assert [list(part) for part in parts] == [
        elements[start : start + size] for start in range(0, len(elements), size)
    ]
    if parts:
        assert list(Batch.concat(parts)) == elements


@given(st.data())
def test_where_keeps_the_chosen_rows_and_every_control_element(data):
    elements: list[Element] = data.draw(naive.any_streams())
    batch = Batch.of(elements, SCHEMA)
    mask = data.draw(st.lists(st.booleans(), min_size=batch.rows, max_size=batch.rows))
    chosen = iter(mask)
    expected = [e for e in elements if not isinstance(e, Insert | Adjust) or next(chosen)]
    assert list(batch.where(np.array(mask, dtype=np.bool_))) == expected


@pytest.mark.parametrize(
    "values",
    [
        ([1], [1.5]),
        ({"x": 1}, {"x": 1, "y": 2}),
        (1.5, 2**60 + 1),
        (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
        (object(), object()),
    ],
)
def test_inferred_types_never_change_a_value(values):
    with pytest.raises(InvalidElement):
        Batch.of([insert(0, 1, a=value) for value in values])


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (pl.Datetime("ms"), dt.datetime(2020, 1, 1, microsecond=1)),
        (pl.Duration("ms"), dt.timedelta(microseconds=1)),
        (pl.Datetime("us", "Europe/Berlin"), dt.datetime(2020, 1, 1)),
        (pl.Float64(), 2**60 + 1),
        (pl.Datetime("us"), 5),
        (pl.Int64(), True),
    ],
)
def test_declared_types_never_change_a_value(dtype, value):
    with pytest.raises(InvalidElement, match="cannot hold"):
        Batch.of([insert(0, 1, a=value)], pl.Schema({"a": dtype}))


def test_batches_made_by_hand_are_checked():
    payload = pl.DataFrame({"a": [1]})
    backwards = Batch.inserts(np.array([5]), np.array([3]), payload)
    for use in (validate, History.of):
        with pytest.raises(InvalidElement, match="must end after it starts"):
            use(backwards)
    with pytest.raises(InvalidElement, match="different lengths"):
        Batch.inserts(np.array([5, 6]), np.array([7, 8]), payload).checked()


def test_times_are_whole_numbers():
    half: Any = 0.5
    for wrong in (lambda: Insert(half, 2, {}), lambda: insert(0, pd.NaT), lambda: insert(0, half)):
        with pytest.raises((InvalidElement, InvalidTime)):
            wrong()
