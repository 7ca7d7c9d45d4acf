"""Sort by hand: in order of a column, from one promise to the next."""

from __future__ import annotations

import slackwater as sw

S = sw.stream({"a": int})


def test_what_a_promise_completes_comes_in_order_of_the_column() -> None:
    elements = [
        sw.insert(1, 9, a=2),
        sw.insert(3, 5, a=1),
        sw.insert(4, 6, a=0),
        sw.cti(4),
        sw.adjust(3, 5, 4, a=1),
        sw.cti(9),
    ]
    assert list(S.sort("a").run({S: elements}, batch=1)) == [
        sw.insert(3, 5, a=1),
        sw.insert(1, 9, a=2),
        sw.cti(4),
        sw.insert(4, 6, a=0),
        sw.adjust(3, 5, 4, a=1),
        sw.cti(9),
    ]


def test_equal_values_come_in_order_of_sync_and_nulls_first() -> None:
    elements = [sw.insert(5, 6, a=1), sw.insert(2, 3, a=1), sw.insert(7, 8, a=None), sw.cti(None)]
    out = list(S.sort("a").run({S: elements}, batch=10))
    assert out == [sw.insert(7, 8, a=None), sw.insert(2, 3, a=1), sw.insert(5, 6, a=1), sw.cti(None)]
