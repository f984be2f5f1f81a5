"""`riverrun submit --master yarn` on a real resource manager and node manager. `make yarn` gets
them, and runs this."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import yarns
from conftest import Command
from riverrun.kafka import admin
from running import produce, records, table
from test_cluster import counted, mapped, program
from test_run import PROGRAM, ledger, views
from yarns import Yarn

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PATIENCE = 900.0
"""Seconds: each driver and each executor is a JVM that starts, next to others on one machine."""
EVENTS, PER_BATCH = 18_000, 500
ROWS = """
views.select("page", "ms").to({output!r} + "-rows")
"""
SETTINGS = """
state_memory = "256 MB"
[spark]
spark.executor.instances = 2
spark.yarn.jars = "local:{jars}/*"
spark.yarn.stagingDir = "file://{folder}/staging"
spark.yarn.appMasterEnv.SPARK_LOCAL_IP = "127.0.0.1"
spark.executorEnv.SPARK_LOCAL_IP = "127.0.0.1"
"""
DRIVER, EXECUTOR = "yarn.ApplicationMaster", "YarnCoarseGrainedExecutorBackend"


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarns.running(tmp_path_factory.mktemp("yarn")) as found:
        yield found


def awaited(holds: Callable[[], Any], yarn: Yarn) -> Any:
    give_up_at = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < give_up_at, yarn.logs()
        time.sleep(1)
    return found


def shown(riverrun: Command, name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(riverrun("ps", "--json").out)
    return next((each for each in found if each["application"] == name), {"state": "unknown"})


def killed(yarn: Yarn, mark: str) -> None:
    awaited(lambda: yarn.processes(mark), yarn)[0].kill()


def lines(rows: list[dict[str, Any]]) -> Counter[tuple[str, float]]:
    return Counter((row["page"], row["ms"]) for row in rows)


def test_drivers_and_executors_are_killed_and_no_row_is_lost_or_doubled(
    yarn: Yarn, broker: dict[str, str], tmp_path: Path, riverrun: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
    admin.create_topic(broker, "far-off-views", partitions=3)
    sent = views(EVENTS)
    thirds = [sent[: EVENTS // 3], sent[EVENTS // 3 : 2 * EVENTS // 3], sent[2 * EVENTS // 3 :]]
    file = program(tmp_path, "far-off", PROGRAM + ROWS)
    (tmp_path / "riverrun.toml").write_text(SETTINGS.format(jars=yarns.SPARK, folder=tmp_path))

    def went_on(events: int) -> bool:
        found = shown(riverrun, "far-off")
        return found["state"] == "running" and (found["events"] or 0) >= events

    produce(broker, "far-off-views", thirds[0], partitions=3)
    given = ("--brokers", broker["bootstrap.servers"], "--max-events", str(PER_BATCH), "--fresh")
    outcome = riverrun("submit", str(file), "--master", "yarn", "--package", *given)
    assert (outcome.code, "far-off is with yarn" in outcome.out) == (0, True), outcome.err

    awaited(lambda: went_on(2 * PER_BATCH), yarn)
    files = {path for each in yarn.processes("environment/") for path in mapped(each)}
    assert files
    assert not [path for path in files if "/site-packages/" in path], "the archive has everything"
    killed(yarn, EXECUTOR)
    awaited(lambda: went_on(6 * PER_BATCH), yarn)
    killed(yarn, DRIVER)
    produce(broker, "far-off-views", thirds[1], partitions=3)
    awaited(lambda: shown(riverrun, "far-off")["state"] != "running", yarn)
    awaited(lambda: went_on(2 * PER_BATCH), yarn)
    killed(yarn, "submitted.py")
    produce(broker, "far-off-views", thirds[2], partitions=3)
    awaited(lambda: counted(table(broker, "far-off-out")) == ledger(sent), yarn)

    assert shown(riverrun, "far-off")["master"] == "yarn"
    assert riverrun("stop", "far-off").out == "far-off is stopped\n"
    assert shown(riverrun, "far-off")["state"] == "stopped"
    written = [json.loads(value or "") for _, value in records(broker, "far-off-out-rows")]
    assert lines(written) == lines(sent)
    assert counted(table(broker, "far-off-out")) == ledger(sent)
    [of_yarn] = awaited(lambda: ended(yarn), yarn)
    assert (of_yarn["name"], of_yarn["finalStatus"]) == ("far-off", "SUCCEEDED")
    assert yarn.told(f"apps/{of_yarn['id']}/appattempts")["appAttempts"]["appAttempt"][2:]
    awaited(lambda: not yarn.processes("container_"), yarn)


def ended(yarn: Yarn) -> list[dict[str, Any]]:
    found = yarn.told("apps?states=FINISHED,FAILED,KILLED")["apps"] or {}
    return list(found.get("app", ()))
