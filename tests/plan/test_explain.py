"""explain(): compared with text files that a person has read."""

from __future__ import annotations

from pathlib import Path

import pytest

import slackwater as sw

GOLDEN = Path(__file__).parent / "golden"


def _hot() -> sw.Query:
    properties = sw.StreamProperties(ordered=True, insert_only=True, vs_payload_key=True)
    readings = sw.stream({"sensor": str, "temp": float}, name="readings", properties=properties)
    return (
        readings.where(sw.col("temp") > 30)
        .window(sw.hopping("10 min", "1 min"))
        .group_by("sensor")
        .aggregate(avg=sw.avg("temp"), n=sw.count())
        .consistency(blocking="5 s", memory="1 h")
    )


def _diamond() -> sw.Query:
    orders = sw.stream({"id": int, "amount": int}, name="orders")
    large = orders.where(sw.col("amount") > 100)
    return large.join(large.shift(-5), on="id").union(large.join(orders, on="id"))


def _reach() -> sw.Query:
    link = sw.stream({"a": str, "b": str}, name="link")
    return sw.fixpoint(
        lambda reach: link.union(
            reach.join(link, on={"b": "a"}, suffix="_next").select("a", b="b_next")
        ),
        schema={"a": str, "b": str},
    )


def _groups() -> sw.Query:
    s = sw.stream({"k": str, "v": int}, name="s")
    return s.group_by("k").apply(lambda group: group.where(sw.col("v") > 0).distinct())


def _priced() -> sw.Query:
    """Orders at the prices of their time: one side is small; then all of them, by the hour."""
    orders = sw.stream({"item": str, "pieces": int}, name="orders")
    prices = sw.stream({"item": str, "cents": int, "valid": bool}, name="prices")
    known = prices.where(sw.col("valid")).select("item", "cents")
    sales = orders.join(known, on="item", broadcast="right")
    worth = sales.select(worth=sw.col("pieces") * sw.col("cents"))
    return worth.window(sw.tumbling("1 h")).aggregate(n=sw.count(), worth=sw.sum("worth"))


PLANS = {"hot": _hot, "diamond": _diamond, "reach": _reach, "groups": _groups}


@pytest.mark.parametrize("name", PLANS)
def test_text(name: str) -> None:
    assert PLANS[name]().explain() + "\n" == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", ["hot", "diamond", "reach"])
def test_mermaid(name: str) -> None:
    assert PLANS[name]().explain(format="mermaid") + "\n" == (GOLDEN / f"{name}.mmd").read_text()


def test_stages() -> None:
    shown = _priced().explain(format="stages", buckets=4)
    assert shown + "\n" == (GOLDEN / "priced.stages").read_text()


def test_only_stages_have_buckets() -> None:
    with pytest.raises(sw.PlanError, match="text has no buckets"):
        _priced().explain(buckets=4)
