"""Lists as keys on real Kafka and real Spark: records, pages, state, and what is written."""

from __future__ import annotations

import json

import pytest

from riverrun.kafka import admin
from running import produce, records, table

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PROGRAM = """
import riverrun as rr
app = rr.App("tagged")
tags = app.table("tagged-names", schema="tags string[], name string", key="tags")
views = app.stream("tagged-views", schema="tags string[], n bigint, at timestamp", time="at")
views.group_by("tags", name="per").agg(n=rr.count(), total=rr.sum("n")).to("tagged-counts")
views.join(tags, on="tags", how="left", name="named").to("tagged-named")
tags.to("tagged-copy")
"""
TAGS = [[], [None], ["a"], ["a", "b"], ["b", "a"], ["ü", None], None]


def views(first: int, count: int):
    at = "2026-01-01T12:00:00Z"
    return [{"tags": TAGS[n % 7], "n": n, "at": at} for n in range(first, first + count)]


def test_rows_of_all_partitions_and_runs_meet_under_their_list(broker, tmp_path, once, riverrun):
    for topic in ("tagged-names", "tagged-views"):
        admin.create_topic(broker, topic, partitions=2)
    file = tmp_path / "tagged.py"
    file.write_text(PROGRAM)
    known = {json.dumps(tags): tags for tags in TAGS[:-1]}
    names = {text: f"the tags {text}" for text in known}
    rows = [{"tags": tags, "name": names[text]} for text, tags in known.items()]
    produce(broker, "tagged-names", rows, partitions=2)
    once(file)
    produce(broker, "tagged-views", views(0, 100), partitions=2)
    once(file)
    produce(broker, "tagged-views", views(100, 40), partitions=2)
    once(file)

    counts, every = table(broker, "tagged-counts"), views(0, 140)
    assert {repr(row["tags"]): (row["n"], row["total"]) for row in counts.values()} == {
        repr(tags): (20, sum(row["n"] for row in every if row["tags"] == tags)) for tags in TAGS
    }
    found = [json.loads(value) for _, value in records(broker, "tagged-named")]
    wanted = [(row["n"], row["tags"], names.get(json.dumps(row["tags"]))) for row in every]
    assert sorted((row["n"], row["tags"], row["name"]) for row in found) == wanted
    copy = table(broker, "tagged-copy")
    assert {json.dumps(json.loads(key)): row["tags"] for key, row in copy.items()} == known
    asked = riverrun("state", "tagged.per", '["a", "b"]', "--json")
    kept = json.loads(asked.out)["rows"]  # of each run that has changed it
    assert [row["tags"] for row in kept] == [["a", "b"]] * 2
