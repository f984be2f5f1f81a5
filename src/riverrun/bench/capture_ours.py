"""The programs of `riverrun bench capture`, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun import config
from riverrun.bench.measure import Meter
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started

SCHEMA = "id bigint, name string, country string, credit decimal(12,2), seen timestamp"


def program(plan: dict[str, Any]) -> rr.App:
    """A table, of envelopes or plain records, in a topic; or a captured one, in an SQLite file."""
    app = rr.App(f"bench-{plan['output']}")
    if plan["kind"] == "captured":
        sink = rr.sinks.sqlite(Path(plan["view"]), "users")
        users = app.capture(plan["table"], database=plan["database"], name=plan["capture"])
        users.to(sink)
    else:
        app.table(plan["input"], schema=SCHEMA, key="id", format=plan["kind"]).to(plan["output"])
    return app


def main() -> None:
    plan = json.loads(sys.argv[1])
    settings = config.load().override(brokers=plan["brokers"])
    options = Options(
        fresh=True, once=plan["once"], max_events=plan["batch"], batch_time=plan["batch_time"]
    )
    with started(program(plan), settings, options, lambda _: None) as running:
        Meter(plan).watch(running.query)


if __name__ == "__main__":
    main()
