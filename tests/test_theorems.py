"""The papers' theorems: what an operator may say when, in which order, and how much of it.

Each test states its theorem in the paper's words, as the errata correct them, and tries it on drawn
streams. That an operator is right in the end, whatever it was told and how, is tests/test_laws.py
(Definition 7 of paper 1a, Definition 1 of paper 1b).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, product
from math import nan
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws import AGGREGATES, CASES, SCHEMA, SETS, Case

import slackwater as sw
from slackwater.events import Adjust, Element, Event, Insert
from slackwater.history import History
from slackwater.identity import identity
from slackwater.plan import nodes
from slackwater.plan.aggregations import First, GroupFunction, Last
from slackwater.plan.properties import output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.punctuations import Punctuation
from slackwater.testing import batchings, histories, streams
from slackwater.validity import StreamProperties, closed_up_to

Inputs: TypeAlias = dict[sw.Query, list[Element]]
Arrivals: TypeAlias = list[tuple[sw.Query, list[Element]]]

FEWER = settings(max_examples=max(1, settings().max_examples // 8))
FEWEST = settings(max_examples=max(1, settings().max_examples // 20))


def _nodes(query: sw.Query) -> list[nodes.Node]:
    return list(nodes.walk(rewritten(query.node)))


S = sw.stream(SCHEMA, name="s")
# the groups of an aggregate of groups do not reach it in one order (erratum 5)
SNAPSHOTS = [
    name
    for name, build in AGGREGATES.items()
    if sum(isinstance(node, nodes.Aggregate | nodes.Rank) for node in _nodes(build(S))) == 1
]
each_snapshot_operator = pytest.mark.parametrize("name", SNAPSHOTS)
LEFT, RIGHT = sw.stream(SCHEMA, name="left"), sw.stream(SCHEMA, name="right")
AT_EVERY_INSTANT: dict[str, Case] = {
    "distinct": Case(S.select("k").distinct(), (S,)),
    **{name: Case(build(LEFT, RIGHT), (LEFT, RIGHT)) for name, build in SETS.items()},
}

# They say of a row all that there is to say as soon as it comes, and keep the order of what they read.
ROW_BY_ROW = [
    "where",
    "where on strings and nulls",
    "select",
    "select that loses columns",
    "shift",
    "shift back",
    "union",
    "join",
    "join by two keys",
    "join where",
    "join, cross",
    "join of keys",
]


def _told(
    data: st.DataObject, sources: Iterable[sw.Query], **manner: Any
) -> dict[sw.Query, list[Element]]:
    """A stream for each source."""
    unbounded = manner.get("unbounded", True)
    return {
        source: data.draw(streams(data.draw(histories(source.schema, unbounded=unbounded)), **manner))
        for source in sources
    }


def _merged_by_sync(data: st.DataObject, inputs: Inputs) -> Arrivals:
    """The elements of all streams, each of which is ordered, in one order; in batches."""
    order = data.draw(st.permutations(list(inputs)))
    pairs = ([(source, element) for element in inputs[source]] for source in order)
    script = merge(*pairs, key=lambda pair: _sync(pair[1]))
    return [
        (source, part)
        for source, run in groupby(script, key=lambda pair: pair[0])
        for part in data.draw(batchings(element for _, element in run))
    ]


def _in_any_order(data: st.DataObject, inputs: Inputs) -> Arrivals:
    """The batches of all streams, in an order that keeps each stream's own."""
    cut = {source: data.draw(batchings(stream)) for source, stream in inputs.items()}
    turns = data.draw(st.permutations([source for source, parts in cut.items() for _ in parts]))
    waiting = {source: iter(parts) for source, parts in cut.items()}
    return [(source, next(waiting[source])) for source in turns]


def _sync(element: Element) -> int:
    assert isinstance(element, Insert | Adjust | Punctuation)
    return element.sync


def _out(query: sw.Query, arrivals: Arrivals) -> sw.Output:
    running = query.open()
    for source, part in arrivals:
        running.push(source, part)
    return running.output


def _by_group(keys: Iterable[str], out: sw.Output, arrivals: Arrivals) -> list[list[Element]]:
    """What was said of each group; without groups, all that was said.

    Promises are left out where they concern several groups, or waited for another input or the end of
    a batch.
    """
    inputs = {source.node for source, _ in arrivals}
    if not keys and len(inputs) == 1 and all(len(part) == 1 for _, part in arrivals):
        return [list(out)]
    groups: dict[object, list[Element]] = {}
    for element in out:
        if isinstance(element, Insert | Adjust):
            group = identity([element.payload[key] for key in keys])
            groups.setdefault(group, []).append(element)
    return list(groups.values())


