"""One case: an input of a logical merge says otherwise of an event than the output was promised.

What the accused has promised, and what the output has, are two claims: the ends of the event, as far as
they are frozen. Every other input is asked by what it has promised itself:

- it supports a claim if it has promised as much, and says the same;
- it is *unheard* as long as it may still come to say the one or the other: it has not promised past the
  start of the event, or its ends are open where the claims differ;
- it has no voice if it says neither, or need not tell what they differ in (it was attached later, or was
  told that it is of no interest).

A verdict is there as soon as those who are unheard cannot change it: against the output if more inputs
say otherwise, else for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.operators.inputs import Inputs
from slackwater.times import INF

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
    is_lost: bool = False
    """whether the verdict was against the output; then it waits for the others to be heard"""

    def hear(self, inputs: Inputs, start: int, ends: dict[int, list[int]]) -> None:
        """What all inputs that are attached say of it by now."""
        if not self.is_standing:
            # the accused may have changed what it has not promised, and so may others
            self.with_output = []
            self.against = [self.port] if self.port in self.against else []
        self.unheard = []
        for port, theirs in ends.items():
            if port not in self.against and port not in self.with_output:
                side = self._side_of(inputs, port, start, theirs)
                if side is not None:
                    side.append(port)

    def _side_of(self, inputs: Inputs, port: int, start: int, theirs: list[int]) -> list[int] | None:
        told = int(inputs.stable[port])
        if told <= start:
            return self.unheard
        floor = max(int(inputs.since[port]), int(inputs.doubted[port]))
        known = (theirs, told), (self.claim, self.told), (self.out, self.frozen)
        if any(time < floor and any(end >= time for end in ends) for ends, time in known):
            # what is open may come to end where it need not be told
            is_final = told == INF and (self.is_standing or self.told == INF)
            return None if is_final else self.unheard
        says_so = _may_be(theirs, told, self.claim, self.told, floor)
        says_as_output = _may_be(theirs, told, self.out, self.frozen, floor)
        if says_so and says_as_output:
            return self.unheard if told < max(self.told, self.frozen) else None
        if says_so:
            return self.against if _is_firm(theirs, told, self.told) else self.unheard
        if says_as_output:
            return self.with_output if _is_firm(theirs, told, self.frozen) else self.unheard
        return None

    def forget(self, port: int) -> None:
        """An input takes back what it has said."""
        for side in (self.against, self.with_output):
            if port in side:
                side.remove(port)

    def verdict(self) -> bool | None:
        """Whether it is against the output; None as long as that depends on who is unheard."""
        against, with_output, unheard = map(len, (self.against, self.with_output, self.unheard))
        if against > with_output + unheard:
            return True
        return False if with_output >= against + unheard else None


def _may_be(theirs: list[int], told: int, claim: list[int], frozen: int, floor: int) -> bool:
    """Whether ends may become a claim, as far as both are promised and have to be told."""
    mine, other = ([end for end in ends if end >= floor] for ends in (theirs, claim))
    least = min(told, frozen)
    first, second = ([end for end in ends if end < least or least == INF] for ends in (mine, other))
    return len(mine) == len(other) and first == second


def _is_firm(theirs: list[int], told: int, frozen: int) -> bool:
    """Whether who has promised so much says no less than a claim does."""
    return told >= frozen or all(end < told for end in theirs)
