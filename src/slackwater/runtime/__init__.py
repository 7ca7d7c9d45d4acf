"""The in-process runtime: a plan in one process, with queues between operators and a scheduler."""

from slackwater.runtime.dataflow import Dataflow
from slackwater.runtime.edge import LEDGER, RAISE, OnInvalid
from slackwater.runtime.output import Output
from slackwater.runtime.run import Execution, Inputs, Status, run
from slackwater.runtime.schedules import BottomUp, Fair, RoundRobin, Schedule, Shuffled

__all__ = [
    "LEDGER",
    "RAISE",
    "BottomUp",
    "Dataflow",
    "Execution",
    "Fair",
    "Inputs",
    "OnInvalid",
    "Output",
    "RoundRobin",
    "Schedule",
    "Shuffled",
    "Status",
    "run",
]
