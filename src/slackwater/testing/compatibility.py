"""Whether the output of a merge can still follow its inputs: C1, C2, C3 of paper 2, section III-D.

Of inputs and output only two things count: what their elements reconstitute to, and their last cti.
With L the output's cti and L_m that of input m:

C1. L is no greater than the largest L_m.
C2. What the output has and has frozen, some input has: half frozen, with L <= L_m, so that the output
    can follow it, or fully frozen with an end that the output can still be given; and what it has fully
    frozen some input has fully frozen, with that end. (L <= L_m is erratum 16.)
C3. What an input has frozen the output has, or can still be given: an event that is fully frozen there
    must be there with its end, if L has passed that, and with an end that can still be made this one, if
    L has passed its start only; one that is half frozen must be half frozen there, if L has passed its
    start.

An event [vs, ve) is fully frozen where ve < L, or L is INF, half frozen where vs < L <= ve.

Promises about payloads are ctis of these payloads: of an event, L and L_m are how far its payload is
promised (paper 4), by a cti or otherwise.

Where (vs, payload) is no key (R4), events of one start and payload are compared as bags: the output has
all copies that are fully frozen in the input that is furthest, and as many that are half frozen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from slackwater.events import Adjust, Element, Insert
from slackwater.identity import identity
from slackwater.patterns import holds
from slackwater.payloads import Payload
from slackwater.punctuations import Punctuation
from slackwater.times import BEGIN, INF

__all__ = ["Told", "incompatible", "incompatible_bags"]


@dataclass(slots=True)
class Told:
    """What a stream has said so far: the ends of its events by start and payload, and its last cti."""

    events: dict[tuple[int, Hashable], Counter[int]] = field(default_factory=dict)
    cti: int = BEGIN
    promises: list[Punctuation] = field(default_factory=list)
    """about payloads"""
    payloads: dict[Hashable, Payload] = field(default_factory=dict)
    """all that it ever had, by what identifies them"""
    perfect: bool = False
    """whether it inserts only, in the order of starts: then an insert promises what comes before it"""

    def hear(self, element: Element) -> None:
        """One element more."""
        match element:
            case Insert(vs, ve, payload):
                self._ends(vs, identity(payload))[ve] += 1
                if self.perfect:
                    self.cti = max(self.cti, vs)
            case Adjust(vs, ve, new_ve, payload):
                ends = self._ends(vs, identity(payload))
                ends[ve] -= 1
                if new_ve > vs:
                    ends[new_ve] += 1
                if not +ends:
                    del self.events[vs, identity(payload)]
                else:
                    self.events[vs, identity(payload)] = +ends
            case Punctuation() if element.is_cti:
                self.cti = max(self.cti, element.before)
            case Punctuation():
                self.promises.append(element)
        if isinstance(element, Insert | Adjust):
            self.payloads[identity(element.payload)] = element.payload

    def reached(self, payload: Payload) -> int:
        """Up to when a payload is promised."""
        time = self.cti
        for each in sorted(self.promises, key=lambda promise: promise.since):
            if each.since <= time and all(holds(p, payload[name]) for name, p in each.columns):
                time = max(time, each.before)
        return time

    def _ends(self, vs: int, payload: Hashable) -> Counter[int]:
        return self.events.setdefault((vs, payload), Counter())

    def end(self, key: tuple[int, Hashable]) -> int | None:
        """The end of an event, where (vs, payload) is a key; None if there is none."""
        ends = self.events.get(key)
        if not ends:
            return None
        [(end, copies)] = ends.items()
        assert copies == 1, "(vs, payload) is a key"
        return end

    def of(self, payload: Payload) -> Told:
        """The same of one payload, as a stream of its own."""
        mine = identity(payload)
        events = {key: ends for key, ends in self.events.items() if key[1] == mine}
        return Told(events, self.reached(payload))

    def fully(self, end: int) -> bool:
        """Whether an event that ends there is fully frozen."""
        return end < self.cti or self.cti == INF

    def half(self, start: int, end: int) -> bool:
        """Whether an event is half frozen."""
        return start < self.cti and not self.fully(end)


def incompatible(inputs: Sequence[Told], output: Told) -> list[str]:
    """What keeps the output from following its inputs, by the conditions that are broken."""
    found = _c1(inputs, output)
    for payload in _payloads(*inputs, output):
        theirs, mine = [each.of(payload) for each in inputs], output.of(payload)
        further = _c1(theirs, mine) if mine.cti > output.cti else []
        found += [*further, *_c2(theirs, mine), *_c3(theirs, mine)]
    return found


def _payloads(*streams: Told) -> list[Payload]:
    return list({key: p for each in streams for key, p in each.payloads.items()}.values())


def _c1(inputs: Sequence[Told], output: Told) -> list[str]:
    furthest = max(each.cti for each in inputs)
    return [f"C1: cti({output.cti}) beyond {furthest}"] if output.cti > furthest else []


def _c2(inputs: Sequence[Told], output: Told) -> list[str]:
    found = []
    for key in output.events:
        start, end = key[0], output.end(key)
        assert end is not None, "it is there"
        theirs = [(each, each.end(key)) for each in inputs]
        known = [(each, its) for each, its in theirs if its is not None]
        if output.fully(end):
            if not any(its == end and each.fully(its) for each, its in known):
                found.append(f"C2: {key} is fully frozen with end {end}, which no input has frozen")
        elif output.half(start, end):
            follows = any(
                (each.half(start, its) and output.cti <= each.cti)
                or (each.fully(its) and output.cti <= its)
                for each, its in known
            )
            if not follows:
                found.append(f"C2: {key} is half frozen, and no input has it that could be followed")
    return found


def _c3(inputs: Sequence[Told], output: Told) -> list[str]:
    found = []
    for key in dict.fromkeys(key for each in inputs for key in each.events):
        start, out = key[0], output.end(key)
        theirs = [(each, each.end(key)) for each in inputs]
        frozen = [its for each, its in theirs if its is not None and each.fully(its)]
        if output.cti <= start:
            continue
        for end in dict.fromkeys(frozen):
            if output.fully(end):
                if out != end:
                    found.append(f"C3: {key} is frozen with end {end} in an input, not in the output")
            elif out is None or not output.half(start, out):
                found.append(f"C3: {key} is frozen with end {end} in an input, the output has {out}")
        halves = [each.cti for each, its in theirs if its is not None and each.half(start, its)]
        follows = out is not None and output.half(start, out)
        if halves and not frozen and not (follows and output.cti <= max(halves)):
            found.append(f"C3: {key} is half frozen in an input, the output has {out}")
    return found


def incompatible_bags(leader: Told, output: Told, since: int = BEGIN) -> list[str]:
    """The same for bags, against an input, of payloads that it has promised as far as the output.

    An input that was attached later tells what ends at `since` or later, and may lack the rest.
    """
    found = []
    for payload in _payloads(leader, output):
        theirs, mine = leader.of(payload), output.of(payload)
        if theirs.cti >= mine.cti:
            found += _different_bags(theirs, mine, since)
    return found


def _different_bags(leader: Told, output: Told, since: int) -> list[str]:
    found = []
    for key in dict.fromkeys([*leader.events, *output.events]):
        start = key[0]
        if start >= output.cti:
            continue
        theirs, out = (each.events.get(key, Counter()) for each in (leader, output))
        frozen = [end for end in {*theirs, *out} if output.fully(end)]
        found += [
            f"C3: {key} ends {theirs[end]} times at {end}, in the output {out[end]} times"
            for end in frozen
            if theirs[end] > out[end] or (theirs[end] < out[end] and end >= since)
        ]
        # of those that are half frozen the ends are not known yet, and may come to lie before `since`
        known = frozen if output.cti < since else [end for end in {*theirs, *out} if end >= since]
        mine, its = (sum(ends[end] for end in known) for ends in (out, theirs))
        if (its != mine and output.cti >= since) or theirs.total() > out.total():
            found.append(f"C3: {key} is there {theirs.total()} times, in the output {out.total()} times")
    return found
