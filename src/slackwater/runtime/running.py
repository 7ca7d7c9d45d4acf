"""An operator at work: it takes batches from its queues, and fills the queues of its readers.

It takes one batch from one of its queues, hands the rows and then the promises to its step, and puts
what comes out into the queues of its readers. It keeps what it has promised and drops ctis that say
nothing new; promises about other things go to the steps that have an answer for them.

Rows for which its expression has no value stop the query; with LEDGER they are set aside, and the step
never sees them. An adjust has its insert's payload, so it is set aside for the same reason.

Control elements other than promises pass an operator with one input in place. With several inputs they
would have to be aligned, and are refused there (tokens are, and never come here: controlled.py). An
external cti ends where an operator makes promises of it; the planner sees to it that none passes an
operator that would make its count wrong.

Where a dataflow is one of many that share a plan (`told`), how far the sources have come is told beside
the rows (`Reached`): operators that wait or forget by it hear of it, all pass it on. Over several inputs
the slowest and the furthest of them count.

Feedback goes the other way: a reader says of a port which payloads are no longer of interest to it. If
all readers of an operator say so, it is told of its inputs what follows from it for them
(plan/interest.py): that nothing of the kind comes any more, which is then so, and what it remembers of
it is forgotten; and it says so to who writes these. Not across an operator that takes the time from its
rows: it would stand still for the others. In the same way a merge says to inputs that lag behind that
events which end before its cti are of no interest.

Not here: who is next (dataflow.py), and what operators on a loop do with guesses (loops.py).

Paper 5 section 2 (operators and queues).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from slackwater.consistency import Dial
from slackwater.errors import PlanError
from slackwater.events import Batch, Control
from slackwater.ledger import Ledger
from slackwater.operators import Answer, Description, GivenUp, Step
from slackwater.operators.aggregate import Aggregate
from slackwater.operators.hopes import Hopes
from slackwater.operators.merge import Merge
from slackwater.operators.step import ClosingStep, CountingStep, PatternStep, ToldStep, TurnableStep
from slackwater.plan import nodes
from slackwater.plan.consequences import Changed, Consequences
from slackwater.plan.evaluation import NoValue
from slackwater.plan.interest import outdated_of, unwanted_of
from slackwater.plan.nodes import Align, AlterLifetime, Finalize, Fixpoint, Node, Source, walk
from slackwater.plan.rewrites import in_user_terms, promise_in_user_terms, user_name
from slackwater.promises import Promises
from slackwater.punctuations import ExternalCti, Promise, Punctuation, Reached, is_of_payloads
from slackwater.runtime.edge import RAISE, OnInvalid
from slackwater.runtime.induction import Induction
from slackwater.runtime.loops import Passage
from slackwater.runtime.queues import Queue
from slackwater.runtime.repetition import news_of, unsaid
from slackwater.speculation import ExternalPatterns, ExternalProgress, Speculative
from slackwater.times import BEGIN, INF, Times

__all__ = ["Running"]


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
    emits: Callable[[Batch], None] | None = None
    """who puts what it says into the queues of its readers, where that bears labels"""
    _closes: ClosingStep | None = field(init=False)
    """the step, if it closes a loop: to look for that every round costs more than a round of few rows"""

    def __post_init__(self) -> None:
        self._closes = self.step if isinstance(self.step, ClosingStep) else None

    @property
    def _closing(self) -> ClosingStep:
        assert self._closes is not None, "it closes a loop"
        return self._closes

    def take_sums(self, sums: Batch) -> None:
        """Rows that were combined elsewhere."""
        [queue] = self.inbound
        self.sums = queue.wanted(sums)

    @property
    def ready(self) -> bool:
        """Whether there is something to do."""
        # a loop, since this is asked of all operators before every turn
        for queue in self.inbound:  # noqa: SIM110
            if queue.batches:
                return True
        return False

    @property
    def waiting(self) -> int:
        """How many batches wait for it."""
        return sum(len(queue.batches) for queue in self.inbound)

    def run(self) -> None:
        """Take one batch from the first queue that has one, and emit what follows from it."""
        queue = next(queue for queue in self.inbound if queue.batches)
        if queue.behind_loop:
            batch = queue.take_gathered()
        else:
            batch = queue.take_all() if self.back else queue.take()
        self.serve(queue.port, batch)

    def serve(self, port: int, batch: Batch) -> None:
        """Emit what follows from a batch on one of its ports."""
        begun = time.perf_counter()
        answers, controls = self._answers(port, batch)
        self.spent += time.perf_counter() - begun
        self._emit(self._told(answers, controls))
        self._send_round(answers)
        for answer in answers:
            for unwanted, promise in answer.unwanted:
                # of a source's rows there is no work to be saved: the step drops them as it is
                if self.inbound[unwanted].writer is not None:
                    self.inbound[unwanted].forgo([promise])
            for outdated, before in answer.outdated:
                self.inbound[outdated].outdate(before)

    def _send_round(self, answers: Sequence[Answer]) -> None:
        """All in one batch: what is said to a guess that came behind rows goes behind them."""
        round_ = [answer.back for answer in answers if answer.back is not None]
        if not round_:
            return
        back = Batch.concat(round_)
        assert all(each.position == back.rows for each in back.controls), "rows go before the guess"
        for reader in self.back:
            reader.put(back)

    def wake(self) -> None:
        """Something has come from outside."""
        self._closing.on_wake(self.state)

    def settle(self) -> None:
        """Nothing is on its way any more: what sets out then on the loop that it closes."""
        answers = [self._closing.on_quiet(self.state)]
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
            self._closing.on_concluded(self.state, news)
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

    def repeat(self) -> None:
        """Tell those who write its inputs, and have begun anew, in what its readers have no interest."""
        for queue in self.outbound:
            if queue.unwanted is not None:
                self.forgo(queue.unwanted.punctuations())
        self.outdate()

    def detach(self, port: int) -> None:
        """An input of a merge is not listened to any longer."""
        assert isinstance(self.step, Merge), "only a merge can do without"
        self._emit(self._told([self.step.detach(self.state, port)], []))

    def quarantine(self, port: int, begun: int) -> None:
        """An input of a merge was found elsewhere to contradict the others."""
        assert isinstance(self.step, Merge), "only a merge can do without"
        self._emit(self._told([self.step.quarantine(self.state, port, begun)], []))

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
            # of the sources only what enters a loop can tell
            for port in range(len(self.inbound)):
                if port not in self.passage.origins:
                    self.reached[port] = Reached(INF, BEGIN)

    def _closed(self, port: int, told: Sequence[Promise]) -> list[Answer]:
        """What the step says to promises, of which some may be ctis."""
        patterns = [promise for promise in told if is_of_payloads(promise)]
        answers = []
        if patterns and isinstance(self.step, PatternStep):
            answers.append(self.step.on_patterns(self.state, port, patterns))
        ctis = [each for each in told if isinstance(each, Punctuation) and each.is_cti]
        return [*answers, *(self.step.on_punctuation(self.state, port, each) for each in ctis)]

    def _emit(self, out: Batch) -> None:
        self.rows_out += out.rows
        if self.emits is not None:
            self.emits(out)
        elif len(out):
            for reader in self.outbound:
                reader.put(out)

    def _answers(self, port: int, batch: Batch) -> tuple[list[Answer], list[Control]]:
        """What the step says to a batch; and what is passed on behind it."""
        self.rows_in += batch.rows
        said = self._said_to(port, batch.data())
        answers = [Answer(rows=said) if isinstance(said, Batch) else said]
        controls: list[Control] = []
        if batch.controls:
            patterns = [each.control for each in batch.controls if is_of_payloads(each.control)]
            answers += self._closed(port, patterns)
            if self.passage is not None:
                controls += self.passage.on_patterns(port, patterns)
        for placed in batch.controls:
            assert placed.position == batch.rows, "the edge puts control elements last"
            if is_of_payloads(placed.control):
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
            # guesses stay on their loop
            match told:
                case Speculative():
                    answers.append(self._closing.on_speculative(self.state, told))
                case ExternalProgress():
                    answers.append(self._closing.on_external_progress(self.state, told))
                case ExternalPatterns():
                    answers.append(self._closing.on_external_patterns(self.state, told))
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
            if answer.given_up is None:
                continue
            several = answer.given_up if isinstance(answer.given_up, tuple) else (answer.given_up,)
            for given_up in several:
                self._write_down(given_up)
        # before the control elements that mark a place: a promise may stand as early as it is kept
        promises = [promise for answer in answers for promise in answer.promises]
        rows = Batch.concat(parts or [Batch.empty(self.node.schema)])
        if not promises:
            return rows.followed_by(controls)
        patterns = [promise for promise in promises if is_of_payloads(promise)]
        if patterns and self.repeats:
            patterns = unsaid(self.promised, patterns, self.node.schema)
        self.promised, told = self.promised.strengthened_by(p for p in promises if not is_of_payloads(p))
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
            # what is said of several inputs is said of what comes out, and lives as that does
            several = len(self.inbound) > 1 or isinstance(self.node, nodes.Merge)
            follow = self.consequences.of_output if several else self.consequences.of_input
            during = follow(self.node, change).pairs()
        for each, detail, stretch in zip(rows, given_up.details, during, strict=True):
            element = promise_in_user_terms(each) if isinstance(each, Punctuation) else each
            self.ledger.write(
                element, reason=given_up.reason, place=self.place, detail=detail, during=stretch
            )

    @property
    def place(self) -> str:
        """Which operator this is, for people: there may be one such for every source."""
        about = user_name(self.node.describe())
        return f"{self.node.name} {about}".rstrip() + f" over {self.streams}"

    @property
    def streams(self) -> str:
        """What it is made of, for people."""
        sources = dict.fromkeys(n.stream_name for n in walk(self.node) if isinstance(n, Source))
        return ", ".join(sources)

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
