"""How rows of a view are compared and put in order, in each database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from riverrun.schema import Column, Schema, quoted
from riverrun.sinks.postgresql.types import column_type
from riverrun.views.asked import SIGNS, Asked, Filter
from riverrun.views.values import LARGE, Made, from_postgres, from_sqlite

Sql = tuple[str, list[Any]]
"""A piece of SQL, and the values of its question marks."""
NUMBER = "riverrun_number"
"""The order of numbers that SQLite keeps as text."""


class Dialect(ABC):
    @abstractmethod
    def made(self, type: str) -> Made:
        """From what is kept to what JSON has."""

    @abstractmethod
    def compared(self, column: Column) -> str:
        """What `<` and `ORDER BY` go by."""

    @abstractmethod
    def value(self, column: Column) -> str:
        """A value beside it."""

    @abstractmethod
    def equal(self, column: Column) -> str:
        """Found by its index."""

    def where(self, asked: Asked, schema: Schema) -> Sql:
        parts = [self._filter(each, _column(schema, each.column)) for each in asked.filters]
        if asked.after is not None:
            parts.append(self._after(asked, schema))
        text = " AND ".join(f"({sql})" for sql, _ in parts)
        return (f" WHERE {text}" if text else ""), [v for _, values in parts for v in values]

    def order(self, asked: Asked, schema: Schema) -> str:
        terms = [
            f"{self.compared(_column(schema, each.column))} {'DESC' if each.down else 'ASC'}"
            " NULLS LAST"
            for each in asked.order
        ]
        return f" ORDER BY {', '.join(terms)}"

    def _filter(self, asked: Filter, column: Column) -> Sql:
        values = list(asked.values)
        match asked.by:
            case "null":
                return f"{quoted(column.name)} IS {'' if asked.holds else 'NOT '}NULL", []
            case "in":
                some = ", ".join(self.value(column) for _ in values)
                found = f"{self.compared(column)} IN ({some})" if values else "1 = 0"
                return found if asked.holds else f"{found} OR {quoted(column.name)} IS NULL", values
            case "eq":
                return self.equal(column), values
            case "ne" | "lt" | "le" | "gt" | "ge" as word:
                return f"{self.compared(column)} {SIGNS[word]} {self.value(column)}", values
            case other:
                raise AssertionError(other)

    def _after(self, asked: Asked, schema: Schema) -> Sql:
        """Rows that follow one: equal in the first columns, and later in the next. Nulls are last,
        in either direction."""
        assert asked.after is not None
        ways: list[str] = []
        values: list[Any] = []
        same: list[str] = []
        same_values: list[Any] = []
        for each, last in zip(asked.order, asked.after, strict=True):
            column = _column(schema, each.column)
            name, by, value = quoted(column.name), self.compared(column), self.value(column)
            if last is not None:
                later = f"({by} {'<' if each.down else '>'} {value} OR {name} IS NULL)"
                ways.append(" AND ".join([*same, later]))
                values += [*same_values, last]
                same.append(f"{by} = {value}")
                same_values.append(last)
            else:
                same.append(f"{name} IS NULL")
        return " OR ".join(f"({way})" for way in ways) or "1 = 0", values


def _column(schema: Schema, name: str) -> Column:
    return schema.only((name,)).columns[0]


class InSqlite(Dialect):
    def made(self, type: str) -> Made:
        return from_sqlite(type)

    def compared(self, column: Column) -> str:
        name = quoted(column.name)
        if column.type.startswith("TIMESTAMP"):
            return f"rtrim({name}, 'Z')"  # a fraction would come before none
        if column.type in LARGE or column.type.startswith("DECIMAL"):
            return f"{name} COLLATE {NUMBER}"
        return name

    def value(self, column: Column) -> str:
        return "rtrim(?, 'Z')" if column.type.startswith("TIMESTAMP") else "?"

    def equal(self, column: Column) -> str:
        return f"{quoted(column.name)} = ?"


class InPostgres(Dialect):
    def made(self, type: str) -> Made:
        return from_postgres(type)

    def compared(self, column: Column) -> str:
        name = quoted(column.name)
        return f'{name} COLLATE "C"' if column_type(column.type) == "text" else name

    def value(self, column: Column) -> str:
        """Values are written as SQLite has them: texts and numbers."""
        return f"CAST(CAST(? AS text) AS {column_type(column.type)})"

    def equal(self, column: Column) -> str:
        return f"{quoted(column.name)} = {self.value(column)}"


def keyed(dialect: Dialect, schema: Schema, key: tuple[str, ...], values: list[Any]) -> Sql:
    """The row of a key."""
    parts, given = [], []
    for name, value in zip(key, values, strict=True):
        if value is None:
            parts.append(f"{quoted(name)} IS NULL")
        else:
            parts.append(dialect.equal(_column(schema, name)))
            given.append(value)
    return " AND ".join(parts), given
