"""Requests to a server, in a process of its own: at a steady rate, or streams that stay open.

A request is timed from the moment that it is due, whatever kept it from being sent. How late this
process was with sending is told, too: what it is late by is no time of the server's.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import uvloop

CONNECTIONS = 32
HEAD = b"\r\n\r\n"


class Connection:
    """One that stays open. A request is written, and its answer read to the end."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.reader: asyncio.StreamReader | None = None

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)

    async def get(self, path: str) -> tuple[float, int]:
        """When it was sent, and the status of the answer."""
        assert self.reader is not None
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        sent_at = time.perf_counter()
        head = await self.reader.readuntil(HEAD)
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await self.reader.readexactly(length)
        return sent_at, int(head.split(b" ", 2)[1])


async def lookups(plan: dict[str, Any]) -> dict[str, Any]:
    """Rows of random keys, so many a second."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        connection = Connection(plan["url"])
        await connection.open()
        free.put_nowait(connection)
    chosen, taken, late, wrong = random.Random(1), [], [], 0

    async def look(due: float, path: str) -> None:
        nonlocal wrong
        connection = await free.get()
        sent_at, status = await connection.get(path)
        free.put_nowait(connection)
        taken.append(time.perf_counter() - due)
        late.append(sent_at - due)
        wrong += status != 200

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(plan["per_second"] * plan["seconds"]):
            due = begun + number / plan["per_second"]
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            path = f"/views/{plan['view']}/{chosen.randrange(plan['keys'])}"
            group.create_task(look(due, path))
    seconds = time.perf_counter() - begun
    return {"taken": taken, "late": late, "wrong": wrong, "seconds": seconds}


async def followers(plan: dict[str, Any]) -> dict[str, Any]:
    """Streams of changes from one revision on, until each has had so many."""

    async def follow() -> tuple[str, int]:
        connection = Connection(plan["url"])
        await connection.open()
        assert connection.reader is not None
        path = f"/views/{plan['view']}/changes?from={plan['from']}"
        connection.writer.write(f"GET {path} HTTP/1.1\r\nHost: {connection.host}\r\n\r\n".encode())
        last, seen = "", 0
        while seen < plan["changes"]:
            line = await connection.reader.readline()
            if line.startswith(b"id: "):
                last = line[4:].strip().decode()
            elif line.startswith(b"data: "):
                seen += 1
        connection.writer.close()
        return last, seen

    begun = time.perf_counter()
    found = await asyncio.gather(*(follow() for _ in range(plan["streams"])))
    return {"ends": sorted({last for last, _ in found}), "seconds": time.perf_counter() - begun}


def main() -> None:
    plan = json.loads(sys.argv[1])
    work = {"lookups": lookups, "followers": followers}[plan["work"]]
    print(json.dumps(uvloop.run(work(plan))))


if __name__ == "__main__":
    main()
