"""A running application: everything is checked first; then it runs, is watched, and stops."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming import StreamingQuery

from riverrun import private
from riverrun.app import App
from riverrun.compiler.shape import shape as shape_of
from riverrun.config import Settings
from riverrun.durations import Duration, microseconds
from riverrun.embedded import java, kafka, postgres
from riverrun.errors import ConfigError, TopicError
from riverrun.kafka import admin, lag
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels import kept
from riverrun.kernels.first_look import never_given
from riverrun.kernels.program import Program
from riverrun.outputs import Need, Places, Sink, destinations
from riverrun.runtime import capturing, checkpoint, runs, upgrades
from riverrun.runtime.compaction import compaction_warnings
from riverrun.sources.kafka import KafkaSource
from riverrun.spark import drain
from riverrun.spark import session as spark_session
from riverrun.spark.executors import folder_of
from riverrun.spark.failures import translated
from riverrun.spark.lower import start_query
from riverrun.spark.source import Job
from riverrun.spark.writer import last_status
from riverrun.times import AppendTime

Tell = Callable[[str], None]
WATCH = 0.1
DRAIN_WITHIN = 60
"""Seconds that a batch has to end after the application was told to stop."""


@dataclass(frozen=True)
class Options:
    """How to run, beyond what the program and the settings say."""

    fresh: bool = False
    """Forget the checkpoint and start over."""
    once: bool = False
    """Read what there is, then stop."""
    close: bool = False
    """With `once`: windows close in the end, and rows that wait leave."""
    max_events: int = 500_000
    keep_written: bool = False
    """Results of a half-written batch stay as they are, though the program changed."""
    batch_time: Duration | None = "5 seconds"
    """How long a batch should take: its size follows. None: as large as it may be."""


class Running:
    """A started application."""

    def __init__(self, query: StreamingQuery, job: Job, checkpoint: Path, tell: Tell) -> None:
        self.query, self.program, self.status_folder = query, job.program, job.status
        self.checkpoint, self.tell = checkpoint, tell
        self.draining_since: float | None = None
        self.waiting: list[str] = []
        self.finished = False
        """Whether it came to its end by itself: all that there was is read."""

    def status(self) -> dict[str, Any] | None:
        """Counts and clocks after the last batch, and the lag; None before the first."""
        status = last_status(self.status_folder)
        file = self.status_folder / lag.LAG
        return status and {**status, "lag": lag.of_batch(file, status["batch"])}

    def watch(self) -> Iterator[dict[str, Any]]:
        """Each batch's status as it is committed, until the query ends or is to end."""
        with translated():
            yield from self._statuses()
            self.query.stop()
            self.query.awaitTermination()

    def _statuses(self) -> Iterator[dict[str, Any]]:
        seen = None
        while True:
            self.finished = not self.query.isActive and self.draining_since is None
            over = not self.query.isActive or self._to_end()
            status = self.status()
            if status and status["batch"] != seen:
                if seen is None:
                    for text in never_given(self.program, status):
                        self.tell(f"warning: {text}")
                seen = status["batch"]
                yield status
            elif over:
                break
            else:
                self._tell_of_waiting()
                time.sleep(WATCH)

    def _tell_of_waiting(self) -> None:
        """A task that waits for a database says so."""
        now = kept.awaited(self.checkpoint / checkpoint.FOUND)
        for text in now:
            if text not in self.waiting:
                self.tell(f"warning: {text}")
        if self.waiting and not now:
            self.tell("over: the database answers again")
        self.waiting = now

    def drain(self) -> bool:
        """Lets the batch that runs finish, and no other begin; False if that was asked before."""
        if self.draining_since is not None:
            return False
        self.draining_since = time.monotonic()
        drain.ask(self.status_folder)
        self.tell("finishing the batch; Ctrl-C again stops at once")
        return True

    def _to_end(self) -> bool:
        wish = checkpoint.wish_to_stop(self.checkpoint)
        if wish == "drain" and self.drain():
            return False
        if self.draining_since is None:
            return wish == "now"
        late = time.monotonic() - self.draining_since > DRAIN_WITHIN
        if late:
            self.tell(f"the batch has not ended after {DRAIN_WITHIN} s: it will be run again")
        return late or wish == "now" or drain.done(self.status_folder)

    def stop(self) -> None:
        self.query.stop()


