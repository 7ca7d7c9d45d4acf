"""Coded rows: keys as integers, stored, hashed and compared by compiled code.

Of a column of fixed width a row has its value (kernels/integers.py), of words two integers
(kernels/words.py); then one that says which columns are null. Rows are the same exactly where the
integers are, and the letters of long words. Short words need no more than their integers.

Rows that are looked for come as columns, as they are; of long words there is the address. Those that
have numbers are stored row by row (`stored`), and the letters of the long words of each, one behind the
other, in a text (`letters`, from `begins` on). `slots` is the hash table: numbers, or -1. `worded` are
the places of words among the integers of a row.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

from slackwater.columns import nulls_in
from slackwater.kernels.integers import as_integers, is_fixed
from slackwater.kernels.prefetch import prefetch, prefetch_at
from slackwater.kernels.words import (
    SHORT,
    are_words,
    as_two,
    copy_letters,
    load,
    load_at,
    long_letters,
    store,
    views_of,
)

__all__ = [
    "NO_WORDS",
    "Coded",
    "can_be_coded",
    "coded",
    "enter",
    "find_or_add",
    "gather",
    "pack",
    "places_of",
    "spread",
]

Ints: TypeAlias = npt.NDArray[np.int64]

MOST = 62
"""a bit for each column that may be null"""
_LENGTH = np.int64(0xFFFFFFFF)
_AHEAD = _EIGHT = 8
"""rounds between fetching a place and going there"""
NO_WORDS = np.empty((0, 0), dtype=np.int64)
_NO_NULLS = np.empty(0, dtype=np.bool_)


def _odds() -> npt.NDArray[np.uint64]:
    """An odd number for each integer of a row, that have nothing to do with each other."""
    state = np.arange(1, 2 * MOST + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    odds: npt.NDArray[np.uint64] = (state ^ (state >> np.uint64(31))) | np.uint64(1)
    return odds


_ODDS = _odds()


def can_be_coded(schema: pl.Schema) -> bool:
    """Whether all columns have a fixed width, or are words."""
    return len(schema) <= MOST and all(is_fixed(each) or are_words(each) for each in schema.dtypes())


def places_of(schema: Sequence[pl.DataType]) -> list[int]:
    """Where the integers of each column begin, and where that of the nulls is.

    >>> places_of([pl.Int64(), pl.String(), pl.Date()])
    [0, 1, 3, 4]
    """
    return [0, *accumulate(2 if are_words(each) else 1 for each in schema)]


class Coded(NamedTuple):
    """Rows that are looked for."""

    columns: Ints
    """of integers"""
    where: Ints
    """addresses of long words, by column of words; empty if there are none"""
    owners: tuple[object, ...] = ()
    """of the letters"""


def coded(frame: pl.DataFrame, names: Sequence[str], first: Ints | None = None) -> Coded:
    """These columns, with another one before them."""
    given = [frame.get_column(name) for name in names]
    skipped = 0 if first is None else 1
    *places, nulls_at = places_of([each.dtype for each in given])
    columns = np.empty((skipped + nulls_at + 1, frame.height), dtype=np.int64)
    columns[-1] = 0
    if first is not None:
        columns[0] = first
    owners: list[object] = []
    where = np.empty((sum(are_words(each.dtype) for each in given), frame.height), dtype=np.int64)
    some_long = False
    for i, (place, column) in enumerate(zip(places, given, strict=True), skipped):
        at = skipped + place
        if are_words(column.dtype):
            nulls = nulls_in(column) if column.null_count() else None
            views, buffers, owner = views_of(column)
            nowhere = _NO_NULLS if nulls is None else nulls
            some_long |= as_two(views, buffers, nowhere, columns[at : at + 2], where[len(owners)])
            owners.append(owner)
        elif column.dtype == pl.Int64 and not column.null_count():
            columns[at], nulls = column.to_numpy(), None
        else:
            columns[at], nulls = as_integers(column)
            if nulls is not None:
                columns[at, nulls] = 0
        if nulls is not None:
            columns[-1] |= nulls.astype(np.int64) << i
    return Coded(columns, where, tuple(owners)) if some_long else Coded(columns, NO_WORDS)


@njit(cache=True)
def spread(value):
    """Spread the bits: integers that are their own hash often differ in few of them."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    return value


@njit(cache=True)
def _places(columns, first, slots):
    """Where each row, from one on, would be if no other were."""
    mask = np.uint64(len(slots) - 1)
    sums = np.zeros(columns.shape[1], dtype=np.uint64)
    for a in range(columns.shape[0]):
        odd = _ODDS[a]
        for i in range(first, columns.shape[1]):
            sums[i] += np.uint64(columns[a, i]) * odd
    places = np.empty(columns.shape[1], dtype=np.int64)
    for i in range(first, columns.shape[1]):
        places[i] = spread(sums[i]) & mask
    return places


