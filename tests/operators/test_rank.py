"""Rank by hand at every output latency, over values of all types, over long streams."""

from __future__ import annotations

import math
import random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
import slackwater.state
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, schemas, streams

S = sw.stream({"g": str, "v": int})
PLACES = S.group_by("g").aggregate(place=sw.rank("v"))


def _insert(vs: int, ve: int | None, v: int | None, place: int | None = -1, g: str = "a") -> Element:
    named = {} if place == -1 else {"place": place}
    return sw.insert(vs, ve, g=g, v=v, **named)


def _adjust(
    vs: int, ve: int | None, new_ve: int | None, v: int | None, place: int | None = -1
) -> Element:
    named = {} if place == -1 else {"place": place}
    return sw.adjust(vs, ve, new_ve, g="a", v=v, **named)


TWO = [_insert(0, 10, 5), _insert(4, 6, 3), sw.cti(10)]
SHOWN: dict[sw.OutputLatency, list[Element]] = {
    sw.EAGER: [
        _insert(0, 10, 5, 1),
        _adjust(0, 10, 4, 5, 1),
        _insert(4, 6, 3, 1),
        _insert(4, 6, 5, 2),
        _insert(6, 10, 5, 1),
        sw.cti(10),
    ],
    sw.ORDER_PRESERVING: [
        _insert(0, None, 5, 1),
        _adjust(0, None, 4, 5, 1),
        _insert(4, None, 3, 1),
        _insert(4, None, 5, 2),
        _adjust(4, None, 6, 3, 1),
        _adjust(4, None, 6, 5, 2),
        _insert(6, 10, 5, 1),
        sw.cti(10),
    ],
    sw.PERFECTNESS_PRESERVING: [
        _insert(0, 4, 5, 1),
        _insert(4, 6, 3, 1),
        _insert(4, 6, 5, 2),
        _insert(6, 10, 5, 1),
        sw.cti(10),
    ],
}


@pytest.mark.parametrize("latency", SHOWN)
def test_what_is_shown_at_each_latency(latency: sw.OutputLatency) -> None:
    assert list(PLACES.latency(latency).run({S: TWO}, batch=1)) == SHOWN[latency]


def test_equal_values_share_a_place_and_a_null_has_none() -> None:
    values = [7, None, 3, 7, 9, None, 7]
    elements = [_insert(0, 5, v) for v in values]
    rows = PLACES.run({S: elements}).history().sort("place").select("v", "place").rows()
    assert rows == [(None, None), (None, None), (3, 1), (7, 2), (7, 2), (7, 2), (9, 5)]
    down = S.aggregate(place=sw.rank("v", descending=True)).run({S: elements}).history()
    assert down.sort("place").select("v", "place").rows() == [
        (None, None),
        (None, None),
        (9, 1),
        (7, 2),
        (7, 2),
        (7, 2),
        (3, 5),
    ]


def test_nan_is_the_largest_number_and_zero_has_no_sign() -> None:
    s = sw.stream({"x": float})
    elements = [sw.insert(0, 1, x=x) for x in (math.nan, -0.0, math.inf, 0.0, -math.inf, math.nan)]
    out = s.aggregate(place=sw.rank("x")).run({s: elements}).history()
    assert sorted(out["place"]) == [1, 2, 2, 4, 5, 5]
    assert out.filter(pl.col("x").is_nan())["place"].to_list() == [5, 5]


def test_only_the_places_that_change_are_said_again() -> None:
    steps = [_insert(0, 20, v) for v in range(50)] + [_insert(t, t + 1, 100) for t in range(20)]
    running = PLACES.open()
    running.push(S, steps)
    # behind all others, but for those of 100: in every snapshot one row comes, and one goes and comes
    [out] = running.push(S, [_insert(0, 20, 99)])
    assert out.rows == 20 * 3
    # as before, and the two others behind it have another place now
    [out] = running.push(S, [_insert(5, 10, 98)])
    assert out.rows == 5 * 5
    # one for another: only what lies between the two has another place
    [out] = running.push(S, [_adjust(5, 10, 5, 98), _insert(5, 10, 97)])
    assert out.rows == 5 * 2


def test_a_snapshot_before_the_cti_only_gets_another_end() -> None:
    """Erratum 3: an endpoint that vanishes lengthens the rows before it."""
    elements = [_insert(0, 100, 1), _insert(50, 60, 2), sw.cti(50), _adjust(50, 60, 50, 2)]
    assert list(PLACES.run({S: elements}, batch=1))[-4:] == [
        _adjust(0, 50, 100, 1, 1),
        _adjust(50, 60, 50, 1, 1),
        _adjust(50, 60, 50, 2, 2),
        _adjust(60, 100, 60, 1, 1),
    ]


