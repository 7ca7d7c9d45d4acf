"""Run a plan over scripted inputs, and hold what came out.

Inputs are given per stream (and then read in turn, a batch at a time) or as one script of
(stream, element) pairs in arrival order. Each batch is pushed, the dataflow runs until it is quiet, and
what arrives at the end is appended to the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, zip_longest
from operator import index
from typing import Any

from slackwater.admission import Admission
from slackwater.consistency import Dial
from slackwater.errors import InvalidElement, OperatorError, PlanError, SlackwaterError
from slackwater.events import Batch, Element, Stream
from slackwater.levels import HELD, NO_LEVEL, Level, Method, Showing, method_for
from slackwater.operators import Description, Now, wall_clock
from slackwater.plan.merges import merges_of
from slackwater.plan.nodes import Node, Source
from slackwater.plan.placement import the_dial
from slackwater.plan.properties import infer, is_disordered
from slackwater.plan.rewrites import user_name
from slackwater.promises import Promises
from slackwater.punctuations import Punctuation
from slackwater.runtime.controlled import Controlled, require_prefixes
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import RAISE, Edge, OnInvalid
from slackwater.runtime.output import Output
from slackwater.runtime.replicas import Entered, Replicas
from slackwater.runtime.running import Running
from slackwater.runtime.schedules import Schedule, require_schedule
from slackwater.times import BEGIN, INF, Duration

__all__ = ["Execution", "Inputs", "Snapshot", "Status", "run", "without_time"]

Inputs = Mapping[Source, Stream | Mapping[str, Stream]] | Iterable[tuple[Source, Element]]


class Execution:
    """A plan at work in this process: push elements in, and read what it says so far."""

    def __init__(
        self,
        root: Node,
        *,
        on_invalid: OnInvalid = RAISE,
        now: Now = wall_clock,
        turnable: bool = False,
        level: Level = NO_LEVEL,
    ) -> None:
        if level is not NO_LEVEL:
            require_prefixes(root, turnable=turnable)
        self._dial = the_dial(root) if turnable else None
        self._dataflow = Dataflow.of(
            root, on_invalid=on_invalid, now=_in_chronons(now), turnable=turnable
        )
        self._stopped_by: str | None = None
        self.output = Output(
            root.schema, self._dataflow.ledger, infer(root)[root], disordered=is_disordered(root)
        )
        self._root, self._on_invalid = root, on_invalid
        self._taken_in = (
            None if level is NO_LEVEL else {s.stream_name: 0 for s in self._dataflow.sources}
        )
        """of each stream how many elements, where states are marked"""
        self._counted = self._said_before = 0
        self.edges = {s: self._edge(s) for s in self._dataflow.sources if not s.replicated}
        self._replicas = {
            s: Replicas(s, self._edge, self._dataflow) for s in self._dataflow.sources if s.replicated
        }

    def read(self, source: Source, stream: Stream) -> Batch:
        """Elements of a source as a batch."""
        return (self.edges.get(source) or self._edge(source)).read(stream)

    def _edge(self, source: Source) -> Edge:
        ledger, consequences = self.output.ledger, self._dataflow.consequences
        return Edge(source, self._on_invalid, ledger, consequences)

    @property
    def sources(self) -> list[Source]:
        """The streams that it reads."""
        return [*self._dataflow.sources]

    def push(self, source: Source, stream: Stream, replica: str | None = None) -> list[Batch]:
        """Take in some elements as one batch; the batches that this adds to the output.

        Of a replicated stream, those of one replica. Nothing of what is detached, or quarantined: it is
        not judged either.
        """
        require_sources(self.sources, [source])
        self._refuse_when_stopped()
        if self._taken_in is not None:
            # it is counted here, and may be an iterator
            stream = self.read(source, stream)
        entrance = self._entrance(source, replica)
        if entrance is None:
            return []
        put, edge = entrance
        said: list[Batch] = []
        # until the batch is through: whatever ends it half way, what would follow could not be trusted
        self._stopped_by = "an interruption in the middle of a batch"
        try:
            for admitted in edge.admit(edge.read(stream)):
                put(admitted)
                self._dataflow.run_until_quiet()
                said += self._dataflow.take_output()
        except SlackwaterError as failure:
            self._stopped_by = failure.fact
            raise
        self._stopped_by = None
        for batch in said:
            self.output.append(batch)
        self.output.ends_here()
        if self._taken_in is not None:
            self._mark(self._taken_in, source, stream)
        return said

    def _mark(self, taken_in: dict[str, int], source: Source, batch: Stream) -> None:
        """All is quiet: what has been said is the answer to what has been taken in."""
        assert isinstance(batch, Batch), "it has been read"
        taken_in[source.stream_name] += batch.elements
        self._said_before += sum(each.elements for each in self.output.batches[self._counted :])
        self._counted = len(self.output.batches)
        self.output.marked.append((self._said_before, dict(taken_in), None))

    def _entrance(
        self, source: Source, replica: str | None
    ) -> tuple[Callable[[Batch], None], Edge] | None:
        """Where elements go, and what judges them before; None if nobody listens."""
        if source.replicated:
            found = self._replicas[source].of(replica)
            if found is None:
                return None
            port, edge = found
            if not self._dataflow.listens_to(source, port):
                return None
            return partial(self._dataflow.push_replica, source, port), edge
        _refuse_replica(source, replica)
        if not self._dataflow.hears(source):
            return None
        return partial(self._dataflow.push, source), self.edges[source]

    def turn(self, *, blocking: Duration | None = None, memory: Duration | None = None) -> list[Batch]:
        """Turn the dial, from the next element on; what is not given stays. What that releases."""
        if self._dial is None:
            raise PlanError(
                "the query was not opened to be turned",
                hint="open(turnable=True): it then has an Align and a Finalize to turn",
            )
        self._refuse_when_stopped()
        self._dial = self._dial.turned(blocking, memory)
        self._dataflow.turn(self._dial)
        return self._said()

    def detach(self, stream: Node, replica: str | None = None) -> list[Batch]:
        """An input of a merge has broken off: the merge goes on with the others. What that releases."""
        self._refuse_when_stopped()
        if isinstance(stream, Source) and stream in self._replicas:
            self._replicas[stream].detach(replica)
            return self._said()
        _refuse_replica(stream, replica)
        merge, port = self._input(stream)
        self._dataflow.detach(merge, port)
        return self._said()

    def attach(self, stream: Node, since: int = BEGIN, replica: str | None = None) -> list[Batch]:
        """An input of a merge begins anew: it tells every event that ends at that time or later."""
        self._refuse_when_stopped()
        if isinstance(stream, Source) and stream in self._replicas:
            self._replicas[stream].attach(replica, since)
            return self._said()
        _refuse_replica(stream, replica)
        merge, port = self._input(stream)
        for source in self._dataflow.attach(merge, port, since, self._dial):
            self.edges[source] = self._edge(source)
        return self._said()

    def _input(self, stream: Node) -> tuple[Running, int]:
        """Which input of which merge a stream is."""
        found = [
            (operator, port)
            for node, operator in zip(merges_of(self._root), self._dataflow.merges, strict=True)
            for port, child in enumerate(node.streams)
            if child is stream
        ]
        if len(found) != 1:
            raise PlanError(
                f"{stream.name} {stream.describe()} is not one input of a merge".replace("  ", " "),
                detail=f"it is an input of {len(found)} merges of this query",
                hint="detach(a) and attach(a) go with sw.merge(a, b, ...)",
            )
        return found[0]

    def ignore(self, *told: Punctuation) -> list[Batch]:
        """Rows with such payloads are no longer of interest: they need not be said, nor computed.

        What was said of them stays as it was, and is never settled. What that releases.
        """
        self._refuse_when_stopped()
        if self._taken_in is not None:
            raise PlanError(
                "a level of consistency for a query of which some rows are no longer of interest",
                detail="what is not said any more is missing in the answer to a prefix",
                hint="leave out ignore, or level",
            )
        schema = self.output.schema
        fitting = [without_time(each).fitted(schema) for each in told]
        self._dataflow.forgo(fitting)
        [self.output.ignored] = self._dataflow.unwanted
        return self._said()

    def _said(self) -> list[Batch]:
        said = self._dataflow.take_output()
        for batch in said:
            self.output.append(batch)
        self.output.ends_here()
        return said

    def _refuse_when_stopped(self) -> None:
        if self._stopped_by is not None:
            raise OperatorError(
                "the query has stopped",
                detail=f"it met: {self._stopped_by}",
                hint="open it again; what it met says whether sw.LEDGER helps",
            )

    def snapshot(self) -> Snapshot:
        """All that is remembered: plain data, to be written down before the next push changes it."""
        if self._stopped_by is not None:
            raise OperatorError(
                "the query has stopped, and what it remembers is of no use",
                detail=f"it met: {self._stopped_by}",
                hint="go on from a snapshot that was taken before",
            )
        return Snapshot(
            [edge.validator for edge in self.edges.values()],
            self._dataflow.snapshot(),
            self.output.promised,
            self._dial,
            self.output.ignored,
            [replicas.remembered() for replicas in self._replicas.values()],
            None if self._taken_in is None else dict(self._taken_in),
            self.output.highest,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on, perhaps in another process, from where `snapshot` was taken of the same plan.

        Marks go on counting what was taken in, and corrections are told by what had been said. The
        output has what is said from now on.
        """
        if self._taken_in is not None:
            if snapshot.taken_in is None:
                raise PlanError(
                    "how much had been taken in is not in the snapshot",
                    detail="it was taken of a query that was opened without a level of consistency",
                    hint="open it without a level, or with one from the beginning",
                )
            self._taken_in = dict(snapshot.taken_in)
        for edge, validator in zip(self.edges.values(), snapshot.edges, strict=True):
            edge.validator = validator
        self._dataflow.restore(snapshot.operators)
        for replicas, entered in zip(self._replicas.values(), snapshot.replicas, strict=True):
            replicas.restore(entered)
        self.output.promised = snapshot.promised
        if not self.output.batches:
            self.output.before = snapshot.highest
        self._dial = snapshot.dial
        self.output.ignored = snapshot.ignored
        self._dataflow.unwanted = [snapshot.ignored]

    def describe(self) -> list[Status]:
        """How every operator stands, sources first."""
        return [
            Status(
                operator.node.name,
                user_name(operator.node.describe()),
                operator.rows_in,
                operator.rows_out,
                operator.promised.cti,
                operator.describe(),
            )
            for operator in self._dataflow.operators
        ]


