"""`riverrun produce` and `riverrun tail`: what goes in comes out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import Producer

from riverrun.kafka.records import Record
from riverrun.kafka.resuming import ResumedSender

pytestmark = pytest.mark.usefixtures("broker")


@pytest.fixture
def topic(request: pytest.FixtureRequest, riverrun) -> str:
    """A topic of three partitions, named after the test."""
    name = request.node.name[:200].replace("[", ".").replace("]", "")
    assert riverrun("topics", "create", name, "--partitions", "3").code == 0
    return name


def records(riverrun, topic, *arguments):
    """All records as tail prints them for programs, in the order of their offsets."""
    lines = riverrun("tail", topic, "--from", "earliest", "--json", *arguments).out.splitlines()
    found = [json.loads(line) for line in lines]
    return sorted(found, key=lambda record: (record["partition"], record["offset"]))


def test_a_line_is_the_value(riverrun, topic):
    outcome = riverrun("produce", topic, stdin='{"a": 1}\n\n{"a": 2}\n')
    assert (outcome.code, outcome.out) == (0, f"sent 2 records to {topic}\n")
    assert sorted(r["value"]["a"] for r in records(riverrun, topic)) == [1, 2]


def test_an_envelope_says_all_there_is_to_a_record(riverrun, topic):
    sent = {
        "key": "ann",
        "value": {"page": "/ä"},
        "timestamp": 1700000000123,
        "partition": 2,
        "headers": {"trace": "x1"},
    }
    riverrun("produce", topic, stdin=json.dumps(sent))
    assert records(riverrun, topic) == [sent | {"offset": 0}]


def test_an_object_with_other_fields_beside_value_is_a_value(riverrun, topic):
    riverrun("produce", topic, stdin='{"value": 1, "sensor": "s"}')
    assert records(riverrun, topic)[0]["value"] == {"value": 1, "sensor": "s"}


def test_a_null_value_is_a_tombstone_and_is_shown_as_one(riverrun, topic):
    riverrun("produce", topic, stdin='{"key": "gone", "value": null}')
    [record] = records(riverrun, topic)
    assert (record["key"], record["value"]) == ("gone", None)
    assert "gone  (tombstone)" in riverrun("tail", topic).out


def test_the_key_is_a_field_or_stands_before_a_separator(riverrun, topic):
    riverrun("produce", topic, "--key", "user", stdin='{"user": "ann"}\n{"user": 7}\n')
    riverrun("produce", topic, "--key-separator", "|", stdin='bob|{"a": 1}')
    found = {r["key"]: r["value"] for r in records(riverrun, topic)}
    assert found == {"ann": {"user": "ann"}, "7": {"user": 7}, "bob": {"a": 1}}


def test_keys_go_to_the_partitions_that_java_would_choose(riverrun, topic):
    riverrun("produce", topic, "--key", "k", stdin="".join(f'{{"k": "{k}"}}\n' for k in "abcdef"))
    found = {r["key"]: r["partition"] for r in records(riverrun, topic)}
    assert found == {key: murmur2(key.encode()) % 3 for key in "abcdef"}


def test_a_partition_can_be_given_for_all_records(riverrun, topic):
    riverrun("produce", topic, "--partition", "1", stdin="1\n2\n")
    assert [r["partition"] for r in records(riverrun, topic)] == [1, 1]


def test_a_bad_line_is_named_and_what_came_before_it_is_sent(riverrun, topic, tmp_path):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n\n{"a": \n')
    outcome = riverrun("produce", topic, "--file", str(file))
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: the line is not JSON [RR103]\n  where: line 3 of {file}")
    assert "--raw sends lines as they are, --key-separator with a key" in outcome.err
    assert f"1 records before it were sent: `tail -n +3 {file} | riverrun produce" in outcome.err
    assert "with --resume" in outcome.err
    assert len(records(riverrun, topic)) == 1
    both = riverrun("produce", topic, "--raw", "--key", "a", stdin="{}")
    assert "--key-separator takes a key from any line" in " ".join(both.err.split())


def test_raw_lines_are_sent_as_they_are(riverrun, topic):
    riverrun("produce", topic, "--raw", stdin="not json\n")
    assert records(riverrun, topic)[0]["value"] == "not json"


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ('{"value": 1, "partition": 9}', "has no partition 9"),
        ('{"value": 1, "timestamp": "noon"}', "the envelope's timestamp is not a whole number"),
        ('{"value": 1, "timestamp": 0}', "the timestamp 0 cannot be sent"),
        ('{"value": 1, "headers": 1}', "headers are an object of texts"),
    ],
)
def test_an_envelope_that_cannot_be_sent_is_one_clear_error(line, fact, riverrun):
    riverrun("topics", "create", "envelopes", "--partitions", "3")
    outcome = riverrun("produce", "envelopes", stdin=line)
    assert outcome.code == 2
    assert fact in outcome.err
    assert "line 1 of standard input" in outcome.err


@pytest.mark.parametrize("command", ["produce", "tail"])
def test_a_missing_topic_is_one_clear_error(command, riverrun):
    outcome = riverrun(command, "nowhere", stdin="1\n")
    assert outcome.code == 2
    assert outcome.err.startswith("error: there is no topic 'nowhere' [RR202]")


def test_the_rate_is_kept(riverrun, topic):
    begun_at = time.monotonic()
    riverrun("produce", topic, "--rate", "20", stdin="1\n" * 11)
    assert 0.5 <= time.monotonic() - begun_at < 2


def test_tail_shows_the_last_records_of_all_partitions_by_time(riverrun, topic):
    lines = [{"value": n, "partition": n % 3, "timestamp": 1700000000000 + n} for n in range(30)]
    riverrun("produce", topic, stdin="\n".join(map(json.dumps, lines)))
    shown = riverrun("tail", topic, "-n", "4").out.splitlines()
    assert [line.split()[-1] for line in shown] == ["26", "27", "28", "29"]
    assert shown[0] == "2/8  2023-11-14 22:13:20.026  -  26"
    assert len(riverrun("tail", topic).out.splitlines()) == 10


def test_tail_begins_at_a_time(riverrun, topic):
    lines = [{"value": n, "partition": 0, "timestamp": 1700000000000 + n * 1000} for n in range(5)]
    riverrun("produce", topic, stdin="\n".join(map(json.dumps, lines)))
    shown = riverrun("tail", topic, "--from", "2023-11-14T22:13:23").out.splitlines()
    assert [line.split()[-1] for line in shown] == ["3", "4"]
    assert riverrun("tail", topic, "--from", "2099-01-01").out == ""


def test_a_start_that_is_no_time_is_one_clear_error(riverrun):
    outcome = riverrun("tail", "any", "--from", "yesterday")
    assert outcome.code == 2
    assert outcome.err.startswith("error: the start is neither earliest, nor latest, nor a time")


def test_tail_shows_committed_records_only_and_looks_behind_the_aborted(riverrun, topic, broker):
    producer = Producer({**broker, "transactional.id": "tail"})
    producer.init_transactions()
    for value, commit in ((b"1", True), (b"2", False), (b"3", False)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, value, partition=0)
        producer.commit_transaction() if commit else producer.abort_transaction()
    shown = riverrun("tail", topic, "-n", "2").out.splitlines()
    assert [line.split()[-1] for line in shown] == ["1", "1"]


def test_what_tail_prints_for_programs_can_be_produced_again(riverrun, topic):
    riverrun(
        "produce", topic, stdin='{"key": "a", "value": {"n": 1}}\n{"key": "b", "value": null}\n'
    )
    before = records(riverrun, topic)
    riverrun("topics", "create", "copy", "--partitions", "3")
    riverrun("produce", "copy", stdin=riverrun("tail", topic, "--json").out)
    assert records(riverrun, "copy") == before


HEARING = """
import signal
# it is ignored by what a shell has started in the background, and by all below that
signal.signal(signal.SIGINT, signal.default_int_handler)
from riverrun.cli import entry
entry()
"""


def test_following_shows_new_records_until_ctrl_c(riverrun, topic):
    riverrun("produce", topic, stdin="1\n")
    with subprocess.Popen(
        [sys.executable, "-c", HEARING, "tail", topic, "--follow"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as tail:  # fmt: skip
        try:
            assert tail.stdout.readline().endswith("1\n")
            riverrun("produce", topic, stdin="2\n")
            assert tail.stdout.readline().endswith("2\n")
            os.kill(tail.pid, signal.SIGINT)
            out, err = tail.communicate(timeout=20)
            assert (tail.returncode, out, err.strip()) == (0, "", "")
        finally:
            tail.kill()


STUCK = """
import ctypes
from riverrun.cli import interrupts

