"""Logical merge: after every element the output can still follow its inputs (C1, C2, C3 of paper 2).

Replicas tell one history, each in its own way; all but one may break off, and begin anew from a time on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.permitted import forbids

import slackwater as sw
from slackwater.errors import OperatorError
from slackwater.events import Control, Element
from slackwater.history import History
from slackwater.identity import identity
from slackwater.persistence import decode, encode
from slackwater.plan.merges import chosen
from slackwater.plan.nodes import Merge, Source
from slackwater.punctuations import Punctuation
from slackwater.runtime import Execution
from slackwater.testing import histories, streams
from slackwater.testing.compatibility import Told, incompatible, incompatible_bags
from slackwater.times import BEGIN
from slackwater.validity import StreamProperties, Validator

COLUMN_TYPES = {"k": str, "v": int}
SCHEMA = sw.stream(COLUMN_TYPES).schema
COLUMNS = {"k": st.sampled_from(["a", "a word that is long", None]), "v": st.sampled_from([0, 1, None])}
FEWER = settings(max_examples=max(1, settings().max_examples // 8))

MANNERS: dict[str, tuple[dict[str, Any], StreamProperties]] = {
    "R0": (
        {"perfect": True},
        StreamProperties(ordered=True, insert_only=True, strictly_increasing=True),
    ),
    "R1": ({"perfect": True}, StreamProperties(ordered=True, insert_only=True, ties_in_order=True)),
    "R2": (
        {"perfect": True, "vs_payload_key": True},
        StreamProperties(ordered=True, insert_only=True, vs_payload_key=True),
    ),
    "R3": ({"vs_payload_key": True}, StreamProperties(vs_payload_key=True)),
    "R3-": ({"vs_payload_key": True}, StreamProperties(vs_payload_key=True)),
    "R4": ({}, StreamProperties()),
    # who is told that what ends before t is of no interest is doubted
    "R3, shortened": (
        {"vs_payload_key": True, "lengthen": False},
        StreamProperties(vs_payload_key=True, never_lengthens=True),
    ),
    "R4, shortened": ({"lengthen": False}, StreamProperties(never_lengthens=True)),
}
"""how replicas tell a history, and what is known of them"""

POLICIES = {
    "default": sw.merge_policy(),
    "from leader": sw.merge_policy(inserts=sw.FROM_LEADER, adjusts=sw.WITH_LEADER),
    "half frozen": sw.merge_policy(inserts=sw.HALF_FROZEN),
    "after half, every": sw.merge_policy(inserts=sw.after(0.5), adjusts=sw.EVERY),
    "after all, trailing": sw.merge_policy(inserts=sw.after(1), trailing=2),
    "every, trailing": sw.merge_policy(adjusts=sw.EVERY, trailing=1),
}
CASES = {
    **{f"{name}, default": (name, "default") for name in MANNERS},
    **{f"{a}, {p}": (a, p) for a in ("R0", "R1", "R2", "R3", "R4") for p in POLICIES},
    "R3, shortened, every": ("R3, shortened", "every, trailing"),
    "R4, shortened, every": ("R4, shortened", "every, trailing"),
}


@dataclass
class Replica:
    """One input: what it is going to say, and what it has said since it began."""

    query: sw.Query
    tellings: list[tuple[int, list[Element]]]
    """with the time from which on each is complete; the next one is attached when one has broken off"""
    told: list[tuple[int, Told]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin(self.tellings[0][0])

    def begin(self, since: int) -> None:
        """From here on it is complete from that time on."""
        assert isinstance(self.query.node, Source)
        self.told.append((since, Told(perfect=self.query.node.properties.perfect)))


def drawn_history(data: st.DataObject, algorithm: str) -> History:
    history = data.draw(
        histories(SCHEMA, columns=COLUMNS, max_size=5, vs_payload_key=algorithm.startswith(("R2", "R3")))
    )
    if algorithm != "R0":
        return history
    by_start = {event.vs: event for event in history.events()}
    return History.from_events(list(by_start.values()), history.schema)


def telling(
    data: st.DataObject, algorithm: str, history: History, ties: Callable[[Any], Any]
) -> list[Element]:
    manner, _ = MANNERS[algorithm]
    patterns = data.draw(st.booleans(), label="promises about payloads")
    told = data.draw(streams(history, columns=COLUMNS, patterns=patterns, **manner))
    if algorithm != "R1":
        return told
    # equal starts in one order
    rows = iter(sorted((each for each in told if isinstance(each, sw.Insert)), key=ties))
    ordered = [next(rows) if isinstance(each, sw.Insert) else each for each in told]
    return [each for place, each in enumerate(ordered) if _is_kept(each, ordered[place:])]


def _is_kept(element: Element, later: list[Element]) -> bool:
    """Whether it is no promise that some later row breaks."""
    return not isinstance(element, Punctuation) or not any(
        isinstance(each, sw.Insert) and forbids(element, each.payload, each.vs) for each in later
    )


def since_then(history: History, time: int) -> History:
    events = [event for event in history.events() if event.ve >= time]
    return History.from_events(events, history.schema)


def replicas_of(data: st.DataObject, algorithm: str, history: History) -> list[Replica]:
    """Of which the first never fails."""
    order = data.draw(st.permutations(range(4)))

    def ties(event: Any) -> Any:
        return event.vs, order[sum(repr(event).encode()) % 4], repr(event)

    replicas = []
    for i in range(data.draw(st.integers(2, 3))):
        source = sw.stream(COLUMN_TYPES, name=f"s{i}", properties=MANNERS[algorithm][1])
        tellings = [(BEGIN, telling(data, algorithm, history, ties))]
        for _ in range(data.draw(st.integers(0, 2)) if i else 0):
            since = data.draw(st.one_of(st.just(BEGIN), st.integers(0, 12)))
            whole = telling(data, algorithm, since_then(history, since), ties)
            last_since, last = tellings.pop()
            tellings.append((last_since, last[: data.draw(st.integers(0, len(last)))]))
            tellings.append((since, whole))
        replicas.append(Replica(source, tellings))
    return replicas


def _turns(data: st.DataObject, replicas: list[Replica]) -> Iterator[Replica]:
    left = {i: sum(len(t) + 1 for _, t in each.tellings) for i, each in enumerate(replicas)}
    while left:
        i = data.draw(st.sampled_from(sorted(left)))
        yield replicas[i]
        left[i] -= 1
        if not left[i]:
            del left[i]


@pytest.mark.parametrize("name", CASES)
@FEWER
@given(data=st.data())
def test_the_output_can_follow_its_inputs_after_every_element(name: str, data: st.DataObject) -> None:
    algorithm, policy = CASES[name]
    history = drawn_history(data, algorithm)
    replicas = replicas_of(data, algorithm, history)
    asked: Any = algorithm if algorithm == "R3-" else "auto"
    inputs_of = [each.query for each in replicas]
    query = sw.merge(*inputs_of, policy=POLICIES[policy], algorithm=asked)
    assert isinstance(query.node, Merge)
    algorithm = algorithm.partition(",")[0]
    assert chosen(query.node).algorithm == algorithm
    execution = Execution(query.node)
    valid, out = Validator(), Told()
    for replica in _turns(data, replicas):
        source = replica.query.node
        assert isinstance(source, Source)
        since, telling = replica.tellings[0]
        if telling:
            element = telling.pop(0)
            replica.told[-1][1].hear(element)
            said = execution.push(source, [element])
        elif len(replica.tellings) > 1:
            # it has broken off, and begins anew
            said = execution.detach(source)
            replica.tellings.pop(0)
            since = replica.tellings[0][0]
            said += execution.attach(source, since)
            replica.begin(since)
        else:
            continue
        for batch in said:
            for each in valid.admit(batch):
                out.hear(each)
        inputs = [told for each in replicas for told in each.told]
        if algorithm in {"R1", "R4"}:
            assert out.cti <= max(told.cti for _, told in inputs)
            for payload in out.payloads.values():
                assert out.reached(payload) <= max(told.reached(payload) for _, told in inputs)
            for since, told in inputs:
                assert incompatible_bags(told, out, since) == []
        else:
            assert incompatible([told for _, told in inputs], out) == []
        if data.draw(st.integers(0, 9), label="written down and read back") == 9:
            again = Execution(query.node)
            again.restore(decode(encode(execution.snapshot())))
            execution = again
    assert out.cti == sw.INF
    assert history_in(out) == history_of(history)
    assert sum(each.state.state_rows for each in execution.describe()) == 0


def history_in(told: Told) -> dict[Any, Any]:
    return {key: dict(ends) for key, ends in told.events.items()}


def history_of(history: History) -> dict[Any, Any]:
    told = Told()
    for event in history.events():
        told.hear(sw.Insert(event.vs, event.ve, event.payload))
    return history_in(told)


@FEWER
@given(data=st.data())
def test_theorem_1_an_output_is_no_more_chatty_than_its_inputs(data: st.DataObject) -> None:
    """As erratum 17 has it."""
    history = drawn_history(data, "R3")
    replicas = replicas_of(data, "R3", history)
    execution = Execution(sw.merge(*(each.query for each in replicas)).node)
    heard: list[Element] = []
    for replica in _turns(data, replicas):
        _, telling = replica.tellings[0]
        if telling:
            element = telling.pop(0)
            heard.append(element)
            assert isinstance(replica.query.node, Source)
            execution.push(replica.query.node, [element])
    said = list(execution.output)
    count = {
        kind: (_of(kind, heard), _of(kind, said)) for kind in (sw.Insert, sw.Adjust, sw.Punctuation)
    }
    assert count[sw.Insert][1] <= count[sw.Insert][0]
    assert count[sw.Adjust][1] <= count[sw.Insert][0] + count[sw.Adjust][0]
    assert count[sw.Punctuation][1] <= count[sw.Punctuation][0]


def _of(kind: type, elements: list[Element]) -> int:
    return sum(isinstance(each, kind) for each in elements)


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
@FEWER
@given(data=st.data())
def test_who_tells_another_end_of_an_event_is_found_out(algorithm: Any, data: st.DataObject) -> None:
    """If it is told while the event is remembered: all rows come before the first promise here."""
    history = drawn_history(data, "R3")
    events = list(history.events())
    inputs = [sw.stream(COLUMN_TYPES, name=name, properties=MANNERS["R3"][1]) for name in "abc"]
    place = data.draw(st.integers(0, len(events))) - 1
    end = data.draw(st.integers(1, 14).map(lambda length: events[place].vs + length)) if events else 0
    differs = place >= 0 and events[place].ve != end
    rows: list[list[tuple[sw.Query, Element]]] = []
    for source in inputs:
        told = list(events)
        if source is inputs[1] and differs:
            told[place] = events[place]._replace(ve=end)
        of_one = History.from_events(told, history.schema)
        stream = data.draw(streams(of_one, columns=COLUMNS, vs_payload_key=True))
        rows.append([(source, each) for each in stream if not isinstance(each, Control)])
    turns = data.draw(st.permutations([i for i, each in enumerate(rows) for _ in each]))
    waiting = [iter(each) for each in rows]
    script = [next(waiting[i]) for i in turns]
    times = data.draw(st.lists(st.tuples(st.sampled_from(inputs), st.integers(0, 20)), max_size=6))
    script += [(source, sw.cti(time)) for source, time in sorted(times, key=lambda each: each[1])]
    script += [(source, sw.cti(sw.INF)) for source in data.draw(st.permutations(inputs))]
    query = sw.merge(*inputs, algorithm=algorithm)
    if not differs:
        assert query.run(script, batch=1).as_history() == history
        return
    with pytest.raises(OperatorError, match="contradict"):
        query.run(script, batch=1)
    outvoted = sw.merge(
        *inputs, algorithm=algorithm, policy=sw.merge_policy(contradiction=sw.QUARANTINE)
    ).run(script, batch=1)
    # of an end that the output was left with by nobody, others may have been asked before
    outcomes = [entry.detail.rpartition("quarantined: ")[2] for entry in outvoted.ledger]
    assert outcomes.count("1") == 1
    assert set(outcomes) <= {"1", "nobody"}


def with_gaps(data: st.DataObject, history: History) -> History:
    """What is left of a history where events are missing, and corrections of their ends."""
    left = []
    for event in history.events():
        match data.draw(st.sampled_from(["told", "told", "told", "missing", "not corrected"])):
            case "told":
                left.append(event)
            case "not corrected":
                left.append(event._replace(ve=event.vs + data.draw(st.integers(1, 14))))
    return History.from_events(left, history.schema)


GAPS = {name: policy for name, policy in POLICIES.items() if "trailing" not in name}


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
@pytest.mark.parametrize("name", GAPS)
@FEWER
@given(data=st.data())
def test_of_inputs_with_gaps_each_event_is_told_as_who_froze_its_start_has_it(
    algorithm: Any, name: str, data: st.DataObject
) -> None:
    """Paper 2 V-C: as often as the input that moved MaxStable past it; what differs is in the ledger."""
    history = drawn_history(data, algorithm)
    lacking = [with_gaps(data, history) for _ in range(data.draw(st.integers(2, 4)))]
    replicas = []
    for i, left in enumerate(lacking):
        source = sw.stream(COLUMN_TYPES, name=f"s{i}", properties=MANNERS[algorithm][1])
        told = data.draw(streams(left, columns=COLUMNS, **MANNERS[algorithm][0]))
        replicas.append(Replica(source, [(BEGIN, told)]))
    policy = replace(GAPS[name], gaps=True)
    query = sw.merge(*(each.query for each in replicas), policy=policy, algorithm=algorithm)
    execution = Execution(query.node)
    valid, out, stable = Validator(), Told(), BEGIN
    reference: dict[int, int] = {}
    for replica in _turns(data, replicas):
        _, telling = replica.tellings[0]
        if not telling:
            continue
        element = telling.pop(0)
        assert isinstance(replica.query.node, Source)
        for batch in execution.push(replica.query.node, [element]):
            for each in valid.admit(batch):
                out.hear(each)
        if isinstance(element, Punctuation) and element.before > stable:
            passed = {event.vs for event in history.events() if stable <= event.vs < element.before}
            reference |= dict.fromkeys(passed, replicas.index(replica))
            stable = element.before
    assert out.cti == sw.INF
    assert sum(each.state.state_rows for each in execution.describe()) == 0
    wanted: dict[Any, Any] = {}
    for vs, which in reference.items():
        theirs = history_of(lacking[which])
        wanted |= {key: ends for key, ends in theirs.items() if key[0] == vs}
    said = history_in(out)
    assert {key: sum(ends.values()) for key, ends in said.items()} == {
        key: sum(ends.values()) for key, ends in wanted.items()
    }
    entries = list(execution.output.ledger)
    assert all(each.reason == "missing" for each in entries)
    named = {
        (each.element.vs, identity(each.element.payload))
        for each in entries
        if isinstance(each.element, sw.Insert)
    }
    assert {key for key in wanted if said[key] != wanted[key]} <= named
