"""What is shown: at once, or held until it is known to be right; and the states that are.

A mark says how much had been said when the output was right, and to which prefix of every input it is
the answer: an offset, a number of elements, for each.

Paper 5 section 4 (buffering, or annotation).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.events import Batch
from slackwater.levels import HELD, Showing
from slackwater.runtime.output import Origin, Output, Prefix

__all__ = ["Shown"]


@dataclass(slots=True)
class Shown:
    """What goes to the user, and what waits."""

    output: Output
    showing: Showing
    said: int = 0
    waiting: list[tuple[Batch, Origin | None]] = field(default_factory=list)

    def say(self, batch: Batch, origin: Origin | None = None) -> None:
        """The query says something more."""
        if self.showing is HELD:
            self.waiting.append((batch, origin))
        else:
            self._show(batch, origin)

    def mark(self, prefix: Prefix, token: int | None = None) -> None:
        """Now the output is right."""
        if self.showing is HELD:
            for batch, origin in self.waiting:
                self._show(batch, origin)
            self.waiting.clear()
            self.output.ends_here()
        self.output.marked.append((self.said, prefix, token))

    @property
    def is_right(self) -> bool:
        """Whether nothing was said since the output was right the last time."""
        marked = self.output.marked[-1][0] if self.output.marked else 0
        return not self.waiting and self.said == marked

    def _show(self, batch: Batch, origin: Origin | None) -> None:
        self.output.append(batch)
        if origin is not None:
            self.output.origins.append((self.said, origin))
        self.said += batch.elements
