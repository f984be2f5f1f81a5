"""Tables of databases made anew: one step for every reader, and writers wait for it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from threading import Thread

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databases import EVALUATOR, changed, in_postgres, in_sqlite
from riverrun.kernels.sql import Evaluator
from riverrun.outputs import Owner, Swapped
from thorough import examples

OWNER = Owner("shop", "c1")
PAGES = st.dictionaries(st.sampled_from(["/a", "/b", "/c", "", None]), st.integers(0, 2))


@pytest.fixture(params=["postgres", "sqlite"])
def database(request, tmp_path):
    if request.param == "sqlite":
        own = in_sqlite(tmp_path / "shop.db")
    else:
        own = in_postgres(request.getfixturevalue("postgres"))
    yield own
    own.close()


def begun(database):
    """A table with rows of batch 3."""
    counts = database.table()
    for name in ("counts", "riverrun_progress", "riverrun_runs"):
        database.query(f"DROP TABLE IF EXISTS {name}")
    database.destination.prepare([counts])
    database.destination.take_over("shop", 1)
    return counts


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(old=PAGES, first=PAGES, then=PAGES)
def test_after_the_swap_the_table_is_what_was_made(database, old, first, then):
    counts = begun(database)
    if old:
        database.deliver(counts, [(1, page, n) for page, n in old.items()], batch=3, tick=50)
    with database.destination.renewal(counts, OWNER) as fresh:
        if first:
            fresh.change(changed([(1, page, n) for page, n in first.items()]), EVALUATOR)
        gone = [(-1, page, n) for page, n in first.items()]
        later = [*gone, *((1, page, n) for page, n in then.items())]
        with fresh.held() as written:
            assert written == (3 if old else -1)
        if later:
            fresh.change(changed(later), EVALUATOR)
        with fresh.held():
            fresh.swap(60)
        assert database.counts() == then
        with fresh.held():
            again = fresh.swap(70)
    if None not in then:
        assert again == Swapped(0, 0, 0)
    assert database.counts() == then
    same = [(page, 50) for page in old if page is not None and then.get(page) == old[page]]
    found = database.query("SELECT page, _version FROM counts WHERE page IS NOT NULL")
    assert sorted(row for row in found if row[1] == 50) == sorted(same)


def test_one_that_is_left_before_the_swap_leaves_nothing(database):
    counts = begun(database)
    database.deliver(counts, [(1, "/a", 1)])

    def interrupted() -> None:
        with database.destination.renewal(counts, OWNER) as fresh:
            fresh.change(changed([(1, "/b", 1)]), EVALUATOR)
            with fresh.held():
                fresh.swap(60)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert database.counts() == {"/a": 1}
    database.deliver(counts, [(1, "/c", 1)], batch=1)
    assert database.counts() == {"/a": 1, "/c": 1}


def test_a_writer_waits_and_goes_on_after_it(database):
    counts = begun(database)
    database.deliver(counts, [(1, "/a", 1)], tick=50)
    other = database.again()
    other.evaluator = Evaluator()
    writing = Thread(
        target=other.deliver,
        args=(counts, [(-1, "/a", 1), (1, "/a", 2)]),
        kwargs={"batch": 1, "tick": 100},
    )
    with database.destination.renewal(counts, OWNER) as fresh:
        fresh.change(changed([(1, "/a", 7), (1, "/b", 7)]), EVALUATOR)
        with fresh.held():
            writing.start()
            writing.join(1)
            assert writing.is_alive()
            fresh.swap(60)
        writing.join()
    assert database.counts() == {"/a": 2, "/b": 7}


def test_a_reader_with_a_snapshot_of_before_sees_the_rows_of_before(database):
    counts = begun(database)
    database.deliver(counts, [(1, "/a", 1), (1, "/b", 1)])
    is_file = not isinstance(database.place, str)
    own = sqlite3.connect(database.place) if is_file else psycopg.connect(database.place)
    with closing(own):
        own.execute("BEGIN" if is_file else "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        own.execute("SELECT count(*) FROM riverrun_runs").fetchall()
        with database.destination.renewal(counts, OWNER) as fresh:
            fresh.change(changed([(1, "/c", 7)]), EVALUATOR)
            with fresh.held():
                assert fresh.swap(60) == Swapped(added=1, changed=0, removed=2)
        read = "SELECT page FROM counts ORDER BY page"
        assert own.execute(read).fetchall() == [("/a",), ("/b",)]
        own.rollback()
        assert own.execute(read).fetchall() == [("/c",)]


def test_what_hangs_on_a_table_of_postgresql_stays(postgres):
    database = in_postgres(postgres)
    counts = begun(database)
    database.deliver(counts, [(1, "/a", 1)])
    database.query("ALTER TABLE counts ADD COLUMN mine integer DEFAULT 5")
    database.query("UPDATE counts SET mine = 6")
    database.query("CREATE VIEW seen AS SELECT page, n, mine FROM counts")
    with database.destination.renewal(counts, OWNER) as fresh:
        fresh.change(changed([(1, "/a", 2), (1, "/b", 2)]), EVALUATOR)
        with fresh.held():
            fresh.swap(60)
    assert sorted(database.query("SELECT * FROM seen")) == [("/a", 2, 6), ("/b", 2, 5)]
    database.close()
