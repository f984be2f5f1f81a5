"""The program of `riverrun bench search`, in a process of its own: documents and stored queries."""

from __future__ import annotations

from typing import Any

import riverrun as rr
from riverrun.bench.own_process import run
from riverrun.bench.search_data import SCHEMA


def program(plan: dict[str, Any]) -> rr.App:
    app = rr.App(f"bench-{plan['output']}", pages=plan["pages"])
    rows = app.stream(plan["input"], schema=SCHEMA, time="at")
    queries = app.table(plan["queries"], key="name", schema="name string, query string")
    rows.search(queries, text="body", keep="id").to(plan["output"])
    return app


if __name__ == "__main__":
    run(program)
