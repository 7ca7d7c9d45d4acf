"""Validity: which elements a stream may contain, and how well behaved it is.

A stream is valid when no element breaks an earlier promise and every adjust continues an event that
exists. `Validator` is the one place that decides so, element by element; `validate` feeds it a whole
stream. Edges of the system have a faster one with the same rules (admission.py). `StreamProperties` says
what more is known of a stream: ordered, perfect, and the properties from which a merge chooses its
algorithm.

Paper 1a section 2.2 (Definitions 1 to 5), paper 2 section III-C, errata 6, 9 and 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.errors import InvalidElement, InvalidStream
from slackwater.events import Adjust, Batch, Control, Element, Insert, Stream
from slackwater.identity import row_keys
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Punctuation
from slackwater.times import BEGIN, show

__all__ = ["StreamProperties", "Validator", "Violation", "closed_up_to", "validate"]

_CHANGE = "\0change"


@dataclass(frozen=True, slots=True)
class Violation:
    """An element that breaks a rule: where it stands, which rule, and how."""

    row: int
    """its place among the data rows of its batch"""
    position: int
    """its place among all elements of the stream"""
    element: Element
    rule: str
    fact: str
    detail: str
    hint: str

    def error(self) -> InvalidStream:
        """The exception that says so."""
        return InvalidStream(
            self.fact,
            element=self.element,
            position=self.position,
            rule=self.rule,
            detail=self.detail,
            hint=self.hint,
        )


class Validator:
    """Decides element by element whether a stream is valid. Fed with batches, in order.

    Rules, in the order in which they are judged: *promise broken* (an earlier promise speaks of it, also
    one of the same batch), *chain out of order* (the adjust names an end that its event does not have
    now), *unknown event*, *declared property broken* (the source was declared to be better behaved). It
    remembers the events that may still be adjusted: those that end behind the last cti are forgotten. Of
    a source that was declared insert-only there is nothing to remember.

    With `chains=False` an adjust may come before what it continues: that is not judged then.

    A validator that has raised has seen part of a batch, and is of no more use.
    """

    def __init__(
        self,
        *,
        promises: bool = True,
        chains: bool = True,
        declared: StreamProperties | None = None,
    ) -> None:
        self._judge_promises = promises
        self._judge_chains = chains
        self._declared = declared or StreamProperties()
        self._latest_sync = self._latest_start = BEGIN
        self._promises = Promises()
        self._seen = 0
        # payload and start -> how many events end at each time
        self._alive: dict[tuple[Any, ...], dict[int, int]] = {}
        self._purge_at = 1024

    @property
    def promises(self) -> Promises:
        """What the stream has promised so far."""
        return self._promises

    def admit(self, batch: Batch) -> Batch:
        """The batch, if all of it is valid; raises for the first element that is not."""
        for violation in self._judge(batch):
            raise violation.error()
        return batch

    def sift(self, batch: Batch) -> tuple[Batch, list[Violation]]:
        """The valid part of the batch, and what is wrong with the rest.

        What is set aside never happened: later elements are judged without it.
        """
        violations = list(self._judge(batch))
        if not violations:
            return batch, []
        keep = np.ones(batch.rows, dtype=np.bool_)
        keep[[violation.row for violation in violations]] = False
        return batch.where(keep), violations

    def _judge(self, batch: Batch) -> Iterator[Violation]:
        broken = (
            self._promises.broken_by(batch)
            if self._judge_promises
            else np.zeros(batch.rows, dtype=np.bool_)
        )
        misbehaved = self._misbehaved(batch)
        if self._judge_chains and self._has_to_remember:
            yield from self._judge_links(batch, broken, misbehaved)
        else:
            for row in np.union1d(np.flatnonzero(broken), list(misbehaved)).astype(int).tolist():
                late = self._late(batch, row) if broken[row] else None
                yield late or self._not_as_declared(batch, row, misbehaved[row])
        self._seen += batch.rows + sum(_elements_of(placed.control) for placed in batch.controls)
        self._promises.add(p.control for p in batch.controls)
        # a stream that may break its promises may still adjust what they froze
        if self._judge_promises and self._remembered > self._purge_at:
            self._forget_frozen()

    @property
    def _remembered(self) -> int:
        """How many payloads and starts there are of which something is known."""
        return len(self._alive)

    @property
    def _has_to_remember(self) -> bool:
        """Not where there are no adjusts, unless events have to differ and starts do not say so."""
        declared = self._declared
        starts_differ = declared.strictly_increasing or not declared.vs_payload_key
        return not (declared.insert_only and starts_differ)

    def _judge_links(
        self, batch: Batch, broken: npt.NDArray[np.bool_], misbehaved: dict[int, str]
    ) -> Iterator[Violation]:
        unique = self._declared.vs_payload_key
        keys = row_keys(batch.payload)
        times = zip(batch.vs.tolist(), batch.old_ve.tolist(), batch.new_ve.tolist(), strict=True)
        alive = self._alive
        for row, (key, (vs, old_ve, new_ve), late) in enumerate(
            zip(keys, times, broken.tolist(), strict=True)
        ):
            ends = alive.get((vs, key))
            if late:
                yield self._late(batch, row)
                continue
            if old_ve > vs and (ends is None or old_ve not in ends):
                yield self._no_such_event(batch, row, ends)
                continue
            if row in misbehaved or (unique and ends and old_ve == vs):
                yield self._not_as_declared(batch, row, misbehaved.get(row, "vs_payload_key"))
                continue
            if old_ve > vs:
                assert ends is not None
                _decrement(ends, old_ve)
            if new_ve > vs:
                ends = alive.setdefault((vs, key), {}) if ends is None else ends
                ends[new_ve] = ends.get(new_ve, 0) + 1
            elif not ends:
                del alive[vs, key]

    def _misbehaved(self, batch: Batch) -> dict[int, str]:
        """Rows that break a declared property which columns alone can tell, and which one."""
        declared, is_insert, sync = self._declared, batch.is_insert, batch.sync
        found: dict[int, str] = {}
        if declared.ordered:
            before = np.concatenate([[self._latest_sync], sync])
            for place, control in batch.controls:
                if isinstance(control, Punctuation) and control.is_cti:
                    before[place] = max(int(before[place]), control.before)
            before = np.maximum.accumulate(before)
            self._latest_sync = int(before[-1])
            found |= dict.fromkeys(np.flatnonzero(sync < before[:-1]).tolist(), "ordered")
        if declared.strictly_increasing:
            starts = batch.vs[is_insert]
            before = np.maximum.accumulate(np.concatenate([[self._latest_start], starts]))
            self._latest_start = int(before[-1])
            late = np.flatnonzero(is_insert)[(starts <= before[:-1]) & (before[:-1] > BEGIN)]
            found |= dict.fromkeys(late.tolist(), "strictly_increasing")
        if declared.insert_only:
            found |= dict.fromkeys(np.flatnonzero(~is_insert).tolist(), "insert_only")
        elif declared.never_lengthens:
            longer = ~is_insert & (batch.new_ve > batch.old_ve)
            found |= dict.fromkeys(np.flatnonzero(longer).tolist(), "never_lengthens")
        return found

    def _not_as_declared(self, batch: Batch, row: int, name: str) -> Violation:
        element = _element(batch, row)
        return Violation(
            row=row,
            position=self._position(batch, row),
            element=element,
            rule="declared property broken",
            fact=f"{element!r} breaks the declared property {name!r}",
            detail=f"the source was declared {', '.join(self._declared.names())}",
            hint="declare only what always holds: answers may depend on it",
        )

    def _forget_frozen(self) -> None:
        """Drop what no valid adjust can name: it would have sync < cti. Doubling amortises it."""
        frozen_before = self._promises.cti
        for key, ends in list(self._alive.items()):
            if max(ends) < frozen_before:
                del self._alive[key]
        self._purge_at = max(1024, 2 * len(self._alive))

    def _late(self, batch: Batch, row: int) -> Violation:
        element = _element(batch, row)
        promised = _promise_before(batch, row, self._promises)
        if promised.is_cti:
            what = f"the history before {show(promised.before)} was promised not to change"
        else:
            what = f"{promised!r} was promised: nothing that it speaks of was to come"
        return Violation(
            row=row,
            position=self._position(batch, row),
            element=element,
            rule="promise broken",
            fact=f"{element!r} breaks the promise {promised!r}",
            detail=f"its sync is {show(int(batch.sync[row]))}, and {what}",
            hint="send the promise later, or give the query more lateness",
        )

    def _no_such_event(self, batch: Batch, row: int, ends: dict[int, int] | None) -> Violation:
        element = _element(batch, row)
        if ends:
            now = ", ".join(show(end) for end in sorted(ends))
            rule, fact = (
                "chain out of order",
                f"{element!r} names an end that its event does not have",
            )
            detail = f"the event that starts at {show(int(batch.vs[row]))} now ends at {now}"
            hint = "adjusts of one event must arrive in the order in which they were made"
        else:
            rule, fact = "unknown event", f"{element!r} adjusts an event that does not exist"
            detail = "no event with this start and payload is there to be adjusted"
            hint = "an adjust repeats vs, ve and the whole payload of the event it changes"
        return Violation(row, self._position(batch, row), element, rule, fact, detail, hint)

    def _position(self, batch: Batch, row: int) -> int:
        spread = (each for p in batch.controls for each in p.control.spread(p.position))
        return self._seen + row + sum(placed.position <= row for placed in spread)


def _decrement(ends: dict[int, int], end: int) -> None:
    ends[end] -= 1
    if not ends[end]:
        del ends[end]


def _element(batch: Batch, row: int) -> Element:
    return next(iter(batch.slice(row, row + 1)))


def _elements_of(control: Control) -> int:
    return len(control) if isinstance(control, Closings) else 1


def _promise_before(batch: Batch, row: int, promises: Promises) -> Punctuation:
    """The promise that a row breaks: a cti if there is one, else the first that was made."""
    spread = (each for p in batch.controls for each in p.control.spread(p.position))
    told = [p.control for p in spread if p.position <= row and isinstance(p.control, Punctuation)]
    cti = promises.strengthened_by(told)[0].cti
    alone = batch.slice(row, row + 1)
    if Punctuation(cti).matches(alone)[0]:
        return Punctuation(cti)
    return promises.broken_one(alone) or next(each for each in told if each.matches(alone)[0])


def validate(stream: Stream, schema: pl.Schema | None = None) -> None:
    """Raise `InvalidStream`, naming the first element that breaks a rule, and the rule.

    >>> from slackwater.events import insert
    >>> from slackwater.punctuations import cti
    >>> validate([insert(0, 10, k="a"), cti(5), insert(3, 8, k="b")])
    Traceback (most recent call last):
        ...
    slackwater.errors.InvalidStream: insert(3, 8, k='b') breaks the promise cti(5)
      detail: its sync is 3, and the history before 5 was promised not to change
      hint: send the promise later, or give the query more lateness
    """
    Validator().admit(Batch.of(stream, schema).checked())


@dataclass(frozen=True, slots=True)
class StreamProperties:
    """What is known of a physical stream: declared by a source, inferred for a plan, or observed.

    `False` means "not known". Paper 1a Definitions 3 to 5, paper 2 section III-C.
    """

    ordered: bool = False
    """sync never decreases, control elements included"""
    insert_only: bool = False
    """there are no adjusts"""
    strictly_increasing: bool = False
    """every insert has a later vs than the one before it"""
    vs_payload_key: bool = False
    """at every prefix no two events have the same start and payload"""
    never_lengthens: bool = False
    """no adjust makes an event end later"""
    ties_in_order: bool = False
    """inserts with equal vs come in an order that is the same in every copy of the stream"""

    def __post_init__(self) -> None:
        if self.insert_only:
            object.__setattr__(self, "never_lengthens", True)
            if self.strictly_increasing:
                object.__setattr__(self, "vs_payload_key", True)
                object.__setattr__(self, "ties_in_order", True)

    @property
    def perfect(self) -> bool:
        """Ordered, and nothing is ever taken back."""
        return self.ordered and self.insert_only

    def names(self) -> list[str]:
        """The properties that hold, for people."""
        named = [field.name for field in fields(self) if getattr(self, field.name)]
        return [*named, "perfect"] if self.perfect else named

    @classmethod
    def observed(cls, stream: Stream, schema: pl.Schema | None = None) -> StreamProperties:
        """The properties that a finite stream has."""
        batch = Batch.of(stream, schema)
        is_insert = batch.is_insert
        in_time = [element for element in batch if not _is_of_payloads(element)]
        syncs = np.array([_sync(element) for element in in_time], dtype=np.int64)
        insert_vs = batch.vs[is_insert]
        return cls(
            ordered=bool(np.all(syncs[1:] >= syncs[:-1])),
            insert_only=bool(is_insert.all()),
            strictly_increasing=bool(np.all(insert_vs[1:] > insert_vs[:-1])),
            vs_payload_key=_is_key_at_every_prefix(batch),
            never_lengthens=bool(np.all(is_insert | (batch.new_ve <= batch.old_ve))),
        )


def closed_up_to(stream: Stream, schema: pl.Schema | None = None) -> int:
    """The largest t at which the stream is closed: its last cti's time, BEGIN if there is none.

    Paper 1a Definition 5 and Lemma 3. The stream is closed *at* every time up to that one.
    """
    controls = (placed.control for placed in Batch.of(stream, schema).controls)
    ctis = (c.before for c in controls if isinstance(c, Punctuation) and c.is_cti)
    return max(ctis, default=BEGIN)


def _is_of_payloads(element: Element) -> bool:
    """Whether it is a promise that has no place in sync order."""
    return isinstance(element, Punctuation) and not element.is_cti


def _sync(element: Element) -> int:
    if isinstance(element, Insert | Adjust | Punctuation):
        return element.sync
    raise InvalidElement(f"{element!r} has no sync", detail="only punctuations and data do")


def _is_key_at_every_prefix(batch: Batch) -> bool:
    """Count the events alive per (vs, payload): +1 for an insert, -1 for a removal, else 0."""
    change = (batch.new_ve > batch.vs).astype(np.int64) - (batch.old_ve > batch.vs)
    identity = [*batch.schema, "vs"]
    counted = batch.payload.with_columns(pl.Series("vs", batch.vs), pl.Series(_CHANGE, change))
    alive = counted.select(left=pl.col(_CHANGE).cum_sum().over(identity))["left"]
    return not bool((alive > 1).any())
