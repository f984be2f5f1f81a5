"""A changed program against its checkpoint: what resumes, what starts empty, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from riverrun.compiler import new_columns
from riverrun.compiler.continued import by_name, former
from riverrun.compiler.shape import KEPT, LAID_OUT, LAYOUT, TEXTS, Shape
from riverrun.errors import CheckpointError
from riverrun.far import AnyPath
from riverrun.operators.windows.all_time import AllTime
from riverrun.operators.windows.life import Life

Change = Literal["same", "added", "removed", "changed", "renamed"]
Outcome = Literal["resumes", "starts empty", "starts here", "forgotten", "refused"]

FRESH = "start over with --fresh"
OLD_FIRST = (
    "run the old version to the end with --once, then start over with --fresh; "
    "or give the new version another name and run both"
)
REPAGE = "rewrite its state: `riverrun rescale {app} --pages {pages}`; or " + FRESH
APP = "APP"
"""Stands for a name that was not given."""
OWN_APP = "make what is new a program of its own, over a topic that this one writes; or " + FRESH
ANEW = FRESH + ", under another name or with what it wrote deleted, to other topics"
RENAME_AGGREGATED = (
    'give the step a new name, .group_by(…, name="…"), or the aggregate a step of its own'
)
OTHER_LAYOUT = "another version of riverrun made it, which laid state out otherwise"
UNNOTED = {KEPT: False, TEXTS: None}
"""What a checkpoint means that does not say it; of anything else: what is so now."""
ALL_TO_LIFE = (AllTime.kind, Life.kind)
PAGES = "pages"
"""The file, beside the state, with the number of pages that it was rewritten for."""
SHORT = 80
"""Characters of what was and what is, in an error."""
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


def verdicts(before: Shape | None, now: Shape, app: str = APP) -> list[Verdict]:
    """One for each part. `before` is what the checkpoint of `app` remembers; None without one."""
    if before is None:
        return [Verdict("program", "checkpoint", "added", "starts here", "there is none yet")]
    return [
        *_program(before, now, app),
        *_sources(before, now),
        *_steps(before, now),
        *_outputs(before, now),
    ]


def refused(found: list[Verdict]) -> list[Verdict]:
    return [verdict for verdict in found if verdict.outcome == "refused"]


def read(folder: AnyPath) -> Shape | None:
    try:
        found: Shape = json.loads((folder / "program.json").read_text())
    except FileNotFoundError:
        return None
    with suppress(FileNotFoundError):
        found["pages"] = int((folder / "query" / PAGES).read_text())
    return found


def require_fit(before: Shape | None, now: Shape, where: object, app: str = APP) -> None:
    """Refuses a program whose state would not fit what the checkpoint of `app` holds."""
    for verdict in refused(verdicts(before, now, app)):
        named = (
            verdict.name if verdict.part == "program" else f"the {verdict.part} {verdict.name!r}"
        )
        raise CheckpointError(
            f"the program does not fit its checkpoint: {named} {verdict.change}",
            where=where,
            got=f"{_short(verdict.before)} became {_short(verdict.now)}: {verdict.why}",
            hint=f"{verdict.ways_out}; `riverrun check` tells more",
        )


def require_layout(kept: Shape, where: object) -> None:
    """Refuses a checkpoint whose state cannot be read."""
    if kept["steps"] and kept.get(LAYOUT) != LAID_OUT:
        raise CheckpointError(
            "the state of the checkpoint cannot be read",
            where=where,
            got=OTHER_LAYOUT,
            hint=OLD_FIRST,
        )


def _short(facts: Any) -> str:
    """What differs, in a few words; `check --json` has all of it."""
    text = json.dumps(facts).replace('"', "").replace("{", "").replace("}", "")
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def _program(before: Shape, now: Shape, app: str) -> Iterator[Verdict]:
    repage = REPAGE.format(app=app, pages=now["pages"])
    rules = (
        ("pages", "keys would be looked for in the wrong page", repage),
        (
            "exchanges",
            "what is known of time is kept for each exchange, from the first batch on",
            OWN_APP,
        ),
        (
            "one writer",
            "into how many parts pages are dealt is in Spark's log, with every batch",
            OLD_FIRST,
        ),
        (
            ".spark() steps",
            "each .spark() step is a reader of its own in Spark's log of offsets",
            OLD_FIRST,
        ),
    )
    if before["steps"] and before.get(LAYOUT) != LAID_OUT:
        parts = (before.get(LAYOUT, 1), LAID_OUT)
        yield Verdict("program", LAYOUT, "changed", "refused", OTHER_LAYOUT, OLD_FIRST, *parts)
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
        elif change == "changed" and was and was.get("personal") != (new or {}).get("personal"):
            why = "what was read before is kept as it was: readable, or not"
            parts = (was.get("personal"), (new or {}).get("personal"))
            yield Verdict("source", topic, change, "refused", why, ANEW, *parts)
        elif change == "changed" and was is not None:
            why = f"other {_names(was, new)}; holds from the next batch on"
            yield Verdict("source", topic, change, "resumes", why)
        else:
            yield Verdict("source", topic, "same", "resumes")


def _steps(before: Shape, now: Shape) -> Iterator[Verdict]:
    renamed = {old for name in now["steps"] if (old := former(name, before, now)) != name}
    for name in {**before["steps"], **now["steps"]}:
        if name in now["steps"]:
            yield _step(name, before, now)
        elif name not in renamed:
            yield Verdict("step", name, "removed", "forgotten", "its state is deleted")


def _step(name: str, before: Shape, now: Shape) -> Verdict:
    old, new = former(name, before, now), now["steps"][name]
    if old is None:
        return Verdict("step", name, "added", "starts empty", _renamed(name, before, now))
    was = before["steps"][old]
    if old == name and (tables := new_columns.fit(name, before, now)) is not None:
        why = "; ".join(each.text for each in tables)
        return Verdict("step", name, "changed", "resumes", why)
    different = [part for part in new if _noted(was, part, new[part]) != new[part]]
    begins = _begins_to_end(was, new)
    if begins:
        different.remove("window")
    if different == ["aggregates"]:
        notes, refusal = _aggregates(was, new)
        if refusal is None:
            return _settings((old, name), before, now, [*begins, *notes])
        ways_out = f"{RENAME_AGGREGATED}; or {FRESH}"
        return Verdict("step", name, "changed", "refused", refusal, ways_out, *_differing(was, new))
    if different:
        why = f"other {', '.join(different)}: its state would be read as something else"
        if different == [KEPT]:
            why = "rows that came with and without keep cannot be told apart in its state"
        ways_out, parts = _ways_out(was, new, different), _differing(was, new)
        return Verdict("step", name, "changed", "refused", why, ways_out, *parts)
    return _settings((old, name), before, now, begins)


def _noted(was: Mapping[str, Any], part: str, now: Any) -> Any:
    """What a checkpoint says of a step; earlier versions did not note all that there is now."""
    # any other: it was as it is now
    return was.get(part, UNNOTED.get(part, now))


def _begins_to_end(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Groups that were kept for ever may end from now on; those that are gone do not come back."""
    kinds = tuple(each.get("window", {}).get("kind") for each in (was, now))
    return (
        ["groups end, the ones that are there after their next row"] if kinds == ALL_TO_LIFE else []
    )