with interrupts.heard():
    print("stuck", flush=True)
    ctypes.CDLL(None).sleep(300)
"""


def test_ctrl_c_is_heard_though_the_command_waits_inside_a_library():
    with subprocess.Popen(
        [sys.executable, "-c", STUCK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        try:
            assert command.stdout.readline() == "stuck\n"
            os.kill(command.pid, signal.SIGINT)
            _, err = command.communicate(timeout=60)
            assert (command.returncode, err.strip()) == (0, "")
        finally:
            command.kill()


def murmur2(data: bytes) -> int:
    """Kafka's hash of keys, from its specification: the oracle for the partitioner."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


def test_a_file_that_was_sent_in_part_is_resumed_after_the_last_line_that_is_there(
    riverrun, topic, tmp_path
):
    file = tmp_path / "lines.jsonl"
    file.write_text('{"a": 1}\n\n{"a": 2}\nnot JSON\n{"a": 3}\n')
    again = ("produce", topic, "--file", str(file), "--resume")
    refused = riverrun(*again)
    assert (refused.code, "line 4" in refused.err) == (2, True)
    assert "once the line is mended, the same command goes on with it" in refused.err
    assert sorted(r["value"]["a"] for r in records(riverrun, topic)) == [1, 2]
    file.write_text('{"a": 1}\n\n{"a": 2}\n{"a": 2.5}\n{"a": 3}\n')
    assert riverrun(*again).out == (
        f"sent 2 records to {topic}, after the 3 lines that were sent before\n"
    )
    assert riverrun(*again).out.startswith("sent 0 records")
    assert sorted(r["value"]["a"] for r in records(riverrun, topic)) == [1, 2, 2.5, 3]
    file.write_text('{"a": 1}\n')
    assert "fewer lines than were sent" in riverrun(*again).err


def test_what_a_killed_sender_left_open_is_sent_again_and_nothing_else_is(
    riverrun, topic, tmp_path, broker
):
    file = str(tmp_path / "lines.jsonl")
    first = ResumedSender(broker, topic, None, file=file)
    for line in (1, 2):
        first.send(Record(b'{"a": %d}' % line))
        first.done_with(line)
    first.flush()
    first.send(Record(b'{"a": 3}'))  # and it is killed: the transaction is never committed
    second = ResumedSender(broker, topic, None, file=file)
    assert second.first == 2
    second.send(Record(b'{"a": 3}'))
    second.done_with(3)
    second.flush()
    assert sorted(r["value"]["a"] for r in records(riverrun, topic)) == [1, 2, 3]


def test_lines_that_stay_nowhere_cannot_be_resumed(riverrun, topic):
    assert "--resume needs a --file" in riverrun("produce", topic, "--resume", stdin="{}").err
