"""Which code a user's function runs: a digest, by which another function of the same name is told.

What a query has said it takes back by saying the same again, and what it remembers it makes of what came
in. So who goes on with another function says things that nobody has heard. Two functions are the same
here if their compiled code is, with the values that they have taken in: defaults, what they enclose, and
constants and functions of their own module that they name. What other modules do is not looked at, nor
objects that are no plain values; comments, its docstring and its place in a file do not count.

Compiled code is another one for each Python, so a digest is good for one version of it.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["digest_of"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def digest_of(function: Callable[..., Any]) -> str:
    """What the function runs.

    >>> one, same, other = lambda x: x + 1, lambda x: x + 1, lambda x: x + 2
    >>> digest_of(one) == digest_of(same), digest_of(one) == digest_of(other)
    (True, False)
    """
    told = "\n".join(_told(function, set()))
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def _told(value: object, seen: set[int]) -> Iterator[str]:
    """All that counts, in an order that is the same in every process."""
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple | list):
        yield f"{type(value).__name__} of {len(value)}"
        for each in value:
            yield from _told(each, seen)
    elif isinstance(value, set | frozenset | dict):
        items = value.items() if isinstance(value, dict) else value
        yield f"{type(value).__name__} of {len(value)}"
        yield from sorted("; ".join(_told(each, seen)) for each in items)
    elif isinstance(value, CodeType):
        yield from _told_of_code(value, seen)
    elif id(value) in seen:
        yield "as above"
    elif isinstance(value, FunctionType):
        seen.add(id(value))
        yield from _told_of_function(value, seen)
    elif isinstance(value, MethodType):
        yield from _told(value.__func__, seen)
        yield from _told(value.__self__, seen)
    elif isinstance(value, partial):
        yield from _told((value.func, value.args, value.keywords), seen)
    else:
        seen.add(id(value))
        kind = value if isinstance(value, type) else type(value)
        yield f"{kind.__module__}.{kind.__qualname__} {getattr(value, '__name__', '')}"
        yield from _told(vars(kind).get("__call__"), seen)


def _told_of_function(function: FunctionType, seen: set[int]) -> Iterator[str]:
    code = function.__code__
    consts = code.co_consts
    if consts and consts[0] == function.__doc__:
        # the docstring, or None in its place
        consts = consts[1:]
    yield from _told_of_code(code.replace(co_consts=consts), seen)
    yield from _told((function.__defaults__, function.__kwdefaults__), seen)
    for cell in function.__closure__ or ():
        try:
            enclosed = cell.cell_contents
        except ValueError:
            enclosed = None  # not there yet: the function is part of what it encloses
        yield from _told(enclosed, seen)
    for name in dict.fromkeys(_globals_of(code)):
        named = function.__globals__.get(name)
        is_own = isinstance(named, FunctionType) and named.__module__ == function.__module__
        if is_own or isinstance(named, (*_PLAIN[:-2], tuple, frozenset)):
            yield name
            yield from _told(named, seen)


def _globals_of(code: CodeType) -> Iterator[str]:
    """The names that it looks up in its module, also within comprehensions and lambdas."""
    yield from (each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL")
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _globals_of(const)


def _told_of_code(code: CodeType, seen: set[int]) -> Iterator[str]:
    yield code.co_code.hex()
    yield from _told((code.co_names, code.co_varnames, code.co_freevars), seen)
    yield from _told(code.co_consts, seen)
