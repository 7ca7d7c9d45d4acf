"""When to forget: what a cti has frozen is looked for now and then, and not at every cti.

A look costs as much as there is, so it waits until as much again has come in: per row that is constant.
"""

from __future__ import annotations

__all__ = ["SWEEP_FACTOR", "SWEEP_FROM", "is_worth_a_sweep", "sweep_after"]

SWEEP_FROM = 1024
SWEEP_FACTOR = 2
"""what is frozen is looked for when this many rows, and so many times those of last time, are kept"""


def sweep_after(rows: int) -> int:
    """How many rows must be kept until what is frozen is looked for again, now that so many are."""
    return max(SWEEP_FROM, SWEEP_FACTOR * rows)


def is_worth_a_sweep(closed: int, keys: int) -> bool:
    """Whether so many of the keys are closed that it is time to number the others anew."""
    return closed > 0 and keys >= SWEEP_FROM and SWEEP_FACTOR * closed >= keys
