"""Groups by a window of a table: right, and gone when the window is."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from hypothesis import given

import riverrun as rr
from keeping import LATENESS, NOON, SCHEMA, batches, run, sent, some
from riverrun.testing import Driver
from test_join_oracle import mishaps


def of_windows(app):
    """Groups, and rankings, of windows by their beginning; and of groups of them."""
    rows = app.stream("rows", schema=SCHEMA, time="at", lateness=f"{LATENESS} seconds")
    per = rows.group_by("k", "v", name="per").window(
        rr.tumbling("50 seconds"), updatable="40 seconds", emit="changes"
    )
    windows = per.agg(n=rr.count())
    day = windows.select("k", "v", "n", "window_start as start", "window_end")
    keys = day.group_by("start", "k", name="keys").agg(n=rr.sum("n"), values=rr.count())
    keys.to("keys")
    keys.where("n > 0").group_by("start", name="best").top(1, by="n", place="place").to("best")
    day.group_by("window_end", name="ends").agg(n=rr.sum("n")).to("ends")
    return app


@some
@given(batches, mishaps)
def test_groups_of_a_window_are_right_and_go_with_it(batches, mishaps):
    app = of_windows(rr.App("finished", pages=2))

    def check(driver, rows, clock):
        keys, best, ends = defaultdict(list), {}, defaultdict(int)
        for time, _, key, value, _ in rows:
            keys[time // 50, key].append(value)
            ends[time // 50] += 1
        for (start, key), values in sorted(keys.items()):
            best[start] = max(best.get(start, (0, "")), (len(values), key), key=lambda b: b[0])
        found = {
            (seconds(e["start"]) // 50, e["k"]): (e["n"], e["values"]) for e in driver.table("keys")
        }
        assert found == {each: (len(v), len(set(v))) for each, v in keys.items()}
        found = {
            seconds(each["start"]) // 50: (each["n"], each["k"]) for each in driver.table("best")
        }
        assert found == best
        found = {seconds(each["window_end"]) // 50 - 1: each["n"] for each in driver.table("ends")}
        assert found == ends
        open_from = (clock - 40) // 50 - 1
        for step in ("keys", "best", "ends"):
            name = "window_end" if step == "ends" else "start"
            asked = driver.ask(step, f"select distinct {name} as at from {step}").rows
            moved = 50 if step == "ends" else 0
            assert all((seconds(each["at"]) - moved) // 50 > open_from for each in asked)

    run(app, batches, mishaps, check)


def seconds(at):
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return round((moment.replace(tzinfo=UTC) - NOON).total_seconds())


def test_the_state_of_groups_of_windows_does_not_grow():
    driver = Driver(of_windows(rr.App("bounded", pages=1)))
    for minute in range(60):
        driver.send("rows", *(sent((minute * 60, 0, f"{n}", 1, False)) for n in range(10)))
        driver.batch()
    assert all(rows <= 100 for rows, _ in driver.last.state.values()), driver.last.state
