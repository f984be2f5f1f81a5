"""An application's checkpoint folder: held by one run at a time, and compared with the program."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Literal

from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.program import Aggregating, Deduplicating, Marking, Processing, Program, Step
from riverrun.spark.writer import Identity


@contextmanager
def held(folder: Path, name: str) -> Iterator[None]:
    """Nobody else may run the application meanwhile; the lock goes with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        if not _taken(file, fcntl.LOCK_EX, attempts=5):
            file.seek(0)
            raise AlreadyRunning(
                f"the application {name!r} is running already",
                where=folder,
                got=f"process {file.read().strip() or 'unknown'}",
                hint=f"stop it with `riverrun stop {name}`, or give this program another name",
            )
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        (folder / "stop").unlink(missing_ok=True)
        yield


def holder(folder: Path) -> int | None:
    """The process that runs the application; None if it does not run."""
    try:
        with (folder / "lock").open() as file:
            return None if _taken(file, fcntl.LOCK_SH) else int(file.read().strip() or 0)
    except FileNotFoundError:
        return None


def _taken(file: IO[str], kind: int, attempts: int = 1) -> bool:
    """Whoever only looks takes the lock for a moment, too: hence more than one attempt."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(0.05)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


Wish = Literal["drain", "now"]


def ask_to_stop(folder: Path, wish: Wish) -> None:
    """For the process that runs the application, wherever it is."""
    (folder / "stop").write_text(wish)


def wish_to_stop(folder: Path) -> str | None:
    try:
        return (folder / "stop").read_text() or None
    except FileNotFoundError:
        return None


def forget(folder: Path) -> None:
    shutil.rmtree(folder / "query", ignore_errors=True)
    for name in ("program.json", "id"):
        (folder / name).unlink(missing_ok=True)


def identity(folder: Path) -> Identity:
    """The checkpoint's own id, made with it, and a number for this run: later ones are higher."""
    file, query = folder / "id", folder / "query"
    if not file.exists() or not query.exists():
        file.write_text(uuid.uuid4().hex)
    return Identity(file.read_text(), time.time_ns() // 1000)


def shape(program: Program) -> dict[str, Any]:
    """What state depends on: it must be the same when a program resumes."""
    return {
        "pages": program.pages,
        "topics": [source.topic for source in program.sources],
        "steps": {step.name: _step_shape(step) for step in program.steps},
    }


def _step_shape(step: Step) -> dict[str, Any]:
    """What a step's rows in state depend on: not when they are emitted, nor what counts as late."""
    facts: dict[str, Any] = {"does": type(step).__name__, "level": step.level}
    facts["keys"] = list(step.keys)
    if isinstance(step, Aggregating):
        facts["window"] = asdict(step.window)
        facts["aggregates"] = [asdict(each) for each in step.aggregations]
    if isinstance(step, Deduplicating):
        facts["within"] = step.within
    if isinstance(step, Marking):
        facts["filter"] = [step.capacity, step.error]
    if isinstance(step, Processing):
        facts["state"] = step.state.ddl()
        facts["outputs"] = {name: schema.ddl() for name, schema in step.outputs}
    return facts


def compare(folder: Path, program: Program) -> None:
    """Refuses a program whose state would not fit what the checkpoint holds."""
    file = folder / "program.json"
    if not file.exists():
        return
    before, now = json.loads(file.read_text()), json.loads(json.dumps(shape(program)))
    if now["steps"] and now["topics"][: len(before["topics"])] != before["topics"]:
        # positions of records, by which first and last are decided, follow the order of topics
        raise _changed("topics", folder, before["topics"], now["topics"])
    if bool(before["steps"]) != bool(now["steps"]):
        raise _changed("steps with state", folder, before["steps"], now["steps"])
    if before["pages"] != now["pages"]:
        raise _changed("pages", folder, before["pages"], now["pages"])
    for name, step in now["steps"].items():
        if name in before["steps"] and before["steps"][name] != step:
            was = {
                part: value
                for part, value in before["steps"][name].items()
                if value != step.get(part)
            }
            new = {part: step.get(part) for part in was}
            hint = 'start over with --fresh, or give the step a new name: .group_by(…, name="…")'
            raise _changed(f"the step {name!r}", folder, was, new, hint)


def _changed(
    what: str, folder: Path, before: Any, now: Any, hint: str = "start over with --fresh"
) -> CheckpointError:
    return CheckpointError(
        f"the program does not fit its checkpoint: {what} changed",
        where=folder,
        got=f"{json.dumps(before)} became {json.dumps(now)}",
        hint=hint,
    )


def note(folder: Path, program: Program) -> None:
    (folder / "program.json").write_text(json.dumps(shape(program), indent=1))
