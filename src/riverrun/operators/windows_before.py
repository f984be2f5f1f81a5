"""Which window a column of a table tells, if it is one of a step before."""

from __future__ import annotations

from riverrun.kernels.operator import Operator
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.finished import Finished
from riverrun.operators.keep import Keep
from riverrun.operators.rank import Rank
from riverrun.operators.windows.grid import BOUNDS, Grid
from riverrun.operators.windows.of_finished import OfFinished
from riverrun.plan.nodes import Node, Select, Step, Where, WithColumns
from riverrun.schema import quoted

START, END = (column.name for column in BOUNDS)


def finished(rows: Node, columns: tuple[str, ...]) -> Finished | None:
    """Of the first of the columns that tells a window."""
    found = (_window_of(rows, column) for column in columns)
    return next((each for each in found if each is not None), None)


def _window_of(node: Node, column: str) -> Finished | None:
    if isinstance(node, Where):
        return _window_of(node.input, column)
    if isinstance(node, Select | WithColumns):
        made = dict(node.columns).get(column)
        if made is None and isinstance(node, WithColumns):
            return _window_of(node.input, column)
        names = [each for each in node.input.schema.visible.names if quoted(each) == made]
        found = _window_of(node.input, names[0]) if names else None
        return found and found.called(column)
    if not isinstance(node, Step):
        return None
    if isinstance(node.does, Keep):
        return _window_of(node.inputs[0], column)
    return _of_step(node.does, column)


def _of_step(does: Operator, column: str) -> Finished | None:
    known = None
    if isinstance(does, Aggregate) and isinstance(does.window, Grid) and column in (START, END):
        return Finished(column, column == END, does.window, does.updatable)
    if isinstance(does, Aggregate) and isinstance(does.window, OfFinished):
        known = does.window.finished
    if isinstance(does, Rank):
        known = does.finished
    return known if known is not None and known.column == column else None
