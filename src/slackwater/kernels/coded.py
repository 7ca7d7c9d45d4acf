"""Coded rows: keys as integers and letters, stored, hashed and compared by compiled code.

A row of integers: of a column of fixed width its value (kernels/integers.py), of words their length;
then one that says which columns are null; and, if there are words, their hash. The letters of a row's
words lie one behind the other in a text. Rows are the same exactly where the integers and the letters
are.

`stored` and `letters` are the rows and the text of keys that have numbers, `begins` where the words of
each begin, `slots` the hash table: numbers, or -1.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from numba import njit

from slackwater.kernels.integers import as_integers, is_fixed
from slackwater.kernels.prefetch import prefetch, prefetch_at
from slackwater.kernels.words import Letters, are_words, copy_letters, load, spelled, store

__all__ = ["Coded", "can_be_coded", "coded", "enter", "find_or_add", "gather", "pack", "spread"]

Ints: TypeAlias = npt.NDArray[np.int64]

MOST = 62
"""a bit for each column that may be null"""
_AHEAD = _EIGHT = 8
"""rounds between fetching a place and going there"""
NO_WORDS = np.empty(0, dtype=np.int64), np.zeros(1, dtype=np.uint8)
for _array in NO_WORDS:
    # as Arrow's buffers, for compiled code tells the two apart
    _array.flags.writeable = False


def _odds() -> npt.NDArray[np.uint64]:
    """An odd number for each integer of a row, that have nothing to do with each other."""
    state = np.arange(1, MOST + 3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    odds: npt.NDArray[np.uint64] = (state ^ (state >> np.uint64(31))) | np.uint64(1)
    return odds


_ODDS = _odds()


def can_be_coded(schema: pl.Schema) -> bool:
    """Whether all columns have a fixed width, or are words."""
    return len(schema) <= MOST and all(is_fixed(each) or are_words(each) for each in schema.dtypes())


class Coded(NamedTuple):
    """Rows that are looked for."""

    rows: Ints
    ends: Ints
    """where the words of each row begin, and the last end; empty if there are none"""
    text: Letters


def coded(frame: pl.DataFrame, names: Sequence[str], first: Ints | None = None) -> Coded:
    """These columns, with another one before them."""
    columns = [frame.get_column(name) for name in names]
    skipped = 0 if first is None else 1
    worded = [i for i, column in enumerate(columns) if are_words(column.dtype)]
    width = skipped + len(names) + 1
    rows = np.empty((frame.height, width + bool(worded)), dtype=np.int64)
    nulls_at = width - 1
    rows[:, nulls_at] = 0
    if first is not None:
        rows[:, 0] = first
    for i, column in enumerate(columns, skipped):
        if i - skipped in worded:
            nulls = column.is_null().to_numpy() if column.null_count() else None
        elif column.dtype == pl.Int64 and not column.null_count():
            rows[:, i], nulls = column.to_numpy(), None
        else:
            rows[:, i], nulls = as_integers(column)
        if nulls is not None:
            rows[nulls, i] = 0
            rows[:, nulls_at] |= nulls.astype(np.int64) << i
    if not worded:
        return Coded(rows, *NO_WORDS)
    words = spelled([columns[i] for i in worded])
    for i, lengths in zip(worded, words.lengths, strict=True):
        rows[:, skipped + i] = lengths
    rows[:, -1] = words.hashes.view(np.int64)
    return Coded(rows, words.ends, words.text)


@njit(cache=True)
def spread(value):
    """Spread the bits: integers that are their own hash often differ in few of them."""
    value ^= value >> np.uint64(33)
    value *= np.uint64(0xFF51AFD7ED558CCD)
    value ^= value >> np.uint64(33)
    return value


@njit(cache=True)
def _places(rows, first, slots):
    """Where each row, from one on, would be if no other were."""
    mask = np.uint64(len(slots) - 1)
    places = np.empty(len(rows), dtype=np.int64)
    for i in range(first, len(rows)):
        value = np.uint64(0)
        for a in range(rows.shape[1]):
            value += np.uint64(rows[i, a]) * _ODDS[a]
        places[i] = spread(value) & mask
    return places


@njit(cache=True)
def find_or_add(
    slots, stored, begins, letters, size, used, rows, ends, text, add, floor, numbers, done
):  # fmt: skip
    """Number the rows from `done` on, until half of the slots are full, or the text is.

    Rows that are new are added, if any are, where their first integer is not below `floor`; else they
    get -1. How far, how many keys there are then, and how many letters.
    """
    # written out: to hand arrays to another function costs more than what it does
    last, width, worded = len(slots) - 1, rows.shape[1], len(ends) > 0
    places = _places(rows, done, slots)
    for i in range(done, len(rows)):
        if i + 2 * _AHEAD < len(rows):
            prefetch_at(slots, places[i + 2 * _AHEAD])
            number = np.int64(slots[places[i + _AHEAD]])
            prefetch(stored, number)
            if worded:
                prefetch_at(begins, number)
                number = np.int64(slots[places[i + _AHEAD // 2]])
                if number >= 0:
                    prefetch_at(letters, begins[number])
        at = places[i]
        number = np.int64(slots[at])
        while number >= 0:
            a = 0
            while a < width and stored[number, a] == rows[i, a]:
                a += 1
            if a == width:
                if not worded:
                    break
                here, there, end = begins[number], ends[i], ends[i + 1]
                while there + _EIGHT <= end and load(letters, here) == load(text, there):
                    here, there = here + _EIGHT, there + _EIGHT
                while there < end and letters[here] == text[there]:
                    here, there = here + 1, there + 1
                if there == end:
                    break
            at = (at + 1) & last
            number = np.int64(slots[at])
        if number < 0 and add and rows[i, 0] >= floor:
            length = ends[i + 1] - ends[i] if worded else 0
            if 2 * size >= len(slots) or used + length > len(letters):
                return i, size, used
            number = size
            for a in range(rows.shape[1]):
                stored[number, a] = rows[i, a]
            if worded:
                begins[number] = used
                there, end = ends[i], ends[i + 1]
                while there + _EIGHT <= end:
                    store(letters, used, load(text, there))
                    used, there = used + _EIGHT, there + _EIGHT
                while there < end:
                    letters[used] = text[there]
                    used, there = used + 1, there + 1
            slots[at] = number
            size += 1
        numbers[i] = number
    return len(rows), size, used


@njit(cache=True)
def enter(slots, stored):
    """Put all keys into the slots, which are free."""
    last = len(slots) - 1
    places = _places(stored, 0, slots)
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
            starts[i] += stored[number, before[j]]
        ends[i + 1] = ends[i] + stored[number, column]
    text = np.empty(ends[-1], dtype=np.uint8)
    for i in range(len(numbers)):
        copy_letters(letters, starts[i], text, ends[i], ends[i + 1] - ends[i])
    return ends, text


@njit(cache=True)
def pack(stored, begins, letters, worded, kept):
    """Move these keys, in ascending order, to the front, and their words: how many letters there are."""
    used = 0
    for i in range(len(kept)):
        number = kept[i]
        for a in range(stored.shape[1]):
            stored[i, a] = stored[number, a]
        if len(worded) > 0:
            begin, length = begins[number], 0
            for j in range(len(worded)):
                length += stored[i, worded[j]]
            copy_letters(letters, begin, letters, used, length)
            begins[i] = used
            used += length
    return used
