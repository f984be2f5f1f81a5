"""How columns stand in JSON: the types it is read with, and the objects that rows become."""

from __future__ import annotations

from riverrun.schema import quoted

TIMESTAMP_NUMBERS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1_000}


def json_type(type: str) -> str:
    """The type that JSON is read with: timestamps come as text or numbers."""
    if type.endswith("[]"):
        return f"{json_type(type.removesuffix('[]'))}[]"
    if type in TIMESTAMP_NUMBERS:
        return "BIGINT"
    return "VARCHAR" if type.startswith("TIMESTAMP") else type


def decoded(value: str, type: str) -> str:
    """A value that was read with its JSON type, in its own."""
    if json_type(type) == type:
        return value
    if type.endswith("[]"):
        return f"list_transform({value}, lambda x: {decoded('x', type.removesuffix('[]'))})"
    if type in TIMESTAMP_NUMBERS:
        return f"TRY(make_timestamp({value} * {TIMESTAMP_NUMBERS[type]}))"
    return f"(TRY_CAST({value} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"


def object_of(names: tuple[str, ...]) -> str:
    """A row as the text of a JSON object."""
    fields = ", ".join(f"{quoted(name)} := {quoted(name)}" for name in names)
    return f"to_json(struct_pack({fields}))::VARCHAR"
