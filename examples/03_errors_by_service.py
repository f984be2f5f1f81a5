"""Error rates per service from two topics of logs, and an alarm for those above one in ten.

$ riverrun describe examples/03_errors_by_service.py
errors (16 pages)
...
"""

import riverrun as rr


def requests(app: rr.App) -> rr.Stream:
    """What the gateway and the workers log, in one shape."""
    gateway = app.stream(
        "gateway-logs",
        schema="service string, status int, at timestamp_ms",
        time="at",
        lateness="10 seconds",
    )
    workers = app.stream(
        "worker-logs",
        schema="job struct(service string, failed boolean), finished timestamp",
        time="finished",
        lateness="10 seconds",
    )
    return gateway.select("service", failed="status >= 500").union(
        workers.select(service="job.service", failed="job.failed")
    )


def rates(app: rr.App) -> rr.Table:
    """Requests and failures per service and five minutes."""
    return (
        requests(app)
        .group_by("service", name="rates")
        .window(rr.tumbling("5 minutes"), emit="final")
        .agg(requests=rr.count(), failures=rr.sum("failed"))
        .with_columns(rate="round(failures / requests, 3)")
    )


def alarms(table: rr.Table) -> rr.Table:
    return table.where("requests >= 10 and rate > 0.1")


app = rr.App("errors")
table = rates(app)
table.to("error-rates")
alarms(table).to("error-alarms", rr.sinks.screen())
