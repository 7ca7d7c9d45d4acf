"""Rules of Datalog: what is written, as values, and a parser for it.

    rule     head :- literal, ..., literal.           # to the end of the line: a comment
    head     name(term, ...)                          terms may be min(X), max(X), sum(X), count()
    literal  name(term, ...)   not name(term, ...)   term = term   (also != < <= > >=)
    term     X, _   12, 3.5, "text", text, true   [X, Y], [X|P]   term + term   (also - * / // %)

A name in front of a parenthesis is a relation, wherever it stands. Any other name is a variable if it
begins with a capital or an underscore, else a text. `_` is a variable that nobody else means.

The parser is written by hand, by descent: the grammar is no longer than this page, and of an error
people want to know in which rule it is, and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypeAlias

from slackwater.errors import PlanError

__all__ = [
    "Atom",
    "Call",
    "Comparison",
    "Constant",
    "List",
    "Negated",
    "Operation",
    "Rule",
    "Term",
    "Variable",
    "parsed",
    "variables",
]


@dataclass(frozen=True, slots=True)
class Variable:
    """X"""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """12, "text", true"""

    value: int | float | str | bool


@dataclass(frozen=True, slots=True)
class Operation:
    """X + 1"""

    sign: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class List:
    """[X, Y], or [X|P]: X before all of P."""

    items: tuple[Term, ...]
    rest: Term | None


@dataclass(frozen=True, slots=True)
class Call:
    """min(X), in a head."""

    name: str
    of: tuple[Term, ...]


Term: TypeAlias = Variable | Constant | Operation | List | Call


@dataclass(frozen=True, slots=True)
class Atom:
    """name(term, ...)"""

    name: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """not name(term, ...)"""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison:
    """term < term"""

    sign: str
    left: Term
    right: Term


Literal: TypeAlias = Atom | Negated | Comparison


@dataclass(frozen=True, slots=True)
class Rule:
    """head :- body."""

    head: Atom
    body: tuple[Literal, ...]
    line: int
    text: str

    def error(self, fact: str, hint: str = "") -> PlanError:
        """An error that points at the rule."""
        return PlanError(f"datalog: {fact}", detail=f"line {self.line}: {self.text}", hint=hint)

    def refuse(self, fact: str, hint: str = "") -> NoReturn:
        """The rule cannot stand as it is."""
        raise self.error(fact, hint)


def variables(term: Term) -> frozenset[str]:
    """The variables that a term mentions."""
    match term:
        case Variable():
            return frozenset({term.name})
        case Constant():
            return frozenset()
        case Operation():
            return variables(term.left) | variables(term.right)
        case List():
            parts = term.items if term.rest is None else (*term.items, term.rest)
            return frozenset().union(*map(variables, parts))
        case Call():
            return frozenset().union(*map(variables, term.of))


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


_TOKENS = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<number>\d+\.\d+|\d+)
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>:-|!=|<=|>=|//|[=<>+\-*/%(),.\[\]|])
    |(?P<other>.)""",
    re.VERBOSE,
)
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_END = _Token("end", "the end", -1)


