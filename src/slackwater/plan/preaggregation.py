"""Preaggregation: an aggregate of all rows, taken first by each bucket and then of what these have.

An aggregate without keys runs in one place, and every row would have to go there. Where it can be taken
of parts, each bucket aggregates what it has, and one of them aggregates these results:

    aggregate(n=count())   =   aggregate(n=sum(n)) . aggregate(n=count()), per bucket

The endpoints of the parts are together those of the whole: an event that begins or ends is alive on one
side of that time, so there is a row of its part that begins or ends there. Hence the snapshots are the
same ones, and so is every row and every promise.

What can be taken of parts, to the last bit: count, min, max, sum and avg of integers and of decimals of
up to 20 digits. Sums of parts are kept in a type that holds them even where the whole does not need it.
Not floats, whose sums are exact and rounded once; not what depends on starts (first, last) or on all
values at once. One aggregation that cannot be, and the aggregate stays as it is.

Only where it pays: where rows begin and end at multiples of some step, as in windows, each bucket has
few snapshots of many rows. Elsewhere it has as many as rows, and nothing would be saved. Only EAGER:
the other latencies wait for endpoints, and a part has fewer of them than the whole. And not behind a
Finalize with a memory, which goes by the starts that it sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.plan import aggregations as agg
from slackwater.plan import nodes as n
from slackwater.plan.expressions import type_of
from slackwater.plan.lifetimes import Floor, Term
from slackwater.plan.properties import output_latencies
from slackwater.times import INF

__all__ = ["is_rounded", "preaggregated"]

_WIDE = pl.Decimal(38, 0)
_MOST_DIGITS = 20
"""so that 38 are enough for a sum of 10^18 numbers"""
_NARROW = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)
_SIZE = "\0size of "


def preaggregated(root: n.Node) -> n.Node:
    """The plan with aggregates of all rows in two steps, where that is the same and pays."""
    order = list(n.walk(root))
    if not any(isinstance(node, n.Aggregate) and not node.keys for node in order):
        return root
    latencies = output_latencies(root)
    coarse: dict[n.Node, bool] = {}
    spread: dict[n.Node, bool] = {}
    built: dict[n.Node, n.Node] = {}
    for node in order:
        coarse[node] = _is_coarse(node, [coarse[child] for child in node.inputs])
        spread[node] = _is_spread(node, [spread[child] for child in node.inputs])
        new = n.over(node, [built[child] for child in node.inputs])
        if isinstance(new, n.Aggregate) and not new.keys and latencies[node] is OutputLatency.EAGER:
            pays = coarse[node] and all(spread[child] for child in node.inputs)
            new = _in_two_steps(new) if pays else new
        built[node] = new
    return built[root]


def _is_coarse(node: n.Node, below: list[bool]) -> bool:
    """Whether rows begin and end at multiples of some step only."""
    match node:
        case n.AlterLifetime():
            return is_rounded(node.lifetime.start) and is_rounded(node.lifetime.end)
        case n.Source() | n.Deletes() | n.PointAtEnd() | n.Chop() | n.Session() | n.ClipBy():
            return False
        case _:
            # their rows begin and end where those do that they read
            return bool(below) and all(below)


def is_rounded(term: Term) -> bool:
    """Whether it is always a multiple of some step."""
    return all(isinstance(atom, Floor) for part in term.sums() for atom, _ in part.atoms)


def _is_spread(node: n.Node, below: list[bool]) -> bool:
    """Whether its rows are in several buckets, and its promises do not depend on how many there are."""
    match node:
        case n.Source() | n.Distinct() | n.Intersect() | n.Difference():
            return True
        case n.Aggregate() | n.Rank() | n.Session() | n.Match() | n.Automaton():
            return bool(node.keys)
        case n.Join() if node.broadcast is not None:
            return below[("right", "left").index(node.broadcast)]
        case n.ClipBy() | n.Join():
            return bool(node.on)
        case n.Sort() | n.Punctuate():
            return False
        case n.Finalize():
            return node.memory == INF and all(below)
        case _:
            return bool(below) and all(below)


class _Steps(NamedTuple):
    """What each bucket computes for an aggregation, and what is made of it."""

    parts: Mapping[str, agg.Aggregation]
    whole: agg.Aggregation


def _in_two_steps(node: n.Aggregate) -> n.Aggregate:
    """The same in two steps; the node itself if it cannot be taken of parts."""
    steps: dict[str, _Steps] = {}
    for name, aggregation in node.aggregations.items():
        found = _steps(name, aggregation, node.input.schema)
        if found is None:
            return node
        steps[name] = found
    parts = {part: each for found in steps.values() for part, each in found.parts.items()}
    per_bucket = n.Aggregate(node.input, (), parts, per_bucket=True)
    whole = n.Aggregate(per_bucket, (), {name: found.whole for name, found in steps.items()})
    assert whole.schema == node.schema, "it gives the same columns"
    return whole


def _steps(name: str, aggregation: agg.Aggregation, schema: pl.Schema) -> _Steps | None:
    part, where = pl.col(name), aggregation.where
    match aggregation:
        case agg.Count():
            return _Steps({name: aggregation}, agg.Sum(values=(part,)))
        case agg.Min() | agg.Max():
            [value] = aggregation.values
            # categories are ordered as their process has come to know them
            if isinstance(type_of(value, schema, name), pl.Categorical):
                return None
            return _Steps({name: aggregation}, type(aggregation)(values=(part,)))
        case agg.Sum() | agg.Avg():
            [value] = aggregation.values
            dtype = type_of(value, schema, name)
            if isinstance(dtype, pl.Decimal):
                if dtype.precision > _MOST_DIGITS:
                    return None
                total = part
            elif dtype in _NARROW:
                total = part
            elif dtype in (pl.Int64, pl.UInt64):
                value, total = value.cast(_WIDE), part.cast(pl.Int128)
            else:
                return None
            parts: dict[str, agg.Aggregation] = {name: agg.Sum(values=(value,), where=where)}
            if isinstance(aggregation, agg.Sum):
                return _Steps(parts, agg.Sum(values=(total,)))
            size = f"{_SIZE}{name}"
            parts[size] = agg.Count(values=(value,), where=where)
            mean = agg.GroupFunction(values=(part, pl.col(size)), dtype=pl.Float64(), function=_mean)
            return _Steps(parts, mean)
        case _:
            return None


def _mean(totals: list[Any], sizes: list[int]) -> float | None:
    """The mean of all values, from the sums of the parts: exact, and rounded once."""
    size = sum(sizes)
    if not size:
        return None
    return float(sum((Fraction(total) for total in totals if total is not None), Fraction()) / size)
