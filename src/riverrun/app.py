"""The application: a name, its sources and its outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Literal, Unpack, overload

from riverrun.arguments import checked, names, shown
from riverrun.capture.declared import Captured, declared
from riverrun.capture.options import CaptureOptions
from riverrun.clock import Pace
from riverrun.columns import TRUNCATED
from riverrun.commands import Commands, Reply
from riverrun.compiler.compile import compile_program, spark_functions
from riverrun.config import NAME_RULE
from riverrun.config_tables import NAME
from riverrun.durations import UNITS, Duration, microseconds
from riverrun.errors import Location, ProgramError, caller
from riverrun.forgetting.declared import Personal
from riverrun.formats import Format, format_of
from riverrun.formats.known import NESTED
from riverrun.given import Changelog, Given, kept_by, named_source
from riverrun.kernels.functions import Function
from riverrun.kernels.letters import OnError
from riverrun.kernels.program import Program, ReadTopic
from riverrun.operators.captured import captured_table, is_captured
from riverrun.operators.decide.building import decide, events_topic, rules_of
from riverrun.operators.decide.spec import Topics
from riverrun.operators.to_table import topic_table
from riverrun.operators.whole.step import boundaries, whole_transactions
from riverrun.operators.whole.waiting import WhenFull
from riverrun.outputs import Delivery
from riverrun.partitions import reading
from riverrun.plan.building import checked_name, checked_policy
from riverrun.plan.nodes import Node, Output, Plan
from riverrun.plan.rows import changes
from riverrun.schema import METADATA, parse
from riverrun.sinks.kafka.sink import check_topic
from riverrun.sinks.kafka.sink import topic as sinks_topic
from riverrun.sourced import Events, Sourced, sourced
from riverrun.stream import Stream, Table
from riverrun.times import ColumnTime, EventTime

PAGES = 16
IDLE = UNITS["second"] * 10


@checked
class App:
    """A program under construction. State, topics and checkpoints carry its name."""

    def __init__(
        self, name: str, *, pages: int = PAGES, delivery: Delivery = "exactly once"
    ) -> None:
        self.at = caller()
        if not NAME.fullmatch(name):
            raise ProgramError(NAME_RULE, where=self.at, got=repr(name))
        if not 1 <= pages <= 4096:
            raise ProgramError("pages is a number from 1 to 4096", where=self.at, got=pages)
        self.name, self.pages, self.delivery = name, pages, delivery
        self.outputs: list[Output] = []
        self.functions: dict[str, Function] = {}
        """Those that were handed to .map(…) and .filter(…), by the name that queries call."""
        self.captures: list[Captured] = []
        self.aggregates: list[Sourced[Stream]] = []
        self._clients: dict[str, Commands] = {}

    def stream(
        self,
        topic: str,
        *,
        schema: str,
        key: str | None = None,
        time: str | EventTime = "_timestamp",
        lateness: Duration = "0 seconds",
        idle: Duration = "10 seconds",
        producer: str | None = None,
        punctuation: str | None = None,
        max_ahead: Duration | None = "1 day",
        format: str | Format = "json",
        name: str | None = None,
        start: str = "earliest",
        on_loss: Literal["stop", "skip"] = "stop",
        on_error: OnError | None = None,
        personal: Personal | Sequence[Personal] | None = None,
    ) -> Stream:
        """Read a topic of records, in JSON or another `format`: a name, or one of your own. Or
        files, by a pattern such as "orders/*.csv": CSV, JSON lines, Parquet; see docs/folders.md.

        `time` names the column that tells when an event happened (the record's timestamp if none),
        is an expression over the columns, or one of rr.device_time(…), rr.append_time(),
        rr.processing_time(). `lateness` is how far out of order events may come, `idle` the silence
        after which a partition no longer holds time back; with `producer`, a column, time is kept
        per producer instead of per partition. Records for which `punctuation`, a condition, is true
        are no rows: they say that nothing before their time will come. Records more than
        `max_ahead` ahead are dead letters. `start` is where a new application begins: "earliest",
        "latest" or a time; `on_loss` what to do when retention has deleted unread records;
        `on_error` what to do with records that cannot be read: "set aside" (dead letters), "stop"
        or "drop". A topic that is read in several ways, as a stream and as a table or with other
        times, has a `name` for each but one. rr.personal(…) names columns that are `personal`.
        """
        at = caller()
        read_as, files = named_source(topic, checked_name(name, at), at)
        given, read = Given(parse(schema, at), at), format_of(format, at)
        when = given.time(time)
        for column in (key, producer):
            if column is not None and column not in dict(METADATA):
                given.columns.require(column, at)
        if read.marks:
            raise ProgramError(
                f"records of the format {read.name!r} tell what becomes of the rows of a table",
                where=at,
                hint="read them with app.table(…); its .changes() are a stream",
            )
        given.check_time(when, read)
        given.check_start(start)
        pace = Pace(microseconds(lateness, at), microseconds(idle, at), kept_by(when, producer))
        if pace.by == "tick":
            given.check_processing_time(pace, producer, punctuation)
        node = ReadTopic(
            read_as, given.columns, given.rows(when), key, when,
            pace, start, on_loss, at,
            given.checked_producer(producer), given.checked_condition(punctuation, when),
            None if max_ahead is None else microseconds(max_ahead, at),
            checked_policy(on_error, None, at), format=read, files=files,
        )  # fmt: skip
        return Stream(self, given.with_personal(node, personal))

    def table(
        self,
        topic: str,
        *,
        schema: str,
        key: str | Sequence[str],
        time: str | EventTime | None = None,
        lateness: Duration = "0 seconds",
        idle: Duration = "10 seconds",
        max_ahead: Duration | None = "1 day",
        format: str | Format = "json",
        name: str | None = None,
        record: str | Sequence[str] | None = None,
        keep: Duration | None = None,
        replicate: bool = False,
        on_loss: Literal["stop", "skip"] = "stop",
        on_error: OnError | None = None,
        personal: Personal | Sequence[Personal] | None = None,
    ) -> Table:
        """Read a topic as a table: the last record of each key.

        A record without a value deletes the row of its key; the key of such a record is the
        record's own, as riverrun and others write it: text, or JSON if it is no text or has several
        columns. Records of a key are in one partition. `time`, `lateness` and `idle` matter to
        joins as of event time: since when a version is valid, and how long to wait for the next.
        `record` makes columns of what Kafka knows of a row's record, such as "_offset".
        A row is deleted `keep` after the time of its last record.
        A small table can be replicated: joins then keep it whole in every page, and the stream's
        rows may stay where they are. The rest is as with `stream()`.
        """
        at = caller()
        check_topic(topic, at)
        keys = names("key", key, 'key="id"')
        given = Given(parse(schema, at), at)
        given.check_keys(keys)
        read = format_of(format, at)
        options = Changelog(time, lateness, idle, max_ahead, on_loss, on_error)
        source = options.source(reading(topic, checked_name(name, at)), given, keys, read)
        source = replace(source, key=key if isinstance(key, str) else None)
        source = given.with_personal(source, personal)
        if record is not None:
            shown = names("record", record, '"_offset"')
            source = replace(source, schema=given.with_record(source.schema, shown))
        if TRUNCATED in read.marks:
            if replicate or keep is not None:
                word = "replicated" if replicate else "kept for a time: its database deletes rows"
                raise ProgramError(f"a captured table cannot be {word}", where=at)
            return Table(self, captured_table(source))
        return Table(self, topic_table(source, replicate=replicate, keep=keep))

    @overload
    def capture(self, table: str, **options: Unpack[CaptureOptions]) -> Table: ...
    @overload
    def capture(
        self, table: list[str] | tuple[str, ...], **options: Unpack[CaptureOptions]
    ) -> tuple[Table, ...]: ...

    def capture(
        self,
        table: str | list[str] | tuple[str, ...],
        *,
        database: str | None = None,
        name: str | None = None,
        by: Literal["riverrun", "connect"] | None = None,
        schema: str | None = None,
        key: str | Sequence[str] | None = None,
        time: str | EventTime | None = None,
        lateness: Duration = "0 seconds",
        idle: Duration = "10 seconds",
        max_ahead: Duration | None = "1 day",
        on_error: OnError | None = None,
        transactions: Literal["whole"] | None = None,
        personal: Personal | Sequence[Personal] | None = None,
    ) -> Table | tuple[Table, ...]:
        """A table of a database: all its rows, then every change, by its log.

        `database` is an address, that of the settings or the embedded one if not given; `name` the
        first part of the topics' names, the database's if not given; `by` who does it. Columns
        and key are read when the program is built, unless given. The event time is the commit's.
        Several tables change together with `transactions="whole"`. The rest is as with `table()`.
        """
        at = caller()
        several = names("table", table, '["orders", "lines"]')
        if not several or ((schema or key or personal) and len(several) > 1):
            hint = "capture each by itself, and then app.whole(…) makes them change together"
            fact = "schema, key and personal are of one table"
            fact = fact if several else "capture needs a table"
            raise ProgramError(fact, where=at, hint=hint)
        options = Changelog(time, lateness, idle, max_ahead, "stop", on_error, personal)
        keys = None if key is None else names("key", key, 'key="id"')
        found = [
            declared(each, database=database, name=name, by=by, schema=schema, key=keys, at=at)
            for each in several
        ]
        made = tuple(self._captured(each, options, at) for each in found)
        made = self.whole(*made, transactions=found[0].transactions) if transactions else made
        return made[0] if isinstance(table, str) else made

    def _captured(self, found: Captured, options: Changelog, at: Location) -> Table:
        given = Given(found.columns, at)
        given.check_keys(found.key, single=True)
        source = options.source(found.topic, given, found.key, format_of("debezium", at))
        source = given.with_personal(source, options.personal)
        source = replace(source, captured=f"{found.table} of the capture {found.name}")
        if found not in self.captures:
            self.captures.append(found)
        return Table(self, captured_table(source))

    def whole(
        self,
        *tables: Table,
        transactions: str,
        patience: Duration = "1 minute",
        most: int = 1_000_000,
        when_full: WhenFull = "stop",
    ) -> tuple[Table, ...]:
        """Captured tables that change together: by whole transactions, in the order of commits.

        `transactions` is the topic that tells where they begin and end, as Debezium writes it with
        `provide.transaction.metadata`. Rows wait for the others of their transaction, `most` at
        once: more stop the job, or are let go. Rows that retention or compaction has deleted are
        given up after `patience`. One task writes all results, so that each database, and Kafka,
        takes those of a batch in one transaction.
        """
        at = caller()
        check_topic(transactions, at)
        nodes = (each.node for each in tables if isinstance(each, Table))
        captured = list(filter(is_captured, nodes))
        if not tables or len(captured) < len(tables):
            raise ProgramError(
                "whole takes captured tables, as they are read",
                where=at,
                hint='app.table(…, format="debezium") or app.capture(…), before anything is done',
            )
        if most < 1:
            raise ProgramError("most is a number of rows, 1 or more", where=at, got=most)
        steps = whole_transactions(
            captured,
            boundaries(transactions, at),
            patience=microseconds(patience, at),
            most=most,
            when_full=when_full,
        )
        return tuple(Table(self, step) for step in steps)

    def aggregate(
        self,
        name: str,
        rules: type[Any],
        *,
        commands: str,
        events: str,
        replies: str | None = None,
        version: int = 1,
        remember: Duration = "1 hour",
        personal: Personal | None = None,
    ) -> Sourced[Stream]:
        """Decide commands and keep what happened: event sourcing.

        `rules` is a frozen dataclass, the state of one aggregate, with two pure functions:
        `decide(self, command)` gives events, or `rr.Rejected("why")`; `evolve(self, event)` the
        next state. The classes that they take are told by annotations. `commands` and `events` are
        topics; `replies` is COMMANDS.replies if not given. A command that comes again within
        `remember` takes effect once. `version` is to be raised when code changes that `evolve`
        calls: states are then made anew of the events. Fields of commands and events that are
        `personal` are the aggregate's own: rr.personal("email", subject=name).
        """
        at = caller()
        topics = Topics(commands, events, replies or f"{commands}.replies")
        for topic in topics:
            check_topic(topic, at)
        period = microseconds(remember, at)
        made = rules_of(rules, version=version, remember=period, at=at)
        step = decide(name, made, topics, at, personal=personal)
        found = sourced(step, partial(Stream, self), self.named)
        found.events.to(sinks_topic(topics.events, format=NESTED))
        found.replies.to(sinks_topic(topics.replies, format=NESTED))
        self.aggregates.append(found)
        return found

    def events(self, topic: str, rules: type[Any]) -> Events[Stream]:
        """Read the events of aggregates that another application decides, from the first one on.

        `rules` is the class of that aggregate. The time of events is that of their decision.
        """
        at = caller()
        check_topic(topic, at)
        rows = replace(events_topic(topic, at), time=ColumnTime("at"), pace=Pace(0, IDLE))
        kinds = rules_of(rules, version=1, remember=0, at=at).event_kinds
        return Events(rows, kinds, partial(Stream, self), self.named)

    def send(
        self,
        command: Any,
        *,
        to: str,
        id: str | None = None,
        version: int | None = None,
        by: str | None = None,
        timeout: Duration = "30 seconds",
    ) -> Reply:
        """Send a command to the aggregate `to` of the running application; what became of it.

        It is rejected if the aggregate has another `version` than the one that is given. Sent
        again with its `id`, it takes effect once. For many at once: `riverrun.commands.Commands`.
        """
        client = self._commands_for(command, caller())
        return client.send(command, to=to, id=id, version=version, by=by, timeout=timeout)

    def _commands_for(self, command: Any, at: Location) -> Commands:
        for each in self.aggregates:
            if each.takes(command):
                topics = each.topics
                if topics.commands not in self._clients:
                    self._clients[topics.commands] = Commands(
                        topics.commands, replies=topics.replies, events=each.event_types
                    )
                return self._clients[topics.commands]
        known = [name for each in self.aggregates for name in each.command_names]
        raise ProgramError(
            f"no aggregate takes the command {type(command).__name__}", where=at,
            hint=f"there is {', '.join(known)}" if known else "make one: app.aggregate(…)",
        )  # fmt: skip

    def add(self, output: Output) -> None:
        """Note an output; `.to(…)` makes it."""
        if not isinstance(output, Output):
            raise ProgramError("add needs an output", where=caller(), got=shown(output))
        node = output.input
        output.sink.check(node.schema, table=changes(node), where=output.at)
        self.outputs.append(output)

    def stream_of(self, node: Node) -> Stream:
        """The rows of a node, as a step that has several outputs gives them."""
        if not isinstance(node, Node):
            raise ProgramError("stream_of needs a node", where=caller(), got=shown(node))
        return Stream(self, node)

    def named(self, function: Function) -> Function:
        """Note a function that was handed over; `.map(…)` and `.filter(…)` do."""
        if not isinstance(function, Function):
            raise ProgramError("named needs a function", where=caller(), got=shown(function))
        names = (f"{function.name} {number}" if number else function.name for number in count())
        name = next(each for each in names if each not in self.functions)
        self.functions[name] = replace(function, name=name)
        return self.functions[name]

    def program(self) -> Program:
        """The program, compiled; an error here names the line at fault."""
        if not self.outputs:
            raise ProgramError(
                f"the application {self.name!r} has no output",
                where=self.at,
                hint="end a stream or table with .to(…)",
            )
        return compile_program(self.plan())

    def plan(self) -> Plan:
        """What was declared, before any pass."""
        return Plan(self.name, self.pages, tuple(self.outputs), self.delivery)

    def spark_functions(self) -> dict[str, Callable[[Any], Any]]:
        """The functions of .spark(…) steps, by the step's name."""
        return spark_functions(tuple(self.outputs))
