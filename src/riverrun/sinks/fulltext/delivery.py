"""Delivery to a search index, exactly once: a part and the note of it are one commit of a shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from riverrun.errors import ConfigError
from riverrun.outputs import (
    Destination,
    Evaluator,
    OutputSpec,
    Owner,
    Part,
    Renewal,
    Rows,
    Standing,
)
from riverrun.sinks.fulltext.documents import Load, load
from riverrun.sinks.fulltext.layout import Layout
from riverrun.sinks.fulltext.place import CURRENT, FIRST, Place, Shard
from riverrun.sinks.fulltext.reading import texts, typed
from riverrun.sinks.fulltext.renewal import IndexRenewal, last_batch
from riverrun.sinks.fulltext.sink import SearchIndex
from riverrun.sinks.journal import Journal
from riverrun.sinks.progress import compared, done, progress_of

BEGUN = (FIRST, f"{CURRENT}.tmp")
"""What a run leaves that was killed before the index was there."""


class SearchFolder(Destination):
    """One shard for each write task of each checkpoint.

    Under one checkpoint a key always comes to the same task. Under another one, as after `--fresh`
    with other cores, it may come to another: then the shard that had it before loses it.
    """

    def __init__(self, sink: SearchIndex, folder: Path) -> None:
        self.sink, self.place = sink, Place(folder)

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        (output,) = outputs
        wanted = layout_of(self.sink, output)
        if self.place.generation is not None:
            self._compare(wanted)
            return
        try:
            self._make(wanted)
        except OSError as error:
            raise ConfigError(
                "the folder of a search index cannot be made",
                where=self.place.folder,
                got=error.strerror,
            ) from error

    def _make(self, wanted: Layout) -> None:
        folder = self.place.folder
        folder.mkdir(parents=True, exist_ok=True)
        others = [each.name for each in folder.iterdir() if each.name not in BEGUN]
        if others:
            raise ConfigError(
                "the folder is neither empty nor a search index",
                where=folder,
                got=", ".join(sorted(others)[:3]),
                hint="choose another folder",
            )
        self.place.make(FIRST, wanted)
        self.place.switch(FIRST)

    def _compare(self, wanted: Layout) -> None:
        differing = wanted.differences(self.place.layout())
        if differing:
            raise ConfigError(
                "the search index was made for other columns than the output has",
                where=self.place.folder,
                got="; ".join(differing),
                hint="give the index another name and start with --fresh, or delete its folder "
                "first; or select the columns that it has",
            )

    def take_over(self, application: str, run: int) -> None:
        """Waits for parts that an earlier run is just writing."""
        journal = self._journal(application)
        with journal.held(run):
            journal.note_run(run)

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> Part | None:
        rows = load(found, self.place.layout(), evaluator)
        with self._journal(part.application).held(part.run, shared=True):
            self._write(part, rows)
            return part if self._removed_elsewhere(part, rows) else None

    def _write(self, part: Part, rows: Load) -> None:
        shard, now = self.place.shard(part.checkpoint, part.task), rows.progress(part)
        with shard.held(part.application):
            if not done(part, shard.progress(), now):
                shard.write(
                    rows.documents(), rows.replaced, application=part.application, progress=now
                )

    def _removed_elsewhere(self, part: Part, rows: Load) -> bool:
        """Rows that other checkpoints have left; whether there are such.

        It is done again with a part that comes again: the first time may have been cut short. What
        is not in the own shard any more stays: the index was made anew meanwhile.
        """
        others = self._of_others(part)
        if not others:
            return False
        put = rows.replaced[: len(rows.replaced) - len(rows.gone)]
        keys = [*self.place.shard(part.checkpoint, part.task).having(put), *rows.gone]
        first = part.task % len(others)
        for shard in (*others[first:], *others[:first]):  # not all at the same one
            if keys and not shard.lacks(keys):
                with shard.held(part.application):
                    shard.drop(keys)
        return True

    def compare(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> None:
        rows = load(found, self.place.layout(), evaluator) if found else None
        shard = self.place.shard(part.checkpoint, part.task)
        with shard.held(part.application):
            now = rows.progress(part) if rows else progress_of(part, [])
            done(compared(part), shard.progress(), now)

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Shards of other checkpoints that have nothing left are removed."""
        parts: list[Part] = [receipt for receipt in receipts if receipt is not None]
        if not parts:
            return
        part = parts[0]
        with self._journal(part.application).held(part.run):
            for shard in self._of_others(part):
                if shard.spent_by(part.application):
                    shard.remove()

    def standing(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Standing] | None:
        """Columns that are not stored cannot be read back."""
        layout = self.place.layout()
        whole = set(layout.stored) == set(dict(layout.columns))
        return self._standing(layout, owner) if whole else None

    @contextmanager
    def _standing(self, layout: Layout, owner: Owner) -> Iterator[Standing]:
        """Shards are opened while no task writes; what comes later is not seen."""
        journal = self._journal(owner.application)
        with journal.held(journal.run()):
            batch, shards = last_batch(self.place, owner), self.place.opened()
        lots = (lot for _, searcher in shards for lot in texts(layout, searcher))
        yield Standing(batch, (typed(lot, layout) for lot in lots))

    def renewal(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Renewal] | None:
        return IndexRenewal(self.place, output, owner).begun() if output.table else None

    def _of_others(self, part: Part) -> list[Shard]:
        """A stream's rows are replaced by none."""
        found = self.place.shards() if self.place.layout().key else []
        return [shard for shard in found if shard.checkpoint != part.checkpoint]

    def _journal(self, application: str) -> Journal:
        return Journal(self.place.folder, application)


def layout_of(sink: SearchIndex, output: OutputSpec) -> Layout:
    """Columns of the key are always given back."""
    columns = tuple((column.name, column.type) for column in output.schema.columns)
    key = output.key if output.table else ()
    kept = (*key, *(sink.stored if sink.stored is not None else output.schema.names))
    return Layout(
        columns=columns,
        key=key,
        text=sink.searched,
        languages=sink.languages,
        stop_words=sink.stop_words,
        stored=tuple(name for name in output.schema.names if name in kept),
    )
