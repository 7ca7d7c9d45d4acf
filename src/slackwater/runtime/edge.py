"""The edge: where elements from outside enter, and are judged.

Behind the edge every stream is valid, so operators assert instead of checking. An element that breaks a
rule either stops the query with an error that names it, or is set aside in the ledger; either way it is
not lost. The edge also brings each batch into the form that operators expect: data rows first, then the
strongest of the promises (a promise may be delayed, it only gets weaker); a control element that marks
an exact place ends its batch there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

import polars as pl

from slackwater.errors import InvalidElement
from slackwater.events import Batch, Control, Stream
from slackwater.ledger import Ledger
from slackwater.validity import Validator

__all__ = ["LEDGER", "RAISE", "Edge", "OnInvalid"]


class OnInvalid(enum.Enum):
    """What becomes of an element that its stream may not contain."""

    RAISE = "raise"
    """the query stops with an error that names it"""
    LEDGER = "ledger"
    """it is set aside with its reason, and the query lives"""


RAISE = OnInvalid.RAISE
LEDGER = OnInvalid.LEDGER


class Edge:
    """The entrance of one source."""

    def __init__(self, name: str, schema: pl.Schema, on_invalid: OnInvalid, ledger: Ledger) -> None:
        self._name = name
        self._schema = schema
        self._on_invalid = on_invalid
        self._ledger = ledger
        self._validator = Validator()

    def read(self, stream: Stream) -> Batch:
        """Elements, or a batch of them, with exactly the columns of the source."""
        batch = Batch.of(stream, self._schema)
        if batch.schema != self._schema:
            raise InvalidElement(
                f"{self._name}: the rows do not have the columns of the stream",
                detail=f"rows: {dict(batch.schema)}; stream: {dict(self._schema)}",
                hint="give from_dataframe the stream's schema, or select and cast the columns",
            )
        return batch

    def admit(self, batch: Batch) -> Iterator[Batch]:
        """The valid part of a batch, in the form that operators expect."""
        before = self._validator.promises
        if self._on_invalid is RAISE:
            valid = self._validator.admit(batch)
        else:
            valid, violations = self._validator.sift(batch)
            for violation in violations:
                self._ledger.write(
                    violation.element,
                    reason=violation.rule,
                    place=self._name,
                    detail=violation.detail,
                )
        start, movable = 0, list[Control]()
        for position, control in valid.controls:
            if control.movable:
                movable.append(control)
                continue
            before, told = before.strengthened_by(movable)
            yield valid.slice(start, position).followed_by([*told, control])
            start, movable = position, []
        _, told = before.strengthened_by(movable)
        yield valid.slice(start, valid.rows).followed_by(told)
