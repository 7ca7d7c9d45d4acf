"""Promises among the rows of one origin: each holds from its place on, for that origin.

A stream promises what all of its origins have promised (progress.py, pledges.py), and later: behind the
batch. By that alone, whether a row is found out that breaks its own origin's promise would depend on how
rows came in batches, and on what other origins have said. So each origin's rows are judged by its own
promises first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slackwater.events import Batch, Placed
from slackwater.promises import Promises
from slackwater.punctuations import Promise
from slackwater.runtime.edge import Edge
from slackwater.validity import Validator

__all__ = ["kept"]


def kept(edge: Edge, told: Promises, parts: Iterable[tuple[Batch, Sequence[Promise]]]) -> Batch:
    """The rows of an origin that keep its promises: those before them, and those behind each part.

    The others are refused as the edge refuses.
    """
    rows = [Batch.empty(edge.schema)]
    promises = [Placed(0, promise) for promise in told.punctuations()]
    count = 0
    for part, behind in parts:
        if part.rows:
            rows.append(part)
            count += part.rows
        promises += (Placed(count, promise) for promise in behind)
    whole = Batch.concat(rows)
    if not promises or not count:
        return whole
    judged = replace(whole, controls=tuple(promises))
    if not Promises().broken_by(judged).any():
        return whole
    return edge.sifted(judged, Validator(chains=False)).data()
