"""Persistence: the state of operators as bytes and back, without any code in them.

A state becomes a *skeleton*, which is JSON, and *buffers*: the memory of its arrays as it is, and its
frames as Arrow IPC. The skeleton is

    {"version": 1, "classes": [[name, [field, ...]], ...], "nodes": [node, ...], "state": value}

A value is null, true, false, a number, a text, [n]: what node n stands for, or [[value, ...]]: a short
tuple. A node is [kind, ...]; a part stands before the whole that it is a part of. So an object that is
referred to twice is one node, and comes back as one object; a cycle cannot be written. A class is only a
name, "module:qualname", of a dataclass, a NamedTuple or an Enum that a module of this package defines;
nothing else is looked up, and nothing of theirs is called. What is neither such an object nor
plain data is refused.

What can be computed again is not written: its class says so by a `__reduce__` of (class, ()), and it is
made anew.

    file = magic, version, number of buffers, length of the skeleton
           | the length of each buffer | the skeleton | the buffers

Whatever the bytes are, none of them is run. They are checked as far as the shapes of things go; that the
numbers of a state fit each other, nobody checks: whoever keeps states guards them from being changed.
Not here: who keeps them, and whether they belong to the plan (DESIGN section 4).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import importlib
import io
import json
import math
import mmap
import os
import re
import reprlib
import stat
import struct
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import ModuleType, NoneType
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slackwater.admission import Admission
from slackwater.errors import OperatorError, SlackwaterError

__all__ = ["Encoded", "InvalidState", "decode", "encode", "is_carried"]

Bytes: TypeAlias = bytes | memoryview

_MAGIC = b"\x89SWstate"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ")
"""magic, version, number of buffers, length of the skeleton"""
_PACKAGE = "slackwater"
_INLINE = 2**63
"""integers beyond it are written in hexadecimal, which has no limit of digits"""
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBERS = "biufc"
"""the kinds of NumPy types whose memory holds values, and no references"""


class InvalidState(SlackwaterError, ValueError):
    """Bytes that are not a state, or not one that this version can read."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A state as bytes. The buffers are the state's own memory: write them before it goes on."""

    skeleton: bytes
    buffers: list[Bytes]

    def parts(self) -> Iterator[Bytes]:
        """The bytes of a file, piece by piece."""
        yield _HEADER.pack(_MAGIC, _VERSION, len(self.buffers), len(self.skeleton))
        yield struct.pack(f"<{len(self.buffers)}Q", *map(len, self.buffers))
        yield self.skeleton
        yield from self.buffers

    @property
    def size(self) -> int:
        """How many bytes a file of it has."""
        return sum(map(len, self.parts()))

    def write(self, file: BinaryIO) -> None:
        """Append it to a file."""
        for part in self.parts():
            if isinstance(file, io.RawIOBase):
                # it may take less than it is given
                rest = memoryview(part)
                while rest:
                    taken = file.write(rest)
                    if taken is None:
                        raise BlockingIOError("a state is written to files that wait")
                    rest = rest[taken:]
            else:
                file.write(part)

    @classmethod
    def read(cls, file: BinaryIO) -> Encoded:
        """The next one of a file. One that was opened from a path is mapped, not read."""
        whole = _mapped(file)
        if whole is None:
            return _read(lambda length: _read_exactly(file, length))
        start = file.tell()
        window = _Window(whole, start)
        encoded = _read(window.take)
        file.seek(window.at)
        return encoded

    @classmethod
    def of(cls, data: Bytes) -> Encoded:
        """All of these bytes."""
        window = _Window(memoryview(data), 0)
        encoded = _read(window.take)
        if window.at != len(data):
            raise _invalid(f"{len(data) - window.at} bytes are left over")
        return encoded


