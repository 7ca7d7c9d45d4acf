"""The inputs of a logical merge: who is there, how far each has promised, and who leads.

An input that is attached with a time `since` tells, from then on, every event that ends at that time or
later. Until the output's own promise has come there, it may lack what ended before: its rows count, its
promises do not yet. After that the merge survives the loss of all others.

Paper 2 section V-B.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import column_of, framed
from slackwater.events import Batch
from slackwater.kernels import merging as kernel
from slackwater.merging import Adjusts, After, Inserts, MergePolicy
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation
from slackwater.times import BEGIN

__all__ = ["START", "Inputs", "Wrong", "as_keys", "whose"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Inputs:
    """How the inputs stand, and how far the output has promised."""

    count: int
    names: list[str] = field(init=False)
    """what people call them"""
    attached: Mask = field(init=False)
    quarantined: Mask = field(init=False)
    begun: Ints = field(init=False)
    """how often each has been attached"""
    since: Ints = field(init=False)
    """from when on each is complete"""
    stable: Ints = field(init=False)
    """the cti of each"""
    heeding: Mask = field(init=False)
    """whose events may be wrong where they end before what they were told is of no interest"""
    doubted: Ints = field(init=False)
    """and before which times"""
    leader: int = 0
    """who was the first to promise as much as nobody else"""
    out: int = BEGIN
    """the cti of the output"""
    promised: Promises = field(default_factory=Promises)
    """what it has promised of payloads"""
    vouched: Mask = field(init=False)
    """which inputs have said so"""
    waiting: list[list[Promise]] = field(init=False)
    """what each has promised of payloads before it was complete"""

    def __post_init__(self) -> None:
        self.names = [str(port) for port in range(self.count)]
        self.attached = np.ones(self.count, dtype=np.bool_)
        self.quarantined = np.zeros(self.count, dtype=np.bool_)
        self.heeding = np.zeros(self.count, dtype=np.bool_)
        self.vouched = np.zeros(self.count, dtype=np.bool_)
        self.waiting = [[] for _ in range(self.count)]
        self.begun = np.zeros(self.count, dtype=np.int64)
        self.since, self.stable, self.doubted = (
            np.full(self.count, BEGIN, dtype=np.int64) for _ in range(3)
        )

    def add(self, called: str, *, heeding: bool) -> None:
        """One more, which is not attached yet."""
        more = Inputs(1)
        more.names, more.attached[:], more.heeding[:] = [called], False, heeding
        for each in fields(self):
            known, new = getattr(self, each.name), getattr(more, each.name)
            if isinstance(known, np.ndarray):
                setattr(self, each.name, np.append(known, new))
            elif isinstance(known, list):
                known += new
        self.count += 1

    def tell(self, port: int, cti: int) -> None:
        """An input has promised."""
        self.stable[port] = max(int(self.stable[port]), cti)
        if self.stable[port] > self.stable[self.leader]:
            self.leader = port

    def attach(self, port: int, since: int) -> None:
        """An input begins anew, complete from that time on."""
        self.detach(port)
        self.attached[port], self.quarantined[port] = True, False
        if not self.attached[self.leader]:
            # all had left
            self.leader = port
        self.begun[port] += 1
        self.since[port] = since
        # who begins now may have been told before
        self.doubted[port] = self.out if self.heeding[port] else BEGIN

    def detach(self, port: int) -> None:
        """An input is not listened to any longer."""
        self.attached[port] = False
        self.waiting[port] = []
        self.stable[port] = BEGIN
        if self.leader == port:
            left = np.flatnonzero(self.attached)
            self.leader = int(left[np.argmax(self.stable[left])]) if len(left) else 0

    def is_complete(self, port: int) -> bool:
        """Whether an input is attached and has told, or tells, all that the output may still change."""
        return bool(self.attached[port] and self.since[port] <= self.out)

    def now_complete(self) -> list[tuple[int, list[Promise]]]:
        """The inputs that have become so, and what they had promised of payloads by then."""
        found = []
        for port, told in enumerate(self.waiting):
            if told and self.is_complete(port):
                self.waiting[port] = []
                found.append((port, told))
        return found

    def outdated(self) -> tuple[tuple[int, int], ...]:
        """Who lags behind the output, and before which time events end that it need not tell."""
        behind = self.attached & (self.stable < self.out)
        self.doubted[behind & self.heeding] = self.out
        return tuple((port, self.out) for port in np.flatnonzero(behind).tolist())

    def reach(self, cti: int) -> None:
        """The output has promised."""
        self.out = cti
        self.promised.add([Punctuation(cti)])

    def stable_of(self, rows: Batch) -> int | Ints:
        """Up to when the output has promised the payloads of rows: its cti, if that is so for all."""
        return self.promised.frontier(rows.payload) if len(self.promised) else self.out

    def furthest(self) -> int | None:
        """Who can move the output's promise on, and furthest; None if nobody can."""
        leader = self.leader
        if self.stable[leader] <= self.out:
            return None
        if self.attached[leader] and self.since[leader] <= self.out:
            return leader
        able = self.attached & (self.since <= self.out) & (self.stable > self.out)
        return int(np.argmax(np.where(able, self.stable, BEGIN))) if able.any() else None


