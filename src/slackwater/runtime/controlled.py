"""A plan at work under a schedule, where a user may see what half of an input leads to, or may not.

Inputs arrive and wait in line; an emitter lets them in, one arrival at a time, when it is its turn.
Operators take turns with emitters and with each other, and whatever one emits is on its way at once. So
an arrival that takes two ways through the plan is seen on one of them first, unless a method keeps the
level: see levels.py for the methods, labels.py and tokens.py for how they work.

(Who pushes batches into an `Execution` drains it: that is the method of this name, and needs no more.)

Paper 5 sections 2 (emitters, queues, the scheduler) and 4 (draining).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from slackwater.consistency import Clock, OutputLatency
from slackwater.errors import PlanError
from slackwater.events import Batch, Stream
from slackwater.levels import (
    HELD,
    MARKED,
    NO_LEVEL,
    Drain,
    Heeding,
    Level,
    Method,
    Showing,
    Tokens,
)
from slackwater.plan.nodes import Align, Cleanse, Finalize, Fixpoint, Merge, Node, Sort, Source, walk
from slackwater.plan.properties import infer, is_disordered, output_latencies
from slackwater.plan.rewrites import rewritten
from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import RAISE, Edge, OnInvalid
from slackwater.runtime.labels import Heeded
from slackwater.runtime.output import Output
from slackwater.runtime.period import Beat
from slackwater.runtime.queues import Queue
from slackwater.runtime.running import Running
from slackwater.runtime.schedules import RoundRobin, Schedule, Turns
from slackwater.runtime.shown import Shown
from slackwater.runtime.tokens import Metronome, Token, is_token, put_token

__all__ = ["Controlled", "less_than_the_answer", "require_prefixes"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """What came at once, and when: times are numbers of arrivals, over all inputs."""

    time: int
    elements: int
    batches: tuple[Batch, ...]


@dataclass(eq=False, slots=True)
class Emitter:
    """What has arrived of one input and is still to be let in."""

    place: int
    name: str
    entrances: list[Queue]
    control: Controlled = field(repr=False)
    line: deque[Arrival] = field(default_factory=deque)
    emitted: list[int] = field(default_factory=lambda: [0])
    """how many elements there are in its first arrivals"""
    spent: float = 0.0
    heeded: Heeded | None = None

    @property
    def ready(self) -> bool:
        """Whether somebody is in line, and may enter."""
        return bool(self.line) and self.control.may_enter(self)

    @property
    def waiting(self) -> int:
        """How many are in line."""
        return len(self.line)

    def run(self) -> None:
        """Let one in."""
        arrival = self.line.popleft()
        self.emitted.append(self.emitted[-1] + arrival.elements)
        if self.heeded is not None:
            self.heeded.enters(self.place, len(self.emitted) - 1, arrival.batches)
        else:
            for batch in arrival.batches:
                for queue in self.entrances:
                    queue.put(batch)
        self.control.has_entered(self, arrival)


@dataclass(eq=False, slots=True)
class Operator:
    """An operator that chooses what it reads, waits for tokens, and passes them on."""

    running: Running
    turns: Turns
    serve: Callable[[int, Batch], None]
    """work at a batch of one of its inputs"""

    @property
    def ready(self) -> bool:
        """Whether a queue can be read, or all of them have come to a token."""
        queues = self.running.inbound
        some = [queue.batches[0] for queue in queues if queue.batches]
        return len(some) == len(queues) or not all(map(is_token, some))

    @property
    def waiting(self) -> int:
        """How many batches are in its queues."""
        return self.running.waiting

    @property
    def spent(self) -> float:
        """Seconds that its step has taken."""
        return self.running.spent

    def run(self) -> None:
        """Take a batch from an input, or the token from all."""
        running = self.running
        some = [queue for queue in running.inbound if queue.batches and not is_token(queue.batches[0])]
        if not some:
            [number] = {_number(queue.batches.popleft()) for queue in running.inbound}
            put_token(running.outbound, number)
            return
        queue = some[0] if len(some) == 1 else self.turns.pick(some)
        self.serve(queue.port, queue.take())


def _number(token: Batch) -> int:
    [(_, control)] = token.controls
    assert isinstance(control, Token), "all queues have come to a token"
    return control.number


class Controlled:
    """A plan whose inputs wait in line, and whose operators take turns."""

    def __init__(
        self,
        root: Node,
        *,
        level: Level = NO_LEVEL,
        by: Method | None = None,
        show: Showing = HELD,
        schedule: Schedule | None = None,
        on_invalid: OnInvalid = RAISE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        _require_controllable(root)
        if by is not None:
            _require_whole_answers(root)
        schedule = schedule or RoundRobin()
        self._clock, self._by = clock, by
        self._dataflow = Dataflow.of(root, on_invalid=on_invalid)
        self.output = Output(
            root.schema, self._dataflow.ledger, infer(root)[root], disordered=is_disordered(root)
        )
        self._shown = Shown(self.output, MARKED if by is None else show)
        sources = self._dataflow.sources
        self._emitters = {
            source: Emitter(place, source.stream_name, self._dataflow.entrances(source), self)
            for place, source in enumerate(sources)
        }
        self._names = [source.stream_name for source in sources]
        self.output.arrivals = {each.name: each.emitted for each in self._emitters.values()}
        self._edges = {
            source: Edge(source, on_invalid, self.output.ledger, self._dataflow.consequences)
            for source in sources
        }
        self._turns = schedule.begin()
        self._operators = [Operator(each, self._turns, each.serve) for each in self._dataflow.operators]
        self._workers: list[Emitter | Operator] = [*self._emitters.values(), *self._operators]
        self._arrived = 0
        self._outside = 0
        """elements that have not been let in"""
        self._entered = 0
        """the time of the latest arrival that was let in"""
        self._is_marked = True
        self._metronome = Metronome(by) if isinstance(by, Tokens) else None
        self._heeded = self._labels(level, by) if isinstance(by, Heeding) else None

    def _labels(self, level: Level, by: Heeding) -> Heeded:
        entrances = [emitter.entrances for emitter in self._emitters.values()]
        heeded = Heeded(level, by.search, self._dataflow.operators, entrances)
        for emitter in self._emitters.values():
            emitter.heeded = heeded
        for operator in self._operators:
            operator.serve = heeded.attended(operator.running)
        return heeded

    @property
    def sources(self) -> list[Source]:
        """The streams that it reads."""
        return [*self._emitters]

    @property
    def beats(self) -> list[Beat]:
        """Of every token that has come out, how long it took."""
        return [] if self._metronome is None else self._metronome.beats

    @property
    def backlog(self) -> int:
        """How many arrivals have not been let in."""
        return sum(emitter.waiting for emitter in self._emitters.values())

    @property
    def let_in(self) -> list[int]:
        """Of each input, how many arrivals have been let in."""
        return [len(emitter.emitted) - 1 for emitter in self._emitters.values()]

    def read(self, source: Source, stream: Stream) -> Batch:
        """Elements of a source as a batch."""
        return self._edges[source].read(stream)

    def offer(self, source: Source, stream: Stream) -> None:
        """Elements of a source arrive, at once and after all that came before."""
        edge = self._edges[source]
        batch = edge.read(stream)
        self._arrived += 1
        arrival = Arrival(self._arrived, batch.elements, tuple(edge.admit(batch)))
        self._outside += arrival.elements
        self._emitters[source].line.append(arrival)

    def step(self) -> bool:
        """One turn; whether there was anything to do."""
        worker = self._turns.next(self._workers)
        if worker is None:
            return False
        worker.run()
        self._listen()
        return True

    def run_until_quiet(self) -> None:
        """Until all that has arrived is worked off, and known to be."""
        while self.step() or self._ends():
            pass

    # what the method asks for

    def may_enter(self, emitter: Emitter) -> bool:
        """Whether the first in line may come in now."""
        if not isinstance(self._by, Drain):
            return True
        oldest = min(other.line[0].time for other in self._emitters.values() if other.line)
        return emitter.line[0].time == oldest and not any(each.ready for each in self._operators)

    def has_entered(self, emitter: Emitter, arrival: Arrival) -> None:
        """An arrival is in: is it time for a token?"""
        self._entered = max(self._entered, arrival.time)
        self._outside -= arrival.elements
        self._is_marked = False
        if self._metronome is not None:
            if self._metronome.is_due(arrival.elements):
                self._strike()
            self._let_tokens_in()

    def _strike(self) -> None:
        assert self._metronome is not None, "there are tokens"
        names = [emitter.name for emitter in self._emitters.values()]
        self._metronome.strike(names, self._entered, self._clock())

    def _let_tokens_in(self) -> None:
        """Those that are due where they are due."""
        metronome = self._metronome
        assert metronome is not None, "there are tokens"
        for emitter in self._emitters.values():
            due = metronome.due.setdefault(emitter.name, deque())
            while due:
                number, at = due[0]
                if metronome.tokens.in_step and emitter.line and emitter.line[0].time <= at:
                    break
                due.popleft()
                metronome.offsets[number][emitter.name] = emitter.emitted[-1]
                put_token(emitter.entrances, number)

    def _listen(self) -> None:
        """What has come out in this turn."""
        said = self._dataflow.take_output()
        if self._metronome is not None:
            for batch in said:
                if not is_token(batch):
                    self._shown.say(batch)
                    continue
                number = _number(batch)
                offsets = self._metronome.comes_out(number, self._outside, self._clock())
                self._shown.mark(offsets, number)
        elif self._heeded is not None:
            if said or self._heeded.is_due:
                self._heed(said, self._heeded)
        else:
            for batch in said:
                self._shown.say(batch)
            if isinstance(self._by, Drain) and not self._is_marked and self._is_quiet():
                self._mark_all()

    def _heed(self, said: Sequence[Batch], heeded: Heeded) -> None:
        """All that is said in one turn follows from one arrival."""
        for batch in said:
            origin, number, _, _ = heeded.current
            self._shown.say(batch, (self._names[origin], number))
        if heeded.is_due and heeded.is_right():
            self._shown.mark(heeded.latest)

    def _is_quiet(self) -> bool:
        return not any(operator.ready for operator in self._operators)

    def _mark_all(self) -> None:
        self._shown.mark({each.name: each.emitted[-1] for each in self._emitters.values()})
        self._is_marked = True

    def _ends(self) -> bool:
        """All is quiet: what is not behind a token gets one."""
        if self._metronome is None:
            return False
        if not self._metronome.since:
            # who hears from its reader what is of no interest may promise it when the token has passed
            if not self._shown.is_right:
                self._mark_all()
            return False
        self._strike()
        self._let_tokens_in()
        self._listen()
        return True


def require_prefixes(root: Node, *, turnable: bool = False) -> None:
    """Refuse plans whose answer, when all is quiet, is not that to what has been taken in."""
    if turnable:
        raise PlanError(
            "a level of consistency for a query that can be turned",
            detail="where the dial stands is no part of the prefix that a state names",
            hint="leave out turnable, or level",
        )
    _require_names(root)
    for node in _at_work(root):
        if isinstance(node, Merge):
            raise PlanError(
                "a level of consistency for a plan with a merge",
                detail="it goes as far as the input that is furthest, which is no prefix of each",
                hint="leave out level",
            )
        if isinstance(node, Align | Finalize) and node.clock is Clock.SYSTEM:
            raise PlanError(
                f"a level of consistency for a plan in which {node.name} goes by the clock",
                detail="what it says is no answer to a prefix of the input alone",
                hint="leave out level",
            )
    _require_whole_answers(root)


def _at_work(root: Node) -> Iterator[Node]:
    """All nodes as they will run: what a dial places, and what is done in each group."""
    return walk(rewritten(root))


def _require_names(root: Node) -> None:
    """Prefixes are named by their streams."""
    names = [node.stream_name for node in walk(root) if isinstance(node, Source)]
    for name in names:
        if names.count(name) > 1:
            raise PlanError(
                f"two streams are called {name!r}",
                detail="what is shown names the prefix of each",
                hint="sw.stream(..., name=...)",
            )


def _require_controllable(root: Node) -> None:
    """Refuse plans of which no operator alone knows when a prefix is worked off."""
    _require_names(root)
    hint = "push batches into query.open(): what is shown after each is right"
    for node in _at_work(root):
        if isinstance(node, Fixpoint):
            raise PlanError(
                "a schedule for a plan with a loop",
                detail="what goes round ends when all is quiet, and not when a token comes",
                hint=hint,
            )
        if isinstance(node, Merge):
            raise PlanError(
                "a schedule for a plan with a merge",
                detail="it goes as far as the input that is furthest, and waits for none",
                hint=hint,
            )
        if isinstance(node, Align | Finalize) and node.clock is Clock.SYSTEM:
            raise PlanError(
                f"a schedule for a plan in which {node.name} goes by the clock",
                detail="what it says is no answer to a prefix of the input alone",
                hint=hint,
            )


def _require_whole_answers(root: Node) -> None:
    """Refuse plans that show less than the answer to what they have read: there is no prefix to name."""
    problem = less_than_the_answer(root)
    if problem is not None:
        raise problem


def less_than_the_answer(root: Node) -> PlanError | None:
    """Why a plan shows less than the answer to what it has read, if it does."""
    for node, latency in output_latencies(rewritten(root)).items():
        if latency is not OutputLatency.EAGER and not isinstance(node, Source):
            return PlanError(
                f"a level of consistency at output latency {latency.value!r}",
                detail=f"{node.name} shows less than the answer to its input",
                hint="leave latency() out: sw.EAGER",
            )
    for node in _at_work(root):
        if isinstance(node, Cleanse | Sort) or (
            isinstance(node, Align) and (node.blocking or node.perfect)
        ):
            return PlanError(
                f"a level of consistency for a plan in which {node.name} holds rows back",
                detail=f"{node.describe() or 'in order'}: what is shown lacks what waits for promises",
                hint="leave out sort, cleanse, align and blocking, or let the reader of the answer wait",
            )
    return None