def encode(state: object) -> Encoded:
    """A state as bytes; refused if it holds anything that is not plain data."""
    encoder = _Encoder()
    try:
        value = encoder.value(state)
    except _Refused as refused:
        raise OperatorError(
            f"the state cannot be written down: {refused}",
            detail=f"at state{''.join(reversed(refused.path))}",
            hint="a state holds numbers, texts, arrays, frames, and lists, sets and dicts of those",
        ) from None
    except RecursionError:
        raise OperatorError(
            "the state cannot be written down: it is nested too deep",
            hint="a list of parts that refer to each other by number can be as long as you like",
        ) from None
    classes = [[known.name, known.fields] for known, _ in encoder.classes.values()]
    skeleton = {"version": _VERSION, "classes": classes, "nodes": encoder.nodes, "state": value}
    text = json.dumps(skeleton, separators=(",", ":"), allow_nan=False, check_circular=False)
    return Encoded(text.encode("ascii"), encoder.buffers)


def decode(encoded: Encoded) -> Any:
    """The state again, in memory of its own: its arrays may be written to."""
    try:
        skeleton = json.loads(str(encoded.skeleton, "ascii"))
    except (ValueError, RecursionError) as problem:
        raise _invalid(f"its skeleton is not JSON: {problem}") from problem
    if not isinstance(skeleton, dict):
        raise _invalid("its skeleton is not an object of JSON")
    _require_version(skeleton.get("version"))
    match skeleton:
        case {"classes": list(classes), "nodes": list(nodes), "state": state}:
            decoder = _Decoder([_looked_up(each) for each in classes], encoded.buffers)
        case _:
            raise _invalid("its skeleton lacks a part")
    for at, node in enumerate(nodes):
        try:
            decoder.made.append(decoder.node(node))
        except (TypeError, ValueError, IndexError, OverflowError, RecursionError) as problem:
            if isinstance(problem, InvalidState):
                raise
            raise _invalid(f"node {at}, {reprlib.repr(node)}: {problem}") from problem
    try:
        return decoder.value(state)
    except (ValueError, IndexError, TypeError, RecursionError) as problem:
        raise _invalid(f"it stands for nothing: {reprlib.repr(state)}") from problem


def _invalid(detail: str) -> InvalidState:
    return InvalidState(
        "these bytes are not a state",
        detail=detail,
        hint="they may have been cut off or changed; an earlier state may still be whole",
    )


def _require_version(version: object) -> None:
    if version != _VERSION:
        raise InvalidState(
            f"a state of format version {version!r} cannot be read",
            detail=f"this version of Slackwater reads and writes format version {_VERSION}",
            hint="go on with the version that has written it, or start anew from the input",
        )


# files


def _read(take: Callable[[int], Bytes]) -> Encoded:
    magic, version, count, length = _HEADER.unpack(take(_HEADER.size))
    if magic != _MAGIC:
        raise _invalid(f"they begin with {magic!r}")
    _require_version(version)
    lengths = struct.unpack(f"<{count}Q", take(8 * count))
    skeleton = bytes(take(length))
    return Encoded(skeleton, [take(each) for each in lengths])