def _refuse_replica(stream: Node, replica: str | None) -> None:
    """Only of a stream that has replicas one can be named."""
    if replica is not None:
        raise PlanError(
            f"{stream.stream_name if isinstance(stream, Source) else stream.name} has no replicas",
            detail=f"replica={replica!r}",
            hint="sw.stream(..., replicated=True) has",
        )


def without_time(told: object) -> Punctuation:
    """A pattern that speaks of payloads, for ever; else refused."""
    if not isinstance(told, Punctuation):
        raise InvalidElement(
            f"{told!r} is no pattern",
            detail=f"it is of type {type(told).__name__}",
            hint="sw.punctuation(sensor=7), sw.punctuation(temp=sw.between(0, 20))",
        )
    if told.is_cti and told.before == INF:
        raise InvalidElement(
            "the whole answer would be ignored",
            detail=f"{told!r} speaks of every row",
            hint="name a column: sw.punctuation(sensor=7)",
        )
    if told.before != INF or told.since != BEGIN:
        raise InvalidElement(
            f"{told!r} speaks of rows for some time only",
            detail="what is of no interest is so for ever",
            hint="sw.punctuation(sensor=7) without a time; a window or sw.where chooses times",
        )
    return told


def _in_chronons(now: Now) -> Now:
    def told() -> int:
        time = now()
        if time != int(time):
            raise PlanError(
                "the clock does not tell whole chronons",
                detail=f"it says {time!r}",
                hint="an int: microseconds, if times are datetimes",
            )
        return int(time)

    return told


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an execution remembers between two pushes."""

    edges: list[Admission]
    """of each source: what it may still adjust, and what it has promised"""
    operators: list[Any]
    promised: Promises
    """what the output has promised"""
    dial: Dial | None = None
    """where the dial stands, if it can be turned"""
    ignored: Promises | None = None
    """what is of no interest any more"""
    replicas: list[Entered] = field(default_factory=list)
    """of each replicated source"""
    taken_in: dict[str, int] | None = None
    """of each stream how many elements, where states are marked"""
    highest: int = BEGIN
    """the highest sync of what the output has said"""


@dataclass(frozen=True, slots=True)
class Status:
    """How one operator stands: what went through it, what it has promised, what it remembers."""

    name: str
    settings: str
    rows_in: int
    rows_out: int
    promised: int
    state: Description


def run(
    root: Node,
    inputs: Inputs,
    *,
    batch: int = 1000,
    on_invalid: OnInvalid = RAISE,
    level: Level | None = None,
    by: Method | None = None,
    show: Showing | None = None,
    schedule: Schedule | None = None,
) -> Output:
    """Run the plan over the inputs, in batches of at most `batch` elements.

    With a level of consistency, a method or a schedule inputs wait in line, and operators take turns.
    """
    asked = level is not None or by is not None
    try:
        size = index(batch)
    except TypeError:
        size = 0
    if size < 1:
        raise PlanError("a batch holds one element or more", detail=f"batch={batch!r}")
    level, by = method_for(level, by)
    if show is not None and by is None:
        raise PlanError(
            f"show={show.value!r} where no level of consistency is asked for",
            detail="nothing is held then, and nothing is marked",
            hint="level=sw.INPUT_PREFIX_CONSISTENT, or by=sw.Tokens(100); or leave out show",
        )
    if schedule is not None:
        require_schedule(schedule)
    if not asked and schedule is None:
        execution = Execution(root, on_invalid=on_invalid)
        for arrival in _arrivals(execution, inputs, size):
            execution.push(*arrival)
        return execution.output
    controlled = Controlled(
        root, level=level, by=by, show=show or HELD, schedule=schedule, on_invalid=on_invalid
    )
    for source, stream, _ in _arrivals(controlled, inputs, size):
        controlled.offer(source, stream)
    controlled.run_until_quiet()
    return controlled.output


Arrival = tuple[Source, Batch, str | None]


def _arrivals(execution: Execution | Controlled, inputs: Inputs, size: int) -> Iterator[Arrival]:
    """Batches in the order in which they arrive."""
    sources = execution.sources
    if isinstance(inputs, Mapping):
        require_sources(sources, inputs)
        _require_all(sources, inputs)
        streams = [
            (source, execution.read(source, stream), replica)
            for source, given in inputs.items()
            for replica, stream in _by_replica(source, given)
        ]
        turns = zip_longest(*(stream.split(size) for _, stream, _ in streams))
        for turn in turns:
            for (source, _, replica), part in zip(streams, turn, strict=True):
                if part is not None:
                    yield source, part, replica
        return
    script = list(inputs)
    require_sources(sources, dict.fromkeys(source for source, _ in script))
    for source, run_of_one in groupby(script, key=lambda pair: pair[0]):
        for part in execution.read(source, (element for _, element in run_of_one)).split(size):
            yield source, part, None


def _by_replica(source: Source, given: Any) -> Iterator[tuple[str | None, Stream]]:
    """Of a replicated stream, what each replica tells."""
    if not source.replicated:
        yield None, given
        return
    if not isinstance(given, Mapping):
        raise PlanError(
            f"{source.stream_name} has replicas, and it is not said which of them tells what",
            detail=f"its input is of type {type(given).__name__}",
            hint='run({stream: {"a": elements, "b": elements}})',
        )
    yield from given.items()


def require_sources(sources: Sequence[Source], given: Iterable[Source]) -> None:
    names = ", ".join(source.stream_name for source in sources)
    for source in given:
        if source not in sources:
            raise PlanError(
                f"the query does not read {getattr(source, 'stream_name', source)!r}",
                detail=f"it reads: {names}",
                hint="inputs are given by the stream objects that the query was built from",
            )


def _require_all(sources: Sequence[Source], given: Mapping[Source, object]) -> None:
    for source in sources:
        if source not in given:
            raise PlanError(
                f"no input for {source.stream_name!r}",
                detail="the query reads it",
                hint="give [] for a stream that says nothing",
            )
