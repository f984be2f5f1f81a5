"""Stored queries of an application, from Python: `riverrun.queries.Queries("news").add({…})`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from riverrun.arguments import checked
from riverrun.config import Settings
from riverrun.control import QUERY, REMOVE_QUERY
from riverrun.durations import Duration
from riverrun.errors import InputError
from riverrun.told import Asked, Known

SUMMED = ("documents", "candidates", "hits", "microseconds")
"""What processes have measured, each for itself."""


@checked
class Queries(Asked):
    """The stored queries of one step of an application. The step has to be named if there are
    several, or if the application has not run on this machine."""

    bring, take, does, noun = QUERY, REMOVE_QUERY, "search", "query"
    several = "stored queries"
    made_with = ".search(…)"

    def add(
        self, *queries: Mapping[str, Any], timeout: Duration | None = "30 seconds"
    ) -> list[Known]:
        """Add queries, or change those with the same names; what the job answers, in their order.

        A query has a `name`, a `query`, perhaps `where`, a condition in SQL, an `owner` and
        `metadata`. With None for a timeout it is not waited for answers.
        """
        return self.ask(QUERY, list(queries), timeout)

    def remove(self, *names: str, timeout: Duration | None = "30 seconds") -> list[Known]:
        """Remove queries; what the job answers."""
        return self.ask(REMOVE_QUERY, [{"name": name} for name in names], timeout)

    @staticmethod
    def require(given: Mapping[str, Any]) -> None:
        # slow to import
        from riverrun.operators.search.query import WATCH, require_parts, stored  # noqa: PLC0415

        stored(given)
        require_parts(given.keys() & {WATCH})


def step_of(settings: Settings, application: str) -> str:
    """The only step of an application that has stored queries, wherever they come from."""
    from riverrun.compiler.upgrades import read  # noqa: PLC0415 - slow to import

    steps = (read(settings.checkpoint_of(application)) or {}).get("steps", {})
    known = [name for name, facts in steps.items() if facts["does"] == Queries.does]
    if len(known) != 1:
        raise InputError(
            f"{application!r} has {len(known) or 'no'} steps with stored queries",
            hint=f"name one: {', '.join(known)}"
            if known
            else "a program makes one with .search(…)",
        )
    return str(known[0])


def costs(
    rows: Iterable[Mapping[str, Any]], limit: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What all queries cost, and the most expensive of them, from what pages tell: those of one
    process tell the same, the last one most."""
    processes: dict[tuple[str, str | None], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["process"], row["query"])
        if key not in processes or row["documents"] > processes[key]["documents"]:
            processes[key] = row
    found: dict[str | None, dict[str, Any]] = {}
    for (_, query), row in processes.items():
        known = found.setdefault(query, {**row, **dict.fromkeys(SUMMED, 0)})
        known.pop("process", None)
        for name in SUMMED:
            known[name] += row[name]
        for name in ("queries", "unindexed"):
            known[name] = max(known[name], row[name])
    every = found.pop(None, dict.fromkeys((*SUMMED, "queries", "unindexed"), 0))
    ordered = sorted(found.values(), key=lambda each: -each["microseconds"])
    return every, ordered[:limit]
