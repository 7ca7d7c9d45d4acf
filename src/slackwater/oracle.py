"""The meaning of every node: a function from histories to histories.

Slow and obvious on purpose. There is no arrival order here, no batch, no state and no operator code:
just the rows of a history and loops over them. Everything else in Slackwater is judged against this
file, so it is written to be read in one sitting. Definitions stand in the order of the grammar in
plan/nodes.py; `meaning` at the end ties them together.

Papers 1a (3.1), 1b (2, Definitions 3 to 6), 3 (2), 4 (Table 2); errata 8, 25 and 26.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import polars as pl

from slackwater.errors import OperatorError, PlanError
from slackwater.events import Event
from slackwater.history import History
from slackwater.identity import identity, place
from slackwater.payloads import Payload
from slackwater.plan import aggregations as agg
from slackwater.plan import nodes as n
from slackwater.plan.evaluation import evaluate
from slackwater.plan.matching import PAST_LAST_ROW, Choice, Pattern, Reference, Repeat, Symbol
from slackwater.plan.matching import Sequence as InOrder
from slackwater.times import INF, plus

__all__ = ["meaning"]

Lifetimes = list[tuple[int, int]]
T = TypeVar("T")


class Read(NamedTuple):
    """An event, and what one or more aggregations read of it: values and filter, by their names."""

    event: Event
    values: Mapping[str, Sequence[Any]]
    passes: Mapping[str, bool]


FIXPOINT_ROUNDS = 1_000
MICROSECOND = timedelta(microseconds=1)


# One row at a time


def where(node: n.Where, rows: History) -> History:
    """The rows that satisfy the predicate (null is not true)."""
    return History(rows.frame.filter(evaluate(node.predicate, rows.frame, "where")))


def select(node: n.Select, rows: History) -> History:
    """Payload mapped, lifetime kept."""
    mapped = [
        evaluate(expression, rows.frame, f"select {name}").alias(name)
        for name, expression in node.columns.items()
    ]
    return History(rows.frame.select(*mapped, "vs", "ve"))


def alter_lifetime(node: n.AlterLifetime, rows: History) -> History:
    """[start(vs), end(vs, ve)), if not empty."""
    starts = node.lifetime.starts(rows.vs)
    ends = node.lifetime.ends(rows.vs, rows.ve)
    altered = rows.frame.with_columns(pl.Series("vs", starts), pl.Series("ve", ends))
    return History(altered.filter(pl.col("vs") < pl.col("ve")))


def deletes(node: n.Deletes, rows: History) -> History:
    """[ve, INF) of every row that ends."""
    events = [Event(e.ve, INF, e.payload) for e in rows.events() if e.ve < INF]
    return History.from_events(events, node.schema)


def point_at_end(node: n.PointAtEnd, rows: History) -> History:
    """[ve, ve + 1) of every row that ends."""
    events = [Event(e.ve, plus(e.ve, 1), e.payload) for e in rows.events() if e.ve < INF]
    return History.from_events(events, node.schema)


def chop(node: n.Chop, rows: History) -> History:
    """Every row in pieces, cut at the multiples of the period."""
    pieces = []
    for event in rows.events():
        if event.ve == INF:
            raise OperatorError(
                "chop: a row without end has infinitely many pieces",
                detail=f"{event}",
                hint="clip() it first",
            )
        start = event.vs
        while start < event.ve:
            end = min(start - start % node.period + node.period, event.ve)
            pieces.append(Event(start, end, event.payload))
            start = end
    return History.from_events(pieces, node.schema)


# Rows that look at other rows' lifetimes


def clip_by(node: n.ClipBy, rows: History, other: History) -> History:
    """Every row ends at the first start in other, with equal keys, strictly after its own start."""
    clipped, keys = [], {key: key for key in node.on}
    for event in rows.events():
        later = [
            o.vs
            for o in other.events()
            if o.vs > event.vs and _keys_match(event.payload, o.payload, keys, node.nulls_match)
        ]
        clipped.append(event._replace(ve=min([event.ve, *later])))
    return History.from_events(clipped, node.schema)


def session(node: n.Session, rows: History) -> History:
    """[vs, last vs of its session + gap); a session goes on while starts are closer than gap."""
    result = []
    for group in _groups(rows.events(), node.keys, payload=lambda event: event.payload).values():
        members = sorted(group, key=lambda event: event.vs)
        for i, event in enumerate(members):
            last = event.vs
            for later in members[i + 1 :]:
                if later.vs - last >= node.gap:
                    break
                last = later.vs
            result.append(event._replace(ve=plus(last, node.gap)))
    return History.from_events(result, node.schema)


# Several streams


def union(node: n.Union, *streams: History) -> History:
    """All rows of all streams, as a bag."""
    return History(pl.concat([stream.frame for stream in streams]))


def join(node: n.Join, left: History, right: History) -> History:
    """Matching pairs while both live; with left, full and anti also the unmatched parts of rows."""
    left_events, right_events = left.events(), right.events()
    pairs = _matching_pairs(node, left_events, right_events)
    result = []
    if node.how != "anti":
        for l_event, r_event in pairs:
            vs, ve = max(l_event.vs, r_event.vs), min(l_event.ve, r_event.ve)
            result.append(Event(vs, ve, _paired(node, l_event.payload, r_event.payload)))
    if node.how in ("left", "full", "anti"):
        nothing = dict.fromkeys(node.right_names.values()) if node.how != "anti" else {}
        for event in left_events:
            matches = [(r.vs, r.ve) for l_event, r in pairs if l_event is event]
            result += [Event(*gap, {**event.payload, **nothing}) for gap in _gaps(event, matches)]
    if node.how == "full":
        for event in right_events:
            matches = [(l_event.vs, l_event.ve) for l_event, r in pairs if r is event]
            alone = _paired(node, dict.fromkeys(left.schema), event.payload)
            alone |= {l_key: event.payload[r_key] for l_key, r_key in node.on.items()}
            result += [Event(*gap, alone) for gap in _gaps(event, matches)]
    return History.from_events(result, node.schema)


def _matching_pairs(
    node: n.Join, left: Sequence[Event], right: Sequence[Event]
) -> list[tuple[Event, Event]]:
    """Pairs that are alive together, have equal keys (null equals nothing) and satisfy `where`."""
    pairs = [
        (l_event, r_event)
        for l_event in left
        for r_event in right
        if max(l_event.vs, r_event.vs) < min(l_event.ve, r_event.ve)
        and _keys_match(l_event.payload, r_event.payload, node.on, node.nulls_match)
    ]
    if node.where is None:
        return pairs
    payloads = (_paired(node, l_event.payload, r_event.payload) for l_event, r_event in pairs)
    joined = History.from_events([Event(0, 1, p) for p in payloads], node.pair_schema)
    satisfied = evaluate(node.where, joined.frame, "join where").to_list()
    return [pair for pair, true in zip(pairs, satisfied, strict=True) if true]


def _keys_match(
    left: Payload, right: Payload, on: Mapping[str, str], nulls_match: Collection[str]
) -> bool:
    return all(
        (left[l_key] is not None or l_key in nulls_match)
        and identity(left[l_key]) == identity(right[r_key])
        for l_key, r_key in on.items()
    )


def _paired(node: n.Join, left: Payload, right: Payload) -> dict[str, Any]:
    return {**left, **{called: right[name] for name, called in node.right_names.items()}}


def _gaps(event: Event, covered: Lifetimes) -> Lifetimes:
    """The maximal parts of the event's lifetime that no covering lifetime touches."""
    gaps, at = [], event.vs
    for vs, ve in sorted(covered):
        if vs > at:
            gaps.append((at, min(vs, event.ve)))
        at = max(at, ve)
    if at < event.ve:
        gaps.append((at, event.ve))
    return [(vs, ve) for vs, ve in gaps if vs < ve]


