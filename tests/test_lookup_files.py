"""Files as static tables: rows of a stream get their columns, and other ones when they change."""

from __future__ import annotations

import os

import duckdb
import pytest

import riverrun as rr
from riverrun.errors import DatabaseError, ProgramError
from riverrun.testing import Driver

ROWS = "(VALUES ('de', 'Germany', 84.5, 1), ('fr', 'Ünited', NULL, 2)) AS t(code, name, people, n)"
FORMS = {
    "countries.csv": "(HEADER)",
    "countries.tsv": "(HEADER, DELIMITER '\t')",
    "countries.json": "(FORMAT json, ARRAY true)",
    "countries.jsonl": "(FORMAT json)",
    "countries.parquet": "(FORMAT parquet)",
}


def write(path, rows=ROWS):
    """As a whole, by a rename, as a file that is read meanwhile is to be written."""
    draft = path.with_name(f".{path.name}")
    form = FORMS.get(path.name, FORMS["countries.csv"])
    duckdb.connect().execute(f"COPY (FROM {rows}) TO '{draft}' {form}")
    os.replace(draft, path)


def program(path, schema="code string, n bigint", on="code", **options):
    app = rr.App("shop", pages=2)
    app.stream("orders", schema=schema).lookup(str(path), on=on, **options).to("out")
    return Driver(app)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_gives_its_columns_with_their_types(name, tmp_path):
    write(tmp_path / name)
    driver = program(tmp_path / name, prefix="c_", columns=["name", "people"])
    for code in ("de", "fr", "xx", None):
        driver.send("orders", {"code": code, "n": 5})
    found = sorted((line["value"] for line in driver.batch()), key=str)
    assert [(row["code"], row["c_name"], row["c_people"]) for row in found] == [
        ("de", "Germany", 84.5), ("fr", "Ünited", None), ("xx", None, None), (None, None, None),
    ]  # fmt: skip


def test_a_file_is_read_again_when_it_has_changed_and_a_batch_run_again_is_told_the_same(tmp_path):
    path = tmp_path / "countries.csv"
    write(path)
    driver = program(path, columns=["name"], cache=None)
    driver.send("orders", {"code": "de"})
    driver.crash()
    write(path, "(VALUES ('de', 'Deutschland')) AS t(code, name)")
    assert [line["value"]["name"] for line in driver.batch()] == ["Germany"]
    driver.send("orders", {"code": "de"})
    assert [line["value"]["name"] for line in driver.batch()] == ["Deutschland"]


def test_a_folder_is_one_table_and_numbers_are_found_as_numbers(tmp_path):
    write(tmp_path / "one.csv", "(VALUES (1, 'a'), (2, 'b')) AS t(id, word)")
    (tmp_path / "two.csv").write_text("id,word,more\n7,c,x\n")
    driver = program(tmp_path, schema="id bigint", on="id", columns=["word", "more"])
    for number in (1, 7, 8):
        driver.send("orders", {"id": number})
    found = {line["value"]["id"]: line["value"] for line in driver.batch()}
    assert [found[n]["word"] for n in (1, 7, 8)] == ["a", "c", None]
    assert found[7]["more"] == "x"


def test_a_file_that_is_away_is_waited_for_or_not_as_the_program_says(tmp_path):
    path = tmp_path / "countries.csv"
    write(path)
    driver = program(path, columns=["name"], cache=None, away="null", patience="1 millisecond")
    path.unlink()
    driver.send("orders", {"code": "de"})
    assert [line["value"]["name"] for line in driver.batch()] == [None]


@pytest.mark.parametrize(
    ("fact", "options"),
    {
        "the stream has a column 'n'": {},
        "there is no column 'nme'": {"columns": ["nme"]},
        "has no column 'land'": {"on": {"code": "land"}},
        "cannot be looked for": {"on": {"n": "name"}, "columns": ["people"]},
    }.items(),
)
def test_what_does_not_fit_is_refused_at_its_line(fact, options, tmp_path):
    write(tmp_path / "countries.parquet")
    with pytest.raises(ProgramError, match=fact) as error:
        program(tmp_path / "countries.parquet", **options)
    assert "test_lookup_files.py" in str(error.value.where)


def test_a_file_that_is_none_is_refused(tmp_path):
    with pytest.raises(ProgramError, match="needs the address of a PostgreSQL or SQLite"):
        program(tmp_path / "notes.txt")
    with pytest.raises(DatabaseError, match="file cannot be reached"):
        program(tmp_path / "countries.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProgramError, match="CSV, JSON or Parquet"):
        program(tmp_path / "empty")
