"""Keys that are opened and closed one by one: after a batch no more rows are kept than keys are open.

Rows are [0, INF), as tuples of paper 4 are here (erratum 26). A million keys, and what that costs:
benchmarks/closings.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import slackwater as sw
from slackwater.events import Element

INSERTS = sw.StreamProperties(insert_only=True)
LEFT, RIGHT = (sw.stream({"k": int}, name=name, properties=INSERTS) for name in ("left", "right"))

KEYS, OPEN = 60, 10


def _row(key: int) -> Element:
    return sw.insert(0, sw.INF, k=key)


def _all_of_one(key: int) -> list[tuple[int, sw.Query, list[Element]]]:
    """The steps of a key, each with how many keys are open more after it."""
    return [(1, LEFT, [_row(key)]), (0, LEFT, [_row(key)]), (-1, LEFT, [sw.punctuation(k=key)])]


def _item_and_bids(key: int) -> list[tuple[int, sw.Query, list[Element]]]:
    """No two items have the same number; bids close the auction."""
    item: list[Element] = [_row(key), sw.punctuation(k=key)]
    return [(1, LEFT, item), (0, RIGHT, [_row(key)]), (-1, RIGHT, [_row(key), sw.punctuation(k=key)])]


def _both(key: int) -> list[tuple[int, sw.Query, list[Element]]]:
    other: list[Element] = [_row(key)] if key % 2 else []
    closed: list[Element] = [sw.punctuation(k=key)]
    return [(1, LEFT, [_row(key), *closed]), (0, RIGHT, other), (-1, RIGHT, closed)]


@pytest.mark.parametrize("size", [1, 7, 100])
@pytest.mark.parametrize(
    ("query", "steps"),
    [
        pytest.param(LEFT.group_by("k").aggregate(n=sw.count(), t=sw.sum("k")), _all_of_one, id="count"),
        pytest.param(LEFT.distinct(), _all_of_one, id="distinct"),
        pytest.param(LEFT.join(RIGHT, on="k"), _item_and_bids, id="join"),
        pytest.param(LEFT.difference(RIGHT), _both, id="difference"),
        pytest.param(LEFT.intersect(RIGHT), _both, id="intersect"),
    ],
)
def test_no_more_rows_are_kept_than_keys_are_open(
    query: sw.Query, steps: Callable[[int], list[tuple[int, sw.Query, list[Element]]]], size: int
) -> None:
    # the first step of a key comes with the last of one that was opened before
    lives = [
        (2 * key + OPEN * at, at, step) for key in range(KEYS) for at, step in enumerate(steps(key))
    ]
    running, is_open, most = query.open(), 0, 0
    ordered = [step for _, _, step in sorted(lives, key=lambda each: each[:2])]
    for first in range(0, len(ordered), size):
        for source in (LEFT, RIGHT):
            some = [(more, told) for more, said, told in ordered[first : first + size] if said is source]
            elements = [element for _, told in some for element in told]
            # before its bids an item may be open that the same batch closes
            is_open += sum(more for more, _ in some)
            if elements:
                running.push(source, elements)
            kept = sum(status.state.state_rows for status in running.describe())
            assert kept <= is_open
            most = max(most, kept)
    assert kept == is_open == 0
    assert most > 0 or size == 100
