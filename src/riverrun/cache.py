"""A reader of a cache: `riverrun.cache.Cache("users").get(42)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from riverrun import config
from riverrun.arguments import checked
from riverrun.errors import InputError
from riverrun.sinks.keyed import key_text
from riverrun.sinks.valkey import server
from riverrun.sinks.valkey.rows import ENTRY, Layout
from riverrun.sinks.valkey.server import explained
from riverrun.sinks.valkey.sink import required

Row = dict[str, Any]
AT_ONCE = 1000
"""Rows that are read together."""


@checked
class Cache:
    """Reads the cache of a name, in the server of the settings or of a `url`; rows are typed."""

    def __init__(self, name: str, *, url: str | None = None) -> None:
        own = required(url or config.load().valkey)
        self.name, self.where = name, server.address(own)
        self._client = server.connect(own)
        self.layout = self._layout()

    def _layout(self) -> Layout:
        with explained(self.where):
            found = self._client.get(server.layout_key(self.name))
        if found is None:
            raise InputError(
                f"there is no cache {self.name!r}",
                where=self.where,
                hint="a program makes it with .to(rr.sinks.cache(…)), once it runs",
            )
        return Layout.read(found)

    def get(self, *key: Any) -> Row | None:
        """The row of a key, as it stands; None if there is none, or it has expired."""
        return self.many([key])[0]

    def many(self, keys: Sequence[Sequence[Any]]) -> list[Row | None]:
        """The rows of some keys, each a tuple; read at one moment."""
        with explained(self.where):
            texts = self._texts([self._key(tuple(each)) for each in keys])
        rows = iter(self.layout.typed([text for text in texts if text is not None]).to_pylist())
        return [None if text is None else next(rows) for text in texts]

    def rows(self) -> Iterator[Row]:
        """All of them, in no order; of a stream as they came. The job may go on meanwhile."""
        lots = self._lots() if self.layout.key else self._entries()
        with explained(self.where):
            for lot in lots:
                yield from self.layout.typed(lot).to_pylist()

    def close(self) -> None:
        self._client.close()

    def _key(self, key: tuple[Any, ...]) -> str:
        if len(key) != len(self.layout.key):
            names = ", ".join(self.layout.key)
            raise InputError(
                f"the key of a row is ({names})" if names else "rows of a stream have no key",
                where=f"cache {self.name}",
                got=key,
            )
        return f"{self.name}:{key_text(self.layout.schema.only(self.layout.key), key)}"

    def _texts(self, keys: Sequence[str | bytes]) -> list[bytes | str | None]:
        """The JSON of each."""
        if not keys:
            return []
        if self.layout.values == "json":
            return list(self._client.mget(keys))
        with self._client.pipeline() as pipe:
            for key in keys:
                pipe.hgetall(key)
            found = pipe.execute()
        return [self.layout.from_hash(each) if each else None for each in found]

    def _lots(self) -> Iterator[list[bytes | str]]:
        """By scanning keys: one that is there all the time comes, once."""
        seen: set[bytes] = set()
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self.name) + ":*"
        for lot in _lots(self._client.scan_iter(pattern, count=AT_ONCE)):
            fresh = [key for key in lot if key not in seen]
            seen.update(fresh)
            texts = self._texts(fresh)
            yield [text for text in texts if text is not None]

    def _entries(self) -> Iterator[list[bytes | str]]:
        last = "-"
        while True:
            found = self._client.xrange(self.name, min=last, count=AT_ONCE)
            if not found:
                return
            yield [fields[ENTRY.encode()] for _, fields in found]
            last = f"({found[-1][0].decode()}"


def _lots(found: Iterable[bytes]) -> Iterator[list[bytes]]:
    lot: list[bytes] = []
    for each in found:
        lot.append(each)
        if len(lot) == AT_ONCE:
            yield lot
            lot = []
    if lot:
        yield lot
