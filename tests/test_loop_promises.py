"""What a loop promises of payloads: examples that can be followed by hand."""

from __future__ import annotations

import pytest
from tests.pattern_laws import CASES

import slackwater as sw
from slackwater.events import Element
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.punctuations import Punctuation
from slackwater.runtime import Execution

LINK = sw.stream({"a": str, "b": str}, name="link")
REACH = {"a": str, "b": str}


def _one_further(reach: sw.Query) -> sw.Query:
    further = reach.join(LINK, on={"b": "a"}, suffix="_next").select("a", b="b_next")
    return LINK.union(further)


def _links(*pairs: tuple[str, str]) -> list[Element]:
    return [sw.insert(0, 9, a=a, b=b) for a, b in pairs]


def _said(running: Execution, *elements: Element, to: sw.Query = LINK) -> set[str]:
    """The promises that follow, one by one; not that nothing comes before the first row starts, at 0."""
    assert isinstance(to.node, Source)
    batches = running.push(to.node, sw.Batch.of(elements, to.schema))
    promises = [each for out in batches for each in out if isinstance(each, Punctuation)]
    return {repr(each) for each in promises if each.before > 0}


@pytest.mark.parametrize("as_a_set", [False, True], ids=["as a bag", "as a set"])
def test_what_starts_at_a_node_is_final_when_no_link_of_what_it_reaches_can_come(as_a_set: bool) -> None:
    """x leads to y, and y to z."""

    def body(reach: sw.Query) -> sw.Query:
        further = _one_further(reach)
        return further.distinct() if as_a_set else further

    running = Execution(sw.fixpoint(body, schema=REACH).node)
    _said(running, *_links(("x", "y"), ("y", "z"), ("q", "x")))
    assert _said(running, sw.punctuation(a="x")) == set(), "y may lead further"
    assert _said(running, sw.punctuation(a="y")) == set(), "z may lead further"
    # z leads nowhere, and that follows for the others
    assert _said(running, sw.punctuation(a="z")) == {f"punctuation(a={name!r})" for name in "xyz"}
    assert _said(running, sw.punctuation(b="q")) == {"punctuation(b='q')"}
    assert _said(running, sw.punctuation(a="q")) == {"punctuation(a='q')"}


def test_nodes_of_a_cycle_are_final_together() -> None:
    """Each is only if the other is: taken for granted of both, it is so of both."""
    running = Execution(sw.fixpoint(lambda reach: _one_further(reach).distinct(), schema=REACH).node)
    _said(running, *_links(("x", "y"), ("y", "x"), ("x", "z")))
    assert _said(running, sw.punctuation(b="x")) == set()
    assert _said(running, sw.punctuation(b="y")) == {"punctuation(b='x')", "punctuation(b='y')"}
    # of what leads from the cycle, z may still lead somewhere
    assert _said(running, sw.punctuation(a="x"), sw.punctuation(a="y")) == set()


def test_a_row_that_is_taken_back_stands_in_nobodys_way() -> None:
    running = Execution(sw.fixpoint(_one_further, schema=REACH).node)
    _said(running, *_links(("x", "y")))
    assert _said(running, sw.punctuation(a="x")) == set()
    other = Execution(sw.fixpoint(_one_further, schema=REACH).node)
    _said(other, *_links(("x", "y")))
    assert _said(other, sw.adjust(0, 9, 0, a="x", b="y"), sw.punctuation(a="x")) == {
        "punctuation(a='x')"
    }


def test_a_row_that_ends_before_partners_can_come_stands_in_nobodys_way() -> None:
    """Links of y are closed before 9, when x leads to y no longer."""
    running = Execution(sw.fixpoint(_one_further, schema=REACH).node)
    _said(running, *_links(("x", "y")))
    assert _said(running, sw.punctuation(a="x"), sw.punctuation(8, a="y")) == {
        "punctuation(8, a='x')", "punctuation(8, a='y')"
    }  # fmt: skip
    assert _said(running, sw.punctuation(9, a="y")) == {"punctuation(a='x')", "punctuation(9, a='y')"}


def test_a_row_that_starts_later_stands_in_nobodys_way_before() -> None:
    """Whatever comes of y from 3 on, x leads there from 5 on only."""
    running = Execution(sw.fixpoint(_one_further, schema=REACH).node)
    _said(running, sw.insert(5, 9, a="x", b="y"))
    assert _said(running, sw.punctuation(a="x"), sw.punctuation(3, a="y")) == {
        "punctuation(5, a='x')", "punctuation(3, a='y')"
    }  # fmt: skip


def test_ranges_go_round_as_one() -> None:
    road = sw.stream({"k": int, "v": int}, name="road")

    def body(reach: sw.Query) -> sw.Query:
        further = reach.join(road, on="k", where=sw.col("v_right") > sw.col("v")).select(
            "k", v="v_right"
        )
        return road.union(further)

    running = Execution(sw.fixpoint(body, schema={"k": int, "v": int}).node)
    _said(running, *[sw.insert(0, 9, k=3, v=1), sw.insert(0, 9, k=9, v=1)], to=road)
    closed = sw.punctuation(k=sw.between(0, 5))
    assert _said(running, closed, to=road) == {repr(closed)}
    assert sum(status.state.state_rows for status in running.describe()) == 2, "those with k = 9"


def test_a_hope_is_remembered_with_the_state() -> None:
    """What has been promised by one input, in a snapshot, and what is then promised by the other."""
    case = CASES["fixpoint"]()
    left, right = case.sources
    running, again = (Execution(case.query.node) for _ in range(2))
    assert _said(running, sw.insert(0, 9, k="a", v=0), sw.punctuation(k="a"), to=left) == set()
    assert _said(running, sw.insert(0, 9, k="a", v=1), to=right) == set()
    again.restore(decode(encode(running.snapshot())))
    assert _said(again, sw.punctuation(k="a"), to=right) == {"punctuation(k='a')"}
    assert not any(status.state.state_rows for status in again.describe())
