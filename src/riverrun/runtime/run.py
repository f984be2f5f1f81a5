"""A running application: everything is checked first; then it runs, is watched, and stops."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql.streaming import StreamingQuery

from riverrun import private
from riverrun.app import App
from riverrun.config import Settings
from riverrun.delivery.status import last_status
from riverrun.embedded import java
from riverrun.far import AnyPath, FarPath
from riverrun.forgetting.places import place_of
from riverrun.kafka import lag
from riverrun.kafka.watching import BrokerWatch, watched
from riverrun.kernels import kept
from riverrun.kernels.first_look import never_given
from riverrun.kernels.program import Program
from riverrun.runtime import (
    alerting,
    aside,
    capturing,
    checkpoint,
    event_topics,
    promoting,
    runs,
    traces,
)
from riverrun.runtime.claims import Hold
from riverrun.runtime.forgetting.stores import note_store
from riverrun.runtime.launch import Launch, Options, going_on, seconds
from riverrun.runtime.measures import TIMES, Heard, Stopwatch
from riverrun.runtime.surroundings import (
    check_master,
    check_surroundings,
    kafka_of,
    nice_of,
)
from riverrun.runtime.versioned import beside
from riverrun.sources.gate import SWITCH
from riverrun.spark import drain
from riverrun.spark import session as spark_session
from riverrun.spark.boot import booting
from riverrun.spark.executors import folder_of
from riverrun.spark.failures import translated
from riverrun.spark.job import Job
from riverrun.spark.progress import measured, of_the_first_batch
from riverrun.versions import CURRENT, Version

Tell = Callable[[str], None]
WATCH = 0.1
FAR_LOOK = 2.0
"""Seconds between looks, at what is here and at what is far."""
LONG = 5.0
"""Seconds without a first batch after which somebody may wonder."""
AT_REST = 20.0
"""Seconds without a batch after which memory goes back to the system."""
FIRST_END = "; this first time it keeps its classes for later starts, which takes a while"
DRAIN_WITHIN = 60
"""Seconds that a batch has to end after the application was told to stop."""


@dataclass
class Looks:
    """What others have left in the checkpoint for the run, as it was at the last look."""

    folder: AnyPath
    wish: str | None = None
    awaited: list[str] = field(default_factory=list)
    next_at: float = 0.0

    def look(self) -> None:
        """Often; but each look at a far one is two requests."""
        if time.monotonic() >= self.next_at:
            self.wish = checkpoint.wish_to_stop(self.folder)
            self.awaited = kept.awaited(self.folder / checkpoint.FOUND)
            far = isinstance(self.folder, FarPath)
            self.next_at = time.monotonic() + (FAR_LOOK if far else 0)


class Running:
    """A started application."""

    def __init__(
        self, launch: Launch, query: StreamingQuery, job: Job, tell: Tell, *, heard: Heard,
        hold: Hold, run: runs.Run,
    ) -> None:  # fmt: skip
        self.launch, self.checkpoint, self.tell = launch, launch.folder, tell
        self.query, self.program, self.status_folder = query, job.program, job.status
        self.hold, self.run, self.looks = hold, run, Looks(launch.folder)
        self.stopwatch = Stopwatch(partial(measured, query), job.status / TIMES, heard)
        self.draining_since: float | None = None
        self.waiting: list[str] = []
        self.broker: BrokerWatch | None = None
        self.began_at: float | None = time.monotonic()
        self.last_seen: object = None
        self.quiet_since = inf
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
            ended = not self.query.isActive  # asked once: it may end between two questions
            self.finished = ended and self.draining_since is None
            over = ended or self._to_end()
            if self.draining_since is None and (self.status_folder / SWITCH).exists():
                self._switch()
                continue
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
                self._rest(seen)
                time.sleep(WATCH)

    def _rest(self, batch: object) -> None:
        """Once after each batch that no other follows for a while."""
        if batch != self.last_seen:
            self.last_seen, self.quiet_since = batch, time.monotonic()
        elif batch is not None and time.monotonic() - self.quiet_since > AT_REST:
            assert self.launch.spark is not None
            self.launch.spark.rest()
            self.quiet_since = inf

    def _switch(self) -> None:
        """The places of results change: all up to X is committed, and nothing is planned."""
        self.query.stop()
        promoting.switched(self.launch.app, self.launch.version, self.launch.settings, self.tell)
        (self.status_folder / SWITCH).unlink()
        ready = self.launch.prepared()
        self.query = self.launch.started(ready, self.launch.taken_over(ready))
        self.program, self.stopwatch.batches = ready.program, partial(measured, self.query)

    def _tell_of_the_broker(self) -> None:
        for text in self.broker.news() if self.broker else ():
            self.tell(text)

    def _tell_of_the_first_batch(self, seen: object) -> None:
        """It is the slowest: code is loaded, and Python workers start."""
        if seen is None and self.began_at and time.monotonic() - self.began_at > LONG:
            news = of_the_first_batch(self.query)
            if news is not None:
                self.began_at = None
                self.tell(news)

    def _tell_of_waiting(self) -> None:
        """A task that waits for a database says so."""
        now = self.looks.awaited
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
        self.hold()
        self.looks.look()
        wish = self.looks.wish
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
    version = options.version or Version(app.name, CURRENT)
    own = beside(app, version, public=version.name == CURRENT)  # promotions are looked up later
    program = own.program()
    check_master(program, settings)
    seconds(options.batch_time)  # what cannot be read is told before anything starts
    folder, run_folder = settings.checkpoint_of(program.name), settings.run_of(program.name)
    log, status = run_folder / "spark.log", run_folder / "status"
    with (
        checkpoint.held(folder, program.name) as hold,
        runs.noted(folder, master=settings.master, log=log, program=app.at.file) as run,
        traces.exported(program.name, settings, tell) as heard,
    ):
        lost = capturing.LostRows(status).tables(own.captures)
        _cleared(run_folder, status)
        if options.fresh:
            checkpoint.forget(folder)
        program, _, again = going_on(own, folder)
        program = program.with_keys(place_of(settings, program.name))
        if program.personal:
            note_store(folder, program.keys, tell, fresh=options.fresh)
        for text in _warnings(program, folder, options):
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
            capturing.ensure(own.captures, settings, tell)
            check_surroundings(program, client, tell)
            launch = Launch(app, version, settings, options, client, tell)
            ready = launch.prepared()
            more = [c for c in own.captures if c.topic in again]
            capturing.read_again(more, settings, tell, because="new columns")
            capturing.read_again(lost, settings, tell, because="rows whose large values are lost")
            spark = launch.spark = spark_there()
        try:
            tell("Spark is there; starting the query")
            job = launch.taken_over(ready)
            carriers = alerting.begun(ready.program, settings, client, tell)
            query = launch.started(ready, job)
            run.note(started_at=time.time())
            tell("running; Ctrl-C stops it")
            running = Running(launch, query, job, tell, heard=heard, hold=hold, run=run)
            captured = capturing.watched(own.captures, settings, tell, status)
            with watched(client) as running.broker, captured, alerting.carried(carriers):
                yield running
            run.end = "finished" if running.finished else "stopped"
            with suppress(Py4JError, OSError):  # the JVM may have been ended with us
                running.query.stop()
        finally:
            tell(f"stopping Spark{FIRST_END if spark.draft else ''}")
            spark.stop()


def _warnings(program: Program, folder: AnyPath, options: Options) -> Iterator[str]:
    yield from event_topics.warn_of_fresh(program) if options.fresh else ()
    for each in aside.read(folder):
        yield f"{each.place} is set aside: {each.cause}"


def _cleared(run_folder: Path, status: Path) -> None:
    """Folders for what this run tells; what the last one told is gone."""
    shutil.rmtree(status, ignore_errors=True)
    private.folder(run_folder)
    private.folder(status)
