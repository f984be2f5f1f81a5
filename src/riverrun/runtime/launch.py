"""The query of an application: its places are made ready, and it is started."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.streaming import StreamingQuery

from riverrun.app import App
from riverrun.archive.held import Archived
from riverrun.compiler import new_columns, upgrades
from riverrun.compiler.compile import compile_program
from riverrun.compiler.continued import NOTED, continued
from riverrun.compiler.shape import Shape
from riverrun.compiler.shape import shape as shape_of
from riverrun.compiler.ways import ways
from riverrun.config import Poison, Settings
from riverrun.durations import Duration, microseconds
from riverrun.far import AnyPath
from riverrun.forgetting.places import place_of
from riverrun.kafka.promotions import PromotionLog
from riverrun.kafka.topics import OUTAGE
from riverrun.kernels.program import Program
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import Identity, Part, Places, destinations
from riverrun.runtime import alerting, aside, checkpoint, event_topics
from riverrun.runtime.batches import Batches
from riverrun.runtime.surroundings import places_of
from riverrun.runtime.versioned import beside
from riverrun.sources.folders.source import WithFiles, folders
from riverrun.sources.kafka import KafkaSource
from riverrun.sources.source import Source
from riverrun.sources.span import EVERYTHING, Span
from riverrun.spark.job import Job
from riverrun.spark.lower import start_query
from riverrun.spark.session import Spark
from riverrun.versions import CURRENT, Version

Tell = Callable[[str], None]


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
    version: Version | None = None
    """Which version of the application it is; None: the current one."""
    search: Poison | None = None
    """In place of a run: what ends the last batch is looked for, and what becomes of it."""


@dataclass(frozen=True)
class Ready:
    """A program whose places are ready to take results."""

    program: Program
    shape: Shape
    places: Places


@dataclass
class Launch:
    """Starts the query of an application; once more where it is to write to other places."""

    app: App
    """As its file has it."""
    version: Version
    settings: Settings
    options: Options
    client: dict[str, str]
    tell: Tell
    spark: Spark | None = None

    @property
    def folder(self) -> AnyPath:
        return self.settings.checkpoint_of(self.version.application)

    def program(self) -> tuple[Program, Shape]:
        """With places in public or beside, as promotions have it."""
        promoted = PromotionLog(self.client, self.version.of, patience=OUTAGE).look()
        public = promoted.is_public(self.version.name)
        program, shape, _ = going_on(beside(self.app, self.version, public=public), self.folder)
        program = program.with_keys(place_of(self.settings, program.name))
        if public != (self.version.name == CURRENT):
            self.tell("it is public now" if public else f"{promoted.public_next} is public now")
        return program, shape

    def prepared(self) -> Ready:
        """Everything is ready to take results."""
        program, shape = self.program()
        return Ready(program, shape, _prepared(program, self.settings, self.client, self.tell))

    def taken_over(self, ready: Ready) -> Job:
        """Its places are this run's alone."""
        assert self.spark is not None
        job = self.job(ready.program, ready.places, parallel=self.spark.parallel)
        begun = checkpoint.begun(self.folder)
        _take_over(ready.program, ready.places, job.identity, begun=begun)
        return job

    def started(self, ready: Ready, job: Job) -> StreamingQuery:
        assert self.spark is not None
        checkpoint.drop_uncommitted(self.folder)
        query = start_query(
            self.spark.session, job, self.app.spark_functions(),
            checkpoint=self.folder / "query", once=self.options.once,
        )  # fmt: skip
        checkpoint.note(self.folder, ready.shape)
        return query

    def job(self, program: Program, places: Places | None, *, parallel: int) -> Job:
        settings, options = self.settings, self.options
        identity = checkpoint.identity(self.folder, keep_written=options.keep_written)
        return Job(
            program=program,
            source=_source(program, self.client, settings, options.span),
            status=settings.run_of(program.name) / "status",
            collect=None,
            parallel=parallel,
            parts=Batches(self.folder).parts() if checkpoint.begun(self.folder) else 0,
            max_events=options.max_events,
            batch_seconds=seconds(options.batch_time),
            identity=identity,
            places=places,
            query_id=f"{program.name}-{identity.run}",
            state_memory=settings.state_memory,
            close=options.close,
            span=options.span,
            version=self.version,
            aside=aside.causes(aside.read(self.folder)),
            kept=self.folder / checkpoint.FOUND,
        )


def going_on(app: App, folder: AnyPath) -> tuple[Program, Shape, set[str]]:
    """The program as it goes on with its checkpoint, what the next one is compared with, and the
    topics of captured tables that are to be read once more."""
    checkpoint.require_whole(folder)
    program, before = app.program(), upgrades.read(folder)
    now = shape_of(program)
    upgrades.require_fit(before, now, folder, program.name)
    event_topics.require_finished(folder, before, program)
    how = continued(before, now)
    noted = new_columns.remembering(before, {**now, NOTED: vars(how)})
    return compile_program(app.plan(), how), noted, new_columns.to_read_again(before, now)


def _source(program: Program, client: dict[str, str], settings: Settings, span: Span) -> Source:
    archived = Archived.of(settings.archive_root, span.archived)
    kafka = KafkaSource(client, settings.reader, archived)
    found = folders(program, settings.checkpoint_of(program.name))
    return WithFiles(kafka, found) if found else kafka


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


def seconds(duration: Duration | None) -> float | None:
    return None if duration is None else max(microseconds(duration, "--batch-time"), 1) / 1e6
