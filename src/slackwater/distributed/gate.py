"""A gate before a bucket: what is beyond the last token that all aligned streams have reached waits.

Streams that are answers of other queries bring tokens (tokens.py). Every bucket of every stage hears all
tokens of all of them, so all come to the same end: up to which of its tokens each stream is let in. What
comes behind that is held, and is let in with a later batch. So a batch is as atomic as ever, and what it
shows is the answer to what all streams say at one token: nothing of the queries below the gate has to
know about it. A repeated batch hears the same, and lets in the same; what is held is part of the state,
and as durable.

A token stands in each origin of its stream (a directory, or every partition of a topic), behind a part
of it. An origin that is written again from the beginning of a batch, as topics are after a failure, says
a token twice: the first one counts, for the rows behind it are repetitions that are known as such
(repeats.py). Until every aligned stream has had a token on all its origins, none is let in: only then it
is known which queries they come from.

Paper 5 section 4.2 (an operator does not read on behind a token until it has come on all its inputs),
with whole queries for operators.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.distributed.parcels import TOKEN, Parcel
from slackwater.distributed.tokens import Token, agreement, is_behind, require_shared, united
from slackwater.errors import OperatorError

__all__ = ["Gate", "Held", "Tokened"]


@dataclass(frozen=True, slots=True)
class Tokened:
    """An aligned stream, for those who read it: they tell its tokens to every bucket of every stage."""

    stream: str
    stages: int
    buckets: int

    def told(self, origin: str, part: str, token: Token) -> Iterator[Parcel]:
        """A token stands behind that part of an origin."""
        data = json.dumps({"stream": self.stream, "token": dict(token)}).encode()
        for stage in range(1, self.stages + 1):
            for bucket in range(self.buckets):
                yield Parcel(stage, bucket, TOKEN, origin, part, 0, data=data)


@dataclass(slots=True)
class Line:
    """The tokens of one origin that are of interest: the one it was let in up to, and those behind."""

    parts: list[str] = field(default_factory=list)
    """behind which each stands"""
    tokens: list[dict[str, int]] = field(default_factory=list)
    is_open: bool = False
    """whether the first of them was let in"""

    def add(self, part: str, token: dict[str, int], name: str) -> None:
        """The next one; if it is not new, it was said before."""
        if self.tokens:
            last = self.tokens[-1]
            if last.keys() != token.keys():
                raise OperatorError(
                    f"{name}: tokens of two kinds in one stream",
                    detail=f"{last} was followed by {token}",
                    hint="a topic or a directory that is aligned holds the answer of one query, "
                    "from one checkpoint",
                )
            if is_behind(token, last):
                return
        self.parts.append(part)
        self.tokens.append(token)

    def let_in(self, place: int) -> None:
        """Up to that token; what is before it is forgotten."""
        del self.parts[:place], self.tokens[:place]
        self.is_open = True


@dataclass(slots=True)
class Held:
    """What a gate remembers."""

    lines: dict[str, dict[str, Line]]
    """by stream, and origin"""
    waiting: list[list[Parcel]]
    """of each input of the stage"""


class Gate:
    """Before one bucket. `aligned`: the streams that wait for each other, and their origins if known."""

    def __init__(self, aligned: Mapping[str, Sequence[str]], streams: Sequence[str | None]) -> None:
        self._aligned = aligned
        self._streams = streams
        """of each input of the stage, which aligned stream it is, if it is one"""
        self._lines: dict[str, dict[str, Line]] = {name: {} for name in aligned}
        self._waiting: list[list[Parcel]] = [[] for _ in streams]

    def let_in(self, arrived: list[list[Parcel]], tokens: Iterable[Parcel]) -> list[list[Parcel]]:
        """What may enter now of what has arrived, and of what has waited."""
        if not self._aligned:
            return arrived
        self._hear(tokens)
        self._advance()
        return [
            parcels if stream is None else self._sorted_out(place, stream, parcels)
            for place, (stream, parcels) in enumerate(zip(self._streams, arrived, strict=True))
        ]

    def _hear(self, tokens: Iterable[Parcel]) -> None:
        for parcel in sorted(tokens, key=lambda each: (each.origin, each.part)):
            assert parcel.data is not None, "it says which"
            told = json.loads(bytes(parcel.data))
            name = told["stream"]
            line = self._lines[name].setdefault(parcel.origin, Line())
            line.add(parcel.part, told["token"], f"{name}, {parcel.origin}")

    def _advance(self) -> None:
        if not self._is_complete:
            return
        lines = [line for name in sorted(self._lines) for _, line in sorted(self._lines[name].items())]
        if not self._is_open:
            require_shared(
                {
                    name: united([line.tokens[0] for line in of.values()])
                    for name, of in self._lines.items()
                }
            )
        places = agreement([line.tokens for line in lines])
        if places is not None:
            for line, place in zip(lines, places, strict=True):
                line.let_in(place)

    @property
    def _is_complete(self) -> bool:
        """Whether there was a token on every origin of every stream."""
        return all(
            self._lines[name] and self._lines[name].keys() >= set(origins)
            for name, origins in self._aligned.items()
        )

    @property
    def _is_open(self) -> bool:
        return all(line.is_open for of in self._lines.values() for line in of.values())

    def _sorted_out(self, place: int, stream: str, parcels: list[Parcel]) -> list[Parcel]:
        passed = {origin: line.parts[0] for origin, line in self._lines[stream].items() if line.is_open}
        enters: list[Parcel] = []
        waits: list[Parcel] = []
        for parcel in (*self._waiting[place], *parcels):
            is_in = parcel.origin in passed and parcel.part <= passed[parcel.origin]
            (enters if is_in else waits).append(parcel)
        # what arrived lies in a buffer of the batch, which is not kept
        self._waiting[place] = [_own(parcel) for parcel in waits]
        return enters

    @property
    def token(self) -> dict[str, int]:
        """Where all aligned streams are, as far as they were let in; empty before they are anywhere."""
        if not self._aligned or not self._is_complete or not self._is_open:
            return {}
        return united([line.tokens[0] for of in self._lines.values() for line in of.values()])

    @property
    def waits_for(self) -> str:
        """Whose next token it is that others wait for, for people; empty if nothing waits."""
        for name, origins in self._aligned.items():
            silent = [each for each in origins if each not in self._lines[name]]
            if silent or not self._lines[name]:
                of = f", partition {silent[0]}" if silent else ""
                return f"{name}{of}: no token yet"
        lines = [
            (f"{name}, partition {origin}", len(line.tokens))
            for name, of in self._lines.items()
            for origin, line in of.items()
        ]
        if all(tokens == 1 for _, tokens in lines):
            return ""
        behind = [name for name, tokens in lines if tokens == 1]
        return f"{(behind or ['aligned streams'])[0]}: the next token"

    @property
    def held_rows(self) -> int:
        """How many rows wait."""
        return sum(parcel.rows for parcels in self._waiting for parcel in parcels)

    def remembered(self) -> Held:
        """All that is needed to go on from here."""
        return Held(self._lines, self._waiting)

    def restore(self, state: Held) -> None:
        """Go on from there."""
        self._lines, self._waiting = state.lines, state.waiting


def _own(parcel: Parcel) -> Parcel:
    return replace(parcel, data=bytes(parcel.data)) if isinstance(parcel.data, memoryview) else parcel