class _Window:
    """Bytes in memory, and how far they have been taken."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self.at = data, at

    def take(self, length: int) -> memoryview:
        if length > len(self._data) - self.at:
            raise _invalid(f"{length} bytes should follow byte {self.at}, but they end before")
        self.at += length
        return self._data[self.at - length : self.at]


def _mapped(file: BinaryIO) -> memoryview | None:
    """The whole file as memory, if it is one on disk that is open for reading only."""
    if not isinstance(file, io.BufferedReader) or not isinstance(file.raw, io.FileIO):
        return None
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return None
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _read_exactly(file: BinaryIO, length: int) -> bytes:
    pieces, left = [], length
    try:
        while left and (piece := file.read(left)):
            pieces.append(piece)
            left -= len(piece)
    except (MemoryError, OverflowError) as problem:
        raise _invalid(f"{length} bytes should follow, more than there can be") from problem
    if left:
        raise _invalid(f"{length} bytes should follow, but {left} of them are missing")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# classes


class _Known(NamedTuple):
    """A class whose objects may be part of a state."""

    made: type
    kind: str
    """object, named, enum, or anew"""
    fields: list[str]

    @property
    def name(self) -> str:
        return f"{self.made.__module__}:{self.made.__qualname__}"


_PLAIN: Mapping[type, list[str]] = {Admission: list(vars(Admission()))}
"""classes that keep state, and are no dataclasses; and what they keep"""


def _known(made: type) -> _Known | None:
    """How objects of a class are written; None if they are not."""
    module: object = made.__module__
    if not isinstance(module, str) or _found(module, made.__qualname__) is not made:
        return None
    if "__reduce__" in vars(made):
        return _Known(made, "anew", [])
    if made in _PLAIN:
        return _Known(made, "object", _PLAIN[made])
    if isinstance(made, enum.EnumMeta):
        return _Known(made, "enum", [])
    if made.__bases__ == (tuple,) and "_fields" in vars(made):
        return _Known(made, "named", list(made._fields))  # type: ignore[attr-defined]
    new: object = made.__new__
    if "__dataclass_fields__" in vars(made) and new is object.__new__:
        fields = [field.name for field in dataclasses.fields(made)]
        if _slots(made) <= {*fields, "__weakref__"}:
            return _Known(made, "object", fields)
    return None


def _slots(made: type) -> set[str]:
    found: set[str] = set()
    for each in made.__mro__:
        slots = vars(each).get("__slots__", ())
        found.update([slots] if isinstance(slots, str) else slots)
    return found


def _found(module: str, qualname: str) -> object:
    """What a module of this package calls by a name; None if there is no such thing."""
    package, *parts = module.split(".")
    if (
        package != _PACKAGE
        or not parts
        or not all(re.fullmatch("(?!__)[A-Za-z_0-9]+", p) for p in parts)
    ):
        return None
    try:
        found: object = importlib.import_module(module)
    except ImportError:
        return None
    for name in qualname.split("."):
        # not getattr: a name may only stand for what is written there
        found = vars(found).get(name) if isinstance(found, type | ModuleType) else None
    return found


def _looked_up(written: object) -> _Known:
    """The class that a skeleton names."""
    match written:
        case [str(name), list(fields)]:
            module, _, qualname = name.partition(":")
        case _:
            raise _invalid(f"{reprlib.repr(written)} does not name a class")
    found = _found(module, qualname)
    known = _known(found) if isinstance(found, type) else None
    if known is None or known.name != name:
        raise _invalid(f"{reprlib.repr(name)} is no class of states")
    if known.fields != fields:
        raise InvalidState(
            f"a state of another version cannot be read: {name} has changed",
            detail=f"written with {', '.join(map(str, fields))}; now it has {', '.join(known.fields)}",
            hint="go on with the version that has written it, or start anew from the input",
        )
    return known


# frames


def _written(frame: pl.DataFrame) -> memoryview:
    file = io.BytesIO()
    frame.write_ipc_stream(file, compat_level=pl.CompatLevel.newest())
    return file.getbuffer()


def _frame(buffer: Bytes, checksum: object) -> pl.DataFrame:
    """The frame again. Polars would end the process for lengths that are too long: Arrow looks first."""
    if zlib.crc32(buffer) != checksum:
        raise ValueError("a frame has another checksum")
    try:
        pa.ipc.open_stream(buffer).read_all().validate(full=True)
    except pa.ArrowNotImplementedError:
        # it has no integers of 128 bits: for these, the checksum must do
        pass
    except (pa.ArrowException, OSError, MemoryError) as problem:
        raise ValueError(f"not a frame: {problem}") from problem
    try:
        return pl.read_ipc_stream(io.BytesIO(buffer))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
        raise ValueError(f"not a frame: {problem}") from problem


@lru_cache(maxsize=1024)
def is_carried(dtype: pl.DataType) -> bool:
    """Whether columns of a type come back from Arrow IPC as they were."""
    try:
        column = pl.Series("", [None], dtype=dtype).to_frame()
        return pl.read_ipc_stream(io.BytesIO(_written(column))).schema == column.schema
    except (TypeError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return False


# writing


class _Refused(Exception):
    """Something that is no plain data; where it is, is added from the inside out."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.path: list[str] = []


