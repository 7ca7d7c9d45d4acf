from __future__ import annotations

import datetime as dt
import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import naive
from tests.naive import HORIZON, SCHEMA

from slackwater.errors import InvalidStream
from slackwater.events import Batch, Control, Element, Event, adjust, insert
from slackwater.history import History
from slackwater.punctuations import cti
from slackwater.times import INF

NAN = math.nan


def history_of(*rows: tuple[str, int, int]) -> History:
    return History.of([insert(vs, ve, p=p) for p, vs, ve in rows], pl.Schema({"p": pl.String}))


def test_adjusts_move_the_end_of_one_event():
    history = History.of(
        [
            insert(0, 10, p="shortened"),
            insert(1, 10, p="lengthened"),
            insert(2, 10, p="removed"),
            insert(3, 10, p="removed and back"),
            adjust(0, 10, 4, p="shortened"),
            adjust(1, 10, 12, p="lengthened"),
            adjust(1, 12, 20, p="lengthened"),
            adjust(2, 10, 2, p="removed"),
            adjust(3, 10, 3, p="removed and back"),
            insert(3, 5, p="removed and back"),
        ]
    )
    assert history.rows() == [
        ("shortened", 0, 4),
        ("lengthened", 1, 20),
        ("removed and back", 3, 5),
    ]


def test_an_adjust_takes_one_of_several_equal_events():
    history = History.of([insert(0, 9, p="a"), insert(0, 9, p="a"), adjust(0, 9, 5, p="a")])
    assert history.rows() == [("a", 0, 5), ("a", 0, 9)]
    assert len(history) == 2


def test_an_adjust_finds_its_event_by_identity_of_values():
    stream = [insert(0, 9, x=NAN), insert(0, 9, x=-0.0), insert(0, 9, x=None)]
    ends = [adjust(0, 9, 1, x=0.0), adjust(0, 9, 2, x=None), adjust(0, 9, 3, x=NAN)]
    history = History.of([*stream, *ends])
    by_end = {event.ve: event.payload["x"] for event in history.events()}
    assert by_end[1] == 0.0
    assert by_end[2] is None
    assert math.isnan(by_end[3])


@pytest.mark.parametrize(
    ("stream", "offender", "rule"),
    [
        ([insert(0, 9, p="a"), adjust(0, 9, 5, p="b")], 1, "unknown event"),
        ([insert(0, 9, p="a"), adjust(1, 9, 5, p="a")], 1, "unknown event"),
        ([insert(0, 9, p="a"), adjust(0, 8, 5, p="a")], 1, "chain out of order"),
        ([adjust(0, 9, 5, p="a"), insert(0, 9, p="a")], 0, "unknown event"),
        ([adjust(0, 9, 9, p="a")], 0, "unknown event"),
        ([insert(0, 9, p="a"), adjust(0, 9, 0, p="a"), adjust(0, 9, 5, p="a")], 2, "unknown event"),
        (
            [insert(0, 9, p="a"), cti(2), adjust(0, 7, 5, p="a"), adjust(0, 9, 7, p="a")],
            2,
            "chain out of order",
        ),
    ],
)
def test_an_adjust_of_what_is_not_there_is_refused(stream, offender, rule):
    with pytest.raises(InvalidStream) as caught:
        History.of(stream)
    assert (caught.value.position, caught.value.rule) == (offender, rule)
    assert caught.value.element == stream[offender]


def test_promises_are_not_judged_by_reconstitution():
    assert History.of([cti(5), insert(0, 9, p="a")]).rows() == [("a", 0, 9)]


def test_a_history_without_payload():
    history = History.of([insert(0, 5), insert(3, 9), insert(0, 5), adjust(3, 9, 4)])
    assert history.rows() == [(0, 5), (0, 5), (3, 4)]
    assert history.coalesce().rows() == [(0, 5), (0, 5), (3, 4)]
    assert history.snapshot(3).height == 3
    assert [event.payload for event in history.events()] == [{}, {}, {}]


def test_equality_is_that_of_multisets():
    a, b = ("a", 0, 5), ("b", 2, 3)
    assert history_of(a, b, a) == history_of(b, a, a)
    assert history_of(a, b, a) != history_of(a, b)
    assert history_of(a, b, a) != history_of(a, b, b)
    assert history_of(("a", 0, 5)) != history_of(("a", 0, 3), ("a", 3, 5))
    assert history_of() == History.empty(pl.Schema({"p": pl.String}))
    assert history_of() != History.empty(pl.Schema({"q": pl.String}))
    assert history_of(a) != "a history"


def test_snapshot_equality_does_not_see_how_lifetimes_are_cut():
    whole = history_of(("a", 0, 9))
    assert whole.snapshot_equal(history_of(("a", 0, 3), ("a", 3, 9)))
    assert not whole.snapshot_equal(history_of(("a", 0, 3), ("a", 4, 9)))
    assert not whole.snapshot_equal(history_of(("a", 0, 4), ("a", 3, 9)))
    crossing = history_of(("a", 0, 6), ("a", 2, 9))
    assert crossing.snapshot_equal(history_of(("a", 0, 9), ("a", 2, 6)))
    assert not crossing.snapshot_equal(history_of(("a", 0, 9), ("b", 2, 6)))


def test_payload_columns_may_have_any_name_that_is_not_reserved():
    names = ("at", "step", "before", "after", "copy", "id", "index", "count", "left")
    payload = dict.fromkeys(names, 7)
    history = History.of([insert(0, 9, **payload), insert(2, 9, **payload)])
    assert history.coalesce().rows() == [(*payload.values(), 0, 9), (*payload.values(), 2, 9)]
    assert History.of([insert(2, 9, **payload), adjust(2, 9, 5, **payload)]).minus(history).rows() == [
        (*payload.values(), 2, 5)
    ]


