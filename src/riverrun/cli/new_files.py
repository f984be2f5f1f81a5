"""The files of a new project. NAME stands for its name."""

from __future__ import annotations

APP = '''\
"""Views of pages, counted per minute."""

import riverrun as rr

app = rr.App("NAME")

views = app.stream(
    "NAME-views",
    schema="page string, user string, ms bigint, at timestamp",
    key="page",
    time="at",
    lateness="10 seconds",
)
per_minute = views.group_by("page", name="per_minute").window(
    rr.tumbling("1 minute"), updatable="5 minutes"
)
per_minute.agg(views=rr.count(), users=rr.distinct("user"), slowest=rr.max("ms")).to(
    "NAME-per-minute"
)
'''

TEST = '''\
"""The program without a broker: a table of rows in, a table of changes out."""

import unittest

from app import app
from riverrun.testing import Driver


class TestViews(unittest.TestCase):
    def test_views_are_counted_per_minute_and_corrected(self):
        out = Driver(app).run(**{
            "NAME-views": """
                at       | page | user | ms
                12:00:10 | /    | ann  | 100
                12:00:40 | /    | bob  | 100
                12:01:20 | /    | ann  | 100     # the first minute is over
                ------
                12:00:50 | /    | ann  | 100     # late, and still counted
            """
        })
        out.assert_is("""
            +- | page | window_start         | window_end           | views | users | slowest
            +  | /    | 2026-01-01T12:00:00Z | 2026-01-01T12:01:00Z | 2     | 2     | 100
            -  | /    | 2026-01-01T12:00:00Z | 2026-01-01T12:01:00Z | 2     | 2     | 100
            +  | /    | 2026-01-01T12:00:00Z | 2026-01-01T12:01:00Z | 3     | 2     | 100
        """)


if __name__ == "__main__":
    unittest.main()
'''

MAKEFILE = """\
# `make test` needs Python with riverrun; `make run` starts a broker, too.
PYTHON ?= python
RIVERRUN ?= $(PYTHON) -m riverrun.cli

.PHONY: test check up run watch down

test: ## the program against drawn tables, without a broker
\t$(PYTHON) -m unittest --quiet

check: ## whether it would run, and what grows
\t$(RIVERRUN) check app.py

up: ## the local broker, and the topic that is read
\t$(RIVERRUN) up
\t$(RIVERRUN) topics describe NAME-views >/dev/null 2>&1 || \\
\t\t$(RIVERRUN) topics create NAME-views --partitions 4

run: up ## until Ctrl-C
\t$(RIVERRUN) run app.py

watch: ## what comes out
\t$(RIVERRUN) tail NAME-per-minute --follow

down: ## the local broker
\t$(RIVERRUN) down
"""

SETTINGS = """\
# Settings of riverrun for what is run in this folder: see docs/running.md.
home = ".riverrun"

# brokers = "kafka-1:9092,kafka-2:9092"     without it, those of `riverrun up`
# master = "local[*]"                       or spark://host:7077, yarn, k8s://…
"""

FILES = {
    "app.py": APP,
    "test_app.py": TEST,
    "Makefile": MAKEFILE,
    "riverrun.toml": SETTINGS,
    ".gitignore": ".riverrun/\n__pycache__/\n",
}
