"""What is known of the output stream of each node, inferred from what sources declare.

A property that is not derived here is not known, which is always safe. The rules are stated for
streams as operators emit them at the output latency that they run at; they are what merges choose their
algorithm by, and what says whether an event that ends at the cti is settled.

Paper 1a Definitions 3, 4 and 6; paper 2 sections III-C and IV-G.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import polars as pl

from slackwater.consistency import OutputLatency
from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.lifetimes import Lifetime, Sum, Symbol
from slackwater.times import INF
from slackwater.validity import StreamProperties

__all__ = ["infer", "infer_at", "is_disordered", "is_tumbling", "output_latencies"]

_SNAPSHOTS = (n.Aggregate, n.Rank, n.Join, n.Distinct, n.Intersect, n.Difference)
"""nodes for which the output latency matters"""


def infer(root: n.Node, latency: OutputLatency = OutputLatency.EAGER) -> dict[n.Node, StreamProperties]:
    """The properties of every node below the root, which is read at that latency."""
    return infer_at(output_latencies(root, latency), root)


def infer_at(
    latencies: Mapping[n.Node, OutputLatency], *roots: n.Node
) -> dict[n.Node, StreamProperties]:
    """The same where it is known at which latency each node runs."""
    found: dict[n.Node, StreamProperties] = {}
    for node in n.walk(*roots):
        below = [found[child] for child in node.inputs]
        if isinstance(node, n.Aggregate):
            found[node] = _aggregate(node, below[0], latencies[node])
            continue
        rule = _RULES.get(type(node))
        found[node] = rule(node, *below) if rule else StreamProperties()
    return found


def output_latencies(
    root: n.Node, latency: OutputLatency = OutputLatency.EAGER
) -> dict[n.Node, OutputLatency]:
    """The output latency of every node: that of the nearest `Latency` above it, else that of the root.

    Nodes that show no snapshots are the same at all of them, and may be read at several.
    """
    order = list(n.walk(root))
    found: dict[n.Node, set[OutputLatency]] = {node: set() for node in order}
    found[root] = {latency}
    # readers before what they read
    for node in reversed(order):
        if len(found[node]) > 1 and isinstance(node, _SNAPSHOTS):
            raise PlanError(
                f"{node.name} is read at two output latencies",
                detail=" and ".join(sorted(latency.value for latency in found[node])),
                hint="put latency() below the place where the stream is shared",
            )
        below = {node.latency} if isinstance(node, n.Latency) else found[node]
        if isinstance(node, n.Fixpoint):
            # what turns must not wait
            below = {OutputLatency.EAGER}
        for child in node.inputs:
            found[child] |= below
    return {
        node: next(iter(latencies)) if len(latencies) == 1 else OutputLatency.EAGER
        for node, latencies in found.items()
    }


def is_disordered(node: n.Node) -> bool:
    """Whether elements come out of a node in any order, among external ctis.

    That is so for a disordered source, and for what gives exactly one element, with the same sync, for
    each that it gets: the count of an external cti stays right there, and nowhere else.
    """
    while isinstance(node, n.Select | n.Consistency | n.Latency):
        node = node.input
    return isinstance(node, n.Source) and node.disordered


def _source(node: n.Source) -> StreamProperties:
    return node.properties


def _same(node: n.Node, below: StreamProperties) -> StreamProperties:
    return below


def _select(node: n.Select, below: StreamProperties) -> StreamProperties:
    """(vs, payload) stays a key if no column is lost."""
    kept = {e.meta.undo_aliases().meta.output_name() for e in node.columns.values() if _plain(e)}
    lossless = kept >= set(node.input.schema)
    return replace(below, vs_payload_key=below.vs_payload_key and lossless)


def _plain(expression: pl.Expr) -> bool:
    return expression.meta.undo_aliases().meta.is_column()


def _alter_lifetime(node: n.AlterLifetime, below: StreamProperties) -> StreamProperties:
    injective = _moves_start_only(node.lifetime)
    # windows end where their start says
    moves_ends = any(part.mentions("ve") for part in node.lifetime.end.sums())
    return StreamProperties(
        ordered=below.ordered and _keeps_order(node.lifetime, below),
        insert_only=below.insert_only,
        strictly_increasing=below.strictly_increasing and injective,
        vs_payload_key=below.vs_payload_key and injective,
        never_lengthens=below.never_lengthens or not moves_ends,
        ties_in_order=below.ordered and below.insert_only and below.ties_in_order,
    )


def _keeps_order(lifetime: Lifetime, below: StreamProperties) -> bool:
    """Ends that follow ve must move exactly as starts follow vs; inserts alone allow later ends.

    With adjusts, `most` is out: an end that ve pulls down to another bound changes there, and not where
    ve is.
    """
    if not isinstance(lifetime.start, Sum):
        return False
    if not below.insert_only and lifetime.end.picks("most"):
        return False
    as_end = lifetime.start.with_ve_for_vs()
    for part in lifetime.end.sums():
        if part.mentions("ve"):
            later = part.constant - as_end.constant
            if part.atoms != as_end.atoms or later < 0 or (later > 0 and not below.insert_only):
                return False
    return True


def _moves_start_only(lifetime: Lifetime) -> bool:
    return isinstance(lifetime.start, Sum) and lifetime.start.atoms == ((Symbol("vs"), 1),)


def _union(node: n.Union, *below: StreamProperties) -> StreamProperties:
    if len(below) == 1:
        return below[0]
    return StreamProperties(
        insert_only=all(p.insert_only for p in below),
        never_lengthens=all(p.never_lengthens for p in below),
    )


def _join(node: n.Join, left: StreamProperties, right: StreamProperties) -> StreamProperties:
    """A pair ends where its first partner does. Where a row is alone, others decide."""
    if node.how != "inner":
        return StreamProperties()
    return StreamProperties(
        insert_only=left.insert_only and right.insert_only,
        never_lengthens=left.never_lengthens and right.never_lengthens,
    )


def _automaton(node: n.Automaton, below: StreamProperties) -> StreamProperties:
    """A way ends where the first of its rows does, as a pair does."""
    return StreamProperties(insert_only=below.insert_only, never_lengthens=below.never_lengthens)


def _set(node: n.Node, *below: StreamProperties) -> StreamProperties:
    """Of a payload one row at a time."""
    return StreamProperties(vs_payload_key=True)


def _comparison(node: n.Intersect | n.Difference, *below: StreamProperties) -> StreamProperties:
    return StreamProperties(vs_payload_key=not node.bag)


def _aggregate(node: n.Aggregate, below: StreamProperties, latency: OutputLatency) -> StreamProperties:
    """Of a group one row at a time; perfect over perfect input, if the order of groups does no harm.

    That is so of a single group, and where all rows live in the same windows, none of which overlap.
    """
    if node.per_bucket:
        return StreamProperties()
    one, tumbling = not node.keys, is_tumbling(node.input)
    perfect = below.perfect and latency is OutputLatency.PERFECTNESS_PRESERVING
    perfect = perfect and (one or tumbling)
    return StreamProperties(
        ordered=perfect,
        insert_only=perfect,
        strictly_increasing=perfect and one,
        vs_payload_key=True,
        # rows are windows, and come and go as such
        never_lengthens=tumbling and latency is OutputLatency.EAGER,
    )


def is_tumbling(node: n.Node) -> bool:
    """Whether all rows of a node live in the same windows, none of which overlap."""
    while isinstance(node, n.Where | n.Select | n.Consistency | n.Latency):
        node = node.input
    return isinstance(node, n.AlterLifetime) and node.lifetime.is_tumbling


def _merge(node: n.Merge, *below: StreamProperties) -> StreamProperties:
    """What holds for all inputs; by R0 to R2, for perfect ones, each row is told once, in order.

    Of inputs with gaps each may lack other rows, so equal starts come in an order that is theirs.
    """
    perfect = all(each.perfect for each in below) and node.algorithm not in ("R3", "R3-", "R4")
    key = all(each.vs_payload_key for each in below)
    strictly = all(each.strictly_increasing for each in below)
    ties = all(each.ties_in_order for each in below) and (strictly or not node.policy.gaps)
    in_order = perfect and (key or ties)
    return StreamProperties(
        ordered=in_order,
        insert_only=in_order,
        strictly_increasing=in_order and strictly,
        vs_payload_key=key,
        ties_in_order=in_order and ties,
    )


def _session(node: n.Session, below: StreamProperties) -> StreamProperties:
    """Starts and payloads are kept, one row for each."""
    return StreamProperties(vs_payload_key=below.vs_payload_key)


def _clip_by(node: n.ClipBy, below: StreamProperties, other: StreamProperties) -> StreamProperties:
    """Rows come and go as they do in the input; starts that never go never give an end back."""
    return StreamProperties(
        strictly_increasing=below.strictly_increasing,
        vs_payload_key=below.vs_payload_key,
        never_lengthens=below.never_lengthens and other.insert_only,
    )


def _cleanse(node: n.Cleanse, below: StreamProperties) -> StreamProperties:
    return _perfect(below, node.in_order)


def _perfect(below: StreamProperties, in_order: bool) -> StreamProperties:
    """Rows leave in the order of their starts, or each when its end is known."""
    starts = below.strictly_increasing and in_order
    return replace(
        below,
        ordered=in_order,
        insert_only=True,
        never_lengthens=True,
        strictly_increasing=starts,
        ties_in_order=below.perfect and below.ties_in_order,
    )


def _align(node: n.Align, below: StreamProperties) -> StreamProperties:
    """In sync order from cti to cti if it waits for it; else perfect input at least stays so."""
    if node.perfect:
        return _perfect(below, node.in_order)
    waits = node.blocking == INF and not node.turnable
    return replace(below, ordered=waits or below.perfect)


def _sort(node: n.Sort, below: StreamProperties) -> StreamProperties:
    return replace(below, ordered=False, strictly_increasing=False, ties_in_order=False)


def _finalize(node: n.Finalize, below: StreamProperties) -> StreamProperties:
    """Its own promises come behind the rows that caused them."""
    never_promises = node.memory == INF and not node.turnable
    return replace(below, ordered=below.ordered and never_promises)


def _punctuate(node: n.Punctuate, below: StreamProperties) -> StreamProperties:
    """The same of these."""
    return replace(below, ordered=below.ordered and node.lateness == INF)


def _consistency(node: n.Consistency, below: StreamProperties) -> StreamProperties:
    """As the Finalize that it may stand for; the Align below it does no harm."""
    return replace(below, ordered=below.ordered and node.dial.memory == INF)


_RULES: dict[type[n.Node], Callable[..., StreamProperties]] = {
    n.Source: _source,
    n.Where: _same,
    n.Consistency: _consistency,
    n.Latency: _same,
    n.Select: _select,
    n.AlterLifetime: _alter_lifetime,
    n.ClipBy: _clip_by,
    n.Session: _session,
    n.Union: _union,
    n.Join: _join,
    n.Automaton: _automaton,
    n.Distinct: _set,
    n.Intersect: _comparison,
    n.Difference: _comparison,
    n.Merge: _merge,
    n.Cleanse: _cleanse,
    n.Align: _align,
    n.Sort: _sort,
    n.Finalize: _finalize,
    n.Punctuate: _punctuate,
}
