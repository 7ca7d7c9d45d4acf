"""What a user saw, and whether it kept a level of consistency: a checker for any system's log.

A log holds what entered, what was said, and which states of the output a user could see. A state is what
had been said up to some point. It may name its *offsets*, how much of every input it claims to answer;
if it does not, a prefix is looked for, which is for small logs only.

    log = Log({"a": elements}, said, visible=[State(3, {"a": 2}), State(5, {"a": 4})])
    anomalies(log, sw.INPUT_PREFIX_CONSISTENT, answer)

`answer` recomputes a query from prefixes of its inputs; `answer_of(query, ...)` does so by its meaning.
Definitions 3 and 4 are decided from inputs and output alone. 1 and 2 speak of what is actively derived
from what, which nobody sees from outside: then the log has to say so of everything that was said.

Paper 5 section 3 (Definitions 1 to 4), erratum 28. Judging whether a log *could* be right is all that is
done here; how to get one that is, levels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from operator import index
from typing import Any, SupportsIndex

from slackwater.errors import InvalidStream, PlanError
from slackwater.events import Batch, Element, Stream
from slackwater.history import History
from slackwater.ledger import Ledger
from slackwater.levels import (
    INPUT_PREFIX_CONSISTENT,
    INPUT_PREFIX_UPDATE_COMPLETE,
    SYNCHRONIZED_INPUT_PREFIX_CONSISTENT,
    UPDATE_COMPLETE,
    Level,
)
from slackwater.plan.consequences import Consequences
from slackwater.plan.nodes import Source
from slackwater.query import Query
from slackwater.runtime import Output
from slackwater.runtime.edge import RAISE, Edge, OnInvalid

__all__ = ["Anomaly", "Log", "State", "anomalies", "answer_of", "every_state"]

Prefix = Mapping[str, Sequence[Element]]
Answer = Callable[[Prefix], History]
Origin = tuple[str, int]

MANY = 10_000
"""so many prefixes are tried, and no more"""


@dataclass(frozen=True, slots=True)
class State:
    """A state of the output that a user could see: all that had been said by then."""

    said: int
    """how many elements"""
    offsets: Mapping[str, int] | None = None
    """how much of every input it claims to answer"""


@dataclass(frozen=True, slots=True)
class Log:
    """What entered, what was said, what was seen."""

    inputs: Mapping[str, Sequence[Element]]
    """of each input what had entered, in order"""
    said: Sequence[Element]
    visible: Sequence[State]
    times: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """of each input when its elements arrived, by one clock, in numbers or datetimes: for synchronized
    inputs"""
    origins: Sequence[Origin] = ()
    """of each element that was said, the input and the arrival that it is actively derived from"""

    @classmethod
    def of(
        cls,
        output: Output,
        inputs: Mapping[Query, Stream],
        *,
        times: Mapping[Query, Sequence[Any]] | None = None,
        every: bool = False,
    ) -> Log:
        """What was seen of a run in this process: the states that are marked, or with `every` any."""
        if len(output) and not (output.marked or every):
            raise PlanError(
                "no state of this output is marked",
                detail="it was made without a level of consistency: whatever was said could be seen",
                hint="every=True; or run(..., level=sw.INPUT_PREFIX_CONSISTENT)",
            )
        told = {_name(query): list(Batch.of(given, query.schema)) for query, given in inputs.items()}
        said = list(output)
        states = [State(mark.said, mark.offsets or None) for mark in output.marks]
        starts = [*output.origins, (len(said), ("", 0))]
        origins = [origin for (start, origin), (stop, _) in pairwise(starts) for _ in range(start, stop)]
        arrived = {_name(query): [*given] for query, given in (times or {}).items()}
        log = cls(told, said, states, arrived, origins)
        return every_state(log) if every else log


def _name(query: Query) -> str:
    assert isinstance(query.node, Source), "inputs are given by the streams themselves"
    return query.node.stream_name


def every_state(log: Log) -> Log:
    """As if the user had looked after every element."""
    return Log(
        log.inputs, log.said, [State(n) for n in range(len(log.said) + 1)], log.times, log.origins
    )


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A state that a user should not have seen."""

    state: State
    why: str


