"""`riverrun produce`: send lines of JSON to a topic."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from riverrun.cli import options, say_json
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka.lines import LineFormat
from riverrun.kafka.resuming import ResumedSender
from riverrun.kafka.sender import Sender
from riverrun.views import Token


@click.command("produce")
@click.argument("topic", type=options.TopicName())
@click.option("--file", type=click.File("rb"), default="-", help="Read lines from a file.")
@click.option("--key", "key_field", metavar="FIELD", help="Take the key from a field of the value.")
@click.option("--key-separator", metavar="TEXT", help="Lines are the key, this text, the value.")
@click.option("--partition", type=click.IntRange(0), help="Send all to this partition.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Records per second.")
@click.option("--resume", is_flag=True, help="Go on where the last try to send the file ended.")
@click.option("--token", is_flag=True, help="Print a token for `riverrun get --token` instead.")
@click.option("--raw", is_flag=True, help="Send lines as they are, JSON or not.")
@options.brokers_option
@options.json_option
def command(topic: str, file: IO[bytes], **given: Any) -> None:
    """Send lines of JSON from standard input or a file to TOPIC.

    A line is the value; or, if it has a field "value" and else only "key", "timestamp" (in
    milliseconds), "partition" and "headers", it says all that there is to a record. The value null
    is a tombstone. With --key, every line is a value.

    \b
    echo '{"user": "ann", "page": "/a"}' | riverrun produce clicks --key user
    echo '{"key": "ann", "value": null}' | riverrun produce users
    riverrun produce clicks --file clicks.jsonl --rate 100
    riverrun produce clicks --file clicks.jsonl --resume
    riverrun tail clicks --from earliest --json | riverrun produce copy
    riverrun get per_user ann --token $(riverrun produce clicks --token --file clicks.jsonl)
    """
    lines = _Lines(file, _format(given))
    client = kafka.client(options.settings(given["brokers"]))
    sender = _sender(client, topic, lines, given)
    _send(lines, sender, given["rate"])
    token = str(Token.of(sender.last))
    if given["as_json"]:
        say_json({"topic": topic, "records": sender.delivered, "token": token})
    elif given["token"]:
        click.echo(token)
    else:
        plural = "" if sender.delivered == 1 else "s"
        click.echo(f"sent {sender.delivered:,} record{plural} to {topic}{lines.after}")


def _sender(client: dict[str, str], topic: str, lines: _Lines, given: dict[str, Any]) -> Sender:
    if not given["resume"]:
        return Sender(client, topic, given["partition"])
    if lines.size is None:
        raise click.UsageError("--resume needs a --file, whose lines stay where they are")
    name = os.path.realpath(lines.name)
    sender = ResumedSender(client, topic, given["partition"], file=name)
    lines.skip = sender.first
    return sender


def _format(given: dict[str, Any]) -> LineFormat:
    if given["key_field"] and given["key_separator"]:
        raise click.UsageError("--key and --key-separator exclude each other")
    if given["key_field"] and given["raw"]:
        raise click.UsageError(
            "--key needs JSON, which --raw does not read: --key-separator takes a key from any line"
        )
    return LineFormat(given["key_field"], given["key_separator"], given["raw"])


def _send(lines: _Lines, sender: Sender, rate: float | None) -> None:
    begun_at = time.monotonic()
    try:
        for number, line in lines.watched(sender):
            if rate:
                sender.pause_until(begun_at + sender.sent / rate)
            try:
                sender.send(lines.form.parse(line))
                sender.done_with(number)
            except InputError as error:
                raise _placed(error, lines, number, sender) from error
    finally:
        # What was read before a bad line, or before Ctrl-C, has been promised to Kafka.
        sender.flush()


def _placed(error: InputError, lines: _Lines, number: int, sender: Sender) -> InputError:
    before = f"{sender.sent:,} records before it were sent{_rest(lines, number, sender)}"
    hint = f"{error.hint}; {before}" if error.hint else before
    return InputError(error.fact, where=f"line {number} of {lines.name}", got=error.got, hint=hint)


def _rest(lines: _Lines, number: int, sender: Sender) -> str:
    """How to go on after a bad line of a file."""
    if isinstance(sender, ResumedSender):
        return ": once the line is mended, the same command goes on with it"
    if lines.size is None:
        return ""
    return (
        f": `tail -n +{number} {lines.name} | riverrun produce …` sends the rest; a file that is "
        "sent with --resume from the start goes on by itself"
    )


@dataclass
class _Lines:
    """The lines of the input that are not empty, with their numbers."""

    file: IO[bytes]
    form: LineFormat
    consumed: int = 0
    skip: int = 0
    """Lines that were sent before."""

    @property
    def after(self) -> str:
        return f", after the {self.skip:,} lines that were sent before" if self.skip else ""

    @property
    def name(self) -> str:
        name = getattr(self.file, "name", "<stdin>")
        return "standard input" if name in (0, "<stdin>") else str(name)

    @property
    def size(self) -> int | None:
        try:
            status = os.fstat(self.file.fileno())
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self.file, start=1):
            self.consumed += len(line)
            if number <= self.skip:
                continue
            text = self._decoded(line, number)
            if text.strip():
                yield number, text
        if self.consumed and number < self.skip:
            raise InputError(
                "the file has fewer lines than were sent of it",
                where=self.name,
                got=f"{number:,} lines, {self.skip:,} were sent",
                hint="is it another file? without --resume all of it is sent",
            )

    def watched(self, sender: Sender) -> Iterator[tuple[int, str]]:
        """The lines, under a progress bar that appears once the work turns out to be long."""
        columns = (BarColumn(), TextColumn("{task.fields[sent]:,} records"), TimeElapsedColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        task = progress.add_task("sending", total=self.size, sent=0)
        show_at = time.monotonic() + 1 if progress.console.is_terminal else math.inf
        try:
            for numbered in self:
                yield numbered
                if time.monotonic() > show_at:
                    progress.start()
                    progress.update(task, completed=self.consumed, sent=sender.sent)
                    show_at = time.monotonic() + 0.1
        finally:
            if progress.live.is_started:
                progress.stop()

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            where = f"line {number} of {self.name}"
            raise InputError("the line is not UTF-8", where=where, got=error) from error