_RULES = {
    kernel.ENDS: "another end",
    kernel.LACKS: "an event is missing",
    kernel.HAS: "an event too many",
    kernel.ORDER: "rows of one start in another order, or others",
}


@dataclass(frozen=True, slots=True)
class Wrong:
    """What an input says, or lacks, against what was promised in the name of all."""

    port: int
    rule: str
    row: Batch
    """the event, as the input has it, or as the output has it where the input has none"""
    detail: str
    against: tuple[int, ...]
    """the inputs that say so, this one among them"""
    with_output: tuple[int, ...]
    """those that say what the output does"""
    is_missing: bool
    """whether somebody lacks an event, which gaps explain"""
    is_decided: bool = True
    """whether it is certain who is outvoted"""

    @classmethod
    def of(
        cls,
        rule: int,
        row: Batch,
        port: int,
        *,
        detail: str,
        against: list[int],
        with_output: list[int],
        is_decided: bool = True,
    ) -> Wrong:
        """By the number of the rule that is broken, and the others who say the one or the other."""
        missing = rule in (kernel.LACKS, kernel.HAS)
        sides = (port, *against), tuple(with_output)
        return cls(port, _RULES[rule], row, detail, *sides, missing, is_decided)

    @property
    def minority(self) -> tuple[int, ...]:
        """Who is outvoted; what was promised counts if there is no majority against it."""
        if not self.is_decided:
            return ()
        return self.with_output if len(self.against) > len(self.with_output) else self.against


def whose(policy: MergePolicy, inputs: Inputs) -> tuple[int, int, int]:
    """Whose inserts and whose adjusts are shown, and how many inputs have to have an event before."""
    needed = 1
    match policy.inserts:
        case After() as after:
            inserts, needed = kernel.ANYONE, after.needed(int(np.count_nonzero(inputs.attached)))
        case Inserts.AT_FIRST_SIGHT:
            inserts = kernel.ANYONE
        case Inserts.FROM_LEADER:
            inserts = inputs.leader
        case Inserts.HALF_FROZEN:
            inserts = kernel.NOBODY
    match policy.adjusts:
        case Adjusts.EVERY:
            return inserts, kernel.ANYONE, needed
        case Adjusts.WITH_LEADER:
            return inserts, inputs.leader, needed
        case Adjusts.AT_STABLE:
            return inserts, kernel.NOBODY, needed


START = "\0vs"


def as_keys(starts: Ints, payload: pl.DataFrame) -> pl.DataFrame:
    """A start and a payload, by which a merge knows an event."""
    return framed([column_of(START, starts), *payload.get_columns()], len(starts))