def _keys(query: sw.Query) -> tuple[str, ...]:
    return next((n.keys for n in _nodes(query) if isinstance(n, nodes.Aggregate | nodes.Rank)), ())


def _assert_each_group_is(
    claim: str, query: sw.Query, arrivals: Arrivals, keys: Iterable[str] = ()
) -> None:
    out = _out(query, arrivals)
    for said in _by_group(tuple(keys), out, arrivals):
        found = StreamProperties.observed(said, query.schema)
        assert getattr(found, claim), f"not {claim}: {said}"
    assert out.settled_until == sw.INF, "closed input closes the output"


# Paper 1a Definition 6: order and perfectness preserving


@each_snapshot_operator
@FEWER
@given(data=st.data())
def test_1a_definition_6_perfect_in_gives_perfect_out(name: str, data: st.DataObject) -> None:
    """ "for any perfect stream S, f(S) is perfect. In addition, f(S) is closed if S is closed" """
    query = AGGREGATES[name](S).latency(sw.PERFECTNESS_PRESERVING)
    arrivals = _merged_by_sync(data, _told(data, [S], perfect=True))
    _assert_each_group_is("perfect", query, arrivals, _keys(query))


@pytest.mark.parametrize("name", AT_EVERY_INSTANT)
@FEWER
@given(data=st.data())
def test_1a_definition_6_perfect_in_gives_perfect_out_at_every_instant(
    name: str, data: st.DataObject
) -> None:
    """A group is a payload there, for joins an input row. Equal input rows cannot be told apart in what
    they are alone: of these it is only seen that nothing is taken back.
    """
    case = AT_EVERY_INSTANT[name]
    query = case.query.latency(sw.PERFECTNESS_PRESERVING)
    arrivals = _merged_by_sync(data, _told(data, case.sources, perfect=True))
    claim = "insert_only" if isinstance(case.query.node, nodes.Join) else "perfect"
    _assert_each_group_is(claim, query, arrivals, query.schema)


@each_snapshot_operator
@FEWER
@given(data=st.data(), lengthen=st.booleans())
def test_1a_definition_6_ordered_in_gives_ordered_out(
    name: str, data: st.DataObject, lengthen: bool
) -> None:
    """ "for any ordered stream S, f(S) is ordered. In addition, f(S) is closed if S is closed" """
    query = AGGREGATES[name](S).latency(sw.ORDER_PRESERVING)
    arrivals = _merged_by_sync(data, _told(data, [S], ordered=True, lengthen=lengthen))
    _assert_each_group_is("ordered", query, arrivals, _keys(query))


@pytest.mark.parametrize("name", AT_EVERY_INSTANT)
@FEWER
@given(data=st.data(), lengthen=st.booleans())
def test_1a_definition_6_ordered_in_gives_ordered_out_at_every_instant(
    name: str, data: st.DataObject, lengthen: bool
) -> None:
    """Over all payloads together, with inputs merged by sync."""
    case = AT_EVERY_INSTANT[name]
    query = case.query.latency(sw.ORDER_PRESERVING)
    arrivals = _merged_by_sync(data, _told(data, case.sources, ordered=True, lengthen=lengthen))
    _assert_each_group_is("ordered", query, arrivals)


K = sw.stream({"k": str}, name="left"), sw.stream({"k": str}, name="right")
A_ENDS = (K[0], sw.insert(0, 1, k="a"))
UNSORTED: dict[str, tuple[sw.Query, list[tuple[sw.Query, Element]]]] = {
    "a pair": (
        K[0].join(K[1], on="k", how="left"),
        [A_ENDS, (K[1], sw.insert(0, 9, k="b")), (K[0], sw.insert(2, 3, k="b"))],
    ),
    "a null key": (K[0].join(K[1], on="k", how="anti"), [A_ENDS, (K[0], sw.insert(2, 3, k=None))]),
    "the other side": (
        K[1].join(K[0], on="k", how="full"),
        [A_ENDS, (K[1], sw.insert(2, 3, k="b"))],
    ),
    "a pair that ends sooner": (
        K[0].join(K[1], on="k", how="left"),
        [
            A_ENDS,
            *((side, sw.insert(0, 9, k="b")) for side in K),
            (K[0], sw.adjust(0, 9, 2, k="b")),
            (K[0], sw.insert(3, 4, k="c")),
        ],
    ),
}


