"""Logical merge, element by element: R0 to R3 say what the paper's algorithms say (IV-A to IV-D).

The algorithms are written here as they are printed, but for line 20 of R3 (erratum 18): an event that
is half frozen, and that the input lacks, stays as it is. Inputs keep what they promise; those of R0 and
R2 may have gaps (V-C), and what would then break the output's own promise is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_merge_laws import COLUMN_TYPES, FEWER, MANNERS, drawn_history, telling

import slackwater as sw
from slackwater.events import Adjust, Element, Insert
from slackwater.history import History
from slackwater.identity import identity
from slackwater.payloads import Payload
from slackwater.plan.merges import chosen
from slackwater.plan.nodes import Merge, Source
from slackwater.punctuations import Punctuation
from slackwater.runtime import Execution
from slackwater.times import BEGIN, INF


@dataclass
class Ordered:
    """Algorithms R0, R1 and R2."""

    algorithm: str
    inputs: int
    max_stable: int = BEGIN
    max_vs: int = BEGIN
    same_vs_count: list[int] = field(default_factory=list)
    known: set[Any] = field(default_factory=set)

    def hear(self, element: Element, stream: int) -> list[Element]:
        """What is output."""
        if isinstance(element, Punctuation):
            is_new = element.before > self.max_stable
            self.max_stable = max(self.max_stable, element.before)
            return [element] if is_new else []
        assert isinstance(element, Insert)
        if element.vs < self.max_vs or element.vs < self.max_stable:
            return []
        is_later = element.vs > self.max_vs
        self.max_vs = element.vs
        if self.algorithm == "R0":
            return [element] if is_later else []
        if is_later:
            self.same_vs_count, self.known = [0] * self.inputs, set()
        if self.algorithm == "R1":
            counts = self.same_vs_count
            is_new = max(counts) == counts[stream]
            counts[stream] += 1
        else:
            key = identity(element.payload)
            is_new = key not in self.known
            self.known.add(key)
        return [element] if is_new else []


@dataclass
class Node:
    """An event of in2t, and where it ends: by input, and in the output."""

    payload: Payload
    ends: dict[int, int]
    out: int


@dataclass
class AnyOrder:
    """Algorithm R3."""

    max_stable: int = BEGIN
    index: dict[tuple[int, Any], Node] = field(default_factory=dict)

    def hear(self, element: Element, stream: int) -> list[Element]:
        """What is output."""
        if isinstance(element, Punctuation):
            return self._stable(element.before, stream) if element.before > self.max_stable else []
        assert isinstance(element, Insert | Adjust)
        key = element.vs, identity(element.payload)
        end = element.ve if isinstance(element, Insert) else element.new_ve
        if key in self.index:
            self.index[key].ends[stream] = end
        elif isinstance(element, Insert) and element.vs >= self.max_stable:
            self.index[key] = Node(element.payload, {stream: end}, end)
            return [element]
        return []

    def _stable(self, time: int, stream: int) -> list[Element]:
        said: list[Element] = []
        for key, node in list(self.index.items()):
            vs = key[0]
            if vs >= time and time < INF:
                continue
            end = node.ends.get(stream, vs)
            if end == vs and vs < self.max_stable:
                end = node.out
            if end != node.out and (min(end, node.out) < time or time == INF):
                if node.out == vs:
                    said.append(Insert(vs, end, node.payload))
                else:
                    said.append(Adjust(vs, node.out, end, node.payload))
                node.out = end
            if end < time or time == INF:
                del self.index[key]
        self.max_stable = time
        return [*said, Punctuation(time)]


def _of_time(stream: list[Element]) -> list[Element]:
    """Without promises about payloads, of which the paper has none."""
    return [each for each in stream if not isinstance(each, Punctuation) or each.is_cti]


# R1 counts rows, and what R3 has frozen otherwise it names
@pytest.mark.parametrize(
    ("algorithm", "gaps"),
    [("R0", False), ("R0", True), ("R1", False), ("R2", False), ("R2", True), ("R3", False)],
)
@FEWER
@given(data=st.data())
def test_what_the_paper_says_is_said(algorithm: str, gaps: bool, data: st.DataObject) -> None:
    history = drawn_history(data, algorithm)
    queries = [
        sw.stream(COLUMN_TYPES, name=f"s{i}", properties=MANNERS[algorithm][1])
        for i in range(data.draw(st.integers(2, 4), label="inputs"))
    ]
    left = []
    for _ in queries:
        events = [
            each for each in history.events() if not gaps or data.draw(st.booleans(), label="told")
        ]
        told = History.from_events(events, history.schema)
        left.append(_of_time(telling(data, algorithm, told, lambda event: (event.vs, repr(event)))))
    query = sw.merge(*queries, policy=sw.merge_policy(gaps=gaps))
    assert isinstance(query.node, Merge)
    assert chosen(query.node).algorithm == algorithm
    execution = Execution(query.node)
    printed = AnyOrder() if algorithm == "R3" else Ordered(algorithm, len(queries))
    while able := [i for i, each in enumerate(left) if each]:
        which = data.draw(st.sampled_from(able), label="by")
        element = left[which].pop(0)
        source = queries[which].node
        assert isinstance(source, Source)
        said = [each for batch in execution.push(source, [element]) for each in batch]
        wanted = printed.hear(element, which)
        # of one cti, rows of several events may come in any order
        assert said[-1:] == wanted[-1:]
        assert sorted(map(repr, said)) == sorted(map(repr, wanted))
