"""What others have published about row patterns, drawn anew: the cases of the SQL literature, of
Oracle's, Flink's and Trino's documentation. Those of Flink's library are in the next file.

Where riverrun differs, and means to: every pattern needs WITHIN, and a time of the rows; a pattern
that matches no rows is refused, so there are no empty matches, nor rows that are in none; to skip
to a variable that has no row goes on past the match, where the standard has an error, and to skip
to the first row is refused when the program is built; MATCH_NUMBER needs a period; ORDER BY is the
time alone; a greedy quantifier may stand at the end, which Flink refuses: the match is told when
its end is known.
"""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.testing import Driver, Lines

TICKS = "symbol string, price bigint, at timestamp"


def found(text, drawn, *, schema=TICKS, ends=True, **options):
    app = rr.App("published", pages=2)
    app.stream("rows", schema=schema, time="at").match(text, **options).to("out")
    driver = Driver(app)
    return Lines([*driver.run(rows=drawn), *(driver.end() if ends else ())])


def prices(*given, symbol="acme"):
    """One row a minute, from 12:00 on."""
    rows = [f"12:{n:02d} | {symbol} | {price}" for n, price in enumerate(given)]
    return "\n".join(["at | symbol | price", *rows])


ACME = prices(12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22)
"""The twenty days of Oracle's ticker, as minutes."""
V = """
    PARTITION BY symbol ORDER BY at
    MEASURES {measures}
    {rows} ROWS PER MATCH AFTER MATCH SKIP TO LAST up
    PATTERN (strt down+ up+) WITHIN INTERVAL '1' HOUR
    DEFINE down AS down.price < PREV(down.price), up AS up.price > PREV(up.price)
"""


def test_oracle_v_shapes_share_their_tops():
    text = V.format(rows="ONE", measures="strt.at AS s, LAST(down.at) AS b, LAST(up.at) AS e")
    found(text.replace("ROWS PER", "ROW PER"), ACME).assert_is("""
        symbol | s     | b     | e
        acme   | 12:04 | 12:05 | 12:09
        acme   | 12:09 | 12:11 | 12:12
        acme   | 12:13 | 12:15 | 12:17
    """)


def test_oracle_all_rows_with_their_number_and_what_they_are():
    measures = """MATCH_NUMBER() AS n, CLASSIFIER() AS part, FINAL LAST(down.at) AS bottom,
        FINAL COUNT(up.at) AS ups, COUNT(at) AS day, price - strt.price AS dif"""
    out = found(V.format(rows="ALL", measures=measures), ACME, match_numbers="1 day")
    out = Lines(sorted(out, key=lambda line: (line["value"]["n"], line["value"]["at"])))
    Lines(out[:9]).assert_is("""
        at    | n | part | price | bottom | ups | day | dif
        12:04 | 1 | strt | 25    | 12:05  | 4   | 1   | 0
        12:05 | 1 | down | 12    | 12:05  | 4   | 2   | -13
        12:06 | 1 | up   | 15    | 12:05  | 4   | 3   | -10
        12:07 | 1 | up   | 20    | 12:05  | 4   | 4   | -5
        12:08 | 1 | up   | 24    | 12:05  | 4   | 5   | -1
        12:09 | 1 | up   | 25    | 12:05  | 4   | 6   | 0
        12:09 | 2 | strt | 25    | 12:11  | 1   | 1   | 0
        12:10 | 2 | down | 19    | 12:11  | 1   | 2   | -6
        12:11 | 2 | down | 15    | 12:11  | 1   | 3   | -10
    """)
    assert len(out) == 6 + 4 + 5


def test_oracle_a_w_shape_has_two_falls_and_two_rises():
    text = """
        PARTITION BY symbol MEASURES strt.at AS s, up.at AS e, COUNT(down.*) AS downs
        PATTERN (strt down+ up+ down+ up+) WITHIN INTERVAL '1' HOUR
        DEFINE down AS price < PREV(price), up AS price > PREV(price)
    """
    found(text, ACME).assert_is("symbol | s | e | downs\n acme | 12:04 | 12:12 | 3")


def test_oracle_a_subset_is_the_union_of_two_variables():
    text = """
        PARTITION BY symbol MEASURES strt.price AS s, AVG(left_side.price) AS mean
        AFTER MATCH SKIP TO LAST up
        PATTERN (strt down+ up+) WITHIN INTERVAL '1' HOUR
        SUBSET left_side = (strt, down)
        DEFINE down AS price < PREV(price), up AS price > PREV(price)
    """
    means = [line["value"]["mean"] for line in found(text, ACME)]
    assert means == [18.5, pytest.approx((25 + 19 + 15) / 3), pytest.approx((25 + 14 + 12) / 3)]


def test_oracle_clicks_at_most_ten_minutes_apart_are_a_session():
    """Sessions by a gap. In a stream WITHIN bounds them, and says when the last one is over."""
    clicks = {
        "mary": [1, 11, 23, 34, 44, 53, 63],
        "sam": [2, 12, 22, 32, 43, 47, 48, 60, 68],
    }
    rows = sorted((minute, who) for who, minutes in clicks.items() for minute in minutes)
    drawn = "\n".join(f"1{2 + m // 60}:{m % 60:02d} | {who}" for m, who in rows)
    text = """
        PARTITION BY who
        MEASURES COUNT(*) AS clicks, date_diff('minute', FIRST(at), LAST(at)) AS lasted
        PATTERN (b s*) WITHIN INTERVAL '3' HOUR
        DEFINE s AS s.at - PREV(s.at) <= INTERVAL '10 minutes'
    """
    out = found(text, f"at | who\n{drawn}", schema="who string, at timestamp")
    told = [(v["who"], v["clicks"], v["lasted"]) for v in (line["value"] for line in out)]
    assert sorted(told) == [
        ("mary", 1, 0), ("mary", 2, 10), ("mary", 4, 29),
        ("sam", 2, 8), ("sam", 3, 5), ("sam", 4, 30),
    ]  # fmt: skip


def test_oracle_small_transfers_and_a_large_one_soon_after():
    """Three small ones within 30 days, and a large one within 10 days of the last of them."""
    text = """
        PARTITION BY who MEASURES FIRST(x.at) AS began, y.at AS ended, y.amount AS amount
        PATTERN (x{3,} y) WITHIN INTERVAL '40' DAY
        DEFINE x AS kind = 'transfer' AND amount < 2000,
               y AS kind = 'transfer' AND amount >= 1000000
                    AND LAST(x.at) - FIRST(x.at) < INTERVAL '30 days'
                    AND y.at - LAST(x.at) < INTERVAL '10 days'
    """
    transfers = """
        at               | who  | kind     | amount
        2026-01-01T00:00 | john | deposit  | 1000000
        2026-01-05T00:00 | john | transfer | 1200
        2026-01-10T00:00 | john | transfer | 1500
        2026-01-20T00:00 | john | transfer | 1000
        2026-01-27T00:00 | john | transfer | 1000000
        2026-02-01T00:00 | bob  | transfer | 1200
        2026-02-10T00:00 | bob  | transfer | 1500
        2026-02-15T00:00 | bob  | transfer | 1000
        2026-02-27T00:00 | bob  | transfer | 1000000   # twelve days after the last small one
    """
    schema = "who string, kind string, amount bigint, at timestamp"
    [line] = found(text, transfers.replace("T00:00", "T00:00:00Z"), schema=schema)
    assert line["value"] == {
        "who": "john",
        "began": "2026-01-05T00:00:00Z",
        "ended": "2026-01-27T00:00:00Z",
        "amount": 1000000,
    }


def test_flink_a_falling_price_with_conditions_on_earlier_rows_of_the_match():
    text = """
        PARTITION BY symbol
        MEASURES s.at AS began, LAST(down.at) AS bottom, LAST(up.at) AS ended
        AFTER MATCH SKIP TO LAST up
        PATTERN (s down+ up) WITHIN INTERVAL '1' HOUR
        DEFINE down AS (LAST(down.price, 1) IS NULL AND down.price < s.price)
                       OR down.price < LAST(down.price, 1),
               up AS up.price > LAST(down.price, 1)
    """
    found(text, prices(12, 17, 19, 21, 25, 18, 15, 14, 24, 25, 19)).assert_is("""
        symbol | began | bottom | ended
        acme   | 12:04 | 12:07  | 12:08
    """)


@pytest.mark.parametrize(("times", "last"), [("*", [16]), ("*?", [13, 16])])
def test_flink_greedy_takes_more_rows_than_reluctant(times, last):
    text = f"""
        PARTITION BY symbol MEASURES c.price AS last
        PATTERN (a b{times} c) WITHIN INTERVAL '1' HOUR
        DEFINE a AS a.price > 10, b AS b.price < 15, c AS c.price > 12
    """
    out = found(text, prices(10, 11, 12, 13, 14, 16))
    assert [line["value"]["last"] for line in out] == last


def test_flink_a_drop_is_told_only_within_an_hour_the_end_of_which_is_in_it():
    drawn = ["at | symbol | price"]
    for n, price in enumerate([20, 17, 18, 11, 14, 9, 15, 14, 24, 1, 19]):
        drawn.append(f"{10 + n // 3}:{n % 3 * 20:02d} | acme | {price}")
    text = """
        PARTITION BY symbol MEASURES c.at AS dropped_at, a.price - c.price AS dropped
        PATTERN (a b* c) WITHIN INTERVAL '1' HOUR
        DEFINE b AS b.price > a.price - 10, c AS c.price < a.price - 10
    """
    found(text, "\n".join(drawn)).assert_is("symbol | dropped_at | dropped\n acme | 13:00 | 14")


def test_flink_rising_prices_until_one_falls():
    text = """
        PARTITION BY symbol
        MEASURES FIRST(a.price) AS s, LAST(a.price) AS top, b.price AS last
        PATTERN (a+ b) WITHIN INTERVAL '1' HOUR
        DEFINE a AS LAST(a.price, 1) IS NULL OR a.price > LAST(a.price, 1),
               b AS b.price < LAST(a.price)
    """
    found(text, prices(10, 12, 13, 11)).assert_is("symbol | s | top | last\n acme | 10 | 13 | 11")


@pytest.mark.parametrize(
    ("pattern", "defined", "given", "parts"),
    [
        (
            "a b+",
            "a AS a.price >= 10, b AS b.price > a.price AND SUM(price) < 100 AND SUM(b.price) < 80",
            [10, 15, 20, 31, 35],
            ["a", "b", "b", "b"],
        ),
        (
            "a b+",
            "a AS a.price >= 10, b AS (LAST(b.price, 1) IS NULL OR b.price > LAST(b.price, 1))"
            " AND (LAST(b.price, 2) IS NULL OR b.price > 2 * LAST(b.price, 2))",
            [10, 15, 20, 31, 35],
            ["a", "b", "b", "b"],
        ),
        ("a b? c", "b AS b.price < 20, c AS LAST(price, 1) < c.price", [10, 15, 20], list("abc")),
        ("a b? c", "b AS b.price < 20, c AS LAST(price, 1) < c.price", [10, 20], list("ac")),
    ],
)
def test_flink_conditions_see_the_rows_so_far_and_their_own(pattern, defined, given, parts):
    text = f"""
        PARTITION BY symbol MEASURES list(CLASSIFIER()) AS parts
        PATTERN ({pattern}) WITHIN INTERVAL '1' HOUR DEFINE {defined}
    """
    out = found(text, prices(*given))
    assert out[0]["value"]["parts"] == parts


@pytest.mark.parametrize(
    ("skip", "sums"),
    [
        ("PAST LAST ROW", [(26, 0, 3), (17, 4, 6)]),
        ("TO NEXT ROW", [(26, 0, 3), (24, 1, 4), (25, 2, 5), (22, 3, 6), (17, 4, 6)]),
        ("TO LAST a", [(26, 0, 3), (25, 2, 5), (17, 4, 6)]),
    ],
)
def test_flink_where_the_next_match_begins_changes_the_sums(skip, sums):
    text = f"""
        PARTITION BY symbol
        MEASURES SUM(a.price) AS s, minute(FIRST(at)) AS began, minute(LAST(at)) AS ended
        AFTER MATCH SKIP {skip}
        PATTERN (a+ c) WITHIN INTERVAL '1' HOUR DEFINE a AS SUM(a.price) < 30
    """
    later = "\n12:30 | other | 1"  # what begins with the last 7 is open: another a may come
    out = found(text, prices(7, 9, 10, 5, 10, 7, 14) + later, ends=False)
    told = [(each["s"], each["began"], each["ended"]) for each in (line["value"] for line in out)]
    assert sorted(told, key=lambda each: each[1]) == sums


def test_flink_to_skip_to_where_the_match_began_is_refused():
    text = """
        PARTITION BY symbol AFTER MATCH SKIP TO FIRST a
        PATTERN (a+ c) WITHIN INTERVAL '1' HOUR DEFINE a AS SUM(a.price) < 30
    """
    with pytest.raises(rr.ProgramError, match="found again and again"):
        found(text, prices(7))


ORDERS = """
    at    | customer | price
    12:00 | one      | 100
    12:01 | one      | 200
    12:02 | two      | 8
    12:03 | one      | 100
    12:04 | two      | 4
    12:05 | one      | 50
    12:06 | one      | 100
    12:07 | two      | 6
"""
ORDER = "customer string, price bigint, at timestamp"


def test_trino_v_shapes_of_two_customers():
    text = """
        PARTITION BY customer
        MEASURES s.price AS began, LAST(down.price) AS bottom, LAST(up.price) AS ended
        PATTERN (s down+ up+) WITHIN INTERVAL '1' HOUR
        DEFINE down AS price < PREV(price), up AS price > PREV(price)
    """
    found(text, ORDERS, schema=ORDER).assert_is("""
        customer | began | bottom | ended
        one      | 200   | 50     | 100
        two      | 8     | 4      | 6
    """)


RISE = """
    PARTITION BY symbol
    MEASURES a.price AS s, LAST(b.price) AS bottom, LAST(u.price) AS top, CLASSIFIER(u) AS last
    {rows} PER MATCH
    PATTERN ({pattern}) WITHIN INTERVAL '1' HOUR
    SUBSET u = (c, d)
    DEFINE b AS price < PREV(price),
           c AS price > PREV(price) AND price <= a.price,
           d AS price > PREV(price)
"""


def test_trino_a_v_shape_rises_past_where_it_began():
    """Also the running example of the technical report on row patterns in SQL."""
    drawn = prices(90, 80, 70, 80, 90, 100, 99)
    found(RISE.format(rows="ONE ROW", pattern="a b+ c+ d+"), drawn).assert_is("""
        symbol | s  | bottom | top | last
        acme   | 90 | 70     | 100 | d
    """)
    found(RISE.format(rows="ALL ROWS", pattern="a {- b+ c+ -} d+"), drawn).assert_is("""
        at    | price | s  | bottom | top | last
        12:00 | 90    | 90 |        |     |
        12:05 | 100   | 90 | 70     | 100 | d
    """)
    assert not found(RISE.format(rows="ONE ROW", pattern="a b+ c+ d+"), prices(90, 80, 90, 89))


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("PERMUTE(a, b, c)", "abc"),
        ("PERMUTE(c, b, a)", "cba"),
        ("(a | b | c){3}", "aaa"),
        ("a{1,2} b", "aab"),
        ("a{1,2}? b", "ab"),
        ("a b?? c", "ac"),
        ("a b? c", "abc"),
    ],
)
def test_sql_of_what_fits_the_preferred_is_taken(pattern, parts):
    """Every row may be any of the variables."""
    names = [name for name in "abc" if name in pattern.replace("PERMUTE", "")]
    defined = ", ".join(f"{name} AS price > 0 AND COUNT({name}.*) > 0" for name in names)
    text = f"""
        PARTITION BY symbol MEASURES list(CLASSIFIER()) AS parts
        PATTERN ({pattern}) WITHIN INTERVAL '1' HOUR DEFINE {defined}
    """
    assert "".join(found(text, prices(1, 2, 3))[0]["value"]["parts"]) == parts


def test_sql_values_before_and_after_a_match_can_be_seen_from_it():
    text = """
        PARTITION BY symbol
        MEASURES PREV(FIRST(a.price)) AS before, NEXT(LAST(a.price)) AS after,
                 PREV(FIRST(a.price, 1), 2) AS further, LAST(a.price, 9) AS none
        PATTERN (a{2}) WITHIN INTERVAL '1' HOUR DEFINE a AS price BETWEEN 3 AND 4
    """
    found(text, prices(1, 2, 3, 4, 5)).assert_is("""
        symbol | before | after | further | none
        acme   | 2      | 5     | 2       |
    """)


def test_trino_aggregates_of_several_values_are_of_the_same_rows():
    text = """
        PARTITION BY symbol
        MEASURES arg_max(a.at, a.price) AS top_at, string_agg(CLASSIFIER(), '-') AS parts,
                 array_agg(a.price) AS given, COUNT(1) AS n, max_by(CLASSIFIER(), price) AS top
        PATTERN (a+ b) WITHIN INTERVAL '1' HOUR DEFINE b AS price = 1
    """
    found(text, prices(3, 5, 4, 1)).assert_is("""
        symbol | top_at | parts   | given     | n | top
        acme   | 12:01  | a-a-a-b | [3, 5, 4] | 4 | a
    """)
    with pytest.raises(rr.ProgramError, match="one value is taken of rows of different variables"):
        found(text.replace("arg_max(a.at, a.price)", "arg_max(a.at, b.price)"), prices(1))
