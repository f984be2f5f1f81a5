"""What was lost as JSON was read: a null, however deep, where JSON has a value."""

from __future__ import annotations

from riverrun.formats.types import Type
from riverrun.schema import literal, quoted, with_plain_times


def incomplete(value: str, type: Type, depth: int = 0) -> str:
    """Whether there is a null in a value: only then can something be lost."""
    match type.kind:
        case "struct":
            fields = (incomplete(f"{value}.{quoted(n)}", each, depth) for n, each in type.parts)
            return f"({' OR '.join(fields)})"
        case "map":
            return f"({value} IS NULL OR {_holes(f'map_values({value})', type.item, depth)})"
        case "list" | "array":
            return f"({value} IS NULL OR {_holes(_listed(value, type), type.item, depth)})"
        case _:  # any other: a single value
            return f"{value} IS NULL"


def _holes(items: str, item: Type, depth: int) -> str:
    if not item.parts:
        return f"list_count({items}) < len({items})"
    each = f"x{depth}"
    return f"len(list_filter({items}, lambda {each}: {incomplete(each, item, depth + 1)})) > 0"


def lost(value: str, type: Type, json: str, path: str = "$", depth: int = 0) -> str:
    """Whether a value is not what `json` has at `path`."""
    missing = f"{value} IS NULL AND {_given(json, path)}"
    match type.kind:
        case "struct":
            return _lost_fields(value, type, json, path, depth)
        case "map":
            inside = _lost_items(f"map_values({value})", type.item, json, f"{path}.*", depth)
            return f"({missing} OR {inside})"
        case "list" | "array":
            items = _listed(value, type)
            return f"({missing} OR {_lost_items(items, type.item, json, f'{path}[*]', depth)})"
        case _:  # any other: a single value
            return f"({missing})"


def _lost_fields(value: str, type: Type, json: str, path: str, depth: int) -> str:
    """What is no object gives a struct of nulls."""
    names = [(f"{value}.{quoted(name)}", f'{path}."{name}"', each) for name, each in type.parts]
    empty = " AND ".join(f"{field} IS NULL" for field, _, _ in names)
    inside = " OR ".join(lost(field, each, json, at, depth) for field, at, each in names)
    return f"({empty} AND {_given(json, path, 'OBJECT')} OR {inside})"


def _lost_items(items: str, item: Type, json: str, path: str, depth: int) -> str:
    each = f"i{depth}"
    given = f"json_extract({json}, {literal(path)})[{each}]"
    wrong = lost(f"{items}[{each}]", item, given, depth=depth + 1)
    places = f"list_filter(range(1, len({items}) + 1), lambda {each}: {wrong})"
    return f"({_holes(items, item, depth)} AND len({places}) > 0)"


def _given(json: str, path: str, *fitting: str) -> str:
    words = ", ".join(map(literal, ("NULL", *fitting)))
    return f"coalesce(json_type({json}, {literal(path)}), 'NULL') NOT IN ({words})"


def _listed(value: str, type: Type) -> str:
    if type.kind == "list":
        return value
    return f"CAST({value} AS {with_plain_times(type.item.text)}[])"
