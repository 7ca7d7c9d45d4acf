from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidTime
from slackwater.times import BEGIN, INF, chronon, duration, plus, to_datetime

int64s = st.one_of(st.integers(BEGIN, INF), st.sampled_from([BEGIN, BEGIN + 1, -1, 0, 1, INF - 1, INF]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-7, -7),
        (np.int32(5), 5),
        (None, INF),
        (math.inf, INF),
        (dt.date(1970, 1, 2), 86_400_000_000),
        (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), -1),
        (dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), 0),
    ],
)
def test_instants(value, expected):
    assert chronon(value) == expected


@pytest.mark.parametrize("value", [1.0, True, "12", 2**63, -(2**63) - 1, math.nan])
def test_what_is_no_instant(value):
    with pytest.raises(InvalidTime):
        chronon(value)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("250 ms", 250_000),
        ("1.5 s", 1_500_000),
        ("1 h 30 min", 5_400_000_000),
        ("1h30min", 5_400_000_000),
        ("2 days", 172_800_000_000),
        ("-5 s", -5_000_000),
        ("INF", INF),
    ],
)
def test_durations(text, microseconds):
    assert duration(text) == microseconds


@pytest.mark.parametrize("text", ["", "10", "min", "10 parsecs", "10 min and a bit", "0.5 us", "--1 s"])
def test_what_is_no_duration(text):
    with pytest.raises(InvalidTime) as caught:
        duration(text)
    assert repr(text) in caught.value.fact


@given(int64s, int64s)
def test_addition_saturates_and_inf_absorbs(time, length):
    expected = INF if INF in (time, length) else max(BEGIN, min(time + length, INF))
    assert plus(time, length) == expected
    assert plus(np.array([time]), length).tolist() == [expected]
    assert plus(np.array([time]), np.array([length])).tolist() == [expected]


@given(st.datetimes(timezones=st.just(dt.UTC)))
def test_a_datetime_survives_the_way_there_and_back(moment):
    assert to_datetime(chronon(moment)) == moment


def test_the_end_of_time_is_no_datetime():
    assert to_datetime(INF) is None
