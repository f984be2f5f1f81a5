"""A table with every type that databases have, and what real Debezium wrote of it.

The envelopes are in `recorded/`, without and with their schema part. Run as a program, with a
Kafka Connect of one's own jars, it records them anew: `python tests/every_type.py`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

import mariadb
from riverrun import config
from riverrun.capture.connectors import Connector
from riverrun.capture.mariadb import MariaDb
from riverrun.capture.places import address_of
from riverrun.capture.rest import Rest
from riverrun.config import Settings
from riverrun.embedded import connect, kafka, postgres
from riverrun.errors import NoTopic
from riverrun.kafka.browse import Browser

RECORDED = Path(__file__).parent / "recorded"

POSTGRESQL = {
    "small": ("smallint", "-12"),
    "whole": ("integer", "7"),
    "big": ("bigint", "9007199254740993"),
    "single_": ("real", "1.5"),
    "double_": ("double precision", "0.1"),
    "price": ("numeric(12,4)", "1234.5678"),
    "any_number": ("numeric", "12345678901234567890.123456789"),
    "yes": ("boolean", "true"),
    "words": ("text", "E'\\u00e4 \"quoted\" \\\\ and\\nlines'"),
    "short": ("varchar(10)", "'abc'"),
    "padded": ("char(5)", "'ab'"),
    "raw": ("bytea", r"'\xdeadbeef00'"),
    "day": ("date", "'2026-01-31'"),
    "clock": ("time", "'12:34:56.789012'"),
    "clock_there": ("timetz", "'12:34:56.789012+02'"),
    "at": ("timestamp", "'2026-01-31 12:34:56.789012'"),
    "at_there": ("timestamptz", "'2026-01-31 12:34:56.789012+02'"),
    "years_ago": ("timestamp", "'0044-03-15 12:00:00'"),
    "span": ("interval", "'1 year 2 months 3 days 04:05:06.7'"),
    "doc": ("json", """'{"a": [1, 2.50, null]}'"""),
    "binary_doc": ("jsonb", """'{"b": {"c": "d"}}'"""),
    "id_there": ("uuid", "'0b7f0b48-2c3f-4a53-9a53-3c6f2f1b7e11'"),
    "mood": ("mood", "'so so'"),
    "wholes": ("integer[]", "'{1,NULL,3}'"),
    "texts": ("text[]", """'{a,"b, c",NULL}'"""),
    "prices": ("numeric(9,2)[]", "'{1.10,2.25}'"),
    "times": ("timestamp[]", "'{\"2026-01-31 12:00:00\"}'"),
    "address": ("inet", "'192.168.0.1/24'"),
    "network": ("cidr", "'10.0.0.0/8'"),
    "card": ("macaddr", "'08:00:2b:01:02:03'"),
    "one_bit": ("bit(1)", "B'1'"),
    "bits": ("bit(8)", "B'10100101'"),
    "some_bits": ("varbit(12)", "B'101'"),
    "spot": ("point", "'(1.5,-2)'"),
    "range_": ("int4range", "'[1,10)'"),
    "cash": ("money", "12.34"),
    "positive": ("positive", "5"),
}
MARIADB = {
    "tiny": ("tinyint", "-12"),
    "flag": ("tinyint(1)", "1"),
    "small": ("smallint unsigned", "65535"),
    "medium": ("mediumint", "-8388608"),
    "whole": ("int", "7"),
    "large": ("int unsigned", "4294967295"),
    "big": ("bigint", "9007199254740993"),
    "single_": ("float", "1.5"),
    "double_": ("double", "0.1"),
    "price": ("decimal(12,4)", "1234.5678"),
    "words": ("text", "'ä \"quoted\" \\\\ and\\nlines'"),
    "short": ("varchar(10)", "'abc'"),
    "padded": ("char(5)", "'ab'"),
    "raw": ("blob", "x'deadbeef00'"),
    "fixed": ("binary(4)", "x'01020304'"),
    "day": ("date", "'2026-01-31'"),
    "clock": ("time(6)", "'12:34:56.789012'"),
    "at": ("datetime(6)", "'2026-01-31 12:34:56.789012'"),
    "second": ("datetime", "'2026-01-31 12:34:56'"),
    "at_there": ("timestamp(6)", "'2026-01-31 12:34:56.789012'"),
    "born": ("year", "1999"),
    "doc": ("json", """'{"a": [1, 2.50, null]}'"""),
    "mood": ("enum('bad','so so')", "'so so'"),
    "moods": ("set('a','b','c')", "'a,c'"),
    "one_bit": ("bit(1)", "b'1'"),
    "bits": ("bit(8)", "b'10100101'"),
}


def definition(columns: dict[str, tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type}" for name, (type, _) in columns.items())


def values(columns: dict[str, tuple[str, str]]) -> str:
    return ", ".join(value for _, value in columns.values())


def statements(columns: dict[str, tuple[str, str]]) -> list[str]:
    """A table `every`, with a row of values and one of nulls."""
    return [
        f"CREATE TABLE every (id int PRIMARY KEY, {definition(columns)})",
        f"INSERT INTO every VALUES (1, {values(columns)})",
        "INSERT INTO every (id) VALUES (2)",
    ]


def postgresql_types() -> list[str]:
    return [
        "CREATE TYPE mood AS ENUM ('bad', 'so so')",
        "CREATE DOMAIN positive AS integer CHECK (value > 0)",
    ]


LATER = ["UPDATE every SET whole = 8 WHERE id = 1", "DELETE FROM every WHERE id = 2"]


def recorded(kind: str, *, schema: bool = False) -> list[dict[str, Any]]:
    """The records of the table's topic: `key` and `value`, as text."""
    file = RECORDED / f"{kind}{'-schema' if schema else ''}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def record(settings: Settings, name: str, database: str, run: Any) -> None:
    """Captures `every` twice, and keeps what Debezium wrote."""
    rest, brokers = Rest(connect.up(settings).url), kafka.ensure(settings)["bootstrap.servers"]
    address = address_of(database)
    table = f"{'public' if address.kind == 'postgresql' else address.database}.every"
    for ending in ("", "-schema"):
        connector = Connector(f"{name}{ending}", address, (table,))
        shown = {f"{part}.converter.schemas.enable": "true" for part in ("key", "value")}
        made = connector.settings(address.password, brokers) | (shown if ending else {})
        made.pop("signal.data.collection")
        rest.put("connectors", connector.name, "config", body=made)
        _await(settings, connector.topic(table), 2)
    for statement in LATER:
        run(statement)
    for ending in ("", "-schema"):
        found = _await(settings, f"{name}{ending}.{table}", 5)
        lines = [json.dumps(each, ensure_ascii=False) for each in found]
        (RECORDED / f"{name}{ending}.jsonl").write_text("\n".join(lines) + "\n")
        rest.delete("connectors", f"{name}{ending}")


