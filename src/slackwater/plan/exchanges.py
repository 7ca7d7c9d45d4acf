"""Where a plan is cut so that it can run in many places at once.

Rows are spread over buckets by a hash of some of their columns. A node that looks at several rows says
by which columns those rows must have come together; where its input is spread otherwise, the plan is cut
by an *exchange*. What lies between exchanges is a stage:

    level 0   the sources, wherever their rows come from
    level n   all nodes that n exchanges lie below, at most; one stage runs them all

All nodes of a level run in the same buckets, each with its own way of spreading: bucket b of a stage has
bucket b of every stream in it. So stages form a chain, and whatever two nodes share is computed once. A
stream that skips a level passes through it untouched.

By which columns to spread is chosen so that as few exchanges as possible are needed: rows that are
together by few columns are so by more. Readers say from above what they would like.

- `Where`, `Select`, `AlterLifetime`, `Union` and annotations look at one row: any spread will do.
- `Deletes`, `PointAtEnd`, `Chop`, `Align`, `Finalize`, `Cleanse` look at one event. All elements of an
  event have its payload, hence any spread by columns will do, but not the order of a source.
- `Aggregate`, `Rank`, `Session`, `Match`, `Join`, `ClipBy` need their keys together, `Distinct`,
  `Intersect`, `Difference` and `Merge` equal rows.
- `Finalize` over a disordered source counts all elements of a partition, so it has a place before the
  first exchange: a partition's elements go to one bucket, are mended there each partition by itself
  (`Mending`), and what comes out is a source whose elements are in order.
- What has no keys, and `Sort` and `Punctuate`, which look at the whole stream, run in one bucket; an
  aggregate per bucket (preaggregation.py) takes what is there.
- A join that broadcasts one side needs all of it in every bucket, and the other side anywhere. What is
  only there to be broadcast, sources and what looks at one row or event of them, runs in every bucket
  alike; what needs more runs spread, as elsewhere, and its rows are then sent everywhere.
- A stream that is broadcast to a stage is there: whoever needs it spread in the same stage takes of it,
  in each bucket, the rows that belong there (`Share`).
- All of a loop is in one stage, spread by columns that come round unchanged (carried.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.errors import PlanError
from slackwater.plan import nodes as n
from slackwater.plan.carried import EVERYWHERE, Carried, Columns, by_columns, loops_in, sent_to_loops
from slackwater.plan.loops import in_order
from slackwater.plan.properties import is_disordered
from slackwater.validity import StreamProperties

__all__ = ["EVERYWHERE", "ORIGIN", "Columns", "Cut", "Feed", "Mending", "Share", "Stage", "cut"]

ORIGIN = "\0origin"
"""stands for the partition that an element comes from, which is no column"""

_ONE_ROW = (n.Where, n.Select, n.AlterLifetime, n.Union, n.Consistency, n.Latency)
_ONE_EVENT = (n.Deletes, n.PointAtEnd, n.Chop, n.Align, n.Finalize, n.Cleanse)


@dataclass(frozen=True)
class Feed:
    """A stream that enters a stage through an exchange."""

    node: n.Node
    """a source, or a node of an earlier stage"""
    columns: Columns
    entrance: n.Source
    """stands for it in the stage's plan"""
    source: n.Source | None = None
    """the source that it is, or is made of by mending"""
    spread: Columns | None = None
    """by which columns it comes from the buckets of an earlier stage, if that is known"""

    @property
    def mended(self) -> bool:
        """Whether it is a disordered source in order."""
        return self.source is not None and self.node is not self.source

    @property
    def has_partitions(self) -> bool:
        """Whether the partitions of a source make its progress here."""
        return self.source is not None and self.columns != (ORIGIN,)

    @property
    def broadcast(self) -> bool:
        """Whether every bucket gets all of it."""
        return self.columns == EVERYWHERE

    def describe(self) -> str:
        """For people."""
        if self.columns == (ORIGIN,):
            return f"{self.entrance.stream_name} by partition"
        if self.broadcast:
            return f"{self.entrance.stream_name} broadcast"
        return f"{self.entrance.stream_name} {by_columns(self.columns)}"


@dataclass(frozen=True)
class Share:
    """What a bucket has of a stream that is broadcast, if it were spread by these columns."""

    of: int
    """which of the stage's feeds"""
    columns: Columns
    entrance: n.Source
    """stands for it in the stage's plan"""


@dataclass(frozen=True)
class Mending:
    """What runs for every partition of a disordered source by itself."""

    feed: int
    node: n.Node
    """the Finalize of the original plan"""
    plan: n.Node
    """the same, over the entrance"""


