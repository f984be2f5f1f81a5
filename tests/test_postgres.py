"""Delivery to PostgreSQL when connections are lost, servers restart, and others write too."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from databases import EVALUATOR, PART, changed, in_postgres
from riverrun.config import load
from riverrun.embedded import ports
from riverrun.embedded import postgres as embedded
from riverrun.errors import AlreadyRunning, DatabaseError
from riverrun.sinks import database as shared
from riverrun.sinks.postgresql import delivery
from riverrun.sinks.postgresql import load as loading


@pytest.fixture
def database(postgres):
    own = in_postgres(postgres)
    yield own
    own.close()


@pytest.fixture
def counts(database):
    output = database.table()
    database.destination.prepare([output])
    return output


@pytest.fixture
def clicks(database):
    output = database.stream()
    database.destination.prepare([output])
    return output


def once(mishap):
    """Does something the first time it is called, and then passes on to the rest."""
    happened = []

    def after(function):
        def called(*arguments, **options):
            result = function(*arguments, **options)
            if not happened:
                happened.append(True)
                mishap()
            return result

        return called

    return after


def end_others(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE starts_with(application_name, 'riverrun') AND pid <> pg_backend_pid()"
        )


@pytest.mark.parametrize("place", ["_claim", "copy", "_note", "_latest_run"])
def test_a_connection_lost_in_mid_batch_is_made_again_and_nothing_is_doubled(
    place, database, clicks, monkeypatch
):
    database.deliver(clicks, [(1, "/a", 1)])
    before = database.destination.connection.info.backend_pid
    cut = once(lambda: end_others(database.place))
    monkeypatch.setattr(delivery, place, cut(getattr(delivery, place)))
    database.deliver(clicks, [(1, "/b", 2), (1, "/c", 3)], batch=1)
    assert sorted(database.query("SELECT n FROM clicks")) == [(1,), (2,), (3,)]
    assert database.destination.connection.info.backend_pid != before


def test_a_connection_lost_between_two_lots_of_a_part_loses_none(database, clicks, monkeypatch):
    monkeypatch.setattr(loading, "LOT", 2)
    cut = once(lambda: end_others(database.place))
    monkeypatch.setattr(loading, "binary", cut(loading.binary))
    rows = [(1, f"/{number}", number) for number in range(7)]
    database.deliver(clicks, rows)
    assert sorted(database.query("SELECT n FROM clicks")) == [(number,) for number in range(7)]
    database.deliver(clicks, rows)  # the same checksum, though lots were sent twice
    assert database.query("SELECT count(*) FROM clicks") == [(7,)]


@pytest.mark.parametrize("same_run", [True, False])
def test_a_writer_that_hangs_in_its_transaction_is_ended(same_run, database, clicks, monkeypatch):
    """Its process may be asleep, and holds what it has locked until it is ended."""
    monkeypatch.setattr(delivery, "SESSION", delivery.SESSION.replace("10s", "1s"))
    database.destination.take_over("shop", 1)
    with psycopg.connect(database.place) as asleep:
        asleep.execute(delivery.SESSION, (delivery._session("shop", PART.task),))
        delivery._latest_run(asleep, "shop")
        delivery._claim(asleep, PART)
        if not same_run:
            database.destination.take_over("shop", 2)
        database.deliver(clicks, [(1, "/a", 1)], run=1 if same_run else 2)
        assert database.query("SELECT page FROM clicks") == [("/a",)]
        with pytest.raises(psycopg.OperationalError):
            asleep.execute("SELECT 1")


def test_a_connection_lost_right_after_the_commit_does_not_double_the_batch(
    database, clicks, monkeypatch
):
    lost = once(lambda: (_ for _ in ()).throw(psycopg.OperationalError("lost")))
    attempt = lost(database.destination._attempt)
    monkeypatch.setattr(database.destination, "_attempt", attempt)
    database.deliver(clicks, [(1, "/a", 1)])
    assert database.query("SELECT page, n FROM clicks") == [("/a", 1)]


def test_a_server_that_restarts_in_mid_batch_gets_the_batch_once(settings, monkeypatch):
    server = embedded.up(settings, port=ports.any_free())
    database = in_postgres(server.url)
    clicks = database.stream()
    database.destination.prepare([clicks])
    database.deliver(clicks, [(1, "/a", 1)])

    def restart():
        embedded.down(settings)
        threading.Timer(1.0, embedded.up, [settings]).start()

    monkeypatch.setattr(delivery, "copy", once(restart)(delivery.copy))
    database.deliver(clicks, [(1, "/b", 1)], batch=1)
    assert sorted(database.query("SELECT page FROM clicks")) == [("/a",), ("/b",)]
    database.close()


def test_a_server_that_stays_away_is_one_clear_error(settings, monkeypatch):
    monkeypatch.setattr(shared, "PATIENCE", 1.0)
    server = embedded.up(settings, port=ports.any_free())
    database = in_postgres(server.url)
    clicks = database.stream()
    database.destination.prepare([clicks])
    embedded.down(settings)
    with pytest.raises(DatabaseError, match="did not take a batch within 1 s") as caught:
        database.deliver(clicks, [(1, "/a", 1)])
    assert "refused" in caught.value.got


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://127.0.0.1:1/shop", "refused"),
        ("postgresql://nobody@{host}/postgres", "nobody"),
        ("postgresql://postgres@{host}/absent", "absent"),
        ("postgresql://postgres@no-such-host.invalid/shop", "no-such-host"),
    ],
)
def test_a_wrong_address_or_account_is_an_error_before_anything_starts(url, words, postgres):
    host = postgres.partition("@")[2].partition("/")[0]
    database = in_postgres(url.format(host=host))
    with pytest.raises(DatabaseError, match="PostgreSQL cannot be reached") as caught:
        database.destination.prepare([database.table()])
    assert words in caught.value.got
    assert "RIVERRUN_POSTGRES" in caught.value.hint


def test_an_address_that_cannot_be_read_is_an_error_that_shows_no_password():
    for address in (
        "postgres//secret",
        "postgres://ann:secret",
        "postgresql://ann:a secret@db/shop",
    ):
        with pytest.raises(DatabaseError, match="cannot be read") as caught:
            in_postgres(address)
        assert "secret" not in str(caught.value)
    assert "secret" not in str(in_postgres("postgresql://ann:secret@db/shop").destination.where)


def test_a_zombie_in_mid_batch_is_waited_for_and_then_fenced(database, counts, monkeypatch):
    zombie, new = database.again(), database.again()
    database.destination.take_over("shop", 1)
    begun, taken = threading.Event(), []

    def slow(connection, part):
        begun.set()
        time.sleep(0.5)
        taken.append("written")
        return claim(connection, part)

    claim = delivery._claim
    monkeypatch.setattr(delivery, "_claim", slow)
    writing = threading.Thread(target=zombie.deliver, args=(counts, [(1, "/a", 1)]))
    writing.start()
    begun.wait(10)
    new.destination.take_over("shop", 2)
    assert taken == ["written"]
    writing.join()
    with pytest.raises(AlreadyRunning):
        zombie.deliver(counts, [(-1, "/a", 1), (1, "/a", 2)], batch=1)
    assert database.counts() == {"/a": 1}


def test_two_attempts_at_one_part_at_the_same_time_write_it_once(database, clicks):
    rows = [(1, f"/{number}", number) for number in range(2000)]
    attempts = [
        threading.Thread(target=database.again().deliver, args=(clicks, rows)) for _ in range(4)
    ]
    for attempt in attempts:
        attempt.start()
    for attempt in attempts:
        attempt.join()
    assert database.query("SELECT count(*), count(DISTINCT page) FROM clicks") == [(2000, 2000)]


def test_rows_that_are_there_before_they_are_first_told_of_are_replaced(database, counts):
    """As after --fresh: the table stands, the application begins again."""
    database.deliver(counts, [(1, "/a", 5), (1, "/b", 5)])
    fresh = database.again()
    for batch, n in enumerate((1, 2)):
        fresh.deliver(counts, [(1, "/a", n), (1, "/c", n)], checkpoint="c2", batch=batch, tick=2000)
    assert database.counts() == {"/a": 2, "/b": 5, "/c": 2}


def test_a_table_may_be_in_a_schema_of_its_own(database):
    name = f"sales_{time.time_ns()}"
    output = database.table(f"{name}.counts")
    database.destination.prepare([output])
    database.deliver(output, [(1, "/a", 1)])
    database.again().destination.prepare([output])
    assert database.counts(f"{name}.counts") == {"/a": 1}
    database.query(f"DROP SCHEMA {name} CASCADE")


@pytest.mark.parametrize(
    ("made", "fact"),
    [
        ("VIEW counts AS SELECT 'a' AS page, 1::bigint AS n", "it is not a table"),
        ("TABLE counts (page text UNIQUE, n bigint, _version bigint)", "is not unique, nulls incl"),
        ("TABLE counts (page text PRIMARY KEY, n bigint)", "no column '_version'"),
        ("TABLE counts (page text PRIMARY KEY, n bigint GENERATED ALWAYS AS (1) STORED,"
         " _version bigint)", "the column 'n' is computed by the database"),
        ("TABLE counts (page varchar(9) PRIMARY KEY, n bigint, _version bigint)",
         "the column 'page' is character varying(9), not text"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_take_the_rows_is_refused(made, fact, database):
    database.query(f"CREATE {made}")
    with pytest.raises(DatabaseError) as caught:
        database.destination.prepare([database.table()])
    assert fact in caught.value.got


@pytest.mark.parametrize(
    "made",
    [
        "(page text PRIMARY KEY, n bigint, _version bigint)",
        "(id serial PRIMARY KEY, page text NOT NULL UNIQUE, n numeric, _version bigint)",
        "(page text PRIMARY KEY, n bigint, _version bigint, at timestamptz NOT NULL DEFAULT now())",
    ],
)
def test_a_table_that_can_take_the_rows_is_used_as_it_is(made, database):
    database.query(f"CREATE TABLE counts {made}")
    database.destination.prepare([database.table()])
    for batch in range(2):
        database.deliver(database.table(), [(1, "/a", batch), (1, "/b", 0)], batch=batch)
    assert database.counts() == {"/a": 1, "/b": 0}


def test_a_null_that_an_existing_table_refuses_stops_the_job_with_its_words(database):
    database.query("CREATE TABLE counts (page text PRIMARY KEY, n bigint, _version bigint)")
    database.destination.prepare([database.table()])
    with pytest.raises(DatabaseError, match="PostgreSQL refuses") as caught:
        database.deliver(database.table(), [(1, None, 1)])
    assert "null value" in caught.value.got


def test_nothing_is_left_in_the_database_but_the_tables(database, counts):
    database.deliver(counts, [(1, "/a", 1)])
    database.deliver(counts, [(-1, "/a", 1), (1, "/a", 2)], batch=1)
    found = database.query(
        "SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relnamespace IN"
        " (current_schema()::regnamespace, pg_my_temp_schema()) ORDER BY 1"
    )
    assert [name for (name,) in found] == ["counts", "riverrun_progress", "riverrun_runs"]


def test_a_large_part_is_one_transaction(database, counts):
    rows = [(1, f"/{number}", number) for number in range(30_000)]
    database.destination.deliver(PART, [(counts, quick(rows))], EVALUATOR)
    assert database.query("SELECT count(*), sum(n) FROM counts") == [(30_000, sum(range(30_000)))]
    assert database.query("SELECT count(DISTINCT xmin::text) FROM counts") == [(1,)]


def quick(rows):
    small = changed(rows[:1])
    arrays = [[page for _, page, _ in rows], [n for _, _, n in rows], [1] * len(rows)]
    return small.from_arrays([*map(list, arrays), [0] * len(rows)], schema=small.schema)


def test_the_settings_name_the_database(postgres):
    assert load().postgres == postgres
