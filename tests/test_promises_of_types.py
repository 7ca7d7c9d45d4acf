"""Promises about columns of other types than the laws have, which speak of texts and integers.

Types differ in what comes next, what is the least, and how their values are kept: after every batch the
output is valid, and in the end as the oracle says, with nothing left to remember.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.persistence import decode, encode
from slackwater.plan.nodes import Source
from slackwater.runtime import Execution
from slackwater.testing import batchings, histories, streams
from slackwater.validity import Validator

FEW = settings(max_examples=max(1, settings().max_examples // 2))

AS_TWO = dt.datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
TYPES: dict[str, tuple[pl.DataType, list[Any]]] = {
    "flags": (pl.Boolean(), [False, True]),
    "bytes": (pl.UInt8(), [0, 1, 255]),
    "unsigned": (pl.UInt64(), [0, 2**63, 2**64 - 1]),
    "wide": (pl.Int128(), [-(2**100), 0, 2**100]),
    "single": (pl.Float32(), [0.0, 0.5, -math.inf, math.nan]),
    "double": (pl.Float64(), [-0.0, 0.0, 0.5, math.inf, math.nan]),
    "decimals": (pl.Decimal(10, 2), [Decimal("1.10"), Decimal("1.11")]),
    "binary": (pl.Binary(), [b"", b"a"]),
    "days": (pl.Date(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]),
    "milliseconds": (pl.Datetime("ms"), [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 1)]),
    "zoned": (pl.Datetime("us", "Europe/Berlin"), [AS_TWO, AS_TWO.replace(fold=1)]),
    "of day": (pl.Time(), [dt.time(0), dt.time(microsecond=1)]),
    "durations": (pl.Duration("us"), [dt.timedelta(0), dt.timedelta(microseconds=1)]),
}

PLANS: dict[str, Callable[[sw.Query, sw.Query], sw.Query]] = {
    "union": lambda a, b: a.union(b),
    "count of a union": lambda a, b: a.union(b).select("k").group_by("k").aggregate(n=sw.count()),
    "intersect": lambda a, b: a.intersect(b),
    "sort": lambda a, b: a.union(b).sort("k"),
}


@pytest.mark.parametrize("name", TYPES)
@FEW
@given(data=st.data())
def test_what_is_promised_of_any_type_is_kept(name: str, data: st.DataObject) -> None:
    dtype, some = TYPES[name]
    columns = {"k": st.sampled_from([*some, None]), "v": st.sampled_from([0, 1, None])}
    sources = [sw.stream({"k": dtype, "v": int}, name=each) for each in ("left", "right")]
    query = PLANS[data.draw(st.sampled_from(sorted(PLANS)))](*sources)
    told, cut = {}, []
    for source in sources:
        history = data.draw(histories(source.schema, columns=columns, max_size=4, span=6))
        told[source] = data.draw(streams(history, columns=columns, patterns=["k"]))
        cut.append([(source, part) for part in data.draw(batchings(told[source]))])
    turns = data.draw(st.permutations([i for i, parts in enumerate(cut) for _ in parts]))
    waiting = [iter(parts) for parts in cut]
    execution, valid, said = Execution(query.node), Validator(), [sw.Batch.empty(query.schema)]
    for source, part in (next(waiting[i]) for i in turns):
        assert isinstance(source.node, Source)
        said += (valid.admit(out) for out in execution.push(source.node, part))
        if data.draw(st.booleans(), label="restored"):
            again = Execution(query.node)
            again.restore(decode(encode(execution.snapshot())))
            execution = again
    assert sw.History.of(sw.Batch.concat(said)) == query.meaning(told)
    assert not any(status.state.state_rows for status in execution.describe())