@dataclass(frozen=True)
class Stage:
    """What runs between two exchanges. `exits` are the streams that leave it."""

    feeds: tuple[Feed, ...]
    exits: tuple[n.Node, ...]
    """nodes of the original plan"""
    roots: tuple[n.Node, ...]
    """the same, over the entrances"""
    origins: Mapping[n.Node, n.Node]
    """for each node of the stage's own plan, the one it stands for"""
    mends: tuple[Mending, ...] = ()
    everywhere: frozenset[n.Node] = frozenset()
    """nodes of the stage's own plan that do the same in every bucket"""
    shares: tuple[Share, ...] = ()
    loops: Mapping[n.Node, str] = field(default_factory=dict)
    """by what each loop of the stage's own plan is spread, for people"""

    @property
    def stands_for(self) -> dict[n.Node, n.Node]:
        """For each node and entrance of the stage's own plan, the node of the original one."""
        entrances: dict[n.Node, n.Node] = {feed.entrance: feed.node for feed in self.feeds}
        shares: dict[n.Node, n.Node] = {each.entrance: self.feeds[each.of].node for each in self.shares}
        return {**entrances, **shares, **self.origins}


@dataclass(frozen=True)
class Cut:
    """A plan in stages; the last one has the root."""

    root: n.Node
    stages: tuple[Stage, ...]
    spread: Columns | None = None
    """by which of its columns the answer is spread, if that is known"""

    def describe(self, buckets: int | None = None) -> Iterator[str]:
        """For people: one line per stage, with how many of the buckets have work to do."""
        for number, stage in enumerate(self.stages, 1):
            said = [feed.describe() for feed in stage.feeds]
            for share in stage.shares:
                said[share.of] += f" and {by_columns(share.columns)}"
            feeds = "; ".join(said)
            alone = all(feed.columns == () for feed in stage.feeds)
            at = "" if buckets is None else f", {1 if alone else buckets} of {buckets} buckets"
            yield f"stage {number}{at}: {feeds}"


@dataclass(frozen=True)
class _Need:
    """How a node's inputs must be spread: by some or all of these columns, aligned over the ports."""

    columns: tuple[Columns, ...]
    """per port; of no columns: all in one bucket"""
    broadcast: int | None = None
    """the port of which every bucket needs all; the other may then be spread in any way"""


def cut(root: n.Node) -> Cut:
    """Cut a plan that is ready to run (see rewrites.py) into stages."""
    if isinstance(root, n.Source) or _is_mended(root):
        root = n.Union((root,))
    for node in n.walk(root):
        known = isinstance(node, n.Source | n.Argument | n.Fixpoint) or _is_bystander(node)
        if not known and _need(node) is None:
            raise PlanError(
                f"{node.name} cannot be spread over several places yet",
                hint="query.run(inputs) runs it in this process",
            )
    root = sent_to_loops(root)
    found = _cut(root)
    # a source is judged where it enters; it may enter at one place only
    entered = [feed.node for stage in found.stages for feed in stage.feeds]
    several = {node for node in entered if isinstance(node, n.Source) and entered.count(node) > 1}
    if not several:
        return found
    built: dict[n.Node, n.Node] = {}
    for node in n.walk(root):
        new = n.over(node, [built[child] for child in node.inputs])
        built[node] = n.Union((new,)) if node in several else new
    return _cut(built[root])


@dataclass(frozen=True)
class _Layout:
    """Where every node is, and how its rows get there."""

    order: list[n.Node]
    """inputs before readers; the last one is the root"""
    level: Mapping[n.Node, int]
    exchanged: Mapping[n.Node, list[Columns | None]]
    """by which columns each input of a node is exchanged on the way to it; None: it is there already"""
    everywhere: set[n.Node]
    spread: Mapping[n.Node, Columns | None]
    loops: Mapping[n.Node, Carried]

    def leaves(self, node: n.Node) -> bool:
        """Whether a later stage reads the node."""
        return any(
            child is node and columns is not None
            for reader in self.order
            if self.level[reader] > self.level[node]
            for child, columns in zip(reader.inputs, self.exchanged.get(reader, ()), strict=False)
        )

    def entering(self, number: int) -> Iterator[tuple[n.Node, Columns]]:
        """What is exchanged on its way to a stage."""
        for node in self.order:
            if self.level[node] == number:
                below = zip(node.inputs, self.exchanged.get(node, ()), strict=False)
                yield from ((child, columns) for child, columns in below if columns is not None)


