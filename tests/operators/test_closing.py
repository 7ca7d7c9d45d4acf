"""Promises about columns: keyed operators show what is final, forget it, and promise as much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import Case, Trial, forget_at_once

import slackwater as sw
import slackwater.state
from slackwater.events import Adjust, Element, Insert
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams

SCHEMA = {"k": str, "v": int, "x": float}
LATENCIES = {"": sw.EAGER, ", ordered": sw.ORDER_PRESERVING, ", perfect": sw.PERFECTNESS_PRESERVING}
LEFT, RIGHT = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
ITEMS = sw.stream(SCHEMA, name="items", properties=sw.StreamProperties(insert_only=True))
BIDS = sw.stream(SCHEMA, name="bids", properties=sw.StreamProperties(insert_only=True))

ONE: dict[str, Callable[[sw.Query], sw.Query]] = {
    "distinct": lambda s: s.distinct(),
    "count, sum": lambda s: s.group_by("k").aggregate(n=sw.count(), t=sw.sum("v")),
    "by two keys": lambda s: s.group_by("k", "v").aggregate(n=sw.count()),
    "max, first, product": lambda s: s.group_by("k").aggregate(
        high=sw.max("v"), first=sw.first("x"), p=sw.product(sw.col("v").cast(float))
    ),
    "rank": lambda s: s.group_by("k").aggregate(place=sw.rank("v")),
    "session": lambda s: s.group_by("k").window(sw.session(3)),
}
TWO: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "intersect": lambda a, b: a.intersect(b),
    "difference": lambda a, b: a.difference(b),
    "difference of bags": lambda a, b: a.difference(b, all=True),
    "join": lambda a, b: a.join(b, on="k"),
    "join where": lambda a, b: a.join(b, on="k", where=sw.col("v") < sw.col("v_right")),
    "left join": lambda a, b: a.join(b, on="k", how="left"),
    "full join": lambda a, b: a.join(b, on="k", how="full"),
    "anti join": lambda a, b: a.join(b, on="k", how="anti"),
    "anti join where": lambda a, b: a.join(b, on="k", how="anti", where=sw.col("v") < sw.col("v_right")),
    "clip": lambda a, b: a.clip(b, on="k"),
}
KEYS = {"distinct": ("k", "v", "x"), "by two keys": ("k", "v")} | dict.fromkeys(
    ["intersect", "difference", "difference of bags"], ("k", "v", "x")
)


def _cases() -> dict[str, Callable[[], Case]]:
    cases: dict[str, Callable[[], Case]] = {}
    for manner, latency in LATENCIES.items():
        for name, one in ONE.items():
            cases[name + manner] = cache(
                lambda one=one, latency=latency: Case(one(LEFT).latency(latency), (LEFT,))
            )
        for name, two in TWO.items():
            for a, b, inserts in ((LEFT, RIGHT, ""), (ITEMS, BIDS, " of inserts")):
                if inserts and "join" not in name:
                    continue
                cases[name + inserts + manner] = cache(
                    lambda two=two, a=a, b=b, latency=latency: Case(two(a, b).latency(latency), (a, b))
                )
    return cases


CASES = _cases()


# the paper's own traces; its tuples are rows without end (erratum 26), of which a set keeps one endpoint


def _traced(
    query: sw.Query, *slices: tuple[sw.Query, Sequence[Element]]
) -> list[tuple[list[Element], int]]:
    """After each slice what is said, and how many rows the last operator keeps."""
    execution, trace = Execution(query.node), []
    for source, elements in slices:
        assert isinstance(source.node, Source)
        said = execution.push(source.node, sw.Batch.of(elements, source.schema))
        out = [element for batch in said for element in batch]
        trace.append((out, execution.describe()[-1].state.state_rows))
    return trace


def _rows(*values: int) -> list[Element]:
    return [sw.insert(0, None, n=n) for n in values]


def test_sdupelim_keeps_all_that_came() -> None:
    numbers = sw.stream({"n": int})
    slices = [_rows(1, 5), _rows(3), _rows(), _rows(5, 6, 7)]
    trace = _traced(numbers.distinct(), *((numbers, one) for one in slices))
    assert trace == [(_rows(1, 5), 2), (_rows(3), 3), ([], 3), (_rows(6, 7), 5)]


def test_sdupelim_forgets_what_p_0_4_speaks_of() -> None:
    numbers = sw.stream({"n": int})
    promise = sw.punctuation(n=sw.between(0, 4))
    slices: list[list[Element]] = [_rows(1, 5), _rows(3), [promise], _rows(5, 6, 7)]
    trace = _traced(numbers.distinct(), *((numbers, one) for one in slices))
    assert trace == [(_rows(1, 5), 2), (_rows(3), 3), ([promise], 1), (_rows(6, 7), 3)]


AUCTIONS = {"item": int, "seller": int, "price": int}


def test_a_group_is_final_when_its_key_is_closed_and_not_before() -> None:
    """groupPs: of items 1001 and 1004 all has come; what seller 9932 sells concerns no group."""
    bids = sw.stream(AUCTIONS)
    sums = bids.group_by("item").aggregate(total=sw.sum("price")).latency(sw.PERFECTNESS_PRESERVING)
    told = [
        sw.insert(1, None, item=1001, seller=9932, price=10),
        sw.insert(1, None, item=1002, seller=9932, price=7),
        sw.insert(2, None, item=1001, seller=9932, price=5),
    ]
    trace = _traced(
        sums,
        (bids, told),
        (bids, [sw.punctuation(seller=9932)]),
        (bids, [sw.punctuation(item=sw.one_of(1001, 1004))]),
    )
    # of item 1001 the endpoints 1 and 2, of item 1002 one, and three ends that are to come
    assert trace[:2] == [([sw.insert(1, 2, item=1001, total=10)], 6), ([], 6)]
    out, kept = trace[2]
    assert out[0] == sw.insert(2, None, item=1001, total=15)
    assert set(map(repr, out[1:])) == {"punctuation(item=1001)", "punctuation(item=1004)"}
    assert kept == 2, "item 1002 is still open"


def test_of_several_promises_in_a_batch_none_goes_further_than_what_is_shown() -> None:
    s = sw.stream({"k": str, "v": int}, name="s")
    running = s.distinct().latency(sw.PERFECTNESS_PRESERVING).open()
    row = {"k": "a", "v": 0}
    told = [sw.insert(0, 2, **row), *(sw.punctuation(t, k="a") for t in (1, 2))]
    [said] = running.push(s, told)
    assert list(said) == [sw.punctuation(0, k="a")], "the row may go on at 2"
    [said] = running.push(s, [sw.insert(2, 3, **row), sw.punctuation(k="a")])
    assert list(said) == [sw.insert(0, 3, **row), sw.punctuation(k="a")]


def test_a_column_of_one_side_may_have_the_name_of_a_key_of_the_other() -> None:
    a, b = sw.stream({"a": int, "x": int}, name="a"), sw.stream({"b": int, "a": int}, name="b")
    running = a.join(b, on={"a": "b"}).open()
    running.push(a, [sw.insert(1, 9, a=1, x=1), sw.punctuation(a=1)])
    running.push(b, [sw.punctuation(b=1)])
    assert running.push(b, [sw.punctuation(a=2, b=1)]) == []


def test_the_watermark_of_other_groups_stays_where_it_is() -> None:
    bids = sw.stream(AUCTIONS)
    sums = bids.group_by("item").aggregate(total=sw.sum("price")).latency(sw.PERFECTNESS_PRESERVING)
    trace = _traced(
        sums,
        (
            bids,
            [sw.insert(1, 9, item=1, seller=1, price=10), sw.insert(1, 9, item=2, seller=1, price=7)],
        ),
        (bids, [sw.punctuation(12, item=1)]),
        (bids, [sw.insert(5, 9, item=2, seller=1, price=1)]),
    )
    assert trace == [
        ([], 4),
        ([sw.insert(1, 9, item=1, total=10), sw.punctuation(12, item=1)], 2),
        # two endpoints, and two ends that are to come
        ([sw.insert(1, 5, item=2, total=7)], 4),
    ]


def test_the_auction_in_small() -> None:
    """Bids need not be kept once their item is known; an item is, until bids and items are closed."""
    inserts = sw.StreamProperties(insert_only=True)
    items = sw.stream({"item": int, "name": str}, properties=inserts)
    bids = sw.stream({"item": int, "price": int}, properties=inserts)
    trace = _traced(
        items.join(bids, on="item"),
        (bids, [sw.insert(0, None, item=1, price=10), sw.insert(0, None, item=2, price=3)]),
        (items, [sw.insert(0, None, item=1, name="clock")]),
        (items, [sw.punctuation(item=sw.one_of(1, 2))]),
        (bids, [sw.insert(0, None, item=1, price=12), sw.insert(0, None, item=2, price=4)]),
        (bids, [sw.punctuation(item=1)]),
    )
    assert trace == [
        ([], 2),
        ([sw.insert(0, None, item=1, name="clock", price=10)], 3),
        # there is no item 2, and there will be none
        ([sw.punctuation(item=2)], 1),
        ([sw.insert(0, None, item=1, name="clock", price=12)], 1),
        ([sw.punctuation(item=1)], 0),
    ]


def test_a_promise_about_another_column_passes_a_join_if_no_row_of_it_is_kept() -> None:
    items = sw.stream({"item": int, "seller": int})
    bids = sw.stream({"item": int, "seller": int})
    trace = _traced(
        items.join(bids, on="item"),
        (items, [sw.insert(0, None, item=1, seller=9932)]),
        (items, [sw.punctuation(seller=9932)]),
        (items, [sw.punctuation(seller=7)]),
        (bids, [sw.punctuation(5, seller=sw.between(1, 9))]),
    )
    assert [out for out, _ in trace] == [
        [],
        [],
        [sw.punctuation(seller=7)],
        [sw.punctuation(5, seller_right=sw.between(1, 9))],
    ]


def test_a_difference_answers_when_the_other_input_is_closed_for_the_payload() -> None:
    """sdiff no longer blocks; both have closed what it promises."""
    a, b = sw.stream({"n": int}, name="a"), sw.stream({"n": int}, name="b")
    trace = _traced(
        a.difference(b).latency(sw.PERFECTNESS_PRESERVING),
        (a, [sw.insert(0, 5, n=1), sw.insert(0, 5, n=2)]),
        (b, [sw.punctuation(n=1)]),
        (a, [sw.punctuation(n=sw.between(0, 1))]),
    )
    assert trace == [([], 4), ([], 4), ([sw.insert(0, 5, n=1), sw.punctuation(n=1)], 2)]


def test_what_is_alone_of_a_key_is_final_when_both_sides_have_closed_it() -> None:
    left, right = sw.stream({"k": int}, name="left"), sw.stream({"k": int}, name="right")
    trace = _traced(
        left.join(right, on="k", how="anti").latency(sw.PERFECTNESS_PRESERVING),
        (left, [sw.insert(0, 20, k=1), sw.insert(0, 30, k=2)]),
        (right, [sw.insert(5, 9, k=1)]),
        (right, [sw.punctuation(k=1)]),
        (left, [sw.punctuation(k=1)]),
    )
    assert [out for out, _ in trace] == [
        [],
        [sw.insert(0, 5, k=1)],
        [],
        [sw.insert(9, 20, k=1), sw.punctuation(k=1)],
    ]
    assert trace[-1][1] == 3, "the other event, and its two endpoints"


# properties


def _matches(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, tuple):
        return value is not None and pattern[0] <= value <= pattern[1]
    return bool(sw.History.of([sw.insert(0, 1, c=pattern)]) == sw.History.of([sw.insert(0, 1, c=value)]))


@st.composite
def promises(draw: st.DrawFn, elements: list[Element], keys: tuple[str, ...]) -> list[Element]:
    """The same elements with promises about columns among them, all of which are kept."""
    data = [each for each in elements if isinstance(each, Insert | Adjust)]
    out = list[Element]()
    for place, element in enumerate(elements):
        if data and draw(st.integers(0, 2)) == 0:
            some = draw(st.sampled_from(data)).payload
            names = draw(st.sampled_from([keys, keys[:1], ("v",), ("k", "x")]))
            out.append(draw(_promise(some, names, elements[place:])))
        out.append(element)
    return out


@st.composite
def _promise(draw: st.DrawFn, some: Any, names: tuple[str, ...], later: list[Element]) -> sw.Punctuation:
    columns = {name: some[name] for name in names}
    if isinstance(columns.get("v"), int) and draw(st.booleans()):
        columns["v"] = (columns["v"], columns["v"] + draw(st.integers(0, 3)))
    first = min(
        (
            element.sync
            for element in later
            if isinstance(element, Insert | Adjust)
            and all(_matches(pattern, element.payload[name]) for name, pattern in columns.items())
        ),
        default=sw.INF,
    )
    patterns = {n: sw.between(*v) if isinstance(v, tuple) else v for n, v in columns.items()}
    before = first if draw(st.booleans()) else draw(st.integers(-5, 15).map(lambda t: min(t, first)))
    return sw.punctuation(None if before == sw.INF else before, **patterns)


@pytest.mark.parametrize("name", CASES)
def test_promises_about_columns_change_no_answer_and_empty_the_state(name: str) -> None:
    keys = KEYS.get(name.split(",", maxsplit=1)[0].removesuffix(" of inserts"), ("k",))

    @settings(max_examples=max(2, settings().max_examples // 40))
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        forget_at_once(data.draw(st.booleans()))
        case = CASES[name]()
        trial = Trial(case)
        cut, payloads = [], list[Mapping[str, Any]]()
        for source in case.sources:
            adjusts = "of inserts" not in name
            history = data.draw(histories(source.schema))
            told = list(data.draw(streams(history, adjusts=adjusts, closed=False)))
            payloads += [e.payload for e in told if isinstance(e, Insert | Adjust)]
            told = data.draw(promises(told, keys))
            cut.append([(source, part) for part in data.draw(batchings(told))])
        turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
        waiting = [iter(parts) for parts in cut]
        for source, part in [next(waiting[i]) for i in turns]:
            trial.push(source, part)
        for source in case.sources:
            trial.push(source, [sw.punctuation(**{n: row[n] for n in keys}) for row in payloads])
        assert not trial.execution.describe()[-1].state.state_rows, "every key is closed"
        for source in case.sources:
            trial.push(source, [sw.cti(None)])
        trial.close()

    law()


def test_a_join_knows_what_may_still_be_adjusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose key the other side has closed, and then everything: it met nothing, and never will."""
    monkeypatch.setattr(slackwater.state, "SWEEP_FROM", 0)
    left, right = sw.stream({"k": str, "v": int}), sw.stream({"k": str, "w": int})
    running = left.join(right, on="k").open()
    running.push(right, [sw.punctuation(0, k="b")])
    running.push(left, [sw.punctuation(k="b"), sw.cti(None)])
    running.push(right, [sw.cti(0), sw.insert(0, 2, k="b", w=0)])
    assert not running.push(right, [sw.adjust(0, 2, 1, k="b", w=0)])
