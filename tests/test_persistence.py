"""States as bytes: they come back as they were, in any process, and nothing else comes with them."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import struct
import subprocess
import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.laws import CASES, Case

import slackwater as sw
from slackwater.admission import Admission
from slackwater.errors import OperatorError
from slackwater.events import Event, Stream
from slackwater.kernels.grouping import Keys
from slackwater.operators.products import Product
from slackwater.persistence import Encoded, InvalidState, decode, encode
from slackwater.plan.functions import Function
from slackwater.plan.nodes import Source
from slackwater.promises import Promises
from slackwater.punctuations import ExternalCti, Punctuation
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams


def through_bytes(state: object) -> Any:
    return decode(Encoded.of(b"".join(encode(state).parts())))


def same(left: Any, right: Any) -> bool:
    """Equal to the last bit, and of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray | np.generic):
        layout = "c_contiguous", "f_contiguous"
        alike = (left.dtype, left.shape) == (right.dtype, right.shape)
        ordered = all(getattr(right.flags, name) or not getattr(left.flags, name) for name in layout)
        return alike and ordered and left.tobytes() == right.tobytes()
    if isinstance(left, pl.DataFrame):
        return left.shape == right.shape and left.schema == right.schema and _same_frame(left, right)
    if isinstance(left, pl.Series):
        return same(left.to_frame(), right.to_frame())
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    if isinstance(left, tuple | list | deque):
        bounded = getattr(left, "maxlen", None) == getattr(right, "maxlen", None)
        return bounded and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left), list(right)) and same(list(left.values()), list(right.values()))
    if "__reduce__" in vars(type(left)):
        # what can be computed again comes back empty
        fresh = type(left)()
        names = getattr(fresh, "__slots__", None) or list(vars(fresh))
        return all(same(getattr(right, name), getattr(fresh, name)) for name in names)
    if dataclasses.is_dataclass(left):
        names = [field.name for field in dataclasses.fields(left)]
        return all(same(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, Admission):
        return same(vars(left), vars(right))
    return bool(left == right)


def _same_frame(left: pl.DataFrame, right: pl.DataFrame) -> bool:
    # as Arrow shows them: NaN and -0.0 are told apart by their bytes
    pairs = zip(left.get_columns(), right.get_columns(), strict=True)
    return all(repr(a.to_list()) == repr(b.to_list()) for a, b in pairs)


# values

NUMBERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**400), 2**400),
    st.floats(),
    st.text(st.characters(exclude_categories=())),
    st.binary(),
)
DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0)).flatmap(
    lambda array: st.sampled_from([array, np.asfortranarray(array), array[::2] if array.ndim else array])
)
OBJECTS = st.one_of(
    st.builds(Promises, st.integers()),
    st.builds(Punctuation, st.integers()),
    st.builds(ExternalCti, st.integers(1), st.integers(0), st.integers(max_value=0)),
    st.builds(
        Product, zeros=st.integers(), factors=st.dictionaries(st.tuples(st.integers()), st.integers())
    ),
    st.sampled_from(sw.OutputLatency),
    st.integers(0, 5).map(lambda height: pl.DataFrame(height=height)),
)


@st.composite
def frames(draw: st.DrawFn) -> object:
    dtypes: list[pl.DataType] = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    rows = draw(st.integers(0, 3))
    columns = [
        pl.Series(f"c{i}", [draw(st.sampled_from(VALUES[dtype])) for _ in range(rows)], dtype)
        for i, dtype in enumerate(dtypes)
    ]
    frame = pl.DataFrame(columns)
    return draw(st.sampled_from([frame, columns[0], frame.schema, dtypes[0]]))


