"""Induction: what a loop promises of payloads.

An operator on a loop waits for itself, so no promise about payloads ever gets round. With time, a guess
is sent round, and is right if nothing contradicts it (speculation.py). Of payloads it is asked, when all
is quiet: *would* it be so?

    a goal       (pattern, t): no later row of the loop has such a payload and a sync before t
    a question   up to when can nothing with such a payload come out of an operator? (operators/asked.py)

The body is asked for each goal, and asks on, upwards. What an input of the loop has promised answers
there; at the argument, which is the loop's own output, goals are taken for granted. A question that no
goal answers there becomes one. What the body then says of a goal is what the goal is lowered to; and so
on, until the body says of each at least what it is. That is the greatest fixed point, as the answer
itself is the least. Of all payloads at once, time is all that is known.

Why goals that stand are so. Take the first row that came out of the body and broke one, later than all
was quiet. Each operator on the way says rightly what follows from what its inputs keep to: so going
upwards there is an element that breaks what was said there. At an input that is a broken promise. At the
argument it is a row of the loop that broke a goal, and that came out of the body earlier: then it was
not the first. No row was on its way when it was asked, and what has been asked about rows that are kept,
no later row can change: it would have to break a goal, too, or come too late for it.

Nothing is changed by asking. What stands is said, to the readers and round the loop, whose operators
forget by it what they keep. Only hopes are said (operators/hopes.py): what some input has promised, as
far as the answer has these columns.

**What is complete.** Whether some row of a loop can still come cannot be computed in general: columns
that are computed may count without end. So what a computed column is, and which pairs a condition lets
through, is not looked at: any value may come, and any pair of equal keys may match. What follows without
that is found, for each pattern that an input has promised: of constants one by one, of a range as one.
Of rows that carry a column round unchanged, and are joined by it, that is all that inputs close of it;
of others as much as the keys of what is kept tell. Of a set, that a row stays since one of its
derivations is final is not known as long as others may come. And what is too much to look at is left out
(`_MOST_GOALS`, `Hopes`).

Paper 4 sections 5.1 to 5.3 (propagate); docs/design/2026-11-18-recursion.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from slackwater.columns import framed
from slackwater.kernels.grouping import Keys
from slackwater.operators.asked import columns_of, question
from slackwater.operators.step import AskedStep, Step
from slackwater.plan.nodes import Consistency, Fixpoint, Join, Latency, Node
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.runtime.loops import Passage
from slackwater.times import BEGIN, INF, Times

__all__ = ["AtWork", "Induction"]

Ints = npt.NDArray[np.int64]

_MOST_GOALS = 100_000
_MOST_BOXES = 1_000
_PASSED_OVER = 16
"""so many rows that are kept are looked through at the cost of a question"""


class AtWork(Protocol):
    """An operator of the loop as the driver runs it."""

    @property
    def step(self) -> Step:
        """What it does."""
        ...

    @property
    def state(self) -> Any:
        """What it keeps."""
        ...

    @property
    def passage(self) -> Passage | None:
        """What its inputs from outside have promised."""
        ...


@dataclass(slots=True)
class _Closed:
    """Goals of constants in the same columns, by number; and up to when each is reached."""

    values: Keys
    until: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, keys: pl.DataFrame) -> Ints:
        """The numbers of these; new ones are reached for ever."""
        number = self.values.number(keys)
        new = len(self.values) - len(self.until)
        self.until = np.append(self.until, np.full(new, INF))
        return number

    def reached(self, frame: pl.DataFrame) -> Times:
        """Up to when goals close these payloads."""
        number = self.values.find(frame)
        known = (number >= 0) & (number < len(self.until))
        return np.where(known, self.until[np.where(known, number, 0)], BEGIN)


@dataclass(slots=True)
class Induction:
    """What would be so of one loop, as things stand."""

    loop: Fixpoint
    at_work: Mapping[Node, AtWork]
    said: Promises
    """what it has promised already"""
    closed: dict[tuple[str, ...], _Closed] = field(default_factory=dict)
    boxes: dict[Punctuation, int] = field(default_factory=dict)
    grown: bool = False
    """whether there are goals that the body has not been asked for"""
    cost: int = 0
    """questions that were asked, and what was looked through for them"""

    def proven(self, hopes: list[Promise]) -> list[Promise]:
        """Of what is hoped for what is so, each as far as it is."""
        for hope in hopes:
            self._assume(hope)
        if not self._settle():
            return []
        found: list[Promise] = []
        for hope in hopes:
            until = self._assumed(hope)
            if isinstance(hope, Closings):
                sooner = Closings(hope.keys, until)
                found.append(sooner.where(until > self.said.cti))
            elif until[0] > self.said.cti:
                found.append(Punctuation(int(until[0]), columns=hope.columns))
        return [each for each in found if not isinstance(each, Closings) or len(each)]

    def _settle(self) -> bool:
        """Lower the goals until the body says of each as much; whether that came to an end."""
        for _ in range(self.loop.rounds):
            self.grown = fell = False
            for asked, until, lower in list(self._goals()):
                now = np.maximum(np.broadcast_to(self._ask(self.loop, asked), len(until)), BEGIN)
                if (now < until).any():
                    fell = True
                    lower(np.minimum(now, until))
            if not fell and not self.grown:
                return True
        return False

    def _goals(self) -> Iterator[tuple[Promise, Times, Callable[[Times], None]]]:
        """What is still beyond the cti: as questions, up to when, and how to lower it."""
        for goals in self.closed.values():
            beyond = np.flatnonzero(goals.until > self.said.cti)
            if len(beyond):

                def lower(until: Times, goals: _Closed = goals, beyond: Ints = beyond) -> None:
                    goals.until[beyond] = until

                yield question(goals.values.take(beyond)), goals.until[beyond], lower
        for box, before in self.boxes.items():
            if before > self.said.cti:

                def lower_box(until: Times, box: Punctuation = box) -> None:
                    self.boxes[box] = int(until[0])

                yield box, np.array([before]), lower_box

    def _ask(self, node: Node, asked: Promise) -> Times:
        """What a node of the loop answers."""
        while isinstance(node, Consistency | Latency):
            node = node.input
        if node is self.loop.argument:
            return self._granted(asked)
        operator = self.at_work[node]
        self.cost += len(asked) if isinstance(asked, Closings) else 1
        if isinstance(node, Join) and not set(node.on) <= set(columns_of(asked)):
            self.cost += operator.step.describe(operator.state).state_rows // _PASSED_OVER
        assert isinstance(operator.step, AskedStep), f"{node.name} may not be on a loop"
        passage = operator.passage

        def ask(port: int, asked: Promise) -> Times:
            if passage is not None and port in passage.origins:
                return passage.heard.promised[port].until(asked)
            return self._ask(node.inputs[port], asked)

        return operator.step.closed_until(operator.state, asked, ask)

    def _granted(self, asked: Promise) -> Times:
        """What is taken for granted of the argument; what is not yet, is from now on."""
        until = self._assumed(asked)
        if not columns_of(asked) or (until == INF).all():
            return until
        if isinstance(asked, Closings):
            self._assume(asked.where(until < INF))
        else:
            self._assume(asked)
        return self._assumed(asked)

    def _assume(self, asked: Promise) -> None:
        """Make it a goal, if it is none."""
        if isinstance(asked, Closings):
            names = tuple(sorted(asked.keys.columns))
            if names not in self.closed:
                schema = pl.Schema({name: asked.keys.schema[name] for name in names})
                self.closed[names] = _Closed(Keys(schema))
            goals = self.closed[names]
            before = len(goals.until)
            if before + len(asked) <= _MOST_GOALS:
                goals.add(framed([asked.keys[name] for name in names], len(asked)))
                self.grown |= len(goals.until) > before
        else:
            box = Punctuation(INF, columns=asked.columns)
            if box not in self.boxes and len(self.boxes) < _MOST_BOXES:
                self.boxes[box] = INF
                self.grown = True

    def _assumed(self, asked: Promise) -> Times:
        """What goals say to a question, and what is promised."""
        until = self.said.until(asked).copy()
        if isinstance(asked, Closings):
            for names, goals in self.closed.items():
                if set(names) <= set(asked.keys.columns):
                    np.maximum(until, goals.reached(asked.keys), out=until)
            for box, before in self.boxes.items():
                if box.speaks_only_of(asked.keys.columns):
                    until[box.matches_payload(asked.keys)] = np.maximum(
                        until[box.matches_payload(asked.keys)], before
                    )
            return until
        whole = Punctuation(INF, columns=asked.columns)
        for box, before in self.boxes.items():
            if box.implies(whole):
                until = np.maximum(until, before)
        return until
