"""Aggregates seen from outside: where they are, what has happened to one, and whether the states
of a running application are what its events say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from riverrun import exact
from riverrun.asking import Asker
from riverrun.compiler import upgrades
from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import InputError, JobError
from riverrun.forgetting import Keys
from riverrun.forgetting.places import place_of as keys_of
from riverrun.kafka.ranges import RangeReader
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.personal import seal_fields
from riverrun.operators.decide.columns import names_of
from riverrun.operators.decide.records import ACCEPTED, FAILED, REJECTED
from riverrun.operators.decide.rules import Happened, Rules, Told
from riverrun.operators.decide.spec import RULES, Decide
from riverrun.partitions import Partition, Range
from riverrun.runtime import applications, runs
from riverrun.sourcing import Rejected

PIECE = 50_000
"""Offsets that are read together."""
AT_ONCE = 2_000
"""States that are asked for together."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Place:
    """Where aggregates of one kind are."""

    application: str
    step: str
    commands: str
    events: str
    replies: str
    program: Path | None
    """The file that the application last ran from."""
    rules: str | None
    """The version of the rules that it last ran by."""
    personal: Mapping[str, Any] = field(default_factory=dict)
    """What is sealed of commands: `subject` and `columns`."""
    receives: bool = False
    """Whether the application sends commands, too."""


def place_of(settings: Settings, name: str) -> Place:
    """Of `STEP` or `APP.STEP`, as an application here has it."""
    known = [place for app in applications.names(settings) for place in _places(settings, app)]
    found = [each for each in known if name in (each.step, f"{each.application}.{each.step}")]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{each.application}.{each.step}" for each in known) or "none"
    several = "several applications have" if found else "no application here has"
    raise InputError(f"{several} aggregates {name!r}", hint=f"there is: {listed}")


def _places(settings: Settings, application: str) -> Iterator[Place]:
    folder = settings.checkpoint_of(application)
    shape = upgrades.read(folder) or {"steps": {}, "settings": {}}
    program = runs.last(folder).get("program")
    for name, facts in shape["steps"].items():
        if facts["does"] == Decide.kind:
            settings_of, commands = shape["settings"][name], facts["commands"]
            [personal] = shape.get("sources", {}).get(commands, {}).get("personal") or [{}]
            written = shape.get("forgetting", {}).get("topics", ())
            yield Place(
                application, name, commands, facts["events"], settings_of["replies"],
                Path(program) if program else None, settings_of.get(RULES), personal,
                receives=commands in written,
            )  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """An event as it is in its topic."""

    aggregate: str
    version: int
    event: Happened
    at: str
    command: str
    by: str | None
    position: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Recorded:
        data = exact.dumps(value["data"], separators=(",", ":"))
        event = Happened(value["type"], value["schema_version"], data)
        return cls(
            value["aggregate"], value["version"], event, value["at"], value["command"],
            value.get("by"), value.get("position"),
        )  # fmt: skip


@dataclass(frozen=True)
class Sent:
    """A command as it is in its topic, and when it came."""

    position: str
    at: datetime
    value: Mapping[str, Any]
    aggregate: str
    forgotten: bool = False
    """Whether it held something that cannot be read any more."""

    @property
    def id(self) -> str:
        return str(self.value.get("id") or self.position)


@dataclass(frozen=True)
class Redecided:
    """What became of a command, and what would by today's code."""

    sent: Sent
    then: list[Recorded]
    outcome: str
    events: list[Happened]
    reason: str | None

    @property
    def same(self) -> bool | None:
        """None where nobody can tell: it is decided without what the command held then."""
        if self.sent.forgotten:
            return None
        return self.events == [each.event for each in self.then]


