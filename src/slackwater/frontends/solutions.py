"""The solutions of a rule: what its body says, as a plan with one column for each variable.

Atoms are joined, one after the other, those first that have something to do with what is known: by the
variables that they share, and by equations of which one side is known and the other is of their
variables. An equation with one unknown defines it, any other condition selects, as soon as all is known
that it mentions. Then lists are looked into, and what is negated is left out by anti joins. A variable
that stays unknown is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import polars as pl

from slackwater.frontends.rules import (
    Atom,
    Call,
    Comparison,
    Constant,
    List,
    Negated,
    Operation,
    Rule,
    Term,
    Variable,
    variables,
)
from slackwater.query import Query

__all__ = ["FRESH", "MEMBERSHIP", "Read", "Solution"]

Read = Callable[[str], Query]
"""the rows of a relation, by its name"""

FRESH = "\x01"
"""how variables begin that nobody has written"""
MEMBERSHIP = {"in": True, "notIn": False}
"""relations that look into lists"""


@dataclass(slots=True)
class Solution:
    """The solutions of a rule's body, one column for each variable, as they are put together."""

    rule: Rule
    rows: Query = field(init=False)
    conditions: list[Comparison] = field(default_factory=list)
    """those that are still to be met"""
    fresh: int = 0

    def solve(self, read: Read) -> Solution:
        """Join what is there, select, leave out what is negated."""
        rule = self.rule
        self.conditions = [each for each in rule.body if isinstance(each, Comparison)]
        atoms = [each for each in rule.body if isinstance(each, Atom) and each.name not in MEMBERSHIP]
        waiting = [self._plain(atom) for atom in atoms]
        first, *rest = waiting
        self.rows = self._of(first, read)
        self._narrow()
        while rest:
            atom = next((each for each in rest if self._meets(each)), rest[0])
            rest.remove(atom)
            self._join(atom, read)
            self._narrow()
        for condition in self.conditions:
            self._require(condition.left, condition.right)
        for each in rule.body:
            if isinstance(each, Atom) and each.name in MEMBERSHIP:
                self._look_into(each)
            elif isinstance(each, Negated):
                self._leave_out(each.atom, read)
        return self

    def head(self, names: Sequence[str], *, distinct: bool) -> Query:
        """What the rule says of its relation, under these names; perhaps over distinct solutions.

        Of an aggregate, what it is to be made of.
        """
        rows = self.rows
        terms = self.rule.head.terms
        for term in terms:
            self._require(*(term.of if isinstance(term, Call) else (term,)))
        if distinct:
            named = [name for name in rows.schema if not name.startswith(FRESH)]
            rows = rows.select(*named or rows.schema).distinct()
        columns: dict[str, pl.Expr] = {}
        for name, term in zip(names, terms, strict=True):
            if isinstance(term, Call):
                columns[name] = self._expression(term.of[0]) if term.of else pl.lit(1, dtype=pl.Int64)
            else:
                columns[name] = self._expression(term)
        return rows.select(**columns)

    @property
    def _bound(self) -> set[str]:
        return set(self.rows.schema)

    def _name(self) -> str:
        self.fresh += 1
        return f"{FRESH}{self.fresh}"

    def _plain(self, atom: Atom) -> Atom:
        """The atom with variables and constants only; sums in it become conditions."""
        terms: list[Term] = []
        for term in atom.terms:
            if isinstance(term, Operation | List):
                own = Variable(self._name())
                self.conditions.append(Comparison("=", own, term))
                terms.append(own)
            else:
                terms.append(Variable(self._name()) if term == Variable("_") else term)
        return replace(atom, terms=tuple(terms))

    def _of(self, atom: Atom, read: Read) -> Query:
        """The rows of a relation that fit an atom, one column for each of its variables."""
        rows = read(atom.name)
        columns = list(rows.schema)
        if len(columns) != len(atom.terms):
            self.rule.refuse(
                f"{atom.name} has {len(columns)} columns, and not {len(atom.terms)}",
                f"they are: {', '.join(columns)}",
            )
        found: dict[str, pl.Expr] = {}
        for name, term in zip(columns, atom.terms, strict=True):
            if isinstance(term, Constant):
                rows = rows.where(pl.col(name) == self._expression(term))
            else:
                assert isinstance(term, Variable)
                if term.name in found:
                    rows = rows.where(pl.col(name) == found[term.name])
                else:
                    found[term.name] = pl.col(name)
        return rows.select(**(found or {self._name(): pl.col(columns[0])}))

    def _meets(self, atom: Atom) -> bool:
        """Whether an atom has something to do with what is known."""
        own = frozenset().union(*map(variables, atom.terms))
        return bool(own & self._bound) or any(
            self._across(condition, own) is not None for condition in self.conditions
        )

    def _across(self, condition: Comparison, own: frozenset[str]) -> tuple[Term, Term] | None:
        """The sides of an equation, if one is known and the other is of these variables."""
        if condition.sign != "=":
            return None
        for known, new in ((condition.left, condition.right), (condition.right, condition.left)):
            is_known = variables(known) and variables(known) <= self._bound
            if is_known and variables(new) and variables(new) <= own - self._bound:
                return known, new
        return None

    def _join(self, atom: Atom, read: Read) -> None:
        right = self._of(atom, read)
        own = frozenset(right.schema)
        on = {name: name for name in self.rows.schema if name in own}
        left_keys: dict[str, pl.Expr] = {}
        right_keys: dict[str, pl.Expr] = {}
        for condition in [*self.conditions]:
            sides = self._across(condition, own)
            if sides is None:
                continue
            known, new = self._name(), self._name()
            left_keys[known], right_keys[new] = map(self._expression, sides)
            on[known] = new
            self.conditions.remove(condition)
        left = self.rows
        if left_keys:
            left = left.select(*left.schema, **left_keys)
            right = right.select(*right.schema, **right_keys)
        joined = left.join(right, on=on)
        kept = [name for name in joined.schema if name not in left_keys]
        self.rows = joined.select(*kept) if left_keys else joined

    def _narrow(self) -> None:
        """Meet the conditions that can be: an equation with one unknown defines it."""
        progress = True
        while progress:
            progress = False
            for condition in [*self.conditions]:
                unknown = (variables(condition.left) | variables(condition.right)) - self._bound
                if not unknown:
                    self.rows = self.rows.where(self._compared(condition))
                elif not self._define(condition):
                    continue
                self.conditions.remove(condition)
                progress = True

    def _define(self, condition: Comparison) -> bool:
        if condition.sign != "=":
            return False
        for term, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if isinstance(term, Variable) and variables(other) <= self._bound:
                self.rows = self.rows.select(*self.rows.schema, **{term.name: self._expression(other)})
                return True
        return False

    def _look_into(self, atom: Atom) -> None:
        if len(atom.terms) != 2:
            self.rule.refuse(f"{atom.name} asks for one value in one list", f"{atom.name}(X, P)")
        self._require(*atom.terms)
        value, members = map(self._expression, atom.terms)
        is_in = members.list.contains(value)
        self.rows = self.rows.where(is_in if MEMBERSHIP[atom.name] else ~is_in)

    def _leave_out(self, atom: Atom, read: Read) -> None:
        """Without the solutions for which a relation has a row."""
        known: dict[str, pl.Expr] = {}
        terms: list[Term] = []
        on: dict[str, str] = {}
        for term in atom.terms:
            if term == Variable("_") or isinstance(term, Constant):
                terms.append(Variable(self._name()) if isinstance(term, Variable) else term)
                continue
            self._require(term)
            left, right = self._name(), self._name()
            known[left], on[left] = self._expression(term), right
            terms.append(Variable(right))
        columns = list(self.rows.schema)
        others = self._of(replace(atom, terms=tuple(terms)), read)
        left_rows = self.rows.select(*columns, **known) if known else self.rows
        self.rows = left_rows.join(others, on=on, how="anti")
        if known:
            self.rows = self.rows.select(*columns)

    def _require(self, *terms: Term) -> None:
        unknown = frozenset().union(*map(variables, terms)) - self._bound
        if unknown:
            name = min(unknown)
            shown = "_" if name.startswith(FRESH) else name
            self.rule.refuse(
                f"{shown} is not bound",
                "a variable stands in a relation that is not negated, or is equal to what is known",
            )

    def _compared(self, condition: Comparison) -> pl.Expr:
        left, right = self._expression(condition.left), self._expression(condition.right)
        match condition.sign:
            case "=":
                return left == right
            case "!=":
                return left != right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case _:
                return left >= right

    def _expression(self, term: Term) -> pl.Expr:
        if isinstance(term, Call):
            self.rule.refuse(f"{term.name} stands within a term", "aggregates stand alone in heads")
        if isinstance(term, Variable):
            return pl.col(term.name)
        if isinstance(term, Constant) or not variables(term):
            # found now: an expression of nothing but constants looks at no row
            return self._literal(self._value(term))
        if isinstance(term, List):
            return self._list(term)
        made: pl.Expr = _OPERATIONS[term.sign](self._expression(term.left), self._expression(term.right))
        return made

    def _value(self, term: Term) -> Any:
        """What a term without variables is."""
        match term:
            case Constant():
                return term.value
            case List() if term.items:
                rest = [] if term.rest is None else self._value(term.rest)
                if isinstance(rest, list):
                    return [*map(self._value, term.items), *rest]
            case List():
                self._refuse_empty()
            case Operation():
                left, right = self._value(term.left), self._value(term.right)
                if term.sign in _DIVISIONS and right == 0:
                    self.rule.refuse("nothing is divided by 0")
                if {type(left), type(right)} <= {int, float} or (
                    term.sign == "+" and type(left) is type(right) is str
                ):
                    return _OPERATIONS[term.sign](left, right)
        raise self.rule.error(
            "these constants do not go together", "numbers with numbers, texts with texts"
        )

    def _literal(self, value: Any) -> pl.Expr:
        members = value if isinstance(value, list) else [value]
        if len({type(each) for each in members}) > 1:
            self.rule.refuse("a list has values of one type", "[1, 2], or [a, b]")
        if type(members[0]) is not int:
            return pl.lit(value)
        if not all(-(2**63) <= each < 2**63 for each in members):
            self.rule.refuse("a number does not fit Int64")
        return pl.lit(value, dtype=pl.List(pl.Int64) if isinstance(value, list) else pl.Int64)

    def _refuse_empty(self) -> NoReturn:
        self.rule.refuse("an empty list has no type", "[X], or [X|P]")

    def _list(self, term: List) -> pl.Expr:
        if not term.items:
            self._refuse_empty()
        items = [self._expression(each) for each in term.items]
        own = pl.concat_list(items)
        return own if term.rest is None else pl.concat_list(own, self._expression(term.rest))


_DIVISIONS = ("/", "//", "%")
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}