def answer_of(query: Query, *sources: Query, on_invalid: OnInvalid = RAISE) -> Answer:
    """What a query means, by the names of its streams.

    With `sw.LEDGER` elements that break a rule are left out, as a query does that sets them aside: an
    offset counts them, and the answer is that to the others.
    """
    names = [_name(source) for source in sources]
    consequences = Consequences(query.node)

    def valid(source: Query, told: Sequence[Element]) -> Stream:
        if on_invalid is RAISE:
            return told
        assert isinstance(source.node, Source), "inputs are given by the streams themselves"
        edge = Edge(source.node, on_invalid, Ledger(), consequences)
        return [element for batch in edge.admit(edge.read(told)) for element in batch]

    def answer(prefix: Prefix) -> History:
        if {*names} != prefix.keys():
            raise PlanError(
                "the log is of other inputs than the answer",
                detail=f"the log: {', '.join(prefix)}; the answer: {', '.join(names)}",
                hint="answer_of(query, stream, ...) with all its streams, by the names that the log has",
            )
        return query.meaning({source: valid(source, prefix[_name(source)]) for source in sources})

    return answer


def anomalies(log: Log, level: Level, answer: Answer | None = None) -> list[Anomaly]:
    """The visible states that do not keep a level. A log that contradicts itself is refused.

    What was said need not be a stream: who took back what was not there has said something wrong.
    """
    level = _level(level)
    # they are read more than once, and may come from anywhere
    log = Log(
        {name: [*told] for name, told in log.inputs.items()},
        [*log.said],
        [*log.visible],
        {name: [*times] for name, times in log.times.items()},
        [*log.origins],
    )
    for state in log.visible:
        _require_of_log(log, state)
    _require_of_one_clock(log)
    if level in (UPDATE_COMPLETE, INPUT_PREFIX_UPDATE_COMPLETE):
        if len(log.origins) != len(log.said):
            raise PlanError(
                f"nobody can tell from outside whether a state is {level.value}",
                detail=f"of {len(log.said)} elements it is known of {len(log.origins)} from where",
                hint="give the log origins; or ask for INPUT_PREFIX_CONSISTENT",
            )
        find = _torn if level is UPDATE_COMPLETE else _out_of_order
        return [Anomaly(state, why) for state in log.visible if (why := find(log, state))]
    if level not in (INPUT_PREFIX_CONSISTENT, SYNCHRONIZED_INPUT_PREFIX_CONSISTENT):
        return []
    arrived = {name: len(times) for name, times in log.times.items()}
    entered = {name: len(told) for name, told in log.inputs.items()}
    if level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT and arrived != entered:
        raise PlanError(
            "whether inputs are at one time is not known",
            detail=f"elements that entered: {entered}; of which it is said when they arrived: {arrived}",
            hint="give the log times",
        )
    if answer is None:
        raise PlanError(f"whether a state is {level.value} is found by recomputation", hint="answer=")
    found = []
    known: dict[tuple[int, ...], History] = {}
    for state in log.visible:
        why = _unanswered(log, state, level, answer, known)
        if why:
            found.append(Anomaly(state, why))
    return found


def _level(level: object) -> Level:
    """A level, or the word for it: of anything else every state would be right."""
    try:
        return Level(level)
    except ValueError:
        raise PlanError(
            f"{level!r} is not a level of consistency",
            detail=f"levels: {', '.join(repr(each.value) for each in Level)}",
            hint="sw.INPUT_PREFIX_CONSISTENT",
        ) from None


def _is_number_to(number: object, last: int) -> bool:
    if not isinstance(number, SupportsIndex) or isinstance(number, bool):
        return False
    return 0 <= index(number) <= last


