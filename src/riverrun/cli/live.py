"""What a running application shows in the terminal: its progress, and its table as it changes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NoReturn, Self

import click
import psutil
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from riverrun import exact
from riverrun.cli import clocks, log
from riverrun.delivery.alerts import alert_text, begun_and_over
from riverrun.kafka import lag as lag_of

ROWS = 15
COUNTS = ("events", "written", "late", "dead", "dropped")
JVM_OF_SPARK = "pyspark-shell"
"""The last word of its command line."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _end_at_once() -> NoReturn:
    """Cleaning up takes too long for whoever asks again: the next run goes on as after a crash. Of
    what was started Spark's JVM goes with it; servers stay."""
    for each in psutil.Process().children():
        with suppress(psutil.Error):
            if each.cmdline()[-1:] == [JVM_OF_SPARK]:
                each.kill()
    log.say("stopped", "stopped at once")
    log.end()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)


class Stopping:
    """What the first Ctrl-C or SIGTERM asks for; the second one ends the block at once."""

    def __init__(self) -> None:
        self.drain: Callable[[], bool] | None = None
        self.asked = self.ending = False

    def lets_finish(self, drain: Callable[[], bool]) -> None:
        """From here on there is a batch to finish. Spark has put its own handler in place."""
        self.drain = drain
        signal.signal(signal.SIGINT, self.signalled)
        if self.ending:  # a library has swallowed it
            raise KeyboardInterrupt

    def signalled(self, *_: object) -> None:
        if self.ending:
            _end_at_once()
        if self.drain is not None and self.drain():
            self.asked = True
            return
        self.ending = True
        raise KeyboardInterrupt


@contextmanager
def graceful() -> Iterator[Stopping]:
    """Ctrl-C and SIGTERM end the block, after everything in it is cleaned up."""
    stopping = Stopping()
    before = {each: signal.signal(each, stopping.signalled) for each in SIGNALS}
    try:
        yield stopping
        if stopping.asked:
            log.say("stopped", "stopped")
    except KeyboardInterrupt:
        log.say("stopped", "stopped")
    finally:
        ended = stopping.asked or stopping.ending
        for number, handler in before.items():
            # one who has asked already may ask again while the process ends
            signal.signal(number, signal.SIG_IGN if ended else handler)


def _clock_behind(row: dict[str, Any]) -> tuple[bool, float]:
    """How far a step's clock is behind; one that has read nothing yet comes last."""
    return row["behind_seconds"] is not None, row["behind_seconds"] or 0.0


class LiveView:
    """On a terminal a table that changes in place; elsewhere one line per batch."""

    def __init__(self, name: str, *, quiet: bool = False, every_clock: bool = False) -> None:
        self.name, self.quiet, self.every_clock = name, quiet, every_clock
        self.console = Console(stderr=quiet)
        self.rows: dict[str, dict[str, dict[str, Any]]] = {}
        self.changed: set[str] = set()
        self.started_at = time.monotonic()
        self.first_result: float | None = None
        self.last: tuple[float, int] = (self.started_at, 0)
        self.rate = 0.0
        self.printed = ""
        self.live: Live | None = None
        self.alerts: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def tell(self, text: str) -> None:
        if not log.said(text) and not self.quiet:
            self.console.print(
                Text(f"{time.monotonic() - self.started_at:5.1f} s  {text}", style="dim")
            )

    def warn(self, status: dict[str, Any]) -> None:
        """A line on standard error when an alert begins, and one when it is over."""
        begun, over = begun_and_over(self.alerts, status["alerts"])
        self.alerts = status["alerts"]
        for alert in begun:
            facts = {name: alert[name] for name in ("step", "share", "limit")}
            log.say("warning", f"{alert['step']}: {alert_text(alert)}", **facts)
        for alert in over:
            text = f"{alert['step']}: the share of late rows is back below its limit"
            log.say("over", text, step=alert["step"])

    def show(self, status: dict[str, Any]) -> None:
        if self.quiet:
            return
        self._measure(status)
        self.changed = set()
        for line in status["shown"]:
            self._apply(line)
        if self.console.is_terminal:
            if self.live is None:
                self.live = Live(console=self.console, auto_refresh=False)
                self.live.start()
            self.live.update(self._picture(status), refresh=True)
        else:
            self._print(status)

    def _print(self, status: dict[str, Any]) -> None:
        """Off a terminal: a line per batch that read or wrote something, and its first rows."""
        summary = self._summary(status).partition("batch")[2].partition(",")[2]
        if summary == self.printed:
            return
        self.printed = summary
        click.echo(self._summary(status))
        for text in self._clocks(status):
            click.echo(f"  {text}")
        for line in status["shown"][:ROWS]:
            click.echo(f"  {line['op']} {exact.dumps(line['value'])}")
        if len(status["shown"]) > ROWS:
            click.echo(f"  … {len(status['shown']) - ROWS} more")

    def _measure(self, status: dict[str, Any]) -> None:
        now = time.monotonic()
        before, events = self.last
        self.rate = 0.0
        if status["events"] > events:
            self.rate = (status["events"] - events) / max(now - before, 1e-6)
        self.last = (now, status["events"])
        if self.first_result is None and any(status["written"].values()):
            self.first_result = now - self.started_at

    def _apply(self, line: dict[str, Any]) -> None:
        table = self.rows.setdefault(line["output"], {})
        key = str(line["key"])
        if line["op"] == "+":
            table[key] = line["value"]
            self.changed.add(key)
        elif table.get(key) == line["value"]:
            del table[key]

    def _summary(self, status: dict[str, Any]) -> str:
        written = ", ".join(
            f"{name} {count:,}" for name, count in sorted(status["written"].items())
        )
        first = f", first result after {self.first_result:.1f} s" if self.first_result else ""
        return (
            f"{self.name}: batch {status['batch']}, {status['events']:,} events"
            f" ({self.rate:,.0f}/s){_lag(status)}, late {sum(status['late'].values()):,}"
            f", dead {status['dead']:,}{_dropped(status)}"
            f"{f', written: {written}' if written else ''}{first}"
        )

    def _clocks(self, status: dict[str, Any]) -> list[str]:
        """The clock that is furthest behind, or all of them if they were asked for."""
        rows = list(clocks.rows(self.name, status))
        if self.every_clock or len(rows) < 2:
            return list(map(clocks.line, rows))
        behind = max(rows, key=_clock_behind)
        return [f"{clocks.line(behind)}; {len(rows) - 1} more with --clocks"]

    def _picture(self, status: dict[str, Any]) -> Group:
        steps = [Text(f"  {text}") for text in self._clocks(status)]
        warnings = [
            Text(f"  {alert['step']}: {alert_text(alert)}", style="bold red")
            for alert in status["alerts"]
        ]
        grids = [self._grid(name, table) for name, table in self.rows.items()]
        return Group(Text(self._summary(status)), *steps, *warnings, *grids)

    def _grid(self, name: str, table: dict[str, dict[str, Any]]) -> Grid:
        grid = Grid(title=name.removeprefix("screen:"), title_justify="left")
        latest = sorted(table.items(), key=_newest, reverse=True)[:ROWS]
        for column in latest[0][1] if latest else ():
            grid.add_column(column)
        for key, row in latest:
            style = "bold green" if key in self.changed else ""
            grid.add_row(*(_cell(value) for value in row.values()), style=style)
        return grid


