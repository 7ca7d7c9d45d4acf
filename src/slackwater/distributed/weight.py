"""Weight: about how many bytes of memory a state takes, without looking at all of it.

Arrays and frames know their sizes, and nearly all of a state is in them. Of long lists and dicts a few
members are weighed for all. So the cost is that of the number of arrays, not of what they hold; what
is shared is counted where it is first met.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Mapping
from itertools import islice

import numpy as np
import polars as pl

__all__ = ["weight"]

_SAMPLE = 200


def weight(state: object) -> int:
    """About how many bytes it takes.

    >>> weight([np.zeros(1000), {"a": np.zeros(1000)}]) // 1000
    16
    """
    return int(_weight(state, set()))


def _weight(value: object, seen: set[int]) -> float:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return sys.getsizeof(value)
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, pl.DataFrame | pl.Series):
        return value.estimated_size()
    if isinstance(value, Mapping):
        return _of_all(value, seen) + _of_all(value.values(), seen)
    if isinstance(value, Collection):
        return _of_all(value, seen)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "__dict__", ()))
    return sum(_weight(getattr(value, name, None), seen) for name in names)


def _of_all(values: Collection[object], seen: set[int]) -> float:
    """Of many, some are weighed for all."""
    some = sum(_weight(each, seen) for each in islice(values, _SAMPLE))
    return some * max(1.0, len(values) / _SAMPLE)
