"""Which inputs of which merges can be detached and attached."""

from __future__ import annotations

import pytest

import slackwater as sw

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
