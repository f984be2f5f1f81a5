"""A full-text search index as a sink."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from riverrun.arguments import checked, names
from riverrun.errors import Location, ProgramError, caller
from riverrun.outputs import Delivery, Destination, Guarantee, Need, Places, Sink
from riverrun.schema import UNREADABLE, Schema
from riverrun.versions import Version

TEXTS = ("VARCHAR", "VARCHAR[]")
WITH_STOP_WORDS = (
    "danish", "dutch", "english", "finnish", "french", "german", "hungarian", "italian",
    "norwegian", "portuguese", "russian", "spanish", "swedish",
)  # fmt: skip
LANGUAGES = tuple(sorted((*WITH_STOP_WORDS, "arabic", "greek", "romanian", "tamil", "turkish")))
"""Languages whose words are brought to their stem; most have a list of stop words, too."""

HOME = "indexes"
"""Where indexes are, in the home of the settings."""


@dataclass(frozen=True)
class SearchIndex(Sink):
    """A search index in a folder."""

    index: str
    searched: tuple[str, ...]
    """Columns whose words are looked for."""
    folder: str | None
    languages: tuple[tuple[str, str], ...] = ()
    stop_words: tuple[str, ...] = ()
    stored: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return f"search:{self.index}"

    @property
    def text(self) -> str:
        where = f" in {self.folder}" if self.folder else ""
        return f"search index {self.index}{where} of {', '.join(self.searched)}"

    def guarantee(self, delivery: Delivery) -> Guarantee:
        return "exactly once"

    def check(self, columns: Schema, *, table: bool, where: object) -> None:
        visible = columns.visible
        for name in (*self.searched, *(self.stored or ())):
            visible.require(name, where)
        for name in self.searched:
            if visible.type_of(name) not in TEXTS:
                raise ProgramError(
                    f"only text has words: {name!r} is {visible.type_of(name)}",
                    where=where,
                    hint="columns that are not in text=… can be filtered by",
                )
        refuse_unreadable(visible, "a search index", where)

    def destination(self, places: Places) -> Destination:
        # only programs that run wait for the library
        from riverrun.sinks.fulltext.delivery import SearchFolder  # noqa: PLC0415

        return SearchFolder(self, self.located(places.home))

    def located(self, home: str | Path) -> Path:
        return Path(self.folder) if self.folder else folder_of(self.index, Path(home))

    def beside(self, version: Version) -> SearchIndex:
        named = version.with_dashes(self.index)
        check_name(named, "a search index", named)
        folder = self.folder and version.with_dashes(self.folder)
        return replace(self, index=named, folder=folder)

    def owns(self) -> str:
        return self.folder or f"the search index {self.index}"

    def reads(self) -> tuple[str, ...]:
        return self.searched

    def needs(self) -> frozenset[Need]:
        return frozenset({"one machine"})


@checked
def search_index(
    name: str,
    *,
    text: str | Sequence[str],
    language: str | Mapping[str, str] | None = None,
    stop_words: bool | Sequence[str] = False,
    stored: str | Sequence[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> SearchIndex:
    """A full-text search index: the words of the columns `text`, and filters by all others.

    A table's rows are put in, replaced and deleted by key; a stream's rows are added. `language`
    brings words to their stem, for all of `text` or `{"body": "english"}`; `stop_words` leaves out
    the most common ones, of all or of some columns. `stored` are the columns that a search gives
    back: all, unless some are named. It is in the home of the settings, unless a folder is given.
    """
    at = caller()
    check_name(name, "a search index", at)
    columns = names("text", text, 'text=["title", "body"]')
    if not columns:
        raise ProgramError("a search index has at least one column of text", where=at)
    languages = languages_of(language, columns, at)
    return SearchIndex(
        name,
        columns,
        None if folder is None else os.path.abspath(folder),
        tuple(sorted(languages.items())),
        stopped_words(stop_words, columns, languages, at),
        None if stored is None else names("stored", stored, 'stored=["id", "title"]'),
    )


def languages_of(
    given: str | Mapping[str, str] | None, columns: tuple[str, ...], at: Location
) -> dict[str, str]:
    found = dict(given) if isinstance(given, Mapping) else dict.fromkeys(columns, given)
    for column, language in found.items():
        if column not in columns:
            raise ProgramError(
                f"{column!r} has a language, and is not in text=…", where=at, got=list(columns)
            )
        if language is not None and language not in LANGUAGES:
            close = get_close_matches(language.lower(), LANGUAGES, n=1)
            raise ProgramError(
                "the language is not known",
                where=at,
                got=repr(language),
                hint=(f"did you mean {close[0]!r}? " if close else "")
                + f"known: {', '.join(LANGUAGES)}; without one, words are found as they are",
            )
    return {column: language for column, language in found.items() if language is not None}


def stopped_words(
    given: bool | Sequence[str], columns: tuple[str, ...], languages: dict[str, str], at: Location
) -> tuple[str, ...]:
    chosen = (columns if given else ()) if isinstance(given, bool) else given
    found = names("stop_words", chosen, 'stop_words=True or stop_words=["body"]')
    for column in found:
        if languages.get(column) not in WITH_STOP_WORDS:
            raise ProgramError(
                f"there is no list of stop words for {column!r}",
                where=at,
                got=f"its language is {languages.get(column, 'not given')}",
                hint=f'language="english", or another of {", ".join(WITH_STOP_WORDS)}',
            )
    return found


def check_name(name: str, what: str, at: object) -> None:
    """It becomes a folder, or the beginning of keys."""
    if not re.fullmatch(r"[^\W_][\w.-]{,99}", name):
        raise ProgramError(
            f"the name of {what} starts with a letter or digit and has letters, digits, _ . and -,"
            " at most 100",
            where=at,
            got=repr(name),
        )


def refuse_unreadable(columns: Schema, what: str, where: object) -> None:
    """Rows are kept as JSON: what cannot be read from it again is refused."""
    for column in columns.columns:
        if re.search(UNREADABLE, column.type):
            raise ProgramError(
                f"{what} cannot hold the column {column.name!r}",
                where=where,
                got=column.type,
                hint="leave it out, or cast it, e.g. with base64(…)",
            )


def folder_of(name: str, home: Path) -> Path:
    return home / HOME / name