Value: TypeAlias = Any
"""of JSON: a plain value, or [n]"""


_VALUES = frozenset({dt.date, dt.datetime, dt.time, dt.timedelta, Decimal})
"""kinds of values of columns: one is written as a column of one"""
_PLAIN_KINDS = frozenset({NoneType, bool, int, float, str})


def _is_plain(thing: Any) -> bool:
    """Whether a value of such a kind is written in JSON as it is, and comes back."""
    of = type(thing)
    if of is int:
        return bool(-_INLINE <= thing < _INLINE)
    if of is str:
        return bool(thing.isascii() or not _SURROGATE.search(thing))
    return of is not float or math.isfinite(thing)


def _inlined(things: tuple[Any, ...], depth: int = 2) -> list[Value] | None:
    """A tuple of plain values, and of such tuples: nobody minds if it is written wherever it stands."""
    written: list[Value] = []
    for thing in things:
        of = type(thing)
        if of in _PLAIN_KINDS and _is_plain(thing):
            written.append(thing)
        elif of is tuple and depth > 1 and (inline := _inlined(thing, depth - 1)) is not None:
            written.append([inline])
        else:
            return None
    return written


class _Encoder:
    """The nodes of one state."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.buffers: list[Bytes] = []
        self.classes: dict[type, tuple[_Known, int]] = {}
        # by id: the node of an object, or None while its parts are written; and the object, to keep it
        self._seen: dict[int, tuple[list[int] | None, object]] = {}

    def value(self, thing: Any) -> Value:
        of = type(thing)
        if of in _PLAIN_KINDS and _is_plain(thing):
            return thing
        if of is tuple and (inline := _inlined(thing)) is not None:
            return [inline]
        seen = self._seen.get(id(thing))
        if seen is None:
            self._seen[id(thing)] = None, thing
            node = self._node(of, thing)
            at = [len(self.nodes)]
            self.nodes.append(node)
            self._seen[id(thing)] = at, thing
            return at
        if seen[0] is None:
            raise _Refused(f"it holds itself, a {of.__name__}")
        return seen[0]

    def _values(self, things: Collection[Any], place: Callable[[int], str]) -> list[Value]:
        if _PLAIN_KINDS.issuperset(map(type, things)) and all(map(_is_plain, things)):
            return list(things)
        written: list[Value] = []
        try:
            for thing in things:
                written.append(self.value(thing))  # noqa: PERF401  the place of what is refused
        except _Refused as refused:
            refused.path.append(place(len(written)))
            raise
        return written

    def _node(self, of: type, thing: Any) -> list[Any]:
        if of in (tuple, list):
            return [of.__name__, self._values(thing, "[{}]".format)]
        if of is dict:
            keys = list(thing)
            written = self._values(keys, lambda at: f" key {reprlib.repr(keys[at])}")
            return [
                "dict",
                written,
                self._values(thing.values(), lambda at: f"[{reprlib.repr(keys[at])}]"),
            ]
        if of is np.ndarray:
            return self._array(thing)
        if issubclass(of, np.generic):
            dtype = self._dtype(thing.dtype)
            return ["scalar", dtype, thing.tobytes().hex()]
        if of is int:
            return ["int", f"{thing:x}"]
        if of is float:
            return ["float", struct.pack(">d", thing).hex()]
        if of is str:
            return ["str", thing.encode("utf-8", "surrogatepass").hex()]
        if of is bytes:
            return ["bytes", self._buffer(thing)]
        if of in (set, frozenset):
            return [of.__name__, self._values(thing, lambda _: " element")]
        if of is deque:
            return ["deque", self._values(thing, "[{}]".format), thing.maxlen]
        if of is pl.DataFrame:
            return ["frame", *self._frame(thing)]
        if of in _VALUES:
            return ["value", *self._frame(pl.Series("", [thing]).to_frame())]
        if of is pl.Series:
            return ["series", *self._frame(thing.to_frame())]
        if of is pl.Schema:
            return ["schema", *self._frame(pl.DataFrame(schema=thing))]
        if isinstance(thing, pl.DataType):
            return ["dtype", *self._frame(pl.DataFrame(schema={"": thing}))]
        return self._object(of, thing)

    def _buffer(self, data: Bytes) -> int:
        self.buffers.append(data)
        return len(self.buffers) - 1

    def _array(self, array: npt.NDArray[Any]) -> list[Any]:
        dtype, flags = self._dtype(array.dtype), array.flags
        order: Any = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
        flat = np.ascontiguousarray(array.reshape(-1, order=order))
        return ["array", self._buffer(flat.view(np.uint8).data), dtype, list(array.shape), order]

    @staticmethod
    def _dtype(dtype: np.dtype[Any]) -> str:
        if dtype.kind not in _NUMBERS:
            raise _Refused(f"it holds an array of {dtype}")
        return dtype.str

    def _frame(self, frame: pl.DataFrame) -> tuple[int, int]:
        for name, dtype in frame.schema.items():
            if not is_carried(dtype):
                raise _Refused(f"it holds a column {name!r} of type {dtype}")
        written = _written(frame)
        return self._buffer(written), zlib.crc32(written)

    def _object(self, of: type, thing: Any) -> list[Any]:
        if of not in self.classes:
            known = _known(of)
            if known is None:
                raise _Refused(
                    f"it holds {reprlib.repr(thing)}, of type {of.__module__}.{of.__qualname__}"
                )
            self.classes[of] = known, len(self.classes)
        known, number = self.classes[of]
        if known.kind == "anew":
            if thing.__reduce__() != (of, ()):
                raise _Refused(f"it holds {reprlib.repr(thing)}, which is made in a way of its own")
            return ["anew", number]
        if known.kind == "enum":
            if of.__members__.get(thing.name) is not thing:  # type: ignore[attr-defined]
                raise _Refused(f"it holds {thing!r}, which has no name of its own")
            return ["enum", number, thing.name]
        place = lambda at: f".{known.fields[at]}"
        if known.kind == "named":
            return ["named", number, self._values(thing, place)]
        missing = [name for name in known.fields if not hasattr(thing, name)]
        unknown = getattr(thing, "__dict__", {}).keys() - set(known.fields)
        for name in [*missing, *sorted(unknown)]:
            what = "without" if name in missing else "with"
            raise _Refused(f"it holds a {of.__name__} {what} an attribute {name!r}")
        return ["object", number, self._values([getattr(thing, name) for name in known.fields], place)]


# reading


class _Decoder:
    """What the nodes stand for, one after the other."""

    def __init__(self, classes: list[_Known], buffers: list[Bytes]) -> None:
        self._classes = classes
        self._buffers = buffers
        self.made: list[Any] = []

    def value(self, written: Value) -> Any:
        if type(written) is list:
            [at] = written
            return tuple(self._values(at)) if type(at) is list else self.made[_index(at)]
        if type(written) is dict:
            raise ValueError("a value is not an object of JSON")
        return written

    def _values(self, written: list[Value]) -> list[Any]:
        return [self.value(each) if type(each) in (list, dict) else each for each in written]

    def node(self, node: object) -> Any:
        match node:
            case ["tuple", list(values)]:
                return tuple(self._values(values))
            case ["list", list(values)]:
                return self._values(values)
            case ["dict", list(keys), list(values)]:
                return dict(zip(self._values(keys), self._values(values), strict=True))
            case ["object", number, list(values)]:
                return self._object(self._class(number, "object"), self._values(values))
            case ["array", at, str(dtype), list(shape), ("C" | "F") as order]:
                return self._array(self._buffer(at), dtype, shape, order)
            case ["scalar", str(dtype), str(digits)]:
                return self._array(bytes.fromhex(digits), dtype, [], "C")[()]
            case ["int", str(digits)]:
                return int(digits, 16)
            case ["float", str(digits)]:
                return self._float(bytes.fromhex(digits))
            case ["str", str(digits)]:
                return bytes.fromhex(digits).decode("utf-8", "surrogatepass")
            case ["bytes", at]:
                return bytes(self._buffer(at))
            case ["set", list(values)]:
                return set(self._values(values))
            case ["frozenset", list(values)]:
                return frozenset(self._values(values))
            case ["deque", list(values), int() | None as longest]:
                return deque(self._values(values), longest)
            case ["frame", at, checksum]:
                return _frame(self._buffer(at), checksum)
            case ["value", at, checksum]:
                return _frame(self._buffer(at), checksum).item()
            case ["series", at, checksum]:
                return _frame(self._buffer(at), checksum).to_series()
            case ["schema", at, checksum]:
                return _frame(self._buffer(at), checksum).schema
            case ["dtype", at, checksum]:
                [column] = _frame(self._buffer(at), checksum).get_columns()
                return column.dtype
            case ["named", number, list(values)]:
                return self._named(self._class(number, "named"), self._values(values))
            case ["enum", number, str(name)]:
                return self._member(self._class(number, "enum"), name)
            case ["anew", number]:
                return self._anew(self._class(number, "anew"))
        raise ValueError("there is no such kind of node")

    def _buffer(self, at: object) -> Bytes:
        return self._buffers[_index(at)]

    def _class(self, number: object, kind: str) -> _Known:
        known = self._classes[_index(number)]
        if known.kind != kind:
            raise ValueError(f"{known.name} is not made so")
        return known

    @staticmethod
    def _array(data: Bytes, dtype: str, shape: list[Any], order: str) -> npt.NDArray[Any]:
        of = _numbers(dtype)
        lengths = [_index(length) for length in shape]
        if math.prod(lengths) * of.itemsize != len(data):
            raise ValueError(f"{len(data)} bytes are no array of {dtype} of shape {lengths}")
        layout: Any = order
        return np.frombuffer(data, dtype=of).reshape(lengths, order=layout).copy(order=layout)

    @staticmethod
    def _float(data: bytes) -> float:
        if len(data) != 8:
            raise ValueError("a float has 8 bytes")
        [number] = struct.unpack(">d", data)
        return float(number)

    @staticmethod
    def _object(known: _Known, values: list[Any]) -> Any:
        made: object = object.__new__(known.made)
        for name, value in zip(known.fields, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    @staticmethod
    def _anew(known: _Known) -> Any:
        made = known.made()
        if made.__reduce__() != (known.made, ()):
            raise ValueError(f"{known.name} is made in a way of its own")
        return made

    @staticmethod
    def _named(known: _Known, values: list[Any]) -> Any:
        if len(values) != len(known.fields):
            raise ValueError(f"a {known.name} has {len(known.fields)} fields")
        made: Any = known.made
        return tuple.__new__(made, values)

    @staticmethod
    def _member(known: _Known, name: str) -> Any:
        member = known.made.__members__.get(name)  # type: ignore[attr-defined]
        if member is None:
            raise ValueError(f"{known.name} has no member {name!r}")
        return member


@lru_cache(maxsize=64)
def _numbers(dtype: str) -> np.dtype[Any]:
    if not re.fullmatch(f"[<>|][{_NUMBERS}][0-9]+", dtype):
        raise ValueError(f"{dtype!r} is not a type of numbers")
    return np.dtype(dtype)


def _index(number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a place")
    return number
