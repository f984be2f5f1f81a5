"""Joins by the tables that Kafka Streams publishes of its own: one key, one record per batch.

Each drawing has the two inputs, and a column per kind of join with what leaves at that moment. Rows
are `(left,right)`; of a table, `-` takes one back and `+` puts one there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import riverrun as rr
from riverrun.testing import Driver, Lines
from riverrun.testing.drawn import parse

NOON = 1_767_268_800_000
LEFT, RIGHT = "k string, v string", "k string, w string"


def of_streams(how: str) -> Driver:
    app = rr.App("published", pages=2)
    left, right = app.stream("left", schema=LEFT), app.stream("right", schema=RIGHT)
    left.join(right, on="k", within="15 seconds", how=how).to("out")
    return Driver(app)


def of_stream_and_table(how: str, **options: str) -> Driver:
    app = rr.App("published", pages=2)
    left, right = app.stream("left", schema=LEFT), app.table("right", schema=RIGHT, key="k")
    left.join(right, on="k", how=how, **options).to("out")
    return Driver(app)


def of_tables(how: str) -> Driver:
    app = rr.App("published", pages=2)
    left, right = app.table("left", schema=LEFT, key="k"), app.table("right", schema=RIGHT, key="k")
    left.join(right, on="k", how=how).to("out")
    return Driver(app)


def played(driver: Driver, drawn: str) -> Iterator[tuple[dict[str, str], Lines]]:
    """Runs a drawing, a batch per row. Gives what is drawn of a moment, and what came out."""
    for row in parse(drawn).rows:
        for topic, name in (("left", "v"), ("right", "w")):
            if row[topic]:
                value = None if row[topic] == "null" else {"k": "k", name: row[topic]}
                driver.send(topic, value, key="k", timestamp=NOON + int(row["at"]) * 1000)
        yield row, driver.batch()


def rows_of(lines: Lines) -> list[str]:
    return [_row(line) for line in lines.of("out")]


def _row(line: dict[str, Any]) -> str:
    pair = ",".join(line["value"][name] or "null" for name in ("v", "w"))
    return f"{line['op'] if 'revision' in line else ''}({pair})"


def assert_plays(driver: Driver, drawn: str, column: str) -> None:
    """Every cell of a join's column. Rows that leave at one moment have no order of their own."""
    moments = [(row["at"], row[column], rows_of(lines)) for row, lines in played(driver, drawn)]
    found = {at: sorted(rows) for at, _, rows in moments}
    assert found == {at: sorted(cell.split()) for at, cell, _ in moments}


STREAMS = """
    at | left | right | inner                   | left join               | full join
    1  | null |       |                         |                         |
    2  |      | null  |                         |                         |
    3  | A    |       |                         |                         |
    4  |      | a     | (A,a)                   | (A,a)                   | (A,a)
    5  | B    |       | (B,a)                   | (B,a)                   | (B,a)
    6  |      | b     | (A,b) (B,b)             | (A,b) (B,b)             | (A,b) (B,b)
    7  | null |       |                         |                         |
    8  |      | null  |                         |                         |
    9  | C    |       | (C,a) (C,b)             | (C,a) (C,b)             | (C,a) (C,b)
    10 |      | c     | (A,c) (B,c) (C,c)       | (A,c) (B,c) (C,c)       | (A,c) (B,c) (C,c)
    11 |      | null  |                         |                         |
    12 | null |       |                         |                         |
    13 |      | null  |                         |                         |
    14 |      | d     | (A,d) (B,d) (C,d)       | (A,d) (B,d) (C,d)       | (A,d) (B,d) (C,d)
    15 | D    |       | (D,a) (D,b) (D,c) (D,d) | (D,a) (D,b) (D,c) (D,d) | (D,a) (D,b) (D,c) (D,d)
"""


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_two_streams(how):
    """As published: a match leaves at once, and nobody here stays alone."""
    driver = of_streams(how)
    assert_plays(driver, STREAMS, "inner" if how == "inner" else f"{how} join")
    assert driver.end() == []