@dataclass
class Past:
    """What has happened to one aggregate."""

    rules: Rules
    events: list[Recorded]
    states: list[Any] = field(default_factory=list)
    """Before the first event, and after each."""

    def __post_init__(self) -> None:
        self.states = [self.rules.begin()]
        for number, each in enumerate(self.events, 1):
            if each.version != number:
                raise JobError(
                    "events are missing", where=each.aggregate,
                    got=f"version {each.version} comes after {number - 1}",
                )  # fmt: skip
            where = f"{each.aggregate}, event {number}"
            self.states.append(self.rules.remade(self.states[-1], each.event, where=where))

    def state(self, version: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rules.kept(self.states[version]))
        return found

    def redecided(self, commands: list[Sent]) -> Iterator[Redecided]:
        """What today's code would decide of each command, from the state of then."""
        by_position: dict[str | None, list[Recorded]] = {}
        for each in self.events:
            by_position.setdefault(each.position, []).append(each)
        seen = set()
        for sent in commands:
            then = by_position.get(sent.position, [])
            if sent.id in seen and not then:
                continue  # it came twice, and took effect once
            seen.add(sent.id)
            yield self._decided(sent, then, self._version_before(sent.position))

    def _version_before(self, position: str) -> int:
        """As a command found it. Those before it may be gone from their topic."""
        partition, offset = _place(position)
        found = 0
        for each in self.events:
            theirs = _place(each.position) if each.position else None
            if theirs is not None and theirs[0] == partition and theirs[1] >= offset:
                break
            if theirs is None or theirs[0] == partition:
                found = each.version
        return found

    def _decided(self, sent: Sent, then: list[Recorded], version: int) -> Redecided:
        value, at = sent.value, sent.at
        if then:
            at = datetime.fromisoformat(then[0].at).astimezone(UTC).replace(tzinfo=None)
        told = Told(
            sent.position, now=at, aggregate=sent.aggregate, version=version,
            command=sent.id, by=value.get("by"),
        )  # fmt: skip
        if value.get("version") not in (None, version):
            reason = f"the version is {version}, not {value['version']}"
            return Redecided(sent, then, REJECTED, [], reason)
        try:
            data = exact.dumps(value.get("data") or {})
            events = self.rules.decide(self.states[version], value.get("type"), data, told)
        except Rejected as refused:
            return Redecided(sent, then, REJECTED, [], refused.reason)
        except Exception as error:  # whatever the program's code raises
            return Redecided(sent, then, FAILED, [], f"{type(error).__name__}: {error}")
        plain = [
            each._replace(data=exact.dumps(exact.loads(each.data), separators=(",", ":")))
            for each in events
        ]
        return Redecided(sent, then, ACCEPTED, plain, None)


def named(value: Mapping[str, Any], key: bytes | None) -> str | None:
    """The aggregate of a command: as its value names it, or its key."""
    found = value.get("aggregate")
    if found is None and key is not None:
        return key.decode(errors="replace")
    return None if found is None else str(found)


def sealed(sent: Sent, place: Place, rules: Rules, keys: Keys) -> Sent:
    """A command as the application has read it: what is personal in it, or may be, is sealed; what
    is no object could be anything, and is not kept."""
    given = sent.value.get("data")
    if not isinstance(given, dict):
        return replace(sent, value={**sent.value, "data": None})
    kind, data = place.personal["subject"], dict(given)
    known = {name for each in rules.commands for name in names_of(each)}
    seal = partial(keys.seal, kind, again=place.receives)
    seal_fields(seal, known - {*place.personal["columns"]}, [(sent.aggregate, data)])
    gone = data != given and keys.forgotten(keys.subject(kind, sent.aggregate))
    return replace(sent, value={**sent.value, "data": data}, forgotten=gone)


def _value(text: bytes | None) -> Any:
    try:
        return exact.loads(text or b"")
    except ValueError:
        return None


def _place(position: str) -> tuple[str, int]:
    partition, _, offset = position.rpartition("/")
    return partition, int(offset)


