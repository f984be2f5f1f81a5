"""A stored query, tried on files with the test driver."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from riverrun.cli.program_file import load_app
from riverrun.cli.try_ import files_of
from riverrun.control import QUERY
from riverrun.durations import BEGINNING
from riverrun.errors import InputError
from riverrun.operators.search.query import stored
from riverrun.operators.search.spec import Search
from riverrun.partitions import real
from riverrun.sources.files import read_files
from riverrun.testing import Driver

NAME = "tried"


def tried(
    program: Path, query: str, *, where: str | None, step: str | None, inputs: tuple[str, ...]
) -> tuple[bool, list[dict[str, Any]]]:
    """Whether the query needs a word, and what it finds; an error that says what is wrong."""
    app = load_app(program)
    does = _step(Driver(app), step)
    body = {"name": NAME, "query": query, **({"where": where} if where else {})}
    needs_a_word = stored(body).entered(does.over(), BEGINNING).needs_a_word
    if not inputs:
        return needs_a_word, []
    driver = Driver(app)
    driver.topics = read_files(files_of(inputs, {real(s.topic) for s in app.program().sources}))
    if does.queries is not None:
        raise InputError(
            "queries of a table are tried with the table",
            hint=f"riverrun try PROGRAM --input {does.queries.name}=queries.jsonl --input …",
        )
    driver.control(QUERY, does.name, **body, watch=True)
    driver.batch_up_to({})
    for cut in driver.topics.cuts:
        driver.batch_up_to(cut)
    driver.end()
    return needs_a_word, [json.loads(each) for each in driver.topics.replied]


def _step(driver: Driver, step: str | None) -> Search:
    known = {s.name: s.does for s in driver.program.steps if isinstance(s.does, Search)}
    found = known.get(step) if step else next(iter(known.values()), None)
    if found is None or (step is None and len(known) > 1):
        raise InputError(
            "the program has no such step with stored queries" if step else "name the step",
            got=step,
            hint=f"steps with stored queries: {', '.join(known) or 'none'}",
        )
    assert isinstance(found, Search)
    return found
