"""Paper 5's examples: Figures 1, 2 and 4, and what each level and method makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

import slackwater as sw
from slackwater.events import Element
from slackwater.runtime import Output
from slackwater.runtime.queues import Queue
from slackwater.runtime.schedules import BottomUp
from slackwater.testing.visible import Anomaly, Log, anomalies, answer_of

INSERTS = sw.StreamProperties(insert_only=True)


def _input(name: str, **column: type) -> sw.Query:
    return sw.stream(column, name=name, properties=INSERTS)


def _rows(name: str, *values: object) -> list[Element]:
    return [sw.insert(0, None, **{name: value}) for value in values]


@dataclass(frozen=True)
class Script:
    """Turns as a test writes them: workers by their place, inputs first, and the port that is read."""

    turns: Sequence[tuple[int, int]]

    def begin(self) -> _Played:
        return _Played(list(self.turns))


@dataclass
class _Played:
    left: list[tuple[int, int]]
    port: int = 0

    def next(self, workers: Sequence[Any]) -> Any:
        if not self.left:
            return BottomUp().next(workers)
        place, self.port = self.left.pop(0)
        assert workers[place].ready, f"{workers[place]} has nothing to do"
        return workers[place]

    def pick(self, queues: Sequence[Queue]) -> Queue:
        return next((queue for queue in queues if queue.port == self.port), queues[0])


def _played(script: str) -> Script:
    """`A` lets an arrival of the first input in, `1<B` has the first operator read its second port."""
    places = {"A": 0, "B": 1, "1": 2, "2": 3, "3": 4, "4": 5}
    turns = []
    for word in script.split():
        who, _, port = word.partition("<")
        turns.append((places[who], "ABC".index(port) if port else 0))
    return Script(turns)


@dataclass(frozen=True)
class Figure:
    """An example: the query, what arrives, and turns that show half of something."""

    query: sw.Query
    inputs: dict[sw.Query, list[Element]]
    script: str

    def run(self, **asked: Any) -> Output:
        """As the figure has it, one arrival at a time, unless something else is asked for."""
        chosen: dict[str, Any] = {"batch": 1, "schedule": _played(self.script)} | asked
        return self.query.run(self.inputs, **chosen)

    def log(self, out: Output, **asked: Any) -> Log:
        return Log.of(out, self.inputs, **asked)

    def wrong(self, log: Log, level: sw.Level = sw.INPUT_PREFIX_CONSISTENT) -> list[Anomaly]:
        return anomalies(log, level, answer_of(self.query, *self.inputs))


def _said(elements: Iterable[Element]) -> list[str]:
    """`al` for the pair of a and l."""
    return ["".join(map(str, e.payload.values())) for e in elements if isinstance(e, sw.Insert)]


def figure_1() -> Figure:
    """One join: a and b on the left, k and l on the right."""
    left, right = _input("A", x=str), _input("B", y=str)
    inputs = {left: _rows("x", "a", "b"), right: _rows("y", "k", "l")}
    return Figure(left.join(right), inputs, "A A B B 1<A 1<A 1<B 1<B")


def figure_2() -> Figure:
    """l takes two ways: it is joined with a and b by O1, and goes on as l' by O2."""
    left, right = _input("A", x=str), _input("B", y=str)
    o1 = left.join(right)
    o2 = right.select(x=sw.col("y") + "'", y="y")
    inputs = {left: _rows("x", "a", "b"), right: _rows("y", "k", "l", "m")}
    # k is worked off everywhere; then O2 and O3 are ahead with l
    script = "A A B 1<A 1<A 1<B 2 3<A 3<B B 2 3<B"
    return Figure(o1.union(o2), inputs, script)


def figure_4() -> Figure:
    """b2 is remembered by O1, where a2 meets it, and has still to be read by O2."""
    left, right = _input("A", i=int), _input("B", j=int)
    o1 = left.join(right, where=sw.col("i") == sw.col("j"))
    o2 = left.join(right, where=sw.col("i") < sw.col("j"))
    inputs = {left: _rows("i", 1, 2), right: _rows("j", 1, 2)}
    script = "A 1<A 2<A B 1<B 2<B 3<A B 1<B A 1<A 2<A 3<A"
    return Figure(o1.union(o2), inputs, script)


FIGURES = {"1": figure_1, "2": figure_2, "4": figure_4}
each_figure = pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
SHUFFLED = [sw.Shuffled(seed) for seed in range(6)]


