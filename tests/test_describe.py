"""`riverrun describe`: the topology as text, flowchart and JSON."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

PROGRAM = """\
import riverrun as rr

app = rr.App("shop", pages=8)
web = app.stream("web", schema="user string, page string, ms int, tags string[], at timestamp",
                 key="user", time="at", lateness="30 seconds")
phone = app.stream("phone", schema="page string, ms int", idle="1 minute", start="latest")
slow = web.where("ms > 100")
slow.select("user", seconds="ms / 1000").to("slow")
both = slow.select("page", "ms").union(phone)
pages = (
    both.group_by("page", name="pages")
    .window(rr.tumbling("1 minute"), updatable="1 hour")
    .agg(views=rr.count(), time=rr.avg("ms"))
)
pages.where("views > 10").to(rr.sinks.topic("busy", partitions=4))
web.explode("tags").group_by("tags").agg(n=rr.count()).to(rr.sinks.screen())
"""

TEXT = """\
shop (8 pages)

source web  # app.py:4
  schema    user VARCHAR, page VARCHAR, ms INTEGER, tags VARCHAR[], at TIMESTAMP
  key       user
  time      at
  lateness  30 seconds, idle 10 seconds
  start     earliest

source phone  # app.py:6
  schema    page VARCHAR, ms INTEGER
  key       none
  time      _timestamp
  lateness  0 seconds, idle 1 minute
  start     latest

step pages  # app.py:13
  from      web
            where ms > 100  # app.py:7
            select page, ms  # app.py:9
            union  # app.py:9
  and from  phone
            union  # app.py:9
  keys      page
  window    1 minute, updatable 1 hour
  emit      ready
  views     count(): BIGINT
  time      avg(ms): DOUBLE

step web_by_tags  # app.py:16
  from      web
            explode tags  # app.py:16
  keys      tags
  window    none: one row per key, for ever
  emit      changes
  n         count(): BIGINT

output slow (stream)  # app.py:8
  from      web
            where ms > 100  # app.py:7
            select user, seconds = ms / 1000  # app.py:8
  columns   user VARCHAR, seconds DOUBLE
  key       user
  to        topic slow, exactly once

output busy (table)  # app.py:15
  from      pages
            where views > 10  # app.py:15
  columns   page VARCHAR, window_start TIMESTAMP, window_end TIMESTAMP, views BIGINT, time DOUBLE
  key       page, window_start
  to        topic busy (4 partitions), exactly once

output screen:web_by_tags (table)  # app.py:16
  from      web_by_tags
  columns   tags VARCHAR, n BIGINT
  key       tags
  to        screen, shown

output pages.late (stream, by default)  # app.py:13
  from      pages
            late rows  # app.py:13
  columns   page VARCHAR, ms INTEGER
  key       none
  to        topic shop.pages.late, exactly once

output dead (stream, by default)
  from      records that cannot be read, or that an expression fails on
  columns   topic VARCHAR, partition INTEGER, offset BIGINT, timestamp TIMESTAMP, step VARCHAR, \
cause VARCHAR, key VARCHAR, key_base64 VARCHAR, value VARCHAR, value_base64 VARCHAR, \
headers STRUCT("name" VARCHAR, "value" VARCHAR, value_base64 VARCHAR)[], row VARCHAR, cut VARCHAR[]
  key       key
  to        topic shop.dead, exactly once
"""

MERMAID = """\
flowchart LR
    n0[/"web"/]
    n1["where ms &gt; 100"]
    n0 --> n1
    n2["select user, seconds = ms / 1000"]
    n1 --> n2
    n3["select page, ms"]
    n1 --> n3
    n4[/"phone"/]
    n5["union"]
    n3 --> n5
    n4 --> n5
    n6[["pages<br/>by page<br/>per 1 minute, updatable 1 hour<br/>views = count()<br/>time = avg(ms)"]]
    n5 --> n6
    n7["where views &gt; 10"]
    n6 --> n7
    n8["explode tags"]
    n0 --> n8
    n9[["web_by_tags<br/>by tags<br/>n = count()"]]
    n8 --> n9
    n10["late rows"]
    n6 --> n10
    out0(["slow"])
    n2 --> out0
    out1(["busy"])
    n7 --> out1
    out2(["screen:web_by_tags"])
    n9 --> out2
    out3(["pages.late"])
    n10 --> out3
    dead(["dead"])
    n0 -.-> dead
    n4 -.-> dead