VALUES: dict[pl.DataType, list[Any]] = {
    pl.Int8(): [None, -1, 7],
    pl.UInt64(): [None, 2**64 - 1],
    pl.Int128(): [None, 2**126, -1],
    pl.UInt128(): [None, 2**127],
    pl.Float64(): [None, math.nan, -0.0, 0.0, math.inf],
    pl.Float32(): [None, 0.5],
    pl.String(): [None, "", "tide", "more than twelve bytes", "\0", "水"],
    pl.Binary(): [None, b"", b"\xff" * 20],
    pl.Boolean(): [None, True],
    pl.Categorical(): [None, "high", "low"],
    pl.Categorical(pl.Categories("tides", "slackwater tests", pl.UInt8)): [None, "ebb", "flood"],
    pl.Enum(["ebb", "flood"]): [None, "flood"],
    pl.Decimal(38, 2): [None, 12],
    pl.Datetime("us", "Europe/Lisbon"): [None, 1_000_000],
    pl.Datetime("ms"): [None, -5],
    pl.Duration("us"): [None, 5],
    pl.Date(): [None, 3],
    pl.Time(): [None, 4],
    pl.Null(): [None],
    pl.List(pl.Categorical()): [None, [], ["high", None]],
    pl.List(pl.Int128()): [None, [2**100]],
    pl.Array(pl.Float32(), 2): [None, [1.0, math.nan]],
    pl.Struct({"a": pl.String(), "b": pl.List(pl.Int8())}): [None, {"a": None, "b": [1]}],
    pl.Struct({}): [None, {}],
}
TYPES = list(VALUES)

HASHABLE = st.recursive(NUMBERS, lambda parts: st.lists(parts, max_size=3).map(tuple), max_leaves=5)
STATES = st.recursive(
    st.one_of(
        NUMBERS, ARRAYS, OBJECTS, frames(), ARRAYS.filter(lambda a: a.size > 0).map(lambda a: a.flat[0])
    ),
    lambda parts: st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=4).map(tuple),
        st.dictionaries(HASHABLE, parts, max_size=3),
        st.builds(deque, st.lists(parts, max_size=3), st.sampled_from([None, 2, 5])),
        st.builds(Event, parts, parts, parts),
    ),
    max_leaves=12,
)


@given(STATES)
def test_a_state_comes_back_as_it_was(state: object) -> None:
    assert same(state, through_bytes(state))


@given(st.sets(HASHABLE))
def test_sets_come_back(members: set[Any]) -> None:
    # a NaN is equal to no other, so the bytes of all of them are compared
    for made in (through_bytes(members), through_bytes(frozenset(members))):
        assert sorted(map(repr, made)) == sorted(map(repr, members))
    assert isinstance(through_bytes(members), set)
    assert isinstance(through_bytes(frozenset(members)), frozenset)


@pytest.mark.parametrize("number", [math.nan, -math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1])
def test_floats_keep_their_bits(number: float) -> None:
    assert struct.pack("d", through_bytes(number)) == struct.pack("d", number)


def test_what_is_shared_stays_shared() -> None:
    array, part, promises = np.arange(3), [1], Promises(4)
    one = through_bytes({"a": [array, part, promises], "b": (array, part, promises, promises)})
    assert all(left is right for left, right in zip(one["a"], one["b"], strict=False))
    assert one["b"][2] is one["b"][3]


def test_what_is_equal_but_not_shared_stays_apart() -> None:
    left, right = through_bytes([[1], [1]])
    assert left == right
    assert left is not right


def test_arrays_own_their_memory(tmp_path: Path) -> None:
    array = np.arange(6).reshape(2, 3)
    frozen = np.arange(4)
    frozen.flags.writeable = False
    path = tmp_path / "state"
    with path.open("wb") as file:
        encode([array, frozen, array.T]).write(file)
    with path.open("rb") as file:
        encoded = Encoded.read(file)
    first, second = decode(encoded), decode(encoded)
    path.unlink()
    for made in first:
        assert made.flags.owndata
        assert made.flags.writeable
        made[:] = -1
    assert second[0].tolist() == array.tolist() == [[0, 1, 2], [3, 4, 5]]


# files


class Narrow(io.RawIOBase):
    """A file that takes and gives a few bytes at a time."""

    def __init__(self) -> None:
        self.inner = io.BytesIO()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self.inner.write(bytes(data[:7]))

    def readinto(self, room: Any) -> int:
        piece = self.inner.read(min(5, len(room)))
        room[: len(piece)] = piece
        return len(piece)


STATE = {"keys": ["a", None], "values": np.arange(100), "frame": pl.DataFrame({"k": ["x", "y"]})}


