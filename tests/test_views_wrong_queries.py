"""What PostgreSQL says of a query is told as whoever asked has written it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from riverrun.config import Settings
from riverrun.embedded import postgres as embedded
from riverrun.errors import InputError
from riverrun.server.places import reader_of
from test_views import OPEN, closed

__all__ = ["closed"]


@pytest.mark.parametrize(
    ("sql", "got"),
    [
        ("SELECT nn FROM (SELECT 1 AS n) AS one", 'column "nn" does not exist, at character 8'),
        ("SELEC 1", 'syntax error at or near "SELEC", at character 1'),
        ("", "syntax error at end of input, at character 1"),
    ],
)
def test_what_is_wrong_with_a_query_in_postgresql_is_told_at_the_place_where_it_was_written(
    postgres_settings: Settings, sql: str, got: str
) -> None:
    own = replace(postgres_settings, views="postgres")
    embedded.ensure(own)
    reader = reader_of(own)
    OPEN.append(reader)
    with pytest.raises(InputError) as caught:
        reader.query(sql, seconds=1e9, limit=10)
    assert caught.value.got == got
