"""Punctuate: the same history with promises of what the application knows: nothing is later than that.

    out = input - ledger      (as streams: leaving out the elements that the ledger names)

After every batch the promise is cti(largest vs seen - lateness), or that of the input if it says more.
So it is a Finalize with that memory, but for one thing: an element behind the promise was not forgotten,
it proves a declaration false. It stops the query; with sw.LEDGER it is set aside, and with it every
later element that continues it. Elements are judged one by one, so that it does not matter how the
stream was cut.

Pass: everything else, at once. Keep: the ends of events that were set aside in part, until the promise
has passed them. Propagate: the promise, which never goes back.

    lateness 5   in:   a [0, 9)            b [8, 12)           c [1, 4)   a [0, 9) -> [0, 6)
                 out:  a [0, 9)   cti(-5)  b [8, 12)   cti(3)             a [0, 9) -> [0, 6)
                 ledger:                                       c [1, 4)

Paper 4 section 6.2 (knowledge of application semantics).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slackwater.errors import OperatorError
from slackwater.events import Batch
from slackwater.operators.finalize import Finalize
from slackwater.operators.mend import changed
from slackwater.operators.step import GivenUp
from slackwater.plan import nodes
from slackwater.times import Times, show

__all__ = ["punctuate"]


def punctuate(node: nodes.Punctuate, *, atomic: bool = False) -> Finalize:
    """The step of a `Punctuate` node: a Finalize that calls it an error to be late.

    With `atomic` the rows of a batch have no common order, and none is late for another of the batch.
    """

    def give_up(rows: Batch, limits: Times, late: npt.NDArray[np.bool_]) -> GivenUp:
        why = [
            f"it breaks the promise cti({show(limit)})" if is_late else "it continues what was set aside"
            for limit, is_late in zip(limits.tolist(), late.tolist(), strict=True)
        ]
        # it is the first of all that stops a query, and that one continues nothing
        broken = f"cti({show(int(limits[0]))})"
        error = OperatorError(
            f"{node.name} {node.describe()}: {next(iter(rows))!r} breaks the promise {broken}",
            detail=f"its sync is {show(int(rows.sync[0]))}",
            hint="promise a larger lateness; sw.LEDGER sets such elements aside",
        )
        return GivenUp(rows, "promise broken", changed(rows, why), error)

    return Finalize(nodes.Finalize(node.input, node.lateness), give_up=give_up, atomic=atomic)
