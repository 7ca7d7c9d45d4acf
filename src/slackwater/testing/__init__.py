"""The test kit: streams to try a query or an operator on, and a clock that is moved by hand.

A test draws a history first and then a physical stream, or several, that reconstitute to exactly
it: what a query means is known from the history, and how it was told must not matter. Everything
but the clock is a Hypothesis strategy (install slackwater[testing]) and shrinks to few events, told
in order, once.

    @given(st.data())
    def test_my_query(data):
        history = data.draw(histories(schema))
        stream = data.draw(streams(history))
        for part in data.draw(batchings(stream)):
            ...

Not here: what an operator should answer (oracle.py), or whether a stream is valid (validity.py).
"""

from slackwater.testing.clock import ManualClock
from slackwater.testing.drawn_history import histories
from slackwater.testing.drawn_payload import payloads, schemas, values
from slackwater.testing.drawn_stream import batchings, several, streams
from slackwater.testing.example import simplest
from slackwater.testing.visible import Anomaly, Log, State, anomalies, answer_of, every_state

__all__ = [
    "Anomaly",
    "Log",
    "ManualClock",
    "State",
    "anomalies",
    "answer_of",
    "batchings",
    "every_state",
    "histories",
    "payloads",
    "schemas",
    "several",
    "simplest",
    "streams",
    "values",
]
