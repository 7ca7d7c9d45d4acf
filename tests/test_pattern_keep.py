"""Keep: what is remembered is exactly what the invariants of paper 4 Table 4 say.

Rows are tuples there, [0, INF) here (erratum 26), and streams are inserts only, which the sources
declare: then a join keeps a row only as long as the other side may bring a partner. How many rows of
state one kept row takes is the operator's own affair. So two executions are compared: one that heard
everything, and one that heard only of the rows that have to be kept.

The sets remember a payload until both sides have promised it, not only the other one: a lifetime that
its own side brings later changes what was said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import Case, forget_at_once
from tests.pattern_laws import SCHEMA, Trial
from tests.permitted import Payload, Told, speaks_of

import slackwater as sw
from slackwater.events import Element, Event
from slackwater.history import History
from slackwater.punctuations import Punctuation
from slackwater.testing import batchings, streams
from slackwater.times import BEGIN

FEW = settings(max_examples=max(1, settings().max_examples // 2))
NEVER_ADJUSTED = sw.StreamProperties(insert_only=True)

Keep = Callable[[Payload, int, Sequence[Told]], bool]
"""whether a payload that came at a port has to be kept"""


@cache
def _sources(count: int) -> tuple[sw.Query, ...]:
    return tuple(sw.stream(SCHEMA, name=f"s{port}", properties=NEVER_ADJUSTED) for port in range(count))


def _closed(payload: Payload, told: Told, columns: Sequence[str] = ("k", "v")) -> bool:
    """Whether a promise about these columns alone speaks of the payload (groupPs, joinPs)."""
    about = [p for p in told.promises if all(name in columns for name, _ in p.columns)]
    return any(speaks_of(promise, payload) for promise in about)


def _until_all_have_promised(payload: Payload, port: int, told: Sequence[Told]) -> bool:
    return not all(_closed(payload, each) for each in told)


def _until_the_group_is_complete(payload: Payload, port: int, told: Sequence[Told]) -> bool:
    return not _closed(payload, told[0], ["k"])


def _until_no_partner_can_come(payload: Payload, port: int, told: Sequence[Told]) -> bool:
    # a null key has no partner at all
    return payload["k"] is not None and not _closed(payload, told[1 - port], ["k"])


def _until_nothing_can_precede_it(payload: Payload, port: int, told: Sequence[Told]) -> bool:
    """init: of integers between -2 and 4, which are all kinds that drawn promises tell apart."""
    upto = [None] if payload["v"] is None else [None, *range(-2, payload["v"] + 1)]
    return not all(_closed({"v": value}, told[0], ["v"]) for value in upto)


KEEPS: dict[str, tuple[Callable[..., sw.Query], int, Keep]] = {
    "distinct": (lambda s: s.distinct(), 1, _until_all_have_promised),
    "intersect": (lambda a, b: a.intersect(b), 2, _until_all_have_promised),
    "difference": (lambda a, b: a.difference(b), 2, _until_all_have_promised),
    "join": (lambda a, b: a.join(b, on="k"), 2, _until_no_partner_can_come),
    "count": (
        lambda s: s.group_by("k").aggregate(n=sw.count()),
        1,
        _until_the_group_is_complete,
    ),
    "max": (
        lambda s: s.group_by("k").aggregate(high=sw.max("v")),
        1,
        _until_the_group_is_complete,
    ),
    "rank": (
        lambda s: s.group_by("k").aggregate(place=sw.rank("v")),
        1,
        _until_the_group_is_complete,
    ),
    "sort": (lambda s: s.sort("v"), 1, _until_nothing_can_precede_it),
}


@pytest.fixture(autouse=True)
def _forgotten_at_once() -> None:
    forget_at_once(True)


@pytest.mark.parametrize("name", KEEPS)
@FEW
@given(data=st.data())
def test_kept_rows_are_exactly_those_of_the_keep_invariant(name: str, data: st.DataObject) -> None:
    build, ports, keep = KEEPS[name]
    sources = _sources(ports)
    case = Case(build(*sources), sources)
    heard, needed = Trial(case), Trial(case)
    for source in sources:
        for part in data.draw(batchings(data.draw(_tuples_and_promises(source, name)))):
            heard.push(source, part)
    told = list(heard.inputs.values())
    for port, source in enumerate(sources):
        kept = [e for e in told[port].bag.events() if keep(e.payload, port, told)]
        needed.push(source, [sw.insert(e.vs, e.ve, **e.payload) for e in kept])
    assert heard.state_rows == needed.state_rows


@st.composite
def _tuples_and_promises(draw: st.DrawFn, source: sw.Query, name: str) -> list[Element]:
    payload = st.fixed_dictionaries(
        {"k": st.sampled_from(["a", "b", None]), "v": st.sampled_from([0, 1, 2, None])}
    )
    drawn = draw(st.lists(payload, max_size=6, unique_by=lambda each: (each["k"], each["v"])))
    history = History.from_events([Event(0, sw.INF, each) for each in drawn], source.schema)
    patterns: Any = ["v"] if name == "sort" else True
    stream = draw(streams(history, adjusts=False, ctis=False, closed=False, patterns=patterns))
    return [element for element in stream if _is_for_ever(element)]


def _is_for_ever(element: Element) -> bool:
    """Whether it is a row, or a promise that leaves no time out."""
    if not isinstance(element, Punctuation):
        return True
    return element.since == BEGIN and element.before == sw.INF
