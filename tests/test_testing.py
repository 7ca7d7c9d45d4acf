"""The test kit keeps its word: what it draws is valid, means the history, and is varied enough.

Two families: properties that hold for everything drawn, and features of which an example must be
found, since a generator that never draws an adjust would satisfy every property. Streams that were
broken on purpose show that validity could have failed.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import pairwise, permutations
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from slackwater.errors import InvalidStream, InvalidTime, SlackwaterError
from slackwater.events import Adjust, Batch, Element, Insert, adjust, insert
from slackwater.history import History
from slackwater.identity import identity
from slackwater.punctuations import Punctuation, cti
from slackwater.testing import (
    ManualClock,
    batchings,
    histories,
    payloads,
    schemas,
    several,
    simplest,
    streams,
    values,
)
from slackwater.times import INF
from slackwater.validity import StreamProperties, Validator, closed_up_to, validate

Told: TypeAlias = tuple[History, list[Element]]

KEYED = pl.Schema({"k": pl.String})
TWO = History.of([insert(0, 5, k="a"), insert(2, 4, k="b")])


def told(histories: SearchStrategy[History], **options: Any) -> SearchStrategy[Told]:
    """A history and a stream of it."""
    return histories.flatmap(lambda history: st.tuples(st.just(history), streams(history, **options)))


def adjusts(stream: Iterable[Element]) -> list[Adjust]:
    return [element for element in stream if isinstance(element, Adjust)]


def inserts(stream: Iterable[Element]) -> list[Insert]:
    return [element for element in stream if isinstance(element, Insert)]


def data(stream: Iterable[Element]) -> list[Insert | Adjust]:
    return [element for element in stream if isinstance(element, Insert | Adjust)]


def promised(stream: Iterable[Element]) -> list[int]:
    return [element.before for element in stream if isinstance(element, Punctuation)]


def column(history: History) -> list[Any]:
    """All values of a history's payloads, whatever their column."""
    return [value for event in history.events() for value in event.payload.values()]


# ---- what holds for everything that is drawn


@given(told(histories(schemas(min_columns=0))))
def test_a_stream_is_valid_and_reconstitutes_to_its_history(drawn: Told):
    history, stream = drawn
    validator = Validator()
    for element in stream:
        # element by element: every prefix is valid
        validator.admit(Batch.of([element], history.schema))
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history
    assert stream[-1] == cti(INF)


@given(told(histories(), closed=False))
def test_a_stream_that_is_not_closed_means_the_same(drawn: Told):
    history, stream = drawn
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history
    assert closed_up_to(stream, history.schema) < INF


@given(told(histories(), adjusts=False))
def test_without_adjusts_each_event_is_inserted_once(drawn: Told):
    history, stream = drawn
    assert StreamProperties.observed(stream, history.schema).insert_only
    validate(stream, history.schema)
    assert Counter(inserts(stream)) == Counter(Insert(*event) for event in history.events())


@given(told(histories(), lengthen=False))
def test_without_lengthening_ends_only_fall(drawn: Told):
    history, stream = drawn
    assert StreamProperties.observed(stream, history.schema).never_lengthens
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history


@given(told(histories(), ordered=True))
def test_ordered_streams_are_ordered(drawn: Told):
    history, stream = drawn
    assert StreamProperties.observed(stream, history.schema).ordered
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history


@given(st.booleans(), st.data())
def test_an_event_of_an_ordered_stream_is_retracted_at_most_once(lengthen: bool, data: st.DataObject):
    history = data.draw(histories(KEYED, vs_payload_key=True))
    stream = data.draw(streams(history, ordered=True, lengthen=lengthen, vs_payload_key=True))
    properties = StreamProperties.observed(stream, KEYED)
    assert properties.ordered
    assert properties.never_lengthens or lengthen
    retracted: Counter[object] = Counter()
    for element in stream:
        if isinstance(element, Insert):
            # the key says that no other event has this start and payload now
            retracted[element.vs, identity(element.payload)] = 0
        elif isinstance(element, Adjust) and element.new_ve < element.ve:
            retracted[element.vs, identity(element.payload)] += 1
    assert max(retracted.values(), default=0) <= 1


