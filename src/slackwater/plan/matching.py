"""Patterns in rows: what `.match` looks for, as a tree, and what its conditions may speak of.

    pattern     = sequence { "|" sequence }         the first that matches, in the order written
    sequence    = repeated { repeated }             one behind the other, by neighbouring rows
    repeated    = part [ "?" | "*" | "+" ]          as often as it matches, and nothing is given back
    part        = SYMBOL | "(" pattern ")"

A symbol takes one row. What has been decided is not tried again in another way: a quantifier takes all
that it can, an alternative that has matched is not left for the next one. So there is at most one match
from a row on (a *parsing expression grammar*, B. Ford, POPL 2004).

A condition reads columns of the row at hand, and *references*: what the rows that were taken so far add
up to, the one at hand included. A reference is a column with a name that no user would give one, as a
user's function is (functions.py), so that it composes with all expressions.

Not here: what a match is (oracle.py), how it is found (operators/match.py).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan.functions import functions_in, shown
from slackwater.plan.schemas import require_columns

__all__ = [
    "PAST_LAST_ROW",
    "TO_NEXT_ROW",
    "AfterMatch",
    "Choice",
    "Matched",
    "Pattern",
    "Reference",
    "Repeat",
    "Sequence",
    "Symbol",
    "columns_in",
    "decides_by_one_row",
    "is_plain",
    "matched",
    "parsed",
    "previous",
    "read_plainly",
    "references_in",
    "symbols_of",
]


class AfterMatch(enum.Enum):
    """Where the next match may begin."""

    PAST_LAST_ROW = "behind its last row"
    TO_NEXT_ROW = "behind its first row"


PAST_LAST_ROW, TO_NEXT_ROW = AfterMatch


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row that satisfies the symbol's condition."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part behind the other."""

    parts: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " ".join(f"({each})" if isinstance(each, Choice) else str(each) for each in self.parts)


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of several ways that matches."""

    ways: tuple[Pattern, ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.ways))


@dataclass(frozen=True, slots=True)
class Repeat:
    """As often as the part matches: at least so often, and no more than once if `once`."""

    part: Pattern
    least: int
    once: bool

    def __str__(self) -> str:
        mark = "?" if self.once else "+" if self.least else "*"
        return f"{self.part}{mark}" if isinstance(self.part, Symbol) else f"({self.part}){mark}"


Pattern: TypeAlias = Symbol | Sequence | Choice | Repeat

_TOKEN = re.compile(r"\s*(?:(?P<symbol>[^\W\d]\w*)|(?P<mark>[()|?*+])|(?P<wrong>\S))")
_QUANTIFIERS = {"?": (0, True), "*": (0, False), "+": (1, False)}


def parsed(text: str) -> Pattern:
    """A pattern as it is written.

    >>> parsed("A (B | C D)* E?")
    Sequence(parts=(Symbol(name='A'), Repeat(part=Choice(ways=(Symbol(name='B'), \
Sequence(parts=(Symbol(name='C'), Symbol(name='D'))))), least=0, once=False), \
Repeat(part=Symbol(name='E'), least=0, once=True)))
    >>> parsed("A (B C")
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: match: the pattern ends where ')' is missing
      detail: 'A (B C', at place 7
      hint: symbols, parentheses, | ? * and +, as in 'A (B | C)* D'
    """
    if not isinstance(text, str):
        raise PlanError(
            f"match: {text!r} is not a pattern",
            detail=f"it is of type {type(text).__name__}",
            hint="a text, as in 'A B* C'",
        )
    return _Parser(text).whole()


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [
            (each[each.lastgroup or ""], each.start(each.lastgroup or ""))
            for each in _TOKEN.finditer(text)
        ]
        self.at = 0

    @property
    def next(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def refuse(self, fact: str) -> PlanError:
        place = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)
        return PlanError(
            f"match: {fact}",
            detail=f"{self.text!r}, at place {place + 1}",
            hint="symbols, parentheses, | ? * and +, as in 'A (B | C)* D'",
        )

    def whole(self) -> Pattern:
        pattern = self.choice()
        if self.next:
            raise self.refuse(f"{self.next!r} is not expected here")
        return pattern

    def choice(self) -> Pattern:
        ways = [self.sequence()]
        while self.next == "|":
            self.at += 1
            ways.append(self.sequence())
        return ways[0] if len(ways) == 1 else Choice(tuple(ways))

    def sequence(self) -> Pattern:
        parts = []
        while self.next and self.next not in "|)":
            parts.append(self.repeated())
        if not parts:
            raise self.refuse(
                f"there is nothing before {self.next!r}" if self.next else "a symbol is missing"
            )
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self) -> Pattern:
        part = self.part()
        if self.next not in _QUANTIFIERS:
            return part
        if _may_be_empty(part):
            raise self.refuse(f"{self.next!r} repeats what may match no row at all")
        least, once = _QUANTIFIERS[self.next]
        self.at += 1
        return Repeat(part, least, once)

    def part(self) -> Pattern:
        found = self.next
        if found == "(":
            self.at += 1
            inner = self.choice()
            if self.next != ")":
                raise self.refuse("the pattern ends where ')' is missing")
            self.at += 1
            return inner
        if not re.fullmatch(r"[^\W\d]\w*", found):
            raise self.refuse(f"{found!r} is not expected here")
        self.at += 1
        return Symbol(found)


def _may_be_empty(pattern: Pattern) -> bool:
    """Whether it may match without taking a row."""
    match pattern:
        case Symbol():
            return False
        case Sequence(parts):
            return all(map(_may_be_empty, parts))
        case Choice(ways):
            return any(map(_may_be_empty, ways))
        case Repeat(part, least, _):
            return least == 0 or _may_be_empty(part)


def symbols_of(pattern: Pattern) -> list[str]:
    """The symbols of a pattern, each once, as they come."""
    return list(dict.fromkeys(_symbols(pattern)))


def _symbols(pattern: Pattern) -> Iterator[str]:
    match pattern:
        case Symbol(name):
            yield name
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _symbols(part)
        case Repeat(part, _, _):
            yield from _symbols(part)


def decides_by_one_row(pattern: Pattern) -> bool:
    """Whether a match is complete as soon as there is one, and no row is ever looked at twice.

    That is so if the last part is a symbol, or a choice of symbols, and whatever may be left out, or
    may be another, is a symbol.
    """
    *front, last = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    return _is_one_row(last) and all(
        _is_one_row(part) or (isinstance(part, Repeat) and _is_one_row(part.part)) for part in front
    )


def _is_one_row(pattern: Pattern) -> bool:
    if isinstance(pattern, Choice):
        return all(map(_is_one_row, pattern.ways))
    return isinstance(pattern, Symbol)


# What conditions and measures speak of

_MARK, _OF = "\x01", "\x02"
_REFERENCE = re.compile(rf"{_MARK}(\w+)\((\w*){_OF}(.*)\)", re.DOTALL)
_SUMS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32)
PREVIOUS = "previous"


@dataclass(frozen=True, slots=True)
class Reference:
    """What the rows taken so far say: of those of a symbol, or of all; or the row before this one."""

    kind: str
    symbol: str | None
    column: str | None

    @property
    def name(self) -> str:
        """The name of the column that stands for it."""
        return f"{_MARK}{self.kind}({self.symbol or ''}{_OF}{self.column or ''})"

    def __str__(self) -> str:
        return f"{self.kind}({'.'.join(filter(None, (self.symbol, self.column)))})"

    def counts(self, symbol: str) -> bool:
        """Whether rows that this symbol takes are among those that it speaks of."""
        return self.symbol in (None, symbol)

    def type_over(self, schema: pl.Schema, who: str) -> pl.DataType:
        """Its type, over rows of that schema."""
        if self.column is None:
            return pl.Int64()
        require_columns(schema, (self.column,), f"{who}: {self}")
        dtype = schema[self.column]
        if self.kind == "count":
            return pl.Int64()
        if self.kind in ("sum", "avg"):
            if dtype not in _SUMS and not dtype.is_float():
                raise PlanError(
                    f"{who}: {self} adds up numbers",
                    detail=f"{self.column!r} is {dtype}",
                    hint="integers of at most 64 bits, or floats: select(x=sw.col('x').cast(float))",
                )
            return pl.Float64() if self.kind == "avg" or dtype.is_float() else pl.Int64()
        if self.kind in ("min", "max") and dtype.is_nested():
            raise PlanError(f"{who}: {self}: values must have an order", detail=f"they are {dtype}")
        return dtype


@dataclass(frozen=True, slots=True)
class Matched:
    """The rows of a match that a symbol has taken so far; or all of them."""

    symbol: str | None = None

    def count(self, column: str | None = None) -> pl.Expr:
        """How many there are; of a column, how many have a value there."""
        return self._of("count", column)

    def sum(self, column: str) -> pl.Expr:
        """What their values add up to, in the order of the rows; of none it is 0."""
        return self._of("sum", column)

    def avg(self, column: str) -> pl.Expr:
        """Their mean; of none it is null, as all that follow."""
        return self._of("avg", column)

    def min(self, column: str) -> pl.Expr:
        """The least value."""
        return self._of("min", column)

    def max(self, column: str) -> pl.Expr:
        """The greatest value."""
        return self._of("max", column)

    def first(self, column: str) -> pl.Expr:
        """The value of the first row."""
        return self._of("first", column)

    def last(self, column: str) -> pl.Expr:
        """The value of the last row; in the symbol's own condition that is the row at hand."""
        return self._of("last", column)

    def _of(self, kind: str, column: str | None) -> pl.Expr:
        if column is not None and not _is_named(column):
            raise PlanError(
                f"matched: {kind} is of a column",
                detail=f"{column!r} is of type {type(column).__name__}",
                hint=f"sw.matched('A').{kind}('price'); compute a column with select first",
            )
        return pl.col(Reference(kind, self.symbol, column).name)