@njit(cache=True)
def find_or_add(
    slots, stored, begins, letters, size, used, worded, columns, where, add, floor, numbers, done
):  # fmt: skip
    """Number the rows from `done` on, until half of the slots are full, or there is no room for more.

    Rows that are new are added, if any are, where their first integer is not below `floor`; else they
    get -1. How far, how many keys there are then, and how many letters.
    """
    # written out: to hand arrays to another function costs more than what it does
    last, width, rows = len(slots) - 1, columns.shape[0], columns.shape[1]
    some_long = len(where) > 0
    places = _places(columns, done, slots)
    for i in range(done, rows):
        if i + 2 * _AHEAD < rows:
            prefetch_at(slots, places[i + 2 * _AHEAD])
            number = np.int64(slots[places[i + _AHEAD]])
            prefetch(stored, number)
            if some_long:
                prefetch_at(begins, number)
                number = np.int64(slots[places[i + _AHEAD // 2]])
                if number >= 0:
                    prefetch_at(letters, begins[number])
        at = places[i]
        number = np.int64(slots[at])
        while number >= 0:
            a = 0
            while a < width and stored[number, a] == columns[a, i]:
                a += 1
            if a == width:
                if not some_long:
                    break
                here, is_same = begins[number], True
                for j in range(len(worded)):
                    length = long_letters(columns[worded[j], i])
                    if length > 0:
                        there = where[j, i]
                        end = there + length - _EIGHT
                        begin = here - there
                        while there < end and load(letters, begin + there) == load_at(there):
                            there += _EIGHT
                        # the last eight of them
                        is_same = there >= end and load(letters, begin + end) == load_at(end)
                        if not is_same:
                            break
                        here += length
                if is_same:
                    break
            at = (at + 1) & last
            number = np.int64(slots[at])
        if number < 0 and add and columns[0, i] >= floor:
            length = 0
            if some_long:
                for j in range(len(worded)):
                    length += long_letters(columns[worded[j], i])
            if 2 * size >= len(slots) or size >= len(stored) or used + length > len(letters):
                return i, size, used
            number = size
            for a in range(width):
                stored[number, a] = columns[a, i]
            if len(worded) > 0:
                begins[number] = used
            if length > 0:
                for j in range(len(worded)):
                    more = long_letters(columns[worded[j], i])
                    if more > 0:
                        there, end = where[j, i], used + more - _EIGHT
                        begin = there - used
                        while used < end:
                            store(letters, used, load_at(begin + used))
                            used += _EIGHT
                        store(letters, end, load_at(begin + end))
                        used = end + _EIGHT
            slots[at] = number
            size += 1
        numbers[i] = number
    return rows, size, used


@njit(cache=True)
def enter(slots, stored):
    """Put all keys into the slots, which are free."""
    last = len(slots) - 1
    places = np.empty(len(stored), dtype=np.int64)
    for number in range(len(stored)):
        value = np.uint64(0)
        for a in range(stored.shape[1]):
            value += np.uint64(stored[number, a]) * _ODDS[a]
        places[number] = spread(value) & np.uint64(last)
    for number in range(len(stored)):
        if number + _AHEAD < len(stored):
            prefetch_at(slots, places[number + _AHEAD])
        at = places[number]
        while slots[at] >= 0:
            at = (at + 1) & last
        slots[at] = number


@njit(cache=True)
def gather(stored, begins, letters, before, column, numbers):
    """The words of these keys in a column, where others are `before` it: ends, and text."""
    starts = np.empty(len(numbers), dtype=np.int64)
    ends = np.empty(len(numbers) + 1, dtype=np.int64)
    ends[0] = 0
    for i in range(len(numbers)):
        number = numbers[i]
        starts[i] = begins[number]
        for j in range(len(before)):
            starts[i] += long_letters(stored[number, before[j]])
        ends[i + 1] = ends[i] + (stored[number, column] & _LENGTH)
    text = np.empty(ends[-1], dtype=np.uint8)
    for i in range(len(numbers)):
        at, length = ends[i], ends[i + 1] - ends[i]
        if length > SHORT:
            copy_letters(letters, starts[i], text, at, length)
            continue
        # the first four beside the length, the others in the second integer
        first, second = stored[numbers[i], column], stored[numbers[i], column + 1]
        for x in range(length):
            bits = first >> (8 * (x + 4)) if x < 4 else second >> (8 * (x - 4))
            text[at + x] = bits & 0xFF
    return ends, text


@njit(cache=True)
def pack(stored, begins, letters, worded, kept):
    """Move these keys, in ascending order, to the front, and their words: how many letters there are."""
    used = 0
    for i in range(len(kept)):
        number = kept[i]
        length = 0
        for a in range(stored.shape[1]):
            stored[i, a] = stored[number, a]
        if len(worded) > 0:
            for j in range(len(worded)):
                length += long_letters(stored[i, worded[j]])
            begin = begins[number]
            begins[i] = used
            if length > 0:
                copy_letters(letters, begin, letters, used, length)
                used += length
    return used
