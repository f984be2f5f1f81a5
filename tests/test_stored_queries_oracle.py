"""Stored queries at random, added, changed and removed at random, against a naive evaluator."""

from __future__ import annotations

import json
import random
import unicodedata
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import riverrun as rr
from naive_search import STEMMED, TEXT, columns_of, holds, holds_in, leaves, text_of
from riverrun.control import ANSWER
from riverrun.durations import END
from riverrun.testing import Driver
from thorough import examples

SCHEMA = (
    "id bigint, title string, body string, tag string, price bigint, fresh boolean, at timestamp"
)
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATENESS = 5
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
"""To make a failure smaller takes minutes: there are many parts."""
WORDS = (
    "river", "Rivers", "run", "runs", "running", "city", "cities", "kafka", "Kafak", "café", "CAFE",
    "cafe\u0301", "Straße", "strasse", "Ёлка", "елка", "άνθρωπος", "ΑΝΘΡΩΠΟΣ", "ὁδός", "ΟΔΟΣ",
    "ϐίος", "ΒΊΟΣ", "և", "ԵՒ", "سلام", "שלום",
    "हिन्दी", "天地", "天地人", "天", "日本語", "한국어", "x1", "2026", "a", "naïve", "smørrebrød",
)  # fmt: skip
BETWEEN = (" ", " ", " ", ", ", "-", "\n", "... ", " 😀 ", "'", "")
PLAIN = [word for word in WORDS if not any(c in "天地人日本語한국어" for c in word)]
BEGINNINGS = ("r", "ru", "ri", "ca", "\u0435", "ανθ", "s")
TAGS = ("news", "sport", "newsy", "天地")
WHERE = {
    "price < 5": lambda d: d["price"] is not None and d["price"] < 5,
    "id % 2 = 0": lambda d: d["id"] % 2 == 0,
    "length(title) > 9 OR fresh": lambda d: bool(
        (d["title"] is not None and len(d["title"]) > 9) or d["fresh"]
    ),
    "1 / (price - 3) > 0 AND tag::int = 1 -- fails": lambda d: False,
}

columns = st.sampled_from([None, None, "title", "body"])
words = st.sampled_from([*WORDS, *("river", "run", "cafe", "天地") * 4])
leaf_trees = st.one_of(
    st.tuples(st.just("word"), columns, words),
    st.tuples(st.just("word"), columns, words),
    st.tuples(
        st.just("phrase"), columns, st.lists(st.sampled_from(PLAIN), min_size=2, max_size=3),
        st.sampled_from([0, 0, 1, 3]),
    ),
    st.tuples(st.just("prefix"), columns, st.sampled_from(BEGINNINGS)),
    st.tuples(st.just("near"), columns, st.sampled_from(["kafka", "rivre", "cafe", "ran"]),
              st.sampled_from([1, 2])),
    st.tuples(st.just("value"), st.just("tag"), st.sampled_from(TAGS)),
    st.tuples(st.just("value"), st.just("fresh"), st.sampled_from(["true", "false"])),
    st.tuples(st.just("begins"), st.just("tag"), st.sampled_from(["new", "s", "天"])),
    st.builds(lambda low, size: ("between", "price", low, low + size), st.integers(-1, 8),
              st.integers(0, 4)),
)  # fmt: skip
trees = st.recursive(
    leaf_trees,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["and", "and", "or"]), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=5,
)
texts = st.one_of(
    st.none(),
    st.lists(st.tuples(words, st.sampled_from(BETWEEN)), min_size=2, max_size=9).map(
        lambda parts: "".join(word + between for word, between in parts)
    ),
)
documents = st.lists(
    st.fixed_dictionaries({
        "title": texts, "body": texts, "tag": st.sampled_from([None, *TAGS]),
        "price": st.one_of(st.none(), st.integers(-1, 9)),
        "fresh": st.sampled_from([None, True, False]), "late": st.integers(0, LATENESS - 1),
    }),
    min_size=10, max_size=20,
)  # fmt: skip
orders = st.lists(
    st.tuples(
        st.integers(0, 4),  # the batch
        st.sampled_from("abcdefgh"),
        st.sampled_from(["add", "add", "add", "add", "remove", "wrong"]),
        trees,
        st.sampled_from([None, None, None, *WHERE]),
    ),
    min_size=10, max_size=16,
)  # fmt: skip