def matched(symbol: str | None = None) -> Matched:
    """Of a match, the rows that a symbol has taken so far, the one at hand included; or all rows.

    For conditions and measures of `match`.

    >>> import slackwater as sw
    >>> read_plainly(sw.matched("A").sum("price") < 30)
    '[(sum(A.price)) < (dyn int: 30)]'
    """
    if symbol is not None and not (_is_named(symbol) and re.fullmatch(r"[^\W\d]\w*", symbol)):
        raise PlanError(f"matched: {symbol!r} is not a symbol", hint="sw.matched('A').sum('price')")
    return Matched(symbol)


def previous(column: str) -> pl.Expr:
    """In conditions of `match`: the value of the match's row before this one; null if there is none."""
    if not _is_named(column):
        raise PlanError(f"previous: {column!r} is not the name of a column", hint="sw.previous('price')")
    return pl.col(Reference(PREVIOUS, None, column).name)


def _is_named(name: object) -> bool:
    """Whether it can be the name of something."""
    return isinstance(name, str) and name != ""


def references_in(expression: pl.Expr) -> dict[str, Reference]:
    """What an expression speaks of, by the columns that stand for it."""
    found = {}
    for name in _columns_in(expression):
        if text := _REFERENCE.fullmatch(name):
            kind, symbol, column = text.groups()
            found[name] = Reference(kind, symbol or None, column or None)
    return found


def is_plain(name: str) -> bool:
    """Whether it is the name of a column of the rows, and stands for nothing else."""
    return not name.startswith(_MARK) or _REFERENCE.fullmatch(name) is None


def _columns_in(expression: pl.Expr) -> Iterator[str]:
    """All columns that are read, also by the arguments of functions."""
    functions = functions_in(expression)
    for name in expression.meta.root_names():
        if name in functions:
            for argument in functions[name].arguments:
                yield from _columns_in(argument)
        else:
            yield name


def columns_in(expressions: Iterable[pl.Expr]) -> list[str]:
    """The plain columns that expressions read."""
    names = (name for each in expressions for name in _columns_in(each))
    return [name for name in dict.fromkeys(names) if is_plain(name)]


def read_plainly(expression: pl.Expr) -> str:
    """An expression for people, with references as they call them."""
    text = shown(expression)
    for name, reference in references_in(expression).items():
        text = text.replace(f'col("{name}")', str(reference)).replace(name, str(reference))
    return text
