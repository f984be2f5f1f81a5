"""`riverrun archive`: records of topics as Parquet, each once, whatever ends it."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import count

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from archives import archive, expired, fill, filled, held_by_archive, held_by_topic, names
from killing import killed_at
from riverrun.archive.copying import Archiver
from riverrun.archive.files import Draft
from riverrun.archive.folder import TopicArchive, name_of, runs_of_records, writing
from riverrun.archive.reading import kept_at_time, kept_records
from riverrun.errors import AlreadyRunning, InputError, RecordsGone, TopicError
from riverrun.kafka import admin
from riverrun.kafka.topics import KafkaTopics
from riverrun.partitions import Partition
from riverrun.runtime.forgetting.places import Application, kept_for
from running import COMMAND, PATIENCE, produce

KILLED = """
import sys
from pathlib import Path
from archives import archive_slowly
archive_slowly({"bootstrap.servers": sys.argv[1]}, Path(sys.argv[2]), "killed")
"""


@pytest.mark.broker
@pytest.mark.parametrize("file_bytes", [1, 60_000, 1 << 27])
def test_an_archive_has_all_that_is_committed_and_no_more(tmp_path, broker, file_bytes):
    topic = f"kept-{file_bytes}"
    filled(broker, topic)
    found = archive(broker, tmp_path, topic, file_bytes=file_bytes)
    rows = held_by_topic(broker, topic)
    assert held_by_archive(tmp_path, topic) == rows
    assert sum(each.records for each in found) == len(rows) == 80
    assert {row[0] for row in rows} == {0, 1}
    ends = KafkaTopics(broker).ends([Partition(topic, n) for n in range(3)])
    assert {each.partition: each.end for each in found} == ends
    assert TopicArchive(tmp_path, topic).partitions() == [0, 1]


@pytest.mark.broker
def test_the_next_run_goes_on_after_the_last_file(tmp_path, broker):
    filled(broker, "going-on")
    archive(broker, tmp_path, "going-on")
    before = names(tmp_path, "going-on", 0)
    assert all(each.files == 0 for each in archive(broker, tmp_path, "going-on"))
    fill(broker, "going-on", rounds=5)
    archive(broker, tmp_path, "going-on")
    now = names(tmp_path, "going-on", 0)
    assert now[:1] == before
    assert int(now[1][:20]) == int(before[0][21:41]) + 1
    assert held_by_archive(tmp_path, "going-on") == held_by_topic(broker, "going-on")


@pytest.mark.broker
def test_an_archiver_that_is_killed_at_any_call_leaves_each_record_once(tmp_path, broker):
    filled(broker, "killed-at", rounds=3)
    rows = held_by_topic(broker, "killed-at")
    for call in count():
        root = tmp_path / str(call)
        root.mkdir()
        killed = killed_at(call, lambda: archive(broker, root, "killed-at", file_bytes=60_000))  # noqa: B023
        archive(broker, root, "killed-at", file_bytes=60_000)
        assert held_by_archive(root, "killed-at") == rows
        assert not list(root.glob("*/partition=*/.*"))
        if not killed:
            break
    assert call > 10


@pytest.mark.broker
def test_an_archiver_that_is_killed_from_outside_leaves_each_record_once(tmp_path, broker):
    admin.create_topic(broker, "killed", partitions=2)
    produce(broker, "killed", [{"n": n} for n in range(10_000)], partitions=2)
    program, draw = tmp_path / "program.py", random.Random(7)
    program.write_text(KILLED)
    root, ended = tmp_path / "root", 0
    environ = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, str(program), broker["bootstrap.servers"], str(root)], env=environ
        )
        give_up = time.monotonic() + PATIENCE
        before = len(list(root.glob("killed/*/*.parquet")))
        wanted = before + draw.randrange(2, 9)
        while process.poll() is None and len(list(root.glob("killed/*/*.parquet"))) < wanted:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        process.kill()
        ended += process.wait() == -signal.SIGKILL
    assert ended > 1
    archive(broker, root, "killed")
    assert held_by_archive(root, "killed") == held_by_topic(broker, "killed")


@pytest.mark.broker
def test_what_retention_took_first_is_told_noted_and_listed(tmp_path, broker, riverrun):
    filled(broker, "gapped")
    riverrun("archive", "gapped", "--to", str(tmp_path))
    end = KafkaTopics(broker).ends([Partition("gapped", 0)])[Partition("gapped", 0)]
    fill(broker, "gapped", rounds=3)
    expired(broker, "gapped", {0: end + 5})
    told = riverrun("archive", "gapped", "--to", str(tmp_path), "--json")
    assert told.code == 0
    text = f"gap: gapped/0: offsets {end} to {end + 4} were deleted before they were archived"
    assert text in told.err
    assert json.loads(told.out)["partitions"][0]["gaps"] == [[end, end + 4]]
    assert name_of(end, end + 5, "gap") in names(tmp_path, "gapped", 0)
    found = riverrun("archive", "--list", "--to", str(tmp_path), "--json")
    [first, second] = json.loads(found.out)
    assert first["partition"] == "gapped/0"
    assert first["first"] == 0
    assert first["gaps"] == [[end, end + 4]]
    assert second["gaps"] == []
    assert first["since"].startswith("2026-01-01 00:00:00")
    shown = riverrun("archive", "--list", "gapped", "--to", str(tmp_path)).out
    assert f"{end:,} to {end + 4:,}" in shown
    # and never again
    assert "gap" not in riverrun("archive", "gapped", "--to", str(tmp_path)).err


@pytest.mark.broker
def test_what_was_read_before_retention_came_is_kept(tmp_path, broker):
    admin.create_topic(broker, "raced", partitions=1)
    produce(broker, "raced", list(range(1000)))
    archiver = Archiver(broker, tmp_path)
    read, calls = archiver.ranges.as_it_comes, []

    def gapped(wanted):
        calls.append(wanted)
        if len(calls) > 1:
            yield from read(wanted)
            return
        rows, _ = next(read(wanted))
        yield rows.slice(0, 100), 100
        expired(broker, "raced", {0: 600})
        raise RecordsGone("records that were still to be read are gone")

    archiver.ranges.as_it_comes = gapped
    with TopicArchive(tmp_path, "raced").held():
        [copied] = archiver.copy(["raced"], lambda done, total: None)
    assert copied.gaps == [(100, 600)]
    assert runs_of_records(TopicArchive(tmp_path, "raced").pieces(0)) == ((0, 100), (600, 1000))
    assert [row[1] for row in held_by_archive(tmp_path, "raced")] == [
        *range(100), *range(600, 1000),
    ]  # fmt: skip


@pytest.mark.broker
def test_a_topic_that_was_made_again_is_refused(tmp_path, broker, riverrun):
    filled(broker, "anew")
    assert riverrun("archive", "anew", "--to", str(tmp_path)).code == 0
    admin.delete_topic(broker, "anew")
    filled(broker, "anew", rounds=9)
    told = riverrun("archive", "anew", "--to", str(tmp_path))
    assert told.code != 0
    assert "the topic 'anew' was deleted and made again" in told.err
    with pytest.raises(TopicError):
        archive(broker, tmp_path, "anew")


@pytest.mark.broker
def test_one_that_follows_takes_what_comes_and_ends_when_asked(tmp_path, broker, riverrun):
    filled(broker, "followed")
    words = ["archive", "followed", "--to", str(tmp_path), "--follow", "--every", "1 second"]
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, text=True)
    give_up = time.monotonic() + PATIENCE
    try:
        for rounds in (3, 4):
            before = len(list(tmp_path.glob("followed/*/*.parquet")))
            fill(broker, "followed", rounds=rounds)
            while len(list(tmp_path.glob("followed/*/*.parquet"))) == before:
                assert process.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.05)
        assert "is being archived already" in riverrun(*words).err
        with pytest.raises(AlreadyRunning):
            archive(broker, tmp_path, "followed")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate()
    assert not list(tmp_path.glob("*/partition=*/.*"))
    archive(broker, tmp_path, "followed")
    assert held_by_archive(tmp_path, "followed") == held_by_topic(broker, "followed")


@pytest.mark.broker
def test_topics_that_are_not_there_and_wrong_words_are_told(tmp_path, broker, riverrun):
    assert "there is no topic 'none'" in riverrun("archive", "none", "--to", str(tmp_path)).err
    assert not list(tmp_path.glob("none"))
    assert "which topics?" in riverrun("archive").err
    wrong = riverrun("archive", "none", "--follow", "--every", "often")
    assert wrong.code != 0
    assert "'none' is not archived" in riverrun("archive", "--list", "none").err


@pytest.mark.broker
def test_a_last_file_that_was_cut_off_is_told_with_what_to_do(tmp_path, broker, riverrun):
    filled(broker, "cut")
    archive(broker, tmp_path, "cut")
    *_, last = TopicArchive(tmp_path, "cut").pieces(0)
    os.truncate(last.path, 50)
    told = riverrun("archive", "cut", "--to", str(tmp_path))
    assert told.code == 2
    assert f"a file of the archive cannot be read [RR103]\n  where: {last.path}" in told.err
    assert "or delete it: the topic still has its records" in told.err
    last.path.unlink()
    assert "archived" in riverrun("archive", "cut", "--to", str(tmp_path)).out
    assert held_by_archive(tmp_path, "cut") == held_by_topic(broker, "cut")
    os.truncate(last.path, 50)
    expired(broker, "cut", {0: 7})
    told = riverrun("archive", "cut", "--to", str(tmp_path))
    assert "as it was written; the topic has none before offset 7 any more" in told.err


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    nowhere, found = TopicArchive(tmp_path / "file", "clicks"), TopicArchive(tmp_path, "clicks")
    (found.partition(0) / ".00000000000000000000.part").mkdir(parents=True)
    (found.partition(0) / f".{name_of(0, 5, 'gap')}").mkdir()
    for write in (
        nowhere.held().__enter__,
        partial(nowhere.note_gap, 0, 0, 5),
        partial(found.note_gap, 0, 0, 5),
        partial(Draft, found.partition(0), 0),
    ):
        with pytest.raises(InputError, match="the folder of the archive cannot be written"):
            write()


def test_a_full_disk_is_not_the_folders_fault(tmp_path):
    with pytest.raises(OSError, match="No space left"), writing(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", ""], "Invalid value for '--to': the name of the folder is empty"),
        (["--follow", "--every", "0 seconds"], "'0 seconds' is no time at all"),
    ],
)
def test_no_folder_and_no_time_are_refused(arguments, told, riverrun):
    outcome = riverrun("archive", "clicks", *arguments)
    assert outcome.code == 2
    assert told in outcome.err


def made(root, *pieces, topic="made", number=0, kind="parquet"):
    """Files that hold one record for each offset."""
    found = TopicArchive(root, topic)
    found.partition(number).mkdir(parents=True, exist_ok=True)
    (found.folder / "topic.json").write_text('{"topic": "made", "id": "1"}')
    for start, end in pieces:
        offsets = list(range(start, end))
        rows = pa.table(
            {
                "offset": offsets, "timestamp": pa.array(offsets, pa.timestamp("ms", "UTC")),
                "timestamp_type": ["create"] * len(offsets), "key": [b"k"] * len(offsets),
                "value": [b"v"] * len(offsets), "headers": [None] * len(offsets),
            }
        )  # fmt: skip
        parquet.write_table(rows, found.partition(number) / name_of(start, end, kind))
    return found


def test_a_folder_that_is_no_archive_is_told(tmp_path):
    found = made(tmp_path, (0, 5))
    (found.folder / "topic.json").unlink()
    with pytest.raises(InputError, match="is no archive of a topic"):
        found.begin("1")
    (found.folder / "topic.json").write_text("[]")
    with pytest.raises(InputError, match="is no archive of a topic"):
        found.begin("1")


def test_files_that_are_missing_overlap_or_are_strangers_are_told(tmp_path):
    holes = made(tmp_path / "a", (0, 5), (8, 9))
    with pytest.raises(InputError, match="a file of the archive is missing") as told:
        holes.pieces(0)
    assert name_of(5, 8, "gap") in str(told.value)
    (holes.partition(0) / name_of(5, 8, "gap")).touch()
    assert runs_of_records(holes.pieces(0)) == ((0, 5), (8, 9))
    with pytest.raises(InputError, match="overlap"):
        made(tmp_path / "b", (0, 5), (4, 9)).pieces(0)
    stranger = made(tmp_path / "c", (0, 5))
    (stranger.partition(0) / "part-0.parquet").touch()
    with pytest.raises(InputError, match="does not belong into the archive"):
        stranger.pieces(0)


def test_files_that_cannot_be_read_or_have_other_columns_are_told(tmp_path):
    broken = made(tmp_path / "a", (0, 5))
    [piece] = broken.pieces(0)
    piece.path.write_bytes(piece.path.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        list(kept_records(broken, 0, 0, 5, headers=True))
    other = made(tmp_path / "b", (0, 5))
    with duckdb.connect() as own:
        own.execute(f"COPY (SELECT 1 AS n) TO '{other.pieces(0)[0].path}' (FORMAT parquet)")
    with pytest.raises(InputError, match="has other columns"):
        list(kept_records(other, 0, 0, 5, headers=True))


def test_records_between_offsets_and_from_a_time_on_are_found(tmp_path):
    found = made(tmp_path, (3, 8), (8, 9), (9, 20))

    def offsets(start, end):
        tables = kept_records(found, 0, start, end, headers=False)
        return [offset for table in tables for offset in table["__offset"].to_pylist()]

    for start, end in ((3, 20), (4, 8), (7, 10), (8, 9), (12, 13)):
        assert offsets(start, end) == list(range(start, end))
    for start, end in ((0, 5), (15, 25), (20, 21)):
        with pytest.raises(RecordsGone):
            offsets(start, end)
    assert [kept_at_time(found, 0, time) for time in (0, 3, 8, 19, 20)] == [3, 3, 8, 19, None]
    assert kept_at_time(found, 7, 0) is None


@pytest.mark.broker
def test_who_forgets_somebody_hears_of_archives_and_looks_into_its_own(
    tmp_path, broker, broker_settings
):
    settings = broker_settings.override(archive=tmp_path)
    admin.create_topic(broker, "in-plain", partitions=1)
    assert kept_for(settings, broker, "in-plain") == "for ever"
    made(tmp_path, (0, 5), topic="in-plain")
    made(tmp_path, (0, 5), topic="labels")
    told = "for ever, its archive for as long as its files are there"
    assert kept_for(settings, broker, "in-plain") == told
    shape = {
        "sources": {"in-plain": {"personal": []}},
        "forgetting": {"topics": ["labels"], "paths": []},
    }
    places = [path for what, path in Application("shop", settings, shape).files(())
              if what == "archive"]  # fmt: skip
    assert places == [tmp_path / "labels"]
