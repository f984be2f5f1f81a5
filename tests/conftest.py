"""What tests share: a real broker, database and Spark per worker; the command as users run it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import valkeys
from capturing import Source
from riverrun import cli, config
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import connect, java, kafka, ports, postgres, spark_cluster
from riverrun.embedded.spark_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = {
    **dict.fromkeys(["test_json_values", "test_spark_engine", "test_upgrades"], "session"),
    **dict.fromkeys(["test_cluster", "test_own_sink", "test_run_functions"], "cluster"),
    "test_typing": "checked types",
}
"""Files whose tests share what is dear to start, and what it is: they go to one worker."""


def pytest_configure() -> None:
    """Ended from outside, as by a time limit: servers are stopped all the same."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Interrupted workers have seconds to end: what they did not get to stop is ended here."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        return
    ours = f"{config._tmp_path_factory.getbasetemp()}/"
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(ours in argument for argument in process.cmdline()):
                process.kill()


class Together(LoadScopeScheduling):
    """A worker takes one test after the other, or all that share something."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER.get(Path(nodeid.partition("::")[0]).stem, nodeid)


@pytest.hookimpl(optionalhook=True)  # for `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with what takes long, so that none is left with it at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=_weight, reverse=True)


def _weight(item: pytest.Item) -> list[bool]:
    return [item.get_closest_marker(name) is not None for name in ("spark", "broker")]


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the settings, the broker or the folder of the person who runs it."""
    monkeypatch.setenv("RIVERRUN_HOME", str(tmp_path / "home"))
    for name in ("RIVERRUN_BROKERS", "RIVERRUN_POSTGRES", "RIVERRUN_JAVA", "RIVERRUN_IVYSETTINGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]  # a program that this test wrote


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """Settings with an empty home of their own, the user's jars; what runs there is stopped."""
    own = config.load()
    yield own
    connect.down(own)
    kafka.down(own)
    postgres.down(own)


@pytest.fixture(scope="session")
def broker_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of the session's embedded broker, which runs."""
    home = tmp_path_factory.mktemp("broker")
    own = config.load(start=home, environ={"RIVERRUN_HOME": str(home)})
    kafka.up(own, port=ports.any_free())
    try:
        yield own
    finally:
        kafka.down(own)


@pytest.fixture
def broker(broker_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The client settings of the session's broker, which commands use in this test."""
    monkeypatch.setenv("RIVERRUN_HOME", str(broker_settings.home))
    return kafka.client(broker_settings)


@pytest.fixture(scope="session")
def postgres_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of the session's embedded PostgreSQL, which runs."""
    home = tmp_path_factory.mktemp("postgres")
    own = config.load(start=home, environ={"RIVERRUN_HOME": str(home)})
    postgres.up(own, port=ports.any_free())
    try:
        yield own
    finally:
        postgres.down(own)


@pytest.fixture(name="postgres")
def own_schema(postgres_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty schema, which commands use in this test."""
    server, name = postgres.ensure(postgres_settings), f"test_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    url = f"{server}?options=-csearch_path%3D{name}"
    monkeypatch.setenv("RIVERRUN_POSTGRES", url)
    yield url
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture
def source(
    broker: dict[str, str],
    broker_settings: Settings,
    postgres_settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Source]:
    """A schema of its own in the session's PostgreSQL, and a capture that nobody has begun."""
    url, name = postgres.ensure(postgres_settings), f"cap{time.time_ns()}"
    monkeypatch.setenv("RIVERRUN_POSTGRES", url)
    settings = replace(broker_settings, postgres=url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    found = Source(url, name, broker, OwnCapturer(settings, name))
    yield found
    found.connection.close()
    if found.capture.files.wish():
        found.capture.remove()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[valkeys.Server]:
    server = valkeys.Server(tmp_path_factory.mktemp("valkey"), *valkeys.LASTING).start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def valkey(valkey_server: valkeys.Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty server, which commands use in this test."""
    with valkey_server.client() as client:
        client.flushall()
    monkeypatch.setenv("RIVERRUN_VALKEY", valkey_server.url)
    return valkey_server.url


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in this process; programs that are started as commands have their own."""
    from riverrun.spark import session as spark  # noqa: PLC0415 - Spark only when it is needed

    own = config.load(environ={}).override(master="local[2]")
    folder = tmp_path_factory.mktemp("spark")
    started = spark.start("tests", settings=own, java=java.find(own.cache), folder=folder)
    try:
        yield started.session
    finally:
        started.stop()


@pytest.fixture(scope="session")
def cluster_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    home = tmp_path_factory.mktemp("cluster")
    own = config.load(start=home, environ={"RIVERRUN_HOME": str(home)})
    yield own
    spark_cluster.down(own)


@pytest.fixture
def standalone(cluster_settings: Settings) -> Cluster:
    """A Spark master with two workers, in a home of their own; a test may end it."""
    return spark_cluster.up(cluster_settings, workers=2)


@pytest.fixture
def riverrun(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line: `riverrun("topics", "create", "a")`."""

    def run(*arguments: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["riverrun", *arguments])
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
        capsys.readouterr()
        code = _exit_code()
        return Outcome(code, *capsys.readouterr())

    return run


def _exit_code() -> int:
    try:
        cli.main()
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0
