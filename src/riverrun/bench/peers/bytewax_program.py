"""Bytewax: functions in Python over batches of items, with recovery."""

import json
import os
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window

PLAN = json.loads(os.environ["PLAN"])
BROKERS = [PLAN["brokers"]]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(flow, topic):
    found = kop.input(topic, flow, brokers=BROKERS, topics=[topic], batch_size=10_000)
    return op.map(
        f"{topic}-rows", found.oks, lambda each: (each.key.decode(), json.loads(each.value))
    )


def filtered(views):
    return op.filter("long", views, lambda each: each[1]["ms"] >= 500)


def counted(views):
    clock = EventClock(
        lambda row: EPOCH + timedelta(milliseconds=row["at"]),
        wait_for_system_duration=timedelta(seconds=10),
    )
    windows = TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH)
    out = fold_window(
        "count", views, clock, windows, lambda: (0, 0.0),
        lambda sofar, row: (sofar[0] + 1, sofar[1] + row["ms"]),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
    )  # fmt: skip
    return op.map("rows", out.down, window_row)


def window_row(each):
    user, (number, (views, ms)) = each
    return user, {"user": user, "window_start": number * 10_000, "views": views, "ms": ms}


def joined(views, users):
    """Views wait in the state of their user until that is there."""
    both = op.merge("both", views, users)
    return op.stateful_flat_map("join", both, meet)


def meet(state, row):
    country, waiting = state or (None, [])
    if "country" in row:
        out = [{**view, "country": row["country"]} for view in waiting]
        return (row["country"], []), out
    if country is None:
        return (None, [*waiting, row]), []
    return (country, []), [{**row, "country": country}]


def build():
    flow = Dataflow("speed")
    views = read(flow, PLAN["input"])
    if PLAN["work"] == "filter":
        rows = filtered(views)
    elif PLAN["work"] == "count":
        rows = counted(views)
    else:
        rows = joined(views, read(flow, PLAN["table"]))
    records = op.map(
        "records",
        rows,
        lambda each: KafkaSinkMessage(each[0].encode(), json.dumps(each[1]).encode()),
    )
    kop.output("out", records, brokers=BROKERS, topic=PLAN["output"])
    return flow


flow = build()
