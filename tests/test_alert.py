"""Alerts by the driver: what is told of a group, and when."""

from __future__ import annotations

import runpy
from pathlib import Path

import riverrun as rr
from failing import NOON, SCHEMA, driver, fail, program, standing, told
from riverrun.testing import Driver


def test_a_group_waits_is_told_grows_is_repeated_and_over():
    one = driver(resolve="ms = 0")
    assert told(fail(one, "pay", "pay", "mail")) == []
    assert standing(one) == [("mail", "waiting", 1), ("pay", "waiting", 2)]
    assert told(one.pass_time("59 seconds")) == []
    firing = one.pass_time("1 second")
    assert sorted(told(firing)) == [("mail", "firing", 1), ("pay", "firing", 2)]
    assert told(fail(one, "pay")) == []  # five minutes after the one before
    assert told(one.pass_time("5 minutes")) == [("pay", "more", 3)]
    assert told(one.pass_time("54 minutes")) == []
    assert told(one.pass_time("1 minute")) == [("mail", "repeated", 1)]
    assert told(one.pass_time("5 minutes")) == [("pay", "repeated", 3)]
    fail(one, "pay", ms=0)
    assert standing(one) == [("mail", "firing", 1), ("pay", "over", 3)]
    assert told(one.pass_time("5 minutes")) == [("pay", "resolved", 3)]
    assert standing(one) == [("mail", "firing", 1)]
    assert told(fail(one, "pay", ms=0)) == []  # nothing to resolve
    assert standing(one) == [("mail", "firing", 1)]


def test_a_cause_that_is_gone_before_anybody_heard_of_it_is_not_told():
    one = driver(resolve="ms = 0")
    fail(one, "pay")
    fail(one, "pay", ms=0)
    assert standing(one) == [("pay", "over", 1)]
    assert told(one.pass_time("1 hour")) == []
    assert standing(one) == []


def test_a_cause_that_comes_back_before_its_end_was_told_goes_on():
    one = driver(resolve="ms = 0", wait="0 seconds")
    fail(one, "pay")
    fail(one, "pay", ms=0)
    fail(one, "pay")
    assert told(one.pass_time("5 minutes")) == [("pay", "more", 2)]


def test_a_stream_without_rows_for_a_while_is_over_but_not_before_it_was_told():
    one = driver(resolve_after="2 minutes", interval="0 seconds")
    fail(one, "pay")
    both = one.pass_time("1 day")  # the job was not there
    assert told(both) == [("pay", "firing", 1), ("pay", "resolved", 1)]
    first = driver()
    fail(first, "pay")
    first.pass_time("1 minute")
    fail(first, "pay")
    assert told(first.pass_time("4 minutes 59 seconds")) == []
    assert told(first.pass_time("1 second")) == [("pay", "resolved", 2)]


def test_rows_of_a_table_stand_until_they_are_deleted():
    one = driver(of="table", wait="0 seconds", interval="0 seconds", resolve="ms = 0")

    def change(id, service, ms=7):
        row = None if service is None else {"id": id, "service": service, "ms": ms}
        one.send("rows", row, key=str(id))
        return told(one.batch())

    assert change(1, "pay") == [("pay", "firing", 1)]
    assert change(2, "pay") == [("pay", "more", 2)]
    assert change(2, "pay", 9) == []  # the same row with another value
    assert change(1, "mail") == [("mail", "firing", 1)]  # one less is no news
    assert standing(one) == [("mail", "firing", 1), ("pay", "firing", 1)]
    assert change(2, "pay", 0) == [("pay", "resolved", 0)]
    assert change(2, "pay", 3) == [("pay", "firing", 1)]
    assert change(2, None) == [("pay", "resolved", 0)]
    assert change(1, None) == [("mail", "resolved", 0)]
    assert standing(one) == []
    names = {line["value"]["alert"] for line in one.outputs["shop.failing.told"]}
    assert len(names) == 3