def _cut(root: n.Node) -> Cut:
    loops = loops_in(root)
    order = list(in_order(root, (member for member in loops if isinstance(member, n.Fixpoint))))
    everywhere = _everywhere(order)
    wishes = _wishes(root, order, everywhere, loops)
    spread: dict[n.Node, Columns | None] = {}
    level: dict[n.Node, int] = {}
    # by which columns each loop is spread
    turning: dict[Carried, Columns] = {}
    exchanged: dict[n.Node, list[Columns | None]] = {}
    for node in order:
        if isinstance(node, n.Source):
            level[node], spread[node] = 0, None
            continue
        if _is_mended(node) or is_disordered(node):
            level[node], spread[node] = int(_is_mended(node)), None
            continue
        loop = loops.get(node)
        inputs: Sequence[tuple[n.Node, Columns | None]]
        if isinstance(node, n.Argument):
            assert loop is not None, "it is a loop's"
            spread[node] = turning[loop] = loop.chosen(wishes[node], spread)
            inputs = loop.inputs(turning[loop])
        elif loop is not None:
            inputs = loop.inputs_of(node, turning[loop])
        else:
            inputs = list(zip(node.inputs, _columns_for(node, wishes[node], spread), strict=True))
        # all of a loop is where its argument is
        level[node] = max(
            level[child]
            + (
                level[child] == 0
                or _is_mended(child)
                or (columns is not None and spread[child] != columns)
            )
            for child, columns in inputs
        )
        if isinstance(node, n.Argument):
            continue
        exchanged[node] = [
            None
            if level[child] == level[node]
            else columns
            if columns is not None
            else EVERYWHERE
            if node in everywhere
            else _any_columns(child, wishes[child], spread[child])
            for child, columns in inputs
        ]
        if loop is not None:
            spread[node] = loop.called_by(node, turning[loop])
        else:
            spread[node] = _spread_of(node, exchanged[node], spread)
    return _staged(_Layout(order, level, exchanged, everywhere, spread, loops))


def _is_mended(node: n.Node) -> bool:
    return isinstance(node, n.Finalize) and is_disordered(node.input)


def _source_of(node: n.Node) -> n.Source | None:
    """The source that a stream is, or is made of by mending."""
    if _is_mended(node):
        [node] = (below for below in n.walk(node) if isinstance(below, n.Source))
    return node if isinstance(node, n.Source) else None


def _is_bystander(node: n.Node) -> bool:
    return isinstance(node, (*_ONE_ROW, *_ONE_EVENT)) or _is_per_bucket(node)


def _is_per_bucket(node: n.Node) -> bool:
    return isinstance(node, n.Aggregate) and node.per_bucket


def _everywhere(order: list[n.Node]) -> set[n.Node]:
    """The nodes that run in every bucket alike: all readers want all of their rows everywhere.

    A source may also have other readers, which take their share of it, if it is to be everywhere anyway.
    """
    found: set[n.Node] = set()
    if not any(isinstance(node, n.Join) and node.broadcast for node in order):
        return found
    found = {node for node in order if isinstance(node, (n.Source, *_ONE_ROW, *_ONE_EVENT))}
    while True:
        wanted: dict[n.Node, bool] = {}
        # whether all of its rows are wanted, and not what a where leaves of them
        as_a_whole: dict[n.Node, bool] = {}
        # readers before what they read
        for node in reversed(order):
            need = _need(node)
            for port, child in enumerate(node.inputs):
                broadcast = need is not None and need.broadcast == port
                wanted[child] = wanted.get(child, True) and (node in found or broadcast)
                passed = node in found and not isinstance(node, n.Where) and as_a_whole.get(node, False)
                as_a_whole[child] = as_a_whole.get(child, False) or broadcast or passed
        fewer = {
            node
            for node in found
            if (wanted.get(node, False) or (isinstance(node, n.Source) and as_a_whole.get(node, False)))
            and all(child in found for child in node.inputs)
        }
        if fewer == found:
            return found
        found = fewer


def _need(node: n.Node) -> _Need | None:
    match node:
        case n.Aggregate(per_bucket=True):
            return None
        case n.Aggregate() | n.Rank() | n.Session() | n.Match() | n.Automaton():
            return _Need((node.keys,))
        case n.Join():
            sent = None if node.broadcast is None else ("left", "right").index(node.broadcast)
            return _Need((tuple(node.on), tuple(node.on.values())), sent)
        case n.ClipBy():
            return _Need((node.on, node.on))
        case n.Distinct() | n.Intersect() | n.Difference() | n.Merge():
            return _Need(tuple(tuple(child.schema) for child in node.inputs))
        case n.Sort() | n.Punctuate():
            return _Need(((),))
        case _:
            return None