def _require_of_log(log: Log, state: State) -> None:
    """Refuse a state of what was never said, or of a prefix that never entered."""
    if not _is_number_to(state.said, len(log.said)):
        raise PlanError(
            f"a state after {state.said!r} elements is not in the log",
            detail=f"it has {len(log.said)}",
            hint="State(said, offsets): how many elements had been said, a whole number",
        )
    lengths = {name: len(told) for name, told in log.inputs.items()}
    offsets = state.offsets
    if offsets is not None and not (
        offsets.keys() == lengths.keys()
        and all(_is_number_to(offsets[name], lengths[name]) for name in lengths)
    ):
        raise PlanError(
            f"no prefix of the inputs has the offsets {dict(offsets)}",
            detail=f"the log has so many elements of each: {lengths}",
            hint="name how much of every input, in elements; or none, and a prefix is looked for",
        )


def _require_of_one_clock(log: Log) -> None:
    """Refuse times that go back: inputs are given in the order of their arrival."""
    for name, times in log.times.items():
        for number, (time, following) in enumerate(pairwise(times), 1):
            if following < time:
                raise PlanError(
                    f"the times of {name!r} in the log go back",
                    detail=f"element {number} arrived at {time}, and the next one at {following}",
                    hint="give inputs in the order of their arrival, with times by one clock",
                )


def _torn(log: Log, state: State) -> str:
    """Definition 1: nothing comes later from an arrival from which something is there."""
    later = {*log.origins[state.said :]}
    for origin in log.origins[: state.said]:
        if origin in later:
            return f"more follows from arrival {origin[1]} of {origin[0]}"
    return ""


def _out_of_order(log: Log, state: State) -> str:
    """Definition 2: there is, for each input, an arrival up to which all is there, and nothing else."""
    latest: dict[str, int] = {}
    for name, number in log.origins[: state.said]:
        latest[name] = max(number, latest.get(name, number))
    for name, number in log.origins[state.said :]:
        if name in latest and number <= latest[name]:
            return f"something of arrival {latest[name]} of {name} is there, and not all of {number}"
    return ""


def _unanswered(
    log: Log, state: State, level: Level, answer: Answer, known: dict[tuple[int, ...], History]
) -> str:
    """Definitions 3 and 4: it is the answer to a prefix of every input, perhaps at one time."""
    schema = answer({n: [] for n in log.inputs}).schema
    try:
        history = History.of(log.said[: state.said], schema)
    except InvalidStream as failure:
        return f"it is not the answer to anything: {failure.fact}"
    names = list(log.inputs)
    if state.offsets is not None:
        offsets = [state.offsets[name] for name in names]
        if level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT and not _at_one_time(log, names, offsets):
            return f"inputs are not at one time at {dict(state.offsets)}"
        tries: Iterator[tuple[int, ...]] = iter([tuple(offsets)])
    else:
        tries = _prefixes(log, names, level)
    for each in tries:
        if each not in known:
            prefix = {n: log.inputs[n][:count] for n, count in zip(names, each, strict=True)}
            known[each] = answer(prefix)
        if known[each] == history:
            return ""
    claimed = "any prefix" if state.offsets is None else f"the prefix {dict(state.offsets)}"
    return f"it is not the answer to {claimed}: {history.rows()}"


def _prefixes(log: Log, names: Sequence[str], level: Level) -> Iterator[tuple[int, ...]]:
    """All of them, or those at one time."""
    if level is SYNCHRONIZED_INPUT_PREFIX_CONSISTENT:
        yield (0,) * len(names)
        for time in sorted({t for name in names for t in log.times[name]}):
            yield tuple(sum(t <= time for t in log.times[name]) for name in names)
        return
    count = 1
    for name in names:
        count *= len(log.inputs[name]) + 1
    if count > MANY:
        raise PlanError(
            "a prefix is looked for in small logs only",
            detail=f"there are {count} of them",
            hint="let the states name their offsets",
        )
    yield from product(*(range(len(log.inputs[name]) + 1) for name in names))


def _at_one_time(log: Log, names: Sequence[str], offsets: Sequence[int]) -> bool:
    """Whether there is a time by which exactly so much of every input had arrived."""
    places = [(log.times[name], offset) for name, offset in zip(names, offsets, strict=True)]
    arrived = [times[offset - 1] for times, offset in places if offset]
    waiting = [times[offset] for times, offset in places if offset < len(times)]
    return not arrived or not waiting or max(arrived) < min(waiting)
