"""The life of a connector in Connect: what it is at, stopped until nothing of it runs, mended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from riverrun.capture.capturer import Doing
from riverrun.capture.rest import Rest
from riverrun.errors import ConnectError

PATIENCE = timedelta(minutes=1)
FAILED, RESTING = "FAILED", ("STOPPED", "PAUSED")
DOING: dict[str, Doing] = {
    "RUNNING": "streaming",
    "PAUSED": "paused",
    "STOPPED": "stopped",
    "UNASSIGNED": "starting",
    "RESTARTING": "starting",
    "DESTROYED": "stopped",
    FAILED: "failed",
}


def doing(rest: Rest, name: str) -> tuple[Doing, str | None]:
    """What a connector is at, and the error that it failed with."""
    status = rest.get("connectors", name, "status")
    if status is not None:
        return told(status)
    if rest.get("connectors", name, "config") is not None:
        return "starting", None  # it was made just now
    return "stopped", "Kafka Connect has no such connector"


def told(status: Mapping[str, Any]) -> tuple[Doing, str | None]:
    """What follows from a connector's status."""
    parts = [status["connector"], *status["tasks"]]
    failed = next((each for each in parts if each["state"] == FAILED), None)
    if failed is not None:
        return "failed", first_words(failed.get("trace") or "")
    state = DOING[status["connector"]["state"]]
    tasks = [DOING[each["state"]] for each in status["tasks"]]
    if state == "streaming" and (not tasks or "starting" in tasks):
        return "starting", None
    return state, None


def first_words(trace: str) -> str:
    """The first line of a trace, and of what caused it in the end: classes are left out."""
    lines = [line.strip() for line in trace.splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = next(iter(lines), "no trace")
    told = [_without_class(first), *(_without_class(each) for each in causes[-1:])]
    return "; ".join(dict.fromkeys(told))


def _without_class(line: str) -> str:
    name, colon, rest = line.partition(": ")
    return rest if colon and "." in name and " " not in name else line


def resumed(rest: Rest, name: str) -> None:
    """Returns once Connect has heard it. What has failed is started anew, as Connect does not."""
    if doing(rest, name)[0] == "failed":
        query = "?includeTasks=true&onlyFailed=true"
        rest.ask("POST", "connectors", name, "restart", query=query)
    rest.put("connectors", name, "resume")
    _await(rest, name, "goes on", lambda status: status["connector"]["state"] not in RESTING)


def stopped(rest: Rest, name: str) -> None:
    """Returns once no task of the connector runs."""
    rest.put("connectors", name, "stop")
    _await(rest, name, "stops", _at_rest)


def _at_rest(status: Mapping[str, Any]) -> bool:
    return status["connector"]["state"] == "STOPPED" and not status["tasks"]


def _await(rest: Rest, name: str, what: str, done: Callable[[Mapping[str, Any]], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE.total_seconds()
    while (status := rest.get("connectors", name, "status")) is not None and not done(status):
        if time.monotonic() > give_up_at:
            raise ConnectError(
                f"it is not seen that the connector {name!r} {what}",
                where=rest.url,
                got=f"{status['connector']['state']} after {PATIENCE}",
            )
        time.sleep(0.1)
