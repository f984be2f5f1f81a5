"""Two versions of an application: how their results differ, as they stand now."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from riverrun.app import App
from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka.promotions import PromotionLog
from riverrun.kernels.program import Program
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import OutputSpec, Standing
from riverrun.partitions import Partition, as_texts
from riverrun.runtime.comparison import Comparison, Difference, InWindow
from riverrun.runtime.target import Target, opened, output_named, remembered
from riverrun.runtime.versioned import beside
from riverrun.schema import Schema, parse
from riverrun.versions import Version

WINDOW = "window_start"


@dataclass(frozen=True)
class Side:
    """One of the two: the outputs that it has as it runs, by the name that the program has."""

    version: str
    program: Program
    outputs: Mapping[str, OutputSpec]


@dataclass(frozen=True)
class Stood:
    """How far a version had come when it was looked at."""

    version: str
    output: str
    """What the output is called there."""
    batch: int | None
    """None where its results were made for this."""
    rows: int
    read: Mapping[str, int]
    """Of the topics that both read: the next offset of each partition."""


@dataclass(frozen=True)
class Columns:
    """What is compared are columns that both have."""

    first_only: tuple[str, ...]
    second_only: tuple[str, ...]
    other_types: tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """How an output of the second version differs from that of the first."""

    output: str
    first: Stood
    second: Stood
    missing: int
    extra: int
    other: int
    columns: Columns
    windows: list[InWindow]
    differences: list[Difference]

    @property
    def same(self) -> bool:
        return not (self.missing or self.extra or self.other)

    @property
    def ahead(self) -> int:
        """How many records more the first has read than the second."""
        both = self.first.read.keys() & self.second.read.keys()
        return sum(self.first.read[each] - self.second.read[each] for each in both)

    @property
    def same_input(self) -> bool:
        return self.first.read == self.second.read

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "same": self.same, "same_input": self.same_input}


def side(app: App, version: str, settings: Settings) -> Side:
    """A version of the program. Columns and keys are those with which it has run; the program may
    be that of another version, which writes to the same places."""
    promoted = PromotionLog(kafka.client(settings), app.name).look()
    named = Version(app.name, version)
    program = beside(app, named, public=promoted.is_public(version)).program()
    ran = remembered(program, settings)["outputs"]
    names = [each.name for each in app.program().outputs]
    both = zip(names, program.outputs, strict=True)
    return Side(version, program, {n: _as_run(o, ran[o.name]) for n, o in both if o.name in ran})


def _as_run(output: OutputSpec, noted: Mapping[str, Any]) -> OutputSpec:
    columns, key = parse(noted["columns"]), tuple(noted["key"])
    return replace(output, schema=columns, key=key, table=noted["table"])


def shared(first: Side, second: Side, name: str | None) -> list[str]:
    """The outputs to compare: all that both have, or the one that is asked for."""
    both = [each for each in first.outputs if each in second.outputs]
    if name is None:
        return both
    named = {each: replace(first.outputs[each], name=each) for each in both}
    return [output_named(replace(first.program, outputs=tuple(named.values())), name).name]


def compare(name: str, first: Side, second: Side, settings: Settings, *, limit: int) -> Compared:
    """An output of both. An InputError if it cannot be read back, or has another key."""
    output, columns = in_common(name, first.outputs[name], second.outputs[name])
    theirs, mine = (opened(s.program, s.outputs[name], settings) for s in (first, second))
    with (
        theirs.scratch() as folder,
        closing(Comparison(output, shared_evaluator(), folder)) as both,
    ):
        with theirs.standing() as (batch, found):
            _each(found, both.expect)
            one = _stood(first, batch, theirs, second.program)
        with mine.standing() as (batch, found):
            _each(found, both.find)
            other = _stood(second, batch, mine, first.program)
        return compared(name, one, other, both, columns, limit=limit)


def compared(
    name: str, one: Stood, other: Stood, both: Comparison, columns: Columns, *, limit: int
) -> Compared:
    """Of all rows of both, which the comparison has by now."""
    both.compare()
    counts = both.counts()
    return Compared(
        name,
        replace(one, rows=counts.pop("wanted")),
        replace(other, rows=counts.pop("found")),
        **counts,
        columns=columns,
        windows=both.windows(WINDOW, limit) if WINDOW in both.output.schema else [],
        differences=list(both.differences(limit)),
    )


def _each(found: Standing, take: Any) -> None:
    for rows in found.rows:
        take(rows)


def in_common(name: str, one: OutputSpec, other: OutputSpec) -> tuple[OutputSpec, Columns]:
    """The output with the columns that are compared; an InputError if rows have another key."""
    if (one.key, one.table) != (other.key, other.table):
        raise InputError(
            f"the output {name!r} has another key",
            got=f"{', '.join(one.key) or 'none'}, then {', '.join(other.key) or 'none'}",
            hint="rows are compared by their key",
        )
    mine = {column.name: column.type for column in one.schema.columns}
    theirs = {column.name: column.type for column in other.schema.columns}
    for each in one.key:
        if mine[each] != theirs[each]:
            raise InputError(
                f"the output {name!r} has a key of another type",
                got=f"{each} {mine[each]}, then {theirs[each]}",
                hint="rows are compared by their key",
            )
    columns = Columns(
        tuple(each for each in mine if each not in theirs),
        tuple(each for each in theirs if each not in mine),
        tuple(each for each in mine if theirs.get(each, mine[each]) != mine[each]),
    )
    kept = Schema(tuple(each for each in other.schema.columns if each.name in mine))
    return replace(other, name=name, schema=kept), columns


def _stood(side: Side, batch: int, target: Target, others: Program) -> Stood:
    topics = {source.topic for source in others.sources} - {*side.program.own_topics}
    ends = target.batches.at(batch).ends if batch >= 0 else dict[Partition, int]()
    read = {each: end for each, end in ends.items() if each.topic in topics}
    return Stood(side.version, target.output.name, batch, 0, as_texts(read))
