"""Patterns: which values of one column a promise speaks of.

ANY matches every value, null included; a constant the same value (identity.py: null = null, NaN = NaN);
a range the values between its ends, neither null nor NaN; a list its members; EMPTY nothing. Patterns of
one column are closed under intersection (`combine`), which is what makes punctuations so (paper 4
section 3).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

from slackwater.identity import identity

__all__ = ["ANY", "EMPTY", "Any_", "Constant", "Empty", "OneOf", "Pattern", "Range"]


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801  # `Any` is another thing in Python
    """Every value."""


@dataclass(frozen=True, slots=True)
class Empty:
    """No value."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """One value."""

    value: Any

    def _key(self) -> Hashable:
        return identity(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class Range:
    """The values between two ends, each of which belongs to it or not; None: there is no such end."""

    low: Any = None
    high: Any = None
    low_closed: bool = True
    high_closed: bool = True


@dataclass(frozen=True, slots=True)
class OneOf:
    """The values of a list: at least two, in ascending order, none twice."""

    values: tuple[Any, ...]


Pattern: TypeAlias = Any_ | Constant | Range | OneOf | Empty

ANY = Any_()
EMPTY = Empty()