def test_those_of_the_next_level_are_told_unless_somebody_acknowledges_it():
    levels = [("10 minutes", rr.alerts.topic("lead")), ("20 minutes", rr.alerts.topic("boss"))]
    one = driver(
        rr.alerts.topic("duty"), escalate=levels, resolve="ms = 0", interval="0 seconds",
        wait="0 seconds",
    )  # fmt: skip
    fail(one, "pay", "mail")
    lines = one.pass_time("10 minutes")
    assert sorted(told(lines, "service", "kind", "level")) == [
        ("mail", "escalated", 1), ("pay", "escalated", 1),
    ]  # fmt: skip
    alert = dict(standing(one, "service", "alert"))["pay"]
    one.control("acknowledge alert", "failing", alert=alert, by="ann", comment="on it")
    acknowledged = one.batch()
    assert told(acknowledged, "service", "kind", "by", "comment") == [
        ("pay", "acknowledged", "ann", "on it")
    ]
    one.control("acknowledge alert", "failing", alert=alert, by="bob")
    one.control("acknowledge alert", "failing", alert="nobody", by="bob")
    assert told(one.pass_time("1 day")) == [("mail", "repeated", 1), ("mail", "escalated", 1)]
    fail(one, "pay")
    fail(one, "pay", "mail", ms=0)
    heard = {
        topic: [(line["value"]["service"], line["value"]["kind"]) for line in one.outputs[topic]]
        for topic in ("duty", "lead", "boss")
    }
    assert heard["boss"] == [("mail", "escalated"), ("mail", "resolved")]
    assert [kind for service, kind in heard["lead"] if service == "pay"] == [
        "escalated", "acknowledged", "resolved",
    ]  # fmt: skip
    assert [kind for service, kind in heard["duty"] if service == "pay"] == [
        "firing", "acknowledged", "resolved",
    ]  # fmt: skip


def test_what_is_silenced_is_told_when_the_silence_is_over():
    one = driver(wait="0 seconds", resolve="ms = 0", interval="0 seconds")
    until = one.tick + 600_000_000
    matchers = [["service", "=~", "p.*"], ["service", "!=", "post"]]
    one.control("silence alerts", "failing", id="s1", matchers=matchers, until=until, by="ann")
    assert sorted(told(fail(one, "pay", "post"))) == [("post", "firing", 1)]
    assert told(fail(one, "pay")) == []
    one.restart()
    assert told(one.pass_time("10 minutes")) == [("pay", "firing", 2)]
    one.control("silence alerts", "failing", id="s2", matchers=[["service", "=", "pay"]],
                until=one.tick + 10**12, by="ann")  # fmt: skip
    assert told(fail(one, "pay", ms=0)) == []
    one.control("unsilence alerts", "failing", id="s2")
    assert told(one.batch()) == [("pay", "resolved", 2)]


def test_a_key_that_is_null_is_a_group_like_any_other():
    one = driver(wait="0 seconds", title="{service} {message}", resolve_after="1 hour")
    lines = fail(one, None, "", "null")
    assert sorted(told(lines, "service", "title"), key=str) == [
        ("", "null"), ("null", "null null"), (None, "null null"),
    ]  # fmt: skip
    one.control("silence alerts", "failing", id="s", matchers=[["service", "=", ""]],
                until=one.tick + 10**12, by="ann")  # fmt: skip
    fail(one, None, "null")
    assert told(one.pass_time("5 minutes"), "service", "kind") == [("null", "more")]


def test_a_title_is_one_line_and_a_text_is_cut():
    one = driver(wait="0 seconds", title="{message}", text="{message:.5}|{message}")
    fail(one, "pay", message="a\r\nBcc: x\t" + "💥" * 20_000)
    [(title, text)] = told(one.outputs["shop.failing.told"], "title", "text")
    assert title.startswith("a Bcc: x 💥")
    assert (len(title), len(text)) == (200, 10_000)
    assert text.startswith("a\r\nBc|a\r\nBcc")


def test_templates_take_columns_first_and_what_every_alert_has():
    one = driver(wait="0 seconds", title="{{{ms:,}}} {n} {kind} {group} {since} {service!s}"[:-12])
    fail(one, "pay", ms=12345)
    [(title,)] = told(one.outputs["shop.failing.told"], "title")
    assert title == "{12,345} 1 firing service=pay 2026-01-01T12:00:00Z"
    app = rr.App("shop")
    rows = app.stream("rows", schema="service string, n bigint, kind string")
    rows.alert(group_by="service", name="failing", wait="0 seconds", title="{n} {kind}")
    other = Driver(app, now=NOON)
    other.send("rows", {"service": "pay", "n": 5, "kind": "late"})
    assert told(other.batch(), "title") == [("5 late",)]


def test_those_who_follow_see_each_group_as_it_was_told():
    one = driver(rr.alerts.sse("live"), wait="1 minute", resolve="ms = 0", interval="0 seconds")
    assert not [line for line in fail(one, "pay") if line["output"] == "view:live"]
    one.pass_time("1 minute")
    [row] = one.table("view:live")
    assert (row["service"], row["kind"], row["n"]) == ("pay", "firing", 1)
    fail(one, "pay", ms=0)
    assert one.table("view:live") == []


