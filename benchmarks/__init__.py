"""Comparisons with peers, each printed as a ratio that was taken in one run.

Polars reads its number of threads when it is first imported, so it is set here: one, because our
own array code has one. `POLARS_MAX_THREADS=2 python -m benchmarks.conversions` says otherwise.
"""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")
