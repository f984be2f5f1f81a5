"""What the bytes of a message mean: JSON, columns of a schema, or nothing but bytes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from riverrun import exact
from riverrun.errors import Location, ProgramError
from riverrun.formats import Format, format_of
from riverrun.kafka.batches import Stored
from riverrun.kafka.records import columns_of
from riverrun.schema import Schema, parse

JSON = "json"


class Read(NamedTuple):
    """A value, or why there is none."""

    value: Any
    cause: str | None = None


class Values:
    """Reads the values of one queue."""

    def __init__(self, schema: str | None, format: str | Format | None, where: Location) -> None:
        self.schema: Schema | None = None
        self.format = None if format is None else format_of(format, where)
        if schema is not None:
            self.schema = parse(schema, where)
        if schema is None and self.format is not None and self.format.name != JSON:
            hint = "or leave out the format: values are JSON of any kind then"
            fact = f"the format {self.format.name} needs a schema"
            raise ProgramError(fact, where=where, hint=hint)
        if schema is not None and self.format is None:
            hint = "name a format, or no schema"
            raise ProgramError("bytes have no columns", where=where, hint=hint)

    def read(self, record: Stored) -> Read:
        if self.format is None:
            return Read(record.value)
        if self.schema is not None:
            return self._columns(self.format, self.schema, record)
        if record.value is None:
            return Read(None)
        try:
            return Read(exact.loads(record.value))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            return Read(None, "the value is not JSON")

    def _columns(self, format: Format, schema: Schema, record: Stored) -> Read:
        given = {
            "__value": [record.value],
            "__key": [record.key],
            "__timestamp": [record.timestamp],
            "__offset": [record.offset],
        }
        [row] = format.read(columns_of(given, None), schema).to_pylist()
        cause = row.pop("__cause")
        return Read(row if cause is None else None, cause)
