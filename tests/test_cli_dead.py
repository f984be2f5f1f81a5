"""`riverrun dead`: the letters of a real job, looked at and sent again."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from riverrun.delivery.encode import records as encode
from riverrun.kafka import admin
from riverrun.kafka.browse import Browser
from riverrun.kernels.letters import LETTER
from riverrun.kernels.sql import Evaluator
from riverrun.sinks.kafka.dead import dead_output
from riverrun.sinks.kafka.fitting import fitted
from running import produce, records, table

PROGRAM = """
import riverrun as rr


class Careful(rr.Processor):
    outputs = {"checked": "page string"}

    def on_event(self, event, state, context):
        if event.page == "/cursed":
            raise ValueError("a curse")
        context.emit("checked", page=event.page)


app = rr.App("dying")
views = app.stream("dying-views", schema="page string, ms TYPE", on_error=POLICY)
views.process(Careful, by="page", name="careful").stream.to("dying-checked")
views.group_by("page", name="pages").agg(n=rr.count(), ms=rr.sum("ms")).to("dying-out")
"""
SENT = 1_767_225_600_123
RECORDS = [
    (b"ann", b'{"page": "/a", "ms": 1}', []),
    (b"\xfe\xff", b'{"page": "/b", "ms": "2 ms"}', [("a", b"1"), ("a", b"\xff"), ("b", None)]),
    (None, b"\xff not text", []),
    (b"", b"not json", [("", b"")]),
    (b"bob", b'{"page": "/cursed", "ms": 3}', [("who", b"bob")]),
    (b"cy", b'{"page": "/a", "ms": 4}', []),
    (b"k" * 90_000, b"\xff" * 900_000, [("h", b"\x01" * 9_000)]),
]  # fmt: skip


def program(folder, type="bigint", policy="None"):
    file = folder / "dying.py"
    file.write_text(PROGRAM.replace("TYPE", type).replace("POLICY", policy))
    return file


def raw(broker, topic):
    with Browser(broker, topic) as browser:
        messages = sorted(browser.read(browser.earliest), key=lambda m: (m.partition(), m.offset()))
    return [
        (m.partition(), m.key(), m.value(), m.headers() or [], m.timestamp()[1]) for m in messages
    ]


def assert_the_large_one_was_cut_and_is_shown_whole(broker, riverrun):
    [written] = [json.loads(value) for _, value in records(broker, "dying.dead") if "kkk" in value]
    assert (written["cut"], len(written["value_base64"])) == (["value_base64"], 75_000)
    [shown] = json.loads(riverrun("dead", "show", "dying", "dying-views/1/6", "--json").out)
    assert (shown["cut"], base64.b64decode(shown["value_base64"])) == (None, b"\xff" * 900_000)


@pytest.mark.broker
@pytest.mark.spark
def test_letters_are_listed_shown_and_sent_again_once_as_they_were(
    broker, tmp_path, riverrun, once
):
    admin.create_topic(broker, "dying-views", partitions=2)
    producer = Producer(broker)
    for key, value, headers in RECORDS:
        producer.produce(
            "dying-views", value, key, partition=1, timestamp=SENT, headers=headers or None
        )
    assert producer.flush(10) == 0
    stopped = once(program(tmp_path, policy="'stop'"), code=2)
    assert "a record cannot be processed" in stopped.error()
    assert "where: dying-views/1/1" in stopped.error()
    status = once(program(tmp_path)).statuses()[-1]
    assert (status["events"], status["dead"], status["dropped"]) == (7, 5, 0)
    assert status["causes"]["decode: the value is not JSON"] == 1
    assert status["causes"]["careful: ValueError"] == 1
    assert admin.group_offsets(broker, "dying")["dying-views", 1] == 7

    listed = json.loads(riverrun("dead", "list", "dying", "--json").out)
    assert sum(group["count"] for group in listed["groups"]) == 5
    assert {each["place"] for each in listed["letters"]} == {
        f"dying-views/1/{n}" for n in (1, 2, 3, 4, 6)
    }
    assert "not json" in riverrun("dead", "list", "dying", "--cause", "not JSON").out

    [shown] = json.loads(riverrun("dead", "show", "dying", "dying-views/1/1", "--json").out)
    assert base64.b64decode(shown["key_base64"]) == b"\xfe\xff"
    assert shown["value"] == '{"page": "/b", "ms": "2 ms"}'
    assert "a curse" in riverrun("dead", "show", "dying", "dying-views/1/4").out
    assert "no dead letter" in riverrun("dead", "show", "dying", "dying-views/1/99").err

    assert_the_large_one_was_cut_and_is_shown_whole(broker, riverrun)
    one = riverrun("dead", "retry", "dying", "dying-views/1/1", "--json")
    assert json.loads(one.out) == {"application": "dying", "retried": 1}
    again = riverrun("dead", "retry", "dying", "dying-views/1/1")
    assert again.code == 2
    assert "the record was sent again before" in again.err
    rest = riverrun("dead", "retry", "dying", "--all")
    assert rest.out == "sent 4 records again\n", rest.err
    assert riverrun("dead", "retry", "dying", "--all").out == "sent 0 records again\n"
    found = raw(broker, "dying-views")
    assert len(found) == 12
    assert found[7:] == [found[n] for n in (1, 2, 3, 4, 6)], "exactly as they were"
    states = json.loads(riverrun("dead", "list", "dying", "--json").out)["groups"]
    assert {each["state"] for each in states} == {"retried"}

    mended = program(tmp_path, policy="'drop'")
    mended.write_text(mended.read_text().replace('"/cursed"', '"/other"'))
    status = once(mended).statuses()[-1]
    assert (status["dead"], status["dropped"]) == (0, 4)
    lag = status["lag"]["partitions"]["dying-views/1"]
    assert lag["read"] == lag["end"] == 14, "12 records, and the marks of two transactions"
    assert table(broker, "dying-out")["/cursed"]["n"] == 2


@pytest.mark.broker
def test_a_letter_that_was_cut_is_not_retried_when_its_record_is_gone(broker, riverrun):
    for name in ("emptied", "losing.dead"):
        admin.create_topic(broker, name, partitions=1)
    letter = {"topic": "emptied", "partition": 0, "offset": 5, "step": "decode", "cause": "odd",
              "timestamp": "2026-01-01T00:00:00Z", "key": None, "key_base64": None, "row": None,
              "value": "part", "value_base64": None, "headers": None, "cut": ["value"]}  # fmt: skip
    produce(broker, "losing.dead", [letter])
    shown = riverrun("dead", "show", "losing", "emptied/0/5").out
    assert "value: this is only a part" in shown
    outcome = riverrun("dead", "retry", "losing", "--all")
    assert outcome.code == 2
    assert "the record is gone, and its letter holds only a part of it [RR103]" in outcome.err
    assert records(broker, "emptied") == []


LETTER_OF = {"topic": "t", "partition": 0, "offset": 1, "step": "decode", "__pos": 1, "__sub": 0,
             "__at": 10**18, "timestamp": 10**18}  # fmt: skip
SIZES = (16_000, 100_000, 990_000)
ODD = ("a", "\x01", '"', "\u00e9", "\U0001f600")


def test_every_letter_fits_whatever_is_in_it():
    output, evaluator = dead_output("shop"), Evaluator(())
    header = [{"name": "h" * 50_000, "value": "\x01" * 400_000}]
    rows = [
        {**LETTER_OF, "cause": sign * size, "key": sign * size, "value": sign * size,
         "row": sign * size, "headers": header}
        for sign in ODD for size in (900_000, 20)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=LETTER)
    sizes = [len(a) + len(b) for a, b in texts(encode(output, table, evaluator))]
    for largest in SIZES:
        made = texts(encode(output, fitted(table, sizes, largest), evaluator))
        assert max(len(key) + len(value) for key, value in made) <= largest
        letters = [json.loads(value) for _, value in made]
        assert all((each["offset"], each["step"]) == (1, "decode") for each in letters)
        assert letters[0]["cut"] == ["cause", "key", "value", "row", "headers"]


def texts(made):
    return list(zip(made["key"].to_pylist(), made["value"].to_pylist(), strict=True))


@pytest.mark.broker
def test_an_application_without_letters_is_one_clear_error(broker, riverrun):
    outcome = riverrun("dead", "list", "nobody")
    assert outcome.code == 2
    assert "the application 'nobody' has no dead letters" in outcome.err
