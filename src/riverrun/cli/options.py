"""Options and output that several commands share."""

from __future__ import annotations

import click

from riverrun import config
from riverrun.config import Settings

brokers_option = click.option(
    "--brokers",
    metavar="HOST:PORT",
    help="Kafka brokers; without it, the settings' or the local one.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def settings(brokers: str | None = None) -> Settings:
    return config.load().override(brokers=brokers)
