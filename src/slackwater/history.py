"""Histories: what a physical stream says.

A history (canonical history table, temporal database) is the multiset of (vs, ve, payload) to which a
stream reconstitutes. Every data element is a difference of at most one event taken out and one put in,
so a history is a sum of differences: reconstitution is one grouped sum over columns, in any order. What
order adds is validity, which validity.py judges: no event may be taken out before it was put in.

Equality of histories is equality of multisets; *snapshot* equality compares the bag of payloads alive
at every instant, by way of the unique coalesced form.

Paper 1a section 2 (Tables 1 and 2), paper 2 section III (TDB, frozen), erratum 20.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from slackwater.columns import framed
from slackwater.errors import InvalidElement, InvalidStream
from slackwater.events import Batch, Event, Stream
from slackwater.identity import row_ids
from slackwater.payloads import payload_frame
from slackwater.times import INF, Times
from slackwater.validity import Validator

if TYPE_CHECKING:
    # only who asks for a pandas frame needs pandas
    import pandas as pd

__all__ = ["History", "datetime_columns", "with_times"]


class History:
    """A multiset of events, kept as columns: the payload's, then vs and ve.

    >>> from slackwater.events import insert, adjust
    >>> history = History.of([insert(1, None, p="P1"), adjust(1, None, 10, p="P1"),
    ...                       adjust(1, 10, 5, p="P1"), insert(4, 9, p="P2")])
    >>> history.rows()
    [('P1', 1, 5), ('P2', 4, 9)]
    >>> history.snapshot(6).rows()
    [('P2',)]
    """

    __slots__ = ("frame",)

    def __init__(self, frame: pl.DataFrame) -> None:
        """A history of the rows of a frame that ends with the columns vs and ve."""
        assert frame.columns[-2:] == ["vs", "ve"], frame.columns
        self.frame = frame

    @classmethod
    def of(cls, stream: Stream, schema: pl.Schema | None = None, *, disordered: bool = False) -> History:
        """Reconstitute a stream: the history that all of its elements together describe.

        An adjust of an event that is not there is refused (`InvalidStream`); with `disordered` the
        event may also come later. Promises are not judged here: that is `validate`'s.
        """
        return cls(_reconstitute(Batch.of(stream, schema).checked(), disordered=disordered))

    @classmethod
    def from_events(cls, events: Iterable[Event], schema: pl.Schema) -> History:
        """A history of these events, with payloads of the given types."""
        events = list(events)
        payload = payload_frame([event.payload for event in events], schema)
        vs = np.array([event.vs for event in events], dtype=np.int64)
        ve = np.array([event.ve for event in events], dtype=np.int64)
        assert bool(np.all(vs < ve)), "an event of a history has vs < ve"
        return cls(with_times(payload, vs, ve))

    @classmethod
    def empty(cls, schema: pl.Schema) -> History:
        """No events."""
        return cls.from_events((), schema)

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the payload's columns."""
        return pl.Schema(list(self.frame.schema.items())[:-2])

    @property
    def payload(self) -> pl.DataFrame:
        """The payload's columns."""
        return framed(self.frame.get_columns()[:-2], self.frame.height)

    @property
    def vs(self) -> Times:
        """The starts."""
        return self.frame["vs"].to_numpy()

    @property
    def ve(self) -> Times:
        """The ends."""
        return self.frame["ve"].to_numpy()

    def events(self) -> list[Event]:
        """The events one by one."""
        payloads = self.payload.rows(named=True) if self.payload.width else [{}] * len(self)
        times = zip(self.vs.tolist(), self.ve.tolist(), strict=True)
        return [Event(vs, ve, p) for (vs, ve), p in zip(times, payloads, strict=True)]

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows (payload..., vs, ve) in order of vs, ve, payload."""
        return self.sorted().frame.rows()

    def sorted(self) -> History:
        """The same history in order of vs, ve, payload."""
        return History(self.frame.sort("vs", "ve", *self.schema, nulls_last=False))

    def to_batch(self) -> Batch:
        """A physical stream of this history: one insert per event."""
        return Batch.inserts(self.vs, self.ve, self.payload)

    def to_polars(self, *, datetimes: bool = False) -> pl.DataFrame:
        """Payload columns plus vs and ve, sorted; as UTC datetimes (INF: null) if asked for."""
        frame = self.sorted().frame
        return datetime_columns(frame) if datetimes else frame

    def to_arrow(self, *, datetimes: bool = False) -> pa.Table:
        """As `to_polars`, as an Arrow table."""
        return self.to_polars(datetimes=datetimes).to_arrow()

    def to_pandas(self, *, datetimes: bool = False) -> pd.DataFrame:
        """As `to_polars`, as a pandas frame."""
        return self.to_polars(datetimes=datetimes).to_pandas()

    def snapshot(self, time: int) -> pl.DataFrame:
        """The bag of payloads that are alive at an instant."""
        alive = self.frame.filter((pl.col("vs") <= time) & (time < pl.col("ve")))
        return alive.drop("vs", "ve")

    def frozen(self, time: int) -> pl.DataFrame:
        """The rows with what cti(time) says of them: fully frozen, half frozen or unfrozen.

        >>> from slackwater.events import insert
        >>> h = History.of([insert(2, 16, p="A"), insert(3, 10, p="B"), insert(15, 20, p="D")])
        >>> h.frozen(14)["frozen"].to_list()
        ['half', 'fully', 'un']
        """
        if "frozen" in self.schema:
            raise InvalidElement(
                "the payload has a column named 'frozen' itself",
                hint="select the other columns first, or compare ve and vs with the cti",
            )
        fully, half = pl.col("ve") < time, pl.col("vs") < time
        # cti(INF) leaves nothing open, not even an event without end
        status = pl.when(fully | (time == INF)).then(pl.lit("fully"))
        return self.sorted().frame.with_columns(
            frozen=status.when(half).then(pl.lit("half")).otherwise(pl.lit("un"))
        )

    def settled(self, time: int | Times, *, never_lengthens: bool = False) -> History:
        """The events that no permitted element can change any more after cti(time).

        With a time for each event, its payload's frontier: each by its own.
        """
        ends = self.ve <= time if never_lengthens else self.ve < time
        return History(self.frame.filter(pl.Series(ends | (time == INF), dtype=pl.Boolean)))

    def coalesce(self) -> History:
        """The unique history with the same snapshots in which lifetimes are as long as can be.

        Copy k of a payload lives where its multiplicity is at least k.

        >>> from slackwater.events import insert
        >>> History.of([insert(0, 5, p=1), insert(5, 9, p=1), insert(3, 4, p=1)]).coalesce().rows()
        [(1, 0, 9), (1, 3, 4)]
        """
        return History(_coalesce(self.frame))

    def snapshot_equal(self, other: History) -> bool:
        """Whether at every instant the same bag of payloads is alive."""
        return self.coalesce() == other.coalesce()

    def minus(self, other: History) -> History:
        """The events of this history that the other lacks, as multisets."""
        both = pl.concat([self.frame, other.frame])
        ids = row_ids(both)
        mine, theirs = (np.bincount(part, minlength=len(ids)) for part in np.split(ids, [len(self)]))
        left = np.repeat(np.arange(len(ids)), np.maximum(mine - theirs, 0))
        return History(both[left])

    def __len__(self) -> int:
        return self.frame.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        if self.schema != other.schema or len(self) != len(other):
            return False
        return len(self.minus(other)) == 0

    __hash__ = None  # type: ignore[assignment]  # a history is a value, but a large one

    def __repr__(self) -> str:
        return f"History of {len(self)} events\n{self.to_polars()}"


def with_times(payload: pl.DataFrame, vs: Times, ve: Times) -> pl.DataFrame:
    """A history's frame: the payload's columns, then vs and ve."""
    return pl.DataFrame([*payload.get_columns(), pl.Series("vs", vs), pl.Series("ve", ve)])


def datetime_columns(frame: pl.DataFrame) -> pl.DataFrame:
    """The time columns of a history or changelog as UTC datetimes, INF as null."""
    times = [name for name in ("vs", "ve", "new_ve") if name in frame.columns]
    utc = pl.Datetime("us", "UTC")
    return frame.with_columns(
        pl.when(pl.col(t) != INF).then(pl.col(t)).cast(utc).alias(t) for t in times
    )


def _reconstitute(batch: Batch, *, disordered: bool) -> pl.DataFrame:
    """Sum the differences. Only events that an adjust may speak of need to be grouped."""
    is_adjust = ~batch.is_insert
    inserted = with_times(batch.payload, batch.vs, batch.new_ve)
    if not is_adjust.any():
        return inserted
    touched = np.isin(batch.vs, batch.vs[is_adjust])
    some, place = batch.data().where(touched), np.flatnonzero(touched)
    taken_out, put_in = some.old_ve > some.vs, some.new_ve > some.vs
    differences = pl.concat(
        [
            with_times(some.payload, some.vs, some.old_ve).filter(pl.Series(taken_out)),
            with_times(some.payload, some.vs, some.new_ve).filter(pl.Series(put_in)),
        ]
    )
    count = np.repeat([-1, 1], [taken_out.sum(), put_in.sum()])
    # within one element, the event is taken out before it is put in again
    order = np.concatenate([2 * place[taken_out], 2 * place[put_in] + 1])
    ids = row_ids(differences)
    by_id = np.lexsort((order, ids))
    ids, running = ids[by_id], np.cumsum(count[by_id])
    last = np.flatnonzero(np.append(ids[1:] != ids[:-1], True))
    before = np.concatenate([[0], running[last[:-1]]])
    left = running - np.repeat(before, np.diff(last, prepend=-1))
    if not disordered and (left < 0).any():
        _refuse_first_unknown(batch)
    missing = last[left[last] < 0]
    if len(missing):
        _refuse_unlinked(batch, int(order[by_id[missing]].min()) // 2)
    remaining = np.repeat(ids[last], left[last])
    return pl.concat([inserted.filter(pl.Series(~touched)), differences[remaining]])


def _refuse_first_unknown(batch: Batch) -> None:
    Validator(promises=False).admit(batch)
    raise AssertionError("the differences are invalid, but every element is valid")


def _refuse_unlinked(batch: Batch, row: int) -> None:
    [element] = batch.slice(row, row + 1)
    raise InvalidStream(
        f"{element!r} adjusts an event that has not come",
        element=element,
        position=row + sum(placed.position <= row for placed in batch.controls),
        rule="unknown event",
        detail="nothing in the stream brings about an event with this payload, start and end",
        hint="the history of a disordered stream is known when all of it is there",
    )


def _coalesce(frame: pl.DataFrame) -> pl.DataFrame:
    """Copy k starts where the multiplicity rises to k, and ends where it next falls below k."""
    payload = frame.drop("vs", "ve")
    ids = row_ids(payload)
    starts = pl.DataFrame({"id": ids, "at": frame["vs"]}).with_columns(step=pl.lit(1))
    ends = pl.DataFrame({"id": ids, "at": frame["ve"]}).with_columns(step=pl.lit(-1))
    steps = pl.concat([starts, ends]).group_by("id", "at").agg(pl.col("step").sum())
    steps = steps.filter(pl.col("step") != 0).sort("at")
    steps = steps.with_columns(after=pl.col("step").cum_sum().over("id"))
    steps = steps.with_columns(before=pl.col("after") - pl.col("step"))
    # one row per copy whose life begins or ends here
    low, high = pl.min_horizontal("before", "after"), pl.max_horizontal("before", "after")
    copies = steps.with_columns(copy=pl.int_ranges(low, high)).explode("copy")
    rises = pl.col("step") > 0
    pairs = copies.group_by("id", "copy", maintain_order=True).agg(
        vs=pl.col("at").filter(rises), ve=pl.col("at").filter(~rises)
    )
    pairs = pairs.explode("vs", "ve")
    return payload[pairs["id"].to_numpy()].with_columns(pairs["vs"], pairs["ve"])
