"""Workers of Spark run task after task, and between two of them look for garbage.

Spark's daemon collects it after every task, and looks at all that was ever imported while it does so:
some 90 ms for polars, numba and pyspark. The next task waits for that. What a worker has when its
first task begins stays as long as it does, so it need not be looked at again.
"""

from __future__ import annotations

import gc
from functools import cache

__all__ = ["settle_in"]


@cache
def settle_in() -> None:
    """What there is now is no garbage, and will not be: once in a worker, before its first work."""
    gc.freeze()
