"""What every database promises: results take effect once, whatever is sent again, and by whom."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databases import EVALUATOR, PART, added, changed, in_postgres, in_sqlite
from riverrun.errors import AlreadyRunning, CheckpointError, DatabaseError, ProgramError
from thorough import examples


@pytest.fixture(params=["postgres", "sqlite"])
def database(request, tmp_path):
    if request.param == "sqlite":
        own = in_sqlite(tmp_path / "shop.db")
    else:
        own = in_postgres(request.getfixturevalue("postgres"))
    yield own
    own.close()


@pytest.fixture
def counts(database):
    output = database.table()
    database.destination.prepare([output])
    return output


def test_rows_are_put_changed_and_deleted_by_key(database, counts):
    database.deliver(counts, [(1, "/a", 1), (1, "/b", 1), (1, "/c", 1)])
    database.deliver(
        counts, [(-1, "/a", 1), (1, "/a", 2), (-1, "/b", 1), (1, "/d", 1)], batch=1, tick=1001
    )
    assert database.counts() == {"/a": 2, "/c": 1, "/d": 1}
    assert database.query("SELECT page, _version FROM counts ORDER BY page") == [
        ("/a", 1001), ("/c", 1000), ("/d", 1001)
    ]  # fmt: skip


def test_a_row_of_null_has_a_key_like_any_other(database, counts):
    database.deliver(counts, [(1, None, 1), (1, "", 5)])
    database.deliver(counts, [(-1, None, 1), (1, None, 2)], batch=1)
    assert database.counts() == {None: 2, "": 5}
    database.deliver(counts, [(-1, None, 2)], batch=2)
    assert database.counts() == {"": 5}


def test_a_null_character_is_no_reason_to_stop(database, counts):
    """PostgreSQL has none: a picture stands for it, also where two keys are the same then."""
    postgres = not isinstance(database.place, Path)
    shown = "\N{SYMBOL FOR NULL}" if postgres else "\0"
    database.deliver(counts, [(1, "a\0", 1), (1, "b", 5)])
    database.deliver(counts, [(-1, "a\0", 1), (1, "a\0", 2)], batch=1, tick=1001)
    assert database.counts() == {f"a{shown}": 2, "b": 5}
    database.deliver(counts, [(-1, "a\0", 2), (1, "c\0", 1), (1, "c\u2400", 1)], batch=2, tick=1002)
    assert len(database.counts()) == (2 if postgres else 3)
    clicks = database.stream()
    database.destination.prepare([clicks])
    database.deliver(clicks, [(1, "\0\0", 1)], batch=3)
    assert database.counts("clicks") == {shown * 2: 1}


def test_a_null_character_inside_of_json_is_no_reason_to_stop(database):
    values = database.table("nested", "page string, v string[], j json")
    database.destination.prepare([values])
    made = EVALUATOR.run(
        """SELECT 'a' AS page, ['x' || chr(0) || chr(0), '\\u0000'] AS v,
        '{"k": "\\u0000\\\\u0000"}'::JSON AS j, 1::TINYINT AS __op, 0::BIGINT AS __revision"""
    )
    database.destination.deliver(PART, [(values, made)], EVALUATOR)
    [(v, j)] = database.query("SELECT v, j FROM nested")
    found = [json.loads(each) if isinstance(each, str) else each for each in (v, j)]
    sign = "\0" if isinstance(database.place, Path) else "\N{SYMBOL FOR NULL}"
    assert found == [[f"x{sign}{sign}", "\\u0000"], {"k": f"{sign}\\u0000"}]


def test_a_part_that_comes_again_changes_nothing(database):
    clicks, counts = database.stream(), database.table()
    database.destination.prepare([clicks, counts])
    for sent in (database, database, database.again()):
        sent.deliver(clicks, [(1, "/a", 1), (1, "/a", 1)])
    for sent in (database, database.again()):
        sent.deliver(clicks, [(1, "/b", 1)], batch=1)
    with pytest.raises(CheckpointError, match="stands at batch 0, and batch 1 is written"):
        database.again().deliver(clicks, [(1, "/a", 1)], batch=0)
    assert sorted(database.query("SELECT page FROM clicks")) == [("/a",), ("/a",), ("/b",)]


def test_tasks_have_progress_of_their_own(database):
    clicks = database.stream()
    database.destination.prepare([clicks])
    database.deliver(clicks, [(1, "/a", 1)], task=0)
    database.deliver(clicks, [(1, "/b", 1)], task=1)
    assert len(database.query("SELECT 1 FROM clicks")) == 2


def test_the_same_batch_with_other_rows_stops_the_job(database, counts):
    database.deliver(counts, [(1, "/a", 1)])
    with pytest.raises(CheckpointError, match="was written before, with other results") as caught:
        database.deliver(counts, [(1, "/a", 2)])
    assert "--keep-written" in str(caught.value)
    assert database.counts() == {"/a": 1}


def test_the_same_rows_in_another_order_are_the_same_batch(database, counts):
    database.deliver(counts, [(1, "/a", 1), (1, "/b", 2)])
    database.deliver(counts, [(1, "/b", 2), (1, "/a", 1)])
    assert database.counts() == {"/a": 1, "/b": 2}


def test_another_checkpoint_writes_again(database):
    clicks = database.stream()
    database.destination.prepare([clicks])
    for checkpoint in ("c1", "c2"):
        database.deliver(clicks, [(1, "/a", 1)], checkpoint=checkpoint)
    assert len(database.query("SELECT 1 FROM clicks")) == 2


def test_an_earlier_run_may_write_no_more_once_another_has_taken_over(database, counts):
    database.destination.take_over("shop", 1)
    database.deliver(counts, [(1, "/a", 1)], run=1)
    database.again().destination.take_over("shop", 2)
    database.destination.take_over("another", 1)
    with pytest.raises(AlreadyRunning, match="a later run of the application 'shop' has taken"):
        database.deliver(counts, [(-1, "/a", 1), (1, "/a", 2)], run=1, batch=1)
    database.deliver(counts, [(-1, "/a", 1), (1, "/a", 3)], run=2, batch=1)
    assert database.counts() == {"/a": 3}
    with pytest.raises(AlreadyRunning):
        database.destination.take_over("shop", 1)


def test_a_row_that_a_later_batch_wrote_is_left_alone(database, counts):
    database.deliver(counts, [(1, "/a", 2), (1, "/b", 2)], checkpoint="new", tick=2000)
    database.deliver(counts, [(1, "/a", 1), (-1, "/b", 1)], checkpoint="old", tick=1999)
    assert database.counts() == {"/a": 2, "/b": 2}


def test_a_row_without_a_version_is_replaced(database):
    database.query("CREATE TABLE counts (page text PRIMARY KEY, n bigint, _version bigint)")
    database.query("INSERT INTO counts VALUES ('/a', 1, NULL), ('/b', 1, NULL)")
    counts = database.table()
    database.destination.prepare([counts])
    database.deliver(counts, [(1, "/a", 2), (-1, "/b", 1)])
    assert database.counts() == {"/a": 2}


def test_outputs_of_one_part_take_effect_together(database, counts):
    rows = [(1, "/a", 1)]
    both = [(counts, changed(rows)), (database.stream("clicks"), added(rows))]
    with pytest.raises(DatabaseError, match="clicks"):
        database.destination.deliver(PART, both, EVALUATOR)  # that table was not made
    assert database.counts() == {}
    assert database.query("SELECT * FROM riverrun_progress") == []


def test_preparing_twice_keeps_what_is_there(database, counts):
    database.deliver(counts, [(1, "/a", 1)])
    database.again().destination.prepare([counts])
    assert database.counts() == {"/a": 1}


def test_columns_that_clash_are_told_all_at_once_and_nothing_is_made(database):
    database.query("CREATE TABLE counts (page integer, more integer NOT NULL)")
    with pytest.raises(DatabaseError, match="the output does not fit the table") as caught:
        database.destination.prepare([database.stream(), database.table()])
    text = str(caught.value)
    for fact in (
        "'page' is",
        "no column 'n'",
        "no column '_version'",
        "the column 'more' must not be null",
        "the key (page) is not unique",
        'ALTER TABLE "counts" ADD COLUMN "n"',
    ):
        assert fact in text
    with pytest.raises(Exception, match="clicks"):
        database.query("SELECT * FROM clicks")


def test_what_mends_a_table_mends_it(database):
    database.query("CREATE TABLE counts (page text, more integer NOT NULL DEFAULT 7)")
    with pytest.raises(DatabaseError) as caught:
        database.destination.prepare([database.table()])
    hint = caught.value.hint.removeprefix("these statements mend it: ")
    for statement in hint.split(";")[:-1]:
        database.query(statement)
    database.destination.prepare([database.table()])
    database.deliver(database.table(), [(1, "/a", 1)])
    database.query("UPDATE counts SET more = 8")
    database.deliver(database.table(), [(-1, "/a", 1), (1, "/a", 2)], batch=1)
    assert database.query("SELECT page, n, more FROM counts") == [("/a", 2, 8)]


def test_the_column_of_versions_is_riverruns_own(database):
    output = database.table(ddl="page string, _version bigint")
    with pytest.raises(ProgramError, match="'_version' is riverrun's own"):
        output.sink.check(output.schema, table=True, where=None)


@st.composite
def histories(draw):
    """Batches of changes, and which parts are sent again after each, maybe by an older run."""
    table, batches = {}, []
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        for page in draw(st.sets(st.sampled_from(["/a", "/b", "", None]), min_size=1)):
            before, now = table.get(page), draw(st.none() | st.integers(-3, 3))
            batch += [(-1, page, before)] if page in table else []
            batch += [(1, page, now)] if now is not None else []
            if now is None:
                table.pop(page, None)
            else:
                table[page] = now
        if batch:
            batches.append((batch, dict(table)))
    sent = [
        (number, draw(st.lists(st.tuples(st.integers(0, number), st.booleans()), max_size=3)))
        for number in range(len(batches))
    ]
    return batches, sent


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(history=histories())
def test_whatever_comes_again_the_table_is_as_plain_python_has_it(database, history):
    counts = database.table()
    for table in ("counts", "riverrun_progress", "riverrun_runs"):
        database.query(f"DROP TABLE IF EXISTS {table}")
    database.destination.prepare([counts])
    batches, sent = history
    database.destination.take_over("shop", 2)
    for number, repeats in sent:
        changes, table = batches[number]
        database.deliver(counts, changes, batch=number, run=2, tick=1000 + number // 2)
        for repeated, zombie in repeats:
            part = {"batch": repeated, "tick": 1000 + repeated // 2}
            refused = AlreadyRunning if zombie else CheckpointError
            older = zombie or repeated < number
            with pytest.raises(refused) if older else nullcontext():
                run = 1 if zombie else 2
                database.again().deliver(counts, batches[repeated][0], run=run, **part)
        assert database.counts() == table
