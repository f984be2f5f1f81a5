"""A search index made anew: another generation beside the one that is read, then in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import tantivy

from riverrun.outputs import Evaluator, OutputSpec, Owner, Renewal, Swapped
from riverrun.sinks.fulltext.documents import keys_of, load
from riverrun.sinks.fulltext.layout import KEY, VERSION, Layout
from riverrun.sinks.fulltext.place import Place, Shard, noted
from riverrun.sinks.fulltext.reading import texts, typed
from riverrun.sinks.journal import Journal, locked

NEW = "new"
"""The shard of keys that no task has written yet: their next change takes them to another."""

Sums = dict[str, bytes]
"""Of each key a hash of its row."""


class IndexRenewal(Renewal):
    """Each row goes to the shard that has its key, so that none has to move later."""

    def __init__(self, place: Place, output: OutputSpec, owner: Owner) -> None:
        self.place, self.output, self.owner = place, output, owner
        self.journal = Journal(place.folder, owner.application)
        self.layout = replace(place.layout(), version=VERSION)
        self.generation = f"g{int((place.generation or 'g0')[1:]) + 1}"
        self.homes = {
            key: shard.folder.name
            for shard, searcher in place.opened()
            if shard.checkpoint == owner.checkpoint
            for key in sums(self.layout, output, searcher)
        }
        self.open: dict[str, tuple[Shard, tantivy.IndexWriter]] = {}

    @contextmanager
    def begun(self) -> Iterator[IndexRenewal]:
        """One at a time; what one that was killed has left is removed before the next."""
        lock = self.place.folder / "renewal.lock"
        with locked(lock, whose=self.owner.application, where=self.place.folder), ExitStack() as at:
            self.place.remove(self.generation)
            self.place.make(self.generation, self.layout)
            at.callback(self._leave)
            yield self

    def _leave(self) -> None:
        for _, writer in self.open.values():
            writer.rollback()
        self.open.clear()
        if self.place.generation != self.generation:
            self.place.remove(self.generation)

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        found = load([(self.output, rows)], self.layout, evaluator)
        for key in found.replaced:
            self._writer(key).delete_documents_by_term(KEY, key)
        for key, document in zip(found.put[KEY].to_pylist(), found.documents(), strict=True):
            self._writer(key).add_document(document)

    def _writer(self, key: str) -> tantivy.IndexWriter:
        return self._opened(self.homes.get(key, Shard.name(NEW, 0)))[1]

    def _opened(self, name: str) -> tuple[Shard, tantivy.IndexWriter]:
        if name not in self.open:
            shard = Shard(self.place.folder / self.generation / name, self.layout)
            shard.folder.mkdir(parents=True, exist_ok=True)
            self.open[name] = (shard, shard.writer())
        return self.open[name]

    @contextmanager
    def held(self) -> Iterator[int | None]:
        with self.journal.held(self.journal.run()):
            yield last_batch(self.place, self.owner)

    def swap(self, tick: int) -> Swapped:
        before: Sums = {}
        for shard, searcher in self.place.opened():
            before |= sums(self.layout, self.output, searcher)
            if note := shard.note(searcher):
                self._opened(shard.folder.name)[1].add_document(noted(note))
        after: Sums = {}
        for shard, writer in self.open.values():
            writer.commit()
            writer.wait_merging_threads()
            after |= sums(self.layout, self.output, shard.searcher())
        self.open.clear()
        old = self.place.generation
        self.place.switch(self.generation)
        if old is not None:
            self.place.remove(old)
        return swapped(before, after)


def swapped(before: dict[str, Any], after: dict[str, Any]) -> Swapped:
    both = before.keys() & after.keys()
    return Swapped(
        added=len(after.keys() - both),
        changed=sum(before[key] != after[key] for key in both),
        removed=len(before.keys() - both),
    )


def sums(layout: Layout, output: OutputSpec, searcher: tantivy.Searcher) -> Sums:
    found: Sums = {}
    for lot in texts(layout, searcher):
        hashes = (blake2b(text, digest_size=16).digest() for text in lot)
        keys = keys_of(output, typed(lot, layout)).to_pylist()
        found.update(zip(keys, hashes, strict=True))
    return found


def last_batch(place: Place, owner: Owner) -> int:
    """The last one that has written anything; -1 before the first."""
    notes = [
        shard.note(searcher)
        for shard, searcher in place.opened()
        if shard.checkpoint == owner.checkpoint
    ]
    return max((int(note["batch"]) for note in notes if note), default=-1)
