"""A topic of Kafka by which a query tells others what is past, instead of a directory.

A record is what a file is there: up to when events are of no interest, as JSON. All have the same key,
so that a topic that is compacted keeps the last, which says all. What says something else is passed
over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from slackwater.distributed.parcels import CONTROL
from slackwater.distributed.program import Program
from slackwater.errors import OperatorError
from slackwater.spark import kafka
from slackwater.spark.control import to_all
from slackwater.topics import Topic

__all__ = ["FeedbackTopic", "outdated"]

_KEY = b"outdated"
_PATIENCE_MS = 30_000
"""how long a batch waits for a broker that does not answer"""


@dataclass
class FeedbackTopic:
    """A topic of feedback, from either end."""

    spark: SparkSession
    topic: Topic
    _producer: Any = None

    def __post_init__(self) -> None:
        with kafka.admin_of(self.spark, self.topic.servers, self.topic.options) as admin:
            # it has to exist
            kafka.counts(self.spark, admin, [self.topic.name])

    def add(self, told: str) -> None:
        """Say one thing more; it is there when this returns."""
        java: Any = self.spark._jvm
        clients = java.org.apache.kafka.clients.producer
        try:
            if self._producer is None:
                serializer = java.org.apache.kafka.common.serialization.ByteArraySerializer
                self._producer = clients.KafkaProducer(self._properties(), serializer(), serializer())
            record = clients.ProducerRecord(self.topic.name, bytearray(_KEY), bytearray(told.encode()))
            self._producer.send(record).get()
        except Py4JJavaError as problem:
            raise OperatorError(
                f"feedback cannot be written to the topic {self.topic.name!r}",
                detail=str(problem.java_exception.getMessage()),
                hint="without feedback_to nobody is told, and all is computed that nobody needs",
            ) from problem

    def _properties(self) -> Any:
        java: Any = self.spark._jvm
        properties = java.java.util.HashMap()
        for name in ("max.block.ms", "request.timeout.ms", "delivery.timeout.ms"):
            properties.put(name, str(_PATIENCE_MS))
        return kafka.given_to(properties, self.topic.servers, self.topic.options)

    def close(self) -> None:
        """Nothing more is said."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def parcels(self, program: Program) -> DataFrame:
        """Every record as a parcel for every bucket of every stage."""
        told = {
            **self.topic.options,
            "kafka.bootstrap.servers": self.topic.servers,
            "subscribe": self.topic.name,
            "startingOffsets": "earliest",
            # what is no longer there was said again since
            "failOnDataLoss": "false",
        }
        records = self.spark.readStream.format("kafka").options(**told).load()
        rows = outdated(records)
        told_again = f.format_string('{"outdated": {"before": %d}}', f.col("before"))
        return to_all(rows, program, CONTROL, f.col("offset"), told_again.cast("binary"))


def outdated(records: DataFrame) -> DataFrame:
    """What records of feedback say, by their offsets; what says something else is passed over."""
    told = f.get_json_object(f.col("value").cast("string"), "$.outdated.before")
    # what is no number is nothing, and no error as it would be with a cast (ANSI)
    before = told.try_cast("bigint").alias("before")
    return records.select("offset", before).where("before is not null")
