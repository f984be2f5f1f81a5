"""`riverrun compare`: how results of two versions differ."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from riverrun.errors import InputError
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import OutputSpec
from riverrun.runtime.compare import in_common
from riverrun.runtime.comparison import Comparison, InWindow
from riverrun.schema import parse
from riverrun.sinks.kafka.sink import Topic
from running import produce

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
CURRENT = """
import riverrun as rr
app = rr.App("{name}", pages=2)
clicks = app.stream("{name}-clicks", schema="user string, ms bigint, at timestamp_ms", time="at")
minutes = clicks.group_by("user").window(rr.tumbling("1 minute"), emit="changes").agg(
    n=rr.count(), ms=rr.sum("ms")
)
minutes.to("{name}-minutes")
minutes.to(rr.sinks.sqlite("{folder}/copy.db", "minutes"))
minutes.to(rr.sinks.delta("{folder}/lake"))
users = clicks.group_by("user", name="users").agg(n=rr.count())
users.to(rr.sinks.view("{name}_users"))
users.to(rr.sinks.postgres("{name}_users"))
clicks.to(rr.sinks.parquet("{folder}/files"))
clicks.to("{name}-copies")
"""
NEXT = CURRENT.replace('rr.sum("ms")', 'rr.sum("ms"), most=rr.max("ms")').replace(
    "minutes = clicks.", "minutes = clicks.where(\"ms < 990 AND user <> 'u3'\")."
)
CHOSEN = "WHERE ms < 990 AND u <> 'u3'"
OUTPUT = OutputSpec(
    "minutes", Topic("minutes"), parse("user string, window_start timestamp, n bigint"),
    ("user", "window_start"), table=True,
)  # fmt: skip


def clicks(first: int, last: int) -> list[dict]:
    return [
        {"user": f"u{n % 4}", "ms": n * 7919 % 1000, "at": START + n * 1000}
        for n in range(first, last)
    ]


def rows(*found: tuple[str, str, int]) -> pa.Table:
    columns = zip(*found, strict=True)
    return pa.table(dict(zip(OUTPUT.schema.names, map(list, columns), strict=True)))


def test_what_two_versions_hold_is_compared_by_key_and_told_by_window(tmp_path):
    with closing(Comparison(OUTPUT, shared_evaluator(), tmp_path)) as both:
        both.expect(rows(("a", "2026-01-01", 1), ("b", "2026-01-01", 2), ("a", "2026-01-02", 3)))
        both.find(rows(("a", "2026-01-01 00:00:00", 1), ("b", "2026-01-01", 5)))
        both.find(rows(("c", "2026-01-03", 7)))
        both.compare()
        assert both.counts() == {"wanted": 3, "found": 3, "missing": 1, "extra": 1, "other": 1}
        assert both.windows("window_start", 10) == [
            InWindow("2026-01-01T00:00:00Z", 2, 2, 0, 0, 1),
            InWindow("2026-01-02T00:00:00Z", 1, 0, 1, 0, 0),
            InWindow("2026-01-03T00:00:00Z", 0, 1, 0, 1, 0),
        ]
        assert len(both.windows("window_start", 2)) == 2
        changed = [each for each in both.differences(10) if each.kind == "other"]
        assert [(each.wanted["n"], each.found["n"], each.columns) for each in changed] == [
            (2, 5, ("n",))
        ]


def by_duckdb(given: list[dict], column: str = "coalesce(a.slot, b.slot)") -> list[tuple[Any, ...]]:
    """Rows that only the current one has, only the next one has, and that differ; by a column."""
    windows = (
        "SELECT u, moment // 60000 AS slot, count(*) n, sum(ms) ms FROM clicks {} GROUP BY ALL"
    )
    with duckdb.connect() as own:
        own.execute("CREATE TABLE clicks (u text, ms bigint, moment bigint)")
        own.executemany("INSERT INTO clicks VALUES (?, ?, ?)", [[*r.values()] for r in given])
        return own.execute(
            f"SELECT {column}, count(a.u), count(b.u), count(*) FILTER (b.u IS NULL),"
            " count(*) FILTER (a.u IS NULL),"
            " count(*) FILTER (a.u = b.u AND (a.n, a.ms) <> (b.n, b.ms))"
            f" FROM ({windows.format('')}) a FULL JOIN ({windows.format(CHOSEN)}) b"
            " ON a.u = b.u AND a.slot = b.slot GROUP BY ALL ORDER BY ALL"
        ).fetchall()


def assert_compared_at_a_point(riverrun, name):
    """One that neither stands at. Streams are compared, too."""
    at = f"{name}-clicks/0=500"
    told = riverrun("compare", name, "current", "v2", "--at", at, "--json")
    assert told.code == 1, told.err
    found = {each["output"]: each for each in json.loads(told.out)["compared"]}
    assert json.loads(told.out)["left_out"] == {"dead": "dead letters are not made again here"}
    each = found[f"{name}-minutes"]
    counts = [each[side]["rows"] for side in ("first", "second")]
    wanted, windows = by_duckdb(clicks(0, 500), "0")[0][1:], by_duckdb(clicks(0, 500))
    assert (*counts, each["missing"], each["extra"], each["other"]) == wanted
    differing = [w[1:] for w in windows if any(w[3:])]
    assert [(*w.values(),)[1:] for w in each["windows"]] == differing
    assert found[f"{name}-copies"]["same"]
    assert found[f"{name}-copies"]["first"]["rows"] == 500
    text = riverrun("compare", name, "v2", "current", f"{name}_users", "--at", at)
    assert "more than one output" in text.err
    text = riverrun("compare", name, "v2", "current", f"view:{name}_users", "--at", at)
    assert text.out.splitlines()[1] == f"  v2: its program; {name}-clicks/0 up to 500"
    text = riverrun("compare", name, "v2", "current", "--at", f"{name}-orders/0=5")
    assert "the program reads no such partition" in text.err
    text = riverrun("compare", name, "v2", "current", "--at", "noon")
    assert "--at" in text.err


@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.usefixtures("postgres")
def test_versions_are_compared_in_every_store_at_the_positions_that_each_has_come_to(
    tmp_path, broker, riverrun, once
):
    name = "compared"
    riverrun("topics", "create", f"{name}-clicks")
    program, following = tmp_path / "app.py", tmp_path / "next.py"
    program.write_text(CURRENT.format(name=name, folder=tmp_path))
    following.write_text(NEXT.format(name=name, folder=tmp_path))
    produce(broker, f"{name}-clicks", clicks(0, 600))
    once(program)
    once(following, "--as", "v2", command="deploy")

    told = riverrun("compare", name, "current", "v2", "--json")
    assert told.code == 1, told.err
    found = {each["output"]: each for each in json.loads(told.out)["compared"]}
    assert {each.partition(":")[0] for each in found} == {
        f"{name}-minutes", "sqlite", "delta", "view", "postgres", "parquet",
    }  # fmt: skip
    left = json.loads(told.out)["left_out"]
    assert left[f"{name}-copies"] == "what this output has taken cannot be read back"
    wanted, windows = by_duckdb(clicks(0, 600), "0")[0][1:], by_duckdb(clicks(0, 600))
    for output in (f"{name}-minutes", "sqlite:copy.db:minutes", f"delta:{tmp_path}/lake"):
        each = found[output]
        counts = [each["first"]["rows"], each["second"]["rows"]]
        assert (*counts, each["missing"], each["extra"], each["other"]) == wanted
        assert each["same_input"]
        assert each["columns"]["second_only"] == ["most"]
        differing = [w[1:] for w in windows if any(w[3:])]
        assert [(*w.values(),)[1:] for w in each["windows"]] == differing
        changed = [row for row in each["differences"] if row["kind"] == "other"]
        assert {"ms"} <= {column for row in changed for column in row["columns"]}
    for output in (f"view:{name}_users", f"postgres:{name}_users", f"parquet:{tmp_path}/files"):
        assert found[output]["same"]

    # each is looked at where it stands
    produce(broker, f"{name}-clicks", clicks(600, 640))
    once(following, "--as", "v2", command="deploy")
    text = riverrun("compare", name, "current", "v2", f"{name}_users_", "--limit", "1")
    assert "no output" in text.err
    text = riverrun("compare", name, "current", "v2", f"view:{name}_users", "--limit", "1")
    assert text.code == 1
    assert "4 rows instead of 4: 4 other" in text.out
    assert f"; {name}-clicks/0 up to 600" in text.out
    assert "not the same input: v2 has read 40 records more" in text.out
    assert 'other    "u0"  n: 150 in current, 160 in v2' in text.out
    assert "… and 3 more" in text.out
    once(program)
    text = riverrun("compare", name, "v2", "current", f"view:{name}_users")
    assert (text.code, text.out.splitlines()[0]) == (0, f"view:{name}_users: the same 4 rows")

    assert_compared_at_a_point(riverrun, name)


def test_a_version_is_compared_with_another_one_that_is_there(riverrun):
    assert "with another one" in riverrun("compare", "shop", "v2", "v2").err
    assert "with another one" in riverrun("compare", "shop", "current", "current").err
    assert "no version 'v2'" in riverrun("compare", "shop", "current", "v2").err


def test_rows_are_not_compared_by_keys_of_other_types():
    other = replace(OUTPUT, schema=parse("user bigint, window_start timestamp, n bigint"))
    with pytest.raises(InputError, match="has a key of another type"):
        in_common("out", OUTPUT, other)
