"""Archive and topic read as one: the same records in the same lots, wherever the border is."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Producer

import riverrun as rr
from archives import START, archive, expired, filled
from riverrun.archive.held import Archived, Held
from riverrun.errors import InputError, RecordsGone, TopicError
from riverrun.kafka import admin, ranges
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.program import ReadTopic
from riverrun.partitions import Partition, Range
from riverrun.runtime.spans import Asked, History, span_of
from riverrun.sources.kafka import KafkaSource
from riverrun.sources.span import Span
from running import produce


def source_of(topic: str, **given: object) -> ReadTopic:
    app = rr.App("reads")
    app.stream(topic, schema="n int", **given).to("out")
    [found] = app.program().sources
    return found


def lots(source, wanted, headers=frozenset()):
    return [lot.records for lot in source.lots(wanted, headers)]


def same(some, others):
    return len(some) == len(others) and all(a.equals(b) for a, b in zip(some, others, strict=True))


@pytest.mark.broker
@pytest.mark.parametrize("reader", ["direct", "public"])
def test_lots_are_those_of_the_topic_wherever_it_begins(tmp_path, broker, reader, monkeypatch):
    topic, draw = f"seam-{reader}", random.Random(3)
    filled(broker, topic, rounds=9)
    parts = [Partition(topic, number) for number in range(3)]
    ends = KafkaTopics(broker).ends(parts)
    archive(broker, tmp_path, topic, file_bytes=60_000)
    cuts = []
    for _ in range(8):
        places = {p: sorted(draw.choices(range(ends[p] + 1), k=2)) for p in parts}
        cuts.append([Range(p, *places[p]) for p in parts])
    whole = [Range(p, 0, ends[p]) for p in parts]
    asked = [(each, headers) for each in [whole, *cuts] for headers in (frozenset(), {topic})]
    before = [lots(KafkaSource(broker, reader), *each) for each in asked]
    for first in ({0: 1, 1: 7}, {0: 40, 1: 41}, {p.number: ends[p] for p in parts}):
        expired(broker, topic, first)
        span, lost = span_of([source_of(topic)], broker, Asked(), tmp_path)
        assert not lost
        assert span.begins == dict.fromkeys(parts, 0)
        assert span.ends == ends
        archived = Archived.of(tmp_path, Span.of(span.logged()).archived)
        source = KafkaSource(broker, reader, archived)
        for each, expected in zip(asked, before, strict=True):
            assert same(lots(source, *each), expected)
        # what is in the archive and still in the topic may come from either
        least = {p: Held(((0, first[p.number]),), first[p.number]) for p in parts[:2]}
        source = KafkaSource(broker, reader, Archived.of(tmp_path, least))
        assert same(lots(source, whole), before[0])


@pytest.mark.broker
def test_large_ranges_are_cut_as_those_of_the_topic(tmp_path, broker, monkeypatch):
    admin.create_topic(broker, "large-seam", partitions=2)
    produce(broker, "large-seam", ["x" * n for n in range(1000)], partitions=2)
    archive(broker, tmp_path, "large-seam", file_bytes=60_000)
    monkeypatch.setattr(ranges, "MOST_BYTES", 50_000)
    monkeypatch.setattr(ranges, "PIECE_BYTES", 30_000)
    whole = [Range(Partition("large-seam", number), 0, 500) for number in range(2)]
    before = lots(KafkaSource(broker), whole)
    assert len(before) > 10
    expired(broker, "large-seam", {0: 200, 1: 300})
    span, _ = span_of([source_of("large-seam")], broker, Asked(), tmp_path)
    assert same(
        lots(KafkaSource(broker, archived=Archived.of(tmp_path, span.archived)), whole), before
    )


@pytest.mark.broker
def test_times_are_found_in_the_archive_as_they_were_in_the_topic(tmp_path, broker):
    admin.create_topic(broker, "timed", partitions=2)
    producer, draw = Producer(broker), random.Random(11)
    for n in range(400):  # not in order
        at = START + n * 1000 + draw.randrange(20_000)
        producer.produce("timed", b"x", None, n % 2, timestamp=at)
        producer.flush(10)
    source = source_of("timed")
    times = [f"2026-01-01T00:{m:02}:{s:02}Z" for m in range(8) for s in (0, 20, 40)]
    asked = [Asked(time) for time in times] + [Asked(None, time) for time in times]
    asked += [Asked(times[2], times[11]), Asked(begins=(("timed/0", 30), ("timed/1", 150)))]
    before = [span_of([source], broker, each, tmp_path)[0] for each in asked]
    archive(broker, tmp_path, "timed")
    expired(broker, "timed", {0: 40, 1: 120})
    for each, expected in zip(asked, before, strict=True):
        span, lost = span_of([source], broker, each, tmp_path)
        assert (span.begins, span.ends, lost) == (expected.begins, expected.ends, [])


@pytest.mark.broker
def test_what_neither_has_is_named_and_left_out(tmp_path, broker):
    admin.create_topic(broker, "holes", partitions=1)
    only = Partition("holes", 0)
    produce(broker, "holes", list(range(100)))
    expired(broker, "holes", {0: 10})
    archive(broker, tmp_path, "holes")
    produce(broker, "holes", list(range(100, 200)))
    expired(broker, "holes", {0: 120})
    archive(broker, tmp_path, "holes")
    produce(broker, "holes", list(range(200, 300)))
    expired(broker, "holes", {0: 230})
    span, lost = span_of([source_of("holes")], broker, Asked(), tmp_path)
    assert lost == [
        "holes/0 begins at offset 10: retention has deleted what was before",
        "holes/0 has no offsets 100 to 119: retention had deleted them before they were archived",
        "holes/0 has no offsets 200 to 229: retention had deleted them before they were archived",
    ]
    assert span.begins == {only: 10}
    assert span.archived == {only: Held(((10, 100), (120, 200)), 230)}
    source = KafkaSource(broker, archived=Archived.of(tmp_path, span.archived))
    [lot] = lots(source, [Range(only, 10, 300)])
    left = [*range(10, 100), *range(120, 200), *range(230, 300)]
    assert lot["__offset"].to_pylist() == left
    given = Asked(begins=(("holes/0", 130),), ends=(("holes/0", 190),))
    assert span_of([source_of("holes")], broker, given, tmp_path)[1] == []
    before = Asked(begins=(("holes/0", 3),))
    span, lost = span_of([source_of("holes")], broker, before, tmp_path)
    assert (span.begins, len(lost)) == ({only: 10}, 3)
    # what is in no gap needs no archive
    given = Asked(begins=(("holes/0", 240),))
    span, lost = span_of([source_of("holes")], broker, given, tmp_path / "none")
    assert (span.begins, span.archived, lost) == ({only: 240}, {}, [])


@pytest.mark.broker
def test_an_archive_of_another_topic_or_with_files_gone_is_refused(tmp_path, broker):
    admin.create_topic(broker, "refused-read", partitions=1)
    only = Partition("refused-read", 0)
    produce(broker, "refused-read", list(range(100)))
    archive(broker, tmp_path, "refused-read", file_bytes=1)
    expired(broker, "refused-read", {0: 50})
    span, _ = span_of([source_of("refused-read")], broker, Asked(), tmp_path)
    source = KafkaSource(broker, archived=Archived.of(tmp_path, span.archived))
    for each in (tmp_path / "refused-read" / "partition=0").iterdir():
        each.unlink()
    with pytest.raises(RecordsGone, match="from the archive are gone"):
        lots(source, [Range(only, 0, 100)])
    (tmp_path / "refused-read" / "topic.json").write_text('{"id": "another"}')
    with pytest.raises(TopicError, match="deleted and made again"):
        span_of([source_of("refused-read")], broker, Asked(), tmp_path)
    with pytest.raises(InputError, match="reads no such partition"):
        span_of([source_of("refused-read")], broker, Asked(begins=(("x/0", 1),)), tmp_path / "a")


@pytest.mark.parametrize(
    ("begin", "given", "expected"),
    [(0, False, 0), (5, True, 1), (10, True, 0), (10, False, 1), (11, False, 0)],
)
def test_where_a_partition_begins_others_may_have_been_before(begin, given, expected):
    there = History(Partition("t", 0), 10 if begin else 0, 90)
    assert len(list(there.losses(begin, 90, given=given))) == expected
