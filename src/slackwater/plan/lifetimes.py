"""Lifetimes as functions of lifetimes: terms over vs and ve, and the windows built from them.

AlterLifetime gives every row a new lifetime [start, end). So that promises survive it, start may depend
on vs only and may not decrease, and end may not grow when ve shrinks. Terms are therefore symbolic:
`VS` and `VE`, sums with integers, rounding to multiples, least and most. They are kept in a normal form,
a lattice (least, most) of linear sums, in which these conditions can be read off, and from which the
promise that survives is computed rather than guessed:

    cti(t) in  ->  cti(min(start(t), f_1(t), ..., f_n(t))) out

where f_i are the sums in `end` that mention ve. Why that is right: an insert with vs >= t starts at
start(vs) >= start(t). An adjust with min(ve, new_ve) = m >= t that changes the end at all has its sync
at an end not below min f_i(m), because a lattice of terms, of which those that vary are all above some
value, cannot itself vary below that value. A sum that mixes vs and ve has no such bound (vs may lie
arbitrarily far back) and is refused.

Paper 1b section 4.2, erratum 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np
from numba import vectorize

from slackwater.errors import PlanError
from slackwater.times import BEGIN, INF, Duration, Times, duration, plus, show, show_length

__all__ = [
    "VE",
    "VS",
    "Lifetime",
    "SessionWindow",
    "Term",
    "clip",
    "extend",
    "hopping",
    "inserts",
    "least",
    "lifetime",
    "most",
    "session",
    "shift",
    "sliding",
    "tumbling",
]

Termlike: TypeAlias = "Term | Duration"


class Term:
    """A time computed from a row's vs and ve."""

    def __add__(self, other: Termlike) -> Term:
        return _combine(self, term(other))

    __radd__ = __add__

    def __sub__(self, other: Termlike) -> Term:
        return self + -term(other)

    def __rsub__(self, other: Termlike) -> Term:
        return term(other) + -self

    def __mul__(self, factor: int) -> Term:
        if isinstance(factor, bool) or not isinstance(factor, int):
            raise PlanError(
                f"a time can be multiplied by an integer only, not by {factor}",
                hint="floor() and ceil() round to multiples",
            )
        return self._scaled(factor)

    __rmul__ = __mul__

    def __neg__(self) -> Term:
        return self._scaled(-1)

    def floor(self, step: Duration) -> Term:
        """The last multiple of step that is not after it."""
        return self._floored(_positive(step, "a step"))

    def ceil(self, step: Duration) -> Term:
        """The first multiple of step that is not before it."""
        size = _positive(step, "a step")
        return (self + (size - 1))._floored(size)

    def at(self, vs: Times, ve: Times) -> Times:
        """Its value for every row."""
        raise NotImplementedError

    def sums(self) -> Iterator[Sum]:
        """The linear sums it is made of."""
        raise NotImplementedError

    def picks(self, pick: Literal["least", "most"]) -> bool:
        """Whether it takes the least, or the most, of several terms somewhere."""
        raise NotImplementedError

    def _scaled(self, factor: int) -> Term:
        raise NotImplementedError

    def _floored(self, step: int) -> Term:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Symbol:
    """vs or ve of the row."""

    name: Literal["vs", "ve"]

    def at(self, vs: Times, ve: Times) -> Times:
        return vs if self.name == "vs" else ve

    def mentions(self, name: str) -> bool:
        return self.name == name

    def falls_with(self, name: str) -> bool:
        return False

    def rises_with(self, name: str) -> bool:
        return self.name == name

    def with_ve_for_vs(self) -> Symbol:
        return Symbol("ve")

    def __str__(self) -> str:
        return self.name


@vectorize(["int64(int64, int64)"], cache=True)  # type: ignore[no-untyped-call, untyped-decorator]
def _floor(value: int, step: int) -> int:
    if value == INF:
        return INF
    return value - value % step if value > BEGIN + step else BEGIN


@dataclass(frozen=True, slots=True)
class Floor:
    """The last multiple of step that is not after a sum."""

    of: Sum
    step: int

    def at(self, vs: Times, ve: Times) -> Times:
        floored: Times = _floor(self.of.at(vs, ve), self.step)
        return floored

    def mentions(self, name: str) -> bool:
        return self.of.mentions(name)

    def falls_with(self, name: str) -> bool:
        return self.of.falls_with(name)

    def rises_with(self, name: str) -> bool:
        return self.of.rises_with(name)

    def with_ve_for_vs(self) -> Floor:
        return Floor(self.of.with_ve_for_vs(), self.step)

    def __str__(self) -> str:
        return f"floor({self.of}, {self.step})"


