"""Arrays that are used again: memory that a process gives back and gets again is cleared each time.

State is packed now and then into new arrays, and grows by copying into larger ones. Once there is much
of it, the first touch of new pages costs more than the work that is done in them. So who packs and grows
keeps the arrays that it no longer needs, and takes the next one of about that size from them.

Only who has the last reference may give an array back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["LEAST", "Spares"]

Ints = npt.NDArray[np.int64]

LEAST = 1 << 17
"""fewer integers are not worth keeping"""
_MOST = 8
"""of more arrays, those that were given back first are let go"""
_WASTE = 2
"""an array may be so many times as large as needed"""
_PARTS = 3
"""sizes differ by an eighth to a quarter: one of these bits and the first are all that is set"""
_LINE = 8
"""integers in a line of the cache, where arrays begin: so that a row of four does not lie on two"""


@dataclass(slots=True, eq=False)
class Spares:
    """The arrays that somebody no longer needs. They are never written down, nor read back."""

    kept: list[Ints] = field(default_factory=list)

    def __reduce__(self) -> tuple[Any, ...]:
        return Spares, ()

    def empty(self, *shape: int) -> Ints:
        """An array of integers with any contents."""
        needed = math.prod(shape)
        if needed < LEAST:
            return np.empty(shape, dtype=np.int64)
        for i, array in enumerate(self.kept):
            if needed + _LINE <= len(array) <= _WASTE * needed:
                del self.kept[i]
                break
        else:
            # what is needed the next time is seldom exactly as large
            part = 1 << max(needed.bit_length() - _PARTS, 0)
            array = np.empty(-(-(needed + _LINE) // part) * part, dtype=np.int64)
        first = -array.ctypes.data // array.itemsize % _LINE
        return array[first : first + needed].reshape(shape)

    def filled(self, value: int, *shape: int) -> Ints:
        """An array of this value."""
        array = self.empty(*shape)
        array.fill(value)
        return array

    def enlarged(self, array: Ints, rows: int, used: int, fill: int | None = None) -> Ints:
        """A larger array with the first rows of another one, which is given back."""
        larger = self.empty(rows, *array.shape[1:])
        larger[:used] = array[:used]
        if fill is not None:
            larger[used:] = fill
        self.give_back(array)
        return larger

    def give_back(self, array: Ints) -> None:
        """Nobody needs this array any more."""
        whole: object = array if array.base is None else array.base
        if not isinstance(whole, np.ndarray) or whole.size < LEAST:
            return
        if whole.dtype == np.int64 and whole.flags.carray:
            self.kept.append(whole.reshape(-1))
            del self.kept[:-_MOST]
