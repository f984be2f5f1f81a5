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
from typing import Any

from riverrun import private
from riverrun.app import App
from riverrun.compiler.scratch import read_from_others, scratch_outputs
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.far import AnyPath, remove
from riverrun.kafka import admin
from riverrun.kafka.compaction import compacted
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.program import ReadTopic
from riverrun.operators.lookups.lookup import Lookup
from riverrun.operators.rules.kernel import Rules
from riverrun.partitions import from_files, real
from riverrun.plan.rows import steps_of
from riverrun.runtime import checkpoint
from riverrun.runtime.spans import BEGINNING, Asked, span_of
from riverrun.sources.span import Span

NOTED = "replay.json"
"""The file of a checkpoint that says what is replayed."""


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
    about: dict[str, Any] = {"program": app.name, "asked": vars(asked)}
    if fresh:
        removed(into, settings)
    before, sources = noted(folder), read_from_others(tuple(app.outputs))
    about["topics"] = _identities(sources, client)
    if before is not None:
        _refuse_other(before, about, into)
        return Replay(own, Span.of(before["span"]), tuple(before["gaps"]), begun=True)
    _refuse_topics(into, client)
    span, lost = span_of(sources, client, asked, settings.archive_root)
    if lost and not anyway:
        raise InputError(
            "not all of that history is there",
            got="; ".join(lost),
            hint="a later --from, or --anyway to replay what is left",
        )
    gaps = [*lost, *doubts(app, sources, client)]
    private.folder(folder)
    note = json.dumps({**about, "span": span.logged(), "gaps": gaps}, indent=1)
    private.write(folder / NOTED, note)
    return Replay(own, span, tuple(gaps), begun=False)


def noted(folder: AnyPath) -> dict[str, Any] | None:
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
    remove(folder)
    return gone


def _refuse_name(app: App, settings: Settings, into: str) -> None:
    folder = settings.checkpoint_of(into)
    if into == app.name or (folder.exists() and noted(folder) is None):
        raise InputError(
            f"there is an application {into!r}", hint="give the replay a name of its own"
        )


def _identities(sources: Sequence[ReadTopic], client: Mapping[str, str]) -> dict[str, str]:
    """Of topics, which tell one from another that is made later under its name."""
    names = sorted({real(s.topic) for s in sources if not from_files(s.topic)})
    return {name: each.id for name, each in KafkaTopics(client).facts(names).items()}


def _refuse_other(before: Mapping[str, Any], about: dict[str, Any], into: str) -> None:
    for topic, identity in about["topics"].items():
        if before.get("topics", {}).get(topic, identity) != identity:
            raise InputError(
                f"the topic {topic!r} was deleted and made again since {into!r} began",
                hint="--fresh begins anew",
            )
    if {name: before.get(name) for name in about} != json.loads(json.dumps(about)):
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


def doubts(app: App, sources: Sequence[ReadTopic], client: Mapping[str, str]) -> Iterator[str]:
    """Why a program that is run again may not give what it gave."""
    for topic in sorted({real(s.topic) for s in sources if not from_files(s.topic)}):
        if compacted(admin.settings(client, topic)):
            yield f"{topic} is compacted: records that later ones replaced may be gone"
    for step in steps_of(tuple(app.outputs)):
        if isinstance(step.does, Rules):
            yield f"{step.name} has no rules here: they are those of the application {app.name}"
        if isinstance(step.does, Lookup):
            yield f"{step.name} looks up what is there now, not what was there then"
