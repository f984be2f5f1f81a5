"""Lookups: rows of a stream get columns of a table in a database, the same when run again."""

from __future__ import annotations

import pickle
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import riverrun as rr
from riverrun.compiler.describe import as_dict, as_text
from riverrun.compiler.mermaid import as_mermaid
from riverrun.compiler.passes import passed
from riverrun.compiler.shape import shape
from riverrun.testing import Driver

TABLE = "CREATE TABLE customers (id integer PRIMARY KEY, name text, tier text)"
ROWS = "INSERT INTO customers VALUES (1, 'Ann', 'gold'), (2, 'Bob', NULL)"


@dataclass
class Base:
    """A real database."""

    address: str

    def run(self, *statements: str) -> None:
        if self.address.startswith("sqlite"):
            with closing(sqlite3.connect(self.address.removeprefix("sqlite:///"))) as connection:
                for each in statements:
                    connection.execute(each)
                connection.commit()
        else:
            with psycopg.connect(self.address, autocommit=True) as connection:
                for each in statements:
                    connection.execute(each)


@pytest.fixture(params=["sqlite", "postgresql"])
def base(request, tmp_path: Path) -> Base:
    if request.param == "sqlite":
        found = Base(f"sqlite:///{tmp_path / 'shop.db'}")
    else:
        found = Base(request.getfixturevalue("postgres"))
    found.run(TABLE, ROWS)
    return found


def orders(address: str, **options: Any) -> rr.App:
    app = rr.App("shop")
    stream = app.stream("orders", schema="customer bigint, total bigint")
    given: dict[str, Any] = {"table": "customers", "on": {"customer": "id"}, **options}
    stream.lookup(address, **given).to("out")
    return app


def test_rows_get_the_columns_of_their_key_and_nulls_where_there_is_none(base):
    Driver(orders(base.address)).run(
        orders="""
        customer | total
        1        | 10
        2        | 20
        3        | 30
        null     | 40
        99999999999 | 50     # fits no integer
        1        | 60
    """
    ).assert_is("""
        customer | total | name | tier
        1        | 10    | Ann  | gold
        2        | 20    | Bob  | null
        3        | 30    | null | null
        null     | 40    | null | null
        99999999999 | 50 | null | null
        1        | 60    | Ann  | gold
    """)


def test_an_inner_lookup_leaves_out_rows_without_a_partner(base):
    app = orders(base.address, how="inner", columns={"tier": "level"}, prefix="c_")
    Driver(app).run(orders="customer | total\n1 | 1\n2 | 2\n3 | 3").assert_is("""
        customer | total | c_level
        1        | 1     | gold
        2        | 2     | null
    """)


def test_several_columns_are_one_key(base):
    base.run(
        "CREATE TABLE prices (item text, size integer, price real, PRIMARY KEY (item, size))",
        "INSERT INTO prices VALUES ('tea', 1, 1.5), ('tea', 2, 2.5), ('rum', 1, 9.25)",
    )
    app = rr.App("shop")
    sold = app.stream("sold", schema="item string, size int")
    sold.lookup(base.address, table="prices", on=["item", "size"]).to("out")
    Driver(app).run(sold="item | size\ntea | 2\nrum | 1\nrum | 2\ntea | null").assert_is("""
        item | size | price
        tea  | 2    | 2.5
        rum  | 1    | 9.25
        rum  | 2    | null
        tea  | null | null
    """)


def test_answers_hold_for_the_time_of_the_cache_and_misses_too(base):
    driver = Driver(orders(base.address, columns=["name"], cache="1 minute"))

    def names():
        driver.send("orders", {"customer": 1, "total": 0}, {"customer": 3, "total": 0})
        return [line["value"]["name"] for line in driver.batch()]

    assert names() == ["Ann", None]
    base.run("UPDATE customers SET name = 'Anna'", "INSERT INTO customers VALUES (3, 'Cid', '')")
    driver.pass_time("59 seconds")
    assert names() == ["Ann", None]
    driver.restart()
    assert names() == ["Ann", None]  # it is in state, not in a worker's memory
    driver.pass_time("1 second")
    assert names() == ["Anna", "Cid"]


def test_without_a_cache_every_batch_asks(base):
    driver = Driver(orders(base.address, columns=["name"], cache=None))
    driver.send("orders", {"customer": 1, "total": 0})
    assert driver.batch()[0]["value"]["name"] == "Ann"
    base.run("UPDATE customers SET name = 'Anna'")
    driver.send("orders", {"customer": 1, "total": 0})
    assert driver.batch()[0]["value"]["name"] == "Anna"


