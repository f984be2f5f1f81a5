"""Live rules: what a thousand of them cost next to one, in the kernel alone.

Payments of 100,000 cards, 2,000 a second, so that each has about twelve in 10 minutes. Ten
templates with 100 rules each; the conditions of any one rule hold for about 1 % of the rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from riverrun.app import App
from riverrun.bench.report import Report
from riverrun.clock import Now, Punctuation
from riverrun.control import RULE, Command
from riverrun.edges import STATUS
from riverrun.kafka.records import Record
from riverrun.kernels.chunks import Chunk, unpack
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import status_of
from riverrun.kernels.pages import PageKernel
from riverrun.kernels.state import SegmentCache
from riverrun.partitions import Partition, Range
from riverrun.sources.files import MemoryTopics
from riverrun.sources.reading import read_ranges
from riverrun.stream import Stream
from riverrun.testing.checkpoints import MemoryStore

PER_SECOND, CARDS_PER_EVENT = 2_000, 20
START = 1_767_225_600_000
SCHEMA = "card bigint, kind int, shop int, amount double, at timestamp"
CACHE = 1 << 30
TEMPLATES, VALUES = 10, 100
SHARE = 0.05
"""Of the rows of a template's kind, those that each variable of a rule holds for."""
PATTERNS = ("low high", "low{2,} high", "low+ high", "high low+ high", "low other*? high")


def template(number: int) -> str:
    """Half of them by kind and thresholds, half by a shop of each rule's own."""
    pattern = PATTERNS[number % len(PATTERNS)]
    by_kind = number < TEMPLATES // 2
    own = f"kind = {number}" if by_kind else f"shop = $shop AND kind % 2 = {number % 2}"
    return f"""
        MEASURES LAST(high.amount) AS amount, COUNT(*) AS payments
        PATTERN ({pattern}) WITHIN INTERVAL '10' MINUTE
        DEFINE low AS {own} AND amount < $low, high AS {own} AND amount > $high
    """


def rules() -> Iterator[dict[str, object]]:
    for number in range(TEMPLATES):
        by_kind = number < TEMPLATES // 2
        for n in range(VALUES):
            limits = SHARE * (0.5 + n / VALUES) if by_kind else 0.5
            own = {"low": 1000 * limits, "high": 1000 * (1 - limits)}
            values = own if by_kind else {**own, "shop": n}
            yield {"name": f"r{number}-{n}", "template": f"t{number}", "parameters": values}


