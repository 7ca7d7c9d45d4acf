"""A running plan: operators, the queues between them, and a scheduler that runs one at a time.

A node that several others read is one operator whose output goes to several queues: it runs once. What
an operator does when it is its turn is in running.py, what happens on the way between two in queues.py.
A dataflow is quiet when all queues are empty. The dial may be turned while all is quiet, between two
batches.

A plan may have loops: the operator of a fixpoint also writes into the queues of those that read its
argument. What operators on a loop do with guesses about the time is in loops.py.

Paper 5 section 2 (queues and schedulers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.consistency import Clock, Dial, OutputLatency
from slackwater.errors import PlanError
from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.operators import Now, step_of, wall_clock
from slackwater.plan import nodes
from slackwater.plan.consequences import Consequences
from slackwater.plan.interest import takes_time_from_rows
from slackwater.plan.nodes import Align, Consistency, Finalize, Fixpoint, Latency, Node, Source, walk
from slackwater.plan.properties import infer_at, output_latencies
from slackwater.plan.reading import columns_read
from slackwater.plan.rewrites import rewritten
from slackwater.promises import Promises
from slackwater.punctuations import Promise
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.runtime.loops import loops_of, passages_of
from slackwater.runtime.queues import Queue
from slackwater.runtime.repetition import may_repeat
from slackwater.runtime.running import Running
from slackwater.runtime.schedules import BOTTOM_UP, Schedule

__all__ = ["Dataflow"]


class Dataflow:
    """A plan in execution. Push batches into its sources, run until quiet, take the output.

    It may have several roots, each of them with an output of its own.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        latencies: Mapping[Node, OutputLatency],
        *,
        schedule: Schedule = BOTTOM_UP,
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
        self._turns = schedule.begin()
        self.consequences = consequences or Consequences(*roots)
        self.ledger = Ledger()
        self._entrances: dict[Node, list[Queue]] = {}
        self.operators: list[Running] = []
        outbound: dict[Node, list[Queue]] = {}
        order = list(walk(*roots))
        known = infer_at(latencies, *roots)
        arguments: set[Node] = {loop.argument for loop in loops_of(order)}
        # what a row has to be set aside for is written down with all of it
        read = columns_read(roots) if on_invalid is RAISE else {}
        # outermost first: what the user wrote is what a refusal should name
        steps = {
            node: step_of(node, latencies[node], now, told=told, read=read.get(node))
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
                queue.behind_loop = bool(running.back)

    @classmethod
    def of(cls, root: Node, *, turnable: bool = False, **settings: Any) -> Dataflow:
        """A plan as it was written, rewritten so that it can run, and its dial turned if that is so."""
        root = rewritten(root, turnable=turnable)
        return cls([root], output_latencies(root), **settings)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The streams that it reads."""
        return tuple(node for node in self._entrances if isinstance(node, Source))

    def entrances(self, source: Node) -> list[Queue]:
        """The queues of a source's readers."""
        return self._entrances[source]

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

    def listens_to(self, source: Node, port: int) -> bool:
        """Whether a merge listens to that replica: it may have been quarantined."""
        return any(merge.state.inputs.attached[port] for merge in self._readers_of(source))

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

    def wake(self) -> None:
        """Tell loops that something has come from outside; `run_until_quiet` does it by itself."""
        for operator in self.operators:
            if operator.back:
                operator.wake()

    def step(self) -> bool:
        """Let one operator run; whether there was anything to do.

        Between two steps more may be pushed: what is on a loop goes on beside it.
        """
        ready = self._next([operator for operator in self.operators if operator.back])
        if ready is not None:
            ready.run()
        return ready is not None

    def _next(self, loops: Sequence[Running]) -> Running | None:
        """The operator whose turn it is. If all is quiet, loops may send something out."""
        ready = self._turns.next(self.operators)
        for loop in loops:
            if ready is not None:
                break
            loop.settle()
            ready = self._turns.next(self.operators)
        for loop in loops:
            if ready is not None:
                break
            loop.conclude(self._at_work)
            ready = self._turns.next(self.operators)
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

    def quarantine(self, number: int, port: int, begun: int) -> None:
        """An input of one of the merges was found elsewhere to contradict the others."""
        self.merges[number].quarantine(port, begun)
        self.run_until_quiet()

    def attach(self, merge: Running, port: int, since: int, dial: Dial | None = None) -> list[Source]:
        """An input of a merge begins anew, with all that leads to it alone: the sources among that.

        The dial stays as it was turned.
        """
        own, sources = self._leading_to(merge, port)
        # what a merge that begins anew has said is past, it does not know any more
        told: set[int] = set()
        for operator in own:
            operator.begin_anew()
            if operator in self.merges or any(id(queue) in told for queue in operator.outbound):
                told |= {id(queue) for queue in operator.inbound}
                for queue in operator.inbound:
                    queue.begin_anew()
        for operator in own:
            if dial is not None:
                operator.turn(dial)
            if operator in self.merges:
                operator.repeat()
        merge.attach(port, since)
        self.run_until_quiet()
        return sources

    def _leading_to(self, merge: Running, port: int) -> tuple[list[Running], list[Source]]:
        """What leads to an input of a merge and to nothing else, readers before what they read."""
        own: list[Running] = []
        leading = {id(merge.inbound[port])}
        for operator in reversed(self.operators):
            if operator.outbound and all(id(queue) in leading for queue in operator.outbound):
                own.append(operator)
                leading |= {id(queue) for queue in operator.inbound}
        sources = [
            source
            for source, queues in self._entrances.items()
            if isinstance(source, Source) and queues and all(id(queue) in leading for queue in queues)
        ]
        return own, sources

    def hears(self, source: Source) -> bool:
        """Whether anybody listens to a stream: it may lead to an input alone that is detached."""
        return not any(
            source in self._leading_to(merge, port)[1]
            for merge in self.merges
            for port, is_attached in enumerate(merge.state.inputs.attached.tolist())
            if not is_attached
        )

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


def _goes_by_the_clock(node: Node) -> bool:
    return isinstance(node, Align | Finalize) and node.clock is Clock.SYSTEM
