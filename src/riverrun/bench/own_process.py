"""A program of a benchmark, run in a process of its own as its one argument plans it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from riverrun import config
from riverrun.app import App
from riverrun.bench.measure import Meter
from riverrun.runtime.launch import Options
from riverrun.runtime.run import started


def run(program: Callable[[dict[str, Any]], App]) -> None:
    plan = json.loads(sys.argv[1])
    settings = config.load().override(brokers=plan["brokers"])
    options = Options(fresh=True, once=plan["once"], max_events=plan["batch"])
    with started(program(plan), settings, options, lambda _: None) as running:
        Meter(plan).watch(running.query)
