"""Views hold what a plain dictionary would, and who follows them misses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from databases import EVALUATOR
from riverrun.config import Settings
from riverrun.embedded import postgres as embedded
from riverrun.errors import DatabaseError, InputError, ProgramError
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Done, OutputSpec, Part, Ways
from riverrun.schema import parse
from riverrun.server.places import reader_of
from riverrun.sinks.viewing.delivery import Views
from riverrun.sinks.viewing.notes import Revision
from riverrun.sinks.viewing.store import PostgresStore, SqliteStore, Store
from riverrun.views import Reader
from riverrun.views.asked import Words
from riverrun.views.reading import Gone, Place
from thorough import examples

WAYS = Ways(("clicks",), (), 0, ("per_user",))
HOUR = 3_600_000_000
EVERYTHING = Place(Revision(0, -1))


@dataclass
class Stand:
    """A view, and the job that writes it."""

    store: Store
    name: str = "per_user"
    ddl: str = "user string, n bigint"
    key: tuple[str, ...] = ("user",)
    checkpoint: str = "c1"
    application: str = "shop"
    tick: int = 1_000_000
    there: dict[str, int] = field(default_factory=dict)
    evaluator: Evaluator = EVALUATOR

    def __post_init__(self) -> None:
        self.views = Views(self.store)
        OPEN.append(self.views)
        self.output = OutputSpec(
            f"view:{self.name}", rr.sinks.view(self.name, changes="1 hour"), parse(self.ddl),
            self.key, table=True,
        )  # fmt: skip
        self.views.prepare([self.output])
        self.views.announce(self.application, [self.output], {self.output.name: WAYS})
        self.views.take_over(self.application, 1)

    def batch(self, number: int, wanted: dict[str, int | None], *, tasks: int = 2) -> None:
        """Users with their new counts; None for those that go."""
        changes: list[tuple[str, int, int]] = []
        for user, n in wanted.items():
            if user in self.there:
                changes.append((user, self.there.pop(user), -1))
            if n is not None:
                changes.append((user, n, 1))
                self.there[user] = n
        for task in range(tasks):
            self.deliver(number, [c for c in changes if len(c[0]) % tasks == task], task)
        self.note(number)

    def deliver(self, number: int, changes: list[tuple[str, int, int]], task: int) -> None:
        if not changes:
            return
        taken = {user for user, _, op in changes if op < 0}
        rows = pa.table(
            {
                "user": pa.array([user for user, _, _ in changes], pa.large_string()),
                "n": pa.array([n for _, n, _ in changes], pa.int64()),
                "__op": pa.array([op for _, _, op in changes], pa.int8()),
                "__revision": pa.array([int(u in taken) for u, _, _ in changes], pa.int64()),
            }
        )
        part = Part(self.application, self.checkpoint, 1, number, task, self.tick + number)
        self.views.deliver(part, [(self.output, rows)], self.evaluator)

    def note(self, number: int, **facts: Any) -> None:
        common: dict[str, Any] = {
            "ends": {"clicks/0": 10 * (number + 1)}, "own": {}, "clocks": {}, "highs": {},
            "closes": {}, "aside": {},
        }  # fmt: skip
        self.views.note(
            Done(self.application, self.checkpoint, number, self.tick + number, **(common | facts))
        )

    def reader(self) -> Reader:
        found = Reader(self.store)
        OPEN.append(found)
        return found


OPEN: list[Reader | Views] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes a place for views that holds none yet."""
    if request.param == "sqlite":
        yield lambda: SqliteStore(tmp_path / uuid4().hex / "views.sqlite")
        return
    url = request.getfixturevalue("postgres")

    def emptied() -> Store:
        with psycopg.connect(url, autocommit=True) as own:
            own.execute("DROP SCHEMA IF EXISTS views CASCADE")
            for table in ("views", "batches", "changes", "progress", "runs"):
                own.execute(f"DROP TABLE IF EXISTS riverrun_{table}")
        return PostgresStore(url)

    yield emptied
    emptied()


USERS = st.text("abc", min_size=1, max_size=3)
BATCH = st.dictionaries(USERS, st.none() | st.integers(0, 9), max_size=6)


