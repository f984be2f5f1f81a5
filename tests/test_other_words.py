"""A name that is not there is an error at its line, with what to write instead."""

from __future__ import annotations

import copy
import pickle

import pytest

import riverrun as rr
from riverrun.errors import ProgramError
from riverrun.other_words import HINTS
from riverrun.queries import Queries
from riverrun.testing import Driver


def stream(app=None):
    return (app or rr.App("shop")).stream("views", schema="page string, ms bigint, at timestamp")


def table():
    return rr.App("shop").table("users", schema="id string, city string", key="id")


OWNERS = {
    "Stream": stream,
    "Table": table,
    "Grouped": lambda: stream().group_by("page"),
    "App": lambda: rr.App("shop"),
    "rr": lambda: rr,
}

MISTAKES = {
    ("rr", "mean"): "rr.avg",
    ("rr", "cuont"): "did you mean 'count'?",
    ("Stream", "filtre"): "did you mean 'filter'?",
    ("Stream", "window"): "groups have windows: ",
    ("Grouped", "to"): "an aggregate first: ",
    ("Table", "explode"): "streams have it: ",
    ("App", "run"): "`riverrun run app.py`",
    ("Stream", "zzz"): "there are: alert, apply, ",
}


@pytest.mark.parametrize(("place", "hint"), MISTAKES.items(), ids="".join)
def test_a_wrong_name_gets_a_hint_at_its_line(place, hint):
    owner, name = place
    with pytest.raises(ProgramError, match=f"{owner} has no '{name}'") as error:
        getattr(OWNERS[owner](), name)
    assert error.value.hint.startswith(hint)
    assert "test_other_words.py" in str(error.value.where)


@pytest.mark.parametrize("owner", HINTS)
def test_no_hint_is_given_for_a_name_that_is_there_and_none_twice(owner):
    words = [word for each in HINTS[owner].values() for word in each.split()]
    assert len(words) == len(set(words))
    assert not [word for word in words if hasattr(OWNERS[owner](), word)]


def test_python_can_still_ask_what_is_there():
    assert not hasattr(stream(), "nothing")
    assert getattr(rr, "nothing", 5) == 5
    assert copy.copy(stream()).columns == stream().columns
    with pytest.raises(AttributeError):
        pickle.dumps(stream().nothing)


def test_a_column_called_at_needs_no_quotes():
    app = rr.App("shop", pages=2)
    schema = 'page string, at timestamp, s struct(at bigint, "end" bigint)'
    views = app.stream("views", schema=schema, time="at")
    views.where("hour(at) = 12 AND 'at' <> page").select(
        day="date_trunc('day', AT)", there="at AT TIME ZONE 'Asia/Tokyo'", quoted='"at"', n="s.at"
    ).to("out")
    driver = Driver(app)
    for page in ("at", "/"):
        driver.send("views", {"page": page, "at": "2026-01-01T12:30:00Z", "s": {"at": 5}})
    [line] = driver.batch()
    assert (line["value"]["day"], line["value"]["n"]) == ("2026-01-01T00:00:00Z", 5)
    assert line["value"]["quoted"] == "2026-01-01T12:30:00Z"


def test_constants_of_a_class_are_not_among_the_names_that_there_are():
    with pytest.raises(AttributeError) as error:
        Queries.__new__(Queries).drop  # noqa: B018
    assert "standing" in str(error.value)
    assert "bring" not in str(error.value)
