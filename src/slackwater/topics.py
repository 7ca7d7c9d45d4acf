"""Topics: what a query reads from Kafka, as a description.

A partition of a topic is an origin with its own order (that of its offsets) and its own promise. What a
record's value is, is said here; how it is read, in spark/values.py.

    "json"     an object: the payload's columns by their names, and those that say when and what
    "avro"     one datum of the given schema, without a header
    "arrow"    an Arrow IPC stream of any number of rows

A record that cannot be used goes to the ledger with its topic, partition and offset.

And a topic by which a query tells others what is past (`topic`): its records are control elements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from slackwater.errors import PlanError
from slackwater.policies import Progress
from slackwater.rows import Form, Unread, require_patient

__all__ = ["Kafka", "Topic", "Value", "read_kafka", "topic"]

Value: TypeAlias = Literal["json", "avro", "arrow"]

_OURS = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "maxOffsetsPerTrigger",
    "includeHeaders",
)


@dataclass(frozen=True)
class Kafka:
    """Topics of Kafka, and what their records hold."""

    servers: str
    topics: tuple[str, ...]
    pattern: str | None
    value: Value
    avro_schema: str | None
    starting: str
    per_batch: int | None
    options: Mapping[str, str] = field(default_factory=dict)

    def connector(self) -> dict[str, str]:
        """The options of Spark's connector."""
        told = {
            "kafka.bootstrap.servers": self.servers,
            "startingOffsets": self.starting,
            "includeHeaders": "true",
        }
        if self.pattern is None:
            told["subscribe"] = ",".join(self.topics)
        else:
            told["subscribePattern"] = self.pattern
        if self.per_batch is not None:
            told["maxOffsetsPerTrigger"] = str(self.per_batch)
        return {**self.options, **told}


@dataclass(frozen=True)
class Topic:
    """A topic by which a query tells others something: see `topic`."""

    servers: str
    name: str
    options: Mapping[str, str] = field(default_factory=dict)


def topic(servers: str | Sequence[str], name: str, *, options: Mapping[str, str] | None = None) -> Topic:
    """A topic for `Query.start(feedback=..., feedback_to=...)`. It has to exist.

    Its last record says all: with one partition and `cleanup.policy=compact` it stays small. `options`
    are more options of Spark's connector, such as "kafka.security.protocol".

    >>> topic("localhost:9092", "feedback").name
    'feedback'
    """
    if not name:
        raise PlanError("a topic has a name", detail=f"name={name!r}")
    return Topic(_servers(servers), name, dict(options or {}))


def _servers(given: str | Sequence[str]) -> str:
    return given if isinstance(given, str) else ",".join(given)


def read_kafka(
    servers: str | Sequence[str],
    topics: str | Sequence[str] = (),
    *,
    pattern: str | None = None,
    value: Value = "json",
    avro_schema: str | Mapping[str, Any] | None = None,
    vs: str,
    ve: str | None = None,
    unbounded: bool = False,
    kind: str | None = None,
    new_ve: str | None = None,
    count: str | None = None,
    pattern_column: str | None = None,
    progress: Progress | None = None,
    starting: str | Mapping[str, Mapping[int, int]] = "earliest",
    per_batch: int | None = None,
    options: Mapping[str, str] | None = None,
    aligned: bool = False,
) -> Unread:
    """Topics of Kafka as a stream, for `Query.start`: by their names, or all that match a pattern.

    What the columns mean is as in `from_dataframe`. In JSON a time is an integer or a text of ISO 8601;
    a record has all columns, if only as null (a cti needs only `kind` and `vs`, a count `kind` and
    `count`, a punctuation `kind` and what it speaks of, and only an adjust needs `new_ve`). Ranges and
    lists of a punctuation stand in `pattern_column`, in JSON as an object:
    {"temp": {"low": 20, "high": 95}}. `starting` is "earliest", "latest", or for each topic the offset
    of each partition; it counts for a new checkpoint only. `per_batch` is how many records are read at
    once, at most. `options` are more options of Spark's connector, such as "kafka.security.protocol".

    Every partition promises for itself, as `progress` says (`sw.progress`); those that exist when the
    query is started first count from the beginning, though they have no records yet.

    With `aligned` the topic is the answer of one query, told by `sinks.Kafka(..., tokens=True)`: what is
    behind the last token on which all aligned streams agree waits, as with `read_committed`. A token
    counts when it is in every partition.

    >>> given = read_kafka("localhost:9092", "readings", vs="ts")
    >>> given.frame.connector()["subscribe"], given.frame.starting
    ('readings', 'earliest')
    >>> read_kafka("localhost:9092", pattern="copy-.*", vs="ts", aligned=True)
    Traceback (most recent call last):
        ...
    slackwater.errors.PlanError: a pattern of topics cannot be aligned
      detail: 'copy-.*' may match more of them at any time, each with tokens of its own
      hint: name the topic
    """
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if bool(names) == (pattern is not None):
        raise PlanError(
            "topics are given by their names or by a pattern",
            detail=f"topics={names!r} and pattern={pattern!r}",
        )
    if value not in get_args(Value):
        raise PlanError(f"values of form {value!r} are not known", hint="json, avro or arrow")
    if (avro_schema is not None) != (value == "avro"):
        raise PlanError(
            "values in Avro, and no others, need a schema",
            detail=f"value={value!r}, avro_schema={avro_schema!r}",
        )
    taken = [name for name in options or {} if name in _OURS]
    if taken:
        raise PlanError(
            f"the option {taken[0]!r} is set by other arguments",
            hint="servers, topics, pattern, starting and per_batch",
        )
    if per_batch is not None and per_batch < 1:
        raise PlanError("a batch reads at least one record", detail=f"per_batch={per_batch!r}")
    if aligned:
        if pattern is not None:
            raise PlanError(
                "a pattern of topics cannot be aligned",
                detail=f"{pattern!r} may match more of them at any time, each with tokens of its own",
                hint="name the topic",
            )
        require_patient(progress)
    described = Kafka(
        _servers(servers),
        names,
        pattern,
        value,
        None if avro_schema is None else _avro(avro_schema),
        _starting(starting),
        per_batch,
        dict(options or {}),
    )
    form = Form(vs, ve, unbounded, kind, new_ve, count, pattern_column)
    return Unread(described, form, None, progress or Progress(), aligned)


def _starting(given: str | Mapping[str, Mapping[int, int]]) -> str:
    if isinstance(given, str):
        if given not in ("earliest", "latest"):
            raise PlanError(
                f"a topic is not read from {given!r}",
                hint='"earliest", "latest", or {topic: {partition: offset}}',
            )
        return given
    return json.dumps({topic: {str(p): at for p, at in of.items()} for topic, of in given.items()})


def _avro(given: str | Mapping[str, Any]) -> str:
    """The schema as JSON; a record, since a row has columns."""
    try:
        schema = json.loads(given) if isinstance(given, str) else dict(given)
    except ValueError as problem:
        raise PlanError("the schema of Avro is not JSON", detail=str(problem)) from problem
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise PlanError("the schema of Avro is not that of a record", detail=f"it is {schema!r}")
    return json.dumps(schema)
