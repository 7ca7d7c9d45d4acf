"""ClipBy by hand: starts that come and go, rows that do, and what is forgotten when.

Then what is forgotten, by definition: rows whose end nothing that may still come can move.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bags import Bag
from tests.laws import Case, Trial, forget_at_once

import slackwater as sw
import slackwater.state
from slackwater.events import Element
from slackwater.query import RunningQuery
from slackwater.testing import batchings, histories, streams
from slackwater.times import BEGIN, INF

S = sw.stream({"a": str}, name="s")
T = sw.stream({"b": str}, name="t")
CLIPPED = S.clip(T)


def _through(*script: tuple[sw.Query, Element], batch: int = 1) -> list[Element]:
    return list(CLIPPED.run(list(script), batch=batch))


def _remembered(running: RunningQuery) -> int:
    [clip] = running.describe()
    return clip.state.state_rows


def test_starts_come_and_go() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(5, 6, b="y")),
        (S, sw.adjust(0, 20, 9, a="a")),
        (T, sw.adjust(5, 6, 5, b="y")),
        (T, sw.adjust(7, 8, 7, b="x")),
    )
    assert out == [
        sw.insert(0, 20, a="a"),
        sw.adjust(0, 20, 7, a="a"),
        sw.adjust(0, 7, 5, a="a"),
        sw.adjust(0, 5, 7, a="a"),
        sw.adjust(0, 7, 9, a="a"),
    ]


def test_a_start_cuts_only_rows_that_started_before_it() -> None:
    out = _through(
        (T, sw.insert(5, 50, b="x")),
        (S, sw.insert(5, 9, a="same")),
        (S, sw.insert(4, 9, a="before")),
        (T, sw.adjust(5, 50, 30, b="x")),
        (S, sw.adjust(4, 9, 7, a="before")),
        (S, sw.adjust(4, 7, 4, a="before")),
    )
    assert out == [
        sw.insert(5, 9, a="same"),
        sw.insert(4, 5, a="before"),
        sw.adjust(4, 5, 4, a="before"),
    ]


def test_a_start_that_makes_way_for_another_moves_the_end_once() -> None:
    script = [
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(5, 6, b="y")),
        (T, sw.adjust(7, 8, 7, b="x")),
        (T, sw.insert(9, 10, b="z")),
        (T, sw.adjust(5, 6, 5, b="y")),
    ]
    assert _through(*script, batch=5) == [sw.insert(0, 20, a="a"), sw.adjust(0, 20, 9, a="a")]


def test_several_starts_at_one_time_are_one() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (T, sw.insert(7, 8, b="x")),
        (T, sw.insert(7, 9, b="x")),
        (T, sw.adjust(7, 8, 7, b="x")),
    )
    assert out == [sw.insert(0, 20, a="a"), sw.adjust(0, 20, 7, a="a")]


def test_keys_that_are_null_match_nothing() -> None:
    s, t = sw.stream({"k": str}, name="s"), sw.stream({"k": str, "v": int}, name="t")
    out = s.clip(t, on="k").run(
        [
            (s, sw.insert(0, 9, k=None)),
            (s, sw.insert(0, 9, k="a")),
            (t, sw.insert(3, 4, k=None, v=1)),
            (t, sw.insert(4, 5, k="a", v=2)),
        ],
    )
    assert out.history().rows() == [("a", 0, 4), (None, 0, 9)]


def test_the_promise_is_what_both_have_promised() -> None:
    out = _through(
        (S, sw.insert(0, 20, a="a")),
        (S, sw.cti(15)),
        (T, sw.cti(4)),
        (T, sw.insert(4, 5, b="x")),
        (T, sw.cti(30)),
    )
    assert out == [sw.insert(0, 20, a="a"), sw.cti(4), sw.adjust(0, 20, 4, a="a"), sw.cti(15)]


def test_rows_are_forgotten_once_their_cut_is_final() -> None:
    """Also those without end; and adjusts of them, which are still allowed, change nothing."""
    forget_at_once(True)
    running = CLIPPED.open()
    running.push(S, [sw.insert(0, None, a="twice"), sw.insert(0, None, a="twice"), sw.cti(50)])
    running.push(S, [sw.insert(50, None, a="twice")])
    running.push(T, [sw.insert(5, 6, b="x"), sw.insert(80, 81, b="y"), sw.cti(5)])
    assert _remembered(running) == 4, "the start at 5 may still go"
    running.push(T, [sw.cti(6)])
    assert _remembered(running) == 2, "the row from 50 on, and the start at 80"
    for adjust in (
        [sw.adjust(0, None, 60, a="twice")],
        [sw.adjust(0, 60, 70, a="twice"), sw.adjust(0, None, 60, a="twice")],
        [sw.adjust(0, 60, None, a="twice"), sw.adjust(0, None, 90, a="twice")],
    ):
        assert running.push(S, adjust) == []
    assert _remembered(running) == 2
    [told] = running.push(S, [sw.adjust(50, None, 70, a="twice")])
    assert list(told) == [sw.adjust(50, 80, 70, a="twice")]
    assert running.output.history().rows() == [("twice", 0, 5), ("twice", 0, 5), ("twice", 50, 70)]


def test_a_cut_is_not_final_before_the_input_has_got_there() -> None:
    forget_at_once(True)
    running = CLIPPED.open()
    running.push(S, [sw.insert(0, None, a="a"), sw.cti(4)])
    running.push(T, [sw.insert(5, 6, b="x"), sw.cti(50)])
    [told] = running.push(S, [sw.adjust(0, None, 4, a="a")])
    assert list(told) == [sw.adjust(0, 5, 4, a="a")]
    running.push(S, [sw.adjust(0, 4, 7, a="a"), sw.cti(5)])
    assert _remembered(running) == 0
    assert running.push(S, [sw.adjust(0, 7, 5, a="a")]) == []
    assert running.output.history().rows() == [("a", 0, 5)]


def test_what_is_settled_is_forgotten_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 100)
    monkeypatch.setattr(slackwater.state, "SWEEP_FACTOR", 2)
    running = CLIPPED.open()
    for vs in range(400):
        running.push(S, [sw.insert(vs, [vs + 3, None][vs % 2], a=str(vs)), sw.cti(vs)])
        running.push(T, [sw.insert(vs + 1, vs + 2, b="x"), sw.cti(vs)])
    assert _remembered(running) < 110
    [clip] = running.describe()
    assert clip.state.held_by == 0
    running.push(S, [sw.cti(None)])
    running.push(T, [sw.cti(None)])
    assert _remembered(running) == 0


def _may_end(vs: int, ve: int, starts: Iterable[int], cti: int, other_cti: int) -> set[float]:
    """Ends that a row may yet have, by any valid input; of many, enough to tell them from one."""
    ends = {ve}
    if ve >= cti:
        ends |= {max(vs, cti), INF}
    cuts: set[float] = {start for start in starts if vs < start < other_cti}
    # as if time were dense, so that every row can be cut
    cuts = {min(cuts)} if cuts else {max(other_cti, vs + 0.5), INF}
    return {min(end, cut) for end in ends for cut in cuts}


def _worth_remembering(rows: Bag, others: Bag, cti: int, other_cti: int) -> int:
    starts = {(vs, dict(payload)["k"]) for vs, _, payload in others.rows}  # type: ignore[call-overload]
    unsettled = 0
    for vs, ve, payload in rows.rows:
        key = dict(payload)["k"]  # type: ignore[call-overload]
        may_cut = [start for start, of in starts if of == key]
        unsettled += len(_may_end(vs, ve, may_cut, cti, other_cti)) > 1
    # a start may go, or cut a row that is yet to come
    return unsettled + sum(start >= other_cti or start > cti for start, _ in starts)


KEYED = sw.stream({"k": int, "v": int}, name="keyed")
CUTS = sw.stream({"k": int}, name="cuts")


@given(data=st.data())
def test_what_nothing_can_change_any_more_is_forgotten(data: st.DataObject) -> None:
    few = {"k": st.integers(0, 1), "v": st.integers(0, 1)}
    parts = []
    for source in (KEYED, CUTS):
        columns = {name: few[name] for name in source.schema}
        history = data.draw(histories(source.schema, columns=columns, min_size=2))
        stream = data.draw(streams(history, columns=columns))
        parts.append([(source, part) for part in data.draw(batchings(stream))])
    turns = [i for i, of in enumerate(parts) for _ in of]
    # if cuts are final before there is a row, adjusts often find theirs forgotten
    turns = data.draw(st.just(turns[::-1]) | st.permutations(turns))
    forget_at_once(True)
    trial = Trial(Case(KEYED.clip(CUTS, on="k"), (KEYED, CUTS)))
    ctis, promised = {KEYED: BEGIN, CUTS: BEGIN}, BEGIN
    for turn in turns:
        source, part = parts[turn].pop(0)
        trial.push(source, part)
        told = (element.before for element in part if isinstance(element, sw.Punctuation))
        ctis[source] = max([ctis[source], *told])
        if min(ctis.values()) > promised:
            promised = min(ctis.values())
            [clip] = trial.execution.describe()
            rows, others = trial.said.values()
            assert clip.state.state_rows == _worth_remembering(rows, others, *ctis.values())
    trial.close()
