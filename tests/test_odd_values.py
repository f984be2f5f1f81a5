"""One odd value ends as a value or as a dead letter, and the rows around it arrive."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

import riverrun as rr
from riverrun import exact
from riverrun.formats import JSON
from riverrun.schema import parse
from riverrun.testing import Driver

WINDOWS = {
    "hours": rr.tumbling("1 hour"),
    "hops": rr.hopping("2 hours", "1 hour"),
    "slides": rr.sliding("1 hour"),
    "sessions": rr.session("1 hour"),
    **{
        f"days in {zone}": rr.tumbling("1 day", timezone=zone)
        for zone in ("America/New_York", "Europe/Berlin", "Pacific/Kiritimati")
    },
}
EDGES = ("0001-01-01T00:00:00Z", "0001-01-01T12:00:00Z", "9999-12-31T23:59:59.999999Z")


@pytest.mark.parametrize("name", WINDOWS)
def test_the_first_and_the_last_of_times_have_their_windows(name):
    app = rr.App("edges")
    given = app.stream("t", schema="at timestamp, u string", time="at", max_ahead=None)
    given.group_by("u").window(WINDOWS[name]).agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("t", *({"at": at, "u": at} for at in (*EDGES, "2026-01-01T00:00:00Z")))
    driver.batch()
    driver.end()
    rows = driver.table("out")
    assert {row["u"] for row in rows} == {*EDGES, "2026-01-01T00:00:00Z"}
    for row in rows:
        if row["u"] == EDGES[2] or row["window_start"].startswith("0000"):
            continue  # beyond the years that compare as text
        end = row["u"] < row["window_end"] or name == "slides"
        assert row["window_start"] <= row["u"]
        assert end


def made(expression: str, **more: str) -> Driver:
    app = rr.App("odd")
    app.stream("t", schema="n bigint").with_columns(x=expression, **more).to("out")
    driver = Driver(app)
    driver.send("t", {"n": 0}, {"n": 1}, {"n": 2})
    driver.batch()
    return driver


UNCARRIED = [
    "case when n = 1 then 170141183460469231731687303715884105727 else n::hugeint end",
    "case when n = 1 then 340282366920938463463374607431768211455 else n::uhugeint end",
    "case when n = 1 then time '24:00:00' else time '12:00:00' end",
]


@pytest.mark.parametrize("expression", UNCARRIED)
def test_a_value_that_rows_cannot_carry_is_a_dead_letter(expression):
    driver = made(expression)
    assert [line["value"]["n"] for line in driver.outputs["out"]] == [0, 2]
    assert len(driver.outputs["dead"]) == 1


def test_what_is_no_number_is_written_as_a_word():
    rows = made("1 / (n - 1.0::double)", y="[0.0::double / (n - 1)]").outputs["out"]
    assert [line["value"]["x"] for line in rows] == [-1.0, "Infinity", 1.0]
    assert [line["value"]["y"] for line in rows] == [[0.0], ["NaN"], [0.0]]
    json.dumps([line["value"] for line in rows], allow_nan=False)


def test_times_beyond_the_calendar_are_written_as_what_they_are():
    later = "timestamp '9999-12-31' + n * interval 1 day"
    rows = made(f"case when n = 1 then 'infinity'::timestamp else {later} end").outputs["out"]
    found = [line["value"]["x"] for line in rows]
    assert found == ["9999-12-31T00:00:00Z", "infinity", "10000-01-02T00:00:00Z"]


@rr.function("bigint")
def year_of(at):
    return at.year


def test_a_function_is_not_given_a_time_that_python_does_not_have():
    time = "case when n = 1 then 'infinity'::timestamp else timestamp '2026-01-01' end"
    driver = made(f"year_of({time})")
    rows = [line["value"] for line in driver.outputs["out"]]
    assert rows == [{"n": 0, "x": 2026}, {"n": 2, "x": 2026}]
    assert len(driver.outputs["dead"]) == 1


def test_a_zero_byte_and_null_are_two_keys():
    columns, keys = parse("k string"), ["\u0000", None, "\u0000\u0000", "a", "\u0000a", ""]
    rows = pa.table({"k": pa.array(keys, pa.string())})
    written = JSON.encode_key(rows, columns, table=True)
    assert len(set(written.to_pylist())) == len(keys)
    assert JSON.decode_key(written.cast(pa.binary()), columns)["k"].to_pylist() == keys


def test_decimals_keep_their_digits():
    app = rr.App("decimals")
    given = app.stream("t", schema="d decimal(18, 2), l decimal(38, 10)[]")
    given.through("between").to("out")
    driver = Driver(app)
    value = '{"d":1234567890123456.78,"l":[0.1,1234567890123456789012345678.0123456789]}'
    driver.send("t", value)
    driver.batch()
    [line] = driver.batch()
    assert line["value"]["d"] == Decimal("1234567890123456.78")
    assert exact.dumps(line["value"], separators=(",", ":")) == value


def test_try_prints_decimals_as_they_are(tmp_path, riverrun):
    program, given = tmp_path / "app.py", tmp_path / "t.jsonl"
    program.write_text(
        "import riverrun as rr\n"
        "app = rr.App('decimals')\n"
        "app.stream('t', schema='d decimal(18, 2)').to('out')\n"
    )
    given.write_text('{"value": {"d": 1234567890123456.78}}\n')
    for options in ((), ("--json",)):
        found = riverrun("try", str(program), "--input", f"t={given}", *options)
        assert '{"d": 1234567890123456.78}' in found.out


def test_lenient_json_rounds_and_makes_null_what_does_not_fit_inside():
    app = rr.App("lenient")
    schema = "n bigint, s struct(a bigint), l int[]"
    app.stream("t", schema=schema, format="lenient json").to("out")
    driver = Driver(app)
    driver.send("t", {"n": 1.5, "s": {"a": "x"}, "l": [2.75, "x"]}, {"n": "x"})
    line, letter = driver.batch().of("out"), driver.outputs["dead"]
    assert [each["value"] for each in line] == [{"n": 2, "s": {"a": None}, "l": [3, None]}]
    assert [each["value"]["cause"] for each in letter] == ["n is not a BIGINT: x"]
