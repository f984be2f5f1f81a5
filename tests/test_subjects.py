"""Who is to be forgotten: as people write it, and as the records have it."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.errors import InputError
from riverrun.kernels.subjects import Subject
from riverrun.testing import Driver

UUID = "550e8400-e29b-41d4-a716-446655440000"


def people(type):
    app = rr.App("shop")
    mine = rr.personal("name", subject="c")
    app.stream("people", schema=f"c {type}, name string", personal=mine).to("copies")
    return app


@pytest.mark.parametrize(
    ("type", "value", "named"),
    [
        ("uuid", UUID, UUID.upper()),
        ("uuid", UUID.upper(), UUID.replace("-", "")),
        ("bigint", 42, "042"),
        ("bigint", -42, " -42 "),
        ("smallint", 42, "+42"),
        ("decimal(10, 2)", "1.5", "1.5"),
        ("decimal(10, 2)", "1.50", "01.500"),
        ("decimal(20, 0)", "15", "15.0"),
        ("string", "042", "042"),
        ("string", "a/b", "a/b"),
        ("string", "", ""),
    ],
)
def test_a_subject_is_found_however_its_value_is_spelled(type, value, named):
    driver = Driver(people(type))
    driver.send("people", {"c": value, "name": "Ann"})
    [line] = driver.batch().of("copies")
    driver.forget(f"c/{named}")
    driver.batch()
    assert driver.keys.reveal(line["value"]).forgotten == ["name"]


@pytest.mark.parametrize(
    ("type", "named", "fact"),
    [
        ("bigint", "c/42.4", "no c is called that"),
        ("bigint", "c/", "no c is called that"),
        ("bigint", "c/abc", "no c is called that"),
        ("bigint", "abc", "no c is called that"),
        ("decimal(10, 2)", "c/1.555", "no c is called that"),
        ("decimal(10, 2)", "c/nan", "no c is called that"),
        ("uuid", "c/42", "no c is called that"),
        ("string", "", "it is not said who is meant"),
        ("string", "c", "it is not said who is meant"),
        ("string", None, "it is not said who is meant"),
        ("string", "nobody/1", "it is not known what kind of subject that is"),
        ("bigint", "/1", "it is not known what kind of subject that is"),
    ],
)
def test_who_cannot_be_meant_is_refused(type, named, fact):
    driver = Driver(people(type))
    with pytest.raises(InputError) as told:
        driver.forget(named)
    assert told.value.fact == fact
    assert driver.topics.asked == []


def test_what_is_personal_nowhere_cannot_be_forgotten():
    app = rr.App("shop")
    app.stream("views", schema="page string").to("copies")
    with pytest.raises(InputError, match="nothing is personal here"):
        Driver(app).forget("customer/1")


def test_a_kind_that_is_told_in_two_ways_is_refused_where_it_may_be_two():
    kinds = {"c": {"VARCHAR", "BIGINT"}}
    assert Subject.of("c/42", kinds) == ("c", "42")
    assert Subject.of("abc", kinds) == ("c", "abc")
    with pytest.raises(InputError, match="it may be '042' or '42'"):
        Subject.of("c/042", kinds)


@pytest.mark.parametrize("type", ["boolean", "date", "timestamp", "double", "bigint[]", "json"])
def test_a_subject_is_told_by_what_is_written_in_one_way_only(type):
    with pytest.raises(rr.ProgramError, match="cannot tell a subject") as told:
        people(type)
    assert told.value.hint == "a subject is told by a text, a whole number, a decimal or a UUID"