def _wishes(
    root: n.Node, order: list[n.Node], everywhere: set[n.Node], loops: Mapping[n.Node, Carried]
) -> dict[n.Node, Columns | None]:
    """For each node, the columns by which its readers would like it to be spread, if they care."""
    wishes: dict[n.Node, Columns | None] = {root: None}
    for node in reversed(order):
        if isinstance(node, n.Fixpoint):
            wishes[node.argument] = wishes[node]
        for child, below in _wished(node, wishes, everywhere, loops):
            if child not in wishes or wishes[child] is None:
                wishes[child] = below
            elif below is not None:
                # of two readers, what both can live with
                both = tuple(c for c in wishes[child] or () if c in below)
                wishes[child] = both or wishes[child]
    return wishes


def _wished(
    node: n.Node,
    wishes: Mapping[n.Node, Columns | None],
    everywhere: set[n.Node],
    loops: Mapping[n.Node, Carried],
) -> Iterator[tuple[n.Node, Columns | None]]:
    """By which columns a node would like its inputs to be spread; not of what it needs everywhere."""
    wish, need = wishes[node], _need(node)
    if node in loops:
        by = loops[node].wished(wishes[loops[node].loop.argument])
        for child, columns in loops[node].inputs_of(node, by):
            yield child, None if columns == EVERYWHERE else columns
        return
    for port, child in enumerate(node.inputs):
        if node in everywhere:
            yield child, None
        elif need is not None and need.broadcast is not None:
            yield child, None if port == need.broadcast else _below(node, wish, port)
        elif need is not None:
            keys = need.columns[port]
            own = _below(node, wish, port)
            common = tuple(c for c in keys if own is not None and c in own)
            yield child, common or keys
        else:
            yield child, _below(node, wish, port)


def _below(node: n.Node, columns: Columns | None, port: int) -> Columns | None:
    """The columns of an input that become these of the node's output; None if there are none."""
    if columns is None or _is_per_bucket(node):
        return None
    if not columns:
        return ()
    match node:
        case n.Select():
            below: list[str] = []
            for c in columns:
                expression = node.columns[c].meta.undo_aliases()
                name = expression.meta.output_name() if expression.meta.is_column() else None
                # a user's function looks like a column, too
                if name is None or name not in node.input.schema:
                    return None
                below.append(name)
            return tuple(dict.fromkeys(below)) or None
        case n.Join() if node.broadcast is not None:
            kept = _kept_of_pair(node)
            back = {called: name for name, called in kept.items()}
            return tuple(back[c] for c in columns) if all(c in back for c in columns) else None
        case n.Join():
            if not set(columns) <= set(node.on):
                return None
            return columns if port == 0 else tuple(node.on[c] for c in columns)
        case _:
            known = node.inputs[port].schema
            return columns if all(c in known for c in columns) else None


def _kept_columns(node: n.Select) -> dict[str, str]:
    """Columns of the input that are passed on, with the names that they get first."""
    kept: dict[str, str] = {}
    for name, expression in node.columns.items():
        bare = expression.meta.undo_aliases()
        if bare.meta.is_column():
            kept.setdefault(bare.meta.output_name(), name)
    return kept


def _kept_of_pair(node: n.Join) -> dict[str, str]:
    """The columns of the side that is not broadcast, with the names that they have in the result."""
    if node.broadcast == "right":
        return {name: name for name in node.left.schema}
    keys = {right: left for left, right in node.on.items()}
    return {name: keys.get(name) or node.right_names[name] for name in node.right.schema}


def _columns_for(
    node: n.Node, wish: Columns | None, spread: Mapping[n.Node, Columns | None]
) -> list[Columns | None]:
    """By which columns each input must be spread; None: any will do."""
    need = _need(node)
    if need is None:
        return [None for _ in node.inputs]
    if need.broadcast is not None:
        return [EVERYWHERE if port == need.broadcast else None for port in range(len(node.inputs))]
    if not any(need.columns):
        return [() for _ in node.inputs]
    # what an input has already, if that is enough; else what readers would like; else all keys
    for port, child in enumerate(node.inputs):
        has = spread[child]
        if has and set(has) <= set(need.columns[port]):
            places = [need.columns[port].index(c) for c in has]
            return [tuple(columns[p] for p in places) for columns in need.columns]
    if all(spread[child] == () for child in node.inputs):
        return [() for _ in node.inputs]
    first = need.columns[0]
    liked = _below(node, wish, 0)
    chosen = [first.index(c) for c in liked if c in first] if liked else []
    places = chosen or list(range(len(first)))
    return [tuple(columns[p] for p in places) for columns in need.columns]


