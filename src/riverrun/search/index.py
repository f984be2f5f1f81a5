"""A reader of a search index: it sees each batch once it is committed, while the job goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import tantivy
from tantivy import Query

from riverrun import config
from riverrun.arguments import checked, names
from riverrun.errors import ConfigError, InputError
from riverrun.search.marks import Fragment, fragment
from riverrun.search.query import Asked
from riverrun.sinks.fulltext.documents import hashed
from riverrun.sinks.fulltext.layout import KEY, ROW, VERSION, Layout
from riverrun.sinks.fulltext.place import Place, Shard, count
from riverrun.sinks.fulltext.reading import rows_only, texts, typed
from riverrun.sinks.fulltext.sink import HOME, folder_of
from riverrun.sinks.keyed import key_text

Row = dict[str, Any]
Read = TypeVar("Read")


@dataclass(frozen=True)
class Hit:
    """A row that was found."""

    score: float
    row: Row
    """Its stored columns, in their types."""
    fragments: dict[str, Fragment] = field(default_factory=dict)
    """Of each column of text in which words were found: the part that shows them."""


@dataclass(frozen=True)
class Found:
    """The best hits, and how many there are in all."""

    total: int
    hits: list[Hit]


@dataclass(frozen=True)
class Noted:
    """What a shard holds, and the batch after which it does."""

    application: str
    checkpoint: str
    batch: int
    rows: pa.Table


@dataclass(frozen=True)
class _Candidate:
    score: float
    text: bytes
    """The row in JSON."""
    run: int
    """The one that wrote last where it was found."""


@checked
class Index:
    """Reads the index of a name, in the home of the settings, or of a folder."""

    def __init__(self, name: str | os.PathLike[str]) -> None:
        home = config.load().home
        path = Path(name)
        named = isinstance(name, str) and len(path.parts) == 1 and not name.startswith((".", "~"))
        self.folder = folder_of(str(name), home) if named else path.expanduser().absolute()
        self._place, self._shards = Place(self.folder), dict[Path, Shard]()
        if self._place.generation is None:
            raise InputError(
                f"there is no search index {str(name)!r}",
                where=self.folder,
                got=_others(home),
                hint="a program makes it with .to(rr.sinks.search_index(…)), once it runs",
            )

    @property
    def layout(self) -> Layout:
        """If the index is made anew at this moment, another one is in its place."""
        try:
            return self._place.layout()
        except (OSError, ValueError, LookupError):
            return self._whole(self._place.layout)

    def _whole(self, read: Callable[[], Read]) -> Read:
        try:
            return read()
        except (OSError, ValueError, LookupError, ConfigError) as error:
            raise InputError(
                "the search index cannot be read",
                where=self.folder,
                got=next(iter(str(error).splitlines()), type(error).__name__),
                hint="its files are damaged: delete the folder, and start the program with --fresh",
            ) from error

    def _of_this_version(self) -> Layout:
        """Words of another one would be looked for in a form that it does not have."""
        found = self.layout
        if found.version != VERSION:
            raise InputError(
                "the search index was made by another version",
                where=self.folder,
                got=f"{found.version}, not {VERSION}",
                hint="delete the folder, and start the program with --fresh",
            )
        return found

    def search(
        self,
        query: str,
        *,
        limit: int = 10,
        offset: int = 0,
        fields: str | Sequence[str] | None = None,
    ) -> Found:
        """The best hits first; `fields` are the columns that words are looked for in."""
        if limit < 0 or offset < 0:
            raise InputError("there are no fewer hits than none", got=(limit, offset))
        layout = self._of_this_version()
        asked = Asked(layout, query, self._searched(layout, fields))
        found, total = list[_Candidate](), 0
        wanted = rows_only(layout, asked.query)
        for shard, searcher in self._searchers():
            run = int(shard.note(searcher).get("run", 0))
            result = searcher.search(wanted, max(min(limit + offset, searcher.num_docs), 1))
            total += count(searcher, wanted)
            for score, address in result.hits:
                found.append(_Candidate(score, searcher.doc(address)[ROW][0], run))
        best = sorted(found, key=lambda each: -each.score)
        rows = typed([each.text for each in best], layout).to_pylist()
        hits = [Hit(each.score, row) for each, row in zip(best, rows, strict=True)]
        if layout.key:
            hits, total = _newest(hits, best, layout.key, total)
        chosen = hits[offset : offset + limit]
        return Found(total, [self._shown(hit, asked) for hit in chosen])

    def get(self, *key: Any) -> Row | None:
        """The row of a key, as it stands."""
        layout = self.layout
        if len(key) != len(layout.key):
            raise InputError(
                f"the key of a row is {', '.join(layout.key) or 'not known: it is a stream'}",
                where=self.folder,
                got=key,
            )
        text = hashed(key_text(layout.row.only(layout.key), key))
        query, newest = Query.term_query(layout.schema, KEY, text), (-1, b"")
        for shard, searcher in self._searchers():
            for _, address in searcher.search(query, 1).hits:
                run = int(shard.note(searcher).get("run", 0))
                newest = max(newest, (run, searcher.doc(address)[ROW][0]))
        return typed([newest[1]], layout).to_pylist()[0] if newest[0] >= 0 else None

    def count(self) -> int:
        """How many rows there are."""
        everything = rows_only(self.layout, Query.all_query())
        return sum(count(each, everything) for _, each in self._searchers())

    def rows(self) -> Iterator[Row]:
        """All of them, in no order."""
        for part in self.parts():
            yield from part.rows.to_pylist()

    def parts(self) -> Iterator[Noted]:
        """What each write task has put there, as it was at one moment, and after which batch."""
        layout = self.layout
        for shard, searcher in self._searchers():
            note = shard.note(searcher)
            rows = [typed(lot, layout) for lot in texts(layout, searcher)]
            found = pa.concat_tables(rows or [typed([], layout)])
            batch = int(note.get("batch", -1))
            yield Noted(str(note.get("application", "")), shard.checkpoint, batch, found)

    def _searchers(self) -> list[tuple[Shard, tantivy.Searcher]]:
        """Shards stay open. If one is removed at this moment, there are others in its place."""
        try:
            return self._opened()
        except (OSError, ValueError, ConfigError):
            return self._whole(self._opened)

    def _opened(self) -> list[tuple[Shard, tantivy.Searcher]]:
        found = {shard.folder: shard for shard in self._place.shards()}
        self._shards = {folder: self._shards.get(folder, own) for folder, own in found.items()}
        return [(shard, shard.searcher()) for shard in self._shards.values()]

    def _searched(self, layout: Layout, given: str | Sequence[str] | None) -> tuple[str, ...]:
        chosen = layout.text if given is None else names("fields", given, 'fields=["title"]')
        for name in chosen:
            if name not in layout.text:
                raise InputError(
                    f"{name!r} is no column of text",
                    where=self.folder,
                    hint=f"columns of text: {', '.join(layout.text)}",
                )
        return tuple(chosen)

    def _shown(self, hit: Hit, asked: Asked) -> Hit:
        for column, marks in asked.marks.items():
            value = hit.row.get(column)
            texts = value if isinstance(value, list) else [value]
            made = [fragment(asked.layout.fields[column], text, marks) for text in texts if text]
            if found := next((each for each in made if each), None):
                hit.fragments[column] = found
        return hit


def _newest(
    hits: list[Hit], best: list[_Candidate], key: tuple[str, ...], total: int
) -> tuple[list[Hit], int]:
    """A key that is just moving from one shard to another is told once."""
    newest: dict[str, int] = {}
    for place, hit in enumerate(hits):
        own = repr([hit.row[name] for name in key])
        other = newest.setdefault(own, place)
        if best[place].run > best[other].run:
            newest[own] = place
    kept = sorted(newest.values())
    return [hits[place] for place in kept], total - (len(hits) - len(kept))


def _others(home: Path) -> str:
    there = sorted(each.name for each in (home / HOME).glob("*") if each.is_dir())
    return f"indexes: {', '.join(there)}" if there else "none is there"
