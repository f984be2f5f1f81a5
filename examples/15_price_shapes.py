"""Price movements: a V (down, then up beyond where it began), and an M (up, down, up, down)."""

import riverrun as rr


def trades(app: rr.App) -> rr.Stream:
    return app.stream(
        "trades", schema="symbol string, price double, at timestamp", time="at", lateness="1 second"
    )


def v_shapes(stream: rr.Stream) -> rr.Stream:
    return stream.match(
        """
        PARTITION BY symbol ORDER BY at
        MEASURES start.price AS began, MIN(down.price) AS bottom, LAST(price) AS ended
        AFTER MATCH SKIP TO LAST up
        PATTERN (start down+ up+ beyond) WITHIN INTERVAL '1' HOUR
        DEFINE
            down AS down.price < PREV(down.price),
            up AS up.price > PREV(up.price) AND up.price <= start.price,
            beyond AS beyond.price > start.price
        """,
        name="v",
    )


def m_shapes(stream: rr.Stream) -> rr.Stream:
    """Every row of an M, with the part of it that it is."""
    return stream.match(
        """
        PARTITION BY symbol ORDER BY at
        MEASURES CLASSIFIER() AS part, FINAL LAST(at) AS until
        ALL ROWS PER MATCH
        PATTERN (start rise1+ fall1+ rise2+ fall2+) WITHIN INTERVAL '1' HOUR
        DEFINE
            rise1 AS price > PREV(price), fall1 AS price < PREV(price),
            rise2 AS price > PREV(price), fall2 AS price < PREV(price)
        """,
        name="m",
    )


app = rr.App("price-shapes")
all_trades = trades(app)
v_shapes(all_trades).to("v-shapes")
m_shapes(all_trades).to("m-shapes")
