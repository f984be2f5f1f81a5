"""A program run over a part of history, beside the one that runs, into topics of its own.

It is an application under another name: its checkpoint, control log, dead letters and results are
its own, and nothing of the first is touched. What is read of each partition is noted before it
begins, so that a replay that was killed goes on with the same records.
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun import private
from riverrun.app import App
from riverrun.compiler.scratch import read_from_others, scratch_outputs
from riverrun.config import Settings
from riverrun.durations import milliseconds_of
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.kafka.compaction import compacted
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.program import ReadTopic
from riverrun.operators.lookups.lookup import Lookup
from riverrun.operators.rules.kernel import Rules
from riverrun.partitions import Partition, as_texts, from_files, real
from riverrun.plan.rows import steps_of
from riverrun.runtime import checkpoint
from riverrun.sources.admission import Ends
from riverrun.sources.span import Span

NOTED = "replay.json"
"""The file of a checkpoint that says what is replayed."""
BEGINNING = "beginning"


@dataclass(frozen=True)
class Asked:
    """What is to be read: a time, or offsets of partitions, or neither for all there is."""

    start: str | None = None
    """Of records, as ISO 8601; None: from the beginning, but for the offsets."""
    end: str | None = None
    begins: tuple[tuple[str, int], ...] = ()
    """Offsets of some partitions, which have the last word."""
    ends: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(starts: Sequence[str], ends: Sequence[str]) -> Asked:
        """As given on a command line: times, or `topic/0=1200`."""
        start, begins = _parsed(starts, "--from")
        end, until = _parsed(ends, "--to")
        return Asked(None if start == BEGINNING else start, end, begins, until)


@dataclass(frozen=True)
class Replay:
    """A replay that can begin, or go on."""

    app: App
    """The program under its other name."""
    span: Span
    gaps: tuple[str, ...]
    """What retention or compaction has taken of what was asked for."""
    begun: bool
    """Whether an earlier run of it has begun."""

    @property
    def topics(self) -> dict[str, str]:
        """Where results go, by output."""
        return {output.name: output.sink.name for output in self.app.outputs}


def replay(
    app: App, settings: Settings, into: str, asked: Asked, *, fresh: bool, anyway: bool
) -> Replay:
    """What is to be run. What was noted of an earlier run goes on, unless it is to begin anew."""
    _refuse_name(app, settings, into)
    own = copy.copy(app)
    own.name, own.captures = into, []
    own.outputs = list(scratch_outputs(tuple(app.outputs), into))
    own.program()
    folder, client = settings.checkpoint_of(into), settings.client()
    about = {"program": app.name, "asked": vars(asked)}
    if fresh:
        removed(into, settings)
    before = noted(folder)
    if before is not None:
        _refuse_other(before, about, into)
        return Replay(own, Span.of(before["span"]), tuple(before["gaps"]), begun=True)
    _refuse_topics(into, client)
    sources = read_from_others(tuple(app.outputs))
    span, lost = span_of(sources, client, asked)
    if lost and not anyway:
        raise InputError(
            "not all of that history is there",
            got="; ".join(lost),
            hint="a later --from, or --anyway to replay what is left",
        )
    gaps = [*lost, *_doubts(app, sources, client)]
    private.folder(folder)
    note = json.dumps({**about, "span": span.logged(), "gaps": gaps}, indent=1)
    private.write(folder / NOTED, note)
    return Replay(own, span, tuple(gaps), begun=False)


def noted(folder: Path) -> dict[str, Any] | None:
    """What is noted of a replay; None if there is none."""
    try:
        found: dict[str, Any] = json.loads((folder / NOTED).read_text())
    except FileNotFoundError:
        return None
    return found


def removed(into: str, settings: Settings) -> list[str]:
    """Removes all that a replay has left; its topics, by name."""
    folder, client = settings.checkpoint_of(into), settings.client()
    if noted(folder) is None:
        return []
    gone = _topics_of(into, client)
    with checkpoint.held(folder, into):
        for topic in gone:
            admin.delete_topic(client, topic)
    shutil.rmtree(settings.run_of(into), ignore_errors=True)
    shutil.rmtree(folder)
    return gone


def _parsed(given: Sequence[str], option: str) -> tuple[str | None, tuple[tuple[str, int], ...]]:
    times = [each for each in given if "=" not in each]
    if len(times) > 1:
        raise InputError(f"{option} has one time", got=", ".join(times))
    for each in times:
        if each != BEGINNING:
            milliseconds_of(each, option)
    return (times[0] if times else None), tuple(_place(e, option) for e in given if "=" in e)


def _place(text: str, option: str) -> tuple[str, int]:
    partition, _, offset = text.rpartition("=")
    topic, _, number = partition.rpartition("/")
    if not (topic and number.isdecimal() and offset.isdecimal()):
        raise InputError(
            f"{option} is a time or an offset", got=repr(text),
            hint="such as 2026-01-31T12:00:00Z, or orders/0=1200",
        )  # fmt: skip
    return partition, int(offset)


def _refuse_name(app: App, settings: Settings, into: str) -> None:
    folder = settings.checkpoint_of(into)
    if into == app.name or (folder.exists() and noted(folder) is None):
        raise InputError(
            f"there is an application {into!r}", hint="give the replay a name of its own"
        )


def _refuse_other(before: Mapping[str, Any], about: dict[str, Any], into: str) -> None:
    if {name: before[name] for name in about} != json.loads(json.dumps(about)):
        raise InputError(
            f"{into!r} is another replay",
            got=f"of {before['program']}, {_words(before['asked'])}",
            hint="--fresh begins anew, another --into keeps both",
        )


def _words(asked: Mapping[str, Any]) -> str:
    offsets = [f"{p}={n}" for name in ("begins", "ends") for p, n in asked[name]]
    times = f"from {asked['start'] or BEGINNING} to {asked['end'] or 'the end'}"
    return f"{times}{' with ' if offsets else ''}{', '.join(offsets)}"


def _refuse_topics(into: str, client: Mapping[str, str]) -> None:
    """Else `removed` would delete what others have made."""
    if there := _topics_of(into, client):
        raise InputError(
            f"there are topics {into}.… already", got=", ".join(there[:3]),
            hint="give the replay another name",
        )  # fmt: skip


def _topics_of(into: str, client: Mapping[str, str]) -> list[str]:
    return [each.name for each in admin.topics(client) if each.name.startswith(f"{into}.")]


def span_of(
    sources: Sequence[ReadTopic], client: Mapping[str, str], asked: Asked
) -> tuple[Span, list[str]]:
    """From where to where is read, and what is gone of it. Tables are read from their beginning:
    what happens later meets them as they stood."""
    topics, begins, ends, lost = KafkaTopics(client), Ends(), Ends(), list[str]()
    given, until = (dict(each) for each in (asked.begins, asked.ends))
    kafka = [each for each in sources if not from_files(each.topic)]
    for source, facts in zip(kafka, topics.facts([s.topic for s in kafka]).values(), strict=True):
        parts = [Partition(source.topic, number) for number in range(facts.partitions)]
        first, last = topics.starts(parts), topics.ends(parts)
        start, by_time = first, asked.start is not None and not source.table_key
        if asked.start is not None and by_time:
            start = topics.at_time(parts, milliseconds_of(asked.start))
        stop = topics.at_time(parts, milliseconds_of(asked.end)) if asked.end else last
        for each in parts:
            name = str(each.real)
            begins[each] = given.pop(name, start[each])
            ends[each] = max(min(until.pop(name, stop[each]), last[each]), begins[each])
            if first[each] > 0 and begins[each] <= first[each]:
                lost.append(_gone(each, first[each], source, topics))
    for name in (*given, *until):
        raise InputError(
            "the program reads no such partition", got=name,
            hint=f"it reads {', '.join(as_texts(begins))}",
        )  # fmt: skip
    return Span(begins, ends), [each for each in lost if each]


def _gone(partition: Partition, first: int, source: ReadTopic, topics: KafkaTopics) -> str:
    """Of a compacted table the last row of each key is there, wherever it begins."""
    settings = admin.settings(topics.client, real(source.topic))
    if source.table_key and compacted(settings):
        return ""
    return f"{partition.real} begins at offset {first}: retention has deleted what was before"


def _doubts(app: App, sources: Sequence[ReadTopic], client: Mapping[str, str]) -> Iterator[str]:
    for topic in sorted({real(s.topic) for s in sources if not from_files(s.topic)}):
        if compacted(admin.settings(client, topic)):
            yield f"{topic} is compacted: records that later ones replaced may be gone"
    for step in steps_of(tuple(app.outputs)):
        if isinstance(step.does, Rules):
            yield f"{step.name} has no rules here: they are those of the application {app.name}"
        if isinstance(step.does, Lookup):
            yield f"{step.name} looks up what is there now, not what was there then"
