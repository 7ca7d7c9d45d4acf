"""Datalog: rules, with recursion, compiled to plans.

    reach(X, Y) :- link(X, Y).
    reach(X, Z) :- reach(X, Y), link(Y, Z).

A relation is a set at every instant, its lifetimes maximal: what the rules derive from what holds then.
A relation that is given is a stream, its columns in order; one that rules define has the columns that
the variables of its first rule are called.

How a rule becomes a plan: atoms are joined, by the variables that they share and by equations between
what is known and what comes; equations with one unknown define it, other conditions select; negated
atoms are anti joins; the head is a projection, perhaps by groups. How relations do: all rules together,
as a set. Relations that are defined by each other are one fixpoint, over rows that say which of them
they belong to.

- Every variable must be bound: by an atom that is not negated, or by an equation.
- Negation and aggregates are stratified: what is negated or counted is not defined by it. A min or a max
  may be recursive, if the relation is defined by itself alone: of every group the best is kept.
- An aggregate is over the distinct solutions of the rule's body.
- A list is [X, Y] or [X|P]; in(X, P) and notIn(X, P) look into one.

Not here: the syntax (rules.py), how loops run (plan/ranks.py, operators/fixpoint.py).

Paper 3 sections 1, 2 and 4; erratum 22.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import polars as pl

from slackwater.errors import PlanError
from slackwater.frontends.rules import Atom, Call, Negated, Rule, Variable, parsed
from slackwater.frontends.solutions import MEMBERSHIP, Read, Solution
from slackwater.plan import aggregations as agg
from slackwater.plan.nodes import Argument
from slackwater.query import Query, fixpoint
from slackwater.speculation import Speculation

__all__ = ["datalog"]

_AGGREGATES: dict[str, Callable[..., agg.Aggregation]] = {
    "min": agg.min,
    "max": agg.max,
    "sum": agg.sum,
    "avg": agg.avg,
    "count": agg.count,
}
_WHICH = "\x01relation"
"""the column that says which of several relations a row belongs to"""


def datalog(
    rules: str,
    streams: Mapping[str, Query],
    relation: str,
    *,
    speculation: Speculation | None = None,
    rounds: int = 1_000,
    rows: int = 10_000_000,
) -> Query:
    """What the rules say of a relation, over the streams that they name.

    >>> import slackwater as sw
    >>> link = sw.stream({"a": str, "b": str}, name="link")
    >>> reach = sw.datalog('''
    ...     reach(X, Y) :- link(X, Y).
    ...     reach(X, Z) :- reach(X, Y), link(Y, Z).
    ... ''', {"link": link}, "reach")
    >>> given = [sw.insert(0, 9, a="x", b="y"), sw.insert(3, 6, a="y", b="x")]
    >>> reach.run({link: given}).as_history().rows()
    [('x', 'y', 0, 9), ('x', 'x', 3, 6), ('y', 'x', 3, 6), ('y', 'y', 3, 6)]

    `speculation`, `rounds` and `rows` are those of `sw.fixpoint`. An error names the rule that it is
    about.
    """
    program = _Program(parsed(rules), streams, speculation, rounds, rows)
    return program.relation(relation)


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation that rules define: its rules, and what its columns are called."""

    name: str
    rules: tuple[Rule, ...]
    columns: tuple[str, ...]
    aggregates: tuple[tuple[int, str], ...]
    """at which places of the head there is which aggregate"""

    @staticmethod
    def of(name: str, rules: Sequence[Rule]) -> _Relation:
        first, *others = rules
        if not first.head.terms:
            first.refuse(f"{name} has no columns", "a relation has one argument or more")
        aggregates = _aggregates(first)
        for other in others:
            if len(other.head.terms) != len(first.head.terms):
                other.refuse(f"{name} has {len(first.head.terms)} arguments in its first rule")
            if _aggregates(other) != aggregates:
                other.refuse(
                    f"{name} has other aggregates in its first rule",
                    "all rules of a relation have the same ones, at the same places",
                )
            if any(called not in ("min", "max") for _, called in aggregates):
                other.refuse(
                    f"{name} is counted over several rules",
                    "collect what is to be counted in a relation of its own, by several rules",
                )
        columns: list[str] = []
        for i, term in enumerate(first.head.terms):
            inner = term.of[0] if isinstance(term, Call) and term.of else term
            plain = inner.name if isinstance(inner, Variable) else f"column_{i}"
            columns.append(plain if plain not in columns and plain != "_" else f"column_{i}")
        return _Relation(name, tuple(rules), tuple(columns), aggregates)

    def head(self, solved: Solution) -> Query:
        """What a rule says of it; what is counted is so over distinct solutions."""
        counts = any(called not in ("min", "max") for _, called in self.aggregates)
        with _pointing_at(solved.rule):
            return solved.head(self.columns, distinct=counts)

    @property
    def keys(self) -> list[str]:
        """The columns by which there are groups."""
        counted = {at for at, _ in self.aggregates}
        return [name for i, name in enumerate(self.columns) if i not in counted]


