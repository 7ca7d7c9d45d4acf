"""News: what a query has to tell besides its answer, on the way to the handle.

Parcels for the sink are rows of the answer (ANSWER), what a bucket promises of payloads (PROMISED),
entries of the ledger (ENTRIES), how a bucket stands (STANDING), or the names of files that a task has
written for the sink (WRITTEN); these last three hold JSON.

What Spark's listeners get to see of a batch it adds up itself, from columns that news have no other use
for: in entries `rows` is how many they are; of a bucket, `rows` is how many came in, `stands_for` and
`latest` how many it remembers and how many bytes they take, and `slowest` what the answer took back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slackwater.distributed.bucket import Standing
from slackwater.distributed.controls import Quarantined
from slackwater.distributed.parcels import PROMISED, SINK, Parcel
from slackwater.ledger import Entry, Ledger

__all__ = [
    "ANSWER",
    "ENTRIES",
    "STANDING",
    "WRITTEN",
    "entries_of",
    "entries_parcel",
    "is_answer",
    "ledger_parcel",
    "names_of",
    "news_parcel",
    "standing_of",
    "standing_parcel",
]

ANSWER, ENTRIES, STANDING, WRITTEN = 0, 1, 2, 3
assert PROMISED not in (ANSWER, ENTRIES, STANDING, WRITTEN)


def is_answer(parcel: Parcel) -> bool:
    """Whether it holds rows of the answer, and not news."""
    return parcel.stage == SINK and parcel.feed == ANSWER


def news_parcel(kind: int, origin: str, content: Any) -> Parcel:
    """News of one kind."""
    return Parcel(SINK, 0, kind, origin, "", 0, data=json.dumps(content).encode())


def entries_parcel(origin: str, written: list[Any]) -> Parcel:
    """Entries of a ledger, as text."""
    return replace(news_parcel(ENTRIES, origin, written), rows=len(written))


def ledger_parcel(origin: str, ledger: Ledger) -> Parcel:
    """What a ledger has."""
    return entries_parcel(origin, [entry.written() for entry in ledger])


def standing_parcel(origin: str, standing: Mapping[str, Any], *, is_last: bool) -> Parcel:
    """How a bucket stands, of the last stage or of one before."""
    return replace(
        news_parcel(STANDING, origin, standing),
        rows=standing["rows_in"],
        stands_for=standing["state_rows"],
        latest=standing["state_bytes"],
        slowest=standing["taken_back"] if is_last else 0,
    )


def entries_of(parcel: Parcel) -> list[Entry]:
    """The entries in such a parcel."""
    return [Entry(**entry) for entry in _content(parcel)]


def standing_of(parcel: Parcel) -> Standing:
    """How a bucket stands."""
    content = _content(parcel)
    content["quarantined"] = [Quarantined(*each) for each in content["quarantined"]]
    return Standing(**content)


def names_of(parcel: Parcel) -> list[str]:
    """The files that a task has written."""
    return [str(name) for name in _content(parcel)]


def _content(parcel: Parcel) -> Any:
    assert parcel.data is not None, "news have content"
    return json.loads(bytes(parcel.data))
