"""A cti among the rows of an origin holds from its place on, however rows come in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.dispatch import Dispatch
from slackwater.distributed.parcels import BY, OFFSET, TAG
from slackwater.distributed.program import program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.plan.nodes import Source
from slackwater.runtime.edge import OnInvalid
from slackwater.validity import Validator

FEWER = settings(max_examples=max(1, settings().max_examples // 10))
SCHEMA = {"k": int}
s = sw.stream(SCHEMA, name="s")
disordered = sw.stream(SCHEMA, name="disordered", disordered=True)

BROKEN: list[Element] = [
    sw.insert(1, 9, k=1),
    sw.cti(5),
    sw.insert(3, 8, k=2),
    sw.insert(5, 9, k=3),
    sw.adjust(1, 9, 4, k=1),
    sw.cti(7),
    sw.insert(6, 8, k=4),
]


def _rehearsed(
    query: sw.Query, parts: Sequence[dict[str, list[Element]]], on_invalid: OnInvalid = sw.LEDGER
) -> Rehearsal:
    at_work = Rehearsal(program_of(query.node, buckets=2, on_invalid=on_invalid))
    [source] = query.node.inputs
    assert isinstance(source, Source)
    everyone = {name: sw.Batch.empty(source.schema) for part in parts for name in part}
    at_work.batch({source: everyone})
    for part in parts:
        at_work.batch({source: {n: sw.Batch.of(own, source.schema) for n, own in part.items()}})
    return at_work


def _set_aside(at_work: Rehearsal) -> Counter[str]:
    return Counter(f"{entry.reason}: {entry.element!r}" for entry in at_work.ledger)


@pytest.mark.parametrize("query", [s.distinct(), disordered.finalize("inf")], ids=["s", "disordered"])
@pytest.mark.parametrize("others", [{}, {"other": []}], ids=["alone", "with one that promises nothing"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_what_breaks_it_is_found_out(
    query: sw.Query, others: dict[str, list[Element]], size: int
) -> None:
    parts = [{"0": BROKEN[i : i + size], **others} for i in range(0, len(BROKEN), size)]
    at_work = _rehearsed(query, parts)
    assert _set_aside(at_work) == {
        "promise broken: insert(3, 8, k=2)": 1,
        "promise broken: adjust(1, 9, 4, k=1)": 1,
        "promise broken: insert(6, 8, k=4)": 1,
    }
    assert at_work.output.history().rows() == [(1, 1, 9), (3, 5, 9)]
    assert at_work.output.settled_until == (-(2**63) if others else 7)
    with pytest.raises(sw.InvalidStream, match=r"breaks the promise cti\(5\)"):
        _rehearsed(query, parts, sw.RAISE)


elements: st.SearchStrategy[list[Element]] = st.lists(
    st.one_of(
        st.integers(0, 6).map(sw.cti),
        st.tuples(st.integers(0, 6), st.integers(0, 9)).map(lambda e: sw.insert(e[0], 9, k=e[1])),
    ),
    max_size=8,
)


@FEWER
@given(data=st.data())
def test_each_origin_is_judged_by_itself_in_whichever_batches_it_comes(data: st.DataObject) -> None:
    said = {name: data.draw(elements) for name in ("0", "1")}
    parts: list[dict[str, list[Element]]] = []
    waiting = dict(said)
    while any(waiting.values()):
        parts.append({})
        for name, left in waiting.items():
            count = data.draw(st.integers(0, len(left)))
            parts[-1][name], waiting[name] = left[:count], left[count:]
    valid, broken = [], Counter[str]()
    for stream in said.values():
        batch, violations = Validator(chains=False).sift(sw.Batch.of(stream, s.schema))
        valid.append(batch.data())
        broken.update(f"promise broken: {violation.element!r}" for violation in violations)
    at_work = _rehearsed(s.where(sw.col("k") >= 0), parts)
    assert _set_aside(at_work) == broken
    assert at_work.output.as_history() == sw.History.of(sw.Batch.concat(valid))


def test_repeated_records_behind_it_are_dropped_and_not_refused() -> None:
    """A batch that was written to a topic twice: its rows come again behind its cti."""
    program = program_of(s.distinct().node, buckets=1)
    [source] = program.sources
    bucket = Bucket(program, 1, 0)
    row = {"kind": "insert", "vs": 1, "ve": 9, "k": 1, BY: 7, TAG: 1}
    table = pl.DataFrame([{**row, OFFSET: 0}, {"kind": "cti", "vs": 5}, {**row, OFFSET: 2}])
    batch = sw.from_dataframe(table, vs="vs", ve="ve", kind="kind")
    sending = Dispatch(program.targets(source), 1, "0", ordered=True)
    said = bucket.step([*sending.rows("t/0", "", batch), *sending.end()], now=0)
    assert said.standing.promised == 5
    assert sum(parcel.rows for parcel in said.parcels) == 1


def test_where_the_order_is_not_known_it_holds_behind_the_batch() -> None:
    program = program_of(s.distinct().node, buckets=1)
    [source] = program.sources
    bucket = Bucket(program, 1, 0)
    parcels = []
    # the second file is read by the first task
    files: list[list[Element]] = [[sw.insert(6, 9, k=2), sw.cti(5)], [sw.insert(1, 9, k=1)]]
    for task, own in enumerate(files):
        sending = Dispatch(program.targets(source), 1, f"{task:010d}", ordered=False)
        parcels += [*sending.rows("0", "", sw.Batch.of(own, s.schema)), *sending.end()]
    said = bucket.step(parcels, now=0)
    assert sum(parcel.rows for parcel in said.parcels) == 2
    assert said.standing.promised == 5
    late = Dispatch(program.targets(source), 1, "0", ordered=False)
    with pytest.raises(sw.InvalidStream, match="breaks the promise"):
        bucket.step([*late.rows("0", "", sw.Batch.of([sw.insert(2, 9, k=3)])), *late.end()], now=0)


def test_repeated_records_of_a_disordered_source_are_dropped() -> None:
    """They come to one bucket, which also knows what was there before when it is built again."""
    program = program_of(disordered.finalize("inf").node, buckets=1)
    [source] = program.sources
    table = pl.DataFrame({"kind": "insert", "vs": [1, 2], "ve": 9, "k": [1, 2], BY: 7, TAG: [0, 1]})
    said = []
    bucket = Bucket(program, 1, 0)
    for number in range(3):
        offsets = pl.Series(OFFSET, [2 * number, 2 * number + 1])
        batch = sw.from_dataframe(table.with_columns(offsets), vs="vs", ve="ve", kind="kind")
        sending = Dispatch(program.targets(source), 1, "0", ordered=True)
        answer = bucket.step([*sending.rows("t/0", "", batch), *sending.end()], now=0)
        said.append(sum(parcel.rows for parcel in answer.parcels))
        remembered = bucket.remembered()
        bucket = Bucket(program, 1, 0)
        bucket.restore(remembered)
    assert said == [2, 0, 0]
