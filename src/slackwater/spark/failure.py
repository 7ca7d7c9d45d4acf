"""Why a query has stopped, out of what Spark says about it.

An error of ours comes from a task or a sink through Java, which knows it as a text among others: the
tracebacks of all that it went through, and the plan. Here it is an error again.
"""

from __future__ import annotations

from slackwater.errors import OperatorError

__all__ = ["failure_of"]

_ERRORS = "slackwater.errors."
_PLAN = "\n=== Streaming Query ==="
_DETAIL, _HINT = "\n  detail: ", "\n  hint: "
_STATE = " SQLSTATE: "


def failure_of(problem: Exception) -> OperatorError:
    """The last error of ours that is told there, or all that is told but the plan.

    >>> print(failure_of(RuntimeError('''Job aborted: Traceback (most recent call last):
    ...   File "bucket.py", line 5, in step
    ... slackwater.errors.OperatorError: the sum does not fit
    ...   detail: column 't' is Int64
    ...
    ... === Streaming Query ===
    ... Identifier: [id = ...]''')))
    the query has stopped: the sum does not fit
      detail: column 't' is Int64
    """
    told = str(problem).partition(_PLAN)[0].strip()
    _, ours, text = told.rpartition(_ERRORS)
    if not ours:
        return OperatorError("the query has stopped", detail=told)
    # behind it come an empty line and Java's own words, or those of who passed it on
    text = text.partition(": ")[2].partition("\n\n")[0].partition(_STATE)[0].rstrip()
    text, _, hint = text.partition(_HINT)
    fact, _, detail = text.partition(_DETAIL)
    return OperatorError(f"the query has stopped: {fact}", detail=detail, hint=hint)
