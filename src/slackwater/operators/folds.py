"""Folds: aggregations that keep a Python value per group, changed by every copy that comes or goes.

A product, a user's fold and a function of the whole group are the same to whoever leads them through a
timeline: a new value, one copy more, one copy less, the result. What a user's function raises means that
a group has no result. No single row is to blame for that, so none can be set aside: `NoResult` stops the
query, and says of which group it was, and when.
"""

from __future__ import annotations

import datetime as dt
import reprlib
from bisect import bisect_left, insort
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.errors import InvalidElement
from slackwater.identity import place
from slackwater.kernels import records as kernels
from slackwater.kernels.grouping import Keys
from slackwater.kernels.sorted_lists import Script
from slackwater.operators.products import Product
from slackwater.payloads import payload_frame
from slackwater.plan import aggregations as agg

__all__ = ["Fold", "NoResult", "fold_of"]

Ints = npt.NDArray[np.int64]

_RESULT = "result"


class NoResult(Exception):
    """A group has no result; whoever knows the groups says of which, and when."""

    def __init__(self, fact: str, detail: str, hint: str) -> None:
        super().__init__(fact)
        self.fact, self.detail, self.hint = fact, detail, hint
        self.key = -1
        self.entry: int | None = None
        """where the result was to go; None if nobody had asked for one yet"""


_UNCHANGING = (type(None), int, float, str, bytes, Decimal, dt.date, dt.timedelta)


_HALF = 2**63
"""integers of 64 bits are below, and not below its negative"""


@dataclass(frozen=True)
class Fold:
    """What is kept of a group, and how: `own` is the label that its values have, `start` their order."""

    who: str
    dtype: pl.DataType
    own: int
    start: int | None
    new: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    remove: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]

    def run(self, groups: dict[int, Any], script: Script, known: Keys) -> list[Any]:
        """Follow the moves; the results that are asked for. A group is (how many copies, its value)."""
        moves, a, b, member = script
        is_read = moves[:, kernels.S_COUNT] == 0
        moves = moves[is_read | ((moves[:, kernels.S_LABELS] >> member) & 1 == 1)]
        changes = moves[moves[:, kernels.S_COUNT] != 0]
        rows = known.tuples(np.ascontiguousarray(changes[:, a]))
        starts = [0] * len(changes) if b is None else changes[:, b].tolist()
        items = rows if self.start is None else zip(starts, rows, strict=True)
        waiting = iter(items)
        results: list[Any] = []
        at, key = 0, -1
        try:
            for at, (key, count) in enumerate(moves[:, [kernels.S_KEY, kernels.S_COUNT]].tolist()):  # noqa: B007
                if count:
                    self._move(groups, key, count, next(waiting))
                else:
                    size, group = groups.get(key) or (0, None)
                    result = self.result(group) if size else None
                    # it may be the group itself, which goes on changing
                    results.append(result if isinstance(result, _UNCHANGING) else deepcopy(result))
        except NoResult as problem:
            problem.key, problem.entry = key, _next_read(moves[at:], key)
            raise
        return results

    def _move(self, groups: dict[int, Any], key: int, count: int, item: Any) -> None:
        """So many copies of an item more, or less."""
        size, group = groups.get(key) or (0, self.new())
        change = self.add if count > 0 else self.remove
        for _ in range(count if count > 0 else -count):
            group = change(group, item)
        if size + count:
            groups[key] = size + count, group
        else:
            del groups[key]

    def numbered(self, results: list[Any], reads: Ints, known: Keys) -> Ints:
        """The numbers of results, which were asked for so; what the type cannot hold is refused."""
        if self._is_plain(results):
            return known.number_of(np.array(results, np.float64 if self.dtype.is_float() else np.int64))
        try:
            return known.number(payload_frame([{_RESULT: result} for result in results], self.schema))
        except InvalidElement as refusal:
            for read, result in zip(reads, results, strict=True):
                if not self._fits(result):
                    problem = NoResult(
                        f"{self.who}: a result is not of type {self.dtype}",
                        f"it is {reprlib.repr(result)}, of type {type(result).__name__}",
                        "declare another dtype, or convert the result",
                    )
                    problem.key, problem.entry = int(read[kernels.S_KEY]), int(read[kernels.S_LABELS])
                    raise problem from refusal
            raise

    def _is_plain(self, results: list[Any]) -> bool:
        """Whether the type holds all of them as they are, as far as that is seen at once."""
        if self.dtype == pl.Float64:
            return all(type(result) is float for result in results)
        if self.dtype == pl.Int64:
            return all(type(result) is int and -_HALF <= result < _HALF for result in results)
        return False

    def _fits(self, result: Any) -> bool:
        try:
            payload_frame([{_RESULT: result}], self.schema)
        except InvalidElement:
            return False
        return True

    @property
    def schema(self) -> pl.Schema:
        """Of a frame of results."""
        return pl.Schema({_RESULT: self.dtype})


