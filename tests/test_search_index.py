"""A search index as a destination: its shards, its generations, who may write, and what fits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import riverrun as rr
from derived import Writer
from killing import killed_at
from riverrun.errors import AlreadyRunning, ConfigError, InputError, ProgramError
from riverrun.search import Index
from riverrun.sinks.fulltext.layout import VERSION
from riverrun.sinks.fulltext.place import Place
from thorough import examples

DDL = "id bigint, t string"


def writer(folder, *, ddl=DDL, key=("id",), options=None, **facts):
    sink = rr.sinks.search_index("a", text="t", folder=folder, **(options or {}))
    return Writer(sink, ddl, key, **facts)


def texts(folder):
    return {row["id"]: row["t"] for row in Index(folder).rows()}


def shards(folder):
    return [shard.folder.name for shard in Place(folder).shards()]


def test_a_key_that_comes_to_another_task_leaves_the_shard_that_it_was_in(tmp_path):
    """Another checkpoint may have another number of tasks; shards with nothing left are removed."""
    first = writer(tmp_path).begin()
    first.put(0, {"id": 1, "t": "one"}, {"id": 3, "t": "three"}, task=0)
    first.put(0, {"id": 2, "t": "two"}, task=1)
    second = writer(tmp_path, run=2, checkpoint="c2").begin()
    second.put(0, {"id": 2, "t": "zwei"}, task=0)
    second.write(0, (-1, {"id": 1, "t": "one"}), task=2)
    assert texts(tmp_path) == {2: "zwei", 3: "three"}
    assert shards(tmp_path) == ["c1-00000", "c2-00000", "c2-00002"]
    assert Index(tmp_path).search("two").total == 0


def test_a_row_is_found_by_a_list_and_a_struct(tmp_path):
    ddl = "tags string[], place struct(x bigint, y double[]), t string"
    rows = [
        {"tags": tags, "place": {"x": x, "y": [0.5, None]}, "t": f"row {x}"}
        for x, tags in enumerate((["a", None], [], ["ü"]))
    ]
    own = writer(tmp_path, ddl=ddl, key=("tags", "place")).begin()
    own.put(0, *rows)
    own.write(1, (-1, rows[1]))
    found = [Index(tmp_path).get(row["tags"], row["place"]) for row in rows]
    assert found == [rows[0], None, rows[2]]


def test_a_killed_move_is_finished_when_the_part_comes_again(tmp_path, monkeypatch):
    """Meanwhile the key is told once, as the later run has it."""
    writer(tmp_path).begin().put(0, {"id": 1, "t": "fish one"})
    second = writer(tmp_path, run=2, checkpoint="c2").begin()
    with monkeypatch.context() as patch:
        patch.setattr("riverrun.sinks.fulltext.place.Shard.lacks", lambda shard, keys: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            second.put(0, {"id": 1, "t": "fish two"}, task=1)
    index = Index(tmp_path)
    assert [hit.row["t"] for hit in index.search("fish").hits] == ["fish two"]
    assert index.get(1) == {"id": 1, "t": "fish two"}
    assert index.count() == 2
    second.put(0, {"id": 1, "t": "fish two"}, task=1)
    assert texts(tmp_path) == {1: "fish two"}
    assert index.count() == 1


def test_an_open_reader_sees_each_batch_and_a_change_of_generation(tmp_path):
    own = writer(tmp_path).begin()
    index = Index(tmp_path)
    assert index.search("fish").hits == []
    for batch in range(3):
        own.put(batch, {"id": batch, "t": "fish"}, task=batch % 2)
        assert index.search("fish").total == batch + 1
    place = Place(tmp_path)
    place.make("g2", place.layout())
    place.switch("g2")
    assert index.search("fish").total == 0
    own.put(3, {"id": 9, "t": "fish"})
    assert [row["id"] for row in index.rows()] == [9]
    [part] = index.parts()
    assert (part.checkpoint, part.batch, part.rows.num_rows) == ("c1", 3, 1)


def test_a_later_run_waits_for_a_part_that_is_being_written(tmp_path, monkeypatch):
    monkeypatch.setattr("riverrun.sinks.journal.PATIENCE", 0.2)
    early, late = writer(tmp_path).begin(), writer(tmp_path, run=2)
    original = Place.shard

    def shard(place, *which):
        with pytest.raises(AlreadyRunning, match="another run of 'shop' is writing"):
            late.begin()
        return original(place, *which)

    monkeypatch.setattr(Place, "shard", shard)
    early.put(0, {"id": 1, "t": "fish"})
    late.begin()
    with pytest.raises(AlreadyRunning, match="a later run of 'shop' has taken over"):
        early.put(1, {"id": 2, "t": "fish"})
    assert texts(tmp_path) == {1: "fish"}


@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.lists(st.integers(0, 25), max_size=2), min_size=1, max_size=3))
def test_whatever_is_killed_each_batch_is_in_the_index_once(batches):
    """Each batch is tried some times, and killed at a call; then it is let through."""
    with tempfile.TemporaryDirectory() as folder:
        run, wanted = 0, {}
        for batch, attempts in enumerate(batches):
            for call in [*attempts, None]:
                run += 1

                def work(run=run, batch=batch):
                    own = writer(Path(folder), run=run).begin()
                    own.write(
                        batch,
                        *[(-1, {"id": n, "t": f"{batch - 1}"}) for n in (0, 1) if batch],
                        (1, {"id": 0, "t": f"{batch}"}),
                        (1, {"id": batch + 1, "t": f"{batch}"}),
                    )

                killed_at(call, work)
            wanted = {**wanted, 0: f"{batch}", batch + 1: f"{batch}"}
            if batch:
                wanted.pop(1, None)
            assert texts(Path(folder)) == wanted


def test_an_index_of_other_columns_is_an_error_before_anything_is_written(tmp_path):
    writer(tmp_path).begin()
    with pytest.raises(ConfigError, match="made for other columns") as caught:
        writer(tmp_path, ddl="id string, t string, n bigint", run=2).begin()
    assert caught.value.got == "id is BIGINT, not VARCHAR; n is missing, not BIGINT"
    with pytest.raises(ConfigError) as caught:
        writer(tmp_path, options={"language": "german"}, run=2).begin()
    assert caught.value.got == "languages: none, not t german"
    writer(tmp_path, run=2).begin()


def test_an_index_whose_words_have_other_forms_is_neither_written_nor_searched(tmp_path):
    writer(tmp_path).begin().put(0, {"id": 1, "t": "a"})
    [layout] = tmp_path.rglob("layout.json")
    layout.write_text(layout.read_text().replace(f'"version": {VERSION}', '"version": 1'))
    with pytest.raises(ConfigError) as caught:
        writer(tmp_path, run=2).begin()
    assert caught.value.got == f"it was made by another version (1, not {VERSION})"
    with pytest.raises(InputError, match="made by another version"):
        Index(tmp_path).search("a")
    assert Index(tmp_path).count() == 1


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ConfigError, match="neither empty nor a search index"):
        writer(tmp_path).begin()
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


def app_to(sink):
    app = rr.App("shop")
    table = app.table("users", key="id", schema="id bigint, name string, tags string[], n double")
    return table.to(sink)


WRONG = {
    "there is no column 'bio'": lambda: app_to(rr.sinks.search_index("a", text="bio")),
    "only text has words: 'n' is DOUBLE": lambda: app_to(rr.sinks.search_index("a", text="n")),
    "there is no column 'x'": lambda: app_to(rr.sinks.search_index("a", text="name", stored="x")),
    "the language is not known": lambda: rr.sinks.search_index("a", text="t", language="klingon"),
    "has a language, and is not in": lambda: rr.sinks.search_index(
        "a", text="t", language={"u": "english"}
    ),
    "there is no list of stop words for 't'": lambda: rr.sinks.search_index(
        "a", text="t", language="greek", stop_words=True
    ),
    "the name of a search index": lambda: rr.sinks.search_index("a/b", text="t"),
    "at least one column of text": lambda: rr.sinks.search_index("a", text=[]),
}


@pytest.mark.parametrize("fact", WRONG)
def test_a_wrong_index_is_an_error_at_its_line(fact):
    with pytest.raises(ProgramError, match=fact) as caught:
        WRONG[fact]()
    assert caught.value.where.file == __file__


def test_two_outputs_of_a_program_do_not_share_an_index():
    sink = rr.sinks.search_index("a", text="name")
    app = rr.App("shop")
    for topic in ("users", "others"):
        app.table(topic, key="id", schema="id bigint, name string").to(sink)
    with pytest.raises(ProgramError):
        app.program()