@pytest.mark.parametrize("name", UNSORTED)
def test_1a_definition_6_outer_joins_give_ordered_out(name: str) -> None:
    """What comes at 2 lets the watermark reach the end at 1, which has the smaller sync."""
    query, script = UNSORTED[name]
    out = query.latency(sw.ORDER_PRESERVING).run(script, batch=1)
    assert StreamProperties.observed(out.as_batch()).ordered


def test_1a_definition_6_an_end_that_comes_back_within_a_batch() -> None:
    """20 -> 4 -> 9 is not 20 -> 9 with sync 9: what comes next may have a smaller one."""
    pair, next_pair = sw.insert(0, 20, k="a"), sw.insert(5, 6, k="a")
    there_and_back: list[Element] = [sw.adjust(0, 20, 4, k="a"), sw.adjust(0, 4, 9, k="a")]
    arrivals: Arrivals = [(K[1], [pair]), (K[0], [pair]), (K[0], there_and_back), (K[0], [next_pair])]
    out = _out(K[0].join(K[1], on="k").latency(sw.ORDER_PRESERVING), arrivals)
    assert list(out) == [pair, *there_and_back, next_pair]


@pytest.mark.parametrize("name", ROW_BY_ROW)
@FEWER
@given(data=st.data(), claim=st.sampled_from(["ordered", "perfect"]))
def test_1a_definition_6_of_operators_that_show_whole_rows(
    name: str, data: st.DataObject, claim: str
) -> None:
    """They are both at every output latency, over all groups, if inputs are merged by sync.

    An eager join tells the changes of a batch by key and start, and is tried with batches of one.
    PERFECTNESS_PRESERVING owes order to perfect input only: it takes all changes of an end together.
    """
    case = CASES[name]()
    is_join = isinstance(case.query.node, nodes.Join)
    latency = data.draw(st.sampled_from(list(sw.OutputLatency)))
    query = case.query.latency(latency)
    arrivals = _merged_by_sync(data, _told(data, case.sources, **{claim: True}))
    owes_it = latency is sw.ORDER_PRESERVING or (claim == "perfect" and latency is not sw.EAGER)
    if is_join and not owes_it:
        arrivals = [(source, [element]) for source, part in arrivals for element in part]
    _assert_each_group_is(claim, query, arrivals)


# Paper 1a Definition 8: progressive


def _is_at_once_complete(name: str) -> bool:
    """Whether all that is complete at a cti is shown at that cti.

    Not so for AlterLifetime, which has a clock of its own; nor where a row waits for another, so that
    starts come in order: in Cleanse, ultra, set operations and outer joins that preserve perfectness.
    What they have promised themselves is complete (tests/test_laws.py).
    """
    query = CASES[name]().query
    latencies = output_latencies(query.node)
    for node in _nodes(query):
        if isinstance(node, nodes.AlterLifetime | nodes.Cleanse):
            return False
        if isinstance(node, nodes.Align) and node.perfect:
            return False
        if isinstance(node, OF_RUNS) and sw.PERFECTNESS_PRESERVING in latencies.values():
            return False
        # an aggregate that promises no more than its earliest open row leaves the next one waiting
        over_another = isinstance(node, nodes.Aggregate) and isinstance(node.input, nodes.Aggregate)
        if over_another and sw.PERFECTNESS_PRESERVING in latencies.values():
            return False
    return True


OF_RUNS = (nodes.Distinct, nodes.Intersect, nodes.Difference, nodes.Join)
PROGRESSIVE = [name for name in CASES if _is_at_once_complete(name)]


