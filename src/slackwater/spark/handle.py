"""A query that runs on Spark: how far it is, what it has set aside, and how to stop it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import polars as pl
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.consistency import MIDDLE, Dial
from slackwater.distributed.allocation import KEPT
from slackwater.distributed.bucket import Standing
from slackwater.distributed.controls import (
    Attached,
    Detached,
    Ignored,
    Quarantined,
    pack_ignored,
    pack_told,
    pack_turn,
)
from slackwater.distributed.files import Directory
from slackwater.distributed.keeper import forget
from slackwater.distributed.parcels import PROMISED, Parcel, from_arrow, in_order
from slackwater.distributed.pledges import Pledges
from slackwater.distributed.program import Program, program_of
from slackwater.distributed.store import Place, Store
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.ledger import Entry, Ledger
from slackwater.merging import QUARANTINE
from slackwater.plan.explain import in_stages
from slackwater.plan.nodes import Merge, Node, Source, walk
from slackwater.plan.placement import the_dial
from slackwater.promises import Promises
from slackwater.punctuations import Promise, Punctuation
from slackwater.rows import Unread
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.runtime.output import Output
from slackwater.runtime.run import without_time
from slackwater.spark.beforehand import (
    places_of,
    require_apart,
    require_at_rest,
    require_buckets,
    require_inputs,
    require_offsets,
    require_place,
    require_python,
    require_session,
    require_sink,
    require_trigger,
    require_types,
)
from slackwater.spark.clock import tell_tasks, time_of
from slackwater.spark.control import Controls, Feedback, Telling, beats
from slackwater.spark.declared import declared
from slackwater.spark.failure import failure_of
from slackwater.spark.inputs import known
from slackwater.spark.kafka_feedback import FeedbackTopic
from slackwater.spark.lower import Settings, lowered
from slackwater.spark.news import (
    ANSWER,
    ENTRIES,
    STANDING,
    WRITTEN,
    entries_of,
    names_of,
    standing_of,
)
from slackwater.spark.receiving import Delivery, Opening, Sink
from slackwater.times import BEGIN, Duration, Instant, chronon, show
from slackwater.topics import Topic

__all__ = ["SparkQuery", "Standings", "start"]

_ADAPTIVE = "spark.sql.adaptive.streaming.stateless.enabled"
_STARTING = threading.Lock()
"""who starts a query changes, for a moment, what holds for all of Spark: one at a time"""


@dataclass(frozen=True)
class Standings:
    """How a query stands after a batch. Rows are counted from the first start on."""

    batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    taken_back: int = 0
    corrections: int = 0
    """of the rows out, those that spoke of a time which the answer had spoken of before their batch; the
    others are changes"""
    highest: int = BEGIN
    """the highest sync of all rows out"""
    settled_until: int = BEGIN
    state_rows: int = 0
    state_bytes: int = 0
    """about how much memory the state takes"""
    set_aside: int = 0
    """how many entries the ledger has"""
    held_by: str = ""
    """what holds the promise back: a partition of a source"""
    replicas: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """of each replicated stream, how far each of its replicas is that is attached"""
    quarantined: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """of what is merged, whose inputs are not listened to any longer, for they contradict the others"""
    token: Mapping[str, int] = field(default_factory=dict)
    """of which batches of which queries this is the answer: its own, and those that aligned streams come
    from; empty until these have a token in common"""

    @property
    def changes(self) -> int:
        """Of the rows out, those that went on from what had been said."""
        return self.rows_out - self.corrections


@dataclass(frozen=True)
class Spoken:
    """How things are said to a query while it runs, if they can be, and what was said so far."""

    controls: Controls | None = None
    dial: Dial | None = None
    """how it stands, if it can be turned"""
    ignored: tuple[Promise, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()

    @classmethod
    def of(cls, controls: Controls, schema: pl.Schema, dial: Dial | None) -> Spoken:
        """What was said before a restart holds after it."""
        said = controls.said(schema)
        turns = [each for each in said if isinstance(each, Dial)]
        ignored = [told for each in said if isinstance(each, Ignored) for told in each.told]
        quarantined = tuple(each for each in said if isinstance(each, Quarantined))
        return cls(controls, turns[-1] if turns else dial, tuple(ignored), quarantined)


class SparkQuery:
    """A query at work. `output` has its answer so far, if it goes to memory."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        sink: Sink,
        query: str,
        spoken: Spoken,
        *,
        feedback: Feedback | None = None,
    ) -> None:
        self._program, self._settings = program, settings
        self._spoken, self._feedback = spoken, feedback
        self._quarantined = {*spoken.quarantined}
        """of whom all buckets have been told"""
        self._store = Store(settings.root)
        self.name = query
        """by which tokens call it; it stays the same for a checkpoint"""
        self._query: StreamingQuery | None = None
        self._watch: threading.Thread | None = None
        self._news = threading.Condition()
        self._last: list[Standing] = []
        """how all buckets stood behind the last batch since it was started"""
        self._entries = self._store.entries()
        self.ledger = Ledger()
        self._fill_ledger()
        self.progress = _standings_of(self._store.last_record())
        at = Opening(query, f"{settings.root}/sink", program, self.ledger, self.progress.batch)
        self._receiver = sink.opened(at)
        self._pledges = Pledges(program.schema, program.cut.spread, program.buckets)
        """what buckets have promised of payloads, each for itself; lost with the handle"""

    def take_in(self, batch: int, parcels: list[Parcel]) -> None:
        """What a batch has said."""
        answer = in_order(p for p in parcels if p.feed == ANSWER)
        standings = [standing_of(p) for p in parcels if p.feed == STANDING]
        entries = [e for p in parcels if p.feed == ENTRIES for e in entries_of(p)]
        written = [name for p in parcels if p.feed == WRITTEN for name in names_of(p)]
        before = self.progress
        if batch <= before.batch:
            # it was through once, but Spark did not get to know
            before = _standings_of(self._store.record(batch - 1))
        schema = self._program.schema
        rows = Batch.concat([Batch.empty(schema), *(p.batch(schema) for p in answer)])
        # every bucket of the last stage has sent how far it is
        least = min(answer, key=lambda parcel: parcel.promise, default=None)
        promise, held_by = (least.promise, least.held_by) if least else (BEGIN, "")
        promise = max(before.settled_until, promise)
        is_new = promise > before.settled_until
        told = {p.origin: p.promises(schema) for p in parcels if p.feed == PROMISED}
        patterns = self._pledges.hear(told, self._program.origins_of_answer)
        whole = rows.followed_by([*patterns, *([Punctuation(promise)] if is_new else [])])
        token = self._token(batch, standings)
        self._receiver.take(Delivery(batch, whole, promise, tuple(written), token))
        rows_out = sum(p.rows for p in answer)
        with self._news:
            self._set_aside(batch, entries)
            self._last = standings
            # in one go, since anybody may look at it
            self.progress = self._standings(
                before, batch, standings, token, rows_out=rows_out, promise=promise, held_by=held_by
            )
            links = {Place(each.stage, each.bucket): each.link for each in standings}
            promises = {name: told for each in standings for name, told in each.promises.items()}
            self._store.write_record(batch, links, {**asdict(self.progress), "promises": promises})
            self._tell_all(each for standing in standings for each in standing.quarantined)
            self._news.notify_all()
        if self._feedback is not None:
            self._feedback.tell(self.progress.settled_until)

    def _tell_all(self, found: Iterable[Quarantined]) -> None:
        """Whom one bucket has stopped listening to, none is to listen to.

        A batch that is repeated finds the same, which is told once.
        """
        for each in found:
            if each not in self._quarantined:
                controls = self._spoken.controls
                assert controls is not None, "a query that may quarantine can be spoken to"
                controls.add(pack_told(each))
                self._quarantined.add(each)

    def _token(self, batch: int, standings: list[Standing]) -> dict[str, int]:
        """Behind this batch; of aligned streams all buckets say the same."""
        if not self._program.aligned:
            return {self.name: batch}
        reached = standings[0].token if standings else {}
        return {**reached, self.name: batch} if reached else {}

    def _set_aside(self, batch: int, entries: list[Entry]) -> None:
        self._store.write_entries(batch, entries)
        repeated = batch in self._entries
        if entries or repeated:
            self._entries[batch] = entries
        if repeated:
            self.ledger.take()
            self._fill_ledger()
            return
        self.ledger.extend(entries)

    def _fill_ledger(self) -> None:
        for _, entries in sorted(self._entries.items()):
            self.ledger.extend(entries)

    def _standings(
        self,
        before: Standings,
        batch: int,
        standings: list[Standing],
        token: Mapping[str, int],
        *,
        rows_out: int,
        promise: int,
        held_by: str,
    ) -> Standings:
        answering = [each for each in standings if each.stage == len(self._program.cut.stages)]
        return Standings(
            batch,
            before.rows_in + sum(standing.rows_in for standing in standings),
            before.rows_out + rows_out,
            before.taken_back + sum(each.taken_back for each in answering),
            before.corrections + sum(each.corrections for each in answering),
            max([before.highest, *(each.highest for each in answering)]),
            promise,
            sum(standing.state_rows for standing in standings),
            sum(standing.state_bytes for standing in standings),
            len(self.ledger),
            held_by,
            {stream: told for standing in standings for stream, told in standing.replicas.items()},
            _called(each for standing in standings for each in standing.quarantined),
            token,
        )

    def explain(self) -> str:
        """The stages in which it runs, and how each stands: what it remembers and promises, and why."""
        standing: dict[int, str] = {}
        by_stage = attrgetter("stage")
        for stage, each in groupby(sorted(self._last, key=by_stage), by_stage):
            buckets = [*each]
            least = min(buckets, key=attrgetter("promised"))
            rows = sum(bucket.state_rows for bucket in buckets)
            size = sum(bucket.state_bytes for bucket in buckets)
            held = f", held back by {least.held_by}" if least.held_by else ""
            standing[stage] = (
                f"remembers {rows} rows ({size} bytes); promised until {show(least.promised)}{held}"
            )
        program = self._program
        return in_stages(program.cut, program.buckets, [*program.aligned], standing)

    @property
    def output(self) -> Output:
        """The answer so far, if it goes to `sinks.Memory()`: what comes later is not in it."""
        output = self._receiver.output
        if self._spoken.ignored:
            output.ignored = Promises.of(self._program.schema)
            output.ignored.add(self._spoken.ignored)
        return output

    def view(self) -> pl.DataFrame:
        """The current row of every key, if the answer goes to `sinks.Memory(key=...)`."""
        return self._receiver.view()

    def begun(self, query: StreamingQuery) -> None:
        """Spark runs it now."""
        self._query = query
        self._watch = threading.Thread(target=self._forget_when_ended, daemon=True)
        self._watch.start()

    def _forget_when_ended(self) -> None:
        """Stopped or failed, or ended by its trigger: its buckets are in memory no longer than that."""
        # why it failed, is told to who waits for something; or Java has ended as well
        with suppress(PySparkException, Py4JError):
            self.spark_query.awaitTermination()
        # elsewhere they find out by themselves: nobody asks any more
        forget(self._settings.run, self._settings.root)
        with self._news:
            self._news.notify_all()
        if self._feedback is not None:
            with suppress(Py4JError):
                self._feedback.end()

    @property
    def spark_query(self) -> StreamingQuery:
        """Spark's own handle."""
        assert self._query is not None, "it was started"
        return self._query

    def await_settled(self, time_: Instant, timeout: float | None = None) -> bool:
        """Wait until the answer up to that time can no longer change; whether it came to that.

        Raises if the query has failed.
        """
        wanted = chronon(time_)
        until = None if timeout is None else time.monotonic() + timeout
        with self._news:
            while self.progress.settled_until < wanted:
                # asked first: who has ended by now has also said why
                is_active = self.spark_query.isActive
                self._raise_failure()
                if not is_active:
                    return False
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._news.wait(0.2 if left is None else min(0.2, left))
        return True

    def _raise_failure(self) -> None:
        failure = self.spark_query.exception()
        if failure is not None:
            raise failure_of(failure) from failure

    def turn(self, *, blocking: Duration | None = None, memory: Duration | None = None) -> None:
        """Turn the dial: how long to wait, how long to remember, from the next batch on.

        What is not given stays as it is. It is written under the checkpoint, so that it holds also
        after a restart.
        """
        spoken = self._spoken
        if spoken.controls is None or spoken.dial is None:
            raise PlanError(
                "the query was not started to be turned",
                hint="start(..., turnable=True): it then has an input by which turns come in",
            )
        dial = spoken.dial.turned(blocking, memory)
        spoken.controls.add(pack_turn(dial))
        self._spoken = replace(spoken, dial=dial)

    @property
    def dial(self) -> Dial:
        """How it stands."""
        return self._spoken.dial or MIDDLE

    def ignore(self, *patterns: Punctuation) -> None:
        """Rows of the answer with such payloads are no longer of interest, from the next batch on.

        As `open(...).ignore` in one process; written under the checkpoint, so that it holds also after
        a restart. It reaches all stages, as far up as the pattern's columns go.
        """
        spoken = self._spoken
        if spoken.controls is None:
            raise PlanError(
                "the query was not started to be told what is of no interest",
                hint="start(..., feedback=True): it then has an input by which that comes in",
            )
        told = [without_time(each).fitted(self._program.schema) for each in patterns]
        spoken.controls.add(pack_ignored(told, self._program.schema))
        self._spoken = replace(spoken, ignored=(*spoken.ignored, *told))

    def attach(self, stream: Any, replica: str, since: Instant | None = None) -> None:
        """A replica of a stream begins, or begins anew, with the next batch.

        It tells every event that ends at that time or later; all, if that is not given, and then it need
        not be attached: it is when it is found. Written under the checkpoint, as turns of the dial are.
        """
        start = BEGIN if since is None else chronon(since)
        told = Attached(self._replicated(stream).stream_name, replica, start)
        self._controls_for_replicas().add(pack_told(told))

    def detach(self, stream: Any, replica: str) -> None:
        """A replica of a stream is not listened to any longer, from the next batch on."""
        told = Detached(self._replicated(stream).stream_name, replica)
        self._controls_for_replicas().add(pack_told(told))

    def _controls_for_replicas(self) -> Controls:
        controls = self._spoken.controls
        assert controls is not None, "a query with replicas can be spoken to"
        return controls

    def _replicated(self, stream: Any) -> Source:
        """The stream, which is given as the query that it is."""
        name = getattr(getattr(stream, "node", stream), "stream_name", None)
        for source in self._program.sources:
            if source.replicated and source.stream_name == name:
                return source
        raise PlanError(
            f"{stream!r} is not a replicated stream of this query",
            hint="sw.stream(..., replicated=True), read by sw.merge(stream)",
        )

    def process_all_available(self) -> None:
        """Wait until everything that has arrived is processed. Raises if the query has failed."""
        try:
            self.spark_query.processAllAvailable()
        except StreamingQueryException as problem:
            raise failure_of(problem) from problem

    def stop(self) -> None:
        """End it; it can be taken up again from its checkpoint. With its Spark it has ended already."""
        context = SparkContext._active_spark_context
        if context is None or context.applicationId != self._settings.run:
            return
        self.spark_query.stop()
        assert self._watch is not None, "it was started"
        self._watch.join()

    def __repr__(self) -> str:
        now = self.progress
        held = f", held back by {now.held_by}" if now.held_by else ""
        return f"SparkQuery(batch {now.batch}, settled until {show(now.settled_until)}{held})"