# At every instant: sets and bags


def distinct(node: n.Distinct, rows: History) -> History:
    """Every payload once."""
    return _by_multiplicity(node, [rows], lambda copies: min(copies, 1))


def intersect(node: n.Intersect, left: History, right: History) -> History:
    """Payloads that both have; as bags, as often as both have them."""

    def count(in_left: int, in_right: int) -> int:
        both = min(in_left, in_right)
        return both if node.bag else min(both, 1)

    return _by_multiplicity(node, [left, right], count)


def difference(node: n.Difference, left: History, right: History) -> History:
    """Payloads that left has and right lacks; as bags, as often as left has more."""

    def count(in_left: int, in_right: int) -> int:
        if node.bag:
            return max(in_left - in_right, 0)
        return 1 if in_left and not in_right else 0

    return _by_multiplicity(node, [left, right], count)


def _by_multiplicity(node: n.Node, inputs: Sequence[History], count: Callable[..., int]) -> History:
    """Copy k of a payload lives where `count` of its multiplicities is at least k, uninterrupted."""
    payloads: dict[Hashable, Payload] = {}
    lifetimes: dict[Hashable, list[Lifetimes]] = {}
    for i, history in enumerate(inputs):
        for event in history.events():
            key = identity(event.payload)
            payloads.setdefault(key, event.payload)
            lifetimes.setdefault(key, [[] for _ in inputs])[i].append((event.vs, event.ve))
    result = []
    for key, by_input in lifetimes.items():
        copies: dict[int, Lifetimes] = {}
        for vs, ve in _snapshots(lifetime for of_input in by_input for lifetime in of_input):
            alive = [sum(s <= vs < e for s, e in of_input) for of_input in by_input]
            for copy in range(count(*alive)):
                lives = copies.setdefault(copy, [])
                if lives and lives[-1][1] == vs:
                    lives[-1] = (lives[-1][0], ve)
                else:
                    lives.append((vs, ve))
        result += [Event(vs, ve, payloads[key]) for lives in copies.values() for vs, ve in lives]
    return History.from_events(result, node.schema)


