"""What both ends of a topic share: the headers of our records, and what Kafka says about its topics.

    kafka_source    records as elements
    kafka_sink      the answer of a query as records

A topic keeps a record twice if a batch is written twice. Every record therefore says of which query and
batch it is and which number it has there; the same batch gives the same records. Our source drops what
it has had (distributed/repeats.py). Other readers can do the same:

    slackwater.query       the id of the query: the same after a restart from its checkpoint
    slackwater.batch       the number of the batch
    slackwater.sequence    the number of the record in its partition and batch, from 0

A record without a value but with a header `slackwater.token` is a token: see distributed/tokens.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from slackwater.distributed.files import Directory
from slackwater.errors import PlanError

__all__ = ["BATCH", "QUERY", "SEQUENCE", "TOKEN", "admin_of", "counts", "given_to", "once"]

QUERY, BATCH, SEQUENCE = "slackwater.query", "slackwater.batch", "slackwater.sequence"
TOKEN = "slackwater.token"  # noqa: S105
_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


@contextmanager
def admin_of(spark: SparkSession, servers: str, options: Mapping[str, str]) -> Iterator[Any]:
    """Kafka's own client, for questions about topics."""
    java: Any = spark._jvm
    properties = given_to(java.java.util.HashMap(), servers, options)
    client = java.org.apache.kafka.clients.admin.Admin
    if not hasattr(client, "create"):
        raise _no_connector()
    try:
        admin = client.create(properties)
    except Py4JJavaError as problem:
        raise PlanError("Kafka cannot be reached", detail=_said(problem)) from problem
    except (Py4JError, TypeError) as problem:
        raise _no_connector() from problem
    try:
        yield admin
    finally:
        admin.close()


def given_to(properties: Any, servers: str, options: Mapping[str, str]) -> Any:
    """A client's properties, with what the connector's options say of them."""
    for name, value in options.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), value)
    properties.put("bootstrap.servers", servers)
    return properties


def _no_connector() -> PlanError:
    return PlanError(
        "Spark has no connector for Kafka",
        detail="a session gets it when it is made",
        hint=f'.config("spark.jars.packages", "{_PACKAGE}:<version of Spark>")',
    )


def counts(spark: SparkSession, admin: Any, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions each topic has."""
    java: Any = spark._jvm
    names = java.java.util.ArrayList()
    for topic in topics:
        names.add(topic)
    try:
        told = admin.describeTopics(names).allTopicNames().get()
    except Py4JJavaError as problem:
        raise PlanError(
            f"Kafka does not say what {', '.join(topics)} is", detail=_said(problem)
        ) from problem
    return {topic: told.get(topic).partitions().size() for topic in topics}


def _said(problem: Py4JJavaError) -> str:
    return str(problem.java_exception.getMessage())


def once(root: str, name: str, of: str, ask: Callable[[], Any]) -> Any:
    """What was answered when it was asked first, by this query or by the same before a restart.

    `of` is what it was asked about: a query that was refused may have asked about something else.
    """
    directory = Directory(f"{root}/known")
    digest = hashlib.blake2b(of.encode(), digest_size=8).hexdigest()
    called = quote(name, safe=" ")
    # earlier versions have not said about what
    for file in (f"{called} {digest}.json", f"{called}.json"):
        if directory.has(file):
            return json.loads(directory.read(file))
    answer = ask()
    directory.write(f"{called} {digest}.json", json.dumps(answer).encode())
    return answer
