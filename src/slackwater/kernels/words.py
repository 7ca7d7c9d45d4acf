"""Words: a hash of every string of a column, the same in every process.

Polars hashes columns of any type, but plans it as a query for another thread, which takes a large part
of the time that a batch of one has. Strings are what most keys are that are not numbers, so they are
hashed here, eight bytes at a time, from Arrow's buffers; a few of them as Python has them, which is
sooner there.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from slackwater.columns import FEW

__all__ = ["are_words", "hashed_words"]

Hashes = npt.NDArray[np.uint64]

_OLDEST = pl.CompatLevel.oldest()
_EIGHT = 8
_ODD = np.uint64(0xFF51AFD7ED558CCD)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def are_words(dtype: pl.DataType) -> bool:
    """Whether values of the type are bytes of any length."""
    return dtype in (pl.String, pl.Binary)


def hashed_words(column: pl.Series) -> Hashes:
    """A number per value, the same for equal ones; of a null any.

    >>> a, b, c = hashed_words(pl.Series(["tide", "ebb", "tide"]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    if len(column) <= FEW:
        words = [_bytes(word) for word in column.to_list()]
        few: Hashes = _hashed(_ends(words), np.frombuffer(b"".join(words) or b"\0", dtype=np.uint8))
        return few
    # names may hold what Arrow cannot hand over
    array = column.alias("").to_arrow(compat_level=_OLDEST)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    hashes: Hashes = _hashed(ends, text)
    return hashes


def _bytes(word: str | bytes | None) -> bytes:
    return word.encode() if isinstance(word, str) else word or b""


def _ends(words: list[bytes]) -> npt.NDArray[np.int64]:
    return np.array([0, *accumulate(map(len, words))])


@intrinsic
def _eight_bytes(typing_context, array, place):
    """The bytes from this place on as one integer, wherever they lie."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        start = builder.gep(data, [arguments[1]])
        wide = builder.bitcast(start, ir.IntType(64).as_pointer())
        loaded = builder.load(wide)
        loaded.align = 1
        return loaded

    return types.uint64(array, types.intp), generate


_load: Any = _eight_bytes


@njit(cache=True, inline="always")
def _stirred(value, word):
    value = (value ^ word) * _ODD
    return value ^ (value >> np.uint64(32))


@njit(cache=True)
def _hashed(ends, text):
    hashes = np.empty(len(ends) - 1, dtype=np.uint64)
    for i in range(len(hashes)):
        at, end = ends[i], ends[i + 1]
        value = np.uint64(end - at) * _GOLDEN
        while at + _EIGHT <= end:
            value = _stirred(value, _load(text, at))
            at += _EIGHT
        word = np.uint64(0)
        while at < end:
            word = (word << np.uint64(8)) | np.uint64(text[at])
            at += 1
        hashes[i] = _stirred(value, word)
    return hashes
