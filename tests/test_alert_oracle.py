"""Alerts against a simple model: random rows, times, commands, cuts, crashes and restarts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from alert_model import SECOND, Model
from riverrun.testing import Driver
from thorough import examples

GROUPS = (None, "a", "b", "ab")
SILENCED = {
    "=a": lambda group: (group or "") == "a",
    "!=a": lambda group: (group or "") != "a",
    "=~a.*": lambda group: bool(re.fullmatch("a.*", group or "")),
    "!~a.*": lambda group: not re.fullmatch("a.*", group or ""),
    "=": lambda group: group is None,
}


@dataclass(frozen=True)
class Step:
    """A batch, and what is asked before it."""

    passes: int
    rows: list[tuple[int, str | None, int | None]]
    acknowledge: str | None = None
    silence: tuple[str, int] | None = None
    unsilence: bool = False
    mishap: str | None = None


groups = st.sampled_from(GROUPS)
# times are multiples of ten: what is due at a time is to be told at it
rows = st.tuples(st.integers(0, 4), groups, st.sampled_from([0, 1, 2, None]))
steps = st.builds(
    Step,
    passes=st.sampled_from([0, 5, 10, 10, 10, 20, 30]),
    rows=st.lists(rows, max_size=3),
    acknowledge=st.none() | st.none() | groups,
    silence=st.none() | st.none() | st.tuples(st.sampled_from(list(SILENCED)), st.integers(1, 60)),
    unsilence=st.sampled_from([False, False, True]),
    mishap=st.sampled_from([None, None, "crash", "restart"]),
)


@dataclass(frozen=True)
class Options:
    wait: int
    interval: int
    repeat: int | None
    resolve: bool
    quiet: int | None
    escalate: tuple[int, ...]
    table: bool
    pages: int

    @property
    def resolve_after(self) -> int | None:
        """As the program has it in the end."""
        if self.table or (self.quiet is None and self.resolve):
            return None
        return max(300 if self.quiet is None else self.quiet, self.wait)


options = st.builds(
    Options,
    wait=st.sampled_from([0, 10, 30]),
    interval=st.sampled_from([0, 20]),
    repeat=st.sampled_from([None, 30, 60]),
    resolve=st.booleans(),
    quiet=st.sampled_from([None, 30, 60]),
    escalate=st.sampled_from([(), (10,), (10, 40)]),
    table=st.booleans(),
    pages=st.sampled_from([1, 3]),
)


def program(given: Options) -> rr.App:
    app = rr.App("oracle", pages=given.pages)
    schema = "id bigint, service string, ms bigint"
    source = (
        app.table("rows", schema=schema, key="id")
        if given.table
        else app.stream("rows", schema=schema)
    )
    quiet = None if given.table or given.quiet is None else f"{given.resolve_after} seconds"
    source.alert(
        group_by="service", name="told", wait=f"{given.wait} seconds",
        interval=f"{given.interval} seconds",
        repeat=None if given.repeat is None else f"{given.repeat} seconds",
        resolve="ms = 0" if given.resolve else None, resolve_after=quiet,
        escalate=[(f"{s} seconds", rr.alerts.topic(f"l{n}")) for n, s in enumerate(given.escalate)],
    )  # fmt: skip
    return app


@dataclass
class Trial:
    """The same for the driver and for the model."""

    given: Options
    driver: Driver = field(init=False)
    model: Model = field(init=False)

    def __post_init__(self) -> None:
        self.driver = Driver(program(self.given), now="2026-01-01T00:00:00Z")
        self.start = self.driver.tick
        given = self.given
        self.model = Model(
            given.wait, given.interval, given.repeat, given.resolve, given.resolve_after,
            given.escalate, table=given.table,
        )  # fmt: skip

    def run(self, step: Step, number: int) -> None:
        self.driver.tick += step.passes * SECOND
        self.model.now += step.passes
        rows = [(k, g, v) for k, g, v in step.rows if v is not None or self.given.table]
        self._commands(step, number)
        for key, group, value in rows:
            row = None if value is None else {"id": key, "service": group, "ms": value}
            self.driver.send("rows", row, key=str(key))
        if step.mishap == "crash":
            self.driver.crash()
        self.driver.batch()
        if step.mishap == "restart":
            self.driver.restart()
        self.model.batch(self.model.now, rows)

    def _commands(self, step: Step, number: int) -> None:
        now, model = self.model.now, self.model
        if step.silence is not None:
            matcher, seconds = step.silence
            how, value = re.fullmatch(r"(!?=~?|!~)(.*)", matcher).groups()
            until = self.driver.tick + seconds * SECOND
            self.driver.control(
                "silence alerts", "told", id=str(number), matchers=[["service", how, value]],
                until=until, by="ann",
            )  # fmt: skip
            model.silences[str(number)] = (SILENCED[matcher], now + seconds)
        if step.unsilence and model.silences:
            first = min(model.silences)
            self.driver.control("unsilence alerts", "told", id=first)
            del model.silences[first]
        if step.acknowledge in model.cases:
            standing = {r["service"]: r for r in self.driver.table("oracle.told.groups")}
            alert = standing[step.acknowledge]["alert"]
            self.driver.control("acknowledge alert", "told", alert=alert, by="ann")
            model.acknowledge(step.acknowledge, now)

    def told(self) -> dict[Any, list[tuple[Any, ...]]]:
        """By group, in order, with the number of the case in place of its name."""
        found: dict[Any, list[tuple[Any, ...]]] = {}
        names: dict[Any, list[str]] = {}
        for line in self.driver.outputs["oracle.told.told"]:
            note = line["value"]
            group, (alert, _, seq) = note["service"], note["key"].partition("-")
            known = names.setdefault(group, [])
            known += [] if alert in known else [alert]
            at = note["at"]
            seconds = int(at[11:13]) * 3600 + int(at[14:16]) * 60 + int(at[17:19])
            row = (known.index(alert), int(seq), note["kind"], note["level"], note["n"], seconds)
            found.setdefault(group, []).append(row)
        return found

    def wanted(self) -> dict[Any, list[tuple[Any, ...]]]:
        found: dict[Any, list[tuple[Any, ...]]] = {}
        for group, number, *rest in self.model.out:
            found.setdefault(group, []).append((number, *rest))
        # cases that nobody has heard of have no number of their own
        return {
            group: [(sorted({r[0] for r in told}).index(row[0]), *row[1:]) for row in told]
            for group, told in found.items()
        }


@settings(deadline=None, max_examples=examples(35), suppress_health_check=list(HealthCheck))
@given(options, st.lists(steps, min_size=4, max_size=14))
def test_what_is_told_is_what_a_simple_model_tells(given, steps):
    trial = Trial(given)
    for number, step in enumerate(steps):
        trial.run(step, number)
    assert trial.told() == trial.wanted()
    standing = {row["service"]: row["state"] for row in trial.driver.table("oracle.told.groups")}
    assert standing.keys() == trial.model.cases.keys()
    before = dict(trial.driver.outputs)
    trial.driver.replay()
    assert trial.driver.outputs == before
