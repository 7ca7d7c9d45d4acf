"""What is no longer of interest, told to a plan in buckets: all else is as the oracle says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bags import Bag
from tests.distributed.test_rehearsal import restored
from tests.pattern_laws import CASES, SCHEMA, Trial, drawn
from tests.test_interest import ignored_boxes, left_of

import slackwater as sw
from slackwater.distributed.program import program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.patterns import one_of
from slackwater.plan.nodes import Source
from slackwater.punctuations import Punctuation
from slackwater.validity import Validator

FEW = settings(max_examples=max(1, settings().max_examples // 100))


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_all_else_is_as_the_oracle_says(name: str, data: st.DataObject) -> None:
    trial = Trial(CASES[name]())
    program = program_of(trial.case.query.node, buckets=data.draw(st.integers(1, 3)))
    at_work = Rehearsal(program, meddle=lambda bucket: restored(program, bucket))
    at_work.batch({_source(each): {"0": sw.Batch.empty(each.schema)} for each in trial.case.sources})
    ignored: list[Punctuation] = []
    valid, said = Validator(), Bag()
    for source, part in drawn(data, trial):
        trial.push(source, part)
        news = []
        if data.draw(st.booleans(), label="some more is of no interest"):
            news = [data.draw(ignored_boxes(program.schema), label="ignored").fitted(program.schema)]
        before = len(at_work.output.batches)
        batch = sw.Batch.of(part, source.schema)
        at_work.batch({_source(source): {"0": batch}}, ignored=news)
        ignored += news
        for out in at_work.output.batches[before:]:
            valid.admit(out)
            said.take_in(out.data())
    assert left_of(said, ignored) == left_of(trial.prefix.answer(), ignored)


def test_it_reaches_every_stage_and_is_remembered() -> None:
    s, sizes = sw.stream({**SCHEMA, "w": int}, name="s"), sw.stream({"k": str, "n": int}, name="sizes")
    counts = s.group_by("v", "k").aggregate(n=sw.count())
    program = program_of(counts.join(sizes, on=("n", "k")).node, buckets=2)
    assert len(program.cut.stages) == 2
    at_work = Rehearsal(program, meddle=lambda bucket: restored(program, bucket))
    nothing = {_source(each): {"0": sw.Batch.empty(each.schema)} for each in (s, sizes)}

    def push(query: sw.Query, *rows: sw.Insert, **options: Any) -> list[int]:
        """How much each stage remembers after these rows."""
        said = at_work.batch({**nothing, _source(query): {"0": _batch(query, *rows)}}, **options)
        kept = {1: 0, 2: 0}
        for told in said:
            kept[told.standing.stage] += told.standing.state_rows
        return [*kept.values()]

    push(sizes, *(sw.insert(0, 90, k=k, n=n) for k in "abcd" for n in range(5)))
    rows = [sw.insert(0, 90, k=k, v=v, w=w) for k in "abcd" for v in range(3) for w in range(2)]
    everything = push(s, *rows)
    left = push(s, ignored=[sw.punctuation(k=one_of("a", "b", "c")).fitted(program.schema)])
    assert left == [rows // 4 for rows in everything]
    # each of them would change something of what is forgotten
    assert push(s, *rows[:18]) == left
    assert push(sizes, sw.insert(0, 90, k="a", n=7)) == left
    push(s, *rows[18:])
    history = at_work.output.history()
    assert history.filter(k="d")["n"].to_list() == [4, 4, 4]
    assert history.filter(k="a")["n"].to_list() == [2, 2, 2], "as it was"


def _batch(query: sw.Query, *rows: sw.Insert) -> sw.Batch:
    return sw.Batch.of(rows, query.schema) if rows else sw.Batch.empty(query.schema)


def _source(query: sw.Query) -> Source:
    assert isinstance(query.node, Source)
    return query.node