"""  # noqa: E501 - as it is printed


@pytest.fixture
def describe(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(PROGRAM)
    return lambda *options: riverrun("describe", "app.py", *options)


def test_the_topology_is_text_for_people(describe):
    outcome = describe()
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == TEXT


def test_the_topology_is_a_flowchart(describe):
    assert describe("--mermaid").out == MERMAID


def test_the_topology_is_json_for_programs(describe, tmp_path):
    found = json.loads(describe("--json").out)
    here = tmp_path / "app.py"
    assert (found["name"], found["pages"]) == ("shop", 8)
    assert found["sources"][1] == {
        "topic": "phone",
        "schema": [{"name": "page", "type": "VARCHAR"}, {"name": "ms", "type": "INTEGER"}],
        "key": None,
        "time": "_timestamp",
        "lateness": "0 seconds",
        "idle": "1 minute",
        "start": "latest",
        "at": f"{here}:6",
    }
    assert found["steps"][1] == {
        "name": "web_by_tags",
        "from": [
            {"origin": "web", "steps": [{"does": "explode tags", "at": f"{here}:16"}]},
        ],
        "keys": ["tags"],
        "window": None,
        "updatable": None,
        "emit": "changes",
        "aggregates": [{"name": "n", "kind": "count", "expression": None, "type": "BIGINT"}],
        "at": f"{here}:16",
    }
    assert [
        (each["name"], each["kind"], each["default"], each["to"], each["guarantee"])
        for each in found["outputs"]
    ] == [
        ("slow", "stream", False, "topic slow", "exactly once"),
        ("busy", "table", False, "topic busy (4 partitions)", "exactly once"),
        ("screen:web_by_tags", "table", False, "screen", "shown"),
        ("pages.late", "stream", True, "topic shop.pages.late", "exactly once"),
        ("dead", "stream", True, "topic shop.dead", "exactly once"),
    ]


def test_a_topic_has_the_guarantee_of_the_application_and_other_sinks_their_own(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        dedent("""\
            import riverrun as rr

            app = rr.App("shop", delivery="at least once")
            web = app.stream("web", schema="page string")
            web.to("out", rr.sinks.postgres("pages"), rr.sinks.webhook("https://host/x"))
        """)
    )
    text = riverrun("describe", "app.py").out
    assert "  to        topic out, at least once\n" in text
    assert "  to        PostgreSQL table pages, exactly once\n" in text
    assert "  to        POST to https://host/x, 5 tries, at least once\n" in text


def test_a_program_with_a_spark_step_is_described_without_spark(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        dedent("""\
            import riverrun as rr

            def score(df):
                raise AssertionError("not called")

            app = rr.App("shop")
            web = app.stream("web", schema="page string").key_by("page")
            web.spark(score, schema="page string").with_columns(n="1").to("scored")
        """)
    )
    described = riverrun("describe", "app.py").out
    assert "            key_by page  # app.py:7\n            spark score  # app.py:8\n" in described
    assert "            with_columns n = 1  # app.py:8\n" in described


def test_what_a_source_says_of_time_is_described_where_it_is_unusual(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(
        dedent("""\
            import riverrun as rr

            app = rr.App("shop")
            time = rr.device_time(occurred="at", sent="sent", max_offset="6 hours")
            web = app.stream("web", schema="device string, at timestamp, sent timestamp",
                             time=time, producer="device", punctuation="device = '-'",
                             max_ahead=None)
            table = web.group_by("device").window(rr.tumbling("1 minute"), late_alert=0.01)
            table.agg(n=rr.count()).to("out")
        """)
    )
    described = riverrun("describe", "app.py").out
    assert (
        "  time      at + (_timestamp - sent), at most 6 hours off\n"
        "  lateness  0 seconds, idle 10 seconds\n"
        "  producer  device\n"
        "  punctuation device = '-'\n"
        "  max_ahead none\n"
    ) in described
    assert "  window    1 minute, updatable 0 seconds, late_alert 0.01\n" in described
    assert "clock_suspect BOOLEAN" in described
    found = json.loads(riverrun("describe", "app.py", "--json").out)["sources"][0]
    unusual = {name: found[name] for name in ("producer", "punctuation", "max_ahead")}
    assert unusual == {"producer": "device", "punctuation": "device = '-'", "max_ahead": None}


def test_two_forms_at_once_are_one_clear_error(describe):
    outcome = describe("--mermaid", "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: --mermaid and --json cannot be combined [RR103]")


def test_a_program_that_cannot_be_built_is_one_clear_error(riverrun, tmp_path):
    (tmp_path / "app.py").write_text('import riverrun as rr\napp = rr.App("shop")\n')
    outcome = riverrun("describe", "app.py")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(
        f"error: the application 'shop' has no output [RR101]\n  where: {tmp_path / 'app.py'}:2\n"
    )


def test_the_help_has_examples(riverrun):
    assert "  riverrun describe app.py --mermaid > topology.mmd\n" in riverrun("describe", "-h").out


STATISTICS = """\
import riverrun as rr

