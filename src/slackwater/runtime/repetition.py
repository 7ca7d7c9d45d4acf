"""Repetition: an operator does not promise what it has promised already (paper 4 section 5.5).

Promises of several inputs are combined, windows make one time of several, and what is not shown yet
holds promises back: two that differ may come out as one, or one that implies the other. So of such
operators the driver remembers what they have promised of payloads. A cti, and values that are closed for
ever, end what they imply; of promises for ever, which nothing ends, a number is remembered. Where much
would have to be compared, it is told as it is: a promise too many is no mistake, and must not cost more
than it does.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from slackwater.columns import FEW
from slackwater.consistency import OutputLatency
from slackwater.plan.nodes import AlterLifetime, Node
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, for_ever

__all__ = ["may_repeat", "news_of", "unsaid"]

_MANY = 4096
"""with so many that are remembered"""
_FOR_EVER = 1024
"""among which there may be so many that nothing ends"""


def may_repeat(node: Node, latency: OutputLatency) -> bool:
    """Whether promises that differ can follow from each other when they come out."""
    held_back = latency is OutputLatency.PERFECTNESS_PRESERVING
    return len(node.inputs) > 1 or isinstance(node, AlterLifetime) or held_back


def unsaid(said: Promises, told: Sequence[Promise], schema: pl.Schema) -> list[Promise]:
    """What of these is not implied by the others, nor by what was said; it is remembered.

    >>> from slackwater.patterns import between
    >>> from slackwater.punctuations import punctuation
    >>> schema = pl.Schema({"k": pl.Int64, "v": pl.Int64})
    >>> said = Promises.of(schema)
    >>> unsaid(said, [punctuation(8, k=1, v=2), punctuation(9, k=between(0, 5))], schema)
    [punctuation(9, k=between(0, 5))]
    >>> unsaid(said, [punctuation(7, k=1), punctuation(k=between(7, 9))], schema)
    [punctuation(k=between(7, 9))]
    """
    if len(told) > FEW or len(said) > _MANY:
        return [*told]
    news = news_of(said, told, schema)
    if len(said):
        said.forget([each for each in news if isinstance(each, Closings)])
    gone = for_ever(news) if len(said) >= _FOR_EVER else []
    said.add(each for each in news if not any(each is other for other in gone))
    return news


def news_of(said: Promises, told: Sequence[Promise], schema: pl.Schema) -> list[Promise]:
    """What of these is not implied by the others, nor by what was said."""
    here = Promises.of(schema)
    news: list[Promise] = []
    # whoever speaks of more is asked first
    strongest = (each.strongest() if isinstance(each, Closings) else each for each in told)
    for each in sorted(strongest, key=_narrowness):
        new = here.news(said.news([each]))
        here.add(new)
        news += new
    return news


def _narrowness(told: Promise) -> tuple[int, int]:
    if isinstance(told, Closings):
        return len(told.keys.columns), 0
    return len(told.columns), -told.before
