"""A table that changes while it is captured: columns come and go; others are refused.

The log names columns in the order of their numbers, without these. New ones get higher numbers than
any before, so those that were known stand first, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from riverrun.capture.catalog import Column
from riverrun.capture.pgoutput import Relation, RelationColumn
from riverrun.errors import DatabaseError

Now = Mapping[int, Column]
"""The columns that the table has at this moment, by number."""


class Changed(DatabaseError):
    """A table has changed in a way that its readers would not understand."""

    def __init__(self, table: str, fact: str, *, got: str, hint: str) -> None:
        self.table = table
        super().__init__(fact, where=table, got=got, hint=hint)


def evolved(
    known: Sequence[Column], relation: Relation, now: Now, *, accepted: bool = False
) -> tuple[Column, ...]:
    """The columns of a table from here on in the log. `now` helps where names have changed: what
    was renamed and has its name back is as it was. `accepted` takes it as it is."""
    table = f"{relation.schema}.{relation.table}"
    found = tuple(_numbered(known, relation.columns, now))
    if accepted:
        return found
    before = {column.number: column for column in known}
    made = []
    for column in found:
        was = before.get(column.number)
        if was is None:
            made.append(column)
        else:
            _refuse(table, was, column, now.get(column.number, column))
            made.append(was)
    return tuple(made)


def key_after(
    key: Sequence[str], known: Sequence[Column], columns: Sequence[Column], relation: Relation
) -> tuple[str, ...]:
    """The names of the key's columns from here on; other columns for a key are refused."""
    table = f"{relation.schema}.{relation.table}"
    numbers = {column.name: column.number for column in known}
    names = {column.number: column.name for column in columns}
    found = tuple(names.get(numbers[name], "") for name in key)
    pairs = zip(columns, relation.columns, strict=True)
    told = {column.name for column, here in pairs if here.key}
    if "" in found or (relation.identity != "f" and set(found) != told):
        raise Changed(
            table,
            f"{table} has another key",
            got=f"({', '.join(sorted(told))}), it was ({', '.join(key)})",
            hint=f"give it the key back; or `riverrun capture remove`, and capture {table} anew",
        )
    return found


def _numbered(known: Sequence[Column], columns: Sequence[RelationColumn], now: Now) -> list[Column]:
    """The columns of the log with their numbers."""
    names = {column.name: column.number for column in now.values()}
    left, passed = list(known), list[Column]()
    highest = max((column.number for column in known), default=0)
    found: list[Column] = []
    for place, column in enumerate(columns):
        coming = [each.name for each in columns[place + 1 :]]
        while left and left[0].name not in coming and _gone(left[0], column, now):
            passed.append(left.pop(0))
        if passed and left and left[0].name in coming:
            number = passed.pop().number  # it had another name for a time, and is gone since
        elif left:
            number = left.pop(0).number
        else:
            number = highest = max(names.get(column.name, 0), highest + 1)
        found.append(Column(number, column.name, column.type))
    return found


def _gone(was: Column, column: RelationColumn, now: Now) -> bool:
    """Whether a column that was known is not the one at this place."""
    same = was.name == column.name and was.type == column.type
    return not same and was.number not in now


def _refuse(table: str, was: Column, column: Column, now: Column) -> None:
    if was.name not in (column.name, now.name):
        raise Changed(
            table,
            f"a column of {table} was renamed",
            got=f"{was.name} is {now.name} now",
            hint=f"ALTER TABLE {table} RENAME {now.name} TO {was.name}; or: {_hint(table)}",
        )
    if was.type not in (column.type, now.type):
        raise Changed(
            table,
            f"a column of {table} has another type",
            got=was.name,
            hint=f"give it the type back that it had; or: {_hint(table)}",
        )


def _hint(table: str) -> str:
    return (
        f"`riverrun capture snapshot {table}` takes the table as it is now, from its first row on; "
        "programs that read it have to follow"
    )
