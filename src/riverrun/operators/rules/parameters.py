"""Parameters of rules: `$name` in a pattern stands for a value that each rule has of its own.

A parameter is a column that is the same in all rows that a rule sees: conditions, measures and
their types are then those of any pattern, and rules that differ in values only are one pattern. In
WITHIN and in quantifiers its value is read with the text: rules that differ there are several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from riverrun.errors import Location, ProgramError
from riverrun.operators.match.text import Text, Token
from riverrun.schema import Column, Schema

SIGN, MARK = "$", "_"
"""What the sign of a parameter becomes: as long as it is, so that places in the text stay."""


@dataclass(frozen=True)
class RuleText(Text):
    """The text of a rule; errors show it as it was written."""

    original: str = ""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def parameter(self, token: Token) -> str | None:
        marked = token.kind == "word" and self.original[token.begin] == SIGN
        return token.text[len(MARK) :] if marked else None

    def value(self, parameter: str) -> Any:
        return self.values.get(parameter)

    def error(self, fact: str, place: int, hint: str | None = None) -> ProgramError:
        return Text(self.original, self.at).error(fact, place, hint)


@dataclass(frozen=True)
class RulePlace(Location):
    """Where a rule's text is: there is no file."""

    def __str__(self) -> str:
        return self.file


def column_of(parameter: str) -> str:
    return MARK + parameter


def with_columns(
    text: str, at: Location, values: Mapping[str, Any] | None = None
) -> tuple[RuleText, dict[str, int]]:
    """The text with a column for each parameter, and where each of these stands first. `values` are
    not known of a template."""
    places: dict[str, int] = {}
    tokens, made = Text(text, at).tokens(), list(text)
    for sign, token in zip(tokens, [*tokens[1:], None], strict=False):
        if sign.kind != "sign" or sign.text != SIGN:
            continue
        if token is None or token.kind != "word" or token.begin != sign.end:
            raise Text(text, at).error("a parameter has a name", sign.begin, "amount > $limit")
        places.setdefault(token.text, sign.begin)
        made[sign.begin] = MARK
    return RuleText("".join(made), at, text, values or {}), places


def require_same(
    source: RuleText, places: dict[str, int], types: tuple[tuple[str, str], ...]
) -> None:
    """Refuses a rule with values that its pattern does not have, or without one that it has."""
    given = dict(types)
    for name, place in places.items():
        if name not in given:
            raise source.error(f"the parameter ${name} has no value", place)
    for name in given:
        if name not in places:
            known = ", ".join(f"${each}" for each in places)
            raise ProgramError(
                f"the pattern has no parameter ${name}",
                where=source.at,
                hint=f"it has: {known or 'none'}",
            )


def schema_with(schema: Schema, types: tuple[tuple[str, str], ...], at: Location) -> Schema:
    """The columns of rows, with those of parameters."""
    for name, type in types:
        if taken := schema.taken(column_of(name)):
            raise ProgramError(
                f"a parameter cannot have the name {name!r}",
                where=at,
                got=f"another one, or a column, is {taken}",
                hint="choose another one",
            )
        schema = Schema((*schema.columns, Column(column_of(name), type, hidden=True)))
    return schema
