"""Questions to a job on real Kafka and real Spark: while records come, and while it is killed."""

from __future__ import annotations

import json
import random
import threading
import time
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from doors import served
from riverrun.asking import Asker, Patience
from riverrun.client import Client, Refusal
from riverrun.errors import JobError
from riverrun.kafka import admin
from riverrun.kafka.answers import AnswerTopic
from riverrun.kafka.browse import Browser
from riverrun.kernels.questions import part_of
from running import Run, produce

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr

app = rr.App("asked")
views = app.stream(
    "asked-views", schema="user string, page string, ms bigint, at timestamp", time="at",
    lateness="1 day", idle="1 hour",
)
views.group_by("user", name="per.user").agg(
    views=rr.count(), ms=rr.sum("ms"), longest=rr.max("ms")
).to("asked-users")
(
    views.group_by("page", name="pages")
    .window(rr.tumbling("1 hour"), emit="changes")
    .agg(views=rr.count())
    .group_by("window_start", name="hours")
    .agg(pages=rr.count(), views=rr.sum("views"))
    .to("asked-hours")
)
"""
TOTAL = (
    "SELECT count(*) AS users, sum(views) AS views, sum(ms) AS ms, max(longest) AS most FROM rows"
)
TOP = 'SELECT "user", ms FROM "per.user" WHERE views > 1 ORDER BY ms DESC, "user" LIMIT 7'
PAGES = "SELECT page, sum(views), count(DISTINCT window_start) AS hours FROM pages GROUP BY page"
PARTITIONS, START = 3, datetime(2026, 1, 1, tzinfo=UTC)


def views(part):
    dice = random.Random(part)
    for _ in range(600):
        at = START + timedelta(seconds=dice.randrange(4 * 3600))
        yield {
            "user": f"u{dice.randrange(150)}",
            "page": f"/{dice.randrange(9)}",
            "ms": dice.randrange(1000),
            "at": at.isoformat(),
        }


class Sent:
    """What was sent, by partition."""

    def __init__(self, client):
        self.client, self.rows = client, {number: [] for number in range(PARTITIONS)}

    def send(self, part):
        rows = list(views(part))
        for number, row in enumerate(rows):
            self.rows[number % PARTITIONS].append(row)
        produce(self.client, "asked-views", rows, partitions=PARTITIONS)

    def wanted(self, answer, query):
        """The same of DuckDB over all records up to the point that the answer is of."""
        ends = {int(name.rpartition("/")[2]): end for name, end in answer.point.ends.items()}
        rows = [row for number, end in ends.items() for row in self.rows[number][:end]]
        with duckdb.connect() as connection:
            connection.register("views", pa.Table.from_pylist(rows))
            connection.execute(
                'CREATE VIEW rows AS SELECT "user", count(*) AS views, sum(ms)::BIGINT AS ms, '
                "max(ms) AS longest FROM views GROUP BY ALL"
            )
            connection.execute('CREATE VIEW "per.user" AS FROM rows')
            connection.execute(
                "CREATE VIEW pages AS SELECT page, count(*) AS views, "
                "date_trunc('hour', \"at\"::TIMESTAMP) AS window_start FROM views GROUP BY ALL"
            )
            found = connection.sql(query)
            return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def same(found, wanted):
    return sorted(map(str, found)) == sorted(map(str, wanted))


def test_answers_are_those_of_all_records_at_their_point_while_it_runs_and_is_killed(
    broker, broker_settings, riverrun, tmp_path
):
    home, file = broker_settings.home, tmp_path / "asked.py"
    file.write_text(PROGRAM)
    admin.create_topic(broker, "asked-views", partitions=PARTITIONS)
    sent = Sent(broker)
    sent.send(0)
    with Run(file, home=home) as run:
        run.until(600)
        asker = Asker("asked", settings=broker_settings)
        quiet = asker.ask("per.user", TOTAL)  # nothing comes: the question makes the batch
        assert same(quiet.rows, sent.wanted(quiet, TOTAL))
        assert quiet.rows[0]["views"] == 600
        assert_asked_over_http(broker_settings.override(brokers=broker["bootstrap.servers"]), quiet)
        offsets = home / "checkpoints" / "asked" / "query" / "offsets" / str(quiet.point.batch)
        assert str(quiet.point.tick) in offsets.read_text()  # that batch, as Spark has logged it
        assert_given_up(asker)
        busy = threading.Thread(target=lambda: [sent.send(part) for part in range(1, 20)])
        busy.start()
        points = set()
        for step, query in [("per.user", TOTAL), ("per.user", TOP), ("pages", PAGES)]:
            answer = asker.ask(step, query)
            points.add(answer.point.batch)
            assert same(answer.rows, sent.wanted(answer, query)), (answer.point, query)
        busy.join()
        assert len(points) == 3
        run.until(20 * 600)
        outcome = riverrun("ask", "asked.per.user", TOTAL)
        assert " 12000 " in outcome.out, outcome.err
        assert "1 row, after batch " in outcome.err
        outcome = riverrun("ask", "asked.hours", "FROM hours ORDER BY ALL", "--json")
        assert [row["pages"] for row in json.loads(outcome.out)["rows"]] == [9] * 4, outcome.err
        answered = ask_and_kill(asker, run)
    again = restarted(asker, file, home, answered)
    assert same(again.rows, sent.wanted(again, TOTAL))
    assert again.rows[0]["views"] == 12_000
    assert_once(broker, again)
    began = time.monotonic()
    with pytest.raises(JobError, match=r"the application 'asked' does not run") as caught:
        asker.ask("per.user", TOTAL)
    assert "it was killed" in str(caught.value)
    assert time.monotonic() - began < 5


def assert_asked_over_http(settings, answer):
    with served(settings, "asked-views") as door:
        client = Client(door.url)
        found = client.ask("asked.per.user", TOTAL, timeout="1 minute")
        assert found.rows == answer.rows
        assert found.offsets == answer.point.ends
        assert found.batch > answer.point.batch
        with pytest.raises(Refusal, match="has not answered within") as refused:
            client.ask("asked.per.user", TOTAL, timeout="1 millisecond")
        assert refused.value.status == 504


def assert_given_up(asker):
    with pytest.raises(JobError, match="has not answered within 1 millisecond") as caught:
        asker.ask("per.user", TOTAL, timeout="1 millisecond")
    assert "0 pages have answered; the question is record 3 of asked.control" in str(caught.value)
    patience = Patience("1 minute")
    patience.set()
    with pytest.raises(JobError, match="the question was given up"):
        asker.ask("per.user", TOTAL, patience=patience)


def ask_and_kill(asker, run):
    """A question that is asked before a kill, and waited for."""
    found, patience = [], Patience("2 minutes")
    thread = threading.Thread(
        target=lambda: found.append(asker.ask("per.user", TOTAL, patience=patience))
    )
    thread.start()
    time.sleep(0.4)
    run.kill()
    return thread, found


def restarted(asker, file, home, answered):
    thread, found = answered
    with Run(file, home=home):
        thread.join(150)
        assert len(found) == 1
        assert asker.ask("per.user", TOTAL, timeout="2 minutes").rows == found[0].rows
    return found[0]


def assert_once(broker, answer):
    """Whatever came again has the point that it had, and what pages answered is the same."""
    with Browser(broker, AnswerTopic(broker, "asked").topic) as browser:
        parts = [part_of(m.value()) for m in browser.read(browser.earliest)]
    known = {}
    for part in parts:
        if part.trouble is None:
            key = part.question, part.point.batch, part.page
            assert known.setdefault(key, part.rows).equals(part.rows)
    assert answer.point.batch in {batch for _, batch, _ in known}
