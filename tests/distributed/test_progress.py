"""How far streams are that come from several places: promises, limits, counts, partitions that sleep."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater import persistence
from slackwater.consistency import Dial
from slackwater.distributed.bucket import Bucket, Remembered
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.history import History
from slackwater.plan.nodes import Source
from slackwater.runtime.edge import OnInvalid
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator

FEWER = settings(max_examples=max(1, settings().max_examples // 33))
SCHEMA = {"k": str, "v": int}
s, t = sw.stream(SCHEMA, name="s"), sw.stream(SCHEMA, name="t")
counted = sw.stream(SCHEMA, name="counted", disordered=True)

Given = dict[sw.Query, dict[str, sw.Batch]]


def _restored(program: Program) -> Callable[[Bucket], Bucket]:
    def written_and_read(bucket: Bucket) -> Bucket:
        file = io.BytesIO()
        persistence.encode(bucket.remembered()).write(file)
        file.seek(0)
        state = persistence.decode(persistence.Encoded.read(file))
        assert isinstance(state, Remembered)
        fresh = Bucket(program, bucket.stage, bucket.number)
        fresh.restore(state)
        return fresh

    return written_and_read


class Trial:
    """A rehearsal that checks its output after every batch."""

    def __init__(
        self,
        query: sw.Query,
        buckets: int,
        *,
        progress: Mapping[sw.Query, sw.Progress] | None = None,
        on_invalid: OnInvalid = sw.RAISE,
        turnable: bool = False,
    ) -> None:
        policies = {_node(source): policy for source, policy in (progress or {}).items()}
        self.program = program_of(
            query.node, buckets=buckets, progress=policies, on_invalid=on_invalid, turnable=turnable
        )
        self.at_work = Rehearsal(self.program, meddle=_restored(self.program))
        self._valid = Validator()
        self._checked = 0
        self.held_by = ""

    def batch(self, given: Given, now: int = 0, turns: Sequence[Dial] = ()) -> None:
        by_node = {_node(source): parts for source, parts in given.items()}
        said = self.at_work.batch(by_node, now, turns)
        for out in self.output.batches[self._checked :]:
            self._valid.admit(out)
        self._checked = len(self.output.batches)
        last = [each.standing for each in said if each.standing.stage == len(self.program.cut.stages)]
        self.held_by = min(last, key=lambda standing: standing.promised).held_by

    def tell(self, stream: sw.Query, *elements: Element, of: str = "0", now: int = 0) -> None:
        self.batch({stream: {of: sw.Batch.of(elements, stream.schema)}}, now)

    @property
    def output(self) -> sw.Output:
        return self.at_work.output

    @property
    def set_aside(self) -> Counter[str]:
        return Counter(f"{entry.reason}: {entry.element!r}" for entry in self.at_work.ledger)


def _node(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node


def _parts(data: st.DataObject, sources: Sequence[sw.Query], partitions: int = 2) -> list[Given]:
    """Batches of elements: for some partitions at a time, their next elements."""
    waiting: dict[tuple[sw.Query, str], list[sw.Batch]] = {}
    for source in sources:
        for partition in range(data.draw(st.integers(1, partitions))):
            stream = data.draw(streams(data.draw(histories(source.schema, max_size=5))))
            parts = data.draw(batchings(stream))
            waiting[source, str(partition)] = [sw.Batch.of(part, source.schema) for part in parts]
    # each names its partitions before anything is promised
    said: list[Given] = [{}]
    for source, name in waiting:
        said[0].setdefault(source, {})[name] = sw.Batch.empty(source.schema)
    order = sorted(waiting, key=lambda key: (key[0].node.describe(), key[1]))
    while order:
        speaking = data.draw(st.lists(st.sampled_from(order), min_size=1, unique=True))
        said.append({})
        for key in speaking:
            said[-1].setdefault(key[0], {})[key[1]] = waiting[key].pop(0)
        order = [key for key in order if waiting[key]]
    return said


def _without(given: Sequence[Given], source: sw.Query, ledger: sw.Ledger) -> History:
    """What a source has said but for the elements that are in the ledger."""
    gone = Counter(repr(entry.element) for entry in ledger)
    left: list[Element] = []
    for batch in given:
        for part in batch.get(source, {}).values():
            for element in part.data():
                if gone[repr(element)]:
                    gone[repr(element)] -= 1
                else:
                    left.append(element)
    assert not +gone, "the ledger names what was said"
    # of equal elements another may be left than the one that was given up: in any order it is the same
    return History.of(left, source.schema, disordered=True)


# Operators that promise by what they have seen


def _counts(query: sw.Query) -> sw.Query:
    return query.group_by("k").aggregate(n=sw.count(), most=sw.max("v"))


FORGETFUL: dict[str, sw.Query] = {
    "finalize": s.finalize(3),
    "the dial": _counts(s).consistency(memory=3),
    "the dial, waiting": _counts(s).consistency(blocking=1, memory=3),
    "filtered": _counts(s.where(sw.col("v") > 0)).consistency(memory=2),
    "windows": _counts(s.window(sw.hopping(4, 2))).consistency(memory=4),
    "two stages": _counts(s).group_by("n").aggregate(of=sw.count()).consistency(memory=3),
    "behind a count": _counts(s).finalize(3).group_by("n").aggregate(of=sw.count()),
    "in one bucket": s.aggregate(n=sw.count()).consistency(memory=3),
    "two streams": s.join(t, on="k").consistency(memory=3),
    "a union": _counts(s.union(t.shift(1))).consistency(memory=3),
    "punctuate": _counts(s.punctuate(lateness=3)),
    "punctuate beside others": s.punctuate(lateness=3).union(t).group_by("v").aggregate(n=sw.count()),
}


@pytest.mark.parametrize("name", FORGETFUL)
@FEWER
@given(data=st.data())
def test_what_is_forgotten_and_promised_does_not_depend_on_the_buckets(
    name: str, data: st.DataObject
) -> None:
    query = FORGETFUL[name]
    given = _parts(
        data, [s, t] if name in ("two streams", "a union", "punctuate beside others") else [s]
    )
    one, several = (Trial(query, n, on_invalid=sw.LEDGER) for n in (1, data.draw(st.integers(2, 3))))
    for batch in given:
        one.batch(batch)
        several.batch(batch)
        assert several.output.settled_until == one.output.settled_until
        assert several.set_aside == one.set_aside
    assert several.output.settled_until == sw.INF
    assert several.output.as_history() == one.output.as_history()
    if name in ("finalize", "the dial", "the dial, waiting", "two stages", "in one bucket"):
        left = _without(given, s, several.at_work.ledger)
        assert several.output.as_history() == query.meaning({s: left})


def test_a_bucket_without_rows_settles_as_the_others_do() -> None:
    trial = Trial(_counts(s).consistency(memory=3), 3)
    trial.tell(s, sw.insert(10, 12, k="a", v=1))
    assert trial.output.settled_until == 7
    trial = Trial(_counts(s.punctuate(lateness=5)), 3)
    trial.tell(s, sw.insert(10, 12, k="a", v=1))
    assert trial.output.settled_until == 5


def test_memory_follows_the_slowest_partition() -> None:
    """What one partition says in its own order is not late because another is ahead."""
    trial = Trial(_counts(s).consistency(memory=3), 2, progress={s: sw.progress(partitions=2)})
    trial.tell(s, sw.insert(100, 101, k="a", v=1), of="ahead")
    assert trial.output.settled_until < 0
    trial.tell(s, sw.insert(10, 11, k="a", v=1), of="behind")
    assert trial.output.settled_until == 7
    trial.tell(s, sw.insert(8, 9, k="a", v=2), sw.insert(20, 21, k="b", v=1), of="behind")
    assert trial.output.settled_until == 17
    assert not trial.set_aside


# Counts


@FEWER
@given(data=st.data())
def test_counts_are_of_partitions(data: st.DataObject) -> None:
    """Elements in any order, counts among them: each partition is complete by itself."""
    query = data.draw(
        st.sampled_from(
            [
                _counts(counted),
                counted.select("k")
                .group_by("k")
                .aggregate(n=sw.count())
                .group_by("n")
                .aggregate(of=sw.count()),
                counted.finalize("inf"),
                counted.join(s, on="k"),
            ]
        )
    )
    trial = Trial(query, data.draw(st.integers(1, 3)))
    waiting: dict[tuple[sw.Query, str], list[Element]] = {}
    every: list[History] = []
    for partition in range(data.draw(st.integers(1, 3))):
        history = data.draw(histories(counted.schema, max_size=4))
        every.append(history)
        stream = data.draw(streams(history))
        elements = [each for each in stream if isinstance(each, sw.Insert | sw.Adjust)]
        times = data.draw(st.lists(st.integers(-5, 20), max_size=3))
        told: list[Element] = [
            sw.external_cti(time, sum(each.sync < time for each in elements)) for time in times
        ]
        told.append(sw.external_cti(None, len(elements)))
        waiting[counted, str(partition)] = data.draw(st.permutations([*elements, *told]))
    if len(trial.program.sources) > 1:
        waiting[s, "0"] = list(data.draw(streams(data.draw(histories(s.schema, max_size=4)))))
    beside = History.of(
        [e for e in waiting.get((s, "0"), []) if not isinstance(e, sw.Punctuation)], s.schema
    )
    trial.batch(
        {
            source: {n: sw.Batch.empty(source.schema) for q, n in waiting if q is source}
            for source, _ in waiting
        }
    )
    while waiting:
        key = data.draw(st.sampled_from(sorted(waiting, key=lambda key: (key[0] is s, key[1]))))
        size = data.draw(st.integers(1, 4))
        trial.tell(key[0], *waiting[key][:size], of=key[1])
        waiting[key] = waiting[key][size:]
        if not waiting[key]:
            del waiting[key]
    rows = sw.Batch.concat([history.to_batch() for history in every])
    wanted = query.meaning(
        {counted: History.of(rows), s: beside}
        if s.node in trial.program.sources
        else {counted: History.of(rows)}
    )
    assert trial.output.as_history() == wanted
    assert trial.output.settled_until == sw.INF
    assert not trial.set_aside


def test_a_partition_that_is_complete_waits_for_the_other() -> None:
    trial = Trial(_counts(counted), 2, progress={counted: sw.progress(partitions=2)})
    trial.tell(counted, sw.adjust(1, 9, 4, k="a", v=1), sw.external_cti(10, 2), of="p")
    assert trial.output.settled_until < 0
    trial.tell(counted, sw.external_cti(6, 0), of="q")
    assert trial.held_by == "counted, partition p"
    trial.tell(counted, sw.insert(1, 9, k="a", v=1), of="p")
    assert trial.output.settled_until == 6
    assert trial.held_by == "counted, partition q"
    assert trial.output.history().rows() == [("a", 1, 1, 1, 4)]


def test_a_lateness_of_what_is_disordered_is_refused() -> None:
    with pytest.raises(sw.PlanError, match="disordered stream 'counted'"):
        Trial(_counts(counted), 2, progress={counted: sw.progress(lateness=3)})


# What a policy makes late


def test_what_continues_a_late_element_is_late_as_well() -> None:
    trial = Trial(_counts(s), 2, progress={s: sw.progress(lateness=5)})
    trial.tell(s, sw.insert(20, 22, k="b", v=1))
    late = [sw.insert(1, 30, k="a", v=1), sw.adjust(1, 30, 40, k="a", v=1)]
    trial.tell(s, late[0])
    trial.tell(s, late[1])
    trial.tell(s, sw.adjust(1, 40, 25, k="a", v=1), sw.insert(21, 23, k="b", v=1))
    assert trial.output.history()["k"].unique().to_list() == ["b"]
    assert trial.set_aside.total() == 3
    assert [entry.detail for entry in trial.at_work.ledger][1:] == ["it continues what was late"] * 2
    trial.tell(s, sw.insert(200, 201, k="b", v=1), sw.cti(None))
    assert trial.output.settled_until == sw.INF


SECOND = 1_000_000


def test_a_partition_that_sleeps_does_not_count_and_what_it_says_later_is_late() -> None:
    policy = sw.progress(idle="10 s", partitions=2)
    trial = Trial(_counts(s), 2, progress={s: policy})
    trial.tell(s, sw.insert(1, 60, k="a", v=1), sw.cti(5), of="a", now=0)
    trial.tell(s, sw.cti(20), of="b", now=0)
    assert trial.output.settled_until == 5
    assert trial.held_by == "s, partition a"
    trial.tell(s, sw.cti(30), of="b", now=10 * SECOND)
    assert trial.output.settled_until == 30
    assert trial.held_by == "s, partition b"
    # it comes back: with an adjust of what is in, and one that would have come earlier
    back = [
        sw.adjust(1, 60, 25, k="a", v=1),
        sw.adjust(1, 25, 40, k="a", v=1),
        sw.insert(9, 50, k="a", v=2),
    ]
    trial.tell(s, *back, sw.adjust(9, 50, 45, k="a", v=2), sw.cti(31), of="a", now=11 * SECOND)
    assert trial.set_aside.total() == 4
    assert trial.output.settled_until == 30
    trial.tell(s, sw.cti(None), of="a", now=12 * SECOND)
    trial.tell(s, sw.cti(None), of="b", now=12 * SECOND)
    assert trial.output.history().rows() == [("a", 1, 1, 1, 60)]


def test_a_partition_without_a_name_is_told_too() -> None:
    trial = Trial(_counts(s), 2, progress={s: sw.progress(partitions=2)})
    trial.tell(s, sw.insert(1, 60, k="a", v=1), sw.cti(5), of="")
    trial.tell(s, sw.cti(20), of="b")
    assert trial.output.settled_until == 5
    assert trial.held_by == "s, partition ''"


def test_a_partition_that_only_takes_back_is_not_asleep() -> None:
    trial = Trial(_counts(s), 2, progress={s: sw.progress(idle="10 s", partitions=2)})
    trial.tell(s, sw.insert(1, 60, k="a", v=1), sw.cti(5), of="a", now=0)
    trial.tell(s, sw.cti(20), of="b", now=0)
    trial.tell(s, sw.adjust(1, 60, 50, k="a", v=1), of="a", now=6 * SECOND)
    trial.tell(s, sw.cti(30), of="b", now=12 * SECOND)
    assert trial.held_by == "s, partition a"
    trial.tell(s, sw.adjust(1, 50, 10, k="a", v=1), sw.cti(None), of="a", now=13 * SECOND)
    trial.tell(s, sw.cti(None), of="b", now=13 * SECOND)
    assert trial.set_aside.total() == 0
    assert trial.output.history().rows() == [("a", 1, 1, 1, 10)]


def test_a_partition_that_never_spoke_does_not_count_for_ever() -> None:
    trial = Trial(_counts(s), 2, progress={s: sw.progress(idle="10 s", partitions=2)})
    trial.tell(s, sw.insert(1, 6, k="a", v=1), sw.cti(5), now=0)
    assert trial.held_by == "s: 1 of 2 partitions are known"
    trial.tell(s, sw.cti(8), now=9 * SECOND)
    assert trial.output.settled_until < 0
    trial.tell(s, sw.cti(9), now=10 * SECOND)
    assert trial.output.settled_until == 9


@pytest.mark.parametrize("buckets", [1, 2])
@pytest.mark.parametrize("later", [False, True], ids=["in one stage", "in two stages"])
def test_a_source_that_sleeps_follows_the_others(buckets: int, later: bool) -> None:
    left = _counts(s).select("k", "n") if later else s
    right = t.group_by("v").aggregate(n=sw.count()).select(n="n") if later else t
    query = left.join(right, on="n") if later else left.join(right, on="k")
    policy = sw.progress(idle="10 s")
    trial = Trial(query, buckets, progress={s: policy, t: policy})
    trial.tell(s, sw.insert(1, 90, k="a", v=1), sw.cti(5), now=0)
    trial.tell(t, sw.insert(1, 90, k="a", v=1), sw.cti(5), now=1)
    assert trial.output.settled_until == 5
    trial.tell(s, sw.cti(40), now=9 * SECOND)
    assert trial.output.settled_until == 5
    assert trial.held_by == "t, partition 0"
    trial.tell(s, sw.cti(50), now=11 * SECOND)
    assert trial.output.settled_until == 50
    late = sw.insert(45, 60, k="a", v=2)
    trial.tell(t, late, sw.insert(50, 60, k="a", v=3), sw.cti(55), now=12 * SECOND)
    assert list(trial.set_aside) == [f"late: {late!r}"]
    # with everyone asleep, and the others at their end, nothing moves
    trial.batch({}, now=60 * SECOND)
    assert trial.output.settled_until == 50
    trial.tell(s, sw.cti(None), now=61 * SECOND)
    trial.batch({}, now=99 * SECOND)
    assert trial.output.settled_until == 55
    trial.tell(t, sw.cti(None), now=99 * SECOND)
    assert trial.output.settled_until == sw.INF


def test_a_source_that_enters_later_is_followed_as_well() -> None:
    """t is counted first, and s enters only where the two meet."""
    query = s.join(t.group_by("k").aggregate(n=sw.count()).group_by("n").aggregate(v=sw.count()), on="v")
    policy = sw.progress(idle="10 s")
    trial = Trial(query, 2, progress={t: policy})
    stages = trial.program.cut.stages
    assert [feed.entrance.stream_name for feed in stages[0].feeds] == ["t"]
    trial.tell(t, sw.insert(1, 90, k="a", v=1), sw.cti(5), now=0)
    trial.tell(s, sw.insert(1, 90, k="a", v=1), sw.cti(30), now=1)
    assert trial.output.settled_until == 5
    trial.tell(s, sw.cti(40), now=11 * SECOND)
    assert trial.output.settled_until == 40
    trial.tell(s, sw.cti(None), now=12 * SECOND)
    trial.tell(t, sw.cti(None), now=12 * SECOND)
    assert trial.output.settled_until == sw.INF
    assert trial.output.history().rows() == [("a", 1, 1, 1, 90)]


def test_what_holds_a_later_stage_back_is_followed_to_its_source() -> None:
    query = _counts(s).group_by("n").aggregate(of=sw.count()).aggregate(all=sw.max("of"))
    trial = Trial(query, 2, progress={s: sw.progress(partitions=2)})
    assert len(trial.program.cut.stages) == 3
    trial.tell(s, sw.insert(1, 9, k="a", v=1), sw.cti(7), of="fast")
    assert trial.held_by == "s: 1 of 2 partitions are known"
    trial.tell(s, sw.cti(3), of="slow")
    assert trial.held_by == "s, partition slow"
    trial.tell(s, sw.cti(9), of="slow")
    assert trial.held_by == "s, partition fast"


# The dial, turned


TURNED: dict[str, sw.Query] = {
    "one stage": _counts(s),
    "strong": _counts(s).consistency("strong"),
    "weak": _counts(s).consistency(memory=4),
    "two stages": _counts(s).group_by("n").aggregate(of=sw.count()).consistency(blocking=2),
    "counted": _counts(counted),
}
LENGTHS = st.one_of(st.integers(0, 12), st.just(sw.INF))


def _turned(data: st.DataObject, dial: Dial) -> Dial:
    blocking, memory = sorted(data.draw(st.tuples(LENGTHS, LENGTHS)))
    return dial.turned(blocking, memory)


@pytest.mark.parametrize("name", [name for name in TURNED if name != "counted"])
@FEWER
@given(data=st.data())
def test_the_dial_may_be_turned_at_any_time(name: str, data: st.DataObject) -> None:
    query = TURNED[name]
    given = _parts(data, [s])
    trials = [Trial(query, n, turnable=True) for n in (1, data.draw(st.integers(2, 3)))]
    for batch in given:
        turns = [_turned(data, Dial()) for _ in range(data.draw(st.integers(0, 2)))]
        for trial in trials:
            trial.batch(batch, turns=turns)
        assert trials[0].output.settled_until == trials[1].output.settled_until
    for trial in trials:
        left = _without(given, s, trial.at_work.ledger)
        assert trial.output.as_history() == query.meaning({s: left})
        assert trial.output.settled_until == sw.INF
    assert trials[0].set_aside == trials[1].set_aside


def test_a_smaller_blocking_releases_and_a_larger_one_waits() -> None:
    trial = Trial(TURNED["strong"], 2, turnable=True)
    trial.tell(s, sw.insert(1, 9, k="a", v=1), sw.insert(5, 9, k="b", v=1))
    assert not trial.output.history().height
    trial.batch({}, turns=[Dial(blocking=3)])
    assert trial.output.history().rows() == [("a", 1, 1, 1, 9)]
    trial.batch({}, turns=[Dial()])
    assert trial.output.history().height == 2
    trial.batch({}, turns=[Dial(blocking=sw.INF)])
    trial.tell(s, sw.insert(9, 10, k="a", v=1))
    assert trial.output.history().height == 2
    trial.tell(s, sw.cti(None))
    assert trial.output.history().height == 3


def test_counts_are_forgotten_when_the_memory_is_turned_down() -> None:
    """What is never to come is not waited for any more, also in partitions that are yet to come."""
    trial = Trial(TURNED["counted"], 2, progress={counted: sw.progress(partitions=2)}, turnable=True)
    trial.tell(counted, sw.insert(9, 12, k="a", v=1), sw.external_cti(8, 5), of="p")
    trial.batch({}, turns=[Dial(memory=2)])
    assert trial.output.settled_until < 0
    trial.tell(counted, sw.insert(20, 22, k="a", v=1), of="q")
    assert trial.output.settled_until == 7
    trial.tell(counted, sw.insert(3, 12, k="a", v=1), of="p")
    assert list(trial.set_aside) == ["forgotten: insert(3, 12, k='a', v=1)"]