def _snapshots(lifetimes: Iterable[tuple[int, int]]) -> Lifetimes:
    """The intervals between consecutive endpoints."""
    endpoints = sorted({time for lifetime in lifetimes for time in lifetime})
    return list(pairwise(endpoints))


# Aggregates


def aggregate(node: n.Aggregate, rows: History) -> History:
    """For each group, one row per snapshot of that group in which an event is alive."""
    reads = _reads(rows, node.aggregations)
    result = []
    for group in _groups(reads, node.keys, payload=lambda read: read.event.payload).values():
        keys = {key: group[0].event.payload[key] for key in node.keys}
        for vs, ve in _snapshots((read.event.vs, read.event.ve) for read in group):
            alive = [read for read in group if read.event.vs <= vs < read.event.ve]
            if alive:
                values = {
                    name: _aggregated(name, aggregation, alive, node.schema[name])
                    for name, aggregation in node.aggregations.items()
                }
                result.append(Event(vs, ve, {**keys, **values}))
    return History.from_events(result, node.schema)


def rank(node: n.Rank, rows: History) -> History:
    """For each group and snapshot, every live event with 1 + the number of those before it."""
    reads = _reads(rows, {"by": agg.First(values=(node.rank.by,))})
    result = []
    for group in _groups(reads, node.keys, payload=lambda read: read.event.payload).values():
        for vs, ve in _snapshots((read.event.vs, read.event.ve) for read in group):
            alive = [read for read in group if read.event.vs <= vs < read.event.ve]
            values = [read.values["by"][0] for read in alive]
            for read, own in zip(alive, values, strict=True):
                place = None if own is None else 1 + sum(_comes_before(node, v, own) for v in values)
                result.append(Event(vs, ve, {**read.event.payload, node.column: place}))
    return History.from_events(result, node.schema)


def _comes_before(node: n.Rank, value: Any, own: Any) -> bool:
    if value is None:
        return False
    return place(value) > place(own) if node.rank.descending else place(value) < place(own)


def _reads(rows: History, aggregations: Mapping[str, agg.Aggregation]) -> list[Read]:
    """The events in order of (vs, ve, payload), with what the aggregations read of each."""
    ordered = rows.sorted()

    def column(name: str, expression: pl.Expr) -> list[Any]:
        return evaluate(expression, ordered.frame, f"aggregate {name}").to_list()

    values = {name: [column(name, v) for v in a.values] for name, a in aggregations.items()}
    passes = {name: column(name, a.where) for name, a in aggregations.items() if a.where is not None}
    return [
        Read(
            event,
            {name: [of_one[i] for of_one in columns] for name, columns in values.items()},
            {name: bool(mask[i]) for name, mask in passes.items()},
        )
        for i, event in enumerate(ordered.events())
    ]