def test_a_null_in_a_stream_is_a_dead_letter():
    """Kafka Streams drops it with a line in its log; here it is kept, since it may be a mistake."""
    for row, lines in played(of_streams("full"), STREAMS):
        causes = [line["value"]["cause"] for line in lines.of("dead")]
        empty = "null" in (row["left"], row["right"])
        assert causes == (["the value is empty or not UTF-8 text"] if empty else []), row


ALONE = """
    at  | left | right | inner | left join      | right join | full join
    40  | E    |       |       |                |            |
    60  |      | f     |       |                |            |
    80  | G    |       |       | (E,null)       |            | (E,null)
    100 |      | h     |       |                | (null,f)   | (null,f)
    101 | I    |       | (I,h) | (I,h) (G,null) | (I,h)      | (I,h) (G,null)
    102 |      | j     | (I,j) | (I,j)          | (I,j)      | (I,j)
"""


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_a_row_is_alone_once_it_can_match_no_more(how):
    """Kafka Streams goes by the newest record of both topics, riverrun by the slower topic, which
    may still have a match: (E,null) waits until both are beyond 55, (null,f) beyond 75."""
    driver = of_streams(how)
    assert len(list(played(driver, STREAMS))) == 15
    assert_plays(driver, ALONE, "inner" if how == "inner" else f"{how} join")
    assert driver.end() == []


def test_silence_lets_the_last_rows_go_alone_and_once():
    """Kafka Streams holds them until another record comes; here time goes on without records."""
    driver = of_streams("full")
    assert all(rows_of(lines) == [] for _, lines in played(driver, SILENT))
    assert rows_of(driver.pass_time("9 seconds")) == []
    assert rows_of(driver.pass_time("1 second")) == ["(E,null)"]  # both are idle: it is 70
    assert rows_of(driver.pass_time("5 seconds")) == []
    assert rows_of(driver.pass_time("1 second")) == ["(null,f)"]  # 76
    assert driver.end() == []


SILENT = """
    at | left | right
    40 | E    |
    60 |      | f
"""

TABLE = """
    at | left | right | inner | left join | inner, then | left join, then
    1  | null |       |       |           |             |
    2  |      | null  |       |           |             |
    3  | A    |       |       | (A,null)  |             |
    4  |      | a     |       |           |             | (A,null)
    5  | B    |       | (B,a) | (B,a)     |             |
    6  |      | b     |       |           | (B,a)       | (B,a)
    7  | null |       |       |           |             |
    8  |      | null  |       |           |             |
    9  | C    |       |       | (C,null)  |             |
    10 |      | c     |       |           |             | (C,null)
    11 |      | null  |       |           |             |
    12 | null |       |       |           |             |
    13 |      | null  |       |           |             |
    14 |      | d     |       |           |             |
    15 | D    |       | (D,d) | (D,d)     |             |
"""


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_stream_and_a_table_as_it_stands(how):
    """As published: a record of the stream finds the table's row, one of the table gives none."""
    driver = of_stream_and_table(how)
    assert_plays(driver, TABLE, "inner" if how == "inner" else "left join")
    assert driver.end() == []


@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_stream_and_a_table_as_it_was_then(how):
    """The same pairs; each waits until the table's clock has passed the stream's record, so that
    the order in which the two topics are read does not matter."""
    driver = of_stream_and_table(how, as_of="event time")
    assert_plays(driver, TABLE, "inner, then" if how == "inner" else "left join, then")
    assert rows_of(driver.end()) == ["(D,d)"]


TABLES = """
    at | left | right | inner         | left join        | full join
    1  | null |       |               |                  |
    2  |      | null  |               |                  |
    3  | A    |       |               | +(A,null)        | +(A,null)
    4  |      | a     | +(A,a)        | -(A,null) +(A,a) | -(A,null) +(A,a)
    5  | B    |       | -(A,a) +(B,a) | -(A,a) +(B,a)    | -(A,a) +(B,a)
    6  |      | b     | -(B,a) +(B,b) | -(B,a) +(B,b)    | -(B,a) +(B,b)
    7  | null |       | -(B,b)        | -(B,b)           | -(B,b) +(null,b)
    8  |      | null  |               |                  | -(null,b)
    9  | C    |       |               | +(C,null)        | +(C,null)
    10 |      | c     | +(C,c)        | -(C,null) +(C,c) | -(C,null) +(C,c)
    11 |      | null  | -(C,c)        | -(C,c) +(C,null) | -(C,c) +(C,null)
    12 | null |       |               | -(C,null)        | -(C,null)
    13 |      | null  |               |                  |
    14 |      | d     |               |                  | +(null,d)
    15 | D    |       | +(D,d)        | +(D,d)           | -(null,d) +(D,d)
"""


