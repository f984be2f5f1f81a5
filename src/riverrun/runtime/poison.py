"""The last batch of an application, tried with fewer records until that is known which ends it.

A trial is the batch itself, on Spark, in a copy of the checkpoint and with results that nobody
gets. What a program's own code does to its process, it does to Spark's workers, as in a run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from riverrun import private
from riverrun.app import App
from riverrun.config import Poison, Settings
from riverrun.embedded import java
from riverrun.errors import CheckpointError, JobError
from riverrun.kernels.letters import RECORD_STOPS, TIMER_STOPS, RecordPlace
from riverrun.outputs import Places
from riverrun.partitions import Range
from riverrun.runtime import aside, bisecting, checkpoint, runs
from riverrun.runtime.aside import SetAside
from riverrun.runtime.batches import Batches
from riverrun.runtime.bisecting import KILLED, Book, Ending, NotFound, first_of, place_of
from riverrun.runtime.launch import Launch, Options
from riverrun.runtime.surroundings import check_master, kafka_of, nice_of, places_of
from riverrun.sources.planning import Offset, tasks
from riverrun.spark import drain
from riverrun.spark import session as spark_session
from riverrun.spark.executors import folder_of
from riverrun.spark.failures import FULL, JVM_ENDED, translated
from riverrun.spark.job import Job
from riverrun.spark.lower import Functions, start_query
from riverrun.versions import CURRENT, Version

TRIAL = ".trial"
"""The folder of one trial: beside the query's, so that files can be linked, and every worker sees
them."""
Tell = Callable[[str], None]


def search(app: App, settings: Settings, options: Options, tell: Tell) -> Book:
    """What ends the last batch of the application, and what is to be done."""
    assert options.search is not None
    version = options.version or Version(app.name, CURRENT)
    name, run_folder = version.application, settings.run_of(version.application)
    check_master(app.program(), settings)
    folder = checkpoint.require_here(
        settings.checkpoint_of(name),
        "the search for a record that ends every run",
        "`riverrun run` without --restart says what ended it",
    )
    with (
        private.by_default(),
        checkpoint.held(folder, name),
        runs.noted(folder, master=settings.master, log=run_folder / "spark.log",
                   program=app.at.file) as run,
    ):  # fmt: skip
        batch = Batches(folder).begun()
        found = bisecting.book(folder)
        if found is None or found.batch != batch or found.ending is not None:
            found = Book(batch)
        if batch == Batches(folder).committed():
            return _over(folder, found, "again", f"batch {batch:,} is done")
        spark = spark_session.start(
            name, settings=settings, java=java.find(settings.cache), folder=run_folder,
            program=folder_of(app.at.file), nice=nice_of(app.program(), settings),
        )  # fmt: skip
        try:
            client = kafka_of(settings, tell)
            launch = Launch(app, version, settings, options, client, tell)
            program, _ = launch.program()
            places = places_of(program, settings, client, tell)
            # a trial has no part in a promotion
            job = replace(launch.job(program, None, parallel=spark.parallel), version=None)
            trials = Trials(spark.session, job, app.spark_functions(), folder, found, places, tell)
            run.end = "finished"
            return trials.searched(options.search)
        finally:
            shutil.rmtree(folder / TRIAL, ignore_errors=True)
            spark.stop()


def _over(folder: Path, book: Book, ending: Ending, text: str) -> Book:
    book.ending, book.text = ending, text
    book.kept(folder)
    return book


@dataclass
class Trials:
    """Trials of one batch."""

    session: SparkSession
    job: Job
    functions: Functions
    folder: Path
    book: Book
    places: Places
    tell: Tell

    def searched(self, policy: Poison) -> Book:
        over, ranges = partial(_over, self.folder, self.book), _ranges(self.folder)
        if self.book.trying is not None:  # whoever tried it is no more
            self._noted(self.book.trying, KILLED)
        total = sum(each.end - each.start for each in ranges)
        self.tell(f"batch {self.book.batch:,} of {total:,} records is tried with fewer of them")
        try:
            found = bisecting.found_of(total, partial(self._ends, ranges))
        except NotFound as error:
            return over("again", str(error))
        except StoppedByProgram:
            over("stop", "the program stops at it")
            raise
        if not found:
            return over("again", f"batch {self.book.batch:,} was done when it was tried")
        records = [
            SetAside(*place_of(ranges, number), self.book.batch, cause) for number, cause in found
        ]
        text = "; ".join(f"{each.place}: {each.cause}" for each in records)
        if policy == "stop":
            over("stop", text)
            raise JobError(
                f"a record ends every run of batch {self.book.batch:,}",
                where=", ".join(str(each.place) for each in records),
                got=records[0].cause,
                hint="mend the program; or `--restart --poison set-aside` makes it a dead letter",
            )
        self._require_undelivered(ranges, records)
        aside.add(self.folder, records)
        return over("aside", text)

    def _require_undelivered(self, ranges: list[Range], records: list[SetAside]) -> None:
        """What was delivered of the batch must be the same without the records."""
        job = replace(self._job(tuple(ranges)), compared=True, places=self.places)
        try:
            self._run(replace(job, aside={**job.aside, **aside.causes(records)}))
        except CheckpointError as error:
            text = ", ".join(str(each.place) for each in records)
            _over(self.folder, self.book, "stop", f"a part was delivered with {text}")
            raise CheckpointError(
                f"a part of batch {self.book.batch:,} was delivered with what {text} gave",
                where=error.where,
                got=error.got,
                hint="nothing is set aside: the rest would not fit what is there. Mend the program",
            ) from error

    def _run(self, job: Job) -> None:
        with translated():
            query = start_query(
                self.session, job, self.functions,
                checkpoint=self.folder / TRIAL / "query", once=True,
            )  # fmt: skip
            query.awaitTermination()

    def _ends(self, ranges: list[Range], count: int, without: list[int], again: bool) -> str | None:
        """Each trial once, whoever has tried it."""
        name = f"{count} without {without}{' again' if again else ''}"
        if name not in self.book.tried:
            self.book.trying = name
            self.book.kept(self.folder)
            left_out = [place_of(ranges, number) for number in without]
            cause = self._why(first_of(ranges, count), left_out)
            self._noted(name, cause)
            self.tell(f"with the first {count:,} records: {cause or 'done'}")
        return self.book.tried[name]

    def _noted(self, name: str, cause: str | None) -> None:
        self.book.tried[name], self.book.trying = cause, None
        self.book.kept(self.folder)

    def _why(self, only: tuple[Range, ...], without: list[RecordPlace]) -> str | None:
        job = self._job(only)
        job = replace(job, aside={**job.aside, **dict.fromkeys(without, "")})
        try:
            self._run(job)
        except JobError as error:
            if error.fact == JVM_ENDED:  # the next one knows why
                raise
            return self._cause(error)
        except BaseException:  # nothing of the batch's: it was not tried
            self.book.trying = None
            self.book.kept(self.folder)
            raise
        if Batches(self.folder / TRIAL).committed() < self.book.batch:
            raise CheckpointError("a trial has left the batch out", where=self.folder / TRIAL)
        return None

    def _cause(self, error: JobError) -> str:
        if error.fact in (RECORD_STOPS, TIMER_STOPS):
            raise StoppedByProgram(error.fact, where=error.where, got=error.got, hint=error.hint)
        if error.got == FULL:
            raise error
        return str(error.got or error.fact)

    def _job(self, only: tuple[Range, ...]) -> Job:
        """The batch, with a copy of all that it is run with, and nowhere to go."""
        trial = self.folder / TRIAL
        shutil.rmtree(trial, ignore_errors=True)
        shutil.copytree(self.folder / "query", trial / "query", copy_function=_linked)
        for name in ("status", "collected", checkpoint.FOUND):
            private.folder(trial / name)
        if (self.folder / checkpoint.FOUND).exists():
            shutil.copytree(self.folder / checkpoint.FOUND, trial / checkpoint.FOUND,
                            dirs_exist_ok=True)  # fmt: skip
        drain.ask(trial / "status")
        return replace(
            self.job, only=only, status=trial / "status", collect=trial / "collected",
            kept=trial / checkpoint.FOUND, query_id=f"{self.job.query_id}-{len(self.book.tried)}",
        )  # fmt: skip


class StoppedByProgram(JobError):
    """The program says what becomes of the record: nobody else does."""


def _linked(source: str, target: str) -> None:
    """Spark replaces files, and changes none: both names may mean the same."""
    with suppress(OSError):
        os.link(source, target)
        return
    shutil.copyfile(source, target)


def _ranges(folder: Path) -> list[Range]:
    batches = Batches(folder)
    batches.look()
    number = batches.begun()
    before = batches.at(number - 1) if number else Offset({})
    return [each for dealt in tasks(before, batches.at(number)) for each in dealt]
