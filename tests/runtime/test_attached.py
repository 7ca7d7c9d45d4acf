"""Which inputs of which merges can be detached and attached."""

from __future__ import annotations

import pytest

import slackwater as sw
from slackwater.events import Element

SCHEMA = {"k": str, "v": int}


@pytest.mark.parametrize("keys", [("k",), ()])
def test_a_merge_beside_one_in_a_plan_for_each_group(keys: tuple[str, ...]) -> None:
    a, b = (sw.stream(SCHEMA, name=name) for name in "ab")

    def twice(group: sw.Query) -> sw.Query:
        return sw.merge(group.where(sw.col("v") > 0), group.where(sw.col("v") >= 1))

    running = sw.merge(a, b).group_by(*keys).apply(twice).open()
    assert running.detach(a) == []
    [said] = running.push(b, [sw.insert(1, 5, k="x", v=1), sw.cti(9)])
    assert list(said) == [sw.insert(1, 5, k="x", v=1), sw.cti(9)]
    assert running.attach(a, since=9) == []
    with pytest.raises(sw.PlanError, match="is not one input of a merge"):
        running.detach(sw.stream(SCHEMA, name="c"))


def test_only_replicas_are_called_by_names() -> None:
    a, b = (sw.stream(SCHEMA, name=name) for name in "ab")
    running = sw.merge(a, b).open()
    for say in (running.detach, running.attach):
        with pytest.raises(sw.PlanError, match="a has no replicas"):
            say(a, replica="x")


KEY = sw.StreamProperties(vs_payload_key=True)
COPIES = sw.stream({"k": str}, name="copies", properties=KEY, replicated=True)
STREAMS = {name: sw.stream({"k": str}, name=name, properties=KEY) for name in "abc"}
ROW, OTHER = sw.insert(1, 50, k="x"), sw.insert(1, 9, k="x")


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("quarantined", [False, True])
def test_who_is_not_listened_to_cannot_stop_the_query(replicated: bool, quarantined: bool) -> None:
    """Be it a copy that was found wrong, and goes on to break its own promises."""
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    merged = (
        sw.merge(COPIES, policy=policy) if replicated else sw.merge(*STREAMS.values(), policy=policy)
    )
    running = merged.open()

    def push(name: str, *elements: Element) -> None:
        if replicated:
            running.push(COPIES, elements, replica=name)
        else:
            running.push(STREAMS[name], elements)

    for name in "ac":
        push(name, ROW, sw.cti(20))
    push("b", OTHER if quarantined else ROW, sw.cti(25))
    if not quarantined:
        running.detach(COPIES if replicated else STREAMS["b"], replica="b" if replicated else None)
    push("b", sw.insert(1, 2, k="y"))
    push("a", sw.insert(30, 31, k="z"), sw.cti(40))
    assert running.output.settled_until == 40
    assert len(running.output.ledger) == int(quarantined)
    running.attach(COPIES if replicated else STREAMS["b"], replica="b" if replicated else None)
    push("b", ROW, sw.insert(30, 31, k="z"), sw.insert(60, 61, k="y"))
    assert {event.vs for event in running.output.as_history().events()} == {1, 30, 60}


def test_what_another_input_needs_is_heard() -> None:
    """Of two plans over one stream, one is detached."""
    s = STREAMS["a"]
    plans = [s.where(sw.col("k") != "y"), s.where(sw.col("k") != "n").where(sw.col("k") != "y")]
    running = sw.merge(*plans).open()
    running.detach(plans[0])
    running.push(s, [ROW])
    assert running.output.as_history().rows() == [("x", 1, 50)]
    with pytest.raises(sw.InvalidStream):
        running.push(s, [ROW])
