"""The programs of `riverrun bench restart`, in a process of its own."""

from __future__ import annotations

import json
import sys
from typing import Any

import riverrun as rr
from riverrun import config
from riverrun.bench import ours
from riverrun.bench.measure import Meter
from riverrun.runtime.beside import replay
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started
from riverrun.runtime.spans import Asked


def program(plan: dict[str, Any]) -> rr.App:
    """Documents are kept; who asks for one is told how long it is."""
    app = rr.App(f"bench-{plan['output']}")
    documents = app.table(plan["input"], schema="id bigint, body string", key="id")
    asked = app.stream(plan["asked"], schema="id bigint")
    asked.join(documents, on="id").select("id", size="length(body)").to(plan["output"])
    return app


def main() -> None:
    plan = json.loads(sys.argv[1])
    settings = config.load().override(brokers=plan["brokers"])
    how: dict[str, Any] = {"max_events": plan["batch"], "batch_time": None}
    if plan["kind"] == "replay":
        into = f"{plan['output']}-again"
        found = replay(
            ours.program({**plan, "kind": "tumbling"}), settings, into, Asked.of([], []),
            fresh=False, anyway=False,
        )  # fmt: skip
        app, options = found.app, Options(once=True, close=True, span=found.span, **how)
    else:
        app, options = program(plan), Options(fresh=plan["fresh"], once=plan["once"], **how)
    with started(app, settings, options, lambda _: None) as running:
        Meter(plan).watch(running.query)


if __name__ == "__main__":
    main()
