"""The ten stocks with the highest turnover of each day, with their place, while the day goes on.

Trades are added up per stock and day; of all stocks the ten highest of each day are kept. A trade
moves its stock up, and others down: only rows that change are written.

    $ riverrun describe examples/10_top_stocks.py
    top-stocks (16 pages)
    ...
    step top  # examples/10_top_stocks.py:...
      from      turnover
      keys      window_start
      keeps     the 10 rows with the highest turnover, of window_start while it is open
    ...
"""

import riverrun as rr


def turnover(app: rr.App) -> rr.Table:
    """Per stock and day, as it grows. Trades may come until an hour after midnight."""
    trades = app.stream(
        "trades",
        schema="stock string, shares bigint, price double, at timestamp",
        key="stock",
        time="at",
        lateness="10 seconds",
    )
    return (
        trades.group_by("stock", name="turnover")
        .window(rr.tumbling("1 day"), updatable="1 hour", emit="changes")
        .agg(turnover=rr.sum("shares * price"), trades=rr.count())
    )


def top(table: rr.Table, places: int = 10) -> rr.Table:
    """Of each day the stocks with the highest turnover; of two with the same, the first by name."""
    return table.group_by("window_start", name="top").top(places, by="turnover", place="place")


app = rr.App("top-stocks")
top(turnover(app)).to("top-stocks", rr.sinks.screen())
