"""Reading: what a task needs to know to make elements of the rows of a source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from slackwater.events import Batch
from slackwater.ledger import Ledger
from slackwater.rows import Form

__all__ = ["ANY_AGE", "Reading"]

ANY_AGE = {"maxFileAge": "36500d"}
"""else Spark leaves out, and says nothing, files that are a week older than the newest it has read"""


@dataclass(frozen=True)
class Reading:
    """How rows are to be understood, and where those go that cannot be used."""

    name: str
    """of the source"""
    form: Form
    schema: pl.Schema
    ledger: Ledger

    def elements(self, rows: pl.DataFrame, at: Callable[[int], str] = "row {}".format) -> Batch:
        """The rows as elements; `at` says where a row was found."""
        return self.form.read(rows, self.schema, self.ledger, self.name, at)
