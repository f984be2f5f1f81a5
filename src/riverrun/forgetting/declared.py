"""Personal columns, as a program declares them."""

from __future__ import annotations

from dataclasses import dataclass

from riverrun.arguments import checked, shown
from riverrun.errors import Location, ProgramError, caller
from riverrun.schema import Schema

WHOLE = tuple(
    f"{sign}{size}"
    for sign in ("", "U")
    for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)


@dataclass(frozen=True)
class Personal:
    """Columns that are personal, and whose they are."""

    columns: tuple[str, ...]
    subject: str
    """The kind of person: `customer`."""
    by: str
    """The column that tells which one."""
    at: Location
    inside: str | None = None
    """The column of JSON that they are fields of, if they are no columns of their own."""
    known: tuple[str, ...] = ()
    """Other fields of it. One that is none of these may be a personal one, misspelt, and is sealed,
    too."""

    @property
    def text(self) -> str:
        return f"{', '.join(self.columns)} of {self.subject}"


@dataclass(frozen=True)
class Mark:
    """That a column holds texts which stand for personal values."""

    subject: str
    """The kind of person; which one is in the texts."""
    fields: tuple[str, ...] = ()
    """Of a column of JSON: the fields that do; none if it is the column itself."""


@checked
def personal(*columns: str, subject: str, by: str | None = None) -> Personal:
    """Columns that are personal: `personal=rr.personal("email", subject="customer")` of a source.

    They are encrypted by a key of the subject before they are written anywhere, and
    `riverrun forget customer/42 --app …` destroys that key. `by` is the column that tells which
    subject it is, the one of the subject's name if not given.
    """
    at = caller()
    if not columns:
        raise ProgramError("personal needs at least one column", where=at)
    if not subject or "/" in subject or "\0" in subject:
        hint = 'a word, e.g. subject="customer"'
        raise ProgramError("a kind of subject has no /", where=at, got=repr(subject), hint=hint)
    return Personal(columns, subject, by or subject, at)


def listed(given: object, at: Location) -> tuple[Personal, ...]:
    """One, or several in a list."""
    several = given if isinstance(given, list | tuple) else [given]
    found = tuple(each for each in several if isinstance(each, Personal))
    if not found or len(found) < len(several):
        hint = 'personal=rr.personal("email", subject="customer")'
        raise ProgramError("personal takes rr.personal(…)", where=at, got=shown(given), hint=hint)
    return found


def checked_personal(given: object, fields: Schema, at: Location) -> tuple[Personal, ...]:
    """What a source was given, checked against its columns."""
    several = () if given is None else listed(given, at)
    for each in several:
        fields.require(each.by, each.at)
        _check_single(each.by, fields.type_of(each.by), each.at)
        for column in each.columns:
            fields.require(column, each.at)
            if fields.type_of(column) != "VARCHAR":
                raise ProgramError(
                    f"{column!r} is {fields.type_of(column)}: only text can be personal",
                    where=each.at,
                    hint=f'declare it as text, "{column} string": numbers, booleans and lists of '
                    "records are read as their JSON; cast it where it is used",
                )
    names = [name for each in several for name in each.columns]
    for name in names:
        if names.count(name) > 1:
            raise ProgramError(f"{name!r} is personal twice", where=at)
    return several


def _check_single(column: str, type: str, at: Location) -> None:
    """What is written in one way only, so that somebody can be named."""
    decimal = type.startswith("DECIMAL") and not type.endswith("]")
    if type not in (*WHOLE, "VARCHAR", "UUID") and not decimal:
        raise ProgramError(
            f"{column!r} is {type}, and cannot tell a subject", where=at,
            hint="a subject is told by a text, a whole number, a decimal or a UUID",
        )  # fmt: skip