app = rr.App("shop")
views = app.stream("views", schema="page string, ms bigint")
views.group_by("page").agg(
    middle=rr.median("ms"),
    ends=rr.percentile("ms", [0.05, 0.95]),
    most=rr.top("ms", k=3, weight="ms * 2"),
    some=rr.approx_counts("page", of=["/a"]),
    best=rr.max_by("page", "ms"),
    bins=rr.histogram("ms", [1, 10]),
).to("out")
"""


def test_aggregates_are_shown_with_their_options(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(STATISTICS)
    text = riverrun("describe", "app.py").out
    for line in (
        "middle    percentile(ms, 0.5): DOUBLE",
        "ends      percentile(ms, [0.05, 0.95]): DOUBLE[]",
        'most      top(ms, k=3, weight=ms * 2): STRUCT("value" BIGINT, count BIGINT)[]',
        "best      max_by(page, ms): VARCHAR",
        "bins      histogram(ms, edges=[1.0, 10.0]): STRUCT(lower DOUBLE, upper DOUBLE, count",
        "some      approx_counts(page, of=['/a']): STRUCT(\"value\" VARCHAR, count BIGINT)[]",
    ):
        assert line in text


@pytest.mark.parametrize("command", ["check", "describe", "run"])
@pytest.mark.parametrize("ending", ["sys.exit(3)", "sys.exit()", "sys.exit('done')"])
def test_a_program_that_ends_the_interpreter_is_told(command, ending, tmp_path, riverrun):
    file = tmp_path / "ends.py"
    file.write_text(f"import sys\n\n{ending}\n")
    outcome = riverrun(command, str(file))
    assert outcome.code == 2
    assert outcome.err.startswith(
        f"error: the program ended the interpreter [RR103]\n  where: {file}:3\n  got: {ending}\n"
    )


def test_a_file_that_hides_a_module_of_python_is_told(tmp_path, riverrun):
    for name in ("copy.py", "app.py"):
        (tmp_path / name).write_text('import riverrun as rr\napp = rr.App("shop")\n')
    told = riverrun("describe", str(tmp_path / "app.py")).err
    assert "copy.py hides Python's own module 'copy'" in told
    refused = riverrun("describe", str(tmp_path / "copy.py")).err
    assert refused.startswith("error: the program has the name of Python's own module 'copy'")
