"""The ledger: what could not be used, row by row, with the reason.

Nothing is dropped silently. Whoever sets something aside (a source that meets a bad row, an edge that
meets a broken promise, Finalize when its memory runs out) writes it here, and the user reads it
as a table. The ledger keeps the thing itself, so that it can be repaired and sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was set aside: what, why (rule and detail), who did it, and what is missing.

    Without it the answer may be another one during [since, until): see plan/consequences.py. They are
    equal if it would have changed nothing, and None if that is not known, as of a row without a start.
    """

    element: object
    reason: str
    place: str
    detail: str = ""
    since: int | None = None
    until: int | None = None

    def written(self) -> dict[str, Any]:
        """Its fields, for JSON: the element as text, which it may be already."""
        text = self.element if isinstance(self.element, str) else repr(self.element)
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"element": text}


class Ledger:
    """An append-only list of entries.

    >>> ledger = Ledger()
    >>> ledger.write({"id": 7, "ts": None}, reason="no start", place="flights")
    >>> len(ledger), ledger.counts()
    (1, {'no start': 1})
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def write(
        self,
        element: object,
        *,
        reason: str,
        place: str,
        detail: str = "",
        during: tuple[int, int] | None = None,
    ) -> None:
        """Set one thing aside, without which the answer may be another one `during` some time."""
        since, until = (None, None) if during is None else during
        self._entries.append(Entry(element, reason, place, detail, since, until))

    def extend(self, entries: Iterable[Entry]) -> None:
        """Take over what others have set aside."""
        self._entries += entries

    def take(self) -> list[Entry]:
        """All entries, which are no longer in it: somebody else keeps them."""
        taken, self._entries = self._entries, []
        return taken

    def counts(self) -> dict[str, int]:
        """How many entries there are for each reason."""
        counts: dict[str, int] = {}
        for entry in self._entries:
            counts[entry.reason] = counts.get(entry.reason, 0) + 1
        return counts

    def to_polars(self) -> pl.DataFrame:
        """The entries as a table, for reading; elements as text."""
        schema = {
            "place": pl.String,
            "reason": pl.String,
            "element": pl.String,
            "detail": pl.String,
            "since": pl.Int64,
            "until": pl.Int64,
        }
        rows = [(e.place, e.reason, repr(e.element), e.detail, e.since, e.until) for e in self._entries]
        return pl.DataFrame(rows, schema=schema, orient="row")

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"Ledger({self.counts()})"
