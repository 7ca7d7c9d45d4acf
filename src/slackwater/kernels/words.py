"""Words: the bytes of strings, and a hash of them, the same in every process.

Polars hashes and compares columns of any type, but plans it as a query for another thread, which takes a
large part of the time that a batch of one has. Strings are what most keys are that are not numbers, so
they are looked at here, eight bytes at a time, in Arrow's buffers; a few of them as Python has them,
which is sooner there.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from slackwater.columns import FEW, nulls_in

__all__ = [
    "Letters",
    "Spelled",
    "are_words",
    "copy_letters",
    "hashed_words",
    "load",
    "spelled",
    "store",
    "words_of",
]

Hashes: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
Letters: TypeAlias = npt.NDArray[np.uint8]

_OLDEST = pl.CompatLevel.oldest()
_EIGHT = 8
_LANES = 4
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
    ends, text = _spelled_few([column]) if len(column) <= FEW else _buffers(column)
    hashes: Hashes = _hashed(ends, text)
    return hashes


class Spelled(NamedTuple):
    """The words of rows, those of a row one behind the other."""

    ends: Ints
    """where those of each row begin; and where the last end"""
    text: Letters
    lengths: list[Ints]
    """of the words of each column; of a null 0"""

    @property
    def hashes(self) -> Hashes:
        """Of the text of each row."""
        hashes: Hashes = _hashed_in_lanes(self.ends, self.text)
        return hashes


def spelled(columns: Sequence[pl.Series]) -> Spelled:
    """The words of one column or more.

    >>> words = spelled([pl.Series(["ebb", "tide"]), pl.Series(["", "s"])])
    >>> words.ends.tolist(), bytes(words.text), [each.tolist() for each in words.lengths]
    ([0, 3, 8], b'ebbtides', [[3, 4], [0, 1]])
    """
    if len(columns[0]) <= FEW:
        few = [np.array([len(_bytes(w)) for w in c.to_list()], dtype=np.int64) for c in columns]
        return Spelled(*_spelled_few(columns), few)
    parts = [_buffers(column) for column in columns]
    lengths = [np.diff(ends) for ends, _ in parts]
    if len(columns) == 1 and not columns[0].null_count():
        return Spelled(*parts[0], lengths)
    for column, each in zip(columns, lengths, strict=True):
        # Arrow may have anything where there is nothing
        each[nulls_in(column)] = 0
    ends = np.concatenate([[0], np.cumsum(np.sum(lengths, axis=0))])
    text = np.empty(max(1, ends[-1]), dtype=np.uint8)
    begins = ends[:-1].copy()
    for (starts, letters), each in zip(parts, lengths, strict=True):
        _append(letters, starts, each, text, begins)
    return Spelled(_sealed(ends), _sealed(text), lengths)


def _spelled_few(columns: Sequence[pl.Series]) -> tuple[Ints, Letters]:
    words = [b"".join(map(_bytes, row)) for row in zip(*(c.to_list() for c in columns), strict=True)]
    text = np.frombuffer(b"".join(words) or b"\0", dtype=np.uint8)
    return _sealed(np.array([0, *accumulate(map(len, words))], dtype=np.int64)), text


def _buffers(column: pl.Series) -> tuple[Ints, Letters]:
    """Where the words of a column begin, and the last ends; in which text."""
    # names may hold what Arrow cannot hand over
    array = column.alias("").to_arrow(compat_level=_OLDEST)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    text = np.frombuffer(b"\0" if data is None or not data.size else data, dtype=np.uint8)
    return ends, text


def _sealed(array: Any) -> Any:
    """Not to be written, as Arrow's buffers are: compiled code tells the two apart."""
    array.flags.writeable = False
    return array


def words_of(
    name: str, dtype: pl.DataType, ends: Ints, text: Letters, nulls: npt.NDArray[np.bool_] | None
) -> pl.Series:
    """A column of words."""
    if len(ends) <= FEW + 1:
        letters, places = text.tobytes(), ends.tolist()
        words = [letters[a:b] for a, b in pairwise(places)]
        some: list[Any] = [word.decode() for word in words] if dtype == pl.String else [*words]
        for place in [] if nulls is None else np.flatnonzero(nulls).tolist():
            some[place] = None
        return pl.Series(name, some, dtype)
    valid = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    kind = pa.large_string() if dtype == pl.String else pa.large_binary()
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(text)]
    return pl.Series(name, pa.Array.from_buffers(kind, len(ends) - 1, buffers))


def _bytes(word: str | bytes | None) -> bytes:
    return word.encode() if isinstance(word, str) else word or b""


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


@intrinsic
def _set_eight_bytes(typing_context, array, place, word):
    """Write an integer as the bytes from this place on."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        start = builder.gep(data, [arguments[1]])
        wide = builder.bitcast(start, ir.IntType(64).as_pointer())
        builder.store(arguments[2], wide, align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


# compiled code calls them, which mypy cannot follow
load: Any = _eight_bytes
store: Any = _set_eight_bytes


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
            value = _stirred(value, load(text, at))
            at += _EIGHT
        word = np.uint64(0)
        while at < end:
            word = (word << np.uint64(8)) | np.uint64(text[at])
            at += 1
        hashes[i] = _stirred(value, word)
    return hashes


@njit(cache=True)
def _hashed_in_lanes(ends, text):
    """As `_hashed`, but where words are long four parts at a time, which do not wait for each other."""
    hashes = np.empty(len(ends) - 1, dtype=np.uint64)
    for i in range(len(hashes)):
        at, end = ends[i], ends[i + 1]
        value = np.uint64(end - at) * _GOLDEN
        if at + _LANES * _EIGHT <= end:
            a, b, c, d = value, value + _ODD, value ^ _ODD, value - _ODD
            while at + _LANES * _EIGHT <= end:
                a = _stirred(a, load(text, at))
                b = _stirred(b, load(text, at + _EIGHT))
                c = _stirred(c, load(text, at + 2 * _EIGHT))
                d = _stirred(d, load(text, at + 3 * _EIGHT))
                at += _LANES * _EIGHT
            value = _stirred(_stirred(_stirred(a, b), c), d)
        while at + _EIGHT <= end:
            value = _stirred(value, load(text, at))
            at += _EIGHT
        word = np.uint64(0)
        while at < end:
            word = (word << np.uint64(8)) | np.uint64(text[at])
            at += 1
        hashes[i] = _stirred(value, word)
    return hashes


@njit(cache=True)
def copy_letters(one, at, other, place, length):
    """Write so many letters of a text, from there on, to another, or to a place before in the same."""
    if length < _EIGHT:
        for i in range(length):
            other[place + i] = one[at + i]
        return
    # the last eight, part of which may be written by then
    end = length - _EIGHT
    last = load(one, at + end)
    i = 0
    while i < end:
        store(other, place + i, load(one, at + i))
        i += _EIGHT
    store(other, place + end, last)


@njit(cache=True)
def _append(letters, starts, lengths, text, begins):
    """Write the words of a column behind what rows have."""
    for i in range(len(lengths)):
        copy_letters(letters, starts[i], text, begins[i], lengths[i])
        begins[i] += lengths[i]
