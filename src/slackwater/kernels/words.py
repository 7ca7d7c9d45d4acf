"""Words: the bytes of strings, as integers, and a hash of them, the same in every process.

Polars hashes and compares columns of any type, but plans it as a query for another thread, which takes a
large part of the time that a batch of one has. Strings are what most keys are that are not numbers, so
they are looked at here, where Arrow has them.

There a word is a *view* of sixteen bytes: its length and, up to twelve letters, the letters themselves,
and then zeros; of a longer one the first four, and where it lies. As two integers, a short word is its
view. A long one has its hash in the place of the second: so words that differ in their integers differ,
and of those that do not only the long ones have to be compared.
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

from slackwater.columns import FEW

__all__ = [
    "SHORT",
    "Letters",
    "are_words",
    "as_two",
    "copy_letters",
    "hashed_words",
    "load",
    "load_at",
    "long_letters",
    "short_words_of",
    "store",
    "views_of",
    "words_of",
]

Hashes: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
Letters: TypeAlias = npt.NDArray[np.uint8]

_OLDEST, _NEWEST = pl.CompatLevel.oldest(), pl.CompatLevel.newest()
_EIGHT = 8
_LANES = 4
SHORT = 12
"""letters that a view has room for"""
_LENGTH = np.uint64(0xFFFFFFFF)
"""the half of an integer that is a length, or the number of a text"""
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


class Views(NamedTuple):
    """The words of a column, where Arrow has them."""

    views: Hashes
    """two integers of each"""
    buffers: Ints
    """where the texts begin that hold the long words: addresses"""
    owner: pa.Array
    """keeps them there"""


def views_of(column: pl.Series) -> Views:
    """The words of a column; of a null anything.

    >>> views_of(pl.Series(["ebb", "slack water, high"])).views[:, 0].tolist() == [
    ...     3 | int.from_bytes(b"ebb", "little") << 32,
    ...     17 | int.from_bytes(b"slac", "little") << 32,
    ... ]
    True
    """
    # names may hold what Arrow cannot hand over
    array = column.alias("").to_arrow(compat_level=_NEWEST)
    _, views, *texts = array.buffers()
    both = np.frombuffer(views, dtype=np.uint64).reshape(-1, 2)
    addresses = np.array([text.address for text in texts], dtype=np.int64)
    return Views(both[array.offset : array.offset + len(array)], addresses, array)


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


def short_words_of(
    name: str, dtype: pl.DataType, views: Hashes, nulls: npt.NDArray[np.bool_] | None
) -> pl.Series:
    """A column of short words, by their integers.

    >>> short_words_of("", pl.String(), views_of(pl.Series(["ebb", "tide"])).views, None).to_list()
    ['ebb', 'tide']
    """
    kind = pa.string_view() if dtype == pl.String else pa.binary_view()
    return pl.Series(name, pa.Array.from_buffers(kind, len(views), [_valid(nulls), pa.py_buffer(views)]))


def _valid(nulls: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


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
    kind = pa.large_string() if dtype == pl.String else pa.large_binary()
    buffers = [_valid(nulls), pa.py_buffer(ends), pa.py_buffer(text)]
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


@intrinsic
def _eight_bytes_at(typing_context, address):
    """The bytes from this address on as one integer."""

    def generate(context, builder, signature, arguments):
        wide = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        loaded = builder.load(wide)
        loaded.align = 1
        return loaded

    return types.uint64(types.int64), generate


# compiled code calls them, which mypy cannot follow
load: Any = _eight_bytes
store: Any = _set_eight_bytes
load_at: Any = _eight_bytes_at


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
def _hash_of_long(at, length):
    """Of the letters from this address on, four parts at a time, which do not wait for each other."""
    end = at + length
    value = np.uint64(length) * _GOLDEN
    if length >= _LANES * _EIGHT:
        a, b, c, d = value, value + _ODD, value ^ _ODD, value - _ODD
        while at + _LANES * _EIGHT <= end:
            a = _stirred(a, load_at(at))
            b = _stirred(b, load_at(at + _EIGHT))
            c = _stirred(c, load_at(at + 2 * _EIGHT))
            d = _stirred(d, load_at(at + 3 * _EIGHT))
            at += _LANES * _EIGHT
        value = _stirred(_stirred(_stirred(a, b), c), d)
    while at + _EIGHT <= end:
        value = _stirred(value, load_at(at))
        at += _EIGHT
    # there are more than twelve; some of these are seen twice
    return _stirred(value, load_at(end - _EIGHT))


@njit(cache=True)
def as_two(views, buffers, nulls, two, where):
    """Two integers of each word (`two`), and of the long ones the address of the letters (`where`).

    Whether there are any. Of nulls, of which none may be given, both are zero.
    """
    some = False
    for i in range(len(views)):
        first, second = views[i, 0], views[i, 1]
        if len(nulls) > 0 and nulls[i]:
            first = second = np.uint64(0)
        length = np.int64(first & _LENGTH)
        if length > SHORT:
            some = True
            text, offset = np.int64(second & _LENGTH), np.int64(second >> np.uint64(32))
            where[i] = buffers[text] + offset
            second = _hash_of_long(where[i], length)
        two[0, i], two[1, i] = np.int64(first), np.int64(second)
    return some


@njit(cache=True, inline="always")
def long_letters(first):
    """How many letters a word has that lie elsewhere, by its first integer."""
    length = np.int64(np.uint64(first) & _LENGTH)
    return length if length > SHORT else 0


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
