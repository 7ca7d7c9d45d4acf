"""Queues: what is taken at once."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

import slackwater as sw
from slackwater.events import Batch, Element
from slackwater.punctuations import ExternalCti
from slackwater.runtime.queues import Queue

SCHEMA = pl.Schema({"a": pl.Int64()})


def _queue(*batches: Sequence[Element]) -> Queue:
    queue = Queue(0, SCHEMA)
    for elements in batches:
        queue.put(Batch.of(elements, SCHEMA))
    return queue


def test_what_waits_is_gathered_with_promises_behind_the_rows() -> None:
    a, b = sw.insert(0, 9, a=1), sw.insert(2, 9, a=2)
    queue = _queue([a, sw.cti(1)], [b, sw.punctuation(5, a=1), sw.cti(2)], [sw.cti(3)])
    assert [*queue.take_gathered()] == [
        a, b, sw.cti(1), sw.punctuation(5, a=1), sw.cti(2), sw.cti(3),
    ]  # fmt: skip
    assert not queue.batches


def test_other_control_elements_keep_their_place() -> None:
    a, b, count = sw.insert(0, 9, a=1), sw.insert(2, 9, a=2), ExternalCti(5, 1)
    queue = _queue([a], [sw.cti(1), count], [b])
    assert [*queue.take_gathered()] == [a, sw.cti(1), count]
    assert [*queue.take_gathered()] == [b]