@settings(
    max_examples=examples(15), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(batches=st.lists(BATCH, min_size=1, max_size=6), steps=st.lists(st.integers(1, 4)))
def test_whoever_follows_from_any_place_ends_with_what_the_view_holds(
    place: Callable[[], Store], batches: list[dict[str, int | None]], steps: list[int]
) -> None:
    stand = Stand(place())
    reader = stand.reader()
    followed: dict[str, int] = {}
    seen: list[str] = []
    at, sizes = EVERYTHING, iter(steps)
    for number, batch in enumerate(batches):
        stand.batch(number, batch)
        # in pieces of any size, each as after a connection that broke
        while found := reader.changes("per_user", at, next(sizes, 100)):
            for change in found:
                seen.append(str(change.place))
                if change.value is None:
                    followed.pop(json.loads(change.key), None)
                else:
                    row = json.loads(change.value)
                    followed[row["user"]] = row["n"]
            at = Place.parse(str(found[-1].place))
        assert followed == stand.there
        rows = reader.page("per_user", Words()).rows
        assert {row["user"]: row["n"] for row in rows} == stand.there
        last = reader.last("shop")
        assert last
        assert last.revision == Revision(1, number)
    assert len(set(seen)) == len(seen)


def test_a_batch_is_told_when_all_its_tasks_have_written_and_once_when_it_is_run_again(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    reader = stand.reader()
    stand.deliver(0, [("a", 1, 1)], 0)
    assert reader.changes("per_user", EVERYTHING, 10) == []
    assert reader.last("shop") is None
    stand.deliver(0, [("a", 1, 1)], 0)  # its process died
    stand.deliver(0, [("bb", 2, 1)], 1)
    stand.note(0)
    stand.note(0)
    found = reader.changes("per_user", EVERYTHING, 10)
    assert [(str(each.place), each.key) for each in found] == [
        ("1.0.0.0", '"a"'), ("1.0.1.0", '"bb"'),
    ]  # fmt: skip


def test_a_fresh_start_goes_on_with_later_revisions(place: Callable[[], Store]) -> None:
    stand = Stand(place())
    stand.batch(0, {"a": 1})
    stand.batch(1, {"a": 2})
    again = replace(stand, checkpoint="c2", tick=stand.tick + 100, there={})
    again.batch(0, {"a": 5})
    reader = stand.reader()
    found = reader.changes("per_user", Place.parse("1.0"), 10)
    assert [str(each.place.revision) for each in found] == ["1.1", "2.0"]
    assert reader.get("per_user", ["a"]) == {"user": "a", "n": 5}
    assert [str(note.revision) for note in reader.notes("shop")] == ["2.0"]


def test_changes_that_are_no_longer_kept_are_refused_not_left_out(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    stand.batch(0, {"a": 1})
    stand.batch(1, {"a": 2})
    later = replace(stand, tick=stand.tick + 2 * HOUR)
    later.views.tidied_at = -1000.0
    later.batch(2, {"a": 3})
    reader = stand.reader()
    with pytest.raises(Gone, match="no longer kept"):
        reader.changes("per_user", Place.parse("1.0"), 10)
    [change] = reader.changes("per_user", Place.parse("1.1"), 10)
    assert change.value == '{"user":"a","n":3}'


def test_no_more_changes_are_kept_than_there_is_room_for(
    place: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riverrun.sinks.viewing.delivery.MOST", 3)
    stand = Stand(place())
    for number in range(5):
        stand.views.tidied_at = -1000.0
        stand.batch(number, {"a": number, "bb": number})
    reader = stand.reader()
    kept = reader.view("per_user").kept
    assert kept == Revision(1, 3)
    assert len(reader.changes("per_user", Place(kept), 10)) == 2
    assert stand.store.kind == "postgres" or len(reader.notes("shop")) == 5


def test_pages_follow_each_other_in_any_order_with_nulls_last(place: Callable[[], Store]) -> None:
    ddl = "id bigint, price decimal(20,2), at timestamp, name string"
    stand = Stand(place(), "goods", ddl, ("id",))
    rows = [
        {"id": 1, "price": "9.50", "at": "2026-01-01T00:00:00", "name": "b"},
        {"id": 2, "price": "10.00", "at": "2026-01-01T00:00:00.500000", "name": None},
        {"id": 3, "price": None, "at": "2026-01-01T00:00:00", "name": "a"},
        {"id": 4, "price": "123456789012345678.99", "at": None, "name": "é"},
    ]
    made = EVALUATOR.run(
        'SELECT id::BIGINT AS id, price::DECIMAL(20,2) AS price, "at"::TIMESTAMP AS "at", name,'
        " 1::TINYINT AS __op, 0::BIGINT AS __revision FROM rows",
        rows=pa.Table.from_pylist(rows),
    )
    part = Part("shop", "c1", 1, 0, 0, 5)
    stand.views.deliver(part, [(stand.output, made)], EVALUATOR)
    stand.note(0)
    reader = stand.reader()
    for order, wanted in (
        ("price", [1, 2, 4, 3]), ("-price", [4, 2, 1, 3]), ("at", [1, 3, 2, 4]),
        ("-at,-id", [2, 3, 1, 4]), ("name", [3, 1, 4, 2]), (None, [1, 2, 3, 4]),
    ):  # fmt: skip
        found, after = [], None
        while True:
            page = reader.page("goods", Words(order=order, limit=1, after=after))
            found += [row["id"] for row in page.rows]
            if (after := page.next) is None:
                break
        assert found == wanted, order

    def ids(*filters: tuple[str, str]) -> list[int]:
        return [row["id"] for row in reader.page("goods", Words(filters)).rows]

    assert ids(("price", "gt.9.5")) == [2, 4]
    assert ids(("price", "10")) == [2]
    assert ids(("at", "le.2026-01-01T00:00:00Z"), ("name", "ne.b")) == [3]
    assert ids(("name", "is.null")) == [2]
    assert ids(("name", "in.(a,é)")) == [3, 4]
    assert str(reader.get("goods", ["4"])["price"]) == "123456789012345678.99"  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (Words([("wat", "1")]), "no column 'wat'"),
        (Words([("n", "gt.x")]), "does not fit the column 'n'"),
        (Words(order="n;drop"), "no column 'n;drop'"),
        (Words(limit=0), "out of range"),
        (Words(limit=10**9), "out of range"),
        (Words(after="xx"), "does not follow"),
        (Words(columns="user,x"), "no column 'x'"),
        (Words([('user" OR 1=1 --', "1")]), "no column"),
    ],
)
def test_what_a_view_does_not_have_is_refused(tmp_path: Path, words: Words, said: str) -> None:
    stand = Stand(SqliteStore(tmp_path / "views.sqlite"))
    with pytest.raises(InputError, match=said):
        stand.reader().page("per_user", words)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM per_user",
        "INSERT INTO per_user VALUES ('x', 1, 1)",
        "ATTACH 'x.db' AS x",
        "PRAGMA journal_mode=DELETE",
        "SELECT * FROM riverrun_progress",
        "SELECT * FROM sqlite_master",
        "SELECT load_extension('x')",
        "SELECT 1; DROP TABLE per_user",
        "WITH x AS (SELECT 1) DELETE FROM per_user",
        "VACUUM INTO 'x.db'",
        "",
    ],
)
def test_a_query_changes_nothing_and_sees_only_views(tmp_path: Path, sql: str) -> None:
    stand = Stand(SqliteStore(tmp_path / "views.sqlite"))
    stand.batch(0, {"a": 1})
    with pytest.raises(InputError):
        stand.reader().query(sql, seconds=5, limit=10)
    assert stand.reader().get("per_user", ["a"]) == {"user": "a", "n": 1}


