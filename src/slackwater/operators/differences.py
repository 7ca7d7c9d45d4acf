"""Differences: from what was said to what is right, in as few elements as there are changes.

Of events with one start and payload those that stay are not mentioned. The others are paired: an event
that was said and one that is right now are one event whose end moves. So what began before a promise
only ever gets another end.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slackwater.events import Batch
from slackwater.kernels.grouping import Keys
from slackwater.kernels.slabs import Changes

__all__ = ["difference"]

Ints = npt.NDArray[np.int64]


def difference(before: Batch, after: Batch) -> Batch:
    """What leads from the events of one batch of inserts to those of the other."""
    both = Batch.concat([before, after])
    if not both.rows:
        return both.data()
    payloads = Keys(both.schema)
    sign = np.ones(both.rows, dtype=np.int64)
    sign[: before.rows] = -1
    net = Changes.net(payloads.number(both.payload), (both.vs, both.new_ve), sign)
    rows = np.repeat(np.arange(len(net)), np.abs(net.delta))
    payload, (vs, ve), sign = net.key[rows], net.rows[rows].T, np.sign(net.delta[rows])
    # the how manieth of those with its start, payload and sign each one is
    order = np.lexsort((ve, sign, vs, payload))
    payload, vs, ve, sign = payload[order], vs[order], ve[order], sign[order]
    nth = _places((payload, vs, sign))
    order = np.lexsort((sign, nth, vs, payload))
    payload, vs, ve, sign, nth = (each[order] for each in (payload, vs, ve, sign, nth))
    ends_pair = np.zeros(len(vs), dtype=np.bool_)
    ends_pair[1:] = (payload[1:] == payload[:-1]) & (vs[1:] == vs[:-1]) & (nth[1:] == nth[:-1])
    begins_pair = np.zeros(len(vs), dtype=np.bool_)
    begins_pair[:-1] = ends_pair[1:]
    old_ve = np.where(sign < 0, ve, vs)
    new_ve = np.where(sign < 0, vs, ve)
    new_ve[begins_pair] = ve[ends_pair]
    stays = ~ends_pair
    return Batch(vs[stays], old_ve[stays], new_ve[stays], payloads.take(payload[stays]))


def _places(columns: tuple[Ints, ...]) -> Ints:
    """Of rows in order: which place each has among those that are equal to it."""
    is_first = np.ones(len(columns[0]), dtype=np.bool_)
    is_first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    first = np.flatnonzero(is_first)
    return np.arange(len(is_first)) - np.repeat(first, np.diff(np.append(first, len(is_first))))
