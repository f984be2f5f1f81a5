"""How many rows are late: counts, shares, and alerts."""

from __future__ import annotations

import riverrun as rr
from riverrun.testing import Driver
from timed import FIVE, NOON, counted


def test_an_alert_comes_when_the_share_of_late_rows_passes_its_limit_and_goes_again():
    driver = counted(now=NOON, alert=0.2, max_ahead=None)
    driver.run(
        t="""
        at    | device
        12:30 | a
        -----
        12:30 | a
        12:30 | a
        12:00 | a      # late: one of four is more than a fifth
    """
    )
    [alert] = driver.alerts
    noon = 1_767_268_800_000_000
    assert alert == {"step": "devices", "share": 0.25, "limit": 0.2, "since": noon}
    assert driver.status.rows == {"devices": 4}
    driver.tick += 60_000_000
    driver.run(t="at | device\n 12:30 | a\n 12:00 | a")
    assert [(each["share"], each["since"]) for each in driver.alerts] == [(2 / 6, noon)]
    driver.pass_time("9 minutes")
    assert [each["share"] for each in driver.alerts] == [0.5]
    driver.pass_time("1 minute")
    assert driver.alerts == []


def test_the_share_is_of_rows_that_enter_the_step_however_they_are_combined():
    app = rr.App("iot", pages=2)
    stream = app.stream("t", schema="at timestamp, device string, tags string[]", time="at")
    rows = stream.where("device <> 'x'").explode("tags")
    rows.group_by("device", name="devices").window(FIVE, late_alert=0).agg(n=rr.count()).to("out")
    driver = Driver(app)
    for _ in range(2):
        driver.run(
            t="""
            at    | device | tags
            12:00 | a      | ["x", "y"]
            12:00 | a      | ["z"]
            12:00 | x      | ["z"]
        """
        )
        driver.restart()
    assert driver.status.rows == {"devices": 6}
    assert driver.alerts == []
