"""Streams drawn as tables of text: rows in, rows out.

    at    | page
    12:00 | /a
    12:11 | /a      # a comment
    ------          # ends a batch
    12:01 | /a

Times without a date are on 2026-01-01, UTC. An empty cell is a field that is not there; `null` is
null. The columns `_key`, `_partition` and `_timestamp` are the record's own; a record has no
timestamp unless one is drawn.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from riverrun.delivery.encode import Line
from riverrun.errors import InputError
from riverrun.kafka.records import Record
from riverrun.kernels.program import ReadTopic
from riverrun.sources.files import as_bytes

DAY = "2026-01-01"
RECORD_COLUMNS = ("_key", "_partition", "_timestamp")
NUMBERS_OF_TIME = {"TIMESTAMP_S": 1, "TIMESTAMP_MS": 1000}

Row = dict[str, str]


@dataclass(frozen=True)
class Drawing:
    """A table as it was drawn: its columns, and the rows of each batch."""

    columns: tuple[str, ...]
    batches: tuple[tuple[Row, ...], ...]

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]


def parse(text: str) -> Drawing:
    lines = [bare for bare in (_without_comment(line) for line in text.splitlines()) if bare]
    if not lines:
        raise InputError("a drawn table has no header", got=repr(text))
    columns = _cells(lines[0])
    batches: list[list[Row]] = [[]]
    for line in lines[1:]:
        if re.fullmatch(r"-{3,}", line):
            batches.append([])
            continue
        cells = _cells(line)
        if len(cells) != len(columns):
            raise InputError(
                f"a drawn row has {len(cells)} cells, its header {len(columns)}", got=line
            )
        batches[-1].append(dict(zip(columns, cells, strict=True)))
    return Drawing(columns, tuple(tuple(batch) for batch in batches))


def _without_comment(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line).strip()


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|"))


def drawn_rows(text: str) -> list[dict[str, str | None]]:
    """The rows of a table of a database: texts, as databases can write any value."""
    rows = parse(text).rows
    return [
        {name: None if cell in ("", "null") else moment(cell) for name, cell in row.items()}
        for row in rows
    ]


def records(drawing: Drawing, source: ReadTopic) -> Iterator[list[Record]]:
    """The records of each batch, with values typed by the source's schema."""
    for column in drawing.columns:
        if column not in RECORD_COLUMNS:
            source.fields.require(column, f"the table drawn for {source.topic!r}")
    for batch in drawing.batches:
        yield [_record(row, source) for row in batch]


def _record(row: Row, source: ReadTopic) -> Record:
    value = {
        name: _typed(text, source.fields.type_of(name))
        for name, text in row.items()
        if text and name not in RECORD_COLUMNS
    }
    return Record(
        value=as_bytes(value),
        key=as_bytes(row.get("_key") or None),
        timestamp=_epoch(row["_timestamp"], 1000) if row.get("_timestamp") else 0,
        partition=int(row.get("_partition") or 0),
    )


def _typed(text: str, type: str) -> Any:
    """A cell as JSON would have it; what does not fit the type is left as text, as wrong input."""
    if text == "null":
        return None
    if type in NUMBERS_OF_TIME:
        return _epoch(text, NUMBERS_OF_TIME[type])
    if type.startswith("TIMESTAMP") and not type.endswith("]"):
        return moment(text)
    if type == "VARCHAR" and not text.startswith('"'):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def moment(text: str) -> str:
    """`12:00` as `2026-01-01T12:00:00Z`; any other text as it is."""
    if not re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d+)?)?", text):
        return text
    return f"{DAY}T{text}{':00' if text.count(':') == 1 else ''}Z"


def _epoch(text: str, per_second: int) -> int:
    at = datetime.fromisoformat(moment(text))
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return round(since.total_seconds() * per_second)


class Lines(list[Line]):
    """What came out: lines of all outputs, in the order in which they left."""

    def of(self, output: str) -> Lines:
        """The lines of one output."""
        return Lines(line for line in self if line["output"] == output)

    def assert_is(self, drawn: str) -> None:
        """Compares all lines with a drawn table, in the columns that its header names.

        `+-`, `revision`, `key` and `output` stand for themselves, other columns for the value's.
        """
        __tracebackhide__ = True
        drawing = parse(drawn)
        outputs = sorted({line["output"] for line in self})
        if len(outputs) > 1 and "output" not in drawing.columns:
            raise AssertionError(
                f"lines of several outputs: choose with .of(…) among {', '.join(outputs)}"
            )
        found = [_shown(line, drawing.columns) for line in self]
        if not _same(drawing.rows, found):
            raise AssertionError(_difference(drawing, [_texts(row) for row in found]))


def _shown(line: Line, columns: tuple[str, ...]) -> dict[str, Any]:
    own = {"+-": line["op"], "revision": line.get("revision")}
    own |= {"key": line["key"], "output": line["output"]}
    fields: Mapping[str, Any] = line["value"]
    missing = [name for name in columns if name not in fields and name not in own]
    if missing:
        raise AssertionError(f"there is no column {missing[0]!r} in {json.dumps(fields)}")
    return {name: fields[name] if name in fields else own[name] for name in columns}


def _same(wanted: list[Row], found: list[dict[str, Any]]) -> bool:
    return len(wanted) == len(found) and all(
        _matches(text, row[name])
        for cells, row in zip(wanted, found, strict=True)
        for name, text in cells.items()
    )


def _matches(text: str, value: Any) -> bool:
    if text == _text(value) or moment(text) == value:
        return True
    try:
        parsed = json.loads(text)
    except ValueError:
        return False
    return bool(parsed == value) and isinstance(parsed, bool) == isinstance(value, bool)


def _texts(row: dict[str, Any]) -> Row:
    return {name: _text(value) for name, value in row.items()}


def _text(value: Any) -> str:
    """A value as one would draw it."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return json.dumps(value)
    on_the_day = re.fullmatch(rf"{DAY}T(\d\d:\d\d)(:\d\d(?:\.\d+)?)Z", value)
    if on_the_day:
        return on_the_day[1] + on_the_day[2].removesuffix(":00")
    return value


def _difference(drawing: Drawing, found: list[Row]) -> str:
    """Both tables in columns of one width, line by line: `-` is missing, `+` was not expected."""
    widths = {
        name: max(map(len, [name, *(row[name] for row in [*drawing.rows, *found])]))
        for name in drawing.columns
    }

    def line(row: Row) -> str:
        return " | ".join(row[name].ljust(widths[name]) for name in drawing.columns).rstrip()

    wanted, got = [line(row) for row in drawing.rows], [line(row) for row in found]
    compared = [text for text in difflib.ndiff(wanted, got) if not text.startswith("?")]
    header = line({name: name for name in drawing.columns})
    return "\n".join(["the output differs (- drawn, + came out)", f"  {header}", *compared])
