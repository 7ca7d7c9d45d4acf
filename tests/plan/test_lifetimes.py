"""Terms over vs and ve: what is refused, and that the promise which survives is right and tight."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators.alter_lifetime import AlterLifetime
from slackwater.plan import lifetimes as lt
from slackwater.plan import nodes
from slackwater.validity import StreamProperties

LIFETIMES = {
    "sliding": lt.sliding(3),
    "tumbling": lt.tumbling(4),
    "hopping": lt.hopping(6, 2),
    "hopping closed right": lt.hopping(6, 2, closed="right"),
    "inserts": lt.inserts(),
    "shift": lt.shift(2),
    "shift back": lt.shift(-2),
    "extend": lt.extend(3),
    "shorten": lt.extend(-3),
    "clip": lt.clip(2),
    "at least": lt.lifetime(end=sw.most(sw.VE, sw.VS + 4)),
    "rounded": lt.lifetime(sw.VS.floor(3), end=sw.VE.ceil(3)),
    "between": lt.lifetime(end=sw.least(sw.most(sw.VE - 2, sw.VS + 1), sw.VS + 5)),
    "twice as long": lt.lifetime(end=2 * sw.VE),
}


def _permitted_rows(time: int) -> sw.Batch:
    """All rows with small times that cti(time) still permits."""
    reach = range(time - 8, time + 9)
    rows = [
        (vs, old, new)
        for vs, old, new in itertools.product(reach, reach, reach)
        if vs <= old and vs <= new and old != new and min(old, new) >= time
    ]
    vs, old_ve, new_ve = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return sw.Batch(vs, old_ve, new_ve, pl.DataFrame({"a": [1] * len(rows)}))


@pytest.mark.parametrize("name", LIFETIMES)
@pytest.mark.parametrize("time", [-7, -1, 0, 3, 4, 12])
def test_the_promise_out_is_kept_and_no_later_one_could_be(name: str, time: int) -> None:
    lifetime = LIFETIMES[name]
    source = nodes.Source("s", {"a": int}, StreamProperties())
    step = AlterLifetime(nodes.AlterLifetime(source, lifetime))
    out = step.on_batch(None, 0, _permitted_rows(time))
    [promise] = step.on_punctuation(None, 0, sw.cti(time)).promises
    assert promise.before <= out.sync.min(), "some permitted element would break it"
    assert promise.before == out.sync.min(), "a later promise would hold just as well"


def _terms(of: lt.Term) -> st.SearchStrategy[lt.Term]:
    """Terms that do not fall: sums with constants, multiples, rounding, least and most."""
    small = st.integers(-6, 6)
    return st.recursive(
        st.just(of) | small.map(lt.term),
        lambda inner: st.one_of(
            st.tuples(inner, small).map(lambda drawn: drawn[0] + drawn[1]),
            st.tuples(inner, st.integers(1, 3)).map(lambda drawn: drawn[0] * drawn[1]),
            st.tuples(inner, st.integers(1, 5)).map(lambda drawn: drawn[0].floor(drawn[1])),
            st.tuples(inner, st.integers(1, 5)).map(lambda drawn: drawn[0].ceil(drawn[1])),
            st.tuples(inner, inner).map(lambda drawn: sw.least(*drawn)),
            st.tuples(inner, inner).map(lambda drawn: sw.most(*drawn)),
        ),
        max_leaves=4,
    )


@given(
    start=_terms(sw.VS),
    ends=st.lists(_terms(sw.VE) | _terms(sw.VS), min_size=1, max_size=3),
    most=st.booleans(),
    time=st.integers(-9, 9),
)
def test_no_promise_is_ever_too_strong(
    start: lt.Term, ends: list[lt.Term], most: bool, time: int
) -> None:
    lifetime = lt.lifetime(start, end=sw.most(*ends) if most else sw.least(*ends))
    source = nodes.Source("s", {"a": int}, StreamProperties())
    out = AlterLifetime(nodes.AlterLifetime(source, lifetime)).on_batch(None, 0, _permitted_rows(time))
    assert out.rows == 0 or lifetime.promise(time) <= out.sync.min()


def test_closed_stays_closed_and_nothing_promised_stays_so() -> None:
    for lifetime in LIFETIMES.values():
        assert lifetime.promise(sw.INF) == sw.INF
        assert lifetime.promise(sw.BEGIN) == sw.BEGIN


def test_hopping_covers_what_the_design_says() -> None:
    """The row at [k, k + hop) covers the inputs in [k - size, k), or (k - size, k] if closed right."""
    for size, hop, closed in itertools.product((1, 3, 5, 6), (1, 2, 5), ("left", "right")):
        window = lt.hopping(size, hop, closed=closed)  # type: ignore[arg-type]
        vs = np.arange(-15, 16)
        start, end = window.starts(vs), window.ends(vs, vs + 1)
        for k in range(-10 * hop, 11 * hop, hop):
            alive = (start <= k) & (k < end)
            inside = (k - size <= vs) & (vs < k) if closed == "left" else (k - size < vs) & (vs <= k)
            assert alive.tolist() == inside.tolist()


def test_inf_absorbs() -> None:
    vs, ve = np.array([5]), np.array([sw.INF])
    assert lt.shift(-3).ends(vs, ve).tolist() == [sw.INF]
    assert lt.extend(7).ends(vs, ve).tolist() == [sw.INF]
    assert lt.clip(7).ends(vs, ve).tolist() == [12]
    assert lt.lifetime(sw.VS, duration=sw.VE - sw.VS).ends(vs, ve).tolist() == [sw.INF]


def test_terms_are_brought_to_a_form_in_which_they_can_be_judged() -> None:
    assert str(sw.VS + (sw.VE - sw.VS) + 3) == "ve + 3"
    assert str(sw.VS + sw.least(sw.VE - sw.VS, 10)) == "least(ve, vs + 10)"
    assert str(-sw.least(sw.VS, sw.VE)) == "most(-1*vs, -1*ve)"
    assert str(sw.most(sw.VE, 3).floor(2)) == "most(floor(ve, 2), 2)"
    assert str(5 - sw.VS) == "-1*vs + 5"


@pytest.mark.parametrize(
    ("start", "end", "fact"),
    [
        (-sw.VS, sw.VE, "the start function is not monotone"),
        ((-sw.VS).floor(10), sw.VE, "the start function is not monotone"),
        (sw.VS - sw.VS.floor(10), sw.VE, "the start function is not monotone"),
        (sw.VE, sw.VE + 1, "the start may depend on vs only"),
        (sw.VS, 100 - sw.VE, "the end must not grow when ve shrinks"),
        (sw.VS, (-sw.VE).ceil(10), "the end must not grow when ve shrinks"),
        (sw.VS, sw.VE + sw.VS, "no promise would survive this end"),
        (sw.VS, sw.least(sw.VE + sw.VS, 9), "no promise would survive this end"),
    ],
)
def test_what_no_promise_would_survive_is_refused(start: lt.Term, end: lt.Term, fact: str) -> None:
    with pytest.raises(sw.PlanError, match=fact):
        lt.lifetime(start, end=end)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: sw.sliding(0),
        lambda: sw.tumbling("-5 s"),
        lambda: sw.hopping("10 min", 0),
        lambda: sw.tumbling(sw.INF),
        lambda: sw.VS * 1.5,  # type: ignore[operator]
        sw.least,
        lambda: sw.session(-1),
        lambda: lt.clip(0),
        lambda: lt.lifetime(sw.VS, duration=-3),
        lambda: sw.hopping(4, 2, closed="both"),  # type: ignore[arg-type]
        lambda: lt.lifetime(sw.VS, duration=3, end=sw.VE),
    ],
)
def test_windows_without_length_are_refused(wrong: object) -> None:
    with pytest.raises(sw.PlanError):
        wrong()  # type: ignore[operator]