def test_a_query_that_takes_too_long_is_ended_and_rows_are_limited(tmp_path: Path) -> None:
    stand = Stand(SqliteStore(tmp_path / "views.sqlite"))
    stand.batch(0, {"a": 1, "b": 2, "c": 3})
    reader = stand.reader()
    for_ever = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"
    )
    with pytest.raises(InputError, match=r"longer than 0\.2 s"):
        reader.query(for_ever, seconds=0.2, limit=10)
    found = reader.query("SELECT user FROM per_user ORDER BY 1", seconds=5, limit=2)
    assert found == (["user"], [("a",), ("b",)], True)


def test_a_superuser_does_not_run_queries_in_postgresql(postgres: str) -> None:
    with pytest.raises(InputError, match="superuser"):
        Stand(PostgresStore(postgres), "per_user").reader().query("SELECT 1", seconds=1, limit=1)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM per_user",
        "SELECT 1; DROP TABLE views.per_user",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT set_config('role', 'postgres', false), pg_read_file('/etc/passwd')",
        "SELECT query_to_xml('select pg_read_file(''/etc/passwd'')', true, true, '')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT * FROM public.riverrun_views",
        "SELECT pg_sleep(3)",
        "SELECT 1 UNION",
    ],
)
def test_a_query_in_postgresql_reads_views_and_nothing_else(
    postgres_settings: Settings, sql: str
) -> None:
    own = replace(postgres_settings, views="postgres")
    stand = Stand(PostgresStore(embedded.ensure(own)))
    stand.batch(0, {"a": 1})
    reader = reader_of(own)
    OPEN.append(reader)
    with pytest.raises(InputError):
        reader.query(sql, seconds=1, limit=10)
    found = reader.query("SELECT user, n FROM per_user", seconds=5, limit=10)
    assert (found.names, len(found.rows)) == (["user", "n"], 1)
    times = "SELECT '2026-01-31T12:00:00.5Z'::timestamptz, '2026-01-31'::date"
    assert reader.query(times, seconds=5, limit=1).rows == [
        ("2026-01-31T12:00:00.500000Z", "2026-01-31")
    ]
    with stand.store.transaction() as execute:
        for table in ("views.per_user", "riverrun_views", "riverrun_batches", "riverrun_changes"):
            execute(f"DROP TABLE {table}")
        for table in ("riverrun_progress", "riverrun_runs"):
            execute(f"DROP TABLE {table}")


def test_a_view_is_of_one_application(tmp_path: Path) -> None:
    stand = Stand(SqliteStore(tmp_path / "views.sqlite"))
    with pytest.raises(DatabaseError, match="another application"):
        stand.views.announce("other", [stand.output], {stand.output.name: WAYS})


def test_streams_and_odd_names_are_refused_when_the_program_is_built() -> None:
    app = rr.App("shop")
    clicks = app.stream("clicks", schema="user string", key="user")
    with pytest.raises(ProgramError, match="a view is of a table"):
        clicks.to(rr.sinks.view("clicks"))
    for name in ("", "1a", "a-b", "a.b", "riverrun_x", "sqlite_x", "a" * 64):
        with pytest.raises(ProgramError):
            rr.sinks.view(name)
