"""What a step that decides does with one page in one batch: history first, then commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import polars as pl

from riverrun.columns import PLACE
from riverrun.durations import BEGINNING
from riverrun.errors import JobError, cause_of
from riverrun.kernels import positions
from riverrun.kernels.functions import running_twice
from riverrun.kernels.letters import Failure, Place, judge
from riverrun.kernels.operator import Batch, Operator, Result, StepState
from riverrun.operators.decide.records import (
    ACCEPTED,
    COMMANDS,
    EVENTS,
    FAILED,
    REJECTED,
    REPLIES,
)
from riverrun.operators.decide.remembered import Key, Remembered, Reply
from riverrun.operators.decide.rules import Happened, Rules, Told
from riverrun.schema import Schema
from riverrun.sourcing import Rejected

EPOCH = datetime(1970, 1, 1)
_unlike_events = pl.any_horizontal(
    pl.col("aggregate", "version", "type", "schema_version").is_null(), pl.col("version") < 1
)
PLACES: dict[str, pl.DataType] = {
    "__at": pl.Datetime("us"), "__pos": pl.Int64(), "__sub": pl.Int64(),
}  # fmt: skip
TYPES: dict[str, pl.DataType] = {
    "VARCHAR": pl.String(), "JSON": pl.String(), "BIGINT": pl.Int64(),
    "TIMESTAMP": pl.Datetime("us"),
}  # fmt: skip
KEPT: dict[str, pl.DataType] = {
    "__slot": pl.Int64(), "__hash": pl.UInt64(), "aggregate": pl.String(), "version": pl.Int64(),
    "state": pl.String(), "position": pl.String(), "rules": pl.String(),
}  # fmt: skip


class Command(NamedTuple):
    """A row of COMMANDS, with its place."""

    id: str | None
    aggregate: str | None
    type: str | None
    data: str | None
    version: int | None
    by: str | None
    at: datetime
    pos: int
    sub: int


@dataclass(slots=True)
class Aggregate:
    hash: int
    version: int
    state: Any
    position: str | None
    """The command of its last event: its topic, partition and offset."""
    rules: str
    """Those that its state was made by."""
    changed: bool = False


class Deciding:
    def __init__(self, step: Operator, rules: Rules, state: StepState, batch: Batch) -> None:
        self.step, self.rules, self.batch = step, rules, batch
        self.kept = state.rows()
        self.now = EPOCH + timedelta(microseconds=batch.tick)
        self.remembered = Remembered(state, batch.tick, rules.remember)
        self.aggregates: dict[str, Aggregate] = {}
        self.events: list[tuple[Any, ...]] = []
        self.replies: list[tuple[Any, ...]] = []
        self.failures: list[Failure] = []

    def result(self) -> Result:
        commands, history = self.batch.inputs
        self._load([each for each in (commands, history) if each is not None])
        if history is not None:
            self._require_events(history)
            self._remember_history(history)
            for row in history.sort("version", "__pos").select(EVENTS.names).iter_rows(named=True):
                self._happened(row)
        if commands is not None:
            rows = commands.sort("__pos", "__sub").select(*COMMANDS.names, *PLACE)
            asked = [self._named(Command(*row)) for row in rows.iter_rows()]
            self.remembered.look_up(
                (each.aggregate, self.aggregates[each.aggregate].hash, each.id)
                for each in asked
                if each.aggregate is not None
            )
            for each in asked:
                self._asked(each)
        self._save()
        return Result(
            streams={
                name: [_frame(rows, columns)]
                for name, rows, columns in (
                    ("events", self.events, EVENTS), ("replies", self.replies, REPLIES),
                )
                if rows
            },
            failed=judge(self.failures, self.batch.topics),
        )  # fmt: skip

    def _load(self, inputs: list[pl.DataFrame]) -> None:
        """The aggregates that something is told of, as they are kept."""
        if not inputs:
            return
        rows = pl.concat([each.select("__hash", "aggregate") for each in inputs])
        keys = rows.filter(pl.col("aggregate").is_not_null()).unique(maintain_order=True)
        found = self.kept.lookup(keys.with_columns(__slot=pl.lit(0, pl.Int64)))
        columns = ("__hash", "aggregate", "version", "state", "position", "rules")
        rows_found = () if found is None else found.select(columns).iter_rows()
        for hashed, name, version, state, position, rules in rows_found:
            made = self.rules.read(state) if rules == self.rules.version else None
            self.aggregates[name] = Aggregate(hashed, version, made, position, rules)
        for hashed, name in keys.iter_rows():
            if name not in self.aggregates:
                begin = self.rules.begin()
                self.aggregates[name] = Aggregate(hashed, 0, begin, None, self.rules.version)

    def _happened(self, row: dict[str, Any]) -> None:
        """An event of history: states begin anew with the first one."""
        known, version = self.aggregates[row["aggregate"]], row["version"]
        if version == 1:
            known.version, known.state, known.rules = 0, self.rules.begin(), self.rules.version
        if version <= known.version and known.rules == self.rules.version:
            return  # it was read before
        if version != known.version + 1 or known.rules != self.rules.version:
            raise JobError(
                "events are missing",
                where=f"{self.step.name}/{row['aggregate']}",
                got=f"version {version} comes after {known.version}",
                hint="states cannot be made of what is not there: a topic of events is kept whole",
            )
        known.state = self._evolved(known.state, row)
        known.version, known.position, known.changed = version, row["position"], True

    def _require_events(self, history: pl.DataFrame) -> None:
        wrong = history.filter(_unlike_events)
        if wrong.height:
            found = wrong.select(EVENTS.names).row(0, named=True)
            raise JobError(
                "a record of the topic of events is no event",
                where=self.step.name,
                got={name: value for name, value in found.items() if value is not None},
                hint="only riverrun writes to it: events have an aggregate, a version and a type",
            )

    def _evolved(self, state: Any, row: dict[str, Any]) -> Any:
        event = Happened(row["type"], row["schema_version"], row["data"])
        where = f"{self.step.name}/{row['aggregate']}, event {row['version']}"
        return self.rules.remade(state, event, where=where)

    def _remember_history(self, history: pl.DataFrame) -> None:
        """Replies to the commands that lately led to events."""
        since = self.now - timedelta(microseconds=self.rules.remember)
        recent = history.filter(pl.col("at") > since).sort("version", "__pos")
        columns = ("aggregate", "command", "version", "type", "schema_version", "data")
        rows = recent.select(columns).rows()
        self.remembered.look_up((row[0], self.aggregates[row[0]].hash, row[1]) for row in rows)
        led: dict[Key, list[tuple[int, Happened]]] = {}
        for aggregate, command, version, *event in rows:
            before = self.remembered.replies.get((aggregate, command))
            if command is not None and (before is None or before.version < version):
                led.setdefault((aggregate, command), []).append((version, Happened(*event)))
        for key, happened in led.items():
            before = self.remembered.replies.get(key, Reply(ACCEPTED, 0, None, "[]"))
            self.remembered.add(key, self.aggregates[key[0]].hash, before.with_events(happened))

    def _named(self, command: Command) -> Command:
        """A command without an id goes by its place; an empty name is none."""
        if not command.aggregate:
            command = command._replace(aggregate=None)
        return command if command.id else command._replace(id=self._position(command))

    def _position(self, command: Command) -> str:
        source, partition, offset = positions.unpack(command.pos)
        return f"{self.batch.topics[source]}/{partition}/{offset}"

    def _asked(self, command: Command) -> None:
        if command.aggregate is None:
            self._set_aside(command, "the command names no aggregate")
            return
        key, known = (command.aggregate, str(command.id)), self.aggregates[command.aggregate]
        reply = self.remembered.replies.get(key)
        if reply is None:
            reply = self._decided(command, known)
            if reply.outcome != FAILED:  # it may be sent again once the code is mended
                self.remembered.add(key, known.hash, reply)
        self.replies.append(
            (command.id, command.aggregate, *reply, command.at, command.pos, command.sub)
        )

    def _decided(self, command: Command, known: Aggregate) -> Reply:
        self._require_rules(command, known)
        position = self._position(command)
        if _before(position, known.position):
            # the checkpoint was lost: it led to no event, or to one that is long ago
            reason = f"it was decided before: {known.position} was, which is behind it"
            return Reply(REJECTED, known.version, reason, "[]")
        if command.version is not None and command.version != known.version:
            reason = f"the version is {known.version}, not {command.version}"
            return Reply(REJECTED, known.version, reason, "[]")
        try:
            happened, state = self._tried(command, known, position)
        except Rejected as refused:
            return Reply(REJECTED, known.version, _text(refused.reason), "[]")
        except (JobError, KeyboardInterrupt):
            raise
        except BaseException as error:  # whatever the program's code raises, sys.exit() too
            return self._failed(command, known, _text(cause_of(error)))
        for number, event in enumerate(happened):
            place = (command.at, command.pos, command.sub + number)
            version = known.version + number + 1
            facts = (command.aggregate, version, *event, self.now, command.id, command.by)
            self.events.append((*facts, position, *place))
        reply = Reply(ACCEPTED, known.version, None, "[]")
        if happened:
            reply = reply.with_events(list(enumerate(happened, known.version + 1)))
            known.version, known.state, known.position = reply.version, state, position
            known.changed = True
        return reply

    def _tried(
        self, command: Command, known: Aggregate, position: str
    ) -> tuple[list[Happened], Any]:
        """The events of a command, and the state after them."""
        told = Told(
            position, now=self.now, aggregate=str(command.aggregate), version=known.version,
            command=str(command.id), by=command.by,
        )  # fmt: skip
        happened = self.rules.decide(known.state, command.type, command.data, told)
        if running_twice():
            self._require_pure(command, known, (told.again(), happened))
        state = known.state
        for event in happened:
            state = self.rules.evolve(state, event)
        return happened, state

    def _require_pure(
        self, command: Command, known: Aggregate, found: tuple[Told, list[Happened]]
    ) -> None:
        """Decided again, from a state that was kept and read: nothing may be different."""
        told, happened = found
        kept = self.rules.kept(known.state)
        state = self.rules.read(kept)
        again: list[Happened] | str
        try:
            again = self.rules.decide(state, command.type, command.data, told)
        except Exception as error:  # it was none the first time
            again = cause_of(error)
        if self.rules.kept(state) != kept or again != happened:
            raise JobError(
                f"{self.rules.state.__name__}.decide gives something else when it is run again",
                where=self.step.at,
                got=f"{command.type}: {happened} became {again}",
                hint="no random numbers, no clock, no new ids of its own: context.now and "
                "context.new_id() give them; and states are never changed in place",
            )

    def _require_rules(self, command: Command, known: Aggregate) -> None:
        if known.rules != self.rules.version:
            raise JobError(
                "a state was made by other rules",
                where=f"{self.step.name}/{command.aggregate}",
                got=f"its rules are {known.rules}, those of the program {self.rules.version}",
                hint="its events were not read: `riverrun rebuild-state` makes states anew",
            )

    def _failed(self, command: Command, known: Aggregate, cause: str) -> Reply:
        self._set_aside(command, cause)
        return Reply(FAILED, known.version, cause, "[]")

    def _set_aside(self, command: Command, cause: str) -> None:
        row = dict(zip(COMMANDS.names, command[: len(COMMANDS.names)], strict=True))
        place, step = Place(command.at, command.pos, command.sub), self.step
        key = {"aggregate": command.aggregate}
        self.failures.append(Failure(place, step.name, cause, step.on_error, key, row))

    def _save(self) -> None:
        changed = [
            (0, each.hash, name, each.version, self.rules.kept(each.state), each.position,
             self.rules.version)
            for name, each in self.aggregates.items()
            if each.changed
        ]  # fmt: skip
        if changed:
            rows = pl.DataFrame(changed, schema=KEPT, orient="row")
            self.kept.append(rows.sort("__slot", "__hash"), BEGINNING)
        self.remembered.save()


def _before(position: str, last: str | None) -> bool:
    """Whether a command stands before another one in the same partition, or is that one."""
    if last is None:
        return False
    partition, _, offset = position.rpartition("/")
    theirs, _, their_offset = last.rpartition("/")
    return partition == theirs and int(offset) <= int(their_offset)


def _text(given: Any) -> str:
    """As it can be written: halves of signs are no text."""
    return str(given).encode("utf-8", "backslashreplace").decode()


def _frame(rows: Iterable[tuple[Any, ...]], columns: Schema) -> pl.DataFrame:
    types = {column.name: TYPES[column.type] for column in columns.columns}
    return pl.DataFrame(list(rows), schema={**types, **PLACES}, orient="row").sort(PLACE)
