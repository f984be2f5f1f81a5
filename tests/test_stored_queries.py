"""Stored queries in the driver: by the control log and from a table, told, refused, watched."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import riverrun as rr
from riverrun.control import ANSWER, Command
from riverrun.durations import BEGINNING
from riverrun.testing import Driver

SCHEMA = "id bigint, title string, body string, tags string[], price decimal(9, 2), at timestamp"


def program(**options):
    app = rr.App("news", pages=2)
    documents = app.stream("docs", schema=SCHEMA, time="at")
    given = {"text": ["title", "body"], "keep": ["id"], **options}
    documents.search("saved", **given).to("out")
    return app


def from_table(**options):
    app = rr.App("news", pages=2)
    documents = app.stream("docs", schema=SCHEMA, time="at")
    columns = "name string, query string, condition string, owner string"
    queries = app.table("queries", key="name", schema=columns)
    documents.search(queries, text=["title", "body"], keep=["id"], **options).to("out")
    return app


def add(driver, name, query, **more):
    driver.control("query", "saved", name=name, query=query, **more)


def send(driver, *texts, at="12:00:00", **more):
    for number, text in enumerate(texts):
        driver.send("docs", {"id": number, "body": text, "at": f"2026-01-01T{at}Z", **more})


def found(driver):
    lines = [line["value"] for line in driver.outputs["out"]]
    return sorted((each["id"], each["query"]) for each in lines)


def answers(driver):
    return [each.body for each in driver.topics.asked if each.kind == ANSWER]


def refusal(query, **more):
    driver = Driver(program(max_unindexed=1))
    driver.control("query", "saved", **{"name": "q", "query": query, **more})
    driver.batch()
    [answer] = answers(driver)
    return answer["refused"]


REFUSED = [
    ("lake (river", "a bracket does not end", "character 6 of the query"),
    ("river (", "something to look for is missing", "character 8 of the query"),
    ('river "run', "a phrase does not end", "character 7 of the query"),
    ("a OR", "OR stands before nothing", "character 3 of the query"),
    ("colour:red", "there is no column 'colour'", "character 1 of the query"),
    ("price:[5 TO cheap]", "'price' is a number that fits its digits, not 'cheap'", "character 7"),
    ("title:[a TO b]", "'title' has no order", "character 7 of the query"),
    ("", "something to look for is missing", "character 1 of the query"),
    ("...", "the query has no word to look for", "character 1 of the query"),
    ("(" * 101 + "a", "more than 100 brackets are inside of each other", "character 101"),
    ('"a b"~2000', "at most 1,000 words stand between those of a phrase", "character 1"),
    (f"{'a' * 50}~1", "at most 40 letters stand before ~", "character 1 of the query"),
    (7, "query is text", "query"),
    ("x" * 20_000, "query has at most 16,384 characters", "query"),
]


@pytest.mark.parametrize(("query", "fact", "where"), REFUSED)
def test_a_query_that_is_wrong_is_refused_at_its_place(query, fact, where):
    said = refusal(query)
    assert said["fact"] == fact
    assert said["where"].startswith(where)


def test_other_parts_that_are_wrong_are_refused():
    assert refusal("a", where="price <")["where"] == "character 7 of the condition"
    assert refusal("a", where="pricee < 1")["fact"] == "there is no column 'pricee'"
    assert refusal("a", where="price")["fact"] == "a condition is true or false"
    assert refusal("a", where="true), (false")["fact"] == "an expression gives one value"
    assert refusal("a", where=" -- none")["fact"] == "a condition is empty"
    assert refusal("a", where="id = 1; DROP TABLE x")["where"] == "character 7 of the condition"
    assert refusal("a", where="at > '' AND id = ;")["where"] == "character 18 of the condition"
    assert refusal("a", where="random() < 1")["fact"].startswith("random() cannot be used")
    assert refusal("a", name="two words")["where"] == "name"
    assert refusal("a", colour="red")["fact"] == "a stored query has no 'colour'"
    assert refusal(None)["fact"] == "a stored query has a query, or a condition"
    assert refusal("a", owner="\ud800")["fact"] == "a stored query is JSON in UTF-8"
    many = " OR ".join(f"(a{n} b{n})" for n in range(8))
    assert refusal(many)["fact"] == "the query is too complex"


def test_what_is_asked_for_again_stands_as_it_is():
    driver = Driver(program())
    for owner in ("ann", "ann", "bob"):
        add(driver, "q", "river", owner=owner)
    driver.batch()
    send(driver, "river")
    driver.batch()
    add(driver, "q", "river", owner="bob")
    driver.batch()
    assert [each["version"] for each in answers(driver)] == [1, 1, 2, 2]
    assert len({each["effective"] for each in answers(driver)[2:]}) == 1
    driver.end()
    assert found(driver) == [(0, "q")]


def test_queries_that_need_no_word_are_limited_and_the_others_go_on():
    driver = Driver(program(max_unindexed=1))
    add(driver, "cheap", "price:<5")
    add(driver, "not", "-river")
    add(driver, "both", "river price:<5")
    add(driver, "cheap", "price:<3")
    send(driver, "river", "lake", price=2)
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "both"), (0, "cheap"), (1, "cheap")]
    [refused] = [each for each in answers(driver) if "refused" in each]
    assert (refused["name"], refused["refused"]["where"]) == ("not", "the query 'not'")


def test_what_is_told_of_a_hit():
    driver = Driver(program(language={"body": "english"}, keep=["id", "price"]))
    metadata = {"why": "ü"}
    add(driver, "q", '"river runs"~1 title:tale price:[5 TO 6}', owner="ann", metadata=metadata)
    send(driver, "x " * 50 + "The RIVER, it runs. " + "y " * 90, title="A tale", price="5.99")
    driver.batch()
    driver.end()
    [line] = driver.outputs["out"]
    told = line["value"]
    fragment = told.pop("fragment")
    assert told == {
        "id": 0, "price": 5.99, "query": "q", "owner": "ann", "metadata": '{"why": "ü"}',
        "fields": ["title", "body"], "score": 3.0,
    }  # fmt: skip
    assert fragment == "A **tale**"


def test_a_fragment_is_cut_between_words_around_what_was_found():
    driver = Driver(program())
    add(driver, "q", '"river runs"~1 OR never')
    send(driver, "x " * 50 + "The RIVER, it runs. " + "y " * 90)
    driver.batch()
    driver.end()
    [line] = driver.outputs["out"]
    fragment = line["value"]["fragment"]
    assert fragment.startswith("…x x")
    assert "The **RIVER, it runs**. y y" in fragment
    assert fragment.endswith("y…")
    assert len(fragment) < 175


def test_stop_words_are_left_out_of_texts_and_queries_but_keep_their_places():
    driver = Driver(program(text="body", language="english", stop_words=True))
    add(driver, "phrase", '"state of the art"')
    add(driver, "one", "the art")
    add(driver, "none", "the of")
    send(driver, "State of an art", "state art", "state of the late art", "arctic")
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "one"), (0, "phrase"), (1, "one"), (2, "one")]
    assert [each["name"] for each in answers(driver) if "refused" in each] == ["none"]


def test_each_character_of_a_language_without_spaces_counts_between_the_words_of_a_phrase():
    driver = Driver(program())
    add(driver, "two", '"data nurse"~2')
    add(driver, "one", '"data nurse"~1')
    send(driver, "data 上海 nurse", "data 上海市 nurse", "data 上 nurse")
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "two"), (2, "one"), (2, "two")]


def test_odd_texts_do_no_harm():
    driver = Driver(program())
    for name, query in {
        "word": "river",
        "cjk": "天气",
        "one": "天",
        "rtl": "سلام",
        "e": "x",
    }.items():
        add(driver, name, query)
    huge = "river " * 300_000 + "天气"
    send(
        driver,
        None,
        "",
        "😀👩‍👩‍👧 river",
        "明天天气好",
        "سلام שלום",
        "\x00\x01",
        huge,
        "\u202eriver",
        "e" * 100_000,
    )
    driver.batch()
    driver.end()
    assert found(driver) == [
        (2, "word"), (3, "cjk"), (3, "one"), (4, "rtl"), (6, "cjk"), (6, "one"), (6, "word"),
        (7, "word"),
    ]  # fmt: skip
    assert not driver.outputs["dead"]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("δάσκαλος", "ΔΆΣΚΑΛΟΣ"),
        ("ΟΔΟΣ", "οδος"),
        ("οδός", "ΟΔΟΣ"),
        ('"ΟΔΟΣ ΜΗΧΑΝΙΚΟΣ"', "οδός μηχανικός"),
        ("ΟΔΟΣ*", "οδός"),
        ("οδοσσ~", "οδός"),
        ("ԵՒ", "և"),
        ("STRASSE", "Straße"),
        ("straße", "STRASSE"),
    ],
)
def test_capitals_make_no_difference_also_where_two_small_letters_share_one(asked, text):
    driver = Driver(program(max_unindexed=2))
    add(driver, "q", asked)
    add(driver, "not", f"-{asked}")
    send(driver, text)
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "q")]


def test_lists_are_searched_by_their_values_and_times_by_range():
    driver = Driver(program())
    add(driver, "tag", "tags:news")
    add(driver, "time", "at:[2026-01-01T12:00 TO 2026-01-01T12:01} -tags:sp*")
    driver.send("docs", {"id": 1, "tags": ["old", "news"], "at": "2026-01-01T12:00:30Z"})
    driver.send("docs", {"id": 2, "tags": ["sport"], "at": "2026-01-01T12:00:40Z"})
    driver.send("docs", {"id": 3, "at": "2026-01-01T12:01:00Z"})
    driver.batch()
    driver.end()
    assert found(driver) == [(1, "tag"), (1, "time")]


def test_a_table_of_queries_is_taken_as_it_stands():
    driver = Driver(from_table())
    driver.send("queries", {"name": "a", "query": "river", "owner": "ann"}, key="a")
    driver.send("queries", {"name": "b", "query": "lake", "condition": "id > 0"}, key="b")
    driver.send("queries", {"name": "wrong", "query": "lake (river"}, key="wrong")
    send(driver, "river", "lake river")
    driver.batch()
    assert found(driver) == [(0, "a"), (1, "a"), (1, "b")]
    [letter] = [line["value"] for line in driver.outputs["dead"]]
    assert letter["cause"].startswith("a bracket does not end: character 6 of the query")
    driver.send("queries", {"name": "a", "query": "lake"}, key="a")
    driver.send("queries", None, key="b")
    driver.restart()
    send(driver, "river", "lake", at="12:01:00")
    driver.batch()
    assert found(driver)[3:] == [(1, "b")]
    assert found(driver) == [(0, "a"), (1, "a"), (1, "a"), (1, "b")]


def test_thousands_of_queries_come_and_go_and_the_log_stays_small():
    driver = Driver(from_table(highlight=False))
    for turn in range(4):
        for n in range(1_500):
            driver.send("queries", {"name": f"q{n}", "query": f"w{n} turn{turn}"}, key=f"q{n}")
        driver.batch()
    send(driver, "w7 turn3 w8 turn2")
    driver.restart()
    driver.batch()
    assert found(driver) == [(0, "q7"), (0, "q8")]
    rows = max(state[0] for state in [driver.status.state["docs_search"]])
    assert rows <= 2 * 3


def test_what_only_those_who_look_on_say_is_not_offered():
    refused = refusal("river", colour="red")
    assert refused["hint"] == "it has name, query, where, owner, metadata"


def test_a_watched_query_tells_its_hits_to_those_who_look_on_only():
    driver = Driver(program())
    add(driver, "watch-1", "river", watch=True)
    add(driver, "q", "river")
    send(driver, "the river")
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "q")]
    [told] = [json.loads(each) for each in driver.topics.replied]
    assert (told["watch"], told["row"], told["fragment"]) == ("watch-1", {"id": 0}, "the **river**")


def test_a_step_can_be_asked_what_its_queries_cost():
    driver = Driver(program())
    for name, query in (("rare", "lake"), ("common", "river"), ("every", "-sea")):
        add(driver, name, query)
    send(driver, "river", "river", "river lake", at="12:00:00")
    driver.batch()
    driver.send("docs", {"id": 9, "at": "2026-01-01T12:01:00Z"})
    sql = "SELECT query, max(candidates), max(hits), max(documents) FROM saved GROUP BY query"
    asked = driver.ask("saved", f"{sql} ORDER BY query")
    assert [tuple(row.values()) for row in asked.rows] == [
        ("common", 3, 3, 3), ("every", 3, 3, 3), ("rare", 1, 1, 3), (None, 7, 7, 3),
    ]  # fmt: skip


def test_queries_that_a_changed_program_does_not_understand_end():
    driver = Driver(program())
    add(driver, "titled", "title:river")
    add(driver, "by word", "river")
    add(driver, "word", "river")
    add(driver, "fuzzy", "title:rivre~1")
    driver.batch()
    driver.restart(program(text=["body"], language="english"))
    send(driver, "rivers", title="river")
    driver.batch()
    driver.end()
    assert found(driver) == [(0, "titled"), (0, "word")]
    [*_, refused] = answers(driver)
    assert refused["name"] == "fuzzy"


WRONG = [
    ({"text": []}, "a search needs at least one column of text"),
    ({"text": "price"}, "only text has words: 'price' is DECIMAL(9,2)"),
    ({"text": "boddy"}, "there is no column 'boddy'"),
    ({"text": "body", "language": "klingon"}, "the language is not known"),
    ({"text": "body", "keep": "nothing"}, "there is no column 'nothing'"),
    ({"text": "body", "max_unindexed": -1}, "max_unindexed is not below 0"),
]


@pytest.mark.parametrize(("options", "fact"), WRONG)
def test_a_wrong_program_is_refused(options, fact):
    with pytest.raises(rr.ProgramError) as error:
        program(**options)
    assert error.value.fact == fact


def test_a_table_of_queries_has_a_name_and_a_query():
    app = rr.App("news")
    documents = app.stream("docs", schema="query string, body string")
    with pytest.raises(rr.ProgramError, match="the name 'query' is taken"):
        documents.search("saved", text="body")
    with pytest.raises(rr.ProgramError, match="queries are a table, or the name of the step"):
        documents.search(documents, text="body", keep="body")
    table = app.table("a", key="x", schema="x string, text string")
    with pytest.raises(rr.ProgramError, match="a table of queries has a column 'query'"):
        documents.search(table, text="body", keep="body")


def test_a_query_that_is_gone_by_the_end_of_a_log_finds_what_came_before():
    effective = 1767268860000000  # 2026-01-01T12:01:00Z
    asked = [
        Command(0, "query", "saved", {"name": "f", "query": "river"}),
        Command(1, "answer", "saved", {"to": 0, "name": "f", "effective": BEGINNING, "version": 1}),
        Command(2, "remove query", "saved", {"name": "f"}),
        Command(3, "answer", "saved", {"to": 2, "name": "f", "effective": effective, "version": 1}),
    ]
    for _ in range(2):  # what a process has at hand from one run serves no earlier time of another
        driver = Driver(program())
        driver.topics.asked = [replace(each) for each in asked]
        for number, minute in enumerate((0, 2)):
            at = f"2026-01-01T12:0{minute}:00Z"
            driver.send("docs", {"id": number, "title": "a river", "at": at})
        driver.batch()
        driver.end()
        assert [line["value"]["id"] for line in driver.outputs["out"]] == [0]
