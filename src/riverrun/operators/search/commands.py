"""What commands of the control log, or rows of a table, make of the queries that stand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from riverrun.control import QUERY, REMOVE_QUERY, Command
from riverrun.errors import InputError
from riverrun.operators.rules.answers import Answer, answer_to, answers_of, refusal
from riverrun.operators.rules.rule import shown
from riverrun.operators.search.collection import Change, Collection
from riverrun.operators.search.index import Entered
from riverrun.operators.search.log import Known, Told
from riverrun.operators.search.query import Stored, stored

NAMED = 20
"""Queries that an error names."""


class Changes:
    """Changes to the queries that stand, and what is answered to those who asked for them."""

    def __init__(self, known: Known, clock: int, most_loose: int) -> None:
        """`most_loose`: so many queries may be without a word that they need."""
        self.collection: Collection = known.collection
        self.clock, self.most_loose = clock, most_loose
        self.made: list[Change] = []
        self.answers: list[Command] = []
        self.refused: list[tuple[int, str]] = []

    def drop(self, step: str, unfit: Iterable[tuple[Change, Exception]]) -> None:
        """Ends queries that the program no longer understands: it has changed since they came."""
        for change, error in unfit:
            self._change(Change(change.name, None, self.clock), None)
            asked = Command(change.id, QUERY, step, {"name": change.name})
            self.answers.append(answer_to(asked, refusal(error, "query")))

    def take(self, commands: Sequence[Command]) -> None:
        """What was answered before stands: a job that starts over gives queries the time that they
        had."""
        logged = answers_of(commands)
        for command in commands:
            if command.kind in (QUERY, REMOVE_QUERY):
                self._answered(command, next(iter(logged.get(command.offset, ())), None))

    def _answered(self, command: Command, answer: Answer | None) -> None:
        if answer is not None and answer.refused:
            return
        at = max(self.clock, answer.effective if answer else self.clock)
        try:
            version = self._take(command, at)
        except Exception as error:
            self.answers.append(answer_to(command, refusal(error, "query")))
            return
        if answer is None:
            self.answers.append(answer_to(command, {"effective": at, "version": version}))

    def _take(self, command: Command, at: int) -> int:
        given = {name: part for name, part in command.body.items() if name != "request"}
        if command.kind == REMOVE_QUERY:
            return self._remove(given.get("name"), at)
        query = stored(given)
        entered = self._read(query, at)
        before = self.collection.standing.get(query.name)
        version = before.version + 1 if before else 1
        self._change(Change(query.name, query, at, version, command.offset), entered)
        return version

    def _remove(self, name: Any, at: int) -> int:
        before = self.collection.standing.get(name) if isinstance(name, str) else None
        if before is None:
            known = sorted(self.collection.standing)
            more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
            raise InputError(
                f"there is no stored query {shown(name)}",
                hint=f"there are: {', '.join(known[:NAMED]) or 'none'}{more}",
            )
        self._change(Change(name, None, at), None)
        return before.version

    def table(self, rows: Iterable[dict[str, Any]]) -> None:
        """Rows of a table of queries: those that are gone, and those that are there now."""
        for number, row in enumerate(rows):
            name = row.pop("name")
            if row.pop("gone"):
                self._replace(name, None, None)
                continue
            try:
                query = stored({"name": name, **row})
                self._replace(name, query, self._read(query, self.clock))
            except Exception as error:
                self._replace(name, None, None)
                said = refusal(error, "query")["refused"]
                parts = (said["fact"], said["where"], said["got"])
                self.refused.append((number, ": ".join(str(each) for each in parts if each)))

    def _replace(self, name: str, query: Stored | None, entered: Entered | None) -> None:
        if query is not None or name in self.collection.standing:
            self._change(Change(name, query, self.clock), entered)

    def _change(self, change: Change, entered: Entered | None) -> None:
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
