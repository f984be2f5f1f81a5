"""What a capture asks of a database before it begins: keys, rows of tables, publications."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from riverrun.capture import catalog
from riverrun.capture.server import Server
from riverrun.capture.snapshot import copied
from riverrun.capture.values import writer
from riverrun.errors import DatabaseError


@pytest.fixture
def schema(postgres: str) -> str:
    return postgres.rpartition("%3D")[2]


@pytest.fixture
def server(postgres: str) -> Iterator[Server]:
    found = Server(postgres)
    yield found
    found.close()


@pytest.mark.parametrize(
    ("columns", "fact"),
    [
        ("id int PRIMARY KEY DEFERRABLE, v int", "could not be changed any more"),
        ("v int, id int GENERATED ALWAYS AS (v + 1) STORED PRIMARY KEY", "key that is not in"),
    ],
)
def test_a_key_that_the_log_does_not_tell_is_refused(server, schema, columns, fact):
    server.connection.execute(f"CREATE TABLE users ({columns})")
    with pytest.raises(DatabaseError, match=fact):
        server.facts([f"{schema}.users"])


def test_rows_of_a_table_that_inherits_are_not_those_of_the_table(server, schema):
    own = server.connection
    own.execute("CREATE TABLE users (id int PRIMARY KEY)")
    own.execute("CREATE TABLE admins () INHERITS (users)")
    own.execute("INSERT INTO users VALUES (1)")
    own.execute("INSERT INTO admins VALUES (2)")
    facts = catalog.facts(own, f"{schema}.users")
    assert list(copied(own, facts, facts.columns)) == [("1",)]
    name = f"riverrun_{time.time_ns()}"
    server.publish(name, [f"{schema}.users"])
    assert server.published(name) == {f"{schema}.users"}
    own.execute("DELETE FROM admins")  # it has no key, and nobody needs one
    server.drop_publication(name)


def test_the_log_of_a_partitioned_table_is_complete_if_that_of_each_partition_is(server, schema):
    own = server.connection
    own.execute("CREATE TABLE notes (id int PRIMARY KEY, body text) PARTITION BY RANGE (id)")
    own.execute("CREATE TABLE first PARTITION OF notes FOR VALUES FROM (0) TO (100)")
    own.execute("ALTER TABLE notes REPLICA IDENTITY FULL")
    assert catalog.facts(own, f"{schema}.notes").incomplete
    own.execute("ALTER TABLE first REPLICA IDENTITY FULL")
    assert not catalog.facts(own, f"{schema}.notes").incomplete


def test_vectors_which_are_not_written_as_arrays_are_texts(server, schema):
    own = server.connection
    own.execute("CREATE TABLE lists (id int PRIMARY KEY, numbers int2vector, oids oidvector)")
    own.execute("INSERT INTO lists VALUES (1, '1 2', '3 4')")
    facts = catalog.facts(own, f"{schema}.lists")
    [cells] = copied(own, facts, facts.columns)
    kinds = [server.kinds.of(column.type) for column in facts.columns]
    written = [writer(kind)(str(cell)) for kind, cell in zip(kinds, cells, strict=True)]
    assert written == ["1", '"1 2"', '"3 4"']


@pytest.mark.parametrize(
    "made",
    [
        "FOR TABLE users WITH (publish = 'insert')",
        "FOR TABLE users WHERE (id > 5)",
        "FOR TABLE parted",
    ],
)
def test_a_publication_that_does_not_tell_all_is_refused(server, schema, made):
    own, name = server.connection, f"riverrun_{time.time_ns()}"
    own.execute("CREATE TABLE users (id int PRIMARY KEY)")
    own.execute("CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    own.execute("CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (100)")
    own.execute(f"CREATE PUBLICATION {name} {made}")
    with pytest.raises(DatabaseError, match="does not tell all"):
        server.publish(name, [f"{schema}.users", f"{schema}.parted"])
    own.execute(f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate')")
    own.execute(f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)")
    own.execute(f"ALTER PUBLICATION {name} SET TABLE users")
    server.publish(name, [f"{schema}.users", f"{schema}.parted"])
    server.drop_publication(name)
