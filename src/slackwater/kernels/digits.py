"""Digits: arithmetic with numbers of many digits of 32 bits, in compiled loops. See kernels/limbs.py.

Floats are split into pieces; pieces are squared. A row of limbs is carried into digits; what is to be
divided is divided as on paper, with as many digits behind the point as it takes; then the first 53 bits
count, or fewer where floats have fewer, and the others decide about the last of them: half to even.

To be rounded, a number needs 64 bits and whether there are more, thus three digits, the first of which
is not zero. Each division by less than 2**32 can make one more digit zero, so there is one more behind
the point for each.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["quotients", "split", "square", "variances"]

_DIGIT = 32
_MANTISSA = 53
_BEHIND = 2
"""digits behind the first one"""
_DROPPED = 11
"""bits of a word that a float has no room for"""
_LEAST = -1074
"""the exponent of the least float"""
_LARGEST = 971
"""the exponent of the last bit of the largest"""

# numba takes a mixture of signed and unsigned integers for floats
_ZERO, _ONE, _BITS, _MASK = np.uint64(0), np.uint64(1), np.uint64(_DIGIT), np.uint64(2**_DIGIT - 1)
_HALF_WORD = np.uint64(2**63)
_FULL = np.uint64(2**53)
_LOW, _HIGH = np.int64(2**52), np.int64(2**20)
"""two limbs that are nearer to zero stand for a number below 2**53, which is a float"""


@njit(cache=True)
def split(values, lowest, pieces):
    """Finite floats in three pieces each; `lowest` is the limb of the first."""
    for i in range(len(values)):
        fraction, exponent = math.frexp(abs(values[i]))
        mantissa = np.uint64(np.int64(math.ldexp(fraction, _MANTISSA)))
        last = np.int64(exponent) - _MANTISSA
        up = np.uint64(last & (_DIGIT - 1))
        down = _BITS - up
        sign = -1 if values[i] < 0.0 else 1
        lowest[i] = last // _DIGIT
        pieces[0, i] = sign * np.int64((mantissa << up) & _MASK)
        pieces[1, i] = sign * np.int64((mantissa >> down) & _MASK)
        pieces[2, i] = sign * np.int64((mantissa >> _BITS) >> down)


@njit(cache=True)
def square(pieces, out):
    """The squares of numbers in pieces, in twice as many."""
    size = len(pieces)
    digits = np.zeros(size, dtype=np.uint64)
    product = np.zeros(2 * size, dtype=np.uint64)
    for i in range(pieces.shape[1]):
        for j in range(size):
            digits[j] = np.uint64(abs(pieces[j, i]))
        product[:] = _ZERO
        _add_product(digits, digits, product, 0)
        for j in range(2 * size):
            out[j, i] = np.int64(product[j])


@njit(cache=True, inline="always")
def _add_product(left, right, out, first):
    """Add the product of two numbers, from digit `first` on."""
    for a in range(len(left)):
        if left[a] == _ZERO:
            continue
        carry = _ZERO
        for b in range(len(right)):
            part = out[first + a + b] + left[a] * right[b] + carry
            out[first + a + b] = part & _MASK
            carry = part >> _BITS
        out[first + a + len(right)] = carry


@njit(cache=True, inline="always")
def _carry(sums, i, columns, limbs, low, digits, first):
    """The digits of the absolute value of row i, from `first` on; whether it is negative."""
    for sign in (1, -1):
        carry = np.int64(0)
        c = 0
        for d in range(first, len(digits)):
            if c < len(limbs) and limbs[c] == low + d - first:
                carry += sign * sums[i, columns[c]]
                c += 1
            digits[d] = np.uint64(carry & np.int64(2**_DIGIT - 1))
            carry >>= _DIGIT
        if carry == 0:
            return sign < 0
    return False


@njit(cache=True, inline="always")
def _divide(digits, divisor):
    """Divide by less than 2**32; whether something is left over."""
    if divisor == 1:
        return False
    by = np.uint64(divisor)
    rest = _ZERO
    for d in range(len(digits) - 1, -1, -1):
        part = (rest << _BITS) | digits[d]
        digits[d] = part // by
        rest = part - digits[d] * by
    return rest != _ZERO


@njit(cache=True, inline="always")
def _rounded(digits, has_rest, low):
    """The nearest float; the first digit stands for limb `low`."""
    top = len(digits) - 1
    while top >= _BEHIND and digits[top] == _ZERO:
        top -= 1
    if top < _BEHIND:
        # it is zero: anything else begins further up
        return 0.0
    for d in range(top - _BEHIND):
        has_rest = has_rest or digits[d] != _ZERO
    bits = math.frexp(float(digits[top]))[1]
    up, down = np.uint64(_DIGIT - bits), np.uint64(bits)
    last = digits[top - 2]
    word = (((digits[top] << _BITS) | digits[top - 1]) << up) | (last >> down)
    if has_rest or (last & ((_ONE << down) - _ONE)) != _ZERO:
        # far below the bits that count: it tells that there is more
        word |= _ONE
    exponent = _DIGIT * (low + top - 1) - (_DIGIT - bits)
    drop = max(_DROPPED, _LEAST - exponent)
    if drop > 2 * _DIGIT:
        return 0.0
    if drop == 2 * _DIGIT:
        return math.ldexp(1.0, _LEAST) if word > _HALF_WORD else 0.0
    by = np.uint64(drop)
    kept = word >> by
    dropped, half = word & ((_ONE << by) - _ONE), _ONE << (by - _ONE)
    if dropped > half or (dropped == half and kept & _ONE == _ONE):
        kept += _ONE
    exponent += drop
    if exponent > _LARGEST or (exponent == _LARGEST and kept == _FULL):
        return np.inf
    return math.ldexp(float(kept), exponent)


@njit(cache=True)
def quotients(sums, columns, limbs, count, units, out):
    """Sums in these columns, which stand for these limbs in ascending order, divided.

    By the counts, one for each row, and by the units.

    Where both numbers are floats as they are, so is their quotient, rounded once: most integers are.
    """
    in_reach = len(units) == 0 and limbs[0] == 0 and limbs[-1] < 2
    behind = _BEHIND + 1 + len(units)
    low = limbs[0]
    # what is carried from the last limb needs a digit, too
    digits = np.zeros(behind + limbs[-1] - low + 2, dtype=np.uint64)
    for i in range(len(sums)):
        if in_reach:
            first = sums[i, columns[0]]
            second = np.int64(0) if len(limbs) == 1 else sums[i, columns[1]]
            # not by abs, which is negative of the least integer
            if -_LOW < first < _LOW and -_HIGH < second < _HIGH:
                out[i] = float(first + (second << _DIGIT)) / float(count[i])
                continue
        digits[:behind] = _ZERO
        negative = _carry(sums, i, columns, limbs, low, digits, behind)
        has_rest = _divide(digits, count[i])
        for unit in units:
            has_rest = _divide(digits, unit) or has_rest
        value = _rounded(digits, has_rest, low - behind)
        out[i] = -value if negative else value


@njit(cache=True)
def variances(
    sums, columns, limbs,  # of the numbers
    square_sums, square_columns, square_limbs,  # ... and of their squares
    count, units, out,
):  # fmt: skip
    """(n * squares - sum**2) / (n * (n - 1)) of each row with n > 1, divided twice by the units."""
    behind = _BEHIND + 2 + 2 * len(units)
    total = np.zeros(limbs[-1] - limbs[0] + 2, dtype=np.uint64)
    squares = np.zeros(square_limbs[-1] - square_limbs[0] + 2, dtype=np.uint64)
    low = min(2 * limbs[0], square_limbs[0])
    at_square, at_total = behind + square_limbs[0] - low, behind + 2 * limbs[0] - low
    # n times the squares takes one digit more than they do
    size = max(at_square + len(squares) + 1, at_total + 2 * len(total))
    digits = np.zeros(size, dtype=np.uint64)
    product = np.zeros_like(digits)
    for i in range(len(sums)):
        out[i] = 0.0
        if count[i] < 2:
            continue
        _carry(sums, i, columns, limbs, limbs[0], total, 0)
        _carry(square_sums, i, square_columns, square_limbs, square_limbs[0], squares, 0)
        digits[:] = _ZERO
        product[:] = _ZERO
        _add_product(total, total, product, at_total)
        carry, times = _ZERO, np.uint64(count[i])
        for d in range(len(squares)):
            part = squares[d] * times + carry
            digits[at_square + d] = part & _MASK
            carry = part >> _BITS
        digits[at_square + len(squares)] = carry
        borrow = np.int64(0)
        for d in range(len(digits)):
            part = np.int64(digits[d]) - np.int64(product[d]) + borrow
            digits[d] = np.uint64(part & np.int64(2**_DIGIT - 1))
            borrow = part >> _DIGIT
        has_rest = _divide(digits, count[i])
        has_rest = _divide(digits, count[i] - 1) or has_rest
        for unit in units:
            has_rest = _divide(digits, unit) or has_rest
            has_rest = _divide(digits, unit) or has_rest
        out[i] = _rounded(digits, has_rest, low - behind)
