"""Queries that read each other's answers: what the last one shows is of one prefix of the input.

One reads the input, two read its answer, and one reads both of theirs: a diamond. How many batches each
of them takes at once is drawn, and so is where a reader of a topic stops; directories are topics of one
partition, read up to a token. Against that: one plan for all of them, recomputed from the prefix that
the token of a state names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.distributed.bucket import Bucket, Remembered, Standing
from slackwater.distributed.parcels import spread
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Part, Rehearsal
from slackwater.distributed.tokens import agreement, require_shared
from slackwater.errors import OperatorError
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.policies import Progress
from slackwater.punctuations import Punctuation

FEW = settings(max_examples=max(1, settings().max_examples // 8))
S = sw.stream({"k": int, "v": int}, name="s")


def _accepted(given: sw.Query) -> sw.Query:
    return given.where(sw.col("v") != 0).latency(sw.EAGER)


def _credits(given: sw.Query) -> sw.Query:
    return given.group_by("k").aggregate(credit=sw.sum("v")).latency(sw.EAGER)


def _debits(given: sw.Query) -> sw.Query:
    renamed = given.select(of="k", v="v")
    return renamed.group_by("of").aggregate(debit=sw.sum("v")).latency(sw.EAGER)


def _both(left: sw.Query, right: sw.Query) -> sw.Query:
    return left.join(right, on={"k": "of"}, how="full").latency(sw.EAGER)


def _stream(name: str, query: sw.Query) -> sw.Query:
    return sw.stream(dict(query.schema), name=name)


ACCEPTED = _accepted(S)
T = _stream("t", ACCEPTED)
CREDITS, DEBITS = _credits(T), _debits(T)
C, D = _stream("c", CREDITS), _stream("d", DEBITS)
BALANCE = _both(C, D)
WHOLE = _both(_credits(ACCEPTED), _debits(ACCEPTED))


def _node(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


Item = sw.Batch | dict[str, int]


@dataclass
class Topic:
    """What a query has written: in each partition rows, promises, and tokens."""

    partitions: list[list[Item]]

    def write(self, said: sw.Batch, token: dict[str, int]) -> None:
        told = [placed.control for placed in said.controls if isinstance(placed.control, Punctuation)]
        shares = dict(spread(said.data(), said.schema.names(), len(self.partitions)))
        for number, items in enumerate(self.partitions):
            rows = shares.get(number, sw.Batch.empty(said.schema))
            half = rows.rows // 2
            # a reader may stop anywhere
            items.extend([rows.slice(0, half), rows.slice(half, rows.rows).followed_by(told)])
            items.extend([token] if token else [])


@dataclass
class Reader:
    """One that has read so much of each partition."""

    topic: Topic
    source: Source
    at: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.at = [0] * len(self.topic.partitions)

    def take(self, partition: int, items: int) -> list[Part]:
        start, log = self.at[partition], self.topic.partitions[partition]
        self.at[partition] = min(len(log), start + items)
        parts = []
        for place, item in enumerate(log[start : self.at[partition]], start):
            rows = item if isinstance(item, sw.Batch) else sw.Batch.empty(self.source.schema)
            token = None if isinstance(item, sw.Batch) else item
            parts.append(Part(self.source, str(partition), f"{place:04d}", rows, token))
        return parts

    def all(self) -> list[Part]:
        return [p for n in range(len(self.at)) for p in self.take(n, 1_000_000)]


class Query:
    """A query at work, by name."""

    def __init__(
        self, name: str, query: sw.Query, readers: list[Reader], partitions: int, *, aligned: bool = True
    ) -> None:
        self.name, self.readers = name, readers
        self.batch = 0
        origins = {
            reader.source: tuple(str(number) for number in range(len(reader.at))) for reader in readers
        }
        progress = {each: Progress(partitions=len(of), origins=of) for each, of in origins.items()}
        waiting = list(origins) if aligned else []
        self.program: Program = program_of(query.node, buckets=2, progress=progress, aligned=waiting)
        self.work = Rehearsal(self.program, meddle=self._restored)
        self.topic = Topic([[] for _ in range(partitions)])
        self.token: dict[str, int] = {}
        self.standings: list[Standing] = []

    def _restored(self, bucket: Bucket) -> Bucket:
        """Written down and read back, with what waits."""
        fresh = Bucket(self.program, bucket.stage, bucket.number)
        state = decode(encode(bucket.remembered()))
        assert isinstance(state, Remembered)
        fresh.restore(state)
        return fresh

    def step(self, parts: list[Part], rows: dict[Source, dict[str, sw.Batch]] | None = None) -> None:
        said = self.work.batch(rows or {}, parts=parts)
        self.standings = [each.standing for each in said]
        tokens = [each.token for each in self.standings]
        assert all(token == tokens[0] for token in tokens), "all buckets come to the same end"
        self.token = {**tokens[0], self.name: self.batch} if tokens[0] or not self.readers else {}
        self.topic.write(self.work.said, self.token)
        self.batch += 1

    @property
    def shown(self) -> sw.History:
        return self.work.output.as_history()


class Diamond:
    def __init__(self, partitions: int = 1, *, aligned: bool = True) -> None:
        self.given: list[sw.Batch] = []
        self.first = Query("Q0", ACCEPTED, [], partitions)
        readers = [Reader(self.first.topic, _node(T)) for _ in range(2)]
        self.left = Query("Q1", CREDITS, readers[:1], partitions)
        self.right = Query("Q2", DEBITS, readers[1:], partitions)
        topics = self.left.topic, self.right.topic
        both = [Reader(topic, _node(s)) for topic, s in zip(topics, (C, D), strict=True)]
        self.last = Query("Q3", BALANCE, both, 1, aligned=aligned)

    def enter(self, rows: sw.Batch) -> None:
        self.given.append(rows)
        self.first.step([], {_node(S): {"0": rows}})

    def prefix(self, batches: int) -> sw.History:
        return WHOLE.meaning({S: sw.Batch.concat([sw.Batch.empty(S.schema), *self.given[:batches]])})


EVENTS = st.builds(
    lambda k, v, vs, more: sw.insert(vs, vs + more, k=k, v=v),
    st.integers(0, 2),
    st.integers(-2, 2),
    st.integers(0, 5),
    st.integers(1, 5),
)


@pytest.mark.parametrize("partitions", [1, 2])
@FEW
@given(data=st.data())
def test_every_state_is_the_answer_to_the_prefix_that_its_token_names(
    partitions: int, data: st.DataObject
) -> None:
    diamond = Diamond(partitions)
    for _ in range(data.draw(st.integers(1, 12), label="steps")):
        who = data.draw(st.sampled_from(["input", "left", "right", "last"]))
        if who == "input":
            events = data.draw(st.lists(EVENTS, max_size=3))
            diamond.enter(sw.Batch.of(events, S.schema))
            continue
        query = {"left": diamond.left, "right": diamond.right, "last": diamond.last}[who]
        parts = [
            part
            for reader in query.readers
            for number in range(partitions)
            for part in reader.take(number, data.draw(st.integers(0, 6)))
        ]
        query.step(parts)
        if who == "last":
            seen = diamond.last.token.get("Q0", -1) + 1
            assert diamond.last.shown == diamond.prefix(seen)
    # what is in the topics is enough for all of the input
    for query in (diamond.left, diamond.right, diamond.last):
        query.step([part for reader in query.readers for part in reader.all()])
    assert diamond.last.token.get("Q0", -1) + 1 == len(diamond.given)
    assert diamond.last.shown == diamond.prefix(len(diamond.given))


def _one_side_ahead(*, aligned: bool) -> Diamond:
    diamond = Diamond(aligned=aligned)
    for number in range(2):
        diamond.enter(sw.Batch.of([sw.insert(0, 9, k=1, v=number + 1)], S.schema))
        diamond.left.step(diamond.left.readers[0].all())
        if not number:
            diamond.right.step(diamond.right.readers[0].all())
        diamond.last.step([part for reader in diamond.last.readers for part in reader.all()])
    return diamond


def test_without_tokens_half_of_an_input_is_shown() -> None:
    diamond = _one_side_ahead(aligned=False)
    [event] = diamond.last.shown.events()
    assert dict(event.payload) == {"k": 1, "credit": 3, "debit": 1}
    assert all(diamond.last.shown != diamond.prefix(seen) for seen in range(3)), "it is of no prefix"


def test_what_is_ahead_waits_for_its_token() -> None:
    diamond = _one_side_ahead(aligned=True)
    assert diamond.last.token == {"Q0": 0, "Q1": 0, "Q2": 0, "Q3": 1}
    [*_, stage] = diamond.last.standings
    assert stage.held_by == "d, partition 0: the next token"
    assert diamond.last.shown == diamond.prefix(1)
    diamond.right.step(diamond.right.readers[0].all())
    diamond.last.step([part for reader in diamond.last.readers for part in reader.all()])
    assert diamond.last.token == {"Q0": 1, "Q1": 1, "Q2": 1, "Q3": 2}
    assert diamond.last.shown == diamond.prefix(2)


HOLDING_BACK: dict[str, Callable[[sw.Query], sw.Query]] = {
    "blocking": lambda query: query.consistency(blocking=5),
    "strong": lambda query: query.consistency("strong"),
    "at an output latency": lambda query: query.latency(sw.ORDER_PRESERVING),
    "settled": lambda query: query.cleanse(in_order=False),
    "in a group": lambda query: query.group_by("k").apply(lambda g: g.distinct().sort("credit")),
}


@pytest.mark.parametrize("how", HOLDING_BACK)
def test_who_holds_rows_back_shows_less_than_its_token_says(how: str) -> None:
    """So what others say at the same token does not fit, and is not read beside it (commits.py)."""
    credits = T.group_by("k").aggregate(credit=sw.sum("v"))
    diamond = Diamond()
    diamond.left = Query("Q1", HOLDING_BACK[how](credits), diamond.left.readers, 1)
    both = [Reader(diamond.left.topic, _node(C)), Reader(diamond.right.topic, _node(D))]
    diamond.last = Query("Q3", BALANCE, both, 1)
    for number in range(2):
        rows = [sw.insert(number, 9, k=1, v=number + 1), sw.cti(number)]
        diamond.enter(sw.Batch.of(rows, S.schema))
        for query in (diamond.left, diamond.right, diamond.last):
            query.step([part for reader in query.readers for part in reader.all()])
    assert diamond.last.token["Q0"] == 1
    assert all(diamond.last.shown != diamond.prefix(seen) for seen in range(3)), "it is of no prefix"
    assert diamond.left.program.holds_back
    assert not diamond.right.program.holds_back
    assert not diamond.first.program.holds_back


def test_a_dial_that_can_be_turned_may_hold_rows_back() -> None:
    waiting = {"aligned": [_node(T)], "turnable": True}
    assert "can be turned" in program_of(CREDITS.node, buckets=1, **waiting).holds_back  # type: ignore[arg-type]


def test_streams_with_nothing_in_common_are_not_aligned() -> None:
    diamond = Diamond()
    other = Query("Q9", ACCEPTED, [], 1)
    for query in (diamond.first, other):
        query.step([], {_node(S): {"0": sw.Batch.of([sw.insert(0, 9, k=1, v=1)], S.schema)}})
    reader = Reader(other.topic, _node(T))
    apart = Query("Q2", DEBITS, [reader], 1)
    apart.step(reader.all())
    diamond.left.step(diamond.left.readers[0].all())
    both = [Reader(diamond.left.topic, _node(C)), Reader(apart.topic, _node(D))]
    last = Query("Q3", BALANCE, both, 1)
    with pytest.raises(OperatorError, match="no query in common"):
        last.step([part for reader in both for part in reader.all()])


def test_a_token_that_is_told_twice_counts_once() -> None:
    """Of a topic that was written again from the beginning of a batch, with the rows behind it."""
    diamond = Diamond()
    diamond.enter(sw.Batch.of([sw.insert(0, 9, k=1, v=1)], S.schema))
    topic = diamond.first.topic.partitions[0]
    empty = sw.Batch.empty(S.schema)
    topic += [empty, {"Q0": 0}]
    diamond.left.step(diamond.left.readers[0].all())
    assert diamond.left.token == {"Q0": 0, "Q1": 0}
    topic += [{"Q0": 1, "Q7": 1}]
    with pytest.raises(OperatorError, match="two kinds"):
        diamond.left.step(diamond.left.readers[0].all())


TOKENS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(["ab", "bc", "ac"]), TOKENS), min_size=1, max_size=3))
def test_an_agreement_is_the_furthest_there_is(drawn: list[tuple[str, list[tuple[int, int]]]]) -> None:
    streams = []
    for names, steps in drawn:
        tokens = []
        for place in range(len(steps)):
            grown = [sum(more) for more in zip(*steps[: place + 1], strict=True)]
            tokens.append(dict(zip(names, grown, strict=True)))
        streams.append(tokens)

    def agree(places: tuple[int, ...]) -> bool:
        here = [tokens[place] for tokens, place in zip(streams, places, strict=True)]
        return all(a[q] == b[q] for a in here for b in here for q in a.keys() & b.keys())

    found = [places for places in product(*(range(len(tokens)) for tokens in streams)) if agree(places)]
    furthest = [max(places) for places in zip(*found, strict=True)] if found else None
    assert agreement(streams) == furthest


def test_one_stream_alone_has_nobody_to_agree_with() -> None:
    require_shared({"left": {"Q0": 1}})
