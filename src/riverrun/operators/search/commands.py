"""What commands of the control log, or rows of a table, make of the queries that stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from riverrun.control import QUERY, REMOVE_QUERY, Command
from riverrun.errors import InputError
from riverrun.operators.rules.answers import Answer, Answering, refusal, unknown
from riverrun.operators.search.collection import Change, Collection
from riverrun.operators.search.index import Entered
from riverrun.operators.search.log import Known, Told
from riverrun.operators.search.query import Stored, stored, with_metadata


class Changes(Answering):
    """Changes to the queries that stand, and what is answered to those who asked for them."""

    bring, take_away, noun = QUERY, REMOVE_QUERY, "query"

    def __init__(self, known: Known, clock: int, most_loose: int) -> None:
        """`most_loose`: so many queries may be without a word that they need."""
        super().__init__(clock)
        self.collection: Collection = known.collection
        self.most_loose = most_loose
        self.made: list[Change] = []
        self.refused: list[tuple[int, str]] = []

    def drop(self, step: str, unfit: Iterable[tuple[Change, Exception]]) -> None:
        """Ends queries that the program no longer understands: it has changed since they came."""
        for change, error in unfit:
            self._enter(Change(change.name, None, self.clock), None)
            self.refuse(Command(change.id, QUERY, step, {"name": change.name}), error)

    def stands(self, given: Mapping[str, Any]) -> Answer | None:
        name = given.get("name")
        before = self.collection.standing.get(name) if isinstance(name, str) else None
        if before is None or self.collection.stored[before.slot] != stored(given):
            return None
        return Answer(before.id, before.version, before.begins)

    def add(self, given: Mapping[str, Any], at: int, offset: int) -> int:
        query = stored(given)
        entered = self._read(query, at)
        before = self.collection.standing.get(query.name)
        version = before.version + 1 if before else 1
        self._enter(Change(query.name, query, at, version, offset), entered)
        return version

    def remove(self, name: Any, at: int) -> int:
        before = self.collection.standing.get(name) if isinstance(name, str) else None
        if before is None:
            raise unknown("stored query", name, self.collection.standing)
        self._enter(Change(name, None, at), None)
        return before.version

    def table(self, rows: Iterable[dict[str, Any]]) -> None:
        """Rows of a table of queries: those that are gone, and those that are there now."""
        for number, row in enumerate(rows):
            name = row.pop("name")
            if row.pop("gone"):
                self._replace(name, None, None)
                continue
            try:
                query = stored({"name": name, **with_metadata(row)})
                self._replace(name, query, self._read(query, self.clock))
            except Exception as error:
                self._replace(name, None, None)
                said = refusal(error, "query")["refused"]
                parts = (said["fact"], said["where"], said["got"])
                self.refused.append((number, ": ".join(str(each) for each in parts if each)))

    def _replace(self, name: str, query: Stored | None, entered: Entered | None) -> None:
        if query is not None or name in self.collection.standing:
            self._enter(Change(name, query, self.clock), entered)

    def _enter(self, change: Change, entered: Entered | None) -> None:
        self.collection.take(change, entered)
        self.made.append(change)

    def _read(self, query: Stored, at: int) -> Entered:
        found = query.entered(self.collection.over, at)
        if found.needs_a_word:
            return found
        standing = self.collection.standing.get(query.name)
        others = self.collection.loose - ({standing.slot} if standing else set())
        if len(others) >= self.most_loose:
            raise InputError(
                f"there are {len(others):,} queries that need no word: no more are allowed",
                where=f"the query {query.name!r}",
                hint="it would be tested on every document: add a word or a phrase that must be "
                "there, or see max_unindexed",
            )
        return found

    @property
    def told(self) -> Told:
        return Told(None, self.answers, self.refused)