def test_what_is_told_is_a_stream_like_any_other():
    app = rr.App("shop")
    rows = app.stream("rows", schema=SCHEMA)
    notes = rows.alert(group_by="service", name="failing", wait="0 seconds")
    notes.where("kind = 'firing'").group_by("service").agg(times=rr.count()).to("counted")
    one = Driver(app, now=NOON)
    fail(one, "pay", "mail")
    assert one.table("counted") == [
        {"service": "mail", "times": 1}, {"service": "pay", "times": 1},
    ]  # fmt: skip
    assert one.ask("failing", "SELECT count(*) AS n FROM failing").rows == [{"n": 2}]


def test_late_rows_and_patterns_can_alert():
    app = rr.App("shop")
    rows = app.stream("rows", schema="service string, at timestamp", time="at")
    counts = rows.group_by("service").window(rr.tumbling("1 minute")).agg(n=rr.count())
    counts.to("counts")
    counts.late.alert(group_by="service", name="failing", wait="0 seconds")
    one = Driver(app, now=NOON)
    for at in ("12:10:00", "12:00:00"):
        one.send("rows", {"service": "pay", "at": f"2026-01-01T{at}Z"})
        one.batch()
    assert told(one.outputs["shop.failing.told"]) == [("pay", "firing", 1)]


def test_a_changed_program_goes_on_with_its_groups():
    one = driver(wait="1 minute")
    fail(one, "pay")
    one.restart(program(rr.alerts.topic("people"), wait="2 minutes", title="now {ms}"))
    assert told(one.pass_time("1 minute")) == []
    assert told(one.pass_time("1 minute"), "title") == [("now 7",)]


def test_the_example_tells_of_services_that_fail():
    file = Path(__file__).parents[1] / "examples" / "20_log_watch.py"
    one = Driver(runpy.run_path(str(file))["app"], now=NOON)
    for n in range(120):
        at = f"2026-01-01T12:00:{n // 2:02d}Z"
        row = {"service": "pay", "level": "error", "message": f"no {n}", "at": at}
        one.send("logs", row, {**row, "service": "mail", "level": "info"})
    one.batch()
    lines = one.pass_time("30 seconds")
    output = "log-watch.failing.told"
    assert told(lines, "title", "text", output=output) == [
        ("pay: 120 errors", "since 2026-01-01T12:00:00Z, the last one: no 119")
    ]
    assert told(one.pass_time("15 minutes"), "kind", output=output) == [("resolved",)]
    floods = told(one.outputs["log-floods"], "title", "kind", output="log-floods")
    title = "pay: 120 errors in the minute from 2026-01-01T12:00:00Z"
    assert floods == [(title, "firing"), (title, "resolved")]


def test_a_row_that_no_topic_would_take_is_told_all_the_same():
    app = rr.App("shop")
    rows = app.stream("rows", schema="service string, message string, many bigint[]")
    rows.alert(group_by="service", name="failing", wait="0 seconds", title="{service} {message}")
    one = Driver(app, now=NOON)
    one.send("rows", {"service": "pay", "message": "x", "many": list(range(100_000))})
    assert told(one.batch(), "title", "row") == [("pay {message}", '{"service":"pay"}')]
    one.send("rows", {"service": "mail", "message": "y" * 900_000, "many": [1]})
    [(title, row)] = told(one.batch(), "title", "row")
    assert (len(title), len(row)) == (200, 10_042)


def test_rows_may_be_grouped_by_any_type_that_has_single_values():
    schema = "b boolean, d decimal(10,2), t timestamp, day date, x double, i hugeint, u uuid"
    row = {
        "b": True, "d": "1.50", "t": "2026-01-01T12:00:00.123456Z", "day": "2026-01-02", "x": 0.5,
        "i": 12345678901234567890123, "u": "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        "s": {"a": 1, "c": None},
    }  # fmt: skip
    app = rr.App("shop", pages=3)
    rows = app.stream("rows", schema=f"{schema}, s struct(a bigint, c varchar)")
    for name in row:
        rows.alert(group_by=name, name=name, wait="0 seconds", title=f"{{{name}}} {{group}}")
    one = Driver(app, now=NOON)
    one.send("rows", row, {})
    one.batch()
    one.restart()
    one.send("rows", row)
    one.pass_time("5 minutes")
    for name in row:
        found = told(one.outputs[f"shop.{name}.told"], "kind", "n", output=f"shop.{name}.told")
        assert sorted(found) == [("firing", 1), ("firing", 1), ("more", 2), ("resolved", 1)]
    titles = {line["value"]["title"] for line in one.outputs["shop.s.told"]}
    assert titles == {"null s=", '{"a": 1, "c": null} s={"a": 1, "c": null}'}
    assert not one.outputs["dead"]
