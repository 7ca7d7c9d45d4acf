"""The applications of logical merge, each run on a small scale: all answers are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from examples import replicas


@pytest.mark.parametrize("application", replicas.APPLICATIONS, ids=lambda each: each.__name__)
def test_the_answer_is_right(application: Callable[[int], dict[str, Any]]) -> None:
    assert application(150)["right"]


def test_what_is_past_is_not_computed() -> None:
    with_feedback, without = replicas.fast_forward(400), replicas.fast_availability(400)
    assert with_feedback["rows that were slow"] < without["rows that were slow"] / 2
