"""The stream model with the papers' own numbers: each test is named after the table it holds to."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl
import pytest

from slackwater.errors import InvalidStream
from slackwater.events import Adjust, Element, Insert, adjust, insert
from slackwater.history import History
from slackwater.promises import Promises
from slackwater.punctuations import Punctuation, cti
from slackwater.rows import from_dataframe, from_open_close
from slackwater.times import INF
from slackwater.validity import StreamProperties, closed_up_to, validate

P = pl.Schema({"p": pl.String})
FOREVER = "∞"


def rows_of(stream: Sequence[Element]) -> list[tuple[object, ...]]:
    return History.of(stream, P).rows()


def assert_every_prefix_is_valid(stream: Sequence[Element]) -> None:
    for length in range(len(stream) + 1):
        validate(stream[:length], P)


# Paper 1a, section 2: bitemporal streams

TABLE_1A_1: list[Element] = [
    insert(1, INF, p="P1"),
    cti(1),
    adjust(1, INF, 10, p="P1"),
    adjust(1, 10, 5, p="P1"),
    insert(4, 9, p="P2"),
    cti(10),
]


def test_1a_table_1_reconstitutes_to_table_2():
    assert rows_of(TABLE_1A_1) == [("P1", 1, 5), ("P2", 4, 9)]
    assert_every_prefix_is_valid(TABLE_1A_1)


def test_1a_table_1_prefix_by_prefix():
    first = [rows_of(TABLE_1A_1[:length]) for length in range(1, 6)]
    assert first == [
        [("P1", 1, INF)],
        [("P1", 1, INF)],
        [("P1", 1, 10)],
        [("P1", 1, 5)],
        [("P1", 1, 5), ("P2", 4, 9)],
    ]


def test_1a_table_1_as_a_table():
    columns = ["Type", "Vs", "Ve", "Vnewe", "p"]
    rows = [
        ("insert", 1, None, None, "P1"),
        ("cti", 1, None, None, None),
        ("adjust", 1, None, 10, "P1"),
        ("adjust", 1, 10, 5, "P1"),
        ("insert", 4, 9, None, "P2"),
        ("cti", 10, None, None, None),
    ]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    assert list(from_dataframe(table, kind="Type", vs="Vs", ve="Ve", new_ve="Vnewe")) == TABLE_1A_1


def test_1a_section_2_1_sync_times():
    data = [element for element in TABLE_1A_1 if isinstance(element, Insert | Adjust | Punctuation)]
    assert [element.sync for element in data] == [1, 1, 10, 5, 4, 10]


def test_1a_section_2_2_a_retraction_cannot_precede_its_insert():
    with pytest.raises(InvalidStream):
        validate([TABLE_1A_1[2], TABLE_1A_1[0]])
    with pytest.raises(InvalidStream):
        validate([TABLE_1A_1[0], TABLE_1A_1[3], TABLE_1A_1[2]])


ORDERED: list[Element] = [
    insert(1, INF, p="P1"),
    cti(1),
    insert(4, 9, p="P2"),
    adjust(1, INF, 5, p="P1"),
    cti(10),
]
PERFECT: list[Element] = [insert(1, 5, p="P1"), cti(1), insert(4, 9, p="P2"), cti(10)]


def test_1a_definition_3_ordered():
    assert not StreamProperties.observed(TABLE_1A_1).ordered
    assert StreamProperties.observed(ORDERED).ordered
    assert rows_of(ORDERED) == rows_of(TABLE_1A_1)
    # Lemma 1: two retractions of one chain are out of order by themselves
    assert not StreamProperties.observed([TABLE_1A_1[i] for i in (0, 2, 3)]).ordered


def test_1a_definition_4_perfect():
    assert StreamProperties.observed(PERFECT).perfect
    assert not StreamProperties.observed(ORDERED).perfect
    assert not StreamProperties.observed(list(reversed(PERFECT))).perfect
    assert rows_of(PERFECT) == rows_of(TABLE_1A_1)


def test_1a_lemma_2_prefixes_keep_the_class():
    for length in range(1, len(ORDERED) + 1):
        assert StreamProperties.observed(ORDERED[:length]).ordered
    for length in range(1, len(PERFECT) + 1):
        assert StreamProperties.observed(PERFECT[:length]).perfect


def test_1a_definition_5_closed_at_and_up_to():
    # closed at t: a CTI with a sync of at least t; up to t: the largest such t
    assert closed_up_to(TABLE_1A_1) == 10
    assert closed_up_to(TABLE_1A_1[:5]) == 1
    assert closed_up_to(TABLE_1A_1[:1]) < 1
    # Lemma 4: what was closed stays so in every longer stream
    closed = [closed_up_to(TABLE_1A_1[:length]) for length in range(1, 7)]
    assert closed == sorted(closed)


def test_1a_definition_5_is_not_our_closed():
    # erratum 6: the paper calls [0,10), cti(1) closed; our laws mean cti(INF)
    promises, _ = Promises().strengthened_by([cti(1)])
    assert not promises.closed
    assert promises.with_(cti(None)).closed


def test_1a_section_2_2_any_stream_can_be_closed():
    validate([*TABLE_1A_1, cti(None)])
    with pytest.raises(InvalidStream):
        validate([*TABLE_1A_1, cti(None), insert(1000, 1001, p="P3")])


# Paper 1b, sections 2 and 3: history tables and physical streams

TABLE_1B_1 = [
    # ID, Vs, Ve, C, payload
    ("E0", 1, INF, 1, "P1"),
    ("E0", 1, 10, 2, "P1"),
    ("E0", 1, 5, 3, "P1"),
    ("E1", 4, 9, 3, "P2"),
]
TABLE_1B_2: list[Element] = [
    insert(1, INF, p="P1"),
    adjust(1, INF, 10, p="P1"),
    adjust(1, 10, 5, p="P1"),
    insert(4, 9, p="P2"),
]


def test_1b_table_1_is_told_by_the_physical_stream_of_table_2():
    ends: dict[str, int] = {}
    told: list[Element] = []
    for id_, vs, ve, _, payload in TABLE_1B_1:
        is_new = id_ not in ends
        told.append(insert(vs, ve, p=payload) if is_new else adjust(vs, ends[id_], ve, p=payload))
        ends[id_] = ve
    assert told == TABLE_1B_2


def test_1b_table_2_reconstitutes_to_the_canonical_form_of_table_1():
    # "the first and second rows of the table are removed since they are both retracted"
    assert rows_of(TABLE_1B_2) == [("P1", 1, 5), ("P2", 4, 9)]
    assert_every_prefix_is_valid(TABLE_1B_2)
    # logically equivalent to the stream of paper 1a
    assert History.of(TABLE_1B_2) == History.of(TABLE_1A_1)


def test_1b_section_2_a_full_retraction_leaves_nothing():
    assert rows_of([*TABLE_1B_2, adjust(4, 9, 4, p="P2")]) == [("P1", 1, 5)]


def test_1b_section_3_streams_are_bags():
    assert rows_of([insert(4, 9, p="P2"), insert(4, 9, p="P2")]) == [("P2", 4, 9)] * 2


def test_1b_section_4_3_join_table_1_reconstitutes_to_table_2():
    s1: list[Element] = [
        insert(0, 2, p="A0"),
        cti(1),
        insert(2, 6, p="A1"),
        adjust(2, 6, 4, p="A1"),
    ]
    s2: list[Element] = [insert(3, 5, p="A1"), cti(3)]
    # erratum 10: Table 2 prints [0,1) for A0
    assert rows_of(s1) == [("A0", 0, 2), ("A1", 2, 4)]
    assert rows_of(s2) == [("A1", 3, 5)]
    assert_every_prefix_is_valid(s1)
    assert_every_prefix_is_valid(s2)


# Paper 2: a adds, m modifies the end (without naming the old one), f finalizes


def told(text: str) -> list[Element]:
    """The paper's elements as ours: a is an insert, m an adjust, f a cti."""
    ends: dict[tuple[str, int], int] = {}
    stream: list[Element] = []
    for name, arguments in re.findall(r"([amf])\(([^)]*)\)", text):
        *value, last = (part.strip() for part in arguments.split(","))
        end = INF if last == FOREVER else int(last)
        if name == "f":
            stream.append(cti(end))
            continue
        payload, vs = value[0], int(value[1])
        old = ends.get((payload, vs))
        if name == "a":
            stream.append(insert(vs, end, p=payload))
        else:
            stream.append(adjust(vs, old, end, p=payload))
        ends[payload, vs] = end
    return stream


