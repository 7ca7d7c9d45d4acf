"""A running plan: operators, the queues between them, and a scheduler that runs one at a time.

A node that several others read is one operator whose output goes to several queues: it runs once. An
operator takes one batch from one of its queues, hands the rows and then the promises to its step, and
puts what comes out into the queues of its readers. The driver keeps what an operator has promised and
drops ctis that say nothing new; promises about other things go to the steps that have an answer for
them. A dataflow is quiet when all queues are empty.

Rows for which an operator's expression has no value stop the query; with LEDGER they are set aside, and
the operator never sees them. An adjust has its insert's payload, so it is set aside for the same reason.

Control elements other than promises pass an operator with one input in place. With several inputs they
would have to be aligned, which nobody does yet: they are refused there. An external cti ends where an
operator makes promises of it; the planner sees to it that none passes an operator that would make its
count wrong.

Where a dataflow is one of many that share a plan (`told`), how far the sources have come is told beside
the rows (`Reached`): operators that wait or forget by it hear of it, all pass it on. Over several inputs
the slowest and the furthest of them count.

The dial may be turned while all is quiet, between two batches.

Feedback goes the other way: a reader says of a port which payloads are no longer of interest to it, and
from then on such rows are not put into that queue. If all readers of an operator say so, it is told of
its inputs what follows from it for them (plan/interest.py): that nothing of the kind comes any more,
which is then so, and what it remembers of it is forgotten; and it says so to who writes these. Not
across an operator that takes the time from its rows: it would stand still for the others. In the same
way a merge says to inputs that lag behind that events which end before its cti are of no interest.

A plan may have loops: the operator of a fixpoint also writes into the queues of those that read its
argument. What operators on a loop do with guesses about the time is in loops.py.

Paper 5 section 2 (queues and schedulers).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
import polars as pl

from slackwater.consistency import Clock, Dial, OutputLatency
from slackwater.errors import PlanError
from slackwater.events import Batch, Control, Placed
from slackwater.ledger import Ledger
from slackwater.operators import Answer, Description, GivenUp, Now, Step, step_of, wall_clock
from slackwater.operators.aggregate import Aggregate
from slackwater.operators.hopes import Hopes
from slackwater.operators.merge import Merge
from slackwater.operators.step import ClosingStep, CountingStep, PatternStep, ToldStep, TurnableStep
from slackwater.plan import nodes
from slackwater.plan.consequences import Changed, Consequences
from slackwater.plan.evaluation import NoValue
from slackwater.plan.interest import outdated_of, takes_time_from_rows, unwanted_of
from slackwater.plan.nodes import (
    Align,
    AlterLifetime,
    Consistency,
    Finalize,
    Fixpoint,
    Latency,
    Node,
    Source,
    walk,
)
from slackwater.plan.properties import infer_at, output_latencies
from slackwater.plan.rewrites import in_user_terms, rewritten, user_name
from slackwater.promises import Promises
from slackwater.punctuations import Closings, ExternalCti, Promise, Punctuation, Reached, for_ever
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.runtime.induction import Induction
from slackwater.runtime.loops import Passage, loops_of, passages_of
from slackwater.runtime.repetition import may_repeat, news_of, unsaid
from slackwater.speculation import ExternalPatterns, ExternalProgress, Speculative
from slackwater.times import BEGIN, INF, Times

__all__ = ["Dataflow", "Running", "bottom_up", "fair"]


@dataclass(eq=False, slots=True)
class Queue:
    """Batches on their way to one port of an operator."""

    port: int
    schema: pl.Schema
    batches: deque[Batch] = field(default_factory=deque)
    writer: Running | None = None
    """None: a source"""
    unwanted: Promises | None = None
    """of which payloads nothing is to be put in any more, if anybody has said so"""
    leads_out: bool = False
    """whether its reader is the user, who is not promised either what was left out"""
    never_lengthens: bool = False
    """whether no event of the stream comes to end later than it was said to"""
    outdated: int = BEGIN
    """events that end before this time are not to be put in any more"""

    def put(self, batch: Batch) -> None:
        """Without the rows that are of no interest."""
        wanted = self.wanted(batch)
        if self.unwanted is not None:
            wanted = self._heard(wanted, self.unwanted)
        if len(wanted):
            self.batches.append(wanted)

    def take(self) -> Batch:
        """The first batch, without what has become of no interest while it waited."""
        return self.wanted(self.batches.popleft())

    def take_all(self) -> Batch:
        """All that is waiting, as one batch, up to the first that has control elements."""
        some = [self.take()]
        while self.batches and not some[-1].controls:
            some.append(self.take())
        return Batch.concat(some)

    def forgo(self, told: Sequence[Promise]) -> None:
        """Rows with such payloads are no longer of interest to the reader."""
        if self.unwanted is None:
            self.unwanted = Promises.of(self.schema)
        self.unwanted.add(told)
        waiting = [*self.batches]
        self.batches.clear()
        for batch in waiting:
            self.put(batch)
        if self.writer is not None:
            self.writer.forgo(told)

    def wanted(self, batch: Batch) -> Batch:
        """The rows that are of interest, with all control elements."""
        if batch.rows and self.outdated > BEGIN:
            past = np.maximum(batch.old_ve, batch.new_ve) < self.outdated
            batch = batch.where(~past) if past.any() else batch
        if self.unwanted is None or not batch.rows:
            return batch
        unwanted = self.unwanted.frontier(batch.payload) == INF
        return batch.where(~unwanted) if unwanted.any() else batch

    def outdate(self, before: int) -> None:
        """Events that end before a time are no longer of interest to the reader."""
        if not self.never_lengthens or before <= self.outdated:
            return
        # this is said with every cti: what waits is looked at when it is taken
        self.outdated = before
        if self.writer is not None:
            self.writer.outdate()

    def _heard(self, batch: Batch, unwanted: Promises) -> Batch:
        """What is promised for ever does not come anyway; users hear nothing of what was left out."""
        patterns = [each.control for each in batch.controls if _is_pattern(each.control)]
        if not patterns:
            return batch
        if not self.leads_out:
            unwanted.forget(for_ever(patterns))
            return batch
        left: list[Placed] = []
        for position, control in batch.controls:
            some = unwanted.news([control]) if _is_pattern(control) else [control]
            left += (Placed(position, each) for each in some)
        return replace(batch, controls=tuple(left))


@dataclass(eq=False, slots=True)
class Running:
    """One operator at work: its step, its state, its queues, and what it has promised."""

    node: Node
    step: Step
    state: Any
    inbound: list[Queue]
    ledger: Ledger
    consequences: Consequences
    on_invalid: OnInvalid = RAISE
    repeats: bool = False
    """whether its promises have to be compared with those that it has made"""
    keeps_time: bool = False
    """whether its rows tell it how far time is, so that none may be left out"""
    outbound: list[Queue] = field(default_factory=list)
    promised: Promises = field(default_factory=Promises)
    reached: list[Reached] = field(default_factory=list)
    """how far the sources have come, by port, where it is told"""
    rows_in: int = 0
    rows_out: int = 0
    spent: float = 0.0
    """seconds that its step has taken"""
    sums: Batch | None = None
    """rows that were combined elsewhere: they are taken in with the next batch"""
    passage: Passage | None = None
    """how it lets guesses through, if it is on a loop"""
    back: list[Queue] = field(default_factory=list)
    """where rows go round again, if it closes a loop"""

    def take_sums(self, sums: Batch) -> None:
        """Rows that were combined elsewhere."""
        [queue] = self.inbound
        self.sums = queue.wanted(sums)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        return any(queue.batches for queue in self.inbound)

    def run(self) -> None:
        """Take one batch from the first queue that has one, and emit what follows from it."""
        queue = next(queue for queue in self.inbound if queue.batches)
        begun = time.perf_counter()
        batch = queue.take_all() if self.back else queue.take()
        answers, controls = self._answers(queue.port, batch)
        self.spent += time.perf_counter() - begun
        self._emit(self._told(answers, controls))
        self._send_round(answers)
        for answer in answers:
            for port, promise in answer.unwanted:
                # of a source's rows there is no work to be saved: the step drops them as it is
                if self.inbound[port].writer is not None:
                    self.inbound[port].forgo([promise])
            for port, before in answer.outdated:
                self.inbound[port].outdate(before)

    def _send_round(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            if answer.back is not None:
                for reader in self.back:
                    reader.put(answer.back)

    def wake(self) -> None:
        """Something has come from outside."""
        assert isinstance(self.step, ClosingStep), "it closes a loop"
        self.step.on_wake(self.state)

    def settle(self) -> None:
        """Nothing is on its way any more: what sets out then on the loop that it closes."""
        assert isinstance(self.step, ClosingStep), "it closes a loop"
        answers = [self.step.on_quiet(self.state)]
        self._emit(self._told(answers, []))
        self._send_round(answers)

    def conclude(self, at_work: Mapping[Node, Running]) -> None:
        """Nothing is on its way any more: what the loop that it closes may promise of payloads then."""
        assert isinstance(self.node, Fixpoint), "it closes a loop"
        hopes: Hopes = self.state.hopes
        if not hopes.are_due:
            return
        induction = Induction(self.node, at_work, self.promised)
        news = news_of(self.promised, induction.proven(hopes.told), self.node.schema)
        hopes.heard, hopes.cost = 0, induction.cost
        self.promised.add(news)
        hopes.keep_beyond(self.promised)
        if news:
            assert isinstance(self.step, ClosingStep), "it closes a loop"
            self.step.on_concluded(self.state, news)
            out = Batch.empty(self.node.schema).followed_by(news)
            self._emit(out)
            self._send_round([Answer(back=out)])

    def turn(self, dial: Dial) -> None:
        """Wait and remember for so long from now on, if the dial has placed it."""
        if _is_turnable(self.node):
            assert isinstance(self.step, TurnableStep), "the dial has placed it"
            self._emit(self._told([self.step.on_turn(self.state, dial)], []))

    def forgo(self, told: Sequence[Promise]) -> None:
        """Some reader has no interest in such rows. If none has, they need not be there."""
        if self.keeps_time:
            return
        common = [*told]
        for queue in self.outbound if len(self.outbound) > 1 else ():
            common = [] if queue.unwanted is None else queue.unwanted.combined(common)
        for queue in self.inbound:
            asked = unwanted_of(self.node, queue.port, common)
            if asked:
                queue.forgo(asked)
                if isinstance(self.step, Merge):
                    answers = [self.step.forgo(self.state, asked)]
                else:
                    answers = self._closed(queue.port, asked)
                self._emit(self._told(answers, []))

    def outdate(self) -> None:
        """Some reader has no interest in events that end before some time. If none has, nor has it."""
        before = min(queue.outdated for queue in self.outbound)
        if self.keeps_time or before == BEGIN:
            return
        for queue in self.inbound:
            asked = outdated_of(self.node, queue.port, before)
            if asked is not None:
                queue.outdate(asked)

    def detach(self, port: int) -> None:
        """An input of a merge is not listened to any longer."""
        assert isinstance(self.step, Merge), "only a merge can do without"
        self._emit(self._told([self.step.detach(self.state, port)], []))

    def add_input(self, called: str, *, heeding: bool) -> None:
        """One more replica of the stream that a merge reads, which is to be attached."""
        assert isinstance(self.step, Merge), "only a merge reads replicas"
        self.step.add_input(self.state, called, heeding=heeding)
        self._add_queue()

    def _add_queue(self) -> None:
        [stream] = self.node.inputs
        self.inbound.append(Queue(len(self.inbound), stream.schema))
        self.reached.append(Reached(BEGIN, BEGIN))

    def restore_queues(self, queues: Sequence[tuple[Promises | None, int]]) -> None:
        """What is of no interest of each input; of a replicated stream there may be more of them."""
        while len(self.inbound) < len(queues):
            self._add_queue()
        for queue, each in zip(self.inbound, queues, strict=True):
            queue.unwanted, queue.outdated = each

    def attach(self, port: int, since: int) -> None:
        """An input of a merge begins anew, complete from that time on."""
        assert isinstance(self.step, Merge), "only a merge can do without"
        self._emit(self._told([self.step.attach(self.state, port, since)], []))

    def begin_anew(self) -> None:
        """As if nothing had ever come."""
        self.state = self.step.open()
        compares = self.repeats or isinstance(self.node, Fixpoint)
        self.promised = Promises.of(self.node.schema) if compares else Promises()
        self.reached = [Reached(BEGIN, BEGIN) for _ in self.inbound]
        if self.passage is not None:
            self.passage.begin_anew()

    def _closed(self, port: int, told: Sequence[Promise]) -> list[Answer]:
        """What the step says to promises, of which some may be ctis."""
        patterns = [promise for promise in told if _is_pattern(promise)]
        answers = []
        if patterns and isinstance(self.step, PatternStep):
            answers.append(self.step.on_patterns(self.state, port, patterns))
        ctis = [each for each in told if isinstance(each, Punctuation) and each.is_cti]
        return [*answers, *(self.step.on_punctuation(self.state, port, each) for each in ctis)]

    def _emit(self, out: Batch) -> None:
        self.rows_out += out.rows
        if len(out):
            for reader in self.outbound:
                reader.put(out)

    def _answers(self, port: int, batch: Batch) -> tuple[list[Answer], list[Control]]:
        """What the step says to a batch; and what is passed on behind it."""
        self.rows_in += batch.rows
        said = self._said_to(port, batch.data())
        answers = [Answer(rows=said) if isinstance(said, Batch) else said]
        controls: list[Control] = []
        patterns = [each.control for each in batch.controls if _is_pattern(each.control)]
        answers += self._closed(port, patterns)
        if self.passage is not None:
            controls += self.passage.on_patterns(port, patterns)
        for placed in batch.controls:
            assert placed.position == batch.rows, "the edge puts control elements last"
            if _is_pattern(placed.control):
                continue
            if isinstance(placed.control, Punctuation):
                answers.append(self.step.on_punctuation(self.state, port, placed.control))
                if self.passage is not None:
                    controls += self.passage.on_cti(port, placed.control.before)
            elif isinstance(placed.control, Speculative | ExternalProgress | ExternalPatterns):
                self._pass(port, placed.control, answers, controls)
            elif isinstance(placed.control, ExternalCti) and isinstance(self.step, CountingStep):
                answers.append(self.step.on_external_cti(self.state, port, placed.control))
            elif isinstance(placed.control, Reached):
                self._hear(port, placed.control, answers, controls)
            else:
                controls.append(self._carried(placed.control))
        return answers, controls

    def _pass(
        self,
        port: int,
        told: Speculative | ExternalProgress | ExternalPatterns,
        answers: list[Answer],
        controls: list[Control],
    ) -> None:
        """A guess about the time on its way round, or what one is made by: it passes, or is back."""
        if self.passage is None:
            assert isinstance(self.step, ClosingStep), "guesses stay on their loop"
            match told:
                case Speculative():
                    answers.append(self.step.on_speculative(self.state, told))
                case ExternalProgress():
                    answers.append(self.step.on_external_progress(self.state, told))
                case ExternalPatterns():
                    answers.append(self.step.on_external_patterns(self.state, told))
            return
        match told:
            case Speculative():
                controls += self.passage.on_speculative(port, told)
            case ExternalProgress():
                controls += self.passage.on_external_progress(told)
            case ExternalPatterns():
                controls += self.passage.on_external_patterns(port, told)

    def _hear(self, port: int, told: Reached, answers: list[Answer], controls: list[Control]) -> None:
        """The sources of one input have come so far: what follows from that, and for the readers."""
        together = _foremost if isinstance(self.node, nodes.Merge) else _together
        before = together(self.reached)
        self.reached[port] = told
        now = together(self.reached)
        if now == before:
            return
        if isinstance(self.step, ToldStep):
            answers.append(self.step.on_reached(self.state, now))
        controls.append(_moved(self.node, now))

    def _told(self, answers: list[Answer], controls: list[Control]) -> Batch:
        """What is said by these answers, with what is given up written down."""
        parts = [answer.rows for answer in answers if answer.rows is not None]
        for answer in answers:
            several = answer.given_up if isinstance(answer.given_up, tuple) else (answer.given_up,)
            for given_up in several:
                if given_up is not None:
                    self._write_down(given_up)
        # before the control elements that mark a place: a promise may stand as early as it is kept
        promises = [promise for answer in answers for promise in answer.promises]
        patterns = [promise for promise in promises if _is_pattern(promise)]
        if patterns and self.repeats:
            patterns = unsaid(self.promised, patterns, self.node.schema)
        self.promised, told = self.promised.strengthened_by(p for p in promises if not _is_pattern(p))
        rows = Batch.concat(parts or [Batch.empty(self.node.schema)])
        return rows.followed_by([*patterns, *told, *controls])

    def _said_to(self, port: int, rows: Batch) -> Batch | Answer:
        """What the step says to the rows for which its expressions have values."""
        while True:
            try:
                if self.sums is None:
                    return self.step.on_batch(self.state, port, rows)
                assert isinstance(self.step, Aggregate), "only sums can be combined"
                said = self.step.on_sums(self.state, rows, self.sums)
                self.sums = None
                return said
            except NoValue as problem:
                if self.on_invalid is RAISE:
                    [element] = rows.slice(problem.row, problem.row + 1)
                    raise problem.of(element) from problem
                failures = problem.failures()
            gone = np.zeros(rows.rows, dtype=np.bool_)
            gone[list(failures)] = True
            self._write_down(GivenUp(rows.where(gone), "no value", tuple(failures.values())))
            # another expression of the step may fail for others: ask until none does
            rows = rows.where(~gone)

    def _write_down(self, given_up: GivenUp) -> None:
        if given_up.error is not None and self.on_invalid is RAISE:
            raise given_up.error
        rows = replace(given_up.rows, payload=in_user_terms(given_up.rows.payload))
        assert not (rows.rows and rows.controls), "counts are given up by themselves"
        during: list[tuple[int, int]] | list[None] = [None] * len(given_up.details)
        if rows.rows:
            change = Changed(rows.vs, rows.old_ve, rows.new_ve)
            # what is said of two inputs is said of pairs, which live as what comes out does
            pairs = len(self.inbound) > 1
            follow = self.consequences.of_output if pairs else self.consequences.of_input
            during = follow(self.node, change).pairs()
        for element, detail, stretch in zip(rows, given_up.details, during, strict=True):
            self.ledger.write(
                element, reason=given_up.reason, place=self.place, detail=detail, during=stretch
            )

    @property
    def place(self) -> str:
        """Which operator this is, for people: there may be one such for every source."""
        sources = dict.fromkeys(n.stream_name for n in walk(self.node) if isinstance(n, Source))
        about = user_name(self.node.describe())
        return f"{self.node.name} {about}".rstrip() + f" over {', '.join(sources)}"

    def _carried(self, control: Control) -> Control:
        if len(self.inbound) > 1:
            raise PlanError(
                f"{self.node.name} cannot align {control!r}",
                detail=f"it reads {len(self.inbound)} streams, and the element came on one of them",
            )
        return control

    def describe(self) -> Description:
        """How its state stands."""
        return self.step.describe(self.state)


def _is_pattern(control: Control) -> TypeGuard[Promise]:
    """Whether it is a promise about more than time, which an operator may drop."""
    return isinstance(control, Closings) or (isinstance(control, Punctuation) and not control.is_cti)


def _together(ports: Sequence[Reached]) -> Reached:
    """The slowest and the furthest of several inputs."""
    return Reached(min(each.slowest for each in ports), max(each.furthest for each in ports))


def _foremost(ports: Sequence[Reached]) -> Reached:
    """Of inputs that tell the same, what the one says that has come furthest."""
    return Reached(max(each.slowest for each in ports), max(each.furthest for each in ports))


def _moved(node: Node, reached: Reached) -> Reached:
    """The same in the time of a node's output, which for the others is that of their input."""
    if not isinstance(node, AlterLifetime):
        return reached
    times: Times = np.array([reached.slowest, reached.furthest])
    moved = np.where(times == BEGIN, BEGIN, node.lifetime.starts(times))
    return Reached(*moved.tolist())