def test_figure_1_the_output_before_bl() -> None:
    figure = figure_1()
    out = figure.run(by=sw.Heeding(), show=sw.MARKED)
    assert _said(out) == ["ak", "bk", "al", "bl"]
    every = figure.log(out, every=True)
    # in this order ak is half of what follows from k; it is also the answer to a and k
    for level, wrong in {
        sw.UPDATE_COMPLETE: [1, 3],
        sw.INPUT_PREFIX_UPDATE_COMPLETE: [1, 3],
        sw.INPUT_PREFIX_CONSISTENT: [3],
    }.items():
        assert [each.state.said for each in figure.wrong(every, level)] == wrong
    assert [mark.said for mark in out.marks] == [2, 4]


def test_section_3_the_order_of_reading_decides_what_an_atomic_unit_is() -> None:
    """Without k: l before a and b gives al, then bl; a and b before l give both at once."""
    figure = figure_1()
    _left, right = figure.inputs
    figure.inputs[right][:] = _rows("y", "l")
    complete = {}
    for script in ("B 1 A 1 A 1", "A A 1 1 B 1"):
        out = figure.run(by=sw.Heeding(), show=sw.MARKED, schedule=_played(script))
        assert sorted(_said(out)) == ["al", "bl"]
        wrong = figure.wrong(figure.log(out, every=True), sw.UPDATE_COMPLETE)
        complete[script] = [n for n in range(3) if n not in {each.state.said for each in wrong}]
        # from outside the two cannot be told apart: each state is the answer to some prefix
        assert not figure.wrong(figure.log(out, every=True))
    assert complete == {"B 1 A 1 A 1": [0, 1, 2], "A A 1 1 B 1": [0, 2]}


def test_figure_2_an_operator_has_not_seen_l_yet() -> None:
    figure = figure_2()
    out = figure.run()
    assert _said(out)[:4] == ["ak", "bk", "k'k", "l'l"]
    wrong = figure.wrong(figure.log(out, every=True))
    assert 4 in {each.state.said for each in wrong}, "l' is there, and neither al nor bl"
    out = figure.run(by=sw.Heeding(), show=sw.MARKED)
    assert next(mark.said for mark in out.marks) == 3
    assert 4 not in {mark.said for mark in out.marks}


def test_figure_4_active_labels_alone_do_not_tell() -> None:
    figure = figure_4()
    out = figure.run(by=sw.Heeding(), show=sw.MARKED)
    assert _said(out) == ["11", "22", "12"]
    assert out.origins == [(0, ("B", 1)), (1, ("A", 2)), (2, ("B", 2))]
    # passively b2 is in 22: something of it is there while it is on its way
    assert [(mark.said, dict(mark.offsets)) for mark in out.marks] == [
        (1, {"A": 1, "B": 1}),
        (3, {"A": 2, "B": 2}),
    ]
    active = figure.run(level=sw.INPUT_PREFIX_UPDATE_COMPLETE, by=sw.Heeding(), show=sw.MARKED)
    assert [mark.said for mark in active.marks] == [1, 2, 3]


def test_figure_4_is_a_state_of_definition_2_and_of_no_prefix() -> None:
    """Definition 2 speaks of what is actively derived, so it does not imply Definition 3."""
    figure = figure_4()
    every = figure.log(figure.run(by=sw.Heeding(), show=sw.MARKED), every=True)
    assert not figure.wrong(every, sw.UPDATE_COMPLETE)
    assert not figure.wrong(every, sw.INPUT_PREFIX_UPDATE_COMPLETE)
    assert [each.state.said for each in figure.wrong(every)] == [2]


@each_figure
def test_without_control_halves_are_seen(figure: Any) -> None:
    figure = figure()
    seen = [figure.wrong(figure.log(figure.run(schedule=each), every=True)) for each in SHUFFLED]
    assert any(seen)


@each_figure
@pytest.mark.parametrize(
    "by", [sw.Heeding(), sw.Heeding(sw.Search.SCAN), sw.Tokens(1), sw.Tokens(2), sw.Drain()], ids=repr
)
@pytest.mark.parametrize("show", [sw.HELD, sw.MARKED])
def test_what_is_marked_is_the_answer_to_the_prefix_that_it_names(
    figure: Any, by: Any, show: Any
) -> None:
    figure = figure()
    for schedule in [_played(figure.script), *SHUFFLED] if isinstance(by, sw.Heeding) else SHUFFLED:
        out = figure.run(by=by, show=show, schedule=schedule)
        assert not figure.wrong(figure.log(out))
        assert out.marks[-1].said == len(out), "in the end all is right"
        assert out.as_history() == figure.query.meaning(figure.inputs)


