"""Envelopes as Debezium writes them, and a database that tells its changes so."""

from __future__ import annotations

import json
import random
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"
START = 1_767_268_800_000_000
"""2026-01-01T12:00:00Z in microseconds."""

Row = dict[str, Any]


def envelope(op: str, after: Row | None, *, before: Row | None = None, lsn: int = 0) -> str:
    source = {"lsn": lsn, "txId": lsn // 10, "ts_ms": START // 1000, "ts_us": START + lsn}
    body = {"before": before, "after": after, "source": source, "op": op, "ts_ms": START // 1000}
    return json.dumps(body)


class Database:
    """One table `id, name, body`: what is done to it, as records of a topic."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rows: dict[int, Row] = {}
        self.log: list[tuple[str | None, str | None]] = []
        """Keys and values of records."""
        self.lsn = 0

    def act(self, times: int) -> None:
        for _ in range(times):
            act = self.dice.choice([self.insert] * 3 + [self.update] * 4 + [self.delete, self.move])
            if self.dice.random() < 0.01:
                act = self.truncate
            act()

    def tell(
        self, number: int | None, op: str, after: Row | None, before: Row | None = None
    ) -> None:
        self.lsn += 1
        key = None if number is None else json.dumps({"id": number})
        self.log.append((key, envelope(op, after, before=before, lsn=self.lsn)))

    def insert(self) -> None:
        number = self.dice.randrange(30)
        if number not in self.rows:
            self.rows[number] = {"id": number, "name": self.name(), "body": self.name() * 3}
            self.tell(number, self.dice.choice("cr"), self.rows[number])

    def update(self) -> None:
        if self.rows:
            number = self.dice.choice(sorted(self.rows))
            self.rows[number] = {**self.rows[number], "name": self.name()}
            shown = {**self.rows[number]}
            if self.dice.random() < 0.5:
                shown["body"] = UNAVAILABLE
            else:
                self.rows[number]["body"] = shown["body"] = self.dice.choice(
                    [None, self.name() * 2]
                )
            self.tell(number, "u", shown)

    def delete(self) -> None:
        if self.rows:
            number = self.dice.choice(sorted(self.rows))
            del self.rows[number]
            self.tell(number, "d", None, self.dice.choice([None, {"id": number, "name": None}]))
            self.log.append((json.dumps({"id": number}), None))

    def move(self) -> None:
        """The key of a row changes."""
        free = sorted(set(range(30)) - set(self.rows))
        if self.rows and free:
            old, new = self.dice.choice(sorted(self.rows)), self.dice.choice(free)
            row = self.rows.pop(old)
            self.tell(old, "d", None, {"id": old})
            self.log.append((json.dumps({"id": old}), None))
            self.rows[new] = {**row, "id": new}
            self.tell(new, "c", self.rows[new])

    def truncate(self) -> None:
        self.rows.clear()
        self.tell(None, "t", None)

    def name(self) -> str:
        return self.dice.choice(["ann", "bob", "Zoë", "", "null"])