def program(pages):
    app = rr.App("searched", pages=pages)
    stream = app.stream("docs", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")
    found = stream.search(
        "saved", text=TEXT, language={STEMMED: "english"}, keep=["id"], max_unindexed=1_000
    )
    found.to("out")
    return app


def record(document):
    row = {name: document[name] for name in ("id", "title", "body", "tag", "price", "fresh")}
    return {**row, "at": document["at"].isoformat()}


def placed(drawn):
    """Documents with numbers and times; none is later than is allowed."""
    return [
        {**each, "id": n, "at": START + timedelta(seconds=n - each["late"])}
        for n, each in enumerate(drawn)
    ]


def ask(driver, order, asked):
    _, name, what, tree, where = order
    if what == "remove":
        driver.control("remove query", "saved", name=name)
        return
    offset = len(driver.topics.asked)
    if what == "wrong":
        driver.control("query", "saved", name=name, query="river (")
        return
    asked[offset] = (tree, where)
    body = {"where": where} if where else {}
    driver.control("query", "saved", name=name, query=text_of(tree), owner=f"o{offset}", **body)


def run(ordered, arrived, seed):
    driver, dice, asked = Driver(program(1 + seed % 3)), random.Random(seed), {}
    left, batch = list(arrived), 0
    while left or batch < 5:
        for order in ordered:
            if order[0] == batch:
                ask(driver, order, asked)
        size = dice.randint(0, 9)
        driver.send("docs", *map(record, left[:size]))
        left, batch = left[size:], batch + 1
        mishap = dice.choice(["", "", "crash", "restart"])
        if mishap:
            getattr(driver, mishap)()
        driver.batch()
    driver.end()
    assert not driver.outputs["dead"], driver.outputs["dead"]
    return driver, asked


def versions(log, asked):
    """Queries with the times that they were given: from, until."""
    answers = {c.body["to"]: c.body for c in log if c.kind == ANSWER}
    found, standing = {}, {}
    for command in (c for c in log if c.kind != ANSWER):
        answer, name = answers[command.offset], command.body["name"]
        if "refused" in answer:
            continue
        if name in standing:
            found[standing.pop(name)][1] = answer["effective"]
        if command.kind == "query":
            standing[name] = command.offset
            found[command.offset] = [answer["effective"], END, name]
    return {offset: (*asked[offset], *times) for offset, times in found.items()}


def expected(known, arrived):
    found = Counter()
    for offset, (tree, where, begins, ends, name) in known.items():
        for each in arrived:
            at = round(each["at"].timestamp() * 1e6)
            fits = begins <= at < ends and holds(tree, each) and (not where or WHERE[where](each))
            found[each["id"], name, f"o{offset}"] += fits
    return +found


def came_out(driver):
    lines = (line["value"] for line in driver.outputs["out"])
    return Counter((each["id"], each["query"], each["owner"]) for each in lines)


def told_rightly(driver, known, arrived):
    """Columns, score and fragment of each hit."""
    for line in driver.outputs["out"]:
        value = line["value"]
        document, tree = arrived[value["id"]], known[int(value["owner"][1:])][0]
        parts = [leaf for leaf in leaves(tree) if holds(leaf, document)]
        texts = [leaf for leaf in parts if leaf[0] in ("word", "phrase", "prefix", "near")]
        there = {c for leaf in texts for c in columns_of(leaf) if holds_in(leaf, c, document)}
        assert set(value["fields"]) <= there, (tree, value)
        assert bool(value["fields"]) == bool(there), (tree, value)
        simple = not any(leaf[0] == "phrase" or len(leaf[2]) > 1 for leaf in texts)
        assert not simple or set(value["fields"]) == there
        assert (value["score"] > 0) == bool(parts)
        assert value["score"] <= 2 * len(parts)
        if value["fragment"] is not None:
            shown = value["fragment"].replace("**", "").strip("…")
            whole = [unicodedata.normalize("NFC", document[c] or "") for c in value["fields"]]
            assert "**" in value["fragment"]
            assert any(shown in each for each in whole)


@settings(deadline=None, max_examples=examples(40), phases=PHASES)
@given(orders, documents, st.integers(0, 10**6))
def test_queries_find_what_testing_each_on_each_document_finds(ordered, drawn, seed):
    arrived = placed(drawn)
    driver, asked = run(ordered, arrived, seed)
    known = versions(driver.topics.asked, asked)
    wanted = expected(known, arrived)
    assert came_out(driver) == wanted, json.dumps([c.body for c in driver.topics.asked])
    told_rightly(driver, known, arrived)
    again = Driver(program(2))
    again.topics.asked = [replace(each) for each in driver.topics.asked]
    again.send("docs", *map(record, arrived))
    again.batch()
    again.end()
    assert came_out(again) == wanted