def _is_turnable(node: Node) -> bool:
    return isinstance(node, Align | Finalize) and node.turnable


def _goes_by_the_clock(node: Node) -> bool:
    return isinstance(node, Align | Finalize) and node.clock is Clock.SYSTEM


Scheduler = Callable[[Sequence[Running]], Running | None]


def bottom_up(operators: Sequence[Running]) -> Running | None:
    """The ready operator that is nearest to the sources; None if all is quiet."""
    return next((operator for operator in operators if operator.ready), None)


def fair(operators: Sequence[Running]) -> Running | None:
    """The ready operator that has taken the least time so far; None if all is quiet.

    So that of several plans for one query, which are read by a merge, each gets its share.
    """
    ready = (operator for operator in operators if operator.ready)
    return min(ready, key=lambda operator: operator.spent, default=None)


class Dataflow:
    """A plan in execution. Push batches into its sources, run until quiet, take the output.

    It may have several roots, each of them with an output of its own.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        latencies: Mapping[Node, OutputLatency],
        *,
        schedule: Scheduler = bottom_up,
        on_invalid: OnInvalid = RAISE,
        now: Now = wall_clock,
        told: bool = False,
        consequences: Consequences | None = None,
    ) -> None:
        for root in roots:
            if isinstance(root, Source) and root.replicated:
                raise PlanError(
                    f"{root.stream_name!r} has several replicas, and is not one stream",
                    hint="sw.merge(stream) makes one of them",
                )
        self._schedule = schedule
        self.consequences = consequences or Consequences(*roots)
        self.ledger = Ledger()
        self._entrances: dict[Node, list[Queue]] = {}
        self.operators: list[Running] = []
        outbound: dict[Node, list[Queue]] = {}
        order = list(walk(*roots))
        known = infer_at(latencies, *roots)
        arguments: set[Node] = {loop.argument for loop in loops_of(order)}
        # outermost first: what the user wrote is what a refusal should name
        steps = {
            node: step_of(node, latencies[node], now, told=told)
            for node in reversed(order)
            if not isinstance(node, Source | Consistency | Latency) and node not in arguments
        }
        passages = passages_of(order, latencies)
        for node in order:
            if isinstance(node, Source):
                self._entrances[node] = outbound[node] = []
            elif node in arguments:
                outbound[node] = []
            elif isinstance(node, Consistency | Latency):
                # annotations: stateless operators are the same at every point of the spectrum
                outbound[node] = outbound[node.input]
            else:
                step = steps[node]
                replicated = isinstance(node, nodes.Merge) and node.replicated is not None
                inbound = [
                    Queue(port, child.schema, never_lengthens=known[child].never_lengthens)
                    for port, child in enumerate(() if replicated else node.inputs)
                ]
                for child, queue in zip(() if replicated else node.inputs, inbound, strict=True):
                    outbound[child].append(queue)
                running = Running(
                    node, step, step.open(), inbound, self.ledger, self.consequences, on_invalid,
                    may_repeat(node, latencies[node]),
                    takes_time_from_rows(node, latencies[node]),
                )  # fmt: skip
                running.passage = passages.get(node)
                running.begin_anew()
                outbound[node] = running.outbound
                if isinstance(node, Fixpoint):
                    running.back = outbound[node.argument]
                self.operators.append(running)
        self._at_work = {running.node: running for running in self.operators}
        self._sinks = [Queue(0, root.schema, leads_out=True) for root in roots]
        for root, sink in zip(roots, self._sinks, strict=True):
            outbound[root].append(sink)
        for running in self.operators:
            for queue in running.outbound:
                queue.writer = running

    @classmethod
    def of(cls, root: Node, *, turnable: bool = False, **settings: Any) -> Dataflow:
        """A plan as it was written, rewritten so that it can run, and its dial turned if that is so."""
        root = rewritten(root, turnable=turnable)
        return cls([root], output_latencies(root), **settings)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The streams that it reads."""
        return tuple(node for node in self._entrances if isinstance(node, Source))

    def push(self, source: Node, batch: Batch) -> None:
        """Put a batch into the queues of a source's readers."""
        for queue in self._entrances[source]:
            queue.put(batch)

    def push_replica(self, source: Node, port: int, batch: Batch) -> None:
        """Put a batch of a replica into the queues of the merges that read it."""
        for merge in self._readers_of(source):
            merge.inbound[port].put(batch)

    def attach_replica(self, source: Node, port: int, called: str, since: int, *, heeding: bool) -> None:
        """A replica begins, complete from that time on: a new one, or one that was there before."""
        for merge in self._readers_of(source):
            if port == len(merge.inbound):
                merge.add_input(called, heeding=heeding)
            merge.attach(port, since)
        self.run_until_quiet()

    def detach_replica(self, source: Node, port: int) -> None:
        """A replica is not listened to any longer."""
        for merge in self._readers_of(source):
            merge.detach(port)
        self.run_until_quiet()

    def _readers_of(self, source: Node) -> list[Running]:
        """The merges of a replicated stream."""
        return [merge for merge in self.merges if merge.node.inputs == (source,)]

    def run_until_quiet(self) -> None:
        """Run operators until no queue holds anything.

        Time goes on also for those that nothing has reached: who goes by the clock is asked, too.
        """
        by_the_clock = [operator for operator in self.operators if _goes_by_the_clock(operator.node)]
        loops = [operator for operator in self.operators if operator.back]
        for loop in loops:
            loop.wake()
        while (operator := self._next(loops)) is not None:
            operator.run()
            if not operator.ready and operator in by_the_clock:
                by_the_clock.remove(operator)
        for operator in by_the_clock:
            for queue, child in zip(operator.inbound, operator.node.inputs, strict=True):
                queue.batches.append(Batch.empty(child.schema))
            while (ready := self._next(loops)) is not None:
                ready.run()

    def _next(self, loops: Sequence[Running]) -> Running | None:
        """The operator whose turn it is. If all is quiet, loops may send something out."""
        ready = self._schedule(self.operators)
        for loop in loops:
            if ready is not None:
                break
            loop.settle()
            ready = self._schedule(self.operators)
        for loop in loops:
            if ready is not None:
                break
            loop.conclude(self._at_work)
            ready = self._schedule(self.operators)
        return ready

    def run_sums(self) -> None:
        """Sums that are waiting, since nothing else has reached who is to take them in."""
        for operator in self.operators:
            if operator.sums is not None:
                [queue] = operator.inbound
                [child] = operator.node.inputs
                queue.batches.append(Batch.empty(child.schema))
        self.run_until_quiet()

    def turn(self, dial: Dial) -> None:
        """Turn the dial, between two batches."""
        assert not any(operator.ready for operator in self.operators), "it is turned when all is quiet"
        for operator in self.operators:
            operator.turn(dial)
            self.run_until_quiet()

    @property
    def merges(self) -> list[Running]:
        """The merges, inputs before readers."""
        return [operator for operator in self.operators if isinstance(operator.node, nodes.Merge)]

    def detach(self, merge: Running, port: int) -> None:
        """An input of a merge is not listened to any longer, until it is attached."""
        merge.detach(port)
        self.run_until_quiet()

    def attach(self, merge: Running, port: int, since: int) -> list[Source]:
        """An input of a merge begins anew, with all that leads to it alone: the sources among that."""
        own: list[Running] = []
        leading = {id(merge.inbound[port])}
        # readers before what they read
        for operator in reversed(self.operators):
            if operator.outbound and all(id(queue) in leading for queue in operator.outbound):
                own.append(operator)
                leading |= {id(queue) for queue in operator.inbound}
        for operator in own:
            operator.begin_anew()
        merge.attach(port, since)
        self.run_until_quiet()
        return [
            source
            for source, queues in self._entrances.items()
            if isinstance(source, Source) and queues and all(id(queue) in leading for queue in queues)
        ]

    def forgo(self, told: Sequence[Promise], root: int = 0) -> None:
        """Rows of an output with such payloads are no longer of interest."""
        assert not any(operator.ready for operator in self.operators), "it is said when all is quiet"
        self._sinks[root].forgo(told)
        self.run_until_quiet()

    def outdate(self, before: int, root: int = 0) -> None:
        """Events of an output that end before a time are no longer of interest.

        No event of it is ever lengthened: whoever says so knows that of the whole plan.
        """
        assert not any(operator.ready for operator in self.operators), "it is said when all is quiet"
        self._sinks[root].never_lengthens = True
        self._sinks[root].outdate(before)
        self.run_until_quiet()

    @property
    def unwanted(self) -> list[Promises | None]:
        """What of each output is of no interest any more, if anybody has said so."""
        return [sink.unwanted for sink in self._sinks]

    @unwanted.setter
    def unwanted(self, told: Sequence[Promises | None]) -> None:
        for sink, each in zip(self._sinks, told, strict=True):
            sink.unwanted = each

    @property
    def outdated(self) -> list[int]:
        """Before which time events of each output end that are of no interest."""
        return [sink.outdated for sink in self._sinks]

    @outdated.setter
    def outdated(self, before: Sequence[int]) -> None:
        for sink, each in zip(self._sinks, before, strict=True):
            sink.outdated = each

    def snapshot(self) -> list[Any]:
        """The state of every operator, inputs before readers, with what it has said and heard."""
        assert not any(operator.ready for operator in self.operators), "a snapshot is taken when quiet"
        return [
            (
                each.state,
                each.promised,
                each.reached,
                [(queue.unwanted, queue.outdated) for queue in each.inbound],
                *([] if each.passage is None else [each.passage.heard]),
            )
            for each in self.operators
        ]

    def restore(self, states: list[Any]) -> None:
        """Put the operators into the state of a snapshot of the same plan."""
        for operator, (state, promised, reached, queues, *heard) in zip(
            self.operators, states, strict=True
        ):
            operator.restore_queues(queues)
            operator.state, operator.promised, operator.reached = state, promised, reached
            if operator.passage is not None:
                [operator.passage.heard] = heard

    def take_output(self, root: int = 0) -> list[Batch]:
        """What has arrived at the end since this was asked last."""
        sink = self._sinks[root]
        out = list(sink.batches)
        sink.batches.clear()
        return out