@given(told(histories(), perfect=True))
def test_perfect_streams_are_perfect(drawn: Told):
    history, stream = drawn
    assert StreamProperties.observed(stream, history.schema).perfect
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history


@given(told(histories(vs_payload_key=True), vs_payload_key=True))
def test_start_and_payload_are_a_key_where_that_is_asked_for(drawn: Told):
    history, stream = drawn
    assert StreamProperties.observed(stream, history.schema).vs_payload_key
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history


@given(told(histories(unbounded=False), unbounded=False))
def test_nothing_is_unbounded_where_that_is_excluded(drawn: Told):
    _, stream = drawn
    assert all(element.ve < INF for element in data(stream))
    assert all(element.new_ve < INF for element in adjusts(stream))


@given(st.integers(0, 6), st.data())
def test_disorder_is_bounded(disorder: int, data: st.DataObject):
    history = data.draw(histories(KEYED))
    stream = data.draw(streams(history, disorder=disorder, adjusts=False, ctis=False))
    latest = -math.inf
    for element in inserts(stream):
        assert element.sync >= latest - disorder
        latest = max(latest, element.sync)


@given(told(histories(), ctis=False))
def test_without_ctis_only_the_end_is_promised(drawn: Told):
    _, stream = drawn
    assert promised(stream) == [INF]


@given(st.integers(0, 3), st.data())
def test_several_streams_mean_the_same(n: int, data: st.DataObject):
    history = data.draw(histories())
    replicas = data.draw(several(history, n))
    assert len(replicas) == n
    for stream in replicas:
        validate(stream, history.schema)
        assert History.of(stream, history.schema) == history


@given(st.data())
def test_batches_are_the_stream_in_pieces(data: st.DataObject):
    history = data.draw(histories())
    stream = data.draw(streams(history, closed=False))
    batches = data.draw(batchings(stream))
    assert all(batches)
    assert [element for batch in batches for element in batch] == stream
    assert all(len(Batch.of(batch, history.schema)) == len(batch) for batch in batches)


@given(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans(), st.data())
def test_histories_have_the_size_and_the_times_that_were_asked_for(
    least: int, more: int, unbounded: bool, negative: bool, data: st.DataObject
):
    history = data.draw(
        histories(
            KEYED,
            min_size=least,
            max_size=least + more,
            unbounded=unbounded,
            negative=negative,
        )
    )
    assert least <= len(history) <= least + more
    assert all(event.ve < INF or unbounded for event in history.events())
    assert all(event.vs >= 0 or negative for event in history.events())


@given(st.data())
def test_columns_are_replaced_by_name(data: st.DataObject):
    schema = pl.Schema({"k": pl.Categorical(), "n": pl.Int64()})
    columns = {"k": st.sampled_from("xy"), "n": st.integers(100, 200)}
    history = data.draw(histories(schema, columns=columns))
    stream = data.draw(streams(history, columns=columns))
    for payload in [event.payload for event in history.events()] + [
        element.payload for element in stream if isinstance(element, Insert | Adjust)
    ]:
        assert payload["k"] in "xy"
        assert 100 <= payload["n"] <= 200


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Int8(),
        pl.UInt16(),
        pl.Float32(),
        pl.Decimal(5, 3),
        pl.Datetime("ms"),
        pl.Datetime("us", "Europe/Berlin"),
        pl.Date(),
        pl.Duration("us"),
        pl.List(pl.Struct({"x": pl.Decimal(38, 2), "y": pl.List(pl.Boolean)})),
    ],
    ids=str,
)
def test_values_fit_their_type(dtype: pl.DataType):
    @given(st.lists(values(dtype)))
    def fit(drawn: list[Any]) -> None:
        kept = pl.Series(drawn, dtype=dtype, strict=True).to_list()
        assert identity(kept) == identity(drawn)

    fit()


@given(values(pl.List(pl.Int64), nullable=False))
def test_values_that_are_not_nullable_hold_no_null(value: list[int]):
    assert None not in value


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(SlackwaterError, match="no values are known"):
        values(pl.Object())
    with pytest.raises(SlackwaterError, match="unknown column 'q'"):
        payloads(KEYED, {"q": st.none()})


# ---- what must occur


def is_(kind: type) -> Callable[[History], bool]:
    return lambda history: any(isinstance(value, kind) for value in column(history))