@pytest.mark.parametrize("name", PROGRESSIVE)
@FEWEST
@given(data=st.data())
def test_1a_definition_8_progressive(name: str, data: st.DataObject) -> None:
    """ "f is progressive, if for any stream S closed up to t, o[S up to t] = f((S up to t) . cti(INF))";
    "when a progressive operator sees an input CTI event, it must produce enough output events to bring
    the state of its output stream up to the application time of that input CTI event".

    The equation alone would be satisfied by an operator that waits for cti(INF). So what ends before t
    is looked for right after cti(t), too. Whatever comes later and has a sync of t or more may be known
    already: it does not matter.
    """
    case = CASES[name]()
    running = case.query.open()
    told: Inputs = {source: [] for source in case.sources}
    closed = sw.BEGIN
    inputs = _told(data, case.sources, unbounded=case.unbounded)
    for source, part in _in_any_order(data, inputs):
        running.push(source, part)
        told[source] += part
        before, closed = closed, min(closed_up_to(stream, s.schema) for s, stream in told.items())
        if closed > before:
            up_to = {s: _up_to(closed, stream) for s, stream in told.items()}
            due = case.query.meaning(up_to).settled(closed)
            assert running.output.as_history().settled(closed) == due
    time = data.draw(st.integers(-6, 16))
    up_to = {s: [*_up_to(time, stream), sw.cti(None)] for s, stream in told.items()}
    assert case.query.run(up_to, batch=1).as_history() == case.query.meaning(up_to)


def _up_to(time: int, stream: list[Element]) -> list[Element]:
    """ "S up to t consists of the set of events in S whose sync time values are less than t."

    An adjust that follows one left out names the end that its event has without it. Such an end is not
    before t, nor is the one that was named: the sync stays what it was.
    """
    kept: list[Element] = []
    # the end that a later adjust names -> the ends of these events without what was left out
    ends: dict[tuple[int, object, int], list[int]] = {}
    for element in stream:
        if isinstance(element, Punctuation) or element.vs >= time:  # type: ignore[attr-defined]
            continue
        assert isinstance(element, Insert | Adjust)
        event = element.vs, identity(element.payload)
        if isinstance(element, Insert):
            kept.append(element)
            ends.setdefault((*event, element.ve), []).append(element.ve)
            continue
        end = ends[*event, element.ve].pop()
        if element.sync < time:
            kept.append(Adjust(element.vs, end, element.new_ve, element.payload))
            end = element.new_ve
        ends.setdefault((*event, element.new_ve), []).append(end)
    return kept


# Paper 1a Theorem 10: the output watermark

# A rank has a row for each event, which only an event with a better place contradicts: where there is
# none (a null, a constant) the row could be said before.
UNWINDOWED = [
    name
    for name in SNAPSHOTS
    if not any(
        isinstance(node, nodes.AlterLifetime | nodes.Rank) for node in _nodes(AGGREGATES[name](S))
    )
]


@pytest.mark.parametrize("name", UNWINDOWED)
@FEWER
@given(data=st.data())
def test_1a_theorem_10_no_later_watermark_preserves_perfectness(name: str, data: st.DataObject) -> None:
    """ "among all perfectness preserving operators implementing o, the operator whose output watermark
    function is defined by Invariant tau-S-Algorithms has the lowest output latency"; "if the new value
    of tau is greater [...] we can construct another perfect input stream S' by extending S, such that f
    has to produce retraction events in order to maintain its correctness".

    S may be closed at any time, hence what a perfectness preserving operator has said is part of the
    answer over S. All of it up to tau we have said ("exactly all tuples with Ve <= tau have been
    produced"). For every row beyond tau there is a perfect continuation whose answer lacks that row:
    whoever had said it would have to take it back.
    """
    query = AGGREGATES[name](S)
    running = query.latency(sw.PERFECTNESS_PRESERVING).open()
    said: list[Element] = []
    tau = sw.BEGIN
    for element in _told(data, [S], perfect=True, closed=False)[S]:
        running.push(S, [element])
        said.append(element)
        tau = max(tau, _tau(said))
        answer = query.meaning({S: said})
        shown = [event for event in answer.events() if event.ve <= tau]
        assert running.output.as_history() == History.from_events(shown, answer.schema)
    for event in answer.events() if said else []:
        if event.ve > tau:
            _assert_can_be_contradicted(query, said, event)


def _tau(said: list[Element]) -> int:
    """Invariant tau-S-Algorithms: the last start; on a cti, the largest endpoint up to it."""
    last = said[-1]
    if isinstance(last, Insert):
        return last.vs
    inserts = [element for element in said if isinstance(element, Insert)]
    endpoints = (time for element in inserts for time in (element.vs, element.ve))
    return max((time for time in endpoints if time <= _sync(last)), default=sw.BEGIN)


