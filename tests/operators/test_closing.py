"""Promises about columns: keyed operators show what is final, forget it, and promise as much."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import Case, Trial, forget_at_once

import slackwater as sw
from slackwater.events import Adjust, Element, Insert
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
                cases[name + inserts + manner] = cache(
                    lambda two=two, a=a, b=b, latency=latency: Case(two(a, b).latency(latency), (a, b))
                )
    return cases


CASES = _cases()


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

    @settings(max_examples=max(5, settings().max_examples // 10))
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        forget_at_once(data.draw(st.booleans()))
        case = CASES[name]()
        trial = Trial(case)
        cut, last = [], []
        for source in case.sources:
            only_inserts = "of inserts" in name
            history = data.draw(histories(source.schema))
            told = list(data.draw(streams(history, adjusts=not only_inserts, closed=False)))
            last += [
                (source, [sw.punctuation(**{n: row[n] for n in keys})])
                for row in {
                    tuple(e.payload.items()): e.payload for e in told if hasattr(e, "payload")
                }.values()
            ]
            told = data.draw(promises(told, keys))
            cut.append([(source, part) for part in data.draw(batchings(told))])
        turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
        waiting = [iter(parts) for parts in cut]
        for source, part in [next(waiting[i]) for i in turns] + last:
            trial.push(source, part)
        if len(case.sources) == 1:
            assert not trial.execution.describe()[-1].state.state_rows, "every key is closed"
        for source in case.sources:
            trial.push(source, [sw.cti(sw.INF)])
        trial.close()

    law()
