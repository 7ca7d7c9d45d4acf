"""Logical merge: whatever inputs do, in any order, and under any policy.

Two to six inputs tell one history. Each may break off at any time and begin anew, complete from the
beginning or from a time on; it may begin anew without having broken off, and repeat itself. All that is
asked is that at any time somebody is there who tells whatever is not settled yet. Everything else is
drawn: what is shown and when, promises about payloads, what is missing, when the state is written down.

Judged are the output (it keeps its promises, can follow its inputs after every batch, and is the history
in the end), the ledger, and that nothing is left in the state once everything is promised. What was
found so stands below by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_merge_laws import (
    COLUMN_TYPES,
    FEWER,
    MANNERS,
    drawn_history,
    history_in,
    history_of,
    since_then,
    telling,
    with_gaps,
)

import slackwater as sw
from slackwater.events import Element
from slackwater.history import History
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Merge, Source
from slackwater.runtime import Execution
from slackwater.testing.compatibility import Told, incompatible, incompatible_bags
from slackwater.times import BEGIN
from slackwater.validity import StreamProperties, Validator

_ONE_IN = 12
"""so seldom an input breaks off, or begins anew, and the state is written down"""
INSERTS: list[Any] = [sw.AT_FIRST_SIGHT, sw.FROM_LEADER, sw.HALF_FROZEN, sw.after(0.5), sw.after(1)]


@dataclass
class Input:
    """One input: what it is going to say, and what it has said each time since it began."""

    source: Source
    left: list[Element] = field(default_factory=list)
    since: int = BEGIN
    is_attached: bool = True
    told: list[tuple[int, Told]] = field(default_factory=list)

    def begin(self, since: int, left: list[Element], *, perfect: bool) -> None:
        """From here on it is complete from that time on."""
        self.left, self.since, self.is_attached = left, since, True
        self.told.append((since, Told(perfect=perfect)))

    def is_whole(self, settled: int) -> bool:
        """Whether it tells all that may still change."""
        return self.is_attached and self.since <= settled


@st.composite
def policies(draw: st.DrawFn, *, gaps: bool) -> sw.MergePolicy:
    return sw.merge_policy(
        inserts=draw(st.sampled_from(INSERTS)),
        adjusts=draw(st.sampled_from([sw.AT_STABLE, sw.EVERY, sw.WITH_LEADER])),
        trailing=draw(st.sampled_from([0, 0, 1, 2])),
        gaps=gaps,
    )


class Script:
    """What several inputs do, drawn step by step."""

    def __init__(self, data: st.DataObject, algorithm: str, *, gaps: bool) -> None:
        self.data, self.algorithm, self.gaps = data, algorithm, gaps
        self.history = drawn_history(data, algorithm)
        self.order = data.draw(st.permutations(range(4)))
        queries = [
            sw.stream(COLUMN_TYPES, name=f"s{i}", properties=MANNERS[algorithm][1])
            for i in range(data.draw(st.integers(2, 6), label="inputs"))
        ]
        policy = data.draw(policies(gaps=gaps), label="policy")
        query = sw.merge(*queries, policy=policy, algorithm=algorithm.partition(",")[0])  # type: ignore[arg-type]
        assert isinstance(query.node, Merge)
        self.node = query.node
        self.execution = Execution(query.node)
        self.inputs = []
        for each in queries:
            assert isinstance(each.node, Source)
            self.inputs.append(Input(each.node))
            self.begin(self.inputs[-1], BEGIN)
        self.valid, self.out = Validator(), Told()
        self.ledger: list[Any] = []

    def begin(self, who: Input, since: int) -> None:
        left = self.telling(since_then(self.history, since))
        who.begin(since, left, perfect=MANNERS[self.algorithm][1].perfect)

    def telling(self, history: History) -> list[Element]:
        def ties(event: Any) -> Any:
            return event.vs, self.order[sum(repr(event).encode()) % 4], repr(event)

        if self.gaps:
            history = with_gaps(self.data, history)
        return telling(self.data, self.algorithm, history, ties)

    def run(self) -> Iterator[None]:
        """Step by step until everybody who is there has said everything."""
        while able := [each for each in self.inputs if each.is_attached and each.left]:
            what = self.data.draw(st.integers(0, _ONE_IN), label="what")
            if what == _ONE_IN:
                self.come_or_go(self.data.draw(st.sampled_from(self.inputs), label="of"))
            elif what == _ONE_IN - 1:
                self.write_down()
            else:
                self.tell(self.data.draw(st.sampled_from(able), label="by"))
            yield

    def tell(self, who: Input) -> None:
        size = self.data.draw(st.sampled_from([1, 1, 1, 2, 3]), label="elements")
        said, who.left = who.left[:size], who.left[size:]
        for each in said:
            who.told[-1][1].hear(each)
        self.hear(self.execution.push(who.source, said))

    def come_or_go(self, who: Input) -> None:
        others = any(each.is_whole(self.out.cti) for each in self.inputs if each is not who)
        if who.is_attached and others and self.data.draw(st.booleans(), label="goes"):
            who.is_attached = False
            self.hear(self.execution.detach(who.source))
            return
        since = BEGIN
        if others or self.out.cti > BEGIN:
            since = self.data.draw(st.one_of(st.just(BEGIN), st.integers(0, 12)), label="since")
            since = since if others else min(since, self.out.cti)
        self.begin(who, since)
        self.hear(self.execution.attach(who.source, since))

    def write_down(self) -> None:
        again = Execution(self.node)
        again.restore(decode(encode(self.execution.snapshot())))
        self.ledger += self.execution.output.ledger
        self.execution = again

    def hear(self, said: list[Any]) -> None:
        for batch in said:
            for each in self.valid.admit(batch):
                self.out.hear(each)

    def finish(self) -> None:
        """Everything was promised, and nothing is remembered."""
        self.ledger += self.execution.output.ledger
        assert self.out.cti == sw.INF
        assert sum(each.state.state_rows for each in self.execution.describe()) == 0


@pytest.mark.parametrize("algorithm", [name for name in MANNERS if name != "R3-"])
@FEWER
@given(data=st.data())
def test_whatever_inputs_do_the_output_can_follow_them(algorithm: str, data: st.DataObject) -> None:
    script = Script(data, algorithm, gaps=False)
    for _ in script.run():
        inputs = [told for each in script.inputs for told in each.told]
        if algorithm.startswith(("R1", "R4")):
            assert script.out.cti <= max(told.cti for _, told in inputs)
            for since, told in inputs:
                assert incompatible_bags(told, script.out, since) == []
        else:
            assert incompatible([told for _, told in inputs], script.out) == []
    script.finish()
    assert history_in(script.out) == history_of(script.history)
    assert script.ledger == []


@pytest.mark.parametrize("algorithm", ["R3", "R3, shortened", "R4", "R4, shortened"])
@FEWER
@given(data=st.data())
def test_whatever_inputs_with_gaps_do_nothing_stops(algorithm: str, data: st.DataObject) -> None:
    script = Script(data, algorithm, gaps=True)
    for _ in script.run():
        pass
    script.finish()
    assert {entry.reason for entry in script.ledger} <= {"missing"}


# found by the search, each with what was left in the state

ANY = StreamProperties()
KEY = StreamProperties(vs_payload_key=True)
NEVER_LONGER = StreamProperties(never_lengthens=True)


def _left(
    properties: StreamProperties, policy: sw.MergePolicy, script: list[tuple[int, list[Element]]]
) -> int:
    """How many events are remembered when all inputs have said this and promised everything."""
    inputs = [sw.stream({"p": str}, name=f"s{i}", properties=properties) for i in range(5)]
    running = sw.merge(*inputs, policy=policy).open()
    for which, elements in script:
        running.push(inputs[which], elements)
    for each in inputs:
        running.push(each, [sw.cti(sw.INF)])
    return sum(each.state.state_rows for each in running.describe())


def test_what_the_leader_ended_long_ago_is_not_waited_for() -> None:
    """It need not be true, and nobody asks the leader again, while another has not come round."""
    script: list[tuple[int, list[Element]]] = [
        (3, [sw.insert(0, sw.INF, p="A")]),
        (1, [sw.insert(0, 6, p="A")]),
        (4, [sw.insert(0, 5, p="A")]),
        (3, [sw.adjust(0, sw.INF, 4, p="A")]),
        (4, [sw.cti(6)]),
        (2, [sw.insert(0, sw.INF, p="A")]),
        # and again, so that it tells two copies for a while; what ends before 5 nobody wants
        (3, [sw.insert(0, 5, p="A"), sw.cti(sw.INF)]),
        (4, [sw.cti(sw.INF)]),
        (1, [sw.adjust(0, 6, 4, p="A")]),
        (2, [sw.adjust(0, sw.INF, 11, p="A")]),
        (1, [sw.cti(sw.INF)]),
    ]
    assert _left(NEVER_LONGER, sw.merge_policy(trailing=1), script) == 0


@pytest.mark.parametrize("properties", [KEY, ANY])
def test_what_never_ends_is_done_with_when_all_is_promised(properties: StreamProperties) -> None:
    """The output was left with an end that nobody has promised, and another says that there is none."""
    script: list[tuple[int, list[Element]]] = [
        (0, [sw.insert(4, 14, p="A"), sw.cti(7), sw.adjust(4, 14, 7, p="A")]),
        (1, [sw.cti(14)]),
        (0, [sw.adjust(4, 7, sw.INF, p="A")]),
    ]
    assert _left(properties, sw.merge_policy(gaps=True, adjusts=sw.EVERY), script) == 0


def test_a_leader_with_gaps_may_have_told_another_copy_that_ended_long_ago() -> None:
    script: list[tuple[int, list[Element]]] = [
        (0, [sw.insert(2, sw.INF, p="A"), sw.insert(2, 5, p="A"), sw.insert(2, 5, p="A")]),
        (1, [sw.insert(2, sw.INF, p="A"), sw.insert(2, 16, p="A"), sw.cti(15)]),
        (0, [sw.adjust(2, 5, sw.INF, p="A"), sw.cti(sw.INF)]),
    ]
    assert _left(ANY, sw.merge_policy(gaps=True), script) == 0
