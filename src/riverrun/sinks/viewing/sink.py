"""A view as a sink."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path

from riverrun.arguments import checked
from riverrun.durations import Duration, duration_text, microseconds
from riverrun.errors import ProgramError, caller
from riverrun.outputs import Delivery, Destination, Guarantee, Need, Places, Sink
from riverrun.schema import UNREADABLE, Schema
from riverrun.sinks.database import LONGEST_NAME, refuse_columns
from riverrun.sinks.postgresql.types import column_type as postgres_type
from riverrun.sinks.sqlite_file import column_type as sqlite_type
from riverrun.versions import Version

FILE = "views.sqlite"
OWN = "riverrun_"


@dataclass(frozen=True)
class View(Sink):
    """A table under a name that others look it up by."""

    view: str
    changes: int
    """Microseconds that changes can be read for."""

    @property
    def name(self) -> str:
        return f"view:{self.view}"

    @property
    def text(self) -> str:
        return f"view {self.view}, changes kept for {duration_text(self.changes)}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        if not table:
            raise ProgramError(
                "a view is of a table: its rows are looked up by their key",
                where=where,
                got="a stream",
                hint="make a table of it: .to_table(KEY), or .group_by(…).agg(…)",
            )
        for column in columns.visible.columns:
            if re.search(UNREADABLE, column.type):
                raise ProgramError(
                    f"a view cannot hold the column {column.name!r}",
                    where=where,
                    got=column.type,
                    hint="leave it out, or cast it, e.g. with base64(…)",
                )
        for column_type in (sqlite_type, postgres_type):
            refuse_columns(columns.visible, column_type, table=True, where=where)

    def destination(self, places: Places) -> Destination:
        # only programs that run wait for what databases need
        from riverrun.sinks.viewing.delivery import Views  # noqa: PLC0415
        from riverrun.sinks.viewing.store import store_at  # noqa: PLC0415

        return Views(store_at(places.views, places.postgres, Path(places.home) / FILE))

    def place(self) -> Hashable:
        """All views are written in one transaction."""
        return View

    def followed(self) -> bool:
        return True

    def needs(self) -> frozenset[Need]:
        return frozenset({"views"})

    def beside(self, version: Version) -> View:
        named = version.table(self.view)
        _check(named, named)
        return replace(self, view=named)

    def owns(self) -> str:
        return f"the view {self.view}"


@checked
def view(name: str, *, changes: Duration = "1 hour") -> View:
    """A table that others look up by key, query and follow: `riverrun get NAME KEY`, and over HTTP.

    It is kept in the SQLite file of the settings' home, or, where they say `views = "postgres"`,
    in PostgreSQL. `changes` is how long followers can be away without missing one.
    """
    _check(name, at := caller())
    return View(name, microseconds(changes, at))


def _check(name: str, at: object) -> None:
    if not re.fullmatch(r"[^\W\d]\w*", name) or len(name.encode()) > LONGEST_NAME:
        raise ProgramError(
            "the name of a view starts with a letter and has letters, digits and _, at most "
            f"{LONGEST_NAME} bytes",
            where=at,
            got=repr(name),
        )
    if name.lower().startswith((OWN, "sqlite_")):
        raise ProgramError(f"the name {name!r} is taken", where=at, hint="choose another one")
