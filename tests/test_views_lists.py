"""Rows of a view are looked up by lists and structs, in both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from databases import EVALUATOR
from riverrun.cli.get import command
from riverrun.client import Client
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.outputs import Part
from riverrun.schema import literal
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import SqliteStore, Store
from riverrun.views.asked import Words
from test_server import Serving, home, serving
from test_views import EVERYTHING, Stand, closed, place

__all__ = ["closed", "home", "place", "serving"]

DDL = "prices double[], place struct(x bigint, at timestamp[]), n bigint"
AT = "2026-01-01T12:00:00Z"
KEYS: list[tuple[Any, Any]] = [
    ([], None),
    (None, None),
    ([None], {"x": 1, "at": []}),
    (["NaN"], {"x": 1, "at": []}),
    (["Infinity"], {"x": None, "at": [AT, None]}),
    ([1.5, 0.1], {"x": None, "at": None}),
]
ROWS = [{"prices": prices, "place": place, "n": n} for n, (prices, place) in enumerate(KEYS)]


def written(stand: Stand, number: int, rows: list[dict[str, Any]], op: int = 1) -> None:
    """Rows of a batch that are put there, or taken away."""
    types = {column.name: column.type for column in stand.output.schema.columns}
    lines = pa.table({"line": [json.dumps(row) for row in rows]})
    query = (
        f"SELECT unnest(from_json(line, {literal(json.dumps(types))})), {op}::TINYINT AS __op,"
        " 0::BIGINT AS __revision FROM rows"
    )
    part = Part("shop", stand.checkpoint, 1, number, 0, stand.tick + number)
    stand.views.deliver(part, [(stand.output, EVALUATOR.run(query, rows=lines))], EVALUATOR)
    stand.note(number)


def text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def test_a_row_is_found_paged_told_and_deleted_by_a_list(place: Callable[[], Store]) -> None:
    stand = Stand(place(), "by_prices", DDL, ("prices", "place"))
    written(stand, 0, ROWS)
    reader = stand.reader()
    assert [reader.get("by_prices", [text(p), text(q)]) for p, q in KEYS] == ROWS
    assert reader.get("by_prices", ["[2]", None]) is None
    found, after = [], None
    while True:
        page = reader.page("by_prices", Words(limit=1, after=after))
        found += page.rows
        if (after := page.next) is None:
            break
    assert sorted(found, key=repr) == sorted(ROWS, key=repr)
    told = [json.loads(each.key) for each in reader.changes("by_prices", EVERYTHING, 100)]
    wanted = [{"prices": prices, "place": place} for prices, place in KEYS]
    assert sorted(told, key=repr) == sorted(wanted, key=repr)
    written(stand, 1, ROWS[2:], op=-1)
    left = reader.page("by_prices", Words()).rows
    assert sorted(left, key=repr) == sorted(ROWS[:2], key=repr)


def test_a_key_in_other_words_is_the_same_and_one_that_does_not_fit_is_told(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place(), "by_place", "place struct(a int[], b string), n bigint", ("place",))
    row = {"place": {"a": [1, None], "b": "ü"}, "n": 1}
    written(stand, 0, [row])
    reader = stand.reader()
    assert reader.get("by_place", ['{ "b": "\\u00fc", "a": [1.0, null] }']) == row
    for wrong in ("5", '{"a": ["x"], "b": null}', "{"):
        with pytest.raises(InputError, match="the key is not of its columns' types"):
            reader.get("by_place", [wrong])
    with pytest.raises(InputError, match="the column 'place' is not compared"):
        reader.page("by_place", Words([("place", "eq.{}")]))


def test_the_client_gives_lists_as_python_has_them_and_the_command_line_as_json(
    home: Settings, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(home.home / FILE)
    stand = Stand(store, "per", "tags string[], at timestamp[], n bigint", ("tags", "at"))
    key = [["a/b", None, "?ü"], [AT]]
    written(stand, 0, [{"tags": key[0], "at": key[1], "n": 1}])
    view = Client(serving()).view("per")
    at = datetime(2026, 1, 1, 12)
    assert view.get(key[0], [at]) == {"tags": key[0], "at": [at], "n": 1}
    assert view.get([], [at]) is None
    monkeypatch.setattr("riverrun.cli.get.options.settings", lambda: home)
    found = CliRunner().invoke(command, ["per", *map(json.dumps, key), "--json"])
    assert json.loads(found.output)["row"]["n"] == 1