def test_rows_that_were_cut_are_lengthened_before_a_promise_passes_them() -> None:
    """Erratum 3: [0, 50) must not stay as it is when nothing ends there any more, but go on to 100."""
    elements = [
        _insert(0, 100, 1),
        _insert(0, 100, 1),
        _insert(50, 60, 0),
        _adjust(50, 60, 50, 0),
        sw.cti(60),
    ]
    out = list(PLACES.latency(sw.PERFECTNESS_PRESERVING).run({S: elements}, batch=1))
    assert out == [
        _insert(0, 50, 1, 1),
        _insert(0, 50, 1, 1),
        _adjust(0, 50, 100, 1, 1),
        _adjust(0, 50, 100, 1, 1),
        sw.cti(60),
    ]


def test_what_is_open_is_not_promised_away() -> None:
    elements = [_insert(2, 9, 1), _insert(3, 9, 1, g="b"), sw.cti(5)]
    out = list(PLACES.latency(sw.PERFECTNESS_PRESERVING).run({S: elements}, batch=1))
    assert out == [sw.cti(2)]


def test_a_value_that_cannot_be_is_named_or_set_aside() -> None:
    s = sw.stream({"a": str})
    q = s.aggregate(place=sw.rank(sw.col("a").cast(pl.Int64)))
    elements = [sw.insert(0, 5, a="2"), sw.insert(0, 5, a="x"), sw.insert(0, 5, a="1")]
    with pytest.raises(sw.OperatorError, match=r"rank: .* has no value for \{'a': 'x'\}"):
        q.run({s: elements})
    out = q.run({s: elements}, on_invalid=sw.LEDGER)
    assert [entry.element for entry in out.ledger] == [elements[1]]
    assert out.history().sort("a").rows() == [("1", 1, 0, 5), ("2", 2, 0, 5)]


@given(data=st.data(), latency=st.sampled_from(sw.OutputLatency), descending=st.booleans())
def test_values_of_every_type_are_ranked_as_the_oracle_ranks_them(
    data: st.DataObject, latency: sw.OutputLatency, descending: bool
) -> None:
    schema = data.draw(schemas())
    flat = [name for name, dtype in schema.items() if not dtype.is_nested()]
    by = data.draw(st.sampled_from(flat)) if flat else pl.lit(1)
    s = sw.stream(schema)
    q = s.aggregate(place_=sw.rank(by, descending=descending)).latency(latency)
    stream = list(data.draw(streams(data.draw(histories(s.schema)))))
    running = q.open()
    for part in data.draw(batchings(stream)):
        running.push(s, part)
    assert running.output.as_history() == q.meaning({s: stream})
    assert not any(status.state.state_rows for status in running.describe())


def _long_stream(rng: random.Random, count: int) -> list[Element]:
    """Inserts, in no order, of few values and many, and adjusts; ctis that lag behind."""
    now = cti = 0
    alive: list[tuple[int, int, str, int]] = []
    elements: list[Element] = []
    while len(elements) < count:
        now += rng.randint(0, 2)
        if rng.random() < 0.1:
            cti = max(cti, now - rng.randint(5, 40))
            elements.append(sw.cti(cti))
        elif rng.random() < 0.3 and alive:
            at = rng.randrange(len(alive))
            vs, ve, g, v = alive[at]
            new_ve = rng.choice([vs, rng.randint(vs, now + 20), sw.INF])
            if min(ve, new_ve) >= cti:
                elements.append(sw.adjust(vs, ve, new_ve, g=g, v=v))
                alive[at : at + 1] = [(vs, new_ve, g, v)] if new_ve > vs else []
        else:
            vs = max(cti, now - rng.randint(0, 30))
            event = (
                vs,
                vs + rng.randint(1, 25),
                rng.choice("abc"),
                rng.choice([0, rng.randint(-99, 99)]),
            )
            alive.append(event)
            elements.append(sw.insert(*event[:2], g=event[2], v=event[3]))
        alive = [event for event in alive if event[1] >= cti]
    return [*elements, sw.cti(None)]


@pytest.mark.parametrize("latency", sw.OutputLatency)
@pytest.mark.parametrize("batch", [1, 30, 1000])
def test_long_streams_with_many_alive(
    latency: sw.OutputLatency, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 100)
    monkeypatch.setattr(slackwater.state, "SWEEP_FACTOR", 2)
    stream = _long_stream(random.Random(7 * batch), 500)
    for by in ("v", sw.col("v").cast(pl.String)):
        q = S.group_by("g").aggregate(place=sw.rank(by)).latency(latency)
        out = q.run({S: stream}, batch=batch)
        sw.validate(out.as_batch())
        assert out.as_history() == q.meaning({S: stream})


def test_what_is_remembered_does_not_grow_with_what_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that begin and end together leave few endpoints behind, but many payloads."""
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 1024)
    monkeypatch.setattr(slackwater.state, "SWEEP_FACTOR", 2)
    execution = Execution(PLACES.node)
    assert isinstance(S.node, Source)
    for t in range(30):
        execution.push(S.node, [_insert(t, t + 1, 100 * t + v) for v in range(100)])
        execution.push(S.node, [sw.cti(t + 1)])
    [(state, *_)] = execution.snapshot().operators
    assert len(state.payloads) < 1500
