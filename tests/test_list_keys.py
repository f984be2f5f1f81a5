"""Lists and structs are keys like single values, wherever a key is taken."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import riverrun as rr
from riverrun.kernels.chunks import with_hash
from riverrun.testing import Driver
from test_odd_keys import by_key, read, records_of, run
from thorough import examples

TEXTS = [
    [], None, [None], [""], ["", ""], ["a", None], [None, "a"], ["a", "b"], ["ab"], ["a,b"],
    ["1:a"], ["ä\x00\x1f", "\U0001f600"], ["a"],
]  # fmt: skip
KEYS: dict[str, list[Any]] = {
    "string[]": TEXTS,
    "double[]": [[], None, [0.0], [-0.0], ["NaN"], [None], [1.5, None], ["Infinity"], [5e-324]],
    "int[][]": [[], None, [None], [[]], [[], []], [[1], [2]], [[1, 2]], [[None]]],
    "struct(a int, b string[])[]": [
        [], None, [None], [{}], [{"a": 1}], [{"a": 1, "b": []}], [{"b": [None]}, {"a": 2}],
    ],
    "struct(a double[], b struct(c string[], d int))": [
        {}, None, {"a": []}, {"a": [0.0]}, {"a": [-0.0]}, {"b": {"c": ["x"]}}, {"b": {"d": 1}},
    ],
    "double[2]": [None, [0.0, 1], [-0.0, 1], [1, 0.0], [None, 1], ["NaN", None]],
    "timestamp[]": [[], None, ["2026-01-01T00:00:00Z"], ["9999-12-31T00:00:00.000001Z", None]],
}  # fmt: skip


@cache
def of_every_kind(type: str) -> rr.App:
    """Every operator with a key."""
    app = rr.App("keys", pages=3)
    left, right = (read(app, topic, type) for topic in "tu")
    for name, rows in by_key(left, right).items():
        rows.to(name)
    left.match("""
        PARTITION BY k ORDER BY at MEASURES a.n AS first, LAST(b.n) AS last
        PATTERN (a b+) WITHIN INTERVAL '1' HOUR DEFINE b AS b.n > a.n
    """).to("matches")
    right = right.select("k", m="n")
    left.join(right, on="k", within="1 day", spread=3, how="left", name="spread").to("spread")
    table = right.where("k is not null").to_table("k", name="corrected")
    options = {"how": "left", "as_of": "event time", "corrections": True}
    left.join(table, on="k", **options, name="corrections").to("corrections")
    left.deduplicate("k", within="1 day", in_order=True, name="in_order").to("in_order")
    left.group_by("k", name="kept", keep="30 days").agg(count=rr.count()).to("kept")
    return app


def asked(type: str, values: list[Any], query: str) -> Counter[Any]:
    """What DuckDB says of all values at once."""
    rows = pl.DataFrame({"n": range(len(values)), "text": [json.dumps(v) for v in values]})
    whole = rows.to_arrow()
    listed = json.dumps(type.replace("[2]", "[]"))  # DuckDB reads no arrays from JSON
    typed = f"(SELECT n, CAST(json_transform(text, '{listed}') AS {type}) AS k FROM whole)"
    with duckdb.connect() as connection:
        connection.register("whole", whole)
        return Counter(connection.sql(query.format(t=typed)).fetchall())


def told(found: Counter[str], *names: str) -> Counter[Any]:
    """Columns of the rows that stand."""
    return Counter(tuple(eval(row)[name] for name in names) for row in found.elements())


@pytest.mark.parametrize("type", KEYS)
def test_results_are_those_of_the_whole_input_however_batches_are_cut(type):
    values = KEYS[type] * 2
    whole = run(of_every_kind(type), records_of(values), [])
    assert run(of_every_kind(type), records_of(values), [3, 4, 9]) == whole
    check(type, values, whole)


def check(type: str, values: list[Any], whole: dict[str, Counter[str]]) -> None:
    counts = asked(type, values, "SELECT count(*), sum(n)::BIGINT FROM {t} GROUP BY k")
    for name in ("all", "tumbling", "session"):
        assert told(whole[name], "count", "total") == counts
    first = asked(type, values, "SELECT min(n) FROM {t} GROUP BY k")
    assert told(whole["once"], "n") == told(whole["in_order"], "n") == first
    last = asked(type, values, "SELECT max(n) FROM {t} WHERE k IS NOT NULL GROUP BY k")
    assert told(whole["table"], "n") == last
    pairs = asked(type, values, "SELECT l.n, r.n FROM {t} l FULL JOIN {t} r ON l.k = r.k")
    assert told(whole["streams"], "n", "m") == pairs
    pairs = asked(type, values, "SELECT l.n, r.n FROM {t} l LEFT JOIN {t} r ON l.k = r.k")
    assert told(whole["spread"], "n", "m") == pairs
    own = "SELECT n, CASE WHEN k IS NOT NULL THEN n END FROM {t}"
    assert told(whole["versions"], "n", "m") == asked(type, values, own)
    assert told(whole["corrections"], "n", "m") == asked(type, values, own)


inner = st.none() | st.sampled_from(["", "a", "b", "1:a", "ü"])
drawn = st.none() | st.lists(inner, max_size=3)


@settings(max_examples=examples(4), deadline=None)
@given(st.lists(drawn, min_size=4, max_size=20), st.sets(st.integers(1, 3)))
@example(TEXTS * 2, {1, 3})
def test_any_lists_are_keys(values, cuts):
    whole = run(of_every_kind("string[]"), records_of(values), [])
    assert run(of_every_kind("string[]"), records_of(values), sorted(cuts)) == whole
    check("string[]", values, whole)


def test_what_differs_has_another_hash_alone_and_among_others():
    """A filter of what was seen goes by the hash alone."""
    frame = pl.DataFrame({"k": pl.Series(TEXTS, dtype=pl.List(pl.String))})
    hashes = with_hash(frame, ("k",))["__hash"]
    assert hashes.n_unique() == len(TEXTS)
    alone = [with_hash(frame[n : n + 1], ("k",))["__hash"][0] for n in range(len(TEXTS))]
    assert alone == hashes.to_list()
    assert with_hash(frame.clear(), ("k",)).height == 0


def test_the_hash_of_a_struct_has_all_digits_whatever_the_settings_of_polars():
    near = [1.0, 1.000000001, 1.000000002, 123456789.0, 123456789.1]
    frame = pl.DataFrame({"k": [{"a": None, "b": value} for value in near]})
    hashes = with_hash(frame, ("k",))["__hash"].to_list()
    assert len(set(hashes)) == len(near)
    with pl.Config(float_precision=1, fmt_str_lengths=1):
        assert with_hash(frame, ("k",))["__hash"].to_list() == hashes


RECORD_KEYS = {
    "string[]": ('["a", null]', "[]", '["a"'),
    "int[]": ("[1, 2]", "[null]", '[1, "x"]'),
    "struct(x int, y string[])": ('{"x":1,"y":["q"]}', '{"x":null,"y":null}', "[1]"),
}


@pytest.mark.parametrize("type", RECORD_KEYS)
@pytest.mark.parametrize("columns", ["k", "k, g"])
def test_the_key_of_a_table_is_read_from_its_record_and_deletes(type, columns):
    app = rr.App("shop", pages=3)
    names = columns.split(", ")
    app.table("t", schema=f"k {type}, g string, v int", key=names).to("out")
    driver = Driver(app)
    some, odd, garbled = RECORD_KEYS[type]

    def key(text: str) -> str:
        return text if len(names) == 1 else f'{{"k":{text},"g":"x"}}'

    driver.send("t", {"v": 1}, key=key(some))
    driver.send("t", {"v": 2}, key=key(odd))
    driver.send("t", {"v": 3, "g": "x", "k": json.loads(some)})
    driver.send("t", {"v": 4}, key=key(garbled))
    out = driver.batch()
    assert [line["value"]["cause"] for line in out.of("dead")] == ["no key: k is missing"]
    assert sorted(row["v"] for row in driver.table("out")) == [2, 3]
    driver.send("t", None, key=key(odd))
    [gone] = driver.batch()
    assert (gone["op"], gone["value"]["k"]) == ("-", json.loads(odd))
    assert json.loads(key(odd)) == gone["key"]


def test_a_key_of_which_a_part_does_not_fit_is_none():
    app = rr.App("shop")
    app.table("t", schema="k int[], v int", key="k").to("out")
    driver = Driver(app)
    driver.send("t", {"v": 1}, key="[1, null]")
    driver.send("t", {"v": 2}, key='[1, "x"]')
    driver.send("t", None, key='[1, "x"]')
    causes = [line["value"]["cause"] for line in driver.batch().of("dead")]
    assert causes == ["no key: k is missing"] * 2
    assert driver.table("out") == [{"k": [1, None], "v": 1}]


def test_rows_of_a_topic_have_lists_as_keys():
    app = rr.App("shop", pages=3)
    rows = app.stream("t", schema="tags string[], n bigint, price double[]")
    rows.key_by("tags").to("rows")
    rows.group_by("price", name="prices").agg(n=rr.count()).to("prices")
    driver = Driver(app)
    driver.send("t", {"tags": ["a", "ü"], "n": 1, "price": [-0.0, "NaN"]})
    found = {line["output"]: line["key"] for line in driver.batch()}
    assert found == {"rows": ["a", "ü"], "prices": [0.0, "NaN"]}


def test_a_stream_meets_the_table_of_its_list_as_it_is_now():
    app = rr.App("shop", pages=3)
    table = app.table("t", schema="tags string[], w int", key="tags")
    copies = app.table("c", schema="tags string[], c int", key="tags", replicate=True)
    rows = app.stream("s", schema="labels string[]")
    on = {"labels": "tags"}
    met = rows.join(table, on=on, how="left").select("labels", "w")
    met.join(copies, on=on, how="left", name="copied").to("out")
    driver = Driver(app)
    for n, tags in enumerate(([], [None], ["a", "b"])):
        driver.send("t", {"tags": tags, "w": n})
        driver.send("c", {"tags": tags, "c": n})
    driver.batch()
    for labels in ([], [None], ["a", "b"], ["b", "a"], None):
        driver.send("s", {"labels": labels})
    found = [tuple(line["value"][name] for name in ("labels", "w", "c")) for line in driver.batch()]
    assert sorted(found, key=repr) == sorted(
        [([], 0, 0), ([None], 1, 1), (["a", "b"], 2, 2), (["b", "a"], None, None),
         (None, None, None)], key=repr
    )  # fmt: skip


def test_live_rules_and_alerts_go_by_lists():
    app = rr.App("shop", pages=3)
    rows = app.stream("t", schema="tags string[], n bigint, at timestamp", time="at")
    pattern = "MEASURES LAST(b.n) AS n PATTERN (a b) WITHIN INTERVAL '1' HOUR DEFINE b AS b.n > $x"
    rules = rows.match_rules("ru", by="tags", measures="n bigint", templates={"two": pattern})
    rules.to("found")
    rows.alert(rr.alerts.topic("people"), group_by="tags", wait="1 second", name="told")
    driver = Driver(app, now="2026-01-01T12:00:00Z")
    driver.control("rule", "ru", name="r", template="two", parameters={"x": 0})
    driver.batch()
    for n, tags in enumerate([["a"], [], ["a", None], ["a"], []]):
        driver.send("t", {"tags": tags, "n": n, "at": f"2026-01-01T12:00:0{n}Z"})
        driver.batch()
    driver.pass_time("1 minute")
    driver.end()
    found = [(line["value"]["tags"], line["value"]["n"]) for line in driver.outputs["found"]]
    assert sorted(found) == [([], 4), (["a"], 3)]
    told = [(line["value"]["tags"], line["value"]["n"]) for line in driver.outputs["people"]]
    assert sorted(told, key=repr) == [(["a", None], 1), (["a"], 2), ([], 2)]


@pytest.mark.parametrize("type", ["map(string, int)[]", "struct(a map(string, int))"])
def test_maps_are_no_keys_however_deep(type):
    app = rr.App("early")
    rows = app.stream("t", schema=f"k {type}, n int")
    with pytest.raises(rr.ProgramError, match="and cannot be a key"):
        app.table("u", schema=f"k {type}, n int", key="k")
    with pytest.raises(rr.ProgramError, match="cannot be joined by 'k'") as refused:
        rows.join(rows, on="k", within="1 hour", prefix="other_")
    assert "list_sort(map_entries(…))" in refused.value.hint
    rows.group_by("k").agg(n=rr.count()).to("out")
    with pytest.raises(rr.ProgramError, match="cannot be grouped by 'k'"):
        Driver(app)


def test_the_way_out_for_maps_takes_them_in_any_order_for_the_same():
    app = rr.App("maps", pages=3)
    rows = app.stream("t", schema="m map(string, int)")
    listed = rows.select(k="list_sort(map_entries(m))")
    listed.group_by("k", name="all").agg(n=rr.count()).to("out")
    driver = Driver(app)
    for each in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}):
        driver.send("t", {"m": each})
    driver.batch()
    assert sorted(row["n"] for row in driver.table("out")) == [1, 2]


def test_a_field_called_like_a_type_is_no_such_type():
    app = rr.App("named")
    rows = app.stream("t", schema='k struct("MAP(" int, "map" int[])')
    rows.group_by("k").agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("t", {"k": {"MAP(": 2, "map": []}})
    assert len(driver.batch()) == 1


@pytest.mark.parametrize("type", ["string[]", "struct(a int)"])
def test_databases_are_not_asked_for_lists_and_structs(type, tmp_path):
    rows = rr.App("early").stream("t", schema=f"k {type}")
    file = tmp_path / "known.csv"
    file.write_text("k,name\na,b\n")
    with pytest.raises(rr.ProgramError, match="cannot be looked for in a database"):
        rows.lookup(str(file), on="k", schema="name string")


def test_the_key_of_a_captured_table_is_of_single_values():
    app = rr.App("early")
    options = {"schema": "k string[], n int", "key": "k", "database": "postgresql://localhost/a"}
    with pytest.raises(rr.ProgramError, match="'k' is VARCHAR\\[\\], and cannot be a key"):
        app.capture("a", **options)


def test_lists_of_one_kind_of_number_are_not_joined_with_those_of_another():
    app = rr.App("early")
    left, right = (app.stream(t, schema=f"k {t}[]") for t in ("int", "bigint"))
    with pytest.raises(rr.ProgramError, match="different types") as refused:
        left.join(right, on="k", within="1 hour")
    assert "cast" in refused.value.hint


def test_batches_may_be_cut_anywhere():
    values = [*TEXTS, ["a"], []]
    app = rr.App("cut", pages=2)
    rows = read(app, "t", "string[]")
    rows.group_by("k", name="all").agg(ns=rr.collect("n")).to("out")
    whole = run(app, records_of(values), [])
    for cut, following in pairwise(range(1, len(values))):
        assert run(app, records_of(values), [cut, following]) == whole
