from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA, Marker

from slackwater.errors import InvalidElement, PlanError
from slackwater.events import Adjust, Batch, Element, Insert, adjust, insert
from slackwater.history import History
from slackwater.ledger import Ledger
from slackwater.patterns import between
from slackwater.punctuations import cti, external_cti, punctuation
from slackwater.rows import changelog, from_dataframe, from_open_close
from slackwater.times import INF
from slackwater.validity import Validator

RIDES = pl.DataFrame({"bike": ["a", "b", "c"], "out": [1, 2, 3], "back": [4, 5, None]})
CHANGELOG: dict[str, Any] = {"kind": "kind", "vs": "vs", "ve": "ve", "new_ve": "new_ve"}


class OtherLibrary:
    """Speaks Arrow's PyCapsule interface, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def read_back(frame: pl.DataFrame, **options: Any) -> list[Element]:
    return list(from_dataframe(frame, **CHANGELOG, **options))


# forms


@pytest.mark.parametrize(
    "convert",
    [
        lambda df: df,
        pl.DataFrame.to_arrow,
        lambda df: df.to_arrow().combine_chunks().to_batches()[0],
        lambda df: df.to_pandas().astype({"back": "Int64"}),
        lambda df: OtherLibrary(df.to_arrow()),
    ],
    ids=["polars", "arrow table", "arrow record batch", "pandas", "any Arrow stream"],
)
def test_rows_with_lifetimes_of_any_library(convert):
    assert list(from_dataframe(convert(RIDES), vs="out", ve="back")) == [
        insert(1, 4, bike="a"),
        insert(2, 5, bike="b"),
        insert(3, None, bike="c"),
    ]


def test_rows_with_a_start_only():
    starts = RIDES.drop("back")
    points, unbounded = (from_dataframe(starts, vs="out", unbounded=u) for u in (False, True))
    assert list(points) == [insert(1, 2, bike="a"), insert(2, 3, bike="b"), insert(3, 4, bike="c")]
    assert list(unbounded) == [insert(vs, None, bike=b) for vs, b in ((1, "a"), (2, "b"), (3, "c"))]


def test_a_table_without_payload_and_a_table_without_rows():
    times = RIDES.select("out")
    assert list(from_dataframe(times, vs="out")) == [insert(1, 2), insert(2, 3), insert(3, 4)]
    nothing = from_dataframe(RIDES.clear(), vs="out", ve="back")
    assert (len(nothing), nothing.schema) == (0, pl.Schema({"bike": pl.String}))
    assert len(from_open_close(pl.DataFrame(schema={"kind": str, "at": int}), at="at")) == 0


def test_changelog_rows():
    frame = pl.DataFrame(
        {
            "p": ["P1", None, "P1", "P1", "P2", None],
            "type": ["insert", "cti", "adjust", "adjust", "insert", "cti"],
            "start": [1, 1, 1, 1, 4, 10],
            "end": [None, None, INF, 10, 9, None],
            "new_end": [None, None, 10, 5, None, None],
        }
    )
    batch = from_dataframe(frame, kind="type", vs="start", ve="end", new_ve="new_end")
    assert list(batch) == [
        insert(1, None, p="P1"),
        cti(1),
        adjust(1, None, 10, p="P1"),
        adjust(1, 10, 5, p="P1"),
        insert(4, 9, p="P2"),
        cti(10),
    ]


def test_a_named_index_of_pandas_is_a_column_and_row_labels_are_not():
    frame = pd.DataFrame({"bike": ["a", "b"], "out": [1, 2]})
    assert list(from_dataframe(frame.set_index("out"), vs="out")) == [
        insert(1, 2, bike="a"),
        insert(2, 3, bike="b"),
    ]
    assert list(from_dataframe(frame[frame.out > 1], vs="out")) == [insert(2, 3, bike="b")]


def test_a_batch_does_not_change_with_the_table_it_was_made_of():
    frame = pd.DataFrame({"n": [7, 8], "out": [1, 2]})
    batch = from_dataframe(frame, vs="out")
    frame.loc[0, "out"] = 99
    frame.loc[0, "n"] = 99
    assert list(batch) == [insert(1, 2, n=7), insert(2, 3, n=8)]


# times

NOON = dt.datetime(2024, 7, 1, 12, 0, 0, 5)
NOON_MICROSECONDS = 1_719_835_200_000_005


@pytest.mark.parametrize(
    ("series", "chronon"),
    [
        (pl.Series([NOON], dtype=pl.Datetime("us")), NOON_MICROSECONDS),
        (pl.Series([NOON], dtype=pl.Datetime("ns")), NOON_MICROSECONDS),
        (pl.Series([NOON], dtype=pl.Datetime("ms")), NOON_MICROSECONDS - 5),
        (pl.Series([NOON]).dt.replace_time_zone("UTC"), NOON_MICROSECONDS),
        # Prague is two hours ahead in July: its noon is ten o'clock of UTC
        (pl.Series([NOON]).dt.replace_time_zone("Europe/Prague"), NOON_MICROSECONDS - 7_200_000_000),
        (pl.Series([dt.date(1970, 1, 3)]), 2 * 86_400_000_000),
        (pl.Series([dt.date(1969, 12, 31)]), -86_400_000_000),
        (pl.Series([-1], dtype=pl.Int64).cast(pl.Datetime("ns")), -1),
        (pl.Series([-5], dtype=pl.Int8), -5),
        (pl.Series([200], dtype=pl.UInt8), 200),
        (pl.Series([2**62], dtype=pl.UInt64), 2**62),
        (pl.Series([-(2**63)], dtype=pl.Int64), -(2**63)),
    ],
)
def test_times_become_chronons(series, chronon):
    frame = pl.DataFrame({"t": series})
    assert list(from_dataframe(frame, vs="t", unbounded=True)) == [insert(chronon, None)]


def test_a_datetime_column_of_pandas():
    frame = pd.DataFrame({"t": pd.to_datetime(["1970-01-01T00:00:01Z"]), "e": [pd.NaT]})
    assert list(from_dataframe(frame, vs="t", ve="e")) == [insert(1_000_000, None)]


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([2**63], dtype=pl.UInt64),
        pl.Series([-(2**63) - 1], dtype=pl.Int128),
        pl.Series([2**62], dtype=pl.Int64).cast(pl.Datetime("ms")),
        pl.Series([-(2**63)], dtype=pl.Int64).cast(pl.Datetime("ms")),
        pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date),
    ],
)
def test_a_time_that_does_not_fit_is_a_bad_row(column):
    frame = pl.DataFrame({"t": column})
    ledger = Ledger()
    assert len(from_dataframe(frame, vs="t", ledger=ledger)) == 0
    assert ledger.counts() == {"time out of range": 1}


def test_a_bad_row_can_hold_a_datetime_that_python_cannot():
    year_148108 = pl.Series([2**62], dtype=pl.Int64).cast(pl.Datetime("us"))
    frame = pl.DataFrame({"t": year_148108, "e": [0]})
    with pytest.raises(InvalidElement, match="ends before it starts") as caught:
        from_dataframe(frame, vs="t", ve="e")
    assert str(2**62) in caught.value.detail


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_a_bad_row_can_hold_a_datetime_of_any_unit(unit):
    times = pl.Series([5_000_000, None, -(2**63) + 1 if unit == "ns" else 0]).cast(pl.Datetime(unit))
    ledger = Ledger()
    assert len(from_dataframe(pl.DataFrame({"t": times, "k": [1, 2, 3]}), vs="t", ledger=ledger)) == 2
    [entry] = ledger
    assert (entry.reason, entry.element) == ("no start", {"t": None, "k": 2})


@pytest.mark.parametrize(
    "column", [pl.Series([1.0]), pl.Series(["2024-01-01"]), pl.Series([dt.timedelta(1)])]
)
def test_other_types_are_no_times(column):
    with pytest.raises(PlanError, match="column 't' is not a time") as caught:
        from_dataframe(pl.DataFrame({"t": column}), vs="t")
    assert str(column.dtype) in caught.value.detail


# what cannot be used


def test_the_first_bad_row_is_named_and_all_are_counted():
    frame = RIDES.with_columns(back=pl.Series([4, 2, 1]))
    with pytest.raises(InvalidElement) as caught:
        from_dataframe(frame, vs="out", ve="back", place="rides.csv")
    assert caught.value.fact == "row 1 of rides.csv cannot be used: ends before it starts"
    assert "{'bike': 'b', 'out': 2, 'back': 2}" in caught.value.detail
    assert "2 of 3 rows" in caught.value.detail
    assert "ledger" in caught.value.hint


def test_with_a_ledger_the_good_rows_go_on():
    frame = pl.DataFrame({"bike": list("abcd"), "out": [1, None, 3, 4], "back": [4, 5, 3, 9]})
    ledger = Ledger()
    batch = from_dataframe(frame, vs="out", ve="back", ledger=ledger, place="rides.csv")
    assert list(batch) == [insert(1, 4, bike="a"), insert(4, 9, bike="d")]
    assert [(e.element, e.reason, e.place, e.detail) for e in ledger] == [
        ({"bike": "b", "out": None, "back": 5}, "no start", "rides.csv", "row 1"),
        ({"bike": "c", "out": 3, "back": 3}, "ends before it starts", "rides.csv", "row 2"),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("insert", None, 9, None, "a"), "no start"),
        (("insert", 5, 5, None, "a"), "ends before it starts"),
        (("insert", 5, 9, 7, "a"), "insert with a new end"),
        (("adjust", 5, 9, None, "a"), "no new end"),
        (("adjust", None, 9, 7, "a"), "no start"),
        (("adjust", 5, 4, 7, "a"), "ends before it starts"),
        (("adjust", 5, 9, 4, "a"), "ends before it starts"),
        (("delete", 5, 9, None, "a"), "unknown kind"),
        ((None, 5, 9, None, "a"), "unknown kind"),
        (("cti", 5, None, None, "a"), "cti with more than a time"),
        (("cti", 5, 9, None, None), "cti with more than a time"),
        (("cti", 5, None, 9, None), "cti with more than a time"),
    ],
)
def test_bad_changelog_rows(row, reason):
    schema = {"kind": pl.String, "vs": pl.Int64, "ve": pl.Int64, "new_ve": pl.Int64, "p": pl.String}
    good = [("insert", 0, 9, None, "g"), ("adjust", 0, 9, 3, "g"), ("cti", 2, None, None, None)]
    frame = pl.DataFrame([good[0], row, *good[1:]], schema=schema, orient="row")
    with pytest.raises(InvalidElement, match=f"row 1 of rows cannot be used: {reason}"):
        read_back(frame)
    ledger = Ledger()
    elements = read_back(frame, ledger=ledger)
    assert elements == [insert(0, 9, p="g"), adjust(0, 9, 3, p="g"), cti(2)]
    [entry] = ledger
    assert (entry.reason, entry.element) == (reason, dict(zip(schema, row, strict=True)))


def test_a_changelog_of_inserts_needs_no_new_ends():
    frame = changelog([insert(0, 9, p="a"), adjust(0, 9, 5, p="a"), cti(3)]).drop("new_ve")
    ledger = Ledger()
    batch = from_dataframe(frame, kind="kind", vs="vs", ve="ve", ledger=ledger)
    assert list(batch) == [insert(0, 9, p="a"), cti(3)]
    assert ledger.counts() == {"no new end": 1}


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"vs": "start"}, "no column 'start'"),
        ({"vs": "out", "ve": "end"}, "no column 'end'"),
        ({"vs": "out", "ve": "back", "kind": "type"}, "no column 'type'"),
        ({"vs": "out", "schema": pl.Schema({"bik": pl.String})}, "no column 'bik'"),
    ],
)
def test_an_unknown_column_is_named_with_those_that_exist(options, fact):
    with pytest.raises(PlanError, match=fact) as caught:
        from_dataframe(RIDES, **options)
    assert "bike, out, back" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"ve": "back", "unbounded": True}, "not unbounded"),
        ({"kind": "bike"}, "needs the column of its ends"),
        ({"ve": "back", "new_ve": "back"}, "only a changelog"),
        ({"ve": "back", "kind": "out"}, "does not say kinds"),
    ],
)
def test_contradictions_are_refused(options, fact):
    with pytest.raises(PlanError, match=fact):
        from_dataframe(RIDES, vs="out", **options)


@pytest.mark.parametrize("name", ["kind", "vs", "ve", "new_ve", "pattern"])
def test_a_payload_column_cannot_have_a_reserved_name(name):
    frame = RIDES.with_columns(pl.lit(1).alias(name))
    with pytest.raises(InvalidElement, match=f"cannot be named '{name}'") as caught:
        from_dataframe(frame, vs="out", ve="back")
    assert "rename" in caught.value.hint
    # a schema selects, and so leaves it out
    chosen = from_dataframe(frame, vs="out", ve="back", schema=pl.Schema({"bike": pl.String}))
    assert chosen.schema == pl.Schema({"bike": pl.String})


def test_what_is_not_a_table():
    with pytest.raises(PlanError, match="a list is not a table"):
        from_dataframe([1, 2], vs="out")  # type: ignore[call-overload]  # that is the point
    with pytest.raises(PlanError, match="LazyFrame is not a table") as caught:
        from_dataframe(RIDES.lazy(), vs="out")  # type: ignore[call-overload]  # that is the point
    assert "collect" in caught.value.hint
    twice = RIDES.to_arrow().rename_columns(["out", "out", "back"])
    with pytest.raises(PlanError, match="cannot be read"):
        from_dataframe(twice, vs="out")


# schemas


def test_a_schema_selects_orders_and_casts():
    schema = pl.Schema({"n": pl.Int16, "bike": pl.String})
    frame = RIDES.with_columns(n=pl.Series([1, 2, None]), other=1)
    batch = from_dataframe(frame, vs="out", ve="back", schema=schema)
    assert batch.schema == schema
    assert [dict(e.payload) for e in batch if isinstance(e, Insert)] == [
        {"n": 1, "bike": "a"},
        {"n": 2, "bike": "b"},
        {"n": None, "bike": "c"},
    ]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 300, 3], pl.Int8),
        ([1, -1, 3], pl.UInt8),
        ([1.0, 2.5, 3.0], pl.Int64),
        ([1.0, float("nan"), 3.0], pl.Int64),
        ([1, 2**53 + 1, 3], pl.Float64),
        ([1.25, 1.255, 1.5], pl.Decimal(10, 2)),
        ([dt.datetime(2024, 1, 1), NOON, dt.datetime(2024, 1, 3)], pl.Date),
        ([{"a": 1, "b": None}, {"a": 1, "b": 2}, {"a": 2, "b": None}], pl.Struct({"a": pl.Int64})),
        (["x", "y", "x"], pl.Enum(["x"])),
    ],
)
def test_a_value_that_a_cast_would_change_is_a_bad_row(values, dtype):
    frame = pl.DataFrame({"v": values, "t": [1, 2, 3]}, strict=False)
    ledger = Ledger()
    batch = from_dataframe(frame, vs="t", schema=pl.Schema({"v": dtype}), ledger=ledger)
    assert batch.vs.tolist() == [1, 3]
    assert batch.payload["v"].null_count() == 0
    assert [(e.reason, e.detail) for e in ledger] == [("does not fit its type", "row 1, column 'v'")]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0.1, None], pl.Float32),
        ([1, None], pl.Float64),
        ([dt.date(2024, 1, 1), None], pl.Datetime("us", "UTC")),
        (["x", None], pl.Categorical()),
        ([[1], None], pl.List(pl.Int32)),
        ([None, None], pl.String),
    ],
)
def test_a_cast_that_keeps_the_values_is_no_reason_to_refuse(values, dtype):
    frame = pl.DataFrame({"v": values, "t": [1, 2]})
    batch = from_dataframe(frame, vs="t", schema=pl.Schema({"v": dtype}))
    assert batch.schema == pl.Schema({"v": dtype})
    assert batch.payload["v"].is_null().to_list() == [value is None for value in values]


@pytest.mark.parametrize(
    ("values", "dtype"), [(["1"], pl.Int64), ([1], pl.String), ([1], pl.List(pl.Int64))]
)
def test_nothing_is_parsed_or_printed(values, dtype):
    frame = pl.DataFrame({"v": values, "t": [1]})
    with pytest.raises(PlanError, match=r"column 'v' is \w+, not") as caught:
        from_dataframe(frame, vs="t", schema=pl.Schema({"v": dtype}))
    assert "convert the column" in caught.value.hint


# the way back


def test_a_changelog_has_one_row_per_element():
    a: list[Element] = [insert(0, None, p="a"), adjust(0, None, 9, p="a")]
    stream = [cti(0), a[0], cti(3), cti(4), a[1], cti(None)]
    assert changelog(stream).rows(named=True) == [
        {"kind": "cti", "vs": 0, "ve": None, "new_ve": None, "p": None},
        {"kind": "insert", "vs": 0, "ve": INF, "new_ve": None, "p": "a"},
        {"kind": "cti", "vs": 3, "ve": None, "new_ve": None, "p": None},
        {"kind": "cti", "vs": 4, "ve": None, "new_ve": None, "p": None},
        {"kind": "adjust", "vs": 0, "ve": INF, "new_ve": 9, "p": "a"},
        {"kind": "cti", "vs": INF, "ve": None, "new_ve": None, "p": None},
    ]


def test_a_changelog_with_datetimes():
    second = 1_000_000
    stream: list[Element] = [insert(second, None, p="a"), adjust(second, None, 2 * second, p="a")]
    stream.append(cti(None))
    frame = changelog(stream, datetimes=True)
    utc = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert frame.rows() == [
        ("insert", utc, None, None, "a"),
        ("adjust", utc, None, utc + dt.timedelta(seconds=1), "a"),
        ("cti", None, None, None, None),
    ]
    assert read_back(frame) == stream


def test_what_a_changelog_cannot_say_is_refused():
    with pytest.raises(InvalidElement, match=r"Marker\(name='m'\) cannot be written"):
        changelog([insert(0, 1, p="a"), Marker("m")])


def test_a_changelog_of_nothing():
    empty = changelog(Batch.empty(pl.Schema({"p": pl.String})))
    assert empty.schema == pl.Schema(
        {"kind": pl.String, "vs": pl.Int64, "ve": pl.Int64, "new_ve": pl.Int64, "p": pl.String}
    )
    assert read_back(changelog([cti(5)])) == [cti(5)]


@given(naive.any_streams(), st.booleans())
def test_a_changelog_reads_back_as_the_same_stream(elements, datetimes):
    stream = [e for e in elements if not isinstance(e, Marker)]
    batch = Batch.of(stream, SCHEMA)
    frame = changelog(batch, datetimes=datetimes)
    assert frame.columns == ["kind", "vs", "ve", "new_ve", *SCHEMA]
    back = from_dataframe(frame, **CHANGELOG)
    assert list(back) == stream
    assert back.schema == SCHEMA
    assert list(from_dataframe(frame.to_arrow(), **CHANGELOG)) == stream


def rows_of_changelogs() -> st.SearchStrategy[tuple[Any, ...]]:
    kinds = st.sampled_from(["insert", "adjust", "cti", "no kind", None])
    times = st.one_of(st.none(), st.integers(0, 4), st.just(INF))
    return st.tuples(kinds, times, times, times, st.sampled_from([None, "a"]))


@given(st.lists(rows_of_changelogs(), max_size=12))
def test_every_row_becomes_one_element_or_one_entry(rows):
    schema = {"kind": pl.String, "vs": pl.Int64, "ve": pl.Int64, "new_ve": pl.Int64, "p": pl.String}
    ledger = Ledger()
    elements = read_back(pl.DataFrame(rows, schema=schema, orient="row"), ledger=ledger)
    expected: list[Element | None] = [element_of(*row) for row in rows]
    assert elements == [element for element in expected if element is not None]
    assert [entry.element for entry in ledger] == [
        dict(zip(schema, row, strict=True))
        for row, element in zip(rows, expected, strict=True)
        if element is None
    ]


def element_of(
    kind: str, vs: int | None, ve: int | None, new_ve: int | None, p: str | None
) -> Element | None:
    """What a row of a changelog of integers says, None if it cannot be used."""
    if kind == "cti":
        return cti(vs) if ve is None and new_ve is None and p is None else None
    end = INF if ve is None else ve
    if vs is None or vs >= end:
        return None
    if kind == "insert":
        return Insert(vs, end, {"p": p}) if new_ve is None else None
    if kind == "adjust" and new_ve is not None and new_ve >= vs:
        return Adjust(vs, end, new_ve, {"p": p})
    return None


# open and close


def open_close(*rows: tuple[str | None, str | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"kind": str, "p": str, "at": int}, orient="row")


def test_a_close_after_a_close_revises_it():
    frame = open_close(("open", "B", 2), ("close", "B", 6), ("close", "B", 5), ("close", "B", 8))
    assert list(from_open_close(frame, at="at")) == [
        insert(2, None, p="B"),
        adjust(2, None, 6, p="B"),
        adjust(2, 6, 5, p="B"),
        adjust(2, 5, 8, p="B"),
    ]


def test_a_payload_can_be_opened_again_where_it_was_closed():
    frame = open_close(("open", "B", 2), ("close", "B", 6), ("open", "B", 6), ("close", "B", 7))
    assert History.of(from_open_close(frame, at="at")).rows() == [("B", 2, 6), ("B", 6, 7)]


def test_an_event_closed_where_it_was_opened_is_gone():
    frame = open_close(
        ("open", "B", 1), ("close", "B", 2), ("open", "B", 5), ("close", "B", 5), ("open", "B", 3)
    )
    batch = from_open_close(frame, at="at")
    assert list(batch)[-2:] == [adjust(5, None, 5, p="B"), insert(3, None, p="B")]
    assert History.of(batch).rows() == [("B", 1, 2), ("B", 3, INF)]


def test_an_event_that_was_gone_comes_back_with_its_next_close():
    frame = open_close(("open", "B", 5), ("close", "B", 5), ("close", "B", 8))
    batch = from_open_close(frame, at="at")
    assert list(batch)[-1] == insert(5, 8, p="B")
    assert History.of(batch).rows() == [("B", 5, 8)]


def test_an_event_cannot_be_gone_twice():
    frame = open_close(("open", "B", 5), ("close", "B", 5), ("close", "B", 5))
    with pytest.raises(InvalidElement, match="row 2 of rows cannot be used: close without open"):
        from_open_close(frame, at="at")


def test_promises_among_open_and_close():
    frame = open_close(("open", "B", 2), ("cti", None, 4), ("close", "B", 6), ("cti", None, None))
    batch = from_open_close(frame, at="at")
    assert list(batch)[1] == cti(4)
    assert list(batch)[3] == cti(None)


def test_what_cannot_be_opened_or_closed():
    frame = open_close(
        ("open", "A", 1),
        ("open", "A", 3),  # A runs since 1
        ("close", "A", 0),  # and cannot end before
        ("close", "A", 5),
        ("open", "A", 4),  # A runs until 5
        ("close", "B", 2),  # there is no B
        ("open", "A", 5),
        ("close", "A", 5),  # never happened
        ("close", "A", 5),  # neither did its end
        ("shut", "A", 9),
        ("close", "A", None),
        ("open", None, 7),  # null is a payload like any other
        ("cti", "A", 9),
    )
    ledger = Ledger()
    batch = from_open_close(frame, at="at", ledger=ledger, place="gate")
    assert [(e.detail, e.reason) for e in ledger] == [
        ("row 1", "open while open"),
        ("row 2", "close before open"),
        ("row 4", "open while open"),
        ("row 5", "close without open"),
        ("row 8", "close without open"),
        ("row 9", "unknown kind"),
        ("row 10", "no time"),
        ("row 12", "cti with more than a time"),
    ]
    assert {entry.place for entry in ledger} == {"gate"}
    assert History.of(batch).rows() == [("A", 1, 5), (None, 7, INF)]
    with pytest.raises(InvalidElement, match="row 1 of rows cannot be used: open while open"):
        from_open_close(frame, at="at")


def test_a_row_set_aside_does_not_count_for_the_next():
    # if close(A, 0) counted, A could be opened at 5
    frame = open_close(("open", "A", 1), ("close", "A", 0), ("open", "A", 5), ("close", "A", 7))
    ledger = Ledger()
    assert History.of(from_open_close(frame, at="at", ledger=ledger)).rows() == [("A", 1, 7)]
    assert ledger.counts() == {"close before open": 1, "open while open": 1}


def test_the_payload_is_every_other_column():
    frame = open_close(("open", "A", 1), ("open", "A", 1), ("close", "A", 4)).with_columns(
        x=pl.Series([float("nan"), -0.0, 0.0])
    )
    # the close is that of -0.0, so NaN lives on
    assert History.of(from_open_close(frame, at="at")).snapshot(4)["x"].is_nan().to_list() == [True]
    alone = frame.drop("p", "x")[1:]
    assert list(from_open_close(alone, at="at")) == [insert(1, None), adjust(1, None, 4)]


def move_rows() -> st.SearchStrategy[tuple[str, str, int]]:
    kinds = st.sampled_from(["open", "close"])
    return st.tuples(kinds, st.sampled_from("ab"), st.integers(0, 4))


@given(st.lists(move_rows(), max_size=20))
def test_open_and_close_rows_are_those_of_a_loop(rows):
    """All events of a payload are kept, and an open must not meet any of them."""
    lives: dict[str, list[list[int]]] = defaultdict(list)
    elements: list[Element] = []
    wrong = []
    for index, (kind, p, at) in enumerate(rows):
        mine = lives[p]
        if kind == "open" and all(ve <= at for vs, ve in mine if vs < ve):
            elements.append(insert(at, None, p=p))
            mine.append([at, INF])
        elif kind == "close" and mine and at >= mine[-1][0] and mine[-1] != [at, at]:
            vs, ve = mine[-1]
            elements.append(insert(vs, at, p=p) if vs == ve else adjust(vs, ve, at, p=p))
            mine[-1][1] = at
        else:
            wrong.append(f"row {index}")
    ledger = Ledger()
    batch = from_open_close(open_close(*rows), at="at", ledger=ledger)
    assert list(batch) == elements
    assert [entry.detail for entry in ledger] == wrong
    expected = [(p, vs, ve) for p, mine in lives.items() for vs, ve in mine if vs < ve]
    assert sorted(History.of(batch).rows()) == sorted(expected)
    Validator().admit(batch)


def test_counts_of_a_disordered_stream_are_rows() -> None:
    table = pl.DataFrame(
        {
            "kind": ["count", "insert", "count", "count", "count"],
            "a": [None, 1, None, None, 2],
            "vs": [None, 3, 5, 9, 1],
            "ve": [5, 8, None, 9, 4],
            "n": [1, None, 0, 2, 3],
        }
    )
    ledger = Ledger()
    form: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "ledger": ledger}
    batch = from_dataframe(table, **form, count="n")
    counts = external_cti(5, 1), external_cti(None, 0, since=5)
    assert list(batch) == [counts[0], insert(3, 8, a=1), counts[1]]
    assert ledger.counts() == {"ends before it starts": 1, "count with a payload": 1}
    from_dataframe(table.drop("n"), **form)
    assert ledger.counts()["unknown kind"] == 4
    with pytest.raises(PlanError, match="only a changelog has counts"):
        from_dataframe(table, vs="vs", count="n")


def test_who_knows_no_patterns_is_told_nothing_instead_of_more() -> None:
    """With the constant alone it would be a promise about all rows with that key."""
    told = [punctuation(k=2, s=None), punctuation(k=2, s=between("a", "b"))]
    frame = changelog(Batch.of(told, pl.Schema({"k": pl.Int64(), "s": pl.String()})))
    assert frame["k"].to_list() == [None, None]
    form: dict[str, Any] = {"vs": "vs", "ve": "ve", "kind": "kind", "new_ve": "new_ve"}
    assert list(from_dataframe(frame, pattern="pattern", **form)) == told
    ledger = Ledger()
    assert not list(from_dataframe(frame.drop("pattern"), ledger=ledger, **form))
    assert [entry.reason for entry in ledger] == ["punctuation without values"] * 2
