"""Allocation: processes that do the same work batch after batch keep the memory that it takes.

What a batch needs, the next one needs again. An allocator that gives memory back to the system in
between gets it as pages that have never been touched, and to touch them first costs more than the work
on them. So keepers and workers are started with allocators that keep what they have had. Their size is
then that of their largest batch.

The settings are those of glibc (for NumPy and Numba), of the jemalloc in polars, and of Arrow's choice
of a pool; where a system has others they mean nothing. Whatever is set already stays as it is.

docs/design/2026-11-18-memory-that-is-kept.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KEPT", "keeping_memory"]

KEPT = {
    # blocks of up to 4 GiB come from one heap, which is not cut at its end, and grows by 64 MiB
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
    "MALLOC_TOP_PAD_": str(64 << 20),
    # one heap for all threads: of those that serve, one works at a time
    "MALLOC_ARENA_MAX": "1",
    "_RJEM_MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def keeping_memory(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that keeps the memory that it has had."""
    return {**KEPT, **environment}
