"""A running application: everything is checked first; then it runs, is watched, and stops."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming import StreamingQuery

from riverrun import private
from riverrun.app import App
from riverrun.archive.held import Archived
from riverrun.compiler import new_columns, upgrades
from riverrun.compiler.compile import compile_program
from riverrun.compiler.continued import NOTED, continued
from riverrun.compiler.shape import Shape
from riverrun.compiler.shape import shape as shape_of
from riverrun.compiler.ways import ways
from riverrun.config import Settings
from riverrun.delivery.status import last_status
from riverrun.durations import Duration, microseconds
from riverrun.embedded import java
from riverrun.forgetting.places import place_of
from riverrun.kafka import lag
from riverrun.kafka.watching import BrokerWatch, watched
from riverrun.kernels import kept
from riverrun.kernels.first_look import never_given
from riverrun.kernels.program import Program
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import Identity, Part, Places, destinations
from riverrun.runtime import alerting, capturing, checkpoint, event_topics, runs, traces
from riverrun.runtime.forgetting.stores import note_store
from riverrun.runtime.measures import TIMES, Heard, Stopwatch
from riverrun.runtime.surroundings import (
    check_master,
    check_surroundings,
    kafka_of,
    nice_of,
    places_of,
)
from riverrun.sources.folders.source import WithFiles, folders
from riverrun.sources.kafka import KafkaSource
from riverrun.sources.source import Source
from riverrun.sources.span import EVERYTHING, Span
from riverrun.spark import drain
from riverrun.spark import session as spark_session
from riverrun.spark.boot import booting
from riverrun.spark.executors import folder_of
from riverrun.spark.failures import translated
from riverrun.spark.lower import start_query
from riverrun.spark.progress import measured
from riverrun.spark.source import Job

Tell = Callable[[str], None]
WATCH = 0.1
LONG = 5.0
"""Seconds without a first batch after which somebody may wonder."""
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
    span: Span = EVERYTHING
    """What is to be read of topics, if not all from where the program says."""
    batch_time: Duration | None = "5 seconds"
    """How long a batch should take: its size follows. None: as large as it may be."""


class Running:
    """A started application."""

    def __init__(
        self, query: StreamingQuery, job: Job, checkpoint: Path, tell: Tell, *, heard: Heard
    ) -> None:
        self.query, self.program, self.status_folder = query, job.program, job.status
        self.checkpoint, self.tell = checkpoint, tell
        self.stopwatch = Stopwatch(partial(measured, query), job.status / TIMES, heard)
        self.draining_since: float | None = None
        self.waiting: list[str] = []
        self.broker: BrokerWatch | None = None
        self.began_at: float | None = time.monotonic()
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
            self.stopwatch.look(self.status())

    def _statuses(self) -> Iterator[dict[str, Any]]:
        seen = None
        while True:
            self.finished = not self.query.isActive and self.draining_since is None
            over = not self.query.isActive or self._to_end()
            status = self.status()
            self.stopwatch.look(status)
            if status and status["batch"] != seen:
                if seen is None:
                    for text in never_given(self.program, status):
                        self.tell(f"warning: {text}")
                for step, doubt in status["doubts"].items():
                    self.tell(f"warning: {step}: {doubt}")
                seen = status["batch"]
                yield status
            elif over:
                break
            else:
                self._tell_of_waiting()
                self._tell_of_the_broker()
                self._tell_of_the_first_batch(seen)
                time.sleep(WATCH)

    def _tell_of_the_broker(self) -> None:
        for text in self.broker.news() if self.broker else ():
            self.tell(text)

    def _tell_of_the_first_batch(self, seen: object) -> None:
        """It is the slowest: code is loaded, and Python workers start."""
        if seen is None and self.began_at and time.monotonic() - self.began_at > LONG:
            self.began_at = None
            if self.query.status["isDataAvailable"]:
                self.tell("the first batch takes its time: workers start, and load their code")
            else:
                self.tell("there is nothing to read yet")

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


Prepare = Callable[[dict[str, str]], None]
"""What is done once brokers are there, before anything is asked of topics."""


@contextmanager
def started(
    app: App, settings: Settings, options: Options, tell: Tell, prepare: Prepare | None = None
) -> Iterator[Running]:
    """The application, running; everything that was started is stopped on the way out."""
    program = app.program()
    check_master(program, settings)
    _seconds(options.batch_time)  # what cannot be read is told before anything starts
    folder, run_folder = settings.checkpoint_of(program.name), settings.run_of(program.name)
    log, status = run_folder / "spark.log", run_folder / "status"
    with (
        checkpoint.held(folder, program.name),
        runs.noted(folder, master=settings.master, log=log, program=app.at.file) as run,
        traces.exported(program.name, settings, tell) as heard,
    ):
        lost = capturing.LostRows(status).tables(app.captures)
        _cleared(run_folder, status)
        if options.fresh:
            checkpoint.forget(folder)
        program, shape, again = _going_on(app, folder)
        program = program.with_keys(place_of(settings, program.name))
        if program.personal:
            note_store(folder, program.keys, tell, fresh=options.fresh)
        for text in event_topics.warn_of_fresh(program) if options.fresh else ():
            tell(f"warning: {text}")
        boot = partial(
            spark_session.start, program.name, settings=settings, java=java.find(settings.cache),
            folder=run_folder, program=folder_of(app.at.file), nice=nice_of(program, settings),
        )  # fmt: skip
        tell(f"starting Spark; its log is {log}")
        with booting(boot, at_once=spark_session.local(settings.master)) as spark_there:
            client = kafka_of(settings, tell)
            if prepare is not None:
                prepare(client)
            capturing.ensure(app.captures, settings, tell)
            check_surroundings(program, client, tell)
            places = _prepared(program, settings, client, tell)
            more = [c for c in app.captures if c.topic in again]
            capturing.read_again(more, settings, tell, because="new columns")
            capturing.read_again(lost, settings, tell, because="rows whose large values are lost")
            spark = spark_there()
        try:
            tell("Spark is there; starting the query")
            job = _job(program, settings, options, client, places, parallel=spark.parallel)
            _take_over(program, places, job.identity, begun=checkpoint.begun(folder))
            carriers = alerting.begun(program, settings, client, tell)
            functions, place = app.spark_functions(), folder / "query"
            query = start_query(spark.session, job, functions, checkpoint=place, once=options.once)
            checkpoint.note(folder, shape)
            run.note(started_at=time.time())
            tell("running; Ctrl-C stops it")
            running = Running(query, job, folder, tell, heard=heard)
            captured = capturing.watched(app.captures, settings, tell, status)
            with watched(client) as running.broker, captured, alerting.carried(carriers):
                yield running
            run.end = "finished" if running.finished else "stopped"
            with suppress(Py4JError, OSError):  # the JVM may have been ended with us
                query.stop()
        finally:
            tell("stopping Spark")
            spark.stop()


def _job(
    program: Program, settings: Settings, options: Options, client: dict[str, str], places: Places,
    *, parallel: int,
) -> Job:  # fmt: skip
    folder = settings.checkpoint_of(program.name)
    identity = checkpoint.identity(folder, keep_written=options.keep_written)
    return Job(
        program=program,
        source=_source(program, client, settings, options.span),
        status=settings.run_of(program.name) / "status",
        collect=None,
        parallel=parallel,
        max_events=options.max_events,
        batch_seconds=_seconds(options.batch_time),
        identity=identity,
        places=places,
        query_id=f"{program.name}-{identity.run}",
        state_memory=settings.state_memory,
        close=options.close,
        span=options.span,
        kept=folder / checkpoint.FOUND,
    )


def _going_on(app: App, folder: Path) -> tuple[Program, Shape, set[str]]:
    """The program as it goes on with its checkpoint, what the next one is compared with, and the
    topics of captured tables that are to be read once more."""
    program, before = app.program(), upgrades.read(folder)
    now = shape_of(program)
    upgrades.require_fit(before, now, folder)
    event_topics.require_finished(folder, before, program)
    how = continued(before, now)
    noted = new_columns.remembering(before, {**now, NOTED: vars(how)})
    return compile_program(app.plan(), how), noted, new_columns.to_read_again(before, now)


def _source(program: Program, client: dict[str, str], settings: Settings, span: Span) -> Source:
    archived = Archived.of(settings.archive_root, span.archived)
    kafka = KafkaSource(client, settings.reader, archived)
    found = folders(program, settings.checkpoint_of(program.name))
    return WithFiles(kafka, found) if found else kafka


def _cleared(run_folder: Path, status: Path) -> None:
    """Folders for what this run tells; what the last one told is gone."""
    shutil.rmtree(status, ignore_errors=True)
    private.folder(run_folder)
    private.folder(status)


def _prepared(program: Program, settings: Settings, client: dict[str, str], tell: Tell) -> Places:
    """Where results go: everything there is ready to take them."""
    alerting.require(program, settings)
    places, how = places_of(program, settings, client, tell), ways(program)
    for destination, outputs in destinations(program.outputs, places).items():
        destination.prepare(outputs)
        destination.announce(program.name, outputs, how)
    return places


def _take_over(program: Program, places: Places, identity: Identity, *, begun: bool) -> None:
    """Before the first batch of a checkpoint, what an earlier one has left may go."""
    now = time.time_ns() // 1000
    before = Part(program.name, identity.checkpoint, identity.run, batch=-1, task=0, tick=now)
    for destination, outputs in destinations(program.outputs, places).items():
        destination.take_over(program.name, identity.run)
        if not begun:
            destination.start_over(before, outputs, shared_evaluator())


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else max(microseconds(duration, "--batch-time"), 1) / 1e6
