"""Products: the same as by exact fractions, whatever came and went on the way."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.products import Product

Factor = float | int | Decimal

FACTORS: dict[str, st.SearchStrategy[Any]] = {
    "floats": st.one_of(
        st.floats(),
        # products of which lie on or next to the middle between two floats
        st.sampled_from([1.5, 3.0, 5.0, 1 + 2.0**-52, 1 - 2.0**-53, 2.0**-537, 2.0**600, 5e-324]),
    ),
    "integers": st.one_of(st.integers(-9, 9), st.integers(-(2**127), 2**127 - 1)),
    "decimals": st.decimals(-(10**20), 10**20, places=3, allow_nan=False),
}


def _by_definition(factors: list[Factor]) -> float:
    floats = [f for f in factors if isinstance(f, float) and not math.isfinite(f)]
    if any(map(math.isnan, floats)) or (floats and 0 in factors):
        return math.nan
    negative = sum(f < 0 for f in factors) % 2 == 1
    if floats:
        return -math.inf if negative else math.inf
    try:
        return float(math.prod(map(Fraction, factors), start=Fraction(1)))
    except OverflowError:
        return -math.inf if negative else math.inf


@pytest.mark.parametrize("kind", FACTORS)
@given(data=st.data())
def test_a_product_is_that_of_the_factors_that_are_there(kind: str, data: st.DataObject) -> None:
    product = Product()
    factors: list[Factor] = []
    # many factors, so that the mantissa does not hold them all; then few, of which it does
    for factor in data.draw(st.lists(FACTORS[kind], max_size=40)):
        product.times(factor)
        factors.append(factor)
    for i in data.draw(st.permutations(range(len(factors)))):
        expected = _by_definition(factors)
        found = product.as_float()
        assert found == expected or (math.isnan(found) and math.isnan(expected))
        if kind == "integers":
            whole = math.prod(factors)
            assert product.as_integer() == (whole if -(2**63) <= whole < 2**63 else None)
        product.without(factors[i % len(factors)])
        del factors[i % len(factors)]
    assert product.as_float() == 1.0
    assert not product.factors


@pytest.mark.parametrize("others", [[], [7.3] * 300, [1.1, 1e-200, 3e200] * 90])
def test_a_product_in_the_middle_between_two_floats_is_even(others: list[float]) -> None:
    """3**34 has 54 bits. After other factors it is known only within an error, until computed anew."""
    product = Product()
    for factor in [*others, *[3.0] * 34]:
        product.times(factor)
    for factor in others:
        product.without(factor)
    assert product.as_float() == float(3**34)
    assert product.error == 0


def test_what_is_kept_does_not_grow_with_the_factors() -> None:
    product = Product()
    for i in range(1, 5000):
        product.times(1 + i / 4999)
        assert product.mantissa.bit_length() <= 256
    assert product.error
