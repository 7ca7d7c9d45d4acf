"""Changes and corrections in the output."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.events import Adjust, Element, Insert
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import histories, streams

s = sw.stream({"k": str}, name="s")


def test_late_input_shows_as_corrections() -> None:
    running = s.window(sw.tumbling(10)).aggregate(n=sw.count()).open()
    running.push(s, [sw.insert(3, 4, k="a")])
    running.push(s, [sw.insert(14, 15, k="a")])
    running.push(s, [sw.insert(5, 6, k="a")])
    out = running.output
    assert (out.changes, out.corrections) == (2, 2)
    assert list(out.only(sw.CORRECTIONS)) == [sw.adjust(10, 20, 10, n=1), sw.insert(10, 20, n=2)]
    assert out.changelog(only=sw.CHANGES)["n"].to_list() == [1, 1]


def test_what_is_said_at_once_does_not_correct_itself() -> None:
    query = s.union(s.shift(10))
    elements = [sw.insert(0, 1, k="a"), sw.insert(5, 6, k="b")]
    assert query.run({s: elements}).corrections == 0
    assert query.run({s: elements}, batch=1).corrections == 1
    # held until a token comes out, both are seen at once; shown at once they are not
    assert query.run({s: elements}, batch=1, by=sw.Tokens(2)).corrections == 0
    assert query.run({s: elements}, batch=1, by=sw.Tokens(2), show=sw.MARKED).corrections > 0


def test_nothing_said_is_neither() -> None:
    out = s.run({s: []})
    assert (out.changes, out.corrections, len(out.only(sw.CHANGES))) == (0, 0, 0)


@pytest.mark.parametrize("told", ["corrections", 5])
def test_what_is_neither_is_refused(told: Any) -> None:
    out = s.run({s: []})
    with pytest.raises(PlanError, match="neither changes nor corrections"):
        out.only(told)
    with pytest.raises(PlanError, match="neither changes nor corrections"):
        out.changelog(only=told)


def test_who_goes_on_from_a_snapshot_knows_what_had_been_spoken_of() -> None:
    query = s.window(sw.tumbling(10)).aggregate(n=sw.count())
    assert isinstance(s.node, Source)
    first, second, third = (Execution(query.node) for _ in range(3))
    for time in (3, 14):
        first.push(s.node, [sw.insert(time, time + 1, k="a")])
    second.restore(decode(encode(first.snapshot())))
    third.restore(decode(encode(second.snapshot())))
    for execution in (first, third):
        execution.push(s.node, [sw.insert(5, 6, k="a")])
        execution.push(s.node, [sw.insert(25, 26, k="a")])
    late = [sw.adjust(10, 20, 10, n=1), sw.insert(10, 20, n=2)]
    assert list(first.output.only(sw.CORRECTIONS)) == list(third.output.only(sw.CORRECTIONS)) == late
    assert (first.output.changes, third.output.changes) == (3, 1)


@given(data=st.data())
def test_each_row_is_one_or_the_other(data: st.DataObject) -> None:
    told: list[Element] = list(data.draw(streams(data.draw(histories(s.schema)))))
    out = s.distinct().run({s: told}, batch=data.draw(st.integers(1, 4)))
    rows = [each for each in out if isinstance(each, Insert | Adjust)]
    assert out.changes + out.corrections == len(rows)
    parts = [list(out.only(each)) for each in sw.Told]
    assert sorted(map(repr, [*parts[0], *parts[1]])) == sorted(map(repr, rows))
    # the definition, one batch after the other
    highest, corrections = sw.BEGIN, 0
    for batch in out.batches:
        syncs = [each.sync for each in batch if isinstance(each, Insert | Adjust)]
        corrections += sum(sync < highest for sync in syncs)
        highest = max([highest, *syncs])
    assert out.corrections == corrections