def _assert_can_be_contradicted(query: sw.Query, said: list[Element], row: Event) -> None:
    for more in _continuations(said, row):
        extended = [*said, *more]
        assert StreamProperties.observed(extended, S.schema).perfect
        sw.validate(extended, S.schema)
        if row not in query.meaning({S: extended}).events():
            return
    raise AssertionError(f"nothing contradicts {row}: it could have been said after {said}")


def _continuations(said: list[Element], row: Event) -> Iterator[list[Insert]]:
    """Events that begin within the row, as early as order permits, in the groups that there are."""
    start = max(row.vs, *(_sync(element) for element in said))
    assert start < row.ve, "tau is not before the order of the input"
    payloads = {
        identity(element.payload): element.payload for element in said if isinstance(element, Insert)
    }
    others: list[dict[str, Any]] = [{}, {"v": 10**6}, {"x": 1e6}, {"x": nan}, {"v": 10**6, "x": nan}]
    # another key is another group, unless it is a value of the only one
    for payload, copies, k, changed in product(payloads.values(), (1, 3), ({}, {"k": "zzz"}), others):
        yield [Insert(start, row.ve, {**payload, **k, **changed})] * copies


# Paper 1a Definition 9 and Theorem 7: strongly and ultra consistent

ALL_LATENCIES = pytest.mark.parametrize("latency", list(sw.OutputLatency), ids=lambda each: each.value)
DIALLED: dict[str, Case] = {
    **{name: Case(AGGREGATES[name](S), (S,)) for name in SNAPSHOTS},
    **AT_EVERY_INSTANT,
    **{name: CASES[name]() for name in ("session by key", "join where")},
}


@pytest.mark.parametrize("name", DIALLED)
@ALL_LATENCIES
@FEWEST
@given(data=st.data(), level=st.sampled_from(["strong", "ultra"]))
def test_1a_theorem_7_strong_and_ultra_speak_on_ctis_only(
    name: str, latency: sw.OutputLatency, data: st.DataObject, level: str
) -> None:
    """ "If f is strongly consistent, it can produce output events only on input CTI events." """
    case = DIALLED[name]
    running = case.query.consistency(level).latency(latency).open()
    for source, part in _in_any_order(data, _told(data, case.sources)):
        said = running.push(source, part)
        assert not said or any(isinstance(element, Punctuation) for element in part)


@each_snapshot_operator
@FEWER
@given(data=st.data())
def test_1a_definition_9_strong_is_ordered_whatever_comes(name: str, data: st.DataObject) -> None:
    """ "A progressive operator f is strongly consistent, if for any stream S, f(S) is ordered." """
    query = AGGREGATES[name](S).consistency("strong").latency(sw.ORDER_PRESERVING)
    _assert_each_group_is("ordered", query, _in_any_order(data, _told(data, [S])), _keys(query))


@each_snapshot_operator
@FEWER
@given(data=st.data())
def test_1a_definition_9_ultra_is_perfect_whatever_comes(name: str, data: st.DataObject) -> None:
    """ "A progressive operator f is ultra consistent, if for any stream S, f(S) is perfect." """
    query = AGGREGATES[name](S).consistency("ultra").latency(sw.PERFECTNESS_PRESERVING)
    _assert_each_group_is("perfect", query, _in_any_order(data, _told(data, [S])), _keys(query))


# Paper 1a Theorems 8 and 9, as erratum 7 corrects them: output sizes


def _size(query: sw.Query, stream: list[Element]) -> int:
    return query.run({S: stream}, batch=1).as_batch().rows


@each_snapshot_operator
@FEWER
@given(data=st.data(), other=st.sampled_from([sw.EAGER, sw.ORDER_PRESERVING]))
def test_1a_theorems_8_and_9_perfectness_preserving_says_less_than_eager_and_order_preserving(
    name: str, data: st.DataObject, other: sw.OutputLatency
) -> None:
    """The lower its latency, the larger an operator's output; erratum 7: those two are incomparable.

    The open row of ORDER_PRESERVING does not mind being lengthened: see below.
    """
    query = AGGREGATES[name](S)
    [stream] = _told(data, [S], lengthen=other is sw.EAGER).values()
    assert _size(query.latency(sw.PERFECTNESS_PRESERVING), stream) <= _size(query.latency(other), stream)


def _said(query: sw.Query, latency: sw.OutputLatency, arrivals: Arrivals) -> int:
    return _out(query.latency(latency), arrivals).as_batch().rows


