"""The dial turned between two batches, in this process: by hand, then at any time against the oracle."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events import Element
from slackwater.history import History
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Align, Finalize, Source, walk
from slackwater.plan.rewrites import rewritten
from slackwater.runtime import Execution
from slackwater.testing import ManualClock, batchings, histories, streams
from slackwater.validity import Validator

SCHEMA = {"k": str, "v": int}
S = sw.stream(SCHEMA, name="s")
T = sw.stream(SCHEMA, name="t")
COUNTS = S.group_by("k").aggregate(n=sw.count())


def _said(batches: list[sw.Batch]) -> list[Element]:
    return [element for batch in batches for element in batch]


def test_a_smaller_blocking_releases_what_has_waited_that_long() -> None:
    running = COUNTS.consistency("strong").open(turnable=True)
    assert running.push(S, [sw.insert(1, 9, k="a", v=1), sw.insert(5, 9, k="b", v=1)]) == []
    assert _said(running.turn(blocking=4)) == [sw.insert(1, 9, k="a", n=1)]
    assert _said(running.turn(blocking=0)) == [sw.insert(5, 9, k="b", n=1)]
    assert _said(running.push(S, [sw.insert(2, 9, k="c", v=1)])) == [sw.insert(2, 9, k="c", n=1)]


def test_a_larger_blocking_holds_back_what_comes_later() -> None:
    running = COUNTS.open(turnable=True)
    running.push(S, [sw.insert(5, 9, k="a", v=1)])
    running.turn(blocking=3)
    late = sw.insert(4, 9, k="b", v=1)
    assert _said(running.push(S, [late])) == [sw.insert(4, 9, k="b", n=1)], "the limit does not go back"
    assert running.push(S, [sw.insert(6, 9, k="c", v=1)]) == []
    assert _said(running.push(S, [sw.cti(7)])) == [sw.insert(6, 9, k="c", n=1), sw.cti(7)]


def test_a_smaller_memory_promises_at_once_and_a_larger_one_remembers_from_then_on() -> None:
    running = COUNTS.open(turnable=True)
    running.push(S, [sw.insert(10, 12, k="a", v=1)])
    assert _said(running.turn(memory=3)) == [sw.cti(7)]
    assert running.turn(memory=8) == []
    assert running.push(S, [sw.insert(6, 9, k="b", v=1)]) == []
    assert [entry.reason for entry in running.output.ledger] == ["forgotten"]
    assert _said(running.push(S, [sw.insert(7, 9, k="b", v=1)])) == [sw.insert(7, 9, k="b", n=1)]
    assert _said(running.push(S, [sw.insert(16, 17, k="a", v=1)]))[-1] == sw.cti(8)


def test_by_the_clock_a_memory_begins_when_it_is_turned() -> None:
    clock = ManualClock()
    query = COUNTS.consistency(blocking=0, memory="inf", clock="system")
    running = query.open(turnable=True, now=clock.now)
    running.push(S, [sw.insert(10, 12, k="a", v=1)])
    assert running.turn(memory="5 s") == []
    clock.advance("5 s")
    assert _said(running.push(S, [sw.insert(9, 12, k="b", v=1)])) == [sw.cti(10)]
    assert [entry.reason for entry in running.output.ledger] == ["forgotten"]


def test_what_cannot_be_turned_is_refused() -> None:
    with pytest.raises(sw.PlanError, match="not opened to be turned"):
        COUNTS.open().turn(blocking=1)
    with pytest.raises(sw.PlanError, match="ultra cannot be turned"):
        COUNTS.consistency("ultra").open(turnable=True)
    two = COUNTS.consistency("strong").union(
        T.group_by("k").aggregate(n=sw.count()).consistency(memory=1)
    )
    with pytest.raises(sw.PlanError, match="several dials"):
        two.open(turnable=True)
    running = COUNTS.open(turnable=True)
    running.turn(memory=3)
    with pytest.raises(sw.PlanError, match="longer than memory"):
        running.turn(blocking=4)


def test_a_plan_that_may_be_turned_has_what_there_is_to_turn_once_per_path() -> None:
    query = S.join(T.where(sw.col("v") > 0), on="k").distinct()
    placed = list(walk(rewritten(query.node, turnable=True)))
    assert sum(isinstance(node, Align) for node in placed) == 2
    assert sum(isinstance(node, Finalize) for node in placed) == 2


PLANS: dict[str, Callable[[], sw.Query]] = {
    "count": lambda: COUNTS,
    "count, strong": lambda: COUNTS.consistency("strong"),
    "count, weak": lambda: COUNTS.consistency(memory=4),
    "distinct of a count": lambda: COUNTS.select("n").distinct(),
    "session": lambda: S.group_by("k").window(sw.session(3)),
    "perfectness preserving": lambda: COUNTS.latency(sw.PERFECTNESS_PRESERVING),
    "in order": lambda: COUNTS.latency(sw.ORDER_PRESERVING),
}
LENGTHS = st.one_of(st.integers(0, 12), st.just(sw.INF))


@pytest.mark.parametrize("name", PLANS)
@given(data=st.data())
def test_whenever_it_is_turned_the_answer_is_the_oracles_without_the_ledger(
    name: str, data: st.DataObject
) -> None:
    """At every prefix the output is valid; written down and read back before every batch."""
    query = PLANS[name]()
    root, source = query.node, S.node
    assert isinstance(source, Source)
    execution, valid = Execution(root, turnable=True), Validator()
    stream = data.draw(streams(data.draw(histories(S.schema, max_size=6))))
    forgets = data.draw(st.booleans())
    said: list[sw.Batch] = []
    set_aside: Counter[str] = Counter()
    for part in data.draw(batchings(stream)):
        if data.draw(st.booleans()):
            blocking, memory = sorted(data.draw(st.tuples(LENGTHS, LENGTHS)))
            said += execution.turn(blocking=blocking, memory=memory if forgets else sw.INF)
        written = pickle.dumps(execution.snapshot())
        execution = Execution(root, turnable=True)
        execution.restore(pickle.loads(written))  # noqa: S301
        said += execution.push(source, part)
        set_aside.update(repr(entry.element) for entry in execution.output.ledger)
    for batch in said:
        valid.admit(batch)
    assert execution.output.settled_until == sw.INF
    assert forgets or name == "count, weak" or not set_aside
    left = [element for element in stream if not _is_among(element, set_aside)]
    whole = sw.Batch.concat([sw.Batch.empty(query.schema), *said])
    # of equal elements another may be left than the one that was given up: in any order it is the same
    assert History.of(whole) == query.meaning({S: History.of(left, S.schema, disordered=True)})


def _is_among(element: Element, set_aside: Counter[str]) -> bool:
    is_there = set_aside[repr(element)] > 0
    set_aside[repr(element)] -= is_there
    return is_there


def test_an_input_that_begins_anew_finds_the_dial_where_it_was_turned() -> None:
    a, b = (sw.stream({"k": str}, name=name) for name in "ab")
    root = sw.merge(a, b).node
    early, late = sw.insert(1, 5, k="x"), sw.insert(20, 25, k="y")
    turned, restored = (Execution(root, turnable=True) for _ in range(2))
    turned.turn(blocking=10, memory=15)
    restored.restore(decode(encode(turned.snapshot())))
    for each in (turned, restored):
        source = each.sources[0]
        each.attach(source)
        each.push(source, [early])
        assert len(each.output.as_history()) == 0, "it is held back"
        each.push(source, [late])
        assert each.output.as_history().rows() == [("x", 1, 5)]
        each.push(source, [sw.adjust(1, 5, 3, k="x")])
        assert each.output.ledger.counts() == {"forgotten": 1}
