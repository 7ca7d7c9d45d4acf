"""Promises about payloads, between origins and buckets."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.parcels import buckets_of
from slackwater.distributed.pledges import Pledges, routed
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.punctuations import Closings, Promise, Punctuation, gathered
from slackwater.runtime.edge import OnInvalid
from slackwater.validity import Validator

SCHEMA = pl.Schema({"k": pl.Int64, "v": pl.Int64})
s = sw.stream(dict(SCHEMA), name="s")
t = sw.stream({"k": int, "w": int}, name="t")


def _told(*promises: Punctuation) -> list[Promise]:
    return gathered(promises, SCHEMA)


def _one_by_one(told: list[Promise]) -> list[str]:
    return sorted(repr(p) for each in told for p in (each if isinstance(each, Closings) else [each]))


def test_of_one_origin_all_holds_at_once() -> None:
    pledges = Pledges(SCHEMA)
    said = pledges.hear({"0": _told(sw.punctuation(k=7), sw.punctuation(v=sw.between(3, None)))}, ["0"])
    assert _one_by_one(said) == ["punctuation(k=7)", "punctuation(v=between(3, None))"]
    assert len(pledges) == 0


def test_of_two_origins_what_both_have_promised() -> None:
    pledges = Pledges(SCHEMA)
    both = ["a", "b"]
    assert pledges.hear({"a": _told(sw.punctuation(k=7), sw.punctuation(k=8))}, both) == []
    assert _one_by_one(pledges.hear({"b": _told(sw.punctuation(20, k=7))}, both)) == [
        "punctuation(20, k=7)"
    ]
    more = pledges.hear({"b": _told(sw.punctuation(k=sw.between(7, 9)))}, both)
    assert _one_by_one(more) == ["punctuation(k=between(7, 8))"]


def test_an_origin_that_has_ended_holds_nothing_back() -> None:
    pledges = Pledges(SCHEMA)
    assert pledges.hear({"a": _told(sw.punctuation(k=7))}, ["a", "b"]) == []
    assert _one_by_one(pledges.hear({}, ["a"])) == ["punctuation(k=7)"]


def test_a_bucket_speaks_for_all_of_rows_that_are_its_own_and_of_no_others() -> None:
    keys = pl.DataFrame({"k": range(20)})
    owner = buckets_of(keys, ("k",), 3).tolist()
    assert set(owner) == {0, 1, 2}
    for bucket in range(3):
        pledges = Pledges(SCHEMA, spread=("k",), buckets=3)
        told = _told(sw.punctuation(v=1), *(sw.punctuation(k=k, v=2) for k in range(20)))
        said = pledges.hear({str(bucket): told}, ["0", "1", "2"])
        own = [k for k in range(20) if owner[k] == bucket]
        assert _one_by_one(said) == sorted(f"punctuation(k={k}, v=2)" for k in own)
        assert len(pledges) == 1, "v = 1 waits for the others"


@pytest.mark.parametrize("buckets", [1, 2, 3, 5])
def test_who_has_no_rows_of_a_key_does_not_close_it(buckets: int) -> None:
    """A promise for everybody and one for a key make a third, also where the key has no rows."""
    rows = sw.stream({"k": str, "v": int, "x": float}, name="rows")
    query = (
        rows.group_by("x", "k")
        .apply(lambda g: g.select("v").distinct().difference(g.select("v").shift(2), all=True))
        .latency(sw.PERFECTNESS_PRESERVING)
    )
    at_work = Rehearsal(program_of(query.node, buckets=buckets))
    source = rows.node
    assert isinstance(source, Source)
    at_work.batch({source: {name: sw.Batch.empty(source.schema) for name in "01"}})
    validator = Validator()
    for name, element in (
        ("1", sw.insert(0, sw.INF, k="a", v=0, x=0.0)),
        ("0", sw.punctuation(x=0.0)),
        ("1", sw.punctuation(6, k="a", v=0)),
        ("1", sw.cti(sw.INF)),
    ):
        at_work.batch({source: {name: sw.Batch.of([element], source.schema)}})
        validator.admit(at_work.said)
    assert at_work.output.as_history() == sw.History.of([sw.insert(0, 2, x=0.0, k="a", v=0)])


def test_closed_keys_go_where_their_rows_go_and_the_rest_everywhere() -> None:
    keys = pl.DataFrame({"k": range(50)})
    closings = Closings(keys, np.full(50, sw.INF))
    everywhere = sw.punctuation(v=3)
    shares = dict(routed([closings, everywhere], ("k",), 3))
    assert sorted(shares) == [0, 1, 2]
    for bucket, (own, rest) in shares.items():
        assert isinstance(own, Closings)
        assert (buckets_of(own.keys, ("k",), 3) == bucket).all()
        assert rest == everywhere
    assert sum(len(own) for own, _ in shares.values() if isinstance(own, Closings)) == 50
    assert dict(routed([closings], (), 3)) == {0: [closings]}


def _restored(program: Program, bucket: Bucket) -> Bucket:
    fresh = Bucket(program, bucket.stage, bucket.number)
    fresh.restore(pickle.loads(pickle.dumps(bucket.remembered())))  # noqa: S301
    return fresh


def _rehearsed(
    query: sw.Query,
    *batches: dict[sw.Query, dict[str, list[Element]]],
    on_invalid: OnInvalid = sw.RAISE,
) -> tuple[Rehearsal, list[int]]:
    """The query in three buckets, written down and read back after every batch; its state rows."""
    program = program_of(query.node, buckets=3, on_invalid=on_invalid)
    at_work = Rehearsal(program, meddle=lambda bucket: _restored(program, bucket))
    kept = []
    for batch in batches:
        given = {
            source.node: {
                name: sw.Batch.of(elements, source.schema) for name, elements in partitions.items()
            }
            for source, partitions in batch.items()
        }
        said = at_work.batch(given)  # type: ignore[arg-type]
        kept.append(sum(each.standing.state_rows for each in said))
    return at_work, kept


def test_a_group_that_is_closed_settles_and_is_forgotten_in_its_bucket() -> None:
    counts = s.group_by("k").aggregate(n=sw.count())
    opened: list[Element] = [sw.insert(i, sw.INF, k=i % 5, v=i) for i in range(20)]
    at_work, kept = _rehearsed(
        counts,
        {s: {"0": opened}},
        {s: {"0": [sw.punctuation(k=3), sw.punctuation(k=4)]}},
        {s: {"0": [sw.punctuation(k=sw.between(None, 2))]}},
    )
    assert at_work.output.settled().height == at_work.output.history().height == 20
    assert kept[0] > kept[1] > kept[2] == 0


def test_closed_by_all_partitions_of_a_source() -> None:
    counts = s.group_by("k").aggregate(n=sw.count())
    at_work, kept = _rehearsed(
        counts,
        {s: {"a": [sw.insert(0, sw.INF, k=1, v=0)], "b": [sw.insert(2, sw.INF, k=1, v=0)]}},
        {s: {"a": [sw.punctuation(k=1)], "b": []}},
        {s: {"a": [], "b": [sw.insert(5, sw.INF, k=1, v=0), sw.punctuation(k=1)]}},
    )
    assert kept[1] > 0 == kept[2]
    assert at_work.output.settled().rows() == [(1, 1, 0, 2), (1, 2, 2, 5), (1, 3, 5, sw.INF)]


def test_through_two_stages() -> None:
    """Bids per item, then how many items have how many bids: a closed item is no promise about that."""
    bids = s.join(t, on="k").group_by("k").aggregate(n=sw.count())
    per_item, kept = _rehearsed(
        bids,
        {
            s: {"0": [sw.insert(0, sw.INF, k=i, v=0) for i in range(9)]},
            t: {"0": [sw.insert(1 + i, sw.INF, k=i % 9, w=i) for i in range(30)]},
        },
        {s: {"0": [sw.punctuation(k=sw.between(None, None))]}, t: {"0": []}},
        {s: {"0": []}, t: {"0": [sw.punctuation(k=i) for i in range(9)]}},
    )
    assert kept[-1] == 0
    assert per_item.output.settled().height == 30
    shop = bids.group_by("n").aggregate(items=sw.count())
    spread, _ = _rehearsed(
        shop,
        {
            s: {"0": [sw.insert(0, sw.INF, k=i, v=0) for i in range(9)]},
            t: {"0": [sw.insert(1 + i, sw.INF, k=i % 9, w=i) for i in range(30)]},
        },
        {s: {"0": [sw.cti(None)]}, t: {"0": [sw.punctuation(k=i) for i in range(9)]}},
    )
    assert spread.output.settled().height == 0
    assert spread.output.history().height > 0


@pytest.mark.parametrize("same_batch", [True, False])
def test_a_partition_is_held_to_its_own_promises(same_batch: bool) -> None:
    counts = s.group_by("k").aggregate(n=sw.count())
    promise: list[Element] = [sw.insert(0, 9, k=1, v=0), sw.punctuation(k=1)]
    breaking: list[Element] = [sw.insert(5, 9, k=1, v=1), sw.insert(5, 9, k=2, v=1)]
    batches = [promise + breaking] if same_batch else [promise, breaking]
    at_work, _ = _rehearsed(
        counts,
        {s: {"a": [], "b": []}},
        *({s: {"a": batch, "b": []}} for batch in batches),
        on_invalid=sw.LEDGER,
    )
    [entry] = at_work.ledger
    assert entry.reason == "promise broken"
    assert "punctuation(k=1)" in entry.detail
    assert at_work.output.history().rows() == [(1, 1, 0, 9), (2, 1, 5, 9)]


def test_a_disordered_source_promises_payloads_where_it_is_mended() -> None:
    d = sw.stream(dict(SCHEMA), name="d", disordered=True)
    counts = d.finalize("inf").group_by("k").aggregate(n=sw.count())
    row = {"k": 7, "v": 1}
    at_work, kept = _rehearsed(
        counts,
        {d: {"a": [sw.insert(1, sw.INF, k=8, v=1)], "b": [sw.insert(1, 20, **row)]}},
        # it continues what has not come yet: nothing is final of it, whatever is promised
        {d: {"a": [sw.adjust(1, 30, 5, **row), sw.punctuation(k=7)], "b": [sw.punctuation(k=7)]}},
        {d: {"b": [sw.external_cti(1, 0)]}},
        on_invalid=sw.LEDGER,
    )
    assert at_work.output.settled().rows() == []
    assert kept[-1] > 0


def test_what_partitions_of_a_disordered_source_have_promised_settles_a_group() -> None:
    d = sw.stream(dict(SCHEMA), name="d", disordered=True)
    counts = d.finalize("inf").group_by("k").aggregate(n=sw.count())
    at_work, kept = _rehearsed(
        counts,
        {d: {"a": [sw.insert(1, sw.INF, k=k, v=1) for k in (7, 8)], "b": []}},
        {d: {"b": [sw.adjust(2, 9, 6, k=7, v=2), sw.insert(2, 9, k=7, v=2), sw.punctuation(k=7)]}},
        {d: {"a": [sw.punctuation(k=7), sw.insert(3, 4, k=7, v=3)]}},
        on_invalid=sw.LEDGER,
    )
    assert at_work.output.settled().rows() == [(7, 1, 1, 2), (7, 2, 2, 6), (7, 1, 6, sw.INF)]
    [entry] = at_work.ledger
    assert entry.reason == "promise broken"
    assert "k=7, v=3" in repr(entry.element)
    assert kept[-1] < kept[-2]


NOON = dt.datetime(2026, 1, 2, 12)


@pytest.mark.parametrize(
    ("dtype", "value", "told"),
    [
        (str, None, sw.punctuation(k=None)),
        (str, "a", sw.punctuation(k="a")),
        (bytes, b"\xff", sw.punctuation(k=sw.between(b"\xf0", None))),
        (dt.date, NOON.date(), sw.punctuation(k=sw.between(NOON.date(), None))),
        (dt.datetime, NOON, sw.punctuation(k=sw.between(NOON, None))),
    ],
    ids=["null", "text", "bytes", "days", "times"],
)
def test_a_group_in_a_bucket_is_closed_whatever_its_key_is(
    dtype: Any, value: Any, told: Punctuation
) -> None:
    """A constant that is null, and ranges, go from bucket to bucket as texts."""
    stream = sw.stream({"k": dtype, "v": int}, name="keys")
    at_work = Rehearsal(program_of(stream.group_by("k").aggregate(n=sw.count()).node, buckets=2))
    assert isinstance(stream.node, Source)
    for part in ([sw.insert(1, None, k=value, v=1)], [told]):
        said = at_work.batch({stream.node: {"p": sw.Batch.of(part, stream.schema)}})
    assert at_work.output.settled().rows() == [(value, 1, 1, sw.INF)]
    assert sum(each.standing.state_rows for each in said) == 0
