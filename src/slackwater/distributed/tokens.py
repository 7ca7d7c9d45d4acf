"""Tokens across queries: which prefix of the original inputs an answer corresponds to.

A micro-batch of a query is a token (paper 5 section 4.2): it divides all that the query reads into what
came before and what comes after. Its name is that of the query and the number of the batch. A query that
reads the answer of another passes tokens on: behind its batch it is at that batch of its own, and at the
last batch of each query that it has taken in, and at all that those were at. So a token is a vector,

    {"Q0": 7, "Q1": 5, "Q3": 4}     Q3 behind its batch 4, for which Q1 was behind 5, and Q0 behind 7

and of two queries those numbers tell which original input they have seen that both name. Where these are
the same, both have seen the same: `agreement` finds the furthest places of several streams at which they
are. They agree on the whole past of a query, since the numbers only grow along a stream; so there is one
furthest place for all of them together, and it can be found by going back from the end.

Not here: who waits for that (gate.py), and how tokens travel (directories and topics, spark/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from slackwater.errors import OperatorError

__all__ = ["Token", "agreement", "is_behind", "require_shared", "united"]

Token: TypeAlias = Mapping[str, int]
"""of each query that has a part in it, the last batch"""


def agreement(streams: Sequence[Sequence[Token]]) -> list[int] | None:
    """For every stream the furthest of its tokens, so that all agree on every query that two name.

    The tokens of a stream name the same queries, and only grow. None if there are none that agree.

    >>> left = [{"Q0": 1, "Q1": 0}, {"Q0": 3, "Q1": 1}, {"Q0": 4, "Q1": 2}]
    >>> right = [{"Q0": 2, "Q2": 0}, {"Q0": 3, "Q2": 1}]
    >>> agreement([left, right])
    [1, 1]
    >>> print(agreement([left, right[:1]]))
    None
    """
    at = [len(tokens) - 1 for tokens in streams]
    while all(place >= 0 for place in at):
        least: dict[str, int] = {}
        for tokens, place in zip(streams, at, strict=True):
            for query, batch in tokens[place].items():
                least[query] = min(batch, least.get(query, batch))
        ahead = [
            number
            for number, (tokens, place) in enumerate(zip(streams, at, strict=True))
            if any(batch > least[query] for query, batch in tokens[place].items())
        ]
        if not ahead:
            return at
        for number in ahead:
            at[number] -= 1
    return None


def is_behind(token: Token, other: Token) -> bool:
    """Whether it is not beyond another one, in anything that both name."""
    return all(batch <= other[query] for query, batch in token.items() if query in other)


def united(tokens: Sequence[Token]) -> dict[str, int]:
    """The token at which several streams are together that agree."""
    return {query: batch for token in tokens for query, batch in token.items()}


def require_shared(named: Mapping[str, Token]) -> None:
    """Raise if a stream has nothing in common with the others that it is to agree with.

    >>> require_shared({"left": {"Q0": 1, "Q1": 1}, "right": {"Q2": 5}})
    Traceback (most recent call last):
        ...
    slackwater.errors.OperatorError: 'left' has no query in common with the other aligned streams
      detail: its tokens name Q0, Q1; those of the others Q2
      hint: aligned=True all the way from the query that all of them come from; else leave it out
    """
    for name, token in named.items():
        others = united([each for other, each in named.items() if other != name])
        if others and not token.keys() & others.keys():
            raise OperatorError(
                f"{name!r} has no query in common with the other aligned streams",
                detail=f"its tokens name {', '.join(token)}; those of the others {', '.join(others)}",
                hint="aligned=True all the way from the query that all of them come from; "
                "else leave it out",
            )
