"""What a cache holds at one moment, and its rows made anew: writers wait meanwhile, readers do not.

Rows are compared, and those that differ are changed in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa

from riverrun.delivery.encode import records
from riverrun.errors import DatabaseError
from riverrun.outputs import Evaluator, OutputSpec, Owner, Renewal, Swapped
from riverrun.sinks.valkey import server
from riverrun.sinks.valkey.rows import Layout, rows_of
from riverrun.sinks.valkey.server import explained

LEASE = 30_000
"""Milliseconds for which writers wait, unless it is renewed: its holder may be killed."""
LETTING_GO = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"
STAYING = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then"
    " return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0"
)

Put = Callable[[Any, OutputSpec, list[tuple[str, str]]], None]
"""Writes rows in a transaction."""


class Hold:
    """Writers of a cache wait as long as it stays."""

    def __init__(self, client: Any, cache: str, where: str) -> None:
        self.client, self.where = client, where
        self.key, self.token = server.hold_key(cache), uuid4().hex

    @contextmanager
    def taken(self) -> Iterator[Hold]:
        if not self.client.set(self.key, self.token, nx=True, px=LEASE):
            raise DatabaseError("another verification or rebuild is at work", where=self.where)
        try:
            yield self
        finally:
            self.client.eval(LETTING_GO, 1, self.key, self.token)

    def stay(self) -> None:
        if not self.client.eval(STAYING, 1, self.key, self.token, LEASE):
            raise self._lost()

    def require(self, client: Any) -> None:
        if client.get(self.key) != self.token.encode():
            raise self._lost()

    def _lost(self) -> DatabaseError:
        return DatabaseError(
            "writers of the cache could not be kept waiting", where=self.where, hint="try again"
        )


class CacheRenewal(Renewal):
    def __init__(self, client: Any, output: OutputSpec, owner: Owner, put: Put) -> None:
        self.client, self.output, self.owner, self.put = client, output, owner, put
        self.cache = output.sink.name.partition(":")[2]
        self.hold = Hold(client, self.cache, output.sink.text)
        self.rows: dict[str, str] = {}
        """The table by key, as it is to be."""

    def change(self, rows: pa.Table, evaluator: Evaluator) -> None:
        found = records(self.output, rows, evaluator)
        for key, value in zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True):
            if value is None:
                self.rows.pop(f"{self.cache}:{key}", None)
            else:
                self.rows[f"{self.cache}:{key}"] = value

    @contextmanager
    def held(self) -> Iterator[int | None]:
        with explained(self.hold.where), self.hold.taken():
            yield last_batch(self.client, self.cache, self.owner)

    def swap(self, tick: int) -> Swapped:
        """A server that had forgotten batches has all rows again."""
        before = dict(self._before())
        gone = [key for key in before if key not in self.rows]
        added = [key for key in self.rows if key not in before]
        changed = [key for key in self.rows if key in before and self._differs(before, key)]
        self.hold.stay()
        with self.client.pipeline() as pipe:
            pipe.watch(self.hold.key)  # if it is lost meanwhile, nothing happens
            self.hold.require(pipe)
            pipe.multi()
            for key in gone:
                pipe.unlink(key)
            self.put(pipe, self.output, [(key, self.rows[key]) for key in (*added, *changed)])
            pipe.delete(server.lost_key(self.owner.checkpoint))
            pipe.execute()
        return Swapped(len(added), len(changed), len(gone))

    def _before(self) -> Iterator[tuple[str, str]]:
        for lot in rows_of(self.client, self.cache, Layout.of(self.output)):
            self.hold.stay()
            yield from ((key.decode(), _text(text)) for key, text in lot)

    def _differs(self, before: dict[str, str], key: str) -> bool:
        """A hash has no nulls."""
        old, new = (_plain(json.loads(text)) for text in (before[key], self.rows[key]))
        return old != new


def last_batch(client: Any, cache: str, owner: Owner) -> int:
    """The last one that has written anything to the cache; -1 before the first."""
    keys = list(client.scan_iter(f"riverrun:progress:{owner.checkpoint}:*:{cache}", count=1000))
    notes = [json.loads(note) for note in (client.mget(keys) if keys else []) if note]
    return max((int(note["batch"]) for note in notes), default=-1)


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _text(text: bytes | str) -> str:
    return text.decode() if isinstance(text, bytes) else text
