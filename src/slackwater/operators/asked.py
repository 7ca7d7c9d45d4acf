"""Asked: what a question about payloads of an output becomes for an input.

An operator on a loop cannot wait for promises of payloads, for it waits for itself. It is asked instead:
up to when can nothing with these payloads come out of you? It answers by asking its inputs, and by what
it keeps; nothing is changed by that (`closed_until`).

A question looks like a promise, whose times mean nothing: closings, which are as many questions, or one
pattern. It is answered in times, one for each. A column that the input does not have is left out: then
the question is about more than was asked, and what is true of that is true of what was asked.

Who asks, and what is concluded: runtime/induction.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from slackwater.punctuations import Closings, Promise, Punctuation
from slackwater.times import INF

__all__ = ["EVERYTHING", "asked_of", "columns_of", "question"]

EVERYTHING = Punctuation(INF)
"""the question about all payloads"""


def question(keys: pl.DataFrame) -> Closings:
    """As many questions as there are rows: each about payloads with these values."""
    return Closings(keys, np.full(keys.height, INF))


def columns_of(asked: Promise) -> list[str]:
    """The columns that a question speaks of."""
    if isinstance(asked, Closings):
        return asked.keys.columns
    return [name for name, _ in asked.columns]


def asked_of(asked: Promise, names: Mapping[str, str]) -> Promise:
    """The question by the names that an input has for columns, where it has them.

    >>> from slackwater.punctuations import punctuation
    >>> asked_of(punctuation(a=1, b=2), {"b": "k"})
    punctuation(k=2)
    """
    # of columns that are one there, any may be asked for
    known = {names[name]: name for name in columns_of(asked) if name in names}
    if not known:
        return EVERYTHING
    if isinstance(asked, Closings):
        return question(pl.DataFrame([asked.keys[old].alias(new) for new, old in known.items()]))
    columns = dict(asked.columns)
    return Punctuation(INF, columns=tuple(sorted((new, columns[old]) for new, old in known.items())))