@pytest.mark.parametrize("how", ["inner", "left", "full"])
def test_two_tables(how):
    """As published, but that a change also tells which row it takes back, so that what is computed
    from the joined table can take it back too."""
    driver = of_tables(how)
    column = "inner" if how == "inner" else f"{how} join"
    for row, lines in played(driver, TABLES):
        assert rows_of(lines) == row[column].split(), row["at"]
        assert {line["key"] for line in lines} <= {"k"}


def test_the_right_join_of_two_tables_is_the_left_join_from_the_other_side():
    """Kafka Streams has no right join; this one is the published left join, mirrored."""
    app = rr.App("mirrored", pages=2)
    left, right = app.table("left", schema=LEFT, key="k"), app.table("right", schema=RIGHT, key="k")
    right.join(left, on="k", how="right").to("out")
    assert_plays(Driver(app), TABLES, "left join")


def by_foreign_key(how: str) -> Driver:
    app = rr.App("published", pages=4)
    orders = app.table("orders", schema="id string, user string, item string", key="id")
    users = app.table("users", schema="user string, name string", key="user")
    joined = orders.join(users, on="user", how=how)
    assert joined.key == ("id",)
    joined.to("out")
    return Driver(app)


FOREIGN = """
    topic  | key | user | text | inner              | left join
    orders | 1   | u    | pen  |                    | +(1,pen,null)
    users  | u   |      | Uma  | +(1,pen,Uma)       | -(1,pen,null) +(1,pen,Uma)
    orders | 2   | u    | ink  | +(2,ink,Uma)       | +(2,ink,Uma)
    users  | u   |      | Una  | -(1,pen,Uma) +(1,pen,Una) -(2,ink,Uma) +(2,ink,Una) | \
-(1,pen,Uma) +(1,pen,Una) -(2,ink,Uma) +(2,ink,Una)
    users  | v   |      | Vic  |                    |
    orders | 1   | v    | pen  | -(1,pen,Una) +(1,pen,Vic) | -(1,pen,Una) +(1,pen,Vic)
    orders | 2   | w    | ink  | -(2,ink,Una)       | -(2,ink,Una) +(2,ink,null)
    users  | u   |      | null |                    |
    users  | v   |      | null | -(1,pen,Vic)       | -(1,pen,Vic) +(1,pen,null)
    orders | 2   |      | null |                    | -(2,ink,null)
    users  | w   |      | Wim  |                    |
    orders | 1   | w    | pad  | +(1,pad,Wim)       | -(1,pen,null) +(1,pad,Wim)
    orders | 1   |      | pad  | -(1,pad,Wim)       | -(1,pad,Wim) +(1,pad,null)
    orders | 1   |      | null |                    | -(1,pad,null)
"""


@pytest.mark.parametrize("how", ["inner", "left"])
def test_two_tables_by_a_foreign_key(how):
    """As published for joins by a foreign key, an order without one included; the changes of an
    order come from the pages of two users, and leave as one."""
    driver = by_foreign_key(how)
    for row in parse(FOREIGN).rows:
        topic, text = row["topic"], row["text"]
        value = {"user": row["user"] or None, "item": text} if topic == "orders" else {"name": text}
        driver.send(topic, None if text == "null" else value, key=row["key"])
        found = [
            f"{line['op']}({','.join(line['value'][n] or 'null' for n in ('id', 'item', 'name'))})"
            for line in driver.batch()
        ]
        assert found == row["inner" if how == "inner" else "left join"].split(), row
