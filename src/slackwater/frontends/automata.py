"""Automata: patterns as a loop over symbols and transitions, both of which are streams.

    reach(b, b - 1, start)  <-  symbol(b, _)
    reach(b, t, to)         <-  reach(b, t - 1, from), symbol(t, x), transition(from, to, x)

A row (begin, end, state) says that the symbols from `begin` to `end` lead from the start to a state;
what ends before it begins is a seed, a match of nothing. Every way through the automaton is a row. A
register is a column more: it begins with a value, and every transition computes the next one of what it
was, and of the other columns of the symbol and of the transition. A condition over the same says whether
a transition may be taken.

Lifetimes say the rest: a match lives while its symbols and its transitions do, so that a window on the
symbols bounds how long a match may take, and a transition that ends takes back what it led to.

If the transitions are not a stream but a table, they cannot change, and an operator of its own does the
same in one pass (operators/automaton.py): it is a case of a loop that is known beforehand.

Paper 3 section 4 (Figure 4; auxiliary state, windows, dynamic patterns).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import polars as pl

from slackwater.errors import PlanError
from slackwater.plan import nodes
from slackwater.query import Query, fixpoint
from slackwater.speculation import Speculation

__all__ = ["automaton"]

_AT, _BEFORE, _SYMBOL, _FROM, _TO = (f"\x01{name}" for name in ("at", "before", "symbol", "from", "to"))
_OWN = ("begin", "end", "state")

Table: TypeAlias = pl.DataFrame | Mapping[str, Sequence[Any]] | Sequence[Any]
"""transitions that do not change: a frame, its columns, or its rows"""


def automaton(
    symbols: Query,
    transitions: Query | Table,
    *,
    start: object,
    registers: Mapping[str, tuple[object, pl.Expr]] | None = None,
    where: pl.Expr | None = None,
    speculation: Speculation | None = None,
    rounds: int = 1_000,
    rows: int = 10_000_000,
) -> Query:
    """All that an automaton makes of a sequence of symbols: partial matches, complete ones, and seeds.

    `symbols` has the place in the sequence, an integer, as its first column, the symbol as its second;
    `transitions` has from which state, to which, and by which symbol. `registers` gives each register
    its first value and how it goes on; `where` says whether a transition may be taken. Both may use
    registers, as they were before, and all further columns of symbols and transitions.

    Transitions that never change may be given as a table (a frame, its columns or its rows): that is the
    same, and faster. `explain()` says which of the two it is.

    >>> import slackwater as sw
    >>> symbols = sw.stream({"at": int, "symbol": str}, name="symbols")
    >>> moves = sw.stream({"before": str, "after": str, "symbol": str}, name="moves")
    >>> found = sw.automaton(symbols, moves, start="s").where(sw.col("state") == "f")
    >>> running = found.open()
    >>> for a, b, c in [("s", "q", "A"), ("q", "q", "B"), ("q", "f", "A")]:          # A B* A
    ...     _ = running.push(moves, [sw.insert(0, None, before=a, after=b, symbol=c)])
    >>> for i, c in enumerate("ABBA"):
    ...     _ = running.push(symbols, [sw.insert(i, i + 9, at=i, symbol=c)])
    >>> running.output.as_history().rows()
    [(0, 3, 'f', 3, 9)]
    >>> constant = sw.automaton(symbols, [("s", "q", "A"), ("q", "q", "B"), ("q", "f", "A")], start="s")
    >>> constant.where(sw.col("state") == "f").run(
    ...     {symbols: [sw.insert(i, i + 9, at=i, symbol=c) for i, c in enumerate("ABBA")]}
    ... ).as_history().rows()
    [(0, 3, 'f', 3, 9)]
    """
    registers = dict(registers or {})
    taken = [*_OWN, *registers]
    place, symbol, *of_symbols = _columns(symbols.schema, "symbols", ("place", "symbol"), taken)
    moving = transitions.schema if isinstance(transitions, Query) else _table(transitions).schema
    before, after, by, *of_moves = _columns(moving, "transitions", ("from", "to", "symbol"), taken)
    if symbols.schema[place] != pl.Int64:
        raise PlanError(
            f"automaton: {place!r} does not say the place in a sequence",
            detail=f"the first column of symbols is {symbols.schema[place]}",
            hint="an integer, one more for each symbol",
        )
    both = sorted({*of_symbols} & {*of_moves})
    if both:
        raise PlanError(f"automaton: symbols and transitions both have {both[0]!r}", hint="rename one")
    if not isinstance(transitions, Query):
        table = _table(transitions)
        first = {name: (_value(_first(name, v)), update) for name, (v, update) in registers.items()}
        begin = _value(pl.lit(start, dtype=moving[before]))
        return Query(nodes.Automaton(symbols.node, (), place, symbol, table, begin, first, where))
    plain = symbols.select(*of_symbols, **{_AT: pl.col(place), _SYMBOL: pl.col(symbol)})
    rules = transitions.select(
        *of_moves, **{_FROM: pl.col(before), _TO: pl.col(after), _SYMBOL: pl.col(by)}
    )
    # what may be done with each symbol, whatever came before it: not on the loop
    moves = plain.join(rules, on=_SYMBOL)
    kept = [name for name in moves.schema if name != _SYMBOL]
    moves = moves.select(*kept, **{_BEFORE: pl.col(_AT) - 1})
    state = moving[before]
    seeds = plain.select(
        begin=pl.col(_AT),
        end=pl.col(_AT) - 1,
        state=pl.lit(start, dtype=state),
        **{name: _first(name, value) for name, (value, _) in registers.items()},
    )
    updates = {name: update for name, (_, update) in registers.items()}

    def body(reach: Query) -> Query:
        step = reach.join(moves, on={"end": _BEFORE, "state": _FROM}, where=where)
        further = step.select("begin", end=pl.col(_AT), state=pl.col(_TO), **updates)
        return seeds.union(further)

    schema = dict(seeds.schema)
    loop = fixpoint(body, schema=schema, speculation=speculation, rounds=rounds, rows=rows).node
    assert isinstance(loop, nodes.Fixpoint)
    return Query(replace(loop, reason="an automaton whose transitions are a stream, and may change"))


def _table(transitions: Table) -> pl.DataFrame:
    """Transitions that do not change, as a frame."""
    if isinstance(transitions, pl.DataFrame):
        return transitions
    try:
        if isinstance(transitions, Mapping) or all(isinstance(row, Mapping) for row in transitions):
            return pl.DataFrame(transitions)
        return pl.DataFrame(list(transitions), schema=["from", "to", "symbol"], orient="row")
    except (pl.exceptions.PolarsError, TypeError, ValueError) as problem:
        raise PlanError(
            "automaton: these transitions are no table",
            detail=str(problem).splitlines()[0],
            hint="a stream, a polars frame, columns by their names, or rows (from, to, symbol), dicts "
            "if there are further columns",
        ) from problem


def _value(literal: pl.Expr) -> pl.Series:
    return pl.select(literal.alias("")).to_series()


def _first(name: str, value: object) -> pl.Expr:
    """What a register begins with."""
    if isinstance(value, pl.Expr):
        raise PlanError(
            f"automaton: the register {name!r} begins with an expression",
            hint="a value, then how it goes on: {'m': (0, sw.col('m') + 1)}",
        )
    is_int = isinstance(value, int) and not isinstance(value, bool)
    return pl.lit(value, dtype=pl.Int64) if is_int else pl.lit(value)


def _columns(schema: pl.Schema, what: str, needed: tuple[str, ...], taken: list[str]) -> list[str]:
    names = list(schema)
    if len(names) < len(needed):
        raise PlanError(
            f"automaton: {what} need {len(needed)} columns: {', '.join(needed)}",
            detail=f"they have: {', '.join(names)}",
        )
    for name in names[len(needed) :]:
        if name in taken:
            raise PlanError(
                f"automaton: {what} have a column {name!r}, which matches have themselves",
                hint="rename it with select",
            )
    return names
