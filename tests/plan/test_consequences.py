"""What a row that was given up would have changed, and that nothing else would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.laws import CASES

import slackwater as sw
from slackwater.events import Adjust, Event, Insert
from slackwater.history import History
from slackwater.oracle import meaning
from slackwater.plan.consequences import Changed, Consequences
from slackwater.plan.rewrites import rewritten
from slackwater.testing import histories
from slackwater.times import INF

S = sw.stream({"k": str, "v": int}, name="s")
FEWER = settings(max_examples=max(1, settings().max_examples // 20))


def _of(query: sw.Query, *elements: Insert | Adjust) -> list[tuple[int, int]]:
    root = rewritten(query.node)
    return Consequences(root).of_output(S.node, Changed.of(elements)).pairs()


ROW = sw.insert(3, 4, k="a", v=1)


@pytest.mark.parametrize(
    ("query", "since", "until"),
    [
        (S, 3, 4),
        (S.where(sw.col("v") > 0).select("k"), 3, 4),
        (S.window(sw.hopping(10, 2)), 4, 14),
        (S.window(sw.hopping(10, 2)).group_by("k").aggregate(n=sw.count()), 4, 14),
        (S.aggregate(n=sw.count()), 3, 4),
        # the count of a count in windows: a row that differs starts at 4 at the latest
        (S.aggregate(n=sw.count()).window(sw.tumbling(5)).aggregate(m=sw.count()), 5, 10),
        (S.aggregate(n=sw.count()).shift(5), 8, 9),
        (S.aggregate(n=sw.count()).extend(1), 3, INF),
        (S.window(sw.session(5)), 3, INF),
        (S.distinct().aggregate(f=sw.first("v")), 3, INF),
        (S.join(S.shift(2), on="k"), 3, 6),
        (S.point_at_end(), 4, 5),
        (S.deletes(), 4, INF),
    ],
)
def test_when_the_answer_would_have_been_another(query: sw.Query, since: int, until: int) -> None:
    assert _of(query, ROW) == [(since, until)]


def test_an_adjust_changes_what_lies_between_its_ends() -> None:
    shorter, removed = sw.adjust(3, 9, 5, k="a", v=1), sw.adjust(3, 9, 3, k="a", v=1)
    assert _of(S.group_by("k").aggregate(n=sw.count()), shorter, removed) == [(5, 9), (3, 9)]
    # a window goes by starts: where the row ends does not matter to it
    start, end = _of(S.window(sw.tumbling(10)), shorter)[0]
    assert start == end
    assert _of(S.window(sw.tumbling(10)), removed) == [(10, 20)]


@pytest.mark.parametrize(
    "behind",
    [
        lambda q: q.aggregate(n=sw.count()),
        lambda q: q.aggregate(n=sw.count()).point_at_end(),
        lambda q: q.aggregate(n=sw.count()).extend(1),
        lambda q: q.aggregate(n=sw.count()).window(sw.sliding(5)),
        lambda q: q.distinct().aggregate(n=sw.first("v")),
        lambda q: q.distinct().window(sw.session(4)),
        lambda q: q.deletes(),
    ],
)
def test_what_changes_nothing_changes_nothing_behind_it(behind: Callable[[sw.Query], sw.Query]) -> None:
    """Windows do not see where a row ends."""
    [(since, until)] = _of(behind(S.window(sw.tumbling(10))), sw.adjust(3, 9, 5, k="a", v=1))
    assert since == until


@pytest.mark.parametrize(
    "behind",
    [
        lambda q: q,
        lambda q: q.deletes(),
        lambda q: q.point_at_end(),
        lambda q: q.window(sw.sliding(5)),
        lambda q: q.extend(-2),
        lambda q: q.window(sw.tumbling(5)),
    ],
)
@pytest.mark.parametrize("how", ["inner", "left", "full", "anti"])
def test_a_pair_of_which_nobody_knows_whether_it_is_one(
    behind: Callable[[sw.Query], sw.Query], how: Literal["inner", "left", "full", "anti"]
) -> None:
    """Whether its rows are alone while it lasts, and so where they are cut, is not known either."""
    other = sw.stream({"k": str, "w": int}, name="other")
    inputs = {S: [sw.insert(0, 10, k="a", v=1)], other: [sw.insert(3, 7, k="a", w=99)]}

    def fails(w: pa.Array) -> pa.Array:
        raise ValueError(f"of {len(w)}")

    def says(answer: bool) -> Callable[[pa.Array], pa.Array]:
        return lambda w: pa.array([answer] * len(w))

    def query(f: Callable[[pa.Array], pa.Array]) -> sw.Query:
        return behind(S.join(other, on="k", how=how, where=sw.function(f, "w", returns=bool)))

    out = query(fails).run(inputs, batch=1, on_invalid=sw.LEDGER)
    [entry] = out.ledger
    assert entry.since is not None
    assert entry.until is not None
    for answer in (True, False):
        told = query(says(answer)).meaning(inputs)
        _require_equal_outside(told, out.as_history(), entry.since, entry.until)


def test_the_ledger_has_it_in_columns() -> None:
    counted = S.window(sw.tumbling(10)).group_by("k").aggregate(n=sw.count())
    elements = [sw.insert(30, 31, k="a", v=1), sw.insert(3, 4, k="a", v=1)]
    out = counted.shift(100).consistency(memory=5).run({S: elements}, batch=1)
    assert [(e.element, e.since, e.until) for e in out.ledger] == [
        (sw.insert(10, 20, k="a", v=1), 110, 120)
    ]
    assert out.ledger.to_polars().select("since", "until").rows() == [(110, 120)]


def test_what_the_edge_sets_aside_has_it_too() -> None:
    late, strange = sw.insert(1, 7, k="a", v=1), sw.insert(5, 6, k="b")
    promise = sw.punctuation(nowhere=1)
    elements = [strange, sw.cti(5), late, promise]
    out = S.shift(10).run({S: elements}, batch=1, on_invalid=sw.LEDGER)
    found = {repr(e.element): (e.since, e.until) for e in out.ledger}
    assert found == {repr(late): (11, 17), repr(strange): (15, 16), repr(promise): (None, None)}


@pytest.mark.parametrize("name", CASES)
@FEWER
@given(data=st.data())
def test_outside_of_it_the_answers_are_equal_with_and_without(name: str, data: st.DataObject) -> None:
    case = CASES[name]()
    root = rewritten(case.query.node)
    told = {
        source: data.draw(histories(source.schema, unbounded=case.unbounded)) for source in case.sources
    }
    spoken = [source for source, history in told.items() if history.events()]
    assume(spoken)
    source = data.draw(st.sampled_from(spoken))
    events = list(told[source].events())
    event = events.pop(data.draw(st.integers(0, len(events) - 1)))
    end = data.draw(st.just(event.vs) | st.integers(event.vs, min(event.ve, event.vs + 20)))
    change = sw.adjust(event.vs, event.ve, end, **event.payload)
    rest = [Event(event.vs, end, event.payload)] if end > event.vs else []
    without = told | {source: History.from_events(events + rest, source.schema)}
    consequences = Consequences(root).of_output(source.node, Changed.of([change]))
    [(since, until)] = consequences.pairs()
    one, other = (
        meaning(root, {s.node: history for s, history in each.items()}) for each in (told, without)
    )
    _require_equal_outside(one, other, since, until)


def _require_equal_outside(one: History, other: History, since: int, until: int) -> None:
    for time in sorted(_endpoints(one) | _endpoints(other) | {until}):
        if not since <= time < until:
            assert _alive(one, time) == _alive(other, time), (since, until, time)


def _endpoints(history: History) -> set[int]:
    return {time for event in history.events() for time in (event.vs, event.ve) if time < INF}


def _alive(history: History, time: int) -> list[str]:
    rows = (str(event.payload) for event in history.events() if event.vs <= time < event.ve)
    return sorted(rows)


@pytest.mark.parametrize("replicated", [False, True])
def test_of_a_merge_all_ends_count_that_were_told(replicated: bool) -> None:
    """One end is in the entry, and behind it counts where the event ends: the other one may be right."""
    known = sw.StreamProperties(vs_payload_key=True, never_lengthens=True)
    copies = sw.stream({"k": str}, name="s", properties=known, replicated=True)
    apart = [sw.stream({"k": str}, name=name, properties=known) for name in "ab"]
    policy = sw.merge_policy(gaps=True)
    merged = sw.merge(copies, policy=policy) if replicated else sw.merge(*apart, policy=policy)
    running = merged.point_at_end().open()
    told = [[sw.insert(1, 50, k="x"), sw.cti(60)], [sw.insert(1, 20, k="x"), sw.cti(30)]]
    for elements, stream in zip(reversed(told), apart, strict=True):
        if replicated:
            # the same copy, which says another end when it has begun anew
            running.attach(copies, replica="a")
            running.push(copies, elements, replica="a")
        else:
            running.push(stream, elements)
    [entry] = running.output.ledger
    assert (entry.reason, entry.element) == ("missing", sw.insert(1, 50, k="x"))
    assert entry.since is not None
    assert entry.until is not None
    assert entry.since <= 20
    assert entry.until >= 51


@pytest.mark.parametrize("never_lengthens", [False, True])
def test_an_event_of_a_merge_may_come_to_end_later_if_it_may_be_lengthened(
    never_lengthens: bool,
) -> None:
    """b lacks it, and has promised so: what the others then say of its end nobody can take in."""
    known = sw.StreamProperties(vs_payload_key=True, never_lengthens=never_lengthens)
    a, b = (sw.stream({"k": str}, name=name, properties=known) for name in "ab")
    running = sw.merge(a, b, policy=sw.merge_policy(gaps=True)).open()
    running.push(a, [sw.insert(1, 17, k="x"), sw.cti(3)])
    running.push(b, [sw.cti(25)])
    if not never_lengthens:
        running.push(a, [sw.adjust(1, 17, 50, k="x")])
    assert running.output.history().rows() == [("x", 1, 17)]
    [entry] = running.output.ledger
    assert (entry.since, entry.until) == (1, 17 if never_lengthens else INF)
