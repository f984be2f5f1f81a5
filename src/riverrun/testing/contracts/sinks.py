"""What every sink must hold: what it declares is what its destination does."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from riverrun.errors import AlreadyRunning, CheckpointError
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Destination, OutputSpec, Part, Places, Sink
from riverrun.schema import literal, nested, parse

Row = dict[str, Any]
Change = tuple[int, str | None, int]
"""1 or -1, the key, and the value."""

COUNTS = "user string, n bigint"
TYPES = (
    "t string, i int, b bigint, d double, yes boolean, day date, at timestamp, money decimal(9, 2),"
    " tags string[], pair struct(a bigint, b string)"
)
KEYED = "user string, tags string[], pair struct(a bigint, b double[]), n bigint"
NESTED_KEYS: tuple[tuple[Any, Any], ...] = (
    ([], None), (None, None), ([None], {"a": 1, "b": []}), ([None], {"a": 1, "b": None}),
    (["ü", "a"], {"a": None, "b": [1.5, None]}), (["a", "ü"], {"a": None, "b": [1.5, None]}),
)  # fmt: skip
NOON = datetime(2026, 1, 1, 12)
FULL: Row = {
    "t": "Grüße, 世界 🌍\n\"'\\,\t;",
    "i": -7,
    "b": 2**53,
    "d": 0.1,
    "yes": True,
    "day": date(2026, 2, 28),
    "at": NOON + timedelta(microseconds=5),
    "money": Decimal("1234567.89"),
    "tags": ["a", "", "ü", None],
    "pair": {"a": 1, "b": None},
}
CHANGE = {"__op": "TINYINT", "__revision": "BIGINT"}
EMPTY: Row = {**dict.fromkeys(FULL), "t": "", "i": 0, "yes": False}
NOTHING: Row = dict.fromkeys(FULL)


@dataclass
class Stand:
    """Where a sink is tried: how one is made, and how readers see what it has written."""

    sink: Callable[[str], Sink]
    """A sink by that name: another one for another name."""
    read: Callable[[OutputSpec], list[Row]]
    """Of a stream every row that is there; of a table the rows as they stand."""
    places: Places = field(default_factory=lambda: Places((), "exactly once"))
    application: str = field(default_factory=lambda: f"contract-{uuid4().hex[:8]}")
    opened: list[Destination] = field(default_factory=list)

    def stream(self, name: str, ddl: str = COUNTS) -> OutputSpec:
        return OutputSpec(name, self.sink(name), parse(ddl), (), table=False)

    def table(self, name: str, ddl: str = COUNTS, key: tuple[str, ...] = ("user",)) -> OutputSpec:
        return OutputSpec(name, self.sink(name), parse(ddl), key, table=True)

    def destination(self, sink: Sink) -> Destination:
        """A new one, as another process has it."""
        made = sink.destination(self.places)
        assert made is not None, "what is shown needs no contract"
        self.opened.append(made)
        return made

    def exact(self, output: OutputSpec) -> bool:
        return output.sink.guarantee(self.places.delivery) == "exactly once"

    def assert_holds(self, output: OutputSpec, wanted: Sequence[Row]) -> None:
        """These rows, each once; or at least once, and none is made up."""
        found, rows = told(output, self.read(output)), told(output, wanted)
        if self.exact(output):
            assert found == rows
        else:
            assert set(found) == set(rows)


@dataclass
class Run:
    """A run of an application with one output, as its driver and tasks use a destination."""

    stand: Stand
    output: OutputSpec
    number: int = 1
    checkpoint: str = "c" * 32
    evaluator: Evaluator = field(default_factory=Evaluator)

    def __post_init__(self) -> None:
        self.destination = self.another_process()

    def another_process(self) -> Destination:
        return self.stand.destination(self.output.sink)

    def begin(self) -> Run:
        self.destination.prepare([self.output])
        self.destination.take_over(self.stand.application, self.number)
        return self

    def deliver(self, batch: int, rows: pa.Table, **facts: Any) -> Any:
        part = Part(self.stand.application, self.checkpoint, self.number, batch, 0, tick=batch)
        self.destination.begin(replace(part, **facts))
        found = [(self.output, rows)]
        return self.destination.deliver(replace(part, **facts), found, self.evaluator)

    def compare(self, batch: int, rows: pa.Table | None) -> None:
        part = Part(self.stand.application, self.checkpoint, self.number, batch, 0, tick=batch)
        found = [] if rows is None else [(self.output, rows)]
        self.destination.compare(part, found, self.evaluator)

    def write(self, batch: int, rows: pa.Table, **facts: Any) -> None:
        self.destination.finish(batch, [None, self.deliver(batch, rows, **facts)])


class SinkContract(ABC):
    """Cases that every destination must pass.

    Derive a class whose name begins with Test, with a fixture `stand` that returns a `Stand`.
    """

    @abstractmethod
    def stand(self, *fixtures: Any) -> Stand: ...

    @pytest.fixture(autouse=True)
    def closed(self, stand: Stand) -> Iterator[None]:
        yield
        for each in stand.opened:
            each.close()

    def test_a_part_that_comes_again_takes_effect_as_the_guarantee_says(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("again")).begin()
        for batch, numbers in ((0, (1, 2)), (1, (3,))):
            run.write(batch, stream(*numbers))
            run.write(batch, stream(*numbers))
            run.destination = run.another_process()
            run.write(batch, stream(*numbers))
        stand.assert_holds(run.output, counts(1, 2, 3))

    def test_what_a_killed_run_has_delivered_does_not_count_twice(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("killed")).begin()
        run.deliver(0, stream(1, 2))
        Run(stand, run.output, number=2).begin().write(0, stream(1, 2))
        stand.assert_holds(run.output, counts(1, 2))

    def test_an_earlier_run_may_not_write_once_a_later_one_has(self, stand: Stand) -> None:
        """At least once, it may: it does no harm."""
        early = Run(stand, stand.stream("fenced")).begin()
        early.write(0, stream(1))
        late = Run(stand, early.output, number=2).begin()
        late.write(1, stream(2))
        with pytest.raises(AlreadyRunning) if stand.exact(early.output) else nullcontext():
            early.write(1, stream(2))
        late.write(2, stream(3))
        stand.assert_holds(early.output, counts(1, 2, 3))

    def test_another_result_for_the_same_part_stops_loudly(self, stand: Stand) -> None:
        """At least once, nobody remembers what was written."""
        run = Run(stand, stand.stream("changed")).begin()
        run.write(0, stream(1, 2))
        for other in (stream(1), stream(1, 2, 2)):
            with pytest.raises(CheckpointError) if stand.exact(run.output) else nullcontext():
                run.write(0, other)
        run.write(0, stream(2), keep_written=True)
        stand.assert_holds(run.output, counts(1, 2))

    def test_a_part_is_compared_and_nothing_is_written(self, stand: Stand) -> None:
        """Where a batch is committed as a whole, or not noted, tasks have nothing to compare."""
        run = Run(stand, stand.stream("compared")).begin()
        run.write(0, stream(1, 2))
        run.destination = run.another_process()
        run.compare(0, stream(1, 2))
        run.compare(1, stream(3))
        run.compare(1, None)
        noticed = type(run.destination).compare is not Destination.compare
        for other in (stream(1), None):
            with pytest.raises(CheckpointError) if noticed else nullcontext():
                run.compare(0, other)
        stand.assert_holds(run.output, counts(1, 2))

    def test_rows_of_a_table_replace_and_delete_by_key(self, stand: Stand) -> None:
        run = Run(stand, stand.table("table")).begin()
        run.write(0, changes((1, "ann", 1), (1, "bob", 2), (1, None, 3)))
        run.write(1, changes((-1, "ann", 1), (1, "ann", 4), (-1, "bob", 2), (-1, None, 3)))
        stand.assert_holds(run.output, [{"user": "ann", "n": 4}])
        run.write(2, changes((1, "bob", 5), (1, None, 6)))
        wanted = [("ann", 4), ("bob", 5), (None, 6)]
        stand.assert_holds(run.output, [{"user": user, "n": n} for user, n in wanted])

    def test_lists_and_structs_are_keys(self, stand: Stand) -> None:
        run = Run(stand, stand.table("nested", KEYED, ("tags", "pair"))).begin()
        rows: list[Row] = [
            {"user": f"u{n}", "tags": tags, "pair": pair, "n": n}
            for n, (tags, pair) in enumerate(NESTED_KEYS)
        ]
        told = {"__op": 1, "__revision": 0}
        run.write(0, typed(run.evaluator, KEYED, *({**row, **told} for row in rows)))
        new = [{**row, "n": row["n"] + 10} for row in rows[::2]]
        back = [{**row, "__op": -1, "__revision": 0} for row in rows]
        again = ({**row, "__op": 1, "__revision": 1} for row in new)
        run.write(1, typed(run.evaluator, KEYED, *back, *again))
        stand.assert_holds(run.output, new)

    def test_tasks_of_a_batch_are_apart(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("tasks")).begin()
        receipts = [run.deliver(0, stream(task), task=task) for task in range(3)]
        run.destination.finish(0, receipts)
        stand.assert_holds(run.output, counts(0, 1, 2))

    def test_values_of_every_type_and_nulls_arrive(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("types", TYPES)).begin()
        run.write(0, typed(run.evaluator, TYPES, FULL, EMPTY, NOTHING))
        stand.assert_holds(run.output, [FULL, EMPTY, NOTHING])

    def test_a_part_without_rows_leaves_nothing(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("none")).begin()
        run.destination.finish(0, [None, None])
        run.write(1, stream())
        run.destination.finish(2, [])
        run.write(3, stream(1))
        stand.assert_holds(run.output, counts(1))

    def test_finishing_twice_changes_nothing(self, stand: Stand) -> None:
        run = Run(stand, stand.stream("finished")).begin()
        receipt = run.deliver(0, stream(1, 2))
        run.destination.finish(0, [receipt])
        run.another_process().finish(0, [receipt])
        stand.assert_holds(run.output, counts(1, 2))


def stream(*numbers: int) -> pa.Table:
    """Rows of a stream."""
    return pa.table(
        {
            "user": pa.array([f"u{n}" for n in numbers], pa.large_string()),
            "n": pa.array(numbers, pa.int64()),
            **_places(len(numbers)),
        }
    )


def counts(*numbers: int) -> list[Row]:
    return [{"user": f"u{n}", "n": n} for n in numbers]


def changes(*found: Change) -> pa.Table:
    """Changes of a table, as they leave its step."""
    back = {user for op, user, _ in found if op < 0}
    return pa.table(
        {
            "user": pa.array([user for _, user, _ in found], pa.large_string()),
            "n": pa.array([n for _, _, n in found], pa.int64()),
            "__op": pa.array([op for op, _, _ in found], pa.int8()),
            "__revision": pa.array(
                [int(op > 0 and user in back) for op, user, _ in found], pa.int64()
            ),
        }
    )


def _places(count: int) -> dict[str, pa.Array]:
    return {
        "__at": pa.array([NOON] * count, pa.timestamp("us")),
        "__pos": pa.array(range(count), pa.int64()),
        "__sub": pa.array([0] * count, pa.int64()),
    }


def typed(evaluator: Evaluator, ddl: str, *rows: Row) -> pa.Table:
    """Rows of every type, as the engine has them; of a table, with what each does to it."""
    own = {name: type for name, type in CHANGE.items() if name in rows[0]}
    types = {column.name: column.type for column in parse(ddl).columns} | own
    place = {} if own else _places(len(rows))
    lines = pa.table({"line": [json.dumps(row, default=str) for row in rows], **place})
    read = f"unnest(from_json(line, {literal(json.dumps(types))}))"
    return evaluator.run(f"SELECT {', '.join([read, *place])} FROM rows", rows=lines)


def told(output: OutputSpec, rows: Sequence[Row]) -> Counter[str]:
    """Rows in a form that can be compared, whatever a store has made of their types."""
    types = {column.name: column.type for column in output.schema.columns}
    plain = [{name: _plain(row[name], type) for name, type in types.items()} for row in rows]
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in plain)


def _plain(value: Any, type: str) -> Any:
    if value is None:
        return None
    if nested(type):
        return json.loads(value) if isinstance(value, str) else value
    if type == "BOOLEAN":
        return bool(value)
    if type == "TIMESTAMP":
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at
    if type.startswith("DECIMAL"):
        return f"{Decimal(str(value)):.2f}"
    return value