@contextmanager
def started(app: App, settings: Settings, options: Options, tell: Tell) -> Iterator[Running]:
    """The application, running; everything that was started is stopped on the way out."""
    program, batch_seconds = app.program(), _seconds(options.batch_time)
    check_master(program, settings.master)
    folder, run_folder = settings.checkpoint_of(program.name), settings.run_of(program.name)
    log, status = run_folder / "spark.log", run_folder / "status"
    with (
        checkpoint.held(folder, program.name),
        runs.noted(folder, master=settings.master, log=log) as run,
    ):
        _cleared(run_folder, status)
        if options.fresh:
            checkpoint.forget(folder)
        shape = shape_of(program)
        upgrades.require_fit(folder, shape)
        found = java.find(settings.cache)
        client = _kafka(settings, tell)
        capturing.ensure(app.captures, settings, tell)
        _check_surroundings(program, client, tell)
        places = _prepared(program, settings, client, tell)
        tell(f"starting Spark; its log is {log}")
        spark = spark_session.start(
            program.name, settings=settings, java=found, folder=run_folder,
            program=folder_of(app.at.file),
        )  # fmt: skip
        try:
            identity = checkpoint.identity(folder, keep_written=options.keep_written)
            for destination in destinations(program.outputs, places):
                destination.take_over(program.name, identity.run)
            job = Job(
                program=program,
                source=KafkaSource(client, settings.reader),
                status=status,
                collect=None,
                parallel=spark.parallel,
                max_events=options.max_events,
                batch_seconds=batch_seconds,
                identity=identity,
                places=places,
                query_id=f"{program.name}-{identity.run}",
                state_memory=settings.state_memory,
                close=options.close,
                kept=folder / checkpoint.FOUND,
            )
            query = start_query(
                spark.session, job, app.spark_functions(), checkpoint=folder / "query",
                once=options.once,
            )  # fmt: skip
            checkpoint.note(folder, shape)
            run.note(started_at=time.time())
            tell("running; Ctrl-C stops it")
            running = Running(query, job, folder, tell)
            with capturing.watched(app.captures, settings, tell):
                yield running
            run.end = "finished" if running.finished else "stopped"
            with suppress(Py4JError, OSError):  # the JVM may have been ended with us
                query.stop()
        finally:
            tell("stopping Spark")
            spark.stop()


def _cleared(run_folder: Path, status: Path) -> None:
    """Folders for what this run tells; what the last one told is gone."""
    shutil.rmtree(status, ignore_errors=True)
    private.folder(run_folder)
    private.folder(status)


def _prepared(program: Program, settings: Settings, client: dict[str, str], tell: Tell) -> Places:
    """Where results go: everything there is ready to take them."""
    places = places_of(program, settings, client, tell)
    for destination, outputs in destinations(program.outputs, places).items():
        destination.prepare(outputs)
    return places


def places_of(program: Program, settings: Settings, client: dict[str, str], tell: Tell) -> Places:
    """What the destinations of a program need to know; servers that they need are started."""
    address = _postgres(program, settings, tell)
    return Places(
        tuple(client.items()), program.delivery, address, settings.compaction_lag // 1000,
        valkey=settings.valkey, home=str(settings.home),
    )  # fmt: skip


def _kafka(settings: Settings, tell: Tell) -> dict[str, str]:
    if settings.brokers is None and not kafka.running(settings):
        tell("starting Kafka")
    return kafka.ensure(settings)


def _postgres(program: Program, settings: Settings, tell: Tell) -> str | None:
    if not _needing("PostgreSQL", program):
        return None
    if settings.postgres is None and not postgres.running(settings):
        tell("starting PostgreSQL")
    return postgres.ensure(settings)


def check_master(program: Program, master: str) -> None:
    """A file may be on this machine only."""
    outputs = [(sink.text, "an output") for sink in _needing("one machine", program)]
    steps = [s.name for s in program.steps if "one machine" in s.does.needs()]
    here = [*outputs, *((f"the step {name}", "a lookup") for name in steps)]
    if here and not re.match(r"local(\[|$)", master):
        raise ConfigError(
            f"a program with such {here[0][1]} runs on one machine",
            where=here[0][0],
            got=f"the Spark master {master}",
            hint="use --master local[*], or a database that is a server, such as PostgreSQL",
        )


def _needing(what: Need, program: Program) -> list[Sink]:
    return [output.sink for output in program.outputs if what in output.sink.needs()]


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else max(microseconds(duration, "--batch-time"), 1) / 1e6


def _check_surroundings(program: Program, client: dict[str, str], tell: Tell) -> None:
    """What is read is there, and fits."""
    check_sources(program, client)
    for step in program.steps:
        step.does.check_surroundings()
    for text in compaction_warnings(program, client):
        tell(f"warning: {text}")


def check_sources(program: Program, client: dict[str, str]) -> None:
    """Input topics must be there, with the settings that the program relies on."""
    own = program.own_topics
    KafkaTopics(client).facts([s.topic for s in program.sources if s.topic not in own])
    _require_append_time(program, client)


def _require_append_time(program: Program, client: dict[str, str]) -> None:
    for source in program.sources:
        if not isinstance(source.time, AppendTime):
            continue
        found = admin.settings(client, source.topic)[admin.TIMESTAMP_TYPE]
        if found != admin.APPEND_TIME:
            raise TopicError(
                f"the topic {source.topic!r} does not keep append time",
                where=source.at,
                got=f"{admin.TIMESTAMP_TYPE} is {found}: records have their producer's time",
                hint=f"`riverrun topics alter {source.topic} {admin.TIMESTAMP_TYPE}="
                f"{admin.APPEND_TIME}` holds for new records; or make another topic with"
                " `riverrun topics create … --append-time`",
            )
