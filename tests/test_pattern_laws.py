"""Promises about columns: every operator, every prefix, against what they permit (paper 4 section 5).

*Grammatical*: no element comes after a promise that forbids it. *Safety*: nothing is settled that some
permitted continuation contradicts. *Completeness*: everything is settled that every permitted
continuation implies. *Minimality*: nothing is said twice. *Keep*: what promises close is forgotten.

What is permitted, and what that implies, is decided by brute force (permitted.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import laws
from tests.pattern_laws import (
    CASES,
    SCHEMA,
    Trial,
    broken,
    by_time_alone,
    contradicted,
    drawn,
    open_from,
    repeated,
    unsettled,
)

import slackwater as sw
from slackwater.events import Control, Element, Stream
from slackwater.operators import runnable
from slackwater.patterns import Constant, OneOf
from slackwater.plan import nodes
from slackwater.punctuations import Punctuation
from slackwater.times import BEGIN

FEW = settings(max_examples=max(1, settings().max_examples // 8))

RARELY = st.sampled_from((False, False, True))

each_case = pytest.mark.parametrize("name", CASES)


def _cases(without: Mapping[str, str]) -> pytest.MarkDecorator:
    """The cases of a law, without those that it is not about."""
    return pytest.mark.parametrize("name", [name for name in CASES if name not in without])


WAIT_FOR_TIME = {
    "align": "it waits for time",
    "align, strong": "it waits for time",
    "cleanse": "rows come out in order of time, so all wait for one",
    "sort": "rows come out in order of a column; test_pattern_keep.py says what passes",
    "sort by two columns": "as above",
    "the dial: blocking": "align",
    "the dial: ultra": "cleanse",
}
"""Operators that hold back what promises about columns settle, and why: of time they are complete."""

INCOMPLETE = {
    **WAIT_FOR_TIME,
    "fixpoint to and fro": "a row stays that one of its derivations keeps for good, whatever becomes of "
    "others; what it would cost to know that is in docs/design/2026-11-18-recursion.md",
}
"""Operators that hold back what is settled, and why."""

WHOLE_KEYS: dict[str, tuple[str, ...]] = {
    "session": (),
    "session by key": ("k",),
    **{f"count, {latency.value}": () for latency in sw.OutputLatency},
    **{f"count by key, {latency.value}": ("k",) for latency in sw.OutputLatency},
}
"""Where every row of a key counts, whatever its other columns: for what is said of the key, or for where
that begins and ends. Promises about other columns imply something if they leave none of their values out
(test_promises_that_leave_no_value_of_another_column_out_close_the_key), and else nothing."""

KEYS_ONLY: dict[str, tuple[str, ...]] = {
    **WHOLE_KEYS,
    # what is a chronon long is cut by nothing, and then a sum stays when nothing but 0 can come, a
    # greatest value when nothing greater can; a place depends on what comes before it alone, and a null
    # key meets nobody: of single rows more follows than of their keys
    "warehouse": ("k",),
    **{
        f"{name} by key, {latency.value}": ("k",)
        for name in ("sum", "max", "rank")
        for latency in sw.OutputLatency
    },
    **{f"anti join, {latency.value}": ("k",) for latency in sw.OutputLatency},
    "clip by a stream": (),
    "clip by key": ("k",),
    # what one side promises of other columns than keys closes pairs with rows of which the other side
    # has promised as much: that would be a promise for each two of both, and they are not formed. (Of a
    # pattern that no row of its side matches no pair can come: that is promised.)
    "join": ("k",),
    "join, cross": (),
    "auction": ("k",),
    **{
        f"{name} join, {latency.value}": ("k",)
        for name in ("left", "full")
        for latency in sw.OutputLatency
    },
    # conditions and computed columns are not looked into: any value may satisfy them, or give any other
    "join where": ("k",),
    "select, computed": ("k",),
    "group_apply": ("k",),
    "match": (),
    "match by key": ("k",),
    # as joins, and with computed columns round the loop
    "fixpoint": ("k",),
    "fixpoint as a set": ("k",),
    "fixpoint as least values": ("k",),
    "fixpoint unless linked": ("k",),
    # v is the place: a way lies between two of them. Of symbols little follows (operators/automaton.py)
    "automaton": ("v",),
}
"""Where promises about some columns only are drawn: those of the key; and why others, of which something
may follow, are not used."""

A_CHRONON_LATE = ("point at end",)
"""An event that is still to come ends a chronon after the promise at least, which is not made use of."""

BY_TIME_ALONE = {
    **INCOMPLETE,
    **{name: "it has no key that could be closed" for name, keys in KEYS_ONLY.items() if not keys},
}


@each_case
@FEW
@given(data=st.data())
def test_the_output_is_grammatical_and_ends_as_the_oracle_says(name: str, data: st.DataObject) -> None:
    trial = Trial(CASES[name]())
    for source, part in drawn(data, trial):
        earlier = list(trial.output.promises)
        said = trial.push(source, part)
        assert not broken(said, earlier)
    assert trial.output.bag == trial.prefix.answer()
    assert not trial.state_rows, "the last promise empties the state"


@each_case
@FEW
@given(data=st.data())
def test_nothing_settled_is_contradicted_by_a_permitted_continuation(
    name: str, data: st.DataObject
) -> None:
    trial = Trial(CASES[name]())
    for source, part in drawn(data, trial, closed=False):
        trial.push(source, part)
        # what is tried first changes much
        for answer in list(_first(trial.prefix.continuations(), 3 * len(trial.inputs))):
            assert not contradicted(trial, answer)


@_cases(INCOMPLETE)
@FEW
@given(data=st.data())
def test_everything_is_settled_that_every_permitted_continuation_implies(
    name: str, data: st.DataObject
) -> None:
    trial = Trial(CASES[name]())
    trial.prefix.combined = True
    patterns: Any = KEYS_ONLY.get(name, True)
    if name in WHOLE_KEYS and data.draw(RARELY):
        patterns = True
    # a cti that says as much hides what promises about columns say
    for source, part in drawn(data, trial, ctis=data.draw(RARELY), closed=False, patterns=patterns):
        trial.push(source, [element for element in part if not _is_interval(element)])
        assert not unsettled(trial, late=name in A_CHRONON_LATE)


def test_several_copies_may_all_be_cut_short() -> None:
    """Three adjusts, which no single one of them foretells, while the fourth can only be lengthened."""
    trial = Trial(CASES["group_apply of sets"]())
    [source] = trial.case.sources
    rows = [sw.insert(0, 2, k="a", v=0)] * 4
    trial.push(source, [*rows, sw.cti(1), sw.adjust(0, 2, 1, k="a", v=0)])
    assert not unsettled(trial)


@pytest.mark.parametrize("name", WAIT_FOR_TIME)
@FEW
@given(data=st.data())
def test_what_waits_for_order_is_settled_when_time_implies_it(name: str, data: st.DataObject) -> None:
    """What is let through when it is over waits for what started before it."""
    trial = Trial(CASES[name]())
    for source, part in drawn(data, trial, closed=False):
        trial.push(source, part)
        judged = by_time_alone(trial)
        left = unsettled(trial, judged=judged)
        if name == "cleanse":
            left = [(vs, ve, payload) for vs, ve, payload in left if vs < open_from(judged)]
        if name == "the dial: ultra":
            left = [(vs, ve, payload) for vs, ve, payload in left if ve < open_from(judged)]
        assert not left


def _is_interval(element: Element) -> bool:
    """Whether it is a promise about times after others that it says nothing about."""
    return isinstance(element, Punctuation) and element.since > BEGIN


def _has_a_list(element: Element) -> bool:
    return isinstance(element, Punctuation) and any(
        isinstance(pattern, OneOf) for _, pattern in element.columns
    )


def _first(answers: Iterator[Any], count: int) -> Iterator[Any]:
    for _, answer in zip(range(count), answers, strict=False):
        yield answer


@each_case
@FEW
@given(data=st.data())
def test_promises_alone_change_no_answer(name: str, data: st.DataObject) -> None:
    """What is already said is not said again (5.5); with EAGER that is everything."""
    trial = Trial(CASES[name]())
    if not laws.answers_at_once(trial.case.query.node):
        return
    for source, part in drawn(data, trial):
        said = trial.push(source, part)
        if all(isinstance(element, Control) for element in part):
            assert all(isinstance(element, Control) for element in said)


@each_case
@FEW
@given(data=st.data())
def test_nothing_is_promised_twice(name: str, data: st.DataObject) -> None:
    """Of inputs that do not repeat themselves. Lists are told value by value, and are left out."""
    trial = Trial(CASES[name]())
    for source, part in drawn(data, trial):
        some = [element for element in part if not _has_a_list(element)]
        # the promises of a batch have no order
        told = trial.told_by(source)
        known = [*repeated(some, told), *repeated(reversed(some), told)]
        before = trial.output.so_far()
        said = trial.push(source, [e for e in some if not any(e is each for each in known)])
        assert not repeated(said, before)


@_cases(BY_TIME_ALONE)
@FEW
@given(data=st.data())
def test_promises_about_columns_alone_empty_the_state(name: str, data: st.DataObject) -> None:
    trial = Trial(CASES[name]())
    for source, part in drawn(data, trial, ctis=False, closed=False):
        trial.push(source, part)
    closed = _all_places_closed() if name == "automaton" else _all_closed()
    for source in trial.case.sources:
        trial.push(source, closed)
    assert not trial.state_rows
    assert trial.output.bag == trial.prefix.answer()


def _all_closed() -> Stream:
    """Every key that there can be, one by one."""
    return [Punctuation(sw.INF, columns=(("k", Constant(key)),)) for key in ("a", "b", None)]


def _all_places_closed() -> Stream:
    """From which ways begin, whatever the symbol."""
    return [
        sw.punctuation(v=sw.between(None, 2)),
        sw.punctuation(v=sw.between(3, None)),
        sw.punctuation(v=None),
    ]


LEFT, RIGHT = (sw.stream(SCHEMA, name=name) for name in ("left", "right"))


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: LEFT.union(RIGHT), id="union"),
        *(
            pytest.param(build, id=name)
            for name, build in {
                "intersect": lambda: LEFT.intersect(RIGHT),
                "difference": lambda: LEFT.difference(RIGHT),
                "left join": lambda: LEFT.join(RIGHT, on="k", how="left"),
                "anti join": lambda: LEFT.join(RIGHT, on="k", how="anti"),
                "clip": lambda: LEFT.clip(RIGHT, on="k"),
            }.items()
        ),
    ],
)
def test_a_promise_of_one_side_meets_a_cti_of_the_other(build: Callable[[], sw.Query]) -> None:
    """Nothing with k = a comes on the left at all, and nothing before 2 on the right."""
    running = build().open()
    running.push(LEFT, [sw.insert(0, 1, k="a", v=0), sw.punctuation(k="a")])
    [told] = [element for batch in running.push(RIGHT, [sw.cti(2)]) for element in batch]
    # where nothing is left that could still change, more is promised
    assert isinstance(told, Punctuation)
    assert told.implies(sw.punctuation(2, k="a"))


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name)
        for name, build in {
            "aggregate": lambda: LEFT.group_by("k").aggregate(n=sw.count()),
            "rank": lambda: LEFT.group_by("k").aggregate(n=sw.rank("v")),
            "session": lambda: LEFT.group_by("k").window(sw.session(2)),
            "match": lambda: LEFT.group_by("k").match("A B", n=sw.matched("B").last("v")),
            "automaton": lambda: LEFT.group_by("k").apply(
                lambda group: sw.automaton(group.select("v", "k"), [("s", "q", "a")], start="s")
            ),
        }.items()
    ],
)
def test_promises_that_leave_no_value_of_another_column_out_close_the_key(
    build: Callable[[], sw.Query],
) -> None:
    running = build().open()
    said = [
        element
        for told in [sw.between(None, 1), sw.between(2, None), None]
        for batch in running.push(LEFT, [sw.insert(0, 1, k="b", v=0), sw.punctuation(k="a", v=told)])
        for element in batch
        if isinstance(element, Punctuation) and element.speaks_only_of(["k"])
    ]
    assert said == [sw.punctuation(k="a")]


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name)
        for name, build in {
            "join": lambda: LEFT.join(RIGHT, on="k"),
            "left join": lambda: LEFT.join(RIGHT, on="k", how="left"),
            "anti join": lambda: LEFT.join(RIGHT, on="k", how="anti"),
            "clip": lambda: LEFT.clip(RIGHT, on="k"),
        }.items()
    ],
)
def test_one_side_may_close_a_key_in_pieces(build: Callable[[], sw.Query]) -> None:
    running = build().open()
    running.push(LEFT, [sw.insert(0, 1, k="a", v=0), sw.punctuation(k="a")])
    running.push(RIGHT, [sw.insert(0, 1, k="a", v=3)])
    said: list[Element] = []
    for told in [sw.between(None, 1), sw.between(2, None), None]:
        assert sw.punctuation(k="a") not in said
        pushed = running.push(RIGHT, [sw.punctuation(k="a", v=told)])
        said += [element for batch in pushed for element in batch]
    assert sw.punctuation(k="a") in said


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(build, id=name)
        for name, build in {
            "aggregate": lambda: LEFT.aggregate(n=sw.count()),
            "rank": lambda: LEFT.aggregate(n=sw.rank("v")),
            "session": lambda: LEFT.window(sw.session(2)),
            "match": lambda: LEFT.match("A B", n=sw.matched("B").last("v")),
        }.items()
    ],
)
def test_without_keys_promises_that_leave_nothing_out_are_a_cti(build: Callable[[], sw.Query]) -> None:
    running = build().open()
    running.push(LEFT, [sw.insert(0, 1, k="a", v=0)])
    said = [
        element
        for told in [sw.between(None, 1), sw.between(2, None), None]
        for batch in running.push(LEFT, [sw.punctuation(7, v=told)])
        for element in batch
        if isinstance(element, Punctuation)
    ]
    assert said == [sw.cti(7)]


def test_group_apply_closes_a_group() -> None:
    running = LEFT.group_by("k").apply(lambda group: group.aggregate(n=sw.count())).open()
    running.push(LEFT, [sw.insert(0, 1, k="a", v=0)])
    said = [element for batch in running.push(LEFT, [sw.punctuation(k="a")]) for element in batch]
    assert said == [sw.punctuation(k="a")]


def test_every_runnable_node_has_a_case() -> None:
    tried = {type(node) for case in CASES.values() for node in nodes.walk(case().query.node)}
    also = {type(node) for case in laws.CASES.values() for node in nodes.walk(case().query.node)}
    assert {kind.__name__ for kind in also - tried if runnable(kind)} == set()


def test_a_promise_is_not_repeated_with_the_cti() -> None:
    """What is promised of a range may be remembered in pieces: one of its values was closed before."""
    trial = Trial(CASES["group_apply of sets"]())
    [source] = trial.case.sources
    elements: list[Element] = [
        sw.insert(0, 2, k=None, v=0),
        sw.adjust(0, 2, 2, k=None, v=0),
        sw.adjust(0, 2, 1, k=None, v=0),
        sw.punctuation(k=None, v=0),
        sw.punctuation(3, k=None, v=sw.between(None, 0)),
        sw.cti(3),
    ]
    for element in elements:
        before = trial.output.so_far()
        assert not repeated(trial.push(source, [element]), before)


def test_a_copy_is_settled_when_its_end_is() -> None:
    """It began with another one, which goes on."""
    trial = Trial(CASES["difference all, perfectness preserving"]())
    trial.prefix.combined = True
    left, right = trial.case.sources
    parts: list[tuple[sw.Query, list[Element]]] = [
        (left, [sw.punctuation(0, k="a")]),
        (left, [sw.punctuation(0, k="a")]),
        (right, [sw.insert(0, 1, k="a", v=0), sw.punctuation(k="a")]),
        (
            left,
            [
                *[sw.punctuation(0, k="a")] * 3,
                sw.insert(0, sw.INF, k="a", v=0),
                sw.insert(0, 2, k="a", v=0),
                sw.insert(0, 1, k="a", v=0),
                sw.punctuation(1, k="a"),
                sw.adjust(0, 2, 1, k="a", v=0),
                sw.punctuation(3, k="a"),
                sw.insert(3, 4, k="a", v=0),
            ],
        ),
    ]
    for source, part in parts:
        trial.push(source, part)
        assert not unsettled(trial, late=False)
