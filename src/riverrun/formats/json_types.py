"""How columns stand in JSON: the types it is read with, what its values become, and the objects
that rows become."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from riverrun.formats.json_scalars import SCALARS, Manner, Scalar
from riverrun.formats.types import Type
from riverrun.schema import quoted, with_plain_times


@dataclass(frozen=True)
class Reading:
    """Reads values of JSON as types."""

    manner: Manner = "strict"

    def scalar(self, type: Type) -> Scalar:
        return SCALARS[self.manner].get(type.text) or Scalar(type.text)

    def read_as(self, type: Type) -> str:
        """The type that JSON is read with: one that tells whether a value fits."""
        match type.kind:
            case "struct":
                fields = (f"{quoted(name)} {self.read_as(each)}" for name, each in type.parts)
                return f"STRUCT({', '.join(fields)})"
            case "map":
                return f"MAP(VARCHAR, {self.read_as(type.item)})"
            case "list" | "array":
                return f"{self.read_as(type.item)}[]"
            case _:  # any other: a single value
                return self.scalar(type).read_as

    def decoded(self, value: str, type: Type, depth: int = 0) -> str:
        """A value that was read so, in its own type; null if it does not fit."""
        match type.kind:
            case "struct":
                return self._struct(value, type, depth)
            case "map":
                return self._map(value, type, depth)
            case "list":
                return self._items(value, type.item, depth)
            case "array":
                items = self._items(value, type.item, depth)
                fitting = f"CASE WHEN len({value}) = {type.size} THEN {items} END"
                return f"CAST({fitting} AS {with_plain_times(type.item.text)}[{type.size}])"
            case _:  # any other: a single value
                return self.scalar(type).made(value)

    def _struct(self, value: str, type: Type, depth: int) -> str:
        fields = [
            (name, self.decoded(f"{value}.{quoted(name)}", each, depth))
            for name, each in type.parts
        ]
        if all(made == f"{value}.{quoted(name)}" for name, made in fields):
            return value
        packed = ", ".join(f"{quoted(name)} := {made}" for name, made in fields)
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({packed}) END"

    def _map(self, value: str, type: Type, depth: int) -> str:
        texts = f"map_keys({value})", f"map_values({value})"
        keys = self._keys(texts[0], type.parts[0][1], depth)
        values = self._items(texts[1], type.item, depth)
        # two texts may be one key: "1" and "1.0"
        return value if (keys, values) == texts else f"TRY(map({keys}, {values}))"

    def _keys(self, texts: str, type: Type, depth: int) -> str:
        """Keys are text, whatever they stand for."""
        scalar = SCALARS["strict"].get(type.text) or Scalar(type.text)
        if scalar.read_as == "VARCHAR" and scalar.made("x") == "x":
            return texts
        each = f"x{depth}"
        read = each if scalar.read_as == "VARCHAR" else f"TRY_CAST({each} AS {scalar.read_as})"
        return f"list_transform({texts}, lambda {each}: {scalar.made(read)})"

    def _items(self, value: str, item: Type, depth: int) -> str:
        each = f"x{depth}"
        made = self.decoded(each, item, depth + 1)
        return value if made == each else f"list_transform({value}, lambda {each}: {made})"


def object_of(names: tuple[str, ...], as_json: Collection[str] = ()) -> str:
    """A row as the text of a JSON object. Of some columns the text is JSON itself."""
    fields = ", ".join(
        f"{quoted(name)} := {quoted(name)}{'::JSON' if name in as_json else ''}" for name in names
    )
    return f"to_json(struct_pack({fields}))::VARCHAR"
