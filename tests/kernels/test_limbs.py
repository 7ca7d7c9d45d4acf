"""Exact sums in limbs against Fractions: the nearest float, whatever was added and taken away."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.kernels import limbs

LEAST = math.ulp(0.0)
finite = st.floats(allow_nan=False, allow_infinity=False)
scales = st.builds(math.ldexp, st.floats(-1, 1), st.integers(-1080, 1023))
edges = st.sampled_from(
    (
        0.0,
        -0.0,
        1.0,
        LEAST,
        -LEAST,
        3 * LEAST,
        sys.float_info.min,
        sys.float_info.max,
        2.0**1023,
        1e20,
        0.1,
    )
)
floats = st.lists(finite | scales | edges, min_size=1, max_size=6)


def summed(numbers: limbs.Numbers, limb_range: range) -> limbs.Limbs:
    """One row with the sum of all of them; a column for each limb that was touched."""
    sums = np.zeros((1, len(limb_range)), dtype=np.int64)
    touched = set()
    for j, piece in enumerate(numbers.pieces):
        columns = (numbers.lowest + j - limb_range.start + np.zeros_like(piece))[piece != 0]
        np.add.at(sums[0], columns, piece[piece != 0])
        touched |= set(columns.tolist())
    at = np.array(sorted(touched), dtype=np.int64)
    return limbs.Limbs(sums, at, limb_range.start + at)


def sums_of(values: pl.Series) -> tuple[limbs.Limbs, limbs.Limbs]:
    """Of the values, and of their squares."""
    numbers = limbs.split(values, values.is_not_null().to_numpy())
    own = limbs.limbs_of(values.dtype)
    squares = limbs.squared(numbers)
    return summed(numbers, own), summed(squares, range(2 * own.start, 2 * own.stop))


def nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def same(found: np.ndarray, expected: float) -> bool:
    """The same bits, but that a zero has no sign."""
    return bool((found + 0.0).tobytes() == np.array([expected + 0.0]).tobytes())


@given(floats)
@example([LEAST, LEAST, LEAST])
@example([1.7e308, 1.7e308])
@example([1e40, 1e20, 1.0, -1e40, -1e20])
@example([sys.float_info.max, 2.0**970])
def test_the_sum_of_floats(values: list[float]):
    total, _ = sums_of(pl.Series(values))
    expected = nearest(sum(map(Fraction, values), start=Fraction()))
    assert same(limbs.quotients(total, np.array([1])), expected)


@given(floats, st.integers(1, 2**31 - 1), st.integers(0, 38))
@example([LEAST], 2, 0)
@example([3 * LEAST], 2, 0)
@example([LEAST], 3, 0)
@example([sys.float_info.min, LEAST], 2, 0)
@example([1e-300], 2**31 - 1, 20)
@example([LEAST], 2**31 - 1, 38)
def test_the_quotient_of_floats(values: list[float], count: int, scale: int):
    total, _ = sums_of(pl.Series(values))
    exact = sum(map(Fraction, values), start=Fraction()) / count / 10**scale
    assert same(limbs.quotients(total, np.array([count]), scale), nearest(exact))


def variance(values: list[Fraction]) -> Fraction:
    mean = sum(values, start=Fraction()) / len(values)
    return sum(((x - mean) ** 2 for x in values), start=Fraction()) / (len(values) - 1)


@given(floats.filter(lambda values: len(values) > 1), st.integers(0, 38))
@example([1e12 + 0.1, 1e12 + 0.3], 0)
@example([1.0, 1e200], 0)
@example([LEAST, 0.0], 0)
@example([sys.float_info.max, -sys.float_info.max], 38)
def test_the_variance_of_floats(values: list[float], scale: int):
    total, squares = sums_of(pl.Series(values))
    found = limbs.variances(total, squares, np.array([len(values)]), scale)
    assert same(found, nearest(variance(list(map(Fraction, values))) / 100**scale))


INTEGERS: dict[pl.DataType, tuple[int, int]] = {
    pl.Int8(): (-(2**7), 2**7 - 1),
    pl.Int64(): (-(2**63), 2**63 - 1),
    pl.UInt64(): (0, 2**64 - 1),
    pl.Int128(): (-(2**127), 2**127 - 1),
    pl.UInt128(): (0, 2**128 - 1),
}


def drawn(low: int, high: int) -> st.SearchStrategy[list[int]]:
    near = st.sampled_from(
        (0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64, 2**127 - 1, low, high)
    )
    number = st.integers(low, high) | near.flatmap(lambda n: st.sampled_from((n, -n)))
    return st.lists(number.filter(lambda n: low <= n <= high), min_size=2, max_size=5)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype: pl.DataType):
    @given(drawn(*INTEGERS[dtype]))
    def law(values: list[int]) -> None:
        total, squares = sums_of(pl.Series(values, dtype=dtype))
        exact = sum(values)
        assert limbs.whole(total) == [exact]
        assert limbs.whole(squares) == [sum(value**2 for value in values)]
        count = np.array([len(values)])
        assert same(limbs.quotients(total, count), nearest(Fraction(exact, len(values))))
        assert same(
            limbs.variances(total, squares, count), nearest(variance(list(map(Fraction, values))))
        )
        for bits in (64, 128):
            words, [fits] = limbs.integers(total, bits)
            assert fits == (-(2 ** (bits - 1)) <= exact < 2 ** (bits - 1))
            if fits:
                assert int.from_bytes(words.tobytes(), "little", signed=True) == exact

    law()


def test_a_negative_limb_and_one_that_carries():
    cases: list[tuple[list[int], int]] = [([-1, 1], 2**32 - 1), ([2**40, -(2**8)], 0), ([-5, 0], -5)]
    for row, exact in cases:
        total = limbs.Limbs(np.array([row]), np.array([0, 1]), np.array([0, 1]))
        assert limbs.integers(total, 64)[0].view(np.int64).tolist() == [[exact]]
        assert limbs.quotients(total, np.array([1])).tolist() == [exact]


@given(
    st.integers(-(2**62), 2**62) | st.integers(-(2**21), 2**21),
    st.integers(-(2**62), 2**62) | st.integers(-(2**53), 2**53),
    st.integers(1, 2**31 - 1),
)
@example(2**20 - 1, 2**52 - 1, 3)
@example(-(2**20) + 1, -(2**52) + 1, 7)
@example(2**20, 2**52, 3)
@example(-(2**62), 0, 3)
@example(1, -(2**32), 5)
def test_the_quotient_of_two_limbs(high: int, low: int, count: int):
    # sums of pieces, which may be of either sign, and longer than the pieces were
    total = limbs.Limbs(np.array([[low, high]]), np.array([0, 1]), np.array([0, 1]))
    exact = Fraction(low + (high << limbs.BITS), count)
    assert same(limbs.quotients(total, np.array([count])), nearest(exact))


def test_what_is_not_present_is_zero():
    present = np.array([True, False])
    wide = pl.Series([2**64, None], dtype=pl.Int128)
    for values in (pl.Series([1.5, 2.5]), pl.Series([7, 8]), pl.Series([2**40, None]), wide):
        assert all(piece[1] == 0 for piece in limbs.split(values, present).pieces)
