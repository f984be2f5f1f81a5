"""The state of an application that does not run, rewritten for another number of pages.

It is done with a copy, which takes the place of the checkpoint only after every row was found in
it: in the page of its key, and nowhere else.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from riverrun import private
from riverrun.compiler import upgrades
from riverrun.compiler.shape import Shape
from riverrun.config import Settings
from riverrun.errors import CheckpointError, InputError
from riverrun.kernels import page_files
from riverrun.kernels.chunks import unpack
from riverrun.kernels.repaging import List, Repaging, require_by_key
from riverrun.kernels.sql import shared_evaluator
from riverrun.kernels.state import Names
from riverrun.operators.alert.spec import AlertSpec
from riverrun.operators.mark_seen import MarkSeen
from riverrun.operators.rules.spec import RulesSpec
from riverrun.operators.search.spec import Search
from riverrun.operators.whole.step import Whole
from riverrun.runtime import checkpoint
from riverrun.runtime.batches import Batches
from riverrun.runtime.rescale import local_checkpoint, require_whole
from riverrun.runtime.stored import FOLDER, StoredState

DRAFT = ".rescaled"
MOST = 4096
EVERYWHERE = {each.kind for each in (AlertSpec, MarkSeen, RulesSpec, Search, Whole)}
"""Steps that keep something of no key: in every page, or for all keys of one."""
Sums = dict[List, tuple[int, int]]
"""Of each list how many rows it has in all pages, and a checksum that knows no order."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Repaged:
    application: str
    before: int
    now: int
    rows: int


def repage(settings: Settings, application: str, pages: int, tell: Tell) -> Repaged:
    folder = local_checkpoint(settings, application)
    shape = upgrades.read(folder)
    if shape is None or not (folder / "query" / FOLDER).is_dir():
        raise InputError(f"the application {application!r} keeps nothing", where=folder)
    upgrades.require_layout(shape, folder)
    _check(application, shape, pages, Batches(folder).parts())
    with private.by_default(), checkpoint.held(folder, application):
        require_whole(application, folder)
        draft = folder / DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        tell("copying the checkpoint")
        shutil.copytree(folder / "query", draft, ignore=_pages)
        try:
            rows = _repaged(folder, shape, pages, tell)
            private.write(draft / upgrades.PAGES, str(pages))
            checkpoint.swap(folder, draft)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Repaged(application, shape["pages"], pages, rows)


def _pages(folder: str, names: list[str]) -> list[str]:
    """What is not copied: it is written anew."""
    return [FOLDER] if FOLDER in names else []


def _check(application: str, shape: Shape, pages: int, parts: int) -> None:
    if shape["pages"] == pages:
        raise InputError(f"the state of {application!r} has {pages} pages already")
    if not parts <= pages <= MOST:
        raise InputError(
            "there are at least as many pages as parts of the state, and at most 4096",
            got=f"{pages} pages, {parts} parts",
            hint="`riverrun rescale --partitions` makes fewer parts",
        )
    if shape[".spark() steps"]:
        raise InputError(
            f"{application!r} has .spark() steps: each is a reader in the log of offsets",
            hint="its number of pages stays: start over with --fresh to change it",
        )
    for name, step in shape["steps"].items():
        if step["does"] in EVERYWHERE or step.get("replicate"):
            raise InputError(
                f"the step {name!r} keeps what is of no key",
                got="replicated rows" if step.get("replicate") else step["does"],
                hint="its number of pages stays: start over with --fresh to change it",
            )


def _repaged(folder: Path, shape: Shape, pages: int, tell: Tell) -> int:
    """How many rows there are."""
    stored = StoredState.of(folder)
    draft = StoredState(folder / DRAFT, stored.batch)
    tell(f"laying out the rows of {shape['pages']} pages in {pages}")
    was: Sums = {}
    for exchange in stored.exchanges():
        was |= _laid(stored, exchange, draft, shape, pages)
    tell("comparing every row")
    now: Sums = {}
    for exchange in stored.exchanges():
        now |= _sums(draft, exchange, pages)
    if was != now:
        different = sorted(
            {each.step for each in was.keys() | now if was.get(each) != now.get(each)}
        )
        raise CheckpointError(
            "the rewritten state is not the same: the checkpoint was left as it was",
            where=folder,
            got=f"other rows of {', '.join(different)}",
        )
    return sum(count for count, _ in now.values())


def _laid(stored: StoredState, exchange: int, draft: StoredState, shape: Shape, pages: int) -> Sums:
    """Writes what each page is to hold, as if the last batch had; what there is now."""
    moved, sums = Repaging(shape["pages"], pages, stored.heads(exchange)), Counted()
    for place, page, age, rows in _frames(stored, exchange):
        moved.add(place, page, age, rows)
        sums.add(place, rows)
    heads = page_files.Heads()
    with page_files.place(draft.query, exchange).writer(draft.batch, 0) as out:
        for page in range(pages):
            head, segments = moved.page(page, Names(draft.batch))
            heads[page] = json.dumps(vars(head)).encode()
            for name, data in segments.items():
                out.put(page, name, data)
        out.finish(heads)
    return sums.found


def _sums(stored: StoredState, exchange: int, pages: int) -> Sums:
    heads, sums = stored.heads(exchange), Counted()
    if set(heads) != set(range(pages)):
        raise CheckpointError("pages are missing", got=f"{len(heads)} of {pages}")
    for place, page, _, rows in _frames(stored, exchange):
        require_by_key(place.step, page, pages, rows)
        sums.add(place, rows)
    return sums.found


def _frames(stored: StoredState, exchange: int) -> Iterator[tuple[List, int, int, pl.DataFrame]]:
    """Rows of segments with their list, page, and age among those of the list: 0 is the newest."""
    listed = {
        (page, segment): (List(step, name), age)
        for page, head in stored.heads(exchange).items()
        for step, lists in head.segments.items()
        for name, ids in lists.items()
        for age, segment in enumerate(reversed(ids))
    }
    for page, segment, data in stored.segments(exchange):
        place, age = listed[page, segment]
        yield place, page, age, unpack(data)


@dataclass
class Counted:
    found: Sums = field(default_factory=dict)

    def add(self, place: List, rows: pl.DataFrame) -> None:
        query = "SELECT sum(hash(rows)) AS checksum FROM rows"
        made = shared_evaluator().run(query, rows=rows.to_arrow())
        count, checksum = self.found.get(place, (0, 0))
        own = int(made["checksum"][0].as_py() or 0)
        self.found[place] = (count + rows.height, (checksum + own) % 2**64)
