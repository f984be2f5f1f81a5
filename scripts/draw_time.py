"""Draws the pictures of docs/time.md and docs/windows.md from real runs on the test driver.

    python scripts/draw_time.py        writes docs/pictures/*.svg

Every dot, bar and number is what a program gave; tests/test_pictures.py draws them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import riverrun as rr
from riverrun.testing import Driver
from svg import BLUE, GREEN, GREY, ORANGE, PALE, RED, VIOLET, Card, Scale

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
DAY = "2026-01-01T"
MIDNIGHT = datetime.fromisoformat(f"{DAY}00:00:00+00:00")
WIDTH, LEFT, RIGHT = 760, 110, 730
Line = dict[str, Any]


def at(text: str) -> float:
    """`12:04` or a time in ISO 8601, in minutes of 1 January 2026."""
    whole = text if "T" in text else f"{DAY}{text}:00+00:00"
    return (datetime.fromisoformat(whole) - MIDNIGHT).total_seconds() / 60


def clock_of(driver: Driver, step: str) -> float:
    return driver.status.clocks[step] / 60_000_000 - MIDNIGHT.timestamp() / 60


def clock_text(minute: float) -> str:
    return f"{int(minute) // 60:02}:{int(minute) % 60:02}"


def across(card: Card, scale: Scale, y: float, step: int = 5) -> None:
    """A time axis."""
    card.line([(scale.start, y), (scale.end, y)])
    for minute in scale.steps(step):
        card.line([(scale(minute), y), (scale(minute), y + 5)])
        card.text(scale(minute), y + 19, clock_text(minute), size=11, colour=GREY, anchor="middle")


def upwards(card: Card, scale: Scale, x: float, step: int = 5) -> None:
    for minute in scale.steps(step):
        y = scale(minute)
        card.line([(x, y), (RIGHT, y)], PALE)
        card.text(x - 8, y + 4, clock_text(minute), size=11, colour=GREY, anchor="end")


def counted(window: Any, schema: str = "page string, at timestamp", **options: Any) -> Driver:
    """Rows per page and window; `updatable` and `emit` go to the window, the rest to the stream."""
    for_window = {name: options.pop(name) for name in ("updatable", "emit") if name in options}
    app = rr.App("pictures", pages=1)
    stream = app.stream("views", schema=schema, time="at", max_ahead=None, **options)
    grouped = stream.group_by("page", name="pages").window(window, **for_window)
    grouped.agg(n=rr.count()).to("out")
    return Driver(app, now=f"{DAY}12:00:00Z")


def send(driver: Driver, *times: str, page: str = "/a", partition: int = 0) -> None:
    rows = [{"page": page, "at": time if "T" in time else f"{DAY}{time}:00Z"} for time in times]
    driver.send("views", *rows, partition=partition)


def clock() -> Card:
    """Event time against processing time."""
    card = Card("When events happened, and when they were processed", WIDTH, 430)
    x, y = Scale(at("12:00"), at("12:14"), LEFT, RIGHT), Scale(at("11:58"), at("12:14"), 360, 60)
    upwards(card, y, LEFT, 2)
    across(card, x, 360, 2)
    card.text(RIGHT, 396, "processing time", size=12, colour=GREY, anchor="end")
    card.text(20, 52, "event time", size=12, colour=GREY)
    card.line([(x(at("12:00")), y(at("12:00"))), (x(at("12:14")), y(at("12:14")))], dash="4 4")
    card.text(640, 84, "no delay", size=11, colour=GREY, anchor="end")
    driver = counted(rr.tumbling("2 minutes"), lateness="2 minutes")
    path: list[tuple[float, float]] = []
    dots: list[tuple[float, float, str]] = []
    for minute, times in (
        ("12:01", ["12:00", "12:01"]), ("12:03", ["12:02"]), ("12:04", ["12:03", "12:01"]),
        ("12:06", ["12:05", "12:03"]), ("12:08", ["12:07", "12:07"]), ("12:09", ["12:02"]),
        ("12:10", ["12:09", "12:06"]), ("12:12", ["12:12"]), ("12:13", ["12:07", "12:11"]),
    ):  # fmt: skip
        driver.tick = round((at(minute) * 60 + MIDNIGHT.timestamp()) * 1_000_000)
        send(driver, *times)
        late = [line["value"]["at"] for line in driver.batch().of("pages.late")]
        path += [(x(at(minute)), path[-1][1])] if path else []
        path.append((x(at(minute)), y(clock_of(driver, "pages"))))
        for time in times:
            lost = f"{DAY}{time}:00Z" in late
            dots.append((x(at(minute)), y(at(time)), RED if lost else BLUE))
    _draw_path(card, path, dots)
    behind = "clock: highest event time - 2 minutes"
    card.legend(416, (BLUE, "in time"), (RED, "late"), (ORANGE, behind))
    return card


def _draw_path(
    card: Card, path: list[tuple[float, float]], dots: list[tuple[float, float, str]]
) -> None:
    """The clock, with the events above it."""
    card.line([*path, (RIGHT, path[-1][1])], ORANGE, width=2.5)
    for x, y, colour in dots:
        card.dot(x, y, colour)


EVENTS = ("12:01", "12:02", "12:04", "12:09", "12:11", "12:12", "12:19")


def windows() -> Card:
    """The four kinds of windows over the same events of one key."""
    card = Card("The same seven events in four kinds of windows", WIDTH, 500)
    x = Scale(at("11:55"), at("12:25"), LEFT, RIGHT)
    for time in EVENTS:
        card.line([(x(at(time)), 60), (x(at(time)), 440)], PALE)
        card.dot(x(at(time)), 60)
    card.text(20, 64, "events", size=12, colour=GREY)
    across(card, x, 446)
    top = 84.0
    for name, window, colour, lanes in (
        ("tumbling 5", rr.tumbling("5 minutes"), BLUE, 1),
        ("hopping 6/3", rr.hopping("6 minutes", "3 minutes"), GREEN, 2),
        ("session 4", rr.session("4 minutes"), VIOLET, 1),
        ("sliding 5", rr.sliding("5 minutes"), ORANGE, 7),
    ):
        driver = counted(window)
        send(driver, *EVENTS)
        rows = [line["value"] for line in [*driver.batch(), *driver.end()]]
        rows.sort(key=lambda row: (row["window_start"], row["window_end"]))
        card.text(20, top + 15, name, colour=colour, bold=True)
        for number, row in enumerate(rows):
            left, right = x(at(row["window_start"])), x(at(row["window_end"]))
            y = top + number % lanes * 26
            card.bar(left, right, y, colour=colour)
            card.text((left + right) / 2, y + 15, str(row["n"]), size=12, anchor="middle")
        top += lanes * 26 + 14
    card.note(486, "A number is the count that came out. A sliding window ends at its event.")
    return card


def life() -> Card:
    """One window from its first row to one that is too late."""
    card = Card("The life of the window from 12:00 to 12:05, updatable for 10 minutes", WIDTH, 290)
    x = Scale(at("12:00"), at("12:20"), 20, RIGHT)
    for name, start, end, colour in (
        ("open", "12:00", "12:05", BLUE), ("updatable", "12:05", "12:15", GREEN),
        ("closed", "12:15", "12:20", GREY),
    ):  # fmt: skip
        card.bar(x(at(start)), x(at(end)), 120, height=30, colour=colour)
        card.text(
            x((at(start) + at(end)) / 2), 140, name, anchor="middle", colour=colour, bold=True
        )
    across(card, x, 164)
    card.text(RIGHT, 200, "clock", size=12, colour=GREY, anchor="end")
    driver = counted(rr.tumbling("5 minutes"), updatable="10 minutes", lateness="1 minute")
    send(driver, "12:01", page="/b")
    driver.batch()
    for page, time in (
        [("/a", "12:01"), ("/b", "12:03"), ("/a", "12:04"), ("/b", "12:06"), ("/b", "12:09"),
         ("/a", "12:02"), ("/b", "12:13"), ("/a", "12:03"), ("/b", "12:17"), ("/a", "12:04")]
    ):  # fmt: skip
        before = max(clock_of(driver, "pages"), x.first)
        send(driver, time, page=page)
        out = [line for line in driver.batch() if line["value"]["page"] == "/a"]
        late = any(line["output"] == "pages.late" for line in out)
        if page == "/a":
            card.dot(x(before), 100, RED if late else BLUE)
            card.text(x(before), 86, time, size=11, anchor="middle", colour=RED if late else BLUE)
        for place, line in enumerate(each for each in out if each["output"] == "out"):
            y = 222 + 16 * place
            words = f"{line['op']} {line['value']['n']}, revision {line['revision']}"
            card.text(x(clock_of(driver, "pages")), y, words, size=12)
        if late:
            card.text(x(before), 222, "to the late output", size=12, colour=RED)
    card.note(64, "rows of the window as they arrive")
    card.note(222, "what comes out:")
    card.note(276, "A row stands where the clock was when it came; its label is its own time.")
    return card


def partitions() -> Card:
    """The clock of three partitions, one of which falls silent."""
    card = Card("The slowest partition that is not idle holds the clock back", WIDTH, 450)
    x, y = Scale(at("12:00"), at("12:12"), LEFT, RIGHT), Scale(at("12:00"), at("12:12"), 330, 60)
    upwards(card, y, LEFT, 2)
    across(card, x, 330, 2)
    card.text(RIGHT, 366, "processing time", size=12, colour=GREY, anchor="end")
    card.text(20, 52, "event time", size=12, colour=GREY)
    driver = counted(rr.tumbling("2 minutes"), idle="4 minutes")
    colours = (BLUE, GREEN, VIOLET)
    path: list[tuple[float, float]] = []
    dots: list[tuple[float, float, str]] = []
    held: list[tuple[float, str]] = []
    for minute in range(1, 12):
        driver.tick = round(((at("12:00") + minute) * 60 + MIDNIGHT.timestamp()) * 1_000_000)
        here = x(at("12:00") + minute)
        for partition, time in enumerate([minute, minute - 1, minute][: 3 if minute < 4 else 2]):
            send(driver, f"12:{time:02}", partition=partition)
            dots.append((here, y(at(f"12:{time:02}")), colours[partition]))
        driver.batch()
        path += [(here, path[-1][1])] if path else []
        path.append((here, y(clock_of(driver, "pages"))))
        held.append((here, driver.status.holders["pages"]["held_by"].removeprefix("views/")))
    _draw_path(card, path, dots)
    card.note(388, "held back by")
    for here, name in held:
        card.text(here, 388, name, anchor="middle", colour=colours[int(name)], bold=True)
    card.note(412, "Partition 2 is silent after 12:03. The clock waits 4 minutes, then goes on.")
    names = zip(colours, ("partition 0", "partition 1", "partition 2"), strict=True)
    card.legend(436, *names, (ORANGE, "clock"))
    return card


def device() -> Card:
    """Device clocks that are wrong, put right."""
    card = Card("occurred + (received - sent)", WIDTH, 300)
    app = rr.App("pictures", pages=1)
    time = rr.device_time(occurred="at", sent="sent", max_offset="6 hours")
    schema = "meter string, at timestamp, sent timestamp"
    app.stream("readings", schema=schema, time=time, max_ahead=None).to("out")
    readings = """
        meter | at    | sent  | _timestamp
        right | 12:00 | 12:30 | 12:30
        slow  | 09:00 | 09:30 | 12:30
        fast  | 16:00 | 16:30 | 12:30
        wild  | 04:00 | 04:30 | 13:00
    """
    x = Scale(at("04:00"), at("17:00"), LEFT, RIGHT)
    across(card, x, 236, 60)
    for number, line in enumerate(sorted(Driver(app).run(readings=readings), key=_meter)):
        row, y = line["value"], 70.0 + 42 * number
        wrong, true = x(at(row["at"])), x(at(row["event_time"]))
        suspect = row["clock_suspect"]
        card.text(20, y + 4, row["meter"], bold=True)
        card.dot(wrong, y, GREY, hollow=True)
        if wrong != true and not suspect:
            way = 7 if true > wrong else -7
            card.arrow((wrong + way, y), (true - way, y))
        hours = f"{row['clock_offset'] / 3_600_000:+g} hours"
        words = "not believed: the time it was received" if suspect else hours
        middle = (wrong + true) / 2
        if wrong != true:
            card.text(middle, y - 8, words, size=11, colour=GREY, anchor="middle")
        card.dot(true, y, RED if suspect else BLUE)
    device_said = (GREY, "what the device’s clock said")
    card.legend(286, device_said, (BLUE, "event time"), (RED, "event time, suspect"))
    return card


def _meter(line: Line) -> int:
    return ["right", "slow", "fast", "wild"].index(line["value"]["meter"])


def days() -> Card:
    """Local days of 23, 24 and 25 hours."""
    card = Card("Three days in Berlin, in spring and in autumn 2026", WIDTH, 250)
    for first, y in (("2026-03-28", 70.0), ("2026-10-24", 170.0)):
        begin = at(f"{first}T00:00:00+00:00")
        driver = counted(rr.tumbling("1 day", timezone="Europe/Berlin"))
        x = Scale(begin - 180, begin + 72 * 60, 20, RIGHT - 20)
        for day in range(3):
            send(driver, f"{first[:8]}{int(first[8:]) + day}T12:00:00Z")
        for line in [*driver.batch(), *driver.end()]:
            row = line["value"]
            start, end = at(row["window_start"]), at(row["window_end"])
            hours = round((end - start) / 60)
            card.bar(x(start), x(end), y, height=34, colour={23: RED, 25: ORANGE}.get(hours, BLUE))
            date = datetime.fromisoformat(row["window_end"])  # 22:00 or 23:00 UTC, of that day
            words = f"{date.day} {date:%B}: {hours} hours"
            card.text(x((start + end) / 2), y + 22, words, anchor="middle")
        for midnight in range(4):
            place = x(begin + midnight * 1440)
            card.line([(place, y - 8), (place, y + 44)], GREY, dash="3 3")
            card.text(place, y + 58, "00:00 UTC", size=11, colour=GREY, anchor="middle")
    return card


DRAWINGS: dict[str, Callable[[], Card]] = {
    "clock": clock,
    "windows": windows,
    "life-of-a-window": life,
    "partitions": partitions,
    "device-clock": device,
    "local-days": days,
}


def draw(name: str) -> str:
    return DRAWINGS[name]().svg()


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for each in DRAWINGS:
        (PICTURES / f"{each}.svg").write_text(draw(each), encoding="utf-8")