def test_1a_theorems_8_and_9_are_about_aggregates_a_set_cut_at_every_cti_says_more() -> None:
    """A row that something late has joined on to is lengthened before each promise, to that promise.

    Promises would otherwise have to wait for its end, which may never come.
    """
    query = K[0].distinct()
    a, b = {"k": "a"}, {"k": "b"}
    stream: list[Element] = [sw.insert(0, 5, **a), sw.insert(10, 11, **b), sw.insert(3, 30, **a)]
    stream += [sw.cti(t) for t in (*range(6, 20), None)]
    arrivals = [(K[0], [element]) for element in stream]
    sizes = {latency: _said(query, latency, arrivals) for latency in sw.OutputLatency}
    assert sizes[sw.PERFECTNESS_PRESERVING] > sizes[sw.EAGER]


def test_1a_theorems_8_and_9_an_aggregate_lengthened_before_every_cti_says_more_than_order() -> None:
    """A row of an aggregate that is cut follows its end at each promise (erratum 3)."""
    p: dict[str, Any] = {"k": "a", "v": 1, "x": 0.0}
    stream: list[Element] = [sw.insert(0, 100, **p), sw.insert(50, 60, **p), sw.adjust(50, 60, 50, **p)]
    stream.append(sw.cti(60))
    for t in range(100, 150, 10):
        stream += [sw.adjust(0, t, t + 10, **p), sw.cti(t + 5)]
    query = AGGREGATES["count"](S)
    stream.append(sw.cti(None))
    sizes = [_size(query.latency(each), stream) for each in sw.OutputLatency]
    assert dict(zip(sw.OutputLatency, sizes, strict=True)) == {
        sw.EAGER: 12,
        sw.ORDER_PRESERVING: 6,
        sw.PERFECTNESS_PRESERVING: 7,
    }


def test_1a_theorems_8_and_9_perfectness_preserving_says_less_however_many_ctis() -> None:
    """Erratum 3's stream, with a cti at every instant."""
    p: dict[str, Any] = {"k": "a", "v": 1, "x": 0.0}
    events = [sw.insert(0, 100, **p), sw.insert(50, 60, **p), sw.adjust(50, 60, 50, **p)]
    stream: list[Element] = [*events, *(sw.cti(t) for t in range(60, 80)), sw.cti(None)]
    query = AGGREGATES["count"](S)
    assert _size(query.latency(sw.PERFECTNESS_PRESERVING), stream) <= _size(query, stream)


def test_1a_theorems_8_and_9_a_row_cut_while_much_is_pending_says_more_than_eager() -> None:
    """Its end is not looked for among all that is pending: it is lengthened cti by cti."""
    query = K[0].group_by("k").aggregate(n=sw.count())
    stream: list[Element] = [sw.insert(0, 10_000 + n, k=str(n)) for n in range(100)]
    for k, t in (("a", 0), ("b", 200)):
        inner = t + 50
        stream += [sw.insert(t, t + 1000, k=k), sw.insert(inner, inner + 10, k=k)]
        stream += [sw.adjust(inner, inner + 10, inner, k=k), sw.cti(inner + 10)]
    stream += [*(sw.cti(t) for t in range(261, 281)), sw.cti(None)]
    arrivals = [(K[0], [element]) for element in stream]
    assert _said(query, sw.PERFECTNESS_PRESERVING, arrivals) > _said(query, sw.EAGER, arrivals)


@each_snapshot_operator
@FEWER
@given(data=st.data())
def test_1a_theorems_8_and_9_strong_says_least(name: str, data: st.DataObject) -> None:
    """ "The output latency of a strongly consistent operator may be large", its output is small.

    In the paper's model, in which nothing is lengthened: strong holds an adjust with the sync of a cti
    back at that cti. One that lengthens comes too late for a row that ends there.
    """
    query = AGGREGATES[name](S).latency(sw.PERFECTNESS_PRESERVING)
    [stream] = _told(data, [S], lengthen=False).values()
    assert _size(query.consistency("strong"), stream) <= _size(query, stream)


