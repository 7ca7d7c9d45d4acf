"""Double-double arithmetic: a number as an unevaluated sum of two floats.

About 32 digits, enough for a few operations whose result is then rounded to a float. Not for sums, which
would have to cancel exactly: see kernels/limbs.py.

T. J. Dekker, *A floating-point technique for extending the available precision* (1971).
"""

# mypy: allow-untyped-defs, allow-untyped-calls
# ruff: noqa: PLR0917

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["Pair", "between", "from_ints"]

Floats: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = tuple[Floats, Floats]

_SPLITTER = 2.0**27 + 1.0
_TOP = 2.0**63
"""the float of the largest integers, which is none"""


@njit(cache=True)
def from_ints(values):
    """Integers of 64 bits, exactly, as a pair of columns."""
    high = np.empty(len(values))
    low = np.empty(len(values))
    for i in range(len(values)):
        high[i], low[i] = _from_int(values[i])
    return high, low


@njit(cache=True)
def between(below, above, over, whole, chosen, out):
    """below + (above - below) * over / whole, rounded once, for the chosen rows."""
    for i in range(len(chosen)):
        if chosen[i]:
            low = below[0][i], below[1][i]
            high = above[0][i], above[1][i]
            way = _multiply(_subtract(high, low), _divide(_from_int(over[i]), whole))
            total = _add(low, way)
            out[i] = total[0] + total[1]


@njit(cache=True, inline="always")
def _from_int(value):
    high = float(value)
    if high >= _TOP:
        return high, float(value - np.int64(2**63 - 1)) - 1.0
    return high, float(value - np.int64(high))


@njit(cache=True, inline="always")
def _sum(a, b):
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(cache=True, inline="always")
def _product(a, b):
    """Exact, as long as nothing overflows."""
    total = a * b
    big = _SPLITTER * a
    a1 = big - (big - a)
    a2 = a - a1
    big = _SPLITTER * b
    b1 = big - (big - b)
    b2 = b - b1
    return total, ((a1 * b1 - total) + a1 * b2 + a2 * b1) + a2 * b2


@njit(cache=True, inline="always")
def _renormal(high, low):
    total = high + low
    return total, low - (total - high)


@njit(cache=True, inline="always")
def _add(a, b):
    total, error = _sum(a[0], b[0])
    return _renormal(total, error + (a[1] + b[1]))


@njit(cache=True, inline="always")
def _subtract(a, b):
    total, error = _sum(a[0], -b[0])
    return _renormal(total, error + (a[1] - b[1]))


@njit(cache=True, inline="always")
def _multiply(a, b):
    total, error = _product(a[0], b[0])
    return _renormal(total, error + (a[0] * b[1] + a[1] * b[0]))


@njit(cache=True, inline="always")
def _divide(a, b):
    first = a[0] / b
    product, error = _product(first, b)
    rest = ((a[0] - product) - error + a[1]) / b
    return _renormal(first, rest)
