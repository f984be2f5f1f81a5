"""Tables of lookups that a test gives by hand, and names that it calls sources by."""

from __future__ import annotations

from dataclasses import replace

from riverrun.errors import InputError
from riverrun.kernels.program import PlacedStep, Program
from riverrun.operators.lookups.by_hand import TableByHand
from riverrun.operators.lookups.lookup import Lookup
from riverrun.partitions import from_files, real, short


def stands_for(name: str, topic: str) -> bool:
    """Streams of files are told apart from topics by more than their name."""
    return real(name) == topic or (from_files(name) and short(name) == topic)


def reading(program: Program, table: TableByHand) -> Program:
    """The program, with lookups of a table that is given by hand."""
    steps = tuple(_step_reading(step, table) for step in program.steps)
    if steps == program.steps:
        raise InputError(f"the program has no lookup in {table.table!r}")
    return replace(program, steps=steps)


def _step_reading(step: PlacedStep, table: TableByHand) -> PlacedStep:
    does = step.does
    if isinstance(does, Lookup) and does.reads.table == table.table:
        return replace(step, does=does.reading(table))
    return step