def start(
    root: Node,
    spark: SparkSession,
    inputs: Mapping[Source, Unread],
    *,
    checkpoint: str,
    sink: Sink,
    buckets: int | None = None,
    on_invalid: OnInvalid = RAISE,
    trigger: Mapping[str, Any] | None = None,
    heartbeat: int | None = None,
    turnable: bool = False,
    feedback: bool | str | Topic = False,
    feedback_to: str | Topic | None = None,
) -> SparkQuery:
    """Start a plan on Spark."""
    trigger = {"processingTime": "0 seconds"} if trigger is None else trigger
    require_inputs(root, inputs)
    require_sink(sink)
    require_place(checkpoint)
    require_buckets(buckets)
    require_session(spark)
    require_trigger(spark, trigger)
    require_python(spark)
    root, inputs = declared(root, inputs)
    for source, given in inputs.items():
        if given.form.count is not None and not source.disordered:
            raise PlanError(
                f"{source.stream_name} has counts, and is not declared disordered",
                hint="declare it with sw.stream(..., disordered=True), or send ctis",
            )
    dial = the_dial(root) if turnable else None
    slots = max(1, spark.sparkContext.defaultParallelism)
    checkpoint = _resolved(spark, checkpoint)
    Directory(checkpoint).require()
    require_at_rest(spark, checkpoint)
    root_of_store = f"{checkpoint}/slackwater"
    inputs = {source: known(spark, given, root_of_store, source) for source, given in inputs.items()}
    sink = sink.resolved(lambda place: _resolved(spark, place))
    require_apart(inputs, sink, checkpoint, lambda place: _resolved(spark, place))
    sink = sink.prepared(spark, root.schema, root_of_store)
    store = Store(root_of_store)
    require_offsets(store, checkpoint)
    program = program_of(
        sink.plan(root),
        buckets=store.buckets or slots if buckets is None else buckets,
        progress={source: given.progress for source, given in inputs.items()},
        on_invalid=on_invalid,
        turnable=turnable,
        tells_back=feedback_to is not None,
        aligned=[source for source, given in inputs.items() if given.aligned],
    )
    require_types(program, sink)
    replicated = any(source.replicated for source in program.sources)
    may_be_told = turnable or bool(feedback) or replicated or _may_quarantine(program)
    entering = {
        "what it is told": may_be_told,
        "feedback from files": isinstance(feedback, str),
        "feedback from a topic": isinstance(feedback, Topic),
        "a heartbeat": heartbeat is not None,
    }
    beside_streams = [name for name, enters in entering.items() if enters]
    places = places_of(inputs, sink, lambda place: _resolved(spark, place))
    offsets = Directory(f"{checkpoint}/spark/offsets")
    # a batch that has failed is run again with what it was begun with
    facts = store.fitting(program, beside_streams, places, has_read=any(offsets.listed()))
    settings = Settings(spark.sparkContext.applicationId, root_of_store, slots)
    beside: list[DataFrame] = []
    spoken = Spoken()
    if may_be_told:
        controls = Controls(f"{checkpoint}/control")
        beside.append(controls.parcels(spark, program))
        spoken = Spoken.of(controls, program.schema, dial)
    if isinstance(feedback, Topic):
        beside.append(FeedbackTopic(spark, feedback).parcels(program))
    elif isinstance(feedback, str):
        beside.append(Controls(_resolved(spark, feedback)).parcels(spark, program))
    if heartbeat is not None:
        beside.append(beats(spark, program, heartbeat))
    tells = None if feedback_to is None else Feedback(_telling(spark, feedback_to))
    handle = SparkQuery(program, settings, sink, facts["query"], spoken, feedback=tells)

    def write(frame: DataFrame, batch: int) -> None:
        tell_tasks(spark, time_of(offsets, batch))
        with sink.published(frame, program.schema) as left:
            parcels = [p for rows in left.toArrow().to_batches() for p in from_arrow(rows)]
        handle.take_in(batch, parcels)

    with _keeping_memory(spark):
        answer = lowered(spark, program, inputs, settings, sink, beside=beside)
    writer = answer.writeStream.foreachBatch(write).option("checkpointLocation", f"{checkpoint}/spark")
    # nobody has refused: what is not begun leaves the checkpoint to another query
    store.begin(facts)
    with _planned_once(spark):
        handle.begun(writer.trigger(**trigger).start())
    return handle