def test_erratum_7_eager_and_order_preserving_are_not_comparable() -> None:
    s = sw.stream({"a": int})
    query = s.aggregate(n=sw.count())
    once = [sw.insert(0, 10, a=1), sw.cti(None)]
    ends = range(100, 10, -10)
    revised = [
        sw.insert(0, 100, a=1),
        *(sw.adjust(0, end, end - 10, a=1) for end in ends[:8]),
        sw.cti(None),
    ]
    sizes = [
        [query.latency(latency).run({s: told}, batch=1).as_batch().rows for told in (once, revised)]
        for latency in (sw.EAGER, sw.ORDER_PRESERVING)
    ]
    assert sizes == [[1, 9], [2, 2]]


# Paper 1b Definition 2: view update compliant

# They compute from where a lifetime begins or ends, which a snapshot does not tell. So do first, last
# and functions of a group, whose rows come in the order of their starts.
LOOK_AT_LIFETIMES = (nodes.Deletes, nodes.PointAtEnd, nodes.ClipBy, nodes.Session, nodes.Match)
IN_ORDER = (First, Last, GroupFunction)


def _looks_at_lifetimes(node: nodes.Node) -> bool:
    if isinstance(node, nodes.AlterLifetime):
        # to move all that happens by as much moves the snapshots
        return not node.describe().startswith("shift")
    if isinstance(node, nodes.Aggregate):
        return any(isinstance(each, IN_ORDER) for each in node.aggregations.values())
    return isinstance(node, LOOK_AT_LIFETIMES)


def _is_compliant(name: str) -> bool:
    return not any(_looks_at_lifetimes(node) for node in _nodes(CASES[name]().query))


COMPLIANT = [name for name in CASES if _is_compliant(name) and not name.endswith(" preserving")]


@pytest.mark.parametrize("name", COMPLIANT)
@FEWEST
@given(data=st.data())
def test_1b_definition_2_view_update_compliant(name: str, data: st.DataObject) -> None:
    """ "a view update compliant operator produces snapshot identical output for snapshot identical
    input. In other words if the table contents are identical for all snapshots of two inputs, the
    output snapshots must also match."
    """
    case = CASES[name]()
    one, other = {}, {}
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        cut = data.draw(_cut_up(history))
        assert cut.snapshot_equal(history)
        one[source], other[source] = (
            data.draw(streams(each, unbounded=case.unbounded)) for each in (history, cut)
        )
    batch = data.draw(st.integers(1, 5))
    first, second = (case.query.run(inputs, batch=batch).as_history() for inputs in (one, other))
    assert first.snapshot_equal(second)


@st.composite
def _cut_up(draw: st.DrawFn, history: History) -> History:
    """The same snapshots, told by events of other lifetimes."""
    events = []
    for vs, ve, payload in history.coalesce().sorted().events():
        places = st.integers(vs + 1, min(ve - 1, vs + 10))
        cuts = sorted(draw(st.sets(places, max_size=2))) if ve > vs + 1 else []
        events += [Event(a, b, payload) for a, b in zip([vs, *cuts], [*cuts, ve], strict=True)]
    return History.from_events(events, history.schema)


NOT_COMPLIANT: dict[str, Callable[[sw.Query], sw.Query]] = {
    "AlterLifetime": lambda s: s.window(sw.sliding(3)),
    "AlterLifetime by its end": lambda s: s.extend(1),
    "Deletes": lambda s: s.deletes(),
    "PointAtEnd": lambda s: s.point_at_end(),
    "Session": lambda s: s.window(sw.session(1)),
    "Match": lambda s: s.match("A B", n=sw.matched().count()),
    "first": lambda s: s.aggregate(f=sw.first("a")),
    "group function": lambda s: s.aggregate(f=sw.group_function(str, "a", dtype=str)),
    "ClipBy": lambda s: s.clip(s.shift(-2)),
}


@pytest.mark.parametrize("name", NOT_COMPLIANT)
def test_1b_section_2_what_looks_at_lifetimes_is_not_view_update_compliant(name: str) -> None:
    """An event, and the same in two pieces: the snapshots are equal, the answers are not."""
    s = sw.stream({"a": int})
    query = NOT_COMPLIANT[name](s)
    other = sw.insert(2, 8, a=2)
    whole = [sw.insert(0, 8, a=1), other, sw.cti(None)]
    pieces = [sw.insert(0, 4, a=1), sw.insert(4, 8, a=1), other, sw.cti(None)]
    assert History.of(whole).snapshot_equal(History.of(pieces))
    first, second = (query.run({s: told}).as_history() for told in (whole, pieces))
    assert not first.snapshot_equal(second)