PHY1 = told("a(B, 8, ∞) a(A, 6, 12) m(B, 8, 10) f(11) f(∞)")
PHY2 = told("a(A, 6, 7) a(B, 8, 15) m(A, 6, 12) m(B, 8, 10) f(∞)")


@pytest.mark.parametrize("stream", [PHY1, PHY2], ids=["Phy1", "Phy2"])
def test_2_table_i_both_streams_describe_one_tdb(stream):
    # the printed intervals are closed on the right by mistake
    assert rows_of(stream) == [("A", 6, 12), ("B", 8, 10)]
    assert_every_prefix_is_valid(stream)


def test_2_table_i_prefixes_are_not_always_equivalent():
    assert rows_of(PHY1[:2]) == [("A", 6, 12), ("B", 8, INF)]
    assert rows_of(PHY2[:2]) == [("A", 6, 7), ("B", 8, 15)]


def test_2_section_i_b_why_f_11_cannot_follow_the_beginning_of_phy2():
    begun = [*PHY2[:2], cti(11)]
    # it would freeze A to [6, 7), and every end before 11
    for later in PHY2[2:4]:
        with pytest.raises(InvalidStream) as caught:
            validate([*begun, later])
        assert caught.value.rule == "promise broken"
    frozen = History.of(begun).frozen(11)
    assert frozen.rows() == [("A", 6, 7, "fully"), ("B", 8, 15, "half")]