def _aggregates(rule: Rule) -> tuple[tuple[int, str], ...]:
    found = []
    for at, term in enumerate(rule.head.terms):
        if isinstance(term, Call):
            if term.name not in _AGGREGATES or len(term.of) > 1:
                rule.refuse(f"{term.name} is not an aggregate", ", ".join(_AGGREGATES) + ", of one term")
            if not term.of and term.name != "count":
                rule.refuse(f"{term.name} needs to know of what", "count() alone does not")
            found.append((at, term.name))
    return tuple(found)


class _Program:
    """Rules over streams; relations are compiled as they are asked for, each once."""

    def __init__(
        self,
        rules: list[Rule],
        streams: Mapping[str, Query],
        speculation: Speculation | None,
        rounds: int,
        rows: int,
    ) -> None:
        self._streams = dict(streams)
        self._speculation, self._rounds, self._rows = speculation, rounds, rows
        by_name: dict[str, list[Rule]] = {}
        for rule in rules:
            if rule.head.name in self._streams:
                rule.refuse(f"{rule.head.name} is given, and cannot be defined", "choose another name")
            if rule.head.name in MEMBERSHIP:
                rule.refuse(f"{rule.head.name} is defined already", "it looks into lists")
            if not any(isinstance(each, Atom) for each in rule.body):
                rule.refuse("nothing says when this holds", "facts are rows of a stream: give it a body")
            by_name.setdefault(rule.head.name, []).append(rule)
        self._relations = {name: _Relation.of(name, some) for name, some in by_name.items()}
        self._depends = {name: self._needed(name) for name in self._relations}
        self._compiled: dict[str, Query] = {}
        for name in self._relations:
            self.relation(name)

    def relation(self, name: str) -> Query:
        """The plan of a relation."""
        if name in self._streams:
            return self._streams[name].distinct()
        if name not in self._relations:
            raise PlanError(f"datalog: no rule defines {name!r}", hint=f"there are: {self._names()}")
        if name not in self._compiled:
            together = [each for each in self._relations if self._is_mutual(name, each)]
            if not together:
                self._compiled[name] = self._once(self._relations[name])
            elif len(together) == 1:
                self._compiled[name] = self._recursive(self._relations[name])
            else:
                self._compiled |= self._mutual([self._relations[each] for each in together])
        return self._compiled[name]

    def _names(self) -> str:
        return ", ".join([*self._streams, *self._relations])

    def _needed(self, name: str) -> set[str]:
        """All relations that one is defined by."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for rule in self._relations[waiting.pop()].rules:
                for each in rule.body:
                    atom = each.atom if isinstance(each, Negated) else each
                    if not isinstance(atom, Atom) or atom.name in self._streams:
                        continue
                    if atom.name in MEMBERSHIP:
                        continue
                    if atom.name not in self._relations:
                        rule.refuse(f"nobody knows {atom.name!r}", f"there are: {self._names()}")
                    if atom.name not in found:
                        found.add(atom.name)
                        waiting.append(atom.name)
        return found

    def _is_mutual(self, one: str, other: str) -> bool:
        """Whether two relations are defined by each other; for one: by itself."""
        return other in self._depends[one] and one in self._depends[other]

    # how relations become plans

    def _once(self, relation: _Relation) -> Query:
        return self._joined(relation, [self._solved(rule, self._read) for rule in relation.rules])

    def _joined(self, relation: _Relation, solved: Sequence[Solution]) -> Query:
        """All rules of a relation together, as a set."""
        heads = [relation.head(each) for each in solved]
        heads = [
            head if i == 0 else _fitted(head, heads[0], solved[i].rule) for i, head in enumerate(heads)
        ]
        rows = heads[0].union(*heads[1:]) if len(heads) > 1 else heads[0]
        if relation.aggregates:
            made, keys = {}, relation.keys
            for at, called in relation.aggregates:
                made[relation.columns[at]] = _AGGREGATES[called](relation.columns[at])
            with _pointing_at(relation.rules[0]):
                rows = rows.group_by(*keys).aggregate(**made) if keys else rows.aggregate(**made)
            if list(rows.schema) != list(relation.columns):
                rows = rows.select(*relation.columns)
        return rows.distinct()

    def _recursive(self, relation: _Relation) -> Query:
        self._require_strata([relation])
        schema = self._types([relation])[relation.name]

        def body(loop: Query) -> Query:
            read = self._reading({relation.name: loop})
            return self._joined(relation, [self._solved(rule, read) for rule in relation.rules])

        return fixpoint(
            body, schema=schema, speculation=self._speculation, rounds=self._rounds, rows=self._rows
        )

    def _mutual(self, relations: list[_Relation]) -> dict[str, Query]:
        """Relations that are defined by each other: one loop, over rows of all of them."""
        self._require_strata(relations)
        types = self._types(relations)
        places = {
            relation.name: {name: f"{relation.name}.{name}" for name in relation.columns}
            for relation in relations
        }
        schema: dict[str, pl.DataType] = {_WHICH: pl.Int64()}
        for relation in relations:
            for name, dtype in types[relation.name].items():
                schema[places[relation.name][name]] = dtype

        def own(loop: Query, number: int, relation: _Relation) -> Query:
            named = {name: pl.col(at) for name, at in places[relation.name].items()}
            return loop.where(pl.col(_WHICH) == number).select(**named)

        def told(rows: Query, number: int, relation: _Relation) -> Query:
            at = {place: name for name, place in places[relation.name].items()}
            columns = {
                name: pl.col(at[name]) if name in at else pl.lit(None, dtype=dtype)
                for name, dtype in schema.items()
            }
            return rows.select(**{**columns, _WHICH: pl.lit(number, dtype=pl.Int64)})

        def body(loop: Query) -> Query:
            read = self._reading(
                {relation.name: own(loop, i, relation) for i, relation in enumerate(relations)}
            )
            parts = []
            for i, relation in enumerate(relations):
                for rule in relation.rules:
                    head = relation.head(self._solved(rule, read))
                    parts.append(told(_fitted_to(head, types[relation.name], rule), i, relation))
            return parts[0].union(*parts[1:]).distinct()

        loop = fixpoint(
            body, schema=schema, speculation=self._speculation, rounds=self._rounds, rows=self._rows
        )
        return {relation.name: own(loop, i, relation) for i, relation in enumerate(relations)}

    def _require_strata(self, relations: list[_Relation]) -> None:
        """What is negated or counted must not be defined by it."""
        names = {relation.name for relation in relations}
        for relation in relations:
            for rule in relation.rules:
                for each in rule.body:
                    if isinstance(each, Negated) and each.atom.name in names:
                        rule.refuse(
                            f"{relation.name} is defined by its own negation",
                            f"not {each.atom.name}(...) needs all of {each.atom.name} first",
                        )
            called = [name for _, name in relation.aggregates]
            recursive = len(relations) == 1 and called in (["min"], ["max"])
            if called and not recursive:
                relation.rules[0].refuse(
                    f"{relation.name} is defined by its own {called[0]}",
                    "one min or one max may be, in a relation that is defined by itself alone",
                )
            if called and [at for at, _ in relation.aggregates] != [len(relation.columns) - 1]:
                relation.rules[0].refuse(
                    f"{relation.name} has its {called[0]} among the keys", "put it last: far(X, min(D))"
                )

    def _types(self, relations: list[_Relation]) -> dict[str, dict[str, pl.DataType]]:
        """The types of columns, by the first rule of each whose relations have types already."""
        found: dict[str, dict[str, pl.DataType]] = {}
        names = [relation.name for relation in relations]
        progress = True
        while progress and len(found) < len(relations):
            progress = False
            for relation in relations:
                if relation.name in found:
                    continue
                known = {name: Query(Argument(pl.Schema(types))) for name, types in found.items()}
                for rule in relation.rules:
                    atoms = [each.name for each in rule.body if isinstance(each, Atom)]
                    if any(name in names and name not in found for name in atoms):
                        continue
                    head = relation.head(self._solved(rule, self._reading(known)))
                    found[relation.name] = dict(head.schema)
                    progress = True
                    break
        for relation in relations:
            if relation.name not in found:
                relation.rules[0].refuse(
                    f"{relation.name} has no rule to begin with",
                    "one of its rules must not be recursive: without it nothing is derived",
                )
        return found

    def _read(self, name: str) -> Query:
        return self._streams[name] if name in self._streams else self.relation(name)

    def _reading(self, loops: Mapping[str, Query]) -> Read:
        return lambda name: loops[name] if name in loops else self._read(name)

    @staticmethod
    def _solved(rule: Rule, read: Read) -> Solution:
        with _pointing_at(rule):
            return Solution(rule).solve(read)


@contextmanager
def _pointing_at(rule: Rule) -> Iterator[None]:
    """What is refused of the plan of a rule is so by its name and line."""
    try:
        yield
    except PlanError as problem:
        if problem.fact.startswith("datalog:"):
            raise
        detail = f"line {rule.line}: {rule.text}; {problem.detail or ''}".rstrip("; ")
        raise PlanError(f"datalog: {problem.fact}", detail=detail, hint=problem.hint) from problem


def _fitted(rows: Query, like: Query, rule: Rule) -> Query:
    return _fitted_to(rows, dict(like.schema), rule)


def _fitted_to(rows: Query, types: Mapping[str, pl.DataType], rule: Rule) -> Query:
    """The same columns in the types of another rule; only integers become other integers."""
    columns: dict[str, pl.Expr] = {}
    for name, dtype in types.items():
        own = rows.schema[name]
        if own != dtype and not (own.is_integer() and dtype.is_integer()):
            rule.refuse(
                f"{rule.head.name} has {own} here and {dtype} in another rule",
                f"in the column {name}",
            )
        columns[name] = pl.col(name) if own == dtype else pl.col(name).cast(dtype)
    return rows.select(**columns) if any(rows.schema[n] != t for n, t in types.items()) else rows
