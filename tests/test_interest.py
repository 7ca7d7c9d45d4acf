"""Feedback: what is no longer of interest is left out, wherever that saves work, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bags import Bag
from tests.pattern_laws import CASES, COLUMNS, SCHEMA, Trial, broken, drawn
from tests.permitted import forbids

import slackwater as sw
from slackwater.errors import SlackwaterError
from slackwater.patterns import between, one_of
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.punctuations import Punctuation
from slackwater.runtime import Execution

FEW = settings(max_examples=max(1, settings().max_examples // 33))

PATTERNS = {
    "k": st.sampled_from(["a", "b", None, one_of("a", "b"), one_of("b", None)]),
    "v": st.sampled_from([0, 2, None, between(0, 1), between(1, None), one_of(0, None)]),
}
"""by the type of a column, which tells whether it is a key or a number"""


@st.composite
def ignored_boxes(draw: st.DrawFn, schema: pl.Schema) -> Punctuation:
    """A pattern of some columns of a stream."""
    names = draw(st.lists(st.sampled_from(list(schema)), unique=True, min_size=1, max_size=2))
    kind = {pl.String: "k", pl.Int64: "v"}
    values = {name: draw(PATTERNS[kind[type(schema[name])]]) for name in names}
    return sw.punctuation(**values)


def left_of(bag: Bag, ignored: list[Punctuation]) -> dict[Any, int]:
    """The rows that are of interest."""
    return {
        row: copies
        for row, copies in bag.rows.items()
        if copies and not any(forbids(box, bag.payload(row[2]), row[0]) for box in ignored)
    }


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_all_else_is_as_the_oracle_says(name: str, data: st.DataObject) -> None:
    trial, twin = Trial(CASES[name]()), Trial(CASES[name]())
    ignored: list[Punctuation] = []
    for source, part in drawn(data, trial):
        earlier = list(trial.output.promises)
        said = trial.push(source, part)
        twin.push(source, part)
        assert not broken(said, earlier)
        if not name.startswith("sort"):
            # which lets go what it held back for others
            assert left_of(trial.output.bag, ignored) == left_of(twin.output.bag, ignored)
        assert not [each for each in said if _is_row(each) and _is_ignored(each, ignored)]
        wrong = [each for each in said if _is_promised(each, ignored)]
        assert not wrong, (wrong, ignored)
        if data.draw(st.booleans(), label="some more is of no interest"):
            box = data.draw(ignored_boxes(trial.case.query.schema), label="ignored")
            trial.hear(trial.execution.ignore(box))
            ignored.append(box)
        if data.draw(st.booleans(), label="restored"):
            again = Execution(trial.case.query.node)
            again.restore(decode(encode(trial.execution.snapshot())))
            trial.execution = again
    assert left_of(trial.output.bag, ignored) == left_of(trial.prefix.answer(), ignored)
    assert not trial.state_rows, "the last promise empties the state"


def _is_row(element: Any) -> bool:
    return isinstance(element, sw.Insert | sw.Adjust)


def _is_ignored(element: Any, ignored: list[Punctuation]) -> bool:
    return any(forbids(box, element.payload, element.sync) for box in ignored)


def _is_promised(element: Any, ignored: list[Punctuation]) -> bool:
    """Whether it is a promise about what nobody has asked for."""
    is_pattern = isinstance(element, Punctuation) and not element.is_cti
    return is_pattern and any(box.implies(element) for box in ignored)


def test_groups_of_no_interest_are_forgotten_and_not_looked_at_again() -> None:
    s = sw.stream(SCHEMA, name="s")
    running = s.where(sw.col("v") >= 0).group_by("k").aggregate(n=sw.count()).open()
    running.push(s, [sw.insert(1, 90, k=k, v=1) for k in "aabbcc"])
    before = running.describe()[-1].state.state_rows
    running.ignore(sw.punctuation(k=one_of("a", "b")))
    assert running.describe()[-1].state.state_rows == before // 3
    assert running.push(s, [sw.insert(2, 90, k="a", v=1)]) == []
    assert running.describe()[0].rows_in == 6, "where does not see it, either"
    [out] = running.push(s, [sw.insert(2, 90, k="c", v=1)])
    assert list(out) == [sw.adjust(1, 90, 2, k="c", n=2), sw.insert(2, 90, k="c", n=3)]


def test_a_stream_of_which_others_read_more_goes_on() -> None:
    s = sw.stream(SCHEMA, name="s")
    shared = s.group_by("k").aggregate(n=sw.count())
    query = shared.where(sw.col("n") > 1).select("k", "n").union(shared.select(k=pl.lit("all"), n="n"))
    running = query.open()
    running.push(s, [sw.insert(1, 9, k="a", v=1), sw.insert(1, 9, k="a", v=2)])
    running.ignore(sw.punctuation(k="a"))
    [out] = running.push(s, [sw.insert(1, 9, k="a", v=3)])
    assert list(out) == [sw.adjust(1, 9, 1, k="all", n=2), sw.insert(1, 9, k="all", n=3)]


def test_who_meets_nobody_any_more_is_not_computed() -> None:
    items, bids = sw.stream({"item": int}, name="items"), sw.stream({"item": int, "v": int}, name="bids")
    best = bids.group_by("item").aggregate(best=sw.max("v"))
    running = items.join(best, on="item").open()
    running.push(items, [sw.insert(0, 100, item=n) for n in range(10)])
    running.push(bids, [sw.insert(n, 100, item=n % 10, v=n) for n in range(50)])
    state = _state_of(running, "Aggregate")
    # nine items are taken back, and none of them comes again
    running.push(items, [sw.adjust(0, 100, 0, item=n) for n in range(9)])
    running.push(items, [sw.punctuation(item=between(0, 8)), sw.cti(50)])
    running.push(bids, [sw.cti(50)])
    assert _state_of(running, "Aggregate") <= state // 10
    running.push(bids, [sw.insert(60, 100, item=3, v=1000)])
    assert _state_of(running, "Aggregate") <= state // 10


def _state_of(running: Any, name: str) -> int:
    return sum(each.state.state_rows for each in running.describe() if each.name == name)


@pytest.mark.parametrize("how", ["inner", "left", "anti", "full"])
def test_keys_go_up_through_a_join_and_columns_of_a_side_do_not(how: Any) -> None:
    left, right = sw.stream(SCHEMA, name="left"), sw.stream({"k": str, "w": int}, name="right")
    running = left.distinct().join(right.distinct(), on="k", how=how).open()
    running.ignore(sw.punctuation(v=7), sw.punctuation(k="a"))
    rows = [sw.insert(0, 9, k=k, v=7) for k in "ab"]
    running.push(left, rows)
    assert [each.rows_in for each in running.describe() if each.name == "Join"] == [1]
    # what a join remembers by key is removed by elements that it must see
    running.push(left, [sw.adjust(0, 9, 0, **row.payload) for row in rows[1:]])
    running.push(left, [sw.punctuation(k="b")])
    running.push(right, [sw.punctuation(k="b")])
    assert _state_of(running, "Join") == 0


def test_rows_that_tell_the_time_are_not_left_out() -> None:
    s = sw.stream(SCHEMA, name="s")
    counts = s.group_by("k").aggregate(n=sw.count())
    for query in (
        s.align(2),
        counts.consistency(blocking=2),
        counts.latency(sw.PERFECTNESS_PRESERVING),
        counts.latency(sw.ORDER_PRESERVING),
        s.distinct().latency(sw.PERFECTNESS_PRESERVING),
    ):
        running = query.open()
        running.push(s, [sw.insert(1, 3, k="b", v=1)])
        running.ignore(sw.punctuation(k="a"))
        running.push(s, [sw.insert(t, 200, k="a", v=1) for t in (100, 101)])
        assert running.output.history()["ve"].to_list() == [3], query.explain()


def test_nor_where_the_dial_may_be_turned_so_that_they_do() -> None:
    s = sw.stream(SCHEMA, name="s")
    running = s.distinct().open(turnable=True)
    running.ignore(sw.punctuation(k="a"))
    running.turn(blocking=2)
    running.push(s, [sw.insert(1, 3, k="b", v=1)])
    running.push(s, [sw.insert(t, 200, k="a", v=1) for t in (100, 101)])
    assert running.output.history().rows() == [("b", 1, 1, 3)]


def test_a_join_leaves_time_as_it_is() -> None:
    items, bids = sw.stream({"item": int}, name="items"), sw.stream({"item": int, "v": int}, name="bids")
    best = bids.group_by("item").aggregate(best=sw.max("v"))
    running = items.join(best, on="item").consistency(blocking=2).open()
    running.push(items, [sw.insert(0, 1000, item=9), sw.insert(0, 1000, item=3)])
    running.push(items, [sw.adjust(0, 1000, 0, item=3), sw.cti(50)])
    running.push(items, [sw.punctuation(item=3)])
    running.push(bids, [sw.insert(60, 300, item=9, v=1)])
    running.push(bids, [sw.insert(t, 300, item=3, v=1) for t in (100, 110)])
    assert running.output.history().rows() == [(9, 1, 60, 300)]


def test_a_whole_is_ignored_though_its_parts_were() -> None:
    s = sw.stream(SCHEMA, name="s")
    running = s.group_by("k").aggregate(n=sw.count()).open()
    running.push(s, [sw.insert(0, 9, k="a", v=1)])
    running.ignore(*(sw.punctuation(k="a", n=n) for n in (between(None, 5), between(6, None), None)))
    running.ignore(sw.punctuation(k="a"))
    assert running.describe()[0].state.state_rows == 0


def test_what_the_input_has_closed_need_not_be_remembered_as_unwanted() -> None:
    items, bids = sw.stream({"item": str}, name="items"), sw.stream({"item": str, "v": int}, name="bids")
    execution = Execution(items.join(bids.group_by("item").aggregate(n=sw.count()), on="item").node)
    a, b = (_source(query) for query in (items, bids))
    for n in range(50):
        execution.push(a, [sw.insert(n, 90, item=f"{n}"), sw.adjust(n, 90, n, item=f"{n}")])
        execution.push(a, [sw.punctuation(item=f"{n}")])
        execution.push(b, [sw.insert(n, 90, item=f"{n}", v=1), sw.punctuation(item=f"{n}")])
    assert sum(_unwanted(execution)) == 0


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


def _unwanted(execution: Execution) -> list[int]:
    queues = [queues for *_, queues in execution.snapshot().operators]
    return [len(each) for some in queues for each, _ in some if each is not None]


def test_what_is_ignored_is_never_settled() -> None:
    s = sw.stream(SCHEMA, name="s")
    running = s.group_by("k").aggregate(n=sw.count()).open()
    running.push(s, [sw.insert(1, 5, k="a", v=1), sw.insert(1, 5, k="b", v=1)])
    running.ignore(sw.punctuation(k="a"))
    running.push(s, [sw.insert(1, 5, k="a", v=1), sw.cti(9)])
    assert running.output.settled()["k"].to_list() == ["b"]


@pytest.mark.parametrize(
    ("told", "fact"),
    [
        (lambda: sw.punctuation(5, k="a"), "for some time"),
        (lambda: sw.punctuation(k=7), "cannot hold"),
        (lambda: sw.punctuation(nobody=7), "nobody"),
        (sw.punctuation, "the whole answer"),
        (lambda: "a", "no pattern"),
        (lambda: sw.insert(1, 2, k="a", v=1), "no pattern"),
    ],
)
def test_what_cannot_be_ignored(told: Callable[[], Any], fact: str) -> None:
    running = sw.stream(SCHEMA, name="s").distinct().open()
    with pytest.raises(SlackwaterError) as refusal:
        running.ignore(told())
    assert fact in str(refusal.value)


def test_columns_are_of_the_types_that_patterns_are_drawn_for() -> None:
    assert set(COLUMNS) == set(PATTERNS)
