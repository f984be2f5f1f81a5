"""What is found in a search index: words, phrases, filters, languages, marks, and clear errors."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal

import pytest

import riverrun as rr
from derived import Writer
from riverrun.errors import ConfigError, InputError
from riverrun.search import Index
from riverrun.sinks.fulltext.place import Place

ARTICLES = (
    "id bigint, title string, body string, author string, price decimal(9,2), stars double,"
    " views bigint, draft boolean, at timestamp, day date, opens time, tags string[],"
    " place struct(a bigint)"
)
FIRST = {
    "id": 1, "title": "Running rivers", "body": "A river runs through it. The state of the art.",
    "author": "Ann Lee", "price": "9.99", "stars": 4.5, "views": 100, "draft": False,
    "at": "2026-01-01T12:00:00.000005", "day": "2026-01-01", "opens": "08:30:00",
    "tags": ["water", "old news"], "place": {"a": 7},
}  # fmt: skip
SECOND = {
    "id": 2, "title": "Still waters", "body": "Nothing runs here; the dogs sleep.",
    "author": "bob", "price": "20.00", "stars": 2.0, "views": 5, "draft": True,
    "at": "2026-03-01T00:00:00", "day": "2026-03-01", "opens": "22:00:00", "tags": [],
}  # fmt: skip
THIRD = {
    "id": 3,
    "title": "Café Élève",
    "body": "Grüße aus Köln, 世界和平 und \uff21\uff22\uff23 ΔΆΣΚΑΛΟΣ οδος",
}


@pytest.fixture
def index(tmp_path):
    sink = rr.sinks.search_index(
        "articles", text=["title", "body"], language={"body": "english"}, folder=tmp_path / "a"
    )
    Writer(sink, ARTICLES).begin().put(0, FIRST, SECOND, THIRD)
    return Index(tmp_path / "a")


def ids(index, query, **options):
    return sorted(hit.row["id"] for hit in index.search(query, **options).hits)


FINDS = {
    "river": [1],
    "rivers": [1],
    "run": [1, 2],
    "runs dogs": [2],
    "rivers OR dogs": [1, 2],
    "runs -dogs": [1],
    "runs NOT dogs": [1],
    "-runs": [3],
    "NOT (runs OR nothing)": [3],
    "+runs AND +through": [1],
    '"river runs"': [1],
    '"runs river"': [],
    '"state of the art"': [1],
    '"river through"~1': [1],
    "title:still": [2],
    "title:runs": [],
    "title:run*": [1],
    "wat*": [2],
    "rivr~": [1],
    "title:stlil~1": [2],
    "sleep~ AND dogs": [2],
    'author:"Ann Lee"': [1],
    "author:ann": [],
    "author:Ann*": [1],
    "price:9.99": [1],
    "price:>10": [2],
    'price:>"10"': [2],
    "views:-5": [],
    "rivers\\~3": [],
    'at:>"2026-01-31T00:00:00+01:00"': [2],
    "price:<=9.99": [1],
    "price:[9.99 TO 20]": [1, 2],
    "price:{9.99 TO 20]": [2],
    "price:[* TO 10]": [1],
    "stars:>=4.5": [1],
    "views:[5 TO 99]": [2],
    "draft:true": [2],
    "draft:false runs": [1],
    "at:2026-01-01T12:00:00.000005": [1],
    "at:>2026-01-31": [2],
    'at:["2026-01-01T13:00:00+01:00" TO 2026-02-01]': [1],
    "day:2026-03-01": [2],
    "price:[* TO *]": [1, 2],
    "stars:[* TO *]": [1, 2],
    '"river it"~99999999999999999999': [1],
    "opens:<09:00": [1],
    "tags:water": [1],
    'tags:"old news"': [1],
    "tags:news": [],
    "*": [1, 2, 3],
    "cafe": [3],
    "CAFÉ": [3],
    "cafe\u0301": [3],
    "eleve": [3],
    "δάσκαλος": [3],
    "ΟΔΟΣ": [3],
    "ΟΔΟΣ*": [3],
    '"ΔΆΣΚΑΛΟΣ οδος"': [3],
    "grusse": [3],
    "GRÜSSE": [3],
    "koln": [3],
    "世界": [3],
    "界和": [3],
    "世界和平": [3],
    "世": [3],
    "平": [3],
    "界世": [],
    "abc": [3],
    'author:"no\\"body"': [],
}


@pytest.mark.parametrize("query", FINDS)
def test_a_query_finds(index, query):
    assert ids(index, query) == FINDS[query]


WRONG = {
    '"open': ("a phrase does not end", 1),
    "a (b OR c": ("a bracket does not end", 3),
    "a) b": ("a bracket closes that was never opened", 2),
    "a OR": ("OR stands before nothing", 3),
    "NOT": ("NOT stands before nothing", 1),
    "runs colour:red": ("there is no column 'colour'", 6),
    "place:7": ("'place' cannot be searched", 1),
    "x price:cheap": ("'price' is a number that fits its digits", 9),
    "price:1.234": ("'price' is a number that fits its digits", 7),
    "price:1e999999999": ("'price' is a number that fits its digits", 7),
    "(" * 500 + "a": ("more than 100 brackets are inside of each other", 101),
    "draft:maybe": ("'draft' is true or false", 7),
    "at:yesterday": ("'at' is a time like", 4),
    "author:[a TO b]": ("'author' has no order", 8),
    "price:[1 5]": ("a range is [from TO to]", 7),
    "price:[1 TO 5": ("a range does not end", 7),
    "[1 TO 5]": ("a range is one of a column", 1),
    "title:(a b)": ("title is compared with nothing", 1),
    "...": ("the query has no word to look for", 1),
    "()": ("something to look for is missing", 2),
    "rivr~3": ("~ stands behind a word", 5),
    '"river runs"~x': ("~ stands behind a word", 13),
    "title:": (": stands between a column", 6),
    "stars:NaN": ("'stars' is a number", 7),
}


@pytest.mark.parametrize("query", WRONG)
def test_a_wrong_query_is_an_error_at_its_place(index, query):
    fact, place = WRONG[query]
    with pytest.raises(InputError) as caught:
        index.search(query)
    assert caught.value.fact.startswith(fact)
    assert caught.value.where == f"character {place} of the query"
    assert str(caught.value.got).splitlines()[-1].index("^") == place - 1 + len("  got: ")


def test_rows_come_back_in_their_types(index):
    [hit] = index.search("river").hits
    assert hit.row == {
        **FIRST,
        "price": Decimal("9.99"),
        "at": datetime(2026, 1, 1, 12, 0, 0, 5),
        "day": datetime(2026, 1, 1).date(),
        "opens": datetime(2026, 1, 1, 8, 30).time(),
    }
    assert index.get(1) == hit.row
    assert index.get(9) is None
    with pytest.raises(InputError, match="the key is not of its columns' types"):
        index.get("x")


def test_the_best_hit_comes_first_and_pages_follow_each_other(tmp_path):
    sink = rr.sinks.search_index("a", text="t", folder=tmp_path / "a")
    writer = Writer(sink, "id bigint, t string").begin()
    for task in range(3):
        rows = [{"id": n, "t": "fish " * n + "water " * 20} for n in range(1, 10) if n % 3 == task]
        writer.put(0, *rows, task=task)
    index = Index(tmp_path / "a")
    found = index.search("fish", limit=20)
    scores = [hit.score for hit in found.hits]
    assert found.total == len(found.hits) == 9
    assert scores == sorted(scores, reverse=True)
    assert found.hits[0].row["id"] > found.hits[-1].row["id"]
    pages = [index.search("fish", limit=4, offset=offset).hits for offset in (0, 4, 8)]
    assert [hit.row for page in pages for hit in page] == [hit.row for hit in found.hits]
    assert index.search("fish", offset=10**15).hits == []
    with pytest.raises(InputError):
        index.search("fish", offset=-1)


def test_words_that_were_found_are_marked_in_the_part_that_shows_most(index):
    [hit] = index.search("run* title:rivers -nothing").hits
    assert hit.fragments["title"].marked() == "**Running** **rivers**"
    assert hit.fragments["body"].marked("<", ">").startswith("A river <runs> through it.")
    [hit] = index.search("世界和").hits
    assert (
        hit.fragments["body"].marked("[", "]")
        == "Grüße aus Köln, [世界和]平 und \uff21\uff22\uff23 ΔΆΣΚΑΛΟΣ οδος"
    )
    [hit] = index.search("ΟΔΟΣ δάσκαλος").hits
    assert hit.fragments["body"].marked("[", "]").endswith("[ΔΆΣΚΑΛΟΣ] [οδος]")


def test_a_long_text_is_cut_around_its_words_and_between_others(tmp_path):
    sink = rr.sinks.search_index("a", text="t", folder=tmp_path / "a")
    text = "filler words " * 40 + "a needle and another needle " + "more words " * 40
    Writer(sink, "id bigint, t string").begin().put(0, {"id": 1, "t": text})
    [hit] = Index(tmp_path / "a").search("needle").hits
    shown = hit.fragments["t"].marked()
    assert "a **needle** and another **needle**" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) < 180
    assert shown[1:].split()[0] in ("filler", "words")


def test_stop_words_are_left_out_where_asked_and_phrases_step_over_them(tmp_path):
    sink = rr.sinks.search_index(
        "a", text=["t", "u"], language="english", stop_words=["t"], folder=tmp_path / "a"
    )
    writer = Writer(sink, "id bigint, t string, u string").begin()
    writer.put(0, {"id": 1, "t": "state of the art"}, {"id": 2, "t": "state art", "u": "the end"})
    index = Index(tmp_path / "a")
    assert ids(index, "the") == [2]
    assert ids(index, "the state") == [2]
    assert ids(index, "the state", fields="t") == [1, 2]
    assert ids(index, '"state of the art"') == [1]
    with pytest.raises(InputError, match="no word to look for"):
        index.search("the of", fields=["t"])


def test_only_columns_that_are_stored_come_back_and_all_can_be_searched(tmp_path):
    sink = rr.sinks.search_index("a", text="t", stored=["n"], folder=tmp_path / "a")
    Writer(sink, "id bigint, t string, n bigint").begin().put(0, {"id": 1, "t": "fish", "n": 3})
    [hit] = Index(tmp_path / "a").search("fish").hits
    assert (hit.row, hit.fragments) == ({"id": 1, "n": 3}, {})


def test_the_command_shows_hits_with_marks_and_the_total(index, tmp_path, riverrun):
    outcome = riverrun("search", str(tmp_path / "a"), "runs", "-n", "1", "-c", "id", "-c", "body")
    assert outcome.code == 0
    assert "body" in outcome.out
    assert "**runs**" in outcome.out
    assert "author" not in outcome.out
    assert "1 to 1 of 2 rows" in outcome.err


def test_the_command_gives_json_with_types_that_json_has(index, tmp_path, riverrun):
    outcome = riverrun("search", str(tmp_path / "a"), "river price:>1", "--json", "-f", "body")
    [hit] = json.loads(outcome.out)["hits"]
    assert hit["row"]["price"] == 9.99
    assert hit["row"]["at"] == "2026-01-01T12:00:00.000005Z"
    assert hit["highlights"]["body"].startswith("A **river** runs")


def test_the_command_points_at_what_is_wrong(index, tmp_path, riverrun, monkeypatch):
    outcome = riverrun("search", str(tmp_path / "a"), 'x "y')
    assert outcome.code == 2
    assert '  got: x "y\n         ^' in outcome.err
    outcome = riverrun("search", str(tmp_path / "a"), "\udcff")
    assert outcome.code == 2
    assert "the query is not readable text" in outcome.err
    monkeypatch.setenv("RIVERRUN_HOME", str(tmp_path))
    (tmp_path / "indexes" / "others").mkdir(parents=True)
    outcome = riverrun("search", "articles", "x")
    assert "there is no search index 'articles'" in outcome.err
    assert "indexes: others" in outcome.err


@pytest.mark.parametrize("file", ["layout.json", "meta.json", "*.store", "*.term"])
def test_a_damaged_index_is_an_error_that_names_its_folder(index, tmp_path, file):
    for each in (tmp_path / "a").rglob(file):
        each.write_bytes(b"")
    with pytest.raises(InputError, match="cannot be read") as caught:
        Index(tmp_path / "a").search("river")
    assert caught.value.where == tmp_path / "a"


def test_a_part_of_an_index_that_has_lost_what_tells_of_its_rows_is_not_taken_for_empty(
    index, tmp_path
):
    [lost] = (tmp_path / "a").rglob("meta.json")
    lost.unlink()
    for read in (Index(tmp_path / "a").count, Place(tmp_path / "a").opened):
        with pytest.raises((InputError, ConfigError), match="cannot be read"):
            read()
    assert not lost.exists()  # nor is an empty one made in its place