@contextmanager
def _keeping_memory(spark: SparkSession) -> Iterator[None]:
    """Functions for workers that are made now run in workers which keep their memory."""
    environment: dict[str, Any] = spark.sparkContext.environment
    with _STARTING:
        before = dict(environment)
        # what the driver's own environment says holds for workers, too, where they are its children
        environment.update({name: value for name, value in KEPT.items() if name not in os.environ})
        environment.update(before)
        try:
            yield
        finally:
            environment.clear()
            environment.update(before)


@contextmanager
def _planned_once(spark: SparkSession) -> Iterator[None]:
    """A query that is started now is not planned again between its stages.

    How rows are spread is part of the state, so there is nothing to adapt, and a job for every stage
    costs some 50 ms. The query gets a copy of the session's settings when it starts.
    """
    with _STARTING:
        before = spark.conf.get(_ADAPTIVE, None)
        spark.conf.set(_ADAPTIVE, "false")
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_ADAPTIVE)
            else:
                spark.conf.set(_ADAPTIVE, before)


def _telling(spark: SparkSession, to: str | Topic) -> Telling:
    """Where a query tells others what is past."""
    return FeedbackTopic(spark, to) if isinstance(to, Topic) else Controls(_resolved(spark, to))


def _may_quarantine(program: Program) -> bool:
    """Whether a bucket may find somebody whom none is to listen to."""
    merges = (node for node in walk(program.cut.root) if isinstance(node, Merge))
    return any(merge.policy.contradiction is QUARANTINE for merge in merges)


