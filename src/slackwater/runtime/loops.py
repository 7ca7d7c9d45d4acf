"""Loops at run time: what an operator on a loop does with guesses about the time.

A guess (speculation.py) goes round behind the rows. An operator passes it on as it would a cti, once it
has come on every port that is on the loop, and without acting on it: what it promises there is what the
least of its inputs has promised, guesses included. One that lodges waits here until the other inputs
have promised as much; any other is revised down to what they have.

This is one rule for all operators, since those that may be on a loop (plan/loops.py) all answer a cti
so. What an input from outside promises is also told to the operator that closes the loop, at once and
without waiting for anybody (external progress).

What an input promises of payloads is remembered here, for who concludes from it (induction.py), and goes
on to the operator that closes the loop by the names that columns have there: as a hope, which is nothing
that holds, and no operator acts on it.

Paper 3 sections 3.3 (S1), 3.5 and 5.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from slackwater.consistency import OutputLatency
from slackwater.events import Control
from slackwater.plan.loops import carried, inputs_of, require_runnable, require_turning, through, turning
from slackwater.plan.nodes import Fixpoint, Node
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.speculation import ExternalPatterns, ExternalProgress, Speculative
from slackwater.times import INF

__all__ = ["Heard", "Passage", "loops_of", "passages_of"]


@dataclass(slots=True)
class Heard:
    """What an operator on a loop has heard of time, by port: it is part of a snapshot."""

    promised: list[Promises]
    """of payloads only by inputs of the loop"""
    lodged: list[Speculative | None]
    """guesses that cannot pass yet"""


@dataclass(slots=True)
class Passage:
    """How one operator on a loop lets guesses through."""

    node: Node
    origins: Mapping[int, int]
    """its ports that are inputs of the loop, and which of the loop's inputs each is"""
    heard: Heard = field(init=False)

    def __post_init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Nothing was heard."""
        promised = [Promises.of(child.schema) for child in self.node.inputs]
        self.heard = Heard(promised, [None] * len(promised))

    def on_cti(self, port: int, before: int) -> list[Control]:
        """An input has promised something: what may pass now."""
        if port not in self.origins or before <= self.heard.promised[port].cti:
            return []
        self.heard.promised[port].add([Punctuation(before)])
        progress = ExternalProgress(self.origins[port], through(self.node, before))
        return [progress, *self._released()]

    def on_patterns(self, port: int, told: Sequence[Promise]) -> list[Control]:
        """An input has promised something of payloads."""
        if port not in self.origins or not told:
            return []
        self.heard.promised[port].add(told)
        return self.on_external_patterns(port, ExternalPatterns(tuple(told)))

    def on_external_patterns(self, port: int, told: ExternalPatterns) -> list[Control]:
        """They pass at once."""
        promises = [each for each in told.told if isinstance(each, Punctuation | Closings)]
        passing = [each for promise in promises for each in carried(self.node, port, promise)]
        return [ExternalPatterns(tuple(passing))] if passing else []

    def on_speculative(self, port: int, told: Speculative) -> list[Control]:
        """A guess has come."""
        assert self.heard.lodged[port] is None, "no more than one guess is on its way"
        self.heard.lodged[port] = told
        return self._released()

    def on_external_progress(self, told: ExternalProgress) -> list[Control]:
        """It passes at once."""
        return [ExternalProgress(told.origin, through(self.node, told.before))]

    def _released(self) -> list[Control]:
        """The guess, if it has come on all ports of the loop and has nothing to wait for."""
        lodged = self.heard.lodged
        guesses = [guess for guess in lodged if guess is not None]
        if not guesses or len(guesses) + len(self.origins) < len(lodged):
            return []
        guess = min(guesses, key=lambda guess: guess.before)
        limit = min((self.heard.promised[port].cti for port in self.origins), default=INF)
        if guess.lodges and limit < guess.before:
            return []
        self.heard.lodged = [None] * len(lodged)
        return [Speculative(through(self.node, min(guess.before, limit)), guess.lodges)]


def loops_of(order: Sequence[Node]) -> list[Fixpoint]:
    """The loops among the nodes of a plan."""
    return [node for node in order if isinstance(node, Fixpoint)]


def passages_of(order: Sequence[Node], latencies: Mapping[Node, OutputLatency]) -> dict[Node, Passage]:
    """How the operators on loops let guesses through; loops that cannot be run are refused."""
    found: dict[Node, Passage] = {}
    for loop in loops_of(order):
        require_turning(loop)
        require_runnable(loop, latencies)
        origins: dict[Node, dict[int, int]] = {node: {} for node in turning(loop)}
        for origin, (node, port) in enumerate(inputs_of(loop)):
            origins[node][port] = origin
        found |= {node: Passage(node, ports) for node, ports in origins.items()}
    return found