def test_several_states_in_one_file(tmp_path: Path) -> None:
    narrow, memory, path = Narrow(), io.BytesIO(), tmp_path / "states"
    with path.open("wb") as file, (tmp_path / "raw").open("wb", buffering=0) as raw:
        for target in (narrow, memory, file, raw):
            encode(STATE).write(target)  # type: ignore[arg-type]
            encode([1]).write(target)  # type: ignore[arg-type]
    narrow.inner.seek(0)
    memory.seek(0)
    with path.open("rb") as file, (tmp_path / "raw").open("rb", buffering=0) as raw:
        for source in (narrow, memory, file, raw):
            assert same(decode(Encoded.read(source)), STATE)  # type: ignore[arg-type]
            assert decode(Encoded.read(source)) == [1]  # type: ignore[arg-type]
            with pytest.raises(InvalidState, match="bytes should follow"):
                Encoded.read(source)  # type: ignore[arg-type]
    assert path.stat().st_size == encode(STATE).size + encode([1]).size


# what operators remember


def _arrivals(data: st.DataObject, case: Case) -> list[tuple[Source, Stream]]:
    told = []
    for source in case.sources:
        history = data.draw(histories(source.schema, unbounded=case.unbounded))
        stream = data.draw(streams(history, unbounded=case.unbounded))
        assert isinstance(source.node, Source)
        node = source.node
        told.append([(node, sw.Batch.of(part, source.schema)) for part in data.draw(batchings(stream))])
    return [arrival for turn in zip_longest(*told) for arrival in turn if arrival is not None]


@pytest.mark.parametrize("name", CASES)
def test_an_execution_goes_on_from_bytes(name: str) -> None:
    @settings(max_examples=3)
    @given(data=st.data())
    def law(data: st.DataObject) -> None:
        case = CASES[name]()
        undisturbed, other = Execution(case.query.node), Execution(case.query.node)
        for node, batch in _arrivals(data, case):
            state = through_bytes(other.snapshot())
            assert same(other.snapshot(), state)
            other = Execution(case.query.node)
            other.restore(state)
            assert _elements(other.push(node, batch)) == _elements(undisturbed.push(node, batch))

    law()


def _elements(batches: list[sw.Batch]) -> list[Any]:
    return [element for batch in batches for element in batch]


IN_ANOTHER_PROCESS = [
    "join by two keys",
    "extremes, eager",
    "group function, eager",
    "cleanse",
    "distinct",
]


def _halves(name: str) -> Iterator[list[tuple[Source, list[Any]]]]:
    """The same events for all streams of a case, told in two parts: the second takes some back."""
    rows = [{"k": k, "v": v, "x": x} for k in ("a", "水", None) for v, x in ((1, math.nan), (2, -0.0))]
    inserts = [sw.insert(i, 20, **row) for i, row in enumerate(rows)]
    adjusts = [sw.adjust(i, 20, 10 + i % 2, **row) for i, row in enumerate(rows)]
    again = [sw.insert(12 + i, 30, **row) for i, row in enumerate(rows)]
    for part in ([*inserts, sw.cti(3)], [*adjusts, *again, sw.cti(None)]):
        yield [(source.node, part) for source in CASES[name]().sources]  # type: ignore[misc]


def goes_on(name: str, path: str) -> list[str]:
    """What a case says to the second half, from a state in a file on."""
    _, second = _halves(name)
    execution = Execution(CASES[name]().query.node)
    with Path(path).open("rb") as file:
        execution.restore(decode(Encoded.read(file)))
    return [ascii(e) for source, part in second for e in _elements(execution.push(source, part))]


def test_another_process_goes_on(tmp_path: Path) -> None:
    script = "\n".join(
        f"print(*goes_on({name!r}, {str(tmp_path / name)!r}), sep='\\n')" for name in IN_ANOTHER_PROCESS
    )
    expected = []
    for name in IN_ANOTHER_PROCESS:
        first, second = _halves(name)
        execution = Execution(CASES[name]().query.node)
        for source, part in first:
            execution.push(source, part)
        with (tmp_path / name).open("wb") as file:
            encode(execution.snapshot()).write(file)
        expected += [
            ascii(e) for source, part in second for e in _elements(execution.push(source, part))
        ]
    assert len(expected) > 5 * len(IN_ANOTHER_PROCESS)
    done = subprocess.run(  # noqa: S603  ourselves
        [sys.executable, "-c", f"from tests.test_persistence import goes_on\n{script}"],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parent.parent,
        text=True,
    )
    assert done.stdout.splitlines() == expected


