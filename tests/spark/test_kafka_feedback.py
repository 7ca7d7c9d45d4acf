"""What a topic of feedback may hold besides feedback."""

from __future__ import annotations

from typing import Any

from slackwater.spark.kafka_feedback import outdated


def test_what_is_no_feedback_is_passed_over(spark: Any) -> None:
    """Also where a cast of what is no number is an error, as it is by default."""
    values = [b"no feedback", None, b'{"detached": {}}', b'{"outdated": {"before": "soon"}}', b"\xff"]
    values += [b'{"outdated": {"before": 99999999999999999999}}', b'{"outdated": {"before": 1.5}}']
    values += [b'{"outdated": {"before": null}}', b'{"outdated": {"before": 7}}']
    records = spark.createDataFrame([*enumerate(values)], "offset bigint, value binary")
    assert [tuple(row) for row in outdated(records).collect()] == [(len(values) - 1, 7)]
