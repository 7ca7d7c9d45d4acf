"""Double-double arithmetic on arrays: a number as an unevaluated sum of two floats.

About 32 digits, enough for a few operations whose result is then rounded to a float. Not for sums, which
would have to cancel exactly: see kernels/limbs.py.

T. J. Dekker, *A floating-point technique for extending the available precision* (1971).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Pair", "add", "divide", "from_ints", "multiply", "rounded", "subtract"]

Floats: TypeAlias = npt.NDArray[np.float64]
Pair: TypeAlias = tuple[Floats, Floats]

_SPLITTER = 2.0**27 + 1.0


def from_ints(values: npt.NDArray[np.int64]) -> Pair:
    """Integers of 64 bits, exactly."""
    high = values.astype(np.float64)
    # the float of the largest integers is 2**63, which is none
    back = np.where(high >= 2.0**63, np.int64(2**63 - 1), high.clip(max=2.0**63 - 1025).astype(np.int64))
    low = (values - back).astype(np.float64) - np.where(high >= 2.0**63, 1.0, 0.0)
    return high, low


def _sum(a: Floats, b: Floats) -> Pair:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _product(a: Floats, b: Floats) -> Pair:
    """Exact, as long as nothing overflows."""
    total = a * b
    big = _SPLITTER * a
    a1 = big - (big - a)
    a2 = a - a1
    big = _SPLITTER * b
    b1 = big - (big - b)
    b2 = b - b1
    return total, ((a1 * b1 - total) + a1 * b2 + a2 * b1) + a2 * b2


def _renormal(high: Floats, low: Floats) -> Pair:
    total = high + low
    return total, low - (total - high)


def add(a: Pair, b: Pair) -> Pair:
    """a + b."""
    total, error = _sum(a[0], b[0])
    return _renormal(total, error + (a[1] + b[1]))


def subtract(a: Pair, b: Pair) -> Pair:
    """a - b."""
    total, error = _sum(a[0], -b[0])
    return _renormal(total, error + (a[1] - b[1]))


def multiply(a: Pair, b: Pair) -> Pair:
    """a * b."""
    total, error = _product(a[0], b[0])
    return _renormal(total, error + (a[0] * b[1] + a[1] * b[0]))


def divide(a: Pair, b: Floats) -> Pair:
    """a / b."""
    first = a[0] / b
    product, error = _product(first, b)
    rest = ((a[0] - product) - error + a[1]) / b
    return _renormal(first, rest)


def rounded(a: Pair) -> Floats:
    """The nearest float."""
    return a[0] + a[1]