def parsed(text: str) -> list[Rule]:
    """The rules of a program.

    >>> [rule] = parsed("far(X, D + 1) :- near(X, D), D < 3.")
    >>> rule.head.name, len(rule.body), sorted(variables(rule.head.terms[1]))
    ('far', 2, ['D'])
    >>> parsed("far(X) :- near(X), < 3.")
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: datalog: '<' is not expected here
      detail: line 1: far(X) :- near(X), <
      hint: a term is a variable, a number, a text, a list, or a sum of such
    """
    return list(_Parser(text).rules())


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        found = (
            _Token(match.lastgroup or "", match.group(), match.start())
            for match in _TOKENS.finditer(text)
        )
        self._tokens = [token for token in found if token.kind != "space"]
        self._at = 0
        self._begun = 0

    def rules(self) -> Iterator[Rule]:
        while self._at < len(self._tokens):
            yield self._rule()

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def _next(self) -> _Token:
        token = self._token
        self._at += 1
        return token

    def _accept(self, *signs: str) -> str | None:
        if self._token.kind == "sign" and self._token.text in signs:
            return self._next().text
        return None

    def _expect(self, sign: str, hint: str) -> None:
        if self._accept(sign) is None:
            self._refuse(hint)

    def _refuse(self, hint: str) -> NoReturn:
        token = self._token
        end = len(self._text) if token is _END else token.start + len(token.text)
        line = self._text.count("\n", 0, self._begun) + 1
        shown = " ".join(self._text[self._begun : end].split())
        what = "the end" if token is _END else repr(token.text)
        raise PlanError(
            f"datalog: {what} is not expected here", detail=f"line {line}: {shown}", hint=hint
        )

    def _rule(self) -> Rule:
        self._begun = self._token.start
        head = self._atom(in_head=True)
        body: list[Literal] = []
        if self._accept(":-"):
            body.append(self._literal())
            while self._accept(","):
                body.append(self._literal())
        self._expect(".", "a rule ends with a dot: far(X) :- near(X, Y), Y > 3.")
        end = self._tokens[self._at - 1].start + 1
        line = self._text.count("\n", 0, self._begun) + 1
        return Rule(head, tuple(body), line, " ".join(self._text[self._begun : end].split()))

    def _atom(self, *, in_head: bool = False) -> Atom:
        hint = "a relation is a name and what is in it: near(X, Y)"
        if self._token.kind != "name":
            self._refuse(hint)
        name = self._next().text
        self._expect("(", hint)
        terms = self._terms(")", in_head=in_head)
        return Atom(name, tuple(terms))

    def _terms(self, closing: str, *, in_head: bool = False) -> list[Term]:
        terms: list[Term] = []
        if self._accept(closing):
            return terms
        terms.append(self._term(in_head=in_head))
        while self._accept(","):
            terms.append(self._term(in_head=in_head))
        self._expect(closing, f"terms are separated by commas, and end with {closing}")
        return terms

    def _literal(self) -> Literal:
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else _END
        if self._token.kind == "name" and self._token.text == "not" and following.kind == "name":
            self._next()
            return Negated(self._atom())
        if self._token.kind == "name" and following.text == "(":
            return self._atom()
        left = self._term()
        sign = self._accept(*_COMPARISONS)
        if sign is None:
            self._refuse("a condition compares two terms: X < Y, D = E + 1")
        return Comparison(sign, left, self._term())

    def _term(self, *, in_head: bool = False) -> Term:
        term = self._product(in_head=in_head)
        while sign := self._accept("+", "-"):
            term = Operation(sign, term, self._product())
        return term

    def _product(self, *, in_head: bool = False) -> Term:
        term = self._single(in_head=in_head)
        while sign := self._accept("*", "/", "//", "%"):
            term = Operation(sign, term, self._single())
        return term

    def _single(self, *, in_head: bool = False) -> Term:
        token = self._token
        if self._accept("("):
            term = self._term()
            self._expect(")", "parentheses are closed")
            return term
        if self._accept("["):
            return self._list()
        if self._accept("-"):
            return Operation("-", Constant(0), self._single())
        if token.kind == "number":
            self._next()
            return Constant(float(token.text) if "." in token.text else int(token.text))
        if token.kind == "text":
            self._next()
            return Constant(re.sub(r"\\(.)", r"\1", token.text[1:-1]))
        if token.kind != "name":
            self._refuse("a term is a variable, a number, a text, a list, or a sum of such")
        self._next()
        if in_head and self._accept("("):
            return Call(token.text, tuple(self._terms(")")))
        if token.text in ("true", "false"):
            return Constant(token.text == "true")
        is_variable = token.text[0].isupper() or token.text[0] == "_"
        return Variable(token.text) if is_variable else Constant(token.text)

    def _list(self) -> List:
        items: list[Term] = []
        if self._accept("]"):
            return List((), None)
        items.append(self._term())
        while self._accept(","):
            items.append(self._term())
        rest = self._term() if self._accept("|") else None
        self._expect("]", "a list is [X, Y], or [X|P] with the rest of it")
        return List(tuple(items), rest)
