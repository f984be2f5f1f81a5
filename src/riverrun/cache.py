"""A reader of a cache: `riverrun.cache.Cache("users").get(42)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from riverrun import config
from riverrun.arguments import checked
from riverrun.errors import InputError
from riverrun.sinks.keyed import key_text
from riverrun.sinks.valkey import server
from riverrun.sinks.valkey.rows import AT_ONCE, ENTRY, Layout, rows_of, texts_of
from riverrun.sinks.valkey.server import explained
from riverrun.sinks.valkey.sink import required

Row = dict[str, Any]


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
            texts = texts_of(self._client, [self._key(tuple(each)) for each in keys], self.layout)
        rows = iter(self.layout.typed([text for text in texts if text is not None]).to_pylist())
        return [None if text is None else next(rows) for text in texts]

    def rows(self) -> Iterator[Row]:
        """All of them, in no order; of a stream as they came. The job may go on meanwhile."""
        with explained(self.where):
            if not self.layout.key:
                for entries in self._entries():
                    yield from self.layout.typed(entries).to_pylist()
                return
            for lot in rows_of(self._client, self.name, self.layout):
                yield from self.layout.typed([text for _, text in lot]).to_pylist()

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

    def _entries(self) -> Iterator[list[bytes | str]]:
        last = "-"
        while True:
            found = self._client.xrange(self.name, min=last, count=AT_ONCE)
            if not found:
                return
            yield [fields[ENTRY.encode()] for _, fields in found]
            last = f"({found[-1][0].decode()}"
