"""Merge: one right stream out of several fallible copies of it.

    out = in_0 = in_1 = ... , whatever each of them has said of it so far

The inputs describe one history, each in its own order, with its own revisions, at its own pace; some
lag, break off, begin anew, or lack a part. The output is compatible with all of them after every
element: whatever they may still say, it can still be made equal to. It promises as much as the input
that is furthest, and not more (C1 to C3 of the paper; testing/compatibility.py).

Which algorithm, is chosen by what is known of the inputs (plan/merges.py): R0, R1, R2
(merge_ordered.py), R3 (in2t.py), R4 (in3t.py). What is shown of rows that may still change, is a
policy (merging.py).

Inserts: shown at first sight, unless the policy holds them back. Adjusts: noted, and shown when a cti
would freeze what they change, unless the policy shows them at once. Promises: the furthest cti, when the
output has been made to agree with the input that says it.

Promises about payloads: every payload is as a stream of its own, with ctis of its own
(merged_promises.py). If an input that is complete promises that nothing with some payloads comes before
t, the output is made to agree with it on these, and promises the same; what others say of them later is
late. What an input promises of payloads that is not complete yet counts when it is. R0 to R2 have shown
all that an input told, and pass its promise on; R3- drops it.

Feedback: to inputs that are not as far as the output's cti, events that end before it are of no
interest; and to the others payloads that were promised for ever (not by R1, which counts rows).

Pass: what the policy shows; on the cti of the furthest input, and on a promise about payloads, what
freezing needs. Keep: events that are not fully frozen in the output, once, with the ends that each input
gives them; what the output has promised of payloads, for an input that begins anew tells them again.
Propagate: the furthest cti, and promises about payloads as soon as one input makes them (both minus
`trailing`).

    in 0:  a [6, 10)                          a -> [6, 15)
    in 1:              a [6, 12)   b [7, 14)                  a -> [6, 15)   cti(16)
    out:   a [6, 10)               b [7, 14)                                 a -> [6, 15)   cti(16)

Paper 2, Table II (Out3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.merging import QUARANTINE
from slackwater.operators.closing import about
from slackwater.operators.in2t import In2t
from slackwater.operators.in3t import In3t
from slackwater.operators.inputs import Inputs, Wrong
from slackwater.operators.merge_apart import Apart
from slackwater.operators.merge_ordered import InOrder
from slackwater.operators.merged_promises import earlier
from slackwater.operators.step import Answer, Description, GivenUp
from slackwater.plan import nodes
from slackwater.plan.merges import chosen
from slackwater.plan.properties import infer
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation, for_ever
from slackwater.times import BEGIN, INF, plus
from slackwater.validity import StreamProperties

__all__ = ["Merge", "State"]


class Index(Protocol):
    """One of the algorithms."""

    def open(self, inputs: int) -> Any:
        """Nothing told."""
        ...

    def add_input(self, state: Any) -> None:
        """There is one more, which has told nothing."""
        ...

    def rows(self, state: Any) -> int:
        """How many events are remembered."""
        ...

    def take_in(self, state: Any, inputs: Inputs, port: int, rows: Batch) -> tuple[Batch, list[Wrong]]:
        """Note what an input says; what is shown of it, and what it contradicts."""
        ...

    def advance(self, state: Any, inputs: Inputs, port: int, until: int) -> tuple[Batch, list[Wrong]]:
        """Make the output what an input says, as far as a cti(until) needs it."""
        ...

    def judge(self, state: Any, inputs: Inputs, port: int, told: int) -> list[Wrong]:
        """What an input has frozen, with that cti, that was promised to be otherwise."""
        ...

    def close(
        self, state: Any, inputs: Inputs, port: int, told: Sequence[Promise], *, trusted: bool
    ) -> tuple[Batch, list[Wrong]] | None:
        """Make the output what an input says of payloads, as far as promises about them need it.

        None: it makes nothing of such promises. Not `trusted`: nobody is to be blamed for what is said.
        """
        ...

    def compare(self, state: Any, inputs: Inputs, port: int, told: Sequence[Promise]) -> list[Wrong]:
        """What an input has promised of payloads that was promised to be otherwise."""
        ...

    def verdicts(self, state: Any, inputs: Inputs) -> list[Wrong]:
        """What inputs contradict each other in that had to wait until others have come there."""
        ...

    def forget(self, state: Any, inputs: Inputs, port: int) -> None:
        """An input has none of the events any more."""
        ...


@dataclass(slots=True)
class State:
    """How the inputs stand, and what the algorithm remembers."""

    inputs: Inputs
    index: Any


@dataclass(frozen=True, slots=True)
class Merge:
    """The step of a `Merge` node."""

    node: nodes.Merge
    latency: OutputLatency = OutputLatency.EAGER
    index: Index = field(init=False)
    may_lack_adjusts: bool = field(init=False)
    """whether another end of an event is a gap as well: not where each event is told once"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", _index_of(self.node, self.latency))
        known = infer(self.node, self.latency)
        once = not isinstance(self.index, In3t)
        once = once and all(known[stream].insert_only for stream in self.node.streams)
        object.__setattr__(self, "may_lack_adjusts", self.node.policy.gaps and not once)

    def open(self) -> State:
        """All inputs attached, nothing told; of a replicated stream there are none yet."""
        count = len(self.node.streams) if self.node.replicated is None else 0
        inputs = Inputs(count, promised=Promises.of(self.node.schema))
        known = infer(self.node, self.latency)
        if count:
            inputs.heeding[:] = [_may_mislead(stream, known[stream]) for stream in self.node.streams]
        return State(inputs, self.index.open(count))

    def add_input(self, state: State, called: str, *, heeding: bool) -> None:
        """One more replica, which is to be attached; `heeding`: it is told what is of no interest."""
        state.inputs.add(called, heeding=heeding)
        self.index.add_input(state.index)

    def on_batch(self, state: State, port: int, rows: Batch) -> Batch | Answer:
        """What is shown of the rows; nothing of an input that is not attached."""
        if not rows.rows or not state.inputs.attached[port]:
            return Batch.empty(self.node.schema)
        shown, wrong = self.index.take_in(state.index, state.inputs, port, rows)
        if not wrong:
            return shown
        return Answer(rows=shown, given_up=tuple(self._given_up(state, wrong)))

    def on_punctuation(self, state: State, port: int, punctuation: Punctuation) -> Answer:
        """If that is further than the output, the output is made to agree with it, and follows."""
        inputs = state.inputs
        if not inputs.attached[port]:
            return Answer()
        inputs.tell(port, punctuation.before)
        given_up = self._decided(state)
        if inputs.attached[port]:
            wrong = self.index.judge(state.index, inputs, port, punctuation.before)
            given_up += self._given_up(state, wrong)
            given_up += self._decided(state)
        return self._advanced(state, given_up)

    def _advanced(self, state: State, given_up: list[GivenUp]) -> Answer:
        """As far as anybody allows."""
        inputs = state.inputs
        said: list[Batch] = []
        trailing = self.node.policy.trailing
        while (port := inputs.furthest()) is not None:
            told = int(inputs.stable[port])
            until = int(plus(told, -trailing)) if trailing and told != INF else told
            if until <= inputs.out:
                break
            rows, wrong = self.index.advance(state.index, inputs, port, until)
            inputs.reach(until)
            said.append(rows)
            given_up += self._given_up(state, wrong)
            # who had promised as much before it was complete may not promise again
            for other in np.flatnonzero(inputs.stable >= until).tolist():
                if other != port and inputs.attached[other]:
                    wrong = self.index.judge(state.index, inputs, other, int(inputs.stable[other]))
                    given_up += self._given_up(state, wrong)
            given_up += self._decided(state)
        if not said:
            return Answer(given_up=tuple(given_up) or None)
        promises: list[Promise] = [Punctuation(inputs.out)]
        unwanted: list[tuple[int, Promise]] = []
        for complete, waiting in inputs.now_complete():
            news, rows = self._closed(state, complete, waiting, given_up)
            promises += news
            said.append(rows)
            unwanted += self._unwanted(state, complete, news)
        return Answer(
            tuple(promises),
            Batch.concat(said),
            tuple(given_up) or None,
            tuple(unwanted),
            inputs.outdated(),
        )

    def on_patterns(self, state: State, port: int, told: Sequence[Promise]) -> Answer:
        """What one input promises of payloads the output promises, when it agrees with it on them."""
        inputs = state.inputs
        if not inputs.attached[port]:
            return Answer()
        told = about(told, self.node.schema, int(inputs.stable[port]))
        given_up = self._given_up(state, self.index.compare(state.index, inputs, port, told))
        given_up += self._decided(state)
        if not inputs.is_complete(port):
            # unless it has been quarantined just now
            if inputs.attached[port]:
                inputs.waiting[port] += told
            return Answer(given_up=tuple(given_up) or None)
        news, rows = self._closed(state, port, told, given_up)
        unwanted = tuple(self._unwanted(state, port, news))
        return Answer(tuple(news), rows, tuple(given_up) or None, unwanted)

    def _closed(
        self, state: State, port: int, told: Sequence[Promise], given_up: list[GivenUp]
    ) -> tuple[list[Promise], Batch]:
        """What of these the output may promise, when it has said this."""
        inputs = state.inputs
        news = inputs.promised.news(earlier(told, self.node.policy.trailing))
        closed = self.index.close(state.index, inputs, port, news, trusted=True) if news else None
        if closed is None:
            return [], Batch.empty(self.node.schema)
        rows, wrong = closed
        inputs.promised.add(news)
        inputs.vouched[port] = True
        given_up += self._given_up(state, wrong)
        given_up += self._decided(state)
        return news, rows

    def _unwanted(self, state: State, port: int, news: Sequence[Promise]) -> list[tuple[int, Promise]]:
        """Rows that the other inputs need not tell any more."""
        if not isinstance(self.index, In2t | In3t):
            return []
        others = [each for each in np.flatnonzero(state.inputs.attached).tolist() if each != port]
        return [(other, each) for each in for_ever(news) for other in others]

    def forgo(self, state: State, told: Sequence[Promise]) -> Answer:
        """Rows with such payloads are of no interest, and do not come any more: they are forgotten."""
        told = for_ever(about(told, self.node.schema))
        closed = self.index.close(state.index, state.inputs, 0, told, trusted=False)
        if closed is None:
            return Answer()
        state.inputs.promised.add(told)
        return Answer(tuple(told), closed[0])

    def _given_up(self, state: State, wrong: list[Wrong]) -> list[GivenUp]:
        """What becomes of contradictions: they stop the query, or somebody is set aside for them."""
        found: list[GivenUp] = []
        policy = self.node.policy

        def called(ports: Iterable[int]) -> str:
            return ", ".join(state.inputs.names[port] for port in ports)

        for each in wrong:
            [element] = each.row
            who = called(each.against)
            if self.may_lack_adjusts or (each.is_missing and policy.gaps):
                found.append(GivenUp(each.row, "missing", (f"input {who}: {each.detail}",)))
                continue
            if policy.contradiction is not QUARANTINE:
                raise OperatorError(
                    f"merge: the inputs contradict each other ({each.rule}): {element!r}",
                    detail=f"{each.detail}; with the output: [{called(each.with_output)}], "
                    f"against it: [{who}]",
                    hint="contradiction=sw.QUARANTINE goes on without the minority; gaps=True allows "
                    "inputs that lack elements",
                )
            outvoted = [port for port in each.minority if state.inputs.attached[port]]
            for port in outvoted:
                self._set_aside(state, port)
            names = called(outvoted) or "nobody"
            found.append(
                GivenUp(
                    each.row, "contradiction", (f"{each.rule}: {each.detail}; quarantined: {names}",)
                )
            )
        return found

    def _decided(self, state: State) -> list[GivenUp]:
        """What becomes of contradictions that waited for somebody to be heard, or to leave."""
        found: list[GivenUp] = []
        while wrong := self.index.verdicts(state.index, state.inputs):
            found += self._given_up(state, wrong)
        return found

    def detach(self, state: State, port: int) -> Answer:
        """An input has broken off, or is not to be listened to; what it alone has told goes at ctis."""
        self._detach(state, port)
        return self._advanced(state, self._decided(state))

    def quarantine(self, state: State, port: int, begun: int) -> Answer:
        """An input was found elsewhere to contradict the others, unless it has begun anew since."""
        if state.inputs.begun[port] != begun:
            return Answer()
        self._set_aside(state, port)
        return self._advanced(state, self._decided(state))

    def _set_aside(self, state: State, port: int) -> None:
        self._detach(state, port)
        state.inputs.quarantined[port] = True

    def _detach(self, state: State, port: int) -> None:
        state.inputs.detach(port)
        self.index.forget(state.index, state.inputs, port)

    def attach(self, state: State, port: int, since: int = BEGIN) -> Answer:
        """An input begins anew; it tells every event that ends at that time or later."""
        state.inputs.attach(port, since)
        self.index.forget(state.index, state.inputs, port)
        return self._advanced(state, self._decided(state))

    def describe(self, state: State) -> Description:
        """The events that are not frozen."""
        return Description(state_rows=self.index.rows(state.index))


def _may_mislead(stream: nodes.Node, known: StreamProperties) -> bool:
    """Whether a stream may tell wrong events that nobody wants, once it is told what is of no interest.

    Not if each row is told as it is or not at all: nothing is taken back, nor counted.
    """
    counts = any(isinstance(node, nodes.Aggregate) for node in nodes.walk(stream))
    return known.never_lengthens and (counts or not known.insert_only)


def _index_of(node: nodes.Merge, latency: OutputLatency) -> Index:
    algorithm = chosen(node, latency).algorithm
    schema: pl.Schema = node.schema
    match algorithm:
        case "R0" | "R1" | "R2":
            return InOrder(schema, algorithm)
        case "R3":
            return In2t(schema, node.policy)
        case "R3-":
            return Apart(schema)
        case _:
            return In3t(schema, node.policy)