class Topics:
    """Reads the topics of aggregates, whole."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.client = settings, kafka.client(settings)

    def past(self, rules: Rules, place: Place, aggregate: str, progress: Progress) -> Past:
        found = (value for *_, value in self._records(place.events, progress, only=aggregate))
        events = sorted(map(Recorded.of, found), key=lambda each: each.version)
        return Past(rules, events)

    def commands(
        self, rules: Rules, place: Place, aggregate: str, progress: Progress
    ) -> list[Sent]:
        """Those that name it, or have its name for a key, as rules are given them."""
        found = [
            Sent(position, datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None), value, own)
            for position, at, key, value in self._records(place.commands, progress)
            if isinstance(value, dict) and (own := named(value, key)) == aggregate
        ]
        if not place.personal:
            return found
        keys = Keys(keys_of(self.settings, place.application).store())
        return [sealed(each, place, rules, keys) for each in found]

    def events(self, place: Place, progress: Progress) -> Iterator[Recorded]:
        """All, each aggregate's in their order."""
        for *_, value in self._records(place.events, progress):
            yield Recorded.of(value)

    def _records(
        self, topic: str, progress: Progress, *, only: str | None = None
    ) -> Iterator[tuple[str, int, bytes | None, Any]]:
        """Position, milliseconds, key and value of each record, partition by partition; None for
        a value that is no JSON."""
        topics = KafkaTopics(self.client)
        count = topics.facts([topic])[topic].partitions
        partitions = [Partition(topic, number) for number in range(count)]
        starts, ends = topics.starts(partitions), topics.ends(partitions)
        done, total = 0, sum(ends[each] - starts[each] for each in partitions)
        reader = RangeReader(self.client)
        for each in partitions:
            for start in range(starts[each], ends[each], PIECE):
                piece = Range(each, start, min(start + PIECE, ends[each]))
                for read in reader.read([[piece]]):
                    rows = read[each]
                    if only is not None:
                        rows = rows.filter(pc.equal(rows["__key"], only.encode()))
                    columns = ("__offset", "__timestamp", "__key", "__value")
                    for offset, at, key, value in zip(
                        *(rows[c].to_pylist() for c in columns), strict=True
                    ):
                        yield f"{topic}/{each.number}/{offset}", at, key, _value(value)
                done += piece.end - piece.start
                progress(done, total)


@dataclass(frozen=True)
class Comparison:
    """States of a running application, and what its events say."""

    aggregates: int
    events: int
    differing: list[dict[str, Any]]
    other_rules: str | None
    """In words, if these states were made by other rules than those of the application."""


def compared(
    settings: Settings, place: Place, rules: Rules, *, asking: Progress, reading: Progress
) -> Comparison:
    """Each state, made of its events alone, beside the one that the application has."""
    states = _states(settings, place, asking)
    made: dict[str, tuple[int, Any]] = {}
    count = 0
    for each in Topics(settings).events(place, reading):
        count += 1
        version, state = made.get(each.aggregate, (0, rules.begin()))
        wanted = states.get(each.aggregate, (0, ""))[0]
        if version < wanted:  # later ones came after it was asked
            where = f"{place.step}/{each.aggregate}, event {each.version}"
            made[each.aggregate] = (each.version, rules.remade(state, each.event, where=where))
    differing = []
    for name, (version, state) in states.items():
        found = made.get(name, (0, rules.begin()))
        kept = rules.kept(found[1])
        if found[0] != version or json.loads(kept) != json.loads(state):
            differing.append(
                {
                    "aggregate": name, "version": version, "state": json.loads(state),
                    "of_events": {"version": found[0], "state": json.loads(kept)},
                }
            )  # fmt: skip
    return Comparison(len(states), count, differing, _other_rules(place, rules))


def _other_rules(place: Place, rules: Rules) -> str | None:
    """States of two versions may differ, and neither be wrong."""
    if place.rules in (None, rules.version):
        return None
    return (
        f"the program has other rules ({rules.version}) than {place.application} runs by "
        f"({place.rules}): what differs may be right under both"
    )


def _states(settings: Settings, place: Place, progress: Progress) -> dict[str, tuple[int, str]]:
    """Version and state of each aggregate, asked for in parts."""
    asker, step = Asker(place.application, settings=settings), place.step
    [counted] = asker.ask(step, "SELECT count(*) AS n FROM rows").rows
    parts = -(-counted["n"] // AT_ONCE) or 1
    found: dict[str, tuple[int, str]] = {}
    for number in range(parts):
        rows = asker.ask(
            step,
            "SELECT aggregate, version, state FROM rows "
            f"WHERE hash(aggregate) % {parts} = {number}",
        ).rows
        found |= {row["aggregate"]: (row["version"], row["state"]) for row in rows}
        progress(number + 1, parts)
    return found
