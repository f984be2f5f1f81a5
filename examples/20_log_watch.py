"""Logs that wake people: errors by service, grouped, repeated, escalated, and over again.

$ riverrun describe examples/20_log_watch.py
log-watch (16 pages)
...
step failing  # examples/20_log_watch.py:...
  from      logs
...
  keys      service
  waits     30 seconds
  more      5 minutes
  repeats   4 hours
  over      10 minutes without a row
  calls     others after 15 minutes
  title     {service}: {n} errors
...
  to        topic log-watch.failing.told (then webhook chat, email lead@example.com), exactly once
...

To run it, put an address of your own in the place of chat.example.com. Mail needs a server, which
riverrun.toml names: see docs/alerts.md.

While it runs, `riverrun alerts list log-watch` names what stands, `riverrun alerts ack` takes it
on, and `riverrun alerts silence log-watch service=pay --lasts "2 hours"` is for an upgrade.
The page of `riverrun serve` has the view `failing`, and its changes as server-sent events.
"""

import riverrun as rr


def logs(app: rr.App) -> rr.Stream:
    return app.stream(
        "logs",
        schema="service string, level string, message string, at timestamp",
        time="at",
        lateness="10 seconds",
    )


def failing(errors: rr.Stream) -> rr.Stream:
    """Whoever is on duty hears of a service that fails; their lead, if nobody takes it on."""
    return errors.alert(
        rr.alerts.webhook("https://chat.example.com/hooks/duty", name="chat"),
        rr.alerts.sse("failing"),
        group_by="service",
        wait="30 seconds",
        repeat="4 hours",
        resolve_after="10 minutes",
        escalate=[("15 minutes", rr.alerts.email("lead@example.com"))],
        title="{service}: {n} errors",
        text="since {since}, the last one: {message}",
        name="failing",
    )


def floods(errors: rr.Stream) -> rr.Stream:
    """Minutes with a hundred errors and more go to a topic: other programs read it."""
    counts = errors.group_by("service").window(rr.tumbling("1 minute")).agg(errors=rr.count())
    many = counts.where("errors >= 100").changes().where("op = '+'")
    return many.alert(
        rr.alerts.topic("log-floods"),
        group_by="service",
        wait="0 seconds",
        title="{service}: {errors} errors in the minute from {window_start}",
        name="floods",
    )


app = rr.App("log-watch")
errors = logs(app).where("level = 'error'")
failing(errors)
floods(errors)
