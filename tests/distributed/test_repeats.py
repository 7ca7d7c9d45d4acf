"""What a writer tells again is heard once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from slackwater.distributed.parcels import Tags
from slackwater.distributed.repeats import Repeats
from slackwater.events import Batch


@st.composite
def _topics(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What writers told, and how it got into a partition: attempts that broke off, or overlap."""
    told: list[tuple[int, int]] = []
    topic: list[tuple[int, int]] = []
    for batch in range(draw(st.integers(1, 4))):
        records = [
            (draw(st.sampled_from([1, 2])), batch * 100 + n) for n in range(draw(st.integers(0, 5)))
        ]
        attempts = [
            records[: draw(st.integers(0, len(records)))] for _ in range(draw(st.integers(0, 2)))
        ]
        waiting = [list(attempt) for attempt in (*attempts, records)]
        while any(waiting):
            some = draw(st.sampled_from([each for each in waiting if each]))
            topic.append(some.pop(0))
        told += records
    return told, topic


@given(_topics(), st.integers(1, 3), st.lists(st.integers(0, 60), max_size=4))
def test_every_record_counts_once_in_any_parcels(
    drawn: tuple[list[tuple[int, int]], list[tuple[int, int]]], rows_each: int, cuts: list[int]
) -> None:
    told, topic = drawn
    # a record holds several rows, and a parcel may end within it
    rows = [(by, tag, at) for at, (by, tag) in enumerate(topic) for _ in range(rows_each)]
    repeats, heard = Repeats(), []
    for start, stop in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        if start == stop:
            continue
        by, tag, offset = (
            np.array(column, dtype=np.int64) for column in zip(*rows[start:stop], strict=True)
        )
        zeros = np.zeros(len(by), dtype=np.int64)
        batch = Batch.inserts(zeros, zeros + 1, pl.DataFrame({"by": by, "tag": tag}))
        heard += repeats.without("t/0", batch, Tags(by, tag, offset)).payload.rows()
    for writer in (1, 2):
        wanted = [each for each in told if each[0] == writer for _ in range(rows_each)]
        assert [each for each in heard if each[0] == writer] == wanted


def test_rows_of_nobody_and_of_other_partitions_pass() -> None:
    one = np.array([5], dtype=np.int64)
    batch = Batch.inserts(one, one + 1, pl.DataFrame({"k": [1]}))
    repeats = Repeats()
    assert repeats.without("t/0", batch, None).rows == 1
    for origin, by, kept in [("t/0", 7, 1), ("t/0", 7, 0), ("t/1", 7, 1), ("t/0", 8, 1), ("t/0", 0, 1)]:
        tags = Tags(np.array([by]), one, np.array([9 if kept else 10]))
        assert repeats.without(origin, batch, tags).rows == kept
    assert repeats.without("t/0", batch, Tags(np.array([0]), one, one)).rows == 1