def events(count: int) -> Iterator[bytes]:
    dice = np.random.default_rng(7)
    cards, kinds = dice.integers(0, count // CARDS_PER_EVENT, count), dice.integers(0, 10, count)
    shops, amounts = dice.integers(0, VALUES, count), dice.random(count) * 1000
    milliseconds = START + np.arange(count) * 1000 // PER_SECOND
    times = np.datetime_as_string(milliseconds.astype("datetime64[ms]"), timezone="UTC")
    for n in range(count):
        at = str(times[n])
        row = {"card": int(cards[n]), "kind": int(kinds[n]), "shop": int(shops[n])}
        yield json.dumps({**row, "amount": round(float(amounts[n]), 2), "at": at}).encode()


def payments(app: App) -> Stream:
    return app.stream("payments", schema=SCHEMA, time="at")


def ruled(count: int) -> tuple[App, list[Command]]:
    """A program with so many rules, which are told it with the first batch."""
    app = App("rules")
    templates = {f"t{n}": template(n) for n in range(TEMPLATES)}
    payments(app).match_rules(
        "rules", by="card", measures="amount double, payments bigint", templates=templates
    ).to("found")
    # one of each template before the second of any
    chosen = sorted(rules(), key=lambda each: str(each["name"]).partition("-")[2])[:count]
    return app, [Command(n, RULE, "rules", body) for n, body in enumerate(chosen)]


def free(count: int) -> tuple[App, list[Command]]:
    """The same rules without templates: each has a text of its own, with its values in it."""
    app, commands = ruled(count)
    return app, [replace(each, body=_without_template(each.body)) for each in commands]


def _without_template(body: dict[str, Any]) -> dict[str, Any]:
    text = template(int(body["template"][1:]))
    for name, value in body["parameters"].items():
        text = text.replace(f"${name}", f"{value}")
    return {"name": body["name"], "pattern": text}


def written() -> tuple[App, list[Command]]:
    """A program with one of the patterns, written into it."""
    app = App("rules")
    text = template(0).replace("$low", "50").replace("$high", "950")
    payments(app).match(f"PARTITION BY card {text}", name="rules").to("found")
    return app, []


@dataclass
class Measured:
    seconds: float = 0.0
    """Of CPU, all in all."""
    pages: float = 0.0
    """Of these, those of pages: without reading records."""
    events: int = 0
    found: int = 0


def run(
    given: tuple[App, list[Command]],
    topics: MemoryTopics,
    batch: int,
    batches: int | None = None,
    step: str = "rules",
) -> Measured:
    """Reads the records in batches; the first half, in which state grows, is not counted."""
    program, commands = given[0].program(), given[1]
    reader = LotReader(program)
    kernel = PageKernel(program, 0, SegmentCache(CACHE), "bench")
    heads: dict[int, bytes | None] = {}
    stores = {page: MemoryStore() for page in range(program.pages)}
    [(partition, end)] = topics.ends().items()
    end = min(end, batches * batch) if batches else end
    clocks: dict[str, int] = {step: -(2**62)}
    measured, warm = Measured(), end // 2
    for start in range(0, end, batch):
        began = time.process_time()
        said = Punctuation(
            tick=start, batch=start // batch, commands=commands if start == 0 else []
        )
        ranges = [Range(Partition(*partition), start, min(start + batch, end))]
        now = Now(start, False, clocks)
        chunks = [c for lot in read_ranges(topics, reader, ranges, now, said) for c in lot]
        read = time.process_time()
        found = 0
        for page in range(program.pages):
            ours = [chunk for chunk in chunks if chunk.page == page and chunk.edge != STATUS]
            head, out = kernel.visit(page, heads.get(page), stores[page], ours)
            heads[page] = head or heads.get(page)
            clocks, found = _told(out, clocks, found)
        if start >= warm:
            measured.seconds += time.process_time() - began
            measured.pages += time.process_time() - read
            measured.events += ranges[0].end - start
            measured.found += found
    return measured


def _told(out: list[Chunk], clocks: dict[str, int], found: int) -> tuple[dict[str, int], int]:
    for chunk in out:
        if chunk.edge == STATUS:
            clocks = status_of(chunk).clocks or clocks
        elif chunk.edge.kind == "stream":
            found += unpack(chunk.data).height
    return clocks, found


def measure(
    report: Report, count: int, batch: int, without_template: int = TEMPLATES * VALUES
) -> None:
    """Adds what one rule and a thousand cost to a report."""
    own = f"{without_template:,} live rules without a template"
    topics = MemoryTopics()
    for value in events(count):
        topics.append("payments", Record(value))
    rates, pages = {}, {}
    for name, given, batches in (
        ("one pattern in the program", written(), None),
        ("1 live rule", ruled(1), None),
        ("1,000 live rules", ruled(TEMPLATES * VALUES), None),
        (own, free(without_template), 2),
    ):
        found = run(given, topics, batch, batches)
        rates[name] = found.events / found.seconds
        pages[name] = found.events / found.pages
        report.figures[f"kernel, {name}: events/s of CPU"] = round(rates[name])
        report.figures[f"kernel, {name}: without reading"] = round(pages[name])
        report.figures[f"kernel, {name}: matches"] = found.found
    few, many = rates["1 live rule"], rates["1,000 live rules"]
    report.at_least("1,000 live rules: events/s of one", 0.1, many / few)
    report.figures[f"kernel, {own}: events/s of one"] = round(rates[own] / few, 3)
    one = rates["one pattern in the program"]
    report.at_least("1,000 live rules: events/s of a pattern in the program", 0.1, many / one)