TABLE_II = {
    "In2": told("a(A, 6, 12) a(B, 7, 14) m(A, 6, 15) f(16)"),
    "Out1": told("a(A, 6, 10) m(A, 6, 12) a(B, 7, 14) m(A, 6, 15) f(16)"),
    "Out2": told("a(A, 6, 15) a(B, 7, 14) f(16)"),
    "Out3": told("a(A, 6, 10) a(B, 7, 14) m(A, 6, 15) f(16)"),
}
IN1 = told("a(A, 6, 10) m(A, 6, 15)")


@pytest.mark.parametrize("name", TABLE_II)
def test_2_table_ii_input_and_outputs_describe_one_tdb(name):
    assert rows_of(TABLE_II[name]) == [("A", 6, 15), ("B", 7, 14)]
    assert_every_prefix_is_valid(TABLE_II[name])
    assert History.of(TABLE_II[name]).frozen(16)["frozen"].to_list() == ["fully", "fully"]


def test_2_table_ii_in1_has_told_a_part_of_it():
    assert_every_prefix_is_valid(IN1)
    assert rows_of(IN1) == [("A", 6, 15)]
    assert len(History.of(IN1).minus(History.of(TABLE_II["In2"]))) == 0
    assert rows_of([*IN1, insert(7, 14, p="B"), cti(16)]) == [("A", 6, 15), ("B", 7, 14)]


EXAMPLE_3 = {
    "S[5]": "open(A, 1), open(B, 2), open(C, 3), close(A, 4), close(B, 5)",
    "U[5]": "open(A, 1), close(A, 4), open(B, 2), close(B, 5), open(C, 3)",
    "W[6]": "open(B, 2), close(B, 6), open(A, 1), open(C, 3), close(A, 4), close(B, 5)",
}


def opened(name: str) -> pl.DataFrame:
    rows = re.findall(r"(open|close)\((\w), (\d)\)", EXAMPLE_3[name])
    assert f"[{len(rows)}]" == name[1:]
    return pl.DataFrame(rows, schema=["kind", "p", "at"], orient="row").cast({"at": pl.Int64})


@pytest.mark.parametrize("name", EXAMPLE_3)
def test_2_example_3_equivalent_prefixes_of_open_and_close(name):
    batch = from_open_close(opened(name), at="at")
    assert History.of(batch).rows() == [("A", 1, 4), ("B", 2, 5), ("C", 3, INF)]
    assert_every_prefix_is_valid(list(batch))


def test_2_example_3_the_second_close_revises_the_first():
    batch = from_open_close(opened("W[6]"), at="at")
    assert list(batch)[-1] == adjust(2, 6, 5, p="B")


def test_2_section_iii_c_properties_of_example_3():
    observed = {
        name: StreamProperties.observed(from_open_close(opened(name), at="at")) for name in EXAMPLE_3
    }
    # "S[5] has this property, but neither U[5] nor W[6] does"
    assert [observed[name].ordered for name in EXAMPLE_3] == [True, False, False]
    assert all(properties.vs_payload_key for properties in observed.values())


def test_2_example_5_adjusts_of_one_event():
    chain: list[Element] = [
        insert(6, 20, p="A"),
        adjust(6, 20, 30, p="A"),
        adjust(6, 30, 25, p="A"),
    ]
    assert History.of(chain) == History.of([insert(6, 25, p="A")])
    assert rows_of([*chain, adjust(6, 25, 6, p="A")]) == []


@pytest.mark.parametrize(
    "element",
    [
        insert(9, 20, p="B"),  # Vs < Vc
        adjust(3, 8, 12, p="A"),  # Vold < Vc
        adjust(4, 15, 9, p="C"),  # Ve < Vc
    ],
)
def test_2_example_5_what_stable_10_forbids(element):
    before: list[Element] = [insert(3, 8, p="A"), insert(4, 15, p="C"), cti(10)]
    with pytest.raises(InvalidStream) as caught:
        validate([*before, element])
    assert (caught.value.rule, caught.value.position) == ("promise broken", 3)


FREEZE = {"HF": "half", "FF": "fully", "UF": "un"}


@pytest.mark.parametrize(
    ("last", "table"),
    [
        (14, [("A", 2, 16, "HF"), ("B", 3, 10, "FF"), ("C", 4, 18, "HF"), ("D", 15, 20, "UF")]),
        (11, [("A", 2, 12, "HF"), ("B", 3, 10, "FF"), ("C", 4, 18, "HF"), ("E", 17, 21, "UF")]),
        (11, [("A", 2, INF, "HF"), ("B", 3, 10, "FF"), ("C", 4, INF, "HF")]),
        (
            14,
            [
                ("A", 2, 16, "HF"),
                ("B", 3, 10, "FF"),
                ("C", 4, 18, "HF"),
                ("D", 15, 20, "UF"),
                ("E", 17, 21, "UF"),
            ],
        ),
        (13, [("A", 2, 12, "FF"), ("C", 4, 18, "HF"), ("D", 15, 20, "UF")]),
    ],
    ids=["I1", "I2", "O1", "O2", "O3"],
)
def test_2_section_iii_d_freeze_status(last, table):
    history = History.of([insert(vs, ve, p=p) for p, vs, ve, _ in table], P)
    assert history.frozen(last).rows() == [(p, vs, ve, FREEZE[s]) for p, vs, ve, s in table]
