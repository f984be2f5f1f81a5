"""What tests share: one real broker for the whole session, and the command as users run it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO, TextIOWrapper
from pathlib import Path

import psycopg
import pytest

from capturing import Source
from riverrun import cli, config
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import kafka, ports, postgres, spark_cluster
from riverrun.embedded.spark_cluster import Cluster


def pytest_configure() -> None:
    """Ended from outside, as by a time limit: servers are stopped all the same."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


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
