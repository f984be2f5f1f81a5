"""The language of queries: what is not a part of it is refused at its place, and not taken for
something else."""

from __future__ import annotations

import pytest

from riverrun.errors import InputError
from riverrun.operators.search.reading import Reader, searched
from riverrun.schema import parse

COLUMNS = (
    "title string, body string, tag string, price double, n bigint, cents decimal(9, 2), "
    "at timestamp, opens time"
)


def read(query):
    schema = parse(COLUMNS, "here").with_plain_times
    return Reader(searched(schema, ("title", "body"), (), ()), query).read()


WRONG = {
    "river~3": ("~ stands behind a word, alone or with 1 or 2", 6),
    "a river~12": ("~ stands behind a word", 8),
    "a~-1": ("~ stands behind a word", 2),
    "ri~er": ("~ stands behind a word", 3),
    '"river boat"~x': ("~ stands behind a word", 13),
    '"a b"~-1': ("~ stands behind a word", 6),
    '"a b"~2.5': ("~ stands behind a word", 6),
    '"a b"~': ("~ stands behind a word", 6),
    "ri*er": ("* stands behind the beginning of a word", 3),
    "*ver": ("* stands behind the beginning of a word", 1),
    "river title:*": ("* stands behind the beginning of a word", 13),
    "river*~1": ("* stands behind the beginning of a word", 6),
    "title:": (": stands between a column and what is looked for", 6),
    "title: river": (": stands between a column and what is looked for", 6),
    ":a": (": stands between a column and what is looked for", 1),
    "`unit price:5": ("a name in backquotes is that of a column", 1),
    "river `title`": ("a name in backquotes is that of a column", 7),
    "river !boat": ("! means nothing here", 7),
    "river || boat": ("the words for it are AND and OR", 7),
    "river && boat": ("the words for it are AND and OR", 7),
    "river^2": ("words have no weight", 6),
    "river > 5": ("a comparison is one of a column", 7),
    "price:NaN": ("'price' is a number, not 'NaN'", 7),
    "price:>NaN": ("'price' is a number, not 'NaN'", 7),
    "price:1e400": ("'price' is a number, not '1e400'", 7),
    "price:[0 TO inf]": ("'price' is a number, not 'inf'", 7),
    "cents:NaN": ("'cents' is a number that fits its digits", 7),
    "price:> 5": ("price is compared with nothing", 1),
    "price:>": ("price is compared with nothing", 1),
    "price:- 5": ("'price' is a number, not '-'", 7),
    "title:-river": ("title is compared with nothing", 1),
    'at:>"soon"': ("'at' is a time like", 4),
    'tag:"a b"~2': ("~ is of words in a text", 10),
    'price:"5"~1': ("~ is of words in a text", 10),
}


@pytest.mark.parametrize("query", WRONG)
def test_what_is_not_the_language_is_refused_at_its_place(query):
    fact, place = WRONG[query]
    with pytest.raises(InputError) as caught:
        read(query)
    assert caught.value.fact.startswith(fact)
    assert caught.value.where == f"character {place} of the query"


SAME = {
    "price:-5": 'price:"-5"',
    "n:-5": 'n:"-5"',
    "price:-1.5e-3 river": 'river price:"-0.0015"',
    "n:+5": "n:5",
    'at:>"2026-11-17T05:06:42Z"': "at:>2026-11-17T05:06:42Z",
    'at:<="2026-11-17 05:06:42"': "at:<=2026-11-17T05:06:42Z",
    'river opens:>="12:30"': "opens:>=12:30 river",
    'price:>"5"': "price:>5",
    r"river\~3": '"river~3"',
    r"title:river\*": 'title:"river*"',
    r"tag:a\*": 'tag:"a*"',
    r"title\:": '"title:"',
    "tag:a~3": 'tag:"a~3"',
    "tag::a": 'tag:":a"',
    "12:30": '"12:30"',
    "what?": '"what"',
    "river - boat": "river boat",
}


@pytest.mark.parametrize("query", SAME)
def test_two_ways_to_ask_for_the_same(query):
    parts = [getattr(read(each), "parts", (read(each),)) for each in (query, SAME[query])]
    assert set(parts[0]) == set(parts[1])


def test_a_hint_is_of_what_is_wrong():
    hints = {'"abc': "another quote", "price:[1 TO": "[from TO to]", "🚀": "letters and digits"}
    for query, hint in hints.items():
        with pytest.raises(InputError) as caught:
            read(query)
        assert hint in str(caught.value.hint)
