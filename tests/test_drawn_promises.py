"""Streams with promises about columns keep them, and make promises of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.permitted import forbids

from slackwater.events import Adjust, Element, Insert, insert
from slackwater.history import History
from slackwater.patterns import Constant, OneOf, Pattern, Range
from slackwater.punctuations import Punctuation
from slackwater.testing import histories, schemas, simplest, streams
from slackwater.times import BEGIN, INF
from slackwater.validity import validate

TWO = History.of([insert(0, 5, k="a", v=1), insert(2, 4, k="b", v=2)])


def promises(stream: Iterable[Element]) -> list[Punctuation]:
    return [e for e in stream if isinstance(e, Punctuation) and e.columns]


@given(st.data())
def test_every_promise_is_kept(data: st.DataObject) -> None:
    history = data.draw(histories(schemas()))
    stream = data.draw(streams(history, patterns=True))
    made: list[Punctuation] = []
    for element in stream:
        if isinstance(element, Punctuation):
            made.append(element)
        elif isinstance(element, Insert | Adjust):
            assert not any(forbids(promise, element.payload, element.sync) for promise in made)
    validate(stream, history.schema)
    assert History.of(stream, history.schema) == history


@given(st.data())
def test_promises_are_about_the_columns_that_are_named(data: st.DataObject) -> None:
    stream = data.draw(streams(TWO, patterns=["v"], ctis=False))
    assert all(name == "v" for promise in promises(stream) for name, _ in promise.columns)


@pytest.mark.parametrize("options", [{}, {"patterns": False}, {"patterns": []}])
@given(data=st.data())
def test_there_are_none_unless_asked_for(options: dict[str, Any], data: st.DataObject) -> None:
    assert not promises(data.draw(streams(TWO, **options)))


def _has(kind: type[Pattern]) -> Callable[[Punctuation], bool]:
    return lambda promise: any(isinstance(pattern, kind) for _, pattern in promise.columns)


@pytest.mark.parametrize(
    "feature",
    [
        _has(Constant),
        _has(OneOf),
        _has(Range),
        lambda promise: len(promise.columns) == 2,
        lambda promise: promise.before == INF,
        lambda promise: promise.before < INF,
        lambda promise: promise.since > BEGIN,
    ],
    ids=["constant", "list", "range", "two columns", "for ever", "up to a time", "from a time on"],
)
def test_promises_of_every_kind_are_drawn(feature: Callable[[Punctuation], bool]) -> None:
    found = simplest(
        streams(TWO, patterns=True, adjusts=False, ctis=False),
        lambda stream: any(map(feature, promises(stream))),
    )
    assert any(map(feature, promises(found)))


def test_a_key_is_closed_while_others_go_on() -> None:
    def early(stream: list[Element]) -> bool:
        return any(
            promise.before == INF and any(isinstance(e, Insert) for e in stream[place:])
            for place, promise in enumerate(stream)
            if isinstance(promise, Punctuation) and promise.columns
        )

    assert early(simplest(streams(TWO, patterns=True, adjusts=False, ctis=False), early))