def _called(quarantined: Iterable[Quarantined]) -> dict[str, list[str]]:
    """Of what is merged, who is quarantined, by name."""
    by_streams: dict[str, list[str]] = {}
    for streams, called in sorted({(each.streams, each.called) for each in quarantined}):
        by_streams.setdefault(streams, []).append(called)
    return by_streams


def _standings_of(record: Mapping[str, Any] | None) -> Standings:
    """How a query stood behind a batch, from its record."""
    known = record or {}
    return Standings(**{each.name: known[each.name] for each in fields(Standings) if each.name in known})


def _resolved(spark: SparkSession, place: str) -> str:
    """A place as Spark understands it, wherever it is looked at from.

    A path without a scheme is one of the file system that the cluster works with, which need not be this
    machine's, and a relative one begins where the driver's Java does.
    """
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    try:
        path = jvm.org.apache.hadoop.fs.Path(place)
        files = path.getFileSystem(session.sessionState().newHadoopConf())
        return str(files.makeQualified(path).toString())
    except (Py4JJavaError, PySparkException) as problem:
        raise PlanError(
            f"Spark cannot use {place!r} as a directory",
            detail=str(problem).strip().partition("\n")[0],
            hint="a path, or a URI such as file:/path, s3a://bucket/path, hdfs://host/path",
        ) from problem