class Tally:
    """What a user's fold may keep."""

    def __init__(self) -> None:
        self.total = 0

    def plus(self, value: int) -> Tally:
        self.total += value
        return self


def test_the_groups_of_folds_are_computed_again() -> None:
    source = sw.stream({"v": int}, name="s")
    query = source.aggregate(
        t=sw.fold(
            "v",
            init=Tally,
            add=Tally.plus,
            remove=lambda tally, value: tally.plus(-value),
            result=lambda tally: tally.total,
            dtype=int,
        )
    )
    assert isinstance(source.node, Source)
    execution = Execution(query.node)
    execution.push(source.node, [sw.insert(0, 10, v=3), sw.insert(0, 10, v=4)])
    state = through_bytes(execution.snapshot())
    execution = Execution(query.node)
    execution.restore(state)
    said = _elements(execution.push(source.node, [sw.adjust(0, 10, 0, v=3)]))
    assert said == [sw.adjust(0, 10, 0, t=7), sw.insert(0, 10, t=4)]


# what is refused


@dataclass
class Foreign:
    a: int = 1


class Pair(NamedTuple):
    a: int
    b: int


class Whole(int):
    pass


class Mapped(dict[str, int]):
    pass


class Later(Promises):
    pass


def _with_more() -> Product:
    product = Product()
    product.more = 1  # type: ignore[attr-defined]
    return product


def _with_less() -> Keys:
    keys = Keys(pl.Schema({"a": pl.Int64()}))
    del keys.begins
    return keys


