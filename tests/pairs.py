"""A user's own format: `name=value` pairs with semicolons between them."""

from urllib.parse import quote, unquote

import pyarrow as pa

from riverrun.formats import Format


class Pairs(Format):
    name = "pairs"

    def decode(self, records, columns, *, key=()):
        rows = [_row(value.decode()) for value in records["__value"].to_pylist()]
        return pa.table({name: [row.get(name) for row in rows] for name in columns.names})

    def encode(self, rows, columns):
        return pa.array([_line(row) for row in rows.to_pylist()], pa.string())


def _row(line):
    pairs = [pair.split("=") for pair in line.split(";") if pair]
    return {name: unquote(value) for name, value in pairs}


def _line(row):
    return ";".join(f"{name}={quote(_text(v))}" for name, v in row.items() if v is not None)


def _text(value):
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