def _aggregates(was: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[str], str | None]:
    """What becomes of aggregates that are added or gone; why they may not be, if so."""
    had, has = by_name(was), by_name(now)
    added = [name for name, facts in has.items() if had.get(name) != facts]
    gone = [name for name in had if name not in has]
    if added and any(has[name]["signed"] for name in added):
        return [], (
            f"{', '.join(added)} would be told of rows that go and never came: "
            "an aggregate over a table cannot start from now on"
        )
    if _compares(had) != _compares(has):
        return [], "with and without comparisons its state is kept in another form"
    notes = [f"{', '.join(added)} starts from now on, null before"] if added else []
    return [*notes, *([f"{', '.join(gone)} is dropped"] if gone else [])], None


def _compares(aggregates: Mapping[str, Any]) -> bool:
    return any(each["compared_to"] for each in aggregates.values())


def _differing(was: Any, now: Any) -> tuple[Any, Any]:
    """The two without what is the same in both, however deep."""
    if not isinstance(was, dict) or not isinstance(now, dict):
        return was, now
    names = [name for name in {**now, **was} if was.get(name) != now.get(name)]
    pairs = {name: _differing(was.get(name), now.get(name)) for name in names}
    return {name: one for name, (one, _) in pairs.items()}, {
        name: other for name, (_, other) in pairs.items()
    }


def _ways_out(was: Mapping[str, Any], new: Mapping[str, Any], different: list[str]) -> str:
    if was["does"] == "captured" and different == ["columns"]:
        # perhaps nobody has changed the program: a table without a schema has the database's
        return f"it goes on with the columns that it has: schema={was['columns']!r}; or {FRESH}"
    added = different == ["columns"] and was["does"] == "rank"
    if added and set(was["columns"]) < set(new["columns"]):
        kept = ", ".join(f'"{name}"' for name in was["columns"])
        return f"it goes on with the columns that it had: .select({kept}) before it; or {RENAME}"
    return RENAME


def _settings(names: tuple[str, str], before: Shape, now: Shape, notes: list[str]) -> Verdict:
    """Of a step whose state stays: its name before and now."""
    old, name = names
    aggregated = bool(notes)
    was, new = before.get("settings", {}).get(old), now["settings"][name]
    if old != name:
        notes = [f"was {old!r}", *notes]
    change: Change = "changed" if old == name else "renamed"
    if was is None or was == new:
        why = "; ".join(notes) or None
        return Verdict("step", name, change if notes else "same", "resumes", why)
    # how long groups are kept is part of how their rows come in
    if was["rows"] != new["rows"] and not aggregated and was.get("keep") == new.get("keep"):
        notes.append("other rows go in; what was counted stays counted")
    if others := [part for part in new if part != "rows" and was.get(part) != new[part]]:
        notes.append(f"other {', '.join(others)}; holds from the next batch on")
    return Verdict("step", name, change, "resumes", "; ".join(notes) or None)


def _renamed(name: str, before: Shape, now: Shape) -> str | None:
    """A step that went, and was the same: perhaps only its name was to change."""
    gone = [old for old in before["steps"] if old not in now["steps"]]
    alike = [old for old in gone if before["steps"][old] == now["steps"][name]]
    was = now["was"].get(name)
    if was is not None:
        return f"the checkpoint has no step {was!r}"
    return f"was it called {alike[0]!r}? was={alike[0]!r} keeps its state" if alike else None


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
