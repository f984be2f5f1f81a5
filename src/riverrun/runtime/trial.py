"""A program on files, on a real Spark: the second engine of `riverrun try`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from riverrun import exact
from riverrun.app import App
from riverrun.config import load
from riverrun.delivery.encode import Line, ordered
from riverrun.embedded import java
from riverrun.errors import JobError
from riverrun.outputs import Identity
from riverrun.sources.files import FileTopics
from riverrun.spark import session as spark_session
from riverrun.spark.failures import translated
from riverrun.spark.job import Job
from riverrun.spark.lower import start_query


def try_on_spark(app: App, files: dict[str, Path], *, ended: bool) -> list[Line]:
    """Runs the program over the files to their end, and returns what came out."""
    settings = load()
    with tempfile.TemporaryDirectory(prefix="riverrun-try-") as temporary:
        run_folder = settings.run_of(app.name) / "try"
        spark = spark_session.start(
            app.name,
            settings=settings.override(master="local[2]"),
            java=java.find(settings.cache),
            folder=run_folder,
        )
        try:
            where = Path(temporary)
            return run_files(spark.session, app, files, where, ended=ended, timed=True)
        except JobError as error:
            log = run_folder / "spark.log"
            raise JobError(
                error.fact, where=error.where or log, got=error.got, hint=error.hint
            ) from error
        finally:
            spark.stop()


def run_files(
    session: SparkSession,
    app: App,
    files: dict[str, Path],
    folder: Path,
    *,
    ended: bool,
    timed: bool = False,
) -> list[Line]:
    """`timed` shows when facts happened."""
    collect, status = folder / "collected", folder / "status"
    collect.mkdir(parents=True)
    status.mkdir()
    job = Job(
        program=app.program(),
        source=FileTopics({topic: path.absolute() for topic, path in files.items()}, ended),
        status=status,
        collect=collect,
        parallel=2,
        max_events=1_000_000,
        batch_seconds=None,
        identity=Identity("trial", 0),
        places=None,
        query_id=str(folder),
    )
    query = start_query(
        session, job, app.spark_functions(), checkpoint=folder / "checkpoint", once=True
    )
    with translated():
        query.awaitTermination()
    return collected(collect, timed=timed)


def collected(folder: Path, *, timed: bool = False) -> list[Line]:
    batches: dict[str, list[Line]] = {}
    for file in sorted(folder.glob("*.json")):
        batches.setdefault(file.stem.split("-")[0], []).extend(exact.loads(file.read_text()))
    return [line for batch in sorted(batches) for line in ordered(batches[batch], timed=timed)]