@each_figure
@pytest.mark.parametrize("level", [sw.UPDATE_COMPLETE, sw.INPUT_PREFIX_UPDATE_COMPLETE])
def test_the_weaker_levels_are_what_they_say(figure: Any, level: sw.Level) -> None:
    figure = figure()
    for schedule in SHUFFLED:
        out = figure.run(level=level, by=sw.Heeding(), schedule=schedule)
        assert not figure.wrong(figure.log(out), level)
        assert len(out) == out.marks[-1].said


@each_figure
@pytest.mark.parametrize("by", [sw.Tokens(1, in_step=True), sw.Tokens(3, in_step=True), sw.Drain()])
def test_inputs_in_step_are_at_one_time(figure: Any, by: Any) -> None:
    figure = figure()
    # read in turn, one at a time
    times = {stream: [2 * n + k for n in range(9)] for k, stream in enumerate(figure.inputs)}
    for schedule in SHUFFLED:
        out = figure.run(level=sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, by=by, schedule=schedule)
        log = Log.of(out, figure.inputs, times={s: times[s][: len(i)] for s, i in figure.inputs.items()})
        assert not anomalies(
            log, sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, answer_of(figure.query, *figure.inputs)
        )


def test_inputs_that_are_not_in_step_are_not() -> None:
    """Else the test above could not fail."""
    figure = figure_1()
    times = {stream: [2 * n + k for n in range(2)] for k, stream in enumerate(figure.inputs)}
    found = []
    for schedule in SHUFFLED:
        log = Log.of(figure.run(by=sw.Tokens(1), schedule=schedule), figure.inputs, times=times)
        found += anomalies(
            log, sw.SYNCHRONIZED_INPUT_PREFIX_CONSISTENT, answer_of(figure.query, *figure.inputs)
        )
    assert found


def test_what_is_not_said_leaves_a_trace() -> None:
    """r keeps l from being shown alone; on another way r is not seen yet.

    No label of what is said knows of r. Without a trace the state with l (from the union) would be
    called the answer to l alone, which is l twice.
    """
    left, right = _input("A", x=str), _input("B", x=str)
    query = left.join(right, on="x", how="anti").union(left, right.where(sw.col("x") != ""))
    inputs = {left: _rows("x", "l"), right: _rows("x", "l")}
    # r enters and is remembered by the anti join; l is suppressed, and shown on its second way
    figure = Figure(query, inputs, "B 1<B A 1<A 3<B")
    for schedule in [_played(figure.script), *SHUFFLED]:
        out = figure.run(by=sw.Heeding(), show=sw.MARKED, schedule=schedule)
        assert not figure.wrong(figure.log(out))


def test_who_remembers_nothing_passes_a_trace_on() -> None:
    """As above, with a condition behind the anti join, which has nothing to say to no rows."""
    left, right = _input("A", x=str), _input("B", x=str)
    some = sw.col("x") != ""
    query = left.join(right, on="x", how="anti").where(some).union(left, right.where(some))
    inputs = {left: _rows("x", "l"), right: _rows("x", "l")}
    figure = Figure(query, inputs, "B 1<B 2 A 1<A 2 4<B")
    for schedule in [_played(figure.script), *SHUFFLED]:
        out = figure.run(by=sw.Heeding(), show=sw.MARKED, schedule=schedule)
        assert not figure.wrong(figure.log(out))


def test_a_join_leaves_a_trace_once_something_was_taken_back() -> None:
    """l is gone when its partner comes to the join, and is shown alone with it behind the join.

    No label of what is said knows that l was removed. Without a trace the state would be called the
    answer to l and its partner, which is a pair as well.
    """
    left, right = (sw.stream({"x": str}, name=name) for name in "AB")
    query = left.join(right, on="x").union(right, left)
    removed: list[Element] = [sw.insert(0, None, x="l"), sw.adjust(0, None, 0, x="l")]
    figure = Figure(query, {left: removed, right: _rows("x", "l")}, "A 1<A 2<C A 1<A B 1<B 2<B")
    for schedule in [_played(figure.script), *SHUFFLED]:
        out = figure.run(by=sw.Heeding(), show=sw.MARKED, schedule=schedule)
        assert not figure.wrong(figure.log(out))
