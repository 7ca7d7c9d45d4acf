"""Who is wrong, where the inputs of a logical merge contradict each other: they vote, once they know.

An input that says otherwise of an event than the output was promised opens a case (merge_case.py). Until
there is a verdict the event is held, whoever would be done with it. After a verdict against the output
nobody else is accused of saying so: the case is kept until everybody is heard. A case that cannot be
decided is named, and nobody is set aside for it.

If nobody is to be set aside, there is nothing to wait for: the case is closed by what is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

import numpy as np

from slackwater.events import Batch
from slackwater.operators.inputs import Inputs, Ints, Wrong
from slackwater.operators.merge_case import Case
from slackwater.operators.merged_events import MergedEvents
from slackwater.times import BEGIN, INF, show

__all__ = ["accuse", "close_cases", "drop_cases", "forget_voter", "hear_promised", "verdicts"]


class Events(Protocol):
    """What an index of R3 or R4 remembers."""

    events: MergedEvents


State = TypeVar("State", bound=Events)


class Index(Protocol[State]):  # type: ignore[misc]  # a state is asked and changed
    """R3 or R4, as far as it is asked what somebody says of an event."""

    @property
    def is_patient(self) -> bool:
        """Whether a verdict waits for those who are unheard."""
        ...

    def ends_of(self, state: State, node: int, who: int) -> list[int]:
        """The ends that an input gives an event, in order; the output comes after the inputs."""
        ...

    def take_as_told(self, state: State, inputs: Inputs, node: int, port: int) -> None:
        """An input is taken to say of an event what the output does."""
        ...

    def leave_standing(self, state: State, inputs: Inputs, node: int) -> None:
        """If an event is over, what the output says of it is nobody's word from now on."""
        ...

    def let_go(self, state: State, inputs: Inputs, nodes: Ints) -> None:
        """Of these nodes, those that are over and of which nobody says otherwise are done with."""
        ...


def accuse(
    index: Index[State],
    state: State,
    inputs: Inputs,
    node: int,
    port: int,
    *,
    rule: int,
    told: int,
    frozen: int,
    is_standing: bool,
) -> Wrong | None:
    """An input has promised otherwise of an event than the output; the verdict, if there is one."""
    if state.events.lacks[node] == INF and not is_standing:
        return None
    if any(case.node == node and (case.is_lost or port == case.port) for case in state.events.cases):
        return None
    claim, out = (index.ends_of(state, node, who) for who in (port, inputs.count))
    lacks = int(state.events.lacks[node])
    case = Case(
        node,
        port,
        rule,
        claim,
        told,
        out,
        frozen,
        is_standing,
        [port],
        lacks=BEGIN if lacks == INF else lacks,
    )
    _hear(index, state, inputs, case)
    if index.is_patient and not case.is_ripe:
        state.events.cases.append(case)
        return None
    return _closed(index, state, inputs, case)


def verdicts(index: Index[State], state: State, inputs: Inputs) -> list[Wrong]:
    """The cases that can be closed by what the inputs have promised by now."""
    found: list[Wrong] = []
    for case in [*state.events.cases]:
        if case not in state.events.cases:
            continue
        _hear(index, state, inputs, case)
        if case.is_lost:
            # who says now what the output did
            if case.verdict() and (late := case.blame()):
                found.append(_wrong(state, inputs, case, late))
            if not case.unheard:
                _drop(index, state, inputs, case)
        elif not case.against:
            _drop(index, state, inputs, case)
        elif case.is_ripe:
            found.append(_closed(index, state, inputs, case))
    return found


def hear_promised(
    index: Index[State], state: State, inputs: Inputs, nodes: Ints, port: int, *, until: int
) -> None:
    """An input has promised the payloads of these events up to a time."""
    for case in _cases_of(state, nodes):
        case.promised[port] = max(case.promised.get(port, until), until)
        _hear(index, state, inputs, case)


