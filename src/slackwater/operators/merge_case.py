"""One case: an input of a logical merge says otherwise of an event than the output was promised.

What the accused has promised, and what the output has, are two claims: the ends of the event, as far as
they are frozen. Every other input is asked by what it has promised itself:

- it supports a claim if it has promised as much, and says the same;
- it is *unheard* as long as it may still come to say the one or the other: it has not promised past the
  start of the event, or its ends are open where the claims differ;
- it is *mute* if it need not tell what they differ in, since it was attached later, or was told that it
  is of no interest; and if it says neither, or is not asked any more (its word is forgotten when it has
  promised it, and the output agrees as far as it could).

A verdict is there as soon as those who are unheard cannot change it: against the output if more inputs
say otherwise, else for it. It has to be right whatever those say who are mute. If it is not, the
case is *undecided*, and nobody is set aside: two of three copies that need not tell an event any more
could bear out the one as well as the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.operators.inputs import Inputs
from slackwater.times import BEGIN, INF

__all__ = ["Case"]


@dataclass(slots=True)
class Case:
    """An event of which an input says otherwise than the output was promised."""

    node: int
    port: int
    rule: int
    claim: list[int]
    """the ends that the accused gives it"""
    told: int
    """and up to when it has promised so"""
    out: list[int]
    frozen: int
    """the same of the output"""
    is_standing: bool
    """whether the accused leads, so that the output is left with ends that nobody has promised"""
    against: list[int]
    with_output: list[int] = field(default_factory=list)
    unheard: list[int] = field(default_factory=list)
    mute: list[int] = field(default_factory=list)
    denying: list[int] = field(default_factory=list)
    """of those who are unheard, who may come to say what the output does, and cannot say otherwise"""
    blamed: list[int] = field(default_factory=list)
    """who was found to be wrong by a verdict against the output"""
    promised: dict[int, int] = field(default_factory=dict)
    """how far inputs have promised the payload, where that is further than their ctis"""
    words: dict[int, list[int]] = field(default_factory=dict)
    """the ends that inputs have given it for good; elsewhere they are forgotten when they are judged"""
    lacks: int = BEGIN
    """where the output lacks the event, the earliest end that contradicts: who told an earlier one, when
    it was not remembered yet, is taken to have told none"""
    claim_is_fixed: bool = False
    out_is_fixed: bool = False
    """whether no more of these two claims will be known"""
    is_lost: bool = False
    """whether the verdict was against the output; then it waits for the others to be heard"""

    def recall(self, inputs: Inputs, start: int, ends: dict[int, list[int]]) -> None:
        """Put what inputs have said for good in the place of what is known of them elsewhere."""
        for port, theirs in ends.items():
            told = self._told(inputs, port)
            if not self._may_have_told(told, theirs) and told > start and all(e < told for e in theirs):
                self.words.setdefault(port, theirs)
        ends |= {port: word for port, word in self.words.items() if port in ends}

    def _may_have_told(self, told: int, theirs: list[int]) -> bool:
        """Whether an event that is open may have been told with an end of which nothing is known."""
        return not theirs and told < self.lacks

    def _told(self, inputs: Inputs, port: int) -> int:
        return max(int(inputs.stable[port]), self.promised.get(port, BEGIN))

    def hear(self, inputs: Inputs, start: int, ends: dict[int, list[int]]) -> None:
        """What all inputs that are attached say of it by now."""
        if not self.out_is_fixed:
            # what was not promised may have changed, also of what others say
            self.with_output = []
            self.against = [self.port] if self.port in self.against else []
        self.unheard, self.mute, self.denying = [], [], []
        for port, theirs in ends.items():
            if port not in self.against and port not in self.with_output:
                self._side_of(inputs, port, start, theirs).append(port)

    def _side_of(self, inputs: Inputs, port: int, start: int, theirs: list[int]) -> list[int]:
        told = self._told(inputs, port)
        if told <= start or self._may_have_told(told, theirs):
            return self.unheard
        floor = max(int(inputs.since[port]), int(inputs.doubted[port]))
        # what is open may come to end where it need not be told
        claim = _may_end_before(floor, self.claim, self.told)
        out = _may_end_before(floor, self.out, self.frozen)
        if (claim and self.claim_is_fixed) or (out and self.out_is_fixed):
            return self.mute
        if claim or out or _may_end_before(floor, theirs, told):
            return self.unheard
        says_so = _may_be(theirs, told, self.claim, self.told, floor)
        says_as_output = _may_be(theirs, told, self.out, self.frozen, floor)
        if says_so and says_as_output:
            return self.unheard if told < max(self.told, self.frozen) else self.mute
        if says_so:
            return self.against if _is_firm(theirs, told, self.told) else self.unheard
        if not says_as_output:
            return self.mute
        if _is_firm(theirs, told, self.frozen):
            return self.with_output
        self.denying.append(port)
        return self.unheard

    def forget(self, port: int) -> None:
        """An input takes back what it has said."""
        self.promised.pop(port, None)
        self.words.pop(port, None)
        for side in (self.against, self.with_output, self.blamed):
            if port in side:
                side.remove(port)

    def verdict(self) -> bool | None:
        """Whether it is against the output; None if that depends on who is unheard, or mute."""
        unknown = len(self.unheard) + len(self.mute)
        against, with_output = len(self.against), len(self.with_output)
        if against > with_output + unknown:
            return True
        return False if with_output >= against + unknown else None

    def blame(self) -> list[int]:
        """Who is wrong if the output is, and has not been found to be so before."""
        found = [port for port in (*self.with_output, *self.denying) if port not in self.blamed]
        self.blamed += found
        return found

    @property
    def is_ripe(self) -> bool:
        """Whether there is nothing to wait for."""
        return not self.unheard or self.verdict() is not None


def _may_end_before(floor: int, ends: list[int], promised: int) -> bool:
    """Whether one of the ends, which is open, may come to lie there."""
    return promised < floor and any(end >= promised for end in ends)


def _may_be(theirs: list[int], told: int, claim: list[int], frozen: int, floor: int) -> bool:
    """Whether ends may become a claim, as far as both are promised and have to be told."""
    mine, other = ([end for end in ends if end >= floor] for ends in (theirs, claim))
    least = min(told, frozen)
    first, second = ([end for end in ends if end < least or least == INF] for ends in (mine, other))
    return len(mine) == len(other) and first == second


def _is_firm(theirs: list[int], told: int, frozen: int) -> bool:
    """Whether who has promised so much says no less than a claim does."""
    return told >= frozen or all(end < told for end in theirs)
