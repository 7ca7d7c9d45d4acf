"""One Spark session for all tests of a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["PYSPARK_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    # Java takes a while, which is for those who need it
    from tests.spark.session import session  # noqa: PLC0415

    made = session()
    yield made
    made.stop()
