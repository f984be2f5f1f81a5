"""Columns and their types, in DuckDB's names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

import duckdb

from riverrun.errors import ProgramError

RESERVED = "__"
"""Columns that start so carry time, position and change marks through a program."""

FREE = re.IGNORECASE | re.DOTALL
WORDS = r"precision|varying|array|with\s+time\s+zone|without\s+time\s+zone"
HUGE, LONGEST = ("HUGEINT", "UHUGEINT"), "DECIMAL(38,0)"
"""Whole numbers of 128 bits travel as decimals, which have 38 digits."""

UNFIT = r"\b(INTERVAL|UNION|BIGNUM|BIT|VARIANT)\b"
"""Types of values that cannot travel."""
UNREADABLE = rf"{UNFIT}|\b(BLOB|GEOMETRY|NULL)\b|TIME WITH"
"""Types that records cannot hold."""
UNNAMEABLE = re.compile(r'["*\x00-\x1f]')
"""What stands in no name of a column: formats and queries would take it for something else."""

_PLAIN = re.compile(r"\bTIMESTAMP(_\w+| WITH TIME ZONE)")

METADATA = (
    ("_key", "VARCHAR"),
    ("_headers", "MAP(VARCHAR, VARCHAR)"),
    ("_timestamp", "TIMESTAMP"),
    ("_topic", "VARCHAR"),
    ("_partition", "INTEGER"),
    ("_offset", "BIGINT"),
)
"""What Kafka knows of a record: usable in expressions, not written unless selected."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    hidden: bool = False
    """Usable in expressions, but not written: what Kafka knows of a record."""


@dataclass(frozen=True)
class Schema:
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def visible(self) -> Schema:
        return Schema(tuple(column for column in self.columns if not column.hidden))

    @property
    def with_plain_times(self) -> Schema:
        """As it is after decoding: times are TIMESTAMP, in whatever unit the records have them."""
        return Schema(tuple(replace(c, type=with_plain_times(c.type)) for c in self.columns))

    @property
    def with_metadata(self) -> Schema:
        return Schema(
            (*self.columns, *(Column(name, type, hidden=True) for name, type in METADATA))
        )

    def only(self, names: tuple[str, ...]) -> Schema:
        return Schema(tuple(Column(name, self.type_of(name)) for name in names))

    def type_of(self, name: str) -> str:
        return next(column.type for column in self.columns if column.name == name)

    def ddl(self) -> str:
        return ", ".join(f"{quoted(c.name)} {c.type}" for c in self.columns)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def taken(self, name: str) -> str | None:
        """The column that has the name; SQL does not tell capital letters from small ones."""
        return next((each for each in self.names if each.lower() == name.lower()), None)

    def require(self, name: str, where: object) -> None:
        if name not in self:
            raise ProgramError(
                f"there is no column {name!r}", where=where, hint=self.suggestion(name)
            )

    def expression(self, text: str) -> str:
        """A bare column name may be any word, also one of SQL's; `at` may be one anywhere."""
        return quoted(text) if text in self else _AT.sub(_quoted_at, text)

    def suggestion(self, name: str) -> str:
        visible = self.visible.names
        close = get_close_matches(name, visible, n=1)
        return (f"did you mean {close[0]!r}? " if close else "") + f"columns: {', '.join(visible)}"


_AT = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\bat\b(?!\s+time\s+zone\b)""", re.IGNORECASE)
"""Texts and quoted names, to be left alone, and the word that is most often a column's."""


def _quoted_at(found: re.Match[str]) -> str:
    return quoted(found[0]) if found[0].lower() == "at" else found[0]


def with_plain_times(type: str) -> str:
    return _PLAIN.sub("TIMESTAMP", type)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def in_range(expression: str, type: str) -> str:
    """The expression, which fails where rows cannot carry its value: Arrow has numbers of 38
    digits, and no 24:00."""
    if type in HUGE:
        return f"(({expression})::{LONGEST})::{type}"
    if type == "TIME":
        wrong = "error('24:00:00 is no time')"
        return f"CASE WHEN ({expression}) = TIME '24:00' THEN {wrong} ELSE ({expression}) END"
    return expression


def schema_of(pairs: list[tuple[str, str]]) -> Schema:
    return Schema(tuple(Column(name, type) for name, type in pairs))


