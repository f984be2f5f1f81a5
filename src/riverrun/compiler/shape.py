"""What a checkpoint remembers of its program: what state depends on, and what may change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from riverrun.clock import Pace
from riverrun.errors import Location
from riverrun.forgetting.declared import Personal
from riverrun.formats.known import FORMATS
from riverrun.kernels.program import PlacedStep, Program, ReadTopic
from riverrun.operators.keep import Keep
from riverrun.outputs import OutputSpec, Sink
from riverrun.schema import METADATA, Schema, nested, parse
from riverrun.sinks.fulltext.sink import SearchIndex
from riverrun.sinks.postgresql.sink import Postgres
from riverrun.sinks.sqlite_file import Sqlite
from riverrun.sinks.viewing.sink import View
from riverrun.times import from_repr

Shape = dict[str, Any]
KEPT = "keep"
"""Whether rows of a table come into a step through one that ends them."""
LAYOUT, LAID_OUT = "layout", 3
"""How state is laid out. Up to 1, what is known of time was in every page."""
TEXTS = "texts of keys"
"""What pages go by where keys are lists or structs; before, structs had another text."""


def shape(program: Program) -> Shape:
    """As it is kept in program.json."""
    found = {
        "riverrun": version("riverrun"),
        LAYOUT: LAID_OUT,
        "pages": program.pages,
        "exchanges": program.levels,
        "one writer": program.one_writer,
        "topics": [source.topic for source in program.sources],
        "sources": {source.topic: _source(source) for source in program.sources},
        ".spark() steps": len(program.spark_steps),
        "steps": {step.name: _frozen(step, program) for step in program.steps},
        "settings": {step.name: _free(step, program) for step in program.steps},
        "was": {step.name: step.was for step in program.steps if step.was},
        "tables": {
            name: [(column.name, column.type) for column in schema.columns]
            for name, schema in program.tables.items()
        },
        "outputs": {
            output.name: {
                "columns": output.schema.ddl(), "key": list(output.key), "table": output.table,
                "sink": repr(output.sink), "format": output.format.name,
            }
            for output in program.outputs
        },
        **({"forgetting": _forgetting(program)} if program.personal else {}),
    }  # fmt: skip
    stored: Shape = json.loads(json.dumps(found))
    return stored


def _forgetting(program: Program) -> dict[str, Any]:
    """Where copies of what is personal are, sealed: topics, tables in topics, files, and others."""
    topics = {each: each.sink.kafka_topic() for each in program.outputs}
    held = [(o, path) for o in program.outputs for path in _paths(vars(o.sink))]
    left = [o.sink for o in program.outputs if not topics[o] and o not in dict(held)]
    others = [{"text": s.text, "needs": list(s.needs())} for s in left if not _at_home(s)]
    return {
        "topics": [topic for topic in topics.values() if topic],
        "tables": {topic: list(o.key) for o, topic in topics.items() if topic and o.table},
        "rows": [row for o in program.outputs if o.table for row in _rows(o)],
        "paths": sorted({path for _, path in held}),
        "others": others,
    }


def _rows(output: OutputSpec) -> Iterator[dict[str, Any]]:
    """Where rows of a table are in a database, by a key of one column."""
    sink = output.sink
    if len(output.key) == 1:
        own = {"key": output.key[0], "text": sink.text}
        if isinstance(sink, Sqlite):
            yield {"kind": "sqlite", "file": str(sink.file), "table": sink.table, **own}
        elif isinstance(sink, Postgres):
            yield {"kind": "postgres", "table": sink.table, **own}
        elif isinstance(sink, View):
            yield {"kind": "view", "table": sink.view, **own}


def _at_home(sink: Sink) -> bool:
    """Whether it writes to a folder of the home."""
    return isinstance(sink, SearchIndex)


def _paths(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, Path) or (name == "folder" and isinstance(value, str)):
            yield str(Path(value).expanduser().absolute())


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
        **({"table_key": list(source.table_key)} if source.table_key else {}),
        **({"filled_by": filled_by} if (filled_by := _filled_by(source)) else {}),
        **({"personal": list(map(_personal, source.personal))} if source.personal else {}),
    }


def _personal(given: Personal) -> dict[str, Any]:
    # which other fields there are may change
    return {name: value for name, value in vars(given).items() if name not in ("at", "known")}


def _filled_by(source: ReadTopic) -> str | None:
    """Who writes the topic, where that is known."""
    if source.files is not None:
        return f"the files {source.files}"
    return "the program itself" if source.own else source.captured


def source_of(topic: str, kept: Shape, at: Location) -> ReadTopic:
    """A source as its checkpoint remembers it: enough to read its records. A KeyError if it is in a
    format of the program's own."""
    time, fields = from_repr(kept["time"]), parse(kept["columns"])
    made = ReadTopic(
        topic, fields, Schema((*fields.columns, *time.added)), kept["key"], time,
        Pace(kept["lateness"], kept["idle"]), "earliest", "stop", at,
        producer=kept["producer"], punctuation=kept["punctuation"], max_ahead=kept["max_ahead"],
        table_key=tuple(kept.get("table_key", ())), format=FORMATS[kept["format"]],
    )  # fmt: skip
    used = frozenset(name for name, _ in METADATA if name in " ".join(made.reads))
    return replace(made, metadata=used)


def _frozen(step: PlacedStep, program: Program) -> dict[str, Any]:
    """What a step's rows in state depend on: not when they are emitted, nor what counts as late."""
    does = step.does
    before = {
        branch.origin.name for branch in program.branches if branch.target in step.input_edges
    }
    return {
        KEPT: any(each.name in before and each.does.kind == Keep.kind for each in program.steps),
        "does": does.kind,
        "level": step.level,
        "keys": list(does.keys),
        "types of keys": list(does.key_types),
        **({TEXTS: "of parts"} if any(map(nested, does.key_types)) else {}),
        **does.frozen(),
    }


def _free(step: PlacedStep, program: Program) -> dict[str, Any]:
    """What may change while state stays."""
    return {"rows": _hash(step, program), **step.does.settings()}


def _hash(step: PlacedStep, program: Program) -> str:
    """Which rows go in, and what is done to them before."""
    queries = [(b.origin, b.query) for b in program.branches if b.target in step.input_edges]
    return hashlib.sha256(json.dumps(sorted(queries, key=str)).encode()).hexdigest()[:16]
