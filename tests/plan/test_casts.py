"""A column that is cast has the values, the nulls and the failures of polars' own casts."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_series_equal

from slackwater.plan.evaluation import Formula, NoValue

_COLUMNS: dict[str, list[Any]] = {
    "whole": [1, None, -(2**40)],
    "real": [0.0, 1.5, None],
    "word": ["1", "-7", None],
    "small": [True, False, None],
}
_TYPES = [pl.Float64, pl.Int64, pl.Int16, pl.String, pl.Boolean, pl.Decimal(38, 0)]


@pytest.mark.parametrize("name", _COLUMNS)
@pytest.mark.parametrize("dtype", _TYPES, ids=str)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "lenient"])
def test_a_cast_is_what_polars_makes_of_it(name: str, dtype: Any, strict: bool) -> None:
    frame = pl.DataFrame(_COLUMNS)
    expression = pl.col(name).cast(dtype, strict=strict)
    try:
        expected = frame.select(expression).to_series()
    except pl.exceptions.PolarsError:
        with pytest.raises(NoValue):
            Formula(expression, frame.schema, "select").values(frame)
    else:
        found = Formula(expression, frame.schema, "select").values(frame)
        assert_series_equal(found, expected, check_names=False)