def test_frozen_settled_and_the_end_of_time():
    # erratum 20: fully frozen is ve < t, half frozen vs < t <= ve
    history = history_of(("fully", 0, 9), ("half", 0, 10), ("half", 0, INF), ("un", 10, 12))
    frozen = history.frozen(10)
    assert frozen["frozen"].to_list() == frozen["p"].to_list()
    assert history.settled(10).rows() == [("fully", 0, 9)]
    assert history.settled(10, never_lengthens=True).rows() == [("fully", 0, 9), ("half", 0, 10)]
    assert history.frozen(INF)["frozen"].unique().to_list() == ["fully"]
    assert history.settled(INF) == history


def test_a_history_as_a_table():
    history = history_of(("b", 1_000_000, INF), ("a", 0, 2_000_000))
    frame = history.to_polars()
    assert frame.columns == ["p", "vs", "ve"]
    assert frame.rows() == [("a", 0, 2_000_000), ("b", 1_000_000, INF)]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    second = dt.timedelta(seconds=1)
    assert history.to_polars(datetimes=True).rows() == [
        ("a", epoch, epoch + 2 * second),
        ("b", epoch + second, None),
    ]
    assert history.to_arrow().column_names == ["p", "vs", "ve"]
    assert history.to_pandas()["ve"].tolist() == [2_000_000, INF]


@given(naive.valid_streams())
def test_reconstitution_is_that_of_a_dictionary(stream):
    history = History.of(stream, SCHEMA)
    expected = naive.reconstitute(stream)
    assert naive.multiset(history.events()) == expected
    assert naive.multiset(History.of(history.to_batch()).events()) == expected
    assert history.frame.columns == [*SCHEMA, "vs", "ve"]


@given(naive.valid_streams())
def test_every_prefix_reconstitutes(stream):
    for length in range(len(stream) + 1):
        prefix = stream[:length]
        assert naive.multiset(History.of(prefix, SCHEMA).events()) == naive.reconstitute(prefix)


@given(naive.any_streams())
def test_what_a_dictionary_refuses_is_refused(stream):
    data: list[Element] = [e for e in stream if not isinstance(e, Control)]
    verdicts = naive.judge(data)
    wrong = [(position, rule) for position, rule in enumerate(verdicts) if rule]
    if wrong:
        with pytest.raises(InvalidStream) as caught:
            History.of(data, SCHEMA)
        assert (caught.value.position, caught.value.rule) == wrong[0]
    else:
        assert naive.multiset(History.of(data, SCHEMA).events()) == naive.reconstitute(data)


@st.composite
def pairs(draw):
    """Two lists of events that are often the same multiset, or nearly."""
    one = draw(st.lists(naive.events(), max_size=8))
    other = draw(st.permutations(one))
    if draw(st.booleans()):
        other = other[1:] + draw(st.lists(naive.events(), max_size=1))
    return one, other


@given(pairs())
def test_equality_and_difference_are_those_of_counters(pair):
    one, other = (History.from_events(events, SCHEMA) for events in pair)
    one_bag, other_bag = (naive.multiset(events) for events in pair)
    assert (one == other) == (one_bag == other_bag)
    assert naive.multiset(one.minus(other).events()) == one_bag - other_bag


@given(pairs())
def test_snapshots_are_those_of_every_instant(pair):
    one, other = (History.from_events(events, SCHEMA) for events in pair)
    one_bag, other_bag = (naive.multiset(events) for events in pair)
    for time in range(-1, HORIZON + 1):
        alive = Counter(naive.payload_key(row) for row in one.snapshot(time).rows(named=True))
        assert alive == naive.bag_at(one_bag, time)
    assert one.snapshot_equal(other) == naive.snapshots_equal(one_bag, other_bag)


@given(st.lists(naive.events(), max_size=8))
def test_the_coalesced_form_is_the_one_with_the_longest_lifetimes(events):
    history = History.from_events(events, SCHEMA)
    assert naive.multiset(history.coalesce().events()) == naive.coalesced(naive.multiset(events))
    assert history.coalesce().snapshot_equal(history)


@given(st.data())
def test_lifetimes_cut_anywhere_stay_snapshot_equal(data):
    events = data.draw(st.lists(naive.events(), min_size=1, max_size=8))
    pieces = []
    for vs, ve, payload in events:
        cut = data.draw(st.integers(vs + 1, HORIZON))
        if cut < ve:
            pieces += [(vs, cut, payload), (cut, ve, payload)]
        else:
            pieces.append((vs, ve, payload))
    whole = History.from_events(events, SCHEMA)
    cut_up = History.from_events([Event(*piece) for piece in pieces], SCHEMA)
    assert whole.snapshot_equal(cut_up)
    assert (whole == cut_up) == (naive.multiset(events) == naive.multiset(cut_up.events()))


@given(naive.valid_streams(), st.integers(0, HORIZON))
def test_what_is_settled_no_longer_changes(stream, time):
    before, after = Batch.of(stream, SCHEMA), [cti(time)]
    settled = naive.multiset(History.of(before).settled(time).events())
    # whatever of the rest of a stream keeps the promise leaves the settled events as they are
    verdicts = naive.judge([*stream, *after, *stream])
    kept = [e for e, rule in zip([*stream, *after, *stream], verdicts, strict=True) if rule is None]
    final = naive.multiset(History.of(kept, SCHEMA).events())
    assert not settled - final
