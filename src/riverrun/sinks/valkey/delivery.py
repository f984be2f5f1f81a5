"""Delivery to Valkey or Redis, exactly once: a part and the note of it are one transaction.

The note and the run are watched: if anybody changes them meanwhile, the transaction does nothing,
and the next attempt sees what has changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from valkey.exceptions import WatchError

from riverrun.delivery.encode import records
from riverrun.errors import ConfigError, DatabaseError
from riverrun.outputs import (
    Destination,
    Evaluator,
    OutputSpec,
    Owner,
    Part,
    Renewal,
    Rows,
    Standing,
    together,
)
from riverrun.sinks.database import retried
from riverrun.sinks.progress import Progress, done, progress_of, refuse_if_fenced, taken_over
from riverrun.sinks.valkey import server
from riverrun.sinks.valkey.renewal import CacheRenewal, Hold, last_batch
from riverrun.sinks.valkey.rows import ENTRY, Layout, rows_of
from riverrun.sinks.valkey.server import LOST, Held, explained
from riverrun.sinks.valkey.sink import Cache

PAUSE = 0.05
"""Seconds between two looks whether a cache is held."""
AT_ONCE = 1000
"""Keys of one command."""

Whose = tuple[str, int, str]
"""The checkpoint, the task and the cache."""
Receipt = tuple[Whose, int]
"""A batch that the server has."""


@dataclass(frozen=True)
class Load:
    """What a part has for one cache: the keys and values of its records."""

    output: OutputSpec
    records: pa.Table
    whose: Whose
    progress: Progress

    @staticmethod
    def of(part: Part, output: OutputSpec, found: pa.Table) -> Load:
        whose = (part.checkpoint, part.task, _cache(output).cache)
        return Load(output, found, whose, progress_of(part, [found]))


class CacheServer(Destination):
    def __init__(self, url: str) -> None:
        self.client, self.where = server.connect(url), server.address(url)
        self.known: dict[Whose, int] = {}
        """The last batch that the server had: it may not fall behind."""

    def prepare(self, outputs: Sequence[OutputSpec]) -> None:
        with explained(self.where):
            self._refuse_unfit()
            for output in outputs:
                self._note_layout(output)

    def _refuse_unfit(self) -> None:
        if server.info(self.client, "cluster").get("cluster_enabled"):
            raise ConfigError(
                "a cluster of servers has no transactions over all keys",
                where=self.where,
                hint="use a single server, with replicas if need be",
            )
        policy = str(server.info(self.client, "memory").get("maxmemory_policy", ""))
        if policy.startswith("allkeys"):
            raise ConfigError(
                "the server throws away any key when memory is short, also those that tell what is "
                "written",
                where=self.where,
                got=f"maxmemory-policy is {policy}",
                hint="set maxmemory-policy to noeviction, or to one of volatile-… and give rows an "
                "expiry",
            )

    def _note_layout(self, output: OutputSpec) -> None:
        wanted, key = Layout.of(output), server.layout_key(_cache(output).cache)
        if not output.table:
            self._require_stream(_cache(output).cache)
        if self.client.set(key, wanted.written(), nx=True):
            return
        found = self.client.get(key)
        if differing := wanted.differences(Layout.read(found)):
            raise DatabaseError(
                f"the cache {_cache(output).cache!r} was made for other rows than the output has",
                where=self.where,
                got="; ".join(differing),
                hint=f"give the cache another name and start with --fresh, or delete the key {key} "
                "and the rows first",
            )

    def _require_stream(self, key: str) -> None:
        """In a transaction a command that fails does not keep the others from their effect."""
        kind = self.client.type(key)
        if kind not in (b"none", b"stream"):
            raise DatabaseError(
                f"the key {key!r} is taken by something that is no stream",
                where=self.where,
                got=kind.decode(),
                hint="give the cache another name",
            )

    def take_over(self, application: str, run: int) -> None:
        """From here on, no transaction of an earlier run takes effect."""
        key = server.run_key(application)
        with explained(self.where), self.client.pipeline() as pipe:
            while True:
                pipe.watch(key)
                latest = int(pipe.get(key) or 0)
                if latest > run:
                    raise taken_over(application, run, latest)
                pipe.multi()
                pipe.set(key, run)
                try:
                    pipe.execute()
                    return
                except WatchError:
                    continue

    def deliver(self, part: Part, found: Sequence[Rows], evaluator: Evaluator) -> list[Receipt]:
        loads = [
            Load.of(part, output, records(output, rows, evaluator).select(["key", "value"]))
            for output, rows in together(found)
        ]
        with explained(self.where):
            retried(lambda: self._attempt(part, loads), lost=LOST, where=self.where)
        return [(load.whose, part.batch) for load in loads]

    def _attempt(self, part: Part, loads: Sequence[Load]) -> None:
        run, lost = server.run_key(part.application), server.lost_key(part.checkpoint)
        own = [server.progress_key(*load.whose) for load in loads]
        holds = [server.hold_key(load.whose[2]) for load in loads]
        while any(self.client.mget(holds)):  # whoever holds it lets go, or is gone and forgotten
            time.sleep(PAUSE)
        with self.client.pipeline() as pipe:
            pipe.watch(run, *own, *holds)
            latest, gone, *noted = pipe.mget(run, lost, *own)
            refuse_if_fenced(part, int(latest) if latest else None)
            if any(pipe.mget(holds)):
                raise Held("it is verified or made anew")
            if gone:
                raise self._gone_back(json.loads(gone))
            there = [_progress(each) for each in noted]
            for load, stored in zip(loads, there, strict=True):
                self._refuse_loss(load.whose, stored)
            left = [
                load
                for load, stored in zip(loads, there, strict=True)
                if not done(part, stored, load.progress)
            ]
            if left:
                pipe.multi()
                for load in left:
                    _write(pipe, load)
                pipe.execute()
        self.known |= {load.whose: part.batch for load in loads}

    def finish(self, batch: int, receipts: Sequence[Any]) -> None:
        """Tasks do it all; the driver remembers what was told, whichever process wrote it."""
        told = dict(each for receipt in receipts if receipt is not None for each in receipt)
        if told:
            self.known |= told
            with explained(self.where):
                retried(lambda: self._compare(next(iter(told))[0]), lost=LOST, where=self.where)

    def _compare(self, checkpoint: str) -> None:
        own = [each for each in self.known if each[0] == checkpoint]
        found = self.client.mget([server.progress_key(*each) for each in own])
        for each, noted in zip(own, found, strict=True):
            self._refuse_loss(each, _progress(noted))

    def standing(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Standing] | None:
        """Of a table. Writers wait until all is read, since the server has no snapshots."""
        return self._standing(output, owner) if output.table else None

    @contextmanager
    def _standing(self, output: OutputSpec, owner: Owner) -> Iterator[Standing]:
        layout, cache = Layout.of(output), _cache(output).cache
        with explained(self.where), Hold(self.client, cache, self.where).taken() as hold:
            batch = last_batch(self.client, cache, owner)

            def rows() -> Iterator[pa.Table]:
                for lot in rows_of(self.client, cache, layout):
                    hold.stay()
                    yield layout.typed([text for _, text in lot])

            yield Standing(batch, rows())

    def renewal(self, output: OutputSpec, owner: Owner) -> AbstractContextManager[Renewal] | None:
        return nullcontext(CacheRenewal(self.client, output, owner, _put)) if output.table else None

    def _refuse_loss(self, whose: Whose, stored: Progress | None) -> None:
        """It stays refused: going on would leave a hole that nobody sees."""
        known, there = self.known.get(whose, -1), stored.batch if stored else -1
        if there < known:
            fact = {"task": whose[1], "written": known, "there": there}
            self.client.set(server.lost_key(whose[0]), json.dumps(fact))
            raise self._gone_back(fact)

    def _gone_back(self, fact: dict[str, int]) -> DatabaseError:
        there = f"batch {fact['there']}" if fact["there"] >= 0 else "none"
        return DatabaseError(
            "the cache's server has lost what was written to it",
            where=self.where,
            got=f"of task {fact['task']} it had batch {fact['written']}, and has {there}",
            hint="let the server keep what it has (appendonly yes), and start over with --fresh",
        )

    def close(self) -> None:
        self.client.close()


def _progress(noted: bytes | None) -> Progress | None:
    return Progress(**json.loads(noted)) if noted else None


def _write(pipe: Any, load: Load) -> None:
    """The commands of a transaction: rows, and the note of them."""
    output, name = load.output, _cache(load.output).cache
    pipe.set(server.progress_key(*load.whose), json.dumps(asdict(load.progress)))
    keys, values = load.records["key"].to_pylist(), load.records["value"].to_pylist()
    if not output.table:
        for value in values:
            pipe.xadd(name, {ENTRY: value})
        return
    pairs = [(f"{name}:{key}", value) for key, value in zip(keys, values, strict=True)]
    for lot in _lots([key for key, value in pairs if value is None]):
        pipe.unlink(*lot)
    _put(pipe, output, [(key, value) for key, value in pairs if value is not None])


def _put(pipe: Any, output: OutputSpec, pairs: list[tuple[str, str]]) -> None:
    sink, layout = _cache(output), Layout.of(output)
    milliseconds = sink.expire // 1000 if sink.expire else None
    if sink.values == "hash":
        for key, value in pairs:
            pipe.delete(key)
            pipe.hset(key, mapping=layout.as_hash(value))
            if milliseconds:
                pipe.pexpire(key, milliseconds)
    elif milliseconds:
        for key, value in pairs:
            pipe.set(key, value, px=milliseconds)
    else:
        for lot in _lots(pairs):
            pipe.mset(dict(lot))


def _lots(found: list[Any]) -> Iterator[list[Any]]:
    return (found[at : at + AT_ONCE] for at in range(0, len(found), AT_ONCE))


def _cache(output: OutputSpec) -> Cache:
    assert isinstance(output.sink, Cache)
    return output.sink
