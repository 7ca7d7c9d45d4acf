"""AlterLifetime by hand: what inserts, adjusts and promises each become."""

from __future__ import annotations

import slackwater as sw
from slackwater.events import Element


def _through(window: sw.Query, source: sw.Query, *elements: Element) -> list[Element]:
    return list(window.run({source: list(elements)}, batch=1))


S = sw.stream({"a": int})


def test_a_full_removal_removes_in_full_whatever_the_window() -> None:
    """Paper 1b 4.2: also where the duration is a constant."""
    out = _through(
        S.window(sw.sliding(3)),
        S,
        sw.insert(1, 9, a=1),
        sw.adjust(1, 9, 5, a=1),
        sw.adjust(1, 5, 1, a=1),
        sw.cti(4),
    )
    assert out == [sw.insert(1, 4, a=1), sw.adjust(1, 4, 1, a=1), sw.cti(4)]


def test_erratum_12_a_shortened_end_promises_less() -> None:
    out = _through(S.extend(-5), S, sw.insert(0, 100, a=1), sw.cti(20), sw.adjust(0, 100, 20, a=1))
    assert out == [sw.insert(0, 95, a=1), sw.cti(15), sw.adjust(0, 95, 15, a=1)]


def test_a_row_of_which_nothing_is_left_goes_and_may_come_back() -> None:
    out = _through(
        S.extend(-5),
        S,
        sw.insert(0, 9, a=1),
        sw.adjust(0, 9, 4, a=1),
        sw.adjust(0, 4, 7, a=1),
    )
    assert out == [sw.insert(0, 4, a=1), sw.adjust(0, 4, 0, a=1), sw.insert(0, 2, a=1)]


def test_a_promise_that_does_not_advance_is_not_repeated() -> None:
    """Paper 1b 4.2: hopping windows move their clock once per hop."""
    out = _through(S.window(sw.hopping(10, 10)), S, sw.cti(1), sw.cti(9), sw.cti(10), sw.cti(12))
    assert out == [sw.cti(10), sw.cti(20)]


def test_clip_passes_only_changes_below_the_limit() -> None:
    out = _through(
        S.clip(5), S, sw.insert(0, None, a=1), sw.adjust(0, None, 20, a=1), sw.adjust(0, 20, 3, a=1)
    )
    assert out == [sw.insert(0, 5, a=1), sw.adjust(0, 5, 3, a=1)]
