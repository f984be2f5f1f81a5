"""`riverrun queries` and `riverrun search` where no broker is needed: what is wrong is said."""

from __future__ import annotations

import pytest

PROGRAM = """
import riverrun as rr

app = rr.App("news")
articles = app.stream("articles", schema="id bigint, title string")
articles.search("saved", text="title").to("hits")
"""


@pytest.mark.parametrize(
    "command",
    [
        ("queries", "add", "news", "-spark river", "--name", "odd"),
        ("queries", "test", "news.py", "-spark river"),
        ("search", "articles", "-spark river"),
        ("search", "watch", "news", "-spark river"),
    ],
)
def test_a_query_that_looks_like_an_option_is_told_how_to_be_given(riverrun, command):
    done = riverrun(*command)
    assert done.code == 2
    assert "a query that begins with - stands at the end, behind --" in done.err


def test_a_query_behind_two_minus_signs_may_begin_with_one(riverrun, tmp_path):
    (tmp_path / "news.py").write_text(PROGRAM)
    done = riverrun("queries", "test", str(tmp_path / "news.py"), "--", "-spark river")
    assert done.code == 0
    assert "it is met under one of its words" in done.out


def test_a_condition_that_cannot_be_tried_is_an_error_and_no_traceback(riverrun, tmp_path):
    (tmp_path / "news.py").write_text(PROGRAM)
    where = ("--where", "error('x') IS NULL")
    done = riverrun("queries", "test", str(tmp_path / "news.py"), "river", *where)
    assert done.code == 2
    assert "a condition calls a function that cannot be tried" in done.err
    assert "Traceback" not in done.err