REFUSED: dict[str, tuple[Any, str]] = {
    "a function": (lambda: 1, "builtins.function"),
    "a class": (Promises, "builtins.type"),
    "a module": (math, "builtins.module"),
    "an object of a user": (Tally(), "tests.test_persistence.Tally"),
    "a foreign dataclass": (Foreign(), "tests.test_persistence.Foreign"),
    "a foreign NamedTuple": (Pair(1, 2), "tests.test_persistence.Pair"),
    "a foreign Enum": (pytest.ExitCode.OK, "ExitCode"),
    "a subclass of int": (Whole(1), "tests.test_persistence.Whole"),
    "a subclass of dict": (Mapped(), "tests.test_persistence.Mapped"),
    "a subclass of ours": (Later(1), "tests.test_persistence.Later"),
    "a class of ours that keeps no state": (sw.col("v"), "Expr"),
    "an error of ours": (OperatorError("no"), "slackwater.errors.OperatorError"),
    "a user's function in a query": (
        Function(len, (), pl.Int64(), "c"),
        "which is made in a way of its own",
    ),
    "an array of objects": (np.array([None]), "an array of object"),
    "an array of texts": (np.array(["a"]), "an array of <U1"),
    "a masked array": (np.ma.array([1], mask=[True]), "MaskedArray"),
    "a record": (np.zeros(1, dtype=[("a", int)])[0], "an array of"),
    "a column of objects": (pl.Series("o", [object()]), "a column 'o' of type Object"),
    "arrays of nothing": (pl.Series("o", [[]], pl.Array(pl.Int8, 0)), "a column 'o' of type Array"),
    "a lazy frame": (pl.LazyFrame(), "LazyFrame"),
    "a complex number": (1j, "builtins.complex"),
    "more than its fields": (_with_more(), "a Product with an attribute 'more'"),
    "less than its fields": (_with_less(), "a Keys without an attribute 'begins'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_plain_data_is_refused_with_its_place(what: str) -> None:
    thing, told = REFUSED[what]
    nested: Any = (2, thing)
    with pytest.raises(OperatorError) as refusal:
        encode([0, {"caches": Event(1, nested, {})}])
    assert told in refusal.value.fact
    assert refusal.value.detail == "at state[1]['caches'].ve[1]"
    assert refusal.value.hint


def test_keys_and_members_have_a_place_too() -> None:
    with pytest.raises(OperatorError, match=r"at state key \(1, 1j\)\[1\]"):
        encode({(1, 1j): 0})
    with pytest.raises(OperatorError, match="at state element"):
        encode({1j})


def test_cycles_and_depths_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append((cycle,))
    with pytest.raises(OperatorError, match="holds itself, a list"):
        encode(cycle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(OperatorError, match="nested too deep"):
        encode(deep)


# bytes that are no state


def _forged(nodes: list[Any], *, buffers: tuple[bytes, ...] = (), **parts: Any) -> Encoded:
    skeleton = {"version": 1, "classes": [], "nodes": nodes, "state": [len(nodes) - 1], **parts}
    return Encoded(json.dumps(skeleton).encode(), list(buffers))


def test_a_forged_state_is_read_like_a_written_one() -> None:
    """What the refusals below are worth: without their fault, such bytes are read."""
    promises = [["slackwater.promises:Promises", ["cti", "known"]]]
    assert decode(_forged([["object", 0, [7, None]]], classes=promises)) == Promises(7)
    assert decode(_forged([["array", 0, "<i4", [1, 2], "C"]], buffers=(b"\1\0\0\0" * 2,))).tolist() == [
        [1, 1]
    ]


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "builtins:list",
        "subprocess:Popen",
        "pathlib:Path",
        "dataclasses:Field",
        "slackwater:Batch",
        "slackwaterx.errors:OperatorError",
        "slackwater.errors:OperatorError",
        "slackwater.persistence:encode",
        "slackwater.persistence:Admission",
        "slackwater.persistence:io.BytesIO",
        "slackwater.persistence:_Encoder",
        "slackwater.persistence:Encoded.parts",
        "slackwater.persistence:Encoded.__class__",
        "slackwater.persistence",
        "slackwater.persistence:",
        "slackwater.nowhere:Promises",
        "slackwater.__init__:Batch",
        "slackwater..events:Batch",
        "slackwater.events.:Batch",
        "slackwater.punctuations:Punctuation.__init__",
        ":",
        "",
    ],
)
def test_only_state_classes_of_this_package_are_looked_up(name: str) -> None:
    for fields in ([], ["cti", "known"]):
        with pytest.raises(InvalidState, match="is no class of states"):
            decode(_forged([["object", 0, fields]], classes=[[name, fields]]))


def test_no_module_outside_of_the_package_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wicked.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("wicked:Thing", "slackwater.:wicked", "slackwater/../wicked:Thing"):
        with pytest.raises(InvalidState):
            decode(_forged([["anew", 0]], classes=[[name, []]]))
    assert "wicked" not in sys.modules


@pytest.mark.parametrize(
    "node",
    [
        ["array", 3, "<i8", [1], "C"],
        ["array", 1, "<i8", [1], "C"],
        ["array", -1, "<i8", [1], "C"],
        ["array", "0", "<i8", [1], "C"],
        ["array", 0, "<i8", [2], "C"],
        ["array", 0, "<i8", [], "K"],
        ["array", 0, "<i8", [-1, -1], "C"],
        ["array", 0, "<i8", [0.125, 8], "C"],
        ["array", 0, "|O8", [1], "C"],
        ["array", 0, "O", [1], "C"],
        ["array", 0, "<U2", [1], "C"],
        ["array", 0, "<i8,<i8", [1], "C"],
        ["array", 0, "<i7", [1], "C"],
        ["array", 1, "<i8", [0, 2**62, 2**62], "C"],
        ["scalar", "<i8", "00"],
        ["scalar", "|O8", "0000000000000000"],
        ["bytes", 5],
        ["frame", 0, 0],
        ["frame", 0, zlib.crc32(bytes(8))],
        ["int", "x"],
        ["float", "00"],
        ["str", "ff"],
        ["list", [[0]]],
        ["list", [[]]],
        ["list", [[-1]]],
        ["list", [{"a": 1}]],
        ["list", [[[{"a": 1}]]]],
        ["list", 3],
        ["dict", [1], []],
        ["dict", [[0]], [1]],
        ["set", [[0]]],
        ["deque", [], -1],
        ["deque", [], "3"],
        ["object", 0, []],
        ["object", 0, [1, 2, 3]],
        ["object", 1, [1]],
        ["object", 2, [1]],
        ["object", 3, []],
        ["named", 1, [1, 2]],
        ["enum", 2, "EARLY"],
        ["enum", 2, "__init__"],
        ["enum", 0, "cti"],
        ["anew", 0],
        ["anew", 3],
        ["anew", 9],
        ["pickle", "gASVAAAA"],
        [],
        {},
        "list",
        None,
    ],
    ids=str,
)
def test_a_node_that_cannot_be_is_refused(node: object) -> None:
    classes = [
        ["slackwater.promises:Promises", ["cti", "known"]],
        ["slackwater.events:Event", ["vs", "ve", "payload"]],
        ["slackwater.consistency:OutputLatency", []],
        ["slackwater.plan.functions:Function", []],
    ]
    buffers = (bytes(8), b"", bytes(1))
    nodes = [["list", []], node] if node in (["dict", [[0]], [1]], ["set", [[0]]]) else [node]
    with pytest.raises(InvalidState):
        decode(_forged(nodes, classes=classes, buffers=buffers))


@pytest.mark.parametrize(
    "skeleton",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"version":1}',
        b'{"version":1,"nodes":[],"state":[0]}',
    ],
)
def test_a_skeleton_that_cannot_be_is_refused(skeleton: bytes) -> None:
    with pytest.raises(InvalidState):
        decode(Encoded(skeleton, []))


