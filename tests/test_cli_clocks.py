"""`riverrun clocks`, and what a running application shows of time."""

from __future__ import annotations

import json
from dataclasses import asdict
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import riverrun as rr
from riverrun.cli.clocks import behind_text
from riverrun.cli.live import LiveView
from timed import NOON, counted


def note(driver, home: Path, app: str, **more):
    """What a run of the driver's program would leave behind."""
    folder = home / "runs" / app / "status"
    folder.mkdir(parents=True)
    status = {
        **asdict(driver.status),
        **asdict(driver.late_shares),
        "batch": 3,
        "shown": [],
        **more,
    }
    (folder / "status.json").write_text(json.dumps(status))
    return json.loads(json.dumps(status))


def driver(**options):
    found = counted(now=NOON, alert=0.1, **options)
    found.run(
        t="""
        at    | device | _partition
        11:50 | a      | 0
        11:59 | a      | 1
        -----
        11:40 | a      | 0           # late
    """
    )
    return found


def test_the_clock_of_each_step_is_shown_with_who_holds_it_back(riverrun, tmp_path):
    note(driver(), tmp_path / "home", "iot")
    outcome = riverrun("clocks")
    assert (outcome.code, outcome.err) == (0, "")
    header, row = outcome.out.splitlines()
    assert header.split() == [
        *("application", "step", "clock", "behind", "held", "back", "by", "idle", "late"),
    ]
    assert row.split() == [
        *("iot", "devices", "2026-01-01T11:50:00Z", "10", "min", "t/0"),
        *("1", "(33.3%,", "over", "10.0%)"),
    ]


def test_idle_sources_are_named(riverrun, tmp_path):
    found = driver()
    found.pass_time("1 minute")
    note(found, tmp_path / "home", "iot")
    [row] = json.loads(riverrun("clocks", "iot", "--json").out)
    assert row.pop("alert")["share"] == 1 / 3
    assert row == {
        "application": "iot",
        "step": "devices",
        "clock": "2026-01-01T12:00:00Z",
        "as_of": "2026-01-01T12:01:00Z",
        "behind_seconds": 60.0,
        "held_by": None,
        "idle": ["t/0", "t/1"],
        "rows": 3,
        "late": 1,
        "late_share": 1 / 3,
    }
    assert "idle: runs on with the wall clock  t/0, t/1" in riverrun("clocks").out


def test_a_step_that_has_read_nothing_has_no_clock(riverrun, tmp_path):
    found = counted(now=NOON)
    found.batch()
    note(found, tmp_path / "home", "iot")
    assert "nothing read yet" in riverrun("clocks", "iot").out


def test_one_application_of_several_can_be_asked_for(riverrun, tmp_path):
    note(driver(), tmp_path / "home", "one")
    note(driver(), tmp_path / "home", "two")
    rows = json.loads(riverrun("clocks", "--json").out)
    assert [row["application"] for row in rows] == ["one", "two"]
    assert len(json.loads(riverrun("clocks", "two", "--json").out)) == 1


def test_an_unknown_application_is_one_clear_error(riverrun, tmp_path):
    note(driver(), tmp_path / "home", "one")
    outcome = riverrun("clocks", "shop")
    assert outcome.code == 2
    assert outcome.err.startswith("error: nothing is known of the application 'shop' [RR103]")
    assert "hint: those that have run here: one" in outcome.err


def test_before_anything_has_run_there_is_nothing_to_show(riverrun):
    assert riverrun("clocks").out.startswith("no application with windows or groups has run")
    assert riverrun("clocks", "--json").out == "[]\n"


def test_the_live_view_has_a_line_per_step(tmp_path, capsys):
    LiveView("iot").show(note(driver(), tmp_path, "iot"))
    assert (
        "  devices: clock at 2026-01-01T11:50:00Z, 10 min behind the wall clock, held back by t/0, "
        "late 1 (33.3%)\n" in capsys.readouterr().out
    )


def test_an_alert_is_told_once_when_it_begins_and_once_when_it_is_over(tmp_path, capsys):
    found, view = driver(), LiveView("iot")
    status = note(found, tmp_path, "iot")
    for _ in range(3):
        view.warn(status)
    view.warn({**status, "alerts": []})
    view.warn({**status, "alerts": []})
    assert capsys.readouterr().err.splitlines() == [
        "warning: devices: 33.3% of the rows are late, more than 10.0%",
        "over: devices: the share of late rows is back below its limit",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.25, "0.2 s"), (59.0, "59.0 s"), (61, "1 min 1 s"), (90_061, "1 d 1 h")],
)
def test_how_far_behind_is_told_in_two_units(seconds, text):
    assert behind_text(seconds) == text


def test_a_clock_may_be_ahead_of_the_wall_clock():
    assert behind_text(-5) == "5.0 s ahead"


def test_processing_time_holds_itself_back():
    found = counted("device string", now=NOON, time=rr.processing_time())
    found.run(t="device\n a")
    assert found.status.holders["devices"] == {"held_by": "processing time", "idle": []}


def test_on_a_terminal_the_picture_has_clocks_and_alerts(tmp_path):
    view, out = LiveView("iot"), StringIO()
    view.console = Console(file=out, force_terminal=True, width=200, color_system=None)
    with view:
        view.show(note(driver(), tmp_path, "iot"))
    assert (
        "  devices: clock at 2026-01-01T11:50:00Z, 10 min behind the wall clock" in out.getvalue()
    )
    assert "  devices: 33.3% of the rows are late, more than 10.0%" in out.getvalue()


def test_of_several_clocks_the_one_that_is_furthest_behind_is_shown_unless_all_are_asked_for(
    tmp_path, capsys
):
    status = note(driver(), tmp_path, "iot")
    [(step, clock)] = status["clocks"].items()
    status["clocks"] = {step: clock, "other": clock - 60_000_000, "unread": -(2**62)}
    LiveView("iot").show(status)
    [line] = [text for text in capsys.readouterr().out.splitlines() if "clock at" in text]
    assert line.startswith("  other: clock at")
    assert line.endswith("; 2 more with --clocks")
    LiveView("iot", every_clock=True).show(status)
    shown = capsys.readouterr().out
    assert all(f"  {name}: " in shown for name in (step, "other", "unread"))
