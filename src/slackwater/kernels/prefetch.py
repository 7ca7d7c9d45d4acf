"""Have the cache fetch what a loop will need some rounds later.

A loop that goes from one place of a large array to another waits for the memory each time; where the
next places are known, it need not.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch", "prefetch_at"]

_INT = ir.IntType(32)
_TO_WRITE, _KEEP, _DATA = ir.Constant(_INT, 1), ir.Constant(_INT, 3), ir.Constant(_INT, 1)


def _fetch(context, builder, signature, arguments, *column):
    matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
    place = [arguments[1], *column]
    pointer = cgutils.get_item_pointer(context, builder, signature.args[0], matrix, place)
    address = builder.bitcast(pointer, cgutils.voidptr_t)
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [address, _TO_WRITE, _KEEP, _DATA])
    return context.get_dummy_value()


@intrinsic
def _prefetch(typing_context, array, row):
    def generate(context, builder, signature, arguments):
        first = context.get_constant(types.intp, 0)
        return _fetch(context, builder, signature, arguments, first)

    return types.void(array, row), generate


@intrinsic
def _prefetch_at(typing_context, array, place):
    return types.void(array, place), _fetch


# compiled code calls them, which mypy cannot follow
prefetch: Any = _prefetch
"""Fetch a row of a matrix. Any row may be named, also one that is not there."""
prefetch_at: Any = _prefetch_at
"""Fetch a place of an array of one dimension, in the same way."""