def _any_columns(child: n.Node, wish: Columns | None, has: Columns | None) -> Columns:
    """For a reader that does not care: what others would like, else as it is, else all columns."""
    if wish is not None:
        return wish
    return has if has and all(c in child.schema for c in has) else tuple(child.schema)


def _spread_of(
    node: n.Node, through: list[Columns | None], spread: Mapping[n.Node, Columns | None]
) -> Columns | None:
    """By which of its own columns a node's output is spread; None if that cannot be said."""
    below = [
        columns if columns is not None else spread[child]
        for child, columns in zip(node.inputs, through, strict=True)
    ]
    if isinstance(node, n.Join) and node.broadcast is not None:
        stays = below[("right", "left").index(node.broadcast)]
        if not stays:
            return stays
        kept = _kept_of_pair(node)
        return tuple(kept[c] for c in stays) if all(c in kept for c in stays) else None
    first = below[0]
    if first is None or any(other is None for other in below):
        return None
    if all(other == first for other in below) and first in ((), EVERYWHERE):
        return first
    if _is_per_bucket(node):
        return None
    match node:
        case n.Select():
            kept = _kept_columns(node)
            return tuple(kept[c] for c in first) if all(c in kept for c in first) else None
        case n.Union():
            return first if all(other == first for other in below) else None
        case _:
            return first if all(c in node.schema for c in first) else None


def _staged(at: _Layout) -> Cut:
    root = at.order[-1]
    stages = []
    for number in range(1, max(at.level.values()) + 1):
        feeds: dict[tuple[n.Node, Columns], Feed] = {}
        shares: dict[tuple[n.Node, Columns], n.Source] = {}
        built: dict[n.Node, n.Node] = {}
        chains: dict[n.Node, n.Node] = {}
        mends: list[Mending] = []
        sent = {child for child, columns in at.entering(number) if columns == EVERYWHERE}
        for node in at.order:
            if at.level[node] != number:
                continue
            if _is_mended(node):
                chains |= _mending(node, feeds, mends)
                continue
            if isinstance(node, n.Argument):
                built[node] = node
                continue
            below: list[n.Node] = []
            for child, columns in zip(node.inputs, at.exchanged[node], strict=True):
                if columns is None:
                    below.append(built[child])
                elif child in sent and columns != EVERYWHERE:
                    below.append(shares.setdefault((child, columns), _feed(child, columns).entrance))
                else:
                    feed = feeds.setdefault((child, columns), _feed(child, columns, at.spread[child]))
                    below.append(feed.entrance)
            built[node] = n.over(node, below)
        leaving = [node for node in built if node is root or at.leaves(node)]
        origins = {new: old for old, new in (built | chains).items()}
        alike = frozenset(new for old, new in built.items() if old in at.everywhere)
        roots = tuple(built[node] for node in leaving)
        places = list(feeds)
        own = tuple(
            Share(places.index((child, EVERYWHERE)), columns, entrance)
            for (child, columns), entrance in shares.items()
        )
        loops = {
            new: at.loops[old].describe(at.spread[old] or ())
            for old, new in built.items()
            if isinstance(old, n.Fixpoint)
        }
        inputs = tuple(feeds.values())
        stages.append(Stage(inputs, tuple(leaving), roots, origins, tuple(mends), alike, own, loops))
    return Cut(root, tuple(stages), at.spread[root])


def _mending(
    node: n.Node, feeds: dict[tuple[n.Node, Columns], Feed], mends: list[Mending]
) -> dict[n.Node, n.Node]:
    """Enter the source by partition, with what mends it; the nodes of that by those they stand for."""
    source = _source_of(node)
    assert source is not None, "it is made of one"
    key = (source, (ORIGIN,))
    feed = feeds.setdefault(key, _feed(source, (ORIGIN,)))
    chain: dict[n.Node, n.Node] = {source: feed.entrance}
    for part in n.walk(node):
        if part is not source:
            chain[part] = n.over(part, [chain[child] for child in part.inputs])
    mends.append(Mending(list(feeds).index(key), node, chain[node]))
    return {old: new for old, new in chain.items() if old is not source}


def _feed(node: n.Node, columns: Columns, spread: Columns | None = None) -> Feed:
    if isinstance(node, n.Source):
        # several partitions have no common order
        known = replace(node.properties, ordered=False, strictly_increasing=False)
        entrance = replace(node, columns=dict(node.schema), properties=known)
    else:
        source = _source_of(node)
        name = node.name if source is None else source.stream_name
        entrance = n.Source(name, dict(node.schema), StreamProperties())
    return Feed(node, columns, entrance, _source_of(node), spread)
