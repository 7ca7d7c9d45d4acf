"""Loops in buckets: each turns by itself, says so if it does not end, and lets pass how far time is."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.distributed.bucket import Bucket
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.rehearsal import Rehearsal
from slackwater.events import Element
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source

link = sw.stream({"a": str, "b": str}, name="link")


def _further(reach: sw.Query) -> sw.Query:
    return reach.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next")


reach = sw.fixpoint(lambda reach: link.union(_further(reach)).distinct(), schema={"a": str, "b": str})


def _told(*elements: Element) -> dict[Source, dict[str, sw.Batch]]:
    assert isinstance(link.node, Source)
    return {link.node: {"0": sw.Batch.of(list(elements), link.schema)}}


def _written_and_read(program: Program, bucket: Bucket) -> Bucket:
    """As the store keeps it: no pickles."""
    fresh = Bucket(program, bucket.stage, bucket.number)
    fresh.restore(decode(encode(bucket.remembered())))
    return fresh


def test_reachability_in_buckets() -> None:
    """Each start in a bucket of its own; every bucket knows all links."""
    program = program_of(reach.node, buckets=3)
    at_work = Rehearsal(program, meddle=lambda bucket: _written_and_read(program, bucket))
    at_work.batch(_told(sw.insert(0, 9, a="x", b="y"), sw.insert(3, 6, a="y", b="z")))
    assert at_work.output.as_history().rows() == [
        ("x", "y", 0, 9), ("x", "z", 3, 6), ("y", "z", 3, 6),
    ]  # fmt: skip
    at_work.batch(_told(sw.insert(5, 8, a="z", b="x"), sw.cti(7)))
    assert at_work.output.settled_until == 7
    said = at_work.batch(_told(sw.adjust(5, 8, 7, a="z", b="x"), sw.cti(sw.INF)))
    cycle = [(a, b, 5, 6) for a, b in ("xx", "yx", "yy", "zz")]
    assert set(at_work.output.as_history().rows()) == {
        ("x", "y", 0, 9), ("x", "z", 3, 6), ("y", "z", 3, 6), *cycle, ("z", "x", 5, 7), ("z", "y", 5, 7),
    }  # fmt: skip
    assert at_work.output.settled_until == sw.INF
    assert sum(each.standing.state_rows for each in said) == 0


def test_a_loop_without_end_says_what_kept_circulating() -> None:
    ways = sw.fixpoint(lambda ways: link.union(_further(ways)), schema={"a": str, "b": str}, rounds=20)
    at_work = Rehearsal(program_of(ways.node, buckets=2))
    with pytest.raises(sw.OperatorError, match="no fixed point after 20 rounds") as problem:
        at_work.batch(_told(sw.insert(0, 9, a="x", b="x")))
    assert "insert(0, 9, a='x', b='x')" in str(problem.value)


def test_links_that_replace_each_other_are_never_both_there() -> None:
    """Both ways at once would be a cycle, on which there are ways without end."""
    back = sw.stream({"a": str, "b": str}, name="back")
    both = link.union(back)
    ways = sw.fixpoint(
        lambda ways: both.union(ways.join(both, on={"b": "a"}, suffix="_next").select("a", b="b_next")),
        schema={"a": str, "b": str},
        rounds=20,
    )
    at_work = Rehearsal(program_of(ways.node, buckets=2))
    at_work.batch(_told(sw.insert(0, 9, a="x", b="y")))
    assert isinstance(back.node, Source)
    turned = sw.Batch.of([sw.insert(0, 9, a="y", b="x")], back.schema)
    at_work.batch({**_told(sw.adjust(0, 9, 0, a="x", b="y")), back.node: {"0": turned}})
    assert at_work.output.as_history().rows() == [("y", "x", 0, 9)]


def test_what_is_behind_a_loop_hears_how_far_the_sources_are() -> None:
    """Else what it remembers would depend on how rows are spread, or it would never forget."""
    query = reach.finalize(5)
    at_work = Rehearsal(program_of(query.node, buckets=2, on_invalid=sw.LEDGER))
    at_work.batch(_told(sw.insert(0, 90, a="x", b="y")))
    at_work.batch(_told(sw.insert(50, 90, a="q", b="r")))
    said = at_work.batch(_told(sw.adjust(0, 90, 10, a="x", b="y")))
    assert at_work.ledger.counts() == {"forgotten": 1}
    told = {parcel.slowest for each in said for parcel in each.parcels}
    assert told == {50}, (
        "the slowest of the sources' partitions, and not the loop, which waits for itself"
    )
