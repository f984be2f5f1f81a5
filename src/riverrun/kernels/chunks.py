"""Packed rows: columnar frames as bytes, cut by the page that their key belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
import polars_hash as plh
from polars.datatypes import DataTypeClass

from riverrun.edges import Edge

Type = pl.DataType | DataTypeClass


class Chunk(NamedTuple):
    """What travels: rows of one edge for one page, in an order that does not depend on arrival."""

    page: int
    edge: Edge
    seq: int
    data: bytes


def task_of(page: int, pages: int, tasks: int) -> int:
    """Which of so many tasks visits a page: whole runs of them, in their order. So what leaves an
    exchange, task after task, is in the order of pages, however many tasks there are."""
    return page * tasks // pages


def pack(
    frame: pl.DataFrame, compression: Literal["uncompressed", "lz4"] = "uncompressed"
) -> bytes:
    buffer = BytesIO()
    # texts in lists and structs are views of buffers that Polars writes as a whole, with every part
    nested = any(dtype.is_nested() for dtype in frame.dtypes)
    level = pl.CompatLevel.oldest() if nested else None
    frame.write_ipc_stream(buffer, compression=compression, compat_level=level)
    return buffer.getvalue()


def unpack(data: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(data)


def unpack_all(chunks: list[Chunk]) -> pl.DataFrame:
    """The rows of all chunks in canonical order."""
    ordered = sorted(chunks, key=lambda chunk: (chunk.seq, chunk.page))
    frames = [unpack(chunk.data) for chunk in ordered]
    alike = all(frame.columns == frames[0].columns for frame in frames)
    return pl.concat(frames, how="vertical" if alike else "diagonal")


def with_hash(frame: pl.DataFrame, keys: tuple[str, ...]) -> pl.DataFrame:
    """Adds `__hash`, the xxhash of the key's text: the same in every version and process."""
    types = {key: frame.schema[key] for key in keys}
    frame = frame.with_columns(
        _one_zero(pl.col(key), type).alias(key) for key, type in types.items() if _has_floats(type)
    )
    texts = [_text(pl.col(key), type).fill_null("\x00") for key, type in types.items()]
    joined = texts[0] if len(texts) == 1 else pl.concat_str(texts, separator="\x1f")
    return (
        frame.with_columns(joined.alias("__text"))
        .with_columns(__hash=plh.col("__text").nchash.xxhash64())
        .drop("__text")
    )


def _text(key: pl.Expr, type: Type) -> pl.Expr:
    if type.is_temporal():  # as a number: Polars panics at the text of years that are far away
        return key.to_physical().cast(pl.String)
    if isinstance(type, pl.Array):
        return _text(key.arr.to_list(), pl.List(type.inner))
    if isinstance(type, pl.List):
        return key.list.eval(_part(_text(pl.element(), type.inner))).list.join("")
    if isinstance(type, pl.Struct):
        # Polars' own text of structs rounds numbers, as its settings say
        fields = type.to_schema().items()
        parts = [_part(_text(key.struct.field(name), inner)) for name, inner in fields]
        return pl.when(key.is_not_null()).then(pl.concat_str(parts))
    return key.cast(pl.String)


def _part(text: pl.Expr) -> pl.Expr:
    """With its length before it, so that no other parts give the same text: `mark_seen` may go by
    the hash alone."""
    return pl.concat_str(text.str.len_bytes(), pl.lit(":"), text).fill_null("-")


def _has_floats(type: Type) -> bool:
    if isinstance(type, pl.Struct):
        return any(map(_has_floats, type.to_schema().values()))
    if isinstance(type, pl.List | pl.Array):
        return _has_floats(type.inner)
    return type.is_float()


def _one_zero(key: pl.Expr, type: Type) -> pl.Expr:
    """-0.0 is the same key as 0.0."""
    if isinstance(type, pl.Struct):
        return key.struct.with_fields(
            _one_zero(pl.field(name), inner).alias(name)
            for name, inner in type.to_schema().items()
            if _has_floats(inner)
        )
    if isinstance(type, pl.List):
        return key.list.eval(_one_zero(pl.element(), type.inner))
    if isinstance(type, pl.Array):
        return _one_zero(key.arr.to_list(), pl.List(type.inner)).list.to_array(type.size)
    # not `+ 0.0`, which Polars leaves out
    return pl.when(key == 0).then(pl.lit(0.0, type)).otherwise(key)


def by_page(frame: pl.DataFrame, pages: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """Cuts rows with a `__hash` into the pages they belong to, keeping their order."""
    page = (frame["__hash"].to_numpy() % pages).astype(np.uint16)
    order = np.argsort(page, kind="stable")
    sizes = np.bincount(page, minlength=pages)
    sorted_frame = frame[order]
    start = 0
    for number in np.flatnonzero(sizes).tolist():
        yield number, sorted_frame.slice(start, int(sizes[number]))
        start += int(sizes[number])
