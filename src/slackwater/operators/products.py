"""Products: an exact product of numbers that come and go, as cheap as one of a few digits.

The product of n floats has some 53 n bits, of which a result shows 53. So it is held as an interval: a
mantissa of 256 bits, how far that may be off, and an exponent. A factor that comes multiplies it, one
that goes divides it. If both ends of the interval round to the same result, that is the exact product,
rounded once; the same multiset gives the same bits on every way to it. Else, which takes a product that
lies within 2**-190 or so of the middle between two floats, it is computed anew from its factors.

A product that fits the mantissa has no error. Powers of two are in the exponent, so a float, or any
number of them that are small integers, needs no fraction. What has no inverse (zero, the infinities,
NaN) and signs are counted apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Product"]

_BITS = 256
_BEYOND = 1200
"""floats have exponents that are smaller"""


@dataclass
class Product:
    """The product of a multiset: mantissa * 2**exponent, the mantissa being off by `error` at most."""

    zeros: int = 0
    nans: int = 0
    infinities: int = 0
    negatives: int = 0
    factors: dict[tuple[int, int], int] = field(default_factory=dict)
    """all others, without their signs, as fractions: how many copies there are"""
    mantissa: int = 1
    error: int = 0
    exponent: int = 0

    def times(self, value: Any) -> Product:
        """One factor more."""
        return self._changed(value, 1)

    def without(self, value: Any) -> Product:
        """One factor less."""
        return self._changed(value, -1)

    def _changed(self, value: Any, by: int) -> Product:
        is_float = isinstance(value, float)
        if is_float and math.isnan(value):
            self.nans += by
            return self
        if value < 0:
            self.negatives += by
        if is_float and math.isinf(value):
            self.infinities += by
        elif value == 0:
            self.zeros += by
        else:
            numerator, denominator = value.as_integer_ratio()
            factor = abs(numerator), denominator
            copies = self.factors.get(factor, 0) + by
            if copies:
                self.factors[factor] = copies
            else:
                del self.factors[factor]
            self._multiply(*(factor if by > 0 else factor[::-1]))
        return self

    def _multiply(self, numerator: int, denominator: int) -> None:
        """Times a fraction. A mantissa without error is odd, and stays so."""
        up, down = _twos(numerator), _twos(denominator)
        self.exponent += up - down
        self.mantissa *= numerator >> up
        self.error *= numerator >> up
        divisor = denominator >> down
        if divisor > 1:
            whole, rest = divmod(self.mantissa, divisor)
            if rest or self.error:
                shift = _BITS + divisor.bit_length()
                whole = (self.mantissa << shift) // divisor
                # one for what the mantissa has lost, one for what the error has
                self.error = (self.error << shift) // divisor + 2
                self.exponent -= shift
            self.mantissa = whole
        too_long = self.mantissa.bit_length() - _BITS
        if too_long > 0:
            self.mantissa >>= too_long
            self.error = (self.error >> too_long) + 2
            self.exponent += too_long

    def as_float(self) -> float:
        """The product, rounded once."""
        if self.nans or (self.infinities and self.zeros):
            return math.nan
        if self.zeros:
            return 0.0
        sign = -1.0 if self.negatives % 2 else 1.0
        if self.infinities:
            return sign * math.inf
        if not self.error:
            return sign * _rounded(self.mantissa, self.exponent)
        low = _rounded(max(0, self.mantissa - self.error), self.exponent)
        high = _rounded(self.mantissa + self.error, self.exponent)
        return sign * (low if low == high else _quotient(*self._computed_anew()))

    def as_integer(self) -> int | None:
        """The product of integers; None if it does not fit 64 bits."""
        if self.zeros:
            return 0
        if self.bits > 65:
            return None
        if self.error:
            numerator, _ = self._computed_anew()
        else:
            numerator = self.mantissa << self.exponent
        product = -numerator if self.negatives % 2 else numerator
        return product if -(2**63) <= product < 2**63 else None

    @property
    def bits(self) -> int:
        """How many binary digits there are before the point; one more or less, if there is an error."""
        return self.mantissa.bit_length() + self.exponent

    def _computed_anew(self) -> tuple[int, int]:
        """The product as a fraction, of which the mantissa is again as much as it can hold."""
        factors = self.factors.items()
        numerator = _all_of([n**copies for (n, _), copies in factors])
        denominator = _all_of([d**copies for (_, d), copies in factors])
        self.mantissa, self.error, self.exponent = 1, 0, 0
        self._multiply(numerator, denominator)
        return numerator, denominator


def _twos(number: int) -> int:
    """How often it can be halved."""
    return (number & -number).bit_length() - 1


def _all_of(factors: list[int]) -> int:
    """Their product, two and two: multiplication is fast where long numbers meet long ones."""
    while len(factors) > 1:
        odd = factors[-1:] if len(factors) % 2 else []
        factors = [a * b for a, b in zip(factors[::2], factors[1::2], strict=False)] + odd
    return factors[0] if factors else 1


def _rounded(mantissa: int, exponent: int) -> float:
    """mantissa * 2**exponent, to the nearest float."""
    bits = mantissa.bit_length() + exponent
    if not mantissa or bits < -_BEYOND:
        return 0.0
    if bits > _BEYOND:
        return math.inf
    return _quotient(mantissa << max(exponent, 0), 1 << max(-exponent, 0))


def _quotient(numerator: int, denominator: int) -> float:
    """To the nearest float, as Python divides integers of any length."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf
