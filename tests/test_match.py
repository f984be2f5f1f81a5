"""Patterns in SQL: what a text says, over streams drawn as tables."""

from __future__ import annotations

import pytest

import riverrun as rr
from mishaps import assert_mishaps_change_nothing
from riverrun.testing import Driver, Lines

PRICES = "symbol string, price bigint, at timestamp"


def matched(text, *, schema=PRICES, lateness="0 seconds", **options):
    """Matches of the pattern in the topic `ticks`, to `out`."""
    app = rr.App("patterns", pages=2)
    stream = app.stream("ticks", schema=schema, time="at", lateness=lateness)
    stream.match(text, name="found", **options).to("out")
    return Driver(app)


def whole(driver, **drawn):
    """What comes of the drawn rows once the input has ended."""
    return Lines([*driver.run(**drawn), *driver.end()])


V_SHAPE = """
    PARTITION BY symbol ORDER BY at
    MEASURES s.price AS start, LAST(down.price) AS bottom, LAST(up.price) AS end_price
    ONE ROW PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (s down+ up+) WITHIN INTERVAL '1' HOUR
    DEFINE down AS down.price < PREV(down.price), up AS up.price > PREV(up.price)
"""
PRICES_OF_A = """
    at    | symbol | price
    12:00 | a      | 12
    12:01 | a      | 17
    12:02 | a      | 19
    12:03 | a      | 21
    12:04 | a      | 25
    12:05 | a      | 12
    12:06 | a      | 15
    12:07 | a      | 20
    12:08 | a      | 24
    12:09 | a      | 25
    12:10 | a      | 19
"""


def test_a_v_shape_is_one_row_with_its_beginning_bottom_and_end():
    """The ticker of the SQL literature: down from 25 to 12, and up to 25 again."""
    whole(matched(V_SHAPE), ticks=PRICES_OF_A).assert_is("""
        symbol | start | bottom | end_price
        a      | 25    | 12     | 25
    """)


def test_all_rows_of_a_match_come_with_what_each_is_and_with_values_so_far():
    text = V_SHAPE.replace("ONE ROW", "ALL ROWS").replace(
        "LAST(up.price) AS end_price",
        "CLASSIFIER() AS part, FINAL LAST(up.price) AS top, COUNT(down.*) AS downs",
    )
    whole(matched(text), ticks=PRICES_OF_A).assert_is("""
        at    | symbol | price | start | bottom | part | top | downs
        12:04 | a      | 25    | 25    |        | s    | 25  | 0
        12:05 | a      | 12    | 25    | 12     | down | 25  | 1
        12:06 | a      | 15    | 25    | 12     | up   | 25  | 1
        12:07 | a      | 20    | 25    | 12     | up   | 25  | 1
        12:08 | a      | 24    | 25    | 12     | up   | 25  | 1
        12:09 | a      | 25    | 25    | 12     | up   | 25  | 1
    """)


def test_a_w_shape_is_two_v_shapes_in_a_row():
    text = """
        PARTITION BY symbol
        MEASURES FIRST(d1.at) AS began, LAST(u2.at) AS ended, COUNT(*) AS days
        PATTERN (s d1+ u1+ d2+ u2+) WITHIN INTERVAL '1' HOUR
        DEFINE d1 AS price < PREV(price), u1 AS price > PREV(price),
               d2 AS price < PREV(price), u2 AS price > PREV(price)
    """
    out = whole(
        matched(text),
        ticks="""
        at    | symbol | price
        12:00 | w      | 9
        12:01 | w      | 7
        12:02 | w      | 8
        12:03 | w      | 5
        12:04 | w      | 6
        12:05 | w      | 6
    """,
    )
    out.assert_is("""
        symbol | began | ended | days
        w      | 12:01 | 12:04 | 5
    """)


def test_an_average_so_far_ends_a_match():
    """Rows while their average stays below a bound, then the one that breaks it."""
    text = """
        PARTITION BY symbol ORDER BY at
        MEASURES FIRST(a.at) AS began, LAST(a.at) AS ended, AVG(a.price) AS mean
        PATTERN (a+ b) WITHIN INTERVAL '1' HOUR
        DEFINE a AS AVG(a.price) < 15
    """
    out = whole(
        matched(text),
        ticks="""
        at    | symbol | price
        12:00 | x      | 12
        12:01 | x      | 17
        12:02 | x      | 13
        12:03 | x      | 16
        12:04 | x      | 25
        12:05 | x      | 2
        12:06 | x      | 4
        12:07 | x      | 10
        12:08 | x      | 15
        12:09 | x      | 25
        12:10 | x      | 25
        12:11 | x      | 30
    """,
    )
    out.assert_is("""
        symbol | began | ended | mean
        x      | 12:00 | 12:03 | 14.5
        x      | 12:05 | 12:10 | 13.5
    """)


SKIPPED = """
    at    | symbol | price
    12:00 | x      | 1
    12:01 | x      | 2
    12:02 | x      | 3
    12:03 | x      | 4
"""


@pytest.mark.parametrize(
    ("skip", "first"),
    [
        ("SKIP PAST LAST ROW", [1]),
        ("SKIP TO NEXT ROW", [1, 2]),
        ("SKIP TO FIRST b", [1, 2]),
        ("SKIP TO LAST c", [1]),
        ("SKIP TO b", [1, 2]),
    ],
)
def test_where_to_go_on_after_a_match_decides_whether_matches_overlap(skip, first):
    text = f"""
        PARTITION BY symbol MEASURES a.price AS first
        AFTER MATCH {skip} PATTERN (a b c) WITHIN INTERVAL '1' HOUR
        DEFINE b AS price > PREV(price), c AS price > PREV(price)
    """
    out = whole(matched(text), ticks=SKIPPED)
    assert [line["value"]["first"] for line in out] == first


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("a b* c", ["abbc", "abc"]),
        ("a b+? (c | a)", ["abbc", "abc"]),
        ("a (b | c)", ["ab", "ab"]),
        ("a b{2} c?", ["abbc"]),
        ("a (c | b)+", ["abbc", "abc"]),
        ("a (() | b) b+? c", ["abbc", "abc"]),
        ("PERMUTE(b, a)", ["ab", "ab"]),
    ],
)
def test_quantifiers_take_much_or_little_and_alternatives_are_tried_in_order(pattern, matches):
    text = f"""
        PARTITION BY symbol MEASURES list(CLASSIFIER()) AS path
        PATTERN ({pattern}) WITHIN INTERVAL '1' HOUR
        DEFINE a AS price = 1, b AS price = 2, c AS price = 3
    """
    if "c" not in pattern:
        text = text.replace(", c AS price = 3", "")
    out = whole(
        matched(text),
        ticks="""
        at    | symbol | price
        12:00 | x      | 1
        12:01 | x      | 2
        12:02 | x      | 2
        12:03 | x      | 3
        12:10 | x      | 1
        12:11 | x      | 2
        12:12 | x      | 3
        12:13 | x      | 9
    """,
    )
    assert ["".join(line["value"]["path"]) for line in out] == matches


def test_excluded_rows_are_matched_and_not_given():
    text = """
        PARTITION BY symbol MEASURES CLASSIFIER() AS part ALL ROWS PER MATCH
        PATTERN (a {- b+ -} c) WITHIN INTERVAL '1' HOUR
        DEFINE a AS price = 1, b AS price = 2, c AS price = 3
    """
    out = whole(
        matched(text),
        ticks="""
        at    | symbol | price
        12:00 | x      | 1
        12:01 | x      | 2
        12:02 | x      | 3
    """,
    )
    out.assert_is("""
        at    | part
        12:00 | a
        12:02 | c
    """)


def test_a_match_spans_at_most_its_time_and_ends_when_that_is_over():
    text = """
        PARTITION BY symbol MEASURES COUNT(*) AS n, LAST(at) AS ended
        PATTERN (a+) WITHIN INTERVAL '10' MINUTE DEFINE a AS price > 0
    """
    driver = matched(text)
    first = driver.run(
        ticks="""
        at    | symbol | price
        12:00 | x      | 1
        12:10 | x      | 1       # the end of the time is in it
        12:11 | y      | 0       # time passes
    """
    )
    first.assert_is("""
        symbol | n | ended
        x      | 2 | 12:10
    """)


def test_rows_are_matched_in_the_order_of_their_time_and_late_ones_leave():
    text = """
        PARTITION BY symbol MEASURES a.price AS one, b.price AS other
        PATTERN (a b) WITHIN INTERVAL '1' HOUR DEFINE b AS price > a.price
    """
    driver = matched(text, lateness="2 minutes")
    out = driver.run(
        ticks="""
        at    | symbol | price
        12:02 | x      | 5
        12:01 | x      | 3       # came later, was earlier
        -----
        12:10 | x      | 1
        -----
        12:03 | x      | 9       # too late
    """
    )
    out.of("out").assert_is("""
        symbol | one | other
        x      | 3   | 5
    """)
    out.of("found.late").assert_is("""
        at    | symbol | price
        12:03 | x      | 9
    """)


def test_matches_are_numbered_and_after_a_long_time_anew():
    text = """
        PARTITION BY symbol MEASURES MATCH_NUMBER() AS number, a.price AS price
        PATTERN (a) WITHIN INTERVAL '1' MINUTE DEFINE a AS price > 0
    """
    out = whole(
        matched(text, match_numbers="10 minutes"),
        ticks="""
        at    | symbol | price
        12:00 | x      | 1
        12:01 | x      | 2
        -----
        12:02 | x      | 0
        12:09 | x      | 3
        12:30 | x      | 4
    """,
    )
    out.assert_is("""
        symbol | number | price
        x      | 1      | 1
        x      | 2      | 2
        x      | 3      | 3
        x      | 1      | 4
    """)


def test_a_match_of_too_many_rows_is_given_up_and_its_first_row_is_set_aside():
    text = """
        PARTITION BY symbol MEASURES COUNT(*) AS n
        PATTERN (a+ b) WITHIN INTERVAL '1' HOUR DEFINE a AS price = 1, b AS price = 2
    """
    rows = """
        at    | symbol | price
        12:00 | x      | 1
        12:01 | x      | 1
        -----
        12:02 | x      | 1
        12:03 | x      | 2
    """
    out = whole(matched(text, max_rows=3), ticks=rows)
    out.of("out").assert_is("symbol | n\n x | 3")
    [letter] = out.of("dead")
    assert letter["value"]["cause"] == "a match would have more than 3 rows"
    dropped = matched(text, max_rows=3, on_error="drop")
    whole(dropped, ticks=rows).assert_is("symbol | n\n x | 3")
    assert dropped.status.dropped == 1
    with pytest.raises(rr.RiverrunError, match="more than 3 rows"):
        whole(matched(text, max_rows=3, on_error="stop"), ticks=rows)


def test_attempts_are_given_up_also_if_none_of_their_key_is_ever_complete():
    text = """
        PARTITION BY symbol PATTERN (a+ b) WITHIN INTERVAL '1' HOUR
        DEFINE a AS price = 1, b AS price = 2
    """
    rows = "at | symbol | price" + "".join(f"\n12:0{n} | x | 1" for n in range(5))
    for cut in (rows, rows.replace("\n12:0", "\n-----\n12:0").replace("\n-----", "", 1)):
        out = whole(matched(text, max_rows=3), ticks=cut)
        assert [line["value"]["offset"] for line in out.of("dead")] == [0, 1, 2]


def test_that_nothing_comes_is_no_row_too_many():
    text = """
        PARTITION BY symbol MEASURES a.at AS since
        PATTERN (a TIMEOUT) WITHIN INTERVAL '5' MINUTE
    """
    driver = matched(text, max_rows=1)
    driver.run(ticks="at | symbol | price\n 12:00 | x | 1\n 12:02 | x | 1")
    assert not driver.run(ticks="at | symbol | price\n 12:03 | y | 1")
    driver.end().of("out").assert_is("symbol | since\n x | 12:02\n y | 12:03")
    assert not driver.outputs["dead"]


def test_absence_is_told_by_the_clock_also_when_nothing_comes():
    text = """
        PARTITION BY symbol MEASURES beat.at AS last_seen
        PATTERN (beat TIMEOUT) WITHIN INTERVAL '5' MINUTE
    """
    driver = matched(text)
    driver.send("ticks", {"symbol": "m1", "price": 1, "at": "2026-01-01T12:00:00Z"})
    driver.send("ticks", {"symbol": "m2", "price": 1, "at": "2026-01-01T12:00:00Z"})
    driver.batch()
    driver.send("ticks", {"symbol": "m2", "price": 1, "at": "2026-01-01T12:04:00Z"})
    assert not driver.batch()
    out = driver.pass_time("10 minutes")
    out.assert_is("""
        symbol | last_seen
        m1     | 12:00
        m2     | 12:04
    """)


def test_partial_matches_that_time_out_are_an_output_of_their_own():
    app = rr.App("orders", pages=2)
    events = app.stream("events", schema="id string, kind string, at timestamp", time="at")
    found = events.match(
        """
        PARTITION BY id MEASURES ordered.at AS ordered_at, paid.at AS paid_at
        PATTERN (ordered other* paid) WITHIN INTERVAL '1' HOUR
        DEFINE ordered AS kind = 'order', other AS kind <> 'pay', paid AS kind = 'pay'
        """,
        timeouts=True,
        name="payments",
    )
    found.to("paid")
    found.timed_out.to("unpaid")
    out = Driver(app).run(
        events="""
        at    | id | kind
        12:00 | 1  | order
        12:01 | 2  | order
        12:02 | 2  | look
        12:30 | 1  | pay
        13:02 | 3  | look      # the hour of the second is over
    """
    )
    out.of("paid").assert_is("id | ordered_at | paid_at\n 1 | 12:00 | 12:30")
    out.of("unpaid").assert_is("id | ordered_at | paid_at\n 2 | 12:01 |")


def test_crashes_and_restarts_change_nothing():
    later = "12:50 | b | 1"
    story = f"{PRICES_OF_A}    -----\n    {later}\n"
    assert_mishaps_change_nothing(lambda: matched(V_SHAPE), "ticks", story)
