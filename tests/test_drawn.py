"""Drawn tables: streams as text, in and out."""

from __future__ import annotations

import json

import pytest

import riverrun as rr
from riverrun.errors import InputError
from riverrun.partitions import Partition
from riverrun.testing import Driver


def driver():
    app = rr.App("shop", pages=2)
    app.stream(
        "t",
        schema="name string, n bigint, x double, yes boolean, list int[], "
        "at timestamp, ms timestamp_ms",
    ).to("out")
    return Driver(app)


def sent(text):
    """The values of the records that a table stands for."""
    ours = driver()
    ours.run(t=text)
    return [json.loads(record.value) for record in ours.topics.records[Partition("t", 0)]]


def test_values_are_typed_by_the_schema():
    assert sent("""
        name | n  | x   | yes  | list   | at    | ms
        12   | 12 | 0.5 | true | [1, 2] | 12:00 | 00:00:01.5
    """) == [
        {
            "name": "12",
            "n": 12,
            "x": 0.5,
            "yes": True,
            "list": [1, 2],
            "at": "2026-01-01T12:00:00Z",
            "ms": 1_767_225_601_500,
        }
    ]


def test_an_empty_cell_is_a_missing_field_and_null_is_null():
    assert sent("""
        name   | n    # a comment
               | null
        ""     |
        "null" |
    """) == [{"n": None}, {"name": ""}, {"name": "null"}]  # fmt: skip


def test_what_does_not_fit_the_type_is_sent_as_it_is():
    assert sent("""
        n
        many
    """) == [{"n": "many"}]


def test_dashes_end_a_batch_and_batches_may_be_empty():
    ours = driver()
    ours.run(
        t="""
        name
        ---
        a
        b
        -----------
        c
    """
    )
    assert ours.topics.cuts == []
    assert [line["value"]["name"] for line in ours.outputs["out"]] == ["a", "b", "c"]


def test_a_record_has_a_key_a_partition_and_a_timestamp():
    ours = driver()
    ours.run(
        t="""
        name | _key | _partition | _timestamp
        a    | k    | 2          | 12:00
    """
    )
    (record,) = ours.topics.records[Partition("t", 2)]
    assert (record.key, record.timestamp) == (b"k", 1_767_268_800_000)


def test_a_table_that_differs_is_shown_line_by_line():
    out = driver().run(
        t="""
        name | n
        a    | 1
        b    |
    """
    )
    with pytest.raises(AssertionError) as caught:
        out.assert_is("""
            +- | name | n
            +  | a    | 1
            +  | b    | 25
        """)
    assert str(caught.value).splitlines() == [
        "the output differs (- drawn, + came out)",
        "  +- | name | n",
        "  +  | a    | 1",
        "- +  | b    | 25",
        "+ +  | b    |",
    ]


@pytest.mark.parametrize("drawn", ["name", "name\n a\n a", "name\n b", "name | n\n a | 1"])
def test_every_row_and_cell_counts(drawn):
    out = driver().run(t="name\n a")
    with pytest.raises(AssertionError):
        out.assert_is(drawn)


def test_an_unknown_column_fails():
    out = driver().run(t="name\n a")
    with pytest.raises(AssertionError, match="there is no column 'nam'"):
        out.assert_is("nam\n a")


def test_true_is_not_one():
    out = driver().run(t="n\n 1")
    with pytest.raises(AssertionError):
        out.assert_is("n\n true")


def test_lines_of_several_outputs_must_be_told_apart():
    ours = driver()
    ours.send("t", "oops", {"name": "a"})
    out = ours.batch()
    with pytest.raises(AssertionError, match=r"choose with .of\(…\) among dead, out"):
        out.assert_is("+-\n +")
    out.of("out").assert_is("name\n a")


@pytest.mark.parametrize(
    ("drawn", "fact"),
    [
        ({"t": ""}, "a drawn table has no header"),
        ({"t": "name | n\n a"}, "a drawn row has 1 cells, its header 2"),
        ({"t": "nam\n a"}, "there is no column 'nam'"),
        ({"u": "name\n a"}, "the program does not read 'u'"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_clear_error(drawn, fact):
    with pytest.raises((InputError, rr.ProgramError)) as caught:
        driver().run(**drawn)
    assert caught.value.fact == fact
