"""A changed program against its checkpoint: what resumes, what starts empty, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from riverrun.compiler.shape import Shape
from riverrun.errors import CheckpointError

Change = Literal["same", "added", "removed", "changed"]
Outcome = Literal["resumes", "starts empty", "starts here", "forgotten", "refused"]

FRESH = "start over with --fresh"
OLD_FIRST = (
    "run the old version to the end with --once, then start over with --fresh; "
    "or give the new version another name and run both"
)
OWN_APP = "make what is new a program of its own, over a topic that this one writes; or " + FRESH
RENAME = 'give the step a new name, .group_by(…, name="…"): it starts empty; or ' + FRESH


@dataclass(frozen=True)
class Verdict:
    """What becomes of one part of the program."""

    part: Literal["program", "source", "step", "output"]
    name: str
    change: Change
    outcome: Outcome
    why: str | None = None
    ways_out: str | None = None
    before: Any = None
    now: Any = None


def verdicts(before: Shape | None, now: Shape) -> list[Verdict]:
    """One for each part. `before` is what the checkpoint remembers; None without a checkpoint."""
    if before is None:
        return [Verdict("program", "checkpoint", "added", "starts here", "there is none yet")]
    return [
        *_program(before, now),
        *_sources(before, now),
        *_steps(before, now),
        *_outputs(before, now),
    ]


def refused(found: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in found if verdict.outcome == "refused"]


def read(folder: Path) -> Shape | None:
    try:
        found: Shape = json.loads((folder / "program.json").read_text())
    except FileNotFoundError:
        return None
    return found


def require_fit(folder: Path, now: Shape) -> None:
    """Refuses a program whose state would not fit what the checkpoint holds."""
    for verdict in refused(verdicts(read(folder), now)):
        named = (
            verdict.name if verdict.part == "program" else f"the {verdict.part} {verdict.name!r}"
        )
        raise CheckpointError(
            f"the program does not fit its checkpoint: {named} {verdict.change}",
            where=folder,
            got=f"{json.dumps(verdict.before)} became {json.dumps(verdict.now)}: {verdict.why}",
            hint=f"{verdict.ways_out}; `riverrun check` tells more",
        )


def _program(before: Shape, now: Shape) -> Iterator[Verdict]:
    rules = (
        ("pages", "keys would be looked for in the wrong page", OLD_FIRST),
        ("exchanges", "Spark's state has one part for each exchange that steps follow", OWN_APP),
        (
            "one writer",
            "Spark's state is in as many parts as there are writers, for good",
            OLD_FIRST,
        ),
        (
            ".spark() steps",
            "each .spark() step is a reader of its own in Spark's log of offsets",
            OLD_FIRST,
        ),
    )
    for name, why, ways_out in rules:
        was, new = before.get(name, now[name]), now[name]
        if was != new:
            yield Verdict("program", name, "changed", "refused", why, ways_out, was, new)


def _sources(before: Shape, now: Shape) -> Iterator[Verdict]:
    stateful = bool(now["steps"])
    order = now["topics"][: len(before["topics"])] != before["topics"]
    known = before.get("sources", dict.fromkeys(before["topics"]))
    for topic in {**known, **now["sources"]}:
        was, new = known.get(topic), now["sources"].get(topic)
        change = _change(topic, known, now["sources"])
        if change in ("added", "removed") and stateful and order:
            why = "records in state are numbered by topic, in the order of the topics' names"
            yield Verdict(
                "source", topic, change, "refused", why, OLD_FIRST, before["topics"], now["topics"]
            )
        elif change == "added":
            yield Verdict("source", topic, change, "starts here", "read from its `start` on")
        elif change == "removed":
            yield Verdict("source", topic, change, "forgotten", "its offsets, too")
        elif change == "changed" and was is not None:
            why = f"other {_names(was, new)}; holds from the next batch on"
            yield Verdict("source", topic, change, "resumes", why)
        else:
            yield Verdict("source", topic, "same", "resumes")


def _steps(before: Shape, now: Shape) -> Iterator[Verdict]:
    for name in {**before["steps"], **now["steps"]}:
        was, new = before["steps"].get(name), now["steps"].get(name)
        if was is None:
            yield Verdict("step", name, "added", "starts empty", _renamed(name, before, now))
        elif new is None:
            yield Verdict("step", name, "removed", "forgotten", "its state is deleted")
        elif different := [part for part in new if was.get(part, new[part]) != new[part]]:
            why = f"other {', '.join(different)}: its state would be read as something else"
            kept = [{part: facts.get(part) for part in different} for facts in (was, new)]
            yield Verdict("step", name, "changed", "refused", why, _ways_out(was, different), *kept)
        else:
            yield _settings(name, before, now)


def _ways_out(was: Mapping[str, Any], different: list[str]) -> str:
    if was["does"] == "captured" and different == ["columns"]:
        # perhaps nobody has changed the program: a table without a schema has the database's
        return f"it goes on with the columns that it has: schema={was['columns']!r}; or {FRESH}"
    return RENAME


def _settings(name: str, before: Shape, now: Shape) -> Verdict:
    was, new = before.get("settings", {}).get(name), now["settings"][name]
    if was is None or was == new:
        return Verdict("step", name, "same", "resumes")
    notes = []
    if was["rows"] != new["rows"]:
        notes.append("other rows go in; what was counted stays counted")
    if others := [part for part in new if part != "rows" and was.get(part) != new[part]]:
        notes.append(f"other {', '.join(others)}; holds from the next batch on")
    return Verdict("step", name, "changed", "resumes", "; ".join(notes))


def _renamed(name: str, before: Shape, now: Shape) -> str | None:
    """A step that went, and was the same: perhaps only its name was to change."""
    gone = [old for old in before["steps"] if old not in now["steps"]]
    alike = [old for old in gone if before["steps"][old] == now["steps"][name]]
    return f"was it called {alike[0]!r}? name={alike[0]!r} keeps its state" if alike else None


def _outputs(before: Shape, now: Shape) -> Iterator[Verdict]:
    known = before.get("outputs")
    if known is None:
        return
    for name in {**known, **now["outputs"]}:
        change = _change(name, known, now["outputs"])
        if change == "added":
            why = "gets what changes from now on, not what is in state already"
            yield Verdict("output", name, change, "starts here", why)
        elif change == "removed":
            yield Verdict("output", name, change, "forgotten", "what was written stays")
        elif change == "changed":
            why = f"other {_names(known[name], now['outputs'][name])}; what was written stays"
            yield Verdict("output", name, change, "resumes", why)
        else:
            yield Verdict("output", name, change, "resumes")


def _change(name: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Change:
    if name not in before:
        return "added"
    if name not in now:
        return "removed"
    return "same" if before[name] == now[name] else "changed"


def _names(before: Mapping[str, Any], now: Mapping[str, Any] | None) -> str:
    return ", ".join(part for part in now or {} if before.get(part) != (now or {})[part])