def test_a_batch_that_is_run_again_finds_what_it_found(base):
    driver = Driver(orders(base.address, columns=["name"]))
    driver.send("orders", *({"customer": n, "total": 0} for n in (1, 2, 3)))
    driver.crash()
    base.run("UPDATE customers SET name = 'Eve'", "INSERT INTO customers VALUES (3, 'Cid', '')")
    driver.send("orders", {"customer": 4, "total": 0})  # was not asked for before
    base.run("INSERT INTO customers VALUES (4, 'Dan', '')")
    found = [line["value"]["name"] for line in driver.batch()]
    assert found == ["Ann", "Bob", None, "Dan"]
    base.run("DELETE FROM customers")
    assert [line["value"]["name"] for line in driver.replay()] == found


def test_a_key_of_several_rows_is_a_dead_letter(base):
    base.run("CREATE VIEW many AS SELECT tier, name FROM customers UNION ALL SELECT 'gold', 'Gil'")
    app = rr.App("shop")
    stream = app.stream("orders", schema="tier string")
    stream.lookup(base.address, table="many", on="tier").to("out")
    found = Driver(app).run(orders="tier\ngold\niron")
    found.of("out").assert_is("tier | name\niron | null")
    [letter] = found.of("dead")
    assert letter["value"]["cause"].endswith("many have this tier")
    assert letter["value"]["row"] == '{"tier": "gold"}'


def test_a_value_that_fits_no_type_is_a_dead_letter_that_shows_it(base):
    app = orders(base.address, schema="tier int, name string")
    found = Driver(app).run(orders="customer | total\n1 | 1\n2 | 2")
    found.of("out").assert_is("customer | total | tier | name\n2 | 2 | null | Bob")
    [letter] = found.of("dead")
    cause = letter["value"]["cause"]
    assert cause == "what the database has in 'tier' is no INTEGER: gold"


def test_while_the_database_is_away_rows_are_set_aside_or_get_nulls():
    options = {"schema": "name string", "patience": "10 milliseconds"}
    for away, lines, dead in (("set aside", [], 1), ("null", [None], 0)):
        driver = Driver(orders("postgresql://nowhere/shop", away=away, **options))
        driver.lookup_table("customers", None)
        driver.send("orders", {"customer": 1, "total": 0})
        found = driver.batch()
        assert [line["value"]["name"] for line in found.of("out")] == lines
        assert len(found.of("dead")) == dead
        if dead:
            cause = found.of("dead")[0]["value"]["cause"]
            assert cause == "a test's table customers is away: the test says so"


def test_that_it_was_away_is_no_miss_to_remember(tmp_path):
    driver = Driver(orders("sqlite:///no.db", schema="name string", away="null", patience="1 ms"))
    driver.lookup_table("customers", None)
    driver.send("orders", {"customer": 1, "total": 0})
    assert driver.batch()[0]["value"]["name"] is None
    driver.lookup_table("customers", "id | name\n1 | Ann")
    driver.send("orders", {"customer": 1, "total": 0})
    assert driver.batch()[0]["value"]["name"] == "Ann"


def test_a_job_that_has_waited_in_vain_stops_and_loses_nothing(base, tmp_path):
    driver = Driver(orders(base.address, patience="50 milliseconds", columns=["name"]))
    base.run("ALTER TABLE customers RENAME TO hidden")
    driver.send("orders", {"customer": 1, "total": 0})
    with pytest.raises(rr.RiverrunError, match=r"refuses a lookup|no table 'customers'"):
        driver.batch()
    base.run("ALTER TABLE hidden RENAME TO customers")
    away = Driver(orders("postgresql://127.0.0.1:1/x", schema="name string", patience="50 ms"))
    away.send("orders", {"customer": 1, "total": 0})
    with pytest.raises(rr.RiverrunError, match=r"did not answer within 0\.05 s") as caught:
        away.batch()
    assert "127.0.0.1:1/x" in str(caught.value)
    away.lookup_table("customers", [{"id": 1, "name": "Ann"}])
    assert [line["value"]["name"] for line in away.batch()] == ["Ann"]
    assert [line["value"]["name"] for line in driver.batch()] == ["Ann"]