def some_event(condition: Callable[[int, int], bool]) -> Callable[[History], bool]:
    return lambda history: any(condition(event.vs, event.ve) for event in history.events())


def some_pair(condition: Callable[[Any, Any], bool]) -> Callable[[History], bool]:
    """Two events of one history, by their place in it different ones."""

    def holds(history: History) -> bool:
        events = list(enumerate(history.events()))
        return any(i != j and condition(a, b) for i, a in events for j, b in events)

    return holds


def same(a: Any, b: Any) -> bool:
    return identity(a.payload) == identity(b.payload)


HISTORY_FEATURES: dict[str, Callable[[History], bool]] = {
    "no events": lambda history: len(history) == 0,
    "an unbounded event": some_event(lambda vs, ve: ve == INF),
    "a negative time": some_event(lambda vs, ve: vs < 0),
    "an instant": some_event(lambda vs, ve: ve == vs + 1),
    "exact duplicates": some_pair(lambda a, b: identity(a) == identity(b)),
    "equal starts": some_pair(lambda a, b: a.vs == b.vs and not same(a, b)),
    "equal ends": some_pair(lambda a, b: a.ve == b.ve and a.vs < b.vs),
    "equal payloads abut": some_pair(lambda a, b: a.ve == b.vs and same(a, b)),
    "equal payloads overlap": some_pair(lambda a, b: a.vs < b.vs < a.ve < b.ve and same(a, b)),
    "one within another": some_pair(lambda a, b: a.vs < b.vs and b.ve < a.ve),
    "null": lambda history: None in column(history),
    "null in one row of a column": lambda history: any(
        0 < count < len(history) for count in history.payload.null_count().row(0)
    ),
    "NaN": lambda history: any(isinstance(v, float) and math.isnan(v) for v in column(history)),
    "both zeros": lambda history: {"0.0", "-0.0"} <= set(map(repr, column(history))),
    "infinity": lambda history: any(isinstance(v, float) and math.isinf(v) for v in column(history)),
    "a decimal beyond floats": lambda history: any(
        isinstance(v, Decimal) and Decimal(float(v)) != v for v in column(history)
    ),
    "a timestamp": is_(dt.datetime),
    "a boolean": is_(bool),
    "the empty string": lambda history: "" in column(history),
    "not ASCII": lambda history: any(isinstance(v, str) and not v.isascii() for v in column(history)),
    "a list with a null": lambda history: any(
        isinstance(v, list) and None in v for v in column(history)
    ),
    "a struct": is_(dict),
    "three columns": lambda history: len(history.schema) == 3,
}


def missing(
    strategy: SearchStrategy[Any], features: dict[str, Callable[[Any], bool]], examples: int
) -> list[str]:
    """The features that none of so many examples has. The examples are always the same."""
    absent = dict(features)

    @settings(max_examples=examples, derandomize=True, deadline=None)
    @given(strategy)
    def look(drawn: Any) -> None:
        for feature in [feature for feature, has in absent.items() if has(drawn)]:
            del absent[feature]

    look()
    return list(absent)


def test_histories_are_varied():
    assert missing(histories(), HISTORY_FEATURES, examples=600) == []


def disordered(stream: list[Element]) -> bool:
    syncs = [element.sync for element in data(stream)]
    return syncs != sorted(syncs)


def early(stream: list[Element]) -> bool:
    """A promise that the very next element is the first one to keep."""
    return any(
        isinstance(promise, Punctuation)
        and isinstance(element, Insert | Adjust)
        and element.sync == promise.before
        for promise, element in pairwise(stream)
    )


def late(stream: list[Element]) -> bool:
    """A promise that could have been made before the element that it follows."""
    return any(
        isinstance(promise, Punctuation)
        and isinstance(stream[place - 1], Insert | Adjust)
        and all(element.sync >= promise.before for element in data(stream[place - 1 :]))
        for place, promise in enumerate(stream)
        if place > 0
    )


def reinserted(stream: list[Element]) -> bool:
    """An event is removed, and later there is one with its start and payload again."""
    return any(
        isinstance(gone, Adjust)
        and gone.new_ve == gone.vs
        and isinstance(back, Insert)
        and (gone.vs, identity(gone.payload)) == (back.vs, identity(back.payload))
        for place, gone in enumerate(stream)
        for back in stream[place:]
    )


