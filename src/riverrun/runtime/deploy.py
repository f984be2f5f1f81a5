"""A version of an application beside the current one: made ready to run, and taken away again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from riverrun import far
from riverrun.app import App
from riverrun.compiler import new_columns, upgrades
from riverrun.compiler.scratch import read_from_others
from riverrun.compiler.shape import shape
from riverrun.config import Settings
from riverrun.durations import milliseconds_of
from riverrun.errors import InputError
from riverrun.kafka.control import ControlLog
from riverrun.kafka.promotions import PromotionLog
from riverrun.runtime import checkpoint, copying, deployments
from riverrun.runtime.deployments import Entry
from riverrun.runtime.made import STAYS, Fact, Premises, facts, text
from riverrun.runtime.spans import BEGINNING, Asked, span_of
from riverrun.runtime.versioned import beside
from riverrun.sources.span import EVERYTHING, Span
from riverrun.versions import CURRENT, Version

STATE = "state"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Removed:
    """What is gone with a version, and what stays of it."""

    gone: list[str]
    stays: list[str]


@dataclass(frozen=True)
class Deploy:
    """A program that is to run as a version."""

    app: App
    program: Path
    version: Version
    settings: Settings
    client: Mapping[str, str]

    @property
    def folder(self) -> far.AnyPath:
        return self.settings.checkpoint_of(self.version.application)

    def ready(self, start: str | None, *, fresh: bool, tell: Tell) -> Span:
        """Where it begins. One that was deployed before goes on."""
        own = beside(self.app, self.version)
        made = facts(own.program().outputs, self.settings.home)
        _check_start(start)
        if fresh and deployments.standing(self.settings, self.version):
            _require_not_public(self.version, self.client)
            remove(self.settings, self.version, self.client)
        before = deployments.standing(self.settings, self.version)
        if before is None:
            self._refuse_what_is_there(made)
        elif start is not None and start != before.start and not fresh:
            raise InputError(
                f"{self.version.application!r} has begun elsewhere",
                got=f"from {before.start or 'where the program says'}",
                hint="leave --from out to go on, or --fresh begins anew",
            )
        PromotionLog(self.client, self.version.of).make()
        begin = start or (before.start if before else "")
        with checkpoint.held(self.folder, self.version.application):
            self._require_state(begin, own)
            span = self._span(begin, tell)  # what cannot be is refused before anything is noted
            self._note(before, begin, made)
            if not checkpoint.begun(self.folder):
                self._begin(begin, tell)
        return span

    def _refuse_what_is_there(self, made: list[Fact]) -> None:
        """Else what others have made would be written to, and go with the version."""
        premises, name = Premises(self.settings, self.client), self.version.application
        there = [*premises.there(made), *premises.own_topics(name)]
        if there or (self.folder / "query").exists():
            raise InputError(
                f"something is where {name!r} would be",
                got=", ".join(map(text, there[:3])) or self.folder,
                hint="give the version another name, or remove it first",
            )

    def _require_state(self, begin: str, own: App) -> None:
        """A copy fits by the rules of upgrades; topics of the program's own begin empty."""
        if begin != STATE or checkpoint.begun(self.folder):
            return
        folder = self._here(self.version.of)
        before, now = upgrades.read(folder), shape(own.program())
        if before is None:
            raise InputError(f"{self.version.of!r} has no state here", where=folder)
        if topics := own.program().own_topics:
            raise InputError(
                "what a program writes and reads again is not copied",
                got=", ".join(sorted(topics)),
                hint=f"--from {BEGINNING}, or a time",
            )
        upgrades.require_fit(before, now, folder, self.version.of)
        if again := new_columns.to_read_again(before, now):
            raise InputError(
                "tables with new columns would have to be read once more",
                got=", ".join(sorted(again)),
                hint=f"--from {BEGINNING}",
            )

    def _note(self, before: Entry | None, begin: str, made: list[Fact]) -> None:
        """What was made before is still to be removed. The same program that is started again is
        no other deployment."""
        all_made = [*(before.made if before else ()), *made]
        all_made = [each for n, each in enumerate(all_made) if each not in all_made[:n]]
        now = deployments.deployed(self.version, self.program, start=begin, made=all_made)
        if before is None or replace(now, at=before.at, by=before.by) != before:
            deployments.note(self.settings, self.version.of, now)

    def _begin(self, begin: str, tell: Tell) -> None:
        if begin != STATE:
            self._copy_control_log()
            return
        source, target = (self._here(each) for each in (self.version.of, self.version.application))
        with copying.copied(source, target) as batch:
            self._copy_control_log()
        tell(f"its state is that of {self.version.of} after batch {batch:,}")

    def _here(self, application: str) -> Path:
        return checkpoint.require_here(
            self.settings.checkpoint_of(application),
            "a copy of its state",
            f"--from {BEGINNING}, or a time",
        )

    def _copy_control_log(self) -> None:
        """What was asked of the current one holds for the version, too: state may rest on it, and
        how far it has come is a place in the log."""
        theirs = ControlLog(self.client, self.version.of)
        if theirs.exists():
            mine = ControlLog(self.client, self.version.application)
            mine.make()
            mine.send(*theirs.commands(mine.end(), theirs.end()))

    def _span(self, begin: str, tell: Tell) -> Span:
        if begin in ("", STATE) or checkpoint.begun(self.folder):
            return EVERYTHING
        sources = read_from_others(tuple(self.app.outputs))
        asked = Asked(start=None if begin == BEGINNING else begin)
        # it goes on with the topics for ever: what only an archive has is for a replay
        found, lost = span_of(sources, self.client, asked, None)
        for each in lost:
            tell(f"warning: {each}")
        return Span(found.begins)


def _check_start(start: str | None) -> None:
    if start not in (None, BEGINNING, STATE):
        milliseconds_of(start, "--from")


def _require_not_public(version: Version, client: Mapping[str, str]) -> None:
    """What others read would begin anew: streams would have each row again."""
    known = PromotionLog(client, version.of).look()
    if version.name in (known.public, known.open and known.open.version):
        raise InputError(
            f"{version.name} of {version.of} is public, or about to be",
            hint=f"promote another one first: `riverrun promote {version.of} {CURRENT}`",
        )


def remove(settings: Settings, version: Version, client: Mapping[str, str]) -> Removed:
    """Takes away all that is a version's own; nothing of it may run."""
    entry, name = deployments.require(settings, version), version.application
    folder, premises = settings.checkpoint_of(name), Premises(settings, client)
    with checkpoint.held(folder, name):
        there = premises.there(entry.made)
        there += [each for each in premises.own_topics(name) if each not in there]
        for each in there:
            premises.remove(each)
        premises.forget(entry.made, name)
        shutil.rmtree(settings.run_of(name), ignore_errors=True)
        far.remove(folder)
    stays = [text(each) for each in entry.made if each["kind"] == STAYS]
    return Removed([text(each) for each in there], stays)


def retire(settings: Settings, version: Version, client: Mapping[str, str]) -> Removed:
    """Removed, and noted as such: the same name can be given again."""
    _require_not_public(version, client)
    removed = remove(settings, version, client)
    deployments.note(settings, version.of, deployments.retired(version))
    return removed
