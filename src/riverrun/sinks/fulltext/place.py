"""An index on the disk: a folder with generations, of which one is current, made of shards.

A shard is what one write task of one checkpoint has put there. tantivy has one writer at a time
for each, and readers in any process; what one commit brings they see at once, or not at all. The
note of the batch is a document of the same commit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import tantivy
from tantivy import Document, Query

from riverrun.errors import ConfigError
from riverrun.sinks.fulltext.layout import KEY, PROGRESS, Layout
from riverrun.sinks.journal import locked, write
from riverrun.sinks.progress import Progress

CURRENT, LAYOUT, LOCK = "current", "layout.json", ".lock"
FIRST = "g1"
NOTE = "progress"
"""The key of the document that holds the note: those of rows are longer."""
MEMORY = 50_000_000
"""Bytes of a writer; more than that is written before the commit, and not yet seen."""


class Shard:
    """What one write task of one checkpoint has put there."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder, self.layout = folder, layout

    @staticmethod
    def name(checkpoint: str, task: int) -> str:
        return f"{checkpoint}-{task:05d}"

    @property
    def checkpoint(self) -> str:
        return self.folder.name.rpartition("-")[0]

    @property
    def there(self) -> bool:
        return tantivy.Index.exists(str(self.folder)) if self.folder.exists() else False

    @property
    def damaged(self) -> bool:
        """Whether it has rows that nothing tells of: it would be taken for an empty one."""
        return not self.there and any(self.folder.glob("*.store"))

    @contextmanager
    def held(self, application: str) -> Iterator[None]:
        """One process at a time; another attempt at the same part is waited for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder.with_name(f"{self.folder.name}{LOCK}")
        with locked(lock, whose=application, where=self.folder):
            yield

    @cached_property
    def index(self) -> tantivy.Index:
        """Made if it is missing."""
        if self.damaged:
            raise ConfigError(
                "a part of the search index cannot be read",
                where=self.folder,
                got="rows, but no meta.json",
                hint="restore the file; or delete the index's folder, and start the program with "
                "--fresh",
            )
        found = tantivy.Index(self.layout.schema, str(self.folder))
        for field in self.layout.fields.values():
            if field.kind == "text":
                found.register_tokenizer(field.tokenizer, field.analyzer)
        return found

    def searcher(self) -> tantivy.Searcher:
        """All that is committed, and nothing that comes later."""
        self.index.reload()
        return self.index.searcher()

    def note(self, searcher: tantivy.Searcher) -> dict[str, Any]:
        """The last batch, and whose it is; empty before the first."""
        [*found] = searcher.search(self._query([NOTE]), 1).hits
        return json.loads(searcher.doc(found[0][1])[PROGRESS][0]) if found else {}

    def progress(self) -> Progress | None:
        noted = self.note(self.searcher())
        names = ("batch", "rows", "checksum", "run")
        return Progress(**{name: noted[name] for name in names}) if noted else None

    def write(
        self,
        put: Iterable[Document],
        replaced: Iterable[str],
        *,
        application: str,
        progress: Progress,
    ) -> None:
        """One commit: documents instead of those with the keys, and the note of the batch."""
        note = {"application": application, **asdict(progress)}
        with self._writer() as writer:
            for key in replaced:
                writer.delete_documents_by_term(KEY, key)
            for document in put:
                writer.add_document(document)
            writer.delete_documents_by_term(KEY, NOTE)
            writer.add_document(noted(note))

    def having(self, keys: Sequence[str]) -> list[str]:
        """Those of the keys that it has: mostly all."""
        searcher = self.searcher()
        if count(searcher, self._query(keys)) == len(keys):
            return list(keys)
        return [key for key in keys if count(searcher, self._query([key]))]

    def lacks(self, keys: Sequence[str]) -> bool:
        return not count(self.searcher(), self._query(keys))

    def drop(self, keys: Sequence[str]) -> None:
        """Rows that are kept elsewhere now."""
        with self._writer() as writer:
            for key in keys:
                writer.delete_documents_by_term(KEY, key)

    def spent_by(self, application: str) -> bool:
        """Whether it was this application's or nobody's, and has no row left."""
        searcher = self.searcher()
        note = self.note(searcher)
        own = note.get("application", application) == application
        return own and searcher.num_docs == bool(note)

    def remove(self) -> None:
        """The lock stays: somebody may wait for it."""
        gone = self.folder.with_name(f".{self.folder.name}")
        with suppress(FileNotFoundError):  # under another name: half of it would be damaged
            self.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _query(self, keys: Sequence[str]) -> Query:
        return Query.term_set_query(self.layout.schema, KEY, keys)

    def writer(self) -> tantivy.IndexWriter:
        """There can be one at a time."""
        return self.index.writer(MEMORY, 1)

    @contextmanager
    def _writer(self) -> Iterator[tantivy.IndexWriter]:
        """Commits at the end, and lets segments be merged: else there would be one per batch."""
        writer = self.writer()
        try:
            yield writer
            writer.commit()
        except BaseException:
            writer.rollback()
            raise
        finally:
            writer.wait_merging_threads()


def noted(note: dict[str, Any]) -> Document:
    """The document that holds the note of a batch."""
    made = Document()
    made.add_text(KEY, NOTE)
    made.add_bytes(PROGRESS, json.dumps(note).encode())
    return made


def count(searcher: tantivy.Searcher, query: Query) -> int:
    """How many documents match; the library's types do not tell of it."""
    result: Any = searcher.search(query, 1)
    return int(result.count)


class Place:
    """The folder of an index."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def generation(self) -> str | None:
        """The one that is read and written; None if there is no index."""
        try:
            return (self.folder / CURRENT).read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def switch(self, generation: str) -> None:
        """From one moment to the next, readers and writers go to another generation."""
        write(self.folder / CURRENT, generation)

    def make(self, generation: str, layout: Layout) -> None:
        (self.folder / generation).mkdir(parents=True, exist_ok=True)
        write(self.folder / generation / LAYOUT, layout.written())

    def remove(self, generation: str) -> None:
        shutil.rmtree(self.folder / generation, ignore_errors=True)

    def layout(self, generation: str | None = None) -> Layout:
        own = generation or self.generation
        if own is None:
            raise ConfigError("there is no search index", where=self.folder)
        return Layout.read((self.folder / own / LAYOUT).read_text())

    def shard(self, checkpoint: str, task: int) -> Shard:
        generation = self.generation or FIRST
        folder = self.folder / generation / Shard.name(checkpoint, task)
        return Shard(folder, self.layout(generation))

    def shards(self) -> list[Shard]:
        """All that hold something, of the current generation."""
        generation = self.generation
        if generation is None:
            return []
        layout = self.layout(generation)
        folders = sorted(
            each
            for each in (self.folder / generation).iterdir()
            if each.is_dir() and not each.name.startswith(".")
        )
        found = [Shard(folder, layout) for folder in folders]
        return [shard for shard in found if shard.there or shard.damaged]

    def opened(self) -> list[tuple[Shard, tantivy.Searcher]]:
        """All shards, and what is committed in each now."""
        return [(shard, shard.searcher()) for shard in self.shards()]
