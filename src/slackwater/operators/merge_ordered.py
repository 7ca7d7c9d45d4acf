"""R0, R1, R2: inserts only, in the order of their starts. There is next to nothing to remember.

    R0   starts increase strictly: what starts later than anything before is new
    R1   equal starts come in one order: the n-th of a start is new if no input has had so many
    R2   equal starts come in any order, (vs, payload) is a key: new is what has not been seen

All of them go by the latest start that was seen. A row that starts earlier was told by another input,
or is one that this other input lacks: of what is past nothing is remembered, so that is not found out.
Only what the latest start has is compared: by R1 in the order in which it came, by R2 as a set; and a
row that starts later than anything before, but earlier than was promised, contradicts who promised that.
So does one of a payload that was promised not to come: what an input has told was shown, so its promise
about payloads holds for the output as it is, and is remembered.

    R0   in 0:  a [1, 9)              c [5, 7)   cti(6)
         in 1:             a [1, 9)                        c [5, 7)   d [8, 9)
         out:   a [1, 9)              c [5, 7)   cti(6)               d [8, 9)

Time: for a batch of n rows one look at its starts, and nothing is copied; R2 O(g) for g rows of one
start. Space: O(1), O(s + g) and O(g p).

Paper 2 sections IV-A to IV-C and Table IV.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.kernels.grouping import Keys, hashes_of
from slackwater.kernels.merging import ENDS, HAS, ORDER, first_out_of_order
from slackwater.operators.inputs import Inputs, Ints, Wrong
from slackwater.punctuations import Promise
from slackwater.times import BEGIN, show

__all__ = ["InOrder", "State"]


@dataclass(slots=True)
class State:
    """The latest start, and what is known of the rows that have it."""

    inputs: int
    latest: int = BEGIN
    counts: Ints = field(init=False)
    """R1: how many of them each input has said"""
    hashes: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """R1: of those that were shown"""
    keys: Keys | None = None
    """R2: the payloads"""
    ends: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """R2: and where they end"""
    last: Ints = field(init=False)
    """the latest start of each input"""

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.inputs, dtype=np.int64)
        self.last = np.full(self.inputs, BEGIN, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class InOrder:
    """The algorithms R0, R1 and R2."""

    schema: pl.Schema
    algorithm: str

    def open(self, inputs: int) -> State:
        """Nothing told."""
        return State(inputs)

    def add_input(self, state: State) -> None:
        """There is one more, which has said nothing."""
        state.inputs += 1
        state.counts, state.last = np.append(state.counts, 0), np.append(state.last, BEGIN)

    def rows(self, state: State) -> int:
        """How many events are remembered."""
        return len(state.hashes) + (0 if state.keys is None else len(state.keys))

    def take_in(self, state: State, inputs: Inputs, port: int, rows: Batch) -> tuple[Batch, list[Wrong]]:
        """What nobody has said before."""
        self._require(state, inputs, port, rows)
        if not self._is_joined(state, inputs, port):
            return Batch.empty(self.schema), []
        if state.latest < inputs.out:
            # what starts before the output's cti was promised not to come
            first = int(np.searchsorted(rows.vs, inputs.out, side="left"))
            shown = rows.slice(first, rows.rows) if first else rows
            missed = int(np.searchsorted(rows.vs, state.latest, side="right"))
            wrong = [_missed(inputs, port, rows.slice(row, row + 1)) for row in range(missed, first)]
        else:
            first, same = np.searchsorted(rows.vs, [state.latest, state.latest + 1]).tolist()
            shown, wrong = self._of_latest(state, inputs, port, rows, first=first, same=same)
        if shown.rows:
            self._remember(state, port, shown)
        if not len(inputs.promised) or not shown.rows:
            return shown, wrong
        broken = inputs.promised.forbids(shown.vs, shown.payload)
        wrong += [_promised_away(inputs, port, row) for row in _one_by_one(shown.where(broken))]
        return shown.where(~broken), wrong

    @staticmethod
    def _is_joined(state: State, inputs: Inputs, port: int) -> bool:
        """Whether others have told all that an input lacks, and all of it that was passed over.

        An earlier row of theirs would be taken for one that was told.
        """
        if inputs.since[port] == BEGIN:
            return True
        since = int(inputs.since[port])
        if max(state.latest, inputs.out) >= since:
            # others have told what it lacks, so that it may promise from here on
            inputs.since[port] = min(since, inputs.out)
            return True
        inputs.since[port] = max(since, int(state.last[port]) + 1)
        return False

    def _of_latest(
        self, state: State, inputs: Inputs, port: int, rows: Batch, *, first: int, same: int
    ) -> tuple[Batch, list[Wrong]]:
        if self.algorithm == "R0":
            return rows.slice(same, rows.rows) if same else rows, []
        if first == same:
            return rows.slice(first, rows.rows) if first else rows, []
        if self.algorithm == "R1":
            return self._after_count(state, inputs, port, rows, first=first, same=same)
        return self._unseen(state, inputs, port, rows, first=first, same=same)

    def _require(self, state: State, inputs: Inputs, port: int, rows: Batch) -> None:
        """Inserts in the order of their starts; else it is not what the input was known to be."""
        strictly = self.algorithm == "R0"
        row = first_out_of_order(rows.vs, rows.old_ve, rows.only_inserts, state.last[port], strictly)
        if row >= 0:
            [element] = rows.slice(row, row + 1)
            name = "strictly_increasing" if strictly else "ordered"
            lacking = name if rows.is_insert[row] else "insert_only"
            before = int(rows.vs[row - 1] if row else state.last[port])
            raise OperatorError(
                f"merge: input {inputs.names[port]} is not {lacking}, which {self.algorithm} needs",
                detail=f"it says {element!r} behind a start of {show(before)}",
                hint="leave algorithm='auto', which takes what the inputs are known to be",
            )
        state.last[port] = rows.vs[-1]

    def _after_count(
        self, state: State, inputs: Inputs, port: int, rows: Batch, *, first: int, same: int
    ) -> tuple[Batch, list[Wrong]]:
        """R1: of the latest start, those beyond what was shown; who said it may have left."""
        had, told = int(state.counts[port]), len(state.hashes)
        again = min(same - first, max(0, told - had))
        hashes = _hashes(rows.slice(first, first + again))
        differ = np.flatnonzero(hashes != state.hashes[had : had + again])
        state.counts[port] += same - first
        beyond = rows.slice(first + again, rows.rows)
        if not len(differ):
            return beyond, []
        row = int(differ[0])
        wrong = _told_otherwise(state, inputs, port, rows.slice(first + row, first + row + 1), had + row)
        return (Batch.empty(self.schema) if wrong.with_output else beyond), [wrong]

    def _unseen(
        self, state: State, inputs: Inputs, port: int, rows: Batch, *, first: int, same: int
    ) -> tuple[Batch, list[Wrong]]:
        """R2: of the latest start, payloads that are new; and those that were shown with another end."""
        assert state.keys is not None, "there is a latest start"
        group = rows.slice(first, same)
        found = state.keys.find(group.payload)
        known = found >= 0
        differ = np.flatnonzero(known & (group.new_ve != state.ends[found]))
        wrong = [
            _ends_otherwise(state, inputs, port, group.slice(row, row + 1), int(state.ends[found[row]]))
            for row in differ.tolist()
        ]
        if not known.any():
            return rows.slice(first, rows.rows), wrong
        keep = np.ones(rows.rows, dtype=np.bool_)
        keep[:first] = False
        keep[first:same] = ~known
        return rows.where(keep), wrong

    def _remember(self, state: State, port: int, shown: Batch) -> None:
        """The rows of the latest start."""
        latest = int(shown.vs[-1])
        if self.algorithm == "R0":
            state.latest = latest
            return
        begins = int(np.searchsorted(shown.vs, latest, side="left"))
        group = shown.slice(begins, shown.rows)
        is_new = latest > state.latest
        state.latest = latest
        if self.algorithm == "R1":
            if is_new:
                state.counts[:] = 0
                state.counts[port] = group.rows
                state.hashes = state.hashes[:0]
            state.hashes = np.concatenate([state.hashes, _hashes(group)])
        elif self.algorithm == "R2":
            if is_new or state.keys is None:
                state.keys, state.ends = Keys(self.schema), state.ends[:0]
            numbers = state.keys.number(group.payload)
            ends = np.empty(len(state.keys), dtype=np.int64)
            ends[: len(state.ends)] = state.ends
            ends[numbers] = group.new_ve
            state.ends = ends

    def advance(self, state: State, inputs: Inputs, port: int, until: int) -> tuple[Batch, list[Wrong]]:
        """Nothing has to be said; of a start that is past nothing is remembered."""
        if until > state.latest:
            state.counts[:] = 0
            state.hashes, state.keys, state.ends = state.hashes[:0], None, state.ends[:0]
        return Batch.empty(self.schema), []

    def close(
        self, state: State, inputs: Inputs, port: int, told: Sequence[Promise], *, trusted: bool
    ) -> tuple[Batch, list[Wrong]]:
        """Nothing has to be said: whatever an input has told of payloads was shown."""
        return Batch.empty(self.schema), []

    def compare(self, state: State, inputs: Inputs, port: int, told: Sequence[Promise]) -> list[Wrong]:
        """Nothing is remembered that could be contradicted."""
        return []

    def judge(self, state: State, inputs: Inputs, port: int, told: int) -> list[Wrong]:
        """Nothing is remembered that could be contradicted."""
        return []

    def verdicts(self, state: State, inputs: Inputs) -> list[Wrong]:
        """Nothing waits to be decided."""
        return []

    def forget(self, state: State, inputs: Inputs, port: int) -> None:
        """An input that begins anew counts from there."""
        state.counts[port] = 0
        state.last[port] = BEGIN


def _missed(inputs: Inputs, port: int, row: Batch) -> Wrong:
    """A row that the input lacks which has promised more than its start, and nobody else has told."""
    told, leads = inputs.names[port], inputs.names[inputs.leader]
    detail = f"input {told} has it, input {leads} had promised up to {show(inputs.out)} without"
    return Wrong.of(HAS, row, port, detail=detail, against=[], with_output=[inputs.leader])


def _ends_otherwise(state: State, inputs: Inputs, port: int, row: Batch, shown: int) -> Wrong:
    """A row that was shown with another end, which those who are at its start are taken to say."""
    there = np.flatnonzero(inputs.attached & (state.last >= state.latest)).tolist()
    detail = f"input {inputs.names[port]} has it, it was shown until {show(shown)}"
    with_output = [each for each in there if each != port]
    return Wrong.of(ENDS, row, port, detail=detail, against=[], with_output=with_output)


def _told_otherwise(state: State, inputs: Inputs, port: int, row: Batch, place: int) -> Wrong:
    """A row in the place of another of its start, which those who have told as many are taken to say."""
    there = np.flatnonzero(inputs.attached & (state.counts > place)).tolist()
    has = f"input {inputs.names[port]} has it as number {place + 1} of its start, another was shown"
    detail = f"{has}; ties_in_order is so only where all inputs agree on the order"
    with_output = [each for each in there if each != port]
    return Wrong.of(ORDER, row, port, detail=detail, against=[], with_output=with_output)


def _promised_away(inputs: Inputs, port: int, row: Batch) -> Wrong:
    """A row that nobody has told before, of a payload that others have promised not to come."""
    others = [each for each in np.flatnonzero(inputs.vouched & inputs.attached).tolist() if each != port]
    broken = inputs.promised.broken_one(row)
    detail = f"input {inputs.names[port]} has it, {broken!r} was promised without"
    return Wrong.of(HAS, row, port, detail=detail, against=[], with_output=others)


def _one_by_one(rows: Batch) -> list[Batch]:
    return [rows.slice(i, i + 1) for i in range(rows.rows)]


def _hashes(rows: Batch) -> Ints:
    """What says of a row whether it is the same, but for a chance of 2^-64."""
    hashes: Ints = hashes_of(rows.payload).view(np.int64) ^ rows.new_ve
    return hashes
