"""Interest: what an input need not say any more, if nobody wants to hear some of the output.

Feedback is a pattern that goes upstream: whoever reads a stream says that rows with such payloads are
no longer of interest to it. It may be heeded or not, so what cannot be told of an input is not told. Who
heeds it leaves such rows out, and that changes no others: a row of the input may be left out if all that
it has a part in is not of interest.

    rows that are looked at one by one   the same, if the input has the columns
    groups (aggregates, sessions, ranks) what is said of their keys alone: other rows of a group count
    matches, ways through automata       the same
    sets                                 the same, of both sides
    joins, clips                         what is said of keys alone, of both sides: they remember by key

Of times it says: events that end before t are of no interest. That goes up through what looks at one
row at a time, through unions and merges, and to both sides of an inner join, for a pair ends with the
first of its rows; to aggregates only of tumbling windows, for elsewhere the end of one event is where
another row of the result begins. And only of streams that never lengthen an event: else one that has
ended before t may come to end later (`outdated_of`).

It ends where rows tell the time (`takes_time_from_rows`), and where they are counted, or stand for
something else: at Finalize (counts of external ctis) and at Punctuate (that a sensor has reported says
that it is done). And at Fixpoint: what nobody wants to see may still lead to other rows.

Paper 2 section V-D; its reference 8 (feedback punctuation).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from slackwater.consistency import OutputLatency
from slackwater.plan.lifetimes import Lifetime
from slackwater.plan.nodes import (
    Aggregate,
    Align,
    AlterLifetime,
    Automaton,
    ClipBy,
    Difference,
    Distinct,
    Finalize,
    Fixpoint,
    Intersect,
    Join,
    Match,
    Merge,
    Node,
    Punctuate,
    Rank,
    Select,
    Session,
    Union,
    Where,
    walk,
)
from slackwater.plan.properties import infer, infer_at, is_tumbling
from slackwater.promises import Promises
from slackwater.punctuations import Closings, Promise
from slackwater.times import BEGIN, INF

__all__ = ["outdated_below", "outdated_of", "takes_time_from_rows", "unwanted_below", "unwanted_of"]

_LEFT = 0
_FAR = 2**61


def takes_time_from_rows(node: Node, latency: OutputLatency) -> bool:
    """Whether a node holds rows back until others have come that are later."""
    match node:
        case Align():
            # one that can be turned may wait for them later
            return node.turnable or 0 < node.blocking < INF
        case Aggregate() | Rank() | Distinct() | Intersect() | Difference():
            return latency is not OutputLatency.EAGER
        case Join():
            return latency is not OutputLatency.EAGER and node.how != "inner"
        case _:
            return False


def unwanted_of(node: Node, port: int, told: Iterable[Promise]) -> list[Promise]:
    """What the input at a port need not say, if these rows of the node's output are of no interest."""
    match node:
        case Finalize() | Punctuate() | Fixpoint():
            return []
        case Aggregate() | Rank() | Session() | Match() | Automaton():
            return _about(told, node.keys)
        case Select():
            return _renamed(told, _sources_of(node))
        case ClipBy():
            return _about(told, node.on)
        case Join():
            keys = {left: left if port == _LEFT else right for left, right in node.on.items()}
            return _renamed(told, keys)
        case Merge() if _counts_rows(node):
            return []
        case _:
            return [*told]


def _counts_rows(node: Merge) -> bool:
    """Whether a merge may know a row by how many of its start came before it (R1)."""
    known = (infer(node, latency) for latency in OutputLatency)
    in_order = any(all(each[stream].ties_in_order for stream in node.streams) for each in known)
    return node.algorithm == "R1" or in_order


def outdated_of(node: Node, port: int, time: int) -> int | None:
    """Before which time events end that an input need not tell, if those before `time` are unwanted."""
    match node:
        case Where() | Select() | Union() | Merge():
            return time
        case AlterLifetime():
            return _before(node.lifetime, time)
        case Join(how="inner") | Automaton():
            return time
        case Aggregate() if is_tumbling(node.input):
            return time
        case _:
            return None


def _before(lifetime: Lifetime, time: int) -> int | None:
    """The latest time of which it is known that what ends before it ends before `time` afterwards.

    Ends grow with starts and ends, so that the last one before a time has the latest.
    """
    if time == INF:
        return None

    def passes(t: int) -> bool:
        ends = lifetime.ends(np.array([t - 2]), np.array([t - 1]))
        return bool(ends[0] < time)

    low, high, span = time, time, 1
    while not passes(low) or passes(high):
        low, high, span = min(low, time - span), max(high, time + span), 2 * span
        if span > _FAR:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def unwanted_below(
    root: Node, latencies: Mapping[Node, OutputLatency], told: Sequence[Promise]
) -> dict[Node, list[Promise]]:
    """What of every node's output is of no interest, if these rows of the root's are of none."""
    order = list(walk(root))
    by_reader: dict[Node, list[list[Promise]]] = {node: [] for node in order}
    by_reader[root].append([*told])
    found: dict[Node, list[Promise]] = {}
    # readers before what they read
    for node in reversed(order):
        found[node] = _common(by_reader[node], node)
        stops = takes_time_from_rows(node, latencies[node])
        for port, child in enumerate(node.inputs):
            by_reader[child].append([] if stops else unwanted_of(node, port, found[node]))
    return found


def outdated_below(root: Node, latencies: Mapping[Node, OutputLatency], before: int) -> dict[Node, int]:
    """Before which time events end that need not be told of nodes, if those of the root need not."""
    order = list(walk(root))
    known = infer_at(latencies, root)
    by_reader: dict[Node, list[int]] = {node: [] for node in order}
    by_reader[root].append(before)
    found: dict[Node, int] = {}
    for node in reversed(order):
        # who may lengthen an event may bring it back
        time = min(by_reader[node]) if known[node].never_lengthens else BEGIN
        if time > BEGIN:
            found[node] = time
        for port, child in enumerate(node.inputs):
            asked = None
            if time > BEGIN and not takes_time_from_rows(node, latencies[node]):
                asked = outdated_of(node, port, time)
            by_reader[child].append(BEGIN if asked is None else asked)
    return found


def _common(by_reader: Sequence[list[Promise]], node: Node) -> list[Promise]:
    """What none of the readers wants."""
    common, *others = by_reader
    for other in others:
        promises = Promises.of(node.schema)
        promises.add(other)
        common = promises.combined(common)
    return common


def _about(told: Iterable[Promise], columns: Collection[str]) -> list[Promise]:
    return [promise for promise in told if promise.speaks_only_of(columns)]


def _sources_of(node: Select) -> dict[str, str]:
    """The columns of the output that are columns of the input, and how they are called there."""
    plain = {name: expression.meta.undo_aliases() for name, expression in node.columns.items()}
    called = {name: each.meta.output_name() for name, each in plain.items() if each.meta.is_column()}
    # a user's function looks like a column, too
    return {name: below for name, below in called.items() if below in node.input.schema}


def _renamed(told: Iterable[Promise], names: Mapping[str, str]) -> list[Promise]:
    """Those about these columns alone, of which no two are the same one there."""
    return [
        promise.renamed(names)
        for promise in _about(told, names)
        if len({names[name] for name in _columns(promise)}) == len(_columns(promise))
    ]


def _columns(promise: Promise) -> Sequence[str]:
    if isinstance(promise, Closings):
        return promise.keys.columns
    return [name for name, _ in promise.columns]