def close_cases(index: Index[State], state: State, inputs: Inputs, nodes: Ints) -> list[Wrong]:
    """Nobody need say any more of these events: it is decided now, or not at all."""
    found: list[Wrong] = []
    for case in _cases_of(state, nodes):
        _hear(index, state, inputs, case)
        case.mute, case.unheard = case.mute + case.unheard, []
        if not case.is_lost and case.against:
            found.append(_closed(index, state, inputs, case))
    drop_cases(state, nodes)
    return found


def drop_cases(state: Events, nodes: Ints) -> None:
    """These events are done with."""
    for case in _cases_of(state, nodes):
        state.events.cases.remove(case)


def forget_voter(state: Events, port: int) -> None:
    """An input takes back what it has said."""
    for case in state.events.cases:
        case.forget(port)


def _cases_of(state: Events, nodes: Ints) -> list[Case]:
    cases = state.events.cases
    concerned = np.isin([case.node for case in cases], nodes) if cases else ()
    return [case for case, is_one in zip(cases, concerned, strict=True) if is_one]


def _hear(index: Index[State], state: State, inputs: Inputs, case: Case) -> None:
    events, attached = state.events, np.flatnonzero(inputs.attached).tolist()
    ends = {port: index.ends_of(state, case.node, port) for port in attached}
    case.recall(inputs, int(events.vs[case.node]), ends)
    settled = case.is_standing or case.is_lost or events.lacks[case.node] == INF
    # who was told that it is of no interest may take back what it had not promised by then
    case.out_is_fixed = settled
    case.claim_is_fixed = settled or case.port not in ends or inputs.doubted[case.port] > case.told
    if not case.claim_is_fixed:
        promised = max(int(inputs.stable[case.port]), case.promised.get(case.port, BEGIN))
        case.claim, case.told = ends[case.port], max(case.told, promised)
    if not settled:
        case.out = index.ends_of(state, case.node, inputs.count)
        case.frozen = max(case.frozen, events.frozen_one(case.node, inputs.out))
    case.hear(inputs, int(events.vs[case.node]), ends)


def _closed(index: Index[State], state: State, inputs: Inputs, case: Case) -> Wrong:
    events = state.events
    verdict = case.verdict()
    wrong = _wrong(state, inputs, case, case.blame() if verdict else case.with_output)
    if verdict is not False and index.is_patient:
        case.is_lost = True
        # nobody is accused of it any more, whatever else it comes to say
        index.leave_standing(state, inputs, case.node)
        events.lacks[case.node] = INF
        events.cases[:] = [each for each in events.cases if each.node != case.node]
        events.cases += [case] if case.unheard else []
        index.let_go(state, inputs, np.array([case.node]))
        return wrong
    if not case.is_standing and events.lacks[case.node] != INF:
        # it is told once
        for port in case.against:
            index.take_as_told(state, inputs, case.node, port)
    _drop(index, state, inputs, case)
    return wrong


def _drop(index: Index[State], state: State, inputs: Inputs, case: Case) -> None:
    if case in state.events.cases:
        state.events.cases.remove(case)
        if case.is_standing:
            index.leave_standing(state, inputs, case.node)
        index.let_go(state, inputs, np.array([case.node]))


def _wrong(state: Events, inputs: Inputs, case: Case, with_output: list[int]) -> Wrong:
    start = int(state.events.vs[case.node])
    time, node = np.array([start]), np.array([case.node])
    end = max([*case.claim, *case.out], default=start + 1)
    row = Batch(time, time, np.array([end]), state.events.payload(node))
    says = f"it ends at {_shown(case.claim)}" if case.claim else "there is none"
    promised = f"until {_shown(case.out)}" if case.out else "without it"
    name = inputs.names[case.port]
    detail = f"input {name} says that {says}, the output was promised {promised}"
    others = [port for port in case.against if port != case.port]
    return Wrong.of(
        case.rule, row, case.port, detail=detail, against=others, with_output=with_output,
        is_decided=case.verdict() is not None,
    )  # fmt: skip


def _shown(ends: Iterable[int]) -> str:
    *others, last = map(show, ends)
    return f"{', '.join(others)} and {last}" if others else last
