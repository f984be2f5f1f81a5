"""A database of accounts in two tables, as a connector tells of it: envelopes, and transactions."""

from __future__ import annotations

import json
import random
from itertools import count
from typing import Any

from envelopes import START, UNAVAILABLE

PARTITIONS = 2
NAMES = ("a", "b")
TOLD = "bank.transaction"

Row = dict[str, Any]
Record = tuple[str, int, str | None, str | None]
"""Topic, partition, key, value."""
Tables = dict[str, dict[int, Row]]


class Bank:
    """Money goes to and fro between accounts; together they have always the same."""

    def __init__(self, seed: int, accounts: int = 6, *, notes: bool = True) -> None:
        """With notes, changes leave out a value that stays as it was."""
        self.draw, self.notes = random.Random(seed), notes
        self.tables: Tables = {
            name: {n: {"id": n, "money": 100, "note": "long"} for n in range(accounts)}
            for name in NAMES
        }
        self.transactions: list[list[Record]] = []
        self.states = [self.state()]
        """After each transaction."""

    def state(self) -> Tables:
        return {name: dict(rows) for name, rows in self.tables.items()}

    def snapshot(self) -> list[Record]:
        return [
            self._record(name, "r", row) for name, rows in self.tables.items()
            for row in rows.values()
        ]  # fmt: skip

    def transact(self, pairs: int | None = None) -> list[Record]:
        self.number = len(self.transactions) + 1
        self.counts: dict[str, int] = {}
        found = [self._told("BEGIN")]
        for _ in range(self.draw.choice([0, 1, 1, 1, 3]) if pairs is None else pairs):
            found += self._transfer()
        for act in (self._moved, self._put_back, self._emptied, self._elsewhere):
            if self.draw.random() < 0.2:
                found += act()
        found.append(self._told("END"))
        self.transactions.append(found)
        self.states.append(self.state())
        return found

    def truncate(self, name: str) -> list[Record]:
        """All accounts of a table go, and one has their money: told in every partition."""
        self.number, self.counts = len(self.transactions) + 1, {}
        money = sum(row["money"] for row in self.tables[name].values())
        found = [self._told("BEGIN")]
        for partition in range(PARTITIONS):
            topic, _, _, value = self._record(name, "t", None, partition)
            found.append((topic, partition, None, value))
        self.tables[name] = {0: {"id": 0, "money": money, "note": "all"}}
        found.append(self._record(name, "c", self.tables[name][0]))
        found.append(self._told("END"))
        self.transactions.append(found)
        self.states.append(self.state())
        return found

    def _transfer(self) -> list[Record]:
        amount = self.draw.randrange(1, 10)
        return [self._change("a", -amount), self._change("b", amount)]

    def _change(self, name: str, amount: int) -> Record:
        number = self.draw.choice(sorted(self.tables[name]))
        row = self.tables[name][number]
        self.tables[name][number] = {**row, "money": row["money"] + amount}
        shown = {**self.tables[name][number]}
        if self.notes:
            shown["note"] = UNAVAILABLE
        return self._record(name, "u", shown, number)

    def _moved(self) -> list[Record]:
        """An account gets another number."""
        name = self.draw.choice(NAMES)
        old = self.draw.choice(sorted(self.tables[name]))
        new = next(n for n in count() if n not in self.tables[name])
        row = {**self.tables[name].pop(old), "id": new}
        self.tables[name][new] = row
        topic = f"bank.public.{name}"
        return [
            self._record(name, "d", None, old),
            (topic, old % PARTITIONS, json.dumps({"id": old}), None),
            self._record(name, "c", row, new),
        ]

    def put_back(self, name: str, number: int) -> list[Record]:
        """A transaction that deletes an account, and makes it again."""
        self.number, self.counts = len(self.transactions) + 1, {}
        found = [self._told("BEGIN"), *self._there_again(name, number)]
        found.append(self._told("END"))
        self.transactions.append(found)
        self.states.append(self.state())
        return found

    def _put_back(self) -> list[Record]:
        name = self.draw.choice(NAMES)
        return self._there_again(name, self.draw.choice(sorted(self.tables[name])))

    def _there_again(self, name: str, number: int) -> list[Record]:
        """An account is deleted, and is there again under its number."""
        return [
            self._record(name, "d", None, number),
            (f"bank.public.{name}", number % PARTITIONS, json.dumps({"id": number}), None),
            self._record(name, "c", self.tables[name][number]),
            self._change(name, 0),
        ]

    def _emptied(self) -> list[Record]:
        """A table is truncated, and has its accounts again but one: another has its money."""
        name = self.draw.choice(NAMES)
        found = [
            (topic, partition, None, value)
            for partition in range(PARTITIONS)
            for topic, _, _, value in [self._record(name, "t", None, partition)]
        ]
        rows = self.tables[name]
        if len(rows) > 2:
            gone = rows.pop(self.draw.choice(sorted(rows)))
            heir = self.draw.choice(sorted(rows))
            rows[heir] = {**rows[heir], "money": rows[heir]["money"] + gone["money"]}
        return found + [self._record(name, "c", row) for row in rows.values()]

    def _elsewhere(self) -> list[Record]:
        """A table that nobody reads is changed, too: its records count among all."""
        self.counts["public.other"] = self.counts.get("public.other", 0) + 2
        return []

    def again(self, name: str) -> list[Record]:
        """A further snapshot of a table: its rows as they are now, between two transactions."""
        return [self._record(name, "r", row) for row in self.tables[name].values()]

    def _record(self, name: str, op: str, row: Row | None, number: int | None = None) -> Record:
        key = row["id"] if number is None and row else number
        transaction = None
        if op != "r":
            turn = self.counts[f"public.{name}"] = self.counts.get(f"public.{name}", 0) + 1
            total = sum(self.counts.values())
            # the place in the log is another one in each record
            place = f"{self.number}:{self.number * 1000 + total}"
            transaction = {"id": place, "total_order": total, "data_collection_order": turn}
            at = START + self.number
        else:
            at = START
        body = {
            "op": op, "before": {"id": key} if op == "d" else None, "after": row,
            "source": {"ts_us": at, "ts_ms": at // 1000}, "transaction": transaction,
        }  # fmt: skip
        assert key is not None
        topic = f"bank.public.{name}"
        return topic, key % PARTITIONS, json.dumps({"id": key}), json.dumps(body)

    def _told(self, status: str) -> Record:
        ends = status == "END"
        counts = [{"data_collection": n, "event_count": c} for n, c in self.counts.items()]
        body = {
            "status": status, "id": f"{self.number}:{self.number * 1000}",
            "ts_ms": (START + self.number) // 1000,
            "event_count": sum(self.counts.values()) if ends else None,
            "data_collections": counts if ends else None,
        }  # fmt: skip
        return TOLD, 0, json.dumps({"id": body["id"]}), json.dumps(body)


def by_partition(records: list[Record]) -> dict[tuple[str, int], list[Record]]:
    found: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        found.setdefault(record[:2], []).append(record)
    return found
