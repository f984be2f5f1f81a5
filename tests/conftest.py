"""What tests share: a real broker, database and Spark per worker; the command as users run it."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import defaultdict
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

import classes
import valkeys
from capturing import Source
from riverrun import cli, config
from riverrun.capture.own import OwnCapturer
from riverrun.config import Settings
from riverrun.embedded import connect, java, kafka, ports, postgres, spark_cluster
from riverrun.embedded.spark_cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from once import Once
    from riverrun.spark.session import Spark

TOGETHER = {
    "test_cluster": "cluster",
    "test_secured": "a broker with TLS",
    "test_several_brokers": "three brokers",
    "test_typing": "checked types",
}
"""Files whose tests share what is dear to start, and what it is: they go to one worker."""

BY_CLASS = {"test_operator_contracts"}
"""Files whose classes share what their first test has computed."""

SPANS = {"spark": (0, 0.5), "broker": (0, 0.8), "long": (0.4, 0.5), "short": (0.5, 1)}
"""Kinds of tests, and between which parts of all they run."""

LONG = {"test_server_fuzz", "test_typing", "test_operator_contracts"}
"""Files that take long without Spark or a broker."""


def pytest_configure() -> None:
    """Ended from outside, as by a time limit: servers are stopped all the same. No job gives way
    to what other tests do meanwhile. Ctrl-C is not deaf because they were started in the
    background: commands would inherit that."""
    os.environ.setdefault("RIVERRUN_NICE", "0")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
        file = Path(nodeid.partition("::")[0]).stem
        if file in BY_CLASS:
            return nodeid.rpartition("::")[0]
        return TOGETHER.get(file, nodeid)


@pytest.hookimpl(optionalhook=True)  # for `-p no:xdist`
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("spark"):
            item.fixturenames.insert(0, "spark_classes")
    if hasattr(config, "workerinput"):
        items[:] = _woven(items)


def _woven(items: list[pytest.Item]) -> list[pytest.Item]:
    """Workers begin with what takes long, so that none is left with it at the end. What needs a
    broker mostly waits for it: it goes between what computes, so that no core waits, too."""
    kinds = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        kinds[_kind(item)].append(item)
    placed = [
        (begin + (end - begin) * number / len(kinds[kind]), item)
        for kind, (begin, end) in SPANS.items()
        for number, item in enumerate(kinds[kind])
    ]
    return [item for _, item in sorted(placed, key=lambda each: each[0])]


def _kind(item: pytest.Item) -> str:
    marked = (name for name in ("spark", "broker") if item.get_closest_marker(name) is not None)
    return next(marked, "long" if item.path.stem in LONG else "short")


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
def broker(broker_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The client settings of the session's broker, which commands use in this test. Checkpoints go
    with it: another test's application may have the same name."""
    monkeypatch.setenv("RIVERRUN_HOME", str(broker_settings.home))
    root = broker_settings.checkpoint_root
    before = set(root.glob("*"))
    yield kafka.client(broker_settings)
    for made in set(root.glob("*")) - before:
        shutil.rmtree(made, ignore_errors=True)


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
def spark_classes(broker_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every test that starts Spark has it first."""
    classes.archived(broker_settings, tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="session")
def spark(spark_classes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """Spark in this process; programs that are started as commands have their own."""
    from riverrun.spark.session import start  # noqa: PLC0415 - Spark only when it is needed

    own = config.load(environ={}).override(master="local[2]")
    folder = tmp_path_factory.mktemp("spark")
    started = start("tests", settings=own, java=java.find(own.cache), folder=folder)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def session(spark: Spark) -> SparkSession:
    return spark.session


@pytest.fixture
def once(
    spark: Spark, broker: dict[str, str], riverrun: Command, monkeypatch: pytest.MonkeyPatch
) -> Once:
    """Runs a program on the session's broker and Spark: `once(file, "--max-events", "100")`."""
    from once import Once  # noqa: PLC0415 - Spark only when it is needed

    return Once(spark, riverrun, monkeypatch)


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
    # a command adds the folder of its program, for what it starts: nobody after this test wants it
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(sys, "path", [*sys.path])

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
