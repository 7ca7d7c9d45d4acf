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

__all__ = ["prefetch"]

_INT = ir.IntType(32)
_TO_WRITE, _KEEP, _DATA = ir.Constant(_INT, 1), ir.Constant(_INT, 3), ir.Constant(_INT, 1)


@intrinsic
def _prefetch(typing_context, array, row):
    """Fetch a row of a matrix. Any row may be named, also one that is not there."""

    def generate(context, builder, signature, arguments):
        matrix = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = [arguments[1], context.get_constant(types.intp, 0)]
        pointer = cgutils.get_item_pointer(context, builder, signature.args[0], matrix, place)
        address = builder.bitcast(pointer, cgutils.voidptr_t)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _TO_WRITE, _KEEP, _DATA])
        return context.get_dummy_value()

    return types.void(array, row), generate


prefetch: Any = _prefetch
"""compiled code calls it with a matrix and a row, which mypy cannot follow"""