def _await(settings: Settings, topic: str, count: int) -> list[dict[str, Any]]:
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        with suppress(NoTopic), Browser(kafka.client(settings), topic) as browser:
            found = list(browser.read(browser.earliest))
            if len(found) >= count:
                return [
                    {"key": m.key().decode(), "value": m.value() and m.value().decode()}
                    for m in found
                ]
        time.sleep(0.5)
    raise SystemExit(f"{topic} does not get {count} records: see {settings.home}/connect/logs")


def main() -> None:
    home = Path(tempfile.mkdtemp())
    settings = config.load(start=home, environ={"RIVERRUN_HOME": str(home)})
    RECORDED.mkdir(exist_ok=True)
    try:
        url = postgres.ensure(settings)
        with psycopg.connect(url, autocommit=True) as db:
            for statement in [*postgresql_types(), *statements(POSTGRESQL)]:
                db.execute(statement)
            record(settings, "postgresql", url, db.execute)
        programs = mariadb.unpacked(settings.cache)
        with mariadb.running(programs, home / "mariadb") as url, MariaDb(url) as db:
            cursor = db.connection.cursor()
            cursor.execute("SET time_zone = '+00:00'")
            for statement in statements(MARIADB):
                cursor.execute(statement)
            record(settings, "mariadb", url, cursor.execute)
    finally:
        connect.down(settings)
        kafka.down(settings)
        postgres.down(settings)
        shutil.rmtree(home)


if __name__ == "__main__":
    sys.exit(main())
