"""`riverrun describe` of tables and joins: as text, flowchart and JSON."""

from __future__ import annotations

import json

import pytest

from riverrun.testing.drawn import parse

PROGRAM = """\
import riverrun as rr

app = rr.App("shop", pages=8)
clicks = app.stream("clicks", schema="user string, page string, at timestamp", time="at")
orders = app.stream("orders", schema="user string, total int, at timestamp", time="at")
users = app.table("users", schema="id string, country string", key="id", replicate=True)
rates = app.table("rates", schema="country string, kind string, rate double",
                  key=["country", "kind"])

clicks.join(orders.where("total > 0"), on="user", before="1 minute", after="10 minutes", how="left",
            where="order_total > 10", prefix="order_", name="led").to("led")
known = orders.join(users, on={"user": "id"}, name="known")
known.with_columns(kind="'vat'").join(
    rates, on=["country", "kind"], as_of="event time", history="1 day", corrections=True,
    name="taxed",
).to("taxed")
both = users.join(rates.where("rate > 0"), on="country", how="full", name="both")
both.group_by("country", name="best").top(3, by="rate", place="place").to("best")
users.changes().to("changes")
orders.to_table("user", delete="total = 0").group_by("total").bottom(1, by="at").to("last")
"""

STEPS = """\
step led  # app.py:10
  left      clicks
  right     orders
            where total > 0  # app.py:10
  keys      user
  join      left, two streams
  within    1 minute before, 10 minutes after
  where     order_total > 10

step known  # app.py:12
  left      orders
  right     users
            table by id  # app.py:6
  keys      user = id
  join      inner, with the table as it stands

step taxed  # app.py:13
  left      known
            with_columns kind = 'vat'  # app.py:13
  right     rates
            table by country, kind  # app.py:7
  keys      country, kind
  join      inner, with the version that was valid then
  history   1 day, corrected by late versions

step users  # app.py:6
  from      users
  keys      id
  keeps     the last record, in every page

step rates  # app.py:7
  from      rates
  keys      country, kind
  keeps     the last record

step both  # app.py:17
  left      users
  right     rates
            where rate > 0  # app.py:17
  keys      country
  join      full, two tables

step best  # app.py:18
  from      both
  keys      country
  keeps     the 3 rows with the highest rate

step users_changes  # app.py:19
  from      users
  keys      id
  gives     changes as facts

step orders_latest_by_user  # app.py:20
  from      orders
  keys      user
  keeps     the row latest in time, deleted where total = 0

step orders_latest_by_user_bottom_1_by_total  # app.py:20
  from      orders_latest_by_user
  keys      total
  keeps     the row with the lowest at

"""

CHART = """\
n3[["led<br/>by user<br/>join left, two streams<br/>within 1 minute before, 10 minutes after<br/>where order_total &gt; 10"]]
n6[["known<br/>by user = id<br/>join inner, with the table as it stands"]]
n10[["taxed<br/>by country, kind<br/>join inner, with the version that was valid then<br/>history 1 day, corrected by late versions"]]
n11[["users<br/>by id<br/>keeps the last record, in every page"]]
n12[["rates<br/>by country, kind<br/>keeps the last record"]]
n14[["both<br/>by country<br/>join full, two tables"]]
n15[["best<br/>by country<br/>keeps the 3 rows with the highest rate"]]
n16[["users_changes<br/>by id<br/>gives changes as facts"]]
n17[["orders_latest_by_user<br/>by user<br/>keeps the row latest in time, deleted where total = 0"]]
n18[["orders_latest_by_user_bottom_1_by_total<br/>by total<br/>keeps the row with the lowest at"]]
"""  # noqa: E501 - as it is printed

OUTPUTS = """
    name            | kind   | key
    led             | stream | []
    taxed           | table  | ["event"]
    best            | table  | ["country", "id", "kind"]
    changes         | stream | ["id"]
    last            | table  | ["total", "user"]
    led.late        | stream | []
    led.right.late  | stream | []
    taxed.late      | stream | []
    dead            | stream | ["key"]
"""


@pytest.fixture
def describe(riverrun, tmp_path):
    (tmp_path / "app.py").write_text(PROGRAM)
    return lambda *options: riverrun("describe", "app.py", *options).out


def test_joins_are_described_with_both_sides(describe):
    text = describe()
    assert text[text.index("step led") : text.index("output led")] == STEPS
    assert "source rates  # app.py:7\n" in text
    assert "  key       country, kind\n" in text
    assert "            late rows of the right side  # app.py:10\n" in text


def test_joins_are_boxes_with_two_arrows(describe):
    lines = [line.strip() for line in describe("--mermaid").splitlines()]
    assert [line for line in lines if "[[" in line] == CHART.splitlines()
    joins = [box.split("[[")[0] for box in CHART.splitlines() if "<br/>join " in box]
    assert [sum(line.endswith(f"--> {name}") for line in lines) for name in joins] == [2] * 4


def test_joins_are_json_for_programs(describe, tmp_path):
    found, here = json.loads(describe("--json")), tmp_path / "app.py"
    assert found["sources"][3]["key"] == ["country", "kind"]
    steps = {step["name"]: step for step in found["steps"]}
    assert steps["led"] == {
        "name": "led",
        "left": [{"origin": "clicks", "steps": []}],
        "right": [{"origin": "orders", "steps": [{"does": "where total > 0", "at": f"{here}:10"}]}],
        "keys": ["user"],
        "join": "left, two streams",
        "within": "1 minute before, 10 minutes after",
        "where": "order_total > 10",
        "at": f"{here}:10",
    }
    assert steps["known"]["keys"] == ["user = id"]
    assert steps["taxed"]["history"] == "1 day, corrected by late versions"
    assert steps["both"]["join"] == "full, two tables"
    assert steps["best"]["keeps"] == "the 3 rows with the highest rate"
    assert "left" not in steps["users"]
    assert "from" not in steps["both"]


def test_outputs_of_joins_have_their_kind_and_key(describe):
    outputs = json.loads(describe("--json"))["outputs"]
    shown = [(each["name"], each["kind"], json.dumps(each["key"])) for each in outputs]
    assert shown == [tuple(row.values()) for row in parse(OUTPUTS).rows]