def _aggregated(
    name: str, aggregation: agg.Aggregation, alive: Sequence[Read], dtype: pl.DataType
) -> Any:
    """The value of one aggregation over the events that are alive."""
    passing = [each for each in alive if each.passes.get(name, True)]
    if isinstance(aggregation, agg.First | agg.Last | agg.GroupFunction):
        passing.sort(key=lambda each: (each.event.vs, place(each.values[name])))
    read = [each.values[name] for each in passing]
    if isinstance(aggregation, agg.Count) and not aggregation.values:
        return len(read)
    if isinstance(aggregation, agg.GroupFunction):
        return aggregation.function(*map(list, zip(*read, strict=True))) if read else None
    values = [value for [value] in read]
    if isinstance(aggregation, agg.First | agg.Last):
        return None if not values else values[0 if isinstance(aggregation, agg.First) else -1]
    values = [value for value in values if value is not None]
    if isinstance(aggregation, agg.Count):
        return len(values)
    if isinstance(aggregation, agg.CountDistinct):
        return len({identity(value) for value in values})
    if not values:
        return None
    if isinstance(aggregation, agg.Fold):
        return aggregation.result(reduce(aggregation.add, values, aggregation.init()))
    if isinstance(aggregation, agg.Min):
        return min(values, key=place)
    if isinstance(aggregation, agg.Max):
        return max(values, key=place)
    if isinstance(aggregation, agg.TopK):
        return sorted(values, key=place, reverse=True)[: aggregation.k]
    return _number(aggregation, values, dtype)


def _number(aggregation: agg.Aggregation, values: list[Any], dtype: pl.DataType) -> Any:
    """Exact arithmetic, rounded once: the same bag of values always gives the same bits."""
    if isinstance(aggregation, agg.Percentile):
        return _percentile(sorted(values, key=place), aggregation.fraction, dtype)
    if isinstance(aggregation, agg.Var | agg.Stddev) and len(values) < 2:
        return None
    special = _not_finite(aggregation, values)
    if special is not None:
        return special
    exact = [_exact(value) for value in values]
    size = len(exact)
    if isinstance(aggregation, agg.Sum):
        return _rounded(sum(exact, start=Fraction()), dtype)
    if isinstance(aggregation, agg.Product):
        return _rounded(math.prod(exact, start=Fraction(1)), dtype)
    if isinstance(aggregation, agg.Avg):
        return _rounded(sum(exact, start=Fraction()) / size, dtype)
    assert isinstance(aggregation, agg.Var | agg.Stddev), aggregation
    mean = sum(exact, start=Fraction()) / size
    squares = sum(((x - mean) ** 2 for x in exact), start=Fraction())
    variance = _rounded(squares / (size - 1), dtype)
    return math.sqrt(variance) if isinstance(aggregation, agg.Stddev) else variance


def _percentile(ordered: list[Any], fraction: float, dtype: pl.DataType) -> Any:
    """The value that far along the way from the first to the last; linear between neighbours."""
    # as it was written: 0.6 of five steps are three, which the float next to 0.6 would just miss
    steps = Fraction(str(fraction)) * (len(ordered) - 1)
    low = int(steps)
    if steps == low:
        return float(ordered[low])
    below, above, part = ordered[low], ordered[low + 1], steps - low
    if math.isfinite(below) and math.isfinite(above):
        return _rounded(_exact(below) * (1 - part) + _exact(above) * part, dtype)
    return float(below) * float(1 - part) + float(above) * float(part)


def _not_finite(aggregation: agg.Aggregation, values: list[Any]) -> float | None:
    """What NaN and the infinities make of a result; None if all values are finite."""
    odd = [v for v in values if isinstance(v, float) and not math.isfinite(v)]
    if not odd:
        return None
    if any(math.isnan(v) for v in odd) or isinstance(aggregation, agg.Var | agg.Stddev):
        return math.nan
    if isinstance(aggregation, agg.Product):
        if any(v == 0 for v in values):
            return math.nan
        return math.copysign(math.inf, math.prod(math.copysign(1.0, v) for v in values))
    return odd[0] if len(set(odd)) == 1 else math.nan


