"""The errors a user can meet, each a short fact, then a detail, then a hint.

Nothing here knows about streams. An error that concerns one element, one row or one node carries it,
so that a caller can act on it without parsing the message.
"""

from __future__ import annotations

__all__ = [
    "InvalidElement",
    "InvalidStream",
    "InvalidTime",
    "OperatorError",
    "PlanError",
    "SlackwaterError",
]


class SlackwaterError(Exception):
    """Base of everything raised on purpose.

    >>> print(SlackwaterError("unknown column 'tmp'", detail="the stream has: temp", hint="temp?"))
    unknown column 'tmp'
      detail: the stream has: temp
      hint: temp?
    """

    def __init__(self, fact: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(fact, detail, hint)
        self.fact = fact
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.fact]
        if self.detail:
            lines.append(f"  detail: {self.detail}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class InvalidTime(SlackwaterError, ValueError):
    """A time or a duration that cannot be read as chronons."""


class InvalidElement(SlackwaterError, ValueError):
    """An element that is wrong by itself, whatever came before it."""


class InvalidStream(SlackwaterError, ValueError):
    """An element that breaks a rule of the stream it arrives in.

    `element` is the offender, `position` its place in the stream (from 0), `rule` the name of the
    first rule that it breaks.
    """

    def __init__(
        self,
        fact: str,
        *,
        element: object,
        position: int,
        rule: str,
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(fact, detail=detail, hint=hint)
        self.element = element
        self.position = position
        self.rule = rule


class PlanError(SlackwaterError, ValueError):
    """A query that cannot mean anything, refused while it is being written."""


class OperatorError(SlackwaterError):
    """A computation that failed on data, for example a sum that does not fit its type."""
