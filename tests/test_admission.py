"""The validator of the edge against the one it stands for: the same verdicts, in the same words."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import SCHEMA

from slackwater import admission
from slackwater.admission import Admission
from slackwater.errors import InvalidStream
from slackwater.events import Batch, Element, adjust, insert
from slackwater.persistence import decode, encode
from slackwater.punctuations import cti
from slackwater.validity import StreamProperties, Validator

DECLARED = st.builds(
    StreamProperties,
    ordered=st.booleans(),
    insert_only=st.booleans(),
    strictly_increasing=st.booleans(),
    vs_payload_key=st.booleans(),
    never_lengthens=st.booleans(),
)


@given(st.data())
def test_it_sets_aside_what_the_other_one_does(data: st.DataObject) -> None:
    """Written down and read back between two batches."""
    declared = data.draw(DECLARED)
    promises = data.draw(st.booleans())
    slow = Validator(declared=declared, promises=promises)
    fast = Admission(SCHEMA, declared=declared, promises=promises)
    for part in data.draw(naive.cuts(data.draw(naive.any_streams()))):
        kept, violations = slow.sift(part)
        fast = decode(encode(fast))
        also_kept, found = fast.sift(part)
        assert found == violations
        assert list(also_kept) == list(kept)
        assert fast.promises.punctuations() == slow.promises.punctuations()


@given(naive.any_streams())
def test_it_raises_what_the_other_one_does(stream: list[Element]) -> None:
    batch = Batch.of(stream, SCHEMA)
    said = []
    for validator in (Validator(), Admission(SCHEMA)):
        try:
            validator.admit(batch)
            said.append("")
        except InvalidStream as error:
            said.append(str(error))
    assert said[0] == said[1]


def test_many_ends_of_one_payload_and_start() -> None:
    """More than its tables have room for at first; then all of them move, twice."""
    schema, many = pl.Schema({"p": pl.String}), 500
    stream: list[Element] = [insert(0, 1 + t, p="a") for t in range(many)]
    stream += [adjust(0, 1 + t, 1001 + t, p="a") for t in reversed(range(many))]
    stream += [adjust(0, 1001 + t, 7, p="a") for t in range(many)]
    fast = Admission(schema)
    fast.admit(Batch.of(stream, schema))
    assert fast._events.ends(0, 0) == {7: many}
    _, [violation] = fast.sift(Batch.of([adjust(0, 8, 9, p="a")], schema))
    assert violation.rule == "chain out of order"
    assert "now ends at 7" in violation.detail


def test_what_no_adjust_may_name_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "_LEAST_PURGE", 16)
    fast = Admission(pl.Schema({"p": pl.Int64}))
    fast._purge_at = 16
    held: list[Element] = [insert(0, None, p=-1), insert(0, 70, p=-1), insert(0, 60, p=-1)]
    fast.admit(Batch.of(held, fast._events.keys.schema))
    for t in range(60):
        fast.admit(Batch.of([insert(t, t + 2, p=t), cti(t)], fast._events.keys.schema))
    assert fast._remembered <= 33, "some of what is alive, and as much again"
    assert len(fast._events.keys) <= 34
    assert fast._events.ends(int(fast._events.keys.number(pl.DataFrame({"p": [-1]}))[0]), 0) == {
        2**63 - 1: 1,
        60: 1,
        70: 1,
    }
    still_open = [adjust(0, 60, 61, p=-1), adjust(59, 61, 70, p=59), adjust(0, None, 80, p=-1)]
    fast.admit(Batch.of(still_open, fast._events.keys.schema))


def test_payloads_of_what_was_set_aside_are_forgotten() -> None:
    schema = pl.Schema({"p": pl.Int64})
    fast = Admission(schema)
    for start in range(0, 5000, 500):
        stray: list[Element] = [adjust(0, 9, 8, p=p) for p in range(start, start + 500)]
        _, violations = fast.sift(Batch.of(stray, schema))
        assert len(violations) == 500
    assert len(fast._events.keys) <= 1500


@pytest.mark.parametrize(
    "values",
    [
        [[1.0, math.nan], [1.0, None], None, [0.0], [-0.0]],
        [
            {"a": 0.0, "b": "x"},
            {"a": -0.0, "b": "x"},
            {"a": math.nan, "b": None},
            {"a": None, "b": None},
        ],
        ["", None, "a", "\0"],
        [b"", b"x", None],
    ],
)
def test_payloads_are_the_same_to_both(values: list[object]) -> None:
    payload = pl.DataFrame({"p": values * 2})
    rows = len(values)
    zero, one = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=np.int64)
    # all are inserted, and all of them end later
    batch = Batch(
        np.concatenate([zero, zero]),
        np.concatenate([zero, one]),
        np.concatenate([one, 2 * one]),
        payload,
    )
    every: list[object] = []
    for validator in (Validator(), Admission(payload.schema)):
        validator.admit(batch)
        unknown = Batch(zero, one, 2 * one, payload[:rows])
        every.append([(v.row, v.rule, v.detail) for v in validator.sift(unknown)[1]])
    assert every[0] == every[1]