def parse(ddl: str, where: object = None) -> Schema:
    """`"user string, tags string[], at timestamp"` as a schema. None of it is run as SQL."""
    schema = schema_of([(name, _type(text, ddl, where)) for name, text, _ in _fields(ddl, where)])
    for column in schema.columns:
        if re.search(UNREADABLE, column.type):
            raise ProgramError(
                f"the type of {column.name!r} is not supported",
                where=where,
                got=column.type,
                hint="use string, numbers, boolean, date, time, timestamp, lists, structs or maps",
            )
    for name in schema.names:
        if UNNAMEABLE.search(name):
            raise ProgramError(
                "a column cannot have this name",
                where=where,
                got=repr(name),
                hint='choose one without ", * and control characters',
            )
        if name.startswith(RESERVED) or name in dict(METADATA):
            raise ProgramError(
                f"the column name {name!r} is reserved", where=where, hint="choose another name"
            )
    return schema


def defaults(ddl: str, where: object = None) -> tuple[Any, ...]:
    """What columns hold that are not given: `"clicks bigint default 0"`. Else they hold null."""
    given = [(default, _type(text, ddl, where)) for _, text, default in _fields(ddl, where)]
    try:
        return tuple(_value(default, type) for default, type in given)
    except (duckdb.Error, ValueError) as error:
        raise ProgramError(
            "the defaults cannot be used", where=where, got=f"{ddl!r}: {first_line(error)}"
        ) from error


def _value(expression: str, type: str) -> Any:
    query = f"SELECT CAST(({expression}\n) AS {type})"
    [statement] = _closed().extract_statements(query)
    [[value]] = _closed().execute(statement).fetchall()
    return value


@cache
def _closed() -> duckdb.DuckDBPyConnection:
    """A DuckDB that neither reads nor writes a file, and has no threads: processes are forked."""
    config: dict[str, Any] = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "threads": "1",
    }
    return duckdb.connect(config=config)


def _fields(ddl: str, where: object) -> list[tuple[str, str, str]]:
    """The name, type and default of each column."""
    found = [_field(text, ddl, where) for text in fields_of(ddl) if text]
    names = [name.lower() for name, _, _ in found]
    if not found or len(names) > len(set(names)):
        again = next((name for name in names if names.count(name) > 1), None)
        raise _unreadable(ddl, where, f"there are two columns {again!r}" if again else "no column")
    return found


def _field(text: str, ddl: str, where: object) -> tuple[str, str, str]:
    parts = re.fullmatch(r'("(?:[^"]|"")+"|\S+)\s+(.+?)(?:\s+default\s+(.+))?', text, FREE)
    if parts is None:
        raise _unreadable(ddl, where, f"{text!r} is no name with a type")
    name, type, given = parts.groups()
    if name.startswith('"') and name.endswith('"'):
        name = name[1:-1].replace('""', '"')
    return name, type, given or "NULL"


def _type(text: str, ddl: str, where: object) -> str:
    """DuckDB's name for it. What else it could stand beside a type, it would take and ignore."""
    outer = re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""", "x", text)
    while (shorter := re.sub(r"\([^()]*\)", "", outer)) != outer:
        outer = shorter
    if not re.fullmatch(rf"\w+(\s+({WORDS}))?(\s*\[\s*\d*\s*\])*", outer.strip(), FREE):
        raise _unreadable(ddl, where, f"{text!r} is no type")
    try:
        return str(_closed().sqltype(_AT.sub(_quoted_at, text)))
    except duckdb.Error as error:
        raise _unreadable(ddl, where, first_line(error)) from error


def _unreadable(ddl: str, where: object, why: str) -> ProgramError:
    return ProgramError(
        "the schema cannot be read",
        where=where,
        got=f"{ddl!r}: {why}",
        hint='write it as "name type, name type", e.g. "user string, tags string[]"; inside of a '
        """struct a name that is an SQL word needs quotes: 'place struct("end" timestamp)'""",
    )


def fields_of(ddl: str) -> list[str]:
    """What stands between commas, those in brackets and quotes apart."""
    fields, depth, start, quote = [], 0, 0, ""
    for place, sign in enumerate(ddl):
        if sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        elif quote:
            continue
        depth += (sign in "([<") - (sign in ")]>")
        if sign == "," and depth == 0:
            fields.append(ddl[start:place].strip())
            start = place + 1
    return [*fields, ddl[start:].strip()]


def nested(type: str) -> bool:
    """Lists, structs and maps: databases are given them as JSON."""
    return type.endswith("]") or type.startswith(("STRUCT", "MAP"))


def no_key(type: str) -> str | None:
    """What to do about a column that cannot be a key; None if it can be one."""
    bare = re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""", "", type)
    if "MAP(" in bare:  # DuckDB takes maps in another order for others, and Polars has none
        return "make a list of each map: list_sort(map_entries(…))"
    if re.search(r"\bBLOB(?![\w ])", bare):
        return "make text of bytes: hex(…)"
    return None


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]


def column_list(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def plain(expression: str) -> str:
    """A lone column without its quotes."""
    return re.sub(r'^"(\w+)"$', r"\1", expression)


def columns_text(schema: Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.visible.columns)
