"""Forgetting a subject, step by step. A run that is killed is finished by the next one.

What is looked for afterwards is known only before the key is destroyed. So that a run which goes on
after that can look for it, hashes of it are noted until all is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from riverrun import private
from riverrun.config import Settings
from riverrun.control import FORGET, Command
from riverrun.embedded import kafka
from riverrun.errors import AlreadyRunning
from riverrun.forgetting import KeyPlace, Keys
from riverrun.forgetting.places import place_of
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.kernels.subjects import Subject
from riverrun.partitions import real
from riverrun.runtime import checkpoint
from riverrun.runtime.forgetting.needles import Hashes, Needles, Several, Values
from riverrun.runtime.forgetting.places import Application, kept_for
from riverrun.runtime.forgetting.rows import delete_rows
from riverrun.runtime.forgetting.search import Looked, Search
from riverrun.runtime.forgetting.stores import require_same

PATIENCE = 60.0
"""Seconds for a running application to commit its batch, and the one with the command."""

Key = Literal["destroyed", "was destroyed before", "waiting", "not known"]
Step = Callable[[str], None]
"""Told before each step."""

WAITING = (
    "its last batch is not committed, and would be another one without the key: the key is "
    "destroyed when the application runs again; then run `riverrun forget` once more"
)

NOT_KNOWN = (
    "no value of it was ever sealed here: is it written as in the records? If they are still to be "
    "read, run `riverrun forget` once they are"
)


@dataclass
class Report:
    """What was done, and what was looked at."""

    application: str
    subject: str
    key: Key
    keys: str
    """Where they are."""
    tombstones: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """Tables of databases that have no row of the subject any more."""
    values: int = 0
    """Forms that were looked for."""
    too_short: int = 0
    """Values that were not, since they are in any file."""
    looked_at: list[Looked] = field(default_factory=list)
    not_forgotten: dict[str, str] = field(default_factory=dict)
    """Topics that others write in plain text, and how long they keep it."""
    not_looked_at: list[str] = field(default_factory=list)

    @property
    def readable(self) -> list[str]:
        return [each.place for each in self.looked_at if each.found]

    @property
    def done(self) -> bool:
        return self.key not in ("waiting", "not known") and not self.readable

    def data(self) -> dict[str, Any]:
        return {**asdict(self), "readable": self.readable, "done": self.done}


def forget(
    settings: Settings,
    application: str,
    subject: tuple[str, str | None],
    *,
    also: tuple[Path, ...] = (),
    step: Step = lambda text: None,
) -> Report:
    """Forgets; what it did and saw. `subject` is who, and of which kind if that is not in it."""
    known, place = Application.known(settings, application), place_of(settings, application)
    require_same(settings.checkpoint_of(application), place)
    who = Subject.of(subject[0], known.kinds, kind=subject[1])
    keys, client = Keys(place.store()), kafka.client(settings)
    number = keys.subject(*who)
    if not keys.knows(number):
        return Report(application, str(who), "not known", place.text)
    search = Search(known, client, also)
    note = note_of(settings, application, number)
    step("collect what is to be looked for")
    values = Values(search.values(keys, number, who.kind, who.name))
    # not asked earlier: a key that went meanwhile, for a run that was killed, has not read them all
    before = keys.forgotten(number)
    if not before:
        private.replace(private.folder(note.parent) / note.name, Hashes.of(values).text())
    step("destroy the key")
    key = "was destroyed before" if before else destroyed(known, place, number, client, step=step)
    report = Report(application, str(who), key, place.text)
    report.not_forgotten = {
        **{real(each): kept_for(settings, client, real(each)) for each in known.read_of(who.kind)},
        **dict.fromkeys(known.files_of(who.kind), "for as long as they are there"),
    }
    report.not_looked_at = known.elsewhere
    if key == "waiting":
        return report
    # once more, whoever did it: a kill may have left it in the store's log
    place.store().destroy(number)
    step("write tombstones")
    report.tombstones = tombstones(client, _rows_of(search, who, number))
    report.deleted = delete_rows(known, who, number)
    step("look for what can be read")
    needles = _needles(values, note)
    report.values, report.too_short = needles.count(), needles.short
    report.looked_at = search.looked(needles)
    step("end")
    if report.done:  # else it is looked for again, once what was found is gone
        note.unlink(missing_ok=True)
    return report


def note_of(settings: Settings, application: str, number: bytes) -> Path:
    """Where hashes of what is to be looked for are, until all is done."""
    return settings.run_of(application) / "forgetting" / f"{number.hex()}.json"


def _needles(values: Values, note: Path) -> Needles:
    """Values that are known, and what a run before this one has left of others."""
    return Several(values, Hashes.read(note.read_text())) if note.exists() else values


def destroyed(
    known: Application, place: KeyPlace, number: bytes, client: dict[str, str], *, step: Step
) -> Key:
    """By the application if it runs, once it has committed; else at once."""
    folder = known.settings.checkpoint_of(known.name)
    if checkpoint.holder(folder) is None:
        try:
            with checkpoint.held(folder, known.name):
                if checkpoint.committed(folder):
                    place.store().destroy(number)
                    return "destroyed"
        except AlreadyRunning:
            pass  # it has just been started, and will read the log
    ControlLog(client, known.name).send(Command(0, FORGET, number.hex()))
    if checkpoint.holder(folder) is not None:
        step("wait until the application, which is running, has committed its batch")
    keys, give_up_at = Keys(place.store()), time.monotonic() + PATIENCE
    while checkpoint.holder(folder) is not None and time.monotonic() < give_up_at:
        if keys.forgotten(number):
            return "destroyed"
        time.sleep(0.1)
    return "destroyed" if keys.forgotten(number) else "waiting"


def _rows_of(search: Search, who: Subject, number: bytes) -> dict[str, list[str]]:
    """Topics of tables whose key is the subject, with what it is called there."""
    known = search.application
    existing = {topic.name for topic in admin.topics(search.client)}
    sealed = [each for each in known.keyed_by(who.kind, sealed=True) if each in existing]
    found = {topic: [who.name] for topic in known.keyed_by(who.kind) if topic in existing}
    return found | {topic: search.keys(topic, number) for topic in sealed}


def tombstones(client: dict[str, str], rows: dict[str, list[str]]) -> list[str]:
    """Deletes the row of a key from topics of tables; compaction removes what was there."""
    for topic, keys in rows.items():
        sender = Sender(client, topic)
        for key in keys:
            sender.send(Record(None, key.encode()))
        sender.flush()
    return list(rows)
