"""Ctis among the rows of one origin: each holds from its place on, for that origin.

A stream promises the least of what its origins have promised (progress.py), and later: behind the batch.
By that alone, whether a row is found out that breaks its own origin's cti would depend on how rows came
in batches, and on what other origins have said. So each origin's rows are judged by its own ctis first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from slackwater.events import Batch, Placed
from slackwater.punctuations import Promises, Punctuation
from slackwater.runtime.edge import Edge
from slackwater.times import BEGIN
from slackwater.validity import Validator

__all__ = ["kept"]


def kept(edge: Edge, told: int, parts: Iterable[tuple[Batch, int]]) -> Batch:
    """The rows of an origin that keep its ctis: the one before them, and those behind each part.

    The others are refused as the edge refuses.
    """
    rows = [Batch.empty(edge.schema)]
    ctis = [Placed(0, Punctuation(told))] if told > BEGIN else []
    count = 0
    for part, promise in parts:
        if part.rows:
            rows.append(part)
            count += part.rows
        if promise > BEGIN:
            ctis.append(Placed(count, Punctuation(promise)))
    whole = Batch.concat(rows)
    if not ctis or not count:
        return whole
    judged = replace(whole, controls=tuple(ctis))
    if not Promises().broken_by(judged).any():
        return whole
    return edge.sifted(judged, Validator(chains=False)).data()
