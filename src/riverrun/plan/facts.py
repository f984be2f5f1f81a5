"""What steps do, in words."""

from __future__ import annotations

import re

from riverrun.durations import duration_text
from riverrun.plan.nodes import (
    Aggregate,
    Deduplicate,
    Join,
    MarkSeen,
    Process,
    Rank,
    Settle,
    StepNode,
    ToTable,
)
from riverrun.program import Aggregation
from riverrun.schema import Schema
from riverrun.windowing import MONDAY, Window

JOINS = {
    "streams": "two streams",
    "latest": "with the table as it stands",
    "versions": "with the version that was valid then",
    "tables": "two tables",
}


def keys_text(step: StepNode) -> str:
    if not isinstance(step, Join):
        return ", ".join(step.keys)
    return ", ".join(a if a == b else f"{a} = {b}" for a, b in step.on)


def step_facts(step: StepNode) -> list[tuple[str, str]]:
    """What a step does, beside its keys."""
    match step:
        case Join():
            facts = _join_facts(step)
        case ToTable():
            last = "the last record" if step.order == "position" else "the row latest in time"
            deletes = f", deleted where {plain(step.delete)}" if step.delete else ""
            facts = [("keeps", last + deletes + (", in every page" if step.replicate else ""))]
        case Rank():
            word = "highest" if step.descending else "lowest"
            rows = "row" if step.limit == 1 else f"{step.limit} rows"
            facts = [("keeps", f"the {rows} with the {word} {plain(step.by)}")]
        case Settle():
            facts = [("gives", "changes as facts" if step.facts else "changes in their order")]
        case Deduplicate():
            facts = [("keeps", f"the first row within {duration_text(step.within)}")]
        case MarkSeen():
            filter_text = f"Bloom filter for {step.capacity:,}, error {step.error}"
            facts = [("marks", f"{step.column}: seen before, {filter_text}")]
        case Process():
            kept = columns_text(step.state) or "none"
            emitted = [(name, columns_text(schema)) for name, schema in step.outputs]
            facts = [("runs", type(step.processor).__name__), ("state", kept), *emitted]
        case Aggregate():
            results = [(each.name, f"{call(each)}: {each.type}") for each in step.aggregations]
            facts = [("window", aggregate_window_text(step)), ("emit", step.emit), *results]
    return facts


def _join_facts(step: Join) -> list[tuple[str, str]]:
    said = [("join", f"{step.how}, {JOINS[step.kind]}")]
    if step.kind == "streams":
        before, after = duration_text(step.before), duration_text(step.after)
        said.append(("within", f"{before} before, {after} after"))
        if step.time != "later":
            said.append(("time", f"that of the {step.time} row"))
    if step.condition:
        said.append(("where", plain(step.condition)))
    if step.kind == "versions":
        corrected = ", corrected by late versions" if step.corrections else ""
        said.append(("history", duration_text(step.history) + corrected))
    return said


def aggregate_window_text(step: Aggregate) -> str:
    if step.window.kind == "all":
        return "none: one row per key, for ever"
    alert = "" if step.late_alert is None else f", late_alert {step.late_alert:g}"
    return f"{window_text(step.window)}, updatable {duration_text(step.updatable)}{alert}"


def window_text(window: Window) -> str:
    size = duration_text(window.size)
    if window.kind in ("sliding", "session"):
        return f"{window.kind} {size}"
    every = f" every {duration_text(window.hop)}" if window.hop < window.size else ""
    moved = "" if window.offset in (0, MONDAY) else f" from {duration_text(window.offset)}"
    return f"{size}{every}{moved}{f' in {window.zone}' if window.zone else ''}"


def call(aggregation: Aggregation) -> str:
    fractions = [f"{each:g}" for each in aggregation.fractions]
    listed = aggregation.type.endswith("[]")
    arguments = [
        plain(aggregation.expression or ""),
        f"[{', '.join(fractions)}]" if fractions and listed else "".join(fractions),
        f"k={aggregation.k}" if aggregation.k else "",
        f"weight={plain(aggregation.weight)}" if aggregation.weight else "",
        f"of={list(aggregation.values)}" if aggregation.values else "",
    ]
    text = f"{aggregation.kind}({', '.join(each for each in arguments if each)})"
    period = aggregation.compared_to
    return f"{text} compared to {duration_text(period)} before" if period else text


def plain(expression: str) -> str:
    """A lone column without its quotes."""
    return re.sub(r'^"(\w+)"$', r"\1", expression)


def columns_text(schema: Schema) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema.visible.columns)
