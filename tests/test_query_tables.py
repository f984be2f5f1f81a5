"""Tables of queries: what their columns may be."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.testing import Driver


def shop(metadata):
    app = rr.App("shop", pages=2)
    offers = app.stream("offers", schema="id bigint, title string")
    schema = f"name string, query string, metadata {metadata}"
    offers.search(app.table("saved", key="name", schema=schema), text="title").to("found")
    return Driver(app)


def given(metadata, value):
    """What a hit tells of its query, or why that is a dead letter."""
    driver = shop(metadata)
    driver.send("saved", {"name": "a", "query": "lamp", "metadata": value})
    driver.send("offers", {"id": 1, "title": "lamp"})
    driver.batch()
    [found] = [*driver.outputs["found"], *driver.outputs["dead"]]
    told = found["value"]
    return told["cause"] if "cause" in told else json.loads(told["metadata"])


@pytest.mark.parametrize(
    ("type", "value", "told"),
    [
        ("string", '{"mail": "ann@example.com", "n": [1, {"ü": null}]}',
         {"mail": "ann@example.com", "n": [1, {"ü": None}]}),
        ("string", {"mail": "ann"}, {"mail": "ann"}),
        ("string", "{}", {}),
        ("string", None, {}),
        ("string", " ", {}),
        ("json", {"mail": "ann"}, {"mail": "ann"}),
        ("json", None, {}),
        ("map(string, string)", {"mail": "ann", "to": "bob"}, {"mail": "ann", "to": "bob"}),
        ("map(string, string)", None, {}),
        ("struct(mail string, n bigint)", {"mail": "ann"}, {"mail": "ann", "n": None}),
    ],
)  # fmt: skip
def test_metadata_of_a_table_come_back_with_the_hits(type, value, told):
    assert given(type, value) == told


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        ("plain", "metadata are not JSON: metadata: 'plain'"),
        ("[1]", "metadata are names with values: metadata: [1]"),
        ("[]", "metadata are names with values: metadata: []"),
        ('"text"', "metadata are names with values: metadata: 'text'"),
        ('{"n": 1e999}', "a stored query is JSON in UTF-8"),
        ("[" * 100_000, "the query is nested too deeply"),
    ],
)
def test_metadata_that_are_no_object_make_the_row_a_dead_letter(value, cause):
    assert given("string", value).startswith(cause)


def test_metadata_of_another_type_are_refused_when_the_program_is_built():
    for type in ("bigint", "string[]", "struct(a bigint)[]"):
        with pytest.raises(rr.ProgramError, match="'metadata' of a table of queries is text"):
            shop(type)
