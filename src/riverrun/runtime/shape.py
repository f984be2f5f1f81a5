"""What a checkpoint remembers of its program: what state depends on, and what may change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from riverrun.app import App
from riverrun.plan.derive import nodes_of
from riverrun.plan.nodes import Join, StepNode
from riverrun.program import (
    Aggregating,
    Deduplicating,
    Joining,
    Marking,
    Processing,
    Program,
    Ranking,
    SourceSpec,
    Step,
    Tabling,
)

Shape = dict[str, Any]


def shape_of(app: App) -> Shape:
    return shape(app.program(), key_types(app))


def key_types(app: App) -> dict[str, list[str]]:
    """The types of the columns that steps group by."""
    steps = [node for node in nodes_of(tuple(app.outputs)) if isinstance(node, StepNode)]
    return {step.name: _key_types(step) for step in steps}


def _key_types(step: StepNode) -> list[str]:
    if isinstance(step, Join):
        return list(step.types)
    return [step.input.schema.type_of(key) for key in step.keys]


def shape(program: Program, types: Mapping[str, list[str]] | None = None) -> Shape:
    """As it is kept in program.json."""
    found = {
        "riverrun": version("riverrun"),
        "pages": program.pages,
        "exchanges": program.levels,
        "topics": [source.topic for source in program.sources],
        "sources": {source.topic: _source(source) for source in program.sources},
        ".spark() steps": len(program.spark_steps),
        "steps": {step.name: _frozen(step, (types or {}).get(step.name)) for step in program.steps},
        "settings": {step.name: _free(step, program) for step in program.steps},
        "outputs": {
            output.name: {
                "columns": output.schema.ddl(), "key": list(output.key), "table": output.table,
                "sink": repr(output.sink), "format": output.format.name,
            }
            for output in program.outputs
        },
    }  # fmt: skip
    stored: Shape = json.loads(json.dumps(found))
    return stored


def _source(source: SourceSpec) -> dict[str, Any]:
    return {
        "columns": source.schema.ddl(),
        "format": source.format.name,
        "key": source.key,
        "time": repr(source.time),
        "lateness": source.pace.lateness,
        "idle": source.pace.idle,
        "producer": source.producer,
        "punctuation": source.punctuation,
        "max_ahead": source.max_ahead,
    }


def _frozen(step: Step, types: list[str] | None) -> dict[str, Any]:
    """What a step's rows in state depend on: not when they are emitted, nor what counts as late."""
    facts: dict[str, Any] = {"does": type(step).__name__, "level": step.level}
    facts["keys"] = list(step.keys)
    if types is not None:
        facts["types of keys"] = types
    if isinstance(step, Aggregating):
        facts["window"] = asdict(step.window)
        facts["aggregates"] = [asdict(each) for each in step.aggregations]
    if isinstance(step, Deduplicating):
        facts["within"] = step.within
    if isinstance(step, Marking):
        facts["filter"] = [step.capacity, step.error]
    if isinstance(step, Tabling):
        facts["order"] = step.order
        facts["columns"] = list(step.columns)
    if isinstance(step, Joining):
        facts["kind"], facts["keeps"] = step.kind, step.how
        facts["columns"] = step.schema.ddl()
        facts["identities"] = [list(step.left_identity), list(step.right_identity)]
        # rows are kept in buckets as long as both bounds together
        facts["bounds"] = [step.before, step.after]
        facts["corrections"], facts["replicate"] = step.corrections, step.replicate
    if isinstance(step, Ranking):
        facts["columns"], facts["identity"] = list(step.columns), list(step.identity)
        facts["by"] = [step.limit, step.descending, step.place]
    if isinstance(step, Processing):
        facts["state"] = step.state.ddl()
        facts["outputs"] = {name: schema.ddl() for name, schema in step.outputs}
    return facts


def _free(step: Step, program: Program) -> dict[str, Any]:
    """What may change while state stays."""
    facts: dict[str, Any] = {"rows": _hash(step, program)}
    if isinstance(step, Joining):
        facts |= {
            "condition": step.condition, "history": step.history, "time": step.time,
        }  # fmt: skip
    if isinstance(step, Aggregating):
        facts |= {"emit": step.emit, "updatable": step.updatable, "late_alert": step.late_alert}
    return facts


def _hash(step: Step, program: Program) -> str:
    """Which rows go in, and what is done to them before."""
    ours = (step.input, step.right)
    queries = [(b.origin, b.query) for b in program.branches if b.target in ours]
    return hashlib.sha256(json.dumps(sorted(queries, key=str)).encode()).hexdigest()[:16]
