"""A table in a database as lookups see it: its columns, and its rows by key, all as texts.

Databases write every value as text without losing anything, and DuckDB reads it as the type that
the program wants: so what they answer is the same kind of thing, whatever the database.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from riverrun.errors import DatabaseError
from riverrun.outputs import Need
from riverrun.schema import nested

WHOLE = (
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
)  # fmt: skip

Cells = tuple[str | None, ...]


class Away(Exception):
    """The database does not answer now, and may later."""


class Answer(NamedTuple):
    """A row that was found: the number of the key that was asked for, and its columns as texts."""

    number: int
    cells: Cells


@dataclass(frozen=True)
class Question:
    """What is asked of a table: always the same columns, by the same key."""

    on: tuple[str, ...]
    """The key's columns in the table."""
    columns: tuple[str, ...]


@dataclass(frozen=True)
class DatabaseTable(ABC):
    """It is sent to workers, and noted as text: addresses are kept out of its `repr`."""

    kind: ClassVar[str]

    if TYPE_CHECKING:  # a field of each

        @property
        def table(self) -> str: ...

    @property
    @abstractmethod
    def where(self) -> str:
        """Where the database is, for people: without user and password."""

    @abstractmethod
    def columns(self) -> dict[str, str]:
        """The table's columns, and the types that they are read as. Away if nobody answers."""

    @abstractmethod
    def unfit_key(self, column: str, type: str) -> str | None:
        """Why a value of this type cannot be looked for in the column; None if it can."""

    @abstractmethod
    def rows(self, question: Question, keys: Sequence[tuple[str, ...]]) -> list[Answer]:
        """The rows of these keys, by one query. What fits no value of a column is not found."""

    @abstractmethod
    def needs(self) -> frozenset[Need]: ...

    def close(self) -> None:  # noqa: B027 - most hold nothing open
        """Gives back what this process holds open."""

    @property
    def text(self) -> str:
        return f"{self.kind} table {self.table}"

    def refused(self, error: object) -> DatabaseError:
        return DatabaseError(f"{self.kind} refuses a lookup", where=self.place, got=one_line(error))

    def missing(self) -> DatabaseError:
        return DatabaseError(
            f"there is no table {self.table!r}", where=f"{self.kind}, {self.where}"
        )

    @property
    def place(self) -> str:
        return f"{self.table} in {self.kind}, {self.where}"


def one_line(error: object) -> str:
    return " ".join(str(error).split())


def read_as(cell: str, type: str) -> str:
    """SQL of DuckDB that makes a value of a text; null if it is none of the type."""
    if type in ("VARCHAR", "JSON"):
        return cell
    if type == "BLOB":
        return f"unhex({cell})"
    if nested(type):
        return f"TRY_CAST(TRY_CAST({cell} AS JSON) AS {type})"
    if type == "TIME":  # Arrow has no 24:00
        return f"nullif(TRY_CAST({cell} AS TIME), TIME '24:00')"
    if type in ("HUGEINT", "UHUGEINT"):  # nor numbers of more than 38 digits
        return f"TRY_CAST(TRY_CAST({cell} AS DECIMAL(38,0)) AS {type})"
    return f"TRY_CAST({cell} AS {type})"


def fits_whole(text: str, bits: int) -> bool:
    return -(1 << bits - 1) <= int(text) < 1 << bits - 1


def known_columns(found: Mapping[str, str], wanted: Sequence[str], table: DatabaseTable) -> None:
    """Refuses columns that a table lacks."""
    for name in wanted:
        if name not in found:
            raise DatabaseError(
                f"the table {table.table!r} has no column {name!r}",
                where=f"{table.kind}, {table.where}",
                got=f"columns: {', '.join(found)}",
            )