class LogView(LiveView):
    """For programs: batches are events of the log, and rows of screens lines of JSON."""

    def __init__(self, name: str, to: log.JsonLines, *, rows: bool) -> None:
        super().__init__(name, quiet=True)
        self.to, self.with_rows, self.batch = to, rows, -1
        to.application = name

    def tell(self, text: str) -> None:
        if not log.said(text):
            self.to.put("progress", text)

    def show(self, status: dict[str, Any]) -> None:
        for number, counts in status["own"].items():
            if int(number) > self.batch:
                self._show_batch(int(number), counts, status)
        for line in status["shown"] if self.with_rows else ():
            click.echo(exact.dumps(line))

    def _show_batch(self, number: int, counts: dict[str, Any], status: dict[str, Any]) -> None:
        """Those in which only time went on are not told."""
        self.batch = number
        facts = {name: counts[name] for name in COUNTS}
        if any(facts.values()):
            text = f"batch {number}: {facts['events']:,} events, {facts['written']:,} rows written"
            took = round(counts["at"] - counts["tick"] / 1e6, 3)
            self.to.put(
                "batch", text, batch=number, **facts, seconds=took, behind=_behind(status),
                to_go=_to_go(status), waiting=_waiting(status),
            )  # fmt: skip


def _behind(status: dict[str, Any]) -> int | None:
    """How many records are unread; None if nobody has noted that."""
    lag = status.get("lag")
    return lag and sum(each["end"] - each["read"] for each in lag["partitions"].values())


def _lag(status: dict[str, Any]) -> str:
    """How many records are unread, and which tables are loaded before others go on."""
    behind = _behind(status)
    loading = "".join(
        f", loading {topic} {1 - each['left'] / each['of']:.0%}"
        for topic, each in (status.get("lag") or {}).get("loading", {}).items()
    )
    seconds = _to_go(status)
    to_go = f", about {clocks.behind_text(max(round(seconds), 1))} to go" if seconds else ""
    waiting = f", {rows:,} rows waiting" if (rows := _waiting(status)) else ""
    return (f", {behind:,} behind{to_go}" if behind else "") + loading + waiting


def _to_go(status: dict[str, Any]) -> float | None:
    """Seconds until all is read that there is now, and that comes meanwhile."""
    lag = status.get("lag")
    seconds = lag and lag_of.to_go(lag)
    return None if seconds is None else round(seconds, 1)


def _waiting(status: dict[str, Any]) -> int:
    """How many rows go on later."""
    return sum(status.get("waiting", {}).values())


def _dropped(status: dict[str, Any]) -> str:
    return f", dropped {status['dropped']:,}" if status.get("dropped") else ""


def _newest(item: tuple[str, dict[str, Any]]) -> tuple[str, float]:
    numbers = [v for v in item[1].values() if isinstance(v, int | float)]
    return str(item[1].get("window_start", "")), float(numbers[0]) if numbers else 0.0


def _cell(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else str(value)