STREAM_FEATURES: dict[str, Callable[[list[Element]], bool]] = {
    "order": lambda stream: len(data(stream)) > 3 and not disordered(stream),
    "disorder": disordered,
    "disorder among inserts": lambda stream: disordered(list(inserts(stream))),
    "shortening": lambda stream: any(a.vs < a.new_ve < a.ve for a in adjusts(stream)),
    "shortening of a finite end": lambda stream: any(
        a.vs < a.new_ve < a.ve < INF for a in adjusts(stream)
    ),
    "lengthening": lambda stream: any(a.ve < a.new_ve for a in adjusts(stream)),
    "lengthening to INF": lambda stream: any(a.ve < a.new_ve == INF for a in adjusts(stream)),
    "removal": lambda stream: any(a.new_ve == a.vs for a in adjusts(stream)),
    "an adjust without effect": lambda stream: any(a.new_ve == a.ve for a in adjusts(stream)),
    "provisional": lambda stream: any(a.new_ve < a.ve == INF for a in adjusts(stream)),
    "two adjusts of one event": lambda stream: any(
        (a.vs, a.new_ve, identity(a.payload)) == (b.vs, b.ve, identity(b.payload))
        and a.new_ve not in (a.ve, b.new_ve)
        for a in adjusts(stream)
        for b in adjusts(stream)
    ),
    "equal elements": lambda stream: len(set(inserts(stream))) < len(inserts(stream)),
    "removed and inserted again": reinserted,
    "an early cti": early,
    "a late cti": late,
    "a cti before everything": lambda stream: isinstance(stream[0], Punctuation) and len(stream) > 3,
    "a cti repeated": lambda stream: len(set(promised(stream))) < len(promised(stream)),
    "a cti that falls": lambda stream: promised(stream) != sorted(promised(stream)),
    "a cti that overtakes an open event": lambda stream: any(
        isinstance(promise, Punctuation)
        and any(e.vs < promise.before <= e.ve < INF for e in inserts(stream[:place]))
        and any(a.sync >= promise.before > a.vs for a in adjusts(stream[place:]))
        for place, promise in enumerate(stream)
    ),
    "no cti on the way": lambda stream: promised(stream) == [INF] and len(stream) > 3,
    "only phantoms": lambda stream: (
        len(data(stream)) > 1 and not len(History.of(stream, Batch.of(stream).schema))
    ),
}


def test_streams_are_varied():
    drawn = histories(KEYED).flatmap(streams)
    assert missing(drawn, STREAM_FEATURES, examples=400) == []


@pytest.mark.parametrize("lengthen", [True, False])
def test_ordered_streams_are_varied(lengthen: bool):
    possible = ["order", "shortening", "removal", "provisional", "removed and inserted again"]
    possible += [
        "shortening of a finite end",
        "equal elements",
        "an early cti",
        "a late cti",
        "a cti repeated",
    ]
    possible += ["lengthening", "lengthening to INF"] if lengthen else []
    drawn = histories(KEYED).flatmap(lambda h: streams(h, ordered=True, lengthen=lengthen))
    assert missing(drawn, {name: STREAM_FEATURES[name] for name in possible}, examples=300) == []


def test_streams_that_never_lengthen_are_varied():
    possible = ["disorder", "shortening", "removal", "provisional", "two adjusts of one event"]
    drawn = histories(KEYED).flatmap(lambda h: streams(h, lengthen=False))
    assert missing(drawn, {name: STREAM_FEATURES[name] for name in possible}, examples=200) == []


def test_every_order_of_inserts_is_drawn():
    history = History.of([insert(vs, 9, k="a") for vs in range(3)])

    def in_order(*starts: int) -> Callable[[Any], bool]:
        return lambda stream: tuple(element.vs for element in inserts(stream)) == starts

    orders = {str(starts): in_order(*starts) for starts in permutations(range(3))}
    drawn = streams(history, adjusts=False, ctis=False)
    assert missing(drawn, orders, examples=300) == []


