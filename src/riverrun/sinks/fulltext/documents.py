"""Rows as documents of an index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import pyarrow as pa
from tantivy import Document

from riverrun.delivery.encode import key_of
from riverrun.formats import JSON
from riverrun.outputs import Evaluator, OutputSpec, Part, Rows
from riverrun.schema import quoted
from riverrun.sinks.database import Changes
from riverrun.sinks.fulltext.analysis import indexed
from riverrun.sinks.fulltext.layout import KEY, ROW, Field, Layout
from riverrun.sinks.progress import Progress, progress_of

ADD: dict[str, Callable[[Document, str, Any], None]] = {
    "text": lambda document, name, value: document.add_text(name, indexed(value)),
    "word": Document.add_text,
    "integer": Document.add_integer,
    "unsigned": Document.add_unsigned,
    "float": Document.add_float,
    "boolean": Document.add_boolean,
    "time": Document.add_integer,
    "clock": Document.add_integer,
}


@dataclass(frozen=True)
class Load:
    """What becomes of a part's rows: documents to add, and keys of those that go before."""

    put: pa.Table
    """Rows, with their key and their text beside them."""
    replaced: tuple[str, ...]
    gone: tuple[str, ...]
    """Those of them that nothing comes in the place of."""
    fields: tuple[Field, ...]
    checked: tuple[pa.Table, ...]
    """What the checksum is of."""

    def documents(self) -> Iterator[Document]:
        """Made one by one: a part may be large."""
        columns = [self.put[field.name].to_pylist() for field in self.fields]
        ways = [(ADD[field.kind], field.name, field.many) for field in self.fields]
        keys, rows = self.put[KEY].to_pylist(), self.put[ROW].to_pylist()
        for key, row, *values in zip(keys, rows, *columns, strict=True):
            document = Document()
            if key is not None:
                document.add_text(KEY, key)
            document.add_bytes(ROW, row)
            for (add, name, many), value in zip(ways, values, strict=True):
                if value is not None:
                    for each in value if many else (value,):
                        if each is not None:
                            add(document, name, each)
            yield document

    def progress(self, part: Part) -> Progress:
        return progress_of(part, list(self.checked))


def load(found: Sequence[Rows], layout: Layout, evaluator: Evaluator) -> Load:
    """Of one output; a union comes by several ways."""
    output = found[0][0]
    changes = Changes(output, pa.concat_tables([rows for _, rows in found]), evaluator, None)
    fresh, changed, gone = changes.fresh(), changes.changed(), changes.gone()
    rows = pa.concat_tables([fresh, changed]) if changed is not None else fresh
    keys = keys_of(output, rows)
    texts = JSON.encode(rows, layout.row).cast(pa.binary())
    fields = tuple(layout.fields.values())
    put = _fields(rows, fields, evaluator).append_column(KEY, keys).append_column(ROW, texts)
    removed = keys_of(output, gone) if gone is not None else pa.nulls(0, pa.string())
    told = tuple(keys.drop_null().to_pylist())
    lost = tuple(removed.to_pylist())
    checked = (put.select([KEY, ROW]), pa.table({KEY: removed}))
    return Load(put, (*told, *lost), lost, fields, checked)


def _fields(rows: pa.Table, fields: Sequence[Field], evaluator: Evaluator) -> pa.Table:
    chosen = [f"{field.expression()} AS {quoted(field.name)}" for field in fields]
    return evaluator.run(f"SELECT {', '.join(chosen)} FROM rows", rows=rows)


def keys_of(output: OutputSpec, rows: pa.Table) -> pa.Array:
    """As long for any key: tantivy takes no long ones."""
    if not output.table:
        return pa.nulls(rows.num_rows, pa.string())
    texts = JSON.encode_key(rows.select(list(output.key)), key_of(output), table=True)
    return pa.array([hashed(text) for text in texts.to_pylist()], pa.string())


def hashed(key: str) -> str:
    return blake2b(key.encode(), digest_size=16).hexdigest()
