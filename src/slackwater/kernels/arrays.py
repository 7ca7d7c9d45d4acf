"""Arrays that are used again: memory that a process gives back and gets again is cleared each time.

State is packed now and then into new arrays, and grows by copying into larger ones. Once there is much
of it, the first touch of new pages costs more than the work that is done in them. So arrays that are no
longer needed are kept for a while, and whoever asks for one of about that size gets it.

Only who has the last reference may give an array back.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["empty", "enlarged", "filled", "give_back"]

Ints = npt.NDArray[np.int64]

_LEAST = 1 << 17
"""fewer integers are not worth keeping"""
_MOST = 1 << 26
"""... and of more, those that were given back first are let go"""
_WASTE = 2
"""an array may be so many times as large as needed"""

_kept: list[Ints] = []


def empty(*shape: int) -> Ints:
    """An array of integers with any contents."""
    needed = math.prod(shape)
    if needed >= _LEAST:
        for i, array in enumerate(_kept):
            if needed <= len(array) <= _WASTE * needed:
                del _kept[i]
                return array[:needed].reshape(shape)
    return np.empty(shape, dtype=np.int64)


def filled(value: int, *shape: int) -> Ints:
    """An array of this value."""
    array = empty(*shape)
    array.fill(value)
    return array


def enlarged(array: Ints, rows: int, used: int, fill: int | None = None) -> Ints:
    """A larger array with the first rows of another one, which is given back."""
    larger = empty(rows, *array.shape[1:])
    larger[:used] = array[:used]
    if fill is not None:
        larger[used:] = fill
    give_back(array)
    return larger


def give_back(array: Ints) -> None:
    """Nobody needs this array any more."""
    whole: object = array if array.base is None else array.base
    if not isinstance(whole, np.ndarray) or whole.size < _LEAST:
        return
    if whole.dtype == np.int64 and whole.flags.carray:
        _kept.append(whole.reshape(-1))
        while sum(map(len, _kept)) > _MOST:
            del _kept[0]
