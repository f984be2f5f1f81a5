"""Null is a key like any other: in both databases, in look-ups, pages and changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from databases import EVALUATOR
from riverrun.outputs import Part
from riverrun.sinks.viewing.store import Store
from riverrun.views.asked import Words
from riverrun.views.reading import Place
from test_views import EVERYTHING, Stand, closed, place
from test_views_anew import anew

__all__ = ["closed", "place"]


def written(stand: Stand, number: int, rows: list[dict[str, Any]], op: int = 1) -> None:
    """Rows of a batch that are put there, or taken away."""
    names = [column.name for column in stand.output.schema.columns]
    kinds = {"VARCHAR": pa.large_string(), "BIGINT": pa.int64()}
    columns = {
        column.name: pa.array([row[column.name] for row in rows], kinds[column.type])
        for column in stand.output.schema.columns
    }
    change = {"__op": pa.array([op] * len(rows), pa.int8())}
    change["__revision"] = pa.array([0] * len(rows), pa.int64())
    assert list(columns) == names
    part = Part("shop", stand.checkpoint, 1, number, 0, stand.tick + number)
    stand.views.deliver(part, [(stand.output, pa.table(columns | change))], EVALUATOR)
    stand.note(number)


def test_a_null_in_a_key_is_written_found_paged_and_told_as_null(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    texts = [None, "", "None", "null", "a"]
    rows = [{"user": text, "n": n} for n, text in enumerate(texts)]
    written(stand, 0, rows)
    reader = stand.reader()
    assert [reader.get("per_user", [text]) for text in texts] == rows
    found, after = [], None
    while True:
        page = reader.page("per_user", Words(limit=1, after=after))
        found += [row["user"] for row in page.rows]
        if (after := page.next) is None:
            break
    assert found == ["", "None", "a", "null", None]
    written(stand, 1, rows[:2], op=-1)
    assert reader.get("per_user", [None]) is None
    changes = reader.changes("per_user", EVERYTHING, 100)
    assert {json.loads(each.key) for each in changes[:5]} == set(texts)
    gone = [(json.loads(each.key), each.value) for each in changes[5:]]
    assert sorted(gone, key=str) == [("", None), (None, None)]


def test_a_row_of_null_that_goes_when_a_program_starts_over_is_told(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    written(stand, 0, [{"user": None, "n": 1}])
    written(stand, 1, [{"user": None, "n": 2}])  # changed, not added
    assert stand.reader().page("per_user", Words()).rows == [{"user": None, "n": 2}]
    anew(stand, "c2")
    [change] = stand.reader().changes("per_user", Place.parse("1.1"), 10)
    assert (change.key, change.value) == ("null", None)


def test_a_part_of_a_key_may_be_null(place: Callable[[], Store]) -> None:
    stand = Stand(place(), "per_hub", "hub string, day bigint, n bigint", ("hub", "day"))
    rows = [
        {"hub": hub, "day": day, "n": n}
        for n, (hub, day) in enumerate([(None, None), (None, 1), ("x", None), ("x", 1)])
    ]
    written(stand, 0, rows)
    reader = stand.reader()
    keys: list[list[str | None]] = [[None, None], [None, "1"], ["x", None], ["x", "1"]]
    assert [reader.get("per_hub", key) for key in keys] == rows
    keyed = [json.loads(each.key) for each in reader.changes("per_hub", EVERYTHING, 100)]
    assert sorted(map(str, keyed)) == sorted(
        str({"hub": row["hub"], "day": row["day"]}) for row in rows
    )
