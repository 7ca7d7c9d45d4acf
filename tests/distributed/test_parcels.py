"""Parcels as rows of a table, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.distributed import parcels
from slackwater.distributed.parcels import Parcel, from_arrow, to_arrow
from slackwater.errors import OperatorError


def _parcel(number: int, data: bytes | memoryview | None) -> Parcel:
    return Parcel(1, 0, 0, "a", "", number, data=data)


@pytest.mark.parametrize("datas", [[], [None], [b""], [b"one", None, b"", b"two"]])
def test_what_they_hold_comes_back(datas: list[bytes | None]) -> None:
    sent = [_parcel(number, data) for number, data in enumerate(datas)]
    back = from_arrow(to_arrow(sent))
    assert [None if p.data is None else bytes(p.data) for p in back] == datas
    # also from views, as a keeper gets them
    again = from_arrow(to_arrow(back))
    assert [None if p.data is None else bytes(p.data) for p in again] == datas


def test_who_sends_a_view_on_does_not_keep_it() -> None:
    held = bytearray(b"x" * 1000)
    parcel = _parcel(0, memoryview(pa.py_buffer(held)))
    rows = to_arrow([parcel])
    assert bytes(from_arrow(rows)[0].data or b"") == bytes(held)
    del parcel
    # a bytearray that anybody looks at cannot grow
    held.append(1)


def test_more_than_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "_MOST_BYTES", 5)
    with pytest.raises(OperatorError, match="more at once"):
        to_arrow([_parcel(0, b"abc"), _parcel(1, b"def")])
