"""Card fraud: three small payments or more, then a large one in another country, in ten minutes.

The pattern is the row-pattern clause of SQL. The condition of the large payment looks at an earlier
row of the match.

$ riverrun describe examples/13_card_fraud.py
card-fraud (16 pages)
...
step fraud  # examples/13_card_fraud.py:...
  from      payments
  keys      card
  pattern   small{3,} large
  within    10 minutes
  skip      past last row
  where     small: amount < 1
  where     large: amount > 500 AND large.country <> LAST(small.country)
  state     begin -> small#1
  state     small#1 -> small#2
  state     small#2 -> small#3
  state     small#3 -> small#4, large
  state     small#4 -> small#4, large
  state     large -> match
  gives     one row per match
...
"""

import riverrun as rr


def payments(app: rr.App) -> rr.Stream:
    return app.stream(
        "payments",
        schema="card string, amount double, country string, at timestamp",
        time="at",
        lateness="10 seconds",
    )


def fraud(stream: rr.Stream) -> rr.Stream:
    return stream.match(
        """
        PARTITION BY card ORDER BY at
        MEASURES
            FIRST(small.at) AS began, large.at AS ended,
            COUNT(small.*) AS tries, large.amount AS amount,
            LAST(small.country) AS tried_in, large.country AS taken_in
        ONE ROW PER MATCH
        AFTER MATCH SKIP PAST LAST ROW
        PATTERN (small{3,} large) WITHIN INTERVAL '10' MINUTE
        DEFINE
            small AS amount < 1,
            large AS amount > 500 AND large.country <> LAST(small.country)
        """,
        name="fraud",
    )


app = rr.App("card-fraud")
fraud(payments(app)).to("suspicions")
