"""What a checkpoint remembers of its program: what state depends on, and what may change."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import Any

from riverrun.kernels.program import PlacedStep, Program, ReadTopic

Shape = dict[str, Any]


def shape(program: Program) -> Shape:
    """As it is kept in program.json."""
    found = {
        "riverrun": version("riverrun"),
        "pages": program.pages,
        "exchanges": program.levels,
        "one writer": program.one_writer,
        "topics": [source.topic for source in program.sources],
        "sources": {source.topic: _source(source) for source in program.sources},
        ".spark() steps": len(program.spark_steps),
        "steps": {step.name: _frozen(step) for step in program.steps},
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


def _source(source: ReadTopic) -> dict[str, Any]:
    return {
        "columns": source.fields.ddl(),
        "format": source.format.name,
        "key": source.key,
        "time": repr(source.time),
        "lateness": source.pace.lateness,
        "idle": source.pace.idle,
        "producer": source.producer,
        "punctuation": source.punctuation,
        "max_ahead": source.max_ahead,
    }


def _frozen(step: PlacedStep) -> dict[str, Any]:
    """What a step's rows in state depend on: not when they are emitted, nor what counts as late."""
    does = step.does
    return {
        "does": does.kind,
        "level": step.level,
        "keys": list(does.keys),
        "types of keys": list(does.key_types),
        **does.frozen(),
    }


def _free(step: PlacedStep, program: Program) -> dict[str, Any]:
    """What may change while state stays."""
    return {"rows": _hash(step, program), **step.does.settings()}


def _hash(step: PlacedStep, program: Program) -> str:
    """Which rows go in, and what is done to them before."""
    queries = [(b.origin, b.query) for b in program.branches if b.target in step.input_edges]
    return hashlib.sha256(json.dumps(sorted(queries, key=str)).encode()).hexdigest()[:16]
