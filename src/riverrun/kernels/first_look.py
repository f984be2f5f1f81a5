"""What the first records of a topic hold, beside what its schema says: a misspelt column is null in
every row, and nothing else would tell."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from riverrun.kernels.messages import Status
from riverrun.kernels.program import Program, ReadTopic

LOOKED_AT = 20
"""Records of a lot whose names are noted."""


def first_look(source: ReadTopic, records: pa.Table, rows: pa.Table) -> Status:
    """The columns that some row has a value of, and the names that records have."""
    if not rows.num_rows:
        return Status()
    given = [name for name in source.fields.names if rows[name].null_count < rows.num_rows]
    names: set[str] = set()
    for value in records["__value"].slice(0, LOOKED_AT).to_pylist():
        names.update(_names(value))
    return Status(given={source.topic: given}, fields={source.topic: sorted(names)})


def _names(value: bytes | None) -> Sequence[str]:
    """Of a record in another format, or of none: none."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return ()
    return tuple(found) if isinstance(found, dict) else ()


def never_given(program: Program, status: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said of columns that no record of the first batch had."""
    for source in program.sources:
        if source.topic not in status["given"]:
            continue
        fields = status["fields"].get(source.topic, [])
        for name in source.fields.names:
            if name in status["given"][source.topic] or name in fields:
                continue
            close = _close(name, fields)
            if source.shared and close is None:  # commands: what they lack they may lack
                continue
            fact = f"{source.topic}: no record of the first batch has {name!r}"
            yield fact + _instead(close, fields)


def _close(name: str, fields: list[str]) -> str | None:
    alike = {each.lower().replace("_", ""): each for each in fields}
    found = get_close_matches(name.lower().replace("_", ""), alike, n=1)
    return alike[found[0]] if found else None


def _instead(close: str | None, fields: list[str]) -> str:
    if close is not None:
        return f"; did you mean {close!r}?"
    return f"; they have: {', '.join(fields[:10])}" if fields else ""