def test_batches_are_varied():
    def of_sizes(*sizes: int) -> Callable[[Any], bool]:
        return lambda batches: tuple(map(len, batches)) == sizes

    cuts = {str(sizes): of_sizes(*sizes) for sizes in ((3,), (1, 2), (2, 1), (1, 1, 1))}
    assert missing(batchings([*TWO.to_batch(), cti(INF)]), cuts, examples=100) == []


# ---- what examples shrink to


def test_the_simplest_stream_inserts_each_event_once_in_order():
    assert simplest(streams(TWO)) == [insert(0, 5, k="a"), insert(2, 4, k="b"), cti(INF)]
    history, stream = simplest(told(histories()))
    assert (len(history), stream) == (0, [cti(INF)])


def test_disorder_shrinks_to_two_inserts():
    _, stream = simplest(told(histories(KEYED), adjusts=False), lambda drawn: disordered(drawn[1]))
    assert stream == [insert(1, 2, k="a"), insert(0, 1, k="a"), cti(INF)]


def test_a_shortened_event_shrinks_to_one_insert_and_one_adjust():
    shortens = STREAM_FEATURES["shortening"]
    _, stream = simplest(told(histories()), lambda drawn: shortens(drawn[1]))
    assert len(stream) == 3
    assert isinstance(stream[0], Insert)
    assert isinstance(stream[1], Adjust)


def test_batches_shrink_to_one():
    stream = [*TWO.to_batch(), cti(INF)]
    assert simplest(batchings(stream)) == [stream]
    assert simplest(batchings([])) == []


# ---- broken on purpose


@given(told(histories(KEYED, min_size=1)))
def test_an_element_behind_the_end_is_caught(drawn: Told):
    _, stream = drawn
    first = data(stream)[0]
    moved = [element for element in stream if element is not first] + [first]
    with pytest.raises(InvalidStream):
        validate(moved, KEYED)


@given(told(histories(KEYED), ctis=True), st.data())
def test_an_insert_behind_a_promise_is_caught(drawn: Told, draw: st.DataObject):
    _, stream = drawn
    places = [i for i, element in enumerate(stream) if isinstance(element, Punctuation)]
    place = draw.draw(st.sampled_from(places))
    promise = stream[place]
    assert isinstance(promise, Punctuation)
    too_late = Insert(promise.before - 1, INF, {"k": "a"})
    with pytest.raises(InvalidStream) as caught:
        validate([*stream[: place + 1], too_late, *stream[place + 1 :]], KEYED)
    assert caught.value.rule == "promise broken"
    assert caught.value.element == too_late
    assert caught.value.position == place + 1


@given(told(histories(KEYED)))
def test_an_adjust_before_its_insert_is_caught(drawn: Told):
    _, stream = drawn
    for element in adjusts(stream):
        with pytest.raises(InvalidStream) as caught:
            validate([element, *stream], KEYED)
        assert caught.value.rule == "unknown event"
        assert caught.value.position == 0


def test_adjusts_in_the_wrong_order_are_caught():
    chain: list[Element] = [insert(0, 9, k="a"), adjust(0, 9, 7, k="a"), adjust(0, 7, 5, k="a")]
    validate(chain)
    with pytest.raises(InvalidStream) as caught:
        validate([chain[0], chain[2], chain[1]])
    assert caught.value.rule == "chain out of order"


@given(told(histories(KEYED)), st.data())
def test_a_lost_element_is_noticed(drawn: Told, draw: st.DataObject):
    history, stream = drawn
    losable = [e for e in data(stream) if isinstance(e, Insert) or e.ve != e.new_ve]
    if losable:
        lost = draw.draw(st.sampled_from(losable))
        rest = [element for element in stream if element is not lost]
        try:
            said = History.of(rest, KEYED)
        except InvalidStream:
            return
        assert said != history


# ---- the clock


def test_the_clock_moves_only_by_hand():
    clock = ManualClock(dt.datetime(1970, 1, 1, 0, 0, 1))
    assert clock.now() == clock.now() == 1_000_000
    clock.advance(5)
    clock.advance("2 ms")
    clock.advance(dt.timedelta(seconds=1))
    assert clock.now() == 2_002_005
    with pytest.raises(InvalidTime, match="cannot go back"):
        clock.advance(-1)
    assert clock.now() == 2_002_005
