"""Shops whose orders are unusual: more than twice as many as in the same hour a week before.

Each hour of a shop is put beside the one a week earlier. An alert comes out when the hour is over;
orders that come within a day after it correct it, and orders that were sent twice count once.

    $ riverrun describe examples/05_unusual_orders.py
    unusual-orders (16 pages)
    ...
"""

import riverrun as rr


def hourly(app: rr.App) -> rr.Table:
    """Orders per shop and hour, each order once, compared with the week before."""
    orders = app.stream(
        "orders",
        schema="id string, shop string, total double, at timestamp",
        key="shop",
        time="at",
        lateness="1 minute",
    )
    return (
        orders.deduplicate("id", within="1 hour", name="once")
        .group_by("shop", name="hourly")
        .window(rr.tumbling("1 hour"), updatable="1 day")
        .agg(orders=rr.compared_to("7 days", rr.count()), total=rr.sum("total"))
    )


def unusual(table: rr.Table) -> rr.Table:
    """A shop with one order after none is nothing to look at."""
    return table.where("orders_ratio > 2 and orders_difference >= 2")


app = rr.App("unusual-orders")
table = hourly(app)
table.to("orders-per-hour")
unusual(table).to("order-alerts", rr.sinks.screen())
