"""Two systems that are to hold the same: written twice by every client, and kept from one log.

A client that writes the database and then the cache races with every other one. `dual_writes` lets
two of them set the same item, each in the right order, and the cache ends up with another amount
than the database: nobody fails, nothing is logged, and it stays so.

Here the database alone is written. It decides the order; its log is captured, and everything else
follows that log: both outputs below hold the last row that the database has, whoever was quicker,
also after a crash between the two.

    $ riverrun up --postgres
    $ psql "$DATABASE" -c "CREATE TABLE stock (item text PRIMARY KEY, amount bigint)"
    $ riverrun run examples/12_dual_writes.py
"""

from collections.abc import Callable

import riverrun as rr


def dual_writes(order: str) -> tuple[dict[str, int], dict[str, int]]:
    """What two clients leave in a database and a cache. `order` tells whose turn it is: each
    client writes the database in its first turn and the cache in its second."""
    database: dict[str, int] = {}
    cache: dict[str, int] = {}

    def writes(amount: int) -> list[Callable[[], None]]:
        return [lambda: database.update(lamp=amount), lambda: cache.update(lamp=amount)]

    turns = {"a": writes(1), "b": writes(2)}
    for client in order:
        turns[client].pop(0)()
    return database, cache


app = rr.App("stock")
stock = app.capture("stock", schema="item string, amount bigint", key="item")
stock.to(rr.sinks.topic("stock-cache"))
stock.where("amount > 0").to(rr.sinks.topic("stock-in-shop"))