def test_the_state_itself_must_be_there() -> None:
    deep: list[Any] = [[1]]
    for _ in range(450):
        deep = [[deep]]
    states: list[Any] = [[0], [], [[[0]]], [[{}]], {"a": 1}, [None], [1, 2], deep]
    for state in states:
        with pytest.raises(InvalidState):
            decode(_forged([], state=state))


def test_another_version_is_refused_by_name() -> None:
    encoded = encode([1])
    data = bytearray(b"".join(encoded.parts()))
    data[8] = 2
    with pytest.raises(InvalidState, match="format version 2 cannot be read"):
        Encoded.of(bytes(data))
    other = replace(encoded, skeleton=encoded.skeleton.replace(b'"version":1', b'"version":7'))
    with pytest.raises(InvalidState, match="format version 7 cannot be read"):
        decode(other)


def test_a_class_that_has_changed_is_refused_by_name() -> None:
    encoded = encode(Promises(3))
    other = replace(encoded, skeleton=encoded.skeleton.replace(b'["cti","known"]', b'["cti","sync"]'))
    with pytest.raises(InvalidState, match="Promises has changed") as refusal:
        decode(other)
    assert refusal.value.detail == "written with cti, sync; now it has cti, known"


def test_bytes_that_are_cut_off_or_too_many_are_refused(tmp_path: Path) -> None:
    data = b"".join(encode(STATE).parts())
    for length in range(len(data)):
        with pytest.raises(InvalidState):
            Encoded.of(data[:length])
        with pytest.raises(InvalidState):
            Encoded.read(io.BytesIO(data[:length]))
    with pytest.raises(InvalidState, match="1 bytes are left over"):
        Encoded.of(data + b"x")
    (tmp_path / "cut").write_bytes(data[:-1])
    with (tmp_path / "cut").open("rb") as file, pytest.raises(InvalidState):
        Encoded.read(file)


def test_lengths_that_cannot_be_are_refused() -> None:
    header = b"".join(encode(b"ab").parts())[:16]
    for claimed in (2**31, 2**62, 2**64 - 1):
        data = header + struct.pack("<Q", claimed) + b"{}"
        for read in (Encoded.of, lambda data: Encoded.read(io.BytesIO(data))):
            with pytest.raises(InvalidState):
                read(data)


@given(st.data())
def test_changed_bytes_give_a_state_or_a_refusal(data: st.DataObject) -> None:
    written = bytearray(b"".join(encode([STATE, Promises(2), {1: (2.5, sw.EAGER)}]).parts()))
    for at in data.draw(st.lists(st.integers(0, len(written) - 1), min_size=1, max_size=3)):
        written[at] = data.draw(st.integers(0, 255))
    with suppress(InvalidState):
        decode(Encoded.of(bytes(written)))
