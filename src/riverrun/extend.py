"""What a sink, a format, an operator or a window of one's own is made from: see docs/extend.md."""

from riverrun.columns import CHANGE, PLACE, RowForm
from riverrun.errors import AlreadyRunning, CheckpointError, Location, ProgramError
from riverrun.formats import Format, arrow_schema
from riverrun.kernels.changes import differing, latest, net
from riverrun.kernels.operator import (
    NO_SLOT,
    Batch,
    Entry,
    Input,
    Leaving,
    Operator,
    PlainOperator,
    Result,
    StepState,
    Words,
    split_late,
)
from riverrun.kernels.program import CLOSED
from riverrun.kernels.uses import Use
from riverrun.operators.aggregate import Aggregate, Window, without_row
from riverrun.operators.windows.entry import combined, single_if_late, singles
from riverrun.operators.windows.grid import Grid, TimedWindow
from riverrun.operators.windows.tumbling import advance as merge_slots
from riverrun.operators.windows.tumbling import standing as standing_slots
from riverrun.outputs import (
    Destination,
    OutputSpec,
    Owner,
    Part,
    Places,
    Renewal,
    Sink,
    Standing,
    Swapped,
)
from riverrun.plan.building import checked_condition, checked_policy, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.schema import Column, Schema

__all__ = [
    "CHANGE",
    "CLOSED",
    "NO_SLOT",
    "PLACE",
    "Aggregate",
    "AlreadyRunning",
    "Batch",
    "CheckpointError",
    "Column",
    "Destination",
    "Entry",
    "Format",
    "Grid",
    "Input",
    "Leaving",
    "Location",
    "Node",
    "Operator",
    "OutputSpec",
    "Owner",
    "Part",
    "Places",
    "PlainOperator",
    "ProgramError",
    "Renewal",
    "Result",
    "RowForm",
    "Schema",
    "Sink",
    "Standing",
    "Step",
    "StepState",
    "Swapped",
    "TimedWindow",
    "Use",
    "Window",
    "Words",
    "arrow_schema",
    "checked_condition",
    "checked_policy",
    "combined",
    "differing",
    "latest",
    "merge_slots",
    "net",
    "single_if_late",
    "singles",
    "split_late",
    "standing_slots",
    "step_fields",
    "without_row",
]