def _exact(value: Any) -> Fraction:
    """A number without rounding; a duration in microseconds."""
    return Fraction(value // MICROSECOND if isinstance(value, timedelta) else value)


def _rounded(value: Fraction, dtype: pl.DataType) -> Any:
    if isinstance(dtype, pl.Decimal):
        scaled = value * 10**dtype.scale
        assert scaled == int(scaled), "a sum of decimals keeps their scale"
        _require_room(abs(scaled) < 10**dtype.precision, value, f"{dtype.precision} digits")
        return _decimal(int(scaled), dtype.scale)
    if dtype.is_integer() or isinstance(dtype, pl.Duration):
        _require_room(-(2**63) <= value < 2**63, value, "64 bits")
        return timedelta(microseconds=int(value)) if isinstance(dtype, pl.Duration) else int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _require_room(fits: bool, value: Fraction, room: str) -> None:
    if not fits:
        raise OperatorError(
            f"aggregate: the result does not fit {room}",
            detail=f"it is {int(value)}",
            hint="cast the column to pl.Decimal(38, 0), whose sums are exact, or to a float",
        )


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal(unscaled).scaleb(-scale, Context(prec=60))


def _groups(
    items: Iterable[T], keys: Sequence[str], payload: Callable[[T], Payload]
) -> dict[Hashable, list[T]]:
    """Items by the values of their keys; null is a value like any other."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        key = identity([payload(item)[name] for name in keys])
        groups.setdefault(key, []).append(item)
    return groups


# Patterns in rows


def match(node: n.Match, rows: History) -> History:
    """For each group, its matches: alive from the start of their last row on, while all rows live.

    The rows of a group are in order of (vs, payload). A symbol takes the next row, if that begins
    while all rows taken before are alive, and satisfies the symbol's condition; what the condition says
    of rows that were taken counts this one. A sequence is matched part by part; a choice by the first
    way that matches; a repeated part as often as it matches. Nothing that was taken is given back: if
    what follows does not match then, nothing matches from that row on.

    The first match is that of the first row from which there is one. The next may begin behind its last
    row, or behind its first. So A+ C with `sum(A.price) < 30` as the condition of A finds in the prices
    7, 9, 10, 5, 10, 7, 14: A takes 7, 9, 10 (26 with the third, 31 with the fourth), C the 5 behind
    them. From the sixth row on A takes 7 and 14 (21), C finds no row, and A keeps its two: no match.
    """
    found, ordered = [], rows.frame.sort("vs", *rows.schema, "ve", nulls_last=False)
    events = History(ordered).events()
    for group in _groups(events, node.keys, payload=lambda event: event.payload).values():
        start = 0
        while start < len(group):
            taken = _taken(node, node.pattern, group[start:], [])
            if taken:
                found.append(_match_of(node, taken))
            past_last = taken and node.after is PAST_LAST_ROW
            start += len(taken) if taken and past_last else 1
    return History.from_events(found, node.schema)


Taken = list[tuple[str, Event]]
"""the rows of a match so far, each with the symbol that took it"""


def _taken(node: n.Match, part: Pattern, rows: Sequence[Event], taken: Taken) -> Taken | None:
    """What is taken when the part has matched behind what was; None if it does not match."""
    match part:
        case Symbol(name):
            if len(taken) == len(rows):
                return None
            event = rows[len(taken)]
            together = all(event.vs < other.ve for _, other in taken)
            more = [*taken, (name, event)]
            return more if together and _is_taken(node, more) else None
        case InOrder(parts):
            so_far: Taken | None = taken
            for each in parts:
                so_far = None if so_far is None else _taken(node, each, rows, so_far)
            return so_far
        case Choice(ways):
            ends = (_taken(node, way, rows, taken) for way in ways)
            return next((end for end in ends if end is not None), None)
        case Repeat(inner, least, once):
            times = 0
            while not (once and times):
                longer = _taken(node, inner, rows, taken)
                if longer is None:
                    break
                taken, times = longer, times + 1
            return taken if times >= least else None


def _is_taken(node: n.Match, taken: Taken) -> bool:
    """Whether the last row satisfies the condition of the symbol that wants it."""
    symbol, event = taken[-1]
    if symbol not in node.where:
        return True
    row = {**event.payload, **_said_of(node, taken)}
    frame = History.from_events([Event(0, 1, row)], node.test_schema).frame
    return evaluate(node.where[symbol], frame, f"match where {symbol}").to_list() == [True]


def _match_of(node: n.Match, taken: Taken) -> Event:
    """A match as a row: the keys, and what is asked of it."""
    events = [event for _, event in taken]
    row = {**events[-1].payload, **_said_of(node, taken)}
    frame = History.from_events([Event(0, 1, row)], node.test_schema).frame
    measures = {
        name: evaluate(expression, frame, f"match {name}").to_list()[0]
        for name, expression in node.measures.items()
    }
    keys = {key: events[0].payload[key] for key in node.keys}
    return Event(events[-1].vs, min(event.ve for event in events), {**keys, **measures})


def _said_of(node: n.Match, taken: Taken) -> dict[str, Any]:
    """What the references stand for."""
    return {name: _value_of(reference, taken) for name, reference in node.references.items()}


def _value_of(reference: Reference, taken: Taken) -> Any:
    if reference.kind == "previous":
        return taken[-2][1].payload[reference.column or ""] if len(taken) > 1 else None
    rows = [event.payload for symbol, event in taken if reference.counts(symbol)]
    if reference.column is None:
        return len(rows)
    values = [row[reference.column] for row in rows]
    if reference.kind in ("first", "last"):
        return (values[0] if reference.kind == "first" else values[-1]) if values else None
    values = [value for value in values if value is not None]
    if reference.kind == "count":
        return len(values)
    if reference.kind in ("sum", "avg"):
        # one after the other, so that floats have one sum
        total = reduce(lambda so_far, value: so_far + value, values, 0)
        if isinstance(total, int):
            _require_room(-(2**63) <= total < 2**63, Fraction(total), "64 bits")
        if reference.kind == "sum":
            return total
        return float(total) / len(values) if values else None
    if not values:
        return None
    return min(values, key=place) if reference.kind == "min" else max(values, key=place)


def automaton(node: n.Automaton, rows: History) -> History:
    """For each group, the bag of ways: nothing yet, from every row on; and any way, and one step more.

    A step is taken by a row at the place behind the end of a way, with a transition from its state by
    the row's symbol, if all of them live together and the condition is satisfied.
    """
    found, transitions = [], node.table.rows(named=True)
    before, after, by = node.table.columns[:3]
    first = {name: value.item() for name, (value, _) in node.registers.items()}
    for group in _groups(rows.events(), node.keys, payload=lambda event: event.payload).values():
        keys = {key: group[0].payload[key] for key in node.keys}
        ways = []
        for event in group:
            at = event.payload[node.place]
            end = None if at is None else at - 1
            begun = {"begin": at, "end": end, "state": node.start.item(), **first}
            ways.append(event._replace(payload=begun))
        while ways:
            found += [way._replace(payload={**keys, **way.payload}) for way in ways]
            steps = [
                (way, event, transition)
                for way in ways
                for event in group
                for transition in transitions
                if way.payload["end"] is not None
                and event.payload[node.place] == way.payload["end"] + 1
                and _same(transition[before], way.payload["state"])
                and _same(transition[by], event.payload[node.symbol])
                and max(way.vs, event.vs) < min(way.ve, event.ve)
            ]
            ways = _further(node, steps, after)
    return History.from_events(found, node.schema)


Step = tuple[Event, Event, Payload]
"""a way, the row behind it, and a transition"""


def _same(one: Any, other: Any) -> bool:
    """Whether two values are one; null is none."""
    return one is not None and other is not None and identity(one) == identity(other)


def _further(node: n.Automaton, steps: Sequence[Step], after: str) -> list[Event]:
    """The ways that are made of these steps, if they may be taken."""
    read = [
        Event(0, 1, {name: {**event.payload, **move, **way.payload}[name] for name in node.step_schema})
        for way, event, move in steps
    ]
    frame = History.from_events(read, node.step_schema).frame
    values = {
        name: evaluate(update, frame, f"automaton: register {name}").to_list()
        for name, (_, update) in node.registers.items()
    }
    may = [True] * len(steps)
    if node.where is not None:
        may = [true is True for true in evaluate(node.where, frame, "automaton where")]
    return [
        Event(
            max(way.vs, event.vs),
            min(way.ve, event.ve),
            {
                "begin": way.payload["begin"],
                "end": event.payload[node.place],
                "state": move[after],
                **{name: of_all[i] for name, of_all in values.items()},
            },
        )
        for i, (way, event, move) in enumerate(steps)
        if may[i]
    ]


# The same history


def unchanged(node: n.Node, rows: History) -> History:
    """Sort, align, cleanse, punctuate, the dial and the latency do not touch the history.

    Neither does finalize, seen from here: what a finite memory gives up depends on arrival order,
    stands in the ledger, and is subtracted from the input before this file is asked.
    """
    return rows


def merge(node: n.Merge, *streams: History) -> History:
    """The history that all streams have in common; they may not contradict each other."""
    first, *rest = streams
    for i, other in enumerate(rest, start=1):
        if other != first:
            raise OperatorError(
                "merge: the streams do not describe one history",
                detail=f"stream 0 alone: {first.minus(other).rows()[:3]}; "
                f"stream {i} alone: {other.minus(first).rows()[:3]}",
            )
    return first


# Plans within plans


def group_apply(node: n.GroupApply, rows: History) -> History:
    """The subplan for each group by itself, with the group's keys as columns."""
    result = []
    for group in _groups(rows.events(), node.keys, payload=lambda event: event.payload).values():
        keys = {key: group[0].payload[key] for key in node.keys}
        answer = meaning(node.body, {node.argument: History.from_events(group, rows.schema)})
        for event in answer.events():
            rest = {name: value for name, value in event.payload.items() if name not in keys}
            result.append(event._replace(payload={**keys, **rest}))
    return History.from_events(result, node.schema)


def fixpoint(node: n.Fixpoint, known: Mapping[n.Node, History]) -> History:
    """The limit of nothing, body(nothing), body(body(nothing)), ...: one row per derivation."""
    current = History.empty(node.schema)
    for _ in range(FIXPOINT_ROUNDS):
        following = meaning(node.body, {**known, node.argument: current})
        if node.best is not None:
            following = _best(node, node.best, following)
        if following == current:
            return current
        current = following
    raise OperatorError(
        f"fixpoint: no fixed point after {FIXPOINT_ROUNDS} rounds",
        detail=f"{len(current)} rows, for example {current.rows()[:3]}",
        hint="bound the recursion with a where, or use distinct if cycles derive rows again",
    )


def _best(node: n.Fixpoint, best: n.Best, rows: History) -> History:
    """Of every key, by rank, what is better than all of smaller rank; ranks go up by one."""
    result = []
    for group in _groups(rows.events(), best.keys, payload=lambda event: event.payload).values():
        for vs, ve in _snapshots((event.vs, event.ve) for event in group):
            alive = [event.payload for event in group if event.vs <= vs < event.ve]
            values = sorted({place(p[best.value]) for p in alive} if best.value else {()})
            # null is the worst of all; those that are left go up, or down
            known = [value for value in values if value != place(None)]
            order = [*(reversed(known) if best.descending else known), place(None)]
            said: list[int] = []
            for payload in sorted(alive, key=lambda p: p[best.rank]):
                at = order.index(place(payload[best.value])) if best.value else 0
                if all(at < earlier for earlier in said):
                    result.append(Event(vs, ve, {**payload, best.rank: payload[best.rank] + 1}))
                    said.append(at)
    return distinct(n.Distinct(node.argument), History.from_events(result, node.schema))


_DEFINITIONS: dict[type[n.Node], Callable[..., History]] = {
    n.Where: where,
    n.Select: select,
    n.AlterLifetime: alter_lifetime,
    n.Deletes: deletes,
    n.PointAtEnd: point_at_end,
    n.Chop: chop,
    n.ClipBy: clip_by,
    n.Session: session,
    n.Union: union,
    n.Join: join,
    n.Distinct: distinct,
    n.Intersect: intersect,
    n.Difference: difference,
    n.Aggregate: aggregate,
    n.Rank: rank,
    n.GroupApply: group_apply,
    n.Match: match,
    n.Automaton: automaton,
    n.Sort: unchanged,
    n.Align: unchanged,
    n.Cleanse: unchanged,
    n.Finalize: unchanged,
    n.Punctuate: unchanged,
    n.Consistency: unchanged,
    n.Latency: unchanged,
    n.Merge: merge,
}


def meaning(node: n.Node, inputs: Mapping[n.Node, History]) -> History:
    """The history of a node, given the histories of the sources (and arguments) below it."""
    known = dict(inputs)
    waiting = [node]
    while waiting:
        each = waiting[-1]
        missing = [] if isinstance(each, n.Fixpoint) else [i for i in each.inputs if i not in known]
        if each in known:
            waiting.pop()
        elif missing:
            waiting += missing
        elif isinstance(each, n.Source | n.Argument):
            raise PlanError(f"meaning: the stream {each.describe()!r} was given no history")
        elif isinstance(each, n.Fixpoint):
            known[each] = fixpoint(each, inputs)
        else:
            known[each] = _DEFINITIONS[type(each)](each, *(known[i] for i in each.inputs))
    return known[node]