@dataclass(frozen=True, slots=True)
class Sum(Term):
    """constant + the sum of factor * atom."""

    atoms: tuple[tuple[Symbol | Floor, int], ...]
    constant: int

    def at(self, vs: Times, ve: Times) -> Times:
        if not self.atoms:
            return np.full(len(vs), self.constant, dtype=np.int64)
        parts = (_multiply(atom.at(vs, ve), factor) for atom, factor in self.atoms)
        total: Times = plus(self.constant, next(parts))
        return reduce(plus, parts, total)

    def sums(self) -> Iterator[Sum]:
        yield self

    def picks(self, pick: Literal["least", "most"]) -> bool:
        return False

    def mentions(self, name: str) -> bool:
        """Whether it depends on vs, or on ve."""
        return any(atom.mentions(name) for atom, _ in self.atoms)

    def falls_with(self, name: str) -> bool:
        """Whether it may decrease while vs, or ve, grows."""
        return any(
            atom.falls_with(name) if factor > 0 else atom.rises_with(name) for atom, factor in self.atoms
        )

    def rises_with(self, name: str) -> bool:
        """Whether it may increase while vs, or ve, grows."""
        return (-self).falls_with(name)

    def with_ve_for_vs(self) -> Sum:
        """The same function, of ve instead of vs."""
        return Sum(tuple((atom.with_ve_for_vs(), f) for atom, f in self.atoms), self.constant)

    def __neg__(self) -> Sum:
        return self._scaled(-1)

    def _scaled(self, factor: int) -> Sum:
        return Sum(
            tuple((atom, factor * f) for atom, f in self.atoms if factor * f),
            INF if self.constant == INF and factor > 0 else _saturated(self.constant * factor),
        )

    def _floored(self, step: int) -> Sum:
        if not self.atoms:
            return Sum((), INF if self.constant == INF else self.constant - self.constant % step)
        return Sum(((Floor(self, step), 1),), 0)

    def __str__(self) -> str:
        parts = [str(atom) if f == 1 else f"{f}*{atom}" for atom, f in self.atoms]
        if self.constant or not parts:
            parts.append(show(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


@dataclass(frozen=True, slots=True)
class Choice(Term):
    """The least or the most of several terms."""

    pick: Literal["least", "most"]
    terms: tuple[Term, ...]

    def at(self, vs: Times, ve: Times) -> Times:
        choose = np.minimum if self.pick == "least" else np.maximum
        return reduce(choose, (part.at(vs, ve) for part in self.terms))

    def sums(self) -> Iterator[Sum]:
        for part in self.terms:
            yield from part.sums()

    def picks(self, pick: Literal["least", "most"]) -> bool:
        return self.pick == pick or any(part.picks(pick) for part in self.terms)

    def _each(self, change: Callable[[Term], Term], *, flip: bool = False) -> Choice:
        other: Literal["least", "most"] = "most" if self.pick == "least" else "least"
        return Choice(other if flip else self.pick, tuple(change(part) for part in self.terms))

    def _scaled(self, factor: int) -> Term:
        return self._each(lambda part: part * factor, flip=factor < 0)

    def _floored(self, step: int) -> Term:
        return self._each(lambda part: part.floor(step))

    def __str__(self) -> str:
        return f"{self.pick}({', '.join(map(str, self.terms))})"


VS: Term = Sum(((Symbol("vs"), 1),), 0)
"""The start of a row's lifetime."""
VE: Term = Sum(((Symbol("ve"), 1),), 0)
"""The end of a row's lifetime."""


def _saturated(value: int) -> int:
    return max(BEGIN, min(value, INF))


def term(value: Termlike) -> Term:
    """A term, or a length of time as a constant one."""
    return value if isinstance(value, Term) else Sum((), duration(value))


def least(*terms: Termlike) -> Term:
    """The smallest of several terms."""
    return Choice("least", _some(terms))


def most(*terms: Termlike) -> Term:
    """The largest of several terms."""
    return Choice("most", _some(terms))


def _some(terms: tuple[Termlike, ...]) -> tuple[Term, ...]:
    if not terms:
        raise PlanError("least and most need at least one term")
    return tuple(term(part) for part in terms)


def _combine(left: Term, right: Term) -> Term:
    """Addition distributes over least and most, down to linear sums."""
    if isinstance(left, Choice):
        return left._each(lambda part: part + right)
    if isinstance(right, Choice):
        return right._each(lambda part: left + part)
    assert isinstance(left, Sum)
    assert isinstance(right, Sum)
    factors = dict(left.atoms)
    for atom, factor in right.atoms:
        factors[atom] = factors.get(atom, 0) + factor
    atoms = tuple((atom, factor) for atom, factor in factors.items() if factor)
    return Sum(atoms, plus(left.constant, right.constant))


def _multiply(value: Times, factor: int) -> Times:
    if factor == 1:
        return value
    exact = np.abs(value.astype(np.float64)) * abs(factor) < float(INF)
    beyond = np.where(np.sign(value) * factor > 0, INF, BEGIN)
    return np.where(value == INF, INF, np.where(exact, value * factor, beyond))


def _positive(value: Duration, what: str) -> int:
    size = duration(value)
    if size <= 0:
        raise PlanError(f"{what} must be longer than zero", detail=f"it is {value!r}")
    return size


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A checked pair of terms: every row lives during [start, end), or is gone if that is empty."""

    start: Term
    end: Term
    name: str = "alter_lifetime"
    is_tumbling: bool = False
    """whether all rows live in windows of which no two overlap"""

    def __post_init__(self) -> None:
        for part in self.start.sums():
            if part.mentions("ve"):
                raise PlanError(
                    f"{self.name}: the start may depend on vs only",
                    detail=f"start = {self.start} mentions ve, which may still change",
                    hint="point_at_end() and deletes() are the operations that look at the end",
                )
            if part.falls_with("vs"):
                raise PlanError(
                    f"{self.name}: the start function is not monotone",
                    detail=f"start = {self.start} may decrease while vs grows",
                    hint="a later row must not start earlier, or no promise would survive",
                )
        for part in self.end.sums():
            if part.falls_with("ve"):
                raise PlanError(
                    f"{self.name}: the end must not grow when ve shrinks",
                    detail=f"end = {self.end} may decrease while ve grows",
                )
            if part.mentions("ve") and part.mentions("vs"):
                raise PlanError(
                    f"{self.name}: no promise would survive this end",
                    detail=f"{part} mixes vs and ve: a change of ve could have effects arbitrarily "
                    "far back",
                    hint="let each part of the end depend on vs or on ve, not on both",
                )

    def starts(self, vs: Times) -> Times:
        """The new start of each row."""
        return self.start.at(vs, vs)

    def ends(self, vs: Times, ve: Times) -> Times:
        """The new end of each row; not after its start where the row is gone."""
        return self.end.at(vs, ve)

    def promise(self, time: int) -> int:
        """The cti that cti(time) becomes: the least sync that a still permitted element can cause."""
        return int(self.promises(np.array([time], dtype=np.int64))[0])

    def promises(self, times: Times) -> Times:
        """What cti(t) becomes, for many times t."""
        bounds = [self.start, *(part for part in self.end.sums() if part.mentions("ve"))]
        earliest = reduce(np.minimum, (bound.at(times, times) for bound in bounds))
        return np.where((times == INF) | (times == BEGIN), times, earliest)

    @property
    def is_forward(self) -> bool:
        """Whether no change of a row causes one at an earlier time: cti(t) becomes t or later."""
        ends = (bound for bound in self.end.sums() if bound.mentions("ve"))
        return all(_is_not_before(bound) for bound in (self.start, *ends))

    def window(self, since: int, before: int) -> tuple[int, int] | None:
        """The syncs that only elements with a sync in [since, before) can cause; None: not known.

        Known where the end follows vs alone, as that of a window does: then all that happens to a row
        happens at its start. Starts do not decrease, so a start after that of `since - 1` and before
        that of `before` is that of a vs in between.
        """
        if since == BEGIN:
            return BEGIN, self.promise(before)
        if any(part.mentions("ve") for part in self.end.sums()):
            return None
        low, high = (int(t) for t in self.starts(np.array([since - 1, before], dtype=np.int64)))
        first, last = low + 1 if low < INF else INF, before if before == INF else high
        return (first, last) if first < last else None

    def __str__(self) -> str:
        return self.name if self.name != "alter_lifetime" else f"[{self.start}, {self.end})"


def _is_not_before(bound: Term) -> bool:
    """Whether it is never before vs = ve, as far as that can be seen of it."""
    if isinstance(bound, Choice):
        of_each = [_is_not_before(part) for part in bound.terms]
        return all(of_each) if bound.pick == "least" else any(of_each)
    assert isinstance(bound, Sum)
    if [factor for _, factor in bound.atoms] != [1]:
        return False
    [(atom, _)] = bound.atoms
    later = bound.constant
    while isinstance(atom, Floor):
        # rounding down to multiples of a step takes less than a step
        later += atom.of.constant - atom.step + 1
        if [factor for _, factor in atom.of.atoms] != [1]:
            return False
        [(atom, _)] = atom.of.atoms
    return later >= 0


def lifetime(
    start: Termlike | None = None,
    *,
    duration: Termlike | None = None,
    end: Termlike | None = None,
) -> Lifetime:
    """A lifetime as users write it: a start, and either a duration or an end.

    >>> print(lifetime(VS, duration=least(VE - VS, 10)))
    [vs, least(ve, vs + 10))
    >>> lifetime(-VS, duration=10)
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: alter_lifetime: the start function is not monotone
      detail: start = -1*vs may decrease while vs grows
      hint: a later row must not start earlier, or no promise would survive
    """
    begin = VS if start is None else term(start)
    if duration is not None and end is not None:
        raise PlanError("alter_lifetime: give a duration or an end, not both")
    if duration is None:
        return Lifetime(begin, VE if end is None else term(end))
    length = term(duration)
    if isinstance(length, Sum) and not length.atoms and length.constant <= 0:
        raise PlanError(
            "alter_lifetime: a duration must be longer than zero",
            detail=f"it is {length.constant}",
            hint="extend(d) with a negative d shortens lifetimes",
        )
    return Lifetime(begin, begin + length)


def sliding(width: Duration) -> Lifetime:
    """Every row lives for `width` from its start: a moving window."""
    size = _positive(width, "a window")
    return Lifetime(VS, VS + size, f"sliding({show_length(size)})")


def hopping(size: Duration, hop: Duration, *, closed: Literal["left", "right"] = "left") -> Lifetime:
    """Windows of `size` that move by `hop`: the row at [k, k + hop) covers the inputs in [k-size, k).

    `closed="right"` covers (k - size, k] instead.

    >>> window = hopping(20, 10)
    >>> start, end = window.starts(np.array([11])), window.ends(np.array([11]), np.array([12]))
    >>> start.tolist(), end.tolist()
    ([20], [40])
    """
    length, step = _positive(size, "a window"), _positive(hop, "a hop")
    if INF in (length, step):
        raise PlanError("a window that moves has an end", hint="inserts() is the window without one")
    if closed not in ("left", "right"):
        raise PlanError(f"closed={closed!r} is not a side", hint="use 'left' or 'right'")
    first = VS.floor(step) + step if closed == "left" else VS.ceil(step)
    last = (VS + length).floor(step) + step if closed == "left" else (VS + length).ceil(step)
    right = "" if closed == "left" else ", closed='right'"
    return Lifetime(first, last, f"hopping({show_length(length)}, {show_length(step)}{right})")


def tumbling(size: Duration, *, closed: Literal["left", "right"] = "left") -> Lifetime:
    """Adjoining windows: hopping by their own size."""
    window = hopping(size, size, closed=closed)
    right = "" if closed == "left" else ", closed='right'"
    return replace(window, name=f"tumbling({show_length(duration(size))}{right})", is_tumbling=True)


def inserts() -> Lifetime:
    """Nothing ever ends: [vs, INF)."""
    return Lifetime(VS, term(INF), "inserts")


def shift(by: Duration) -> Lifetime:
    """Both ends move."""
    step = duration(by)
    return Lifetime(VS + step, VE + step, f"shift({show_length(step)})")


def extend(by: Duration) -> Lifetime:
    """The end moves; a row of which nothing is left goes."""
    step = duration(by)
    return Lifetime(VS, VE + step, f"extend({show_length(step)})")


def clip(longest: Duration) -> Lifetime:
    """No row lives longer than that."""
    size = _positive(longest, "the longest duration")
    return Lifetime(VS, least(VE, VS + size), f"clip({show_length(size)})")


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Rows closer together than `gap` are one session, per value of the columns `by`."""

    gap: int
    by: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f", by={list(self.by)}" if self.by else ""
        return f"session({show_length(self.gap)}{by})"


def session(gap: Duration, by: str | tuple[str, ...] = ()) -> SessionWindow:
    """A session window: every row lives until `gap` after the last start of its session."""
    given: object = by
    names = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for name in names:
        if not isinstance(name, str):
            raise PlanError(
                f"session: {name} is not the name of a column",
                detail=f"it is of type {type(name).__name__}",
                hint="sw.session('10 min', by='sensor')",
            )
    return SessionWindow(_positive(gap, "a gap"), names)
