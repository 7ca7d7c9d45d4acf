"""Logical merge: the paper's examples, what it is to be compatible, and contradictions by hand."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater as sw
from slackwater.errors import PlanError, SlackwaterError
from slackwater.events import Element
from slackwater.testing.compatibility import Told, incompatible

SCHEMA = {"p": str}
a, b, c = (
    sw.stream(SCHEMA, name=name, properties=sw.StreamProperties(vs_payload_key=True)) for name in "abc"
)


def merged(*script: tuple[sw.Query, Element], policy: sw.MergePolicy | None = None) -> list[Element]:
    return list(sw.merge(a, b, policy=policy).run(script, batch=1))


def test_table_1_two_physical_streams_of_one_history() -> None:
    phy1: list[Element] = [
        sw.insert(8, sw.INF, p="B"), sw.insert(6, 12, p="A"), sw.adjust(8, sw.INF, 10, p="B"),
        sw.cti(11), sw.cti(sw.INF),
    ]  # fmt: skip
    phy2: list[Element] = [
        sw.insert(6, 7, p="A"), sw.insert(8, 15, p="B"), sw.adjust(6, 7, 12, p="A"),
        sw.adjust(8, 15, 10, p="B"), sw.cti(sw.INF),
    ]  # fmt: skip
    assert sw.History.of(phy1) == sw.History.of(phy2)
    history = [("A", 6, 12), ("B", 8, 10)]
    turns = [(b, phy2[0]), (b, phy2[1]), (a, phy1[0]), (b, phy2[2]), (a, phy1[1]), (a, phy1[2])]
    turns += [(b, phy2[3]), (a, phy1[3]), (a, phy1[4]), (b, phy2[4])]
    out = sw.merge(a, b).run(turns, batch=1)
    assert out.history().rows() == history
    # f(11) comes when the output has A until 7: it must not be frozen so
    early = [(b, phy2[0]), (b, phy2[1]), (a, phy1[0]), (a, phy1[1]), (a, phy1[2]), (a, phy1[3])]
    assert merged(*early)[-3:] == [sw.adjust(6, 7, 12, p="A"), sw.adjust(8, 15, 10, p="B"), sw.cti(11)]


TABLE_2: list[tuple[sw.Query, Element]] = [
    (a, sw.insert(6, 10, p="A")),
    (b, sw.insert(6, 12, p="A")),
    (b, sw.insert(7, 14, p="B")),
    (a, sw.adjust(6, 10, 15, p="A")),
    (b, sw.adjust(6, 12, 15, p="A")),
    (b, sw.cti(16)),
]


def test_table_2_how_chatty_an_output_is() -> None:
    every = sw.merge_policy(adjusts=sw.EVERY)
    assert merged(*TABLE_2, policy=every) == [
        sw.insert(6, 10, p="A"), sw.adjust(6, 10, 12, p="A"), sw.insert(7, 14, p="B"),
        sw.adjust(6, 12, 15, p="A"), sw.cti(16),
    ]  # fmt: skip
    frozen = sw.merge_policy(inserts=sw.HALF_FROZEN)
    assert merged(*TABLE_2, policy=frozen) == [
        sw.insert(6, 15, p="A"), sw.insert(7, 14, p="B"), sw.cti(16),
    ]  # fmt: skip
    assert merged(*TABLE_2) == [
        sw.insert(6, 10, p="A"), sw.insert(7, 14, p="B"), sw.adjust(6, 10, 15, p="A"), sw.cti(16),
    ]  # fmt: skip


def _told(cti: int, **events: tuple[int, int]) -> Told:
    told = Told()
    for payload, (vs, ve) in events.items():
        told.hear(sw.insert(vs, ve, p=payload))
    told.hear(sw.cti(cti))
    return told


I1 = _told(14, A=(2, 16), B=(3, 10), C=(4, 18), D=(15, 20))
I2 = _told(11, A=(2, 12), B=(3, 10), C=(4, 18), E=(17, 21))


def test_what_is_compatible_and_what_is_not() -> None:
    o1 = _told(11, A=(2, sw.INF), B=(3, 10), C=(4, sw.INF))
    o2 = _told(14, A=(2, 16), B=(3, 10), C=(4, 18), D=(15, 20), E=(17, 21))
    assert incompatible([I1, I2], o1) == []
    assert incompatible([I1, I2], o2) == []
    o3 = incompatible([I1, I2], _told(13, A=(2, 12), C=(4, 18), D=(15, 20)))
    # A is frozen with an end that contradicts I1, and B is missing
    assert [each[:2] for each in o3] == ["C2", "C3", "C3"]
    assert "'A'" in o3[0]
    assert "'A'" in o3[1]
    assert "'B'" in o3[2]
    assert incompatible([I1, I2], _told(15, A=(2, 16), B=(3, 10), C=(4, 18)))[0].startswith("C1")
    # erratum 16: an output that trails is compatible
    assert incompatible([I1, I2], _told(5, A=(2, 16), B=(3, 10), C=(4, 18))) == []


def test_erratum_17_an_event_that_grows_is_adjusted_at_every_cti() -> None:
    script: list[tuple[sw.Query, Element]] = [(a, sw.insert(0, 10, p="A"))]
    for end in (10, 20, 30):
        script += [(a, sw.adjust(0, end, end + 10, p="A")), (a, sw.cti(end + 5))]
    out = merged(*script)
    assert [type(each).__name__ for each in out].count("Adjust") == 3


def test_erratum_18_what_is_half_frozen_is_not_removed_by_who_lacks_it() -> None:
    script: list[tuple[sw.Query, Element]] = [
        (a, sw.insert(1, 50, p="A")), (a, sw.cti(10)), (b, sw.cti(20)), (b, sw.cti(60)),
    ]  # fmt: skip
    out = sw.merge(a, b, policy=sw.merge_policy(gaps=True)).run(script, batch=1)
    assert list(out) == [sw.insert(1, 50, p="A"), sw.cti(10), sw.cti(20), sw.cti(60)]
    [entry] = out.ledger
    assert entry.reason == "missing"
    assert "input 1" in entry.detail
    with pytest.raises(SlackwaterError, match=r"an event is missing.*insert\(1, 50"):
        merged(*script)


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_what_comes_late_and_is_taken_back_at_once_is_not_remembered(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    running.push(a, [sw.insert(1, 5, p="A"), sw.cti(20)])
    running.push(b, [sw.insert(1, 50, p="B"), sw.adjust(1, 50, 1, p="B")])
    assert running.describe()[0].state.state_rows == 0


def test_an_input_that_is_not_complete_yet_lacks_nothing() -> None:
    """Of two events with one start and payload it need not tell the one that ends before."""
    a, b = (sw.stream(SCHEMA, name=name) for name in "ab")
    running = sw.merge(a, b).open()
    running.push(b, [sw.insert(1, 2, p="A"), sw.insert(1, 50, p="A"), sw.cti(2)])
    running.attach(a, since=8)
    assert running.push(a, [sw.insert(1, 50, p="A"), sw.cti(sw.INF)]) == []
    running.push(b, [sw.cti(9)])
    assert running.output.settled_until == sw.INF
    assert running.output.history().rows() == [("A", 1, 2), ("A", 1, 50)]


def test_a_replica_that_begins_anew_gives_an_event_another_end() -> None:
    script: list[tuple[sw.Query, Element]] = [
        (a, sw.insert(1, 50, p="A")), (b, sw.insert(1, 30, p="A")), (b, sw.cti(40)),
    ]  # fmt: skip
    running = sw.merge(a, b).open()
    for stream, element in script[:2]:
        running.push(stream, [element])
    running.attach(b)
    running.push(b, [sw.insert(1, 40, p="A"), sw.cti(41)])
    assert list(running.output) == [sw.insert(1, 50, p="A"), sw.adjust(1, 50, 40, p="A"), sw.cti(41)]


CONTRADICTIONS: dict[str, tuple[list[tuple[sw.Query, Element]], str]] = {
    "another end, frozen later": (
        [(a, sw.insert(1, 50, p="A")), (b, sw.insert(1, 9, p="A")), (a, sw.cti(20)), (b, sw.cti(15))],
        "another end",
    ),
    "another end, leading": (
        [(a, sw.insert(1, 50, p="A")), (b, sw.insert(1, 9, p="A")), (a, sw.cti(20)), (b, sw.cti(25))],
        "another end",
    ),
    "another end, still open when the leader has ended it": (
        [(b, sw.insert(1, 50, p="A")), (a, sw.insert(1, 9, p="A")), (a, sw.cti(25)), (b, sw.cti(30))],
        "another end",
    ),
    "another end, sooner than the leader's": (
        [(b, sw.insert(1, 7, p="A")), (a, sw.insert(1, 9, p="A")), (a, sw.cti(25)), (b, sw.cti(8))],
        "another end",
    ),
    "another end, changed when it is past": (
        [
            (b, sw.insert(1, 50, p="A")),
            (a, sw.insert(1, 9, p="A")),
            (a, sw.cti(25)),
            (b, sw.adjust(1, 50, 12, p="A")),
            (b, sw.cti(13)),
        ],
        "another end",
    ),
    "too much, told before": (
        [(b, sw.insert(1, 9, p="A")), (a, sw.cti(20)), (b, sw.cti(5))],
        "an event too many",
    ),
    "too much, told late": (
        [(a, sw.cti(20)), (b, sw.insert(1, 90, p="A")), (b, sw.cti(21))],
        "an event too many",
    ),
    "missing": (
        [(a, sw.insert(1, 50, p="A")), (a, sw.cti(10)), (b, sw.cti(60))],
        "an event is missing",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_inputs_that_contradict_each_other_are_named(name: str, algorithm: Any) -> None:
    script, rule = CONTRADICTIONS[name]
    with pytest.raises(SlackwaterError, match=rule) as refusal:
        sw.merge(a, b, algorithm=algorithm).run(script, batch=1)
    assert "'A'" in str(refusal.value)
    assert "input 1" in str(refusal.value)


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_the_minority_is_set_aside(name: str, algorithm: Any) -> None:
    script, rule = CONTRADICTIONS[name]
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    # c says what a does: b is outvoted
    both = [
        pair
        for stream, each in script
        for pair in ([(a, each), (c, each)] if stream is a else [(b, each)])
    ]
    query = sw.merge(a, b, c, algorithm=algorithm, policy=policy)
    closing = [(a, sw.cti(sw.INF)), (b, sw.insert(100, 200, p="Z")), (b, sw.cti(sw.INF))]
    out = query.run([*both, *closing], batch=1)
    [entry] = out.ledger
    assert entry.reason == "contradiction"
    assert rule in entry.detail
    assert "quarantined: 1" in entry.detail
    assert out.as_history() == sw.History.of([each for stream, each in script if stream is a], a.schema)


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_the_leader_is_set_aside_when_the_others_do_not_come_to_agree(algorithm: Any) -> None:
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    script: list[tuple[sw.Query, Element]] = [
        (a, sw.insert(1, 50, p="A")), (c, sw.insert(1, 50, p="A")), (b, sw.insert(1, 9, p="A")),
        (b, sw.cti(25)), (a, sw.cti(30)), (c, sw.cti(30)), (b, sw.insert(40, 50, p="Z")),
    ]  # fmt: skip
    running = sw.merge(a, b, c, algorithm=algorithm, policy=policy).open()
    for stream, element in script:
        running.push(stream, [element])
    [entry] = running.output.ledger
    assert "input 0 says" in entry.detail
    assert "quarantined: 1" in entry.detail
    # what was promised stays
    assert list(running.output)[-2:] == [sw.cti(25), sw.cti(30)]
    assert running.output.history().rows() == [("A", 1, 9)]


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_who_comes_to_agree_with_the_leader_contradicts_nothing(algorithm: Any) -> None:
    running = sw.merge(a, b, c, algorithm=algorithm).open()
    for stream, element in [
        (a, sw.insert(1, 50, p="A")), (b, sw.insert(1, 9, p="A")), (c, sw.insert(1, 5, p="A")),
        (b, sw.cti(25)),
    ]:  # fmt: skip
        running.push(stream, [element])
    # remembered until they do
    assert running.describe()[-1].state.state_rows == 1
    running.push(a, [sw.adjust(1, 50, 9, p="A"), sw.cti(30)])
    assert running.describe()[-1].state.state_rows == 1
    running.push(c, [sw.adjust(1, 5, 7, p="A")])
    running.push(c, [sw.adjust(1, 7, 9, p="A"), sw.cti(10)])
    assert running.describe()[-1].state.state_rows == 0
    assert running.output.history().rows() == [("A", 1, 9)]


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_nobody_waits_for_an_input_that_has_broken_off(algorithm: Any) -> None:
    running = sw.merge(a, b, algorithm=algorithm).open()
    for stream, element in [
        (a, sw.insert(1, 50, p="A")), (b, sw.insert(1, 9, p="A")), (b, sw.cti(25)),
    ]:  # fmt: skip
        running.push(stream, [element])
    running.detach(a)
    assert running.describe()[-1].state.state_rows == 0


def test_of_many_copies_some_may_be_as_the_leader_has_them() -> None:
    def told(*ends: int) -> list[Element]:
        return [sw.insert(1, end, p="A") for end in ends]

    x, y, z = (sw.stream(SCHEMA, name=name) for name in "xyz")
    running = sw.merge(x, y, z).open()
    running.push(y, told(5, 9, 30))
    running.push(x, [*told(5, 9, 9), sw.cti(20)])
    assert running.describe()[-1].state.state_rows == 1
    running.push(y, [sw.adjust(1, 30, 9, p="A"), sw.cti(20)])
    assert running.describe()[-1].state.state_rows == 0
    running = sw.merge(x, y, z).open()
    running.push(z, told(5, 9, 9, 9))
    running.push(x, [*told(5, 9, 9), sw.cti(20)])
    with pytest.raises(SlackwaterError, match="too many"):
        running.push(z, [sw.cti(10)])


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_who_need_not_tell_what_is_past_may_come_round_as_any_other(algorithm: Any) -> None:
    """It was told that what ends before 10 is of no interest, so it may shorten an event to there."""
    never_longer = sw.StreamProperties(vs_payload_key=True, never_lengthens=True)
    a, b = (sw.stream(SCHEMA, name=name, properties=never_longer) for name in "ab")
    running = sw.merge(a, b, algorithm=algorithm).open()
    for stream, element in [
        (b, sw.insert(1, 12, p="A")), (a, sw.insert(1, 5, p="A")), (a, sw.cti(10)), (b, sw.cti(3)),
        (b, sw.adjust(1, 12, 5, p="A")), (b, sw.cti(11)),
    ]:  # fmt: skip
        running.push(stream, [element])
    assert running.describe()[-1].state.state_rows == 0
    assert running.output.history().rows() == [("A", 1, 5)]


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_what_need_not_be_true_is_not_waited_for(algorithm: Any) -> None:
    never_longer = sw.StreamProperties(vs_payload_key=True, never_lengthens=True)
    a, b, c = (sw.stream(SCHEMA, name=name, properties=never_longer) for name in "abc")
    running = sw.merge(a, b, c, algorithm=algorithm).open()
    for stream, element in [
        (c, sw.insert(1, 4, p="A")), (b, sw.insert(1, 30, p="A")), (a, sw.insert(1, 20, p="A")),
        (a, sw.cti(10)), (c, sw.cti(2)), (a, sw.cti(25)), (b, sw.adjust(1, 30, 20, p="A")),
        (b, sw.cti(22)), (c, sw.cti(22)),
    ]:  # fmt: skip
        running.push(stream, [element])
    assert running.describe()[-1].state.state_rows == 0


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_nobody_is_held_to_an_end_that_the_furthest_has_left_standing(algorithm: Any) -> None:
    """b lacks the event, so that the output keeps an end which nobody has promised."""
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    running = sw.merge(a, b, c, algorithm=algorithm, policy=policy).open()
    for stream, element in [
        (a, sw.insert(1, 17, p="A")), (c, sw.insert(1, 30, p="A")), (a, sw.cti(3)), (b, sw.cti(25)),
        (a, sw.adjust(1, 17, 7, p="A")), (a, sw.cti(26)), (c, sw.adjust(1, 30, 7, p="A")),
        (c, sw.cti(26)),
    ]:  # fmt: skip
        running.push(stream, [element])
    [entry] = running.output.ledger
    assert "an event is missing" in entry.detail
    assert "quarantined: 1" in entry.detail
    assert running.describe()[-1].state.state_rows == 0


def test_of_many_copies_some_may_be_missing_where_gaps_are_allowed() -> None:
    """Also of an input that leads as soon as it is complete."""
    x, y = (sw.stream(SCHEMA, name=name) for name in "xy")
    running = sw.merge(x, y, policy=sw.merge_policy(gaps=True)).open()
    running.push(x, [sw.insert(1, 50, p="A"), sw.insert(1, 50, p="A"), sw.cti(2)])
    running.attach(y, since=8)
    running.push(y, [sw.insert(1, 50, p="A"), sw.cti(60)])
    running.push(x, [sw.cti(9)])
    [entry] = running.output.ledger
    assert entry.reason == "missing"
    assert running.output.settled_until == 60


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_nobody_is_judged_by_what_a_faulty_leader_has_decided(algorithm: Any) -> None:
    """b lacks the event, and is set aside; the others had not come to its end."""
    policy = sw.merge_policy(contradiction=sw.QUARANTINE)
    running = sw.merge(a, b, c, algorithm=algorithm, policy=policy).open()
    for stream, element in [
        (a, sw.insert(1, 17, p="A")), (c, sw.insert(1, 17, p="A")), (a, sw.cti(3)), (b, sw.cti(25)),
        (a, sw.adjust(1, 17, 50, p="A")), (a, sw.cti(26)), (c, sw.adjust(1, 17, 50, p="A")),
    ]:  # fmt: skip
        running.push(stream, [element])
    # c has not promised yet that it has the event
    assert list(running.output.ledger) == []
    running.push(c, [sw.cti(3)])
    [entry] = running.output.ledger
    assert "an event is missing" in entry.detail
    assert "quarantined: 1" in entry.detail
    # remembered until they have promised past it
    assert running.describe()[-1].state.state_rows == 1
    running.push(a, [sw.adjust(1, 50, 40, p="A"), sw.cti(41)])
    running.push(c, [sw.adjust(1, 50, 40, p="A"), sw.cti(41)])
    assert running.describe()[-1].state.state_rows == 0
    assert len(running.output.ledger) == 1
    assert running.output.history().rows() == [("A", 1, 17)]


def test_who_led_with_gaps_does_not_decide_what_others_say() -> None:
    """y lacks a copy, and leads; x, which has all, is not stopped, nor is what y says forgotten."""
    x, y = (sw.stream(SCHEMA, name=name) for name in "xy")
    running = sw.merge(x, y, policy=sw.merge_policy(gaps=True)).open()
    for stream, element in [
        (x, sw.insert(2, 12, p="A")), (x, sw.insert(2, 15, p="A")), (x, sw.cti(5)),
        (x, sw.adjust(2, 15, 6, p="A")), (x, sw.adjust(2, 12, 8, p="A")),
        (y, sw.insert(2, 8, p="A")), (y, sw.cti(9)), (x, sw.cti(sw.INF)),
    ]:  # fmt: skip
        running.push(stream, [element])
    assert {entry.reason for entry in running.output.ledger} == {"missing"}
    assert running.output.history().rows() == [("A", 2, 8), ("A", 2, 12)]
    assert running.describe()[-1].state.state_rows == 0


def test_another_end_is_no_gap_where_each_event_is_told_once() -> None:
    once = sw.StreamProperties(vs_payload_key=True, insert_only=True)
    for properties, stops in ((once, True), (sw.StreamProperties(vs_payload_key=True), False)):
        x, y = (sw.stream(SCHEMA, name=name, properties=properties) for name in "xy")
        running = sw.merge(x, y, policy=sw.merge_policy(gaps=True)).open()
        running.push(y, [sw.insert(1, 9, p="A")])
        running.push(x, [sw.insert(1, 50, p="A"), sw.cti(20)])
        if stops:
            with pytest.raises(SlackwaterError, match="another end"):
                running.push(y, [sw.cti(15)])
            continue
        running.push(y, [sw.cti(15)])
        [entry] = running.output.ledger
        assert entry.reason == "missing"


def test_every_end_at_once_shows_no_copy_before_its_time() -> None:
    """An insert of one copy more is an insert, and who has told fewer so far takes none back."""
    x, y, z = (sw.stream(SCHEMA, name=name) for name in "xyz")
    one, other = sw.insert(1, 5, p="A"), sw.insert(1, 7, p="A")
    shown: dict[Any, list[Element]] = {}
    for inserts in (sw.AT_FIRST_SIGHT, sw.FROM_LEADER, sw.after(1)):
        policy = sw.merge_policy(inserts=inserts, adjusts=sw.EVERY)
        running = sw.merge(x, y, z, policy=policy).open()
        for stream in (x, y, z):
            running.push(stream, [one])
        running.push(z, [other])
        running.push(y, [sw.adjust(1, 5, 6, p="A")])
        shown[inserts] = list(running.output)
    assert shown[sw.AT_FIRST_SIGHT] == [one, other, sw.adjust(1, 5, 6, p="A")]
    assert shown[sw.FROM_LEADER] == shown[sw.after(1)] == [one, sw.adjust(1, 5, 6, p="A")]
    running = sw.merge(x, y, policy=sw.merge_policy(adjusts=sw.EVERY)).open()
    running.push(x, [one, one])
    running.push(y, [one])
    assert list(running.output) == [one, one]
    running.push(x, [sw.adjust(1, 5, 1, p="A")])
    assert list(running.output) == [one, one, sw.adjust(1, 5, 1, p="A")]


@pytest.mark.parametrize("algorithm", ["R3", "R4"])
def test_who_is_attached_when_all_have_left_leads(algorithm: Any) -> None:
    policy = sw.merge_policy(inserts=sw.FROM_LEADER)
    running = sw.merge(a, b, algorithm=algorithm, policy=policy).open()
    for stream in (b, a):
        running.detach(stream)
    running.attach(b)
    [said] = running.push(b, [sw.insert(1, 5, p="A")])
    assert list(said) == [sw.insert(1, 5, p="A")]


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"inserts": 0.5}, "0.5 is no policy"),
        ({"adjusts": "every"}, "'every' is no policy"),
        ({"contradiction": True}, "True is no policy"),
        ({"gaps": "no"}, "'no' is neither True nor False"),
        ({"trailing": -1}, "trailing cannot be negative"),
    ],
)
def test_what_is_no_policy_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why):
        sw.merge_policy(**settings)


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (0, "more than 0, at most 1"),
        (1.5, "it is 3/2"),
        ("most", "'most' is not"),
        (float("nan"), "nan is"),
    ],
)
def test_what_is_no_part_of_the_inputs_is_refused(part: Any, why: str) -> None:
    with pytest.raises(PlanError, match=why):
        sw.after(part)


def test_a_small_part_of_the_inputs_is_one_of_them() -> None:
    assert sw.after(0.0001).needed(3) == 1
    assert [sw.after(1 / 3).needed(inputs) for inputs in (3, 4, 6)] == [1, 2, 2]
