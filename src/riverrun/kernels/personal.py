"""Personal columns of a lot are sealed right after it is decoded: nothing that leaves a reader
holds one that can be read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from riverrun import exact
from riverrun.columns import BEFORE
from riverrun.forgetting import Keys
from riverrun.forgetting.declared import Personal
from riverrun.kernels.program import ReadTopic
from riverrun.kernels.revealing import HELD_BACK, kind_of
from riverrun.schema import quoted

SUBJECT = "__subject"

Seal = Callable[[Sequence[tuple[str, str]]], list[str]]
"""Seals values, each given with its subject."""


def subjects(source: ReadTopic) -> list[str]:
    """Of the query that decodes: whose the personal columns are, as text."""
    return [
        f"CAST({quoted(each.by)} AS VARCHAR) AS {SUBJECT}{number}"
        for number, each in enumerate(source.personal)
    ]


def sealed(rows: pa.Table, source: ReadTopic, keys: Keys, *, again: bool) -> pa.Table:
    """The rows, without what can be read of people. `again`: the program writes the topic, too."""
    for number, each in enumerate(source.personal):
        whose, seal = rows[f"{SUBJECT}{number}"], partial(keys.seal, each.subject, again=again)
        if each.inside is None:
            for column in _columns(each, source):
                rows = _with(rows, column, _sealed(seal, whose, rows[column]))
        else:
            found = _sealed_inside(seal, each, whose, rows[each.inside])
            rows = _with(rows, each.inside, found)
        rows = rows.drop_columns([f"{SUBJECT}{number}"])
    return _without_texts(rows) if source.personal else rows


def _columns(personal: Personal, source: ReadTopic) -> Sequence[str]:
    """The key of a record is one more place that its column is in."""
    keyed = {source.key, *source.table_key} & set(personal.columns)
    return (*personal.columns, *(("_key",) if keyed and "_key" in source.metadata else ()))


def _without_texts(rows: pa.Table) -> pa.Table:
    """What a format tells of a record beside its columns, and why it cannot be read, may hold any
    of it."""
    if BEFORE in rows.column_names:
        rows = _with(rows, BEFORE, pa.nulls(rows.num_rows, rows[BEFORE].type))
    cause = rows["__cause"]
    if cause.null_count < rows.num_rows:
        told = [each and _told(each) for each in cause.to_pylist()]
        rows = _with(rows, "__cause", pa.array(told, pa.string()))
    return rows


def _told(cause: str) -> str:
    """A cause without what the record holds; what is missing in it has only a name."""
    missing = cause.startswith("no ") and cause.endswith(" is missing")
    return cause if missing or ":" not in cause else f"{kind_of(cause)}: {HELD_BACK}"


def _with(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, column)


def _sealed(seal: Seal, whose: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.Array:
    """Each value of a subject is sealed once, however often it comes. One without a subject has
    a cause, and is no row; it is not kept."""
    subjects, texts = (_one(each).dictionary_encode() for each in (whose, values))
    several = len(texts.dictionary)
    if not several:
        return pa.nulls(len(values), pa.string())
    rows = pc.multiply(subjects.indices.cast(pa.int64()), several)
    coded = pc.add(rows, texts.indices.cast(pa.int64())).dictionary_encode()
    names, given = subjects.dictionary.to_pylist(), texts.dictionary.to_pylist()
    pairs = [(names[n // several], given[n % several]) for n in coded.dictionary.to_pylist()]
    return pa.array(seal(pairs), pa.string()).take(coded.indices)


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _sealed_inside(
    seal: Seal, personal: Personal, whose: pa.ChunkedArray, texts: pa.ChunkedArray
) -> pa.Array:
    """Fields of JSON objects: the personal ones, and those that nobody knows. What is no object
    could be anything, and what has no subject cannot be sealed: neither is kept."""
    pairs = list(zip(whose.to_pylist(), texts.to_pylist(), strict=True))
    rows = [None if subject is None else _object(text) for subject, text in pairs]
    found = [
        (str(subject), row)
        for row, (subject, _) in zip(rows, pairs, strict=True)
        if row is not None
    ]
    seal_fields(seal, personal.known, found)
    return pa.array([None if row is None else exact.dumps(row) for row in rows], pa.string())


def seal_fields(
    seal: Seal, known: Collection[str], objects: Iterable[tuple[str, dict[str, Any]]]
) -> None:
    """Of objects, each given with its subject: all fields but those that are known to be open."""
    places = [
        (row, name, subject, each if isinstance(each, str) else exact.dumps(each))
        for subject, row in objects
        for name, each in row.items()
        if name not in known and each is not None
    ]
    found = seal([(subject, value) for _, _, subject, value in places])
    for (row, name, _, _), text in zip(places, found, strict=True):
        row[name] = text


def _object(text: str | None) -> dict[str, Any] | None:
    try:
        found = None if text is None else exact.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