def _next_read(moves: Ints, key: int) -> int | None:
    """The entry whose result the moves lead to next."""
    reads = moves[(moves[:, kernels.S_COUNT] == 0) & (moves[:, kernels.S_KEY] == key)]
    return int(reads[0, kernels.S_LABELS]) if len(reads) else None


def fold_of(
    name: str, aggregation: agg.Aggregation, dtype: pl.DataType, own: int, start: int | None
) -> Fold:
    """How an aggregation is computed whose values have the label `own`."""
    who = f"aggregate {name}"
    if isinstance(aggregation, agg.GroupFunction):
        asked = _asked(who, aggregation.function, "it is given one list of values per column")
        return Fold(who, dtype, own, start, list, _put, _taken, lambda group: asked(*_columns(group)))
    if isinstance(aggregation, agg.Product):
        return Fold(
            who,
            dtype,
            own,
            start,
            Product,
            lambda product, row: product.times(row[0]),
            lambda product, row: product.without(row[0]),
            partial(_whole, who) if dtype.is_integer() else Product.as_float,
        )
    assert isinstance(aggregation, agg.Fold), aggregation
    any_order = "it is called with every value that comes and goes, in any order"
    new = _asked(who, aggregation.init, "it makes the state of a group without values")
    add, remove = (_asked(who, f, any_order) for f in (aggregation.add, aggregation.remove))
    result = _asked(who, aggregation.result, "it is given the state of a group that has values")
    return Fold(
        who,
        dtype,
        own,
        start,
        new,
        lambda state, row: add(state, row[0]),
        lambda state, row: remove(state, row[0]),
        result,
    )


def _asked(who: str, function: Callable[..., Any], when: str) -> Callable[..., Any]:
    """A user's function; what it raises becomes `NoResult`."""

    def asked(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as problem:
            # a user's function may raise anything: all of it means that there is no result
            name = getattr(function, "__name__", type(function).__name__)
            given = ", ".join(map(reprlib.repr, arguments))
            raise NoResult(
                f"{who}: {name} failed",
                f"{type(problem).__name__}: {problem}; it was called as {name}({given})",
                f"{when}; no single row is to blame that could be set aside",
            ) from problem

    return asked


# a function of the whole group keeps it in order


def _put(group: list[Any], item: tuple[int, tuple[Any, ...]]) -> list[Any]:
    start, values = item
    insort(group, ((start, place(values)), values), key=_first_of)
    return group


def _taken(group: list[Any], item: tuple[int, tuple[Any, ...]]) -> list[Any]:
    start, values = item
    del group[bisect_left(group, (start, place(values)), key=_first_of)]
    return group


def _first_of(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def _columns(group: list[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*(values for _, values in group), strict=True)]


def _whole(who: str, product: Product) -> int:
    """The product of integers."""
    whole = product.as_integer()
    if whole is None:
        raise NoResult(
            f"{who}: the product does not fit 64 bits",
            f"it has some {product.bits} bits",
            "cast the column to a float",
        )
    return whole
