"""Fraud rules that analysts add, change and remove while the job runs.

The program says which rows there are, by what they are matched, and what is told of a match; and it
has a template, of which rules choose the values. Others may be written as patterns of their own.

$ riverrun describe examples/17_live_rules.py
live-rules (16 pages)
...
step fraud-rules  # examples/17_live_rules.py:...
  from      payments
  keys      card
  rules     from the control log: riverrun rules
  template  spree
  measures  began TIMESTAMP, payments BIGINT, amount DOUBLE
  within    at most 1 hour
...

A rule, as a file for `riverrun rules add live-rules spree.toml`:

    [[rule]]
    name = "spree-500"
    template = "spree"
    parameters = {small = 1, large = 500}
    metadata = {owner = "risk", severity = 3}
"""

import riverrun as rr

SPREE = """
    MEASURES FIRST(small.at) AS began, COUNT(*) AS payments, large.amount AS amount
    PATTERN (small{3,} large) WITHIN INTERVAL '10' MINUTE
    DEFINE small AS amount < $small, large AS amount > $large
"""


def payments(app: rr.App) -> rr.Stream:
    return app.stream(
        "payments",
        schema="card string, amount double, country string, at timestamp",
        time="at",
        lateness="10 seconds",
    )


def alerts(stream: rr.Stream) -> rr.Stream:
    return stream.match_rules(
        "fraud-rules",
        by="card",
        measures="began timestamp, payments bigint, amount double",
        templates={"spree": SPREE},
    )


app = rr.App("live-rules")
alerts(payments(app)).to("alerts")