def test_the_cache_holds_no_more_than_it_may(base):
    app = orders(base.address, columns=["name"], entries=320)
    driver = Driver(app)
    for start in range(0, 3000, 500):
        driver.send("orders", *({"customer": n, "total": 0} for n in range(start, start + 500)))
        driver.pass_time("1 second")
        [kernel] = driver.kernels
        held = sum(segment.rows.height for segment in kernel.cache.held.values())
        assert 0 < held <= 320


def test_neither_words_nor_checkpoints_have_the_address(postgres, tmp_path):
    Base(postgres).run(TABLE)
    secret = postgres.replace("postgresql://", "postgresql://own:s3cret@").replace(
        "own:s3cret@postgres@", "postgres:s3cret@"
    )
    app = orders(secret, schema="name string")
    program, plan = app.program(), passed(app.plan())
    told = [
        as_text(plan, tmp_path), str(as_dict(plan)), as_mermaid(plan), repr(program),
        str(shape(program)), repr(program.steps[0].does),
    ]  # fmt: skip
    for text in told:
        assert "s3cret" not in text
        assert "postgresql://" not in text
    assert "PostgreSQL table customers" in told[0]
    again = pickle.loads(pickle.dumps(program.steps[0].does))
    assert again.reads.address == secret


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"table": "nothing"}, "there is no table 'nothing'"),
        ({"on": "total"}, "has no column 'total'"),
        ({"on": "order"}, "there is no column 'order'"),
        ({"on": {"customer": "name"}}, "'customer', which is BIGINT, cannot be looked for"),
        ({"columns": ["nmae"]}, "there is no column 'nmae'"),
        ({"columns": {"name": "total"}}, "the stream has a column 'total'"),
        ({"columns": []}, "needs a column"),
        ({"how": "inner", "away": "null"}, 'away="null" is for how="left"'),
        ({"cache": "0 seconds"}, "cache is a time above zero"),
        ({"entries": 0}, "room for one entry"),
        ({"prefix": "__"}, "a prefix has letters"),
        ({"away": "cry"}, "away"),
        ({"schema": "name strin"}, "the schema cannot be read"),
    ],
)
def test_what_cannot_be_looked_up_is_found_when_the_program_is_built(base, options, fact):
    with pytest.raises(rr.RiverrunError, match=fact) as caught:
        orders(base.address, **options)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["mysql://u:s3cret@h/d", "s3cret", "sqlite:/x", "postgresql://u:s3cret@h:p/d"]
)
def test_an_address_that_cannot_be_read_is_not_shown(address):
    with pytest.raises(rr.RiverrunError) as caught:
        orders(address)
    assert "s3cret" not in str(caught.value)


def test_rows_of_a_table_cannot_be_looked_up():
    app = rr.App("shop")
    users = app.table("users", schema="id bigint, city string", key="id")
    with pytest.raises(rr.ProgramError, match="rows of a table cannot be looked up"):
        users.lookup("sqlite:///x.db", table="cities", on="city", schema="land string")


def test_a_changed_lookup_goes_on_with_its_checkpoint(base):
    before, after = (shape(orders(base.address, columns=[c]).program()) for c in ("name", "tier"))
    assert before["steps"] == after["steps"]
    assert before["settings"] != after["settings"]


@pytest.mark.parametrize("seed", range(6))
def test_any_cut_crash_and_restart_gives_what_plain_python_gives(base, seed):
    dice = random.Random(seed)
    there = {n: f"name {n}" for n in dice.sample(range(10, 200), 60)}
    values = ", ".join(f"({n}, '{name}', NULL)" for n, name in there.items())
    base.run(f"INSERT INTO customers VALUES {values}")
    how, entries = dice.choice(["left", "inner"]), dice.choice([1, 40, 1000])
    driver = Driver(orders(base.address, columns=["name"], how=how, entries=entries))
    sent = [{"customer": dice.choice([None, *range(10, 200)]), "total": n} for n in range(400)]
    left = list(sent)
    while left:
        size = dice.randint(1, 90)
        driver.send("orders", *left[:size])
        left = left[size:]
        if dice.random() < 0.3:
            driver.crash()
        driver.batch()
        driver.pass_time(f"{dice.randint(1, 200)} seconds")
        if dice.random() < 0.3:
            driver.restart()
    expected = [{**row, "name": there.get(row["customer"])} for row in sent]
    if how == "inner":
        expected = [row for row in expected if row["name"] is not None]
    found = [line["value"] for line in driver.outputs["out"]]
    assert sorted(found, key=lambda row: row["total"]) == expected
